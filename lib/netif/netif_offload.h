/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_OFFLOAD_H
#define NETIF_OFFLOAD_H

/** @file WEFT_OFFLOAD_* as the offload bits of ethdev (netif_offload.c). */

#include <stdint.h>

#include <weft/offload.h>

/** The bits of RTE_ETH_RX_OFFLOAD_* and RTE_ETH_TX_OFFLOAD_* of these offloads. What
 * cannot be done without one of them is among them. */
uint64_t netif_offload_rx(uint32_t offloads);
uint64_t netif_offload_tx(uint32_t offloads);

#endif /* NETIF_OFFLOAD_H */
