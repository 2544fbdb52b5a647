/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MEDIUM_PRIV_H
#define MEDIUM_PRIV_H

/**
 * @file
 * What the sources of lib/medium share among themselves.
 */

#include "weft_medium.h"

WEFT_LOG_DECLARE(medium);

struct medium_guard;
struct weft_medium;

/** Guard an open medium's mapping. -ENOMEM. Set-up thread. */
int medium_guard_add(const uint8_t *base, uint64_t bytes, struct medium_guard **out);
/** Before the mapping goes. NULL: none. Waits for who looks at it now. */
void medium_guard_del(struct medium_guard *g);

/** Once a medium is open, and before it is closed; of those that have their pages marked. -ENOMEM.
 */
int medium_marked_add(struct weft_persist *p);
void medium_marked_del(struct weft_persist *p);

/** Another process has written to the file since it was watched: it is lost for `status` from now
 * on. md->lost. Any thread. */
int medium_foreign_look(struct weft_medium *md, int status);
/** Watch it no more. */
void medium_foreign_end(struct weft_medium *md);

#endif /* MEDIUM_PRIV_H */
