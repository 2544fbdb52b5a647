/* SPDX-License-Identifier: BSD-3-Clause */
/** @file How long the memory of a context lives. */

#include "device.h"

#include <pthread.h>
#include <stdlib.h>

void
wv_context_hold(struct ibv_context *context)
{
	atomic_fetch_add_explicit(&wv_context(context)->users, 1, memory_order_relaxed);
}

void
wv_context_put(struct ibv_context *context)
{
	struct wv_context *c = wv_context(context);

	if (atomic_fetch_sub_explicit(&c->users, 1, memory_order_acq_rel) > 1)
		return;
	wv_fdq_fini(&c->async);
	pthread_mutex_destroy(&context->mutex);
	free(c);
}
