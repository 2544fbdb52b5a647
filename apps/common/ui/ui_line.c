/* SPDX-License-Identifier: BSD-3-Clause */
/** @file One line on standard error: as text, with its time and level, or as JSON; in the journal
 * of systemd behind its priority. */

#include "ui_line.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "json.h"
#include "ui.h"
#include "wrap.h"

#define LINE_NAME_MAX 40U /* octets of a component */
#define LINE_MARK     3   /* octets of a priority in the journal, "<3>" */

static bool line_journal; /* lines begin with their priority */
static _Atomic enum ui_format line_format;
static void (*line_fn)(const char *line);

/** Whether standard error is the journal that JOURNAL_STREAM names (systemd.exec(5)). */
static bool
line_is_journal(void)
{
	const char *named = getenv("JOURNAL_STREAM");
	struct stat st;
	char is[64];

	if (named == NULL || fstat(STDERR_FILENO, &st) != 0)
		return false;
	snprintf(is, sizeof(is), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	return strcmp(is, named) == 0;
}

void
ui_line_init(void)
{
	line_journal = line_is_journal();
}

const char *
ui_printable(const char *s, char *buf, size_t size)
{
	size_t i = 0;

	while (i + 1 < size && s[i] != '\0') {
		const unsigned char *c = (const unsigned char *)s + i;
		unsigned int n = json_utf8_len(c);

		if (n > 1 && i + n >= size)
			break;
		/* U+0080 to U+009F are controls as well: C2 80 to C2 9F. */
		if (n == 0 || *c < 0x20 || *c == 0x7f || (*c == 0xc2 && c[1] < 0xa0)) {
			buf[i++] = '?';
			continue;
		}
		memmove(buf + i, s + i, n);
		i += n;
	}
	buf[i] = '\0';
	return buf;
}

void
ui_set_format(enum ui_format format)
{
	atomic_store_explicit(&line_format, format, memory_order_relaxed);
}

void
ui_on_line(void (*fn)(const char *line))
{
	line_fn = fn;
}

static const char *
line_level(int priority)
{
	static const char *const names[] = {
	        [LOG_EMERG] = "emergency", [LOG_ALERT] = "alert",     [LOG_CRIT] = "critical",
	        [LOG_ERR] = "error",       [LOG_WARNING] = "warning", [LOG_NOTICE] = "notice",
	        [LOG_INFO] = "info",       [LOG_DEBUG] = "debug"};

	return names[LOG_PRI(priority)];
}

/** The time of day, UTC (RFC 3339). */
static void
line_time(char *buf, size_t size)
{
	struct timespec now = {0};
	struct tm tm = {0};
	size_t n;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	n = strftime(buf, size, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(buf + n, size - n, ".%06ldZ", now.tv_nsec / 1000);
}

/** Octets of the name that a line begins with, before ": "; 0: there is none. */
static size_t
line_component(const char *line)
{
	const size_t n = strspn(line, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	                              "0123456789_.-");

	return n <= LINE_NAME_MAX && line[n] == ':' && line[n + 1] == ' ' ? n : 0;
}

/** Append text as it stands in a JSON string, as far as there is room. Returns the length. */
static size_t
line_escape(char *buf, size_t n, size_t size, const char *text)
{
	char c[JSON_ESCAPED + 1];

	while (*text != '\0') {
		size_t len;

		text += json_escape(text, c);
		len = strlen(c);
		if (len >= size - n)
			break;
		memcpy(buf + n, c, len + 1);
		n += len;
	}
	return n;
}

/* Octets that control a terminal are escaped, so nothing of the line is lost. */
static void
line_json(int priority, const char *line)
{
	static const char end[] = "\"}\n";
	char all[JSON_ESCAPED * UI_LINE_BYTES + 256], at[40];
	const size_t name = line_component(line);
	size_t n;

	line_time(at, sizeof(at));
	n = (size_t)snprintf(
	        all, sizeof(all),
	        "<%d>{\"time\":\"%s\",\"level\":\"%s\",\"component\":\"%.*s\",\"message\":\"",
	        LOG_PRI(priority), at, line_level(priority), name > 0 ? (int)name : 4,
	        name > 0 ? line : "dpdk");
	n = line_escape(all, n, sizeof(all) - sizeof(end), name > 0 ? line + name + 2 : line);
	memcpy(all + n, end, sizeof(end));
	/* One write, so that lines of several threads do not mix. */
	fputs(all + (line_journal ? 0 : LINE_MARK), stderr);
	fflush(stderr);
}

void
ui_line(int priority, const char *line)
{
	const enum ui_format format = atomic_load_explicit(&line_format, memory_order_relaxed);
	char all[UI_LINE_BYTES + 64], at[40] = "";
	int n = LINE_MARK;

	fflush(stdout);
	if (format == UI_TIME) {
		line_time(at, sizeof(at));
		n = snprintf(all, sizeof(all), "<%d>%s %s ", LOG_PRI(priority), at,
		             line_level(priority));
	} else {
		(void)snprintf(all, sizeof(all), "<%d>", LOG_PRI(priority));
	}
	ui_printable(line, all + n, sizeof(all) - (size_t)n);
	if (line_fn != NULL)
		line_fn(all + n);
	if (format == UI_JSON)
		line_json(priority, line);
	else
		wrap_text(stderr, line_journal ? all : all + LINE_MARK);
}
