/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Lines of the log as notes for the main thread (log_lines.h). */

#include "log_lines.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_log.h>

#include "worker_side.h"

/** The stream of DPDK's log. It stays when lines go elsewhere: a thread may be about to write. */
static FILE *stream;
/** A line that has no end yet. The lock of the stream protects it. */
static char part[512];
static size_t have;

static void
put(const char *text, size_t n)
{
	while (n > 0) {
		const char *nl = memchr(text, '\n', n);
		const size_t all = nl != NULL ? (size_t)(nl - text) : n;
		const size_t room = sizeof(part) - 1 - have, take = all < room ? all : room;

		memcpy(part + have, text, take);
		have += take;
		text += all + (nl != NULL);
		n -= all + (nl != NULL);
		if (nl == NULL)
			return;
		part[have] = '\0';
		if (have > 0)
			note_add(NOTE_LOG, NULL, NULL, "%s", part);
		have = 0;
	}
}

/** A cookie_write_function_t. Of a program that is about to end nothing may be lost. */
static ssize_t
on_write(void *cookie, const char *text, size_t n)
{
	(void)cookie;
	if (rte_log_cur_msg_loglevel() <= (int)RTE_LOG_CRIT) {
		if (write(STDERR_FILENO, text, n) < 0)
			return 0;
	} else {
		put(text, n);
	}
	return (ssize_t)n;
}

void
log_lines_begin(void)
{
	const cookie_io_functions_t fns = {.write = on_write};

	if (!isatty(STDERR_FILENO))
		return;
	if (stream == NULL)
		stream = fopencookie(NULL, "w", fns);
	if (stream != NULL)
		rte_openlog_stream(stream);
}

void
log_lines_end(void)
{
	if (stream != NULL)
		rte_openlog_stream(NULL);
}
