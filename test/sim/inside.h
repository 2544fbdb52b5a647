/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef INSIDE_H
#define INSIDE_H

/** @file What tests see of a whole stack behind its public handles. */

#include "weft_vworker.h"

static inline struct weft_mem *
inside_mem(struct weft_ctx *ctx)
{
	return weft_vctx_of(ctx)->mem;
}

static inline struct weft_sched *
inside_sched(struct weft_worker *w)
{
	return &weft_vworker_of(w)->sched;
}

#endif /* INSIDE_H */
