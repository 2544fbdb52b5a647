/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Work that a connection puts off to its turn (tcp_turn.c), or until there is room. */

#include "tcp_conn.h"
#include "tcp_instance.h"
#include "tcp_life.h"

void
tcp_wait(struct weft_tcp_conn *c, uint8_t bits)
{
	struct weft_tcp *t = c->t;

	if (unlikely(c->dead))
		return;
	c->work |= bits;
	/* A connection whose task is queued will check for room by itself. */
	if (c->waiting || c->task.queued)
		return;
	c->waiting = true;
	t->nwaiting++;
	TAILQ_INSERT_TAIL(&t->waiting, c, wait_link);
	weft_task_queue(t->sched, &t->waker);
}

void
tcp_not_waiting(struct weft_tcp_conn *c)
{
	if (!c->waiting)
		return;
	c->waiting = false;
	c->t->nwaiting--;
	TAILQ_REMOVE(&c->t->waiting, c, wait_link);
}
