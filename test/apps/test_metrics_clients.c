/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Counters of clients in the metrics (apps/target/metrics_clients.c), with workers of the
 * test: connections begin and end between and in the middle of passes, and more clients come than a
 * worker remembers. */

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "metrics_read.h"
#include "target.h"
#include "weft_test.h"

#define CONNS 3000

struct weft_qp {
	uint64_t bytes;
};

_Thread_local struct metrics_worker *metrics_me;

static struct target t;
static struct metrics m;
static struct metrics_worker mw;
static struct metrics_clients *mc;
static struct target_conn *held[CONNS]; /**< by number of the client */
static uint64_t had[CONNS];             /**< what the client's connections have counted in all */
static uint64_t seed, now_ns = 1000;
static unsigned int nasked;
static void (*between)(void); /**< after each slice */

/* ---- The library's part ---- */

uint64_t
weft_worker_now_ns(const struct weft_worker *w)
{
	(void)w;
	return now_ns++;
}

int
weft_worker_call(struct weft_worker *w, void (*fn)(void *arg), void *arg)
{
	(void)w;
	nasked++;
	fn(arg);
	if (between != NULL)
		between();
	return 0;
}

void
weft_qp_query(struct weft_qp *qp, struct weft_qp_info *info)
{
	*info = (struct weft_qp_info){.recv_bytes = qp->bytes,
	                              .sent_bytes = 2 * qp->bytes,
	                              .recv_msgs = 1,
	                              .sent_msgs = 1};
}

/* ---- Clients ---- */

static uint32_t
draw(uint32_t n)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(seed >> 33) % n;
}

static void
set_up(void)
{
	memset(&mw, 0, sizeof(mw));
	memset(held, 0, sizeof(held));
	memset(had, 0, sizeof(had));
	LIST_INIT(&t.workers[0].conns);
	t.workers[0].t = &t;
	atomic_store(&t.nconns, 0);
	mw.tw = &t.workers[0];
	mw.closed = calloc(METRICS_CLOSED, sizeof(*mw.closed));
	mw.gone = calloc(METRICS_GONE, sizeof(*mw.gone));
	m = (struct metrics){.t = &t, .nworkers = 1, .worker = {&mw}};
	metrics_me = &mw;
	mc = metrics_clients_make(&m);
	CHECK(mw.closed != NULL && mw.gone != NULL && mc != NULL);
}

static void
begin(uint32_t client)
{
	struct target_conn *c = calloc(1, sizeof(*c));
	struct sockaddr_in *a;

	CHECK(c != NULL && held[client] == NULL);
	c->qp = calloc(1, sizeof(*c->qp));
	CHECK(c->qp != NULL);
	a = (struct sockaddr_in *)&c->remote;
	a->sin_family = AF_INET;
	a->sin_addr.s_addr = htonl(0x0a000000 + client);
	LIST_INSERT_HEAD(&t.workers[0].conns, c, link);
	atomic_fetch_add(&t.nconns, 1);
	held[client] = c;
}

static void
move(uint32_t client, uint64_t bytes)
{
	held[client]->qp->bytes += bytes;
	had[client] += bytes;
}

static void
end(uint32_t client)
{
	struct target_conn *c = held[client];

	target_metrics_conn_gone(c);
	LIST_REMOVE(c, link);
	atomic_fetch_sub(&t.nconns, 1);
	free(c->qp);
	free(c);
	held[client] = NULL;
}

static void
tear_down(void)
{
	for (uint32_t i = 0; i < CONNS; i++)
		if (held[i] != NULL)
			end(i);
	metrics_clients_free(mc);
	free(mw.closed);
	free(mw.gone);
}

/** What is shown of the client, once the thread has asked; 0: it is not shown. */
static uint64_t
shown(uint32_t client)
{
	const struct metrics_client *c;
	uint32_t n, left;
	uint64_t late;
	char key[64];

	snprintf(key, sizeof(key), "@10.%u.%u.%u", client >> 16, client >> 8 & 255, client & 255);
	c = metrics_clients_all(mc, &n, &left, &late);
	CHECK_EQ(late, 0);
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(c[i].key, key) == 0) {
			CHECK_EQ(c[i].sum[METRICS_SENT_BYTES], 2 * c[i].sum[METRICS_RECV_BYTES]);
			return c[i].sum[METRICS_RECV_BYTES];
		}
	return 0;
}

/** Connections of other clients take all places of those whose connections have ended. */
static void
displace(void)
{
	for (uint32_t i = 10; i < CONNS; i++) {
		begin(i);
		move(i, 1);
		end(i);
	}
}

/** A client is forgotten while it is away and comes again: it has begun at 0, and what it moves is
 * seen at once. One that has a connection meanwhile, on the same worker, goes on. */
static void
test_returns(void)
{
	set_up();
	for (uint32_t i = 0; i < 2; i++) {
		begin(i);
		move(i, 1000000);
		end(i);
		begin(i);
		move(i, 500);
	}
	metrics_clients_refresh(mc);
	CHECK_EQ(shown(0), 1000500);
	displace();
	metrics_clients_refresh(mc);
	CHECK_EQ(shown(0), 1000500);
	move(0, 700);
	metrics_clients_refresh(mc);
	CHECK_EQ(shown(0), 1001200);
	end(0);
	metrics_clients_refresh(mc);
	CHECK_EQ(shown(0), 1001200);
	displace();
	metrics_clients_refresh(mc); /* it is forgotten */
	begin(0);
	move(0, 300);
	metrics_clients_refresh(mc);
	CHECK_EQ(shown(0), 300);
	move(0, 1);
	metrics_clients_refresh(mc);
	CHECK_EQ(shown(0), 301);
	CHECK_EQ(shown(1), 1000500);
	tear_down();
}

static void
some_end(void)
{
	for (unsigned int k = 0; k < 3; k++) {
		const uint32_t i = draw(400);

		if (held[i] != NULL) {
			move(i, draw(1000));
			end(i);
		} else {
			begin(i);
			move(i, draw(1000));
		}
	}
}

/** Connections begin, move and end in the middle of passes; drawn. No client's counter becomes
 * less, and none has more than it has moved. In the end each has what it has moved. */
static void
test_middle(void)
{
	static uint64_t before[400];

	seed = test_seed((uint64_t)time(NULL));
	test_seed_note(seed);
	set_up();
	memset(before, 0, sizeof(before));
	for (uint32_t i = 0; i < 400; i += 2)
		begin(i);
	between = some_end;
	for (unsigned int n = 0; n < 300; n++) {
		metrics_clients_refresh(mc);
		for (uint32_t i = 0; i < 400; i++) {
			const uint64_t now = shown(i);

			CHECK(now >= before[i] && now <= had[i]);
			before[i] = now;
		}
	}
	between = NULL;
	metrics_clients_refresh(mc);
	for (uint32_t i = 0; i < 400; i++)
		CHECK_EQ(shown(i), had[i]);
	tear_down();
}

/** More clients are connected than are shown, and than are remembered: all are copied, the busiest
 * are shown, and the counter of one that is left out for a while goes on. */
static void
test_many(void)
{
	uint32_t n, left;
	uint64_t late;

	set_up();
	for (uint32_t i = 0; i < CONNS; i++) {
		begin(i);
		move(i, 10 + i);
	}
	metrics_clients_refresh(mc);
	(void)metrics_clients_all(mc, &n, &left, &late);
	CHECK_EQ(n, METRICS_CLIENTS_MAX);
	CHECK_EQ(left, CONNS - METRICS_CLIENTS_MAX);
	CHECK_EQ(shown(CONNS - 1), CONNS + 9);
	CHECK_EQ(shown(0), 0);
	move(0, 100000);
	metrics_clients_refresh(mc);
	CHECK_EQ(shown(0), 100010);
	tear_down();
}

/** Whether the workers live is one short question, also in the middle of a pass. */
static void
test_alive(void)
{
	uint32_t silent;
	uint64_t silent_ns;

	set_up();
	begin(1);
	move(1, 5);
	nasked = 0;
	CHECK(metrics_clients_alive(mc, &silent, &silent_ns));
	CHECK_EQ(nasked, 1);
	metrics_clients_refresh(mc);
	CHECK(metrics_clients_alive(mc, &silent, &silent_ns));
	CHECK_EQ(shown(1), 5);
	tear_down();
}

WEFT_TEST_MAIN({"a client that was forgotten comes again", test_returns},
               {"connections end in the middle of a pass", test_middle},
               {"more clients than are shown", test_many}, {"whether workers live", test_alive})
