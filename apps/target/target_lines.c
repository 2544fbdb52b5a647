/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A ring of log lines. The lock is held while a line is copied. A thread that logs has the
 * lock of the standard error stream as well, for longer. */

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "conf.h"
#include "target_lines.h"
#include "ui.h"
#include <weft/worker.h>

#define LINES_KEPT 512U
#define LINE_TEXT  400U /* what is longer is cut */

struct line {
	time_t at_s;
	char text[LINE_TEXT];
};

static struct line lines[LINES_KEPT];
static uint64_t nlines; /* since the start */
static pthread_mutex_t lines_lock = PTHREAD_MUTEX_INITIALIZER;

static void
lines_add(const char *text)
{
	struct line *l;

	pthread_mutex_lock(&lines_lock);
	l = &lines[nlines++ % LINES_KEPT];
	l->at_s = time(NULL);
	snprintf(l->text, sizeof(l->text), "%s", text);
	pthread_mutex_unlock(&lines_lock);
}

void
target_lines_keep(void)
{
	ui_on_line(lines_add);
	/* Without memory they go to standard error as they are. */
	(void)weft_log_to(ui_line);
}

void
target_lines_format(uint32_t format)
{
	static const enum ui_format formats[] = {
	        [CONF_LOG_TEXT] = UI_TEXT, [CONF_LOG_TIME] = UI_TIME, [CONF_LOG_JSON] = UI_JSON};

	ui_set_format(formats[format]);
}

int
target_lines_print(FILE *out)
{
	struct line *copy = malloc(sizeof(lines));
	uint64_t n;

	if (copy == NULL)
		return -ENOMEM;
	/* A worker may want to log. */
	pthread_mutex_lock(&lines_lock);
	memcpy(copy, lines, sizeof(lines));
	n = nlines;
	pthread_mutex_unlock(&lines_lock);
	for (uint64_t i = n > LINES_KEPT ? n - LINES_KEPT : 0; i < n; i++) {
		const struct line *l = &copy[i % LINES_KEPT];
		char at[32] = "";
		struct tm tm;

		if (gmtime_r(&l->at_s, &tm) != NULL)
			strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%SZ", &tm);
		fprintf(out, "%s %s\n", at, l->text);
	}
	free(copy);
	return 0;
}
