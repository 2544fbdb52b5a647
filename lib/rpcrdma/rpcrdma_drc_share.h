/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_DRC_SHARE_H
#define RPCRDMA_DRC_SHARE_H

/**
 * @file Which reply a full table of the duplicate request cache lets go: the oldest one of the
 * client that keeps the most. So a client that is alone has the whole table, and of n clients each
 * keeps its latest 1/n of it whatever the others call. Of clients that keep equally many the one
 * gives way that has kept nothing new for the longest time.
 *
 * Clients that have shown who they are (known) and strangers, who may have any number of addresses,
 * are two parts: one of the strangers' goes while they keep more than a quarter of the table, else
 * one of the others'. So strangers, however many, leave the others three quarters, and are left
 * one. Every operation takes constant time. The caller holds the lock of the table.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <weft/rpcrdma.h>

/** In an entry that is kept. */
struct drc_kept {
	TAILQ_ENTRY(drc_kept) age; /**< in kept of its share */
	struct drc_share *share;
};

TAILQ_HEAD(drc_kept_list, drc_kept);

/** One client's. */
struct drc_share {
	TAILQ_ENTRY(drc_share) rank; /**< in by_count[n] */
	LIST_ENTRY(drc_share) chain;
	struct drc_kept_list kept; /**< oldest first */
	uint32_t n;
	bool known; /**< of a client that has shown who it is */
	uint32_t name_bytes;
	uint8_t name[WEFT_RPC_NAME_MAX_BYTES];
};

TAILQ_HEAD(drc_share_list, drc_share);
LIST_HEAD(drc_share_chain, drc_share);

/** Of strangers, or of the others. */
struct drc_share_part {
	uint32_t total;
	uint32_t most; /**< no share keeps more */
	/** [max + 2]; the one that kept something latest is last */
	struct drc_share_list *by_count;
};

/** Of one table. */
struct drc_shares {
	uint32_t total, max;
	uint32_t mask;
	struct drc_share_part part[2]; /**< by `known` */
	struct drc_share_chain *chain; /**< [mask + 1] */
};

/** max: replies in all, 1 or more. -ENOMEM. */
int drc_shares_init(struct drc_shares *s, uint32_t max);
/** Nothing is kept any more. */
void drc_shares_fini(struct drc_shares *s);
/** hash: any of the name, the same each time. known: the client has shown who it is. -ENOMEM: it
 * is not kept. */
int drc_shares_keep(struct drc_shares *s, bool known, const uint8_t *name, uint32_t name_bytes,
                    uint64_t hash, struct drc_kept *k);
/** What has to give way now, still kept: for drc_shares_drop(). NULL: there is room. */
struct drc_kept *drc_shares_victim(struct drc_shares *s);
void drc_shares_drop(struct drc_shares *s, struct drc_kept *k);

#endif /* RPCRDMA_DRC_SHARE_H */
