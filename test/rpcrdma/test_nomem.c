/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Lack of memory: each allocation of the library fails in turn, in conversations of every
 * format. Whichever fails, each accepted call ends once, no memory leaks, and nothing stays
 * registered. While the connection exists no call ends only by its timeout: what lacked memory is
 * tried again, or reports the error.
 *
 * The library's allocations are wrapped. Those of this program are not, because it is compiled with
 * the names of the real functions.
 */

#include <errno.h>
#include <stdlib.h>

#include "rig.h"
#include "weft_test.h"

#define BLOCKS 4096

void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);

static bool armed;
static unsigned int asked, fail_at; /* the number of the allocation that fails, from 1; 0: none */
static void *block[BLOCKS];         /* blocks that the library allocated since then */
static unsigned int nblocks;

static bool
fails(void)
{
	return armed && ++asked == fail_at;
}

static void *
keep(void *p)
{
	if (armed && p != NULL) {
		CHECK(nblocks < BLOCKS);
		block[nblocks++] = p;
	}
	return p;
}

static void
forget(const void *p)
{
	for (unsigned int i = nblocks; p != NULL && i-- > 0;) {
		if (block[i] == p) {
			block[i] = block[--nblocks];
			return;
		}
	}
}

void *
__wrap_malloc(size_t n)
{
	return fails() ? NULL : keep(__real_malloc(n));
}

void *
__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : keep(__real_calloc(n, size));
}

void *
__wrap_realloc(void *p, size_t n)
{
	if (fails())
		return NULL;
	forget(p);
	return keep(__real_realloc(p, n));
}

void
__wrap_free(void *p)
{
	forget(p);
	__real_free(p);
}

static struct rig rig;
static struct rig_answer ans[8];
static unsigned int taken[8]; /* accepted calls by their status */

static void
took(unsigned int i, int rc)
{
	taken[i] = rc == 0;
}

static const struct weft_rpc_binding by_reply = {.reply_bytes = rig_reply_40000};

static void
talk_short(void)
{
	took(0, rig_add(&rig.c, 1, 2, &ans[0]));
	rig_settle(&rig);
	took(1, rig_add(&rig.c, 3, 4, &ans[1]));
}

static void
talk_long(void)
{
	static char text[20001];

	memset(text, 't', 20000);
	took(0, rig_echo(&rig.c, text, &ans[0]));
	rig_settle(&rig);
	text[6000] = '\0';
	took(1, rig_echo(&rig.c, text, &ans[1]));
	text[6000] = 't';
}

static void
talk_items(void)
{
	took(0, rig_move(&rig.c, 9001, 9003, &rig_move_binding, &ans[0]));
	rig_settle(&rig);
	took(1, rig_move(&rig.c, 30001, 4, NULL, &ans[1]));
	rig_settle(&rig);
	took(2, rig_move(&rig.c, 4, 5000, &by_reply, &ans[2]));
}

/* More Writes than the initial room of an answer. */
static void
talk_many(void)
{
	took(0, rig_move(&rig.c, 4, 40001, &rig_move_binding, &ans[0]));
}

static void
talk_reverse(void)
{
	took(0, rig_add(&rig.c, 1, 2, &ans[0]));
	rig_settle(&rig);
	took(1, rig_move(&rig.s, 9001, 9003, &rig_move_binding, &ans[1]));
	took(2, rig_add(&rig.s, 3, 4, &ans[2]));
}

static const struct {
	const char *name;
	struct rig_opts opts;
	void (*talk)(void);
	unsigned int calls;
} talk[] = {
        {"version 2, short", {0}, talk_short, 2},
        {"version 1, short", {.client_max = 1}, talk_short, 2},
        {"fallback", {.server_max = 1}, talk_short, 2},
        {"version 2, long", {0}, talk_long, 2},
        {"items", {0}, talk_items, 3},
        {"version 1, items", {.client_max = 1}, talk_items, 3},
        {"small segments", {.max_segment_bytes = 2048}, talk_items, 3},
        {"many segments", {.max_segment_bytes = 2048}, talk_many, 1},
        {"large inline", {.client_inline = 65536, .server_inline = 65536}, talk_items, 3},
        {"both ways", {.client_serves = true}, talk_reverse, 3},
};

/* One conversation in which allocation `at` fails. Returns false if there were fewer
 * allocations. */
static bool
run(unsigned int t, unsigned int at)
{
	const struct rig_opts *o = &talk[t].opts;
	bool one_failed;

	memset(ans, 0, sizeof(ans));
	memset(taken, 0, sizeof(taken));
	rig_up(&rig, o);
	asked = nblocks = 0;
	fail_at = at;
	armed = true;
	talk[t].talk();
	rig_settle(&rig);
	/* Let time pass for retries and for calls without an answer. */
	for (unsigned int i = 0; i < 8; i++) {
		fake_advance(&rig.worker, 10000000);
		rig_settle(&rig);
	}
	one_failed = at > 0 && asked >= at;
	for (unsigned int i = 0; i < talk[t].calls; i++) {
		CHECK_MSG(ans[i].n == taken[i], "%s, allocation %u: call %u has %u answers",
		          talk[t].name, at, i, ans[i].n);
		/* If the first call was not sent, the client has sent nothing, and a server
		 * waits for that. */
		if (one_failed && taken[0] && taken[i] &&
		    rig.c.qp.disconnects + rig.s.qp.disconnects == 0)
			CHECK_MSG(ans[i].status != WEFT_RPC_TIMEDOUT,
			          "%s, allocation %u: call %u timed out", talk[t].name, at, i);
		if (!one_failed)
			CHECK_MSG(taken[i] == 1 && ans[i].status == WEFT_RPC_OK,
			          "%s: call %u has status %u", talk[t].name, i, ans[i].status);
	}
	/* If a side closes the connection, its sink is deregistered, and a Read places nothing. */
	if (rig.c.qp.disconnects > 0)
		rig.c.qp.sink_errors = 0;
	if (rig.s.qp.disconnects > 0)
		rig.s.qp.sink_errors = 0;
	rig_down(&rig);
	armed = false;
	CHECK_MSG(nblocks == 0, "%s, allocation %u: %u blocks are left", talk[t].name, at, nblocks);
	return one_failed;
}

static void
test_each_fails(void)
{
	unsigned int t = test_case_index(), at = 0, n = 0;

	run(t, 0);
	while (run(t, ++at))
		n++;
	test_note("%u allocations, each failed once", n);
	CHECK(n > 8);
}

/* An endpoint whose creation fails does not exist. */
static void
test_create(void)
{
	struct weft_worker worker;
	struct weft_qp qp;
	unsigned int at = 0;
	int rc;

	fake_worker_init(&worker);
	do {
		struct weft_rpc_attr attr = {.size = sizeof(attr), .qp = &qp};
		struct weft_rpc *rpc = NULL;

		fake_qp_init(&qp, &worker, NULL, NULL);
		asked = nblocks = 0;
		fail_at = ++at;
		armed = true;
		rc = weft_rpc_create(&attr, &rpc);
		CHECK_EQ(rc, asked >= at ? -ENOMEM : 0);
		if (rc == 0)
			weft_rpc_destroy(rpc);
		fake_qp_fini(&qp);
		armed = false;
		/* The memory of a destroyed endpoint is kept for a while (weft/ulp.h). */
		CHECK_EQ(nblocks, rc == 0);
		CHECK(rc != 0 || block[0] == rpc);
		CHECK_EQ(fake_mrs(), 0);
	} while (rc != 0);
	CHECK(at > 3);
}

WEFT_TEST_MAIN({"version 2, short", test_each_fails}, {"version 1, short", test_each_fails},
               {"fallback", test_each_fails}, {"version 2, long", test_each_fails},
               {"items", test_each_fails}, {"version 1, items", test_each_fails},
               {"small segments", test_each_fails}, {"many segments", test_each_fails},
               {"large inline", test_each_fails}, {"both ways", test_each_fails},
               {"create", test_create})
