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
 * A bind or an invalidation that ibv_bind_mw() has posted: its wr_id is the address of this. It
 * always completes, here; what the program sees of it is the bind or the unbind that it asked for.
 */
struct wv_mw_req {
	LIST_ENTRY(wv_mw_req) link;
	uint64_t wr_id;
	struct wv_mw *mw; /**< NULL: it is given up */
	bool hidden;      /**< an invalidation that a bind follows */
	bool signaled;
};

static void
mw_req_end(struct wv_mw_req *r)
{
	if (r->mw != NULL)
		r->mw->queued--;
	LIST_REMOVE(r, link);
	free(r);
}

bool
wv_mw_done(struct wv_qp *q, struct ibv_wc *wc)
{
	struct wv_mw_req *r;
	bool told;

	LIST_FOREACH (r, &q->mw_reqs, link)
		if ((uintptr_t)r == wc->wr_id)
			break;
	if (r == NULL)
		return true;
	/* The bind behind a hidden one completes by itself, also as flushed. */
	told = !r->hidden && (r->signaled || wc->status != IBV_WC_SUCCESS);
	wc->wr_id = r->wr_id;
	wc->opcode = IBV_WC_BIND_MW;
	mw_req_end(r);
	return told;
}

void
wv_mw_forget(struct wv_qp *q)
{
	struct wv_mw_req *r;

	while ((r = LIST_FIRST(&q->mw_reqs)) != NULL)
		mw_req_end(r);
}

/** The window is given up: no request of this queue pair names it any more. */
static void
mw_give_up(struct wv_qp *q, void *mw)
{
	struct wv_mw_req *r;

	LIST_FOREACH (r, &q->mw_reqs, link)
		if (r->mw == mw)
			r->mw = NULL;
}

int
wv_dealloc_mw(struct ibv_mw *mw)
{
	if (wv_engine_orphan())
		return 0;
	wv_lock();
	if (wv_mw(mw)->queued > 0)
		wv_qp_each(mw_give_up, mw);
	weft_mw_dealloc(wv_mw(mw)->mw);
	wv_unlock();
	free(mw);
	return 0;
}

static int
mw_post(struct wv_qp *q, struct wv_mw *m, struct weft_wr *wr, const struct ibv_mw_bind *bind,
        bool hidden)
{
	struct wv_mw_req *r = malloc(sizeof(*r));
	int n;

	if (r == NULL)
		return -ENOMEM;
	*r = (struct wv_mw_req){.wr_id = bind->wr_id,
	                        .mw = m,
	                        .hidden = hidden,
	                        .signaled =
	                                q->sig_all || (bind->send_flags & IBV_SEND_SIGNALED) != 0};
	wr->wr_id = (uintptr_t)r;
	wr->flags = wv_post_flags(bind->send_flags) | WEFT_WR_SIGNALED;
	n = weft_post_send(q->qp, wr, 1);
	if (n < 0) {
		free(r);
		return n;
	}
	LIST_INSERT_HEAD(&q->mw_reqs, r, link);
	m->queued++;
	m->bound = wr->opcode == WEFT_WR_BIND_MW;
	return 0;
}

/** Whether weft_post_send() would take the bind: after the invalidation it is too late. */
static bool
mw_bindable(const struct wv_qp *q, const struct wv_mw *m, const struct weft_wr *wr,
            const struct ibv_mw_bind_info *info)
{
	const uint64_t last = wr->bind_mw.len_bytes - 1;

	return info->mr->pd == q->ibv.pd && m->ibv.pd == q->ibv.pd && wr->bind_mw.addr != NULL &&
	       last <= UINT64_MAX - wr->bind_mw.base_to &&
	       last <= UINTPTR_MAX - (uintptr_t)wr->bind_mw.addr;
}

/** A window that is bound is bound again by an invalidation and a bind: both, or none. */
static int
mw_bind(struct wv_qp *q, struct wv_mw *m, const struct ibv_mw_bind *bind)
{
	const bool unbind = bind->bind_info.length == 0;
	struct weft_wr wr = {0}, inv = {.opcode = WEFT_WR_LOCAL_INV};
	struct weft_mw_info info;
	struct weft_qp_info qi;
	bool bound;
	int rc;

	weft_mw_query(m->mw, &info);
	/* When this request is executed, those before it have been. */
	bound = m->queued > 0 ? m->bound : info.valid;
	inv.local_inv.stag = m->queued > 0 ? weft_mw_stag(m->mw) : info.stag;
	if (unbind)
		return bound ? mw_post(q, m, &inv, bind, false) : -EINVAL;
	rc = wv_mw_fill(&wr, &m->ibv, &bind->bind_info, NULL);
	if (rc == 0 && !mw_bindable(q, m, &wr, &bind->bind_info))
		rc = -EINVAL;
	if (rc < 0)
		return rc;
	weft_qp_query(q->qp, &qi);
	if (qi.sq_depth - qi.sq_used < (bound ? 2u : 1u))
		return -ENOMEM;
	if (bound)
		rc = mw_post(q, m, &inv, bind, true);
	if (rc == 0)
		rc = mw_post(q, m, &wr, bind, false);
	if (rc == 0)
		wv_mw_posted(&m->ibv);
	return rc;
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
		rc = mw_bind(q, wv_mw(mw), bind);
	wv_posted();
	wv_unlock();
	return rc == -EAGAIN ? ENOMEM : rc == -ENOTCONN ? EINVAL : -rc;
}
