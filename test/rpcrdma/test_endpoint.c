/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Two connected endpoints: calls, credits, properties, and the end. Faults are in
 * test_faults.c. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpcrdma_mem.h"
#include "rig.h"
#include "test_faults.h"
#include "weft_test.h"

static struct rig rig;
static struct rig_answer ans[256];

static void
start(const struct rig_opts *o)
{
	memset(ans, 0, sizeof(ans));
	rig_up(&rig, o);
}

static void
test_call(void)
{
	uint8_t m[256], expect[128];

	start(NULL);
	CHECK_EQ(rig_add(&rig.c, 20, 22, &ans[0]), 0);
	/* The message octet for octet: xid 1, our eight credits. */
	CHECK_EQ(fake_take(&rig.c.qp, m, sizeof(m)), rig_raw_add(expect, 1, 8, 20, 22));
	CHECK_MEM(m, expect, 80);
	fake_inject(&rig.s.qp, m, 80);
	CHECK_EQ(fake_take(&rig.s.qp, m, sizeof(m)), 16 + 4 + 24 + 4);
	CHECK_EQ(weft_get_be32(m), 1);
	CHECK_EQ(weft_get_be32(m + 4), 2);
	CHECK_EQ(weft_get_be32(m + 8), 9); /* one received, eight more */
	CHECK_EQ(weft_get_be32(m + 12), RDMA2_REPLY_INLINE);
	CHECK_EQ(ans[0].n, 0);
	fake_inject(&rig.c.qp, m, 48);
	CHECK_EQ(ans[0].n, 1);
	CHECK_EQ(ans[0].status, WEFT_RPC_OK);
	CHECK_EQ(ans[0].sum, 42);
	rig_settle(&rig);
	CHECK_EQ(fake_alarms(&rig.worker), 0);
	CHECK_EQ(weft_rpc_stats(rig.c.rpc)->calls_out, 1);
	CHECK_EQ(weft_rpc_stats(rig.c.rpc)->replies_in, 1);
	CHECK_EQ(weft_rpc_stats(rig.s.rpc)->calls_in, 1);
	CHECK_EQ(weft_rpc_stats(rig.s.rpc)->replies_out, 1);
	rig_down(&rig);
}

static void
test_sizes(void)
{
	static char text[70000];

	start(NULL);
	CHECK_EQ(rig_echo(&rig.c, "x", &ans[0]), 0);
	rig_settle(&rig);
	/* Lengths from 0 to more than one message, or four, can hold. The call is simple,
	 * continued (s6.6.2), or read by the server (s6.6.3). The reply is simple or continued. */
	for (unsigned int len = 0; len < 66000; len += len < 3900 || len > 4200 ? 397 : 1) {
		const struct weft_rpc_stats *st = weft_rpc_stats(rig.c.rpc);
		uint64_t simple = st->simple, continued = st->continued, special = st->special;
		unsigned int words = (len + 3) / 4 * 4, call = 40 + 4 + words, reply = 28 + words;

		memset(text, 'a' + len % 26, len);
		text[len] = '\0';
		ans[0].n = 0;
		CHECK_EQ(rig_echo(&rig.c, text, &ans[0]), 0);
		rig_settle(&rig);
		CHECK_EQ(ans[0].n, 1);
		CHECK_EQ(ans[0].status, WEFT_RPC_OK);
		CHECK_STR(ans[0].text, text);
		CHECK_EQ(st->special - special, call > 4 * 4096);
		CHECK_EQ(st->continued - continued,
		         (32 + call > 4096 && call <= 4 * 4096) + (20 + reply > 4096));
		CHECK_EQ(st->simple - simple, (32 + call <= 4096) + (20 + reply <= 4096));
	}
	rig_down(&rig);
}

static void
test_first_message(void)
{
	char text[2001];

	/* s4.3: a first call longer than 1024 octets: properties are sent before it. The auditor
	 * checks the size. */
	memset(text, 'q', 2000);
	text[2000] = '\0';
	start(NULL);
	CHECK_EQ(rig_echo(&rig.c, text, &ans[0]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[0].n, 1);
	CHECK_EQ(ans[0].status, WEFT_RPC_OK);
	CHECK_EQ(rig.c.rpc->props_in, RPCRDMA_PROPS_FINAL);
	CHECK_EQ(rig.s.rpc->props_in, RPCRDMA_PROPS_FINAL);
	CHECK_EQ(rig.s.rpc->peer.reverse, RDMA2_RVRSDIR_NONE);
	CHECK_EQ(rig.c.rpc->peer.reverse, RDMA2_RVRSDIR_GENL);
	rig_down(&rig);
}

static void
test_large_inline(void)
{
	static char text[60001];
	struct rig_opts both = {.client_inline = 65536, .server_inline = 65536};
	struct rig_opts one = {.client_inline = 65536, .server_inline = 0};

	memset(text, 'L', 60000);
	text[60000] = '\0';
	start(&both);
	CHECK_EQ(rig_echo(&rig.c, text, &ans[0]), 0);
	CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[1]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[0].status, WEFT_RPC_OK);
	CHECK_STR(ans[0].text, text);
	CHECK_EQ(ans[1].sum, 3);
	CHECK_EQ(rig_big(&rig.c, 65400, &ans[2]), 0);
	rig_settle(&rig);
	CHECK_EQ(strlen(ans[2].text), 65400);
	rig_down(&rig);

	/* The server has receives of 4096 octets. Calls that were queued before this was known
	 * are encoded again. */
	start(&one);
	CHECK_EQ(rig_echo(&rig.c, text, &ans[0]), 0);
	CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[1]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[0].n, 1);
	CHECK_EQ(ans[0].status, WEFT_RPC_OK);
	CHECK_STR(ans[0].text, text);
	CHECK_EQ(ans[1].sum, 3);
	rig_down(&rig);
}

static void
test_big_reply(void)
{
	/* A result that does not fit is continued. In version 1 it is refused, and the
	 * connection stays. */
	for (uint8_t vers = 1; vers <= 2; vers++) {
		struct rig_opts o = {.client_max = vers};

		start(&o);
		CHECK_EQ(rig_big(&rig.c, 900, &ans[0]), 0);
		CHECK_EQ(rig_big(&rig.c, 4100, &ans[1]), 0);
		CHECK_EQ(rig_add(&rig.c, 5, 6, &ans[2]), 0);
		rig_settle(&rig);
		CHECK_EQ(ans[0].status, WEFT_RPC_OK);
		CHECK_EQ(ans[1].n, 1);
		CHECK_EQ(ans[1].status, vers == 2 ? WEFT_RPC_OK : WEFT_RPC_TOO_LONG);
		CHECK_EQ(ans[2].sum, 11);
		CHECK_EQ(weft_rpc_stats(rig.s.rpc)->errors_out, vers == 1);
		CHECK_EQ(weft_rpc_stats(rig.c.rpc)->errors_in, vers == 1);
		rig_down(&rig);
	}
}

static void
test_solicited(void)
{
	/* Version 1 uses plain Sends like Linux. Version 2 uses solicited events. After a
	 * fallback, only the client's first message, which was of version 2, was solicited. */
	struct rig_opts o[] = {{.client_max = 1}, {0}, {.server_max = 1}};

	for (unsigned int i = 0; i < 3; i++) {
		start(&o[i]);
		CHECK_EQ(rig_big(&rig.c, 900, &ans[0]), 0);
		CHECK_EQ(rig_add(&rig.c, 5, 6, &ans[1]), 0);
		rig_settle(&rig);
		CHECK_EQ(ans[0].status, WEFT_RPC_OK);
		CHECK_EQ(ans[1].sum, 11);
		CHECK(rig.c.qp.sends > 1 && rig.s.qp.sends > 1);
		CHECK_EQ(weft_rpc_version(rig.c.rpc), i == 1 ? 2 : 1);
		CHECK_EQ(rig.c.qp.solicited, i == 0 ? 0 : i == 1 ? rig.c.qp.sends : 1);
		/* The refusal was of version 2, too. */
		CHECK_EQ(rig.s.qp.solicited, i == 0 ? 0 : i == 1 ? rig.s.qp.sends : 1);
		rig_down(&rig);
	}
}

static void
test_fallback_queued(void)
{
	/* s4.3.2: calls encoded in version 2 that wait for credit are sent in version 1, each
	 * once. */
	struct rig_opts o = {.server_max = 1};

	start(&o);
	for (unsigned int i = 0; i < 20; i++)
		CHECK_EQ(i % 3 == 0 ? rig_big(&rig.c, 900, &ans[i])
		                    : rig_add(&rig.c, i, 1, &ans[i]),
		         0);
	rig_settle(&rig);
	for (unsigned int i = 0; i < 20; i++) {
		CHECK_EQ(ans[i].n, 1);
		CHECK_EQ(ans[i].status, WEFT_RPC_OK);
		CHECK(i % 3 == 0 || ans[i].sum == i + 1);
	}
	CHECK_EQ(weft_rpc_version(rig.c.rpc), 1);
	CHECK_EQ(weft_rpc_stats(rig.c.rpc)->errors_in, 1);
	CHECK_EQ(weft_rpc_stats(rig.s.rpc)->errors_out, 1);
	CHECK_EQ(weft_rpc_stats(rig.s.rpc)->calls_in, 20);
	rig_down(&rig);
}

static void
test_initial_credit(void)
{
	/* s4.3: one message until the peer has answered. The others are queued and then sent
	 * automatically. */
	start(NULL);
	for (unsigned int i = 0; i < 20; i++)
		CHECK_EQ(rig_add(&rig.c, i, 1, &ans[i]), 0);
	CHECK_EQ(rig.c.qp.sq_used, 1);
	CHECK_EQ(weft_rpc_stats(rig.c.rpc)->credit_stalls, 19);
	CHECK(fake_deliver(&rig.c.qp));
	CHECK(fake_deliver(&rig.s.qp));
	/* The reply allowed nine in all: eight more. */
	CHECK_EQ(rig.c.qp.sq_used, 9);
	rig_settle(&rig);
	for (unsigned int i = 0; i < 20; i++) {
		CHECK_EQ(ans[i].n, 1);
		CHECK_EQ(ans[i].sum, i + 1);
	}
	rig_down(&rig);
}

static void
test_credit_audit(void)
{
	/* Every pair of windows, both directions at once, with deliveries in random order. */
	static const uint32_t windows[] = {2, 3, 4, 8, 31};
	uint64_t seed = test_seed(0xc4ed17);

	for (unsigned int i = 0; i < 5; i++) {
		for (unsigned int k = 0; k < 5; k++) {
			for (unsigned int reverse = 0; reverse < 2; reverse++) {
				struct rig_opts o = {.client_credits = windows[i],
				                     .server_credits = windows[k],
				                     .client_serves = reverse};
				unsigned int n = 0;

				start(&o);
				rig.rand = seed + 1000 * i + 10 * k + reverse;
				/* Sometimes across the wrap of the 32-bit counters. */
				if (k & 1)
					rig_set_base(&rig, UINT32_MAX - 40);
				for (unsigned int round = 0; round < 40; round++) {
					unsigned int batch = rig_rand(&rig) % 12 + 1;

					for (unsigned int b = 0; b < batch; b++, n++) {
						bool rev = reverse && n > 4 && (rig_rand(&rig) & 1);

						ans[n % 256].n = 0;
						CHECK_EQ(rig_add(rev ? &rig.s : &rig.c, n, 7,
						                 &ans[n % 256]),
						         0);
					}
					if (rig_rand(&rig) & 1)
						rig_shuffle(&rig);
					else
						for (unsigned int m = 0; m < 10; m++)
							fake_deliver(rig_rand(&rig) & 1
							                     ? &rig.c.qp
							                     : &rig.s.qp);
					rig_shuffle(&rig);
					for (unsigned int b = n - batch; b < n; b++) {
						CHECK_MSG(ans[b % 256].n == 1 &&
						                  ans[b % 256].sum == b + 7,
						          "seed %#" PRIx64
						          " windows %u %u: call %u",
						          seed, windows[i], windows[k], b);
					}
				}
				/* No grants are sent without further messages. */
				CHECK(rig.c.audit.grants + rig.s.audit.grants <= 2 * n);
				rig_down(&rig);
			}
		}
	}
}

static void
test_grant(void)
{
	uint8_t m[256];

	/* Eight calls at once and none after: a grant is sent when half of the client's window
	 * is used. */
	start(NULL);
	CHECK_EQ(rig_add(&rig.c, 0, 0, &ans[0]), 0);
	rig_settle(&rig);
	for (unsigned int i = 1; i <= 8; i++)
		CHECK_EQ(rig_add(&rig.c, i, i, &ans[i]), 0);
	rig_settle(&rig);
	CHECK(rig.c.audit.grants >= 1);
	CHECK_EQ(weft_rpc_stats(rig.s.rpc)->grants_in, rig.c.audit.grants);
	CHECK_EQ(rig.s.audit.grants, 0);
	rig_down(&rig);

	/* A peer that gives no credit: answers wait until a grant arrives. */
	start(NULL);
	rig.c.qp.peer = NULL;
	for (unsigned int i = 0; i < 8; i++)
		fake_inject(&rig.s.qp, m, rig_raw_add(m, i + 1, 2, i, 1));
	CHECK_EQ(rig.s.served, 8);
	CHECK_EQ(rig.s.audit.messages, 2);
	/* Seven answers would wait. The credits given are not more than the endpoint can answer,
	 * but at least two. */
	CHECK_EQ(rig.s.audit.last_field, 2 + 8);
	fake_inject(&rig.s.qp, m, rig_raw_add(m, 9, 2, 9, 1));
	CHECK_EQ(rig.s.audit.last_field, 9 + 2);
	CHECK_EQ(rig.s.audit.messages - rig.s.audit.grants, 2);
	/* The reserve permits one grant, so that the other side can continue. */
	CHECK_EQ(rig.s.audit.grants, 1);
	memset(m, 0, 16);
	m[7] = 2;
	m[11] = 4; /* two more than before; the grant used one */
	m[15] = RDMA2_GRANT;
	fake_inject(&rig.s.qp, m, 16);
	CHECK_EQ(rig.s.audit.messages - rig.s.audit.grants, 3);
	m[11] = 100;
	fake_inject(&rig.s.qp, m, 16);
	CHECK_EQ(rig.s.audit.messages - rig.s.audit.grants, 9);
	rig_down(&rig);
}

static void
test_zero_credit(void)
{
	uint8_t m[256];
	uint32_t len;

	/* s4.2.1.1: the grant may be zero. Then calls wait for a new grant. */
	start(NULL);
	CHECK_EQ(rig_add(&rig.c, 1, 1, &ans[0]), 0);
	CHECK(fake_take(&rig.c.qp, m, sizeof(m)) > 0);
	fake_inject(&rig.s.qp, m, 80);
	len = (uint32_t)fake_take(&rig.s.qp, m, sizeof(m));
	weft_put_be32(m + 8, 1);
	fake_inject(&rig.c.qp, m, len);
	CHECK_EQ(ans[0].n, 1);
	CHECK_EQ(rig_add(&rig.c, 2, 2, &ans[1]), 0);
	CHECK_EQ(fake_take(&rig.c.qp, m, sizeof(m)), -1);
	CHECK_EQ(weft_rpc_stats(rig.c.rpc)->credit_stalls, 1);
	memset(m, 0, 16);
	m[0] = 0xff; /* s6.3.2: the xid of a grant is ignored */
	m[7] = 2;
	m[11] = 2;
	m[15] = RDMA2_GRANT;
	fake_inject(&rig.c.qp, m, 16);
	CHECK_EQ(fake_take(&rig.c.qp, m, sizeof(m)), 80);
	rig_down(&rig);
}

static void
test_wrap(void)
{
	start(NULL);
	rig_set_base(&rig, UINT32_MAX - 10);
	rig.c.rpc->next_xid = UINT32_MAX - 10;
	for (unsigned int i = 0; i < 100; i++) {
		ans[0].n = 0;
		CHECK_EQ(rig_add(&rig.c, i, 1, &ans[0]), 0);
		rig_settle(&rig);
		CHECK_EQ(ans[0].n, 1);
		CHECK_EQ(ans[0].sum, i + 1);
	}
	CHECK(rig.c.rpc->credit.sent < 200);
	rig_down(&rig);
}

static void
test_timeout(void)
{
	uint8_t m[256];
	uint32_t len;

	start(NULL);
	CHECK_EQ(rig_add(&rig.c, 1, 1, &ans[0]), 0); /* sent, and not answered */
	CHECK_EQ(rig_add(&rig.c, 2, 2, &ans[1]), 0); /* not sent */
	fake_advance(&rig.worker, 29999999);
	CHECK_EQ(ans[0].n + ans[1].n, 0);
	fake_advance(&rig.worker, 1);
	CHECK_EQ(ans[0].n, 1);
	CHECK_EQ(ans[0].status, WEFT_RPC_TIMEDOUT);
	CHECK_EQ(ans[1].n, 1);
	CHECK_EQ(ans[1].status, WEFT_RPC_TIMEDOUT);
	/* The late answer belongs to no call, but its credit counts. */
	CHECK(fake_take(&rig.c.qp, m, sizeof(m)) == 80);
	CHECK_EQ(fake_take(&rig.c.qp, m + 100, 100), -1);
	fake_inject(&rig.s.qp, m, 80);
	len = (uint32_t)fake_take(&rig.s.qp, m, sizeof(m));
	fake_inject(&rig.c.qp, m, len);
	CHECK_EQ(weft_rpc_stats(rig.c.rpc)->bad_xid, 1);
	CHECK_EQ(rig_add(&rig.c, 3, 3, &ans[2]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[2].sum, 6);
	CHECK_EQ(ans[0].n, 1);
	rig_down(&rig);
}

static void
test_connection_lost(void)
{
	/* The end comes by the event. */
	start(NULL);
	for (unsigned int i = 0; i < 5; i++)
		CHECK_EQ(rig_add(&rig.c, i, i, &ans[i]), 0);
	weft_rpc_disconnected(rig.c.rpc);
	weft_rpc_disconnected(rig.c.rpc);
	for (unsigned int i = 0; i < 5; i++) {
		CHECK_EQ(ans[i].n, 1);
		CHECK_EQ(ans[i].status, WEFT_RPC_CONNLOST);
	}
	CHECK_EQ(rig_add(&rig.c, 0, 0, &ans[9]), -ENOTCONN);
	rig_down(&rig);

	/* The end comes by the completions. */
	start(NULL);
	CHECK_EQ(rig_add(&rig.c, 1, 1, &ans[0]), 0);
	rig_settle(&rig);
	for (unsigned int i = 1; i < 30; i++)
		CHECK_EQ(rig_add(&rig.c, i, i, &ans[i]), 0);
	fake_break(&rig.c.qp);
	for (unsigned int i = 1; i < 30; i++) {
		CHECK_EQ(ans[i].n, 1);
		CHECK_EQ(ans[i].status, WEFT_RPC_CONNLOST);
	}
	rig_down(&rig);

	/* The end comes by destroying the endpoint. */
	start(NULL);
	for (unsigned int i = 0; i < 5; i++)
		CHECK_EQ(rig_add(&rig.c, i, i, &ans[i]), 0);
	weft_rpc_destroy(rig.c.rpc);
	rig.c.rpc = NULL;
	for (unsigned int i = 0; i < 5; i++) {
		CHECK_EQ(ans[i].n, 1);
		CHECK_EQ(ans[i].status, WEFT_RPC_CONNLOST);
	}
	rig_down(&rig);
}

static void
test_reentrant(void)
{
	struct rig_opts o = {.client_serves = true};

	/* A call from inside a serve function is sent, before or after the answer. */
	start(&o);
	CHECK_EQ(rig_call_u32(&rig.c, RIG_NEST, 0, &ans[0]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[0].status, WEFT_RPC_OK);
	CHECK_EQ(rig.s.last_call_rc, 0);
	CHECK_EQ(rig.s.nested_ok, 1);
	CHECK_EQ(rig.c.served, 1);
	rig_down(&rig);

	/* The serve function destroys its own endpoint. */
	start(NULL);
	CHECK_EQ(rig_call_u32(&rig.c, RIG_SUICIDE, 0, &ans[0]), 0);
	rig_settle(&rig);
	CHECK(rig.s.rpc == NULL);
	CHECK_EQ(ans[0].n, 0);
	weft_rpc_disconnected(rig.c.rpc);
	CHECK_EQ(ans[0].status, WEFT_RPC_CONNLOST);
	rig_down(&rig);
}

/* The callback of an answer makes the next call, ten times. Then it destroys the endpoint. */
static unsigned int chain_left;

static void
on_chain(void *arg, enum weft_rpc_status status, void *res)
{
	struct rig_side *side = arg;

	(void)res;
	CHECK_EQ(status, chain_left > 0 ? WEFT_RPC_OK : status);
	if (chain_left > 0) {
		chain_left--;
		CHECK_EQ(weft_rpc_call(side->rpc, RIG_PROG, 1, 0, NULL, NULL, NULL, 0, 0, on_chain,
		                       side),
		         0);
	} else if (side->rpc != NULL) {
		struct weft_rpc *rpc = side->rpc;

		side->rpc = NULL;
		weft_rpc_destroy(rpc);
	}
}

static void
test_call_from_answer(void)
{
	start(NULL);
	chain_left = 10;
	CHECK_EQ(weft_rpc_call(rig.c.rpc, RIG_PROG, 1, 0, NULL, NULL, NULL, 0, 0, on_chain, &rig.c),
	         0);
	rig_settle(&rig);
	CHECK_EQ(chain_left, 0);
	CHECK(rig.c.rpc == NULL);
	CHECK_EQ(weft_rpc_stats(rig.s.rpc)->calls_in, 11);
	rig_down(&rig);
}

static void
test_limits(void)
{
	struct weft_rpc_attr a = {.size = sizeof(a), .qp = &rig.c.qp};
	struct weft_rpc *x = NULL;

	start(NULL);
	for (unsigned int i = 0; i < WEFT_RPC_MAX_CALLS; i++)
		CHECK_EQ(rig_add(&rig.c, i, 1, &ans[i]), 0);
	CHECK_EQ(rig_add(&rig.c, 0, 0, &ans[200]), -EAGAIN);
	rig_settle(&rig);
	for (unsigned int i = 0; i < WEFT_RPC_MAX_CALLS; i++)
		CHECK_EQ(ans[i].sum, i + 1);
	CHECK_EQ(ans[200].n, 0);
	/* Without memory for the alarm the call is refused, and nothing leaks. */
	rig.worker.no_memory = true;
	CHECK_EQ(rig_add(&rig.c, 0, 0, &ans[200]), -ENOMEM);
	rig.worker.no_memory = false;
	CHECK_EQ(rig_add(&rig.c, 4, 5, &ans[201]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[201].sum, 9);
	CHECK_EQ(ans[200].n, 0);

	a.size = 1;
	CHECK_EQ(weft_rpc_create(&a, &x), -EINVAL);
	a.size = sizeof(a);
	a.credits = 1;
	CHECK_EQ(weft_rpc_create(&a, &x), -EINVAL);
	a.credits = 0;
	a.inline_bytes = 1020;
	CHECK_EQ(weft_rpc_create(&a, &x), -EINVAL);
	a.inline_bytes = 65540;
	CHECK_EQ(weft_rpc_create(&a, &x), -EINVAL);
	a.inline_bytes = 1026;
	CHECK_EQ(weft_rpc_create(&a, &x), -EINVAL);
	a.inline_bytes = 0;
	/* Much less than 2^31 - 1 (draft s4.2.1). */
	a.credits = 1025;
	CHECK_EQ(weft_rpc_create(&a, &x), -EINVAL);
	a.credits = UINT32_MAX;
	CHECK_EQ(weft_rpc_create(&a, &x), -EINVAL);
	a.credits = 0;
	a.max_segments = 65;
	CHECK_EQ(weft_rpc_create(&a, &x), -EINVAL);
	a.max_segments = 0;
	a.max_segment_bytes = 4098;
	CHECK_EQ(weft_rpc_create(&a, &x), -EINVAL);
	a.max_segment_bytes = 0;
	a.qp = NULL;
	CHECK_EQ(weft_rpc_create(&a, &x), -EINVAL);
	CHECK(x == NULL);
	rig_down(&rig);
}

static void
test_not_connected(void)
{
	struct rig_opts o = {.no_connect = true};

	start(&o);
	for (unsigned int i = 0; i < 200; i++)
		CHECK_EQ(rig_add(&rig.c, 1, 1, &ans[0]), -ENOTCONN);
	CHECK_EQ(ans[0].n, 0);
	CHECK_EQ(fake_alarms(&rig.worker), 0);
	fake_connect(&rig.c.qp, &rig.s.qp);
	CHECK_EQ(rig_add(&rig.c, 1, 1, &ans[0]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[0].sum, 2);
	rig_down(&rig);
}

static void
test_send_queue_full(void)
{
	struct weft_wc other = {.wr_id = 77, .opcode = WEFT_WC_WRITE};

	/* The consumer's own work fills the send queue: posting is repeated by timer and at its
	 * completions. */
	start(NULL);
	CHECK_EQ(rig_add(&rig.c, 1, 1, &ans[0]), 0);
	rig_settle(&rig);
	rig.c.qp.sq_depth = 0;
	CHECK_EQ(rig_add(&rig.c, 2, 2, &ans[1]), 0);
	fake_advance(&rig.worker, 5000);
	CHECK_EQ(fake_alarms(&rig.worker), 2);
	rig.c.qp.sq_depth = 256;
	fake_advance(&rig.worker, 1000);
	rig_settle(&rig);
	CHECK_EQ(ans[1].sum, 4);

	rig.c.qp.sq_depth = 0;
	CHECK_EQ(rig_add(&rig.c, 3, 3, &ans[2]), 0);
	rig.c.qp.sq_depth = 256;
	CHECK(!weft_rpc_wc(rig.c.rpc, &other));
	rig_settle(&rig);
	CHECK_EQ(ans[2].sum, 6);
	/* wr_ids that are close to those of the endpoint belong to the consumer. */
	other.wr_id = (uintptr_t)rig.c.rpc->slots + 1;
	CHECK(!weft_rpc_wc(rig.c.rpc, &other));
	other.wr_id = (uintptr_t)(rig.c.rpc->unowned + 1);
	CHECK(!weft_rpc_wc(rig.c.rpc, &other));
	other.wr_id = (uintptr_t)rig.c.rpc->slots - sizeof(struct rpcrdma_slot);
	CHECK(!weft_rpc_wc(rig.c.rpc, &other));
	rig_down(&rig);
}

/** An endpoint reads the clock for its calls, with and without chunks, only when it is to take
 * their times. */
static void
test_timed(void)
{
	for (unsigned int timed = 0; timed < 2; timed++) {
		struct weft_rpc_waits w;

		rig_up(&rig, &(struct rig_opts){.timed = timed});
		CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[1]), 0);
		rig_settle(&rig);
		memset(ans, 0, sizeof(ans));
		fake_clock_reads = 0;
		CHECK_EQ(rig_move(&rig.c, 100000, 100, &rig_move_binding, &ans[0]), 0);
		rig_settle(&rig);
		CHECK_EQ(ans[0].n, 1);
		CHECK_EQ(fake_clock_reads, timed ? 3 : 0);
		CHECK_EQ(rig_call_u32(&rig.c, RIG_LATER, 6, &ans[1]), 0);
		rig_settle(&rig);
		CHECK(rig.s.later != NULL);
		CHECK_EQ(fake_clock_reads, timed ? 4 : 0);
		rig.worker.now_us += 5;
		weft_rpc_req_waits(rig.s.later, &w);
		CHECK_EQ(w.read_ns, 0);
		CHECK_EQ(w.room_ns, timed ? 5000 : 0);
		weft_rpc_done(rig.s.later, WEFT_RPC_OK);
		rig_settle(&rig);
		CHECK_EQ(ans[1].n, 1);
		rig_down(&rig);
		memset(ans, 0, sizeof(ans));
	}
}

WEFT_TEST_MAIN({"call", test_call}, {"sizes", test_sizes}, {"first message", test_first_message},
               {"large inline threshold", test_large_inline}, {"result too long", test_big_reply},
               {"only version 2 asks for solicited events", test_solicited},
               {"fallback with calls queued", test_fallback_queued},
               {"initial credit", test_initial_credit}, {"credit audit", test_credit_audit},
               {"grant", test_grant}, {"zero credit", test_zero_credit}, {"wrap", test_wrap},
               {"timeout", test_timeout}, {"connection lost", test_connection_lost},
               {"re-entrant serve", test_reentrant}, {"call from an answer", test_call_from_answer},
               {"limits", test_limits}, {"not connected", test_not_connected},
               {"send queue full", test_send_queue_full},
               {"times are taken when asked for", test_timed}, FAULT_CASES)
