/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RBD_PROTO_H
#define RBD_PROTO_H

/**
 * @file What the block driver "rbd" and its process weft-rbd say to each other. It stands alone.
 *
 * Both are of one build, on one machine. The driver does not trust the process to be right: each
 * number that comes from it is checked, and nothing that it writes can make the driver read or
 * write beyond the shared memory.
 *
 * The process is started with three descriptors:
 *
 * - RBD_FD_CALL, a socket of packets. The process begins with one struct rbd_hello. Then the driver
 *   sends struct rbd_call; those but RBD_CHAN_CLOSE are answered by one struct rbd_answer each, in
 *   order. When the socket's other end is closed, the process ends what it has, gives the image's
 *   lock back, and exits.
 * - RBD_FD_PAGE, memory with one struct rbd_page.
 * - RBD_FD_EVENT, an eventfd that the process writes when it has changed the page.
 *
 * A channel has memory of its own, and two eventfds: RBD_CHAN_OPEN carries the three descriptors.
 * In that memory lie one struct rbd_ring, the submissions, the completions, and slots for data:
 *
 *     0                               struct rbd_ring
 *     RBD_PAGE                        struct rbd_sqe [tags]
 *     then                            struct rbd_cqe [tags]
 *     then, at a multiple of RBD_PAGE slots of RBD_SLOT_BYTES
 *
 * An index counts on without end; its entry is index % tags. A *tag* is the number of a request
 * that is under way: it is in use until its completion was taken. So neither ring can overflow.
 * One thread of either side uses a channel.
 *
 * A side that is about to sleep sets its flag `sleeps`, and then looks at the other's index once
 * more. A side that has moved its index then looks at the other's flag, and if it is set clears it
 * and writes the eventfd. Both orders are sequentially consistent.
 */

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#define RBD_MAGIC   0x77726264U /**< "wrbd" */
#define RBD_VERSION 2

#define RBD_FD_CALL  3
#define RBD_FD_PAGE  4
#define RBD_FD_EVENT 5
#define RBD_FDS      6 /**< first descriptor that the process does not get */

#define RBD_PAGE       4096U
#define RBD_SLOT_BYTES 16384U
#define RBD_REQ_SLOTS  16U /**< most slots of one request */
#define RBD_MAX_BYTES  (RBD_SLOT_BYTES * RBD_REQ_SLOTS)
#define RBD_MAX_TAGS   4096U
#define RBD_MAX_SLOTS  512U
#define RBD_MAX_CHANS  256U
#define RBD_ADDR_BYTES 256U
#define RBD_TEXT_BYTES 256U

/**
 * What an image is, and whether it could be opened. The same process can be started to blocklist a
 * client of the cluster: then `status` says whether that was done, and it exits.
 */
struct rbd_hello {
	uint32_t magic, version;
	int32_t status; /**< 0 or -errno; then only `reason` is set */
	uint32_t can;   /**< WEFT_BLOCK_CAN_* */
	uint64_t bytes; /**< length of the image */
	uint32_t atomic_bytes, discard_bytes;
	uint32_t compare_write_bytes;
	uint32_t cut_bytes; /**< a compare-and-write does not cross a multiple of this; 0: it may */
	char address[RBD_ADDR_BYTES]; /**< of this client of the cluster, to blocklist it */
	char mechanism[96];
	char reason[RBD_TEXT_BYTES];
};

/** The process changes it, and then writes RBD_FD_EVENT. */
struct rbd_page {
	_Atomic uint64_t bytes; /**< length of the image now */
	/** 0, -ESHUTDOWN: another client has taken the image over, or -EIO */
	_Atomic int32_t status;
};

enum rbd_what {
	RBD_CHAN_OPEN,  /**< of number `chan`, with `tags` and `slots`; answered */
	RBD_CHAN_CLOSE, /**< the driver does not use its memory any more; not answered */
	RBD_CLOSE,      /**< close the image; answered, and the process exits */
};

struct rbd_call {
	uint32_t what, chan;
	uint32_t tags;  /**< a power of 2, up to RBD_MAX_TAGS */
	uint32_t slots; /**< up to RBD_MAX_SLOTS */
};

struct rbd_answer {
	uint32_t what, chan;
	int32_t status;
};

/** Head of a channel's memory. Each line of the cache has one writer. */
struct rbd_ring {
	uint32_t magic, tags, slots; /**< constant */
	/* the driver writes: */
	alignas(64) _Atomic uint32_t sq_tail;
	_Atomic uint32_t driver_sleeps; /**< cleared by the process, too */
	/* the process writes: */
	alignas(64) _Atomic uint32_t cq_tail;
	_Atomic uint32_t process_sleeps; /**< cleared by the driver, too */
};
static_assert(sizeof(struct rbd_ring) <= RBD_PAGE, "the head of a channel fits a page");

/** A request. */
struct rbd_sqe {
	uint32_t tag;
	uint32_t run;   /**< which use of the tag this is; the completion repeats it */
	uint16_t op;    /**< enum weft_block_op */
	uint16_t flags; /**< WEFT_BLOCK_KEEP */
	uint32_t max_extents;
	uint64_t off_bytes, len_bytes;
	/**
	 * Of reads and writes: where the octets are, each slot but the last one full. Of extents:
	 * one, for an array of struct rbd_extent. Of a compare-and-write, which is not longer than
	 * a slot: first the octets to write, then those to compare. Of snapshots: first one struct
	 * rbd_snap, then one struct rbd_snap_data or an array of struct rbd_snapshot.
	 */
	uint16_t slot[RBD_REQ_SLOTS];
};
static_assert(sizeof(struct rbd_sqe) == 64, "a line of the cache");

struct rbd_cqe {
	uint32_t tag, run;
	/**
	 * 0 or -errno. Of a request that changes the image -ETIMEDOUT means that the cluster did
	 * not answer in time: the change may still land.
	 */
	int32_t status;
	uint32_t extents; /**< how many were found */
	uint64_t done_bytes;
	uint64_t zero;
};
static_assert(sizeof(struct rbd_cqe) == 32, "half a line of the cache");

struct rbd_extent {
	uint64_t off_bytes, len_bytes;
	uint64_t hole; /**< 0 or 1 */
};
#define RBD_MAX_EXTENTS ((uint32_t)(RBD_SLOT_BYTES / sizeof(struct rbd_extent)))

#define RBD_SNAP_NAME_BYTES 64U
#define RBD_SNAP_PATCHES    2U
#define RBD_SNAP_PATCH      4096U

/** Arguments and results of a request for snapshots, as struct weft_block_snap. */
struct rbd_snap {
	uint32_t what, most, patches, max_list;
	char name[RBD_SNAP_NAME_BYTES], from[RBD_SNAP_NAME_BYTES]; /**< "": none */
	struct {
		uint64_t off_bytes;
		uint32_t len_bytes, guard_off_bytes, guard_bytes, zero;
	} patch[RBD_SNAP_PATCHES];
	/* results */
	uint32_t found, more;
	char place[128], reason[160];
};
static_assert(sizeof(struct rbd_snap) <= RBD_SLOT_BYTES, "it fits a slot");

/** The octets of patches, and those that they compare. */
struct rbd_snap_data {
	uint8_t data[RBD_SNAP_PATCHES][RBD_SNAP_PATCH], guard[RBD_SNAP_PATCHES][RBD_SNAP_PATCH];
};
static_assert(sizeof(struct rbd_snap_data) <= RBD_SLOT_BYTES, "it fits a slot");

/** One snapshot of a list. */
struct rbd_snapshot {
	char name[RBD_SNAP_NAME_BYTES];
	uint64_t bytes, created_ns;
};
#define RBD_MAX_SNAPSHOTS ((uint32_t)(RBD_SLOT_BYTES / sizeof(struct rbd_snapshot)))

static inline struct rbd_sqe *
rbd_sq(void *base)
{
	return (struct rbd_sqe *)(void *)((uint8_t *)base + RBD_PAGE);
}

static inline struct rbd_cqe *
rbd_cq(void *base, uint32_t tags)
{
	return (struct rbd_cqe *)(void *)(rbd_sq(base) + tags);
}

static inline uint64_t
rbd_slots_off(uint32_t tags)
{
	uint64_t end =
	        RBD_PAGE + (uint64_t)tags * (sizeof(struct rbd_sqe) + sizeof(struct rbd_cqe));

	return (end + RBD_PAGE - 1) / RBD_PAGE * RBD_PAGE;
}

/** Length of a channel's memory. */
static inline uint64_t
rbd_ring_bytes(uint32_t tags, uint32_t slots)
{
	return rbd_slots_off(tags) + (uint64_t)slots * RBD_SLOT_BYTES;
}

#endif /* RBD_PROTO_H */
