/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_METRICS_H
#define WEFT_APPS_TARGET_METRICS_H

/**
 * @file Metrics (docs/metrics.md): figures for Prometheus, answers for supervisors and a page for
 * people, over HTTP. This header is what the rest of weft-target calls.
 *
 * Two halves. What workers count (struct metrics_worker, metrics_count.h) is written by the
 * worker's thread alone, by plain stores, as its other counters are, and read by the metrics thread
 * without a lock. What the metrics thread does with it is in metrics_read.h.
 *
 * While metrics are off, each call of a worker is one comparison of a variable of its thread.
 * Times are those of the worker's clock, which is read once a poll; of a medium, which may do its
 * work inside a poll, they are read for each flush.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct conf_target;
struct metrics_worker;
struct target;
struct target_conn;
struct target_export;
struct target_vio;
struct target_vworker;
struct weft_exec;
struct weft_persist;
struct weft_persist_req;
struct weft_rpc_req;

/** What a client asks for. */
enum metrics_op {
	METRICS_READ,
	METRICS_WRITE,
	METRICS_FLUSH,
	METRICS_VERIFY,
	METRICS_COMPARE_WRITE,
	METRICS_DISCARD,
	METRICS_ZEROES,
	METRICS_EXTENTS,
	METRICS_SNAPSHOT,
	METRICS_PUSH,        /**< an RDMA Flush */
	METRICS_PUSH_VERIFY, /**< a read-back for an RDMA Verify; a long Verify has several */
	METRICS_OPS
};

/** Where an operation spends its time. */
enum metrics_stage {
	METRICS_WIRE,    /**< its chunks are read from the client */
	METRICS_CREDIT,  /**< it waits for room in the budget for calls */
	METRICS_RATE,    /**< it waits for the limits of the export */
	METRICS_STAGING, /**< it waits for staging memory */
	METRICS_MEDIUM,  /**< the volume or medium has it */
	METRICS_ANSWER,  /**< its answer is not taken by the client yet */
	METRICS_STAGES
};

/** An operation under way; its owner embeds it, zeroed. */
struct metrics_timing {
	uint64_t began_ns; /**< 0: it is not measured */
	uint64_t at_ns;    /**< end of the stage before */
	uint64_t stage_ns[METRICS_STAGES];
};

/** The calling thread's, if it is a worker and metrics are on; else NULL. */
extern _Thread_local struct metrics_worker *metrics_me;

/* ---- metrics_count.c: on workers ---- */

void metrics_op_begin(struct metrics_timing *tm, const struct weft_rpc_req *req);
void metrics_op_stage(struct metrics_timing *tm, enum metrics_stage stage);
void metrics_op_end(struct metrics_timing *tm, enum metrics_op op, const struct target_export *ex,
                    const char *peer);

/** An operation begins; what its call has waited for is counted. req may be NULL. */
static inline void
target_metrics_op(struct metrics_timing *tm, const struct weft_rpc_req *req)
{
	if (metrics_me != NULL)
		metrics_op_begin(tm, req);
}

/** The time since the last stage is of this one. */
static inline void
target_metrics_stage(struct metrics_timing *tm, enum metrics_stage stage)
{
	if (tm->began_ns != 0)
		metrics_op_stage(tm, stage);
}

/** The operation has succeeded. peer: the client's address and port; may be NULL. */
static inline void
target_metrics_done(struct metrics_timing *tm, enum metrics_op op, const struct target_export *ex,
                    const char *peer)
{
	if (tm->began_ns != 0)
		metrics_op_end(tm, op, ex, peer);
}

/** A client's call has made octets durable: a WRITE that asked for it, or a FLUSH. */
void target_metrics_durable(const struct target_export *ex, uint64_t bytes);
/** A call, or a Flush or Verify, has failed. */
void target_metrics_failed(const struct target_export *ex);
/** A call to a volume is answered. held: it is done when the client has taken the answer, for
 * target_metrics_vio_taken(). */
void target_metrics_vio(struct target_vio *io, bool held);
void target_metrics_vio_taken(struct target_vio *io);
/** The connection is about to end: its octets stay in the sums of its client. */
void target_metrics_conn_gone(const struct target_conn *c);

/* ---- metrics_media.c ---- */

/** From now on flushes of the export's medium are counted. It is open, and no worker and no client
 * uses it yet. The program's thread. */
void target_metrics_attach(struct target *t, struct target_export *ex);
/** The same of the medium of a worker's windows. The program's thread. */
void target_metrics_attach_windows(struct target_vworker *vw);
/** weft_persist_ops.flush of the medium, for a flush that is a part of a call, which is counted as
 * a call. */
int target_metrics_flush(struct weft_persist *p, struct weft_exec *exec,
                         struct weft_persist_req *req);

/* ---- metrics.c: the program's thread ---- */

/** Allocate what workers count in, if metrics are on. Workers do not run yet, no export is open.
 * -errno with one line in err. */
int target_metrics_up(struct target *t, char *err, size_t err_size);
/** Listen, and start the thread. Workers run. -errno with one line in err. */
int target_metrics_begin(struct target *t, char *err, size_t err_size);
/** End the thread. Does nothing if there is none. Workers run. */
void target_metrics_end(struct target *t);
/** Free what workers count in. Workers are stopped, all media are closed. */
void target_metrics_down(struct target *t);
/** RDMA Flushes of the export that have succeeded, and their octets; 0 where nothing is counted, as
 * metrics are off and slow_ms is 0. Any thread. */
void target_metrics_pushed(const struct target *t, const struct target_export *ex,
                           uint64_t *flushes, uint64_t *bytes);
/** A slot has another export from now on: its counters begin at 0. */
void target_metrics_wipe(struct target *t, const struct target_export *ex);
/** Print the table of docs/metrics.md. */
void target_metrics_reference(FILE *out);

#endif /* WEFT_APPS_TARGET_METRICS_H */
