/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Memory of connections that are gone goes back to the system. ui_keep_memory() has the
 * allocator keep what is freed, since polling threads must not fault for what calls take and free
 * all the time; what hundreds of connections took at once would be kept, too.
 */

#include <malloc.h>

#include "target.h"

#define MEMORY_CONNS 32 /* so few are not worth it */
#define MEMORY_LOOKS 4  /* of the watch: so long they must have been gone */

void
target_memory_look(struct target *t)
{
	static unsigned int most, looks;
	unsigned int n = atomic_load(&t->nconns);

	if (n > most)
		most = n;
	if (most < MEMORY_CONNS || n > most / 4) {
		looks = 0;
		return;
	}
	if (++looks < MEMORY_LOOKS)
		return;
	/* It holds each arena's lock for milliseconds, so not while the connections are there. */
	(void)malloc_trim(0);
	most = n;
	looks = 0;
}
