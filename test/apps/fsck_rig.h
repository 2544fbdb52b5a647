/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FSCK_RIG_H
#define FSCK_RIG_H

/**
 * @file Media of exports in memory, for weft-fsck's examination: made as the formats' pages say,
 * with what a crash leaves, and read again without any code of weft-fsck.
 */

#include "fsck.h"
#include "weft_test.h"

#define RIG_PAGE      4096U
#define RIG_MAX_PAGES 4096U /**< 16 MiB */

/** A medium. A page without memory is zero. */
struct rig_medium {
	struct fsck_medium medium; /**< the first member */
	uint8_t *page[RIG_MAX_PAGES];
	unsigned int writes;  /**< calls of write */
	uint64_t write_fails; /**< writes of this octet fail; UINT64_MAX: none does */
};

/** What a medium was made with. */
struct rig_facts {
	enum fsck_format format;
	uint64_t data_at, data_end; /**< octets that weft-fsck never writes */
	/* object */
	uint64_t generation; /**< committed; 0: none */
	/* log */
	uint64_t records; /**< from the head on */
	/* volume */
	bool sums, doubt;
	uint64_t bytes;
};

void rig_init(struct rig_medium *r, uint64_t bytes);
void rig_free(struct rig_medium *r);
void rig_copy(struct rig_medium *to, const struct rig_medium *from);
/** Whether both hold the same octets in [begin, end); where a medium ends it counts as zeros. */
bool rig_equal(const struct rig_medium *a, const struct rig_medium *b, uint64_t begin,
               uint64_t end);
void rig_put(struct rig_medium *r, uint64_t off, const void *octets, size_t len);
void rig_get(const struct rig_medium *r, uint64_t off, void *octets, size_t len);
/** The next number of a seeded sequence, 0 to n - 1. */
uint64_t rig_draw(uint64_t *seed, uint64_t n);

/** Make a medium. `used`: as targets leave it, not only formatted. */
void rig_object(struct rig_medium *r, struct rig_facts *facts, uint64_t *seed);
void rig_log(struct rig_medium *r, struct rig_facts *facts, uint64_t *seed);
void rig_volume(struct rig_medium *r, struct rig_facts *facts, uint64_t *seed);

/** Read it as weft's readers do, past weft-fsck. The generation of the object that can be read, or
 * -1: readers report damage. */
int64_t rig_object_reads(const struct rig_medium *r);
/** Records that can be read, or -1. */
int64_t rig_log_reads(const struct rig_medium *r);
/** Blocks of data that do not have their checksum, outside of groups in doubt; -1: the volume does
 * not open. */
int64_t rig_volume_reads(const struct rig_medium *r);

#endif /* FSCK_RIG_H */
