/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Admission: which connection is admitted, and which request is reset for it (RFC 5042
 * s6.4.1). A connection that sends nothing costs its sender three segments. A backlog full of such
 * connections must not keep others out until they time out.
 *
 * The request that is reset is an idle one. A request is idle if it has not begun its MPA Request,
 * has not completed it in time, or was rejected and is still there. A request whose first octets
 * may still be on the way is reset only if there is no other. Among the idle ones, the request of
 * the address with the most requests is reset, the oldest of these. It never belongs to an address
 * with fewer requests than the new one's address. So the connections of one address never take the
 * place of an address that has fewer. A request that the consumer has is never reset.
 *
 * When TCP has no connection left, and no request can be reset, one that closes without its QP is
 * (weft_qp_leave()), or an accepted connection may be (cm_push.c).
 */

#include "cm_listen.h"

#define ADMIT_SHARE_MIN 8u
/**
 * An MPA Request takes one or two segments. One that is not complete after this time counts as
 * idle.
 */
#define ADMIT_STALL_NS (2 * WEFT_NS_PER_S)
/** Time in which a peer's first octets arrive, over all but the slowest paths. */
#define ADMIT_GRACE_NS (200 * WEFT_NS_PER_MS)
/** Most requests examined for one admission; more than the backlogs of most workers together. */
#define ADMIT_LOOKS 1024
/** At most so many requests are examined for one SYN: a host can send any number of SYNs. */
#define ADMIT_PEEKS 16

uint32_t
cm_admit_share(uint32_t all)
{
	uint32_t half = RTE_MAX(all / 2, ADMIT_SHARE_MIN);

	return RTE_MIN(all, half);
}

uint32_t
cm_admit_conns(const struct weft_vworker *vw, uint32_t per_peer, uint32_t owners, uint32_t tcps)
{
	uint32_t all = RTE_MIN(vw->max_qps, tcps);

	if (per_peer != 0)
		return per_peer;
	return cm_admit_share(owners != 0 ? RTE_MIN(all, owners) : all);
}

/** In the order in which requests are reset, the last first. */
enum admit_rank {
	ADMIT_STAYS,
	ADMIT_MOVES, /**< in the middle of its MPA Request */
	ADMIT_FRESH, /**< has sent nothing, and may not have had the time */
	ADMIT_IDLE,
};

static enum admit_rank
admit_rank(const struct weft_connreq *r)
{
	uint64_t age_ns = r->vw->sched.now_ns - r->since_ns;
	bool late = age_ns >= ADMIT_STALL_NS;

	if (!r->counted)
		return ADMIT_STAYS;
	switch (cm_req_state(r)) {
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

/**
 * The request to be reset for an address that then has `mine` requests; NULL: none. lsn: of this
 * listener only; NULL: of all.
 */
static struct weft_connreq *
admit_victim(const struct weft_vworker *vw, const struct cm_lsn *lsn, uint32_t mine)
{
	enum admit_rank best_rank = ADMIT_STAYS;
	struct weft_connreq *r, *best = NULL;
	unsigned int looks = 0;

	TAILQ_FOREACH (r, &vw->cm->connreqs, link) {
		enum admit_rank rank = admit_rank(r);

		if (looks++ == ADMIT_LOOKS)
			break;
		if (rank == ADMIT_STAYS || (lsn != NULL && r->lsn != lsn))
			continue;
		/*
		 * A request in the middle of its MPA Request is reset only if its address has more
		 * than `mine`.
		 */
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

/** The oldest request of this address that is idle or has sent nothing. */
static struct weft_connreq *
admit_own(const struct weft_vworker *vw, const struct cm_peer *peer)
{
	struct weft_connreq *r;
	unsigned int looks = 0;

	TAILQ_FOREACH (r, &vw->cm->connreqs, link) {
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
		cm_req_evict(r);
	return r != NULL;
}

int
cm_admit(struct cm_lsn *lsn, const struct cm_peer *peer, const struct weft_ip *remote,
         uint32_t most)
{
	struct weft_vworker *vw = lsn->vw;
	const struct weft_listener *l = lsn->l;
	const uint32_t conns = cm_admit_conns(vw, l->max_conns_per_peer, l->max_conns, most);

	if (peer->requests > l->max_requests_per_peer && !admit_evict(admit_own(vw, peer))) {
		vw->stats.requests_refused_peer++;
		return -ENOBUFS;
	}
	if (peer->requests + peer->conns > conns && !admit_evict(admit_own(vw, peer)) &&
	    !cm_push_own(vw, remote)) {
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
cm_admit_make_room(struct weft_vworker *vw, const struct weft_ip *remote, bool own, bool take)
{
	const struct weft_connreq *r;
	unsigned int peeks = 0;

	if (own)
		return take ? cm_push_own(vw, remote) : cm_push_may(vw, remote, true);
	if (take) {
		uint32_t mine = cm_peer_requests(vw, remote) + 1;

		return admit_evict(admit_victim(vw, NULL, mine)) ||
		       weft_verbs_make_room(vw, true) || cm_push_out(vw, remote);
	}
	/*
	 * A guess: idle requests are among the oldest, if there are any. The answer to the cookie
	 * is checked exactly.
	 */
	TAILQ_FOREACH (r, &vw->cm->connreqs, link) {
		if (peeks++ == ADMIT_PEEKS)
			break;
		if (admit_rank(r) == ADMIT_IDLE)
			return true;
	}
	return weft_verbs_make_room(vw, false) || cm_push_may(vw, remote, false);
}

bool
cm_admit_room(void *arg, const struct weft_ip *remote, bool own, bool take)
{
	return cm_admit_make_room(((const struct cm_lsn *)arg)->vw, remote, own, take);
}
