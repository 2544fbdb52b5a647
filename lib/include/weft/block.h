/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_BLOCK_H
#define WEFT_BLOCK_H

/**
 * @file Block devices: raw storage of any size, read and written by asynchronous requests over the
 * caller's memory. Installed; stands alone. The caller is what exports storage that does not fit in
 * memory. docs/drivers.md shows how to add a driver.
 *
 * Three objects. A *device* (struct weft_block) is an open file, disk or image. A *channel* (struct
 * weft_block_chan) is one worker's way to the device. A *request* (struct weft_block_req) is
 * embedded by its owner, and is submitted to one channel.
 *
 * Threads. A set-up thread (weft/persist.h) may block; it opens and closes devices and calls
 * weft_block_mem_add(), weft_block_check(), weft_block_fence() and weft_block_wait(). All calls
 * with a channel belong to the channel's thread: the one that has opened it, or, if that thread
 * hands the channel over before its first request, the one that uses it from then on. They never
 * block, take no lock that another thread holds for long, and read no clock: weft_block_poll() is
 * given the time. The other calls may be made by any thread.
 *
 * What holds of a request:
 *
 * - weft_block_submit() takes it however many are under way. What the channel's depth does not
 *   admit waits in the channel, in order. So the caller bounds what it submits by its own memory.
 * - done() is called exactly once for each request that was taken, by weft_block_poll() on the
 *   channel's thread, and never inside weft_block_submit(). Until then the request, its iovec, its
 *   lists and the memory belong to the driver.
 * - **done() is final.** After it no octet of the request reaches the medium, whatever the status
 *   is. A backend that gives up on a write which may still land must not say so by done(): the
 *   request is *late*.
 * - A request whose deadline passes is late: late() is called once. Its result is unknown. It is
 *   still under way, and its range and memory must not be used for anything else until done().
 *   weft_block_cancel() asks to end it early; weft_block_fence() ends all of them.
 * - A read or write is done as a whole (status 0), or it has failed. A write that has failed may
 *   have changed any part of its range. The exceptions are -ECANCELED, -ETIMEDOUT, -ENODEV,
 *   -ESHUTDOWN and -EILSEQ: then nothing was changed.
 *
 * Order. There is none between requests that are under way at the same time. Two that overlap, of
 * which one writes, give any mix of old and new octets: the caller holds the second one back until
 * done() of the first. There is no barrier; weft_block_submit() after done() is the only order.
 *
 * Durability. A write is durable when it is done with WEFT_BLOCK_FUA, or when a later flush is done
 * with status 0. A flush covers the writes, discards and zeroes of all channels for which done()
 * was called with status 0 before the flush was submitted, on any thread (the caller orders the two
 * threads). It does not cover requests that were still under way. When a flush fails, each write
 * that it would have covered and that no earlier flush has made durable may be lost: `lost_flushes`
 * of weft_block_state grows before any later flush succeeds, and flushes that were under way at the
 * same time fail with it, on every channel, as do writes without WEFT_BLOCK_FUA. weft does this,
 * not the driver, because some backends report a failure only once. A write with WEFT_BLOCK_FUA
 * that fails for the medium, or for room, counts as a failed flush as well. The caller writes that
 * data again, or tells its clients. What fails with another one's flush has the status
 * `lost_status`: -ENOSPC or -EDQUOT where no room was the cause, else -EIO.
 *
 * Status of a request, and what weft_block_class_of() makes of it:
 *
 * | status | class | |
 * |---|---|---|
 * | 0 | OK | |
 * | -EILSEQ | MISMATCH | compare-and-write: the octets differ; done_bytes is where |
 * | -ECANCELED, -ETIMEDOUT | GIVEN_UP | canceled, or late before the driver had it |
 * | -ENOSPC, -EDQUOT | SPACE | the backend has no room for a write |
 * | -ENODEV | OFFLINE | the device is offline; weft_block_state.status has the reason |
 * | -ESHUTDOWN | FENCED | this opener is fenced, by itself or by another owner |
 * | -EOPNOTSUPP | CALLER | the backend refuses this kind of request |
 * | -EIO and all others | MEDIUM | the medium failed for this range; other ranges may work |
 *
 * Requests for snapshots have statuses of their own (struct weft_block_snap).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <weft/api.h>

WEFT_API_BEGIN

struct weft_block_ops;
struct weft_persist;

/* ---- What a device is ---- */

/** Abilities of a device: weft_block_info.can. */
#define WEFT_BLOCK_CAN_WRITE         0x001 /**< not read-only */
#define WEFT_BLOCK_CAN_FUA           0x002 /**< WEFT_BLOCK_FUA of a write or zeroes */
#define WEFT_BLOCK_CAN_DISCARD       0x004
#define WEFT_BLOCK_CAN_ZEROES        0x008
#define WEFT_BLOCK_CAN_EXTENTS       0x010 /**< it knows holes; without it all is data */
#define WEFT_BLOCK_CAN_COMPARE_WRITE 0x020
#define WEFT_BLOCK_CAN_MEDIUM        0x040 /**< WEFT_BLOCK_MEDIUM of a read */
/** Offsets and lengths of reads and writes need not be multiples of block_bytes. */
#define WEFT_BLOCK_CAN_UNALIGNED 0x080
/** What was discarded reads as zeros; without it, as the old octets or as zeros. */
#define WEFT_BLOCK_CAN_DISCARD_ZEROES 0x100
/** WEFT_BLOCK_SNAPSHOT. What a file system or cluster refuses is known by the request alone. */
#define WEFT_BLOCK_CAN_SNAPSHOT 0x200

/** What keeps writes of an earlier opener from landing after a new one has opened the device. */
enum weft_block_fencing {
	WEFT_BLOCK_FENCING_NONE, /**< nothing: two openers are the operator's error */
	/**
	 * A lock of this host. A second open is refused (-EBUSY) as long as any request of the
	 * first opener can still land, also when that process was killed.
	 */
	WEFT_BLOCK_FENCING_HOST,
	/**
	 * The backend. An open that takes over makes the backend refuse the old owner's requests
	 * first, wherever it runs.
	 */
	WEFT_BLOCK_FENCING_BACKEND,
};

/** Constant while the device is open. */
struct weft_block_info {
	uint32_t can;         /**< WEFT_BLOCK_CAN_* */
	uint32_t block_bytes; /**< logical block: a power of 2; unit of offsets and lengths */
	/** The device reads and writes its medium in such blocks; a power of 2, >= block_bytes. */
	uint32_t physical_bytes;
	uint32_t optimal_bytes; /**< preferred length of a request, >= physical_bytes */
	uint32_t max_bytes;     /**< longest read or write; a multiple of block_bytes */
	uint32_t max_iovs;      /**< most segments of a read or write */
	/** Segments of reads and writes begin and end on multiples of this in memory: a power of 2;
	 * 1: anywhere. */
	uint32_t mem_align_bytes;
	/**
	 * A write that lies inside one aligned piece of so many octets is old or new as a whole
	 * after a crash. A power of 2.
	 */
	uint32_t atomic_bytes;
	uint32_t compare_write_bytes; /**< longest compare-and-write; 0: it has none */
	/** Discards work on whole pieces of so many octets; a part of a piece is left as it was. */
	uint32_t discard_bytes;
	uint64_t max_discard_bytes; /**< longest discard; likewise zeroes */
	uint64_t max_zeroes_bytes;
	bool persistent;     /**< flushed data survives a power failure */
	bool volatile_cache; /**< a write that is done may be lost until it is flushed */
	enum weft_block_fencing fencing;
	int numa_node; /**< where the device is; -1: unknown, or anywhere */
	/**
	 * The mapping of the medium itself (weft/persist.h), of a device in persistent memory:
	 * regions can be registered on it, so that no staging memory is needed. It ends with the
	 * close. NULL: there is none.
	 */
	struct weft_persist *persist;
	/** Without WEFT_BLOCK_CAN_SNAPSHOT: why, for people; NULL: the driver has none. */
	const char *no_snapshot;
	const char *driver;
	/** description for people: "direct I/O by io_uring to a block device", ... */
	char mechanism[96];
};

/** Changes while the device is open. */
struct weft_block_state {
	/** Length now. It grows when the backend grows. A backend that says that it was made
	 * shorter lowers it; a file that was cut has lost data, and goes offline. */
	uint64_t bytes;
	/**
	 * 0: online. Else the reason why the device is offline, as of weft_persist_check():
	 * - -EIO: the medium was cut, or it has failed as a whole; permanent
	 * - -ENOENT: the name belongs to no file, or to another one; until it is back
	 * - -ENODEV: the device was removed
	 * - -ESTALE: another process has written to it; permanent
	 * - -ESHUTDOWN: another owner has taken over; permanent
	 *
	 * Permanent: until the device is opened again.
	 */
	int status;
	uint32_t lost_flushes; /**< failed flushes, see Durability */
	bool fenced;           /**< weft_block_fence() was called: no new request is taken */
	/** why the last of them failed: -EIO, -ENOSPC or -EDQUOT; 0: none has */
	int lost_status;
};

/** How to open one device. */
struct weft_block_attr {
	size_t size;        /**< sizeof(struct weft_block_attr) */
	const char *driver; /**< "uring", "pmem", "mem"; as registered */
	const char *path;   /**< file, device or image; "mem" has none */
	/**
	 * Options of the driver: "key=value,key=value"; NULL or "": none. A value cannot have a
	 * comma.
	 */
	const char *options;
	uint64_t bytes;    /**< length; 0: that of the file or device */
	bool create;       /**< create the file, or extend it when it is shorter; sparse */
	bool read_only;    /**< open it without the right to write */
	uint32_t channels; /**< channels that may be open at once; 0: 64 */
	int numa_node;     /**< for memory that the driver allocates; -1: any */
	/** If the open fails: one line that says what is wrong with what; NULL: not wanted. */
	char *reason;
	size_t reason_bytes;
};

struct weft_block {
	uint64_t handle[2]; /**< for weft; the first member */
	const struct weft_block_ops *ops;
	struct weft_block_info info; /**< set by ops->open, constant from then on */
	void *priv;                  /**< the driver's */
};

/* ---- Requests ---- */

enum weft_block_op {
	WEFT_BLOCK_READ,
	WEFT_BLOCK_WRITE,
	/** Make durable what Durability says. Has no range: off_bytes and len_bytes are 0. */
	WEFT_BLOCK_FLUSH,
	/** The octets are not needed any more. May be without effect. */
	WEFT_BLOCK_DISCARD,
	WEFT_BLOCK_ZEROES, /**< the range reads as zeros from now on */
	/**
	 * Compare len_bytes octets of the device with `expect`. If they are equal, write iov, in
	 * one step: of two that are under way at once one sees the other's octets.
	 */
	WEFT_BLOCK_COMPARE_WRITE,
	/** Tell which parts of the range are data and which read as zeros without using space. */
	WEFT_BLOCK_EXTENTS,
	/** Make, list or remove snapshots, or make a clone: `snap`. No range, as FLUSH. */
	WEFT_BLOCK_SNAPSHOT,
	WEFT_BLOCK_OPS
};

/** Flags of a request. */
#define WEFT_BLOCK_FUA    0x1 /**< write, zeroes, compare-and-write: durable when done */
#define WEFT_BLOCK_MEDIUM 0x2 /**< read: what the medium holds, past every cache of this host */
#define WEFT_BLOCK_KEEP   0x4 /**< zeroes: keep the space, so that a later write finds room */

/** A piece of a range, as WEFT_BLOCK_EXTENTS found it. */
struct weft_block_extent {
	uint64_t off_bytes, len_bytes;
	bool hole; /**< reads as zeros, and uses no space */
};

/* ---- Snapshots and clones ---- */

/** Room for the name of a snapshot or clone, with its final zero. */
#define WEFT_BLOCK_SNAP_NAME_BYTES 64

/**
 * What WEFT_BLOCK_SNAPSHOT does. A *snapshot* is all of the device as it was at one moment; it is
 * never written. A *clone* is a device of its own with these octets, which is written without an
 * effect on others. Both share the backend's blocks with the device until these are written.
 */
enum weft_block_snap_what {
	/**
	 * Make the snapshot `name`. It has every write that was done before the request was
	 * submitted. A write that is under way at the same time may be in it, in part: who needs
	 * less than that has none under way. It survives a power failure as far as it has what was
	 * flushed: the caller flushes first.
	 */
	WEFT_BLOCK_SNAP_CREATE,
	/** List snapshots in the order of their names, from behind `name` on; NULL: all. */
	WEFT_BLOCK_SNAP_LIST,
	WEFT_BLOCK_SNAP_REMOVE, /**< remove the snapshot `name` */
	/** Make the clone `name` of the snapshot `from`, or as CREATE of the present state (NULL).
	 */
	WEFT_BLOCK_SNAP_CLONE,
	WEFT_BLOCK_SNAP_WHATS
};

/** A snapshot, as WEFT_BLOCK_SNAP_LIST found it. */
struct weft_block_snapshot {
	char name[WEFT_BLOCK_SNAP_NAME_BYTES];
	uint64_t bytes;      /**< length of the device then */
	uint64_t created_ns; /**< since 1970 */
};

/**
 * Octets of a snapshot or clone that differ from those of the device. They are there when its name
 * is. A backend whose snapshots cannot be written makes none in them.
 */
struct weft_block_patch {
	uint64_t off_bytes;
	uint32_t len_bytes; /**< at most 4096 */
	/** If these octets, from the patch's begin on, are not those of the patch, the request
	 * fails with -ESTALE. 0 octets: they are not compared. */
	uint32_t guard_off_bytes, guard_bytes;
	const void *data;
	const void *guard; /**< guard_bytes octets */
};
#define WEFT_BLOCK_SNAP_PATCHES 2

/**
 * What a request for snapshots is about. Its owner zeroes it, and keeps it until done(). Status of
 * the request, each with one line in `reason`:
 * - -EOPNOTSUPP: the backend has no snapshots, or not this way
 * - -EEXIST: there is one of that name
 * - -ENOENT: there is no such snapshot
 * - -EBUSY: the snapshot is in use: it is open, or the backend needs it for a clone
 * - -EDQUOT: there are `most` already
 * - -ENOSPC: no room
 * - -ENAMETOOLONG: the backend has no such long names
 * - -ESTALE: the guard of a patch differs
 * - -EACCES, -EPERM, -EROFS: the backend does not permit it
 * - -ECANCELED, -ENODEV, -ESHUTDOWN, -EIO: as of other requests
 *
 * A create, remove or clone that fails has changed nothing. After -EIO it may have been done, and
 * never in part: a list tells.
 */
struct weft_block_snap {
	enum weft_block_snap_what what;
	/** CREATE, REMOVE, CLONE: see weft_block_snap_name_ok(). */
	const char *name;
	const char *from; /**< CLONE */
	/** CREATE, CLONE: refuse it if there are so many snapshots, or clones; 0: no limit. */
	uint32_t most;
	/** CREATE, CLONE: now, since 1970, for a backend that keeps no time itself. */
	uint64_t created_ns;
	/** CREATE, CLONE. */
	struct weft_block_patch patch[WEFT_BLOCK_SNAP_PATCHES];
	uint32_t patches;
	/** LIST: room for so many; how many were found, and whether there are more behind them. */
	struct weft_block_snapshot *list;
	uint32_t max_list;
	/* results */
	uint32_t found;
	bool more;
	/** CREATE, CLONE: name of the file without its folder, or of the image; "": it is longer */
	char place[128];
	char reason[160]; /**< one line; "" if the status is 0 */
};

/** Whether a name can be that of a snapshot or clone: 1 to 63 of A-Z a-z 0-9 . _ -, which begin
 * with a letter or digit. Any thread. */
bool weft_block_snap_name_ok(const char *name);
/** Write snap->reason. Any thread. Returns status. For drivers. */
int weft_block_snap_refuse(struct weft_block_snap *snap, int status, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
/** Take a snapshot into the list of a LIST, which stays in order; `more` is set if one finds no
 * room. For drivers, which may call it in any order of names. */
void weft_block_snap_found(struct weft_block_snap *snap, const struct weft_block_snapshot *s);

/** One request. Its owner embeds it, zeroes it before its first use, and keeps it until done(). */
struct weft_block_req {
	enum weft_block_op op;
	uint32_t flags; /**< WEFT_BLOCK_FUA, ... */
	/** Multiples of block_bytes, unless the device can WEFT_BLOCK_CAN_UNALIGNED. */
	uint64_t off_bytes, len_bytes;
	/**
	 * Memory of a read, write or compare-and-write: segments of len_bytes octets in all. Memory
	 * that weft_block_mem_add() was told of saves the kernel its look-up.
	 */
	const struct iovec *iov;
	uint32_t iovs;
	/** Of EXTENTS: room for so many; how many are filled. They adjoin each other, and begin at
	 * off_bytes. */
	uint32_t max_extents, extents_found;
	struct weft_block_extent *extents;
	const void *expect;           /**< compare-and-write: len_bytes octets */
	struct weft_block_snap *snap; /**< snapshot */
	/**
	 * Time after which the request is late, of the clock that weft_block_poll() is given; 0:
	 * never.
	 */
	uint64_t deadline_ns;
	/** Completion, in weft_block_poll(). May submit requests, this one too. */
	void (*done)(struct weft_block_req *req);
	/** May be NULL. The request is late; done() will follow. In weft_block_poll(). */
	void (*late)(struct weft_block_req *req);
	void *owner; /**< for the submitter */
	/* results, in done() */
	int status; /**< 0 or -errno, see above */
	/** Octets done: len_bytes of what has succeeded. EXTENTS: octets that the extents cover, at
	 * least one block. -EILSEQ: offset in the range of the first octet that differs. */
	uint64_t done_bytes;

	struct weft_block_chan *chan; /**< to which it was submitted */
	/* for weft */
	struct weft_block_req *next, *prev;
	uint64_t since_ns;
	uint32_t state, lost_flushes;
	uint64_t drv[24]; /**< for the driver */
};

/* ---- Devices ---- */

/**
 * The value of a key of attr->options, copied to value. Returns its length, or
 * - -ENOENT: attr has no such key
 * - -ENAMETOOLONG: it does not fit into value_bytes with its final zero
 * - -EINVAL: NULL, or an empty key
 */
int weft_block_option(const struct weft_block_attr *attr, const char *key, char *value,
                      size_t value_bytes);
/**
 * Write attr->reason. For drivers, in ops->open. Returns status, which is the errno to return.
 */
int weft_block_refuse(const struct weft_block_attr *attr, int status, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
/**
 * Open a device. Set-up thread.
 * - -ENODEV: no such driver
 * - -EINVAL: attributes of an unknown version; no driver; the driver has no such option, or its
 *   value is wrong; a length that is no multiple of the logical block
 * - -EBUSY: another opener has it, or its requests can still land
 * - -ENOENT, -EACCES, -EROFS, -ENOSPC, -ENOMEM, -EIO, and others of open(2)
 * - -ENOTSUP: this driver cannot serve that medium
 */
int weft_block_open(const struct weft_block_attr *attr, struct weft_block **out);
/**
 * Close a device. Flushes nothing that was not requested. Set-up thread. Does nothing for NULL.
 * -EBUSY: a channel is open. As a channel is closed only when no request is under way, nothing
 * lands after the close.
 */
int weft_block_close(struct weft_block *b);
/** Zeros for a device that is not open. Any thread. */
void weft_block_query(const struct weft_block *b, struct weft_block_info *info);
void weft_block_query_state(const struct weft_block *b, struct weft_block_state *state);
/**
 * Whether the medium is still the one that was opened, and how long it is. Updates the state, of
 * which each channel is told in its next poll. Returns the state's `status`, or -EINVAL. May block:
 * set-up thread. Call it a few times a second; a driver that learns of a loss by a request updates
 * the state without it.
 */
int weft_block_check(struct weft_block *b);
/**
 * Give the device memory of which requests will be made: staging memory. Set-up thread, before the
 * first channel is opened. The memory stays mapped until weft_block_close(). A driver without use
 * for it does nothing. -EBUSY: a channel is open. -ENOSPC: 16 ranges. -EINVAL: NULL, 0 octets. If
 * the system refuses to lock so much memory (RLIMIT_MEMLOCK), requests work all the same, and
 * `registered` of weft_block_chan is false.
 */
int weft_block_mem_add(struct weft_block *b, void *base, uint64_t bytes);
/**
 * End this opener's access to the medium, for good. From the first call on, submitted requests end
 * with -ESHUTDOWN. Those that wait end likewise. Those that the driver has are canceled where the
 * backend can, and end with what became of them.
 *
 * Returns 0 when none is under way on any channel and the backend is sure that none lands later;
 * -EINPROGRESS: not yet. Call it again, while the channels are polled; weft_block_stats has the
 * number of requests that are left, and since when. A request that a kernel or a network holds for
 * ever keeps it at -EINPROGRESS: then only the medium's own fencing helps, and this function never
 * claims more than it knows. Other errors are the backend's, and permanent. Set-up thread.
 */
int weft_block_fence(struct weft_block *b);

/* ---- Channels ---- */

/** How to open one channel. */
struct weft_block_chan_attr {
	size_t size;    /**< sizeof(struct weft_block_chan_attr) */
	uint32_t depth; /**< requests that the driver has at once, 1 to 4096; 0: 128 */
	/**
	 * May be NULL. The device's state has changed. In weft_block_poll(), before the completions
	 * of the same poll; several changes between two polls are one call.
	 */
	void (*event)(struct weft_block_chan *c, const struct weft_block_state *state);
	void *owner; /**< for the caller: weft_block_chan.owner */
};

struct weft_block_chan {
	uint64_t handle[2]; /**< for weft; the first member */
	struct weft_block *block;
	uint32_t depth;
	bool registered; /**< the driver uses the memory of weft_block_mem_add() as registered */
	/** It is weft_block_wait()'s: poll() may block, so the driver needs no threads for it. */
	bool waits;
	void *owner;
	void *priv; /**< the driver's */
};

/**
 * Open a channel. May block: set-up thread, or a worker's before it polls. -EINVAL; -ESHUTDOWN: the
 * device is fenced; -ENOSPC: weft_block_attr.channels are open; -ENOMEM, -EMFILE, or the driver's
 * error.
 */
int weft_block_chan_open(struct weft_block *b, const struct weft_block_chan_attr *attr,
                         struct weft_block_chan **out);
/**
 * Close a channel. Channel's thread, or a set-up thread when that one does not use it any more.
 * Does nothing for NULL. -EBUSY: a request is under way, or its done() is not called yet.
 */
int weft_block_chan_close(struct weft_block_chan *c);
/**
 * Submit a request. 0: taken; done() follows in a later weft_block_poll(). Else it was not taken:
 * - -EINVAL: no channel, request or done(); an unknown operation or flag; a range outside of the
 *   device; offset, length, segments or memory that do not fit weft_block_info
 * - -EBUSY: the request is under way
 * - -EOPNOTSUPP: weft_block_info.can says that the device cannot; of a snapshot snap->reason says
 *   why
 * - -EROFS: a change of a device that is open to be read only, and all of snapshots but a list
 *
 * An offline or fenced device takes requests, and ends them with -ENODEV or -ESHUTDOWN. A range of
 * length 0 is done without effect.
 */
int weft_block_submit(struct weft_block_chan *c, struct weft_block_req *req);
/**
 * Ask to end a request early. done() follows as ever: with -ECANCELED if it has changed nothing,
 * else with its result. Returns 0; -ENOENT: it is not under way on this channel.
 */
int weft_block_cancel(struct weft_block_chan *c, struct weft_block_req *req);
/**
 * Hand submitted requests to the backend, take results, and call done(), late() and event(). now_ns
 * does not go backwards. Returns how many done() were called; 0 for NULL and a closed channel.
 * A call of it inside these callbacks does nothing.
 */
unsigned int weft_block_poll(struct weft_block_chan *c, uint64_t now_ns);
/**
 * When weft_block_poll() has to be called again even if the descriptor is not readable: 0: at once;
 * a deadline; UINT64_MAX: never.
 */
uint64_t weft_block_next_ns(const struct weft_block_chan *c);
/**
 * A descriptor that is readable when the backend has results. weft_block_poll() clears it. -1:
 * none, because the driver has results only in a poll; then weft_block_next_ns() says when. A
 * thread that is to sleep polls the channel, then asks weft_block_next_ns(), then sleeps on the
 * descriptor.
 */
int weft_block_chan_fd(const struct weft_block_chan *c);
/**
 * Do one request and wait for it, on a channel of its own. For set-up and tools; blocks. req->done,
 * ->late and ->deadline_ns are ignored. Returns the errors of weft_block_chan_open() and of
 * weft_block_submit(), else the status.
 */
int weft_block_wait(struct weft_block *b, struct weft_block_req *req);

/* ---- Errors and counters ---- */

enum weft_block_class {
	WEFT_BLOCK_OK,
	WEFT_BLOCK_MISMATCH,
	WEFT_BLOCK_GIVEN_UP,
	WEFT_BLOCK_SPACE,
	WEFT_BLOCK_OFFLINE,
	WEFT_BLOCK_FENCED,
	WEFT_BLOCK_CALLER,
	WEFT_BLOCK_MEDIUM_FAILED,
};

/** The class of a request's status. Any thread. */
enum weft_block_class weft_block_class_of(int status);

/** Of all channels since the open, those that are closed included. */
struct weft_block_stats {
	uint64_t requests[WEFT_BLOCK_OPS]; /**< done with status 0 */
	uint64_t errors[WEFT_BLOCK_OPS];   /**< done with another status */
	uint64_t octets[WEFT_BLOCK_OPS];   /**< of those with status 0 */
	uint64_t late;                     /**< requests that were late */
	uint64_t merged;                   /**< flushes that another one has done as well */
	uint64_t events;                   /**< changes of the state */
	uint32_t channels;                 /**< open now */
	uint32_t waiting;                  /**< requests that are not with the driver yet */
	uint32_t under_way;                /**< requests that the driver has */
	uint64_t oldest_ns; /**< when the oldest one under way was submitted; UINT64_MAX: none is */
	/** longest time from submission to completion, as the polls' times say */
	uint64_t max_ns;
};

/** Any thread. Takes a lock: not for the data path. Zeros for a device that is not open. */
void weft_block_query_stats(const struct weft_block *b, struct weft_block_stats *stats);

/* ---- Drivers ---- */

struct weft_block_ops {
	/** [required] "uring", "mem". */
	const char *name;
	/**
	 * [optional] Keys of weft_block_attr.options, ended by NULL. A key that ends with a dot
	 * stands for all keys that begin with it. Others are refused before open().
	 */
	const char *const *options;
	/** [optional] Most channels; 0: no limit. */
	uint32_t max_channels;
	/**
	 * [required] Open the medium. Sets b->info (weft sets `driver` in it), b->priv, and the
	 * length in *bytes. A failure leaves the medium unchanged, and says why by
	 * weft_block_refuse(). Set-up thread; may block.
	 */
	int (*open)(struct weft_block *b, const struct weft_block_attr *attr, uint64_t *bytes);
	/** [required] Close. No channel is open. Set-up thread. */
	void (*close)(struct weft_block *b);
	/** [optional] Implements weft_block_check(): calls weft_block_set_state(). May block. */
	void (*check)(struct weft_block *b);
	/** [optional] Implements weft_block_mem_add(); no channel is open. */
	int (*mem_add)(struct weft_block *b, void *base, uint64_t bytes);
	/**
	 * [optional] The backend's part of weft_block_fence(), called when no request is under way,
	 * again until it returns 0. -EINPROGRESS: not yet. Set-up thread; may block.
	 */
	int (*fence)(struct weft_block *b);
	/** [optional] Set c->priv. c->depth requests are the most that submit() will be given. */
	int (*chan_open)(struct weft_block_chan *c);
	/** [optional] No request is under way. */
	void (*chan_close)(struct weft_block_chan *c);
	/**
	 * [required] Start a request, which weft has checked. Never blocks. 0: taken; the driver
	 * calls weft_block_done() exactly once, here or later on the channel's thread. -EAGAIN: no
	 * room now; weft offers it again in the next poll. A request that is wrong in itself is
	 * taken and done with an error.
	 *
	 * One flush of a channel is under way at most: weft merges those that come meanwhile.
	 * Requests of one channel may overlap; nothing has to be ordered.
	 */
	int (*submit)(struct weft_block_chan *c, struct weft_block_req *req);
	/**
	 * [optional] Hand what submit() has gathered to the backend, and take results. Never
	 * blocks. Without it every request is done inside submit().
	 */
	void (*poll)(struct weft_block_chan *c, uint64_t now_ns);
	/**
	 * [optional] Try to end a request that submit() has taken. Never blocks. May call
	 * weft_block_done() with -ECANCELED if nothing of it has landed or will.
	 */
	void (*cancel)(struct weft_block_chan *c, struct weft_block_req *req);
	/** [optional] Implements weft_block_chan_fd(). */
	int (*fd)(const struct weft_block_chan *c);
	/** [optional] Implements weft_block_next_ns() of what the driver itself has to do. */
	uint64_t (*next_ns)(const struct weft_block_chan *c);
};

/**
 * A driver has finished a request. The owner's done() runs later, in weft_block_poll(). Nothing of
 * the request may reach the medium after this call. -ECANCELED: nothing of it has. The errors
 * -ENODEV, -ETIMEDOUT and -ESHUTDOWN of a backend become -EIO, because they do not say that nothing
 * was changed. done_bytes as in the request; ignored for reads
 * and writes with status 0. Channel's thread.
 */
void weft_block_done(struct weft_block_req *req, int status, uint64_t done_bytes);
/** A driver's backend has given up on a request that may still land: it is late now. Channel's
 * thread. */
void weft_block_late(struct weft_block_req *req);
/** A driver has learnt a new length or status. Any thread. Does nothing if neither changes. */
void weft_block_set_state(struct weft_block *b, uint64_t bytes, int status);

/**
 * Register a driver. Before main(), or by a module that is loaded later. Any thread. -EEXIST: the
 * name is taken. -EINVAL: NULL, or an empty required slot. -ENOSPC: 32 drivers are registered.
 */
int weft_block_register(const struct weft_block_ops *ops);
/** The same. A failure is printed on stderr and ends the program. */
void weft_block_register_or_die(const struct weft_block_ops *ops);
/** Find a driver by name; NULL if there is none, or name is NULL. Any thread. */
const struct weft_block_ops *weft_block_find(const char *name);
/** The i-th driver; NULL behind the last. Any thread. */
const struct weft_block_ops *weft_block_get(unsigned int i);

#define WEFT_BLOCK_REGISTER(id, ops)                                                               \
	static void __attribute__((constructor)) weft_block_ctor_##id(void)                        \
	{                                                                                          \
		weft_block_register_or_die(&(ops));                                                \
	}

WEFT_API_END

#endif /* WEFT_BLOCK_H */
