/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Immediate Data (RFC 7306 s6): octets, receives, order among Sends and Writes, one request for a
 * Write with Immediate Data, every error.
 */

#include <stdlib.h>

#include "rdmap_rig.h"

static uint8_t src[20000], dst[20000];

static struct weft_rdmap_req
op_imm(uint8_t op, uint64_t value)
{
	struct weft_rdmap_req q = {.op = op, .len_bytes = 8};

	weft_put_be64(q.imm, value);
	return q;
}

static struct weft_rdmap_req
op_write_imm(uint32_t stag, uint64_t to, uint32_t len, uint8_t imm_op, uint64_t value)
{
	struct weft_rdmap_req q = op_imm(WEFT_RDMAP_WRITE, value);

	q.imm_op = imm_op;
	q.nsge = 1;
	q.sge[0] = (struct weft_rdmap_sge){src, len};
	q.len_bytes = len;
	q.stag = stag;
	q.to = to;
	return q;
}

/* RFC 7306 A.3. A Write in front is sent first. */
static void
test_wire_form(void)
{
	static const uint8_t imm[26] = {0x41, 0x48, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	                                1,    0,    0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
	static const uint8_t imm_se[26] = {0x41, 0x49, 0, 0, 0, 0,    0, 0, 0, 0, 0,    0,    0,
	                                   2,    0,    0, 0, 0, 0xf1, 2, 3, 4, 5, 0xf6, 0xf7, 0xf8};
	static const uint8_t write[16] = {0xc1, 0x40, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 5, 'h', 'i'};
	static const uint8_t imm3[26] = {0x41, 0x48, [13] = 3, [25] = 3};
	struct weft_rdmap_req q[3] = {op_imm(WEFT_RDMAP_IMM, 0x0102030405060708),
	                              op_imm(WEFT_RDMAP_IMM_SE, 0xf102030405f6f7f8),
	                              op_write_imm(9, 5, 2, WEFT_RDMAP_IMM, 3)};

	memcpy(src, "hi", 2);
	rig_open(4, 4, true);
	for (unsigned int i = 0; i < 3; i++)
		weft_rdmap_post(rig.b.r, &q[i]);
	rig_pump();
	EXPECT_ULPDU(&rig.b, imm, 26);
	EXPECT_ULPDU(&rig.b, imm_se, 26);
	EXPECT_ULPDU(&rig.b, write, 16);
	EXPECT_ULPDU(&rig.b, imm3, 26);
	CHECK_EQ(rig.b.flushes, 1);
	for (unsigned int i = 0; i < 3; i++)
		CHECK(rig_ev(&rig.b, EV_DONE, i)->req == &q[i]);
	CHECK_EQ(rig_ev_count(&rig.b, EV_DONE), 3);
	rig_close();
}

/* Immediate Data among Sends, in order. Each uses one receive and does not write to its memory
 * (s6.3). */
static void
test_receives(void)
{
	struct weft_rdmap_req q[6];
	static const uint8_t ops[6] = {WEFT_RDMAP_SEND,    WEFT_RDMAP_IMM,  WEFT_RDMAP_IMM_SE,
	                               WEFT_RDMAP_SEND_SE, WEFT_RDMAP_SEND, WEFT_RDMAP_IMM};

	rig_open(4, 4, false);
	memset(rig.b.recv, 0xee, sizeof(rig.b.recv));
	rig_post_recv(&rig.b, 6);
	memset(src, 0x11, 4);
	for (unsigned int i = 0; i < 6; i++) {
		q[i] = op_imm(ops[i], 0x1000 + i);
		if (!rdmap_ops[ops[i]].imm) {
			q[i].nsge = 1;
			q[i].sge[0] = (struct weft_rdmap_sge){src, 4};
			q[i].len_bytes = 4;
		}
		weft_rdmap_post(rig.a.r, &q[i]);
	}
	rig_pump();
	CHECK_EQ(rig.b.recv_taken, 6);
	for (unsigned int i = 0; i < 6; i++) {
		const struct rig_ev *e = &rig.b.ev[1 + i]; /* after RTS */
		bool imm = rdmap_ops[ops[i]].imm;
		uint8_t want[8];

		CHECK_EQ(rig_status(&rig.a, &q[i]), WEFT_RDMAP_OK);
		CHECK_EQ(e->kind, imm ? EV_IMM : EV_RECV);
		CHECK_EQ(e->solicited, ops[i] == WEFT_RDMAP_IMM_SE || ops[i] == WEFT_RDMAP_SEND_SE);
		CHECK_EQ(rig.b.recv[i][0], imm ? 0xee : 0x11);
		weft_put_be64(want, 0x1000 + i);
		if (imm)
			CHECK_MEM(e->imm, want, 8);
	}
	CHECK_EQ(rig.b.op_stats.in[WEFT_RDMAP_IMM], 2);
	CHECK_EQ(rig.b.op_stats.in[WEFT_RDMAP_IMM_SE], 1);
	rig_close();
}

static const uint8_t *placed;
static uint32_t placed_bytes;

static void
on_imm(struct rig_side *s, const struct rig_ev *e)
{
	(void)s;
	if (e->kind == EV_IMM) /* s7: Completed after the Write is Placed and Delivered */
		CHECK_MEM(placed, src, placed_bytes);
}

/* One request has one completion, whatever the length of the Write and the space. The data is sent
 * first. */
static void
test_write_imm(void)
{
	static const uint32_t sizes[] = {0, 1, 8, 1386, 1387, 20000};
	struct weft_mem_mr *mr;

	rig_open(4, 4, false);
	mr = rig_reg(&rig.b, dst, sizeof(dst), 0, WEFT_ACCESS_REMOTE_WRITE, NULL, NULL);
	rig.b.hook = on_imm;
	placed = dst;
	for (unsigned int i = 0; i < RTE_DIM(sizes); i++) {
		for (uint32_t space = 0; space < 3; space++) {
			struct weft_rdmap_req q =
			        op_write_imm(mr->stag, 0, sizes[i],
			                     i % 2 ? WEFT_RDMAP_IMM : WEFT_RDMAP_IMM_SE, i);
			const struct rig_ev *e;

			for (uint32_t k = 0; k < sizes[i]; k++)
				src[k] = (uint8_t)rig_random();
			placed_bytes = sizes[i];
			memset(dst, 0, sizeof(dst));
			rig_post_recv(&rig.b, 1);
			rig.a.nev = rig.b.nev = 0;
			rig.a.space = space == 0 ? UINT32_MAX : 0;
			weft_rdmap_post(rig.a.r, &q);
			rig_pump();
			while (space > 0 && rig_status(&rig.a, &q) < 0) {
				rig.a.space = space;
				CHECK_EQ(rig_ev_count(&rig.b, EV_IMM), 0);
				rig_pump();
			}
			CHECK_EQ(rig_status(&rig.a, &q), WEFT_RDMAP_OK);
			CHECK_EQ(q.len_bytes, sizes[i]);
			CHECK_MEM(dst, src, sizes[i]);
			e = rig_ev(&rig.b, EV_IMM, 0);
			CHECK(e != NULL && e->imm[7] == i && e->solicited == (i % 2 == 0));
			CHECK_EQ(rig_ev_count(&rig.b, EV_IMM), 1);
		}
	}
	rig_unreg(&rig.b, mr);
	rig_close();
}

/* The Write is sent, the Immediate Data is not. However the stream ends, there is one
 * completion. */
static void
test_write_imm_cut(void)
{
	for (int how = 0; how < 3; how++) {
		struct weft_rdmap_req q = op_write_imm(9, 0, 8, WEFT_RDMAP_IMM, 1);

		rig_open(4, 4, true);
		rig.b.space = 1;
		weft_rdmap_post(rig.b.r, &q);
		rig_pump();
		CHECK_EQ(rig_status(&rig.b, &q), -1);
		free(rig_pop(&rig.b));
		if (how == 0) {
			weft_rdmap_abort(rig.b.r, rig.now_ns);
		} else if (how == 1) { /* a Terminate of the peer */
			rig.b.space = 5;
			rig_inject_untagged(&rig.b, 0x47, 2, 1, 0, true, 0, "\x11\0\0\0", 4);
		} else { /* the peer's FIN: a message without a response is still sent */
			rig.b.space = 5;
			rig.b.ddp->mpa->ops->eof(rig.b.ddp->mpa->user);
		}
		rig_pump();
		CHECK_EQ(rig_status(&rig.b, &q), how == 2 ? WEFT_RDMAP_OK : WEFT_RDMAP_FLUSHED);
		free(rig_pop(&rig.b));
		rig_close();
	}
}

/* An orderly close sends it. With a fence it waits for the requests before it. */
static void
test_close_and_fence(void)
{
	struct weft_rdmap_req f = {.op = WEFT_RDMAP_FLUSH_REQ, .flush_flags = WEFT_FLUSH_VISIBLE};
	struct weft_rdmap_req q = op_imm(WEFT_RDMAP_IMM, 1), w;
	struct weft_mem_mr *mr;

	rig_open(4, 4, false);
	mr = rig_reg(&rig.b, dst, sizeof(dst), 0,
	             WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_FLUSH_VISIBLE, NULL, NULL);
	rig_post_recv(&rig.b, 2);
	f.stag = mr->stag;
	q.fence = true;
	w = op_write_imm(mr->stag, 0, 100, WEFT_RDMAP_IMM, 2);
	w.fence = true;
	weft_rdmap_post(rig.a.r, &f);
	weft_rdmap_post(rig.a.r, &q);
	weft_rdmap_post(rig.a.r, &w);
	weft_rdmap_close(rig.a.r, rig.now_ns);
	rig_pump();
	CHECK(rig_ev(&rig.a, EV_DONE, 0)->req == &f);
	CHECK(rig_ev(&rig.a, EV_DONE, 1)->req == &q);
	CHECK(rig_ev(&rig.a, EV_DONE, 2)->req == &w);
	CHECK_EQ(rig_status(&rig.a, &w), WEFT_RDMAP_OK);
	CHECK_EQ(rig_ev_count(&rig.b, EV_IMM), 2);
	rig_unreg(&rig.b, mr);
	rig_close();
}

/* ---- Errors ---- */

static void
expect_term(int line, uint8_t layer, uint8_t etype, uint8_t code)
{
	uint8_t u[42] = {0x41, 0x47};

	weft_put_be32(u + 6, 2);
	weft_put_be32(u + 10, 1);
	u[18] = (uint8_t)(layer << 4 | etype);
	u[19] = code;
	u[20] = 0xc0;
	weft_put_be16(u + 22, (uint16_t)rig.last_bytes);
	memcpy(u + 24, rig.last, 18);
	rig_pump();
	rig_expect(__FILE__, line, &rig.b, u, sizeof(u));
	if (!rig.b.fin || !TAILQ_EMPTY(&rig.b.out))
		test_fail(__FILE__, line, "no FIN right behind it");
}

/* recv: status of the used receive; -1: no receive was used */
static void
end_case(int line, int recv)
{
	rig_advance(6 * WEFT_NS_PER_S); /* the peer does not close */
	if (rig_ev_count(&rig.b, EV_RECV) != (recv >= 0) || rig_ev_count(&rig.b, EV_IMM) != 0)
		test_fail(__FILE__, line, "receives ended otherwise");
	if (recv >= 0)
		CHECK_EQ(rig_ev(&rig.b, EV_RECV, 0)->status, recv);
	rig_close();
}

#define CASE(recvs, inject, layer, etype, code, recv)                                              \
	do {                                                                                       \
		rig_open(4, 4, true);                                                              \
		rig_post_recv(&rig.b, recvs);                                                      \
		inject;                                                                            \
		expect_term(__LINE__, layer, etype, code);                                         \
		end_case(__LINE__, recv);                                                          \
	} while (0)

#define SEG(ctrl, qn, mo, last, len)                                                               \
	rig_inject_untagged(&rig.b, ctrl, qn, 1, mo, last, 0x12345678, src, len)

static void
test_errors(void)
{
	static const uint8_t ops[2] = {0x48, 0x49};

	for (unsigned int i = 0; i < 2; i++) {
		uint8_t op = ops[i];

		/* without a receive (RFC 5041 s7.2) */
		CASE(0, SEG(op, 0, 0, true, 8), 1, 2, 2, -1);
		/* s6.3: exactly eight octets; the receive reports the error, too (s6.1) */
		for (uint32_t n = 0; n < 20; n++)
			if (n != 8)
				CASE(1, SEG(op, 0, 0, true, n), 0, 2, 0xff,
				     WEFT_RDMAP_LOCAL_LENGTH);
		CASE(1, SEG(op, 0, 0, false, 9), 0, 2, 0xff, WEFT_RDMAP_LOCAL_LENGTH);
		CASE(1, (SEG(op, 0, 0, false, 5), SEG(op, 0, 5, true, 2)), 0, 2, 0xff,
		     WEFT_RDMAP_LOCAL_LENGTH);
		CASE(1, (SEG(op, 0, 0, false, 5), SEG(op, 0, 5, true, 4)), 0, 2, 0xff,
		     WEFT_RDMAP_LOCAL_LENGTH);
		/* wrong RDMAP version, queue, MO */
		CASE(1, SEG(op & 0x3f, 0, 0, true, 8), 0, 2, 5, -1);
		CASE(1, SEG(op, 1, 0, true, 8), 0, 2, 6, -1);
		CASE(1, SEG(op, 3, 0, true, 8), 0, 2, 6, -1);
		CASE(1, SEG(op, 0, 4, true, 4), 1, 2, 4, -1);
		/* in the middle of a Send, and the reverse; also when the first segment is empty */
		for (uint32_t n = 0; n < 5; n += 4) {
			CASE(2, (SEG(0x43, 0, 0, false, n), SEG(op, 0, n, true, 8 - n)), 0, 2, 6,
			     WEFT_RDMAP_FLUSHED);
			CASE(2, (SEG(op, 0, 0, false, n), SEG(0x43, 0, n, true, 8 - n)), 0, 2, 6,
			     WEFT_RDMAP_FLUSHED);
			CASE(2, (SEG(op, 0, 0, false, n), SEG(op ^ 1, 0, n, true, 8 - n)), 0, 2, 6,
			     WEFT_RDMAP_FLUSHED);
		}
	}
}

/* In several segments, one of them empty: unusual and legal. */
static void
test_split(void)
{
	for (uint32_t a = 0; a <= 8; a++)
		for (uint32_t b = a; b <= 8; b++) {
			const struct rig_ev *e;

			rig_open(4, 4, true);
			rig_post_recv(&rig.b, 1);
			memcpy(src, "abcdefgh", 8);
			rig_inject_untagged(&rig.b, 0x49, 0, 1, 0, false, 0, src, a);
			rig_inject_untagged(&rig.b, 0x49, 0, 1, a, false, 0, src + a, b - a);
			CHECK_EQ(rig_ev_count(&rig.b, EV_IMM), 0);
			rig_inject_untagged(&rig.b, 0x49, 0, 1, b, true, 0, src + b, 8 - b);
			e = rig_ev(&rig.b, EV_IMM, 0);
			CHECK(e != NULL && e->solicited);
			CHECK_MEM(e->imm, "abcdefgh", 8);
			CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_RTS);
			rig_close();
		}
}

/* The stream is destroyed in an up-call, of a complete message or of an incomplete one. */
static void
test_destroy_in_recv(void)
{
	struct weft_rdmap_req q = op_imm(WEFT_RDMAP_IMM, 1);

	for (int bad = 0; bad < 2; bad++) {
		rig_open(4, 4, false);
		rig_post_recv(&rig.b, 1);
		rig.b.destroy_at = 1;
		if (bad)
			rig_inject_untagged(&rig.b, 0x48, 0, 1, 0, true, 0, src, 7);
		else
			weft_rdmap_post(rig.a.r, &q);
		rig_pump();
		CHECK(rig.b.r == NULL);
		rig_close();
	}
}

WEFT_TEST_MAIN({"wire_form", test_wire_form}, {"receives", test_receives},
               {"write_imm", test_write_imm}, {"write_imm_cut", test_write_imm_cut},
               {"close_and_fence", test_close_and_fence}, {"errors", test_errors},
               {"split", test_split}, {"destroy_in_recv", test_destroy_in_recv})
