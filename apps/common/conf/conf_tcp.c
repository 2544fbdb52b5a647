/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The keys of [tcp], which set weft/tcp_attr.h. */

#include "conf_key.h"

#define F(field)                                                                                   \
	.off = offsetof(struct weft_tcp_attr, field),                                              \
	.size = sizeof(((struct weft_tcp_attr *)0)->field)

const struct conf_key conf_keys_tcp[CONF_TCP_KEYS] = {
        {"max_conns", CONF_T_U32, F(max_conns), .min = 1, .max = 16777216,
         .help = "connections of a worker, TIME-WAIT included; [1024]"},
        {"rcv_buf_bytes", CONF_T_U32, F(rcv_buf_bytes), .min = 4096, .max = 1073725440,
         .help = "receive window offered; [1048576]"},
        {"snd_buf_bytes", CONF_T_U32, F(snd_buf_bytes), .min = 4096, .max = 1073741824,
         .help = "octets that a connection may have queued and unacknowledged; [4194304]"},
        {"max_ooo_bytes", CONF_T_U32, F(max_ooo_bytes), .min = 1, .max = 1073741824,
         .help = "out-of-order octets kept of a connection; [`rcv_buf_bytes`]"},
        {"rto_min_us", CONF_T_U32, F(rto_min_us), .min = 1000, .max = 60000000,
         .help = "least retransmission timeout; [200000]"},
        {"rto_max_us", CONF_T_U32, F(rto_max_us), .min = 1000000, .max = 4000000000,
         .help = "greatest one, at least `rto_min_us`; [60000000]"},
        {"rto_initial_us", CONF_T_U32, F(rto_initial_us), .min = 1000, .max = 60000000,
         .help = "the first one (RFC 6298 s2.1), not outside of these two; [1000000, or the "
                 "nearest between them]"},
        {"syn_retries", CONF_T_U32, F(syn_retries), .min = 1, .max = 20,
         .help = "of a connection request; [7]"},
        {"data_retries", CONF_T_U32, F(data_retries), .min = 1, .max = 30,
         .help = "timeouts in a row that end a connection; [8]"},
        {"delack_us", CONF_T_U32, F(delack_us), .min = 1, .max = 500000,
         .help = "longest that an acknowledgment is put off; [500]"},
        {"time_wait_us", CONF_T_U32, F(time_wait_us), .min = 1000, .max = 240000000,
         .help = "TIME-WAIT; [1000000]"},
        {"fin_wait2_us", CONF_T_U32, F(fin_wait2_us), .min = 1000, .max = 4294967295,
         .help = "half-closed without a word from the peer; [60000000]"},
        {"user_timeout_us", CONF_T_U32, F(user_timeout_us), .min = 1000, .max = 4000000000,
         .help = "nothing acknowledged for so long ends a connection (RFC 5482); [100000000]"},
        {"keepalive_us", CONF_T_U32, F(keepalive_us), .min = 1000, .max = 4000000000,
         .help = "idle time before the first probe; [never; weft-target has its own]"},
        {"keepalive_intvl_us", CONF_T_U32, F(keepalive_intvl_us), .min = 1000, .max = 4000000000,
         .help = "between probes; [a third of `keepalive_us`]"},
        {"keepalive_probes", CONF_T_U32, F(keepalive_probes), .min = 1, .max = 100,
         .help = "unanswered ones that end a connection; [3]"},
        {"initial_cwnd_segs", CONF_T_U32, F(initial_cwnd_segs), .min = 1, .max = 100,
         .help = "segments sent before the first acknowledgment (RFC 6928); [10]"},
        {"cc", CONF_T_CHOICE, F(cc), .choices = "default|cubic|newreno", .dflt = "default",
         .help = "congestion control: RFC 9438 or RFC 5681; [cubic]"},
        {"ecn", CONF_T_CHOICE, F(ecn), .choices = "default|off|passive|on", .dflt = "default",
         .help = "RFC 3168: never, when the peer asks, always asked for; [passive]"},
        {"syn_cookies", CONF_T_CHOICE, F(syn_cookies), .choices = "default|auto|always|never",
         .dflt = "default", .help = "RFC 4987 s3.6: `auto` while a backlog is full; [auto]"},
        {"no_timestamps", CONF_T_BOOL, F(no_timestamps), .dflt = "no",
         .help = "neither ask for RFC 7323's time stamps nor grant them"},
        {"no_sack", CONF_T_BOOL, F(no_sack), .dflt = "no",
         .help = "likewise selective acknowledgments (RFC 2018)"},
        {"no_window_scale", CONF_T_BOOL, F(no_window_scale), .dflt = "no",
         .help = "likewise window scale (RFC 7323)"},
        {"no_quick_acks", CONF_T_BOOL, F(no_quick_acks), .dflt = "no",
         .help = "delay acknowledgments from the first segment on"},
        {"no_tso", CONF_T_BOOL, F(no_tso), .dflt = "no",
         .help = "never hand several segments to the port as one"},
        {"no_pmtu", CONF_T_BOOL, F(no_pmtu), .dflt = "no",
         .help = "neither believe packet-too-big nor look for black holes"},
        {"max_half_open", CONF_T_U32, F(max_half_open), .min = 1, .max = 16777216,
         .help = "connection requests of all listeners of a worker that wait for their last "
                 "acknowledgment; [a quarter of `max_conns`]"},
        {"max_conns_per_peer", CONF_T_U32, F(max_conns_per_peer), .min = 1, .max = 16777216,
         .help = "connections that one address (of IPv6 one /64; all link-local ones are one) may "
                 "open to a "
                 "worker; [half of `max_conns`, or of what the port's `mbufs` admit, at least 8]"},
        {"max_accepts_per_s", CONF_T_U32, F(max_accepts_per_s), .min = 1, .max = 4294967295,
         .help = "connections accepted in a second; [no limit]"},
        {"max_time_wait", CONF_T_U32, F(max_time_wait), .min = 1, .max = 16777216,
         .help = "connections in TIME-WAIT; [half of `max_conns`]"},
        {"challenge_acks_per_s", CONF_T_U32, F(challenge_acks_per_s), .min = 1, .max = 4294967295,
         .help = "RFC 5961 s7; [1000]"},
        {"resets_per_s", CONF_T_U32, F(resets_per_s), .min = 1, .max = 4294967295,
         .help = "RSTs in a second for segments that no connection wants, on average (drawn "
                 "anew each second); one peer (address, IPv6 /64) gets an eighth; [1000]"},
        {"min_mss_bytes", CONF_T_U32, F(min_mss_bytes), .min = 1, .max = 1460,
         .help = "a smaller offer of a peer is taken as this; [64]"},
        {"max_snd_segs", CONF_T_U32, F(max_snd_segs), .min = 4, .max = 16777216,
         .help = "buffers that a connection may have queued and unacknowledged; [2048]"},
        {"max_snd_segs_total", CONF_T_U32, F(max_snd_segs_total), .min = 4, .max = 16777216,
         .help = "likewise all connections of a worker over one port; [five eighths of the port's "
                 "for "
                 "sending, divided by its workers, which is also the most]"},
        {"max_ooo_mbufs", CONF_T_U32, F(max_ooo_mbufs), .min = 1, .max = 16777216,
         .help = "buffers with out-of-order octets of a connection; [1024]"},
        {"max_ooo_mbufs_total", CONF_T_U32, F(max_ooo_mbufs_total), .min = 1, .max = 16777216,
         .help = "likewise all connections of a worker over one port; [three eighths of the port's "
                 "for receiving, divided by its workers, which is also the most]"},
        {"ooo_timeout_us", CONF_T_U32, F(ooo_timeout_us), .min = 1000000, .max = 4000000000,
         .help = "out-of-order octets are given up when their gap is not filled for so long; the "
                 "peer sends them again; [30000000]"},
        {"snd_stall_us", CONF_T_U32, F(snd_stall_us), .min = 1000000, .max = 4000000000,
         .help = "ends a connection that has not had acknowledged, in so long, all that it had "
                 "queued, while others need the buffers; [30000000]"},
        {"pmtu_raise_us", CONF_T_U32, F(pmtu_raise_us), .min = 1000000, .max = 4294967295,
         .help = "after so long a larger packet is tried again (RFC 1191 s6.3); [600000000]"},
        {"blackhole_rtos", CONF_T_U32, F(blackhole_rtos), .min = 1, .max = 30,
         .help = "timeouts of one large segment before a smaller size is tried (RFC 2923 s2.1); "
                 "[3]"},
};
