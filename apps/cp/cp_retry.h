/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_CP_RETRY_H
#define WEFT_APPS_CP_RETRY_H

/** @file A transfer that is tried again after a failure that may pass (cp_retry.c). */

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "cp.h"

struct cp_retry {
	uint32_t retries; /**< without progress in between */
	uint64_t wait_ns; /**< before the first one; each further one waits twice as long */
	/** of attempts that go on after a lost connection, without progress; these are no `retries`
	 */
	uint64_t reconnect_ns;
	uint64_t lost_ns; /**< when an attempt before these has lost it; 0: there was none */
	const char *temp; /**< its temporary file; "": none */
	const char *what; /**< begins the lines; NULL: nothing */
	volatile sig_atomic_t *stop;
	/** One attempt, in a process of its own. The exit status; shared->err has the reason. */
	int (*attempt)(void *arg, struct cp_shared *shared, bool again);
	void *arg;
};

/**
 * Run attempts until one succeeds, fails for good, or there are no more: the exit status of the
 * last one, with one line on standard error for each that failed. Each attempt begins with a stack
 * of its own, as a new weft-cp would, whatever became of the port of the one before. The caller has
 * started no thread and no EAL.
 */
int cp_retry_run(const struct cp_retry *r);

/** Say that the connection is lost, and that the transfer goes on. */
void cp_retry_say(const struct cp_retry *r, const char *err);

#endif /* WEFT_APPS_CP_RETRY_H */
