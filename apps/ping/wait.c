/* SPDX-License-Identifier: BSD-3-Clause */
/** @file How a loop of weft-ping waits between polls, and the signal that ends it. */

#include "ping.h"
#include "ui.h"

#define SPIN_NS    1000000ull
#define NAP_SHARE  16 /* a nap is this part of the quiet time, so an answer waits little longer */
#define NAP_MAX_US 8000

volatile sig_atomic_t ping_stop;

uint64_t
ping_turn(struct ping_wait *wait, struct weft_worker *w)
{
	uint64_t now, quiet, nap_us;

	if (weft_worker_poll(w) > 0) {
		wait->since_ns = 0;
		return 0;
	}
	now = ui_now_ns();
	if (wait->since_ns == 0)
		wait->since_ns = now;
	quiet = now - wait->since_ns;
	nap_us = quiet / 1000 / NAP_SHARE;
	if (quiet > SPIN_NS)
		weft_worker_idle(w, nap_us < NAP_MAX_US ? (uint32_t)nap_us : NAP_MAX_US);
	return quiet;
}
