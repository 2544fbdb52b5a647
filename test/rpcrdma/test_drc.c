/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The duplicate request cache of several workers: a call whose reply was lost is repeated on
 * another connection (RFC 5531 s4, draft s3.1.5.1), and is executed once.
 */

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "rig.h"
#include "weft_test.h"

#define XID 0x77001

static struct weft_rpc_drc *drc;
static struct rig_answer ans[4];

/* A connection of the same client, on a worker of its own. */
static void
up(struct rig *r)
{
	rig_up(r, &(struct rig_opts){.drc = drc});
	CHECK_EQ(weft_rpc_set_peer_name(r->s.rpc, "a", 1), 0);
}

static void
ask(struct rig *r, uint32_t xid, uint32_t arg, struct rig_answer *a)
{
	struct weft_rpc_call_attr c = {.size = sizeof(c),
	                               .prog = RIG_PROG,
	                               .vers = 1,
	                               .proc = RIG_LATER,
	                               .xdr_args = rig_xdr_u32,
	                               .args = &arg,
	                               .xdr_res = rig_xdr_u32,
	                               .res_bytes = sizeof(uint32_t),
	                               .fn = rig_on_sum,
	                               .arg = a,
	                               .xid = xid};

	memset(a, 0, sizeof(*a));
	CHECK_EQ(weft_rpc_call_with(r->c.rpc, &c), 0);
	rig_settle(r);
}

static void
finish_call(struct rig *r)
{
	struct weft_rpc_req *req = r->s.later;

	CHECK(req != NULL);
	r->s.later = NULL;
	weft_rpc_done(req, WEFT_RPC_OK);
	if (r->s.rpc != NULL)
		rig_settle(r);
}

static void
lose(struct rig *r)
{
	fake_break(&r->c.qp);
	weft_rpc_destroy(r->s.rpc);
	r->s.rpc = NULL;
}

static void
test_reply_lost(void)
{
	static struct rig a, b;

	CHECK_EQ(weft_rpc_drc_create(4096, &drc), 0);
	up(&a);
	up(&b);
	ask(&a, XID, 7, &ans[0]);
	CHECK_EQ(a.s.served, 1);
	lose(&a);
	CHECK_EQ(ans[0].status, WEFT_RPC_CONNLOST);
	finish_call(&a);

	ask(&b, XID, 7, &ans[1]);
	CHECK_EQ(b.s.served, 0);
	CHECK_EQ(ans[1].n, 1);
	CHECK_EQ(ans[1].sum, 8);
	CHECK_EQ(weft_rpc_stats(b.s.rpc)->replayed, 1);
	rig_down(&a);
	rig_down(&b);
	weft_rpc_drc_destroy(drc);
}

/* The call is repeated while it is being served. The repetition gets the first one's reply, on
 * either worker. */
static void
test_while_served(void)
{
	for (unsigned int how = 0; how < 4; how++) {
		static struct rig a, b, c;
		bool again = how & 1, at_once = how & 2;
		struct weft_rpc_drc_info info;

		CHECK_EQ(weft_rpc_drc_create(4096, &drc), 0);
		up(&a);
		up(&b);
		up(&c);
		ask(&a, XID, 7, &ans[0]);
		lose(&a);
		ask(&b, XID, 7, &ans[1]);
		CHECK_EQ(b.s.served, 0);
		CHECK_EQ(ans[1].n, 0);
		CHECK_EQ(weft_rpc_stats(b.s.rpc)->waited, 1);
		weft_rpc_drc_info(drc, &info);
		CHECK_EQ(info.waited, 1);
		if (again) { /* this connection is lost, too */
			lose(&b);
			CHECK_EQ(ans[1].status, WEFT_RPC_CONNLOST);
			ask(&c, XID, 7, &ans[2]);
			CHECK_EQ(ans[2].n, 0);
			fake_calls(&b.worker);
		}
		if (at_once)
			fake_mine(again ? &c.worker : &b.worker);
		finish_call(&a);
		fake_mine(NULL);
		if (!at_once)
			CHECK_EQ(fake_calls(again ? &c.worker : &b.worker), 1);
		rig_settle(again ? &c : &b);
		CHECK_EQ(ans[1 + again].n, 1);
		CHECK_EQ(ans[1 + again].status, WEFT_RPC_OK);
		CHECK_EQ(ans[1 + again].sum, 8);
		CHECK_EQ(a.s.served, 1);
		CHECK_EQ(b.s.served + c.s.served, 0);
		rig_down(&a);
		rig_down(&b);
		rig_down(&c);
		weft_rpc_drc_destroy(drc);
	}
}

/* The connection of the repeated call is gone, or its worker cannot be notified at this moment.
 * No call is lost, and no memory is used after it was freed. */
static void
test_waiter_gone(void)
{
	static struct rig a, b;

	for (unsigned int how = 0; how < 3; how++) {
		CHECK_EQ(weft_rpc_drc_create(64, &drc), 0);
		up(&a);
		up(&b);
		ask(&a, XID, 7, &ans[0]);
		lose(&a);
		ask(&b, XID, 7, &ans[1]);
		b.worker.deaf = how > 0;
		if (how == 0)
			lose(&b);
		finish_call(&a);
		b.worker.deaf = false;
		if (how == 0) {
			CHECK_EQ(fake_calls(&b.worker), 1);
		} else if (how == 1) {
			/* the next call tries again */
			CHECK_EQ(fake_calls(&b.worker), 0);
			ask(&b, XID + 1, 9, &ans[2]);
			CHECK_EQ(fake_calls(&b.worker), 1);
			rig_settle(&b);
			CHECK_EQ(ans[1].sum, 8);
			finish_call(&b);
			CHECK_EQ(ans[2].sum, 10);
		}
		rig_down(&a);
		rig_down(&b);
		weft_rpc_drc_destroy(drc); /* with calls that were not notified */
	}
}

/* New calls on the next connection of the same client, or of another client with the same name,
 * are not taken for earlier ones: RFC 5531 s9, an xid names one call. */
static void
test_new_after_reconnect(void)
{
	unsigned int served = 0;

	CHECK_EQ(weft_rpc_drc_create(4096, &drc), 0);
	for (unsigned int conn = 0; conn < 4; conn++) {
		static struct rig r;

		rig_up(&r, &(struct rig_opts){.drc = drc, .random = conn + 1});
		CHECK_EQ(weft_rpc_set_peer_name(r.s.rpc, "a", 1), 0);
		for (unsigned int i = 0; i < 3; i++) {
			ask(&r, 0, 7, &ans[0]);
			finish_call(&r);
			CHECK_EQ(ans[0].status, WEFT_RPC_OK);
		}
		CHECK_EQ(weft_rpc_stats(r.s.rpc)->replayed, 0);
		served += r.s.served;
		rig_down(&r);
	}
	CHECK_EQ(served, 12);
	weft_rpc_drc_destroy(drc);
}

/* RFC 5531 s9: xids belong to their caller. Two clients without a name are different callers. */
static void
test_nameless(void)
{
	static struct rig r[2];

	CHECK_EQ(weft_rpc_drc_create(4096, &drc), 0);
	for (unsigned int i = 0; i < 2; i++) {
		rig_up(&r[i], &(struct rig_opts){.drc = drc});
		ask(&r[i], XID, 7, &ans[i]);
		CHECK_EQ(r[i].s.served, 1);
		if (r[i].s.later != NULL)
			finish_call(&r[i]);
		CHECK_EQ(ans[i].status, WEFT_RPC_OK);
		CHECK_EQ(weft_rpc_stats(r[i].s.rpc)->replayed, 0);
	}
	for (unsigned int i = 0; i < 2; i++)
		rig_down(&r[i]);
	weft_rpc_drc_destroy(drc);
}

static unsigned int told;

static enum weft_rpc_status
serve_told(void *user, void *args, void *res)
{
	(void)user;
	(void)args;
	(void)res;
	told++;
	return WEFT_RPC_OK;
}

/* RFC 5531 s8: nothing is kept of a call without a reply, and the next call with its xid does
 * not wait. */
static void
test_no_reply(void)
{
	static const struct weft_rpc_binding only = {.call_only = true};
	static const struct weft_rpc_proc procs[] = {[1] = {rig_xdr_u32, NULL, sizeof(uint32_t), 0,
	                                                    serve_told, .binding = &only,
	                                                    .once = true}};
	static const struct weft_rpc_program prog = {RIG_PROG, 1, procs, 2};
	static const struct weft_rpc_program *const programs[] = {&prog, NULL};
	struct weft_rpc_call_attr c = {.size = sizeof(c),
	                               .prog = RIG_PROG,
	                               .vers = 1,
	                               .proc = 1,
	                               .xdr_args = rig_xdr_u32,
	                               .args = &(uint32_t){5},
	                               .binding = &only,
	                               .fn = rig_on_none,
	                               .arg = &ans[0],
	                               .xid = XID};
	struct weft_rpc_drc_info info;

	told = 0;
	CHECK_EQ(weft_rpc_drc_create(4, &drc), 0);
	for (unsigned int i = 1; i <= 3; i++) {
		static struct rig r;

		memset(&ans[0], 0, sizeof(ans[0]));
		rig_up(&r, &(struct rig_opts){.drc = drc, .programs = programs});
		CHECK_EQ(weft_rpc_set_peer_name(r.s.rpc, "a", 1), 0);
		CHECK_EQ(weft_rpc_call_with(r.c.rpc, &c), 0);
		rig_settle(&r);
		CHECK_EQ(ans[0].status, WEFT_RPC_OK);
		CHECK_EQ(told, i);
		rig_down(&r);
	}
	weft_rpc_drc_info(drc, &info);
	CHECK_EQ(info.replies + info.waited + info.replayed, 0);
	weft_rpc_drc_destroy(drc);
}

static void
check_info(uint64_t replies, uint64_t evicted, uint64_t replayed)
{
	struct weft_rpc_drc_info i;

	weft_rpc_drc_info(drc, &i);
	CHECK_EQ(i.max_replies, 4);
	CHECK_EQ(i.replies, replies);
	/* RFC 5531 s9: xid, REPLY, accepted, AUTH_NONE in two words, SUCCESS, and the sum */
	CHECK_EQ(i.reply_bytes, replies * 28);
	CHECK_EQ(i.evicted, evicted);
	CHECK_EQ(i.replayed, replayed);
	CHECK_EQ(i.waited, 0);
}

/* The latest replies are kept, up to the limit. */
static void
test_bounded(void)
{
	const uint32_t entries = 4;
	static struct rig r;

	CHECK_EQ(weft_rpc_drc_create(entries, &drc), 0);
	check_info(0, 0, 0);
	up(&r);
	for (uint32_t i = 0; i <= entries; i++) {
		ask(&r, XID + i, i, &ans[0]);
		check_info(i, 0, 0); /* none while the call is served */
		finish_call(&r);
	}
	check_info(entries, 1, 0);
	for (uint32_t i = 1; i <= entries; i++) {
		ask(&r, XID + i, i, &ans[0]);
		CHECK_EQ(ans[0].sum, i + 1);
	}
	CHECK_EQ(weft_rpc_stats(r.s.rpc)->replayed, entries);
	CHECK_EQ(r.s.served, entries + 1);
	ask(&r, XID, 0, &ans[0]);
	CHECK_EQ(r.s.served, entries + 2);
	finish_call(&r);
	check_info(entries, 2, entries);
	rig_down(&r);
	weft_rpc_drc_destroy(drc);
}

/* ---- Layouts of a call ---- */

static unsigned int
name_only(const void *p, struct weft_rpc_item *items)
{
	const struct rig_move *m = p;

	items[0] = (struct weft_rpc_item){m->name, (uint32_t)strlen(m->name)};
	return 1;
}

/* RFC 8166 s3.5, draft s6.6: the forms in which one call can be sent. */
static const struct layout {
	uint8_t vers;
	struct weft_rpc_binding binding;
	unsigned int chunks; /* for a call of more than 1024 and less than 4096 octets */
} layouts[] = {
        {2, {0}, 0},                      /* inline */
        {1, {.args = rig_move_items}, 2}, /* reduced */
        {1, {0}, 1},                      /* in a Read chunk (Call chunk) */
        {1, {.args = name_only}, 2},      /* in a Call chunk, and reduced */
};
#define LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

/* Send the call on a connection of its own. The answer is the number of this execution, counted
 * from 1. */
static uint32_t
move(const struct layout *l, struct rig_move *mv, uint64_t *chunks)
{
	static struct rig r;
	struct weft_rpc_call_attr c = rig_count_call(mv, &l->binding, &ans[0], XID);

	memset(&ans[0], 0, sizeof(ans[0]));
	rig_up(&r, &(struct rig_opts){
	                   .drc = drc, .programs = rig_count_programs, .client_max = l->vers});
	CHECK_EQ(weft_rpc_set_peer_name(r.s.rpc, "a", 1), 0);
	CHECK_EQ(weft_rpc_call_with(r.c.rpc, &c), 0);
	rig_settle(&r);
	CHECK_EQ(ans[0].n, 1);
	CHECK_EQ(ans[0].status, WEFT_RPC_OK);
	*chunks = weft_rpc_stats(r.s.rpc)->read_chunks;
	rig_down(&r);
	return ans[0].sum;
}

/* The next connection may have another version or threshold. A call that is repeated in other
 * chunks, or in none, is the same call. */
static void
test_laid_out_otherwise(void)
{
	static char data[1999], name[] = "name of it";
	struct rig_move mv = {.seed = 1, .data = data, .data_len = sizeof(data), .name = name};
	uint64_t chunks;

	rig_octets(data, sizeof(data), 1);
	for (unsigned int first = 0; first < LAYOUTS; first++) {
		CHECK_EQ(weft_rpc_drc_create(64, &drc), 0);
		rig_ran = 0;
		for (unsigned int i = 0; i < LAYOUTS; i++) {
			const struct layout *l = &layouts[(first + i) % LAYOUTS];

			CHECK_EQ(move(l, &mv, &chunks), 1);
			CHECK_EQ(chunks, l->chunks);
		}
		CHECK_EQ(rig_ran, 1);
		weft_rpc_drc_destroy(drc);
	}
}

/* The same xid by mistake with other octets in or behind the chunks is another call. */
static void
test_other_data(void)
{
	static char data[20001], name[] = "name of it";

	for (unsigned int i = 0; i < LAYOUTS; i++) {
		struct rig_move mv = {
		        .seed = 1, .data = data, .data_len = sizeof(data), .name = name};
		uint64_t chunks;

		CHECK_EQ(weft_rpc_drc_create(64, &drc), 0);
		rig_ran = 0;
		memset(data, 0, sizeof(data));
		name[0] = 'n';
		CHECK_EQ(move(&layouts[i], &mv, &chunks), 1);
		CHECK_EQ(move(&layouts[i], &mv, &chunks), 1);
		data[0] = 1;
		CHECK_EQ(move(&layouts[i], &mv, &chunks), 2);
		data[sizeof(data) - 1] = 1;
		CHECK_EQ(move(&layouts[i], &mv, &chunks), 3);
		name[0] = 'm';
		CHECK_EQ(move(&layouts[i], &mv, &chunks), 4);
		mv.want = 1;
		CHECK_EQ(move(&layouts[i], &mv, &chunks), 5);
		mv.data_len -= 4; /* all zeros between the ends */
		CHECK_EQ(move(&layouts[i], &mv, &chunks), 6);
		CHECK_EQ(move(&layouts[i], &mv, &chunks), 6);
		weft_rpc_drc_destroy(drc);
	}
}

/* RFC 8166 s3.4.5: a Position beyond the end of the call. The call is refused like any call that
 * cannot be decoded, and no octet beyond the end is read for the comparison. */
static void
test_position_nowhere(void)
{
	static char data[1999], name[] = "name of it";
	struct rig_move mv = {.seed = 1, .data = data, .data_len = sizeof(data), .name = name};
	struct weft_rpc_call_attr c = rig_count_call(&mv, &rig_count_binding, &ans[0], 0);
	static struct rig r;

	CHECK_EQ(weft_rpc_drc_create(64, &drc), 0);
	rig_up(&r, &(struct rig_opts){.drc = drc, .programs = rig_count_programs, .client_max = 1});
	CHECK_EQ(weft_rpc_set_peer_name(r.s.rpc, "a", 1), 0);
	rig_ran = 0;
	for (unsigned int i = 0; i < 3; i++) {
		struct fake_msg *m;

		memset(&ans[0], 0, sizeof(ans[0]));
		c.xid = XID + i;
		CHECK_EQ(weft_rpc_call_with(r.c.rpc, &c), 0);
		for (m = STAILQ_FIRST(&r.c.qp.wire); m != NULL && m->wr.opcode != WEFT_WR_SEND;)
			m = STAILQ_NEXT(m, next);
		CHECK(m != NULL);
		/* xid, version, credit, RDMA_MSG, "a Read chunk follows", its Position */
		CHECK_EQ(weft_get_be32((uint8_t *)m->buf + 16), 1);
		if (i != 1)
			weft_put_be32((uint8_t *)m->buf + 20, i == 0 ? 0x7ffffff0 : 0x10000);
		rig_settle(&r);
		CHECK_EQ(ans[0].n, 1);
		CHECK_EQ(ans[0].status, i == 1 ? WEFT_RPC_OK : WEFT_RPC_GARBAGE_ARGS);
		CHECK_EQ(rig_ran, i >= 1);
	}
	rig_down(&r);
	weft_rpc_drc_destroy(drc);
}

/* ---- Threads ---- */

#define THREADS 2 /* of three threads with the same call at a time, one would not be answered */
#define CALLS   20000

static struct rig many[THREADS];
static unsigned int served[CALLS];
static uint32_t order[THREADS][CALLS];

static void *
run(void *arg)
{
	struct rig *r = arg;
	unsigned int id = (unsigned int)(r - many);
	struct rig_answer a;

	fake_mine(&r->worker);
	for (unsigned int i = 0; i < CALLS; i++) {
		uint32_t k = order[id][i];

		ask(r, XID + k, k, &a);
		while (a.n == 0) {
			if (r->s.later != NULL) {
				__atomic_fetch_add(&served[k], 1, __ATOMIC_RELAXED);
				finish_call(r);
			}
			fake_calls(&r->worker);
			rig_settle(r);
		}
		CHECK_EQ(a.status, WEFT_RPC_OK);
		CHECK_EQ(a.sum, k + 1);
	}
	fake_mine(NULL);
	return NULL;
}

static void
threads(uint32_t entries, bool all)
{
	pthread_t th[THREADS];
	unsigned int missing = 0;

	CHECK_EQ(weft_rpc_drc_create(entries, &drc), 0);
	memset(served, 0, sizeof(served));
	for (unsigned int t = 0; t < THREADS; t++)
		up(&many[t]);
	for (unsigned int t = 0; t < THREADS; t++) {
		/* Nearly the same order, so that they meet. Two at a time make the same call. */
		for (uint32_t i = 0; i < CALLS; i++)
			order[t][i] = i;
		for (uint32_t i = 0; i + 8 < CALLS; i += 8) {
			uint32_t j = i + (uint32_t)(rig_rand(&many[t]) >> t) % 8, x = order[t][i];

			order[t][i] = order[t][j];
			order[t][j] = x;
		}
		CHECK_EQ(pthread_create(&th[t], NULL, run, &many[t]), 0);
	}
	for (unsigned int t = 0; t < THREADS; t++)
		pthread_join(th[t], NULL);
	for (unsigned int k = 0; k < CALLS; k++) {
		CHECK(served[k] >= 1);
		missing += served[k] != 1;
	}
	if (all)
		CHECK_EQ(missing, 0);
	for (unsigned int t = 0; t < THREADS; t++)
		rig_down(&many[t]);
	weft_rpc_drc_destroy(drc);
}

static void
test_threads(void)
{
	threads(2 * CALLS, true);
	/* Entries are evicted while they are read. */
	threads(2, false);
}

WEFT_TEST_MAIN({"a reply lost, another worker", test_reply_lost},
               {"new calls after a reconnect", test_new_after_reconnect},
               {"asked for again while it is served", test_while_served},
               {"who waits goes, or cannot be told", test_waiter_gone},
               {"callers without a name", test_nameless}, {"without a reply", test_no_reply},
               {"no more than asked for", test_bounded},
               {"laid out otherwise", test_laid_out_otherwise},
               {"other data under one xid", test_other_data},
               {"a Position that leads nowhere", test_position_nowhere},
               {"workers at the same calls", test_threads})
