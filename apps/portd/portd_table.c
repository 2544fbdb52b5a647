/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The owner table. */

#include "portd_table.h"

#include <errno.h>
#include <stdlib.h>

#define TABLE_PORTS 65536U

enum table_kind {
	TABLE_FREE, /**< or dead */
	TABLE_LEFT, /**< likewise, and it was in a block */
	TABLE_CLAIMED,
	TABLE_BLOCK,
};

struct table_proc {
	bool here;
	uint32_t claims, blocks;
	uint32_t touched;              /**< blocks in which it has claims */
	uint8_t claimed[PORTD_BLOCKS]; /**< its claims in each of them */
};

struct portd_table {
	struct portd_table_attr attr;
	struct table_proc proc[PORTD_TABLE_PROCS];
	uint32_t nprocs;     /**< that are here */
	uint32_t next_block; /**< where the search begins: a block that was left rests long */
	/* Pages of ports that are not used are never touched. */
	uint8_t kind[TABLE_PORTS];
	uint64_t dead_until_ns[TABLE_PORTS];
	/** process + 1; 0: none. The order of no other memory depends on it. */
	_Atomic uint16_t owner[TABLE_PORTS];
};

int
portd_table_create(const struct portd_table_attr *attr, struct portd_table **out)
{
	struct portd_table *t;

	if (attr->max_blocks == 0)
		return -EINVAL;
	t = calloc(1, sizeof(*t));
	if (t == NULL)
		return -ENOMEM;
	t->attr = *attr;
	*out = t;
	return 0;
}

void
portd_table_destroy(struct portd_table *t)
{
	free(t);
}

static bool
table_is_here(const struct portd_table *t, uint32_t proc)
{
	return proc < PORTD_TABLE_PROCS && t->proc[proc].here;
}

static void
table_give(struct portd_table *t, uint32_t port, uint32_t proc, enum table_kind kind)
{
	t->kind[port] = (uint8_t)kind;
	atomic_store_explicit(&t->owner[port], (uint16_t)(proc + 1), memory_order_relaxed);
}

static void
table_take(struct portd_table *t, uint32_t port, uint64_t dead_until_ns)
{
	atomic_store_explicit(&t->owner[port], 0, memory_order_relaxed);
	t->kind[port] = t->kind[port] == TABLE_BLOCK ? TABLE_LEFT : TABLE_FREE;
	t->dead_until_ns[port] = dead_until_ns;
}

static bool
table_has_owner(const struct portd_table *t, uint32_t port)
{
	return t->kind[port] == TABLE_CLAIMED || t->kind[port] == TABLE_BLOCK;
}

static bool
table_is_free(const struct portd_table *t, uint32_t port, uint64_t now_ns)
{
	return !table_has_owner(t, port) && now_ns >= t->dead_until_ns[port];
}

static bool
table_block_is_free(const struct portd_table *t, uint32_t first, uint64_t now_ns)
{
	for (uint32_t i = 0; i < PORTD_BLOCK_PORTS; i++)
		if (!table_is_free(t, first + i, now_ns))
			return false;
	return true;
}

/** Whether a block is free that is not kept for a process that may still come. */
static bool
table_may_take(const struct portd_table *t, uint64_t now_ns)
{
	const uint32_t kept = t->attr.max_procs > t->nprocs ? t->attr.max_procs - t->nprocs : 0;
	uint32_t n = 0;

	for (uint32_t b = 0; b < PORTD_BLOCKS && n <= kept; b++)
		n += table_block_is_free(t, PORTD_DYNAMIC_FIRST + b * PORTD_BLOCK_PORTS, now_ns);
	return n > kept;
}

/** The block of a dynamic port; PORTD_BLOCKS: it is another port. */
static uint32_t
table_block_of(uint32_t port)
{
	return port >= PORTD_DYNAMIC_FIRST ? (port - PORTD_DYNAMIC_FIRST) / PORTD_BLOCK_PORTS
	                                   : PORTD_BLOCKS;
}

/** The first port of a free block; 0: none. */
static uint32_t
table_find_block(struct portd_table *t, uint64_t now_ns)
{
	for (uint32_t i = 0; i < PORTD_BLOCKS; i++) {
		const uint32_t b = (t->next_block + i) % PORTD_BLOCKS;
		const uint32_t first = PORTD_DYNAMIC_FIRST + b * PORTD_BLOCK_PORTS;

		if (!table_block_is_free(t, first, now_ns))
			continue;
		t->next_block = (b + 1) % PORTD_BLOCKS;
		return first;
	}
	return 0;
}

static int
table_block(struct portd_table *t, uint32_t proc, uint64_t now_ns, uint16_t *first, uint16_t *last)
{
	const uint32_t at = table_find_block(t, now_ns);

	if (at == 0)
		return -ENOSPC;
	for (uint32_t i = 0; i < PORTD_BLOCK_PORTS; i++)
		table_give(t, at + i, proc, TABLE_BLOCK);
	t->proc[proc].blocks++;
	*first = (uint16_t)at;
	*last = (uint16_t)(at + PORTD_BLOCK_PORTS - 1);
	return 0;
}

int
portd_table_more(struct portd_table *t, uint32_t proc, uint64_t now_ns, uint16_t *first,
                 uint16_t *last)
{
	if (!table_is_here(t, proc))
		return -EINVAL;
	if (t->proc[proc].blocks + t->proc[proc].touched >= t->attr.max_blocks)
		return -ENOSPC;
	return table_may_take(t, now_ns) ? table_block(t, proc, now_ns, first, last) : -ENOSPC;
}

int
portd_table_join(struct portd_table *t, uint32_t proc, uint64_t now_ns, uint16_t *first,
                 uint16_t *last)
{
	int rc;

	if (proc >= PORTD_TABLE_PROCS)
		return -EINVAL;
	if (t->proc[proc].here)
		return -EALREADY;
	t->proc[proc] = (struct table_proc){.here = true};
	rc = table_block(t, proc, now_ns, first, last);
	if (rc == 0)
		t->nprocs++;
	else
		t->proc[proc].here = false;
	return rc;
}

void
portd_table_leave(struct portd_table *t, uint32_t proc, uint64_t now_ns)
{
	if (!table_is_here(t, proc))
		return;
	for (uint32_t port = 0; port < TABLE_PORTS; port++)
		if (portd_table_owner(t, (uint16_t)port) == proc)
			table_take(t, port, now_ns + t->attr.dead_ns);
	t->proc[proc] = (struct table_proc){0};
	t->nprocs--;
}

int
portd_table_claim(struct portd_table *t, uint32_t proc, uint16_t port, uint64_t now_ns)
{
	const uint32_t b = table_block_of(port);
	struct table_proc *p;

	if (!table_is_here(t, proc) || port == 0)
		return -EINVAL;
	if (portd_table_owner(t, port) == proc)
		return 0;
	/* A dead port, too: a server may be started again at once. What its peers still send
	 * belongs to no connection of the new process, which answers with RST. */
	if (table_has_owner(t, port) ||
	    (t->kind[port] == TABLE_LEFT && !table_is_free(t, port, now_ns)))
		return -EADDRINUSE;
	p = &t->proc[proc];
	if (p->claims >= t->attr.max_claims)
		return -ENOSPC;
	if (b < PORTD_BLOCKS && p->claimed[b] == 0) {
		const uint32_t first = PORTD_DYNAMIC_FIRST + b * PORTD_BLOCK_PORTS;

		if (p->blocks + p->touched >= t->attr.max_blocks ||
		    (table_block_is_free(t, first, now_ns) && !table_may_take(t, now_ns)))
			return -ENOSPC;
		p->touched++;
	}
	if (b < PORTD_BLOCKS)
		p->claimed[b]++;
	table_give(t, port, proc, TABLE_CLAIMED);
	p->claims++;
	return 0;
}

int
portd_table_release(struct portd_table *t, uint32_t proc, uint16_t port)
{
	if (!table_is_here(t, proc))
		return -EINVAL;
	if (portd_table_owner(t, port) != proc)
		return -ENOENT;
	if (t->kind[port] == TABLE_CLAIMED) {
		const uint32_t b = table_block_of(port);

		table_take(t, port, t->dead_until_ns[port]);
		t->proc[proc].claims--;
		if (b < PORTD_BLOCKS && --t->proc[proc].claimed[b] == 0)
			t->proc[proc].touched--;
	}
	return 0;
}

uint32_t
portd_table_owner(const struct portd_table *t, uint16_t port)
{
	const uint16_t o = atomic_load_explicit(&t->owner[port], memory_order_relaxed);

	return o == 0 ? PORTD_NO_PROC : o - 1U;
}

void
portd_table_has(const struct portd_table *t, uint32_t proc, uint32_t *claims, uint32_t *blocks)
{
	*claims = proc < PORTD_TABLE_PROCS ? t->proc[proc].claims : 0;
	*blocks = proc < PORTD_TABLE_PROCS ? t->proc[proc].blocks : 0;
}

bool
portd_table_dead(const struct portd_table *t, uint16_t port, uint64_t now_ns)
{
	return !table_has_owner(t, port) && now_ns < t->dead_until_ns[port];
}
