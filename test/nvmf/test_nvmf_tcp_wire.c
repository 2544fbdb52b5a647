/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The codec of NVMe/TCP: every field that may be wrong, and the Fatal Error Status (FES) and
 * information (FEI) that the specification has for it.
 */

#include <stdlib.h>
#include <string.h>

#include "nvmf_tcp_wire.h"
#include "weft_nvmf_wire.h"
#include "weft_test.h"

static const struct nvmf_tcp_rules plain = {.capsule_bytes = 8192, .data_bytes = 65536};
static const struct nvmf_tcp_rules both = {
        .hdgst = true, .ddgst = true, .capsule_bytes = 8192, .data_bytes = 65536};

/** A common header, in an allocation of its length. */
static struct nvmf_tcp_fault
ch(const struct nvmf_tcp_rules *r, uint8_t type, uint8_t flags, uint8_t hlen, uint8_t pdo,
   uint32_t plen, struct nvmf_tcp_ch *out)
{
	uint8_t *p = malloc(NVMF_TCP_CH_BYTES);
	struct nvmf_tcp_fault f;

	p[0] = type;
	p[1] = flags;
	p[2] = hlen;
	p[3] = pdo;
	weft_nvmf_put32(p + 4, plen);
	f = nvmf_tcp_ch_decode(p, r, out);
	free(p);
	return f;
}

#define CHECK_CH(r, fes_, fei_, ...) check_ch(__LINE__, r, fes_, fei_, __VA_ARGS__)

static void
check_ch(int line, const struct nvmf_tcp_rules *r, enum nvmf_tcp_fes fes, uint32_t fei,
         uint8_t type, uint8_t flags, uint8_t hlen, uint8_t pdo, uint32_t plen)
{
	struct nvmf_tcp_ch c;
	const struct nvmf_tcp_fault f = ch(r, type, flags, hlen, pdo, plen, &c);

	CHECK_MSG(f.fes == fes && f.fei == fei, "line %d: FES %d FEI %u", line, (int)f.fes, f.fei);
	if (fes != NVMF_TCP_FES_NONE)
		CHECK_EQ(c.data_bytes + c.pad_bytes + c.tail_bytes, 0);
	else
		CHECK_EQ(c.head_bytes + c.pad_bytes + c.data_bytes + c.tail_bytes, plen);
}

static void
test_types(void)
{
	for (unsigned int type = 0; type < 256; type++)
		if (type != NVMF_TCP_ICREQ && type != NVMF_TCP_H2C_TERM &&
		    type != NVMF_TCP_CAPSULE_CMD && type != NVMF_TCP_H2C_DATA)
			CHECK_CH(&plain, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_TYPE, (uint8_t)type, 0, 24,
			         24, 24);
}

static void
test_hlen(void)
{
	static const struct {
		uint8_t type, hlen;
	} right[] = {{NVMF_TCP_ICREQ, 128},
	             {NVMF_TCP_H2C_TERM, 24},
	             {NVMF_TCP_CAPSULE_CMD, 72},
	             {NVMF_TCP_H2C_DATA, 24}};

	for (unsigned int i = 0; i < 4; i++)
		for (unsigned int hlen = 0; hlen < 256; hlen++)
			if (hlen != right[i].hlen)
				CHECK_CH(&plain, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_HLEN,
				         right[i].type, 0, (uint8_t)hlen, (uint8_t)hlen, 512);
}

static void
test_icreq_header(void)
{
	CHECK_CH(&plain, NVMF_TCP_FES_NONE, 0, NVMF_TCP_ICREQ, 0, 128, 0, 128);
	/* agreed digests do not matter to it */
	CHECK_CH(&both, NVMF_TCP_FES_NONE, 0, NVMF_TCP_ICREQ, 0, 128, 0, 128);
	CHECK_CH(&plain, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_PLEN, NVMF_TCP_ICREQ, 0, 128, 0, 127);
	CHECK_CH(&plain, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_PLEN, NVMF_TCP_ICREQ, 0, 128, 0, 129);
	CHECK_CH(&plain, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_PLEN, NVMF_TCP_ICREQ, 0, 128, 0,
	         UINT32_MAX);
}

static void
test_capsule_header(void)
{
	struct nvmf_tcp_ch c;

	/* no data: PDO is of no matter */
	for (unsigned int pdo = 0; pdo < 256; pdo++)
		CHECK_CH(&plain, NVMF_TCP_FES_NONE, 0, NVMF_TCP_CAPSULE_CMD, 0, 72, (uint8_t)pdo,
		         72);
	CHECK_CH(&plain, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_PLEN, NVMF_TCP_CAPSULE_CMD, 0, 72, 72, 71);
	CHECK_CH(&plain, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_PLEN, NVMF_TCP_CAPSULE_CMD, 0, 72, 72, 0);
	/* data */
	for (unsigned int pdo = 0; pdo < 256; pdo++)
		CHECK_CH(&plain, pdo >= 72 && pdo % 4 == 0 ? NVMF_TCP_FES_NONE : NVMF_TCP_FES_FIELD,
		         pdo >= 72 && pdo % 4 == 0 ? 0 : NVMF_TCP_AT_PDO, NVMF_TCP_CAPSULE_CMD, 0,
		         72, (uint8_t)pdo, 512);
	CHECK_CH(&plain, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_PLEN, NVMF_TCP_CAPSULE_CMD, 0, 72, 76, 76);
	CHECK_CH(&plain, NVMF_TCP_FES_NONE, 0, NVMF_TCP_CAPSULE_CMD, 0, 72, 76, 77);
	CHECK_CH(&plain, NVMF_TCP_FES_NONE, 0, NVMF_TCP_CAPSULE_CMD, 0, 72, 72, 72 + 8192);
	CHECK_CH(&plain, NVMF_TCP_FES_LIMIT, 0, NVMF_TCP_CAPSULE_CMD, 0, 72, 72, 72 + 8193);
	CHECK_CH(&plain, NVMF_TCP_FES_LIMIT, 0, NVMF_TCP_CAPSULE_CMD, 0, 72, 72, UINT32_MAX);
	/* digests that were agreed, and those that were not */
	CHECK_CH(&plain, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_FLAGS, NVMF_TCP_CAPSULE_CMD, 1, 72, 0, 76);
	CHECK_CH(&plain, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_FLAGS, NVMF_TCP_CAPSULE_CMD, 2, 72, 72,
	         80);
	CHECK_CH(&both, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_FLAGS, NVMF_TCP_CAPSULE_CMD, 0, 72, 0, 76);
	CHECK_CH(&both, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_FLAGS, NVMF_TCP_CAPSULE_CMD, 1, 72, 76,
	         512);
	CHECK_CH(&both, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_PLEN, NVMF_TCP_CAPSULE_CMD, 1, 72, 0, 75);
	CHECK_CH(&both, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_PDO, NVMF_TCP_CAPSULE_CMD, 3, 72, 72, 512);
	CHECK_CH(&both, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_PLEN, NVMF_TCP_CAPSULE_CMD, 3, 72, 76, 80);
	CHECK_EQ(ch(&both, NVMF_TCP_CAPSULE_CMD, 3, 72, 80, 512, &c).fes, NVMF_TCP_FES_NONE);
	CHECK_EQ(c.head_bytes, 76);
	CHECK_EQ(c.pad_bytes, 4);
	CHECK_EQ(c.data_bytes, 512 - 80 - 4);
	CHECK_EQ(c.tail_bytes, 4);
	CHECK_EQ(ch(&both, NVMF_TCP_CAPSULE_CMD, 1, 72, 0, 76, &c).fes, NVMF_TCP_FES_NONE);
	CHECK_EQ(c.data_bytes + c.tail_bytes + c.pad_bytes, 0);
}

static void
test_data_header(void)
{
	uint8_t in[NVMF_TCP_DATA_BYTES] = {0};
	struct nvmf_tcp_data d;
	struct nvmf_tcp_ch c;

	/* there has to be data */
	CHECK_CH(&plain, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_PLEN, NVMF_TCP_H2C_DATA, 4, 24, 24, 24);
	CHECK_CH(&plain, NVMF_TCP_FES_NONE, 0, NVMF_TCP_H2C_DATA, 4, 24, 24, 25);
	CHECK_CH(&plain, NVMF_TCP_FES_NONE, 0, NVMF_TCP_H2C_DATA, 4, 24, 24, 24 + 65536);
	CHECK_CH(&plain, NVMF_TCP_FES_LIMIT, 0, NVMF_TCP_H2C_DATA, 4, 24, 24, 24 + 65537);
	CHECK_CH(&plain, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_PDO, NVMF_TCP_H2C_DATA, 4, 24, 20, 100);
	CHECK_CH(&plain, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_PDO, NVMF_TCP_H2C_DATA, 4, 24, 25, 100);
	CHECK_CH(&both, NVMF_TCP_FES_NONE, 0, NVMF_TCP_H2C_DATA, 3, 24, 28, 33);
	CHECK_CH(&both, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_PLEN, NVMF_TCP_H2C_DATA, 3, 24, 28, 32);
	CHECK_CH(&both, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_FLAGS, NVMF_TCP_H2C_DATA, 2, 24, 28, 100);
	CHECK_CH(&both, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_FLAGS, NVMF_TCP_H2C_DATA, 1, 24, 28, 100);
	/* its fields */
	CHECK_EQ(ch(&plain, NVMF_TCP_H2C_DATA, 4, 24, 24, 24 + 512, &c).fes, NVMF_TCP_FES_NONE);
	weft_nvmf_put16(in + 8, 0x3006);
	weft_nvmf_put16(in + 10, 0x0102);
	weft_nvmf_put32(in + 12, 0x01020304);
	weft_nvmf_put32(in + 16, 512);
	CHECK_EQ(nvmf_tcp_h2c_data_decode(in, &c, &d).fes, NVMF_TCP_FES_NONE);
	CHECK_EQ(d.cccid, 0x3006);
	CHECK_EQ(d.ttag, 0x0102);
	CHECK_EQ(d.off_bytes, 0x01020304);
	CHECK_EQ(d.len_bytes, 512);
	/* DATAL has to be what PLEN says */
	for (uint32_t n = 0; n < 1024; n++) {
		struct nvmf_tcp_fault f;

		weft_nvmf_put32(in + 16, n);
		f = nvmf_tcp_h2c_data_decode(in, &c, &d);
		CHECK_EQ(f.fes, n == 512 ? NVMF_TCP_FES_NONE : NVMF_TCP_FES_FIELD);
		CHECK_EQ(f.fei, n == 512 ? 0 : NVMF_TCP_AT_DATAL);
	}
}

static void
test_term(void)
{
	const struct nvmf_tcp_fault f = {.fes = NVMF_TCP_FES_DIGEST, .fei = 0x01020304};
	uint8_t out[NVMF_TCP_TERM_BYTES + NVMF_TCP_TERM_ECHO_MAX], header[200];
	struct nvmf_tcp_fault got;

	CHECK_CH(&both, NVMF_TCP_FES_NONE, 0, NVMF_TCP_H2C_TERM, 0, 24, 0, 24);
	CHECK_CH(&both, NVMF_TCP_FES_NONE, 0, NVMF_TCP_H2C_TERM, 0, 24, 0, 24 + 128);
	CHECK_CH(&both, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_PLEN, NVMF_TCP_H2C_TERM, 0, 24, 0,
	         24 + 129);
	CHECK_CH(&both, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_PLEN, NVMF_TCP_H2C_TERM, 0, 24, 0, 23);
	for (unsigned int i = 0; i < sizeof(header); i++)
		header[i] = (uint8_t)(i + 1);
	CHECK_EQ(nvmf_tcp_term_encode(&f, header, 24, out), 48);
	CHECK_EQ(out[0], NVMF_TCP_C2H_TERM);
	CHECK_EQ(out[2], 24);
	CHECK_EQ(weft_nvmf_get32(out + 4), 48);
	CHECK_EQ(weft_nvmf_get16(out + 8), 3);
	CHECK_EQ(weft_nvmf_get32(out + 10), 0x01020304);
	CHECK_MEM(out + 24, header, 24);
	got = nvmf_tcp_term_decode(out);
	CHECK_EQ(got.fes, f.fes);
	CHECK_EQ(got.fei, f.fei);
	CHECK_EQ(nvmf_tcp_term_encode(&f, header, sizeof(header), out), 24 + 128);
	CHECK_EQ(weft_nvmf_get32(out + 4), 24 + 128);
}

static void
test_icreq(void)
{
	uint8_t in[NVMF_TCP_IC_BYTES] = {0}, out[NVMF_TCP_IC_BYTES];
	struct nvmf_tcp_ic ic;
	struct nvmf_tcp_fault f;

	in[11] = 3;
	in[10] = 31;
	weft_nvmf_put32(in + 12, 7);
	memset(in + 16, 0xee, sizeof(in) - 16); /* reserved: of no matter */
	CHECK_EQ(nvmf_tcp_icreq_decode(in, &ic).fes, NVMF_TCP_FES_NONE);
	CHECK(ic.hdgst && ic.ddgst);
	CHECK_EQ(ic.pda, 31);
	CHECK_EQ(ic.max, 7);
	for (unsigned int i = 32; i < 256; i++) {
		in[10] = (uint8_t)i;
		f = nvmf_tcp_icreq_decode(in, &ic);
		CHECK_EQ(f.fes, NVMF_TCP_FES_FIELD);
		CHECK_EQ(f.fei, 10);
	}
	in[10] = 0;
	for (unsigned int i = 0; i < 256; i++) {
		in[11] = (uint8_t)i;
		f = nvmf_tcp_icreq_decode(in, &ic);
		CHECK_EQ(f.fes, i < 4 ? NVMF_TCP_FES_NONE : NVMF_TCP_FES_UNSUPPORTED);
		CHECK_EQ(f.fei, i < 4 ? 0 : 11);
		if (i < 4)
			CHECK_EQ(ic.hdgst + 2 * ic.ddgst, i);
	}
	in[11] = 0;
	for (unsigned int i = 1; i < 65536; i++) {
		weft_nvmf_put16(in + 8, (uint16_t)i);
		f = nvmf_tcp_icreq_decode(in, &ic);
		CHECK_EQ(f.fes, NVMF_TCP_FES_UNSUPPORTED);
		CHECK_EQ(f.fei, 8);
	}
	ic = (struct nvmf_tcp_ic){.pda = 1, .hdgst = true, .max = 65536};
	nvmf_tcp_icresp_encode(&ic, out);
	CHECK_EQ(out[0], NVMF_TCP_ICRESP);
	CHECK_EQ(out[2], 128);
	CHECK_EQ(weft_nvmf_get32(out + 4), 128);
	CHECK_EQ(weft_nvmf_get16(out + 8), 0);
	CHECK_EQ(out[10], 1);
	CHECK_EQ(out[11], 1);
	CHECK_EQ(weft_nvmf_get32(out + 12), 65536);
}

static void
test_encode(void)
{
	static const uint8_t cqe[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
	const struct nvmf_tcp_data d = {
	        .cccid = 0x3006, .ttag = 5, .off_bytes = 4096, .len_bytes = 512};
	uint8_t out[NVMF_TCP_HEADER_MAX];

	CHECK_EQ(nvmf_tcp_resp_encode(&plain, cqe, out), 24);
	CHECK_EQ(out[0], NVMF_TCP_CAPSULE_RESP);
	CHECK_EQ(out[1], 0);
	CHECK_EQ(weft_nvmf_get32(out + 4), 24);
	CHECK_MEM(out + 8, cqe, 16);
	CHECK_EQ(nvmf_tcp_resp_encode(&both, cqe, out), 28);
	CHECK_EQ(out[1], NVMF_TCP_HDGST);
	CHECK_EQ(weft_nvmf_get32(out + 4), 28);
	CHECK_EQ(weft_nvmf_get32(out + 24), nvmf_tcp_digest(out, 24));

	CHECK_EQ(nvmf_tcp_r2t_encode(&plain, &d, out), 24);
	CHECK_EQ(out[0], NVMF_TCP_R2T);
	CHECK_EQ(weft_nvmf_get16(out + 8), 0x3006);
	CHECK_EQ(weft_nvmf_get16(out + 10), 5);
	CHECK_EQ(weft_nvmf_get32(out + 12), 4096);
	CHECK_EQ(weft_nvmf_get32(out + 16), 512);
	CHECK_EQ(nvmf_tcp_r2t_encode(&both, &d, out), 28);

	/* each alignment of a host */
	for (unsigned int hpda = 0; hpda < 32; hpda++)
		for (int on = 0; on < 2; on++) {
			const struct nvmf_tcp_rules *r = on ? &both : &plain;
			const size_t n =
			        nvmf_tcp_c2h_data_encode(r, &d, NVMF_TCP_LAST, (uint8_t)hpda, out);

			CHECK_EQ(out[0], NVMF_TCP_C2H_DATA);
			CHECK_EQ(out[1], on ? 7 : 4);
			CHECK_EQ(out[2], 24);
			CHECK_EQ(out[3], n);
			CHECK_EQ(n % ((hpda + 1) * 4), 0);
			CHECK(n >= (on ? 28U : 24U));
			CHECK(n - (on ? 28U : 24U) < (hpda + 1) * 4);
			CHECK_EQ(weft_nvmf_get32(out + 4), n + 512 + (on ? 4 : 0));
			CHECK_EQ(weft_nvmf_get16(out + 8), 0x3006);
			CHECK_EQ(weft_nvmf_get32(out + 12), 4096);
			CHECK_EQ(weft_nvmf_get32(out + 16), 512);
		}
}

static void
test_digest(void)
{
	uint8_t p[32];

	/* RFC 7143 appendix A.4: as octets, the digests are aa 36 91 8a and 43 ab a8 62 */
	memset(p, 0, sizeof(p));
	CHECK_EQ(nvmf_tcp_digest(p, sizeof(p)), 0x8a9136aaU);
	memset(p, 0xff, sizeof(p));
	CHECK_EQ(nvmf_tcp_digest(p, sizeof(p)), 0x62a8ab43U);
	CHECK_EQ(~nvmf_tcp_crc(nvmf_tcp_crc(NVMF_TCP_CRC_INIT, p, 5), p, 27), 0x62a8ab43U);
}

WEFT_TEST_MAIN({"types of PDU that hosts do not send", test_types}, {"HLEN", test_hlen},
               {"the common header of ICReq", test_icreq_header},
               {"the common header of CapsuleCmd", test_capsule_header},
               {"H2CData", test_data_header}, {"TermReq", test_term},
               {"ICReq and ICResp", test_icreq}, {"what a controller sends", test_encode},
               {"digests", test_digest})
