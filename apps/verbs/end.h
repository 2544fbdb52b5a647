/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_END_H
#define WEFT_APPS_VERBS_END_H

/**
 * @file The end of the process by _exit() or _Exit(), which run no handlers of exit().
 *
 * A signal handler may make these calls, even one that has interrupted malloc(). So another thread,
 * which sleeps until then, lets the connections send what they have; the calling thread only waits.
 */

#include <stdint.h>

/** How long connections may send at the end of the process. */
#define WV_END_DRAIN_NS (1000 * 1000 * 1000ULL)

/**
 * Start that thread, once, by a thread that has all signals blocked, when the port is open. drain:
 * as in struct wv_engine_hooks. Without memory there is no such thread, and the calls end the
 * process at once.
 */
void wv_end_start(void (*drain)(uint64_t end_ns));

#endif /* WEFT_APPS_VERBS_END_H */
