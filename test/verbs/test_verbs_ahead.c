/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Writes that are placed behind a gap of the stream (weft_mpa_policy.place_ahead): what the target
 * sees before the gap is filled, after it, and when the Write turns out to be refused.
 */

#include "test_xorshift.h"
#include "vt.h"
#include "vt_fast.h"
#include "weft_tcp.h"

#define RIGHTS  (WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_REMOTE_READ)
#define BASE_TO 0x200000000ULL /* of vt_mem() at node 1 */

static const struct weft_mpa_policy ahead = {.size = sizeof(ahead), .place_ahead = true};

static void
up(struct vt *t, const struct vt_attr *a, const struct weft_mpa_policy *p0,
   const struct weft_mpa_policy *p1, uint64_t len)
{
	struct weft_conn_attr ca[2] = {{.size = sizeof(ca[0]), .mpa = p0},
	                               {.size = sizeof(ca[1]), .mpa = p1}};
	struct weft_qp_attr qa[2];

	vt_open(t, a);
	vt_mem(&t->n[0], len, RIGHTS);
	vt_mem(&t->n[1], len, RIGHTS);
	for (unsigned int i = 0; i < 2; i++)
		qa[i] = vt_qp_attr(&t->n[i]);
	vt_connect_as(t, qa, ca);
	vt_speak(t);
}

static uint64_t
taken(struct vt *t)
{
	struct weft_worker_stats st;

	weft_worker_stats(t->n[1].w, &st);
	return st.fpdus_ahead;
}

static struct weft_wr
write_to(struct weft_sge *sg, void *p, uint32_t len, uint32_t stag, uint64_t to, uint32_t flags)
{
	*sg = (struct weft_sge){.addr = p, .len_bytes = len};
	return (struct weft_wr){.opcode = WEFT_WR_WRITE,
	                        .flags = flags,
	                        .sg_list = sg,
	                        .num_sge = 1,
	                        .rdma = {.stag = stag, .to = to}};
}

/** Lose the first packet that node 0 sends from here on. */
static void
lose_next(struct vt *t, const struct sim_link_cfg *link)
{
	struct sim_link_cfg c = *link;

	c.loss_mask = 1;
	sim_link_set(t->link, 0, &c);
}

/**
 * The first packet of a Write is lost. With place_ahead all other packets are in memory before the
 * first is sent again, and its buffers are free; without it none is. The completion waits for it in
 * both cases.
 */
static void
test_before_the_gap(void)
{
	enum { LEN = 64 * 1024 };
	static const uint8_t zero[LEN];

	for (unsigned int on = 0; on < 2; on++) {
		/* The repair takes 20 ms at least, because the SACKs need as long as that. */
		struct vt_attr a = {.link = {.delay_ns = 10 * VT_MS},
		                    .tcp = {.initial_cwnd_segs = 100}};
		struct weft_tcp_info info;
		struct weft_tcp_conn *c;
		struct weft_sge sg;
		struct weft_wr wr;
		struct weft_wc wc;
		uint32_t id = 0;
		struct vt t;

		up(&t, &a, NULL, on ? &ahead : NULL, LEN);
		vt_fill(t.n[0].mem, LEN, 3);
		vt_post_recv(&t.n[1], NULL, 0, 7);
		wr = write_to(&sg, t.n[0].mem, LEN, weft_mr_stag(t.n[1].mr), BASE_TO, 0);
		wr.opcode = WEFT_WR_WRITE_IMM;
		lose_next(&t, &a.link);
		vt_post(&t.n[0], &wr);
		vt_run(&t, 12 * VT_MS);
		c = weft_tcp_conn_next(weft_engine_tcp(t.n[1].w), &id, UINT32_MAX);
		weft_tcp_info(c, &info);
		CHECK(info.ooo_segs > 40);
		CHECK_EQ(weft_cq_poll(t.n[1].cq, &wc, 1), 0);
		CHECK_MEM(t.n[1].mem, zero, 1000);
		if (on) {
			CHECK(taken(&t) > 40);
			CHECK_MEM(t.n[1].mem + 2000, t.n[0].mem + 2000, LEN - 2 * 2000);
			CHECK(info.ooo_mbufs <= 4);
		} else {
			CHECK_EQ(taken(&t), 0);
			CHECK_MEM(t.n[1].mem, zero, LEN);
			CHECK(info.ooo_mbufs > 40);
		}
		wc = vt_wc(&t.n[1]);
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
		CHECK_MEM(t.n[1].mem, t.n[0].mem, LEN);
		vt_close(&t);
	}
}

/** Only with markers and CRC, and only where this side has asked for it. */
static void
test_only_if_found(void)
{
	static const struct weft_mpa_policy markers = {.size = sizeof(markers), .markers = true},
	                                    bare = {.size = sizeof(bare),
	                                            .no_crc = true,
	                                            .place_ahead = true},
	                                    no_crc = {.size = sizeof(no_crc), .no_crc = true};
	const struct {
		const struct weft_mpa_policy *p0, *p1;
		bool takes;
	} rows[] = {{NULL, NULL, false},     {NULL, &markers, false}, {&ahead, NULL, false},
	            {&no_crc, &bare, false}, {NULL, &bare, true},     {NULL, &ahead, true}};

	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		struct vt_attr a = {.tcp = {.initial_cwnd_segs = 100}};
		struct weft_sge sg;
		struct weft_wr wr;
		struct vt t;

		up(&t, &a, rows[i].p0, rows[i].p1, 30000);
		vt_fill(t.n[0].mem, 30000, 3);
		vt_post_recv(&t.n[1], NULL, 0, 7);
		wr = write_to(&sg, t.n[0].mem, 30000, weft_mr_stag(t.n[1].mr), BASE_TO, 0);
		wr.opcode = WEFT_WR_WRITE_IMM;
		a.link.delay_ns = 20000;
		lose_next(&t, &a.link);
		vt_post(&t.n[0], &wr);
		CHECK_EQ(vt_wc(&t.n[1]).status, WEFT_WC_SUCCESS);
		CHECK_MEM(t.n[1].mem, t.n[0].mem, 30000);
		CHECK_MSG((taken(&t) > 0) == rows[i].takes, "row %u", i);
		vt_close(&t);
	}
}

/**
 * Writes of random length to overlapping places, Sends between them, over a link that loses,
 * reorders and duplicates. The memory ends up as if all had been placed in the order sent.
 */
static void
overlapping(uint64_t seed, uint64_t *all)
{
	enum { LEN = 16 * 1024, OPS = 400, DEPTH = 64 };
	struct vt_attr a = {.seed = seed,
	                    .link = {.delay_ns = 100000,
	                             .loss_ppm = 30000,
	                             .dup_ppm = 10000,
	                             .reorder_ppm = 50000,
	                             .reorder_ns = 150000},
	                    .tcp = {.initial_cwnd_segs = 100}};
	static uint8_t model[LEN], src[DEPTH][LEN];
	uint64_t x = seed * 2 + 1;
	uint8_t in[8];
	struct vt t;

	up(&t, &a, &ahead, &ahead, LEN);
	memset(model, 0, sizeof(model));
	vt_post_recv(&t.n[1], in, sizeof(in), 0);
	for (unsigned int i = 0; i < OPS; i++) {
		uint32_t off = (uint32_t)(test_xorshift(&x) % LEN);
		uint32_t len = 1 + (uint32_t)(test_xorshift(&x) % (LEN - off));
		struct weft_sge sg;
		struct weft_wr wr = write_to(&sg, src[i % DEPTH], len, weft_mr_stag(t.n[1].mr),
		                             BASE_TO + off, 0);
		bool last = i % DEPTH == DEPTH - 1 || i == OPS - 1;

		if (test_xorshift(&x) % 4 == 0)
			sg.len_bytes = len = RTE_MIN(len, 100u);
		vt_fill(src[i % DEPTH], len, x);
		memcpy(model + off, src[i % DEPTH], len);
		vt_post(&t.n[0], &wr);
		if (!last)
			continue;
		wr = write_to(&sg, src[0], sizeof(in), 0, 0, 0);
		wr.opcode = WEFT_WR_SEND;
		vt_post(&t.n[0], &wr);
		CHECK_EQ(vt_wc(&t.n[1]).status, WEFT_WC_SUCCESS);
		CHECK_MEM(t.n[1].mem, model, LEN);
		vt_post_recv(&t.n[1], in, sizeof(in), 0);
	}
	*all += taken(&t);
	vt_close(&t);
}

static void
test_overlapping(void)
{
	uint64_t all = 0;

	for (unsigned int i = 0; i < 40 && (i == 0 || !test_seed_given()); i++) {
		uint64_t seed = test_seed(1000 + i);

		test_seed_note(seed);
		overlapping(seed, &all);
	}
	CHECK(all > 1000);
}

/**
 * A Send with Invalidate is lost, and the Write behind it goes to the STag that it invalidates. The
 * Write is placed, because the STag is valid; its fault comes in its turn, behind the Send.
 */
static void
test_invalidated_in_the_gap(void)
{
	enum { LEN = 16 * 1024 };
	struct vt_attr a = {.link = {.delay_ns = 10 * VT_MS}, .tcp = {.initial_cwnd_segs = 100}};
	struct weft_sge sg;
	struct weft_wr wr;
	struct weft_mr *mr;
	uint8_t in[8], *p = calloc(1, LEN);
	uint32_t stag;
	struct weft_wc wc;
	struct vt t;

	CHECK(p != NULL);
	up(&t, &a, NULL, &ahead, LEN);
	vt_fill(t.n[0].mem, LEN, 3);
	CHECK_EQ(weft_mr_alloc(t.n[1].pd, &mr), 0);
	stag = fast_reg(&t.n[1], mr, p, LEN, 0, WEFT_ACCESS_REMOTE_WRITE);
	vt_post_recv(&t.n[1], in, sizeof(in), 1);
	vt_post_recv(&t.n[1], in, sizeof(in), 2);
	lose_next(&t, &a.link);
	wr = write_to(&sg, t.n[0].mem, sizeof(in), 0, 0, 0);
	wr.opcode = WEFT_WR_SEND_INV;
	wr.send.inv_stag = stag;
	vt_post(&t.n[0], &wr);
	vt_run(&t, 100000);
	wr = write_to(&sg, t.n[0].mem, LEN, stag, 0, 0);
	vt_post(&t.n[0], &wr);
	vt_run(&t, 12 * VT_MS);
	CHECK(taken(&t) > 0);
	CHECK_MEM(p, t.n[0].mem, 10000);
	CHECK_EQ(weft_cq_poll(t.n[1].cq, &wc, 1), 0);
	wc = vt_wc(&t.n[1]);
	CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
	CHECK_EQ(wc.wr_id, 1);
	/* Layer DDP, tagged buffer error, invalid STag. */
	want_term(&t.n[1], 1, 1, 0, true);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	vt_close(&t);
	free(p);
}

/** The target's own program invalidates the STag before the gap is filled: the same. */
static void
test_refused_in_its_turn(void)
{
	enum { LEN = 16 * 1024 };
	struct vt_attr a = {.link = {.delay_ns = 10 * VT_MS}, .tcp = {.initial_cwnd_segs = 100}};
	struct weft_sge sg;
	struct weft_wr wr;
	struct vt t;

	up(&t, &a, NULL, &ahead, LEN);
	vt_fill(t.n[0].mem, LEN, 3);
	wr = write_to(&sg, t.n[0].mem, LEN, weft_mr_stag(t.n[1].mr), BASE_TO, 0);
	lose_next(&t, &a.link);
	vt_post(&t.n[0], &wr);
	vt_run(&t, 12 * VT_MS);
	CHECK(taken(&t) > 0);
	CHECK_EQ(weft_mr_dereg(t.n[1].mr, NULL, NULL), 0);
	t.n[1].mr = NULL;
	want_term(&t.n[1], 1, 1, 0, true);
	vt_close(&t);
}

static void
on_freed(void *arg)
{
	*(bool *)arg = true;
}

/**
 * A Send is lost, and the Write behind it is placed ahead. Its region is deregistered, and the
 * program uses the memory as a receive buffer. The Send is stored there as a whole.
 */
static void
test_memory_used_again(void)
{
	enum { LEN = 16 * 1024, SENT = 1000, AT = 2000 };
	struct vt_attr a = {.link = {.delay_ns = 10 * VT_MS}, .tcp = {.initial_cwnd_segs = 100}};
	static uint8_t payload[SENT];
	bool freed = false;
	struct weft_sge sg;
	struct weft_wr wr;
	struct weft_wc wc;
	struct vt t;

	up(&t, &a, NULL, &ahead, LEN);
	memset(t.n[0].mem, 0xee, LEN);
	memset(payload, 0x55, SENT);
	lose_next(&t, &a.link);
	wr = write_to(&sg, payload, SENT, 0, 0, 0);
	wr.opcode = WEFT_WR_SEND;
	vt_post(&t.n[0], &wr);
	vt_run(&t, 100000);
	wr = write_to(&sg, t.n[0].mem, LEN, weft_mr_stag(t.n[1].mr), BASE_TO, 0);
	vt_post(&t.n[0], &wr);
	vt_run(&t, 12 * VT_MS);
	CHECK(taken(&t) > 0);
	CHECK_EQ(weft_mr_dereg(t.n[1].mr, on_freed, &freed), 0);
	t.n[1].mr = NULL;
	vt_run(&t, 300000);
	CHECK(freed);
	memset(t.n[1].mem, 0, LEN);
	vt_post_recv(&t.n[1], t.n[1].mem + AT, SENT, 9);
	wc = vt_wc(&t.n[1]);
	CHECK_EQ(wc.wr_id, 9);
	CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
	CHECK_MEM(t.n[1].mem + AT, payload, SENT);
	want_term(&t.n[1], 1, 1, 0, true); /* the Write has no STag any more */
	vt_close(&t);
}

WEFT_TEST_MAIN({"before the gap is filled", test_before_the_gap},
               {"only where FPDUs are found", test_only_if_found},
               {"overlapping Writes end as sent", test_overlapping},
               {"invalidated in the gap", test_invalidated_in_the_gap},
               {"refused in its turn", test_refused_in_its_turn},
               {"memory that is used again", test_memory_used_again})
