/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What a worker does for the control socket (apps/target/target_control_collect.c): slices
 * of a bounded length, while connections and clients come and go between them. */

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rate.h"
#include "target.h"
#include "target_control_conns.h"
#include "target_rate.h"
#include "weft_test.h"

#define CONNS   1000U
#define EXPORTS 100U
#define CLIENTS 150U /* of an export, at most */

struct weft_qp {
	uint32_t number;
};

static struct target t;
static struct target_worker *const tw = &t.workers[0];
static struct control_job job;
static struct control_part *const part = &job.part[0];
static struct target_conn *conns[2 * CONNS];
static struct rate_node nodes[EXPORTS];
static struct rate_pass passes[EXPORTS][CLIENTS];
static uint32_t nclients[EXPORTS];
static unsigned int seen[2 * CONNS], nlooked, nput, ncanceled;
static const char *dropped;
static uint64_t seed;

/* ---- The library's part, and that of the target ---- */

void
weft_qp_query(struct weft_qp *qp, struct weft_qp_info *info)
{
	*info = (struct weft_qp_info){.qpn = qp->number};
	nlooked++;
}

void
weft_alarm_cancel(struct weft_alarm *a)
{
	CHECK(a != NULL);
	ncanceled++;
}

void
control_job_put(struct control_job *j)
{
	CHECK(j == &job);
	nput++;
}

const char *
control_param(const struct control_job *j, const char *name)
{
	CHECK(j == &job && strcmp(name, "client") == 0);
	nlooked++;
	return dropped;
}

uint32_t
target_rate_clients(const struct target_worker *w, const struct target_export *ex,
                    struct rate_walk *walk, uint32_t most,
                    bool (*fn)(void *arg, const struct quota_id *id, uint64_t ops, uint64_t bytes,
                               bool waits),
                    void *arg)
{
	CHECK(w == tw);
	nlooked++;
	return rate_clients(&nodes[ex - t.exports], walk, most, fn, arg);
}

/* ---- Connections ---- */

static uint32_t
draw(uint32_t n)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(seed >> 33) % n;
}

static void
begin(uint32_t number)
{
	struct target_conn *c = calloc(1, sizeof(*c));

	CHECK(c != NULL && conns[number] == NULL);
	c->w = tw;
	c->qp = calloc(1, sizeof(*c->qp));
	CHECK(c->qp != NULL);
	c->qp->number = number;
	snprintf(c->peer, sizeof(c->peer), "10.0.0.%u:%u", number % 10, number);
	LIST_INSERT_HEAD(&tw->conns, c, link);
	conns[number] = c;
}

static void
end(struct target_conn *c)
{
	target_control_conn_gone(c);
	conns[c->qp->number] = NULL;
	LIST_REMOVE(c, link);
	free(c->qp);
	free(c);
}

static const struct target_ops ops = {.close = end};

static void
set_up(void)
{
	memset(&job, 0, sizeof(job));
	memset(seen, 0, sizeof(seen));
	nput = ncanceled = 0;
	LIST_INIT(&tw->conns);
	LIST_INIT(&tw->looking);
	tw->t = &t;
	tw->ops = &ops;
	t.stack.nworkers = 1;
	job.t = &t;
	part->job = &job;
	part->tw = tw;
	part->max_rows = 3 * CONNS;
	part->rows = calloc(part->max_rows, sizeof(*part->rows));
	part->max_holds = 1;
	part->holds = calloc(1, sizeof(*part->holds));
	CHECK(part->rows != NULL && part->holds != NULL);
	for (uint32_t i = 0; i < CONNS; i++)
		begin(i);
}

static void
tear_down(void)
{
	CHECK(LIST_EMPTY(&tw->looking));
	for (uint32_t i = 0; i < 2 * CONNS; i++)
		if (conns[i] != NULL)
			end(conns[i]);
	free(part->rows);
	free(part->holds);
	free(part->lanes);
}

/** Count the rows by the number of their connection. */
static void
rows_count(void)
{
	memset(seen, 0, sizeof(seen));
	for (uint32_t i = 0; i < part->nrows; i++)
		seen[part->rows[i].qpn]++;
}

/** However many connections there are, a slice looks at CONTROL_SLICE; a second sample begins
 * anew. */
static void
test_slices(void)
{
	set_up();
	for (unsigned int sample = 0; sample < 2; sample++) {
		uint32_t before = part->nrows = 0, slices = 1;

		while (!control_conns_collect(part)) {
			CHECK_EQ(part->nrows, before + CONTROL_SLICE);
			before = part->nrows;
			slices++;
		}
		CHECK_EQ(slices, (CONNS + CONTROL_SLICE - 1) / CONTROL_SLICE);
		CHECK(LIST_EMPTY(&tw->looking));
		rows_count();
		for (uint32_t i = 0; i < CONNS; i++)
			CHECK_EQ(seen[i], 1);
	}
	CHECK_EQ(part->left_out, 0);
	tear_down();
}

/** Connections end and begin between slices, those among them that are the next ones: each other
 * one has one row. */
static void
test_ends(void)
{
	seed = test_seed((uint64_t)time(NULL));
	test_seed_note(seed);
	for (unsigned int round = 0; round < 100; round++) {
		bool stayed[CONNS];
		uint32_t next = CONNS;

		set_up();
		memset(stayed, true, sizeof(stayed));
		while (!control_conns_collect(part)) {
			if (draw(2) == 0) {
				struct target_conn *c = part->next_conn;

				if (c->qp->number < CONNS)
					stayed[c->qp->number] = false;
				end(c);
			}
			for (unsigned int k = draw(20); k > 0; k--) {
				const uint32_t i = draw(CONNS);

				stayed[i] = false;
				if (conns[i] != NULL)
					end(conns[i]);
			}
			if (next < 2 * CONNS)
				begin(next++);
		}
		rows_count();
		for (uint32_t i = 0; i < 2 * CONNS; i++)
			CHECK(seen[i] <= 1 && (i >= CONNS || !stayed[i] || seen[i] == 1));
		tear_down();
	}
}

/** The connections of one client are closed, by slices too, and no other. */
static void
test_drop(void)
{
	uint32_t left = CONNS, slices = 1;

	set_up();
	dropped = "10.0.0.7:17";
	while (!control_drop_collect(part))
		slices++;
	CHECK_EQ(slices, (CONNS + CONTROL_SLICE - 1) / CONTROL_SLICE);
	CHECK_EQ(part->closed, 1);
	for (uint32_t i = 0; i < CONNS; i++)
		left -= conns[i] == NULL;
	CHECK_EQ(left, CONNS - 1);
	CHECK(conns[17] == NULL);
	tear_down();
}

/* ---- Limited exports ---- */

static uint64_t
node_now(struct rate_node *n)
{
	(void)n;
	return 1000000;
}

static int
node_arm(struct rate_node *n, uint64_t at_ns)
{
	(void)n;
	(void)at_ns;
	return 0;
}

static void
limits_up(void)
{
	static const struct rate_limits l = {.bytes_per_s = 1000000};

	set_up();
	job.limited = calloc(EXPORTS, sizeof(*job.limited));
	part->max_lanes = EXPORTS * CLIENTS;
	part->lanes = calloc(part->max_lanes, sizeof(*part->lanes));
	CHECK(job.limited != NULL && part->lanes != NULL);
	for (uint32_t i = 0; i < EXPORTS; i++) {
		job.limited[job.nlimited++] = i;
		rate_export_init(&t.rates[i]);
		rate_set(&t.rates[i], &l);
		rate_node_init(&nodes[i], &t.rates[i], node_now, node_arm);
		/* Most have none, or few; some have more than a slice takes. */
		nclients[i] = i % 10 == 3 ? CLIENTS : i % 3;
		for (uint32_t k = 0; k < nclients[i]; k++) {
			const struct quota_id id = {.octets = {(uint8_t)k}, .bytes = 1};

			CHECK_EQ(rate_pass_open(&passes[i][k], &nodes[i], &id), 0);
		}
	}
}

static void
client_gone(uint32_t export, uint32_t client)
{
	if (passes[export][client].lane == NULL)
		return;
	rate_pass_end(&passes[export][client]);
	rate_pass_put(&passes[export][client]);
	passes[export][client].lane = NULL;
	rate_reap(&nodes[export]);
}

static void
limits_down(void)
{
	for (uint32_t i = 0; i < EXPORTS; i++) {
		for (uint32_t k = 0; k < nclients[i]; k++)
			client_gone(i, k);
		rate_node_fini(&nodes[i]);
		CHECK(LIST_EMPTY(&nodes[i].walks));
	}
	free(job.limited);
	tear_down();
}

/** A slice looks at CONTROL_SLICE connections, or as many limited exports and clients of them;
 * clients that leave between slices, the next ones too, disturb no other. */
static void
test_limits(void)
{
	seed = test_seed((uint64_t)time(NULL));
	test_seed_note(seed);
	for (unsigned int round = 0; round < 50; round++) {
		static bool stayed[EXPORTS][CLIENTS];
		static unsigned int told[EXPORTS][CLIENTS];
		uint32_t before = 0;

		limits_up();
		memset(stayed, true, sizeof(stayed));
		memset(told, 0, sizeof(told));
		nlooked = 0;
		while (!control_limits_collect(part)) {
			CHECK(nlooked <= CONTROL_SLICE + 1);
			CHECK(part->nlanes <= before + CONTROL_SLICE);
			before = part->nlanes;
			nlooked = 0;
			if (round == 0)
				continue;
			for (unsigned int k = draw(4); k > 0; k--) {
				const uint32_t i = draw(EXPORTS / 10) * 10 + 3, c = draw(CLIENTS);

				stayed[i][c] = false;
				client_gone(i, c);
			}
			if (part->walk.open && draw(2) == 0) {
				const uint32_t i = job.limited[part->next_limited];
				const uint32_t c = part->walk.next->client->id.octets[0];

				stayed[i][c] = false;
				client_gone(i, c);
			}
		}
		CHECK_EQ(part->nrows, CONNS);
		for (uint32_t i = 0; i < part->nlanes; i++)
			told[part->lanes[i].export][part->lanes[i].id.octets[0]]++;
		for (uint32_t i = 0; i < EXPORTS; i++)
			for (uint32_t k = 0; k < nclients[i]; k++)
				CHECK(told[i][k] <= 1 && (!stayed[i][k] || told[i][k] == 1));
		CHECK(!part->conns_done && part->next_limited == 0);
		limits_down();
	}
}

/** There is no room for all clients: those of the first exports are there, the others are
 * counted. */
static void
test_no_room(void)
{
	uint32_t all = 0;

	limits_up();
	for (uint32_t i = 0; i < EXPORTS; i++)
		all += nclients[i];
	part->max_lanes = 40;
	while (!control_limits_collect(part))
		;
	CHECK_EQ(part->nlanes, 40);
	CHECK_EQ(part->left_out, all - 40);
	limits_down();
}

/** The target stops while a job is in the middle: it is given up, wherever it is. */
static void
test_stopped(void)
{
	for (unsigned int slices = 1; slices < 60; slices++) {
		limits_up();
		for (unsigned int i = 0; i < slices; i++)
			CHECK(!control_limits_collect(part));
		part->alarm = (struct weft_alarm *)&job;
		target_control_stopped(&t);
		CHECK_EQ(nput, 1);
		CHECK_EQ(ncanceled, 1);
		target_control_stopped(&t);
		CHECK_EQ(nput, 1);
		limits_down();
	}
}

WEFT_TEST_MAIN({"a slice is bounded", test_slices},
               {"connections end and begin between slices", test_ends},
               {"one client's connections are closed", test_drop},
               {"clients of limited exports", test_limits},
               {"no room for all clients", test_no_room},
               {"the target stops in the middle", test_stopped})
