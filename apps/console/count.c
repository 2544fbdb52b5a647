/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Many posts in one line: they and their completions are counted, and the sum is shown. */

#include <inttypes.h>
#include <string.h>

#include "console.h"
#include "script.h"
#include "ui.h"

#define IDLE_MS 5000

bool
console_count_begin(struct cmdline *cl)
{
	if (con.counting.on)
		return false;
	/* What is under way is not counted. */
	console_wait(cl, IDLE_MS, console_idle, NULL);
	memset(&con.counting, 0, sizeof(con.counting));
	con.counting.begin_ns = ui_now_ns();
	con.counting.on = true;
	return true;
}

/** Wait until what was posted has completed, as long as something completes. */
static void
settle(struct cmdline *cl, const char *verb)
{
	uint64_t before;

	do {
		before = con.counting.completed;
		if (console_wait(cl, IDLE_MS, console_idle, NULL))
			return;
	} while (con.counting.completed != before && !interrupted());
	console_fail(cl, "%s: %u work requests are still outstanding", verb, console_outstanding());
}

void
console_count_end(struct cmdline *cl, const char *verb)
{
	char time[32];
	uint64_t ns;

	if (!con.failed)
		settle(cl, verb);
	con.counting.on = false;
	ns = ui_now_ns() - con.counting.begin_ns;
	cmdline_printf(cl, "%s: %" PRIu64 " posted, %" PRIu64 " completed, %s, %.0f a second\n",
	               verb, con.counting.posted, con.counting.completed,
	               ui_time(ns, time, sizeof(time)),
	               (double)con.counting.completed * 1e9 / (double)(ns > 0 ? ns : 1));
}
