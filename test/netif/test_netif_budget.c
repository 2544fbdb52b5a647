/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What a port lends to peers: never its receive descriptors, and nothing twice. */

#include "weft_netif.h"
#include "weft_netif_attr.h"
#include "weft_netif_budget.h"
#include "weft_netif_group.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_plan.h"
#include "weft_sched.h"
#include "weft_test.h"

static struct rte_mempool *
pool_of(unsigned int mbufs, unsigned int cache)
{
	static unsigned int n;
	struct rte_mempool *p;
	char name[32];

	test_eal_init();
	snprintf(name, sizeof(name), "budget_%u", n++);
	p = rte_pktmbuf_pool_create(name, mbufs, cache,
	                            RTE_ALIGN(sizeof(struct weft_mbuf_priv), 8u), 256,
	                            SOCKET_ID_ANY);
	CHECK(p != NULL);
	return p;
}

/** The loans of a port can be computed before the port exists. */
static void
test_before(void)
{
	static const uint32_t mbufs[] = {1024, 2048, 8192, 65536};

	for (unsigned int i = 0; i < RTE_DIM(mbufs); i++)
		for (unsigned int w = 1; w <= 8; w++) {
			uint32_t tx = mbufs[i] / 2, cache = weft_netif_plan_cache(tx, w);
			struct rte_mempool *mp[2] = {pool_of(tx, cache), pool_of(tx, cache)};
			const struct weft_netif_budget_attr a = {
			        .pool = mp[0], .tx_pool = mp[1], .sharers = w};
			struct weft_netif_budgets b;

			weft_netif_budget_plan(&a, &b);
			CHECK_EQ(weft_netif_plan_snd(mbufs[i], w), b.snd.limit);
			rte_mempool_free(mp[0]);
			rte_mempool_free(mp[1]);
		}
}

/** For every pool and number of workers: all loans together leave descriptors, caches and some
 * packets. */
static void
test_plan(void)
{
	static const unsigned int size[] = {512, 4096, 8191, 32767}, cache[] = {0, 32, 256};
	uint64_t lent[2] = {0};

	for (unsigned int s = 0; s < RTE_DIM(size); s++)
		for (unsigned int k = 0; k < RTE_DIM(cache); k++) {
			struct rte_mempool *rx = pool_of(size[s], cache[k]);
			struct rte_mempool *tx = pool_of(size[s], cache[k]);

			for (unsigned int w = 1; w <= 8; w++)
				for (uint32_t desc = 0; desc <= size[s]; desc += size[s] / 8)
					for (unsigned int one = 0; one < 4; one++) {
						struct weft_netif_budget_attr a = {
						        .pool = rx,
						        .tx_pool = one & 1 ? rx : tx,
						        .rings = one & 2 ? size[s] / 8 : 0,
						        .rx_desc = desc,
						        .sharers = w,
						};
						struct weft_netif_budgets b;
						uint64_t in, out,
						        away = desc + a.rings +
						               w * cache[k] * 3 / 2;

						weft_netif_budget_plan(&a, &b);
						in = w * (b.ooo.limit + b.fpdu.limit);
						out = w * b.snd.limit;
						CHECK(in <= size[s] / 2 && out <= size[s] / 8 * 5);
						/* Every worker can have some connections. */
						CHECK(b.snd.limit >= 8);
						if (!(one & 1) && out > size[s] / 8)
							CHECK(out + w * b.park.limit +
							              w * cache[k] * 3 / 2 +
							              w * WEFT_NETIF_BURST <=
							      size[s]);
						if (in > 0)
							CHECK(in + (one & 1 ? out : 0) + away +
							              w * WEFT_NETIF_BURST <=
							      size[s]);
						CHECK_EQ(b.ooo.held + b.fpdu.held + b.snd.held, 0);
						lent[one & 1] += in;
					}
			rte_mempool_free(rx);
			rte_mempool_free(tx);
		}
	CHECK(lent[0] > 0 && lent[1] > 0);
}

/** Where descriptors, caches and rings take most of a pool, eight bursts of each worker are not
 * lent either. They are packets in processing. */
static void
test_margin(void)
{
	struct rte_mempool *rx = pool_of(4096, 32), *tx = pool_of(512, 0);

	for (unsigned int w = 1; w <= 2; w++) {
		const struct weft_netif_budget_attr a = {
		        .pool = rx, .tx_pool = tx, .rings = 300, .rx_desc = 2500, .sharers = w};
		uint32_t left = 4096 - 2500 - 300 - w * 48 - w * 8 * WEFT_NETIF_BURST;
		struct weft_netif_budgets b;

		weft_netif_budget_plan(&a, &b);
		CHECK_EQ(b.ooo.limit + b.fpdu.limit, left / w);
		CHECK_EQ(b.fpdu.limit, left / w / 4);
	}
	/* The same for the transmit pool, besides the eighth for packets that wait for an
	 * address. */
	const struct weft_netif_budget_attr a = {.pool = rx, .tx_pool = tx, .sharers = 1};
	struct weft_netif_budgets b;

	weft_netif_budget_plan(&a, &b);
	CHECK_EQ(b.snd.limit, 512 - 512 / 8 - 8 * WEFT_NETIF_BURST);
	CHECK_EQ(b.park.limit, 512 / 8);
	rte_mempool_free(rx);
	rte_mempool_free(tx);
}

static void
no_tcp(void *arg, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n, uint64_t now_ns)
{
	(void)arg;
	(void)nif;
	(void)now_ns;
	rte_pktmbuf_free_bulk(m, n);
}

static uint16_t
no_packets(void *dev, struct rte_mbuf **pkts, uint16_t n)
{
	(void)dev;
	(void)pkts;
	(void)n;
	return 0;
}

/** Each worker of a port has a part. A single worker has all. */
static void
test_shares(void)
{
	static const struct weft_netif_ops ops = {.tcp_rx = no_tcp};
	static const struct weft_netif_dev dev = {.rx = no_packets, .tx = no_packets};
	struct weft_sched sched = {0};
	struct weft_netif *nif;
	uint64_t limit[5] = {0};
	struct rte_mempool *pool;

	test_eal_init();
	CHECK_EQ(weft_netif_pool_create("budget_share", 8191, 1500, SOCKET_ID_ANY, &pool), 0);
	TAILQ_INIT(&sched.run);
	weft_wheel_init(&sched.wheel, WEFT_NS_PER_S);
	for (unsigned int w = 1; w <= 4; w++) {
		struct weft_netif_group_attr ga = {
		        .members = w, .rx_queues = 1, .tx_queues = 1, .pool_mbufs = 8191};
		struct weft_netif_attr na = {
		        .dev = &dev,
		        .pool = pool,
		        .rx_desc = 1024,
		        .mac = {.addr_bytes = {2}},
		        .addr = weft_ip_from_v4(RTE_BE32(0x0a000001)),
		        .prefix_len = 24,
		};

		if (w > 1)
			CHECK_EQ(weft_netif_group_create(&ga, &na.group), 0);
		CHECK_EQ(weft_netif_create(&na, &ops, NULL, &sched, &nif), 0);
		limit[w] = weft_netif_budgets(nif)->ooo.limit + weft_netif_budgets(nif)->fpdu.limit;
		CHECK(w * limit[w] <= 8191 / 4);
		CHECK(w * limit[w] > 8191 / 4 - 2000);
		weft_netif_destroy(nif);
		if (w > 1)
			weft_netif_group_destroy(na.group);
		/* Interfaces without a group that share pools state their number. */
		na.group = NULL;
		na.pool_sharers = w;
		CHECK_EQ(weft_netif_create(&na, &ops, NULL, &sched, &nif), 0);
		CHECK_EQ(weft_netif_budgets(nif)->ooo.limit + weft_netif_budgets(nif)->fpdu.limit,
		         limit[w]);
		weft_netif_destroy(nif);
	}
	rte_mempool_free(pool);
}

/** Rings between workers: for any pool and number of workers, the mbufs that they may hold are
 * known and not lent. It is an eighth of the pool where that leaves each ring 32. */
static void
test_rings(void)
{
	static const unsigned int size[] = {512, 2048, 4096, 32767};

	test_eal_init();
	for (unsigned int s = 0; s < RTE_DIM(size); s++)
		for (unsigned int w = 1; w <= 8; w++)
			for (unsigned int rss = 0; rss < 2; rss++) {
				struct weft_netif_group_attr ga = {.members = w,
				                                   .rx_queues = rss ? w : 1,
				                                   .tx_queues = 1,
				                                   .pool_mbufs = size[s]};
				struct weft_netif_group *g;
				uint32_t held, rings = rss && w > 1 ? w : w - 1;

				CHECK_EQ(weft_netif_group_create(&ga, &g), 0);
				held = weft_netif_group_ring_mbufs(g);
				CHECK(held <= RTE_MAX(size[s] / 8, rings * 32));
				CHECK(held >= rings * 32);
				weft_netif_group_destroy(g);
				ga.ring_size = 128;
				CHECK_EQ(weft_netif_group_create(&ga, &g), 0);
				CHECK_EQ(weft_netif_group_ring_mbufs(g), rings * 128);
				weft_netif_group_destroy(g);
			}
}

/** The last mbuf of the limit, and one more. */
static void
test_edge(void)
{
	struct weft_netif_budget b = {.limit = 10};

	CHECK(weft_netif_budget_take(&b, 9));
	CHECK(!weft_netif_budget_take(&b, 2));
	CHECK_EQ(b.refused, 1);
	CHECK(weft_netif_budget_take(&b, 1));
	CHECK(!weft_netif_budget_take(&b, 1));
	CHECK(weft_netif_budget_take(&b, 0));
	CHECK_EQ(b.held, 10);
	CHECK_EQ(b.most, 10);
	weft_netif_budget_give(&b, 4);
	CHECK(weft_netif_budget_take(&b, 4));
	CHECK_EQ(b.refused, 2);
	weft_netif_budget_give(&b, 10);
	CHECK_EQ(b.held, 0);
	CHECK_EQ(b.most, 10);
}

WEFT_TEST_MAIN({"before", test_before}, {"plan", test_plan}, {"margin", test_margin},
               {"shares", test_shares}, {"rings", test_rings}, {"edge", test_edge})
