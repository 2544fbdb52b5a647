/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What the layer above may send: how much it may queue, and buffers for it. */

#include "tcp_cc.h"
#include "tcp_conn.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_math.h"
#include "tcp_share.h"
#include "tcp_snd.h"

/** Octets that may be queued by the windows and snd_buf_bytes alone. */
static uint32_t
tcp_window_space(const struct weft_tcp_conn *c)
{
	uint32_t limit = RTE_MIN(tcp_cong_wnd(c) + c->sacked_bytes, c->snd_wnd);

	return tcp_left(RTE_MIN(limit + TCP_QUEUE_AHEAD * c->mss, c->t->attr.snd_buf_bytes),
	                c->snd_end - c->snd_una);
}

uint32_t
tcp_space(const struct weft_tcp_conn *c)
{
	uint32_t room = weft_netif_tx_room(c->nif);
	uint32_t space, segs;

	if (!tcp_states[c->state].may_send || c->fin_out || room <= TCP_TX_SLACK)
		return 0;
	space = tcp_window_space(c);
	segs = tcp_segs_room(c);
	segs = RTE_MIN(segs, room - TCP_TX_SLACK);
	space = RTE_MIN(space, segs * c->mss);
	return space >= c->mss ? space : 0;
}

/** Notes that the user has to wait. Counts it once each time if a limit of ours is the reason. */
static void
tcp_starve(struct weft_tcp_conn *c)
{
	const struct weft_tcp_attr *a = &c->t->attr;
	bool no_segs = tcp_segs_room(c) == 0;

	if (no_segs && tcp_window_space(c) >= c->mss)
		tcp_share_refused(c);
	if (!c->starved && no_segs)
		c->t->stats.snd_segs_limit++;
	else if (!c->starved && c->snd_end - c->snd_una + c->mss > a->snd_buf_bytes)
		c->t->stats.snd_buf_limit++;
	c->starved = true;
}

/** Whether the connection must ask for room. Room in the port's queue comes from other connections;
 * for every other limit an ACK of its own wakes it. */
static bool
tcp_must_ask(const struct weft_tcp_conn *c)
{
	return weft_netif_tx_room(c->nif) <= TCP_TX_SLACK;
}

uint32_t
weft_tcp_send_space(const struct weft_tcp_conn *conn)
{
	/* The caller sees no change. The connection must remember that its user was told 0. */
	struct weft_tcp_conn *c = (struct weft_tcp_conn *)(uintptr_t)conn;
	uint32_t space = c->dead || c->detached ? 0 : tcp_space(c);

	if (space == 0 && !c->dead && tcp_states[c->state].may_send) {
		tcp_starve(c);
		if (tcp_must_ask(c))
			tcp_wait(c, 0);
	}
	return space;
}

void
tcp_tell_writable(struct weft_tcp_conn *c)
{
	if (c->dead || !c->starved || c->ops == NULL || !tcp_states[c->state].may_send)
		return;
	if (c->wants_mbuf) {
		struct rte_mbuf *m = weft_netif_alloc(c->nif, TCP_HEADROOM);

		if (m == NULL) {
			tcp_wait(c, 0);
			return;
		}
		rte_pktmbuf_free(m);
	}
	if (tcp_space(c) == 0) {
		if (tcp_must_ask(c))
			tcp_wait(c, 0);
		return;
	}
	c->starved = false;
	c->wants_mbuf = false;
	if (c->ops->writable != NULL)
		c->ops->writable(c->user);
}

static inline struct rte_mbuf *
tcp_alloc_for(struct weft_tcp_conn *c, bool room)
{
	if (likely(room)) {
		struct rte_mbuf *m = tcp_alloc(c->t, c->nif);

		if (likely(m != NULL))
			return m;
		c->wants_mbuf = true;
	}
	if (!c->dead) {
		tcp_starve(c);
		if (c->wants_mbuf || tcp_must_ask(c))
			tcp_wait(c, 0);
	}
	return NULL;
}

struct rte_mbuf *
weft_tcp_alloc(struct weft_tcp_conn *c)
{
	return tcp_alloc_for(c, tcp_segs_room(c) > 0);
}

/** Segments of one look at the limits, at most. Within TCP_TX_SLACK: what others queue for the port
 * meanwhile fits beside them. */
#define TCP_GRANT_SEGS 16u

struct rte_mbuf *
weft_tcp_begin(struct weft_tcp_conn *c)
{
	struct tcp_grant *g = &c->t->grant;
	uint32_t space;

	if (likely(g->conn == c && g->segs > 0 && g->now_ns == c->t->sched->now_ns)) {
		g->segs--;
		return tcp_alloc_for(c, true);
	}
	/* Where there is space, there is room for a segment. */
	space = weft_tcp_send_space(c);
	if (space == 0)
		return NULL;
	*g = (struct tcp_grant){
	        .conn = c,
	        .now_ns = c->t->sched->now_ns,
	        .segs = RTE_MIN(space / c->mss, TCP_GRANT_SEGS) - 1,
	};
	return tcp_alloc_for(c, true);
}
