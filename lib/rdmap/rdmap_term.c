/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Terminate: sending one, and finding the request that a received one is about. */

#include "rdmap_irq.h"
#include "rdmap_seg.h"
#include "rdmap_state.h"
#include "rdmap_term.h"
#include "rdmap_wire.h"
#include "weft_mem_find.h"
#include "weft_ddp_wire.h"

/* Whether the terminated DDP header goes with an error (RFC 5040 s4.8 Figure 10). */
static bool
term_with_ddp(const struct weft_term *t)
{
	if (t->layer == WEFT_TERM_LAYER_RDMA)
		return t->etype != WEFT_TERM_RDMA_LOCAL;
	return t->layer == WEFT_TERM_LAYER_DDP && t->etype != WEFT_TERM_DDP_LOCAL;
}

static bool
term_with_rdma(const struct weft_term *t)
{
	return t->layer == WEFT_TERM_LAYER_RDMA && t->etype == WEFT_TERM_RDMA_PROTECTION;
}

/* Decode the terminated DDP header. False: the Terminate has none. */
static bool
rdmap_term_hdr(const struct rdmap_terminate *t, struct weft_ddp_hdr *h)
{
	struct weft_frag f = {t->ddp_hdr, t->ddp_hdr_bytes};
	struct weft_cur c;

	weft_cur_init(&c, &f, 1);
	return weft_ddp_hdr_decode(&c, h) >= 0;
}

/* For the log: the operation of the terminated segment. */
static const char *
rdmap_term_op_name(const struct rdmap_terminate *t)
{
	struct weft_ddp_hdr h;

	return rdmap_term_hdr(t, &h) ? weft_rdmap_op_name(rdmap_op_of(&h)) : "unknown";
}

void
rdmap_term_push(struct weft_rdmap *r, uint64_t now_ns)
{
	int rc = rdmap_tx_untagged(r, WEFT_RDMAP_TERMINATE, r->term_msg, r->term_msg_bytes, now_ns);

	if (rc < 0 && r->term_msg_bytes > RDMAP_TERM_WORD_BYTES) {
		/* the headers do not fit a segment: send the first word alone */
		r->term_msg[2] = 0;
		r->term_msg_bytes = RDMAP_TERM_WORD_BYTES;
		rc = rdmap_tx_untagged(r, WEFT_RDMAP_TERMINATE, r->term_msg, r->term_msg_bytes,
		                       now_ns);
	}
	if (rc == 0 && !weft_ddp_tx_impossible(&r->ddp))
		return; /* `writable` follows */
	r->term_msg_bytes = 0;
	r->unflushed = false;
	if (rc > 0)
		r->stats.terminates_out++;
	else
		RDMAP_FAULT(r, terminates_unsent);
	weft_ddp_tx_flush(&r->ddp, now_ns);
	/* RFC 5040 s6.2.1: a graceful close, so that the Terminate is delivered */
	rdmap_fin(r, RDMAP_TERM_WAIT_NS, now_ns);
}

/* Enter TERMINATE: later segments are dropped, queued requests of the peer are not executed, and
 * every request of this side is flushed. */
static void
rdmap_term_enter(struct weft_rdmap *r, const struct weft_term *term, bool ours, uint64_t now_ns)
{
	r->ddp.faulted = true;
	rdmap_irq_reset(r);
	weft_timer_arm(&r->sched->wheel, &r->timer, now_ns + RDMAP_TERM_WAIT_NS);
	rdmap_set_state(r, WEFT_RDMAP_ST_TERMINATE, term, ours);
	if (!r->dead)
		rdmap_flush(r);
}

void
rdmap_term_send(struct weft_rdmap *r, const struct weft_term *term, const uint8_t *ddp_hdr,
                unsigned int ddp_hdr_bytes, const uint8_t *rdma_hdr, uint32_t seg_bytes,
                uint64_t now_ns)
{
	struct rdmap_terminate t = {.term = *term};
	bool half_closed = r->fin_sent || r->gone;

	if (ddp_hdr != NULL && term_with_ddp(term)) {
		t.has_len = true;
		t.has_ddp = true;
		t.seg_bytes = (uint16_t)RTE_MIN(seg_bytes, 65535u);
		t.ddp_hdr_bytes = (uint8_t)ddp_hdr_bytes;
		memcpy(t.ddp_hdr, ddp_hdr, ddp_hdr_bytes);
		if (rdma_hdr != NULL && term_with_rdma(term)) {
			t.has_rdma = true;
			memcpy(t.rdma_hdr, rdma_hdr, RDMAP_READ_REQ_BYTES);
		}
	}
	rdmap_count_term(r, term, true);
	if (half_closed)
		RDMAP_FAULT(r, terminates_unsent);
	WEFT_LOG_PEER(rdmap, WARNING,
	              "Terminate sent: layer %u, type %u, code 0x%02x, operation %s", term->layer,
	              term->etype, term->code, rdmap_term_op_name(&t));
	rdmap_term_enter(r, &t.term, true, now_ns);
	if (r->dead || r->state != WEFT_RDMAP_ST_TERMINATE || half_closed)
		return;
	r->term_msg_bytes = (uint8_t)rdmap_terminate_encode(&t, r->term_msg);
	rdmap_term_push(r, now_ns);
}

enum rdmap_tx
rdmap_tx_refuse(struct weft_rdmap *r, struct weft_rdmap_req *req, enum weft_rdmap_status status,
                uint64_t now_ns)
{
	static const struct weft_term term = {.layer = WEFT_TERM_LAYER_RDMA,
	                                      .etype = WEFT_TERM_RDMA_LOCAL};

	r->fail_req = req;
	r->fail_status = status;
	rdmap_term_send(r, &term, NULL, 0, NULL, 0, now_ns);
	return RDMAP_TX_STOP;
}

/* Whether h is the expected Read Response and its placement failed: the local sink is invalid. */
static bool
rdmap_sink_gone(const struct weft_rdmap *r, const struct weft_term *term,
                const struct weft_ddp_hdr *h, uint32_t seg_bytes)
{
	const struct weft_rdmap_req *req = TAILQ_FIRST(&r->out);

	if (!h->tagged || rdmap_op_of(h) != WEFT_RDMAP_READ_RESP || req == NULL ||
	    req->op != WEFT_RDMAP_READ_REQ)
		return false;
	if (term->layer == WEFT_TERM_LAYER_RDMA && term->etype != WEFT_TERM_RDMA_PROTECTION &&
	    term->code != WEFT_TERM_OP_LOST)
		return false;
	return h->stag == req->sink_stag && h->to == req->sink_to + req->got_bytes &&
	       seg_bytes - WEFT_DDP_TAGGED_HDR_BYTES <= req->len_bytes - req->got_bytes;
}

/* Placement found that the medium is gone: report the bad range to verbs, as a failed Flush does.
 */
static void
rdmap_placed_lost(struct weft_rdmap *r, const struct weft_ddp_hdr *h, uint32_t seg_bytes)
{
	struct weft_mem_mr *mr = weft_mem_lookup(r->mem, h->stag);

	RDMAP_FAULT(r, lost);
	if (mr != NULL)
		r->ops->bad_range(r->user, mr, h->to, seg_bytes - WEFT_DDP_TAGGED_HDR_BYTES,
		                  WEFT_TERM_OP_LOST, 0);
}

static bool
rdmap_is_lost(const struct weft_term *term, const struct weft_ddp_hdr *h)
{
	return term->layer == WEFT_TERM_LAYER_RDMA && term->etype == WEFT_TERM_RDMA_OPERATION &&
	       term->code == WEFT_TERM_OP_LOST && h != NULL && h->tagged;
}

void
rdmap_on_fault(void *user, const struct weft_term *term, const struct weft_ddp_hdr *h,
               const uint8_t *hdr, unsigned int hdr_bytes, uint32_t seg_bytes, uint64_t now_ns)
{
	struct weft_rdmap *r = user;
	const uint8_t *rdma = NULL;
	unsigned int ddp_bytes = 0;

	if (r->dead || r->state == WEFT_RDMAP_ST_TERMINATE || r->state == WEFT_RDMAP_ST_ERROR)
		return;
	if (h != NULL) {
		uint8_t op = rdmap_op_of(h);

		ddp_bytes = h->tagged ? WEFT_DDP_TAGGED_HDR_BYTES : WEFT_DDP_UNTAGGED_HDR_BYTES;
		if (hdr_bytes < ddp_bytes)
			hdr = NULL;
		else if (!h->tagged && op == WEFT_RDMAP_READ_REQ &&
		         hdr_bytes >= ddp_bytes + RDMAP_READ_REQ_BYTES)
			rdma = hdr + ddp_bytes;
		if (h->tagged && weft_mem_is_revoked(r->mem, h->stag))
			RDMAP_FAULT(r, refused_after_revoke);
		if (rdmap_sink_gone(r, term, h, seg_bytes)) {
			r->fail_req = TAILQ_FIRST(&r->out);
			r->fail_status = WEFT_RDMAP_LOCAL_PROT;
		}
	} else {
		hdr = NULL;
	}
	rdmap_enter(r);
	if (unlikely(rdmap_is_lost(term, h)))
		rdmap_placed_lost(r, h, seg_bytes);
	if (!r->dead)
		rdmap_term_send(r, term, hdr, ddp_bytes, rdma, seg_bytes, now_ns);
	rdmap_leave(r);
}

void
weft_rdmap_terminate(struct weft_rdmap *r, const struct weft_term *term, uint64_t now_ns)
{
	if (r->dead || (r->state != WEFT_RDMAP_ST_RTS && r->state != WEFT_RDMAP_ST_CLOSING))
		return;
	rdmap_enter(r);
	rdmap_term_send(r, term, NULL, 0, NULL, 0, now_ns);
	rdmap_leave(r);
}

/* ---- Terminate received ---- */

/* The i-th outstanding request; 0 is the oldest. */
static struct weft_rdmap_req *
rdmap_nth_out(struct weft_rdmap *r, uint32_t i)
{
	struct weft_rdmap_req *req;

	TAILQ_FOREACH (req, &r->out, link)
		if (i-- == 0)
			return req;
	return NULL;
}

/* The request that the terminated header belongs to; NULL when the header does not tell. */
static struct weft_rdmap_req *
rdmap_term_whose(struct weft_rdmap *r, const struct weft_ddp_hdr *h)
{
	struct weft_rdmap_req *req = TAILQ_FIRST(&r->sq);
	uint8_t op = rdmap_op_of(h);

	if (!h->tagged && h->qn == WEFT_DDP_QN_READ) {
		/* MSNs of QN 1 are consecutive; the outstanding requests have the last n_out */
		uint32_t i = h->msn - (r->ddp.tx_msn[WEFT_DDP_QN_READ] - r->n_out);

		req = i < r->n_out ? rdmap_nth_out(r, i) : NULL;
		if (req == NULL) /* siw writes a length as the MSN: take the oldest request */
			req = TAILQ_FIRST(&r->out);
		return req != NULL && req->op == op ? req : NULL;
	}
	/* only the message being sent can match: messages sent before are complete */
	if (req == NULL || r->mid != RDMAP_MID_REQ || req->op != op)
		return NULL;
	if (h->tagged)
		return h->stag == req->stag && h->to - req->to < req->sent_bytes ? req : NULL;
	return h->qn == WEFT_DDP_QN_SEND && h->msn == r->ddp.tx_msn[WEFT_DDP_QN_SEND] ? req : NULL;
}

static enum weft_rdmap_status
rdmap_term_status(const struct weft_term *t, uint8_t op)
{
	if (t->layer == WEFT_TERM_LAYER_RDMA && t->etype == WEFT_TERM_RDMA_PROTECTION)
		return WEFT_RDMAP_REMOTE_ACCESS;
	if (t->layer == WEFT_TERM_LAYER_DDP && t->etype == WEFT_TERM_DDP_TAGGED)
		return WEFT_RDMAP_REMOTE_ACCESS;
	if (t->layer == WEFT_TERM_LAYER_RDMA && t->etype == WEFT_TERM_RDMA_OPERATION &&
	    t->code == WEFT_TERM_OP_HASH_MISMATCH && op == WEFT_RDMAP_VERIFY_REQ)
		return WEFT_RDMAP_HASH_MISMATCH;
	return WEFT_RDMAP_REMOTE_OP;
}

/*
 * Whether the word 2/0/06 or 2/0/07 is siw's 0/2/06 or 0/2/07 in swapped octet order. A true code 6
 * or 7 of MPA comes from an initiator only, in its first FPDU (RFC 6581 s9.1, s9.2).
 * rdmap_terminate_decode() cannot tell, since the word has no header bit.
 */
static bool
rdmap_term_is_siw(const struct weft_rdmap *r, const struct rdmap_terminate *t)
{
	if (t->swapped || t->has_ddp || t->term.layer != WEFT_TERM_LAYER_LLP || t->term.etype != 0)
		return false;
	if (t->term.code != WEFT_MPA_ERR_IRD && t->term.code != WEFT_MPA_ERR_NO_RTR)
		return false;
	return weft_ddp_is_initiator(&r->ddp) || weft_ddp_fpdus_in(&r->ddp) > 1;
}

/* Set fail_req and fail_status to the request that the Terminate is about. If done() has already
 * completed that request, a Write, call write_refused(). */
static void
rdmap_term_blame(struct weft_rdmap *r, const struct rdmap_terminate *t)
{
	struct weft_ddp_hdr h;

	r->fail_req = NULL;
	if (!rdmap_term_hdr(t, &h))
		return;
	r->fail_req = rdmap_term_whose(r, &h);
	if (r->fail_req != NULL)
		r->fail_status = rdmap_term_status(&t->term, r->fail_req->op);
	else if (h.tagged && rdmap_op_of(&h) == WEFT_RDMAP_WRITE && r->ops->write_refused != NULL)
		r->ops->write_refused(r->user, h.stag, h.to,
		                      rdmap_term_status(&t->term, WEFT_RDMAP_WRITE));
}

/* Any Terminate ends the stream, even one that cannot be read. */
int
rdmap_rx_terminate(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term)
{
	uint64_t now_ns = r->sched->now_ns;
	struct rdmap_terminate t;

	(void)term;
	if (rdmap_terminate_decode(m->data, m->len_bytes, &t) < 0)
		RDMAP_FAULT(r, terminates_in_malformed);
	if (rdmap_term_is_siw(r, &t)) {
		t.swapped = true;
		t.term.layer = WEFT_TERM_LAYER_RDMA;
		t.term.etype = WEFT_TERM_RDMA_OPERATION;
	}
	if (t.swapped)
		RDMAP_FAULT(r, terminates_in_swapped);
	rdmap_count_term(r, &t.term, false);
	WEFT_LOG_PEER(rdmap, WARNING,
	              "Terminate received: layer %u, type %u, code 0x%02x, operation %s%s",
	              t.term.layer, t.term.etype, t.term.code, rdmap_term_op_name(&t),
	              t.swapped ? " (in swapped octet order)" : "");
	r->stats.terminates_in++;
	rdmap_term_blame(r, &t);
	rdmap_term_enter(r, &t.term, false, now_ns);
	rdmap_fin(r, RDMAP_TERM_WAIT_NS, now_ns); /* no effect if an up-call ended the stream */
	return 0;
}
