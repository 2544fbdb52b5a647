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
	narrower(test_seed(6), 65535, 1500, false);
	narrower(test_seed(7), 65535, 9000, false);
}

static void
test_black_hole(void)
{
	narrower(test_seed(4), 1500, 1300, true);
	narrower(test_seed(5), 9000, 1500, true);
	narrower(test_seed(8), 65535, 1500, true);
}

/* ---- Large frames ---- */

#define LARGE_LEN  (3 * 1024 * 1024 + 17)
#define LARGE_MOST 65326u /* octets of the longest IP packet that is sent */

/** What the wire shows. */
struct large_seen {
	uint32_t longest;  /**< octets of the longest frame from either end */
	uint16_t mss[2];   /**< option of the SYN that each end sends */
	unsigned int syns; /**< SYNs without damage */
};

static void
large_tap(void *arg, unsigned int from, bool delivered, const uint8_t *f, uint32_t len,
          uint64_t now)
{
	struct large_seen *s = arg;
	const bool v4 = len > 34 && f[12] == 0x08 && f[13] == 0x00;
	const uint8_t *tcp = f + (v4 ? 34 : 54);

	(void)now;
	s->longest = RTE_MAX(s->longest, len);
	if (delivered || len < 78 || (v4 ? f[23] : f[20]) != 6 || (tcp[13] & 0x02) == 0)
		return;
	/* The MSS is the first option. */
	CHECK_EQ(tcp[20], 2);
	s->mss[from] = weft_get_be16(tcp + 22);
	s->syns++;
}

static void
large_post(struct vt *t, enum weft_wr_opcode op, uint64_t id)
{
	struct weft_sge sg = {t->n[0].mem, LARGE_LEN, weft_mr_stag(t->n[0].mr)};

	vt_post(&t->n[0], &(struct weft_wr){.wr_id = id,
	                                    .opcode = op,
	                                    .flags = WEFT_WR_SIGNALED,
	                                    .sg_list = &sg,
	                                    .num_sge = 1,
	                                    .rdma = {.stag = weft_mr_stag(t->n[1].mr),
	                                             .to = 0x200000000ULL}});
	CHECK_EQ(vt_wc(&t->n[0]).status, WEFT_WC_SUCCESS);
}

/** A Write and a Read of 3 MiB between interfaces of these MTUs. Both arrive, over a path that
 * loses and reorders, with markers and without. */
static void
large(uint16_t near, uint16_t far, enum vt_family family, bool markers, bool lossy)
{
	struct vt_attr a = {
	        .seed = test_seed((uint64_t)near + far + family * 2u + markers),
	        .mtu_bytes = near,
	        .mtu_far_bytes = far,
	        .family = family,
	        .link = {.delay_ns = 50000,
	                 .rate_bps = 10000000000,
	                 .loss_ppm = lossy ? 10000 : 0,
	                 .reorder_ppm = lossy ? 10000 : 0,
	                 .reorder_ns = 300000},
	};
	const uint16_t least = RTE_MIN(near, far), hdr = family == VT_V4 ? 40 : 60;
	struct weft_mpa_policy pol = {.size = sizeof(pol), .markers = markers};
	struct weft_conn_attr ca[2];
	struct weft_qp_attr qa[2];
	struct large_seen seen = {0};
	struct weft_qp_info info;
	struct vt t;

	vt_open(&t, &a);
	sim_link_tap(t.link, large_tap, &seen);
	for (unsigned int i = 0; i < 2; i++) {
		vt_mem(&t.n[i], LARGE_LEN,
		       WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_WRITE |
		               WEFT_ACCESS_REMOTE_READ);
		qa[i] = vt_qp_attr(&t.n[i]);
		ca[i] = (struct weft_conn_attr){.size = sizeof(ca[i]), .mpa = &pol};
	}
	vt_connect_as(&t, qa, ca);
	vt_fill(t.n[0].mem, LARGE_LEN, a.seed);
	large_post(&t, WEFT_WR_WRITE, 1);
	memset(t.n[0].mem, 0, LARGE_LEN);
	large_post(&t, WEFT_WR_READ, 2);
	CHECK_MEM(t.n[0].mem, t.n[1].mem, LARGE_LEN);
	vt_fill(t.n[1].mem, LARGE_LEN, a.seed);
	CHECK_MEM(t.n[0].mem, t.n[1].mem, LARGE_LEN);
	/* RFC 6691 s2: the MSS is the MTU without the fixed headers. */
	CHECK(seen.syns >= 2);
	CHECK_EQ(seen.mss[0], near - hdr);
	CHECK_EQ(seen.mss[1], far - hdr);
	/* No frame is longer than either end's MTU, nor than an mbuf; the longest are almost so. */
	CHECK_MSG(seen.longest <= 14 + RTE_MIN((uint32_t)least, LARGE_MOST), "%u octets",
	          seen.longest);
	CHECK_MSG(seen.longest > RTE_MIN((uint32_t)least, 64768u) - 100, "%u octets", seen.longest);
	weft_qp_query(t.n[0].qp, &info);
	CHECK_MSG(info.mulpdu_bytes <= 64768 && info.mulpdu_bytes > RTE_MIN(least, 64768) - 600,
	          "MULPDU %u", info.mulpdu_bytes);
	CHECK_EQ(weft_tcp_stats(weft_engine_tcp(t.n[0].w))->segs_split, 0);
	vt_close(&t);
}

static void
test_large(void)
{
	static const uint16_t mtus[][2] = {{65535, 65535}, {1500, 65535},  {65535, 1500},
	                                   {9000, 65535},  {65326, 65327}, {64800, 64900},
	                                   {65533, 65531}, {65325, 65535}, {64823, 64827}};

	for (unsigned int i = 0; i < RTE_DIM(mtus); i++)
		for (unsigned int k = 0; k < 4; k++)
			large(mtus[i][0], mtus[i][1], k % 2 == 0 ? VT_V4 : VT_V6, k / 2 != 0,
			      (i + k) % 2 != 0);
}

/** Writes whose lengths are about those of the longest ULPDU and of 64 KiB, to odd addresses: each
 * arrives, and no octet beside it. With CRC and without, with markers and without. */
static void
test_large_lengths(void)
{
	static const uint32_t len[] = {64753,     64754, 64755, 64756,         65495,
	                               65534,     65535, 65536, 65537,         2 * 64754 - 1,
	                               2 * 64754, 127,   128,   2 * 64754 + 1, 3 * 64754 + 127};

	for (unsigned int k = 0; k < 4; k++) {
		struct vt_attr a = {.seed = test_seed(k),
		                    .mtu_bytes = 65535,
		                    .family = k == 0 ? VT_V6 : VT_V4,
		                    .link = {.delay_ns = 5000, .rate_bps = 100000000000}};
		struct weft_mpa_policy pol = {
		        .size = sizeof(pol), .markers = k % 2 != 0, .no_crc = k == 2};
		struct weft_conn_attr ca[2];
		struct weft_qp_attr qa[2];
		struct vt t;

		vt_open(&t, &a);
		for (unsigned int i = 0; i < 2; i++) {
			vt_mem(&t.n[i], LEN,
			       WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_WRITE |
			               WEFT_ACCESS_REMOTE_READ);
			qa[i] = vt_qp_attr(&t.n[i]);
			ca[i] = (struct weft_conn_attr){.size = sizeof(ca[i]), .mpa = &pol};
		}
		vt_connect_as(&t, qa, ca);
		for (unsigned int i = 0; i < RTE_DIM(len); i++) {
			const uint32_t from = 3 + 7 * i, to = 4096 + 5 * i;
			struct weft_sge sg = {t.n[0].mem + from, len[i], 0};
			struct weft_wr wr = {.wr_id = 1,
			                     .opcode = WEFT_WR_WRITE,
			                     .flags = WEFT_WR_SIGNALED,
			                     .sg_list = &sg,
			                     .num_sge = 1,
			                     .rdma = {.stag = weft_mr_stag(t.n[1].mr),
			                              .to = 0x200000000ULL + to}};

			vt_fill(t.n[0].mem, LEN, a.seed + i);
			memset(t.n[1].mem, 0x5a, LEN);
			vt_post(&t.n[0], &wr);
			CHECK_EQ(vt_wc(&t.n[0]).status, WEFT_WC_SUCCESS);
			/* Behind this Read the Write is placed. */
			sg = (struct weft_sge){t.n[0].mem + LEN - 8, 8, weft_mr_stag(t.n[0].mr)};
			wr.opcode = WEFT_WR_READ;
			vt_post(&t.n[0], &wr);
			CHECK_EQ(vt_wc(&t.n[0]).status, WEFT_WC_SUCCESS);
			CHECK_MEM(t.n[1].mem + to, t.n[0].mem + from, len[i]);
			CHECK(t.n[1].mem[to - 1] == 0x5a && t.n[1].mem[to + len[i]] == 0x5a);
		}
		CHECK_EQ(weft_tcp_stats(weft_engine_tcp(t.n[0].w))->segs_split, 0);
		vt_close(&t);
	}
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

WEFT_TEST_MAIN({"large frames, equal and unequal MTUs", test_large},
               {"large frames, odd lengths", test_large_lengths}, {"narrower", test_narrower},
               {"black_hole", test_black_hole}, {"few_segs", test_few_segs})
