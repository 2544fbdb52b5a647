/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Every payload format in both directions on two whole stacks, over links that lose, reorder,
 * duplicate and corrupt packets. An observer checks what each side posts and what arrives. Also a
 * connection that is lost in the middle.
 */

#include "observer_stack.h"
#include "rpc_side.h"
#include "rpcrdma_priv.h"
#include "vt.h"
#include "xdr_arg.h"
#include <weft/rpcrdma.h>

#define PROG     0x20000078
#define BLOB_MAX 400000
#define NCALLS   40
#define CHEAT_WR 1 /* work posted by a cheat and not by an endpoint */

/* Two items, so that there are several chunks. */
struct blob {
	uint32_t want;
	char *p[2];
	uint32_t len_bytes[2];
};

struct call {
	struct blob sent;
	unsigned int answers;
	enum weft_rpc_status status;
	bool same;
};

struct stack {
	struct vt t;
	struct rpc_side side[2];
	struct call call[NCALLS + 1];
	unsigned int asked, answered;
};

static struct stack st;
static struct obs obs;

static bool_t
xdr_blob(XDR *x, ...)
{
	struct blob *b;

	XDR_ARG(x, b);
	return xdr_u_int(x, &b->want) && xdr_bytes(x, &b->p[0], &b->len_bytes[0], BLOB_MAX) &&
	       xdr_bytes(x, &b->p[1], &b->len_bytes[1], BLOB_MAX);
}

static unsigned int
items(const void *v, struct weft_rpc_item *it)
{
	const struct blob *b = v;

	it[0] = (struct weft_rpc_item){b->p[0], b->len_bytes[0]};
	it[1] = (struct weft_rpc_item){b->p[1], b->len_bytes[1]};
	return 2;
}

/* The second result has always half the length of the first. */
static unsigned int
sinks(const void *v, struct weft_rpc_sink *k)
{
	const struct blob *b = v;

	k[0] = (struct weft_rpc_sink){NULL, b->want, 0};
	k[1] = (struct weft_rpc_sink){NULL, b->want / 2, b->want > 0};
	return 2;
}

/* Only the first item: the second stays in the message. */
static unsigned int
first_item(const void *v, struct weft_rpc_item *it)
{
	(void)items(v, it);
	return 1;
}

static unsigned int
first_sink(const void *v, struct weft_rpc_sink *k)
{
	k[0] = (struct weft_rpc_sink){NULL, ((const struct blob *)v)->want, 0};
	return 1;
}

static uint32_t
reply_bytes(const void *v)
{
	return ((const struct blob *)v)->want * 2 + 200;
}

/* Chunks for items, for none, for the whole reply, for both; for the first item, and with the
 * whole reply. */
static const struct weft_rpc_binding bindings[] = {
        {.args = items, .sinks = sinks, .results = items},
        {.results = items},
        {.results = items, .reply_bytes = reply_bytes},
        {.args = items, .sinks = sinks, .results = items, .reply_bytes = reply_bytes},
        {.args = first_item, .sinks = first_sink, .results = items},
        {.args = first_item, .sinks = first_sink, .results = items, .reply_bytes = reply_bytes},
};
#define NBINDINGS (sizeof(bindings) / sizeof(bindings[0]))

static void
fill(struct blob *b, unsigned int i, uint32_t len_bytes, uint64_t seed)
{
	b->p[i] = malloc(len_bytes + 1);
	b->len_bytes[i] = len_bytes;
	vt_fill((uint8_t *)b->p[i], len_bytes, seed);
}

static enum weft_rpc_status
serve_blob(void *user, void *args, void *res)
{
	struct blob *in = args, *out = res;
	uint64_t sum = 1;

	(void)user;
	for (unsigned int i = 0; i < 2; i++)
		for (uint32_t k = 0; k < in->len_bytes[i]; k++)
			sum = sum * 31 + (uint8_t)in->p[i][k];
	out->want = (uint32_t)sum;
	fill(out, 0, in->want, in->want);
	fill(out, 1, in->want / 2, in->want + 1);
	return WEFT_RPC_OK;
}

static const struct weft_rpc_proc procs[] = {
        [1] = {xdr_blob, xdr_blob, sizeof(struct blob), sizeof(struct blob), serve_blob,
               .binding = &bindings[0]},
};
static const struct weft_rpc_program program = {PROG, 1, procs, 2};
static const struct weft_rpc_program *const programs[] = {&program, NULL};

static void
on_answer(void *arg, enum weft_rpc_status status, void *res)
{
	struct call *c = arg;
	struct blob *b = res, want = {0};

	c->answers++;
	c->status = status;
	st.answered++;
	if (b == NULL)
		return;
	serve_blob(NULL, &c->sent, &want);
	c->same = b->want == want.want;
	for (unsigned int i = 0; i < 2; i++)
		c->same = c->same && b->len_bytes[i] == want.len_bytes[i] &&
		          (want.len_bytes[i] == 0 ||
		           memcmp(b->p[i], want.p[i], want.len_bytes[i]) == 0);
	free(want.p[0]);
	free(want.p[1]);
}

static void
take_wc(struct rpc_side *s, const struct weft_wc *wc)
{
	if (s->rpc == NULL || wc->wr_id == CHEAT_WR)
		return;
	obs_stack_wc(s->n->qp, wc);
	CHECK(weft_rpc_wc(s->rpc, wc));
}

static void
dispatch(void)
{
	for (unsigned int i = 0; i < 2; i++)
		rpc_side_dispatch(&st.side[i], take_wc);
}

static bool
all_answered(void *arg)
{
	(void)arg;
	dispatch();
	return st.answered == st.asked;
}

static void
call(unsigned int from, uint32_t there, uint32_t there2, uint32_t back, unsigned int how)
{
	struct call *c = &st.call[st.asked];
	struct weft_rpc_call_attr a = {
	        .size = sizeof(a),
	        .prog = PROG,
	        .vers = 1,
	        .proc = 1,
	        .xdr_args = xdr_blob,
	        .args = &c->sent,
	        .xdr_res = xdr_blob,
	        .res_bytes = sizeof(struct blob),
	        .binding = &bindings[how],
	        .timeout_us = 100000000,
	        .fn = on_answer,
	        .arg = c,
	};

	st.asked++;
	c->sent.want = back;
	fill(&c->sent, 0, there, st.asked);
	fill(&c->sent, 1, there2, st.asked + 1);
	CHECK_EQ(weft_rpc_call_with(st.side[from].rpc, &a), 0);
}

/* Attributes of the endpoints, with which either may send this number of octets inline (draft
 * s4.2.2). */
#define NTHRESHOLDS 3
static const uint32_t inlines[NTHRESHOLDS][2] = {{1024, 1024}, {4096, 16384}, {16384, 16384}};

static uint32_t
threshold(unsigned int k)
{
	return k % 2 == 0 ? 1024 : inlines[k / 2 % 3][0];
}

static bool
short_segments(unsigned int k)
{
	return k / 6 % 3 == 1;
}

/* Combination k: both versions, thresholds, credits, segments. */
static void
start(uint64_t seed, unsigned int k)
{
	static const uint32_t credits[] = {2, 8, 32};
	struct vt_attr a = {
	        .seed = seed,
	        .link = {.delay_ns = 50000,
	                 .loss_ppm = 5000,
	                 .dup_ppm = 5000,
	                 .reorder_ppm = 10000,
	                 .reorder_ns = 300000,
	                 .corrupt_ppm = k % 2 ? 2000 : 0},
	};

	memset(&st, 0, sizeof(st));
	vt_open(&st.t, &a);
	vt_connect(&st.t, NULL, NULL);
	obs_stack(&obs, st.t.n[0].qp, st.t.n[1].qp, 0);
	for (unsigned int i = 0; i < 2; i++) {
		struct weft_rpc_attr ra = {
		        .inline_bytes = inlines[k / 2 % 3][i],
		        .credits = credits[(k / 6 + i) % 3],
		        .max_vers = (uint8_t)(1 + k % 2),
		        .max_segment_bytes = short_segments(k) ? 2 * threshold(k) : 0,
		        .no_invalidate = k % 7 == 3,
		        .programs = programs,
		        .server = i == 1,
		};

		rpc_side_up(&st.side[i], &st.t.n[i], ra);
	}
	weft_rpc_peer_serves(st.side[1].rpc);
	/* after this, either side may call */
	call(0, 0, 0, 0, 0);
	CHECK(vt_until(&st.t, 60 * VT_S, all_answered, NULL));
	CHECK(st.call[0].same);
}

static void
finish(void)
{
	for (unsigned int i = 0; i < 2; i++)
		rpc_side_down(&st.side[i]);
	dispatch();
	for (unsigned int i = 0; i <= NCALLS; i++)
		for (unsigned int k = 0; k < 2; k++)
			free(st.call[i].sent.p[k]);
	vt_close(&st.t); /* detects regions that are left */
}

static uint32_t
some_length(void)
{
	static const uint32_t sizes[] = {0, 1, 3, 4, 100, 1021, 4096, 9001, 20000, 65537, 130002};

	return sizes[sim_random(st.t.sim) % 11];
}

/* Call i of a combination. With t octets inline, every format occurs on each side. */
static void
planned(unsigned int i, uint32_t t)
{
	const struct {
		uint32_t there, there2, back;
		unsigned int how;
	} plan[] = {
	        {0, 0, 0, 0},
	        {100, 100, 100, 3},
	        {3 * t, 100, 3 * t, 0},
	        {3 * t, 3 * t, 3 * t, 3},
	        {10, 5 * t / 2, 2 * t, 1},
	        {10, 5 * t, 2 * t, 1},
	        {10, 10, 2 * t, 2},
	        {3 * t, 5 * t / 2, 3 * t, 4},
	        {3 * t, 5 * t, 3 * t, 4},
	        {3 * t, 100, 3 * t, 5},
	        {3 * t, 5 * t, 3 * t, 5},
	};
	unsigned int k = i / 2 % (sizeof(plan) / sizeof(plan[0]));

	call(i % 2, plan[k].there, plan[k].there2, plan[k].back, plan[k].how);
}

#define NPLANNED 22

/* Cells of one threshold, of all its combinations. */
static unsigned int cell[2][NTHRESHOLDS][2][2][OBS_FORMATS][OBS_SHAPES];

static void
cells_add(unsigned int k)
{
	unsigned int v = k % 2;

	for (unsigned int from = 0; from < 2; from++)
		for (unsigned int reply = 0; reply < 2; reply++)
			for (unsigned int f = 0; f < OBS_FORMATS; f++)
				for (unsigned int s = 0; s < OBS_SHAPES; s++)
					cell[v][k / 2 % 3][from][reply][f][s] +=
					        obs.cell[v][from][reply][f][s];
}

/* Only version 2 has continued messages. Without items and body in chunks there is no shape, and
 * with them there is one. */
static bool
cell_can_occur(unsigned int v, unsigned int f, unsigned int s)
{
	bool chunks = f >= OBS_SPECIAL || f % 2 == 1;

	return (v == 1 || f / 2 * 2 != OBS_CONTINUED) && chunks == (s != OBS_NO_CHUNK);
}

static void
cells_check(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < sizeof(cell) / sizeof(unsigned int); i++) {
		unsigned int s = i % OBS_SHAPES, f = i / OBS_SHAPES % OBS_FORMATS;
		unsigned int reply = i / (OBS_SHAPES * OBS_FORMATS) % 2;
		unsigned int from = i / (2 * OBS_SHAPES * OBS_FORMATS) % 2;
		unsigned int t = i / (4 * OBS_SHAPES * OBS_FORMATS) % NTHRESHOLDS;
		unsigned int v = i / (4 * NTHRESHOLDS * OBS_SHAPES * OBS_FORMATS);
		bool can = cell_can_occur(v, f, s), did = cell[v][t][from][reply][f][s] > 0;

		n += did;
		CHECK_MSG(can == did,
		          "version %u, threshold %u, called by %u, %s, format %u, shape %u: %s",
		          v + 1, t, from, reply ? "reply" : "call", f, s,
		          did ? "cannot be" : "never");
	}
	CHECK_EQ(n, 2 * 2 * NTHRESHOLDS * (10 + 7));
}

static void
test_formats(void)
{
	uint64_t seed = test_seed(1);

	memset(cell, 0, sizeof(cell));

	for (unsigned int k = 0; k < 72; k++) {
		uint64_t reads = 0, writes = 0, special = 0;

		start(seed + k, k);
		while (st.asked <= NCALLS) {
			unsigned int from = st.asked % 2;
			uint32_t there = some_length(), there2 = some_length();

			if (st.asked <= NPLANNED || short_segments(k))
				planned(st.asked, threshold(k));
			else
				call(from, there, there2, some_length(),
				     sim_random(st.t.sim) % NBINDINGS);
			if (sim_random(st.t.sim) % 4 == 0)
				vt_run(&st.t, 100000);
			dispatch();
		}
		CHECK_MSG(vt_until(&st.t, 90 * VT_S, all_answered, NULL),
		          "seed %" PRIu64 " combination %u: %u of %u answered", seed, k,
		          st.answered, st.asked);
		for (unsigned int i = 0; i <= NCALLS; i++)
			CHECK_MSG(st.call[i].answers == 1 &&
			                  (st.call[i].same ||
			                   (k % 2 == 0 && st.call[i].status == WEFT_RPC_TOO_LONG)),
			          "seed %" PRIu64 " combination %u call %u: %u answers, %s", seed,
			          k, i, st.call[i].answers, weft_rpc_status_str(st.call[i].status));
		for (unsigned int i = 0; i < 2; i++) {
			reads += weft_rpc_stats(st.side[i].rpc)->read_chunks;
			writes += weft_rpc_stats(st.side[i].rpc)->write_chunks;
			special += weft_rpc_stats(st.side[i].rpc)->special;
			CHECK_EQ(weft_rpc_version(st.side[i].rpc), 1 + k % 2);
		}
		CHECK(reads > 0 && writes > 0 && special > 0);
		CHECK_EQ(st.side[0].disconnects + st.side[1].disconnects, 0);
		CHECK_MSG(obs.fault == NULL, "seed %" PRIu64 " combination %u: %s", seed, k,
		          obs.fault);
		CHECK(obs.messages > 2 * NCALLS && obs.accesses > 0);
		cells_add(k);
		finish();
	}
	cells_check();
}

/* The observer detects a stack that cheats: the test does things that an endpoint would not do. */
static void
test_cheats(void)
{
	static const char *const want[] = {
	        NULL,
	        "more messages than credit",
	        "more calls than credit",
	        "memory that no call offers",
	        "invalidates what was not asked for",
	};

	for (unsigned int c = 0; c < sizeof(want) / sizeof(want[0]); c++) {
		struct weft_sge sge = {.addr = (char[16]){0}, .len_bytes = 16};
		struct weft_wr wr = {.wr_id = CHEAT_WR, .sg_list = &sge, .num_sge = 1};
		const struct obs_call *k = NULL;

		/* version 1, or version 2 with a client that has 2 credits */
		start(1, c == 2 ? 0 : 1);
		call(0, 20000, 100, 20000, 0);
		CHECK(vt_until(&st.t, 60 * VT_S, all_answered, NULL));
		for (unsigned int i = 0; i < OBS_CALLS; i++)
			if (obs.side[0].call[i].offer.n_writes > 0)
				k = &obs.side[0].call[i];
		CHECK(k != NULL && !k->live && obs.fault == NULL);
		if (c == 1)
			st.side[0].rpc->credit.limit += 10;
		if (c == 2)
			st.side[0].rpc->credit1.granted += 10;
		if (c == 2)
			st.side[0].rpc->credit.window = 20; /* this number is requested then */
		if (c >= 3) {
			wr.opcode = c == 3 ? WEFT_WR_WRITE : WEFT_WR_SEND_INV;
			wr.rdma.stag = k->offer.segs[k->offer.writes[0].first].handle;
			if (c == 3)
				wr.rdma.to = k->offer.segs[k->offer.writes[0].first].offset;
			else
				wr.send.inv_stag = wr.rdma.stag;
			CHECK_EQ(weft_post_send(st.t.n[1].qp, &wr, 1), 1);
		} else {
			for (unsigned int i = 0; i < 12; i++)
				call(0, 10, 10, 10, 1);
		}
		vt_run(&st.t, 10 * VT_MS);
		dispatch();
		if (want[c] == NULL)
			CHECK_MSG(obs.fault == NULL, "%s", obs.fault);
		else
			CHECK_MSG(obs.fault != NULL && strcmp(obs.fault, want[c]) == 0,
			          "cheat %u: %s, not %s", c,
			          obs.fault == NULL ? "nothing" : obs.fault, want[c]);
		finish();
	}
}

/* One side ends at any moment: each call ends once, with the right answer or none. */
static void
test_lost(void)
{
	uint64_t seed = test_seed(100);

	for (unsigned int k = 0; k < 24; k++) {
		unsigned int gone = k / 2 % 2;

		start(seed + k, k);
		for (unsigned int i = 0; i < 16; i++)
			call(i % 2, some_length(), 100, some_length(),
			     sim_random(st.t.sim) % NBINDINGS);
		for (unsigned int i = 0; i < k * 2; i++) {
			vt_run(&st.t, 100000);
			dispatch();
		}
		if (k % 3 == 0) {
			CHECK_EQ(weft_disconnect(st.t.n[gone].qp), 0);
		} else {
			weft_qp_destroy(st.t.n[gone].qp);
			st.t.n[gone].qp = NULL;
			weft_rpc_destroy(st.side[gone].rpc);
			st.side[gone].rpc = NULL;
		}
		CHECK_MSG(vt_until(&st.t, 120 * VT_S, all_answered, NULL),
		          "combination %u: %u of %u answered", k, st.answered, st.asked);
		CHECK_MSG(obs.fault == NULL, "combination %u: %s", k, obs.fault);
		for (unsigned int i = 1; i < st.asked; i++)
			CHECK(st.call[i].answers == 1 &&
			      (st.call[i].same || st.call[i].status == WEFT_RPC_CONNLOST ||
			       st.call[i].status == WEFT_RPC_TOO_LONG ||
			       st.call[i].status == WEFT_RPC_CALL_TOO_LONG));
		finish();
	}
}

WEFT_TEST_MAIN({"formats", test_formats}, {"a stack that cheats", test_cheats},
               {"connection lost", test_lost})
