/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Rate limits of answers to hosts without a connection. */

#include "weft_answers.h"

#include <string.h>

#include "weft_base.h"
#include "weft_siphash.h"

/** A limit between half of `mean` and one and a half of it, drawn by `hash`; at least 1. */
static uint32_t
answers_draw(uint64_t hash, uint32_t mean)
{
	uint64_t most = mean / 2 + (hash >> 32) % mean;

	return most > 0 ? (uint32_t)most : 1;
}

/** Keyed hash of the peer w in second s. w of zero stands for all peers: no packet has that source.
 */
static uint64_t
answers_hash(const uint64_t key[2], const uint64_t w[2], uint64_t s)
{
	const uint64_t in[3] = {w[0], w[1], s};

	return weft_siphash(key, in, 3, 2, 4);
}

/**
 * The counter of the peer in this second. When other peers of this second use all ways of the set,
 * the peer shares one of their counters.
 */
static struct weft_answers_peer *
answers_place(struct weft_answers *a, uint64_t hash, uint32_t s)
{
	struct weft_answers_peer *set = a->peer[hash % WEFT_ANSWERS_SETS], *free = NULL;

	for (unsigned int i = 0; i < WEFT_ANSWERS_WAYS; i++) {
		if (set[i].s != s)
			free = &set[i];
		else if (set[i].tag == hash)
			return &set[i];
	}
	if (free == NULL)
		return &set[hash / WEFT_ANSWERS_SETS % WEFT_ANSWERS_WAYS];
	*free = (struct weft_answers_peer){.tag = hash, .s = s};
	return free;
}

bool
weft_answers_take(struct weft_answers *a, const uint64_t key[2], const struct weft_ip *ip,
                  uint32_t per_s, uint64_t now_ns)
{
	static const uint64_t all[2];
	const struct weft_ip peer = weft_ip_peer(ip);
	const uint64_t s = now_ns / WEFT_NS_PER_S + 1;
	const uint32_t of_peer = per_s > WEFT_ANSWERS_PEERS ? per_s / WEFT_ANSWERS_PEERS : 1;
	struct weft_answers_peer *p;
	uint64_t w[2], hash;

	memcpy(w, peer.b, sizeof(w));
	hash = answers_hash(key, w, s);
	p = answers_place(a, hash, (uint32_t)s);
	if (a->all_s != s) {
		a->all_s = s;
		a->all_n = 0;
		a->all_max = answers_draw(answers_hash(key, all, s), per_s);
	}
	if (p->n >= answers_draw(hash, of_peer) || a->all_n >= a->all_max)
		return false;
	p->n++;
	a->all_n++;
	return true;
}

uint32_t
weft_answers_taken(const struct weft_answers *a, uint64_t now_ns)
{
	return a->all_s == now_ns / WEFT_NS_PER_S + 1 ? a->all_n : 0;
}
