/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_OFFLOAD_TRUST_H
#define NETIF_OFFLOAD_TRUST_H

/** @file How far the device is believed: netif_rx_sum.c, netif_tx_sum.c. Polling thread. */

#include <stdbool.h>
#include <stdint.h>

struct weft_netif;

/** What the device says of received checksums. */
struct netif_rx_sum {
	/** segments whose checksum is taken on the device's word before the next check; 0: check */
	uint32_t left;
	uint32_t checks; /**< segments in a row that are still to be checked */
	bool doubted;    /**< it has called a damaged segment intact */
};

/** What acknowledgements say of the checksums and the cutting of the device. */
struct netif_tx_sum {
	uint64_t sum_ns, tso_ns; /**< of the latest finding; 0: none */
	/** when the ring stalled or the link changed: what left before tells nothing */
	uint64_t trouble_ns;
	uint8_t sums, tsos; /**< findings in sequence */
};

/** The transmit ring or the link had trouble of its own. */
void netif_tx_sum_trouble(struct weft_netif *nif);

/** Before the first packet. */
void netif_rx_sum_init(struct weft_netif *nif);
/** Compares the device's word on a checksum with what was computed. tcp: of a segment, else of an
 * IPv4 header. */
void netif_rx_sum_seen(struct weft_netif *nif, bool tcp, bool says_good, bool good);

#endif /* NETIF_OFFLOAD_TRUST_H */
