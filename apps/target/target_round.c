/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A function on each worker, for which the program's thread waits. */

#include <errno.h>
#include <unistd.h>

#include "target.h"
#include "target_round.h"

bool
target_round(struct target *t, void *parts, size_t bytes, void (*fn)(void *part))
{
	atomic_uint left;
	bool ok = true;
	int rc;

	atomic_init(&left, t->stack.nworkers);
	for (uint32_t i = 0; i < t->stack.nworkers; i++) {
		struct target_round *r = (void *)((char *)parts + i * bytes);

		r->left = &left;
		r->ok = false;
		if (!t->running) {
			fn(r);
			continue;
		}
		while ((rc = weft_worker_call(t->stack.workers[i], fn, r)) == -EAGAIN)
			usleep(1000);
		if (rc != 0)
			atomic_fetch_sub_explicit(&left, 1, memory_order_relaxed);
	}
	while (atomic_load_explicit(&left, memory_order_acquire) > 0)
		usleep(1000);
	for (uint32_t i = 0; i < t->stack.nworkers; i++)
		ok = ok && ((struct target_round *)(void *)((char *)parts + i * bytes))->ok;
	return ok;
}
