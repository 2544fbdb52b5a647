/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_RPCRDMA_H
#define WEFT_RPCRDMA_H

/**
 * @file
 * RPC-over-RDMA on a QP: ONC RPC (RFC 5531) calls and replies, by version 2
 * (draft-ietf-nfsv4-rpcrdma-version-two-07) or version 1 (RFC 8166, RFC 8167). Installed;
 * needs libtirpc's <rpc/xdr.h> and nothing of DPDK.
 *
 * An endpoint shares its QP with whatever else the consumer posts there (one-sided work,
 * say). It posts its own receives and sends; the consumer hands every completion to
 * weft_rpc_wc() first, which says whether it was the endpoint's. All functions run on the
 * QP's worker.
 *
 * The consumer posts no Send and no receive of its own on the QP: the peer would take them for
 * messages. Its one-sided work is told from the endpoint's by wr_id: the endpoint's are addresses
 * inside the endpoint, so addresses of the consumer's own memory and small numbers never collide.
 *
 * What is long, or named by a binding (struct weft_rpc_binding), travels by chunks: the caller's
 * memory is registered for the time of the call, the server reads and writes it. The consumer sees
 * none of it: arguments and results are what their XDR routines make of them, however they came.
 *
 * From inside a callback (weft_rpc_fn, weft_rpc_proc.serve) calls may be made, and the endpoint
 * may be destroyed: then destroy the QP first, in the same callback. What arrives for an endpoint
 * later is not to be handed to it.
 *
 * Endpoints, requests and caches that are NULL, of another kind or destroyed (a request: answered)
 * are refused as weft/verbs.h says ("Misuse"), and attributes of another version are taken; on
 * which thread a call is made is not looked at. weft_rpc_destroy() and weft_rpc_drc_destroy() of
 * NULL do nothing, in silence.
 *
 * An XDR routine that decodes must bound its strings and arrays (rpcgen: string name<255>):
 * libtirpc allocates what a peer's count says before it looks at the data.
 */

#include <rpc/types.h>
#include <rpc/xdr.h>

#include <weft/api.h>
#include <weft/verbs.h>

WEFT_API_BEGIN

struct weft_rpc;
struct weft_rpc_req;

/** Calls of one endpoint that are not answered yet. */
#define WEFT_RPC_MAX_CALLS 64
/** Data items of one message that chunks may carry. */
#define WEFT_RPC_MAX_ITEMS 4

/** How a call ended: for the transport, or by a refusal of RPC's own (DENIED to SYSTEM_ERR). All
 * but OK are positive; -errno is only what functions return. */
enum weft_rpc_status {
	WEFT_RPC_OK = 0,
	WEFT_RPC_CONNLOST, /**< the connection died first; whether it ran there is unknown */
	WEFT_RPC_TIMEDOUT,
	WEFT_RPC_TRANSPORT, /**< the peer answered with an RDMA2_ERROR: weft_rpc_error_of() */
	WEFT_RPC_DENIED,    /**< MSG_DENIED: version of RPC, or authentication */
	WEFT_RPC_PROG_UNAVAIL,
	WEFT_RPC_PROG_MISMATCH,
	WEFT_RPC_PROC_UNAVAIL,
	WEFT_RPC_GARBAGE_ARGS,
	WEFT_RPC_SYSTEM_ERR,
	/** the reply could not be decoded, or has other items in chunks than it must (RFC 8166
	 * s6.1) */
	WEFT_RPC_BAD_REPLY,
	/** the reply is longer than the call made room for; it may have run there */
	WEFT_RPC_TOO_LONG,
	/** the peer takes neither messages nor segments enough for the call; it was not sent */
	WEFT_RPC_CALL_TOO_LONG,
};

const char *weft_rpc_status_str(enum weft_rpc_status s);

/* ---- Bindings: which items of a procedure chunks may carry (draft s4.4.2, appendix A) ---- */

/** What an item is, and so how it is found in the XDR. */
enum weft_rpc_item_kind {
	/** The octets of an opaque or a string, as xdr_opaque(), xdr_bytes() or xdr_string() are
	 * given them. */
	WEFT_RPC_OCTETS,
	/**
	 * All elements of a counted array, or optional data (s4.5.3.2, s4.5.3.3), as
	 * weft_rpc_xdr_array(), weft_rpc_xdr_pointer() or weft_rpc_xdr_reference() of
	 * weft/rpc_xdr.h are given them. What travels is their XDR; the count, or the flag that
	 * says whether there are any, stays in the message.
	 */
	WEFT_RPC_XDR,
};

/** An item in memory. */
struct weft_rpc_item {
	void *addr; /**< of the octets, of the first element, of the optional data */
	/** of WEFT_RPC_XDR: how many elements, 1 of optional data. 0: it is not there */
	uint32_t len_bytes;
	enum weft_rpc_item_kind kind;
};

/**
 * Where one result may be put by the server: a Write chunk. Those results that are there, and not
 * empty, take the chunks in turn (RFC 8166 s4.3.2.2): when an earlier one is missing, a result
 * comes in a chunk that was meant for it. Each chunk therefore has the length of the longest sink
 * from its own on; and of several sinks only the first has its memory used directly, while what
 * belongs into the others is copied.
 */
struct weft_rpc_sink {
	/** where the results' structure will have it, set before the call; NULL: memory of weft's.
	 * NULL for WEFT_RPC_XDR */
	void *addr;
	/** the most it can be, in XDR. 0: an empty chunk, so that the result of this turn comes
	 * inline (s4.3.2.3) */
	uint32_t max_bytes;
	/**
	 * Which one it is: so many opaques and strings, arrays that are not empty and optional data
	 * that is there (these as of weft/rpc_xdr.h, and nothing inside of them) stand before it in
	 * the XDR of the results. Of an opaque that is empty XDR tells nothing; sinks() may leave
	 * out those that it knows to be, and others are allowed for where it is certain which one
	 * is meant: when this result is longer than what is left of the message. Where it may be
	 * shorter, and an opaque before it empty, weft_rpc_binding.placed is needed (it is
	 * WEFT_RPC_BAD_REPLY else). Not looked at with placed.
	 */
	uint32_t nth;
};

/**
 * An upper-layer binding of one procedure. Each function fills an array of WEFT_RPC_MAX_ITEMS, in
 * the order in which XDR has the items, and returns how many there are. Any may be NULL: none.
 */
struct weft_rpc_binding {
	/** The eligible arguments. The caller moves these; the server, which asks of what it has
	 * decoded, takes no others (GARBAGE_ARGS). */
	unsigned int (*args)(const void *args, struct weft_rpc_item *items);
	/** Caller: room for the eligible results. */
	unsigned int (*sinks)(const void *args, struct weft_rpc_sink *sinks);
	/** Caller: the longest RPC reply, eligible results not counted; above what fits inline a
	 * Reply chunk is offered. */
	uint32_t (*reply_bytes)(const void *args);
	/** Server: the eligible results. */
	unsigned int (*results)(const void *res, struct weft_rpc_item *items);
	/**
	 * Caller: as results(), of results of which only a part is decoded yet, and the rest is
	 * zero; it may be called for each item. Where a number cannot say which results are
	 * eligible, because a union or optional data stands before them. NULL: weft_rpc_sink.nth
	 * says it.
	 */
	unsigned int (*placed)(const void *res, struct weft_rpc_item *items);
	/** There is no reply (RFC 5531 s8): no chunks are used (s4.7), the call ends when it was
	 * sent. */
	bool call_only;
};

/* ---- Programs ---- */

/** Memory that an argument is read into: of a region of the endpoint's domain, with local write. */
struct weft_rpc_place {
	void *addr;
	uint32_t stag;
};

/** One procedure of a program. */
struct weft_rpc_proc {
	xdrproc_t xdr_args, xdr_res;
	size_t args_bytes, res_bytes; /**< sizes of the C structures, zero-filled before use */
	/**
	 * Serve it: args is decoded, fill res. Runs on the worker: never block. conn_user is
	 * weft_rpc_attr.user. Return WEFT_RPC_OK (res is encoded, then freed by xdr_free) or one of
	 * the refusals above.
	 */
	enum weft_rpc_status (*serve)(void *conn_user, void *args, void *res);
	/**
	 * Instead of serve, for what takes longer: req, args and res are good until
	 * weft_rpc_done(), which must follow, on the worker, inside this or later; also when the
	 * connection is gone meanwhile.
	 */
	void (*serve_later)(void *conn_user, struct weft_rpc_req *req, void *args, void *res);
	const struct weft_rpc_binding *binding; /**< or NULL */
	/** Doing it twice does harm: a call that comes again is answered from weft_rpc_attr.drc.
	 * Of callers weft/tirpc.h has it from here; others say it with the call. */
	bool once;
	/**
	 * Or NULL. Asked before an argument that a Read chunk brings is fetched, when it is the
	 * only one: args stands at the arguments and ends where the octets of this one would begin,
	 * len_bytes is what the caller says of its length. True: they are read straight to *out;
	 * serve is given that address, if xdr_args takes them by weft_rpc_xdr_lend(). False: memory
	 * of weft's, as ever. Neither call nor destroy here.
	 *
	 * This is no more than an RDMA Write of the peer's below the same rights: what is asked for
	 * here may be read in part or whole without serve ever running. It ends with the region's
	 * registration, and takes the connection with it then. Of a procedure with `once` it is not
	 * asked for a call that may have been served before.
	 */
	bool (*place)(void *conn_user, XDR *args, uint32_t len_bytes, struct weft_rpc_place *out);
};

/**
 * In an XDR routine of arguments, decoding, behind the count of an opaque that is not empty: its
 * octets, where they lie, good until the answer; roundup is passed, too. Instead of xdr_opaque()
 * into memory of one's own, and whatever the routine's XDR_FREE would free. NULL: the message has
 * no such opaque here. Of other streams: NULL.
 */
void *weft_rpc_xdr_lend(XDR *xdr, uint32_t len_bytes);

struct weft_rpc_program {
	uint32_t prog, vers;
	/** by procedure number; without serve and serve_later PROC_UNAVAIL; 0 (NULL procedure) is
	 * built in */
	const struct weft_rpc_proc *procs;
	unsigned int nprocs;
};

/** Answer, once: later ones are not heard. status as serve returns it. args and res are freed,
 * args first: res has nothing of theirs. When the endpoint is gone nothing is sent. */
void weft_rpc_done(struct weft_rpc_req *req, enum weft_rpc_status status);

/* ---- Endpoints ---- */

/** What we serve in the other direction than the connection was made (draft s5.2.5, RFC 8167). */
enum weft_rpc_reverse {
	WEFT_RPC_REVERSE_AUTO, /**< GENERAL when there are programs, else NONE */
	WEFT_RPC_REVERSE_NONE,
	WEFT_RPC_REVERSE_SIMPLE, /**< one message each, no chunks */
	WEFT_RPC_REVERSE_CONT,   /**< continued, too */
	WEFT_RPC_REVERSE_GENERAL,
};

struct weft_rpc_auth;
struct weft_rpc_drc;

struct weft_rpc_budget;

struct weft_rpc_attr {
	size_t size; /**< sizeof(struct weft_rpc_attr) */
	/** IDLE: receives are posted at once, before connect or accept */
	struct weft_qp *qp;
	/** [4096] largest message either way (draft s4.2.2); 1024 to 65536, a multiple of 4 */
	uint32_t inline_bytes;
	uint32_t credits; /**< [8] messages we are prepared to receive; 2 to 1024 */
	/** served here, NULL-terminated; NULL: client only */
	const struct weft_rpc_program *const *programs;
	void *user;
	bool server; /**< the side that accepted the connection */
	/** [1, 2] versions of RPC-over-RDMA; a client begins with max_vers */
	uint8_t min_vers, max_vers;
	enum weft_rpc_reverse reverse; /**< client: what of it we serve */
	/** [1 MiB + 64 KiB] of one RPC message, however it comes; at most 1 GiB */
	uint32_t max_message_bytes;
	/** [16] of one message, in all its chunks together, that we take, but for our own in a
	 * reply; at most 64 */
	uint32_t max_segments;
	uint32_t max_segment_bytes; /**< [1 MiB] of one segment that we offer; a multiple of 4 */
	bool no_invalidate;         /**< do not ask the peer to invalidate by its Send */
	/** host authentication; NULL: none is asked for. With max_vers 1 none can be required
	 * (-EINVAL) */
	const struct weft_rpc_auth *auth;
	/** of procedures with `once`; may serve many endpoints, of any workers */
	struct weft_rpc_drc *drc;
	/** of calls and their answers: the QP's worker's (weft/rpc_budget.h); NULL: no total over
	 * endpoints */
	struct weft_rpc_budget *budget;
};

struct weft_rpc_stats {
	uint64_t calls_out, replies_in, calls_in, replies_out, grants_in, grants_out;
	uint64_t errors_in, errors_out;
	/** shorter than the fixed header: dropped silently (draft s7) */
	uint64_t short_dropped;
	uint64_t credit_stalls; /**< calls that waited for credit */
	/** connections closed, for no credit came for 10 to 20 s while answers waited for it (draft
	 * s7.4) */
	uint64_t starved;
	uint64_t bad_xid; /**< replies to nothing */
	/* Messages refused for their header, by cause (draft s7); a reply ends its call, a call
	 * is answered. */
	uint64_t bad_version, bad_htype, bad_xdr, bad_property;
	uint64_t over_limit; /**< more chunks, segments or octets than this end takes */
	uint64_t bad_cont;   /**< parts that do not fit together */
	/** errors with an unknown code: dropped silently (draft s7) */
	uint64_t discarded;
	uint64_t unknown_props; /**< transport properties that mean nothing here (no error) */
	/* how messages travelled, both ways together */
	uint64_t simple, continued, special;
	uint64_t read_chunks, write_chunks; /**< that we used as a server */
	uint64_t read_bytes, write_bytes;   /**< by them */
	uint64_t invalidated;               /**< Sends with Invalidate that came */
	/** calls sent again with other resources after an RDMA2_ERROR */
	uint64_t retries;
	uint64_t replayed; /**< answered from the duplicate request cache */
	/** that waited there for the answer to the same call, served elsewhere */
	uint64_t waited;
	/** times that a call waited for room in the budget: to be read, served or answered */
	uint64_t no_room;
	uint64_t auth_refused;
	/** connections closed, for a message was begun, or offered to be read, and not here whole
	 * after 30 to 60 s */
	uint64_t unfinished;
};

/**
 * -EINVAL, -ENOMEM, and weft_post_recv()'s errors (credits + 1 receives are posted). After an error
 * destroy the QP unconnected: some receives may be posted already.
 */
int weft_rpc_create(const struct weft_rpc_attr *attr, struct weft_rpc **out);
/**
 * Calls outstanding end with CONNLOST, before this returns; the endpoint is a handle until the last
 * of them has been told, so what they ask of it is answered, and destroying it once more has no
 * effect. After the QP was destroyed, or before it ever connected. NULL: nothing.
 */
void weft_rpc_destroy(struct weft_rpc *rpc);
/** True: wc belonged to the endpoint and has been dealt with (replies delivered, calls served). */
bool weft_rpc_wc(struct weft_rpc *rpc, const struct weft_wc *wc);
/**
 * The peer, a client of version 1, takes calls in the other direction: the upper layer has been
 * told so, as that version has no way to say it (RFC 8167 s6). Before, our calls to it end as
 * WEFT_RPC_TRANSPORT. In version 2 its properties tell.
 */
void weft_rpc_peer_serves(struct weft_rpc *rpc);
/** The connection is gone: end calls outstanding with CONNLOST. */
void weft_rpc_disconnected(struct weft_rpc *rpc);

/** The version in use: 1, 2, or 0 while it is not settled. When its first connection ends before
 * that a client may take 1 next (draft s4.3.2), if it has no authentication to lose. */
unsigned int weft_rpc_version(const struct weft_rpc *rpc);

/**
 * No call goes any more: each that the peer lets go was sent and timed out, and none of them has
 * been answered since. In version 1 a call has its credit until its answer comes, be it late (RFC
 * 8166 s3.3.1); should none come, calls end as WEFT_RPC_TIMEDOUT for ever, and only another
 * connection helps. Look when a call timed out, or before one is made; then weft_disconnect(), upon
 * which those that wait for credit, unsent, end with WEFT_RPC_CONNLOST. A late answer makes it
 * false again. Never true in version 2, whose credits are receives, which a call without an answer
 * does not keep.
 */
bool weft_rpc_stuck(const struct weft_rpc *rpc);
/** Whether its connection is gone, as far as the endpoint was told: no call goes any more. True of
 * what is no live endpoint. */
bool weft_rpc_is_down(const struct weft_rpc *rpc);

/** A reply, or the reason why there is none. res is decoded and freed (xdr_free) after return;
 * NULL unless OK. */
typedef void (*weft_rpc_fn)(void *arg, enum weft_rpc_status status, void *res);

/**
 * Call. args are encoded before return, and no more looked at then. When it returns 0 one answer
 * comes by fn, always (even before the return, when posting finds the connection dead); else none.
 * timeout_us 0: 30 s. Calls wait for the peer's credit in order; what the peer cannot take after
 * all ends as WEFT_RPC_TRANSPORT. Nothing is reduced; a long call is continued or read by the
 * server, a long reply continued (version 1: refused, WEFT_RPC_TOO_LONG). -EMSGSIZE (longer than
 * max_message_bytes), -EINVAL (args do not encode, no fn, no endpoint), -ENOTCONN, -EPROTONOSUPPORT
 * (the peer refused every version), -EAGAIN (WEFT_RPC_MAX_CALLS are outstanding), -ENOMEM.
 */
int weft_rpc_call(struct weft_rpc *rpc, uint32_t prog, uint32_t vers, uint32_t proc,
                  xdrproc_t xdr_args, const void *args, xdrproc_t xdr_res, size_t res_bytes,
                  uint64_t timeout_us, weft_rpc_fn fn, void *arg);

/** A call with all there is to say about it. */
struct weft_rpc_call_attr {
	size_t size; /**< sizeof(struct weft_rpc_call_attr) */
	uint32_t prog, vers, proc;
	xdrproc_t xdr_args;
	/** With a binding: good until fn, what it points to included, as its functions may be
	 * called until then. Else: until return. */
	const void *args;
	xdrproc_t xdr_res;
	size_t res_bytes;
	/** What res begins as when it is decoded, copied at the call: addresses of sinks, say;
	 * NULL: zero. */
	const void *res_init;
	const struct weft_rpc_binding *binding; /**< or NULL */
	uint64_t timeout_us;                    /**< [30 s] */
	weft_rpc_fn fn;
	void *arg;
	/**
	 * NULL, or the whole RPC message instead of what prog to args make: written by encode (xid
	 * first), the reply read by decode, which says what fn is told; res is NULL then. Both may
	 * run until fn.
	 */
	bool (*encode)(void *arg, XDR *xdr, uint32_t xid);
	enum weft_rpc_status (*decode)(void *arg, XDR *xdr);
	/** [0: a fresh one] of a call that is made again after its connection was lost */
	uint32_t xid;
	/** doing it twice does harm: an error that comes after it ran ends it */
	bool once;
};

/** Inside decode: the results begin here, and with them the count of weft_rpc_sink.nth; res, for
 * weft_rpc_binding.placed, is what they are decoded into. */
void weft_rpc_xdr_results(XDR *xdr, const void *res);

/** As weft_rpc_call(). Sinks with an address are memory of the caller's until fn. */
int weft_rpc_call_with(struct weft_rpc *rpc, const struct weft_rpc_call_attr *attr);
/** Inside fn with WEFT_RPC_TRANSPORT: the RDMA2_ERR_* that came (version 1's are mapped); 0: none.
 */
uint32_t weft_rpc_error_of(const struct weft_rpc *rpc);
/** Inside fn: whether nothing of the call was sent (or of its last try, where it was tried again),
 * so that it was not carried out. */
bool weft_rpc_unsent(const struct weft_rpc *rpc);

/* ---- Calls served as whole messages, for a face that has its own dispatcher ---- */

/** Called on the worker for each call of RPC version 2 (RFC 5531); xdr stands at the xid and is
 * good until weft_rpc_raw_reply(). */
typedef void (*weft_rpc_raw_fn)(void *conn_user, struct weft_rpc_req *req, XDR *xdr);

/** Before the first message: calls go to fn and not to programs. */
void weft_rpc_set_raw(struct weft_rpc *rpc, weft_rpc_raw_fn fn);
/** Answer: the message by encode (xid first), its eligible results by address (they are copied).
 * encode NULL: there is none. req is gone at return. */
void weft_rpc_raw_reply(struct weft_rpc_req *req, bool (*encode)(void *arg, XDR *xdr), void *arg,
                        const struct weft_rpc_item *items, unsigned int nitems);

/**
 * Of arguments that were decoded from the xdr of a weft_rpc_raw_fn: whether each item that came by
 * a chunk is one that the binding (or NULL) names (RFC 8166 s6.1).
 */
bool weft_rpc_raw_args_ok(const XDR *xdr, const struct weft_rpc_binding *binding, const void *args);
/** xdr_void(3) with the prototype of an xdrproc_t. */
bool_t weft_rpc_xdr_void(XDR *xdr, ...);

/** Answer that its RPC header could not be decoded: an RDMA2_ERR_BAD_XDR, of version 1 ERR_CHUNK.
 * req is gone at return. */
void weft_rpc_raw_refuse(struct weft_rpc_req *req);

/* ---- Host authentication (draft s5.2.6, s11.4) ---- */

#define WEFT_RPC_AUTH_MAX_BYTES 512

/**
 * Messages in turns before the first call, the client's first. in is NULL for the client's first.
 * Fill out and *out_bytes (room WEFT_RPC_AUTH_MAX_BYTES; 0: nothing to say). 1: the peer is who it
 * says; 0: go on; negative: refuse, and the connection is closed. Runs on the worker, never blocks.
 */
struct weft_rpc_auth {
	int (*step)(void *conn_user, const uint8_t *in, uint32_t in_bytes, uint8_t *out,
	            uint32_t *out_bytes);
	/** Nothing is called or served before step() returned 1, in either direction; so nothing
	 * by version 1, which has no such messages. */
	bool required;
};

/* ---- Duplicate requests ---- */

/**
 * Replies of the last `entries` calls of procedures with `once`, by caller (name), xid, procedure,
 * and length and a keyed sum of the whole call without chunks: one that comes again is known also
 * when other chunks carry it than before, or none. When `entries` are kept, the oldest reply goes
 * of the caller that has the most (weft_rpc_set_peer_share()): of n callers each keeps its latest
 * `entries` / n whatever the others call. Callers that have shown who they are (step() of
 * weft_rpc_auth returned 1) and others are two parts: one of the others' goes while these keep more
 * than a quarter of the entries together, else one of the former. For the endpoints of all workers,
 * as a client that connects again may come to another one: when there are many entries they are in
 * 16 tables by caller and xid, to which all this applies one by one, and such calls take the
 * table's lock. A call that comes again while the first is being served gets that one's answer; of
 * several that wait the latest. Calls of an endpoint that was given no name
 * (weft_rpc_set_peer_name()) are not kept, as nothing tells such callers apart. -EINVAL, -ENOMEM.
 */
int weft_rpc_drc_create(uint32_t entries, struct weft_rpc_drc **out);
/** No endpoint uses it any more, and the workers have stopped or are idle. */
void weft_rpc_drc_destroy(struct weft_rpc_drc *drc);

struct weft_rpc_drc_info {
	uint64_t max_replies; /**< as created, rounded up to whole tables */
	uint64_t replies;     /**< kept now */
	uint64_t reply_bytes; /**< XDR of these */
	uint64_t evicted;     /**< replies that gave way to newer ones */
	uint64_t replayed;    /**< calls answered from it */
	uint64_t waited;      /**< calls that came again while the first was being served */
};

/** Any thread; the numbers of two tables may be of different moments. Zeros of what is no cache. */
void weft_rpc_drc_info(const struct weft_rpc_drc *drc, struct weft_rpc_drc_info *info);

#define WEFT_RPC_NAME_MAX_BYTES 64
/** Whose calls those of this endpoint are: the same name after a reconnect. At most 64 octets
 * (-EINVAL). Before the first call. */
int weft_rpc_set_peer_name(struct weft_rpc *rpc, const void *name, uint32_t name_bytes);
/**
 * Whose share of the duplicate request cache the answers to this endpoint take: several names may
 * have one share, as those of hosts that one peer can pretend to be. Behind
 * weft_rpc_set_peer_name(), which sets it to the name. At most 64 octets (-EINVAL).
 */
int weft_rpc_set_peer_share(struct weft_rpc *rpc, const void *share, uint32_t share_bytes);

/** NULL: no endpoint. */
const struct weft_rpc_stats *weft_rpc_stats(const struct weft_rpc *rpc);

WEFT_API_END

#endif /* WEFT_RPCRDMA_H */
