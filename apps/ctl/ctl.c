/* SPDX-License-Identifier: BSD-3-Clause */
/** @file weft-ctl: looks into a running weft-target, and changes what it does. */

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"
#include "ui.h"

#define NS_PER_MS 1000000ULL

static void
wait_until(uint64_t ns)
{
	const struct timespec at = {.tv_sec = (time_t)(ns / 1000000000ULL),
	                            .tv_nsec = (long)(ns % 1000000000ULL)};

	(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static int
print_json(const json_t *result)
{
	char *text = json_dumps(result, JSON_COMPACT);

	if (text == NULL)
		ui_die("out of memory");
	puts(text);
	free(text);
	return fflush(stdout);
}

int
main(int argc, char **argv)
{
	json_t *before = NULL, *result;
	uint64_t before_ns = 0, next_ns;
	struct ctl_fault f = {0};
	struct ctl_wish w;
	bool differs = false;
	int fd, saved = CTL_EXIT_OK;

	ui_init("weft-ctl");
	ctl_words(argc, argv, &w);
	fd = ctl_connect(w.socket);
	if (w.bundle != NULL)
		return ctl_bundle(fd, w.bundle, w.json);
	next_ns = ui_now_ns();
	for (uint64_t round = 1;; round++) {
		const uint64_t now = ui_now_ns();

		result = ctl_call(fd, w.method, w.params, &f);
		if (result == NULL)
			break;
		if (w.watch && !w.json && isatty(STDOUT_FILENO))
			fputs("\033[H\033[2J", stdout);
		if (w.save != NULL)
			saved = ctl_save(w.method, result, w.save);
		else if (w.json)
			(void)print_json(result);
		else
			ctl_show(w.method, result, before,
			         (double)(now - before_ns) / (double)(1000 * NS_PER_MS), w.wide);
		/* A pipe whose reader has ended ends a watch. */
		if (fflush(stdout) != 0)
			ui_die("cannot write the result");
		differs = json_is_true(json_object_get(result, "differs"));
		json_decref(before);
		before = result;
		before_ns = now;
		if (!w.watch || round == w.rounds)
			break;
		next_ns += w.interval_ms * NS_PER_MS;
		wait_until(next_ns);
	}
	json_decref(before);
	json_decref(w.params);
	close(fd);
	if (result != NULL)
		return differs ? CTL_EXIT_DIFFERS : saved;
	ui_msg("%s", f.text);
	return ctl_error_find(f.code)->exit;
}
