/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Whom to tell, and when: queues, the owners' callbacks, the end of a volume. */

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "volcall_link.h"

#define LATER_US 1000 /* until too many calls are tried again, when no answer will do it */

struct weft_handle_kind volcall_kind = {.name = "volume"};

/* ---- Queues of requests ---- */

void
volcall_push(struct volcall_queue *q, struct weft_volume_req *req)
{
	req->next = NULL;
	if (q->first == NULL)
		q->first = req;
	else
		q->last->next = req;
	q->last = req;
}

void
volcall_push_front(struct volcall_queue *q, struct weft_volume_req *req)
{
	req->next = q->first;
	if (q->first == NULL)
		q->last = req;
	q->first = req;
}

struct weft_volume_req *
volcall_pop(struct volcall_queue *q)
{
	struct weft_volume_req *req = q->first;

	if (req != NULL)
		q->first = req->next;
	return req;
}

void
volcall_remove(struct volcall_queue *q, struct weft_volume_req *req)
{
	struct weft_volume_req **p = &q->first, *before = NULL;

	while (*p != NULL && *p != req) {
		before = *p;
		p = &before->next;
	}
	if (*p == NULL)
		return;
	*p = req->next;
	if (q->last == req)
		q->last = before;
}

/* ---- All volumes of the process, for the calls of targets ---- */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, weft_volume) list = LIST_HEAD_INITIALIZER(list);

void
volcall_list(struct weft_volume *v)
{
	pthread_mutex_lock(&list_lock);
	LIST_INSERT_HEAD(&list, v, entry);
	pthread_mutex_unlock(&list_lock);
}

struct weft_volume *
volcall_of(const struct weft_rpc *rpc, bool (*match)(const struct weft_volume *v, const void *arg),
           const void *arg)
{
	struct weft_volume *v;

	pthread_mutex_lock(&list_lock);
	/* Those of this endpoint belong to this thread, so they stay when the lock is gone. */
	LIST_FOREACH (v, &list, entry)
		if (v->rpc == rpc && v->state == VOLCALL_OPEN && match(v, arg))
			break;
	pthread_mutex_unlock(&list_lock);
	return v;
}

void
volcall_endpoint(struct weft_volume *v, struct weft_rpc *rpc)
{
	pthread_mutex_lock(&list_lock);
	v->rpc = rpc;
	pthread_mutex_unlock(&list_lock);
}

/* ---- Calls ---- */

struct volcall_slot *
volcall_slot_get(struct weft_volume *v)
{
	struct volcall_slot *s = SLIST_FIRST(&v->free);

	if (s == NULL)
		return NULL;
	SLIST_REMOVE_HEAD(&v->free, next);
	v->calls++;
	return s;
}

void
volcall_slot_put(struct volcall_slot *s)
{
	s->req = NULL;
	s->win = NULL;
	s->v->calls--;
	SLIST_INSERT_HEAD(&s->v->free, s, next);
}

/* ---- Telling ---- */

/* The opening is over, and its owner was not told. */
static bool
run_opened(const struct weft_volume *v)
{
	return v->open_fn != NULL && v->open_status <= 0;
}

/* The owner was told that the link is as it is. */
static bool
run_link_told(const struct weft_volume *v)
{
	return v->link == NULL || !v->link->tell;
}

/* Nothing of a closed volume is under way. */
static bool
run_closed(const struct weft_volume *v)
{
	return v->closing && v->calls == 0 && v->live_first == NULL && v->finished.first == NULL &&
	       v->open_fn == NULL && v->win_wants == 0 && v->win_tells == 0 && v->windows == NULL &&
	       (v->close_sent || v->down || v->state != VOLCALL_OPEN) &&
	       (v->link == NULL || (v->link->conn == NULL && v->link->conns == 0));
}

static bool
run_has_news(const struct weft_volume *v)
{
	return v->finished.first != NULL || run_opened(v) || v->win_tells > 0 || run_closed(v) ||
	       !run_link_told(v);
}

static void
run_free(struct weft_volume *v)
{
	struct volcall_opening *o;

	while ((o = LIST_FIRST(&v->late)) != NULL) {
		LIST_REMOVE(o, entry);
		o->v = NULL;
	}
	if (v->alarm != NULL)
		weft_alarm_cancel(v->alarm);
	if (v->link != NULL)
		v->link_ops->free(v);
	pthread_mutex_lock(&list_lock);
	LIST_REMOVE(v, entry);
	pthread_mutex_unlock(&list_lock);
	weft_handle_free(&v->h, sizeof(v->h));
}

static void
run_tell_opened(struct weft_volume *v)
{
	weft_volume_fn fn = v->open_fn;
	char why[VOLCALL_WHY_BYTES];

	/* In fn the owner may close the volume, which has a text of its own. */
	memcpy(why, v->why, sizeof(why));
	v->open_fn = NULL;
	fn(v->open_arg, v->open_status, why);
}

static void
run_tell_link(struct weft_volume *v)
{
	struct volcall_link *l = v->link;
	char why[VOLCALL_WHY_BYTES];

	l->tell = false;
	memcpy(why, l->why, sizeof(why));
	if (l->attr.moved != NULL && v->open_fn == NULL && v->state == VOLCALL_OPEN && !v->closing)
		l->attr.moved(l->attr.user, l->up, l->ended, why);
}

static void
run_tell(struct weft_volume *v)
{
	struct weft_volume_req *req;

	v->pins++;
	for (;;) {
		if (run_opened(v)) {
			run_tell_opened(v);
		} else if ((req = volcall_pop(&v->finished)) != NULL) {
			req->volume = NULL;
			req->done(req);
		} else if (v->win_tells > 0) {
			volcall_win_told(v);
		} else if (!run_link_told(v)) {
			run_tell_link(v);
		} else {
			break;
		}
	}
	if (run_closed(v) && !v->close_told) {
		v->close_told = true;
		if (v->close_fn != NULL)
			v->close_fn(v->close_arg, v->close_status, v->why);
	}
	v->pins--;
	if (v->close_told && v->pins == 0 && v->entered == 0)
		run_free(v);
}

static void
run_on_alarm(void *arg)
{
	struct weft_volume *v = arg;

	v->alarm = NULL;
	volcall_go_on(v);
}

static int
run_alarm(struct weft_volume *v, bool soon)
{
	if (v->alarm != NULL && (v->alarm_soon || !soon))
		return 0;
	if (v->alarm != NULL)
		weft_alarm_cancel(v->alarm);
	v->alarm_soon = soon;
	if (weft_alarm_set(v->worker, soon ? 0 : LATER_US, run_on_alarm, v, &v->alarm) == 0)
		return 0;
	v->alarm = NULL;
	return -ENOMEM;
}

int
volcall_later(struct weft_volume *v)
{
	return run_alarm(v, false);
}

void
volcall_enter(struct weft_volume *v)
{
	v->entered++;
}

void
volcall_leave(struct weft_volume *v)
{
	if (--v->entered > 0 || !run_has_news(v))
		return;
	/* Without memory for the alarm it is told inside the call, which is better than never. */
	if (run_alarm(v, true) != 0)
		run_tell(v);
}

void
volcall_pump(struct weft_volume *v)
{
	if (v->pumping) /* the connection was found dead by a call, and ended others */
		return;
	v->pumping = true;
	v->ops->pump(v);
	v->pumping = false;
}

void
volcall_go_on(struct weft_volume *v)
{
	/* What ends inside is told below, or behind the call of the owner that this is part of. */
	v->entered++;
	volcall_pump(v);
	v->entered--;
	if (v->entered == 0)
		run_tell(v);
}

bool
volcall_is_down(struct weft_volume *v)
{
	if (!v->down && v->link == NULL && weft_rpc_is_down(v->rpc))
		v->down = true;
	return v->down;
}

void
volcall_lost(struct weft_volume *v)
{
	if (v->link != NULL)
		v->link_ops->lost(v);
	else
		v->down = true;
}

bool
volcall_repeats(const struct weft_volume *v)
{
	return v->link != NULL && !v->down && !v->closing;
}
