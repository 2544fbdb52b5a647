/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TIRPC_H
#define WEFT_TIRPC_H

/**
 * @file TI-RPC over weft: CLIENT and SVCXPRT of libtirpc, so that programs and stubs made by rpcgen
 * run unchanged once the lines that create the handles are these. Installed; needs libtirpc's
 * <rpc/rpc.h>.
 *
 * Threads. A worker must be polled, by its own thread (weft_worker_start()) or by the caller's:
 * calls made on the thread that polls the worker poll it until they are answered. Any number of
 * threads may call through one CLIENT at a time. svc_run() is one thread, as ever; XDR routines of
 * arguments and results run on the caller's side while it waits: those of a client's calls and of a
 * server's results on the worker.
 *
 * A timeout of nothing is libtirpc's batching (RFC 5531 s8): the call is over when it was sent,
 * RPC_SUCCESS when there is no XDR routine for results, else RPC_TIMEDOUT. In version 1 of
 * RPC-over-RDMA, where only an answer gives a call's credit back, it waits for that, a second at
 * most. One that found no connection, or no credit, in its time (25 s; that second, in version 1)
 * was not sent: RPC_CANTSEND with ETIMEDOUT.
 *
 * RPCSEC_GSS is not offered: calls with it end as RPC_AUTHERROR (AUTH_REJECTEDCRED), unsent, and a
 * server answers so. Other flavors are what they are over TCP.
 *
 * Ends are in order: what was sent before clnt_destroy() or svc_destroy() arrives; a peer that does
 * not take part is cut off after a second. clnt_destroy() ends calls that are out in other threads
 * (RPC_CANTRECV, or RPC_CANTSEND when they were not sent) and returns when they have left the
 * CLIENT: no call may begin once it was called, and it must not be called in what runs inside a
 * call, as its XDR routines do. When the client's worker takes no calls for about a second,
 * clnt_destroy() returns, logs an error and leaves its memory and its connections to that worker.
 * svc_destroy() inside a dispatcher is allowed, after its answer. svc_exit() does not wake a
 * svc_run() that sleeps in another thread, as ever: call it in a dispatcher.
 *
 * Each connection that a server takes has a protection domain of its own, and so has each CLIENT:
 * what is registered for one peer is nothing to another (RFC 5042 s5.2).
 *
 * Connections are made when they are needed. A client whose connection is lost reports RPC_CANTRECV
 * for the calls that were under way, and connects again for the next. In version 1 of RPC-over-RDMA
 * it connects again, too, when every call that the server lets go was sent and timed out
 * (weft_rpc_stuck()): none of them is made again, those that waited, unsent, are. Version 1 is
 * tried of itself when the server refuses version 2, or ends the first connection without a word of
 * it (draft s4.3.2), that not with a server that was heard in version 2 before, and not with
 * `auth`, which only version 2 has: whoever can end a connection does not take it away. With
 * weft_rpc_auth.required, which needs version 2, never.
 *
 * Calls beyond WEFT_RPC_MAX_CALLS wait for room, within their time.
 */

#include <rpc/rpc.h>

#include <weft/api.h>
#include <weft/rpcrdma.h>

WEFT_API_BEGIN

struct weft_tirpc_attr {
	size_t size;                /**< sizeof(struct weft_tirpc_attr) */
	struct weft_worker *worker; /**< client: [the context's first] */
	/**
	 * Bindings are taken from here, by program, version and procedure; NULL-terminated, or
	 * NULL: nothing is reduced. Likewise weft_rpc_proc.once, by the client: a procedure without
	 * it is called once more when the server says that its results found no room
	 * (RDMA2_ERR_WRITE_RESOURCE, RDMA2_ERR_REPLY_RESOURCE), which it says after it ran. One
	 * that is not in the table is taken to have it.
	 */
	const struct weft_rpc_program *const *programs;
	uint32_t inline_bytes; /**< these as in struct weft_rpc_attr */
	uint32_t credits;
	uint8_t min_vers, max_vers;
	uint32_t max_message_bytes;
	uint32_t connect_timeout_us; /**< client: [10 s] */
	uint32_t keepalive_us;       /**< [0: off] */
	/**
	 * Client: replies of version 1 may be so long when no binding says more, as it has no other
	 * way for them than memory that the call offers. [0: what fits inline]
	 */
	uint32_t reply_bytes;
	/**
	 * Client: a call whose connection is lost is sent again, with the same xid, on a new one,
	 * which is made at once, until its time is over; at most this often. When none can be made
	 * it is reported. [0: it is reported] For servers that keep what they answered (RFC 5531
	 * s4).
	 */
	uint32_t resend;
	/**
	 * Host authentication. Its conn_user is auth_user: of a client for one connection after the
	 * other, each beginning with an in of NULL. Of a server auth_open(auth_user, the peer's
	 * address) makes one for each connection before its first message, NULL refuses the
	 * connection; auth_close() takes it back when the connection is gone. Both, or neither:
	 * then all connections have auth_user, several at once and each on its worker's thread, as
	 * these functions are.
	 */
	const struct weft_rpc_auth *auth;
	void *auth_user;
	void *(*auth_open)(void *auth_user, const struct sockaddr_storage *peer);
	void (*auth_close)(void *auth_user, void *conn_user);
};

/**
 * As clnt_create(3), and connected at return. NULL with rpc_createerr set: RPC_SYSTEMERROR
 * (cf_error.re_errno), RPC_TIMEDOUT. attr may be NULL. Destroy with clnt_destroy() before the
 * worker. cl_auth is AUTH_NONE; set it as usual.
 */
CLIENT *weft_clnt_create(struct weft_ctx *ctx, const struct sockaddr *addr, socklen_t addr_len,
                         rpcprog_t prog, rpcvers_t vers, const struct weft_tirpc_attr *attr);

/**
 * As svc_tli_create(3): listen on all workers that have the address; connections appear as
 * transports of their own when svc_run() sees the listener's descriptor. Register programs with
 * svc_reg(xprt, prog, vers, dispatch, NULL). NULL with errno set. Destroy with svc_destroy() before
 * the workers, on the thread of svc_run() or after it.
 */
SVCXPRT *weft_svc_create(struct weft_ctx *ctx, const struct sockaddr *addr, socklen_t addr_len,
                         const struct weft_tirpc_attr *attr);

WEFT_API_END

#endif /* WEFT_TIRPC_H */
