/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Rules of RFC 5041 and RFC 5040 for every segment, checked for every segment: each kind of
 * message at the limits of its segmentation, with many MULPDUs; order; delivery; reserved bits.
 */

#include <stdlib.h>

#include "rdmap_rig.h"

#define BASE      0x1000000000ull
#define MEM_BYTES (4 * 65536)

static uint8_t data[MEM_BYTES], mem[MEM_BYTES];

static const uint32_t mulpdus[] = {128, 129, 530, 1442, 8942, 64768};
static const uint8_t kinds[] = {WEFT_RDMAP_WRITE,    WEFT_RDMAP_READ_RESP, WEFT_RDMAP_SEND,
                                WEFT_RDMAP_SEND_INV, WEFT_RDMAP_SEND_SE,   WEFT_RDMAP_SEND_SE_INV};

static bool
is_tagged(uint8_t op)
{
	return op == WEFT_RDMAP_WRITE || op == WEFT_RDMAP_READ_RESP;
}

static bool
is_inv(uint8_t op)
{
	return op == WEFT_RDMAP_SEND_INV || op == WEFT_RDMAP_SEND_SE_INV;
}

static void
set_up(uint32_t mulpdu, uint16_t depth)
{
	rig.mulpdu = mulpdu;
	rig_open(depth, depth, true);
	for (uint32_t i = 0; i < MEM_BYTES; i++)
		data[i] = (uint8_t)rig_random();
}

/* Check b's next message: n octets of `data`, of this kind; RFC 5041 s4, s5.2, RFC 5040 s4.1. */
static void
check_message(uint8_t op, uint32_t mulpdu, uint32_t n, uint32_t stag, uint64_t to, uint32_t msn)
{
	bool tagged = is_tagged(op);
	uint32_t hdr = tagged ? 14 : 18, max = mulpdu - hdr, off = 0;
	unsigned int segs = 0;

	do {
		struct rig_ulpdu *u = rig_pop(&rig.b);
		uint32_t len;

		CHECK(u != NULL && u->len_bytes >= hdr && u->len_bytes <= mulpdu);
		len = u->len_bytes - hdr;
		/* T, L on the last segment only, four reserved bits, DV 1 */
		CHECK_EQ(u->data[0], (tagged ? 0x80 : 0) | (off + len == n ? 0x40 : 0) | 1);
		/* RV 1, reserved, opcode: the same in each segment */
		CHECK_EQ(u->data[1], 0x40 | op);
		if (tagged && n > 0) {
			CHECK_EQ(weft_get_be32(u->data + 2), stag);
			CHECK_EQ(weft_get_be64(u->data + 6), to + off);
		} else if (!tagged) {
			CHECK_EQ(weft_get_be32(u->data + 2), is_inv(op) ? stag : 0);
			CHECK_EQ(weft_get_be32(u->data + 6), 0); /* QN */
			CHECK_EQ(weft_get_be32(u->data + 10), msn);
			CHECK_EQ(weft_get_be32(u->data + 14), off); /* MO, from zero */
		}
		CHECK(off + len <= n);
		CHECK_MEM(u->data + hdr, data + off, len);
		off += len;
		if (off < n)
			CHECK_EQ(len, max); /* as large as permitted */
		segs++;
		free(u);
	} while (off < n);
	CHECK_EQ(segs, n == 0 ? 1 : (n + max - 1) / max);
	CHECK(TAILQ_EMPTY(&rig.b.out));
}

static void
test_segments(void)
{
	for (unsigned int m = 0; m < RTE_DIM(mulpdus); m++) {
		uint32_t msn = 1, read_msn = 1, stag;
		struct weft_mem_mr *src;

		set_up(mulpdus[m], 4);
		rig.b.nev = 0;
		src = rig_reg(&rig.b, data, MEM_BYTES, BASE, WEFT_ACCESS_REMOTE_READ, NULL, NULL);
		for (unsigned int k = 0; k < RTE_DIM(kinds); k++) {
			uint32_t max = mulpdus[m] - (is_tagged(kinds[k]) ? 14 : 18);
			const uint32_t len[] = {0, 1, max - 1, max, max + 1, 2 * max, 3 * max + 1};

			for (unsigned int i = 0; i < RTE_DIM(len); i++) {
				uint64_t to = i % 2 ? 77 : UINT64_MAX - len[i];
				struct weft_rdmap_req q = {
				        .op = kinds[k],
				        .nsge = 2,
				        .sge = {{data, len[i] / 2},
				                {data + len[i] / 2, len[i] - len[i] / 2}},
				        .len_bytes = len[i],
				        .to = to};
				struct rdmap_read_req r = {.sink_to = to,
				                           .len_bytes = len[i],
				                           .src_stag = src->stag,
				                           .src_to = BASE};

				stag = 0xabc00000 + i;
				q.stag = r.sink_stag = stag;
				if (kinds[k] == WEFT_RDMAP_READ_RESP)
					rig_inject_read(&rig.b, read_msn++, &r);
				else
					weft_rdmap_post(rig.b.r, &q);
				rig_pump();
				check_message(kinds[k], mulpdus[m], len[i], stag, to, msn);
				/* a request of the peer is not delivered to the ULP (RFC 5040
				 * s5.2.1) */
				CHECK_EQ(rig.b.nev, kinds[k] != WEFT_RDMAP_READ_RESP);
				msn += !is_tagged(kinds[k]);
				rig.b.nev = 0;
			}
		}
		rig_unreg(&rig.b, src);
		rig_close();
	}
}

/* RFC 5041 s5.3, RFC 5040 s5.5: messages of all kinds are sent in the order of posting. */
static void
test_order(void)
{
	enum { N = 300 };
	static struct weft_rdmap_req q[N];
	uint32_t msn[2] = {0, 0}, at = 0;
	unsigned int done = 0;

	set_up(128, N);
	for (unsigned int i = 0; i < N; i++) {
		static const uint8_t ops[] = {WEFT_RDMAP_WRITE,     WEFT_RDMAP_SEND,
		                              WEFT_RDMAP_SEND_INV,  WEFT_RDMAP_READ_REQ,
		                              WEFT_RDMAP_FLUSH_REQ, WEFT_RDMAP_SEND_SE};
		uint8_t op = ops[rig_random() % RTE_DIM(ops)];
		uint32_t len = (uint32_t)(rig_random() % 400);

		q[i] = (struct weft_rdmap_req){.op = op,
		                               .nsge = 1,
		                               .sge = {{data + i, len}},
		                               .len_bytes = len,
		                               .stag = i,
		                               .to = 1000,
		                               .flush_flags = WEFT_FLUSH_VISIBLE};
		weft_rdmap_post(rig.b.r, &q[i]);
	}
	rig.b.space = 0;
	for (unsigned int i = 0; i < N;) {
		struct rig_ulpdu *u;

		rig.b.space = 1 + (uint32_t)(rig_random() % 3);
		weft_ddp_mpa_ops.writable(rig.b.ddp);
		rig_pump();
		while ((u = rig_pop(&rig.b)) != NULL) {
			bool tagged = u->data[0] & 0x80, last = u->data[0] & 0x40;
			uint32_t qn = tagged ? 0 : weft_get_be32(u->data + 6);

			CHECK_EQ(u->data[1], 0x40 | q[i].op);
			if (tagged) {
				CHECK_EQ(weft_get_be32(u->data + 2), i);
				CHECK_EQ(weft_get_be64(u->data + 6), 1000 + at);
				at += u->len_bytes - 14;
			} else {
				CHECK(qn < 2);
				CHECK_EQ(weft_get_be32(u->data + 10), msn[qn] + 1);
				CHECK_EQ(weft_get_be32(u->data + 14), at);
				at += u->len_bytes - 18;
				msn[qn] += last;
			}
			i += last;
			if (last)
				at = 0;
			free(u);
		}
	}
	/* Writes and Sends completed in that order, too (RFC 5040 s5.5) */
	for (unsigned int i = 0; i < N; i++)
		if (q[i].op != WEFT_RDMAP_READ_REQ && q[i].op != WEFT_RDMAP_FLUSH_REQ)
			CHECK(rig_ev(&rig.b, EV_DONE, done++)->req == &q[i]);
	CHECK_EQ(rig_ev_count(&rig.b, EV_DONE), done);
	rig_close();
}

/* RFC 5041 s5.4: a message is delivered once, in order, when its last segment is placed, and not
 * before. */
static void
test_delivery(void)
{
	static const uint32_t len[] = {3000, 0, 10, 4096};
	struct weft_mem_mr *sink;
	struct weft_rdmap_req r[2];

	set_up(1400, 4);
	sink = rig_reg(&rig.b, mem, MEM_BYTES, BASE,
	               WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_WRITE, NULL, NULL);
	rig_post_recv(&rig.b, RTE_DIM(len));
	for (uint32_t i = 0; i < RTE_DIM(len); i++) {
		uint32_t off = 0, n;

		do {
			n = RTE_MIN(len[i] - off, 1000u);
			CHECK_EQ(rig_ev_count(&rig.b, EV_RECV), i);
			rig_inject_untagged(&rig.b, 0x43, 0, i + 1, off, off + n == len[i], 0,
			                    data + off, n);
			off += n;
			/* a tagged message in between is not delivered to the ULP (RFC 5040
			 * s5.1) */
			rig_inject_tagged(&rig.b, 0x40, sink->stag, BASE + 8, true, "x", 1);
			rig_pump();
		} while (off < len[i]);
		CHECK_EQ(rig_ev_count(&rig.b, EV_RECV), i + 1);
		CHECK_EQ(rig_ev(&rig.b, EV_RECV, i)->status, WEFT_RDMAP_OK);
		CHECK_EQ(rig_ev(&rig.b, EV_RECV, i)->len_bytes, len[i]);
		CHECK_MEM(rig.b.recv[i], data, len[i]);
	}
	/* Read Responses: each Read completes with the last octet of its own Response, in order */
	for (unsigned int i = 0; i < 2; i++) {
		r[i] = (struct weft_rdmap_req){.op = WEFT_RDMAP_READ_REQ,
		                               .len_bytes = 2500,
		                               .stag = 9,
		                               .sink_stag = sink->stag,
		                               .sink_to = BASE + 4096 * i};
		weft_rdmap_post(rig.b.r, &r[i]);
	}
	rig_pump();
	for (unsigned int i = 0; i < 2; i++)
		for (uint32_t off = 0; off < 2500; off += 500) {
			CHECK_EQ(rig_ev_count(&rig.b, EV_DONE), i);
			rig_inject_tagged(&rig.b, 0x42, sink->stag, BASE + 4096 * i + off,
			                  off == 2000, data + off, 500);
			rig_pump();
		}
	CHECK_EQ(rig_status(&rig.b, &r[0]), WEFT_RDMAP_OK);
	CHECK_EQ(rig_status(&rig.b, &r[1]), WEFT_RDMAP_OK);
	CHECK_MEM(mem, data, 2500);
	CHECK_MEM(mem + 4096, data, 2500);
	CHECK_EQ(rig_ev_count(&rig.b, EV_RECV), RTE_DIM(len));
	rig_unreg(&rig.b, sink);
	rig_close();
}

/* RFC 5040 s5.5 rules 12 and 17: a Read Request has no effect before its last octet has arrived. */
static void
test_read_whole(void)
{
	uint8_t u[18 + 28] = {0x41, 0x41, [9] = 1, [13] = 1}, part[18 + 28];
	struct weft_mem_mr *src;

	for (uint32_t n = 0; n <= 8; n += 8)
		for (uint32_t cut = 0; cut <= 28; cut++) {
			set_up(1400, 4);
			src = rig_reg(&rig.b, data, 4096, BASE, WEFT_ACCESS_REMOTE_READ, NULL,
			              NULL);
			weft_put_be32(u + 18 + 12, n);
			weft_put_be32(u + 18 + 16, src->stag);
			weft_put_be64(u + 18 + 20, BASE);
			memcpy(part, u, 18 + cut);
			part[0] = 0x01; /* not the last segment */
			rig_inject(&rig.b, part, 18 + cut);
			rig_pump();
			CHECK(TAILQ_EMPTY(&rig.b.out));
			CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_RTS);
			memcpy(part, u, 18);
			part[17] = (uint8_t)cut; /* MO */
			memcpy(part + 18, u + 18 + cut, 28 - cut);
			rig_inject(&rig.b, part, 18 + 28 - cut);
			rig_pump();
			check_message(WEFT_RDMAP_READ_RESP, 1400, n, 0, 0, 0);
			rig_unreg(&rig.b, src);
			rig_close();
		}
}

/* The Invalidate STag field of a Read Request and of a Terminate is ignored (RFC 5040 s4.1). */
static void
test_reserved_stag(void)
{
	static const uint8_t word[4] = {0x20, 0x02};
	struct weft_mem_mr *src;
	uint8_t q[28] = {0};

	set_up(1400, 4);
	src = rig_reg(&rig.b, data, 4096, BASE, WEFT_ACCESS_REMOTE_READ, NULL, NULL);
	weft_put_be32(q + 12, 8);
	weft_put_be32(q + 16, src->stag);
	weft_put_be64(q + 20, BASE);
	rig_inject_untagged(&rig.b, 0x41, 1, 1, 0, true, 0xdeadbeef, q, sizeof(q));
	rig_pump();
	check_message(WEFT_RDMAP_READ_RESP, 1400, 8, 0, 0, 0);
	rig_inject_untagged(&rig.b, 0x47, 2, 1, 0, true, 0xdeadbeef, word, sizeof(word));
	rig_pump();
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_TERMINATE);
	CHECK(!rig_ev(&rig.b, EV_STATE, 1)->ours);
	CHECK_EQ(rig_ev(&rig.b, EV_STATE, 1)->term.layer, 2);
	CHECK_EQ(rig.b.inv_stag, 0);
	rig_unreg(&rig.b, src);
	rig_close();
}

/* RFC 5040 s6.1: as many inbound requests as negotiated, and not one more. */
static void
test_inbound_depth(void)
{
	for (uint16_t ird = 0; ird <= 17; ird++) {
		struct rdmap_read_req q = {.len_bytes = 8, .src_to = BASE};
		struct weft_mem_mr *src;
		struct rig_ulpdu *u;

		set_up(1400, ird);
		src = rig_reg(&rig.b, data, 4096, BASE, WEFT_ACCESS_REMOTE_READ, NULL, NULL);
		q.src_stag = src->stag;
		rig.b.space = 0; /* no answer is sent, so no request is completed */
		for (uint32_t msn = 1; msn <= ird; msn++)
			rig_inject_read(&rig.b, msn, &q);
		rig_pump();
		CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_RTS);
		rig_inject_read(&rig.b, ird + 1u, &q);
		rig.b.space = UINT32_MAX;
		rig_pump();
		CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_TERMINATE);
		/* the error is sent at once: 1/2/02 */
		u = rig_pop(&rig.b);
		CHECK(u != NULL && u->data[1] == 0x47 && u->data[18] == 0x12 && u->data[19] == 2);
		free(u);
		CHECK(TAILQ_EMPTY(&rig.b.out));
		rig_unreg(&rig.b, src);
		rig_close();
	}
}

/* The same for outbound requests. */
static void
test_outbound_depth(void)
{
	for (uint16_t ord = 1; ord <= 17; ord++) {
		struct weft_rdmap_req q[40];
		struct weft_mem_mr *sink;
		uint32_t out = 0, done = 0;
		struct rig_ulpdu *u;

		set_up(1400, ord);
		sink = rig_reg(&rig.b, mem, 4096, BASE, WEFT_ACCESS_LOCAL_WRITE, NULL, NULL);
		for (unsigned int i = 0; i < RTE_DIM(q); i++) {
			q[i] = (struct weft_rdmap_req){.op = WEFT_RDMAP_READ_REQ,
			                               .len_bytes = 8,
			                               .stag = 9,
			                               .sink_stag = sink->stag,
			                               .sink_to = BASE + 8 * i};
			weft_rdmap_post(rig.b.r, &q[i]);
		}
		while (done < RTE_DIM(q)) {
			rig_pump();
			for (; (u = rig_pop(&rig.b)) != NULL; out++)
				free(u);
			CHECK_EQ(out, RTE_MIN(done + ord, (uint32_t)RTE_DIM(q)));
			rig_inject_tagged(&rig.b, 0x42, sink->stag, BASE + 8 * done, true, data, 8);
			rig_pump();
			CHECK_EQ(rig_ev_count(&rig.b, EV_DONE), ++done);
		}
		rig_unreg(&rig.b, sink);
		rig_close();
	}
}

/* RFC 5041 s4.1, RFC 5040 s4.1: reserved bits are ignored. */
static void
test_reserved(void)
{
	struct weft_mem_mr *sink;

	for (unsigned int bits = 0; bits < 64; bits++) {
		uint8_t ddp = (uint8_t)((bits & 0xf) << 2), rdma = (uint8_t)(bits & 0x30);
		uint8_t u[20] = {[0] = 0x41 | ddp, [1] = 0x43 | rdma, [13] = 1, [18] = 'o', 'k'};
		uint8_t w[16] = {[0] = 0xc1 | ddp, [1] = 0x40 | rdma, [14] = 'o', 'k'};

		set_up(1400, 4);
		sink = rig_reg(&rig.b, mem, 4096, BASE, WEFT_ACCESS_REMOTE_WRITE, NULL, NULL);
		memset(mem, 0, 2);
		rig_post_recv(&rig.b, 1);
		/* a plain Send: the Invalidate STag field is ignored, too (RFC 5040 s4.6) */
		weft_put_be32(u + 2, bits % 2 ? 0xdeadbeef : 0);
		rig_inject(&rig.b, u, sizeof(u));
		weft_put_be32(w + 2, sink->stag);
		weft_put_be64(w + 6, BASE);
		rig_inject(&rig.b, w, sizeof(w));
		rig_pump();
		CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_RTS);
		CHECK_EQ(rig_ev_count(&rig.b, EV_RECV), 1);
		CHECK_EQ(rig_ev(&rig.b, EV_RECV, 0)->inv_stag, 0);
		CHECK_MEM(rig.b.recv[0], "ok", 2);
		CHECK_MEM(mem, "ok", 2);
		rig_unreg(&rig.b, sink);
		rig_close();
	}
}

WEFT_TEST_MAIN({"segments", test_segments}, {"order", test_order}, {"delivery", test_delivery},
               {"read request whole", test_read_whole}, {"inbound depth", test_inbound_depth},
               {"outbound depth", test_outbound_depth}, {"reserved", test_reserved},
               {"reserved STag", test_reserved_stag})
