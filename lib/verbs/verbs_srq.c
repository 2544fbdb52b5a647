/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Shared receive queues: receives for the QPs of any workers, without a lock.
 *
 * There is one ring for each worker that has a QP on the SRQ, filled by that worker alone, and one
 * ring for all other threads. Every worker may take from every ring, by one compare-and-swap, when
 * a message begins. No worker takes receives in advance into a cache of its own, because they would
 * be missing at the other workers. A search looks at one ring after the other. Receives stay in
 * their ring until they are taken. So a search fails only if every receive posted before it began
 * has been taken.
 *
 * A worker with a ring never waits when it posts. Other threads, and workers without a ring,
 * publish their receives in the order in which they took their places, so that the receives of a
 * post that has returned are visible. These threads may wait briefly for each other; workers with a
 * ring never wait for them.
 */

#include <stdlib.h>

#include <rte_pause.h>

#include "verbs_srq.h"
#include "verbs_wr.h"
#include "weft_verbs_event.h"
#include "weft_verbs_mr.h"

#define SRQ_DEFAULT_DEPTH 256

/** Positions only grow; a slot is a position modulo the size. */
struct verbs_srq_slot {
	_Atomic uint64_t free_at; /**< the position that may be filled next */
	struct verbs_rqe r;
};

struct verbs_srq_ring {
	struct weft_vworker *vw; /**< the worker that fills the ring; NULL: all other threads */
	alignas(64) _Atomic uint64_t prod; /**< next position for other threads */
	_Atomic uint64_t tail;             /**< receives before it can be taken */
	alignas(64) _Atomic uint64_t head; /**< receives before it were taken */
	alignas(64) uint8_t slot[];        /**< of struct verbs_srq_slot */
};

static inline struct verbs_srq_slot *
srq_slot(const struct weft_srq *srq, struct verbs_srq_ring *r, uint64_t pos)
{
	return (struct verbs_srq_slot *)(void *)(r->slot + (pos & srq->mask) * srq->slot_bytes);
}

static struct verbs_srq_ring *
srq_ring_new(const struct weft_srq *srq, struct weft_vworker *vw)
{
	size_t bytes = sizeof(struct verbs_srq_ring) + (size_t)(srq->mask + 1) * srq->slot_bytes;
	struct verbs_srq_ring *r = aligned_alloc(64, RTE_ALIGN_CEIL(bytes, 64));

	if (r == NULL)
		return NULL;
	memset(r, 0, bytes);
	r->vw = vw;
	for (uint64_t i = 0; i <= srq->mask; i++)
		atomic_init(&srq_slot(srq, r, i)->free_at, i);
	return r;
}

/* ---- Life ---- */

static void
srq_free(struct weft_srq *srq)
{
	for (uint32_t i = 0, n = atomic_load_explicit(&srq->nrings, memory_order_relaxed); i < n;
	     i++)
		free(srq->ring[i]);
	free(atomic_load_explicit(&srq->armed, memory_order_relaxed));
	if (srq->evq != NULL)
		weft_verbs_ev_unref(srq->evq);
	weft_verbs_pd_unref(srq->pd);
	weft_handle_free(&srq->h, sizeof(srq->h));
}

int
weft_srq_create(struct weft_pd *pd, const struct weft_srq_attr *attr, struct weft_srq **out)
{
	struct weft_srq_attr a;
	struct weft_srq *srq;
	struct weft_vctx *v;
	int rc;

	if (WEFT_HANDLE_BAD(pd, PD) || out == NULL)
		return -EINVAL;
	v = pd->ctx;
	rc = weft_attr_copy(&a, sizeof(a), attr);
	if (rc < 0)
		return rc;
	if (a.depth == 0)
		a.depth = SRQ_DEFAULT_DEPTH;
	if (a.max_sge == 0)
		a.max_sge = WEFT_DEFAULT_SGE;
	if (a.depth > VERBS_SRQ_MAX_DEPTH || a.max_sge > WEFT_MAX_SGE ||
	    (a.evq != NULL && (WEFT_HANDLE_BAD(a.evq, EVQ) || a.evq->ctx != v)))
		return -EINVAL;
	srq = aligned_alloc(64, RTE_ALIGN_CEIL(sizeof(*srq), 64));
	if (srq == NULL)
		return -ENOMEM;
	memset(srq, 0, sizeof(*srq));
	srq->ctx = v;
	srq->pd = pd;
	srq->evq = a.evq;
	srq->user = a.user;
	srq->depth = a.depth;
	atomic_init(&srq->credits, a.depth);
	srq->mask = rte_align32pow2(a.depth) - 1;
	srq->max_sge = (uint8_t)a.max_sge;
	srq->slot_bytes = (uint16_t)(sizeof(struct verbs_srq_slot) +
	                             a.max_sge * sizeof(struct weft_rdmap_sge));
	atomic_init(&srq->refs, 1);
	srq->free = srq_free;
	srq->ring[0] = srq_ring_new(srq, NULL);
	if (srq->ring[0] == NULL) {
		free(srq);
		return -ENOMEM;
	}
	atomic_init(&srq->nrings, 1);
	atomic_fetch_add_explicit(&pd->users, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&pd->refs, 1, memory_order_relaxed);
	if (srq->evq != NULL) {
		atomic_fetch_add_explicit(&srq->evq->users, 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&srq->evq->refs, 1, memory_order_relaxed);
	}
	srq->h.gate = srq->max_sge;
	weft_handle_init(&srq->h, WEFT_KIND(SRQ));
	pthread_mutex_lock(&v->lock);
	TAILQ_INSERT_TAIL(&v->srqs, srq, all);
	pthread_mutex_unlock(&v->lock);
	*out = srq;
	return 0;
}

int
weft_srq_destroy(struct weft_srq *srq)
{
	struct weft_vctx *v;

	if (WEFT_HANDLE_CLAIM(srq, SRQ) < 0)
		return -EINVAL;
	v = srq->ctx;
	if (weft_verbs_lock_unused(v, &srq->h, WEFT_KIND(SRQ), &srq->users) < 0)
		return -EBUSY;
	TAILQ_REMOVE(&v->srqs, srq, all);
	weft_handle_end(&srq->h, WEFT_KIND(SRQ));
	atomic_store_explicit(&srq->dead, true, memory_order_release);
	pthread_mutex_unlock(&v->lock);
	if (srq->evq != NULL) {
		weft_verbs_ev_purge_srq(srq->evq, srq);
		atomic_fetch_sub_explicit(&srq->evq->users, 1, memory_order_release);
	}
	atomic_fetch_sub_explicit(&srq->pd->users, 1, memory_order_release);
	weft_verbs_srq_unref(srq);
	return 0;
}

int
weft_verbs_srq_join(struct weft_srq *srq, struct weft_vworker *vw)
{
	struct verbs_srq_ring *r;
	uint32_t i, n;
	int rc = 0;

	pthread_mutex_lock(&srq->ctx->lock);
	n = atomic_load_explicit(&srq->nrings, memory_order_relaxed);
	for (i = 1; i < n; i++)
		if (srq->ring[i]->vw == vw)
			break;
	if (i == n) {
		r = srq_ring_new(srq, vw);
		if (r == NULL) {
			rc = -ENOMEM;
		} else {
			srq->ring[i] = r;
			atomic_store_explicit(&srq->nrings, i + 1, memory_order_release);
		}
	}
	if (rc == 0) {
		atomic_fetch_add_explicit(&srq->users, 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&srq->refs, 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&srq->ctx->lock);
	return rc;
}

void
weft_verbs_srq_unuse(struct weft_srq *srq)
{
	atomic_fetch_sub_explicit(&srq->users, 1, memory_order_release);
}

const struct weft_mem_pd *
weft_verbs_srq_pd(const struct weft_srq *srq)
{
	return &srq->pd->mem;
}

uint8_t
weft_verbs_srq_max_sge(const struct weft_srq *srq)
{
	return srq->max_sge;
}

_Atomic uint32_t *
weft_verbs_srq_credits(struct weft_srq *srq)
{
	return &srq->credits;
}

struct weft_srq *
weft_verbs_srq_next(const struct weft_srq *srq)
{
	return TAILQ_NEXT(srq, all);
}

/* ---- Taking ---- */

static uint32_t
srq_posted(const struct weft_srq *srq)
{
	uint32_t n = atomic_load_explicit(&srq->nrings, memory_order_acquire);
	uint64_t posted = 0;

	for (uint32_t i = 0; i < n; i++) {
		/* head is read first, so the difference is never negative. */
		uint64_t head = atomic_load_explicit(&srq->ring[i]->head, memory_order_seq_cst);

		posted += atomic_load_explicit(&srq->ring[i]->tail, memory_order_seq_cst) - head;
	}
	return (uint32_t)RTE_MIN(posted, (uint64_t)srq->depth);
}

struct weft_evnode *
weft_verbs_srq_arm_take(struct weft_srq *srq)
{
	return atomic_exchange_explicit(&srq->armed, NULL, memory_order_seq_cst);
}

void
weft_verbs_srq_arm_back(struct weft_srq *srq, struct weft_evnode *n)
{
	struct weft_evnode *none = NULL;

	if (!atomic_compare_exchange_strong_explicit(&srq->armed, &none, n, memory_order_seq_cst,
	                                             memory_order_relaxed))
		free(n);
}

/**
 * The limit is armed: check whether it is reached. On the worker of a QP that took a receive, or
 * found none.
 */
static void
srq_check_limit(struct weft_srq *srq, struct weft_vworker *vw)
{
	struct weft_evnode *n;

	if (srq_posted(srq) >= atomic_load_explicit(&srq->limit, memory_order_acquire))
		return;
	n = weft_verbs_srq_arm_take(srq);
	if (n == NULL)
		return; /* another worker reports it */
	if (srq_posted(srq) >= atomic_load_explicit(&srq->limit, memory_order_acquire)) {
		/*
		 * Between the two checks it was armed again or disarmed, or receives were posted.
		 */
		weft_verbs_srq_arm_back(srq, n);
		return;
	}
	atomic_fetch_add_explicit(&srq->limit_events, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&srq->refs, 1, memory_order_relaxed);
	n->type = WEFT_EV_SRQ_LIMIT;
	n->srq = srq;
	weft_verbs_ev_emit(vw, srq->evq, n);
}

static inline bool
srq_ring_take(const struct weft_srq *srq, struct verbs_srq_ring *r, struct verbs_rqe *dst)
{
	uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
	struct verbs_srq_slot *s;

	do {
		/* head is never greater than the tail that is read after it */
		if (atomic_load_explicit(&r->tail, memory_order_acquire) == head)
			return false;
	} while (!atomic_compare_exchange_strong_explicit(
	        &r->head, &head, head + 1, memory_order_seq_cst, memory_order_relaxed));
	s = srq_slot(srq, r, head);
	memcpy(dst, &s->r, sizeof(s->r) + s->r.nsge * sizeof(s->r.sge[0]));
	atomic_store_explicit(&s->free_at, head + srq->mask + 1, memory_order_release);
	return true;
}

static inline bool
srq_search(struct weft_srq *srq, const struct weft_vworker *vw, struct verbs_rqe *dst)
{
	uint32_t n = atomic_load_explicit(&srq->nrings, memory_order_acquire), own = 1;

	while (own < n && srq->ring[own]->vw != vw)
		own++;
	if (likely(own < n && srq_ring_take(srq, srq->ring[own], dst)))
		return true;
	if (srq_ring_take(srq, srq->ring[0], dst))
		return true;
	for (uint32_t i = 1; i < n; i++)
		if (srq_ring_take(srq, srq->ring[(own + i - 1) % (n - 1) + 1], dst))
			return true;
	return false;
}

bool
weft_verbs_srq_take(struct weft_qp *qp)
{
	struct weft_srq *srq = qp->srq;
	bool got = srq_search(srq, qp->vw, verbs_rqe_at(qp, qp->rq_tail));

	if (likely(got))
		qp->rq_tail++;
	else
		atomic_fetch_add_explicit(&srq->no_buffer, 1, memory_order_relaxed);
	/*
	 * Here: take, then read `armed`. weft_srq_modify(): write `armed`, then count what is left.
	 */
	if (unlikely(atomic_load_explicit(&srq->armed, memory_order_seq_cst) != NULL))
		srq_check_limit(srq, qp->vw);
	return got;
}

/* ---- Posting ---- */

static struct verbs_srq_ring *
srq_ring_mine(struct weft_srq *srq)
{
	uint32_t n = atomic_load_explicit(&srq->nrings, memory_order_acquire);

	for (uint32_t i = 1; i < n; i++)
		if (weft_vworker_is_mine(srq->ring[i]->vw))
			return srq->ring[i];
	return srq->ring[0];
}

/** Claim n places; returns the first one. */
static uint64_t
srq_claim(struct verbs_srq_ring *r, uint32_t n)
{
	return r->vw != NULL ? atomic_load_explicit(&r->tail, memory_order_relaxed)
	                     : atomic_fetch_add_explicit(&r->prod, n, memory_order_relaxed);
}

static struct verbs_rqe *
srq_fill_at(struct weft_srq *srq, struct verbs_srq_ring *r, uint64_t pos)
{
	struct verbs_srq_slot *s = srq_slot(srq, r, pos);

	/* One lap ahead: a worker may still be copying the receive that it took from this slot. */
	while (unlikely(atomic_load_explicit(&s->free_at, memory_order_acquire) != pos))
		rte_pause();
	return &s->r;
}

static void
srq_publish(struct verbs_srq_ring *r, uint64_t pos, uint32_t n)
{
	while (r->vw == NULL && atomic_load_explicit(&r->tail, memory_order_acquire) != pos)
		rte_pause();
	atomic_store_explicit(&r->tail, pos + n, memory_order_seq_cst);
}

static inline int
srq_fill(uint32_t max_sge, struct verbs_rqe *r, const struct weft_recv_wr *wr)
{
	uint32_t len_bytes;

	if (unlikely(wr->num_sge > max_sge))
		return -EINVAL;
	r->wr_id = wr->wr_id;
	r->nsge = (uint8_t)wr->num_sge;
	return verbs_sges(r->sge, wr->sg_list, wr->num_sge, &len_bytes, &r->keyed);
}

int
weft_post_srq_recv(struct weft_srq *srq, const struct weft_recv_wr *wr, unsigned int n)
{
	alignas(8) uint8_t trial[VERBS_RWR_MAX_BYTES];
	struct verbs_srq_ring *r;
	unsigned int take, good = 0;
	uint32_t gate;
	uint64_t pos;
	int rc = 0;

	if (unlikely(srq == NULL || wr == NULL || n == 0))
		return WEFT_HANDLE_BAD(srq, SRQ) || n > 0 ? -EINVAL : 0;
	gate = atomic_load_explicit(WEFT_ATOMIC_REF(srq->h.gate), memory_order_acquire);
	if (unlikely((gate & WEFT_GATE_GONE) != 0))
		return weft_handle_refused(&srq->h, WEFT_KIND(SRQ), __func__);
	take = verbs_credits_take(&srq->credits, n);
	if (unlikely(take == 0))
		return -EAGAIN;
	/* A claimed place must be filled, so bad requests are found before. */
	while (good < take &&
	       (rc = srq_fill(gate, (struct verbs_rqe *)(void *)trial, &wr[good])) == 0)
		good++;
	if (unlikely(good < take))
		verbs_credits_give(&srq->credits, take - good);
	if (good == 0)
		return rc;
	r = srq_ring_mine(srq);
	pos = srq_claim(r, good);
	for (unsigned int i = 0; i < good; i++)
		(void)srq_fill(gate, srq_fill_at(srq, r, pos + i), &wr[i]);
	srq_publish(r, pos, good);
	return (int)good;
}

void
weft_verbs_srq_give_back(struct weft_qp *qp)
{
	const struct verbs_rqe *held = verbs_rqe_at(qp, qp->rq_head);
	struct verbs_srq_ring *r = srq_ring_mine(qp->srq);
	uint64_t pos = srq_claim(r, 1);

	/* The receive still counts against the depth, so there is a place. */
	memcpy(srq_fill_at(qp->srq, r, pos), held,
	       sizeof(*held) + held->nsge * sizeof(held->sge[0]));
	srq_publish(r, pos, 1);
	qp->rq_head = qp->rq_tail;
}

/* ---- The limit; queries ---- */

int
weft_srq_modify(struct weft_srq *srq, uint32_t limit)
{
	struct weft_evnode *n;

	if (WEFT_HANDLE_BAD(srq, SRQ) || limit > srq->depth || (limit > 0 && srq->evq == NULL))
		return -EINVAL;
	pthread_mutex_lock(&srq->ctx->lock);
	/* First, because a worker may hold the node at this moment and put it back. */
	if (limit == 0)
		atomic_store_explicit(&srq->limit, 0, memory_order_seq_cst);
	n = weft_verbs_srq_arm_take(srq);
	if (limit > 0 && n == NULL)
		n = weft_verbs_ev_new_brief();
	if (limit == 0 || n == NULL) {
		free(n);
		pthread_mutex_unlock(&srq->ctx->lock);
		return limit == 0 ? 0 : -ENOMEM;
	}
	atomic_store_explicit(&srq->limit, limit, memory_order_release);
	free(atomic_exchange_explicit(&srq->armed, n, memory_order_seq_cst));
	pthread_mutex_unlock(&srq->ctx->lock);
	return srq_posted(srq) < limit;
}

void
weft_srq_query(const struct weft_srq *srq, struct weft_srq_info *info)
{
	if (info == NULL)
		return;
	if (WEFT_HANDLE_BAD(srq, SRQ)) {
		memset(info, 0, sizeof(*info));
		return;
	}
	*info = (struct weft_srq_info){
	        .depth = srq->depth,
	        .max_sge = srq->max_sge,
	        .limit = atomic_load_explicit(&srq->armed, memory_order_acquire) != NULL
	                         ? atomic_load_explicit(&srq->limit, memory_order_acquire)
	                         : 0,
	        .posted = srq_posted(srq),
	        .used = srq->depth - atomic_load_explicit(&srq->credits, memory_order_relaxed),
	        .qps = atomic_load_explicit(&srq->users, memory_order_relaxed),
	        .no_buffer = atomic_load_explicit(&srq->no_buffer, memory_order_relaxed),
	        .limit_events = atomic_load_explicit(&srq->limit_events, memory_order_relaxed),
	};
}
