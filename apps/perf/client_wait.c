/* SPDX-License-Identifier: BSD-3-Clause */
/** @file How the measuring side waits: it polls, or sleeps, and reads the clock seldom. */

#include <errno.h>

#include "client.h"
#include "ui.h"

int
client_wait(struct client *c, bool (*done)(const struct client *c))
{
	uint64_t give_up = 0, spins = 0;

	while (!c->dead) {
		loop_turn(c->loop, LOOP_WAIT_NS);
		if (done(c))
			return 0;
		if (loop_is_slow(c->loop) || (++spins & 0xfffff) == 0) {
			uint64_t now = ui_now_ns();

			if (give_up == 0) {
				give_up = now + STALL_S * 1000000000ull;
			} else if (now > give_up) {
				snprintf(c->term, sizeof(c->term), "no answer for %u s", STALL_S);
				return -ETIMEDOUT;
			}
		}
	}
	return c->err;
}

bool
client_is_drained(const struct client *c)
{
	return c->f.completed == c->f.posted;
}
