/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Asynchronous events. */

#include "async.h"

#include "api.h"
#include "cq.h"
#include "device.h"
#include "engine.h"
#include "qp.h"
#include "srq.h"

#include <errno.h>
#include <stdlib.h>

struct async_node {
	struct wv_fdq_node node; /**< first */
	struct ibv_async_event ev;
};

static void
async_put(struct ibv_context *context, const struct ibv_async_event *ev)
{
	struct async_node *n;

	if (wv_context(context)->closed)
		return;
	n = calloc(1, sizeof(*n));
	/* Without memory the event is lost; the state of the object tells the same. */
	if (n == NULL)
		return;
	n->ev = *ev;
	wv_fdq_put(&wv_context(context)->async, &n->node);
}

void
wv_async_cq(struct wv_cq *c, enum ibv_event_type type)
{
	async_put(c->ibv.context,
	          &(struct ibv_async_event){.element.cq = &c->ibv, .event_type = type});
}

void
wv_async_qp(struct wv_qp *q, enum ibv_event_type type)
{
	async_put(q->ibv.context,
	          &(struct ibv_async_event){.element.qp = &q->ibv, .event_type = type});
}

void
wv_async_srq(struct wv_srq *s, enum ibv_event_type type)
{
	async_put(s->ibv.context,
	          &(struct ibv_async_event){.element.srq = &s->ibv, .event_type = type});
}

/* ---- Contexts, which all hear of the port ---- */

static TAILQ_HEAD(, wv_context) contexts = TAILQ_HEAD_INITIALIZER(contexts);

void
wv_async_join(struct wv_context *c)
{
	TAILQ_INSERT_TAIL(&contexts, c, link);
}

void
wv_async_leave(struct wv_context *c)
{
	struct wv_fdq_node *n;

	TAILQ_REMOVE(&contexts, c, link);
	while ((n = wv_fdq_take(&c->async)) != NULL)
		free(n);
}

void
wv_async_port(unsigned int number, enum ibv_event_type type)
{
	struct wv_context *c;

	TAILQ_FOREACH (c, &contexts, link)
		if (wv_context_number(&c->vctx.context) == number)
			async_put(&c->vctx.context,
			          &(struct ibv_async_event){.element.port_num = WV_PORT,
			                                    .event_type = type});
}

/** The kind of object that an event is about. */
enum async_kind { ASYNC_CQ, ASYNC_QP, ASYNC_SRQ, ASYNC_OTHER };

static enum async_kind
async_kind(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_CQ_ERR:
		return ASYNC_CQ;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return ASYNC_QP;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return ASYNC_SRQ;
	default:
		return ASYNC_OTHER;
	}
}

static bool
async_is_of(const struct wv_fdq_node *n, const void *object)
{
	const struct async_node *a = (const void *)n;

	switch (async_kind(a->ev.event_type)) {
	case ASYNC_CQ:
		return a->ev.element.cq == object;
	case ASYNC_QP:
		return a->ev.element.qp == object;
	case ASYNC_SRQ:
		return a->ev.element.srq == object;
	case ASYNC_OTHER:
		break;
	}
	return false;
}

void
wv_async_forget(struct ibv_context *context, struct ibv_cq *cq, struct ibv_qp *qp,
                struct ibv_srq *srq)
{
	const void *object = cq != NULL ? (void *)cq : qp != NULL ? (void *)qp : (void *)srq;
	struct wv_fdq_node *n;

	while ((n = wv_fdq_find(&wv_context(context)->async, async_is_of, object)) != NULL)
		free(n);
}

/**
 * Under the lock of the context's queue, which wv_async_forget() takes before the destruction of an
 * object looks at the count.
 */
static bool
async_taken(struct wv_fdq_node *n)
{
	const struct ibv_async_event *ev = &((struct async_node *)(void *)n)->ev;

	switch (async_kind(ev->event_type)) {
	case ASYNC_CQ:
		pthread_mutex_lock(&ev->element.cq->mutex);
		wv_cq(ev->element.cq)->async_reported++;
		pthread_mutex_unlock(&ev->element.cq->mutex);
		break;
	case ASYNC_QP:
		pthread_mutex_lock(&ev->element.qp->mutex);
		wv_qp(ev->element.qp)->async_reported++;
		pthread_mutex_unlock(&ev->element.qp->mutex);
		break;
	case ASYNC_SRQ:
		pthread_mutex_lock(&ev->element.srq->mutex);
		wv_srq(ev->element.srq)->async_reported++;
		pthread_mutex_unlock(&ev->element.srq->mutex);
		break;
	case ASYNC_OTHER:
		break;
	}
	return false;
}

WV_API int
ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct wv_fdq_node *n;
	int rc = wv_fdq_wait(&wv_context(context)->async, async_taken, &n);

	if (rc < 0) {
		errno = -rc;
		return -1;
	}
	*event = ((struct async_node *)(void *)n)->ev;
	free(n);
	return 0;
}

WV_API void
ibv_ack_async_event(struct ibv_async_event *event)
{
	switch (async_kind(event->event_type)) {
	case ASYNC_CQ:
		pthread_mutex_lock(&event->element.cq->mutex);
		event->element.cq->async_events_completed++;
		pthread_cond_signal(&event->element.cq->cond);
		pthread_mutex_unlock(&event->element.cq->mutex);
		break;
	case ASYNC_QP:
		pthread_mutex_lock(&event->element.qp->mutex);
		event->element.qp->events_completed++;
		pthread_cond_signal(&event->element.qp->cond);
		pthread_mutex_unlock(&event->element.qp->mutex);
		break;
	case ASYNC_SRQ:
		pthread_mutex_lock(&event->element.srq->mutex);
		event->element.srq->events_completed++;
		pthread_cond_signal(&event->element.srq->cond);
		pthread_mutex_unlock(&event->element.srq->mutex);
		break;
	case ASYNC_OTHER:
		break;
	}
}
