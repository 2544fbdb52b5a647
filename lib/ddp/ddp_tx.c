/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Outbound DDP segments: header, message sequence number, space for the payload. */

#include <rte_debug.h>

#include "weft_copy.h"
#include "weft_ddp_wire.h"
#include "weft_medium.h"
#include "weft_mpa_tx.h"

#define DDP_VERSION 1 /* RFC 5041 s4.1 */

static inline uint32_t
ddp_hdr_bytes(bool tagged)
{
	return WEFT_DDP_UNTAGGED_HDR_BYTES -
	       (uint32_t)tagged * (WEFT_DDP_UNTAGGED_HDR_BYTES - WEFT_DDP_TAGGED_HDR_BYTES);
}

uint32_t
weft_ddp_max_payload(const struct weft_ddp *d, bool tagged)
{
	return d->mpa->mulpdu_bytes - ddp_hdr_bytes(tagged);
}

uint8_t *
weft_ddp_tx_begin(struct weft_ddp *d, struct weft_ddp_hdr *h, uint32_t len_bytes, uint64_t now_ns)
{
	uint8_t *p;

	RTE_ASSERT(len_bytes <= weft_ddp_max_payload(d, h->tagged));
	RTE_ASSERT(h->tagged || h->qn < WEFT_DDP_NQN);
	p = weft_mpa_tx_begin(d->mpa, (uint16_t)(len_bytes + ddp_hdr_bytes(h->tagged)), now_ns);
	if (unlikely(p == NULL))
		return NULL;
	h->version = DDP_VERSION;
	if (!h->tagged) {
		h->msn = d->tx_msn[h->qn];
		if (h->last)
			d->tx_msn[h->qn]++; /* modulo 2^32, RFC 5041 s4.3 */
	}
	return p + weft_ddp_hdr_encode(h, p);
}

uint32_t
weft_ddp_tx_room(const struct weft_ddp *d)
{
	return d->mpa->seg != NULL ? d->mpa->seg_room_bytes : 0;
}

unsigned int
weft_ddp_tx_pack(struct weft_ddp *d, const struct weft_ddp_msg *msg, unsigned int n)
{
	/* numbers count only if the segments are sent; modulo 2^32, RFC 5041 s4.3 */
	uint32_t msn[] = {d->tx_msn[WEFT_DDP_QN_SEND], d->tx_msn[WEFT_DDP_QN_READ]};
	struct weft_mpa_pack k;
	unsigned int i;

	static_assert(WEFT_DDP_QN_SEND == 0 && WEFT_DDP_QN_READ == 1, "indexes of msn");
	if (!weft_mpa_pack_begin(d->mpa, &k))
		return 0;
	for (i = 0; i < n; i++, msg++) {
		const uint8_t *src = msg->src;
		const uint32_t len_bytes = msg->len_bytes, hdr_bytes = ddp_hdr_bytes(msg->tagged);
		uint8_t *p = weft_mpa_pack_ulpdu(&k, (uint16_t)(hdr_bytes + len_bytes));

		RTE_ASSERT(len_bytes <= weft_ddp_max_payload(d, msg->tagged));
		if (unlikely(p == NULL))
			break;
		if (msg->tagged) {
			weft_put_be16(p, (WEFT_DDP_CTRL_T | WEFT_DDP_CTRL_L | DDP_VERSION) << 8 |
			                         msg->rsvdulp);
			weft_put_be32(p + WEFT_DDP_T_STAG_OFF, msg->stag);
			weft_put_be64(p + WEFT_DDP_T_TO_OFF, msg->to);
		} else {
			weft_put_be16(p, (WEFT_DDP_CTRL_L | DDP_VERSION) << 8 | msg->rsvdulp);
			weft_put_be32(p + WEFT_DDP_U_RSVDULP_OFF, msg->stag);
			weft_put_be32(p + WEFT_DDP_U_QN_OFF, msg->qn);
			weft_put_be32(p + WEFT_DDP_U_MSN_OFF, msn[msg->qn]++);
			weft_put_be32(p + WEFT_DDP_U_MO_OFF, 0);
		}
		weft_copy(p + hdr_bytes, src, len_bytes);
		weft_mpa_pack_fpdu(&k, (uint16_t)(hdr_bytes + len_bytes));
	}
	if (unlikely(weft_medium_lost_any())) /* perhaps during a copy */
		return 0;
	weft_mpa_pack_end(d->mpa, &k, i);
	d->tx_msn[WEFT_DDP_QN_SEND] = msn[WEFT_DDP_QN_SEND];
	d->tx_msn[WEFT_DDP_QN_READ] = msn[WEFT_DDP_QN_READ];
	return i;
}

void
weft_ddp_tx_copy(struct weft_ddp *d, uint8_t *dst, const void *src, uint32_t len_bytes)
{
	weft_mpa_tx_copy(d->mpa, dst, src, len_bytes);
}

void
weft_ddp_tx_end(struct weft_ddp *d, uint64_t now_ns)
{
	weft_mpa_tx_end(d->mpa, now_ns);
}

void
weft_ddp_tx_cancel(struct weft_ddp *d, const struct weft_ddp_hdr *h)
{
	if (!h->tagged && h->last)
		d->tx_msn[h->qn]--;
	weft_mpa_tx_cancel(d->mpa);
}

void
weft_ddp_tx_flush(struct weft_ddp *d, uint64_t now_ns)
{
	weft_mpa_tx_flush(d->mpa, now_ns);
}
