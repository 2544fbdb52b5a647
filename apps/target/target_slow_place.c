/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Which slow operations of a worker are kept, and which ones are logged: no client takes the
 * place of all others. */

#include <string.h>

#include "target_slow.h"

static void
count(atomic_ullong *n)
{
	atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
	                      memory_order_relaxed);
}

uint8_t
slow_class(const struct slow_ring *r, const char *client, const char *peer)
{
	const char *name = client[0] != '\0' ? client : peer;
	const char *end = client[0] != '\0' ? NULL : strrchr(peer, ':');
	const size_t len = end != NULL ? (size_t)(end - name) : strlen(name);
	uint64_t h = r->key;

	for (size_t i = 0; i < len; i++)
		h = ((h ^ (unsigned char)name[i]) * 0x9e3779b97f4a7c15ULL) ^ (h >> 29);
	return (uint8_t)((h ^ (h >> 32)) % SLOW_CLIENTS);
}

/** The oldest operation of those whose class has most; a free place first. The class of the next
 * one has one more already. */
static struct slow_op *
victim(struct slow_ring *r)
{
	struct slow_op *v = NULL;

	for (unsigned int i = 0; i < SLOW_KEPT; i++) {
		struct slow_op *s = &r->ops[i];

		if (s->op == NULL)
			return s;
		if (v == NULL || r->held[s->who] > r->held[v->who] ||
		    (r->held[s->who] == r->held[v->who] && s->number < v->number))
			v = s;
	}
	return v;
}

struct slow_op *
slow_place(struct slow_ring *r, uint8_t who)
{
	struct slow_op *v;

	r->held[who]++;
	v = victim(r);
	if (v->op != NULL) {
		if (v->who == who)
			count(&r->crowded);
		r->held[v->who]--;
	}
	*v = (struct slow_op){.number = atomic_load_explicit(&r->seen, memory_order_relaxed),
	                      .who = who};
	count(&r->seen);
	return v;
}

bool
slow_may_say(struct slow_ring *r, uint8_t who, uint64_t now_ns)
{
	if (r->said_ns[who] != 0 && now_ns - r->said_ns[who] < SLOW_SAY_NS) {
		count(&r->unsaid);
		return false;
	}
	return true;
}

void
slow_said(struct slow_ring *r, uint8_t who, uint64_t now_ns)
{
	r->said_ns[who] = now_ns;
}
