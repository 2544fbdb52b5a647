/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_RDMAP_H
#define WEFT_RDMAP_H

/**
 * @file
 * RDMAP (RFC 5040) with Atomic Operations and Immediate Data (RFC 7306), and with Flush,
 * Verify and Atomic Write (draft-talpey-rdma-commit-02): opcodes, per-stream state, outbound
 * requests under ORD, the inbound request queue under IRD, Terminate. Internal; verbs above,
 * ddp below; everything on the stream's worker.
 */

#include "weft_base.h"
#include "weft_mem.h"
#include "weft_lane.h"
#include "weft_sched.h"
#include "weft_rdmap_stat.h"
#include "weft_rdmap_term.h"

struct weft_ddp;
struct weft_mpa_frame;

enum weft_rdmap_op {
	WEFT_RDMAP_WRITE = 0x0, /* RFC 5040 s4.3 */
	WEFT_RDMAP_READ_REQ = 0x1,
	WEFT_RDMAP_READ_RESP = 0x2,
	WEFT_RDMAP_SEND = 0x3,
	WEFT_RDMAP_SEND_INV = 0x4,
	WEFT_RDMAP_SEND_SE = 0x5,
	WEFT_RDMAP_SEND_SE_INV = 0x6,
	WEFT_RDMAP_TERMINATE = 0x7,
	WEFT_RDMAP_IMM = 0x8, /* RFC 7306 s4.1 Figure 2 */
	WEFT_RDMAP_IMM_SE = 0x9,
	WEFT_RDMAP_ATOMIC_REQ = 0xA,
	WEFT_RDMAP_ATOMIC_RESP = 0xB,
	WEFT_RDMAP_FLUSH_REQ = 0xC, /* draft-talpey-rdma-commit-02 s5 */
	WEFT_RDMAP_FLUSH_RESP = 0xD,
	WEFT_RDMAP_VERIFY_REQ = 0xE,
	WEFT_RDMAP_VERIFY_RESP = 0xF,
	WEFT_RDMAP_AWRITE_REQ = 0x10,
	WEFT_RDMAP_AWRITE_RESP = 0x11,
};

/** Printable name, "?" for an unassigned one. */
const char *weft_rdmap_op_name(uint8_t op);

/** The ready-to-receive indication of the peer-to-peer model (RFC 6581 s9.2). */
enum weft_rdmap_rtr {
	WEFT_RDMAP_RTR_NONE = 0,
	WEFT_RDMAP_RTR_FPDU = 1,  /**< an empty FPDU */
	WEFT_RDMAP_RTR_WRITE = 2, /**< an empty RDMA Write */
	WEFT_RDMAP_RTR_READ = 4,  /**< an empty RDMA Read */
};

enum weft_rdmap_state {
	WEFT_RDMAP_ST_IDLE, /**< MPA not in full operation yet */
	WEFT_RDMAP_ST_RTS,
	WEFT_RDMAP_ST_CLOSING,   /**< one direction closed in order */
	WEFT_RDMAP_ST_TERMINATE, /**< a Terminate was sent or received; draining */
	WEFT_RDMAP_ST_ERROR,     /**< over; all work flushed */
	WEFT_RDMAP_ST_NSTATES,
};

const char *weft_rdmap_state_name(enum weft_rdmap_state s);

#define WEFT_RDMAP_MAX_SGE 4 /**< in the request itself; more elsewhere */

struct weft_rdmap_sge {
	uint8_t *addr;
	uint32_t len_bytes;
	uint32_t lkey; /**< verbs': what the piece was posted with */
};

/* Atomic Operation codes (RFC 7306 s5.2.1 Figure 5, s10.1: 0x1 is reserved). */
#define WEFT_RDMAP_FETCH_ADD 0x0
#define WEFT_RDMAP_CMP_SWAP  0x2

#define WEFT_RDMAP_IMM_BYTES 8 /* RFC 7306 s6.2 */

/** One Atomic Operation: operands and result as integers of the host. */
struct weft_rdmap_atomic {
	uint8_t aop;       /**< WEFT_RDMAP_FETCH_ADD or WEFT_RDMAP_CMP_SWAP */
	uint64_t data;     /**< Add Data or Swap Data */
	uint64_t mask;     /**< Add Mask (0: plain) or Swap Mask (all ones: plain) */
	uint64_t cmp;      /**< CmpSwap: Compare Data */
	uint64_t cmp_mask; /**< CmpSwap: Compare Mask (all ones: plain) */
	uint64_t orig;     /**< once done: Original Remote Data Value */
};

/** How an outbound request or an inbound Send ended. */
enum weft_rdmap_status {
	WEFT_RDMAP_OK = 0,
	WEFT_RDMAP_FLUSHED,       /**< the stream died before it could be done */
	WEFT_RDMAP_REMOTE_ACCESS, /**< this request drew a Terminate: remote protection error */
	/** this request drew a Terminate: remote operation error (flush failed, ...) */
	WEFT_RDMAP_REMOTE_OP,
	WEFT_RDMAP_HASH_MISMATCH, /**< this Verify drew WEFT_TERM_OP_HASH_MISMATCH */
	WEFT_RDMAP_LOCAL_LENGTH,  /**< an inbound Send was longer than its buffer */
	WEFT_RDMAP_LOCAL_PROT,    /**< local buffer invalid (read sink went away) */
};

/**
 * One outbound message. The owner (verbs' send queue) keeps it until done().
 * Lengths are 32-bit as on the wire.
 */
struct weft_rdmap_req {
	TAILQ_ENTRY(weft_rdmap_req) link; /**< rdmap's while queued */
	/** WRITE, READ_REQ, SEND*, IMM*, ATOMIC_REQ, FLUSH_REQ, VERIFY_REQ, AWRITE_REQ */
	uint8_t op;
	/** wait until every earlier read-like request is answered */
	bool fence;
	bool hook; /**< ask start() when it is its turn */
	/** WRITE: 0, or the IMM* that follows it as part of this request */
	uint8_t imm_op;
	/** VERIFY: expected length (0: none given), then the length received */
	uint8_t hash_bytes;
	uint8_t nsge;
	struct weft_rdmap_sge sge[WEFT_RDMAP_MAX_SGE]; /**< source (WRITE, SEND) */
	/** instead of sge when not NULL; the owner's, as long as the request */
	const struct weft_rdmap_sge *sgl;
	/** total of sge; or length of READ, FLUSH, VERIFY; 8 for IMM and ATOMIC */
	uint32_t len_bytes;
	uint32_t stag;      /**< remote STag; SEND_INV: the STag to invalidate */
	uint64_t to;        /**< remote TO */
	uint32_t sink_stag; /**< READ: local */
	uint32_t flush_flags;
	uint64_t sink_to;
	union {
		/** VERIFY: expected, then (on completion) computed; AWRITE: 8 octets */
		uint8_t hash[WEFT_HASH_MAX_BYTES];
		struct weft_rdmap_atomic atomic;   /**< ATOMIC_REQ */
		uint8_t imm[WEFT_RDMAP_IMM_BYTES]; /**< IMM*, WRITE with imm_op */
	};
	uint32_t sent_bytes; /**< progress, rdmap's */
	uint32_t got_bytes;  /**< READ: octets placed so far, rdmap's */
};

TAILQ_HEAD(weft_rdmap_req_list, weft_rdmap_req);

/** What start() says of a request whose turn has come. */
enum weft_rdmap_start {
	WEFT_RDMAP_GO,   /**< send it */
	WEFT_RDMAP_WAIT, /**< not yet: weft_rdmap_resume() follows */
	/** its owner has carried it out: nothing is sent, done() with WEFT_RDMAP_OK */
	WEFT_RDMAP_DONE,
	/** it cannot be: Terminate 0/0 (RFC 5040 s7.1 case 1), done() with WEFT_RDMAP_LOCAL_PROT */
	WEFT_RDMAP_REFUSE,
};

struct weft_rdmap;

/** Up-calls to verbs; all on the worker. */
struct weft_rdmap_ops {
	/**
	 * req is finished and rdmap has let go of it. WRITE, SEND and IMM: when copied to the
	 * stream; the others: when answered. Not necessarily in post order between those two kinds
	 * (verbs orders).
	 */
	void (*done)(void *user, struct weft_rdmap_req *req, enum weft_rdmap_status status);
	/**
	 * A request with `hook` stands at the head of the send queue, and its fence is satisfied.
	 * What only the owner can do in order is so done: local work (posted as a Send that never
	 * leaves), or what must be looked up behind such. Asked again each turn while it says WAIT.
	 */
	enum weft_rdmap_start (*start)(void *user, struct weft_rdmap_req *req);
	/**
	 * The next receive buffer for QN 0: its sge list, or NULL: none is posted, or (*nsge is not
	 * 0) the one that was is not usable and was given back already: the stream ends by our own
	 * fault. rdmap holds it, and the list, until recv_done; one at a time.
	 */
	const struct weft_rdmap_sge *(*recv_buf)(void *user, uint8_t *nsge);
	/** A Send has been delivered into it. inv_stag: 0, or the STag a Send with Invalidate
	 * invalidated. */
	void (*recv_done)(void *user, enum weft_rdmap_status status, uint32_t len_bytes,
	                  bool solicited, uint32_t inv_stag);
	/**
	 * Immediate Data has come and has used up the buffer that recv_buf() gave, which is
	 * untouched (one that fails ends with recv_done). imm: until the return only.
	 */
	void (*recv_imm)(void *user, const uint8_t imm[WEFT_RDMAP_IMM_BYTES], bool solicited);
	/**
	 * Send with Invalidate: invalidate stag if this stream may. 0, or -EPROTO with *term.
	 */
	int (*invalidate)(void *user, uint32_t stag, struct weft_term *term);
	/**
	 * State changed. term: on TERMINATE, the cause; `ours`: we detected it (and sent it) rather
	 * than received it. NULL otherwise. On ERROR every request has been given to done() before.
	 */
	void (*state)(void *user, enum weft_rdmap_state s, const struct weft_term *term, bool ours);
	/** Initiator start-up: MPA's Reply, passed through; on an accept call weft_rdmap_start().
	 */
	void (*reply)(void *user, const struct weft_mpa_frame *rep);
	/**
	 * The start-up failed before it began to run (state IDLE): whether another attempt will be
	 * made, on the same MPA, which is idle again; then `closed` does not follow. May be NULL:
	 * none.
	 */
	bool (*again)(void *user, int err);
	/** The TCP connection is gone (err as weft_mpa_ops.closed); the state is ERROR already.
	 * Last up-call. */
	void (*closed)(void *user, int err);
	/**
	 * The peer's Terminate is about a Write that done() has told of: one to this STag that has
	 * this offset. What is outstanding comes after. May be NULL.
	 */
	void (*write_refused)(void *user, uint32_t stag, uint64_t to,
	                      enum weft_rdmap_status status);
	/** A Verify of the peer found a mismatch, or a Flush or read-back failed, or memory was
	 * lost, on this range. */
	void (*bad_range)(void *user, struct weft_mem_mr *mr, uint64_t to, uint64_t len_bytes,
	                  uint8_t code);
};

/** Ways to break a promise of the placement extensions. For tests only, which must notice each. */
enum weft_rdmap_sabotage {
	WEFT_RDMAP_SOUND,
	WEFT_RDMAP_DROP_FLUSH, /**< a Flush is answered and not done */
	/** a Flush is answered when it starts; what follows still waits for its end */
	WEFT_RDMAP_EARLY_RESPONSE,
	/** an Atomic Write is done when it comes, before the Flushes and Verifies ahead of it */
	WEFT_RDMAP_EARLY_AWRITE,
	WEFT_RDMAP_VERIFY_MEMORY, /**< a Verify hashes memory, not the medium */
};

struct weft_rdmap_attr {
	struct weft_mem *mem;
	struct weft_mem_pd *pd;
	struct weft_sched *sched;
	uint16_t ird;                         /**< depth of the inbound request queue we grant */
	uint16_t ord;                         /**< outstanding read-like requests we may have */
	struct weft_rdmap_op_stats *op_stats; /**< the worker's; NULL: not counted by opcode */
	enum weft_rdmap_sabotage sabotage;
};

/** 0, -ENOMEM. */
int weft_rdmap_create(const struct weft_rdmap_attr *attr, const struct weft_rdmap_ops *ops,
                      void *user, struct weft_rdmap **out);
/** Lets go of everything at once; aborts the stream if it lives. No up-call. */
void weft_rdmap_destroy(struct weft_rdmap *r);
/** The DDP below, whose MPA connection management starts, accepts and closes. */
struct weft_ddp *weft_rdmap_ddp(struct weft_rdmap *r);
/** Before weft_rdmap_start(): whose long work this stream's is; the lane outlives the stream. */
void weft_rdmap_lane(struct weft_rdmap *r, struct weft_lane *lane);
/** MPA went to full operation with these depths: IDLE -> RTS. */
void weft_rdmap_start(struct weft_rdmap *r, uint16_t ird, uint16_t ord);
/** Before weft_rdmap_start(): the ready-to-receive indication (enum weft_rdmap_rtr) that goes
 * ahead of everything else. */
void weft_rdmap_rtr(struct weft_rdmap *r, uint8_t form);
/** Queue one request; it is sent by the stream's task this poll. In any state but RTS it is
 * flushed. Worker only. */
void weft_rdmap_post(struct weft_rdmap *r, struct weft_rdmap_req *req);
/** What start() waited for may have come: a turn for the stream. */
void weft_rdmap_resume(struct weft_rdmap *r);
/** The stream's scope of the domain it was made in (struct weft_mem_pd.home), to bind windows to.
 */
struct weft_mem_pd *weft_rdmap_scope(struct weft_rdmap *r);
/** Close in order after what is queued; reset when nothing moves for a minute or two. */
void weft_rdmap_close(struct weft_rdmap *r, uint64_t now_ns);
/** Send a Terminate for a fault that the consumer of this layer found, and end the stream. */
void weft_rdmap_terminate(struct weft_rdmap *r, const struct weft_term *term, uint64_t now_ns);
/** Reset; done() for all, state ERROR. */
void weft_rdmap_abort(struct weft_rdmap *r, uint64_t now_ns);

enum weft_rdmap_state weft_rdmap_state(const struct weft_rdmap *r);
const struct weft_rdmap_stats *weft_rdmap_stats(const struct weft_rdmap *r);
/** Read-like requests outstanding, and entries in the inbound request queue. */
void weft_rdmap_depths(const struct weft_rdmap *r, uint16_t *out, uint16_t *in);

#endif /* WEFT_RDMAP_H */
