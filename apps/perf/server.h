/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_SERVER_H
#define WEFT_PERF_SERVER_H

/** @file The serving side, as its files share it. */

#include <pthread.h>

#include "export_proto.h"
#include "perf.h"
#include <weft/log_host.h>
#include <weft/rpcrdma.h>

/** Receives kept posted for send tests: more than one receive burst can carry. */
#define SERVER_RQ 4096
/** For send bandwidth the client is told after this many messages. */
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
	struct weft_log_host *host; /**< of log-append: in the place of mr */
	struct weft_log_grant grant;
	const struct perf_medium *medium;
	struct weft_persist *persist; /**< where mem is, or NULL */
	uint64_t slots;
	uint8_t *out;     /**< what is sent or written back */
	uint64_t pings;   /**< write latency: answered so far */
	uint32_t unacked; /**< send bandwidth: received since the last acknowledgement */
	bool gone;        /**< the client has left */
	bool closing;     /**< what its last client asked of the medium is still under way */
	unsigned int served;
	/* two-sided tests: server_app.c */
	struct perf_order *orders; /**< a receive each */
	struct weft_cq *app_cq;    /**< what its own thread sleeps on */
	pthread_t app;
	bool app_runs;
	uint32_t app_stop; /**< atomic */
	/* tests by RPC: server_rpc.c */
	struct weft_rpc *rpc;
	unsigned int flushing; /**< durable WRITEs not answered yet */
};

/* ---- server_app.c: what an application does that is asked by messages ---- */

/** Make its receives; with hello.app_thread begin its thread. The QP is there. 0 or -errno. */
int server_app_begin(struct server *s);
/** The thread has ended when this returns. */
void server_app_end(struct server *s);
/** One order has come: carry it out and answer. On the worker, or on the application's thread. */
void server_app_take(struct server *s, const struct weft_wc *wc);

/* ---- server_rpc.c: calls ---- */

/** The QP is there, and not connected. */
int server_rpc_begin(struct server *s);
/** The QP has gone; not from a callback once calls were served. */
void server_rpc_end(struct server *s);

#endif /* WEFT_PERF_SERVER_H */
