/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_RPCRDMA_H
#define WEFT_RPCRDMA_H

/**
 * @file
 * RPC-over-RDMA version 2 (draft-ietf-nfsv4-rpcrdma-version-two-07) on a QP: ONC RPC
 * (RFC 5531) calls and replies, inline, with the draft's headers and credits. Installed;
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
 * From inside a callback (weft_rpc_fn, weft_rpc_proc.serve) calls may be made, and the endpoint
 * may be destroyed: then destroy the QP first, in the same callback. What arrives for an endpoint
 * later is not to be handed to it.
 *
 * An XDR routine that decodes must bound its strings and arrays (rpcgen: string name<255>): libtirpc
 * allocates what a peer's count says before it looks at the data.
 */

#include <rpc/types.h>
#include <rpc/xdr.h>

#include "weft_verbs.h"

#ifdef __cplusplus
extern "C" {
#endif

struct weft_rpc;

/** Calls of one endpoint that are not answered yet. */
#define WEFT_RPC_MAX_CALLS 64

/** How a call ended for the transport. The RPC's own refusals are negative too, and distinct. */
enum weft_rpc_status {
	WEFT_RPC_OK = 0,
	WEFT_RPC_CONNLOST,      /**< the connection died first; whether it ran there is unknown */
	WEFT_RPC_TIMEDOUT,
	WEFT_RPC_TRANSPORT,     /**< the peer answered with an RDMA2_ERROR */
	WEFT_RPC_DENIED,        /**< MSG_DENIED: version of RPC, or authentication */
	WEFT_RPC_PROG_UNAVAIL,
	WEFT_RPC_PROG_MISMATCH,
	WEFT_RPC_PROC_UNAVAIL,
	WEFT_RPC_GARBAGE_ARGS,
	WEFT_RPC_SYSTEM_ERR,
	WEFT_RPC_BAD_REPLY,     /**< the reply could not be decoded */
};

const char *weft_rpc_status_str(enum weft_rpc_status s);

/** One procedure of a program. */
struct weft_rpc_proc {
	xdrproc_t xdr_args, xdr_res;
	size_t args_bytes, res_bytes; /**< sizes of the C structures, zero-filled before use */
	/**
	 * Serve it: args is decoded, fill res. Runs on the worker: never block. conn_user is weft_rpc_attr.user.
	 * Return WEFT_RPC_OK (res is encoded, then freed by xdr_free) or one of the refusals above.
	 */
	enum weft_rpc_status (*serve)(void *conn_user, void *args, void *res);
};

struct weft_rpc_program {
	uint32_t prog, vers;
	const struct weft_rpc_proc *procs; /**< by procedure number; a NULL serve is PROC_UNAVAIL; 0 (NULL procedure) is built in */
	unsigned int nprocs;
};

struct weft_rpc_attr {
	size_t size;                  /**< sizeof(struct weft_rpc_attr) */
	struct weft_qp *qp;           /**< IDLE: receives are posted at once, before connect or accept */
	uint32_t inline_bytes;        /**< [4096] largest message either way (draft s4.2.2); 1024 to 65536 */
	uint32_t credits;             /**< [8] messages we are prepared to receive; 2 to 1024 */
	const struct weft_rpc_program *const *programs; /**< served here, NULL-terminated; NULL: client only */
	void *user;
};

struct weft_rpc_stats {
	uint64_t calls_out, replies_in, calls_in, replies_out, grants_in, grants_out;
	uint64_t errors_in, errors_out;
	uint64_t short_dropped;       /**< shorter than the fixed header: dropped silently (draft s7) */
	uint64_t credit_stalls;       /**< calls that waited for credit */
	uint64_t bad_xid;             /**< replies to nothing */
	/* Messages refused for their header, by cause (draft s7); a reply ends its call, a call is answered. */
	uint64_t bad_version, bad_htype, bad_xdr, bad_property;
	uint64_t over_limit;          /**< more chunks or segments than this end takes */
	uint64_t discarded;           /**< errors with an unknown code: dropped silently (draft s7) */
	uint64_t unknown_props;       /**< transport properties that mean nothing here (no error) */
};

/**
 * -EINVAL, -ENOMEM, and weft_post_recv()'s errors (credits + 1 receives are posted). After an error
 * destroy the QP unconnected: some receives may be posted already.
 */
int weft_rpc_create(const struct weft_rpc_attr *attr, struct weft_rpc **out);
/** Calls outstanding end with CONNLOST. After the QP was destroyed, or before it ever connected. */
void weft_rpc_destroy(struct weft_rpc *rpc);
/** True: wc belonged to the endpoint and has been dealt with (replies delivered, calls served). */
bool weft_rpc_wc(struct weft_rpc *rpc, const struct weft_wc *wc);
/** The connection is gone: end calls outstanding with CONNLOST. */
void weft_rpc_disconnected(struct weft_rpc *rpc);

/** A reply, or the reason why there is none. res is decoded and freed (xdr_free) after return; NULL unless OK. */
typedef void (*weft_rpc_fn)(void *arg, enum weft_rpc_status status, void *res);

/**
 * Call. args are encoded before return. When it returns 0 one answer comes by fn, always (even
 * before the return, when posting finds the connection dead); else none. timeout_us 0: 30 s. Calls
 * wait for the peer's credit in order; what the peer cannot take after all ends as
 * WEFT_RPC_TRANSPORT.
 * -EMSGSIZE (does not fit inline), -EINVAL (args do not encode), -ENOTCONN, -EPROTONOSUPPORT (the
 * peer refused version 2), -EAGAIN (WEFT_RPC_MAX_CALLS are outstanding), -ENOMEM.
 */
int weft_rpc_call(struct weft_rpc *rpc, uint32_t prog, uint32_t vers, uint32_t proc, xdrproc_t xdr_args,
		  const void *args, xdrproc_t xdr_res, size_t res_bytes, uint64_t timeout_us,
		  weft_rpc_fn fn, void *arg);
const struct weft_rpc_stats *weft_rpc_stats(const struct weft_rpc *rpc);

#ifdef __cplusplus
}
#endif
#endif /* WEFT_RPCRDMA_H */
