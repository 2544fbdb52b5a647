/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A pool of windows over a volume on a simulated device.
 */

#include <errno.h>
#include <stdlib.h>

#include "window_rig.h"

#define RIG_POLLS 1000000

static _Thread_local unsigned int win_order;

struct weft_vol_windows *
win_pool(uint32_t slots, uint32_t window_bytes)
{
	const struct weft_vol_windows_attr a = {.bytes = (uint64_t)slots * window_bytes,
	                                        .window_bytes = window_bytes,
	                                        .numa_node = -1};
	struct weft_vol_windows *p;

	CHECK_EQ(weft_vol_windows_create(&a, &p), 0);
	return p;
}

static void
win_ready(struct weft_vol_window *w, int status)
{
	struct win *win = weft_vol_window_owner(w);

	win->ready++;
	win->status = status;
}

static void
win_is_closed(void *owner)
{
	((struct win *)owner)->closed++;
}

struct weft_vol_window_attr
win_attr(struct rig *r, unsigned int chan, struct weft_vol_client *client, struct win *win,
         uint64_t off, uint32_t len)
{
	*win = (struct win){0};
	return (struct weft_vol_window_attr){.chan = r->chan[chan],
	                                     .client = client,
	                                     .off_bytes = off,
	                                     .len_bytes = len,
	                                     .write = true,
	                                     .fill = true,
	                                     .ready = win_ready,
	                                     .owner = win};
}

void
win_open(struct rig *r, struct weft_vol_windows *p, const struct weft_vol_window_attr *a)
{
	struct win *win = a->owner;

	CHECK_EQ(weft_vol_window_open(p, a, &win->w), 0);
	CHECK_EQ(win->ready, 0);
	CHECK_EQ(win_wait(r, win), 0);
}

int
win_wait(struct rig *r, struct win *win)
{
	for (unsigned int i = 0; win->ready == 0; i++) {
		CHECK_MSG(i < RIG_POLLS, "a window is stuck");
		rig_poll(r);
	}
	CHECK_EQ(win->ready, 1);
	win->ready = 0;
	return win->status;
}

void
win_close(struct win *win)
{
	weft_vol_window_close(win->w, win_is_closed, win);
	win->w = NULL;
}

void
win_closed(struct rig *r, struct win *win)
{
	for (unsigned int i = 0; win->closed == 0; i++) {
		CHECK_MSG(i < RIG_POLLS, "a window that is closed is stuck");
		rig_poll(r);
	}
	CHECK_EQ(win->closed, 1);
}

uint8_t *
win_mem(struct weft_vol_windows *p, const struct win *win)
{
	return weft_vol_windows_medium(p)->base + weft_vol_window_at(win->w);
}

void
win_place(struct weft_vol_windows *p, const struct win *win, uint64_t at, const void *data,
          uint64_t len)
{
	memcpy(win_mem(p, win) + at, data, len);
	weft_persist_mark(weft_vol_windows_medium(p), weft_vol_window_at(win->w) + at, len);
}

bool
win_marked(struct weft_vol_windows *p, const struct win *win, uint64_t page)
{
	return weft_vol_windows_medium(p)->dirty[weft_vol_window_at(win->w) / WIN_PAGE + page] != 0;
}

static void
preq_done(struct weft_persist_req *req)
{
	struct preq *q = req->owner;

	q->done++;
	q->at = ++win_order;
	if (q->then != NULL)
		q->then(q);
}

/** What all have; `then` and `owner` are kept. */
static struct weft_persist_req *
preq_set(const struct win *win, struct preq *q, uint64_t at, uint64_t len, uint32_t flags)
{
	q->req = (struct weft_persist_req){.off_bytes = weft_vol_window_at(win->w) + at,
	                                   .len_bytes = len,
	                                   .flags = flags,
	                                   .status = 1,
	                                   .done = preq_done,
	                                   .owner = q};
	q->done = 0;
	return &q->req;
}

int
preq_flush(struct weft_vol_windows *p, const struct win *win, struct preq *q, uint64_t at,
           uint64_t len, uint32_t flags)
{
	struct weft_persist *m = weft_vol_windows_medium(p);

	return m->ops->flush(m, NULL, preq_set(win, q, at, len, flags));
}

void
win_ahead(struct weft_vol_windows *p, const struct win *win, uint64_t at, uint64_t len,
          uint32_t flags)
{
	struct weft_persist *m = weft_vol_windows_medium(p);

	m->ops->flush_ahead(m, weft_vol_window_at(win->w) + at, len, flags);
}

int
preq_read(struct weft_vol_windows *p, const struct win *win, struct preq *q, uint64_t at,
          uint64_t len)
{
	struct weft_persist *m = weft_vol_windows_medium(p);

	return m->ops->read_back(m, NULL, preq_set(win, q, at, len, 0));
}

int
preq_wait(struct rig *r, struct preq *q)
{
	for (unsigned int i = 0; q->done == 0; i++) {
		CHECK_MSG(i < RIG_POLLS, "a request of a window is stuck");
		rig_poll(r);
	}
	CHECK_EQ(q->done, 1);
	return q->req.status;
}

int
win_flush(struct rig *r, struct weft_vol_windows *p, const struct win *win, uint64_t at,
          uint64_t len, uint32_t flags)
{
	struct preq q = {0};
	int n = preq_flush(p, win, &q, at, len, flags);

	return n != 0 ? n : preq_wait(r, &q);
}

void
win_check_medium(struct rig *r, struct weft_vol_windows *p, const struct win *win, uint64_t at,
                 const uint8_t *expect, uint64_t len)
{
	struct weft_persist *m = weft_vol_windows_medium(p);

	for (uint64_t done = 0; done < len;) {
		struct preq q = {0};

		CHECK_EQ(preq_read(p, win, &q, at + done, len - done), 0);
		CHECK_EQ(preq_wait(r, &q), 0);
		CHECK(q.req.len_bytes > 0);
		CHECK_MEM(q.req.data, expect + done, q.req.len_bytes);
		done += q.req.len_bytes;
		m->ops->release(m, &q.req);
	}
}
