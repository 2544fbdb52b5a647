/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Source ports for active opens on a port that does not steer by its table. */

#include "netif_flow.h"
#include "netif_group_priv.h"
#include "netif_learn.h"

/** Ports that are compared with what was learnt. Of four queues one in four is the member's. */
#define PICK_TRIES 64

/** Whether answers to the port arrive in the member's queue: 1, 0, or -1: not known. */
static int
pick_answers(const struct netif_pick *k, uint16_t port)
{
	struct netif_learn_tuple t;
	unsigned int n = 16;
	int queue;

	if (weft_ip_is_v4(k->dst)) {
		n = 4;
		memcpy(t.b, &k->dst->b[12], n);
		memcpy(t.b + n, &k->src->b[12], n);
	} else {
		memcpy(t.b, k->dst->b, n);
		memcpy(t.b + n, k->src->b, n);
	}
	weft_put_be16(t.b + 2 * n, k->dst_port);
	weft_put_be16(t.b + 2 * n + 2, port);
	t.bytes = 2 * n + 4;
	queue = netif_learn_queue(k->learn, &t);
	return queue < 0 ? -1 : (unsigned int)queue == k->member;
}

static bool
pick_take(const struct netif_pick *k, uint16_t port)
{
	uint32_t hash = netif_steer_hash(k->steer, k->dst, k->dst_port, k->src, port);

	return k->usable(k->arg, port) &&
	       (netif_flow_owner(k->flows, hash) == k->member ||
	        netif_flow_claim(k->flows, k->member, hash, true, k->now_ns));
}

int
netif_pick_port(const struct netif_pick *k, uint64_t *learnt)
{
	uint32_t first = weft_rand_u32(k->rand) % WEFT_PORT_COUNT;

	for (uint32_t i = 0; i < WEFT_PORT_COUNT; i++) {
		uint16_t port = (uint16_t)(WEFT_PORT_FIRST + (first + i) % WEFT_PORT_COUNT);
		int answers = i < PICK_TRIES ? pick_answers(k, port) : -1;

		if (answers == 0 || !pick_take(k, port))
			continue;
		*learnt += answers == 1;
		return port;
	}
	/* Those that were passed over are better than none. */
	for (uint32_t i = 0; i < PICK_TRIES; i++) {
		uint16_t port = (uint16_t)(WEFT_PORT_FIRST + (first + i) % WEFT_PORT_COUNT);

		if (pick_take(k, port))
			return port;
	}
	return -EADDRNOTAVAIL;
}
