/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CEPH_H
#define CEPH_H

/**
 * @file What the sources of weft-rbd share that use librbd: ceph.c has the image, ceph_open.c
 * connects, opens and locks, ceph_lock.c breaks the lock of another opener, ceph_task.c is a thread
 * for calls that block, ceph_extents.c lists extents, ceph_snap.c makes snapshots, ceph_io.c does
 * requests, ceph_life.c watches lock and length, rbd.c is the program.
 */

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <rados/librados.h>
#include <rbd/librbd.h>

#include "serve.h"

/**
 * How long a client is blocklisted whose process may live: it may be frozen, and sends what it has
 * when it goes on. A cluster's own default is an hour.
 */
#define CEPH_OUT_S 2592000
/** And one whose process is dead: only what is in the network can still come. */
#define CEPH_OUT_DEAD_S 3600

struct ceph_args {
	const char *image;   /**< "pool/image" or "pool/namespace/image", or "...@snapshot" */
	const char *address; /**< of the client to blocklist */
	const char *conf, *id, *keyring; /**< NULL: Ceph's default */
	const char *timeout;             /**< of one operation, seconds */
	bool take_over, read_only;
};

/** An image that is open. */
struct ceph {
	rados_t cluster;
	rados_ioctx_t io;
	rbd_image_t image;
	bool connected, has_io, open, locked;
	bool read_only, is_snapshot;
	char name[RBD_TEXT_BYTES]; /**< of the image in its pool, and "pool/[namespace/]" */
	char pool[RBD_TEXT_BYTES + 8];
	uint64_t object_bytes, unit_bytes, discard_bytes;
};
extern struct ceph ceph;

/* ---- ceph.c ---- */

/** Fill in why it has failed. Returns status. */
int ceph_refuse(struct rbd_hello *h, int status, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
int ceph_ended_begin(void);
/** Readable when a request has ended. */
int ceph_ended_fd(void);
/** A request has ended with r->result: octets or 0, or -errno. Any thread; it is done in a later
 * ceph_poll(). */
void ceph_ended(struct serve_req *r);
/** Those that have ended, by serve_req.next, the oldest first. Serving thread. */
struct serve_req *ceph_ended_take(void);

/* ---- ceph_open.c ---- */

/** Connect to the cluster. 0 or -errno with the reason. */
int ceph_connect(const struct ceph_args *a, struct rbd_hello *h);
/** Connect, open the image and take its lock. */
int ceph_open(const struct ceph_args *a, struct rbd_hello *h);
/** The reverse, of whatever was done. */
void ceph_close(void);

/* ---- ceph_lock.c ---- */

/** Take the image's lock. */
int ceph_lock(const struct ceph_args *a, struct rbd_hello *h);
/** Have the cluster refuse a client from now on, for so many seconds. When it returns 0, every
 * request that this process makes from now on is behind the client's last one. */
int ceph_blocklist(const char *address, uint32_t seconds);

/* ---- ceph_io.c: the serving thread ---- */

void ceph_submit(struct serve_req *r);
void ceph_poll(void);

/* ---- ceph_task.c ---- */

struct ceph_task {
	/** What it does: the result, for serve_req.result. */
	int64_t (*run)(struct serve_req *r);
	struct serve_req *first, **end;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	pthread_t thread;
	bool runs, stop;
};

int ceph_task_begin(struct ceph_task *t);
/** Ends the thread; what it has not begun is left. Does nothing if it was not begun. */
void ceph_task_end(struct ceph_task *t);
/** Serving thread. */
void ceph_task_add(struct ceph_task *t, struct serve_req *r);

/* ---- ceph_extents.c, ceph_snap.c ---- */

extern struct ceph_task ceph_extents, ceph_snaps;

/* ---- ceph_life.c: a thread of its own ---- */

int ceph_life_begin(uint64_t bytes);
void ceph_life_end(void);

#endif /* CEPH_H */
