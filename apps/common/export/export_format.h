/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_EXPORT_FORMAT_H
#define WEFT_APPS_EXPORT_FORMAT_H

/**
 * @file Codec of an export's content: superblock, commit word, two slots. Version 1;
 * docs/export-format.md has the picture and the octets. The caller reads and writes the medium.
 *
 * Offsets ("_off") count from the start of the medium; tagged offsets ("_to") from the commit page,
 * where the region that OPEN grants begins. So no peer can write the superblock.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPFMT_VERSION        1
#define EXPFMT_PAGE_BYTES     4096u
#define EXPFMT_COMMIT_OFF     4096u /**< commit page; also where the granted region starts */
#define EXPFMT_COMMIT_BYTES   8u
#define EXPFMT_SLOTS_OFF      8192u
#define EXPFMT_HEADER_BYTES   4096u
#define EXPFMT_MIN_BYTES      (EXPFMT_SLOTS_OFF + 2 * (EXPFMT_HEADER_BYTES + EXPFMT_PAGE_BYTES))
#define EXPFMT_NAME_MAX       255
#define EXPFMT_CRC_BYTES      4u
#define EXPFMT_GENERATION_MAX (UINT64_MAX >> 1)

struct expfmt_super {
	uint32_t version;
	uint64_t size_bytes; /**< of the whole export */
	uint64_t slot_off[2];
	uint64_t capacity_bytes; /**< data a slot holds */
	uint8_t uuid[16];
};

enum expfmt_check {
	EXPFMT_OK = 0,
	EXPFMT_ZERO, /**< all octets are zero: the medium is new, or was never written */
	EXPFMT_BAD_MAGIC,
	EXPFMT_BAD_VERSION, /**< magic right, another version */
	EXPFMT_BAD_CRC,     /**< torn or damaged */
	EXPFMT_BAD_FIELD,   /**< CRC right, content impossible */
};

/** The check's result as text, as "bad magic: not a weft export"; static. */
const char *expfmt_check_str(enum expfmt_check c);

/** Compute the layout of size_bytes. Any size will do; octets left over at the end are not used.
 * -EINVAL: less than EXPFMT_MIN_BYTES, or too large. */
int expfmt_layout(uint64_t size_bytes, const uint8_t uuid[16], struct expfmt_super *s);
/** page: EXPFMT_PAGE_BYTES. */
void expfmt_super_encode(const struct expfmt_super *s, uint8_t *page);
/** Decode a page. *s is filled when the result is OK; of BAD_VERSION the version alone. */
enum expfmt_check expfmt_super_decode(const uint8_t *page, struct expfmt_super *s);
/** Make a random UUID, version 4 (RFC 9562). -errno of getrandom(). */
int expfmt_uuid(uint8_t uuid[16]);
/** buf: 37 octets. */
const char *expfmt_uuid_str(const uint8_t uuid[16], char *buf);

/** The commit word: generation 0 is an export that never held an object. */
struct expfmt_commit {
	uint64_t generation; /**< at most EXPFMT_GENERATION_MAX */
	uint32_t slot;       /**< 0 or 1 */
};

void expfmt_commit_encode(const struct expfmt_commit *c, uint8_t word[8]);
void expfmt_commit_decode(const uint8_t word[8], struct expfmt_commit *c);

struct expfmt_slot {
	uint64_t generation;
	uint64_t length_bytes;              /**< of the data */
	uint8_t data_crc[EXPFMT_CRC_BYTES]; /**< CRC32c as the hash driver "crc32c" writes it */
	int64_t mtime_ns;                   /**< of the source file, since 1970; for people */
	char name[EXPFMT_NAME_MAX + 1];     /**< of the source file; for people */
};

/** page: EXPFMT_HEADER_BYTES. */
void expfmt_slot_encode(const struct expfmt_slot *h, uint8_t *page);
/** capacity_bytes bounds length_bytes. */
enum expfmt_check expfmt_slot_decode(const uint8_t *page, uint64_t capacity_bytes,
                                     struct expfmt_slot *h);

#endif /* WEFT_APPS_EXPORT_FORMAT_H */
