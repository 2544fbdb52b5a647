/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Sets of values for each octet of a volume. */

#include <stdlib.h>

#include "target_model.h"
#include "weft_test.h"

static uint64_t
bit(uint8_t value)
{
	return value < 64 ? 1ULL << value : 0;
}

void
model_open(struct model *m, uint64_t bytes)
{
	*m = (struct model){.bytes = bytes,
	                    .seen = calloc(bytes, sizeof(*m->seen)),
	                    .held = calloc(bytes, sizeof(*m->held))};
	CHECK(m->seen != NULL && m->held != NULL);
	for (uint64_t at = 0; at < bytes; at++)
		m->seen[at] = m->held[at] = bit(0);
}

void
model_close(struct model *m)
{
	free(m->seen);
	free(m->held);
}

void
model_begin(struct model *m, uint64_t off, uint64_t len, uint8_t value)
{
	for (uint64_t at = off; at < off + len; at++) {
		m->seen[at] |= bit(value);
		m->held[at] |= bit(value);
	}
}

void
model_done(struct model *m, uint64_t off, uint64_t len, uint8_t value, bool durable)
{
	for (uint64_t at = off; at < off + len; at++) {
		m->seen[at] = bit(value);
		if (durable)
			m->held[at] = bit(value);
	}
}

void
model_flushed(struct model *m, uint64_t off, uint64_t len)
{
	for (uint64_t at = off; at < off + len; at++)
		m->held[at] = m->seen[at];
}

void
model_lost(struct model *m, uint64_t off, uint64_t len)
{
	for (uint64_t at = off; at < off + len; at++)
		m->seen[at] |= m->held[at];
}

static void
model_check(struct model *m, uint64_t at, uint8_t is, uint64_t may)
{
	if ((bit(is) & may) != 0)
		return;
	if (m->wrong++ == 0)
		m->wrong_at = at;
}

void
model_read(struct model *m, uint64_t off, const uint8_t *is, uint64_t len)
{
	for (uint64_t at = off; at < off + len; at++)
		model_check(m, at, is[at - off], m->seen[at] | (m->lossy ? m->held[at] : 0));
}

void
model_medium(struct model *m, uint64_t off, const uint8_t *is, uint64_t len)
{
	for (uint64_t at = off; at < off + len; at++)
		model_check(m, at, is[at - off], m->held[at]);
}

bool
model_expect(const struct model *m, uint64_t off, uint8_t *to, uint64_t len, bool medium)
{
	bool one = true;

	for (uint64_t at = off; at < off + len; at++) {
		const uint64_t may = m->seen[at] | (medium ? m->held[at] : 0);

		to[at - off] = (uint8_t)__builtin_ctzll(may);
		one = one && (may & (may - 1)) == 0;
	}
	return one;
}
