/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The DDP headers, tagged (RFC 5041 s4.2) and untagged (s4.3). */

#include "weft_ddp.h"

#define CTRL_T       0x80
#define CTRL_L       0x40
#define CTRL_RSVD    0x3c
#define CTRL_DV_MASK 0x03

/* Offsets from the control octet. */
#define RSVDULP_OFF   1
#define T_STAG_OFF    2
#define T_TO_OFF      6
#define U_RSVDULP_OFF 2
#define U_QN_OFF      6
#define U_MSN_OFF     10
#define U_MO_OFF      14

int
weft_ddp_hdr_decode(struct weft_cur *c, struct weft_ddp_hdr *h)
{
	struct weft_cur at = *c;
	uint8_t copy[WEFT_DDP_UNTAGGED_HDR_BYTES];
	const uint8_t *p;
	uint32_t need;

	if (weft_cur_run(&at, 1, &p) == 0)
		return -ENODATA;
	need = p[0] & CTRL_T ? WEFT_DDP_TAGGED_HDR_BYTES : WEFT_DDP_UNTAGGED_HDR_BYTES;
	at = *c;
	if (unlikely(weft_cur_run(&at, need, &p) < need)) {
		at = *c;
		if (weft_cur_read(&at, copy, need) < 0)
			return -ENODATA;
		p = copy;
	}
	*c = at;

	h->tagged = p[0] & CTRL_T;
	h->last = p[0] & CTRL_L;
	h->version = p[0] & CTRL_DV_MASK;
	h->rsvd = p[0] & CTRL_RSVD;
	h->rsvdulp = p[RSVDULP_OFF];
	if (h->tagged) {
		h->stag = weft_get_be32(p + T_STAG_OFF);
		h->to = weft_get_be64(p + T_TO_OFF);
		h->rsvdulp32 = h->qn = h->msn = h->mo = 0;
	} else {
		h->rsvdulp32 = weft_get_be32(p + U_RSVDULP_OFF);
		h->qn = weft_get_be32(p + U_QN_OFF);
		h->msn = weft_get_be32(p + U_MSN_OFF);
		h->mo = weft_get_be32(p + U_MO_OFF);
		h->stag = 0;
		h->to = 0;
	}
	return (int)need;
}

unsigned int
weft_ddp_hdr_encode(const struct weft_ddp_hdr *h, uint8_t *buf)
{
	buf[0] = (h->tagged ? CTRL_T : 0) | (h->last ? CTRL_L : 0) | (h->rsvd & CTRL_RSVD) |
	         (h->version & CTRL_DV_MASK);
	buf[RSVDULP_OFF] = h->rsvdulp;
	if (h->tagged) {
		weft_put_be32(buf + T_STAG_OFF, h->stag);
		weft_put_be64(buf + T_TO_OFF, h->to);
		return WEFT_DDP_TAGGED_HDR_BYTES;
	}
	weft_put_be32(buf + U_RSVDULP_OFF, h->rsvdulp32);
	weft_put_be32(buf + U_QN_OFF, h->qn);
	weft_put_be32(buf + U_MSN_OFF, h->msn);
	weft_put_be32(buf + U_MO_OFF, h->mo);
	return WEFT_DDP_UNTAGGED_HDR_BYTES;
}
