/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Checksums of a volume: pages of CRC32c, and bits for groups.
 *
 * A checksum is stored as the exclusive or of the block's CRC and that of a block of zeros. So a
 * page that was never written is right for data that was never written.
 */

#include <stdlib.h>
#include <sys/mman.h>

#include <isa-l.h>

#include "vol_priv.h"

int
vol_sums_new(uint64_t bytes, struct vol_sums **out)
{
	struct vol_sums *s = calloc(1, sizeof(*s));
	void *maps;

	if (s == NULL)
		return -ENOMEM;
	s->groups = weft_vol_groups(bytes);
	s->map_bytes = weft_vol_map_bytes(bytes);
	/* Nearly all of it stays zero, and pages that are never written to take no memory. */
	maps = mmap(NULL, WEFT_VOL_MAPS * s->map_bytes, PROT_READ | PROT_WRITE,
	            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (maps != MAP_FAILED) {
		s->maps = maps;
		(void)madvise(maps, WEFT_VOL_MAPS * s->map_bytes, MADV_NOHUGEPAGE);
	}
	s->doubt = calloc(1, s->map_bytes);
	s->in_use = calloc(1, s->map_bytes);
	s->saved = calloc(1, s->map_bytes);
	s->unsure = calloc(WEFT_VOL_MAPS * s->map_bytes / WEFT_VOL_SUM_BLOCK, sizeof(bool));
	if (s->saved == NULL || s->maps == NULL || s->doubt == NULL || s->in_use == NULL ||
	    s->unsure == NULL) {
		vol_sums_end(s);
		return -ENOMEM;
	}
	*out = s;
	return 0;
}

void
vol_sums_end(struct vol_sums *s)
{
	if (s == NULL)
		return;
	if (s->maps != NULL)
		(void)munmap(s->maps, WEFT_VOL_MAPS * s->map_bytes);
	free(s->doubt);
	free(s->in_use);
	free(s->saved);
	free(s->unsure);
	free(s);
}

bool
vol_sums_bit(const uint8_t *map, uint64_t group)
{
	return (map[group / 8] & 1U << group % 8) != 0;
}

bool
vol_sums_doubted(const struct vol_sums *s, uint64_t group)
{
	return (atomic_load_explicit(&s->doubt[group / 8], memory_order_relaxed) &
	        1U << group % 8) != 0;
}

void
vol_sums_doubt(struct vol_sums *s, uint64_t group, bool doubt)
{
	const uint8_t bit = (uint8_t)(1U << group % 8);
	uint8_t was;

	if (doubt) {
		was = atomic_fetch_or_explicit(&s->doubt[group / 8], bit, memory_order_relaxed);
		if ((was & bit) == 0)
			atomic_fetch_add_explicit(&s->doubts, 1, memory_order_relaxed);
	} else {
		was = atomic_fetch_and_explicit(&s->doubt[group / 8], (uint8_t)~bit,
		                                memory_order_relaxed);
		if ((was & bit) != 0)
			atomic_fetch_sub_explicit(&s->doubts, 1, memory_order_relaxed);
	}
}

uint64_t
weft_vol_in_doubt(const struct weft_vol *v)
{
	/* While others set bits it may be passed by an end of theirs. */
	const int64_t n = v->sums == NULL ? 0
	                                  : (int64_t)atomic_load_explicit(&v->sums->doubts,
	                                                                  memory_order_relaxed);

	return n > 0 ? (uint64_t)n : 0;
}

uint64_t
vol_sums_next_doubt(const struct vol_sums *s, uint64_t group)
{
	while (group < s->groups && !vol_sums_doubted(s, group)) {
		/* An octet without a bit is passed at once. */
		if (group % 8 == 0 &&
		    atomic_load_explicit(&s->doubt[group / 8], memory_order_relaxed) == 0)
			group += 8;
		else
			group++;
	}
	return group < s->groups ? group : UINT64_MAX;
}

void
vol_sums_use(struct vol_sums *s, uint64_t group)
{
	const uint8_t bit = (uint8_t)(1U << group % 8);
	_Atomic uint8_t *at = &s->in_use[group / 8];

	/* Of each change on each worker: where it is so already, the line stays in all caches. */
	if ((atomic_load_explicit(at, memory_order_relaxed) & bit) == 0)
		atomic_fetch_or_explicit(at, bit, memory_order_relaxed);
	if (!atomic_load_explicit(&s->changed, memory_order_relaxed))
		atomic_store_explicit(&s->changed, true, memory_order_relaxed);
}

void
vol_sums_doubt_used(struct vol_sums *s)
{
	for (uint64_t i = 0; i < s->map_bytes; i++) {
		uint8_t used = atomic_load_explicit(&s->in_use[i], memory_order_relaxed), was;

		if (used == 0)
			continue;
		was = atomic_fetch_or_explicit(&s->doubt[i], used, memory_order_relaxed);
		atomic_fetch_add_explicit(&s->doubts,
		                          (uint64_t)__builtin_popcount(used & ~(unsigned int)was),
		                          memory_order_relaxed);
	}
}

static uint32_t
sums_zero(void)
{
	static const uint8_t zeros[WEFT_VOL_SUM_BLOCK];

	return crc32_iscsi((unsigned char *)(uintptr_t)zeros, WEFT_VOL_SUM_BLOCK, UINT32_MAX);
}

/** The CRC of the next block of memory in segments. `at`: where it begins, and then ends. */
static uint32_t
sums_next(const struct iovec *iov, struct weft_vol_place *at)
{
	uint32_t crc = UINT32_MAX;

	for (uint64_t left = WEFT_VOL_SUM_BLOCK; left > 0;) {
		uint64_t n = VOL_MIN(left, iov[at->i].iov_len - at->off_bytes);

		crc = crc32_iscsi((uint8_t *)iov[at->i].iov_base + at->off_bytes, (int)n, crc);
		left -= n;
		at->off_bytes += n;
		if (at->off_bytes == iov[at->i].iov_len) {
			at->i++;
			at->off_bytes = 0;
		}
	}
	return crc;
}

uint32_t
weft_vol_block_sum(const uint8_t *block)
{
	const struct iovec iov = {(uint8_t *)(uintptr_t)block, WEFT_VOL_SUM_BLOCK};
	struct weft_vol_place at = {0};

	/* sums_zero() as a constant: the block may be one of many. */
	return sums_next(&iov, &at) ^ ~0x98f94189U;
}

void
vol_sums_set(uint8_t *page, uint32_t first, uint32_t n, const struct iovec *iov)
{
	struct weft_vol_place at = {0};
	const uint32_t zero = sums_zero();

	for (uint32_t i = first; i < first + n; i++) {
		uint32_t sum = iov == NULL ? 0 : sums_next(iov, &at) ^ zero;

		for (unsigned int k = 0; k < 4; k++)
			page[i * 4 + k] = (uint8_t)(sum >> (24 - 8 * k));
	}
}

int64_t
vol_sums_check(const uint8_t *page, uint32_t first, uint32_t n, const struct iovec *iov)
{
	struct weft_vol_place at = {0};
	const uint32_t zero = sums_zero();

	for (uint32_t i = first; i < first + n; i++) {
		uint32_t sum = sums_next(iov, &at) ^ zero, is = 0;

		for (unsigned int k = 0; k < 4; k++)
			is = is << 8 | page[i * 4 + k];
		if (sum != is)
			return i - first;
	}
	return -1;
}
