/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FILE_PRIV_H
#define FILE_PRIV_H

/**
 * @file What the sources of the file driver share: file_flush.c decides which pages a flush writes
 * and when they are durable, file_io.c gets them there, file_seal.c finds out that somebody else
 * has written the first one, persist_file.c is the driver.
 */

#include <assert.h>
#include <errno.h>
#include <pthread.h>

#include "weft_base.h"
#include "weft_line_lock.h"
#include "weft_medium_file.h"
#include <weft/persist.h>

#define FILE_BATCH         64         /**< writes under way at once */
#define FILE_RUN_MAX_BYTES (4U << 20) /**< octets of one write */
/** where no kernel tells, flushes from before here look at the first page */
#define FILE_SEAL_NEAR_BYTES (8U << 10)
/** octets that one job writes: some 10 ms of a slow disk */
#define FILE_SLICE_MAX_BYTES (8U << 20)

/** Adjacent pages that are written by one write. */
struct file_run {
	uint64_t first, end; /**< pages */
	int status;          /**< of file_io_write(): 0 or -errno */
};

/** By what pages go to the medium: all is under the flush lock. */
struct file_io;

struct file_priv {
	struct weft_medium md;
	struct weft_bounce bounce;
	/** helper threads only; read-backs take it where they are buffered */
	struct weft_line_lock flush_lock;
	uint8_t *unsynced;  /**< under it: an octet per page, written and not known to be durable */
	uint64_t failures;  /**< under it: writes and syncs that have failed */
	struct file_io *io; /**< under it, but for opening and closing */
	uint64_t pages;
	/** under it: the first page as the medium had it, and a page to read it into; NULL: not
	 * looked at */
	uint8_t *seal;
	bool sealed; /**< under it: seal holds it, and it was not written since */
};

/** What lies over weft_persist_req.drv. */
struct file_req {
	struct weft_job job;
	struct weft_persist *p;
	struct weft_persist_req *req;
	uint64_t pg;       /**< of a flush: everything before it is written */
	uint64_t end;      /**< page behind the range */
	uint64_t failures; /**< of the medium when it began */
	struct weft_exec *exec;
	bool begun;
	int buf; /**< bounce buffer of a read-back, -1: none */
};
static_assert(sizeof(struct file_req) <= sizeof(((struct weft_persist_req *)0)->drv),
              "a file request fits the room that requests have for drivers");

static inline struct file_req *
file_req_of(struct weft_persist_req *req)
{
	return (struct file_req *)req->drv;
}

static inline bool
file_inside(const struct weft_persist *p, const struct weft_persist_req *req)
{
	return req->off_bytes <= p->bytes && req->len_bytes <= p->bytes - req->off_bytes;
}

/** weft_persist_ops.flush. */
int file_flush(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req);

/**
 * Choose: `how` is "uring", "pwrite" or "" for the better one that can be had. -ENOTSUP: "uring"
 * was asked for, and the kernel forbids it or the medium refuses direct I/O. -ENOMEM.
 */
int file_io_open(const char *how, const struct weft_medium *md, struct file_io **out);
/** NULL is closed already. */
void file_io_close(struct file_io *io);
/** Whether it uses io_uring; for people. */
bool file_io_is_uring(const struct file_io *io);
/**
 * Write runs whole, FILE_BATCH at most; of the last page of the mapping only what is mapped. Each
 * run's status says how it went; when this returns nothing is under way any more, whatever failed.
 * Blocks.
 */
void file_io_write(struct file_io *io, const struct weft_persist *p, struct file_run *run,
                   unsigned int n);

/** Look at the first page from now on, if there is memory for it. */
void file_seal_open(struct file_priv *f);
void file_seal_close(struct file_priv *f);
/**
 * Under the flush lock; blocks. -ESTALE: somebody else has written the medium's first page, so the
 * medium is lost. 0: not that one could see it.
 */
int file_seal_look(struct file_priv *f);

#endif /* FILE_PRIV_H */
