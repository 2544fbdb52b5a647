/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Progress by the program's calls. */

#include "engine.h"
#include "helper.h"
#include "libc.h"
#include "lock.h"

#define PROGRESS_SPIN_NS (50 * 1000ULL) /**< of a call that waits, before it sleeps */

/** DPDK's, which is in the process with libweft and not linked here. Its interrupt thread waits by
 * epoll_wait(), which is this library's own. */
int rte_thread_is_intr(void) __attribute__((weak));

/** Whether the calling thread is none of the program's: its sleep is no sign of the program. */
static bool
progress_is_ours(void)
{
	return wv_helper_is_me() || (rte_thread_is_intr != NULL && rte_thread_is_intr() != 0);
}

void
wv_progress(void)
{
	if (!wv_engine_is_up())
		return;
	wv_set_waiting(false);
	wv_helper_seen();
	(void)wv_trylock_poll();
}

void
wv_will_block(void)
{
	/* The worker's sleep is a ppoll(), which comes here, too. */
	if (!wv_engine_is_up() || progress_is_ours())
		return;
	if (wv_has_posted())
		(void)wv_trylock_poll();
	wv_set_waiting(true);
	wv_helper_kick();
}

bool
wv_spin_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	if (wv_engine_is_up()) {
		const uint64_t end_ns = wv_now_ns() + PROGRESS_SPIN_NS;

		do {
			wv_progress();
			if (wv_libc.poll(&p, 1, 0) > 0)
				return true;
		} while (wv_now_ns() < end_ns);
		wv_will_block();
	}
	return false;
}
