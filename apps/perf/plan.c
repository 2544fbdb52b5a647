/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Reads the plan of a sweep and expands it to jobs (plan.h). */

#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf.h"
#include "export_proto.h"
#include "file_open.h"
#include "plan.h"
#include "ui.h"

#define PLAN_MAX_TEXT 65536
#define PLAN_MAX_LINE 190 /* inih's buffer has 200 */
#define PLAN_LIST     64

/** A list of a section. */
struct plan_list {
	uint64_t v[PLAN_LIST];
	unsigned int n;
};

enum {
	KEY_TESTS,
	KEY_MODES,
	KEY_SIZES,
	KEY_DEPTHS,
	KEY_QPS,
	KEY_WORKERS,
	KEY_ROUNDS,
	KEY_ITERATIONS,
	KEY_DURATION,
	KEYS
};

static const char *const plan_keys[KEYS] = {"tests",   "modes",  "sizes",      "depths",  "qps",
                                            "workers", "rounds", "iterations", "duration"};

struct plan_reader {
	const char *name, *text;
	int line;
	struct plan *plan;
	char section[128];
	int section_line;
	struct plan_list list[KEYS];
	char *why;
	size_t why_bytes;
	int rc; /**< of the first fault */
};

/** Report a fault; only the first counts. */
static void __attribute__((format(printf, 3, 4)))
plan_fault(struct plan_reader *r, int line, const char *fmt, ...)
{
	va_list ap;
	size_t n;

	if (r->rc != 0)
		return;
	r->rc = -EINVAL;
	snprintf(r->why, r->why_bytes, "%s:%d: ", r->name, line);
	n = strlen(r->why);
	va_start(ap, fmt);
	vsnprintf(r->why + n, r->why_bytes - n, fmt, ap);
	va_end(ap);
}

/* ---- Expansion ---- */

static void
plan_add(struct plan_reader *r, const struct perf_job *job)
{
	const unsigned int rounds = (unsigned int)r->list[KEY_ROUNDS].v[0];
	struct plan *p = r->plan;
	struct plan_point *more;

	for (unsigned int i = 0; i < p->n; i++) {
		const struct perf_job *j = &p->at[i].job;

		if (j->test == job->test && j->latency == job->latency &&
		    j->size_bytes == job->size_bytes && j->depth == job->depth &&
		    j->qps == job->qps)
			return;
	}
	if (p->n == PLAN_MAX_POINTS) {
		plan_fault(r, r->section_line, "more than %u points", PLAN_MAX_POINTS);
		return;
	}
	more = realloc(p->at, (p->n + 1) * sizeof(*more));
	if (more == NULL) {
		plan_fault(r, r->section_line, "out of memory");
		return;
	}
	p->at = more;
	p->at[p->n++] = (struct plan_point){.job = *job, .rounds = rounds};
	p->runs += rounds;
	if (rounds > p->rounds)
		p->rounds = rounds;
}

/** Give a job its depth and size as the test has them, check both, and add it. */
static void
plan_add_checked(struct plan_reader *r, struct perf_job *job)
{
	const char *name = perf_test_names[job->test];
	uint64_t most = perf_is_rpc(job->test) ? WEFT_EXPORT_IO_MAX : PERF_MAX_BYTES;

	if (job->latency)
		job->depth = 1;
	/* several QPs are for what a plain work request does */
	if (job->latency || !perf_is_told(job->test) || perf_is_place(job->test))
		job->qps = 1;
	if (perf_is_word(job->test))
		job->size_bytes = 8;
	if (job->test == PERF_RPC_NULL)
		job->size_bytes = 1;
	if (perf_is_place(job->test))
		most = PERF_MAX_SLOTS_BYTES / perf_slots(job->test, job->depth);
	if (job->size_bytes > most)
		plan_fault(r, r->section_line,
		           "[%s]: %s at depth %u takes up to %llu octets, not %u", r->section, name,
		           job->depth, (unsigned long long)most, job->size_bytes);
	else if (perf_is_rpc(job->test) && job->depth > WEFT_RPC_MAX_CALLS)
		plan_fault(r, r->section_line, "[%s]: %s: the depth is %u at most", r->section,
		           name, WEFT_RPC_MAX_CALLS);
	else if (perf_is_two_sided(job->test) && !job->latency)
		plan_fault(r, r->section_line,
		           "[%s]: %s measures latency; give it a section with modes "
		           "= latency",
		           r->section, name);
	else
		plan_add(r, job);
}

static void
plan_defaults(struct plan_reader *r)
{
	static const struct plan_list sizes = {{64, 4096, 65536, 1 << 20}, 4}, one = {{1}, 1},
	                              none = {{0}, 1}, five = {{5}, 1};

	if (r->list[KEY_MODES].n == 0)
		r->list[KEY_MODES] = none; /* bandwidth */
	if (r->list[KEY_SIZES].n == 0)
		r->list[KEY_SIZES] = sizes;
	if (r->list[KEY_DEPTHS].n == 0)
		r->list[KEY_DEPTHS] = none; /* the test's own */
	if (r->list[KEY_ROUNDS].n == 0)
		r->list[KEY_ROUNDS] = five;
	for (unsigned int k = KEY_QPS; k <= KEY_WORKERS; k++)
		if (r->list[k].n == 0)
			r->list[k] = one;
	for (unsigned int k = KEY_ITERATIONS; k <= KEY_DURATION; k++)
		if (r->list[k].n == 0)
			r->list[k] = none;
}

/** One test in one mode, with a depth and a number of QPs: all its sizes. */
static void
plan_expand_sizes(struct plan_reader *r, enum perf_test test, bool latency, uint64_t depth,
                  uint64_t qps)
{
	const uint64_t duration = latency ? 0 : r->list[KEY_DURATION].v[0];

	for (unsigned int s = 0; s < r->list[KEY_SIZES].n; s++) {
		struct perf_job job = {
		        .test = test,
		        .latency = latency,
		        .size_bytes = (uint32_t)r->list[KEY_SIZES].v[s],
		        .depth = (uint32_t)depth,
		        .rx_depth = PERF_RX_DEPTH,
		        .qps = (uint32_t)qps,
		        .iterations = duration != 0 ? 0 : r->list[KEY_ITERATIONS].v[0],
		        .duration_s = (uint32_t)duration,
		        .rpc_version = 2,
		};

		if (job.depth == 0)
			job.depth = perf_is_rpc(test) ? 32 : 128;
		plan_add_checked(r, &job);
	}
}

static void
plan_expand_test(struct plan_reader *r, enum perf_test test, bool latency)
{
	for (unsigned int q = 0; q < r->list[KEY_QPS].n; q++)
		for (unsigned int d = 0; d < r->list[KEY_DEPTHS].n; d++)
			plan_expand_sizes(r, test, latency, r->list[KEY_DEPTHS].v[d],
			                  r->list[KEY_QPS].v[q]);
}

/** Expand the section that ends here. */
static void
plan_section_end(struct plan_reader *r)
{
	if (r->section[0] == '\0' || r->rc != 0)
		return;
	if (r->list[KEY_TESTS].n == 0) {
		plan_fault(r, r->section_line, "[%s]: which tests? tests = write, read",
		           r->section);
		return;
	}
	plan_defaults(r);
	for (unsigned int i = 0; i < r->list[KEY_WORKERS].n; i++)
		if (r->list[KEY_WORKERS].v[i] != 1)
			plan_fault(r, r->section_line, "[%s]: workers: weft-perf measures with 1",
			           r->section);
	for (unsigned int t = 0; t < r->list[KEY_TESTS].n; t++)
		for (unsigned int m = 0; m < r->list[KEY_MODES].n; m++)
			plan_expand_test(r, (enum perf_test)r->list[KEY_TESTS].v[t],
			                 r->list[KEY_MODES].v[m] != 0);
	memset(r->list, 0, sizeof(r->list));
}

/* ---- Values ---- */

static bool
plan_put(struct plan_reader *r, unsigned int key, uint64_t v)
{
	struct plan_list *l = &r->list[key];

	if (l->n == PLAN_LIST) {
		plan_fault(r, r->line, "%s: more than %u values", plan_keys[key], PLAN_LIST);
		return false;
	}
	l->v[l->n++] = v;
	return true;
}

static void
plan_take_test(struct plan_reader *r, const char *word)
{
	for (unsigned int t = 0; t < PERF_NTESTS; t++) {
		if (strcmp(word, perf_test_names[t]) == 0) {
			plan_put(r, KEY_TESTS, t);
			return;
		}
	}
	plan_fault(r, r->line, "tests: '%s' is no test; weft-perf --help names them", word);
}

static void
plan_take_mode(struct plan_reader *r, const char *word)
{
	if (strcmp(word, "bandwidth") == 0 || strcmp(word, "latency") == 0)
		plan_put(r, KEY_MODES, word[0] == 'l');
	else
		plan_fault(r, r->line, "modes: '%s' is neither bandwidth nor latency", word);
}

/** A size, or "64..1M": the sizes from 64 to 1M, each twice the one before. */
static void
plan_take_size(struct plan_reader *r, char *word)
{
	char *dots = strstr(word, "..");
	uint64_t first, last;

	if (dots != NULL)
		*dots = '\0';
	if (conf_parse_size(word, &first) != 0 || first < 1 || first > PERF_MAX_BYTES ||
	    (dots != NULL &&
	     (conf_parse_size(dots + 2, &last) != 0 || last < first || last > PERF_MAX_BYTES))) {
		plan_fault(r, r->line,
		           "sizes: '%s%s%s' is neither a size from 1 to 256M nor a range as 64..1M",
		           word, dots != NULL ? ".." : "", dots != NULL ? dots + 2 : "");
		return;
	}
	if (dots == NULL)
		last = first;
	for (uint64_t size = first; size <= last; size *= 2)
		if (!plan_put(r, KEY_SIZES, size))
			return;
}

static void
plan_take_number(struct plan_reader *r, unsigned int key, const char *word)
{
	static const uint64_t most[KEYS] = {[KEY_DEPTHS] = PERF_MAX_DEPTH,
	                                    [KEY_QPS] = PERF_MAX_QPS,
	                                    [KEY_WORKERS] = 1024,
	                                    [KEY_ROUNDS] = PLAN_MAX_ROUNDS,
	                                    [KEY_ITERATIONS] = 1000000000000ull,
	                                    [KEY_DURATION] = 86400};
	uint64_t v;

	if (ui_parse_u64(word, 1, most[key], &v) != 0)
		plan_fault(r, r->line, "%s: '%s' is not a number from 1 to %llu", plan_keys[key],
		           word, (unsigned long long)most[key]);
	else if (key >= KEY_ROUNDS && r->list[key].n > 0)
		plan_fault(r, r->line, "%s: one number, not a list", plan_keys[key]);
	else
		plan_put(r, key, v);
}

static void
plan_take(struct plan_reader *r, unsigned int key, const char *value)
{
	char copy[256], *rest = copy, *word;

	snprintf(copy, sizeof(copy), "%s", value);
	while ((word = strsep(&rest, ",")) != NULL) {
		word += strspn(word, " \t");
		word[strcspn(word, " \t")] = '\0';
		if (*word == '\0')
			plan_fault(r, r->line, "%s: an empty value; write a, b, c", plan_keys[key]);
		else if (key == KEY_TESTS)
			plan_take_test(r, word);
		else if (key == KEY_MODES)
			plan_take_mode(r, word);
		else if (key == KEY_SIZES)
			plan_take_size(r, word);
		else
			plan_take_number(r, key, word);
	}
}

/* ---- Lines ---- */

static int
plan_handler(void *user, const char *section, const char *name, const char *value)
{
	struct plan_reader *r = user;
	unsigned int key = 0;

	if (strcmp(section, r->section) != 0) {
		plan_section_end(r);
		snprintf(r->section, sizeof(r->section), "%s", section);
		r->section_line = r->line;
	}
	if (section[0] == '\0') {
		plan_fault(r, r->line, "%s: no [sweep] line stands above this one", name);
		return 1;
	}
	if (strcmp(section, "sweep") != 0 && strncmp(section, "sweep ", 6) != 0) {
		plan_fault(r, r->line, "[%s]: the sections are [sweep] and [sweep NAME]", section);
		return 1;
	}
	while (key < KEYS && strcmp(name, plan_keys[key]) != 0)
		key++;
	if (key == KEYS)
		plan_fault(r, r->line,
		           "unknown key '%s'; there are tests, modes, sizes, depths, qps, "
		           "workers, rounds, iterations, duration",
		           name);
	else if (r->list[key].n > 0)
		plan_fault(r, r->line, "%s: twice in [%s]", name, section);
	else
		plan_take(r, key, value);
	return 1;
}

/** inih's reader, which counts lines. */
static char *
plan_read_line(char *str, int num, void *stream)
{
	struct plan_reader *r = stream;
	size_t n = strcspn(r->text, "\n");

	if (*r->text == '\0' || r->rc != 0)
		return NULL;
	r->line++;
	if (n > PLAN_MAX_LINE || (int)n + 2 > num) {
		plan_fault(r, r->line, "longer than %d octets; use another [sweep NAME]",
		           PLAN_MAX_LINE);
		return NULL;
	}
	n += r->text[n] == '\n';
	/* an indented line would continue the value above it */
	snprintf(str, (size_t)num, "%.*s", (int)n, r->text);
	memmove(str, str + strspn(str, " \t"), strlen(str + strspn(str, " \t")) + 1);
	r->text += n;
	return str;
}

int
plan_load_string(const char *name, const char *text, struct plan *p, char *why, size_t why_bytes)
{
	struct plan_reader *r = calloc(1, sizeof(*r));
	int junk, rc;

	*p = (struct plan){0};
	if (r == NULL)
		return snprintf(why, why_bytes, "%s: out of memory", name), -ENOMEM;
	*r = (struct plan_reader){
	        .name = name, .text = text, .plan = p, .why = why, .why_bytes = why_bytes};
	junk = ini_parse_stream(plan_read_line, r, plan_handler, r);
	if (junk != 0)
		plan_fault(r, junk > 0 ? junk : r->line, "is neither [sweep] nor KEY = VALUE");
	plan_section_end(r);
	if (p->n == 0)
		plan_fault(r, r->line, "there is no [sweep] section with tests");
	rc = r->rc;
	free(r);
	if (rc != 0)
		plan_free(p);
	return rc;
}

int
plan_load(const char *path, struct plan *p, char *why, size_t why_bytes)
{
	static char text[PLAN_MAX_TEXT + 1];
	char said[256];
	int fd = file_open(path, said, sizeof(said));
	ssize_t n;
	size_t len = 0;

	*p = (struct plan){0};
	if (fd < 0) {
		snprintf(why, why_bytes, "%s: %s", path, said);
		return fd;
	}
	while ((n = read(fd, text + len, PLAN_MAX_TEXT - len)) > 0)
		len += (size_t)n;
	close(fd);
	text[len] = '\0';
	if (n == 0 && len < PLAN_MAX_TEXT && strlen(text) == len)
		return plan_load_string(path, text, p, why, why_bytes);
	snprintf(why, why_bytes, "%s: is no plan; it is a text of less than 64 KiB", path);
	return -EINVAL;
}

void
plan_free(struct plan *p)
{
	free(p->at);
	*p = (struct plan){0};
}

const struct plan_point *
plan_run(const struct plan *p, unsigned int i, unsigned int *round)
{
	for (*round = 1;; (*round)++) {
		for (unsigned int k = 0; k < p->n; k++)
			if (*round <= p->at[k].rounds && i-- == 0)
				return &p->at[k];
	}
}
