/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Who is let in, and who has to go for it (RFC 5042 s6.4.1). A connection that says nothing costs
 * its sender three segments; a backlog full of them must not keep others out until they time out.
 *
 * The request that goes is the oldest that is idle: it has not begun its MPA Request, has not ended
 * it in time, or was rejected and stays. One whose first octets may still be under way goes only
 * when none has been silent for longer. It is of the address that has the most requests, and never
 * of one that has fewer than the address for which it would go: no number of connections of one
 * address costs another one its place while that has less. What the consumer has never goes.
 *
 * When TCP has no connection left and no request may go, an accepted connection may (verbs_push.c).
 */

#include "verbs_listen.h"

#define ADMIT_SHARE_MIN 8u
/** An MPA Request is one segment or two: what is not whole by then is no negotiation under way. */
#define ADMIT_STALL_NS (2 * WEFT_NS_PER_S)
/** A peer that has something to say has said it by then, over any path but the slowest. */
#define ADMIT_GRACE_NS (200 * WEFT_NS_PER_MS)
/** Requests looked at for one: more than the backlogs of most workers have together. */
#define ADMIT_LOOKS 1024
/** Likewise for a SYN, which anyone can send in any number. */
#define ADMIT_PEEKS 16

uint32_t
weft_verbs_share(uint32_t all)
{
	uint32_t half = RTE_MAX(all / 2, ADMIT_SHARE_MIN);

	return RTE_MIN(all, half);
}

/** In the order in which they go. */
enum admit_rank {
	ADMIT_STAYS,
	ADMIT_MOVES, /**< amid its MPA Request */
	ADMIT_FRESH, /**< has said nothing, and hardly could */
	ADMIT_IDLE,
};

static enum admit_rank
admit_rank(const struct weft_connreq *r)
{
	uint64_t age_ns = r->vw->sched.now_ns - r->since_ns;
	bool late = age_ns >= ADMIT_STALL_NS;

	if (!r->counted)
		return ADMIT_STAYS;
	switch (r->state) {
	case REQ_WAIT:
		if (weft_mpa_heard(&r->mpa) == 0)
			return age_ns < ADMIT_GRACE_NS ? ADMIT_FRESH : ADMIT_IDLE;
		return late ? ADMIT_IDLE : ADMIT_MOVES;
	case REQ_CLOSING:
		return late ? ADMIT_IDLE : ADMIT_STAYS;
	default:
		return ADMIT_STAYS;
	}
}

/** The one that goes for one more of `mine` requests of an address; NULL: none. lsn NULL: of all.
 */
static struct weft_connreq *
admit_victim(const struct weft_vworker *vw, const struct verbs_lsn *lsn, uint32_t mine)
{
	enum admit_rank best_rank = ADMIT_STAYS;
	struct weft_connreq *r, *best = NULL;
	unsigned int looks = 0;

	TAILQ_FOREACH (r, &vw->connreqs, link) {
		enum admit_rank rank = admit_rank(r);

		if (looks++ == ADMIT_LOOKS)
			break;
		if (rank == ADMIT_STAYS || (lsn != NULL && r->lsn != lsn))
			continue;
		/* One that moves goes only where its address keeps more than the other one gets. */
		if (r->peer->requests < mine + (rank == ADMIT_MOVES))
			continue;
		if (rank > best_rank ||
		    (rank == best_rank && r->peer->requests > best->peer->requests)) {
			best = r;
			best_rank = rank;
		}
	}
	return best;
}

/** The oldest one of this address that says nothing. */
static struct weft_connreq *
admit_own(const struct weft_vworker *vw, const struct verbs_peer *peer)
{
	struct weft_connreq *r;
	unsigned int looks = 0;

	TAILQ_FOREACH (r, &vw->connreqs, link) {
		if (looks++ == ADMIT_LOOKS)
			break;
		if (r->peer == peer && admit_rank(r) >= ADMIT_FRESH)
			return r;
	}
	return NULL;
}

static bool
admit_evict(struct weft_connreq *r)
{
	if (r != NULL)
		weft_verbs_req_evict(r);
	return r != NULL;
}

int
weft_verbs_admit(struct verbs_lsn *lsn, const struct verbs_peer *peer, const struct weft_ip *remote,
                 uint32_t most)
{
	struct weft_vworker *vw = lsn->vw;
	const struct weft_listener *l = lsn->l;
	uint32_t conns = l->max_conns_per_peer != 0 ? l->max_conns_per_peer
	                                            : weft_verbs_share(RTE_MIN(vw->max_qps, most));

	if (peer->requests > l->max_requests_per_peer && !admit_evict(admit_own(vw, peer))) {
		vw->stats.requests_refused_peer++;
		return -ENOBUFS;
	}
	if (peer->requests + peer->conns > conns && !admit_evict(admit_own(vw, peer)) &&
	    !weft_verbs_push_own(vw, remote)) {
		vw->stats.conns_refused_peer++;
		return -ENOBUFS;
	}
	if (lsn->requests >= l->backlog && !admit_evict(admit_victim(vw, lsn, peer->requests))) {
		vw->stats.requests_refused++;
		return -ENOBUFS;
	}
	return 0;
}

bool
weft_verbs_room(void *arg, const struct weft_ip *remote, bool own, bool take)
{
	struct weft_vworker *vw = ((const struct verbs_lsn *)arg)->vw;
	const struct weft_connreq *r;
	unsigned int peeks = 0;

	if (own)
		return take ? weft_verbs_push_own(vw, remote)
		            : weft_verbs_push_may(vw, remote, true);
	if (take) {
		uint32_t mine = weft_verbs_peer_requests(vw, remote) + 1;

		return admit_evict(admit_victim(vw, NULL, mine)) || weft_verbs_push_out(vw, remote);
	}
	/* A guess: the oldest are idle, if any. Who answers the cookie finds out for certain. */
	TAILQ_FOREACH (r, &vw->connreqs, link) {
		if (peeks++ == ADMIT_PEEKS)
			break;
		if (admit_rank(r) == ADMIT_IDLE)
			return true;
	}
	return weft_verbs_push_may(vw, remote, false);
}
