/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SACK_PEER_H
#define SACK_PEER_H

/**
 * @file
 * One sender (the stack of tcp_peer.h) and a receiver whose selective acknowledgments the test
 * makes. The round-trip time of the handshake is RTT_NS.
 */

#include "tcp_peer.h"
#include "tcp_conn.h"

#define RTT_NS (10 * WEFT_NS_PER_MS)

extern uint32_t first; /**< sequence number of the stack's first octet */
extern const struct weft_tcp_stats *st;
extern struct weft_tcp_conn *c;

/** Open a connection with SACK and without timestamps. The stack has this many segments to send. */
void open_sack(const struct weft_tcp_attr *attr, unsigned int segs);
/** The same with the given options in the SYN. */
void open_with(const struct weft_tcp_attr *attr, unsigned int segs, const struct tcp_opts *o);
/** Send an ACK of the first `upto` segments with SACK blocks: from, to, ..., -1, in half segments.
 */
void sack2(unsigned int upto, const int *b);
/** The same with one block in whole segments. from == to: no block. */
void sack(unsigned int upto, int from, int to);
/** The number, in segments, of what was sent as the i-th since. */
unsigned int sent(unsigned int i);

#endif /* SACK_PEER_H */
