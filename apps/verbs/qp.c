/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Queue pairs: creation, destruction, and their connection's course. */

#include "qp.h"

#include "api.h"
#include "async.h"
#include "cq.h"
#include "device.h"
#include "engine.h"
#include "mem.h"
#include "post.h"
#include "srq.h"
#include "ucm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define QP_WCQ_MAX (1u << 20)

/** A new QP of weft for the same object. Under the engine's lock. */
static int
qp_renew(struct wv_qp *q)
{
	struct weft_cq_attr ca = {.size = sizeof(ca), .on_wc = wv_post_done, .user = q};
	struct weft_qp_attr a = {
	        .size = sizeof(a),
	        .worker = wv_engine.worker,
	        .evq = wv_engine.evq,
	        .sq_depth = q->cap.max_send_wr,
	        .rq_depth = q->cap.max_recv_wr,
	        .ird = WV_MAX_RD_ATOM,
	        .ord = WV_MAX_RD_ATOM,
	        .all_signaled = q->sig_all,
	        .user = q,
	        .max_sge = q->cap.max_recv_sge,
	        .max_send_sge = q->cap.max_send_sge,
	        .srq = q->srq != NULL ? q->srq->srq : NULL,
	        .max_inline_bytes = q->cap.max_inline_data,
	};
	int rc;

	/* All that can complete before the callback runs. */
	ca.depth = q->cap.max_send_wr + (q->srq != NULL ? q->srq->depth : q->cap.max_recv_wr) + 16;
	if (ca.depth > QP_WCQ_MAX)
		ca.depth = QP_WCQ_MAX;
	rc = weft_cq_create(wv_engine.ctx, &ca, &q->wcq);
	if (rc < 0)
		return rc;
	a.send_cq = a.recv_cq = q->wcq;
	rc = weft_qp_create(wv_pd(q->ibv.pd)->pd, &a, &q->qp);
	if (rc < 0) {
		(void)weft_cq_destroy(q->wcq);
		q->wcq = NULL;
		q->qp = NULL;
	}
	return rc;
}

/** In order, if it is in a connection: a program may end when its last Send has completed. */
static void
qp_release(struct wv_qp *q)
{
	wv_qp_leave(q);
	if (q->id != NULL)
		wv_ucm_qp_gone(q->id);
	q->up = q->busy = false;
	if (q->qp != NULL)
		weft_qp_destroy(q->qp);
	if (q->wcq != NULL)
		(void)weft_cq_destroy(q->wcq);
	wv_rq_forget(q);
	wv_mw_forget(q);
	q->qp = NULL;
	q->wcq = NULL;
}

/** What the QP is made of is in use, or no longer, by so many. Under the engine's lock. */
static void
qp_use(struct wv_qp *q, int by)
{
	q->scq->users += (uint32_t)by;
	q->rcq->users += (uint32_t)by;
	wv_pd(q->ibv.pd)->users += (uint32_t)by;
	if (q->srq != NULL)
		q->srq->users += (uint32_t)by;
}

/* ---- Creation ---- */

/** Whether all that a QP is made of belongs to the device of the context: a peer finds it at one
 * port. */
static bool
qp_of_one_device(const struct ibv_context *context, const struct ibv_qp_init_attr_ex *a)
{
	const unsigned int number = wv_context_number(context);

	return wv_context_number(a->pd->context) == number &&
	       wv_context_number(a->send_cq->context) == number &&
	       wv_context_number(a->recv_cq->context) == number &&
	       (a->srq == NULL || wv_context_number(a->srq->context) == number);
}

static bool
qp_type_exists(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
	case IBV_QPT_RAW_PACKET:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
	case IBV_QPT_DRIVER:
		return true;
	}
	return false;
}

static int
qp_check(const struct ibv_context *context, const struct ibv_qp_init_attr_ex *a)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
	                       IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

	if (!qp_type_exists(a->qp_type))
		return EINVAL;
	if (a->qp_type != IBV_QPT_RC || (a->comp_mask & ~known) != 0)
		return EOPNOTSUPP;
	if ((a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && a->create_flags != 0)
		return EOPNOTSUPP;
	if ((a->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || a->pd == NULL || a->send_cq == NULL ||
	    a->recv_cq == NULL || !qp_of_one_device(context, a))
		return EINVAL;
	if (a->cap.max_send_wr > WV_MAX_QP_WR || a->cap.max_recv_wr > WV_MAX_QP_WR ||
	    a->cap.max_send_sge > WEFT_MAX_SGE || a->cap.max_recv_sge > WEFT_MAX_SGE ||
	    a->cap.max_inline_data > WEFT_MAX_INLINE)
		return EINVAL;
	return 0;
}

static void
qp_cap(struct ibv_qp_cap *c, const struct ibv_qp_cap *want)
{
	*c = *want;
	if (c->max_send_wr == 0)
		c->max_send_wr = 1;
	if (c->max_recv_wr == 0)
		c->max_recv_wr = 1;
	if (c->max_send_sge == 0)
		c->max_send_sge = 1;
	if (c->max_recv_sge == 0)
		c->max_recv_sge = 1;
	if (c->max_inline_data < WV_MIN_INLINE)
		c->max_inline_data = WV_MIN_INLINE;
}

struct ibv_qp *
wv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct wv_qp *q;
	int rc = wv_engine_orphan() ? EPERM : qp_check(context, attr);

	if (rc != 0) {
		errno = rc;
		return NULL;
	}
	q = calloc(1, sizeof(*q));
	if (q == NULL)
		return NULL;
	qp_cap(&q->cap, &attr->cap);
	q->ibv.context = context;
	q->ibv.qp_context = attr->qp_context;
	q->ibv.pd = attr->pd;
	q->ibv.send_cq = attr->send_cq;
	q->ibv.recv_cq = attr->recv_cq;
	q->ibv.srq = attr->srq;
	q->ibv.qp_type = IBV_QPT_RC;
	q->ibv.state = IBV_QPS_RESET;
	q->scq = wv_cq(attr->send_cq);
	q->rcq = wv_cq(attr->recv_cq);
	q->srq = attr->srq != NULL ? wv_srq(attr->srq) : NULL;
	q->sig_all = attr->sq_sig_all != 0;
	q->max_ird = q->max_ord = WV_MAX_RD_ATOM;
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0)
		rc = wv_build_init(q, attr->send_ops_flags);
	if (rc == 0) {
		wv_lock();
		rc = qp_renew(q);
		if (rc == 0) {
			wv_qp_enlist(q);
			qp_use(q, 1);
		}
		wv_unlock();
	}
	if (rc != 0) {
		wv_build_fini(q);
		free(q);
		errno = rc == -ENOSPC ? ENOMEM : -rc;
		return NULL;
	}
	pthread_mutex_init(&q->ibv.mutex, NULL);
	pthread_cond_init(&q->ibv.cond, NULL);
	wv_context_hold(context);
	attr->cap = q->cap;
	return &q->ibv;
}

WV_API struct ibv_qp *
ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {
	        .qp_context = attr->qp_context,
	        .send_cq = attr->send_cq,
	        .recv_cq = attr->recv_cq,
	        .srq = attr->srq,
	        .cap = attr->cap,
	        .qp_type = attr->qp_type,
	        .sq_sig_all = attr->sq_sig_all,
	        .comp_mask = IBV_QP_INIT_ATTR_PD,
	        .pd = pd,
	};
	struct ibv_qp *qp = wv_create_qp_ex(pd->context, &ex);

	if (qp != NULL)
		attr->cap = ex.cap;
	return qp;
}

WV_API struct ibv_qp_ex *
ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return wv_qp(qp)->build.wr != NULL ? &wv_qp(qp)->ex : NULL;
}

WV_API int
ibv_destroy_qp(struct ibv_qp *qp)
{
	struct wv_qp *q = wv_qp(qp);

	if (wv_engine_orphan())
		return 0;
	wv_lock();
	qp_release(q);
	wv_qp_unlist(q);
	wv_cq_clean(q->scq, qp->qp_num);
	wv_cq_clean(q->rcq, qp->qp_num);
	qp_use(q, -1);
	wv_unlock();
	wv_async_forget(qp->context, NULL, qp, NULL);
	pthread_mutex_lock(&qp->mutex);
	while (qp->events_completed != q->async_reported)
		pthread_cond_wait(&qp->cond, &qp->mutex);
	pthread_mutex_unlock(&qp->mutex);
	pthread_mutex_destroy(&qp->mutex);
	pthread_cond_destroy(&qp->cond);
	wv_build_fini(q);
	wv_context_put(qp->context);
	free(q);
	return 0;
}

/* ---- States ---- */

static int
qp_reset(struct wv_qp *q)
{
	int rc;

	qp_release(q);
	wv_cq_clean(q->scq, q->ibv.qp_num);
	wv_cq_clean(q->rcq, q->ibv.qp_num);
	rc = qp_renew(q);
	q->ibv.state = rc == 0 ? IBV_QPS_RESET : IBV_QPS_ERR;
	return rc;
}

static int
qp_to(struct wv_qp *q, enum ibv_qp_state to)
{
	const enum ibv_qp_state from = q->ibv.state;

	switch (to) {
	case IBV_QPS_RESET:
		return qp_reset(q);
	case IBV_QPS_INIT:
		/* Programs take the steps of InfiniBand, some of them when they are connected. */
		if (q->busy)
			return 0;
		if (from != IBV_QPS_RESET && from != IBV_QPS_INIT)
			return -EINVAL;
		break;
	case IBV_QPS_RTR:
		if (q->busy)
			return 0;
		if (from != IBV_QPS_INIT && from != IBV_QPS_RTR)
			return -EINVAL;
		break;
	case IBV_QPS_RTS:
		/* A QP of iWARP gets there by its connection. */
		return from == IBV_QPS_RTS ? 0 : -EINVAL;
	case IBV_QPS_SQD:
		return wv_qp_close(q);
	case IBV_QPS_ERR:
		wv_qp_abort(q);
		return 0;
	default:
		return -EINVAL;
	}
	q->ibv.state = to;
	return 0;
}

WV_API int
ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct wv_qp *q = wv_qp(qp);
	int rc = 0;

	if (wv_engine_orphan())
		return EPERM;
	wv_lock();
	if ((mask & IBV_QP_CUR_STATE) != 0 && attr->cur_qp_state != qp->state)
		rc = -EINVAL;
	if (rc == 0 && (mask & IBV_QP_PORT) != 0 && attr->port_num != WV_PORT)
		rc = -EINVAL;
	if (rc == 0 &&
	    (((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0 && attr->max_rd_atomic > WV_MAX_RD_ATOM) ||
	     ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0 &&
	      attr->max_dest_rd_atomic > WV_MAX_RD_ATOM)))
		rc = -EINVAL;
	if (rc == 0 && (mask & IBV_QP_STATE) != 0)
		rc = qp_to(q, attr->qp_state);
	if (rc == 0) {
		if ((mask & IBV_QP_ACCESS_FLAGS) != 0)
			q->access = attr->qp_access_flags;
		if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0)
			q->max_ord = attr->max_rd_atomic;
		if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0)
			q->max_ird = attr->max_dest_rd_atomic;
	}
	wv_unlock();
	return -rc;
}

WV_API int
ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
             struct ibv_qp_init_attr *init_attr)
{
	struct wv_qp *q = wv_qp(qp);

	(void)mask;
	wv_lock();
	memset(attr, 0, sizeof(*attr));
	/* As the kernel's siw and irdma: a QP of iWARP that is in no connection is in INIT. */
	attr->qp_state = attr->cur_qp_state = qp->state == IBV_QPS_RESET ? IBV_QPS_INIT : qp->state;
	attr->path_mtu = IBV_MTU_1024;
	attr->qp_access_flags = q->access;
	attr->cap = q->cap;
	attr->max_rd_atomic = q->max_ord;
	attr->max_dest_rd_atomic = q->max_ird;
	attr->port_num = WV_PORT;
	wv_unlock();
	*init_attr = (struct ibv_qp_init_attr){
	        .qp_context = qp->qp_context,
	        .send_cq = qp->send_cq,
	        .recv_cq = qp->recv_cq,
	        .srq = qp->srq,
	        .cap = q->cap,
	        .qp_type = qp->qp_type,
	        .sq_sig_all = q->sig_all,
	};
	return 0;
}

WV_API int
ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp;
	(void)op;
	(void)flags;
	return 0;
}
