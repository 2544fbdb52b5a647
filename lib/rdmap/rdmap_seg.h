/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_SEG_H
#define RDMAP_SEG_H

/**
 * @file
 * Messages that are sent in one segment, and the account of a segment of a longer one.
 */

#include "rdmap_stream.h"

/** What a segment costs beside its payload in a poll's send budget (WEFT_SEND_BYTES). */
#define RDMAP_SEG_COST_BYTES 256
/** Messages that are packed in one step: as many Writes of 64 octets as fit a segment of 1460. */
#define RDMAP_PACK_MAX 18
/** STag of a message without payload. The receiver does not check it (RFC 5041 s5.2). */
#define RDMAP_EMPTY_STAG 1

/** Send one untagged message in one segment. 1: sent. 0: no space below. -EMSGSIZE: a segment is
 * too small for the message. */
int rdmap_tx_untagged(struct weft_rdmap *r, uint8_t op, const void *data, uint32_t len_bytes,
                      uint64_t now_ns);
/** Send an empty RDMA Write of no request. The caller counts and flushes it. False: no space. */
bool rdmap_tx_empty_write(struct weft_rdmap *r, uint64_t now_ns);

/** Account for a written segment with n octets of payload, of a message of the kind `mid`. */
static inline void
rdmap_seg_account(struct weft_rdmap *r, enum rdmap_tx_mid mid, uint32_t n, int32_t *budget_bytes)
{
	r->unflushed = true;
	r->mid = mid;
	r->stats.bytes_out += n;
	*budget_bytes -= (int32_t)n + RDMAP_SEG_COST_BYTES;
}

/** Account for n packed messages that were sent, one segment each, with payload_bytes of payload
 * and header_bytes of the operation's own header in all. By opcode they are counted elsewhere. */
static inline void
rdmap_pack_account(struct weft_rdmap *r, uint32_t n, uint32_t payload_bytes, uint32_t header_bytes,
                   int32_t *budget_bytes)
{
	r->unflushed = true;
	r->stats.msgs_out += n;
	r->stats.bytes_out += payload_bytes;
	*budget_bytes -= (int32_t)(payload_bytes + header_bytes + n * RDMAP_SEG_COST_BYTES);
}

#endif /* RDMAP_SEG_H */
