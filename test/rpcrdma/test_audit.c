/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Complete conversations checked by an observer of the wire, the observer itself against a
 * peer that violates rules, and malicious peers.
 */

#include <errno.h>
#include <stdlib.h>

#include <rpc/rpc.h>
#include <rpc/rpc_msg.h>

#include "rpcrdma_call.h"
#include "observer.h"
#include "weft_test.h"

static struct rig rig;
static struct obs obs;
static struct rig_answer ans[64];
static struct weft_rpc *idle; /* the server's endpoint while a test plays the server */

static void
start(const struct rig_opts *o)
{
	memset(ans, 0, sizeof(ans));
	for (unsigned int i = 0; i < 64; i++)
		ans[i].status = WEFT_RPC_CONNLOST; /* no result yet */
	rig_up(&rig, o);
	obs_watch(&obs, &rig);
}

static void
greet(void)
{
	CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[63]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[63].status, WEFT_RPC_OK);
}

static void
finish(void)
{
	rig_settle(&rig);
	CHECK_EQ(fake_regions(), 0);
	CHECK_EQ(rig.c.qp.access_errors + rig.s.qp.access_errors, 0);
	CHECK_EQ(rig.c.rpc->regs_used.n, 0);
	CHECK_EQ(rig.s.rpc->regs_used.n, 0);
	CHECK(LIST_EMPTY(&rig.s.rpc->reqs));
	CHECK_MSG(obs.fault == NULL, "%s", obs.fault);
	rig_down(&rig);
}

/* ---- Every format, both directions, random order ---- */

static uint32_t
move_reply(const void *args)
{
	return ((const struct rig_move *)args)->want + 400;
}

static void
test_matrix(void)
{
	static const uint32_t inlines[] = {1024, 4096, 16384}, credits[] = {2, 8, 32};
	static const uint32_t sizes[] = {0,    1,    2,    3,     5,     100,   1023,  1024,
	                                 3997, 4096, 9001, 16384, 20000, 65537, 120001};
	const struct weft_rpc_binding reply = {.reply_bytes = move_reply};
	struct weft_rpc_binding both = rig_move_binding;
	const struct weft_rpc_binding *const how[] = {&rig_move_binding, NULL, &reply, &both};
	uint64_t first = test_seed(1), n = test_seed_given() ? 1 : 2;
	unsigned int chunks = 0;

	both.reply_bytes = move_reply;
	for (uint64_t seed = first; seed < first + n; seed++) {
		for (unsigned int k = 0; k < 2 * 3 * 3 * 3; k++) {
			struct rig_opts o = {.client_serves = true,
			                     .client_max = (uint8_t)(1 + k % 2),
			                     .client_inline = inlines[k / 2 % 3],
			                     .server_inline = inlines[(k / 2 + seed) % 3],
			                     .client_credits = credits[k / 6 % 3],
			                     .server_credits = credits[k / 18 % 3],
			                     .max_segment_bytes = k % 5 ? 0 : 45000,
			                     .no_invalidate = k % 4 == 3};

			test_seed_note(seed);
			start(&o);
			rig.rand = seed * 1000 + k + 1;
			greet();
			/* Use the same xids in both directions. */
			rig.c.rpc->next_xid = rig.s.rpc->next_xid = 1000;
			for (unsigned int i = 0; i < 48; i++)
				CHECK_EQ(rig_move(i % 2 ? &rig.c : &rig.s,
				                  sizes[rig_rand(&rig) % 15],
				                  sizes[rig_rand(&rig) % 15],
				                  how[rig_rand(&rig) % 4], &ans[i]),
				         0);
			rig_shuffle(&rig);
			for (unsigned int i = 0; i < 48; i++)
				CHECK_MSG(ans[i].n == 1 && (ans[i].status == WEFT_RPC_OK ||
				                            (o.client_max == 1 &&
				                             ans[i].status == WEFT_RPC_TOO_LONG)),
				          "seed %" PRIu64
				          ", combination %u, call %u: %u answers, %s",
				          seed, k, i, ans[i].n, weft_rpc_status_str(ans[i].status));
			chunks += obs.chunks;
			finish();
		}
	}
	CHECK(chunks > 1000);
}

/* The connection ends during the conversation: each call gets one result, and nothing stays
 * registered. */
static void
test_matrix_broken(void)
{
	uint64_t seed = test_seed(7);

	for (unsigned int k = 0; k < 200; k++) {
		struct rig_opts o = {.client_serves = true,
		                     .client_max = (uint8_t)(1 + k % 2),
		                     .client_credits = 2 + k % 7};

		start(&o);
		rig.rand = seed * 1000 + k + 1;
		greet();
		for (unsigned int i = 0; i < 24; i++)
			CHECK_EQ(rig_move(i % 2 ? &rig.c : &rig.s,
			                  (uint32_t)(rig_rand(&rig) % 20000),
			                  (uint32_t)(rig_rand(&rig) % 20000), &rig_move_binding,
			                  &ans[i]),
			         0);
		for (unsigned int i = 0; i < 3 * k; i++) {
			struct rig_side *side = rig_rand(&rig) & 1 ? &rig.c : &rig.s;

			rig_rand(&rig) & 1 ? fake_deliver(&side->qp) : fake_complete(&side->qp);
		}
		fake_break(&rig.c.qp);
		weft_rpc_disconnected(rig.c.rpc);
		weft_rpc_disconnected(rig.s.rpc);
		for (unsigned int i = 0; i < 24; i++)
			CHECK_EQ(ans[i].n, 1);
		CHECK_EQ(fake_mrs(), 0);
		CHECK_MSG(obs.fault == NULL, "%s", obs.fault);
		rig_down(&rig);
	}
}

/* ---- A server played by the test ---- */

static void
play_server(void)
{
	idle = rig.s.rpc;
	rig.s.rpc = NULL;
}

static void
play_over(void)
{
	fake_break(&rig.c.qp);
	rig.s.rpc = idle;
	weft_rpc_disconnected(rig.s.rpc);
	CHECK_EQ(fake_mrs(), 0);
	rig_down(&rig);
}

static void
post(struct weft_qp *qp, enum weft_wr_opcode op, const void *buf, uint32_t len_bytes, uint32_t stag,
     uint64_t to)
{
	struct weft_sge sge = {.addr = (void *)(uintptr_t)buf, .len_bytes = len_bytes};
	struct weft_wr wr = {.opcode = op, .sg_list = &sge, .num_sge = 1};

	if (op == WEFT_WR_SEND_INV)
		wr.send.inv_stag = stag;
	if (op == WEFT_WR_WRITE || op == WEFT_WR_READ) {
		wr.rdma.stag = stag;
		wr.rdma.to = to;
	}
	CHECK_EQ(weft_post_send(qp, &wr, 1), 1);
}

static void
all_out(struct weft_qp *qp)
{
	while (fake_deliver(qp))
		fake_complete(qp);
}

/* The chunks of the call at the server. */
static struct obs_call *
at_server(void)
{
	for (unsigned int i = 0; i < OBS_CALLS; i++)
		if (obs.side[0].call[i].live && obs.side[0].call[i].arrived)
			return &obs.side[0].call[i];
	CHECK(false);
	return NULL;
}

/* A RIG_MOVE with chunks in both directions, delivered to the server that the test plays. */
static struct obs_call *
one_at_server(uint8_t vers, const struct weft_rpc_binding *b)
{
	struct rig_opts o = {.client_max = vers};

	start(&o);
	greet();
	play_server();
	CHECK_EQ(rig_move(&rig.c, 20000, 20000, b, &ans[0]), 0);
	all_out(&rig.c.qp);
	return at_server();
}

static uint32_t
reply_to(uint8_t *m, const struct obs_call *k, uint8_t vers, uint32_t credit)
{
	struct rpcrdma_hdr h;
	uint32_t len;

	weft_rpcrdma_hdr_init(&h, vers, vers == 2 ? RDMA2_REPLY_INLINE : RDMA1_MSG, k->xid);
	h.p.credit = credit;
	weft_rpcrdma_chunks_return(&h.chunks, &k->offer, vers == 1);
	for (unsigned int i = 0; i < h.chunks.n_writes; i++)
		weft_rpcrdma_chunk_fill(&h.chunks, &h.chunks.writes[i], 0);
	len = weft_rpcrdma_encode(m, 4096, &h);
	/* xid, REPLY, MSG_ACCEPTED, AUTH_NONE, SYSTEM_ERR */
	memset(m + len, 0, 24);
	weft_put_be32(m + len, k->xid);
	weft_put_be32(m + len + 4, 1);
	weft_put_be32(m + len + 20, 5);
	return len + 24;
}

/* The observer reports each violation, and nothing else. */
static void
test_observer(void)
{
	static const char *const want[] = {
	        NULL,
	        "more messages than credit",
	        "credit taken back",
	        "memory that no call offers",             /* beyond the end */
	        "memory that no call offers",             /* Read from a Write chunk */
	        "memory that no call offers",             /* after the reply */
	        "chunks returned otherwise than offered", /* no chunk returned */
	        "chunks returned otherwise than offered", /* more octets */
	        "chunks returned otherwise than offered", /* another handle */
	        "invalidates what was not asked for",
	        "an answer to nothing", /* a second time */
	        "something between the parts of a message",
	        "parts of another length than said",
	        "handle of a call that is not over",
	        "xid of a call that is not over",
	        "a message that does not decode",
	        "continued, though there is a Reply chunk",
	};
	static uint8_t m[4096], data[64];
	struct weft_rpc_binding all = rig_move_binding;

	all.reply_bytes = move_reply;
	for (unsigned int c = 0; c < sizeof(want) / sizeof(want[0]); c++) {
		struct obs_call k = *one_at_server(2, c == 16 ? &all : &rig_move_binding);
		const struct rpcrdma_chunks *o = &k.offer;
		const struct rpcrdma_segment *r = &o->segs[o->reads[0].first];
		struct rpcrdma_segment *w = &k.offer.segs[o->writes[0].first];
		uint32_t credit = obs.side[1].promised, len = reply_to(m, &k, 2, credit);
		struct weft_qp *s = &rig.s.qp;
		struct rpcrdma_hdr h;

		CHECK(o->n_reads > 0 && o->n_writes > 0 && o->inv_handle != 0);
		switch (c) {
		case 1:
			for (unsigned int i = 0; i < 12; i++) {
				len = rig_raw_error(m, 4000 + i, RDMA2_ERR_BAD_XDR, 0, 0);
				weft_put_be32(m + 8, credit);
				post(s, WEFT_WR_SEND, m, len, 0, 0);
			}
			break;
		case 2:
			weft_put_be32(m + 8, credit - 1);
			post(s, WEFT_WR_SEND, m, len, 0, 0);
			break;
		case 3:
			post(s, WEFT_WR_WRITE, data, 64, w->handle, w->offset + w->len_bytes - 63);
			break;
		case 4:
			s->on_access(s, false, w->handle, w->offset, 4);
			break;
		case 5:
			post(s, WEFT_WR_SEND, m, len, 0, 0);
			all_out(s);
			post(s, WEFT_WR_WRITE, data, 4, w->handle, w->offset);
			break;
		case 6:
		case 7:
		case 8:
			if (c == 7)
				w->len_bytes++;
			if (c == 8)
				w->handle = r->handle;
			weft_rpcrdma_hdr_init(&h, 2, RDMA2_REPLY_INLINE, k.xid);
			h.p.credit = credit;
			if (c != 6) {
				weft_rpcrdma_chunks_return(&h.chunks, &k.offer, false);
				weft_rpcrdma_chunk_fill(&h.chunks, &h.chunks.writes[0],
				                        (uint32_t)k.offer.writes[0].len_bytes +
				                                (c == 7));
			}
			len = weft_rpcrdma_encode(m, sizeof(m), &h);
			weft_put_be32(m + len, k.xid);
			post(s, WEFT_WR_SEND, m, len + 24, 0, 0);
			break;
		case 9:
			post(s, WEFT_WR_SEND_INV, m, len, w->handle, 0);
			break;
		case 10:
			post(s, WEFT_WR_SEND, m, len, 0, 0);
			all_out(s);
			post(s, WEFT_WR_SEND, m, len, 0, 0);
			break;
		case 11:
		case 12:
			weft_rpcrdma_hdr_init(&h, 2, RDMA2_REPLY_MIDDLE, k.xid);
			h.p.credit = credit;
			h.remaining_bytes = 8;
			len = weft_rpcrdma_encode(m, sizeof(m), &h);
			weft_put_be32(m + len, k.xid);
			post(s, WEFT_WR_SEND, m, len + 4, 0, 0);
			if (c == 11)
				h.p.xid++;
			h.remaining_bytes = c == 11 ? 4 : 5;
			weft_rpcrdma_encode(m, sizeof(m), &h);
			post(s, WEFT_WR_SEND, m, len + 4, 0, 0);
			break;
		case 13:
		case 14:
			weft_rpcrdma_hdr_init(&h, 2, RDMA2_CALL_INLINE, k.xid + (c == 13));
			h.p.credit = obs.side[0].promised;
			if (c == 13)
				CHECK_EQ(weft_rpcrdma_write_add(&h.chunks, w, 1), 0);
			len = weft_rpcrdma_encode(m, sizeof(m), &h);
			weft_put_be32(m + len, h.p.xid);
			rig.c.qp.on_post(&rig.c.qp, m, len + 4);
			break;
		case 15:
			post(s, WEFT_WR_SEND, m, 20, 0, 0);
			break;
		case 16:
			weft_rpcrdma_hdr_init(&h, 2, RDMA2_REPLY_MIDDLE, k.xid);
			h.p.credit = credit;
			h.remaining_bytes = 9000;
			len = weft_rpcrdma_encode(m, sizeof(m), &h);
			weft_put_be32(m + len, k.xid);
			post(s, WEFT_WR_SEND, m, len + 4, 0, 0);
			break;
		default:
			post(s, WEFT_WR_WRITE, data, 64, w->handle, w->offset);
			post(s, WEFT_WR_SEND_INV, m, len, o->inv_handle, 0);
			break;
		}
		all_out(s);
		if (want[c] == NULL)
			CHECK_MSG(obs.fault == NULL, "%s", obs.fault);
		else
			CHECK_MSG(obs.fault != NULL && strcmp(obs.fault, want[c]) == 0,
			          "cheat %u: %s, not %s", c,
			          obs.fault == NULL ? "nothing" : obs.fault, want[c]);
		play_over();
	}
	/* Version 1: a call beyond the granted credits. */
	start(&(struct rig_opts){.client_max = 1});
	CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[0]), 0);
	CHECK_MSG(obs.fault == NULL, "%s", obs.fault);
	rig.c.rpc->credit1.granted = 2; /* credits that the server did not grant */
	CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[1]), 0);
	CHECK_STR(obs.fault, "more calls than credit");
	rig_settle(&rig);
	rig_down(&rig);
}

/* ---- Credits of version 1 ---- */

/* RFC 8166 s3.3.1: not more calls than requested credits, whatever is granted, because each
 * reply needs a receive. */
static void
test_v1_more_granted(void)
{
	start(&(struct rig_opts){.client_max = 1, .client_credits = 4, .server_credits = 64});
	for (unsigned int i = 0; i < 60; i++)
		CHECK_EQ(rig_add(&rig.c, i, 1, &ans[i]), 0);
	/* The server answers all its calls before the client polls. */
	for (unsigned int k = 0; k < 40; k++) {
		while (fake_deliver(&rig.c.qp))
			;
		rig_settle(&rig);
	}
	for (unsigned int i = 0; i < 60; i++)
		CHECK_EQ(ans[i].status == WEFT_RPC_OK ? ans[i].sum : 0, i + 1);
	finish();
}

/* A grant of zero counts as one (RFC 8166 s3.3.1: zero would be a deadlock). */
static void
test_v1_none_granted(void)
{
	uint8_t m[256];

	start(&(struct rig_opts){.client_max = 1});
	CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[0]), 0);
	all_out(&rig.c.qp);
	CHECK(fake_take(&rig.s.qp, m, sizeof(m)) > 0);
	weft_put_be32(m + 8, 0);
	fake_inject(&rig.c.qp, m, 28 + 28);
	fake_complete(&rig.s.qp);
	CHECK_EQ(ans[0].status, WEFT_RPC_OK);
	obs.side[0].granted = 1;
	CHECK_EQ(rig_add(&rig.c, 3, 4, &ans[1]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[1].status, WEFT_RPC_OK);
	finish();
}

/* A call that timed out still uses its credit. Its late answer returns the credit. */
static void
test_v1_timed_out(void)
{
	start(&(struct rig_opts){.client_max = 1, .client_credits = 2, .server_credits = 2});
	greet();
	CHECK_EQ(rig_call_u32(&rig.c, RIG_LATER, 1, &ans[0]), 0);
	rig_settle(&rig);
	CHECK(!weft_rpc_stuck(rig.c.rpc));
	fake_advance(&rig.worker, RPCRDMA_TIMEOUT_US);
	CHECK_EQ(ans[0].status, WEFT_RPC_TIMEDOUT);
	CHECK(weft_rpc_stuck(rig.c.rpc));
	CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[1]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[1].n, 0);
	CHECK(weft_rpc_stuck(rig.c.rpc));
	weft_rpc_done(rig.s.later, WEFT_RPC_OK);
	rig.s.later = NULL;
	rig_settle(&rig);
	CHECK_EQ(ans[1].status, WEFT_RPC_OK);
	CHECK(!weft_rpc_stuck(rig.c.rpc));
	finish();
}

/* ---- Repeated calls ---- */

/* s7.3.5: the call is repeated with more room for the reply. The memory offered before stays
 * valid as long as the peer can access it. */
static void
test_outgrown(void)
{
	const struct weft_rpc_binding b = {.reply_bytes = rig_reply_5000};
	struct obs_call k = *one_at_server(2, &b);
	const struct rpcrdma_segment old = k.offer.segs[k.offer.reply.first];
	struct rpcrdma_call *call = LIST_FIRST(&rig.c.rpc->calls);
	uint8_t m[64], junk[4096];
	uint32_t len;

	CHECK(k.offer.has_reply);
	memset(junk, 0xa5, sizeof(junk));
	len = rig_raw_error(m, k.xid, RDMA2_ERR_REPLY_RESOURCE, 60000, 0);
	weft_put_be32(m + 8, 100);
	post(&rig.s.qp, WEFT_WR_SEND, m, len, 0, 0);
	all_out(&rig.s.qp);
	all_out(&rig.c.qp);
	CHECK_EQ(rig.c.rpc->stats.retries, 1);
	CHECK_EQ(call->noutgrown, 1);
	for (unsigned int i = 0; i < call->nregs; i++)
		CHECK(call->reg[i]->valid);
	/* The peer writes to memory that is no longer offered. */
	post(&rig.s.qp, WEFT_WR_WRITE, junk, sizeof(junk), old.handle, old.offset);
	all_out(&rig.s.qp);
	CHECK_EQ(call->outgrown[0][0], 0xa5);
	play_over();
	CHECK_EQ(ans[0].n, 1);
}

/* The repeated call waits for credit and times out. The regions of the first call are
 * deregistered. */
static void
test_again_timed_out(void)
{
	struct obs_call k = *one_at_server(2, &rig_move_binding);
	uint8_t m[64];
	uint32_t len = rig_raw_error(m, k.xid, RDMA2_ERR_READ_CHUNKS, 0, 0);
	struct rpcrdma_call *call = LIST_FIRST(&rig.c.rpc->calls);
	unsigned int nregs = call->nregs;

	CHECK(fake_regions() > 1);
	weft_put_be32(m + 8, rig.c.rpc->credit.sent); /* no further credit */
	rig.s.qp.on_post = NULL;
	post(&rig.s.qp, WEFT_WR_SEND, m, len, 0, 0);
	all_out(&rig.s.qp);
	CHECK_EQ(rig.c.rpc->stats.retries, 1);
	call = LIST_FIRST(&rig.c.rpc->calls);
	for (unsigned int i = 0; i < nregs;
	     i++) /* else a new allocation may have the address of the first */
		CHECK(call->reg[i]->batch == NULL);
	fake_advance(&rig.worker, RPCRDMA_TIMEOUT_US);
	all_out(&rig.c.qp);
	CHECK_EQ(ans[0].status, WEFT_RPC_TIMEDOUT);
	CHECK_EQ(fake_regions(), 0);
	play_over();
}

/* s7.1.4, s7.4.1: a call that is refused before all its parts are sent ends at once, not at its
 * timeout. */
static void
test_refused_midway(void)
{
	static char text[3001];

	memset(text, 'p', 3000);
	start(&(struct rig_opts){
	        .client_inline = 1024, .server_inline = 1024, .server_credits = 2});
	greet();
	rig.s.rpc->a.max_message_bytes = 1500;
	CHECK_EQ(rig_echo(&rig.c, text, &ans[0]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[0].n, 1);
	CHECK_EQ(ans[0].status, WEFT_RPC_TRANSPORT);
	/* The next message is understood. */
	CHECK_EQ(rig_add(&rig.c, 4, 5, &ans[1]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[1].status, WEFT_RPC_OK);
	CHECK_EQ(ans[1].sum, 9);
	finish();
}

/* ---- Malicious peers ---- */

/* s6.3.9: the answer to properties is not sent between the parts of a reply. */
static void
test_properties_midway(void)
{
	uint8_t m[256];
	uint32_t len;

	start(NULL);
	len = rig_raw_add(m, 1, 2, 0, 0);
	weft_put_be32(m + 52, RIG_BIG);
	weft_put_be32(m + 72, 20000);
	obs.side[0].call[0] = (struct obs_call){.live = true, .arrived = true, .xid = 1};
	fake_inject(&rig.s.qp, m, len);
	CHECK_EQ(rig.s.rpc->replies_queued, 1); /* the reply has begun, and waits for credit */
	fake_inject(&rig.s.qp, m, rig_raw_props(m, 9, 4096));
	len = rig_raw_props(m, 10, 4096);
	weft_put_be32(m + 8, 100);
	fake_inject(&rig.s.qp, m, len);
	CHECK_EQ(rig.s.rpc->replies_queued, 0);
	CHECK_MSG(obs.fault == NULL, "%s", obs.fault);
	rig_down(&rig);
}

/* The same for a call of ours that waited for the peer's properties and can be sent now. */
static void
test_call_midway(void)
{
	uint8_t m[256];
	uint32_t len;

	start(&(struct rig_opts){.client_serves = true});
	CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[0]), 0); /* after our properties */
	CHECK_EQ(rig.c.rpc->props_out, RPCRDMA_PROPS_FINAL);
	len = rig_raw_add(m, 1, 3, 0, 0);
	weft_put_be32(m + 52, RIG_BIG);
	weft_put_be32(m + 72, 20000);
	obs.side[1].call[0] = (struct obs_call){.live = true, .arrived = true, .xid = 1};
	fake_inject(&rig.c.qp, m, len);
	CHECK_EQ(rig.c.rpc->replies_queued, 1); /* the reply has begun */
	len = rig_raw_props(m, rig.c.rpc->props_xid, 4096);
	weft_put_be32(m + 8, 100);
	fake_inject(&rig.c.qp, m, len);
	CHECK_EQ(rig.c.rpc->replies_queued, 0);
	CHECK_EQ(rig.c.rpc->stats.calls_out, 1);
	CHECK_MSG(obs.fault == NULL, "%s", obs.fault);
	rig_down(&rig);
}

/* The peer announces smaller receives than when the reply was encoded: that reply cannot be
 * sent, and nothing else fails. */
static void
test_smaller_receives(void)
{
	struct rpcrdma_segment segs[RPCRDMA_MAX_SEGS];
	uint8_t m[2048], raw[256];
	struct rpcrdma_hdr h;
	uint32_t len;

	start(NULL);
	rig.s.rpc->limits.segs = RPCRDMA_MAX_SEGS;
	rig_raw_add(raw, 1, 1, 0, 0);
	weft_put_be32(raw + 52, RIG_BIG);
	weft_put_be32(raw + 72, 20000);
	for (unsigned int i = 0; i < RPCRDMA_MAX_SEGS; i++)
		segs[i] = (struct rpcrdma_segment){.handle = 5 + i, .len_bytes = 4096};
	weft_rpcrdma_hdr_init(&h, RPCRDMA_V2, RDMA2_CALL_INLINE, 1);
	h.p.credit = 0; /* no credit: the reply waits */
	CHECK_EQ(weft_rpcrdma_reply_set(&h.chunks, segs, RPCRDMA_MAX_SEGS), 0);
	len = weft_rpcrdma_encode(m, sizeof(m), &h);
	memcpy(m + len, raw + 32, 48);
	fake_inject(&rig.s.qp, m, len + 48);
	CHECK_EQ(rig.s.rpc->replies_queued, 1);
	len = rig_raw_props(m, 2, 1024);
	weft_put_be32(m + 8, 100);
	fake_inject(&rig.s.qp, m, len);
	CHECK_EQ(rig.s.qp.disconnects, 1);
	rig.c.qp.peer = NULL;
	rig_down(&rig);
}

static int
auth_never(void *user, const uint8_t *in, uint32_t n, uint8_t *out, uint32_t *out_bytes)
{
	(void)user;
	(void)in;
	(void)n;
	memset(out, 1, WEFT_RPC_AUTH_MAX_BYTES);
	*out_bytes = WEFT_RPC_AUTH_MAX_BYTES;
	return 0;
}

/* Endless authentication by a client that gives no credit: the number of waiting messages is
 * limited. */
static void
test_property_flood(void)
{
	static const struct weft_rpc_auth never = {auth_never, true};
	uint8_t m[256], who[4] = {1, 2, 3, 4};
	struct rpcrdma_hdr h;
	unsigned int n = 0;
	uint32_t len;

	start(&(struct rig_opts){.server_auth = &never});
	weft_rpcrdma_hdr_init(&h, RPCRDMA_V2, RDMA2_CONNPROP_MIDDLE, 1);
	h.p.credit = 1;
	h.props.present = 1u << RDMA2_PROPID_HOSTAUTH;
	h.props.hostauth = (struct rpcrdma_opaque){who, 4};
	len = weft_rpcrdma_encode(m, sizeof(m), &h);
	while (rig.s.qp.disconnects == 0 && n++ < 10000)
		fake_inject(&rig.s.qp, m, len);
	CHECK_EQ(rig.s.qp.disconnects, 1);
	CHECK(n < 2 * RPCRDMA_CONTROL_MAX);
	CHECK_EQ(rig.s.served, 0);
	rig_down(&rig);
}

/*
 * An orderly close sends what is posted. The octets of a reply's Writes are those of the reply,
 * although the endpoint is down.
 */
static void
test_closed_midway(void)
{
	start(NULL);
	greet();
	CHECK_EQ(rig_move(&rig.c, 10, 50000, &rig_move_binding, &ans[0]), 0);
	all_out(&rig.c.qp);
	CHECK(!LIST_EMPTY(&rig.s.rpc->reqs));
	weft_rpcrdma_enter(rig.s.rpc);
	weft_rpcrdma_fail(rig.s.rpc);
	weft_rpcrdma_leave(rig.s.rpc);
	CHECK(LIST_EMPTY(&rig.s.rpc->reqs));
	rig_settle(&rig);
	CHECK_EQ(ans[0].status, WEFT_RPC_OK);
	rig_down(&rig);
}

/* Invalid chunks of a malicious requester cause an error or the end of its connection. No call
 * is served. */
static void
test_bad_chunks(void)
{
	enum { CLOSED = -1 };
	static const struct {
		uint32_t position[2];
		struct rpcrdma_segment seg[2];
		unsigned int n;
		bool external;
		int want;
	} v[] = {
	        {{44, 48}, {{1, 100, 0}, {1, 100, 50}}, 2, false, RDMA2_ERR_BAD_XDR}, /* inside */
	        {{48, 44}, {{1, 4, 0}, {1, 4, 50}}, 2, false, RDMA2_ERR_BAD_XDR},     /* order */
	        {{42, 0}, {{1, 4, 0}}, 1, false, RDMA2_ERR_BAD_XDR}, /* not a word */
	        {{0, 0}, {{1, 4, 0}}, 1, false, RDMA2_ERR_BAD_XDR},  /* the call's */
	        {{44, 44}, {{1, UINT32_MAX, 0}, {1, UINT32_MAX, 0}}, 2, false, RDMA2_ERR_SYSTEM},
	        {{44, 0}, {{1, 4 << 20, 0}}, 1, false, RDMA2_ERR_SYSTEM},       /* huge */
	        {{44, 44}, {{0xdead, 8, 0}, {0xdead, 8, 4}}, 2, false, CLOSED}, /* stale */
	        {{44, 0}, {{0xdead, 8, UINT64_MAX - 3}}, 1, false, CLOSED},     /* wraps */
	        {{0, 0}, {{0xdead, 60, 0}}, 1, true, CLOSED},
	        {{0, 0}, {{0xdead, 0, 0}}, 1, true, RDMA2_ERR_BAD_XDR},
	        {{0, 0}, {{0xdead, UINT32_MAX, 0}}, 1, true, RDMA2_ERR_SYSTEM},
	};

	for (unsigned int i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		uint8_t m[512], raw[256], out[4096], *p = m;
		bool told = false;
		int n;

		start(NULL);
		greet();
		rig.s.qp.on_post = NULL;
		rig.s.qp.on_access = NULL;
		rig_raw_add(raw, 500, 100, 1, 2);
		memcpy(m, raw, 20); /* up to rdma_inv_handle */
		weft_put_be32(m + 12, v[i].external ? RDMA2_CALL_EXTERNAL : RDMA2_CALL_INLINE);
		p += 20;
		for (unsigned int k = 0; k < v[i].n; k++, p += 24) {
			weft_put_be32(p, 1);
			weft_put_be32(p + 4, v[i].position[k]);
			weft_put_be32(p + 8, v[i].seg[k].handle);
			weft_put_be32(p + 12, v[i].seg[k].len_bytes);
			weft_put_be32(p + 16, (uint32_t)(v[i].seg[k].offset >> 32));
			weft_put_be32(p + 20, (uint32_t)v[i].seg[k].offset);
		}
		memset(p, 0, 16);
		p += v[i].external ? 16 : 12;
		memcpy(p, raw + 32, 48);
		p += v[i].external ? 0 : 48;
		fake_inject(&rig.s.qp, m, (uint32_t)(p - m));
		while ((n = fake_take(&rig.s.qp, out, sizeof(out))) >= 0) {
			fake_complete(&rig.s.qp);
			if (weft_get_be32(out + 12) == RDMA2_GRANT)
				continue;
			told = true;
			CHECK_EQ(weft_get_be32(out + 12), RDMA2_ERROR);
			CHECK_MSG((int)weft_get_be32(out + 16) == v[i].want, "%u: error %u", i,
			          weft_get_be32(out + 16));
		}
		CHECK_MSG(told == (v[i].want != CLOSED), "%u", i);
		CHECK_EQ(rig.s.qp.dead, v[i].want == CLOSED);
		CHECK_EQ(rig.s.served, 1);
		CHECK_EQ(fake_regions(), 0);
		weft_rpc_disconnected(rig.s.rpc);
		CHECK_EQ(fake_mrs(), 0);
		rig.c.qp.peer = NULL;
		rig_down(&rig);
	}
}

/* A malicious responder invalidates another call's region, or answers with another call's chunk. */
static void
test_bad_responder(void)
{
	for (unsigned int c = 0; c < 4; c++) {
		static uint8_t m[4096];
		struct obs_call k = *one_at_server(2, &rig_move_binding), *other = NULL;
		struct rpcrdma_hdr h;
		uint32_t len;

		CHECK_EQ(rig_move(&rig.c, 9000, 9000, &rig_move_binding, &ans[1]), 0);
		all_out(&rig.c.qp);
		for (unsigned int i = 0; i < OBS_CALLS; i++)
			if (obs.side[0].call[i].live && obs.side[0].call[i].xid != k.xid)
				other = &obs.side[0].call[i];
		CHECK(other != NULL && other->arrived);
		weft_rpcrdma_hdr_init(&h, 2, c == 3 ? RDMA2_REPLY_EXTERNAL : RDMA2_REPLY_INLINE,
		                      k.xid);
		h.p.credit = 1000;
		switch (c) {
		case 0: /* invalidates a region of the other call */
			len = reply_to(m, &k, 2, 1000);
			post(&rig.s.qp, WEFT_WR_SEND_INV, m, len, other->offer.inv_handle, 0);
			break;
		case 1: /* the other call's chunks, and more octets than there is room for */
			weft_rpcrdma_chunks_return(&h.chunks, &other->offer, false);
			for (unsigned int i = 0; i < h.chunks.n_segs; i++)
				h.chunks.segs[i].len_bytes = 0x7fffffff;
			break;
		case 2: /* more chunks than were offered */
			for (unsigned int i = 0; i < 8; i++)
				CHECK_EQ(weft_rpcrdma_write_add(&h.chunks, other->offer.segs, 1),
				         0);
			break;
		default: /* a Reply chunk that was not offered */
			CHECK_EQ(weft_rpcrdma_reply_set(&h.chunks, other->offer.segs, 1), 0);
			break;
		}
		if (c > 0) {
			len = weft_rpcrdma_encode(m, sizeof(m), &h);
			memset(m + len, 0, 200);
			weft_put_be32(m + len, k.xid);
			weft_put_be32(m + len + 4, 1);
			post(&rig.s.qp, WEFT_WR_SEND, m, len + (c == 3 ? 0 : 200), 0, 0);
		}
		all_out(&rig.s.qp);
		all_out(&rig.c.qp);
		CHECK_EQ(ans[0].n, 1);
		CHECK_EQ(ans[0].status, c == 0 ? WEFT_RPC_SYSTEM_ERR : WEFT_RPC_BAD_REPLY);
		/* The other call ends when it is answered, and its regions are deregistered. */
		CHECK_EQ(ans[1].n, 0);
		len = reply_to(m, other, 2, 1000);
		post(&rig.s.qp, WEFT_WR_SEND, m, len, 0, 0);
		all_out(&rig.s.qp);
		all_out(&rig.c.qp);
		CHECK_EQ(ans[1].status, WEFT_RPC_SYSTEM_ERR);
		CHECK_EQ(fake_regions(), 0);
		CHECK_EQ(rig.c.qp.disconnects, 0);
		play_over();
	}
}

/* Endless grants and parts take no lasting memory. A grant is not answered with a grant without
 * end. */
static void
test_endless(void)
{
	uint8_t m[64];
	struct rpcrdma_hdr h;
	uint32_t len, total = 900000;

	start(NULL);
	rig.c.qp.peer = NULL;
	rig.s.qp.on_post = NULL;
	weft_rpcrdma_hdr_init(&h, RPCRDMA_V2, RDMA2_GRANT, 0);
	for (unsigned int i = 0; i < 20000; i++) {
		h.p.credit = 1u << 20;
		fake_inject(&rig.s.qp, m, weft_rpcrdma_encode(m, sizeof(m), &h));
		while (fake_take(&rig.s.qp, m, sizeof(m)) >= 0)
			fake_complete(&rig.s.qp);
	}
	CHECK_EQ(rig.s.rpc->stats.grants_in, 20000);
	CHECK(rig.s.rpc->stats.grants_out < 10000);
	/* One octet after the other of a long call: no more is kept than the call's length. */
	weft_rpcrdma_hdr_init(&h, RPCRDMA_V2, RDMA2_CALL_MIDDLE, 7);
	h.p.credit = 1u << 20;
	for (unsigned int i = 0; i < 20000; i++) {
		total -= 4;
		h.remaining_bytes = total;
		len = weft_rpcrdma_encode(m, sizeof(m), &h);
		weft_put_be32(m + len, 7);
		fake_inject(&rig.s.qp, m, len + 4);
		while (fake_take(&rig.s.qp, m, sizeof(m)) >= 0)
			fake_complete(&rig.s.qp);
	}
	CHECK_EQ(rig.s.rpc->cont.len_bytes, 80000);
	/* A call that would be too long is refused at once. */
	h.p.xid = 8;
	h.remaining_bytes = UINT32_MAX;
	len = weft_rpcrdma_encode(m, sizeof(m), &h);
	weft_put_be32(m + len, 8);
	fake_inject(&rig.s.qp, m, len + 4);
	CHECK_EQ(rig.s.rpc->cont.len_bytes, 0);
	CHECK_EQ(rig.s.rpc->stats.bad_cont, 1);
	rig_down(&rig);
}

/* ---- Whole messages: the results belong to the dispatcher until it returns ---- */

static struct rig_move raw_res;

static bool
raw_encode(void *arg, XDR *xdr)
{
	return xdr_replymsg(xdr, arg);
}

static void
raw_serve(void *user, struct weft_rpc_req *req, XDR *xdr)
{
	struct rpc_msg call = {0}, reply = {.rm_direction = REPLY};
	struct weft_rpc_item items[WEFT_RPC_MAX_ITEMS];
	char auth[2][MAX_AUTH_BYTES];
	struct rig_move args = {0};
	unsigned int n;

	(void)user;
	call.rm_call.cb_cred.oa_base = auth[0];
	call.rm_call.cb_verf.oa_base = auth[1];
	CHECK(xdr_callmsg(xdr, &call) && rig_xdr_move(xdr, &args));
	raw_res = (struct rig_move){
	        .seed = args.seed + 1, .data_len = args.want, .name = args.name, .want = args.seed};
	raw_res.data = malloc(args.want + 1);
	rig_octets(raw_res.data, args.want, raw_res.seed);
	reply.rm_xid = call.rm_xid;
	reply.rm_reply.rp_stat = MSG_ACCEPTED;
	reply.acpted_rply.ar_verf = _null_auth;
	reply.acpted_rply.ar_results.proc = rig_xdr_move;
	reply.acpted_rply.ar_results.where = (caddr_t)&raw_res;
	n = rig_move_binding.results(&raw_res, items);
	weft_rpc_raw_reply(req, raw_encode, &reply, items, n);
	memset(raw_res.data, 0xdd, args.want);
	free(raw_res.data);
	xdr_free(rig_xdr_move, &args);
}

static void
test_raw_results(void)
{
	for (uint8_t vers = 1; vers <= 2; vers++) {
		start(&(struct rig_opts){.client_max = vers});
		weft_rpc_set_raw(rig.s.rpc, raw_serve);
		for (unsigned int i = 0; i < 4; i++)
			CHECK_EQ(rig_move(&rig.c, 20000 * i, 30000 * i, &rig_move_binding, &ans[i]),
			         0);
		rig_settle(&rig);
		for (unsigned int i = 0; i < 4; i++)
			CHECK_EQ(ans[i].status, WEFT_RPC_OK);
		CHECK(rig.s.rpc->stats.write_chunks > 0);
		finish();
	}
}

WEFT_TEST_MAIN({"matrix", test_matrix}, {"matrix, broken", test_matrix_broken},
               {"observer", test_observer}, {"version 1, more granted", test_v1_more_granted},
               {"version 1, none granted", test_v1_none_granted},
               {"version 1, timed out", test_v1_timed_out}, {"outgrown", test_outgrown},
               {"again, timed out", test_again_timed_out}, {"refused midway", test_refused_midway},
               {"properties midway", test_properties_midway}, {"call midway", test_call_midway},
               {"smaller receives", test_smaller_receives}, {"property flood", test_property_flood},
               {"closed midway", test_closed_midway}, {"bad chunks", test_bad_chunks},
               {"bad responder", test_bad_responder}, {"endless", test_endless},
               {"raw results", test_raw_results})
