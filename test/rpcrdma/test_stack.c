/* SPDX-License-Identifier: BSD-3-Clause */
/** @file RPC-over-RDMA on two whole stacks, over links that lose, reorder, duplicate and corrupt.
 */

#include "blob.h"
#include "observer_stack.h"
#include "rpc_side.h"
#include "vt.h"
#include "xdr_arg.h"
#include <weft/rpcrdma.h>

#define PROG      0x20000077
#define PROC_ECHO 1
#define BLOB_MAX  65536
#define NCALLS    150
#define OWN_WR    0x5eed /* the consumer's own work, beside the endpoint's */

struct call {
	struct blob sent;
	unsigned int answers;
	enum weft_rpc_status status;
	bool same;
};

struct stack {
	struct vt t;
	struct rpc_side side[2];
	struct call call[NCALLS];
	unsigned int asked, answered, served, own_done;
};

static struct stack st;
static struct obs obs;

static bool_t
xdr_blob(XDR *x, ...)
{
	struct blob *b;

	XDR_ARG(x, b);
	return xdr_bytes(x, &b->p, &b->len_bytes, BLOB_MAX);
}

static enum weft_rpc_status
serve_echo(void *user, void *args, void *res)
{
	struct blob *in = args, *out = res;

	(void)user;
	st.served++;
	*out = *in;
	in->p = NULL; /* the result owns the memory now */
	in->len_bytes = 0;
	return WEFT_RPC_OK;
}

static const struct weft_rpc_proc procs[] = {
        [PROC_ECHO] = {xdr_blob, xdr_blob, sizeof(struct blob), sizeof(struct blob), serve_echo},
};
static const struct weft_rpc_program program = {PROG, 1, procs, 2};
static const struct weft_rpc_program *const programs[] = {&program, NULL};

static void
on_answer(void *arg, enum weft_rpc_status status, void *res)
{
	struct call *c = arg;
	struct blob *b = res;

	c->answers++;
	c->status = status;
	c->same = b != NULL && b->len_bytes == c->sent.len_bytes &&
	          (b->len_bytes == 0 || memcmp(b->p, c->sent.p, b->len_bytes) == 0);
	st.answered++;
}

static void
take_wc(struct rpc_side *s, const struct weft_wc *wc)
{
	if (s->rpc != NULL && wc->wr_id != OWN_WR)
		obs_stack_wc(s->n->qp, wc);
	if (s->rpc == NULL || !weft_rpc_wc(s->rpc, wc))
		st.own_done += wc->wr_id == OWN_WR && wc->status == WEFT_WC_SUCCESS;
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
start(const struct vt_attr *a, uint32_t inline_bytes)
{
	memset(&st, 0, sizeof(st));
	vt_open(&st.t, a);
	vt_mem(&st.t.n[1], 65536, WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_LOCAL_WRITE);
	vt_connect(&st.t, NULL, NULL);
	obs_stack(&obs, st.t.n[0].qp, st.t.n[1].qp, OWN_WR);
	for (unsigned int i = 0; i < 2; i++) {
		struct weft_rpc_attr ra = {
		        .inline_bytes = inline_bytes,
		        .programs = programs,
		        .server = i == 1,
		};

		rpc_side_up(&st.side[i], &st.t.n[i], ra);
	}
}

static void
finish(void)
{
	for (unsigned int i = 0; i < 2; i++)
		rpc_side_down(&st.side[i]);
	dispatch();
	CHECK_MSG(obs.fault == NULL, "%s", obs.fault);
	for (unsigned int i = 0; i < NCALLS; i++)
		free(st.call[i].sent.p);
	vt_close(&st.t);
}

static void
call(unsigned int from, uint32_t len_bytes)
{
	struct call *c = &st.call[st.asked++];

	c->sent = (struct blob){.p = malloc(len_bytes + 1), .len_bytes = len_bytes};
	vt_fill((uint8_t *)c->sent.p, len_bytes, st.asked);
	CHECK_EQ(weft_rpc_call(st.side[from].rpc, PROG, 1, PROC_ECHO, xdr_blob, &c->sent, xdr_blob,
	                       sizeof(struct blob), 0, on_answer, c),
	         0);
}

static void
test_hostile_link(void)
{
	uint64_t first = test_seed(1);

	for (uint64_t seed = first; seed < first + (test_seed_given() ? 1 : 12); seed++) {
		struct vt_attr a = {
		        .seed = seed,
		        .link = {.delay_ns = 50000,
		                 .loss_ppm = 20000,
		                 .dup_ppm = 10000,
		                 .reorder_ppm = seed % 2 ? 20000 : 0,
		                 .reorder_ns = 300000,
		                 .corrupt_ppm = seed % 3 ? 5000 : 0},
		};
		uint32_t inline_bytes = seed % 4 == 3 ? 65536 : 4096;
		unsigned int writes = 0;

		start(&a, inline_bytes);
		while (st.asked < NCALLS) {
			unsigned int batch = 1 + (unsigned int)(sim_random(st.t.sim) % 20);

			for (; batch > 0 && st.asked < NCALLS; batch--) {
				/* The acceptor may send only after it has received a message
				 * (s4.3). */
				unsigned int from = st.asked > 5 && sim_random(st.t.sim) % 4 == 0;
				struct weft_sge sge = {.addr = st.t.n[1].mem, .len_bytes = 5000};

				call(from, (uint32_t)(sim_random(st.t.sim) % (inline_bytes - 100)));
				/* One-sided work on the same QP between the calls. */
				if (from == 0) {
					struct weft_wr wr = {
					        .wr_id = OWN_WR,
					        .opcode = WEFT_WR_WRITE,
					        .flags = WEFT_WR_SIGNALED,
					        .sg_list = &sge,
					        .num_sge = 1,
					        .rdma = {weft_mr_stag(st.t.n[1].mr),
					                 0x200000000ULL + 8192},
					};

					sge.addr = st.t.n[1].mem + 8192;
					vt_post(&st.t.n[0], &wr);
					writes++;
				}
			}
			CHECK_MSG(vt_until(&st.t, 120 * VT_S, all_answered, NULL),
			          "seed %" PRIu64 ": %u of %u answered", seed, st.answered,
			          st.asked);
		}
		for (unsigned int i = 0; i < NCALLS; i++)
			CHECK_MSG(st.call[i].answers == 1 && st.call[i].status == WEFT_RPC_OK &&
			                  st.call[i].same,
			          "seed %" PRIu64 " call %u: %u answers, %s", seed, i,
			          st.call[i].answers, weft_rpc_status_str(st.call[i].status));
		CHECK_EQ(st.own_done, writes);
		CHECK_EQ(st.side[0].disconnects + st.side[1].disconnects, 0);
		CHECK_EQ(st.served, NCALLS);
		finish();
	}
}

static void
test_peer_goes(void)
{
	/* The server's QP is destroyed while calls are in flight: each ends once. */
	for (unsigned int when = 0; when < 20; when++) {
		struct vt_attr a = {.seed = when + 1, .link = {.delay_ns = 100000}};
		unsigned int lost = 0;

		start(&a, 0);
		for (unsigned int i = 0; i < 40; i++)
			call(0, 3000);
		for (unsigned int i = 0; i < when; i++) {
			vt_run(&st.t, 50000);
			dispatch();
		}
		rpc_side_down(&st.side[1]);
		CHECK(vt_until(&st.t, 60 * VT_S, all_answered, NULL));
		for (unsigned int i = 0; i < 40; i++) {
			CHECK_EQ(st.call[i].answers, 1);
			CHECK(st.call[i].status == WEFT_RPC_OK ||
			      st.call[i].status == WEFT_RPC_CONNLOST);
			lost += st.call[i].status == WEFT_RPC_CONNLOST;
		}
		CHECK(when > 0 || lost == 40);
		finish();
	}
}

static void
test_silent_peer(void)
{
	/* A peer whose consumer never polls its completions: the call times out by the worker's
	 * clock. */
	struct vt_attr a = {.seed = 1, .link = {.delay_ns = 10000}};

	start(&a, 0);
	rpc_side_down(&st.side[1]);
	dispatch();
	finish();

	start(&a, 0);
	call(0, 100);
	{
		struct weft_rpc *deaf = st.side[1].rpc;
		struct weft_wc wc[8];
		uint64_t t0 = sim_now_ns(st.t.sim);

		/* Its completions are discarded and not passed to the endpoint. */
		while (st.answered == 0 && sim_now_ns(st.t.sim) - t0 < 40 * VT_S) {
			vt_run(&st.t, 100 * VT_MS);
			while (weft_cq_poll(st.t.n[1].cq, wc, 8) > 0)
				;
			dispatch();
		}
		CHECK_EQ(st.answered, 1);
		CHECK_EQ(st.call[0].status, WEFT_RPC_TIMEDOUT);
		CHECK(sim_now_ns(st.t.sim) - t0 >= 30 * VT_S);
		CHECK(sim_now_ns(st.t.sim) - t0 < 31 * VT_S);
		CHECK(deaf == st.side[1].rpc);
	}
	finish();
}

static bool
all_served(void *arg)
{
	(void)arg;
	dispatch();
	return st.served == st.asked;
}

static void
test_reads_overlap(void)
{
	/* The responder reads the chunks of many calls at once. One at a time, they would take one
	 * round trip for each. The first half opens TCP's window and gets the credits. */
	const uint64_t rtt_ns = 10 * VT_MS;
	struct vt_attr a = {.seed = 1, .link = {.delay_ns = rtt_ns / 2}};
	const unsigned int half = 16;
	uint64_t took_ns = 0;

	start(&a, 4096);
	while (st.asked < 2 * half) {
		uint64_t t0 = sim_now_ns(st.t.sim);

		for (unsigned int i = 0; i < half; i++)
			call(0, 20000);
		CHECK(vt_until(&st.t, 60 * VT_S, all_served, NULL));
		took_ns = sim_now_ns(st.t.sim) - t0;
		CHECK(vt_until(&st.t, 60 * VT_S, all_answered, NULL));
	}
	for (unsigned int i = 0; i < st.asked; i++)
		CHECK(st.call[i].status == WEFT_RPC_OK && st.call[i].same);
	CHECK_EQ(weft_rpc_stats(st.side[1].rpc)->read_chunks, 2 * half);
	CHECK_MSG(took_ns < half / 2 * rtt_ns, "%u calls were read in %.1f round trips", half,
	          (double)took_ns / (double)rtt_ns);
	finish();
}

WEFT_TEST_MAIN({"calls over a hostile link", test_hostile_link}, {"the peer goes", test_peer_goes},
               {"a silent peer", test_silent_peer}, {"Reads of calls overlap", test_reads_overlap})
