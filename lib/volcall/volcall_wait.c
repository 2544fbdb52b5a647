/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The functions that wait. Each runs its counterpart on the worker. The caller's thread
 * sleeps until that has told its end, or polls the worker where it is the worker's own.
 */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "volcall_priv.h"

#define IDLE_US    50
#define CALL_TRIES 2000 /* of a call that must not fail, while too many others are queued */
#define CALL_US    500

/* On the caller's stack. */
struct wait {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done;
	int status;
	struct weft_volume *v;
	struct weft_volume_req *req;
	const struct weft_volume_attr *attr;
	char why[VOLCALL_WHY_BYTES];
};

static void
wait_signal(struct wait *w, int status)
{
	pthread_mutex_lock(&w->lock);
	w->status = status;
	w->done = true;
	pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&w->lock);
}

static void
wait_done(struct wait *w, struct weft_worker *worker, bool mine)
{
	pthread_mutex_lock(&w->lock);
	while (!w->done) {
		if (!mine) {
			pthread_cond_wait(&w->cond, &w->lock);
			continue;
		}
		pthread_mutex_unlock(&w->lock);
		if (weft_worker_poll(worker) == 0)
			weft_worker_idle(worker, IDLE_US);
		pthread_mutex_lock(&w->lock);
	}
	pthread_mutex_unlock(&w->lock);
}

/* Run fn(w) on the worker, and wait until it, or what it has begun, signals. The status, or why fn
 * could not be run. */
static int
wait_for(struct wait *w, struct weft_worker *worker, void (*fn)(void *arg), bool must)
{
	bool mine = weft_worker_is_mine(worker);
	int rc = -EAGAIN;

	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->cond, NULL);
	w->done = false;
	for (unsigned int i = 0; i < CALL_TRIES && (rc == -EAGAIN || rc == -ENOMEM); i++) {
		if (i > 0)
			usleep(CALL_US);
		rc = weft_worker_call(worker, fn, w);
		if (!must)
			break;
	}
	if (rc == 0) {
		wait_done(w, worker, mine);
		rc = w->status;
	}
	pthread_cond_destroy(&w->cond);
	pthread_mutex_destroy(&w->lock);
	return rc;
}

/* ---- Requests ---- */

static void
wait_req_done(struct weft_volume_req *req)
{
	wait_signal(req->owner, req->status);
}

static void
wait_submit(void *arg)
{
	struct wait *w = arg;
	int rc = -EBUSY;

	if (w->req->volume == NULL) {
		w->req->done = wait_req_done;
		w->req->owner = w;
		rc = weft_volume_submit(w->v, w->req);
	}
	if (rc != 0)
		wait_signal(w, rc);
}

/* Whether this is inside a callback of the volume. The endpoint sends nothing before it returns, so
 * nothing may wait for an answer there. */
static bool
wait_is_inside(const struct weft_volume *v)
{
	return weft_worker_is_mine(v->worker) && v->pins > 0;
}

int
weft_volume_submit_wait(struct weft_volume *v, struct weft_volume_req *req)
{
	struct wait w = {.v = v, .req = req};

	if (weft_handle_check(v, &volcall_kind, __func__) < 0 || req == NULL)
		return -EINVAL;
	if (wait_is_inside(v))
		return -EDEADLK;
	return wait_for(&w, v->worker, wait_submit, false);
}

int
weft_volume_read(struct weft_volume *v, uint64_t off_bytes, void *data, uint64_t len_bytes)
{
	struct weft_volume_req req = {.op = WEFT_VOLUME_OP_READ,
	                              .off_bytes = off_bytes,
	                              .len_bytes = len_bytes,
	                              .data = data};

	return weft_volume_submit_wait(v, &req);
}

int
weft_volume_write(struct weft_volume *v, uint64_t off_bytes, const void *data, uint64_t len_bytes,
                  uint32_t flags)
{
	struct weft_volume_req req = {.op = WEFT_VOLUME_OP_WRITE,
	                              .flags = flags,
	                              .off_bytes = off_bytes,
	                              .len_bytes = len_bytes,
	                              .data = (void *)(uintptr_t)data};

	return weft_volume_submit_wait(v, &req);
}

int
weft_volume_flush(struct weft_volume *v, uint64_t off_bytes, uint64_t len_bytes)
{
	struct weft_volume_req req = {
	        .op = WEFT_VOLUME_OP_FLUSH, .off_bytes = off_bytes, .len_bytes = len_bytes};

	return weft_volume_submit_wait(v, &req);
}

int
weft_volume_verify(struct weft_volume *v, uint64_t off_bytes, uint64_t len_bytes, void *hash)
{
	struct weft_volume_req req = {
	        .op = WEFT_VOLUME_OP_VERIFY, .off_bytes = off_bytes, .len_bytes = len_bytes};
	const struct weft_volume_info *info = weft_volume_info(v);
	uint32_t n = info != NULL ? info->hash_bytes : 0;
	int rc = info == NULL || hash == NULL ? -EINVAL : weft_volume_submit_wait(v, &req);

	/* Another thread may have closed the volume meanwhile. */
	if (rc == 0)
		memcpy(hash, req.hash, n);
	return rc;
}

/* ---- Snapshots ---- */

static int
wait_snap(struct weft_volume *v, struct weft_volume_req *req, char *why, size_t why_bytes)
{
	int rc = weft_volume_submit_wait(v, req);

	if (why != NULL && why_bytes > 0)
		snprintf(why, why_bytes, "%s", rc == req->status ? req->why : "");
	return rc;
}

int
weft_volume_snapshot(struct weft_volume *v, const char *name, char *why, size_t why_bytes)
{
	struct weft_volume_req req = {.op = WEFT_VOLUME_OP_SNAPSHOT, .name = name};

	return wait_snap(v, &req, why, why_bytes);
}

int
weft_volume_snapshot_remove(struct weft_volume *v, const char *name, char *why, size_t why_bytes)
{
	struct weft_volume_req req = {.op = WEFT_VOLUME_OP_SNAPSHOT_REMOVE, .name = name};

	return wait_snap(v, &req, why, why_bytes);
}

int
weft_volume_clone(struct weft_volume *v, const char *name, const char *from, char *why,
                  size_t why_bytes)
{
	struct weft_volume_req req = {.op = WEFT_VOLUME_OP_CLONE, .name = name, .from = from};

	return wait_snap(v, &req, why, why_bytes);
}

int
weft_volume_snapshots(struct weft_volume *v, const char *after, struct weft_volume_snapshot *list,
                      uint32_t max, uint32_t *found, char *why, size_t why_bytes)
{
	struct weft_volume_req req = {.op = WEFT_VOLUME_OP_SNAPSHOTS,
	                              .name = after,
	                              .snapshots = list,
	                              .max_snapshots = max};
	int rc = found == NULL ? -EINVAL : wait_snap(v, &req, why, why_bytes);

	if (found != NULL)
		*found = rc == 0 ? req.found : 0;
	return rc;
}

/* ---- Opening and closing ---- */

static void
wait_closed(void *arg, int status, const char *why)
{
	(void)why;
	wait_signal(arg, status);
}

static void
wait_close(void *arg)
{
	struct wait *w = arg;

	/* Of two threads that close one volume, one is refused, and must not wait. */
	if (!weft_handle_ok(w->v, &volcall_kind)) {
		(void)weft_handle_refused(w->v, &volcall_kind, "weft_volume_close_wait");
		wait_signal(w, -EINVAL);
		return;
	}
	weft_volume_close(w->v, wait_closed, w);
}

void
weft_volume_close_wait(struct weft_volume *v)
{
	struct wait w = {.v = v};

	if (v == NULL || weft_handle_check(v, &volcall_kind, __func__) < 0)
		return;
	if (wait_is_inside(v))
		weft_volume_close(v, NULL, NULL);
	else
		(void)wait_for(&w, v->worker, wait_close, true);
}

static void
wait_opened(void *arg, int status, const char *why)
{
	struct wait *w = arg;

	snprintf(w->why, sizeof(w->why), "%s", why);
	if (status != 0)
		weft_volume_close(w->v, NULL, NULL);
	wait_signal(w, status);
}

static void
wait_open(void *arg)
{
	struct wait *w = arg;
	int rc = weft_volume_open(w->attr, wait_opened, w, &w->v);

	if (rc != 0)
		wait_signal(w, rc);
}

int
weft_volume_open_wait(const struct weft_volume_attr *attr, char *why, size_t why_bytes,
                      struct weft_volume **out)
{
	struct weft_volume_attr a;
	struct wait w = {.attr = attr};
	int rc = weft_attr_copy(&a, sizeof(a), attr);

	if (why != NULL && why_bytes > 0)
		why[0] = '\0';
	if (rc == 0 && (out == NULL || weft_worker_check(a.worker, __func__) < 0))
		rc = -EINVAL;
	if (rc == 0)
		rc = wait_for(&w, a.worker, wait_open, false);
	if (rc == 0)
		*out = w.v;
	if (why != NULL && why_bytes > 0)
		snprintf(why, why_bytes, "%s", w.why);
	return rc;
}
