/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_SERVER_H
#define WEFT_PERF_SERVER_H

/** @file What the sources of the serving side share. */

#include <pthread.h>
#include <stdatomic.h>

#include "export_proto.h"
#include "flow.h"
#include "loop.h"
#include <weft/log_host.h>
#include <weft/rpcrdma.h>

/** Receives kept posted for calls and orders, more than one receive burst can carry, and for the
 * client's messages beside those of the test. */
#define SERVER_RQ     4096
#define SERVER_CTL_RQ 8
/** How long the threads of the server may sleep without a look at the others. */
#define SERVER_WAIT_NS 50000000ull
#define SERVER_SOON_NS 1000000ull
/** When the server ends: how long its clients may take to close their side. */
#define SERVER_END_NS 3000000000ull
/** Connections at once, and the memory of their tests in all. A later one is told to wait. */
#define SERVER_MAX_SESSIONS  1024
#define SERVER_MAX_MEM_BYTES (4ull << 30)
/** Threads of two-sided applications. */
#define SERVER_MAX_THREADS 16

/** What all connections share. */
struct served {
	struct weft_ctx *ctx;
	struct weft_pd *pd;
	struct weft_mpa_policy mpa; /**< of the configuration */
	const struct perf_medium *medium;
	struct server *server;
	unsigned int nservers;
	bool once;
	const volatile sig_atomic_t *stop;
	pthread_mutex_t lock;    /**< of the next four */
	unsigned int n, threads; /**< sessions; those whose application has a thread */
	uint64_t mem_bytes;      /**< of all sessions and SRQs */
	struct srq *srqs;
	_Atomic unsigned int gone; /**< sessions that were admitted and are over */
	struct perf_host host;     /**< told to each client */
	_Atomic int rc;            /**< -errno that ends all threads; 1: they are to end */
};

/** The connections of one worker, driven by one thread. */
struct server {
	struct served *all;
	struct loop loop;
	struct session *sessions;
	unsigned int n;
	bool change; /**< the loop changes between events and polling before its next turn */
	pthread_t thread;
	bool is_thread;
	int lcore;
	bool naps; /**< also while it has clients */
};

/** One connection of a client. */
struct session {
	struct session *next;
	struct server *server;
	struct weft_worker *w;
	struct loop_cq cq;
	struct weft_qp *qp;
	struct srq *srq; /**< with hello.use_srq */
	struct perf_hello hello;
	uint8_t *mem; /**< the region of the test */
	uint64_t mem_bytes;
	uint64_t takes_bytes; /**< of SERVER_MAX_MEM_BYTES */
	struct weft_mr *mr;
	struct weft_log_host *host; /**< log-append: hosts the log, in place of mr */
	struct weft_log_grant grant;
	const struct perf_medium *medium;
	/* session_memory.c */
	pthread_t maker;    /**< of the memory */
	bool making;        /**< the thread was started and not joined */
	_Atomic int memory; /**< as the thread says */
	int memory_rc;
	struct weft_connreq *request; /**< not answered yet */
	struct sockaddr_storage from_addr;
	struct weft_persist *persist; /**< the medium of mem, or NULL */
	uint64_t slots;
	uint8_t *out;           /**< source of what the server sends or writes */
	struct weft_mr *out_mr; /**< with both_ways: sink of the server's Reads */
	uint64_t pings;         /**< write latency: answered so far */
	struct flow f;  /**< what the client sends; with both_ways what the server sends, too */
	uint64_t limit; /**< it sends so many messages */
	bool flows;     /**< the server sends now */
	bool stopping;  /**< no more: what is under way is waited for */
	bool barrier;   /**< a Read behind it is posted */
	struct perf_self from;
	struct weft_qp_info before;
	struct perf_self used; /**< from then to PERF_CTL_STOP */
	struct perf_report report;
	bool admitted;
	bool gone;  /**< the client has left */
	bool freed; /**< its QP and memory are */
	/** its memory is still in use, or being freed */
	_Atomic bool closing;
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

/* ---- session.c: one connection ---- */

/** Whether the client of a connection request wants completions by event. */
bool session_wants_events(const struct weft_event *ev);
/** Make a session for a connection request, which is accepted as soon as its memory is there. NULL:
 * it is rejected. */
struct session *session_begin(struct server *server, const struct weft_event *ev);
/** Free what the session has. True: all of it is; false: ask again after a poll. */
bool session_end(struct session *s);
/** Do what falls due between two polls: answer a ping-pong, send, report. */
void session_turn(struct session *s);

/* ---- session_memory.c: its memory ---- */

/** Get the memory of s->mem_bytes. 0; -errno; or -EINPROGRESS: a thread gets it. */
int session_memory_begin(struct session *s);
/** Whether that thread is done; *rc is then 0 or -errno. */
bool session_memory_ready(struct session *s, int *rc);
/** Wait for that thread, if there is one. */
void session_memory_wait(struct session *s);
/** Free the memory and its registration, after the QP; s->closing says until when. */
void session_memory_end(struct session *s);

/* ---- server_srq.c: receives of all connections of a run ---- */

/** Use the SRQ of the run that `from` has begun, or make it with its receives. 0 or -ENOMEM. */
int server_srq_begin(struct session *s, const struct sockaddr_storage *from);
struct weft_srq *server_srq_of(const struct session *s);
uint32_t server_srq_depth(const struct session *s);
/** The buffer of a receive, with verify. */
const uint8_t *server_srq_buf(const struct session *s, uint64_t slot);
/** Post a receive again. */
int server_srq_post(struct session *s, uint64_t slot);
/** Leave the SRQ, after the QP. False: the QP uses it still. True also without one. */
bool server_srq_end(struct session *s);

/* ---- server_app.c: an application that works on messages ---- */

/** Create the application's receives and, with hello.app_thread, its thread. The QP exists. 0 or
 * -errno. */
int server_app_begin(struct session *s);
/** End the application; its thread has ended at the return. */
void server_app_end(struct session *s);
/** Carry out one received order and answer it. On the worker, or on the application's thread. */
void server_app_take(struct session *s, const struct weft_wc *wc);

/* ---- server_rpc.c: calls ---- */

/** Create the RPC endpoint on a QP that is not connected yet. */
int server_rpc_begin(struct session *s);
/** Free the endpoint, after the QP has ended. Not from a callback once calls were served. */
void server_rpc_end(struct session *s);

#endif /* WEFT_PERF_SERVER_H */
