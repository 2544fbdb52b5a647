/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_STAGING_H
#define WEFT_STAGING_H

/**
 * @file Staging memory: a fixed amount of memory that all clients of one worker share, for data
 * between the network and a volume. Its size bounds what a target needs, however many clients it
 * has and however long their requests are.
 *
 * A pool belongs to one worker, so it needs no lock. A process with several workers gives each a
 * part of its memory: a pool that is shared by all would be a lock for each request, and its pieces
 * would move between the caches and NUMA nodes of the workers. The memory is the caller's, who
 * tells the device (weft_block_mem_add()) and the network (weft_mr_reg()) of it once.
 *
 * Memory is handed out in pieces of equal length. A request names its octets, and gets all pieces
 * at once or waits with none, so two requests cannot hold what the other one needs. A holder waits
 * for nothing of the pool: so it does not ask for more on behalf of the same work.
 *
 * A request may ask for neighbours (`contiguous`), for work that needs its memory in one piece. It
 * waits while none are free, however many other pieces are. Its turn comes, and is kept, like that
 * of any other request. So it gets its memory at the latest when all others have given theirs back,
 * but for those of a group that never does.
 *
 * Fairness. Requests that wait are served one client after the other, each client's in order. Where
 * the next client's request does not fit, all wait, so that a long request is not overtaken for
 * ever. A client is passed over while it holds its share or more: the pool divided by the number of
 * clients that hold or wait for memory, but at least what one request may have. So one client alone
 * may use the whole pool, and gives it up as its requests end.
 *
 * Room. Requests of a client that means no good never end, so what it has it does not give up. With
 * `leave_room` a client gets no memory behind which it would hold more than is left to others, of
 * the pool and of the request's group; but it may always have what one request may. So one client
 * holds half at most, and n of them leave about a part in 2^n to the next one.
 *
 * Groups. Requests may belong to a group, for example to those of one device, which has a limit of
 * its own. Those of a group at its limit are passed over, and hold up others of their group alone:
 * each client's requests wait in *lanes*, of which each is of one group, and which take turns.
 *
 * A device may keep its requests for ever. So the limit is one of octets and one of *areas*: the
 * pool is divided into areas, each as long as the longest request or longer, and a group may use
 * that part of the areas that it may use of the octets. The other areas stay whole for others,
 * however scattered its requests are. And its owner sets its requests *apart*: they are no longer a
 * part of their clients' shares, so these clients have all of their share for other devices.
 *
 * Thread: the worker's. Nothing blocks.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

#define WEFT_STAGING_MAX_PIECES 64U /**< of one request */

#define WEFT_STAGING_AREAS 64U /**< of a pool, at most */

struct weft_staging;
struct weft_staging_req;

struct weft_staging_attr {
	void *memory;         /**< at a multiple of piece_bytes, up to 4096 */
	uint64_t bytes;       /**< the pool: a multiple of piece_bytes */
	uint32_t piece_bytes; /**< a multiple of 512, 4096 to 16 MiB */
	/** Longest request; a multiple of piece_bytes, up to WEFT_STAGING_MAX_PIECES of them and
	 * half of the pool. 0: as long as these allow. */
	uint64_t max_req_bytes;
	bool leave_room; /**< see "Room" */
};

/** A limit for all requests of some kind. The owner embeds it, and zeroes it. */
struct weft_staging_group {
	uint64_t max_bytes; /**< that they may hold together; at least a request's; 0: no limit.
	                         Not changed while a request of the group holds memory */
	uint64_t held_bytes;
	LIST_HEAD(, weft_staging_req) held; /**< requests that hold memory */
	/* for the pool */
	uint64_t waits_round; /**< in which a request of the group waits for the group's memory */
	uint64_t room_round;  /**< in which one of room_of was held back to leave room */
	const struct weft_staging_client *room_of;
	uint64_t starved_mark; /**< of weft_staging_mark_starved() */
	struct staging_areas {
		uint32_t nareas; /**< in which it holds pieces */
		uint32_t pieces[WEFT_STAGING_AREAS];
	} areas;
};

/** Where requests of a client wait, in order. The owner embeds it. */
struct weft_staging_lane {
	TAILQ_ENTRY(weft_staging_lane) link; /**< in the client's lanes, while requests wait */
	TAILQ_HEAD(, weft_staging_req) waiting;
	struct weft_staging_group *group; /**< of all its requests; NULL: none */
};

/** One who asks for memory. The owner embeds it. */
struct weft_staging_client {
	TAILQ_ENTRY(weft_staging_client) link; /**< of those that wait */
	TAILQ_HEAD(, weft_staging_lane) lanes; /**< with requests that wait */
	struct weft_staging_lane own;          /**< for requests without a lane */
	uint64_t held_bytes;                   /**< without apart_bytes */
	uint64_t apart_bytes;                  /**< of requests that were set apart */
	uint32_t nwaiting;
	/* counters */
	uint64_t grants, waits;
	void *owner;
};

/** One piece of work's memory. The owner embeds it, and zeroes it before its first use. */
struct weft_staging_req {
	struct weft_staging_client *client;
	struct weft_staging_lane *lane; /**< of the client, for all of its use; NULL: its own */
	uint64_t bytes;                 /**< 1 to max_req_bytes */
	bool contiguous;                /**< all in one piece of memory: iovs is 1 */
	/** The memory is there. In weft_staging_poll(), or not called: weft_staging_get() gave it.
	 *  */
	void (*granted)(struct weft_staging_req *req);
	void *owner;
	/** Segments of bytes octets in all; neighbouring pieces are one. */
	struct iovec iov[WEFT_STAGING_MAX_PIECES];
	uint32_t iovs;

	LIST_ENTRY(weft_staging_req) group_link; /**< in the group's `held` */
	/* for the pool */
	TAILQ_ENTRY(weft_staging_req) link;
	bool apart;
	bool for_room; /**< it was held back by `leave_room` */
	uint32_t pieces[WEFT_STAGING_MAX_PIECES];
	uint32_t npieces;
	uint32_t state;
};

struct weft_staging_stats {
	uint64_t grants;         /**< requests that got memory */
	uint64_t waits;          /**< requests that had to wait */
	uint64_t room_waits;     /**< of these, that were held back by `leave_room` */
	uint64_t passed;         /**< times that a client was passed over because of its share */
	uint64_t free_bytes;     /**< now */
	uint64_t min_free_bytes; /**< least since the creation */
	uint32_t waiting;        /**< requests now */
	uint32_t clients;        /**< that hold or wait for memory now */
};

/** -EINVAL: attributes out of range. -ENOMEM. */
int weft_staging_create(const struct weft_staging_attr *attr, struct weft_staging **out);
/** Does nothing for NULL. -EBUSY: memory is held, or a request waits. */
int weft_staging_destroy(struct weft_staging *s);
/** The longest request. */
uint64_t weft_staging_max_req(const struct weft_staging *s);
/** The share of a client: the pool divided by those that hold or wait for memory. */
uint64_t weft_staging_share(const struct weft_staging *s);
/** Set starved_mark of the groups for whose memory clients wait that have none at all. mark: not 0,
 * another one each time. Returns whether there is such a client. */
bool weft_staging_mark_starved(struct weft_staging *s, uint64_t mark);
/** weft_staging_stats.room_waits. */
uint64_t weft_staging_room_waits(const struct weft_staging *s);
/** Set `owner` before; the rest is overwritten. */
void weft_staging_client_init(struct weft_staging_client *client);
/** An empty lane. group may be NULL. */
void weft_staging_lane_init(struct weft_staging_lane *lane, struct weft_staging_group *group);
/**
 * Ask for memory. 0: it is there. -EINPROGRESS: the request waits; granted() follows.
 * - -EMSGSIZE: more than weft_staging_max_req(), or than its group may ever hold
 * - -EINVAL: no client, no granted(), 0 octets
 * - -EBUSY: the request waits, or has memory
 */
int weft_staging_get(struct weft_staging *s, struct weft_staging_req *req);
/** Give memory back, or stop waiting; granted() is not called then. Nothing for others. */
void weft_staging_put(struct weft_staging *s, struct weft_staging_req *req);
/**
 * Set a request's memory apart: until it is given back it is no part of its client's share. For
 * work that does not end although nothing of the pool keeps it from that. Does nothing for a
 * request that holds no memory, or was set apart before.
 */
void weft_staging_set_apart(struct weft_staging *s, struct weft_staging_req *req);
/**
 * Serve requests that wait, if memory was given back. Returns how many granted() were called. A
 * call inside granted() does nothing.
 */
unsigned int weft_staging_poll(struct weft_staging *s);
void weft_staging_query(const struct weft_staging *s, struct weft_staging_stats *stats);

#endif /* WEFT_STAGING_H */
