/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_FUZZ_FPDU_H
#define WEFT_FUZZ_FPDU_H

/** @file FPDUs as a correct peer encodes them, octet by octet (RFC 5044 s4.1 to s4.4). */

#include "fuzz.h"
#include "mpa_wire.h"

/** The most octets of an FPDU for a ULPDU of this length. */
#define FPDU_ROOM(len) ((len) + (len) / 100u + 64u)

struct fpdu_stream {
	bool markers, crc;
	uint32_t pos; /**< octets since full operation began */
};

static inline uint32_t
fpdu_marker(uint8_t *p, uint32_t ptr)
{
	weft_put_be32(p, ptr);
	return MPA_MARKER_BYTES;
}

/** Append an FPDU to out. Returns its octets, and updates the position of the stream in s. */
static inline uint32_t
fpdu_build(struct fpdu_stream *s, uint8_t *out, const uint8_t *ulpdu, uint16_t len)
{
	uint32_t n = 0, start, covered = RTE_ALIGN_CEIL(len + 2u, 4u);

	if (s->markers && s->pos % MPA_MARKER_PERIOD == 0)
		n += fpdu_marker(out, 0);
	start = n;
	for (uint32_t i = 0; i < covered; i++) {
		if (s->markers && (s->pos + n) % MPA_MARKER_PERIOD == 0 && n != start)
			n += fpdu_marker(out + n, n - start);
		out[n++] = i == 0         ? len >> 8
		           : i == 1       ? len & 0xff
		           : i < len + 2u ? ulpdu[i - 2]
		                          : 0;
	}
	if (s->markers && (s->pos + n) % MPA_MARKER_PERIOD == 0)
		n += fpdu_marker(out + n, n - start);
	if (s->crc)
		mpa_crc_put(out + n, mpa_crc_update(MPA_CRC_INIT, out, n));
	else
		memset(out + n, 0, MPA_FPDU_CRC_BYTES);
	n += MPA_FPDU_CRC_BYTES;
	s->pos += n;
	return n;
}

#endif /* WEFT_FUZZ_FPDU_H */
