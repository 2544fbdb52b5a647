/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Which logs of the process have a deliberate fault. */

#include <stddef.h>

#include "log_sabotage.h"

#define WRONG_LOGS 8

/** The logs created last. A log created at the address of a former one takes its place. */
static struct {
	const struct weft_log *log;
	enum log_sabotage fault;
} wrong[WRONG_LOGS];
static unsigned int next;

void
log_sabotage(const struct weft_log *log, enum log_sabotage fault)
{
	unsigned int i;

	for (i = 0; i < WRONG_LOGS && wrong[i].log != log; i++)
		;
	if (i == WRONG_LOGS)
		i = next++ % WRONG_LOGS;
	wrong[i].log = log;
	wrong[i].fault = fault;
}

bool
log_sabotaged(const struct weft_log *log, enum log_sabotage fault)
{
	for (unsigned int i = 0; i < WRONG_LOGS; i++)
		if (wrong[i].log == log)
			return wrong[i].fault == fault;
	return false;
}
