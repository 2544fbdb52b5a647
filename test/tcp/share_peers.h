/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARE_PEERS_H
#define SHARE_PEERS_H

/**
 * @file Many peers of one listening stack, identified by numbers, for tests of how its connections
 * share what the port lends. The test encodes the peers' segments.
 */

#include <rte_mempool.h>

#include "tcp_peer.h"
#include "tcp_conn.h"
#include "tcp_instance.h"

/** Send peer i's next segment, with octets of its stream from `off` on. */
void hand_seg(unsigned int i, uint8_t flags, uint32_t off, uint32_t ack, uint16_t wnd,
              uint32_t len);
/** Open connection i. Returns false if the stack did not accept it. */
bool hand_open(unsigned int i);
/** The stack's connection with peer i. */
struct weft_tcp_conn *conn(unsigned int i);
/** Acknowledge all that the stack has sent on connection i. */
void hand_ack(unsigned int i);
/** What the connections share. */
struct tcp_share *share(void);
/** Check that the charged buffers are the queued ones, connection by connection. */
void check_share(unsigned int conns);

#endif /* SHARE_PEERS_H */
