/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A peer that accepts less than was announced: fewer segments, no Call chunk, small receives.
 * Calls and replies are then sent in another form.
 */

#include <stdlib.h>

#include "rpcrdma_call.h"
#include "by_hand.h"
#include "observer.h"
#include "weft_test.h"

#define N_ANS 16

static struct rig rig;
static struct obs obs;
static struct rig_answer ans[N_ANS];

static void
start(const struct rig_opts *o)
{
	hand_unanswered(ans, N_ANS);
	rig_up(&rig, o);
	obs_watch(&obs, &rig);
}

static void
all_ok(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		CHECK_EQ(ans[i].n, 1);
		CHECK_EQ(ans[i].status, WEFT_RPC_OK);
	}
}

/* Draft s5.2.4: with any limit of segments calls can be sent: inline, continued, or with one
 * chunk less. */
static void
test_few_segments(void)
{
	static const uint32_t len[] = {0, 900, 6000, 20000, 70000};

	for (uint32_t segs = 1; segs <= 6; segs++) {
		for (unsigned int size = 0; size < 2; size++) {
			unsigned int n = 0;

			start(&(struct rig_opts){.max_segment_bytes = size ? 4096 : 0});
			rig.s.rpc->a.max_segments = segs;
			rig.s.rpc->limits.segs = (uint16_t)segs;
			for (unsigned int i = 0; i < 5; i++) {
				CHECK_EQ(rig_move(&rig.c, len[i], len[(i + n) % 5],
				                  &rig_move_binding, &ans[i]),
				         0);
				rig_settle(&rig);
			}
			all_ok(5);
			CHECK_EQ(rig.c.rpc->stats.retries, 0);
			CHECK_EQ(rig.s.rpc->stats.over_limit, 0);
			CHECK_MSG(obs.fault == NULL, "%s", obs.fault);
			CHECK_EQ(fake_regions(), 0);
			rig_down(&rig);
		}
	}
}

/* Draft s5.2.3: no segment is longer than the peer accepts. Each segment except the last of a
 * chunk ends at the end of an XDR unit (RFC 4506 s3), whatever the peer's limit is. */
static void
test_segment_bytes(void)
{
	for (uint32_t most = 4096; most <= 4104; most++) {
		struct rpcrdma_hdr h;

		start(NULL);
		hand_greet(&rig, &ans[N_ANS - 1]);
		rig.c.rpc->peer.seg_bytes = most;
		CHECK_EQ(rig_move(&rig.c, 20001, 30001, &rig_move_binding, &ans[0]), 0);
		CHECK_EQ(hand_said(&rig.c.qp, &h), -1);
		for (unsigned int i = 0; i < h.chunks.n_segs; i++) {
			const uint32_t n = h.chunks.segs[i].len_bytes;

			CHECK(n <= most && (n % 4 == 0 || n < most - 3));
		}
		CHECK(h.chunks.n_segs >= 20001 / 4104 + 1 + 30001 / 4104 + 1);
		fake_break(&rig.c.qp);
		rig_down(&rig);
	}
}

/* Draft s7.3.3: ERR_SEGMENTS from a peer whose properties announced more: the call is repeated
 * with fewer segments and executed once. Later calls use the lower limit. */
static void
test_retry_segments(void)
{
	for (uint32_t segs = 1; segs <= 3; segs++) {
		start(&(struct rig_opts){.max_segment_bytes = 1000});
		hand_greet(&rig, &ans[N_ANS - 1]);
		rig.s.rpc->limits.segs = (uint16_t)segs;
		CHECK_EQ(rig_move(&rig.c, 6000, 3000, &rig_move_binding, &ans[0]), 0);
		rig_settle(&rig);
		CHECK_EQ(rig.c.rpc->stats.retries, 1);
		CHECK_EQ(rig.s.served, 2);
		CHECK_EQ(rig_move(&rig.c, 6000, 3000, &rig_move_binding, &ans[1]), 0);
		rig_settle(&rig);
		CHECK_EQ(rig.c.rpc->stats.retries, 1);
		all_ok(2);
		CHECK_EQ(fake_regions(), 0);
		rig_down(&rig);
	}
}

/* Draft s7.3.1: a call whose Call chunk is refused is repeated as a continued one. */
static void
test_retry_external(void)
{
	static char text[30001];

	for (unsigned int bound = 0; bound < 2; bound++) {
		struct rpcrdma_hdr h;
		uint8_t m[64];
		uint32_t len;

		memset(text, 'q', sizeof(text) - 1);
		start(NULL);
		hand_greet(&rig, &ans[N_ANS - 1]);
		if (bound) /* a name in the message, with its data in a chunk */
			CHECK_EQ(rig_move(&rig.c, 30000, 10, &rig_move_binding, &ans[0]), 0);
		else
			CHECK_EQ(rig_echo(&rig.c, text, &ans[0]), 0);
		len = rig_raw_error(m, rig_last_xid(&rig), RDMA2_ERR_READ_CHUNKS, 0, 0);
		weft_put_be32(m + RPCRDMA_OFF_CREDIT, rig.c.rpc->credit.limit);
		CHECK_EQ(hand_said(&rig.c.qp, &h), -1);
		CHECK_EQ(h.p.htype, bound ? RDMA2_CALL_INLINE : RDMA2_CALL_EXTERNAL);
		rig.s.rpc->credit.recvd++; /* as if the message had arrived */
		fake_inject(&rig.c.qp, m, len);
		if (bound) {
			CHECK_EQ(hand_said(&rig.c.qp, &h), -1);
			CHECK_EQ(h.p.htype, RDMA2_CALL_EXTERNAL);
			rig.s.rpc->credit.recvd++;
			fake_inject(&rig.c.qp, m, len);
		}
		rig_settle(&rig);
		all_ok(1);
		CHECK_EQ(rig.c.rpc->stats.retries, 1 + bound);
		CHECK_EQ(rig.s.qp.reads, 0);
		CHECK_EQ(fake_regions(), 0);
		rig_down(&rig);
	}
}

static uint32_t
any_length(const void *args)
{
	(void)args;
	return UINT32_MAX;
}

static char *got_text;

static void
on_big(void *arg, enum weft_rpc_status status, void *res)
{
	struct rig_answer *a = arg;

	a->n++;
	a->status = status;
	if (res != NULL)
		got_text = strdup(*(char **)res);
}

/* RFC 8166 s4.3.2.1, draft A.2: a binding without a limit gets the longest possible Reply chunk,
 * not none. */
static void
test_no_bound(void)
{
	static const struct weft_rpc_binding b = {.reply_bytes = any_length};

	for (uint8_t vers = 1; vers <= 2; vers++) {
		const struct weft_rpc_call_attr a = {.size = sizeof(a),
		                                     .prog = RIG_PROG,
		                                     .vers = 1,
		                                     .proc = RIG_BIG,
		                                     .xdr_args = rig_xdr_u32,
		                                     .args = &(uint32_t){6000},
		                                     .xdr_res = rig_xdr_text,
		                                     .res_bytes = sizeof(char *),
		                                     .binding = &b,
		                                     .fn = on_big,
		                                     .arg = &ans[0]};

		start(&(struct rig_opts){.client_max = vers});
		CHECK_EQ(weft_rpc_call_with(rig.c.rpc, &a), 0);
		rig_settle(&rig);
		all_ok(1);
		CHECK_EQ(strlen(got_text), 6000);
		free(got_text);
		CHECK_EQ(rig.c.rpc->stats.special, 1);
		rig_down(&rig);
	}
}

static uint32_t longest;

static void
measure(struct weft_qp *qp, const void *buf, uint32_t len_bytes)
{
	(void)qp;
	if (weft_get_be32((const uint8_t *)buf + 12) != RDMA2_CONNPROP_FINAL && len_bytes > longest)
		longest = len_bytes;
}

/* Draft s5.2.2: a peer announces the size of its receives. A size too small for any message is
 * refused. */
static void
test_small_receives(void)
{
	for (uint32_t room = 0; room <= 1024; room = room < 64 ? room + 1 : room * 5 / 4) {
		bool ok = room >= 36;
		struct rpcrdma_hdr h;
		uint8_t m[256];
		uint32_t len;
		int what = 0;

		start(NULL);
		fake_inject(&rig.s.qp, m,
		            (len = rig_raw_props(m, 9, room), weft_put_be32(m + 8, 1000), len));
		CHECK_EQ(hand_said(&rig.s.qp, NULL), ok ? -1 : RDMA2_ERR_BAD_PROPVAL);
		CHECK_EQ(rig.s.rpc->peer.recv_bytes, ok ? room : 4096);
		CHECK_EQ(rig.s.rpc->stats.bad_property, !ok);
		rig.s.qp.on_post = measure;
		longest = 0;
		len = rig_raw_add(m, 10, 1000, 0, 0);
		weft_put_be32(m + 32 + 20, RIG_BIG);
		weft_put_be32(m + 32 + 40, 2000);
		fake_inject(&rig.s.qp, m, len);
		while (what != RDMA2_REPLY_INLINE) {
			CHECK_EQ(hand_said(&rig.s.qp, &h), -1);
			what = (int)h.p.htype;
		}
		CHECK(longest <= (ok ? room : 4096));
		rig_down(&rig);
	}
}

static unsigned int invalidations;

static void
count_inv(struct weft_qp *qp, const void *buf, uint32_t len_bytes, uint32_t stag)
{
	(void)qp;
	(void)buf;
	(void)len_bytes;
	(void)stag;
	invalidations++;
}

/* Draft s6.5: a handle that does not belong to the call is not invalidated. */
static void
test_foreign_handle(void)
{
	for (unsigned int named = 0; named < 2; named++) {
		const struct rpcrdma_segment seg = {.handle = 0x1000 + !named, .len_bytes = 8};
		struct rpcrdma_hdr h;
		uint8_t m[4096];

		start(NULL);
		hand_greet(&rig, &ans[N_ANS - 1]);
		rig.s.qp.on_invalidate = count_inv;
		invalidations = 0;
		hand_header(&h, 2, RDMA2_CALL_INLINE, 50);
		h.chunks.inv_handle = 0x1000;
		CHECK_EQ(weft_rpcrdma_write_add(&h.chunks, &seg, 1), 0);
		fake_inject(&rig.s.qp, m, hand_add(m, &h));
		fake_deliver(&rig.s.qp);
		CHECK_EQ(rig.s.served, 2);
		CHECK_EQ(invalidations, named);
		rig_down(&rig);
	}
}

WEFT_TEST_MAIN({"few segments", test_few_segments}, {"short segments", test_segment_bytes},
               {"ERR_SEGMENTS", test_retry_segments},
               {"a Call chunk that is refused", test_retry_external},
               {"a reply of any length", test_no_bound}, {"small receives", test_small_receives},
               {"an unknown handle", test_foreign_handle})
