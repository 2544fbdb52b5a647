/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_RPC_BUDGET_H
#define WEFT_RPC_BUDGET_H

/**
 * @file A memory budget: how much memory the endpoints of one worker may hold for the calls of
 * their peers (RFC 5042 s6.4). Installed.
 *
 * What is charged:
 *
 * - the parts of a message that is not complete;
 * - a call and the data read for it, from the request to read until the call is answered;
 * - an answer, as far as it is a copy of results, until it is sent and the peer has acknowledged
 *   all of it;
 * - memory for such data that rests between calls: up to `credits` pieces of up to 16 KiB, and none
 *   beyond the free octets when no call is under way. It is given back before a call waits, and
 *   before a connection is reset;
 * - errors.
 *
 * Each endpoint may always hold WEFT_RPC_BUDGET_OWN octets of its own. What it holds beyond is
 * charged to the budget. One peer (weft_rpc_set_peer_share(); unnamed peers count as one) may hold
 * at most half of the budget.
 *
 * If a peer's half is used up, a connection of that peer is reset (weft_abort()). It is one that
 * holds more than the endpoint that asks, and whose peer has taken no answer for half a second. If
 * the whole budget is used up, it is such a connection of the peer that holds the most, if that
 * peer holds more than the asking one. A connection of a peer that has shown who it is gives way
 * only to another such peer. A connection with a call that the consumer is serving is never reset.
 *
 * An endpoint that gets nothing waits. A call waits for its turn to be read, served or answered.
 * The turn comes when memory is returned; peers that hold less come first. Meanwhile no further
 * credit is granted. Parts of a message, and more calls than there is room for, end their
 * connection instead. A call that needs more than a peer may ever have, or that is answered by
 * weft_rpc_raw_reply(), is answered with an error.
 *
 * The calls of a connection that was reset end with WEFT_RPC_CONNLOST. This happens soon after, by
 * an alarm of the worker, and not during the call of the endpoint that asked, because the
 * consumer's functions may destroy that endpoint.
 *
 * Thread: one at a time, that of the worker.
 */

#include <stdint.h>

#include <weft/api.h>

WEFT_API_BEGIN

/** octets that each endpoint may hold in addition to the budget */
#define WEFT_RPC_BUDGET_OWN 32768u

struct weft_rpc_budget;

struct weft_rpc_budget_info {
	uint64_t limit_bytes, held_bytes, most_bytes;
	uint64_t shed;    /**< connections reset for others */
	uint64_t refused; /**< charges that did not fit, or not at once */
};

/** -EINVAL: bytes is 0, or out is NULL. -ENOMEM. */
int weft_rpc_budget_create(uint64_t bytes, struct weft_rpc_budget **out);
/**
 * Called after all endpoints that use the budget are destroyed. Does nothing for NULL or the second
 * time.
 */
void weft_rpc_budget_destroy(struct weft_rpc_budget *b);
/**
 * Any thread. Called from another thread than the worker's, the numbers may be of different
 * moments. Zeros if b is not a budget.
 */
void weft_rpc_budget_info(const struct weft_rpc_budget *b, struct weft_rpc_budget_info *info);

WEFT_API_END

#endif /* WEFT_RPC_BUDGET_H */
