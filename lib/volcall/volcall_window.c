/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Windows: their opening, moves and close. */

#include <errno.h>
#include <stdlib.h>

#include "volcall_link.h"

#define ANSWER_US 86400000000ULL /* until the answer to an opening is waited for no longer */

/* ---- The end of a call ---- */

static bool
window_is_new(const struct weft_volume *v, const struct weft_volume_window *me, uint32_t id)
{
	const struct weft_volume_window *w;

	for (w = v->windows; w != NULL; w = w->next)
		if (w != me && w->id == id)
			return false;
	return id != 0;
}

/* What the target has after a call that did not succeed, or was not sent. */
enum window_left {
	WINDOW_AS_BEFORE,
	WINDOW_GONE,
	WINDOW_UNKNOWN,
};

/* Let the target close a window of which it is unknown whether it is open. Without memory it stays
 * open there until the volume is closed. */
static void
window_close_unknown(struct weft_volume *v, uint32_t id)
{
	struct weft_volume_window *ours = calloc(1, sizeof(*ours));

	if (ours == NULL)
		return;
	ours->id = id;
	ours->state = VOLCALL_WIN_OURS;
	volcall_win_link(v, ours);
	volcall_win_set(ours, VOLCALL_WIN_WANT_CLOSE);
}

/* The state that follows a call, and what is told. left: if the status is not 0. */
static void
window_end(struct weft_volume_window *w, int status, const char *why, enum window_left left)
{
	struct weft_volume *v = w->volume;
	enum volcall_win_state was = volcall_win_state(w);
	bool opens = was == VOLCALL_WIN_OPENING || was == VOLCALL_WIN_WANT_OPEN;
	bool closes = was == VOLCALL_WIN_CLOSING || was == VOLCALL_WIN_WANT_CLOSE;
	bool closed = status == 0 ? closes : opens || left != WINDOW_AS_BEFORE;

	/* The close of the volume ends all of its windows. */
	if (!opens && status != 0 && left == WINDOW_UNKNOWN && !v->closing)
		window_close_unknown(v, w->id);
	if (!closed && v->closing) {
		closed = true;
		status = -ECANCELED;
		why = NULL;
	}
	if (status == 0 && !closed) {
		w->off_bytes = w->want_off_bytes;
		w->len_bytes = w->want_len_bytes;
		if (w->rights & WEFT_VOLUME_RIGHT_WRITE)
			volcall_kept_window(v, w->off_bytes, w->len_bytes);
	}
	volcall_win_set(w, closed ? VOLCALL_WIN_CLOSED : VOLCALL_WIN_OPEN);
	volcall_win_tell(w, status, why);
}

/* The window of a call that has ended; its slot is free. NULL status: not answered. */
static struct weft_volume_window *
window_answered(struct volcall_slot *s, enum weft_rpc_status status, weft_volrpc_status refused,
                const weft_volrpc_fault *fault, struct volcall_outcome *o)
{
	struct weft_volume_window *w = s->win;
	struct weft_volume *v = s->v;

	*o = (struct volcall_outcome){.status = volcall_rpc_errno(status),
	                              .why = weft_rpc_status_str(status)};
	if (status == WEFT_RPC_CONNLOST)
		volcall_lost(v);
	if (status == WEFT_RPC_OK && refused != WEFT_VOLRPC_OK)
		volcall_fault(o, refused, fault, 0, v->info.bytes, v->info.bytes);
	volcall_slot_put(s);
	return w;
}

/* The answer to an opening whose owner was told -ETIMEDOUT. */
static void
window_on_late(struct volcall_opening *opening, const weft_volrpc_window_res *r)
{
	struct weft_volume *v = opening->v;
	uint32_t id = r != NULL && r->status == WEFT_VOLRPC_OK
	                      ? r->weft_volrpc_window_res_u.window.window
	                      : 0;

	if (v != NULL) {
		LIST_REMOVE(opening, entry);
		v->nlate--;
	}
	free(opening);
	if (v == NULL)
		return;
	if (!v->closing && window_is_new(v, NULL, id))
		window_close_unknown(v, id);
	volcall_go_on(v);
}

static void
window_on_time(void *arg)
{
	struct volcall_opening *opening = arg;
	struct weft_volume *v = opening->v;
	struct weft_volume_window *w = opening->slot->win;

	opening->alarm = NULL;
	volcall_slot_put(opening->slot);
	opening->slot = NULL;
	LIST_INSERT_HEAD(&v->late, opening, entry);
	v->nlate++;
	window_end(w, -ETIMEDOUT, weft_rpc_status_str(WEFT_RPC_TIMEDOUT), WINDOW_GONE);
	volcall_go_on(v);
}

static void
window_on_opened(void *arg, enum weft_rpc_status status, void *res)
{
	struct volcall_opening *opening = arg;
	struct volcall_slot *s = opening->slot;
	const weft_volrpc_window_res *r = res;
	struct weft_volume *v = opening->v;
	struct volcall_outcome o;
	struct weft_volume_window *w;

	if (s == NULL) {
		window_on_late(opening, status == WEFT_RPC_OK ? r : NULL);
		return;
	}
	weft_alarm_cancel(opening->alarm);
	free(opening);
	w = window_answered(s, status, r != NULL ? r->status : WEFT_VOLRPC_OK,
	                    r != NULL ? &r->weft_volrpc_window_res_u.fault : NULL, &o);
	if (o.status == 0) {
		const weft_volrpc_window *g = &r->weft_volrpc_window_res_u.window;

		if (window_is_new(v, w, g->window)) {
			w->id = g->window;
			w->stag = g->stag;
			w->to = g->to;
		} else {
			o = (struct volcall_outcome){
			        .status = -EPROTO,
			        .why = "the target names a window that is open already"};
		}
	}
	window_end(w, o.status, o.why, WINDOW_GONE);
	volcall_go_on(v);
}

/* What a move or close that failed leaves, as weft_volrpc.x says. */
static enum window_left
window_left(bool closes, enum weft_rpc_status status, weft_volrpc_status refused, int rc)
{
	/* A close that has timed out may never have been sent. A target that refuses it otherwise
	 * does not have the window, or would refuse it again. */
	if (closes)
		return status == WEFT_RPC_TIMEDOUT ? WINDOW_UNKNOWN : WINDOW_GONE;
	if (status != WEFT_RPC_OK)
		return status == WEFT_RPC_CONNLOST ? WINDOW_GONE : WINDOW_UNKNOWN;
	if (rc == -EPROTO)
		return WINDOW_UNKNOWN;
	switch (refused) {
	case WEFT_VOLRPC_PERM:
	case WEFT_VOLRPC_BUSY:
	case WEFT_VOLRPC_INVAL:
	case WEFT_VOLRPC_NOTSUP:
		return WINDOW_AS_BEFORE;
	default:
		return WINDOW_GONE;
	}
}

/* A move, or a close. */
static void
window_on_answer(void *arg, enum weft_rpc_status status, void *res)
{
	struct volcall_slot *s = arg;
	const weft_volrpc_res *r = res;
	struct weft_volume *v = s->v;
	const bool closes = volcall_win_state(s->win) == VOLCALL_WIN_CLOSING;
	struct volcall_outcome o;
	struct weft_volume_window *w =
	        window_answered(s, status, r != NULL ? r->status : WEFT_VOLRPC_OK,
	                        r != NULL ? &r->weft_volrpc_res_u.fault : NULL, &o);

	window_end(w, o.status, o.why,
	           window_left(closes, status, r != NULL ? r->status : WEFT_VOLRPC_OK, o.status));
	volcall_go_on(v);
}

/* ---- Sending ---- */

static int
window_call(struct volcall_slot *s, uint32_t proc, xdrproc_t xdr_args, const void *args)
{
	return weft_rpc_call(s->v->rpc, WEFT_VOLRPC_PROG, WEFT_VOLRPC_V2, proc, xdr_args, args,
	                     (xdrproc_t)xdr_weft_volrpc_res, sizeof(weft_volrpc_res),
	                     s->v->timeout_us, window_on_answer, s);
}

static int
window_call_open(struct volcall_slot *s, const weft_volrpc_window_args *args)
{
	struct weft_volume *v = s->v;
	const uint64_t time_us = v->timeout_us != 0 ? v->timeout_us : VOLCALL_TIMEOUT_US;
	struct volcall_opening *o = v->nlate < VOLCALL_LATE ? calloc(1, sizeof(*o)) : NULL;
	int rc;

	if (o == NULL)
		return -ENOMEM;
	o->v = v;
	o->slot = s;
	rc = weft_alarm_set(v->worker, time_us, window_on_time, o, &o->alarm);
	if (rc == 0) {
		rc = weft_rpc_call(v->rpc, WEFT_VOLRPC_PROG, WEFT_VOLRPC_V2,
		                   WEFT_VOLRPC_WINDOW_OPEN, (xdrproc_t)xdr_weft_volrpc_window_args,
		                   args, (xdrproc_t)xdr_weft_volrpc_window_res,
		                   sizeof(weft_volrpc_window_res),
		                   time_us > ANSWER_US ? time_us : ANSWER_US, window_on_opened, o);
		if (rc == 0)
			return 0;
		weft_alarm_cancel(o->alarm);
	}
	free(o);
	return rc;
}

/* Send what the window wants. It may have ended when this returns 0. */
static int
window_send(struct weft_volume *v, struct weft_volume_window *w)
{
	const weft_volrpc_window_args open = {.handle = v->handle,
	                                      .off = w->want_off_bytes,
	                                      .len = w->want_len_bytes,
	                                      .rights = w->rights,
	                                      .flags = w->flags};
	const weft_volrpc_move_args move = {.window = w->id,
	                                    .off = w->want_off_bytes,
	                                    .len = w->want_len_bytes,
	                                    .flags = w->flags};
	const weft_volrpc_window_close_args close = {.window = w->id};
	enum volcall_win_state want = volcall_win_state(w);
	struct volcall_slot *s = volcall_slot_get(v);
	int rc;

	if (s == NULL)
		return -EAGAIN;
	s->win = w;
	if (want == VOLCALL_WIN_WANT_OPEN) {
		volcall_win_set(w, VOLCALL_WIN_OPENING);
		rc = window_call_open(s, &open);
	} else if (want == VOLCALL_WIN_WANT_MOVE) {
		volcall_win_set(w, VOLCALL_WIN_MOVING);
		rc = window_call(s, WEFT_VOLRPC_WINDOW_MOVE, (xdrproc_t)xdr_weft_volrpc_move_args,
		                 &move);
	} else {
		volcall_win_set(w, VOLCALL_WIN_CLOSING);
		rc = window_call(s, WEFT_VOLRPC_WINDOW_CLOSE,
		                 (xdrproc_t)xdr_weft_volrpc_window_close_args, &close);
	}
	if (rc == 0)
		return 0;
	volcall_win_set(w, want);
	volcall_slot_put(s);
	return rc;
}

/* A call of it was not sent yet. */
static bool
window_wants(enum volcall_win_state s)
{
	return s == VOLCALL_WIN_WANT_OPEN || s == VOLCALL_WIN_WANT_MOVE ||
	       s == VOLCALL_WIN_WANT_CLOSE;
}

/* The window whose call is sent next. NULL: there is none, or all wait for changes. */
static struct weft_volume_window *
window_that_wants(const struct weft_volume *v)
{
	struct weft_volume_window *w = v->windows, *found = NULL;

	/* The list has the latest one first. */
	for (; w != NULL; w = w->next) {
		enum volcall_win_state s = volcall_win_state(w);

		if (window_wants(s) &&
		    (s == VOLCALL_WIN_WANT_CLOSE || v->down || !volcall_order_holds(v, w)))
			found = w;
	}
	return found;
}

bool
volcall_window_pump(struct weft_volume *v)
{
	struct weft_volume_window *w;
	int rc;

	while (v->win_wants > 0) {
		const bool down = volcall_is_down(v);

		w = window_that_wants(v);
		if (w == NULL)
			return false;
		if (down) {
			window_end(w, -ENOTCONN, "connection lost", WINDOW_GONE);
			continue;
		}
		if (SLIST_EMPTY(&v->free))
			return false;
		rc = window_send(v, w);
		/* The target keeps a window until the close has reached it. */
		if (rc == -EAGAIN ||
		    (rc == -ENOMEM && volcall_win_state(w) == VOLCALL_WIN_WANT_CLOSE))
			return true;
		if (rc != 0)
			window_end(w, rc, NULL, rc == -ENOTCONN ? WINDOW_GONE : WINDOW_AS_BEFORE);
	}
	return false;
}

/* ---- Calls of the owner ---- */

static int
window_range(const struct weft_volume *v, uint64_t off_bytes, uint32_t len_bytes, uint32_t flags)
{
	const struct weft_volume_info *i = &v->info;

	if (i->window_bytes == 0)
		return -EOPNOTSUPP;
	if (len_bytes == 0 || len_bytes > i->window_bytes || off_bytes % i->window_align != 0 ||
	    off_bytes > i->bytes || len_bytes > i->bytes - off_bytes ||
	    (len_bytes % i->window_align != 0 && off_bytes + len_bytes != i->bytes) ||
	    (flags & ~WEFT_VOLUME_WINDOW_F_FILL) != 0)
		return -EINVAL;
	return 0;
}

/* The window's next call, and whom it is told. */
static void
window_begin(struct weft_volume_window *w, enum volcall_win_state want, weft_volume_fn fn,
             void *arg)
{
	struct weft_volume *v = w->volume;

	w->fn = fn;
	w->arg = arg;
	w->behind = v->taken;
	volcall_enter(v);
	volcall_win_set(w, want);
	volcall_pump(v);
	volcall_leave(v);
}

int
weft_volume_window_open(struct weft_volume *v, struct weft_volume_window *w, uint64_t off_bytes,
                        uint32_t len_bytes, uint32_t rights, uint32_t flags, weft_volume_fn fn,
                        void *arg)
{
	int rc;

	if (weft_handle_check(v, &volcall_kind, __func__) < 0 || w == NULL || fn == NULL)
		return -EINVAL;
	rc = weft_worker_check_thread(v->worker, __func__);
	if (rc == 0 && v->state != VOLCALL_OPEN)
		rc = -EINVAL;
	if (rc == 0)
		rc = window_range(v, off_bytes, len_bytes, flags);
	if (rc == 0 && w->volume != NULL)
		rc = -EBUSY;
	if (rc == 0 && volcall_is_down(v))
		rc = -ENOTCONN;
	if (rc != 0)
		return rc;
	w->state = 0;
	w->id = 0;
	w->want_off_bytes = off_bytes;
	w->want_len_bytes = len_bytes;
	w->rights = rights != 0 ? rights : v->info.rights;
	w->flags = flags;
	volcall_win_link(v, w);
	window_begin(w, VOLCALL_WIN_WANT_OPEN, fn, arg);
	return 0;
}

/* Whether the window is open, and nothing of it is under way. */
static int
window_check(const struct weft_volume_window *w, const char *call)
{
	int rc;

	if (w == NULL || w->volume == NULL || weft_handle_check(w->volume, &volcall_kind, call) < 0)
		return -EINVAL;
	rc = weft_worker_check_thread(w->volume->worker, call);
	if (rc != 0)
		return rc;
	return volcall_win_state(w) != VOLCALL_WIN_OPEN || (w->state & VOLCALL_WIN_TELL) ? -EBUSY
	                                                                                 : 0;
}

int
weft_volume_window_move(struct weft_volume_window *w, uint64_t off_bytes, uint32_t len_bytes,
                        uint32_t flags, weft_volume_fn fn, void *arg)
{
	int rc = fn == NULL ? -EINVAL : window_check(w, __func__);

	if (rc == 0)
		rc = window_range(w->volume, off_bytes, len_bytes, flags);
	if (rc == 0 && volcall_is_down(w->volume))
		rc = -ENOTCONN;
	if (rc != 0)
		return rc;
	w->want_off_bytes = off_bytes;
	w->want_len_bytes = len_bytes;
	w->flags = flags;
	window_begin(w, VOLCALL_WIN_WANT_MOVE, fn, arg);
	return 0;
}

int
weft_volume_window_close(struct weft_volume_window *w, weft_volume_fn fn, void *arg)
{
	int rc = window_check(w, __func__);

	if (rc != 0)
		return rc;
	if (fn == NULL) {
		/* The owner has its memory back at once. */
		struct weft_volume_window *ours = calloc(1, sizeof(*ours));

		if (ours == NULL)
			return -ENOMEM;
		ours->id = w->id;
		ours->state = VOLCALL_WIN_OPEN | VOLCALL_WIN_OURS;
		volcall_win_link(w->volume, ours);
		volcall_win_unlink(w);
		w = ours;
	}
	window_begin(w, VOLCALL_WIN_WANT_CLOSE, fn, arg);
	return 0;
}

/* ---- The volume's end, and the target's calls ---- */

void
volcall_window_end_all(struct weft_volume *v, int status)
{
	struct weft_volume_window *w, *next;

	for (w = v->windows; w != NULL; w = next) {
		enum volcall_win_state s = volcall_win_state(w);

		next = w->next;
		if (s == VOLCALL_WIN_OPEN && (w->state & VOLCALL_WIN_TELL)) {
			volcall_win_set(w, VOLCALL_WIN_CLOSED);
			volcall_win_tell(w, status, NULL);
		} else if (s == VOLCALL_WIN_OPEN) {
			volcall_win_unlink(w);
		} else if (window_wants(s)) {
			volcall_win_set(w, VOLCALL_WIN_CLOSED);
			volcall_win_tell(w, status, NULL);
		}
	}
}

void
volcall_window_lost(struct weft_volume *v)
{
	struct weft_volume_window *w, *next;

	for (w = v->windows; w != NULL; w = next) {
		enum volcall_win_state s = volcall_win_state(w);

		next = w->next;
		if (s == VOLCALL_WIN_WANT_MOVE || s == VOLCALL_WIN_WANT_CLOSE) {
			window_end(w, -ENOTCONN, "connection lost", WINDOW_GONE);
		} else if (s == VOLCALL_WIN_OPEN) {
			w->id = 0;
			volcall_win_set(w, VOLCALL_WIN_CLOSED);
			if (w->state & VOLCALL_WIN_TELL)
				volcall_win_tell(w, -ENOTCONN, "connection lost");
			else
				volcall_win_tell_revoked(w, 0);
		}
	}
}

void
volcall_window_unsent(struct weft_volume *v, int status)
{
	struct weft_volume_window *w, *next;

	for (w = v->windows; w != NULL; w = next) {
		next = w->next;
		/* A window without an owner is closed when there is memory again. */
		if (window_wants(volcall_win_state(w)) && !(w->state & VOLCALL_WIN_OURS))
			window_end(w, status, NULL, WINDOW_AS_BEFORE);
	}
}

bool
volcall_window_revoked(struct weft_volume *v, uint32_t id, uint32_t deadline_ms)
{
	struct weft_volume_window *w;
	bool found = false;

	for (w = v->windows; w != NULL; w = w->next) {
		enum volcall_win_state s = volcall_win_state(w);

		if ((id != 0 && w->id != id) || w->id == 0 || s == VOLCALL_WIN_CLOSED ||
		    s == VOLCALL_WIN_CLOSING || s == VOLCALL_WIN_WANT_CLOSE)
			continue;
		volcall_win_tell_revoked(w, deadline_ms);
		found = true;
	}
	return found;
}
