/* SPDX-License-Identifier: BSD-3-Clause */
/** @file weft-run's helper and receive queues that run out: for how long it does not poll. The test
 * is the program: it says how many completions wait, and whether it sleeps. */

#include <string.h>

#include "cq.h"
#include "engine.h"
#include "qp.h"
#include "weft_test.h"

#define MS 1000000ULL
#define US 1000ULL

#define QPS 100

static bool sleeps, has_event;
static struct wv_cq cq;

bool
wv_is_waiting(void)
{
	return sleeps;
}

bool
wv_channel_has_event(struct wv_cq *c)
{
	(void)c;
	return has_event;
}

static struct wv_qp qps[QPS];
static uint64_t now_ns = 1000 * MS;
static uint64_t signs;

/** A queue that had 64 receives and has 32. */
static void
runs_low(struct wv_qp *q)
{
	memset(q, 0, sizeof(*q));
	q->up = true;
	q->rcq = &cq;
	wv_rq_posted(q, 64);
	wv_rq_taken(q, 31);
	CHECK(q->rq.posted == 33);
	wv_rq_taken(q, 1);
}

static void
start(void)
{
	sleeps = has_event = false;
	cq.tail = 0;
	signs++;
	for (unsigned int i = 0; i < QPS; i++)
		wv_rq_forget(&qps[i]);
	CHECK(!wv_rq_low());
}

/** Look every 50 us, as the helper does, for up to `ns`. Returns how long the helper was held. */
static uint64_t
held(uint64_t ns)
{
	const uint64_t from = now_ns;

	while (now_ns - from < ns && wv_rq_hold(now_ns, signs))
		now_ns += 50 * US;
	return now_ns - from;
}

/** A program that is awake and posts is waited for, and 2 ms longer. */
static void
test_posts(void)
{
	start();
	runs_low(&qps[0]);
	CHECK(wv_rq_low());
	CHECK_EQ(held(MS), 0); /* it has nothing to take, and posts nothing */
	wv_rq_taken(&qps[0], 16);
	wv_rq_posted(&qps[0], 8);
	wv_rq_taken(&qps[0], 8);
	CHECK_EQ(held(100 * MS), 2 * MS);
	wv_rq_posted(&qps[0], 16);
	CHECK_EQ(held(100 * MS), 2 * MS);
	/* filled again */
	wv_rq_posted(&qps[0], 16);
	CHECK_EQ(held(100 * MS), 0);
	CHECK(!wv_rq_low());
}

/** Messages that take receives are no sign of a program that posts. */
static void
test_taken(void)
{
	start();
	runs_low(&qps[0]);
	CHECK_EQ(held(MS), 0);
	wv_rq_taken(&qps[0], 4);
	CHECK_EQ(held(MS), 0);
	CHECK_EQ(qps[0].rq.posted, 28);
}

/** A server that posts receives in batches and sleeps until an event comes is not waited for: only
 * the helper brings the event. */
static void
test_event_driven(void)
{
	start();
	runs_low(&qps[0]);
	wv_rq_taken(&qps[0], 16);
	CHECK_EQ(held(MS), 0);
	for (unsigned int i = 0; i < 10; i++) {
		wv_rq_posted(&qps[0], 8);
		sleeps = true;
		CHECK_EQ(held(100 * MS), 0);
		wv_rq_taken(&qps[0], 8);
		CHECK_EQ(held(100 * MS), 0);
		/* An event wakes it: until it has taken the completions it is waited for. */
		cq.tail = 8;
		has_event = true;
		CHECK_EQ(held(MS), MS);
		sleeps = has_event = false;
		signs++;
		cq.tail = 0;
	}
}

/** A program that takes nothing and gives no sign is waited for half a second, whatever its number
 * of queues is, and again when it has given one. */
static void
test_bound(void)
{
	uint64_t all = 0;

	start();
	cq.tail = 1;
	for (unsigned int i = 0; i < QPS; i++) {
		runs_low(&qps[i]);
		all += held(1000 * MS);
		/* the helper's poll */
		now_ns += 10 * US;
	}
	CHECK_EQ(all, 500 * MS);
	/* Time between the holds does not count as held. */
	start();
	cq.tail = 1;
	runs_low(&qps[0]);
	CHECK_EQ(held(200 * MS), 200 * MS);
	cq.tail = 0;
	CHECK_EQ(held(MS), 0);
	now_ns += 200 * MS;
	cq.tail = 1;
	CHECK_EQ(held(MS), MS);
	wv_rq_forget(&qps[0]);
	now_ns += 1000 * MS;
	runs_low(&qps[1]);
	/* 201 ms, less the time from the last look to the end of the first queue */
	CHECK_EQ(held(1000 * MS), 299 * MS + 50 * US);
	CHECK_EQ(held(MS), 0);
	/* A sign: another queue is waited for, that one when it has been filled again. */
	signs++;
	CHECK_EQ(held(MS), MS);
}

WEFT_TEST_MAIN({"a program that posts", test_posts}, {"messages that take receives", test_taken},
               {"a server that sleeps until an event", test_event_driven},
               {"half a second for all queues", test_bound})
