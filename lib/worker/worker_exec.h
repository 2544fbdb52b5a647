/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_WORKER_EXEC_H
#define WEFT_WORKER_EXEC_H

/** @file The executor; private to worker_exec.c, worker_spawn.c and worker_helper.c. */

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include <rte_ring.h>

#include "weft_base.h"
#include <weft/exec.h>
#include "weft_handle.h"

/* Bits of an executor's gate. No other kind of handle uses them. */
#define EXEC_OPEN    0x40000000u /**< the executor accepts jobs */
#define EXEC_THREADS 0x20000000u /**< helper threads run the jobs */

struct weft_exec {
	struct weft_handle h;
	/* used by the worker's thread alone */
	struct rte_ring *down;
	unsigned int pending; /**< jobs submitted whose done() has not run */
	int64_t owed;         /**< stacks taken minus eventfd writes read */
	int fd;               /**< -1: without helpers */
	unsigned int nthreads;
	unsigned int most; /**< helpers on demand; 0: they began with the executor */

	/* shared with the helpers */
	sem_t work __rte_cache_aligned;
	struct weft_job *_Atomic up __rte_cache_aligned; /**< finished jobs, newest first */
	/* of helpers on demand (worker_spawn.c) */
	atomic_uint jobs;    /**< pending, as the worker has seen it last */
	atomic_uint submits; /**< jobs submitted, modulo 2^32 */
	atomic_uint running; /**< threads that will look for jobs */
	atomic_bool asked;   /**< it is among the spawner's asks */
	struct weft_exec *ask_next;
	/* under the spawner's lock */
	TAILQ_ENTRY(weft_exec) link;
	unsigned int alive; /**< threads that still use it */
	unsigned int seen;  /**< `submits` at the last look */
	bool ending;        /**< its threads were told to end since then */
	bool serving;       /**< the spawner runs its jobs */
	pthread_t thread[];
};

/* ---- worker_helper.c ---- */

/** Begin a thread on the CPUs of the program, without signals. Detached unless it is joined. The
 * name is that of a joined one. -errno of pthread_create(). */
int exec_thread(pthread_t *thread, const char *name, bool joined, void *(*run)(void *), void *arg);
/** A helper has run the job; it is the worker's again. */
void exec_finished(struct weft_exec *e, struct weft_job *j);

/* ---- worker_spawn.c ---- */

/** The executor may ask from now on. -EAGAIN: no thread or descriptor is left for the spawner. */
int exec_spawn_begin(struct weft_exec *e, unsigned int most);
/** No thread uses the executor any more; its gate is closed. Waits for jobs that run. */
void exec_spawn_end(struct weft_exec *e);
/** A job was submitted: ask for a thread if there are fewer than jobs. Worker's thread. */
void exec_spawn_ask(struct weft_exec *e);

#endif /* WEFT_WORKER_EXEC_H */
