/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Rules of the draft and of RFC 8166 that whole conversations do not check. Each test fails
 * for an endpoint that breaks one rule and is otherwise correct.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpcrdma_call.h"
#include "rig.h"
#include "weft_test.h"
#include "xdr_arg.h"

static struct rig rig;
static struct rig_answer ans[16];

static void
start(const struct rig_opts *o)
{
	memset(ans, 0, sizeof(ans));
	rig_up(&rig, o);
}

static void
greet(void)
{
	CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[15]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[15].status, WEFT_RPC_OK);
}

/* Take the next message that is not an RDMA2_GRANT. Returns false if there is none. */
static bool
heard(struct weft_qp *qp, struct rpcrdma_hdr *h, uint8_t *out, uint32_t *len_bytes)
{
	int n;

	while ((n = fake_take(qp, out, 65536)) >= 0) {
		fake_complete(qp);
		CHECK_EQ(weft_rpcrdma_decode(out, (uint32_t)n, NULL, h), RPCRDMA_OK);
		*len_bytes = (uint32_t)n;
		if (h->p.vers != 2 || h->p.htype != RDMA2_GRANT)
			return true;
	}
	return false;
}

/* The code of the next error message. 0: no message; -1: another message. */
static int
said(struct weft_qp *qp)
{
	static uint8_t out[65536];
	struct rpcrdma_hdr h;
	uint32_t len;

	if (!heard(qp, &h, out, &len))
		return 0;
	return h.p.htype == RDMA2_ERROR ? (int)h.err.code : -1;
}

/* ---- Special replies (draft s4.5.3, s6.3.8, s6.6.3) ---- */

static const struct weft_rpc_binding by_reply = {.reply_bytes = rig_reply_40000};

/* Both directions: a reply that fits the chunk is written there, and no part of it elsewhere. */
static void
test_special(void)
{
	for (unsigned int reverse = 0; reverse < 2; reverse++) {
		struct rig_side *from = reverse ? &rig.s : &rig.c, *to = reverse ? &rig.c : &rig.s;

		start(&(struct rig_opts){.client_serves = true});
		greet();
		for (uint32_t back = 5000; back < 5008; back++) {
			const struct weft_rpc_stats *f = weft_rpc_stats(from->rpc);
			uint64_t special = f->special, continued = f->continued, writes;

			memset(&ans[0], 0, sizeof(ans[0]));
			writes = to->qp.writes;
			CHECK_EQ(rig_move(from, 4, back, &by_reply, &ans[0]), 0);
			rig_settle(&rig);
			CHECK_EQ(ans[0].n, 1);
			CHECK_EQ(ans[0].status, WEFT_RPC_OK);
			CHECK_EQ(f->special, special + 1);
			CHECK_EQ(f->continued, continued);
			CHECK_EQ(to->qp.writes, writes + 1);
		}
		rig_down(&rig);
	}
}

/* The header has the xid of the message in the chunk. The chunk holds the whole message with its
 * padding. */
static void
test_external(void)
{
	static uint8_t out[65536];

	for (uint32_t back = 5000; back < 5004; back++) {
		struct rpcrdma_call *call;
		struct rpcrdma_hdr h;
		uint32_t len, fill = (4 - back % 4) % 4, at;

		start(NULL);
		greet();
		CHECK_EQ(rig_move(&rig.c, 4, back, &by_reply, &ans[0]), 0);
		call = LIST_FIRST(&rig.c.rpc->calls);
		while (fake_deliver(&rig.c.qp))
			fake_complete(&rig.c.qp);
		while (rig.s.qp.writes == 0 || call->reply == NULL ||
		       weft_get_be32(call->reply) == 0)
			CHECK(fake_deliver(&rig.s.qp));
		CHECK(heard(&rig.s.qp, &h, out, &len));
		CHECK_EQ(h.p.htype, RDMA2_REPLY_EXTERNAL);
		CHECK_EQ(h.p.xid, call->xid);
		CHECK_EQ(len, h.len_bytes); /* no octet follows the header */
		CHECK_EQ(weft_get_be32(call->reply), call->xid);
		/* the RPC header of six words, the seed, the data with padding, the name, one
		 * word */
		at = 24 + 4 + 4 + back + fill;
		CHECK_EQ(weft_get_be32(call->reply + 28), back);
		CHECK_EQ(h.chunks.reply.len_bytes % 4, 0);
		CHECK_EQ(h.chunks.reply.len_bytes,
		         at + 4 + ((weft_get_be32(call->reply + at) + 3) & ~3u) + 4);
		fake_break(&rig.c.qp);
		rig_down(&rig);
	}
}

/* ---- Properties (draft s5.2, s7.2.2) ---- */

static uint32_t most_segs, longest_seg;

static void
look(struct weft_qp *qp, const void *buf, uint32_t len_bytes)
{
	struct rpcrdma_hdr h;

	(void)qp;
	if (weft_rpcrdma_decode(buf, len_bytes, NULL, &h) != RPCRDMA_OK ||
	    (h.p.htype != RDMA2_CALL_INLINE && h.p.htype != RDMA2_CALL_EXTERNAL))
		return;
	if (h.chunks.n_segs > most_segs)
		most_segs = h.chunks.n_segs;
	for (unsigned int i = 0; i < h.chunks.n_segs; i++)
		if (h.chunks.segs[i].len_bytes > longest_seg)
			longest_seg = h.chunks.segs[i].len_bytes;
}

/* s5.2.3: in the first call after the exchange no segment is longer than the peer accepts. */
static void
test_segment_size(void)
{
	for (unsigned int how = 0; how < 3; how++) {
		start(&(struct rig_opts){.server_segment_bytes = 8192});
		most_segs = longest_seg = 0;
		rig.c.qp.on_post = look;
		CHECK_EQ(rig_move(&rig.c, how == 1 ? 4 : 60000, how == 0 ? 4 : 60000,
		                  how == 2 ? &by_reply : &rig_move_binding, &ans[0]),
		         0);
		rig_settle(&rig);
		CHECK_EQ(ans[0].n, 1);
		CHECK_EQ(ans[0].status, WEFT_RPC_OK);
		CHECK(most_segs > 5);
		CHECK_EQ(longest_seg, 8192);
		rig_down(&rig);
	}
}

/* s5.2.4: nor are there more segments than the peer accepts. */
static void
test_segment_count(void)
{
	const struct weft_rpc_binding b = {.args = rig_move_binding.args};

	start(&(struct rig_opts){.client_segment_bytes = 4096, .server_segments = 6});
	most_segs = longest_seg = 0;
	rig.c.qp.on_post = look;
	CHECK_EQ(rig_move(&rig.c, 16000, 4, &b, &ans[0]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[0].status, WEFT_RPC_OK);
	CHECK_EQ(most_segs, 5); /* four, and the segment of the name */
	CHECK_EQ(rig_move(&rig.c, 40000, 4, &b, &ans[1]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[1].n, 1);
	CHECK(most_segs <= 6);
	CHECK_EQ(rig.s.rpc->stats.over_limit, 0);
	rig_down(&rig);
}

/* One of two properties is invalid: the other one is not applied either, in either order. */
static void
test_none_applied(void)
{
	for (unsigned int bad = 0; bad < 2; bad++) {
		/* FINAL with RBSIZ 2048 and RSSIZ 65536. */
		const uint32_t words[] = {9,
		                          2,
		                          200,
		                          RDMA2_CONNPROP_FINAL,
		                          2,
		                          RDMA2_PROPID_RBSIZ,
		                          4,
		                          2048,
		                          RDMA2_PROPID_RSSIZ,
		                          4,
		                          65536};
		uint8_t m[sizeof(words)];

		start(NULL);
		for (unsigned int i = 0; i < sizeof(words) / 4; i++)
			weft_put_be32(m + 4 * i, words[i]);
		weft_put_be32(m + 24 + 12 * bad, 3);
		fake_inject(&rig.s.qp, m, sizeof(m));
		CHECK_EQ(said(&rig.s.qp), RDMA2_ERR_BAD_PROPVAL);
		CHECK_EQ(rig.s.rpc->peer.recv_bytes, 4096);
		CHECK_EQ(rig.s.rpc->peer.seg_bytes, 1048576);
		weft_put_be32(m + 24 + 12 * bad, 4);
		fake_inject(&rig.s.qp, m, sizeof(m));
		CHECK_EQ(said(&rig.s.qp), -1);
		CHECK_EQ(rig.s.rpc->peer.recv_bytes, 2048);
		CHECK_EQ(rig.s.rpc->peer.seg_bytes, 65536);
		rig_down(&rig);
	}
}

static int
never(void *user, const uint8_t *in, uint32_t n, uint8_t *out, uint32_t *out_bytes)
{
	(void)user;
	(void)in;
	(void)n;
	(void)out;
	(void)out_bytes;
	return -EACCES;
}

/* s5.2.6, s7.2.2: a peer that fails authentication gets BAD_PROPVAL, and the connection is
 * closed. */
static void
test_refused(void)
{
	static const struct weft_rpc_auth s = {never, true};
	struct rpcrdma_hdr h;
	uint8_t m[256];

	start(&(struct rig_opts){.server_auth = &s});
	weft_rpcrdma_hdr_init(&h, RPCRDMA_V2, RDMA2_CONNPROP_MIDDLE, 9);
	h.p.credit = 200;
	h.props.present = 1u << RDMA2_PROPID_HOSTAUTH;
	h.props.hostauth = (struct rpcrdma_opaque){(const uint8_t *)"me", 2};
	fake_inject(&rig.s.qp, m, weft_rpcrdma_encode(m, sizeof(m), &h));
	CHECK_EQ(said(&rig.s.qp), RDMA2_ERR_BAD_PROPVAL);
	CHECK_EQ(rig.s.qp.disconnects, 1);
	CHECK_EQ(rig.s.rpc->stats.auth_refused, 1);
	fake_break(&rig.c.qp);
	rig_down(&rig);
}

/* ---- Calls that are not executed twice (RFC 5531 s9, draft s7.3.4, s7.3.5) ---- */

/* An error after the procedure ran ends a call that must not be repeated. Other calls are
 * repeated. */
static void
test_once(void)
{
	static const struct {
		uint32_t code, a, b;
		bool ran;
	} v[] = {
	        {RDMA2_ERR_REPLY_RESOURCE, 60000, 0, true},
	        {RDMA2_ERR_WRITE_RESOURCE, 1, 60000, true},
	        {RDMA2_ERR_READ_CHUNKS, 0, 0, false},
	        {RDMA2_ERR_WRITE_CHUNKS, 0, 0, false},
	};

	for (unsigned int i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		for (unsigned int once = 0; once < 2; once++) {
			static char data[9000];
			struct rig_move args = {.data_len = sizeof(data),
			                        .data = data,
			                        .name = (char[]){"name"},
			                        .want = 9000};
			struct weft_rpc_call_attr a = {.size = sizeof(a),
			                               .prog = RIG_PROG,
			                               .vers = 1,
			                               .proc = RIG_MOVE,
			                               .xdr_args = rig_xdr_move,
			                               .args = &args,
			                               .xdr_res = rig_xdr_move,
			                               .res_bytes = sizeof(struct rig_move),
			                               .binding = &rig_move_binding,
			                               .fn = rig_on_none,
			                               .arg = &ans[0],
			                               .once = once};
			bool again = !(once && v[i].ran);
			uint8_t m[64];
			uint32_t xid, len;

			start(NULL);
			greet();
			ans[0].status = WEFT_RPC_OK;
			CHECK_EQ(weft_rpc_call_with(rig.c.rpc, &a), 0);
			xid = LIST_FIRST(&rig.c.rpc->calls)->xid;
			CHECK_EQ(said(&rig.c.qp), -1);
			len = rig_raw_error(m, xid, v[i].code, v[i].a, v[i].b);
			weft_put_be32(m + 8, 1000);
			fake_inject(&rig.c.qp, m, len);
			while (said(&rig.c.qp) != 0)
				;
			while (fake_complete(&rig.c.qp))
				;
			CHECK_EQ(rig.c.rpc->stats.retries, again);
			CHECK_EQ(ans[0].n, !again);
			if (!again)
				CHECK_EQ(ans[0].status, WEFT_RPC_TOO_LONG);
			fake_break(&rig.c.qp);
			rig_down(&rig);
		}
	}
}

/* The same caller, xid, procedure and length with other arguments is another call. */
static void
test_other_arguments(void)
{
	static const uint32_t arg[] = {7, 9, 7};
	struct weft_rpc_drc *drc;

	CHECK_EQ(weft_rpc_drc_create(64, &drc), 0);
	for (unsigned int i = 0; i < 3; i++) {
		struct weft_rpc_call_attr a = {.size = sizeof(a),
		                               .prog = RIG_PROG,
		                               .vers = 1,
		                               .proc = RIG_LATER,
		                               .xdr_args = rig_xdr_u32,
		                               .args = &arg[i],
		                               .xdr_res = rig_xdr_u32,
		                               .res_bytes = sizeof(uint32_t),
		                               .fn = rig_on_sum,
		                               .arg = &ans[i],
		                               .xid = 0x4711};

		rig_up(&rig, &(struct rig_opts){.drc = drc});
		CHECK_EQ(weft_rpc_set_peer_name(rig.s.rpc, "a", 1), 0);
		memset(&ans[i], 0, sizeof(ans[i]));
		CHECK_EQ(weft_rpc_call_with(rig.c.rpc, &a), 0);
		rig_settle(&rig);
		CHECK_EQ(rig.s.served, i < 2);
		if (rig.s.later != NULL)
			weft_rpc_done(rig.s.later, WEFT_RPC_OK);
		rig_settle(&rig);
		CHECK_EQ(ans[i].n, 1);
		CHECK_EQ(ans[i].sum, arg[i] + 1);
		CHECK_EQ(weft_rpc_stats(rig.s.rpc)->replayed, i == 2);
		rig_down(&rig);
	}
	weft_rpc_drc_destroy(drc);
}

/* ---- Unrequested chunks (draft s7.2) ---- */

static char extra[5000];

/* The arguments of RIG_MOVE, followed by data that the server does not know. */
static bool_t
xdr_move_and_more(XDR *x, ...)
{
	struct rig_move *m;

	XDR_ARG(x, m);
	return rig_xdr_move(x, m) && xdr_opaque(x, extra, sizeof(extra));
}

static unsigned int
extra_item(const void *args, struct weft_rpc_item *items)
{
	(void)args;
	items[0] = (struct weft_rpc_item){extra, sizeof(extra)};
	return 1;
}

static void
test_leftover_chunk(void)
{
	static const struct weft_rpc_binding b = {.args = extra_item};

	for (uint8_t vers = 1; vers <= 2; vers++) {
		struct rig_move args = {
		        .data_len = 1, .data = (char[]){'\0'}, .name = (char[]){"n"}};
		struct weft_rpc_call_attr a = {.size = sizeof(a),
		                               .prog = RIG_PROG,
		                               .vers = 1,
		                               .proc = RIG_MOVE,
		                               .xdr_args = xdr_move_and_more,
		                               .args = &args,
		                               .binding = &b,
		                               .fn = rig_on_none,
		                               .arg = &ans[0]};

		start(&(struct rig_opts){.client_max = vers});
		greet();
		rig.s.served = 0;
		CHECK_EQ(weft_rpc_call_with(rig.c.rpc, &a), 0);
		rig_settle(&rig);
		CHECK_EQ(rig.s.rpc->stats.read_chunks, 1);
		CHECK_EQ(ans[0].n, 1);
		CHECK_EQ(ans[0].status, WEFT_RPC_GARBAGE_ARGS);
		CHECK_EQ(rig.s.served, 0);
		rig_down(&rig);
	}
}

/* ---- After REPLY_MIDDLE (draft s6.3.9) ---- */

static void
test_behind_reply_middle(void)
{
	static const uint32_t intruder[] = {RDMA2_CALL_INLINE, RDMA2_CALL_MIDDLE,
	                                    RDMA2_CALL_EXTERNAL, RDMA2_CONNPROP_FINAL};

	for (unsigned int i = 0; i < sizeof(intruder) / sizeof(intruder[0]); i++) {
		const struct rpcrdma_segment seg = {.handle = 9, .len_bytes = 48};
		uint8_t m[4096], raw[256];
		struct rpcrdma_hdr h;
		uint32_t len, xid;

		/* Properties are allowed if none have been sent before. */
		start(&(struct rig_opts){.client_serves = intruder[i] != RDMA2_CONNPROP_FINAL});
		greet();
		CHECK(intruder[i] != RDMA2_CONNPROP_FINAL ||
		      rig.c.rpc->props_in == RPCRDMA_PROPS_NONE);
		CHECK_EQ(rig_add(&rig.c, 5, 6, &ans[0]), 0);
		xid = LIST_FIRST(&rig.c.rpc->calls)->xid;
		CHECK_EQ(said(&rig.c.qp), -1);
		weft_rpcrdma_hdr_init(&h, 2, RDMA2_REPLY_MIDDLE, xid);
		h.p.credit = 1000;
		h.remaining_bytes = 24;
		len = weft_rpcrdma_encode(m, sizeof(m), &h);
		weft_put_be32(m + len, xid);
		fake_inject(&rig.c.qp, m, len + 4);
		weft_rpcrdma_hdr_init(&h, 2, intruder[i], 900);
		h.p.credit = 1000;
		h.remaining_bytes = intruder[i] == RDMA2_CALL_MIDDLE ? 40 : 0;
		if (intruder[i] == RDMA2_CALL_EXTERNAL)
			CHECK_EQ(weft_rpcrdma_call_set(&h.chunks, &seg, 1), 0);
		len = weft_rpcrdma_encode(m, sizeof(m), &h);
		rig_raw_add(raw, 900, 0, 1, 2);
		memcpy(m + len, raw + 32, 48);
		fake_inject(&rig.c.qp, m, len + (intruder[i] == RDMA2_CONNPROP_FINAL ? 0 : 48));
		CHECK_EQ(said(&rig.c.qp), RDMA2_ERR_INVAL_CONT);
		CHECK_EQ(ans[0].status, WEFT_RPC_BAD_REPLY);
		CHECK_EQ(rig.c.served, 0);
		CHECK_EQ(rig.c.qp.reads, 0);
		CHECK(rig.c.rpc->props_in == RPCRDMA_PROPS_NONE ||
		      intruder[i] != RDMA2_CONNPROP_FINAL);
		fake_break(&rig.c.qp);
		rig_down(&rig);
	}
}

/* ---- Room for the reply (RFC 8166 s4.3.3) ---- */

#define ROOM_SEG_BYTES   1024
#define ROOM_REPLY_BYTES (24 + 4 + 4) /* the RPC header, and the lengths of both results */

struct room {
	u_int n;
	char *data, *text;
};

static struct room room; /* the results: octets in a Write chunk, text in the reply */
static bool room_reply;  /* whether the call offered a Reply chunk */

static bool_t
xdr_room(XDR *x, ...)
{
	struct room *r;

	XDR_ARG(x, r);
	return xdr_bytes(x, &r->data, &r->n, 1u << 20) && xdr_string(x, &r->text, 4096);
}

static unsigned int
room_results(const void *res, struct weft_rpc_item *items)
{
	const struct room *r = res;

	items[0] = (struct weft_rpc_item){r->data, r->n};
	return 1;
}

static unsigned int
room_sinks(const void *args, struct weft_rpc_sink *sinks)
{
	(void)args;
	sinks[0] = (struct weft_rpc_sink){NULL, room.n, 0};
	return 1;
}

static uint32_t
room_bytes(const void *args)
{
	(void)args;
	return ROOM_REPLY_BYTES + (uint32_t)strlen(room.text);
}

static enum weft_rpc_status
serve_room(void *user, void *args, void *res)
{
	struct room *r = res;

	(void)user;
	(void)args;
	r->n = room.n;
	r->data = calloc(1, room.n);
	r->text = strdup(room.text);
	return WEFT_RPC_OK;
}

static void
room_look(struct weft_qp *qp, const void *buf, uint32_t len_bytes)
{
	struct rpcrdma_hdr h;

	(void)qp;
	if (weft_rpcrdma_decode(buf, len_bytes, NULL, &h) == RPCRDMA_OK &&
	    h.p.htype == (h.p.vers == RPCRDMA_V2 ? (uint32_t)RDMA2_CALL_INLINE : RDMA1_MSG))
		room_reply = h.chunks.has_reply;
}

/* The longest reply is as long as the space after the header that returns the Write chunk, or
 * one word longer. The call offers a Reply chunk exactly in the second case. */
static void
test_room(void)
{
	static const struct weft_rpc_binding b = {
	        .sinks = room_sinks, .results = room_results, .reply_bytes = room_bytes};
	static const struct weft_rpc_proc procs[] = {[1] = {rig_xdr_u32, xdr_room, sizeof(uint32_t),
	                                                    sizeof(struct room), serve_room,
	                                                    .binding = &b}};
	static const struct weft_rpc_program prog = {RIG_PROG, 1, procs, 2};
	static const struct weft_rpc_program *const programs[] = {&prog, NULL};
	static const uint32_t segs[] = {1, 10, 16, 31};
	static char text[1024];

	for (unsigned int i = 0; i < 16; i++) {
		uint8_t vers = 1 + i / 8;
		uint32_t n = segs[i % 4], word = i / 4 % 2 * 4;
		/* fixed part, ends of the lists, and the chunk with its two words */
		uint32_t hdr = 16 + (vers == 1 ? 12 : 4) + 8 + 16 * n;
		struct weft_rpc_call_attr a = {.size = sizeof(a),
		                               .prog = RIG_PROG,
		                               .vers = 1,
		                               .proc = 1,
		                               .xdr_args = rig_xdr_u32,
		                               .args = &(uint32_t){1},
		                               .xdr_res = xdr_room,
		                               .res_bytes = sizeof(struct room),
		                               .binding = &b,
		                               .fn = rig_on_none,
		                               .arg = &ans[0]};

		start(&(struct rig_opts){.programs = programs,
		                         .client_max = vers,
		                         .client_inline = 1024,
		                         .server_inline = 1024,
		                         .client_segment_bytes = ROOM_SEG_BYTES,
		                         .server_segments = 32});
		memset(text, 'x', sizeof(text));
		text[1024 - hdr - ROOM_REPLY_BYTES + word] = 0;
		room = (struct room){.n = n * ROOM_SEG_BYTES, .text = text};
		room_reply = false;
		rig.c.qp.on_post = room_look;
		ans[0].status = WEFT_RPC_CONNLOST;
		CHECK_EQ(weft_rpc_call_with(rig.c.rpc, &a), 0);
		rig_settle(&rig);
		CHECK_EQ(ans[0].n, 1);
		CHECK_MSG(ans[0].status == WEFT_RPC_OK, "version %u, %u segments, %u more: %s",
		          vers, n, word, weft_rpc_status_str(ans[0].status));
		CHECK_MSG(room_reply == (word > 0), "version %u, %u segments, %u more", vers, n,
		          word);
		CHECK_EQ(rig.s.rpc->stats.continued, 0);
		rig_down(&rig);
	}
}

/* ---- Version 1 ---- */

static unsigned int seen;

static void
look_grant(struct weft_qp *qp, const void *buf, uint32_t len_bytes)
{
	struct rpcrdma_hdr h;

	(void)qp;
	CHECK_EQ(weft_rpcrdma_decode(buf, len_bytes, NULL, &h), RPCRDMA_OK);
	CHECK_EQ(h.p.vers, 1);
	CHECK(h.p.credit > 0);
	seen++;
}

/* RFC 8166 s3.3.1: neither the granted nor the requested credits are zero, however few the
 * receives. This holds for errors, too. */
static void
test_v1_grant(void)
{
	for (uint32_t credits = 2; credits < 6; credits++) {
		uint8_t m[64];

		start(&(struct rig_opts){
		        .client_max = 1, .client_credits = credits, .server_credits = credits});
		seen = 0;
		rig.c.qp.on_post = rig.s.qp.on_post = look_grant;
		for (unsigned int i = 0; i < 10; i++)
			CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[i]), 0);
		CHECK_EQ(rig_call_u32(&rig.c, RIG_HOLE, 1, &ans[10]), 0);
		rig_settle(&rig);
		CHECK_EQ(seen, 22);
		for (unsigned int i = 0; i < 10; i++)
			CHECK_EQ(ans[i].status, WEFT_RPC_OK);
		memset(m, 0, sizeof(m)); /* RDMA_MSG with an invalid Read list */
		m[3] = 99;
		m[7] = 1;
		m[11] = 1;
		m[19] = 7;
		fake_inject(&rig.s.qp, m, 56);
		CHECK_EQ(seen, 23);
		CHECK_EQ(said(&rig.s.qp), RDMA1_ERR_CHUNK);
		rig_down(&rig);
	}
}

/* RFC 8166 s4.2.4: a responder of version 1 does not answer an error. */
static void
test_v1_error(void)
{
	start(&(struct rig_opts){.client_max = 1});
	greet();
	for (uint32_t code = 0; code < 4; code++) {
		const uint32_t words[] = {50, 1, 32, RDMA1_ERROR, code, 1, 1};
		uint64_t out = rig.s.rpc->stats.errors_out;
		uint8_t m[sizeof(words)];

		for (unsigned int i = 0; i < sizeof(words) / 4; i++)
			weft_put_be32(m + 4 * i, words[i]);
		for (uint32_t len = 16; len <= sizeof(m); len += 4) {
			fake_inject(&rig.s.qp, m, len);
			CHECK_EQ(said(&rig.s.qp), 0);
		}
		CHECK_EQ(rig.s.rpc->stats.errors_out, out);
	}
	CHECK_EQ(rig.s.served, 1);
	CHECK_EQ(rig.s.qp.disconnects, 0);
	greet();
	rig_down(&rig);
}

WEFT_TEST_MAIN({"special replies", test_special}, {"REPLY_EXTERNAL", test_external},
               {"segment size", test_segment_size}, {"segment count", test_segment_count},
               {"none of the properties", test_none_applied},
               {"refused by BAD_PROPVAL", test_refused}, {"once", test_once},
               {"other arguments", test_other_arguments},
               {"a chunk left over", test_leftover_chunk},
               {"behind REPLY_MIDDLE", test_behind_reply_middle}, {"room for the reply", test_room},
               {"version 1, grants", test_v1_grant},
               {"version 1, errors to a responder", test_v1_error})
