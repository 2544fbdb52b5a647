/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The sweep: connections that keep buffers others need are checked, shortened and ended. */

#include "tcp_conn.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_math.h"
#include "tcp_rcv.h"
#include "tcp_share.h"

/** The most connections ended in one turn. */
#define TCP_SWEEP_ENDS 32u

static void
tcp_sweep_conn(struct weft_tcp_conn *c, uint64_t now_ns)
{
	const struct weft_tcp_attr *a = &c->t->attr;

	if (c->ooo_head != NULL && now_ns >= c->ooo_since_ns + a->ooo_timeout_us * WEFT_NS_PER_US) {
		c->t->stats.ooo_timeouts++;
		tcp_reass_shed(c, 0);
	}
}

static inline bool
tcp_share_overdue(const struct weft_tcp_conn *c, uint64_t now_ns)
{
	return now_ns >= c->lap_ns + c->t->attr.snd_stall_us * WEFT_NS_PER_US;
}

/** Moves borrowers that are overdue by now to `late`: a limited number per turn, each once. */
static void
tcp_sweep_late(struct weft_tcp *t, struct tcp_share *s, uint64_t now_ns)
{
	struct weft_tcp_conn *c;

	for (unsigned int i = 0; i < TCP_SWEEP_CONNS; i++) {
		c = TAILQ_FIRST(&s->lap);
		if (c == NULL || !tcp_share_overdue(c, now_ns))
			return;
		t->sweep_steps++;
		TAILQ_REMOVE(&s->lap, c, lap_link);
		TAILQ_INSERT_TAIL(&s->late, c, lap_link);
		c->late = true;
		s->nlate++;
	}
}

/** Ends overdue borrowers, the longest first, while they leave the others too little. */
static void
tcp_sweep_share(struct weft_tcp *t, struct tcp_share *s, uint64_t now_ns)
{
	struct weft_tcp_conn *c;
	uint32_t part;

	tcp_sweep_late(t, s, now_ns);
	/* The equal part of each borrower that is not overdue (tcp_segs_room()). */
	part = tcp_share_common(s) / 2 / RTE_MAX(s->borrowers - s->nlate, 1u);
	for (unsigned int i = 0; i < TCP_SWEEP_ENDS; i++) {
		c = TAILQ_FIRST(&s->late);
		if (c == NULL ||
		    (tcp_left(tcp_share_common(s), s->common) / s->borrowers >= part / 2 &&
		     !tcp_share_is_crowded(t, s, now_ns)))
			return;
		t->stats.snd_stalls++;
		WEFT_LOG_PEER(tcp, WARNING,
		              "connection ended: others need the buffers that its peer leaves "
		              "unacknowledged");
		tcp_give_up(c, -ETIMEDOUT, now_ns);
	}
}

static bool
tcp_share_wanted(struct weft_tcp *t, const struct tcp_share *s, uint64_t now_ns)
{
	return s->conns > 0 && (tcp_share_pressed(s, now_ns) || tcp_share_is_crowded(t, s, now_ns));
}

static bool
tcp_sweep_wanted(struct weft_tcp *t, uint64_t now_ns)
{
	if (t->ooo_mbufs > 0)
		return true;
	for (unsigned int i = 0; i < RTE_DIM(t->share); i++)
		if (tcp_share_wanted(t, &t->share[i], now_ns))
			return true;
	return false;
}

static void
tcp_sweep(struct weft_timer *timer, uint64_t now_ns)
{
	struct weft_tcp *t = container_of(timer, struct weft_tcp, sweep);
	uint32_t n = RTE_MIN(t->attr.max_conns, TCP_SWEEP_CONNS);

	while (n-- > 0) {
		struct weft_tcp_conn *c = &t->conns[t->sweep_at];

		t->sweep_at = t->sweep_at + 1 < t->attr.max_conns ? t->sweep_at + 1 : 0;
		if (!c->dead && c->share != NULL)
			tcp_sweep_conn(c, now_ns);
	}
	for (unsigned int i = 0; i < RTE_DIM(t->share); i++)
		if (tcp_share_wanted(t, &t->share[i], now_ns))
			tcp_sweep_share(t, &t->share[i], now_ns);
	if (tcp_sweep_wanted(t, now_ns))
		tcp_sweep_arm(t);
}

void
tcp_share_init(struct weft_tcp *t)
{
	weft_timer_init(&t->sweep, tcp_sweep);
}
