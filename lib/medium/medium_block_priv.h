/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MEDIUM_BLOCK_PRIV_H
#define MEDIUM_BLOCK_PRIV_H

/**
 * @file What the sources of block devices share: medium_block.c has the registry and devices,
 * medium_block_chan.c channels, medium_block_req.c the way of a request through its channel,
 * medium_block_snap.c what is special to snapshots.
 */

#include <pthread.h>
#include <stdatomic.h>

#include "medium_priv.h"
#include "weft_handle.h"
#include <weft/block.h>

#define BLOCK_DFLT_CHANNELS 64
#define BLOCK_DFLT_DEPTH    128
#define BLOCK_MAX_DEPTH     4096
#define BLOCK_MAX_MEM       16

/** Where a request is: one list of its channel for each. */
enum block_where {
	BLOCK_IDLE,     /**< not under way; no list */
	BLOCK_WAITING,  /**< the driver has no room for it yet */
	BLOCK_BEHIND,   /**< a flush behind another flush of the channel */
	BLOCK_MERGED,   /**< a flush that the one with the driver does as well */
	BLOCK_DRIVER,   /**< with the driver */
	BLOCK_OVERDUE,  /**< with the driver, and its late() is to be called */
	BLOCK_LATE,     /**< with the driver, and its late() was called */
	BLOCK_HELD,     /**< a flush that succeeded, until all that it overlapped have ended */
	BLOCK_FINISHED, /**< its done() is to be called */
	BLOCK_WHERES
};

struct block_list {
	struct weft_block_req *first, *last;
	uint32_t n;
};

/** Written by the channel's thread alone, read by any. */
struct block_counters {
	_Atomic uint64_t requests[WEFT_BLOCK_OPS], errors[WEFT_BLOCK_OPS], octets[WEFT_BLOCK_OPS];
	_Atomic uint64_t late, merged, max_ns;
};

struct block_chan {
	struct weft_block_chan pub;
	struct block_chan *next_chan; /**< under the device's lock */
	void (*event)(struct weft_block_chan *c, const struct weft_block_state *state);
	struct block_list list[BLOCK_WHERES];
	uint64_t now_ns;       /**< time of the last poll */
	uint64_t deadline_ns;  /**< no request is late before this */
	uint32_t changes;      /**< of block_dev, of which event() was told */
	uint32_t lost_flushes; /**< likewise */
	bool in_poll;
	bool flushing; /**< a flush is waiting or with the driver */
	/** The device is fenced, and this channel gives the driver nothing any more. */
	atomic_bool fenced;
	/** Lowest number of a flush, or request with FUA, that the driver has; 0: it has none. */
	_Atomic uint64_t flush;
	/* for the statistics */
	struct block_counters count;
	_Atomic uint32_t waiting, under_way;
	_Atomic uint64_t oldest_ns;
};

struct block_dev {
	struct weft_block pub;
	/** for the list of channels, changes of the state, and calls of set-up threads */
	pthread_mutex_t lock;
	struct block_chan *chans;
	uint32_t nchans, max_chans, nmem;
	struct block_counters closed; /**< of channels that are closed */
	/* the state; written under the lock, read by all */
	_Atomic uint64_t bytes;
	_Atomic int status;
	_Atomic uint32_t lost_flushes;
	_Atomic int lost_status; /**< changes before lost_flushes does */
	atomic_bool fenced;
	_Atomic uint32_t changes; /**< counts changes of the members above */
	bool quiet;               /**< fenced, and nothing is left that could land */
	/** counts flushes, and requests with FUA, given to the driver, on all channels */
	_Atomic uint64_t flushes;
};

static inline struct block_dev *
block_dev_of(const struct weft_block *b)
{
	return (struct block_dev *)(uintptr_t)b;
}

static inline struct block_chan *
block_chan_of(const struct weft_block_chan *c)
{
	return (struct block_chan *)(uintptr_t)c;
}

static inline struct block_dev *
block_dev_of_chan(const struct block_chan *c)
{
	return block_dev_of(c->pub.block);
}

/** Add to a counter that this thread alone writes. */
static inline void
block_add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
	                      memory_order_relaxed);
}

/** Requests that the driver has. */
static inline uint32_t
block_with_driver(const struct block_chan *c)
{
	return c->list[BLOCK_DRIVER].n + c->list[BLOCK_OVERDUE].n + c->list[BLOCK_LATE].n;
}

/** A flush has failed with this status: count it, under no lock. Any thread. */
void medium_block_flush_lost(struct block_dev *d, int status);
/** Whether every flush and request with FUA up to number `upto` has ended, on all channels. Takes
 * the device's lock. */
bool medium_block_flushes_ended(struct block_dev *d, uint64_t upto);
/** The state as of now. Takes the device's lock. Returns the number of changes up to it. */
uint32_t medium_block_state(struct block_dev *d, struct weft_block_state *state);

/* ---- medium_block_snap.c ---- */

/** The errors of weft_block_submit() of a request for snapshots. Clears its results. */
int medium_block_snap_check(const struct weft_block_info *i, const struct weft_block_req *req);
/** The request has ended: its reason is the line of its status. */
void medium_block_snap_done(struct weft_block_req *req);

#endif /* MEDIUM_BLOCK_PRIV_H */
