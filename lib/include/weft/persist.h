/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERSIST_H
#define WEFT_PERSIST_H

/**
 * @file Persist drivers: how memory is written to a medium and read back. Installed; stands alone.
 *
 * A driver owns the memory that it persists. `open` reserves the space on the medium and returns
 * populated memory, so no polling thread takes a page fault on a file. `flush` makes a range
 * durable. `read_back` delivers what the medium holds, for a Verify; the draft forbids to answer a
 * Verify from a cache (draft-talpey-rdma-commit-02 s2.2.2). Both are asynchronous: they are
 * submitted on a worker, with that worker's executor, and call req->done on the same worker.
 *
 * A set-up thread is a thread that may block: it polls no worker, or it does not poll one yet, or
 * not any more. Media are opened and closed on such a thread.
 *
 * Media and executors are handles. NULL, a handle of another kind, and one of the last 64 closed or
 * destroyed handles of a kind are refused with -EINVAL and logged (weft.api). A function without an
 * errno does nothing. Some calls check less, because a check would cost time in each operation:
 *
 * - weft_exec_submit() and weft_exec_poll() refuse only NULL and a destroyed executor.
 * - The functions of struct weft_persist_ops, called directly, trust their medium. They check only
 *   the range.
 * - weft_persist_mark() checks nothing. On a closed medium it finds no pages to mark.
 * - An executor does not know its worker's thread. weft_worker_poll() does, and refuses another
 *   thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/api.h>
#include <weft/exec.h>

WEFT_API_BEGIN

struct weft_persist;

#define WEFT_FLUSH_PERSISTENT 0x1 /**< "P" of draft-talpey-rdma-commit-02 s2.1.1 */
#define WEFT_FLUSH_VISIBLE    0x2 /**< "V" */
#define WEFT_FLUSH_REGION     0x4 /**< "R": the whole region that holds the range */

/** How to open one medium. */
struct weft_persist_attr {
	size_t size; /**< sizeof(struct weft_persist_attr) */
	/** "auto", "pmem", "file", "volatile"; some drivers take an option: "file:pwrite" */
	const char *driver;
	const char *path; /**< file or device; ignored by "volatile" */
	uint64_t bytes;   /**< length of the mapping; 0: the length of the file */
	bool create;      /**< create the file, or extend it when it is shorter */
	int numa_node;    /**< NUMA node of the pages; -1: any */
};

enum weft_persist_state { WEFT_PREQ_IDLE, WEFT_PREQ_BUSY };

/** One flush or read-back. Its owner embeds it and keeps it until done(). */
struct weft_persist_req {
	uint64_t off_bytes; /**< offset in the mapping */
	uint64_t len_bytes;
	uint32_t flags;      /**< WEFT_FLUSH_* of a flush */
	int status;          /**< result: 0 or -errno (-EIO: the medium failed) */
	const uint8_t *data; /**< result of a read-back: len_bytes octets, valid until release() */
	/**
	 * Completion, on the worker that submitted: in weft_exec_poll(), or during the submission.
	 */
	void (*done)(struct weft_persist_req *req);
	void *owner;      /**< for the submitter */
	uint64_t drv[24]; /**< for the driver, for example its job of the executor */
};

struct weft_persist_ops {
	/** [required] "pmem", "file", "volatile". */
	const char *name;
	/**
	 * [required] Whether flushed data survives a power failure. If false, registration refuses
	 * WEFT_ACCESS_FLUSH_PERSISTENT.
	 */
	bool persistent;
	/**
	 * [optional] base is a mapping of the medium itself, whose pages may go away
	 * (weft/guard.h).
	 */
	bool mapped;
	/**
	 * [required] Open and map the medium. Sets p->base, p->bytes, p->mechanism and p->priv, and
	 * p->dirty if the driver wants written pages marked. Called on a set-up thread; may block.
	 * A failure leaves the medium unchanged. Errors: -ENOENT, -EACCES, -EBUSY (another opener
	 * holds it), -ENOSPC, -EINVAL (size), -ENOTSUP (this driver cannot persist that medium),
	 * -ENOMEM, -EIO, and others of open(2).
	 */
	int (*open)(struct weft_persist *p, const struct weft_persist_attr *attr);
	/** [required] Unmap. Flushes nothing that was not requested. No request is under way. */
	void (*close)(struct weft_persist *p);
	/**
	 * [required] Start one flush of req->off_bytes, req->len_bytes. Never blocks. -EAGAIN: the
	 * executor is full; the caller tries again in the next poll. A flush that is done during
	 * the call costs time of the polling core, so it has at most 32 KiB. A longer one is a job
	 * of the executor.
	 */
	int (*flush)(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req);
	/**
	 * [required when persistent or verifiable] Start reading req->off_bytes, req->len_bytes
	 * from the medium; at most read_back_max_bytes at once. Where a read costs time of the
	 * polling core, the driver may lower req->len_bytes, not to 0, and deliver only that much.
	 * -EAGAIN as above.
	 */
	int (*read_back)(struct weft_persist *p, struct weft_exec *exec,
	                 struct weft_persist_req *req);
	/**
	 * [optional] Free what a read-back holds. Called once after done() of each read-back, also
	 * after an error (data is then NULL). Not called after a submission that was refused.
	 */
	void (*release)(struct weft_persist *p, struct weft_persist_req *req);
	/** [required with read_back] most octets of one read-back */
	uint32_t read_back_max_bytes;
	/** [optional] Implements weft_persist_check(). Any thread that may block. */
	int (*check)(struct weft_persist *p);
	/**
	 * [optional] Valid options, which follow the name and a colon in weft_persist_attr.driver.
	 * A list that ends with NULL.
	 */
	const char *const *options;
	/**
	 * [optional] A Flush of this range has arrived, all octets that were sent before it are
	 * placed, and it waits for requests before it. The driver may begin to write what it finds
	 * marked (draft-talpey-rdma-commit-02 s2.1.2: octets "MAY become persistent [...] at any
	 * time" after their placement). There is no answer. flush() follows with the same
	 * off_bytes, len_bytes and flags, unless the stream ends before. Only that flush promises,
	 * and fails. It writes again what was placed meanwhile. On the worker; never blocks.
	 */
	void (*flush_ahead)(struct weft_persist *p, uint64_t off_bytes, uint64_t len_bytes,
	                    uint32_t flags);
};

#define WEFT_PERSIST_PAGE_SHIFT 12

/** An open medium. `open` sets the members; they are constant from then on. */
struct weft_persist {
	uint64_t handle[2]; /**< for weft; the first member */
	const struct weft_persist_ops *ops;
	uint8_t *base; /**< populated memory */
	uint64_t bytes;
	/** One octet for each 4 KiB page, set when the page is written; NULL: not used. */
	uint8_t *dirty;
	int numa_node; /**< where the pages are; -1: unknown */
	/**
	 * A flush of at most this length is done inside ops->flush(), on the polling core. A longer
	 * one is given to the executor. 0: every flush is. Not used when the driver is not
	 * persistent.
	 */
	uint32_t flush_now_max_bytes;
	/** description for people: "direct I/O by io_uring to an ordinary file", ... */
	char mechanism[96];
	void *priv;
	void *guard;  /**< for weft */
	void *marked; /**< for weft */
};

/**
 * The option in attr->driver, behind the name and a colon; "" if there is none, or no name. For
 * drivers. The option is one of the driver's `options`.
 */
const char *weft_persist_option(const struct weft_persist_attr *attr);
/**
 * Open a medium with the driver that attr names. "auto" is pmem where libpmem reports is_pmem, else
 * file. Errors of ops->open, and -ENODEV: no such driver, or the driver has no such option;
 * -EINVAL: no name, out is NULL, or attributes of an unknown version.
 */
int weft_persist_open(const struct weft_persist_attr *attr, struct weft_persist **out);
/**
 * Whether the medium is still the one that was opened. Returns 0, also where a driver cannot tell,
 * or
 * - -EIO: the file was cut, or blocks were taken out of it
 * - -ENOENT: the file was removed or replaced, so it has no name left
 * - -ESTALE: another process has written to it, without visible loss
 * - -EINVAL: no open medium
 *
 * -EIO, -ENOENT and -ESTALE are permanent: every later flush and read-back fails. One case of
 * -ENOENT is not: the name that was opened belongs to no file or to another file. It lasts until
 * the name belongs to the opened file again. Flushes and read-backs on a helper thread make the
 * same check. Any thread that may block: the name is looked up, and the driver "file" reads its
 * first page.
 */
int weft_persist_check(struct weft_persist *p);
/**
 * Unmap and close the medium. The caller makes sure that all regions registered on it are gone and
 * that no flush or read-back is under way; this is not checked. Does nothing for NULL. Set-up
 * thread. If two threads close the same medium, one of them is refused.
 */
void weft_persist_close(struct weft_persist *p);

/**
 * Mark [off_bytes, off_bytes+len_bytes) as written by the local CPU. weft itself marks what peers
 * write. Any thread.
 */
void weft_persist_mark(struct weft_persist *p, uint64_t off_bytes, uint64_t len_bytes);

/**
 * Flush and wait for the result. For set-up and tools; never on a polling core. -EINVAL: no open
 * medium, or the range is outside of it. Else the errors of ops->flush.
 */
int weft_persist_flush_wait(struct weft_persist *p, uint64_t off_bytes, uint64_t len_bytes);

/**
 * Register a driver, before main(). No other thread may look up drivers at the same time; this is
 * not checked. -EEXIST: the name is taken. -EINVAL: NULL, or an empty required slot. -ENOSPC: 32
 * drivers are registered.
 */
int weft_persist_register(const struct weft_persist_ops *ops);
/** The same. A failure is printed on stderr and ends the program. */
void weft_persist_register_or_die(const struct weft_persist_ops *ops);
/** Find a driver by name; NULL if there is none, or name is NULL. Any thread. */
const struct weft_persist_ops *weft_persist_find(const char *name);
/** The i-th driver; NULL behind the last. Any thread. */
const struct weft_persist_ops *weft_persist_get(unsigned int i);

#define WEFT_PERSIST_REGISTER(id, ops)                                                             \
	static void __attribute__((constructor)) weft_persist_ctor_##id(void)                      \
	{                                                                                          \
		weft_persist_register_or_die(&(ops));                                              \
	}

WEFT_API_END

#endif /* WEFT_PERSIST_H */
