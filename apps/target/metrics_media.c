/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Flushes and read-backs of media, counted for the metrics. The medium gets a copy of its
 * driver's functions in which two are ours: these note the time and call the driver's. So a medium
 * costs nothing while metrics are off.
 */

#include <stdlib.h>

#include "metrics_count.h"
#include "rate.h"
#include "target.h"
#include "target_grant.h"
#include "target_rate.h"
#include "target_slow.h"
#include "target_volume.h"
#include "target_volume_client.h"
#include "ui.h"

/** A request that the driver has: what is put back into it when it is done. */
struct metrics_watched {
	struct metrics_watched *next; /**< while it is free */
	void (*done)(struct weft_persist_req *req);
	void *owner;
	struct metrics_worker *mw;
	const struct metrics_medium *m;
	uint64_t off_bytes, began_ns;
	uint64_t rate_ns; /**< for how long it has waited for the limits before */
	enum metrics_op op;
};

static struct metrics_medium *
medium_of(const struct weft_persist *p)
{
	return (struct metrics_medium *)(uintptr_t)p->ops;
}

/** For how long the operation that the medium gets now has waited for the limits of the export. It
 * is one of the region of a window, or of the writer's. */
static uint64_t
waited_before(const struct metrics_worker *mw, const struct metrics_medium *m, uint64_t off_bytes)
{
	const struct target_worker *tw = mw->tw;
	struct target_grant *g;

	if (m->vw != NULL)
		return target_vwindow_waited(m->vw, off_bytes);
	if (!target_rate_is_on(tw, m->ex))
		return 0;
	LIST_FOREACH (g, &tw->writers, writer_link)
		if (g->ex == m->ex)
			return rate_pass_waited(&g->pass);
	return 0;
}

static void
watched_count(const struct metrics_watched *wt, const struct weft_persist_req *req)
{
	const uint64_t now = ui_now_ns(), ns = now - wt->began_ns;
	const struct target_export *ex = wt->m->ex;
	struct metrics_worker *mw = wt->mw;
	uint64_t stages[METRICS_STAGES];
	const struct target_conn *conn = NULL;
	const char *peer = NULL;
	struct metrics_export *me;
	uint32_t number;

	if (wt->m->vw != NULL) {
		const struct target_vgrant *g = target_vwindow_grant(wt->m->vw, wt->off_bytes);

		if (g == NULL)
			return; /* the window has ended */
		ex = g->ex;
		conn = g->conn;
		peer = conn->peer;
	}
	for (unsigned int i = 0; i < METRICS_STAGES; i++)
		stages[i] = METRICS_NO_STAGE;
	stages[METRICS_MEDIUM] = ns;
	if (wt->rate_ns > 0)
		stages[METRICS_RATE] = wt->rate_ns;
	target_slow_push(mw->tw, wt->op, ex, conn, wt->off_bytes, req->len_bytes, req->status,
	                 stages);
	number = (uint32_t)(ex - mw->tw->t->exports);
	me = &mw->exports[number];
	/* `weft-ctl exports` shows it, also where no metrics are served. */
	if (req->status == 0 && wt->op == METRICS_PUSH) {
		metrics_add(&me->flushes[METRICS_BY_PUSH], 1);
		metrics_add(&me->flushed_bytes[METRICS_BY_PUSH], req->len_bytes);
	}
	if (!mw->counted)
		return;
	if (req->status != 0) {
		if (metrics_is_failure(req->status))
			metrics_add(&me->failed, 1);
		return;
	}
	if (peer == NULL && metrics_is_slowest(mw, wt->op, ns + wt->rate_ns, now))
		peer = metrics_writer(mw, ex);
	metrics_note(mw, wt->op, number, stages, ns + wt->rate_ns, now, peer);
}

static void
watched_give(struct metrics_watched *wt)
{
	wt->next = wt->mw->free_watched;
	wt->mw->free_watched = wt;
}

static void
watched_done(struct weft_persist_req *req)
{
	struct metrics_watched *wt = req->owner;

	req->done = wt->done;
	req->owner = wt->owner;
	watched_count(wt, req);
	watched_give(wt);
	req->done(req);
}

static int
watched_submit(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req,
               enum metrics_op op,
               int (*fn)(struct weft_persist *p, struct weft_exec *exec,
                         struct weft_persist_req *req))
{
	struct metrics_worker *mw = metrics_me;
	struct metrics_watched *wt;
	int rc;

	/* Set-up threads flush, too. */
	if (mw == NULL)
		return fn(p, exec, req);
	wt = mw->free_watched;
	if (wt != NULL)
		mw->free_watched = wt->next;
	else
		wt = malloc(sizeof(*wt));
	if (wt == NULL)
		return fn(p, exec, req);
	*wt = (struct metrics_watched){.done = req->done,
	                               .owner = req->owner,
	                               .mw = mw,
	                               .m = medium_of(p),
	                               .off_bytes = req->off_bytes,
	                               .began_ns = ui_now_ns(),
	                               .rate_ns = waited_before(mw, medium_of(p), req->off_bytes),
	                               .op = op};
	req->done = watched_done;
	req->owner = wt;
	rc = fn(p, exec, req);
	/* If it was taken, it may be done by now, and wt of another request. */
	if (rc < 0) {
		req->done = wt->done;
		req->owner = wt->owner;
		watched_give(wt);
	}
	return rc;
}

static int
media_flush(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	return watched_submit(p, exec, req, METRICS_PUSH, medium_of(p)->under->flush);
}

static int
media_read_back(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	return watched_submit(p, exec, req, METRICS_PUSH_VERIFY, medium_of(p)->under->read_back);
}

int
target_metrics_flush(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	const bool watched = p->ops->flush == media_flush;

	return (watched ? medium_of(p)->under : p->ops)->flush(p, exec, req);
}

static void
media_watch(struct metrics_medium *m, struct weft_persist *p, struct target_export *ex,
            struct target_vworker *vw)
{
	*m = (struct metrics_medium){.ops = *p->ops, .under = p->ops, .ex = ex, .vw = vw};
	m->ops.flush = media_flush;
	if (m->ops.read_back != NULL)
		m->ops.read_back = media_read_back;
	p->ops = &m->ops;
}

void
target_metrics_attach(struct target *t, struct target_export *ex)
{
	const uint32_t i = (uint32_t)(ex - t->exports);
	struct metrics *m = t->metrics;

	if (m == NULL || (ex->persist == NULL && ex->volume == NULL))
		return;
	atomic_store_explicit(&m->capacity[i], target_export_bytes(ex), memory_order_relaxed);
	if (ex->persist != NULL)
		media_watch(&m->medium[i], ex->persist, ex, NULL);
}

void
target_metrics_attach_windows(struct target_vworker *vw)
{
	struct metrics *m = vw->tw->t->metrics;
	struct weft_persist *p = weft_vol_windows_medium(vw->windows);

	if (m != NULL && p != NULL)
		media_watch(&m->windows[vw->tw - vw->tw->t->workers], p, NULL, vw);
}

void
metrics_watched_free(struct metrics_worker *mw)
{
	struct metrics_watched *wt;

	while ((wt = mw->free_watched) != NULL) {
		mw->free_watched = wt->next;
		free(wt);
	}
}
