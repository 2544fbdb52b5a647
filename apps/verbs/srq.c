/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Shared receive queues. */

#include "srq.h"

#include "api.h"
#include "async.h"
#include "device.h"
#include "engine.h"
#include "mem.h"
#include "post.h"

#include <errno.h>
#include <stdlib.h>

/** Weft's queue keeps its depth, so it is made deeper than asked for, for ibv_modify_srq(). */
#define SRQ_ROOM 4
#define SRQ_MIN  256

static struct ibv_srq *
srq_new(struct ibv_pd *pd, void *user, struct ibv_srq_attr *attr)
{
	struct weft_srq_attr a = {.size = sizeof(a), .evq = wv_engine.evq};
	struct wv_srq *s;
	int rc = -EPERM;

	if (wv_engine_orphan())
		goto fail;
	rc = -EINVAL;
	if (attr->max_wr == 0 || attr->max_wr > WV_MAX_SRQ_WR || attr->max_sge > WEFT_MAX_SGE)
		goto fail;
	rc = -ENOMEM;
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		goto fail;
	if (attr->max_sge == 0)
		attr->max_sge = 1;
	s->max_wr = attr->max_wr;
	s->max_sge = attr->max_sge;
	s->depth = attr->max_wr * SRQ_ROOM;
	if (s->depth < SRQ_MIN)
		s->depth = SRQ_MIN;
	if (s->depth > WV_MAX_SRQ_WR)
		s->depth = WV_MAX_SRQ_WR;
	a.depth = s->depth;
	a.max_sge = s->max_sge;
	a.user = s;
	wv_lock();
	rc = weft_srq_create(wv_pd(pd)->pd, &a, &s->srq);
	wv_unlock();
	if (rc < 0) {
		free(s);
		goto fail;
	}
	s->ibv.context = pd->context;
	wv_context_hold(pd->context);
	s->ibv.srq_context = user;
	s->ibv.pd = pd;
	pthread_mutex_init(&s->ibv.mutex, NULL);
	pthread_cond_init(&s->ibv.cond, NULL);
	return &s->ibv;
fail:
	errno = -rc;
	return NULL;
}

WV_API struct ibv_srq *
ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	return srq_new(pd, attr->srq_context, &attr->attr);
}

struct ibv_srq *
wv_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	(void)context;
	if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 && attr->srq_type != IBV_SRQT_BASIC) {
		errno = EOPNOTSUPP; /* XRC, tag matching */
		return NULL;
	}
	if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attr->pd == NULL) {
		errno = EINVAL;
		return NULL;
	}
	return srq_new(attr->pd, attr->srq_context, &attr->attr);
}

int
wv_get_srq_num(struct ibv_srq *srq, uint32_t *num)
{
	(void)srq;
	(void)num;
	return EOPNOTSUPP; /* of XRC alone */
}

WV_API int
ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	struct wv_srq *s = wv_srq(srq);
	struct weft_srq_info info;
	int rc = 0;

	if (wv_engine_orphan())
		return EPERM;
	if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0)
		return EINVAL;
	wv_lock();
	weft_srq_query(s->srq, &info);
	if ((mask & IBV_SRQ_MAX_WR) != 0 && (attr->max_wr == 0 || attr->max_wr < info.used))
		rc = -EINVAL;
	else if ((mask & IBV_SRQ_MAX_WR) != 0 && attr->max_wr > s->depth)
		rc = -ENOMEM;
	if (rc == 0 && (mask & IBV_SRQ_LIMIT) != 0) {
		uint32_t max_wr = (mask & IBV_SRQ_MAX_WR) != 0 ? attr->max_wr : s->max_wr;

		rc = attr->srq_limit > max_wr ? -EINVAL : weft_srq_modify(s->srq, attr->srq_limit);
		rc = rc > 0 ? 0 : rc;
	}
	if (rc == 0 && (mask & IBV_SRQ_MAX_WR) != 0)
		s->max_wr = attr->max_wr;
	wv_unlock();
	return -rc;
}

WV_API int
ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	struct wv_srq *s = wv_srq(srq);
	struct weft_srq_info info = {0};

	wv_lock();
	if (!wv_engine_over())
		weft_srq_query(s->srq, &info);
	attr->max_wr = s->max_wr;
	attr->max_sge = s->max_sge;
	attr->srq_limit = info.limit;
	wv_unlock();
	return 0;
}

WV_API int
ibv_destroy_srq(struct ibv_srq *srq)
{
	struct wv_srq *s = wv_srq(srq);
	int rc;

	if (wv_engine_orphan())
		return 0;
	wv_lock();
	rc = s->users > 0 ? -EBUSY : weft_srq_destroy(s->srq);
	wv_unlock();
	if (rc < 0)
		return -rc;
	wv_async_forget(srq->context, NULL, NULL, srq);
	pthread_mutex_lock(&srq->mutex);
	while (srq->events_completed != s->async_reported)
		pthread_cond_wait(&srq->cond, &srq->mutex);
	pthread_mutex_unlock(&srq->mutex);
	pthread_mutex_destroy(&srq->mutex);
	pthread_cond_destroy(&srq->cond);
	wv_context_put(srq->context);
	free(s);
	return 0;
}

int
wv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct weft_recv_wr w[WV_POST_BURST];
	struct wv_srq *s = wv_srq(srq);
	int rc = 0;

	if (wv_engine_orphan()) {
		*bad = wr;
		return EPERM;
	}
	wv_lock();
	while (wr != NULL && rc == 0) {
		struct weft_srq_info info;
		unsigned int n;

		weft_srq_query(s->srq, &info);
		n = wv_post_recv_fill(wr, w, s->max_wr > info.used ? s->max_wr - info.used : 0);
		rc = n == 0 ? -EAGAIN : weft_post_srq_recv(s->srq, w, n);
		if (rc > 0) {
			for (; rc > 0; rc--)
				wr = wr->next;
		}
	}
	wv_unlock();
	if (rc < 0)
		*bad = wr;
	return rc == -EAGAIN ? ENOMEM : -rc;
}
