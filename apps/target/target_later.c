/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The close of a connection by a part that may be called from its procedures, or while the
 * connections are iterated over. */

#include <errno.h>

#include "target_conn.h"

static void
later_close(void *arg)
{
	struct target_conn *c = arg;

	c->end_alarm = NULL;
	c->w->ops->close(c);
}

int
target_conn_close_later(struct target_conn *c)
{
	if (c->end_alarm != NULL)
		return 0;
	if (weft_alarm_set(c->w->w, 0, later_close, c, &c->end_alarm) == 0)
		return 0;
	c->end_alarm = NULL;
	return -ENOMEM;
}
