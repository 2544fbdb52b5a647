/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Windows: the pool and its medium, opening, moving and closing, read-backs.
 */

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "vol_window.h"

static_assert(WEFT_VOL_WINDOW_ALIGN % WIN_PAGE == 0, "a window has whole pages");

/* ---- The medium ---- */

/** Only this file can open the driver: no configuration has this address. */
static const char win_path[] = "windows of volumes";

/** Populated memory is what the driver "volatile" opens. */
static const struct weft_persist_ops *
win_memory(void)
{
	return weft_persist_find("volatile");
}

static int
win_medium_open(struct weft_persist *p, const struct weft_persist_attr *attr)
{
	const struct weft_persist_ops *memory = win_memory();
	int r;

	if (attr->path != win_path || memory == NULL)
		return -ENOTSUP;
	r = memory->open(p, attr);
	if (r != 0)
		return r;
	p->dirty = calloc(p->bytes >> WEFT_PERSIST_PAGE_SHIFT, 1);
	if (p->dirty == NULL) {
		memory->close(p);
		return -ENOMEM;
	}
	snprintf(p->mechanism, sizeof(p->mechanism), "memory for ranges of volumes");
	return 0;
}

static void
win_medium_close(struct weft_persist *p)
{
	free(p->dirty);
	win_memory()->close(p);
}

/* ---- Read-backs ---- */

static void
win_read_done(struct weft_vol_op *op)
{
	struct win_buf *buf = op->owner;
	struct weft_vol_window *w = buf->w;
	struct weft_persist_req *req = buf->req;

	buf->w = NULL;
	w->reads--;
	if (op->status == 0) {
		w->pool->stats.verified_octets += op->len_bytes;
		req->data = buf->iov.iov_base;
	}
	w->held++;
	vol_win_answer(req, op->status);
	w->held--;
	vol_win_run(w);
}

/** A free buffer. NULL: there is none, or the volume, which may be stuck, has its half. */
static struct win_buf *
win_free_buf(struct weft_vol_windows *pool, const struct weft_vol_window *w)
{
	struct win_buf *free = NULL;
	uint32_t n = 0;

	for (uint32_t i = 0; i < WIN_BUFS; i++) {
		struct win_buf *buf = &pool->buf[i];

		if (!buf->taken)
			free = buf;
		else if (buf->w != NULL && buf->w->attr.chan == w->attr.chan)
			n++;
	}
	return n < WIN_BUFS / 2 ? free : NULL;
}

static int
win_read_back(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	struct weft_vol_windows *pool = p->priv;
	struct win_req *wr = vol_win_req_of(req);
	struct weft_vol_window *w;
	struct win_buf *buf;
	uint64_t off;
	int r;

	(void)exec;
	if (req->off_bytes > p->bytes || req->len_bytes > p->bytes - req->off_bytes)
		return -EINVAL;
	wr->buf = NULL;
	req->data = NULL;
	req->len_bytes = VOL_MIN(req->len_bytes, WIN_BUF_BYTES);
	w = vol_win_find(pool, req->off_bytes, req->len_bytes);
	if (w == NULL)
		return vol_win_answer(req, -ESHUTDOWN);
	buf = win_free_buf(pool, w);
	if (buf == NULL)
		return -EAGAIN;
	off = w->attr.off_bytes + req->off_bytes % pool->window_bytes;
	/* In memory it is aligned as in the volume. */
	buf->iov = (struct iovec){buf->mem + off % WIN_PAGE, req->len_bytes};
	buf->op.kind = WEFT_VOL_READ;
	buf->op.flags = WEFT_VOL_MEDIUM;
	buf->op.off_bytes = off;
	buf->op.len_bytes = req->len_bytes;
	buf->op.iov = &buf->iov;
	buf->op.iovs = 1;
	buf->op.client = w->attr.client;
	buf->op.done = win_read_done;
	buf->op.owner = buf;
	r = weft_vol_submit(w->attr.chan, &buf->op);
	if (r != 0)
		return vol_win_answer(req, r);
	buf->taken = true;
	buf->req = req;
	buf->w = w;
	wr->buf = buf;
	w->reads++;
	w->used_ns = w->attr.chan->now_ns;
	return 0;
}

static void
win_release(struct weft_persist *p, struct weft_persist_req *req)
{
	struct win_req *wr = vol_win_req_of(req);

	(void)p;
	if (wr->buf != NULL)
		wr->buf->taken = false;
	wr->buf = NULL;
}

static const struct weft_persist_ops win_ops = {
        .name = "window",
        .persistent = true,
        .open = win_medium_open,
        .close = win_medium_close,
        .flush = vol_win_flush,
        .flush_ahead = vol_win_flush_ahead,
        .read_back = win_read_back,
        .release = win_release,
        .read_back_max_bytes = WIN_BUF_BYTES,
};

WEFT_PERSIST_REGISTER(window, win_ops)

/* ---- The pool ---- */

static void
win_pool_free(struct weft_vol_windows *p)
{
	weft_persist_close(p->medium);
	free(p->free_slot);
	free(p->window);
	free(p->unsynced);
	free(p->buf_mem);
	free(p);
}

int
weft_vol_windows_create(const struct weft_vol_windows_attr *attr, struct weft_vol_windows **out)
{
	const size_t stride = WIN_BUF_BYTES + WIN_PAGE;
	struct weft_persist_attr a = {
	        .size = sizeof(a), .driver = "window", .path = win_path, .numa_node = -1};
	struct weft_vol_windows *p;
	int r;

	if (attr == NULL || out == NULL || attr->window_bytes < 65536 ||
	    attr->window_bytes > (64U << 20) ||
	    (attr->window_bytes & (attr->window_bytes - 1)) != 0 || attr->bytes == 0 ||
	    attr->bytes % attr->window_bytes != 0 || attr->bytes / attr->window_bytes > INT32_MAX)
		return -EINVAL;
	p = calloc(1, sizeof(*p));
	if (p == NULL)
		return -ENOMEM;
	p->window_bytes = attr->window_bytes;
	p->slots = p->free_slots = (uint32_t)(attr->bytes / attr->window_bytes);
	p->free_slot = calloc(p->slots, sizeof(*p->free_slot));
	p->window = calloc(p->slots, sizeof(struct weft_vol_window *));
	p->unsynced = calloc(attr->bytes >> WEFT_PERSIST_PAGE_SHIFT, 1);
	if (posix_memalign((void **)&p->buf_mem, WIN_PAGE, stride * WIN_BUFS) != 0)
		p->buf_mem = NULL;
	if (p->free_slot == NULL || p->window == NULL || p->unsynced == NULL ||
	    p->buf_mem == NULL) {
		win_pool_free(p);
		return -ENOMEM;
	}
	memset(p->buf_mem, 0, stride * WIN_BUFS);
	for (uint32_t i = 0; i < WIN_BUFS; i++)
		p->buf[i].mem = p->buf_mem + i * stride;
	for (uint32_t i = 0; i < p->slots; i++)
		p->free_slot[i] = p->slots - 1 - i;
	a.bytes = attr->bytes;
	a.numa_node = attr->numa_node;
	r = weft_persist_open(&a, &p->medium);
	if (r != 0) {
		win_pool_free(p);
		return r;
	}
	p->medium->priv = p;
	*out = p;
	return 0;
}

int
weft_vol_windows_destroy(struct weft_vol_windows *p)
{
	if (p == NULL)
		return 0;
	if (p->free_slots != p->slots)
		return -EBUSY;
	for (uint32_t i = 0; i < WIN_BUFS; i++) {
		if (p->buf[i].taken)
			return -EBUSY;
	}
	win_pool_free(p);
	return 0;
}

struct weft_persist *
weft_vol_windows_medium(const struct weft_vol_windows *p)
{
	return p->medium;
}

void
weft_vol_windows_query(const struct weft_vol_windows *p, struct weft_vol_windows_stats *stats)
{
	*stats = p->stats;
	stats->slots = p->slots;
	stats->open = p->slots - p->free_slots;
}

/* ---- The table of windows of a volume ---- */

/** -EBUSY: it overlaps another window, and one of the two may write. */
static int
win_enter_locked(struct weft_vol_window *w, uint64_t off_bytes, uint32_t len_bytes)
{
	struct vol_ranges *t = &w->attr.chan->vol->windows;

	w->range.off_bytes = off_bytes;
	w->range.end_bytes = off_bytes + len_bytes;
	w->range.mode = w->attr.write ? VOL_RANGE_WRITE : VOL_RANGE_READ;
	if (vol_range_add(t, &w->range))
		return 0;
	(void)vol_range_del(t, &w->range);
	return -EBUSY;
}

static int
win_enter(struct weft_vol_window *w)
{
	struct weft_vol *v = w->attr.chan->vol;
	int r;

	pthread_mutex_lock(&v->lock);
	r = win_enter_locked(w, w->attr.off_bytes, w->attr.len_bytes);
	pthread_mutex_unlock(&v->lock);
	return r;
}

static void
win_leave(struct weft_vol_window *w)
{
	struct weft_vol *v = w->attr.chan->vol;

	pthread_mutex_lock(&v->lock);
	(void)vol_range_del(&v->windows, &w->range);
	pthread_mutex_unlock(&v->lock);
}

bool
weft_vol_window_holder(const struct weft_vol_chan *chan, uint64_t off_bytes, uint64_t len_bytes,
                       bool write, char *buf, size_t size)
{
	struct weft_vol *v = chan->vol;
	const struct weft_vol_range *r;
	const struct weft_vol_window *w = NULL;

	if (len_bytes > UINT64_MAX - off_bytes)
		return false;
	pthread_mutex_lock(&v->lock);
	r = vol_range_met(&v->windows, off_bytes, off_bytes + len_bytes,
	                  write ? VOL_RANGE_WRITE : VOL_RANGE_READ);
	if (r != NULL)
		w = (const struct weft_vol_window *)((const char *)r -
		                                     offsetof(struct weft_vol_window, range));
	if (w != NULL && w->attr.who != NULL)
		snprintf(buf, size, "%s", w->attr.who);
	else
		w = NULL;
	pthread_mutex_unlock(&v->lock);
	return w != NULL;
}

/** To another range; if that is refused, it stays where it was. */
static int
win_reenter(struct weft_vol_window *w, uint64_t off_bytes, uint32_t len_bytes)
{
	struct weft_vol *v = w->attr.chan->vol;
	int r;

	pthread_mutex_lock(&v->lock);
	(void)vol_range_del(&v->windows, &w->range);
	r = win_enter_locked(w, off_bytes, len_bytes);
	if (r != 0)
		(void)win_enter_locked(w, w->attr.off_bytes, w->attr.len_bytes);
	pthread_mutex_unlock(&v->lock);
	return r;
}

/* ---- Filling ---- */

static uint8_t *
win_memory_of(const struct weft_vol_window *w)
{
	return w->pool->medium->base + weft_vol_window_at(w);
}

static void win_fill_done(struct weft_vol_op *op);

/** Read the volume, or, with nothing to read, wait for the next poll. */
static void
win_fill_submit(struct weft_vol_window *w)
{
	struct win_op *o = &w->op[0];
	int r = 0;

	o->w = w;
	o->iov = (struct iovec){win_memory_of(w), w->attr.len_bytes};
	o->op.kind = WEFT_VOL_READ;
	o->op.flags = 0;
	o->op.off_bytes = w->filling ? w->attr.off_bytes : 0;
	o->op.len_bytes = w->filling ? w->attr.len_bytes : 0;
	o->op.iov = &o->iov;
	o->op.iovs = w->filling ? 1 : 0;
	o->op.client = w->filling ? w->attr.client : NULL;
	o->op.of_window = true;
	o->op.done = win_fill_done;
	o->op.owner = o;
	o->busy = true;
	w->busy++;
	r = weft_vol_submit(w->attr.chan, &o->op);
	if (r == 0)
		return;
	/* Nothing can be wrong with it. If it is all the same, ready() tells, in a later poll. */
	w->fill_status = r;
	w->filling = false;
	o->op.len_bytes = o->op.off_bytes = 0;
	o->op.iovs = 0;
	o->op.client = NULL;
	(void)weft_vol_submit(w->attr.chan, &o->op);
}

/** It has its octets, or could not have them. */
static void
win_filled(struct weft_vol_window *w)
{
	void (*ready)(struct weft_vol_window * w, int status) = w->attr.ready;
	const bool gone = w->state == WIN_OPENING && w->fill_status != 0;

	vol_win_forget(w);
	w->used_ns = w->attr.chan->now_ns;
	if (!gone) {
		if (w->state == WIN_OPENING)
			w->pool->stats.opened++;
		else
			w->pool->stats.moved += w->fill_status == 0;
		w->state = WIN_OPEN;
		ready(w, w->fill_status); /* which may close it */
		return;
	}
	w->state = WIN_GONE;
	win_leave(w);
	vol_win_end(w);
	ready(w, w->fill_status);
	free(w);
}

static void
win_fill_done(struct weft_vol_op *op)
{
	struct weft_vol_window *w = ((struct win_op *)op->owner)->w;
	uint32_t n;

	w->op[0].busy = false;
	w->busy--;
	if (w->state == WIN_CLOSING) {
		vol_win_settle(w);
		return;
	}
	if (w->filling) {
		w->filling = false;
		w->fill_status = op->status;
		w->zero_at = op->status == 0 ? w->attr.len_bytes : 0;
	}
	if (w->fill_status != 0 && w->state == WIN_OPENING) {
		win_filled(w);
		return;
	}
	/* Nothing is left of what the slot stood for before, behind the window's end as well. */
	n = VOL_MIN(WIN_ZERO_BYTES, w->pool->window_bytes - w->zero_at);
	memset(win_memory_of(w) + w->zero_at, 0, n);
	w->zero_at += n;
	if (w->zero_at < w->pool->window_bytes)
		win_fill_submit(w);
	else
		win_filled(w);
}

static void
win_fill(struct weft_vol_window *w, bool fill)
{
	w->filling = fill || !w->attr.write;
	w->fill_status = 0;
	w->zero_at = 0;
	win_fill_submit(w);
}

/* ---- Open, move, close ---- */

/** The errors of a range. */
static int
win_check(const struct weft_vol_windows *p, const struct weft_vol_window_attr *a,
          uint64_t off_bytes, uint32_t len_bytes)
{
	const uint64_t bytes = a->chan->vol->info.bytes;

	if (off_bytes % WEFT_VOL_WINDOW_ALIGN != 0 || len_bytes == 0 ||
	    len_bytes > p->window_bytes || off_bytes > bytes || len_bytes > bytes - off_bytes ||
	    (len_bytes % WEFT_VOL_WINDOW_ALIGN != 0 && off_bytes + len_bytes != bytes))
		return -EINVAL;
	if (a->write && a->chan->vol->info.read_only)
		return -EROFS;
	return a->client->revoked ? -ESHUTDOWN : 0;
}

int
weft_vol_window_open(struct weft_vol_windows *p, const struct weft_vol_window_attr *attr,
                     struct weft_vol_window **out)
{
	struct weft_vol_window *w;
	int r;

	if (p == NULL || attr == NULL || out == NULL || attr->chan == NULL ||
	    attr->client == NULL || attr->client->chan != attr->chan || attr->ready == NULL)
		return -EINVAL;
	r = win_check(p, attr, attr->off_bytes, attr->len_bytes);
	if (r != 0)
		return r;
	if (p->free_slots == 0) {
		p->stats.refused_full++;
		return -ENOSPC;
	}
	w = calloc(1, sizeof(*w));
	if (w == NULL)
		return -ENOMEM;
	w->pool = p;
	w->attr = *attr;
	TAILQ_INIT(&w->reqs);
	TAILQ_INIT(&w->ahead);
	w->now = WIN_EVEN;
	r = win_enter(w);
	if (r != 0) {
		p->stats.refused_overlap++;
		free(w);
		return r;
	}
	w->slot = p->free_slot[--p->free_slots];
	p->window[w->slot] = w;
	attr->client->windows++;
	w->state = WIN_OPENING;
	w->used_ns = attr->chan->now_ns;
	*out = w;
	win_fill(w, attr->fill);
	return 0;
}

int
weft_vol_window_move(struct weft_vol_window *w, uint64_t off_bytes, uint32_t len_bytes, bool fill)
{
	int r;

	if (w == NULL)
		return -EINVAL;
	r = win_check(w->pool, &w->attr, off_bytes, len_bytes);
	if (r != 0)
		return r;
	if (w->state != WIN_OPEN || w->busy > 0 || w->reads > 0 || w->held > 0 ||
	    !TAILQ_EMPTY(&w->reqs) || !TAILQ_EMPTY(&w->ahead))
		return -EAGAIN;
	r = win_reenter(w, off_bytes, len_bytes);
	if (r != 0) {
		w->pool->stats.refused_overlap++;
		return r;
	}
	w->attr.off_bytes = off_bytes;
	w->attr.len_bytes = len_bytes;
	w->state = WIN_MOVING;
	w->used_ns = w->attr.chan->now_ns;
	win_fill(w, fill);
	return 0;
}

void
weft_vol_window_stop(struct weft_vol_window *w)
{
	struct weft_vol_windows *p;

	if (w == NULL || w->state == WIN_CLOSING || w->state == WIN_GONE)
		return;
	p = w->pool;
	w->state = WIN_CLOSING;
	w->stopped = true;
	/* Nothing new is submitted from here on, and what is under way keeps its range closed. */
	win_leave(w);
	for (uint32_t i = 0; i < WIN_OPS; i++) {
		if (w->op[i].busy)
			(void)weft_vol_cancel(w->attr.chan, &w->op[i].op);
	}
	if (w->sync.busy)
		(void)weft_vol_cancel(w->attr.chan, &w->sync.op);
	for (uint32_t i = 0; i < WIN_BUFS; i++) {
		if (p->buf[i].w == w)
			(void)weft_vol_cancel(w->attr.chan, &p->buf[i].op);
	}
}

void
weft_vol_window_close(struct weft_vol_window *w, void (*closed)(void *owner), void *owner)
{
	weft_vol_window_stop(w);
	if (w == NULL || !w->stopped)
		return;
	w->stopped = false;
	w->closed = closed;
	w->closed_owner = owner;
	vol_win_settle(w);
}
