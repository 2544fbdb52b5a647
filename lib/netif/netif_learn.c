/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Elimination over GF(2): the hash of a tuple from the hashes of other tuples. */

#include <string.h>

#include "netif_learn.h"

#define LEARN_PAUSE     1024 /**< SYNs until the next try; doubled by each failure */
#define LEARN_PAUSE_MAX (1024u << 10)
#define LEARN_CONSTANT                                                                             \
	(UINT64_C(1) << 63) /**< in the last word: hashes may begin with a constant */

static bool
learn_take(struct netif_learn *l)
{
	return !atomic_flag_test_and_set_explicit(&l->busy, memory_order_acquire);
}

static void
learn_give(struct netif_learn *l)
{
	atomic_flag_clear_explicit(&l->busy, memory_order_release);
}

static void
learn_words(const struct netif_learn_tuple *t, uint64_t w[LEARN_WORDS])
{
	memset(w, 0, LEARN_WORDS * sizeof(w[0]));
	memcpy(w, t->b, t->bytes);
	w[LEARN_WORDS - 1] |= LEARN_CONSTANT;
}

/**
 * Subtracts rows from w, and their values from *value, until w is 0 or begins with a bit that no
 * row begins with. Returns this bit, or -1.
 */
static int
learn_reduce(const struct learn_family *f, uint64_t w[LEARN_WORDS], uint32_t *value)
{
	for (unsigned int i = 0; i < LEARN_WORDS; i++)
		while (w[i] != 0) {
			int bit = (int)(64 * i) + __builtin_ctzll(w[i]);
			const struct learn_row *r = &f->row[bit];

			if (r->t[i] == 0)
				return bit;
			for (unsigned int k = i; k < LEARN_WORDS; k++)
				w[k] ^= r->t[k];
			*value ^= r->value;
		}
	return -1;
}

/** Goes on to the next kind, without any row. */
static void
learn_forget(struct learn_family *f)
{
	memset(f->row, 0, sizeof(f->row));
	f->kind = f->kind == LEARN_NOT ? LEARN_HASH : (enum learn_kind)(f->kind + 1);
	if (f->kind != LEARN_NOT)
		return;
	f->pause = f->pause == 0                 ? LEARN_PAUSE
	           : f->pause >= LEARN_PAUSE_MAX ? LEARN_PAUSE_MAX
	                                         : 2 * f->pause;
	f->skip = f->pause;
}

static bool
learn_add(struct netif_learn *l, struct learn_family *f, const struct netif_learn_tuple *t,
          const struct netif_learn_seen *seen)
{
	uint64_t w[LEARN_WORDS];
	uint32_t value;
	int bit;

	if (f->kind == LEARN_NOT) {
		if (--f->skip == 0)
			learn_forget(f);
		return false;
	}
	/* The table of a port that tells hashes may be another one than it reports. */
	if (f->kind == LEARN_HASH &&
	    (!seen->told || l->reta[seen->hash & l->reta_mask] != seen->queue))
		learn_forget(f);
	value = f->kind == LEARN_HASH ? seen->hash : seen->queue;
	learn_words(t, w);
	bit = learn_reduce(f, w, &value);
	if (bit >= 0) {
		memcpy(f->row[bit].t, w, sizeof(w));
		f->row[bit].value = value;
		return false;
	}
	if (value == 0)
		return false;
	learn_forget(f);
	return true;
}

void
netif_learn_init(struct netif_learn *l, const uint8_t *reta, uint32_t reta_size)
{
	memset(l, 0, sizeof(*l));
	atomic_flag_clear_explicit(&l->busy, memory_order_relaxed);
	memcpy(l->reta, reta, reta_size);
	l->reta_mask = reta_size - 1;
}

bool
netif_learn_add(struct netif_learn *l, const struct netif_learn_tuple *t,
                const struct netif_learn_seen *seen)
{
	bool wrong;

	if (!learn_take(l))
		return false;
	wrong = learn_add(l, &l->family[t->bytes == 12 ? 0 : 1], t, seen);
	learn_give(l);
	return wrong;
}

int
netif_learn_queue(struct netif_learn *l, const struct netif_learn_tuple *t)
{
	const struct learn_family *f = &l->family[t->bytes == 12 ? 0 : 1];
	uint64_t w[LEARN_WORDS];
	uint32_t value = 0;
	int queue = -1;

	learn_words(t, w);
	if (!learn_take(l))
		return -1;
	if (f->kind != LEARN_NOT && learn_reduce(f, w, &value) < 0)
		queue = f->kind == LEARN_HASH ? l->reta[value & l->reta_mask] : (int)value;
	learn_give(l);
	return queue;
}
