/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TIRPC_CLNT_H
#define TIRPC_CLNT_H

/**
 * @file The client's side of the TI-RPC interface. Each source calls those below: tirpc_clnt.c
 * (CLIENT), tirpc_clnt_worker.c (events and completions), tirpc_clnt_call.c (calls),
 * tirpc_clnt_conn.c (connections).
 *
 * A call is a structure on its caller's stack. The caller hands it to the worker, which owns it
 * until the call is reported as done. The worker alone accesses a client's connections and calls; a
 * lock protects only what callers may set (program, version, timeout). One connection takes new
 * calls; others may still be closing. Connections are named by a number that is never used again,
 * because late completions name a connection after its end, too.
 */

#include <sys/queue.h>

#include "tirpc_priv.h"

/* versions of RPC-over-RDMA */
#define TIRPC_RDMA_V1 1
#define TIRPC_RDMA_V2 2

struct clnt_conn;

struct clnt_call {
	TAILQ_ENTRY(clnt_call) next; /* in waiting */
	struct clnt *c;
	struct clnt_conn *n; /* its connection, while the endpoint has the call */
	struct tirpc_wait wait;
	uint32_t prog, vers, proc;
	xdrproc_t xargs, xres;
	void *args, *res;
	uint64_t deadline_ns, timeout_us;
	struct weft_alarm *alarm; /* armed while the call waits for a connection, or for room */
	uint32_t xid, resends;
	bool batched; /* the call is over when it is sent */
	bool gss;     /* the call is refused because of its credentials */
	enum clnt_stat stat;
	struct rpc_err err;
};

TAILQ_HEAD(clnt_calls, clnt_call);

struct clnt {
	CLIENT cl;
	struct weft_tirpc_attr a;
	struct weft_ctx *ctx;
	struct weft_worker *w;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct sockaddr_storage addr;
	socklen_t addr_len;
	/* the worker's members */
	struct clnt_conn *conn; /* the connection that takes calls; NULL: none */
	LIST_HEAD(, clnt_conn) conns;
	uintptr_t last_id; /* number of the last connection */
	struct clnt_calls waiting;
	unsigned int ncalls; /* calls that endpoints have */
	uint8_t max_vers;
	bool speaks_2; /* a message in version 2 came on some connection */
	bool going_on; /* inside tirpc_calls_go_on() */
	bool closing;
	struct tirpc_wait *closed;
	/* under lock */
	pthread_mutex_t lock;
	uint32_t prog, vers;
	uint32_t xid, last_xid; /* xid of the next call, if set; xid of the last one */
	struct timeval timeout;
	bool timeout_set;
	struct rpc_err err; /* error of the last call that failed */
	/* calls that have not returned; a call accesses the client last when it counts itself
	 * out */
	unsigned int inside;
	pthread_cond_t left; /* signalled when `inside` decreases */
};

struct clnt_conn {
	LIST_ENTRY(clnt_conn) entry; /* in conns */
	struct clnt *c;
	uintptr_t id; /* number in its completions and events */
	struct weft_qp *qp;
	struct weft_rpc *rpc;
	struct weft_alarm *alarm; /* armed while its end is awaited */
	uint8_t vers;             /* the version that it began with */
	bool ready;
	bool spent;     /* closed because no call can be sent any more: weft_rpc_stuck() */
	bool fell_back; /* it ended, and no connection had a message in version 2 */
};

/** Create queues and domain. -errno; the client frees what was created. */
int tirpc_clnt_make(struct clnt *c);
/** Connect. -errno. */
int tirpc_conn_make(struct clnt *c);
/** The connection that takes calls, or NULL. A connection that is lost, or on which no call can
 * be sent any more, is left. */
struct clnt_conn *tirpc_conn_ready(struct clnt *c);
/** The connection takes no more calls; it is freed when its end is reported, or a second later. */
void tirpc_conn_leave(struct clnt_conn *n);
/** The connection was lost: whether to try version 1 for its calls. */
bool tirpc_conn_falls_back(struct clnt_conn *n);
/** The connection with this number, or NULL. */
struct clnt_conn *tirpc_conn_find(struct clnt *c, const void *user);
void tirpc_conn_free(struct clnt_conn *n);
/** When the client is closing and nothing of it is left: signal c->closed. */
void tirpc_clnt_try_closed(struct clnt *c);
/** On the worker: issue the call now, or when there is a connection. */
void tirpc_call_start(void *arg);
/** End every call that waits for a connection or for room. */
void tirpc_calls_fail(struct clnt *c, enum clnt_stat stat, int err);
/** Issue the waiting calls, or make a connection. */
void tirpc_calls_go_on(struct clnt *c);
/** On the worker: end everything; c->closed is signalled then. */
void tirpc_clnt_close(void *arg);

#endif /* TIRPC_CLNT_H */
