/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_NBDKIT_LINK_H
#define WEFT_APPS_NBDKIT_LINK_H

/**
 * @file The plug-in's link to one volume of a target: a stack of its own with a running worker, and
 * a connection that is made again when it is lost.
 *
 * What was not answered when the connection was lost is done again: each operation may be repeated.
 * What was answered and not flushed is done again, too, before anything else, because the target
 * may have lost it with its power. So the link keeps a copy of it (link_kept.c). When that grows
 * beyond a limit, the link flushes by itself.
 *
 * Threads: link_op() and link_flush() by any thread of nbdkit; they block. The rest by one.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

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

/** A change that is answered and may not be durable, or that is behind such a one. */
struct link_kept {
	TAILQ_ENTRY(link_kept) link;
	enum weft_volume_op op;
	uint32_t flags;
	uint64_t off_bytes, len_bytes, number;
	uint8_t data[];
};

/** One connection. It is kept until the link ends, because completions that name it may come late.
 */
struct link_conn {
	struct link_conn *next;
	struct link *l;
	struct weft_qp *qp;
	struct weft_rpc *rpc;
	bool established, gone; /**< under the link's lock */
};

struct link {
	const struct link_attr *attr;
	struct stack stack;
	struct weft_worker *w;
	struct sockaddr_storage to;
	/* the connection; changed by link_up() and link_down(), under `lock` */
	pthread_mutex_t lock;
	pthread_cond_t moved;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct link_conn *conn;
	struct host_auth auth;
	struct weft_volume *v;        /**< NULL: there is no connection */
	uint32_t users;               /**< threads that use v */
	bool making;                  /**< a thread makes the connection */
	uint64_t generation;          /**< of the connection */
	struct weft_volume_info info; /**< of the first connection */
	uint64_t reconnects;
	/* changes that are not durable, under `lock`, in the order of their answers */
	TAILQ_HEAD(, link_kept) kept;
	uint64_t kept_bytes, number;
	int owed; /**< status of a flush of the link's own that failed: the next flush tells it */
};

/** Bring the stack up and connect. -errno with one line in why. */
int link_open(struct link *l, const struct link_attr *attr, char why[LINK_WHY]);
void link_close(struct link *l);
/**
 * Do one request, whatever happens to the connection meanwhile. Returns its status. -ENOTCONN: no
 * connection for attr->timeout_ns.
 */
int link_op(struct link *l, struct weft_volume_req *req);

/* ---- link_kept.c; under l->lock ---- */

#define LINK_KEPT_MAX (64ULL << 20)

/** Room for a copy of what the request changes, made before it is submitted. NULL: no memory, or it
 * changes nothing. */
struct link_kept *link_kept_new(const struct weft_volume_req *req);
/** The change is answered. A durable one has a copy only behind others, which would undo it. */
void link_kept_add(struct link *l, struct link_kept *k);
/** All changes up to this number are durable. */
void link_kept_done(struct link *l, uint64_t number);
/** Do all of them again, on the worker of v. The status of the first that fails. */
int link_kept_again(struct link *l, struct weft_volume *v);

#endif /* WEFT_APPS_NBDKIT_LINK_H */
