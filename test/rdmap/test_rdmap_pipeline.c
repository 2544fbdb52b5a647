/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The queue of requests (RFC 5040 s6.1, RFC 7306 s5.2, draft-talpey-rdma-commit-02 s1.4, s1.6):
 * Read, Atomic, Flush, Verify and Atomic Write share IRD and ORD, use them up to the depth, and
 * take no more turns than the medium. A step polls both sides once. A side receives in its next
 * poll what the other sent, and a job of the medium takes until the next poll.
 */

#include <stdlib.h>

#include "rdmap_rig.h"

#define BYTES 65536u
#define ALL                                                                                        \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_FLUSH_PERSISTENT | WEFT_ACCESS_FLUSH_VISIBLE |    \
	 WEFT_ACCESS_VERIFY)
#define MAXQ 2100

enum kind { READ, ATOMIC, FLUSH, VERIFY, AWRITE, NKINDS };

static const uint16_t depths[] = {1, 4, 32};

static struct line {
	struct rig_medium med;
	struct weft_mem_mr *mr, *sink;
	struct weft_rdmap_req q[MAXQ];
	uint8_t kind[MAXQ];
	unsigned int n;
} line;

static uint8_t in[BYTES];

static void
line_open(uint16_t depth, bool immediate)
{
	rig_open(depth, depth, false);
	memset(&line, 0, sizeof(line));
	rig_medium_open(&line.med, BYTES);
	line.med.immediate = immediate;
	for (uint32_t i = 0; i < BYTES; i++)
		line.med.p.base[i] = (uint8_t)(i * 31 + i / 251);
	memcpy(line.med.shadow, line.med.p.base, BYTES);
	line.mr = rig_reg(&rig.b, line.med.p.base, BYTES, 0, ALL, &line.med.p, &rig_hash);
	line.sink = rig_reg(&rig.a, in, BYTES, 0, WEFT_ACCESS_LOCAL_WRITE, NULL, NULL);
}

static void
line_close(void)
{
	rig_unreg(&rig.b, line.mr);
	rig_unreg(&rig.a, line.sink);
	rig_close();
	rig_medium_close(&line.med);
}

static void
line_post(enum kind k, uint32_t off, uint32_t len)
{
	struct weft_rdmap_req *q = &line.q[line.n];

	line.kind[line.n++] = (uint8_t)k;
	*q = (struct weft_rdmap_req){.stag = line.mr->stag, .to = off, .len_bytes = len};
	switch (k) {
	case READ:
		q->op = WEFT_RDMAP_READ_REQ;
		q->sink_stag = line.sink->stag;
		q->sink_to = off;
		break;
	case ATOMIC:
		q->op = WEFT_RDMAP_ATOMIC_REQ;
		q->len_bytes = 8;
		q->atomic.aop = WEFT_RDMAP_FETCH_ADD;
		break;
	case FLUSH:
		q->op = WEFT_RDMAP_FLUSH_REQ;
		q->flush_flags = WEFT_FLUSH_PERSISTENT;
		break;
	case VERIFY:
		q->op = WEFT_RDMAP_VERIFY_REQ;
		break;
	default:
		q->op = WEFT_RDMAP_AWRITE_REQ;
		q->len_bytes = 8;
		memcpy(q->hash, line.med.p.base + off, 8);
		break;
	}
	weft_rdmap_post(rig.a.r, q);
}

static unsigned int
line_done(void)
{
	return rig_ev_count(&rig.a, EV_DONE);
}

static void
line_check(void)
{
	CHECK_EQ(line_done(), line.n);
	for (unsigned int i = 0; i < line.n; i++) {
		CHECK_EQ(rig_status(&rig.a, &line.q[i]), WEFT_RDMAP_OK);
		CHECK(rig_ev(&rig.a, EV_DONE, i)->req == &line.q[i]);
	}
}

/* Of all kinds together exactly ORD requests are outstanding while that many are left. */
static void
test_shared_depth(void)
{
	enum { K = 400 };

	for (unsigned int d = 0; d < RTE_DIM(depths); d++)
		for (unsigned int immediate = 0; immediate < 2; immediate++) {
			uint16_t out, waiting, most = 0, unused;
			unsigned int steps = 0;

			line_open(depths[d], immediate);
			for (unsigned int i = 0; i < K; i++)
				line_post(i == 0 ? FLUSH : (enum kind)(rig_random() % NKINDS),
				          (uint32_t)(rig_random() % 4096) * 8, 8);
			while (line_done() < K) {
				CHECK(rig_step());
				weft_rdmap_depths(rig.a.r, &out, &unused);
				weft_rdmap_depths(rig.b.r, &unused, &waiting);
				CHECK_MSG(out == RTE_MIN(depths[d], K - line_done()),
				          "%u out of %u, %u left, step %u", out, depths[d],
				          K - line_done(), steps);
				CHECK(waiting <= depths[d]);
				most = RTE_MAX(most, waiting);
				steps++;
			}
			/* the medium delays the queue: the whole depth waits there */
			CHECK_EQ(most, immediate ? 0 : depths[d]);
			line_check();
			CHECK_EQ(rig.b.op_stats.faults.requests_beyond_ird, 0);
			line_close();
		}
}

/*
 * A medium that takes one turn for each Flush and each read-back is busy in every turn while a
 * request waits. Requests without the medium take no turn. So K of them take K turns if the depth
 * covers the round trip. With a depth of one the queue is empty for a round trip after each
 * request.
 */
static void
test_no_bubble(void)
{
	enum { K = 320 };
	static const enum kind mixes[][8] = {
	        {FLUSH, FLUSH, FLUSH, FLUSH, FLUSH, FLUSH, FLUSH, FLUSH},
	        {VERIFY, VERIFY, VERIFY, VERIFY, VERIFY, VERIFY, VERIFY, VERIFY},
	        {FLUSH, VERIFY, AWRITE, FLUSH, FLUSH, VERIFY, AWRITE, FLUSH},
	        {READ, FLUSH, ATOMIC, VERIFY, AWRITE, READ, ATOMIC, FLUSH}};

	for (unsigned int d = 0; d < RTE_DIM(depths); d++)
		for (unsigned int m = 0; m < RTE_DIM(mixes); m++) {
			unsigned int steps = 0, jobs = 0, bubbles = 0, empty = 0;
			uint16_t waiting, unused;

			line_open(depths[d], false);
			for (unsigned int i = 0; i < K; i++) {
				line_post(mixes[m][i % 8], 8 * i, 8);
				jobs += mixes[m][i % 8] == FLUSH || mixes[m][i % 8] == VERIFY;
			}
			while (line_done() < K) {
				CHECK(rig_step());
				weft_rdmap_depths(rig.b.r, &unused, &waiting);
				bubbles += waiting > 0 && !rdmap_persist_busy(rig.b.r);
				empty += waiting == 0;
				steps++;
			}
			CHECK_MSG(bubbles == 0, "depth %u, mix %u: %u turns without work",
			          depths[d], m, bubbles);
			CHECK_EQ(line.med.flushes + line.med.reads, jobs);
			CHECK_MSG(steps <= jobs + empty, "depth %u, mix %u: %u turns for %u jobs",
			          depths[d], m, steps, jobs);
			/* a depth that is not answered all at once covers the round trip */
			CHECK_MSG(depths[d] == 1 || (depths[d] == 4 && m == 3) || empty <= 2,
			          "depth %u, mix %u: nothing waits, %u times", depths[d], m, empty);
			line_check();
			line_close();
		}
}

/* If the medium takes no time, a whole depth of requests is carried out and answered in one
 * turn. */
static void
test_one_turn(void)
{
	for (unsigned int d = 0; d < RTE_DIM(depths); d++)
		for (unsigned int k = 0; k < NKINDS; k++) {
			line_open(depths[d], true);
			for (unsigned int i = 0; i < depths[d]; i++)
				line_post((enum kind)k, 8 * i, 8);
			/* sent, carried out and answered; the responses arrive in the next step */
			rig_step();
			rig_step();
			CHECK_MSG(line_done() == depths[d], "kind %u: %u of %u in one turn", k,
			          line_done(), depths[d]);
			line_check();
			line_close();
		}
}

/* s2.2: any length, with and without the expected hash, in one queue up to the full depth. */
static void
test_every_length(void)
{
	enum { N = 1024 };

	for (unsigned int d = 0; d < RTE_DIM(depths); d++) {
		line_open(depths[d], d == 1);
		for (uint32_t len = 0; len <= N; len++)
			for (unsigned int with = 0; with < 2; with++) {
				line_post(VERIFY, len % 97, len);
				if (with) {
					struct weft_rdmap_req *q = &line.q[line.n - 1];

					q->hash_bytes = 8;
					rig_hash_of(line.med.shadow + len % 97, len, q->hash);
				}
			}
		rig_pump();
		line_check();
		for (unsigned int i = 0; i < line.n; i++) {
			uint8_t want[8];

			rig_hash_of(line.med.shadow + i / 2 % 97, i / 2, want);
			CHECK_EQ(line.q[i].hash_bytes, 8);
			CHECK_MEM(line.q[i].hash, want, 8);
		}
		line_close();
	}
}

/* Whole regions that are longer than a read-back and than a turn's slice. */
static void
test_whole_region(void)
{
	for (unsigned int d = 0; d < RTE_DIM(depths); d++) {
		uint8_t want[8];

		line_open(depths[d], false);
		memset(line.med.shadow, 0, BYTES);
		rig_hash_of(line.med.p.base, BYTES, want);
		for (unsigned int i = 0; i < 8; i++) {
			line_post(FLUSH, 12345, 1u << 31);
			line.q[line.n - 1].flush_flags |= WEFT_FLUSH_REGION;
			line_post(VERIFY, 0, BYTES);
			line.q[line.n - 1].hash_bytes = 8;
			memcpy(line.q[line.n - 1].hash, want, 8);
		}
		rig_pump();
		line_check();
		CHECK_MEM(line.med.shadow, line.med.p.base, BYTES);
		line_close();
	}
}

/* The medium is told of a Flush that waits for requests before it, once, when it arrives, and of no
 * other one. */
static void
test_ahead(void)
{
	const uint32_t flags = WEFT_FLUSH_PERSISTENT | WEFT_FLUSH_VISIBLE;
	struct weft_persist_ops ops;
	const struct weft_persist_ops *all;
	struct weft_mem_mr *part, *plain;
	uint8_t *none = calloc(1, 4096);

	line_open(8, false);
	part = rig_reg(&rig.b, line.med.p.base + 8192, 4096, 0x77000, ALL, &line.med.p, &rig_hash);
	plain = rig_reg(&rig.b, none, 4096, 0, WEFT_ACCESS_FLUSH_VISIBLE, NULL, NULL);
	line_post(FLUSH, 0, 64);
	rig_pump();
	CHECK_EQ(line.med.aheads, 0);
	for (unsigned int before = 0; before < NKINDS; before++) {
		line.med.aheads = 0;
		line_post(before == READ ? VERIFY : FLUSH, 0, 64);
		line_post((enum kind)before, 0, 64);
		line.q[line.n] = (struct weft_rdmap_req){.op = WEFT_RDMAP_FLUSH_REQ,
		                                         .stag = part->stag,
		                                         .to = 0x77000 + 100,
		                                         .len_bytes = 200,
		                                         .flush_flags = flags};
		weft_rdmap_post(rig.a.r, &line.q[line.n++]);
		rig_pump();
		CHECK_EQ(line.med.aheads, before == FLUSH ? 2 : 1);
		CHECK_EQ(line.med.ahead_off_bytes, 8192 + 100);
		CHECK_EQ(line.med.ahead_len_bytes, 200);
		CHECK_EQ(line.med.ahead_flags, flags);
	}
	/* A whole region, and one without a medium. */
	line_post(FLUSH, 0, 64);
	for (unsigned int i = 0; i < 2; i++) {
		line.q[line.n] = (struct weft_rdmap_req){
		        .op = WEFT_RDMAP_FLUSH_REQ,
		        .stag = i == 0 ? part->stag : plain->stag,
		        .to = 3,
		        .len_bytes = i == 0 ? 5 : 64,
		        .flush_flags = WEFT_FLUSH_VISIBLE | (i == 0 ? WEFT_FLUSH_REGION : 0)};
		weft_rdmap_post(rig.a.r, &line.q[line.n++]);
	}
	line.med.aheads = 0;
	rig_pump();
	CHECK_EQ(line.med.aheads, 1);
	CHECK_EQ(line.med.ahead_off_bytes, 8192);
	CHECK_EQ(line.med.ahead_len_bytes, 4096);
	CHECK_EQ(line.med.ahead_flags, WEFT_FLUSH_VISIBLE | WEFT_FLUSH_REGION);
	/* A driver that cannot begin ahead. */
	all = line.med.p.ops;
	ops = *all;
	ops.flush_ahead = NULL;
	line.med.p.ops = &ops;
	line_post(FLUSH, 0, 64);
	line_post(FLUSH, 64, 64);
	rig_pump();
	line_check();
	/* None that is refused. */
	line.med.p.ops = all;
	line.med.aheads = 0;
	line_post(FLUSH, 0, 64);
	line_post(FLUSH, BYTES, 64);
	rig_pump();
	CHECK_EQ(line.med.aheads, 0);
	rig_unreg(&rig.b, part);
	rig_unreg(&rig.b, plain);
	line_close();
	free(none);
}

WEFT_TEST_MAIN({"shared depth", test_shared_depth}, {"a Flush that waits begins ahead", test_ahead},
               {"no bubble", test_no_bubble}, {"one turn", test_one_turn},
               {"every length", test_every_length}, {"whole region", test_whole_region})
