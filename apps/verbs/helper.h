/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_HELPER_H
#define WEFT_APPS_VERBS_HELPER_H

/**
 * @file The helper thread: it polls the worker while the program does not.
 *
 * While the program polls by itself, the helper only looks from time to time whether that is still
 * so. When the program is about to sleep in a call that this library knows, the helper takes over
 * at once. A program that waits for a change of memory gives no sign: the helper finds out when it
 * looks next, and then stays for as long as packets come while the program makes no call.
 */

#include <stdbool.h>
#include <stdint.h>

/** What the helper asks the sources above it. */
struct wv_helper_hooks {
	/** whether hold() may say so; any time */
	bool (*may_hold)(void);
	/** whether not to poll now, so that the program can catch up; signs: changes with each poll
	 * of the program. Under the engine's lock */
	bool (*hold)(uint64_t now_ns, uint64_t signs);
};

/** The helper's loop; it does not return. ncpus: that the process may use. */
void wv_helper_run(unsigned int ncpus, const struct wv_helper_hooks *hooks);
/** Whether the calling thread is the helper: what it does is no sign of the program. */
bool wv_helper_is_me(void);
/**
 * The alarm that runs is no sign of traffic: it does not keep the helper awake. Under the engine's
 * lock.
 */
void wv_helper_no_work(void);
/** The program polls the worker now. */
void wv_helper_seen(void);
/** The program polls no longer: take over. */
void wv_helper_kick(void);

#endif /* WEFT_APPS_VERBS_HELPER_H */
