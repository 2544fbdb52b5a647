/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Metrics of exports (metrics_shown.c), stages and the slowest operations as a text. Metrics
 * thread. */

#include "metrics_read.h"
#include "target.h"

static void
render_stages(const struct metrics *m, struct metrics_text *tx)
{
	char labels[METRICS_LABELS_MAX];

	metrics_text_family(tx, METRICS_F_STAGE);
	for (unsigned int op = 0; op < METRICS_OPS; op++)
		for (unsigned int stage = 0; stage < METRICS_STAGES; stage++) {
			uint64_t n[METRICS_BUCKETS] = {0}, sum_ns = 0, count = 0;

			for (uint32_t k = 0; k < m->nworkers; k++)
				metrics_hist_sum(&m->worker[k]->stage[op][stage], n, &sum_ns,
				                 &count);
			if (count > 0)
				metrics_text_hist(tx,
				                  metrics_labels(labels, "operation",
				                                 metrics_op_names[op], "stage",
				                                 metrics_stage_names[stage], NULL),
				                  n, sum_ns, 1);
		}
}

/** A copy of the slowest operation. */
struct slowest {
	uint64_t minute, total_ns, stage_ns[METRICS_STAGES];
	unsigned int export;
	union {
		unsigned long long words[METRICS_PEER / 8];
		char text[METRICS_PEER];
	} peer;
};

static bool
slowest_read(const struct metrics_slowest *from, struct slowest *to)
{
	for (unsigned int tries = 0; tries < 100; tries++) {
		const unsigned int turn = atomic_load_explicit(&from->turn, memory_order_acquire);

		to->minute = metrics_get(&from->minute);
		to->total_ns = metrics_get(&from->total_ns);
		to->export = atomic_load_explicit(&from->export, memory_order_relaxed);
		for (unsigned int i = 0; i < METRICS_STAGES; i++)
			to->stage_ns[i] = metrics_get(&from->stage_ns[i]);
		for (unsigned int i = 0; i < METRICS_PEER / 8; i++)
			to->peer.words[i] = metrics_get(&from->peer[i]);
		atomic_thread_fence(memory_order_acquire);
		if (turn % 2 == 0 &&
		    atomic_load_explicit(&from->turn, memory_order_relaxed) == turn)
			return turn != 0;
	}
	return false;
}

static void
render_slowest(const struct metrics *m, const struct metrics_shown *ms, struct metrics_text *tx,
               uint64_t minute)
{
	char labels[METRICS_LABELS_MAX];

	metrics_text_family(tx, METRICS_F_SLOWEST);
	for (unsigned int op = 0; op < METRICS_OPS; op++) {
		struct slowest most = {0}, one;
		const char *export;

		for (uint32_t k = 0; k < m->nworkers * 2; k++)
			if (slowest_read(&m->worker[k / 2]->slowest[op][k % 2], &one) &&
			    one.minute + 1 >= minute && one.total_ns >= most.total_ns)
				most = one;
		if (most.minute == 0)
			continue;
		export = metrics_shown_name(ms, most.export);
		most.peer.text[METRICS_PEER - 1] = '\0';
		for (unsigned int stage = 0; stage <= METRICS_STAGES; stage++) {
			const bool all = stage == METRICS_STAGES;

			if (!all && most.stage_ns[stage] == METRICS_NO_STAGE)
				continue;
			metrics_text_ns(
			        tx,
			        metrics_labels(labels, "operation", metrics_op_names[op], "export",
			                       export, "client", most.peer.text, "stage",
			                       all ? "all" : metrics_stage_names[stage], NULL),
			        all ? most.total_ns : most.stage_ns[stage]);
		}
	}
}

void
metrics_render_exports(const struct metrics *m, struct metrics_shown *ms, struct metrics_text *tx,
                       uint64_t now_ns)
{
	metrics_shown_write(ms, tx);
	render_stages(m, tx);
	render_slowest(m, ms, tx, now_ns / 60000000000ULL);
}
