/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Long work shared by peers: slices, first between lanes; turns in the order of waiting; no
 * stream waits for ever. */

#include "weft_lane.h"
#include "test_xorshift.h"
#include "weft_test.h"

#define MANY 200

struct stream {
	struct weft_task task;
	struct weft_turn turn;
	struct weft_slice slice;
	struct weft_lane *lane;
	uint64_t bytes;
	unsigned int runs;
};

static struct weft_sched s;
static struct weft_lanes all;
static struct stream st[MANY + 8];

static void
on_task(struct weft_task *t, uint64_t now_ns)
{
	struct stream *x = container_of(t, struct stream, task);

	(void)now_ns;
	x->runs++;
}

static struct weft_ip
peer(unsigned int n)
{
	struct weft_ip ip = {.b = {[10] = 0xff,
	                           [11] = 0xff,
	                           [12] = 10,
	                           [14] = (uint8_t)(n >> 8),
	                           [15] = (uint8_t)n}};

	return ip;
}

/** The lane of the next address, from the n-th on, that differs from lane `not`. */
static struct weft_lane *
lane_after(unsigned int *n, const struct weft_lane * not )
{
	struct weft_lane *l;

	do {
		struct weft_ip ip = peer(++*n);

		l = weft_lane_of(&all, &ip);
	} while (l == not );
	return l;
}

static void
start(void)
{
	static const uint64_t key[2] = {1, 2};

	memset(&s, 0, sizeof(s));
	memset(st, 0, sizeof(st));
	TAILQ_INIT(&s.run);
	weft_lanes_init(&all, key);
	for (unsigned int i = 0; i < RTE_DIM(st); i++)
		weft_task_init(&st[i].task, on_task);
}

/** A poll in which streams 0 to n - 1, in this order, work as long as their slices last. piece:
 * octets that a stream takes at a time (0: all that is left). */
static void
poll_all(unsigned int n, uint32_t piece)
{
	(void)weft_sched_run(&s, 0);
	for (unsigned int i = 0; i < n; i++) {
		uint32_t left = weft_lane_left(&s, st[i].lane, &st[i].slice);

		while (left > 0) {
			uint32_t take = piece != 0 ? piece : left;

			weft_lane_take(&s, st[i].lane, &st[i].slice, take);
			st[i].bytes += take;
			left = weft_lane_left(&s, st[i].lane, &st[i].slice);
		}
		weft_lane_want(&s, st[i].lane, &st[i].slice);
	}
}

/* One stream of one peer gets half, beside 200 streams of another peer and before them. If all
 * streams belong to one peer, all get the same. */
static void
test_slices(void)
{
	for (unsigned int last = 0; last < 2; last++)
		for (uint32_t piece = 0; piece <= 4096; piece += 4096) {
			const unsigned int at = last ? MANY : 0;
			uint64_t others = 0;
			unsigned int n = 0;
			struct weft_lane *a, *b;

			start();
			a = lane_after(&n, NULL);
			b = lane_after(&n, a);
			for (unsigned int i = 0; i <= MANY; i++)
				st[i].lane = i == at ? b : a;
			for (unsigned int i = 0; i < 1000; i++)
				poll_all(MANY + 1, piece);
			for (unsigned int i = 0; i <= MANY; i++)
				others += i == at ? 0 : st[i].bytes;
			CHECK_MSG(st[at].bytes * 10 >= (st[at].bytes + others) * 4,
			          "%" PRIu64 " of %" PRIu64, st[at].bytes, st[at].bytes + others);
			CHECK(st[at].bytes * 10 <= (st[at].bytes + others) * 6);
			/* a poll uses its whole slice and exceeds it by at most a piece */
			CHECK(st[at].bytes + others >= 900ULL * WEFT_SLICE_BYTES);
			CHECK(st[at].bytes + others <= 1100ULL * (WEFT_SLICE_BYTES + 2 * piece));
		}
	start();
	{
		unsigned int n = 0;
		struct weft_lane *a = lane_after(&n, NULL);

		for (unsigned int i = 0; i < 8; i++)
			st[i].lane = a;
		for (unsigned int i = 0; i < 1000; i++)
			poll_all(8, 0);
		for (unsigned int i = 1; i < 8; i++)
			CHECK(st[i].bytes * 10 >= st[0].bytes * 9 &&
			      st[0].bytes * 10 >= st[i].bytes * 9);
	}
}

static unsigned int
held(const struct weft_lane *l)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < RTE_DIM(st); i++)
		n += st[i].lane == l && st[i].turn.state == WEFT_TURN_HELD;
	return n;
}

/* 200 streams of one peer wait for turns. A stream of another peer gets a turn at once, and half of
 * all turns as they are returned. */
static void
test_turns(void)
{
	unsigned int n = 0, granted = 0;
	struct weft_lane *a, *b;

	start();
	a = lane_after(&n, NULL);
	b = lane_after(&n, a);
	for (unsigned int i = 0; i < MANY; i++) {
		st[i].lane = a;
		granted += weft_turn_get(a, &st[i].turn, &st[i].task);
	}
	CHECK_EQ(granted, WEFT_LANE_WORK);
	CHECK(!weft_turn_get(a, &st[MANY - 1].turn, &st[MANY - 1].task));
	CHECK(weft_turn_get(a, &st[0].turn, &st[0].task));
	for (unsigned int i = MANY; i < MANY + 4; i++) {
		st[i].lane = b;
		CHECK(weft_turn_get(b, &st[i].turn, &st[i].task));
	}
	/* The first peer returns turns and keeps only its part. */
	for (unsigned int i = 0; i < WEFT_LANE_WORK; i++)
		weft_turn_put(&s, a, &st[i].turn);
	CHECK_EQ(held(a), WEFT_LANE_WORK / 2);
	CHECK_EQ(held(b), 4);
	(void)weft_sched_run(&s, 0);
	for (unsigned int i = WEFT_LANE_WORK; i < MANY; i++)
		CHECK_EQ(st[i].runs, i < WEFT_LANE_WORK + WEFT_LANE_WORK / 2 ? 1 : 0);
	/* The other peer has none any more: the first peer gets all turns again when its next turn
	 * ends. */
	for (unsigned int i = MANY; i < MANY + 4; i++)
		weft_turn_put(&s, b, &st[i].turn);
	weft_turn_put(&s, a, &st[WEFT_LANE_WORK].turn);
	CHECK_EQ(held(a), WEFT_LANE_WORK);
	CHECK_EQ(all.busy, 1);
}

/* Random requests: no lane exceeds its part when it gets a turn, no stream waits for ever, and all
 * turns are returned. */
static void
test_random(void)
{
	for (uint64_t seed = test_seed(1), last = seed + (test_seed_given() ? 1 : 200); seed < last;
	     seed++) {
		uint64_t x = seed * 0x9e3779b97f4a7c15ULL + 1;
		unsigned int n = 0, busy = 0;
		struct weft_lane *lane[5];

		test_seed_note(seed);
		start();
		for (unsigned int i = 0; i < 5; i++)
			lane[i] = lane_after(&n, i > 0 ? lane[i - 1] : NULL);
		for (unsigned int i = 0; i < 2000; i++) {
			struct stream *y;

			(void)test_xorshift(&x);
			y = &st[x % 60];
			y->lane = lane[x % 60 % 5];
			if ((x >> 32) % 3 != 0) {
				enum weft_turn_state was = y->turn.state;
				bool got = weft_turn_get(y->lane, &y->turn, &y->task);

				CHECK_EQ(got, y->turn.state == WEFT_TURN_HELD);
				CHECK(!got || was == WEFT_TURN_HELD ||
				      y->lane->held <= WEFT_LANE_WORK);
			} else {
				weft_turn_put(&s, y->lane, &y->turn);
				CHECK_EQ(y->turn.state, WEFT_TURN_NONE);
			}
			/* While a stream waits, another stream of its lane holds a turn. */
			for (unsigned int k = 0; k < 60; k++)
				if (st[k].turn.state == WEFT_TURN_WAITING)
					CHECK(st[k].lane->held > 0);
			(void)weft_sched_run(&s, 0);
		}
		for (unsigned int i = 0; i < 60; i++)
			if (st[i].lane != NULL)
				weft_turn_put(&s, st[i].lane, &st[i].turn);
		for (unsigned int i = 0; i < WEFT_LANES; i++) {
			busy += all.lane[i].held;
			CHECK(TAILQ_EMPTY(&all.lane[i].waiting));
		}
		CHECK_EQ(busy, 0);
		CHECK_EQ(all.busy, 0);
	}
}

/* Without a lane there is no limit. */
static void
test_none(void)
{
	start();
	for (unsigned int i = 0; i < MANY; i++)
		CHECK(weft_turn_get(NULL, &st[i].turn, &st[i].task));
	weft_turn_put(&s, NULL, &st[0].turn);
	(void)weft_sched_run(&s, 0);
	CHECK_EQ(weft_lane_left(&s, NULL, &st[0].slice), WEFT_SLICE_BYTES);
}

WEFT_TEST_MAIN({"slices by peers", test_slices}, {"turns by peers", test_turns},
               {"turns at random", test_random}, {"no lane", test_none})
