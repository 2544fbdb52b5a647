/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The places of a connection's messages (volume_place.h). */

#include "volume_place.h"

#define ROUNDS 4

bool
volume_place_share(struct volume_place *p, uint64_t range_off_bytes, uint64_t range_bytes,
                   uint64_t unit_bytes, uint32_t lane, uint32_t lanes)
{
	const uint64_t units = range_bytes / lanes / unit_bytes;

	p->from_bytes = range_off_bytes + lane * units * unit_bytes;
	p->n = units * (unit_bytes / p->size_bytes);
	return units > 0;
}

/** The finalizer of splitmix64. */
static uint64_t
place_hash(uint64_t v)
{
	v += 0x9e3779b97f4a7c15ull;
	v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9ull;
	v = (v ^ v >> 27) * 0x94d049bb133111ebull;
	return v ^ v >> 31;
}

/** A permutation of the numbers below n (a Feistel network; what is beyond n is permuted again). */
static uint64_t
place_permute(uint64_t i, uint64_t n, uint64_t key)
{
	unsigned int half = 1;
	uint64_t mask;

	while (half < 31 && (1ull << 2 * half) < n)
		half++;
	mask = (1ull << half) - 1;
	do {
		uint64_t a = i >> half, b = i & mask;

		for (unsigned int k = 0; k < ROUNDS; k++) {
			const uint64_t next = a ^ (place_hash(b ^ (key + k)) & mask);

			a = b;
			b = next;
		}
		i = a << half | b;
	} while (i >= n);
	return i;
}

uint64_t
volume_place_at(const struct volume_place *p, uint64_t seq)
{
	uint64_t i = seq % p->n;

	if (p->random)
		i = place_permute(i, p->n, place_hash(p->seed ^ p->from_bytes) + seq / p->n);
	return p->from_bytes + i * p->size_bytes;
}
