/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A gate before a region (weft/gate.h): requests of the peer wait at it in order, go on when
 * it says so, and leave it when their stream ends. Gates are on the heap and are freed as soon as
 * the header allows it, so AddressSanitizer sees a gate that is used too late.
 */

#include <weft/gate.h>

#include "vt_fast.h"

#define BASE_TO 0x700000000ull
#define BYTES   65536u
#define RIGHTS  (RW | WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_FLUSH_VISIBLE)

/** A gate that lets nothing pass by itself. */
struct closed {
	struct weft_gate gate; /* first */
	TAILQ_HEAD(, weft_gate_wait) waiting;
	unsigned int asked, left;
};

struct rig {
	struct vt t;
	struct closed *c;
	struct weft_mr *mr;
	bool is_free;
};

static bool
closed_enter(struct weft_gate *g, struct weft_gate_wait *w)
{
	struct closed *c = (struct closed *)g;

	c->asked++;
	w->gate = g;
	TAILQ_INSERT_TAIL(&c->waiting, w, link);
	return false;
}

static void
closed_leave(struct weft_gate *g, struct weft_gate_wait *w)
{
	struct closed *c = (struct closed *)g;

	CHECK(w->gate == g);
	TAILQ_REMOVE(&c->waiting, w, link);
	w->gate = NULL;
	c->left++;
}

/** Let the one that waits go, refused or not; what it would be charged. */
static uint64_t
let_go_as(struct rig *r, bool refused)
{
	struct weft_gate_wait *w = TAILQ_FIRST(&r->c->waiting);
	uint64_t bytes;

	CHECK(w != NULL && TAILQ_NEXT(w, link) == NULL);
	bytes = w->bytes;
	TAILQ_REMOVE(&r->c->waiting, w, link);
	w->gate = NULL;
	w->refused = refused;
	w->go(w);
	return bytes;
}

static uint64_t
let_go(struct rig *r)
{
	return let_go_as(r, false);
}

static void
rig_up(struct rig *r, bool on)
{
	const struct vt_attr va = {.seed = test_seed(1)};
	struct weft_mr_attr ma = {
	        .size = sizeof(ma), .len_bytes = BYTES, .base_to = BASE_TO, .access = RIGHTS};

	*r = (struct rig){.is_free = false};
	r->c = calloc(1, sizeof(*r->c));
	CHECK(r->c != NULL);
	r->c->gate = (struct weft_gate){.on = on, .enter = closed_enter, .leave = closed_leave};
	TAILQ_INIT(&r->c->waiting);
	vt_open(&r->t, &va);
	vt_connect(&r->t, NULL, NULL);
	vt_speak(&r->t);
	vt_mem(&r->t.n[0], BYTES, RW);
	vt_mem(&r->t.n[1], BYTES, RW);
	vt_fill(r->t.n[1].mem, BYTES, 7);
	ma.addr = r->t.n[1].mem;
	ma.gate = &r->c->gate;
	CHECK_EQ(weft_mr_reg(r->t.n[1].pd, &ma, &r->mr), 0);
}

static void
rig_freed(void *arg)
{
	struct rig *r = arg;

	r->is_free = true;
	free(r->c);
	r->c = NULL;
}

static bool
rig_is_free(void *arg)
{
	return ((struct rig *)arg)->is_free;
}

/** The region ends, and with it the gate. */
static void
rig_down(struct rig *r)
{
	if (!r->is_free && r->mr != NULL)
		weft_mr_dereg(r->mr, rig_freed, r);
	CHECK(vt_until(&r->t, VT_S, rig_is_free, r));
	vt_close(&r->t);
}

static void
post(struct rig *r, enum weft_wr_opcode op, uint32_t len, uint64_t id)
{
	struct weft_sge sg = {r->t.n[0].mem, len, weft_mr_stag(r->t.n[0].mr)};
	struct weft_wr wr = op == WEFT_WR_FLUSH ? wr_flush(weft_mr_stag(r->mr), BASE_TO, len,
	                                                   WEFT_FLUSH_VISIBLE)
	                                        : wr_rdma(op, &sg, weft_mr_stag(r->mr), BASE_TO);

	wr.wr_id = id;
	vt_post(&r->t.n[0], &wr);
}

/** Reads and Flushes go on one by one, in order, and are charged what they name or have received;
 * a Write is not asked for. */
static void
test_order(void)
{
	struct rig r;
	struct weft_wc wc;

	rig_up(&r, true);
	post(&r, WEFT_WR_READ, 3000, 1);
	post(&r, WEFT_WR_WRITE, 2000, 2);
	post(&r, WEFT_WR_FLUSH, BYTES, 3);
	post(&r, WEFT_WR_READ, 100, 4);
	vt_run(&r.t, VT_S / 10);
	CHECK_EQ(r.c->asked, 1);
	CHECK_EQ(let_go(&r), 3000);
	wc = vt_wc(&r.t.n[0]);
	CHECK(wc.wr_id == 1 && wc.status == WEFT_WC_SUCCESS);
	wc = vt_wc(&r.t.n[0]);
	CHECK(wc.wr_id == 2 && wc.status == WEFT_WC_SUCCESS);
	vt_run(&r.t, VT_S / 10);
	CHECK_EQ(r.c->asked, 2);
	/* It names the whole region. Charged is what has come, the first message too. */
	CHECK(TAILQ_FIRST(&r.c->waiting)->bytes >= 2000 &&
	      TAILQ_FIRST(&r.c->waiting)->bytes < 3000);
	let_go(&r);
	wc = vt_wc(&r.t.n[0]);
	CHECK(wc.wr_id == 3 && wc.status == WEFT_WC_SUCCESS);
	vt_run(&r.t, 5 * VT_S); /* longer than what is kept for requests, were there none */
	CHECK_EQ(r.c->asked, 3);
	CHECK_EQ(let_go(&r), 100);
	wc = vt_wc(&r.t.n[0]);
	CHECK(wc.wr_id == 4 && wc.status == WEFT_WC_SUCCESS);
	CHECK_EQ(r.c->asked, 3);
	CHECK_EQ(r.c->left, 0);
	rig_down(&r);
}

/** A gate that is off is not asked. */
static void
test_off(void)
{
	struct rig r;
	struct weft_wc wc;

	rig_up(&r, false);
	post(&r, WEFT_WR_READ, 3000, 1);
	post(&r, WEFT_WR_FLUSH, 3000, 2);
	for (uint64_t id = 1; id <= 2; id++) {
		wc = vt_wc(&r.t.n[0]);
		CHECK(wc.wr_id == id && wc.status == WEFT_WC_SUCCESS);
	}
	CHECK_EQ(r.c->asked, 0);
	rig_down(&r);
}

/** The region ends while a request waits at its gate, and is free only when the gate has let that
 * go. A Flush is executed all the same; a Read is refused. */
static void
test_region_ends(enum weft_wr_opcode op)
{
	struct rig r;

	rig_up(&r, true);
	post(&r, op, 1000, 1);
	post(&r, WEFT_WR_READ, 1000, 2);
	vt_run(&r.t, VT_S / 10);
	CHECK_EQ(r.c->asked, 1);
	weft_mr_dereg(r.mr, rig_freed, &r);
	vt_run(&r.t, VT_S / 10);
	CHECK(!r.is_free);
	let_go(&r);
	if (op == WEFT_WR_FLUSH)
		CHECK_EQ(vt_wc(&r.t.n[0]).status, WEFT_WC_SUCCESS);
	CHECK(vt_wc(&r.t.n[0]).status != WEFT_WC_SUCCESS);
	rig_down(&r);
}

/** A request that the gate refuses is not executed, also while its region stands, and keeps the
 * region no longer. What is behind it is not executed either: the stream ends. */
static void
test_refused(enum weft_wr_opcode op)
{
	struct rig r;
	struct weft_wc wc;

	rig_up(&r, true);
	post(&r, op, 1000, 1);
	post(&r, WEFT_WR_READ, 1000, 2);
	vt_run(&r.t, VT_S / 10);
	CHECK_EQ(r.c->asked, 1);
	let_go_as(&r, true);
	weft_mr_dereg(r.mr, rig_freed, &r);
	wc = vt_wc(&r.t.n[0]);
	CHECK_EQ(wc.wr_id, 1);
	CHECK_EQ(wc.status, WEFT_WC_REMOTE_ACCESS);
	CHECK(vt_wc(&r.t.n[0]).status != WEFT_WC_SUCCESS);
	CHECK(vt_until(&r.t, VT_S, rig_is_free, &r));
	rig_down(&r);
}

static void
test_refused_read(void)
{
	test_refused(WEFT_WR_READ);
}

static void
test_refused_flush(void)
{
	test_refused(WEFT_WR_FLUSH);
}

static void
test_region_ends_read(void)
{
	test_region_ends(WEFT_WR_READ);
}

static void
test_region_ends_flush(void)
{
	test_region_ends(WEFT_WR_FLUSH);
}

/** The stream ends at either side while a request waits. */
static void
test_stream_ends(unsigned int side)
{
	struct rig r;

	rig_up(&r, true);
	post(&r, WEFT_WR_FLUSH, 1000, 1);
	vt_run(&r.t, VT_S / 10);
	CHECK_EQ(r.c->asked, 1);
	weft_abort(r.t.n[side].qp);
	vt_run(&r.t, VT_S);
	CHECK_EQ(r.c->left, 1);
	CHECK(TAILQ_EMPTY(&r.c->waiting));
	CHECK(vt_wc(&r.t.n[0]).status != WEFT_WC_SUCCESS);
	rig_down(&r);
}

static void
test_initiator_ends(void)
{
	test_stream_ends(0);
}

static void
test_responder_ends(void)
{
	test_stream_ends(1);
}

WEFT_TEST_MAIN({"requests wait in order", test_order}, {"a gate that is off", test_off},
               {"the region of a Read ends", test_region_ends_read},
               {"the region of a Flush ends", test_region_ends_flush},
               {"a Read is refused", test_refused_read}, {"a Flush is refused", test_refused_flush},
               {"the initiator's end", test_initiator_ends},
               {"the responder's end", test_responder_ends})
