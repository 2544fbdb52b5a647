/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The Internet checksum over contiguous memory and over chains. */

#include <rte_common.h>
#include <rte_mbuf.h>

#include "netif_cksum.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/*
 * One's complement sums may use words of any width and be folded afterwards (RFC 1071 s2). `all`
 * sums the 64-bit words modulo 2^64, and `hi` sums their upper halves. The sum of the lower halves
 * is all - hi * 2^32, exact as long as it is below 2^64. Independent sums fill vector registers.
 */
struct sum_words {
	uint64_t all, hi;
};

#define SUM_WIDE_BYTES 128 /* from here on wider registers gain */

bool netif_sum_wide;

#if defined(__x86_64__) && !defined(__AVX2__)
static void __attribute__((constructor)) sum_probe(void)
{
	__builtin_cpu_init();
	netif_sum_wide = __builtin_cpu_supports("avx2");
}

/* len: a multiple of 64. The compiler leaves by vzeroupper (weft_vec.h). */
static struct sum_words __attribute__((target("avx2"), noinline))
sum_avx2(const uint8_t *p, uint32_t len)
{
	__m256i all[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()}, hi[2] = {all[0], all[0]};
	uint64_t w[2][4];

	for (; len > 0; p += 64, len -= 64) {
		__m256i a = _mm256_loadu_si256((const __m256i *)(const void *)p);
		__m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(p + 32));

		all[0] = _mm256_add_epi64(all[0], a);
		hi[0] = _mm256_add_epi64(hi[0], _mm256_srli_epi64(a, 32));
		all[1] = _mm256_add_epi64(all[1], b);
		hi[1] = _mm256_add_epi64(hi[1], _mm256_srli_epi64(b, 32));
	}
	_mm256_storeu_si256((__m256i *)(void *)w[0], _mm256_add_epi64(all[0], all[1]));
	_mm256_storeu_si256((__m256i *)(void *)w[1], _mm256_add_epi64(hi[0], hi[1]));
	return (struct sum_words){w[0][0] + w[0][1] + w[0][2] + w[0][3],
	                          w[1][0] + w[1][1] + w[1][2] + w[1][3]};
}
#else
static struct sum_words
sum_avx2(const uint8_t *p, uint32_t len)
{
	(void)p;
	(void)len;
	return (struct sum_words){0, 0};
}
#endif

/* len: a multiple of 32. */
static struct sum_words
sum_narrow(const uint8_t *p, uint32_t len)
{
	uint64_t all[4] = {0}, hi[4] = {0};

	for (; len > 0; p += 32, len -= 32) {
		uint64_t w[4];

		memcpy(w, p, sizeof(w));
		for (unsigned int i = 0; i < 4; i++) {
			all[i] += w[i];
			hi[i] += w[i] >> 32;
		}
	}
	return (struct sum_words){all[0] + all[1] + all[2] + all[3], hi[0] + hi[1] + hi[2] + hi[3]};
}

uint16_t
netif_sum(const void *buf, uint32_t len)
{
	const uint8_t *p = buf;
	bool wide = len >= SUM_WIDE_BYTES && netif_sum_wide;
	uint32_t whole = len & ~(wide ? 63u : 31u);
	struct sum_words s = wide ? sum_avx2(p, whole) : sum_narrow(p, whole);
	uint64_t sum = s.all - (s.hi << 32) + s.hi, tail = 0;

	for (p += whole, len -= whole; len >= 8; p += 8, len -= 8) {
		uint64_t w;

		memcpy(&w, p, sizeof(w));
		sum += (w & 0xffffffff) + (w >> 32);
	}
	/* Zeros after an odd octet do not change the sum, in either byte order. */
	memcpy(&tail, p, len);
	sum += (tail & 0xffffffff) + (tail >> 32);
	return netif_fold(sum);
}

uint16_t
netif_sum_mbuf(const struct rte_mbuf *m, uint32_t off, uint32_t len)
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
