/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Push-out: which accepted connection is reset for a new one when a worker's TCP has no
 * connection left, or no buffers for one more (RFC 5042 s6.4). Without this, a few addresses with
 * idle connections could keep all others out for as long as they like, and so could as many
 * addresses as there are connections.
 *
 * First choice: the address with the most connections of the lowest standing (weft/standing.h), if
 * it has a few more than the address of the new connection. Of its connections the one that was
 * idle for the longest time is reset. Second choice: the connection that was idle for the longest
 * time of all, strangers first, if its address has more connections than the new one's. So each
 * address keeps an equal share, whatever other addresses do. Connections in use do not count.
 *
 * A connection in use is not reset. It is in use if data moved on it within PUSH_IDLE_NS, and still
 * did PUSH_PROVEN_NS after it was accepted. A connection that only asks for a grant is not in use.
 * A malicious peer can move an octet now and then, so connections in use are protected only up to
 * three quarters of all that may be reset. In the last quarter a new connection always finds a
 * place, and the connections on which data moves most often stay the longest. A peer that has shown
 * who it is never loses its connection.
 *
 * Streams (weft/stream.h) are not reset, but count for their address unless they are in use. They
 * are looked at when it matters, the longest ago first, and take part in the three quarters.
 *
 * Addresses are kept on lists by the number of their connections; each standing has an array of
 * lists. All connections that may be reset are on one of two lists, in use or not, in the order in
 * which data was last seen to move. A connection that is examined and has moved data since goes to
 * the end. So a search examines few connections, however many there are. Nothing is done while
 * there is room.
 */

#include <stdlib.h>

#include "cm_conn.h"

/** Most connections of an address that are examined. */
#define PUSH_LOOKS 32u
/** An address gives way if it has this many more connections than the new connection's address. */
#define PUSH_MORE 4u
/** Without data for this time a connection is not in use. */
#define PUSH_IDLE_NS (5 * WEFT_NS_PER_S)
/** A stranger without data for this time is reset before connections that hold something. */
#define PUSH_QUIET_NS (200 * WEFT_NS_PER_MS)
/** A connection is in use only if data moved this long after it was accepted. */
#define PUSH_PROVEN_NS WEFT_NS_PER_S
/** Addresses with this many connections or more share a list. */
#define PUSH_COUNTS 1024u

TAILQ_HEAD(push_crowd_list, cm_crowd);
TAILQ_HEAD(push_conn_list, weft_cm_conn);

struct cm_push {
	struct {
		struct push_crowd_list by_count[PUSH_COUNTS];
		uint32_t top; /**< lists above this index are empty */
	} of[CM_PUSH_STANDINGS];
	/* By weft_cm_conn.in_use, in the order in which data was last seen to move. */
	struct push_conn_list conns[2];
	uint32_t nconns[2];
};

int
cm_push_init(struct weft_cm_worker *w)
{
	w->push = malloc(sizeof(*w->push));
	if (w->push == NULL)
		return -ENOMEM;
	for (unsigned int i = 0; i < RTE_DIM(w->push->conns); i++) {
		TAILQ_INIT(&w->push->conns[i]);
		w->push->nconns[i] = 0;
	}
	for (unsigned int s = 0; s < CM_PUSH_STANDINGS; s++) {
		w->push->of[s].top = 0;
		for (uint32_t n = 0; n < PUSH_COUNTS; n++)
			TAILQ_INIT(&w->push->of[s].by_count[n]);
	}
	return 0;
}

void
cm_push_fini(struct weft_cm_worker *w)
{
	free(w->push);
	w->push = NULL;
}

/** Add `by` to the connections of a crowd, and move it to the end of the list for the new count. */
static void
push_count(struct cm_push *push, unsigned int standing, struct cm_crowd *crowd, int by)
{
	uint32_t at = RTE_MIN(crowd->conns, PUSH_COUNTS - 1);

	if (crowd->conns > 0)
		TAILQ_REMOVE(&push->of[standing].by_count[at], crowd, link);
	crowd->conns += (uint32_t)by;
	at = RTE_MIN(crowd->conns, PUSH_COUNTS - 1);
	if (crowd->conns > 0)
		TAILQ_INSERT_TAIL(&push->of[standing].by_count[at], crowd, link);
	push->of[standing].top = RTE_MAX(push->of[standing].top, at);
}

/** Append a connection to a list. */
static void
push_put(struct cm_push *push, struct weft_cm_conn *c, bool in_use)
{
	c->in_use = in_use;
	c->seen_ns = weft_tcp_moved_ns(c->tcp);
	push->nconns[in_use]++;
	c->peer->in_use += in_use;
	TAILQ_INSERT_TAIL(&push->conns[in_use], c, push_link);
}

static void
push_take(struct cm_push *push, struct weft_cm_conn *c)
{
	push->nconns[c->in_use]--;
	c->peer->in_use -= c->in_use;
	TAILQ_REMOVE(&push->conns[c->in_use], c, push_link);
}

void
cm_push_enter(struct weft_cm_conn *c)
{
	struct cm_crowd *crowd;

	if (c->peer == NULL || !c->may_go || c->standing >= CM_PUSH_STANDINGS)
		return;
	crowd = &c->peer->crowd[c->standing];
	if (crowd->conns == 0)
		TAILQ_INIT(&crowd->members);
	TAILQ_INSERT_TAIL(&crowd->members, c, crowd_link);
	push_count(c->qp->vw->cm->push, c->standing, crowd, 1);
	if (c->entered_ns == 0)
		c->entered_ns = c->qp->vw->sched.now_ns;
	push_put(c->qp->vw->cm->push, c, c->in_use);
}

void
cm_push_leave(struct weft_cm_conn *c)
{
	struct cm_crowd *crowd;

	if (c->peer == NULL || !c->may_go || c->standing >= CM_PUSH_STANDINGS)
		return;
	crowd = &c->peer->crowd[c->standing];
	TAILQ_REMOVE(&crowd->members, c, crowd_link);
	push_count(c->qp->vw->cm->push, c->standing, crowd, -1);
	push_take(c->qp->vw->cm->push, c);
}

/** The address with the most connections of this standing, if it has at least `least`. */
static struct cm_crowd *
push_most(struct cm_push *push, unsigned int standing, uint32_t least)
{
	struct push_crowd_list *by_count = push->of[standing].by_count;
	uint32_t *top = &push->of[standing].top;

	while (*top > 0 && TAILQ_EMPTY(&by_count[*top]))
		(*top)--;
	return *top > 0 && *top >= RTE_MIN(least, PUSH_COUNTS - 1) ? TAILQ_FIRST(&by_count[*top])
	                                                           : NULL;
}

/**
 * Whether a connection is in use: data moved lately, and did so PUSH_PROVEN_NS after it was
 * accepted.
 */
static bool
push_moves(const struct weft_vworker *vw, const struct weft_tcp_conn *tcp, uint64_t entered_ns)
{
	const uint64_t moved_ns = weft_tcp_moved_ns(tcp);

	return moved_ns >= entered_ns + PUSH_PROVEN_NS &&
	       vw->sched.now_ns < moved_ns + PUSH_IDLE_NS;
}

static bool
push_in_use(const struct weft_cm_conn *c)
{
	return push_moves(c->qp->vw, c->tcp, c->entered_ns);
}

/** Whether one more connection may be protected as one in use. */
static bool
push_has_quarter(const struct weft_vworker *vw)
{
	const struct cm_push *push = vw->cm->push;
	const uint32_t all = push->nconns[0] + push->nconns[1] + vw->cm->nstreams;

	return push->nconns[1] + vw->cm->streams_in_use < all - all / 4;
}

/** Whether a connection is a stranger's that has sent nothing for PUSH_QUIET_NS. */
static bool
push_quiet(const struct weft_cm_conn *c)
{
	return c->standing == WEFT_STANDING_STRANGER &&
	       c->qp->vw->sched.now_ns >= weft_tcp_moved_ns(c->tcp) + PUSH_QUIET_NS;
}

/** Which of two connections is reset first. */
static struct weft_cm_conn *
push_idler(struct weft_cm_conn *a, struct weft_cm_conn *b)
{
	if (a == NULL || b == NULL)
		return a != NULL ? a : b;
	if (push_quiet(a) != push_quiet(b))
		return push_quiet(a) ? a : b;
	return weft_tcp_moved_ns(b->tcp) < weft_tcp_moved_ns(a->tcp) ? b : a;
}

/**
 * The connection of a crowd that was idle for the longest time. Connections in use go to the end of
 * the list. Connections of the address `but` are left out.
 */
static struct weft_cm_conn *
push_of_crowd(struct cm_crowd *crowd, const struct weft_ip *but)
{
	struct weft_cm_conn *c, *next, *idle = NULL;
	unsigned int looks = 0;
	struct weft_tcp_info ti;

	if (crowd == NULL || crowd->conns == 0)
		return NULL;
	for (c = TAILQ_FIRST(&crowd->members); c != NULL && looks++ < PUSH_LOOKS; c = next) {
		next = TAILQ_NEXT(c, crowd_link);
		if (push_in_use(c)) {
			TAILQ_REMOVE(&crowd->members, c, crowd_link);
			TAILQ_INSERT_TAIL(&crowd->members, c, crowd_link);
			continue;
		}
		if (but != NULL) {
			weft_tcp_info(c->tcp, &ti);
			if (weft_ip_eq(&ti.remote, but))
				continue;
		}
		if (!c->qp->aborting)
			idle = push_idler(idle, c);
	}
	return idle;
}

/* ---- Streams ---- */

void
cm_push_stream_enter(struct weft_vworker *vw, struct cm_push_stream *s, struct cm_peer *peer,
                     const struct weft_tcp_conn *tcp)
{
	*s = (struct cm_push_stream){.peer = peer, .tcp = tcp, .entered_ns = vw->sched.now_ns};
	TAILQ_INSERT_TAIL(&peer->streams, s, link);
	vw->cm->nstreams++;
}

static void
push_stream_set(struct weft_vworker *vw, struct cm_push_stream *s, bool in_use)
{
	s->peer->in_use += (uint32_t)in_use - s->in_use;
	vw->cm->streams_in_use += (uint32_t)in_use - s->in_use;
	s->in_use = in_use;
}

void
cm_push_stream_leave(struct weft_vworker *vw, struct cm_push_stream *s)
{
	push_stream_set(vw, s, false);
	TAILQ_REMOVE(&s->peer->streams, s, link);
	vw->cm->nstreams--;
}

/** See which streams of an address are in use: each once, at most PUSH_LOOKS of them. */
static void
push_look(struct weft_vworker *vw, struct cm_peer *peer)
{
	struct cm_push_stream *s, *last;
	unsigned int looks = 0;

	if (peer == NULL || peer->looked_ns == vw->sched.now_ns)
		return;
	peer->looked_ns = vw->sched.now_ns;
	last = TAILQ_LAST(&peer->streams, cm_push_streams);
	do {
		s = TAILQ_FIRST(&peer->streams);
		if (s == NULL)
			return;
		push_stream_set(vw, s, false);
		push_stream_set(vw, s,
		                push_moves(vw, s->tcp, s->entered_ns) && push_has_quarter(vw));
		TAILQ_REMOVE(&peer->streams, s, link);
		TAILQ_INSERT_TAIL(&peer->streams, s, link);
	} while (s != last && ++looks < PUSH_LOOKS);
}

/* ---- Which one goes ---- */

/** Requests and connections of an address that are not known to be in use. */
static uint32_t
push_unused(const struct cm_peer *peer)
{
	return peer != NULL ? peer->requests + peer->conns - peer->in_use : 0;
}

/** Whether a connection may be reset for one more connection of an address with `mine`. */
static bool
push_may_go(const struct weft_cm_conn *c, uint32_t mine)
{
	if (c->qp->aborting)
		return false;
	push_look(c->qp->vw, c->peer);
	return push_unused(c->peer) + c->in_use > mine;
}

/** A connection of the list of those in use that is no longer in use. The others go to the end. */
static struct weft_cm_conn *
push_of_used(struct cm_push *push, uint32_t mine)
{
	struct weft_cm_conn *c, *next, *idle = NULL;
	unsigned int looks = 0;

	for (c = TAILQ_FIRST(&push->conns[1]); c != NULL && looks++ < PUSH_LOOKS; c = next) {
		bool used = push_in_use(c);

		next = TAILQ_NEXT(c, push_link);
		if (!used && push_may_go(c, mine))
			idle = push_idler(idle, c);
		push_take(push, c);
		push_put(push, c, used);
	}
	return idle;
}

/**
 * The connection of the other list that was idle for the longest time. Connections that moved data
 * go to the end, or to the list of those in use.
 */
static struct weft_cm_conn *
push_of_idle(struct cm_push *push, uint32_t mine)
{
	struct weft_cm_conn *c, *next, *idle = NULL;
	unsigned int looks = 0;

	for (c = TAILQ_FIRST(&push->conns[0]); c != NULL && looks++ < PUSH_LOOKS; c = next) {
		next = TAILQ_NEXT(c, push_link);
		if (c->seen_ns != weft_tcp_moved_ns(c->tcp)) {
			bool used = push_in_use(c) && push_has_quarter(c->qp->vw);

			push_take(push, c);
			push_put(push, c, used);
			if (used)
				continue;
		}
		if (push_may_go(c, mine))
			idle = push_idler(idle, c);
	}
	return idle;
}

/** Whether a peer has connections that may be reset. */
static bool
push_has(const struct cm_peer *peer)
{
	for (unsigned int s = 0; peer != NULL && s < CM_PUSH_STANDINGS; s++)
		if (peer->crowd[s].conns > 0)
			return true;
	return false;
}

/** Reset a connection for a new one. False: c is NULL. */
static bool
push_go(struct weft_vworker *vw, struct weft_cm_conn *c)
{
	if (c == NULL)
		return false;
	vw->stats.conns_pushed_out++;
	WEFT_LOG_PEER(cm, WARNING,
	              "connection reset for one of another address: no connection is left");
	weft_verbs_qp_abort(c->qp);
	/* The consumer may see the new connection's request before the event of this one's end. */
	weft_verbs_qp_uncount(c->qp);
	return true;
}

bool
cm_push_may(struct weft_vworker *vw, const struct weft_ip *remote, bool own)
{
	struct cm_peer *peer = cm_peer_of(vw, remote);
	uint32_t mine;

	if (vw->cm->push == NULL)
		return false;
	if (own)
		return push_has(peer);
	push_look(vw, peer); /* once in a turn of the worker, however many SYNs it has */
	mine = push_unused(peer);
	/* A guess: a search costs more than a SYN may. */
	return push_most(vw->cm->push, WEFT_STANDING_STRANGER, mine + 1) != NULL ||
	       push_most(vw->cm->push, WEFT_STANDING_HOLDER, mine + 1) != NULL;
}

bool
cm_push_out(struct weft_vworker *vw, const struct weft_ip *remote)
{
	struct cm_peer *peer = cm_peer_of(vw, remote);
	struct weft_cm_conn *c = NULL;
	uint32_t mine;

	if (vw->cm->push == NULL)
		return false;
	push_look(vw, peer);
	mine = push_unused(peer);
	c = push_of_crowd(push_most(vw->cm->push, WEFT_STANDING_STRANGER, mine + 2), NULL);
	if (c != NULL && !push_quiet(c))
		c = NULL;
	for (unsigned int s = 0; c == NULL && s < CM_PUSH_STANDINGS; s++)
		c = push_of_crowd(push_most(vw->cm->push, s, mine + PUSH_MORE), NULL);
	if (c == NULL) {
		c = push_of_used(vw->cm->push, mine);
		c = push_idler(c, push_of_idle(vw->cm->push, mine));
	}
	return push_go(vw, c);
}

bool
cm_push_own(struct weft_vworker *vw, const struct weft_ip *remote)
{
	struct cm_peer *peer = cm_peer_of(vw, remote);
	struct weft_cm_conn *c = NULL;

	if (vw->cm->push == NULL || weft_ip_is_v4(remote) || !push_has(peer))
		return false;
	for (unsigned int s = 0; c == NULL && s < CM_PUSH_STANDINGS; s++)
		c = push_of_crowd(&peer->crowd[s], remote);
	return push_go(vw, c);
}

int
weft_qp_set_standing(struct weft_qp *qp, enum weft_standing standing)
{
	struct weft_cm_conn *c;

	if (WEFT_HANDLE_BAD(qp, QP) || (unsigned int)standing > WEFT_STANDING_KEPT)
		return -EINVAL;
	if (atomic_load_explicit(&qp->cm, memory_order_acquire) != CM_IDLE &&
	    !weft_vworker_is_mine(qp->vw))
		return -EPERM;
	c = qp->conn;
	if (c->standing == (uint8_t)standing)
		return 0;
	cm_push_leave(c);
	c->standing = (uint8_t)standing;
	cm_push_enter(c);
	return 0;
}
