/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Calls of other threads: weft_worker_call() runs a function on the worker's thread, and
 * weft_worker_set_tcp() changes what is the worker's there. */

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

struct engine_tcp_change {
	struct weft_worker *w;
	struct weft_tcp_change change;
};

static void
tcp_change_run(void *arg)
{
	struct engine_tcp_change *c = arg;

	weft_tcp_change(c->w->cm.tcp, &c->change);
	free(c);
}

int
weft_worker_set_tcp(struct weft_worker *w, const struct weft_tcp_change *change)
{
	struct engine_tcp_change *c;
	int rc;

	if (WEFT_HANDLE_BAD(w, WORKER) || change == NULL)
		return -EINVAL;
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return -ENOMEM;
	/* weft_worker_call() frees nothing: the function does, or this one if it is not called. */
	c->w = w;
	rc = weft_attr_copy(&c->change, sizeof(c->change), change);
	if (rc == 0 && (unsigned int)c->change.cc > WEFT_TCP_CC_NEWRENO)
		rc = -EINVAL;
	if (rc == 0)
		rc = weft_worker_call(w, tcp_change_run, c);
	if (rc < 0)
		free(c);
	return rc;
}
