/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MPA_WIRE_H
#define MPA_WIRE_H

/** @file MPA on the wire: sizes of start-up frames and FPDUs, positions of markers, CRC32c. */

#include <assert.h>

#ifdef __SSE4_2__
#include <nmmintrin.h>
#endif

#include <isa-l/crc.h>

#include "mpa_crc.h"
#include "weft_base.h"
#include "weft_mpa.h"
#include "weft_mpa_frame.h"
#include "weft_vec.h"

#define MPA_FRAME_HDR_BYTES 20 /* RFC 5044 s7.1.1 Figure 8: key, flags, revision, PD_Length */
#define MPA_FRAME_MAX_BYTES (MPA_FRAME_HDR_BYTES + WEFT_MPA_MAX_PDATA)
#define MPA_FRAME_PDLEN_OFF 18
#define MPA_ENHANCED_BYTES  4 /* RFC 6581 s9 */
#define MPA_FPDU_LEN_BYTES  2 /* RFC 5044 s4.1: ULPDU_Length */
#define MPA_FPDU_CRC_BYTES  4
#define MPA_FPDU_MAX_BYTES  65544 /* length field, 65535 octets, 3 of pad, CRC */
#define MPA_MARKER_BYTES    4     /* RFC 5044 s4.2 */
#define MPA_MARKER_PERIOD   512   /* s4.3: of the stream, markers included */
#define MPA_MARKER_PTR_OFF  2     /* FPDUPTR */
#define MPA_MARKER_PTR_MASK 0xfffcu
/** The longest FPDU with its markers. */
#define MPA_FPDU_MAX_RAW_BYTES (MPA_FPDU_MAX_BYTES + WEFT_MPA_MAX_MARKERS * MPA_MARKER_BYTES)

/** Octets of length field, ULPDU and pad, which the CRC covers (with the markers among them). */
static inline uint32_t
mpa_fpdu_covered_bytes(uint16_t ulpdu_bytes)
{
	return RTE_ALIGN_CEIL((uint32_t)ulpdu_bytes + MPA_FPDU_LEN_BYTES, 4);
}

/** Octets of a whole FPDU. */
static inline uint32_t
mpa_fpdu_bytes(uint16_t ulpdu_bytes)
{
	return mpa_fpdu_covered_bytes(ulpdu_bytes) + MPA_FPDU_CRC_BYTES;
}

/** Octets from stream position pos (modulo 512) to the next marker's first octet. */
static inline uint32_t
mpa_to_marker(uint16_t pos)
{
	return (0u - pos) % MPA_MARKER_PERIOD;
}

/**
 * Number of markers of an FPDU of fpdu_bytes that begins at pos. A marker right before the FPDU
 * belongs to it; a marker right behind it belongs to the next FPDU (RFC 5044 s4.3).
 */
static inline uint32_t
mpa_markers(uint16_t pos, uint32_t fpdu_bytes)
{
	uint32_t first = mpa_to_marker(pos);

	if (fpdu_bytes <= first)
		return 0;
	return 1 + (fpdu_bytes - first - 1) / (MPA_MARKER_PERIOD - MPA_MARKER_BYTES);
}

/** Octets before the length field: 4 when a marker is right before the FPDU, else 0. */
static inline uint32_t
mpa_marker_lead(uint16_t pos)
{
	return pos % MPA_MARKER_PERIOD == 0 ? MPA_MARKER_BYTES : 0;
}

/** FPDUPTR of the marker at octet `at` of an FPDU whose length field is at octet `lead`. */
static inline uint16_t
mpa_marker_ptr(uint32_t at, uint32_t lead)
{
	return at == 0 ? 0 : (uint16_t)(at - lead);
}

#define MPA_CRC_INIT UINT32_MAX
/** Up to here a loop of the processor's CRC instruction is faster than ISA-L, whose code is made
 * for kilobytes. */
#define MPA_CRC_SHORT_BYTES 192

#ifdef __SSE4_2__
static inline uint64_t
mpa_load64(const uint8_t *p)
{
	uint64_t w;

	memcpy(&w, p, sizeof(w));
	return w;
}

/** Add the eight octets that end 8 * n octets before `end`, and all behind them. */
#define MPA_CRC_WORD(n)                                                                            \
	case n:                                                                                    \
		c = _mm_crc32_u64(c, mpa_load64(end - 8 * (n)));                                   \
		__attribute__((fallthrough));

/**
 * At most MPA_CRC_SHORT_BYTES. One jump instead of a loop and its tests: FPDUs of a burst are
 * usually of one length.
 */
static inline uint32_t
mpa_crc_short(uint32_t crc, const uint8_t *p, uint32_t len_bytes)
{
	const uint8_t *const end = p + (len_bytes & ~7u);
	uint64_t c = crc;

	static_assert(MPA_CRC_SHORT_BYTES == 24 * 8, "the words below");
	switch (len_bytes / 8) {
		MPA_CRC_WORD(24)
		MPA_CRC_WORD(23)
		MPA_CRC_WORD(22)
		MPA_CRC_WORD(21)
		MPA_CRC_WORD(20)
		MPA_CRC_WORD(19)
		MPA_CRC_WORD(18)
		MPA_CRC_WORD(17)
		MPA_CRC_WORD(16)
		MPA_CRC_WORD(15)
		MPA_CRC_WORD(14)
		MPA_CRC_WORD(13)
		MPA_CRC_WORD(12)
		MPA_CRC_WORD(11)
		MPA_CRC_WORD(10)
		MPA_CRC_WORD(9)
		MPA_CRC_WORD(8)
		MPA_CRC_WORD(7)
		MPA_CRC_WORD(6)
		MPA_CRC_WORD(5)
		MPA_CRC_WORD(4)
		MPA_CRC_WORD(3)
		MPA_CRC_WORD(2)
		MPA_CRC_WORD(1)
	case 0:
		break;
	default:
		__builtin_unreachable();
	}
	crc = (uint32_t)c;
	p = end;
	if ((len_bytes & 4) != 0) {
		uint32_t half;

		memcpy(&half, p, sizeof(half));
		crc = _mm_crc32_u32(crc, half);
		p += sizeof(half);
	}
	/* An FPDU is a multiple of four octets; a piece of one need not be. */
	for (len_bytes &= 3; unlikely(len_bytes > 0); len_bytes--)
		crc = _mm_crc32_u8(crc, *p++);
	return crc;
}
#endif

/** Add a piece to the CRC. The first piece starts from MPA_CRC_INIT. */
static inline uint32_t
mpa_crc_update(uint32_t crc, const void *p, uint32_t len_bytes)
{
#ifdef __SSE4_2__
	if (len_bytes <= MPA_CRC_SHORT_BYTES)
		return mpa_crc_short(crc, p, len_bytes);
#endif
	if (mpa_crc_wide)
		return mpa_crc_wide_add(crc, p, len_bytes);
	/* ISA-L does neither the initial nor the final inversion. It does not write to p. */
	crc = crc32_iscsi((unsigned char *)(uintptr_t)p, (int)len_bytes, crc);
	weft_vec_done();
	return crc;
}

/** Write the CRC field: complemented, least significant octet first (RFC 7143 s13.1, which RFC 5044
 * s4.4 cites). */
static inline void
mpa_crc_put(uint8_t *p, uint32_t crc)
{
	uint32_t v = rte_cpu_to_le_32(~crc);

	memcpy(p, &v, sizeof(v));
}

static inline bool
mpa_crc_matches(const uint8_t *p, uint32_t crc)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return rte_le_to_cpu_32(v) == ~crc;
}

#endif /* MPA_WIRE_H */
