/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MEDIUM_FILE_H
#define WEFT_MEDIUM_FILE_H

/**
 * @file
 * What persist drivers on files and devices share: opening and locking a medium, populated
 * memory on a NUMA node, and reading back past the page cache. Internal; for drivers/persist.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/persist.h>

#define WEFT_MEDIUM_PAGE (1U << WEFT_PERSIST_PAGE_SHIFT)

/** A file or device opened for this process alone. */
struct weft_medium {
	int fd; /**< buffered; holds the lock */
	/** for reading back without O_DIRECT: waiting on it takes no write error from fd */
	int read_fd;
	int direct_fd;  /**< the same with O_DIRECT, -1 where that is refused */
	uint64_t bytes; /**< what is mapped: as asked, else what the file has */
	bool block_dev;
	bool char_dev;      /**< device DAX: no sizes, no I/O */
	bool tmpfs;         /**< memory that calls itself a file */
	bool made;          /**< the file was not there before */
	uint64_t old_bytes; /**< its length before it was grown; UINT64_MAX: it was not grown */
	bool full;          /**< a file that had blocks for all of it when it was opened */
	_Atomic int lost;   /**< why nothing of it counts any more, -errno, or 0 */
	/** when it was last looked for, its name was no file's or another one's */
	atomic_bool away;
	char *path;                   /**< its name, from the root; NULL: not looked for */
	_Atomic uint64_t whole_bytes; /**< the shortest that the file was seen to be */
	int tell_fd;                  /**< tells of writes to the file, -1: none does */
	bool tells_pid;               /**< and whose they are; else there are none of ours */
	int own_pid;
	pthread_mutex_t tell_lock; /**< if tell_fd is not -1: what it tells is noted under it */
};

/**
 * Open attr->path, lock it against every other opener (flock), grow it when attr->create says so,
 * with its blocks allocated and on the medium. A failure leaves the file as it was.
 * -EBUSY: somebody else holds it. -ENOENT, -EACCES, -EROFS, -EISDIR, ...: as open(2).
 * -EINVAL: no path, no length, shorter than attr->bytes and not to be grown. -ENOSPC.
 */
int weft_medium_open(const struct weft_persist_attr *attr, struct weft_medium *md);
/**
 * From now on weft_medium_check() finds out what other processes write to the file by system calls.
 * Right behind the open, before the content is read. own_writes: the driver writes to it in other
 * ways than through a mapping; then fanotify alone is of use. tell_fd says whether it can be told.
 * Devices are not watched.
 */
void weft_medium_watch(struct weft_medium *md, bool own_writes);
/**
 * An open that fails after weft_medium_open(): remove a file that it made, cut one that it grew.
 * weft_medium_close() is still to be called.
 */
void weft_medium_undo(const struct weft_persist_attr *attr, struct weft_medium *md);
void weft_medium_close(struct weft_medium *md);
/**
 * Whether what the file held in [0, end) when it was opened, or got since, can still be there.
 * -EIO: the file was seen shorter than that, or blocks are gone from it, also when it has been made
 * longer again since: what was durable there is not any more. -ESTALE: another process has written
 * to it. -ENOENT: it has no name left. Each is for good. -ENOENT is also, while it lasts, that the
 * name it was opened by is no file's, or another file's: what is pushed now is not what the next
 * open finds. Devices are not looked at. Any thread that may wait for the file system to look up
 * the name; asks no medium of this file.
 */
int weft_medium_check(struct weft_medium *md, uint64_t end_bytes);
/** It is lost for `status` for good, as a driver has found out by itself. What it is lost for by
 * now. Any thread. */
int weft_medium_lose(struct weft_medium *md, int status);
/** Whether the last weft_medium_check() has found that out. Asks nothing. */
bool weft_medium_known_lost(const struct weft_medium *md, uint64_t end_bytes);
/** Read or write exactly len octets; -EIO when the medium ends early. */
int weft_medium_pread(int fd, void *buf, uint64_t len_bytes, uint64_t off_bytes);
int weft_medium_pwrite(int fd, const void *buf, uint64_t len_bytes, uint64_t off_bytes);

/* ---- Read-back through bounce buffers ---- */

#define WEFT_BOUNCE_COUNT     8
#define WEFT_BOUNCE_MAX_BYTES (1U << 20) /**< octets of one read-back at most */

/** Buffers of one medium. Getting and putting is lock-free, from any worker. */
struct weft_bounce {
	uint8_t *mem;
	_Atomic uint32_t free; /**< bit per buffer */
};

int weft_bounce_init(struct weft_bounce *b);
void weft_bounce_fini(struct weft_bounce *b);
/** A buffer's number, -EAGAIN when all are in use. */
int weft_bounce_get(struct weft_bounce *b);
void weft_bounce_put(struct weft_bounce *b, int i);
/**
 * Fill buffer i with what the medium holds at [off, off+len) and point *data at it. Blocks: for
 * helper threads. Past O_DIRECT's refusal the cached pages are written back and dropped before
 * reading, and looked for afterwards: -EIO when one is still cached, as when somebody has it
 * mapped. That, and no tmpfs, takes that nobody else reads or writes through the page cache
 * meanwhile: the caller has a lock for it. -EIO also when the medium ends before the range does.
 */
int weft_bounce_read(struct weft_bounce *b, int i, const struct weft_medium *md, uint64_t off_bytes,
                     uint64_t len_bytes, const uint8_t **data);

/* ---- Memory ---- */

/**
 * Anonymous zeroed memory, every page present, on `numa_node` (-1: anywhere) where that is
 * possible. *node gets where it really is (-1: unknown or mixed). -ENOMEM, also when the machine
 * has less available than asked for.
 */
int weft_numa_alloc(uint64_t bytes, int numa_node, uint8_t **mem, int *node);
void weft_numa_free(uint8_t *mem, uint64_t bytes);
/** Node of populated memory: -1 when unknown or mixed. */
int weft_numa_node_of(const uint8_t *mem, uint64_t bytes);
/** Make every page of a mapping present and writable without changing its content. */
int weft_numa_populate(uint8_t *mem, uint64_t bytes);

#endif /* WEFT_MEDIUM_FILE_H */
