/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_VERBS_H
#define WEFT_VERBS_H

/**
 * @file The verbs of weft: protection domains, memory regions, completion queues, queue pairs, work
 * requests, connections. Installed; stands alone.
 *
 * Threads. A QP belongs to one worker (weft/worker.h) for its whole life. Every function of this
 * header may be called from any thread. On the thread that polls the worker (in a callback, or
 * between two calls of weft_worker_poll()) it acts at once. On any other thread it goes through a
 * ring and acts in the worker's next poll. No function of this header waits for a peer, a medium or
 * a worker's poll, except weft_listen(), which waits for the polls of the workers. Functions that
 * create, destroy, register, connect or query may take a lock for a short time, and so may
 * weft_evq_poll(). They are not for the data path. weft_post_send(), weft_post_recv(),
 * weft_post_srq_recv() and weft_cq_poll() take none.
 *
 * Completions are delivered in one of three ways, chosen when the CQ is created: polled with
 * weft_cq_poll() from any thread, announced on a file descriptor after weft_cq_arm(), or by
 * callback on the worker. Connection events are polled, or delivered by callback (struct weft_evq).
 *
 * Ownership. The buffers of a work request belong to weft from the post to its completion. Whatever
 * a function copies is marked "copied". Destruction is asynchronous while operations are in flight;
 * the handle is invalid when the function returns.
 *
 * Errors. Functions return 0 (or a count) or -errno. A later failure is a completion status or an
 * event. A peer cannot make a function of this header fail or abort in any other way.
 *
 * Misuse. Every call of every installed header that takes a handle refuses three things: NULL, a
 * handle of another kind, and a handle among the last 64 destroyed of its kind (by its own
 * function, or by weft_ctx_destroy()). The call does nothing and returns -EINVAL. A call without an
 * errno returns NULL, 0 or false, or nothing; a query fills in zeros. So it is safe to destroy a
 * handle twice, also by two threads at once: one of them destroys it. Each refusal is logged (type
 * weft.api, at most ten lines a second). The calls of the data path (weft_post_send(),
 * weft_post_recv(), weft_post_srq_recv(), weft_commit(), weft_cq_poll(), weft_worker_poll()) refuse
 * NULL and destroyed handles, but do not look for handles of another kind. As with any freed
 * pointer, two uses are undefined: of a handle that was destroyed longer ago, and of a handle that
 * another thread destroys during the call. A NULL pointer to what a call reads or fills in (out,
 * info, wr, wc, ev, attr) is refused likewise, unless its description says that it may be NULL.
 *
 * Attributes begin with their size, so that a program may be built against another version. Members
 * that the program's version does not have are zero, which asks for the default. -EINVAL: an
 * impossible size (8 octets or less, not a multiple of 8, above 64 KiB), or a member that this
 * version does not know is not zero.
 *
 * Order: RFC 5040 s5.5 and docs/ordering.md. The requests of a QP start in post order and
 * complete in post order.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <weft/access.h>
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

/**
 * Create a domain with the context's limits (weft_ctx_attr.max_pd_regions, max_pd_windows).
 * -EINVAL, -ENOMEM.
 */
int weft_pd_alloc(struct weft_ctx *ctx, struct weft_pd **out);

/**
 * Limits of one domain, so that the resources used for one peer leave room for others (RFC 5042
 * s6.4.1). A region counts until it is freed.
 */
struct weft_pd_attr {
	size_t size;          /**< sizeof(struct weft_pd_attr) */
	uint32_t max_regions; /**< [0: the context's] registered and reserved regions */
	uint32_t max_windows; /**< [0: the context's] */
};

/** Create a domain with its own limits. -EINVAL, -ENOMEM. */
int weft_pd_alloc_attr(struct weft_ctx *ctx, const struct weft_pd_attr *attr, struct weft_pd **out);
/**
 * Destroy a domain. -EBUSY: it still has a QP, an SRQ, a region or a window; nothing was done.
 * -EINVAL.
 */
int weft_pd_dealloc(struct weft_pd *pd);

struct weft_pd_info {
	uint32_t regions, windows;         /**< not yet freed; also those being freed */
	uint32_t max_regions, max_windows; /**< 0: limited only by the context */
	/** registrations and allocations refused by these limits */
	uint64_t refused;
	uint32_t qps, srqs;
};

/**
 * Any thread. Takes a lock, like weft_ctx_query() and weft_qp_query(), so not for the data path.
 */
void weft_pd_query(struct weft_pd *pd, struct weft_pd_info *info);

/** Limits of a context, and how much is in use. */
struct weft_ctx_info {
	/* limits of one object */
	uint32_t max_sq_depth, max_rq_depth, max_srq_depth, max_cq_depth;
	uint32_t max_sge, max_send_sge; /**< a Read has one SGE, its sink */
	uint32_t max_inline_bytes;
	uint16_t max_ird, max_ord;
	uint16_t max_private_data_bytes;
	uint64_t max_message_bytes; /**< of a Send, Write or Read */
	/* limits of the context, and how much exists */
	uint32_t max_qps, qps; /**< of all existing workers */
	uint32_t max_regions, regions;
	uint32_t workers;
	uint32_t pds, cqs, srqs, evqs, listeners;
};

void weft_ctx_query(struct weft_ctx *ctx, struct weft_ctx_info *info);

struct weft_gate;

struct weft_mr_attr {
	size_t size; /**< sizeof(struct weft_mr_attr) */
	void *addr;
	uint64_t len_bytes;
	uint64_t base_to; /**< tagged offset of addr[0]; 0 makes the region zero-based */
	uint32_t access;  /**< WEFT_ACCESS_* */
	struct weft_persist *persist; /**< the medium that addr belongs to; NULL: ordinary memory */
	/** hash driver for WEFT_ACCESS_VERIFY, for example "crc32c" */
	const char *hash;
	/**
	 * Key of a keyed hash ("hmac-sha256"), else NULL. Copied; erased when the region is freed.
	 */
	const void *hash_key;
	uint32_t hash_key_bytes; /**< at most WEFT_HASH_KEY_MAX_BYTES */
	/** NULL, or who lets requests of the peer wait (weft/gate.h). It exists until the region is
	 * free. */
	struct weft_gate *gate;
};

/**
 * Register addr..addr+len_bytes. The memory belongs to the caller and must stay valid until the
 * region is freed. Takes a lock: not for the data path. Returns 0, or
 * - -EINVAL: length 0, the range wraps, an unknown right, no open medium, or the key does not fit
 *   the hash
 * - -EIO: a page of the memory is lost (weft/guard.h)
 * - -EOPNOTSUPP: the memory, medium or hash cannot provide a right. This is always found here and
 *   never later.
 * - -ENOENT: no such hash driver
 * - -ERANGE: the range is not inside the medium's mapping
 * - -ENOSPC: limit of regions
 * - -ENOMEM
 */
int weft_mr_reg(struct weft_pd *pd, const struct weft_mr_attr *attr, struct weft_mr **out);
/**
 * Deregister a region: its STag is invalid when this returns. Operations in flight may access the
 * memory until freed(arg) has run. freed runs on a worker's thread, never during this call, and may
 * be NULL. mr is invalid when this returns. -EBUSY: memory windows are bound to the region; nothing
 * was done. -EINVAL: not a region, or deregistered already; freed is then not called.
 */
int weft_mr_dereg(struct weft_mr *mr, void (*freed)(void *arg), void *arg);
/**
 * The STag of a region; 0 if mr is not a region. For a region of weft_mr_alloc(): the STag given to
 * the WEFT_WR_FAST_REG posted last, 0 before the first.
 */
uint32_t weft_mr_stag(const struct weft_mr *mr);

/**
 * Reserve a region without memory. WEFT_WR_FAST_REG makes it valid. WEFT_WR_LOCAL_INV or the peer's
 * Send with Invalidate makes it invalid. Both may happen again and again, on the worker, without
 * lock or heap. weft_mr_dereg() frees it. Takes a lock: not for the data path. -ENOSPC (limit of
 * regions), -ENOMEM, -EINVAL.
 */
int weft_mr_alloc(struct weft_pd *pd, struct weft_mr **out);
/**
 * The same, with a hash key. The key is copied and is used by all registrations of this region that
 * name a keyed hash; other registrations ignore it. It is erased when the region is freed. -EINVAL:
 * longer than WEFT_HASH_KEY_MAX_BYTES.
 */
int weft_mr_alloc_keyed(struct weft_pd *pd, const void *hash_key, uint32_t hash_key_bytes,
                        struct weft_mr **out);
/**
 * The STag that the next WEFT_WR_FAST_REG posted on this region will give it. Each registration
 * gets a new STag, chosen when the previous one was posted. So a message that carries the STag can
 * be prepared beforehand and posted in the same list. A region gets an STag again only after three
 * eighths of all its values have been used in between (393216 registrations with the default of
 * 4096 regions). 0 for a region of weft_mr_reg().
 */
uint32_t weft_mr_next_stag(const struct weft_mr *mr);

struct weft_mr_info {
	/**
	 * This member and the following ones: as registered; if not valid now, as last registered.
	 */
	void *addr;
	uint64_t len_bytes;
	uint64_t base_to;
	uint32_t access;
	struct weft_persist *persist;
	const char *hash; /**< NULL: none; the string is static */
	uint32_t stag;
	bool valid;          /**< the STag is valid now */
	bool fast;           /**< a region of weft_mr_alloc() */
	uint32_t windows;    /**< bound to it now */
	uint32_t bad_ranges; /**< number of bad ranges, see weft_mr_bad_ranges() */
};

/** Any thread. */
void weft_mr_query(const struct weft_mr *mr, struct weft_mr_info *info);

/* ---- Memory windows (type 2: bound by work request, to one QP) ---- */

/**
 * Allocate a window. WEFT_WR_BIND_MW binds it to a part of a region. The peer of the QP to which
 * that was posted can then use it, and no other stream (RFC 5042 s2.2.5: single stream scope). The
 * binding ends with WEFT_WR_LOCAL_INV on that QP, the peer's Send with Invalidate,
 * weft_mw_dealloc(), or the stream. Its STag is not an lkey. Takes a lock: not for the data path.
 * -ENOSPC (limit of windows), -ENOMEM, -EINVAL.
 */
int weft_mw_alloc(struct weft_pd *pd, struct weft_mw **out);
/**
 * Free a window, bound or not. mw is invalid, and so is its STag, when this returns. Operations in
 * flight still use the region. weft_mr_dereg() of the region tells when they are over.
 */
void weft_mw_dealloc(struct weft_mw *mw);
/** The STag given to the WEFT_WR_BIND_MW posted last; 0 before the first. */
uint32_t weft_mw_stag(const struct weft_mw *mw);
/** As weft_mr_next_stag(), for the next WEFT_WR_BIND_MW without an STag of the consumer's. */
uint32_t weft_mw_next_stag(const struct weft_mw *mw);
/**
 * The STag of this window with a key of the consumer's, for weft_wr.bind_mw.stag: the upper 24 bits
 * are the window's for its life, the low octet is the key (RFC 5040 s2.1, STag Key). Any thread.
 * 0: mw is no window.
 */
uint32_t weft_mw_keyed_stag(const struct weft_mw *mw, uint8_t key);

struct weft_mw_info {
	/** This member and the following ones: as bound; if not bound now, as last bound. */
	void *addr;
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
	/** the QP left RTS before the request was done, or before an earlier request was */
	WEFT_WC_FLUSHED,
	WEFT_WC_REMOTE_ACCESS, /**< the peer refused the STag, the bounds or the rights */
	/** the peer could not execute it (a flush failed, an address is unaligned, ...) */
	WEFT_WC_REMOTE_OP,
	WEFT_WC_HASH_MISMATCH, /**< Verify: the medium holds other data */
	WEFT_WC_LOCAL_LENGTH,  /**< a Send was longer than the receive */
	WEFT_WC_LOCAL_PROT,    /**< a local region is invalid */
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
	/** Immediate Data arrived and used this receive; its buffer is unchanged. */
	WEFT_WC_RECV_IMM,
};

#define WEFT_WC_SOLICITED 0x1 /**< receive: sent with Solicited Event */
#define WEFT_WC_INV       0x2 /**< receive: inv_stag was invalidated by the sender */

struct weft_wc {
	uint64_t wr_id;
	struct weft_qp *qp; /**< may already be destroyed when the completion is a late flush */
	void *qp_user;      /**< weft_qp_attr.user */
	enum weft_wc_status status;
	enum weft_wc_opcode opcode;
	/** Octets received or transferred. Verify: length of the hash. RECV_IMM: 8. COMMIT: 0. */
	uint32_t len_bytes;
	union {
		uint32_t inv_stag; /**< with WEFT_WC_INV */
		/** of a successful WEFT_WC_RECV_IMM: the octets as they were sent */
		uint8_t imm[8];
		struct {
			uint32_t step; /**< enum weft_commit_step */
			uint32_t range;
		} commit; /**< of a WEFT_WC_COMMIT without success: the step that failed */
	};
	uint32_t flags; /**< WEFT_WC_SOLICITED, ... */
};

/**
 * Completions by callback. Called on the worker of the QP, with one or more completions, several
 * times in a poll if there are many. If QPs of several workers use the CQ, it is called on all
 * these workers, also at the same time. It may post, arm and destroy.
 */
typedef void (*weft_cq_fn)(void *user, struct weft_cq *cq, const struct weft_wc *wc,
                           unsigned int n);

struct weft_cq_attr {
	size_t size; /**< sizeof(struct weft_cq_attr) */
	/**
	 * Completions that the CQ holds for each worker that feeds it; rounded up to a power of
	 * two.
	 */
	uint32_t depth;
	/** not NULL: completions go to this callback, and weft_cq_poll() returns none */
	weft_cq_fn on_wc;
	void *user;
	bool want_fd; /**< make a file descriptor for weft_cq_arm(); not together with on_wc */
};

/**
 * Create a CQ. Its depth must suffice for all completions that may be outstanding (RFC 5042
 * s6.4.3.2): the depths of the send queues, receive queues and SRQs that complete to it, or the
 * number of requests that the consumer keeps posted. It cannot be resized. If there is no room for
 * a completion, it is lost, but not silently: its QP goes to ERROR with WEFT_EV_CQ_OVERRUN, and
 * weft_cq_poll() returns -EOVERFLOW. Other QPs continue. -EINVAL, -ENOMEM, -EMFILE.
 */
int weft_cq_create(struct weft_ctx *ctx, const struct weft_cq_attr *attr, struct weft_cq **out);
/**
 * Destroy a CQ. -EBUSY while a QP uses it; -EINVAL. If this is called on another thread than the
 * worker's, on_wc may be running, one last time. Then `user` must stay valid until a
 * weft_worker_call() made afterwards has run on every worker that fed the CQ.
 */
int weft_cq_destroy(struct weft_cq *cq);
/**
 * Take up to max completions. Returns how many. Any thread, several at once. -EOVERFLOW, once after
 * an overrun. -EINVAL: no CQ, no wc.
 */
int weft_cq_poll(struct weft_cq *cq, struct weft_wc *wc, unsigned int max);
/**
 * Ask for one wake-up on the file descriptor, at the next completion. With solicited_only: at the
 * next completion that is solicited or an error. Returns 0 when armed. Returns 1 when completions
 * are waiting already: the caller polls them and does not sleep; the wake-up may still come.
 *
 * Several threads may arm and sleep. Then the widest request counts, and there is one wake-up for
 * all of them. The thread that clears the descriptor must poll the CQ until it is empty and arm it
 * again for the others, even if it does not want to wait any longer itself. -ENOTSUP without
 * want_fd, -EINVAL.
 */
int weft_cq_arm(struct weft_cq *cq, bool solicited_only);
struct weft_cq_info {
	uint32_t depth;    /**< per worker, as created */
	uint32_t workers;  /**< that feed the CQ; it holds depth completions for each */
	uint32_t waiting;  /**< completions not yet polled, of all workers */
	uint32_t users;    /**< send and receive queues that complete to it; a QP may count twice */
	uint64_t overruns; /**< completions lost */
	bool armed, armed_solicited;
};

/** Any thread. Changing numbers may be slightly old. */
void weft_cq_query(const struct weft_cq *cq, struct weft_cq_info *info);
/**
 * The eventfd, readable after an armed completion. Reading 8 octets clears it. -1 without want_fd,
 * -EINVAL: no CQ.
 */
int weft_cq_fd(const struct weft_cq *cq);

/* ---- Queue pairs ---- */

struct weft_qp_attr {
	size_t size; /**< sizeof(struct weft_qp_attr) */
	/** The owner; of a QP that will accept a connection, weft_connreq_worker(). */
	struct weft_worker *worker;
	struct weft_cq *send_cq;
	struct weft_cq *recv_cq;
	struct weft_evq *evq; /**< receives the QP's connection events */
	uint32_t sq_depth;    /**< [256] work requests not yet completed */
	uint32_t rq_depth;    /**< [256] posted receives not yet completed */
	/** [32] IRD: most inbound Reads, Atomics, Flushes, Verifies and Atomic Writes at a time */
	uint16_t ird;
	uint16_t ord;      /**< [32] ORD: most such outbound requests at a time */
	bool all_signaled; /**< every work request makes a completion, as with WEFT_WR_SIGNALED */
	void *user;        /**< returned in completions and events */
	/**
	 * [WEFT_DEFAULT_SGE] pieces of a receive, at most WEFT_MAX_SGE; fewer make the QP smaller.
	 */
	uint32_t max_sge;
	/** [WEFT_DEFAULT_SGE] pieces of a Send or Write, at most WEFT_MAX_SGE */
	uint32_t max_send_sge;
	/**
	 * NULL: the QP has a receive queue of its own. Else its receives come from this SRQ, which
	 * replaces rq_depth and max_sge.
	 */
	struct weft_srq *srq;
	/**
	 * [0] payload of a request with WEFT_WR_INLINE, at most WEFT_MAX_INLINE. Each place of the
	 * send queue takes as much more memory.
	 */
	uint32_t max_inline_bytes;
};

/** QP states (RFC 5040 s6; docs/internals/states.md has the table of transitions). */
enum weft_qp_state {
	WEFT_QP_IDLE,
	WEFT_QP_RTS,
	WEFT_QP_CLOSING,
	WEFT_QP_TERMINATE,
	WEFT_QP_ERROR,
};

const char *weft_qp_state_str(enum weft_qp_state s);

/** A Terminate that was sent or received: RFC 5040 s4.8, RFC 5041 s7.2, RFC 5044 s8. */
struct weft_terminate {
	uint8_t layer, etype, code;
	bool ours; /**< this side detected the fault and sent the Terminate */
};

/**
 * "RDMA layer: remote protection error: base or bounds violation" and the like, written to buf.
 * Returns buf, or "?" if t or buf is NULL or size is 0.
 */
const char *weft_terminate_str(const struct weft_terminate *t, char *buf, size_t size);

/** Untagged queues of a stream: 0 has Sends, 1 requests, 2 Terminates (RFC 5040 s5.1), 3 responses
 * (RFC 7306 s8.1). */
#define WEFT_DDP_QUEUES 4

/** An untagged queue of DDP (RFC 5041 s4.3, s5.1). Its messages are numbered from 1. */
struct weft_ddp_queue_info {
	uint32_t tx_msn; /**< number of the next message that is sent, or of the one being sent */
	uint32_t rx_msn; /**< of the message that is expected, or received now */
	uint32_t rx_mo;  /**< octets of that message that have arrived */
};

struct weft_qp_info {
	uint32_t qpn; /**< number for people; unique in the context */
	enum weft_qp_state state;
	struct sockaddr_storage local, remote;
	uint16_t ird, ord; /**< as negotiated */
	uint32_t sq_used, rq_used;
	uint64_t sent_msgs, recv_msgs, sent_bytes, recv_bytes;
	uint64_t retrans_segs;
	uint32_t srtt_us;
	/** given to TCP and not acknowledged, with the headers of MPA and DDP */
	uint32_t unacked_bytes;
	uint16_t mulpdu_bytes;
	/* as created, with the defaults filled in */
	uint16_t asked_ird, asked_ord;
	uint32_t sq_depth, rq_depth; /**< rq_depth is 0 with an SRQ */
	uint32_t max_send_sge, max_sge, max_inline_bytes;
	bool all_signaled;
	struct weft_pd *pd;
	struct weft_cq *send_cq, *recv_cq;
	struct weft_srq *srq;
	struct weft_evq *evq;
	/* now */
	uint16_t out_reads;  /**< outbound requests that wait for a response, at most ord */
	uint16_t in_reads;   /**< inbound requests that are not answered yet, at most ird */
	uint64_t ord_stalls; /**< times the send queue waited because of ord */
	bool terminated;
	struct weft_terminate term;
	struct weft_mpa_info mpa; /**< zero before ESTABLISHED */
	/** zero before the worker's first snapshot of the connection; see weft_qp_query() */
	struct weft_ddp_queue_info ddp[WEFT_DDP_QUEUES];
};

/** Create a QP, in state IDLE. -EINVAL, -ENOMEM, -ENOSPC (limit of the worker). */
int weft_qp_create(struct weft_pd *pd, const struct weft_qp_attr *attr, struct weft_qp **out);
/**
 * Reset the QP's connection, if any, and free the QP. The handle is invalid when this returns.
 * Called on the worker, outstanding work first completes to the CQs as flushed. Called on another
 * thread, it is dropped. Events not yet taken are dropped. The exception is the event of a CQ
 * overrun, which is delivered without the QP. Called on another thread, a callback that runs at
 * this moment may still name the QP. A weft_worker_call() made afterwards runs when that callback
 * is over.
 */
void weft_qp_destroy(struct weft_qp *qp);
/**
 * A snapshot. Called on another thread than the worker's, srtt_us, unacked_bytes, retrans_segs,
 * mulpdu_bytes and ddp are those that the worker last stored: at ESTABLISHED, and at its first poll
 * after each such call. Takes a lock.
 */
void weft_qp_query(struct weft_qp *qp, struct weft_qp_info *info);
struct weft_worker *weft_qp_worker(const struct weft_qp *qp);
void *weft_qp_user(const struct weft_qp *qp);

/* ---- Work requests ---- */

#define WEFT_DEFAULT_SGE 4
#define WEFT_MAX_SGE     32
#define WEFT_MAX_INLINE  1024

/**
 * A piece of local memory. lkey 0 means any memory of the process. It is not allowed for the sink
 * of a Read, because the sink's STag is sent to the peer. Any other lkey is an STag of the QP's
 * domain (for the receives of an SRQ, of the SRQ's domain). The piece must lie inside that region,
 * and the region must have WEFT_ACCESS_LOCAL_WRITE for sinks, receives and results.
 *
 * A request posted on the worker is checked during the post (-EINVAL). A request posted on another
 * thread is checked when the worker takes it; if it is bad, it completes as WEFT_WC_LOCAL_PROT and
 * the connection ends. The same happens if the region of a receive is gone when a message arrives
 * for it. A piece of length 0 is not checked.
 */
struct weft_sge {
	void *addr;
	uint32_t len_bytes;
	uint32_t lkey;
};

enum weft_wr_opcode {
	/** RFC 5040 Send; with WEFT_WR_SOLICITED, Send with Solicited Event */
	WEFT_WR_SEND,
	/**
	 * Send that also invalidates send.inv_stag at the peer. At the peer that STag must belong
	 * to the one stream: a window, a fast region with fast_reg.stream set, or any region of a
	 * domain without other QPs. Else the stream ends with Terminate 0/1/09, because a peer must
	 * not invalidate what other streams share (RFC 5040 s8.1.1 item 7).
	 */
	WEFT_WR_SEND_INV,
	WEFT_WR_WRITE,
	WEFT_WR_READ,         /**< exactly one SGE, with lkey */
	WEFT_WR_FLUSH,        /**< draft-talpey-rdma-commit-02 s2.1 */
	WEFT_WR_VERIFY,       /**< s2.2 */
	WEFT_WR_ATOMIC_WRITE, /**< s2.3 */
	/*
	 * RFC 7306 s5: atomics on the 64-bit integer at the peer, in the peer's byte order. At most
	 * one SGE of eight octets, which receives the previous value in the byte order of this
	 * host.
	 */
	WEFT_WR_FETCH_ADD, /**< adds data */
	/**
	 * Adds field by field. Each set bit of mask is the highest bit of a field; carries out of
	 * it are lost.
	 */
	WEFT_WR_MASKED_FETCH_ADD,
	WEFT_WR_CMP_SWAP, /**< stores data if the value equals compare */
	/** Stores the bits of data in mask, if the bits in compare_mask equal those of compare. */
	WEFT_WR_MASKED_CMP_SWAP,
	/**
	 * RFC 7306 s6: eight octets of Immediate Data for a receive of the peer; may be
	 * WEFT_WR_SOLICITED.
	 */
	WEFT_WR_IMM,
	/**
	 * One work request for a Write followed by Immediate Data; may be WEFT_WR_SOLICITED.
	 * Completes as WEFT_WC_WRITE.
	 */
	WEFT_WR_WRITE_IMM,
	/**
	 * Makes a region of weft_mr_alloc() valid. Requests posted behind it may use the region.
	 */
	WEFT_WR_FAST_REG,
	/**
	 * Makes a region, or a window bound to this QP, invalid when its turn in the send queue
	 * comes. It completes when no operation accesses the memory any more. Only then does the
	 * next request begin. Until then: Reads of peers from the memory fail midway; a Verify that
	 * is reading the medium is waited for; a peer's Flush that has arrived is executed first.
	 * This QP's own Reads into the memory are waited for with WEFT_WR_FENCE. Without it they
	 * fail, and the invalidation is done but completes as flushed.
	 */
	WEFT_WR_LOCAL_INV,
	/** Binds a window to a part of a region. Requests posted behind it may send its STag. */
	WEFT_WR_BIND_MW,
};

#define WEFT_WR_SIGNALED  0x1 /**< make a completion also on success; errors always make one */
#define WEFT_WR_SOLICITED 0x2
/** Start only when every earlier Read, Atomic, Flush, Verify and Atomic Write is answered. */
#define WEFT_WR_FENCE 0x4
/** SEND, SEND_INV, WRITE, WRITE_IMM: the payload is copied at the post; lkeys are ignored. */
#define WEFT_WR_INLINE 0x8

struct weft_wr {
	uint64_t wr_id;
	enum weft_wr_opcode opcode;
	uint32_t flags;
	/** copied at the post; for SEND, WRITE, WRITE_IMM, READ and atomics; IMM has none */
	const struct weft_sge *sg_list;
	uint32_t num_sge;
	union {
		struct {
			uint32_t inv_stag;
		} send;
		struct {
			uint32_t stag; /**< STag at the peer */
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
			/** expected hash, copied at the post; NULL: only compute the hash */
			const void *expect;
			uint32_t expect_bytes;
			void *result; /**< receives the computed hash; NULL: not wanted */
			uint32_t result_bytes;
		} verify;
		struct {
			uint32_t stag;
			uint64_t to; /**< the target address must be 8-octet aligned */
			/** the octets in memory order; the peer stores them at once */
			uint8_t data[8];
		} atomic_write;
		struct {
			uint32_t stag;
			uint64_t to;   /**< the target address must be 8-octet aligned */
			uint64_t data; /**< the value to add or to store */
			/** mask and compare_mask: only for the MASKED_ operations */
			uint64_t mask;
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
			/** of weft_mr_alloc(); not valid when this request's turn comes */
			struct weft_mr *mr;
			/** this member and the following ones as in struct weft_mr_attr */
			void *addr;
			uint64_t len_bytes;
			uint64_t base_to;
			uint32_t access;
			struct weft_persist *persist;
			/** a keyed hash uses the key of weft_mr_alloc_keyed() */
			const char *hash;
			/**
			 * Restrict the region to this QP's stream, as a window is. No other stream
			 * can use it, so this stream's peer may invalidate it, however many QPs the
			 * domain has. Its STag is then no lkey. If the region is still valid after
			 * the stream has ended, any QP of the domain or weft_mr_dereg() can
			 * invalidate it.
			 */
			bool stream;
		} fast_reg;
		struct {
			/**
			 * The STag of a region of weft_mr_alloc() may already be invalid when this
			 * request's turn comes, because the peer's Send with Invalidate was first.
			 */
			uint32_t stag;
		} local_inv;
		struct {
			struct weft_mw *mw; /**< not bound when this request's turn comes */
			/** valid when this request's turn comes, with WEFT_ACCESS_MW_BIND */
			struct weft_mr *mr;
			void *addr; /**< inside the region */
			uint64_t len_bytes;
			/** tagged offset of addr[0]; 0 makes the window zero-based */
			uint64_t base_to;
			/**
			 * 0: weft_mw_next_stag(). Else weft_mw_keyed_stag() with a key that the
			 * consumer chooses. A key that was used before makes an STag valid again
			 * that the peer of that time may still have: a consumer should use a new
			 * one for each bind.
			 */
			uint32_t stag;
			/**
			 * Remote rights. REMOTE_WRITE and REMOTE_ATOMIC need a region with
			 * LOCAL_WRITE or with the same right. REMOTE_READ needs nothing. FLUSH_*
			 * and VERIFY need a region with the same right.
			 */
			uint32_t access;
		} bind_mw;
	};
};

/**
 * Post work requests in order. Returns how many were accepted: all, or those before the first one
 * that was not. If the first one was not accepted, returns
 *
 * - -EAGAIN: the send queue is full
 * - -EINVAL: the request is malformed: unknown opcode or flags, more pieces than max_send_sge, 4
 *   GiB or more in all, an inline payload longer than max_inline_bytes, or a bad lkey (struct
 *   weft_sge)
 * - -ENOTCONN: not established yet
 * - -ENOMEM: no memory for the send queue (first post, or first post after a time without any), for
 *   the ring of other threads (their first post), or for a Verify
 *
 * On a QP that has left RTS a request is accepted and completes as flushed.
 *
 * lkeys, and the sink of a Read, are looked up on the worker. Posted there, a bad one is -EINVAL.
 * Posted from another thread, or behind local work (FAST_REG, LOCAL_INV, BIND_MW) that is not done
 * yet, they are looked up when the request's turn comes. A bad one then completes as
 * WEFT_WC_LOCAL_PROT, and a Terminate ends the stream (RFC 5040 s7.1 case 1).
 *
 * Local work is checked at the post, as far as this does not depend on requests posted before:
 * -EINVAL (also: of another domain), -EOPNOTSUPP, -ENOENT and -ERANGE as weft_mr_reg(). A failure
 * when its turn comes completes as WEFT_WC_LOCAL_PROT, and a Terminate ends the stream (RFC 5040
 * s7.1 case 1). Such failures are: a region that is still valid, or no longer valid; windows bound
 * to the region that is to be invalidated; a range or a right that the region does not have.
 */
int weft_post_send(struct weft_qp *qp, const struct weft_wr *wr, unsigned int n);

struct weft_recv_wr {
	uint64_t wr_id;
	const struct weft_sge *sg_list; /**< copied at post */
	uint32_t num_sge;
};

/**
 * Post receives, in any state. In state ERROR they complete as flushed. Returns as
 * weft_post_send(); -EINVAL for a QP with an SRQ.
 */
int weft_post_recv(struct weft_qp *qp, const struct weft_recv_wr *wr, unsigned int n);

/* ---- Shared receive queues ---- */

struct weft_srq_attr {
	size_t size;          /**< sizeof(struct weft_srq_attr) */
	uint32_t depth;       /**< [256] receives posted and not yet completed, of all its QPs */
	uint32_t max_sge;     /**< [WEFT_DEFAULT_SGE] pieces of a receive, at most WEFT_MAX_SGE */
	struct weft_evq *evq; /**< receives WEFT_EV_SRQ_LIMIT; NULL: no such event */
	void *user;           /**< returned in that event */
};

/**
 * Create a shared receive queue, for any number of QPs of any workers of the context. A QP takes
 * one receive when a message begins to arrive, so it holds at most one. No receive is reserved for
 * a QP or a worker. As long as any receive is posted, by whatever thread, every QP can take it. A
 * message finds no receive only when all receives posted before it are in use. Then its connection
 * ends (RFC 5041 s7.2: Terminate 1/2/02).
 *
 * Order. The receives that one worker posts are taken in the order of posting. So are those of all
 * threads that are no workers. A worker takes its own receives first, then those of other threads,
 * then those of other workers. If one worker posts, or none does, the order is that of posting.
 *
 * One peer can use up the receives that others need (RFC 5042 s6.4.3.1). So arm the limit
 * (weft_srq_modify()). When it is reached, post more, or find the QP by recv_msgs of
 * weft_qp_query(). Give each CQ room for all receives that may be posted.
 *
 * -EINVAL, -ENOMEM.
 */
int weft_srq_create(struct weft_pd *pd, const struct weft_srq_attr *attr, struct weft_srq **out);
/**
 * Destroy an SRQ. -EBUSY while a QP uses it; -EINVAL. Remaining receives and undelivered events are
 * dropped, without a completion. A callback may still be running, as with weft_cq_destroy().
 */
int weft_srq_destroy(struct weft_srq *srq);
/**
 * Arm the limit: WEFT_EV_SRQ_LIMIT is delivered once, when a message takes a receive, or finds
 * none, and fewer than `limit` are left. 0 disarms; an event that a worker is just making may still
 * be delivered. Returns 1 when fewer are posted already (the event comes with the next message),
 * else 0. -EINVAL: above depth, or no event queue. -ENOMEM. Takes a lock: not for the data path.
 */
int weft_srq_modify(struct weft_srq *srq, uint32_t limit);

struct weft_srq_info {
	uint32_t depth, max_sge;
	uint32_t limit;     /**< armed limit; 0: not armed, or it has been reached */
	uint32_t posted;    /**< receives that messages may take */
	uint32_t used;      /**< places in use: posted receives, and those that QPs hold */
	uint32_t qps;       /**< QPs that use the SRQ */
	uint64_t no_buffer; /**< messages that found no receive */
	uint64_t limit_events;
};

void weft_srq_query(const struct weft_srq *srq, struct weft_srq_info *info);
/**
 * Post receives. Any thread, several at once. A worker that has a QP on this SRQ never waits here.
 * Other threads may wait briefly for a thread that was interrupted while it posted. Returns as
 * weft_post_send(). An lkey is checked when a message arrives. When a QP ends, the receive that it
 * holds is returned exactly once: as a completion of that QP (flushed, or WEFT_WC_LOCAL_*), or, if
 * the QP was destroyed from another thread, unused to the SRQ.
 */
int weft_post_srq_recv(struct weft_srq *srq, const struct weft_recv_wr *wr, unsigned int n);

/* ---- Connections (RFC 5044, RFC 6581) ---- */

#define WEFT_MAX_PRIVATE_DATA 508 /**< 512 octets minus the IRD/ORD word of revision 2 */

enum weft_event_type {
	/** to the listener: connreq, private data, the peer's ird and ord */
	WEFT_EV_CONNECT_REQUEST,
	/** Initiator: with the responder's private data. Responder: the MPA Reply was sent. */
	WEFT_EV_ESTABLISHED,
	WEFT_EV_REJECTED, /**< initiator: the peer's consumer rejected the request; private data */
	/**
	 * Initiator; responder, if it accepted from another thread. status says why (-ECONNREFUSED,
	 * -ETIMEDOUT, ...).
	 */
	WEFT_EV_CONNECT_ERROR,
	/**
	 * Once for each established connection. status is 0 after an orderly close, else -errno:
	 * -ECONNRESET, -ETIMEDOUT, -ENODEV (weft_port_removed()), ...
	 */
	WEFT_EV_DISCONNECTED,
	/** A Terminate was sent or received: term. DISCONNECTED follows. */
	WEFT_EV_TERMINATED,
	/**
	 * Completions of the QP were lost because cq was full. The QP goes to ERROR. qp is NULL if
	 * the QP was destroyed meanwhile, or if they were lost when it was destroyed.
	 */
	WEFT_EV_CQ_OVERRUN,
	/**
	 * Responder: a range failed; status and bad_range tell how and which. -EBADMSG: a Verify
	 * found another hash. Else a Flush failed, or a Verify could not read the medium, or memory
	 * of the range is lost (weft/guard.h; also for a Read that this QP posted): -EIO, or the
	 * -errno of the persist driver, for example -ENOSPC. The region has the range marked
	 * (weft/bad_range.h).
	 */
	WEFT_EV_BAD_RANGE,
	/** Fewer receives are left than weft_srq_modify() named: srq; qp is NULL. */
	WEFT_EV_SRQ_LIMIT,
	/**
	 * A QP with an SRQ is in ERROR and has completed the receive that it held. It takes no
	 * more.
	 */
	WEFT_EV_LAST_WQE,
};

const char *weft_event_str(enum weft_event_type t);

struct weft_event {
	enum weft_event_type type;
	struct weft_qp *qp;
	/**
	 * weft_qp_attr.user, weft_listen_attr.user or weft_srq_attr.user; weft_cq_attr.user of an
	 * overrun without its QP.
	 */
	void *user;
	struct weft_connreq *connreq;
	struct weft_listener *listener;
	struct weft_cq *cq;   /**< WEFT_EV_CQ_OVERRUN */
	struct weft_srq *srq; /**< WEFT_EV_SRQ_LIMIT */
	int status;
	/** as the peer sent them (WEFT_EV_CONNECT_REQUEST, ESTABLISHED, REJECTED) */
	uint16_t ird, ord;
	struct sockaddr_storage remote;
	/** WEFT_EV_CONNECT_REQUEST: the address and port that the peer connected to */
	struct sockaddr_storage local;
	struct weft_terminate term;
	struct {
		uint32_t stag; /**< STag of the request: of a region or of a window */
		uint64_t to;
		uint64_t len_bytes;
	} bad_range;
	uint16_t private_data_bytes;
	/** The last member. Only private_data_bytes octets are valid. */
	uint8_t private_data[WEFT_MAX_PRIVATE_DATA + 4];
};

/** Events by callback, on the worker. */
typedef void (*weft_event_fn)(void *user, const struct weft_event *ev);

struct weft_evq_attr {
	size_t size;            /**< sizeof(struct weft_evq_attr) */
	weft_event_fn on_event; /**< NULL: the queue is polled and has a file descriptor */
	void *user;
};

int weft_evq_create(struct weft_ctx *ctx, const struct weft_evq_attr *attr, struct weft_evq **out);
/**
 * Destroy an event queue. -EBUSY while a QP or a listener uses it; -EINVAL. Undelivered events are
 * dropped, and their connection requests rejected. A callback may still be running, as with
 * weft_cq_destroy().
 */
int weft_evq_destroy(struct weft_evq *evq);
/**
 * Copy the next event to *ev. Returns 1, or 0 if there is none; -EINVAL. Any one thread at a time.
 */
int weft_evq_poll(struct weft_evq *evq, struct weft_event *ev);
/** Readable while events wait. -1 for a queue with a callback; -EINVAL: no event queue. */
int weft_evq_fd(const struct weft_evq *evq);

/**
 * A Differentiated Services Code Point (RFC 2474 s3), 0 to 63, in the attributes of listeners and
 * connections. Every segment of the connection has it, retransmissions and RSTs included. The two
 * bits of ECN beside it stay TCP's. Zero there means the port's (weft_port_attr.dscp).
 */
#define WEFT_DSCP(dscp) (0x100u | (dscp))

struct weft_listen_attr {
	size_t size; /**< sizeof(struct weft_listen_attr) */
	struct weft_evq *evq;
	uint32_t backlog; /**< [128] unanswered requests, per worker */
	/** [10 s] for the MPA Request to arrive, and then for the consumer's answer */
	uint32_t startup_timeout_us;
	/** [0: off] TCP keepalive of accepted connections: idle time before the first probe */
	uint32_t keepalive_us;
	void *user;
	/*
	 * Limits for one remote address (for IPv6, one /64 unless link-local) on one worker (RFC
	 * 5042 s6.4). A new connection beyond these limits, or beyond the backlog, takes the place
	 * of an idle one: the oldest connection that has sent nothing, or that stopped in the
	 * middle of its MPA Request two seconds ago. For a limit of an address it is one of that
	 * address; for the backlog it is one of the address with the most. It is reset. If there is
	 * no idle one, the new connection is reset. Both are counted in weft_worker_stats. The
	 * connections of all listeners of a worker count together, but each listener has its own
	 * limits. TCP has further limits (weft_tcp_attr).
	 */
	/**
	 * [half of backlog, at least 8] unanswered requests, including connections that have not
	 * sent their MPA Request.
	 */
	uint32_t max_requests_per_peer;
	/**
	 * [half of the worker's max_conns, or of the number the port's buffers suffice for, at
	 * least 8] Accepted connections that still exist, and requests. One more is reset, and
	 * counted in conns_refused_peer of weft_worker_stats. TCP's limit of the same name
	 * (weft_tcp_attr.max_conns_per_peer) counts half-open connections, too, and applies first.
	 */
	uint32_t max_conns_per_peer;
	/** for accepted connections (copied); NULL: that of the context */
	const struct weft_mpa_policy *mpa;
	/**
	 * What happens when the worker has no TCP connection left for a new one, or no buffers.
	 * False: the new connection is refused. True: a connection that this listener accepted, and
	 * that is not in use, is reset for the new one (DISCONNECTED with -ECONNABORTED; counted in
	 * conns_pushed_out). It is one of an address with more connections than the new peer's
	 * (weft/standing.h). Or, if the new peer's IPv6 /64 has used its share, it is one of
	 * another address of that /64.
	 */
	bool push_out;
	/**
	 * [0: the address alone] The address is that of a network: listen on each address of this
	 * host in it. 1..32, or 1..128 for IPv6. The address has no bits set behind the prefix.
	 */
	uint8_t prefix_len;
	/** [0: the port's] WEFT_DSCP() of SYN-ACKs and of accepted connections */
	uint64_t dscp;
	/** [0: no other bound] Connections that this program accepts on a worker, if it is fewer
	 * than the worker has: the default of max_conns_per_peer is half of that. */
	uint32_t max_conns;
};

/**
 * Listen on every worker that has a port with this address, or with an address in this network
 * (prefix_len). The unspecified address, of either family, means all addresses of both families.
 * weft_listen() and weft_connect() take AF_INET and AF_INET6, and ignore sin6_flowinfo. The
 * sin6_scope_id of a link-local address names a VLAN (weft_port_attr.networks); a link-local
 * destination belongs to the worker's first port with IPv6 on that VLAN.
 *
 * Two listeners with one port do not overlap: -EADDRINUSE, also for a network, or the unspecified
 * address, that includes the address of the other.
 *
 * When this returns, the workers run by weft_worker_start() are listening. Two exceptions: a worker
 * that has not polled for a second, and a call on the thread of one of the workers, which does not
 * wait. All other workers listen from their next poll on. -EINVAL (port 0, for example), -ENOMEM,
 * -EADDRINUSE, -EADDRNOTAVAIL, -EAFNOSUPPORT.
 */
int weft_listen(struct weft_ctx *ctx, const struct sockaddr *addr, socklen_t addr_len,
                const struct weft_listen_attr *attr, struct weft_listener **out);
/** Stop listening. Unanswered requests are rejected. */
void weft_unlisten(struct weft_listener *l);

/** The worker of the connection. The QP that accepts it must belong to this worker. */
struct weft_worker *weft_connreq_worker(const struct weft_connreq *r);

/**
 * A depth of a connection, 0 to 0x3ffe, in weft_conn_attr: so that 0 can be told from a member that
 * is not set.
 */
#define WEFT_DEPTH(n) (0x10000u | (n))

struct weft_conn_attr {
	size_t size;              /**< sizeof(struct weft_conn_attr) */
	const void *private_data; /**< copied */
	uint16_t private_data_bytes;
	/** [as in mpa] initiator: revision 1 or 2, without a second attempt in the other */
	uint8_t mpa_rev;
	uint32_t timeout_us; /**< [10 s] for the whole start-up */
	/**
	 * [0: off; when accepting, as the listener's] idle time before the first TCP keepalive
	 * probe
	 */
	uint32_t keepalive_us;
	/** copied; NULL: that of the listener, or of the context */
	const struct weft_mpa_policy *mpa;
	/**
	 * [ss_family 0: by the route to the peer] weft_connect(): the address of this host to
	 * connect from, of the peer's family; its port is ignored (local_port)
	 */
	struct sockaddr_storage local;
	/** [0: the port's; when accepting, the listener's] WEFT_DSCP() of what is sent from now on
	 */
	uint64_t dscp;
	/**
	 * [0: the QP's] WEFT_DEPTH() of the IRD and ORD to offer or to accept (RFC 6581 s9.1). More
	 * than the QP's counts as the QP's. With an ORD of 0 requests that need one wait for ever.
	 */
	uint32_t ird, ord;
	/**
	 * [0: TCP chooses one of the dynamic ports] weft_connect(): the TCP port of this host to
	 * connect from. A second attempt (struct weft_mpa_policy, rev) has it, too.
	 * -EADDRINUSE: a connection of the worker has these two ends, be it in TIME-WAIT, or a
	 * listener has the port. -EADDRNOTAVAIL: the peer's answers to it would arrive at another
	 * worker, or at another process (weft/shared_port.h).
	 */
	uint16_t local_port;
	/** Where local_port cannot be used, TCP chooses. */
	bool local_port_wish;
};

/**
 * Connect an IDLE QP. ESTABLISHED, REJECTED or CONNECT_ERROR follows; after ESTABLISHED,
 * DISCONNECTED follows once. attr may be NULL. If the responder does not speak revision 2, a second
 * TCP connection is made within the same time (struct weft_mpa_policy, rev). -EINVAL,
 * -EAFNOSUPPORT, -EISCONN (not IDLE), -ENETUNREACH (no port of the worker reaches the address, or
 * none from attr->local), -EADDRNOTAVAIL (attr->local is no address of the worker's ports),
 * -ENOMEM, and, also of attr->local_port, when called on the worker, the immediate errors of TCP.
 */
int weft_connect(struct weft_qp *qp, const struct sockaddr *addr, socklen_t addr_len,
                 const struct weft_conn_attr *attr);
/**
 * Accept a request with an IDLE QP of its worker. r is invalid when this returns. attr may be NULL.
 * -EINVAL: bad arguments, or r is not an unanswered request; an unanswered request was rejected.
 * -ECONNABORTED: the peer gave up, or the listener was closed; the QP is still IDLE. Called on
 * another thread than the worker's, this may be found only later; then CONNECT_ERROR follows.
 */
int weft_accept(struct weft_connreq *r, struct weft_qp *qp, const struct weft_conn_attr *attr);
/**
 * Reject a request. r is invalid when this returns. The Reply carries the depths that the initiator
 * asked for, so it is not told that they were the reason.
 */
void weft_reject(struct weft_connreq *r, const void *private_data, uint16_t private_data_bytes);
/**
 * Reject a request because of its depths, and tell the initiator which depths the responder would
 * accept (RFC 6581 s9.1): the responder's ird and ord, at most 0x3ffe. If one depth
 * of the Request is 0x3fff (left to the ULPs), the other depth of the Reply is 0x3fff, too.
 */
void weft_reject_depths(struct weft_connreq *r, uint16_t ird, uint16_t ord,
                        const void *private_data, uint16_t private_data_bytes);
/**
 * Close the connection in order, behind everything that is posted. DISCONNECTED follows. Remaining
 * receives complete as flushed. A QP that is still connecting gets CONNECT_ERROR. -ENOTCONN,
 * -ENOMEM, -EINVAL.
 */
int weft_disconnect(struct weft_qp *qp);
/**
 * Reset the connection soon after this returns, even one that is being closed in order. For a peer
 * that does not take what was posted for it. Posted work that is not done completes as flushed.
 * DISCONNECTED follows; a QP that is still connecting gets CONNECT_ERROR. Only on the QP's worker,
 * else -EPERM. -ENOTCONN, -EINVAL.
 */
int weft_abort(struct weft_qp *qp);
/**
 * Destroy a QP, and let its connection close in order without it. Only on the QP's worker.
 *
 * The first call begins to close the connection, as weft_disconnect() does. When everything that
 * was posted is sent, a call destroys the QP as weft_qp_destroy() does: outstanding work, such as
 * receives and Reads, completes as flushed. From here on the connection touches no memory of the
 * program, registered or not, and uses no domain, queue or region: what still arrives from the peer
 * is dropped. TCP acknowledges it all the same: the peer's Sends and Writes complete with success,
 * and it sees an orderly end; its Reads, Atomics and Flushes that wait are flushed there. A reset
 * would tell it, but could destroy what was sent to it last. What was sent is delivered, sent again
 * if it gets lost, and the connection closes. It is reset wait_us after this call at the latest, at
 * once with 0 (weft_worker_stats.left_timeouts). The time is counted from the worker's last poll:
 * poll once before, if that may have been long ago.
 *
 * Until then it counts as one of the worker's QPs. weft_qp_create() on the worker resets the oldest
 * such connection when there is no room otherwise, and so does a new connection before it takes the
 * place of an accepted one (weft_worker_stats.left_cut). None is reset that was not polled since
 * this call: its data and FIN are sent first. Until then weft_qp_create() is -ENOSPC.
 *
 * 1: the QP is destroyed, and its connection closes. gone(arg, status) is called when that has
 * ended, on the worker, at the latest by weft_ctx_destroy(). status: 0: both sides have closed, so
 * all that was sent has arrived; -ETIMEDOUT: the peer did not close in time, or is gone;
 * -ECONNABORTED: reset for another one, or by weft_ctx_destroy(); else as of WEFT_EV_DISCONNECTED.
 * gone may be NULL.
 * 0: the QP is destroyed; it was in no connection, or in one that was being opened or had ended.
 * gone() is not called.
 * -EBUSY: posted requests are not sent yet, or a callback of the QP runs. The QP is not destroyed,
 * and its connection is being closed: poll the worker and call again, or call weft_qp_destroy().
 * -EPERM: not on the QP's worker. -ENOMEM: likewise not destroyed. -EINVAL.
 */
int weft_qp_leave(struct weft_qp *qp, uint32_t wait_us, void (*gone)(void *arg, int status),
                  void *arg);

WEFT_API_END

#endif /* WEFT_VERBS_H */
