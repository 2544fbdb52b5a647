/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Two connected streams: every operation, order, ORD, fence, slices, scarce space. */

#include <stdlib.h>

#include "rdmap_rig.h"
#include "rdmap_sabotage.h"

#define ALL                                                                                        \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_FLUSH_PERSISTENT | WEFT_ACCESS_FLUSH_VISIBLE |    \
	 WEFT_ACCESS_VERIFY)

static uint8_t src[1 << 20], dst[1 << 20] __rte_aligned(64);

static void
fill(uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)rig_random();
}

static struct weft_rdmap_req
op_flush(const struct weft_mem_mr *mr, uint64_t to, uint32_t len, uint32_t flags)
{
	return (struct weft_rdmap_req){.op = WEFT_RDMAP_FLUSH_REQ,
	                               .len_bytes = len,
	                               .stag = mr->stag,
	                               .to = to,
	                               .flush_flags = flags};
}

static struct weft_rdmap_req
op_verify(const struct weft_mem_mr *mr, uint64_t to, uint32_t len, const uint8_t *want)
{
	struct weft_rdmap_req q = {
	        .op = WEFT_RDMAP_VERIFY_REQ, .len_bytes = len, .stag = mr->stag, .to = to};

	if (want != NULL) {
		memcpy(q.hash, want, 8);
		q.hash_bytes = 8;
	}
	return q;
}

static struct weft_rdmap_req
op_awrite(const struct weft_mem_mr *mr, uint64_t to, const uint8_t data[8])
{
	struct weft_rdmap_req q = {
	        .op = WEFT_RDMAP_AWRITE_REQ, .len_bytes = 8, .stag = mr->stag, .to = to};

	memcpy(q.hash, data, 8);
	return q;
}

static const uint32_t sizes[] = {0, 1, 7, 1385, 1386, 1387, 2772, 2773, 65535, 65536, 300001};

static void
test_write(void)
{
	struct weft_mem_mr *mr;

	rig_open(4, 4, false);
	mr = rig_reg(&rig.b, dst, sizeof(dst), 0x1000, ALL & ~0x70, NULL, NULL);
	for (unsigned int i = 0; i < RTE_DIM(sizes); i++) {
		uint32_t n = sizes[i];
		struct weft_rdmap_req q = rig_op_write(mr, 0x1000 + 5, src, n);

		fill(src, n);
		memset(dst, 0xee, sizeof(dst));
		/* four SGEs, one of them empty */
		q.nsge = 4;
		q.sge[0].len_bytes = n / 3;
		q.sge[1] = (struct weft_rdmap_sge){src + n / 3, 0};
		q.sge[2] = (struct weft_rdmap_sge){src + n / 3, n / 2};
		q.sge[3] = (struct weft_rdmap_sge){src + n / 3 + n / 2, n - n / 3 - n / 2};
		rig.a.nev = 0;
		weft_rdmap_post(rig.a.r, &q);
		rig_pump();
		CHECK_EQ(rig_status(&rig.a, &q), WEFT_RDMAP_OK);
		CHECK_MEM(dst + 5, src, n);
		CHECK_EQ(dst[4], 0xee);
		CHECK_EQ(dst[5 + n], 0xee);
	}
	CHECK_EQ(rig.a.op_stats.out[WEFT_RDMAP_WRITE], RTE_DIM(sizes));
	CHECK_EQ(rig.b.op_stats.in[WEFT_RDMAP_WRITE], RTE_DIM(sizes));
	CHECK_EQ(weft_rdmap_stats(rig.a.r)->bytes_out, weft_rdmap_stats(rig.b.r)->bytes_in);
	CHECK_EQ(rig.b.nev, 1); /* the target's user gets no up-call: RTS only */
	rig_unreg(&rig.b, mr);
	rig_close();
}

static void
test_send(void)
{
	static const uint8_t ops[] = {WEFT_RDMAP_SEND, WEFT_RDMAP_SEND_INV, WEFT_RDMAP_SEND_SE,
	                              WEFT_RDMAP_SEND_SE_INV};
	static const uint32_t n[] = {0, 1, 1382, 1383, 4096};
	unsigned int k = 0;

	rig_open(4, 4, false);
	for (unsigned int o = 0; o < 4; o++)
		for (unsigned int i = 0; i < RTE_DIM(n); i++, k++) {
			bool inv =
			        ops[o] == WEFT_RDMAP_SEND_INV || ops[o] == WEFT_RDMAP_SEND_SE_INV;
			struct weft_rdmap_req q = {.op = ops[o],
			                           .nsge = 1,
			                           .sge = {{src, n[i]}},
			                           .len_bytes = n[i],
			                           .stag = 0xabcd0000 + k};
			const struct rig_ev *e;

			fill(src, n[i]);
			rig.a.nev = 0;
			rig_post_recv(&rig.b, 1);
			weft_rdmap_post(rig.a.r, &q);
			rig_pump();
			CHECK_EQ(rig_status(&rig.a, &q), WEFT_RDMAP_OK);
			e = rig_ev(&rig.b, EV_RECV, k);
			CHECK(e != NULL);
			CHECK_EQ(e->status, WEFT_RDMAP_OK);
			CHECK_EQ(e->len_bytes, n[i]);
			CHECK_EQ(e->solicited, ops[o] >= WEFT_RDMAP_SEND_SE);
			CHECK_EQ(e->inv_stag, inv ? 0xabcd0000 + k : 0);
			CHECK_MEM(rig.b.recv[k % RIG_MAX_RECV], src, n[i]);
		}
	rig_close();
}

static void
test_read(void)
{
	struct weft_rdmap_req q[RTE_DIM(sizes)];
	struct weft_mem_mr *from, *sink;
	uint64_t off = 0;

	rig_open(4, 4, false);
	fill(src, sizeof(src));
	from = rig_reg(&rig.b, src, sizeof(src), UINT64_MAX - sizeof(src) + 1,
	               WEFT_ACCESS_REMOTE_READ, NULL, NULL);
	sink = rig_reg(&rig.a, dst, sizeof(dst), 77, WEFT_ACCESS_LOCAL_WRITE, NULL, NULL);
	memset(dst, 0, sizeof(dst));
	for (unsigned int i = 0; i < RTE_DIM(sizes); i++) {
		q[i] = rig_op_read(from, from->base_to + off, sizes[i], sink, 77 + off);
		weft_rdmap_post(rig.a.r, &q[i]);
		off += sizes[i];
	}
	rig_pump();
	for (unsigned int i = 0; i < RTE_DIM(sizes); i++) {
		CHECK_EQ(rig_status(&rig.a, &q[i]), WEFT_RDMAP_OK);
		CHECK(rig_ev(&rig.a, EV_DONE, i)->req == &q[i]);
	}
	CHECK_MEM(dst, src, off);
	CHECK_EQ(dst[off], 0);
	/* zero length: nothing is checked, on either side */
	from->stag ^= 0x5a5a;
	q[0] = rig_op_read(from, 1, 0, from, 2);
	from->stag ^= 0x5a5a;
	rig.a.nev = 0;
	weft_rdmap_post(rig.a.r, &q[0]);
	rig_pump();
	CHECK_EQ(rig_status(&rig.a, &q[0]), WEFT_RDMAP_OK);
	rig_unreg(&rig.a, sink);
	rig_unreg(&rig.b, from);
	rig_close();
}

static void
test_flush(void)
{
	struct rig_medium m;
	struct weft_mem_mr *mr, *plain;
	struct weft_rdmap_req q;

	rig_open(4, 4, false);
	rig_medium_open(&m, 65536);
	/* the region begins inside the mapping, with a base TO of its own */
	mr = rig_reg(&rig.b, m.p.base + 4096, 32768, 1000, ALL, &m.p, &rig_hash);
	fill(m.p.base, 65536);
	for (int immediate = 0; immediate < 2; immediate++) {
		m.immediate = immediate;
		memset(m.shadow, 0, 65536);
		q = op_flush(mr, 1100, 200, WEFT_FLUSH_PERSISTENT);
		rig.a.nev = 0;
		weft_rdmap_post(rig.a.r, &q);
		rig_pump();
		CHECK_EQ(rig_status(&rig.a, &q), WEFT_RDMAP_OK);
		CHECK_EQ(m.last_flags, WEFT_FLUSH_PERSISTENT);
		CHECK_EQ(m.shadow[4096 + 99], 0);
		CHECK_MEM(m.shadow + 4196, m.p.base + 4196, 200);
		CHECK_EQ(m.shadow[4396], 0);
	}
	/* flush of the region: length and offset are ignored, even out of bounds */
	q = op_flush(mr, UINT64_MAX, UINT32_MAX, WEFT_FLUSH_REGION | WEFT_FLUSH_VISIBLE);
	rig.a.nev = 0;
	weft_rdmap_post(rig.a.r, &q);
	rig_pump();
	CHECK_EQ(rig_status(&rig.a, &q), WEFT_RDMAP_OK);
	CHECK_MEM(m.shadow + 4096, m.p.base + 4096, 32768);
	CHECK_EQ(m.shadow[4095], 0);
	CHECK_EQ(m.shadow[4096 + 32768], 0);
	/* zero length: nothing is flushed, even out of bounds */
	m.flushes = 0;
	q = op_flush(mr, 1, 0, WEFT_FLUSH_PERSISTENT | WEFT_FLUSH_VISIBLE);
	rig.a.nev = 0;
	weft_rdmap_post(rig.a.r, &q);
	rig_pump();
	CHECK_EQ(rig_status(&rig.a, &q), WEFT_RDMAP_OK);
	CHECK_EQ(m.flushes, 0);
	/* the executor is full for a while */
	m.immediate = false;
	m.eagain = 20;
	q = op_flush(mr, 1000, 32768, WEFT_FLUSH_PERSISTENT);
	rig.a.nev = 0;
	weft_rdmap_post(rig.a.r, &q);
	rig_pump();
	CHECK_EQ(rig_status(&rig.a, &q), WEFT_RDMAP_OK);
	CHECK_EQ(m.flushes, 1);
	/* ordinary memory: visibility only */
	plain = rig_reg(&rig.b, dst, 4096, 0, WEFT_ACCESS_FLUSH_VISIBLE, NULL, NULL);
	q = op_flush(plain, 0, 4096, WEFT_FLUSH_VISIBLE);
	rig.a.nev = 0;
	weft_rdmap_post(rig.a.r, &q);
	rig_pump();
	CHECK_EQ(rig_status(&rig.a, &q), WEFT_RDMAP_OK);
	CHECK_EQ(rig.b.op_stats.in[WEFT_RDMAP_FLUSH_REQ], 6);
	CHECK_EQ(rig.b.op_stats.out[WEFT_RDMAP_FLUSH_RESP], 6);
	rig_unreg(&rig.b, mr);
	rig_unreg(&rig.b, plain);
	rig_close();
	rig_medium_close(&m);
}

static void
test_drop_flush(void)
{
	struct rig_medium m;
	struct weft_mem_mr *mr;
	struct weft_rdmap_req q;

	rig_open(4, 4, false);
	rdmap_sabotage(&rig.b.sched, WEFT_RDMAP_DROP_FLUSH);
	rig_medium_open(&m, 4096);
	mr = rig_reg(&rig.b, m.p.base, 4096, 0, ALL, &m.p, &rig_hash);
	q = op_flush(mr, 0, 4096, WEFT_FLUSH_PERSISTENT);
	weft_rdmap_post(rig.a.r, &q);
	rig_pump();
	CHECK_EQ(rig_status(&rig.a, &q), WEFT_RDMAP_OK);
	CHECK_EQ(m.flushes, 0);
	rdmap_sabotage(NULL, WEFT_RDMAP_SOUND);
	rig_unreg(&rig.b, mr);
	rig_close();
	rig_medium_close(&m);
}

static struct rig_medium *early;

/* Check the responses: none waited for its own Flush, and each waited for the Flush before it. */
static void
count_early(struct rig_side *s, const struct rig_ev *e)
{
	unsigned int i = rig_ev_count(s, EV_DONE) - 1;

	if (e->kind != EV_DONE)
		return;
	CHECK_EQ(e->status, WEFT_RDMAP_OK);
	CHECK_EQ(early->flushes, i + 1);
	CHECK_EQ(early->shadow[1024 * i], 0);
	CHECK(i == 0 || early->shadow[1024 * i - 1] == 'n');
}

/* WEFT_RDMAP_EARLY_RESPONSE, a faulty responder that other tests must detect. */
static void
test_early_response(void)
{
	struct weft_rdmap_req q[3];
	struct rig_medium m;
	struct weft_mem_mr *mr;

	rig_open(4, 4, false);
	rdmap_sabotage(&rig.b.sched, WEFT_RDMAP_EARLY_RESPONSE);
	rig_medium_open(&m, 4096);
	memset(m.p.base, 'n', 4096);
	mr = rig_reg(&rig.b, m.p.base, 4096, 0, ALL, &m.p, &rig_hash);
	early = &m;
	rig.a.hook = count_early;
	for (unsigned int i = 0; i < 3; i++) {
		q[i] = op_flush(mr, 1024 * i, 1024, WEFT_FLUSH_PERSISTENT);
		weft_rdmap_post(rig.a.r, &q[i]);
	}
	rig_pump();
	CHECK_EQ(rig_ev_count(&rig.a, EV_DONE), 3);
	CHECK_MEM(m.shadow, m.p.base, 3072);
	rdmap_sabotage(NULL, WEFT_RDMAP_SOUND);
	rig_unreg(&rig.b, mr);
	rig_close();
	rig_medium_close(&m);
}

static void
test_verify(void)
{
	static const uint32_t n[] = {0, 1, 65535, 65536, 65537, 100000, 100001, 400000};
	struct rig_medium m;
	struct weft_mem_mr *mr, *plain;

	rig_open(4, 4, false);
	rig_medium_open(&m, 1 << 20);
	mr = rig_reg(&rig.b, m.p.base + 8192, 500000, 1 << 30, ALL, &m.p, &rig_hash);
	plain = rig_reg(&rig.b, src, 500000, 1 << 30, ALL & ~WEFT_ACCESS_FLUSH_PERSISTENT, NULL,
	                &rig_hash);
	fill(m.shadow, 1 << 20); /* memory differs: the hash is of the medium */
	fill(src, 500000);
	for (unsigned int i = 0; i < RTE_DIM(n); i++)
		for (int with = 0; with < 2; with++)
			for (int how = 0; how < 3; how++) {
				const uint8_t *p = how == 2 ? src : m.shadow + 8192;
				struct weft_rdmap_req q;
				uint8_t want[8];

				m.immediate = how == 1;
				rig_hash_of(p + 3, n[i], want);
				q = op_verify(how == 2 ? plain : mr, (1 << 30) + 3, n[i],
				              with ? want : NULL);
				rig.a.nev = 0;
				weft_rdmap_post(rig.a.r, &q);
				rig_pump();
				CHECK_EQ(rig_status(&rig.a, &q), WEFT_RDMAP_OK);
				CHECK_EQ(q.hash_bytes, 8);
				CHECK_MEM(q.hash, want, 8);
			}
	CHECK_EQ(m.reads_out, 0);
	rig_unreg(&rig.b, mr);
	rig_unreg(&rig.b, plain);
	rig_close();
	rig_medium_close(&m);
}

/* A long Verify takes several turns. A Write on the same stream is placed meanwhile. */
static void
test_verify_slices(void)
{
	struct weft_mem_mr *mr, *side;
	struct weft_rdmap_req v, w;
	unsigned int steps = 0;

	rig_open(4, 4, false);
	mr = rig_reg(&rig.b, src, 640 * 1024, 0, ALL & ~WEFT_ACCESS_FLUSH_PERSISTENT, NULL,
	             &rig_hash);
	side = rig_reg(&rig.b, dst, 4096, 0, WEFT_ACCESS_REMOTE_WRITE, NULL, NULL);
	memset(dst, 0, 16);
	v = op_verify(mr, 0, 640 * 1024, NULL);
	w = rig_op_write(side, 0, src + 5, 16);
	weft_rdmap_post(rig.a.r, &v);
	weft_rdmap_post(rig.a.r, &w);
	while (rig_status(&rig.a, &v) < 0) {
		rig_step();
		steps++;
		if (steps == 3)
			CHECK_MEM(dst, src + 5, 16);
	}
	CHECK(steps >= 20 && steps < 40);
	rig_unreg(&rig.b, mr);
	rig_unreg(&rig.b, side);
	rig_close();
}

static void
test_atomic_write(void)
{
	static const uint8_t word[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	struct weft_mem_mr *mr;
	struct weft_rdmap_req q;

	rig_open(4, 4, false);
	/* the address must be aligned, not the offset: an odd base TO */
	mr = rig_reg(&rig.b, dst, 4096, 3, WEFT_ACCESS_REMOTE_WRITE, NULL, NULL);
	memset(dst, 0, 32);
	q = op_awrite(mr, 3 + 16, word);
	weft_rdmap_post(rig.a.r, &q);
	rig_pump();
	CHECK_EQ(rig_status(&rig.a, &q), WEFT_RDMAP_OK);
	CHECK_MEM(dst + 16, word, 8); /* wire order */
	CHECK_EQ(dst[15], 0);
	CHECK_EQ(dst[24], 0);
	rig_unreg(&rig.b, mr);
	rig_close();
}

/* WRITE... FLUSH VERIFY AWRITE FLUSH, posted together, many times, on a slow medium. */
static void
test_commit_pipeline(void)
{
	struct rig_medium m;
	struct weft_mem_mr *mr;
	struct weft_rdmap_req q[7];
	uint8_t hash[8], word[8];

	rig_open(8, 8, false);
	rig_medium_open(&m, 1 << 18);
	mr = rig_reg(&rig.b, m.p.base, 1 << 18, 0, ALL, &m.p, &rig_hash);
	for (unsigned int round = 0; round < 20; round++) {
		fill(src, 200000);
		fill(word, 8);
		rig_hash_of(src, 200000, hash);
		q[0] = rig_op_write(mr, 4096, src, 70000);
		q[1] = rig_op_write(mr, 4096 + 70000, src + 70000, 60000);
		q[2] = rig_op_write(mr, 4096 + 130000, src + 130000, 70000);
		q[3] = op_flush(mr, 4096, 200000, WEFT_FLUSH_PERSISTENT);
		q[4] = op_verify(mr, 4096, 200000, hash);
		q[5] = op_awrite(mr, 8, word);
		q[6] = op_flush(mr, 8, 8, WEFT_FLUSH_PERSISTENT);
		rig.a.nev = 0;
		for (unsigned int i = 0; i < 7; i++)
			weft_rdmap_post(rig.a.r, &q[i]);
		/* until the Verify is answered, the commit word must be the old one in memory and
		 * on the medium */
		while (rig_status(&rig.a, &q[6]) < 0) {
			if (rig.b.op_stats.out[WEFT_RDMAP_VERIFY_RESP] == round)
				CHECK(memcmp(m.p.base + 8, word, 8) != 0);
			if (rig_status(&rig.a, &q[5]) < 0)
				CHECK(memcmp(m.shadow + 8, word, 8) != 0);
			CHECK(rig_step());
		}
		for (unsigned int i = 0; i < 7; i++) {
			CHECK_EQ(rig_status(&rig.a, &q[i]), WEFT_RDMAP_OK);
			CHECK(rig_ev(&rig.a, EV_DONE, i)->req == &q[i]);
		}
		CHECK_MEM(m.shadow + 4096, src, 200000);
		CHECK_MEM(m.shadow + 8, word, 8);
	}
	rig_unreg(&rig.b, mr);
	rig_close();
	rig_medium_close(&m);
}

static void
test_ord(void)
{
	struct weft_rdmap_req q[9], w;
	struct weft_mem_mr *mr, *sink;
	uint16_t out, in;

	rig_open(2, 2, false);
	mr = rig_reg(&rig.b, src, 4096, 0, ALL & ~0x70, NULL, NULL);
	sink = rig_reg(&rig.a, dst, 4096, 0, WEFT_ACCESS_LOCAL_WRITE, NULL, NULL);
	fill(src, 4096);
	for (unsigned int i = 0; i < 9; i++) {
		q[i] = rig_op_read(mr, i * 100, 100, sink, i * 100);
		weft_rdmap_post(rig.a.r, &q[i]);
	}
	/* behind a stalled Read: the Write waits, too */
	w = rig_op_write(mr, 4000, src, 50);
	weft_rdmap_post(rig.a.r, &w);
	weft_sched_run(&rig.a.sched, rig.now_ns);
	weft_rdmap_depths(rig.a.r, &out, &in);
	CHECK_EQ(out, 2);
	CHECK_EQ(weft_rdmap_stats(rig.a.r)->ord_stalls, 1);
	CHECK_EQ(rig_status(&rig.a, &w), -1);
	for (unsigned int i = 0; i < 3; i++) { /* one stall, however often it is checked */
		weft_rdmap_resume(rig.a.r);
		weft_sched_run(&rig.a.sched, rig.now_ns);
		CHECK_EQ(weft_rdmap_stats(rig.a.r)->ord_stalls, 1);
	}
	rig_pump();
	for (unsigned int i = 0; i < 9; i++)
		CHECK_EQ(rig_status(&rig.a, &q[i]), WEFT_RDMAP_OK);
	CHECK_EQ(rig_status(&rig.a, &w), WEFT_RDMAP_OK);
	CHECK_MEM(dst, src, 900);
	weft_rdmap_depths(rig.a.r, &out, &in);
	CHECK_EQ(out + in, 0);
	rig_unreg(&rig.b, mr);
	rig_unreg(&rig.a, sink);
	rig_close();
}

/* Each Read that must wait is counted once. */
static void
test_ord_stalls(void)
{
	struct weft_mem_mr *mr, *sink;
	struct weft_rdmap_req q[4];

	rig_open(1, 1, false);
	mr = rig_reg(&rig.b, src, 4096, 0, ALL & ~0x70, NULL, NULL);
	sink = rig_reg(&rig.a, dst, 4096, 0, WEFT_ACCESS_LOCAL_WRITE, NULL, NULL);
	for (unsigned int i = 0; i < 4; i++) {
		q[i] = rig_op_read(mr, i * 100, 100, sink, i * 100);
		weft_rdmap_post(rig.a.r, &q[i]);
	}
	rig_pump();
	CHECK_EQ(rig_status(&rig.a, &q[3]), WEFT_RDMAP_OK);
	CHECK_EQ(weft_rdmap_stats(rig.a.r)->ord_stalls, 3);
	rig_unreg(&rig.b, mr);
	rig_unreg(&rig.a, sink);
	rig_close();
}

static void
test_fence(void)
{
	struct weft_rdmap_req r, w;
	struct weft_mem_mr *mr, *sink;

	rig_open(4, 4, false);
	mr = rig_reg(&rig.b, src, 4096, 0, ALL & ~0x70, NULL, NULL);
	sink = rig_reg(&rig.a, dst, 4096, 0, WEFT_ACCESS_LOCAL_WRITE, NULL, NULL);
	fill(src, 4096);
	for (int fence = 0; fence < 2; fence++) {
		r = rig_op_read(mr, 0, 100, sink, 0);
		w = rig_op_write(mr, 0, dst + 2000, 100);
		w.fence = fence;
		memset(dst + 2000, 0x11 + fence, 100);
		rig.a.nev = 0;
		weft_rdmap_post(rig.a.r, &r);
		weft_rdmap_post(rig.a.r, &w);
		rig_pump();
		CHECK_EQ(rig_status(&rig.a, &r), WEFT_RDMAP_OK);
		CHECK_EQ(rig_status(&rig.a, &w), WEFT_RDMAP_OK);
		CHECK(rig_ev(&rig.a, EV_DONE, fence ? 0 : 1)->req == &r);
		/* without a fence the Write may be placed before the Read, with a fence never */
		if (fence)
			CHECK(dst[0] == 0x11 && src[0] == 0x12);
	}
	rig_unreg(&rig.b, mr);
	rig_unreg(&rig.a, sink);
	rig_close();
}

static void
count_ahead(struct rig_side *s, const struct rig_ev *e)
{
	(void)e;
	CHECK(s->r != NULL);
}

/* All operations in both directions at once, with space for a few ULPDUs and small segments. */
static void
test_both_ways(void)
{
	enum { N = 400 };
	static struct weft_rdmap_req q[2][N];
	static uint8_t mem[2][65536] __rte_aligned(64), from[2][65536];
	struct rig_side *side[2] = {&rig.a, &rig.b};
	struct weft_mem_mr *mr[2];
	uint64_t sum[2] = {0};

	rig.mulpdu = 128;
	rig_open(3, 3, false);
	for (int i = 0; i < 2; i++) {
		fill(from[i], sizeof(from[i]));
		side[i]->hook = count_ahead;
		side[i]->space = 0;
		mr[i] = rig_reg(side[i], mem[i], sizeof(mem[i]), 0,
		                ALL & ~WEFT_ACCESS_FLUSH_PERSISTENT, NULL, &rig_hash);
	}
	for (unsigned int k = 0; k < N; k++)
		for (int i = 0; i < 2; i++) {
			uint32_t at = (uint32_t)(rig_random() % 30000) & ~7u;
			uint32_t n = (uint32_t)(rig_random() % 2000);

			switch (rig_random() % 9) {
			case 6:
				q[i][k] = (struct weft_rdmap_req){
				        .op = WEFT_RDMAP_ATOMIC_REQ,
				        .len_bytes = 8,
				        .stag = mr[!i]->stag,
				        .to = 65528,
				        .atomic = {.aop = WEFT_RDMAP_FETCH_ADD, .data = n}};
				sum[!i] += n;
				break;
			case 7:
				q[i][k] = (struct weft_rdmap_req){.op = WEFT_RDMAP_IMM_SE,
				                                  .len_bytes = 8};
				side[!i]->recv_posted++;
				break;
			case 8:
				q[i][k] = rig_op_write(mr[!i], at, from[i] + at, n);
				q[i][k].imm_op = WEFT_RDMAP_IMM;
				side[!i]->recv_posted++;
				break;
			case 0:
				q[i][k] = rig_op_write(mr[!i], at, from[i] + at, n);
				break;
			case 1:
				q[i][k] = rig_op_read(mr[!i], at, n, mr[i], 32768 + at);
				break;
			case 2:
				q[i][k] = op_flush(mr[!i], at, n, WEFT_FLUSH_VISIBLE);
				break;
			case 3:
				q[i][k] = op_verify(mr[!i], at, n, NULL);
				break;
			case 4:
				q[i][k] = op_awrite(mr[!i], at, from[i] + at);
				break;
			default:
				q[i][k] = (struct weft_rdmap_req){.op = WEFT_RDMAP_SEND_SE,
				                                  .nsge = 1,
				                                  .sge = {{from[i], n}},
				                                  .len_bytes = n};
				side[!i]->recv_posted++;
				break;
			}
			q[i][k].fence = rig_random() % 8 == 0;
			weft_rdmap_post(side[i]->r, &q[i][k]);
		}
	for (unsigned int turns = 0; turns < 200000; turns++) {
		for (int i = 0; i < 2; i++)
			if (rig_random() % 2)
				side[i]->space = (uint32_t)(rig_random() % 5);
		rig_step();
		if (rig_ev_count(&rig.a, EV_DONE) == N && rig_ev_count(&rig.b, EV_DONE) == N)
			break;
	}
	for (int i = 0; i < 2; i++)
		side[i]->space = UINT32_MAX;
	rig_pump();
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(rig_ev_count(side[i], EV_DONE), N);
		for (unsigned int k = 0; k < N; k++)
			CHECK_EQ(rig_status(side[i], &q[i][k]), WEFT_RDMAP_OK);
		CHECK_EQ(rig_ev_count(side[i], EV_RECV) + rig_ev_count(side[i], EV_IMM),
		         side[i]->recv_posted);
		CHECK_EQ(*(uint64_t *)(void *)(mem[i] + 65528), sum[i]);
		CHECK_EQ(rig_ev_count(side[i], EV_STATE), 1);
		rig_unreg(side[i], mr[i]);
	}
	rig_close();
}

/* A Read behind a waiting Flush is not answered before it, nor are requests behind the Read. */
static void
test_strict_order(void)
{
	struct weft_rdmap_req q[4];
	struct weft_mem_mr *mr, *sink;
	struct rig_medium m;

	rig_open(8, 8, false);
	rig_medium_open(&m, 65536);
	mr = rig_reg(&rig.b, m.p.base, 65536, 0, ALL, &m.p, &rig_hash);
	sink = rig_reg(&rig.a, dst, 65536, 0, WEFT_ACCESS_LOCAL_WRITE, NULL, NULL);
	memset(m.p.base, 0, 64);
	memset(dst, 9, 64);
	m.eagain = 5;
	q[0] = op_flush(mr, 0, 4096, WEFT_FLUSH_PERSISTENT);
	q[1] = rig_op_read(mr, 0, 64, sink, 0);
	q[2] = op_awrite(mr, 0, (const uint8_t *)"ABCDEFGH");
	q[3] = rig_op_read(mr, 0, 64, sink, 64);
	for (unsigned int i = 0; i < 4; i++)
		weft_rdmap_post(rig.a.r, &q[i]);
	for (unsigned int i = 0; i < 4; i++) {
		rig_step();
		CHECK_EQ(rig_ev_count(&rig.a, EV_DONE), 0);
		CHECK_EQ(m.p.base[0], 0);
	}
	rig_pump();
	for (unsigned int i = 0; i < 4; i++)
		CHECK(rig_ev(&rig.a, EV_DONE, i)->req == &q[i]);
	CHECK_EQ(dst[0], 0); /* the Read came before the Atomic Write */
	CHECK_MEM(dst + 64, "ABCDEFGH", 8);
	rig_unreg(&rig.b, mr);
	rig_unreg(&rig.a, sink);
	rig_close();
	rig_medium_close(&m);
}

/*
 * A Flush that has begun when its region is invalidated is carried out, and the region is held
 * until then. A Verify behind it is refused: its hash could reveal memory that is used for
 * something else by then.
 */
static void
test_invalidate_later(void)
{
	struct weft_rdmap_req q[2];
	struct weft_mem_mr *mr;
	struct rig_medium m;
	uint8_t want[8];

	rig_open(8, 8, false);
	rig_medium_open(&m, 1 << 18);
	mr = rig_reg(&rig.b, m.p.base, 1 << 18, 0, ALL, &m.p, &rig_hash);
	fill(m.p.base, 1 << 18);
	rig_hash_of(m.p.base, 1 << 18, want);
	m.eagain = 3;
	q[0] = op_flush(mr, 0, 1 << 18, WEFT_FLUSH_PERSISTENT);
	q[1] = op_verify(mr, 0, 1 << 18, want);
	weft_rdmap_post(rig.a.r, &q[0]);
	weft_rdmap_post(rig.a.r, &q[1]);
	rig_step();
	rig_unreg(&rig.b, mr);
	rig_step();
	CHECK_EQ(rig.b.pd.regions, 1);
	rig_pump();
	CHECK_EQ(rig_status(&rig.a, &q[0]), WEFT_RDMAP_OK);
	CHECK_EQ(rig_status(&rig.a, &q[1]), WEFT_RDMAP_REMOTE_ACCESS);
	CHECK_EQ(rig.b.op_stats.faults.requests_revoked, 1);
	CHECK_EQ(rig.b.pd.regions, 0);
	rig_close();
	rig_medium_close(&m);
}

WEFT_TEST_MAIN({"write", test_write}, {"send", test_send}, {"read", test_read},
               {"flush", test_flush}, {"drop_flush", test_drop_flush},
               {"early_response", test_early_response}, {"verify", test_verify},
               {"verify_slices", test_verify_slices}, {"atomic_write", test_atomic_write},
               {"commit_pipeline", test_commit_pipeline}, {"ord", test_ord},
               {"stalls", test_ord_stalls}, {"fence", test_fence}, {"both_ways", test_both_ways},
               {"strict_order", test_strict_order}, {"invalidate_later", test_invalidate_later})
