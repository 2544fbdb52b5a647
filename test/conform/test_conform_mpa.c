/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Rules of RFC 5044 that MPA's own tests do not check. */

#include "../mpa/mpa_peer.h"

#define MSS 1448

/* RFC 5044 s4.1: the receiver ignores the pad, except in the CRC. */
static void
test_pad(void)
{
	static const uint8_t ulpdu[8] = "12345678";

	for (uint16_t len = 1; len <= 8; len++)
		for (uint32_t piece = 0; piece <= 3; piece += 3)
			for (unsigned int v = 1; v < 256; v += 127) {
				struct peer *p = peer_full(MSS, true);
				uint8_t fpdu[20];
				uint32_t n = slow_fpdu(fpdu, ulpdu, len), crc;

				memset(fpdu + 2 + len, (int)v, n - 4 - 2 - len);
				crc = slow_crc32c(fpdu, n - 4);
				for (int i = 0; i < 4; i++)
					fpdu[n - 4 + i] = (uint8_t)(crc >> (8 * i));
				fake_rx(p->c, fpdu, n, piece, PEER_NOW);
				CHECK_EQ(p->faults, 0);
				CHECK_EQ(p->ulpdus, 1);
				CHECK_EQ(p->len[0], len);
				CHECK_MEM(p->got, ulpdu, len);
				peer_free(p);
			}
}

/* RFC 5044 s4.5: FPDUs already packed into a segment do not reduce the MULPDU, least of all
 * below 128. */
static void
test_mulpdu_packing(void)
{
	struct peer *p = peer_full(MSS, true);

	for (unsigned int i = 0; i < 200; i++) {
		uint16_t len = (uint16_t)(1 + i * 37 % 300);

		CHECK(weft_mpa_tx_begin(p->m, len, PEER_NOW) != NULL);
		weft_mpa_tx_end(p->m, PEER_NOW);
		CHECK_EQ(p->m->mulpdu_bytes, 1442);
	}
	CHECK_EQ(p->mulpdus, 0);
	/* and a ULPDU of that size is accepted at any time */
	CHECK(weft_mpa_tx_begin(p->m, 1442, PEER_NOW) != NULL);
	weft_mpa_tx_end(p->m, PEER_NOW);
	weft_mpa_tx_flush(p->m, PEER_NOW);
	for (unsigned int i = 0; i < p->c->nsegs; i++)
		CHECK(p->c->seg[i].len <= MSS);
	peer_free(p);
}

static bool no_memory;

/* The linker replaces MPA's calls by these (--wrap). */
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *
__wrap_malloc(size_t size)
{
	return no_memory ? NULL : __real_malloc(size);
}

void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *
__wrap_realloc(void *p, size_t size)
{
	return no_memory ? NULL : __real_realloc(p, size);
}

/* RFC 6581 s9.3: a local error without a code of its own is 2/0/05, and nothing is delivered
 * after it. */
static void
test_no_memory(void)
{
	struct peer *p = peer_full(MSS, true);
	uint8_t ulpdu[900] = {1}, fpdu[1000];
	uint32_t n = slow_fpdu(fpdu, ulpdu, sizeof(ulpdu));

	no_memory = true;
	/* one octet in an mbuf, so that the FPDU must be copied */
	fake_rx(p->c, fpdu, n, 1, PEER_NOW);
	no_memory = false;
	CHECK_EQ(p->faults, 1);
	CHECK_EQ(p->ulpdus, 0);
	CHECK(p->term.layer == 2 && p->term.etype == 0 && p->term.code == 5);
	fake_rx(p->c, fpdu, n, 0, PEER_NOW);
	CHECK_EQ(p->ulpdus, 0);
	CHECK_EQ(p->faults, 1);
	/* the Terminate can still be sent before the end */
	CHECK(!p->c->closed && !p->c->aborted);
	CHECK(peer_may_send(p));
	peer_free(p);
}

WEFT_TEST_MAIN({"pad", test_pad}, {"mulpdu while packing", test_mulpdu_packing},
               {"no memory", test_no_memory})
