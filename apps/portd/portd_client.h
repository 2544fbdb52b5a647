/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PORTD_CLIENT_H
#define PORTD_CLIENT_H

/**
 * @file The side of a process that shares weft-portd's address: calls over the control socket. It
 * uses neither weft nor DPDK.
 *
 * portd_client_open(), _claim() and _more() wait for their answer, PORTD_CLIENT_MS at most. A
 * daemon that does not answer in that time has lost the process: what it would still grant is known
 * to neither. The others never wait, and may be called by a thread that polls. Any thread; calls of
 * several threads take turns. In a child of fork() the socket is the parent's: the child closes it
 * (portd_client_close()) and opens its own.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "portd_proto.h"

#define PORTD_CLIENT_MS   5000
#define PORTD_CLIENT_OPEN 64U /**< most requests that wait for the daemon */

struct portd_client {
	int fd; /**< readable when the daemon is gone; -1: closed */
	pthread_mutex_t lock;
	uint32_t seq;
	uint32_t open; /**< requests without an answer so far */
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

/** PORTD_CLAIM. Its errors, -ETIMEDOUT (the part has ended), -ECONNRESET (the daemon is gone),
 * -EPROTO. */
int portd_client_claim(struct portd_client *c, uint16_t port);
/** PORTD_RELEASE, without waiting for the answer. -EAGAIN: another call waits for its answer, or
 * the daemon has not answered PORTD_CLIENT_OPEN requests yet; -ECONNRESET. */
int portd_client_release(struct portd_client *c, uint16_t port);
/** PORTD_MORE: ports *first to *last, both included. As portd_client_claim(). */
int portd_client_more(struct portd_client *c, uint16_t *first, uint16_t *last);

/** Whether the daemon is gone, or the part has ended. Drops answers that nothing waits for. False
 * while another call waits for its answer. */
bool portd_client_gone(struct portd_client *c);

/** Writes the device string of the net_memif, with the name NAME ("net_memif7"). 0; -ENOSPC. */
int portd_client_dev(const struct portd_answer *hello, const char *name, char *out, size_t size);
/** Writes the daemon's default path: $XDG_RUNTIME_DIR/weft-portd.sock, or
 * /run/weft/portd.sock of root and without that variable. 0; -ENOSPC. */
int portd_default_path(char *out, size_t size);

#endif /* PORTD_CLIENT_H */
