/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Completion queues. */

#include "cq.h"

#include "api.h"
#include "async.h"
#include "device.h"
#include "engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint32_t
cq_ring_size(uint32_t cqe)
{
	uint32_t n = 16;

	while (n < cqe)
		n *= 2;
	return n;
}

struct wv_cq *
wv_cq_new(struct ibv_context *context, uint32_t cqe, void *user, struct ibv_comp_channel *channel,
          uint32_t vector)
{
	struct wv_cq *c;

	if (wv_engine_orphan()) {
		errno = EPERM;
		return NULL;
	}
	if (cqe == 0 || cqe > WV_MAX_CQE || vector >= (uint32_t)context->num_comp_vectors ||
	    (channel != NULL && channel->context != context)) {
		errno = EINVAL;
		return NULL;
	}
	c = calloc(1, sizeof(*c));
	if (c != NULL)
		c->ring = calloc(cq_ring_size(cqe), sizeof(*c->ring));
	if (c == NULL || c->ring == NULL) {
		free(c);
		errno = ENOMEM;
		return NULL;
	}
	c->mask = cq_ring_size(cqe) - 1;
	pthread_spin_init(&c->lock, PTHREAD_PROCESS_PRIVATE);
	pthread_mutex_init(&c->reading, NULL);
	c->ibv.context = context;
	c->ibv.channel = channel;
	c->ibv.cq_context = user;
	c->ibv.cqe = (int)cqe;
	pthread_mutex_init(&c->ibv.mutex, NULL);
	pthread_cond_init(&c->ibv.cond, NULL);
	wv_context_hold(context);
	if (channel != NULL) {
		pthread_mutex_lock(&context->mutex);
		channel->refcnt++;
		pthread_mutex_unlock(&context->mutex);
		wv_channel_join(c);
	}
	return c;
}

WV_API struct ibv_cq *
ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
              struct ibv_comp_channel *channel, int comp_vector)
{
	struct wv_cq *c;

	if (cqe < 0 || comp_vector < 0) {
		errno = EINVAL;
		return NULL;
	}
	c = wv_cq_new(context, (uint32_t)cqe, cq_context, channel, (uint32_t)comp_vector);
	return c != NULL ? &c->ibv : NULL;
}

WV_API int
ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	struct wv_cq *c = wv_cq(cq);
	struct wv_cqe *ring, *old;
	uint32_t n, used;
	int rc = 0;

	if (cqe <= 0 || cqe > WV_MAX_CQE)
		return EINVAL;
	n = cq_ring_size((uint32_t)cqe);
	ring = calloc(n, sizeof(*ring));
	if (ring == NULL)
		return ENOMEM;
	pthread_spin_lock(&c->lock);
	used = c->tail - c->head;
	old = c->ring;
	if (used > (uint32_t)cqe) {
		old = ring; /* it stays as it is */
		rc = EINVAL;
	} else {
		for (uint32_t i = 0; i < used; i++)
			ring[(c->head + i) & (n - 1)] = c->ring[(c->head + i) & c->mask];
		c->ring = ring;
		c->mask = n - 1;
		cq->cqe = cqe;
	}
	pthread_spin_unlock(&c->lock);
	free(old);
	return rc;
}

WV_API int
ibv_destroy_cq(struct ibv_cq *cq)
{
	struct wv_cq *c = wv_cq(cq);
	uint32_t users;

	if (wv_engine_orphan())
		return 0;
	wv_lock();
	users = c->users;
	wv_unlock();
	if (users > 0)
		return EBUSY;
	if (cq->channel != NULL) {
		struct wv_channel *ch = (struct wv_channel *)(void *)cq->channel;

		wv_channel_leave(c);
		(void)wv_fdq_drop(&ch->q, &c->node);
		pthread_mutex_lock(&cq->context->mutex);
		cq->channel->refcnt--;
		pthread_mutex_unlock(&cq->context->mutex);
	}
	wv_async_forget(cq->context, cq, NULL, NULL);
	pthread_mutex_lock(&cq->mutex);
	while (cq->comp_events_completed != c->comp_reported ||
	       cq->async_events_completed != c->async_reported)
		pthread_cond_wait(&cq->cond, &cq->mutex);
	pthread_mutex_unlock(&cq->mutex);
	pthread_mutex_destroy(&cq->mutex);
	pthread_cond_destroy(&cq->cond);
	pthread_spin_destroy(&c->lock);
	pthread_mutex_destroy(&c->reading);
	wv_context_put(cq->context);
	free(c->ring);
	free(c);
	return 0;
}

/* ---- Completions ---- */

bool
wv_cq_put(struct wv_cq *c, const struct ibv_wc *wc, bool solicited)
{
	bool room, fire = false;

	pthread_spin_lock(&c->lock);
	room = c->tail - c->head < (uint32_t)c->ibv.cqe && !c->overrun;
	if (room) {
		struct wv_cqe *e = &c->ring[c->tail & c->mask];

		e->wc = *wc;
		e->time_ns = c->timed ? wv_now_ns() : 0;
		c->tail++;
	} else {
		solicited = true;
	}
	if (c->armed == WV_ARM_ANY || (c->armed == WV_ARM_SOLICITED && solicited)) {
		c->armed = WV_ARM_NONE;
		fire = c->ibv.channel != NULL;
	}
	pthread_spin_unlock(&c->lock);
	if (fire)
		wv_channel_fire(c);
	if (!room && !c->overrun) {
		c->overrun = true;
		wv_async_cq(c, IBV_EVENT_CQ_ERR);
	}
	return room;
}

void
wv_cq_put_flushed(struct wv_cq *c, uint64_t wr_id, enum ibv_wc_opcode opcode, uint32_t qp_num)
{
	const struct ibv_wc wc = {
	        .wr_id = wr_id, .status = IBV_WC_WR_FLUSH_ERR, .opcode = opcode, .qp_num = qp_num};

	(void)wv_cq_put(c, &wc, true);
}

bool
wv_cq_take(struct wv_cq *c, struct wv_cqe *out)
{
	bool found;

	pthread_spin_lock(&c->lock);
	found = c->head != c->tail;
	if (found) {
		*out = c->ring[c->head & c->mask];
		c->head++;
	}
	pthread_spin_unlock(&c->lock);
	return found;
}

static int
cq_take_many(struct wv_cq *c, int n, struct ibv_wc *wc)
{
	uint32_t head = atomic_load_explicit(&c->head, memory_order_relaxed);
	int i = 0;

	if (atomic_load_explicit(&c->tail, memory_order_relaxed) == head) {
		wv_channel_saw_empty(c, head);
		return 0;
	}
	pthread_spin_lock(&c->lock);
	for (; i < n && c->head != c->tail; i++, c->head++)
		wc[i] = c->ring[c->head & c->mask].wc;
	head = c->head;
	pthread_spin_unlock(&c->lock);
	if (i > 0)
		wv_channel_took(c);
	else /* another thread was faster */
		wv_channel_saw_empty(c, head);
	return i;
}

int
wv_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct wv_cq *c = wv_cq(cq);
	int got = cq_take_many(c, n, wc);

	if (got == 0 && n > 0) {
		wv_progress();
		got = cq_take_many(c, n, wc);
	}
	return got;
}

int
wv_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	struct wv_cq *c = wv_cq(cq);
	enum wv_arm want = solicited_only ? WV_ARM_SOLICITED : WV_ARM_ANY;

	pthread_spin_lock(&c->lock);
	if (c->armed < want)
		c->armed = want;
	pthread_spin_unlock(&c->lock);
	return 0;
}

uint32_t
wv_cq_upto(struct wv_cq *c, uint32_t qp_num)
{
	uint32_t upto;

	pthread_spin_lock(&c->lock);
	upto = c->head;
	for (uint32_t at = c->head; at != c->tail; at++) {
		const struct ibv_wc *wc = &c->ring[at & c->mask].wc;

		if (wc->qp_num == qp_num && wc->status == IBV_WC_SUCCESS)
			upto = at + 1;
	}
	pthread_spin_unlock(&c->lock);
	return upto;
}

bool
wv_cq_before(struct wv_cq *c, uint32_t upto)
{
	/* wv_cq_clean() for another QP shortens the queue: empty is enough. */
	return wv_cq_unread(c) != 0 &&
	       (int32_t)(upto - atomic_load_explicit(&c->head, memory_order_relaxed)) > 0;
}

void
wv_cq_clean(struct wv_cq *c, uint32_t qp_num)
{
	uint32_t to;

	pthread_spin_lock(&c->lock);
	to = c->head;
	for (uint32_t at = c->head; at != c->tail; at++)
		if (c->ring[at & c->mask].wc.qp_num != qp_num)
			c->ring[to++ & c->mask] = c->ring[at & c->mask];
	c->tail = to;
	pthread_spin_unlock(&c->lock);
}
