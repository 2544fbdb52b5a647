/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_DEFEND_H
#define TCP_DEFEND_H

/**
 * @file
 * Defence against peers that forge segments or take too much: SYN cookies (RFC 4987), limits on
 * accepted connections and on answers per second (RFC 5961), connections of one peer.
 */

#include "weft_tcp.h"

#include "tcp_wire.h"

struct tcp_in;

/** Connections that one remote address may have at least, unless max_conns is smaller. */
#define TCP_PEER_CONNS_MIN  8u
#define TCP_CHALLENGE_PER_S 10 /* RFC 5961 s7 */
/** Segments outside the window that are answered at once, per second. Later ones share one ACK. */
#define TCP_STRAY_PER_S   100
#define TCP_STRAY_LATE_NS (10 * WEFT_NS_PER_MS)

/* tcp_cookie.c */
struct tcp_cookie {
	struct tcp_opts opts; /**< of the SYN; the MSS rounded down */
	bool ecn;
};
/** The time slot of now_ns. */
uint64_t tcp_cookie_slot(const struct weft_tcp *t, uint64_t now_ns);
/** Answers a SYN with a cookie and keeps no state. */
void tcp_cookie_send(struct weft_tcp *t, struct weft_netif *nif, const struct weft_tcp_listener *l,
                     const struct tcp_in *in, uint64_t now_ns);
/** Whether a valid ACK of a cookie may still arrive. */
bool tcp_cookie_awaited(const struct weft_tcp *t, uint64_t now_ns);
/** Whether the segment acknowledges a cookie of ours. Fills k with what the cookie holds. */
bool tcp_cookie_check(const struct weft_tcp *t, const struct tcp_in *in, uint64_t now_ns,
                      struct tcp_cookie *k);

/* tcp_defend.c */
/** Whether one more connection may be accepted in this second. */
bool tcp_accept_rate_ok(struct weft_tcp *t, uint64_t now_ns);
void tcp_accept_count(struct weft_tcp *t, uint64_t now_ns);
/** Sends a challenge ACK, within the limits per second of the connection and of the instance. */
void tcp_challenge_ack(struct weft_tcp_conn *c, uint64_t now_ns);
int tcp_peers_create(struct weft_tcp *t);
void tcp_peers_destroy(struct weft_tcp *t);
/** The most octets that the table of peers takes for each of max_conns. */
size_t tcp_peer_bytes(void);
/** Answers data or a FIN outside the window: at once, or later when there are many. */
void tcp_stray_ack(struct weft_tcp_conn *c, uint64_t now_ns);
/** What max_conns_per_peer allows a peer. */
enum tcp_peer_room {
	TCP_PEER_ROOM, /**< one more connection */
	/** none, but some of its connections are half-open and their SYNs may be forged */
	TCP_PEER_HALF,
	TCP_PEER_FULL,
};
/** The room for connections over nif, whose buffers may admit fewer than max_conns. */
enum tcp_peer_room tcp_peer_room(struct weft_tcp *t, struct weft_netif *nif,
                                 const struct weft_ip *ip);
/** Counts c as half-open (n = 1), or no longer (n = -1). */
void tcp_peer_half(struct weft_tcp_conn *c, int n);
void tcp_peer_count(struct weft_tcp_conn *c);
void tcp_peer_uncount(struct weft_tcp_conn *c);
/** Answers a segment that no connection wants with a RST (RFC 9293 s3.10.7.1). dscp: of the
 * connection that refuses it, or of the port. */
void tcp_reset_reply(struct weft_tcp *t, struct weft_netif *nif, const struct tcp_in *in,
                     uint8_t dscp, uint64_t now_ns);

#endif /* TCP_DEFEND_H */
