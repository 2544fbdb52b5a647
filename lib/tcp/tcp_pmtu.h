/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_PMTU_H
#define TCP_PMTU_H

/**
 * @file
 * The path MTU of a connection (RFC 1191, RFC 8201, RFC 4821) and its effective MSS.
 */

#include "weft_tcp.h"

struct tcp_seg;

/* tcp_pmtu.c */
/** Computes the effective MSS from path, peer and options. Call on every change of these. */
void tcp_mss_update(struct weft_tcp_conn *c);
void tcp_pmtu_init(struct weft_tcp_conn *c);
/** Processes an ICMP packet-too-big about a segment of c. True: call tcp_output(). */
bool tcp_pmtu_too_big(struct weft_tcp_conn *c, const struct weft_icmp_error *e, uint64_t now_ns);
/** s is sent again while a packet-too-big awaits proof. */
void tcp_pmtu_lost(struct weft_tcp_conn *c, const struct tcp_seg *s, uint64_t now_ns);
/** The retransmission timer has fired; `retries` counts it. */
void tcp_pmtu_timeout(struct weft_tcp_conn *c, uint64_t now_ns);
/** The link of this end is back: a search for a size that passes has found nothing out. */
void tcp_pmtu_link_up(struct weft_tcp_conn *c, uint64_t now_ns);
/** Segments were acknowledged while pmtu_watch is set or a packet-too-big awaits proof. */
void tcp_pmtu_progress(struct weft_tcp_conn *c);
/** pmtu_raise_ns is reached. */
void tcp_pmtu_raise(struct weft_tcp_conn *c, uint64_t now_ns);
/** Follows the interface's MTU. True: it is less than the size in use, and the MSS followed. */
bool tcp_pmtu_clamp(struct weft_tcp_conn *c);

#endif /* TCP_PMTU_H */
