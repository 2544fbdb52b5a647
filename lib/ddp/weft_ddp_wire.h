/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_DDP_WIRE_H
#define WEFT_DDP_WIRE_H

/** @file The DDP headers on the wire, tagged (RFC 5041 s4.2) and untagged (s4.3). */

#include "weft_ddp.h"

#define WEFT_DDP_CTRL_T       0x80
#define WEFT_DDP_CTRL_L       0x40
#define WEFT_DDP_CTRL_RSVD    0x3c
#define WEFT_DDP_CTRL_DV_MASK 0x03

/* Offsets from the control octet. */
#define WEFT_DDP_RSVDULP_OFF   1
#define WEFT_DDP_T_STAG_OFF    2
#define WEFT_DDP_T_TO_OFF      6
#define WEFT_DDP_U_RSVDULP_OFF 2
#define WEFT_DDP_U_QN_OFF      6
#define WEFT_DDP_U_MSN_OFF     10
#define WEFT_DDP_U_MO_OFF      14

/** Decode a header and move c behind it. Returns its octets (14 or 18), or -ENODATA when the input
 * is shorter than its kind of header. The version is not checked. */
static inline int
weft_ddp_hdr_decode(struct weft_cur *c, struct weft_ddp_hdr *h)
{
	struct weft_cur at = *c;
	uint8_t copy[WEFT_DDP_UNTAGGED_HDR_BYTES];
	const uint8_t *p;
	uint32_t need;

	if (weft_cur_run(&at, 1, &p) == 0)
		return -ENODATA;
	need = p[0] & WEFT_DDP_CTRL_T ? WEFT_DDP_TAGGED_HDR_BYTES : WEFT_DDP_UNTAGGED_HDR_BYTES;
	at = *c;
	if (unlikely(weft_cur_run(&at, need, &p) < need)) {
		at = *c;
		if (weft_cur_read(&at, copy, need) < 0)
			return -ENODATA;
		p = copy;
	}
	*c = at;

	h->tagged = p[0] & WEFT_DDP_CTRL_T;
	h->last = p[0] & WEFT_DDP_CTRL_L;
	h->version = p[0] & WEFT_DDP_CTRL_DV_MASK;
	h->rsvd = p[0] & WEFT_DDP_CTRL_RSVD;
	h->rsvdulp = p[WEFT_DDP_RSVDULP_OFF];
	if (h->tagged) {
		h->stag = weft_get_be32(p + WEFT_DDP_T_STAG_OFF);
		h->to = weft_get_be64(p + WEFT_DDP_T_TO_OFF);
		h->rsvdulp32 = h->qn = h->msn = h->mo = 0;
	} else {
		h->rsvdulp32 = weft_get_be32(p + WEFT_DDP_U_RSVDULP_OFF);
		h->qn = weft_get_be32(p + WEFT_DDP_U_QN_OFF);
		h->msn = weft_get_be32(p + WEFT_DDP_U_MSN_OFF);
		h->mo = weft_get_be32(p + WEFT_DDP_U_MO_OFF);
		h->stag = 0;
		h->to = 0;
	}
	return (int)need;
}

/** Encode a header. Returns the octets written (14 or 18). */
static inline unsigned int
weft_ddp_hdr_encode(const struct weft_ddp_hdr *h, uint8_t *buf)
{
	buf[0] = (h->tagged ? WEFT_DDP_CTRL_T : 0) | (h->last ? WEFT_DDP_CTRL_L : 0) |
	         (h->rsvd & WEFT_DDP_CTRL_RSVD) | (h->version & WEFT_DDP_CTRL_DV_MASK);
	buf[WEFT_DDP_RSVDULP_OFF] = h->rsvdulp;
	if (h->tagged) {
		weft_put_be32(buf + WEFT_DDP_T_STAG_OFF, h->stag);
		weft_put_be64(buf + WEFT_DDP_T_TO_OFF, h->to);
		return WEFT_DDP_TAGGED_HDR_BYTES;
	}
	weft_put_be32(buf + WEFT_DDP_U_RSVDULP_OFF, h->rsvdulp32);
	weft_put_be32(buf + WEFT_DDP_U_QN_OFF, h->qn);
	weft_put_be32(buf + WEFT_DDP_U_MSN_OFF, h->msn);
	weft_put_be32(buf + WEFT_DDP_U_MO_OFF, h->mo);
	return WEFT_DDP_UNTAGGED_HDR_BYTES;
}

#endif /* WEFT_DDP_WIRE_H */
