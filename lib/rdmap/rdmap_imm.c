/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Immediate Data (RFC 7306 s6), alone or behind a Write. Its eight octets consume a receive buffer
 * of QN 0 and go up beside it, not in it. Order and completion are those of a Send (s6.4).
 */

#include "rdmap_imm.h"
#include "rdmap_recv.h"
#include "rdmap_seg.h"
#include "rdmap_term.h"
#include "rdmap_wire.h"

/* Report the error with the receive buffer, and to the peer by a Terminate (s6.1). */
static int
rdmap_imm_bad(struct weft_rdmap *r, struct weft_term *term)
{
	r->rx_send.active = false;
	RDMAP_FAULT(r, requests_malformed);
	r->ops->recv_done(r->user, WEFT_RDMAP_LOCAL_LENGTH, 0, false, 0);
	return weft_fault(term, WEFT_TERM_LAYER_RDMA, WEFT_TERM_RDMA_OPERATION,
	                  WEFT_TERM_OP_UNSPECIFIED);
}

int
rdmap_rx_imm(struct weft_rdmap *r, const struct rdmap_op_row *row, const struct weft_ddp_hdr *h,
             struct weft_cur *c, uint32_t len_bytes, struct weft_term *term)
{
	struct rdmap_rx_send *s = &r->rx_send;
	uint8_t op = rdmap_op_of(h);
	uint64_t got_bytes = (uint64_t)h->mo + len_bytes;
	int rc;

	if (!rdmap_recv_goes_on(r, op) && (rc = rdmap_recv_take(r, op, h, term)) < 0)
		return rc;
	/* s6.3: "include exactly 8 bytes of data" */
	if (got_bytes > WEFT_RDMAP_IMM_BYTES || (h->last && got_bytes < WEFT_RDMAP_IMM_BYTES))
		return rdmap_imm_bad(r, term);
	if (len_bytes > 0 && weft_cur_read(c, s->imm + h->mo, len_bytes) < 0)
		return weft_fault(term, WEFT_TERM_LAYER_DDP, WEFT_TERM_DDP_LOCAL, 0);
	r->stats.bytes_in += len_bytes;
	if (!h->last)
		return 0;
	s->active = false;
	rdmap_count_in(r, op);
	r->ops->recv_imm(r->user, s->imm, row->solicited);
	return 0;
}

enum rdmap_tx
rdmap_tx_imm(struct weft_rdmap *r, struct weft_rdmap_req *req, int32_t *budget_bytes,
             uint64_t now_ns)
{
	int rc = rdmap_tx_untagged(r, req->op, req->imm, WEFT_RDMAP_IMM_BYTES, now_ns);

	if (rc == 0)
		return RDMAP_TX_BLOCKED;
	if (rc < 0)
		return rdmap_tx_refuse(r, req, WEFT_RDMAP_REMOTE_OP, now_ns);
	r->stats.bytes_out += WEFT_RDMAP_IMM_BYTES;
	*budget_bytes -= WEFT_RDMAP_IMM_BYTES + RDMAP_SEG_COST_BYTES;
	TAILQ_REMOVE(&r->sq, req, link);
	r->ops->done(r->user, req, WEFT_RDMAP_OK);
	return RDMAP_TX_SENT;
}
