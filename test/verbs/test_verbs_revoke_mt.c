/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Revocation of regions with real threads: workers that poll in threads of their own, a consumer
 * that answers from another thread, and an owner that deregisters at any moment.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "vt.h"

#define REGIONS 1500
#define LEN     8192
#define RIGHTS  (WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE)

/** One region and the steps reported of it. */
struct one {
	struct weft_mr *mr; /**< under `lock` */
	struct weft_worker *w;
	atomic_uint asked, ended;
	atomic_bool over; /**< deregistered, and no callback is running */
	atomic_bool freed;
	bool revoke;
};

static struct {
	pthread_mutex_t lock;
	struct one one[REGIONS];
	atomic_uint at; /**< number of the latest region */
	atomic_bool stop;
	atomic_uint wrong;
	unsigned int went;
} s = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint8_t memory[LEN];

static void
on_revoke(void *user, const struct weft_revoke *r)
{
	struct one *o = user;

	/* on the chosen worker, never after the end, in order, once each */
	if (!weft_worker_is_mine(o->w) || atomic_load(&o->over))
		s.wrong++;
	if (r->step == WEFT_REVOKE_ASKED) {
		if (atomic_fetch_add(&o->asked, 1) != 0 || atomic_load(&o->ended) != 0)
			s.wrong++;
		return;
	}
	if (atomic_fetch_add(&o->ended, 1) != 0 || atomic_load(&o->asked) != 1)
		s.wrong++;
	/* FAILED: the owner deregistered first, and the call has not returned yet */
	if (r->step != (o->revoke ? WEFT_REVOKE_INVALIDATED : WEFT_REVOKE_REDUCED) &&
	    !(r->step == WEFT_REVOKE_FAILED && r->status == -ENOENT))
		s.wrong++;
}

static void
on_freed(void *arg)
{
	atomic_store(&((struct one *)arg)->freed, true);
}

/** The consumer ends the wait of one of the latest regions, at any time. */
static void *
answer(void *arg)
{
	uint32_t x = 12345;

	(void)arg;
	while (!atomic_load(&s.stop)) {
		unsigned int at = atomic_load(&s.at);
		struct one *o;

		x = x * 1664525 + 1013904223;
		o = &s.one[(at - RTE_MIN(at, x >> 24 & 7)) % REGIONS];
		pthread_mutex_lock(&s.lock);
		if (o->mr != NULL && weft_mr_revoke_go(o->mr) == 0)
			s.went++;
		pthread_mutex_unlock(&s.lock);
		usleep(x >> 20 & 63);
	}
	return NULL;
}

static void
fence(void *arg)
{
	atomic_store((atomic_bool *)arg, true);
}

static void
finish(struct one *o)
{
	atomic_bool passed = false;
	struct weft_mr *mr;

	pthread_mutex_lock(&s.lock);
	mr = o->mr;
	o->mr = NULL;
	CHECK_EQ(weft_mr_dereg(mr, on_freed, o), 0);
	pthread_mutex_unlock(&s.lock);
	CHECK_EQ(weft_worker_call(o->w, fence, &passed), 0);
	while (!atomic_load(&passed))
		usleep(10);
	atomic_store(&o->over, true);
}

static void
test_threads(void)
{
	struct weft_worker *w[2];
	unsigned int told = 0;
	struct weft_ctx *ctx;
	struct weft_pd *pd;
	uint32_t x = (uint32_t)test_seed(1);
	pthread_t th;

	test_eal_init();
	CHECK_EQ(weft_ctx_create(NULL, &ctx), 0);
	CHECK_EQ(weft_pd_alloc(ctx, &pd), 0);
	for (unsigned int i = 0; i < 2; i++) {
		CHECK_EQ(weft_worker_create(ctx, NULL, &w[i]), 0);
		CHECK_EQ(weft_worker_start(w[i]), 0);
	}
	CHECK_EQ(pthread_create(&th, NULL, answer, NULL), 0);
	for (unsigned int i = 0; i < REGIONS; i++) {
		const struct weft_mr_attr ma = {
		        .size = sizeof(ma), .addr = memory, .len_bytes = LEN, .access = RIGHTS};
		struct weft_revoke_attr ra = {.size = sizeof(ra), .on_revoke = on_revoke};
		struct one *o = &s.one[i];
		struct weft_mr *mr;

		x = x * 1664525 + 1013904223;
		CHECK_EQ(weft_mr_reg(pd, &ma, &mr), 0);
		o->w = w[i % 2];
		o->revoke = x >> 30 & 1;
		ra.user = o;
		ra.worker = o->w;
		ra.access = o->revoke ? 0 : WEFT_ACCESS_REMOTE_READ;
		ra.deadline_us = x >> 16 & 1023;
		pthread_mutex_lock(&s.lock);
		CHECK_EQ(weft_mr_revoke(mr, &ra), 0);
		o->mr = mr;
		pthread_mutex_unlock(&s.lock);
		atomic_store(&s.at, i);
		if ((x >> 28 & 3) != 0)
			usleep(x >> 12 & 255);
		if (i >= 4)
			finish(&s.one[i - 4]);
	}
	for (unsigned int i = REGIONS - 4; i < REGIONS; i++)
		finish(&s.one[i]);
	atomic_store(&s.stop, true);
	CHECK_EQ(pthread_join(th, NULL), 0);
	for (unsigned int i = 0; i < REGIONS; i++) {
		for (unsigned int k = 0; k < 100000 && !atomic_load(&s.one[i].freed); k++)
			usleep(10);
		CHECK_MSG(atomic_load(&s.one[i].freed), "region %u", i);
		told += atomic_load(&s.one[i].ended);
	}
	CHECK_EQ(atomic_load(&s.wrong), 0);
	CHECK_MSG(told > 0 && told < REGIONS + 1, "%u ended", told);
	test_note("%u of %u ended before their region did; the consumer spoke %u times", told,
	          REGIONS, s.went);
	for (unsigned int i = 0; i < 2; i++)
		weft_worker_stop(w[i]);
	CHECK_EQ(weft_pd_dealloc(pd), 0);
	weft_ctx_destroy(ctx);
}

WEFT_TEST_MAIN({"threads", test_threads})
