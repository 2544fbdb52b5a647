/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FILE_PRIV_H
#define FILE_PRIV_H

/**
 * @file What the sources of the file driver share. file_flush.c decides which pages a Flush writes
 * and when they are durable, file_io.c writes them, file_seal.c detects that another process has
 * written the first page, persist_file.c is the driver.
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
/** where the kernel does not report writes, Flushes that begin before this offset check the
 * first page */
#define FILE_SEAL_NEAR_BYTES (8U << 10)
/** octets that one job writes: about 10 ms of a slow disk */
#define FILE_SLICE_MAX_BYTES (8U << 20)

/** Adjacent pages that are written by one write. */
struct file_run {
	uint64_t first, end; /**< pages */
	int status;          /**< of file_io_write(): 0 or -errno */
};

/** Way of writing pages to the medium; under the flush lock. */
struct file_io;

struct file_priv {
	struct weft_medium md;
	struct weft_bounce bounce;
	/** taken by helper threads only; by read-backs where they are buffered */
	struct weft_line_lock flush_lock;
	/** under flush_lock: an octet per page, set when the page is written and not known to be
	 * durable */
	uint8_t *unsynced;
	uint64_t failures;  /**< under flush_lock: writes and syncs that have failed */
	struct file_io *io; /**< under flush_lock, except in open and close */
	uint64_t pages;
	/** Under flush_lock: the first page as the medium had it, and a page to read it into;
	 * NULL: no check. */
	uint8_t *seal;
	/** under flush_lock: seal holds the page, and this driver has not written it since */
	bool sealed;
};

/** This driver's part of a request, stored in weft_persist_req.drv. */
struct file_req {
	struct weft_job job;
	struct weft_persist *p;
	struct weft_persist_req *req;
	uint64_t pg;       /**< Flush: all pages before this one are written */
	uint64_t end;      /**< the page after the range */
	uint64_t failures; /**< file_priv.failures when the request began */
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
 * Choose the way of writing: `how` is "uring", "pwrite", or "" for the better one that is
 * available. -ENOTSUP: "uring" was asked for, and the kernel forbids it or the medium refuses
 * direct I/O. -ENOMEM.
 */
int file_io_open(const char *how, const struct weft_medium *md, struct file_io **out);
/** Close; NULL is allowed. */
void file_io_close(struct file_io *io);
/** Whether io_uring is used; for messages. */
bool file_io_is_uring(const struct file_io *io);
/**
 * Write n runs, FILE_BATCH at most, completely; of the mapping's last page only the mapped part.
 * Each run's status has its result. At the return no write is under way, even after an error.
 * Blocks.
 */
void file_io_write(struct file_io *io, const struct weft_persist *p, struct file_run *run,
                   unsigned int n);

/** Begin to check the first page, if there is memory for that. */
void file_seal_open(struct file_priv *f);
void file_seal_close(struct file_priv *f);
/**
 * Check the first page, under the flush lock; blocks. -ESTALE: another process has written it, so
 * the medium is lost. 0: no such write is visible.
 */
int file_seal_look(struct file_priv *f);

#endif /* FILE_PRIV_H */
