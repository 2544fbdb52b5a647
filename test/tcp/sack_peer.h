/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SACK_PEER_H
#define SACK_PEER_H

/**
 * @file
 * One sender, the stack of tcp_peer.h, and a receiver whose selective acknowledgments the test
 * makes by hand. The round trip of the handshake is RTT_NS.
 */

#include "tcp_peer.h"
#include "tcp_priv.h"

#define RTT_NS (10 * WEFT_NS_PER_MS)

extern uint32_t first; /**< of the stack's octets */
extern const struct weft_tcp_stats *st;
extern struct weft_tcp_conn *c;

/** A connection with SACK, without timestamps, on which the stack has so many segments to send. */
void open_sack(const struct weft_tcp_attr *attr, unsigned int segs);
/** The same with the options of a SYN. */
void open_with(const struct weft_tcp_attr *attr, unsigned int segs, const struct tcp_opts *o);
/** An ACK of the first `upto` segments with blocks, in halves of segments: from, to, ..., -1. */
void sack2(unsigned int upto, const int *b);
/** The same in whole segments with one block; from == to: none. */
void sack(unsigned int upto, int from, int to);
/** The number, in segments, of what was sent as the i-th since. */
unsigned int sent(unsigned int i);

#endif /* SACK_PEER_H */
