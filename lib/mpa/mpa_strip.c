/* SPDX-License-Identifier: BSD-3-Clause */
/** @file An FPDU with markers is parsed, piece by piece. */

#include "mpa_strip.h"

/** Parse k octets between markers. */
static void
mpa_strip_run(struct mpa_strip *u, const uint8_t *p, uint32_t k)
{
	uint32_t skip = RTE_MIN(u->skip, k), take = RTE_MIN(k - skip, u->left);

	u->skip -= skip;
	if (u->skip > 0 || take == 0)
		return;
	u->frag[u->n++] = (struct weft_frag){p + skip, take};
	u->left -= take;
}

void
mpa_strip_piece(struct mpa_strip *u, const uint8_t *p, uint32_t k)
{
	uint32_t c = u->at < u->covered ? RTE_MIN(k, u->covered - u->at) : 0;

	if (u->crc_on)
		u->crc = mpa_crc_update(u->crc, p, c);
	if (k > c)
		memcpy(u->field + (u->at + c - u->covered), p + c, k - c);
	while (k > 0) {
		uint32_t run;

		if (u->at < u->next_marker) {
			run = RTE_MIN(k, u->next_marker - u->at);
			mpa_strip_run(u, p, run);
		} else {
			uint32_t in = u->at - u->next_marker;

			run = RTE_MIN(k, MPA_MARKER_BYTES - in);
			memcpy(u->marker + in, p, run);
			if (in + run == MPA_MARKER_BYTES) {
				/* RFC 5044 s4.2: the low two bits count as zero */
				uint16_t ptr = weft_get_be16(u->marker + MPA_MARKER_PTR_OFF);

				if ((ptr & MPA_MARKER_PTR_MASK) !=
				    mpa_marker_ptr(u->next_marker, u->lead))
					u->fpduptr_bad = true;
				u->next_marker += MPA_MARKER_PERIOD;
			}
		}
		u->at += run;
		p += run;
		k -= run;
	}
}
