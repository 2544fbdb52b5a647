/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Single rules of the draft, RFC 8166 and RFC 8167, each tested with messages that the
 * test encodes. */

#include <stdlib.h>

#include "rpcrdma_call.h"
#include "by_hand.h"
#include "observer.h"
#include "weft_test.h"

static struct rig rig;
static struct obs obs;
static struct rig_answer ans[16];

static void
start(const struct rig_opts *o)
{
	hand_unanswered(ans, 16);
	rig_up(&rig, o);
	obs_watch(&obs, &rig);
}

/* Draft s4.6.4, s7.3.1, s7.3.2, RFC 8167 s5.3: chunks of reverse calls beyond the announced
 * level are refused. */
static void
test_reverse_chunks(void)
{
	const struct rpcrdma_segment seg = {.handle = 9, .len_bytes = 8};

	for (uint32_t kind = 0; kind < 4; kind++) {
		for (unsigned int list = 0; list < 3; list++) {
			uint32_t vers = 1 + (kind & 1);
			bool cont = kind & 2;
			struct rpcrdma_err err;
			uint8_t m[4096];
			struct rpcrdma_hdr h;

			start(&(struct rig_opts){.client_serves = true,
			                         .client_max = (uint8_t)vers,
			                         .reverse = cont ? WEFT_RPC_REVERSE_CONT
			                                         : WEFT_RPC_REVERSE_SIMPLE});
			hand_greet(&rig, &ans[15]);
			hand_header(&h, vers, vers == 2 ? RDMA2_CALL_INLINE : RDMA1_MSG, 700);
			if (list == 0)
				CHECK_EQ(weft_rpcrdma_read_add(&h.chunks, 44, &seg, 1), 0);
			if (list == 1)
				CHECK_EQ(weft_rpcrdma_write_add(&h.chunks, &seg, 1), 0);
			if (list == 2)
				CHECK_EQ(weft_rpcrdma_reply_set(&h.chunks, &seg, 1), 0);
			fake_inject(&rig.c.qp, m, hand_add(m, &h));
			CHECK_EQ(hand_error(&rig.c.qp, &err), vers == 1   ? RDMA1_ERR_CHUNK
			                                      : list == 0 ? RDMA2_ERR_READ_CHUNKS
			                                      : cont      ? RDMA2_ERR_WRITE_CHUNKS
			                                             : RDMA2_ERR_REPLY_RESOURCE);
			if (vers == 2)
				CHECK_EQ(err.a, 0); /* no chunk is accepted */
			CHECK_EQ(rig.c.served, 0);
			CHECK_EQ(rig.c.qp.reads + rig.c.qp.writes, 0);
			rig_down(&rig);
		}
	}
}

/* Draft s5.2.5: a client that announced single messages does not answer in several. s7.3.4: it
 * sends the error. */
static void
test_reverse_long(void)
{
	for (enum weft_rpc_reverse level = WEFT_RPC_REVERSE_SIMPLE;
	     level <= WEFT_RPC_REVERSE_GENERAL; level++) {
		bool simple = level == WEFT_RPC_REVERSE_SIMPLE;

		start(&(struct rig_opts){.client_serves = true, .reverse = level});
		hand_greet(&rig, &ans[15]);
		CHECK_EQ(rig_big(&rig.s, 20000, &ans[0]), 0);
		rig_settle(&rig);
		CHECK_EQ(ans[0].n, 1);
		CHECK_EQ(ans[0].status, simple ? WEFT_RPC_TOO_LONG : WEFT_RPC_OK);
		CHECK_EQ(rig.c.rpc->stats.continued, simple ? 0 : 1);
		CHECK_EQ(rig.c.rpc->stats.errors_out, simple ? 1 : 0);
		/* and a call whose answer fits is still answered */
		CHECK_EQ(rig_add(&rig.s, 1, 2, &ans[1]), 0);
		rig_settle(&rig);
		CHECK_EQ(ans[1].status, WEFT_RPC_OK);
		rig_down(&rig);
	}
}

/* Draft s5.2.5 names four levels of reverse support. A higher value announces none. */
static void
test_reverse_unknown(void)
{
	static const uint32_t level[] = {RDMA2_RVRSDIR_GENL, RDMA2_RVRSDIR_GENL + 1, UINT32_MAX};

	for (unsigned int i = 0; i < 3; i++) {
		struct rpcrdma_hdr h;
		uint8_t m[256];

		for (unsigned int kind = 0; kind < 3; kind++) {
			start(NULL);
			hand_header(&h, 2, RDMA2_CONNPROP_FINAL, 9);
			h.props.present = 1u << RDMA2_PROPID_BRS;
			h.props.reverse = level[i];
			fake_inject(&rig.s.qp, m, weft_rpcrdma_encode(m, sizeof(m), &h));
			CHECK_EQ(hand_error(&rig.s.qp, NULL),
			         -1); /* not an error but our properties */
			CHECK_EQ(h.p.htype, RDMA2_CONNPROP_FINAL);
			/* inline, with chunks for items, with a Call chunk */
			CHECK_EQ(rig_move(&rig.s, kind == 0 ? 10 : 30000, 10,
			                  kind == 2 ? NULL : &rig_move_binding, &ans[0]),
			         0);
			CHECK_EQ(hand_said(&rig.s.qp, &h), i == 0 ? -1 : 0);
			CHECK_EQ(ans[0].n, i > 0);
			if (i > 0)
				CHECK_EQ(ans[0].status, WEFT_RPC_TRANSPORT);
			CHECK_EQ(fake_regions() > 0, i == 0);
			fake_break(&rig.s.qp);
			rig_down(&rig);
		}
	}
}

/* Draft s4.7: a call without a reply has no chunks, even if its binding names items. */
static void
test_call_only(void)
{
	struct weft_rpc_binding b = rig_move_binding;

	b.call_only = true;
	start(NULL);
	hand_greet(&rig, &ans[15]);
	obs.chunks = 0;
	/* The server answers nevertheless, because its binding differs. */
	CHECK_EQ(rig_move(&rig.c, 12000, 0, &b, &ans[0]), 0);
	while (fake_deliver(&rig.c.qp))
		fake_complete(&rig.c.qp);
	CHECK_EQ(obs.chunks, 0);
	CHECK_EQ(rig.c.rpc->stats.continued, 1);
	CHECK_EQ(fake_regions(), 0);
	rig_down(&rig);
}

/* Draft s6.3.6, s7.1.4: only the next part may follow a CALL_MIDDLE. A refused message has no
 * further effect. */
static void
test_behind_call_middle(void)
{
	uint8_t m[4096];
	struct rpcrdma_hdr h;
	uint32_t len;

	start(NULL);
	hand_greet(&rig, &ans[15]);
	hand_header(&h, 2, RDMA2_CALL_MIDDLE, 800);
	h.remaining_bytes = 48;
	len = weft_rpcrdma_encode(m, sizeof(m), &h);
	weft_put_be32(m + len, 800);
	fake_inject(&rig.s.qp, m, len + 4);
	CHECK_EQ(hand_error(&rig.s.qp, NULL), 0);
	hand_header(&h, 2, RDMA2_CALL_INLINE, 801);
	fake_inject(&rig.s.qp, m, hand_add(m, &h));
	CHECK_EQ(hand_error(&rig.s.qp, NULL), RDMA2_ERR_INVAL_CONT);
	CHECK_EQ(hand_error(&rig.s.qp, NULL), RDMA2_ERR_INVAL_CONT);
	/* The last part of the first call, which by itself would be a call. */
	hand_header(&h, 2, RDMA2_CALL_INLINE, 800);
	fake_inject(&rig.s.qp, m, hand_add(m, &h));
	CHECK_EQ(hand_error(&rig.s.qp, NULL), 0);
	CHECK_EQ(rig.s.served, 1);
	/* The next call is served normally. */
	hand_header(&h, 2, RDMA2_CALL_INLINE, 802);
	fake_inject(&rig.s.qp, m, hand_add(m, &h));
	CHECK_EQ(rig.s.served, 2);
	rig_down(&rig);
}

/* Draft s6.3.9. */
static void
test_behind_reply_middle(void)
{
	uint8_t m[4096];
	struct rpcrdma_hdr h;
	uint32_t len, xid;

	start(&(struct rig_opts){.client_serves = true});
	hand_greet(&rig, &ans[15]);
	CHECK_EQ(rig_add(&rig.c, 5, 6, &ans[0]), 0);
	xid = LIST_FIRST(&rig.c.rpc->calls)->xid;
	CHECK_EQ(hand_error(&rig.c.qp, NULL), -1);
	hand_header(&h, 2, RDMA2_REPLY_MIDDLE, xid);
	h.remaining_bytes = 24;
	len = weft_rpcrdma_encode(m, sizeof(m), &h);
	weft_put_be32(m + len, xid);
	fake_inject(&rig.c.qp, m, len + 4);
	hand_header(&h, 2, RDMA2_CALL_INLINE, 900);
	fake_inject(&rig.c.qp, m, hand_add(m, &h));
	CHECK_EQ(hand_error(&rig.c.qp, NULL), RDMA2_ERR_INVAL_CONT);
	CHECK_EQ(hand_error(&rig.c.qp, NULL), 0);
	CHECK_EQ(ans[0].status, WEFT_RPC_BAD_REPLY);
	CHECK_EQ(rig.c.served, 0);
	rig_down(&rig);
}

/* Draft s7.1.2, s7.1.3: a message refused for its version or type is not sent again. */
static void
test_not_again(void)
{
	static const uint32_t codes[] = {RDMA2_ERR_VERS_MISMATCH, RDMA2_ERR_INVAL_HTYPE};

	for (unsigned int i = 0; i < 2; i++) {
		uint8_t m[64];
		uint32_t xid, len;

		start(NULL);
		hand_greet(&rig, &ans[15]);
		CHECK_EQ(rig_move(&rig.c, 9000, 9000, &rig_move_binding, &ans[0]), 0);
		xid = LIST_FIRST(&rig.c.rpc->calls)->xid;
		CHECK_EQ(hand_error(&rig.c.qp, NULL), -1);
		len = rig_raw_error(m, xid, codes[i], 0, 0);
		weft_put_be32(m + 8, 1000);
		fake_inject(&rig.c.qp, m, len);
		CHECK_EQ(hand_error(&rig.c.qp, NULL), 0);
		while (fake_complete(&rig.c.qp))
			;
		CHECK_EQ(ans[0].status, WEFT_RPC_TRANSPORT);
		CHECK_EQ(rig.c.rpc->stats.retries, 0);
		CHECK_EQ(fake_regions(), 0);
		rig_down(&rig);
	}
}

/* Draft s7.3.2, s7.3.4, s7.3.5: the error names the resource that is too small, and the required
 * size. */
static void
test_resources(void)
{
	struct rpcrdma_segment segs[RPCRDMA_MAX_SEGS];
	struct rpcrdma_err e;
	struct rpcrdma_hdr h;
	uint8_t m[4096];
	uint32_t len;

	for (unsigned int i = 0; i < RPCRDMA_MAX_SEGS; i++)
		segs[i] = (struct rpcrdma_segment){.handle = 3 + i, .len_bytes = 50};
	start(NULL);
	hand_greet(&rig, &ans[15]);
	rig.s.qp.on_post = NULL; /* answers to calls that the auditor did not see */
	/* Too many Write chunks, all without segments. */
	hand_header(&h, 2, RDMA2_CALL_INLINE, 31);
	len = hand_add(m, &h);
	memmove(m + 28 + 17 * 8, m + 28, len - 28);
	for (unsigned int i = 0; i < 17; i++) {
		weft_put_be32(m + 24 + 8 * i, 1);
		weft_put_be32(m + 28 + 8 * i, 0);
	}
	weft_put_be32(m + 24 + 17 * 8, 0);
	fake_inject(&rig.s.qp, m, len + 17 * 8);
	CHECK_EQ(hand_error(&rig.s.qp, &e), RDMA2_ERR_WRITE_CHUNKS);
	CHECK_EQ(e.a, RPCRDMA_MAX_WRITE_CHUNKS);
	/* The second Write chunk is too small for the second result. */
	hand_header(&h, 2, RDMA2_CALL_INLINE, 32);
	CHECK_EQ(weft_rpcrdma_write_add(&h.chunks, segs, 4), 0);
	CHECK_EQ(weft_rpcrdma_write_add(&h.chunks, segs, 1), 0);
	len = weft_rpcrdma_encode(m, sizeof(m), &h);
	{
		/* seed, no data, a name of 61 octets, 200 wanted */
		uint8_t raw[256];

		rig_raw_add(raw, 32, 0, 0, 0);
		memcpy(m + len, raw + 32, 40);
		weft_put_be32(m + len + 20, RIG_MOVE);
		weft_put_be32(m + len + 40, 0);
		weft_put_be32(m + len + 44, 0);
		weft_put_be32(m + len + 48, 61);
		memset(m + len + 52, 0, 64);
		memset(m + len + 52, 'n', 61);
		weft_put_be32(m + len + 116, 200);
	}
	fake_inject(&rig.s.qp, m, len + 120);
	CHECK_EQ(hand_error(&rig.s.qp, &e), RDMA2_ERR_WRITE_RESOURCE);
	CHECK_EQ(e.a, 2);
	CHECK_EQ(e.b, 61);
	/* No room even for the header that returns the chunks. */
	fake_inject(&rig.s.qp, m, rig_raw_props(m, 33, 1024));
	rig.s.rpc->limits.segs = RPCRDMA_MAX_SEGS;
	hand_header(&h, 2, RDMA2_CALL_INLINE, 34);
	CHECK_EQ(weft_rpcrdma_write_add(&h.chunks, segs, RPCRDMA_MAX_SEGS), 0);
	len = hand_add(m, &h);
	CHECK_EQ(hand_error(&rig.s.qp, &e), 0);
	weft_put_be32(m + 8, 1000);
	fake_inject(&rig.s.qp, m, len);
	while ((len = (uint32_t)hand_error(&rig.s.qp, &e)) == (uint32_t)-1)
		;
	CHECK_EQ(len, RDMA2_ERR_REPLY_RESOURCE);
	CHECK_EQ(e.a, 28); /* six words and the sum */
	rig_down(&rig);
}

/* Draft s4.4.2, s4.5.2.4, RFC 8166 s3.4.2, s3.4.6.2, s6.1: only eligible items are moved,
 * without room for padding. */
static void
test_eligible(void)
{
	for (uint8_t vers = 1; vers <= 2; vers++) {
		const struct rpcrdma_chunks *c;

		start(&(struct rig_opts){.client_max = vers});
		hand_greet(&rig, &ans[15]);
		CHECK_EQ(rig_move(&rig.c, 20000, 100, NULL, &ans[0]), 0);
		for (unsigned int i = 0; i < OBS_CALLS; i++) {
			c = &obs.side[0].call[i].offer;
			if (obs.side[0].call[i].live)
				CHECK(c->n_reads == 0 && c->n_writes == 0 && c->call.n_segs > 0);
		}
		rig_settle(&rig);
		CHECK_EQ(ans[0].status, WEFT_RPC_OK);
		CHECK_EQ(rig_move(&rig.c, 20001, 5001, &rig_move_binding, &ans[1]), 0);
		for (unsigned int i = 0; i < OBS_CALLS; i++) {
			c = &obs.side[0].call[i].offer;
			if (!obs.side[0].call[i].live)
				continue;
			CHECK_EQ(c->reads[0].len_bytes, 20001);
			CHECK_EQ(c->writes[0].len_bytes, 5001);
		}
		rig_settle(&rig);
		CHECK_EQ(ans[1].status, WEFT_RPC_OK);
		CHECK_MSG(obs.fault == NULL, "%s", obs.fault);
		rig_down(&rig);
	}
}

/* RFC 8166 s3.3.3: before the first reply there is one call, and receives have 1024 octets at
 * least. */
static void
test_v1_first(void)
{
	const struct fake_msg *r;

	start(&(struct rig_opts){.client_max = 1, .client_inline = 1024, .server_inline = 1024});
	for (unsigned int i = 0; i < 5; i++)
		CHECK_EQ(rig_add(&rig.c, i, 1, &ans[i]), 0);
	CHECK_EQ(obs.side[0].sent, 1);
	STAILQ_FOREACH (r, &rig.c.qp.recvs, next)
		CHECK(r->len_bytes >= 1024);
	STAILQ_FOREACH (r, &rig.s.qp.recvs, next)
		CHECK(r->len_bytes >= 1024);
	rig_settle(&rig);
	for (unsigned int i = 0; i < 5; i++)
		CHECK_EQ(ans[i].status, WEFT_RPC_OK);
	CHECK_MSG(obs.fault == NULL, "%s", obs.fault);
	rig_down(&rig);
}

/* RFC 8166 s4.5, s4.5.2, s4.6.1: an invalid call is answered with ERR_CHUNK, an invalid reply is
 * not answered. */
static void
test_v1_faults(void)
{
	uint8_t m[4096];
	struct rpcrdma_hdr h;
	uint32_t len, xid;

	start(&(struct rig_opts){.client_max = 1});
	hand_greet(&rig, &ans[15]);
	hand_header(&h, 1, RDMA1_MSG, 50);
	len = hand_add(m, &h);
	weft_put_be32(m + 16, 7); /* start of the Read list: neither 0 nor 1 */
	fake_inject(&rig.s.qp, m, len);
	CHECK_EQ(hand_error(&rig.s.qp, NULL), RDMA1_ERR_CHUNK);
	weft_put_be32(m + 16, 0);
	weft_put_be32(m + 12, RDMA1_MSGP);
	memmove(m + 24, m + 16, len - 16);
	memset(m + 16, 0, 8);
	fake_inject(&rig.s.qp, m, len + 8);
	CHECK_EQ(hand_error(&rig.s.qp, NULL), RDMA1_ERR_CHUNK);
	CHECK_EQ(rig.s.served, 1);
	CHECK_EQ(rig_call_u32(&rig.c, RIG_ADD, 1, &ans[1]), 0); /* one argument of two */
	rig_settle(&rig);
	CHECK_EQ(ans[1].status, WEFT_RPC_GARBAGE_ARGS);

	/* At the requester: the reply is dropped, and the call that it names ends. */
	CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[0]), 0);
	xid = LIST_FIRST(&rig.c.rpc->calls)->xid;
	CHECK_EQ(hand_error(&rig.c.qp, NULL), -1);
	fake_inject(&rig.c.qp, m, len + 8);
	CHECK_EQ(hand_error(&rig.c.qp, NULL), 0);
	CHECK_EQ(ans[0].n, 0);
	hand_header(&h, 1, RDMA1_MSG, xid);
	len = hand_add(m, &h);
	weft_put_be32(m + 20, 9);
	fake_inject(&rig.c.qp, m, len);
	CHECK_EQ(hand_error(&rig.c.qp, NULL), 0);
	CHECK_EQ(ans[0].status, WEFT_RPC_BAD_REPLY);
	CHECK_EQ(rig.c.rpc->stats.errors_out, 0);
	rig_down(&rig);
}

/* RFC 8167 s4.1: the credits of a message that is neither a call nor a reply are ignored. */
static void
test_v1_no_direction(void)
{
	struct rpcrdma_hdr h;
	uint8_t m[4096];
	uint32_t len, before;

	start(&(struct rig_opts){.client_max = 1});
	hand_greet(&rig, &ans[15]);
	before = rig.c.rpc->credit1.granted;
	hand_header(&h, 1, RDMA1_MSG, 60);
	len = hand_add(m, &h);
	weft_put_be32(m + 28 + 4, 7);
	fake_inject(&rig.c.qp, m, len);
	CHECK_EQ(rig.c.rpc->credit1.granted, before);
	CHECK(before != 1000);
	CHECK_EQ(hand_error(&rig.c.qp, NULL), 0);
	rig_down(&rig);
}

/* ---- Lengths that a server returns ---- */

#define BACK_BYTES      5000
#define BACK_ROOM_BYTES 6000 /* room of the Reply chunk */

static unsigned int
back_sink(const void *args, struct weft_rpc_sink *sinks)
{
	(void)args;
	sinks[0] = (struct weft_rpc_sink){NULL, BACK_BYTES, 0};
	return 1;
}

static uint32_t
back_room(const void *args)
{
	(void)args;
	return BACK_ROOM_BYTES;
}

/* An accepted reply to a RIG_MOVE, without the octets that are moved. */
static uint32_t
back_reply(uint8_t *m, uint32_t xid, const struct rig_answer *a, uint32_t data_bytes, bool moved)
{
	const uint32_t head[] = {xid, 1, 0, 0, 0, 0, a->args.seed + 1, data_bytes};
	uint32_t name = (uint32_t)strlen(a->args.name), n = 0;

	memset(m, 0, BACK_ROOM_BYTES);
	for (; n < sizeof(head); n += 4)
		weft_put_be32(m + n, head[n / 4]);
	if (!moved) {
		rig_octets((char *)m + n, data_bytes, a->args.seed + 1);
		n += (data_bytes + 3) & ~3u;
	}
	weft_put_be32(m + n, name);
	memcpy(m + n + 4, a->args.name, name);
	n += 4 + ((name + 3) & ~3u);
	weft_put_be32(m + n, a->args.seed);
	return n + 4;
}

static void
back_comes(const void *m, uint32_t len_bytes, uint32_t over)
{
	fake_inject(&rig.c.qp, m, len_bytes);
	CHECK_EQ(hand_error(&rig.c.qp, NULL), 0);
	while (fake_complete(&rig.c.qp))
		;
	CHECK_EQ(ans[0].n, 1);
	CHECK_EQ(ans[0].status, over > 0 ? WEFT_RPC_BAD_REPLY : WEFT_RPC_OK);
	CHECK_EQ(fake_regions(), 0);
	rig_down(&rig);
}

/* A Write chunk that is returned longer than offered, with an opaque of that length: no octet
 * beyond it is read. */
static void
test_write_too_long(void)
{
	static const struct weft_rpc_binding b = {.sinks = back_sink};

	for (unsigned int i = 0; i < 6; i++) {
		static uint8_t m[2 * BACK_ROOM_BYTES];
		uint8_t vers = 1 + i / 3;
		uint32_t over = (const uint32_t[]){0, 1, 1000}[i % 3], len;
		struct rpcrdma_segment seg;
		struct rpcrdma_call *call;
		struct rpcrdma_hdr h;

		start(&(struct rig_opts){.client_max = vers});
		hand_greet(&rig, &ans[15]);
		CHECK_EQ(rig_move(&rig.c, 8, BACK_BYTES, &b, &ans[0]), 0);
		CHECK_EQ(hand_said(&rig.c.qp, &h), -1);
		CHECK_EQ(h.chunks.writes[0].len_bytes, BACK_BYTES);
		seg = *weft_rpcrdma_segs(&h.chunks, &h.chunks.writes[0]);
		seg.len_bytes += over;
		call = LIST_FIRST(&rig.c.rpc->calls);
		rig_octets(call->sink[0].addr, BACK_BYTES, ans[0].args.seed + 1);
		hand_header(&h, vers, vers == 2 ? (uint32_t)RDMA2_REPLY_INLINE : RDMA1_MSG,
		            call->xid);
		CHECK_EQ(weft_rpcrdma_write_add(&h.chunks, &seg, 1), 0);
		len = weft_rpcrdma_encode(m, sizeof(m), &h);
		len += back_reply(m + len, call->xid, &ans[0], BACK_BYTES + over, true);
		back_comes(m, len, over);
	}
}

/* The same for a Reply chunk that is returned longer than offered. */
static void
test_reply_too_long(void)
{
	static const struct weft_rpc_binding b = {.reply_bytes = back_room};

	for (unsigned int i = 0; i < 6; i++) {
		uint8_t vers = 1 + i / 3, m[256];
		uint32_t over = (const uint32_t[]){0, 1, 1000}[i % 3], len;
		struct rpcrdma_segment seg;
		struct rpcrdma_call *call;
		struct rpcrdma_hdr h;

		start(&(struct rig_opts){.client_max = vers});
		hand_greet(&rig, &ans[15]);
		CHECK_EQ(rig_move(&rig.c, 8, BACK_BYTES, &b, &ans[0]), 0);
		CHECK_EQ(hand_said(&rig.c.qp, &h), -1);
		CHECK_EQ(h.chunks.reply.len_bytes, BACK_ROOM_BYTES);
		seg = *weft_rpcrdma_segs(&h.chunks, &h.chunks.reply);
		call = LIST_FIRST(&rig.c.rpc->calls);
		len = back_reply(call->reply, call->xid, &ans[0], BACK_BYTES, false);
		seg.len_bytes = over > 0 ? BACK_ROOM_BYTES + over : len;
		hand_header(&h, vers, vers == 2 ? (uint32_t)RDMA2_REPLY_EXTERNAL : RDMA1_NOMSG,
		            call->xid);
		CHECK_EQ(weft_rpcrdma_reply_set(&h.chunks, &seg, 1), 0);
		back_comes(m, weft_rpcrdma_encode(m, sizeof(m), &h), over);
	}
}

WEFT_TEST_MAIN({"chunks of reverse calls", test_reverse_chunks},
               {"a long reverse answer", test_reverse_long},
               {"a reverse level unknown", test_reverse_unknown}, {"call-only", test_call_only},
               {"behind CALL_MIDDLE", test_behind_call_middle},
               {"behind REPLY_MIDDLE", test_behind_reply_middle}, {"not again", test_not_again},
               {"resources", test_resources}, {"eligible", test_eligible},
               {"a Write chunk returned too long", test_write_too_long},
               {"a Reply chunk returned too long", test_reply_too_long},
               {"version 1, first", test_v1_first}, {"version 1, faults", test_v1_faults},
               {"version 1, no direction", test_v1_no_direction})
