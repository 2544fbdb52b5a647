/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The TCP ports of a port that several processes share: which are ours, and which of them
 * active opens use. */

#include <rte_malloc.h>

#include "netif_priv.h"
#include "netif_shared.h"
#include "weft_netif_addr.h"
#include "weft_netif_group.h"

struct netif_shared {
	uint8_t ours[(UINT16_MAX + 1) / 8]; /**< a bit for each port */
	uint32_t nopens;                    /**< ports of all blocks */
	unsigned int nblocks;
	struct shared_block {
		uint16_t first, last;
	} block[WEFT_NETIF_PORT_BLOCKS];
};

bool
netif_shared_init(struct weft_netif *nif)
{
	nif->shared = rte_zmalloc("weft_shared", sizeof(*nif->shared), 0);
	return nif->shared != NULL;
}

void
netif_shared_fini(struct weft_netif *nif)
{
	rte_free(nif->shared);
}

static bool
shared_is_ours(const struct netif_shared *s, uint16_t port)
{
	return (s->ours[port / 8] >> (port % 8) & 1) != 0;
}

static void
shared_set(struct netif_shared *s, uint16_t first, uint16_t last, bool ours)
{
	for (uint32_t p = first; p <= last; p++) {
		const uint8_t bit = (uint8_t)(1u << (p % 8));

		if (ours)
			s->ours[p / 8] |= bit;
		else
			s->ours[p / 8] &= (uint8_t)~bit;
	}
}

static bool
shared_range_ok(const struct weft_netif *nif, uint16_t first, uint16_t last)
{
	return nif->shared != NULL && first != 0 && first <= last;
}

int
weft_netif_ports_add(struct weft_netif *nif, uint16_t first, uint16_t last, bool opens)
{
	struct netif_shared *s = nif->shared;

	if (!shared_range_ok(nif, first, last))
		return -EINVAL;
	if (opens) {
		for (uint32_t p = first; p <= last; p++)
			if (shared_is_ours(s, (uint16_t)p))
				return -EINVAL;
		if (s->nblocks == WEFT_NETIF_PORT_BLOCKS)
			return -ENOSPC;
		s->block[s->nblocks++] = (struct shared_block){first, last};
		s->nopens += last - first + 1u;
	}
	shared_set(s, first, last, true);
	return 0;
}

int
weft_netif_ports_drop(struct weft_netif *nif, uint16_t first, uint16_t last)
{
	struct netif_shared *s = nif->shared;

	if (!shared_range_ok(nif, first, last))
		return -EINVAL;
	for (unsigned int i = 0; i < s->nblocks; i++)
		if (first <= s->block[i].last && last >= s->block[i].first)
			return -EINVAL;
	shared_set(s, first, last, false);
	return 0;
}

bool
netif_shared_has(const struct weft_netif *nif, uint16_t port)
{
	return nif->shared == NULL || shared_is_ours(nif->shared, port);
}

bool
weft_netif_port_ours(struct weft_netif *nif, uint16_t port)
{
	if (likely(netif_shared_has(nif, port)))
		return true;
	nif->stats.rx_not_our_port++;
	return false;
}

/** The i-th port of all blocks. */
static uint16_t
shared_nth(const struct netif_shared *s, uint32_t i)
{
	const struct shared_block *b = s->block;

	for (; i > (uint32_t)(b->last - b->first); b++)
		i -= b->last - b->first + 1u;
	return (uint16_t)(b->first + i);
}

int
netif_shared_pick(struct weft_netif *nif, const struct weft_ip *dst, uint16_t dst_port,
                  const struct weft_rand *rand, bool (*usable)(void *arg, uint16_t port), void *arg)
{
	const struct netif_shared *s = nif->shared;
	const bool to_us = weft_netif_is_local(nif, dst);
	uint32_t first;

	if (s->nopens == 0)
		return -EADDRNOTAVAIL;
	/* RFC 6056 s3.3.1, over the ports of the blocks. */
	first = weft_rand_u32(rand) % s->nopens;
	for (uint32_t i = 0; i < s->nopens; i++) {
		const uint16_t p = shared_nth(s, (first + i) % s->nopens);

		/* A connection from a port to itself would be both ends in one. */
		if ((!to_us || p != dst_port) && usable(arg, p))
			return p;
	}
	return -EADDRNOTAVAIL;
}
