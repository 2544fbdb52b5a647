/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_TXQ_H
#define NETIF_TXQ_H

/** @file The transmit queue in front of the port (netif_txq.c), weft_netif_flush() and
 * weft_netif_tx_room() included. */

#include "netif_priv.h"

/* The first long packets of a poll are given to the port early. The port sends them, and the peer
 * receives them, while the next ones are built. There are few early pushes, so that a busy sender
 * still sends in full bursts. */
#define NETIF_EARLY_PUSHES 4
#define NETIF_EARLY_BYTES  1024
/** With WEFT_NETIF_BURST packets or this many octets, the port is offered the queue at once, so
 * that the peer can work on it meanwhile. */
#define NETIF_BURST_BYTES 65536

/** Queues a whole frame. Consumes m, also on error. ctrl: may use the entries kept free for ARP and
 * ICMP. 0, or -ENOBUFS (the queue is full; counted). Polling thread. */
int netif_enqueue(struct weft_netif *nif, struct rte_mbuf *m, bool ctrl);
/** Queues n whole frames that are no TSO packets, for which weft_netif_tx_room() has entries. */
void netif_enqueue_run(struct weft_netif *nif, struct rte_mbuf *const *m, unsigned int n);

#endif /* NETIF_TXQ_H */
