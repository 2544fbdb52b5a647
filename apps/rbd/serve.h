/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SERVE_H
#define SERVE_H

/**
 * @file The process's end of what drivers/block/rbd/rbd_proto.h describes: channels, rings and
 * calls. What is behind them is a backend: librbd, or a file of a test. One thread does all of it,
 * but for what is said to be for any thread.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "rbd_proto.h"

struct serve_chan;

/** A request that the backend has. */
struct serve_req {
	struct serve_chan *chan;
	uint32_t tag, run;
	unsigned int op; /**< enum weft_block_op */
	unsigned int flags;
	uint64_t off_bytes, len_bytes;
	struct iovec
	        iov[RBD_REQ_SLOTS]; /**< of reads and writes, and what a compare-and-write writes */
	int iovs;
	const void *expect; /**< of a compare-and-write */
	struct rbd_extent *extents;
	uint32_t max_extents;
	struct rbd_snap *snap; /**< of snapshots */
	void *snap_data;       /**< struct rbd_snap_data, or struct rbd_snapshot */
	bool busy;
	struct serve_req *next; /**< for the backend */
	uint64_t at;            /**< for the backend */
	int64_t result;         /**< for the backend */
};

/** A channel. The memory is the driver's as well. */
struct serve_chan {
	uint32_t number, tags, slots;
	void *base;
	uint64_t base_bytes;
	struct rbd_ring *ring;
	uint32_t sq_head, cq_tail, told;
	uint32_t under_way;
	bool closed; /**< it ends when nothing is under way */
	int kick_fd, bell_fd;
	struct serve_req *req; /**< by tag */
	struct serve_chan *next;
};

struct serve_backend {
	/** Start a request. serve_done() follows, here or in poll(). */
	void (*submit)(struct serve_req *r);
	/** Take results: call serve_done(). */
	void (*poll)(void);
	/** Readable when poll() has something to do; cleared by poll(). */
	int fd;
	/** Give back what open has taken. Not called if a change may still land. */
	void (*close)(void);
};

/** End a request. extents: how many were found. Serving thread. */
void serve_done(struct serve_req *r, int status, uint64_t done_bytes, uint32_t extents);
/** Tell the driver of a new length or status. 0 for bytes: as it was. The first status that is not
 * 0 stays. Any thread. */
void serve_tell(uint64_t bytes, int status);
/** The page that is shared with the driver. Once, before serve_tell(). 0 or -errno. */
int serve_begin(void);
/** Send the first packet. 0 or -errno. */
int serve_hello(const struct rbd_hello *h);
/** Serve until the driver closes the image or its end of the socket. Returns the exit status. */
int serve(const struct serve_backend *b);

/* ---- serve_ring.c ---- */

/** Map a channel. NULL: it does not fit. The descriptors are the channel's from then on. */
struct serve_chan *serve_chan_new(const struct rbd_call *call, const int fds[3]);
void serve_chan_free(struct serve_chan *c);
/** Give the backend what the driver has sent. Returns whether there was something. */
bool serve_chan_take(struct serve_chan *c, const struct serve_backend *b);
/** Whether a change was told to have timed out: the cluster may still get it. */
bool serve_in_doubt(void);
/** Wake the driver if it sleeps and has results. */
void serve_chan_tell(struct serve_chan *c);
/** About to sleep. False: there is something to do. */
bool serve_chan_sleep(struct serve_chan *c);
void serve_chan_wake(struct serve_chan *c);

#endif /* SERVE_H */
