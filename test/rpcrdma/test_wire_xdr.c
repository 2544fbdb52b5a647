/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The header codec compared with rpcgen's routines for the XDR of RFC 8166 and of the draft:
 * random headers of every type, and random damage to them.
 */

#include "weft_test.h"
#include "wire_rig.h"
#include "xdr_oracle.h"

#define ROUNDS  4000
#define DAMAGES 1200000

static const char *
verdict_name(enum rpcrdma_verdict v)
{
	static const char *const names[RPCRDMA_N_VERDICTS] = {
	        [RPCRDMA_OK] = "ok",
	        [RPCRDMA_SHORT] = "too short",
	        [RPCRDMA_BAD_VERS] = "unknown version",
	        [RPCRDMA_BAD_HTYPE] = "unknown header type",
	        [RPCRDMA_BAD_XDR] = "malformed",
	        [RPCRDMA_BAD_PROPVAL] = "malformed property",
	        [RPCRDMA_DISCARD] = "to be discarded",
	        [RPCRDMA_MANY_READS] = "too many read chunks",
	        [RPCRDMA_MANY_WRITES] = "too many write chunks",
	        [RPCRDMA_MANY_SEGS] = "too many segments",
	};

	return names[v];
}

/* A payload after the header. Its first word is the xid. */
static uint32_t
payload(uint8_t *buf, const struct rpcrdma_hdr *h)
{
	return wire_words(buf, (const uint32_t[]){h->p.xid, 1, 2}, 3);
}

static void
both_ways(void)
{
	uint64_t s = test_seed(0x7ea5);
	uint8_t ours[WIRE_MAX_BYTES], theirs[WIRE_MAX_BYTES];
	struct rpcrdma_hdr h, back;

	test_seed_note(s);
	for (unsigned int t = 0; wire_types[t][0] != 0; t++) {
		for (unsigned int round = 0; round < ROUNDS; round++) {
			uint32_t len, oracle_len = 0;

			wire_random(&h, wire_types[t][0], wire_types[t][1], &s);
			len = weft_rpcrdma_encode(ours, sizeof(ours), &h);
			CHECK(len > 0);
			CHECK_EQ(weft_rpcrdma_hdr_bytes(&h), len);
			CHECK_EQ(oracle_encode(theirs, sizeof(theirs), &h), len);
			CHECK_MEM(ours, theirs, len);

			len += payload(theirs + len, &h);
			CHECK_EQ(wire_decode(theirs, len, NULL, &back), RPCRDMA_OK);
			CHECK_EQ(back.len_bytes, len - 12);
			CHECK_EQ(oracle_verdict(theirs, len, &oracle_len), RPCRDMA_OK);
			CHECK_EQ(oracle_len, back.len_bytes);
			CHECK(wire_equal(&h, &back));
			CHECK(weft_rpcrdma_xid_ok(&back, theirs, len));
		}
	}
	CHECK_EQ(sizeof(wire_types[0]), 8);
}

/* Every capacity below the size is refused, and nothing is written. */
static void
room(void)
{
	uint64_t s = test_seed(0x40001);
	uint8_t buf[WIRE_MAX_BYTES];
	struct rpcrdma_hdr h;

	test_seed_note(s);
	for (unsigned int t = 0; wire_types[t][0] != 0; t++) {
		for (unsigned int round = 0; round < 20; round++) {
			uint32_t len;

			wire_random(&h, wire_types[t][0], wire_types[t][1], &s);
			len = weft_rpcrdma_hdr_bytes(&h);
			memset(buf, 0xee, sizeof(buf));
			for (uint32_t cap = 0; cap < len; cap++)
				CHECK_EQ(weft_rpcrdma_encode(buf, cap, &h), 0);
			for (uint32_t i = 0; i < sizeof(buf); i++)
				CHECK_EQ(buf[i], 0xee);
			CHECK_EQ(weft_rpcrdma_encode(buf, len, &h), len);
			CHECK_EQ(buf[len], 0xee);
		}
	}
}

/* Draft s7.2: "the receive buffer ends before the end of a data object". */
static void
cut(void)
{
	uint64_t s = test_seed(0xc07);
	uint8_t buf[WIRE_MAX_BYTES];
	struct rpcrdma_hdr h;

	test_seed_note(s);
	for (unsigned int t = 0; wire_types[t][0] != 0; t++) {
		for (unsigned int round = 0; round < 60; round++) {
			uint32_t vers = wire_types[t][0], type = wire_types[t][1], len, need;
			bool inline_ = vers == 1 ? type == RDMA1_MSG
			                         : type == RDMA2_CALL_INLINE ||
			                                   type == RDMA2_CALL_MIDDLE ||
			                                   type == RDMA2_REPLY_INLINE ||
			                                   type == RDMA2_REPLY_MIDDLE;

			wire_random(&h, vers, type, &s);
			len = need = weft_rpcrdma_encode(buf, sizeof(buf), &h);
			len += payload(buf + len, &h);
			need += inline_ ? 4 : 0;
			for (uint32_t n = 0; n <= len; n++) {
				enum rpcrdma_verdict v = wire_decode(buf, n, NULL, &h);
				uint32_t least = vers == 1 && type != RDMA1_ERROR ? 28 : 16;

				if (n < least)
					CHECK_EQ(v, RPCRDMA_SHORT);
				else if (n < need)
					CHECK_MSG(v == RPCRDMA_BAD_XDR ||
					                  (v == RPCRDMA_BAD_PROPVAL &&
					                   (type == RDMA2_CONNPROP_MIDDLE ||
					                    type == RDMA2_CONNPROP_FINAL)),
					          "version %u type %u cut at %u: %s", vers, type, n,
					          verdict_name(v));
				else
					CHECK_EQ(v, RPCRDMA_OK);
			}
		}
	}
}

/* Damage a message: usually words that are counts and flags, and its length. */
static uint32_t
damage(uint8_t *buf, uint32_t len, uint64_t *s)
{
	static const uint32_t words[] = {0,          1,          2,          3,          4,
	                                 5,          15,         16,         17,         63,
	                                 64,         65,         99,         255,        256,
	                                 257,        0xffff,     0x0fffffff, 0x10000000, 0x7fffffff,
	                                 0x80000000, 0xfffffffc, 0xfffffffd, 0xffffffff};
	const unsigned int n = sizeof(words) / sizeof(words[0]);

	for (unsigned int k = test_xorshift(s) % 3; k < 3; k++) {
		uint32_t at = (uint32_t)(test_xorshift(s) % len);

		switch (test_xorshift(s) % 4) {
		case 0:
			buf[at] = (uint8_t)test_xorshift(s);
			break;
		case 1:
			weft_put_be32(buf + at / 4 * 4, words[test_xorshift(s) % n]);
			break;
		case 2: /* one of the first words, where the lists begin */
			at = 12 + 4 * (uint32_t)(test_xorshift(s) % 8);
			if (at + 4 <= len)
				weft_put_be32(buf + at, words[test_xorshift(s) % 8]);
			break;
		default: /* copy a part of the message over another */
			if (at / 4 * 4 + 24 <= len)
				memmove(buf + at / 4 * 4, buf + len / 2 / 4 * 4,
				        len - len / 2 / 4 * 4 < 24 ? len - len / 2 / 4 * 4 : 24);
			break;
		}
	}
	return test_xorshift(s) % 4 == 0 ? (uint32_t)(test_xorshift(s) % (len + 1)) : len;
}

static void
damaged(void)
{
	uint64_t s = test_seed(0xdead), seen[RPCRDMA_N_VERDICTS] = {0};
	uint8_t buf[WIRE_MAX_BYTES], again[WIRE_MAX_BYTES];
	struct rpcrdma_hdr h, back;

	test_seed_note(s);
	for (unsigned int i = 0; i < DAMAGES; i++) {
		const uint32_t *t = wire_types[test_xorshift(&s) % WIRE_N_TYPES];
		enum rpcrdma_verdict v, want;
		uint32_t len, hdr_bytes = 0;

		wire_random(&h, t[0], t[1], &s);
		len = weft_rpcrdma_encode(buf, sizeof(buf), &h);
		len += payload(buf + len, &h);
		len = damage(buf, len, &s);
		want = oracle_verdict(buf, len, &hdr_bytes);
		v = wire_decode(buf, len, NULL, &h);
		seen[v]++;
		if (want == RPCRDMA_BAD_XDR && v == RPCRDMA_BAD_PROPVAL)
			continue; /* rpcgen does not report which field was wrong */
		CHECK_MSG(v == want, "round %u: %s, the oracle says %s", i, verdict_name(v),
		          verdict_name(want));
		if (v != RPCRDMA_OK)
			continue;
		CHECK_MSG(h.len_bytes == hdr_bytes, "round %u", i);
		/* A decoded header can be encoded again. */
		len = weft_rpcrdma_encode(again, sizeof(again), &h);
		CHECK(len > 0);
		if (h.p.vers == 2 && (h.p.htype == 6 || h.p.htype == 7) &&
		    h.props.n_unknown > RPCRDMA_MAX_UNKNOWN_PROPS)
			continue; /* not all of them are kept */
		len += payload(again + len, &h);
		CHECK_EQ(wire_decode(again, len, NULL, &back), RPCRDMA_OK);
		CHECK_MSG(wire_equal(&h, &back), "round %u: version %u type %u", i, h.p.vers,
		          h.p.htype);
	}
	for (unsigned int v = 0; v < RPCRDMA_N_VERDICTS; v++) {
		test_note("%s: %" PRIu64, verdict_name(v), seen[v]);
		CHECK_MSG(v == RPCRDMA_MANY_READS || v == RPCRDMA_MANY_WRITES ||
		                  v == RPCRDMA_MANY_SEGS || seen[v] > 0 || test_seed_given(),
		          "no damage brought %s", verdict_name(v));
	}
}

/* Lists of random length near the limits, which damage alone does not reach. */
static void
around_the_limits(void)
{
	uint64_t s = test_seed(0x11317), seen[RPCRDMA_N_VERDICTS] = {0};
	uint8_t buf[WIRE_MAX_BYTES];
	struct rpcrdma_hdr h;

	test_seed_note(s);
	for (unsigned int i = 0; i < 60000; i++) {
		bool one = test_xorshift(&s) & 1;
		uint32_t p[4] = {7, one ? 1 : 2, 9, one ? RDMA1_MSG : RDMA2_CALL_INLINE};
		unsigned int reads = test_xorshift(&s) % 70, writes = test_xorshift(&s) % 20;
		uint32_t len = wire_words(buf, p, 4), hdr_bytes = 0, position = 4;
		enum rpcrdma_verdict v, want;

		len += one ? 0 : wire_words(buf + len, (const uint32_t[]){0}, 1);
		for (; reads > 0; reads--) {
			if (one)
				position = 4 + 4 * (uint32_t)(test_xorshift(&s) % 18);
			else if (test_xorshift(&s) % 4 == 0)
				position += 4;
			len += wire_words(buf + len,
			                  (const uint32_t[]){1, position,
			                                     (uint32_t)test_xorshift(&s), 1, 0, 0},
			                  6);
		}
		len += wire_words(buf + len, (const uint32_t[]){0}, 1);
		for (; writes > 0; writes--) {
			unsigned int n = test_xorshift(&s) % 4;

			len += wire_words(buf + len, (const uint32_t[]){1, n}, 2);
			for (; n > 0; n--)
				len += wire_words(buf + len, (const uint32_t[]){1, 2, 3, 4}, 4);
		}
		len += wire_words(buf + len, (const uint32_t[]){0, 0, 7, 0}, 4);
		CHECK(len <= sizeof(buf));
		want = oracle_verdict(buf, len, &hdr_bytes);
		v = wire_decode(buf, len, NULL, &h);
		CHECK_MSG(v == want, "round %u: %s, the oracle says %s", i, verdict_name(v),
		          verdict_name(want));
		seen[v]++;
		if (v != RPCRDMA_OK)
			continue;
		CHECK_EQ(h.len_bytes, hdr_bytes);
		for (unsigned int k = 1; k < h.chunks.n_reads; k++)
			CHECK(h.chunks.reads[k - 1].position < h.chunks.reads[k].position);
	}
	CHECK(seen[RPCRDMA_OK] > 0);
	CHECK(seen[RPCRDMA_MANY_READS] > 0);
	CHECK(seen[RPCRDMA_MANY_WRITES] > 0);
	CHECK(seen[RPCRDMA_MANY_SEGS] > 0);
}

WEFT_TEST_MAIN({"both ways", both_ways}, {"room", room}, {"cut at every length", cut},
               {"damaged", damaged}, {"around the limits", around_the_limits})
