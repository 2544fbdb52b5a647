/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The limit of answers to each peer. A peer must learn nothing about other peers by counting
 * its own answers. */

#include <arpa/inet.h>

#include "weft_answers.h"
#include "weft_base.h"
#include "weft_test.h"

#define PER_S   1000u
#define SECONDS 2000u

static const uint64_t key[2] = {0x0123456789abcdef, 0x13579bdf02468ace};

static struct weft_ip
numbered(uint32_t n)
{
	return weft_ip_from_v4(htonl(0x0a000000 + n));
}

/** Make n requests in second s. Returns how many are answered. */
static unsigned int
tries(struct weft_answers *a, struct weft_ip ip, unsigned int n, uint64_t s)
{
	unsigned int got = 0;

	for (unsigned int i = 0; i < n; i++)
		got += weft_answers_take(a, key, &ip, PER_S, s * WEFT_NS_PER_S + i * 1000);
	return got;
}

/** In each second a peer gets the same number of answers, however many others get before or
 * meanwhile. */
static void
test_others_do_not_count(void)
{
	static struct weft_answers alone, both;
	unsigned int most = 0, least = UINT32_MAX;

	for (uint64_t s = 1; s < SECONDS; s++) {
		unsigned int n, got = 0;

		(void)tries(&both, numbered(2), (unsigned int)(s * 7 % 500), s);
		for (unsigned int i = 0; i < 1100; i++) {
			got += tries(&both, numbered(1), 1, s);
			(void)tries(&both, numbered(2), 1, s);
		}
		n = tries(&alone, numbered(1), 1100, s);
		CHECK_MSG(got == n, "%u, alone %u in second %u", got, n, (unsigned int)s);
		most = RTE_MAX(most, n);
		least = RTE_MIN(least, n);
	}
	/* Its number of answers in one second does not reveal the next one. */
	CHECK_MSG(least >= PER_S / 16 && least < PER_S / 14, "%u", least);
	CHECK_MSG(most < PER_S / 16 * 3 + 3 && most > PER_S / 6, "%u", most);
}

/** All peers together have a limit, which differs each second. Its mean is the configured limit. */
static void
test_all_together(void)
{
	static struct weft_answers a;
	unsigned int sum = 0, most = 0, least = UINT32_MAX;

	for (uint64_t s = 1; s < SECONDS; s++) {
		unsigned int got = 0;

		for (uint32_t i = 0; i < 1000; i++)
			got += tries(&a, numbered(i), 2, s);
		sum += got;
		most = RTE_MAX(most, got);
		least = RTE_MIN(least, got);
	}
	CHECK_MSG(least >= PER_S / 2 && most < PER_S / 2 * 3, "%u to %u", least, most);
	CHECK_MSG(least < PER_S * 6 / 10 && most > PER_S * 14 / 10, "%u to %u", least, most);
	CHECK_MSG(sum / SECONDS > PER_S * 9 / 10 && sum / SECONDS < PER_S * 11 / 10, "%u",
	          sum / SECONDS);
}

/** All addresses of a /64 share one limit, as a host can choose them freely. */
static void
test_net_is_one(void)
{
	struct weft_ip ip = {.b = {0xfd, 0, 0, 0x88}};
	static struct weft_answers a;
	unsigned int got = 0;

	for (unsigned int i = 0; i < 1000; i++) {
		ip.b[14] = (uint8_t)(i >> 8);
		ip.b[15] = (uint8_t)i;
		got += tries(&a, ip, 1, 9);
	}
	CHECK_MSG(got >= PER_S / 16 && got < PER_S / 16 * 3 + 3, "%u", got);
	ip.b[7] = 1;
	CHECK_EQ(tries(&a, ip, 1, 9), 1);
}

/** The smallest limit allows one answer a second to each peer. */
static void
test_least(void)
{
	static struct weft_answers a;
	unsigned int got = 0;
	struct weft_ip ip = numbered(1);

	for (unsigned int i = 0; i < 100; i++)
		got += weft_answers_take(&a, key, &ip, 1,
		                         5 * WEFT_NS_PER_S + i * WEFT_NS_PER_MS * 100);
	CHECK_EQ(got, 10);
}

WEFT_TEST_MAIN({"what others were sent does not count", test_others_do_not_count},
               {"all together", test_all_together}, {"a /64 is one peer", test_net_is_one},
               {"the least", test_least})
