/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Memory windows of both types. */

#include "mem.h"

#include "engine.h"
#include "post.h"
#include "qp.h"

#include <errno.h>
#include <stdlib.h>

struct ibv_mw *
wv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct wv_mw *m = NULL;
	int rc = -EINVAL;

	if (wv_engine_orphan()) {
		rc = -EPERM;
	} else if (type == IBV_MW_TYPE_1 || type == IBV_MW_TYPE_2) {
		m = calloc(1, sizeof(*m));
		rc = -ENOMEM;
	}
	if (m != NULL) {
		wv_lock();
		rc = weft_mw_alloc(wv_pd(pd)->pd, &m->mw);
		wv_unlock();
	}
	if (rc < 0) {
		free(m);
		errno = rc == -ENOSPC ? ENOMEM : -rc;
		return NULL;
	}
	m->ibv.context = pd->context;
	m->ibv.pd = pd;
	m->ibv.type = type;
	/* Where the program begins to count keys says nothing about another window. */
	m->ibv.rkey = weft_mw_keyed_stag(m->mw, (uint8_t)weft_mw_next_stag(m->mw));
	return &m->ibv;
}

int
wv_dealloc_mw(struct ibv_mw *mw)
{
	if (wv_engine_orphan())
		return 0;
	wv_lock();
	weft_mw_dealloc(wv_mw(mw)->mw);
	wv_unlock();
	free(mw);
	return 0;
}

int
wv_mw_fill(struct weft_wr *wr, struct ibv_mw *mw, const struct ibv_mw_bind_info *info,
           const uint32_t *rkey)
{
	struct wv_mw *m = wv_mw(mw);
	int rc;

	if (info->mr == NULL ||
	    (rkey != NULL && *rkey != weft_mw_keyed_stag(m->mw, (uint8_t)*rkey)))
		return -EINVAL;
	wr->opcode = WEFT_WR_BIND_MW;
	wr->sg_list = NULL;
	wr->num_sge = 0;
	wr->bind_mw.mw = m->mw;
	wr->bind_mw.stag = rkey != NULL ? *rkey : 0;
	wr->bind_mw.mr = wv_mr(info->mr)->mr;
	/* Its address is in the region's space of tagged offsets. */
	wr->bind_mw.addr = (char *)info->mr->addr +
	                   (info->addr - ((wv_mr(info->mr)->access & IBV_ACCESS_ZERO_BASED) != 0
	                                          ? 0
	                                          : wv_mr(info->mr)->iova));
	wr->bind_mw.len_bytes = info->length;
	wr->bind_mw.base_to = (info->mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : info->addr;
	rc = wv_access(info->mw_access_flags | IBV_ACCESS_LOCAL_WRITE, &wr->bind_mw.access);
	wr->bind_mw.access &= ~(uint32_t)(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_MW_BIND);
	return rc;
}

void
wv_mw_posted(struct ibv_mw *mw)
{
	struct wv_mw *m = wv_mw(mw);

	mw->rkey = weft_mw_stag(m->mw);
}

int
wv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct wv_qp *q = wv_qp(qp);
	struct weft_wr wr = {.wr_id = bind->wr_id};
	struct wv_mw *m = wv_mw(mw);
	struct weft_mw_info info;
	int rc = 0, n;

	if (mw->type != IBV_MW_TYPE_1)
		return EINVAL;
	if (wv_engine_orphan())
		return EPERM;
	wv_lock();
	weft_mw_query(m->mw, &info);
	/* A window of type 1 may be bound again, and is unbound by a length of 0. */
	if (info.valid) {
		const struct weft_wr inv = {
		        .opcode = WEFT_WR_LOCAL_INV,
		        .wr_id = bind->wr_id,
		        .flags = bind->bind_info.length == 0 &&
		                                 (bind->send_flags & IBV_SEND_SIGNALED) != 0
		                         ? WEFT_WR_SIGNALED
		                         : 0,
		        .local_inv = {.stag = info.stag}};

		n = weft_post_send(q->qp, &inv, 1);
		rc = n < 0 ? n : 0;
	}
	if (rc == 0 && bind->bind_info.length != 0) {
		wr.flags = wv_post_flags(bind->send_flags);
		rc = wv_mw_fill(&wr, mw, &bind->bind_info, NULL);
		if (rc == 0) {
			n = weft_post_send(q->qp, &wr, 1);
			rc = n < 0 ? n : 0;
		}
		if (rc == 0)
			wv_mw_posted(mw);
	}
	wv_posted();
	wv_unlock();
	return rc == -EAGAIN ? ENOMEM : -rc;
}
