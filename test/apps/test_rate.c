/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The rates of exports (apps/target/rate.h), on a clock of the test: a rate is kept within
 * 5 %, on one worker and on several; a client that asks for more, or opens and closes grants all
 * the time, gets no more than the others. */

#include <errno.h>
#include <pthread.h>
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
	struct rate_pass *pass;
	uint64_t next_ns; /* when it begins again; UINT64_MAX: it waits */
};

struct sim_client {
	struct rate_pass pass[WORKERS];
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

	if (!w->refused) {
		op->c->bytes += w->bytes;
		op->c->ops++;
	}
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
		CHECK_EQ(rate_pass_open(&c->pass[k], &nodes[(first + k) % WORKERS], &id), 0);
	for (unsigned int k = 0; k < depth; k++)
		c->op[k] = (struct sim_op){
		        .c = c, .pass = &c->pass[k % n], .w = {.bytes = size, .go = sim_done}};
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
sim_step(void)
{
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
			if (rate_enter(op->pass, &op->w))
				sim_done(&op->w);
		}
	now_ns += STEP_NS;
}

static void
sim_run(double seconds)
{
	const uint64_t end = now_ns + (uint64_t)(seconds * SEC);

	for (unsigned int i = 0; i < CLIENTS; i++)
		clients[i].bytes = clients[i].ops = 0;
	while (now_ns < end)
		sim_step();
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
sim_close(struct rate_pass *p)
{
	rate_pass_end(p);
	rate_pass_put(p);
	/* Its memory is the owner's again. */
	memset(p, 0xa5, sizeof(*p));
	p->lane = NULL;
}

static void
sim_end(void)
{
	for (unsigned int i = 0; i < CLIENTS; i++) {
		for (unsigned int k = 0; k < clients[i].depth; k++)
			rate_leave(&clients[i].op[k].w);
		for (unsigned int k = 0; k < WORKERS; k++)
			if (clients[i].pass[k].lane != NULL)
				sim_close(&clients[i].pass[k]);
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
			const struct quota_id id = {.octets = {(uint8_t)(c - clients + 1)},
			                            .bytes = 1};
			struct rate_node *n0 = c->pass[0].lane->n;

			sim_close(&c->pass[0]);
			CHECK_EQ(rate_pass_open(&c->pass[0], n0, &id), 0);
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

/* ---- A client that opens and closes grants all the time ---- */

/** The client opens a grant on a worker that is drawn, begins `depth` operations, ends the grant
 * after a time that is drawn, is forgotten if that may be, and opens the next one. With `slow` it
 * goes from worker to worker, and comes when it counts as active on none. */
struct churn {
	struct sim_client *c;
	uint64_t s, next_ns;
	unsigned int workers, at;
	bool slow;
};

static uint32_t
draw(struct churn *ch, uint32_t n)
{
	ch->s = ch->s * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(ch->s >> 33) % n;
}

static void
churn_turn(struct churn *ch)
{
	struct sim_client *c = ch->c;
	const struct quota_id id = {.octets = {(uint8_t)(c - clients + 1)}, .bytes = 1};

	if (now_ns < ch->next_ns)
		return;
	if (c->pass[0].lane != NULL) {
		sim_close(&c->pass[0]);
		ch->next_ns = now_ns + (ch->slow ? 52 * MS : 0) + draw(ch, 8) * STEP_NS;
		for (unsigned int k = 0; k < c->depth; k++)
			c->op[k].next_ns = UINT64_MAX;
	} else {
		ch->at = ch->slow ? ch->at + 1 : draw(ch, WORKERS);
		CHECK_EQ(rate_pass_open(&c->pass[0], &nodes[ch->at % ch->workers], &id), 0);
		ch->next_ns = now_ns + (1 + draw(ch, 30)) * STEP_NS;
		for (unsigned int k = 0; k < c->depth; k++) {
			CHECK(c->op[k].w.gate == NULL); /* none waits by a grant that has ended */
			c->op[k].pass = &c->pass[0];
			c->op[k].next_ns = now_ns;
		}
	}
	for (unsigned int i = 0; i < WORKERS; i++)
		rate_reap(&nodes[i]);
}

static void
churn_run(struct churn *ch, double seconds)
{
	const uint64_t end = now_ns + (uint64_t)(seconds * SEC);

	for (unsigned int i = 0; i < CLIENTS; i++)
		clients[i].bytes = clients[i].ops = 0;
	while (now_ns < end) {
		churn_turn(ch);
		sim_step();
	}
}

/** `churn` alone with a limit for each client, then with 15 others and a limit of the sum. */
static void
churn(unsigned int workers, uint64_t size, bool ops, bool slow, uint64_t seed)
{
	struct churn ch = {.c = &clients[0], .s = seed, .workers = workers, .slow = slow};
	double share, got, worst = 1e9;

	sim_begin();
	clients[0].depth = 32;
	clients[0].size = size;
	for (unsigned int k = 0; k < clients[0].depth; k++)
		clients[0].op[k] =
		        (struct sim_op){.c = &clients[0], .w = {.bytes = size, .go = sim_done}};
	sim_set(0, 0, ops ? 0 : 8 << 20, ops ? 300 : 0);
	churn_run(&ch, 20);
	got = (double)(ops ? clients[0].ops : clients[0].bytes) / 20 / (ops ? 300 : 8 << 20);
	CHECK_MSG(got <= 1.05 && got >= 0.9, "%u workers, %u octets: %.3f of the client's limit",
	          workers, (unsigned int)size, got);

	for (unsigned int i = 1; i < CLIENTS; i++)
		sim_client(i, i % workers, 1, 4, 64 << 10);
	sim_set(ops ? 0 : 64 << 20, ops ? 1600 : 0, 0, 0);
	churn_run(&ch, 0.5);
	churn_run(&ch, 4);
	near(total(ops) / 4, ops ? 1600 : 64 << 20, "sum");
	share = total(ops) / CLIENTS;
	for (unsigned int i = 1; i < CLIENTS; i++) {
		got = (double)(ops ? clients[i].ops : clients[i].bytes) / share;
		worst = got < worst ? got : worst;
	}
	got = (double)(ops ? clients[0].ops : clients[0].bytes) / share;
	CHECK_MSG(worst >= 0.9,
	          "%u workers, %u octets: the least of 15 others got %.2f of its share", workers,
	          (unsigned int)size, worst);
	CHECK_MSG(got <= 1.1, "%u workers, %u octets: %.2f of its share", workers,
	          (unsigned int)size, got);
	sim_end();
}

static void
test_churn(void)
{
	uint64_t seed = test_seed((uint64_t)time(NULL));

	test_seed_note(seed);
	for (unsigned int workers = 1; workers <= WORKERS; workers++) {
		churn(workers, 4 << 10, true, false, seed);
		churn(workers, 64 << 10, false, false, seed);
		churn(workers, 1 << 20, false, false, seed);
		churn(workers, 1 << 20, false, true, seed);
	}
}

/** What waits ends with its grant, and nothing else: another grant of the client goes on, is paid
 * for, and finds no debt of operations that were not executed. */
static void
test_end(void)
{
	sim_begin();
	sim_set(1 << 20, 0, 0, 0);
	sim_client(0, 0, 1, 16, 64 << 10);
	sim_client(1, 0, 1, 1, 64 << 10);
	CHECK_EQ(rate_pass_open(&clients[0].pass[1], &nodes[0],
	                        &(struct quota_id){.octets = {1}, .bytes = 1}),
	         0);
	for (unsigned int k = 8; k < 16; k++)
		clients[0].op[k].pass = &clients[0].pass[1];
	clients[1].stopped = true;
	sim_run(0.2);
	CHECK_EQ(atomic_load(&x.waiting), 16);
	sim_close(&clients[0].pass[1]);
	CHECK_EQ(atomic_load(&x.waiting), 8);
	for (unsigned int k = 0; k < 16; k++) {
		CHECK_EQ(clients[0].op[k].w.gate != NULL, k < 8);
		CHECK_EQ(clients[0].op[k].w.refused, k >= 8);
		if (k >= 8)
			clients[0].op[k].next_ns = UINT64_MAX;
	}
	sim_run(2);
	near((double)clients[0].bytes / 2, 1 << 20, "the grant that stays");
	clients[1].stopped = false;
	sim_run(0.2);
	sim_run(2);
	near((double)clients[0].bytes / 2, 512 << 10, "one of two");
	near((double)clients[1].bytes / 2, 512 << 10, "the other");
	sim_end();
}

/** Clients that owe and have gone are remembered, up to a number, and not longer than they owe. */
static void
test_kept(void)
{
	struct rate_pass p;
	struct weft_gate_wait w = {.bytes = 100000, .go = sim_done};
	struct rate_lane *l;
	unsigned int kept = 0;

	sim_begin();
	sim_set(0, 0, 100000, 0);
	for (unsigned int i = 0; i < RATE_KEPT_MAX + 44; i++) {
		const struct quota_id id = {.octets = {(uint8_t)i, (uint8_t)(i >> 8)}, .bytes = 2};

		CHECK_EQ(rate_pass_open(&p, &nodes[0], &id), 0);
		CHECK(rate_enter(&p, &w));
		rate_pass_end(&p);
		rate_pass_put(&p);
	}
	rate_reap(&nodes[0]);
	TAILQ_FOREACH (l, &nodes[0].lanes, link)
		kept++;
	CHECK_EQ(kept, RATE_KEPT_MAX);
	CHECK_EQ(atomic_load(&x.forgotten), 44);
	sim_run(2.1);
	rate_reap(&nodes[0]);
	CHECK(TAILQ_EMPTY(&nodes[0].lanes));
	CHECK_EQ(nodes[0].nfilled, 0);
	sim_end();
}

/** A Flush that has its region, and comes to the gate behind the end of its grant, is executed. The
 * client pays for it by its other grants. */
static void
test_late(void)
{
	const struct quota_id id = {.octets = {7}, .bytes = 1};
	struct weft_gate_wait late = {.bytes = 300000, .go = sim_done};
	struct weft_gate_wait next = {.bytes = 1, .go = sim_done};
	struct rate_pass p[2];

	sim_begin();
	sim_set(0, 0, 100000, 0);
	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(rate_pass_open(&p[i], &nodes[0], &id), 0);
	rate_pass_end(&p[0]);
	CHECK(rate_enter(&p[0], &late));
	CHECK(!rate_enter(&p[1], &next));
	rate_leave(&next);
	rate_pass_end(&p[1]);
	for (unsigned int i = 0; i < 2; i++)
		rate_pass_put(&p[i]);
	sim_end();
}

static unsigned int gone;

static void
waited_go(struct weft_gate_wait *w)
{
	(void)w;
	gone++;
}

/** A region's Flush waits, and calls of the same grant wait behind it: the time of the Flush is its
 * own, and stays until it is asked for. */
static void
test_waited(void)
{
	const struct quota_id id = {.octets = {9}, .bytes = 1};
	struct weft_gate_wait first = {.bytes = 200000, .go = waited_go};
	struct weft_gate_wait flush = {.bytes = 1, .go = waited_go};
	struct weft_gate_wait call = {.bytes = 1, .go = waited_go}, more = call;
	struct rate_pass p;
	uint64_t since_ns, waited_ns;

	sim_begin();
	gone = 0;
	sim_set(0, 0, 100000, 0);
	CHECK_EQ(rate_pass_open(&p, &nodes[0], &id), 0);
	CHECK(rate_enter(&p, &first));
	since_ns = now_ns;
	CHECK(!p.gate.enter(&p.gate, &flush));
	CHECK_EQ(rate_pass_waited(&p), 0);
	sim_run(0.5);
	CHECK(!rate_enter(&p, &call));
	while (gone == 0)
		sim_step();
	since_ns = now_ns - since_ns;
	CHECK(flush.gate == NULL);
	while (gone == 1)
		sim_step();
	CHECK(call.gate == NULL);
	(void)rate_enter(&p, &more);
	rate_leave(&more);
	waited_ns = rate_pass_waited(&p);
	CHECK_MSG(waited_ns <= since_ns && waited_ns + 2 * STEP_NS >= since_ns, "%g of %g s",
	          (double)waited_ns / SEC, (double)since_ns / SEC);
	CHECK_EQ(rate_pass_waited(&p), 0);
	/* One that passes at once has not waited. */
	sim_run(2);
	CHECK(p.gate.enter(&p.gate, &flush));
	CHECK_EQ(rate_pass_waited(&p), 0);
	rate_pass_end(&p);
	rate_pass_put(&p);
	sim_end();
}

/* ---- Places ---- */

#define PLACES 3

static atomic_uint places, inside, most_inside;

static void *
place_main(void *arg)
{
	unsigned int n, most;

	for (unsigned int i = 0; i < 1000000; i++) {
		if (!rate_place_take(&places, PLACES))
			continue;
		n = atomic_fetch_add(&inside, 1) + 1;
		most = atomic_load(&most_inside);
		while (n > most && !atomic_compare_exchange_weak(&most_inside, &most, n))
			;
		atomic_fetch_sub(&inside, 1);
		atomic_fetch_sub(&places, 1);
	}
	return arg;
}

/** However many threads ask at the same time, no more than the limit have a place. */
static void
test_places(void)
{
	pthread_t th[2 * PLACES];

	CHECK(rate_place_take(&places, 0)); /* no limit */
	atomic_store(&places, 0);
	for (unsigned int i = 0; i < 2 * PLACES; i++)
		CHECK_EQ(pthread_create(&th[i], NULL, place_main, NULL), 0);
	for (unsigned int i = 0; i < 2 * PLACES; i++)
		CHECK_EQ(pthread_join(th[i], NULL), 0);
	CHECK(atomic_load(&most_inside) <= PLACES);
	CHECK_EQ(atomic_load(&places), 0);
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
               {"what waits ends with its grant", test_end},
               {"a client that opens and closes grants", test_churn},
               {"an operation behind the end of its grant", test_late},
               {"how long an operation of a region has waited", test_waited},
               {"clients that owe are remembered", test_kept},
               {"no memory for an alarm", test_no_alarm},
               {"threads that ask for places", test_places})
