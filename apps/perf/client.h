/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_CLIENT_H
#define WEFT_PERF_CLIENT_H

/** @file What the sources of the measuring side share. */

#include <stdatomic.h>

#include "flow.h"
#include "log_client.h"
#include "loop.h"
#include <weft/rpcrdma.h>

struct client;
struct crew;

struct client_host {
	struct client *c;
	struct log_client *client;
};

/** One connection of a run. */
struct client {
	struct weft_worker *w;
	const struct crew *crew;
	struct loop *loop;
	struct loop_cq cq;
	struct weft_pd *pd;
	struct weft_qp *qp;
	struct perf_job job;
	struct perf_welcome server;
	uint8_t *mem;
	struct weft_mr *mr;
	uint32_t lkey;
	bool up, dead;
	bool terminated; /**< a Terminate was sent or received */
	bool down;       /**< the connection's last event has come */
	bool closed;     /**< the server has closed the connection in order */
	int err;         /**< -errno of a dead connection */
	char term[256];  /**< the Terminate's text, or the server's */
	struct flow f;
	uint64_t resent_before;     /**< segments sent again before the measured part */
	struct perf_moved before;   /**< counted before it */
	uint64_t sent_bytes;        /**< parts.c, with events: octets sent, at the last look */
	uint64_t checks;            /**< measure_verify.c: Reads of what has arrived */
	struct perf_report *report; /**< in mem, written by the server */
	bool started, reported;     /**< as the server has said */
	/* tests that flush or verify */
	uint64_t slots;       /**< slots of data in the region, here and at the server */
	uint8_t *back;        /**< buffer for received data, behind the slots */
	uint32_t flush_flags; /**< the strongest Flush that the server's medium supports */
	bool bad;             /**< two-sided: the server's application found wrong data */
	struct weft_log *log; /**< log-append */
	bool log_joined;      /**< the log owns qp */
	bool log_open;
	/** the last durable record; the position of the last trim */
	struct weft_log_at log_at, log_trimmed;
	uint64_t log_ring_bytes;
	struct log_hub hub; /**< log-append to weft-targets */
	struct client_host host[WEFT_LOG_MAX_TARGETS];
	/* tests by RPC */
	struct weft_rpc *rpc;
	struct client_rpc *calls;
	struct client_volume *vol; /**< tests on a volume */
	uint32_t number;           /**< of all connections of the run */
	uint64_t done_before;      /**< messages before the measured part */
};

/** The connections of a job on one worker, driven by one thread. */
struct run {
	struct crew *crew;
	struct loop loop;
	struct perf_job job;       /**< this worker's share of the QPs, and of the rate */
	struct client *lane;       /**< job.qps of them */
	uint64_t begin_ns, end_ns; /**< the measured part */
	_Atomic uint64_t shown;    /**< messages of the measured part, as the other threads see */
	_Atomic uint64_t acked_bytes; /**< parts.c: of these the peer has acknowledged */
	unsigned int meets;           /**< run_meet() so far */
	/** bandwidth: what was used when it came to stand still, and whether it stands still */
	struct perf_self still;
	bool is_still;
	uint64_t looked_ns; /**< run_look(): when it looked last */
	/** what each of the server's workers has reported; ns is 0 where there is none */
	struct perf_report by[PERF_MAX_WORKERS];
	struct hist *hist; /**< latency */
	uint64_t *samples; /**< with keep_samples */
	struct perf_result out;
	int rc; /**< of this thread, with a line in why */
	char why[320];
	/* of the thread */
	pthread_t thread;
	bool is_thread;
	int lcore;
};

/** The thread that tells how a run goes. */
struct crew_tick {
	pthread_t thread;
	bool runs;
	pthread_mutex_t lock; /**< of over */
	pthread_cond_t cond;
	bool over;
};

/** What the threads of a run share. */
struct crew {
	const struct perf_job *job; /**< of all */
	const struct perf_side *side;
	struct weft_ctx *ctx;
	struct weft_pd *pd;
	const struct sockaddr *addr;
	socklen_t addr_len;
	uint64_t id;          /**< the same in all hellos */
	struct weft_srq *srq; /**< receives of all connections, with job->use_srq; or NULL */
	uint32_t srq_depth;
	uint8_t *srq_mem; /**< for what is received, which is not looked at */
	struct run *run;
	uint32_t n;
	_Atomic uint32_t arrived;  /**< calls of run_meet() */
	_Atomic uint32_t over;     /**< threads that have freed what they had */
	_Atomic int failed;        /**< -errno of the thread that failed first; 0: none */
	_Atomic uint64_t begun_ns; /**< when the first thread's measured part began; 0: not yet */
	_Atomic bool measured;     /**< that part is over */
	struct crew_tick tick;
};

/** Longest sleep of a thread that waits for the others. */
#define CREW_WAIT_NS 1000000ull

/** Receives of each QP for the server's few messages beside those of the test. */
#define CLIENT_RQ 32

/** A job without progress for this many seconds has failed. */
#define STALL_S 10

/* ---- client.c ---- */

/** Make a worker's connections; the calling thread drives them. 0, or -errno of *bad, the one that
 * has failed. */
int run_begin(struct run *r, struct weft_worker *w, struct client **bad);
/** End them, and free what they had. The loop stays. */
void run_end(struct run *r);

/* ---- client_run.c: all connections together ---- */

/** The connection that has failed, or NULL. */
const struct client *run_dead(const struct run *r);
/** Fill all queues, each up to `end` work requests in all, and turn the loop, which may sleep up to
 * wait_ns. */
void run_turn(struct run *r, uint64_t end, uint64_t wait_ns);
/** Wait for the other threads of the crew to come here, too. 0, or -errno: one of them failed. */
int run_meet(struct run *r);
/** -ECANCELED if another thread of the crew has failed; else 0. */
int run_failed_elsewhere(const struct run *r);
/** Add what one connection's server has reported to that of another on the same worker. */
void report_add(struct perf_report *sum, const struct perf_report *p);
/** Post a receive to the crew's SRQ. */
int crew_srq_post(const struct crew *crew);
/** Count a sample of a latency test, and keep it if that is asked for. */
void run_sample(struct run *r, uint64_t ns);
/** Nothing came for a while, and the clock says now_ns: look now and then whether the server has
 * closed a connection, which is dead then. */
void run_look(struct run *r, uint64_t now_ns);
/** Messages of the measured part that all threads have shown. */
uint64_t crew_shown(const struct crew *crew);
/** The measured part begins; the clock says at_ns. */
void run_begun(struct run *r, uint64_t at_ns);
/** Show the others how many messages of it are done. */
static inline void
run_show(struct run *r, uint64_t n)
{
	atomic_store_explicit(&r->shown, n, memory_order_relaxed);
}
/** Work requests of all connections. */
struct run_count {
	uint64_t posted, done;
};
struct run_count run_count(const struct run *r);
/** Wait until what was posted has been placed or answered. 0 or -errno. */
int run_barrier(struct run *r);
/** Begin the measured part: the server reads its counters before the first message comes. With
 * reversed it sends n messages on each QP, or until run_stop() if n is 0. 0 or -errno. */
int run_start(struct run *r, uint64_t n);
/** Let the server end the measured part, and report. 0 or -errno. */
int run_stop(struct run *r);
/** Wait for the reports, and note them (r->by). 0 or -errno. */
int run_collect(struct run *r);
/** Whether the server has reported on all connections. */
bool run_is_reported(const struct run *r);
/** End the measured part at the server, and note what it reports. 0 or -errno. */
int run_report(struct run *r);

/* ---- client_merge.c ---- */

/** Add up what the threads of a crew have measured; r->hist becomes the result's. 0,
 * -ENODATA (nothing was completed), -ENOMEM. */
int crew_merge(struct crew *crew, struct perf_result *out);

/* ---- client_tick.c ---- */

/** Start to call job->tick once a second of the measured part, from another thread; nothing without
 * one. 0 or -errno. */
int crew_tick_begin(struct crew *crew);
/** No call is made after the return. */
void crew_tick_end(struct crew *crew);

/* ---- measure.c: what is measured, with all connections up ---- */

/** Measure bandwidth. 0, or -errno of the connection that has failed. */
int measure_bandwidth(struct run *r, struct perf_result *out);
/** Measure latency, on the only connection. Likewise. */
int measure_latency(struct run *r, struct perf_result *out);
/* ---- measure_verify.c: each octet compared ---- */

/** In place of the bandwidth loop: send, and compare what has arrived. -EILSEQ: an octet is wrong;
 * the connection has the text. */
int measure_verify(struct run *r, struct perf_result *out);

/* ---- measure_reversed.c: the server sends ---- */

/** Let the server send, for the warm-up and then for what is measured. 0 or -errno. */
int measure_reversed(struct run *r, struct perf_result *out);

/* ---- measure_open.c: latency at a rate ---- */

/** Send at job.rate, and time each message from its intended start. 0 or -errno. */
int measure_open(struct run *r, uint64_t *elapsed_ns, bool *early);

/* ---- client_place.c: tests on memory that is flushed and verified ---- */

/** Check the region that the server's Reply describes. -EPROTO: it is invalid. */
int client_place_begin(struct client *c);
/** Post as much as the queue has room for, up to `end` in all. */
void client_place_fill(struct client *c, uint64_t end);
/** Run one round of a latency test. */
int client_place_round(struct client *c, uint64_t seq);

/* ---- client_log.c: appending to a log at the server ---- */

/** Create the log, and set in *qa what its QP needs. */
int client_log_make(struct client *c, struct weft_ctx *ctx, struct weft_qp_attr *qa);
/**
 * With the connection up: format the server's memory and open the log. -EMEDIUMTYPE: a Flush there
 * is for visibility alone, so the log must be made with job.visible.
 */
int client_log_begin(struct client *c);
/** Open the log, after all targets have joined. */
int client_log_open(struct client *c);
/** Append once. -EAGAIN: no room now. */
int client_log_append(struct client *c);
/** Destroy the log and its QP. */
void client_log_end(struct client *c);

/* ---- client_hosts.c: appending to a log at weft-targets ---- */

/** Connect the log to its targets, and open it. -EEXIST: a target holds another log than
 * weft-perf's. */
int client_hosts_begin(struct client *c, struct weft_ctx *ctx);
/** End the connections, after the log is destroyed. */
void client_hosts_end(struct client *c);

/* ---- client_rpc.c: calls ---- */

/** Create the RPC endpoint on a QP that is not connected yet. */
int client_rpc_make(struct client *c);
/** Free the endpoint, after the QP has ended or was never connected. */
void client_rpc_end(struct client *c);
/** Start calls, up to `end` in all and depth at once. */
void client_rpc_fill(struct client *c, uint64_t end);
/** Make one call and wait for its answer. */
int client_rpc_round(struct client *c);

#endif /* WEFT_PERF_CLIENT_H */
