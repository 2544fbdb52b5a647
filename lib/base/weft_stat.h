/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_STAT_H
#define WEFT_STAT_H

/**
 * @file Names of counters, so that whoever shows them (telemetry, the console) need not know a
 * layer's structure.
 */

#include <stddef.h>
#include <stdint.h>

/**
 * Of a function that reads counters of another thread. A counter is an aligned word that one thread
 * alone adds to, by plain loads and stores, which cost the data path nothing; the processor reads
 * and writes such a word whole. A reader gets each counter as it was at some moment of the call, in
 * no order among them. ThreadSanitizer is not to judge that, and does not look into such a
 * function; it does look into those that count.
 */
#define WEFT_STAT_READER __attribute__((no_sanitize("thread")))

/** One counter of a statistics structure. */
struct weft_stat_field {
	const char *name;
	uint16_t off;   /**< in the structure */
	uint16_t bytes; /**< 4 or 8 */
};

#define WEFT_STAT(type, field)                                                                     \
	{                                                                                          \
#field, offsetof(struct type, field), sizeof(((struct type *)0)->field)            \
	}

/** The counter's value; counters are read while their owner counts on. */
static inline WEFT_STAT_READER uint64_t
weft_stat_read(const void *stats, const struct weft_stat_field *f)
{
	const char *p = (const char *)stats + f->off;

	return f->bytes == 8 ? __atomic_load_n((const uint64_t *)(const void *)p, __ATOMIC_RELAXED)
	                     : __atomic_load_n((const uint32_t *)(const void *)p, __ATOMIC_RELAXED);
}

#endif /* WEFT_STAT_H */
