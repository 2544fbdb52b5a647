/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Places of messages on a volume: in the range, each once before any comes again, and those
 * of several connections apart. */

#include <stdlib.h>
#include <string.h>

#include "volume_place.h"
#include "weft_test.h"

/** Each of the n places is used once in each pass. Returns whether they are in order. */
static bool
is_in_order(const struct volume_place *p, uint64_t pass)
{
	uint8_t *seen = calloc(p->n, 1);
	bool order = true;

	for (uint64_t i = 0; i < p->n; i++) {
		const uint64_t off = volume_place_at(p, pass * p->n + i);
		const uint64_t at = (off - p->from_bytes) / p->size_bytes;

		CHECK(off >= p->from_bytes && (off - p->from_bytes) % p->size_bytes == 0);
		CHECK(at < p->n);
		CHECK_EQ(seen[at], 0);
		seen[at] = 1;
		order = order && at == i;
	}
	free(seen);
	return order;
}

static void
test_once(void)
{
	static const uint64_t sizes[] = {1, 2, 3, 4, 5, 17, 64, 1000, 4097, 65536};

	for (unsigned int k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		struct volume_place p = {.from_bytes = 12345, .n = sizes[k], .size_bytes = 512};

		CHECK(is_in_order(&p, 0) && is_in_order(&p, 3));
		p.random = true;
		for (p.seed = 0; p.seed < 3; p.seed++)
			for (uint64_t pass = 0; pass < 2; pass++)
				CHECK(!is_in_order(&p, pass) || p.n < 17);
	}
}

static void
test_same(void)
{
	struct volume_place a = {.n = 1000, .size_bytes = 4096, .random = true, .seed = 7}, b = a;
	unsigned int same = 0;

	for (uint64_t i = 0; i < 2000; i++)
		CHECK_EQ(volume_place_at(&a, i), volume_place_at(&b, i));
	b.seed = 8;
	for (uint64_t i = 0; i < 1000; i++)
		same += volume_place_at(&a, i) == volume_place_at(&b, i);
	CHECK(same < 20);
	/* Another pass has another order. */
	same = 0;
	for (uint64_t i = 0; i < 1000; i++)
		same += volume_place_at(&a, i) == volume_place_at(&a, i + 1000);
	CHECK(same < 20);
}

static void
test_shares(void)
{
	struct volume_place p = {.size_bytes = 4096};
	uint64_t end = 1 << 20;

	for (uint32_t i = 0; i < 7; i++) {
		CHECK(volume_place_share(&p, 1 << 20, 10000000, 65536, i, 7));
		CHECK_EQ(p.from_bytes, end);
		CHECK_EQ(p.n, 10000000 / 7 / 65536 * 16);
		end = p.from_bytes + p.n * p.size_bytes;
	}
	CHECK(end <= (1 << 20) + 10000000);
	CHECK(!volume_place_share(&p, 0, 65536 * 7 - 1, 65536, 0, 7));
	CHECK(volume_place_share(&p, 0, 65536 * 7, 65536, 6, 7));
}

WEFT_TEST_MAIN({"each place is used once before any comes again", test_once},
               {"the order depends on seed and pass alone", test_same},
               {"connections have shares that adjoin", test_shares})
