/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The inbound request queue (IRQ): a request arrives, is checked and takes its place. */

#include <rte_atomic.h>

#include "rdmap_hook.h"
#include "rdmap_irq.h"
#include "rdmap_irq_rx.h"
#include "rdmap_wire.h"
#include "weft_mem_place.h"
#include "weft_mem_find.h"
#include "weft_ddp_wire.h"

int
rdmap_irq_check(struct weft_rdmap *r, struct rdmap_irq_ent *e, uint32_t access,
                struct weft_term *term)
{
	struct weft_mem_mr *mr = weft_mem_lookup(r->mem, e->stag);
	enum weft_mem_err err;

	if (mr == NULL) {
		rdmap_irq_count_revoked(r, e);
		return rdmap_irq_bad(term, WEFT_MEM_BAD_STAG);
	}
	if (e->op == WEFT_RDMAP_FLUSH_REQ && (e->flags & WEFT_FLUSH_REGION)) {
		/* draft-talpey-rdma-commit-02 s2.1.1: length and offset MUST be ignored */
		e->to = mr->base_to;
		e->len_bytes = weft_mem_len(mr);
		err = weft_mem_check(mr, r->pd, e->to, 0, access);
	} else {
		err = weft_mem_check(mr, r->pd, e->to, e->len_bytes, access);
	}
	if (err != WEFT_MEM_OK) {
		rdmap_irq_count_revoked(r, e);
		return rdmap_irq_bad(term, err);
	}
	if (e->op == WEFT_RDMAP_VERIFY_REQ && e->hash_bytes > 0 &&
	    e->hash_bytes != mr->hash->result_bytes)
		return rdmap_irq_refuse(term, WEFT_TERM_OP_UNSPECIFIED);
	/* draft s2.3.2; RFC 7306 s8.2, which has the code: the address must be aligned, not the TO
	 */
	if ((e->op == WEFT_RDMAP_AWRITE_REQ || e->op == WEFT_RDMAP_ATOMIC_REQ) &&
	    (uintptr_t)weft_mem_addr(mr, e->to) % 8 != 0)
		return rdmap_irq_refuse(term, WEFT_TERM_OP_STREAM);
	e->mr = mr;
	e->held = e->op == WEFT_RDMAP_FLUSH_REQ;
	if (e->held)
		weft_mem_ref(mr);
	return 0;
}

int
rdmap_irq_admit(struct weft_rdmap *r, const struct rdmap_msg *m, struct rdmap_irq_ent *e, int rc,
                struct weft_term *term)
{
	e->state = RDMAP_IRQ_QUEUED;
	if (rc < 0)
		rdmap_irq_set_failed(r, e, term);
	e->seg_bytes = m->seg_bytes;
	weft_ddp_hdr_encode(&m->h, e->hdr);
	r->irq_tail++;
	rdmap_schedule(r);
	return 0;
}

/** RFC 5040 s6.1: IRD is the number of buffers of QN 1. */
static inline bool
rdmap_irq_full(const struct weft_rdmap *r)
{
	return rdmap_irq_depth(r) >= r->ird || rdmap_irq_depth(r) > r->irq_mask;
}

/** The free entry at the tail, without what its last use left there. */
static inline struct rdmap_irq_ent *
rdmap_irq_fresh(struct weft_rdmap *r, uint8_t op)
{
	struct rdmap_irq_ent *e = rdmap_irq_at(r, r->irq_tail);

	e->op = op;
	e->state = RDMAP_IRQ_QUEUED;
	e->hash_bytes = 0;
	e->mr = NULL; /* a Read's is looked up when it is executed; a zero-length one has none */
	e->held = false;
	e->passed = false;
	e->flags = 0;
	e->sent_bytes = 0;
	return e;
}

static inline void
rdmap_irq_set_read(struct rdmap_irq_ent *e, const struct rdmap_read_req *q)
{
	e->stag = q->src_stag;
	e->to = q->src_to;
	e->len_bytes = q->len_bytes;
	e->sink_stag = q->sink_stag;
	e->sink_to = q->sink_to;
}

struct rdmap_irq_ent *
rdmap_irq_slot(struct weft_rdmap *r, uint8_t op, struct weft_term *term, int *rc)
{
	*rc = 0;
	if (r->fin_sent) {
		RDMAP_FAULT(r, requests_after_fin);
		return NULL;
	}
	if (rdmap_irq_full(r)) {
		RDMAP_FAULT(r, requests_beyond_ird);
		*rc = weft_fault(term, WEFT_TERM_LAYER_DDP, WEFT_TERM_DDP_UNTAGGED,
		                 WEFT_TERM_UNT_NO_BUFFER);
		return NULL;
	}
	if (unlikely(r->work == NULL) && !rdmap_irq_wake(r)) {
		*rc = weft_fault(term, WEFT_TERM_LAYER_RDMA, WEFT_TERM_RDMA_LOCAL, 0);
		return NULL;
	}
	return rdmap_irq_fresh(r, op);
}

bool
rdmap_rx_read_usual(struct weft_rdmap *r, const uint8_t *seg)
{
	const struct weft_mem_mr *mr;
	struct rdmap_irq_ent *e;
	struct rdmap_read_req q;

	if (unlikely(r->fin_sent || rdmap_irq_full(r) || r->work == NULL))
		return false;
	rdmap_read_req_get(seg + WEFT_DDP_UNTAGGED_HDR_BYTES, &q);
	mr = weft_mem_lookup(r->mem, q.src_stag);
	if (unlikely(q.len_bytes == 0 || mr == NULL ||
	             !weft_mem_allows(mr, r->pd, q.src_to, q.len_bytes, WEFT_ACCESS_REMOTE_READ)))
		return false;
	e = rdmap_irq_fresh(r, WEFT_RDMAP_READ_REQ);
	rdmap_irq_set_read(e, &q);
	e->seg_bytes = WEFT_DDP_UNTAGGED_HDR_BYTES + RDMAP_READ_REQ_BYTES;
	memcpy(e->hdr, seg, sizeof(e->hdr));
	r->irq_tail++;
	rdmap_count_in(r, WEFT_RDMAP_READ_REQ);
	rdmap_schedule(r);
	return true;
}

int
rdmap_rx_read_req(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term)
{
	struct rdmap_irq_ent *e;
	struct rdmap_read_req q;
	int rc;

	e = rdmap_irq_slot(r, m->op, term, &rc);
	if (e == NULL)
		return rc;
	rdmap_read_req_get(m->data, &q); /* rdmap_rx_ctl() has checked its length */
	rdmap_irq_set_read(e, &q);
	/* RFC 5040 s5.2.1: a zero-length Read MUST NOT be validated */
	if (q.len_bytes > 0)
		rc = rdmap_irq_check(r, e, WEFT_ACCESS_REMOTE_READ, term);
	return rdmap_irq_admit(r, m, e, rc, term);
}

/*
 * A Flush behind other requests is executed when these are done. Its medium may begin earlier:
 * "Data received by prior operations (e.g. RDMA Write) MAY be submitted for placement at any time,
 * and persistence or global visibility MAY occur before the flush is requested"
 * (draft-talpey-rdma-commit-02 s2.1.2). What requests before it still change in memory, an Atomic
 * Write for example, is written when the Flush is executed.
 */
static void
rdmap_flush_ahead(const struct weft_rdmap *r, const struct rdmap_irq_ent *e)
{
	struct weft_persist *p = e->mr->persist;

	if (r->irq_exec == r->irq_tail || p == NULL || p->ops->flush_ahead == NULL ||
	    RDMAP_SABOTAGED(r, DROP_FLUSH))
		return;
	/* as for the Flush itself */
	rte_smp_wmb();
	p->ops->flush_ahead(p, e->mr->persist_off_bytes + (e->to - e->mr->base_to), e->len_bytes,
	                    e->flags);
}

int
rdmap_rx_ext_req(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term)
{
	uint32_t access = 0;
	struct rdmap_irq_ent *e;
	struct rdmap_ext_req q;
	int rc;

	e = rdmap_irq_slot(r, m->op, term, &rc);
	if (e == NULL)
		return rc;
	rdmap_ext_req_decode(m->op, m->data, m->len_bytes, &q);
	e->stag = q.stag;
	e->to = q.to;
	e->len_bytes = q.len_bytes;
	e->flags = q.flags;
	e->hash_bytes = q.hash_bytes;
	switch (m->op) {
	case WEFT_RDMAP_FLUSH_REQ:
		if (q.flags & WEFT_FLUSH_PERSISTENT)
			access |= WEFT_ACCESS_FLUSH_PERSISTENT;
		if (q.flags & WEFT_FLUSH_VISIBLE)
			access |= WEFT_ACCESS_FLUSH_VISIBLE;
		if (access == 0 || (q.flags & ~(WEFT_FLUSH_PERSISTENT | WEFT_FLUSH_VISIBLE |
		                                WEFT_FLUSH_REGION)) != 0)
			rc = rdmap_irq_refuse(term, WEFT_TERM_OP_UNSPECIFIED);
		break;
	case WEFT_RDMAP_VERIFY_REQ:
		access = WEFT_MEM_TO_VERIFY;
		memcpy(e->hash, q.hash, q.hash_bytes);
		break;
	default:
		access = WEFT_ACCESS_REMOTE_WRITE;
		memcpy(e->hash, q.hash, RDMAP_AWRITE_BYTES);
		if (q.len_bytes != RDMAP_AWRITE_BYTES) /* draft s2.3.1: "MUST be 8" */
			rc = rdmap_irq_refuse(term, WEFT_TERM_OP_UNSPECIFIED);
		break;
	}
	if (rc == 0)
		rc = rdmap_irq_check(r, e, access, term);
	if (rc == 0 && m->op == WEFT_RDMAP_FLUSH_REQ)
		rdmap_flush_ahead(r, e);
	if (RDMAP_SABOTAGED(r, EARLY_AWRITE) && rc == 0 && m->op == WEFT_RDMAP_AWRITE_REQ)
		weft_mem_store8(e->mr, e->to, e->hash);
	return rdmap_irq_admit(r, m, e, rc, term);
}
