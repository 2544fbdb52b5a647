/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Windows: flushes.
 *
 * A window answers flushes in rounds. A round takes all requests that wait, writes the marked pages
 * of each, and, if one of them is for persistence, flushes the volume once. Requests that come
 * meanwhile wait for the next round. So a request that finds a mark taken by another one is never
 * answered before that one's write: both are of one round, or the write is over.
 *
 * A page goes marked -> (mark taken, page written) -> unsynced -> (volume flushed) -> clean. The
 * mark is taken before the page is read, so what is placed meanwhile marks it again, whatever part
 * of it the write has. When a write fails, its pages get their marks back. When a flush of the
 * volume fails, or one was lost since the first unsynced page was written, all unsynced pages do.
 * So the next flush writes again all that is not known to be durable.
 */

#include <weft/atomic_ref.h>

#include "vol_window.h"

#ifdef WEFT_TEST_HOOKS
#include "volume_sabotage.h"
#define WIN_SABOTAGED(fault) (volume_sabotage == VOLUME_##fault)
#else
#define WIN_SABOTAGED(fault) 0
#endif

/* ---- Requests ---- */

/** Answer a request of the round. */
static void
win_end_req(struct weft_vol_window *w, struct win_req *wr)
{
	TAILQ_REMOVE(&w->round, wr, link);
	if (wr->status == 0)
		w->pool->stats.flushes++;
	else
		w->pool->stats.flush_errors++;
	vol_win_answer(wr->req, wr->status);
}

/** Requests of the round that have one of these pages fail, if they have not yet. */
static void
win_fail(struct weft_vol_window *w, uint64_t first, uint64_t end, int status)
{
	struct win_req *wr;

	TAILQ_FOREACH (wr, &w->round, link) {
		if (wr->status == 0 && wr->first < end && first < wr->end)
			wr->status = status;
	}
}

/* ---- Marks ---- */

static void
win_remark(struct weft_vol_window *w, uint64_t page)
{
	uint8_t *dirty = w->pool->medium->dirty;

	atomic_store_explicit(WEFT_ATOMIC_REF(dirty[page]), 1, memory_order_release);
}

static bool
win_take(struct weft_vol_window *w, uint64_t page)
{
	uint8_t *dirty = w->pool->medium->dirty;

	/* Most pages are clean; an exchange is needed only of those that are not. */
	return atomic_load_explicit(WEFT_ATOMIC_REF(dirty[page]), memory_order_relaxed) != 0 &&
	       atomic_exchange_explicit(WEFT_ATOMIC_REF(dirty[page]), 0, memory_order_acq_rel) != 0;
}

void
vol_win_forget(struct weft_vol_window *w)
{
	const uint64_t first = vol_win_first_page(w);
	const uint64_t end = first + (w->pool->window_bytes >> WEFT_PERSIST_PAGE_SHIFT);
	uint8_t *dirty = w->pool->medium->dirty;

	for (uint64_t pg = first; pg < end; pg++) {
		atomic_store_explicit(WEFT_ATOMIC_REF(dirty[pg]), 0, memory_order_relaxed);
		w->pool->unsynced[pg] = 0;
	}
	w->any_unsynced = false;
}

/** All unsynced pages are durable, or else get their marks back. */
static void
win_synced(struct weft_vol_window *w, bool durable)
{
	uint8_t *unsynced = w->pool->unsynced;

	for (uint64_t pg = vol_win_first_page(w); w->any_unsynced && pg < vol_win_end_page(w);
	     pg++) {
		if (unsynced[pg] != 0 && !durable && !WIN_SABOTAGED(WINDOW_LOSES))
			win_remark(w, pg);
		else if (unsynced[pg] != 0 && WIN_SABOTAGED(WINDOW_FORGETS))
			(void)win_take(w, pg);
		unsynced[pg] = 0;
	}
	w->any_unsynced = false;
}

/* ---- Operations ---- */

static struct win_op *
win_free_op(struct weft_vol_window *w)
{
	for (uint32_t i = 0; i < WIN_OPS; i++) {
		if (!w->op[i].busy)
			return &w->op[i];
	}
	return NULL;
}

static int
win_submit(struct weft_vol_window *w, struct win_op *o, enum weft_vol_kind kind,
           void (*done)(struct weft_vol_op *op))
{
	int r;

	o->w = w;
	o->op.kind = kind;
	o->op.flags = kind == WEFT_VOL_WRITE ? WEFT_VOL_LIVE : 0U;
	o->op.iov = &o->iov;
	o->op.iovs = kind == WEFT_VOL_WRITE ? 1 : 0;
	o->op.client = w->attr.client;
	o->op.of_window = true;
	o->op.done = done;
	o->op.owner = o;
	r = weft_vol_submit(w->attr.chan, &o->op);
	o->busy = r == 0;
	w->busy += r == 0;
	/* The client was revoked: as what is under way. */
	return r == -ESHUTDOWN ? -ECANCELED : r;
}

/** A write has failed. */
static void
win_unwritten(struct win_op *o, int status)
{
	for (uint64_t pg = o->first; pg < o->end; pg++)
		win_remark(o->w, pg);
	win_fail(o->w, o->first, o->end, status);
}

static void
win_write_done(struct weft_vol_op *op)
{
	struct win_op *o = op->owner;
	struct weft_vol_window *w = o->w;

	o->busy = false;
	w->busy--;
	if (op->status == 0)
		w->pool->stats.flushed_octets += op->len_bytes;
	else
		win_unwritten(o, op->status);
	vol_win_run(w);
}

static void
win_flush_done(struct weft_vol_op *op)
{
	struct win_op *o = op->owner;
	struct weft_vol_window *w = o->w;

	o->busy = false;
	w->busy--;
	w->flush_status = op->status;
	/* A flush that was lost in between has told another one, and has lost pages of this one. */
	if (op->status == 0 && w->any_unsynced && op->lost_flushes != w->lost_at)
		w->flush_status = -EIO;
	vol_win_run(w);
}

/* ---- A round ---- */

/** The requests that wait become a round. */
static void
win_begin(struct weft_vol_window *w)
{
	const bool ends = w->state == WIN_CLOSING || w->attr.client->revoked;
	struct win_req *wr;

	TAILQ_CONCAT(&w->round, &w->waiting, link);
	TAILQ_FOREACH (wr, &w->round, link)
		wr->status = ends ? -ECANCELED : 0;
	w->cur = TAILQ_FIRST(&w->round);
	w->page = w->cur->first;
	if (!w->any_unsynced)
		w->lost_at = w->attr.chan->lost_flushes;
	w->phase = WIN_WRITE;
}

/** The next run of marked pages of the request whose turn it is; empty: it has no more. */
static void
win_take_run(struct weft_vol_window *w, struct win_op *o)
{
	const uint64_t end = w->cur->end;

	while (w->page < end && !win_take(w, w->page))
		w->page++;
	o->first = w->page;
	while (w->page < end && w->page - o->first < WIN_RUN_PAGES &&
	       (w->page == o->first || win_take(w, w->page)))
		w->page++;
	o->end = w->page;
}

static void
win_write(struct weft_vol_window *w, struct win_op *o)
{
	const uint64_t at = (o->first - vol_win_first_page(w)) << WEFT_PERSIST_PAGE_SHIFT;
	const uint64_t end = (o->end - vol_win_first_page(w)) << WEFT_PERSIST_PAGE_SHIFT;
	int r;

	/* The last page of a volume may be a part of one. */
	o->op.off_bytes = w->attr.off_bytes + at;
	o->op.len_bytes = VOL_MIN(end, w->attr.len_bytes) - at;
	o->iov =
	        (struct iovec){w->pool->medium->base + weft_vol_window_at(w) + at, o->op.len_bytes};
	for (uint64_t pg = o->first; pg < o->end; pg++)
		w->pool->unsynced[pg] = 1;
	w->any_unsynced = true;
	r = win_submit(w, o, WEFT_VOL_WRITE, win_write_done);
	if (r != 0) {
		o->w = w;
		win_unwritten(o, r);
	}
}

/** Write pages, as long as there are free operations. */
static void
win_write_more(struct weft_vol_window *w)
{
	struct win_op *o;

	while (w->cur != NULL && (o = win_free_op(w)) != NULL) {
		if (w->cur->status == 0)
			win_take_run(w, o);
		if (w->cur->status == 0 && o->first < o->end) {
			win_write(w, o);
			continue;
		}
		w->cur = TAILQ_NEXT(w->cur, link);
		if (w->cur != NULL)
			w->page = w->cur->first;
	}
}

/** All pages are written. Answer what need not wait for the flush of the volume. */
static void
win_written(struct weft_vol_window *w)
{
	struct win_req *wr, *next;

	for (wr = TAILQ_FIRST(&w->round); wr != NULL; wr = next) {
		next = TAILQ_NEXT(wr, link);
		if (wr->status != 0 || (wr->req->flags & WEFT_FLUSH_PERSISTENT) == 0 ||
		    WIN_SABOTAGED(WINDOW_EARLY))
			win_end_req(w, wr);
	}
}

/** The volume is flushed, or was not: answer the rest. */
static void
win_flushed(struct weft_vol_window *w)
{
	struct win_req *wr;

	win_synced(w, w->flush_status == 0);
	while ((wr = TAILQ_FIRST(&w->round)) != NULL) {
		wr->status = w->flush_status;
		win_end_req(w, wr);
	}
	w->phase = WIN_IDLE;
}

static bool
win_step_write(struct weft_vol_window *w)
{
	struct win_op *o = &w->op[0];

	if (w->state == WIN_CLOSING) {
		win_fail(w, 0, UINT64_MAX, -ECANCELED);
		w->cur = NULL;
	}
	win_write_more(w);
	if (w->busy > 0)
		return false;
	win_written(w);
	if (TAILQ_EMPTY(&w->round)) {
		w->phase = WIN_IDLE;
		return true;
	}
	w->phase = WIN_FLUSH;
	o->op.off_bytes = w->attr.off_bytes;
	o->op.len_bytes = w->attr.len_bytes;
	w->flush_status = w->state == WIN_CLOSING
	                          ? -ECANCELED
	                          : win_submit(w, o, WEFT_VOL_FLUSH, win_flush_done);
	return w->flush_status != 0;
}

/** Go on as far as possible now. Returns whether there is more to do. */
static bool
win_step(struct weft_vol_window *w)
{
	switch (w->phase) {
	case WIN_IDLE:
		if (TAILQ_EMPTY(&w->waiting))
			return false;
		win_begin(w);
		return true;
	case WIN_WRITE:
		return win_step_write(w);
	default:
		if (w->busy > 0)
			return false;
		win_flushed(w);
		return true;
	}
}

void
vol_win_run(struct weft_vol_window *w)
{
	if (w->held > 0)
		return;
	w->held++;
	while (win_step(w))
		;
	w->held--;
	vol_win_settle(w);
}

int
vol_win_flush(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	const struct weft_vol_windows *pool = p->priv;
	const uint64_t at = req->off_bytes % pool->window_bytes;
	struct win_req *wr = vol_win_req_of(req);
	uint64_t len = req->len_bytes;
	struct weft_vol_window *w;

	(void)exec;
	if (req->off_bytes > p->bytes || len > p->bytes - req->off_bytes)
		return -EINVAL;
	if (len == 0)
		return vol_win_answer(req, 0);
	w = vol_win_find(pool, req->off_bytes, 1);
	/* A region may be longer than what the window stands for now. */
	if (w != NULL && (req->flags & WEFT_FLUSH_REGION) != 0)
		len = VOL_MIN(len, w->attr.len_bytes - at);
	if (w == NULL || vol_win_find(pool, req->off_bytes, len) == NULL || w->attr.client->revoked)
		return vol_win_answer(req, -ESHUTDOWN);
	if (!w->attr.write)
		return vol_win_answer(req, 0);
	if ((req->flags & WEFT_FLUSH_PERSISTENT) != 0 && !w->attr.chan->vol->device.persistent)
		return -EOPNOTSUPP;
	wr->req = req;
	wr->buf = NULL;
	wr->first = req->off_bytes >> WEFT_PERSIST_PAGE_SHIFT;
	wr->end = ((req->off_bytes + len - 1) >> WEFT_PERSIST_PAGE_SHIFT) + 1;
	w->used_ns = w->attr.chan->now_ns;
	TAILQ_INSERT_TAIL(&w->waiting, wr, link);
	vol_win_run(w);
	return 0;
}
