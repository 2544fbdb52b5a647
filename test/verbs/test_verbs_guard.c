/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A file is truncated under a region of driver "pmem" (weft/guard.h). For each operation that
 * touches the missing pages, the cases check the reports at both sides and the consumer's event.
 * The other streams, the other regions and the process go on.
 */

#include <errno.h>
#include <unistd.h>

#include "medium_test.h"
#include "vt_fast.h"
#include <weft/guard.h>
#include <weft/bad_range.h>

#define BASE_TO 0x700000000ull
#define PG      4096
#define PAGES   64
#define BYTES   (PAGES * PG)
#define CUT     (16 * PG) /* length of the truncated file */
#define ALL     (RW | WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_FLUSH_PERSISTENT | WEFT_ACCESS_VERIFY)

static struct {
	struct vt t;
	/** another stream, which uses another region of the same medium */
	struct weft_qp *first[2];
	struct weft_persist *p;
	struct weft_mr *mr, *low; /**< the whole medium; the part that stays */
	const char *path;
} g;

static struct weft_mr *
reg(uint64_t len, int want)
{
	const struct weft_mr_attr a = {.size = sizeof(a),
	                               .addr = g.p->base,
	                               .len_bytes = len,
	                               .base_to = BASE_TO,
	                               .access = ALL,
	                               .persist = g.p,
	                               .hash = "crc32c"};
	struct weft_mr *mr = NULL;

	CHECK_EQ(weft_mr_reg(g.t.n[1].pd, &a, &mr), want);
	return mr;
}

static void
begin(void)
{
	open_pair(&g.t, NULL);
	vt_second_stream(&g.t, g.first);
	vt_mem(&g.t.n[0], BYTES, RW | WEFT_ACCESS_REMOTE_ATOMIC);
	vt_fill(g.t.n[0].mem, BYTES, 5);
	g.path = scratch_path("medium");
	unlink(g.path);
	put_file(g.path, BYTES, 0x33);
	g.p = must_open("pmem", g.path, BYTES, false);
	g.mr = reg(BYTES, 0);
	g.low = reg(CUT, 0);
	CHECK_EQ(weft_guard_install(), 0);
}

/** On the other stream, all operations on the remaining part still work. */
static void
others_go_on(void)
{
	struct weft_sge sg = {g.t.n[0].mem, CUT, 0};
	struct weft_wr wr[4];
	uint8_t crc[4];

	vt_crc32c(g.t.n[0].mem, CUT, crc);
	wr[0] = wr_rdma(WEFT_WR_WRITE, &sg, weft_mr_stag(g.low), BASE_TO);
	wr[1] = (struct weft_wr){.opcode = WEFT_WR_FLUSH,
	                         .flags = WEFT_WR_SIGNALED,
	                         .flush = {.stag = weft_mr_stag(g.low),
	                                   .to = BASE_TO,
	                                   .len_bytes = CUT,
	                                   .flags = WEFT_FLUSH_PERSISTENT}};
	wr[2] = (struct weft_wr){.opcode = WEFT_WR_VERIFY,
	                         .flags = WEFT_WR_SIGNALED,
	                         .verify = {.stag = weft_mr_stag(g.low),
	                                    .to = BASE_TO,
	                                    .len_bytes = CUT,
	                                    .expect = crc,
	                                    .expect_bytes = 4}};
	wr[3] = (struct weft_wr){
	        .opcode = WEFT_WR_FETCH_ADD,
	        .flags = WEFT_WR_SIGNALED,
	        .sg_list = &(struct weft_sge){g.t.n[0].mem + CUT, 8, weft_mr_stag(g.t.n[0].mr)},
	        .num_sge = 1,
	        .atomic = {.stag = weft_mr_stag(g.low), .to = BASE_TO + 8, .data = 1}};
	CHECK_EQ(weft_post_send(g.first[0], wr, 4), 4);
	want_wc(&g.t.n[0], WEFT_WC_WRITE, WEFT_WC_SUCCESS);
	want_wc(&g.t.n[0], WEFT_WC_FLUSH, WEFT_WC_SUCCESS);
	want_wc(&g.t.n[0], WEFT_WC_VERIFY, WEFT_WC_SUCCESS);
	want_wc(&g.t.n[0], WEFT_WC_FETCH_ADD, WEFT_WC_SUCCESS);
}

static void
tear_down(void)
{
	CHECK_EQ(weft_mr_dereg(g.mr, NULL, NULL), 0);
	CHECK_EQ(weft_mr_dereg(g.low, NULL, NULL), 0);
	weft_qp_destroy(g.first[0]);
	weft_qp_destroy(g.first[1]);
	vt_run(&g.t, VT_MS);
	vt_close(&g.t);
	weft_persist_close(g.p);
	CHECK_EQ(weft_guard_remove(), 0);
}

/** Connect a new stream in the place of the one that ended. */
static void
again(void)
{
	struct weft_event ev;

	vt_run(&g.t, VT_S);
	while (weft_evq_poll(g.t.n[0].evq, &ev) + weft_evq_poll(g.t.n[1].evq, &ev) > 0)
		;
	weft_qp_destroy(g.t.n[0].qp);
	weft_qp_destroy(g.t.n[1].qp);
	vt_connect(&g.t, NULL, NULL);
	vt_speak(&g.t);
}

/* ---- Requests of the peer ---- */

static struct weft_sge piece;
static uint8_t crc_of_piece[4];

static struct weft_wr
ask(enum weft_wr_opcode op, uint64_t off, uint32_t len)
{
	struct weft_wr wr = {.opcode = op, .flags = WEFT_WR_SIGNALED};
	uint32_t stag = weft_mr_stag(g.mr);

	piece = (struct weft_sge){g.t.n[0].mem, len, weft_mr_stag(g.t.n[0].mr)};
	switch (op) {
	case WEFT_WR_WRITE:
	case WEFT_WR_READ:
		return wr_rdma(op, &piece, stag, BASE_TO + off);
	case WEFT_WR_FLUSH:
		return wr_flush(stag, BASE_TO + off, len, WEFT_FLUSH_PERSISTENT);
	case WEFT_WR_VERIFY:
		vt_crc32c(g.t.n[0].mem, len, crc_of_piece);
		return wr_verify(stag, BASE_TO + off, len, crc_of_piece, 4, NULL);
	case WEFT_WR_ATOMIC_WRITE:
		return wr_atomic_write(stag, BASE_TO + off, 0);
	default:
		wr.sg_list = &piece;
		wr.num_sge = 1;
		piece.len_bytes = 8;
		wr.atomic.stag = stag;
		wr.atomic.to = BASE_TO + off;
		wr.atomic.data = 1;
		break;
	}
	return wr;
}

static const struct {
	const char *name;
	enum weft_wr_opcode op;
	enum weft_wc_opcode wc;
	uint64_t off;
	uint32_t len;
	uint8_t code;
} ops[] = {
        /* These begin in the part of the file that is left and end behind its new end. */
        {"Write", WEFT_WR_WRITE, WEFT_WC_WRITE, CUT - 2 * PG, 8 * PG, 0x0d},
        {"Read", WEFT_WR_READ, WEFT_WC_READ, CUT - 2 * PG, 8 * PG, 0x0d},
        {"Flush", WEFT_WR_FLUSH, WEFT_WC_FLUSH, CUT - 2 * PG, 8 * PG, 0x0a},
        {"Verify", WEFT_WR_VERIFY, WEFT_WC_VERIFY, CUT - 2 * PG, 8 * PG, 0x0c},
        {"Atomic Write", WEFT_WR_ATOMIC_WRITE, WEFT_WC_ATOMIC_WRITE, CUT + PG, 8, 0x0d},
        {"FetchAdd", WEFT_WR_FETCH_ADD, WEFT_WC_FETCH_ADD, CUT + PG, 8, 0x0d},
        {"CmpSwap", WEFT_WR_CMP_SWAP, WEFT_WC_CMP_SWAP, CUT + PG, 8, 0x0d},
};

static void
refused(unsigned int i)
{
	struct weft_wr wr = ask(ops[i].op, ops[i].off, ops[i].len);
	struct weft_event ev;
	struct weft_wc wc;

	memset(g.t.n[0].mem, 0xee, 8 * PG);
	vt_post(&g.t.n[0], &wr);
	wc = vt_wc(&g.t.n[0]);
	/* A Write completes when it is sent. Its refusal comes later, as a Terminate. */
	CHECK_MSG(wc.opcode == ops[i].wc &&
	                  (wc.status == WEFT_WC_REMOTE_OP ||
	                   (ops[i].op == WEFT_WR_WRITE && wc.status == WEFT_WC_SUCCESS)),
	          "%s: %s", ops[i].name, weft_wc_status_str(wc.status));
	ev = vt_ev(&g.t.n[1], WEFT_EV_BAD_RANGE);
	CHECK_MSG(ev.status == -EIO && ev.bad_range.stag == weft_mr_stag(g.mr) &&
	                  ev.bad_range.to >= BASE_TO + ops[i].off &&
	                  ev.bad_range.to + ev.bad_range.len_bytes <=
	                          BASE_TO + ops[i].off + ops[i].len,
	          "%s: status %d", ops[i].name, ev.status);
	want_term(&g.t.n[1], 0, 2, ops[i].code, true);
	want_term(&g.t.n[0], 0, 2, ops[i].code, false);
	vt_ev(&g.t.n[1], WEFT_EV_DISCONNECTED);
	vt_ev(&g.t.n[0], WEFT_EV_DISCONNECTED);
	/* a Read sent no zeros in the place of missing octets */
	for (unsigned int k = 0; ops[i].op == WEFT_WR_READ && k < 8 * PG; k++)
		CHECK_MSG(g.t.n[0].mem[k] == 0x33 || g.t.n[0].mem[k] == 0xee, "octet %u: %02x", k,
		          g.t.n[0].mem[k]);
	CHECK(weft_mr_bad_ranges(g.mr, NULL, 0) > 0);
	CHECK_EQ(weft_mr_bad_ranges(g.low, NULL, 0), 0);
}

/** The operation that touches a missing page fails. Later all operations on the region fail, even
 * in the remaining part of the file. */
static void
test_peer(void)
{
	struct weft_guard_stats a, b;
	struct weft_event ev;
	struct weft_wr wr;
	struct weft_sge sg;

	scratch(NULL);
	for (unsigned int i = 0; i < RTE_DIM(ops); i++) {
		begin();
		weft_guard_stats(&a);
		CHECK_EQ(truncate(g.path, CUT), 0);
		refused(i);
		weft_guard_stats(&b);
		/* a Flush and a Verify ask for the file's length, and cause no fault */
		CHECK_MSG((b.faults > a.faults) ==
		                  (ops[i].op != WEFT_WR_FLUSH && ops[i].op != WEFT_WR_VERIFY),
		          "%s: %u faults", ops[i].name, (unsigned int)(b.faults - a.faults));
		others_go_on();
		if (b.faults == a.faults)
			CHECK(weft_guard_probe(g.p->base + CUT, 1));
		/* the same region, in the remaining part: refused as well */
		again();
		vt_fill(g.t.n[0].mem, BYTES, 7);
		sg = (struct weft_sge){g.t.n[0].mem, PG, 0};
		wr = wr_rdma(WEFT_WR_WRITE, &sg, weft_mr_stag(g.mr), BASE_TO);
		vt_post(&g.t.n[0], &wr);
		vt_wc(&g.t.n[0]);
		ev = vt_ev(&g.t.n[1], WEFT_EV_BAD_RANGE);
		CHECK(ev.status == -EIO && ev.bad_range.to == BASE_TO);
		want_term(&g.t.n[1], 0, 2, 0x0d, true);
		CHECK_MSG(memcmp(g.p->base, g.t.n[0].mem, PG) != 0, "memory was changed");
		/* a new registration fails with the missing page, and succeeds without it */
		reg(BYTES, -EIO);
		CHECK_EQ(weft_mr_dereg(reg(CUT, 0), NULL, NULL), 0);
		vt_fill(g.t.n[0].mem, BYTES, 5);
		others_go_on();
		tear_down();
	}
}

/* ---- Memory of the owner's requests ---- */

/** Missing memory of node 1 is the source of a Write and a Send, the sink of a Read, the buffer of
 * a receive, and the result of an Atomic. */
static void
test_local(void)
{
	enum { SOURCE, SEND, SINK, RECEIVE, ATOMIC, WAYS };

	for (int way = 0; way < WAYS; way++) {
		struct weft_sge sg = {NULL, 4 * PG, 0};
		struct weft_wr wr;
		struct weft_wc wc;

		begin();
		sg.addr = g.p->base + CUT - PG;
		sg.lkey = weft_mr_stag(g.mr);
		CHECK_EQ(truncate(g.path, CUT), 0);
		if (way == RECEIVE) {
			vt_post_recv(&g.t.n[1], sg.addr, 4 * PG, 9);
			sg = (struct weft_sge){g.t.n[0].mem, 4 * PG, 0};
			wr = (struct weft_wr){.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1};
			vt_post(&g.t.n[0], &wr);
			wc = vt_wc(&g.t.n[1]);
			CHECK(wc.wr_id == 9);
		} else {
			if (way == ATOMIC) {
				sg.addr = g.p->base + CUT;
				sg.len_bytes = 8;
				wr = (struct weft_wr){.opcode = WEFT_WR_FETCH_ADD,
				                      .flags = WEFT_WR_SIGNALED,
				                      .sg_list = &sg,
				                      .num_sge = 1,
				                      .atomic = {.stag = weft_mr_stag(g.t.n[0].mr),
				                                 .to = 0x100000000ULL,
				                                 .data = 1}};
			} else if (way == SEND)
				wr = (struct weft_wr){.opcode = WEFT_WR_SEND,
				                      .flags = WEFT_WR_SIGNALED,
				                      .sg_list = &sg,
				                      .num_sge = 1};
			else
				wr = wr_rdma(way == SOURCE ? WEFT_WR_WRITE : WEFT_WR_READ, &sg,
				             weft_mr_stag(g.t.n[0].mr), 0x100000000ULL);
			vt_post(&g.t.n[1], &wr);
			wc = vt_wc(&g.t.n[1]);
		}
		CHECK_MSG(wc.status == WEFT_WC_LOCAL_PROT, "way %d: %s", way,
		          weft_wc_status_str(wc.status));
		if (way == SINK)
			CHECK_EQ(vt_ev(&g.t.n[1], WEFT_EV_BAD_RANGE).status, -EIO);
		if (way == ATOMIC)
			vt_ev(&g.t.n[1], WEFT_EV_DISCONNECTED);
		else
			want_term(&g.t.n[1], 0, way == SINK ? 2 : 0, way == SINK ? 0x0d : 0, true);
		others_go_on();
		tear_down();
	}
}

WEFT_TEST_MAIN({"peer", test_peer}, {"local", test_local})
