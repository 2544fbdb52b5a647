/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Refusals octet for octet: the error for a refused call, what its repetition requests, and
 * the memory that is freed in every case.
 */

#include <stdlib.h>

#include <rpc/rpc.h>
#include <rpc/rpc_msg.h>

#include "by_hand.h"
#include "weft_test.h"

static struct rig rig;
static struct rig_answer ans[8];

static void
start(const struct rig_opts *o)
{
	memset(ans, 0, sizeof(ans));
	rig_up(&rig, o);
}

/* The next message of a side that is not a grant, and its payload. */
static uint8_t *
next(struct weft_qp *qp, uint8_t out[16384], struct rpcrdma_hdr *h)
{
	int n;

	do {
		n = fake_take(qp, out, 16384);
		CHECK(n > 0);
		fake_complete(qp);
		CHECK_EQ(weft_rpcrdma_decode(out, (uint32_t)n, NULL, h), RPCRDMA_OK);
	} while (h->p.vers == 2 && h->p.htype == RDMA2_GRANT);
	return out + h->len_bytes;
}

/* RFC 5531 s9: a call of an unknown procedure gets the supported versions, in a reply that
 * returns the chunks of the call unused. */
static void
test_no_procedure(void)
{
	/* Offset in the RPC header, the word to put there, and the words of the reply from the
	 * third on. */
	static const struct {
		unsigned int at;
		uint32_t value, words[6];
		unsigned int n;
	} v[] = {
	        {8, 3, {MSG_DENIED, RPC_MISMATCH, 2, 2}, 4},
	        {12, RIG_PROG + 1, {MSG_ACCEPTED, 0, 0, PROG_UNAVAIL}, 4},
	        {16, 2, {MSG_ACCEPTED, 0, 0, PROG_MISMATCH, 1, 3}, 6},
	        {16, 4, {MSG_ACCEPTED, 0, 0, PROG_MISMATCH, 1, 3}, 6},
	        {20, RIG_NPROCS, {MSG_ACCEPTED, 0, 0, PROC_UNAVAIL}, 4},
	        {20, 0, {MSG_ACCEPTED, 0, 0, SUCCESS}, 4},
	};

	for (uint32_t vers = 1; vers <= 2; vers++) {
		for (unsigned int i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
			struct rpcrdma_segment seg = {.handle = 77, .len_bytes = 64};
			uint8_t m[16384], *reply;
			struct rpcrdma_hdr h;
			uint32_t len;

			start(&(struct rig_opts){.client_max = (uint8_t)vers});
			rig.s.qp.on_post = NULL; /* answers to calls that the auditor did not see */
			hand_header(&h, vers, vers == 2 ? RDMA2_CALL_INLINE : RDMA1_MSG, 90);
			CHECK_EQ(weft_rpcrdma_write_add(&h.chunks, &seg, 1), 0);
			len = hand_add(m, &h);
			weft_put_be32(m + len - 48 + v[i].at, v[i].value);
			fake_inject(&rig.s.qp, m, len);
			reply = next(&rig.s.qp, m, &h);
			CHECK_EQ(h.p.xid, 90);
			CHECK_EQ(h.chunks.n_writes, 1);
			CHECK_EQ(h.chunks.writes[0].len_bytes, 0);
			CHECK_EQ(weft_get_be32(reply), 90);
			CHECK_EQ(weft_get_be32(reply + 4), REPLY);
			for (unsigned int k = 0; k < v[i].n; k++)
				CHECK_EQ(weft_get_be32(reply + 8 + 4 * k), v[i].words[k]);
			CHECK_EQ(rig.s.served, 0);
			rig_break_down(&rig);
		}
	}
}

/* Draft s7.3.2: a call whose Write chunks were refused requests a whole reply, with room for
 * each result and no more. */
static void
test_without_writes(void)
{
	uint8_t m[16384];
	struct rpcrdma_hdr h;
	uint32_t xid, len;

	start(NULL);
	hand_greet(&rig, &ans[7]);
	CHECK_EQ(rig_move(&rig.c, 4, 9001, &rig_move_binding, &ans[0]), 0);
	do {
		next(&rig.c.qp, m, &h);
	} while (h.chunks.n_writes == 0);
	CHECK_EQ(h.chunks.n_writes, 2);
	xid = h.p.xid;
	len = rig_raw_error(m, xid, RDMA2_ERR_WRITE_CHUNKS, 0, 0);
	weft_put_be32(m + 8, 1000);
	fake_inject(&rig.c.qp, m, len);
	next(&rig.c.qp, m, &h);
	CHECK_EQ(h.p.xid, xid);
	CHECK_EQ(h.chunks.n_writes, 0);
	CHECK(h.chunks.has_reply);
	CHECK_EQ(h.chunks.reply.len_bytes, (9001 + 4 + 255 + 4 + 3) / 4 * 4);
	rig_break_down(&rig);
}

/* Draft s5.2.5, s7.3.5: a reverse call requests a Reply chunk only from a peer that accepts all
 * chunks. */
static void
test_reverse_reply(void)
{
	for (enum weft_rpc_reverse level = WEFT_RPC_REVERSE_SIMPLE;
	     level <= WEFT_RPC_REVERSE_GENERAL; level++) {
		bool all = level == WEFT_RPC_REVERSE_GENERAL;
		uint8_t m[16384];
		struct rpcrdma_hdr h;
		uint32_t len;

		start(&(struct rig_opts){.client_serves = true, .reverse = level});
		hand_greet(&rig, &ans[7]);
		CHECK_EQ(rig_big(&rig.s, 100, &ans[0]), 0);
		next(&rig.s.qp, m, &h);
		len = rig_raw_error(m, h.p.xid, RDMA2_ERR_REPLY_RESOURCE, 20000, 0);
		weft_put_be32(m + 8, 1000);
		fake_inject(&rig.s.qp, m, len);
		CHECK_EQ(weft_rpc_stats(rig.s.rpc)->retries, all);
		CHECK_EQ(ans[0].n, !all);
		if (all) {
			next(&rig.s.qp, m, &h);
			CHECK(h.chunks.has_reply);
			CHECK_EQ(h.chunks.reply.len_bytes, 20000);
		} else {
			CHECK_EQ(ans[0].status, WEFT_RPC_TOO_LONG);
		}
		rig_break_down(&rig);
	}
}

/* A long call to a peer whose receives are too small for any header with a chunk is sent in
 * parts. */
static void
test_no_header_fits(void)
{
	static char text[5001];
	uint8_t m[256];
	uint32_t len;

	memset(text, 's', 5000);
	start(NULL);
	hand_greet(&rig, &ans[7]);
	/* as if the server had announced that */
	len = rig_raw_props(m, 9, RPCRDMA_LEAST_INLINE_BYTES + 4);
	weft_put_be32(m + 8, rig.c.rpc->credit.limit);
	rig.s.rpc->credit.sent++;
	rig.s.audit.sent++;
	fake_inject(&rig.c.qp, m, len);
	rig_settle(&rig);
	CHECK_EQ(rig_echo(&rig.c, text, &ans[0]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[0].n, 1);
	CHECK_EQ(ans[0].status, WEFT_RPC_OK);
	CHECK_EQ(weft_rpc_stats(rig.c.rpc)->special, 0);
	CHECK_EQ(fake_regions(), 0);
	rig_break_down(&rig);
}

/* Unsignaled work that fails ends the connection. */
static void
test_unsignaled(void)
{
	struct weft_wc wc = {.opcode = WEFT_WC_WRITE, .status = WEFT_WC_REMOTE_ACCESS};

	start(NULL);
	hand_greet(&rig, &ans[7]);
	CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[0]), 0);
	wc.wr_id = (uintptr_t)rig.c.rpc->unowned;
	CHECK(weft_rpc_wc(rig.c.rpc, &wc));
	CHECK_EQ(ans[0].n, 1);
	CHECK_EQ(ans[0].status, WEFT_RPC_CONNLOST);
	rig_break_down(&rig);
}

/* The regions of calls, on either side, serve later calls: in the end nothing new is registered. */
static void
test_regions_come_back(void)
{
	static const struct weft_rpc_binding by_reply = {.reply_bytes = rig_reply_40000};

	for (uint32_t vers = 1; vers <= 2; vers++) {
		unsigned int mrs = 0;

		start(&(struct rig_opts){.client_max = (uint8_t)vers});
		for (unsigned int i = 0; i < 12; i++) {
			CHECK_EQ(rig_move(&rig.c, 9001, 9003, &rig_move_binding, &ans[0]), 0);
			rig_settle(&rig);
			CHECK_EQ(rig_move(&rig.c, 30001, 4, NULL, &ans[1]), 0);
			rig_settle(&rig);
			CHECK_EQ(rig_move(&rig.c, 4, 5000, &by_reply, &ans[2]), 0);
			rig_settle(&rig);
			for (unsigned int k = 0; k < 3; k++)
				CHECK_EQ(ans[k].status, WEFT_RPC_OK);
			if (i <= RPCRDMA_IDLE_MIN / 3)
				mrs = fake_mrs();
			CHECK_EQ(fake_mrs(), mrs);
			CHECK_EQ(fake_regions(), 0);
		}
		rig_break_down(&rig);
	}
}

WEFT_TEST_MAIN({"no procedure", test_no_procedure}, {"without writes", test_without_writes},
               {"reverse reply", test_reverse_reply}, {"no header fits", test_no_header_fits},
               {"unsignaled", test_unsignaled}, {"regions come back", test_regions_come_back})
