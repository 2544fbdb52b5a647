/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TCP_INFO_H
#define WEFT_TCP_INFO_H

/** @file The state and the counters of one connection, for people. weft_tcp.h
 * includes this. Internal.
 */

#include "weft_base.h"

struct weft_tcp;
struct weft_tcp_conn;

/** RFC 9293 s3.3.2. */
enum weft_tcp_state {
	WEFT_TCP_CLOSED,
	WEFT_TCP_SYN_SENT,
	WEFT_TCP_SYN_RCVD,
	WEFT_TCP_ESTABLISHED,
	WEFT_TCP_FIN_WAIT_1,
	WEFT_TCP_FIN_WAIT_2,
	WEFT_TCP_CLOSE_WAIT,
	WEFT_TCP_CLOSING,
	WEFT_TCP_LAST_ACK,
	WEFT_TCP_TIME_WAIT,
	WEFT_TCP_NSTATES,
};

struct weft_tcp_info {
	enum weft_tcp_state state;
	struct weft_ip local, remote;
	uint16_t local_port, remote_port;
	uint32_t srtt_us, rttvar_us, rto_us;
	uint32_t cwnd_bytes, ssthresh_bytes, snd_wnd_bytes, rcv_wnd_bytes, unacked_bytes,
	        queued_bytes;
	uint16_t mss_bytes;
	uint64_t retrans_segs, rtos;
	const char *cc_name;
	uint8_t snd_wscale, rcv_wscale;
	/** in_recovery: recovering from a loss, timeouts included */
	bool timestamps, sack, ecn, in_recovery;
	uint16_t pmtu_bytes;
	uint8_t dscp; /**< of what is sent */
	uint32_t rcv_nxt, snd_una, snd_nxt;
	uint64_t segs_in, segs_out;
	/** in: delivered in order; out: sent, each octet counted once */
	uint64_t bytes_in, bytes_out;
	uint64_t dupacks_in, sack_blocks_in, ooo_segs, dup_bytes_in, fast_retrans, tlp_probes,
	        spurious_retrans;
	uint32_t min_rtt_us; /**< of the last seconds; 0: unknown */
	uint16_t rcv_mss_bytes;
	uint8_t backoff;                   /**< doublings of the RTO by timeouts */
	bool reordering;                   /**< segments have overtaken each other */
	uint32_t lost_bytes, sacked_bytes; /**< of what is sent and not acknowledged */
	uint32_t snd_mbufs;                /**< in the send queue */
	uint32_t ooo_mbufs, ooo_bytes;     /**< received ahead of a gap */
	uint32_t last_snd_ms, last_rcv_ms; /**< time since; UINT32_MAX: never */
	/** "retransmit", "reordering", "loss probe", "window probe" or "handshake"; "": off */
	const char *xmit_timer;
	/** Time until each timer; UINT64_MAX: off. life: user timeout, keepalive, TIME-WAIT. */
	uint64_t xmit_timer_us, delack_timer_us, life_timer_us;
};

/** What an instance may have at once, or do in a second, and what it has or has done. */
struct weft_tcp_limits {
	uint32_t conns, max_conns;
	uint32_t half_open, max_half_open;
	uint32_t time_wait, max_time_wait;
	/* In the present second. */
	uint32_t accepts, max_accepts_per_s; /**< 0: no limit */
	uint32_t resets, resets_per_s;
	uint32_t challenge_acks, challenge_acks_per_s;
};

/** On the worker's thread. */
void weft_tcp_limits(const struct weft_tcp *t, struct weft_tcp_limits *out);
/** On the worker's thread. */
void weft_tcp_info(const struct weft_tcp_conn *c, struct weft_tcp_info *info);

#endif /* WEFT_TCP_INFO_H */
