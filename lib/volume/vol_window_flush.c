/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Windows: flushes.
 *
 * A request takes the marks of its pages and writes those that were marked. When the writes of its
 * pages that began before it had looked at all of them have ended, also those of other requests, it
 * needs the volume to be flushed, if it is for persistence and one of its pages is not durable. One
 * flush of the volume is under way at a time, for all requests that needed one when it began.
 * Meanwhile the writes of other requests go on.
 *
 * A flush ahead is a request that no client waits for, made of a Flush that has arrived at the
 * target and has to wait there for requests before it. When that Flush is executed, it takes the
 * place of the flush ahead, looks at all marks again, and finds most of its work done. So what a
 * flush ahead does, or fails to do, is never part of a promise.
 *
 * A page goes marked -> (mark taken, page written) -> unsynced -> (volume flushed) -> durable. The
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

/** Answer a request. */
static void
win_end_req(struct weft_vol_window *w, struct win_req *wr)
{
	TAILQ_REMOVE(&w->reqs, wr, link);
	if (wr->status == 0)
		w->pool->stats.flushes++;
	else
		w->pool->stats.flush_errors++;
	vol_win_answer(wr->req, wr->status);
}

/** Forget a flush ahead. What it has begun goes on. */
static void
win_end_ahead(struct weft_vol_window *w, struct win_req *wr)
{
	TAILQ_REMOVE(&w->ahead, wr, link);
	w->pool->ahead_of[wr - w->pool->ahead] = NULL;
}

static bool
win_has(const struct win_req *wr, uint64_t first, uint64_t end)
{
	return wr->first < end && first < wr->end;
}

/** Requests that have one of these pages and are not yet written fail, if they have not yet.
 * Flushes ahead end. */
static void
win_fail(struct weft_vol_window *w, uint64_t first, uint64_t end, int status)
{
	struct win_req *wr, *next;

	TAILQ_FOREACH (wr, &w->reqs, link) {
		if (wr->status == 0 && !wr->syncing && !wr->synced && win_has(wr, first, end))
			wr->status = status;
	}
	for (wr = TAILQ_FIRST(&w->ahead); wr != NULL; wr = next) {
		next = TAILQ_NEXT(wr, link);
		if (win_has(wr, first, end))
			win_end_ahead(w, wr);
	}
}

/** Pages were marked again: requests that have one of them, and are not yet written, look again. */
static void
win_look_again(struct weft_vol_window *w, uint64_t first, uint64_t end)
{
	struct win_req *wr;

	TAILQ_FOREACH (wr, &w->reqs, link) {
		if (!wr->syncing && !wr->synced && win_has(wr, first, end))
			wr->page = wr->first;
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
		w->pool->unsynced[pg] = WIN_DURABLE;
	}
	w->any_unsynced = w->synced = false;
}

/** What pages become that are written while the volume is flushed for those of `now`. */
static enum win_sync
win_other(enum win_sync now)
{
	return now == WIN_EVEN ? WIN_ODD : WIN_EVEN;
}

/** The volume was flushed: the pages that were written before are durable. Or that has failed: all
 * that are unsynced get their marks back. */
static void
win_synced(struct weft_vol_window *w, bool durable)
{
	uint8_t *unsynced = w->pool->unsynced;
	bool any = false;

	for (uint64_t pg = vol_win_first_page(w); w->any_unsynced && pg < vol_win_end_page(w);
	     pg++) {
		if (unsynced[pg] == WIN_DURABLE)
			continue;
		if (durable && unsynced[pg] == w->now && !WIN_SABOTAGED(WINDOW_MIXES)) {
			any = true;
			continue;
		}
		if (!durable && !WIN_SABOTAGED(WINDOW_LOSES))
			win_remark(w, pg);
		else if (WIN_SABOTAGED(WINDOW_FORGETS))
			(void)win_take(w, pg);
		unsynced[pg] = WIN_DURABLE;
	}
	w->any_unsynced = any;
}

/** Whether the medium has all pages of the request as they were written last. What others have
 * changed there before the window was opened, it has after a flush of the volume. A client that has
 * lost changes is told by such a flush. */
static bool
win_is_durable(const struct weft_vol_window *w, const struct win_req *wr)
{
	if (!w->synced || w->attr.client->lost)
		return false;
	for (uint64_t pg = wr->first; pg < wr->end; pg++) {
		if (w->pool->unsynced[pg] != WIN_DURABLE)
			return false;
	}
	return true;
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

/** A write has failed. One that began ahead is made again by the request. */
static void
win_unwritten(struct win_op *o, int status)
{
	for (uint64_t pg = o->first; pg < o->end; pg++)
		win_remark(o->w, pg);
	if (o->ahead)
		win_look_again(o->w, o->first, o->end);
	else
		win_fail(o->w, o->first, o->end, status);
}

static void
win_written(struct win_op *o, uint32_t lost_flushes)
{
	struct weft_vol_window *w = o->w;

	for (uint64_t pg = o->first; pg < o->end; pg++)
		w->pool->unsynced[pg] = (uint8_t)w->now;
	if (!w->any_unsynced)
		w->lost_at = lost_flushes;
	w->any_unsynced = true;
}

static void
win_write_done(struct weft_vol_op *op)
{
	struct win_op *o = op->owner;
	struct weft_vol_window *w = o->w;

	o->busy = false;
	w->busy--;
	if (op->status == 0) {
		w->pool->stats.flushed_octets += op->len_bytes;
		win_written(o, op->lost_flushes);
	} else {
		win_unwritten(o, op->status);
	}
	vol_win_run(w);
}

/** The volume is flushed, or could not be. */
static void
win_sync_end(struct weft_vol_window *w, int status)
{
	struct win_req *wr, *next;
	bool told = false;

	win_synced(w, status == 0);
	TAILQ_FOREACH (wr, &w->reqs, link) {
		if (!wr->syncing)
			continue;
		wr->syncing = false;
		wr->synced = true;
		wr->status = status;
		told = true;
	}
	for (wr = TAILQ_FIRST(&w->ahead); wr != NULL; wr = next) {
		next = TAILQ_NEXT(wr, link);
		if (wr->syncing || status != 0)
			win_end_ahead(w, wr);
	}
	if (status == 0)
		w->synced = true;
	else
		win_look_again(w, 0, UINT64_MAX);
	/* The client should have heard of this loss and has not: its next flush tells it. */
	if (vol_tells_loss(w->sync.op.status) && !told)
		vol_client_lost(w->attr.client, w->sync.op.status);
}

static void
win_flush_done(struct weft_vol_op *op)
{
	struct win_op *o = op->owner;
	struct weft_vol_window *w = o->w;
	int status = op->status;

	o->busy = false;
	w->busy--;
	/* A flush that was lost in between has told another one, and has lost pages of this one. */
	if (status == 0 && w->any_unsynced && op->lost_flushes != w->lost_at)
		status = op->chan->lost_status;
	win_sync_end(w, status);
	vol_win_run(w);
}

/* ---- Steps ---- */

/** The request whose pages are taken next: of those that are waited for, if there is one. */
static struct win_req *
win_next(const struct weft_vol_window *w)
{
	struct win_req *wr;

	TAILQ_FOREACH (wr, &w->reqs, link) {
		if (wr->status == 0 && wr->page < wr->end)
			return wr;
	}
	TAILQ_FOREACH (wr, &w->ahead, link) {
		if (wr->page < wr->end)
			return wr;
	}
	return NULL;
}

/** The next run of marked pages of a request; empty: it has no more. */
static void
win_take_run(struct weft_vol_window *w, struct win_req *wr, struct win_op *o)
{
	while (wr->page < wr->end && !win_take(w, wr->page))
		wr->page++;
	o->first = wr->page;
	while (wr->page < wr->end && wr->page - o->first < WIN_RUN_PAGES &&
	       (wr->page == o->first || win_take(w, wr->page)))
		wr->page++;
	o->end = wr->page;
}

/** Where pages are in the window. The last page of a volume may be a part of one. */
static void
win_place_of(const struct weft_vol_window *w, uint64_t first, uint64_t end, struct win_op *o)
{
	const uint64_t at = (first - vol_win_first_page(w)) << WEFT_PERSIST_PAGE_SHIFT;
	const uint64_t to = (end - vol_win_first_page(w)) << WEFT_PERSIST_PAGE_SHIFT;

	o->op.off_bytes = w->attr.off_bytes + at;
	o->op.len_bytes = VOL_MIN(to, w->attr.len_bytes) - at;
	o->iov =
	        (struct iovec){w->pool->medium->base + weft_vol_window_at(w) + at, o->op.len_bytes};
}

static void
win_write(struct weft_vol_window *w, struct win_op *o, bool ahead)
{
	int r;

	win_place_of(w, o->first, o->end, o);
	o->ahead = ahead;
	o->number = ++w->writes;
	r = win_submit(w, o, WEFT_VOL_WRITE, win_write_done);
	if (r != 0)
		win_unwritten(o, r);
}

/** Write pages, as long as there are free operations. */
static void
win_write_more(struct weft_vol_window *w)
{
	struct win_req *wr;
	struct win_op *o;

	while ((o = win_free_op(w)) != NULL && (wr = win_next(w)) != NULL) {
		win_take_run(w, wr, o);
		wr->writes = w->writes + (o->first < o->end);
		if (o->first < o->end)
			win_write(w, o, wr->req == NULL);
	}
}

/** Whether pages of the request are being written that were marked before it looked. */
static bool
win_is_writing(const struct weft_vol_window *w, const struct win_req *wr)
{
	for (uint32_t i = 0; i < WIN_OPS; i++) {
		const struct win_op *o = &w->op[i];

		if (o->busy && o->number <= wr->writes && win_has(wr, o->first, o->end) &&
		    !(o->ahead && WIN_SABOTAGED(WINDOW_HASTY)))
			return true;
	}
	return false;
}

/** Whether all of it is written. */
static bool
win_is_written(const struct weft_vol_window *w, const struct win_req *wr)
{
	return wr->page == wr->end && !win_is_writing(w, wr);
}

/** Whether it is done, or has failed and nothing of it is under way. */
static bool
win_is_done(const struct weft_vol_window *w, const struct win_req *wr)
{
	if (wr->syncing || wr->synced)
		return wr->synced;
	if (wr->status != 0)
		return !win_is_writing(w, wr);
	return win_is_written(w, wr) && ((wr->flags & WEFT_FLUSH_PERSISTENT) == 0 ||
	                                 WIN_SABOTAGED(WINDOW_EARLY) || win_is_durable(w, wr));
}

/** Answer one request that is done. False: there is none. */
static bool
win_answer(struct weft_vol_window *w)
{
	struct win_req *wr, *next;

	for (wr = TAILQ_FIRST(&w->ahead); wr != NULL; wr = next) {
		next = TAILQ_NEXT(wr, link);
		if (win_is_done(w, wr))
			win_end_ahead(w, wr);
	}
	TAILQ_FOREACH (wr, &w->reqs, link) {
		if (win_is_done(w, wr)) {
			win_end_req(w, wr);
			return true;
		}
	}
	return false;
}

/** The requests of a list that are written have to be made durable: note them, and their pages. */
static void
win_gather(struct weft_vol_window *w, struct win_reqs *list, uint64_t *first, uint64_t *end)
{
	struct win_req *wr;

	TAILQ_FOREACH (wr, list, link) {
		if (wr->status != 0 || wr->synced || (wr->flags & WEFT_FLUSH_PERSISTENT) == 0 ||
		    !win_is_written(w, wr))
			continue;
		wr->syncing = true;
		*first = VOL_MIN(*first, wr->first);
		*end = VOL_MAX(*end, wr->end);
	}
}

/** Flush the volume, if requests need that. Returns whether that has ended already. */
static bool
win_sync(struct weft_vol_window *w)
{
	uint64_t first = UINT64_MAX, end = 0;
	int r;

	if (w->sync.busy)
		return false;
	win_gather(w, &w->reqs, &first, &end);
	win_gather(w, &w->ahead, &first, &end);
	if (first >= end)
		return false;
	/* No further than needed: it waits for the writes of its range. */
	win_place_of(w, first, end, &w->sync);
	w->now = win_other(w->now);
	r = win_submit(w, &w->sync, WEFT_VOL_FLUSH, win_flush_done);
	if (r != 0) {
		w->sync.op.status = 0; /* of none */
		win_sync_end(w, r);
	}
	return r != 0;
}

/** Go on as far as possible now. Returns whether there is more to do. */
static bool
win_step(struct weft_vol_window *w)
{
	if (w->state == WIN_CLOSING || w->attr.client->revoked)
		win_fail(w, 0, UINT64_MAX, -ECANCELED);
	win_write_more(w);
	return win_answer(w) || win_sync(w);
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

/**
 * The pages of a flush, into wr. Returns its window, or NULL: there is none that is open and has
 * them all.
 */
static struct weft_vol_window *
win_pages(const struct weft_vol_windows *pool, uint64_t off_bytes, uint64_t len_bytes,
          uint32_t flags, struct win_req *wr)
{
	struct weft_vol_window *w = vol_win_find(pool, off_bytes, 1);

	/* A region may be longer than what the window stands for now. */
	if (w != NULL && (flags & WEFT_FLUSH_REGION) != 0)
		len_bytes = VOL_MIN(len_bytes, w->attr.len_bytes - off_bytes % pool->window_bytes);
	if (w == NULL || vol_win_find(pool, off_bytes, len_bytes) == NULL ||
	    w->attr.client->revoked)
		return NULL;
	wr->first = off_bytes >> WEFT_PERSIST_PAGE_SHIFT;
	wr->end = ((off_bytes + len_bytes - 1) >> WEFT_PERSIST_PAGE_SHIFT) + 1;
	wr->page = wr->first;
	wr->writes = 0;
	wr->flags = flags;
	wr->status = 0;
	wr->syncing = wr->synced = false;
	wr->buf = NULL;
	w->used_ns = w->attr.chan->now_ns;
	return w;
}

/** The flush that a flush ahead was made of is here. */
static void
win_take_over(struct weft_vol_window *w, const struct win_req *wr)
{
	struct win_req *a;

	TAILQ_FOREACH (a, &w->ahead, link) {
		if (a->first == wr->first && a->end == wr->end && a->flags == wr->flags) {
			win_end_ahead(w, a);
			return;
		}
	}
}

int
vol_win_flush(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	struct win_req *wr = vol_win_req_of(req);
	struct weft_vol_window *w;

	(void)exec;
	if (req->off_bytes > p->bytes || req->len_bytes > p->bytes - req->off_bytes)
		return -EINVAL;
	if (req->len_bytes == 0)
		return vol_win_answer(req, 0);
	w = win_pages(p->priv, req->off_bytes, req->len_bytes, req->flags, wr);
	if (w == NULL)
		return vol_win_answer(req, -ESHUTDOWN);
	if (!w->attr.write)
		return vol_win_answer(req, 0);
	if ((req->flags & WEFT_FLUSH_PERSISTENT) != 0 && !w->attr.chan->vol->device.persistent)
		return -EOPNOTSUPP;
	wr->req = req;
	win_take_over(w, wr);
	TAILQ_INSERT_TAIL(&w->reqs, wr, link);
	vol_win_run(w);
	return 0;
}

/** A free flush ahead. NULL: there is none, or the volume, which may be stuck, has its half. */
static struct win_req *
win_free_ahead(struct weft_vol_windows *pool, const struct weft_vol_chan *chan)
{
	struct win_req *free = NULL;
	uint32_t n = 0;

	for (uint32_t i = 0; i < WIN_AHEAD; i++) {
		if (pool->ahead_of[i] == NULL)
			free = &pool->ahead[i];
		else if (pool->ahead_of[i]->attr.chan == chan)
			n++;
	}
	return n < WIN_AHEAD / 2 ? free : NULL;
}

void
vol_win_flush_ahead(struct weft_persist *p, uint64_t off_bytes, uint64_t len_bytes, uint32_t flags)
{
	struct weft_vol_windows *pool = p->priv;
	struct win_req found = {0}, *wr;
	struct weft_vol_window *w;

	if (off_bytes > p->bytes || len_bytes > p->bytes - off_bytes || len_bytes == 0)
		return;
	w = win_pages(pool, off_bytes, len_bytes, flags, &found);
	if (w == NULL || !w->attr.write ||
	    ((flags & WEFT_FLUSH_PERSISTENT) != 0 && !w->attr.chan->vol->device.persistent))
		return;
	wr = win_free_ahead(pool, w->attr.chan);
	if (wr == NULL) {
		pool->stats.ahead_refused++;
		return;
	}
	pool->stats.ahead++;
	*wr = found;
	pool->ahead_of[wr - pool->ahead] = w;
	TAILQ_INSERT_TAIL(&w->ahead, wr, link);
	vol_win_run(w);
}
