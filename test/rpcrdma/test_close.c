/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The end of a connection by our side while the peer still reads and writes the memory of
 * calls. A caller that is told CONNLOST has its memory back (RFC 5042 s6.3, draft s7.4). Two whole
 * stacks, a slow link.
 */

#include "blob.h"
#include "rpc_side.h"
#include "xdr_arg.h"
#include "rpcrdma_priv.h"
#include <weft/rpcrdma.h>

#define PROG     0x20000079
#define DATA_MAX 400000
#define SCRIBBLE 0xdd /* the pattern that the caller writes to its memory after it has it back */

static struct end {
	struct vt t;
	struct rpc_side side[2];
	uint8_t *mem; /* the caller's memory: arguments, then room for results */
	struct blob args;
	unsigned int answers, served, stolen;
	enum weft_rpc_status status;
	bool scribbled;
} e;

static bool_t
xdr_blob(XDR *x, ...)
{
	struct blob *b;

	XDR_ARG(x, b);
	return xdr_bytes(x, &b->p, &b->len_bytes, DATA_MAX);
}

/* Results in the caller's memory are not freed by xdr_free(). */
static bool_t
xdr_mine(XDR *x, ...)
{
	struct blob *b;

	XDR_ARG(x, b);
	return x->x_op == XDR_FREE || xdr_bytes(x, &b->p, &b->len_bytes, DATA_MAX);
}

static unsigned int
sinks(const void *v, struct weft_rpc_sink *k)
{
	(void)v;
	k[0] = (struct weft_rpc_sink){e.mem + DATA_MAX, DATA_MAX, 0};
	return 1;
}

static const struct weft_rpc_binding binding = {
        .args = blob_items, .sinks = sinks, .results = blob_items};

static enum weft_rpc_status
serve(void *user, void *args, void *res)
{
	const struct blob *in = args;
	struct blob *out = res;

	(void)user;
	e.served++;
	for (uint32_t i = 0; i < in->len_bytes; i++)
		if ((uint8_t)in->p[i] == SCRIBBLE)
			e.stolen++;
	out->p = calloc(1, DATA_MAX);
	out->len_bytes = DATA_MAX;
	return WEFT_RPC_OK;
}

static const struct weft_rpc_proc procs[] = {
        [1] = {xdr_blob, xdr_blob, sizeof(struct blob), sizeof(struct blob), serve,
               .binding = &binding},
};
static const struct weft_rpc_program program = {PROG, 1, procs, 2};
static const struct weft_rpc_program *const programs[] = {&program, NULL};

static void
on_answer(void *arg, enum weft_rpc_status status, void *res)
{
	(void)arg;
	(void)res;
	e.answers++;
	e.status = status;
	if (status == WEFT_RPC_OK)
		return;
	memset(e.mem, SCRIBBLE, 2 * DATA_MAX);
	e.scribbled = true;
}

static void
take_wc(struct rpc_side *s, const struct weft_wc *wc)
{
	if (s->rpc != NULL)
		(void)weft_rpc_wc(s->rpc, wc);
}

static void
dispatch(void)
{
	for (unsigned int i = 0; i < 2; i++)
		rpc_side_dispatch(&e.side[i], take_wc);
}

static bool
answered(void *arg)
{
	(void)arg;
	dispatch();
	return e.answers > 0;
}

static void
start(uint64_t seed)
{
	struct vt_attr a = {.seed = seed,
	                    .link = {.delay_ns = 500000,
	                             .jitter_ns = 100000,
	                             .rate_bps = 200000000,
	                             .loss_ppm = seed % 2 ? 2000 : 0}};
	struct weft_rpc_call_attr ca = {.size = sizeof(ca),
	                                .prog = PROG,
	                                .vers = 1,
	                                .proc = 1,
	                                .xdr_args = xdr_blob,
	                                .args = &e.args,
	                                .xdr_res = xdr_mine,
	                                .res_bytes = sizeof(struct blob),
	                                .binding = &binding,
	                                .timeout_us = 60000000,
	                                .fn = on_answer};
	struct blob init = {.len_bytes = DATA_MAX};

	memset(&e, 0, sizeof(e));
	vt_open(&e.t, &a);
	vt_connect(&e.t, NULL, NULL);
	for (unsigned int i = 0; i < 2; i++)
		rpc_side_up(&e.side[i], &e.t.n[i],
		            (struct weft_rpc_attr){.programs = i == 1 ? programs : NULL,
		                                   .server = i == 1});
	e.mem = calloc(2, DATA_MAX);
	e.args = (struct blob){.p = (char *)e.mem, .len_bytes = DATA_MAX};
	init.p = (char *)e.mem + DATA_MAX;
	ca.res_init = &init;
	CHECK_EQ(weft_rpc_call_with(e.side[0].rpc, &ca), 0);
}

static void
finish(void)
{
	for (unsigned int i = 0; i < 2; i++)
		rpc_side_down(&e.side[i]);
	vt_run(&e.t, 50 * VT_MS);
	dispatch();
	/* No octet was written to memory that was returned. */
	for (unsigned int i = 0; e.scribbled && i < 2 * DATA_MAX; i++)
		CHECK_MSG(e.mem[i] == SCRIBBLE, "octet %u was written after CONNLOST", i);
	free(e.mem);
	vt_close(&e.t);
}

enum how { IN_ORDER, FAILS, DESTROYED, NHOW };

/* Side `who` ends the connection: 0 offers the memory, 1 reads and writes it. */
static void
own_end(unsigned int who)
{
	uint64_t seed = test_seed(1);
	unsigned int lost = 0, served = 0;

	for (unsigned int k = 0; k < 40 * NHOW; k++) {
		enum how how = k % NHOW;

		start(seed + k);
		for (unsigned int i = 0; i < k / NHOW * 2; i++) {
			vt_run(&e.t, 500000);
			dispatch();
		}
		switch (how) {
		case IN_ORDER:
			(void)weft_disconnect(e.t.n[who].qp);
			break;
		case FAILS:
			weft_rpcrdma_fail(e.side[who].rpc);
			break;
		default:
			rpc_side_down(&e.side[who]);
			break;
		}
		CHECK_MSG(vt_until(&e.t, 30 * VT_S, answered, NULL), "case %u: no answer", k);
		/* The peer may still serve calls that it has received. */
		for (unsigned int i = 0; i < 100; i++) {
			vt_run(&e.t, 2 * VT_MS);
			dispatch();
		}
		CHECK_MSG(e.stolen == 0, "case %u: %u octets were read after CONNLOST", k,
		          e.stolen);
		CHECK_EQ(e.answers, 1);
		lost += e.status == WEFT_RPC_CONNLOST;
		served += e.served;
		finish();
	}
	CHECK(lost > 20);
	CHECK(served > 20);
}

static void
test_client(void)
{
	own_end(0);
}

static void
test_server(void)
{
	own_end(1);
}

WEFT_TEST_MAIN({"the client ends it", test_client}, {"the server ends it", test_server})
