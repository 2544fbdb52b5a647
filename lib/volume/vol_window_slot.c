/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Windows: slots and requests, and the end of a window.
 */

#include <assert.h>
#include <stdlib.h>

#include "vol_window.h"

static_assert(sizeof(struct win_req) <= sizeof(((struct weft_persist_req *)0)->drv),
              "a request fits where the driver has room");

/* ---- Requests ---- */

struct win_req *
vol_win_req_of(struct weft_persist_req *req)
{
	return (struct win_req *)(void *)req->drv;
}

int
vol_win_answer(struct weft_persist_req *req, int status)
{
	req->status = status;
	req->done(req);
	return 0;
}

struct weft_vol_window *
vol_win_find(const struct weft_vol_windows *pool, uint64_t off_bytes, uint64_t len_bytes)
{
	const uint64_t slot = off_bytes / pool->window_bytes, at = off_bytes % pool->window_bytes;
	struct weft_vol_window *w = slot < pool->slots ? pool->window[slot] : NULL;

	if (w == NULL || w->state != WIN_OPEN || at > w->attr.len_bytes ||
	    len_bytes > w->attr.len_bytes - at)
		return NULL;
	return w;
}

void *
weft_vol_windows_owner_at(const struct weft_vol_windows *p, uint64_t off_bytes)
{
	const uint64_t slot = off_bytes / p->window_bytes;

	return slot < p->slots && p->window[slot] != NULL ? p->window[slot]->attr.owner : NULL;
}

/* ---- Slots ---- */

uint64_t
vol_win_first_page(const struct weft_vol_window *w)
{
	return weft_vol_window_at(w) >> WEFT_PERSIST_PAGE_SHIFT;
}

uint64_t
vol_win_end_page(const struct weft_vol_window *w)
{
	return vol_win_first_page(w) + (w->attr.len_bytes + WIN_PAGE - 1) / WIN_PAGE;
}

void
vol_win_end(struct weft_vol_window *w)
{
	struct weft_vol_windows *p = w->pool;

	p->window[w->slot] = NULL;
	p->free_slot[p->free_slots++] = w->slot;
	w->attr.client->windows--;
}

void
vol_win_settle(struct weft_vol_window *w)
{
	void (*closed)(void *owner) = w->closed;
	void *owner = w->closed_owner;

	if (w->state != WIN_CLOSING || w->stopped || w->held > 0 || w->busy > 0 || w->reads > 0 ||
	    !TAILQ_EMPTY(&w->reqs) || !TAILQ_EMPTY(&w->ahead))
		return;
	vol_win_end(w);
	free(w);
	if (closed != NULL)
		closed(owner);
}

/* ---- Questions ---- */

uint64_t
weft_vol_window_at(const struct weft_vol_window *w)
{
	return (uint64_t)w->slot * w->pool->window_bytes;
}

uint64_t
weft_vol_window_off(const struct weft_vol_window *w)
{
	return w->attr.off_bytes;
}

void *
weft_vol_window_owner(const struct weft_vol_window *w)
{
	return w->attr.owner;
}

uint64_t
weft_vol_window_used_ns(const struct weft_vol_window *w)
{
	return w->used_ns;
}
