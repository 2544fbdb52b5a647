/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Which log lines are printed, and where they go. */

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <rte_common.h>
#include <rte_log.h>

#include "engine_priv.h"

#define LOG_LINE_BYTES 1024

static const char *const log_level_names[] = {
        [RTE_LOG_EMERG] = "emergency", [RTE_LOG_ALERT] = "alert",     [RTE_LOG_CRIT] = "critical",
        [RTE_LOG_ERR] = "error",       [RTE_LOG_WARNING] = "warning", [RTE_LOG_NOTICE] = "notice",
        [RTE_LOG_INFO] = "info",       [RTE_LOG_DEBUG] = "debug",
};

int
weft_log_levels(const char *spec)
{
	if (spec == NULL)
		return -EINVAL;
	while (*spec != '\0') {
		size_t item = strcspn(spec, ","), type = strcspn(spec, ":");
		char pattern[64], level[16];
		uint32_t l;

		if (type >= item || type >= sizeof(pattern) || item - type - 1 >= sizeof(level))
			return -EINVAL;
		snprintf(pattern, sizeof(pattern), "%.*s", (int)type, spec);
		snprintf(level, sizeof(level), "%.*s", (int)(item - type - 1), spec + type + 1);
		for (l = RTE_LOG_EMERG; l < RTE_DIM(log_level_names); l++)
			if (strcmp(log_level_names[l], level) == 0)
				break;
		if (l == RTE_DIM(log_level_names) || rte_log_set_level_pattern(pattern, l) < 0)
			return -EINVAL;
		spec += item + (spec[item] == ',');
	}
	return 0;
}

/** The lock of this stream protects `log_part`. It is never closed: a thread may be about to write.
 */
static FILE *log_stream;
static void (*_Atomic log_fn)(int priority, const char *line);
/** A line that has no end yet. */
static char log_part[LOG_LINE_BYTES];
static size_t log_have;

/** The priority of syslog(3) for the line that this thread writes. */
static int
log_priority(void)
{
	const int level = rte_log_cur_msg_loglevel();

	return level > (int)RTE_LOG_EMERG && level <= (int)RTE_LOG_DEBUG ? level - 1
	                                                                 : (int)RTE_LOG_INFO - 1;
}

static void
log_line_end(void)
{
	void (*fn)(int, const char *) = atomic_load_explicit(&log_fn, memory_order_acquire);

	log_part[log_have] = '\0';
	if (log_have > 0 && fn != NULL)
		fn(log_priority(), log_part);
	log_have = 0;
}

/** A cookie_write_function_t. */
static ssize_t
log_write(void *cookie, const char *text, size_t n)
{
	(void)cookie;
	for (size_t i = 0; i < n; i++)
		if (text[i] == '\n')
			log_line_end();
		else if (log_have < sizeof(log_part) - 1)
			log_part[log_have++] = text[i];
	return (ssize_t)n;
}

int
weft_log_to(void (*fn)(int priority, const char *line))
{
	const cookie_io_functions_t fns = {.write = log_write};

	if (fn != NULL && log_stream == NULL) {
		log_stream = fopencookie(NULL, "w", fns);
		if (log_stream == NULL)
			return -ENOMEM;
		/* With a buffer, one thread would write out what another one has said, with its
		 * own level: rte_vlog() prints and flushes in two steps. */
		setvbuf(log_stream, NULL, _IONBF, 0);
	}
	if (fn != NULL)
		atomic_store_explicit(&log_fn, fn, memory_order_release);
	return rte_openlog_stream(fn != NULL ? log_stream : NULL) == 0 ? 0 : -ENOMEM;
}
