/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_COPY_H
#define WEFT_COPY_H

/**
 * @file The copy of a short payload, inline: for 64 octets a call costs as much as the copy, and a
 * function that calls none saves no registers. Internal; for the data path.
 */

#include <stdint.h>
#include <string.h>

#define WEFT_COPY_SHORT_BYTES 64

/** Copy n octets, at most WEFT_COPY_SHORT_BYTES. The ranges do not overlap. */
static inline void
weft_copy_short(uint8_t *dst, const uint8_t *src, uint32_t n)
{
	/* Two pieces that meet or overlap in the middle; each memcpy() is one or two moves. */
	if (n >= 32) {
		memcpy(dst, src, 32);
		memcpy(dst + n - 32, src + n - 32, 32);
	} else if (n >= 16) {
		memcpy(dst, src, 16);
		memcpy(dst + n - 16, src + n - 16, 16);
	} else if (n >= 8) {
		memcpy(dst, src, 8);
		memcpy(dst + n - 8, src + n - 8, 8);
	} else if (n >= 4) {
		memcpy(dst, src, 4);
		memcpy(dst + n - 4, src + n - 4, 4);
	} else {
		for (uint32_t i = 0; i < n; i++)
			dst[i] = src[i];
	}
}

/** Copy n octets. The ranges do not overlap. */
static inline void
weft_copy(uint8_t *dst, const uint8_t *src, uint32_t n)
{
	if (n <= WEFT_COPY_SHORT_BYTES)
		weft_copy_short(dst, src, n);
	else
		memcpy(dst, src, n);
}

#endif /* WEFT_COPY_H */
