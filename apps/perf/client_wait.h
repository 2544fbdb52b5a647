/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_CLIENT_WAIT_H
#define WEFT_PERF_CLIENT_WAIT_H

/** @file How the measuring side waits for one connection. On the thread of its loop. */

#include <stdbool.h>

struct client;

/** Poll until done(c). 0; -ETIMEDOUT: not within about STALL_S; or -errno of the dead connection.
 * Does not read the clock in every turn. */
int client_wait(struct client *c, bool (*done)(const struct client *c));
/** See whether the server has closed the connection in order, whose end may not have come: its last
 * acknowledgment is lost if the server's port is closed first. The connection is dead then. */
void client_look(struct client *c);
/** Whether all that was posted is completed. */
bool client_is_drained(const struct client *c);

#endif /* WEFT_PERF_CLIENT_WAIT_H */
