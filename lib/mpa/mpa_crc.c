/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file CRC32c by carry-less multiplication of 64 octets at a time.
 *
 * A CRC is the remainder of a division by the polynomial P. Octets that are n bits ahead of others
 * may be replaced by their product with x^n mod P, added to those: they are folded. Here 256 octets
 * are folded onto the next 256 until fewer are left, then 64, then 16. The processor's CRC
 * instruction divides the last 16.
 *
 * The Internet checksum of a copy adds words of 32 bits, each to a sum of 64 bits: what is carried
 * beyond 16 bits comes back in when the sums are folded (RFC 1071 s2).
 */

#include <string.h>

#include <rte_branch_prediction.h>

#include "mpa_crc.h"
#include "mpa_sum.h"

bool mpa_crc_wide;

#if defined(__x86_64__)
#include <immintrin.h>

static void __attribute__((constructor)) mpa_crc_probe(void)
{
	__builtin_cpu_init();
	mpa_crc_wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
	               __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("sse4.2");
}

#define CRC_WIDE __attribute__((target("avx512f,avx512vl,vpclmulqdq,pclmul,sse4.2")))

/* x^(n + 31) and x^(n - 33) mod P, their bits in reverse, to fold by n bits: low and high half. */
#define CRC_BY_2048 _mm_setr_epi32((int)0xdcb17aa4, 0, (int)0xb9e02b86, 0)
#define CRC_BY_512  _mm_setr_epi32(0x740eef02, 0, (int)0x9e4addf8, 0)
#define CRC_BY_128  _mm_setr_epi32((int)0xf20c0dfe, 0, 0x493c7d27, 0)

/* 0x96 is the exclusive or of three. */
#define CRC_FOLD(x, by, next)                                                                      \
	_mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, by, 0x00),                           \
	                          _mm512_clmulepi64_epi128(x, by, 0x11), next, 0x96)
#define CRC_FOLD16(x, by, next)                                                                    \
	_mm_ternarylogic_epi64(_mm_clmulepi64_si128(x, by, 0x00),                                  \
	                       _mm_clmulepi64_si128(x, by, 0x11), next, 0x96)

/* The empty instructions keep the compiler from reading an octet twice. */

/** What is done with octets but for their CRC. Constant in each of its users. */
struct crc_way {
	uint8_t *dst;
	const uint8_t *src;
	bool copies; /**< to dst */
	bool sums;
	__m512i even, odd; /**< sums of the words of 32 bits, as words of 64 bits */
};

/** Read 64 octets, and store and sum them as the way says. */
static inline __m512i __attribute__((always_inline)) CRC_WIDE
crc_take64(struct crc_way *w, uint32_t at)
{
	__m512i v = _mm512_loadu_si512(w->src + at);

	__asm__ volatile("" : "+v"(v));
	if (w->copies)
		_mm512_storeu_si512(w->dst + at, v);
	if (w->sums) {
		w->even = _mm512_add_epi64(w->even,
		                           _mm512_and_si512(v, _mm512_set1_epi64(UINT32_MAX)));
		w->odd = _mm512_add_epi64(w->odd, _mm512_srli_epi64(v, 32));
	}
	return v;
}

static inline __m128i __attribute__((always_inline)) CRC_WIDE
crc_take16(uint8_t *dst, const uint8_t *src, uint32_t at)
{
	__m128i v = _mm_loadu_si128((const __m128i *)(const void *)(src + at));

	__asm__ volatile("" : "+v"(v));
	if (dst != NULL)
		_mm_storeu_si128((__m128i *)(void *)(dst + at), v);
	return v;
}

/** The last octets, fewer than 16. */
static inline uint32_t __attribute__((always_inline)) CRC_WIDE
crc_last(uint64_t crc, uint8_t *dst, const uint8_t *src, uint32_t at, uint32_t end)
{
	if (end - at >= 8) {
		uint64_t v;

		memcpy(&v, src + at, sizeof(v));
		__asm__ volatile("" : "+r"(v));
		if (dst != NULL)
			memcpy(dst + at, &v, sizeof(v));
		crc = _mm_crc32_u64(crc, v);
		at += 8;
	}
	for (; at < end; at++) {
		uint8_t v = src[at];

		__asm__ volatile("" : "+r"(v));
		if (dst != NULL)
			dst[at] = v;
		crc = _mm_crc32_u8((uint32_t)crc, v);
	}
	return (uint32_t)crc;
}

static inline uint32_t __attribute__((always_inline)) CRC_WIDE
crc_run(uint32_t crc, struct crc_way *w, uint32_t len)
{
	uint8_t *const dst = w->dst;
	const uint8_t *const src = w->src;
	const __m512i by2048 = _mm512_broadcast_i32x4(CRC_BY_2048);
	const __m512i by512 = _mm512_broadcast_i32x4(CRC_BY_512);
	const __m128i by128 = CRC_BY_128;
	const __m128i begin = _mm_cvtsi32_si128((int)crc);
	__m512i a = _mm512_xor_si512(crc_take64(w, 0), _mm512_zextsi128_si512(begin));
	uint32_t at = 64;
	__m128i x;
	uint64_t c;

	if (len >= 256) {
		__m512i b = crc_take64(w, 64), d = crc_take64(w, 128);
		__m512i e = crc_take64(w, 192);

		for (at = 256; at + 256 <= len; at += 256) {
			a = CRC_FOLD(a, by2048, crc_take64(w, at));
			b = CRC_FOLD(b, by2048, crc_take64(w, at + 64));
			d = CRC_FOLD(d, by2048, crc_take64(w, at + 128));
			e = CRC_FOLD(e, by2048, crc_take64(w, at + 192));
		}
		b = CRC_FOLD(a, by512, b);
		d = CRC_FOLD(b, by512, d);
		a = CRC_FOLD(d, by512, e);
	}
	for (; at + 64 <= len; at += 64)
		a = CRC_FOLD(a, by512, crc_take64(w, at));
	x = CRC_FOLD16(_mm512_castsi512_si128(a), by128, _mm512_extracti32x4_epi32(a, 1));
	x = CRC_FOLD16(x, by128, _mm512_extracti32x4_epi32(a, 2));
	x = CRC_FOLD16(x, by128, _mm512_extracti32x4_epi32(a, 3));
	for (; at + 16 <= len; at += 16)
		x = CRC_FOLD16(x, by128, crc_take16(dst, src, at));
	c = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(x));
	c = _mm_crc32_u64(c, (uint64_t)_mm_extract_epi64(x, 1));
	return crc_last(c, dst, src, at, len);
}

/** The sum of all that was copied: the vectors, and the fewer than 64 octets behind them, which are
 * read from the copy. */
static inline uint32_t __attribute__((always_inline)) CRC_WIDE
crc_summed(const struct crc_way *w, uint32_t len, uint32_t sum)
{
	sum = weft_sum_add(sum, (uint64_t)_mm512_reduce_add_epi64(w->even));
	sum = weft_sum_add(sum, (uint64_t)_mm512_reduce_add_epi64(w->odd));
	return weft_sum_add(sum, mpa_sum(w->dst + (len & ~63u), len & 63));
}

/* The compiler leaves all by vzeroupper (weft_vec.h). */

uint32_t CRC_WIDE
mpa_crc_wide_add(uint32_t crc, const uint8_t *p, uint32_t len_bytes)
{
	struct crc_way w = {.src = p};

	return crc_run(crc, &w, len_bytes);
}

uint32_t CRC_WIDE
mpa_crc_wide_copy(uint32_t crc, uint8_t *dst, const uint8_t *src, uint32_t len_bytes)
{
	struct crc_way w = {.dst = dst, .src = src, .copies = true};

	return crc_run(crc, &w, len_bytes);
}

uint32_t CRC_WIDE
mpa_crc_wide_copy_sum(uint32_t crc, uint8_t *dst, const uint8_t *src, uint32_t len_bytes,
                      uint32_t *sum)
{
	struct crc_way w = {.dst = dst,
	                    .src = src,
	                    .copies = true,
	                    .sums = true,
	                    .even = _mm512_setzero_si512(),
	                    .odd = _mm512_setzero_si512()};

	crc = crc_run(crc, &w, len_bytes);
	*sum = crc_summed(&w, len_bytes, *sum);
	return crc;
}
#else
uint32_t
mpa_crc_wide_add(uint32_t crc, const uint8_t *p, uint32_t len_bytes)
{
	(void)p;
	(void)len_bytes;
	return crc;
}

uint32_t
mpa_crc_wide_copy(uint32_t crc, uint8_t *dst, const uint8_t *src, uint32_t len_bytes)
{
	(void)dst;
	(void)src;
	(void)len_bytes;
	return crc;
}

uint32_t
mpa_crc_wide_copy_sum(uint32_t crc, uint8_t *dst, const uint8_t *src, uint32_t len_bytes,
                      uint32_t *sum)
{
	(void)sum;
	return mpa_crc_wide_copy(crc, dst, src, len_bytes);
}
#endif
