/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TIRPC_H
#define WEFT_TIRPC_H

/**
 * @file TI-RPC over weft: the CLIENT and SVCXPRT of libtirpc. Programs and stubs of rpcgen run
 * unchanged, except for the lines that create the handles. Installed; needs libtirpc's <rpc/rpc.h>.
 *
 * Threads. The worker must be polled, by its own thread (weft_worker_start()) or by the caller's. A
 * call made on the thread that polls the worker polls it until the call is answered. Any number of
 * threads may call through one CLIENT at a time. svc_run() runs on one thread, as in libtirpc. The
 * XDR routines of a client's calls and of a server's results run on the worker; the calling thread
 * waits meanwhile.
 *
 * Timeouts. A timeout of zero is libtirpc's batching (RFC 5531 s8). The call is over when it is
 * sent: RPC_SUCCESS without an XDR routine for results, else RPC_TIMEDOUT. In version 1 of
 * RPC-over-RDMA only an answer returns the credit of a call, so there the call waits for the
 * answer, at most one second. A call that found no connection or no credit in its time (25 s; in
 * version 1 this second) was not sent: RPC_CANTSEND with ETIMEDOUT.
 *
 * Authentication. RPCSEC_GSS is not supported. A call with it is not sent and ends as RPC_AUTHERROR
 * (AUTH_REJECTEDCRED), and a server answers such a call likewise. Other flavors work as over TCP.
 *
 * Destruction is orderly: what was sent before clnt_destroy() or svc_destroy() arrives. A peer that
 * does not respond is reset after a second.
 *
 * - clnt_destroy() ends the calls of other threads (RPC_CANTRECV, or RPC_CANTSEND if the call was
 *   not sent), and returns when these threads have left the CLIENT. No call may begin after it was
 *   called. It must not be called inside a call, for example in an XDR routine. If the client's
 *   worker accepts no calls for about a second, clnt_destroy() returns, logs an error, and leaves
 *   its memory and its connections to the worker.
 * - svc_destroy() may be called in a dispatcher, after its answer.
 * - svc_exit() does not wake a svc_run() that sleeps in another thread, as in libtirpc. Call it in
 *   a dispatcher.
 *
 * Each connection of a server, and each CLIENT, has a protection domain of its own, so memory
 * registered for one peer is not accessible to another (RFC 5042 s5.2).
 *
 * Connections are made when they are needed. If a client's connection is lost, the calls under way
 * end with RPC_CANTRECV, and the next call connects again. In version 1 of RPC-over-RDMA the client
 * also connects again when as many calls as the server grants credits were sent and timed out
 * (weft_rpc_stuck()). Then the calls that were sent are not repeated, and the calls that wait
 * unsent are sent.
 *
 * A client tries version 1 by itself when the server refuses version 2, or ends the first
 * connection without any message in version 2 (draft s4.3.2). The second is not done with a server
 * that has used version 2 before, nor with `auth`, which only version 2 has: else any host that
 * can end the connection could remove the authentication. With weft_rpc_auth.required, which needs
 * version 2, a client never tries version 1.
 *
 * Calls beyond WEFT_RPC_MAX_CALLS wait for room, within their timeout.
 */

#include <rpc/rpc.h>

#include <weft/api.h>
#include <weft/rpcrdma.h>

WEFT_API_BEGIN

struct weft_tirpc_attr {
	size_t size;                /**< sizeof(struct weft_tirpc_attr) */
	struct weft_worker *worker; /**< client: [the first of the context] */
	/**
	 * Bindings by program, version and procedure; a list that ends with NULL. NULL: nothing
	 * travels in chunks by a binding. A client also takes weft_rpc_proc.once from here. A
	 * procedure without `once` is called again when the server reports that there was no room
	 * for its results (RDMA2_ERR_WRITE_RESOURCE, RDMA2_ERR_REPLY_RESOURCE), which it does after
	 * the procedure ran. A procedure that is not in the table is taken to have `once`.
	 */
	const struct weft_rpc_program *const *programs;
	uint32_t inline_bytes; /**< this and the following four as in struct weft_rpc_attr */
	uint32_t credits;
	uint8_t min_vers, max_vers;
	uint32_t max_message_bytes;
	uint32_t connect_timeout_us; /**< client: [10 s] */
	uint32_t keepalive_us;       /**< [0: off] */
	/**
	 * Client: longest reply in version 1 for a procedure whose binding does not say it. Version
	 * 1 can return a longer reply only in memory that the call offers. [0: what fits inline]
	 */
	uint32_t reply_bytes;
	/**
	 * Client: how often a call is sent again, with the same xid, after its connection was lost.
	 * The new connection is made at once, within the time of the call. If no connection can be
	 * made, or the call was sent that often, RPC_CANTRECV is reported. [0: reported at once]
	 * For servers that keep their answers (RFC 5531 s4).
	 */
	uint32_t resend;
	/**
	 * Host authentication. A client passes auth_user as conn_user for one connection after the
	 * other; each begins with an `in` of NULL. A server has two ways. With auth_open() and
	 * auth_close(): auth_open(auth_user, the peer's address) makes a conn_user for each
	 * connection before its first message, and NULL refuses the connection; auth_close()
	 * releases it when the connection is gone. Without both: all connections use auth_user,
	 * several at once, each on its worker's thread. auth_open() and auth_close() run there,
	 * too.
	 */
	const struct weft_rpc_auth *auth;
	void *auth_user;
	void *(*auth_open)(void *auth_user, const struct sockaddr_storage *peer);
	void (*auth_close)(void *auth_user, void *conn_user);
};

/**
 * As clnt_create(3). Connected when this returns. NULL with rpc_createerr set: RPC_SYSTEMERROR
 * (cf_error.re_errno), RPC_TIMEDOUT. attr may be NULL. cl_auth is AUTH_NONE; the program may set
 * another. The CLIENT is destroyed with clnt_destroy() before the worker.
 */
CLIENT *weft_clnt_create(struct weft_ctx *ctx, const struct sockaddr *addr, socklen_t addr_len,
                         rpcprog_t prog, rpcvers_t vers, const struct weft_tirpc_attr *attr);

/**
 * As svc_tli_create(3). Listens on all workers with this address. Connections appear as transports
 * of their own when svc_run() handles the listener's descriptor. Programs are registered with
 * svc_reg(xprt, prog, vers, dispatch, NULL). NULL with errno set. Destroyed with svc_destroy()
 * before the workers, on the thread of svc_run() or after it has returned.
 */
SVCXPRT *weft_svc_create(struct weft_ctx *ctx, const struct sockaddr *addr, socklen_t addr_len,
                         const struct weft_tirpc_attr *attr);

WEFT_API_END

#endif /* WEFT_TIRPC_H */
