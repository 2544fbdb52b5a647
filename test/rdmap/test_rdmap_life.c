/* SPDX-License-Identifier: BSD-3-Clause */
/** @file How streams end: in order, by abort, by the peer, inside up-calls, at random moments. */

#include <stdlib.h>

#include "rdmap_rig.h"

#define ALL                                                                                        \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_FLUSH_PERSISTENT | WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY)

static uint8_t src[1 << 17] __rte_aligned(64), dst[1 << 17] __rte_aligned(64);

static struct weft_rdmap_req
op(uint8_t o, const struct weft_mem_mr *mr, uint32_t len, const struct weft_mem_mr *sink)
{
	return (struct weft_rdmap_req){.op = o,
	                               .nsge = 1,
	                               .sge = {{src, len}},
	                               .len_bytes = len,
	                               .stag = mr != NULL ? mr->stag : 0,
	                               .flush_flags = WEFT_FLUSH_VISIBLE,
	                               .sink_stag = sink != NULL ? sink->stag : 0};
}

static void
check_states(const struct rig_side *s, const int *want, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		const struct rig_ev *e = rig_ev(s, EV_STATE, i);

		CHECK_MSG(e != NULL && e->status == want[i], "state %u is %d, not %d", i,
		          e != NULL ? e->status : -1, want[i]);
	}
	CHECK_EQ(rig_ev_count(s, EV_STATE), n);
}

static void
test_close(void)
{
	static const int ends[] = {WEFT_RDMAP_ST_RTS, WEFT_RDMAP_ST_CLOSING, WEFT_RDMAP_ST_ERROR};
	struct weft_mem_mr *mr, *sink;
	struct weft_rdmap_req q[6], late;

	rig_open(2, 2, false);
	mr = rig_reg(&rig.b, dst, sizeof(dst), 0, ALL & ~WEFT_ACCESS_FLUSH_PERSISTENT, NULL,
	             &rig_hash);
	sink = rig_reg(&rig.a, src, sizeof(src), 0, WEFT_ACCESS_LOCAL_WRITE, NULL, NULL);
	rig.b.recv_posted = 2;
	q[0] = op(WEFT_RDMAP_WRITE, mr, 100000, NULL);
	q[1] = op(WEFT_RDMAP_READ_REQ, mr, 100000, sink);
	q[2] = op(WEFT_RDMAP_FLUSH_REQ, mr, 100000, NULL);
	q[3] = op(WEFT_RDMAP_VERIFY_REQ, mr, 100000, NULL);
	q[4] = op(WEFT_RDMAP_SEND, NULL, 3000, NULL);
	q[5] = op(WEFT_RDMAP_READ_REQ, mr, 1, sink);
	for (unsigned int i = 0; i < 6; i++)
		weft_rdmap_post(rig.a.r, &q[i]);
	weft_rdmap_close(rig.a.r, rig.now_ns);
	CHECK_EQ(weft_rdmap_state(rig.a.r), WEFT_RDMAP_ST_CLOSING);
	weft_rdmap_close(rig.a.r, rig.now_ns);
	late = op(WEFT_RDMAP_WRITE, mr, 4, NULL);
	weft_rdmap_post(rig.a.r, &late);
	rig_pump();
	for (unsigned int i = 0; i < 6; i++)
		CHECK_EQ(rig_status(&rig.a, &q[i]), WEFT_RDMAP_OK);
	CHECK_EQ(rig_status(&rig.a, &late), WEFT_RDMAP_FLUSHED);
	check_states(&rig.a, ends, 3);
	check_states(&rig.b, ends, 3);
	CHECK_EQ(rig_ev(&rig.a, EV_CLOSED, 0)->status, 0);
	CHECK_EQ(rig_ev(&rig.b, EV_CLOSED, 0)->status, 0);
	CHECK(rig.a.ev[rig.a.nev - 1].kind == EV_CLOSED);
	late = op(WEFT_RDMAP_WRITE, mr, 4, NULL);
	rig.a.nev = 0;
	weft_rdmap_post(rig.a.r, &late);
	rig_pump();
	CHECK_EQ(rig_status(&rig.a, &late), WEFT_RDMAP_FLUSHED);
	weft_rdmap_abort(rig.a.r, rig.now_ns);
	CHECK_EQ(rig.a.nev, 1);
	rig_unreg(&rig.a, sink);
	rig_unreg(&rig.b, mr);
	rig_close();
}

static void
test_close_linger(void)
{
	rig_open(2, 2, true);
	weft_rdmap_close(rig.b.r, rig.now_ns);
	rig_pump();
	CHECK(rig.b.fin);
	rig_advance(59 * WEFT_NS_PER_S);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_CLOSING);
	rig_advance(2 * WEFT_NS_PER_S);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_ERROR);
	CHECK_EQ(rig_ev(&rig.b, EV_CLOSED, 0)->status, -ETIMEDOUT);
	rig_close();
}

/* After the FIN is sent, requests of the peer cannot be answered. They are only counted. */
static void
test_after_fin(void)
{
	struct rdmap_read_req q = {.sink_stag = 1, .len_bytes = 8};
	struct weft_mem_mr *mr;

	rig_open(2, 2, true);
	mr = rig_reg(&rig.b, dst, 4096, 0, ALL & ~WEFT_ACCESS_FLUSH_PERSISTENT, NULL, &rig_hash);
	q.src_stag = mr->stag;
	weft_rdmap_close(rig.b.r, rig.now_ns);
	rig_pump();
	CHECK(rig.b.fin);
	/* more than IRD: they use no entries */
	for (uint32_t msn = 1; msn <= 4; msn++)
		rig_inject_read(&rig.b, msn, &q);
	rig_inject_place(&rig.b, WEFT_RDMAP_FLUSH_REQ, 5, mr->stag, 0, 8, "\0\0\0\2", 4);
	rig_pump();
	CHECK_EQ(rig.b.op_stats.faults.requests_after_fin, 5);
	CHECK_EQ(rig.b.op_stats.faults.requests_beyond_ird, 0);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_CLOSING);
	CHECK_EQ(rig.b.op_stats.faults.terminates_unsent, 0);
	/* a fault cannot be reported, either, and ends the stream */
	rig_inject_tagged(&rig.b, 0x40, 0xdead, 0, true, "x", 1);
	rig_pump();
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_TERMINATE);
	CHECK_EQ(rig.b.op_stats.faults.terminates_unsent, 1);
	CHECK_EQ(weft_rdmap_stats(rig.b.r)->terminates_out, 0);
	CHECK(TAILQ_EMPTY(&rig.b.out));
	rig_unreg(&rig.b, mr);
	rig_close();
}

static void
test_idle(void)
{
	static const int ends[] = {WEFT_RDMAP_ST_CLOSING, WEFT_RDMAP_ST_ERROR};
	struct weft_rdmap_req q = op(WEFT_RDMAP_SEND, NULL, 4, NULL);

	/* closed before it is started */
	rig.idle = true;
	rig_open(2, 2, true);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_IDLE);
	weft_rdmap_post(rig.b.r, &q);
	rig_pump();
	CHECK_EQ(rig_status(&rig.b, &q), WEFT_RDMAP_FLUSHED);
	weft_rdmap_close(rig.b.r, rig.now_ns);
	CHECK(rig.b.fin);
	rig_advance(10 * WEFT_NS_PER_S);
	check_states(&rig.b, ends, 2);
	rig_close();

	rig.idle = true;
	rig_open(2, 2, true);
	/* a start after the connection is lost has no effect */
	rig.b.live = false;
	rig.b.ddp->mpa->tcp = NULL;
	weft_ddp_mpa_ops.closed(rig.b.ddp, -ECONNRESET);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_ERROR);
	CHECK_EQ(rig_ev(&rig.b, EV_CLOSED, 0)->status, -ECONNRESET);
	weft_rdmap_start(rig.b.r, 4, 4);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_ERROR);
	weft_rdmap_close(rig.b.r, rig.now_ns);
	weft_rdmap_post(rig.b.r, &q);
	rig_pump();
	CHECK_EQ(rig_status(&rig.b, &q), WEFT_RDMAP_FLUSHED);
	rig_close();
}

/* After the peer's FIN a Write, which needs no response, is still sent. A Read and the requests
 * behind it are flushed. */
static void
test_eof(void)
{
	struct weft_rdmap_req w = op(WEFT_RDMAP_WRITE, NULL, 5000, NULL);
	struct weft_rdmap_req q = op(WEFT_RDMAP_READ_REQ, NULL, 8, NULL);
	struct weft_rdmap_req w2 = op(WEFT_RDMAP_WRITE, NULL, 8, NULL);
	static const uint8_t resp[18] = {0x41, 0x51, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1};
	struct weft_mem_mr *mr;
	struct rig_ulpdu *u;

	rig_open(2, 2, true);
	mr = rig_reg(&rig.b, dst, 4096, 0, ALL & ~WEFT_ACCESS_FLUSH_PERSISTENT, NULL, &rig_hash);
	rig.b.space = 1;
	weft_rdmap_post(rig.b.r, &w);
	rig_pump(); /* partly sent now */
	weft_rdmap_post(rig.b.r, &q);
	weft_rdmap_post(rig.b.r, &w2);
	rig_inject_place(&rig.b, WEFT_RDMAP_AWRITE_REQ, 1, mr->stag, 8, 8, "ABCDEFGH", 8);
	weft_ddp_mpa_ops.eof(rig.b.ddp);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_CLOSING);
	rig_pump();
	CHECK_EQ(rig_status(&rig.b, &q), WEFT_RDMAP_FLUSHED);
	CHECK_EQ(rig_status(&rig.b, &w2), WEFT_RDMAP_FLUSHED);
	CHECK_EQ(rig_status(&rig.b, &w), -1);
	CHECK(!rig.b.fin);
	rig.b.space = 10;
	rig_pump();
	CHECK_EQ(rig_status(&rig.b, &w), WEFT_RDMAP_OK);
	CHECK(rig.b.fin);
	for (unsigned int i = 0; i < 4; i++) {
		u = rig_pop(&rig.b);
		CHECK(u != NULL && u->data[0] == (i == 3 ? 0xc1 : 0x81));
		free(u);
	}
	EXPECT_ULPDU(&rig.b, resp, 18); /* the peer's earlier request is answered */
	CHECK_MEM(dst + 8, "ABCDEFGH", 8);
	rig_unreg(&rig.b, mr);
	rig_close();

	/* with an outstanding Read all requests are flushed, but the message that is partly sent is
	 * finished */
	rig_open(2, 2, true);
	mr = rig_reg(&rig.b, dst, 4096, 0, WEFT_ACCESS_REMOTE_WRITE, NULL, NULL);
	q = op(WEFT_RDMAP_READ_REQ, NULL, 8, NULL);
	w = op(WEFT_RDMAP_WRITE, NULL, 5000, NULL);
	w2 = op(WEFT_RDMAP_WRITE, NULL, 8, NULL);
	rig.b.space = 2;
	weft_rdmap_post(rig.b.r, &q);
	weft_rdmap_post(rig.b.r, &w);
	weft_rdmap_post(rig.b.r, &w2);
	rig_pump();
	rig_inject_place(&rig.b, WEFT_RDMAP_AWRITE_REQ, 1, mr->stag, 8, 8, "abcdefgh", 8);
	weft_ddp_mpa_ops.eof(rig.b.ddp);
	rig_pump();
	CHECK_EQ(rig_status(&rig.b, &q), WEFT_RDMAP_FLUSHED);
	CHECK_EQ(rig_status(&rig.b, &w2), WEFT_RDMAP_FLUSHED);
	CHECK_EQ(rig_status(&rig.b, &w), -1);
	rig.b.space = 10;
	rig_pump();
	CHECK_EQ(rig_status(&rig.b, &w), WEFT_RDMAP_OK);
	CHECK(rig.b.fin);
	for (unsigned int i = 0; i < 5; i++)
		free(rig_pop(&rig.b));
	EXPECT_ULPDU(&rig.b, resp, 18);
	rig_unreg(&rig.b, mr);
	rig_close();
}

/* The stream is aborted while a Terminate waits for the peer to close: the timer stops with the
 * stream. */
static void
test_abort_after_terminate(void)
{
	rig_open(1, 1, true);
	rig_inject_tagged(&rig.b, 0x40, 0xdead, 0, true, "x", 1);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_TERMINATE);
	weft_rdmap_abort(rig.b.r, rig.now_ns);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_ERROR);
	rig_advance(10 * WEFT_NS_PER_S);
	CHECK_EQ(rig_ev_count(&rig.b, EV_CLOSED), 0);
	rig_close();
}

static void
test_abort(void)
{
	static const int ends[] = {WEFT_RDMAP_ST_RTS, WEFT_RDMAP_ST_ERROR};
	struct weft_rdmap_req q[3];

	rig_open(1, 1, true);
	q[0] = op(WEFT_RDMAP_READ_REQ, NULL, 8, NULL);
	q[1] = op(WEFT_RDMAP_READ_REQ, NULL, 8, NULL);
	q[2] = op(WEFT_RDMAP_WRITE, NULL, 8, NULL);
	for (unsigned int i = 0; i < 3; i++)
		weft_rdmap_post(rig.b.r, &q[i]);
	rig_pump();
	rig.b.recv_posted = 1; /* the first half of a Send */
	rig_inject_untagged(&rig.b, 0x43, 0, 1, 0, false, 0, src, 100);
	weft_rdmap_abort(rig.b.r, rig.now_ns);
	for (unsigned int i = 0; i < 3; i++)
		CHECK_EQ(rig_status(&rig.b, &q[i]), WEFT_RDMAP_FLUSHED);
	CHECK_EQ(rig_ev(&rig.b, EV_RECV, 0)->status, WEFT_RDMAP_FLUSHED);
	check_states(&rig.b, ends, 2);
	CHECK(rig.b.ev[rig.b.nev - 1].kind == EV_STATE); /* the last event */
	CHECK_EQ(rig_ev_count(&rig.b, EV_CLOSED), 0);
	CHECK(rig.b.aborted);
	rig_close();
}

static struct weft_rdmap_req again;
static unsigned int agains;

static void
post_again(struct rig_side *s, const struct rig_ev *e)
{
	if (e->kind == EV_DONE && agains-- > 0)
		weft_rdmap_post(s->r, &again);
}

/* A post inside done() of a stream that has ended neither recurses nor is lost. */
static void
test_post_in_done(void)
{
	struct weft_rdmap_req q = op(WEFT_RDMAP_READ_REQ, NULL, 8, NULL);
	unsigned int n;

	rig_open(1, 1, true);
	again = op(WEFT_RDMAP_READ_REQ, NULL, 8, NULL);
	agains = 5;
	weft_rdmap_post(rig.b.r, &q);
	rig_pump();
	rig.b.hook = post_again;
	weft_rdmap_abort(rig.b.r, rig.now_ns);
	rig_pump();
	n = rig_ev_count(&rig.b, EV_DONE);
	CHECK_EQ(n, 6);
	rig_close();
}

/* A driver works on a request when the stream ends. The request is carried out, and only then is
 * the region released. */
static void
test_medium_outlives(void)
{
	for (int how = 0; how < 8; how++) {
		bool read = how % 2;
		struct rig_medium m;
		struct weft_mem_mr *mr;

		rig_open(2, 2, true);
		rig_medium_open(&m, 8192);
		mr = rig_reg(&rig.b, m.p.base, 8192, 0, ALL, &m.p, &rig_hash);
		rig_inject_place(&rig.b, read ? WEFT_RDMAP_VERIFY_REQ : WEFT_RDMAP_FLUSH_REQ, 1,
		                 mr->stag, 0, 8192, "\0\0\0\1", read ? 0 : 4);
		weft_sched_run(&rig.b.sched, rig.now_ns);
		CHECK_EQ(weft_exec_pending(rig.b.exec), 1);
		rig_unreg(&rig.b, mr);
		if (how / 2 == 0) {
			weft_rdmap_destroy(rig.b.r);
			rig.b.r = NULL;
		} else if (how / 2 == 1) {
			weft_rdmap_abort(rig.b.r, rig.now_ns);
		} else if (how / 2 ==
		           /* inside an up-call; the memory of the stream is freed later, too */
		           2) {
			rig.b.recv_posted = 1;
			rig.b.destroy_at = 1;
			rig_inject_untagged(&rig.b, 0x43, 0, 1, 0, true, 0, src, 10);
			CHECK(rig.b.r == NULL);
			weft_sched_run(&rig.b.sched, rig.now_ns);
		} else { /* a fault of the peer during the request */
			rig_inject_tagged(&rig.b, 0x40, 0xdead, 0, true, "x", 1);
		}
		weft_mem_quiescent(rig.b.mem, 0);
		weft_mem_reclaim(rig.b.mem);
		CHECK_EQ(rig.b.pd.regions, 1);
		rig_pump();
		CHECK_EQ(rig.b.pd.regions, 0);
		rig_close();
		rig_medium_close(&m);
	}
}

/* ---- Two streams under full load; one of them ends at the n-th up-call ---- */

#define NREQ 24

static struct weft_rdmap_req *work[2][NREQ];
static struct rig_medium work_med;
static struct weft_mem_mr *work_mr[2];

static void
work_open(uint64_t seed)
{
	struct rig_side *side[2] = {&rig.a, &rig.b};

	rig.rng = seed * 0x9e3779b97f4a7c15ull + 1;
	rig.mulpdu = 200;
	rig_open(3, 3, false);
	rig_medium_open(&work_med, 65536);
	work_mr[0] = rig_reg(&rig.a, dst, 65536, 0, ALL & ~WEFT_ACCESS_FLUSH_PERSISTENT, NULL,
	                     &rig_hash);
	work_mr[1] = rig_reg(&rig.b, work_med.p.base, 65536, 0, ALL, &work_med.p, &rig_hash);
	for (int i = 0; i < 2; i++) {
		side[i]->recv_posted = 20;
		side[i]->space = 8;
		for (unsigned int k = 0; k < NREQ; k++) {
			static const uint8_t ops[] = {WEFT_RDMAP_WRITE,      WEFT_RDMAP_READ_REQ,
			                              WEFT_RDMAP_SEND_SE,    WEFT_RDMAP_FLUSH_REQ,
			                              WEFT_RDMAP_VERIFY_REQ, WEFT_RDMAP_AWRITE_REQ};
			uint8_t o = ops[rig_random() % 6];
			uint32_t len =
			        o == WEFT_RDMAP_AWRITE_REQ ? 8 : (uint32_t)(rig_random() % 1500);

			/* each in its own memory, so that ASan detects a late access */
			work[i][k] = malloc(sizeof(*work[i][k]));
			*work[i][k] = op(o, work_mr[!i], len, work_mr[i]);
			weft_rdmap_post(side[i]->r, work[i][k]);
		}
	}
}

static void
work_step(void)
{
	if (rig_random() % 2)
		rig.a.space = (uint32_t)(rig_random() % 9);
	if (rig_random() % 2)
		rig.b.space = (uint32_t)(rig_random() % 9);
	rig_step();
}

/* Each request completes once, unless its stream was destroyed. ERROR comes after all
 * completions. */
static void
work_check(struct rig_side *s, int i, bool over)
{
	for (unsigned int k = 0; k < NREQ; k++)
		if (work[i][k] != NULL)
			CHECK(rig_status(s, work[i][k]) >= 0);
	if (!over)
		return;
	CHECK_EQ(weft_rdmap_state(s->r), WEFT_RDMAP_ST_ERROR);
	for (unsigned int k = 0, error = 0; k < s->nev; k++) {
		error |= s->ev[k].kind == EV_STATE && s->ev[k].status == WEFT_RDMAP_ST_ERROR;
		CHECK(!error || (s->ev[k].kind != EV_DONE && s->ev[k].kind != EV_RECV));
	}
}

static void
work_close(void)
{
	rig_unreg(&rig.a, work_mr[0]);
	rig_unreg(&rig.b, work_mr[1]);
	rig_close();
	rig_medium_close(&work_med);
	for (int i = 0; i < 2; i++)
		for (unsigned int k = 0; k < NREQ; k++)
			free(work[i][k]);
}

static void
free_on_destroy(struct rig_side *s, const struct rig_ev *e)
{
	int i = s == &rig.b;

	(void)e;
	if (s->destroy_at != 1)
		return;
	/* destroyed after this up-call: the requests belong to verbs and are freed with the QP */
	for (unsigned int k = 0; k < NREQ; k++) {
		free(work[i][k]);
		work[i][k] = NULL;
	}
}

static void
work_run(uint64_t seed, unsigned int side, unsigned int n, bool destroy, bool *reached)
{
	struct rig_side *s = side ? &rig.b : &rig.a, *o = side ? &rig.a : &rig.b;

	work_open(seed);
	s->hook = destroy ? free_on_destroy : NULL;
	*(destroy ? &s->destroy_at : &s->abort_at) = n;
	for (unsigned int turn = 0; turn < 3000; turn++)
		work_step();
	rig.a.space = rig.b.space = UINT32_MAX;
	rig_pump();
	*reached = *(destroy ? &s->destroy_at : &s->abort_at) == 0;
	if (!destroy)
		work_check(s, (int)side, *reached);
	work_check(o, !side, *reached);
	work_close();
}

static void
test_destroy_in_upcalls(void)
{
	for (unsigned int side = 0; side < 2; side++) {
		bool reached = true;
		unsigned int n = 0;

		while (reached)
			n++, work_run(n % 3, side, n, true, &reached);
		test_note("side %u: %u up-calls", side, n - 1);
		CHECK(n > NREQ);
	}
}

static void
test_abort_in_upcalls(void)
{
	for (unsigned int side = 0; side < 2; side++) {
		bool reached = true;
		unsigned int n = 0;

		while (reached)
			n++, work_run(n % 3, side, n, false, &reached);
		CHECK(n > NREQ);
	}
}

/* The stream ends in a random way at a random moment. */
static void
test_random_end(void)
{
	unsigned int rounds = test_seed_given() ? 1 : 400;

	for (unsigned int i = 0; i < rounds; i++) {
		uint64_t seed = test_seed(1000 + i);
		uint8_t junk[64];
		unsigned int steps;
		bool over = true;

		work_open(seed);
		steps = (unsigned int)(rig_random() % 120);
		for (unsigned int k = 0; k < steps; k++)
			work_step();
		switch (rig_random() % 7) {
		case 0:
			weft_rdmap_abort(rig.a.r, rig.now_ns);
			break;
		case 1:
			weft_rdmap_close(rig.b.r, rig.now_ns);
			break;
		case 2:
			work_med.flush_err = -EIO;
			over = false;
			break;
		case 3:
			work_med.read_err = -EIO;
			over = false;
			break;
		case 4:
			for (unsigned int k = 0; k < sizeof(junk); k++)
				junk[k] = (uint8_t)rig_random();
			rig_inject(&rig.a, junk, (uint32_t)(rig_random() % 65));
			break;
		case 5: /* CRC */
			rig.b.ddp->mpa->ops->fault(rig.b.ddp->mpa->user,
			                           &(struct weft_term){2, 0, WEFT_MPA_ERR_CRC});
			break;
		default: /* an STag is invalidated while the peer uses it */
			rig_unreg(&rig.b, work_mr[1]);
			work_mr[1] = rig_reg(&rig.b, work_med.p.base, 65536, 0, ALL, &work_med.p,
			                     &rig_hash);
			over = false;
			break;
		}
		for (unsigned int k = 0; k < 3000; k++)
			work_step();
		rig.a.space = rig.b.space = UINT32_MAX;
		rig_pump();
		if (over)
			rig_advance(6 * WEFT_NS_PER_S);
		over |= weft_rdmap_state(rig.a.r) == WEFT_RDMAP_ST_ERROR;
		work_check(&rig.a, 0, over);
		work_check(&rig.b, 1, over);
		work_close();
	}
}

/** rdmap asks whether to connect again only if the connection ends during start-up. */
static void
test_again(void)
{
	for (unsigned int how = 0; how < 3; how++) {
		rig.idle = how < 2;
		rig_open(1, 1, true);
		rig.idle = false;
		rig.b.again = how == 1;
		rig.b.ddp->mpa->tcp = NULL;
		rig.b.live = false;
		weft_ddp_mpa_ops.closed(rig.b.ddp, -ECONNRESET);
		rig_pump();
		CHECK_EQ(rig.b.agains, how < 2);
		CHECK_EQ(rig_ev_count(&rig.b, EV_CLOSED), how != 1);
		CHECK_EQ(weft_rdmap_state(rig.b.r),
		         how == 1 ? WEFT_RDMAP_ST_IDLE : WEFT_RDMAP_ST_ERROR);
		rig_close();
	}
}

WEFT_TEST_MAIN({"again", test_again}, {"close", test_close}, {"close_linger", test_close_linger},
               {"after_fin", test_after_fin}, {"idle", test_idle}, {"eof", test_eof},
               {"abort", test_abort}, {"abort_after_terminate", test_abort_after_terminate},
               {"post_in_done", test_post_in_done}, {"medium_outlives", test_medium_outlives},
               {"destroy_in_upcalls", test_destroy_in_upcalls},
               {"abort_in_upcalls", test_abort_in_upcalls}, {"random_end", test_random_end})
