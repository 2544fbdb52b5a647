/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_RPC_BUDGET_H
#define WEFT_RPC_BUDGET_H

/**
 * @file How much memory the endpoints of one worker may hold for the calls of their peers (RFC 5042
 * s6.4). Installed. Charged are parts of a message, a call and what is read for it, from when it is
 * asked for until it is answered; an answer, as far as it is a copy of results, until it was sent
 * and its peer has acknowledged all of it; and errors. Each endpoint has WEFT_RPC_BUDGET_OWN for
 * itself, always; what it holds beyond is charged to the budget. One peer
 * (weft_rpc_set_peer_share(), unnamed ones together) has half of it at most. When that is used up,
 * a connection of the peer's goes that has more than the one that asks and whose peer has taken no
 * answer for half a second. When all of it is, such a one of the peer that has the most, if that is
 * more than the one that asks has; of a peer that has shown who it is only for another one that
 * has. It is reset (weft_abort()). None goes that has a call with its consumer. Who gets nothing
 * waits: a call to be read, served or answered for its turn, which comes when something is given
 * back, before that of those that have more; no more credit is given meanwhile. Parts of a message,
 * and more calls than there is room for, end their connection. What is more than a peer may ever
 * have, or is answered by weft_rpc_raw_reply(), is answered with an error. What ends so has its
 * calls answered (WEFT_RPC_CONNLOST) soon after, by an alarm of the worker's, and not inside the
 * call of the endpoint that it gave way to: the consumer's functions may destroy that one, too. Any
 * one thread at a time: the worker's.
 */

#include <stdint.h>

#include <weft/api.h>

WEFT_API_BEGIN

#define WEFT_RPC_BUDGET_OWN 32768u /**< octets that every endpoint may hold beside the budget */

struct weft_rpc_budget;

struct weft_rpc_budget_info {
	uint64_t limit_bytes, held_bytes, most_bytes;
	uint64_t shed;    /**< connections closed for others */
	uint64_t refused; /**< charges that did not fit, or not yet */
};

/** -EINVAL: bytes is 0, or out NULL. -ENOMEM. */
int weft_rpc_budget_create(uint64_t bytes, struct weft_rpc_budget **out);
/** After the endpoints that were given it; NULL, or the second time, does nothing. */
void weft_rpc_budget_destroy(struct weft_rpc_budget *b);
/** From any thread the numbers may be of different moments; zeros of what is no budget. */
void weft_rpc_budget_info(const struct weft_rpc_budget *b, struct weft_rpc_budget_info *info);

WEFT_API_END

#endif /* WEFT_RPC_BUDGET_H */
