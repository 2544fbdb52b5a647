/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_DRC_ENT_H
#define RPCRDMA_DRC_ENT_H

/** @file An entry of the duplicate request cache. */

#include "rpcrdma_drc_share.h"
#include "rpcrdma_drc_sum.h"

struct drc_shard;

struct rpcrdma_drc_key {
	uint8_t name[64];
	uint32_t name_bytes;
	uint32_t xid, prog, vers, proc;
	uint32_t len_bytes;                 /**< length of the unreduced call */
	uint8_t sum[RPCRDMA_DRC_SUM_BYTES]; /**< sum of the unreduced call */
};

/** An item of a reply that chunks may carry. */
struct rpcrdma_drc_item {
	uint32_t pos_bytes, len_bytes;
};

struct rpcrdma_drc_ent {
	struct drc_kept kept; /**< in a share, when it is not busy */
	LIST_ENTRY(rpcrdma_drc_ent) chain;
	struct drc_shard *shard;
	struct rpcrdma_drc_key key;
	uint8_t share[WEFT_RPC_NAME_MAX_BYTES];
	uint32_t share_bytes;
	uint64_t share_hash;
	bool known; /**< its caller has authenticated */
	/* under the shard's lock */
	bool busy;
	/** references of the table, and of requests that read the reply */
	unsigned int refs;
	struct weft_rpc_req *waiter; /**< of a busy entry: the latest repetition of the call */
	/* constant when it is not busy */
	uint8_t *reply; /**< NULL: the call was executed, and has no reply */
	uint32_t reply_bytes;
	struct rpcrdma_drc_item item[WEFT_RPC_MAX_ITEMS]; /**< in ascending order of position */
	unsigned int nitems;
};

#endif /* RPCRDMA_DRC_ENT_H */
