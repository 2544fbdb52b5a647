/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PORTD_CLIENT_H
#define PORTD_CLIENT_H

/**
 * @file The side of a process that shares weft-portd's address: calls over the control socket. It
 * uses neither weft nor DPDK.
 *
 * Every call waits for its answer, PORTD_CLIENT_MS at most. Any thread; calls of several threads
 * take turns. In a child of fork() the socket is the parent's: the child closes it
 * (portd_client_close()) and opens its own.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "portd_proto.h"

#define PORTD_CLIENT_MS 5000

struct portd_client {
	int fd; /**< readable when the daemon is gone; -1: closed */
	pthread_mutex_t lock;
	uint32_t seq;
};

/**
 * Connects to the daemon's socket and attaches. On success *hello is what the daemon said. The
 * caller opens the device of portd_client_dev() then, and closes with portd_client_close().
 *
 * -EINVAL (path is too long), -ENOENT and -ECONNREFUSED (no daemon listens there), -EACCES,
 * -ETIMEDOUT, -ECONNRESET (the daemon is gone, or does not take this user), -EPROTO (it is of
 * another version, or no weft-portd), or what the daemon answers (PORTD_HELLO).
 */
int portd_client_open(struct portd_client *c, const char *path, struct portd_answer *hello);
/** Ends the process' part. In a child of fork() it closes the child's descriptor alone. */
void portd_client_close(struct portd_client *c);

/** PORTD_CLAIM. Its errors, -ETIMEDOUT, -ECONNRESET (the daemon is gone), -EPROTO. */
int portd_client_claim(struct portd_client *c, uint16_t port);
/** PORTD_RELEASE. Likewise. */
int portd_client_release(struct portd_client *c, uint16_t port);
/** PORTD_MORE: ports *first to *last, both included. Likewise. */
int portd_client_more(struct portd_client *c, uint16_t *first, uint16_t *last);

/** Whether the daemon is gone. Does not wait; not during another call. */
bool portd_client_gone(const struct portd_client *c);

/** Writes the device string of the net_memif, with the name NAME ("net_memif7"). 0; -ENOSPC. */
int portd_client_dev(const struct portd_answer *hello, const char *name, char *out, size_t size);
/** Writes the daemon's default path: $XDG_RUNTIME_DIR/weft-portd.sock, or
 * /run/weft/portd.sock of root and without that variable. 0; -ENOSPC. */
int portd_default_path(char *out, size_t size);

#endif /* PORTD_CLIENT_H */
