/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Division of long work by peers: weft_lane.h. */

#include "weft_lane.h"
#include "weft_siphash.h"

void
weft_lanes_init(struct weft_lanes *all, const uint64_t key[2])
{
	memset(all, 0, sizeof(*all));
	memcpy(all->key, key, sizeof(all->key));
	for (unsigned int i = 0; i < WEFT_LANES; i++) {
		all->lane[i].all = all;
		TAILQ_INIT(&all->lane[i].waiting);
	}
}

struct weft_lane *
weft_lane_of(struct weft_lanes *all, const struct weft_ip *peer)
{
	struct weft_ip name = weft_ip_peer(peer);
	uint64_t w[2];

	memcpy(w, name.b, sizeof(w));
	return &all->lane[weft_siphash(all->key, w, 2, 1, 3) % WEFT_LANES];
}

/* ---- The slice of a poll ---- */

/** At the first call of a poll, `before` becomes the number of those that wanted more in the
 * previous poll. It is 0 when they did not ask in that poll. */
static void
lane_renew(const struct weft_sched *s, struct weft_lane *lane)
{
	struct weft_lanes *all = lane->all;

	if (all->poll_no != s->poll_no) {
		all->before = s->poll_no - all->poll_no == 1 ? all->wanting : 0;
		all->wanting = 0;
		all->poll_no = s->poll_no;
	}
	if (lane->poll_no != s->poll_no) {
		lane->before = s->poll_no - lane->poll_no == 1 ? lane->wanting : 0;
		lane->wanting = 0;
		lane->used_bytes = 0;
		lane->poll_no = s->poll_no;
	}
}

uint32_t
weft_lane_left(const struct weft_sched *s, struct weft_lane *lane, struct weft_slice *sl)
{
	uint32_t share, left;

	if (lane == NULL)
		return weft_slice_left(s, sl);
	lane_renew(s, lane);
	/* At most one lane wanted more: divide by streams alone. */
	if (lane->all->before < 2)
		return weft_slice_left(s, sl);
	share = RTE_MAX(WEFT_SLICE_BYTES / lane->all->before, WEFT_SLICE_LEAST_BYTES);
	if (lane->used_bytes >= share)
		return 0;
	left = weft_slice_left_of(
	        s, sl, share > lane->before ? share / (lane->before + !lane->before) : 1);
	return RTE_MIN(left, share - lane->used_bytes);
}

void
weft_lane_take(struct weft_sched *s, struct weft_lane *lane, struct weft_slice *sl, uint32_t bytes)
{
	if (lane != NULL)
		lane->used_bytes += bytes;
	weft_slice_take(s, sl, bytes);
}

void
weft_lane_want(struct weft_sched *s, struct weft_lane *lane, struct weft_slice *sl)
{
	if (lane != NULL && !sl->wanting) {
		lane_renew(s, lane);
		if (lane->wanting++ == 0)
			lane->all->wanting++;
	}
	weft_slice_want(s, sl);
}

/* ---- Turns ---- */

static bool
lane_is_busy(const struct weft_lane *lane)
{
	return lane->held > 0 || !TAILQ_EMPTY(&lane->waiting);
}

/** Number of turns that each busy lane may hold. */
static uint32_t
lane_bound(const struct weft_lane *lane)
{
	const uint32_t busy = lane->all->busy;

	return busy >= WEFT_LANE_WORK ? 1 : WEFT_LANE_WORK / (busy + !busy);
}

bool
weft_turn_get(struct weft_lane *lane, struct weft_turn *turn, struct weft_task *task)
{
	if (lane == NULL || turn->state == WEFT_TURN_HELD)
		return true;
	if (turn->state == WEFT_TURN_WAITING)
		return false;
	if (!lane_is_busy(lane))
		lane->all->busy++;
	turn->task = task;
	if (TAILQ_EMPTY(&lane->waiting) && lane->held < lane_bound(lane)) {
		lane->held++;
		turn->state = WEFT_TURN_HELD;
		return true;
	}
	turn->state = WEFT_TURN_WAITING;
	TAILQ_INSERT_TAIL(&lane->waiting, turn, link);
	lane->all->waits++;
	return false;
}

void
weft_turn_put(struct weft_sched *s, struct weft_lane *lane, struct weft_turn *turn)
{
	struct weft_turn *next;

	if (lane == NULL || turn->state == WEFT_TURN_NONE)
		return;
	if (turn->state == WEFT_TURN_WAITING)
		TAILQ_REMOVE(&lane->waiting, turn, link);
	else
		lane->held--;
	turn->state = WEFT_TURN_NONE;
	while ((next = TAILQ_FIRST(&lane->waiting)) != NULL && lane->held < lane_bound(lane)) {
		TAILQ_REMOVE(&lane->waiting, next, link);
		lane->held++;
		next->state = WEFT_TURN_HELD;
		weft_task_queue(s, next->task);
	}
	if (!lane_is_busy(lane))
		lane->all->busy--;
}
