/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MPA_SUM_H
#define MPA_SUM_H

/** @file The Internet checksum of the few octets of an FPDU that no copy has summed. Internal. */

#include <stdint.h>
#include <string.h>

#include "weft_netif_mbuf.h"

/** The sum of the octets' words, for weft_sum_add(). Below 2^60 for any FPDU. */
static inline uint64_t
mpa_sum(const uint8_t *p, uint32_t len_bytes)
{
	uint64_t sum = 0, last = 0;

	for (; len_bytes >= 4; p += 4, len_bytes -= 4) {
		uint32_t w;

		memcpy(&w, p, sizeof(w));
		sum += w;
	}
	/* Zeros after an odd octet do not change the sum, in either byte order. */
	for (uint32_t i = 0; i < len_bytes; i++)
		memcpy((uint8_t *)&last + i, p + i, 1);
	return sum + last;
}

#endif /* MPA_SUM_H */
