/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Outbound DDP segments: header, message sequence number, space for the payload. */

#include <rte_debug.h>

#include "weft_ddp_wire.h"
#include "weft_medium.h"
#include "weft_mpa_tx.h"

#define DDP_VERSION 1 /* RFC 5041 s4.1 */

uint32_t
weft_ddp_max_payload(const struct weft_ddp *d, bool tagged)
{
	return d->mpa->mulpdu_bytes -
	       (tagged ? WEFT_DDP_TAGGED_HDR_BYTES : WEFT_DDP_UNTAGGED_HDR_BYTES);
}

uint8_t *
weft_ddp_tx_begin(struct weft_ddp *d, struct weft_ddp_hdr *h, uint32_t len_bytes, uint64_t now_ns)
{
	uint8_t *p;

	RTE_ASSERT(len_bytes <= weft_ddp_max_payload(d, h->tagged));
	RTE_ASSERT(h->tagged || h->qn < WEFT_DDP_NQN);
	p = weft_mpa_tx_begin(d->mpa,
	                      (uint16_t)(len_bytes + (h->tagged ? WEFT_DDP_TAGGED_HDR_BYTES
	                                                        : WEFT_DDP_UNTAGGED_HDR_BYTES)),
	                      now_ns);
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

/** Write a whole segment into the TCP segment under construction. False: nothing was written. */
static __rte_always_inline bool
ddp_tx_pack(struct weft_ddp *d, const struct weft_ddp_hdr *h, const uint8_t *src,
            uint32_t len_bytes)
{
	uint16_t ulpdu_bytes = (uint16_t)(len_bytes + (h->tagged ? WEFT_DDP_TAGGED_HDR_BYTES
	                                                         : WEFT_DDP_UNTAGGED_HDR_BYTES));
	uint8_t *p = weft_mpa_tx_room(d->mpa, ulpdu_bytes);

	RTE_ASSERT(len_bytes <= weft_ddp_max_payload(d, h->tagged));
	if (p == NULL)
		return false;
	memcpy(p + weft_ddp_hdr_encode(h, p), src, len_bytes);
	if (unlikely(weft_medium_lost_any()))
		return false;
	weft_mpa_tx_room_end(d->mpa, p, ulpdu_bytes);
	return true;
}

bool
weft_ddp_tx_packed(struct weft_ddp *d, uint8_t rsvdulp, uint32_t stag, uint64_t to,
                   const uint8_t *src, uint32_t len_bytes)
{
	const struct weft_ddp_hdr h = {.tagged = true,
	                               .last = true,
	                               .version = DDP_VERSION,
	                               .rsvdulp = rsvdulp,
	                               .stag = stag,
	                               .to = to};

	return ddp_tx_pack(d, &h, src, len_bytes);
}

bool
weft_ddp_tx_packed_untagged(struct weft_ddp *d, uint8_t rsvdulp, uint32_t rsvdulp32, uint32_t qn,
                            const uint8_t *src, uint32_t len_bytes)
{
	const struct weft_ddp_hdr h = {.last = true,
	                               .version = DDP_VERSION,
	                               .rsvdulp = rsvdulp,
	                               .rsvdulp32 = rsvdulp32,
	                               .qn = qn,
	                               .msn = d->tx_msn[qn]};

	RTE_ASSERT(qn < WEFT_DDP_NQN);
	if (!ddp_tx_pack(d, &h, src, len_bytes))
		return false;
	d->tx_msn[qn]++; /* modulo 2^32, RFC 5041 s4.3 */
	return true;
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
