/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A worker's share of the buffers that a port may lend to peers. */

#include "netif_priv.h"
#include "weft_netif_budget.h"
#include "weft_netif_group.h"
#include "weft_netif_plan.h"

/** Packets between their receive burst and their release. */
#define BUDGET_MARGIN (8 * WEFT_NETIF_BURST)

/** mbufs that threads may keep in their caches (rte_mempool.h: a cache is flushed at one and a half
 * times its size). */
static uint32_t
budget_cached(const struct rte_mempool *pool, unsigned int sharers)
{
	return sharers * (pool->cache_size + pool->cache_size / 2);
}

static uint32_t
budget_left(uint32_t size, uint32_t taken)
{
	return size > taken ? size - taken : 0;
}

/** mbufs that a pool for sending alone lends; `cached`: see budget_cached(). */
static uint32_t
budget_snd(uint32_t size, uint32_t cached, unsigned int sharers)
{
	uint32_t least,
	        snd = RTE_MIN(size / 8 * 5,
	                      budget_left(size, size / 8 + cached + sharers * BUDGET_MARGIN));

	/* With few buffers and many workers the margin is reduced: without buffers to send there is
	 * no connection. */
	least = RTE_MIN(size / 8, sharers * (BUDGET_MARGIN / 2));
	return RTE_MAX(snd, least);
}

uint32_t
weft_netif_plan_snd(uint32_t mbufs, uint32_t workers)
{
	uint32_t tx = mbufs / 2, cache = weft_netif_plan_cache(tx, workers);

	return budget_snd(tx, workers * (cache + cache / 2), workers) / workers;
}

void
weft_netif_budget_plan(const struct weft_netif_budget_attr *a, struct weft_netif_budgets *out)
{
	bool one = a->pool == a->tx_pool;
	uint32_t rx_size = a->pool->size, tx_size = a->tx_pool->size, park = tx_size / 8, rx, tx,
	         taken, least;

	taken = a->rx_desc + a->rings + budget_cached(a->pool, a->sharers) +
	        a->sharers * BUDGET_MARGIN;
	rx = RTE_MIN(one ? rx_size / 4 : rx_size / 2, budget_left(rx_size, taken));
	if (one) {
		tx = RTE_MIN(tx_size / 2, budget_left(tx_size, taken + rx + park));
		least = RTE_MIN(tx_size / 8, a->sharers * (BUDGET_MARGIN / 2));
		tx = RTE_MAX(tx, least);
	} else {
		tx = budget_snd(tx_size, budget_cached(a->tx_pool, a->sharers), a->sharers);
	}
	rx /= a->sharers;
	tx /= a->sharers;
	*out = (struct weft_netif_budgets){
	        .ooo.limit = rx - rx / 4,
	        .fpdu.limit = rx / 4,
	        .snd.limit = tx,
	        .park.limit = park / a->sharers,
	};
}

void
netif_budget_init(struct weft_netif *nif)
{
	const struct weft_netif_attr *na = &nif->attr;
	struct weft_netif_budget_attr a = {
	        .pool = na->pool,
	        .tx_pool = na->tx_pool,
	        .rx_desc = na->rx_desc,
	        .sharers = na->pool_sharers,
	};

	if (na->group != NULL)
		a.rings = weft_netif_group_ring_mbufs(na->group);
	if (a.sharers == 0)
		a.sharers = na->group != NULL ? weft_netif_group_members(na->group) : 1;
	weft_netif_budget_plan(&a, &nif->stats.lent);
}

struct weft_netif_budgets *
weft_netif_budgets(struct weft_netif *nif)
{
	return &nif->stats.lent;
}
