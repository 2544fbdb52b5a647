/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STAGING_PIECES_H
#define STAGING_PIECES_H

/** @file Which pieces of staging memory are free, and which ones a request gets. */

#include <stdbool.h>
#include <stdint.h>

#include "weft_staging.h"

#define STAGING_RUN_MAX 64U /**< of one request */

struct staging_pieces {
	uint32_t n, nfree, nwords;
	uint32_t area_pieces, nareas; /**< the last area has the rest, too */
	uint64_t *free;               /**< a bit for each piece, bit 0 of word 0 first */
};

/** n pieces, all free, in areas of at least `longest` pieces, which is at most n / 2. -ENOMEM. */
int staging_pieces_init(struct staging_pieces *p, uint32_t n, uint32_t longest);
void staging_pieces_fini(struct staging_pieces *p);
/**
 * Take n pieces, 1 to STAGING_RUN_MAX, and write their numbers to `out`, in rising order.
 * contiguous: neighbours. Else the lowest ones. False: there are not so many, or no such
 * neighbours; nothing is taken. One look at each word of the map.
 */
bool staging_pieces_take(struct staging_pieces *p, uint32_t n, bool contiguous, uint32_t *out);
/**
 * The same for a holder that may have pieces in `most` areas and no more; has: in which it has
 * some. Neighbours are all in one area. Other pieces are in no order.
 *
 * So a holder that never gives its pieces back leaves the other areas whole, however scattered its
 * pieces are. A limit of octets alone would not: one piece in each area is little, and leaves no
 * neighbours for others.
 */
bool staging_pieces_take_in(struct staging_pieces *p, uint32_t n, bool contiguous,
                            struct staging_areas *has, uint32_t most, uint32_t *out);
/** Give n pieces back. has: of the holder; NULL: it has none. */
void staging_pieces_give(struct staging_pieces *p, const uint32_t *pieces, uint32_t n,
                         struct staging_areas *has);

#endif /* STAGING_PIECES_H */
