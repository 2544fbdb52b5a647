/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_WR_H
#define VERBS_WR_H

/** @file Posted work requests as the queues hold them, and their local memory. */

#include "weft_mem_find.h"
#include "weft_rdmap.h"
#include "weft_verbs_qp.h"

/** A part of a chain (weft_verbs_chain.h): completes with the last part, not by itself. */
#define VERBS_CHAIN_PART 0x1
#define VERBS_CHAIN_LAST 0x2
#define VERBS_WATCHED    0x4 /**< a Verify in the watch list */

/** Slots of the send queue begin with a cache line: the one that a short Write or Send uses. */
#define VERBS_SQE_ALIGN 64

/** One posted send work request. */
struct verbs_sqe {
	struct weft_rdmap_req req;
	uint64_t wr_id;
	/** VERIFY, atomics: receives the hash, or the original value; else NULL */
	void *result;
	union {
		uint32_t result_bytes;
		uint32_t range; /**< VERBS_CHAIN_PART: for weft_wc.commit */
	};
	union {
		uint32_t lkey;  /**< READ: lkey of the sink */
		uint32_t watch; /**< VERBS_WATCHED: its number */
	};
	uint8_t opcode; /**< enum weft_wc_opcode */
	bool signaled;
	/** sent, not signaled, and of no chain: its success only frees its place */
	bool silent;
	uint8_t status; /**< enum weft_wc_status, once req.done */
	bool keyed;     /**< some piece has an lkey */
	bool inlined;   /**< the payload is behind the structure */
	uint8_t chain;  /**< VERBS_CHAIN_*, VERBS_WATCHED */
	uint8_t step;   /**< VERBS_CHAIN_PART: for weft_wc.commit */
	/* followed by max_send_sge pieces if they may be more than fit req.sge; max_inline_bytes */
};

/** One posted receive; followed by the number of pieces chosen at the QP's creation. */
struct verbs_rqe {
	uint64_t wr_id;
	uint8_t nsge;
	bool keyed; /**< some piece has an lkey */
	struct weft_rdmap_sge sge[];
};

#define VERBS_RWR_MAX_BYTES                                                                        \
	(sizeof(struct verbs_rqe) + WEFT_MAX_SGE * sizeof(struct weft_rdmap_sge))
#define VERBS_SWR_MAX_BYTES                                                                        \
	RTE_ALIGN_CEIL(sizeof(struct verbs_sqe) + WEFT_MAX_SGE * sizeof(struct weft_rdmap_sge) +   \
	                       WEFT_MAX_INLINE,                                                    \
	               VERBS_SQE_ALIGN)

static inline struct verbs_sqe *
verbs_sqe_at(const struct weft_qp *qp, uint32_t i)
{
	return (struct verbs_sqe *)(void *)(qp->sq + (size_t)(i & qp->sq_mask) * qp->sqe_bytes);
}

static inline struct verbs_rqe *
verbs_rqe_at(const struct weft_qp *qp, uint32_t i)
{
	return (struct verbs_rqe *)(void *)(qp->rq + (size_t)(i & qp->rq_mask) * qp->rqe_bytes);
}

/** Whether a request is executed locally and never sent. */
static inline bool
verbs_is_local(const struct verbs_sqe *s)
{
	return (s->opcode & WEFT_WC_FAST_REG) != 0;
}

/* ---- Local memory (verbs_sge.c) ---- */

/** Copy a list of pieces; *len_bytes: total; *keyed: a piece has an lkey. -EINVAL. */
static inline int
verbs_sges(struct weft_rdmap_sge *dst, const struct weft_sge *sg, uint32_t n, uint32_t *len_bytes,
           bool *keyed)
{
	uint64_t total = 0;
	uint32_t keys = 0;

	if (unlikely(n > 0 && sg == NULL))
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++) {
		if (unlikely(sg[i].addr == NULL && sg[i].len_bytes > 0))
			return -EINVAL;
		dst[i].addr = sg[i].addr;
		dst[i].len_bytes = sg[i].len_bytes;
		dst[i].lkey = sg[i].lkey;
		keys |= sg[i].lkey;
		total += sg[i].len_bytes;
	}
	/* RFC 5041 s5.2: a message is shorter than 2^32 octets. */
	if (unlikely(total > UINT32_MAX))
		return -EINVAL;
	*keyed = keys != 0;
	*len_bytes = (uint32_t)total;
	return 0;
}

/** Pieces that do not fit the request. */
static inline struct weft_rdmap_sge *
verbs_sqe_sgl(struct verbs_sqe *s)
{
	return (struct weft_rdmap_sge *)(void *)(s + 1);
}

/** Copy the octets of a payload into slot s. -EINVAL. */
int weft_verbs_inline(const struct weft_qp *qp, struct verbs_sqe *s, const struct weft_wr *wr);

/** Put the payload of a Send or Write into slot s: its pieces, or its octets. -EINVAL. */
static inline int
verbs_gather(const struct weft_qp *qp, struct verbs_sqe *s, const struct weft_wr *wr)
{
	struct weft_rdmap_sge *dst = s->req.sge;

	if (unlikely(wr->num_sge > qp->max_send_sge))
		return -EINVAL;
	if ((wr->flags & WEFT_WR_INLINE) != 0)
		return weft_verbs_inline(qp, s, wr);
	if (unlikely(wr->num_sge > WEFT_RDMAP_MAX_SGE)) {
		dst = verbs_sqe_sgl(s);
		s->req.sgl = dst;
	}
	s->req.nsge = (uint8_t)wr->num_sge;
	return verbs_sges(dst, wr->sg_list, wr->num_sge, &s->req.len_bytes, &s->keyed);
}

/** The slot was copied: correct its pointers to its own parts. */
void weft_verbs_sqe_moved(const struct weft_qp *qp, struct verbs_sqe *s);
/** Whether a piece with an lkey allows `access`. Worker only (RCU). */
static inline bool
verbs_lkey_ok(struct weft_mem *mem, const struct weft_mem_pd *pd, const struct weft_rdmap_sge *sge,
              uint32_t access)
{
	const struct weft_mem_mr *mr;
	uint64_t off;

	if (sge->lkey == 0 || sge->len_bytes == 0)
		return true;
	mr = weft_mem_lookup(mem, sge->lkey);
	if (unlikely(mr == NULL))
		return false;
	off = (uintptr_t)sge->addr - (uintptr_t)mr->addr; /* of an address before it: too long */
	return off < weft_mem_len(mr) &&
	       weft_mem_check(mr, pd, mr->base_to + off, sge->len_bytes, access) == WEFT_MEM_OK;
}

/** The same for every piece of a list. */
bool weft_verbs_lkeys_ok(struct weft_mem *mem, const struct weft_mem_pd *pd,
                         const struct weft_rdmap_sge *sge, uint32_t n, uint32_t access);
/** Size of a slot of the send queue. */
uint16_t weft_verbs_sqe_bytes(uint32_t max_send_sge, uint32_t max_inline_bytes);
/** Look up the local memory of a request. -EINVAL. Worker only (RCU). */
int weft_verbs_lookup(struct weft_qp *qp, struct verbs_sqe *s);

/* ---- Requests of RFC 7306 (verbs_atomic.c) ---- */

/** Fill a slot. -EINVAL. */
int weft_verbs_fill_atomic(struct verbs_sqe *s, const struct weft_wr *wr);
int weft_verbs_fill_imm(const struct weft_qp *qp, struct verbs_sqe *s, const struct weft_wr *wr);
/** An Atomic Operation is answered: store its result, or fail the request. */
void weft_verbs_atomic_done(struct weft_qp *qp, struct verbs_sqe *s);

/* ---- Requests that are executed locally (verbs_fastreg.c) ---- */

/** Fill a slot with a local work request; takes references. Any thread. */
int weft_verbs_local_fill(const struct weft_qp *qp, struct verbs_sqe *s, const struct weft_wr *wr);
/** The request has ended: release its references. */
void weft_verbs_local_put(struct verbs_sqe *s);
/** Release those of requests that will never complete; the QP is about to be freed. */
void weft_verbs_local_drop(struct weft_qp *qp);
/** rdmap's up-calls. */
enum weft_rdmap_start weft_verbs_start(void *user, struct weft_rdmap_req *req);
int weft_verbs_invalidate(void *user, uint32_t stag, struct weft_term *term);

/* ---- Free places ---- */

/** Take up to n of a count of free places that threads share. */
static inline uint32_t
verbs_credits_take(_Atomic uint32_t *credits, uint32_t n)
{
	uint32_t have = atomic_load_explicit(credits, memory_order_relaxed);
	uint32_t take;

	do {
		take = RTE_MIN(have, n);
		if (take == 0)
			return 0;
	} while (!atomic_compare_exchange_weak_explicit(
	        credits, &have, have - take, memory_order_acquire, memory_order_relaxed));
	return take;
}

/** Take n of them, or none. */
static inline bool
verbs_credits_take_all(_Atomic uint32_t *credits, uint32_t n)
{
	uint32_t have = atomic_load_explicit(credits, memory_order_relaxed);

	do {
		if (have < n)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
	        credits, &have, have - n, memory_order_acquire, memory_order_relaxed));
	return true;
}

static inline void
verbs_credits_give(_Atomic uint32_t *credits, uint32_t n)
{
	atomic_fetch_add_explicit(credits, n, memory_order_release);
}

#endif /* VERBS_WR_H */
