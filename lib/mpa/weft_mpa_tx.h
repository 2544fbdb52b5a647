/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MPA_TX_H
#define WEFT_MPA_TX_H

/**
 * @file The FPDU that is packed into the TCP segment under construction, inline: it is the usual
 * one of a burst of short messages, and calls would be a good part of its work. weft_mpa_tx_begin()
 * and weft_mpa_tx_end() do the same for any FPDU. Internal; used by ddp.
 */

#include <rte_mbuf.h>

#include "mpa_wire.h"
#include "weft_mpa.h"

/**
 * Where to write the ULPDU of an FPDU that fits the segment under construction, as
 * weft_mpa_tx_begin(). NULL: it does not fit, or has markers, or there is no such segment. Call
 * weft_mpa_tx_begin() then.
 */
static inline uint8_t *
weft_mpa_tx_room(const struct weft_mpa *m, uint16_t ulpdu_bytes)
{
	const uint32_t total = mpa_fpdu_bytes(ulpdu_bytes);

	/* That there is a segment means that the stream may send: mpa_may_send(). */
	if (m->seg == NULL || m->seg_room_bytes < total || m->tx_markers)
		return NULL;
	return rte_pktmbuf_mtod_offset(m->seg, uint8_t *, m->seg->data_len) + MPA_FPDU_LEN_BYTES;
}

/** The FPDU at `fpdu` is complete but for its CRC, `covered` octets behind its start. */
static inline void
weft_mpa_tx_seal(struct weft_mpa *m, uint8_t *fpdu, uint32_t covered)
{
	const uint32_t total = covered + MPA_FPDU_CRC_BYTES;

	/* The CRC is of the copy: the region that it came from may change meanwhile. */
	if (likely(m->crc))
		mpa_crc_put(fpdu + covered, mpa_crc_update(MPA_CRC_INIT, fpdu, covered));
	else /* RFC 5044 s4.1: "still present, may contain any value" */
		memset(fpdu + covered, 0, MPA_FPDU_CRC_BYTES);
	m->seg->data_len = (uint16_t)(m->seg->data_len + total);
	m->seg->pkt_len += total;
	m->seg_room_bytes -= total;
	m->stats.fpdus_out++;
}

/** Finish the FPDU whose ULPDU was written at `ulpdu`, from weft_mpa_tx_room(). */
static inline void
weft_mpa_tx_room_end(struct weft_mpa *m, uint8_t *ulpdu, uint16_t ulpdu_bytes)
{
	weft_put_be16(ulpdu - MPA_FPDU_LEN_BYTES, ulpdu_bytes);
	/* the pad, in one store: the CRC overwrites the rest of the four octets */
	memset(ulpdu + ulpdu_bytes, 0, MPA_FPDU_CRC_BYTES);
	weft_mpa_tx_seal(m, ulpdu - MPA_FPDU_LEN_BYTES, mpa_fpdu_covered_bytes(ulpdu_bytes));
}

#endif /* WEFT_MPA_TX_H */
