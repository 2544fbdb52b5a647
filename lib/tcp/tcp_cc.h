/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_CC_H
#define TCP_CC_H

/**
 * @file
 * Congestion control (RFC 5681, RFC 9438, RFC 3168): the algorithms, and the events that change
 * cwnd and ssthresh.
 */

#include "weft_tcp.h"
#include "weft_netif.h"

struct tcp_cubic;

/** The most segments that one ACK adds to cwnd in slow start: weft sends one ACK per receive
 * burst. */
#define TCP_SLOW_START_SEGS WEFT_NETIF_BURST

/** A congestion control algorithm. A slot is required unless its comment says "may be NULL". */
struct tcp_cc_ops {
	const char *name;
	/** Resets the algorithm's own state. */
	void (*init)(struct weft_tcp_conn *c);
	/** A congestion event. Returns the new ssthresh, at least 2 MSS. flight is FlightSize. */
	uint32_t (*ssthresh)(struct weft_tcp_conn *c, uint32_t flight, uint64_t now_ns);
	/** Congestion avoidance: raises cwnd for newly acknowledged octets. */
	void (*acked)(struct weft_tcp_conn *c, uint32_t acked, uint64_t now_ns);
	/** The event was a timeout. Called after ssthresh. May be NULL. */
	void (*timeout)(struct weft_tcp_conn *c);
	/** cwnd has not been the limit until now. May be NULL. */
	void (*unused)(struct weft_tcp_conn *c, uint64_t now_ns);
};
extern const struct tcp_cc_ops tcp_cubic_ops, tcp_newreno_ops;

/* tcp_cc.c */
void tcp_cc_init(struct weft_tcp_conn *c, bool syn_lost);
/** Sending has stopped: notes whether cwnd was the reason, or nearly. */
void tcp_cc_used(struct weft_tcp_conn *c);
/** Grows cwnd for octets acknowledged outside recovery. */
void tcp_cc_grow(struct weft_tcp_conn *c, uint32_t acked, uint64_t now_ns);
/** A congestion event: sets ssthresh and saves the state for an undo. The caller sets cwnd. */
void tcp_cc_reduce(struct weft_tcp_conn *c, uint64_t now_ns);
void tcp_cc_timeout(struct weft_tcp_conn *c, uint64_t now_ns);
/** Takes the last reduction back: it was spurious. */
void tcp_cc_undo(struct weft_tcp_conn *c);
/** An ACK with ECE on a connection with ECN: reduces once per window; CWR follows. */
void tcp_cc_ece(struct weft_tcp_conn *c, uint64_t now_ns);
/** Before data is sent after a pause (RFC 5681 s4.1). */
void tcp_cc_idle(struct weft_tcp_conn *c, uint64_t now_ns);

/* tcp_cubic.c: the curve, for its test */
uint32_t tcp_cubic_k(uint32_t deficit, uint16_t mss);
uint32_t tcp_cubic_w(const struct tcp_cubic *q, uint64_t t_ns, uint16_t mss);
/** cwnd, plus one segment for each of the first two duplicate ACKs (RFC 3042). */
uint32_t tcp_cong_wnd(const struct weft_tcp_conn *c);

#endif /* TCP_CC_H */
