/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STAGING_PIECES_H
#define STAGING_PIECES_H

/** @file Which pieces of staging memory are free, and which ones a request gets. */

#include <stdbool.h>
#include <stdint.h>

#define STAGING_RUN_MAX 64U /**< of one request */

struct staging_pieces {
	uint32_t nfree, nwords;
	uint64_t *free; /**< a bit for each piece, bit 0 of word 0 first */
};

/** n pieces, all free. -ENOMEM. */
int staging_pieces_init(struct staging_pieces *p, uint32_t n);
void staging_pieces_fini(struct staging_pieces *p);
/**
 * Take n pieces, 1 to STAGING_RUN_MAX, and write their numbers to `out`, in rising order.
 * contiguous: neighbours. Else the lowest ones. False: there are not so many, or no such
 * neighbours; nothing is taken. One look at each word of the map.
 */
bool staging_pieces_take(struct staging_pieces *p, uint32_t n, bool contiguous, uint32_t *out);
/** Give n pieces back. */
void staging_pieces_give(struct staging_pieces *p, const uint32_t *pieces, uint32_t n);

#endif /* STAGING_PIECES_H */
