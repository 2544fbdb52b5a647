/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Tests on a volume by windows: RDMA Write and Flush to them, or RDMA Read from those that
 * were filled. A connection's windows follow each other through its share of the range. The first
 * one moves on when all of its messages are done, while the next ones are in use. Where the target
 * has too few, a connection goes on with those that it has.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client_volume.h"
#include "client_wait.h"

static void window_go_on(struct volume_window *w);

uint64_t
client_window_span(const struct client *c)
{
	return c->vol->info->window_bytes / c->job.size_bytes * (uint64_t)c->job.size_bytes;
}

static uint32_t
window_rights(const struct client *c)
{
	return c->job.test == PERF_VOLUME_READ ? WEFT_VOLUME_RIGHT_READ
	                                       : WEFT_VOLUME_RIGHT_WRITE | WEFT_VOLUME_RIGHT_FLUSH;
}

static uint32_t
window_flags(const struct client *c)
{
	return c->job.test == PERF_VOLUME_READ ? WEFT_VOLUME_WINDOW_F_FILL : 0;
}

/** Whether the connection can do without this window, for which the target has no memory. */
static bool
window_spared(struct volume_window *w)
{
	struct client_volume *x = w->c->vol;

	w->gone = true;
	for (uint32_t i = 0; i < x->nwindows; i++)
		if (!x->window[i].gone) {
			x->left[x->nleft++] = (struct volume_left){w->at_bytes, w->used};
			return true;
		}
	return false;
}

static void
window_ready(void *arg, int status, const char *why)
{
	struct volume_window *w = arg;

	w->ready = status == 0;
	if (status == -ENOMEM && w->win.id == 0 && window_spared(w))
		return;
	if (status != 0)
		client_volume_fail(w->c, status, "a window", w->at_bytes, why);
	else if (w->give_back)
		window_go_on(w);
}

static void
window_open(struct volume_window *w)
{
	struct client *c = w->c;
	int rc = weft_volume_window_open(c->vol->v, &w->win, w->at_bytes,
	                                 (uint32_t)client_window_span(c), window_rights(c),
	                                 window_flags(c), window_ready, w);

	if (rc != 0)
		client_volume_fail(c, rc, "a window", w->at_bytes, "");
}

static void
window_closed(void *arg, int status, const char *why)
{
	struct volume_window *w = arg;

	(void)status;
	(void)why;
	if (!w->c->dead && !w->c->vol->closed)
		window_open(w);
}

/** The next range of the window, behind that of the others. */
static void
window_next(struct volume_window *w)
{
	struct client_volume *x = w->c->vol;

	if (x->nleft > 0) {
		w->at_bytes = x->left[--x->nleft].at_bytes;
		w->used = x->left[x->nleft].used;
		return;
	}
	w->at_bytes = x->place.from_bytes + x->next * client_window_span(w->c);
	x->next = (x->next + 1) % x->places;
	w->used = 0;
}

/** Nothing is posted to the window: let it move on, or give it back. */
static void
window_go_on(struct volume_window *w)
{
	struct client *c = w->c;
	int rc;

	w->ready = false;
	if (w->used == c->vol->each)
		window_next(w);
	if (w->give_back) {
		w->give_back = false;
		rc = weft_volume_window_close(&w->win, window_closed, w);
	} else {
		rc = weft_volume_window_move(&w->win, w->at_bytes, (uint32_t)client_window_span(c),
		                             window_flags(c), window_ready, w);
	}
	if (rc != 0)
		client_volume_fail(c, rc, "a window", w->at_bytes, "");
}

/** The target wants the window for another client: it is closed when its messages are done. */
static void
window_revoked(struct weft_volume_window *win, uint32_t deadline_ms)
{
	struct volume_window *w = win->owner;

	(void)deadline_ms;
	w->give_back = true;
	if (w->ready && w->out == 0)
		window_go_on(w);
}

static bool
window_any(const struct client *c)
{
	for (uint32_t i = 0; i < c->vol->nwindows; i++)
		if (c->vol->window[i].ready)
			return true;
	return false;
}

int
client_window_begin(struct client *c)
{
	struct client_volume *x = c->vol;

	x->each = (uint32_t)(client_window_span(c) / c->job.size_bytes);
	x->places = x->place.n / x->each;
	/* One moves on while the others have room for what is under way. */
	x->nwindows = c->job.depth / x->each + 2;
	if (x->nwindows > x->info->windows)
		x->nwindows = x->info->windows;
	if (x->nwindows > x->places)
		x->nwindows = (uint32_t)x->places;
	x->window = calloc(x->nwindows, sizeof(*x->window));
	x->left = calloc(x->nwindows, sizeof(*x->left));
	if (x->window == NULL || x->left == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < x->nwindows && !c->dead; i++) {
		struct volume_window *w = &x->window[i];

		w->c = c;
		w->win.revoked = window_revoked;
		w->win.owner = w;
		window_next(w);
		window_open(w);
	}
	return client_wait(c, window_any);
}

/** Post one message: its Write and Flush, or its Read. */
static int
window_post(struct client *c, struct volume_window *w)
{
	const uint32_t bytes = c->job.size_bytes;
	const uint64_t to = w->win.to + (uint64_t)w->used * bytes;
	struct weft_sge sge = {c->mem + c->f.posted % c->slots * bytes, bytes, c->lkey};
	struct weft_wr wr[2] = {
	        {.opcode = WEFT_WR_WRITE, .sg_list = &sge, .num_sge = 1, .rdma = {w->win.stag, to}},
	        {.opcode = WEFT_WR_FLUSH,
	         .flags = WEFT_WR_SIGNALED,
	         .wr_id = (uint64_t)(w - c->vol->window),
	         .flush = {.stag = w->win.stag,
	                   .to = to,
	                   .len_bytes = bytes,
	                   .flags = WEFT_FLUSH_PERSISTENT}}};
	int n = 2, rc;

	if (c->job.test == PERF_VOLUME_READ) {
		wr[0].opcode = WEFT_WR_READ;
		wr[0].flags = WEFT_WR_SIGNALED;
		wr[0].wr_id = wr[1].wr_id;
		n = 1;
	}
	rc = weft_post_send(c->qp, wr, (unsigned int)n);
	return rc == n ? 0 : rc < 0 ? rc : -EIO; /* the send queue takes both or none */
}

/** The window of the next message: the one whose turn it is, or else the next one that is ready. */
static struct volume_window *
window_now(struct client_volume *x)
{
	for (uint32_t i = 0; i < x->nwindows; i++) {
		struct volume_window *w = &x->window[(x->turn + i) % x->nwindows];

		if (w->ready && !w->give_back && w->used < x->each) {
			x->turn = (x->turn + i) % x->nwindows;
			return w;
		}
	}
	return NULL;
}

void
client_window_fill(struct client *c, uint64_t end)
{
	struct client_volume *x = c->vol;

	while (!c->dead && c->f.posted < end && c->f.posted - c->f.completed < c->job.depth) {
		struct volume_window *w = window_now(x);
		int rc;

		if (w == NULL)
			return;
		x->at[c->f.posted % c->slots] = w->at_bytes + (uint64_t)w->used * c->job.size_bytes;
		rc = window_post(c, w);
		if (rc != 0) {
			client_volume_fail(c, rc, "a message", w->at_bytes, "");
			return;
		}
		w->used++;
		w->out++;
		c->f.posted++;
		if (w->used == x->each)
			x->turn = (x->turn + 1) % x->nwindows;
	}
}

void
client_window_done(struct client *c, const struct weft_wc *wc)
{
	struct volume_window *w = &c->vol->window[wc->wr_id];

	c->f.completed++;
	w->out--;
	if (w->out == 0 && (w->used == c->vol->each || w->give_back))
		window_go_on(w);
}
