/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The public way to a context: one that telemetry tells of, and whose ports may be captured. The
 * engine knows nothing of either; it says when a context is there and when it goes.
 */

#include "observe_priv.h"

static const struct weft_engine_observer observe_all = {
        .made = observe_telemetry_add,
        .ends = observe_telemetry_del,
        .port_ends = observe_capture_end,
};

int
weft_ctx_create(const struct weft_ctx_attr *attr, struct weft_ctx **out)
{
	static const struct weft_rand rand = {.fill = weft_rand_system};

	return weft_engine_ctx_create_for(attr, &rand, &observe_all, out);
}
