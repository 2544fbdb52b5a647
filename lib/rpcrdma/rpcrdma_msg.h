/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_MSG_H
#define RPCRDMA_MSG_H

/** @file Outgoing messages: rpcrdma_msg.c makes and queues them, rpcrdma_tx.c sends them. */

#include "rpcrdma_mem.h"
#include "rpcrdma_priv.h"
#include "rpcrdma_wire.h"

enum rpcrdma_kind { RPCRDMA_CALL, RPCRDMA_REPLY, RPCRDMA_CONTROL };

struct rpcrdma_msg {
	STAILQ_ENTRY(rpcrdma_msg) next; /**< in tx */
	enum rpcrdma_kind kind;
	struct rpcrdma_hdr hdr; /**< header of the only or last part */
	const uint8_t *payload; /**< NULL: none, or moved by a chunk for the whole message */
	uint32_t payload_bytes, sent_bytes;
	uint8_t *own;        /**< payload of a call that ended after a part was sent */
	uint64_t held_bytes; /**< control: octets charged to the budget */
	struct rpcrdma_batch pre;
	uint32_t inv_stag;           /**< reply: STag to invalidate with the last part; 0: none */
	unsigned int in_flight;      /**< parts posted and not completed */
	bool queued, begun, stalled; /**< in tx; a part was posted; counted as waiting for credit */
	bool continued;              /**< a part other than the last was posted */
	bool no_credit;              /**< needs no credit: RDMA2_ERR_VERS */
	struct rpcrdma_call *call;   /**< the call, while it is wanted */
	struct weft_rpc_req *req;    /**< the request of a reply */
};

/** Make a message. NULL: no memory. */
struct rpcrdma_msg *weft_rpcrdma_msg_new(struct weft_rpc *rpc, enum rpcrdma_kind kind,
                                         uint32_t htype, uint32_t xid);
/** Unlink and free a message; a reply's request is over. */
void weft_rpcrdma_msg_free(struct weft_rpc *rpc, struct rpcrdma_msg *m);
void weft_rpcrdma_queue(struct weft_rpc *rpc, struct rpcrdma_msg *m);
void weft_rpcrdma_queue_first(struct weft_rpc *rpc, struct rpcrdma_msg *m);
/** Unlink a message from the queue. */
void weft_rpcrdma_unqueue(struct weft_rpc *rpc, struct rpcrdma_msg *m);
/** A call is over: drop its message if no part was sent. */
void weft_rpcrdma_msg_forget(struct weft_rpc *rpc, struct rpcrdma_msg *m);
/**
 * Calls that version 1 allows to be unanswered (RFC 8166 s3.3.1): the lower of what was granted,
 * never 0, and what this endpoint asks for, because a reply needs a receive.
 */
uint32_t weft_rpcrdma_credit1_max(const struct weft_rpc *rpc);
/** Largest message that may be sent now. */
uint32_t weft_rpcrdma_threshold(const struct weft_rpc *rpc);
/** Queue an error about the message with prefix p; closes the connection when there is no room. */
void weft_rpcrdma_error(struct weft_rpc *rpc, const struct rpcrdma_prefix *p,
                        const struct rpcrdma_err *err);
/* ---- rpcrdma_tx.c ---- */

/** Post what may be sent. -ENOTCONN: never connected; else 0, errors have been handled. */
int weft_rpcrdma_pump(struct weft_rpc *rpc);
/** The Send of a part completed. */
void weft_rpcrdma_sent(struct weft_rpc *rpc, struct rpcrdma_slot *s, bool ok);

#endif /* RPCRDMA_MSG_H */
