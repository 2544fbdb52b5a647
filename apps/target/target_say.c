/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Log lines that a peer can provoke: a limited number a second. */

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "target_say.h"
#include "ui.h"
#include <weft/limit.h>

#define TARGET_LINES_A_SEC 20
#define NS_PER_SEC         1000000000ULL

/* Separate limits, so that strangers cannot suppress messages about exports. */
static struct weft_limit peer_lines, export_lines, slow_lines;

/** Whether a line may be written. Says first how many were not. */
static bool
target_may_say(struct weft_limit *limit, uint32_t lines_a_sec)
{
	uint32_t held;

	if (!weft_limit_ok(limit, lines_a_sec, ui_now_ns(), NS_PER_SEC, &held))
		return false;
	if (held > 0)
		ui_msg(UI_WARNING "%" PRIu32 " lines left out", held);
	return true;
}

static void
target_say(const char *fmt, va_list ap)
{
	const int priority = ui_priority(&fmt);
	char text[1024];

	vsnprintf(text, sizeof(text), fmt, ap);
	ui_msg_at(priority, "%s", text);
}

void
target_log(const char *fmt, ...)
{
	va_list ap;

	if (!target_may_say(&peer_lines, TARGET_LINES_A_SEC))
		return;
	va_start(ap, fmt);
	target_say(fmt, ap);
	va_end(ap);
}

void
target_log_export(const char *fmt, ...)
{
	va_list ap;

	if (!target_may_say(&export_lines, TARGET_LINES_A_SEC))
		return;
	va_start(ap, fmt);
	target_say(fmt, ap);
	va_end(ap);
}

bool
target_may_log_slow(void)
{
	return target_may_say(&slow_lines, 1);
}

void
target_log_slow(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	target_say(fmt, ap);
	va_end(ap);
}
