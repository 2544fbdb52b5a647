/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VOL_PRIV_H
#define VOL_PRIV_H

/**
 * @file What the sources of the volume share. From below: vol_format.c (superblock codec),
 * vol_range.c (table of ranges), vol_iov.c (an operation's memory), vol_queue.c (where an operation
 * is and waits), vol_snap.c (snapshots), vol_step.c (the requests of the device that another
 * operation is made of), vol_chan.c (channels, submission, poll), vol_client.c (clients and
 * revocation), vol_open.c (format and open). Windows stand on top: vol_window.h.
 */

#include <errno.h>
#include <string.h>

#include "vol_range.h"
#include "weft_volume_core.h"

#define VOL_PIECE_BYTES 131072U /**< a piece of scratch memory */
/** An unaligned operation that is not longer is one step through scratch memory; longer ones have
 * steps of their own for the blocks at their ends. */
#define VOL_ONE_STEP_BYTES 65536U
#define VOL_MAX_CHANNELS   WEFT_VOL_MAPS
/** A piece, and the page of checksums that goes with it. */
#define VOL_STRIDE_BYTES (VOL_PIECE_BYTES + WEFT_VOL_SUM_BLOCK)

#define VOL_MIN(a, b) ((a) < (b) ? (a) : (b))
#define VOL_MAX(a, b) ((a) > (b) ? (a) : (b))

/** Where an operation is. */
enum vol_state {
	VOL_IDLE,
	VOL_WAIT_RANGE,   /**< for earlier operations */
	VOL_RUN,          /**< the next poll takes its next step */
	VOL_WAIT_SCRATCH, /**< for scratch memory */
	VOL_WAIT_MAP,     /**< for another operation that writes the channel's map */
	VOL_WAIT_MAPS,    /**< for one that clears the maps of all channels */
	VOL_DEVICE,       /**< a request is under way */
	VOL_FINISHED,     /**< the next poll calls done() */
};

struct weft_vol {
	struct weft_block *block;
	struct weft_block_info device;
	struct weft_vol_info info;
	uint64_t unit_bytes; /**< unit of reads and writes of the device: a block, or 1 */
	uint32_t max_chans, pieces;
	uint8_t *memory;
	struct vol_sums *sums; /**< NULL: no checksums */

	/** Of all below, and of weft_vol_chan.granted of all channels. */
	pthread_mutex_t lock;
	struct vol_ranges ranges;
	struct vol_ranges windows; /**< those that are open */
	uint64_t slots;            /**< a bit for each channel that is open */
};

struct weft_vol_chan {
	struct weft_vol *vol;
	struct weft_block_chan *chan;
	struct weft_vol_chan_attr attr;
	uint32_t slot;

	/** Ranges that became free to go, and whether there are any. */
	struct weft_vol_range *granted;
	_Atomic bool any_granted;

	struct weft_vol_ops run, scratch_wait, map_wait, finished, all;
	uint8_t *map;  /**< checksums: this channel's map, as the medium has it */
	bool map_busy; /**< an operation writes it */
	TAILQ_HEAD(, weft_vol_client) clients;
	/** Its quiet() follows done() of its last operation, unless that closes it. */
	struct weft_vol_client *quieting;
	uint8_t *free_piece[256];
	uint32_t free_pieces;
	uint32_t nrun, nfinished;
	uint64_t now_ns, deadline_ns;
	uint32_t lost_flushes;
	int lost_status; /**< weft_block_state.lost_status */
	bool in_poll;
	bool fed; /**< the device was given a request after its poll */
	struct weft_vol_stats stats;
};

/** Whether an operation with this status tells its client that a flush was lost. */
static inline bool
vol_tells_loss(int status)
{
	return status == -EIO || weft_block_class_of(status) == WEFT_BLOCK_SPACE;
}

/** The client has to be told of a lost flush. Of several the first cause is the one it is told. */
static inline void
vol_client_lost(struct weft_vol_client *client, int status)
{
	if (client->lost == 0)
		client->lost = status;
}

/* ---- vol_iov.c ---- */

/**
 * Describe the next octets of op's memory in op->sub for a request of the device, without a copy.
 * Returns how many: a multiple of unit_bytes, up to max_bytes; 0: they do not fit the device.
 */
uint64_t vol_iov_direct(struct weft_vol_op *op, uint64_t max_bytes, uint32_t *iovs);
/** Copy the next octets from op's memory. */
void vol_iov_get(const struct weft_vol_op *op, uint8_t *to, uint64_t bytes);
/** Copy to the next octets of op's memory. */
void vol_iov_put(const struct weft_vol_op *op, const uint8_t *from, uint64_t bytes);
/** Octets were done: go on behind them. */
void vol_iov_advance(struct weft_vol_op *op, uint64_t bytes);

/* ---- vol_sums.c ---- */

/** Which operation has the maps: one at a time. */
enum vol_maps_use {
	VOL_MAPS_FREE,
	VOL_MAPS_TIDY, /**< one that only writes them, which is soon done */
	VOL_MAPS_SNAP, /**< a snapshot or clone */
};

/** What a volume with checksums knows of its groups. */
struct vol_sums {
	uint64_t groups, map_bytes;
	uint8_t *maps;              /**< as the medium has them: a map for each slot */
	_Atomic uint8_t *doubt;     /**< bits of groups whose checksums may be wrong, */
	_Atomic uint64_t doubts;    /**< and how many are set */
	_Atomic uint8_t *in_use;    /**< bits of groups that were written to since the open */
	enum vol_maps_use maps_use; /**< under the volume's lock, */
	struct weft_vol_range *maps_waits; /**< like snapshots that wait for the maps */
	/** That operation's: for each page of the maps, whether a write of it was begun and is not
	 * durable yet. The medium may hold what was there before, or what was written. */
	bool *unsure;
	_Atomic uint64_t noted; /**< bits that were set in maps of the medium */
	atomic_bool changed;    /**< a change was begun since the scrubber's last look */
	uint8_t *saved;         /**< that operation's: the doubts that it writes to the first map */
};

/** -ENOMEM. */
int vol_sums_new(uint64_t bytes, struct vol_sums **out);
/** Does nothing for NULL. */
void vol_sums_end(struct vol_sums *s);
bool vol_sums_bit(const uint8_t *map, uint64_t group);
bool vol_sums_doubted(const struct vol_sums *s, uint64_t group);
void vol_sums_doubt(struct vol_sums *s, uint64_t group, bool doubt);
/** The first group from this one on that is in doubt; UINT64_MAX: none is. */
uint64_t vol_sums_next_doubt(const struct vol_sums *s, uint64_t group);
/** A flush was lost: of all groups in use the data or the checksums may be old ones. */
void vol_sums_doubt_used(struct vol_sums *s);
/** The group is written to from now on. */
void vol_sums_use(struct vol_sums *s, uint64_t group);
/** Compute the checksums of n blocks in memory; iov NULL: of zeros. `first`: index in the page. */
void vol_sums_set(uint8_t *page, uint32_t first, uint32_t n, const struct iovec *iov);
/** Index of the first of n blocks that does not have its checksum; -1: all have. */
int64_t vol_sums_check(const uint8_t *page, uint32_t first, uint32_t n, const struct iovec *iov);

/* ---- vol_queue.c ---- */

/**
 * Enter op's range. Op is with the run list, or waits. -EBUSY: it `changes` what a window has that
 * may write; then op is nowhere.
 */
int vol_queue_range(struct weft_vol_op *op, bool changes);
/** Op's range, if it has one, is open to others. */
void vol_queue_leave(struct weft_vol_op *op);
/** Ranges that other operations have left: theirs go to the run list. */
void vol_queue_granted(struct weft_vol_chan *c);
/** The device has not answered in time (weft_block_req.late). */
void vol_queue_late(struct weft_block_req *req);
/** Put op, which is nowhere, on the run list. */
void vol_queue_run(struct weft_vol_op *op);
/** Take the first of the run list; it is nowhere then. */
struct weft_vol_op *vol_queue_next(struct weft_vol_chan *c);
/** A piece of scratch memory for op. False: it waits, and comes to the run list with the piece. */
bool vol_queue_scratch(struct weft_vol_op *op);
/** Op waits until the channel's map is written. */
void vol_queue_map(struct weft_vol_op *op);
/** It is written: those that waited go on. */
void vol_queue_map_end(struct weft_vol_chan *c);
/** Take the maps for op, a SNAPSHOT with a range. 0: it has them. -EAGAIN: it waits for one that
 * only writes them, and comes to the run list then. -EBUSY: another snapshot has them. */
int vol_queue_maps(struct weft_vol_op *op);
/** Give op's piece back. */
void vol_queue_scratch_end(struct weft_vol_op *op);
/** Op, which is nowhere, has its result. All that it holds is given back. */
void vol_queue_finish(struct weft_vol_op *op, int status);
/** The same for one that waits for something but the device. */
void vol_queue_drop(struct weft_vol_op *op, int status);
/** Call done() of all that are finished. */
unsigned int vol_queue_done(struct weft_vol_chan *c);

/* ---- vol_snap.c ---- */

/** Take the next step of a SNAPSHOT. It is nowhere, and has its range. */
void vol_snap_step(struct weft_vol_op *op);

/* ---- vol_step.c ---- */

/** Take op's next step. It is nowhere, and has its range. */
void vol_step(struct weft_vol_op *op);

#endif /* VOL_PRIV_H */
