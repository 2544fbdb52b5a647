/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MPA_AHEAD_H
#define MPA_AHEAD_H

/** @file TCP's up-calls for octets behind a gap: struct weft_tcp_conn_ops, ahead and rx_ahead. */

#include <stdbool.h>
#include <stdint.h>

struct rte_mbuf;

bool mpa_ahead(void *user, struct rte_mbuf *b, uint32_t seq, uint32_t gap_bytes, bool follows);
void mpa_rx_ahead(void *user, struct rte_mbuf *b, uint32_t seq, uint32_t len_bytes,
                  uint64_t now_ns);

#endif /* MPA_AHEAD_H */
