/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The transmit queue in front of the port. */

#include "netif_capture.h"
#include "netif_stall.h"
#include "netif_tso.h"
#include "netif_txq.h"

/** Octets of m on the wire. Adds its frames to *packets: the port cuts a TSO packet. */
static inline uint32_t
txq_bytes(const struct rte_mbuf *m, uint32_t *packets)
{
	uint32_t hdr, extra;

	(*packets)++;
	if (likely((m->ol_flags & RTE_MBUF_F_TX_TCP_SEG) == 0))
		return m->pkt_len;
	hdr = m->l2_len + m->l3_len + m->l4_len;
	extra = netif_tso_segs(m->pkt_len - hdr, m->tso_segsz) - 1;
	*packets += extra;
	return m->pkt_len + extra * hdr;
}

/* Offers one burst to the port. False: the port did not take all of it. */
static bool
txq_push(struct weft_netif *nif)
{
	struct rte_mbuf **m = &nif->ring[nif->head % NETIF_RING];
	uint32_t n = RTE_MIN(nif->tail - nif->head, (uint32_t)WEFT_NETIF_BURST);
	uint32_t bytes = 0, packets = 0, more_bytes = 0, more_packets = 0, sent;

	n = RTE_MIN(n, NETIF_RING - nif->head % NETIF_RING);
	nif->fresh_bytes = 0;
	/* After tx() an mbuf that was sent may be freed. */
	for (uint32_t i = 0; i < n; i++)
		bytes += txq_bytes(m[i], &packets);
	if (netif_capture_on(nif))
		sent = netif_capture_tx(nif, m, n);
	else
		sent = nif->attr.dev->tx(nif->attr.dev_arg, m, (uint16_t)n);
	for (uint32_t i = sent; i < n; i++)
		more_bytes += txq_bytes(m[i], &more_packets);
	nif->stats.tx_bytes += bytes - more_bytes;
	nif->stats.tx_packets += packets - more_packets;
	nif->head += sent;
	nif->stalled = sent < n;
	return !nif->stalled;
}

unsigned int
weft_netif_flush(struct weft_netif *nif, uint64_t now_ns)
{
	uint32_t before = nif->head;

	nif->now_ns = now_ns;
	while (nif->head != nif->tail && txq_push(nif))
		;
	nif->early = NETIF_EARLY_PUSHES;
	if (unlikely(nif->packet.due))
		netif_packet_look(&nif->packet, now_ns);
	if (unlikely(nif->head != nif->tail || nif->stall_due_ns != 0))
		netif_stall_look(nif, nif->head != before || nif->head == nif->tail);
	return nif->head - before;
}

unsigned int
weft_netif_tx_room(const struct weft_netif *nif)
{
	uint32_t used = nif->tail - nif->head;

	return used < WEFT_NETIF_TXQ ? WEFT_NETIF_TXQ - used : 0;
}

/* Not inline: a packet that is queued needs no registers saved for this. */
static __rte_noinline int
txq_refuse(struct weft_netif *nif, struct rte_mbuf *m)
{
	nif->stats.tx_queue_full++;
	rte_pktmbuf_free(m);
	return -ENOBUFS;
}

bool
weft_netif_tx_waits(const struct weft_netif *nif)
{
	return nif->head != nif->tail || nif->packet.due;
}

/** Packets have been queued: offers them to the port, if it is time. */
static inline void
txq_queued(struct weft_netif *nif)
{
	if (unlikely(nif->stalled))
		return;
	/* Send a full burst while it is in the cache, so that the peer can work on it. */
	if (nif->tail - nif->head >= WEFT_NETIF_BURST || nif->fresh_bytes >= NETIF_BURST_BYTES) {
		txq_push(nif);
	} else if (nif->early > 0 && nif->fresh_bytes >= NETIF_EARLY_BYTES) {
		nif->early--;
		txq_push(nif);
	}
}

int
netif_enqueue(struct weft_netif *nif, struct rte_mbuf *m, bool ctrl)
{
	if (unlikely(nif->tail - nif->head >= (ctrl ? NETIF_RING_CTRL : WEFT_NETIF_TXQ)))
		return txq_refuse(nif, m);
	nif->ring[nif->tail++ % NETIF_RING] = m;
	nif->fresh_bytes += m->pkt_len;
	txq_queued(nif);
	return 0;
}

void
netif_enqueue_run(struct weft_netif *nif, struct rte_mbuf *const *m, unsigned int n)
{
	uint32_t bytes = 0;

	if (unlikely(n == 0))
		return;
	for (unsigned int i = 0; i < n; i++) {
		nif->ring[(nif->tail + i) % NETIF_RING] = m[i];
		bytes += m[i]->pkt_len;
	}
	nif->tail += n;
	nif->fresh_bytes += bytes;
	txq_queued(nif);
}
