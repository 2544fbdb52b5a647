/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_BUDGET_H
#define WEFT_NETIF_BUDGET_H

/**
 * @file How many of a port's buffers one worker may hold on behalf of peers. Internal; made by
 * netif, charged by TCP (out-of-order segments, unacknowledged segments) and MPA (incomplete FPDUs)
 * on the worker.
 *
 * A pool belongs to a port, and all workers of the port use it. So a worker's budgets are its share
 * of what the pool can lend: the pool without the receive descriptors, without what mempool caches
 * of other threads may keep from the worker, without what fits the rings on which received packets
 * go from one worker to another, and without a margin of eight bursts for each worker, for packets
 * that are being processed. What a transmit ring holds is not taken off: it is either queued and so
 * charged, or leaves at the port's speed whatever any peer does. The budgets of all workers
 * together never exceed that, hence the port can always receive, and answer what needs no memory.
 *
 * Shares are fixed when a netif is made: no budget is shared between threads, and charging touches
 * no line of another worker.
 */

#include <stdbool.h>
#include <stdint.h>

#include <rte_branch_prediction.h>
#include <rte_mempool.h>

/** Buffers of one kind. Worker of the netif. */
struct weft_netif_budget {
	uint64_t limit;   /**< mbufs that may be held */
	uint64_t held;    /**< mbufs held now */
	uint64_t most;    /**< the most that were ever held */
	uint64_t refused; /**< times that a charge did not fit */
};

/** What one netif lends. */
struct weft_netif_budgets {
	struct weft_netif_budget ooo;  /**< received ahead of a gap; of the receive pool */
	struct weft_netif_budget fpdu; /**< of FPDUs that are not complete; of the receive pool */
	struct weft_netif_budget snd;  /**< queued and not acknowledged; of the transmit pool */
	/** packets that wait for a neighbour's address; of the transmit pool */
	struct weft_netif_budget park;
};

/** What the budgets are computed from. */
struct weft_netif_budget_attr {
	const struct rte_mempool *pool, *tx_pool; /**< may be the same */
	/** mbufs of `pool` that all receive queues of the port hold for good */
	uint32_t rx_desc;
	/** mbufs of `pool` that fit the rings between the workers of the port */
	uint32_t rings;
	unsigned int sharers; /**< netifs that use the pools, this one included; at least 1 */
};

/**
 * Compute the limits; everything else becomes zero. Of the receive pool at most half is lent, of
 * the transmit pool five eighths, and an eighth to packets that wait for an address; where they are
 * one pool, a quarter, a half and an eighth. Less where descriptors, caches and margin leave less.
 * Any thread.
 */
void weft_netif_budget_plan(const struct weft_netif_budget_attr *a, struct weft_netif_budgets *out);

/** Charge n mbufs. False: they do not fit, and nothing is charged. */
static inline bool
weft_netif_budget_take(struct weft_netif_budget *b, uint32_t n)
{
	if (unlikely(b->held + n > b->limit)) {
		b->refused++;
		return false;
	}
	b->held += n;
	if (b->held > b->most)
		b->most = b->held;
	return true;
}

/** Give n charged mbufs back. */
static inline void
weft_netif_budget_give(struct weft_netif_budget *b, uint32_t n)
{
	b->held -= n;
}

#endif /* WEFT_NETIF_BUDGET_H */
