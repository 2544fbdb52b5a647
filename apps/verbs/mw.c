/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Memory windows of both types. */

#include "mem.h"

#include "cq.h"
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

/* ---- Binds of windows of type 1 ---- */

/**
 * An invalidation that ibv_bind_mw() has posted: its wr_id is the address of this. It always
 * completes, here; what the program sees of it is the bind or the unbind that it asked for.
 */
struct wv_mw_inv {
	LIST_ENTRY(wv_mw_inv) link;
	uint64_t wr_id;
	bool unbind, signaled;
};

bool
wv_mw_inv_done(struct wv_qp *q, struct ibv_wc *wc)
{
	struct wv_mw_inv *i;
	bool told;

	LIST_FOREACH (i, &q->invs, link)
		if ((uintptr_t)i == wc->wr_id)
			break;
	if (i == NULL)
		return true;
	/* The bind behind it completes by itself, also as flushed. */
	told = i->unbind && (i->signaled || wc->status != IBV_WC_SUCCESS);
	wc->wr_id = i->wr_id;
	wc->opcode = IBV_WC_BIND_MW;
	LIST_REMOVE(i, link);
	free(i);
	return told;
}

void
wv_mw_inv_forget(struct wv_qp *q)
{
	struct wv_mw_inv *i;

	while ((i = LIST_FIRST(&q->invs)) != NULL) {
		LIST_REMOVE(i, link);
		free(i);
	}
}

static int
mw_invalidate(struct wv_qp *q, uint32_t stag, const struct ibv_mw_bind *bind)
{
	struct weft_wr wr = {.opcode = WEFT_WR_LOCAL_INV,
	                     .flags = WEFT_WR_SIGNALED,
	                     .local_inv = {.stag = stag}};
	struct wv_mw_inv *i = malloc(sizeof(*i));
	int n;

	if (i == NULL)
		return -ENOMEM;
	i->wr_id = bind->wr_id;
	i->unbind = bind->bind_info.length == 0;
	i->signaled = q->sig_all || (bind->send_flags & IBV_SEND_SIGNALED) != 0;
	wr.wr_id = (uintptr_t)i;
	LIST_INSERT_HEAD(&q->invs, i, link);
	n = weft_post_send(q->qp, &wr, 1);
	if (n < 0) {
		LIST_REMOVE(i, link);
		free(i);
	}
	return n < 0 ? n : 0;
}

/** A window that is bound is bound again by an invalidation and a bind: both, or none. */
static int
mw_bind(struct wv_qp *q, struct ibv_mw *mw, const struct ibv_mw_bind *bind)
{
	const bool unbind = bind->bind_info.length == 0;
	struct weft_wr wr = {.wr_id = bind->wr_id, .flags = wv_post_flags(bind->send_flags)};
	struct weft_qp_info qi;
	struct weft_mw_info info;
	int rc = 0, n;

	weft_mw_query(wv_mw(mw)->mw, &info);
	if (unbind)
		return info.valid ? mw_invalidate(q, info.stag, bind) : -EINVAL;
	rc = wv_mw_fill(&wr, mw, &bind->bind_info, NULL);
	if (rc < 0)
		return rc;
	weft_qp_query(q->qp, &qi);
	if (qi.sq_depth - qi.sq_used < (info.valid ? 2u : 1u))
		return -ENOMEM;
	if (info.valid)
		rc = mw_invalidate(q, info.stag, bind);
	if (rc < 0)
		return rc;
	n = weft_post_send(q->qp, &wr, 1);
	if (n < 0)
		return n;
	wv_mw_posted(mw);
	return 0;
}

int
wv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct wv_qp *q = wv_qp(qp);
	int rc = 0;

	if (mw->type != IBV_MW_TYPE_1)
		return EINVAL;
	if (wv_engine_orphan())
		return EPERM;
	wv_lock();
	if (q->qp == NULL)
		wv_cq_put_flushed(q->scq, bind->wr_id, IBV_WC_BIND_MW, qp->qp_num);
	else
		rc = mw_bind(q, mw, bind);
	wv_posted();
	wv_unlock();
	return rc == -EAGAIN ? ENOMEM : rc == -ENOTCONN ? EINVAL : -rc;
}
