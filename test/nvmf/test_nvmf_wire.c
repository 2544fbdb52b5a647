/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The codec of NVMe over Fabrics: commands, descriptors, answers, Connect's data, names.
 */

#include <errno.h>
#include <stdlib.h>

#include "nvmf_host.h"
#include "weft_test.h"

#define BOTH (1U << WEFT_NVMF_SGL_CAPSULE | 1U << WEFT_NVMF_SGL_KEYED)

/** A Read of Linux 6.1: PSDT 01, CID 0x3006, NSID 1, keyed with invalidation, LBA 8, 8 blocks. */
static const uint8_t linux_read[64] = {0x02, 0x40,        0x06, 0x30,     0x01,    0x00, 0x00,
                                       0x00, [24] = 0x00, 0x10, 0x20,     0x30,    0x40, 0x80,
                                       0xff, 0xff,        0x00, 0x10,     0x00,    0x01, 0xfb,
                                       0xd3, 0x68,        0x4f, [40] = 8, [48] = 7};

static void
test_sqe(void)
{
	struct weft_nvmf_sqe s;
	struct weft_nvmf_sgl sgl;
	uint8_t again[64];

	/* cut short, in an allocation of this length: a sanitizer sees a read behind it */
	for (size_t n = 0; n < 64; n++) {
		uint8_t *cut = test_heap_copy(linux_read, n);

		CHECK_EQ(weft_nvmf_sqe_decode(cut, n, &s), -EPROTO);
		free(cut);
	}
	CHECK_EQ(weft_nvmf_sqe_decode(linux_read, 64, &s), 0);
	CHECK_EQ(s.opcode, WEFT_NVMF_IO_READ);
	CHECK_EQ(s.psdt, 1);
	CHECK_EQ(s.fuse, 0);
	CHECK_EQ(s.cid, 0x3006);
	CHECK_EQ(s.nsid, 1);
	CHECK_EQ(s.cdw[10], 8);
	CHECK_EQ(s.cdw[12], 7);
	CHECK_EQ(weft_nvmf_sgl_decode(&s, BOTH, 0, &sgl), 0);
	CHECK_EQ(sgl.kind, WEFT_NVMF_SGL_KEYED);
	CHECK_EQ(sgl.addr, 0xffff804030201000ULL);
	CHECK_EQ(sgl.bytes, 4096);
	CHECK_EQ(sgl.key, 0x68d3fb01);
	CHECK(sgl.invalidate);
	nv_sqe_encode(&s, again);
	CHECK_MEM(again, linux_read, 64);
	nv_sgl_encode(&sgl, &s);
	nv_sqe_encode(&s, again);
	CHECK_MEM(again, linux_read, 64);
}

static uint16_t
capsule(uint64_t off, uint32_t bytes, size_t inline_bytes, struct weft_nvmf_sgl *out)
{
	struct weft_nvmf_sgl sgl = {.kind = WEFT_NVMF_SGL_CAPSULE, .addr = off, .bytes = bytes};
	struct weft_nvmf_sqe s = {0};

	nv_sgl_encode(&sgl, &s);
	return weft_nvmf_sgl_decode(&s, BOTH, inline_bytes, out);
}

static void
test_sgl(void)
{
	struct weft_nvmf_sgl sgl;
	struct weft_nvmf_sqe s = {0};

	/* all types: two are of this transport */
	for (unsigned int type = 0; type < 256; type++) {
		const bool ok = type == 0x01 || type == 0x40 || type == 0x4f;

		s.cdw[9] = type << 24;
		CHECK_EQ(weft_nvmf_sgl_decode(&s, BOTH, 0, &sgl),
		         ok ? 0 : WEFT_NVMF_SGL_TYPE | WEFT_NVMF_DNR);
	}
	s.cdw[9] = 0x5aU << 24;
	CHECK_EQ(weft_nvmf_sgl_decode(&s, 1U << WEFT_NVMF_SGL_TRANSPORT, 0, &sgl), 0);
	/* length 0 is no data, whatever the type; then nothing is invalidated */
	s.cdw[9] = 0x4fU << 24 | 0x1234;
	CHECK_EQ(weft_nvmf_sgl_decode(&s, BOTH, 0, &sgl), 0);
	CHECK_EQ(sgl.kind, WEFT_NVMF_SGL_NONE);
	CHECK(!sgl.invalidate);
	/* in the capsule: offset and length within it, without wrapping */
	CHECK_EQ(capsule(0, 4096, 4096, &sgl), 0);
	CHECK_EQ(sgl.kind, WEFT_NVMF_SGL_CAPSULE);
	CHECK_EQ(capsule(4096, 0, 4096, &sgl), 0);
	CHECK_EQ(capsule(1, 4096, 4096, &sgl), WEFT_NVMF_SGL_LENGTH | WEFT_NVMF_DNR);
	CHECK_EQ(capsule(0, 4097, 4096, &sgl), WEFT_NVMF_SGL_LENGTH | WEFT_NVMF_DNR);
	CHECK_EQ(capsule(4097, 0, 4096, &sgl), WEFT_NVMF_SGL_OFFSET | WEFT_NVMF_DNR);
	CHECK_EQ(capsule(UINT64_MAX, 2, 4096, &sgl), WEFT_NVMF_SGL_OFFSET | WEFT_NVMF_DNR);
	CHECK_EQ(capsule(UINT64_MAX - 4095, 4096, 4096, &sgl),
	         WEFT_NVMF_SGL_OFFSET | WEFT_NVMF_DNR);
	CHECK_EQ(capsule(1, UINT32_MAX, 4096, &sgl), WEFT_NVMF_SGL_LENGTH | WEFT_NVMF_DNR);
}

static void
test_cqe(void)
{
	const struct weft_nvmf_cqe c = {.result = 0x1122334455667788,
	                                .sqhd = 0x0102,
	                                .sqid = 3,
	                                .cid = 0xf00f,
	                                .status = WEFT_NVMF_LBA_RANGE | WEFT_NVMF_DNR};
	static const uint8_t expect[16] = {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
	                                   0x02, 0x01, 3,    0,    0x0f, 0xf0, 0x00, 0x81};
	struct weft_nvmf_cqe again;
	uint8_t p[16];

	weft_nvmf_cqe_encode(&c, p);
	CHECK_MEM(p, expect, 16);
	nv_cqe_decode(p, &again);
	CHECK_MEM(&again, &c, sizeof(c));
	/* Compare Failure as Linux shows it: 0x4285 */
	CHECK_EQ(WEFT_NVMF_COMPARE_FAILED | WEFT_NVMF_DNR, 0x4285);
}

static void
test_connect(void)
{
	struct weft_nvmf_connect c = {.hostid = {1, 2, 3}, .cntlid = 0xffff}, again;
	uint8_t p[1024];

	strcpy(c.subnqn, WEFT_NVMF_DISCOVERY_NQN);
	memset(c.hostnqn, 'h', 223);
	memcpy(c.hostnqn, "nqn.2026-01.org.example:", 24);
	nv_connect_encode(&c, p);
	CHECK_EQ(weft_nvmf_connect_decode(p, &again), 0);
	CHECK_MEM(&again, &c, sizeof(c));
	/* one octet more, and it has no end within its 224; what is behind in the field is not read
	 */
	p[512 + 223] = 'h';
	CHECK_EQ(weft_nvmf_connect_decode(p, &again), 512);
	p[512] = 0;
	CHECK_EQ(weft_nvmf_connect_decode(p, &again), 512);
	/* what is no NQN; octets that would move a terminal's cursor, in 7 bits and in 8 */
	static const char *const wrong[] = {"host",
	                                    "nqn.2026-01.org\x1b[2J",
	                                    "nqn.2026-01.org\nx",
	                                    "nqn.2026-01.org x",
	                                    "nqn.2026-01.org\x7fx",
	                                    "nqn.2026-01.org\xc2\x9bx",
	                                    "nqn.2026-01.org\xffx"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		memset(c.hostnqn, 0, sizeof(c.hostnqn));
		strcpy(c.hostnqn, wrong[i]);
		nv_connect_encode(&c, p);
		CHECK_EQ(weft_nvmf_connect_decode(p, &again), 512);
	}
	p[256] = 0;
	CHECK_EQ(weft_nvmf_connect_decode(p, &again), 256);
}

static void
test_nqn(void)
{
	char nqn[WEFT_NVMF_NQN_BYTES + 8] = "nqn.2026-01.org.example:";

	CHECK(weft_nvmf_nqn_ok(nqn));
	CHECK(weft_nvmf_nqn_ok(WEFT_NVMF_DISCOVERY_NQN));
	CHECK(weft_nvmf_nqn_ok("nqn.2014-08.org.nvmexpress:uuid:0"));
	CHECK(!weft_nvmf_nqn_ok(""));
	CHECK(!weft_nvmf_nqn_ok("nqn."));
	CHECK(!weft_nvmf_nqn_ok("nqn.2026-01."));
	CHECK(!weft_nvmf_nqn_ok("nqn.2026-1.org"));
	CHECK(!weft_nvmf_nqn_ok("iqn.2026-01.org.example"));
	CHECK(!weft_nvmf_nqn_ok("nqn.2026-01.org example"));
	CHECK(!weft_nvmf_nqn_ok("nqn.2026-01.org\n"));
	CHECK(!weft_nvmf_nqn_ok("nqn.2026-01.org\x7f"));
	CHECK(!weft_nvmf_nqn_ok("nqn.2026-01.org\x80"));
	memset(nqn + strlen(nqn), 'x', sizeof(nqn) - strlen(nqn) - 1);
	nqn[223] = 0;
	CHECK(weft_nvmf_nqn_ok(nqn));
	nqn[223] = 'x';
	nqn[224] = 0;
	CHECK(!weft_nvmf_nqn_ok(nqn));
}

WEFT_TEST_MAIN({"sqe: as Linux sends it, cut at every length", test_sqe},
               {"sgl: every type, every bound", test_sgl}, {"cqe", test_cqe},
               {"connect: names without end", test_connect}, {"nqn", test_nqn})
