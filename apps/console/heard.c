/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The events and completions that were printed and that no `wait for` has asked for yet. A
 * script thereby finds an event that came before it waited.
 */

#include <string.h>

#include "script.h"

#define HEARD_BYTES 16384

static char heard[HEARD_BYTES]; /* lines, each with a 0 at its end */
static size_t heard_bytes;

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
