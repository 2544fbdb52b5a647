/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Metrics of exports, operations and stages as a text. Metrics thread. */

#include <stdlib.h>
#include <string.h>

#include "metrics_read.h"
#include "target.h"
#include "target_volume.h"

/** An export, as its names were. Its counters are read while the text is made. */
struct shown {
	struct target_export *ex;
	uint32_t slot;
	bool volume, log;
	char label[METRICS_LABELS_MAX], name[CONF_NAME_MAX + 1];
};

struct exports {
	struct metrics *m;
	struct metrics_text *tx;
	struct shown *row;
	uint32_t n;
};

static bool
exports_begin(struct exports *e)
{
	struct target *t = e->m->t;
	const uint32_t slots = target_nexports(t); /* it may grow meanwhile */

	e->row = malloc((slots + 1) * sizeof(*e->row));
	if (e->row == NULL)
		return false;
	pthread_mutex_lock(&t->exports_lock);
	for (uint32_t i = 0; i < slots; i++) {
		struct target_export *ex = &t->exports[i];
		struct shown *s = &e->row[e->n];

		if (target_export_gone(ex))
			continue;
		e->n++;
		s->ex = ex;
		s->slot = i;
		s->volume = target_is_volume(ex);
		s->log = target_is_log(ex);
		memcpy(s->name, ex->conf->name, sizeof(s->name));
		metrics_labels(s->label, "export", s->name, NULL);
	}
	pthread_mutex_unlock(&t->exports_lock);
	return true;
}

/** A family of atomic counters of struct target_export. */
static void
of_exports(struct exports *e, enum metrics_family f, size_t off)
{
	metrics_text_family(e->tx, f);
	for (uint32_t i = 0; i < e->n; i++)
		metrics_text_u64(
		        e->tx, e->row[i].label,
		        metrics_get(
		                (const atomic_ullong *)(const void *)((const char *)e->row[i].ex +
		                                                      off)));
}

static void
render_state(struct exports *e)
{
	char labels[METRICS_LABELS_MAX];

	metrics_text_family(e->tx, METRICS_F_EX_INFO);
	for (uint32_t i = 0; i < e->n; i++) {
		const struct shown *s = &e->row[i];

		metrics_text_u64(e->tx,
		                 metrics_labels(labels, "export", s->name, "format",
		                                s->volume ? "volume"
		                                : s->log  ? "log"
		                                          : "object",
		                                NULL),
		                 1);
	}
	metrics_text_family(e->tx, METRICS_F_EX_UP);
	for (uint32_t i = 0; i < e->n; i++) {
		const struct target_export *ex = e->row[i].ex;

		metrics_text_u64(e->tx, e->row[i].label,
		                 target_export_up(ex) && !target_file_lost(ex) &&
		                         atomic_load_explicit(&ex->held, memory_order_relaxed) ==
		                                 TARGET_HELD_NO);
	}
	metrics_text_family(e->tx, METRICS_F_EX_HELD);
	for (uint32_t i = 0; i < e->n; i++)
		metrics_text_u64(e->tx, e->row[i].label,
		                 atomic_load_explicit(&e->row[i].ex->held, memory_order_relaxed) !=
		                         TARGET_HELD_NO);
	metrics_text_family(e->tx, METRICS_F_EX_CAPACITY);
	for (uint32_t i = 0; i < e->n; i++)
		metrics_text_u64(e->tx, e->row[i].label,
		                 metrics_get(&e->m->capacity[e->row[i].slot]));
	metrics_text_family(e->tx, METRICS_F_EX_GRANTS);
	for (uint32_t i = 0; i < e->n; i++)
		metrics_text_u64(e->tx, e->row[i].label,
		                 atomic_load_explicit(&e->row[i].ex->grants, memory_order_relaxed));
}

/** The sum of a counter of struct metrics_export over the workers. */
static uint64_t
sum_of(const struct metrics *m, uint32_t slot, size_t off)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < m->nworkers; i++)
		n += metrics_get((const atomic_ullong *)(const void *)((const char *)&m->worker[i]
		                                                               ->exports[slot] +
		                                                       off));
	return n;
}

static void
render_by(struct exports *e, enum metrics_family f, size_t off)
{
	static const char *const by[METRICS_BYS] = {"push", "call"};
	char labels[METRICS_LABELS_MAX];

	metrics_text_family(e->tx, f);
	for (uint32_t i = 0; i < e->n; i++)
		for (unsigned int k = 0; k < METRICS_BYS; k++)
			metrics_text_u64(
			        e->tx,
			        metrics_labels(labels, "export", e->row[i].name, "by", by[k], NULL),
			        sum_of(e->m, e->row[i].slot, off + k * sizeof(atomic_ullong)));
}

static void
render_volume(struct exports *e, enum metrics_family f, size_t off)
{
	const struct target *t = e->m->t;

	metrics_text_family(e->tx, f);
	for (uint32_t i = 0; i < e->n; i++) {
		uint64_t n = 0;

		if (!e->row[i].volume)
			continue;
		for (uint32_t k = 0; k < t->stack.nworkers; k++)
			if (t->workers[k].volumes != NULL)
				n += metrics_get(
				        (const atomic_ullong
				                 *)(const void *)((const char *)&t->workers[k]
				                                          .volumes
				                                          ->chan[e->row[i].slot] +
				                                  off));
		metrics_text_u64(e->tx, e->row[i].label, n);
	}
}

static void
hist_sum(const struct metrics_hist *h, uint64_t n[METRICS_BUCKETS], uint64_t *sum_ns,
         uint64_t *count)
{
	for (unsigned int i = 0; i < METRICS_BUCKETS; i++) {
		const uint64_t v = metrics_get(&h->n[i]);

		n[i] += v;
		*count += v;
	}
	*sum_ns += metrics_get(&h->sum_ns);
}

/** A bit for each operation that a worker has done on the export. */
static unsigned int
ops_done(const struct metrics *m, uint32_t slot)
{
	unsigned int done = 0;

	for (uint32_t k = 0; k < m->nworkers; k++)
		done |= atomic_load_explicit(&m->worker[k]->exports[slot].done,
		                             memory_order_relaxed);
	return done;
}

/** Operations that were never done have no samples: there are many. */
static void
render_operations(struct exports *e)
{
	char labels[METRICS_LABELS_MAX];

	metrics_text_family(e->tx, METRICS_F_EX_SECONDS);
	for (uint32_t i = 0; i < e->n; i++) {
		const unsigned int done = ops_done(e->m, e->row[i].slot);

		for (unsigned int op = 0; op < METRICS_OPS; op++) {
			uint64_t n[METRICS_BUCKETS] = {0}, sum_ns = 0, count = 0;

			if ((done & 1U << op) == 0)
				continue;
			for (uint32_t k = 0; k < e->m->nworkers; k++)
				hist_sum(&e->m->worker[k]->exports[e->row[i].slot].op[op], n,
				         &sum_ns, &count);
			if (count > 0)
				metrics_text_hist(e->tx,
				                  metrics_labels(labels, "export", e->row[i].name,
				                                 "operation", metrics_op_names[op],
				                                 NULL),
				                  n, sum_ns, 2);
		}
	}
}

static void
render_stages(struct exports *e)
{
	char labels[METRICS_LABELS_MAX];

	metrics_text_family(e->tx, METRICS_F_STAGE);
	for (unsigned int op = 0; op < METRICS_OPS; op++)
		for (unsigned int stage = 0; stage < METRICS_STAGES; stage++) {
			uint64_t n[METRICS_BUCKETS] = {0}, sum_ns = 0, count = 0;

			for (uint32_t k = 0; k < e->m->nworkers; k++)
				hist_sum(&e->m->worker[k]->stage[op][stage], n, &sum_ns, &count);
			if (count > 0)
				metrics_text_hist(e->tx,
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
render_slowest(struct exports *e, uint64_t minute)
{
	char labels[METRICS_LABELS_MAX];

	metrics_text_family(e->tx, METRICS_F_SLOWEST);
	for (unsigned int op = 0; op < METRICS_OPS; op++) {
		struct slowest most = {0}, one;
		const char *export = "";

		for (uint32_t k = 0; k < e->m->nworkers * 2; k++)
			if (slowest_read(&e->m->worker[k / 2]->slowest[op][k % 2], &one) &&
			    one.minute + 1 >= minute && one.total_ns >= most.total_ns)
				most = one;
		if (most.minute == 0)
			continue;
		for (uint32_t i = 0; i < e->n; i++)
			if (e->row[i].slot == most.export)
				export = e->row[i].name;
		most.peer.text[METRICS_PEER - 1] = '\0';
		for (unsigned int stage = 0; stage <= METRICS_STAGES; stage++) {
			const bool all = stage == METRICS_STAGES;

			if (!all && most.stage_ns[stage] == METRICS_NO_STAGE)
				continue;
			metrics_text_ns(
			        e->tx,
			        metrics_labels(labels, "operation", metrics_op_names[op], "export",
			                       export, "client", most.peer.text, "stage",
			                       all ? "all" : metrics_stage_names[stage], NULL),
			        all ? most.total_ns : most.stage_ns[stage]);
		}
	}
}

void
metrics_render_exports(struct metrics *m, struct metrics_text *tx, uint64_t now_ns)
{
	struct exports e = {.m = m, .tx = tx};

	if (!exports_begin(&e)) {
		tx->failed = true;
		return;
	}
	render_state(&e);
	of_exports(&e, METRICS_F_EX_READS, offsetof(struct target_export, io_reads));
	of_exports(&e, METRICS_F_EX_READ_BYTES, offsetof(struct target_export, io_read_bytes));
	of_exports(&e, METRICS_F_EX_WRITES, offsetof(struct target_export, io_writes));
	of_exports(&e, METRICS_F_EX_WRITE_BYTES, offsetof(struct target_export, io_write_bytes));
	render_by(&e, METRICS_F_EX_FLUSHES, offsetof(struct metrics_export, flushes));
	render_by(&e, METRICS_F_EX_FLUSHED, offsetof(struct metrics_export, flushed_bytes));
	of_exports(&e, METRICS_F_EX_REFUSED, offsetof(struct target_export, io_refused));
	metrics_text_family(tx, METRICS_F_EX_FAILED);
	for (uint32_t i = 0; i < e.n; i++)
		metrics_text_u64(tx, e.row[i].label,
		                 sum_of(m, e.row[i].slot, offsetof(struct metrics_export, failed)));
	of_exports(&e, METRICS_F_EX_BAD, offsetof(struct target_export, bad_ranges));
	metrics_text_family(tx, METRICS_F_EX_LOST);
	for (uint32_t i = 0; i < e.n; i++)
		metrics_text_u64(
		        tx, e.row[i].label,
		        atomic_load_explicit(&e.row[i].ex->files_lost, memory_order_relaxed));
	render_volume(&e, METRICS_F_EX_DAMAGED, offsetof(struct target_vchan, damaged));
	render_volume(&e, METRICS_F_EX_LATE, offsetof(struct target_vchan, late));
	render_volume(&e, METRICS_F_EX_RANGE, offsetof(struct target_vchan, range_waits));
	render_operations(&e);
	render_stages(&e);
	render_slowest(&e, now_ns / 60000000000ULL);
	free(e.row);
}
