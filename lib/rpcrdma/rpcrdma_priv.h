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
#include "rpcrdma_xdr.h"
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
#define RPCRDMA_LATE_MAX    64 /* regions that wait for a late answer */
/* messages of a peer before it has authenticated, or in one exchange of properties */
#define RPCRDMA_STRANGER_MSGS    32
#define RPCRDMA_STRANGER_CREDITS 4 /* credits advertised to such a peer */
#define RPCRDMA_CONT_PARTS       4 /* the server reads a longer call by RDMA Read */
#define RPCRDMA_BUFS_OWN         2 /* parts that may be in flight whatever room the budget has */
/* calls that wait for room try again this often, because other peers may have stopped */
#define RPCRDMA_RESUME_US 100000

/* ---- Work requests ---- */

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

STAILQ_HEAD(rpcrdma_batch_list, rpcrdma_batch);

/** Memory registered for the peer, or as a Read's sink; by work requests, so no lock is taken. */
struct rpcrdma_reg {
	LIST_ENTRY(rpcrdma_reg) entry; /**< in used or in idle */
	struct weft_mr *mr;
	uint32_t stag;
	const struct rpcrdma_batch *batch; /**< the batch that registers it */
	unsigned int at;                   /**< there */
	bool valid;        /**< its FAST_REG is in that batch, and no invalidation was seen */
	uint32_t late_xid; /**< while in late */
};

LIST_HEAD(rpcrdma_reg_list, rpcrdma_reg);

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

STAILQ_HEAD(rpcrdma_slot_list, rpcrdma_slot);

/* ---- Messages out ---- */

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

STAILQ_HEAD(rpcrdma_msg_list, rpcrdma_msg);

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

LIST_HEAD(rpcrdma_call_list, rpcrdma_call);

/** The next stage of a call, or the one that waits for room (rpcrdma_wait.c). */
enum rpcrdma_stage {
	RPCRDMA_STAGE_PULL,  /**< read its chunks */
	RPCRDMA_STAGE_SERVE, /**< serve it, or answer it without results */
	/** answer it from memory that the consumer does not keep: it cannot wait */
	RPCRDMA_STAGE_RAW,
	RPCRDMA_STAGE_ANSWER, /**< encode its results */
	RPCRDMA_STAGE_REPLAY, /**< encode the cache's answer */
};

/** A call of the peer, from its last part to the completion of the reply's last Send. */
struct weft_rpc_req {
	struct weft_handle h;           /**< live while the consumer has the request */
	LIST_ENTRY(weft_rpc_req) entry; /**< in reqs */
	struct weft_rpc *rpc;           /**< NULL: the endpoint is gone */
	struct rpcrdma_prefix p;
	struct rpcrdma_chunks *chunks; /**< NULL: there are none */
	uint8_t *payload;
	uint32_t payload_bytes;
	/* pulled by Reads */
	uint8_t *pulled;
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
	struct rpcrdma_drc_ent *replay; /**< the cache's answer to it, referenced while it waits */
	bool never;                     /**< its answer is larger than the room can ever be */
	/* answered */
	struct rpcrdma_out out;
	bool raw;         /**< its results belong to the consumer and end at the return */
	uint8_t *results; /**< copies of those results that are to be written */
};

LIST_HEAD(rpcrdma_req_list, weft_rpc_req);
TAILQ_HEAD(rpcrdma_req_queue, weft_rpc_req);

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

	/** n_recv receives, n_send parts, n_ops batches, and `nobody` */
	struct rpcrdma_slot *slots;
	/** slot of work whose completion matters only when it failed */
	struct rpcrdma_slot *nobody;
	unsigned int n_recv, n_send, n_ops;
	unsigned int n_posted; /**< receives posted of n_recv; a stranger gets few */
	uint8_t *recv_mem[2];  /**< memory of those, and of the rest */
	struct rpcrdma_slot_list free_send, free_ops;
	struct rpcrdma_msg_list tx;
	struct rpcrdma_batch_list batches;
	unsigned int replies_queued, controls_queued;
	struct weft_alarm *retry; /**< armed while the send queue is full, or memory short */
	/** armed when the endpoint was ended for another one's call */
	struct weft_alarm *telling;
	struct weft_alarm *unfinished; /**< armed while a message is incomplete */
	struct weft_alarm *starved;    /**< armed when an answer began to wait for credit */
	bool moved;                    /**< a message was sent since then */

	struct rpcrdma_reg_list regs_used, regs_idle;
	/**
	 * Regions of calls that timed out; a late answer may still invalidate them. They are not
	 * used again before, because the STag that the answer names would then be invalid. The
	 * latest comes first.
	 */
	struct rpcrdma_reg_list regs_late;
	unsigned int nlate;
	struct rpcrdma_call *call_mem; /**< WEFT_RPC_MAX_CALLS, made with the first call */
	struct rpcrdma_call_list calls, free_calls;
	struct rpcrdma_req_list reqs;
	/** Answers whose Writes were posted when the connection was closed; kept until the QP is
	 * gone. */
	struct rpcrdma_req_list parked;
	unsigned int nreqs;
	uint64_t pulled_bytes; /**< octets pulled for them */
	struct rpcrdma_cont cont;
	/** share of a.budget: cont, reqs, their answers and Send buffers */
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

/* ---- rpcrdma.c: entry, exit, the end ---- */

/** Charge n octets for calls and answers. False: the budget has no room now. Other endpoints may
 * have been ended for it; their consumers are told later. */
bool weft_rpcrdma_hold(struct weft_rpc *rpc, uint64_t n);
void weft_rpcrdma_let_go(struct weft_rpc *rpc, uint64_t n);

/* ---- rpcrdma_wait.c: calls that wait for room in the budget ---- */

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

void weft_rpcrdma_enter(struct weft_rpc *rpc);
/** Sends what can be sent, and frees a dead endpoint: rpc ends with the outermost leave. */
void weft_rpcrdma_leave(struct weft_rpc *rpc);
/** The connection is unusable: drop what is queued, end all calls with CONNLOST. */
void weft_rpcrdma_down(struct weft_rpc *rpc);
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
/** The peer has authenticated: post all receives, give all credits. -ENOMEM, -errno of posting. */
int weft_rpcrdma_let_in(struct weft_rpc *rpc);
/** Allocate the calls, at the first one. -ENOMEM. */
int weft_rpcrdma_calls_make(struct weft_rpc *rpc);

/* ---- rpcrdma_rx.c: messages in ---- */

void weft_rpcrdma_rx(struct weft_rpc *rpc, const uint8_t *buf, const struct weft_wc *wc);
void weft_rpcrdma_cont_drop(struct weft_rpc *rpc);

/* ---- rpcrdma_unfinished.c: messages that do not become whole ---- */

/** A message has begun: its time runs. */
void weft_rpcrdma_unfinished(struct weft_rpc *rpc);

/* ---- rpcrdma_mem.c: regions and batches ---- */

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
void weft_rpcrdma_regs_free(struct weft_rpc *rpc);
/** Make the segments of memory registered as one region. Returns how many; 0: more than cap. */
unsigned int weft_rpcrdma_reg_segs(const struct rpcrdma_reg *reg, uint32_t len_bytes,
                                   uint32_t max_bytes, struct rpcrdma_segment *segs,
                                   unsigned int cap);

/* ---- rpcrdma_tx.c: messages on their way out ---- */

/** Make a message. NULL: no memory. */
struct rpcrdma_msg *weft_rpcrdma_msg_new(struct weft_rpc *rpc, enum rpcrdma_kind kind,
                                         uint32_t htype, uint32_t xid);
/** Unlink and free a message; a reply's request is over. */
void weft_rpcrdma_msg_free(struct weft_rpc *rpc, struct rpcrdma_msg *m);
void weft_rpcrdma_queue(struct weft_rpc *rpc, struct rpcrdma_msg *m);
void weft_rpcrdma_queue_first(struct weft_rpc *rpc, struct rpcrdma_msg *m);
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
/** Post what may be sent. -ENOTCONN: never connected; else 0, errors have been handled. */
int weft_rpcrdma_pump(struct weft_rpc *rpc);
/** The Send of a part completed. */
void weft_rpcrdma_sent(struct weft_rpc *rpc, struct rpcrdma_slot *s, bool ok);

/* ---- rpcrdma_call.c: our calls ---- */

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

/* ---- rpcrdma_serve.c: calls of the peer; rpcrdma_reply.c: their answers ---- */

/** buf: the RPC message, or NULL when it is in the Call chunk. `own` is a heap buffer that holds
 * it, and is taken over; NULL: the message is copied. */
void weft_rpcrdma_rx_call(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr, const uint8_t *buf,
                          uint32_t len_bytes, uint8_t *own);
void weft_rpcrdma_req_free(struct weft_rpc_req *req);
/** The consumer answers: the handle ends. False, and no effect: no request, or answered already. */
bool weft_rpcrdma_req_back(struct weft_rpc_req *req, const char *call);
/** The answer is laid out: free the call's memory, and the results that are not written. */
void weft_rpcrdma_req_encoded(struct weft_rpc_req *req);
/** The peer refused a Read of the first call whose chunks are being read. */
void weft_rpcrdma_pull_refused(struct weft_rpc *rpc);
/** As weft_rpcrdma_req_free(), but posted Writes read its memory, which stays as the endpoint
 * does. */
void weft_rpcrdma_req_park(struct weft_rpc_req *req);
/** Its turn has come: continue with its stage. */
void weft_rpcrdma_req_go(struct weft_rpc_req *req);
/**
 * Encode and queue an answer, with the results that chunks may carry; errors become RDMA2_ERRORs.
 * False: there is no room now, and req, which is not raw, waits.
 */
bool weft_rpcrdma_answer(struct weft_rpc_req *req, bool (*encode)(void *arg, XDR *xdr), void *arg,
                         const struct weft_rpc_item *items, unsigned int nitems);

/* ---- rpcrdma_prop.c: transport properties, authentication ---- */

void weft_rpcrdma_rx_props(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr);
/** Put our properties in front of the queue. False: no room. */
bool weft_rpcrdma_props_first(struct weft_rpc *rpc);

#endif /* RPCRDMA_PRIV_H */
