/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_METRICS_COUNT_H
#define WEFT_APPS_METRICS_COUNT_H

/**
 * @file What workers count for the metrics. Each member has one writer, the worker's thread (or the
 * program's, when the workers are stopped), which stores without a locked instruction; the metrics
 * thread reads. All is relaxed: nothing is ordered by a counter.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "conf.h"
#include "host_auth.h"
#include "target_metrics.h"
#include <weft/persist.h>

struct target_worker;

/** Below 1 us, 2 us, 4 us ... 8.4 s, and all others. */
#define METRICS_BUCKETS 25U
#define METRICS_PEER    64U /**< of target_conn.peer */
/** Of metrics_timing.stage_ns: the operation has no such stage. */
#define METRICS_NO_STAGE UINT64_MAX

struct metrics_hist {
	atomic_ullong n[METRICS_BUCKETS], sum_ns;
};

/** The slowest operation of a kind, within a minute. Read again if `turn` was odd, or has changed
 * meanwhile. */
struct metrics_slowest {
	atomic_uint turn;
	atomic_ullong minute; /**< of the monotonic clock; 0: none */
	atomic_ullong total_ns, stage_ns[METRICS_STAGES];
	atomic_uint export; /**< number of the slot */
	atomic_ullong peer[METRICS_PEER / 8];
};

/** How octets became durable. */
enum metrics_by { METRICS_BY_PUSH, METRICS_BY_CALL, METRICS_BYS };

/** Of one export, on one worker. */
struct metrics_export {
	/** A bit for each operation that was done: a scrape of thousands of exports reads no
	 * histogram that is zeros. Set behind the first one, which the next scrape may miss. */
	atomic_uint done;
	/* beside `done`: all that a scrape reads of an export that does nothing */
	atomic_ullong flushes[METRICS_BYS], flushed_bytes[METRICS_BYS], failed;
	struct metrics_hist op[METRICS_OPS];
};

/** What is counted of a client. */
enum metrics_sum {
	METRICS_RECV_BYTES,
	METRICS_SENT_BYTES,
	METRICS_RECV_MSGS,
	METRICS_SENT_MSGS,
	METRICS_SUMS
};

/** What the connections of one client have counted that have ended, as sums. The worker's thread
 * alone. */
struct metrics_closed {
	char key[HOST_AUTH_NAME_MAX + ADDR_STR_MAX +
	         1];      /**< '=' and its name, or '@' and address */
	uint64_t used_ns; /**< 0: not in use */
	uint64_t sum[METRICS_SUMS];
};

#define METRICS_CLOSED 1024U /**< clients that a worker remembers; a power of 2 */
#define METRICS_NEAR   16U   /**< places of a client in the table */

#define METRICS_GONE 256U /**< connections that end during one pass over all of them */

struct metrics_watched;
struct metrics_client;

struct metrics_worker {
	struct target_worker *tw;
	uint32_t number;
	bool counted;      /**< they are served; else slow operations alone are looked for */
	uint64_t clock_ns; /**< ui_now_ns() less the worker's clock; set on the worker */
	struct metrics_hist stage[METRICS_OPS][METRICS_STAGES];
	struct metrics_slowest slowest[METRICS_OPS][2]; /**< of this minute and the one before */
	struct metrics_export *exports;                 /**< by number of the slot */
	/* the worker's thread alone */
	struct metrics_watched *free_watched;
	struct metrics_closed *closed;
	uint64_t closed_used[METRICS_CLOSED / 64]; /**< a bit for each place that is in use */
	uint64_t closed_key; /**< random: a peer cannot choose places of the table */
	/** The connection that is copied next; the end of a connection moves it on. */
	struct target_conn *next_conn;
	/* of a pass over all connections (metrics_clients.c) */
	struct metrics_client *gone; /**< what ended before it was copied; METRICS_GONE */
	uint32_t pass, ngone, closed_at;
	bool pass_open, gone_lost;
};

/** A medium whose flushes and read-backs are counted: a copy of its driver's functions. */
struct metrics_medium {
	struct weft_persist_ops ops; /**< first member */
	const struct weft_persist_ops *under;
	struct target_export *ex;  /**< NULL: of windows, of several exports */
	struct target_vworker *vw; /**< of windows: their worker's */
};

struct metrics_http;

struct metrics {
	struct target *t;
	uint32_t nworkers;
	struct metrics_worker *worker[CONF_WORKERS_MAX];
	struct metrics_medium medium[CONF_EXPORTS_MAX], windows[CONF_WORKERS_MAX];
	atomic_ullong capacity[CONF_EXPORTS_MAX]; /**< octets; set when an export was opened */
	struct metrics_http *http;                /**< NULL: the thread does not run */
};

/** Whether an operation with this status counts as failed: the medium has failed it, or it was
 * given up. A refusal is none, and neither is a mismatch of contents. */
bool metrics_is_failure(int status);

/** Add to a counter that this thread alone writes. */
static inline void
metrics_add(atomic_ullong *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
	                      memory_order_relaxed);
}

static inline uint64_t
metrics_get(const atomic_ullong *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

/** The bucket of a duration: bucket i is below 2^i us. */
static inline unsigned int
metrics_bucket(uint64_t ns)
{
	const uint64_t us = ns / 1000;
	const unsigned int i = us == 0 ? 0 : 64U - (unsigned int)__builtin_clzll(us);

	return i < METRICS_BUCKETS ? i : METRICS_BUCKETS - 1;
}

static inline void
metrics_hist_add(struct metrics_hist *h, uint64_t ns)
{
	metrics_add(&h->n[metrics_bucket(ns)], 1);
	metrics_add(&h->sum_ns, ns);
}

/** Count an operation of this worker. now_ns: by ui_now_ns(). peer: NULL is none. */
void metrics_note(struct metrics_worker *mw, enum metrics_op op, uint32_t export,
                  const uint64_t stage_ns[METRICS_STAGES], uint64_t total_ns, uint64_t now_ns,
                  const char *peer);
/** The same, when the peer is expensive to find out and matters only to the slowest operation. */
bool metrics_is_slowest(const struct metrics_worker *mw, enum metrics_op op, uint64_t total_ns,
                        uint64_t now_ns);
/** Free what the media of this worker used. No request is under way. metrics_media.c */
void metrics_watched_free(struct metrics_worker *mw);
/** The client that writes to an object or log by this worker, as address and port; NULL: not
 * known. */
const char *metrics_writer(const struct metrics_worker *mw, const struct target_export *ex);
/** Key of a connection's client: '=' and the authenticated name, or '@' and the address. */
void metrics_client_key(const struct target_conn *c,
                        char key[HOST_AUTH_NAME_MAX + ADDR_STR_MAX + 1]);

#endif /* WEFT_APPS_METRICS_COUNT_H */
