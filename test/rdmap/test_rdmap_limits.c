/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Limits of a stream: buffers of the medium, work in a turn, time to close, octets of a
 * segment. */

#include <stdlib.h>

#include "rdmap_rig.h"

#define ALL                                                                                        \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_FLUSH_PERSISTENT | WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY)

static uint8_t mem[4096] __rte_aligned(64);

/* A failed read-back returns its buffer like any other: the medium stays usable. */
static void
test_failed_read_backs(void)
{
	struct rig_medium m;

	rig_medium_open(&m, 8192);
	for (int how = 0; how < 3; how++)
		for (unsigned int i = 0; i <= RIG_MEDIUM_BUFS + 1; i++) {
			bool well = i == RIG_MEDIUM_BUFS + 1;
			struct weft_rdmap_req v;
			struct weft_mem_mr *mr;

			rig_open(2, 2, false);
			mr = rig_reg(&rig.b, m.p.base, 8192, 0, ALL, &m.p, &rig_hash);
			m.immediate = how == 1;
			m.read_err = well ? 0 : -EIO;
			v = (struct weft_rdmap_req){
			        .op = WEFT_RDMAP_VERIFY_REQ, .len_bytes = 8192, .stag = mr->stag};
			weft_rdmap_post(rig.a.r, &v);
			if (how == 2 && !well) { /* the stream ends while the medium reads */
				weft_sched_run(&rig.a.sched, rig.now_ns);
				for (struct rig_ulpdu *u; (u = rig_pop(&rig.a)) != NULL; free(u))
					rig_inject(&rig.b, u->data, u->len_bytes);
				weft_sched_run(&rig.b.sched, rig.now_ns);
				CHECK_EQ(weft_exec_pending(rig.b.exec), 1);
				weft_rdmap_abort(rig.b.r, rig.now_ns);
			}
			rig_pump();
			CHECK_EQ(m.reads_out, 0);
			CHECK_EQ(rig_status(&rig.a, &v), well       ? WEFT_RDMAP_OK
			                                 : how == 2 ? WEFT_RDMAP_FLUSHED
			                                            : WEFT_RDMAP_REMOTE_OP);
			rig_unreg(&rig.b, mr);
			rig_close();
		}
	rig_medium_close(&m);
}

/* Flushes that a driver carries out inside the submission count as work of the turn: many of them
 * take many turns. */
static void
test_inline_flush_budget(void)
{
	enum { N = 16, LEN = 65536 };
	struct weft_rdmap_req q[N];
	struct weft_mem_mr *mr;
	struct rig_medium m;
	unsigned int turns = 0, before = 0;

	rig_open(N, N, false);
	rig_medium_open(&m, N * LEN);
	m.immediate = true;
	mr = rig_reg(&rig.b, m.p.base, N * LEN, 0, ALL, &m.p, &rig_hash);
	for (unsigned int i = 0; i < N; i++) {
		q[i] = (struct weft_rdmap_req){.op = WEFT_RDMAP_FLUSH_REQ,
		                               .len_bytes = LEN,
		                               .stag = mr->stag,
		                               .to = (uint64_t)i * LEN,
		                               .flush_flags = WEFT_FLUSH_PERSISTENT};
		weft_rdmap_post(rig.a.r, &q[i]);
	}
	for (; rig_status(&rig.a, &q[N - 1]) < 0; turns++) {
		CHECK(rig_step());
		CHECK_MSG(m.flushes - before <= 2, "%u flushes in a turn", m.flushes - before);
		before = m.flushes;
	}
	CHECK(turns >= N / 2);
	CHECK_EQ(m.flushes, N);
	/* short ones share a turn, and flushes for visibility only are free */
	for (unsigned int visible = 0; visible < 2; visible++) {
		rig.a.nev = m.flushes = 0;
		for (unsigned int i = 0; i < N; i++) {
			q[i].len_bytes = visible ? LEN : 64;
			q[i].flush_flags = visible ? WEFT_FLUSH_VISIBLE : WEFT_FLUSH_PERSISTENT;
			weft_rdmap_post(rig.a.r, &q[i]);
		}
		for (turns = 0; m.flushes < N; turns++)
			rig_step();
		CHECK(turns <= 2);
		rig_pump();
		CHECK_EQ(rig_ev_count(&rig.a, EV_DONE), N);
	}
	rig_unreg(&rig.b, mr);
	rig_close();
	rig_medium_close(&m);
}

static struct weft_rdmap_req again;
static unsigned int agains;

static void
post_again(struct rig_side *s, const struct rig_ev *e)
{
	if (e->kind == EV_DONE && agains > 0) {
		agains--;
		weft_rdmap_post(s->r, &again);
	}
}

/* A user that posts again in every done() gets one completion a turn. The worker does other work in
 * between. */
static void
test_repost_for_ever(void)
{
	rig_open(1, 1, true);
	again = (struct weft_rdmap_req){.op = WEFT_RDMAP_READ_REQ, .len_bytes = 8};
	weft_rdmap_post(rig.b.r, &again);
	rig_pump();
	rig.b.hook = post_again;
	agains = 100;
	weft_rdmap_abort(rig.b.r, rig.now_ns);
	CHECK_EQ(rig_ev_count(&rig.b, EV_DONE), 1);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_ERROR);
	for (unsigned int i = 0; i < 5; i++) {
		weft_sched_run(&rig.b.sched, rig.now_ns);
		CHECK_EQ(rig_ev_count(&rig.b, EV_DONE), 2 + i);
	}
	rig_pump();
	CHECK_EQ(rig_ev_count(&rig.b, EV_DONE), 101);
	rig_close();
}

/* The stream is destroyed in any up-call of its own end: that up-call is the last one. */
static void
test_destroy_in_drain(void)
{
	struct weft_rdmap_req q[3];

	for (unsigned int at = 1; at <= 5; at++) {
		unsigned int before;

		rig_open(1, 1, true);
		rig_post_recv(&rig.b, 1);
		rig_inject_untagged(&rig.b, 0x43, 0, 1, 0, false, 0, "half", 4);
		for (unsigned int i = 0; i < 3; i++) {
			q[i] = (struct weft_rdmap_req){.op = WEFT_RDMAP_READ_REQ, .len_bytes = 8};
			weft_rdmap_post(rig.b.r, &q[i]);
		}
		rig_pump();
		before = rig.b.nev;
		rig.b.destroy_at = at; /* three requests, the receive, the state */
		weft_rdmap_abort(rig.b.r, rig.now_ns);
		CHECK(rig.b.r == NULL);
		rig_pump();
		CHECK_EQ(rig.b.nev, before + at);
		if (at == 5)
			CHECK(rig.b.ev[before + 4].kind == EV_STATE && rig.b.ev[before + 4].ours);
		rig_close();
	}
}

/* An abort in done() while others wait: ERROR comes after all of them, each once. */
static void
test_abort_in_drain(void)
{
	struct weft_rdmap_req q[6];

	for (unsigned int at = 1; at <= 6; at++) {
		rig_open(1, 1, true);
		for (unsigned int i = 0; i < 6; i++) {
			q[i] = (struct weft_rdmap_req){.op = WEFT_RDMAP_READ_REQ, .len_bytes = 8};
			weft_rdmap_post(rig.b.r, &q[i]);
		}
		rig_pump();
		rig.b.abort_at = at; /* inside the up-calls that a Terminate causes */
		rig_inject_tagged(&rig.b, 0x40, 0xdead, 0, true, "x", 1);
		rig_pump();
		CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_ERROR);
		CHECK_EQ(rig_ev_count(&rig.b, EV_DONE), 6);
		for (unsigned int i = 0; i < 6; i++)
			CHECK(rig_status(&rig.b, &q[i]) >= 0);
		CHECK(rig.b.ev[rig.b.nev - 1].kind == EV_STATE);
		rig_close();
	}
}

/* A close with an outstanding Read, towards a peer whose TCP works and which sends nothing. */
static void
test_silent_peer(void)
{
	struct weft_rdmap_req q;
	struct weft_mem_mr *sink;

	for (int slow = 0; slow < 2; slow++) {
		rig_open(2, 2, true);
		sink = rig_reg(&rig.b, mem, sizeof(mem), 0, WEFT_ACCESS_LOCAL_WRITE, NULL, NULL);
		q = (struct weft_rdmap_req){
		        .op = WEFT_RDMAP_READ_REQ, .len_bytes = 100, .sink_stag = sink->stag};
		weft_rdmap_post(rig.b.r, &q);
		rig_pump();
		weft_rdmap_close(rig.b.r, rig.now_ns);
		rig_advance(59 * WEFT_NS_PER_S);
		CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_CLOSING);
		if (slow) { /* a peer that sends a little at a time has no time limit */
			for (unsigned int i = 0; i < 8; i++) {
				rig_inject_tagged(&rig.b, 0x42, sink->stag, 10 * i, false, mem, 10);
				rig_advance(50 * WEFT_NS_PER_S);
				CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_CLOSING);
			}
		}
		rig_advance((slow ? 121 : 2) * WEFT_NS_PER_S);
		rig_advance(61 * WEFT_NS_PER_S);
		CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_ERROR);
		CHECK_EQ(rig_status(&rig.b, &q), WEFT_RDMAP_FLUSHED);
		CHECK_EQ(rig_ev(&rig.b, EV_CLOSED, 0)->status, -ETIMEDOUT);
		rig_unreg(&rig.b, sink);
		rig_close();
	}
}

/* The time of this node's medium does not count as the peer's silence. */
static void
test_slow_medium(void)
{
	struct weft_mem_mr *mr;
	struct rig_medium m;

	rig_open(2, 2, true);
	rig_medium_open(&m, 4096);
	mr = rig_reg(&rig.b, m.p.base, 4096, 0, ALL, &m.p, &rig_hash);
	rig_inject_place(&rig.b, WEFT_RDMAP_FLUSH_REQ, 1, mr->stag, 0, 4096, "\0\0\0\1", 4);
	weft_sched_run(&rig.b.sched, rig.now_ns);
	CHECK_EQ(weft_exec_pending(rig.b.exec), 1);
	weft_rdmap_close(rig.b.r, rig.now_ns);
	for (unsigned int i = 0; i < 5; i++) {
		rig.now_ns += 61 * WEFT_NS_PER_S;
		rig.b.sched.now_ns = rig.now_ns;
		weft_timer_run(&rig.b.sched.wheel, rig.now_ns);
		CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_CLOSING);
	}
	rig_pump();
	CHECK(rig.b.fin);
	rig_unreg(&rig.b, mr);
	rig_close();
	rig_medium_close(&m);
}

/* The first FPDU of an initiator is damaged. The responder may never send, so it closes. */
static void
test_silent_responder(void)
{
	static const struct weft_term crc = {2, 0, WEFT_MPA_ERR_CRC};

	rig_open(1, 1, true);
	rig.b.ddp->mpa->peer_spoke = false;
	rig.b.ddp->mpa->rx_dead = true;
	rig.b.ddp->mpa->ops->fault(rig.b.ddp->mpa->user, &crc);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_TERMINATE);
	CHECK(rig.b.fin);
	CHECK(TAILQ_EMPTY(&rig.b.out));
	CHECK_EQ(weft_rdmap_stats(rig.b.r)->terminates_out, 0);
	rig_close();

	/* a fault of this node waits: if the peer still sends, it gets the Terminate */
	rig_open(1, 1, true);
	rig.b.ddp->mpa->peer_spoke = false;
	weft_rdmap_terminate(rig.b.r, &crc, rig.now_ns);
	rig_pump();
	CHECK(!rig.b.fin);
	rig.b.ddp->mpa->peer_spoke = true;
	rig.b.ddp->mpa->ops->writable(rig.b.ddp->mpa->user);
	rig_pump();
	CHECK(rig.b.fin);
	CHECK_EQ(weft_rdmap_stats(rig.b.r)->terminates_out, 1);
	free(rig_pop(&rig.b));
	rig_close();

	/* after the peer's FIN it never will */
	for (int late = 0; late < 2; late++) {
		struct weft_rdmap_req q[] = {{.op = WEFT_RDMAP_SEND},
		                             {.op = WEFT_RDMAP_WRITE, .stag = 1},
		                             {.op = WEFT_RDMAP_READ_REQ, .sink_stag = 1}};

		rig_open(1, 1, true);
		rig.b.ddp->mpa->peer_spoke = false;
		for (unsigned int i = 0; i < 3; i++)
			weft_rdmap_post(rig.b.r, &q[i]);
		if (late)
			weft_rdmap_terminate(rig.b.r, &crc, rig.now_ns);
		rig_pump();
		CHECK(!rig.b.fin);
		rig.b.ddp->mpa->rx_eof = true;
		weft_ddp_mpa_ops.eof(rig.b.ddp);
		rig_pump();
		CHECK(rig.b.fin);
		CHECK_EQ(rig.b.op_stats.faults.terminates_unsent, late);
		for (unsigned int i = 0; i < 3; i++)
			CHECK_EQ(rig_status(&rig.b, &q[i]), WEFT_RDMAP_FLUSHED);
		CHECK(TAILQ_EMPTY(&rig.b.out));
		rig_close();
	}
}

/* RFC 5041 s5.2: STag and TO of a message of no octets are not checked. */
static void
test_empty_read_response(void)
{
	struct weft_rdmap_req q = {.op = WEFT_RDMAP_READ_REQ, .sink_stag = 0x1234, .sink_to = 99};

	rig_open(1, 1, true);
	weft_rdmap_post(rig.b.r, &q);
	rig_pump();
	free(rig_pop(&rig.b));
	rig_inject_tagged(&rig.b, 0x42, 0x99999999, UINT64_MAX, true, NULL, 0);
	rig_pump();
	CHECK_EQ(rig_status(&rig.b, &q), WEFT_RDMAP_OK);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_RTS);
	/* unrequested octets are still refused */
	rig.b.nev = 0;
	weft_rdmap_post(rig.b.r, &q);
	rig_pump();
	free(rig_pop(&rig.b));
	rig_inject_tagged(&rig.b, 0x42, 0x1234, 99, true, "x", 1);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_TERMINATE);
	rig_close();
}

/*
 * RFC 5040 s6: a Read Request is one segment. If the MULPDU is smaller it is not sent, and the
 * Terminate that reports this has the control word only. A segment's header takes 18 octets (RFC
 * 5041 s4.3).
 */
static void
test_request_too_long(void)
{
	for (uint32_t mulpdu = 18 + 28 - 6; mulpdu <= 18 + 28; mulpdu++) {
		struct weft_rdmap_req q = {.op = WEFT_RDMAP_READ_REQ, .stag = 5, .len_bytes = 1};
		const bool fits = mulpdu == 18 + 28;
		struct rig_ulpdu *u;

		rig.mulpdu = mulpdu;
		rig_open(1, 1, true);
		weft_rdmap_post(rig.b.r, &q);
		rig_pump();
		u = rig_pop(&rig.b);
		CHECK(u != NULL);
		CHECK_EQ(u->data[1], fits ? 0x41 : 0x47);
		CHECK_EQ(u->len_bytes, fits ? 18 + 28 : 18 + 4);
		free(u);
		CHECK_EQ(rig_status(&rig.b, &q), fits ? -1 : WEFT_RDMAP_REMOTE_OP);
		rig_close();
	}
}

WEFT_TEST_MAIN({"failed_read_backs", test_failed_read_backs},
               {"inline_flush_budget", test_inline_flush_budget},
               {"repost_for_ever", test_repost_for_ever}, {"abort_in_drain", test_abort_in_drain},
               {"destroy_in_drain", test_destroy_in_drain}, {"silent_peer", test_silent_peer},
               {"slow_medium", test_slow_medium}, {"silent_responder", test_silent_responder},
               {"empty_read_response", test_empty_read_response},
               {"request_too_long", test_request_too_long})
