/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_VERBS_H
#define WEFT_VERBS_H

/**
 * @file
 * The verbs of weft: protection domains, memory regions, completion queues,
 * queue pairs, work requests, connections. Installed; stands alone.
 *
 * Threads. A QP belongs to one worker (weft/worker.h) for its whole life. Every
 * function here may be called from any thread: on the thread that polls the
 * worker (inside a callback, or between two weft_worker_poll() calls) it acts at once;
 * from any other it goes through a ring and acts at the worker's next poll.
 * No function here blocks, but for weft_listen(), which waits for the polls of all workers.
 *
 * Completions come in one of three ways, chosen when the CQ is made: polled with
 * weft_cq_poll() from any thread; announced on a file descriptor after weft_cq_arm();
 * or by callback on the worker. Connection events likewise (struct weft_evq).
 *
 * Ownership. Buffers of a work request belong to weft from the post to its
 * completion. What a function copies it says. Destroying is asynchronous where
 * operations are in flight: the handle is invalid at return.
 *
 * Errors. Functions return 0 (or a count) or -errno. What goes wrong later is a completion
 * status or an event. A peer cannot make any function here fail or abort otherwise.
 *
 * Misuse. Every call that takes a handle, of this header and of the others that are installed,
 * refuses NULL, a handle of another kind, and one that was destroyed and is among the last 64
 * destroyed of its kind (by what destroys it, or by weft_ctx_destroy() of its context): it does
 * nothing and returns -EINVAL. A call that has no errno to return returns NULL, 0 or false, or just
 * does nothing; a query then fills in zeros. So a handle may be destroyed twice, by two threads at
 * once too: one of them does it. Each refusal is logged (type weft.api, ten lines a second). Of the
 * calls of the data path (weft_post_send(), weft_post_recv(), weft_post_srq_recv(), weft_commit(),
 * weft_cq_poll(), weft_worker_poll()) NULL and destroyed handles are refused, other kinds are not
 * looked for. Undefined, as with any freed pointer, are a handle that was destroyed longer ago, and
 * one that is destroyed while another thread is inside a call with it. NULL for what a call reads
 * or fills in (out, info, wr, wc, ev, attr where it is not said that it may be NULL) is refused
 * likewise.
 *
 * Attributes begin with their size, so that a program may be built against another version: members
 * that it does not have are zero, which asks for the default. -EINVAL: a size that no version has
 * (8 octets or fewer, no multiple of 8, above 64 KiB), or something that is not zero behind the
 * members that this version knows.
 *
 * Order: RFC 5040 s5.5 and docs/conformance.md. Requests of a QP start in post order and complete
 * in post order.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <weft/api.h>
#include <weft/hash.h>
#include <weft/mpa_policy.h>
#include <weft/persist.h>

WEFT_API_BEGIN

struct weft_ctx;
struct weft_worker;
struct weft_pd;
struct weft_mr;
struct weft_mw;
struct weft_cq;
struct weft_qp;
struct weft_srq;
struct weft_evq;
struct weft_listener;
struct weft_connreq;

/* ---- Protection domains and regions ---- */

/** With the context's limits (weft_ctx_attr.max_pd_regions, max_pd_windows). -EINVAL, -ENOMEM. */
int weft_pd_alloc(struct weft_ctx *ctx, struct weft_pd **out);

/**
 * Limits of one domain, so that what is done on behalf of one peer leaves room for the others
 * (RFC 5042 s6.4.1). A region counts until it is freed.
 */
struct weft_pd_attr {
	size_t size;          /**< sizeof(struct weft_pd_attr) */
	uint32_t max_regions; /**< [0: the context's] registered and reserved */
	uint32_t max_windows; /**< [0: the context's] */
};

/** -EINVAL, -ENOMEM. */
int weft_pd_alloc_attr(struct weft_ctx *ctx, const struct weft_pd_attr *attr, struct weft_pd **out);
/** -EBUSY while a QP, SRQ, region or window of it is left: then it is as it was. -EINVAL. */
int weft_pd_dealloc(struct weft_pd *pd);

struct weft_pd_info {
	uint32_t regions, windows;         /**< not yet freed; those on their way out count */
	uint32_t max_regions, max_windows; /**< 0: as many as the context has room for */
	uint64_t refused;                  /**< registrations and allocations beyond these limits */
	uint32_t qps, srqs;
};

/** Takes a lock, as all queries here but those of a CQ and an SRQ: not for the data path. */
void weft_pd_query(struct weft_pd *pd, struct weft_pd_info *info);

/** What a context allows, and what of it is in use. */
struct weft_ctx_info {
	/* limits of one object */
	uint32_t max_sq_depth, max_rq_depth, max_srq_depth, max_cq_depth;
	uint32_t max_sge, max_send_sge; /**< a Read has one, its sink */
	uint32_t max_inline_bytes;
	uint16_t max_ird, max_ord;
	uint16_t max_private_data_bytes;
	uint64_t max_message_bytes; /**< of a Send, Write or Read */
	/* limits of the context, and how much is there */
	uint32_t max_qps, qps; /**< of all workers that exist */
	uint32_t max_regions, regions;
	uint32_t workers;
	uint32_t pds, cqs, srqs, evqs, listeners;
};

void weft_ctx_query(struct weft_ctx *ctx, struct weft_ctx_info *info);

#define WEFT_ACCESS_LOCAL_WRITE      0x01 /**< may be the sink of an RDMA Read or a receive */
#define WEFT_ACCESS_REMOTE_READ      0x02
#define WEFT_ACCESS_REMOTE_WRITE     0x04 /**< RDMA Write and Atomic Write */
#define WEFT_ACCESS_REMOTE_ATOMIC    0x08 /**< FetchAdd and CmpSwap, whatever the other rights */
#define WEFT_ACCESS_FLUSH_PERSISTENT 0x10 /**< Flush with WEFT_FLUSH_PERSISTENT */
#define WEFT_ACCESS_FLUSH_VISIBLE    0x20
/** needs REMOTE_READ beside it: the hash of an octet tells the octet */
#define WEFT_ACCESS_VERIFY  0x40
#define WEFT_ACCESS_MW_BIND 0x80 /**< memory windows may be bound to it */

struct weft_mr_attr {
	size_t size; /**< sizeof(struct weft_mr_attr) */
	void *addr;
	uint64_t len_bytes;
	uint64_t base_to; /**< tagged offset of addr[0]; 0 makes the region zero-based */
	uint32_t access;  /**< WEFT_ACCESS_* */
	struct weft_persist *persist; /**< the medium addr belongs to; NULL for ordinary memory */
	const char *hash;             /**< hash driver of WEFT_ACCESS_VERIFY: "crc32c" */
	/** The key of a keyed hash ("hmac-sha256"), copied, wiped when the region is freed; else
	 * NULL. */
	const void *hash_key;
	uint32_t hash_key_bytes; /**< at most WEFT_HASH_KEY_MAX_BYTES */
};

/**
 * Register addr..addr+len. The memory stays the caller's and must stay valid until the region is
 * freed. -EINVAL (length 0, range wraps, unknown right, no open medium, the hash needs a key or
 * takes none such), -EIO (a page of it is lost, weft/guard.h), -EOPNOTSUPP (memory, medium or hash
 * cannot honour a right; never found out later), -ENOENT (no such hash driver), -ERANGE (not inside
 * the medium's mapping), -ENOSPC (region limit), -ENOMEM. Takes a lock: not for the data path.
 */
int weft_mr_reg(struct weft_pd *pd, const struct weft_mr_attr *attr, struct weft_mr **out);
/**
 * Invalidate: the STag resolves no more once this returns. Operations in flight may touch the
 * memory until freed(arg) has run (on a worker's thread, never inside this call). freed may be
 * NULL. mr is invalid at return. -EBUSY: memory windows are bound to it; nothing was done. -EINVAL:
 * no region, or deregistered already; freed does not run for that.
 */
int weft_mr_dereg(struct weft_mr *mr, void (*freed)(void *arg), void *arg);
/** Of a region by weft_mr_alloc(): the one given to the WEFT_WR_FAST_REG posted last; 0 before the
 * first. */
uint32_t weft_mr_stag(const struct weft_mr *mr);

/**
 * Reserve a region without memory. WEFT_WR_FAST_REG makes it valid, WEFT_WR_LOCAL_INV or the peer's
 * Send with Invalidate makes it invalid, again and again; weft_mr_dereg() gives it back. Both are
 * done on the worker without lock or heap. -ENOSPC (region limit), -ENOMEM, -EINVAL. Takes a lock:
 * not for the data path.
 */
int weft_mr_alloc(struct weft_pd *pd, struct weft_mr **out);
/**
 * The same with the key, copied, of all its registrations that name a keyed hash; those that name
 * another hash do without. Wiped when the region is freed. -EINVAL: longer than
 * WEFT_HASH_KEY_MAX_BYTES.
 */
int weft_mr_alloc_keyed(struct weft_pd *pd, const void *hash_key, uint32_t hash_key_bytes,
                        struct weft_mr **out);
/**
 * The STag that the next WEFT_WR_FAST_REG posted on this region will give it: each gets a fresh
 * one, drawn when the one before was posted, so a message that carries it can be laid out
 * beforehand and posted in the same list. One comes back to the region only when three eighths of
 * all its values were used since (393216 registrations with the default of 4096 regions). 0 of a
 * region by weft_mr_reg().
 */
uint32_t weft_mr_next_stag(const struct weft_mr *mr);

struct weft_mr_info {
	void *addr; /**< this and the following as registered, last if not now */
	uint64_t len_bytes;
	uint64_t base_to;
	uint32_t access;
	struct weft_persist *persist;
	const char *hash; /**< NULL: none; static */
	uint32_t stag;
	bool valid;          /**< the STag resolves now */
	bool fast;           /**< by weft_mr_alloc() */
	uint32_t windows;    /**< bound to it now */
	uint32_t bad_ranges; /**< ranges marked as bad: weft_mr_bad_ranges() */
};

/** Any thread. */
void weft_mr_query(const struct weft_mr *mr, struct weft_mr_info *info);

/* ---- Memory windows (type 2: bound by work request, to one QP) ---- */

/**
 * WEFT_WR_BIND_MW makes it a part of a region, usable by the peer of the QP it was posted to and on
 * no other stream (RFC 5042 s2.2.5: single stream scope). It ends by WEFT_WR_LOCAL_INV on that QP,
 * by the peer's Send with Invalidate, by weft_mw_dealloc(), or with the stream. Its STag is no
 * lkey. -ENOSPC (window limit), -ENOMEM, -EINVAL. Takes a lock: not for the data path.
 */
int weft_mw_alloc(struct weft_pd *pd, struct weft_mw **out);
/**
 * Bound or not. mw is invalid at return, its STag resolves no more. Operations in flight hold the
 * region: they are over when weft_mr_dereg() of it says so.
 */
void weft_mw_dealloc(struct weft_mw *mw);
/** The one given to the WEFT_WR_BIND_MW posted last; 0 before the first. */
uint32_t weft_mw_stag(const struct weft_mw *mw);
/** As weft_mr_next_stag(), for the next WEFT_WR_BIND_MW. */
uint32_t weft_mw_next_stag(const struct weft_mw *mw);

struct weft_mw_info {
	void *addr; /**< this and the following as bound, last if not now */
	uint64_t len_bytes;
	uint64_t base_to;
	uint32_t access;
	uint32_t stag;
	bool valid; /**< bound now */
};

/** Any thread. */
void weft_mw_query(const struct weft_mw *mw, struct weft_mw_info *info);

/* ---- Completion queues ---- */

enum weft_wc_status {
	WEFT_WC_SUCCESS = 0,
	/** the QP left RTS before it was done, or before one in front of it was */
	WEFT_WC_FLUSHED,
	WEFT_WC_REMOTE_ACCESS, /**< the peer refused: STag, bounds or rights */
	WEFT_WC_REMOTE_OP,     /**< the peer could not do it (flush failed, unaligned, ...) */
	WEFT_WC_HASH_MISMATCH, /**< Verify: the medium holds something else */
	WEFT_WC_LOCAL_LENGTH,  /**< a Send did not fit the receive */
	WEFT_WC_LOCAL_PROT,    /**< local region invalid */
};

const char *weft_wc_status_str(enum weft_wc_status s);

enum weft_wc_opcode {
	WEFT_WC_SEND,
	WEFT_WC_WRITE,
	WEFT_WC_READ,
	WEFT_WC_FLUSH,
	WEFT_WC_VERIFY,
	WEFT_WC_ATOMIC_WRITE,
	WEFT_WC_FETCH_ADD, /**< masked or not */
	WEFT_WC_CMP_SWAP,
	WEFT_WC_IMM,
	WEFT_WC_COMMIT, /**< a whole transaction: weft/commit.h */
	WEFT_WC_FAST_REG = 0x40,
	WEFT_WC_LOCAL_INV,
	WEFT_WC_BIND_MW,
	WEFT_WC_RECV = 0x80,
	/** Immediate Data came and used this receive up; its memory is untouched */
	WEFT_WC_RECV_IMM,
};

#define WEFT_WC_SOLICITED 0x1 /**< receive: sent with Solicited Event */
#define WEFT_WC_INV       0x2 /**< receive: inv_stag was invalidated by the sender */

struct weft_wc {
	uint64_t wr_id;
	struct weft_qp *qp; /**< may be destroyed already when the wc is a late flush */
	void *qp_user;      /**< weft_qp_attr.user */
	enum weft_wc_status status;
	enum weft_wc_opcode opcode;
	/** received or transferred; hash length for a Verify; 8 for RECV_IMM; 0 for COMMIT */
	uint32_t len_bytes;
	union {
		uint32_t inv_stag; /**< with WEFT_WC_INV */
		uint8_t imm[8];    /**< of a successful WEFT_WC_RECV_IMM: the octets as sent */
		struct {
			uint32_t step; /**< enum weft_commit_step */
			uint32_t range;
		} commit; /**< of a WEFT_WC_COMMIT that is no success: what failed */
	};
	uint32_t flags; /**< WEFT_WC_SOLICITED, ... */
};

/**
 * Completions by callback: on the worker of the QP, in bursts, several in a poll when there are
 * many. A CQ that has QPs of several workers gets calls on all of them, at the same time too. May
 * post, arm, destroy.
 */
typedef void (*weft_cq_fn)(void *user, struct weft_cq *cq, const struct weft_wc *wc,
                           unsigned int n);

struct weft_cq_attr {
	size_t size; /**< sizeof(struct weft_cq_attr) */
	/** completions it holds per worker that feeds it; rounded up to a power of two */
	uint32_t depth;
	weft_cq_fn on_wc; /**< not NULL: completions come here and weft_cq_poll() has none */
	void *user;
	bool want_fd; /**< make a file descriptor for weft_cq_arm() */
};

/**
 * Give it room for all that its queues may have under way (RFC 5042 s6.4.3.2): the depths of the
 * send queues, receive queues and SRQs that end in it, or what the consumer keeps posted. It is not
 * resized later. A completion for which there is no room is lost, and never silently: its QP goes
 * to ERROR with WEFT_EV_CQ_OVERRUN, weft_cq_poll() says -EOVERFLOW; other QPs go on. -EINVAL,
 * -ENOMEM, -EMFILE.
 */
int weft_cq_create(struct weft_ctx *ctx, const struct weft_cq_attr *attr, struct weft_cq **out);
/**
 * -EBUSY while a QP uses it; -EINVAL. Called on another thread than the worker's, on_wc may be
 * running at this moment, once more at most: what `user` points to must stay until a
 * weft_worker_call() made afterwards has run on every worker that fed the CQ.
 */
int weft_cq_destroy(struct weft_cq *cq);
/** Up to max completions; returns how many. Any thread, several at once. -EOVERFLOW once after an
 * overrun; -EINVAL (no CQ, no wc). */
int weft_cq_poll(struct weft_cq *cq, struct weft_wc *wc, unsigned int max);
/**
 * Ask for one wake-up on the file descriptor at the next completion; solicited_only: at the next
 * that is solicited or an error. Returns 1 when completions are waiting already (poll them instead
 * of sleeping; the wake-up may come all the same), 0 when armed. Several threads may arm and sleep:
 * the widest wish counts, and there is one wake-up for all of them, so whoever clears the
 * descriptor polls the CQ empty and arms it again, also when it goes away itself. -ENOTSUP without
 * want_fd, -EINVAL.
 */
int weft_cq_arm(struct weft_cq *cq, bool solicited_only);
struct weft_cq_info {
	uint32_t depth;    /**< per worker, as made */
	uint32_t workers;  /**< that feed it: so many times depth it holds */
	uint32_t waiting;  /**< completions not polled yet, of all workers */
	uint32_t users;    /**< queues of QPs: a QP that has it for both counts twice */
	uint64_t overruns; /**< completions lost */
	bool armed, armed_solicited;
};

/** Any thread; numbers that move may be a little old. */
void weft_cq_query(const struct weft_cq *cq, struct weft_cq_info *info);
/** Readable (eventfd) after an armed completion; read 8 octets to clear. -1 without want_fd,
 * -EINVAL (no CQ). */
int weft_cq_fd(const struct weft_cq *cq);

/* ---- Queue pairs ---- */

struct weft_qp_attr {
	size_t size; /**< sizeof(struct weft_qp_attr) */
	/** the owner; for an accepted connection weft_connreq_worker() */
	struct weft_worker *worker;
	struct weft_cq *send_cq;
	struct weft_cq *recv_cq;
	struct weft_evq *evq; /**< where its connection events go */
	uint32_t sq_depth;    /**< [256] work requests not yet completed */
	uint32_t rq_depth;    /**< [256] receives posted */
	/** [32] inbound Read/Atomic/Flush/Verify/Atomic Write requests we take */
	uint16_t ird;
	uint16_t ord;      /**< [32] outbound ones we want outstanding */
	bool all_signaled; /**< every work request makes a completion */
	void *user;        /**< returned in completions and events */
	/** [WEFT_DEFAULT_SGE] pieces of a receive, at most WEFT_MAX_SGE; fewer make the QP smaller
	 */
	uint32_t max_sge;
	/** [WEFT_DEFAULT_SGE] pieces of a Send or Write, at most WEFT_MAX_SGE */
	uint32_t max_send_sge;
	/** NULL: receives of its own; else from there, and rq_depth and max_sge are the SRQ's */
	struct weft_srq *srq;
	/** [0] payload of a request with WEFT_WR_INLINE, at most WEFT_MAX_INLINE; costs so much per
	 * place of the send queue */
	uint32_t max_inline_bytes;
};

/** QP states (RFC 5040 s6; docs/internals/states.md has the table). */
enum weft_qp_state {
	WEFT_QP_IDLE,
	WEFT_QP_RTS,
	WEFT_QP_CLOSING,
	WEFT_QP_TERMINATE,
	WEFT_QP_ERROR,
};

const char *weft_qp_state_str(enum weft_qp_state s);

/** What the peer (or we) put into a Terminate: RFC 5040 s4.8, RFC 5041 s7.2, RFC 5044 s8. */
struct weft_terminate {
	uint8_t layer, etype, code;
	bool ours; /**< we detected the fault and sent it */
};

/** "RDMA layer: remote protection error: base or bounds violation" and the like; static. */
const char *weft_terminate_str(const struct weft_terminate *t, char *buf, size_t size);

struct weft_qp_info {
	uint32_t qpn; /**< for people; unique in the context */
	enum weft_qp_state state;
	struct sockaddr_storage local, remote;
	uint16_t ird, ord; /**< as negotiated */
	uint32_t sq_used, rq_used;
	uint64_t sent_msgs, recv_msgs, sent_bytes, recv_bytes;
	uint64_t retrans_segs;
	uint32_t srtt_us;
	uint16_t mulpdu_bytes;
	/* what it was made with, defaults filled in */
	uint16_t asked_ird, asked_ord;
	uint32_t sq_depth, rq_depth; /**< rq_depth is 0 with an SRQ */
	uint32_t max_send_sge, max_sge, max_inline_bytes;
	bool all_signaled;
	struct weft_pd *pd;
	struct weft_cq *send_cq, *recv_cq;
	struct weft_srq *srq;
	struct weft_evq *evq;
	/* now */
	uint16_t out_reads;  /**< our Reads and the like waiting for their answer, at most ord */
	uint16_t in_reads;   /**< the peer's that we have not answered, at most ird */
	uint64_t ord_stalls; /**< times the send queue waited because of ord */
	bool terminated;
	struct weft_terminate term;
	struct weft_mpa_info mpa; /**< zero before ESTABLISHED */
};

/** -EINVAL, -ENOMEM, -ENOSPC (worker's limit). The QP is IDLE. */
int weft_qp_create(struct weft_pd *pd, const struct weft_qp_attr *attr, struct weft_qp **out);
/**
 * Reset the connection if there is one and free the QP. Invalid at return; work outstanding
 * completes as flushed to the CQs first when called on the worker, and is dropped otherwise. Events
 * not taken yet are dropped, but that of an overrun of a CQ, which comes without the QP. Called
 * elsewhere, a callback that runs at this moment may still name it; a weft_worker_call() made
 * afterwards runs when that is over.
 */
void weft_qp_destroy(struct weft_qp *qp);
/**
 * A snapshot of this moment. Called on another thread than the worker's, srtt_us, retrans_segs and
 * mulpdu_bytes are as the worker left them when it last looked: at ESTABLISHED, and at its first
 * poll after the last such call. Takes a lock.
 */
void weft_qp_query(struct weft_qp *qp, struct weft_qp_info *info);
struct weft_worker *weft_qp_worker(const struct weft_qp *qp);
void *weft_qp_user(const struct weft_qp *qp);

/* ---- Work requests ---- */

#define WEFT_DEFAULT_SGE 4
#define WEFT_MAX_SGE     32
#define WEFT_MAX_INLINE  1024

/**
 * Local memory. lkey 0 is any memory of the process, except for the sink of a Read, whose STag goes
 * to the peer. Any other lkey is an STag of the QP's domain (of the SRQ's, for its receives), and
 * the piece must lie inside its region, which for sinks, receives and results has
 * WEFT_ACCESS_LOCAL_WRITE. That is checked when the request is posted on the worker (-EINVAL), or
 * else when the worker takes it: then, and where a receive's region is gone by the time a message
 * arrives for it, the request completes as WEFT_WC_LOCAL_PROT and the connection ends. A piece of
 * length 0 is not looked at.
 */
struct weft_sge {
	void *addr;
	uint32_t len_bytes;
	uint32_t lkey;
};

enum weft_wr_opcode {
	/** RFC 5040 Send; WEFT_WR_SOLICITED makes it one with Solicited Event */
	WEFT_WR_SEND,
	/**
	 * And invalidates send.inv_stag at the peer. There it must be of the one stream: a window,
	 * a fast region with fast_reg.stream set, or any region where the domain has no QP but
	 * this; else the stream ends with a Terminate 0/1/09, since nobody takes from other streams
	 * what they share (RFC 5040 s8.1.1 item 7).
	 */
	WEFT_WR_SEND_INV,
	WEFT_WR_WRITE,
	WEFT_WR_READ,         /**< exactly one SGE, with lkey */
	WEFT_WR_FLUSH,        /**< draft-talpey-rdma-commit-02 s2.1 */
	WEFT_WR_VERIFY,       /**< s2.2 */
	WEFT_WR_ATOMIC_WRITE, /**< s2.3 */
	/*
	 * RFC 7306 s5: on the 64-bit integer at the peer, in its own byte order; at most one SGE,
	 * of eight octets, to which its value from before is written in our byte order.
	 */
	WEFT_WR_FETCH_ADD, /**< += data */
	/** field by field: each set bit of mask is the top of a field, carries out of it are lost
	 */
	WEFT_WR_MASKED_FETCH_ADD,
	WEFT_WR_CMP_SWAP, /**< = data if it is compare */
	/** the bits of mask = data's if those of compare_mask are compare's */
	WEFT_WR_MASKED_CMP_SWAP,
	/** RFC 7306 s6: eight octets for a receive of the peer; may be WEFT_WR_SOLICITED */
	WEFT_WR_IMM,
	/** a Write, then Immediate Data: one work request; likewise. Completes as WEFT_WC_WRITE */
	WEFT_WR_WRITE_IMM,
	/** make a region of weft_mr_alloc() valid; what is posted behind may use it */
	WEFT_WR_FAST_REG,
	/**
	 * Make a region, or a window bound to this QP, invalid: at once, in its turn. Done, and
	 * only then is what is posted behind begun, when nothing touches the memory any more: Reads
	 * of peers out of it fail midway; a Verify that is with the medium is waited for, and a
	 * peer's Flush that has come is carried out before. Our own Reads into it are waited for
	 * with WEFT_WR_FENCE; without, they fail, and this, carried out all the same, completes as
	 * flushed.
	 */
	WEFT_WR_LOCAL_INV,
	/** make a window of a part of a region; what is posted behind may tell of it */
	WEFT_WR_BIND_MW,
};

#define WEFT_WR_SIGNALED  0x1 /**< make a completion on success (errors always do) */
#define WEFT_WR_SOLICITED 0x2
/** start only when every earlier Read, Atomic, Flush, Verify and Atomic Write is answered */
#define WEFT_WR_FENCE 0x4
/** SEND, SEND_INV, WRITE, WRITE_IMM: the payload is copied at post, lkeys are not looked at */
#define WEFT_WR_INLINE 0x8

struct weft_wr {
	uint64_t wr_id;
	enum weft_wr_opcode opcode;
	uint32_t flags;
	/** copied at post; SEND, WRITE, WRITE_IMM, READ, atomics; IMM has none */
	const struct weft_sge *sg_list;
	uint32_t num_sge;
	union {
		struct {
			uint32_t inv_stag;
		} send;
		struct {
			uint32_t stag; /**< remote */
			uint64_t to;
		} rdma; /**< WRITE, READ */
		struct {
			uint32_t stag;
			uint64_t to;
			uint32_t len_bytes;
			uint32_t flags; /**< WEFT_FLUSH_* */
		} flush;
		struct {
			uint32_t stag;
			uint64_t to;
			uint32_t len_bytes;
			/** expected hash, copied at post; NULL: only compute */
			const void *expect;
			uint32_t expect_bytes;
			void *result; /**< where the computed hash goes; NULL: not wanted */
			uint32_t result_bytes;
		} verify;
		struct {
			uint32_t stag;
			uint64_t to;     /**< the target address must be 8-octet aligned */
			uint8_t data[8]; /**< memory gets these octets in this order, at once */
		} atomic_write;
		struct {
			uint32_t stag;
			uint64_t to;   /**< the target address must be 8-octet aligned */
			uint64_t data; /**< to add, or to swap in */
			uint64_t mask; /**< MASKED_ ones only, as compare_mask */
			uint64_t compare;
			uint64_t compare_mask;
		} atomic; /**< FETCH_ADD, CMP_SWAP, masked or not */
		struct {
			uint8_t data[8];
		} imm;
		struct {
			uint32_t stag;
			uint64_t to;
			uint8_t data[8]; /**< the Immediate Data */
		} write_imm;
		struct {
			/** by weft_mr_alloc(), not valid when its turn comes */
			struct weft_mr *mr;
			void *addr; /**< this and the following as in struct weft_mr_attr */
			uint64_t len_bytes;
			uint64_t base_to;
			uint32_t access;
			struct weft_persist *persist;
			/** a keyed one takes the key of weft_mr_alloc_keyed() */
			const char *hash;
			/**
			 * Of this QP's stream only, as a window is: no other stream can use it, so
			 * this one's peer may invalidate it, however many QPs the domain has. Its
			 * STag is no lkey then. What outlasts the stream is invalidated by any QP
			 * of the domain, or weft_mr_dereg().
			 */
			bool stream;
		} fast_reg;
		struct {
			uint32_t stag;
			/** of a reserved region it may be invalid by then if the peer's Send with
		 * Invalidate was first */
		} local_inv;
		struct {
			struct weft_mw *mw; /**< not bound when its turn comes */
			/** valid when its turn comes, with WEFT_ACCESS_MW_BIND */
			struct weft_mr *mr;
			void *addr; /**< inside the region */
			uint64_t len_bytes;
			/** tagged offset of addr[0]; 0 makes the window zero-based */
			uint64_t base_to;
			/**
			 * Remote rights. WRITE and ATOMIC: the region has LOCAL_WRITE or the same
			 * right; READ: any region; FLUSH_* and VERIFY: the region has the same
			 * right.
			 */
			uint32_t access;
		} bind_mw;
	};
};

/**
 * Post in order. Returns how many were taken: all, or the first so many when the send queue is full
 * (-EAGAIN if none); -EINVAL (a malformed one is first), -ENOTCONN (not established yet), -ENOMEM
 * (first post from another thread, first Verify). Posting to a QP that has left RTS is accepted and
 * completes as flushed. A malformed one: unknown opcode or flags, more pieces than max_send_sge, 4
 * GiB or more in all, an inline payload longer than max_inline_bytes, a bad lkey (struct weft_sge).
 * Those before it are posted, it and those behind are not. The sink of a Read is looked up on the
 * worker: posted there, a bad one is -EINVAL; posted from another thread it completes as
 * WEFT_WC_LOCAL_PROT and the connection is reset. Behind local work (FAST_REG, LOCAL_INV, BIND_MW)
 * that is not done yet it is looked up in its turn only, and so is every other lkey. Local work is
 * checked at the post (-EINVAL, -EOPNOTSUPP, -ENOENT and -ERANGE as weft_mr_reg(); -EINVAL: another
 * domain's) as far as that does not depend on what is posted before. What fails in its turn (a
 * region still valid or no longer so, windows bound to what is to be invalidated, a range or right
 * that the region does not have) completes as WEFT_WC_LOCAL_PROT, and a Terminate ends the stream
 * (RFC 5040 s7.1 case 1).
 */
int weft_post_send(struct weft_qp *qp, const struct weft_wr *wr, unsigned int n);

struct weft_recv_wr {
	uint64_t wr_id;
	const struct weft_sge *sg_list; /**< copied at post */
	uint32_t num_sge;
};

/** Any state but ERROR (there: completes as flushed). Returns as weft_post_send(); -EINVAL for a
 * QP with an SRQ. */
int weft_post_recv(struct weft_qp *qp, const struct weft_recv_wr *wr, unsigned int n);

/* ---- Shared receive queues ---- */

struct weft_srq_attr {
	size_t size;          /**< sizeof(struct weft_srq_attr) */
	uint32_t depth;       /**< [256] receives posted and not completed yet, of all its QPs */
	uint32_t max_sge;     /**< [WEFT_DEFAULT_SGE] pieces of a receive, at most WEFT_MAX_SGE */
	struct weft_evq *evq; /**< where WEFT_EV_SRQ_LIMIT goes; NULL: there is none */
	void *user;           /**< returned in that event */
};

/**
 * A queue of receives for any number of QPs, of any workers of the context. A QP takes one receive
 * when a message begins to arrive, so it holds at most one; nothing is set aside for a QP or a
 * worker. While any receive is posted, whoever posted it and wherever, no QP is without: a message
 * finds none (RFC 5041 s7.2: Terminate 1/2/02, the connection ends) only when all that were posted
 * before it are in use.
 *
 * Receives posted by one worker are taken in that order, so are those posted by all threads that
 * are no worker; a worker takes its own first, then those of other threads, then those of other
 * workers. With one worker that posts, or without any, the order is that of posting.
 *
 * One peer can use up what others need (RFC 5042 s6.4.3.1): arm the limit (weft_srq_modify()), post
 * more or see from recv_msgs of weft_qp_query() whose doing it is, and give each CQ room for all
 * that may be posted.
 *
 * -EINVAL, -ENOMEM.
 */
int weft_srq_create(struct weft_pd *pd, const struct weft_srq_attr *attr, struct weft_srq **out);
/**
 * -EBUSY while a QP uses it; -EINVAL. Receives left are dropped without a completion, its events
 * with them; a callback may still be running, as with weft_cq_destroy().
 */
int weft_srq_destroy(struct weft_srq *srq);
/**
 * Arm the limit: WEFT_EV_SRQ_LIMIT once, when a message takes (or misses) a receive and fewer than
 * `limit` are left. 0 disarms; an event that a worker gives at this moment may still come. Returns
 * 1 when fewer are there already (the event comes with the next message), else 0. -EINVAL (above
 * depth, no event queue), -ENOMEM. Not on the data path: takes a lock.
 */
int weft_srq_modify(struct weft_srq *srq, uint32_t limit);

struct weft_srq_info {
	uint32_t depth, max_sge;
	uint32_t limit;     /**< armed; 0: not, or it has been reached */
	uint32_t posted;    /**< receives that messages may take */
	uint32_t used;      /**< places taken: posted, and held by QPs */
	uint32_t qps;       /**< that use it */
	uint64_t no_buffer; /**< messages that found none */
	uint64_t limit_events;
};

void weft_srq_query(const struct weft_srq *srq, struct weft_srq_info *info);
/**
 * Any thread, several at once; a worker that has a QP here waits for nobody, others may wait a
 * moment for one that was interrupted while it posted. Returns as weft_post_send(). An lkey is
 * looked at when a message arrives. A QP that ends gives the receive it holds back exactly once: as
 * a completion of its own (flushed, or WEFT_WC_LOCAL_*), or, destroyed from another thread, unused
 * to the SRQ.
 */
int weft_post_srq_recv(struct weft_srq *srq, const struct weft_recv_wr *wr, unsigned int n);

/* ---- Connections (RFC 5044, RFC 6581) ---- */

#define WEFT_MAX_PRIVATE_DATA 508 /**< 512 less the IRD/ORD word of revision 2 */

enum weft_event_type {
	WEFT_EV_CONNECT_REQUEST, /**< to the listener: connreq, private data, peer's ird/ord */
	/** initiator: with the acceptor's private data; acceptor: MPA Reply sent */
	WEFT_EV_ESTABLISHED,
	WEFT_EV_REJECTED, /**< initiator: the peer's consumer said no; private data */
	/** initiator, or acceptor from another thread: status says why (-ECONNREFUSED, -ETIMEDOUT,
	 * ...) */
	WEFT_EV_CONNECT_ERROR,
	/** once per established connection; status 0 in order, else -errno */
	WEFT_EV_DISCONNECTED,
	/** a Terminate was sent or received: term. DISCONNECTED follows */
	WEFT_EV_TERMINATED,
	/** completions of the QP were lost, cq was full; the QP goes to ERROR. qp is NULL when it
	 * was destroyed meanwhile, or lost them by that */
	WEFT_EV_CQ_OVERRUN,
	/** target: this range failed a Flush (-EIO) or Verify (-EBADMSG: another hash; -EIO: the
	 * medium failed), or memory that it lies in is gone (-EIO, weft/guard.h; also of a Read of
	 * our own): status, bad range. The region has it marked: weft/bad_range.h */
	WEFT_EV_BAD_RANGE,
	/** fewer receives are left than weft_srq_modify() said: srq; qp is NULL */
	WEFT_EV_SRQ_LIMIT,
	/** a QP with an SRQ is in ERROR and has completed what it held of it: it takes no more */
	WEFT_EV_LAST_WQE,
};

const char *weft_event_str(enum weft_event_type t);

struct weft_event {
	enum weft_event_type type;
	struct weft_qp *qp;
	/** weft_qp_attr.user, weft_listen_attr.user or weft_srq_attr.user; of an overrun without
	 * its QP weft_cq_attr.user */
	void *user;
	struct weft_connreq *connreq;
	struct weft_listener *listener;
	struct weft_cq *cq;   /**< WEFT_EV_CQ_OVERRUN */
	struct weft_srq *srq; /**< WEFT_EV_SRQ_LIMIT */
	int status;
	/** the peer's, as sent (WEFT_EV_CONNECT_REQUEST, ESTABLISHED, REJECTED) */
	uint16_t ird, ord;
	struct sockaddr_storage remote;
	struct weft_terminate term;
	struct {
		uint32_t stag; /**< of the request: a region's, or a window's */
		uint64_t to;
		uint64_t len_bytes;
	} bad_range;
	uint16_t private_data_bytes;
	/** the last member: so many octets are there, no more */
	uint8_t private_data[WEFT_MAX_PRIVATE_DATA + 4];
};

/** Events by callback, on the worker. */
typedef void (*weft_event_fn)(void *user, const struct weft_event *ev);

struct weft_evq_attr {
	size_t size;            /**< sizeof(struct weft_evq_attr) */
	weft_event_fn on_event; /**< not NULL: by callback; else polled, with a file descriptor */
	void *user;
};

int weft_evq_create(struct weft_ctx *ctx, const struct weft_evq_attr *attr, struct weft_evq **out);
/**
 * -EBUSY while a QP or listener uses it; -EINVAL. Undelivered events are dropped, their requests
 * rejected. A callback may still be running, as with weft_cq_destroy().
 */
int weft_evq_destroy(struct weft_evq *evq);
/** The next event copied to *ev: 1, or 0 when there is none; -EINVAL. Any one thread at a time. */
int weft_evq_poll(struct weft_evq *evq, struct weft_event *ev);
/** Readable while events wait; -1 for callback queues, -EINVAL (no event queue). */
int weft_evq_fd(const struct weft_evq *evq);

struct weft_listen_attr {
	size_t size; /**< sizeof(struct weft_listen_attr) */
	struct weft_evq *evq;
	uint32_t backlog; /**< [128] requests not answered yet, per worker */
	/** [10 s] for the MPA Request, and for the consumer to answer */
	uint32_t startup_timeout_us;
	uint32_t keepalive_us; /**< [0: off] TCP keepalive of accepted connections: idle time */
	void *user;
	/*
	 * What one remote address (of IPv6 one /64, unless link-local) may take of a worker (RFC
	 * 5042 s6.4). One more, and one beyond the backlog, has the oldest connection reset that
	 * has said nothing (or stopped amid its MPA Request for two seconds): its own, or that of
	 * the address with the most; where there is none, it is reset itself. Both are counted in
	 * weft_worker_stats. All listeners of the worker count together; each has limits of its
	 * own. TCP has limits of its own below (weft_tcp_attr).
	 */
	/** [half of backlog, at least 8] requests not answered yet, those without an MPA Request so
	 * far too */
	uint32_t max_requests_per_peer;
	/** [half of the worker's max_conns, or of what the port's buffers admit, at least 8]
	 * connections accepted and not over, and requests */
	uint32_t max_conns_per_peer;
	/** of accepted connections (copied); NULL: the context's */
	const struct weft_mpa_policy *mpa;
	/**
	 * [no] while the worker has no TCP connection left, or no buffers for one, one that this
	 * listener accepted is reset (DISCONNECTED with -ECONNABORTED, counted as conns_pushed_out)
	 * for one of an address that has fewer (weft/standing.h), or of another address of an IPv6
	 * /64 that has its share; none that is in use. No: the later one is refused.
	 */
	bool push_out;
};

/**
 * IPv4 and IPv6 alike, here and in weft_connect(): AF_INET or AF_INET6; sin6_scope_id and
 * sin6_flowinfo are not looked at, a link-local destination belongs to the worker's first port
 * that has IPv6. Listen on every worker that has a port with this address (any address, of either
 * family: every port, both families). On return those listen that weft_worker_start() runs,
 * unless one of them called, or does not poll for a second; others do from their next poll.
 * -EADDRINUSE, -EADDRNOTAVAIL, -EAFNOSUPPORT.
 */
int weft_listen(struct weft_ctx *ctx, const struct sockaddr *addr, socklen_t addr_len,
                const struct weft_listen_attr *attr, struct weft_listener **out);
/** Stops listening; requests not answered yet are rejected. */
void weft_unlisten(struct weft_listener *l);

/** The worker the connection lives on: its QP must be created there. */
struct weft_worker *weft_connreq_worker(const struct weft_connreq *r);

struct weft_conn_attr {
	size_t size;              /**< sizeof(struct weft_conn_attr) */
	const void *private_data; /**< copied */
	uint16_t private_data_bytes;
	uint8_t mpa_rev;                   /**< [what `mpa` says] initiator: 1 or 2, and no other */
	uint32_t timeout_us;               /**< [10 s] for the whole start-up */
	uint32_t keepalive_us;             /**< [0: off] idle time before TCP keepalive probes */
	const struct weft_mpa_policy *mpa; /**< copied; NULL: the listener's, or the context's */
};

/**
 * Connect an IDLE QP. ESTABLISHED, REJECTED or CONNECT_ERROR follows; after ESTABLISHED,
 * DISCONNECTED once. -EINVAL, -EAFNOSUPPORT, -EISCONN (not IDLE), -ENETUNREACH (no port of the
 * worker reaches it), -ENOMEM, and what TCP answers at once when called on the worker. attr may be
 * NULL. A second TCP connection is made, within the same time, when the responder turns out not to
 * speak revision 2 (struct weft_mpa_policy, rev).
 */
int weft_connect(struct weft_qp *qp, const struct sockaddr *addr, socklen_t addr_len,
                 const struct weft_conn_attr *attr);
/**
 * Answer a request with an IDLE QP of its worker. r is gone at return; on -EINVAL it was rejected,
 * if it was a request and not answered before. -ECONNABORTED: the peer gave up, or the listener was
 * closed; the QP is still IDLE. From another thread that may turn out only later: CONNECT_ERROR
 * then. attr may be NULL.
 */
int weft_accept(struct weft_connreq *r, struct weft_qp *qp, const struct weft_conn_attr *attr);
/** r is gone at return. The depths of the Reply, of which the initiator is told, are those it
 * asked for. */
void weft_reject(struct weft_connreq *r, const void *private_data, uint16_t private_data_bytes);
/**
 * Likewise because of the depths, and say which would do (RFC 6581 s9.1): the acceptor's ird and
 * ord, at most 0x3ffe. Of a Request that leaves a depth to the ULPs (0x3fff) the other one says the
 * same.
 */
void weft_reject_depths(struct weft_connreq *r, uint16_t ird, uint16_t ord,
                        const void *private_data, uint16_t private_data_bytes);
/**
 * Close in order after what is posted; DISCONNECTED follows. Receives left complete as flushed. A
 * QP still connecting gets CONNECT_ERROR. -ENOTCONN, -ENOMEM, -EINVAL.
 */
int weft_disconnect(struct weft_qp *qp);
/**
 * Reset the connection soon after the return, also one that is being closed in order: what is
 * posted and not carried out completes as flushed, and DISCONNECTED follows, or CONNECT_ERROR of a
 * QP still connecting. For a peer that does not take what was posted for it. On the QP's worker
 * (-EPERM). -ENOTCONN, -EINVAL.
 */
int weft_abort(struct weft_qp *qp);

WEFT_API_END

#endif /* WEFT_VERBS_H */
