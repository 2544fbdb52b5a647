/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_RECV_H
#define RDMAP_RECV_H

/**
 * @file
 * The receive buffer that a Send or Immediate Data consumes.
 */

#include "rdmap_stream.h"

/**
 * For a segment on QN 0 that does not continue the message being received: take a receive buffer if
 * the segment begins a message. 0; or a fault in *term: there is no buffer, or the message before
 * is not complete.
 */
int rdmap_recv_take(struct weft_rdmap *r, uint8_t op, const struct weft_ddp_hdr *h,
                    struct weft_term *term);

/** Whether a segment with this opcode continues the message being received. */
static inline bool
rdmap_recv_goes_on(const struct weft_rdmap *r, uint8_t op)
{
	return r->rx_send.active && r->rx_send.op == op;
}

#endif /* RDMAP_RECV_H */
