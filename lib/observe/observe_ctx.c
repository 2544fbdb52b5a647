/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * weft_ctx_create(): a context that telemetry shows and whose ports may be captured. The engine
 * does not depend on either. It calls the observer when a context is created and destroyed.
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

	return weft_engine_ctx_create(attr, &rand, &observe_all, out);
}
