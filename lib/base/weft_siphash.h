/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_SIPHASH_H
#define WEFT_SIPHASH_H

/**
 * @file
 * SipHash over 64-bit words. It is the keyed hash for tables whose keys a peer chooses, and for
 * numbers that a peer must not predict. Pure functions; any thread.
 */

#include <stdint.h>

static inline uint64_t
weft_sip_rotl(uint64_t x, unsigned int n)
{
	return x << n | x >> (64 - n);
}

static inline void
weft_sip_rounds(uint64_t v[4], unsigned int n)
{
	while (n-- > 0) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = weft_sip_rotl(v[1], 13) ^ v[0];
		v[3] = weft_sip_rotl(v[3], 16) ^ v[2];
		v[0] = weft_sip_rotl(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = weft_sip_rotl(v[1], 17) ^ v[2];
		v[3] = weft_sip_rotl(v[3], 21) ^ v[0];
		v[2] = weft_sip_rotl(v[2], 32);
	}
}

/**
 * SipHash-crounds-drounds of n words: the published function for an input of 8n octets. Use 1-3
 * for hash tables, and 2-4 for values that a peer sees.
 */
static inline uint64_t
weft_siphash(const uint64_t key[2], const uint64_t *w, unsigned int n, unsigned int crounds,
             unsigned int drounds)
{
	uint64_t v[4] = {
	        key[0] ^ 0x736f6d6570736575ULL,
	        key[1] ^ 0x646f72616e646f6dULL,
	        key[0] ^ 0x6c7967656e657261ULL,
	        key[1] ^ 0x7465646279746573ULL,
	};
	uint64_t last = (uint64_t)(8 * n & 0xff) << 56;

	for (unsigned int i = 0; i < n; i++) {
		v[3] ^= w[i];
		weft_sip_rounds(v, crounds);
		v[0] ^= w[i];
	}
	v[3] ^= last;
	weft_sip_rounds(v, crounds);
	v[0] ^= last;
	v[2] ^= 0xff;
	weft_sip_rounds(v, drounds);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif /* WEFT_SIPHASH_H */
