/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Messages, sizes and times as text, the progress bar. */

#include "ui.h"
#include "ui_line.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include <weft/weft.h>

#define UI_PROGRESS_NS 100000000ULL /* between two drawings */
#define UI_RATE_S      3.0          /* time over which the rate is smoothed */

static const char *ui_name = "weft";
static int ui_exit_fail = UI_EXIT_FAIL, ui_exit_usage = UI_EXIT_USAGE;

void
ui_init(const char *progname)
{
	ui_name = progname;
	ui_line_init();
}

void
ui_exit_statuses(int fail, int usage)
{
	ui_exit_fail = fail;
	ui_exit_usage = usage;
}

const char *
ui_progname(void)
{
	return ui_name;
}

int
ui_priority(const char **fmt)
{
	if ((*fmt)[0] != '\001' || (*fmt)[1] < '0' || (*fmt)[1] > '7')
		return LOG_INFO;
	*fmt += 2;
	return (*fmt)[-1] - '0';
}

static void
ui_vmsg(int priority, const char *fmt, va_list ap)
{
	char line[UI_LINE_BYTES];
	const int n = snprintf(line, sizeof(line), "%s: ", ui_name);

	vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
	ui_line(priority, line);
}

void
ui_msg(const char *fmt, ...)
{
	const int priority = ui_priority(&fmt);
	va_list ap;

	va_start(ap, fmt);
	ui_vmsg(priority, fmt, ap);
	va_end(ap);
}

void
ui_msg_at(int priority, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	ui_vmsg(priority, fmt, ap);
	va_end(ap);
}

void
ui_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	ui_vmsg(LOG_ERR, fmt, ap);
	va_end(ap);
	exit(ui_exit_fail);
}

void
ui_usage_die(const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	ui_msg_at(LOG_ERR, "%s (%s --help tells how)", line, ui_name);
	exit(ui_exit_usage);
}

void
ui_bad_option(char *const *argv, const struct option *longopts)
{
	const char *word = argv[optind - 1];
	const size_t n = strcspn(word, "=");
	const struct option *found = NULL, *letter = NULL;
	bool exact = false;
	unsigned int like = 0;

	/* optopt is 0 when the word is no long option, or fits several; else it is the value of
	 * the option meant. */
	for (const struct option *o = longopts; o->name != NULL; o++) {
		if (o->val == optopt)
			letter = o;
		if (n < 3 || strncmp(word, "--", 2) != 0 || exact ||
		    strncmp(o->name, word + 2, n - 2) != 0)
			continue;
		exact = strlen(o->name) == n - 2;
		like = exact ? 1 : like + 1;
		found = o;
	}
	if (optopt == 0)
		ui_usage_die("%.*s: %s", (int)n, word,
		             like > 1 ? "several options begin like that" : "unknown option");
	if (found != NULL && found->val == optopt)
		ui_usage_die("--%s %s", found->name,
		             found->has_arg == no_argument ? "takes no value" : "needs a value");
	/* A short option; its word may be the next one of argv. */
	if (letter != NULL && letter->has_arg == required_argument)
		ui_usage_die("-%c needs a value", optopt);
	ui_usage_die("-%c: unknown option, or its value is missing", optopt);
}

const char *
ui_bytes(uint64_t bytes, char *buf, size_t size)
{
	static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double v = (double)bytes;
	unsigned int u = 0;

	while (v >= 1024 && u + 1 < sizeof(unit) / sizeof(unit[0])) {
		v /= 1024;
		u++;
	}
	if (u == 0)
		snprintf(buf, size, "%" PRIu64 " B", bytes);
	else
		snprintf(buf, size, "%.2f %s", v, unit[u]);
	return buf;
}

const char *
ui_time(uint64_t ns, char *buf, size_t size)
{
	if (ns < 1000)
		snprintf(buf, size, "%" PRIu64 " ns", ns);
	else if (ns < 1000000)
		snprintf(buf, size, "%.1f us", (double)ns / 1e3);
	else if (ns < 1000000000)
		snprintf(buf, size, "%.2f ms", (double)ns / 1e6);
	else
		snprintf(buf, size, "%.2f s", (double)ns / 1e9);
	return buf;
}

int
ui_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *out)
{
	unsigned long long v;
	char *end;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	errno = 0;
	v = strtoull(s, &end, 10);
	if (*end != '\0')
		return -EINVAL;
	if (errno == ERANGE || v < min || v > max)
		return -ERANGE;
	*out = v;
	return 0;
}

uint64_t
ui_arg_u64(const char *option, const char *value, uint64_t min, uint64_t max)
{
	uint64_t v;

	if (ui_parse_u64(value, min, max, &v) != 0)
		ui_usage_die("%s: '%s' is not a number from %" PRIu64 " to %" PRIu64, option, value,
		             min, max);
	return v;
}

uint64_t
ui_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

void
ui_progress_start(struct ui_progress *p, const char *what, uint64_t total, bool quiet)
{
	memset(p, 0, sizeof(*p));
	p->on = !quiet && isatty(STDERR_FILENO);
	p->total = total;
	ui_printable(what, p->what, sizeof(p->what));
	p->start_ns = ui_now_ns();
}

const char *
ui_left(double secs, char *buf, size_t size)
{
	const uint64_t s = secs < 1e9 ? (uint64_t)(secs + 0.5) : 1000000000;

	if (s < 60)
		snprintf(buf, size, "%" PRIu64 " s", s);
	else if (s < 3600)
		snprintf(buf, size, "%" PRIu64 ":%02" PRIu64 " min", s / 60, s % 60);
	else
		snprintf(buf, size, "%" PRIu64 ":%02" PRIu64 " h", s / 3600, s / 60 % 60);
	return buf;
}

/** The rate of late: the average so far, and after some seconds what is older fades. */
static void
ui_progress_rate(struct ui_progress *p, uint64_t done, uint64_t now)
{
	const uint64_t from = p->last_ns != 0 ? p->last_ns : p->start_ns;
	const double secs = (double)(now - from) / 1e9, all = (double)(now - p->start_ns) / 1e9;

	if (secs > 0) {
		const double rate = done > p->last_done ? (double)(done - p->last_done) / secs : 0;
		const double over = all < UI_RATE_S ? all : UI_RATE_S;

		p->rate += secs < over ? (rate - p->rate) * secs / over : rate - p->rate;
	}
	p->last_done = done;
}

void
ui_progress_update(struct ui_progress *p, uint64_t done)
{
	enum { WIDTH = 30 };
	char bar[WIDTH + 1], b1[32], b2[32], left[32] = "?";
	uint64_t now;
	double part;

	if (!p->on)
		return;
	now = ui_now_ns();
	if (now - p->last_ns < UI_PROGRESS_NS)
		return;
	ui_progress_rate(p, done, now);
	p->last_ns = now;
	if (p->total == UI_TOTAL_UNKNOWN) {
		fprintf(stderr, "\r%s  %s  %.0f MB/s \033[K", p->what,
		        ui_bytes(done, b1, sizeof(b1)), p->rate / 1e6);
		fflush(stderr);
		return;
	}
	part = p->total == 0 ? 1 : (double)done / (double)p->total;
	if (part > 1)
		part = 1;
	if (p->rate > 0)
		ui_left(done < p->total ? (double)(p->total - done) / p->rate : 0, left,
		        sizeof(left));
	for (int i = 0; i < WIDTH; i++)
		bar[i] = i < (int)(part * WIDTH) ? '#' : '.';
	bar[WIDTH] = '\0';
	fprintf(stderr, "\r%s [%s] %3.0f %%  %s of %s  %.0f MB/s  %s left \033[K", p->what, bar,
	        part * 100, ui_bytes(done, b1, sizeof(b1)), ui_bytes(p->total, b2, sizeof(b2)),
	        p->rate / 1e6, left);
	fflush(stderr);
}

void
ui_progress_end(struct ui_progress *p)
{
	if (p->on && p->last_ns != 0) {
		fputs("\r\033[K", stderr);
		fflush(stderr);
	}
	p->on = false;
}

#define UI_MMAP_BYTES (32 << 20)
#define UI_TRIM_BYTES (256 << 20)

void
ui_keep_memory(void)
{
	(void)mallopt(M_MMAP_THRESHOLD, UI_MMAP_BYTES);
	/* malloc_trim() gives back the top of the first arena alone, and threads would have arenas
	 * of their own. */
	(void)mallopt(M_ARENA_MAX, 1);
	(void)mallopt(M_TRIM_THRESHOLD, UI_TRIM_BYTES);
}
