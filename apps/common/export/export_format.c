/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Codec of the on-medium export format, version 1 (docs/export-format.md). */

#include "export_format.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include <weft/byteorder.h>
#include <weft/hash.h>

/* Superblock: offsets in page 0. */
enum {
	SB_MAGIC = 0,
	SB_VERSION = 8,
	SB_PAGE = 12,
	SB_SIZE = 16,
	SB_COMMIT_OFF = 24,
	SB_SLOT_OFF = 32,
	SB_CAPACITY = 48,
	SB_HEADER_BYTES = 56,
	SB_UUID = 64,
	SB_CRC = 4092,
};

/* Slot header: offsets in the slot's first page. */
enum {
	SH_MAGIC = 0,
	SH_VERSION = 8,
	SH_HEADER_BYTES = 12,
	SH_GENERATION = 16,
	SH_LENGTH = 24,
	SH_DATA_CRC = 32,
	SH_NAME_LEN = 36,
	SH_MTIME = 40,
	SH_NAME = 64,
	SH_CRC = 4092,
};

static const uint8_t expfmt_magic[8] = {'W', 'E', 'F', 'T', 'E', 'X', 'P', '1'};
static const uint8_t expfmt_slot_magic[8] = {'W', 'E', 'F', 'T', 'S', 'L', 'O', 'T'};

static_assert(SH_NAME + EXPFMT_NAME_MAX < SH_CRC, "the name fits");
static_assert(EXPFMT_PAGE_BYTES == EXPFMT_HEADER_BYTES, "one CRC place for both");

/* The CRC of all octets before the CRC field. False: this build has no such driver. */
static bool
expfmt_crc(const uint8_t *page, uint8_t crc[EXPFMT_CRC_BYTES])
{
	const struct weft_hash_ops *ops = weft_hash_find("crc32c");

	return ops != NULL && ops->result_bytes == EXPFMT_CRC_BYTES &&
	       weft_hash_once(ops, page, SB_CRC, crc) == 0;
}

static bool
expfmt_all_zero(const uint8_t *page)
{
	return page[0] == 0 && memcmp(page, page + 1, EXPFMT_PAGE_BYTES - 1) == 0;
}

/* Check the common part of superblock and slot header: magic, version, CRC. */
static enum expfmt_check
expfmt_check_page(const uint8_t *page, const uint8_t magic[8], uint32_t *version)
{
	uint8_t crc[EXPFMT_CRC_BYTES];

	if (expfmt_all_zero(page))
		return EXPFMT_ZERO;
	if (memcmp(page, magic, 8) != 0)
		return EXPFMT_BAD_MAGIC;
	*version = weft_get_be32(page + SB_VERSION);
	if (*version != EXPFMT_VERSION)
		return EXPFMT_BAD_VERSION;
	if (!expfmt_crc(page, crc) || memcmp(crc, page + SB_CRC, sizeof(crc)) != 0)
		return EXPFMT_BAD_CRC;
	return EXPFMT_OK;
}

const char *
expfmt_check_str(enum expfmt_check c)
{
	static const char *const name[] = {
	        [EXPFMT_OK] = "good",
	        [EXPFMT_ZERO] = "empty",
	        [EXPFMT_BAD_MAGIC] = "wrong magic",
	        [EXPFMT_BAD_VERSION] = "another version of the format",
	        [EXPFMT_BAD_CRC] = "checksum wrong",
	        [EXPFMT_BAD_FIELD] = "impossible content",
	};

	return c <= EXPFMT_BAD_FIELD ? name[c] : "?";
}

int
expfmt_layout(uint64_t size_bytes, const uint8_t uuid[16], struct expfmt_super *s)
{
	uint64_t slot;

	if (size_bytes < EXPFMT_MIN_BYTES || size_bytes > (uint64_t)INT64_MAX)
		return -EINVAL;
	slot = (size_bytes - EXPFMT_SLOTS_OFF) / 2 / EXPFMT_PAGE_BYTES * EXPFMT_PAGE_BYTES;
	*s = (struct expfmt_super){
	        .version = EXPFMT_VERSION,
	        .size_bytes = size_bytes,
	        .slot_off = {EXPFMT_SLOTS_OFF, EXPFMT_SLOTS_OFF + slot},
	        .capacity_bytes = slot - EXPFMT_HEADER_BYTES,
	};
	memcpy(s->uuid, uuid, sizeof(s->uuid));
	return 0;
}

void
expfmt_super_encode(const struct expfmt_super *s, uint8_t *page)
{
	memset(page, 0, EXPFMT_PAGE_BYTES);
	memcpy(page + SB_MAGIC, expfmt_magic, sizeof(expfmt_magic));
	weft_put_be32(page + SB_VERSION, s->version);
	weft_put_be32(page + SB_PAGE, EXPFMT_PAGE_BYTES);
	weft_put_be64(page + SB_SIZE, s->size_bytes);
	weft_put_be64(page + SB_COMMIT_OFF, EXPFMT_COMMIT_OFF);
	weft_put_be64(page + SB_SLOT_OFF, s->slot_off[0]);
	weft_put_be64(page + SB_SLOT_OFF + 8, s->slot_off[1]);
	weft_put_be64(page + SB_CAPACITY, s->capacity_bytes);
	weft_put_be32(page + SB_HEADER_BYTES, EXPFMT_HEADER_BYTES);
	memcpy(page + SB_UUID, s->uuid, sizeof(s->uuid));
	expfmt_crc(page, page + SB_CRC);
}

enum expfmt_check
expfmt_super_decode(const uint8_t *page, struct expfmt_super *s)
{
	struct expfmt_super want;
	enum expfmt_check c;

	memset(s, 0, sizeof(*s));
	c = expfmt_check_page(page, expfmt_magic, &s->version);
	if (c != EXPFMT_OK)
		return c;
	s->size_bytes = weft_get_be64(page + SB_SIZE);
	s->slot_off[0] = weft_get_be64(page + SB_SLOT_OFF);
	s->slot_off[1] = weft_get_be64(page + SB_SLOT_OFF + 8);
	s->capacity_bytes = weft_get_be64(page + SB_CAPACITY);
	memcpy(s->uuid, page + SB_UUID, sizeof(s->uuid));
	/* Version 1 has one layout for each size; the fields describe it for people and other
	 * versions. */
	if (expfmt_layout(s->size_bytes, s->uuid, &want) != 0 ||
	    s->slot_off[0] != want.slot_off[0] || s->slot_off[1] != want.slot_off[1] ||
	    s->capacity_bytes != want.capacity_bytes ||
	    weft_get_be32(page + SB_PAGE) != EXPFMT_PAGE_BYTES ||
	    weft_get_be64(page + SB_COMMIT_OFF) != EXPFMT_COMMIT_OFF ||
	    weft_get_be32(page + SB_HEADER_BYTES) != EXPFMT_HEADER_BYTES)
		return EXPFMT_BAD_FIELD;
	return EXPFMT_OK;
}

int
expfmt_uuid(uint8_t uuid[16])
{
	if (getrandom(uuid, 16, 0) != 16)
		return -errno;
	uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x40); /* RFC 9562 s5.4 */
	uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
	return 0;
}

const char *
expfmt_uuid_str(const uint8_t uuid[16], char *buf)
{
	char *p = buf;

	for (unsigned int i = 0; i < 16; i++)
		p += sprintf(p, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
	return buf;
}

void
expfmt_commit_encode(const struct expfmt_commit *c, uint8_t word[8])
{
	weft_put_be64(word, c->generation << 1 | (c->slot & 1));
}

void
expfmt_commit_decode(const uint8_t word[8], struct expfmt_commit *c)
{
	uint64_t v = weft_get_be64(word);

	c->generation = v >> 1;
	c->slot = (uint32_t)(v & 1);
}

void
expfmt_slot_encode(const struct expfmt_slot *h, uint8_t *page)
{
	size_t n = strnlen(h->name, EXPFMT_NAME_MAX);

	memset(page, 0, EXPFMT_HEADER_BYTES);
	memcpy(page + SH_MAGIC, expfmt_slot_magic, sizeof(expfmt_slot_magic));
	weft_put_be32(page + SH_VERSION, EXPFMT_VERSION);
	weft_put_be32(page + SH_HEADER_BYTES, EXPFMT_HEADER_BYTES);
	weft_put_be64(page + SH_GENERATION, h->generation);
	weft_put_be64(page + SH_LENGTH, h->length_bytes);
	memcpy(page + SH_DATA_CRC, h->data_crc, EXPFMT_CRC_BYTES);
	weft_put_be32(page + SH_NAME_LEN, n);
	weft_put_be64(page + SH_MTIME, (uint64_t)h->mtime_ns);
	memcpy(page + SH_NAME, h->name, n);
	expfmt_crc(page, page + SH_CRC);
}

enum expfmt_check
expfmt_slot_decode(const uint8_t *page, uint64_t capacity_bytes, struct expfmt_slot *h)
{
	enum expfmt_check c;
	uint32_t version;
	uint64_t n;

	memset(h, 0, sizeof(*h));
	c = expfmt_check_page(page, expfmt_slot_magic, &version);
	if (c != EXPFMT_OK)
		return c;
	h->generation = weft_get_be64(page + SH_GENERATION);
	h->length_bytes = weft_get_be64(page + SH_LENGTH);
	memcpy(h->data_crc, page + SH_DATA_CRC, EXPFMT_CRC_BYTES);
	n = weft_get_be32(page + SH_NAME_LEN);
	h->mtime_ns = (int64_t)weft_get_be64(page + SH_MTIME);
	if (h->length_bytes > capacity_bytes || n > EXPFMT_NAME_MAX || h->generation == 0 ||
	    h->generation > EXPFMT_GENERATION_MAX ||
	    weft_get_be32(page + SH_HEADER_BYTES) != EXPFMT_HEADER_BYTES) {
		memset(h, 0, sizeof(*h));
		return EXPFMT_BAD_FIELD;
	}
	memcpy(h->name, page + SH_NAME, (size_t)n);
	return EXPFMT_OK;
}
