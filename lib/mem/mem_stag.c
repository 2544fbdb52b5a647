/* SPDX-License-Identifier: BSD-3-Clause */

#include "mem_priv.h"
#include "weft_siphash.h"

/* for the order of a turn, and as many again over both halves: 8 in all */
#define MEM_ROUNDS     4
#define MEM_TURN(half) ((half) / 4 * 3) /* values of a half that one turn uses */

/* ---- The keyed permutation ---- */

/** A permutation of [0, 2^bits): x in, x out. 2 <= bits <= 32. */
static uint32_t
mem_permute(const uint64_t key[2], uint32_t slot, unsigned int bits, uint32_t x)
{
	const unsigned int lo_bits = bits / 2;
	const uint32_t lo_mask = (1U << lo_bits) - 1, hi_mask = (1U << (bits - lo_bits)) - 1;
	uint32_t lo = x & lo_mask, hi = x >> lo_bits;

	/* Unbalanced for odd widths: each round adds a function of one part to the other. */
	for (unsigned int r = 0; r < MEM_ROUNDS; r++) {
		const uint64_t w[2] = {(uint64_t)slot << 32 | r, r & 1 ? lo : hi};
		const uint32_t f = (uint32_t)weft_siphash(key, w, 2, 2, 4);

		if (r & 1)
			hi ^= f & hi_mask;
		else
			lo ^= f & lo_mask;
	}
	return hi << lo_bits | lo;
}

uint32_t
mem_stag_value(const struct weft_mem *m, uint32_t slot, uint64_t use)
{
	const unsigned int bits = 32 - m->index_bits;
	const uint64_t half = 1ULL << (bits - 1), turn = use / MEM_TURN(half);
	const uint64_t key[2] = {m->key[0] ^ (turn + 1) * 0x9e3779b97f4a7c15ULL, m->key[1]};
	uint64_t x = (turn & 1) * half +
	             mem_permute(key, slot, bits - 1, (uint32_t)(use % MEM_TURN(half)));

	return (uint32_t)((uint64_t)mem_permute(m->key, slot, bits, (uint32_t)x) << m->index_bits) |
	       slot;
}

/* ---- Slots ---- */

static inline uint32_t *
mem_free_slot(struct weft_mem *m, uint32_t i)
{
	return &m->free[(m->free_head + i) & m->index_mask];
}

void
mem_give_slot(struct weft_mem *m, uint32_t slot)
{
	*mem_free_slot(m, m->nfree++) = slot;
}

bool
mem_take_slot(struct weft_mem *m, uint32_t *slot)
{
	uint32_t at;

	if (m->nfree == 0)
		return false;
	/* The bias of the modulo does not matter here: secrecy is in the permutation. */
	at = weft_rand_u32(&m->rand) % ((m->nfree + 1) / 2);
	*slot = *mem_free_slot(m, at);
	*mem_free_slot(m, at) = *mem_free_slot(m, 0);
	m->free_head++;
	m->nfree--;
	return true;
}

uint32_t
mem_draw(struct weft_mem *m, uint32_t slot)
{
	uint32_t stag;

	do
		stag = mem_stag_value(m, slot,
		                      __atomic_fetch_add(&m->uses[slot], 1, __ATOMIC_RELAXED));
	while (stag == 0);
	/* The value may have been another registration's. */
	if (weft_mem_is_revoked(m, stag))
		__atomic_store_n(&m->revoked[slot], 0, __ATOMIC_RELAXED);
	return stag;
}

void
weft_mem_set_revoked(struct weft_mem *m, uint32_t stag)
{
	__atomic_store_n(&m->revoked[stag & m->index_mask], stag, __ATOMIC_RELAXED);
}

bool
weft_mem_is_revoked(const struct weft_mem *m, uint32_t stag)
{
	return stag != 0 &&
	       __atomic_load_n(&m->revoked[stag & m->index_mask], __ATOMIC_RELAXED) == stag;
}
