/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The path MTU falls during a Write, and MPA's MULPDU follows it (RFC 5044 s4.5, appendix
 * A). */

#include "vt.h"

#define LEN (1024 * 1024)

/** The path MTU falls while a Write of 1 MiB is under way. The whole Write arrives, with ICMP and
 * without. */
static void
narrower(uint64_t seed, uint16_t mtu_bytes, uint16_t path_mtu, bool silent)
{
	struct vt_attr a = {.seed = seed,
	                    .mtu_bytes = mtu_bytes,
	                    .link = {.delay_ns = 50000, .rate_bps = 1000000000}};
	struct weft_qp_info info;
	const struct weft_tcp_stats *st;
	struct weft_sge sg;
	struct weft_wr wr;
	uint16_t before;
	struct vt t;

	vt_open(&t, &a);
	vt_mem(&t.n[0], LEN, WEFT_ACCESS_LOCAL_WRITE);
	vt_mem(&t.n[1], LEN,
	       WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_REMOTE_READ);
	vt_connect(&t, NULL, NULL);
	weft_qp_query(t.n[0].qp, &info);
	before = info.mulpdu_bytes;
	st = weft_tcp_stats(weft_engine_tcp(t.n[0].w));
	vt_fill(t.n[0].mem, LEN, seed);
	sg = (struct weft_sge){.addr = t.n[0].mem, .len_bytes = LEN};
	wr = (struct weft_wr){.wr_id = 1,
	                      .opcode = WEFT_WR_WRITE,
	                      .flags = WEFT_WR_SIGNALED,
	                      .sg_list = &sg,
	                      .num_sge = 1,
	                      .rdma = {.stag = weft_mr_stag(t.n[1].mr), .to = 0x200000000ULL}};
	vt_post(&t.n[0], &wr);
	vt_run(&t, 3 * VT_MS);
	a.link.mtu_bytes = path_mtu;
	a.link.mtu_silent = silent;
	sim_link_set(t.link, 0, &a.link);
	CHECK_EQ(vt_wc(&t.n[0]).status, WEFT_WC_SUCCESS);
	/* When this Read completes, the Write before it is placed. */
	sg = (struct weft_sge){t.n[0].mem, 8, weft_mr_stag(t.n[0].mr)};
	wr.opcode = WEFT_WR_READ;
	wr.wr_id = 2;
	vt_post(&t.n[0], &wr);
	CHECK_EQ(vt_wc(&t.n[0]).status, WEFT_WC_SUCCESS);
	CHECK_MEM(t.n[1].mem, t.n[0].mem, LEN);
	weft_qp_query(t.n[0].qp, &info);
	CHECK_MSG(info.mulpdu_bytes < before && info.mulpdu_bytes < path_mtu, "MULPDU %u of %u",
	          info.mulpdu_bytes, before);
	CHECK(st->pmtu_lowered > 0 && st->segs_split > 0);
	CHECK_EQ(st->blackholes, silent);
	vt_close(&t);
}

static void
test_narrower(void)
{
	narrower(test_seed(1), 1500, 1300, false);
	narrower(test_seed(2), 1500, 576, false);
	narrower(test_seed(3), 9000, 1500, false);
}

static void
test_black_hole(void)
{
	narrower(test_seed(4), 1500, 1300, true);
	narrower(test_seed(5), 9000, 1500, true);
}

/**
 * Few segments may be queued, the path MTU falls without ICMP, and one acknowledgment of ten is
 * lost. The seeds were found by random runs: each part of the queue waited for the acknowledgment
 * of the part before, and for a timeout for each lost one, until an FPDU had taken a minute and the
 * stream ended.
 */
static void
test_few_segs(void)
{
	static const struct {
		uint64_t seed;
		uint32_t segs;
		uint16_t mtu_bytes, path_mtu;
		uint32_t after_us;
		bool jitter;
	} v[] = {{96, 7, 9000, 1406, 1800, true},    {264, 3, 9000, 1373, 2400, true},
	         {4836, 3, 9000, 1338, 0, true},     {3270, 1, 9000, 1219, 200, true},
	         {47, 2, 4000, 1405, 2600, true},    {1407, 2, 9000, 810, 700, true},
	         {1322, 9, 9000, 1449, 1400, false}, {1371, 4, 9000, 1450, 600, false}};

	for (unsigned int i = 0; i < RTE_DIM(v); i++) {
		struct vt_attr a = {
		        .seed = v[i].seed,
		        .mtu_bytes = v[i].mtu_bytes,
		        .tcp = {.max_snd_segs_total = v[i].segs, .no_sack = true, .max_conns = 4},
		        .link = {.delay_ns = 50000,
		                 .rate_bps = 1000000000,
		                 .ack_loss_ppm = 100000,
		                 .jitter_ns = v[i].jitter ? 100000 : 0,
		                 .jitter_reorders = true}};
		struct weft_sge sg;
		struct weft_wr wr;
		struct vt t;

		test_seed_note(v[i].seed);
		vt_open(&t, &a);
		vt_mem(&t.n[0], LEN / 4, WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ);
		vt_mem(&t.n[1], LEN / 4,
		       WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_WRITE |
		               WEFT_ACCESS_REMOTE_READ);
		vt_connect(&t, NULL, NULL);
		sg = (struct weft_sge){
		        .addr = t.n[0].mem, .len_bytes = LEN / 4, .lkey = weft_mr_stag(t.n[0].mr)};
		wr = (struct weft_wr){
		        .wr_id = 1,
		        .opcode = WEFT_WR_WRITE,
		        .flags = WEFT_WR_SIGNALED,
		        .sg_list = &sg,
		        .num_sge = 1,
		        .rdma = {.stag = weft_mr_stag(t.n[1].mr), .to = 0x200000000ULL}};
		vt_post(&t.n[0], &wr);
		vt_run(&t, v[i].after_us * 1000ULL);
		a.link.mtu_bytes = v[i].path_mtu;
		a.link.mtu_silent = true;
		sim_link_set(t.link, 0, &a.link);
		sim_link_set(t.link, 1, &a.link);
		CHECK_EQ(vt_wc(&t.n[0]).status, WEFT_WC_SUCCESS);
		vt_close(&t);
	}
}

WEFT_TEST_MAIN({"narrower", test_narrower}, {"black_hole", test_black_hole},
               {"few_segs", test_few_segs})
