/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_LINES_H
#define WEFT_APPS_TARGET_LINES_H

/** @file The last lines of weft-target's log, for `weft-ctl support-bundle`. Lines of the library
 * and of DPDK, which go to the log by another way, are not among them. */

#include <stdio.h>

/** From now on lines are kept. Before the first thread. */
void target_lines_keep(void);
/** Print the last 512, the oldest first, each with its time (UTC). -ENOMEM. Any thread. */
int target_lines_print(FILE *out);

#endif /* WEFT_APPS_TARGET_LINES_H */
