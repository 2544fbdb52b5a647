/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file STags: the slots of the table, and the values that a slot gives to its registrations.
 *
 * An STag has, from its high bits to its low ones, a part of perm(slot, use count), the slot, and
 * the other 8 bits of perm, its key. perm is a Feistel network on the bits that the slot leaves.
 * Its round function is SipHash-2-4 under a key that is chosen when the table is
 * created and is tweaked by the slot. So a peer cannot tell in which order a slot takes its values.
 * A bigger table leaves fewer secret bits: 12 at 2^20 regions, 22 at 1024.
 *
 * There are 2^32 STags. At 10^5 registrations a second all have been used after 12 hours, so values
 * are used again. These rules make this safe:
 *
 * - The values of a slot are in two halves, which take turns. A turn uses three quarters of its
 *   half, in an order that is new for each turn. So a value is not used again before three eighths
 *   of the slot's values have been used. A peer that knows all values of a turn still does not know
 *   which value of the last quarter comes next.
 * - A slot that becomes free goes to the end of a queue. The next slot is chosen at random from the
 *   older half of the queue. So the time in which a value is not used is longer by a factor: half
 *   the number of free slots. With 4096 slots, of which 1024 are free, this is 2 * 10^8
 *   registrations, half an hour at 10^5 a second.
 * - An STag is always checked together with a domain (weft_mem_check()). An STag that a peer kept
 *   from an ended stream can name only memory of the domain of its next stream.
 * - A slot is free only when no operation holds its region and every worker has been quiescent. So
 *   no operation under way meets the next registration with the same value.
 *
 * A reserved region (mem_fast.c) keeps its slot and takes its values by the same rules. The
 * consumer of a window may choose its key instead, so that the window's STags differ in the key
 * alone, as those of a kernel device do. A window's STag is for one stream. So what a peer that
 * knows one of them can guess is memory of its own stream's domain.
 */

#include "mem_priv.h"
#include "weft_siphash.h"

/* rounds for the order of a turn, and as many over both halves: 8 in all */
#define MEM_ROUNDS     4
#define MEM_TURN(half) ((half) / 4 * 3) /* values of a half that one turn uses */

/* ---- The keyed permutation ---- */

/** A permutation of [0, 2^bits), 2 <= bits <= 32. */
static uint32_t
mem_permute(const uint64_t key[2], uint32_t slot, unsigned int bits, uint32_t x)
{
	const unsigned int lo_bits = bits / 2;
	const uint32_t lo_mask = (1U << lo_bits) - 1, hi_mask = (1U << (bits - lo_bits)) - 1;
	uint32_t lo = x & lo_mask, hi = x >> lo_bits;

	/* Unbalanced for odd widths: each round adds a function of one part to the other part. */
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

	x = mem_permute(m->key, slot, bits, (uint32_t)x);
	return (uint32_t)(x >> WEFT_MEM_KEY_BITS << (WEFT_MEM_KEY_BITS + m->index_bits)) |
	       slot << WEFT_MEM_KEY_BITS | (uint32_t)(x & ((1u << WEFT_MEM_KEY_BITS) - 1));
}

/* ---- Slots ---- */

static inline uint32_t *
mem_free_slot(struct weft_mem *m, uint32_t i)
{
	return &m->free[(m->free_head + i) & m->t.index_mask];
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
	/* The bias of the modulo does not matter: the secrecy is in the permutation. */
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
		stag = mem_stag_value(
		        m, slot,
		        atomic_fetch_add_explicit(&m->uses[slot], 1, memory_order_relaxed));
	while (stag == 0);
	/* An earlier registration may have had this value. */
	if (weft_mem_is_revoked(m, stag))
		atomic_store_explicit(&m->revoked[slot], 0, memory_order_relaxed);
	return stag;
}

void
weft_mem_set_revoked(struct weft_mem *m, uint32_t stag)
{
	atomic_store_explicit(&m->revoked[weft_mem_slot_of(&m->t, stag)], stag,
	                      memory_order_relaxed);
}

bool
weft_mem_is_revoked(const struct weft_mem *m, uint32_t stag)
{
	return stag != 0 && atomic_load_explicit(&m->revoked[weft_mem_slot_of(&m->t, stag)],
	                                         memory_order_relaxed) == stag;
}
