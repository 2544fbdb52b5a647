/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The Internet checksum (RFC 1071) at every length and alignment, with wide registers and
 * without. */

#include <stdlib.h>
#include <string.h>

#include "../../lib/netif/netif_cksum.h"
#include "weft_test.h"

#define ROOM 9200

static uint8_t mem[ROOM + 64];
static bool had_wide;

/* As the RFC defines it: words of 16 bits in memory order, an odd octet followed by a zero. */
static uint16_t
oracle(const uint8_t *p, uint32_t len)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < len; i += 2) {
		uint8_t w[2] = {p[i], i + 1 < len ? p[i + 1] : 0};
		uint16_t v;

		memcpy(&v, w, 2);
		sum += v;
	}
	while (sum > 0xffff)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static void
lengths(void)
{
	for (uint32_t off = 0; off < 9; off++)
		for (uint32_t len = 0; len < 700; len++)
			CHECK_EQ(netif_sum(mem + off, len), oracle(mem + off, len));
	for (uint32_t len = 1400; len <= ROOM; len += 61)
		CHECK_EQ(netif_sum(mem + len % 33, len), oracle(mem + len % 33, len));
}

static void
both(void)
{
	had_wide = netif_sum_wide;
	lengths();
	netif_sum_wide = false;
	lengths();
	netif_sum_wide = had_wide;
}

static void
test_random(void)
{
	uint64_t seed = test_seed(1), x = seed * 2 + 1;

	test_seed_note(seed);
	for (size_t i = 0; i < sizeof(mem); i++) {
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		mem[i] = (uint8_t)(x >> 56);
	}
	both();
}

/* The largest sums, and zero: 0xffff and 0 are equal, but neither replaces the other. */
static void
test_extremes(void)
{
	memset(mem, 0xff, sizeof(mem));
	both();
	memset(mem, 0, sizeof(mem));
	both();
}

/* No octet before the beginning or after the end is read. */
static void
test_exact(void)
{
	for (uint32_t len = 1; len < 600; len++) {
		uint8_t *p = malloc(len);

		CHECK(p != NULL);
		memcpy(p, mem, len);
		CHECK_EQ(netif_sum(p, len), oracle(p, len));
		free(p);
	}
}

/* The longest sums of the largest and the smallest words: no lane overflows. */
static void
test_longest(void)
{
	static const uint8_t octet[] = {0xff, 0x80, 0x7f, 0};
	uint8_t *p = malloc(NETIF_SUM_MAX);

	CHECK(p != NULL);
	for (unsigned int i = 0; i < RTE_DIM(octet); i++) {
		memset(p, octet[i], NETIF_SUM_MAX);
		for (uint32_t less = 0; less < 160; less += 31)
			CHECK_EQ(netif_sum(p, NETIF_SUM_MAX - less),
			         oracle(p, NETIF_SUM_MAX - less));
	}
	free(p);
}

WEFT_TEST_MAIN({"random", test_random}, {"extremes", test_extremes}, {"exact", test_exact},
               {"longest", test_longest})
