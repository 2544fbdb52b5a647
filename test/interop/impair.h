/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef IMPAIR_H
#define IMPAIR_H

/**
 * @file Loss, reordering and duplication on one queue of a port, by ethdev's RX and TX callbacks.
 * The layers above and the peer see an ordinary port on a bad link. Only TCP over IPv4 or IPv6 is
 * affected. Seeded.
 */

#include <stdbool.h>
#include <stdint.h>

struct impair_cfg {
	uint32_t loss_ppm;
	uint32_t reorder_ppm; /**< held back until three later ones have passed, or for 2 ms */
	uint32_t dup_ppm;     /**< only received frames */
};

struct impair_stats {
	uint64_t seen, lost, reordered, duplicated;
};

struct impair;

/** Start on a started port before its polling begins. tx, rx: configuration of each direction.
 * Returns NULL without memory. */
struct impair *impair_create(uint16_t port_id, uint16_t queue_id, const struct impair_cfg *rx,
                             const struct impair_cfg *tx, uint64_t seed);
/** Release frames that have been held too long. Call once in each iteration, between receiving
 * and sending. */
void impair_poll(struct impair *im, uint64_t now_ns);
/** Stop losing frames. */
void impair_stop(struct impair *im);
void impair_destroy(struct impair *im);
const struct impair_stats *impair_stats(const struct impair *im, bool tx);

#endif /* IMPAIR_H */
