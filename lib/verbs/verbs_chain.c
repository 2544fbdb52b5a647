/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Posting of chains (weft_verbs_chain.h): all their parts at once, or none. */

#include "verbs_post.h"
#include "verbs_queue.h"
#include "weft_verbs_chain.h"

int
weft_verbs_chain_reserve(struct weft_qp *qp, uint32_t places, struct weft_verbs_chain *u)
{
	*u = (struct weft_verbs_chain){
	        .qp = qp, .places = places, .mine = weft_vworker_is_mine(qp->vw)};
	if (places > qp->sq_depth)
		return -EMSGSIZE;
	if (u->mine && unlikely(qp->sq == NULL) && !weft_verbs_sq_wake(qp))
		return -ENOMEM;
	return verbs_credits_take_all(&qp->sq_credits, places) ? 0 : -EAGAIN;
}

void
weft_verbs_chain_cancel(struct weft_verbs_chain *u)
{
	verbs_credits_give(&u->qp->sq_credits, u->places);
}

/** On the worker: the parts are filled in the send queue itself. */
static void
verbs_chain_open_own(struct weft_verbs_chain *u)
{
	struct weft_qp *qp = u->qp;
	uint32_t at;

	/* A post of another thread may have left the watch list already, so it must come first. */
	weft_verbs_foreign_first(qp);
	at = qp->sq_tail & qp->sq_mask;
	u->at[0] = (uint8_t *)verbs_sqe_at(qp, at);
	u->at[1] = qp->sq;
	u->n1 = qp->sq_mask + 1 - at;
}

/** On a thread other than the worker's: reserve the chain's places in the ring. They are enqueued
 * together, so no other post comes between them. */
static int
verbs_chain_open_foreign(struct weft_verbs_chain *u)
{
	struct rte_ring_zc_data zcd;

	u->ring = weft_verbs_sq_ring(u->qp);
	if (u->ring == NULL)
		return -ENOMEM;
	/* The credits are places of the ring, so there is room. */
	if (rte_ring_enqueue_zc_bulk_elem_start(u->ring, u->qp->sqe_bytes, u->places, &zcd, NULL) ==
	    0)
		return -EAGAIN;
	u->at[0] = zcd.ptr1;
	u->at[1] = zcd.ptr2;
	u->n1 = zcd.n1;
	return 0;
}

int
weft_verbs_chain_open(struct weft_verbs_chain *u)
{
	int rc = 0;

	if (u->mine)
		verbs_chain_open_own(u);
	else
		rc = verbs_chain_open_foreign(u);
	if (rc < 0)
		weft_verbs_chain_cancel(u);
	return rc;
}

static struct verbs_sqe *
verbs_chain_slot(const struct weft_verbs_chain *u, uint32_t i)
{
	uint32_t bytes = u->qp->sqe_bytes;
	uint8_t *p =
	        i < u->n1 ? u->at[0] + (size_t)i * bytes : u->at[1] + (size_t)(i - u->n1) * bytes;

	return (struct verbs_sqe *)(void *)p;
}

int
weft_verbs_chain_part(struct weft_verbs_chain *u, const struct weft_wr *wr, uint8_t step,
                      uint32_t range, int watch)
{
	struct verbs_sqe *s = verbs_chain_slot(u, u->n);
	int rc = weft_verbs_fill(u->qp, s, wr);

	if (rc < 0)
		return rc;
	s->chain = VERBS_CHAIN_PART;
	s->step = step;
	s->range = range;
	if (watch >= 0) {
		s->chain |= VERBS_WATCHED;
		s->watch = (uint32_t)watch;
	}
	if (++u->n == u->places)
		s->chain |= VERBS_CHAIN_LAST;
	return 0;
}

static int
verbs_chain_post(struct weft_verbs_chain *u)
{
	struct weft_qp *qp = u->qp;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < u->places; i++)
		rc = weft_verbs_local(qp, verbs_chain_slot(u, i));
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < u->places; i++) {
		struct verbs_sqe *s = verbs_sqe_at(qp, qp->sq_tail++);

		weft_rdmap_post(qp->rdmap, &s->req);
	}
	return 0;
}

int
weft_verbs_chain_close(struct weft_verbs_chain *u, int rc)
{
	if (!u->mine) {
		WEFT_TSAN_RELEASE(u->ring);
		rte_ring_enqueue_zc_elem_finish(u->ring, rc == 0 ? u->places : 0);
		if (rc == 0)
			weft_verbs_ring_doorbell(u->qp);
	} else if (rc == 0) {
		rc = verbs_chain_post(u);
	}
	if (rc < 0)
		weft_verbs_chain_cancel(u);
	return rc;
}
