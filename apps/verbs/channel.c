/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Completion channels. */

#include "api.h"
#include "async.h"
#include "cq.h"
#include "engine.h"

#include <errno.h>
#include <stdlib.h>

WV_API struct ibv_comp_channel *
ibv_create_comp_channel(struct ibv_context *context)
{
	struct wv_channel *ch = calloc(1, sizeof(*ch));
	int rc = ch == NULL ? -ENOMEM : wv_fdq_init(&ch->q);

	if (rc < 0) {
		free(ch);
		errno = -rc;
		return NULL;
	}
	ch->ibv.context = context;
	ch->ibv.fd = ch->q.fd;
	return &ch->ibv;
}

WV_API int
ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct wv_channel *ch = (struct wv_channel *)(void *)channel;
	int refs;

	pthread_mutex_lock(&channel->context->mutex);
	refs = channel->refcnt;
	pthread_mutex_unlock(&channel->context->mutex);
	if (refs != 0)
		return EBUSY;
	wv_fdq_fini(&ch->q);
	free(ch);
	return 0;
}

void
wv_channel_fire(struct wv_cq *c)
{
	struct wv_channel *ch = (struct wv_channel *)(void *)c->ibv.channel;

	wv_fdq_put_again(&ch->q, &c->node, &c->more);
}

WV_API int
ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct wv_channel *ch = (struct wv_channel *)(void *)channel;
	struct wv_fdq_node *n;
	struct wv_cq *c;
	int rc = wv_fdq_wait(&ch->q, &n);

	if (rc < 0) {
		errno = -rc;
		return -1;
	}
	c = wv_container_of(n, struct wv_cq, node);
	pthread_mutex_lock(&c->ibv.mutex);
	c->comp_reported++;
	pthread_mutex_unlock(&c->ibv.mutex);
	*cq = &c->ibv;
	*cq_context = c->ibv.cq_context;
	/* An event that came meanwhile. */
	wv_channel_again(c);
	return 0;
}

void
wv_channel_again(struct wv_cq *c)
{
	struct wv_channel *ch = (struct wv_channel *)(void *)c->ibv.channel;

	wv_fdq_requeue(&ch->q, &c->node, &c->more);
}

WV_API void
ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += n;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}
