/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file TSC cycles of a KiB of payload on its way into a segment: copied with its CRC, and then
 * read for TCP's checksum; and all three in one pass. Payloads of the largest segment at an MTU of
 * 1500, 9000 and 65535 octets, sixteen of them in turn. The least of many repetitions is printed,
 * so other work on the machine matters little.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "mpa_crc.h"
#include "netif_cksum.h"

#define IN_TURN 16
#define ROUNDS  2000
#define HEAD    20 /**< octets of a segment before the payload, so that it is not aligned */

enum { APART, ONE_PASS, WAYS };

static uint64_t
cycles(int way, uint8_t *dst, const uint8_t *src, uint32_t len, uint64_t *sink)
{
	const uint64_t start = rte_rdtsc();

	for (uint32_t i = 0; i < IN_TURN; i++) {
		uint8_t *d = dst + (size_t)i * (len + HEAD) + HEAD;
		const uint8_t *s = src + (size_t)i * len;
		uint32_t sum = 0;

		if (way == ONE_PASS) {
			*sink += mpa_crc_wide_copy_sum(UINT32_MAX, d, s, len, &sum) + sum;
		} else {
			*sink += mpa_crc_wide_copy(UINT32_MAX, d, s, len);
			*sink += netif_sum_open(d, len);
		}
	}
	return rte_rdtsc() - start;
}

int
main(void)
{
	static const uint32_t lens[] = {1428, 8928, 64752};
	const size_t most = (size_t)IN_TURN * (lens[2] + HEAD);
	uint8_t *src = calloc(1, most), *dst = calloc(1, most);
	uint64_t sink = 0;

	if (!mpa_crc_wide || src == NULL || dst == NULL) {
		printf("no AVX-512 with VPCLMULQDQ, or no memory\n");
		return 1;
	}
	memset(src, 7, most);
	memset(dst, 1, most);
	for (size_t i = 0; i < RTE_DIM(lens); i++) {
		uint64_t least[WAYS] = {UINT64_MAX, UINT64_MAX};

		for (unsigned int r = 0; r < ROUNDS; r++)
			for (int way = 0; way < WAYS; way++)
				least[way] =
				        RTE_MIN(least[way], cycles(way, dst, src, lens[i], &sink));
		printf("%5u octets: %5.1f cycles a KiB apart, %5.1f in one pass\n", lens[i],
		       (double)least[APART] * 1024 / lens[i] / IN_TURN,
		       (double)least[ONE_PASS] * 1024 / lens[i] / IN_TURN);
	}
	free(src);
	free(dst);
	return sink == 1;
}
