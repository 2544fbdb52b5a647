/* SPDX-License-Identifier: BSD-3-Clause */
/** @file How the measuring side waits: it polls, or sleeps, and reads the clock seldom. */

#include <errno.h>

#include "client.h"
#include "client_wait.h"
#include "ui.h"

/** Turns between two looks at the clock and at the connection. */
#define WAIT_TURNS 0x10000

void
client_look(struct client *c)
{
	struct weft_qp_info info;

	if (c->closed || !c->up || c->qp == NULL)
		return;
	weft_qp_query(c->qp, &info);
	/* This side has not closed. */
	if (info.state != WEFT_QP_CLOSING)
		return;
	c->closed = c->dead = true;
	c->err = -ECONNRESET;
}

int
client_wait(struct client *c, bool (*done)(const struct client *c))
{
	uint64_t give_up = 0, spins = 0;

	while (!c->dead) {
		const int did = loop_turn(c->loop, LOOP_WAIT_NS);

		if (done(c))
			return 0;
		if (loop_is_slow(c->loop) || ++spins % WAIT_TURNS == 0) {
			uint64_t now = ui_now_ns();

			if (did == 0)
				client_look(c);
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
