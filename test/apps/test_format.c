/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The on-medium format: octets as docs/export-format.md defines them, and every kind of
 * damage. */

#include <errno.h>
#include <stdlib.h>

#include "export_format.h"
#include <weft/hash.h>
#include "weft_test.h"

static const uint8_t uuid[16] = {0, 1, 2, 3, 4, 5, 0x46, 7, 0x88, 9, 10, 11, 12, 13, 14, 15};
static uint8_t page[EXPFMT_PAGE_BYTES];

/* CRC32c computed bit by bit. Shares no code with the driver. */
static uint32_t
crc32c(const uint8_t *p, size_t n)
{
	uint32_t c = 0xffffffff;

	while (n-- > 0) {
		c ^= *p++;
		for (int i = 0; i < 8; i++)
			c = c >> 1 ^ (c & 1 ? 0x82f63b78 : 0);
	}
	return ~c;
}

static void
put_crc(uint8_t *pg)
{
	uint32_t c = crc32c(pg, 4092);

	for (int i = 0; i < 4; i++)
		pg[4092 + i] = (uint8_t)(c >> (24 - 8 * i));
}

static uint64_t
be(const uint8_t *p, int n)
{
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | *p++;
	return v;
}

static void
test_layout(void)
{
	struct expfmt_super s;

	CHECK_EQ(expfmt_layout(EXPFMT_MIN_BYTES - 1, uuid, &s), -EINVAL);
	CHECK_EQ(expfmt_layout(0, uuid, &s), -EINVAL);
	CHECK_EQ(expfmt_layout(UINT64_MAX, uuid, &s), -EINVAL);
	CHECK_EQ(expfmt_layout(24576, uuid, &s), 0);
	CHECK_EQ(s.slot_off[0], 8192);
	CHECK_EQ(s.slot_off[1], 16384);
	CHECK_EQ(s.capacity_bytes, 4096);
	/* For any size the slots lie inside, are aligned and do not overlap. */
	for (uint64_t size = EXPFMT_MIN_BYTES; size < 200000; size += 511) {
		CHECK_EQ(expfmt_layout(size, uuid, &s), 0);
		CHECK_EQ(s.slot_off[0] % 4096 + s.slot_off[1] % 4096 + s.capacity_bytes % 4096, 0);
		CHECK_EQ(s.slot_off[0] + 4096 + s.capacity_bytes, s.slot_off[1]);
		CHECK(s.slot_off[1] + 4096 + s.capacity_bytes <= size);
		CHECK(s.slot_off[1] + 4096 + s.capacity_bytes + 8192 > size);
		CHECK_EQ(s.capacity_bytes, (size - 8192) / 2 / 4096 * 4096 - 4096);
	}
}

static void
test_super(void)
{
	struct expfmt_super s, d;

	CHECK_EQ(expfmt_layout(1 << 20, uuid, &s), 0);
	expfmt_super_encode(&s, page);
	CHECK_MEM(page, "WEFTEXP1", 8);
	CHECK_EQ(be(page + 8, 4), 1);
	CHECK_EQ(be(page + 12, 4), 4096);
	CHECK_EQ(be(page + 16, 8), 1 << 20);
	CHECK_EQ(be(page + 24, 8), 4096);
	CHECK_EQ(be(page + 32, 8), s.slot_off[0]);
	CHECK_EQ(be(page + 40, 8), s.slot_off[1]);
	CHECK_EQ(be(page + 48, 8), s.capacity_bytes);
	CHECK_EQ(be(page + 56, 4), 4096);
	CHECK_MEM(page + 64, uuid, 16);
	CHECK_EQ(be(page + 4092, 4), crc32c(page, 4092));
	CHECK_EQ(expfmt_super_decode(page, &d), EXPFMT_OK);
	CHECK_EQ(d.version, 1);
	CHECK_EQ(d.size_bytes, s.size_bytes);
	CHECK_EQ(d.slot_off[0], s.slot_off[0]);
	CHECK_EQ(d.slot_off[1], s.slot_off[1]);
	CHECK_EQ(d.capacity_bytes, s.capacity_bytes);
	CHECK_MEM(d.uuid, uuid, 16);
}

static void
test_super_damage(void)
{
	struct expfmt_super s, d;
	static const struct {
		int off, len;
	} field[] = {{12, 4}, {16, 8}, {24, 8}, {32, 8}, {40, 8}, {48, 8}, {56, 4}};

	memset(page, 0, sizeof(page));
	CHECK_EQ(expfmt_super_decode(page, &d), EXPFMT_ZERO);
	page[4095] = 1;
	CHECK_EQ(expfmt_super_decode(page, &d), EXPFMT_BAD_MAGIC);
	CHECK_EQ(expfmt_layout(1 << 20, uuid, &s), 0);
	/* A change of any single octet is detected. */
	for (int i = 0; i < 4096; i++) {
		expfmt_super_encode(&s, page);
		page[i] ^= 0x10;
		CHECK_EQ(expfmt_super_decode(page, &d), i < 8    ? EXPFMT_BAD_MAGIC
		                                        : i < 12 ? EXPFMT_BAD_VERSION
		                                                 : EXPFMT_BAD_CRC);
	}
	/* A page with only its first octets written, and the rest zero: torn. */
	for (int i = 12; i < 4092; i += 13) {
		expfmt_super_encode(&s, page);
		memset(page + i, 0, (size_t)(4096 - i));
		CHECK_EQ(expfmt_super_decode(page, &d), EXPFMT_BAD_CRC);
	}
	expfmt_super_encode(&s, page);
	page[11] = 2;
	put_crc(page);
	CHECK_EQ(expfmt_super_decode(page, &d), EXPFMT_BAD_VERSION);
	CHECK_EQ(d.version, 2);
	/* A valid CRC over fields that contradict each other. */
	for (unsigned int i = 0; i < sizeof(field) / sizeof(field[0]); i++) {
		for (int bit = 0; bit < 8 * field[i].len; bit++) {
			enum expfmt_check c;

			expfmt_super_encode(&s, page);
			page[field[i].off + bit / 8] ^= (uint8_t)(1 << bit % 8);
			put_crc(page);
			c = expfmt_super_decode(page, &d);
			/* another size that rounds to the same slots is the same layout */
			if (field[i].off == 16 && c == EXPFMT_OK)
				CHECK(d.size_bytes != s.size_bytes &&
				      d.capacity_bytes == s.capacity_bytes);
			else
				CHECK_EQ(c, EXPFMT_BAD_FIELD);
		}
	}
}

static void
test_commit(void)
{
	static const struct {
		struct expfmt_commit c;
		uint8_t word[8];
	} v[] = {
	        {{0, 0}, {0}},
	        {{1, 0}, {0, 0, 0, 0, 0, 0, 0, 2}},
	        {{5, 1}, {0, 0, 0, 0, 0, 0, 0, 0x0b}},
	        {{0x0123456789abcdef, 1}, {0x02, 0x46, 0x8a, 0xcf, 0x13, 0x57, 0x9b, 0xdf}},
	        {{EXPFMT_GENERATION_MAX, 1}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
	};

	for (unsigned int i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct expfmt_commit c;
		uint8_t word[8];

		expfmt_commit_encode(&v[i].c, word);
		CHECK_MEM(word, v[i].word, 8);
		expfmt_commit_decode(word, &c);
		CHECK_EQ(c.generation, v[i].c.generation);
		CHECK_EQ(c.slot, v[i].c.slot);
	}
}

static void
test_slot(void)
{
	struct expfmt_slot h = {.generation = 7,
	                        .length_bytes = 5000,
	                        .data_crc = {1, 2, 3, 4},
	                        .mtime_ns = -5,
	                        .name = "file.bin"},
	                   d;

	expfmt_slot_encode(&h, page);
	CHECK_MEM(page, "WEFTSLOT", 8);
	CHECK_EQ(be(page + 8, 4), 1);
	CHECK_EQ(be(page + 12, 4), 4096);
	CHECK_EQ(be(page + 16, 8), 7);
	CHECK_EQ(be(page + 24, 8), 5000);
	CHECK_EQ(be(page + 32, 4), 0x01020304);
	CHECK_EQ(be(page + 36, 4), 8);
	CHECK_EQ((int64_t)be(page + 40, 8), -5);
	CHECK_MEM(page + 64, "file.bin", 9);
	CHECK_EQ(be(page + 4092, 4), crc32c(page, 4092));
	CHECK_EQ(expfmt_slot_decode(page, 5000, &d), EXPFMT_OK);
	CHECK_EQ(d.generation, 7);
	CHECK_EQ(d.length_bytes, 5000);
	CHECK_MEM(d.data_crc, h.data_crc, 4);
	CHECK_EQ(d.mtime_ns, -5);
	CHECK_STR(d.name, "file.bin");
	/* The longest name. */
	memset(h.name, 'n', 255);
	expfmt_slot_encode(&h, page);
	CHECK_EQ(expfmt_slot_decode(page, 5000, &d), EXPFMT_OK);
	CHECK_STR(d.name, h.name);
}

static void
test_slot_damage(void)
{
	struct expfmt_slot h = {.generation = 7, .length_bytes = 5000, .name = "x"}, d;

	memset(page, 0, sizeof(page));
	CHECK_EQ(expfmt_slot_decode(page, 1 << 20, &d), EXPFMT_ZERO);
	for (int i = 0; i < 4096; i++) {
		expfmt_slot_encode(&h, page);
		page[i] ^= 0x80;
		CHECK_EQ(expfmt_slot_decode(page, 1 << 20, &d), i < 8    ? EXPFMT_BAD_MAGIC
		                                                : i < 12 ? EXPFMT_BAD_VERSION
		                                                         : EXPFMT_BAD_CRC);
	}
	expfmt_slot_encode(&h, page);
	CHECK_EQ(expfmt_slot_decode(page, 4999, &d), EXPFMT_BAD_FIELD);
	CHECK_EQ(d.length_bytes, 0);
	h.generation = 0;
	expfmt_slot_encode(&h, page);
	CHECK_EQ(expfmt_slot_decode(page, 5000, &d), EXPFMT_BAD_FIELD);
	h.generation = 1;
	expfmt_slot_encode(&h, page);
	page[38] = 1; /* name of 256 + 1 octets */
	put_crc(page);
	CHECK_EQ(expfmt_slot_decode(page, 5000, &d), EXPFMT_BAD_FIELD);
	expfmt_slot_encode(&h, page);
	page[16] |= 0x80; /* a generation that a word cannot hold */
	put_crc(page);
	CHECK_EQ(expfmt_slot_decode(page, 5000, &d), EXPFMT_BAD_FIELD);
	expfmt_slot_encode(&h, page);
	page[14] = 0; /* header of 0 octets */
	put_crc(page);
	CHECK_EQ(expfmt_slot_decode(page, 5000, &d), EXPFMT_BAD_FIELD);
}

static void
test_uuid(void)
{
	uint8_t a[16], b[16];
	char s[37];

	CHECK_STR(expfmt_uuid_str(uuid, s), "00010203-0405-4607-8809-0a0b0c0d0e0f");
	CHECK_EQ(expfmt_uuid(a), 0);
	CHECK_EQ(expfmt_uuid(b), 0);
	CHECK(memcmp(a, b, 16) != 0);
	CHECK_EQ(a[6] >> 4, 4);
	CHECK_EQ(a[8] >> 6, 2);
}

WEFT_TEST_MAIN({"layout", test_layout}, {"super", test_super}, {"super_damage", test_super_damage},
               {"commit", test_commit}, {"slot", test_slot}, {"slot_damage", test_slot_damage},
               {"uuid", test_uuid})
