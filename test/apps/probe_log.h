/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TEST_PROBE_LOG_H
#define WEFT_TEST_PROBE_LOG_H

/** @file The writer of a log that a test kills: what it reads, appends and trims, and the lines on
 * standard output by which the test judges (probe.h describes a record). */

#include <sys/types.h>

#include "probe.h"

#define PROBE_LOG_HISTORY 512 /**< records that remain after a trim at least */

struct probe_log {
	struct weft_log *log;
	struct weft_log_at at; /**< position while reading */
	uint64_t last;         /**< number read last; 0: none */
	uint64_t next, acked;
	unsigned int depth;
	uint64_t number; /**< in its records */
	bool verify;
	pid_t victim;
	uint64_t victim_in; /**< acknowledgements until the kill; 0: no kill */
	struct weft_log_at history[PROBE_LOG_HISTORY];
};

/** Take "verify", "number N" or "kill PID COUNT" at argv[i]. Returns the number of words taken; 0:
 * it is something else. */
int probe_log_arg(struct probe_log *w, int argc, char **argv, int i);
/** Check and print the records of a chunk, and go to its end. */
void probe_log_read(struct probe_log *w, struct weft_log_chunk *chunk);
/** All records are read: print "up N". */
void probe_log_up(struct probe_log *w);
/** Append the next record, which is built at rec. Returns whether it was taken; if not, there is no
 * room now or the log has ended. */
bool probe_log_append(struct probe_log *w, uint8_t *rec);
/** When half of the ring is in use, trim all records older than PROBE_LOG_HISTORY records. */
void probe_log_trim(struct probe_log *w);

#endif /* WEFT_TEST_PROBE_LOG_H */
