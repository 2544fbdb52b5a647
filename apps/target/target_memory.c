/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Memory of connections, calls and answers that are gone goes back to the system.
 * ui_keep_memory() has the allocator keep what is freed, since polling threads must not fault for
 * what calls take and free all the time; what hundreds of connections, or many long answers, took
 * at once would be kept, too.
 */

#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "target.h"

#define MEMORY_CONNS 32           /* who has more is at work */
#define MEMORY_BYTES (4ull << 20) /* of calls and answers: likewise */
#define MEMORY_GREW  (8ull << 20) /* less is not worth it */
#define MEMORY_LOOKS 4            /* of the watch: so long it must have been quiet */

/** What calls and answers hold now, of all workers. */
static uint64_t
memory_held(const struct target *t)
{
	struct weft_rpc_budget_info info;
	uint64_t n = 0;

	for (uint32_t i = 0; i < t->stack.nworkers; i++) {
		weft_rpc_budget_info(t->workers[i].budget, &info);
		n += info.held_bytes;
	}
	return n;
}

/** Memory that is resident and no file's; 0: it cannot be told. */
static uint64_t
memory_resident(void)
{
	unsigned long long size, resident, shared;
	FILE *f = fopen("/proc/self/statm", "re");
	int n = 0;

	if (f != NULL) {
		n = fscanf(f, "%llu %llu %llu", &size, &resident, &shared);
		fclose(f);
	}
	return n == 3 && resident > shared ? (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE)
	                                   : 0;
}

void
target_memory_look(struct target *t)
{
	static uint64_t most_conns, least;
	static unsigned int looks;
	uint64_t conns = atomic_load(&t->nconns), now;

	if (least == 0)
		least = memory_resident(); /* before anybody came, or nearly so */
	if (conns > most_conns)
		most_conns = conns;
	if (memory_held(t) >= MEMORY_BYTES || (conns >= MEMORY_CONNS && conns > most_conns / 4)) {
		looks = 0;
		return;
	}
	if (++looks < MEMORY_LOOKS)
		return;
	looks = 0;
	/* What came and went between two looks has left its mark here all the same. */
	now = memory_resident();
	if (now < least)
		least = now;
	if (now < least + MEMORY_GREW)
		return;
	/* It holds the allocator's lock for milliseconds, so not while connections are at work. */
	(void)malloc_trim(0);
	least = memory_resident();
	most_conns = conns;
}
