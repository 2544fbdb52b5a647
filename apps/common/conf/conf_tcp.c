/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The keys of [tcp], which set weft/tcp_attr.h. */

#include "conf_key.h"

#define F(field)                                                                                   \
	.off = offsetof(struct weft_tcp_attr, field),                                              \
	.size = sizeof(((struct weft_tcp_attr *)0)->field)

const struct conf_key conf_keys_tcp[CONF_TCP_KEYS] = {
        {"max_conns", CONF_T_U32, F(max_conns), .min = 1, .max = 16777216, .unset = "`1024`",
         .help = "connections that a worker has room for, those in TIME-WAIT included"},
        {"rcv_buf_bytes", CONF_T_U32, F(rcv_buf_bytes), .min = 4096, .max = 1073725440,
         .unset = "`1048576`", .help = "largest receive window of a connection, in octets"},
        {"snd_buf_bytes", CONF_T_U32, F(snd_buf_bytes), .min = 4096, .max = 1073741824,
         .unset = "`4194304`",
         .help = "octets of a connection that may be queued and not acknowledged. Further data "
                 "waits"},
        {"max_ooo_bytes", CONF_T_U32, F(max_ooo_bytes), .min = 1, .max = 1073741824,
         .unset = "`rcv_buf_bytes`",
         .help = "out-of-order octets that are kept for a connection. The peer sends further ones "
                 "again"},
        {"rto_min_us", CONF_T_U32, F(rto_min_us), .min = 1000, .max = 60000000, .unset = "`200000`",
         .help = "lower bound of the retransmission timeout, in microseconds. Keep it above the "
                 "peer's `idle_sleep_us`, or what ends the peer's sleep is sent twice"},
        {"rto_max_us", CONF_T_U32, F(rto_max_us), .min = 1000000, .max = 4000000000,
         .unset = "`60000000`",
         .help = "upper bound of the retransmission timeout, in microseconds, at least "
                 "`rto_min_us`"},
        {"rto_initial_us", CONF_T_U32, F(rto_initial_us), .min = 1000, .max = 60000000,
         .unset = "`1000000`, or the nearest bound",
         .help = "retransmission timeout before the first measurement (RFC 6298 s2.1), in "
                 "microseconds. It lies between `rto_min_us` and `rto_max_us`"},
        {"syn_retries", CONF_T_U32, F(syn_retries), .min = 1, .max = 20, .unset = "`7`",
         .help = "retransmissions of a SYN before the connection fails"},
        {"data_retries", CONF_T_U32, F(data_retries), .min = 1, .max = 30, .unset = "`8`",
         .help = "retransmission timeouts in a row that end a connection"},
        {"delack_us", CONF_T_U32, F(delack_us), .min = 1, .max = 500000, .unset = "`500`",
         .help = "longest delay of an acknowledgment, in microseconds"},
        {"time_wait_us", CONF_T_U32, F(time_wait_us), .min = 1000, .max = 240000000,
         .unset = "`1000000`", .help = "time in TIME-WAIT, in microseconds"},
        {"fin_wait2_us", CONF_T_U32, F(fin_wait2_us), .min = 1000, .max = 4294967295,
         .unset = "`60000000`",
         .help = "time in FIN-WAIT-2, in microseconds, after which a connection ends whose peer "
                 "sends nothing. `4294967295`: no limit"},
        {"user_timeout_us", CONF_T_U32, F(user_timeout_us), .min = 1000, .max = 4000000000,
         .unset = "`100000000`",
         .help = "time, in microseconds, after which a connection ends if nothing of its queued "
                 "data was acknowledged (RFC 5482)"},
        {"keepalive_us", CONF_T_U32, F(keepalive_us), .min = 1000, .max = 4000000000,
         .unset = "no probes; weft-target: `keepalive_ms`",
         .help = "idle time of a connection, in microseconds, after which the first keepalive "
                 "probe is sent"},
        {"keepalive_intvl_us", CONF_T_U32, F(keepalive_intvl_us), .min = 1000, .max = 4000000000,
         .unset = "a third of `keepalive_us`",
         .help = "time between keepalive probes, in microseconds"},
        {"keepalive_probes", CONF_T_U32, F(keepalive_probes), .min = 1, .max = 100, .unset = "`3`",
         .help = "unanswered keepalive probes that end a connection"},
        {"initial_cwnd_segs", CONF_T_U32, F(initial_cwnd_segs), .min = 1, .max = 100,
         .unset = "`10`",
         .help = "segments that may be sent before the first acknowledgment (RFC 6928)"},
        {"cc", CONF_T_CHOICE, F(cc), .choices = "default|cubic|newreno", .dflt = "default",
         .help = "congestion control: `cubic` (RFC 9438) or `newreno` (RFC 5681). `default` is "
                 "`cubic`"},
        {"ecn", CONF_T_CHOICE, F(ecn), .choices = "default|off|passive|on", .dflt = "default",
         .help = "Explicit Congestion Notification (RFC 3168). `off`: never. `passive`: if the "
                 "peer asks for it. `on`: this side asks for it, too. `default` is `passive`"},
        {"syn_cookies", CONF_T_CHOICE, F(syn_cookies), .choices = "default|auto|always|never",
         .dflt = "default",
         .help = "SYN cookies (RFC 4987 s3.6). `auto`: while a backlog is full. `always`, `never`. "
                 "`default` is `auto`"},
        {"no_timestamps", CONF_T_BOOL, F(no_timestamps), .dflt = "no",
         .help = "`yes`: time stamps (RFC 7323) are neither asked for nor granted"},
        {"no_sack", CONF_T_BOOL, F(no_sack), .dflt = "no",
         .help = "`yes`: selective acknowledgments (RFC 2018) are neither asked for nor granted"},
        {"no_window_scale", CONF_T_BOOL, F(no_window_scale), .dflt = "no",
         .help = "`yes`: window scale (RFC 7323) is neither asked for nor granted"},
        {"no_quick_acks", CONF_T_BOOL, F(no_quick_acks), .dflt = "no",
         .help = "`yes`: acknowledgments are delayed from the first segment on. `no`: the first "
                 "ones, and those after a pause or a loss, leave at once"},
        {"no_tso", CONF_T_BOOL, F(no_tso), .dflt = "no",
         .help = "`yes`: the port never gets several segments as one (TSO)"},
        {"no_pmtu", CONF_T_BOOL, F(no_pmtu), .dflt = "no",
         .help = "`yes`: no path MTU discovery. Packet-too-big messages are ignored, and black "
                 "holes are not searched for"},
        {"max_half_open", CONF_T_U32, F(max_half_open), .min = 1, .max = 16777216,
         .unset = "a quarter of `max_conns`",
         .help = "half-open connections of all listeners of a worker"},
        {"max_conns_per_peer", CONF_T_U32, F(max_conns_per_peer), .min = 1, .max = 16777216,
         .unset = "half of `max_conns`, or of the number that the port's `mbufs` suffice for, at "
                  "least 8",
         .help = "connections that one address may open to a worker. An IPv6 /64 counts as one "
                 "address, and so do all link-local addresses"},
        {"max_accepts_per_s", CONF_T_U32, F(max_accepts_per_s), .min = 1, .max = 4294967295,
         .unset = "no limit",
         .help = "connections that a worker accepts in a second. A SYN beyond it is dropped, and "
                 "the peer sends it again"},
        {"max_time_wait", CONF_T_U32, F(max_time_wait), .min = 1, .max = 16777216,
         .unset = "half of `max_conns`",
         .help = "connections of a worker in TIME-WAIT. One more ends the oldest"},
        {"challenge_acks_per_s", CONF_T_U32, F(challenge_acks_per_s), .min = 1, .max = 4294967295,
         .unset = "`1000`", .help = "challenge ACKs that a worker sends in a second (RFC 5961 s7)"},
        {"resets_per_s", CONF_T_U32, F(resets_per_s), .min = 1, .max = 4294967295,
         .unset = "`1000`",
         .help = "RSTs that a worker sends in a second, on average, for segments without a "
                 "connection. The limit of each second is random around this value. One address "
                 "(IPv6: one /64) gets an eighth"},
        {"min_mss_bytes", CONF_T_U32, F(min_mss_bytes), .min = 1, .max = 1460, .unset = "`64`",
         .help = "least MSS, in octets. A smaller MSS option of the peer counts as this"},
        {"max_snd_segs", CONF_T_U32, F(max_snd_segs), .min = 4, .max = 16777216, .unset = "`2048`",
         .help = "packet buffers of a connection that may be queued and not acknowledged. Further "
                 "data waits"},
        {"max_snd_segs_total", CONF_T_U32, F(max_snd_segs_total), .min = 4, .max = 16777216,
         .unset = "five eighths of the port's buffers for sending, divided by its workers",
         .help = "the same for all connections of a worker over one port. The default is also the "
                 "most"},
        {"max_ooo_mbufs", CONF_T_U32, F(max_ooo_mbufs), .min = 1, .max = 16777216,
         .unset = "`1024`",
         .help = "packet buffers of a connection that may hold out-of-order octets"},
        {"max_ooo_mbufs_total", CONF_T_U32, F(max_ooo_mbufs_total), .min = 1, .max = 16777216,
         .unset = "three eighths of the port's buffers for receiving, divided by its workers",
         .help = "the same for all connections of a worker over one port. The default is also the "
                 "most"},
        {"ooo_timeout_us", CONF_T_U32, F(ooo_timeout_us), .min = 1000000, .max = 4000000000,
         .unset = "`30000000`",
         .help = "time, in microseconds, after which out-of-order octets are dropped if the gap "
                 "before them is not filled. The peer sends them again"},
        {"snd_stall_us", CONF_T_U32, F(snd_stall_us), .min = 1000000, .max = 4000000000,
         .unset = "`30000000`",
         .help = "time, in microseconds, after which a connection is late that has not had all its "
                 "queued data acknowledged. A late connection ends when others need its buffers"},
        {"pmtu_raise_us", CONF_T_U32, F(pmtu_raise_us), .min = 1000000, .max = 4294967295,
         .unset = "`600000000`",
         .help = "time, in microseconds, after which a larger packet is tried again (RFC 1191 "
                 "s6.3)"},
        {"blackhole_rtos", CONF_T_U32, F(blackhole_rtos), .min = 1, .max = 30, .unset = "`3`",
         .help = "retransmission timeouts of one large segment after which a smaller size is tried "
                 "(RFC 2923 s2.1)"},
};
