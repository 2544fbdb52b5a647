/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_IRQ_H
#define RDMAP_IRQ_H

/**
 * @file
 * The inbound request queue (IRQ): an entry, the ring, and what the request that executes holds.
 */

#include <weft/gate.h>

#include "rdmap_stream.h"

/** struct rdmap_work is freed after one to two of these without a request of the peer. */
#define RDMAP_REST_NS (1 * WEFT_NS_PER_S)

enum rdmap_irq_state {
	RDMAP_IRQ_QUEUED, /**< waiting or being executed */
	RDMAP_IRQ_DONE,   /**< executed; the response may be sent */
	RDMAP_IRQ_FAILED, /**< a Terminate follows when every earlier request is answered */
};

/** One entry of the inbound request queue. */
struct rdmap_irq_ent {
	uint8_t op;
	uint8_t state;
	/** Verify, QUEUED: octets of the expected hash. DONE: octets of the response's payload. */
	uint8_t hash_bytes;
	struct weft_term term;  /**< FAILED: the Terminate */
	struct weft_mem_mr *mr; /**< valid while executed; NULL for a zero-length Read. With `held`
	                           the entry has a reference; else valid in this poll only. */
	bool passed;            /**< the gate of its region has let it go on */
	bool held;              /**< Flush: executed even when its STag is invalidated meanwhile */
	uint64_t to;
	uint64_t len_bytes; /**< a Flush of a whole region may exceed 32 bits */
	uint32_t stag;
	uint32_t flags;     /**< Flush: disposition; Atomic: Request Identifier */
	uint32_t sink_stag; /**< Read */
	uint64_t sink_to;
	uint32_t sent_bytes; /**< Read: octets of the response sent so far */
	uint32_t seg_bytes;  /**< for a Terminate: length of the request's segment, and header */
	uint8_t hdr[WEFT_DDP_UNTAGGED_HDR_BYTES];
	union {
		/** Verify: the hash; Atomic Write: the data; Atomic, DONE: the response */
		uint8_t hash[WEFT_HASH_MAX_BYTES];
		struct weft_rdmap_atomic atomic; /**< Atomic, QUEUED: the operands */
	};
};

/** State of the one persist request that a stream may have. */
enum rdmap_persist_state {
	RDMAP_PIO_IDLE,
	RDMAP_PIO_BUSY,  /**< the driver has the request */
	RDMAP_PIO_READY, /**< complete: status is valid; data of a read-back is not yet released */
};

/**
 * State for executing the peer's Reads, Flushes, Verifies, Atomics and Atomic Writes. Allocated at
 * the first such request and freed after RDMAP_REST_NS without one, so an idle stream is small.
 */
struct rdmap_work {
	struct weft_persist_req persist;
	enum rdmap_persist_state persist_state;
	bool persist_read;                /**< the persist request is a read-back */
	struct weft_mem_mr *persist_mr;   /**< the persist request's own reference */
	uint32_t persist_off_bytes;       /**< octets of the read-back's data hashed so far */
	const struct weft_hash_ops *hash; /**< of the Verify being executed, else NULL */
	uint64_t hash_pos_bytes;
	struct weft_gate_wait gate; /**< of the request that waits at a gate, */
	struct weft_mem_mr *gated;  /**< and its region, with a reference; NULL: none waits */
	uint64_t gate_bytes;        /**< received octets that a gate has charged */
	struct weft_slice slice; /**< budget of hashing and of synchronous flushes and read-backs */
	struct weft_turn turn;   /**< turn for a read-back or a flush that blocks */
	struct weft_hash_state hash_state;
	struct rdmap_irq_ent irq[]; /**< ring; size a power of two, free-running indexes */
};

/** Whether a persist driver has the stream's persist request. */
static inline bool
rdmap_persist_busy(const struct weft_rdmap *r)
{
	return r->work != NULL && r->work->persist_state == RDMAP_PIO_BUSY;
}

static inline struct rdmap_irq_ent *
rdmap_irq_at(const struct weft_rdmap *r, uint32_t i)
{
	return &r->work->irq[i & r->irq_mask];
}

static inline uint32_t
rdmap_irq_depth(const struct weft_rdmap *r)
{
	return r->irq_tail - r->irq_head;
}

/** Set the size of the queue, which must be empty: room for `ird` requests. */
void rdmap_irq_size(struct weft_rdmap *r, uint16_t ird);
/** Free r->work if idle and no request arrived since the last call. True: r->work is NULL. */
bool rdmap_irq_rest(struct weft_rdmap *r);
/** Allocate r->work at the first request after a rest. False: no memory. */
bool rdmap_irq_wake(struct weft_rdmap *r);
/** Fill *term: layer RDMA, remote operation error, code. -EPROTO. */
int rdmap_irq_refuse(struct weft_term *term, uint8_t code);
/** Fill *term: layer RDMA, remote protection error, the code of err. -EPROTO. */
int rdmap_irq_bad(struct weft_term *term, enum weft_mem_err err);
/** Mark the entry as failed in its place. Later segments of the peer are dropped. */
void rdmap_irq_set_failed(struct weft_rdmap *r, struct rdmap_irq_ent *e,
                          const struct weft_term *term);
/** Count a request that is refused because its STag was revoked. */
void rdmap_irq_count_revoked(struct weft_rdmap *r, const struct rdmap_irq_ent *e);
/** The request that is executed waits at no gate any more, and keeps no region for that. */
void rdmap_irq_leave(struct weft_rdmap *r);
/** Give back the entry's reference, if it has one. */
void rdmap_irq_release(struct rdmap_irq_ent *e);
/** Give back a reference, and set it to NULL. */
void rdmap_unref(struct weft_mem_mr **mr);
/** Release the persist request, its data and its turn. No driver has it. */
void rdmap_persist_drop(struct weft_rdmap *r);
/** End the hash of the Verify that executes. result NULL: it is not needed. */
void rdmap_hash_drop(struct weft_rdmap *r, uint8_t *result);
/** Drop every entry and its reference. A request that a driver has completes on its own. */
void rdmap_irq_reset(struct weft_rdmap *r);

#endif /* RDMAP_IRQ_H */
