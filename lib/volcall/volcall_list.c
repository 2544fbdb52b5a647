/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The windows of a volume, and what there is to tell of them. */

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "volcall_priv.h"

#define STATE_MASK 0xffu

static_assert(sizeof(((struct weft_volume_window *)0)->why) == VOLCALL_WHY_BYTES, "one length");
static_assert(sizeof(((struct weft_volume_req *)0)->why) == VOLCALL_WHY_BYTES, "one length");

enum volcall_win_state
volcall_win_state(const struct weft_volume_window *w)
{
	return (enum volcall_win_state)(w->state & STATE_MASK);
}

static bool
win_wants(enum volcall_win_state s)
{
	return s == VOLCALL_WIN_WANT_OPEN || s == VOLCALL_WIN_WANT_MOVE ||
	       s == VOLCALL_WIN_WANT_CLOSE;
}

void
volcall_win_set(struct weft_volume_window *w, enum volcall_win_state state)
{
	if (win_wants(volcall_win_state(w)))
		w->volume->win_wants--;
	if (win_wants(state))
		w->volume->win_wants++;
	w->state = (w->state & ~STATE_MASK) | (uint32_t)state;
}

void
volcall_win_link(struct weft_volume *v, struct weft_volume_window *w)
{
	w->volume = v;
	w->prev = NULL;
	w->next = v->windows;
	if (w->next != NULL)
		w->next->prev = w;
	v->windows = w;
}

bool
volcall_win_writes(const struct weft_volume *v, uint64_t off_bytes, uint64_t len_bytes)
{
	const struct weft_volume_window *w = v->windows;

	/* Ranges lie in the volume, so their ends do not wrap. */
	while (w != NULL &&
	       (w->id == 0 || !(w->rights & WEFT_VOLUME_RIGHT_WRITE) ||
	        w->off_bytes >= off_bytes + len_bytes || off_bytes >= w->off_bytes + w->len_bytes))
		w = w->next;
	return w != NULL;
}

/* What was to be told is not any more. */
static void
win_untell(struct weft_volume_window *w, uint32_t flag)
{
	if (!(w->state & flag))
		return;
	w->state &= ~flag;
	w->volume->win_tells--;
}

void
volcall_win_unlink(struct weft_volume_window *w)
{
	volcall_win_set(w, VOLCALL_WIN_CLOSED);
	win_untell(w, VOLCALL_WIN_TELL);
	win_untell(w, VOLCALL_WIN_REVOKED);
	if (w->prev != NULL)
		w->prev->next = w->next;
	else
		w->volume->windows = w->next;
	if (w->next != NULL)
		w->next->prev = w->prev;
	w->next = w->prev = NULL;
	w->volume = NULL;
	w->id = 0;
	if (w->state & VOLCALL_WIN_OURS)
		free(w);
}

static void
win_due(struct weft_volume_window *w, uint32_t flag)
{
	if (!(w->state & flag))
		w->volume->win_tells++;
	w->state |= flag;
}

void
volcall_win_tell(struct weft_volume_window *w, int status, const char *why)
{
	w->status = status;
	volcall_why(w->why, status != 0 ? why : NULL);
	win_due(w, VOLCALL_WIN_TELL);
}

void
volcall_win_tell_revoked(struct weft_volume_window *w, uint32_t deadline_ms)
{
	w->deadline_ms = deadline_ms;
	win_due(w, VOLCALL_WIN_REVOKED);
}

void
volcall_win_told(struct weft_volume *v)
{
	struct weft_volume_window *w = v->windows;
	char why[VOLCALL_WHY_BYTES];
	weft_volume_fn fn;
	int status;
	void *arg;

	while (w != NULL && !(w->state & (VOLCALL_WIN_TELL | VOLCALL_WIN_REVOKED)))
		w = w->next;
	if (w == NULL)
		return;
	if (!(w->state & VOLCALL_WIN_TELL)) {
		win_untell(w, VOLCALL_WIN_REVOKED);
		/* It has ended with its connection, and may be opened again in the callback. */
		if (volcall_win_state(w) == VOLCALL_WIN_CLOSED)
			volcall_win_unlink(w);
		if (w->revoked != NULL)
			w->revoked(w, w->deadline_ms);
		return;
	}
	/* In fn the owner may open the window again. */
	fn = w->fn;
	arg = w->arg;
	status = w->status;
	memcpy(why, w->why, sizeof(why));
	win_untell(w, VOLCALL_WIN_TELL);
	if (volcall_win_state(w) == VOLCALL_WIN_CLOSED)
		volcall_win_unlink(w);
	if (fn != NULL)
		fn(arg, status, why);
}
