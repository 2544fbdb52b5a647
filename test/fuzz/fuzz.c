/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The mempool, chains with external buffers of exact length, random numbers. */

#include "redzone.h"

#include <rte_lcore.h>
#include <rte_mempool.h>

#include "weft_netif_mbuf.h"
#include "weft_test.h"

#define FUZZ_MBUFS 1023

struct rte_mempool *
fuzz_pool(void)
{
	static struct rte_mempool *pool;

	if (pool == NULL) {
		test_eal_init();
		FUZZ_CHECK(weft_netif_pool_create("fuzz", FUZZ_MBUFS, 1500, SOCKET_ID_ANY, &pool) ==
		           0);
		rte_log_set_global_level(RTE_LOG_ERR);
	}
	return pool;
}

unsigned int
fuzz_pool_used(void)
{
	return FUZZ_MBUFS - fuzz_pool_avail();
}

unsigned int
fuzz_pool_avail(void)
{
	struct rte_mempool *pool = fuzz_pool();
	const struct rte_mempool_cache *c = rte_mempool_default_cache(pool, rte_lcore_id());

	/* Only one thread exists, so the caches of other lcores are not examined. */
	return rte_mempool_get_ops(pool->ops_index)->get_count(pool) + (c != NULL ? c->len : 0);
}

/** The octets of a chain's segments, and the shared info of each. */
static struct redzone_pool copies;
static struct rte_mbuf_ext_shared_info infos[REDZONE_SLOTS];

static void
fuzz_ext_free(void *addr, void *opaque)
{
	(void)opaque;
	redzone_free(&copies, addr);
}

static struct rte_mbuf *
fuzz_piece(const uint8_t *data, uint32_t len)
{
	struct rte_mbuf_ext_shared_info *info;
	struct rte_mbuf *m = rte_pktmbuf_alloc(fuzz_pool());
	uint8_t *buf;

	if (m == NULL)
		return NULL;
	buf = redzone_copy(&copies, data, len);
	info = &infos[(size_t)(buf - copies.slot[0]) / sizeof(copies.slot[0])];
	*info = (struct rte_mbuf_ext_shared_info){.free_cb = fuzz_ext_free};
	rte_mbuf_ext_refcnt_set(info, 1);
	rte_pktmbuf_attach_extbuf(m, buf, RTE_BAD_IOVA, (uint16_t)len, info);
	m->data_off = 0;
	m->data_len = (uint16_t)len;
	m->pkt_len = len;
	return m;
}

struct rte_mbuf *
fuzz_mbuf(const uint8_t *data, uint32_t len, const uint8_t *cuts, unsigned int ncuts)
{
	struct rte_mbuf *head = NULL, *last = NULL;

	for (unsigned int i = 0; i <= ncuts; i++) {
		uint32_t n = i < ncuts && cuts[i] < len ? cuts[i] : len;
		struct rte_mbuf *m = fuzz_piece(data, n);

		if (m == NULL) {
			rte_pktmbuf_free(head);
			return NULL;
		}
		if (head == NULL) {
			head = m;
		} else {
			last->next = m;
			head->nb_segs++;
			head->pkt_len += n;
		}
		last = m;
		data += n;
		len -= n;
		if (len == 0)
			break;
	}
	return head;
}

static void
fuzz_fill(void *arg, void *buf, size_t len)
{
	uint64_t *x = arg;
	uint8_t *p = buf;

	for (size_t i = 0; i < len; i++) {
		*x = *x * 6364136223846793005ULL + 1442695040888963407ULL;
		p[i] = (uint8_t)(*x >> 56);
	}
}

struct weft_rand
fuzz_rand(void)
{
	static uint64_t state;

	state = 42;
	return (struct weft_rand){.fill = fuzz_fill, .arg = &state};
}
