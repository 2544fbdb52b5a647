/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_SHARE_H
#define TCP_SHARE_H

/**
 * @file
 * How the connections over one interface share the buffers of its port.
 */

#include "tcp_instance.h"
#include "weft_netif_budget.h"

/** Connections checked in one turn, and the time in which all are checked, unless they are very
 * many. */
#define TCP_SWEEP_CONNS 256u
#define TCP_SWEEP_NS    WEFT_NS_PER_S

/* tcp_sweep.c */
void tcp_share_init(struct weft_tcp *t);

/* tcp_share.c */
/** Arms the timer of the sweep. */
void tcp_sweep_arm(struct weft_tcp *t);
/** Segments that connections may borrow, together. */
uint32_t tcp_share_common(const struct tcp_share *s);
/** Whether a connection was refused segments a short time ago. */
bool tcp_share_pressed(const struct tcp_share *s, uint64_t now_ns);
/** Whether connections were wanted for which there are no buffers. */
bool tcp_share_is_crowded(struct weft_tcp *t, const struct tcp_share *s, uint64_t now_ns);
/** Segments ahead of gaps that each connection may always have. */
uint32_t tcp_share_fair(const struct weft_tcp_conn *c);
/** Whether the listener's user can give up a connection for this address. take: it does so now. */
bool tcp_user_room(const struct weft_tcp_listener *l, const struct weft_ip *ip, bool take);
/** The share of an interface. NULL: too many interfaces have connections. */
struct tcp_share *tcp_share_of(struct weft_tcp *t, struct weft_netif *nif);
/** Whether buffers can be reserved for one more connection over nif. */
bool tcp_share_room(struct weft_tcp *t, struct weft_netif *nif);
/** A connection was wanted and had no buffers: the next sweep ends overdue borrowers. */
void tcp_share_crowded(struct weft_tcp *t, struct weft_netif *nif);
/** Like tcp_share_room(); may end a connection of the listener's user. For an address that has
 * completed a handshake. */
bool tcp_make_share_room(struct weft_tcp *t, struct weft_netif *nif,
                         const struct weft_tcp_listener *l, const struct weft_ip *ip);
/** Reserves buffers for a connection that is established. False: none are left. */
bool tcp_share_join(struct weft_tcp_conn *c);
/** Ends the reservation: the connection queues nothing any more. */
void tcp_share_leave(struct weft_tcp_conn *c);
/** Segments that the connection may still queue. 0 only while it has segments queued: their ACK
 * makes room, so the connection need not wait for others. */
uint32_t tcp_segs_room(const struct weft_tcp_conn *c);
/** Notes that tcp_segs_room() was 0 for a connection with data to queue. */
void tcp_share_refused(struct weft_tcp_conn *c);
/** Begins the next lap: all that was queued at the last one's start is acknowledged, or the queue
 * was empty. */
void tcp_share_lap(struct weft_tcp_conn *c, uint64_t now_ns);
/** The connection begins to borrow; its charge is in snd_segs. */
void tcp_share_borrow(struct weft_tcp_conn *c);
/** Charges n mbufs of the send queue, whatever the room. */
static inline void
tcp_share_add(struct weft_tcp_conn *c, uint32_t n)
{
	struct tcp_share *s = c->share;
	struct weft_netif_budget *b = &s->lent->snd;

	c->snd_segs += n;
	c->t->snd_segs += n;
	b->held += n;
	b->most = RTE_MAX(b->most, b->held);
	if (likely(c->borrows))
		s->common += n;
	else if (c->snd_segs > s->own)
		tcp_share_borrow(c);
}
void tcp_share_sub(struct weft_tcp_conn *c, uint32_t n);
/** Whether a segment ahead of a gap would be dropped for lack of buffers. */
bool tcp_share_ooo_full(const struct weft_tcp_conn *c);
/** Makes room for n mbufs ahead of a gap, of which the connection frees `freed`. Other connections
 * that have more may lose octets. */
bool tcp_share_ooo_room(struct weft_tcp_conn *c, uint32_t n, uint32_t freed);
void tcp_share_ooo_add(struct weft_tcp_conn *c, uint32_t n);
void tcp_share_ooo_sub(struct weft_tcp_conn *c, uint32_t n);

#endif /* TCP_SHARE_H */
