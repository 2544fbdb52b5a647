/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MEDIUM_FILE_H
#define WEFT_MEDIUM_FILE_H

/**
 * @file Services for persist drivers on files and devices: opening and locking a medium, populated
 * memory on a NUMA node, and reading back past the page cache. Internal; for drivers/persist.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/persist.h>

#define WEFT_MEDIUM_PAGE (1U << WEFT_PERSIST_PAGE_SHIFT)

/** A file or device that this process has opened and locked. */
struct weft_medium {
	int fd; /**< buffered I/O; holds the lock */
	/**
	 * For reading back without O_DIRECT. Waiting on it does not consume a write error of fd.
	 */
	int read_fd;
	int direct_fd;  /**< the same with O_DIRECT; -1 where that is refused */
	uint64_t bytes; /**< length of the mapping: as requested, else that of the file */
	bool block_dev;
	bool char_dev;      /**< device DAX: no length, no I/O */
	bool tmpfs;         /**< a file system in memory */
	bool made;          /**< the file was created by this open */
	uint64_t old_bytes; /**< length before it was extended; UINT64_MAX: not extended */
	bool full;          /**< the file had blocks for its whole length when it was opened */
	_Atomic int lost;   /**< -errno why the medium is lost; 0: it is not lost */
	/** At the last check the name belonged to no file or to another one. */
	atomic_bool away;
	char *path;                   /**< absolute name; NULL: the name is not checked */
	_Atomic uint64_t whole_bytes; /**< shortest length of the file seen so far */
	int tell_fd;                  /**< reports writes to the file; -1: none does */
	/** reports the writing process, too; else this process causes no reports */
	bool tells_pid;
	int own_pid;
	/** if tell_fd is not -1: protects the handling of its reports */
	pthread_mutex_t tell_lock;
};

/**
 * Open attr->path and lock it against all other openers (flock). With attr->create, extend the
 * file, with blocks allocated and on the medium. A failure leaves the file unchanged.
 * - -EBUSY: another process holds it
 * - -ENOENT, -EACCES, -EROFS, -EISDIR, ...: as open(2)
 * - -EINVAL: no path, no length, or shorter than attr->bytes and not to be extended
 * - -ENOSPC
 */
int weft_medium_open(const struct weft_persist_attr *attr, struct weft_medium *md);
/**
 * From now on weft_medium_check() detects writes of other processes by system calls. Called right
 * after the open, before the contents are read. own_writes: the driver writes to the file in other
 * ways than through a mapping; then only fanotify is of use. tell_fd is -1 if writes cannot be
 * detected. Devices are not watched.
 */
void weft_medium_watch(struct weft_medium *md, bool own_writes);
/**
 * For an open that fails after weft_medium_open(): remove a file that was created, cut a file that
 * was extended. weft_medium_close() must still be called.
 */
void weft_medium_undo(const struct weft_persist_attr *attr, struct weft_medium *md);
void weft_medium_close(struct weft_medium *md);
/**
 * Whether the contents of [0, end_bytes), from the open or written since, can still be there.
 * Devices are not checked. Any thread that may block: the file system looks up the name. Does no
 * I/O on the medium of the file. Returns 0, or
 * - -EIO: the file was seen shorter than end_bytes, or blocks are gone, even if it is long again.
 *   What was durable there is lost.
 * - -ESTALE: another process has written to it
 * - -ENOENT: it has no name left; or the name that was opened belongs to no file, or to another
 *   file, so what is written now is not what the next open finds. The second lasts until the name
 *   belongs to the file again.
 *
 * All except the second -ENOENT are permanent.
 */
int weft_medium_check(struct weft_medium *md, uint64_t end_bytes);
/**
 * A driver has found that the medium is lost with `status`, permanently. Returns the status with
 * which it is lost, which may be an earlier one. Any thread.
 */
int weft_medium_lose(struct weft_medium *md, int status);
/** Whether the last weft_medium_check() found a loss. Asks the system nothing. */
bool weft_medium_known_lost(const struct weft_medium *md, uint64_t end_bytes);
/** Read or write exactly len_bytes. -EIO when the medium ends before. */
int weft_medium_pread(int fd, void *buf, uint64_t len_bytes, uint64_t off_bytes);
int weft_medium_pwrite(int fd, const void *buf, uint64_t len_bytes, uint64_t off_bytes);

/* ---- Read-back through bounce buffers ---- */

#define WEFT_BOUNCE_COUNT     8
#define WEFT_BOUNCE_MAX_BYTES (1U << 20) /**< most octets of one read-back */

/** Buffers of one medium. They are taken and returned without a lock, by any worker. */
struct weft_bounce {
	uint8_t *mem;
	_Atomic uint32_t free; /**< one bit for each buffer */
};

int weft_bounce_init(struct weft_bounce *b);
void weft_bounce_fini(struct weft_bounce *b);
/** Take a buffer. Returns its number, or -EAGAIN when all are in use. */
int weft_bounce_get(struct weft_bounce *b);
void weft_bounce_put(struct weft_bounce *b, int i);
/**
 * Fill buffer i with the octets that the medium holds at [off_bytes, off_bytes+len_bytes), and set
 * *data to them. Blocks: for helper threads.
 *
 * Where O_DIRECT is refused, the cached pages are first written back and dropped, and then it is
 * checked that none is left. This is valid only while no other thread uses the file through the
 * page cache, so the caller holds a lock. -EIO: a page is still cached, for example because another
 * process has it mapped. On tmpfs this step is left out. -EIO also when the medium ends before the
 * range does.
 */
int weft_bounce_read(struct weft_bounce *b, int i, const struct weft_medium *md, uint64_t off_bytes,
                     uint64_t len_bytes, const uint8_t **data);

/* ---- Memory ---- */

/**
 * Allocate anonymous zeroed memory with all pages present, on `numa_node` (-1: any) if possible.
 * *node gets its node (-1: unknown or several). -ENOMEM, also if the system has less memory
 * available.
 */
int weft_numa_alloc(uint64_t bytes, int numa_node, uint8_t **mem, int *node);
void weft_numa_free(uint8_t *mem, uint64_t bytes);
/** The node of populated memory; -1: unknown or several. */
int weft_numa_node_of(const uint8_t *mem, uint64_t bytes);
/** Make every page of a mapping present and writable without changing its contents. */
int weft_numa_populate(uint8_t *mem, uint64_t bytes);

#endif /* WEFT_MEDIUM_FILE_H */
