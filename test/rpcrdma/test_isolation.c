/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Isolation of connections: one server has several clients, of which one misbehaves
 * repeatedly. All calls of the good clients succeed with the right data, and take about as long as
 * without the other one.
 */

#include <errno.h>

#include "blob.h"
#include "host_auth.h"
#include "rpcrdma_wire.h"
#include "vt.h"
#include "xdr_arg.h"
#include <weft/rpcrdma.h>

#define PROG      0x2000007a
#define BLOB_MAX  1000000
#define NCONNS    64
#define GOOD      3   /* clients */
#define CALLS     120 /* calls of each client */
#define RAW_BYTES 4096
#define RAW_RECVS 32

enum evil { NOBODY, MISER, QUITTER, STRANGER, LIAR, FORGER, EVERYBODY };

struct conn {
	bool used, client, up;
	enum evil what; /* NOBODY: a good client */
	struct weft_qp *qp;
	struct weft_rpc *rpc; /* NULL: the test encodes the messages */
	struct host_auth auth;
	/* members of a good client */
	struct blob sent;
	unsigned int done;
	uint64_t asked_ns;
	bool busy;
	/* members of an evil client */
	uint64_t end_ns;
	unsigned int steps;
	uint8_t raw[RAW_RECVS][RAW_BYTES], out[512];
};

static struct {
	struct vt t;
	struct conn conn[NCONNS];
	enum evil evil;
	uint64_t slowest_ns;
	unsigned int deeds[EVERYBODY], refused, served;
	uint64_t again_ns[EVERYBODY]; /* time of the next connect; 0: none needed */
	bool over;
} st;

/* ---- The program ---- */

static bool_t
xdr_blob(XDR *x, ...)
{
	struct blob *b;

	XDR_ARG(x, b);
	return xdr_u_int(x, &b->want) && xdr_bytes(x, &b->p, &b->len_bytes, BLOB_MAX);
}

static const struct weft_rpc_binding binding = {
        .args = blob_items, .sinks = blob_sinks, .results = blob_items};

static uint32_t
sum(const struct blob *b)
{
	uint32_t s = 1;

	for (uint32_t i = 0; i < b->len_bytes; i++)
		s = s * 31 + (uint8_t)b->p[i];
	return s;
}

static enum weft_rpc_status
serve_blob(void *user, void *args, void *res)
{
	struct blob *in = args, *out = res;

	(void)user;
	st.served++;
	out->want = sum(in);
	out->len_bytes = in->want;
	out->p = malloc(in->want + 1);
	vt_fill((uint8_t *)out->p, in->want, out->want);
	return WEFT_RPC_OK;
}

static const struct weft_rpc_proc procs[] = {
        [1] = {xdr_blob, xdr_blob, sizeof(struct blob), sizeof(struct blob), serve_blob,
               .binding = &binding},
};
static const struct weft_rpc_program program = {PROG, 1, procs, 2};
static const struct weft_rpc_program *const programs[] = {&program, NULL};

/* ---- Authentication ---- */

static const struct host_auth_keys key = {.client = "a key of the client's alone.....",
                                          .target = "a key of the target's alone....."};

static const struct host_auth_keys *
find_key(void *arg, const char *name)
{
	(void)arg;
	return strcmp(name, "good") == 0 ? &key : NULL;
}

static int
auth_step(void *user, const uint8_t *in, uint32_t in_bytes, uint8_t *out, uint32_t *out_bytes)
{
	struct conn *c = user;
	int rc = host_auth_step(&c->auth, in, in_bytes, out, WEFT_RPC_AUTH_MAX_BYTES, out_bytes);

	/* The liar's proof has the right form and the wrong content. */
	if (c->what == LIAR && in != NULL) {
		out[*out_bytes - 1] ^= 1;
		st.deeds[LIAR]++;
	}
	return rc;
}

static const struct weft_rpc_auth auth = {auth_step, true};

/* ---- Connections ---- */

static uint64_t
now_ns(void)
{
	return sim_now_ns(st.t.sim);
}

static struct conn *
conn_new(bool client, enum evil what)
{
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct sockaddr_storage at = {0};
	struct conn *c = st.conn;

	while (c->used)
		CHECK(++c < st.conn + NCONNS);
	memset(c, 0, sizeof(*c));
	c->used = true;
	c->client = client;
	c->what = what;
	c->auth.server = !client;
	c->auth.keys = client ? &key : NULL;
	c->auth.find = find_key;
	strcpy(c->auth.name, client ? "good" : "");
	memcpy(&at, &sa, sizeof(sa));
	CHECK_EQ(host_auth_place(&at, &c->auth.place), 0);
	return c;
}

static void
conn_qp(struct conn *c, bool by_hand)
{
	struct vt_node *n = &st.t.n[!c->client];
	struct weft_qp_attr qa = vt_qp_attr(n);
	struct weft_rpc_attr ra = {
	        .size = sizeof(ra),
	        .programs = c->client ? NULL : programs,
	        .user = c,
	        .server = !c->client,
	        .auth = st.evil == LIAR ? &auth : NULL,
	};

	qa.user = c;
	CHECK_EQ(weft_qp_create(n->pd, &qa, &c->qp), 0);
	ra.qp = c->qp;
	for (unsigned int i = 0; by_hand && i < RAW_RECVS; i++) {
		struct weft_sge sg = {.addr = c->raw[i], .len_bytes = RAW_BYTES};
		struct weft_recv_wr wr = {.sg_list = &sg, .num_sge = 1};

		CHECK_EQ(weft_post_recv(c->qp, &wr, 1), 1);
	}
	if (!by_hand)
		CHECK_EQ(weft_rpc_create(&ra, &c->rpc), 0);
}

static void
conn_open(enum evil what)
{
	struct weft_conn_attr ca = {.size = sizeof(ca), .timeout_us = 1000000};
	struct conn *c = conn_new(true, what);
	struct sockaddr_in sa = vt_addr(1, VT_PORT);

	conn_qp(c, what == MISER || what == FORGER);
	CHECK_EQ(weft_connect(c->qp, (struct sockaddr *)&sa, sizeof(sa), &ca), 0);
}

static void
conn_close(struct conn *c)
{
	enum evil what = c->what;
	bool again = c->client && what != NOBODY && !st.over;

	if (c->rpc != NULL && !c->client)
		st.refused += weft_rpc_stats(c->rpc)->auth_refused > 0;
	weft_qp_destroy(c->qp);
	if (c->rpc != NULL)
		weft_rpc_destroy(c->rpc);
	free(c->sent.p);
	c->used = false;
	/* Not before the flushed completions of the QP have been polled. */
	if (again)
		st.again_ns[what] = now_ns() + 100000;
}

/* ---- Good clients ---- */

static void
on_good(void *arg, enum weft_rpc_status status, void *res)
{
	struct conn *c = arg;
	struct blob *b = res;
	char *want;

	if (st.over)
		return;
	CHECK_MSG(status == WEFT_RPC_OK, "call %u: %s", c->done, weft_rpc_status_str(status));
	CHECK_EQ(b->want, sum(&c->sent));
	CHECK_EQ(b->len_bytes, c->sent.want);
	want = malloc(b->len_bytes + 1);
	vt_fill((uint8_t *)want, b->len_bytes, b->want);
	CHECK(b->len_bytes == 0 || memcmp(want, b->p, b->len_bytes) == 0);
	free(want);
	if (now_ns() - c->asked_ns > st.slowest_ns)
		st.slowest_ns = now_ns() - c->asked_ns;
	c->busy = false;
	c->done++;
}

static void
call(struct conn *c, uint32_t vers, uint32_t prog, uint32_t proc, uint32_t there, uint32_t back,
     weft_rpc_fn fn)
{
	struct weft_rpc_call_attr a = {
	        .size = sizeof(a),
	        .prog = prog,
	        .vers = vers,
	        .proc = proc,
	        .xdr_args = xdr_blob,
	        .args = &c->sent,
	        .xdr_res = xdr_blob,
	        .res_bytes = sizeof(struct blob),
	        .binding = &binding,
	        .fn = fn,
	        .arg = c,
	};

	free(c->sent.p);
	c->sent = (struct blob){.want = back, .p = malloc(there + 1), .len_bytes = there};
	vt_fill((uint8_t *)c->sent.p, there, c->done + 1);
	c->asked_ns = now_ns();
	c->busy = true;
	CHECK_EQ(weft_rpc_call_with(c->rpc, &a), 0);
}

static void
good_step(struct conn *c)
{
	static const uint32_t sizes[] = {0, 100, 3000, 9001, 65537};

	if (!c->busy && c->done < CALLS)
		call(c, 1, PROG, 1, sizes[sim_random(st.t.sim) % 5],
		     sizes[sim_random(st.t.sim) % 5], on_good);
}

/* ---- Evil clients ---- */

static void
on_evil(void *arg, enum weft_rpc_status status, void *res)
{
	struct conn *c = arg;

	(void)res;
	c->busy = false;
	if (c->what != STRANGER || status == WEFT_RPC_CONNLOST)
		return;
	/* RFC 5531 s9. */
	CHECK_EQ(status, c->steps % 3 == 0   ? WEFT_RPC_PROG_UNAVAIL
	                 : c->steps % 3 == 1 ? WEFT_RPC_PROG_MISMATCH
	                                     : WEFT_RPC_PROC_UNAVAIL);
	c->steps++;
	st.deeds[STRANGER]++;
}

/* A NULL call that gives the server one credit and never another, or a call with a chunk of
 * unregistered memory. */
static void
send_raw(struct conn *c, bool forged)
{
	const struct rpcrdma_segment seg = {.handle = 0x12345678, .len_bytes = 100};
	struct weft_sge sg = {.addr = c->out};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1};
	const uint32_t rpc[] = {c->steps + 1, 0, 2, PROG, 1, 0, 0, 0, 0, 0};
	struct rpcrdma_hdr h;
	uint32_t len;

	weft_rpcrdma_hdr_init(&h, RPCRDMA_V2, RDMA2_CALL_INLINE, c->steps + 1);
	h.p.credit = 1;
	if (forged)
		CHECK_EQ(weft_rpcrdma_read_add(&h.chunks, 40, &seg, 1), 0);
	len = weft_rpcrdma_encode(c->out, sizeof(c->out), &h);
	for (unsigned int i = 0; i < 10; i++)
		weft_put_be32(c->out + len + 4 * i, rpc[i]);
	sg.len_bytes = len + 40;
	if (weft_post_send(c->qp, &wr, 1) == 1)
		c->steps++;
}

/* The connection may be destroyed afterwards. */
static void
evil_step(struct conn *c)
{
	switch (c->what) {
	case MISER:
		/* As many calls as the server gave credits for, and later more. */
		if (c->steps < 8 || (now_ns() > c->end_ns && c->steps < 200)) {
			send_raw(c, false);
			st.deeds[MISER]++;
		}
		break;
	case FORGER:
		if (c->steps == 0) {
			send_raw(c, true);
			st.deeds[FORGER]++;
		}
		break;
	case QUITTER:
		if (!c->busy)
			call(c, 1, PROG, 1, 5000, 900000, on_evil);
		if (now_ns() > c->end_ns) {
			st.deeds[QUITTER]++;
			conn_close(c);
		}
		break;
	case STRANGER:
		if (!c->busy)
			call(c, 1 + (c->steps % 3 == 1), PROG + (c->steps % 3 == 0),
			     1 + (c->steps % 3 == 2), 6000, 6000, on_evil);
		break;
	case LIAR:
		if (!c->busy && c->steps++ == 0)
			call(c, 1, PROG, 1, 10, 10, on_evil);
		break;
	default:
		break;
	}
}

/* ---- The world ---- */

static void
on_event(const struct weft_event *ev)
{
	const struct weft_conn_attr ca = {.size = sizeof(ca)};
	struct conn *c;

	switch (ev->type) {
	case WEFT_EV_CONNECT_REQUEST:
		c = conn_new(false, NOBODY);
		conn_qp(c, false);
		if (weft_accept(ev->connreq, c->qp, &ca) != 0)
			conn_close(c);
		break;
	case WEFT_EV_ESTABLISHED:
		c = ev->user;
		c->up = true;
		c->end_ns = now_ns() + 200000 + sim_random(st.t.sim) % 3000000;
		break;
	case WEFT_EV_CONNECT_ERROR:
	case WEFT_EV_REJECTED:
	case WEFT_EV_DISCONNECTED:
		c = ev->user;
		CHECK_MSG(c->what != NOBODY || !c->client || st.over, "a good client's connection");
		if (c->rpc != NULL)
			weft_rpc_disconnected(c->rpc);
		conn_close(c);
		break;
	default:
		break;
	}
}

static void
dispatch(void)
{
	struct weft_event ev;
	struct weft_wc wc[16];
	int n;

	for (unsigned int i = 0; i < 2; i++) {
		while ((n = weft_cq_poll(st.t.n[i].cq, wc, 16)) > 0) {
			for (int k = 0; k < n; k++) {
				struct conn *c = wc[k].qp_user;

				if (c->used && c->qp == wc[k].qp && c->rpc != NULL)
					(void)weft_rpc_wc(c->rpc, &wc[k]);
			}
		}
		CHECK_EQ(n, 0);
		while (weft_evq_poll(st.t.n[i].evq, &ev) > 0)
			on_event(&ev);
	}
}

static bool
all_done(void *arg)
{
	bool done = true;

	(void)arg;
	dispatch();
	for (enum evil e = MISER; e < EVERYBODY; e++) {
		if (st.again_ns[e] != 0 && now_ns() > st.again_ns[e]) {
			st.again_ns[e] = 0;
			conn_open(e);
		}
	}
	for (unsigned int i = 0; i < NCONNS; i++) {
		struct conn *c = &st.conn[i];

		if (!c->used || !c->client || !c->up) {
			done = done && !(c->used && c->client && c->what == NOBODY);
			continue;
		}
		if (c->what != NOBODY) {
			evil_step(c);
			continue;
		}
		good_step(c);
		done = done && c->done == CALLS;
	}
	return done;
}

static uint64_t
run(uint64_t seed, enum evil evil)
{
	const struct vt_attr a = {.seed = seed,
	                          .cq_depth = 8192,
	                          .link = {.delay_ns = 20000, .rate_bps = 10000000000}};

	memset(&st, 0, sizeof(st));
	st.evil = evil;
	vt_open(&st.t, &a);
	vt_listen(&st.t.n[1]);
	for (unsigned int i = 0; i < GOOD; i++)
		conn_open(NOBODY);
	for (enum evil e = MISER; e < EVERYBODY; e++)
		if (e == evil || (evil == EVERYBODY && e != LIAR))
			conn_open(e);
	CHECK_MSG(vt_until(&st.t, 20 * VT_S, all_done, NULL), "seed %" PRIu64 " evil %u: not done",
	          seed, evil);
	st.over = true;
	for (unsigned int i = 0; i < NCONNS; i++)
		if (st.conn[i].used && st.conn[i].client)
			conn_close(&st.conn[i]);
	for (unsigned int i = 0; i < 200; i++) {
		vt_run(&st.t, VT_MS);
		dispatch();
	}
	for (unsigned int i = 0; i < NCONNS; i++)
		if (st.conn[i].used)
			conn_close(&st.conn[i]);
	dispatch();
	vt_close(&st.t);
	return st.slowest_ns;
}

static void
against(enum evil evil, unsigned int deeds)
{
	uint64_t first = test_seed(1), n = test_seed_given() ? 1 : 3;

	for (uint64_t seed = first; seed < first + n; seed++) {
		uint64_t alone_ns = run(seed, NOBODY), ns;

		CHECK_EQ(st.served, GOOD * CALLS);
		test_seed_note(seed);
		ns = run(seed, evil);
		for (enum evil e = MISER; e < EVERYBODY; e++)
			if (e == evil || (evil == EVERYBODY && e != LIAR))
				CHECK_MSG(st.deeds[e] >= deeds, "evil %u: %u times", e,
				          st.deeds[e]);
		/* A megabyte of the quitter takes 800 us on the wire. */
		CHECK_MSG(ns < 2 * alone_ns + 1000000, "%" PRIu64 " us alone, %" PRIu64 " us",
		          alone_ns / 1000, ns / 1000);
		if (evil == LIAR)
			CHECK(st.refused >= deeds);
	}
}

static void
test_miser(void)
{
	against(MISER, 80); /* more than one connection, each of which is closed in the end */
}

static void
test_quitter(void)
{
	against(QUITTER, 3);
}

static void
test_stranger(void)
{
	against(STRANGER, 30);
}

static void
test_liar(void)
{
	against(LIAR, 10);
}

static void
test_forger(void)
{
	against(FORGER, 10);
}

static void
test_everybody(void)
{
	against(EVERYBODY, 3);
}

WEFT_TEST_MAIN({"gives no credit", test_miser}, {"leaves in the middle of a reply", test_quitter},
               {"asks for what there is not", test_stranger}, {"a wrong proof", test_liar},
               {"chunks of nobody's", test_forger}, {"all of them", test_everybody})
