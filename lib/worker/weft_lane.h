/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_LANE_H
#define WEFT_LANE_H

/**
 * @file
 * Lanes divide the long work of a worker by peers, not by streams.
 *
 * A peer may ask for long work (hashing, read-backs, flushes) on hundreds of streams. Divided by
 * streams, it would get hundreds of shares. So a worker has lanes. A keyed hash of the peer's
 * address gives the lane of all its streams.
 *
 * The slice of a poll (struct weft_slice): while streams of several lanes have more to do than a
 * poll allows, the slice is divided by lanes first, then by the streams of each lane.
 *
 * Read-backs and flushes on the worker's executor: each lane may have a part of them in progress
 * (struct weft_turn). A stream beyond that part waits in line. Its task is queued when a stream of
 * the same lane finishes.
 *
 * Worker's thread only. Nothing is allocated. With a lane of NULL, slices are divided by streams
 * and turns have no limit.
 */

#include "weft_sched.h"

#define WEFT_LANES 64
/** Turns of a worker, which its busy lanes divide; each has at least one. A medium has buffers for
 * as many jobs. */
#define WEFT_LANE_WORK 8

enum weft_turn_state { WEFT_TURN_NONE, WEFT_TURN_WAITING, WEFT_TURN_HELD };

/** A stream's turn to have a read-back or a flush in progress. Zero-filled at first. */
struct weft_turn {
	TAILQ_ENTRY(weft_turn) link;
	struct weft_task *task; /**< queued when the stream gets the turn */
	enum weft_turn_state state;
};

struct weft_lane {
	struct weft_lanes *all;
	uint32_t poll_no;
	uint32_t used_bytes;      /**< used of the slice in poll_no */
	uint32_t wanting, before; /**< streams that wanted more in poll_no and in the poll before */
	uint32_t held;            /**< turns held */
	TAILQ_HEAD(, weft_turn) waiting;
};

struct weft_lanes {
	uint32_t poll_no;
	uint32_t wanting, before; /**< lanes with a stream that wanted more; polls as above */
	uint32_t busy;            /**< lanes with turns held or waited for */
	uint64_t waits;           /**< counter: turns that a stream had to wait for */
	uint64_t key[2];
	struct weft_lane lane[WEFT_LANES];
};

/** Initialize all lanes. key: secret and random. */
void weft_lanes_init(struct weft_lanes *all, const uint64_t key[2]);
/** The lane of a peer, by its address (weft_ip_peer()). */
struct weft_lane *weft_lane_of(struct weft_lanes *all, const struct weft_ip *peer);

/** Octets that a stream of the lane may still work on in this poll; as weft_slice_left(). */
uint32_t weft_lane_left(const struct weft_sched *s, struct weft_lane *lane, struct weft_slice *sl);
/** Charge work of a stream of the lane; as weft_slice_take(). */
void weft_lane_take(struct weft_sched *s, struct weft_lane *lane, struct weft_slice *sl,
                    uint32_t bytes);
/** The stream has more to do than its share; as weft_slice_want(). */
void weft_lane_want(struct weft_sched *s, struct weft_lane *lane, struct weft_slice *sl);

/**
 * Take a turn, or wait in line for it. True: the turn is held. False: it waits; when it is held,
 * the task is queued. May be called again and then returns the present state.
 */
bool weft_turn_get(struct weft_lane *lane, struct weft_turn *turn, struct weft_task *task);
/** Return a held turn, or leave the line. The next in the lane's line then gets a turn. Does
 * nothing in state NONE. */
void weft_turn_put(struct weft_sched *s, struct weft_lane *lane, struct weft_turn *turn);

#endif /* WEFT_LANE_H */
