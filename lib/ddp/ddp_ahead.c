/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The ranges of memory that a stream has placed before its turn. */

#include <stdlib.h>

#include "ddp_ahead.h"
#include "weft_mem_find.h"
#include "weft_mem_place.h"
#include "weft_mpa.h"

bool
ddp_ahead_add(struct weft_ddp *d, const struct ddp_ahead_range *added)
{
	struct ddp_ahead *a = d->ahead;
	struct ddp_ahead_range *before = NULL, *behind = NULL;

	if (a == NULL) {
		a = d->ahead = calloc(1, sizeof(*a));
		if (a == NULL)
			return false;
	}
	for (unsigned int i = 0; i < a->n; i++) {
		struct ddp_ahead_range *r = &a->r[i];

		/* TCP dropped the octets, and they have arrived again. */
		if (weft_seq_leq(r->seq, added->seq) && weft_seq_leq(added->end_seq, r->end_seq))
			return true;
		if (r->stag != added->stag || r->access != added->access)
			continue;
		if (r->end_seq == added->seq && r->addr + r->len_bytes == added->addr)
			before = r;
		if (r->seq == added->end_seq && added->addr + added->len_bytes == r->addr)
			behind = r;
	}
	if (before != NULL) {
		before->len_bytes += added->len_bytes;
		before->end_seq = added->end_seq;
		if (behind != NULL) {
			before->len_bytes += behind->len_bytes;
			before->end_seq = behind->end_seq;
			*behind = a->r[--a->n];
		}
	} else if (behind != NULL) {
		behind->addr = added->addr;
		behind->len_bytes += added->len_bytes;
		behind->seq = added->seq;
	} else {
		if (a->n == DDP_AHEAD_RANGES)
			return false;
		a->r[a->n++] = *added;
	}
	return true;
}

/** Whether the stream may still write to the range by its STag. */
static bool
ddp_ahead_stands(const struct weft_ddp *d, const struct ddp_ahead_range *r)
{
	const struct weft_mem_mr *mr = weft_mem_lookup(d->mem, r->stag);
	uint64_t off;

	if (mr == NULL)
		return false;
	off = (uintptr_t)r->addr - (uintptr_t)mr->addr; /* of an address before it: too long */
	return off < weft_mem_len(mr) && weft_mem_check(mr, &d->scope, mr->base_to + off,
	                                                r->len_bytes, r->access) == WEFT_MEM_OK;
}

/** How many of len octets at `at` have one fate. *later: a segment from end_seq on placed them. */
static uint32_t
ddp_ahead_run(const struct weft_ddp *d, const uint8_t *at, uint32_t len, uint32_t end_seq,
              bool *later)
{
	const struct ddp_ahead *a = d->ahead;
	uint32_t n = len;

	*later = false;
	for (unsigned int i = 0; a != NULL && i < a->n; i++) {
		const struct ddp_ahead_range *r = &a->r[i];

		if (weft_seq_lt(r->seq, end_seq) || !ddp_ahead_stands(d, r))
			continue;
		if (at >= r->addr && at < r->addr + r->len_bytes) {
			*later = true;
			return RTE_MIN(len, (uint32_t)(r->addr + r->len_bytes - at));
		}
		if (r->addr > at && (uint64_t)(r->addr - at) < n)
			n = (uint32_t)(r->addr - at);
	}
	return n;
}

static void
ddp_ahead_skip(struct weft_cur *c, uint32_t n)
{
	const uint8_t *p;

	for (uint32_t k; n > 0 && (k = weft_cur_run(c, n, &p)) > 0;)
		n -= k;
}

void
ddp_ahead_place(struct weft_ddp *d, struct weft_mem_mr *mr, uint64_t to, struct weft_cur *c,
                uint32_t len_bytes, uint32_t end_seq)
{
	while (len_bytes > 0) {
		bool later;
		uint32_t n = ddp_ahead_run(d, weft_mem_addr(mr, to), len_bytes, end_seq, &later);

		if (later)
			ddp_ahead_skip(c, n);
		else
			weft_mem_place(mr, to, c, n);
		to += n;
		len_bytes -= n;
	}
}

int
weft_ddp_copy_turn(struct weft_ddp *d, uint8_t *dst, struct weft_cur *c, uint32_t len_bytes)
{
	uint32_t end_seq = weft_mpa_fpdu_seq(d->mpa) + d->mpa->need_bytes;

	if (len_bytes > c->left_bytes)
		return -ENODATA;
	while (len_bytes > 0) {
		bool later;
		uint32_t n = ddp_ahead_run(d, dst, len_bytes, end_seq, &later);

		if (later)
			ddp_ahead_skip(c, n);
		else
			(void)weft_cur_read(c, dst, n);
		dst += n;
		len_bytes -= n;
	}
	return 0;
}

void
ddp_ahead_passed(struct weft_ddp *d, uint32_t seq, uint32_t end_seq, uint32_t len_bytes)
{
	struct ddp_ahead *a = d->ahead;
	unsigned int i = 0;

	if (a == NULL)
		return;
	while (i < a->n) {
		struct ddp_ahead_range *r = &a->r[i];

		if (weft_seq_leq(end_seq, r->seq)) {
			i++;
		} else if (r->seq == seq && len_bytes < r->len_bytes &&
		           weft_seq_lt(end_seq, r->end_seq)) {
			r->addr += len_bytes;
			r->len_bytes -= len_bytes;
			r->seq = end_seq;
			i++;
		} else {
			*r = a->r[--a->n];
		}
	}
	if (a->n == 0) {
		free(a);
		d->ahead = NULL;
	}
}
