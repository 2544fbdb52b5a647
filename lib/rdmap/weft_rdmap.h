/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_RDMAP_H
#define WEFT_RDMAP_H

/**
 * @file
 * RDMAP (RFC 5040) with Atomic Operations and Immediate Data (RFC 7306), and with Flush,
 * Verify and Atomic Write (draft-talpey-rdma-commit-02): opcodes, the state of a stream, outbound
 * requests under ORD, the inbound request queue under IRD, Terminate.
 *
 * Internal header. verbs is the layer above and ddp is the layer below. Connection management,
 * above verbs, brings the stream up and ends it. Every call and every up-call runs on the stream's
 * worker.
 */

#include "weft_base.h"
#include "weft_mem.h"
#include "weft_lane.h"
#include "weft_sched.h"
#include "weft_rdmap_req.h"
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

/** Printable name of an opcode; "?" for an unassigned opcode. Static. */
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
	WEFT_RDMAP_ST_CLOSING,   /**< weft_rdmap_close() was called, or the peer sent its FIN */
	WEFT_RDMAP_ST_TERMINATE, /**< a Terminate was sent or received; the connection is closing */
	WEFT_RDMAP_ST_ERROR,     /**< the stream has ended; every request was flushed */
	WEFT_RDMAP_ST_NSTATES,
};

const char *weft_rdmap_state_name(enum weft_rdmap_state s);

/** Answer of start() about the request at the head of the send queue. */
enum weft_rdmap_start {
	WEFT_RDMAP_GO,   /**< rdmap sends the request */
	WEFT_RDMAP_WAIT, /**< rdmap asks again later; verbs calls weft_rdmap_resume() */
	/** verbs has executed the request: rdmap sends nothing; done() with WEFT_RDMAP_OK */
	WEFT_RDMAP_DONE,
	/**
	 * The request is impossible: rdmap sends Terminate 0/0 (RFC 5040 s7.1 case 1); done() with
	 * WEFT_RDMAP_LOCAL_PROT.
	 */
	WEFT_RDMAP_REFUSE,
};

struct weft_rdmap;

/** Up-calls to verbs, all on the worker. An up-call may destroy the stream it comes from. */
struct weft_rdmap_ops {
	/**
	 * req is complete, and rdmap no longer uses it. WRITE, SEND and IMM complete when they are
	 * copied to the TCP stream; the other kinds complete when they are answered. Requests of
	 * the two kinds may complete out of post order; verbs restores the order.
	 */
	void (*done)(void *user, struct weft_rdmap_req *req, enum weft_rdmap_status status);
	/**
	 * A turn of the stream begins, or ends. Within a turn many requests may go to done(), and
	 * what the user does for all of them together is best done at its end. A stream that is
	 * destroyed within its turn does not end it. May be NULL.
	 */
	void (*turn)(void *user, bool begins);
	/**
	 * A request with `hook` is at the head of the send queue, and its fence is satisfied. verbs
	 * executes local work here (posted as a Send that is never sent), or looks up what earlier
	 * local work may have changed. rdmap calls start() again in each turn while it answers
	 * WAIT.
	 */
	enum weft_rdmap_start (*start)(void *user, struct weft_rdmap_req *req);
	/**
	 * Return the sge list of the next receive buffer of QN 0, and its length in *nsge. rdmap
	 * holds the buffer and the list until recv_done() or recv_imm(), one buffer at a time.
	 * NULL with *nsge 0: no receive buffer is posted. NULL with *nsge not 0: the posted buffer
	 * is not usable and has been completed; rdmap ends the stream with a local error.
	 */
	const struct weft_rdmap_sge *(*recv_buf)(void *user, uint8_t *nsge);
	/**
	 * The buffer of recv_buf() is complete: it holds a Send, or status says why it does not.
	 * inv_stag: 0, or the STag that a Send with Invalidate invalidated.
	 */
	void (*recv_done)(void *user, enum weft_rdmap_status status, uint32_t len_bytes,
	                  bool solicited, uint32_t inv_stag);
	/**
	 * A whole Send has arrived, of len_bytes at p, while rdmap holds no buffer. True: it was
	 * copied into the next receive buffer of QN 0, whose receive is complete. False: recv_buf()
	 * and recv_done() have to do it, and the buffer may hold octets of the Send. May be NULL:
	 * it never does.
	 */
	bool (*recv_whole)(void *user, const uint8_t *p, uint32_t len_bytes);
	/**
	 * Immediate Data has arrived. It consumes the buffer of recv_buf() and does not write to
	 * it. Immediate Data with an error ends with recv_done() instead. imm is valid during the
	 * call only.
	 */
	void (*recv_imm)(void *user, const uint8_t imm[WEFT_RDMAP_IMM_BYTES], bool solicited);
	/**
	 * Send with Invalidate: invalidate stag. Returns 0, or -EPROTO with *term when this stream
	 * may not.
	 */
	int (*invalidate)(void *user, uint32_t stag, struct weft_term *term);
	/**
	 * The state changed to s. TERMINATE: term is the cause; `ours` is true when this side
	 * detected the fault, false when the peer's Terminate reported it. Other states: term is
	 * NULL. Before ERROR every request has gone to done().
	 */
	void (*state)(void *user, enum weft_rdmap_state s, const struct weft_term *term, bool ours);
	/**
	 * Initiator start-up: MPA's Reply, unchanged. When the Reply accepts, connection management
	 * calls weft_rdmap_start().
	 */
	void (*reply)(void *user, const struct weft_mpa_frame *rep);
	/**
	 * The start-up failed in state IDLE. Return true when connection management makes another
	 * attempt on the same MPA, which is idle again; closed() then does not follow. NULL: no
	 * other attempt.
	 */
	bool (*again)(void *user, int err);
	/** The TCP connection is gone (err as weft_mpa_ops.closed). The state is ERROR. The last
	 * up-call. */
	void (*closed)(void *user, int err);
	/**
	 * The peer's Terminate reports a Write to this STag and offset, and done() has already
	 * completed that Write. Outstanding requests are flushed after this call. May be NULL.
	 */
	void (*write_refused)(void *user, uint32_t stag, uint64_t to,
	                      enum weft_rdmap_status status);
	/**
	 * A bad range of mr: a Verify of the peer found a mismatch, a Flush or a read-back failed,
	 * or the medium is gone. code: WEFT_TERM_OP_*. status: -errno of the Flush or read-back
	 * that the persist driver refused or failed; 0: none of these.
	 */
	void (*bad_range)(void *user, struct weft_mem_mr *mr, uint64_t to, uint64_t len_bytes,
	                  uint8_t code, int status);
};

struct weft_rdmap_attr {
	struct weft_mem *mem;
	struct weft_mem_pd *pd;
	struct weft_sched *sched;
	uint16_t ird;                         /**< depth of the inbound request queue */
	uint16_t ord;                         /**< most outstanding read-like requests */
	struct weft_rdmap_op_stats *op_stats; /**< the worker's; NULL: opcodes are not counted */
};

/** Create a stream in state IDLE. *attr is copied; ops must outlive the stream. 0, or -ENOMEM. */
int weft_rdmap_create(const struct weft_rdmap_attr *attr, const struct weft_rdmap_ops *ops,
                      void *user, struct weft_rdmap **out);
/**
 * Destroy the stream, and reset the connection if it is open. There is no up-call: requests are the
 * caller's again without done(). Memory that a persist driver still uses is freed later.
 */
void weft_rdmap_destroy(struct weft_rdmap *r);
/** The DDP below. Connection management starts, accepts and closes its MPA. */
struct weft_ddp *weft_rdmap_ddp(struct weft_rdmap *r);
/** Before weft_rdmap_start(): the lane that long work of this stream counts against. The lane must
 * outlive the stream. */
void weft_rdmap_lane(struct weft_rdmap *r, struct weft_lane *lane);
/** MPA entered full operation with these depths: IDLE -> RTS. Does nothing in other states. */
void weft_rdmap_start(struct weft_rdmap *r, uint16_t ird, uint16_t ord);
/** Before weft_rdmap_start(): the ready-to-receive indication (enum weft_rdmap_rtr) to send before
 * any other message. */
void weft_rdmap_rtr(struct weft_rdmap *r, uint8_t form);
/** Queue one request. In RTS the stream's task sends it; in any other state the task flushes it. */
void weft_rdmap_post(struct weft_rdmap *r, struct weft_rdmap_req *req);
/** The same for all requests of a list, in its order. The list is empty afterwards. */
void weft_rdmap_post_list(struct weft_rdmap *r, struct weft_rdmap_req_list *reqs);
/** After start() answered WAIT: queue the stream's task, which calls start() again. */
void weft_rdmap_resume(struct weft_rdmap *r);
/** The stream's scope in its protection domain (struct weft_mem_pd.home). Windows are bound to it.
 */
struct weft_mem_pd *weft_rdmap_scope(struct weft_rdmap *r);
/**
 * Close in order behind queued requests and responses. The stream is reset when nothing moves for
 * one to two minutes, or when the peer does not close within a minute after our FIN. In state IDLE
 * our FIN is sent at once, and the peer has 5 seconds.
 */
void weft_rdmap_close(struct weft_rdmap *r, uint64_t now_ns);
/**
 * After weft_rdmap_close(): the user leaves the stream, which closes by itself. No memory that the
 * user has registered or posted is used from here on; requests are the caller's again without
 * done(). Of `ops` only state() and closed() are called, and closed() is the last up-call. The
 * stream is reset when the peer does not close within wait_ns. weft_rdmap_destroy() ends it early.
 * False: nothing has changed, because posted requests are not wholly sent yet, a driver uses the
 * user's memory, an up-call of the stream is running, or there is no connection that closes.
 */
bool weft_rdmap_leave(struct weft_rdmap *r, const struct weft_rdmap_ops *ops, void *user,
                      uint64_t wait_ns);
/** Send a Terminate for a fault that verbs detected, and end the stream. */
void weft_rdmap_terminate(struct weft_rdmap *r, const struct weft_term *term, uint64_t now_ns);
/** Reset the connection; done() for every request; state ERROR. */
void weft_rdmap_abort(struct weft_rdmap *r, uint64_t now_ns);

enum weft_rdmap_state weft_rdmap_state(const struct weft_rdmap *r);
const struct weft_rdmap_stats *weft_rdmap_stats(const struct weft_rdmap *r);
/** *out: outstanding read-like requests. *in: entries in the inbound request queue. */
void weft_rdmap_depths(const struct weft_rdmap *r, uint16_t *out, uint16_t *in);

#endif /* WEFT_RDMAP_H */
