/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TIRPC_CLNT_H
#define TIRPC_CLNT_H

/**
 * @file The client's side of the TI-RPC face: tirpc_clnt.c has CLIENT and its calls,
 * tirpc_clnt_conn.c the connections.
 *
 * A call is a structure on its caller's stack, handed to the worker, which owns it until it is told
 * to be done. All of a client's connections and calls are touched on the worker alone; only what
 * callers may set (program, version, timeout) is under a lock. One connection takes calls; others
 * may still be on their way out. They are named by a number that never comes again, because late
 * completions name them, too, when they are gone.
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
	struct clnt_conn *n; /* while its endpoint has it */
	struct tirpc_wait wait;
	uint32_t prog, vers, proc;
	xdrproc_t xargs, xres;
	void *args, *res;
	uint64_t deadline_ns, timeout_us;
	struct weft_alarm *alarm; /* while waiting for a connection, or for room */
	uint32_t xid, resends;
	bool batched; /* over when it was sent */
	bool gss;     /* refused for its credentials */
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
	/* the worker's */
	struct clnt_conn *conn; /* that takes calls; NULL: none */
	LIST_HEAD(, clnt_conn) conns;
	uintptr_t last_id; /* of a connection */
	struct clnt_calls waiting;
	unsigned int ncalls; /* in endpoints */
	uint8_t max_vers;
	bool speaks_2; /* a connection was heard of in version 2 */
	bool going_on; /* inside tirpc_calls_go_on() */
	bool closing;
	struct tirpc_wait *closed;
	/* under lock */
	pthread_mutex_t lock;
	uint32_t prog, vers;
	uint32_t xid, last_xid; /* of the next call, if set; of the last one */
	struct timeval timeout;
	bool timeout_set;
	struct rpc_err err; /* of the last call that failed */
	/* calls that have not returned: the last thing that they touch is this */
	unsigned int inside;
	pthread_cond_t left; /* one less */
};

struct clnt_conn {
	LIST_ENTRY(clnt_conn) entry; /* in conns */
	struct clnt *c;
	uintptr_t id; /* of its completions and events */
	struct weft_qp *qp;
	struct weft_rpc *rpc;
	struct weft_alarm *alarm; /* its end is awaited */
	uint8_t vers;             /* it began with */
	bool ready;
	bool spent;     /* left because no call went any more: weft_rpc_stuck() */
	bool fell_back; /* it ended, and nobody ever had answered in version 2 */
};

/** Queues and domain. -errno; the client frees what was made. */
int tirpc_clnt_make(struct clnt *c);
/** Connect. -errno. */
int tirpc_conn_make(struct clnt *c);
/** The connection that takes calls, if there is one; one that was lost, or on which no call goes
 * any more, is left. */
struct clnt_conn *tirpc_conn_ready(struct clnt *c);
/** It takes no more calls; freed when its end is heard of, or a second later. */
void tirpc_conn_leave(struct clnt_conn *n);
/** It was lost: whether version 1 shall be tried for its calls. */
bool tirpc_conn_falls_back(struct clnt_conn *n);
/** Put a call, or put it again, to the connection that is ready. */
void tirpc_call_issue(struct clnt_call *k);
/** End every call that waits for a connection or for room. */
void tirpc_calls_fail(struct clnt *c, enum clnt_stat stat, int err);
/** Issue them, or see to it that there is a connection. */
void tirpc_calls_go_on(struct clnt *c);
/** On the worker: end everything; c->closed is told. */
void tirpc_clnt_close(void *arg);

#endif /* TIRPC_CLNT_H */
