/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_NBDKIT_LINK_H
#define WEFT_APPS_NBDKIT_LINK_H

/**
 * @file The plug-in's volume: a stack of its own with a running worker, and a volume that is opened
 * by a link (weft/volume.h, "Lost connections"). When that has ended, because the target was away
 * for too long, the next operation opens the volume anew.
 *
 * Threads: link_op() by any thread of nbdkit; it blocks. The rest by one.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "auth_arg.h"
#include "conf.h"
#include "host_auth.h"
#include "stack.h"
#include "url.h"
#include <weft/volume.h>

#define LINK_WHY 640

struct link_attr {
	struct conf conf;
	struct url url;
	struct auth_arg auth;
	bool verify;         /**< a Verify behind each write */
	bool read_only;      /**< ask for the right to read alone */
	uint64_t timeout_ns; /**< longest time without a connection, before operations fail */
};

struct link {
	const struct link_attr *attr;
	struct stack stack;
	struct weft_worker *w;
	struct sockaddr_storage to;
	struct weft_pd *pd;
	struct host_auth auth;        /**< of the connection; the worker's */
	struct weft_volume_info info; /**< of the first opening */
	pthread_mutex_t lock;
	pthread_cond_t moved;
	/* under `lock` */
	struct weft_volume *v; /**< NULL: it is not open */
	uint32_t users;        /**< threads that use v */
	bool opening;          /**< a thread opens it */
	bool ended;            /**< v has no connection any more */
	uint64_t changes;      /**< that were answered and are not durable by themselves */
	uint64_t flushed;      /**< so many of them are durable */
	int owed;              /**< what the next flush tells: changes were lost with v */
};

/** Bring the stack up and open the volume. -errno with one line in why. */
int link_open(struct link *l, const struct link_attr *attr, char why[LINK_WHY]);
void link_close(struct link *l);
/**
 * Do one request, whatever happens to the connection meanwhile. Returns its status. -ENOTCONN: no
 * connection for attr->timeout_ns. -EIO of a flush also: changes that were answered before are lost
 * with a volume that had no connection for so long.
 */
int link_op(struct link *l, struct weft_volume_req *req);

#endif /* WEFT_APPS_NBDKIT_LINK_H */
