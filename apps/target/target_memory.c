/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Memory of connections, calls and answers that are gone goes back to the system.
 * ui_keep_memory() has the allocator keep what is freed, since polling threads must not fault for
 * what calls take and free all the time; what hundreds of connections, or many long answers, took
 * at once would be kept, too.
 */

#include <malloc.h>

#include "target.h"

#define MEMORY_CONNS 32            /* so few are not worth it */
#define MEMORY_BYTES (16ull << 20) /* of calls and answers: likewise */
#define MEMORY_LOOKS 4             /* of the watch: so long they must have been gone */

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

/** Whether there was much, and little of it is left. */
static bool
memory_fell(uint64_t *most, uint64_t now, uint64_t worth)
{
	if (now > *most)
		*most = now;
	return *most >= worth && now <= *most / 4;
}

void
target_memory_look(struct target *t)
{
	static uint64_t most_conns, most_bytes;
	static unsigned int looks;
	uint64_t conns = atomic_load(&t->nconns), bytes = memory_held(t);
	bool fell = memory_fell(&most_conns, conns, MEMORY_CONNS);

	if (!memory_fell(&most_bytes, bytes, MEMORY_BYTES) && !fell) {
		looks = 0;
		return;
	}
	if (++looks < MEMORY_LOOKS)
		return;
	/* It holds each arena's lock for milliseconds, so not while the connections are there. */
	(void)malloc_trim(0);
	most_conns = conns;
	most_bytes = bytes;
	looks = 0;
}
