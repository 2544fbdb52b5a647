/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * How the connections of one interface share the buffers that its port lends (weft_netif_budget.h).
 *
 * Transmit. Some buffers are reserved for every established connection. The reservation covers as
 * many connections as the instance may have, up to half of what the port lends. When nothing can be
 * reserved for one more connection, the instance counts as full: the user may give up a connection
 * (tcp_listen.c), overdue borrowers are ended, or the new connection is refused. By default one
 * remote address may have half of the connections that there are buffers for, which can be less
 * than half of max_conns.
 *
 * The other buffers are lent. Take what the other borrowers leave and divide it into as many parts
 * as there are other borrowers, plus two: a connection may borrow one part. So a later connection
 * finds buffers left, even if earlier ones never return theirs. No connection waits for another: a
 * connection that may not queue more has segments in flight, and their ACK lets it continue.
 *
 * A borrower is overdue when data that it had queued snd_stall_us ago is still unacknowledged.
 * Overdue borrowers are ended, the longest first, while a connection was recently refused buffers
 * and could borrow less than half of what it could borrow without the overdue ones. So many overdue
 * borrowers with few buffers each cannot keep the others at their reservation.
 *
 * Receive. A connection makes progress without buffers ahead of a gap, so none are reserved. When
 * all are in use, connections with more than an equal part drop their farthest octets (RFC 2018 s8
 * permits it; the peer sends them again). A connection whose gap stays for ooo_timeout_us drops its
 * octets, too.
 *
 * One timer checks both deadlines while there is anything to check. Each turn checks a part of the
 * connections. Borrowers are listed by the age of their lap. Those known to be overdue are in a
 * list of their own with a count, so that no turn walks all borrowers.
 */

#include "tcp_conn.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_math.h"
#include "tcp_share.h"
#include "weft_netif_budget.h"
#include "weft_tcp_plan.h"
#include "weft_netif.h"

#define TCP_OWN_SEGS_MAX 8u
#define TCP_CONNS        1024u /* default of weft_tcp_attr.max_conns */
#define TCP_SWEEP_MIN_NS WEFT_NS_PER_MS

/** How long a refusal counts as pressure. A connection that still needs more is refused again
 * within this time, with its next ACK. */
#define TCP_PRESSED_NS (3 * WEFT_NS_PER_S)

/* ---- The share of one interface ---- */

/** Queued mbufs that each of max_conns may always have. */
static uint32_t
tcp_share_own(uint32_t snd, uint32_t max_conns)
{
	return tcp_clamp(snd / 2 / max_conns, 1, TCP_OWN_SEGS_MAX);
}

uint32_t
weft_tcp_plan_conns(const struct weft_tcp_attr *attr, uint32_t snd)
{
	uint32_t max = attr->max_conns != 0 ? attr->max_conns : TCP_CONNS;

	if (attr->max_snd_segs_total != 0)
		snd = RTE_MIN(snd, attr->max_snd_segs_total);
	return tcp_clamp(snd / tcp_share_own(snd, max), 1, max);
}

static void
tcp_share_reckon(const struct weft_tcp *t, struct tcp_share *s)
{
	const struct weft_tcp_attr *a = &t->attr;
	uint32_t snd = (uint32_t)s->lent->snd.limit, ooo = (uint32_t)s->lent->ooo.limit;

	if (a->max_snd_segs_total != 0)
		snd = RTE_MIN(snd, a->max_snd_segs_total);
	if (a->max_ooo_mbufs_total != 0)
		ooo = RTE_MIN(ooo, a->max_ooo_mbufs_total);
	s->ooo_max = ooo;
	s->snd_max = snd;
	s->own = tcp_share_own(snd, a->max_conns);
	s->fixed = (uint32_t)RTE_MIN((uint64_t)s->own * a->max_conns, (uint64_t)snd / 2);
	s->most = weft_tcp_plan_conns(a, snd);
}

struct tcp_share *
tcp_share_of(struct weft_tcp *t, struct weft_netif *nif)
{
	struct tcp_share *s, *unused = NULL;

	for (s = t->share; s < t->share + RTE_DIM(t->share); s++) {
		if (s->nif == nif && s->conns > 0)
			return s;
		if (s->conns == 0 && (unused == NULL || s->nif == nif))
			unused = s;
	}
	if (unused != NULL) {
		/* A new interface may have the address of an old one. */
		*unused = (struct tcp_share){.nif = nif, .lent = weft_netif_budgets(nif)};
		TAILQ_INIT(&unused->ooo);
		TAILQ_INIT(&unused->lap);
		TAILQ_INIT(&unused->late);
		tcp_share_reckon(t, unused);
	}
	return unused;
}

/** The part of snd_max that may be lent: all but the reservations. */
uint32_t
tcp_share_common(const struct tcp_share *s)
{
	return tcp_left(s->snd_max, RTE_MAX(s->fixed, s->members * s->own));
}

void
tcp_sweep_arm(struct weft_tcp *t)
{
	uint64_t turns = (t->attr.max_conns + TCP_SWEEP_CONNS - 1) / TCP_SWEEP_CONNS;

	if (!t->sweep.armed)
		weft_timer_arm(&t->sched->wheel, &t->sweep,
		               t->sched->now_ns + RTE_MAX(TCP_SWEEP_NS / turns, TCP_SWEEP_MIN_NS));
}

bool
tcp_share_room(struct weft_tcp *t, struct weft_netif *nif)
{
	const struct tcp_share *s = tcp_share_of(t, nif);
	uint64_t own;

	if (s == NULL)
		return false;
	own = (s->members + 1ULL) * s->own;
	return own <= s->fixed || own + s->common <= s->snd_max;
}

void
tcp_share_crowded(struct weft_tcp *t, struct weft_netif *nif)
{
	struct tcp_share *s = tcp_share_of(t, nif);

	if (s == NULL)
		return;
	s->crowded_ns = t->sched->now_ns;
	tcp_sweep_arm(t);
}

uint32_t
weft_tcp_conns_most(const struct weft_tcp_conn *c)
{
	return c->share->most;
}

bool
tcp_share_join(struct weft_tcp_conn *c)
{
	if (!tcp_share_room(c->t, c->nif))
		return false;
	c->share->members++;
	c->share_member = true;
	return true;
}

void
tcp_share_leave(struct weft_tcp_conn *c)
{
	if (!c->share_member)
		return;
	c->share_member = false;
	c->share->members--;
}

uint32_t
tcp_segs_room(const struct weft_tcp_conn *c)
{
	const struct tcp_share *s = c->share;
	uint32_t own = tcp_left(s->own, c->snd_segs), mine = tcp_left(c->snd_segs, s->own);
	uint32_t others = s->borrowers - (mine > 0);
	uint32_t most = tcp_left(tcp_share_common(s), s->common) + mine;

	most = likely(others == 0) ? most / 2 : most / (others + 2);
	return RTE_MIN(own + tcp_left(most, mine), tcp_left(c->t->attr.max_snd_segs, c->snd_segs));
}

/** Whether a connection was refused buffers recently. */
bool
tcp_share_pressed(const struct tcp_share *s, uint64_t now_ns)
{
	return s->refused_ns != 0 && now_ns < s->refused_ns + TCP_PRESSED_NS;
}

/** Whether a connection was recently wanted for which there is still no room. */
bool
tcp_share_is_crowded(struct weft_tcp *t, const struct tcp_share *s, uint64_t now_ns)
{
	return s->crowded_ns != 0 && now_ns < s->crowded_ns + TCP_PRESSED_NS &&
	       !tcp_share_room(t, s->nif);
}

void
tcp_share_refused(struct weft_tcp_conn *c)
{
	struct tcp_share *s = c->share;

	if (c->snd_segs >= c->t->attr.max_snd_segs)
		return; /* the connection's own limit, which no other connection can lift */
	s->lent->snd.refused++;
	s->refused_ns = c->t->sched->now_ns;
	tcp_sweep_arm(c->t);
}

/** Removes a borrower from the list that it is in. */
static inline void
tcp_lap_out(struct weft_tcp_conn *c)
{
	struct tcp_share *s = c->share;

	if (likely(!c->late)) {
		TAILQ_REMOVE(&s->lap, c, lap_link);
		return;
	}
	TAILQ_REMOVE(&s->late, c, lap_link);
	c->late = false;
	s->nlate--;
}

void
tcp_share_lap(struct weft_tcp_conn *c, uint64_t now_ns)
{
	c->lap_seq = c->snd_end;
	c->lap_ns = now_ns;
	if (!c->borrows)
		return;
	tcp_lap_out(c);
	TAILQ_INSERT_TAIL(&c->share->lap, c, lap_link);
}

void
tcp_share_borrow(struct weft_tcp_conn *c)
{
	struct tcp_share *s = c->share;

	s->common += c->snd_segs - s->own;
	s->borrowers++;
	c->borrows = true;
	TAILQ_INSERT_TAIL(&s->lap, c, lap_link);
	/* A new borrower begins a new lap, so the list stays in the order of lap_ns. */
	tcp_share_lap(c, c->t->sched->now_ns);
}

void
tcp_share_sub(struct weft_tcp_conn *c, uint32_t n)
{
	struct tcp_share *s = c->share;

	if (c->borrows) {
		uint32_t borrowed = c->snd_segs - s->own;

		s->common -= RTE_MIN(n, borrowed);
		if (n >= borrowed) {
			c->borrows = false;
			s->borrowers--;
			tcp_lap_out(c);
		}
	}
	c->snd_segs -= n;
	c->t->snd_segs -= n;
	s->lent->snd.held -= n;
	if (unlikely(c->t->nwaiting > 0))
		tcp_released(c->t);
}

/* ---- Out of order ---- */

/** The equal part of each connection that has out-of-order octets, or is about to. */
uint32_t
tcp_share_fair(const struct weft_tcp_conn *c)
{
	return c->share->ooo_max / (c->share->ooo_holders + (c->ooo_mbufs == 0));
}

bool
tcp_share_ooo_full(const struct weft_tcp_conn *c)
{
	return c->share->lent->ooo.held >= c->share->ooo_max && c->ooo_mbufs >= tcp_share_fair(c);
}

void
tcp_share_ooo_add(struct weft_tcp_conn *c, uint32_t n)
{
	struct weft_netif_budget *b = &c->share->lent->ooo;

	if (c->ooo_mbufs == 0) {
		c->share->ooo_holders++;
		TAILQ_INSERT_TAIL(&c->share->ooo, c, ooo_link);
		/* A new list at the same gap is no progress: ooo_since_ns stays. */
		if (c->ooo_since_ns == 0 || c->ooo_gap_seq != c->rcv_nxt)
			c->ooo_since_ns = c->t->sched->now_ns;
		c->ooo_gap_seq = c->rcv_nxt;
	}
	c->ooo_mbufs += n;
	c->t->ooo_mbufs += n;
	b->held += n;
	b->most = RTE_MAX(b->most, b->held);
	tcp_sweep_arm(c->t);
}

void
tcp_share_ooo_sub(struct weft_tcp_conn *c, uint32_t n)
{
	c->ooo_mbufs -= n;
	c->t->ooo_mbufs -= n;
	c->share->lent->ooo.held -= n;
	if (c->ooo_mbufs > 0)
		return;
	c->share->ooo_holders--;
	TAILQ_REMOVE(&c->share->ooo, c, ooo_link);
}

/** Whether the user can give up a connection for this address. take: the user gives it up now. */
bool
tcp_user_room(const struct weft_tcp_listener *l, const struct weft_ip *ip, bool take)
{
	return l->room != NULL && l->room(l->arg, ip, false, take);
}

bool
tcp_make_share_room(struct weft_tcp *t, struct weft_netif *nif, const struct weft_tcp_listener *l,
                    const struct weft_ip *ip)
{
	if (likely(tcp_share_room(t, nif)))
		return true;
	tcp_share_crowded(t, nif);
	return tcp_user_room(l, ip, true) && tcp_share_room(t, nif);
}
