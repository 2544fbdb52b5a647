/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Reads the plan of a sweep and expands it to jobs (plan.h). */

#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf.h"
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
	KEY_LISTS,
	KEY_RATES,
	KEY_BOTH,
	KEY_EVENTS,
	KEY_WORKERS,
	KEY_ROUNDS,
	KEY_ITERATIONS,
	KEY_DURATION,
	KEYS
};

/** A list of numbers from min to max, or of no and yes (max 1), with `unset` where it is absent. */
static const struct plan_key {
	const char *name;
	uint64_t min, max, unset;
} plan_keys[KEYS] = {
        [KEY_TESTS] = {.name = "tests"},
        [KEY_MODES] = {.name = "modes"}, /* unset: bandwidth */
        [KEY_SIZES] = {.name = "sizes"},
        [KEY_DEPTHS] = {.name = "depths", .min = 1, .max = PERF_MAX_DEPTH}, /* unset: the test's */
        [KEY_QPS] = {.name = "qps", .min = 1, .max = PERF_MAX_QPS, .unset = 1},
        [KEY_LISTS] = {.name = "post_lists", .max = PERF_MAX_POST_LIST},
        [KEY_RATES] = {.name = "rates", .max = 1000000000000ull},
        [KEY_BOTH] = {.name = "bidirectional", .max = 1},
        [KEY_EVENTS] = {.name = "events", .max = 1},
        [KEY_WORKERS] = {.name = "workers", .min = 1, .max = PERF_MAX_WORKERS, .unset = 1},
        [KEY_ROUNDS] = {.name = "rounds", .min = 1, .max = PLAN_MAX_ROUNDS, .unset = 5},
        [KEY_ITERATIONS] = {.name = "iterations", .min = 1, .max = 1000000000000ull},
        [KEY_DURATION] = {.name = "duration", .min = 1, .max = 86400},
};

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

/** Whether two jobs are one point. */
static bool
plan_same(const struct perf_job *a, const struct perf_job *b)
{
	return a->test == b->test && a->latency == b->latency && a->size_bytes == b->size_bytes &&
	       a->depth == b->depth && a->qps == b->qps && a->post_list == b->post_list &&
	       a->rate == b->rate && a->both_ways == b->both_ways && a->events == b->events &&
	       a->workers == b->workers;
}

static void
plan_add(struct plan_reader *r, const struct perf_job *job)
{
	const unsigned int rounds = (unsigned int)r->list[KEY_ROUNDS].v[0];
	struct plan *p = r->plan;
	struct plan_point *more;

	for (unsigned int i = 0; i < p->n; i++)
		if (plan_same(&p->at[i].job, job))
			return;
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
	p->workers = job->workers > p->workers ? job->workers : p->workers;
	if (rounds > p->rounds)
		p->rounds = rounds;
}

/** Give a job what its test and mode have whatever the lists say, check it, and add it. */
static void
plan_add_checked(struct plan_reader *r, struct perf_job *job)
{
	char why[256];

	if (job->latency)
		job->depth = 1;
	/* These shapes are for what a plain work request does. */
	if (job->latency || !perf_is_plain(job->test)) {
		job->qps = job->workers = 1;
		job->post_list = 0;
		job->both_ways = false;
		job->rate = 0;
	}
	if (perf_is_word(job->test))
		job->both_ways = false;
	if (!perf_may_sleep(job->test, job->latency))
		job->events = false;
	if (job->qps < job->workers)
		job->qps = job->workers;
	if (perf_is_word(job->test))
		job->size_bytes = 8;
	if (job->test == PERF_RPC_NULL)
		job->size_bytes = 1;
	if (perf_job_check(job, why, sizeof(why)))
		plan_add(r, job);
	else
		plan_fault(r, r->section_line, "[%s]: %s", r->section, why);
}

static void
plan_defaults(struct plan_reader *r)
{
	static const struct plan_list sizes = {{64, 4096, 65536, 1 << 20}, 4};

	if (r->list[KEY_SIZES].n == 0)
		r->list[KEY_SIZES] = sizes;
	for (unsigned int k = 0; k < KEYS; k++)
		if (r->list[k].n == 0)
			r->list[k] = (struct plan_list){{plan_keys[k].unset}, 1};
}

/** One point of a section's product: a value of each list. */
static void
plan_point(struct plan_reader *r, const uint64_t v[KEYS])
{
	struct perf_job job = {
	        .test = (enum perf_test)v[KEY_TESTS],
	        .latency = v[KEY_MODES] != 0,
	        .size_bytes = (uint32_t)v[KEY_SIZES],
	        .depth = (uint32_t)v[KEY_DEPTHS],
	        .rx_depth = PERF_RX_DEPTH,
	        .qps = (uint32_t)v[KEY_QPS],
	        .post_list = (uint32_t)v[KEY_LISTS],
	        .rate = (double)v[KEY_RATES],
	        .both_ways = v[KEY_BOTH] != 0,
	        .events = v[KEY_EVENTS] != 0,
	        .workers = (uint32_t)v[KEY_WORKERS],
	        .duration_s = v[KEY_MODES] != 0 ? 0 : (uint32_t)v[KEY_DURATION],
	        .rpc_version = 2,
	        .connect_s = PERF_CONNECT_S,
	};

	job.iterations = job.duration_s != 0 ? 0 : v[KEY_ITERATIONS];
	if (job.depth == 0)
		job.depth = perf_default_depth(job.test);
	plan_add_checked(r, &job);
}

/** Each point of the product; the lists that stand last here change first. */
static void
plan_product(struct plan_reader *r)
{
	static const unsigned char order[] = {KEY_TESTS,  KEY_MODES, KEY_WORKERS, KEY_EVENTS,
	                                      KEY_BOTH,   KEY_RATES, KEY_LISTS,   KEY_QPS,
	                                      KEY_DEPTHS, KEY_SIZES};
	unsigned int at[sizeof(order)] = {0}, k;
	uint64_t v[KEYS];

	for (unsigned int i = 0; i < KEYS; i++)
		v[i] = r->list[i].v[0];
	do {
		for (k = 0; k < sizeof(order); k++)
			v[order[k]] = r->list[order[k]].v[at[k]];
		plan_point(r, v);
		for (k = sizeof(order); k > 0; k--) {
			if (++at[k - 1] < r->list[order[k - 1]].n)
				break;
			at[k - 1] = 0;
		}
	} while (k > 0 && r->rc == 0);
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
	plan_product(r);
	memset(r->list, 0, sizeof(r->list));
}

/* ---- Values ---- */

static bool
plan_put(struct plan_reader *r, unsigned int key, uint64_t v)
{
	struct plan_list *l = &r->list[key];

	if (l->n == PLAN_LIST) {
		plan_fault(r, r->line, "%s: more than %u values", plan_keys[key].name, PLAN_LIST);
		return false;
	}
	l->v[l->n++] = v;
	return true;
}

static void
plan_take_test(struct plan_reader *r, const char *word)
{
	for (unsigned int t = 0; t < PERF_NTESTS; t++) {
		if (strcmp(word, perf_test_names[t]) == 0 && !perf_is_volume(t)) {
			plan_put(r, KEY_TESTS, t);
			return;
		}
	}
	if (strncmp(word, "volume-", 7) == 0)
		plan_fault(r, r->line, "tests: '%s' is of a weft-target, not of a sweep", word);
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
	const struct plan_key *k = &plan_keys[key];
	uint64_t v;

	if (ui_parse_u64(word, k->min, k->max, &v) != 0)
		plan_fault(r, r->line, "%s: '%s' is not a number from %llu to %llu", k->name, word,
		           (unsigned long long)k->min, (unsigned long long)k->max);
	else if (key >= KEY_ROUNDS && r->list[key].n > 0)
		plan_fault(r, r->line, "%s: one number, not a list", k->name);
	else
		plan_put(r, key, v);
}

static void
plan_take_choice(struct plan_reader *r, unsigned int key, const char *word)
{
	if (strcmp(word, "no") == 0 || strcmp(word, "yes") == 0)
		plan_put(r, key, word[0] == 'y');
	else
		plan_fault(r, r->line, "%s: '%s' is neither no nor yes", plan_keys[key].name, word);
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
			plan_fault(r, r->line, "%s: an empty value; write a, b, c",
			           plan_keys[key].name);
		else if (key == KEY_TESTS)
			plan_take_test(r, word);
		else if (key == KEY_MODES)
			plan_take_mode(r, word);
		else if (key == KEY_SIZES)
			plan_take_size(r, word);
		else if (key == KEY_BOTH || key == KEY_EVENTS)
			plan_take_choice(r, key, word);
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
	while (key < KEYS && strcmp(name, plan_keys[key].name) != 0)
		key++;
	if (key == KEYS)
		plan_fault(r, r->line,
		           "unknown key '%s'; there are tests, modes, sizes, depths, qps, "
		           "post_lists, rates, bidirectional, events, workers, rounds, "
		           "iterations, duration",
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
