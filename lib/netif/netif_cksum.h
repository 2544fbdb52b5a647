/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_CKSUM_H
#define NETIF_CKSUM_H

/** @file The Internet checksum (RFC 1071): netif_cksum.c, and sums of headers. */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <rte_byteorder.h>
#include <rte_mbuf.h>

struct weft_ip;

/** The most octets of one call of netif_sum(). */
#define NETIF_SUM_MAX (1u << 20)

/** The sum of `len` octets as 16-bit words in memory order, below 2^40: for netif_fold(), alone or
 * together with other sums. */
uint64_t netif_sum_open(const void *p, uint32_t len);
/** Set before main(): netif_sum() may use AVX2. A test clears it to test the other path. */
extern bool netif_sum_wide;
/** The same over `len` octets of a chain from `off` on. The chain must have that many. */
uint16_t netif_sum_chain(const struct rte_mbuf *m, uint32_t off, uint32_t len);
/** The same, not folded. */
static inline uint64_t
netif_sum_mbuf_open(const struct rte_mbuf *m, uint32_t off, uint32_t len)
{
	if (likely(off + len <= m->data_len))
		return netif_sum_open(rte_pktmbuf_mtod_offset(m, const uint8_t *, off), len);
	return netif_sum_chain(m, off, len);
}

/** Reduces sums to 16 bits; 0 only if all of them are. */
static inline uint16_t
netif_fold(uint64_t sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

/** The sum of `len` octets, folded, not complemented. */
static inline uint16_t
netif_sum(const void *p, uint32_t len)
{
	return netif_fold(netif_sum_open(p, len));
}

/** The sum of `len` octets of a chain from `off` on. The chain must have that many. */
static inline uint16_t
netif_sum_mbuf(const struct rte_mbuf *m, uint32_t off, uint32_t len)
{
	return netif_fold(netif_sum_mbuf_open(m, off, len));
}

/** The sum of a 20-octet IPv4 header. */
static inline uint16_t
netif_sum_ipv4(const void *hdr)
{
	uint32_t w[5];

	memcpy(w, hdr, sizeof(w));
	return netif_fold((uint64_t)w[0] + w[1] + w[2] + w[3] + w[4]);
}

/** The sum of TCP's pseudo-header (RFC 9293 s3.1). Addresses are in network order. */
static inline uint32_t
netif_sum_pseudo(uint32_t src, uint32_t dst, uint8_t proto, uint16_t len)
{
	return netif_fold((uint64_t)src + dst + rte_cpu_to_be_16(proto) + rte_cpu_to_be_16(len));
}

static inline uint64_t
netif_sum_words(const void *p, unsigned int n)
{
	const uint8_t *b = p;
	uint64_t sum = 0;

	for (unsigned int i = 0; i < n; i++) {
		uint32_t w;

		memcpy(&w, b + 4 * i, sizeof(w));
		sum += w;
	}
	return sum;
}

/** The sum of the pseudo-header of RFC 8200 s8.1. */
static inline uint32_t
netif_sum_pseudo6(const struct weft_ip *src, const struct weft_ip *dst, uint8_t proto, uint32_t len)
{
	return netif_fold(netif_sum_words(src, 4) + netif_sum_words(dst, 4) +
	                  rte_cpu_to_be_32(len) + rte_cpu_to_be_16(proto));
}

#endif /* NETIF_CKSUM_H */
