/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_LANE_H
#define WEFT_LANE_H

/**
 * @file
 * Long work of a worker shared by who asks for it, and not by how many streams he has.
 *
 * A peer that asks for long work (octets to be hashed, reads back from a medium, flushes) on
 * hundreds of streams would have hundreds of parts of it. So a worker has lanes, and each peer's
 * streams are in the lane that a keyed hash of its address gives. While streams of several lanes
 * have more to do than a poll allows, the slice of a poll (struct weft_slice) is divided by lanes
 * first, then by the streams of each. And of the read-backs and flushes that a worker's executor
 * has under way each lane has a part (struct weft_turn); who is over it waits in line, is not
 * polled, and has his turn when one of his own lane is done.
 *
 * Worker's thread only. Nothing is allocated. A lane of NULL: everything is one lane, without a
 * bound.
 */

#include "weft_sched.h"

#define WEFT_LANES 64
/** jobs of a worker's executor that are under way, while others wait: as many as a medium has
 * buffers for */
#define WEFT_LANE_WORK 8

enum weft_turn_state { WEFT_TURN_NONE, WEFT_TURN_WAITING, WEFT_TURN_HELD };

/** One stream's turn to have a read-back or a flush under way; all zero at first. */
struct weft_turn {
	TAILQ_ENTRY(weft_turn) link;
	struct weft_task *task; /**< queued when the turn comes */
	enum weft_turn_state state;
};

struct weft_lane {
	struct weft_lanes *all;
	uint32_t poll_no;
	uint32_t used_bytes;      /**< of the slice in poll_no */
	uint32_t wanting, before; /**< streams that ran out in poll_no, and in the poll before */
	uint32_t held;            /**< turns */
	TAILQ_HEAD(, weft_turn) waiting;
};

struct weft_lanes {
	uint32_t poll_no;
	uint32_t wanting, before; /**< lanes of which a stream ran out */
	uint32_t busy;            /**< lanes with turns held or waited for */
	uint64_t waits;           /**< turns that had to be waited for */
	uint64_t key[2];
	struct weft_lane lane[WEFT_LANES];
};

/** key: secret, drawn by the caller. */
void weft_lanes_init(struct weft_lanes *all, const uint64_t key[2]);
/** The lane of a peer, by its address (weft_ip_peer()). */
struct weft_lane *weft_lane_of(struct weft_lanes *all, const struct weft_ip *peer);

/** What a stream of the lane may still do in this poll; as weft_slice_left(). */
uint32_t weft_lane_left(const struct weft_sched *s, struct weft_lane *lane, struct weft_slice *sl);
/** It did so much; as weft_slice_take(). */
void weft_lane_take(struct weft_sched *s, struct weft_lane *lane, struct weft_slice *sl,
                    uint32_t bytes);
/** It has more to do than it may; as weft_slice_want(). */
void weft_lane_want(struct weft_sched *s, struct weft_lane *lane, struct weft_slice *sl);

/**
 * Take the turn, or stand in line for it: true when it is held. When it comes later, the task is
 * queued and the turn is held. Asked again, it tells how things are.
 */
bool weft_turn_get(struct weft_lane *lane, struct weft_turn *turn, struct weft_task *task);
/** Give it back, or leave the line. The next in line has it then. Nothing happens without a turn.
 */
void weft_turn_put(struct weft_sched *s, struct weft_lane *lane, struct weft_turn *turn);

#endif /* WEFT_LANE_H */
