/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_BUDGET_H
#define RPCRDMA_BUDGET_H

/** @file The inside of weft/rpc_budget.h: who holds what. Knows nothing of endpoints. */

#include <stdbool.h>
#include <sys/queue.h>

#include <weft/ulp.h>
#include <weft/rpc_budget.h>
#include <weft/rpcrdma.h>

struct rpcrdma_budget_peer;

/** A link of 100 Mbit/s brings a call of 1 MiB in 84 ms: who gives nothing back for so long has
 * stopped. */
#define RPCRDMA_BUDGET_STALL_NS 500000000ull

/** In an endpoint. */
struct rpcrdma_holder {
	TAILQ_ENTRY(rpcrdma_holder) link;
	TAILQ_ENTRY(rpcrdma_holder) wait_link;
	struct rpcrdma_budget_peer *peer; /**< NULL: it holds no more than its own */
	uint64_t bytes;
	uint64_t since_ns; /**< when it began to be charged, or its peer took an answer last */
	/** of the worker's, when it was refused that last; 0: its peer had its part */
	uint64_t wants;
	/** its calls that are not its peer's to get on with: it does not go for others */
	unsigned int busy;
	bool known; /**< it has shown who it is: it goes only for others that have */
	bool waits; /**< in waiters */
	bool gone;  /**< it was told to go, and gives back what it still has */
	/** Of one that waits: something was given back. It looks again, soon and not in here. */
	void (*wake)(struct rpcrdma_holder *h);
};

/** One peer that holds more than its connections' own. */
struct rpcrdma_budget_peer {
	LIST_ENTRY(rpcrdma_budget_peer) link;
	TAILQ_HEAD(, rpcrdma_holder) holders; /**< by since_ns */
	uint64_t bytes;                       /**< charged */
	uint64_t going;                       /**< of these, of holders that are gone */
	uint32_t name_bytes;
	uint8_t name[WEFT_RPC_NAME_MAX_BYTES];
};

extern struct weft_handle_kind rpcrdma_budget_kind;

struct weft_rpc_budget {
	struct weft_handle h;
	struct weft_rpc_budget_info info;
	LIST_HEAD(, rpcrdma_budget_peer) peers;
	TAILQ_HEAD(, rpcrdma_holder) waiters; /**< in turn */
	uint64_t going;
};

/** Let it go of all: rpcrdma_budget_give() of what it holds is called before the return, or soon
 * after. */
typedef void (*rpcrdma_shed_fn)(struct rpcrdma_holder *h);

/** n octets more for h. False: they do not fit, or do not yet, or no memory; nothing changed but
 * for those that were shed. b NULL: true. */
bool rpcrdma_budget_take(struct weft_rpc_budget *b, struct rpcrdma_holder *h, const uint8_t *name,
                         uint32_t name_bytes, uint64_t n, uint64_t now_ns, rpcrdma_shed_fn shed);
/** Whether h, were it to hold no more than n octets, could not have them however long it waits. */
bool rpcrdma_budget_never(const struct weft_rpc_budget *b, uint64_t n);
/** n octets fewer. */
void rpcrdma_budget_give(struct weft_rpc_budget *b, struct rpcrdma_holder *h, uint64_t n);
/** Its peer took an answer: it gets on. */
void rpcrdma_budget_moved(struct rpcrdma_holder *h, uint64_t now_ns);
/**
 * h was refused, and tries again when it is woken; again: it did, in vain. Its turn comes before
 * those of whoever comes later and has more, but one whose peer has its part lets others go first.
 */
void rpcrdma_budget_wait(struct weft_rpc_budget *b, struct rpcrdma_holder *h, bool again);
/** It waits no more, and it is the next one's turn. */
void rpcrdma_budget_unwait(struct weft_rpc_budget *b, struct rpcrdma_holder *h);

#endif /* RPCRDMA_BUDGET_H */
