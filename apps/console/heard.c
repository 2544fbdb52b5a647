/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The events and completions that were printed: those that no `wait for` has asked for yet,
 * so that a script finds an event that came before it waited, and the last ones, for people.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <cmdline.h>

#include "script.h"
#include "ui.h"

#define HEARD_BYTES  16384
#define RECENT_LINES 100
#define RECENT_BYTES 200

static char heard[HEARD_BYTES]; /* lines, each with a 0 at its end */
static size_t heard_bytes;

/** The last lines, and when they came. */
static struct {
	uint64_t ns;
	char line[RECENT_BYTES];
} recent[RECENT_LINES];
static uint64_t recent_lines; /* in all */

/** Remove the line at this place. */
static void
heard_drop(size_t at)
{
	const size_t n = strlen(heard + at) + 1;

	heard_bytes -= n;
	memmove(heard + at, heard + at + n, heard_bytes - at);
}

void
heard_add(const char *line)
{
	const size_t n = strlen(line) + 1;

	recent[recent_lines % RECENT_LINES].ns = ui_now_ns();
	snprintf(recent[recent_lines++ % RECENT_LINES].line, RECENT_BYTES, "%s", line);
	while (heard_bytes + n > sizeof(heard))
		heard_drop(0);
	memcpy(heard + heard_bytes, line, n);
	heard_bytes += n;
}

bool
heard_take(const struct pattern *pt)
{
	for (size_t at = 0; at < heard_bytes; at += strlen(heard + at) + 1)
		if (pattern_in(pt, heard + at)) {
			heard_drop(at);
			return true;
		}
	return false;
}

void
heard_print(struct cmdline *cl)
{
	const uint64_t now = ui_now_ns();
	uint64_t i = recent_lines > RECENT_LINES ? recent_lines - RECENT_LINES : 0;

	for (; i < recent_lines; i++)
		cmdline_printf(cl, "%10.3f s ago  %s\n",
		               (double)(now - recent[i % RECENT_LINES].ns) / 1e9,
		               recent[i % RECENT_LINES].line);
}
