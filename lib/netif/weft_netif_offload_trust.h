/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_OFFLOAD_TRUST_H
#define WEFT_NETIF_OFFLOAD_TRUST_H

/**
 * @file
 * What the layers above see of a device that does an offload incorrectly. netif switches the
 * offload off for its queue when the evidence suffices, and does the work itself from then on.
 * Internal. Polling thread, unless a comment says otherwise.
 */

#include <stdbool.h>
#include <stdint.h>

struct weft_netif;

/* ---- Receive (netif_rx_sum.c) ---- */

/** Octets that a checksum covers were damaged all the same (a CRC of MPA): every checksum is
 * computed for a while. A peer may cause it; it costs the computations. */
void weft_netif_rx_damaged(struct weft_netif *nif);

/* ---- Transmit (netif_tx_sum.c, netif_stall.c) ---- */

/** Whether the device fills in the checksums of TCP segments. */
bool weft_netif_tx_summed(const struct weft_netif *nif);
/** A segment was acknowledged soon after it left with a checksum of ours, and never when the device
 * filled it in, from first_ns on. Six such findings, each of a segment that first left after the
 * finding before, end the offload. False: it is no finding, because the ring or the link had
 * trouble since. */
bool weft_netif_tx_rescued(struct weft_netif *nif, uint64_t first_ns);
/** A retransmission whose checksum the device filled in has arrived: the path loses packets. */
void weft_netif_tx_resent(struct weft_netif *nif);

/** A segment had to be sent again more than once. If the device has sent nothing meanwhile, its
 * queue is reset. */
void weft_netif_tx_unanswered(struct weft_netif *nif);

/** The second segment of a TSO packet, which left at sent_ns, arrived only when it was sent again
 * without TSO. Six such findings in sequence, and none of weft_netif_tso_arrived(), end TSO. */
void weft_netif_tso_lost(struct weft_netif *nif, uint64_t sent_ns);
void weft_netif_tso_arrived(struct weft_netif *nif);

#endif /* WEFT_NETIF_OFFLOAD_TRUST_H */
