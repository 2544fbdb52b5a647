/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Channels, ids and events of connection management: their lists. */

#include "ucm_priv.h"

#include "api.h"
#include "engine.h"
#include "portd.h"
#include "qp.h"

#include <stdatomic.h>
#include <stdlib.h>

pthread_mutex_t cm_lock = PTHREAD_MUTEX_INITIALIZER;

static struct cm_chan *_Atomic ucm_chan[WV_UCM_FDS];

struct cm_chan *
cm_chan_of(int fd)
{
	if (fd < 0 || fd >= WV_UCM_FDS)
		return NULL;
	return atomic_load_explicit(&ucm_chan[fd], memory_order_acquire);
}

bool
wv_ucm_is(int fd)
{
	return cm_chan_of(fd) != NULL;
}

bool
cm_chan_set(int fd, struct cm_chan *chan)
{
	if (fd >= WV_UCM_FDS)
		return false;
	atomic_store_explicit(&ucm_chan[fd], chan, memory_order_release);
	return true;
}

void
wv_ucm_forget(int fd)
{
	(void)cm_chan_set(fd, NULL);
}

static TAILQ_HEAD(, wv_cm_id) ids = TAILQ_HEAD_INITIALIZER(ids);
static uint32_t last_id;

struct wv_cm_id *
cm_id_each(bool (*fn)(const struct wv_cm_id *id, const void *arg), const void *arg)
{
	struct wv_cm_id *id;

	TAILQ_FOREACH (id, &ids, of_all)
		if (fn(id, arg))
			return id;
	return NULL;
}

static bool
id_has_number(const struct wv_cm_id *id, const void *arg)
{
	return id->id == *(const uint32_t *)arg;
}

struct wv_cm_id *
cm_id_find(const struct cm_chan *chan, uint32_t number)
{
	struct wv_cm_id *id;

	TAILQ_FOREACH (id, &chan->ids, of_chan)
		if (id->id == number)
			return id;
	return NULL;
}

struct wv_cm_id *
cm_id_new(struct cm_chan *chan, uint16_t ps)
{
	struct wv_cm_id *id = calloc(1, sizeof(*id));

	if (id == NULL)
		return NULL;
	/* librdmacm's table of ids ends at 2^20. */
	do
		last_id = (last_id + 1) & 0xfffff;
	while (cm_id_each(id_has_number, &last_id) != NULL);
	id->id = last_id;
	id->chan = chan;
	id->ps = ps;
	TAILQ_INSERT_TAIL(&chan->ids, id, of_chan);
	TAILQ_INSERT_TAIL(&ids, id, of_all);
	return id;
}

/* ---- Events ---- */

struct cm_event *
cm_event_new(struct wv_cm_id *id, enum cm_type type, int status)
{
	struct cm_event *ev;

	/* As in the kernel: before the program has accepted a request it does not know the id. */
	if (id->uid == 0)
		return NULL;
	ev = calloc(1, sizeof(*ev));
	if (ev == NULL)
		return NULL;
	ev->id = id;
	ev->resp.uid = id->uid;
	ev->resp.id = id->id;
	ev->resp.event = type;
	ev->resp.status = (uint32_t)status;
	return ev;
}

void
cm_event_put(struct cm_event *ev)
{
	if (ev != NULL)
		wv_fdq_put(&ev->id->chan->q, &ev->node);
}

static bool
event_is_of(const struct wv_fdq_node *n, const void *id)
{
	return wv_container_of((struct wv_fdq_node *)(uintptr_t)n, struct cm_event, node)->id == id;
}

static struct cm_event *
event_of(struct cm_chan *chan, const struct wv_cm_id *id)
{
	struct wv_fdq_node *n = wv_fdq_find(&chan->q, event_is_of, id);

	return n != NULL ? wv_container_of(n, struct cm_event, node) : NULL;
}

static void
id_to_chan(struct wv_cm_id *id, struct cm_chan *to)
{
	TAILQ_REMOVE(&id->chan->ids, id, of_chan);
	TAILQ_INSERT_TAIL(&to->ids, id, of_chan);
	id->chan = to;
}

void
cm_id_move(struct wv_cm_id *id, struct cm_chan *to)
{
	struct cm_chan *from = id->chan;
	struct cm_event *ev;

	/* Before its requests: wv_ucm_close() destroys a listener before what waits at it. */
	id_to_chan(id, to);
	while ((ev = event_of(from, id)) != NULL) {
		if (ev->new != NULL)
			id_to_chan(ev->new, to);
		wv_fdq_put(&to->q, &ev->node);
	}
}

/* ---- The end of an id ---- */

/** Drop the events of an id, with the requests among them. */
static void
id_drop_events(struct wv_cm_id *id)
{
	struct cm_event *ev;

	while ((ev = event_of(id->chan, id)) != NULL) {
		if (ev->new != NULL)
			cm_id_destroy(ev->new);
		free(ev);
	}
}

void
cm_id_unlisten(struct wv_cm_id *id)
{
	/* In a handler of exit() they are gone. */
	for (uint32_t i = 0; wv_engine_is_up() && i < id->nlisteners; i++)
		weft_unlisten(id->listeners[i]);
	free(id->listeners);
	id->listeners = NULL;
	id->nlisteners = 0;
}

void
cm_id_destroy(struct wv_cm_id *id)
{
	struct wv_qp *qp = id->qp;

	cm_id_unlisten(id);
	if (id->req != NULL && wv_engine_is_up())
		weft_reject(id->req, NULL, 0);
	if (qp != NULL) {
		qp->id = NULL;
		if (wv_engine_is_up())
			(void)wv_qp_close(qp);
	}
	if (id->late.ev != NULL) {
		LIST_REMOVE(id, late.link);
		free(id->late.ev);
	}
	id_drop_events(id);
	if (id->bound != 0)
		wv_portd_unbind(id->bound);
	TAILQ_REMOVE(&id->chan->ids, id, of_chan);
	TAILQ_REMOVE(&ids, id, of_all);
	free(id);
}
