/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_MEM_H
#define RPCRDMA_MEM_H

/** @file Work requests of an endpoint: their slots, batches of them, and regions. */

#include "rpcrdma_chunks.h"
#include "rpcrdma_priv.h"

struct rpcrdma_slot;

/** Work to be posted in order, a part at a time when the send queue is short of room. */
struct rpcrdma_batch {
	STAILQ_ENTRY(rpcrdma_batch) next; /**< in weft_rpc.batches */
	struct weft_wr *wr;
	struct weft_sge *sge;
	unsigned int n, cap, posted;
	/** Batch without a message: its last work request completed, ok or not. NULL: the owner
	 * is gone. */
	void (*done)(void *owner, bool ok);
	void *owner;
	struct rpcrdma_slot *slot; /**< slot of the completion, once all is posted */
};

/** Longest message that a sink with memory is for, and where such memory begins. */
#define RPCRDMA_KEPT_BYTES 16384u
#define RPCRDMA_KEPT_ALIGN 4096u

/** Memory registered for the peer, or as a Read's sink; by work requests, so no lock is taken. */
struct rpcrdma_reg {
	TAILQ_ENTRY(rpcrdma_reg) entry;
	struct rpcrdma_reg_list *list; /**< of its endpoint, the one that it is in */
	struct weft_mr *mr;
	uint32_t stag;
	const struct rpcrdma_batch *batch; /**< the batch that registers it */
	unsigned int at;                   /**< there */
	bool valid;        /**< its FAST_REG is in that batch, and no invalidation was seen */
	uint32_t late_xid; /**< while in late */
	/** a sink with memory of its own, of the endpoint's budget; else NULL */
	uint8_t *buf;
	uint32_t buf_bytes;
};

/** A receive, part or batch; its address is the wr_id. */
struct rpcrdma_slot {
	STAILQ_ENTRY(rpcrdma_slot) next; /**< in a free list */
	/** recv_bytes or inline_bytes; for a Send, allocated at the first use */
	uint8_t *buf;
	/** for a Send: charged to the budget, and freed when the Send completes */
	bool charged;
	struct rpcrdma_msg *msg;
	struct rpcrdma_batch *batch;
};

/** Make room for n more work requests of one SGE each. -ENOMEM. */
int weft_rpcrdma_batch_room(struct rpcrdma_batch *b, unsigned int n);
/** Heap octets that an empty batch needs for n work requests. */
uint64_t weft_rpcrdma_batch_bytes(unsigned int n);
/** The next work request, zero but for one SGE at sg_list; the batch has room. */
struct weft_wr *weft_rpcrdma_batch_add(struct rpcrdma_batch *b, void *addr, uint32_t len_bytes);
void weft_rpcrdma_batch_free(struct rpcrdma_batch *b);
/** Post a batch alone, its last work request signaled. The owner keeps it until b->done. */
void weft_rpcrdma_batch_queue(struct weft_rpc *rpc, struct rpcrdma_batch *b);
/** The owner goes: the batch is not posted, or its completion is ignored. */
void weft_rpcrdma_batch_forget(struct weft_rpc *rpc, struct rpcrdma_batch *b);

/** Register memory by a work request at the end of b. -ENOMEM, -ENOSPC (regions of the domain). */
int weft_rpcrdma_reg_get(struct weft_rpc *rpc, struct rpcrdma_batch *b, void *addr,
                         uint32_t len_bytes, uint32_t access, struct rpcrdma_reg **out);
/** The same for the sink of Reads, which the peer may not access; b is posted, or the sink is
 * freed. */
int weft_rpcrdma_sink_get(struct weft_rpc *rpc, struct rpcrdma_batch *b, void *addr,
                          uint32_t len_bytes, struct rpcrdma_reg **out);
/**
 * The Reads into the sink are done. It stays valid until its next use: its invalidation would
 * complete behind the Reads that other calls have posted meanwhile, and this call with it. Its
 * memory may be freed: only a Read that is under way places octets there.
 */
void weft_rpcrdma_sink_put(struct weft_rpc *rpc, struct rpcrdma_reg *reg);
/** Deregister a region of any list, also a sink whose Reads were not posted. Frees its memory. */
void weft_rpcrdma_reg_free(struct weft_rpc *rpc, struct rpcrdma_reg *reg);

/**
 * A sink with memory, at reg->buf, for up to RPCRDMA_KEPT_BYTES octets. It is registered once, not
 * for each use: calls that use such sinks do not wait for each other's invalidation. Its memory is
 * charged as long as the sink exists. b is posted, or the sink is freed; b NULL: for memory alone,
 * without Reads. -ENOMEM, -ENOSPC (regions of the domain), -EAGAIN: the budget has too little room:
 * a sink without memory, of just the length, may still fit.
 */
int weft_rpcrdma_kept_get(struct weft_rpc *rpc, struct rpcrdma_batch *b, uint32_t len_bytes,
                          struct rpcrdma_reg **out);
/** What was read into the sink is needed no more. */
void weft_rpcrdma_kept_put(struct weft_rpc *rpc, struct rpcrdma_reg *reg);
/** The memory of the sink, if it has any: it is the caller's then, and is no longer charged. */
uint8_t *weft_rpcrdma_kept_take(struct weft_rpc *rpc, struct rpcrdma_reg *reg);
/** Free sinks that rest until there are n. */
void weft_rpcrdma_kept_trim(struct weft_rpc *rpc, unsigned int n);

/** Add to b the invalidation of valid regions; reg_put() puts the regions back. -ENOMEM. */
int weft_rpcrdma_reg_inv(struct rpcrdma_batch *b, struct rpcrdma_reg *const *reg, unsigned int n);
/** Put back a region that is not valid; when the endpoint is down it is deregistered. */
void weft_rpcrdma_reg_put(struct weft_rpc *rpc, struct rpcrdma_reg *reg);
/** As weft_rpcrdma_reg_put(), for a region that a late answer to this call may still name. */
void weft_rpcrdma_reg_put_late(struct weft_rpc *rpc, struct rpcrdma_reg *reg, uint32_t xid);
/** A late answer to xid has come, so its region is not named any more. */
void weft_rpcrdma_reg_answered(struct weft_rpc *rpc, uint32_t xid);
/** The peer invalidated this STag. */
void weft_rpcrdma_reg_invalidated(struct weft_rpc *rpc, uint32_t stag);
void weft_rpcrdma_regs_init(struct weft_rpc *rpc);
void weft_rpcrdma_regs_free(struct weft_rpc *rpc);
/** Make the segments of memory registered as one region. Returns how many; 0: more than cap. */
unsigned int weft_rpcrdma_reg_segs(const struct rpcrdma_reg *reg, uint32_t len_bytes,
                                   uint32_t max_bytes, struct rpcrdma_segment *segs,
                                   unsigned int cap);

#endif /* RPCRDMA_MEM_H */
