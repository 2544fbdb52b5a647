/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_EXEC_H
#define WEFT_EXEC_H

/**
 * @file
 * The executor of a worker: what would block (a flush of a file, a read of a medium) runs on helper
 * threads, and its completion comes back to the worker. Persist drivers (weft/persist.h) use it.
 *
 * An executor is a handle: NULL, a handle of another kind and one of the last 64 destroyed are
 * refused, with -EINVAL or what stands for it in a call that returns no errno.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/api.h>

WEFT_API_BEGIN

struct weft_exec;

/** One job; embedded (drivers put it into weft_persist_req.drv). */
struct weft_job {
	struct weft_job *next;
	/** Runs on a helper thread (or when a simulation says so); may block. */
	void (*run)(struct weft_job *j);
	/** Runs on the worker afterwards. */
	void (*done)(struct weft_job *j);
};

/**
 * A worker's executor: `threads` helper threads (0: jobs run inside weft_exec_poll, for
 * simulations). -ENOMEM, -EAGAIN; -EINVAL: more than 64 threads, no place for the result.
 */
int weft_exec_create(unsigned int threads, struct weft_exec **out);
/**
 * Worker only. Waits for running jobs; done of what has run is called, jobs not started are dropped
 * without. NULL is destroyed already; refused within such a done.
 */
void weft_exec_destroy(struct weft_exec *e);
/** Worker only. -EAGAIN: 1024 jobs are under way already, or it is being destroyed. -EINVAL: no
 * executor, no job. Jobs of one executor start in order. */
int weft_exec_submit(struct weft_exec *e, struct weft_job *j);
/** Worker only: run done of what finished. Returns how many. */
unsigned int weft_exec_poll(struct weft_exec *e);
/** Jobs submitted and not yet done. */
unsigned int weft_exec_pending(const struct weft_exec *e);
/** A file descriptor that becomes readable when a job finishes (eventfd), -1 without threads; poll
 * clears it. */
int weft_exec_fd(const struct weft_exec *e);

WEFT_API_END

#endif /* WEFT_EXEC_H */
