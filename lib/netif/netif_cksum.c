/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The Internet checksum over flat memory and over chains. */

#include "netif_priv.h"

/*
 * One's complement sums may be taken over words of any width and folded afterwards (RFC 1071
 * s2). Each 64-bit word is added as two 32-bit halves, which cannot overflow below 32 GiB; the
 * independent sums let the compiler use vector registers.
 */
uint16_t
netif_sum(const void *buf, uint32_t len)
{
	const uint8_t *p = buf;
	uint64_t lo[4] = {0}, hi[4] = {0}, sum, tail = 0;

	for (; len >= 32; p += 32, len -= 32) {
		uint64_t w[4];

		memcpy(w, p, sizeof(w));
		for (unsigned int i = 0; i < 4; i++) {
			lo[i] += w[i] & 0xffffffff;
			hi[i] += w[i] >> 32;
		}
	}
	sum = lo[0] + lo[1] + lo[2] + lo[3] + hi[0] + hi[1] + hi[2] + hi[3];
	for (; len >= 8; p += 8, len -= 8) {
		uint64_t w;

		memcpy(&w, p, sizeof(w));
		sum += (w & 0xffffffff) + (w >> 32);
	}
	/* Zeros behind an odd octet do not change the sum, in either byte order. */
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

		/* Behind an odd number of octets, every word lies across two. */
		sum += (done & 1) != 0 ? rte_bswap16(s) : s;
		done += n;
		off = 0;
	}
	return netif_fold(sum);
}
