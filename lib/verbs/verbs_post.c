/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Posting work, from the worker and from other threads. */

#include <stdlib.h>

#include "verbs_post.h"
#include "verbs_queue.h"
#include "weft_verbs_mr.h"
#include "weft_verbs_chain.h"

/*
 * Flags that are allowed: for any request; and for one with a payload, with a Solicited Event, or
 * with both.
 */
#define WR_ANY     (WEFT_WR_SIGNALED | WEFT_WR_FENCE)
#define WR_PAYLOAD (WR_ANY | WEFT_WR_INLINE)
#define WR_SOLICIT (WR_ANY | WEFT_WR_SOLICITED)
#define WR_SEND    (WR_PAYLOAD | WR_SOLICIT)

#define VERBS_SEND_SE (WEFT_RDMAP_SEND_SE - WEFT_RDMAP_SEND) /* RFC 5040 s4.1 */
#define VERBS_IMM_SE  (WEFT_RDMAP_IMM_SE - WEFT_RDMAP_IMM)   /* RFC 7306 s4.1 */

static const struct {
	uint8_t op;      /**< RDMAP's */
	uint8_t wc;      /**< enum weft_wc_opcode */
	uint8_t solicit; /**< WEFT_WR_SOLICITED adds this to op */
	uint8_t flags;   /**< flags that are allowed */
} verbs_wr[] = {
        [WEFT_WR_SEND] = {WEFT_RDMAP_SEND, WEFT_WC_SEND, VERBS_SEND_SE, WR_SEND},
        [WEFT_WR_SEND_INV] = {WEFT_RDMAP_SEND_INV, WEFT_WC_SEND, VERBS_SEND_SE, WR_SEND},
        [WEFT_WR_WRITE] = {WEFT_RDMAP_WRITE, WEFT_WC_WRITE, 0, WR_PAYLOAD},
        [WEFT_WR_READ] = {WEFT_RDMAP_READ_REQ, WEFT_WC_READ, 0, WR_ANY},
        [WEFT_WR_FLUSH] = {WEFT_RDMAP_FLUSH_REQ, WEFT_WC_FLUSH, 0, WR_ANY},
        [WEFT_WR_VERIFY] = {WEFT_RDMAP_VERIFY_REQ, WEFT_WC_VERIFY, 0, WR_ANY},
        [WEFT_WR_ATOMIC_WRITE] = {WEFT_RDMAP_AWRITE_REQ, WEFT_WC_ATOMIC_WRITE, 0, WR_ANY},
        [WEFT_WR_FETCH_ADD] = {WEFT_RDMAP_ATOMIC_REQ, WEFT_WC_FETCH_ADD, 0, WR_ANY},
        [WEFT_WR_MASKED_FETCH_ADD] = {WEFT_RDMAP_ATOMIC_REQ, WEFT_WC_FETCH_ADD, 0, WR_ANY},
        [WEFT_WR_CMP_SWAP] = {WEFT_RDMAP_ATOMIC_REQ, WEFT_WC_CMP_SWAP, 0, WR_ANY},
        [WEFT_WR_MASKED_CMP_SWAP] = {WEFT_RDMAP_ATOMIC_REQ, WEFT_WC_CMP_SWAP, 0, WR_ANY},
        [WEFT_WR_IMM] = {WEFT_RDMAP_IMM, WEFT_WC_IMM, VERBS_IMM_SE, WR_SOLICIT},
        [WEFT_WR_WRITE_IMM] = {WEFT_RDMAP_IMM, WEFT_WC_WRITE, VERBS_IMM_SE, WR_SEND},
        /* Local: never sent. The opcode only means that no response is awaited. */
        [WEFT_WR_FAST_REG] = {WEFT_RDMAP_SEND, WEFT_WC_FAST_REG, 0, WR_ANY},
        [WEFT_WR_LOCAL_INV] = {WEFT_RDMAP_SEND, WEFT_WC_LOCAL_INV, 0, WR_ANY},
        [WEFT_WR_BIND_MW] = {WEFT_RDMAP_SEND, WEFT_WC_BIND_MW, 0, WR_ANY},
};

/**
 * Add a Verify to the watch list, so that weft_commit() refuses to write its range until it is
 * answered.
 */
static __rte_noinline int
verbs_watch(struct weft_qp *qp, struct verbs_sqe *s)
{
	int rc;

	if (s->req.len_bytes == 0)
		return 0;
	rc = weft_verbs_watch_add(qp, s->req.stag, s->req.to, s->req.len_bytes, false);
	if (rc < 0)
		return rc;
	s->watch = (uint32_t)rc;
	s->chain = VERBS_WATCHED;
	return 0;
}

/** Check a work request and fill a slot with it. Any thread. */
static __rte_noinline int
verbs_fill(struct weft_qp *qp, struct verbs_sqe *s, const struct weft_wr *wr, bool watch)
{
	struct weft_rdmap_req *req = &s->req;
	bool keyed;

	if (unlikely((unsigned int)wr->opcode >= RTE_DIM(verbs_wr) ||
	             (wr->flags & ~(uint32_t)verbs_wr[wr->opcode].flags) != 0))
		return -EINVAL;
	req->op = verbs_wr[wr->opcode].op;
	if ((wr->flags & WEFT_WR_SOLICITED) != 0)
		req->op += verbs_wr[wr->opcode].solicit;
	req->fence = (wr->flags & WEFT_WR_FENCE) != 0;
	s->opcode = verbs_wr[wr->opcode].wc;
	s->signaled = qp->all_signaled || (wr->flags & WEFT_WR_SIGNALED) != 0;
	s->wr_id = wr->wr_id;
	/* These members are adjacent, so that they are set by a few wide stores. */
	req->hook = false;
	req->imm_op = 0;
	req->hash_bytes = 0;
	req->nsge = 0;
	req->plain = false;
	req->done = false;
	req->sent_bytes = 0;
	req->got_bytes = 0;
	s->status = WEFT_WC_SUCCESS;
	s->silent = false;
	s->keyed = false;
	s->inlined = false;
	s->chain = 0;
	req->sgl = NULL;
	s->result = NULL;
	switch (wr->opcode) {
	case WEFT_WR_SEND:
	case WEFT_WR_SEND_INV:
		req->stag = wr->opcode == WEFT_WR_SEND_INV ? wr->send.inv_stag : 0;
		break;
	case WEFT_WR_WRITE:
		req->stag = wr->rdma.stag;
		req->to = wr->rdma.to;
		break;
	case WEFT_WR_READ:
		if (wr->num_sge != 1)
			return -EINVAL;
		req->stag = wr->rdma.stag;
		req->to = wr->rdma.to;
		s->lkey = wr->sg_list != NULL ? wr->sg_list[0].lkey : 0;
		return verbs_sges(req->sge, wr->sg_list, 1, &req->len_bytes, &keyed);
	case WEFT_WR_FLUSH:
		/*
		 * draft-talpey-rdma-commit-02 s2.1.1: at least one disposition must be requested.
		 */
		if ((wr->flush.flags & (WEFT_FLUSH_PERSISTENT | WEFT_FLUSH_VISIBLE)) == 0 ||
		    (wr->flush.flags & ~(uint32_t)(WEFT_FLUSH_PERSISTENT | WEFT_FLUSH_VISIBLE |
		                                   WEFT_FLUSH_REGION)) != 0)
			return -EINVAL;
		req->stag = wr->flush.stag;
		req->to = wr->flush.to;
		req->len_bytes = wr->flush.len_bytes;
		req->flush_flags = wr->flush.flags;
		return 0;
	case WEFT_WR_VERIFY:
		if (wr->verify.expect_bytes > WEFT_HASH_MAX_BYTES ||
		    (wr->verify.expect == NULL) != (wr->verify.expect_bytes == 0))
			return -EINVAL;
		req->stag = wr->verify.stag;
		req->to = wr->verify.to;
		req->len_bytes = wr->verify.len_bytes;
		req->hash_bytes = (uint8_t)wr->verify.expect_bytes;
		if (req->hash_bytes > 0)
			memcpy(req->hash, wr->verify.expect, req->hash_bytes);
		s->result = wr->verify.result;
		s->result_bytes = wr->verify.result_bytes;
		return watch ? verbs_watch(qp, s) : 0;
	case WEFT_WR_ATOMIC_WRITE:
		req->stag = wr->atomic_write.stag;
		req->to = wr->atomic_write.to;
		req->len_bytes = 8;
		memcpy(req->hash, wr->atomic_write.data, 8);
		return 0;
	case WEFT_WR_FETCH_ADD:
	case WEFT_WR_MASKED_FETCH_ADD:
	case WEFT_WR_CMP_SWAP:
	case WEFT_WR_MASKED_CMP_SWAP:
		return weft_verbs_fill_atomic(s, wr);
	case WEFT_WR_IMM:
	case WEFT_WR_WRITE_IMM:
		return weft_verbs_fill_imm(qp, s, wr);
	case WEFT_WR_FAST_REG:
	case WEFT_WR_LOCAL_INV:
	case WEFT_WR_BIND_MW:
		return weft_verbs_local_fill(qp, s, wr);
	}
	return verbs_gather(qp, s, wr);
}

/** Look up at the post, or, behind local work, when the request's turn comes. Worker only. */
static inline int
verbs_local(struct weft_qp *qp, struct verbs_sqe *s)
{
	if (unlikely(s->req.hook)) {
		qp->locals++;
		return 0;
	}
	if (likely(!s->keyed && s->opcode != WEFT_WC_READ))
		return 0;
	if (likely(qp->locals == 0)) {
		/* the usual Write or Send */
		if (likely(s->req.nsge == 1 && s->opcode <= WEFT_WC_WRITE))
			return verbs_lkey_ok(qp->vw->ctx->mem, &qp->pd->mem, s->req.sge, 0)
			               ? 0
			               : -EINVAL;
		return weft_verbs_lookup(qp, s);
	}
	/* An STag that is valid now may be invalid behind the local work, and the reverse. */
	s->req.hook = true;
	return 0;
}

/**
 * The region of the last piece of a burst: pieces of one burst are usually of one region. What it
 * is now holds for the whole burst, which is posted now.
 */
struct verbs_last_mr {
	uint32_t lkey; /**< 0: none yet */
	uint32_t access;
	uintptr_t addr;
	uint64_t len_bytes;
	uint64_t base_to;
};

/** Another region than that of the last piece: look it up. */
static __rte_noinline bool
verbs_last_mr(const struct weft_qp *qp, struct verbs_last_mr *last, uint32_t lkey)
{
	const struct weft_mem_mr *mr = weft_mem_lookup(qp->vw->ctx->mem, lkey);

	last->lkey = 0;
	if (mr == NULL || !weft_mem_in_scope(mr, &qp->pd->mem))
		return false;
	last->lkey = lkey;
	last->addr = (uintptr_t)mr->addr;
	last->len_bytes = weft_mem_len(mr);
	last->base_to = mr->base_to;
	last->access = weft_mem_access(mr);
	return true;
}

/** verbs_lkey_ok() for reading, which keeps the region that it found. */
static inline bool
verbs_usual_ok(const struct weft_qp *qp, struct verbs_last_mr *last, const struct weft_sge *sg)
{
	uint64_t off;

	if (sg->lkey == 0 || sg->len_bytes == 0)
		return true;
	if (unlikely(sg->lkey != last->lkey) && !verbs_last_mr(qp, last, sg->lkey))
		return false;
	off = (uintptr_t)sg->addr - last->addr; /* of an address before it: too long */
	return off < last->len_bytes && sg->len_bytes <= last->len_bytes - off;
}

/**
 * The members that verbs_fill_usual() and verbs_fill_read() set alike. Adjacent ones are set
 * together, so that a few wide stores do it.
 */
static __rte_always_inline void
verbs_fill_plain(const struct weft_qp *qp, struct verbs_sqe *s, const struct weft_wr *wr,
                 uint8_t op, uint8_t opcode, bool plain)
{
	const struct weft_sge *sg = wr->sg_list;
	struct weft_rdmap_req *req = &s->req;

	req->op = op;
	req->fence = false;
	req->hook = false;
	req->imm_op = 0;
	req->hash_bytes = 0;
	req->nsge = plain;
	req->plain = plain;
	req->done = false;
	req->sge[0].addr = sg->addr;
	req->sge[0].len_bytes = sg->len_bytes;
	req->sge[0].lkey = sg->lkey;
	req->len_bytes = sg->len_bytes;
	req->to = wr->rdma.to; /* a Send has none, and does not read it */
	req->sent_bytes = 0;
	req->got_bytes = 0;
	s->wr_id = wr->wr_id;
	s->result = NULL;
	s->opcode = opcode;
	s->signaled = qp->all_signaled || wr->flags != 0;
	s->silent = !s->signaled;
	s->status = WEFT_WC_SUCCESS;
	s->keyed = false; /* was looked up just now, and is not again */
	s->inlined = false;
	s->chain = 0;
	s->step = 0;
}

/**
 * Fill a slot with the usual request of a burst: a Write or Send of one piece, with no flag but
 * WEFT_WR_SIGNALED, and no local work before it. False: verbs_fill() does it, or says what is
 * wrong.
 */
static inline bool
verbs_fill_usual(const struct weft_qp *qp, struct verbs_last_mr *last, struct verbs_sqe *s,
                 const struct weft_wr *wr)
{
	const struct weft_sge *sg = wr->sg_list;
	const bool write = wr->opcode == WEFT_WR_WRITE;

	if ((!write && wr->opcode != WEFT_WR_SEND) || wr->num_sge != 1 || sg == NULL ||
	    sg->addr == NULL || (wr->flags & ~(uint32_t)WEFT_WR_SIGNALED) != 0 || qp->locals != 0 ||
	    !verbs_usual_ok(qp, last, sg))
		return false;
	verbs_fill_plain(qp, s, wr, write ? WEFT_RDMAP_WRITE : WEFT_RDMAP_SEND,
	                 write ? WEFT_WC_WRITE : WEFT_WC_SEND, true);
	s->req.stag = write ? wr->rdma.stag : 0;
	return true;
}

/**
 * The same for the usual Read: with no flag but WEFT_WR_SIGNALED, of some octets, into a region
 * that allows it, and no local work before it.
 */
static __rte_noinline bool
verbs_fill_read(const struct weft_qp *qp, struct verbs_last_mr *last, struct verbs_sqe *s,
                const struct weft_wr *wr)
{
	const struct weft_sge *sg = wr->sg_list;
	struct weft_rdmap_req *req = &s->req;

	if (wr->opcode != WEFT_WR_READ || wr->num_sge != 1 || sg == NULL || sg->addr == NULL ||
	    sg->lkey == 0 || sg->len_bytes == 0 || (wr->flags & ~(uint32_t)WEFT_WR_SIGNALED) != 0 ||
	    qp->locals != 0 || !verbs_usual_ok(qp, last, sg) ||
	    (last->access & WEFT_ACCESS_LOCAL_WRITE) == 0)
		return false;
	verbs_fill_plain(qp, s, wr, WEFT_RDMAP_READ_REQ, WEFT_WC_READ, false);
	req->stag = wr->rdma.stag;
	req->sgl = NULL;
	req->sink_stag = sg->lkey;
	req->sink_to = last->base_to + ((uintptr_t)sg->addr - last->addr);
	s->lkey = sg->lkey;
	return true;
}

/** The ring for posts of other threads, made by the first one that needs it. NULL: no memory. */
static struct rte_ring *
verbs_foreign_ring(struct rte_ring *_Atomic *at, unsigned int esize, uint32_t count, bool inplace)
{
	struct rte_ring *r = atomic_load_explicit(at, memory_order_acquire), *mine;

	if (likely(r != NULL))
		return r;
	mine = weft_verbs_ring_mpsc(esize, count, inplace);
	if (mine == NULL)
		return NULL;
	if (atomic_compare_exchange_strong_explicit(at, &r, mine, memory_order_acq_rel,
	                                            memory_order_acquire))
		return mine;
	free(mine);
	return r;
}

static void
verbs_ring_doorbell(struct weft_qp *qp)
{
	if (atomic_exchange_explicit(&qp->doorbell_rung, 1, memory_order_acq_rel) == 0) {
		weft_verbs_qp_ref(qp);
		weft_work_send(&qp->vw->work, &qp->doorbell);
	}
}

/**
 * Before a post of the owner: take in earlier posts of other threads, which a callback may know of.
 * A post whose doorbell has not been rung has not returned, so no thread knows of it.
 */
static inline void
verbs_foreign_first(struct weft_qp *qp)
{
	if (unlikely(atomic_load_explicit(&qp->doorbell_rung, memory_order_acquire) != 0))
		weft_verbs_take_posts(qp);
}

int
weft_verbs_fill(struct weft_qp *qp, struct verbs_sqe *s, const struct weft_wr *wr)
{
	return verbs_fill(qp, s, wr, false);
}

int
weft_verbs_local(struct weft_qp *qp, struct verbs_sqe *s)
{
	return verbs_local(qp, s);
}

struct rte_ring *
weft_verbs_sq_ring(struct weft_qp *qp)
{
	return verbs_foreign_ring(&qp->sq_ring, qp->sqe_bytes, qp->sq_depth, true);
}

void
weft_verbs_ring_doorbell(struct weft_qp *qp)
{
	verbs_ring_doorbell(qp);
}

void
weft_verbs_foreign_first(struct weft_qp *qp)
{
	verbs_foreign_first(qp);
}

static_assert(sizeof(struct verbs_sqe) % 8 == 0 && sizeof(struct verbs_rqe) % 8 == 0 &&
                      sizeof(struct weft_rdmap_sge) % 8 == 0,
              "elements of an rte_ring");

/** Requests of another thread are filled here before they are enqueued together. */
#define FOREIGN_BYTES 4096
static_assert(FOREIGN_BYTES >= VERBS_SWR_MAX_BYTES && FOREIGN_BYTES >= VERBS_RWR_MAX_BYTES,
              "one fits");

static int
verbs_post_send_foreign(struct weft_qp *qp, const struct weft_wr *wr, unsigned int n)
{
	struct rte_ring *r = weft_verbs_sq_ring(qp);
	const unsigned int most = FOREIGN_BYTES / qp->sqe_bytes;
	alignas(8) uint8_t s[FOREIGN_BYTES];
	unsigned int take, done = 0;
	int rc = 0;

	if (r == NULL)
		return -ENOMEM;
	take = verbs_credits_take(&qp->sq_credits, n);
	if (take == 0)
		return -EAGAIN;
	while (rc == 0 && done < take) {
		unsigned int burst = RTE_MIN(take - done, most), i = 0;

		while (i < burst &&
		       (rc = verbs_fill(qp, (struct verbs_sqe *)(void *)(s + i * qp->sqe_bytes),
		                        &wr[done + i], true)) == 0)
			i++;
		/* A credit is a place of the ring, so there is room. */
		WEFT_TSAN_RELEASE(r);
		if (i > 0)
			(void)rte_ring_enqueue_bulk_elem(r, s, qp->sqe_bytes, i, NULL);
		done += i;
	}
	if (done < take)
		verbs_credits_give(&qp->sq_credits, take - done);
	if (done > 0)
		verbs_ring_doorbell(qp);
	return done > 0 ? (int)done : rc;
}

/** Why nothing was posted: the error to return. */
static __rte_noinline int
verbs_post_refused(struct weft_qp *qp, const void *wr, unsigned int n, uint32_t gate, int err)
{
	if (WEFT_HANDLE_BAD(qp, QP))
		return -EINVAL;
	if ((atomic_load_explicit(WEFT_ATOMIC_REF(qp->h.gate), memory_order_relaxed) & gate) != 0 &&
	    n > 0)
		return err;
	return wr == NULL && n > 0 ? -EINVAL : 0;
}

int
weft_post_send(struct weft_qp *qp, const struct weft_wr *wr, unsigned int n)
{
	const uint32_t shut = QP_GATE_SEND | WEFT_GATE_GONE;
	struct weft_rdmap_req_list reqs = TAILQ_HEAD_INITIALIZER(reqs);
	struct verbs_last_mr last = {0};
	unsigned int take, i;
	int rc = 0;

	if (unlikely(qp == NULL || wr == NULL || n == 0 ||
	             (atomic_load_explicit(WEFT_ATOMIC_REF(qp->h.gate), memory_order_acquire) &
	              shut) != 0))
		return verbs_post_refused(qp, wr, n, QP_GATE_SEND, -ENOTCONN);
	if (!weft_vworker_is_mine(qp->vw))
		return verbs_post_send_foreign(qp, wr, n);
	verbs_foreign_first(qp);
	if (unlikely(qp->sq == NULL) && !weft_verbs_sq_wake(qp))
		return -ENOMEM;
	take = verbs_credits_take(&qp->sq_credits, n);
	if (unlikely(take == 0))
		return -EAGAIN;
	for (i = 0; i < take; i++) {
		struct verbs_sqe *s = verbs_sqe_at(qp, qp->sq_tail);

		if (!verbs_fill_usual(qp, &last, s, &wr[i]) &&
		    !verbs_fill_read(qp, &last, s, &wr[i])) {
			rc = verbs_fill(qp, s, &wr[i], true);
			if (likely(rc == 0))
				rc = verbs_local(qp, s);
			if (unlikely(rc < 0))
				break;
		}
		qp->sq_tail++;
		TAILQ_INSERT_TAIL(&reqs, &s->req, link);
	}
	if (likely(i > 0))
		weft_rdmap_post_list(qp->rdmap, &reqs);
	if (unlikely(i < take))
		verbs_credits_give(&qp->sq_credits, take - i);
	return i > 0 ? (int)i : rc;
}

static int
verbs_fill_recv(const struct weft_qp *qp, struct verbs_rqe *r, const struct weft_recv_wr *wr)
{
	uint32_t len_bytes;

	const struct weft_sge *sg = wr->sg_list;

	if (unlikely(wr->num_sge > qp->max_sge))
		return -EINVAL;
	r->wr_id = wr->wr_id;
	if (likely(wr->num_sge == 1 && sg != NULL && sg->addr != NULL)) { /* the usual one */
		r->nsge = 1;
		r->keyed = sg->lkey != 0;
		r->sge[0] = (struct weft_rdmap_sge){sg->addr, sg->len_bytes, sg->lkey};
		return 0;
	}
	r->nsge = (uint8_t)wr->num_sge;
	return verbs_sges(r->sge, wr->sg_list, wr->num_sge, &len_bytes, &r->keyed);
}

static int
verbs_post_recv_foreign(struct weft_qp *qp, const struct weft_recv_wr *wr, unsigned int n)
{
	struct rte_ring *r = verbs_foreign_ring(&qp->rq_ring, qp->rqe_bytes, qp->rq_depth, false);
	const unsigned int most = FOREIGN_BYTES / qp->rqe_bytes;
	alignas(8) uint8_t s[FOREIGN_BYTES];
	unsigned int take, done = 0;
	int rc = 0;

	if (r == NULL)
		return -ENOMEM;
	take = verbs_credits_take(&qp->rq_credits, n);
	if (take == 0)
		return -EAGAIN;
	while (rc == 0 && done < take) {
		unsigned int burst = RTE_MIN(take - done, most), i = 0;

		while (i < burst &&
		       (rc = verbs_fill_recv(qp,
		                             (struct verbs_rqe *)(void *)(s + i * qp->rqe_bytes),
		                             &wr[done + i])) == 0)
			i++;
		WEFT_TSAN_RELEASE(r);
		if (i > 0)
			(void)rte_ring_mp_enqueue_bulk_elem(r, s, qp->rqe_bytes, i, NULL);
		done += i;
	}
	if (done < take)
		verbs_credits_give(&qp->rq_credits, take - done);
	if (done > 0)
		verbs_ring_doorbell(qp);
	return done > 0 ? (int)done : rc;
}

int
weft_post_recv(struct weft_qp *qp, const struct weft_recv_wr *wr, unsigned int n)
{
	const uint32_t shut = QP_GATE_RECV | WEFT_GATE_GONE;
	unsigned int take, i;
	int rc = 0;

	if (unlikely(qp == NULL || wr == NULL || n == 0 ||
	             (atomic_load_explicit(WEFT_ATOMIC_REF(qp->h.gate), memory_order_acquire) &
	              shut) != 0))
		return verbs_post_refused(qp, wr, n, QP_GATE_RECV, -EINVAL);
	if (!weft_vworker_is_mine(qp->vw))
		return verbs_post_recv_foreign(qp, wr, n);
	verbs_foreign_first(qp);
	take = verbs_credits_take(&qp->rq_credits, n);
	if (unlikely(take == 0))
		return -EAGAIN;
	for (i = 0; i < take; i++) {
		struct verbs_rqe *r = verbs_rqe_at(qp, qp->rq_tail);

		rc = verbs_fill_recv(qp, r, &wr[i]);
		if (rc == 0 && unlikely(r->keyed) &&
		    !weft_verbs_lkeys_ok(qp->vw->ctx->mem, &qp->pd->mem, r->sge, r->nsge,
		                         WEFT_ACCESS_LOCAL_WRITE))
			rc = -EINVAL;
		if (unlikely(rc < 0))
			break;
		qp->rq_tail++;
	}
	if (unlikely(i < take))
		verbs_credits_give(&qp->rq_credits, take - i);
	if (unlikely(qp->rq_dead))
		weft_verbs_rq_flush(qp);
	return i > 0 ? (int)i : rc;
}

/**
 * There is no memory for the send queue, but other threads were told that their posts were
 * accepted. The stream ends, and each request gets its completion. The queue is empty, so no
 * request is before them.
 */
static void
verbs_refuse_posts(struct weft_qp *qp, struct rte_ring *sr)
{
	alignas(8) uint8_t buf[VERBS_SWR_MAX_BYTES];
	struct verbs_sqe *s = (void *)buf;

	WEFT_LOG_PEER(verbs, ERR, "qp %u: no memory for its send queue", qp->qpn);
	while (weft_verbs_ring_take(sr, buf, qp->sqe_bytes))
		weft_verbs_sq_drop(qp, s);
	if (qp->rdmap != NULL)
		weft_verbs_qp_abort_later(qp);
}

void
weft_verbs_take_posts(struct weft_qp *qp)
{
	struct rte_ring *sr = atomic_load_explicit(&qp->sq_ring, memory_order_acquire);

	/* Receives first, because the answer to what is sent next may use them. */
	(void)weft_verbs_take_receives(qp);
	if (qp->rdmap != NULL && qp->rq_dead)
		weft_verbs_rq_flush(qp);
	while (sr != NULL && rte_ring_count(sr) > 0) {
		struct verbs_sqe *s;

		if (unlikely(qp->sq == NULL) && !weft_verbs_sq_wake(qp)) {
			verbs_refuse_posts(qp, sr);
			break;
		}
		s = verbs_sqe_at(qp, qp->sq_tail);
		if (!weft_verbs_ring_take(sr, s, qp->sqe_bytes))
			break;
		weft_verbs_sqe_moved(qp, s);
		qp->sq_tail++;
		if (qp->rdmap == NULL)
			continue; /* being destroyed: the caller flushes */
		/*
		 * Requests of other threads are looked up only here, on the worker. A bad one is
		 * looked up again when its turn comes. It then fails, and a Terminate ends the
		 * stream (RFC 5040 s7.1 case 1).
		 */
		if (verbs_local(qp, s) < 0)
			s->req.hook = true;
		weft_rdmap_post(qp->rdmap, &s->req);
	}
}

void
weft_verbs_doorbell_run(struct weft_work_item *m)
{
	struct weft_qp *qp = container_of(m, struct weft_qp, doorbell);

	/* Cleared before the rings are read, so that a later post rings again. */
	atomic_exchange_explicit(&qp->doorbell_rung, 0, memory_order_acq_rel);
	if (!qp->dead)
		weft_verbs_take_posts(qp);
	weft_verbs_qp_unref(qp);
}
