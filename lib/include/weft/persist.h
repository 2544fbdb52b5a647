/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERSIST_H
#define WEFT_PERSIST_H

/**
 * @file
 * Persist drivers: how memory gets onto a medium and back. Installed; stands alone.
 *
 * A driver owns the memory it persists. `open` reserves the space on the medium and returns
 * populated memory (no polling thread ever faults on a file); `flush` makes a range durable;
 * `read_back` delivers what the medium holds for a Verify, which the draft forbids to supply
 * from a cache (draft-talpey-rdma-commit-02 s2.2.2). Both are asynchronous: they are submitted
 * on a worker together with that worker's executor, and complete by req->done on the same worker.
 *
 * Media and executors are handles: NULL, a handle of another kind, and one that was closed or
 * destroyed (the last 64 of each kind) are refused with -EINVAL, or without effect where there is
 * no errno, and logged (weft.api). weft_exec_submit() and weft_exec_poll() promise it of NULL and
 * of one that was destroyed alone. What is not looked at, since it would cost each operation: the
 * functions of struct weft_persist_ops, called directly, trust their medium and check the range
 * alone; weft_persist_mark() checks nothing, but finds no pages in one that was closed; an executor
 * does not know its worker's thread (weft_worker_poll() does, and refuses another one).
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
#define WEFT_FLUSH_REGION     0x4 /**< "R": the whole region */

/** How to open one medium. */
struct weft_persist_attr {
	size_t size; /**< sizeof(struct weft_persist_attr) */
	/** "auto", "pmem", "file", "volatile"; some take an option: "file:pwrite" */
	const char *driver;
	const char *path; /**< file or device; ignored by "volatile" */
	uint64_t bytes;   /**< length of the mapping; 0: what the file has */
	bool create;      /**< make or grow the file when it is shorter */
	int numa_node;    /**< where the pages shall be; -1: anywhere */
};

enum weft_persist_state { WEFT_PREQ_IDLE, WEFT_PREQ_BUSY };

/** One flush or read-back; embedded in its owner, which keeps it until done. */
struct weft_persist_req {
	uint64_t off_bytes; /**< in the mapping */
	uint64_t len_bytes;
	uint32_t flags;      /**< WEFT_FLUSH_* of a flush */
	int status;          /**< result: 0 or -errno (-EIO: the medium failed) */
	const uint8_t *data; /**< result of a read-back: len_bytes octets, valid until release */
	/** Completion, on the worker that submitted, from weft_exec_poll() or from submit itself.
	 */
	void (*done)(struct weft_persist_req *req);
	void *owner;      /**< the submitter's */
	uint64_t drv[24]; /**< the driver's: a job of the executor and what goes with it */
};

struct weft_persist_ops {
	/** [required] "pmem", "file", "volatile". */
	const char *name;
	/** [required] Whether a flush here survives the power. False: registration refuses the
	 * right. */
	bool persistent;
	/** [optional] base is a mapping of the medium itself, whose pages may go away:
	 * weft/guard.h. */
	bool mapped;
	/**
	 * [required] Map. Fills p->base, p->bytes, p->mechanism, p->priv, and p->dirty if it wants
	 * dirty pages marked. -ENOENT, -EACCES, -EBUSY (another opener holds it), -ENOSPC, -EINVAL
	 * (size), -ENOTSUP (this driver cannot persist that medium), -ENOMEM, -EIO and what else
	 * open(2) answers. A failure leaves the medium as it was. Set-up thread; may block.
	 */
	int (*open)(struct weft_persist *p, const struct weft_persist_attr *attr);
	/** [required] Unmap; nothing is flushed that was not asked for. No request is in flight. */
	void (*close)(struct weft_persist *p);
	/**
	 * [required] Start one flush of req->off/len. Never blocks. -EAGAIN: executor full, try
	 * next poll. Done inside the call it costs the polling core: 32 KiB at most, longer ones
	 * are jobs.
	 */
	int (*flush)(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req);
	/**
	 * [required when persistent or verifiable] Start reading req->off/len from the medium.
	 * At most read_back_max octets at once; where it costs the polling core, a driver may lower
	 * req->len_bytes, not to 0, and deliver so many. -EAGAIN as above.
	 */
	int (*read_back)(struct weft_persist *p, struct weft_exec *exec,
	                 struct weft_persist_req *req);
	/**
	 * [optional] Give back what a read-back holds. Called once after each one's done(), also
	 * when its status is an error (data is NULL then). Not after a refused submission.
	 */
	void (*release)(struct weft_persist *p, struct weft_persist_req *req);
	/** [required with read_back] */
	uint32_t read_back_max_bytes;
	/** [optional] weft_persist_check(). Any thread that may wait. */
	int (*check)(struct weft_persist *p);
	/** [optional] What may follow the name and a colon in weft_persist_attr.driver, up to NULL.
	 */
	const char *const *options;
};

#define WEFT_PERSIST_PAGE_SHIFT 12

/** An open medium. Fields are set by open and constant from then on. */
struct weft_persist {
	uint64_t handle[2]; /**< weft's own, first */
	const struct weft_persist_ops *ops;
	uint8_t *base; /**< populated memory */
	uint64_t bytes;
	uint8_t *dirty; /**< one octet per 4 KiB page set when it is written, or NULL */
	int numa_node;  /**< where the pages really are, -1 unknown */
	/**
	 * A flush of at most so many octets is done inside ops->flush(), and costs the polling
	 * core; a longer one is given to the executor. 0: every one is. No matter where the driver
	 * is not persistent.
	 */
	uint32_t flush_now_max_bytes;
	/** for people: "direct I/O by io_uring to an ordinary file", ... */
	char mechanism[96];
	void *priv;
	void *guard;  /**< weft's own */
	void *marked; /**< likewise */
};

/** What follows the driver's name and a colon; "" when there is none, or no name. For drivers: it
 * is one of theirs. */
const char *weft_persist_option(const struct weft_persist_attr *attr);
/**
 * Open by name; "auto" takes pmem where libpmem says is_pmem, else file. Errors as ops->open;
 * -ENODEV: no such driver, or it has no such option; -EINVAL: no name, no place for the result,
 * attributes that no version has.
 */
int weft_persist_open(const struct weft_persist_attr *attr, struct weft_persist **out);
/**
 * Whether the medium is still the one that was opened. -EIO: its file was cut short, or blocks were
 * taken out of it; -ENOENT: it was removed or replaced, so it has no name left; -ESTALE: another
 * process has written to it, which takes nothing away that can be seen. Each is for good: every
 * flush and read-back fails from then on. -ENOENT is also that the name by which it was opened is
 * no file's, or another file's; that lasts until the name is its own again. Flushes and read-backs
 * that a driver gives to a helper thread ask the same by themselves. 0 also where a driver cannot
 * tell. -EINVAL: no open medium. Any thread that may wait until its name is looked up and, of
 * "file", its first page is read.
 */
int weft_persist_check(struct weft_persist *p);
/**
 * Unmap, and let the medium go. All regions registered on it must be gone, and no flush or
 * read-back be under way, which is not checked. NULL is closed already. Set-up thread; of two
 * threads that close one, one is refused.
 */
void weft_persist_close(struct weft_persist *p);

/** Say that [off, off+len) was written by the local CPU; placement by peers is marked by weft
 * itself. Any thread. */
static inline void
weft_persist_mark(struct weft_persist *p, uint64_t off_bytes, uint64_t len_bytes)
{
	if (p->dirty == NULL || len_bytes == 0)
		return;
	for (uint64_t pg = off_bytes >> WEFT_PERSIST_PAGE_SHIFT;
	     pg <= (off_bytes + len_bytes - 1) >> WEFT_PERSIST_PAGE_SHIFT; pg++)
		__atomic_store_n(&p->dirty[pg], 1, __ATOMIC_RELEASE);
}

/** Flush now and wait (set-up and tools; never on a polling core). -EINVAL: no open medium, or a
 * range outside it; else as ops->flush says. */
int weft_persist_flush_wait(struct weft_persist *p, uint64_t off_bytes, uint64_t len_bytes);

/**
 * -EEXIST (name taken), -EINVAL (NULL, an empty required slot), -ENOSPC (32 drivers). Before
 * main(): no other thread may look at the drivers meanwhile, which is not checked.
 */
int weft_persist_register(const struct weft_persist_ops *ops);
/** The same; a failure is said on stderr and ends the program. */
void weft_persist_register_or_die(const struct weft_persist_ops *ops);
/** NULL when there is no such driver, or no name. Any thread. */
const struct weft_persist_ops *weft_persist_find(const char *name);
/** The i-th driver, NULL past the last. Any thread. */
const struct weft_persist_ops *weft_persist_get(unsigned int i);

#define WEFT_PERSIST_REGISTER(id, ops)                                                             \
	static void __attribute__((constructor)) weft_persist_ctor_##id(void)                      \
	{                                                                                          \
		weft_persist_register_or_die(&(ops));                                              \
	}

WEFT_API_END

#endif /* WEFT_PERSIST_H */
