/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_DRC_SHARE_H
#define RPCRDMA_DRC_SHARE_H

/**
 * @file The choice of the reply that a full table of the duplicate request cache drops: the oldest
 * reply of the client that keeps the most. So a client alone has the whole table, and each of n
 * clients keeps its latest 1/n of it whatever the others call. Of clients that keep equally many,
 * the one gives way that has kept no new reply for the longest time.
 *
 * Clients that have authenticated (known) and strangers, which may have any number of addresses,
 * are two parts. While strangers keep more than a quarter of the table, a stranger's reply is
 * dropped, else a known client's. So strangers leave the others three quarters, and keep one. Every
 * operation takes constant time. The caller holds the table's lock.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <weft/rpcrdma.h>

/** The part of a kept entry that the shares know. */
struct drc_kept {
	TAILQ_ENTRY(drc_kept) age; /**< in kept of its share */
	struct drc_share *share;
};

TAILQ_HEAD(drc_kept_list, drc_kept);

/** One client's share. */
struct drc_share {
	TAILQ_ENTRY(drc_share) rank; /**< in by_count[n] */
	LIST_ENTRY(drc_share) chain;
	struct drc_kept_list kept; /**< oldest first */
	uint32_t n;
	bool known; /**< the client has authenticated */
	uint32_t name_bytes;
	uint8_t name[WEFT_RPC_NAME_MAX_BYTES];
};

TAILQ_HEAD(drc_share_list, drc_share);
LIST_HEAD(drc_share_chain, drc_share);

/** The part of strangers, or of known clients. */
struct drc_share_part {
	uint32_t total;
	uint32_t most; /**< the largest share's count */
	/** [max + 2]; in each list the share that kept a reply last is last */
	struct drc_share_list *by_count;
};

/** The shares of one table. */
struct drc_shares {
	uint32_t total, max;
	uint32_t mask;
	struct drc_share_part part[2]; /**< by `known` */
	struct drc_share_chain *chain; /**< [mask + 1] */
};

/** max: replies in all, 1 or more. -ENOMEM. */
int drc_shares_init(struct drc_shares *s, uint32_t max);
/** The caller has dropped all entries. */
void drc_shares_fini(struct drc_shares *s);
/** Keep an entry. hash: any hash of the name, always the same one. known: the client has
 * authenticated. -ENOMEM: the entry is not kept. */
int drc_shares_keep(struct drc_shares *s, bool known, const uint8_t *name, uint32_t name_bytes,
                    uint64_t hash, struct drc_kept *k);
/** The entry that has to give way, for drc_shares_drop(). NULL: there is room. */
struct drc_kept *drc_shares_victim(struct drc_shares *s);
void drc_shares_drop(struct drc_shares *s, struct drc_kept *k);

#endif /* RPCRDMA_DRC_SHARE_H */
