/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_BYTEORDER_H
#define WEFT_BYTEORDER_H

/** @file Network order: big-endian loads and stores at any alignment. Installed; stands alone. */

#include <stdint.h>
#include <string.h>

static inline uint16_t
weft_get_be16(const void *p)
{
	const uint8_t *b = (const uint8_t *)p;

	return (uint16_t)(b[0] << 8 | b[1]);
}

static inline uint32_t
weft_get_be32(const void *p)
{
	const uint8_t *b = (const uint8_t *)p;

	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static inline uint64_t
weft_get_be64(const void *p)
{
	const uint8_t *b = (const uint8_t *)p;

	return (uint64_t)b[0] << 56 | (uint64_t)b[1] << 48 | (uint64_t)b[2] << 40 |
	       (uint64_t)b[3] << 32 | (uint64_t)b[4] << 24 | (uint64_t)b[5] << 16 |
	       (uint64_t)b[6] << 8 | b[7];
}

/*
 * Stores are of a swapped word where the compiler can. Of the octets of several fields that are
 * stored in turn, compilers make vectors, which is several times the work.
 */
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static inline void
weft_put_be16(void *p, uint16_t v)
{
	v = __builtin_bswap16(v);
	memcpy(p, &v, sizeof(v));
}

static inline void
weft_put_be32(void *p, uint32_t v)
{
	v = __builtin_bswap32(v);
	memcpy(p, &v, sizeof(v));
}

static inline void
weft_put_be64(void *p, uint64_t v)
{
	v = __builtin_bswap64(v);
	memcpy(p, &v, sizeof(v));
}
#else
static inline void
weft_put_be16(void *p, uint16_t v)
{
	uint8_t *b = (uint8_t *)p;

	b[0] = (uint8_t)(v >> 8);
	b[1] = (uint8_t)v;
}

static inline void
weft_put_be32(void *p, uint32_t v)
{
	weft_put_be16(p, (uint16_t)(v >> 16));
	weft_put_be16((uint8_t *)p + 2, (uint16_t)v);
}

static inline void
weft_put_be64(void *p, uint64_t v)
{
	weft_put_be32(p, (uint32_t)(v >> 32));
	weft_put_be32((uint8_t *)p + 4, (uint32_t)v);
}
#endif

#endif /* WEFT_BYTEORDER_H */
