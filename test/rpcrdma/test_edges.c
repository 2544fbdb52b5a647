/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The last value that a rule allows and the first that it does not: the length of a message,
 * the octets written to a chunk, the handle that is invalidated, the version of the connection.
 */

#include <stdlib.h>

#include "by_hand.h"
#include "weft_test.h"

#define MORE 4 /* octets of a word */

static struct rig rig;
static struct rig_answer ans[4];

static void
start(const struct rig_opts *o)
{
	memset(ans, 0, sizeof(ans));
	rig_up(&rig, o);
}

/* A call of any procedure after the header, with its arguments in words. Returns the length in
 * octets. */
static uint32_t
hand_call(uint8_t *m, const struct rpcrdma_hdr *h, uint32_t proc, const uint32_t *arg,
          unsigned int n)
{
	uint32_t len = weft_rpcrdma_encode(m, 4096, h);
	uint8_t raw[256];

	CHECK(len > 0);
	rig_raw_add(raw, h->p.xid, 0, 0, 0);
	memcpy(m + len, raw + 32, 40);
	weft_put_be32(m + len + 20, proc);
	for (unsigned int i = 0; i < n; i++)
		weft_put_be32(m + len + 40 + 4 * i, arg[i]);
	return len + 40 + 4 * n;
}

/* What a side sent: the octets that its Writes put into handle (-1 if any goes to another one),
 * and its Send. */
static const struct fake_msg *
look(const struct weft_qp *qp, uint32_t handle, int64_t *written)
{
	const struct fake_msg *m, *send = NULL;

	*written = 0;
	STAILQ_FOREACH (m, &qp->wire, next) {
		if (m->wr.opcode == WEFT_WR_WRITE && *written >= 0)
			*written = m->wr.rdma.stag == handle ? *written + m->len_bytes : -1;
		if (m->wr.opcode == WEFT_WR_SEND || m->wr.opcode == WEFT_WR_SEND_INV)
			send = m;
	}
	return send;
}

/* ---- Sizes ---- */

/* A call of this length in octets: an echo of a string, including the header. */
static void
echo_of(uint32_t len_bytes, struct rig_answer *a)
{
	char text[4096];

	len_bytes -= RPCRDMA_CALL_HDR_BYTES + 40 + 4;
	memset(text, 'e', len_bytes);
	text[len_bytes] = '\0';
	CHECK_EQ(rig_echo(&rig.c, text, a), 0);
}

/* Draft s4.3: the first message has at most 1024 octets. A longer call is sent after the
 * properties. */
static void
test_first(void)
{
	for (uint32_t len = 1024 - MORE; len <= 1024 + MORE; len += MORE) {
		struct rpcrdma_hdr h;
		uint8_t m[4096];
		int n;

		start(NULL);
		echo_of(len, &ans[0]);
		n = fake_take(&rig.c.qp, m, sizeof(m));
		CHECK(n > 0 && n <= 1024);
		CHECK_EQ(weft_rpcrdma_decode(m, (uint32_t)n, NULL, &h), RPCRDMA_OK);
		CHECK_EQ(h.p.vers, 2);
		CHECK_EQ(h.p.htype, len <= 1024 ? RDMA2_CALL_INLINE : RDMA2_CONNPROP_FINAL);
		if (len <= 1024)
			CHECK_EQ(n, len);
		CHECK_EQ(fake_take(&rig.c.qp, m, sizeof(m)), -1); /* no further message was sent */
		rig_break_down(&rig);
	}
}

/* RFC 8166 s3.3.3: without an agreement both thresholds are 1024 octets, whatever the receives
 * are. */
static void
test_version_1(void)
{
	for (uint32_t inline_bytes = 1024; inline_bytes <= 65536; inline_bytes *= 8) {
		for (uint32_t len = 1024; len <= 1024 + MORE; len += MORE) {
			start(&(struct rig_opts){.client_max = 1,
			                         .client_inline = inline_bytes,
			                         .server_inline = inline_bytes});
			hand_greet(&rig, &ans[3]);
			/* A call: inline, or in a Call chunk (Read list at position 0). */
			echo_of(len + 4, &ans[0]); /* version 1's header has one word less */
			CHECK_EQ(weft_rpc_stats(rig.c.rpc)->special, len > 1024);
			rig_settle(&rig);
			CHECK_EQ(ans[0].n, 1);
			rig_break_down(&rig);
		}
	}
}

/* The server's reply: 1024 octets are sent inline, and more in the Reply chunk. */
static void
test_version_1_reply(void)
{
	struct rpcrdma_segment seg = {.handle = 77, .len_bytes = 4096};
	/* The header with the returned Reply chunk, six words of RPC, the length of the string. */
	uint32_t fixed = RPCRDMA_V1_HDR_BYTES + 4 + 16 + 24 + 4;

	for (uint32_t len = 1024; len <= 1024 + MORE; len += MORE) {
		const uint32_t text = len - fixed;
		const struct fake_msg *send;
		struct rpcrdma_hdr h;
		int64_t written;
		uint8_t m[4096];

		start(&(struct rig_opts){.client_max = 1});
		rig.s.qp.on_post = NULL; /* answers to calls that the auditor did not see */
		hand_header(&h, 1, RDMA1_MSG, 90);
		CHECK_EQ(weft_rpcrdma_reply_set(&h.chunks, &seg, 1), 0);
		fake_inject(&rig.s.qp, m, hand_call(m, &h, RIG_BIG, &text, 1));
		send = look(&rig.s.qp, 77, &written);
		CHECK(send != NULL);
		CHECK_EQ(weft_rpcrdma_decode(send->buf, send->len_bytes, NULL, &h), RPCRDMA_OK);
		CHECK_EQ(h.p.htype, len <= 1024 ? RDMA1_MSG : RDMA1_NOMSG);
		CHECK_EQ(written, len <= 1024 ? 0 : 24 + 4 + text);
		CHECK(h.chunks.has_reply);
		/* A Reply chunk that is not needed is returned with a length of 0. */
		CHECK_EQ(h.chunks.reply.len_bytes, written);
		if (len <= 1024)
			CHECK_EQ(send->len_bytes, len);
		rig_break_down(&rig);
	}
}

/* Draft s6.6.3: a reply that does not fit inline uses a Reply chunk of sufficient size, and no
 * other. */
static void
test_reply_chunk(void)
{
	const uint32_t inline_text = 4096 - RPCRDMA_REPLY_HDR_BYTES - 24 - 4;

	for (unsigned int more = 0; more <= 2 * MORE; more += MORE) {
		for (int less = -MORE; less <= MORE; less++) {
			const uint32_t text = inline_text + more, body = 24 + 4 + text;
			struct rpcrdma_segment seg = {.handle = 77,
			                              .len_bytes = (uint32_t)((int)body - less)};
			bool fits = more == 0, does = less <= 0;
			const struct fake_msg *send;
			struct rpcrdma_hdr h;
			int64_t written;
			uint8_t m[4096];

			start(NULL);
			hand_header(&h, 2, RDMA2_CALL_INLINE, 90);
			CHECK_EQ(weft_rpcrdma_reply_set(&h.chunks, &seg, 1), 0);
			fake_inject(&rig.s.qp, m, hand_call(m, &h, RIG_BIG, &text, 1));
			CHECK_EQ(weft_rpc_stats(rig.s.rpc)->special, !fits && does);
			CHECK_EQ(weft_rpc_stats(rig.s.rpc)->continued, !fits && !does);
			send = look(&rig.s.qp, 77, &written);
			CHECK(send != NULL);
			CHECK_EQ(weft_rpcrdma_decode(send->buf, send->len_bytes, NULL, &h),
			         RPCRDMA_OK);
			if (fits) {
				CHECK_EQ(h.p.htype, RDMA2_REPLY_INLINE);
				CHECK_EQ(send->len_bytes, 4096);
			}
			if (!fits && does) {
				CHECK_EQ(h.p.htype, RDMA2_REPLY_EXTERNAL);
				CHECK_EQ(h.chunks.reply.len_bytes, body);
			}
			CHECK_EQ(written, !fits && does ? (int64_t)body : 0);
			rig_break_down(&rig);
		}
	}
}

/* ---- Write chunks (draft s4.5.2.4, RFC 8166 s3.4.6.2) ---- */

/* Each Write of a side: its destination and its octets. Returns their number. */
static unsigned int
writes(const struct weft_qp *qp, struct rpcrdma_segment *to, const uint8_t **octets)
{
	const struct fake_msg *m;
	unsigned int n = 0;

	STAILQ_FOREACH (m, &qp->wire, next) {
		if (m->wr.opcode != WEFT_WR_WRITE)
			continue;
		CHECK(n < 4);
		to[n] = (struct rpcrdma_segment){.handle = m->wr.rdma.stag,
		                                 .len_bytes = m->len_bytes,
		                                 .offset = m->wr.rdma.to};
		octets[n++] = m->local;
	}
	return n;
}

/* If the chunk has room for padding, none is written and none is counted; nor is any written to
 * its next segment, or to a chunk for which no result is left. */
static void
test_no_fill(void)
{
	static const struct rpcrdma_segment data[2] = {
	        {.handle = 77, .len_bytes = 300, .offset = 5000},
	        {.handle = 78, .len_bytes = 212, .offset = 100}};
	static const struct rpcrdma_segment name = {.handle = 79, .len_bytes = 8, .offset = 7};
	static const struct rpcrdma_segment spare = {.handle = 80, .len_bytes = 8, .offset = 9};

	for (uint32_t vers = 1; vers <= 2; vers++) {
		for (uint32_t back = 298; back < 504; back += back == 303 ? 197 : 1) {
			/* seed, no data, a name of one letter, the length to return */
			const uint32_t arg[] = {0, 0, 1, 0x6e000000, back};
			const uint32_t first = back < 300 ? back : 300;
			unsigned int n = back > 300 ? 2 : 1;
			struct rpcrdma_segment to[4];
			const struct fake_msg *send;
			const uint8_t *octets[4];
			struct rpcrdma_hdr h;
			int64_t written;
			uint8_t m[4096];
			char want[512];

			start(&(struct rig_opts){.client_max = (uint8_t)vers});
			rig.s.qp.on_post = NULL;
			hand_header(&h, vers, vers == 2 ? RDMA2_CALL_INLINE : RDMA1_MSG, 90);
			CHECK_EQ(weft_rpcrdma_write_add(&h.chunks, data, 2), 0);
			CHECK_EQ(weft_rpcrdma_write_add(&h.chunks, &name, 1), 0);
			CHECK_EQ(weft_rpcrdma_write_add(&h.chunks, &spare, 1), 0);
			fake_inject(&rig.s.qp, m, hand_call(m, &h, RIG_MOVE, arg, 5));
			CHECK_EQ(rig.s.served, 1);
			rig_octets(want, back, 1);
			CHECK_EQ(writes(&rig.s.qp, to, octets), n + 1);
			CHECK(to[0].handle == 77 && to[0].offset == 5000);
			CHECK_EQ(to[0].len_bytes, first);
			CHECK_MEM(octets[0], want, first);
			if (n == 2) {
				CHECK(to[1].handle == 78 && to[1].offset == 100);
				CHECK_EQ(to[1].len_bytes, back - 300);
				CHECK_MEM(octets[1], want + 300, back - 300);
			}
			CHECK(to[n].handle == 79 && to[n].offset == 7);
			CHECK_EQ(to[n].len_bytes, 1);
			CHECK_EQ(octets[n][0], 'n');
			send = look(&rig.s.qp, 0, &written);
			CHECK(send != NULL);
			CHECK_EQ(weft_rpcrdma_decode(send->buf, send->len_bytes, NULL, &h),
			         RPCRDMA_OK);
			CHECK_EQ(h.chunks.n_writes, 3);
			CHECK_EQ(h.chunks.writes[0].len_bytes, back);
			CHECK_EQ(h.chunks.writes[1].len_bytes, 1);
			CHECK_EQ(h.chunks.writes[2].len_bytes, 0);
			CHECK_EQ(weft_rpc_stats(rig.s.rpc)->write_chunks, 2);
			CHECK_EQ(weft_rpc_stats(rig.s.rpc)->write_bytes, back + 1);
			rig_break_down(&rig);
		}
	}
}

/* A client offers as much as its result can have, without padding, in any chunk. */
static void
test_no_room_for_fill(void)
{
	for (uint32_t vers = 1; vers <= 2; vers++) {
		for (uint32_t back = 5000; back < 5004; back++) {
			struct rpcrdma_hdr h;
			uint8_t m[4096];
			int n;

			start(&(struct rig_opts){.client_max = (uint8_t)vers});
			hand_greet(&rig, &ans[3]);
			CHECK_EQ(rig_move(&rig.c, 4, back, &rig_move_binding, &ans[0]), 0);
			do {
				n = fake_take(&rig.c.qp, m, sizeof(m));
				CHECK(n > 0);
			} while (weft_rpcrdma_decode(m, (uint32_t)n, NULL, &h) != RPCRDMA_OK ||
			         h.chunks.n_writes == 0);
			CHECK_EQ(h.chunks.n_writes, 2);
			CHECK_EQ(h.chunks.writes[0].len_bytes, back);
			CHECK_EQ(h.chunks.writes[1].len_bytes, 255); /* the longest name */
			rig_break_down(&rig);
		}
	}
}

/* ---- Remote invalidation (draft s6.5) ---- */

/* The answer's Send invalidates the handle that the call names, if it belongs to the call, and
 * no other. */
static void
test_invalidate(void)
{
	static const uint32_t handle[] = {0, 1, 42, 43, 44, 45};

	for (unsigned int i = 0; i < sizeof(handle) / sizeof(handle[0]); i++) {
		struct rpcrdma_segment w[2] = {{.handle = 1, .len_bytes = 8},
		                               {.handle = 42, .len_bytes = 8}};
		struct rpcrdma_segment r = {.handle = 43, .len_bytes = 8};
		bool ours = handle[i] >= 1 && handle[i] <= 43;
		const struct fake_msg *send;
		struct rpcrdma_hdr h;
		int64_t written;
		uint8_t m[4096];

		start(NULL);
		hand_header(&h, 2, RDMA2_CALL_INLINE, 90);
		CHECK_EQ(weft_rpcrdma_write_add(&h.chunks, w, 2), 0);
		CHECK_EQ(weft_rpcrdma_reply_set(&h.chunks, &r, 1), 0);
		h.chunks.inv_handle = handle[i];
		fake_inject(&rig.s.qp, m, hand_add(m, &h));
		send = look(&rig.s.qp, 0, &written);
		CHECK(send != NULL);
		CHECK_EQ(send->wr.opcode, ours ? WEFT_WR_SEND_INV : WEFT_WR_SEND);
		if (ours)
			CHECK_EQ(send->wr.send.inv_stag, handle[i]);
		rig_break_down(&rig);
	}
}

/* Of an answer in several parts, only the last part is a Send with Invalidate: until then the
 * responder uses the memory. */
static void
test_invalidate_last(void)
{
	struct rpcrdma_segment r = {.handle = 43, .len_bytes = 8};
	const uint32_t text = 10000;
	const struct fake_msg *p;
	struct rpcrdma_hdr h;
	unsigned int n = 0;
	uint8_t m[4096];

	start(NULL);
	hand_header(&h, 2, RDMA2_CALL_INLINE, 90);
	CHECK_EQ(weft_rpcrdma_reply_set(&h.chunks, &r, 1), 0);
	h.chunks.inv_handle = 43;
	fake_inject(&rig.s.qp, m, hand_call(m, &h, RIG_BIG, &text, 1));
	STAILQ_FOREACH (p, &rig.s.qp.wire, next) {
		CHECK_EQ(p->wr.opcode,
		         STAILQ_NEXT(p, next) == NULL ? WEFT_WR_SEND_INV : WEFT_WR_SEND);
		n++;
	}
	CHECK_EQ(n, 3);
	rig_break_down(&rig);
}

/* ---- The version of a connection (draft s4.3.3) ---- */

/* The first message settles the version. A later message of another version, known or not, is
 * refused and changes nothing. */
static void
test_version_stays(void)
{
	static const uint32_t others[] = {0, 1, 2, 3, UINT32_MAX};

	for (uint32_t first = 1; first <= 2; first++) {
		for (unsigned int k = 0; k < sizeof(others) / sizeof(others[0]); k++) {
			uint32_t other = others[k];
			bool known = other == 1 || other == 2;
			struct rpcrdma_hdr h;
			uint8_t m[4096];

			if (other == first)
				continue;
			start(NULL);
			rig.s.qp.on_post = NULL;
			for (unsigned int i = 0; i < 3; i++) {
				uint32_t vers = i == 1 ? other : first, len;
				/* s7.1.2 is of version 2. In version 1 an unknown version is
				 * answered with the known ones (RFC 8166 s4.5.1). */
				int error = known || first == 2 ? RDMA2_ERR_VERS_MISMATCH
				                                : RDMA2_ERR_VERS;

				hand_header(&h, known ? vers : first,
				            (known ? vers : first) == 2 ? RDMA2_CALL_INLINE
				                                        : RDMA1_MSG,
				            90 + i);
				len = hand_add(m, &h);
				weft_put_be32(m + RPCRDMA_OFF_VERS, vers);
				fake_inject(&rig.s.qp, m, len);
				CHECK_EQ(hand_said(&rig.s.qp, &h), i == 1 ? error : -1);
				CHECK_EQ(h.p.xid, 90 + i);
				CHECK_EQ(h.p.vers,
				         /* an error has the version of the message in error */
				         vers);
				CHECK_EQ(weft_rpc_version(rig.s.rpc), first);
			}
			CHECK_EQ(rig.s.served, 2);
			CHECK_EQ(weft_rpc_stats(rig.s.rpc)->bad_version, 1);
			rig_break_down(&rig);
		}
	}
}

/* A server with one version: another version is refused with the supported range, first and
 * later, and settles nothing. */
static void
test_version_range(void)
{
	for (uint32_t only = 1; only <= 2; only++) {
		struct rpcrdma_hdr h;
		uint8_t m[4096];

		start(&(struct rig_opts){.server_min = (uint8_t)only, .server_max = (uint8_t)only});
		rig.s.qp.on_post = NULL;
		for (unsigned int i = 0; i < 3; i++) {
			uint32_t vers = i == 1 ? only : 3 - only;
			int error = i == 2 && only == 2 ? RDMA2_ERR_VERS_MISMATCH : RDMA2_ERR_VERS;

			hand_header(&h, vers, vers == 2 ? RDMA2_CALL_INLINE : RDMA1_MSG, 90 + i);
			fake_inject(&rig.s.qp, m, hand_add(m, &h));
			CHECK_EQ(hand_said(&rig.s.qp, &h), i == 1 ? -1 : error);
			CHECK_EQ(h.p.xid, 90 + i);
			if (i == 0)
				CHECK(h.err.a == only && h.err.b == only);
			CHECK_EQ(rig.s.served, i > 0);
		}
		CHECK_EQ(weft_rpc_stats(rig.s.rpc)->bad_version, 2);
		rig_break_down(&rig);
	}
}

/* The server's own messages have that version, too: calls in the reverse direction. */
static void
test_version_reverse(void)
{
	for (uint32_t vers = 1; vers <= 2; vers++) {
		struct rpcrdma_hdr h;
		uint8_t m[4096];
		int n;

		start(&(struct rig_opts){.client_max = (uint8_t)vers, .client_serves = true});
		hand_greet(&rig, &ans[3]);
		CHECK_EQ(rig_add(&rig.s, 3, 4, &ans[0]), 0);
		n = fake_take(&rig.s.qp, m, sizeof(m));
		CHECK(n > 0);
		CHECK_EQ(weft_rpcrdma_decode(m, (uint32_t)n, NULL, &h), RPCRDMA_OK);
		CHECK_EQ(h.p.vers, vers);
		rig_break_down(&rig);
	}
}

WEFT_TEST_MAIN({"first message", test_first}, {"version 1, calls", test_version_1},
               {"version 1, replies", test_version_1_reply}, {"reply chunk", test_reply_chunk},
               {"no fill", test_no_fill}, {"no room for fill", test_no_room_for_fill},
               {"invalidate", test_invalidate}, {"invalidate last", test_invalidate_last},
               {"version stays", test_version_stays}, {"version range", test_version_range},
               {"version reverse", test_version_reverse})
