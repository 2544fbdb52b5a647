/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_VERDICT_H
#define NETIF_VERDICT_H

/** @file What a port says of the checksums of a received packet. */

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "netif_cksum.h"

/** The port's result for a checksum. Valid only with the receive offload enabled. */
enum cksum_verdict { CKSUM_GOOD, CKSUM_BAD, CKSUM_UNKNOWN };

/** Of an IPv4 header, by a port with these receive offloads. */
static inline enum cksum_verdict
netif_verdict_ip(uint64_t rx_offloads, const struct rte_mbuf *m)
{
	if ((rx_offloads & RTE_ETH_RX_OFFLOAD_IPV4_CKSUM) == 0)
		return CKSUM_UNKNOWN;
	switch (m->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) {
	case RTE_MBUF_F_RX_IP_CKSUM_GOOD:
	case RTE_MBUF_F_RX_IP_CKSUM_NONE: /* was never on a wire, and is intact */
		return CKSUM_GOOD;
	case RTE_MBUF_F_RX_IP_CKSUM_BAD:
		return CKSUM_BAD;
	default:
		return CKSUM_UNKNOWN;
	}
}

/** Of a TCP segment. */
static inline enum cksum_verdict
netif_verdict_tcp(uint64_t rx_offloads, const struct rte_mbuf *m)
{
	if ((rx_offloads & RTE_ETH_RX_OFFLOAD_TCP_CKSUM) == 0)
		return CKSUM_UNKNOWN;
	switch (m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) {
	case RTE_MBUF_F_RX_L4_CKSUM_GOOD:
	case RTE_MBUF_F_RX_L4_CKSUM_NONE: /* see netif_sum_left_out() */
		return CKSUM_GOOD;
	case RTE_MBUF_F_RX_L4_CKSUM_BAD:
		return CKSUM_BAD;
	default:
		return CKSUM_UNKNOWN;
	}
}

/**
 * Whether a segment came from a neighbour on the same host, whose device left the checksum to a
 * wire that there was not (virtio's VIRTIO_NET_HDR_F_NEEDS_CSUM). The port says that it is intact,
 * and the field has the sum of the pseudo-header alone. This holds as well when the offload was
 * switched off at run time: such a device goes on passing these segments.
 */
static inline bool
netif_sum_left_out(const struct rte_mbuf *m, rte_be16_t cksum, uint32_t pseudo)
{
	return (m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_NONE &&
	       cksum == netif_fold(pseudo);
}

#endif /* NETIF_VERDICT_H */
