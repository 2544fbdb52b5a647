/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_CALL_H
#define RPCRDMA_CALL_H

/** @file Calls of this endpoint: rpcrdma_call.c has them, rpcrdma_result.c what answers them. */

#include "rpcrdma_mem.h"
#include "rpcrdma_priv.h"
#include "rpcrdma_wire.h"
#include "rpcrdma_xdr.h"

/** Segments of one call of this endpoint, in all its chunks; a reply returns no more. */
#define RPCRDMA_CALL_SEGS 32
/** Regions of one call: arguments, results, the call itself and its reply, of several tries. */
#define RPCRDMA_CALL_REGS (3 * (2 * WEFT_RPC_MAX_ITEMS + 2))

#define RPCRDMA_CALL_TRIES 4 /* tries of a call, each with other resources */

/** A call that has not been answered. */
struct rpcrdma_call {
	LIST_ENTRY(rpcrdma_call) entry; /**< in calls, or in free_calls */
	struct weft_rpc *rpc;
	struct weft_rpc_call_attr a;
	void *res_init;
	struct rpcrdma_out out;  /**< the message, kept for another try */
	struct rpcrdma_msg *msg; /**< while queued or posted */
	struct weft_alarm *alarm;
	uint32_t xid;
	bool ended;   /**< the status is final, and the regions are being invalidated */
	bool counted; /**< counted in version 1's credit */
	/* memory offered to the peer */
	struct rpcrdma_reg *reg[RPCRDMA_CALL_REGS];
	unsigned int nregs;
	uint32_t inv_stag; /**< of these, the STag that the answer may invalidate */
	bool late;         /**< a late answer may invalidate it */
	bool unsent;       /**< it ended before its message, or its last try's, was sent */
	struct weft_rpc_sink sink[WEFT_RPC_MAX_ITEMS]; /**< addr: the chunk's memory */
	uint32_t room_bytes[WEFT_RPC_MAX_ITEMS];       /**< room of the chunk */
	bool own_sink[WEFT_RPC_MAX_ITEMS];
	unsigned int nsinks;
	uint8_t *reply;
	uint32_t reply_bytes;
	/** Memory of earlier tries: the peer may use it until the regions are invalidated. */
	uint8_t *outgrown[RPCRDMA_CALL_TRIES * 2];
	unsigned int noutgrown;
	bool external;  /**< the call is in a Call chunk */
	uint16_t nsegs; /**< segments in all of its chunks */
	/* changes after an error, or for what the peer accepts */
	bool no_reads, no_writes, no_reply, no_external;
	uint32_t want_reply_bytes;
	unsigned int tries;
	/* result */
	enum weft_rpc_status status;
	uint32_t error;
	void *res;
	struct rpcrdma_batch inv;
};

/** End the call: fn runs when no peer can access its regions. */
void weft_rpcrdma_call_end(struct rpcrdma_call *call, enum weft_rpc_status status);
/** End all calls. */
void weft_rpcrdma_calls_end(struct weft_rpc *rpc, enum weft_rpc_status status);
/** An xid that no call uses, and not 0, which grants have. */
uint32_t weft_rpcrdma_new_xid(struct weft_rpc *rpc);
struct rpcrdma_call *weft_rpcrdma_call_find(struct weft_rpc *rpc, uint32_t xid);
/** Free the call's memory; no peer can access its regions. */
void weft_rpcrdma_call_release(struct rpcrdma_call *call);
/** Version 1: an answer came to a call that is over. */
void weft_rpcrdma_call_late(struct weft_rpc *rpc);
/**
 * Lay out the message for the version in use, in its turn in the queue. 0 or -errno. -EMSGSIZE: the
 * peer accepts no form of it.
 */
int weft_rpcrdma_call_layout(struct rpcrdma_call *call);
/** At the next layout use one kind of chunk less. False: no kind is left to omit. */
bool weft_rpcrdma_call_leaner(struct rpcrdma_call *call);
/** Encode into call->out; reduce: without items that chunks move. 0, -EMSGSIZE, -ENOMEM,
 * -EINVAL. */
int weft_rpcrdma_call_encode(struct rpcrdma_call *call, bool reduce);
/** Queue the call; it is laid out in its turn. -ENOMEM. */
int weft_rpcrdma_call_queue(struct rpcrdma_call *call);

/* ---- rpcrdma_result.c: replies and errors ---- */

/** A reply: msg is the reduced RPC message, or NULL when it is in the Reply chunk. */
void weft_rpcrdma_rx_reply(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr, const uint8_t *msg,
                           uint32_t len_bytes);
/** A reply that cannot be used. */
void weft_rpcrdma_rx_bad_reply(struct weft_rpc *rpc, uint32_t xid);
void weft_rpcrdma_rx_error(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr);

#endif /* RPCRDMA_CALL_H */
