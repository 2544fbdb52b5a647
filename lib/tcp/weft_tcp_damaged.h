/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TCP_DAMAGED_H
#define WEFT_TCP_DAMAGED_H

/** @file Damage that TCP's checksum should have shown. Internal. */

struct weft_tcp_conn;

/** The user found octets of the peer damaged (CRC). If the port has judged their checksums, it may
 * be wrong: they are computed for a while. */
void weft_tcp_rx_damaged(struct weft_tcp_conn *c);

#endif /* WEFT_TCP_DAMAGED_H */
