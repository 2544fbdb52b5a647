/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Inbound DDP segments: validation (RFC 5041 s7.1), placement, and the codes of faults
 * (s7.2). */

#include "ddp_ahead.h"
#include "weft_ddp_wire.h"
#include "weft_mem_place.h"
#include "weft_mpa.h"
#include "weft_mem_find.h"

#define DDP_VERSION        1
#define DDP_ECHO_BYTES     28 /* RFC 5040 s4.8: terminated RDMA header */
#define DDP_ECHO_MAX_BYTES (WEFT_DDP_UNTAGGED_HDR_BYTES + DDP_ECHO_BYTES)

/* Access rights are RDMAP's (RFC 5040 s4.8 Figure 9: layer 0, remote protection error, access). */
#define TERM_LAYER_RDMA      0x0
#define TERM_RDMA_PROTECTION 0x1
#define TERM_PROT_ACCESS     0x02
/* Memory whose medium is gone is an RDMAP error, too (docs/conformance.md, "Terminate codes of
 * Flush, Verify and Atomic Write"). */
#define TERM_RDMA_OPERATION 0x2
#define TERM_OP_LOST        0x0d

static const struct weft_term ddp_mem_term[] = {
        [WEFT_MEM_BAD_STAG] = {WEFT_TERM_LAYER_DDP, WEFT_TERM_DDP_TAGGED, WEFT_TERM_TAG_BAD_STAG},
        [WEFT_MEM_BAD_PD] = {WEFT_TERM_LAYER_DDP, WEFT_TERM_DDP_TAGGED, WEFT_TERM_TAG_BAD_PD},
        [WEFT_MEM_TO_WRAP] = {WEFT_TERM_LAYER_DDP, WEFT_TERM_DDP_TAGGED, WEFT_TERM_TAG_TO_WRAP},
        [WEFT_MEM_BOUNDS] = {WEFT_TERM_LAYER_DDP, WEFT_TERM_DDP_TAGGED, WEFT_TERM_TAG_BOUNDS},
        [WEFT_MEM_ACCESS] = {TERM_LAYER_RDMA, TERM_RDMA_PROTECTION, TERM_PROT_ACCESS},
};

static int
ddp_lost(struct weft_term *term)
{
	return weft_fault(term, TERM_LAYER_RDMA, TERM_RDMA_OPERATION, TERM_OP_LOST);
}

/** What ddp_ulpdu_ahead() has to know of a segment, and ddp_ulpdu_placed() of its turn. */
struct ddp_turn {
	uint32_t seq, end_seq;
	uint32_t len_bytes; /**< of the payload */
};

/** Place a segment while others are placed ahead of it. */
static __rte_noinline void
ddp_place_turn(struct weft_ddp *d, struct weft_mem_mr *mr, const struct weft_ddp_hdr *h,
               struct weft_cur *c, uint32_t len)
{
	uint32_t seq = weft_mpa_fpdu_seq(d->mpa), end_seq = seq + d->mpa->need_bytes;

	ddp_ahead_passed(d, seq, end_seq, len);
	ddp_ahead_place(d, mr, h->to, c, len, end_seq);
}

/** turn: the segment was placed ahead, and c is at its end; NULL: it is placed now. */
static __rte_always_inline int
ddp_tagged(struct weft_ddp *d, const struct weft_ddp_hdr *h, struct weft_cur *c,
           const struct ddp_turn *turn, struct weft_term *term, uint64_t now_ns)
{
	uint32_t len = turn != NULL ? turn->len_bytes : c->left_bytes, access = 0;
	int rc;

	rc = d->ops->tagged(d->user, h, len, &access, term);
	if (unlikely(rc < 0))
		return rc;
	/* RFC 5041 s5.2: "The STag and TO fields MUST NOT be checked for a zero-length Tagged DDP
	 * Message." */
	if (len > 0) {
		struct weft_mem_mr *mr = weft_mem_lookup(d->mem, h->stag);
		enum weft_mem_err e = WEFT_MEM_BAD_STAG;

		if (likely(mr != NULL))
			e = weft_mem_check(mr, &d->scope, h->to, len, access);
		if (unlikely(e != WEFT_MEM_OK)) {
			*term = ddp_mem_term[e];
			return -EPROTO;
		}
		if (unlikely(weft_mem_lost(mr)))
			return ddp_lost(term);
		if (unlikely(turn != NULL))
			ddp_ahead_passed(d, turn->seq, turn->end_seq, len);
		else if (unlikely(d->ahead != NULL))
			ddp_place_turn(d, mr, h, c, len);
		else
			weft_mem_place(mr, h->to, c, len);
		if (unlikely(weft_mem_lost(mr)))
			return ddp_lost(term);
	}
	d->ops->tagged_placed(d->user, h, len, now_ns);
	return 0;
}

static int
ddp_untagged(struct weft_ddp *d, const struct weft_ddp_hdr *h, struct weft_cur *c,
             struct weft_term *term, uint64_t now_ns)
{
	uint32_t len = c->left_bytes, qn = h->qn;

	if (unlikely(qn >= WEFT_DDP_NQN))
		return weft_fault(term, WEFT_TERM_LAYER_DDP, WEFT_TERM_DDP_UNTAGGED,
		                  WEFT_TERM_UNT_BAD_QN);
	/* TCP delivers in order, so one value of MSN and one value of MO are legal. */
	if (unlikely(h->msn != d->rx_msn[qn]))
		return weft_fault(term, WEFT_TERM_LAYER_DDP, WEFT_TERM_DDP_UNTAGGED,
		                  WEFT_TERM_UNT_MSN_RANGE);
	/* QN 1 and 3 included. Appendix A of draft-talpey-rdma-commit-02 says that their MO is
	 * "ignored". RFC 5041 s4.3 requires 0 for the first segment, and senders use only one. */
	if (unlikely(h->mo != d->rx_mo[qn]))
		return weft_fault(term, WEFT_TERM_LAYER_DDP, WEFT_TERM_DDP_UNTAGGED,
		                  WEFT_TERM_UNT_BAD_MO);
	/* s5.2: "The ULP Message Length MUST be less than 2^32." */
	if (unlikely(len > UINT32_MAX - h->mo))
		return weft_fault(term, WEFT_TERM_LAYER_DDP, WEFT_TERM_DDP_UNTAGGED,
		                  WEFT_TERM_UNT_TOO_LONG);
	if (h->last) {
		d->rx_msn[qn]++; /* modulo 2^32, s4.3 */
		d->rx_mo[qn] = 0;
	} else {
		d->rx_mo[qn] += len;
	}
	/* The up-call may destroy the stream: d is not used after it. */
	return d->ops->untagged(d->user, h, c, len, term, now_ns);
}

/** frag: the segment of seg_bytes, or its beginning. */
static void
ddp_refuse(struct weft_ddp *d, const struct weft_term *term, const struct weft_ddp_hdr *h,
           const struct weft_frag *frag, unsigned int nfrags, uint32_t seg_bytes, uint64_t now_ns)
{
	uint8_t hdr[DDP_ECHO_MAX_BYTES];
	uint32_t n = DDP_ECHO_MAX_BYTES;
	struct weft_cur c;

	weft_cur_init(&c, frag, nfrags);
	if (h != NULL)
		n = DDP_ECHO_BYTES +
		    (h->tagged ? WEFT_DDP_TAGGED_HDR_BYTES : WEFT_DDP_UNTAGGED_HDR_BYTES);
	n = RTE_MIN(n, c.left_bytes);
	(void)weft_cur_read(&c, hdr, n);
	/* s7.1: "DDP MUST silently drop any subsequent incoming DDP Segments." */
	d->faulted = true;
	d->ops->fault(d->user, term, h, hdr, n, seg_bytes, now_ns);
}

/** Any segment: its header may be divided, and may be wrong. */
static __rte_noinline void
ddp_segment(struct weft_ddp *d, const struct weft_frag *frag, unsigned int nfrags,
            uint32_t len_bytes, uint64_t now_ns)
{
	struct weft_term term = {0};
	struct weft_ddp_hdr h;
	struct weft_cur c;
	int rc;

	if (unlikely(d->faulted)) {
		if (d->ops->dropped != NULL)
			d->ops->dropped(d->user);
		return;
	}
	weft_cur_init(&c, frag, nfrags);
	if (unlikely(weft_ddp_hdr_decode(&c, &h) < 0)) {
		/* s7.2 has no code for a segment that is too short: use the catastrophic error. */
		term.layer = WEFT_TERM_LAYER_DDP;
		ddp_refuse(d, &term, NULL, frag, nfrags, len_bytes, now_ns);
		return;
	}
	if (unlikely(h.version != DDP_VERSION))
		rc = h.tagged ? weft_fault(&term, WEFT_TERM_LAYER_DDP, WEFT_TERM_DDP_TAGGED,
		                           WEFT_TERM_TAG_VERSION)
		              : weft_fault(&term, WEFT_TERM_LAYER_DDP, WEFT_TERM_DDP_UNTAGGED,
		                           WEFT_TERM_UNT_VERSION);
	else if (h.tagged)
		rc = ddp_tagged(d, &h, &c, NULL, &term, now_ns);
	else
		rc = ddp_untagged(d, &h, &c, &term, now_ns);
	if (unlikely(rc < 0))
		ddp_refuse(d, &term, &h, frag, nfrags, len_bytes, now_ns);
}

/* ---- Segments behind a gap ---- */

/** The same checks as in the segment's turn, without a fault: that is found then. */
static bool
ddp_ulpdu_ahead(void *user, const struct weft_frag *frag, unsigned int nfrags, uint32_t len_bytes,
                uint32_t seq, uint32_t end_seq)
{
	struct weft_ddp *d = user;
	uint32_t access = 0, len;
	struct weft_mem_mr *mr;
	struct weft_ddp_hdr h;
	struct weft_cur c;

	(void)len_bytes;
	weft_cur_init(&c, frag, nfrags);
	if (d->faulted || d->ops->tagged_ahead == NULL || weft_ddp_hdr_decode(&c, &h) < 0 ||
	    h.version != DDP_VERSION || !h.tagged || !d->ops->tagged_ahead(d->user, &h, &access))
		return false;
	len = c.left_bytes;
	mr = weft_mem_lookup(d->mem, h.stag);
	if (len == 0 || weft_mem_check(mr, &d->scope, h.to, len, access) != WEFT_MEM_OK ||
	    weft_mem_lost(mr))
		return false;
	/* Noted first: what cannot be noted must not be placed. */
	if (!ddp_ahead_add(d, &(struct ddp_ahead_range){.addr = weft_mem_addr(mr, h.to),
	                                                .len_bytes = len,
	                                                .stag = h.stag,
	                                                .access = access,
	                                                .seq = seq,
	                                                .end_seq = end_seq}))
		return false;
	ddp_ahead_place(d, mr, h.to, &c, len, end_seq);
	return !weft_mem_lost(mr);
}

static void
ddp_ulpdu_placed(void *user, const uint8_t *head, uint32_t len_bytes, uint32_t seq,
                 uint32_t end_seq, uint64_t now_ns)
{
	const struct ddp_turn turn = {seq, end_seq, len_bytes - WEFT_DDP_TAGGED_HDR_BYTES};
	const struct weft_frag frag = {head, WEFT_MPA_AHEAD_HEAD_BYTES};
	struct weft_ddp *d = user;
	struct weft_term term = {0};
	struct weft_ddp_hdr h;
	struct weft_cur c;

	static_assert(WEFT_MPA_AHEAD_HEAD_BYTES == WEFT_DDP_TAGGED_HDR_BYTES, "the kept header");
	if (d->faulted) {
		if (d->ops->dropped != NULL)
			d->ops->dropped(d->user);
		return;
	}
	weft_cur_init(&c, &frag, 1);
	(void)weft_ddp_hdr_decode(&c, &h);
	if (ddp_tagged(d, &h, &c, &turn, &term, now_ns) < 0)
		ddp_refuse(d, &term, &h, &frag, 1, len_bytes, now_ns);
}

/**
 * Place the usual segment at p: weft_ddp_expect(), in one piece, with a payload of len octets,
 * none placed ahead of it, and nothing to object to. False: ddp_segment() does it, or says what is
 * wrong.
 */
static __rte_always_inline bool
ddp_expected(struct weft_ddp *d, const uint8_t *p, uint32_t len, bool is_short)
{
	struct weft_mem_mr *mr;
	uint64_t to;

	if ((weft_get_be16(p) & ~(WEFT_DDP_CTRL_L << 8)) != d->expect_ctrl)
		return false;
	to = weft_get_be64(p + WEFT_DDP_T_TO_OFF);
	mr = weft_mem_lookup(d->mem, weft_get_be32(p + WEFT_DDP_T_STAG_OFF));
	if (unlikely(mr == NULL || !weft_mem_allows(mr, &d->scope, to, len, d->expect_access)))
		return false;
	if (!is_short)
		weft_mem_place_run(mr, to, p + WEFT_DDP_TAGGED_HDR_BYTES, len);
	else if (likely(mr->persist == NULL))
		weft_mem_place_short(mr, to, p + WEFT_DDP_TAGGED_HDR_BYTES, len);
	else
		return false;
	return likely(!weft_medium_lost_any()); /* perhaps of this region, and during the copy */
}

/** Place an answer that rdmap awaits, at p, if there is nothing to object to: as ddp_expected(). */
static inline bool
ddp_answer(struct weft_ddp *d, const uint8_t *p, uint32_t len)
{
	const bool last = (p[0] & WEFT_DDP_CTRL_L) != 0;
	const uint32_t stag = weft_get_be32(p + WEFT_DDP_T_STAG_OFF);
	const uint64_t to = weft_get_be64(p + WEFT_DDP_T_TO_OFF);
	struct weft_mem_mr *mr;
	uint32_t access;

	if (d->expect_ctrl == 0 || (p[0] & ~WEFT_DDP_CTRL_L) != (WEFT_DDP_CTRL_T | DDP_VERSION))
		return false;
	access = d->ops->answer(d->user, p[WEFT_DDP_RSVDULP_OFF], last, stag, to, len);
	if (access == 0)
		return false;
	mr = weft_mem_lookup(d->mem, stag);
	if (unlikely(mr == NULL || !weft_mem_allows(mr, &d->scope, to, len, access)))
		return false;
	if (len <= WEFT_COPY_SHORT_BYTES && likely(mr->persist == NULL))
		weft_mem_place_short(mr, to, p + WEFT_DDP_TAGGED_HDR_BYTES, len);
	else
		weft_mem_place_run(mr, to, p + WEFT_DDP_TAGGED_HDR_BYTES, len);
	if (unlikely(weft_medium_lost_any()))
		return false;
	d->ops->answered(d->user, len, last);
	return true;
}

/** Hand up the usual untagged segment: a whole Send, in one piece, that is in sequence. */
static inline bool
ddp_sent(struct weft_ddp *d, const uint8_t *p, uint32_t len_bytes)
{
	/* T is 0, L is 1, and the reserved bits are 0 */
	const uint16_t ctrl = (uint16_t)((WEFT_DDP_CTRL_L | DDP_VERSION) << 8 | d->expect_send);
	uint32_t *msn = &d->rx_msn[WEFT_DDP_QN_SEND];

	if (len_bytes < WEFT_DDP_UNTAGGED_HDR_BYTES || weft_get_be16(p) != ctrl ||
	    d->expect_send == 0 || weft_get_be32(p + WEFT_DDP_U_QN_OFF) != WEFT_DDP_QN_SEND ||
	    weft_get_be32(p + WEFT_DDP_U_MSN_OFF) != *msn ||
	    weft_get_be32(p + WEFT_DDP_U_MO_OFF) != 0 || d->rx_mo[WEFT_DDP_QN_SEND] != 0)
		return false;
	++*msn; /* first: the up-call may destroy the stream */
	if (likely(d->ops->sent(d->user, p + WEFT_DDP_UNTAGGED_HDR_BYTES,
	                        len_bytes - WEFT_DDP_UNTAGGED_HDR_BYTES)))
		return true;
	--*msn;
	return false;
}

/** Hand up a whole message of queue 1, in one piece, that is in sequence and has `expect_ask`. */
static inline bool
ddp_asked(struct weft_ddp *d, const uint8_t *p, uint32_t len_bytes)
{
	uint32_t *msn = &d->rx_msn[WEFT_DDP_QN_READ];

	/* T is 0, L is 1, and the reserved bits are 0 */
	if (p[0] != (WEFT_DDP_CTRL_L | DDP_VERSION) ||
	    weft_get_be32(p + WEFT_DDP_U_QN_OFF) != WEFT_DDP_QN_READ ||
	    weft_get_be32(p + WEFT_DDP_U_MSN_OFF) != *msn ||
	    weft_get_be32(p + WEFT_DDP_U_MO_OFF) != 0 || d->rx_mo[WEFT_DDP_QN_READ] != 0 ||
	    !d->ops->asked(d->user, p, len_bytes - WEFT_DDP_UNTAGGED_HDR_BYTES))
		return false;
	++*msn;
	return true;
}

/*
 * The functions for all that is not a short Write are not inline, so that ddp_ulpdu() saves no
 * registers for their calls.
 */

/** An answer that rdmap awaits is placed if there is nothing to object to, as by ddp_expected(). */
static __rte_noinline void
ddp_ulpdu_answer(struct weft_ddp *d, const struct weft_frag *frag, unsigned int nfrags,
                 uint32_t len_bytes, uint64_t now_ns)
{
	if (unlikely(!ddp_answer(d, frag->p, len_bytes - WEFT_DDP_TAGGED_HDR_BYTES)))
		ddp_segment(d, frag, nfrags, len_bytes, now_ns);
}

/** A Write of any length to any region, in one piece, none placed ahead of it. */
static __rte_noinline void
ddp_ulpdu_tagged(struct weft_ddp *d, const struct weft_frag *frag, unsigned int nfrags,
                 uint32_t len_bytes, uint64_t now_ns)
{
	/* Once a medium was lost these ways would copy in vain: they cannot tell whose. */
	if (len_bytes <= WEFT_DDP_TAGGED_HDR_BYTES || unlikely(weft_medium_lost_any()))
		ddp_segment(d, frag, nfrags, len_bytes, now_ns);
	else if (frag->p[WEFT_DDP_RSVDULP_OFF] != (uint8_t)d->expect_ctrl)
		ddp_ulpdu_answer(d, frag, nfrags, len_bytes, now_ns);
	else if (likely(ddp_expected(d, frag->p, len_bytes - WEFT_DDP_TAGGED_HDR_BYTES, false)))
		d->ops->written(d->user, len_bytes - WEFT_DDP_TAGGED_HDR_BYTES,
		                (frag->p[0] & WEFT_DDP_CTRL_L) != 0);
	else
		ddp_segment(d, frag, nfrags, len_bytes, now_ns);
}

/** An untagged segment in one piece that has `expect_ask`. */
static __rte_noinline void
ddp_ulpdu_asked(struct weft_ddp *d, const struct weft_frag *frag, unsigned int nfrags,
                uint32_t len_bytes, uint64_t now_ns)
{
	if (!ddp_asked(d, frag->p, len_bytes))
		ddp_segment(d, frag, nfrags, len_bytes, now_ns);
}

/** An untagged segment in one piece. */
static __rte_noinline void
ddp_ulpdu_untagged(struct weft_ddp *d, const struct weft_frag *frag, unsigned int nfrags,
                   uint32_t len_bytes, uint64_t now_ns)
{
	if (ddp_sent(d, frag->p, len_bytes))
		return;
	if (len_bytes >= WEFT_DDP_UNTAGGED_HDR_BYTES && d->expect_ask != 0 &&
	    frag->p[WEFT_DDP_RSVDULP_OFF] == d->expect_ask)
		ddp_ulpdu_asked(d, frag, nfrags, len_bytes, now_ns);
	else
		ddp_segment(d, frag, nfrags, len_bytes, now_ns);
}

static void
ddp_ulpdu(void *user, const struct weft_frag *frag, unsigned int nfrags, uint32_t len_bytes,
          uint64_t now_ns)
{
	struct weft_ddp *d = user;

	if (unlikely(nfrags != 1 || d->faulted || d->ahead != NULL || len_bytes == 0))
		ddp_segment(d, frag, nfrags, len_bytes, now_ns);
	else if ((frag->p[0] & WEFT_DDP_CTRL_T) == 0)
		ddp_ulpdu_untagged(d, frag, nfrags, len_bytes, now_ns);
	else if (len_bytes > WEFT_DDP_TAGGED_HDR_BYTES &&
	         len_bytes <= WEFT_DDP_TAGGED_HDR_BYTES + WEFT_COPY_SHORT_BYTES &&
	         likely(ddp_expected(d, frag->p, len_bytes - WEFT_DDP_TAGGED_HDR_BYTES, true)))
		d->ops->written(d->user, len_bytes - WEFT_DDP_TAGGED_HDR_BYTES,
		                (frag->p[0] & WEFT_DDP_CTRL_L) != 0);
	else
		ddp_ulpdu_tagged(d, frag, nfrags, len_bytes, now_ns);
}

void
weft_ddp_expect(struct weft_ddp *d, uint8_t rsvdulp, uint32_t access, uint8_t send, uint8_t ask)
{
	d->expect_ask = ask;
	d->expect_send = send;
	d->expect_ctrl = rsvdulp != 0 ? (WEFT_DDP_CTRL_T | DDP_VERSION) << 8 | rsvdulp : 0;
	d->expect_access = access;
}

static void
ddp_mpa_fault(void *user, const struct weft_term *term)
{
	struct weft_ddp *d = user;

	if (d->faulted)
		return;
	d->faulted = true;
	d->ops->fault(d->user, term, NULL, NULL, 0, 0, d->mpa->sched->now_ns);
}

static void
ddp_reply(void *user, const struct weft_mpa_frame *rep)
{
	struct weft_ddp *d = user;

	d->ops->reply(d->user, rep);
}

static void
ddp_writable(void *user)
{
	struct weft_ddp *d = user;

	d->ops->writable(d->user);
}

static void
ddp_mulpdu(void *user, uint16_t mulpdu_bytes)
{
	/* weft_ddp_max_payload() reads the MULPDU for every segment. */
	(void)user;
	(void)mulpdu_bytes;
}

static void
ddp_eof(void *user)
{
	struct weft_ddp *d = user;

	d->ops->eof(d->user);
}

static void
ddp_closed(void *user, int err)
{
	struct weft_ddp *d = user;

	d->ops->closed(d->user, err);
}

const struct weft_mpa_ops weft_ddp_mpa_ops = {
        .reply = ddp_reply,
        .ulpdu = ddp_ulpdu,
        .ulpdu_ahead = ddp_ulpdu_ahead,
        .ulpdu_placed = ddp_ulpdu_placed,
        .writable = ddp_writable,
        .mulpdu = ddp_mulpdu,
        .fault = ddp_mpa_fault,
        .eof = ddp_eof,
        .closed = ddp_closed,
};
