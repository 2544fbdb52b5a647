/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file One RPC-over-RDMA endpoint, client or server, of either version, against a peer controlled
 * by the input: headers with handles, xids and lengths that are in use or not, raw octets, Reads,
 * Writes and invalidations. Its user makes calls, answers late, waits, and loses the connection.
 *
 * Every call ends once. Memory is accessed only while it is allocated (the sanitizer checks that).
 * The number of waiting messages is limited, and in the end nothing is left.
 */

#include <string.h>

#include "fuzz.h"

#include "blob.h"
#include "fake_verbs.h"
#include "rpcrdma_priv.h"
#include "xdr_arg.h"

#define FUZZ_PROG  0x20000099
#define FUZZ_OPS   300
#define FUZZ_CALLS 64
#define FUZZ_LATER 8
#define FUZZ_BLOB  20000

struct call {
	struct blob args;
	bool used, ended;
};

static struct weft_worker worker;
static struct weft_qp qp, peer; /* the endpoint's, and the peer's, which the input controls */
static struct weft_rpc *rpc;
static struct call call[FUZZ_CALLS];
static struct weft_rpc_req *later[FUZZ_LATER];
static uint32_t xids[8], handles[16];
static unsigned int nxids, nhandles;

static bool_t
xdr_blob(XDR *x, ...)
{
	struct blob *b;

	XDR_ARG(x, b);
	return xdr_u_int(x, &b->want) && xdr_bytes(x, &b->p, &b->len_bytes, FUZZ_BLOB);
}

static uint32_t
blob_reply(const void *p)
{
	return ((const struct blob *)p)->want + 64;
}

static const struct weft_rpc_binding bindings[] = {
        {.args = blob_items, .sinks = blob_sinks, .results = blob_items},
        {.args = blob_items, .sinks = blob_sinks, .results = blob_items, .reply_bytes = blob_reply},
        {.reply_bytes = blob_reply},
        {.call_only = true},
};

static void
blob_answer(const struct blob *in, struct blob *out)
{
	out->len_bytes = in->want % (FUZZ_BLOB + 1);
	out->p = malloc(out->len_bytes + 1);
	memset(out->p, 'r', out->len_bytes);
}

static enum weft_rpc_status
serve_blob(void *user, void *args, void *res)
{
	(void)user;
	blob_answer(args, res);
	return WEFT_RPC_OK;
}

static void
serve_later(void *user, struct weft_rpc_req *req, void *args, void *res)
{
	(void)user;
	blob_answer(args, res);
	for (unsigned int i = 0; i < FUZZ_LATER; i++) {
		if (later[i] == NULL) {
			later[i] = req;
			return;
		}
	}
	weft_rpc_done(req, WEFT_RPC_SYSTEM_ERR);
}

#define BLOB_PROC xdr_blob, xdr_blob, sizeof(struct blob), sizeof(struct blob)

static const struct weft_rpc_proc procs[] = {
        [1] = {BLOB_PROC, serve_blob, .binding = &bindings[0]},
        [2] = {BLOB_PROC, .serve_later = serve_later, .binding = &bindings[0], .once = true},
        [3] = {BLOB_PROC, serve_blob, .binding = &bindings[3]},
};
static const struct weft_rpc_program program = {FUZZ_PROG, 1, procs, 4};
static const struct weft_rpc_program *const programs[] = {&program, NULL};

static int
auth_step(void *user, const uint8_t *in, uint32_t n, uint8_t *out, uint32_t *out_bytes)
{
	(void)user;
	if (in != NULL && n > 2)
		return in[0] & 1 ? -1 : 1;
	memset(out, 7, 300);
	*out_bytes = 300;
	return 0;
}

/* ---- The wire ---- */

/* What a peer would learn from the message. */
static void
on_post(struct weft_qp *from, const void *buf, uint32_t len_bytes)
{
	struct rpcrdma_hdr h;

	if (from != &qp)
		return;
	FUZZ_CHECK(weft_rpcrdma_decode(buf, len_bytes, NULL, &h) != RPCRDMA_SHORT);
	FUZZ_CHECK(len_bytes <= rpc->recv_bytes);
	xids[nxids++ % 8] = h.p.xid;
	if (weft_rpcrdma_decode(buf, len_bytes, NULL, &h) != RPCRDMA_OK ||
	    weft_rpcrdma_dir(&h, buf, len_bytes) != RPCRDMA_DIR_CALL ||
	    h.p.htype == RDMA2_CALL_MIDDLE)
		return;
	for (unsigned int i = 0; i < h.chunks.n_segs; i++)
		handles[nhandles++ % 16] = h.chunks.segs[i].handle;
}

static void
on_wc(void *user, const struct weft_wc *wc)
{
	if (user != NULL && rpc != NULL)
		FUZZ_CHECK(weft_rpc_wc(rpc, wc));
}

static void
move(unsigned int how)
{
	for (unsigned int i = 0; i < 1 + how / 16; i++) {
		fake_deliver(how & 1 ? &peer : &qp);
		if (how & 2)
			fake_complete(how & 1 ? &peer : &qp);
	}
	while (how & 4 && (fake_deliver(&qp) || fake_complete(&qp)))
		;
}

/* ---- The user ---- */

static void
on_answer(void *arg, enum weft_rpc_status status, void *res)
{
	struct call *c = arg;

	FUZZ_CHECK(!c->ended);
	FUZZ_CHECK(res == NULL || status == WEFT_RPC_OK);
	c->ended = true;
	free(c->args.p);
	c->args.p = NULL;
}

static void
user_calls(struct fuzz_in *in)
{
	uint8_t how = fuzz_u8(in);
	struct weft_rpc_call_attr a = {
	        .size = sizeof(a),
	        .prog = FUZZ_PROG,
	        .vers = 1,
	        .proc = how & 4 ? 3 : 1,
	        .xdr_args = xdr_blob,
	        .xdr_res = how & 4 ? NULL : xdr_blob,
	        .res_bytes = sizeof(struct blob),
	        .binding = how & 4   ? &bindings[3]
	                   : how & 8 ? NULL
	                             : &bindings[how % 3],
	        .once = how & 16,
	        .timeout_us = how & 32 ? 1000 : 0,
	        .fn = on_answer,
	};

	for (unsigned int i = 0; i < FUZZ_CALLS; i++) {
		struct call *c = &call[i];

		if (c->used)
			continue;
		c->used = true;
		c->args.want = fuzz_u16(in) % FUZZ_BLOB;
		c->args.len_bytes = fuzz_u16(in) % FUZZ_BLOB;
		c->args.p = malloc(c->args.len_bytes + 1);
		memset(c->args.p, 'a', c->args.len_bytes + 1);
		a.args = &c->args;
		a.arg = c;
		if (weft_rpc_call_with(rpc, &a) != 0) {
			free(c->args.p);
			memset(c, 0, sizeof(*c));
		}
		return;
	}
}

static void
user_answers(unsigned int i)
{
	struct weft_rpc_req *req = later[i % FUZZ_LATER];

	later[i % FUZZ_LATER] = NULL;
	if (req != NULL)
		weft_rpc_done(req, i & 8 ? WEFT_RPC_SYSTEM_ERR : WEFT_RPC_OK);
}

/* ---- The peer ---- */

static uint32_t
some_handle(struct fuzz_in *in)
{
	uint8_t b = fuzz_u8(in);

	return b & 0x80 ? b : handles[b % 16];
}

static void
some_segments(struct fuzz_in *in, struct rpcrdma_segment *s, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		uint8_t b = fuzz_u8(in);

		s[i].handle = some_handle(in);
		s[i].len_bytes = b & 0x80 ? UINT32_MAX - (b & 7) : (uint32_t)(b & 0x7f) * 64;
		s[i].offset = b & 0x40 ? fuzz_u16(in) : 0;
	}
}

static void
inject(const uint8_t *m, uint32_t len)
{
	struct fake_msg *r = STAILQ_FIRST(&qp.recvs);

	if (r != NULL && len <= r->len_bytes && !qp.dead)
		fake_inject(&qp, m, len);
}

/* A header of valid form, followed by an RPC message. */
static void
peer_sends(struct fuzz_in *in)
{
	static uint8_t m[8192];
	uint8_t what = fuzz_u8(in), lists = fuzz_u8(in), b = fuzz_u8(in);
	struct rpcrdma_segment segs[4];
	const uint8_t *rest;
	struct rpcrdma_hdr h;
	uint32_t len, xid = b & 0x80 ? b & 0x1f : xids[b % 8];
	size_t n;

	weft_rpcrdma_hdr_init(&h, what & 0x80 ? 1 : 2, what & 0x80 ? what % 6 : 4 + what % 11, xid);
	h.p.credit = fuzz_u8(in);
	if (b & 0x40)
		h.p.credit += rpc->credit.sent;
	if (h.p.htype == RDMA2_ERROR) {
		h.err = (struct rpcrdma_err){fuzz_u8(in) % 14, fuzz_u16(in), fuzz_u16(in)};
	} else if (h.p.vers == 2 &&
	           (h.p.htype == RDMA2_CONNPROP_MIDDLE || h.p.htype == RDMA2_CONNPROP_FINAL)) {
		h.props.present = fuzz_u8(in) & 0x7e;
		h.props.send_bytes = fuzz_u16(in);
		h.props.recv_bytes = fuzz_u16(in);
		h.props.seg_bytes = fuzz_u16(in);
		h.props.segs = fuzz_u8(in);
		h.props.reverse = fuzz_u8(in) % 5;
		h.props.hostauth.data = fuzz_octets(in, fuzz_u8(in), &n);
		h.props.hostauth.len_bytes = (uint32_t)n;
	} else if (h.p.vers == 2 &&
	           (h.p.htype == RDMA2_CALL_MIDDLE || h.p.htype == RDMA2_REPLY_MIDDLE)) {
		h.remaining_bytes = fuzz_u16(in);
	} else if (h.p.htype != RDMA2_GRANT) {
		if (lists & 1) {
			some_segments(in, segs, 1 + lists / 64);
			(void)weft_rpcrdma_call_set(&h.chunks, segs, 1 + lists / 64);
		}
		for (unsigned int i = 0; i < (lists >> 1 & 3u); i++) {
			some_segments(in, segs, 2);
			(void)weft_rpcrdma_read_add(&h.chunks, 44 + 4 * fuzz_u8(in), segs, 2);
		}
		for (unsigned int i = 0; i < (lists >> 3 & 3u); i++) {
			some_segments(in, segs, 3);
			(void)weft_rpcrdma_write_add(&h.chunks, segs, fuzz_u8(in) % 4);
		}
		if (lists & 0x20) {
			some_segments(in, segs, 4);
			(void)weft_rpcrdma_reply_set(&h.chunks, segs, fuzz_u8(in) % 5);
		}
		if (h.p.vers == 2 && lists & 0x40 && h.chunks.n_segs > 0)
			h.chunks.inv_handle = h.chunks.segs[0].handle;
	}
	len = weft_rpcrdma_encode(m, sizeof(m) - 2048, &h);
	if (len == 0) {
		len = 16;
		for (unsigned int i = 0; i < 4; i++)
			weft_put_be32(m + 4 * i,
			              (const uint32_t[]){xid, h.p.vers, h.p.credit, h.p.htype}[i]);
	}
	b = fuzz_u8(in);
	if (b & 1) {
		/* A call of ours or a reply, truncated at any length. */
		const uint32_t words[] = {xid,
		                          b >> 1 & 1,
		                          b & 2 ? 0 : 2,
		                          b & 2 ? 0 : FUZZ_PROG,
		                          b & 2 ? 0 : 1,
		                          b & 2 ? 0 : b >> 2 & 3,
		                          0,
		                          0,
		                          0,
		                          0,
		                          fuzz_u16(in),
		                          b >> 4 ? 1000 : 0};
		unsigned int nwords = b & 2 ? 6 : 12;

		for (unsigned int i = 0; i < nwords; i++, len += 4)
			weft_put_be32(m + len, words[i]);
		if (b >> 4 && !(b & 2)) {
			memset(m + len, 'x', 1000);
			len += 1000;
		}
	}
	rest = fuzz_octets(in, fuzz_u8(in), &n);
	memcpy(m + len, rest, n);
	inject(m, len + (uint32_t)n);
}

static void
peer_posts(struct fuzz_in *in)
{
	static uint8_t junk[4096];
	uint8_t how = fuzz_u8(in);
	struct weft_sge sge = {.addr = junk, .len_bytes = 16u * fuzz_u8(in)};
	struct weft_wr wr = {
	        .sg_list = &sge, .num_sge = 1, .rdma = {some_handle(in), fuzz_u16(in)}};

	if (peer.dead || !peer.connected || peer.sq_used == peer.sq_depth)
		return;
	wr.opcode = how & 1 ? WEFT_WR_WRITE : WEFT_WR_SEND_INV;
	if (!(how & 1)) {
		struct fake_msg *r = STAILQ_FIRST(&qp.recvs);

		wr.send.inv_stag = wr.rdma.stag;
		if (r == NULL || sge.len_bytes > r->len_bytes)
			return;
	}
	memset(junk, 0, sizeof(junk));
	weft_put_be32(junk, xids[how % 8]);
	weft_put_be32(junk + 4, 2);
	weft_put_be32(junk + 8, 1000);
	weft_put_be32(junk + 12, RDMA2_REPLY_INLINE);
	weft_put_be32(junk + 20, xids[how % 8]);
	weft_put_be32(junk + 24, 1);
	(void)weft_post_send(&peer, &wr, 1);
	fake_deliver(&peer);
	fake_complete(&peer);
}

/* ---- One input ---- */

static void
bounded(void)
{
	FUZZ_CHECK(rpc->controls_queued <= RPCRDMA_CONTROL_MAX);
	FUZZ_CHECK(rpc->nreqs <= RPCRDMA_REQS_HIGH + rpc->a.credits);
	FUZZ_CHECK(rpc->cont.len_bytes <= rpc->a.max_message_bytes);
	FUZZ_CHECK(rpc->credit1.lost <= rpc->credit1.calls);
	FUZZ_CHECK(!rpc->down || (LIST_EMPTY(&rpc->reqs) && STAILQ_EMPTY(&rpc->tx)));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t inlines[] = {1024, 4096, 16384, 0};
	static const struct weft_rpc_auth auth = {auth_step, true};
	struct fuzz_in in = {data, size};
	uint8_t how = fuzz_u8(&in), more = fuzz_u8(&in);
	struct weft_rpc_drc *drc = NULL;
	struct weft_rpc_attr a = {
	        .size = sizeof(a),
	        .qp = &qp,
	        .server = how & 1,
	        .programs = how & 3 ? programs : NULL,
	        .inline_bytes = inlines[how >> 2 & 3],
	        .credits = 2 + (how >> 4 & 7),
	        .max_vers = how & 0x80 ? 1 : 2,
	        .max_message_bytes = more & 1 ? 8192 : 65536,
	        .max_segments = more & 2 ? 64 : 0,
	        .max_segment_bytes = more & 4 ? 4096 : 0,
	        .no_invalidate = more & 8,
	        .auth = (more & 0x30) == 0x30 ? &auth : NULL,
	        .reverse = more >> 6,
	};

	if (a.max_vers == 1)
		a.auth = NULL; /* this endpoint has none, and a peer that requires it is refused */
	memset(call, 0, sizeof(call));
	memset(later, 0, sizeof(later));
	memset(xids, 0, sizeof(xids));
	memset(handles, 0, sizeof(handles));
	nxids = nhandles = 0;
	fake_worker_init(&worker);
	fake_mine(&worker);
	fake_qp_init(&qp, &worker, &qp, on_wc);
	fake_qp_init(&peer, &worker, NULL, on_wc);
	qp.on_post = on_post;
	FUZZ_CHECK(weft_rpc_drc_create(16, &drc) == 0);
	a.drc = drc;
	FUZZ_CHECK(weft_rpc_create(&a, &rpc) == 0);
	FUZZ_CHECK(weft_rpc_set_peer_name(rpc, "a", 1) == 0);
	rpc->next_xid = 1;
	fake_connect(&qp, &peer);
	for (unsigned int i = 0; i < FUZZ_OPS && in.left > 0; i++) {
		uint8_t op = fuzz_u8(&in);
		const uint8_t *raw;
		size_t n;

		switch (op & 7) {
		case 0:
			user_calls(&in);
			break;
		case 1:
		case 2:
			peer_sends(&in);
			break;
		case 3:
			raw = fuzz_octets(&in, fuzz_u8(&in), &n);
			inject(raw, (uint32_t)n);
			break;
		case 4:
			move(op >> 3);
			break;
		case 5:
			peer_posts(&in);
			break;
		case 6:
			user_answers(op >> 3);
			break;
		default:
			if (op == 0xff)
				fake_break(&qp);
			else if (op == 0xf7)
				weft_rpc_disconnected(rpc);
			else
				fake_advance(&worker, op & 0x80 ? RPCRDMA_TIMEOUT_US : 1000);
			break;
		}
		bounded();
	}
	move(4);
	if (!qp.dead)
		fake_break(&qp);
	weft_rpc_disconnected(rpc);
	bounded();
	for (unsigned int i = 0; i < FUZZ_CALLS; i++)
		FUZZ_CHECK(call[i].used == call[i].ended);
	FUZZ_CHECK(fake_alarms(&worker) == 0);
	FUZZ_CHECK(fake_mrs() == 0);
	weft_rpc_destroy(rpc);
	rpc = NULL;
	for (unsigned int i = 0; i < FUZZ_LATER; i++)
		user_answers(i);
	fake_qp_fini(&qp);
	fake_qp_fini(&peer);
	weft_rpc_drc_destroy(drc);
	return 0;
}
