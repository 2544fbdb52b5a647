/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Completion queues: one ring per worker that feeds them, merged when polled. */

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "verbs_cq.h"
#include "weft_verbs_mr.h"

#define CQ_BURST 32

/*
 * The ring's elements are thirds of a completion, three enqueued and dequeued at a time: DPDK
 * copies elements of 16 octets by wide moves, and longer ones by four octets.
 */
#define CQ_UNIT_BYTES 16
#define CQ_UNITS      (sizeof(struct weft_wc) / CQ_UNIT_BYTES)
static_assert(sizeof(struct weft_wc) == CQ_UNITS * CQ_UNIT_BYTES, "whole elements");

static unsigned int
verbs_cq_count(const struct weft_cq_shard *sub)
{
	return rte_ring_count(sub->ring) / CQ_UNITS;
}

enum verbs_arm { ARM_NONE, ARM_SOLICITED, ARM_ANY };

int
weft_cq_create(struct weft_ctx *ctx, const struct weft_cq_attr *attr, struct weft_cq **out)
{
	struct weft_vctx *v = weft_vctx_of(ctx);
	struct weft_cq_attr a;
	struct weft_cq *cq;
	int rc;

	if (WEFT_HANDLE_BAD(ctx, CTX) || out == NULL)
		return -EINVAL;
	rc = weft_attr_copy(&a, sizeof(a), attr);
	if (rc < 0)
		return rc;
	if (a.depth == 0 || a.depth > VERBS_CQ_MAX_DEPTH || (a.on_wc != NULL && a.want_fd))
		return -EINVAL;
	cq = calloc(1, sizeof(*cq));
	if (cq == NULL)
		return -ENOMEM;
	cq->ctx = v;
	cq->on_wc = a.on_wc;
	cq->user = a.user;
	cq->depth = rte_align32pow2(a.depth);
	cq->fd = -1;
	atomic_init(&cq->refs, 1);
	if (a.want_fd) {
		cq->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		if (cq->fd < 0) {
			rc = -errno;
			free(cq);
			return rc;
		}
	}
	cq->h.gate = a.on_wc != NULL ? CQ_GATE_CALLBACK : 0;
	weft_handle_init(&cq->h, WEFT_KIND(CQ));
	pthread_mutex_lock(&v->lock);
	TAILQ_INSERT_TAIL(&v->cqs, cq, all);
	pthread_mutex_unlock(&v->lock);
	*out = cq;
	return 0;
}

void
weft_verbs_cq_free(struct weft_cq *cq)
{
	for (uint32_t i = 0, n = atomic_load_explicit(&cq->nsubs, memory_order_relaxed); i < n;
	     i++) {
		if (cq->sub[i]->queued)
			TAILQ_REMOVE(&cq->sub[i]->vw->ready, cq->sub[i], link);
		free(cq->sub[i]->ring);
		free(cq->sub[i]);
	}
	if (cq->fd >= 0)
		close(cq->fd);
	weft_handle_free(&cq->h, sizeof(cq->h));
}

void
weft_verbs_cq_unref(struct weft_cq *cq)
{
	if (atomic_fetch_sub_explicit(&cq->refs, 1, memory_order_acq_rel) == 1)
		weft_verbs_cq_free(cq);
}

/** On each worker that fed the CQ: it stops feeding it. */
static void
verbs_cq_detach(struct weft_work_item *m)
{
	struct weft_cq_shard *sub = container_of(m, struct weft_cq_shard, detach);

	if (sub->queued) {
		sub->queued = false;
		TAILQ_REMOVE(&sub->vw->ready, sub, link);
	}
	weft_verbs_cq_unref(sub->cq);
}

int
weft_cq_destroy(struct weft_cq *cq)
{
	struct weft_vctx *v;

	if (WEFT_HANDLE_CLAIM(cq, CQ) < 0)
		return -EINVAL;
	v = cq->ctx;
	if (weft_verbs_lock_unused(v, &cq->h, WEFT_KIND(CQ), &cq->users) < 0)
		return -EBUSY;
	TAILQ_REMOVE(&v->cqs, cq, all);
	atomic_store_explicit(&cq->dead, true, memory_order_relaxed);
	pthread_mutex_unlock(&v->lock);
	weft_handle_end(&cq->h, WEFT_KIND(CQ));
	/* The handle's reference keeps cq while the work items are sent. */
	for (uint32_t i = 0, n = atomic_load_explicit(&cq->nsubs, memory_order_relaxed); i < n; i++)
		weft_work_send(&cq->sub[i]->vw->work, &cq->sub[i]->detach);
	weft_verbs_cq_unref(cq);
	return 0;
}

static struct rte_ring *
verbs_ring(unsigned int esize, uint32_t count, unsigned int flags)
{
	ssize_t bytes = rte_ring_get_memsize_elem(esize, rte_align32pow2(count + 1));
	struct rte_ring *r;

	if (bytes < 0)
		return NULL;
	r = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL((size_t)bytes, RTE_CACHE_LINE_SIZE));
	if (r == NULL)
		return NULL;
	if (rte_ring_init(r, "weft", count, flags | RING_F_EXACT_SZ) != 0) {
		free(r);
		return NULL;
	}
	return r;
}

struct rte_ring *
weft_verbs_ring_mpsc(unsigned int esize, uint32_t count, bool inplace)
{
	/*
	 * Relaxed tails (RTS) are not possible: an enqueue could return before its elements are
	 * visible, and a later post of the owner would overtake them.
	 */
	return verbs_ring(esize, count, RING_F_SC_DEQ | (inplace ? RING_F_MP_HTS_ENQ : 0));
}

struct weft_cq_shard *
weft_verbs_cq_join(struct weft_cq *cq, struct weft_vworker *vw)
{
	struct weft_cq_shard *sub = NULL;
	uint32_t i, n;

	pthread_mutex_lock(&cq->ctx->lock);
	n = atomic_load_explicit(&cq->nsubs, memory_order_relaxed);
	for (i = 0; i < n; i++)
		if (cq->sub[i]->vw == vw) {
			sub = cq->sub[i];
			goto out;
		}
	sub = calloc(1, sizeof(*sub));
	if (sub == NULL)
		goto unlock;
	sub->ring = verbs_ring(CQ_UNIT_BYTES, cq->depth * CQ_UNITS,
	                       RING_F_SP_ENQ | (cq->on_wc != NULL ? RING_F_SC_DEQ : 0));
	if (sub->ring == NULL) {
		free(sub);
		sub = NULL;
		goto unlock;
	}
	sub->cq = cq;
	sub->vw = vw;
	sub->detach.fn = verbs_cq_detach;
	cq->sub[n] = sub;
	/* released by verbs_cq_detach() */
	atomic_fetch_add_explicit(&cq->refs, 1, memory_order_relaxed);
	atomic_store_explicit(&cq->nsubs, n + 1, memory_order_release);
out:
	atomic_fetch_add_explicit(&cq->users, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&cq->refs, 1, memory_order_relaxed);
unlock:
	pthread_mutex_unlock(&cq->ctx->lock);
	return sub;
}

static inline void
verbs_cq_ready(struct weft_cq_shard *sub)
{
	if (!sub->queued) {
		sub->queued = true;
		TAILQ_INSERT_TAIL(&sub->vw->ready, sub, link);
	}
}

bool
weft_verbs_cq_put(struct weft_cq_shard *sub, const struct weft_wc *wc)
{
	if (unlikely(rte_ring_sp_enqueue_bulk_elem(sub->ring, (void *)(uintptr_t)wc, CQ_UNIT_BYTES,
	                                           CQ_UNITS, NULL) == 0)) {
		sub->vw->stats.cq_overruns++;
		atomic_fetch_add_explicit(&sub->cq->overruns, 1, memory_order_relaxed);
		atomic_fetch_or_explicit(WEFT_ATOMIC_REF(sub->cq->h.gate), CQ_GATE_OVERRUN,
		                         memory_order_relaxed);
		/*
		 * An overrun is an error, so it wakes a thread that waits for solicited
		 * completions.
		 */
		sub->solicited = true;
		verbs_cq_ready(sub);
		return false;
	}
	sub->vw->stats.wcs++;
	if ((wc->flags & WEFT_WC_SOLICITED) != 0 || wc->status != WEFT_WC_SUCCESS)
		sub->solicited = true;
	verbs_cq_ready(sub);
	return true;
}

static void
verbs_cq_wake(struct weft_cq_shard *sub)
{
	struct weft_cq *cq = sub->cq;
	uint32_t armed;

	/* Here: put, then read armed. weft_cq_arm(): write armed, then look for completions. */
	atomic_thread_fence(memory_order_seq_cst);
	armed = atomic_load_explicit(&cq->armed, memory_order_relaxed);
	if (armed != ARM_NONE && (armed == ARM_ANY || sub->solicited) &&
	    atomic_exchange_explicit(&cq->armed, ARM_NONE, memory_order_acq_rel) != ARM_NONE) {
		uint64_t one = 1;

		if (write(cq->fd, &one, sizeof(one)) < 0) {
			/* EAGAIN: readable already. */
		}
	}
	sub->solicited = false;
}

static unsigned int
verbs_cq_callback(struct weft_cq_shard *sub)
{
	struct weft_wc wc[CQ_BURST];
	struct weft_cq *cq = sub->cq;
	/*
	 * Completions that the callbacks cause wait for the next round, so that every CQ gets its
	 * turn.
	 */
	unsigned int left = verbs_cq_count(sub), total = 0, n;

	while (left > 0 && !atomic_load_explicit(&cq->dead, memory_order_relaxed)) {
		n = RTE_MIN(left, (unsigned int)CQ_BURST);
		n = rte_ring_sc_dequeue_burst_elem(sub->ring, wc, CQ_UNIT_BYTES, n * CQ_UNITS,
		                                   NULL) /
		    CQ_UNITS;
		if (n == 0)
			break;
		left -= n;
		total += n;
		cq->on_wc(cq->user, cq, wc, n);
	}
	return total;
}

unsigned int
weft_verbs_cq_deliver(struct weft_vworker *vw)
{
	struct weft_cq_shard *sub, *last = TAILQ_LAST(&vw->ready, weft_cq_shard_list);
	unsigned int n = 0;
	bool more = last != NULL;

	while (more && (sub = TAILQ_FIRST(&vw->ready)) != NULL) {
		more = sub != last;
		TAILQ_REMOVE(&vw->ready, sub, link);
		sub->queued = false;
		/* A CQ destroyed by a callback is freed by a work item, after this loop. */
		if (atomic_load_explicit(&sub->cq->dead, memory_order_relaxed))
			continue;
		if (sub->cq->on_wc != NULL) {
			n += verbs_cq_callback(sub);
			if (!sub->queued && !rte_ring_empty(sub->ring)) {
				sub->queued = true;
				TAILQ_INSERT_TAIL(&vw->ready, sub, link);
			}
		} else {
			n++;
			if (sub->cq->fd >= 0)
				verbs_cq_wake(sub);
		}
	}
	return n;
}

/** Handle an unusual poll: returns what weft_cq_poll() returns, or 1 if it may go on. */
static __rte_noinline int
verbs_cq_gate(struct weft_cq *cq, const struct weft_wc *wc, unsigned int max)
{
	uint32_t gate;

	if (WEFT_HANDLE_BAD(cq, CQ) || (wc == NULL && max > 0))
		return -EINVAL;
	gate = atomic_fetch_and_explicit(WEFT_ATOMIC_REF(cq->h.gate), ~(uint32_t)CQ_GATE_OVERRUN,
	                                 memory_order_relaxed);
	if ((gate & CQ_GATE_OVERRUN) != 0)
		return -EOVERFLOW;
	return (gate & CQ_GATE_CALLBACK) != 0 || max == 0 ? 0 : 1;
}

/** Take up to max completions. Any thread. */
static inline unsigned int
verbs_cq_take(struct weft_cq_shard *sub, struct weft_wc *wc, unsigned int max)
{
	/* at most the ring's own number: max has no bound, and the product must not wrap */
	const unsigned int units = RTE_MIN(max, (unsigned int)VERBS_CQ_MAX_DEPTH) * CQ_UNITS;

	return rte_ring_mc_dequeue_burst_elem(sub->ring, wc, CQ_UNIT_BYTES, units, NULL) / CQ_UNITS;
}

int
weft_cq_poll(struct weft_cq *cq, struct weft_wc *wc, unsigned int max)
{
	unsigned int n = 0;
	uint32_t nsubs, at;

	if (unlikely(cq == NULL || wc == NULL ||
	             atomic_load_explicit(WEFT_ATOMIC_REF(cq->h.gate), memory_order_acquire) !=
	                     0)) {
		int rc = verbs_cq_gate(cq, wc, max);

		if (rc <= 0)
			return rc;
	}
	nsubs = atomic_load_explicit(&cq->nsubs, memory_order_acquire);
	if (likely(nsubs == 1))
		return (int)verbs_cq_take(cq->sub[0], wc, max);
	if (nsubs == 0)
		return 0;
	at = atomic_fetch_add_explicit(&cq->rr, 1, memory_order_relaxed);
	for (uint32_t i = 0; i < nsubs && n < max; i++)
		n += verbs_cq_take(cq->sub[(at + i) % nsubs], &wc[n], max - n);
	return (int)n;
}

int
weft_cq_arm(struct weft_cq *cq, bool solicited_only)
{
	uint32_t want = solicited_only ? ARM_SOLICITED : ARM_ANY, nsubs;
	uint32_t armed;

	if (WEFT_HANDLE_BAD(cq, CQ))
		return -EINVAL;
	armed = atomic_load_explicit(&cq->armed, memory_order_relaxed);
	if (cq->fd < 0)
		return -ENOTSUP;
	/* Another thread may have armed. This call may widen its request, but never narrow it. */
	while (!atomic_compare_exchange_weak_explicit(&cq->armed, &armed, RTE_MAX(armed, want),
	                                              memory_order_acq_rel, memory_order_relaxed))
		;
	atomic_thread_fence(memory_order_seq_cst);
	nsubs = atomic_load_explicit(&cq->nsubs, memory_order_acquire);
	for (uint32_t i = 0; i < nsubs; i++)
		if (!rte_ring_empty(cq->sub[i]->ring))
			return 1;
	return (atomic_load_explicit(WEFT_ATOMIC_REF(cq->h.gate), memory_order_relaxed) &
	        CQ_GATE_OVERRUN) != 0
	               ? 1
	               : 0;
}

void
weft_cq_query(const struct weft_cq *cq, struct weft_cq_info *info)
{
	uint32_t nsubs, armed, waiting = 0;

	if (info == NULL)
		return;
	if (WEFT_HANDLE_BAD(cq, CQ)) {
		memset(info, 0, sizeof(*info));
		return;
	}
	nsubs = atomic_load_explicit(&cq->nsubs, memory_order_acquire);
	armed = atomic_load_explicit(&cq->armed, memory_order_relaxed);
	for (uint32_t i = 0; i < nsubs; i++)
		waiting += verbs_cq_count(cq->sub[i]);
	*info = (struct weft_cq_info){
	        .depth = cq->depth,
	        .workers = nsubs,
	        .waiting = waiting,
	        .users = atomic_load_explicit(&cq->users, memory_order_relaxed),
	        .overruns = atomic_load_explicit(&cq->overruns, memory_order_relaxed),
	        .armed = armed == ARM_ANY,
	        .armed_solicited = armed == ARM_SOLICITED,
	};
}

int
weft_cq_fd(const struct weft_cq *cq)
{
	if (WEFT_HANDLE_BAD(cq, CQ))
		return -EINVAL;
	return cq->fd;
}
