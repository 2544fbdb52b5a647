/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * draft-talpey-rdma-commit-02 on the wire and at the medium: the segments of its figures octet by
 * octet. Rights are checked before any action. A response is sent only after its action is done. A
 * Verify hashes the content of the medium.
 */

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "conform.h"

static void
place(uint8_t op, uint32_t msn, uint64_t off, uint32_t len, const void *rest, uint32_t n)
{
	rig_inject_place(&rig.b, op, msn, cf.all->stag, CF_BASE + off, len, rest, n);
}

/** Check that the next message sent is this response, with this MSN and n octets of payload. */
static void
expect_resp(uint8_t op, uint32_t msn, const void *p, uint32_t n)
{
	uint8_t u[18 + WEFT_HASH_MAX_BYTES] = {0x41, 0x40 | op, [9] = 3};

	weft_put_be32(u + 10, msn);
	if (n > 0)
		memcpy(u + 18, p, n);
	EXPECT_ULPDU(&rig.b, u, 18 + n);
}

/* Figures 9, 11 and 13, sent by a requester. Invalidate STag and MO are zero. */
static void
test_requests(void)
{
	static const uint8_t flush[38] = {0x41, 0x4c, 0, 0, 0, 0,    0, 0, 0,    1, 0, 0, 0,
	                                  1,    0,    0, 0, 0, 0xaa, 1, 2, 0xbb, 0, 1, 2, 3,
	                                  1,    2,    3, 4, 5, 6,    7, 8, 0,    0, 0, 7};
	static const uint8_t verify[34] = {0x41, 0x4e, 0, 0, 0, 0, 0,    0, 0, 1,    0, 0,
	                                   0,    2,    0, 0, 0, 0, 0xaa, 1, 2, 0xbb, 0, 1,
	                                   2,    3,    1, 2, 3, 4, 5,    6, 7, 8};
	static const uint8_t expected[42] = {0x41, 0x4e, 0,   0,   0,   0,   0,   0,    0,  1, 0,
	                                     0,    0,    3,   0,   0,   0,   0,   0xaa, 1,  2, 0xbb,
	                                     0,    1,    2,   3,   1,   2,   3,   4,    5,  6, 7,
	                                     8,    'E',  'X', 'P', 'E', 'C', 'T', 'E',  'D'};
	static const uint8_t awrite[42] = {
	        0x41, 0x50, 0, 0, 0,    0, 0,    0,    0,    1,    0,    0,    0,    4,
	        0,    0,    0, 0, 0xaa, 1, 2,    0xbb, 0,    0,    0,    8,    1,    2,
	        3,    4,    5, 6, 7,    8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18};
	struct weft_rdmap_req q[4];

	cf_open();
	for (unsigned int i = 0; i < 4; i++)
		q[i] = (struct weft_rdmap_req){.op = WEFT_RDMAP_VERIFY_REQ,
		                               .len_bytes = 0x00010203,
		                               .stag = 0xaa0102bb,
		                               .to = 0x0102030405060708};
	q[0].op = WEFT_RDMAP_FLUSH_REQ;
	q[0].flush_flags = WEFT_FLUSH_PERSISTENT | WEFT_FLUSH_VISIBLE | WEFT_FLUSH_REGION;
	q[2].hash_bytes = 8;
	memcpy(q[2].hash, "EXPECTED", 8);
	q[3].op = WEFT_RDMAP_AWRITE_REQ;
	q[3].len_bytes = 8;
	memcpy(q[3].hash, awrite + 34, 8);
	for (unsigned int i = 0; i < 4; i++)
		weft_rdmap_post(rig.b.r, &q[i]);
	rig_pump();
	EXPECT_ULPDU(&rig.b, flush, sizeof(flush));
	EXPECT_ULPDU(&rig.b, verify, sizeof(verify));
	EXPECT_ULPDU(&rig.b, expected, sizeof(expected));
	EXPECT_ULPDU(&rig.b, awrite, sizeof(awrite));
	/* no request completes before its response */
	for (unsigned int i = 0; i < 4; i++)
		CHECK_EQ(rig_status(&rig.b, &q[i]), -1);
	cf_close();
}

/* Figures 10, 12 and 14, sent by a responder. The MSNs of queue 3 count all of them, from 1. */
static void
test_responses(void)
{
	static const uint8_t word[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	uint8_t hash[8];

	cf_open();
	cf.touched = true;
	place(WEFT_RDMAP_FLUSH_REQ, 1, 0, CF_BYTES, "\0\0\0\3", 4);
	place(WEFT_RDMAP_VERIFY_REQ, 2, 8, 100, NULL, 0);
	place(WEFT_RDMAP_AWRITE_REQ, 3, 16, 8, word, 8);
	rig_pump();
	rig_hash_of(cf.med.shadow + 8, 100, hash);
	expect_resp(WEFT_RDMAP_FLUSH_RESP, 1, NULL, 0);
	expect_resp(WEFT_RDMAP_VERIFY_RESP, 2, hash, 8);
	expect_resp(WEFT_RDMAP_AWRITE_RESP, 3, NULL, 0);
	CHECK(TAILQ_EMPTY(&rig.b.out));
	/* s2.3.1: the octets are stored in wire order, and no others change; s1.7: the word is not
	 * flushed */
	CHECK_MEM(cf.med.p.base + 16, word, 8);
	CHECK_EQ(cf.med.p.base[15], CF_FILL);
	CHECK_EQ(cf.med.p.base[24], CF_FILL);
	CHECK_EQ(cf.med.shadow[16], CF_FILL);
	/* the consumer sees nothing of it: no receive, no completion (s2: no ULP message) */
	CHECK_EQ(rig_ev_count(&rig.b, EV_RECV) + rig_ev_count(&rig.b, EV_IMM) +
	                 rig_ev_count(&rig.b, EV_DONE) + rig_ev_count(&rig.b, EV_BAD_RANGE),
	         0);
	cf_close();
}

/* s2: the Invalidate STag is ignored, and nothing is invalidated. */
static void
test_invalidate_ignored(void)
{
	uint8_t p[24] = {0};

	cf_open();
	cf.touched = true;
	weft_put_be32(p, cf.all->stag);
	weft_put_be64(p + 8, CF_BASE);
	p[7] = 8;
	p[19] = 1;
	rig_inject_untagged(&rig.b, 0x4c, 1, 1, 0, true, cf.all->stag, p, 20);
	rig_inject_untagged(&rig.b, 0x4e, 1, 2, 0, true, cf.all->stag, p, 16);
	rig_inject_untagged(&rig.b, 0x50, 1, 3, 0, true, cf.all->stag, p, 24);
	rig_pump();
	for (unsigned int i = 0; i < 3; i++) {
		struct rig_ulpdu *u = rig_pop(&rig.b);

		CHECK(u != NULL && u->data[1] != 0x47);
		free(u);
	}
	CHECK_EQ(rig.b.inv_stag, 0);
	cf_close();
}

/* s1.4: rights are checked first. After a refusal of any kind the medium is not touched, nor are
 * later requests carried out. */
static void
test_check_first(void)
{
	static const struct {
		uint8_t op;
		/* 0: unknown STag, 1: another domain, 2: without the right, 3: beyond the end */
		int region;
	} rows[] = {
	        {WEFT_RDMAP_FLUSH_REQ, 0},  {WEFT_RDMAP_FLUSH_REQ, 1},  {WEFT_RDMAP_FLUSH_REQ, 2},
	        {WEFT_RDMAP_FLUSH_REQ, 3},  {WEFT_RDMAP_VERIFY_REQ, 0}, {WEFT_RDMAP_VERIFY_REQ, 1},
	        {WEFT_RDMAP_VERIFY_REQ, 2}, {WEFT_RDMAP_VERIFY_REQ, 3}, {WEFT_RDMAP_AWRITE_REQ, 0},
	        {WEFT_RDMAP_AWRITE_REQ, 1}, {WEFT_RDMAP_AWRITE_REQ, 2}, {WEFT_RDMAP_AWRITE_REQ, 3}};

	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		uint32_t stag, n = rows[i].op == WEFT_RDMAP_FLUSH_REQ    ? 4
		                   : rows[i].op == WEFT_RDMAP_VERIFY_REQ ? 0
		                                                         : 8;
		struct rig_ulpdu *u;

		cf_open();
		stag = (uint32_t[]){0x12345678, cf.alien->stag, cf.ro->stag,
		                    cf.all->stag}[rows[i].region];
		rig_inject_place(&rig.b, rows[i].op, 1, stag,
		                 CF_BASE + (rows[i].region == 3 ? CF_BYTES : 0), 8,
		                 "\0\0\0\1\0\0\0\0", n);
		place(WEFT_RDMAP_FLUSH_REQ, 2, 0, 8, "\0\0\0\1", 4);
		place(WEFT_RDMAP_VERIFY_REQ, 3, 0, 8, NULL, 0);
		place(WEFT_RDMAP_AWRITE_REQ, 4, 0, 8, "ABCDEFGH", 8);
		rig_pump();
		u = rig_pop(&rig.b);
		CHECK(u != NULL && u->data[1] == 0x47);
		free(u);
		CHECK(TAILQ_EMPTY(&rig.b.out));
		CHECK_EQ(cf.med.flushes, 0);
		CHECK_EQ(cf.med.reads, 0);
		CHECK_EQ(rig_ev_count(&rig.b, EV_BAD_RANGE), 0);
		cf_close();
	}
}

/* s2.1: there is no response while the medium works, however long that takes. Then there is one. */
static void
test_not_before(void)
{
	static const uint32_t flags[] = {1, 2, 3, 5, 6, 7};

	for (unsigned int i = 0; i < RTE_DIM(flags); i++) {
		uint8_t f[4] = {0, 0, 0, (uint8_t)flags[i]};

		cf_open();
		cf.med.eagain = 50;
		memset(cf.med.shadow, 0, CF_BYTES);
		place(WEFT_RDMAP_FLUSH_REQ, 1, 64, 128, f, 4);
		while (cf.med.shadow[64] != CF_FILL) {
			CHECK(TAILQ_EMPTY(&rig.b.out));
			CHECK(rig_step());
		}
		rig_pump();
		expect_resp(WEFT_RDMAP_FLUSH_RESP, 1, NULL, 0);
		CHECK_EQ(cf.med.flushes, 1);
		CHECK_EQ(cf.med.last_flags & 3, flags[i] & 3);
		/* without R the range is flushed; with R the whole region is, whatever the range */
		for (uint32_t k = 0; k < CF_BYTES; k++)
			if ((flags[i] & 4) || (k >= 64 && k < 64 + 128))
				CHECK_EQ(cf.med.shadow[k], CF_FILL);
		cf_close();
	}
}

/* s2.1.1: with R, offset and length are ignored, even if they are out of bounds. */
static void
test_region_ignores(void)
{
	static const struct {
		uint64_t to;
		uint32_t len;
	} bad[] = {{0, 0},
	           {0, UINT32_MAX},
	           {UINT64_MAX, UINT32_MAX},
	           {CF_BASE - 1, 1},
	           {CF_BASE + CF_BYTES, 1}};

	for (unsigned int i = 0; i < RTE_DIM(bad); i++) {
		cf_open();
		memset(cf.med.shadow, 0, CF_BYTES);
		rig_inject_place(&rig.b, WEFT_RDMAP_FLUSH_REQ, 1, cf.all->stag, bad[i].to,
		                 bad[i].len, "\0\0\0\5", 4);
		rig_pump();
		expect_resp(WEFT_RDMAP_FLUSH_RESP, 1, NULL, 0);
		for (uint32_t k = 0; k < CF_BYTES; k++)
			CHECK_EQ(cf.med.shadow[k], CF_FILL);
		cf_close();
	}
}

/* Lengths 0, 1, odd, around cache lines and pages, and the whole region: each is answered and
 * carried out. */
static void
test_lengths(void)
{
	static const uint32_t len[] = {0,  1,    7,    8,    63,           64,
	                               65, 4095, 4096, 4097, CF_BYTES - 1, CF_BYTES};
	uint8_t hash[8], other[8];

	for (unsigned int i = 0; i < RTE_DIM(len); i++)
		for (unsigned int end = 0; end < 2; end++) { /* at the start, then up to the end */
			uint64_t off = end ? CF_BYTES - len[i] : 0;

			cf_open();
			for (uint32_t k = 0; k < CF_BYTES; k++)
				cf.med.shadow[k] = (uint8_t)(k * 7 + k / 256);
			rig_hash_of(cf.med.shadow + off, len[i], hash);
			place(WEFT_RDMAP_VERIFY_REQ, 1, off, len[i], NULL, 0);
			place(WEFT_RDMAP_VERIFY_REQ, 2, off, len[i], hash, 8);
			place(WEFT_RDMAP_FLUSH_REQ, 3, off, len[i], "\0\0\0\1", 4);
			rig_pump();
			/* s2.2.2: the hash of the medium, which differs from memory */
			expect_resp(WEFT_RDMAP_VERIFY_RESP, 1, hash, 8);
			expect_resp(WEFT_RDMAP_VERIFY_RESP, 2, hash, 8);
			expect_resp(WEFT_RDMAP_FLUSH_RESP, 3, NULL, 0);
			CHECK_EQ(cf.med.flushes, len[i] > 0);
			for (uint32_t k = 0; k < len[i]; k++)
				CHECK_EQ(cf.med.shadow[off + k], CF_FILL);
			/* s2.1.2: a Verify after the Flush hashes the flushed octets */
			rig_hash_of(cf.med.p.base + off, len[i], other);
			place(WEFT_RDMAP_VERIFY_REQ, 4, off, len[i], other, 8);
			rig_pump();
			expect_resp(WEFT_RDMAP_VERIFY_RESP, 4, other, 8);
			cf_close();
		}
}

/* s2.1.2, s2.2.2, s2.3.2: requests are carried out one after the other, each after the one before
 * is done. */
static void
test_strict_order(void)
{
	uint8_t hash[8];

	for (unsigned int immediate = 0; immediate < 2; immediate++) {
		cf_open();
		cf.touched = true;
		cf.med.immediate = immediate;
		memset(cf.med.shadow, 0, CF_BYTES);
		rig_hash_of(cf.med.p.base, 64, hash);
		cf.med.eagain = 3;
		place(WEFT_RDMAP_FLUSH_REQ, 1, 0, 64, "\0\0\0\1", 4);
		place(WEFT_RDMAP_VERIFY_REQ, 2, 0, 64, hash, 8);
		place(WEFT_RDMAP_AWRITE_REQ, 3, 128, 8, "ABCDEFGH", 8);
		place(WEFT_RDMAP_FLUSH_REQ, 4, 128, 8, "\0\0\0\1", 4);
		do {
			bool flushed = cf.med.shadow[0] == CF_FILL;
			bool stored = cf.med.p.base[128] == 'A';

			CHECK_MSG(cf.med.reads == 0 || flushed, "verified before it was flushed");
			CHECK_MSG(!stored || cf.med.reads == 1, "stored before it was verified");
			CHECK_MSG(cf.med.flushes < 2 || stored, "flushed before it was stored");
		} while (rig_step());
		expect_resp(WEFT_RDMAP_FLUSH_RESP, 1, NULL, 0);
		expect_resp(WEFT_RDMAP_VERIFY_RESP, 2, hash, 8);
		expect_resp(WEFT_RDMAP_AWRITE_RESP, 3, NULL, 0);
		expect_resp(WEFT_RDMAP_FLUSH_RESP, 4, NULL, 0);
		CHECK_MEM(cf.med.shadow + 128, "ABCDEFGH", 8);
		CHECK_EQ(cf.med.shadow[136], 0);
		cf_close();
	}
}

/*
 * s2.3.2: the k-th of n Flushes and Verifies fails, for each k and each kind of failure. Requests
 * before it are answered. The Atomic Write and all others behind it are not carried out.
 */
static void
test_kth_fails(void)
{
	enum { N = 3 }; /* with the Atomic Write: CF_IRD */

	for (unsigned int verify = 0; verify < 1u << N; verify++)
		for (unsigned int k = 0; k < N; k++) {
			cf_open();
			memset(cf.med.shadow, CF_FILL, CF_BYTES);
			for (unsigned int i = 0; i < N; i++) {
				bool is_verify = verify & 1u << i;

				if (is_verify)
					place(WEFT_RDMAP_VERIFY_REQ, i + 1, 0, 64,
					      i == k ? "notright" : NULL, i == k ? 8 : 0);
				else
					place(WEFT_RDMAP_FLUSH_REQ, i + 1, 0, 64, "\0\0\0\1", 4);
			}
			place(WEFT_RDMAP_AWRITE_REQ, N + 1, 128, 8, "ABCDEFGH", 8);
			/* the k-th is a Flush: the medium fails from then on */
			while (!(verify & 1u << k) &&
			       rig.b.op_stats.out[WEFT_RDMAP_FLUSH_RESP] +
			                       rig.b.op_stats.out[WEFT_RDMAP_VERIFY_RESP] <
			               k)
				CHECK(rig_step());
			if (!(verify & 1u << k))
				cf.med.flush_err = -EIO;
			rig_pump();
			for (unsigned int i = 0; i <= k; i++) {
				struct rig_ulpdu *u = rig_pop(&rig.b);
				uint8_t want = i == k ? 0x47 : (verify & 1u << i) ? 0x4f : 0x4d;

				CHECK_MSG(u != NULL && u->data[1] == want, "verify %x, %u of %u",
				          verify, i, k);
				if (i == k)
					CHECK_EQ(u->data[19], verify & 1u << k ? 0x0b : 0x0a);
				free(u);
			}
			CHECK(TAILQ_EMPTY(&rig.b.out));
			CHECK_EQ(rig_ev_count(&rig.b, EV_BAD_RANGE), 1);
			cf_close(); /* checks that the word is unchanged, too */
		}
}

/* s4.1 case 1: a request that cannot be sent is replaced by a Terminate without headers. */
static void
test_cannot_be_made(void)
{
	static const uint8_t ops[] = {WEFT_RDMAP_FLUSH_REQ, WEFT_RDMAP_VERIFY_REQ,
	                              WEFT_RDMAP_AWRITE_REQ};

	for (unsigned int i = 0; i < RTE_DIM(ops); i++) {
		static const struct weft_term local = {0, 0, 0};

		cf_open();
		rig.b.r->ord = 0;
		cf.req[0] = (struct weft_rdmap_req){.op = ops[i], .len_bytes = 8, .flush_flags = 1};
		weft_rdmap_post(rig.b.r, &cf.req[0]);
		cf.guilty_bytes = 1; /* no segment is to blame */
		cf_expect_term(&local, CF_WORD);
		CHECK(rig_status(&rig.b, &cf.req[0]) != WEFT_RDMAP_OK);
		cf_close();
	}
}

/* ---- The stream ends while the medium works ---- */

static void
lost(int err)
{
	rig.b.live = false;
	rig.b.ddp->mpa->tcp = NULL;
	weft_ddp_mpa_ops.closed(rig.b.ddp, err);
}

/* clang-format off */
static void by_abort(void) { weft_rdmap_abort(rig.b.r, rig.now_ns); }
static void by_destroy(void) { weft_rdmap_destroy(rig.b.r); rig.b.r = NULL; }
static void by_reset(void) { lost(-ECONNRESET); }
static void by_terminate(void) { CF_UNTAGGED(0x47, 2, 1, 0, "\x02\x07\0\0", 4); }
static void by_own_terminate(void)
{
	weft_rdmap_terminate(rig.b.r, &(struct weft_term){0, 2, 7}, rig.now_ns);
}
static void by_bad_write(void) { CF_TAGGED(0x40, 0x12345678, CF_BASE, "abcd", 4); }
static void by_crc(void)
{
	weft_ddp_mpa_ops.fault(rig.b.ddp, &(struct weft_term){2, 0, WEFT_MPA_ERR_CRC});
}
/* clang-format on */

/*
 * s2.1.2: the medium reports to a stream that has ended. There is no response, later requests are
 * not carried out, and no region is held (cf_close()). A Flush that has begun is carried out.
 */
static void
test_late(void)
{
	static void (*const ends[])(void) = {by_abort,         by_destroy,   by_reset, by_terminate,
	                                     by_own_terminate, by_bad_write, by_crc};

	for (unsigned int i = 0; i < RTE_DIM(ends); i++)
		for (unsigned int how = 0; how < 4; how++) {
			bool verify = how & 1, fails = how & 2;
			struct rig_ulpdu *u;

			cf_open();
			memset(cf.med.shadow, 0, CF_BYTES);
			cf.med.flush_err = cf.med.read_err = fails ? -EIO : 0;
			if (verify)
				place(WEFT_RDMAP_VERIFY_REQ, 1, 0, 64, NULL, 0);
			else
				place(WEFT_RDMAP_FLUSH_REQ, 1, 0, 64, "\0\0\0\1", 4);
			place(WEFT_RDMAP_AWRITE_REQ, 2, 128, 8, "ABCDEFGH", 8);
			place(WEFT_RDMAP_FLUSH_REQ, 3, 128, 8, "\0\0\0\1", 4);
			weft_sched_run(&rig.b.sched, rig.now_ns);
			CHECK(rdmap_persist_busy(rig.b.r));
			ends[i]();
			rig_pump();
			while ((u = rig_pop(&rig.b)) != NULL) {
				CHECK_EQ(u->data[1], 0x47);
				free(u);
			}
			CHECK_EQ(cf.med.shadow[0], verify || fails ? 0 : CF_FILL);
			CHECK_EQ(cf.med.shadow[128], 0);
			CHECK_EQ(cf.med.flushes + cf.med.reads, 1);
			CHECK_EQ(rig_ev_count(&rig.b, EV_BAD_RANGE), 0);
			cf_close();
		}
}

/* ---- s2.3.2: a CPU that reads the word all the time ---- */

#define TORN_WORDS 2

struct spin {
	const _Atomic uint64_t *word;
	_Atomic bool stop;
	uint64_t seen, torn;
	_Atomic uint64_t changes;
};

/* A word was written whole if all its octets are equal, or was not written at all. */
static void *
spin_main(void *arg)
{
	struct spin *s = arg;
	uint64_t last[TORN_WORDS] = {0};

	while (!atomic_load_explicit(&s->stop, memory_order_relaxed))
		for (unsigned int i = 0; i < TORN_WORDS; i++) {
			uint64_t v = atomic_load_explicit(&s->word[i], memory_order_relaxed);

			s->seen++;
			if (v != last[i])
				atomic_fetch_add_explicit(&s->changes, 1, memory_order_relaxed);
			s->torn += v != (v & 0xff) * 0x0101010101010101ull;
			last[i] = v;
		}
	return NULL;
}

static void
test_never_torn(void)
{
	/* The other CPU may be busy. A word proves nothing unless it was read while it changed. */
	enum { MIN = 60000, MAX = 4000000, ENOUGH = 5000, SEEN = 200 };
	struct spin s = {0};
	struct rig_ulpdu *u;
	pthread_t th;

	cf_open();
	cf.touched = true;
	s.word = (const _Atomic uint64_t *)(const void *)cf.med.p.base;
	CHECK_EQ(pthread_create(&th, NULL, spin_main, &s), 0);
	for (uint32_t i = 0; i < MIN || (i < MAX && atomic_load(&s.changes) < ENOUGH); i++) {
		uint8_t word[8];

		memset(word, (int)(i * 37), 8);
		place(WEFT_RDMAP_AWRITE_REQ, i + 1, i % TORN_WORDS * 8, 8, word, 8);
		rig_step();
		u = rig_pop(&rig.b);
		CHECK(u != NULL && u->data[1] == 0x51);
		free(u);
	}
	atomic_store(&s.stop, true);
	pthread_join(th, NULL);
	CHECK_MSG(s.torn == 0, "%" PRIu64 " torn words of %" PRIu64, s.torn, s.seen);
	test_note("%" PRIu64 " looks, %" PRIu64 " changes seen", s.seen, atomic_load(&s.changes));
	CHECK(atomic_load(&s.changes) >= SEEN);
	cf_close();
}

WEFT_TEST_MAIN({"requests", test_requests}, {"responses", test_responses},
               {"invalidate STag", test_invalidate_ignored}, {"rights first", test_check_first},
               {"no response before", test_not_before}, {"whole region", test_region_ignores},
               {"lengths", test_lengths}, {"strict order", test_strict_order},
               {"the k-th fails", test_kth_fails}, {"cannot be made", test_cannot_be_made},
               {"never torn", test_never_torn}, {"too late", test_late})
