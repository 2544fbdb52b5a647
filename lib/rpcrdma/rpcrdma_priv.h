/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_PRIV_H
#define RPCRDMA_PRIV_H

/**
 * @file
 * Inside an endpoint: its slots (one per receive or message to send), its calls, its credits.
 * A test may set the counters and next_xid before the first message, to see them wrap.
 *
 * Re-entrancy. Every entry (a completion, an alarm, a function of the header) stands between
 * weft_rpcrdma_enter() and weft_rpcrdma_leave(). Callbacks of the consumer run inside; what they
 * ask for is queued, and sent when the outermost entry leaves. So is the end of an endpoint
 * that was destroyed by one of them.
 */

#include <sys/queue.h>

#include "rpcrdma_wire.h"
#include "weft_rpcrdma.h"
#include "weft_worker.h"

#define RPCRDMA_MAX_INLINE_BYTES 65536
#define RPCRDMA_MAX_CREDITS      1024
#define RPCRDMA_TIMEOUT_US       30000000ULL
#define RPCRDMA_RETRY_US         1000 /* after a full send queue */

/* ---- Credits: rpcrdma_credit.c says how section 4.2.1 is read ---- */

struct rpcrdma_credit {
	uint32_t sent;     /**< messages posted, all kinds */
	uint32_t recvd;    /**< receives completed */
	uint32_t limit;    /**< "Received credits": we may have sent so many in all */
	uint32_t promised; /**< the most we have put into rdma_credit: the peer may have sent so
	                      many */
	uint32_t window;   /**< what we are prepared to receive; one more receive is posted */
};

void weft_rpcrdma_credit_init(struct rpcrdma_credit *c, uint32_t window);
/** Whether one more message may be posted. */
bool weft_rpcrdma_credit_may_send(const struct rpcrdma_credit *c);
/** The same for an RDMA2_GRANT, which may use the receive kept in reserve for it. */
bool weft_rpcrdma_credit_may_grant(const struct rpcrdma_credit *c);
/** The rdma_credit of a message posted now, while `backlog` replies wait for credit. */
uint32_t weft_rpcrdma_credit_field(const struct rpcrdma_credit *c, uint32_t backlog);
/** A message that carried `field` was posted. */
void weft_rpcrdma_credit_posted(struct rpcrdma_credit *c, uint32_t field);
/** Whether the peer needs an RDMA2_GRANT, when nothing else is about to carry the news. */
bool weft_rpcrdma_credit_wants_refresh(const struct rpcrdma_credit *c, uint32_t backlog,
                                       bool payload);

/* ---- Slots ---- */

enum rpcrdma_kind { RPCRDMA_CALL, RPCRDMA_REPLY, RPCRDMA_CONTROL };

/** A receive, or a message to send. Its address is the wr_id, which is how completions find it. */
struct rpcrdma_slot {
	STAILQ_ENTRY(rpcrdma_slot) next; /**< in tx, or in free */
	uint8_t *buf; /**< recv_bytes or inline_bytes; of a sender: made at first use */
	uint32_t len_bytes;
	enum rpcrdma_kind kind;
	bool queued;               /**< in tx; else free or posted */
	bool stalled;              /**< counted as waiting for credit */
	struct rpcrdma_call *call; /**< of a RPCRDMA_CALL still wanted */
};

STAILQ_HEAD(rpcrdma_slot_list, rpcrdma_slot);

/** A call that has not been answered. */
struct rpcrdma_call {
	LIST_ENTRY(rpcrdma_call) entry; /**< in calls, or in free_calls */
	struct weft_rpc *rpc;
	struct rpcrdma_slot *slot; /**< its message while queued or posted */
	struct weft_alarm *alarm;
	uint32_t xid;
	xdrproc_t xdr_res;
	size_t res_bytes;
	weft_rpc_fn fn;
	void *arg;
};

LIST_HEAD(rpcrdma_call_list, rpcrdma_call);

/** How far the exchange of properties is (s6.3.3, s6.3.4), each way. */
enum rpcrdma_props_state { RPCRDMA_PROPS_NONE, RPCRDMA_PROPS_MIDDLE, RPCRDMA_PROPS_FINAL };

struct weft_rpc {
	struct weft_qp *qp; /**< not to be touched once dead */
	struct weft_worker *worker;
	const struct weft_rpc_program *const *programs; /**< or NULL */
	void *user;
	uint32_t inline_bytes;
	uint32_t recv_bytes; /**< size of a receive: never below the default threshold */
	struct rpcrdma_credit credit;
	struct rpcrdma_props peer;
	enum rpcrdma_props_state props_in, props_out;
	uint32_t props_xid; /**< of ours, when we spoke first */
	uint32_t next_xid;

	bool heard;    /**< a version 2 message came: version and credits are established (s4.3) */
	bool bad_vers; /**< the peer does not speak version 2 */
	bool down;     /**< connection gone */
	bool dead;     /**< destroyed; freed when depth is 0 */
	bool refresh,
	        refresh_payload; /**< messages came in since the peer's credit was looked at */
	unsigned int depth;

	struct rpcrdma_slot *slots; /**< n_recv receives, then n_send messages */
	unsigned int n_recv, n_send;
	uint8_t *recv_mem;
	struct rpcrdma_slot_list tx, free;
	unsigned int replies_queued;
	struct weft_alarm *retry; /**< armed while the send queue is full */

	struct rpcrdma_call call_mem[WEFT_RPC_MAX_CALLS];
	struct rpcrdma_call_list calls, free_calls;
	struct weft_rpc_stats stats;
};

/* ---- rpcrdma.c: entry, exit, the end ---- */

void weft_rpcrdma_enter(struct weft_rpc *rpc);
/** Sends what can be sent; frees a dead endpoint: rpc is not valid after the outermost one. */
void weft_rpcrdma_leave(struct weft_rpc *rpc);
/** The connection is of no more use: drop what is queued, end all calls with CONNLOST. */
void weft_rpcrdma_down(struct weft_rpc *rpc);
/** Close it, because we cannot answer or the peer breaks the rules (s7.4), and go down. */
void weft_rpcrdma_fail(struct weft_rpc *rpc);

/* ---- rpcrdma_tx.c: messages on their way out ---- */

/** An empty message with inline_bytes of room, or NULL. */
struct rpcrdma_slot *weft_rpcrdma_slot_get(struct weft_rpc *rpc, enum rpcrdma_kind kind);
void weft_rpcrdma_slot_put(struct weft_rpc *rpc, struct rpcrdma_slot *s);
void weft_rpcrdma_queue(struct weft_rpc *rpc, struct rpcrdma_slot *s);
void weft_rpcrdma_unqueue(struct weft_rpc *rpc, struct rpcrdma_slot *s);
/** Queue an RDMA2_ERROR about the message with prefix p; closes the connection when there is no
 * room. */
void weft_rpcrdma_error(struct weft_rpc *rpc, const struct rpcrdma_prefix *p,
                        const struct rpcrdma_err *err);
/** Post what may go. -ENOTCONN: never connected; else 0, trouble has been dealt with. */
int weft_rpcrdma_pump(struct weft_rpc *rpc);

/* ---- rpcrdma_call.c: our calls ---- */

/** xdr_void() with the prototype of an xdrproc_t. */
bool_t weft_rpcrdma_xdr_void(XDR *xdr, ...);
/** End the call; its fn runs. */
void weft_rpcrdma_call_end(struct rpcrdma_call *call, enum weft_rpc_status status, void *res);
/** End them all. */
void weft_rpcrdma_calls_end(struct weft_rpc *rpc, enum weft_rpc_status status);
struct rpcrdma_call *weft_rpcrdma_call_find(struct weft_rpc *rpc, uint32_t xid);
/** A reply: msg starts at the RPC message. */
void weft_rpcrdma_rx_reply(struct weft_rpc *rpc, uint32_t xid, const uint8_t *msg,
                           uint32_t len_bytes);
/** A reply that cannot be used. */
void weft_rpcrdma_rx_bad_reply(struct weft_rpc *rpc, uint32_t xid);
void weft_rpcrdma_rx_error(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr);

/* ---- rpcrdma_serve.c: calls of the peer ---- */

void weft_rpcrdma_rx_call(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr, const uint8_t *msg,
                          uint32_t len_bytes);

/* ---- rpcrdma_prop.c: transport properties ---- */

void weft_rpcrdma_rx_props(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr);
/** Put our properties in front of the queue. False: no room. */
bool weft_rpcrdma_props_first(struct weft_rpc *rpc);

#endif /* RPCRDMA_PRIV_H */
