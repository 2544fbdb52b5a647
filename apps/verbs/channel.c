/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Completion channels. */

#include "api.h"
#include "async.h"
#include "cq.h"
#include "device.h"
#include "engine.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

/**
 * The queue that the calling thread has found empty last, and how much had been taken from it. The
 * pointers are compared only: the queue may be gone.
 */
static _Thread_local struct {
	const struct ibv_comp_channel *channel;
	const struct wv_cq *cq;
	uint64_t serial;
	uint32_t head;
} saw;

void
wv_channel_saw_empty(const struct wv_cq *c, uint32_t head)
{
	if (c->ibv.channel == NULL)
		return;
	saw.channel = c->ibv.channel;
	saw.cq = c;
	saw.serial = c->serial;
	saw.head = head;
}

void
wv_channel_took(const struct wv_cq *c)
{
	if (saw.cq == c)
		saw.channel = NULL;
}

void
wv_channel_join(struct wv_cq *c)
{
	struct wv_channel *ch = (struct wv_channel *)(void *)c->ibv.channel;
	static _Atomic uint64_t serial;

	c->serial = atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed);
	pthread_mutex_lock(&ch->cqs_lock);
	LIST_INSERT_HEAD(&ch->cqs, c, of_channel);
	pthread_mutex_unlock(&ch->cqs_lock);
}

void
wv_channel_leave(struct wv_cq *c)
{
	struct wv_channel *ch = (struct wv_channel *)(void *)c->ibv.channel;

	pthread_mutex_lock(&ch->cqs_lock);
	LIST_REMOVE(c, of_channel);
	pthread_mutex_unlock(&ch->cqs_lock);
}

/**
 * The calling thread is about to wait. If completions have come since this thread found the queue
 * empty, and another thread has armed the queue after that, no event would tell this thread of
 * them, whether the other one has taken them already or is about to.
 * librdmacm's rsockets need that event: a thread gives up the lock under which it looked at the
 * queue before it looks whether the queue is armed, so two threads that use one rsocket would wait
 * for ever, each with what it needs. Every program is prepared for an event without a completion:
 * a completion may be polled before its event is read.
 */
static void
channel_catch_up(struct wv_channel *ch)
{
	struct wv_cq *c;

	if (saw.channel != &ch->ibv)
		return;
	pthread_mutex_lock(&ch->cqs_lock);
	LIST_FOREACH (c, &ch->cqs, of_channel)
		if (c == saw.cq && c->serial == saw.serial)
			break;
	if (c != NULL) {
		uint32_t spare = 0; /* one event is enough */
		bool missed;

		pthread_spin_lock(&c->lock);
		missed = c->tail != saw.head && c->armed != WV_ARM_NONE;
		pthread_spin_unlock(&c->lock);
		if (missed)
			wv_fdq_put_again(&ch->q, &c->node, &spare);
	}
	pthread_mutex_unlock(&ch->cqs_lock);
	saw.channel = NULL;
}

WV_API struct ibv_comp_channel *
ibv_create_comp_channel(struct ibv_context *context)
{
	struct wv_channel *ch;
	int rc;

	if (wv_engine_orphan()) {
		errno = EPERM;
		return NULL;
	}
	ch = calloc(1, sizeof(*ch));
	rc = ch == NULL ? -ENOMEM : wv_fdq_init(&ch->q);
	if (rc < 0) {
		free(ch);
		errno = -rc;
		return NULL;
	}
	ch->ibv.context = context;
	ch->ibv.fd = ch->q.fd;
	pthread_mutex_init(&ch->cqs_lock, NULL);
	LIST_INIT(&ch->cqs);
	wv_context_hold(context);
	return &ch->ibv;
}

WV_API int
ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct wv_channel *ch = (struct wv_channel *)(void *)channel;
	int refs;

	if (wv_engine_orphan())
		return 0;
	pthread_mutex_lock(&channel->context->mutex);
	refs = channel->refcnt;
	pthread_mutex_unlock(&channel->context->mutex);
	if (refs != 0)
		return EBUSY;
	wv_fdq_fini(&ch->q);
	pthread_mutex_destroy(&ch->cqs_lock);
	wv_context_put(channel->context);
	free(ch);
	return 0;
}

bool
wv_channel_has_event(struct wv_cq *c)
{
	struct wv_channel *ch = (struct wv_channel *)(void *)c->ibv.channel;

	return ch != NULL && wv_fdq_has(&ch->q, &c->node);
}

void
wv_channel_fire(struct wv_cq *c)
{
	struct wv_channel *ch = (struct wv_channel *)(void *)c->ibv.channel;

	wv_fdq_put_again(&ch->q, &c->node, &c->more);
}

/**
 * Under the lock of the channel's queue, which ibv_destroy_cq() takes before it looks at the count.
 */
static bool
channel_taken(struct wv_fdq_node *n)
{
	struct wv_cq *c = wv_container_of(n, struct wv_cq, node);

	pthread_mutex_lock(&c->ibv.mutex);
	c->comp_reported++;
	pthread_mutex_unlock(&c->ibv.mutex);
	/* An event that came meanwhile. */
	if (c->more == 0)
		return false;
	c->more--;
	return true;
}

WV_API int
ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct wv_channel *ch = (struct wv_channel *)(void *)channel;
	struct wv_fdq_node *n;
	struct wv_cq *c;
	int rc;

	channel_catch_up(ch);
	rc = wv_fdq_wait(&ch->q, channel_taken, &n);
	if (rc < 0) {
		errno = -rc;
		return -1;
	}
	wv_set_waiting(false);
	c = wv_container_of(n, struct wv_cq, node);
	*cq = &c->ibv;
	*cq_context = c->ibv.cq_context;
	return 0;
}

WV_API void
ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += n;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}
