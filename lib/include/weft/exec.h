/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_EXEC_H
#define WEFT_EXEC_H

/**
 * @file The executor of a worker. Operations that would block the worker (a flush of a file, a read
 * of a medium) run on helper threads. Their completion runs on the worker. Persist drivers
 * (weft/persist.h) use the executor.
 *
 * An executor is a handle. NULL, a handle of another kind, and one of the last 64 destroyed handles
 * are refused with -EINVAL. A function without an errno returns its neutral value.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/api.h>

WEFT_API_BEGIN

struct weft_exec;

/** One job. The submitter embeds it; a driver puts it into weft_persist_req.drv. */
struct weft_job {
	struct weft_job *next;
	/**
	 * Runs on a helper thread and may block. Without helper threads it runs in
	 * weft_exec_poll().
	 */
	void (*run)(struct weft_job *j);
	/** Runs on the worker, after run(). */
	void (*done)(struct weft_job *j);
};

/**
 * Create an executor with `threads` helper threads. With 0 threads jobs run inside
 * weft_exec_poll(), which simulations use. -ENOMEM; -EAGAIN: no thread or file descriptor is
 * left; -EINVAL: more than 64 threads, or out is NULL.
 */
int weft_exec_create(unsigned int threads, struct weft_exec **out);
/**
 * The same with helper threads that begin when there are jobs for them, `most` at a time, and end
 * some seconds after the last job. A thread of the program, which all such executors share, begins
 * them: submitting never waits. While no thread can be had, that one runs the jobs itself. For
 * thousands of executors of which few have jobs. -EINVAL: `most` is 0 or more than 64.
 */
int weft_exec_create_on_demand(unsigned int most, struct weft_exec **out);
/**
 * Destroy an executor. Waits for running jobs. done() is called for each job that has run. Jobs
 * that have not started are dropped, and their done() is not called. Does nothing for NULL. Refused
 * when called from such a done(). Worker's thread only.
 */
void weft_exec_destroy(struct weft_exec *e);
/**
 * Submit a job. Jobs of one executor start in the order of submission. Worker's thread only.
 * -EAGAIN: 1024 jobs are under way, or the executor is being destroyed. -EINVAL: no executor, no
 * job.
 */
int weft_exec_submit(struct weft_exec *e, struct weft_job *j);
/** Call done() of the jobs that have finished. Returns how many. Worker's thread only. */
unsigned int weft_exec_poll(struct weft_exec *e);
/** Number of jobs submitted whose done() has not been called. */
unsigned int weft_exec_pending(const struct weft_exec *e);
/**
 * An eventfd that becomes readable when a job finishes; weft_exec_poll() clears it. -1 without
 * helper threads.
 */
int weft_exec_fd(const struct weft_exec *e);

WEFT_API_END

#endif /* WEFT_EXEC_H */
