/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Markers (RFC 5044 s4.2, s4.3), CRC on and off (s4.4), MULPDU with markers (s4.5). The
 * expected octets are written here and share no code with the library.
 */

#include <rte_random.h>

#include "mpa_peer.h"
#include "mstream.h"
#include "mpa_wire.h"

#define MSS 1448

static void
check_all(struct peer *p, const struct mstream *s)
{
	CHECK_EQ(p->faults, 0);
	CHECK_EQ(p->ulpdus, s->n);
	CHECK_EQ(p->got_bytes, s->ulpdu_bytes);
	CHECK_MEM(p->got, s->ulpdu, s->ulpdu_bytes);
	for (unsigned int i = 0; i < s->n; i++)
		CHECK_EQ(p->len[i], s->len[i]);
	CHECK_EQ(p->m->held_bytes + p->m->compact_bytes, 0);
	CHECK_EQ(rte_mempool_in_use_count(p->c->pool), 0);
}

static void
rx_all(struct peer *p, const struct mstream *s, uint32_t piece)
{
	fake_rx(p->c, s->wire, s->wire_bytes, piece, PEER_NOW);
}

static void
tx_one(struct peer *p, struct mstream *s, uint16_t len)
{
	uint8_t *d = weft_mpa_tx_begin(p->m, len, PEER_NOW);

	CHECK(d != NULL);
	ms_add(s, len);
	if (s->n % 2 == 0)
		memcpy(d, s->ulpdu + s->ulpdu_bytes - len, len);
	else
		weft_mpa_tx_copy(p->m, d, s->ulpdu + s->ulpdu_bytes - len, len);
	weft_mpa_tx_end(p->m, PEER_NOW);
}

static void
check_sent(const struct peer *p, const struct mstream *s)
{
	CHECK_EQ(p->c->out_bytes, s->wire_bytes);
	CHECK_MEM(p->c->out, s->wire, s->wire_bytes);
}

/** Markers towards us, towards the peer, in both directions, in none: RFC 5044 s7.1.1, M. The
 * same with C. */
static void
test_who_wants(void)
{
	for (unsigned int ours = 0; ours < 4; ours++)
		for (unsigned int theirs = 0; theirs < 4; theirs++)
			for (int initiator = 0; initiator < 2; initiator++) {
				struct peer *p =
				        peer_full_as(MSS, initiator, ours << 6, theirs << 6);
				bool crc = ((ours | theirs) & 1) != 0;
				struct mstream in = {.markers = ours >> 1, .crc = crc};
				struct mstream out = {.markers = theirs >> 1, .crc = crc};

				CHECK_EQ(p->m->crc, crc);
				CHECK_EQ(p->m->rx_markers, ours >> 1);
				CHECK_EQ(p->m->tx_markers, theirs >> 1);
				CHECK_EQ(p->m->rev, 1);
				CHECK_EQ(p->m->mulpdu_bytes, theirs >> 1 ? 1430 : 1442);
				for (uint16_t len = 1; len < 700; len += 61)
					ms_add(&in, len);
				rx_all(p, &in, 0);
				check_all(p, &in);
				for (uint16_t len = 1; len < 700; len += 61)
					tx_one(p, &out, len);
				weft_mpa_tx_flush(p->m, PEER_NOW);
				check_sent(p, &out);
				ms_free(&in);
				ms_free(&out);
				peer_free(p);
			}
}

/** RFC 5044 figures 5 and 6, in both directions. */
static void
test_figures(void)
{
	static const uint8_t send1[42] = {0x41, 0x43, [13] = 1}, send2[42] = {0x41, 0x43, [13] = 2};
	static const uint8_t fig5[52] = {
	        [5] = 0x2a, [6] = 0x41, [7] = 0x43, [19] = 1, [48] = 0x52, 0x23, 0x99, 0x83};
	static const uint8_t fig6[52] = {[1] = 0x2a,  [2] = 0x41, [3] = 0x43, [15] = 2, [23] = 0x14,
	                                 [48] = 0x84, 0x92,       0x58,       0x98};
	struct peer *p = peer_full_as(MSS, true, PEER_M | PEER_C, PEER_M | PEER_C);
	struct mstream first = {.markers = true, .crc = true};
	uint8_t *d = weft_mpa_tx_begin(p->m, 42, PEER_NOW);

	memcpy(d, send1, 42);
	weft_mpa_tx_end(p->m, PEER_NOW);
	weft_mpa_tx_flush(p->m, PEER_NOW);
	CHECK_EQ(p->c->out_bytes, 52);
	CHECK_MEM(p->c->out, fig5, 52);
	fake_rx(p->c, fig5, 52, 0, PEER_NOW);
	CHECK_EQ(p->ulpdus, 1);
	CHECK_MEM(p->got, send1, 42);
	peer_free(p);

	/* "the first FPDU had a length of 492 octets", its marker included */
	p = peer_full_as(MSS, true, PEER_M | PEER_C, PEER_M | PEER_C);
	tx_one(p, &first, 482);
	d = weft_mpa_tx_begin(p->m, 42, PEER_NOW);
	memcpy(d, send2, 42);
	weft_mpa_tx_end(p->m, PEER_NOW);
	weft_mpa_tx_flush(p->m, PEER_NOW);
	CHECK_EQ(first.wire_bytes, 0x1ec);
	CHECK_EQ(p->c->out_bytes, 0x1ec + 52);
	CHECK_MEM(p->c->out + 0x1ec, fig6, 52);
	fake_rx(p->c, p->c->out, p->c->out_bytes, 0, PEER_NOW);
	CHECK_EQ(p->ulpdus, 2);
	CHECK_MEM(p->got + 482, send2, 42);
	ms_free(&first);
	peer_free(p);
}

/**
 * An FPDU that begins at each phase (except 4, which follows a marker of its own), of every length
 * whose end, pad or CRC is near a marker, and of the smallest length: what is sent, and what is
 * accepted in one mbuf and in pieces.
 */
static void
test_every_phase(void)
{
	for (uint32_t phase = 0; phase < 512; phase += 4)
		for (int crc = 0; crc < 2; crc++) {
			uint8_t flags = PEER_M | (crc ? PEER_C : 0);
			struct mstream s = {.markers = true, .crc = crc};
			struct peer *a = peer_full_as(2000, true, flags, flags);
			struct peer *b = peer_full_as(2000, false, flags, flags);
			uint16_t len[64];
			unsigned int n = 0;

			if (phase == 4) {
				peer_free(a);
				peer_free(b);
				continue;
			}
			for (uint16_t l = 1; l <= 6; l++)
				len[n++] = l;
			for (int k = 0; k < 3; k++)
				for (int off = -9; off <= 3; off++) {
					int l = (int)(512 - phase) + 508 * k - 2 + off;

					if (l >= 1)
						len[n++] = l;
				}
			for (unsigned int i = 0; i < n; i++) {
				uint32_t at = s.wire_bytes, gap = (phase - at) % 512, marks;

				/* a filler FPDU brings the stream to the phase */
				if (gap != 0) {
					gap += 512;
					marks = (at % 512 + gap + 511) / 512 -
					        (at % 512 + 511) / 512;
					tx_one(a, &s, (uint16_t)(gap - 4 * marks - 6));
				}
				CHECK_EQ(s.wire_bytes % 512, phase);
				tx_one(a, &s, len[i]);
			}
			weft_mpa_tx_flush(a->m, PEER_NOW);
			check_sent(a, &s);
			rx_all(b, &s, 0);
			check_all(b, &s);
			CHECK_EQ(b->m->stats.fpdus_compacted, 0);
			for (uint32_t piece = 3; piece < 1000; piece = piece * 3 + 1) {
				struct peer *q = peer_full_as(2000, false, flags, flags);

				rx_all(q, &s, piece);
				check_all(q, &s);
				peer_free(q);
			}
			ms_free(&s);
			peer_free(a);
			peer_free(b);
		}
}

/** Two mbufs, split at every octet, as two arrivals and as a chain. Three mbufs, split at every
 * pair of words. */
static void
test_every_cut(void)
{
	struct mstream s = {.markers = true, .crc = true};
	static const uint16_t len[] = {10, 470, 1, 30, 900, 502, 3};
	uint32_t at;

	for (unsigned int i = 0; i < RTE_DIM(len); i++)
		ms_add(&s, len[i]);
	for (uint32_t cut = 1; cut < s.wire_bytes; cut++)
		for (int chain = 0; chain < 2; chain++) {
			struct peer *p = peer_full_as(MSS, true, PEER_M | PEER_C, PEER_C);
			struct rte_mbuf *m = fake_chain(p->c, s.wire, cut, 0);
			struct rte_mbuf *more =
			        fake_chain(p->c, s.wire + cut, s.wire_bytes - cut, 0);

			if (chain) {
				rte_pktmbuf_lastseg(m)->next = more;
				m->nb_segs += more->nb_segs;
				m->pkt_len += more->pkt_len;
				p->c->ops->rx(p->c->user, m, PEER_NOW);
			} else {
				p->c->ops->rx(p->c->user, m, PEER_NOW);
				p->c->ops->rx(p->c->user, more, PEER_NOW);
			}
			check_all(p, &s);
			CHECK_EQ(p->m->stats.fpdus_compacted, 0);
			peer_free(p);
		}
	at = s.marker[1];
	for (uint32_t i = at - 8; i < at + 8; i++)
		for (uint32_t j = i + 1; j < at + 12; j++) {
			struct peer *p = peer_full_as(MSS, false, PEER_M | PEER_C, PEER_C);

			fake_rx(p->c, s.wire, i, 0, PEER_NOW);
			fake_rx(p->c, s.wire + i, j - i, 0, PEER_NOW);
			fake_rx(p->c, s.wire + j, s.wire_bytes - j, 0, PEER_NOW);
			check_all(p, &s);
			peer_free(p);
		}
	ms_free(&s);
}

/** Long FPDUs: delivered as fragments from few mbufs, and copied from many. Few mbufs are held. */
static void
test_long(void)
{
	static const uint16_t len[] = {26840, 8870, 64768, 20, 65535, 1};
	static const uint32_t piece[] = {0, MSS, 700, 64, 9, 1};

	for (unsigned int k = 0; k < RTE_DIM(piece); k++)
		for (int markers = 0; markers < 2; markers++) {
			struct mstream s = {.markers = markers, .crc = true};
			struct peer *p =
			        peer_full_as(MSS, true, (markers ? PEER_M : 0) | PEER_C, PEER_C);
			unsigned int most = 0;

			for (unsigned int i = 0; i < RTE_DIM(len); i++)
				ms_add(&s, len[i]);
			for (uint32_t pos = 0; pos < s.wire_bytes;) {
				uint32_t n = piece[k] != 0 ? piece[k] : 2048;

				n = RTE_MIN(n, s.wire_bytes - pos);
				fake_rx(p->c, s.wire + pos, n, 0, PEER_NOW);
				most = RTE_MAX(most, rte_mempool_in_use_count(p->c->pool));
				pos += n;
			}
			check_all(p, &s);
			CHECK(most <= 17);
			p->ulpdus = p->got_bytes = 0;
			p->m->stats.fpdus_compacted = 0;
			/* in one chain, 26840 octets need no copy, whatever the number of
			 * markers */
			if (k < 2) {
				struct mstream t = {.markers = markers, .crc = true};
				struct peer *q = peer_full_as(
				        MSS, true, (markers ? PEER_M : 0) | PEER_C, PEER_C);

				ms_add(&t, 26840);
				q->c->ops->rx(q->c->user,
				              fake_chain(q->c, t.wire, t.wire_bytes, piece[k]),
				              PEER_NOW);
				check_all(q, &t);
				CHECK_EQ(q->m->stats.fpdus_compacted, 0);
				CHECK_EQ(q->m->stats.fpdus_straddled, 1);
				CHECK(q->max_frags >= (markers ? 26840 / 512u : 10u));
				ms_free(&t);
				peer_free(q);
			}
			ms_free(&s);
			peer_free(p);
		}
}

/**
 * A marker with a wrong value: 2/0/03 when the CRC is right or not in use, 2/0/02 when the CRC is
 * wrong. RESERVED and the low two bits of FPDUPTR are ignored (s4.2).
 */
static void
test_wrong(void)
{
	static const uint16_t len[] = {100, 300, 40, 1400, 20, 20};

	for (unsigned int k = 0; k < 4; k++)
		for (unsigned int octet = 0; octet < 4; octet++)
			for (unsigned int bit = 0; bit < 8; bit++)
				for (int mode = 0; mode < 3; mode++)
					for (uint32_t piece = 0; piece < 8; piece += 7) {
						/* 0: CRC made right, 1: CRC unchanged, 2: no CRC */
						struct mstream s = {.markers = true,
						                    .crc = mode != 2};
						uint8_t c = mode != 2 ? PEER_C : 0;
						bool counts =
						        octet >= 2 && !(octet == 3 && bit < 2);
						struct peer *p =
						        peer_full_as(MSS, true, PEER_M | c, c);
						unsigned int f = 0;

						for (unsigned int i = 0; i < RTE_DIM(len); i++)
							ms_add(&s, len[i]);
						CHECK(s.nmarkers >= 4);
						while (f + 1 < s.n && s.start[f + 1] <= s.marker[k])
							f++;
						s.wire[s.marker[k] + octet] ^= 1u << bit;
						if (mode == 0)
							ms_recrc(&s, f);
						rx_all(p, &s, piece);
						if (mode != 1 && !counts) {
							check_all(p, &s);
						} else {
							CHECK_EQ(p->faults, 1);
							CHECK_EQ(p->ulpdus, f);
							CHECK_EQ(p->term.layer, 2);
							CHECK_EQ(p->term.etype, 0);
							CHECK_EQ(p->term.code, mode == 1 ? 2 : 3);
							CHECK_EQ(p->m->stats.marker_errors,
							         mode != 1);
							/* s8: nothing more is delivered, but the
							 * connection is not closed */
							CHECK(!p->c->closed && !p->c->aborted);
							CHECK(peer_may_send(p));
						}
						CHECK_EQ(rte_mempool_in_use_count(p->c->pool), 0);
						ms_free(&s);
						peer_free(p);
					}
}

/** Markers where none are expected, and missing markers: never accepted. */
static void
test_mismatch(void)
{
	for (int markers = 0; markers < 2; markers++) {
		struct mstream s = {.markers = !markers, .crc = true};
		struct peer *p = peer_full_as(MSS, true, (markers ? PEER_M : 0) | PEER_C, PEER_C);

		for (unsigned int i = 0; i < 300; i++)
			ms_add(&s, 700);
		rx_all(p, &s, 0);
		CHECK(p->faults == 1);
		CHECK(p->ulpdus <= 1);
		ms_free(&s);
		peer_free(p);
	}
}

/** CRC off (s4.4): the field may hold anything and is ignored. CRC on: it is checked, whichever
 * side requested it. */
static void
test_crc_use(void)
{
	static const struct {
		uint8_t ours, theirs;
		bool on;
	} row[] = {{0, 0, false}, {PEER_C, 0, true}, {0, PEER_C, true}, {PEER_C, PEER_C, true}};

	for (unsigned int i = 0; i < RTE_DIM(row); i++)
		for (int initiator = 0; initiator < 2; initiator++)
			for (int markers = 0; markers < 2; markers++)
				for (uint32_t piece = 0; piece < 12; piece += 11) {
					uint8_t m = markers ? PEER_M : 0;
					struct mstream s = {.markers = markers, .crc = row[i].on};
					struct peer *p = peer_full_as(
					        MSS, initiator, m | row[i].ours, m | row[i].theirs);

					ms_add(&s, 40);
					ms_add(&s, 41);
					s.wire[s.start[1] - 1] ^= 0x5a; /* of the first FPDU */
					rx_all(p, &s, piece);
					CHECK_EQ(p->ulpdus, row[i].on ? 0 : 2);
					CHECK_EQ(p->faults, row[i].on);
					CHECK_EQ(p->m->stats.crc_errors, row[i].on);
					ms_free(&s);
					peer_free(p);
				}
}

/** Every MULPDU from 128 up, according to the MSS: segments hold whole FPDUs and are never too
 * long. */
static void
test_every_mulpdu(void)
{
	for (uint16_t mss = 1; mss <= 2000; mss++)
		for (int markers = 0; markers < 2; markers++) {
			struct peer *p =
			        peer_full_as(mss, true, PEER_C, (markers ? PEER_M : 0) | PEER_C);
			struct mstream s = {.markers = markers, .crc = true};
			uint16_t u = p->m->mulpdu_bytes;
			unsigned int f = 0;

			CHECK_EQ(u, weft_mpa_mulpdu(mss, markers));
			for (unsigned int i = 0; i < 6; i++)
				tx_one(p, &s, i % 2 ? u : RTE_MIN((uint16_t)(1 + mss * i % 97), u));
			weft_mpa_tx_flush(p->m, PEER_NOW);
			check_sent(p, &s);
			for (unsigned int i = 0; i < p->c->nsegs; i++) {
				CHECK(p->c->seg[i].len <= RTE_MAX(mss, 140));
				while (f < s.n && s.start[f] < p->c->seg[i].off)
					f++;
				CHECK(f < s.n && s.start[f] == p->c->seg[i].off);
			}
			ms_free(&s);
			peer_free(p);
		}
}

/**
 * Every MSS that TCP can have: the FPDU of the MULPDU, with the most markers, is no longer than the
 * MSS, and the MULPDU is within the limits of RFC 5044 s3.
 */
static void
test_every_mss(void)
{
	for (uint32_t mss = 200; mss <= UINT16_MAX; mss++)
		for (unsigned int markers = 0; markers < 2; markers++) {
			uint16_t u = weft_mpa_mulpdu((uint16_t)mss, markers != 0);
			uint32_t n = mpa_fpdu_bytes(u), most = 0;

			CHECK_MSG(u >= 128 && u <= 64768, "MSS %u: MULPDU %u", mss, u);
			/* A segment that begins right behind a marker, or right before one. */
			for (uint16_t pos = 0; markers != 0 && pos < MPA_MARKER_PERIOD; pos += 4)
				most = RTE_MAX(most, mpa_markers(pos, n));
			CHECK_MSG(n + most * MPA_MARKER_BYTES <= mss,
			          "MSS %u: FPDU of %u, %u markers", mss, n, most);
			if (u == 64768)
				continue;
			/* Nor is it needlessly short (RFC 5044 s4.5). */
			CHECK_MSG(n + (mss / 512 + 2) * 4 * markers + 4 >= mss,
			          "MSS %u: FPDU of %u", mss, n);
		}
}

/** The longest FPDUs, with 128 markers, behind others: each is in one segment, which an mbuf
 * holds. */
static void
test_longest(void)
{
	const uint16_t mss = 65286;

	for (unsigned int markers = 0; markers < 2; markers++) {
		struct peer *p =
		        peer_full_as(MSS, true, PEER_C, (markers != 0 ? PEER_M : 0) | PEER_C);
		struct mstream s = {.markers = markers != 0, .crc = true};
		struct rte_mempool *large = rte_pktmbuf_pool_create("mpa_longest", 31, 0,
		                                                    sizeof(struct weft_mbuf_priv),
		                                                    65472, SOCKET_ID_ANY),
		                   *small = p->c->pool;
		unsigned int f = 0;

		CHECK(large != NULL);
		p->c->pool = large;
		p->c->mss = mss;
		p->c->ops->mss(p->c->user, mss);
		CHECK_EQ(p->mulpdu, markers != 0 ? 64766 : 64768);
		for (unsigned int i = 0; i < 8; i++)
			tx_one(p, &s, i % 3 == 0 ? (uint16_t)(1 + i * 211) : p->mulpdu);
		weft_mpa_tx_flush(p->m, PEER_NOW);
		check_sent(p, &s);
		for (unsigned int i = 0; i < p->c->nsegs; i++) {
			CHECK(p->c->seg[i].len <= mss);
			while (f < s.n && s.start[f] < p->c->seg[i].off)
				f++;
			CHECK(f < s.n && s.start[f] == p->c->seg[i].off);
		}
		CHECK_EQ(rte_mempool_in_use_count(large), 0);
		p->c->pool = small;
		rte_mempool_free(large);
		ms_free(&s);
		peer_free(p);
	}
}

/** The MSS changes during the connection, with a half filled segment. */
static void
test_mss_changes(void)
{
	struct peer *p = peer_full_as(MSS, true, PEER_C, PEER_M | PEER_C);
	struct mstream s = {.markers = true, .crc = true};
	static const uint16_t mss[] = {536, 1448, 300, 100, 2000, 150, 1448};

	for (unsigned int i = 0; i < RTE_DIM(mss); i++) {
		tx_one(p, &s, 30);
		p->c->mss = mss[i];
		p->c->ops->mss(p->c->user, mss[i]);
		CHECK_EQ(p->mulpdus, i + 1);
		CHECK_EQ(p->mulpdu, weft_mpa_mulpdu(mss[i], true));
		tx_one(p, &s, p->mulpdu);
		tx_one(p, &s, 128);
	}
	weft_mpa_tx_flush(p->m, PEER_NOW);
	check_sent(p, &s);
	ms_free(&s);
	peer_free(p);
}

/** The stream ends inside an FPDU, or between two. */
static void
test_eof(void)
{
	struct mstream s = {.markers = true, .crc = true};

	ms_add(&s, 30);
	ms_add(&s, 500);
	for (uint32_t n = 0; n <= s.wire_bytes; n++) {
		struct peer *p = peer_full_as(MSS, true, PEER_M | PEER_C, PEER_C);
		bool whole = n == 0 || n == s.start[1] || n == s.wire_bytes;

		fake_rx(p->c, s.wire, n, 0, PEER_NOW);
		p->c->ops->eof(p->c->user);
		CHECK_EQ(p->eofs, whole);
		CHECK_EQ(p->closeds, !whole);
		peer_free(p);
	}
	ms_free(&s);
}

/** Whatever the owner does inside an up-call, no freed memory is used and no mbuf leaks. */
static void
test_destroy(void)
{
	static const int acts[] = {ACT_DESTROY, ACT_CLOSE, ACT_ABORT};

	for (unsigned int a = 0; a < RTE_DIM(acts); a++)
		for (uint32_t piece = 0; piece < 400; piece = piece * 6 + 1)
			for (unsigned int bad = 0; bad < 2; bad++)
				for (unsigned int how = 0; how < 4; how++) {
					struct mstream s = {.markers = true, .crc = true};
					struct peer *p =
					        peer_full_as(MSS, false, PEER_M | PEER_C, 0);
					struct weft_tcp_conn *c = p->c;

					for (unsigned int i = 0; i < 8; i++)
						ms_add(&s, 300);
					if (bad) {
						s.wire[s.marker[1] + 3] ^= 0x80;
						ms_recrc(&s, 1);
					}
					p->act = acts[a];
					p->act_on = "ufwe"[how];
					rx_all(p, &s, piece);
					if (c->ops != NULL && c->ops->eof != NULL)
						c->ops->eof(c->user);
					if (!bad && how == 0 && a != 1)
						CHECK_EQ(p->ulpdus, 1);
					ms_free(&s);
					peer_free(p);
				}
}

/** A stream damaged anywhere is delivered as a prefix of the sent ULPDUs, followed by a fault. */
static void
test_mutated(void)
{
	uint64_t seed = test_seed(5044);

	for (unsigned int round = 0; round < 1000; round++) {
		struct peer *p = peer_full_as(MSS, round & 1, PEER_M | PEER_C, PEER_C);
		struct mstream s = {.markers = true, .crc = true};
		uint32_t pos = 0;

		rte_srand(seed + round);
		while (s.n < 12)
			ms_add(&s, rte_rand_max(rte_rand_max(3) == 0 ? 2000 : 40));
		for (unsigned int k = 1 + rte_rand_max(3); k > 0; k--)
			s.wire[rte_rand_max(s.wire_bytes)] ^= 1 + rte_rand_max(255);
		while (pos < s.wire_bytes && p->c->ops != NULL) {
			uint32_t k = RTE_MIN(s.wire_bytes - pos, 1 + (uint32_t)rte_rand_max(700));

			p->c->ops->rx(p->c->user,
			              fake_chain(p->c, s.wire + pos, k, rte_rand_max(90)),
			              PEER_NOW);
			pos += k;
		}
		if (p->c->ops != NULL)
			p->c->ops->eof(p->c->user);
		if (p->ulpdus > s.n || memcmp(p->got, s.ulpdu, p->got_bytes) != 0 ||
		    p->faults + p->closeds + p->eofs == 0)
			test_fail(__FILE__, __LINE__, "seed %" PRIu64, seed + round);
		ms_free(&s);
		peer_free(p);
	}
}

/** What is sent is accepted: two MPA streams with markers and CRC as either side requests, split
 * at random. */
static void
test_loop(void)
{
	uint64_t seed = test_seed(11);

	for (unsigned int round = 0; round < 64; round++) {
		uint8_t fa = (round & 3) << 6, fb = (round >> 2 & 3) << 6;
		uint16_t mss = 200 + round * 28;
		struct peer *a = peer_full_as(mss, true, fa, fb);
		struct peer *b = peer_full_as(mss, false, fb, fa);
		struct mstream s = {.markers = fb & PEER_M, .crc = (fa | fb) & PEER_C};
		struct mstream back = {.markers = fa & PEER_M, .crc = (fa | fb) & PEER_C};

		rte_srand(seed + round);
		while (s.n < 200)
			tx_one(a, &s, 1 + rte_rand_max(a->m->mulpdu_bytes));
		weft_mpa_tx_flush(a->m, PEER_NOW);
		for (uint32_t pos = 0; pos < a->c->out_bytes;) {
			uint32_t k =
			        RTE_MIN(1 + (uint32_t)rte_rand_max(2000), a->c->out_bytes - pos);

			fake_rx(b->c, a->c->out + pos, k, 0, PEER_NOW);
			pos += k;
		}
		check_all(b, &s);
		while (back.n < 200)
			tx_one(b, &back, 1 + rte_rand_max(b->m->mulpdu_bytes));
		weft_mpa_tx_flush(b->m, PEER_NOW);
		for (unsigned int i = 0; i < b->c->nsegs; i++)
			fake_rx(a->c, b->c->out + b->c->seg[i].off, b->c->seg[i].len, 0, PEER_NOW);
		check_all(a, &back);
		CHECK_EQ(a->m->stats.fpdus_straddled, 0);
		ms_free(&s);
		ms_free(&back);
		peer_free(a);
		peer_free(b);
	}
}

WEFT_TEST_MAIN({"negotiation of markers and CRC", test_who_wants},
               {"rfc5044 figures", test_figures}, {"every phase", test_every_phase},
               {"every cut", test_every_cut}, {"long", test_long}, {"wrong", test_wrong},
               {"mismatch", test_mismatch}, {"crc use", test_crc_use},
               {"every mulpdu", test_every_mulpdu}, {"every mss", test_every_mss},
               {"longest", test_longest}, {"mss changes", test_mss_changes}, {"eof", test_eof},
               {"destroy", test_destroy}, {"mutated", test_mutated}, {"loop", test_loop})
