/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Local memory of work requests: lists of pieces, inline payloads, lkeys. */

#include "verbs_wr.h"
#include "weft_verbs_mr.h"
#include "weft_mem_find.h"

static inline uint8_t *
verbs_sqe_inline(const struct weft_qp *qp, struct verbs_sqe *s)
{
	return (uint8_t *)s + qp->sqe_bytes - RTE_ALIGN_CEIL(qp->max_inline_bytes, 8);
}

uint16_t
weft_verbs_sqe_bytes(uint32_t max_send_sge, uint32_t max_inline_bytes)
{
	size_t n = sizeof(struct verbs_sqe) + RTE_ALIGN_CEIL(max_inline_bytes, 8);

	if (max_send_sge > WEFT_RDMAP_MAX_SGE)
		n += max_send_sge * sizeof(struct weft_rdmap_sge);
	return (uint16_t)RTE_ALIGN_CEIL(n, VERBS_SQE_ALIGN);
}

int
weft_verbs_inline(const struct weft_qp *qp, struct verbs_sqe *s, const struct weft_wr *wr)
{
	uint8_t *dst = verbs_sqe_inline(qp, s);
	uint32_t at = 0;

	if (wr->num_sge > 0 && wr->sg_list == NULL)
		return -EINVAL;
	for (uint32_t i = 0; i < wr->num_sge; i++) {
		const struct weft_sge *sg = &wr->sg_list[i];

		if (sg->len_bytes > qp->max_inline_bytes - at ||
		    (sg->addr == NULL && sg->len_bytes > 0))
			return -EINVAL;
		if (sg->len_bytes > 0)
			memcpy(dst + at, sg->addr, sg->len_bytes);
		at += sg->len_bytes;
	}
	s->inlined = true;
	s->req.nsge = 1;
	s->req.sge[0] = (struct weft_rdmap_sge){.addr = dst, .len_bytes = at};
	s->req.len_bytes = at;
	return 0;
}

void
weft_verbs_sqe_moved(const struct weft_qp *qp, struct verbs_sqe *s)
{
	if (s->req.sgl != NULL)
		s->req.sgl = verbs_sqe_sgl(s);
	if (s->inlined)
		s->req.sge[0].addr = verbs_sqe_inline(qp, s);
}

bool
weft_verbs_lkeys_ok(struct weft_mem *mem, const struct weft_mem_pd *pd,
                    const struct weft_rdmap_sge *sge, uint32_t n, uint32_t access)
{
	for (uint32_t i = 0; i < n; i++)
		if (!verbs_lkey_ok(mem, pd, &sge[i], access))
			return false;
	return true;
}

/** Look up the sink of a Read: a region of the QP's domain with local write. Worker only (RCU). */
static int
verbs_sink(struct weft_qp *qp, struct verbs_sqe *s)
{
	const struct weft_rdmap_sge *sge = &s->req.sge[0];
	const struct weft_mem_mr *mr;
	uint64_t to;

	s->req.nsge = 0;
	s->req.sink_stag = s->lkey;
	s->req.sink_to = 0;
	mr = weft_mem_lookup(qp->vw->ctx->mem, s->lkey);
	if (mr == NULL)
		return -EINVAL;
	to = mr->base_to + ((uintptr_t)sge->addr - (uintptr_t)mr->addr);
	if (s->req.len_bytes > 0 &&
	    ((uintptr_t)sge->addr < (uintptr_t)mr->addr ||
	     (uintptr_t)sge->addr - (uintptr_t)mr->addr >= weft_mem_len(mr)))
		return -EINVAL;
	if (weft_mem_check(mr, &qp->pd->mem, to, s->req.len_bytes, WEFT_ACCESS_LOCAL_WRITE) !=
	    WEFT_MEM_OK)
		return -EINVAL;
	s->req.sink_to = to;
	return 0;
}

int
weft_verbs_lookup(struct weft_qp *qp, struct verbs_sqe *s)
{
	const struct weft_rdmap_req *req = &s->req;

	if (s->opcode == WEFT_WC_READ)
		return verbs_sink(qp, s);
	if (likely(!s->keyed) ||
	    weft_verbs_lkeys_ok(qp->vw->ctx->mem, &qp->pd->mem,
	                        req->sgl != NULL ? req->sgl : req->sge, req->nsge,
	                        req->op == WEFT_RDMAP_ATOMIC_REQ ? WEFT_ACCESS_LOCAL_WRITE : 0))
		return 0;
	return -EINVAL;
}
