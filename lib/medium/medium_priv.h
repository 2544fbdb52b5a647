/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MEDIUM_PRIV_H
#define MEDIUM_PRIV_H

/** @file Declarations shared by the sources of lib/medium. */

#include "weft_medium.h"

WEFT_LOG_DECLARE(medium);

struct medium_guard;
struct weft_medium;

/** Guard the mapping of an open medium. -ENOMEM. Set-up thread. */
int medium_guard_add(const uint8_t *base, uint64_t bytes, struct medium_guard **out);
/**
 * Called before the mapping is removed. Waits for threads that are using the entry. Does nothing
 * for NULL.
 */
void medium_guard_del(struct medium_guard *g);

/**
 * Called when a medium is open, and before it is closed. Does nothing for a medium without dirty
 * pages to mark. -ENOMEM.
 */
int medium_marked_add(struct weft_persist *p);
void medium_marked_del(struct weft_persist *p);

/**
 * Check whether another process has written to the file since it was watched. Then the medium is
 * lost with `status` from now on. Returns md->lost. Any thread.
 */
int medium_foreign_look(struct weft_medium *md, int status);
/** Stop watching the file. */
void medium_foreign_end(struct weft_medium *md);

#endif /* MEDIUM_PRIV_H */
