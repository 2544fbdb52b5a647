/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Faults of packets that leave. A callback of ethdev's transmit burst cannot make them:
 * rte_eth_tx_burst() returns how many packets the driver took, so the stack would offer each packet
 * again that a callback took away. A function in front of the driver's own is put into the table
 * that rte_eth_tx_burst() calls (rte_eth_fp_ops). It takes packets as a driver does: those that it
 * drops or holds count as sent, and their references are given up when they are freed.
 */

#include "inject_way.h"

#include <errno.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <weft/atomic_ref.h>

#include "ui.h"

#define COPIES 2047u

/** The transmit queues of an ethdev port. */
static struct tap {
	eth_tx_burst_t send; /**< the driver's function */
	void **qd;           /**< what the driver's function is given, by queue */
	struct inject_queue *queues;
	_Atomic uint16_t n; /**< 0: no faults; the last that is set, the first that is unset */
} taps[RTE_MAX_ETHPORTS];

static uint16_t
queues_of(const struct tap *tap)
{
	return atomic_load_explicit(&tap->n, memory_order_acquire);
}

/** Copies that a driver, or the other end of a ring, may hold for ever: it is never freed. */
static struct rte_mempool *copies;

/** The queue that a driver's function is called for; NULL: another port's. */
static struct inject_queue *
queue_of(const void *qd, const struct tap **tap)
{
	for (unsigned int p = 0; p < RTE_MAX_ETHPORTS; p++)
		for (uint16_t i = 0; i < queues_of(&taps[p]); i++)
			if (taps[p].qd[i] == qd) {
				*tap = &taps[p];
				return &taps[p].queues[i];
			}
	return NULL;
}

/** Offer the driver what waits in ready, until it takes no more. */
static void
flush(struct inject_queue *q, const struct tap *tap)
{
	struct inject_held *h = &q->ready;

	while (h->n > 0) {
		const uint32_t whole = RTE_MIN(h->n, INJECT_HELD - h->head);
		const uint16_t n = (uint16_t)RTE_MIN(whole, 32u);
		const uint16_t sent = tap->send(tap->qd[q->number], &h->m[h->head], n);

		h->head = (h->head + sent) % INJECT_HELD;
		h->n -= sent;
		if (sent < n)
			return;
	}
}

static void
on_due(struct inject_queue *q)
{
	const struct tap *tap = NULL;
	const uint64_t now_ns = ui_now_ns();

	for (unsigned int p = 0; p < RTE_MAX_ETHPORTS && tap == NULL; p++)
		if (queues_of(&taps[p]) > q->number && &taps[p].queues[q->number] == q)
			tap = &taps[p];
	if (tap == NULL)
		return;
	inject_queue_due(q, now_ns);
	flush(q, tap);
	inject_queue_done(q, 0, now_ns);
}

/** In place of the driver's function. Returns how many packets it has taken. */
static uint16_t
on_tx(void *qd, struct rte_mbuf **pkts, uint16_t n)
{
	const struct tap *tap = NULL;
	struct inject_queue *q = queue_of(qd, &tap);
	const uint64_t now_ns = ui_now_ns();
	uint16_t taken = 0;

	if (q == NULL)
		return 0;
	/* Bonding sends its own frames when it is offered none. */
	if (n == 0)
		return tap->send(qd, pkts, 0);
	inject_queue_due(q, now_ns);
	flush(q, tap);
	while (taken < n && q->ready.n < INJECT_BURST) {
		for (unsigned int i = 0; i < 32 && taken < n; i++)
			inject_queue_take(q, pkts[taken++], now_ns);
		flush(q, tap);
	}
	inject_queue_done(q, taken, now_ns);
	return taken;
}

static void
put(uint16_t port_id, eth_tx_burst_t fn)
{
	atomic_store_explicit(WEFT_ATOMIC_REF(rte_eth_fp_ops[port_id].tx_pkt_burst), fn,
	                      memory_order_release);
}

int
inject_tx_on(uint16_t port_id, struct inject_queue *queues, uint16_t n)
{
	struct tap *tap = &taps[port_id];

	if (rte_eth_fp_ops[port_id].tx_pkt_burst == on_tx)
		return -EBUSY;
	if (copies == NULL)
		copies = rte_pktmbuf_pool_create("weft_inject", COPIES, 0, 0,
		                                 RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
	if (copies == NULL)
		return -ENOMEM;
	for (uint16_t i = 0; i < n; i++) {
		queues[i].number = i;
		queues[i].copies = copies;
		queues[i].on_due = on_due;
	}
	tap->send = rte_eth_fp_ops[port_id].tx_pkt_burst;
	tap->qd = rte_eth_fp_ops[port_id].txq.data;
	tap->queues = queues;
	atomic_store_explicit(&tap->n, n, memory_order_release);
	put(port_id, on_tx);
	return 0;
}

void
inject_tx_off(uint16_t port_id)
{
	/* A port that was stopped has its driver's function again. */
	if (queues_of(&taps[port_id]) > 0 && rte_eth_fp_ops[port_id].tx_pkt_burst == on_tx)
		put(port_id, taps[port_id].send);
}

void
inject_tx_free(uint16_t port_id)
{
	atomic_store_explicit(&taps[port_id].n, 0, memory_order_release);
}
