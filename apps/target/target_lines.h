/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_LINES_H
#define WEFT_APPS_TARGET_LINES_H

/** @file The log: how its lines look, and the last of them for `weft-ctl support-bundle`. Lines of
 * the library and of DPDK are among them. */

#include <stdint.h>
#include <stdio.h>

/** From now on lines are kept, and those of the library go where the program's go. Before the first
 * thread. */
void target_lines_keep(void);
/** Have lines in this format (enum conf_log_format) from now on. Any thread. */
void target_lines_format(uint32_t format);
/** Print the last 512, the oldest first, each with its time (UTC). -ENOMEM. Any thread. */
int target_lines_print(FILE *out);

#endif /* WEFT_APPS_TARGET_LINES_H */
