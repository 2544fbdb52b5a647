/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Checksums and TSO of the device, judged by what arrives. TCP reports what was acknowledged. An
 * interruption of the path looks the same to all connections that it meets. So findings are counted
 * only in sequence: a finding counts if the segment left after the finding before.
 */

#include <rte_ethdev.h>

#include "netif_priv.h"
#include "weft_netif_offload_trust.h"
#include <weft/offload.h>

#define TX_SUM_FINDINGS 6
/** An older finding is forgotten. */
#define TX_SUM_MEMORY_NS (300 * WEFT_NS_PER_S)
#define TX_SUM_BITS      (RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM)

bool
weft_netif_tx_summed(const struct weft_netif *nif)
{
	return (nif->attr.tx_offloads & RTE_ETH_TX_OFFLOAD_TCP_CKSUM) != 0;
}

/** Counts a finding about what left at sent_ns. True: they suffice. */
static bool
tx_sum_found(struct weft_netif *nif, uint64_t *last_ns, uint8_t *n, uint64_t sent_ns)
{
	uint64_t now_ns = netif_now(nif);

	if (*n > 0 && now_ns - *last_ns > TX_SUM_MEMORY_NS)
		*n = 0;
	if (*n > 0 && sent_ns <= *last_ns)
		return false;
	*last_ns = now_ns;
	return ++*n >= TX_SUM_FINDINGS;
}

void
netif_tx_sum_trouble(struct weft_netif *nif)
{
	nif->tx_sum.trouble_ns = netif_now(nif);
}

bool
weft_netif_tx_rescued(struct weft_netif *nif, uint64_t first_ns)
{
	struct netif_tx_sum *t = &nif->tx_sum;

	if (!weft_netif_tx_summed(nif) || first_ns <= t->trouble_ns)
		return false;
	nif->stats.tx_cksum_rescued++;
	if (!tx_sum_found(nif, &t->sum_ns, &t->sums, first_ns))
		return true;
	nif->attr.tx_offloads &= ~(TX_SUM_BITS | RTE_ETH_TX_OFFLOAD_TCP_TSO);
	nif->stats.tx_cksum_off = 1;
	WEFT_LOG_PEER(
	        netif, WARNING,
	        "port %u, queue %u: segments arrive only with checksums of weft, not with the "
	        "device's: weft computes all from now on",
	        nif->attr.port_id, nif->attr.queue_id);
	return true;
}

void
weft_netif_tx_resent(struct weft_netif *nif)
{
	nif->tx_sum.sums = 0;
}

void
weft_netif_tso_lost(struct weft_netif *nif, uint64_t sent_ns)
{
	struct netif_tx_sum *t = &nif->tx_sum;

	if ((nif->attr.tx_offloads & RTE_ETH_TX_OFFLOAD_TCP_TSO) == 0 || sent_ns <= t->trouble_ns)
		return;
	nif->stats.tso_lost++;
	if (!tx_sum_found(nif, &t->tso_ns, &t->tsos, sent_ns))
		return;
	nif->attr.tx_offloads &= ~(uint64_t)RTE_ETH_TX_OFFLOAD_TCP_TSO;
	nif->stats.tso_off = 1;
	WEFT_LOG_PEER(
	        netif, WARNING,
	        "port %u, queue %u: what the device cuts into segments (TSO) does not arrive: "
	        "weft cuts from now on",
	        nif->attr.port_id, nif->attr.queue_id);
}

void
weft_netif_tso_arrived(struct weft_netif *nif)
{
	nif->tx_sum.tsos = 0;
}

uint32_t
weft_netif_offloads_off(const struct weft_netif *nif)
{
	const struct weft_netif_stats *s = &nif->stats;

	return (s->rx_cksum_off != 0 ? WEFT_OFFLOAD_RX_CHECKSUM : 0u) |
	       (s->tx_cksum_off != 0 ? WEFT_OFFLOAD_TX_CHECKSUM | WEFT_OFFLOAD_TSO : 0u) |
	       (s->tso_off != 0 ? WEFT_OFFLOAD_TSO : 0u);
}
