/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PORTD_CONTROL_H
#define PORTD_CONTROL_H

/**
 * @file The conversations with processes (portd_proto.h), on one thread, which also changes the
 * owner table.
 *
 * A process is not trusted. One that says what it may not is disconnected, so is one that does not
 * begin in PORTD_CONTROL_HELLO_MS, or that leaves its answers unread. It has one request served a
 * round, and PORTD_CONTROL_RATE a second. New processes take the thread's time for their
 * net_memifs, as they come and go: PORTD_CONTROL_HELLO_RATE a second come, the one that waits
 * longest first. Each of these has a counter.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "portd_proto.h"
#include "portd_table.h"

#define PORTD_CONTROL_HELLO_MS    5000
#define PORTD_CONTROL_RATE        1000 /**< requests of a process a second, */
#define PORTD_CONTROL_DEPTH       200  /**< and so many at once */
#define PORTD_CONTROL_HELLO_RATE  20   /**< processes that come in a second, */
#define PORTD_CONTROL_HELLO_DEPTH 64   /**< and so many at once */
#define PORTD_CONTROL_WAITING     16   /**< sockets beside those of processes */

struct portd_control_ops {
	/** Make the data path of a process that has come, and fill in what the answer says of it. 0
	 * or -EIO. */
	int (*attach)(void *arg, uint32_t proc, struct portd_answer *a);
	/** The process is gone; its ports are no one's already. */
	void (*detach)(void *arg, uint32_t proc);
};

struct portd_control_attr {
	int fd;                     /**< listens; the caller's, and does not block */
	struct portd_table *table;  /**< the caller's; changed on the thread alone */
	struct portd_answer common; /**< what the answer to every PORTD_HELLO has */
	uint32_t max_procs;
	/** serve all users that the socket's file admits; else this user and root */
	bool any_user;
	const struct portd_control_ops *ops;
	void *arg;
};

/** Any thread reads. */
struct portd_control_counts {
	_Atomic uint64_t came, left; /**< processes */
	_Atomic uint64_t claims, claims_refused, releases, blocks, blocks_refused;
	_Atomic uint64_t refused_user; /**< sockets of other users */
	_Atomic uint64_t refused_full; /**< sockets and processes beyond the limits */
	_Atomic uint64_t failed;       /**< processes without a net_memif */
	_Atomic uint64_t no_fd;        /**< times that no descriptor was left for a socket */
	_Atomic uint64_t bad, silent, unread, throttled;
};

struct portd_control_proc {
	pid_t pid;
	char name[16]; /**< of its program */
};

struct portd_control;

/** -ENOMEM, or -errno of an eventfd. */
int portd_control_create(const struct portd_control_attr *attr, struct portd_control **out);
/** Serves until portd_control_stop(), and detaches all processes then. */
void portd_control_run(struct portd_control *c);
/** Any thread; safe in a signal handler. */
void portd_control_stop(struct portd_control *c);
void portd_control_destroy(struct portd_control *c);

const struct portd_control_counts *portd_control_counts(const struct portd_control *c);
/** Whether there is a process of this number. Any thread. */
bool portd_control_proc(struct portd_control *c, uint32_t proc, struct portd_control_proc *out);

#endif /* PORTD_CONTROL_H */
