/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Octets of MPA: CRC32c, FPDUs of the RFC and of siw, start-up frames. */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "../../lib/mpa/mpa_wire.h"
#include "fake_tcp.h"

static uint32_t
crc_field(const void *p, uint32_t len)
{
	uint8_t f[4];

	mpa_crc_put(f, mpa_crc_update(MPA_CRC_INIT, p, len));
	return weft_get_be32(f);
}

/** RFC 7143 appendix A.4: the CRC's octets in the order on the wire. */
static void
test_crc_vectors(void)
{
	static const uint8_t read10[48] = {0x01, 0xc0, 0, 0,    0,    0, 0, 0,    0,    0, 0,    0,
	                                   0,    0,    0, 0,    0x14, 0, 0, 0,    0,    0, 0x04, 0,
	                                   0,    0,    0, 0x14, 0,    0, 0, 0x18, 0x28, 0, 0,    0,
	                                   0,    0,    0, 0,    0x02, 0, 0, 0,    0,    0, 0,    0};
	uint8_t b[32];

	memset(b, 0, 32);
	CHECK_EQ(crc_field(b, 32), 0xaa36918a);
	memset(b, 0xff, 32);
	CHECK_EQ(crc_field(b, 32), 0x43aba862);
	for (int i = 0; i < 32; i++)
		b[i] = i;
	CHECK_EQ(crc_field(b, 32), 0x4e79dd46);
	for (int i = 0; i < 32; i++)
		b[i] = 31 - i;
	CHECK_EQ(crc_field(b, 32), 0x5cdb3f11);
	CHECK_EQ(crc_field(read10, 48), 0x563a96d9);
}

/** In pieces at any alignment: equal to the CRC of the whole, and to slow_crc32c(). */
static void
test_crc_pieces(void)
{
	uint8_t b[300];

	for (unsigned int i = 0; i < sizeof(b); i++)
		b[i] = i * 7 + 3;
	for (uint32_t len = 0; len < 280; len++) {
		uint32_t cut = len / 3, off = len % 9;
		uint32_t crc = mpa_crc_update(MPA_CRC_INIT, b + off, cut);

		crc = mpa_crc_update(crc, b + off + cut, len - cut);
		CHECK_EQ((uint32_t)~crc, slow_crc32c(b + off, len));
	}
}

/** RFC 5044 Figure 5: the CRC covers the marker before the length field. */
static void
test_rfc5044_figure5(void)
{
	static const uint8_t fig5[0x34] = {
	        0x00,          0x00, 0x00, 0x00, /* marker */
	        0x00,          0x2a,             /* ULPDU length */
	        0x41,          0x43,             /* Send, last */
	        0x00,          0x00, 0x00, 0x00, /* reserved */
	        0x00,          0x00, 0x00, 0x00, /* QN */
	        0x00,          0x00, 0x00, 0x01, /* MSN */
	        [0x30] = 0x52, 0x23, 0x99, 0x83, /* CRC; MO and 24 octets of data are zero */
	};

	CHECK_EQ(crc_field(fig5, 0x30), 0x52239983);
	CHECK(mpa_crc_matches(fig5 + 0x30, mpa_crc_update(MPA_CRC_INIT, fig5, 0x30)));
	CHECK_EQ(mpa_fpdu_bytes(0x2a), 0x30);
}

/** RFC 5044 Figure 6: a marker inside. */
static void
test_rfc5044_figure6(void)
{
	static const uint8_t fig6[0x34] = {
	        0x00,          0x2a, 0x41, 0x43, 0x00, 0x00, 0x00, 0x00,
	        0x00,          0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02,
	        0x00,          0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x14, /* marker, FPDUPTR */
	        [0x30] = 0x84, 0x92, 0x58, 0x98,
	};

	CHECK_EQ(crc_field(fig6, 0x30), 0x84925898);
}

/** FPDUs that Linux's siw sent (a capture of rping with CRC on). */
static void
test_siw_fpdus(void)
{
	static const uint8_t send[40] = {
	        0x00, 0x22, 0x41, 0x43, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	        0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x55, 0xb6, 0x04, 0x0f, 0x74, 0xc0,
	        0x67, 0xdc, 0xee, 0x00, 0x00, 0x00, 0x0b, 0xb8, 0x9f, 0xed, 0xaa, 0xd0};
	static const uint8_t term[44] = {0x00, 0x26, 0x41, 0x47, 0x00, 0x00, 0x00, 0x00, 0x00,
	                                 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00,
	                                 0x00, 0x00, 0x11, 0x01, 0x03, 0x00, 0x05, 0x94, 0x81,
	                                 0x42, 0x9c, 0x58, 0x19, 0x00, 0x00, 0x00, 0x55, 0x63,
	                                 0xfc, 0x49, 0x43, 0xb0, 0x75, 0xf1, 0x4b, 0x72};

	CHECK_EQ(mpa_fpdu_bytes(0x22), sizeof(send));
	CHECK(mpa_crc_matches(send + 36, mpa_crc_update(MPA_CRC_INIT, send, 36)));
	CHECK_EQ(mpa_fpdu_bytes(0x26), sizeof(term));
	CHECK(mpa_crc_matches(term + 40, mpa_crc_update(MPA_CRC_INIT, term, 40)));
}

/* ---- A copy and its CRC in one pass ---- */

/** The same, with the Internet checksum, which is added to one that is there. */
static void
check_copy_sum(uint8_t *d, const uint8_t *s, uint32_t len, uint32_t crc)
{
	uint32_t sum = UINT32_MAX - len;
	uint64_t want = sum, got;

	memset(d, 0xa5, len);
	CHECK_EQ(mpa_crc_wide_copy_sum(MPA_CRC_INIT, d, s, len, &sum), crc);
	CHECK_MEM(d, s, len);
	CHECK(d[-1] == 0xa5 && d[len] == 0xa5);
	for (uint32_t i = 0; i < len; i++)
		want += (uint64_t)s[i] << (i % 2 * 8);
	for (got = sum; got > UINT16_MAX;)
		got = (got & UINT16_MAX) + (got >> 16);
	while (want > UINT16_MAX)
		want = (want & UINT16_MAX) + (want >> 16);
	CHECK_EQ(got, want);
}

/** Every length up to 1200 and some up to the longest, at odd places: the wide CRC, with a copy and
 * without, is that of the definition, so is the checksum, and nothing beside the copy is
 * written. */
static void
test_crc_wide(void)
{
	static uint8_t src[65535 + 64], dst[65535 + 128];

	if (!mpa_crc_wide)
		return;
	for (uint32_t i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)(i * 2654435761u >> 13);
	for (uint32_t len = MPA_CRC_WIDE_LEAST_BYTES; len <= 65535;
	     len += len < 1200 || len > 65520 ? 1 : 1013) {
		const uint8_t *s = src + len % 61;
		uint8_t *d = dst + 1 + len % 59;
		uint32_t want = ~slow_crc32c(s, len), first = len % 97;

		memset(dst, 0xa5, sizeof(dst));
		CHECK_EQ(mpa_crc_wide_add(MPA_CRC_INIT, s, len), want);
		CHECK_EQ(mpa_crc_wide_copy(MPA_CRC_INIT, d, s, len), want);
		CHECK_MEM(d, s, len);
		CHECK(d[-1] == 0xa5 && d[len] == 0xa5);
		check_copy_sum(d, s, len, want);
		if (len - first < MPA_CRC_WIDE_LEAST_BYTES)
			continue;
		/* Another beginning than that of an FPDU. */
		CHECK_EQ(mpa_crc_wide_copy(first == 0 ? MPA_CRC_INIT : ~slow_crc32c(s, first), d,
		                           s + first, len - first),
		         want);
		mpa_crc_wide = false; /* and ISA-L agrees */
		CHECK_EQ(mpa_crc_update(MPA_CRC_INIT, s, len), want);
		mpa_crc_wide = true;
	}
}

static struct {
	_Atomic bool stop;
	_Atomic uint64_t rounds;
	uint8_t mem[1500];
} storm;

static void *
storm_main(void *arg)
{
	(void)arg;
	for (uint8_t v = 0; !atomic_load_explicit(&storm.stop, memory_order_relaxed); v++) {
		for (uint32_t i = 0; i < sizeof(storm.mem); i++)
			*(volatile uint8_t *)&storm.mem[i] = v;
		atomic_fetch_add_explicit(&storm.rounds, 1, memory_order_relaxed);
	}
	return NULL;
}

/** The source changes while it is copied: the CRC is that of the copy. */
static void
test_crc_of_copy(void)
{
	static uint8_t dst[1500];
	uint64_t torn = 0, end = 0;
	pthread_t t;

	if (!mpa_crc_wide)
		return;
	CHECK_EQ(pthread_create(&t, NULL, storm_main, NULL), 0);
	while (end < 3000 || torn == 0) {
		uint32_t len = 64 + (uint32_t)(end++ % 1437);
		uint32_t crc = mpa_crc_wide_copy(MPA_CRC_INIT, dst, storm.mem, len);

		mpa_crc_wide = false;
		CHECK_EQ(mpa_crc_update(MPA_CRC_INIT, dst, len), crc);
		mpa_crc_wide = true;
		for (uint32_t i = 1; i < len; i++)
			torn += dst[i] != dst[0];
		if (end > 3000)
			sched_yield(); /* on one processor the other thread has to run meanwhile */
		if (end > 1000000)
			break;
	}
	atomic_store_explicit(&storm.stop, true, memory_order_relaxed);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK(torn > 0);
}

static void
test_fpdu_sizes(void)
{
	uint8_t *b = calloc(1, MPA_FPDU_MAX_BYTES);
	static uint8_t zero[65535];

	CHECK_EQ(mpa_fpdu_bytes(0), 8);
	CHECK_EQ(mpa_fpdu_bytes(1), 8);
	CHECK_EQ(mpa_fpdu_bytes(2), 8);
	CHECK_EQ(mpa_fpdu_bytes(3), 12);
	CHECK_EQ(mpa_fpdu_bytes(65535), MPA_FPDU_MAX_BYTES);
	for (uint32_t n = 0; n <= 65535; n += n < 64 || n > 65500 ? 1 : 997)
		CHECK_EQ(mpa_fpdu_bytes(n), slow_fpdu(b, zero, n));
	free(b);
}

/** RFC 5044 s4.5, s3: the formulas and their limits. Without markers the MULPDU is the largest
 * that fits. */
static void
test_mulpdu(void)
{
	static const struct {
		uint16_t emss, plain, marked;
	} row[] = {
	        {1460, 1454, 1442},    {1448, 1442, 1430},    {536, 530, 522},
	        {8948, 8942, 8870},    {1459, 1450, 1438},    {512, 506, 502},
	        {513, 506, 498},       {134, 128, 128},       {138, 130, 128},
	        {144, 138, 134},       {133, 128, 128},       {1, 128, 128},
	        {0, 128, 128},         {65535, 64768, 64768}, {64774, 64766, 64258},
	        {64776, 64768, 64262},
	};

	for (unsigned int i = 0; i < RTE_DIM(row); i++) {
		CHECK_EQ(weft_mpa_mulpdu(row[i].emss, false), row[i].plain);
		CHECK_EQ(weft_mpa_mulpdu(row[i].emss, true), row[i].marked);
	}
	for (uint32_t emss = 0; emss <= 65535; emss++)
		for (int markers = 0; markers < 2; markers++) {
			uint32_t marks = markers ? 4 * ((emss + 511) / 512) : 0;
			int64_t want = (int64_t)emss - (6 + marks + emss % 4);

			want = want < 128 ? 128 : want > 64768 ? 64768 : want;
			CHECK_EQ(weft_mpa_mulpdu(emss, markers), want);
		}
	for (uint32_t emss = 136; emss < 9100; emss++) {
		uint16_t u = weft_mpa_mulpdu(emss, false), v = weft_mpa_mulpdu(emss, true);

		CHECK(mpa_fpdu_bytes(u) <= emss);
		CHECK(mpa_fpdu_bytes(u + 1) > emss);
		/* with markers it fits at every position of them */
		for (uint16_t pos = 0; emss >= 144 && pos < 512; pos += 4)
			CHECK(mpa_fpdu_bytes(v) + 4 * mpa_markers(pos, mpa_fpdu_bytes(v)) <= emss);
	}
}

/* ---- Start-up frames ---- */

/** Decode from a buffer of exactly that length, so that ASan detects an access beyond it. */
static int
decode_exact(const uint8_t *p, size_t len, struct weft_mpa_frame *f)
{
	uint8_t *b = malloc(len != 0 ? len : 1);
	int rc;

	memcpy(b, p, len);
	rc = weft_mpa_frame_decode(b, len, f);
	free(b);
	return rc;
}

static const uint8_t rev1_req[] = "MPA ID Req Frame\x40\x01\x00\x05hello";
/* siw: peer-to-peer, IRD 128, ORD 128, Send no, Write and Read yes. */
static const uint8_t siw_p2p_req[] = "MPA ID Req Frame\x50\x02\x00\x04\x80\x80\xc0\x80";
static const uint8_t siw_p2p_rep[] = "MPA ID Rep Frame\x50\x02\x00\x04\x80\x01\x80\x00";
/* A Reply of revision 2 encoded by the test: rejected, IRD 0x3fff, ORD 0x1234, private data
 * "xyz". */
static const uint8_t rev2_rep[] = "MPA ID Rep Frame\x70\x02\x00\x07\x3f\xff\x12\x34xyz";

static void
test_frame_vectors(void)
{
	struct weft_mpa_frame f;
	uint8_t b[MPA_FRAME_MAX_BYTES];

	CHECK_EQ(decode_exact(rev1_req, 25, &f), 25);
	CHECK(!f.reply && !f.markers && f.crc && !f.reject && !f.enhanced && f.rev == 1);
	CHECK_EQ(f.pdata_len_bytes, 5);
	CHECK_MEM(f.pdata, "hello", 5);
	CHECK_EQ(weft_mpa_frame_encode(&f, b, sizeof(b)), 25);
	CHECK_MEM(b, rev1_req, 25);

	CHECK_EQ(decode_exact(siw_p2p_req, 24, &f), 24);
	CHECK(!f.reply && f.crc && f.enhanced && f.rev == 2);
	CHECK_EQ(f.ird, 128);
	CHECK_EQ(f.ord, 128);
	CHECK(f.p2p && !f.rtr_send && f.rtr_write && f.rtr_read);
	CHECK_EQ(f.pdata_len_bytes, 0);
	CHECK_EQ(weft_mpa_frame_encode(&f, b, sizeof(b)), 24);
	CHECK_MEM(b, siw_p2p_req, 24);

	CHECK_EQ(decode_exact(siw_p2p_rep, 24, &f), 24);
	CHECK(f.reply && f.p2p && !f.rtr_send && f.rtr_write && !f.rtr_read);
	CHECK_EQ(f.ird, 1);
	CHECK_EQ(f.ord, 0);

	CHECK_EQ(decode_exact(rev2_rep, 27, &f), 27);
	CHECK(f.reply && f.reject && f.enhanced && !f.p2p);
	CHECK_EQ(f.ird, WEFT_MPA_IRD_ORD_NONE);
	CHECK_EQ(f.ord, 0x1234);
	CHECK_MEM(f.pdata, "xyz", 3);
	CHECK_EQ(weft_mpa_frame_encode(&f, b, sizeof(b)), 27);
	CHECK_MEM(b, rev2_rep, 27);
}

static void
test_frame_cut(void)
{
	struct weft_mpa_frame f;
	uint8_t more[40];

	for (size_t n = 0; n < 25; n++)
		CHECK_EQ(decode_exact(rev1_req, n, &f), -EAGAIN);
	for (size_t n = 0; n < 27; n++)
		CHECK_EQ(decode_exact(rev2_rep, n, &f), -EAGAIN);
	/* Octets after the frame are not consumed. */
	memset(more, 0xee, sizeof(more));
	memcpy(more, rev2_rep, 27);
	CHECK_EQ(decode_exact(more, sizeof(more), &f), 27);
	CHECK_EQ(f.pdata_len_bytes, 3);
}

/** Every bit of a frame flipped: a wrong key is detected at once, and the rest is decoded or
 * refused. */
static void
test_frame_flip(void)
{
	struct weft_mpa_frame f;
	uint8_t b[27];

	for (unsigned int bit = 0; bit < 27 * 8; bit++) {
		unsigned int at = bit / 8;
		int rc;

		memcpy(b, rev2_rep, 27);
		b[at] ^= 1 << bit % 8;
		rc = decode_exact(b, 27, &f);
		if (at == 9 && bit % 8 == 0) {
			CHECK_EQ(rc, 27); /* 'p' and 'q' differ in one bit: now it is a Request */
			CHECK(!f.reply);
		} else if (at < 16) {
			CHECK_EQ(rc, -EPROTO);
			CHECK_EQ(decode_exact(b, at + 1, &f), -EPROTO);
			CHECK_EQ(decode_exact(b, at, &f), -EAGAIN);
		} else if (at == 18 || at == 19) {
			uint16_t pd = weft_get_be16(b + 18);

			CHECK_EQ(rc, pd > 512 || pd < 4 ? -EPROTO : pd > 7 ? -EAGAIN : 20 + pd);
		} else {
			CHECK_EQ(rc, 27);
		}
	}
}

static void
test_frame_limits(void)
{
	struct weft_mpa_frame f = {.rev = 2, .enhanced = true, .crc = true}, g;
	uint8_t b[MPA_FRAME_MAX_BYTES + 8];

	f.pdata_len_bytes = 508;
	memset(f.pdata, 0xa5, 508);
	f.ird = f.ord = 0x3fff;
	CHECK_EQ(weft_mpa_frame_encode(&f, b, sizeof(b)), 532);
	CHECK_EQ(decode_exact(b, 532, &g), 532);
	CHECK_EQ(g.pdata_len_bytes, 508);
	CHECK_MEM(g.pdata, f.pdata, 508);
	CHECK_EQ(weft_mpa_frame_encode(&f, b, 531), -ENOSPC);
	f.pdata_len_bytes = 509;
	CHECK_EQ(weft_mpa_frame_encode(&f, b, sizeof(b)), -EINVAL);
	f.pdata_len_bytes = 0;
	f.ird = 0x4000;
	CHECK_EQ(weft_mpa_frame_encode(&f, b, sizeof(b)), -EINVAL);
	f.ird = 1;
	f.rev = 1;
	CHECK_EQ(weft_mpa_frame_encode(&f, b, sizeof(b)), -EINVAL);
	f.enhanced = false;
	f.pdata_len_bytes = 512;
	CHECK_EQ(weft_mpa_frame_encode(&f, b, sizeof(b)), 532);
	/* 513 is refused as soon as the header is complete. */
	weft_put_be16(b + 18, 513);
	CHECK_EQ(decode_exact(b, 20, &g), -EPROTO);
	/* Revision 1: the bit that revision 2 calls S is reserved and ignored. */
	weft_put_be16(b + 18, 2);
	b[16] |= 0x1f;
	CHECK_EQ(decode_exact(b, 22, &g), 22);
	CHECK(!g.enhanced);
	/* Revision 2: the enhanced data are required. */
	b[17] = 2;
	CHECK_EQ(decode_exact(b, 22, &g), -EPROTO);
	/* R has no meaning in a Request. Other revisions are decoded. */
	b[16] = 0x20;
	b[17] = 77;
	CHECK_EQ(decode_exact(b, 22, &g), 22);
	CHECK(!g.reject && g.rev == 77);
	/* Without A the flags B, C, D are neither sent nor decoded. */
	f = (struct weft_mpa_frame){.rev = 2, .enhanced = true, .rtr_send = true, .rtr_read = true};
	CHECK_EQ(weft_mpa_frame_encode(&f, b, sizeof(b)), 24);
	CHECK_EQ(weft_get_be32(b + 20), 0);
	weft_put_be32(b + 20, 0x4001c002);
	CHECK_EQ(decode_exact(b, 24, &g), 24);
	CHECK(!g.p2p && !g.rtr_send && !g.rtr_write && !g.rtr_read);
	CHECK_EQ(g.ird, 1);
	CHECK_EQ(g.ord, 2);
}

WEFT_TEST_MAIN({"crc vectors", test_crc_vectors}, {"crc pieces", test_crc_pieces},
               {"rfc5044 figure 5", test_rfc5044_figure5},
               {"rfc5044 figure 6", test_rfc5044_figure6}, {"siw fpdus", test_siw_fpdus},
               {"wide crc and copy", test_crc_wide}, {"a source that changes", test_crc_of_copy},
               {"fpdu sizes", test_fpdu_sizes}, {"mulpdu", test_mulpdu},
               {"frame vectors", test_frame_vectors}, {"frame cut", test_frame_cut},
               {"frame flip", test_frame_flip}, {"frame limits", test_frame_limits})
