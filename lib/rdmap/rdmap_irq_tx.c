/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The inbound request queue (IRQ): responses, and the Terminate of a request that failed.
 */

#include "rdmap_irq.h"
#include "rdmap_irq_exec.h"
#include "rdmap_irq_tx.h"
#include "rdmap_term.h"
#include "rdmap_tx.h"
#include "rdmap_wire.h"
#include "rdmap_seg.h"
#include "weft_mem_find.h"

/* Send the Terminate of a failed request. For a Read its RDMA header shows the part not yet sent
 * (RFC 5040 s4.8). */
static enum rdmap_tx
rdmap_send_failure(struct weft_rdmap *r, const struct rdmap_irq_ent *e, uint64_t now_ns)
{
	uint8_t rdma[RDMAP_READ_REQ_BYTES], hdr[WEFT_DDP_UNTAGGED_HDR_BYTES];
	struct weft_term term = e->term;
	struct rdmap_read_req q = {.sink_stag = e->sink_stag,
	                           .sink_to = e->sink_to + e->sent_bytes,
	                           .len_bytes = (uint32_t)e->len_bytes - e->sent_bytes,
	                           .src_stag = e->stag,
	                           .src_to = e->to + e->sent_bytes};

	rdmap_read_req_encode(&q, rdma);
	memcpy(hdr, e->hdr, sizeof(hdr)); /* rdmap_term_send() resets the ring */
	rdmap_term_send(r, &term, hdr, sizeof(hdr), e->op == WEFT_RDMAP_READ_REQ ? rdma : NULL,
	                e->seg_bytes, now_ns);
	return RDMAP_TX_STOP;
}

/* Send the Terminate of a Read, unless the up-call bad_range() has ended the stream. */
static enum rdmap_tx
rdmap_read_failure(struct weft_rdmap *r, const struct rdmap_irq_ent *e, uint64_t now_ns)
{
	return rdmap_irq_depth(r) > 0 ? rdmap_send_failure(r, e, now_ns) : RDMAP_TX_STOP;
}

static enum rdmap_tx
rdmap_send_read(struct weft_rdmap *r, struct rdmap_irq_ent *e, int32_t *budget_bytes,
                uint64_t now_ns)
{
	struct weft_ddp_hdr h = {
	        .tagged = true, .rsvdulp = RDMAP_CTRL(WEFT_RDMAP_READ_RESP), .stag = e->sink_stag};

	for (;;) {
		uint32_t left = (uint32_t)e->len_bytes - e->sent_bytes;
		uint32_t n = RTE_MIN(left, weft_ddp_max_payload(&r->ddp, true));
		uint8_t *p;

		if (unlikely(rdmap_irq_revoked(r, e) || rdmap_irq_lost(r, e)))
			return rdmap_read_failure(r, e, now_ns);
		if (unlikely(e->sent_bytes == 0 && rdmap_irq_waits(r, e)))
			return e->state == RDMAP_IRQ_FAILED ? rdmap_read_failure(r, e, now_ns)
			                                    : RDMAP_TX_NONE;
		h.last = n == left;
		h.to = e->sink_to + e->sent_bytes;
		p = weft_ddp_tx_begin(&r->ddp, &h, n, now_ns);
		if (p == NULL)
			return RDMAP_TX_BLOCKED;
		if (n > 0)
			weft_ddp_tx_copy(&r->ddp, p, weft_mem_addr(e->mr, e->to) + e->sent_bytes,
			                 n);
		if (unlikely(e->mr != NULL && weft_mem_lost(e->mr))) {
			weft_ddp_tx_cancel(&r->ddp, &h);
			(void)rdmap_irq_lost(r, e);
			return rdmap_read_failure(r, e, now_ns);
		}
		weft_ddp_tx_end(&r->ddp, now_ns);
		rdmap_seg_account(r, RDMAP_MID_RESP, n, budget_bytes);
		e->sent_bytes += n;
		if (h.last)
			break;
		if (*budget_bytes <= 0)
			return RDMAP_TX_BUDGET;
	}
	r->mid = RDMAP_MID_NONE;
	rdmap_count_out(r, WEFT_RDMAP_READ_RESP);
	r->irq_exec++;
	r->irq_head++;
	return RDMAP_TX_SENT;
}

/*
 * The octets that a Read asks for, if it may be answered without a further look: as
 * rdmap_irq_revoked() and rdmap_irq_waits(). Nothing changes.
 */
static inline const uint8_t *
rdmap_read_source(const struct weft_rdmap *r, const struct rdmap_irq_ent *e)
{
	const struct weft_mem_mr *mr = weft_mem_lookup(r->mem, e->stag);

	if (unlikely(mr == NULL ||
	             !weft_mem_allows(mr, r->pd, e->to, e->len_bytes, WEFT_ACCESS_REMOTE_READ)))
		return NULL;
	/* a gate that is shut, or a request that has waited at one */
	if (mr->gate != NULL && (mr->gate->on || e->passed || r->work->gate.gate != NULL))
		return NULL;
	return weft_mem_addr(mr, e->to);
}

void
rdmap_irq_packed(struct weft_rdmap *r, int32_t *budget_bytes)
{
	const uint32_t most = weft_ddp_max_payload(&r->ddp, true);
	struct weft_ddp_msg msg[RDMAP_PACK_MAX];
	int64_t room, left = *budget_bytes;
	uint32_t bytes = 0, n, sent;

	room = weft_ddp_tx_room(&r->ddp);
	for (n = 0; r->irq_exec + n != r->irq_tail && n < RDMAP_PACK_MAX && left > 0; n++) {
		const struct rdmap_irq_ent *e = rdmap_irq_at(r, r->irq_exec + n);
		struct weft_ddp_msg *m = &msg[n];

		/* of no octets: nothing may be looked at (RFC 5040 s5.2.1) */
		if (e->op != WEFT_RDMAP_READ_REQ || e->state != RDMAP_IRQ_QUEUED ||
		    e->len_bytes == 0 || e->len_bytes > most)
			break;
		room -= (int64_t)e->len_bytes + WEFT_DDP_MSG_MIN_BYTES;
		left -= (int64_t)e->len_bytes + RDMAP_SEG_COST_BYTES;
		m->src = room >= 0 ? rdmap_read_source(r, e) : NULL;
		if (m->src == NULL)
			break;
		m->to = e->sink_to;
		m->len_bytes = (uint32_t)e->len_bytes;
		m->stag = e->sink_stag;
		m->rsvdulp = RDMAP_CTRL(WEFT_RDMAP_READ_RESP);
		m->tagged = true;
	}
	sent = n > 0 ? weft_ddp_tx_pack(&r->ddp, msg, n) : 0;
	if (sent == 0)
		return;
	for (uint32_t i = 0; i < sent; i++)
		bytes += msg[i].len_bytes;
	r->irq_exec += sent;
	r->irq_head += sent;
	if (r->op_stats != NULL)
		r->op_stats->out[WEFT_RDMAP_READ_RESP] += sent;
	rdmap_pack_account(r, sent, bytes, 0, budget_bytes);
}

enum rdmap_tx
rdmap_irq_send(struct weft_rdmap *r, int32_t *budget_bytes, uint64_t now_ns)
{
	static const uint8_t answer[RDMAP_NOPCODES] = {
	        [WEFT_RDMAP_ATOMIC_REQ] = WEFT_RDMAP_ATOMIC_RESP,
	        [WEFT_RDMAP_FLUSH_REQ] = WEFT_RDMAP_FLUSH_RESP,
	        [WEFT_RDMAP_VERIFY_REQ] = WEFT_RDMAP_VERIFY_RESP,
	        [WEFT_RDMAP_AWRITE_REQ] = WEFT_RDMAP_AWRITE_RESP,
	};
	struct rdmap_irq_ent *e;
	uint32_t len;
	int rc;

	if (r->irq_head == r->irq_tail)
		return RDMAP_TX_NONE;
	e = rdmap_irq_at(r, r->irq_head);
	if (e->state == RDMAP_IRQ_FAILED)
		return rdmap_send_failure(r, e, now_ns);
	if (e->op == WEFT_RDMAP_READ_REQ)
		return rdmap_send_read(r, e, budget_bytes, now_ns);
	if (e->state != RDMAP_IRQ_DONE)
		return RDMAP_TX_NONE;
	len = e->hash_bytes; /* none for Flush and Atomic Write */
	rc = rdmap_tx_untagged(r, answer[e->op], e->hash, len, now_ns);
	if (rc == 0)
		return RDMAP_TX_BLOCKED;
	if (rc < 0) { /* the response does not fit a segment of this path */
		rdmap_irq_refuse(&e->term, WEFT_TERM_OP_STREAM);
		return rdmap_send_failure(r, e, now_ns);
	}
	*budget_bytes -= (int32_t)len + RDMAP_SEG_COST_BYTES;
	r->irq_head++;
	return RDMAP_TX_SENT;
}
