/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_SEG_H
#define RDMAP_SEG_H

/**
 * @file
 * Messages that are sent in one segment.
 */

#include "rdmap_stream.h"

/** What a segment costs beside its payload in a poll's send budget (WEFT_SEND_BYTES). */
#define RDMAP_SEG_COST_BYTES 256
/** STag of a message without payload. The receiver does not check it (RFC 5041 s5.2). */
#define RDMAP_EMPTY_STAG 1

/** Send one untagged message in one segment. 1: sent. 0: no space below. -EMSGSIZE: a segment is
 * too small for the message. */
int rdmap_tx_untagged(struct weft_rdmap *r, uint8_t op, const void *data, uint32_t len_bytes,
                      uint64_t now_ns);
/** Send an empty RDMA Write of no request. The caller counts and flushes it. False: no space. */
bool rdmap_tx_empty_write(struct weft_rdmap *r, uint64_t now_ns);

#endif /* RDMAP_SEG_H */
