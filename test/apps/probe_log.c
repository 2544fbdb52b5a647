/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The writer of a log that a test kills: its records from the first one read to the trim. */

#include "probe_log.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ui.h"

static struct probe_log *writer; /* the one of the program, for acknowledgements */

int
probe_log_arg(struct probe_log *w, int argc, char **argv, int i)
{
	if (strcmp(argv[i], "verify") == 0) {
		w->verify = true;
		return 1;
	}
	if (strcmp(argv[i], "number") == 0 && i + 1 < argc) {
		w->number = strtoull(argv[i + 1], NULL, 10);
		return 2;
	}
	if (strcmp(argv[i], "kill") == 0 && i + 2 < argc) {
		w->victim = atoi(argv[i + 1]);
		w->victim_in = strtoull(argv[i + 2], NULL, 10);
		return 3;
	}
	return 0;
}

void
probe_log_read(struct probe_log *w, struct weft_log_chunk *chunk)
{
	struct weft_log_record rec;

	while (weft_log_chunk_next(chunk, &rec) == 1) {
		w->last = probe_record_had(&rec, w->last);
		w->history[w->last % PROBE_LOG_HISTORY] = rec.at;
	}
	w->at = chunk->at;
}

void
probe_log_up(struct probe_log *w)
{
	w->acked = w->last;
	w->next = w->last + 1;
	printf("up %llu\n", (unsigned long long)w->last);
	fflush(stdout);
}

static void
probe_log_acknowledged(void *arg, const struct weft_log_at *at, int status)
{
	struct probe_log *w = writer;
	uint64_t n = (uintptr_t)arg;

	if (status != 0)
		return; /* the event FAILED reports the reason */
	if (n != w->acked + 1)
		ui_die("acknowledged %llu behind %llu", (unsigned long long)n,
		       (unsigned long long)w->acked);
	probe_acknowledged(n, at);
	w->acked = n;
	w->history[n % PROBE_LOG_HISTORY] = *at;
	if (w->victim_in > 0 && --w->victim_in == 0)
		(void)kill(w->victim, SIGKILL);
}

bool
probe_log_append(struct probe_log *w, uint8_t *rec)
{
	struct weft_sge sge = {rec, probe_record_bytes(w->next), 0};
	struct weft_log_append a = {.sg_list = &sge,
	                            .num_sge = 1,
	                            .durable = probe_log_acknowledged,
	                            .arg = (void *)(uintptr_t)w->next};
	int rc;

	writer = w;
	probe_record_fill(rec, w->next, w->number);
	rc = weft_log_append(w->log, &a, NULL);
	if (rc == 0)
		w->next++;
	else if (rc != -EAGAIN && rc != -ENOSPC && rc != -EPIPE)
		ui_die("append: %s", strerror(-rc));
	return rc == 0;
}

void
probe_log_trim(struct probe_log *w)
{
	struct weft_log_info info;

	weft_log_query(w->log, &info);
	if (w->acked <= PROBE_LOG_HISTORY ||
	    info.durable.position - info.head.position <= info.ring_bytes / 2)
		return;
	probe_trims(w->acked + 1 - PROBE_LOG_HISTORY);
	(void)weft_log_trim(w->log, &w->history[(w->acked + 1) % PROBE_LOG_HISTORY]);
}
