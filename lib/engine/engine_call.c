/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Calls of other threads: weft_worker_call() runs a function on the worker's thread. */

#include <stdlib.h>

#include "engine_priv.h"

#define CALLS_MAX 4096

struct engine_call {
	struct weft_work_item work;
	struct weft_worker *w;
	void (*fn)(void *arg);
	void *arg;
};

static void
call_run(struct weft_work_item *m)
{
	struct engine_call call = *container_of(m, struct engine_call, work);

	free(container_of(m, struct engine_call, work));
	atomic_fetch_sub_explicit(&call.w->calls, 1, memory_order_relaxed);
	call.fn(call.arg);
}

int
weft_worker_call(struct weft_worker *w, void (*fn)(void *arg), void *arg)
{
	struct engine_call *call;

	if (WEFT_HANDLE_BAD(w, WORKER) || fn == NULL)
		return -EINVAL;
	if (weft_vworker_is_mine(&w->v)) {
		fn(arg);
		return 0;
	}
	if (atomic_fetch_add_explicit(&w->calls, 1, memory_order_relaxed) >= CALLS_MAX) {
		atomic_fetch_sub_explicit(&w->calls, 1, memory_order_relaxed);
		return -EAGAIN;
	}
	call = malloc(sizeof(*call));
	if (call == NULL) {
		atomic_fetch_sub_explicit(&w->calls, 1, memory_order_relaxed);
		return -ENOMEM;
	}
	call->work.fn = call_run;
	call->w = w;
	call->fn = fn;
	call->arg = arg;
	weft_work_send(&w->v.work, &call->work);
	return 0;
}
