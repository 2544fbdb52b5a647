/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Which FPDUs a TCP segment has, as the opcode filter of captures follows them: from the
 * start of a connection and in its midst, with and without markers, behind losses. */

#include <stdlib.h>
#include <string.h>

#include <rte_mbuf.h>

#include "../../lib/netif/netif_fpdu.h"
#include "test_xorshift.h"
#include "weft_test.h"

#define STREAM (2u << 20)
#define FPDUS  65536u
#define OFF    54u /**< of the payload in a packet */

static struct rte_mempool *pool;
static struct netif_fpdu_flows *fl;
static uint8_t stream[STREAM];
static uint32_t begin_at[FPDUS], head_at[FPDUS], end_at[FPDUS], bit[FPDUS];
static unsigned int nfpdus;
static uint32_t stream_len, seq0;
static bool with_markers;
static uint64_t seed;

/** Append an octet of FPDU n; a marker stands before each that is at a multiple of 512. */
static void
put(uint8_t octet)
{
	if (with_markers && stream_len % 512 == 0) {
		const uint32_t n = nfpdus;
		const uint32_t back = head_at[n] == UINT32_MAX ? 0 : stream_len - head_at[n];

		weft_put_be32(stream + stream_len, back);
		stream_len += 4;
	}
	if (head_at[nfpdus] == UINT32_MAX)
		head_at[nfpdus] = stream_len;
	stream[stream_len++] = octet;
}

/** Append an FPDU with this opcode and length of its ULPDU. Its payload is random. */
static void
put_fpdu(unsigned int opcode, uint32_t ulpdu)
{
	const bool tagged = opcode == 0 || opcode == 2;
	const uint32_t len = (2 + ulpdu + 3) / 4 * 4 + 4;

	begin_at[nfpdus] = stream_len;
	head_at[nfpdus] = UINT32_MAX;
	bit[nfpdus] = 1u << opcode;
	put((uint8_t)(ulpdu >> 8));
	put((uint8_t)ulpdu);
	put(tagged ? 0xc1 : 0x41);
	put((uint8_t)(0x40 | opcode));
	for (uint32_t i = 4; i < len; i++)
		put(tagged || i < 4 || i > 19 ? (uint8_t)test_xorshift(&seed) : i == 11 ? 1 : 0);
	end_at[nfpdus++] = stream_len;
}

/** A stream of FPDUs of all opcodes; of every eight, seven are RDMA Writes. */
static void
make(bool markers, uint32_t ulpdu_min, uint32_t ulpdu_max)
{
	static const unsigned int others[] = {1, 2, 3, 7, 9, 12, 13, 14, 16, 17};

	with_markers = markers;
	stream_len = 0;
	nfpdus = 0;
	seq0 = (uint32_t)test_xorshift(&seed);
	while (stream_len + ulpdu_max + 1000 < STREAM && nfpdus < FPDUS - 1) {
		const uint32_t range = ulpdu_max - ulpdu_min + 1;
		const uint64_t r = test_xorshift(&seed);

		put_fpdu(r % 8 == 0 ? others[(r >> 8) % RTE_DIM(others)] : 0,
		         ulpdu_min + (uint32_t)((r >> 16) % range));
	}
}

static struct netif_fpdu_seg
seg_of(uint16_t sport, uint32_t seq)
{
	struct netif_fpdu_seg g = {.sport = sport, .dport = 7471, .seq = seq, .off = OFF};

	g.src.b[15] = 1;
	g.dst.b[15] = 2;
	return g;
}

static uint32_t
look(struct netif_fpdu_seg *g, const uint8_t *p, uint32_t len, uint32_t first, bool *unknown)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool), *more = rte_pktmbuf_alloc(pool);
	uint32_t opcodes;

	/* The payload is in two mbufs. */
	CHECK(m != NULL && more != NULL);
	CHECK(rte_pktmbuf_append(m, (uint16_t)(OFF + first)) != NULL);
	CHECK(rte_pktmbuf_append(more, (uint16_t)(len - first)) != NULL);
	memcpy(rte_pktmbuf_mtod_offset(m, uint8_t *, OFF), p, first);
	memcpy(rte_pktmbuf_mtod(more, uint8_t *), p + first, len - first);
	CHECK_EQ(rte_pktmbuf_chain(m, more), 0);
	g->m = m;
	g->len = len;
	opcodes = netif_fpdu_opcodes(fl, g, unknown);
	rte_pktmbuf_free(m);
	return opcodes;
}

/** What the octets from a to b of the stream are of: FPDUs whose opcode is known there. */
static uint32_t
truth(uint32_t a, uint32_t b)
{
	static unsigned int from;
	uint32_t opcodes = 0;

	if (from >= nfpdus || begin_at[from] > a)
		from = 0;
	while (from < nfpdus && end_at[from] <= a)
		from++;
	for (unsigned int i = from; i < nfpdus && head_at[i] + 3 < b; i++)
		opcodes |= bit[i];
	return opcodes;
}

/** Show the segment. True: what is known of it is all, and right. */
static bool
show(uint32_t a, uint32_t b, bool *unknown)
{
	struct netif_fpdu_seg g = seg_of(5000, seq0 + a);
	const uint32_t got = look(&g, stream + a, b - a,
	                          (uint32_t)(test_xorshift(&seed) % (b - a + 1)), unknown);

	if (*unknown)
		CHECK((got & ~truth(a, b)) == 0);
	else
		CHECK_EQ(got, truth(a, b));
	return !*unknown;
}

/** A start-up frame of 20 octets and private data, before the octet `seq`. */
static void
frame(bool request, bool wants_markers, uint32_t seq)
{
	struct netif_fpdu_seg g = seg_of(5000, seq);
	uint8_t buf[60] = {0};
	bool unknown;

	if (!request) {
		g = seg_of(7471, seq);
		g.dport = 5000;
		g.src.b[15] = 2;
		g.dst.b[15] = 1;
	}
	memcpy(buf, request ? "MPA ID Req Frame" : "MPA ID Rep Frame", 16);
	buf[16] = wants_markers ? 0xc0 : 0x40;
	buf[17] = 1;
	weft_put_be16(buf + 18, 40);
	CHECK_EQ(look(&g, buf, 60, 30, &unknown), NETIF_FPDU_STARTUP);
	CHECK(!unknown);
}

static void
begin(uint64_t s)
{
	test_seed_note(s);
	seed = s * 2 + 1;
	if (pool == NULL) {
		test_eal_init();
		pool = rte_pktmbuf_pool_create("fpdu", 255, 0, 0, 8192, SOCKET_ID_ANY);
		fl = calloc(1, netif_fpdu_flows_size());
	}
	CHECK(pool != NULL && fl != NULL);
	netif_fpdu_forget(fl);
}

/** Everything is known from the start-up frames on, wherever segments are cut. */
static void
test_from_start(void)
{
	const uint64_t first = test_seed(1), last = test_seed_given() ? first : 6;

	for (uint64_t s = first; s <= last; s++)
		for (unsigned int markers = 0; markers < 2; markers++) {
			const uint32_t most[] = {5, 700, 1448, 8000};
			bool unknown;

			begin(s);
			make(markers, 18, s % 2 == 0 ? 400 : 5000);
			frame(true, false, seq0 - 60);
			frame(false, markers, 12345);
			for (uint32_t a = 0, b; a < stream_len / 4; a = b) {
				b = a + 1 + (uint32_t)(test_xorshift(&seed) % most[s % 4]);
				CHECK(show(a, b, &unknown));
			}
		}
}

/** A peer whose segments are whole FPDUs: the first one in the midst is known, and those behind
 * holes, and those that come again, too. */
static void
test_aligned(void)
{
	const uint64_t first = test_seed(11), last = test_seed_given() ? first : 14;

	for (uint64_t s = first; s <= last; s++)
		for (unsigned int markers = 0; markers < 2; markers++) {
			bool unknown;
			unsigned int missed = 0, known = 0;

			begin(s);
			make(markers, 600, 1400);
			for (unsigned int i = 100; i < nfpdus; i++) {
				/* One of 20 is lost, and comes two later. */
				if (test_xorshift(&seed) % 20 == 0 && i + 2 < nfpdus) {
					show(begin_at[i + 1], end_at[i + 1], &unknown);
					missed += unknown;
					show(begin_at[i + 2], end_at[i + 2], &unknown);
					missed += unknown;
					show(begin_at[i], end_at[i], &unknown);
					missed += unknown;
					i += 2;
					known += 3;
				} else {
					show(begin_at[i], end_at[i], &unknown);
					missed += unknown;
					known++;
				}
			}
			CHECK(known > 500);
			CHECK_EQ(missed, 0);
		}
}

/** FPDUs that straddle segments, of a connection that was there before: the stream is found. */
static void
test_straddling(void)
{
	static const uint32_t ulpdus[][2] = {{18, 200}, {500, 1400}, {4000, 9000}, {60000, 65000}};

	for (unsigned int k = 0; k < RTE_DIM(ulpdus); k++)
		for (unsigned int markers = 0; markers < 2; markers++) {
			unsigned int missed = 0, n = 0;
			uint32_t lost = 0;
			bool unknown;

			begin(21 + k);
			make(markers, ulpdus[k][0], ulpdus[k][1]);
			for (uint32_t a = 1001; a + 1448 < stream_len; a += 1448) {
				/* A segment of 128 is lost, and nothing comes again. */
				if (a > stream_len / 2 && test_xorshift(&seed) % 128 == 0) {
					lost++;
					continue;
				}
				show(a, a + 1448, &unknown);
				missed += unknown;
				n++;
				/* It is found within some FPDUs. */
				if (a > stream_len / 4 && a < stream_len / 2)
					CHECK(!unknown);
			}
			CHECK(lost > 0);
			printf("# ulpdu %u to %u, markers %u: %u of %u segments unknown, %u lost\n",
			       ulpdus[k][0], ulpdus[k][1], markers, missed, n, lost);
			CHECK(missed < n / 2);
		}
}

/** 1 MiB Writes in segments of one FPDU, some sent again in other pieces. */
static void
test_again(void)
{
	bool unknown;

	for (unsigned int markers = 0; markers < 2; markers++) {
		begin(31);
		make(markers, 1400, 1400);
		frame(true, false, seq0 - 60);
		frame(false, markers, 12345);
		frame(true, false, seq0 - 60);
		for (unsigned int i = 0; i + 3 < nfpdus; i++) {
			CHECK(show(begin_at[i], end_at[i], &unknown));
			if (i % 10 != 9)
				continue;
			/* The whole segment; and two as one, which reaches behind what is known. */
			CHECK(show(begin_at[i], end_at[i], &unknown));
			CHECK(show(begin_at[i], end_at[i + 1], &unknown));
			i++;
			/* A part of an old one is not known. What follows is. */
			show(begin_at[i - 5] + 7, begin_at[i - 5] + 300, &unknown);
			CHECK(unknown);
		}
	}
}

/** More connections than there is room for: the oldest are forgotten, and found again. */
static void
test_many(void)
{
	bool unknown;

	begin(41);
	make(false, 100, 1400);
	for (unsigned int round = 0; round < 2; round++)
		for (uint16_t port = 1; port < 5000; port++) {
			struct netif_fpdu_seg g = seg_of(port, seq0 + begin_at[7 + round]);

			CHECK_EQ(look(&g, stream + begin_at[7 + round],
			              end_at[7 + round] - begin_at[7 + round], 1, &unknown),
			         bit[7 + round]);
			CHECK(!unknown);
		}
}

/** A SYN begins a connection of the same addresses and ports: what was known does not hold. */
static void
test_new_connection(void)
{
	struct netif_fpdu_seg g;
	bool unknown;

	begin(51);
	make(false, 600, 1400);
	frame(true, false, seq0 - 60);
	frame(false, false, 12345);
	CHECK(show(begin_at[0], end_at[0], &unknown));
	g = seg_of(5000, seq0 + 7);
	g.syn = true;
	CHECK_EQ(look(&g, stream, 0, 0, &unknown), 0);
	CHECK(!unknown);
	make(true, 600, 1400);
	frame(true, false, seq0 - 60);
	g = seg_of(7471, 1);
	g.dport = 5000;
	g.src.b[15] = 2;
	g.dst.b[15] = 1;
	g.syn = true;
	look(&g, stream, 0, 0, &unknown);
	frame(false, true, 12345);
	for (unsigned int i = 0; i < 50; i++)
		CHECK(show(begin_at[i], end_at[i], &unknown));
}

/** Octets that are no FPDUs are not known; nor are those that are not there. */
static void
test_garbage(void)
{
	struct netif_fpdu_seg g;
	unsigned int known = 0;
	bool unknown;

	begin(61);
	for (unsigned int i = 0; i < 2000; i++) {
		const uint32_t len = 1 + (uint32_t)(test_xorshift(&seed) % 3000);

		for (uint32_t k = 0; k < len; k++)
			stream[k] = i % 4 == 0 ? 0 : (uint8_t)test_xorshift(&seed);
		g = seg_of(5000, (uint32_t)test_xorshift(&seed));
		look(&g, stream, len, len / 2, &unknown);
		known += !unknown;
	}
	CHECK(known < 40);
}

WEFT_TEST_MAIN({"from the start of a connection", test_from_start},
               {"segments of whole FPDUs, lost and late ones", test_aligned},
               {"FPDUs that straddle segments", test_straddling},
               {"segments that are sent again", test_again},
               {"more connections than there is room for", test_many},
               {"a SYN begins anew", test_new_connection}, {"no FPDUs", test_garbage})
