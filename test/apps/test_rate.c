/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The rates of exports (apps/target/rate.h), on a clock of the test: a rate is kept within
 * 5 %, on one worker and on several; a client that asks for more gets no more than the others. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rate.h"
#include "weft_test.h"

#define MS        1000000ULL
#define SEC       (1000 * MS)
#define STEP_NS   (MS / 10)
#define WORKERS   4
#define CLIENTS   16
#define DEPTH_MAX 64
#define ANSWER_NS (MS / 5) /* from the end of an operation to the next one of its place */

static uint64_t now_ns, arm_ns[WORKERS];
static struct rate_export x;
static struct rate_node nodes[WORKERS];

struct sim_client;

struct sim_op {
	struct weft_gate_wait w; /* first */
	struct sim_client *c;
	struct rate_lane *lane;
	uint64_t next_ns; /* when it begins again; UINT64_MAX: it waits */
};

struct sim_client {
	struct rate_lane *lane[WORKERS];
	struct sim_op op[DEPTH_MAX];
	unsigned int depth;
	uint64_t size, bytes, ops;
	bool stopped;
};

static struct sim_client clients[CLIENTS];

static uint64_t
sim_now(struct rate_node *n)
{
	(void)n;
	return now_ns;
}

static bool no_alarms; /* there is no memory for one */

static int
sim_arm(struct rate_node *n, uint64_t at_ns)
{
	uint64_t *a = &arm_ns[n - nodes];

	if (no_alarms && *a == UINT64_MAX)
		return -ENOMEM;
	if (at_ns < *a)
		*a = at_ns;
	return 0;
}

static void
sim_done(struct weft_gate_wait *w)
{
	struct sim_op *op = (struct sim_op *)w;

	op->c->bytes += w->bytes;
	op->c->ops++;
	op->next_ns = now_ns + ANSWER_NS;
}

static void
sim_begin(void)
{
	now_ns = 5 * SEC;
	rate_export_init(&x);
	for (unsigned int i = 0; i < WORKERS; i++) {
		rate_node_init(&nodes[i], &x, sim_now, sim_arm);
		arm_ns[i] = UINT64_MAX;
	}
	memset(clients, 0, sizeof(clients));
}

/** A client whose operations take turns on `n` workers from the first one on. */
static void
sim_client(unsigned int i, unsigned int first, unsigned int n, unsigned int depth, uint64_t size)
{
	struct sim_client *c = &clients[i];
	struct quota_id id = {.octets = {(uint8_t)(i + 1)}, .bytes = 1};

	c->depth = depth;
	c->size = size;
	for (unsigned int k = 0; k < n; k++)
		c->lane[k] = rate_lane_get(&nodes[(first + k) % WORKERS], &id);
	for (unsigned int k = 0; k < depth; k++)
		c->op[k] = (struct sim_op){
		        .c = c, .lane = c->lane[k % n], .w = {.bytes = size, .go = sim_done}};
}

static void
sim_set(uint64_t bytes, uint32_t ops, uint64_t client_bytes, uint32_t client_ops)
{
	const struct rate_limits l = {.bytes_per_s = bytes,
	                              .ops_per_s = ops,
	                              .client_bytes_per_s = client_bytes,
	                              .client_ops_per_s = client_ops};

	rate_set(&x, &l);
	for (unsigned int i = 0; i < WORKERS; i++)
		rate_look(&nodes[i]);
}

static void
sim_run(double seconds)
{
	const uint64_t end = now_ns + (uint64_t)(seconds * SEC);

	for (unsigned int i = 0; i < CLIENTS; i++)
		clients[i].bytes = clients[i].ops = 0;
	for (; now_ns < end; now_ns += STEP_NS) {
		for (unsigned int i = 0; i < WORKERS; i++)
			if (arm_ns[i] <= now_ns) {
				arm_ns[i] = UINT64_MAX;
				rate_run(&nodes[i]);
			}
		for (unsigned int i = 0; i < CLIENTS; i++)
			for (unsigned int k = 0; k < clients[i].depth; k++) {
				struct sim_op *op = &clients[i].op[k];

				if (op->next_ns > now_ns || clients[i].stopped)
					continue;
				op->next_ns = UINT64_MAX;
				if (rate_enter(op->lane, &op->w))
					sim_done(&op->w);
			}
	}
}

static double
total(bool ops)
{
	double n = 0;

	for (unsigned int i = 0; i < CLIENTS; i++)
		n += (double)(ops ? clients[i].ops : clients[i].bytes);
	return n;
}

static void
sim_end(void)
{
	for (unsigned int i = 0; i < CLIENTS; i++) {
		for (unsigned int k = 0; k < clients[i].depth; k++)
			rate_leave(&clients[i].op[k].w);
		for (unsigned int k = 0; k < WORKERS; k++)
			if (clients[i].lane[k] != NULL)
				rate_lane_put(clients[i].lane[k]);
	}
	for (unsigned int i = 0; i < WORKERS; i++)
		rate_node_fini(&nodes[i]);
	CHECK_EQ(atomic_load(&x.weight), 0);
	CHECK_EQ(atomic_load(&x.waiting), 0);
	CHECK(LIST_EMPTY(&x.clients));
}

static void
near(double got, double want, const char *what)
{
	CHECK_MSG(got >= 0.95 * want && got <= 1.05 * want, "%s: %.0f, wanted %.0f", what, got,
	          want);
}

static void
test_rate(void)
{
	static const uint64_t sizes[] = {512, 4096, 1 << 20};

	for (unsigned int s = 0; s < 3; s++)
		for (unsigned int workers = 1; workers <= WORKERS; workers++) {
			sim_begin();
			for (unsigned int i = 0; i < workers; i++)
				sim_client(i, i, 1, 16, sizes[s]);
			sim_set(sizes[s] * 1000, 0, 0, 0);
			sim_run(3);
			near(total(false) / 3, (double)sizes[s] * 1000, "octets");
			sim_set(0, 700, 0, 0);
			sim_run(3);
			near(total(true) / 3, 700, "operations");
			sim_set(0, 0, sizes[s] * 200, 0);
			sim_run(3);
			for (unsigned int i = 0; i < workers; i++)
				near((double)clients[i].bytes / 3, (double)sizes[s] * 200,
				     "client");
			sim_set(0, 0, 0, 0);
			sim_run(0.5);
			CHECK(total(true) > 5000 * workers);
			sim_end();
		}
}

/* An operation that is larger than a second's worth is paid before the next one. */
static void
test_large(void)
{
	sim_begin();
	sim_client(0, 0, 1, 4, 8 << 20);
	sim_set(1 << 20, 0, 0, 0);
	sim_run(81);
	CHECK(clients[0].ops >= 10 && clients[0].ops <= 11);
	sim_end();
}

/** 16 clients, the first one with 64 operations of 256 KiB, the others with two small ones. */
static void
fair(unsigned int workers, bool spread, bool ops)
{
	double worst = 1e9, share, sum;

	sim_begin();
	sim_client(0, 0, spread ? workers : 1, DEPTH_MAX, 256 << 10);
	for (unsigned int i = 1; i < CLIENTS; i++)
		sim_client(i, i % workers, 1, 2, 16 << 10);
	sim_set(ops ? 0 : 64 << 20, ops ? 8000 : 0, 0, 0);
	sim_run(0.2);
	sim_run(4);
	sum = total(ops);
	near(sum / 4, ops ? 8000 : 64 << 20, "sum");
	share = sum / CLIENTS;
	for (unsigned int i = 1; i < CLIENTS; i++) {
		double got = (double)(ops ? clients[i].ops : clients[i].bytes) / share;

		worst = got < worst ? got : worst;
	}
	CHECK_MSG(worst >= 0.9, "%u workers%s: the least of the others got %.2f of its share",
	          workers, spread ? ", greedy on each" : "", worst);
	CHECK((double)(ops ? clients[0].ops : clients[0].bytes) <= 1.2 * share);
	sim_end();
}

static void
test_fair(void)
{
	for (unsigned int workers = 1; workers <= WORKERS; workers++)
		for (unsigned int k = 0; k < 4; k++)
			fair(workers, k & 1, k & 2);
}

/* What others do not use, one gets; a client that was away gets its share again at once. */
static void
test_unused(void)
{
	sim_begin();
	sim_client(0, 0, 1, 32, 65536);
	sim_client(1, 1, 1, 32, 65536);
	sim_set(32 << 20, 0, 0, 0);
	clients[1].stopped = true;
	sim_run(2);
	near((double)clients[0].bytes / 2, 32 << 20, "alone");
	clients[1].stopped = false;
	sim_run(0.2);
	sim_run(2);
	near((double)clients[0].bytes / 2, 16 << 20, "one of two");
	near((double)clients[1].bytes / 2, 16 << 20, "the other");
	sim_end();
}

/* Operations leave, and grants end, while others wait; drawn. */
static void
test_leave(void)
{
	uint64_t s = test_seed((uint64_t)time(NULL));

	test_seed_note(s);
	sim_begin();
	for (unsigned int i = 0; i < CLIENTS; i++)
		sim_client(i, i, 1 + i % 3, 8, 4096);
	sim_set(1 << 20, 500, 300000, 0);
	for (int n = 0; n < 2000; n++) {
		struct sim_client *c;

		s = s * 6364136223846793005ULL + 1442695040888963407ULL;
		c = &clients[(s >> 40) % CLIENTS];
		if ((s >> 50) % 3 == 0) {
			rate_release(c->lane[0]);
		} else if ((s >> 50) % 3 == 1) {
			struct sim_op *op = &c->op[(s >> 33) % 8];

			rate_leave(&op->w);
			op->next_ns = now_ns + MS;
		} else if ((s >> 60) == 0) {
			sim_set((s >> 20) % (2 << 20), 0, (s >> 8) % 2 ? 100000 : 0, 0);
		}
		sim_run(0.002);
		for (unsigned int i = 0, waits = 0; i < WORKERS; i++) {
			waits += nodes[i].nwaiting;
			if (i + 1 == WORKERS)
				CHECK_EQ(waits, atomic_load(&x.waiting));
		}
	}
	sim_end();
}

/** Without an alarm nothing waits, because nothing would end the wait. What waits goes on when its
 * alarm came and there is no next one. */
static void
test_no_alarm(void)
{
	sim_begin();
	sim_set(MS, 0, 0, 0);
	sim_client(0, 0, 1, DEPTH_MAX, 100000);
	sim_run(0.1);
	CHECK(atomic_load(&x.waiting) > 0);
	no_alarms = true;
	sim_run(1);
	CHECK_EQ(atomic_load(&x.waiting), 0);
	CHECK(clients[0].ops > 1000);
	no_alarms = false;
	sim_run(1);
	sim_end();
}

WEFT_TEST_MAIN({"a rate is kept on one worker and on several", test_rate},
               {"a large operation is paid", test_large},
               {"the others of 16 clients get their share", test_fair},
               {"what others do not use is not lost", test_unused},
               {"operations leave and grants end", test_leave},
               {"no memory for an alarm", test_no_alarm})
