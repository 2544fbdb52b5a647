/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TIRPC_SVC_H
#define TIRPC_SVC_H

/**
 * @file The server's side of the TI-RPC interface: tirpc_svc.c has the transports, on the thread of
 * svc_run(); tirpc_svc_conn.c the connections on their workers, and the end of both.
 *
 * A connection has a protection domain of its own, so no client can access what is registered for
 * another (RFC 5042 s5.2, s6.4). A connection is freed when its transport is destroyed, its worker
 * has ended it, and the late completions that name it have passed. The listener is freed when all
 * its connections are, and no callback can name it.
 */

#include <sys/queue.h>

#include "tirpc_priv.h"

struct svc_conn;

struct svc_call {
	STAILQ_ENTRY(svc_call) next;
	struct weft_rpc_req *req;
	XDR *xdr;
};

STAILQ_HEAD(svc_calls, svc_call);
STAILQ_HEAD(svc_conns, svc_conn);

struct svc_listener {
	SVCXPRT xprt;
	SVCXPRT_EXT ext;
	struct weft_tirpc_attr a;
	struct weft_rpc_auth auth;     /* a.auth with a step that finds its user */
	const struct xp_ops *conn_ops; /* operations of a connection's transport */
	struct weft_ctx *ctx;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_listener *lsn;
	struct sockaddr_storage addr;
	/* svc_run()'s thread: connections destroyed inside their dispatchers */
	LIST_HEAD(, svc_conn) zombies;
	unsigned int hop; /* workers that have run since cq and evq were destroyed */
	pthread_mutex_t lock;
	/* under lock */
	struct svc_conns fresh; /* connections that svc_run() does not know yet */
	struct svc_conns stuck; /* ended connections without memory for the alarm that frees them */
	/* connections that are not freed, and the listener's own transport */
	unsigned int conns;
	unsigned int live; /* of these, those with a transport that svc_run() knows */
	bool gone;         /* svc_destroy() was called */
	bool awaited;      /* svc_destroy() waits, and frees the listener */
	bool over;         /* no callback can name it any more */
};

struct svc_conn {
	STAILQ_ENTRY(svc_conn) next; /* in fresh or stuck */
	LIST_ENTRY(svc_conn) zombie; /* in zombies */
	SVCXPRT xprt;
	SVCXPRT_EXT ext;
	struct svc_listener *l;
	struct weft_worker *w;
	struct sockaddr_storage remote;
	/* the worker's members */
	struct weft_pd *pd;
	struct weft_qp *qp;
	struct weft_rpc *rpc;
	struct weft_alarm *alarm;
	void *auth_user; /* user of its authentication; NULL: none, or gone */
	uint32_t rest_us;
	bool closing; /* its transport is gone */
	pthread_mutex_t lock;
	struct svc_calls calls; /* under lock */
	bool dead;              /* under lock: no more calls will come */
	/* under lock: references of the worker, and of the transport while there is one */
	unsigned int refs;
	/* svc_run()'s thread */
	struct svc_call *cur;
	bool dispatching; /* its dispatcher may be running */
	bool destroyed;   /* destroyed by its dispatcher; libtirpc accesses it once more */
	uint32_t xid, prog, vers, proc;
};

void tirpc_svc_wake(int fd);

/** The worker ends the connection in order; the transport stays. Any thread. */
void tirpc_svc_conn_end(struct svc_conn *n);
/** The transport drops its reference; the worker ends the connection in order. Any thread. */
void tirpc_svc_conn_leave(struct svc_conn *n);
/** The first connection that svc_run() does not know, or NULL. */
struct svc_conn *tirpc_svc_fresh(struct svc_listener *l);

/** Listen. -errno; what was made is freed by tirpc_svc_listener_end(). */
int tirpc_svc_listen(struct svc_listener *l, const struct sockaddr *addr, socklen_t addr_len);
/** The listener's own transport is gone: wait a little for connections that are ending. l is not
 * valid after the return. */
void tirpc_svc_listener_end(struct svc_listener *l);

#endif /* TIRPC_SVC_H */
