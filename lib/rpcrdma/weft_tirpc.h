/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TIRPC_H
#define WEFT_TIRPC_H

/**
 * @file
 * TI-RPC over weft: CLIENT and SVCXPRT of libtirpc, so that programs and stubs made by rpcgen run unchanged once
 * the lines that create the handles are these. Installed; needs libtirpc's <rpc/rpc.h>.
 *
 * Threads. A worker must be polled, by its own thread (weft_worker_start()) or by the caller's: calls made on the
 * thread that polls the worker poll it until they are answered. Any number of threads may call through one
 * CLIENT at a time. svc_run() is one thread, as ever; XDR routines of arguments and results run on the caller's side
 * while it waits: those of a client's calls and of a server's results on the worker.
 *
 * Connections are made when they are needed. A client whose connection is lost reports RPC_CANTRECV for the calls
 * that were under way, and connects again for the next.
 */

#include <rpc/rpc.h>

#include "weft_rpcrdma.h"

#ifdef __cplusplus
extern "C" {
#endif

struct weft_tirpc_attr {
	size_t size;                    /**< sizeof(struct weft_tirpc_attr) */
	struct weft_worker *worker;     /**< client: [the context's first] */
	/** Bindings are taken from here, by program, version and procedure; NULL-terminated, or NULL: nothing is reduced. */
	const struct weft_rpc_program *const *programs;
	uint32_t inline_bytes;          /**< these as in struct weft_rpc_attr */
	uint32_t credits;
	uint8_t min_vers, max_vers;
	uint32_t max_message_bytes;
	uint32_t connect_timeout_us;    /**< client: [10 s] */
	uint32_t keepalive_us;          /**< [0: off] */
	/**
	 * Client: replies of version 1 may be so long when no binding says more, as it has no other way for them
	 * than memory that the call offers. [0: what fits inline]
	 */
	uint32_t reply_bytes;
	/**
	 * Client: a call whose connection is lost is sent again, with the same xid, on a new one, until its time is over;
	 * at most this often. [0: it is reported] For servers that keep what they answered (RFC 5531 s4).
	 */
	uint32_t resend;
	const struct weft_rpc_auth *auth; /**< host authentication; its conn_user is auth_user */
	void *auth_user;
};

/**
 * As clnt_create(3), and connected at return. NULL with rpc_createerr set: RPC_SYSTEMERROR (cf_error.re_errno),
 * RPC_TIMEDOUT. attr may be NULL. Destroy with clnt_destroy() before the worker. cl_auth is AUTH_NONE; set it as usual.
 */
CLIENT *weft_clnt_create(struct weft_ctx *ctx, const struct sockaddr *addr, socklen_t addr_len, rpcprog_t prog,
			 rpcvers_t vers, const struct weft_tirpc_attr *attr);

/**
 * As svc_tli_create(3): listen on all workers that have the address; connections appear as transports of their own
 * when svc_run() sees the listener's descriptor. Register programs with svc_reg(xprt, prog, vers, dispatch, NULL).
 * NULL with errno set. Destroy with svc_destroy() before the workers, on the thread of svc_run() or after it.
 */
SVCXPRT *weft_svc_create(struct weft_ctx *ctx, const struct sockaddr *addr, socklen_t addr_len,
			 const struct weft_tirpc_attr *attr);

#ifdef __cplusplus
}
#endif
#endif /* WEFT_TIRPC_H */
