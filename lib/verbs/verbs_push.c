/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Which accepted connection goes when a worker's TCP has none left and one more address calls (RFC
 * 5042 s6.4): without this, two addresses with half of the connections each, all idle, keep every
 * other one out for as long as they like.
 *
 * The connection that goes is one of the address that has the most of the lowest standing
 * (weft_standing.h): a stranger's while its address has at least as many as the newcomer's would
 * have, else a holder's of an address that has more. Of that address's connections it is the one on
 * which nothing has moved for the longest, among the first that are looked at. So each address
 * keeps an equal part, whatever others do, and a newcomer with none finds a place.
 *
 * Addresses are on lists by the number of their connections, one array of lists for each standing:
 * the search looks at no more than PUSH_LOOKS connections, however many there are.
 */

#include <stdlib.h>

#include "verbs_listen.h"

/** Connections of the address that are looked at. */
#define PUSH_LOOKS 32u
/** Addresses with as many or more share a list. */
#define PUSH_COUNTS 1024u

TAILQ_HEAD(push_crowd_list, verbs_crowd);

struct verbs_push {
	struct {
		struct push_crowd_list by_count[PUSH_COUNTS];
		uint32_t top; /**< no list above has an entry */
	} of[VERBS_PUSH_STANDINGS];
};

int
weft_verbs_push_init(struct weft_vworker *vw)
{
	vw->push = malloc(sizeof(*vw->push));
	if (vw->push == NULL)
		return -ENOMEM;
	for (unsigned int s = 0; s < VERBS_PUSH_STANDINGS; s++) {
		vw->push->of[s].top = 0;
		for (uint32_t n = 0; n < PUSH_COUNTS; n++)
			TAILQ_INIT(&vw->push->of[s].by_count[n]);
	}
	return 0;
}

void
weft_verbs_push_fini(struct weft_vworker *vw)
{
	free(vw->push);
	vw->push = NULL;
}

/** The crowd has `by` connections more; it goes behind those that have had as many for longer. */
static void
push_count(struct verbs_push *push, unsigned int standing, struct verbs_crowd *crowd, int by)
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

void
weft_verbs_push_enter(struct weft_qp *qp)
{
	struct verbs_crowd *crowd;

	if (qp->peer == NULL || !qp->may_go || qp->standing >= VERBS_PUSH_STANDINGS)
		return;
	crowd = &qp->peer->crowd[qp->standing];
	if (crowd->conns == 0)
		TAILQ_INIT(&crowd->qps);
	TAILQ_INSERT_TAIL(&crowd->qps, qp, crowd_link);
	push_count(qp->vw->push, qp->standing, crowd, 1);
}

void
weft_verbs_push_leave(struct weft_qp *qp)
{
	struct verbs_crowd *crowd;

	if (qp->peer == NULL || !qp->may_go || qp->standing >= VERBS_PUSH_STANDINGS)
		return;
	crowd = &qp->peer->crowd[qp->standing];
	TAILQ_REMOVE(&crowd->qps, qp, crowd_link);
	push_count(qp->vw->push, qp->standing, crowd, -1);
}

/** The address with the most connections of this standing, if these are `least` or more. */
static struct verbs_crowd *
push_most(struct verbs_push *push, unsigned int standing, uint32_t least)
{
	struct push_crowd_list *by_count = push->of[standing].by_count;
	uint32_t *top = &push->of[standing].top;

	while (*top > 0 && TAILQ_EMPTY(&by_count[*top]))
		(*top)--;
	return *top > 0 && *top >= RTE_MIN(least, PUSH_COUNTS - 1) ? TAILQ_FIRST(&by_count[*top])
	                                                           : NULL;
}

/** The crowd that one more connection of an address with `mine` is let in for; NULL: none. */
static struct verbs_crowd *
push_crowd(const struct weft_vworker *vw, uint32_t mine)
{
	struct verbs_crowd *crowd;

	if (vw->push == NULL)
		return NULL;
	crowd = push_most(vw->push, WEFT_STANDING_STRANGER, mine + 1);
	return crowd != NULL ? crowd : push_most(vw->push, WEFT_STANDING_HOLDER, mine + 2);
}

bool
weft_verbs_push_may(const struct weft_vworker *vw, const struct weft_ip *remote)
{
	return push_crowd(vw, weft_verbs_peer_all(vw, remote)) != NULL;
}

bool
weft_verbs_push_out(struct weft_vworker *vw, const struct weft_ip *remote)
{
	struct verbs_crowd *crowd = push_crowd(vw, weft_verbs_peer_all(vw, remote));
	struct weft_qp *qp, *idle = NULL;
	unsigned int looks = 0;

	if (crowd == NULL)
		return false;
	TAILQ_FOREACH (qp, &crowd->qps, crowd_link) {
		if (looks++ == PUSH_LOOKS)
			break;
		if (qp->aborting)
			continue;
		if (idle == NULL || weft_tcp_moved_ns(qp->conn) < weft_tcp_moved_ns(idle->conn))
			idle = qp;
	}
	if (idle == NULL)
		return false;
	vw->stats.conns_pushed_out++;
	WEFT_LOG_PEER(verbs, WARNING,
	              "connection reset for one of another address: no connection is left");
	weft_verbs_qp_abort(idle);
	/* The newcomer's request may reach the consumer before the event that this one is over. */
	idle->uncounted = true;
	__atomic_fetch_sub(&vw->nqps, 1, __ATOMIC_RELAXED);
	return true;
}

int
weft_qp_set_standing(struct weft_qp *qp, enum weft_standing standing)
{
	if (WEFT_HANDLE_BAD(qp, QP) || (unsigned int)standing > WEFT_STANDING_KEPT)
		return -EINVAL;
	if (__atomic_load_n(&qp->cm, __ATOMIC_ACQUIRE) != CM_IDLE && !weft_vworker_is_mine(qp->vw))
		return -EPERM;
	if (qp->standing == (uint8_t)standing)
		return 0;
	weft_verbs_push_leave(qp);
	qp->standing = (uint8_t)standing;
	weft_verbs_push_enter(qp);
	return 0;
}
