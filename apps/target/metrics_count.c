/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What workers count for the metrics: operations, their stages, the slowest ones. */

#include <errno.h>
#include "metrics_count.h"

#include <string.h>

#include "target.h"
#include "target_grant.h"
#include "target_volume.h"
#include "ui.h"

#define NS_PER_MINUTE 60000000000ULL

_Thread_local struct metrics_worker *metrics_me;

/* ---- Of one worker ---- */

bool
metrics_is_slowest(const struct metrics_worker *mw, enum metrics_op op, uint64_t total_ns,
                   uint64_t now_ns)
{
	const struct metrics_slowest *s = &mw->slowest[op][now_ns / NS_PER_MINUTE % 2];

	return metrics_get(&s->minute) != now_ns / NS_PER_MINUTE ||
	       metrics_get(&s->total_ns) < total_ns;
}

static void
slowest_set(struct metrics_slowest *s, uint32_t export, const uint64_t stage_ns[METRICS_STAGES],
            uint64_t total_ns, uint64_t now_ns, const char *peer)
{
	const unsigned int turn = atomic_load_explicit(&s->turn, memory_order_relaxed);
	unsigned long long words[METRICS_PEER / 8] = {0};

	memcpy(words, peer != NULL ? peer : "", peer != NULL ? strnlen(peer, METRICS_PEER - 1) : 0);
	/* A reader that sees one of the stores below sees the odd turn, too. */
	atomic_store_explicit(&s->turn, turn + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&s->minute, now_ns / NS_PER_MINUTE, memory_order_relaxed);
	atomic_store_explicit(&s->total_ns, total_ns, memory_order_relaxed);
	atomic_store_explicit(&s->export, export, memory_order_relaxed);
	for (unsigned int i = 0; i < METRICS_STAGES; i++)
		atomic_store_explicit(&s->stage_ns[i], stage_ns[i], memory_order_relaxed);
	for (unsigned int i = 0; i < METRICS_PEER / 8; i++)
		atomic_store_explicit(&s->peer[i], words[i], memory_order_relaxed);
	atomic_store_explicit(&s->turn, turn + 2, memory_order_release);
}

const char *
metrics_writer(const struct metrics_worker *mw, const struct target_export *ex)
{
	const struct target_grant *g;

	LIST_FOREACH (g, &mw->tw->writers, writer_link)
		if (g->ex == ex)
			return g->conn->peer;
	return NULL;
}

void
metrics_note(struct metrics_worker *mw, enum metrics_op op, uint32_t export,
             const uint64_t stage_ns[METRICS_STAGES], uint64_t total_ns, uint64_t now_ns,
             const char *peer)
{
	struct metrics_export *me = &mw->exports[export];
	const unsigned int done = atomic_load_explicit(&me->done, memory_order_relaxed);

	metrics_hist_add(&me->op[op], total_ns);
	if ((done & 1U << op) == 0)
		atomic_store_explicit(&me->done, done | 1U << op, memory_order_relaxed);
	for (unsigned int i = 0; i < METRICS_STAGES; i++)
		if (stage_ns[i] != METRICS_NO_STAGE)
			metrics_hist_add(&mw->stage[op][i], stage_ns[i]);
	if (metrics_is_slowest(mw, op, total_ns, now_ns))
		slowest_set(&mw->slowest[op][now_ns / NS_PER_MINUTE % 2], export, stage_ns,
		            total_ns, now_ns, peer);
}

/* ---- Calls ---- */

static uint32_t
export_number(const struct metrics_worker *mw, const struct target_export *ex)
{
	return (uint32_t)(ex - mw->tw->t->exports);
}

void
metrics_op_begin(struct metrics_timing *tm, const struct weft_rpc_req *req)
{
	const uint64_t now = weft_worker_now_ns(metrics_me->tw->w);
	struct weft_rpc_waits waits = {0};

	for (unsigned int i = 0; i < METRICS_STAGES; i++)
		tm->stage_ns[i] = METRICS_NO_STAGE;
	if (req != NULL) {
		weft_rpc_req_waits(req, &waits);
		tm->stage_ns[METRICS_CREDIT] = waits.room_ns;
		if (waits.read_ns > 0)
			tm->stage_ns[METRICS_WIRE] = waits.read_ns;
	}
	tm->at_ns = now;
	tm->began_ns = now - waits.read_ns - waits.room_ns;
}

void
metrics_op_stage(struct metrics_timing *tm, enum metrics_stage stage)
{
	uint64_t now;

	if (metrics_me == NULL)
		return;
	now = weft_worker_now_ns(metrics_me->tw->w);
	tm->stage_ns[stage] = now - tm->at_ns;
	tm->at_ns = now;
}

void
metrics_op_end(struct metrics_timing *tm, enum metrics_op op, const struct target_export *ex,
               const char *peer)
{
	uint64_t now, total_ns;

	if (metrics_me == NULL)
		return;
	if (!metrics_me->counted) {
		tm->began_ns = 0;
		return;
	}
	now = weft_worker_now_ns(metrics_me->tw->w);
	total_ns = now - tm->began_ns;
	now += metrics_me->clock_ns;
	/* The connection of a durable WRITE may be gone. */
	if (op == METRICS_WRITE && peer == NULL &&
	    metrics_is_slowest(metrics_me, op, total_ns, now))
		peer = metrics_writer(metrics_me, ex);
	metrics_note(metrics_me, op, export_number(metrics_me, ex), tm->stage_ns, total_ns, now,
	             peer);
	tm->began_ns = 0;
}

void
target_metrics_durable(const struct target_export *ex, uint64_t bytes)
{
	struct metrics_export *me;

	if (metrics_me == NULL)
		return;
	me = &metrics_me->exports[export_number(metrics_me, ex)];
	metrics_add(&me->flushes[METRICS_BY_CALL], 1);
	metrics_add(&me->flushed_bytes[METRICS_BY_CALL], bytes);
}

void
target_metrics_failed(const struct target_export *ex)
{
	if (metrics_me != NULL)
		metrics_add(&metrics_me->exports[export_number(metrics_me, ex)].failed, 1);
}

static const enum metrics_op vio_ops[WEFT_VOL_KINDS] = {
        [WEFT_VOL_READ] = METRICS_READ,
        [WEFT_VOL_WRITE] = METRICS_WRITE,
        [WEFT_VOL_FLUSH] = METRICS_FLUSH,
        [WEFT_VOL_VERIFY] = METRICS_VERIFY,
        [WEFT_VOL_COMPARE_WRITE] = METRICS_COMPARE_WRITE,
        [WEFT_VOL_DISCARD] = METRICS_DISCARD,
        [WEFT_VOL_ZEROES] = METRICS_ZEROES,
        [WEFT_VOL_EXTENTS] = METRICS_EXTENTS,
        [WEFT_VOL_SCRUB] = METRICS_VERIFY, /* no call asks for it */
        [WEFT_VOL_SNAPSHOT] = METRICS_SNAPSHOT,
};

bool
metrics_is_failure(int status)
{
	return target_is_bad_range(status) || weft_block_class_of(status) == WEFT_BLOCK_GIVEN_UP;
}

void
target_metrics_vio(struct target_vio *io, bool held)
{
	const struct weft_vol_op *op = &io->op;

	/* One that was refused before the volume had it took no time of the medium. */
	if (io->timing.began_ns == 0 || io->timing.stage_ns[METRICS_STAGING] == METRICS_NO_STAGE)
		return;
	if (op->status != 0) {
		if (metrics_is_failure(op->status))
			target_metrics_failed(io->g->ex);
		io->timing.began_ns = 0;
		return;
	}
	target_metrics_stage(&io->timing, METRICS_MEDIUM);
	if (op->kind == WEFT_VOL_FLUSH || (op->flags & WEFT_VOL_DURABLE) != 0)
		target_metrics_durable(io->g->ex, op->len_bytes);
	if (!held)
		target_metrics_done(&io->timing, vio_ops[op->kind], io->g->ex, io->g->conn->peer);
}

void
target_metrics_vio_taken(struct target_vio *io)
{
	if (io->g->conn->dead)
		return; /* the client has not taken it */
	target_metrics_stage(&io->timing, METRICS_ANSWER);
	target_metrics_done(&io->timing, vio_ops[io->op.kind], io->g->ex, io->g->conn->peer);
}
