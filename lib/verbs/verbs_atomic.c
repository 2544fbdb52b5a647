/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Work requests of RFC 7306: Atomic Operations and Immediate Data. */

#include "verbs_wr.h"
#include "weft_verbs_mr.h"
#include "weft_medium.h"

int
weft_verbs_fill_atomic(struct verbs_sqe *s, const struct weft_wr *wr)
{
	bool add = wr->opcode == WEFT_WR_FETCH_ADD || wr->opcode == WEFT_WR_MASKED_FETCH_ADD;
	bool masked =
	        wr->opcode == WEFT_WR_MASKED_FETCH_ADD || wr->opcode == WEFT_WR_MASKED_CMP_SWAP;
	uint32_t len_bytes;

	if (wr->num_sge > 1 ||
	    verbs_sges(s->req.sge, wr->sg_list, wr->num_sge, &len_bytes, &s->keyed) < 0)
		return -EINVAL;
	if (wr->num_sge == 1) {
		if (len_bytes != sizeof(uint64_t))
			return -EINVAL;
		s->req.nsge = 1;
		s->result = s->req.sge[0].addr;
	}
	s->req.stag = wr->atomic.stag;
	s->req.to = wr->atomic.to;
	s->req.len_bytes = sizeof(uint64_t);
	/* Masks without effect: no field boundary (s5.1.1), all bits (s5.1.2). */
	s->req.atomic = (struct weft_rdmap_atomic){
	        .aop = add ? WEFT_RDMAP_FETCH_ADD : WEFT_RDMAP_CMP_SWAP,
	        .data = wr->atomic.data,
	        .mask = add ? 0 : UINT64_MAX,
	        .cmp = wr->atomic.compare,
	        .cmp_mask = UINT64_MAX,
	};
	if (masked) {
		s->req.atomic.mask = wr->atomic.mask;
		s->req.atomic.cmp_mask = wr->atomic.compare_mask;
	}
	return 0;
}

void
weft_verbs_atomic_done(struct weft_qp *qp, struct verbs_sqe *s)
{
	/*
	 * The region may be gone since the post. The atomic was executed at the peer all the same.
	 */
	bool ok =
	        likely(!s->keyed) || weft_verbs_lkeys_ok(qp->vw->ctx->mem, &qp->pd->mem, s->req.sge,
	                                                 s->req.nsge, WEFT_ACCESS_LOCAL_WRITE);

	if (likely(ok)) {
		memcpy(s->result, &s->req.atomic.orig, sizeof(s->req.atomic.orig));
		weft_medium_mark_at(s->result, sizeof(s->req.atomic.orig));
		ok = !weft_medium_lost_at(s->result, sizeof(s->req.atomic.orig));
	}
	if (unlikely(!ok)) {
		s->status = WEFT_WC_LOCAL_PROT;
		weft_verbs_qp_abort_later(qp);
	}
}

int
weft_verbs_fill_imm(const struct weft_qp *qp, struct verbs_sqe *s, const struct weft_wr *wr)
{
	struct weft_rdmap_req *req = &s->req;

	if (wr->opcode == WEFT_WR_IMM) {
		if (wr->num_sge != 0)
			return -EINVAL;
		req->len_bytes = WEFT_RDMAP_IMM_BYTES;
		memcpy(req->imm, wr->imm.data, WEFT_RDMAP_IMM_BYTES);
		return 0;
	}
	req->imm_op = req->op;
	req->op = WEFT_RDMAP_WRITE;
	req->stag = wr->write_imm.stag;
	req->to = wr->write_imm.to;
	memcpy(req->imm, wr->write_imm.data, WEFT_RDMAP_IMM_BYTES);
	return verbs_gather(qp, s, wr);
}
