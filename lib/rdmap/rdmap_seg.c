/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Messages that are sent in one segment. */

#include "rdmap_seg.h"
#include "rdmap_wire.h"

bool
rdmap_tx_empty_write(struct weft_rdmap *r, uint64_t now_ns)
{
	struct weft_ddp_hdr h = {.tagged = true,
	                         .last = true,
	                         .rsvdulp = RDMAP_CTRL(WEFT_RDMAP_WRITE),
	                         .stag = RDMAP_EMPTY_STAG};

	if (weft_ddp_tx_begin(&r->ddp, &h, 0, now_ns) == NULL)
		return false;
	weft_ddp_tx_end(&r->ddp, now_ns);
	return true;
}

int
rdmap_tx_untagged(struct weft_rdmap *r, uint8_t op, const void *data, uint32_t len_bytes,
                  uint64_t now_ns)
{
	struct weft_ddp_hdr h = {.last = true, .rsvdulp = RDMAP_CTRL(op), .qn = rdmap_ops[op].qn};
	uint8_t *p;

	if (len_bytes > weft_ddp_max_payload(&r->ddp, false))
		return -EMSGSIZE;
	p = weft_ddp_tx_begin(&r->ddp, &h, len_bytes, now_ns);
	if (p == NULL)
		return 0;
	if (len_bytes > 0)
		memcpy(p, data, len_bytes);
	weft_ddp_tx_end(&r->ddp, now_ns);
	r->unflushed = true;
	rdmap_count_out(r, op);
	return 1;
}
