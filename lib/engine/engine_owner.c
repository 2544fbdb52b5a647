/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Which thread polls a worker: the owner, and what happens when it ends. */

#include <pthread.h>

#include <rte_lcore.h>

#include "engine_priv.h"

static pthread_once_t keys_once = PTHREAD_ONCE_INIT;
static pthread_key_t eal_thread_key, polled_key;

static void
owner_unregister(void *arg)
{
	(void)arg;
	rte_thread_unregister();
}

/* All workers of the process, for owner_gone(). */
static pthread_mutex_t workers_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, weft_worker) workers = LIST_HEAD_INITIALIZER(workers);

void
weft_engine_worker_known(struct weft_worker *w)
{
	pthread_mutex_lock(&workers_lock);
	LIST_INSERT_HEAD(&workers, w, known);
	pthread_mutex_unlock(&workers_lock);
}

void
weft_engine_worker_forget(struct weft_worker *w)
{
	pthread_mutex_lock(&workers_lock);
	LIST_REMOVE(w, known);
	pthread_mutex_unlock(&workers_lock);
}

/**
 * A thread that polled ends without weft_worker_detach(). Its mark as owner is removed from all
 * workers: the address of the mark may later belong to another thread. The worker stays online for
 * the RCU of regions, so freed regions wait until its next poll. Another thread may already have
 * taken the worker over.
 */
static void
owner_gone(void *arg)
{
	struct weft_worker *w;

	(void)arg;
	pthread_mutex_lock(&workers_lock);
	LIST_FOREACH (w, &workers, known) {
		const char *mine = &weft_thread_mark;

		(void)atomic_compare_exchange_strong_explicit(
		        &w->v.owner, &mine, NULL, memory_order_release, memory_order_relaxed);
	}
	pthread_mutex_unlock(&workers_lock);
}

static void
owner_keys(void)
{
	(void)pthread_key_create(&eal_thread_key, owner_unregister);
	(void)pthread_key_create(&polled_key, owner_gone);
}

void
weft_engine_adopt(struct weft_worker *w)
{
	static _Thread_local bool tried;

	weft_engine_clock_start();
	pthread_once(&keys_once, owner_keys);
	if (rte_lcore_id() == LCORE_ID_ANY && !tried) {
		tried = true; /* without an id all works, but mbuf caches are not used */
		if (rte_thread_register() == 0)
			(void)pthread_setspecific(eal_thread_key, &eal_thread_key);
		else
			WEFT_LOG(engine, WARNING, "%s: EAL has no room for this thread", w->name);
	}
	(void)pthread_setspecific(polled_key, &polled_key);
	atomic_store_explicit(&w->v.owner, &weft_thread_mark, memory_order_release);
	weft_mem_online(w->ctx->v.mem, w->v.id);
}

int
weft_engine_take_over(struct weft_worker *w)
{
	if (WEFT_HANDLE_BAD(w, WORKER))
		return -EINVAL;
	if (atomic_load_explicit(&w->inside, memory_order_acquire) == 0) {
		weft_engine_adopt(w);
		return 0;
	}
	if (!atomic_exchange_explicit(&w->told, true, memory_order_relaxed))
		WEFT_LOG(engine, ERR,
		         "%s: polled by two threads at once; the second one is refused", w->name);
	return -EBUSY;
}

void
weft_worker_detach(struct weft_worker *w)
{
	if (w == NULL || !weft_vworker_is_mine(&w->v))
		return;
	weft_mem_offline(w->ctx->v.mem, w->v.id);
	atomic_store_explicit(&w->v.owner, NULL, memory_order_release);
}

bool
weft_worker_is_mine(const struct weft_worker *w)
{
	return w != NULL && weft_vworker_is_mine(&w->v);
}
