/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef URING_PRIV_H
#define URING_PRIV_H

/**
 * @file What the sources of the block driver "uring" share. uring_open.c opens the medium and finds
 * out what it is, uring_ring.c has the ring of a channel, uring_snap.c makes snapshots,
 * uring_help.c has what helper threads do, block_uring.c is the driver.
 */

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>

#include "weft_base.h"
#include "weft_medium_file.h"
#include <weft/block.h>
#include <weft/exec.h>

#define URING_MAX_BYTES (1U << 20) /**< longest read or write */
#define URING_MAX_IOVS  256
#define URING_MAX_MEM   16

struct uring_ring;

/** An open file or block device. */
struct uring_disk {
	struct weft_medium md; /**< md.fd has O_DIRECT, and the lock */
	uint64_t bytes;        /**< as opened */
	uint32_t block_bytes;
	uint32_t mem_align_bytes;
	uint32_t piece_bytes; /**< block of the file system or the device: unit of discards */
	bool whole;           /**< opened with the file's own length */
	bool threads;         /**< helper threads in place of the ring */
	bool insist;          /**< the ring, or no open */
	struct iovec mem[URING_MAX_MEM];
	unsigned int nmem;
	/** One request for snapshots at a time, so that the limit of their number holds. Helper
	 * threads. */
	pthread_mutex_t snap_lock;
};

/** This driver's part of a channel. */
struct uring_chan {
	struct uring_disk *disk;
	struct weft_exec *exec;  /**< of this channel alone: a medium may hang */
	struct uring_ring *ring; /**< NULL: helper threads do everything */
	int fd;                  /**< epoll of the ring and the executor */
};

/** This driver's part of a request, in weft_block_req.drv. */
struct uring_req {
	struct weft_job job;
	uint64_t done_bytes; /**< read or written so far; extents: covered */
	int status;
	bool started; /**< a helper thread has begun, so there is no way back */
};
static_assert(sizeof(struct uring_req) <= sizeof(((struct weft_block_req *)0)->drv),
              "a request of uring fits the room that requests have for drivers");

static inline struct uring_req *
uring_req_of(struct weft_block_req *req)
{
	return (struct uring_req *)(void *)req->drv;
}

/* ---- uring_open.c ---- */

/** Open and lock the medium, and fill d and b->info. Undoes what it did if it fails. */
int uring_open_medium(struct uring_disk *d, struct weft_block *b,
                      const struct weft_block_attr *attr, uint64_t *bytes);
/** Look at the medium, and set the device's state. Blocks. Returns the status. */
int uring_look(struct weft_block *b);

/* ---- uring_snap.c ---- */

/** Do a request for snapshots. Blocks: helper threads. */
int uring_snap(struct uring_disk *d, struct weft_block_snap *s);
/** Make the names of a file's folder durable. 0 or -errno. */
int uring_sync_dir(const char *path);

/* ---- uring_help.c ---- */

/** Give a request to a helper thread, which does the rest of it. -EAGAIN: no room now. */
int uring_help(struct uring_chan *c, struct weft_block_req *req);

/* ---- uring_ring.c ---- */

/** Whether the kernel lets this process use io_uring. 0 or -errno. */
int uring_ring_probe(void);
/** *registered: the device's memory is. */
int uring_ring_open(struct uring_chan *c, uint32_t depth, struct uring_ring **out,
                    bool *registered);
void uring_ring_close(struct uring_ring *r);
int uring_ring_fd(const struct uring_ring *r);
/** Gather a read or write. -EAGAIN: the next poll has room. */
int uring_ring_add(struct uring_ring *r, struct weft_block_req *req);
/** Hand what was gathered to the kernel, and take results. */
void uring_ring_poll(struct uring_chan *c);
/** Whether the next poll has requests to hand over, or results to take. */
bool uring_ring_has_more(const struct uring_ring *r);
void uring_ring_cancel(struct uring_ring *r, struct weft_block_req *req);

#endif /* URING_PRIV_H */
