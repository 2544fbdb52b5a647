/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Faults of packets that arrive: a callback of ethdev's receive burst. */

#include "inject_way.h"

#include <errno.h>

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>

#include "ui.h"

static uint16_t
on_rx(uint16_t port, uint16_t queue, struct rte_mbuf **pkts, uint16_t n, uint16_t max, void *arg)
{
	struct inject_queue *q = arg;
	const uint64_t now_ns = ui_now_ns();
	uint16_t out;

	(void)port;
	(void)queue;
	inject_queue_due(q, now_ns);
	for (uint16_t i = 0; i < n; i++)
		inject_queue_take(q, pkts[i], now_ns);
	out = inject_queue_pop(q, pkts, max);
	inject_queue_done(q, n, now_ns);
	return out;
}

int
inject_rx_on(uint16_t port_id, struct inject_queue *queues, uint16_t n)
{
	for (uint16_t i = 0; i < n; i++) {
		queues[i].callback = rte_eth_add_rx_callback(port_id, i, on_rx, &queues[i]);
		if (queues[i].callback == NULL)
			return -rte_errno;
	}
	return 0;
}

void
inject_rx_off(uint16_t port_id, struct inject_queue *queues, uint16_t n)
{
	for (uint16_t i = 0; i < n; i++)
		if (queues[i].callback != NULL)
			rte_eth_remove_rx_callback(port_id, i, queues[i].callback);
}

void
inject_rx_free(struct inject_queue *queues, uint16_t n)
{
	for (uint16_t i = 0; i < n; i++)
		rte_free((void *)(uintptr_t)queues[i].callback);
}
