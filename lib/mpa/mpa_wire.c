/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The start-up frames of MPA, revision 1 (RFC 5044 s7.1.1) and 2 (RFC 6581 s6, s9). */

#include "mpa_wire.h"

#define KEY_BYTES 16
#define FLAGS_OFF 16
#define REV_OFF   17

#define FLAG_M 0x80
#define FLAG_C 0x40
#define FLAG_R 0x20
#define FLAG_S 0x10 /* RFC 6581 s6; reserved and ignored in revision 1 */

/* The IRD/ORD word, RFC 6581 s9. */
#define WORD_A      0x80000000u
#define WORD_B      0x40000000u
#define WORD_C      0x00008000u
#define WORD_D      0x00004000u
#define WORD_IRD(w) (((w) >> 16) & 0x3fff)
#define WORD_ORD(w) ((w)&0x3fff)
#define WORD_MAX_14 0x3fff

static const uint8_t mpa_key_req[KEY_BYTES + 1] = "MPA ID Req Frame";
static const uint8_t mpa_key_rep[KEY_BYTES + 1] = "MPA ID Rep Frame";

int
weft_mpa_frame_decode(const uint8_t *buf, size_t len_bytes, struct weft_mpa_frame *f)
{
	size_t have = RTE_MIN(len_bytes, (size_t)KEY_BYTES);
	uint16_t pd_bytes;
	const uint8_t *pd;
	uint8_t flags;

	/* The first wrong octet of the key tells another protocol, even in a short input. */
	if (memcmp(buf, mpa_key_req, have) != 0 && memcmp(buf, mpa_key_rep, have) != 0)
		return -EPROTO;
	if (len_bytes < MPA_FRAME_HDR_BYTES)
		return -EAGAIN;
	pd_bytes = weft_get_be16(buf + MPA_FRAME_PDLEN_OFF);
	if (pd_bytes > WEFT_MPA_MAX_PDATA)
		return -EPROTO;

	memset(f, 0, offsetof(struct weft_mpa_frame, pdata));
	flags = buf[FLAGS_OFF];
	f->reply = memcmp(buf, mpa_key_rep, KEY_BYTES) == 0;
	f->markers = flags & FLAG_M;
	f->crc = flags & FLAG_C;
	f->reject = f->reply && (flags & FLAG_R);
	f->rev = buf[REV_OFF];
	f->enhanced = f->rev >= 2 && (flags & FLAG_S);
	if (f->enhanced && pd_bytes < MPA_ENHANCED_BYTES)
		return -EPROTO;
	if (len_bytes < (size_t)MPA_FRAME_HDR_BYTES + pd_bytes)
		return -EAGAIN;

	pd = buf + MPA_FRAME_HDR_BYTES;
	f->pdata_len_bytes = pd_bytes;
	if (f->enhanced) {
		uint32_t w = weft_get_be32(pd);

		f->ird = WORD_IRD(w);
		f->ord = WORD_ORD(w);
		f->p2p = w & WORD_A;
		/* "if Control Flag A is set to 0, then Control Flags B, C, and D MUST be ignored"
		 */
		f->rtr_send = f->p2p && (w & WORD_B);
		f->rtr_write = f->p2p && (w & WORD_C);
		f->rtr_read = f->p2p && (w & WORD_D);
		pd += MPA_ENHANCED_BYTES;
		f->pdata_len_bytes -= MPA_ENHANCED_BYTES;
	}
	memcpy(f->pdata, pd, f->pdata_len_bytes);
	return MPA_FRAME_HDR_BYTES + pd_bytes;
}

int
weft_mpa_frame_encode(const struct weft_mpa_frame *f, uint8_t *buf, size_t size_bytes)
{
	size_t word_bytes = f->enhanced ? MPA_ENHANCED_BYTES : 0;
	size_t pd_bytes = word_bytes + f->pdata_len_bytes;
	uint8_t *pd = buf + MPA_FRAME_HDR_BYTES;

	if (pd_bytes > WEFT_MPA_MAX_PDATA)
		return -EINVAL;
	if (f->enhanced && (f->rev < 2 || f->ird > WORD_MAX_14 || f->ord > WORD_MAX_14))
		return -EINVAL;
	if (size_bytes < MPA_FRAME_HDR_BYTES + pd_bytes)
		return -ENOSPC;

	memcpy(buf, f->reply ? mpa_key_rep : mpa_key_req, KEY_BYTES);
	buf[FLAGS_OFF] = (f->markers ? FLAG_M : 0) | (f->crc ? FLAG_C : 0) |
	                 (f->reply && f->reject ? FLAG_R : 0) | (f->enhanced ? FLAG_S : 0);
	buf[REV_OFF] = f->rev;
	weft_put_be16(buf + MPA_FRAME_PDLEN_OFF, (uint16_t)pd_bytes);
	if (f->enhanced) {
		uint32_t w = (uint32_t)f->ird << 16 | f->ord;

		if (f->p2p)
			w |= WORD_A | (f->rtr_send ? WORD_B : 0) | (f->rtr_write ? WORD_C : 0) |
			     (f->rtr_read ? WORD_D : 0);
		weft_put_be32(pd, w);
	}
	memcpy(pd + word_bytes, f->pdata, f->pdata_len_bytes);
	return (int)(MPA_FRAME_HDR_BYTES + pd_bytes);
}
