/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Polls by the kind of their work, which tells what the machine has added to one of them. */

#include <stdio.h>
#include <stdlib.h>

#include <rte_common.h>

#include "bench.h"
#include "slicing.h"

#define KIND_MAX 255u /**< steps, of the octets of one direction */

static uint32_t
kind_steps(uint64_t bytes)
{
	return (uint32_t)RTE_MIN((bytes + KIND_STEP_BYTES - 1) / KIND_STEP_BYTES, KIND_MAX);
}

uint32_t
kind_of(const struct work *w)
{
	return kind_steps(w->rx_bytes) << 16 | kind_steps(w->tx_bytes) << 8 |
	       kind_steps(w->slice_bytes);
}

void
kinds_add(struct kinds *k, const struct work *w, uint64_t ns)
{
	if (k->n == k->room) {
		k->room = k->room == 0 ? 1 << 16 : 2 * k->room;
		k->poll = realloc(k->poll, k->room * sizeof(k->poll[0]));
		if (k->poll == NULL)
			bench_die("no memory");
	}
	k->poll[k->n++] = (uint64_t)kind_of(w) << 32 | RTE_MIN(ns, UINT32_MAX);
	k->sorted = false;
}

static int
kinds_by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/** The kind that begins at i. Returns where the next one begins. */
static size_t
kinds_next(const struct kinds *k, size_t i, struct kind *out)
{
	size_t end = i;

	out->kind = (uint32_t)(k->poll[i] >> 32);
	while (end < k->n && k->poll[end] >> 32 == out->kind)
		end++;
	out->n = end - i;
	out->p50_us = (uint32_t)k->poll[i + out->n / 2] / 1e3;
	out->p90_us = (uint32_t)k->poll[i + out->n * 9 / 10] / 1e3;
	return end;
}

static void
kinds_sort(struct kinds *k)
{
	if (!k->sorted && k->n > 0)
		qsort(k->poll, k->n, sizeof(k->poll[0]), kinds_by_value);
	k->sorted = true;
}

struct kind
kinds_find(struct kinds *k, uint32_t kind)
{
	struct kind found = {0};

	kinds_sort(k);
	for (size_t i = 0; i < k->n && found.kind != kind;)
		i = kinds_next(k, i, &found);
	return found;
}

struct kind
kinds_heaviest(struct kinds *k)
{
	struct kind best = {0}, one;

	kinds_sort(k);
	for (size_t i = 0; i < k->n;) {
		i = kinds_next(k, i, &one);
		if (one.n >= KIND_LEAST && one.p50_us > best.p50_us)
			best = one;
	}
	return best;
}

const char *
kind_text(uint32_t kind, char buf[KIND_TEXT])
{
	snprintf(buf, KIND_TEXT, "received %u KiB, sent %u, hashed or written back %u",
	         (kind >> 16 & 255) * KIND_STEP_BYTES / 1024,
	         (kind >> 8 & 255) * KIND_STEP_BYTES / 1024, (kind & 255) * KIND_STEP_BYTES / 1024);
	return buf;
}
