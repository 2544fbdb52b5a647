/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_PEER_STATS_H
#define TCP_PEER_STATS_H

/** @file The counters of both layers as JSON objects on standard output. */

#include "weft_netif_stats.h"
#include "weft_tcp.h"

void peer_print_tcp_stats(const struct weft_tcp_stats *st);
void peer_print_netif_stats(const struct weft_netif_stats *st);

#endif /* TCP_PEER_STATS_H */
