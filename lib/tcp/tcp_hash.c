/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Keyed hashing: SipHash over 64-bit words, and initial sequence numbers (RFC 6528). */

#include "tcp_priv.h"

static inline uint64_t
rotl(uint64_t x, unsigned int n)
{
	return x << n | x >> (64 - n);
}

static inline void
sip_rounds(uint64_t v[4], unsigned int n)
{
	while (n-- > 0) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotl(v[1], 13) ^ v[0];
		v[3] = rotl(v[3], 16) ^ v[2];
		v[0] = rotl(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotl(v[1], 17) ^ v[2];
		v[3] = rotl(v[3], 21) ^ v[0];
		v[2] = rotl(v[2], 32);
	}
}

/** SipHash-crounds-drounds of n whole words: the published function for inputs of 8n octets. */
uint64_t
tcp_siphash(const uint64_t key[2], const uint64_t *w, unsigned int n, unsigned int crounds,
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
		sip_rounds(v, crounds);
		v[0] ^= w[i];
	}
	v[3] ^= last;
	sip_rounds(v, crounds);
	v[0] ^= last;
	v[2] ^= 0xff;
	sip_rounds(v, drounds);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static unsigned int
tcp_tuple_words(uint64_t w[5], const struct weft_ip *local, uint16_t local_port,
                const struct weft_ip *remote, uint16_t remote_port)
{
	uint64_t ports = (uint64_t)local_port << 16 | remote_port;

	if (weft_ip_is_v4(local) && weft_ip_is_v4(remote)) {
		w[0] = (uint64_t)weft_ip_v4(local) << 32 | weft_ip_v4(remote);
		w[1] = ports;
		return 2;
	}
	memcpy(&w[0], local->b, 16);
	memcpy(&w[2], remote->b, 16);
	w[4] = ports;
	return 5;
}

uint64_t
tcp_tuple_hash(const struct weft_tcp *t, const struct weft_ip *local, uint16_t local_port,
               const struct weft_ip *remote, uint16_t remote_port)
{
	uint64_t w[5];
	unsigned int n = tcp_tuple_words(w, local, local_port, remote, remote_port);

	/* SipHash-1-3 is what hash tables need; it runs once per received segment. */
	return tcp_siphash(t->hash_key, w, n, 1, 3);
}

/** ISN = M + F(local, remote, key), M a clock of 4 microseconds (RFC 6528 s3). */
uint32_t
tcp_isn(const struct weft_tcp_conn *c, uint64_t now_ns)
{
	uint64_t w[5];
	unsigned int n = tcp_tuple_words(w, &c->local, c->local_port, &c->remote, c->remote_port);

	return (uint32_t)(now_ns / 4000) + (uint32_t)tcp_siphash(c->t->isn_key, w, n, 2, 4);
}
