/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file What weft-perf's server takes from a client's Request: nothing beyond a limit, whatever the
 * octets are.
 */

#include <errno.h>
#include <string.h>

#include "hello.h"
#include "weft_test.h"

static const struct perf_hello good = {.magic = PERF_MAGIC,
                                       .version = PERF_VERSION,
                                       .test = PERF_SEND,
                                       .size_bytes = 64,
                                       .depth = 128,
                                       .rx_depth = 64,
                                       .qps = 4,
                                       .use_srq = 1,
                                       .events = 1};

static bool
taken(const struct perf_hello *h)
{
	struct perf_hello out;
	char why[256];

	return hello_read(h, sizeof(*h), &out, why, sizeof(why)) == 0;
}

/** Whether a hello is taken with a number in place of one of its own. */
static bool
taken_with(size_t at, uint32_t v)
{
	struct perf_hello h = good;

	memcpy((uint8_t *)&h + at, &v, sizeof(v));
	return taken(&h);
}

#define WITH(field, v) taken_with(offsetof(struct perf_hello, field), v)

static void
test_limits(void)
{
	CHECK(taken(&good));
	CHECK(WITH(rx_depth, 16));
	CHECK(!WITH(rx_depth, 15)); /* less than 4 for each QP of the SRQ */
	CHECK(!WITH(rx_depth, PERF_MAX_DEPTH + 1));
	CHECK(!WITH(rx_depth, 0));
	CHECK(!WITH(qps, 0));
	CHECK(!WITH(qps, 17));
	CHECK(!WITH(qps, UINT32_MAX));
	CHECK(!WITH(test, PERF_NTESTS));
	CHECK(!WITH(test, UINT32_MAX));
	CHECK(!WITH(test, PERF_WRITE)); /* uses up no receives */
	CHECK(!WITH(size_bytes, 0));
	CHECK(!WITH(size_bytes, PERF_MAX_BYTES + 1));
	CHECK(!WITH(depth, 0));
	CHECK(!WITH(depth, PERF_MAX_DEPTH + 1));
	CHECK(!WITH(cq_mod, 129));
	CHECK(WITH(post_list, 12));
	CHECK(!WITH(post_list, 13)); /* a share of 16 is acknowledged in quarters */
	CHECK(!WITH(post_list, 65));
	CHECK(!WITH(inline_bytes, UINT32_MAX));
	CHECK(!WITH(events, 2));
	CHECK(!WITH(use_srq, 2));
	CHECK(!WITH(no_crc, 2));
	CHECK(!WITH(markers, UINT32_MAX));
	CHECK(!WITH(both_ways, 2));
	CHECK(WITH(reversed, 1));
	CHECK(!WITH(reversed, 2));
	CHECK(!WITH(recv_list, 1)); /* with an SRQ */
	CHECK(!WITH(recv_list, UINT32_MAX));
	CHECK(!WITH(outs, 1)); /* a Send is none of these */
	CHECK(!WITH(outs, UINT32_MAX));
	CHECK(!WITH(latency, 2));
	CHECK(!WITH(version, PERF_VERSION - 1));
	CHECK(!WITH(magic, 0));
}

static void
test_tests(void)
{
	struct perf_hello h = good;

	h.use_srq = 0;
	h.test = PERF_WRITE;
	CHECK(taken(&h));
	h.latency = 1;
	h.qps = 1;
	CHECK(!taken(&h)); /* a Write makes no completion at the server */
	h.events = 0;
	CHECK(taken(&h));
	h.test = PERF_RPC_NULL;
	h.depth = 32;
	h.latency = 0;
	CHECK(taken(&h));
	h.events = 1;
	CHECK(!taken(&h));
	h.events = 0;
	h.qps = 2;
	CHECK(!taken(&h));
	h.qps = 1;
	h.test = PERF_COMMIT;
	h.size_bytes = 64u << 20;
	CHECK(!taken(&h)); /* 2 GiB of slots */
}

static void
test_short(void)
{
	struct perf_hello out;
	char why[256];

	for (size_t n = 0; n < sizeof(good); n++)
		CHECK_EQ(hello_read(&good, n, &out, why, sizeof(why)), -EPROTO);
}

/** The refusal of another version, and of a limit, which is named. */
static void
test_reasons(void)
{
	struct perf_hello h = good, out;
	char why[256];

	h.version++;
	CHECK_EQ(hello_read(&h, sizeof(h), &out, why, sizeof(why)), -EPROTO);
	CHECK_STR(why, PERF_UNLIKE);
	h = good;
	h.depth = PERF_MAX_DEPTH + 1;
	CHECK_EQ(hello_read(&h, sizeof(h), &out, why, sizeof(why)), -ERANGE);
	CHECK_STR(why, "beyond a limit of this server: --tx-depth is from 1 to 4096");
	h = good;
	h.test = PERF_NTESTS;
	CHECK_EQ(hello_read(&h, sizeof(h), &out, why, sizeof(why)), -ERANGE);
}

/** xorshift64* */
static uint32_t
next(uint64_t *x)
{
	*x ^= *x >> 12;
	*x ^= *x << 25;
	*x ^= *x >> 27;
	return (uint32_t)(*x * 0x2545f4914f6cdd1dull >> 32);
}

/** Random octets behind the magic: what is taken is within the limits that memory depends on. */
static void
test_random(void)
{
	const uint64_t seed = test_seed(19);
	uint64_t x = seed * 2654435761u + 1;
	struct perf_hello h, out;
	char why[256];

	test_seed_note(seed);
	for (unsigned int i = 0; i < 200000; i++) {
		uint32_t *words = (uint32_t *)(void *)&h;

		h = good;
		/* A few words, mostly small, so that some are taken. */
		for (unsigned int k = 0; k < 3; k++) {
			uint32_t at = next(&x) % (sizeof(h) / 4 - 3) + 3;

			words[at] = next(&x) >> next(&x) % 32;
		}
		if (hello_read(&h, sizeof(h), &out, why, sizeof(why)) != 0)
			continue;
		CHECK(out.qps >= 1 && out.qps <= PERF_MAX_QPS && out.rx_depth <= PERF_MAX_DEPTH);
		CHECK(out.depth >= 1 && out.depth <= PERF_MAX_DEPTH && out.test < PERF_NTESTS);
		CHECK(out.size_bytes >= 1 && out.size_bytes <= PERF_MAX_BYTES);
		CHECK(!out.use_srq || out.rx_depth / out.qps >= 4);
		CHECK(perf_slots(out.test, out.depth) * out.size_bytes <= PERF_MAX_SLOTS_BYTES);
	}
}

WEFT_TEST_MAIN({"each number beyond its limit", test_limits},
               {"what a test does not have", test_tests}, {"cut short", test_short},
               {"the reason of a refusal", test_reasons}, {"random words", test_random})
