/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MPA_WIRE_H
#define MPA_WIRE_H

/** @file Octets of MPA: sizes of start-up frames and FPDUs, and their CRC32c. */

#include <isa-l/crc.h>

#include "weft_base.h"
#include "weft_mpa.h"

#define MPA_FRAME_HDR_BYTES 20 /* RFC 5044 s7.1.1 Figure 8: key, flags, revision, PD_Length */
#define MPA_FRAME_MAX_BYTES (MPA_FRAME_HDR_BYTES + WEFT_MPA_MAX_PDATA)
#define MPA_FRAME_PDLEN_OFF 18
#define MPA_ENHANCED_BYTES  4 /* RFC 6581 s9 */
#define MPA_FPDU_LEN_BYTES  2 /* RFC 5044 s4.1: ULPDU_Length */
#define MPA_FPDU_CRC_BYTES  4
#define MPA_FPDU_MAX_BYTES  65544 /* length field, 65535 octets, 3 of pad, CRC */

/** Octets of length field, ULPDU and pad: what the CRC covers. */
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

#define MPA_CRC_INIT UINT32_MAX

/** One more piece under the CRC; start from MPA_CRC_INIT. */
static inline uint32_t
mpa_crc_update(uint32_t crc, const void *p, uint32_t len_bytes)
{
	/* ISA-L takes a mutable pointer and does neither the initial nor the final inversion. */
	return crc32_iscsi((unsigned char *)(uintptr_t)p, (int)len_bytes, crc);
}

/** The CRC field: complemented, least significant octet first (RFC 7143 s13.1 as RFC 5044 s4.4
 * cites it). */
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
