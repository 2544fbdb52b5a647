/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MPA_TX_H
#define WEFT_MPA_TX_H

/**
 * @file FPDUs that are packed into the TCP segment under construction, inline: they are the usual
 * ones of a burst of short messages. What is the same for all of a burst is looked at once.
 * weft_mpa_tx_begin() and weft_mpa_tx_end() do the same for any FPDU. Internal; used by ddp.
 */

#include <rte_mbuf.h>

#include "mpa_wire.h"
#include "weft_mpa.h"

/** A burst of FPDUs that are being packed. */
struct weft_mpa_pack {
	uint8_t *at;         /**< where the next FPDU begins */
	uint32_t room_bytes; /**< octets still free in the TCP segment */
	bool crc;
};

/**
 * Begin to pack FPDUs into the segment under construction. False: there is none, or the stream has
 * markers; use weft_mpa_tx_begin().
 */
static inline bool
weft_mpa_pack_begin(const struct weft_mpa *m, struct weft_mpa_pack *k)
{
	/* That there is a segment means that the stream may send: mpa_may_send(). */
	if (m->seg == NULL || m->tx_markers)
		return false;
	k->at = rte_pktmbuf_mtod_offset(m->seg, uint8_t *, m->seg->data_len);
	k->room_bytes = m->seg_room_bytes;
	k->crc = m->crc;
	return true;
}

/** Where to write the next ULPDU. NULL: its FPDU does not fit. */
static inline uint8_t *
weft_mpa_pack_ulpdu(const struct weft_mpa_pack *k, uint16_t ulpdu_bytes)
{
	return mpa_fpdu_bytes(ulpdu_bytes) <= k->room_bytes ? k->at + MPA_FPDU_LEN_BYTES : NULL;
}

/** Fill in the CRC of an FPDU, `covered` octets behind its start. */
static inline void
weft_mpa_tx_seal(uint8_t *fpdu, uint32_t covered, bool crc)
{
	/* The CRC is of the copy: the region that it came from may change meanwhile. */
	if (likely(crc))
		mpa_crc_put(fpdu + covered, mpa_crc_update(MPA_CRC_INIT, fpdu, covered));
	else /* RFC 5044 s4.1: "still present, may contain any value" */
		memset(fpdu + covered, 0, MPA_FPDU_CRC_BYTES);
}

/** Finish the FPDU whose ULPDU was written at weft_mpa_pack_ulpdu(). */
static inline void
weft_mpa_pack_fpdu(struct weft_mpa_pack *k, uint16_t ulpdu_bytes)
{
	const uint32_t covered = mpa_fpdu_covered_bytes(ulpdu_bytes);
	uint8_t *fpdu = k->at;

	weft_put_be16(fpdu, ulpdu_bytes);
	/* the pad, in one store: the CRC overwrites the rest of the four octets */
	memset(fpdu + MPA_FPDU_LEN_BYTES + ulpdu_bytes, 0, MPA_FPDU_CRC_BYTES);
	weft_mpa_tx_seal(fpdu, covered, k->crc);
	k->at += covered + MPA_FPDU_CRC_BYTES;
	k->room_bytes -= covered + MPA_FPDU_CRC_BYTES;
}

/** The burst is complete: its n FPDUs are sent with the segment. Without this call none is. */
static inline void
weft_mpa_pack_end(struct weft_mpa *m, const struct weft_mpa_pack *k, unsigned int n)
{
	const uint32_t bytes = m->seg_room_bytes - k->room_bytes;

	m->seg->data_len = (uint16_t)(m->seg->data_len + bytes);
	m->seg->pkt_len += bytes;
	m->seg_room_bytes = k->room_bytes;
	m->stats.fpdus_out += n;
}

#endif /* WEFT_MPA_TX_H */
