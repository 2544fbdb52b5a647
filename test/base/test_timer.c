/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The timer wheel and the run list, compared with simple reference models. */

#include <stdlib.h>

#include "weft_sched.h"
#include "test_xorshift.h"
#include "weft_test.h"

#define TICK WEFT_TIMER_TICK_NS

static uint64_t rng;

static uint64_t
rnd(void)
{
	return test_xorshift(&rng);
}

/* A timer, with the state that the reference expects. */
struct probe {
	struct weft_timer t;
	uint64_t deadline_ns; /* WEFT_NEVER: not armed */
	unsigned int fired;
	uint64_t fired_at_ns;
	struct weft_timer *victim; /* cancelled by the callback */
	uint64_t period_ns;        /* the callback arms the timer again */
	struct weft_wheel *w;
};

static unsigned int order[8], norder;

static void
probe_fn(struct weft_timer *t, uint64_t now_ns)
{
	struct probe *p = container_of(t, struct probe, t);

	CHECK(!t->armed);
	CHECK_MSG(now_ns >= t->deadline_ns, "fired %" PRIu64 " ns early", t->deadline_ns - now_ns);
	p->fired++;
	p->fired_at_ns = now_ns;
	if (p->victim != NULL)
		weft_timer_cancel(p->w, p->victim);
	if (p->period_ns != 0)
		weft_timer_arm(p->w, t, now_ns + p->period_ns);
}

static void
order_fn(struct weft_timer *t, uint64_t now_ns)
{
	(void)now_ns;
	order[norder++] = (unsigned int)(t->deadline_ns / TICK);
}

#define NPROBES 300

static uint64_t
random_delay(void)
{
	switch (rnd() % 8) {
	case 0:
		return rnd() % TICK;
	case 1:
		return rnd() % (64 * TICK);
	case 2:
		return rnd() % (64 * 64 * TICK);
	case 3:
		return rnd() % (64ULL * 64 * 64 * TICK);
	case 4:
		return rnd() % (64ULL * 64 * 64 * 64 * TICK);
	case 5:
		return rnd() % (1ULL << 44);
	case 6:
		return rnd() % (1ULL << 47); /* beyond the top level */
	default:
		return (1 + rnd() % 4096) * TICK; /* exactly at the beginning of a slot */
	}
}

static void
reference_round(uint64_t seed)
{
	static struct probe p[NPROBES];
	static struct weft_wheel w;
	uint64_t now;

	rng = seed;
	now = rnd() % (1ULL << 50);
	weft_wheel_init(&w, now);
	for (unsigned int i = 0; i < NPROBES; i++) {
		p[i] = (struct probe){.deadline_ns = WEFT_NEVER, .w = &w};
		weft_timer_init(&p[i].t, probe_fn);
	}
	for (unsigned int step = 0; step < 6000; step++) {
		unsigned int k = rnd() % NPROBES, due = 0, armed = 0;
		uint64_t earliest = WEFT_NEVER, next;

		switch (rnd() % 4) {
		case 0:
		case 1:
			p[k].deadline_ns = now + random_delay();
			if (rnd() % 16 == 0)
				p[k].deadline_ns = now - rnd() % RTE_MIN(now, 1ULL << 40);
			weft_timer_arm(&w, &p[k].t, p[k].deadline_ns);
			break;
		case 2:
			p[k].deadline_ns = WEFT_NEVER;
			weft_timer_cancel(&w, &p[k].t);
			CHECK(!p[k].t.armed);
			break;
		default:
			next = weft_timer_next(&w);
			if (rnd() % 2 == 0 && next != WEFT_NEVER)
				now = RTE_MAX(now, next); /* as a caller that sleeps does */
			else
				now += random_delay() >> (rnd() % 3 == 0 ? 0 : rnd() % 40);
			for (unsigned int i = 0; i < NPROBES; i++)
				due += p[i].deadline_ns <= now;
			for (unsigned int i = 0; i < NPROBES; i++)
				p[i].fired = 0;
			CHECK_EQ(weft_timer_run(&w, now), due);
			for (unsigned int i = 0; i < NPROBES; i++) {
				CHECK_EQ(p[i].fired, p[i].deadline_ns <= now);
				if (p[i].fired)
					p[i].deadline_ns = WEFT_NEVER;
			}
		}
		for (unsigned int i = 0; i < NPROBES; i++) {
			CHECK_EQ(p[i].t.armed, p[i].deadline_ns != WEFT_NEVER);
			armed += p[i].t.armed;
			earliest = RTE_MIN(earliest, p[i].deadline_ns);
		}
		CHECK_EQ(w.armed, armed);
		next = weft_timer_next(&w);
		CHECK_MSG(next <= earliest, "next %" PRIu64 " > earliest %" PRIu64, next, earliest);
		CHECK_EQ(next == WEFT_NEVER, earliest == WEFT_NEVER);
		/* A sleeping caller makes progress: if no timer is due, the next wake-up is in the
		 * future. */
		if (earliest > now)
			CHECK_MSG(next > now, "next %" PRIu64 " not after now %" PRIu64, next, now);
	}
	for (unsigned int i = 0; i < NPROBES; i++)
		weft_timer_cancel(&w, &p[i].t);
	CHECK_EQ(w.armed, 0);
	for (unsigned int l = 0; l < WEFT_TIMER_LEVELS; l++)
		CHECK_EQ(w.occupied[l], 0);
}

static void
test_reference(void)
{
	if (test_seed_given()) {
		reference_round(test_seed(1));
		return;
	}
	for (uint64_t seed = 1; seed <= 12; seed++) {
		test_note("seed %" PRIu64, seed);
		reference_round(seed * 0x9e3779b97f4a7c15ULL);
	}
}

static void
test_exact(void)
{
	struct weft_wheel w;
	struct probe p = {.w = &w};
	/* Delays around every boundary between the wheel's levels, from the last tick before the
	 * boundary. */
	uint64_t border[] = {1,
	                     63,
	                     64,
	                     65,
	                     4095,
	                     4096,
	                     4097,
	                     1 << 18,
	                     (1 << 24) - 1,
	                     1 << 24,
	                     1 << 30,
	                     (1ULL << 30) + 1,
	                     1ULL << 36,
	                     (1ULL << 40) + 17};

	for (unsigned int i = 0; i < RTE_DIM(border); i++) {
		uint64_t start = (1ULL << 30) * TICK - TICK * (i % 3), d = start + border[i] * TICK;

		for (int off = -1; off <= 1; off++) {
			weft_wheel_init(&w, start);
			weft_timer_init(&p.t, probe_fn);
			p.fired = 0;
			weft_timer_arm(&w, &p.t, d + off);
			CHECK(weft_timer_next(&w) <= d + off);
			CHECK_EQ(weft_timer_run(&w, d + off - 1), 0);
			CHECK_EQ(weft_timer_next(&w), d + off);
			CHECK_EQ(weft_timer_run(&w, d + off), 1);
			CHECK_EQ(p.fired, 1);
			CHECK_EQ(weft_timer_next(&w), WEFT_NEVER);
		}
	}
}

static void
test_sleeper(void)
{
	struct weft_wheel w;
	struct probe p = {.w = &w};
	uint64_t now = 12345, deadline = now + 40 * 3600 * WEFT_NS_PER_S;
	unsigned int wakes = 0;

	weft_wheel_init(&w, now);
	weft_timer_init(&p.t, probe_fn);
	weft_timer_arm(&w, &p.t, deadline);
	while (p.fired == 0) {
		now = weft_timer_next(&w);
		weft_timer_run(&w, now);
		CHECK(++wakes < 32);
	}
	CHECK_EQ(p.fired_at_ns, deadline);
}

static void
test_never_and_past(void)
{
	struct weft_wheel w;
	struct probe a = {.w = &w}, b = {.w = &w};
	uint64_t now = 77 * TICK + 5;

	weft_wheel_init(&w, now);
	weft_timer_init(&a.t, probe_fn);
	weft_timer_init(&b.t, probe_fn);
	weft_timer_arm(&w, &a.t, WEFT_NEVER);
	weft_timer_arm(&w, &b.t, 0);
	CHECK_EQ(weft_timer_next(&w), 0);
	CHECK_EQ(weft_timer_run(&w, now), 1);
	CHECK_EQ(b.fired, 1);
	CHECK_EQ(weft_timer_run(&w, now + (1ULL << 50)), 0);
	CHECK(a.t.armed);
	/* If the clock steps back, no timer fires early. */
	weft_timer_arm(&w, &b.t, now + (1ULL << 50) + 1);
	CHECK_EQ(weft_timer_run(&w, now), 0);
	CHECK_EQ(weft_timer_run(&w, now + (1ULL << 50) + 1), 1);
	weft_timer_cancel(&w, &a.t);
	weft_timer_cancel(&w, &a.t);
	CHECK_EQ(w.armed, 0);
}

static void
test_rearm(void)
{
	struct weft_wheel w;
	struct probe p = {.w = &w, .period_ns = 1};
	uint64_t now = 1000;

	weft_wheel_init(&w, now);
	weft_timer_init(&p.t, probe_fn);
	weft_timer_arm(&w, &p.t, 0);
	/* A timer that is due again at once waits for the next run. */
	for (unsigned int i = 1; i <= 100; i++) {
		now += TICK / 3;
		CHECK_EQ(weft_timer_run(&w, now), 1);
		CHECK_EQ(p.fired, i);
	}
	p.period_ns = 10 * WEFT_NS_PER_MS;
	CHECK_EQ(weft_timer_run(&w, ++now), 1);
	for (unsigned int i = 1; i <= 1000; i++) {
		now += 10 * WEFT_NS_PER_MS;
		CHECK_EQ(weft_timer_run(&w, now - 1), 0);
		CHECK_EQ(weft_timer_run(&w, now), 1);
	}
}

static void
test_cancel_in_callback(void)
{
	for (unsigned int both = 0; both < 2; both++) {
		struct weft_wheel w;
		struct probe a = {.w = &w}, b = {.w = &w};

		weft_wheel_init(&w, 0);
		weft_timer_init(&a.t, probe_fn);
		weft_timer_init(&b.t, probe_fn);
		a.victim = &b.t;
		b.victim = &a.t;
		/* Both in one slot, or in slots that are due in one run. */
		weft_timer_arm(&w, &a.t, 5 * TICK);
		weft_timer_arm(&w, &b.t, both ? 5 * TICK + 1 : 900 * TICK);
		CHECK_EQ(weft_timer_run(&w, 1000 * TICK), 1);
		CHECK_EQ(a.fired + b.fired, 1);
		CHECK_EQ(w.armed, 0);
		CHECK_EQ(weft_timer_run(&w, 2000 * TICK), 0);
	}
}

static struct probe *mover_target;

static void
mover_fn(struct weft_timer *t, uint64_t now_ns)
{
	struct probe *p = container_of(t, struct probe, t);

	weft_timer_arm(p->w, &mover_target->t, now_ns + 3 * TICK);
}

static void
test_move_in_callback(void)
{
	struct weft_wheel w;
	struct probe a = {.w = &w}, b = {.w = &w};

	weft_wheel_init(&w, 0);
	weft_timer_init(&a.t, mover_fn);
	weft_timer_init(&b.t, probe_fn);
	mover_target = &b;
	weft_timer_arm(&w, &a.t, 7 * TICK);
	/* due in the same run, and armed for later before its turn */
	weft_timer_arm(&w, &b.t, 8 * TICK);
	CHECK_EQ(weft_timer_run(&w, 20 * TICK), 1);
	CHECK_EQ(b.fired, 0);
	CHECK_EQ(weft_timer_run(&w, 23 * TICK - 1), 0);
	CHECK_EQ(weft_timer_run(&w, 23 * TICK), 1);
	CHECK_EQ(b.fired, 1);
}

static void
test_order(void)
{
	struct weft_wheel w;
	struct weft_timer t[5];
	unsigned int at[5] = {5000, 3, 70, 300000, 64};

	weft_wheel_init(&w, 0);
	for (unsigned int i = 0; i < 5; i++) {
		weft_timer_init(&t[i], order_fn);
		weft_timer_arm(&w, &t[i], at[i] * TICK);
	}
	norder = 0;
	CHECK_EQ(weft_timer_run(&w, 1000000 * TICK), 5);
	for (unsigned int i = 1; i < 5; i++)
		CHECK(order[i - 1] < order[i]);
}

/* ---- the run list ---- */

struct job {
	struct weft_task t;
	struct weft_sched *s;
	unsigned int ran;
	bool again;
	struct weft_task *cancel, *queue;
};

static void
job_fn(struct weft_task *t, uint64_t now_ns)
{
	struct job *j = container_of(t, struct job, t);

	CHECK_EQ(now_ns, 42);
	j->ran++;
	if (j->again)
		weft_task_queue(j->s, t);
	if (j->cancel != NULL)
		weft_task_cancel(j->s, j->cancel);
	if (j->queue != NULL)
		weft_task_queue(j->s, j->queue);
}

static void
test_run_list(void)
{
	static struct weft_sched s;
	struct job a = {.s = &s}, b = {.s = &s}, c = {.s = &s};

	TAILQ_INIT(&s.run);
	weft_task_init(&a.t, job_fn);
	weft_task_init(&b.t, job_fn);
	weft_task_init(&c.t, job_fn);
	CHECK_EQ(weft_sched_run(&s, 42), 0);
	weft_task_queue(&s, &a.t);
	weft_task_queue(&s, &a.t);
	CHECK_EQ(weft_sched_run(&s, 42), 1);
	CHECK_EQ(a.ran, 1);

	/* Task a asks to run again, cancels b, which would run in the same turn, and queues c for
	 * the next. */
	a.again = true;
	a.cancel = &b.t;
	a.queue = &c.t;
	weft_task_queue(&s, &a.t);
	weft_task_queue(&s, &b.t);
	CHECK_EQ(weft_sched_run(&s, 42), 1);
	CHECK_EQ(b.ran, 0);
	CHECK_EQ(c.ran, 0);
	CHECK_EQ(weft_sched_run(&s, 42), 2);
	CHECK_EQ(a.ran, 3);
	CHECK_EQ(c.ran, 1);

	/* A task that is cancelled and queued again goes to the end, so it runs in the next
	 * turn. */
	weft_task_cancel(&s, &a.t);
	weft_task_cancel(&s, &c.t);
	a.again = false;
	a.cancel = a.queue = &b.t;
	weft_task_queue(&s, &a.t);
	weft_task_queue(&s, &b.t);
	CHECK_EQ(weft_sched_run(&s, 42), 1);
	CHECK_EQ(b.ran, 0);
	CHECK_EQ(weft_sched_run(&s, 42), 1);
	CHECK_EQ(b.ran, 1);
	CHECK_EQ(weft_sched_run(&s, 42), 0);
}

WEFT_TEST_MAIN({"reference", test_reference}, {"exact", test_exact}, {"sleeper", test_sleeper},
               {"never_and_past", test_never_and_past}, {"rearm", test_rearm},
               {"cancel_in_callback", test_cancel_in_callback},
               {"move_in_callback", test_move_in_callback}, {"order", test_order},
               {"run_list", test_run_list})
