/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file What is shown of each export, kept from scrape to scrape. Of thousands of exports few have
 * operations between two scrapes. So a scrape reads all counters, writes again the samples whose
 * value has changed, and copies the others as they were. Metrics thread.
 */

#include <stdlib.h>
#include <string.h>

#include "metrics_read.h"
#include "target.h"
#include "target_volume.h"

enum col {
	COL_INFO,
	COL_UP,
	COL_HELD,
	COL_CAPACITY,
	COL_GRANTS,
	COL_READS,
	COL_READ_BYTES,
	COL_WRITES,
	COL_WRITE_BYTES,
	COL_FLUSHES, /* of each enum metrics_by */
	COL_FLUSHED = COL_FLUSHES + METRICS_BYS,
	COL_REFUSED = COL_FLUSHED + METRICS_BYS,
	COL_FAILED,
	COL_BAD,
	COL_LOST,
	COL_DAMAGED,
	COL_LATE,
	COL_RANGE,
	COLS
};

/** A family of exports: one sample of each, or one of each enum metrics_by. */
static const struct section {
	enum metrics_family family;
	enum col first;
	bool by;      /**< METRICS_BYS columns */
	bool volumes; /**< of volumes alone */
} sections[] = {
        {METRICS_F_EX_INFO, COL_INFO, false, false},
        {METRICS_F_EX_UP, COL_UP, false, false},
        {METRICS_F_EX_HELD, COL_HELD, false, false},
        {METRICS_F_EX_CAPACITY, COL_CAPACITY, false, false},
        {METRICS_F_EX_GRANTS, COL_GRANTS, false, false},
        {METRICS_F_EX_READS, COL_READS, false, false},
        {METRICS_F_EX_READ_BYTES, COL_READ_BYTES, false, false},
        {METRICS_F_EX_WRITES, COL_WRITES, false, false},
        {METRICS_F_EX_WRITE_BYTES, COL_WRITE_BYTES, false, false},
        {METRICS_F_EX_FLUSHES, COL_FLUSHES, true, false},
        {METRICS_F_EX_FLUSHED, COL_FLUSHED, true, false},
        {METRICS_F_EX_REFUSED, COL_REFUSED, false, false},
        {METRICS_F_EX_FAILED, COL_FAILED, false, false},
        {METRICS_F_EX_BAD, COL_BAD, false, false},
        {METRICS_F_EX_LOST, COL_LOST, false, false},
        {METRICS_F_EX_DAMAGED, COL_DAMAGED, false, true},
        {METRICS_F_EX_LATE, COL_LATE, false, true},
        {METRICS_F_EX_RANGE, COL_RANGE, false, true},
};
#define SECTIONS (sizeof(sections) / sizeof(sections[0]))
/** More changed samples than one in so many: the family is written anew. */
#define ANEW_PART 16U

struct shown {
	struct target_export *ex;
	uint32_t slot;
	uint32_t changed; /**< a bit for each column whose value is not the one that is written */
	bool volume, log;
	char name[CONF_NAME_MAX + 1];
	uint64_t value[COLS];
	unsigned int done; /**< a bit for each operation that a worker has done on it */
	/* Its operations: the samples, and the sums that they were written for. */
	struct metrics_text ops;
	uint64_t ops_done, ops_ns;
};

struct metrics_shown {
	struct metrics *m;
	struct shown *row;
	uint32_t n;
	unsigned int changes; /**< target.exports_changes, of the rows */
	bool made;            /**< there are rows of that */
	bool anew;            /**< all samples have to be written */
	uint32_t changed;     /**< a bit for each column that has changed in any row */
	uint32_t *changed_row, nchanged;
	struct metrics_text text[SECTIONS], line;
	uint32_t *end[SECTIONS]; /**< where a row's samples end */
	struct metrics_exports_sum sum;
};

/* ---- Rows ---- */

static void
rows_free(struct metrics_shown *ms)
{
	for (uint32_t i = 0; i < ms->n; i++)
		free(ms->row[i].ops.buf);
	free(ms->row);
	free(ms->changed_row);
	for (unsigned int s = 0; s < SECTIONS; s++) {
		free(ms->end[s]);
		ms->end[s] = NULL;
	}
	ms->row = NULL;
	ms->changed_row = NULL;
	ms->n = 0;
	ms->made = false;
}

static bool
rows_room(struct metrics_shown *ms, uint32_t n)
{
	bool ok;

	ms->row = calloc(n + 1, sizeof(*ms->row));
	ms->changed_row = malloc((n + 1) * sizeof(*ms->changed_row));
	ok = ms->row != NULL && ms->changed_row != NULL;
	for (unsigned int s = 0; s < SECTIONS; s++) {
		ms->end[s] = malloc((n + 1) * sizeof(*ms->end[s]));
		ok = ok && ms->end[s] != NULL;
	}
	return ok;
}

/** The exports that there are. False: no memory. */
static bool
rows_make(struct metrics_shown *ms)
{
	struct target *t = ms->m->t;
	const unsigned int changes =
	        atomic_load_explicit(&t->exports_changes, memory_order_acquire);
	const uint32_t slots = target_nexports(t); /* it may grow meanwhile */

	if (ms->made && changes == ms->changes)
		return true;
	rows_free(ms);
	if (!rows_room(ms, slots)) {
		rows_free(ms);
		return false;
	}
	pthread_mutex_lock(&t->exports_lock);
	for (uint32_t i = 0; i < slots; i++) {
		struct target_export *ex = &t->exports[i];
		struct shown *s = &ms->row[ms->n];

		if (target_export_gone(ex))
			continue;
		ms->n++;
		s->ex = ex;
		s->slot = i;
		s->volume = target_is_volume(ex);
		s->log = target_is_log(ex);
		memcpy(s->name, ex->conf->name, sizeof(s->name));
	}
	pthread_mutex_unlock(&t->exports_lock);
	ms->changes = changes;
	ms->made = ms->anew = true;
	return true;
}

/* ---- Values ---- */

static uint64_t
of_volume(const struct target_worker *tw, uint32_t slot, size_t off)
{
	const char *vc = (const char *)&tw->volumes->chan[slot];

	return metrics_get((const atomic_ullong *)(const void *)(vc + off));
}

/** The counters of an export, those of all workers together. Its members lie apart from each other:
 * this reads each of its pages once. */
static void
row_read(const struct metrics_shown *ms, struct shown *s, uint64_t v[COLS])
{
	const struct metrics *m = ms->m;
	const struct target_export *ex = s->ex;

	v[COL_INFO] = 1;
	v[COL_HELD] = atomic_load_explicit(&ex->held, memory_order_relaxed) != TARGET_HELD_NO;
	v[COL_UP] = v[COL_HELD] == 0 && !target_file_seen_lost(ex);
	v[COL_CAPACITY] = metrics_get(&m->capacity[s->slot]);
	v[COL_GRANTS] = atomic_load_explicit(&ex->grants, memory_order_relaxed);
	v[COL_READS] = metrics_get(&ex->io_reads);
	v[COL_READ_BYTES] = metrics_get(&ex->io_read_bytes);
	v[COL_WRITES] = metrics_get(&ex->io_writes);
	v[COL_WRITE_BYTES] = metrics_get(&ex->io_write_bytes);
	v[COL_REFUSED] = metrics_get(&ex->io_refused);
	v[COL_BAD] = metrics_get(&ex->bad_ranges);
	v[COL_LOST] = atomic_load_explicit(&ex->files_lost, memory_order_relaxed);
	for (uint32_t k = 0; k < m->nworkers; k++) {
		const struct metrics_export *me = &m->worker[k]->exports[s->slot];
		const struct target_worker *tw = &m->t->workers[k];

		s->done |= atomic_load_explicit(&me->done, memory_order_relaxed);
		for (unsigned int by = 0; by < METRICS_BYS; by++) {
			v[COL_FLUSHES + by] += metrics_get(&me->flushes[by]);
			v[COL_FLUSHED + by] += metrics_get(&me->flushed_bytes[by]);
		}
		v[COL_FAILED] += metrics_get(&me->failed);
		if (!s->volume || tw->volumes == NULL)
			continue;
		v[COL_DAMAGED] += of_volume(tw, s->slot, offsetof(struct target_vchan, damaged));
		v[COL_LATE] += of_volume(tw, s->slot, offsetof(struct target_vchan, late));
		v[COL_RANGE] += of_volume(tw, s->slot, offsetof(struct target_vchan, range_waits));
	}
}

bool
metrics_shown_read(struct metrics_shown *ms)
{
	ms->sum = (struct metrics_exports_sum){0};
	ms->nchanged = 0;
	if (!rows_make(ms))
		return false;
	ms->sum.exports = ms->n;
	for (uint32_t i = 0; i < ms->n; i++) {
		struct shown *s = &ms->row[i];
		uint64_t v[COLS] = {0};

		row_read(ms, s, v);
		for (unsigned int c = 0; c < COLS; c++)
			s->changed |= (uint32_t)(v[c] != s->value[c]) << c;
		memcpy(s->value, v, sizeof(v));
		ms->changed |= s->changed;
		if (s->changed != 0)
			ms->changed_row[ms->nchanged++] = i;
		ms->sum.served += v[COL_UP] != 0;
		ms->sum.busy |= v[COL_GRANTS] != 0 ||
		                atomic_load_explicit(&s->ex->ios, memory_order_relaxed) != 0 ||
		                atomic_load_explicit(&s->ex->reads, memory_order_relaxed) != 0;
	}
	return true;
}

const struct metrics_exports_sum *
metrics_shown_sum(const struct metrics_shown *ms)
{
	return &ms->sum;
}

const char *
metrics_shown_name(const struct metrics_shown *ms, unsigned int slot)
{
	for (uint32_t i = 0; i < ms->n; i++)
		if (ms->row[i].slot == slot)
			return ms->row[i].name;
	return "";
}

/* ---- Samples ---- */

/** Write a row's samples of a section. */
static void
row_write(const struct shown *s, const struct section *sec, struct metrics_text *tx)
{
	static const char *const by[METRICS_BYS] = {"push", "call"};
	char labels[METRICS_LABELS_MAX];

	tx->now = sec->family;
	if (sec->volumes && !s->volume)
		return;
	if (sec->by) {
		for (unsigned int k = 0; k < METRICS_BYS; k++)
			metrics_text_u64(
			        tx, metrics_labels(labels, "export", s->name, "by", by[k], NULL),
			        s->value[sec->first + k]);
		return;
	}
	if (sec->first == COL_INFO)
		metrics_labels(labels, "export", s->name, "format",
		               s->volume ? "volume"
		               : s->log  ? "log"
		                         : "object",
		               NULL);
	else
		metrics_labels(labels, "export", s->name, NULL);
	metrics_text_u64(tx, labels, s->value[sec->first]);
}

static uint32_t
columns_of(const struct section *sec)
{
	return (sec->by ? (1U << METRICS_BYS) - 1 : 1U) << sec->first;
}

static void
section_anew(struct metrics_shown *ms, unsigned int k)
{
	ms->text[k].len = 0;
	ms->text[k].failed = false;
	for (uint32_t i = 0; i < ms->n; i++) {
		row_write(&ms->row[i], &sections[k], &ms->text[k]);
		ms->end[k][i] = (uint32_t)ms->text[k].len;
	}
}

/** Put a row's new samples in the place of the old ones. */
static void
section_patch(struct metrics_shown *ms, unsigned int k, uint32_t i)
{
	struct metrics_text *tx = &ms->text[k];
	const size_t begin = i > 0 ? ms->end[k][i - 1] : 0, end = ms->end[k][i];
	const size_t tail = tx->len - end;
	int64_t more;

	ms->line.len = 0;
	row_write(&ms->row[i], &sections[k], &ms->line);
	more = (int64_t)ms->line.len - (int64_t)(end - begin);
	if (ms->line.failed || (more > 0 && !metrics_text_room(tx, (size_t)more))) {
		tx->failed = true;
		return;
	}
	if (more != 0) {
		memmove(tx->buf + begin + ms->line.len, tx->buf + end, tail);
		for (uint32_t j = i; j < ms->n; j++)
			ms->end[k][j] = (uint32_t)(ms->end[k][j] + more);
		tx->len = begin + ms->line.len + tail;
	}
	memcpy(tx->buf + begin, ms->line.buf, ms->line.len);
}

static void
section_update(struct metrics_shown *ms, unsigned int k)
{
	const uint32_t mine = columns_of(&sections[k]);
	uint32_t n = 0;

	if (!ms->anew && (ms->changed & mine) == 0)
		return;
	for (uint32_t c = 0; c < ms->nchanged; c++)
		n += (ms->row[ms->changed_row[c]].changed & mine) != 0;
	if (ms->anew || n > ms->n / ANEW_PART + 1) {
		section_anew(ms, k);
		return;
	}
	for (uint32_t c = 0; c < ms->nchanged; c++)
		if ((ms->row[ms->changed_row[c]].changed & mine) != 0)
			section_patch(ms, k, ms->changed_row[c]);
}

void
metrics_hist_sum(const struct metrics_hist *h, uint64_t n[METRICS_BUCKETS], uint64_t *sum_ns,
                 uint64_t *count)
{
	for (unsigned int i = 0; i < METRICS_BUCKETS; i++) {
		const uint64_t v = metrics_get(&h->n[i]);

		n[i] += v;
		*count += v;
	}
	*sum_ns += metrics_get(&h->sum_ns);
}

/** The samples of a row's operations. Those that were never done have none: there are many. */
static void
row_operations(struct metrics_shown *ms, struct shown *s, struct metrics_text *tx)
{
	uint64_t n[METRICS_OPS][METRICS_BUCKETS] = {{0}}, ns[METRICS_OPS] = {0};
	uint64_t count[METRICS_OPS] = {0}, all = 0, all_ns = 0;
	char labels[METRICS_LABELS_MAX];

	if (s->done == 0)
		return;
	for (unsigned int op = 0; op < METRICS_OPS; op++) {
		for (uint32_t k = 0; k < ms->m->nworkers && (s->done & 1U << op) != 0; k++)
			metrics_hist_sum(&ms->m->worker[k]->exports[s->slot].op[op], n[op], &ns[op],
			                 &count[op]);
		all += count[op];
		all_ns += ns[op];
	}
	/* Neither ever falls. */
	if (all != s->ops_done || all_ns != s->ops_ns || s->ops.failed) {
		s->ops.len = 0;
		s->ops.failed = false;
		s->ops.now = METRICS_F_EX_SECONDS;
		for (unsigned int op = 0; op < METRICS_OPS; op++)
			if (count[op] > 0)
				metrics_text_hist(&s->ops,
				                  metrics_labels(labels, "export", s->name,
				                                 "operation", metrics_op_names[op],
				                                 NULL),
				                  n[op], ns[op], 2);
		s->ops_done = all;
		s->ops_ns = all_ns;
	}
	metrics_text_append(tx, &s->ops);
}

void
metrics_shown_write(struct metrics_shown *ms, struct metrics_text *tx)
{
	for (unsigned int k = 0; k < SECTIONS; k++) {
		section_update(ms, k);
		metrics_text_family(tx, sections[k].family);
		metrics_text_append(tx, &ms->text[k]);
	}
	metrics_text_family(tx, METRICS_F_EX_SECONDS);
	for (uint32_t i = 0; i < ms->n; i++)
		row_operations(ms, &ms->row[i], tx);
	for (uint32_t c = 0; c < ms->nchanged; c++)
		ms->row[ms->changed_row[c]].changed = 0;
	ms->changed = 0;
	/* What has failed is written anew by the next one. */
	ms->line.failed = false;
	ms->anew = tx->failed;
}

struct metrics_shown *
metrics_shown_make(struct metrics *m)
{
	struct metrics_shown *ms = calloc(1, sizeof(*ms));

	if (ms != NULL)
		ms->m = m;
	return ms;
}

void
metrics_shown_free(struct metrics_shown *ms)
{
	if (ms == NULL)
		return;
	rows_free(ms);
	for (unsigned int k = 0; k < SECTIONS; k++)
		free(ms->text[k].buf);
	free(ms->line.buf);
	free(ms);
}
