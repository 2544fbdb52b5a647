/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_AHEAD_H
#define WEFT_APPS_TARGET_AHEAD_H

/**
 * @file The start opens volumes of files by helper threads, ahead of the program's thread, which
 * takes them in the order of the configuration. An opening waits for the disk, several times for a
 * volume that is made, and the waits of different volumes overlap. What is seen afterwards is what
 * openings one by one would have left.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct target;
struct target_ahead;

/** Begin with the exports of t->conf that are opened here. NULL: there are too few, or there is no
 * memory or thread for it. Program's thread, as are the others. */
struct target_ahead *target_ahead_begin(struct target *t);
/**
 * Whether export i is, or was, opened here; the numbers ascend. *rc and err are then as of
 * target_export_open(). Waits for it. False for NULL.
 */
bool target_ahead_take(struct target_ahead *a, uint32_t i, int *rc, char *err, size_t err_size);
/** End. Volumes that were opened and not taken are closed again, and what was made for them is
 * removed. Does nothing for NULL. */
void target_ahead_end(struct target_ahead *a);

#endif /* WEFT_APPS_TARGET_AHEAD_H */
