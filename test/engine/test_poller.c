/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Pollers: what a worker polls beside its ports, and how they end its sleep. */

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <weft/weft.h>
#include "weft_engine.h"
#include "weft_test.h"

/** A sleep that nothing ends, and the time that one that is ended takes at most. */
#define LONG_US  20000000
#define ENDED_US 10000000

#define ROUNDS 20000 /**< of the comparison with a model */

struct source {
	struct weft_poller p;
	unsigned int calls;
	unsigned int work; /**< what poll() returns */
	uint64_t now_ns;   /**< of the last call */
	uint64_t next_ns;
	atomic_uint asked; /**< calls of next_ns() */
	void (*then)(struct source *s);
};

static struct weft_ctx *ctx;
static struct weft_worker *w;

static unsigned int
source_poll(void *arg, uint64_t now_ns)
{
	struct source *s = arg;
	struct pollfd fd = {.fd = s->p.fd, .events = POLLIN};
	uint64_t drop;

	s->calls++;
	s->now_ns = now_ns;
	if (s->then != NULL)
		s->then(s);
	if (s->p.fd >= 0 && poll(&fd, 1, 0) == 1)
		return read(s->p.fd, &drop, sizeof(drop)) == sizeof(drop);
	return s->work;
}

static uint64_t
source_next(void *arg)
{
	struct source *s = arg;

	atomic_fetch_add(&s->asked, 1);
	return s->next_ns;
}

static void
source_init(struct source *s)
{
	*s = (struct source){.p = {.poll = source_poll, .next_ns = source_next, .fd = -1, .arg = s},
	                     .next_ns = UINT64_MAX};
}

static void
start(void)
{
	test_eal_init();
	CHECK_EQ(weft_ctx_create(NULL, &ctx), 0);
	CHECK_EQ(weft_worker_create(ctx, NULL, &w), 0);
	while (weft_worker_poll(w) > 0)
		;
}

/** Each poll of the worker polls them once, in order, with its clock, and adds up their work. */
static void
test_polled(void)
{
	struct source s[3];
	const uint64_t t = UINT64_C(1) << 50;

	start();
	for (unsigned int i = 0; i < 3; i++) {
		source_init(&s[i]);
		CHECK_EQ(weft_poller_add(w, &s[i].p), 0);
	}
	CHECK_EQ(weft_engine_poll_at(w, t), 0);
	s[0].work = 2;
	s[2].work = 3;
	CHECK_EQ(weft_engine_poll_at(w, t + 1), 5);
	for (unsigned int i = 0; i < 3; i++) {
		CHECK_EQ(s[i].calls, 2);
		CHECK_EQ(s[i].now_ns, t + 1);
	}
	weft_poller_remove(&s[0].p);
	CHECK_EQ(weft_engine_poll_at(w, t + 2), 3);
	CHECK(s[0].calls == 2 && s[1].calls == 3 && s[2].calls == 3);
	/* The one that has to be polled first counts, but never a time that has passed. */
	CHECK_EQ(weft_engine_next_ns(w), UINT64_MAX);
	s[0].next_ns = 1;
	s[1].next_ns = t + 2000;
	s[2].next_ns = t + 1000;
	CHECK_EQ(weft_engine_next_ns(w), t + 1000);
	s[1].next_ns = 0;
	CHECK_EQ(weft_engine_next_ns(w), t + 2);
	weft_ctx_destroy(ctx);
}

static void *
elsewhere(void *arg)
{
	struct source *s = arg;

	if (s->p.worker == NULL)
		return (void *)(intptr_t)weft_poller_add(w, &s->p);
	weft_poller_remove(&s->p);
	return NULL;
}

static int
on_other_thread(struct source *s)
{
	pthread_t th;
	void *rc;

	CHECK_EQ(pthread_create(&th, NULL, elsewhere, s), 0);
	CHECK_EQ(pthread_join(th, &rc), 0);
	return (int)(intptr_t)rc;
}

static void
test_refused(void)
{
	struct source s[WEFT_POLLERS_MAX + 1];

	start();
	for (unsigned int i = 0; i <= WEFT_POLLERS_MAX; i++)
		source_init(&s[i]);
	CHECK_EQ(weft_poller_add(NULL, &s[0].p), -EINVAL);
	CHECK_EQ(weft_poller_add(w, NULL), -EINVAL);
	s[0].p.poll = NULL;
	CHECK_EQ(weft_poller_add(w, &s[0].p), -EINVAL);
	source_init(&s[0]);
	s[0].p.next_ns = NULL;
	CHECK_EQ(weft_poller_add(w, &s[0].p), -EINVAL);
	source_init(&s[0]);
	CHECK_EQ(on_other_thread(&s[0]), -EPERM);
	CHECK(s[0].p.worker == NULL);
	for (unsigned int i = 0; i < WEFT_POLLERS_MAX; i++)
		CHECK_EQ(weft_poller_add(w, &s[i].p), 0);
	CHECK_EQ(weft_poller_add(w, &s[WEFT_POLLERS_MAX].p), -ENOSPC);
	CHECK_EQ(weft_poller_add(w, &s[3].p), -EALREADY);
	(void)on_other_thread(&s[3]); /* refused, with a line in the log */
	CHECK(s[3].p.worker == w);
	weft_poller_remove(&s[3].p);
	CHECK_EQ(weft_poller_add(w, &s[WEFT_POLLERS_MAX].p), 0);
	weft_poller_remove(&s[3].p); /* it is not added */
	weft_poller_remove(NULL);
	CHECK(weft_worker_poll(w) >= 0);
	CHECK(s[3].calls == 0 && s[0].calls == 1 && s[WEFT_POLLERS_MAX].calls == 1);
	/* A worker that no thread polls takes a poller of any thread. */
	weft_worker_detach(w);
	CHECK_EQ(on_other_thread(&s[0]), 0);
	CHECK(s[0].p.worker == NULL);
	weft_ctx_destroy(ctx);
	/* The end of the context has removed them. */
	for (unsigned int i = 0; i <= WEFT_POLLERS_MAX; i++) {
		CHECK(s[i].p.worker == NULL);
		weft_poller_remove(&s[i].p);
	}
}

/* ---- Changes while they are polled ---- */

static struct {
	struct source s[WEFT_POLLERS_MAX + 2];
	unsigned int order[WEFT_POLLERS_MAX], n;  /**< those that are added */
	unsigned int due[WEFT_POLLERS_MAX], ndue; /**< that this poll has not polled */
	uint64_t seed;
} model;

static unsigned int
draw(unsigned int below)
{
	model.seed = model.seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned int)((model.seed >> 33) % below);
}

static void
model_drop(unsigned int *list, unsigned int *n, unsigned int what)
{
	unsigned int i = 0;

	while (i < *n && list[i] != what)
		i++;
	if (i == *n)
		return;
	--*n;
	memmove(&list[i], &list[i + 1], (*n - i) * sizeof(*list));
}

static void
model_change(struct source *me)
{
	unsigned int i = draw(4) == 0 ? (unsigned int)(me - model.s) : draw(WEFT_POLLERS_MAX + 2);
	int rc;

	if (model.s[i].p.worker != NULL) {
		weft_poller_remove(&model.s[i].p);
		model_drop(model.order, &model.n, i);
		model_drop(model.due, &model.ndue, i);
		return;
	}
	rc = weft_poller_add(w, &model.s[i].p);
	CHECK_EQ(rc, model.n == WEFT_POLLERS_MAX ? -ENOSPC : 0);
	if (rc == 0)
		model.order[model.n++] = i;
}

static void
model_polled(struct source *me)
{
	unsigned int i = (unsigned int)(me - model.s);

	CHECK(model.ndue > 0 && model.due[0] == i);
	model_drop(model.due, &model.ndue, i);
	for (unsigned int k = draw(4); k > 0; k--)
		model_change(me);
	if (draw(8) == 0)
		CHECK(weft_worker_poll(w) >= 0); /* polls no poller */
}

/** Whatever pollers add and remove: a poll of the worker polls those that were added before it,
 * in this order, until they are removed, and no other. */
static void
test_changes(void)
{
	model.seed = test_seed(20261127);
	start();
	for (unsigned int i = 0; i < WEFT_POLLERS_MAX + 2; i++) {
		source_init(&model.s[i]);
		model.s[i].then = model_polled;
	}
	for (unsigned int i = 0; i < ROUNDS; i++) {
		while (model.n == 0 || draw(4) == 0)
			model_change(&model.s[0]);
		memcpy(model.due, model.order, sizeof(model.due));
		model.ndue = model.n;
		CHECK(weft_worker_poll(w) >= 0);
		CHECK_EQ(model.ndue, 0);
	}
	weft_ctx_destroy(ctx);
}

/* ---- Sleep ---- */

/** How long the worker sleeps, in microseconds. */
static uint64_t
sleep_us(uint32_t timeout_us)
{
	uint64_t begin = test_now_us();

	weft_worker_idle(w, timeout_us);
	return test_now_us() - begin;
}

static void *
ring_when_asked(void *arg)
{
	struct source *s = arg;

	/* The worker asks for the time of the next poll when it is about to sleep. */
	while (atomic_load(&s->asked) == 0)
		sched_yield();
	CHECK_EQ(write(s->p.fd, &(uint64_t){1}, 8), 8);
	return NULL;
}

static void
test_descriptor(void)
{
	struct source s[2];
	pthread_t th;

	start();
	for (unsigned int i = 0; i < 2; i++) {
		source_init(&s[i]);
		CHECK_EQ(weft_poller_add(w, &s[i].p), 0);
	}
	/* Without a descriptor and without a time it does not keep the worker awake. */
	CHECK(sleep_us(20000) >= 19000);
	s[1].p.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	CHECK(s[1].p.fd >= 0);
	CHECK(sleep_us(20000) >= 19000);
	atomic_store(&s[1].asked, 0);
	CHECK_EQ(pthread_create(&th, NULL, ring_when_asked, &s[1]), 0);
	CHECK(sleep_us(LONG_US) < ENDED_US);
	pthread_join(th, NULL);
	/* Until poll() has read it, it ends every sleep. */
	CHECK(sleep_us(LONG_US) < ENDED_US);
	CHECK(weft_worker_poll(w) > 0);
	CHECK(sleep_us(20000) >= 19000);
	weft_poller_remove(&s[1].p);
	CHECK_EQ(write(s[1].p.fd, &(uint64_t){1}, 8), 8);
	CHECK(sleep_us(20000) >= 19000);
	close(s[1].p.fd);
	weft_ctx_destroy(ctx);
}

static void
test_next(void)
{
	struct source s;
	uint64_t took;

	start();
	source_init(&s);
	CHECK_EQ(weft_poller_add(w, &s.p), 0);
	s.next_ns = weft_engine_clock_ns() + 5000000;
	took = sleep_us(LONG_US);
	CHECK(took < ENDED_US);
	CHECK(weft_engine_clock_ns() >= s.next_ns);
	/* It is due, and it stays due: no sleep. */
	for (unsigned int i = 0; i < 1000; i++)
		CHECK(sleep_us(LONG_US) < ENDED_US);
	s.next_ns = 0;
	CHECK(sleep_us(LONG_US) < ENDED_US);
	s.next_ns = UINT64_MAX;
	CHECK(sleep_us(20000) >= 19000);
	weft_ctx_destroy(ctx);
}

WEFT_TEST_MAIN({"each poll polls them", test_polled},
               {"one that cannot be added is refused", test_refused},
               {"added and removed while they are polled", test_changes},
               {"a descriptor ends the sleep", test_descriptor},
               {"the time of the next poll ends the sleep", test_next})
