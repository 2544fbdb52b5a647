/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Atomic Operations (RFC 7306 s5) of the responder and the requester.
 *
 * They share the inbound request queue, its order, IRD and ORD with Reads (s5.2). The responder
 * executes an operation once, in its turn. The response waits in the queue's entry for space.
 */

#include "rdmap_atomic.h"
#include "rdmap_irq_rx.h"
#include "rdmap_state.h"
#include "rdmap_term.h"
#include "rdmap_wire.h"
#include "weft_mem_place.h"

/* ---- Responder ---- */

int
rdmap_rx_atomic_req(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term)
{
	struct rdmap_irq_ent *e;
	struct rdmap_atomic_req q;
	int rc;

	e = rdmap_irq_slot(r, m->op, term, &rc);
	if (e == NULL)
		return rc;
	rdmap_atomic_req_decode(m->data, m->len_bytes, &q);
	e->stag = q.stag;
	e->to = q.to;
	e->len_bytes = sizeof(uint64_t);
	e->flags = q.id;
	e->atomic = (struct weft_rdmap_atomic){
	        .aop = q.aop, .data = q.data, .mask = q.mask, .cmp = q.cmp, .cmp_mask = q.cmp_mask};
	/* s5.2.1 rule 4; s1.1 names the error for an operation that is not supported */
	if (q.aop != WEFT_RDMAP_FETCH_ADD && q.aop != WEFT_RDMAP_CMP_SWAP)
		rc = rdmap_irq_refuse(term, WEFT_TERM_OP_OPCODE);
	else
		rc = rdmap_irq_check(r, e, WEFT_ACCESS_REMOTE_ATOMIC, term);
	return rdmap_irq_admit(r, m, e, rc, term);
}

void
rdmap_exec_atomic(struct rdmap_irq_ent *e)
{
	const struct weft_rdmap_atomic *a = &e->atomic;
	struct rdmap_atomic_resp resp = {.id = e->flags};

	if (a->aop == WEFT_RDMAP_FETCH_ADD)
		resp.orig = weft_mem_fetch_add(e->mr, e->to, a->data, a->mask);
	else
		resp.orig = weft_mem_cmp_swap(e->mr, e->to, a->cmp, a->cmp_mask, a->data, a->mask);
	e->hash_bytes = (uint8_t)rdmap_atomic_resp_encode(&resp, e->hash);
}

/* ---- Requester ---- */

unsigned int
rdmap_atomic_payload(const struct weft_rdmap *r, const struct weft_rdmap_req *req, uint8_t *buf)
{
	const struct weft_rdmap_atomic *a = &req->atomic;
	bool add = a->aop == WEFT_RDMAP_FETCH_ADD;
	/* The identifier is the request's MSN, so it need not be stored to check the response. */
	struct rdmap_atomic_req q = {.aop = a->aop,
	                             .id = r->ddp.tx_msn[WEFT_DDP_QN_READ],
	                             .stag = req->stag,
	                             .to = req->to,
	                             .data = a->data,
	                             .mask = a->mask,
	                             .cmp = add ? 0 : a->cmp,
	                             .cmp_mask = add ? UINT64_MAX : a->cmp_mask};

	return rdmap_atomic_req_encode(&q, buf);
}

/*
 * Responses arrive in the order of the requests (s5.4 rule 8; s7 for Reads among them), so this one
 * answers the oldest request. A response with another identifier is invalid (s5.2.2 rule 7).
 */
int
rdmap_rx_atomic_resp(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term)
{
	struct weft_rdmap_req *req = TAILQ_FIRST(&r->out);
	struct rdmap_atomic_resp q;

	if (req == NULL) { /* no request is outstanding, so QN 3 has no buffer */
		RDMAP_FAULT(r, responses_unasked);
		return weft_fault(term, WEFT_TERM_LAYER_DDP, WEFT_TERM_DDP_UNTAGGED,
		                  WEFT_TERM_UNT_NO_BUFFER);
	}
	if (req->op != WEFT_RDMAP_ATOMIC_REQ) {
		RDMAP_FAULT(r, responses_wrong);
		return rdmap_unexpected(term);
	}
	rdmap_atomic_resp_decode(m->data, m->len_bytes, &q);
	/* MSNs of QN 1 are consecutive; the outstanding requests have the last n_out of them */
	if (q.id != r->ddp.tx_msn[WEFT_DDP_QN_READ] - r->n_out) {
		RDMAP_FAULT(r, responses_wrong);
		return weft_fault(term, WEFT_TERM_LAYER_RDMA, WEFT_TERM_RDMA_OPERATION,
		                  WEFT_TERM_OP_UNSPECIFIED);
	}
	req->atomic.orig = q.orig;
	rdmap_answered(r, WEFT_RDMAP_OK);
	return 0;
}
