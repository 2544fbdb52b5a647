/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_PEER_H
#define TCP_PEER_H

/**
 * @file
 * One stack (node 0) that listens, and a peer (node 1) whose segments the test makes.
 */

#include "tcp_net.h"

#define MSS  1460
#define IRS  5000u /* initial sequence number of the peer, which is the test */
#define PORT 4000

extern struct net net;
extern struct net_app *app; /**< application of the stack's connection under test */
extern uint32_t iss;        /**< initial sequence number of the stack */

/** The last segment that the stack sent. */
struct net_seg last(void);
/** Clear segs and run for ns. segs then has only the segments that the stack sent in this time. */
void run_for(uint64_t ns);
void seg(uint8_t flags, uint32_t seq, uint32_t ack, uint16_t wnd, uint32_t off, uint32_t len);
/** Send a segment and record the segments that the stack sends at once. */
void seg_wait(uint8_t flags, uint32_t seq, uint32_t ack, uint16_t wnd, uint32_t off, uint32_t len);
void up(const struct weft_tcp_attr *attr);
void syn(uint32_t seq, const struct tcp_opts *o);
/** Open a connection from the peer, with an MSS of 1460 and without window scaling. */
void open_conn(const struct weft_tcp_attr *attr, const struct net_app *as);
void down(void);

#endif /* TCP_PEER_H */
