/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_SERVER_H
#define WEFT_PERF_SERVER_H

/** @file What the sources of the serving side share. */

#include <pthread.h>
#include <stdatomic.h>

#include "export_proto.h"
#include "perf.h"
#include <weft/log_host.h>
#include <weft/rpcrdma.h>

/** Receives kept posted for send tests, more than one receive burst can carry. */
#define SERVER_RQ 4096
/** How long the server sleeps at most while it has no client: a sixteenth of the time without a
 * packet, up to this. A client's first packet waits as long. */
#define SERVER_IDLE_US   8000
#define SERVER_NAP_SHARE 16
/** Send bandwidth: messages received between two acknowledgements to the client. */
#define ACK_EVERY (SERVER_RQ / 4)

struct server {
	struct weft_ctx *ctx;
	struct weft_worker *w;
	struct weft_evq *evq;
	struct weft_cq *cq;
	struct weft_pd *pd;
	struct weft_qp *qp; /**< the client being served, or NULL */
	struct perf_hello hello;
	uint8_t *mem; /**< the region of the test */
	uint64_t mem_bytes;
	struct weft_mr *mr;
	struct weft_log_host *host; /**< log-append: hosts the log, in place of mr */
	struct weft_log_grant grant;
	const struct perf_medium *medium;
	struct weft_persist *persist; /**< the medium of mem, or NULL */
	uint64_t slots;
	uint8_t *out;     /**< source of what the server sends or writes */
	uint64_t pings;   /**< write latency: answered so far */
	uint32_t unacked; /**< send bandwidth: received since the last acknowledgement */
	bool gone;        /**< the client has left */
	bool closing;     /**< the last client's operations on the medium are still under way */
	unsigned int served;
	/* two-sided tests: server_app.c */
	struct perf_order *orders; /**< one for each receive */
	struct weft_cq *app_cq;    /**< the CQ on which the application's own thread sleeps */
	pthread_t app;
	bool app_runs;
	_Atomic uint32_t app_stop;
	/* tests by RPC: server_rpc.c */
	struct weft_rpc *rpc;
	unsigned int flushing; /**< durable WRITEs not answered yet */
};

/* ---- server_app.c: an application that works on messages ---- */

/** Create the application's receives and, with hello.app_thread, its thread. The QP exists. 0 or
 * -errno. */
int server_app_begin(struct server *s);
/** End the application; its thread has ended at the return. */
void server_app_end(struct server *s);
/** Carry out one received order and answer it. On the worker, or on the application's thread. */
void server_app_take(struct server *s, const struct weft_wc *wc);

/* ---- server_rpc.c: calls ---- */

/** Create the RPC endpoint on a QP that is not connected yet. */
int server_rpc_begin(struct server *s);
/** Free the endpoint, after the QP has ended. Not from a callback once calls were served. */
void server_rpc_end(struct server *s);

#endif /* WEFT_PERF_SERVER_H */
