/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_RPC_BUDGET_H
#define WEFT_RPC_BUDGET_H

/**
 * @file
 * How much memory the endpoints of one worker may hold for calls that are not whole: parts of a message, and what is
 * being read for a call (RFC 5042 s6.4). Installed. Each endpoint has WEFT_RPC_BUDGET_OWN for itself, always; what it
 * holds beyond is charged to the budget. One peer (weft_rpc_set_peer_share(), unnamed ones together) has half of it at most. When it is
 * used up, a connection that has completed nothing for half a second is closed, of the peer that has the most, if that is more than the one
 * that asks has; of a peer that has shown who it is only for another one that has. Else the one that asks gets nothing: a message in parts
 * ends its connection, a call that is to be read is refused.
 * What ends so has its calls answered (WEFT_RPC_CONNLOST) soon after, by an alarm of the worker's, and not inside the call of the endpoint
 * that it gave way to: the consumer's functions may destroy that one, too. Any one thread at a time: the worker's.
 */

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_RPC_BUDGET_OWN 16384u /**< octets that every endpoint may hold beside the budget */

struct weft_rpc_budget;

struct weft_rpc_budget_info {
	uint64_t limit_bytes, held_bytes, most_bytes;
	uint64_t shed;    /**< connections closed for others */
	uint64_t refused; /**< charges that did not fit */
};

/** -EINVAL: bytes is 0, or out NULL. -ENOMEM. */
int weft_rpc_budget_create(uint64_t bytes, struct weft_rpc_budget **out);
/** After the endpoints that were given it; NULL, or the second time, does nothing. */
void weft_rpc_budget_destroy(struct weft_rpc_budget *b);
/** From any thread the numbers may be of different moments; zeros of what is no budget. */
void weft_rpc_budget_info(const struct weft_rpc_budget *b, struct weft_rpc_budget_info *info);

#ifdef __cplusplus
}
#endif
#endif /* WEFT_RPC_BUDGET_H */
