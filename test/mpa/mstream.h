/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MSTREAM_H
#define MSTREAM_H

/** @file FPDUs with and without markers, written octet by octet: no code is shared with the
 * library. */

#include <stdlib.h>

#include "fake_tcp.h"

/** A stream in one direction, from the first octet of full operation. */
struct mstream {
	bool markers, crc;
	uint8_t *wire, *ulpdu;
	uint32_t wire_bytes, ulpdu_bytes;
	unsigned int n, nmarkers;
	uint16_t len[512];
	uint32_t start[512]; /**< first octet of each FPDU, including its leading marker */
	uint32_t marker[2048];
};

static inline void
ms_marker(struct mstream *s, uint32_t ptr)
{
	uint8_t *p = s->wire + s->wire_bytes;

	s->marker[s->nmarkers++] = s->wire_bytes;
	p[0] = p[1] = 0;
	p[2] = ptr >> 8 & 0xff;
	p[3] = ptr & 0xff;
	s->wire_bytes += 4;
}

static inline void
ms_put(struct mstream *s, uint32_t start, uint8_t v)
{
	if (s->markers && s->wire_bytes % 512 == 0 && s->wire_bytes != start)
		ms_marker(s, s->wire_bytes - start);
	s->wire[s->wire_bytes++] = v;
}

static inline void
ms_add(struct mstream *s, uint16_t len)
{
	uint32_t from, start, crc;

	s->wire = realloc(s->wire, s->wire_bytes + len + len / 100 + 64);
	s->ulpdu = realloc(s->ulpdu, s->ulpdu_bytes + len + 1);
	for (uint32_t i = 0; i < len; i++)
		s->ulpdu[s->ulpdu_bytes + i] = (s->ulpdu_bytes + i) * 131 + s->n + (i >> 8);
	from = s->wire_bytes;
	if (s->markers && from % 512 == 0)
		ms_marker(s, 0);
	start = s->wire_bytes;
	ms_put(s, start, len >> 8);
	ms_put(s, start, len & 0xff);
	for (uint32_t i = 0; i < len; i++)
		ms_put(s, start, s->ulpdu[s->ulpdu_bytes + i]);
	for (uint32_t i = len + 2u; i % 4 != 0; i++)
		ms_put(s, start, 0);
	/* "If there is a Marker immediately following the PAD, the Marker is included" */
	if (s->markers && s->wire_bytes % 512 == 0)
		ms_marker(s, s->wire_bytes - start);
	crc = s->crc ? slow_crc32c(s->wire + from, s->wire_bytes - from) : 0;
	for (int i = 0; i < 4; i++)
		s->wire[s->wire_bytes++] = crc >> (8 * i) & 0xff;
	s->ulpdu_bytes += len;
	s->start[s->n] = from;
	s->len[s->n++] = len;
}

static inline void
ms_free(struct mstream *s)
{
	free(s->wire);
	free(s->ulpdu);
	memset(s, 0, sizeof(*s));
}

/** Compute the CRC of the n-th FPDU again after its octets were changed. */
static inline void
ms_recrc(struct mstream *s, unsigned int n)
{
	uint32_t from = s->start[n], to = n + 1 < s->n ? s->start[n + 1] : s->wire_bytes;
	uint32_t crc = slow_crc32c(s->wire + from, to - 4 - from);

	for (int i = 0; i < 4; i++)
		s->wire[to - 4 + i] = crc >> (8 * i) & 0xff;
}

#endif /* MSTREAM_H */
