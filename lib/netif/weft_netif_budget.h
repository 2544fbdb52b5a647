/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_BUDGET_H
#define WEFT_NETIF_BUDGET_H

/**
 * @file How many of a port's buffers one worker may hold on behalf of peers. Internal. netif makes
 * the budgets. On the worker, TCP charges them (out-of-order and unacknowledged segments), and so
 * does MPA (incomplete FPDUs).
 *
 * A pool belongs to a port, and all workers of the port use it. A worker's budgets are its share of
 * what the pool can lend. The pool lends its mbufs without these: the receive descriptors, what
 * mempool caches of other threads may keep from the worker, what fits the rings that carry received
 * packets between workers, and a margin of eight bursts per worker for packets in processing. mbufs
 * in a transmit ring are not subtracted: either they are queued and so charged, or they leave at
 * the port's speed whatever a peer does. All budgets together never exceed what the pool lends. So
 * the port can always receive, and can always send answers that no budget is charged for.
 *
 * Shares are fixed when a netif is created. Threads share no budget, and charging touches no cache
 * line of another worker.
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

/** The budgets of one netif. */
struct weft_netif_budgets {
	struct weft_netif_budget ooo;  /**< received ahead of a gap; from the receive pool */
	struct weft_netif_budget fpdu; /**< of incomplete FPDUs; from the receive pool */
	struct weft_netif_budget snd;  /**< queued and not acknowledged; from the transmit pool */
	/** packets that wait for a neighbour's address; from the transmit pool */
	struct weft_netif_budget park;
};

/** What the budgets are computed from. */
struct weft_netif_budget_attr {
	const struct rte_mempool *pool, *tx_pool; /**< may be the same pool */
	/** mbufs of `pool` that all receive queues of the port hold permanently */
	uint32_t rx_desc;
	/** mbufs of `pool` that fit the rings between the port's workers */
	uint32_t rings;
	unsigned int sharers; /**< netifs that use the pools, this one included; at least 1 */
};

/**
 * Computes the limits and sets everything else to zero. The receive pool lends at most half. The
 * transmit pool lends at most five eighths, and another eighth to packets that wait for an address.
 * If both are one pool, it lends a quarter, a half and an eighth. It lends less if descriptors,
 * caches and margin leave less. Any thread.
 */
void weft_netif_budget_plan(const struct weft_netif_budget_attr *a, struct weft_netif_budgets *out);

/** Charges n mbufs. False: they do not fit, and nothing is charged. */
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

/** Returns n charged mbufs. */
static inline void
weft_netif_budget_give(struct weft_netif_budget *b, uint32_t n)
{
	b->held -= n;
}

#endif /* WEFT_NETIF_BUDGET_H */
