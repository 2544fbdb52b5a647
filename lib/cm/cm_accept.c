/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The consumer's answer to a connection request: accept and reject. */

#include "cm_listen.h"

/** RFC 6581 s9.1: negotiation by the responder. */
static void
cm_negotiate(const struct weft_mpa_frame *q, const struct weft_mpa_policy *mp,
             const struct weft_qp *qp, uint16_t *ird, uint16_t *ord)
{
	bool rtr_read = q->rtr_read && (mp->rtr == 0 || (mp->rtr & WEFT_RTR_READ) != 0);

	*ird = qp->ird;
	*ord = qp->ord;
	if (!q->enhanced)
		return;
	/* "The responder MUST set its ORD at most to the initiator IRD." */
	if (q->ird != WEFT_MPA_IRD_ORD_NONE)
		*ord = RTE_MIN(*ord, q->ird);
	/*
	 * A depth above the initiator's ORD is of no use, but a Read as RTR needs a depth of one.
	 */
	if (q->ord != WEFT_MPA_IRD_ORD_NONE)
		*ird = RTE_MIN(*ird, q->ord == 0 && rtr_read ? (uint16_t)1 : q->ord);
}

/**
 * On the worker: execute the consumer's acceptance. r is PENDING, or can no longer be answered. r
 * is gone afterwards.
 */
static void
cm_accept(struct weft_connreq *r)
{
	struct weft_qp *qp = r->qp;
	struct weft_mpa_opts opts = cm_attr_mpa_opts(&r->policy);
	struct weft_cm_conn *c;
	struct weft_ddp *ddp;
	uint16_t ird, ord;
	int rc;

	if (cm_req_state(r) != REQ_PENDING || qp->dead || verbs_cm_get(qp) != CM_CONNECTING) {
		if (!qp->dead && verbs_cm_get(qp) == CM_CONNECTING)
			cm_conn_fail(qp, -ECONNABORTED);
		if (cm_req_state(r) == REQ_PENDING) {
			r->private_data_bytes = 0;
			cm_req_refuse(r);
		} else {
			cm_req_returned(r);
		}
		return;
	}
	cm_negotiate(&r->req, &r->policy, qp, &ird, &ord);
	ddp = weft_rdmap_ddp(qp->rdmap);
	c = qp->conn;
	weft_mpa_move(ddp->mpa, &r->mpa, &weft_ddp_mpa_ops, ddp);
	r->has_mpa = false;
	c->tcp = r->conn;
	c->may_go = r->lsn->l->push_out;
	cm_peer_enter(r->peer, c);
	cm_push_enter(c);
	cm_conn_keepalive(c, r->keepalive_us != 0 ? r->keepalive_us : r->lsn->l->keepalive_us);
	if (r->dscp != WEFT_TCP_DSCP_PORT)
		weft_tcp_set_dscp(c->tcp, r->dscp);
	weft_mpa_set_opts(ddp->mpa, &opts);
	rc = weft_mpa_accept(ddp->mpa, ird, ord, r->private_data, r->private_data_bytes,
	                     r->vw->sched.now_ns);
	if (rc < 0) {
		cm_conn_fail(qp, rc);
	} else {
		struct weft_mpa_frame peer = r->req;

		peer.pdata_len_bytes = 0; /* the consumer got the private data with the request */
		cm_conn_up(qp, ird, ord, &peer);
	}
	cm_req_end(r);
}

static void
cm_answer(struct weft_connreq *r)
{
	if (r->qp != NULL)
		cm_accept(r);
	else
		cm_req_drop(r);
}

static void
cm_answer_run(struct weft_work_item *m)
{
	struct weft_connreq *r = container_of(m, struct weft_connreq, answer);
	struct weft_qp *qp = r->qp;

	cm_answer(r);
	if (qp != NULL)
		weft_verbs_qp_unref(qp);
}

/** Pass the answer to the worker. The consumer's handle ends here. */
static void
cm_give_answer(struct weft_connreq *r)
{
	weft_handle_end(&r->h, WEFT_KIND(CONNREQ));
	if (weft_vworker_is_mine(r->vw)) {
		cm_answer(r);
		return;
	}
	if (r->qp != NULL)
		weft_verbs_qp_ref(r->qp);
	r->answer.fn = cm_answer_run;
	weft_work_send(&r->vw->work, &r->answer);
}

/** The consumer, which has claimed the request, rejects it. */
static void
cm_reject(struct weft_connreq *r, const void *private_data, uint16_t private_data_bytes)
{
	uint16_t room = r->req.enhanced ? WEFT_MAX_PRIVATE_DATA : WEFT_MPA_MAX_PDATA;

	r->qp = NULL;
	r->private_data_bytes = private_data != NULL ? RTE_MIN(private_data_bytes, room) : 0;
	if (r->private_data_bytes > 0)
		memcpy(r->private_data, private_data, r->private_data_bytes);
	cm_give_answer(r);
}

int
weft_accept(struct weft_connreq *r, struct weft_qp *qp, const struct weft_conn_attr *attr)
{
	struct weft_conn_attr a = {0};
	struct weft_mpa_policy mp;
	uint32_t idle = CM_IDLE;
	uint16_t ird, ord;
	int rc = -EINVAL, dscp;

	if (WEFT_HANDLE_CLAIM(r, CONNREQ) < 0)
		return -EINVAL;
	if (attr != NULL && weft_attr_copy(&a, sizeof(a), attr) < 0)
		goto reject;
	if (weft_cm_mpa_policy(a.mpa, &r->lsn->l->mpa, &mp) < 0 || !cm_attr_dscp(a.dscp, &dscp))
		goto reject;
	if (WEFT_HANDLE_BAD(qp, QP) || qp->vw != r->vw ||
	    (a.private_data == NULL && a.private_data_bytes > 0) ||
	    a.private_data_bytes > (r->req.enhanced ? WEFT_MAX_PRIVATE_DATA : WEFT_MPA_MAX_PDATA))
		goto reject;
	ird = qp->ird;
	ord = qp->ord;
	if (!cm_attr_depth(a.ird, &ird) || !cm_attr_depth(a.ord, &ord))
		goto reject;
	if (atomic_load_explicit(&r->state, memory_order_acquire) == REQ_DEAD) {
		rc = -ECONNABORTED;
		goto reject;
	}
	if (!atomic_compare_exchange_strong_explicit(&qp->cm, &idle, CM_CONNECTING,
	                                             memory_order_acq_rel, memory_order_relaxed))
		goto reject;
	qp->ird = ird;
	qp->ord = ord;
	r->qp = qp;
	r->policy = mp;
	r->keepalive_us = a.keepalive_us;
	r->dscp = dscp;
	r->private_data_bytes = a.private_data_bytes;
	if (a.private_data_bytes > 0)
		memcpy(r->private_data, a.private_data, a.private_data_bytes);
	cm_give_answer(r);
	return 0;
reject:
	cm_reject(r, NULL, 0);
	return rc;
}

void
weft_reject_depths(struct weft_connreq *r, uint16_t ird, uint16_t ord, const void *private_data,
                   uint16_t private_data_bytes)
{
	const uint16_t max = WEFT_MPA_IRD_ORD_NONE - 1;

	if (WEFT_HANDLE_CLAIM(r, CONNREQ) < 0)
		return;
	r->ird = RTE_MIN(ird, max);
	r->ord = RTE_MIN(ord, max);
	cm_reject(r, private_data, private_data_bytes);
}

void
weft_reject(struct weft_connreq *r, const void *private_data, uint16_t private_data_bytes)
{
	if (WEFT_HANDLE_CLAIM(r, CONNREQ) == 0)
		cm_reject(r, private_data, private_data_bytes);
}

struct weft_worker *
weft_connreq_worker(const struct weft_connreq *r)
{
	if (WEFT_HANDLE_BAD(r, CONNREQ))
		return NULL;
	return (struct weft_worker *)r->vw;
}
