/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_CLIENT_H
#define WEFT_PERF_CLIENT_H

/** @file The measuring side, as its files share it. */

#include "log_client.h"
#include "perf.h"
#include <weft/rpcrdma.h>

struct client;

struct client_host {
	struct client *c;
	struct log_client *client;
};

struct client {
	struct weft_worker *w;
	struct weft_evq *evq;
	struct weft_cq *cq;
	struct weft_pd *pd;
	struct weft_qp *qp;
	struct perf_job job;
	struct perf_welcome server;
	uint8_t *mem;
	struct weft_mr *mr;
	uint32_t lkey;
	bool up, dead;
	int err;                    /**< why it is dead */
	char term[128];             /**< what the Terminate said */
	uint64_t posted, completed; /**< signaled work requests */
	uint64_t acked;             /**< send bandwidth: messages the server has taken */
	uint64_t received;          /**< send latency: echoes */
	uint32_t signal_every;
	/* tests that flush or verify */
	uint64_t slots;       /**< of data, here and at the server */
	uint8_t *back;        /**< where what comes back goes, behind the slots */
	uint32_t flush_flags; /**< as far as the server's medium can */
	bool bad;             /**< two-sided: the server's application found other data */
	struct weft_log *log; /**< of log-append */
	bool log_joined;      /**< qp is the log's */
	bool log_open;
	struct weft_log_at log_at, log_trimmed; /**< the last durable record; what was kept last */
	uint64_t log_ring_bytes;
	struct log_hub hub; /**< at weft-targets */
	struct client_host host[WEFT_LOG_MAX_TARGETS];
	/* tests by RPC */
	struct weft_rpc *rpc;
	struct client_rpc *calls;
};

/** A job that makes no progress for so long has failed. */
#define STALL_S 10
/** wr_id of the Read behind the last work request. */
#define BARRIER_ID UINT64_MAX

/* ---- client_place.c: tests on memory that is flushed and verified ---- */

/** The server has told of its region. -EPROTO: it makes no sense. */
int client_place_begin(struct client *c);
/** Post what the queue has room for, at most up to `end` in all. */
void client_place_fill(struct client *c, uint64_t end);
/** One round of a latency test. */
int client_place_round(struct client *c, uint64_t seq);
/** Poll until done(c) or death or stall, without a clock in every turn. */
int client_place_wait(struct client *c, bool (*done)(const struct client *c));

/* ---- client_log.c: appending to a log at the server ---- */

/** Make the log, and what its QP must be. */
int client_log_make(struct client *c, struct weft_ctx *ctx, struct weft_qp_attr *qa);
/**
 * The connection is up: format what the server offers, and open it. -EMEDIUMTYPE: a Flush there is
 * for visibility alone, which a log is told when it is made (job.visible).
 */
int client_log_begin(struct client *c);
/** All have joined: open it. */
int client_log_open(struct client *c);
/** One append: -EAGAIN when there is no room now. */
int client_log_append(struct client *c);
/** The QP goes with it. */
void client_log_end(struct client *c);

/* ---- client_hosts.c: appending to a log at weft-targets ---- */

/** The log is made: come to its targets, and open it. -EEXIST: it is not weft-perf's. */
int client_hosts_begin(struct client *c, struct weft_ctx *ctx);
/** The log is destroyed. */
void client_hosts_end(struct client *c);

/* ---- client_rpc.c: calls ---- */

/** The QP is there, and not connected. */
int client_rpc_make(struct client *c);
/** The QP has gone, or never connected. */
void client_rpc_end(struct client *c);
/** Make calls, at most up to `end` in all and depth at once. */
void client_rpc_fill(struct client *c, uint64_t end);
/** One call, until its answer. */
int client_rpc_round(struct client *c);

#endif /* WEFT_PERF_CLIENT_H */
