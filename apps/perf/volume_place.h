/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_VOLUME_PLACE_H
#define WEFT_PERF_VOLUME_PLACE_H

/**
 * @file Where in a volume the messages of one connection go: one after the other, or in an order
 * that looks random and is the same for the same seed. Each place is used once before any is used
 * again, so messages under way do not meet.
 */

#include <stdbool.h>
#include <stdint.h>

struct volume_place {
	uint64_t from_bytes; /**< the first place begins here */
	uint64_t n;          /**< places */
	uint32_t size_bytes; /**< of each */
	bool random;
	uint64_t seed;
};

/**
 * The places of connection number `lane` of `lanes`, which share the range equally. A share is a
 * multiple of unit_bytes, which is a multiple of size_bytes. False: the share of each has no room
 * for one unit.
 */
bool volume_place_share(struct volume_place *p, uint64_t range_off_bytes, uint64_t range_bytes,
                        uint64_t unit_bytes, uint32_t lane, uint32_t lanes);
/** Where message number seq begins, in octets from the volume's beginning. */
uint64_t volume_place_at(const struct volume_place *p, uint64_t seq);

#endif /* WEFT_PERF_VOLUME_PLACE_H */
