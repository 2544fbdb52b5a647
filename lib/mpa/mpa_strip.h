/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MPA_STRIP_H
#define MPA_STRIP_H

/** @file The markers of a received FPDU: they are checked, and the ULPDU between them is found. */

#include "mpa_wire.h"

/** Parser of an FPDU with markers, fed with its pieces in memory. Offsets are from its start. */
struct mpa_strip {
	uint32_t at;          /**< octets parsed so far */
	uint32_t lead;        /**< offset of the length field */
	uint32_t next_marker; /**< offset of the next marker, or of the one being parsed */
	uint32_t covered;     /**< octets that the CRC covers, markers included */
	uint32_t skip, left;  /**< octets before the ULPDU, and octets left of it */
	uint32_t crc;
	bool crc_on, fpduptr_bad; /**< fpduptr_bad: a marker contradicts the length fields */
	uint8_t marker[MPA_MARKER_BYTES], field[MPA_FPDU_CRC_BYTES];
	unsigned int n;
	struct weft_frag frag[WEFT_MPA_MAX_FRAGS + WEFT_MPA_MAX_MARKERS];
};

/** Begin with an FPDU of need octets, markers included, at position pos of the stream. */
static inline void
mpa_strip_begin(struct mpa_strip *u, uint16_t pos, uint32_t need, uint16_t ulpdu_bytes, bool crc)
{
	u->at = u->n = 0;
	u->lead = mpa_marker_lead(pos);
	u->next_marker = mpa_to_marker(pos);
	u->covered = need - MPA_FPDU_CRC_BYTES;
	u->skip = MPA_FPDU_LEN_BYTES;
	u->left = ulpdu_bytes;
	u->crc = MPA_CRC_INIT;
	u->crc_on = crc;
	u->fpduptr_bad = false;
	memset(u->field, 0, sizeof(u->field));
}

/** Parse the next k octets of the FPDU. */
void mpa_strip_piece(struct mpa_strip *u, const uint8_t *p, uint32_t k);

#endif /* MPA_STRIP_H */
