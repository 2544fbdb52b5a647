/* SPDX-License-Identifier: BSD-3-Clause */
/** @file rping's message and data, as rping sends them. */

#include <errno.h>
#include <stdlib.h>

#include "proto.h"
#include "weft_test.h"

/* A Send of rping with 3000 octets, captured between two hosts with the kernel's iWARP. */
static const uint8_t sent[PING_INFO_BYTES] = {0x00, 0x00, 0x55, 0xb6, 0x04, 0x0f, 0x74, 0xc0,
                                              0x67, 0xdc, 0xee, 0x00, 0x00, 0x00, 0x0b, 0xb8};

static void
test_info(void)
{
	struct ping_info info = {0};
	uint8_t out[PING_INFO_BYTES];
	uint8_t *exact;

	CHECK_EQ(ping_info_decode(sent, sizeof(sent), &info), 0);
	CHECK_EQ(info.addr, 0x55b6040f74c0);
	CHECK_EQ(info.stag, 0x67dcee00);
	CHECK_EQ(info.size_bytes, 3000);
	ping_info_encode(&info, out);
	CHECK(memcmp(out, sent, sizeof(out)) == 0);
	/* Every other length is refused, and no octet behind it is read. */
	for (size_t n = 0; n <= 40; n++) {
		if (n == sizeof(sent))
			continue;
		exact = malloc(n + 1);
		memset(exact, 0xa5, n + 1);
		exact = realloc(exact, n > 0 ? n : 1);
		CHECK_EQ(ping_info_decode(exact, n, &info), -EPROTO);
		free(exact);
	}
	info = (struct ping_info){UINT64_MAX, UINT32_MAX, 0};
	ping_info_encode(&info, out);
	CHECK(memcmp(out, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", 16) == 0);
	CHECK_EQ(ping_info_decode(out, sizeof(out), &info), 0);
	CHECK_EQ(info.addr, (long long)UINT64_MAX);
	CHECK_EQ(info.stag, UINT32_MAX);
	CHECK_EQ(info.size_bytes, 0);
}

static void
test_data(void)
{
	uint8_t a[3000], b[3000];

	/* The beginning and the end of the same capture. */
	ping_fill(a, sizeof(a), 0);
	CHECK(memcmp(a,
	             "rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyzABC",
	             74) == 0);
	CHECK(memcmp(a + sizeof(a) - 9, "UVWXYZ[\\", 8) == 0);
	CHECK_EQ(a[sizeof(a) - 1], 0);
	/* Each ping's data begin one character later, modulo 58. */
	ping_fill(a, 100, 3);
	CHECK_STR((char *)a, "rdma-ping-3: DEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz"
	                     "ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_");
	ping_fill(a, 100, 57);
	CHECK(memcmp(a, "rdma-ping-57: zABC", 18) == 0);
	ping_fill(a, 100, 58);
	CHECK(memcmp(a, "rdma-ping-58: ABCD", 18) == 0);
	/* The least size holds every number and the final 0. */
	for (uint64_t seq = 1; seq < UINT64_C(1) << 40; seq = seq * 10 + 7) {
		memset(b, 0xa5, sizeof(b));
		ping_fill(b, PING_SIZE_MIN, seq);
		CHECK_EQ(b[PING_SIZE_MIN - 1], 0);
		CHECK_EQ(b[PING_SIZE_MIN], 0xa5);
		CHECK(strstr((char *)b, ": ") != NULL);
	}
	ping_fill(b, PING_SIZE_MIN, INT32_MAX);
	CHECK_STR((char *)b, "rdma-ping-2147483647: ");
}

static void
test_diff(void)
{
	uint8_t a[64], b[64];

	ping_fill(a, sizeof(a), 5);
	ping_fill(b, sizeof(b), 5);
	CHECK_EQ(ping_diff(a, b, sizeof(a)), sizeof(a));
	for (uint32_t i = 0; i < sizeof(a); i++) {
		b[i] ^= 0x80;
		CHECK_EQ(ping_diff(a, b, sizeof(a)), i);
		CHECK_EQ(ping_diff(a, b, i), i);
		b[i] ^= 0x80;
	}
}

static void
test_text(void)
{
	static const uint8_t evil[] = {'r', 0x1b, '[', '2', 'J', 0x7f, 0x9b, '~', 0, 'x'};
	char buf[sizeof(evil) + 1];

	CHECK_EQ(ping_text(evil, sizeof(evil), buf), 8);
	CHECK_STR(buf, "r?[2J??~");
	CHECK_EQ(ping_text(evil, 3, buf), 3);
	CHECK_STR(buf, "r?[");
	CHECK_EQ(ping_text(evil, 0, buf), 0);
	CHECK_STR(buf, "");
}

WEFT_TEST_MAIN({"info", test_info}, {"data", test_data}, {"diff", test_diff}, {"text", test_text})
