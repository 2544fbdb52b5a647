/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DDP_AHEAD_H
#define DDP_AHEAD_H

/**
 * @file
 * What a stream has placed before its turn (RFC 5041 s5.3: "MAY perform Placement of DDP Segments
 * out of order"). What Writes and Sends store ends up as if it had been stored in the order sent:
 * octets that a later segment has placed are not overwritten by an earlier one.
 */

#include "weft_ddp.h"

struct weft_mem_mr;

/** Ranges of memory that one stream may have placed ahead. A segment beyond them waits for its
 * turn. */
#define DDP_AHEAD_RANGES 32

/**
 * Consecutive segments of the stream that fill consecutive octets of a region. It counts as long as
 * the STag still gives the right to write there: afterwards the memory may be used for something
 * else.
 */
struct ddp_ahead_range {
	const uint8_t *addr;
	uint32_t len_bytes;
	uint32_t stag, access;
	uint32_t seq, end_seq; /**< TCP's numbers of the stream octets that brought them */
};

struct ddp_ahead {
	unsigned int n;
	struct ddp_ahead_range r[DDP_AHEAD_RANGES];
};

/** Notes that a range is placed. False: no room or no memory; then the segment's turn must come. */
bool ddp_ahead_add(struct weft_ddp *d, const struct ddp_ahead_range *added);
/** weft_mem_place() without the octets that later segments, from end_seq on, have placed. */
void ddp_ahead_place(struct weft_ddp *d, struct weft_mem_mr *mr, uint64_t to, struct weft_cur *c,
                     uint32_t len_bytes, uint32_t end_seq);
/** The turn of the segment [seq, end_seq) has come: it is not ahead any more. */
void ddp_ahead_passed(struct weft_ddp *d, uint32_t seq, uint32_t end_seq, uint32_t len_bytes);

#endif /* DDP_AHEAD_H */
