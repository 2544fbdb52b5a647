/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_REQ_H
#define RPCRDMA_REQ_H

/**
 * @file Calls of the peer. Each source calls those below: rpcrdma_serve.c serves them,
 * rpcrdma_drc_replay.c answers from the cache, rpcrdma_reply.c makes answers, rpcrdma_pull.c reads
 * chunks, rpcrdma_req.c has the request's life, rpcrdma_wait.c those that wait for room.
 */

#include "rpcrdma_mem.h"
#include "rpcrdma_priv.h"
#include "rpcrdma_wire.h"
#include "rpcrdma_xdr.h"

/** The next stage of a call, or the one that waits for room (rpcrdma_wait.c). */
enum rpcrdma_stage {
	RPCRDMA_STAGE_PULL,  /**< read its chunks */
	RPCRDMA_STAGE_SERVE, /**< serve it, or answer it without results */
	/** answer it from memory that the consumer does not keep: it cannot wait */
	RPCRDMA_STAGE_RAW,
	RPCRDMA_STAGE_ANSWER, /**< encode its results */
	RPCRDMA_STAGE_REPLAY, /**< encode the cache's answer */
};

/** What calls up: given by rpcrdma_serve.c with each request. */
struct rpcrdma_req_ops {
	/** Its turn has come: continue with its stage. */
	void (*go)(struct weft_rpc_req *req);
	/** It waited in the cache: look up again; arg is the request, on its worker. */
	void (*woken)(void *arg);
	/** The cache that it waited in is destroyed. */
	void (*free)(struct weft_rpc_req *req);
};

/** A call of the peer, from its last part to the completion of the reply's last Send. */
struct weft_rpc_req {
	struct weft_handle h;           /**< live while the consumer has the request */
	LIST_ENTRY(weft_rpc_req) entry; /**< in reqs */
	const struct rpcrdma_req_ops *ops;
	struct weft_rpc *rpc; /**< NULL: the endpoint is gone */
	struct rpcrdma_prefix p;
	struct rpcrdma_chunks *chunks; /**< NULL: there are none */
	uint8_t *payload;              /**< own_payload, or in the memory of reg */
	uint8_t *own_payload;
	uint32_t payload_bytes;
	/* pulled by Reads */
	uint8_t *pulled;       /**< the memory; what is read may begin behind its start */
	uint32_t pulled_bytes; /**< counted in its endpoint's pulled_bytes */
	/* octets charged to its endpoint's budget: the call's, and its answer's */
	uint64_t held_bytes, out_held_bytes;
	struct rpcrdma_reg *reg;
	struct rpcrdma_batch pull;
	/* being served */
	struct rpcrdma_in in;
	XDR xdr;
	const struct weft_rpc_proc *proc;
	void *args, *res;
	uint32_t prog, vers, procno;
	struct rpcrdma_drc_ent *drc;
	/* waits in the cache for the answer of the same call (and is `serving`) */
	LIST_ENTRY(weft_rpc_req) drc_wait; /**< in drc_shard's owed */
	struct drc_shard *drc_shard;
	struct weft_worker *drc_worker;
	bool drc_replaced; /**< the same call came again, and the later request gets the answer */
	bool reading, old; /**< its chunks are being read; they were so at the last look */
	bool serving;      /**< the consumer has it */
	bool busy;         /**< likewise, and counted in its endpoint's holder */
	/* a call that waits for room in its endpoint's budget */
	enum rpcrdma_stage stage;
	bool waits;                     /**< in waiting */
	TAILQ_ENTRY(weft_rpc_req) wait; /**< there */
	bool met;                       /**< counted in calls_in */
	enum weft_rpc_status status;    /**< status of its answer */
	/** by the worker's clock: when it came, when its chunks were asked for and were here; 0: it
	 * has none. All 0 without weft_rpc_attr.timed. */
	uint64_t came_ns, asked_ns, read_ns;
	struct rpcrdma_drc_ent *replay; /**< the cache's answer to it, referenced while it waits */
	bool never;                     /**< its answer is larger than the room can ever be */
	/* answered */
	struct rpcrdma_out out;
	bool raw;         /**< its results belong to the consumer and end at the return */
	uint8_t *results; /**< copies of those results that are to be written */
};

/* ---- rpcrdma_wait.c ---- */

/** Let req wait for room; it continues with its stage in its turn. Until then no more credit is
 * given. */
void weft_rpcrdma_wait(struct weft_rpc_req *req);
/** Set req's stage. True: other requests of the endpoint wait, and req now waits behind them. */
bool weft_rpcrdma_waits(struct weft_rpc_req *req, enum rpcrdma_stage stage);
/** Remove req from the waiting requests. */
void weft_rpcrdma_wait_drop(struct weft_rpc_req *req);
/** Arm the next try if requests wait; when the outermost entry leaves. */
void weft_rpcrdma_wait_arm(struct weft_rpc *rpc);
/** Remove all waiting requests: the connection is gone. */
void weft_rpcrdma_wait_end(struct weft_rpc *rpc);

/* ---- rpcrdma_req.c ---- */

/** Free the request, or detach it while the consumer has it. */
void weft_rpcrdma_req_free(struct weft_rpc_req *req);
/** As weft_rpcrdma_req_free(), but posted Writes read its memory, which stays as the endpoint
 * does. */
void weft_rpcrdma_req_park(struct weft_rpc_req *req);
/** The consumer answers: the handle ends. False, and no effect: no request, or answered already. */
bool weft_rpcrdma_req_back(struct weft_rpc_req *req, const char *call);
/** The consumer gets the request: its handle begins. */
void weft_rpcrdma_req_give(struct weft_rpc_req *req);
/** Free the message, but not its chunks, which the answer needs. */
void weft_rpcrdma_req_free_message(struct weft_rpc_req *req);
/** The answer is laid out: free the call's memory, and the results that are not written. */
void weft_rpcrdma_req_encoded(struct weft_rpc_req *req);

/* ---- rpcrdma_reply.c ---- */

/**
 * Encode and queue an answer, with the results that chunks may carry; errors become RDMA2_ERRORs.
 * False: there is no room now, and req, which is not raw, waits.
 */
bool weft_rpcrdma_answer(struct weft_rpc_req *req, bool (*encode)(void *arg, XDR *xdr), void *arg,
                         const struct weft_rpc_item *items, unsigned int nitems);

/* ---- rpcrdma_pull.c ---- */

/** No error, but the call has to wait for room. */
#define RPCRDMA_PULL_NO_ROOM UINT32_MAX

/** Read a call's chunks; then `done` runs. 0, the error to send, or RPCRDMA_PULL_NO_ROOM. */
uint32_t weft_rpcrdma_pull(struct weft_rpc_req *req, void (*done)(void *owner, bool ok));
/** The peer refused a Read of the first call whose chunks are being read. */
void weft_rpcrdma_pull_refused(struct weft_rpc *rpc);

/* ---- rpcrdma_serve.c ---- */

/** buf: the RPC message, or NULL when it is in the Call chunk. `own` is a heap buffer that holds
 * it, and is taken over; NULL: the message is copied. */
void weft_rpcrdma_rx_call(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr, const uint8_t *buf,
                          uint32_t len_bytes, uint8_t *own);

#endif /* RPCRDMA_REQ_H */
