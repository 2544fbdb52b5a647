/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_VWORKER_H
#define WEFT_VWORKER_H

/**
 * @file The parts of a context and of a worker that verbs needs. Internal. The engine embeds them
 * as the first member of struct weft_ctx and struct weft_worker, so verbs does not depend on the
 * engine.
 */

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include <weft/ulp.h>
#include "weft_base.h"
#include "weft_handle.h"
#include "weft_mem.h"
#include "weft_rdmap.h"
#include "weft_sched.h"
#include "weft_work.h"
#include <weft/verbs.h>

WEFT_LOG_DECLARE(verbs);

#define WEFT_MAX_WORKERS 64

TAILQ_HEAD(weft_cq_shard_list, weft_cq_shard);
TAILQ_HEAD(weft_evnode_list, weft_evnode);

/* ---- Context ---- */

struct weft_ctx;
struct weft_worker;
struct weft_cm;
struct weft_cm_worker;
struct weft_verbs_cm_ops;
struct weft_verbs_place_ops;

struct weft_vctx {
	struct weft_handle h;
	struct weft_mem *mem;
	const struct weft_verbs_cm_ops *cm_ops;
	const struct weft_verbs_place_ops *place;
	struct weft_cm *cm; /**< of lib/cm, which sets it */
	uint32_t max_pd_regions, max_pd_windows;
	/** protects everything below; never taken on the data path */
	pthread_mutex_t lock;
	uint32_t next_qpn;
	_Atomic uint32_t nworkers; /**< also read without the lock; only grows */
	struct weft_vworker *worker[WEFT_MAX_WORKERS];
	TAILQ_HEAD(, weft_pd) pds;
	TAILQ_HEAD(, weft_mr) mrs;
	TAILQ_HEAD(, weft_cq) cqs;
	TAILQ_HEAD(, weft_evq) evqs;
	TAILQ_HEAD(, weft_qp) qps;
	TAILQ_HEAD(, weft_srq) srqs;
};

/** cm, place: what verbs calls in lib/cm and lib/place (weft_verbs_ops.h). */
/** The context's lock is held, or no worker can be added any more. */
static inline uint32_t
weft_vctx_nworkers(const struct weft_vctx *v)
{
	return atomic_load_explicit(&v->nworkers, memory_order_relaxed);
}

void weft_vctx_init(struct weft_vctx *v, struct weft_mem *mem, const struct weft_verbs_cm_ops *cm,
                    const struct weft_verbs_place_ops *place);
/**
 * Destroy all listeners, requests and QPs. The workers are stopped, and the caller acts as all of
 * them.
 */
void weft_vctx_quiesce(struct weft_vctx *v);
/** Free the other remaining handles: CQs, event queues, regions, domains. */
void weft_vctx_fini(struct weft_vctx *v);

/* ---- Worker ---- */

struct weft_vworker_stats {
	uint64_t wcs, cq_overruns;
	uint64_t requests_refused, requests_refused_peer, requests_evicted, conns_refused_peer;
	/* of connections that have ended */
	uint64_t fpdus_in, fpdus_out, crc_errors, marker_errors;
	uint64_t msgs_in, msgs_out, terminates_in, terminates_out;
	uint64_t conns_total;
	uint64_t conns_pushed_out;
	/* streams of weft_qp_leave(): how many there are, were, did not close in time, and were
	 * reset for others */
	uint64_t left_now, left_total, left_timeouts, left_cut;
	uint64_t bad_ranges; /**< Flushes and Verifies of peers that failed */
	uint64_t revocations, revocations_reduced, revocations_invalidated, revocations_failed;
	uint64_t mpa_fallbacks; /**< second attempts, in revision 1 */
};

struct weft_vworker {
	struct weft_handle h;
	/** mark of the polling thread; NULL: none yet, or the worker is gone */
	const char *_Atomic owner;
	struct weft_vctx *ctx;
	unsigned int id;
	struct weft_sched sched;
	struct weft_cm_worker *cm; /**< of lib/cm, which sets it */
	uint32_t max_qps;
	_Atomic uint32_t nqps;         /**< streams in `left` count, too */
	TAILQ_HEAD(, verbs_left) left; /**< of weft_qp_leave(), the oldest first: verbs_left.c */
	/* delivery, the worker's own */
	struct weft_cq_shard_list ready; /**< CQs with new completions */
	struct weft_evnode_list early,
	        late; /**< events by callback, before and after completions */
	struct weft_work_item *later,
	        **later_tail; /**< run in the delivery phase, outside of up-calls */
	struct weft_vworker_stats stats;
	struct weft_rdmap_op_stats op_stats; /**< of all streams of this worker */
	/* any thread's */
	alignas(64) struct weft_work_queue work; /**< work items of other threads */
	/** a thread of the engine polls the worker, until it is told to stop */
	_Atomic uint32_t runs;
};

/** Its address identifies the thread. Initial-exec: every call and every poll compares it, and the
 * general model is a call of the dynamic linker. */
extern _Thread_local char weft_thread_mark __attribute__((tls_model("initial-exec")));

static inline bool
weft_vworker_is_mine(const struct weft_vworker *vw)
{
	return atomic_load_explicit(&vw->owner, memory_order_relaxed) == &weft_thread_mark;
}

/**
 * Whether another thread polls the worker; then the caller may not use what belongs to the worker's
 * thread.
 */
static inline bool
weft_vworker_is_others(const struct weft_vworker *vw)
{
	const char *owner = atomic_load_explicit(&vw->owner, memory_order_relaxed);

	return owner != NULL && owner != &weft_thread_mark;
}

/** The verbs part of a worker handle, which is its first member. */
static inline struct weft_vworker *
weft_vworker_of(struct weft_worker *w)
{
	return (struct weft_vworker *)w;
}

static inline struct weft_vctx *
weft_vctx_of(struct weft_ctx *c)
{
	return (struct weft_vctx *)c;
}

void weft_vworker_init(struct weft_vworker *vw, struct weft_vctx *ctx);

/** Run m in the next delivery phase; worker only. */
static inline void
weft_vworker_later(struct weft_vworker *vw, struct weft_work_item *m)
{
	m->next = NULL;
	*vw->later_tail = m;
	vw->later_tail = &m->next;
}

/** Whether the delivery phase has something to do. */
static inline bool
weft_vworker_pending(const struct weft_vworker *vw)
{
	return !TAILQ_EMPTY(&vw->ready) || !TAILQ_EMPTY(&vw->early) || !TAILQ_EMPTY(&vw->late) ||
	       vw->later != NULL;
}
/** The delivery phase: CONNECT_REQUEST and ESTABLISHED, then completions, then the other events.
 * Worker only. */
unsigned int weft_vworker_deliver(struct weft_vworker *vw);

/** Counters, those of live connections included. Any thread. */
void weft_vworker_stats(struct weft_vworker *vw, struct weft_vworker_stats *st);

#endif /* WEFT_VWORKER_H */
