/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Owners of connections, by buckets of the Toeplitz hash. */

#include "netif_flow.h"

#define FLOW_CONNS_MAX UINT16_MAX
/** Connections that a member may have above its share. */
#define FLOW_SLACK 4

static uint32_t
flow_word(unsigned int owner, uint32_t pin, uint32_t conns)
{
	return (uint32_t)owner << 24 | pin << 16 | conns;
}

static unsigned int
flow_owner(uint32_t w)
{
	return w >> 24;
}

static uint32_t
flow_pin(uint32_t w)
{
	return w >> 16 & UINT8_MAX;
}

static uint32_t
flow_conns(uint32_t w)
{
	return w & UINT16_MAX;
}

/** Time in units of WEFT_FLOW_PIN_NS, modulo 256. 0: never pinned. */
static uint32_t
flow_time(uint64_t now_ns)
{
	return (uint32_t)(now_ns / WEFT_FLOW_PIN_NS) % UINT8_MAX + 1;
}

static bool
flow_pinned(uint32_t w, uint64_t now_ns)
{
	uint32_t pin = flow_pin(w), age = (flow_time(now_ns) + UINT8_MAX - pin) % UINT8_MAX;

	/* A clock that is a little behind the one that set the pin sees an age of -1. */
	return pin != 0 && (age < 2 || age == UINT8_MAX - 1);
}

static _Atomic uint32_t *
flow_bucket(struct netif_flows *fl, uint32_t hash)
{
	return &fl->bucket[hash & (FLOW_BUCKETS - 1)];
}

/** Whether the member has room, and less than one and a half times its share. */
static bool
flow_share(const struct netif_flows *fl, unsigned int member)
{
	uint64_t all = 0, own;

	if (atomic_load_explicit(&fl->count[member].full, memory_order_relaxed))
		return false;
	for (unsigned int i = 0; i < fl->members; i++)
		all += atomic_load_explicit(&fl->count[i].conns, memory_order_relaxed);
	own = atomic_load_explicit(&fl->count[member].conns, memory_order_relaxed);
	return 2 * own * fl->members < 3 * all + 2 * FLOW_SLACK * fl->members;
}

void
netif_flow_init(struct netif_flows *fl, unsigned int members, const uint8_t *reta,
                uint32_t reta_size)
{
	fl->members = members;
	fl->reta = reta;
	fl->reta_mask = reta_size - 1;
	for (uint32_t b = 0; b < FLOW_BUCKETS; b++)
		atomic_init(&fl->bucket[b], flow_word(reta[b & (reta_size - 1)], 0, 0));
}

bool
netif_flow_claim(struct netif_flows *fl, unsigned int member, uint32_t hash, bool mine,
                 uint64_t now_ns)
{
	_Atomic uint32_t *b = flow_bucket(fl, hash);
	uint32_t w = atomic_load_explicit(b, memory_order_relaxed);

	if (flow_conns(w) != 0 || flow_pinned(w, now_ns) || (!mine && !flow_share(fl, member)))
		return false;
	return atomic_compare_exchange_strong_explicit(b, &w, flow_word(member, 0, 0),
	                                               memory_order_relaxed, memory_order_relaxed);
}

unsigned int
netif_flow_keep(struct netif_flows *fl, unsigned int member, uint32_t hash, uint64_t now_ns)
{
	_Atomic uint32_t *b = flow_bucket(fl, hash);
	uint32_t w = atomic_load_explicit(b, memory_order_relaxed);
	unsigned int first = fl->reta[hash & fl->reta_mask];

	if (flow_owner(w) != member || first == member || flow_conns(w) != 0 ||
	    flow_pinned(w, now_ns) || flow_share(fl, member))
		return flow_owner(w);
	return atomic_compare_exchange_strong_explicit(b, &w, flow_word(first, 0, 0),
	                                               memory_order_relaxed, memory_order_relaxed)
	               ? first
	               : flow_owner(w);
}

void
netif_flow_full(struct netif_flows *fl, unsigned int member, bool full)
{
	atomic_store_explicit(&fl->count[member].full, full, memory_order_relaxed);
}

bool
netif_flow_hold(struct netif_flows *fl, unsigned int member, uint32_t hash)
{
	_Atomic uint32_t *b = flow_bucket(fl, hash);
	uint32_t w = atomic_load_explicit(b, memory_order_relaxed);

	do {
		if (flow_owner(w) != member || flow_conns(w) == FLOW_CONNS_MAX)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(b, &w, w + 1, memory_order_relaxed,
	                                                memory_order_relaxed));
	atomic_fetch_add_explicit(&fl->count[member].conns, 1, memory_order_relaxed);
	return true;
}

void
netif_flow_release(struct netif_flows *fl, unsigned int member, uint32_t hash)
{
	/* A bucket with a connection has one writer. */
	atomic_fetch_sub_explicit(flow_bucket(fl, hash), 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&fl->count[member].conns, 1, memory_order_relaxed);
}

bool
netif_flow_pin(struct netif_flows *fl, unsigned int member, uint32_t hash, uint64_t now_ns)
{
	_Atomic uint32_t *b = flow_bucket(fl, hash);
	uint32_t w = atomic_load_explicit(b, memory_order_relaxed);

	do {
		if (flow_owner(w) != member)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
	        b, &w, flow_word(member, flow_time(now_ns), flow_conns(w)), memory_order_relaxed,
	        memory_order_relaxed));
	return true;
}
