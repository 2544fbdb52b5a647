/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_LEARN_H
#define NETIF_LEARN_H

/**
 * @file
 * What a port's RSS does, learnt from the SYNs that arrive (netif_learn.c). Toeplitz hashes are
 * linear over GF(2), whatever the key is: symmetric keys and keys that are hidden included. So is
 * the number of the queue, where the queues are a power of two and take turns in the table. Each
 * SYN gives one equation. The hash of a tuple is known when the tuple is a sum of tuples that were
 * seen.
 *
 * What was learnt is a hint: an active open chooses its source port by it, so that the answer
 * arrives on the worker's own queue. If the hint is wrong, the packets are handed over.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LEARN_WORDS 5 /**< the 36 octets of IPv6's tuple, and a constant */

/** A tuple as octets in the order of a received packet: remote and local address, remote and local
 * port. */
struct netif_learn_tuple {
	unsigned int bytes; /**< 12 or 36 */
	uint8_t b[36];
};

/** What a SYN showed. */
struct netif_learn_seen {
	bool told; /**< the port told a hash */
	uint32_t hash;
	unsigned int queue;
};

/** An equation in echelon form: the lowest bit of `t` is the index of the row. */
struct learn_row {
	uint64_t t[LEARN_WORDS]; /**< 0: no such row */
	uint32_t value;
};

enum learn_kind {
	LEARN_HASH,  /**< value: the hash that the port tells; its table leads to the queue */
	LEARN_QUEUE, /**< value: the number of the queue */
	LEARN_NOT,   /**< neither is linear, or both change: tried again later */
};

struct learn_family {
	enum learn_kind kind;
	uint32_t skip;  /**< LEARN_NOT: SYNs until the next try */
	uint32_t pause; /**< the number of SYNs that were skipped last */
	struct learn_row row[LEARN_WORDS * 64];
};

/** Any member uses it. A member that finds it in use does without. */
struct netif_learn {
	atomic_flag busy;
	uint8_t reta[512]; /**< entry to queue, as the port reports */
	uint32_t reta_mask;
	struct learn_family family[2]; /**< IPv4, IPv6 */
};

void netif_learn_init(struct netif_learn *l, const uint8_t *reta, uint32_t reta_size);
/** Learns from a SYN. True: it contradicts what was learnt before, which is forgotten. */
bool netif_learn_add(struct netif_learn *l, const struct netif_learn_tuple *t,
                     const struct netif_learn_seen *seen);
/** The queue in which packets of the tuple arrive, or -1: not known. */
int netif_learn_queue(struct netif_learn *l, const struct netif_learn_tuple *t);

#endif /* NETIF_LEARN_H */
