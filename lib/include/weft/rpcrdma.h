/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_RPCRDMA_H
#define WEFT_RPCRDMA_H

/**
 * @file RPC-over-RDMA on a QP: calls and replies of ONC RPC (RFC 5531), in version 2
 * (draft-ietf-nfsv4-rpcrdma-version-two-07) or version 1 (RFC 8166, RFC 8167). Installed; needs
 * libtirpc's <rpc/xdr.h> and no DPDK header.
 *
 * An endpoint posts its own receives and sends on its QP. The consumer may post one-sided work
 * there, too. It passes every completion to weft_rpc_wc() first, which tells whether the completion
 * belonged to the endpoint. All functions run on the QP's worker.
 *
 * The consumer posts no Send and no receive of its own on the QP, because the peer would take a
 * Send for a message. The wr_ids of the endpoint are addresses inside the endpoint. So addresses of
 * the consumer's own memory, and small numbers, never equal them.
 *
 * An item that is long, or that a binding names (struct weft_rpc_binding), travels in chunks: the
 * caller's memory is registered for the time of the call, and the server reads and writes it. The
 * consumer does not see this. Its XDR routines make the same arguments and results in both cases.
 *
 * In a callback (weft_rpc_fn, weft_rpc_proc.serve) calls may be made. The endpoint may also be
 * destroyed there: first destroy the QP, in the same callback. Completions that arrive later must
 * not be passed to the endpoint.
 *
 * Endpoints, requests and caches that are NULL, of another kind or destroyed (a request: answered)
 * are refused as weft/verbs.h says ("Misuse"), and attributes of another version are accepted. The
 * calling thread is not checked. weft_rpc_destroy() and weft_rpc_drc_destroy() of NULL do nothing
 * and log nothing.
 *
 * An XDR routine that decodes must limit its strings and arrays (rpcgen: string name<255>):
 * libtirpc allocates the length that the peer sent before it looks at the data.
 */

#include <rpc/types.h>
#include <rpc/xdr.h>

#include <weft/api.h>
#include <weft/verbs.h>

WEFT_API_BEGIN

struct weft_rpc;
struct weft_rpc_req;

/** Unanswered calls of one endpoint. */
#define WEFT_RPC_MAX_CALLS 64
/** Data items of one message that may travel in chunks. */
#define WEFT_RPC_MAX_ITEMS 4

/**
 * How a call ended: by the transport, or by a refusal of RPC (DENIED to SYSTEM_ERR). All values
 * except OK are positive; -errno is only returned by functions.
 */
enum weft_rpc_status {
	WEFT_RPC_OK = 0,
	WEFT_RPC_CONNLOST, /**< the connection ended first; it is unknown whether the call ran */
	WEFT_RPC_TIMEDOUT,
	WEFT_RPC_TRANSPORT, /**< the peer answered with an RDMA2_ERROR, see weft_rpc_error_of() */
	WEFT_RPC_DENIED,    /**< MSG_DENIED: RPC version or authentication */
	WEFT_RPC_PROG_UNAVAIL,
	WEFT_RPC_PROG_MISMATCH,
	WEFT_RPC_PROC_UNAVAIL,
	WEFT_RPC_GARBAGE_ARGS,
	WEFT_RPC_SYSTEM_ERR,
	/**
	 * The reply could not be decoded, or has other items in chunks than it must (RFC 8166
	 * s6.1).
	 */
	WEFT_RPC_BAD_REPLY,
	/** The reply is longer than the call made room for. The call may have run. */
	WEFT_RPC_TOO_LONG,
	/**
	 * The peer accepts neither messages nor enough segments for the call. The call was not
	 * sent.
	 */
	WEFT_RPC_CALL_TOO_LONG,
};

const char *weft_rpc_status_str(enum weft_rpc_status s);

/* ---- Bindings: which items of a procedure chunks may carry (draft s4.4.2, appendix A) ---- */

/** Kind of an item, which determines how the item is found in the XDR. */
enum weft_rpc_item_kind {
	/**
	 * The octets of an opaque or a string, as given to xdr_opaque(), xdr_bytes() or
	 * xdr_string().
	 */
	WEFT_RPC_OCTETS,
	/**
	 * All elements of a counted array, or optional data (s4.5.3.2, s4.5.3.3), as given to
	 * weft_rpc_xdr_array(), weft_rpc_xdr_pointer() or weft_rpc_xdr_reference() of
	 * weft/rpc_xdr.h. The chunk carries their XDR. The count, or the flag that says whether
	 * there are any, stays in the message.
	 */
	WEFT_RPC_XDR,
};

/** An item in memory. */
struct weft_rpc_item {
	void *addr; /**< address of the octets, of the first element, or of the optional data */
	/** Octets. WEFT_RPC_XDR: number of elements, 1 for optional data. 0: the item is absent. */
	uint32_t len_bytes;
	enum weft_rpc_item_kind kind;
};

/**
 * A place for one result: the server may put it there by a Write chunk. The results that are
 * present and not empty take the chunks in order (RFC 8166 s4.3.2.2). If an earlier result is
 * missing, a later one arrives in the chunk meant for the earlier one. Therefore each chunk is as
 * long as the longest sink from its own on. If there are several sinks, only the memory of the
 * first is used directly, and the others are copied.
 */
struct weft_rpc_sink {
	/**
	 * Where the structure of the results will have it, set before the call. NULL: memory of
	 * weft; always for WEFT_RPC_XDR.
	 */
	void *addr;
	/**
	 * Longest result, in XDR. 0: an empty chunk, so that this result comes inline (s4.3.2.3).
	 */
	uint32_t max_bytes;
	/**
	 * Which result this is: the number of items before it in the XDR of the results. Opaques,
	 * strings, arrays that are not empty, and optional data that is present count; arrays and
	 * optional data only if weft/rpc_xdr.h handles them, and nothing inside of them counts.
	 *
	 * XDR tells nothing of an empty opaque. sinks() may leave out opaques that it knows to be
	 * empty. Others are allowed for where it is certain which result is meant: when the result
	 * is longer than what is left of the message. Where the result may be shorter, and an
	 * opaque before it empty, weft_rpc_binding.placed is needed (else WEFT_RPC_BAD_REPLY).
	 * Ignored with placed.
	 */
	uint32_t nth;
};

/**
 * The upper-layer binding of one procedure. Each function fills an array of WEFT_RPC_MAX_ITEMS, in
 * the order of the items in the XDR, and returns how many there are. Any function may be NULL: no
 * items.
 */
struct weft_rpc_binding {
	/**
	 * The eligible arguments. The caller sends these in chunks. The server calls it with the
	 * decoded arguments and refuses other items in chunks (GARBAGE_ARGS).
	 */
	unsigned int (*args)(const void *args, struct weft_rpc_item *items);
	/** Caller: places for the eligible results. */
	unsigned int (*sinks)(const void *args, struct weft_rpc_sink *sinks);
	/**
	 * Caller: longest RPC reply without the eligible results. If it does not fit inline, a
	 * Reply chunk is offered.
	 */
	uint32_t (*reply_bytes)(const void *args);
	/** Server: the eligible results. */
	unsigned int (*results)(const void *res, struct weft_rpc_item *items);
	/**
	 * Caller: as results(), for results that are only partly decoded; the rest is zero. It may
	 * be called for each item. Needed where a number does not tell which results are eligible,
	 * because a union or optional data stands before them. NULL: weft_rpc_sink.nth tells it.
	 */
	unsigned int (*placed)(const void *res, struct weft_rpc_item *items);
	/**
	 * There is no reply (RFC 5531 s8): no chunks are used (s4.7), and the call ends when it is
	 * sent.
	 */
	bool call_only;
};

/* ---- Programs ---- */

/**
 * Memory into which an argument is read: in a region of the endpoint's domain, with local write.
 */
struct weft_rpc_place {
	void *addr;
	uint32_t stag;
};

/** One procedure of a program. */
struct weft_rpc_proc {
	xdrproc_t xdr_args, xdr_res;
	/** sizes of the C structures, which are zero-filled before use */
	size_t args_bytes, res_bytes;
	/**
	 * Serve a call: args is decoded; fill in res. Runs on the worker and never blocks.
	 * conn_user is weft_rpc_attr.user. Returns WEFT_RPC_OK (res is encoded and then freed by
	 * xdr_free) or one of the refusals above.
	 */
	enum weft_rpc_status (*serve)(void *conn_user, void *args, void *res);
	/**
	 * Instead of serve, for a longer operation. req, args and res are valid until
	 * weft_rpc_done(). It must be called, on the worker, during this function or later, also if
	 * the connection is gone by then.
	 */
	void (*serve_later)(void *conn_user, struct weft_rpc_req *req, void *args, void *res);
	const struct weft_rpc_binding *binding; /**< may be NULL */
	/**
	 * The procedure must not run twice for one call: a repeated call is answered from
	 * weft_rpc_attr.drc. Callers through weft/tirpc.h use this member; other callers set it in
	 * the call.
	 */
	bool once;
	/**
	 * May be NULL. Called before an argument that a Read chunk carries is fetched, if it is the
	 * only one. args stands at the start of the arguments and ends where the octets of this
	 * argument would begin. len_bytes is the length that the caller announced. True: the octets
	 * are read directly to *out, and serve() gets that address if xdr_args takes them by
	 * weft_rpc_xdr_lend(). False: they are read to memory of weft, as usual. Makes no calls and
	 * destroys nothing.
	 *
	 * This is no more than an RDMA Write of the peer with the same rights: the octets may be
	 * read in part or completely although serve() never runs. The read ends when the region's
	 * registration ends, and the connection ends with it. For a procedure with `once` it is not
	 * called for a call that may have been served before.
	 */
	bool (*place)(void *conn_user, XDR *args, uint32_t len_bytes, struct weft_rpc_place *out);
};

/**
 * In an XDR routine that decodes arguments, behind the count of an opaque that is not empty: the
 * address of its octets in place, valid until the answer. The padding is skipped, too. It replaces
 * xdr_opaque() into memory of the routine, and what its XDR_FREE would free. NULL: the message has
 * no such opaque here, or xdr is another stream.
 *
 * Direct I/O wants octets at a multiple of 4096. At one are the first argument of a call that a
 * Read chunk carries, if it has 4096 octets or more, no place() has taken it, and the rest of the
 * call comes in no chunk (a Call chunk); and the last argument of a call that is one message of up
 * to 16 KiB, if its length is a multiple of 4096 and there is memory for that.
 */
void *weft_rpc_xdr_lend(XDR *xdr, uint32_t len_bytes);

struct weft_rpc_program {
	uint32_t prog, vers;
	/**
	 * By procedure number. A procedure without serve and serve_later: PROC_UNAVAIL. Procedure 0
	 * (NULL) is built in.
	 */
	const struct weft_rpc_proc *procs;
	unsigned int nprocs;
};

/**
 * Answer a call, once; a second answer is ignored. status is as serve() returns it. args is freed
 * first, then res, so res contains no memory of args. If the endpoint is gone, nothing is sent.
 */
void weft_rpc_done(struct weft_rpc_req *req, enum weft_rpc_status status);
/** The endpoint on which the call came. NULL: it is gone, or the call was answered. */
struct weft_rpc *weft_rpc_req_endpoint(const struct weft_rpc_req *req);

/** How long a call was on its way through the endpoint, by the worker's clock, which is read once a
 * poll. */
struct weft_rpc_waits {
	uint64_t read_ns; /**< its chunks were read; 0: it has none, or it took no poll */
	uint64_t room_ns; /**< it waited: for room in the budget, or for the same call before it */
};
/**
 * What the call has waited for until now. For serve_later(), before it returns. Both are 0 if the
 * call was answered, its endpoint is gone, or that takes no times (weft_rpc_attr.timed). On the
 * endpoint's worker.
 */
void weft_rpc_req_waits(const struct weft_rpc_req *req, struct weft_rpc_waits *w);

/* ---- Endpoints ---- */

/** What this side serves in the reverse direction of the connection (draft s5.2.5, RFC 8167). */
enum weft_rpc_reverse {
	WEFT_RPC_REVERSE_AUTO, /**< GENERAL when there are programs, else NONE */
	WEFT_RPC_REVERSE_NONE,
	WEFT_RPC_REVERSE_SIMPLE, /**< calls of one message each, no chunks */
	WEFT_RPC_REVERSE_CONT,   /**< continued messages, too */
	WEFT_RPC_REVERSE_GENERAL,
};

struct weft_rpc_auth;
struct weft_rpc_drc;

struct weft_rpc_budget;

struct weft_rpc_attr {
	size_t size; /**< sizeof(struct weft_rpc_attr) */
	/** An IDLE QP. Receives are posted at once, before connect or accept. */
	struct weft_qp *qp;
	/**
	 * [4096] largest message in either direction (draft s4.2.2); 1024 to 65536, a multiple of 4
	 */
	uint32_t inline_bytes;
	uint32_t credits; /**< [8] messages this side is prepared to receive; 2 to 1024 */
	/** Programs served here; a list that ends with NULL. NULL: client only. */
	const struct weft_rpc_program *const *programs;
	void *user;
	bool server; /**< the side that accepted the connection */
	/** [1, 2] versions of RPC-over-RDMA; a client begins with max_vers. */
	uint8_t min_vers, max_vers;
	enum weft_rpc_reverse reverse; /**< client: what it serves in the reverse direction */
	/**
	 * [1 MiB + 64 KiB] length of one RPC message, in whatever form it travels; at most 1 GiB
	 */
	uint32_t max_message_bytes;
	/**
	 * [16] segments of one message, in all its chunks together, that this side accepts; at most
	 * 64. Its own segments in a reply do not count.
	 */
	uint32_t max_segments;
	/** [1 MiB] length of one segment that this side offers; a multiple of 4 */
	uint32_t max_segment_bytes;
	bool no_invalidate; /**< do not ask the peer for Send with Invalidate */
	/**
	 * Host authentication; NULL: none is requested. With max_vers 1 it cannot be required
	 * (-EINVAL).
	 */
	const struct weft_rpc_auth *auth;
	/** For procedures with `once`; may serve many endpoints, of any workers. */
	struct weft_rpc_drc *drc;
	/**
	 * For calls and their answers: the budget of the QP's worker (weft/rpc_budget.h). NULL: no
	 * common limit.
	 */
	struct weft_rpc_budget *budget;
	bool timed; /**< the times of calls are taken, for weft_rpc_req_waits() */
};

struct weft_rpc_stats {
	uint64_t calls_out, replies_in, calls_in, replies_out, grants_in, grants_out;
	uint64_t errors_in, errors_out;
	/** shorter than the fixed header; dropped silently (draft s7) */
	uint64_t short_dropped;
	uint64_t credit_stalls; /**< calls that waited for credit */
	/**
	 * connections closed because no credit came for 10 to 20 s while answers waited for it
	 * (draft s7.4)
	 */
	uint64_t starved;
	uint64_t bad_xid; /**< replies to no known call */
	/*
	 * Messages refused because of their header, by cause (draft s7). A bad reply ends its call;
	 * a bad call is answered with an error.
	 */
	uint64_t bad_version, bad_htype, bad_xdr, bad_property;
	uint64_t over_limit; /**< more chunks, segments or octets than this side accepts */
	uint64_t bad_cont;   /**< parts of a message that do not fit together */
	/** errors with an unknown code: dropped silently (draft s7) */
	uint64_t discarded;
	uint64_t unknown_props; /**< unknown transport properties (no error) */
	/* how messages travelled, both directions together */
	uint64_t simple, continued, special;
	uint64_t read_chunks, write_chunks; /**< chunks that this side used as a server */
	uint64_t read_bytes, write_bytes;   /**< octets moved by these chunks */
	uint64_t invalidated;               /**< Sends with Invalidate received */
	/** calls sent again with other resources after an RDMA2_ERROR */
	uint64_t retries;
	uint64_t replayed; /**< answered from the duplicate request cache */
	/** calls that waited because the same call was being served elsewhere */
	uint64_t waited;
	/** times that a call waited for room in the budget, to be read, served or answered */
	uint64_t no_room;
	uint64_t auth_refused;
	/**
	 * connections closed because a message that was begun, or offered to be read, was not
	 * complete after 30 to 60 s
	 */
	uint64_t unfinished;
};

/**
 * Create an endpoint. credits + 1 receives are posted. -EINVAL, -ENOMEM, and the errors of
 * weft_post_recv(). After an error destroy the QP unconnected: some receives may have been posted.
 */
int weft_rpc_create(const struct weft_rpc_attr *attr, struct weft_rpc **out);
/**
 * Destroy an endpoint, after its QP was destroyed or before the QP was ever connected. Outstanding
 * calls end with CONNLOST before this returns. The endpoint stays a valid handle until the last of
 * these callbacks has returned: they may still query it, and a second destruction has no effect.
 * Does nothing for NULL.
 */
void weft_rpc_destroy(struct weft_rpc *rpc);
/**
 * Handle a completion. True: wc belonged to the endpoint and is handled (replies delivered, calls
 * served).
 */
bool weft_rpc_wc(struct weft_rpc *rpc, const struct weft_wc *wc);
/**
 * The peer, a client of version 1, accepts calls in the reverse direction. Version 1 cannot say
 * this, so the upper layer tells it (RFC 8167 s6). Without this, reverse calls end as
 * WEFT_RPC_TRANSPORT. In version 2 the peer's properties tell it.
 */
void weft_rpc_peer_serves(struct weft_rpc *rpc);
/** The connection is gone: end all outstanding calls with CONNLOST. */
void weft_rpc_disconnected(struct weft_rpc *rpc);

/**
 * The version in use: 1, 2, or 0 while it is not settled. If the first connection ends before it is
 * settled, a client may use version 1 next (draft s4.3.2), provided that it needs no
 * authentication.
 */
unsigned int weft_rpc_version(const struct weft_rpc *rpc);

/**
 * Whether no call can be sent any more: as many calls as the peer grants credits were sent and
 * timed out, and none of them has been answered since. In version 1 a call holds its credit until
 * its answer comes, even a late one (RFC 8166 s3.3.1). Without an answer all calls end as
 * WEFT_RPC_TIMEDOUT, and only a new connection helps. Check this after a call timed out, or before
 * a call, and then call weft_disconnect(): the calls that wait for credit, unsent, end with
 * WEFT_RPC_CONNLOST. A late answer makes it false again. Always false in version 2, where a credit
 * is a receive and a call without an answer holds none.
 */
bool weft_rpc_stuck(const struct weft_rpc *rpc);
/**
 * Whether the endpoint was told that its connection is gone, so that no call can be sent. True if
 * rpc is not a live endpoint.
 */
bool weft_rpc_is_down(const struct weft_rpc *rpc);

/**
 * The result of a call. res is decoded, is freed (xdr_free) when the function returns, and is NULL
 * unless status is OK.
 */
typedef void (*weft_rpc_fn)(void *arg, enum weft_rpc_status status, void *res);

/**
 * Make a call. args are encoded before this returns and not used later. If this returns 0, fn is
 * called once, always; also before the return, if posting finds the connection dead. After an error
 * fn is not called. timeout_us 0: 30 s. Calls wait for the peer's credit in order. A call that the
 * peer cannot accept ends as WEFT_RPC_TRANSPORT. No item travels by a binding. A long call is
 * continued, or read by the server. A long reply is continued; in version 1 it is refused
 * (WEFT_RPC_TOO_LONG).
 * - -EMSGSIZE: longer than max_message_bytes
 * - -EINVAL: args cannot be encoded, no fn, no endpoint
 * - -ENOTCONN
 * - -EPROTONOSUPPORT: the peer refused every version
 * - -EAGAIN: WEFT_RPC_MAX_CALLS calls are outstanding
 * - -ENOMEM
 */
int weft_rpc_call(struct weft_rpc *rpc, uint32_t prog, uint32_t vers, uint32_t proc,
                  xdrproc_t xdr_args, const void *args, xdrproc_t xdr_res, size_t res_bytes,
                  uint64_t timeout_us, weft_rpc_fn fn, void *arg);

/** All attributes of a call. */
struct weft_rpc_call_attr {
	size_t size; /**< sizeof(struct weft_rpc_call_attr) */
	uint32_t prog, vers, proc;
	xdrproc_t xdr_args;
	/**
	 * With a binding: args and what it points to are valid until fn is called, because the
	 * functions of the binding may be called until then. Without a binding: until the call
	 * returns.
	 */
	const void *args;
	xdrproc_t xdr_res;
	size_t res_bytes;
	/**
	 * Initial contents of res before it is decoded, for example the addresses of sinks; copied
	 * at the call. NULL: zeros.
	 */
	const void *res_init;
	const struct weft_rpc_binding *binding; /**< may be NULL */
	uint64_t timeout_us;                    /**< [30 s] */
	weft_rpc_fn fn;
	void *arg;
	/**
	 * NULL, or functions for the whole RPC message, which replace prog to args. encode writes
	 * the message, xid first. decode reads the reply and returns the status for fn; res is then
	 * NULL. Both may run until fn is called.
	 */
	bool (*encode)(void *arg, XDR *xdr, uint32_t xid);
	enum weft_rpc_status (*decode)(void *arg, XDR *xdr);
	/** [0: a new one] xid of a call that is repeated after its connection was lost */
	uint32_t xid;
	/**
	 * The procedure must not run twice: an error that is reported after it ran ends the call.
	 */
	bool once;
};

/**
 * Called in decode, where the results begin: weft_rpc_sink.nth counts from here. res is what the
 * results are decoded into, for weft_rpc_binding.placed.
 */
void weft_rpc_xdr_results(XDR *xdr, const void *res);

/** As weft_rpc_call(). Sinks with an address are memory of the caller, used until fn is called. */
int weft_rpc_call_with(struct weft_rpc *rpc, const struct weft_rpc_call_attr *attr);
/**
 * Called in fn with WEFT_RPC_TRANSPORT: the RDMA2_ERR_* that was received (those of version 1 are
 * mapped); 0: none.
 */
uint32_t weft_rpc_error_of(const struct weft_rpc *rpc);
/**
 * Called in fn: whether nothing of the call was sent (of its last try, if it was repeated), so that
 * it did not run.
 */
bool weft_rpc_unsent(const struct weft_rpc *rpc);

/* ---- Calls served as whole messages, for a program with its own dispatcher ---- */

/**
 * Called on the worker for each call of RPC version 2 (RFC 5531). xdr stands at the xid and is
 * valid until weft_rpc_raw_reply().
 */
typedef void (*weft_rpc_raw_fn)(void *conn_user, struct weft_rpc_req *req, XDR *xdr);

/** Pass calls to fn instead of to programs. Called before the first message. */
void weft_rpc_set_raw(struct weft_rpc *rpc, weft_rpc_raw_fn fn);
/**
 * Answer a call: encode writes the message, xid first; items are its eligible results by address,
 * which are copied. encode NULL: there is no answer. req is invalid when this returns.
 */
void weft_rpc_raw_reply(struct weft_rpc_req *req, bool (*encode)(void *arg, XDR *xdr), void *arg,
                        const struct weft_rpc_item *items, unsigned int nitems);

/**
 * For arguments decoded from the xdr of a weft_rpc_raw_fn: whether the binding (or NULL) names each
 * item that came in a chunk (RFC 8166 s6.1).
 */
bool weft_rpc_raw_args_ok(const XDR *xdr, const struct weft_rpc_binding *binding, const void *args);
/** xdr_void(3) with the prototype of an xdrproc_t. */
bool_t weft_rpc_xdr_void(XDR *xdr, ...);

/**
 * Answer that the RPC header of a call could not be decoded: RDMA2_ERR_BAD_XDR, in version 1
 * ERR_CHUNK. req is invalid when this returns.
 */
void weft_rpc_raw_refuse(struct weft_rpc_req *req);

/* ---- Host authentication (draft s5.2.6, s11.4) ---- */

#define WEFT_RPC_AUTH_MAX_BYTES 512

/**
 * Authentication messages, exchanged in turns before the first call, beginning with the client.
 * step() gets the peer's message, NULL before the client's first, and fills out and *out_bytes
 * (room for WEFT_RPC_AUTH_MAX_BYTES; 0: no message). Returns 1: the peer has proved its identity;
 * 0: continue; negative: refuse, and the connection is closed. Runs on the worker and never blocks.
 */
struct weft_rpc_auth {
	int (*step)(void *conn_user, const uint8_t *in, uint32_t in_bytes, uint8_t *out,
	            uint32_t *out_bytes);
	/**
	 * No call is made or served, in either direction, before step() has returned 1. So none is
	 * in version 1, which has no such messages.
	 */
	bool required;
};

/* ---- Duplicate requests ---- */

/**
 * Create a duplicate request cache: it keeps the replies of the last `entries` calls of procedures
 * with `once`. -EINVAL, -ENOMEM.
 *
 * Key. A call is identified by its caller (name), xid, procedure, and the length and a keyed sum of
 * the whole call without chunks. So a repeated call is recognised also if it uses other chunks, or
 * none.
 *
 * Eviction. When the cache is full, the oldest reply of the caller with the most replies is dropped
 * (weft_rpc_set_peer_share()). So each of n callers keeps its latest `entries` / n replies,
 * whatever the others call. Callers that have proved their identity (step() of weft_rpc_auth
 * returned 1) and other callers are two parts. A reply of the others is dropped while they keep
 * more than a quarter of the entries, else a reply of the former.
 *
 * Workers. One cache serves the endpoints of all workers, because a client that connects again may
 * reach another worker. A large cache has 16 tables, by caller and xid; all of the above applies to
 * each table. Such calls take the table's lock.
 *
 * A call that is repeated while it is being served gets the answer of the first; if several wait,
 * the latest one. Calls of an endpoint without a name (weft_rpc_set_peer_name()) are not kept,
 * because such callers cannot be told apart.
 */
int weft_rpc_drc_create(uint32_t entries, struct weft_rpc_drc **out);
/** Destroy a cache. No endpoint uses it any more, and the workers have stopped or are idle. */
void weft_rpc_drc_destroy(struct weft_rpc_drc *drc);

struct weft_rpc_drc_info {
	uint64_t max_replies; /**< as created, rounded up to full tables */
	uint64_t replies;     /**< replies in the cache now */
	uint64_t reply_bytes; /**< octets of XDR of these replies */
	uint64_t evicted;     /**< replies dropped for newer ones */
	uint64_t replayed;    /**< calls answered from the cache */
	uint64_t waited;      /**< calls repeated while the first was being served */
};

/**
 * Any thread. The numbers of two tables may be of different moments. Zeros if drc is not a cache.
 */
void weft_rpc_drc_info(const struct weft_rpc_drc *drc, struct weft_rpc_drc_info *info);

#define WEFT_RPC_NAME_MAX_BYTES 64
/**
 * Name the caller of this endpoint's calls: the same name after a reconnect. At most
 * WEFT_RPC_NAME_MAX_BYTES octets (-EINVAL). Called before the first call.
 */
int weft_rpc_set_peer_name(struct weft_rpc *rpc, const void *name, uint32_t name_bytes);
/**
 * Name the share of the duplicate request cache that the answers to this endpoint take. Several
 * names may have one share, for example names of hosts that one peer can impersonate. Called after
 * weft_rpc_set_peer_name(), which sets the share to the name. At most WEFT_RPC_NAME_MAX_BYTES
 * octets (-EINVAL).
 */
int weft_rpc_set_peer_share(struct weft_rpc *rpc, const void *share, uint32_t share_bytes);

/** Counters of the endpoint; NULL: no endpoint. */
const struct weft_rpc_stats *weft_rpc_stats(const struct weft_rpc *rpc);

WEFT_API_END

#endif /* WEFT_RPCRDMA_H */
