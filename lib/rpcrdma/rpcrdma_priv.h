/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_PRIV_H
#define RPCRDMA_PRIV_H

/**
 * @file
 * Inside an endpoint. A test may set the counters and next_xid before the first message, to see
 * them wrap.
 *
 * A message out (rpcrdma_msg) is posted in parts, each in a slot of its own, which is busy until
 * its Send completes; in front of the first one go the work requests that it needs (registrations
 * of a call, Writes of a reply). A batch is such work without a message: Reads of a call's chunks,
 * and the invalidation that stands between a reply and its consumer. Messages wait for credit and
 * go one after the other, whole (draft s4.1); batches do not wait for credit.
 *
 * Re-entrancy. Every entry (a completion, an alarm, a function of the header) stands between
 * weft_rpcrdma_enter() and weft_rpcrdma_leave(). Callbacks of the consumer run inside; what they
 * ask for is queued, and sent when the outermost entry leaves. So is the end of an endpoint
 * that was destroyed by one of them.
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

/* of a peer's receives: any header without chunks, and a word */
#define RPCRDMA_LEAST_INLINE_BYTES (RPCRDMA_CALL_HDR_BYTES + 4)
#define RPCRDMA_MAX_INLINE_BYTES   65536
#define RPCRDMA_MAX_CREDITS        1024
#define RPCRDMA_MESSAGE_BYTES      (1048576 + 65536)
#define RPCRDMA_MESSAGE_MAX_BYTES  (1u << 30)
#define RPCRDMA_TIMEOUT_US         30000000ULL
#define RPCRDMA_RETRY_US           1000 /* after a full send queue */
/* answers wait so long for a peer that gives no credit; less than twice that */
#define RPCRDMA_STARVED_US 10000000ULL
/* a message takes so long at most; less than twice that */
#define RPCRDMA_UNFINISHED_US 30000000ULL
#define RPCRDMA_REQS_HIGH     64 /* requests being served: no more credit is given */
/* octets of chunks read, or being read, for calls not answered: likewise */
#define RPCRDMA_PULLED_HIGH (8u << 20)
/* errors and properties waiting for credit: no peer needs more */
#define RPCRDMA_CONTROL_MAX 64
#define RPCRDMA_LATE_MAX    64 /* regions that wait for a late answer */
/* of a peer before it has shown who it is, or within one exchange of properties */
#define RPCRDMA_STRANGER_MSGS    32
#define RPCRDMA_STRANGER_CREDITS 4 /* advertised to it */
#define RPCRDMA_CONT_PARTS       4 /* a longer call is read by the server, not continued */
#define RPCRDMA_BUFS_OWN         2 /* parts that may be on their way whatever the budget has */
/* calls that wait for room look so often: others may have stopped */
#define RPCRDMA_RESUME_US 100000

/* ---- Work requests ---- */

struct rpcrdma_slot;

/** Work to be posted in order, a part at a time when the send queue is short of room. */
struct rpcrdma_batch {
	STAILQ_ENTRY(rpcrdma_batch) next; /**< in weft_rpc.batches */
	struct weft_wr *wr;
	struct weft_sge *sge;
	unsigned int n, cap, posted;
	/** Of one that stands alone: the last work request completed, ok or not. NULL: its owner
	 * went. */
	void (*done)(void *owner, bool ok);
	void *owner;
	struct rpcrdma_slot *slot; /**< of the completion, once all is posted */
};

STAILQ_HEAD(rpcrdma_batch_list, rpcrdma_batch);

/** Memory registered for the peer, or as the sink of a Read; by work requests, so never on a lock.
 */
struct rpcrdma_reg {
	LIST_ENTRY(rpcrdma_reg) entry; /**< in used or in idle */
	struct weft_mr *mr;
	uint32_t stag;
	const struct rpcrdma_batch *batch; /**< in which it is registered */
	unsigned int at;                   /**< there */
	bool valid; /**< its FAST_REG was put into that batch, and no invalidation was seen */
	uint32_t late_xid; /**< while in late */
};

LIST_HEAD(rpcrdma_reg_list, rpcrdma_reg);

/** The receive, part or batch that a wr_id stands for: its address. */
struct rpcrdma_slot {
	STAILQ_ENTRY(rpcrdma_slot) next; /**< in a free list */
	/** recv_bytes or inline_bytes; of a sender: made at first use */
	uint8_t *buf;
	/** of a sender: to the budget; freed when its Send completes */
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
	struct rpcrdma_hdr hdr; /**< of the only or last part */
	const uint8_t *payload; /**< NULL: none, or moved by a body chunk */
	uint32_t payload_bytes, sent_bytes;
	uint8_t *own;        /**< payload of a call that was given up midway */
	uint64_t held_bytes; /**< control: charged to the budget */
	struct rpcrdma_batch pre;
	uint32_t inv_stag;           /**< reply: invalidate with the last part; 0: do not */
	unsigned int in_flight;      /**< parts posted and not complete */
	bool queued, begun, stalled; /**< in tx; a part was posted; counted as waiting for credit */
	bool continued;              /**< a part was posted that is not the last */
	bool no_credit;              /**< goes without: RDMA2_ERR_VERS */
	struct rpcrdma_call *call;   /**< of a call still wanted */
	struct weft_rpc_req *req;    /**< of a reply: what it was made from */
};

STAILQ_HEAD(rpcrdma_msg_list, rpcrdma_msg);

/** Segments of one call that we make, in all its chunks together; a reply returns no more. */
#define RPCRDMA_CALL_SEGS 32
/** Regions of one call: arguments, results, the call itself, its reply; of some tries. */
#define RPCRDMA_CALL_REGS (3 * (2 * WEFT_RPC_MAX_ITEMS + 2))

#define RPCRDMA_CALL_TRIES 4 /* of a call in all, with other resources each time */

/** A call that has not been answered. */
struct rpcrdma_call {
	LIST_ENTRY(rpcrdma_call) entry; /**< in calls, or in free_calls */
	struct weft_rpc *rpc;
	struct weft_rpc_call_attr a;
	void *res_init;
	struct rpcrdma_out out;  /**< the message, kept to be sent again */
	struct rpcrdma_msg *msg; /**< while queued or posted */
	struct weft_alarm *alarm;
	uint32_t xid;
	bool ended;   /**< status is settled, the regions are being taken back */
	bool counted; /**< in version 1's credit */
	/* what it offers */
	struct rpcrdma_reg *reg[RPCRDMA_CALL_REGS];
	unsigned int nregs;
	uint32_t inv_stag; /**< of these the one that the answer may invalidate */
	bool late;         /**< and that a late one may */
	bool unsent;       /**< it ended before its message, or that of its last try, went */
	struct weft_rpc_sink sink[WEFT_RPC_MAX_ITEMS]; /**< addr: of the chunk's memory */
	uint32_t room_bytes[WEFT_RPC_MAX_ITEMS];       /**< of the chunk */
	bool own_sink[WEFT_RPC_MAX_ITEMS];
	unsigned int nsinks;
	uint8_t *reply;
	uint32_t reply_bytes;
	/** Offered in earlier tries and outgrown: the peer may use them until the regions are
	 * taken back. */
	uint8_t *outgrown[RPCRDMA_CALL_TRIES * 2];
	unsigned int noutgrown;
	bool external;  /**< a Call chunk */
	uint16_t nsegs; /**< in all of its chunks */
	/* how it was changed because of an error, or of what the peer takes */
	bool no_reads, no_writes, no_reply, no_external;
	uint32_t want_reply_bytes;
	unsigned int tries;
	/* how it ended */
	enum weft_rpc_status status;
	uint32_t error;
	void *res;
	struct rpcrdma_batch inv;
};

LIST_HEAD(rpcrdma_call_list, rpcrdma_call);

/** What a call does next, or waits for room to do (rpcrdma_wait.c). */
enum rpcrdma_stage {
	RPCRDMA_STAGE_PULL,  /**< its chunks are read */
	RPCRDMA_STAGE_SERVE, /**< it is served, or answered without results */
	/** answered by who does not keep what the answer is made from: it cannot wait */
	RPCRDMA_STAGE_RAW,
	RPCRDMA_STAGE_ANSWER, /**< its results are encoded */
	RPCRDMA_STAGE_REPLAY, /**< the cache's answer is */
};

/** A call of the peer's, from its last part to the completion of the reply's last Send. */
struct weft_rpc_req {
	struct weft_handle h;           /**< live while a consumer has it */
	LIST_ENTRY(weft_rpc_req) entry; /**< in reqs */
	struct weft_rpc *rpc;           /**< NULL: the endpoint is gone */
	struct rpcrdma_prefix p;
	struct rpcrdma_chunks *chunks; /**< NULL: there are none */
	uint8_t *payload;
	uint32_t payload_bytes;
	/* pulled by Reads */
	uint8_t *pulled;
	uint32_t pulled_bytes; /**< counted in its endpoint's */
	/* charged to its endpoint's budget until they are freed: the call, its answer */
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
	/* that waits in the cache for the answer to the same call (and is `serving`) */
	LIST_ENTRY(weft_rpc_req) drc_wait; /**< in drc_shard's owed */
	struct drc_shard *drc_shard;
	struct weft_worker *drc_worker;
	bool drc_replaced; /**< the same call came once more: that one gets the answer */
	bool reading, old; /**< its chunks are being read; so they were at the last look */
	bool serving;      /**< its consumer has it */
	bool busy;         /**< likewise, and counted in its endpoint's holder */
	/* its endpoint's budget had no room */
	enum rpcrdma_stage stage;
	bool waits;                     /**< in waiting */
	TAILQ_ENTRY(weft_rpc_req) wait; /**< there */
	bool met;                       /**< counted in calls_in */
	enum weft_rpc_status status;    /**< of its answer */
	struct rpcrdma_drc_ent *replay; /**< the cache's answer to it, referenced while it waits */
	bool never;                     /**< its answer is more than there will ever be room for */
	/* answered */
	struct rpcrdma_out out;
	bool raw;         /**< its results are its consumer's, gone at return */
	uint8_t *results; /**< so those that are to be written, here */
};

LIST_HEAD(rpcrdma_req_list, weft_rpc_req);
TAILQ_HEAD(rpcrdma_req_queue, weft_rpc_req);

/** A message that comes in parts. */
struct rpcrdma_cont {
	bool active; /**< the next one must go on */
	bool old;    /**< so it was at the last look for what is unfinished */
	uint32_t xid;
	uint32_t htype; /**< RDMA2_CALL_MIDDLE or RDMA2_REPLY_MIDDLE */
	uint32_t remaining_bytes;
	uint8_t *buf;
	uint32_t len_bytes;
	/**
	 * What has such an xid is discarded, up to the last part (s7.1.4): of what was cut off, and
	 * of what cut in. The xids of calls and of replies have nothing to do with each other.
	 */
	struct rpcrdma_skip {
		uint32_t xid;
		bool call;
	} skip[2];
	unsigned int nskips;
};

/** How far the exchange of properties is (s6.3.3, s6.3.4), each way. */
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
	uint32_t vers; /**< in use; of a client before `heard`: tried */
	struct rpcrdma_credit credit;
	struct rpcrdma_credit1 credit1;
	struct rpcrdma_props peer;
	enum rpcrdma_props_state props_in, props_out;
	uint32_t props_xid; /**< of the latest of ours, when we spoke first */
	bool authentic;     /**< weft_rpc_auth.step() returned 1, or nothing is asked for */
	/** that came while it was not known, or in an exchange of properties */
	unsigned int stranger_msgs;
	uint32_t next_xid;

	bool heard;    /**< a message came in our version: it and credits are established (s4.3) */
	bool bad_vers; /**< the peer speaks no version of ours */
	bool peer_serves;  /**< version 1: weft_rpc_peer_serves() */
	bool closing;      /**< to be closed once what is queued was tried */
	bool down;         /**< connection gone; its calls have been told, or `telling` runs */
	_Atomic bool dead; /**< destroyed; freed when depth is 0 */
	bool refresh,
	        refresh_payload; /**< messages came in since the peer's credit was looked at */
	unsigned int depth;

	/** n_recv receives, n_send parts, n_ops batches, and nobody's */
	struct rpcrdma_slot *slots;
	struct rpcrdma_slot *nobody; /**< of work whose completion tells only of failure */
	unsigned int n_recv, n_send, n_ops;
	unsigned int n_posted; /**< of n_recv, since a stranger is given few */
	uint8_t *recv_mem[2];  /**< of those, and of the rest */
	struct rpcrdma_slot_list free_send, free_ops;
	struct rpcrdma_msg_list tx;
	struct rpcrdma_batch_list batches;
	unsigned int replies_queued, controls_queued;
	struct weft_alarm *retry; /**< armed while the send queue is full, or memory short */
	/** armed since it gave way to another one, whose call that was */
	struct weft_alarm *telling;
	struct weft_alarm *unfinished; /**< armed since a message began that is not here whole */
	struct weft_alarm *starved;    /**< armed since an answer waited for credit */
	bool moved;                    /**< a message went since then */

	struct rpcrdma_reg_list regs_used, regs_idle;
	/**
	 * Of calls that timed out, whose answers may still invalidate them: not used for others
	 * before, or the STag that the answer names would be none. The latest first.
	 */
	struct rpcrdma_reg_list regs_late;
	unsigned int nlate;
	struct rpcrdma_call *call_mem; /**< WEFT_RPC_MAX_CALLS, made with the first call */
	struct rpcrdma_call_list calls, free_calls;
	struct rpcrdma_req_list reqs;
	/** Answers whose Writes were posted when the endpoint closed the connection: until the QP
	 * is gone. */
	struct rpcrdma_req_list parked;
	unsigned int nreqs;
	uint64_t pulled_bytes; /**< of them */
	struct rpcrdma_cont cont;
	/** of a.budget: cont, reqs, their answers, and what these are sent from */
	struct rpcrdma_holder holder;
	struct rpcrdma_req_queue waiting; /**< for room there, in turn */
	bool resuming, refused;           /**< they are looked at; one waits again */
	struct weft_alarm *resume;        /**< armed while any wait */
	bool woken;                       /**< soon */
	unsigned int n_bufs;              /**< of slots to send, that are not charged */
	uint32_t error;                   /**< of the call whose fn runs */
	bool unsent;                      /**< likewise */
	struct weft_rpc_stats stats;
};

/* ---- rpcrdma.c: entry, exit, the end ---- */

/** n octets more for calls and answers. False: the budget has none now; others may have been
 * closed, of which nobody was told yet. */
bool weft_rpcrdma_hold(struct weft_rpc *rpc, uint64_t n);
void weft_rpcrdma_let_go(struct weft_rpc *rpc, uint64_t n);

/* ---- rpcrdma_wait.c: calls that wait for room in the budget ---- */

/** req goes on with its stage when its turn comes; until then no more credit is given. */
void weft_rpcrdma_wait(struct weft_rpc_req *req);
/** Its endpoint has some that wait: what is to be served goes behind them. */
bool weft_rpcrdma_waits(struct weft_rpc_req *req, enum rpcrdma_stage stage);
/** It waits no more. */
void weft_rpcrdma_wait_drop(struct weft_rpc_req *req);
/** Some wait: they will look again. When the outermost entry leaves. */
void weft_rpcrdma_wait_arm(struct weft_rpc *rpc);
/** None waits any more: the connection is gone. */
void weft_rpcrdma_wait_end(struct weft_rpc *rpc);

void weft_rpcrdma_enter(struct weft_rpc *rpc);
/** Sends what can be sent; frees a dead endpoint: rpc is not valid after the outermost one. */
void weft_rpcrdma_leave(struct weft_rpc *rpc);
/** The connection is of no more use: drop what is queued, end all calls with CONNLOST. */
void weft_rpcrdma_down(struct weft_rpc *rpc);
/** Close it, because we cannot answer or the peer breaks the rules (s7.4), and go down. */
void weft_rpcrdma_fail(struct weft_rpc *rpc);

static inline bool
weft_rpcrdma_is_dead(const struct weft_rpc *rpc)
{
	return atomic_load_explicit(&rpc->dead, memory_order_relaxed);
}

/** Whether the peer has still to show who it is before anything of it is taken but that. */
static inline bool
weft_rpcrdma_stranger(const struct weft_rpc *rpc)
{
	return rpc->a.auth != NULL && rpc->a.auth->required && !rpc->authentic;
}

/** Whether it has shown who it is: what it holds goes for no stranger's. */
static inline bool
weft_rpcrdma_known(const struct weft_rpc *rpc)
{
	return rpc->a.auth != NULL && rpc->authentic;
}
/** It has shown it: it is given all its receives and credits. -ENOMEM, and weft_post_recv()'s. */
int weft_rpcrdma_let_in(struct weft_rpc *rpc);
/** Memory of calls, at the first. -ENOMEM. */
int weft_rpcrdma_calls_make(struct weft_rpc *rpc);

/* ---- rpcrdma_rx.c: messages in ---- */

void weft_rpcrdma_rx(struct weft_rpc *rpc, const uint8_t *buf, const struct weft_wc *wc);
void weft_rpcrdma_cont_drop(struct weft_rpc *rpc);

/* ---- rpcrdma_unfinished.c: messages that do not become whole ---- */

/** One has begun: its time runs. */
void weft_rpcrdma_unfinished(struct weft_rpc *rpc);

/* ---- rpcrdma_mem.c: regions and batches ---- */

/** Room for n more work requests of one piece each. -ENOMEM. */
int weft_rpcrdma_batch_room(struct rpcrdma_batch *b, unsigned int n);
/** Octets of the heap that an empty batch takes for room for n. */
uint64_t weft_rpcrdma_batch_bytes(unsigned int n);
/** The next work request, zero but for a piece at sg_list; there is room. */
struct weft_wr *weft_rpcrdma_batch_add(struct rpcrdma_batch *b, void *addr, uint32_t len_bytes);
void weft_rpcrdma_batch_free(struct rpcrdma_batch *b);
/** Post alone, last one signaled; b->done tells. The batch is the owner's until then. */
void weft_rpcrdma_batch_queue(struct weft_rpc *rpc, struct rpcrdma_batch *b);
/** Its owner goes: it is not posted, or its completion is nobody's. */
void weft_rpcrdma_batch_forget(struct weft_rpc *rpc, struct rpcrdma_batch *b);

/** Register by a work request at the end of b. -ENOMEM, -ENOSPC (regions of the domain). */
int weft_rpcrdma_reg_get(struct weft_rpc *rpc, struct rpcrdma_batch *b, void *addr,
                         uint32_t len_bytes, uint32_t access, struct rpcrdma_reg **out);
/** Put the invalidation of what is still valid at the end of b; regs are put back by reg_put().
 * -ENOMEM. */
int weft_rpcrdma_reg_inv(struct rpcrdma_batch *b, struct rpcrdma_reg *const *reg, unsigned int n);
/** It is not valid any more, or the endpoint is down: then it is deregistered. */
void weft_rpcrdma_reg_put(struct weft_rpc *rpc, struct rpcrdma_reg *reg);
/** As weft_rpcrdma_reg_put(), of a region that a late answer to this call may still name. */
void weft_rpcrdma_reg_put_late(struct weft_rpc *rpc, struct rpcrdma_reg *reg, uint32_t xid);
/** A late answer came, and names it no more. */
void weft_rpcrdma_reg_answered(struct weft_rpc *rpc, uint32_t xid);
/** The peer invalidated this STag. */
void weft_rpcrdma_reg_invalidated(struct weft_rpc *rpc, uint32_t stag);
void weft_rpcrdma_regs_free(struct weft_rpc *rpc);
/** Segments of memory registered as one region. Returns how many, 0: more than cap. */
unsigned int weft_rpcrdma_reg_segs(const struct rpcrdma_reg *reg, uint32_t len_bytes,
                                   uint32_t max_bytes, struct rpcrdma_segment *segs,
                                   unsigned int cap);

/* ---- rpcrdma_tx.c: messages on their way out ---- */

/** NULL: no memory. */
struct rpcrdma_msg *weft_rpcrdma_msg_new(struct weft_rpc *rpc, enum rpcrdma_kind kind,
                                         uint32_t htype, uint32_t xid);
/** Unlinks; what it was made from is told: a req is over. */
void weft_rpcrdma_msg_free(struct weft_rpc *rpc, struct rpcrdma_msg *m);
void weft_rpcrdma_queue(struct weft_rpc *rpc, struct rpcrdma_msg *m);
void weft_rpcrdma_queue_first(struct weft_rpc *rpc, struct rpcrdma_msg *m);
/** A call is over: its message, if none of it has gone, does not go. */
void weft_rpcrdma_msg_forget(struct weft_rpc *rpc, struct rpcrdma_msg *m);
/**
 * Calls of ours that version 1 lets be unanswered (RFC 8166 s3.3.1): the lower of what was granted,
 * never 0, and what we ask for, because a reply needs a receive of ours.
 */
uint32_t weft_rpcrdma_credit1_max(const struct weft_rpc *rpc);
/** Largest message that may be sent now. */
uint32_t weft_rpcrdma_threshold(const struct weft_rpc *rpc);
/** Queue an error about the message with prefix p; closes the connection when there is no room. */
void weft_rpcrdma_error(struct weft_rpc *rpc, const struct rpcrdma_prefix *p,
                        const struct rpcrdma_err *err);
/** Post what may go. -ENOTCONN: never connected; else 0, trouble has been dealt with. */
int weft_rpcrdma_pump(struct weft_rpc *rpc);
/** The Send of a part completed. */
void weft_rpcrdma_sent(struct weft_rpc *rpc, struct rpcrdma_slot *s, bool ok);

/* ---- rpcrdma_call.c: our calls ---- */

/** End the call: fn runs when its regions are nobody's any more. */
void weft_rpcrdma_call_end(struct rpcrdma_call *call, enum weft_rpc_status status);
/** End them all. */
void weft_rpcrdma_calls_end(struct weft_rpc *rpc, enum weft_rpc_status status);
/** Of no call that is under way, and not 0, which stands in grants. */
uint32_t weft_rpcrdma_new_xid(struct weft_rpc *rpc);
struct rpcrdma_call *weft_rpcrdma_call_find(struct weft_rpc *rpc, uint32_t xid);
/** Free what it has; its regions are nobody's. */
void weft_rpcrdma_call_release(struct rpcrdma_call *call);
/** Version 1: an answer came to a call that is over. */
void weft_rpcrdma_call_late(struct weft_rpc *rpc);
/**
 * Lay out the message in the version in use. 0 or -errno; on the queue only when its turn comes.
 * -EMSGSIZE: there is no way that the peer takes.
 */
int weft_rpcrdma_call_layout(struct rpcrdma_call *call);
/** Do without one more kind of chunk, the next time it is laid out. False: it has none left that
 * it could do without. */
bool weft_rpcrdma_call_leaner(struct rpcrdma_call *call);
/** Into call->out, without the items if they are to be moved. 0, -EMSGSIZE, -ENOMEM, -EINVAL. */
int weft_rpcrdma_call_encode(struct rpcrdma_call *call, bool reduce);
/** Put it on the queue, to be laid out in its turn. -ENOMEM. */
int weft_rpcrdma_call_queue(struct rpcrdma_call *call);

/* ---- rpcrdma_result.c: what comes back of them ---- */

/** A reply: msg is the reduced RPC message, or NULL when it is in the Reply chunk. */
void weft_rpcrdma_rx_reply(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr, const uint8_t *msg,
                           uint32_t len_bytes);
/** A reply that cannot be used. */
void weft_rpcrdma_rx_bad_reply(struct weft_rpc *rpc, uint32_t xid);
void weft_rpcrdma_rx_error(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr);

/* ---- rpcrdma_serve.c: calls of the peer; rpcrdma_reply.c: their answers ---- */

/** buf: the RPC message, or NULL when it is in the Call chunk. Takes `own`, a heap buffer that
 * holds it, or copies. */
void weft_rpcrdma_rx_call(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr, const uint8_t *buf,
                          uint32_t len_bytes, uint8_t *own);
void weft_rpcrdma_req_free(struct weft_rpc_req *req);
/** Its consumer answers: the handle is over. False: it is no request, or answered already; nothing
 * was done. */
bool weft_rpcrdma_req_back(struct weft_rpc_req *req, const char *call);
/** Its answer is laid out and may wait long for credit: of the call, and of results that are not
 * written, nothing is needed. */
void weft_rpcrdma_req_encoded(struct weft_rpc_req *req);
/** A Read of the first call that is being read was refused by the peer. */
void weft_rpcrdma_pull_refused(struct weft_rpc *rpc);
/** As weft_rpcrdma_req_free(), but the memory stays until the endpoint goes: Writes from it are
 * posted. */
void weft_rpcrdma_req_park(struct weft_rpc_req *req);
/** Its turn has come: go on with its stage. */
void weft_rpcrdma_req_go(struct weft_rpc_req *req);
/**
 * Encode and queue: an answer with the results that chunks may carry; errors become RDMA2_ERRORs.
 * False: there is no room for it now, and req, which is not raw, waits.
 */
bool weft_rpcrdma_answer(struct weft_rpc_req *req, bool (*encode)(void *arg, XDR *xdr), void *arg,
                         const struct weft_rpc_item *items, unsigned int nitems);

/* ---- rpcrdma_prop.c: transport properties, authentication ---- */

void weft_rpcrdma_rx_props(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr);
/** Put our properties in front of the queue. False: no room. */
bool weft_rpcrdma_props_first(struct weft_rpc *rpc);

#endif /* RPCRDMA_PRIV_H */
