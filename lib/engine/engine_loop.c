/* SPDX-License-Identifier: BSD-3-Clause */
/** @file One poll of a worker, and when the next one has work. */

#include <rte_cycles.h>

#include "engine_priv.h"
#include "weft_netif.h"
#include "weft_netif_tx.h"

#define LOOP_ROUNDS     4 /**< at most so many rounds of callbacks and tasks in one poll */
#define LOOP_RECLAIM_NS (100 * WEFT_NS_PER_US)

static unsigned int
engine_turn(struct weft_worker *w, uint64_t now_ns)
{
	struct weft_cm_worker *cm = &w->cm;
	struct weft_vworker *v = &w->v;
	struct weft_sched *s = &v->sched;
	unsigned int n;

	s->now_ns = now_ns;
	n = weft_work_run(&v->work);
	for (unsigned int i = 0; i < cm->nnif; i++)
		n += weft_netif_poll(cm->nif[i], now_ns);
	n += weft_exec_poll(s->exec);
	if (unlikely(w->pollers.n > 0))
		n += weft_engine_pollers_poll(w, now_ns);
	n += weft_timer_run(&s->wheel, now_ns);
	/* Callbacks run before tasks, so requests that they post are sent in this poll. Tasks
	 * complete work, which needs callbacks in turn. */
	for (unsigned int round = 0; round < LOOP_ROUNDS; round++) {
		n += weft_vworker_deliver(v);
		n += round == 0 ? weft_sched_run(s, now_ns) : weft_sched_run_more(s, now_ns);
		if (!weft_vworker_pending(v))
			break;
	}
	for (unsigned int i = 0; i < cm->nnif; i++)
		n += weft_netif_flush(cm->nif[i], now_ns);
	weft_mem_quiescent(w->ctx->v.mem, v->id);
	if (n == 0 || now_ns - w->reclaim_ns >= LOOP_RECLAIM_NS) {
		w->reclaim_ns = now_ns;
		n += weft_mem_reclaim(w->ctx->v.mem);
	}
	return n;
}

unsigned int
weft_engine_poll_at(struct weft_worker *w, uint64_t now_ns)
{
	unsigned int n;

	if (unlikely(!weft_vworker_is_mine(&w->v)))
		weft_engine_adopt(w);
	n = engine_turn(w, now_ns);
	w->polls++;
	w->busy_polls += n > 0;
	return n;
}

int
weft_worker_poll(struct weft_worker *w)
{
	unsigned int n, nested;
	uint64_t start;

	if (unlikely(w == NULL || !weft_vworker_is_mine(&w->v))) {
		int rc = weft_engine_take_over(w);

		if (rc < 0)
			return rc;
	}
	/* Relaxed loads and stores cost nothing. They miss two threads that begin a poll within the
	 * same few nanoseconds. */
	nested = atomic_load_explicit(&w->inside, memory_order_relaxed); /* a callback may poll */
	atomic_store_explicit(&w->inside, 1, memory_order_relaxed);
	start = rte_rdtsc();
	n = weft_engine_poll_at(w, weft_engine_tsc_ns(start));
	if (n > 0)
		weft_engine_hist_add(&w->hist, rte_rdtsc() - start);
	atomic_store_explicit(&w->inside, nested, memory_order_release);
	return (int)n;
}

/** Whether another poll would have work without new input. */
static bool
engine_has_work(const struct weft_worker *w)
{
	const struct weft_vworker *v = &w->v;

	return !TAILQ_EMPTY(&v->sched.run) || weft_work_waits(&v->work) ||
	       weft_vworker_pending(v) ||
	       (weft_exec_fd(v->sched.exec) < 0 && weft_exec_pending(v->sched.exec) > 0);
}

uint64_t
weft_engine_next_ns(struct weft_worker *w)
{
	uint64_t next_ns;

	if (engine_has_work(w))
		return w->v.sched.now_ns;
	next_ns = RTE_MIN(weft_timer_next(&w->v.sched.wheel), weft_engine_pollers_next_ns(w));
	return RTE_MAX(next_ns, w->v.sched.now_ns);
}
