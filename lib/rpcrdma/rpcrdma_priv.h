/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_PRIV_H
#define RPCRDMA_PRIV_H

/**
 * @file The state of an endpoint. A test may set the counters and next_xid before the first
 * message, to see them wrap.
 *
 * An outgoing message (rpcrdma_msg) is posted in parts. Each part uses a slot, which is busy until
 * its Send completes. The work requests that a message needs (registrations of a call, Writes of a
 * reply) go in front of its first part. A batch is such work without a message: Reads of a call's
 * chunks, and the invalidation between a reply and its consumer. Messages wait for credit and go
 * one after the other, whole (draft s4.1); batches do not wait for credit.
 *
 * Re-entrancy. Every entry (a completion, an alarm, a function of the header) is enclosed in
 * weft_rpcrdma_enter() and weft_rpcrdma_leave(). The consumer's callbacks run inside. What they ask
 * for is queued, and sent when the outermost entry leaves. The end of an endpoint that a callback
 * destroys is deferred in the same way.
 */

#include <stdatomic.h>
#include <sys/queue.h>

#include "rpcrdma_budget.h"
#include "rpcrdma_credit.h"
#include "rpcrdma_wire.h"
#include <weft/spare.h>
#include <weft/ulp.h>
#include <weft/rpcrdma.h>
#include <weft/worker.h>

/* least size of a peer's receives: any header without chunks, and a word */
#define RPCRDMA_LEAST_INLINE_BYTES (RPCRDMA_CALL_HDR_BYTES + 4)
#define RPCRDMA_MAX_INLINE_BYTES   65536
#define RPCRDMA_MAX_CREDITS        1024
#define RPCRDMA_MESSAGE_BYTES      (1048576 + 65536)
#define RPCRDMA_MESSAGE_MAX_BYTES  (1u << 30)
#define RPCRDMA_TIMEOUT_US         30000000ULL
#define RPCRDMA_RETRY_US           1000 /* delay of the next try after a full send queue */
/* time that answers wait for a peer that gives no credit; less than twice that */
#define RPCRDMA_STARVED_US 10000000ULL
/* limit for an incomplete message; less than twice that */
#define RPCRDMA_UNFINISHED_US 30000000ULL
#define RPCRDMA_REQS_HIGH     64 /* requests being served: beyond this no more credit */
/* likewise, octets of chunks read or being read for unanswered calls */
#define RPCRDMA_PULLED_HIGH (8u << 20)
/* errors and properties that wait for credit; no peer needs more */
#define RPCRDMA_CONTROL_MAX 64
#define RPCRDMA_IDLE_MIN    16 /* regions that rest before one of them is used again */
#define RPCRDMA_LATE_MAX    64 /* regions that wait for a late answer */
/* messages of a peer before it has authenticated, or in one exchange of properties */
#define RPCRDMA_STRANGER_MSGS    32
#define RPCRDMA_STRANGER_CREDITS 4 /* credits advertised to such a peer */
#define RPCRDMA_CONT_PARTS       4 /* the server reads a longer call by RDMA Read */
#define RPCRDMA_SPARE_MSGS       4 /* sent messages whose memory is kept */
#define RPCRDMA_BUFS_OWN         2 /* parts that may be in flight whatever room the budget has */
/* calls that wait for room try again this often, because other peers may have stopped */
#define RPCRDMA_RESUME_US 100000

struct rpcrdma_batch;
struct rpcrdma_call;
struct rpcrdma_msg;
struct rpcrdma_reg;
struct rpcrdma_slot;

STAILQ_HEAD(rpcrdma_batch_list, rpcrdma_batch);
STAILQ_HEAD(rpcrdma_slot_list, rpcrdma_slot);
STAILQ_HEAD(rpcrdma_msg_list, rpcrdma_msg);
LIST_HEAD(rpcrdma_call_list, rpcrdma_call);
LIST_HEAD(rpcrdma_req_list, weft_rpc_req);
TAILQ_HEAD(rpcrdma_req_queue, weft_rpc_req);

/** Regions, and how many they are. */
struct rpcrdma_reg_list {
	TAILQ_HEAD(rpcrdma_reg_queue, rpcrdma_reg) regs;
	unsigned int n;
	uint64_t bytes; /**< of memory that they have */
};

/** What calls up: given by weft_rpc_create(). */
struct rpcrdma_ops {
	/** Post what may be sent. -ENOTCONN: never connected; else 0, errors have been handled. */
	int (*pump)(struct weft_rpc *rpc);
	/** The outermost entry leaves: arm what has to be tried again. */
	void (*leave)(struct weft_rpc *rpc);
	/** The connection is gone: drop everything. No function of the consumer runs. */
	void (*drop)(struct weft_rpc *rpc);
	/** Then: end all calls, which may run functions of the consumer. */
	void (*lost)(struct weft_rpc *rpc);
	void (*free)(struct weft_rpc *rpc);
	/** End the endpoint for another one of its worker. */
	void (*shed)(struct rpcrdma_holder *h);
};

/** A message that comes in parts. */
struct rpcrdma_cont {
	bool active; /**< the next message must continue it */
	bool old;    /**< it was active at the last look for unfinished messages */
	uint32_t xid;
	uint32_t htype; /**< RDMA2_CALL_MIDDLE or RDMA2_REPLY_MIDDLE */
	uint32_t remaining_bytes;
	uint8_t *buf;
	uint32_t len_bytes;
	/**
	 * Parts with these xids are discarded, up to the last part (s7.1.4): of the message that
	 * was cut off, and of the one that interrupted it. The xids of calls and of replies are
	 * separate.
	 */
	struct rpcrdma_skip {
		uint32_t xid;
		bool call;
	} skip[2];
	unsigned int nskips;
};

/** Progress of the exchange of properties (s6.3.3, s6.3.4), each way. */
enum rpcrdma_props_state { RPCRDMA_PROPS_NONE, RPCRDMA_PROPS_MIDDLE, RPCRDMA_PROPS_FINAL };

extern struct weft_handle_kind rpcrdma_rpc_kind;

struct weft_rpc {
	struct weft_handle h;
	const struct rpcrdma_ops *ops;
	struct weft_qp *qp; /**< not to be touched once dead */
	struct weft_worker *worker;
	struct weft_pd *pd;
	struct weft_rpc_attr a; /**< defaults filled in */
	weft_rpc_raw_fn raw;
	uint8_t peer_name[64];
	uint32_t peer_name_bytes;
	uint8_t peer_share[WEFT_RPC_NAME_MAX_BYTES];
	uint32_t peer_share_bytes;
	uint32_t recv_bytes; /**< size of a receive: never below the default threshold */
	struct rpcrdma_limits limits;
	uint32_t vers; /**< in use; for a client before `heard`: the version tried */
	struct rpcrdma_credit credit;
	struct rpcrdma_credit1 credit1;
	struct rpcrdma_props peer;
	enum rpcrdma_props_state props_in, props_out;
	uint32_t props_xid; /**< xid of our latest message, when we spoke first */
	bool authentic;     /**< weft_rpc_auth.step() returned 1, or nothing is asked for */
	/** messages of the peer before it authenticated, or in an exchange of properties */
	unsigned int stranger_msgs;
	uint32_t next_xid;

	/** a message came in our version, which settles it and credits (s4.3) */
	bool heard;
	bool bad_vers;    /**< the peer speaks no version of ours */
	bool peer_serves; /**< version 1: weft_rpc_peer_serves() */
	bool closing;     /**< close the connection when everything queued was tried */
	/** connection gone; its calls have ended, or will */
	bool down;
	_Atomic bool dead;             /**< destroyed; freed when depth is 0 */
	bool refresh, refresh_payload; /**< messages came since the peer's credit was examined */
	unsigned int depth;

	/** n_recv receives, n_send parts, n_ops batches, and `unowned` */
	struct rpcrdma_slot *slots;
	/** slot of work whose completion matters only when it failed */
	struct rpcrdma_slot *unowned;
	unsigned int n_recv, n_send, n_ops;
	unsigned int n_posted; /**< receives posted of n_recv; a stranger gets few */
	uint8_t *recv_mem[2];  /**< memory of those, and of the rest */
	struct rpcrdma_slot_list free_send, free_ops;
	struct rpcrdma_msg_list tx;
	struct weft_spare spare_msgs;
	struct rpcrdma_batch_list batches;
	unsigned int replies_queued, controls_queued;
	struct weft_alarm *retry; /**< armed while the send queue is full, or memory short */
	/** armed when the endpoint was ended for another one's call */
	struct weft_alarm *telling;
	struct weft_alarm *unfinished; /**< armed while a message is incomplete */
	struct weft_alarm *starved;    /**< armed when an answer began to wait for credit */
	bool moved;                    /**< a message was sent since then */

	/** idle: the one that rests for the longest comes first; kept: sinks with memory */
	struct rpcrdma_reg_list regs_used, regs_idle, sinks_idle, sinks_kept;
	/** RPCRDMA_IDLE_MIN; 1 when the domain was found to have no more regions */
	unsigned int idle_min;
	/**
	 * Regions of calls that timed out; a late answer may still invalidate them. They are not
	 * used again before, because the STag that the answer names would then be invalid. The
	 * latest comes last.
	 */
	struct rpcrdma_reg_list regs_late;
	struct rpcrdma_call *call_mem; /**< WEFT_RPC_MAX_CALLS, made with the first call */
	struct rpcrdma_call_list calls, free_calls;
	struct rpcrdma_req_list reqs;
	/** Answers whose Writes were posted when the connection was closed; kept until the QP is
	 * gone. */
	struct rpcrdma_req_list parked;
	unsigned int nreqs;
	uint64_t pulled_bytes; /**< octets pulled for them */
	struct rpcrdma_cont cont;
	/** share of a.budget: cont, reqs, their answers, Send buffers, sinks with memory */
	struct rpcrdma_holder holder;
	struct rpcrdma_req_queue waiting; /**< requests that wait for room there, in turn */
	/** the waiting requests are being tried; one was refused again */
	bool resuming, refused;
	struct weft_alarm *resume; /**< armed while requests wait */
	bool woken;                /**< `resume` is set to fire soon */
	unsigned int n_bufs;       /**< send slots whose buffers are not charged */
	uint32_t error;            /**< error of the call whose fn runs */
	bool unsent;               /**< likewise */
	struct weft_rpc_stats stats;
};

/* ---- rpcrdma_hold.c: the budget ---- */

/** Charge n octets for calls and answers. False: the budget has no room now. Other endpoints may
 * have been ended for it; their consumers are told later. */
bool weft_rpcrdma_hold(struct weft_rpc *rpc, uint64_t n);
void weft_rpcrdma_let_go(struct weft_rpc *rpc, uint64_t n);

/* ---- rpcrdma_entry.c: entry, exit, the end ---- */

void weft_rpcrdma_enter(struct weft_rpc *rpc);
/** Sends what can be sent, and frees a dead endpoint: rpc ends with the outermost leave. */
void weft_rpcrdma_leave(struct weft_rpc *rpc);
/** The connection is unusable: drop what is queued, end all calls with CONNLOST. */
void weft_rpcrdma_down(struct weft_rpc *rpc);
/** End this endpoint for another one of its worker. */
void weft_rpcrdma_shed(struct rpcrdma_holder *h);
/** Close the connection and go down: no answer is possible, or the peer breaks the rules (s7.4). */
void weft_rpcrdma_fail(struct weft_rpc *rpc);

static inline bool
weft_rpcrdma_is_dead(const struct weft_rpc *rpc)
{
	return atomic_load_explicit(&rpc->dead, memory_order_relaxed);
}

/** Whether the peer must still authenticate before any other message of it is accepted. */
static inline bool
weft_rpcrdma_stranger(const struct weft_rpc *rpc)
{
	return rpc->a.auth != NULL && rpc->a.auth->required && !rpc->authentic;
}

/** Whether the peer has authenticated: its endpoint does not end for a stranger's. */
static inline bool
weft_rpcrdma_known(const struct weft_rpc *rpc)
{
	return rpc->a.auth != NULL && rpc->authentic;
}

/* ---- rpcrdma_recv.c: receives ---- */

/** Make n more receives and their memory. -ENOMEM, -errno of posting. */
int weft_rpcrdma_recvs(struct weft_rpc *rpc, unsigned int n);
/** Post the receive of this slot, which is not posted. */
int weft_rpcrdma_recv_again(struct weft_rpc *rpc, struct rpcrdma_slot *s);
/** The peer has authenticated: post all receives, give all credits. -ENOMEM, -errno of posting. */
int weft_rpcrdma_let_in(struct weft_rpc *rpc);

/* ---- rpcrdma_rx.c: messages in ---- */

void weft_rpcrdma_rx(struct weft_rpc *rpc, const uint8_t *buf, const struct weft_wc *wc);
void weft_rpcrdma_cont_drop(struct weft_rpc *rpc);

/* ---- rpcrdma_unfinished.c: messages that do not become whole ---- */

/** A message has begun: its time runs. */
void weft_rpcrdma_unfinished(struct weft_rpc *rpc);

/* ---- rpcrdma_prop.c: transport properties, authentication ---- */

void weft_rpcrdma_rx_props(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr);
/** Put our properties in front of the queue. False: no room. */
bool weft_rpcrdma_props_first(struct weft_rpc *rpc);

#endif /* RPCRDMA_PRIV_H */
