/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_RTR_H
#define RDMAP_RTR_H

/**
 * @file
 * The ready-to-receive indication (RFC 6581 s9.2).
 */

#include "rdmap_stream.h"

/** Send the indication r->rtr. False: no space below yet, or the stream is ending. */
bool rdmap_rtr_send(struct weft_rdmap *r, uint64_t now_ns);

#endif /* RDMAP_RTR_H */
