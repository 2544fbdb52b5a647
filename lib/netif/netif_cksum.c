/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The Internet checksum over contiguous memory and over chains. */

#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_mbuf.h>

#include "netif_cksum.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/*
 * One's complement sums may use words of any width and be folded afterwards (RFC 1071 s2). No carry
 * is lost before that, so a sum is 0 only if all octets are.
 */

#define SUM_WIDE_BYTES 128 /* from here on wider registers gain */

__extension__ typedef unsigned __int128 sum_u128;

bool netif_sum_wide;

#if defined(__x86_64__)
static void __attribute__((constructor)) sum_probe(void)
{
	__builtin_cpu_init();
	netif_sum_wide = __builtin_cpu_supports("avx2");
}

/* Octets of 0, followed by octets of 0xff: a mask of the last n octets begins at n. */
static const uint8_t sum_mask[64] __attribute__((aligned(64))) = {
        [32] = 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff,        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff,        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
};

/* The sums of neighbouring words of x, each less 32768: vpmaddwd takes words for signed. */
#define SUM_PAIRS(x) _mm256_madd_epi16(_mm256_xor_si256(x, bias), ones)
#define SUM_LOAD(p)  _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define SUM_TWICE(p) _mm256_add_epi32(SUM_PAIRS(SUM_LOAD(p)), SUM_PAIRS(SUM_LOAD((p) + 128)))

/*
 * The sum of the 16-bit words of at least 32 octets, at most NETIF_SUM_MAX: each of eight sums of
 * 32 bits takes at most 65536 from each 32 octets. The compiler leaves by vzeroupper (weft_vec.h).
 */
static uint64_t __attribute__((target("avx2,tune=haswell"), noinline))
sum_avx2(const uint8_t *p, uint32_t len)
{
	const __m256i ones = _mm256_set1_epi16(1), bias = _mm256_set1_epi16(INT16_MIN);
	__m256i a = _mm256_setzero_si256(), b = a, c = a, d = a, all;
	uint32_t even = len & ~1u, rest = even % 32;
	__m128i two;
	/* Zeros after an odd octet do not change the sum. */
	int64_t sum = len != even ? p[even] : 0;

	for (uint32_t n = even / 256; n > 0; n--, p += 256) {
		a = _mm256_add_epi32(a, SUM_TWICE(p));
		b = _mm256_add_epi32(b, SUM_TWICE(p + 32));
		c = _mm256_add_epi32(c, SUM_TWICE(p + 64));
		d = _mm256_add_epi32(d, SUM_TWICE(p + 96));
	}
	if ((even & 128) != 0) {
		a = _mm256_add_epi32(a, SUM_PAIRS(SUM_LOAD(p)));
		b = _mm256_add_epi32(b, SUM_PAIRS(SUM_LOAD(p + 32)));
		c = _mm256_add_epi32(c, SUM_PAIRS(SUM_LOAD(p + 64)));
		d = _mm256_add_epi32(d, SUM_PAIRS(SUM_LOAD(p + 96)));
		p += 128;
	}
	if ((even & 64) != 0) {
		a = _mm256_add_epi32(a, SUM_PAIRS(SUM_LOAD(p)));
		b = _mm256_add_epi32(b, SUM_PAIRS(SUM_LOAD(p + 32)));
		p += 64;
	}
	if ((even & 32) != 0) {
		c = _mm256_add_epi32(c, SUM_PAIRS(SUM_LOAD(p)));
		p += 32;
	}
	all = _mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d));
	/* The last octets, together with those in front of them, which are masked. */
	if (rest != 0)
		all = _mm256_add_epi32(all, SUM_PAIRS(_mm256_and_si256(SUM_LOAD(p + rest - 32),
		                                                       SUM_LOAD(sum_mask + rest))));
	/* Eight sums of 32 bits become four, two and one of 64 bits. */
	all = _mm256_add_epi64(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(all)),
	                       _mm256_cvtepi32_epi64(_mm256_extracti128_si256(all, 1)));
	two = _mm_add_epi64(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
	sum += _mm_cvtsi128_si64(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two)));
	/* 16 words of each vector were less by 32768. */
	return (uint64_t)sum + (uint64_t)((even + 31) / 32) * 16 * 32768;
}
#else
static uint64_t
sum_avx2(const uint8_t *p, uint32_t len)
{
	(void)p;
	(void)len;
	return 0;
}
#endif

/* The sum of the 64-bit words, reduced to what fits 64 bits. */
static inline uint64_t
sum_narrow(const uint8_t *p, uint32_t len)
{
	sum_u128 sum = 0;
	uint64_t w[4], tail = 0;

	for (; len >= 32; p += 32, len -= 32) {
		memcpy(w, p, sizeof(w));
		sum += w[0];
		sum += w[1];
		sum += w[2];
		sum += w[3];
	}
	for (; len >= 8; p += 8, len -= 8) {
		memcpy(w, p, 8);
		sum += w[0];
	}
	/* Zeros after an odd octet do not change the sum, in either byte order. */
	if ((len & 4) != 0) {
		uint32_t half;

		memcpy(&half, p, 4);
		sum += half;
		p += 4;
	}
	if ((len & 3) != 0) {
		memcpy(&tail, p, 1);
		if ((len & 2) != 0)
			memcpy(&tail, p, 2);
		if ((len & 3) == 3)
			memcpy((uint8_t *)&tail + 2, p + 2, 1);
		sum += tail;
	}
	return ((uint64_t)sum & UINT32_MAX) + ((uint64_t)sum >> 32) + (uint64_t)(sum >> 64);
}

uint64_t
netif_sum_open(const void *buf, uint32_t len)
{
	if (len >= SUM_WIDE_BYTES && netif_sum_wide)
		return sum_avx2(buf, len);
	return sum_narrow(buf, len);
}

uint16_t
netif_sum_chain(const struct rte_mbuf *m, uint32_t off, uint32_t len)
{
	uint64_t sum = 0;
	uint32_t done = 0;

	while (off > 0 && off >= m->data_len) {
		off -= m->data_len;
		m = m->next;
		if (m == NULL)
			return 0;
	}
	for (; m != NULL && done < len; m = m->next) {
		uint32_t n = RTE_MIN(len - done, m->data_len - off);
		uint16_t s = netif_sum(rte_pktmbuf_mtod_offset(m, const uint8_t *, off), n);

		/* After an odd number of octets every word is shifted by one octet. */
		sum += (done & 1) != 0 ? rte_bswap16(s) : s;
		done += n;
		off = 0;
	}
	return netif_fold(sum);
}
