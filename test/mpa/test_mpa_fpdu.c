/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Received and sent FPDUs: every way to split a stream, every octet corrupted, packing,
 * and destruction. */

#include <rte_random.h>

#include "../../lib/mpa/mpa_wire.h"
#include "mpa_peer.h"

#define MSS 1448

/** A stream of FPDUs, and the ULPDUs in it, one after another. */
struct stream {
	uint8_t *wire, *ulpdu;
	uint32_t wire_bytes, ulpdu_bytes;
	unsigned int n;
	uint16_t len[256];
};

static void
stream_add(struct stream *s, uint16_t len)
{
	s->wire = realloc(s->wire, s->wire_bytes + MPA_FPDU_MAX_BYTES);
	s->ulpdu = realloc(s->ulpdu, s->ulpdu_bytes + len + 1);
	for (uint32_t i = 0; i < len; i++)
		s->ulpdu[s->ulpdu_bytes + i] = (s->ulpdu_bytes + i) * 131 + s->n + (i >> 8);
	s->wire_bytes += slow_fpdu(s->wire + s->wire_bytes, s->ulpdu + s->ulpdu_bytes, len);
	s->ulpdu_bytes += len;
	s->len[s->n++] = len;
}

static struct stream
stream_of(const uint16_t *len, unsigned int n)
{
	struct stream s = {0};

	for (unsigned int i = 0; i < n; i++)
		stream_add(&s, len[i]);
	return s;
}

static void
stream_free(struct stream *s)
{
	free(s->wire);
	free(s->ulpdu);
}

/** Check that all ULPDUs were delivered once and in order, and that nothing is left. */
static void
check_all(struct peer *p, const struct stream *s, unsigned int times)
{
	CHECK_EQ(p->faults, 0);
	CHECK_EQ(p->ulpdus, s->n * times);
	CHECK_EQ(p->got_bytes, s->ulpdu_bytes * times);
	for (unsigned int t = 0; t < times; t++) {
		CHECK_MEM(p->got + t * s->ulpdu_bytes, s->ulpdu, s->ulpdu_bytes);
		for (unsigned int i = 0; i < s->n; i++)
			CHECK_EQ(p->len[t * s->n + i], s->len[i]);
	}
	CHECK_EQ(p->m->held_bytes, 0);
	CHECK_EQ(p->m->held_segs, 0);
	CHECK_EQ(p->m->compact_bytes, 0);
	CHECK_EQ(rte_mempool_in_use_count(p->c->pool), 0);
}

static const uint16_t small[] = {1, 2, 3, 14, 18, 42, 0, 100, 5, 33};

/** Several FPDUs in one mbuf: delivered in place, as one fragment each. */
static void
test_rx_packed(void)
{
	struct stream s = stream_of(small, RTE_DIM(small));
	struct peer *p = peer_full(MSS, true);

	fake_rx(p->c, s.wire, s.wire_bytes, 0, PEER_NOW);
	check_all(p, &s, 1);
	CHECK_EQ(p->max_frags, 1);
	CHECK_EQ(p->m->stats.fpdus_in, s.n);
	CHECK_EQ(p->m->stats.fpdus_straddled, 0);
	peer_free(p);
	stream_free(&s);
}

/** Two mbufs, split at every octet: as two arrivals, and as one chain. */
static void
test_rx_cut_everywhere(void)
{
	struct stream s = stream_of(small, RTE_DIM(small));

	for (uint32_t cut = 1; cut < s.wire_bytes; cut++) {
		struct peer *p = peer_full(MSS, true);
		struct rte_mbuf *a;

		fake_rx(p->c, s.wire, cut, 0, PEER_NOW);
		fake_rx(p->c, s.wire + cut, s.wire_bytes - cut, 0, PEER_NOW);
		check_all(p, &s, 1);
		CHECK(p->m->stats.fpdus_straddled <= 1);
		a = fake_chain(p->c, s.wire, cut, 0);
		a->next = fake_chain(p->c, s.wire + cut, s.wire_bytes - cut, 0);
		a->nb_segs = 2;
		a->pkt_len = s.wire_bytes;
		p->c->ops->rx(p->c->user, a, PEER_NOW);
		check_all(p, &s, 2);
		peer_free(p);
	}
	stream_free(&s);
}

/** Three mbufs, split at every pair of octets of two FPDUs. */
static void
test_rx_cut_twice(void)
{
	static const uint16_t two[] = {9, 20};
	struct stream s = stream_of(two, 2);
	struct peer *p = peer_full(MSS, false);
	unsigned int times = 0;

	for (uint32_t i = 1; i < s.wire_bytes; i++)
		for (uint32_t j = i + 1; j < s.wire_bytes; j++) {
			fake_rx(p->c, s.wire, i, 0, PEER_NOW);
			fake_rx(p->c, s.wire + i, j - i, 0, PEER_NOW);
			fake_rx(p->c, s.wire + j, s.wire_bytes - j, 0, PEER_NOW);
			check_all(p, &s, 1);
			p->ulpdus = p->got_bytes = 0;
			times++;
		}
	CHECK_EQ(p->m->stats.fpdus_in, 2 * times);
	peer_free(p);
	stream_free(&s);
}

/** Every piece size, separately and chained: fragments, and a copy when there are too many. */
static void
test_rx_pieces(void)
{
	static const uint16_t len[] = {14, 1000, 63, 64, 65, 1442, 300};
	struct stream s = stream_of(len, RTE_DIM(len));

	for (uint32_t piece = 1; piece < 200; piece += piece < 40 ? 1 : 13) {
		struct peer *p = peer_full(MSS, true);
		uint64_t n;

		fake_rx(p->c, s.wire, s.wire_bytes, piece, PEER_NOW);
		check_all(p, &s, 1);
		n = p->m->stats.fpdus_compacted;
		CHECK(n > 0); /* while it waited for the rest */
		p->c->ops->rx(p->c->user, fake_chain(p->c, s.wire, s.wire_bytes, piece), PEER_NOW);
		CHECK_EQ(p->m->stats.fpdus_compacted > n, 1452 / piece > WEFT_MPA_MAX_FRAGS);
		check_all(p, &s, 2);
		peer_free(p);
	}
	stream_free(&s);
}

/** An FPDU in exactly MAX_FRAGS mbufs is delivered without a copy. With one more it is copied. */
static void
test_rx_frag_limit(void)
{
	static const uint16_t len[] = {WEFT_MPA_MAX_FRAGS * 4 - 6, WEFT_MPA_MAX_FRAGS * 4 - 2};
	struct stream s = stream_of(len, 2);
	struct peer *p = peer_full(MSS, true);

	p->c->ops->rx(p->c->user, fake_chain(p->c, s.wire, s.wire_bytes, 4), PEER_NOW);
	check_all(p, &s, 1);
	CHECK_EQ(p->m->stats.fpdus_straddled, 2);
	CHECK_EQ(p->m->stats.fpdus_compacted, 1);
	CHECK_EQ(p->max_frags, WEFT_MPA_MAX_FRAGS - 1); /* the CRC was in the last mbuf */
	peer_free(p);
	stream_free(&s);
}

/**
 * Mbufs of an incomplete FPDU could be held for long. So few are held, whatever the sizes of the
 * segments, and a few octets never occupy many mbufs.
 */
static void
test_rx_incomplete(void)
{
	static const uint16_t len[] = {65535, 1400, 65535, 20};
	static const uint32_t piece[] = {1, 2, 7, 100, 500, 513, 700, MSS};
	struct stream s = stream_of(len, RTE_DIM(len));

	for (unsigned int k = 0; k < RTE_DIM(piece); k++)
		for (unsigned int burst = 1; burst <= 32; burst += 31) {
			struct peer *p = peer_full(MSS, true);
			uint32_t step = piece[k] * burst;

			for (uint32_t pos = 0; pos < s.wire_bytes; pos += step) {
				uint32_t n = RTE_MIN(step, s.wire_bytes - pos);
				unsigned int held;

				p->c->ops->rx(p->c->user,
				              fake_chain(p->c, s.wire + pos, n, piece[k]),
				              PEER_NOW);
				held = rte_mempool_in_use_count(p->c->pool);
				CHECK_MSG(held <= 16 &&
				                  (held <= 4 || p->m->held_bytes >= held * 512),
				          "%u mbufs with %u octets", held, p->m->held_bytes);
			}
			check_all(p, &s, 1);
			peer_free(p);
		}
	stream_free(&s);
}

/** The largest ULPDU, in full segments and in single octets: few mbufs are held. */
static void
test_rx_largest(void)
{
	static const uint16_t len[] = {65535, 0, 65535, 65534};
	struct stream s = stream_of(len, RTE_DIM(len));
	struct peer *p = peer_full(MSS, true);
	unsigned int most = 0;

	fake_rx(p->c, s.wire, s.wire_bytes, MSS, PEER_NOW);
	check_all(p, &s, 1);
	for (uint32_t i = 0; i < s.wire_bytes; i++) {
		fake_rx(p->c, s.wire + i, 1, 0, PEER_NOW);
		most = RTE_MAX(most, rte_mempool_in_use_count(p->c->pool));
	}
	check_all(p, &s, 2);
	CHECK(most <= WEFT_MPA_MAX_FRAGS + 1);
	peer_free(p);
	stream_free(&s);
}

/** Random FPDUs in random pieces, randomly chained. */
static void
test_rx_random(void)
{
	uint64_t seed = test_seed(20261121);

	for (unsigned int round = 0; round < 200; round++) {
		struct stream s = {0};
		struct peer *p = peer_full(MSS, round & 1);
		uint32_t pos = 0;

		rte_srand(seed + round);
		while (s.n < 40)
			stream_add(&s, rte_rand_max(rte_rand_max(4) == 0 ? 3000 : 80));
		while (pos < s.wire_bytes) {
			uint32_t k = 1 + rte_rand_max(rte_rand_max(3) == 0 ? 3000 : 60);

			k = RTE_MIN(k, s.wire_bytes - pos);
			p->c->ops->rx(p->c->user,
			              fake_chain(p->c, s.wire + pos, k,
			                         rte_rand_max(2) ? 0 : 1 + rte_rand_max(50)),
			              PEER_NOW);
			pos += k;
		}
		if (p->ulpdus != s.n || p->faults != 0)
			test_fail(__FILE__, __LINE__, "seed %" PRIu64, seed + round);
		check_all(p, &s, 1);
		peer_free(p);
		stream_free(&s);
	}
}

/** Every octet of an FPDU corrupted: the FPDU before is delivered, and no later one. */
static void
test_rx_crc(void)
{
	static const uint16_t len[] = {30, 41, 12};
	struct stream s = stream_of(len, 3);
	uint32_t from = mpa_fpdu_bytes(30), to = from + mpa_fpdu_bytes(41);
	static uint8_t filler[70000];
	uint8_t *bad = malloc(s.wire_bytes);

	for (uint32_t at = from; at < to; at++)
		for (uint32_t piece = 0; piece <= 7; piece += 7) {
			struct peer *p = peer_full(MSS, true);

			memcpy(bad, s.wire, s.wire_bytes);
			bad[at] ^= 1 + at % 255;
			fake_rx(p->c, bad, s.wire_bytes, piece, PEER_NOW);
			CHECK_EQ(p->ulpdus, 1);
			/* A wrong length field may only make us wait for more. */
			if (at < from + 2)
				fake_rx(p->c, filler, sizeof(filler), 0, PEER_NOW);
			CHECK_EQ(p->faults, 1);
			CHECK_EQ(p->ulpdus, 1);
			CHECK_EQ(p->m->stats.crc_errors, 1);
			CHECK_EQ(p->c->damaged, 1);
			CHECK_EQ(p->term.layer, 2);
			CHECK_EQ(p->term.etype, 0);
			CHECK_EQ(p->term.code, 2);
			fake_rx(p->c, s.wire, s.wire_bytes, 0, PEER_NOW);
			CHECK_EQ(p->ulpdus, 1);
			CHECK_EQ(p->faults, 1);
			CHECK_EQ(rte_mempool_in_use_count(p->c->pool), 0);
			/* The connection is still open, so that a Terminate can be sent. */
			CHECK(!p->c->closed && !p->c->aborted);
			CHECK(weft_mpa_tx_begin(p->m, 4, PEER_NOW) != NULL);
			weft_mpa_tx_end(p->m, PEER_NOW);
			weft_mpa_close(p->m, PEER_NOW);
			CHECK_EQ(p->c->nsegs, 1);
			CHECK(p->c->closed);
			fake_die(p->c, 0);
			CHECK_EQ(p->closeds, 1);
			CHECK_EQ(p->closed_err, 0);
			peer_free(p);
		}
	free(bad);
	stream_free(&s);
}

/**
 * A stream with a few octets changed, removed or inserted, in random pieces, ended by EOF. A prefix
 * of the sent ULPDUs is delivered. Nothing leaks, and no freed memory is used.
 */
static void
test_rx_mutated(void)
{
	uint64_t seed = test_seed(4242);

	for (unsigned int round = 0; round < 1500; round++) {
		struct peer *p = peer_full(MSS, round & 1);
		struct stream s = {0};
		uint32_t n, pos = 0;
		uint8_t *w;

		rte_srand(seed + round);
		while (s.n < 12)
			stream_add(&s, rte_rand_max(rte_rand_max(3) == 0 ? 2000 : 40));
		n = s.wire_bytes;
		w = malloc(n + 8);
		memcpy(w, s.wire, n);
		for (unsigned int k = 1 + rte_rand_max(3); k > 0; k--) {
			uint32_t at = rte_rand_max(n - 1);

			switch (rte_rand_max(3)) {
			case 0:
				w[at] ^= 1 + rte_rand_max(255);
				break;
			case 1:
				memmove(w + at, w + at + 1, --n - at);
				break;
			default:
				memmove(w + at + 1, w + at, n++ - at);
				break;
			}
		}
		while (pos < n && p->c->ops != NULL) {
			uint32_t k = RTE_MIN(n - pos, 1 + (uint32_t)rte_rand_max(700));

			p->c->ops->rx(p->c->user, fake_chain(p->c, w + pos, k, rte_rand_max(90)),
			              PEER_NOW);
			pos += k;
		}
		if (p->c->ops != NULL)
			p->c->ops->eof(p->c->user);
		if (p->ulpdus > s.n || p->got_bytes > s.ulpdu_bytes ||
		    memcmp(p->got, s.ulpdu, p->got_bytes) != 0 ||
		    p->faults + p->closeds + p->eofs == 0)
			test_fail(__FILE__, __LINE__, "seed %" PRIu64, seed + round);
		for (unsigned int i = 0; i < p->ulpdus; i++)
			CHECK_EQ(p->len[i], s.len[i]);
		free(w);
		peer_free(p);
		stream_free(&s);
	}
}

/** In one piece, and in so many that the incomplete FPDU was copied. */
static void
test_rx_eof(void)
{
	static const uint16_t len[] = {30, 41};
	struct stream s = stream_of(len, 2);

	for (uint32_t n = 0; n <= s.wire_bytes; n++)
		for (uint32_t piece = 0; piece <= 1; piece++) {
			struct peer *p = peer_full(MSS, true);

			fake_rx(p->c, s.wire, n, piece, PEER_NOW);
			p->c->ops->eof(p->c->user);
			if (n == 0 || n == mpa_fpdu_bytes(30) || n == s.wire_bytes) {
				CHECK_EQ(p->eofs, 1);
				CHECK_EQ(p->closeds, 0);
				CHECK(peer_may_send(p));
			} else {
				CHECK_EQ(p->eofs, 0);
				CHECK_EQ(p->closeds, 1);
				CHECK_EQ(p->closed_err, -EPROTO);
				CHECK(p->c->aborted);
			}
			peer_free(p);
		}
	stream_free(&s);
}

/** The buffer for FPDUs in many pieces is freed after the stream did not use it for a second. */
static void
test_rx_rest(void)
{
	static const uint16_t len[] = {300};
	const uint64_t s_ns = WEFT_NS_PER_S;
	struct stream s = stream_of(len, 1);
	struct peer *p = peer_full(MSS, true);
	uint64_t now_ns = PEER_NOW;

	for (unsigned int round = 0; round < 3; round++) {
		/* used repeatedly */
		for (unsigned int i = 0; i < 5; i++, now_ns += s_ns / 2) {
			weft_timer_run(&p->s->wheel, now_ns);
			p->s->now_ns = now_ns;
			fake_rx(p->c, s.wire, s.wire_bytes, 1, now_ns);
			CHECK(p->m->compact != NULL);
		}
		/* half an FPDU stays until its rest arrives */
		fake_rx(p->c, s.wire, 100, 1, now_ns);
		for (unsigned int i = 0; i < 5; i++)
			weft_timer_run(&p->s->wheel, now_ns += s_ns);
		CHECK_EQ(p->m->compact_bytes, 100);
		p->s->now_ns = now_ns;
		fake_rx(p->c, s.wire + 100, s.wire_bytes - 100, 1, now_ns);
		CHECK_EQ(p->ulpdus, 6 * (round + 1));
		CHECK_EQ(p->m->stats.fpdus_compacted, 6 * (round + 1));
		weft_timer_run(&p->s->wheel, now_ns += 2 * s_ns);
		weft_timer_run(&p->s->wheel, now_ns += 2 * s_ns);
		CHECK(p->m->compact == NULL);
		CHECK_EQ(p->closeds, 0);
	}
	peer_free(p);
	stream_free(&s);
}

/** Whatever the owner does inside an up-call, no freed memory is used and no mbuf leaks. */
static void
test_rx_destroy(void)
{
	static const int acts[] = {ACT_DESTROY, ACT_CLOSE, ACT_ABORT};
	struct stream s = stream_of(small, RTE_DIM(small));

	for (unsigned int a = 0; a < RTE_DIM(acts); a++)
		for (uint32_t piece = 0; piece < 4; piece++)
			for (unsigned int bad = 0; bad < 2; bad++)
				for (unsigned int how = 0; how < 4; how++) {
					struct peer *p = peer_full(MSS, false);
					struct weft_tcp_conn *c = p->c;
					struct rte_mbuf *m =
					        fake_chain(c, s.wire, s.wire_bytes, piece);

					if (bad)
						rte_pktmbuf_mtod(m, uint8_t *)[0] ^= 0x80;
					p->act = acts[a];
					p->act_on = "ufwe"[how];
					c->ops->rx(c->user, m, PEER_NOW);
					if (c->ops != NULL && c->ops->eof != NULL)
						c->ops->eof(c->user);
					if (!bad && how == 0 && a != 1)
						CHECK_EQ(p->ulpdus, 1);
					peer_free(p);
				}
	stream_free(&s);
}

/** The bounce buffer's fragment stays valid after the MPA stream is destroyed, too. */
static void
test_rx_destroy_compacted(void)
{
	static const uint16_t len[] = {500, 500};
	struct stream s = stream_of(len, 2);
	struct peer *p = peer_full(MSS, true);

	p->act = ACT_DESTROY;
	p->act_on = 'u';
	fake_rx(p->c, s.wire, s.wire_bytes, 1, PEER_NOW);
	CHECK_EQ(p->ulpdus, 1);
	CHECK_MEM(p->got, s.ulpdu, 500);
	peer_free(p);
	stream_free(&s);
}

/* ---- Transmit ---- */

static bool
tx_one(struct peer *p, struct stream *s, uint16_t len)
{
	uint8_t *d = weft_mpa_tx_begin(p->m, len, PEER_NOW);

	if (d == NULL)
		return false;
	stream_add(s, len);
	memcpy(d, s->ulpdu + s->ulpdu_bytes - len, len);
	weft_mpa_tx_end(p->m, PEER_NOW);
	return true;
}

static void
test_tx_bytes(void)
{
	struct peer *p = peer_full(MSS, true);
	struct stream s = {0};

	for (uint16_t len = 1; len < 60; len++) {
		CHECK(tx_one(p, &s, len));
		weft_mpa_tx_flush(p->m, PEER_NOW);
		CHECK_EQ(p->c->nsegs, len);
		CHECK(p->c->seg[len - 1].push);
	}
	CHECK(tx_one(p, &s, weft_mpa_mulpdu(MSS, false)));
	weft_mpa_tx_flush(p->m, PEER_NOW);
	weft_mpa_tx_flush(p->m, PEER_NOW);
	CHECK_EQ(p->c->nsegs, 60);
	CHECK_EQ(p->c->seg[59].len, MSS);
	CHECK_EQ(p->c->out_bytes, s.wire_bytes);
	CHECK_MEM(p->c->out, s.wire, s.wire_bytes);
	CHECK_EQ(p->m->stats.fpdus_out, 60);
	CHECK_EQ(p->m->stats.segs_out, 60);
	peer_free(p);
	stream_free(&s);
}

/** As many FPDUs as fit are sent in a segment. Each segment starts and ends with an FPDU. Only
 * the last one has PSH. */
static void
test_tx_packing(void)
{
	struct peer *p = peer_full(MSS, true);
	struct stream s = {0};
	unsigned int per_seg = MSS / mpa_fpdu_bytes(82);

	for (unsigned int i = 0; i < 3 * per_seg + 1; i++)
		CHECK(tx_one(p, &s, 82));
	CHECK_EQ(p->c->nsegs, 3);
	weft_mpa_tx_flush(p->m, PEER_NOW);
	CHECK_EQ(p->c->nsegs, 4);
	for (unsigned int i = 0; i < 3; i++) {
		CHECK_EQ(p->c->seg[i].len, per_seg * mpa_fpdu_bytes(82));
		CHECK(!p->c->seg[i].push);
	}
	CHECK_EQ(p->c->seg[3].len, mpa_fpdu_bytes(82));
	CHECK(p->c->seg[3].push);
	CHECK_MEM(p->c->out, s.wire, s.wire_bytes);
	peer_free(p);
	stream_free(&s);
}

static void
test_tx_random(void)
{
	rte_srand(test_seed(7));
	for (unsigned int round = 0; round < 50; round++) {
		uint16_t mss = 536 + rte_rand_max(1000);
		struct peer *p = peer_full(mss, true);
		struct stream s = {0};
		uint32_t sum = 0;

		while (s.n < 100) {
			CHECK(tx_one(p, &s, 1 + rte_rand_max(weft_mpa_mulpdu(mss, false))));
			if (rte_rand_max(10) == 0)
				weft_mpa_tx_flush(p->m, PEER_NOW);
		}
		weft_mpa_tx_flush(p->m, PEER_NOW);
		CHECK_EQ(p->c->out_bytes, s.wire_bytes);
		CHECK_MEM(p->c->out, s.wire, s.wire_bytes);
		for (unsigned int i = 0, f = 0; i < p->c->nsegs; i++) {
			CHECK(p->c->seg[i].len <= mss);
			CHECK_EQ(p->c->seg[i].off, sum);
			for (uint32_t l = 0; l < p->c->seg[i].len; f++)
				l += mpa_fpdu_bytes(s.len[f]);
			sum += p->c->seg[i].len;
			CHECK_EQ(f == s.n || i + 1 < p->c->nsegs, 1);
		}
		peer_free(p);
		stream_free(&s);
	}
}

/** A ULPDU whose end is copied by MPA, behind a head of any length: the same FPDU. One that is
 * cancelled leaves nothing. With the wide registers, if there are any, and without. With them a
 * segment comes with the sum of its octets, unless the port computes checksums. */
static void
test_tx_copy(void)
{
	static const uint8_t junk[1500] = {1, 2, 3};
	const bool wide = mpa_crc_wide;

	for (unsigned int k = 0; k < 6; k++) {
		struct peer *p = peer_full(MSS, true);
		struct stream s = {0};

		mpa_crc_wide = wide && k % 3 < 2;
		p->c->port_sums = k == 1;
		for (uint16_t len = 1; len <= weft_mpa_mulpdu(MSS, false); len++) {
			const uint16_t head = k % 2 == 0 ? RTE_MIN(len, 14) : len % 300;
			const uint8_t *src;
			uint8_t *d = weft_mpa_tx_begin(p->m, len, PEER_NOW);

			CHECK(d != NULL);
			if (len % 7 == 0) {
				weft_mpa_tx_copy(p->m, d, junk, len);
				weft_mpa_tx_cancel(p->m);
				d = weft_mpa_tx_begin(p->m, len, PEER_NOW);
				CHECK(d != NULL);
			}
			stream_add(&s, len);
			src = s.ulpdu + s.ulpdu_bytes - len;
			memcpy(d, src, head);
			if (len % 5 == 0) /* no copy of MPA's at all */
				memcpy(d + head, src + head, len - head);
			else
				weft_mpa_tx_copy(p->m, d + head, src + head, len - head);
			weft_mpa_tx_end(p->m, PEER_NOW);
			weft_mpa_tx_flush(p->m, PEER_NOW);
			CHECK_EQ(p->c->out_bytes, s.wire_bytes);
			CHECK_MEM(p->c->out, s.wire, s.wire_bytes);
			p->c->out_bytes = p->c->nsegs = 0;
			s.wire_bytes = s.ulpdu_bytes = s.n = 0;
		}
		CHECK_EQ(p->c->segs_summed > 0, mpa_crc_wide && !p->c->port_sums);
		peer_free(p);
		stream_free(&s);
	}
	mpa_crc_wide = wide;
}

/** Several FPDUs in one segment: it has a sum if MPA has copied the payload of each. */
static void
test_tx_copy_sums(void)
{
	static const uint8_t octets[400] = {9, 8, 7};
	struct peer *p = peer_full(MSS, true);

	/* by bits: the FPDUs whose payload MPA copies */
	for (unsigned int which = 0; which < 8; which++) {
		const unsigned int before = p->c->segs_summed;

		for (unsigned int i = 0; i < 3; i++) {
			const uint16_t len = (uint16_t)(300 + i * 7 + which);
			uint8_t *d = weft_mpa_tx_begin(p->m, len, PEER_NOW);

			CHECK(d != NULL);
			memset(d, (int)(i + which), 14);
			if ((which & 1u << i) != 0)
				weft_mpa_tx_copy(p->m, d + 14, octets, len - 14);
			else
				memcpy(d + 14, octets, len - 14);
			weft_mpa_tx_end(p->m, PEER_NOW);
		}
		weft_mpa_tx_flush(p->m, PEER_NOW);
		CHECK_EQ(p->c->nsegs, 1);
		CHECK_EQ(p->c->segs_summed - before, mpa_crc_wide && which == 7);
		p->c->out_bytes = p->c->nsegs = 0;
	}
	peer_free(p);
}

/** RFC 5044 s7.1.2 rule 4: a responder sends nothing before it has received an FPDU. */
static void
test_tx_responder_waits(void)
{
	static const uint16_t len[] = {20, 20};
	struct stream s = stream_of(len, 2);
	struct peer *p = peer_full(MSS, false);
	uint32_t one = mpa_fpdu_bytes(20);

	CHECK(!peer_may_send(p));
	CHECK(weft_mpa_tx_begin(p->m, 10, PEER_NOW) == NULL);
	p->c->ops->writable(p->c->user);
	CHECK_EQ(p->writables, 0);
	fake_rx(p->c, s.wire, one - 1, 0, PEER_NOW);
	CHECK(!peer_may_send(p));
	fake_rx(p->c, s.wire + one - 1, 1, 0, PEER_NOW);
	CHECK_EQ(p->writables, 1);
	CHECK(peer_may_send(p));
	CHECK(weft_mpa_tx_begin(p->m, 10, PEER_NOW) != NULL);
	weft_mpa_tx_end(p->m, PEER_NOW);
	fake_rx(p->c, s.wire + one, one, 0, PEER_NOW);
	CHECK_EQ(p->writables, 1);
	weft_mpa_tx_flush(p->m, PEER_NOW);
	CHECK_EQ(p->c->nsegs, 1);
	peer_free(p);

	/* An FPDU with a wrong CRC does not count. */
	p = peer_full(MSS, false);
	s.wire[5] ^= 1;
	fake_rx(p->c, s.wire, one, 0, PEER_NOW);
	CHECK_EQ(p->faults, 1);
	CHECK(!peer_may_send(p));
	peer_free(p);
	stream_free(&s);
}

static void
test_tx_no_space(void)
{
	struct peer *p = peer_full(MSS, true);
	struct stream s = {0};

	p->c->space = 0;
	CHECK(!peer_may_send(p));
	CHECK(!tx_one(p, &s, 100));
	p->c->space = 10000;
	p->c->ops->writable(p->c->user);
	CHECK_EQ(p->writables, 1);
	p->c->fail_alloc = 1;
	CHECK(!tx_one(p, &s, 100));
	/* An mbuf without room for the FPDU is returned. */
	p->c->room = 107;
	CHECK(!tx_one(p, &s, 100));
	CHECK_EQ(rte_mempool_in_use_count(p->c->pool), 0);
	p->c->room = 0;
	CHECK(tx_one(p, &s, 100));
	/* The send space ends while a segment is being filled: FPDUs that fit it are still
	 * added. */
	p->c->space = 0;
	CHECK(tx_one(p, &s, 100));
	CHECK(!tx_one(p, &s, 1400));
	CHECK_EQ(p->c->nsegs, 1);
	CHECK_EQ(p->c->out_bytes, s.wire_bytes);
	CHECK_MEM(p->c->out, s.wire, s.wire_bytes);
	/* TCP refuses because it is closing: nothing leaks, and `closed` follows. */
	p->c->space = 10000;
	p->c->send_rc = -EPIPE;
	CHECK(tx_one(p, &s, 1400));
	weft_mpa_tx_flush(p->m, PEER_NOW);
	CHECK_EQ(rte_mempool_in_use_count(p->c->pool), 0);
	peer_free(p);
	stream_free(&s);
}

/** A cancelled FPDU leaves those before it in the segment, and no empty segment. */
static void
test_tx_cancel(void)
{
	struct peer *p = peer_full(MSS, true);
	struct stream s = {0};

	for (unsigned int i = 0; i < 3; i++) {
		CHECK(weft_mpa_tx_begin(p->m, 100, PEER_NOW) != NULL);
		weft_mpa_tx_cancel(p->m);
		CHECK_EQ(rte_mempool_in_use_count(p->c->pool), 0);
	}
	CHECK(tx_one(p, &s, 100));
	CHECK(weft_mpa_tx_begin(p->m, 200, PEER_NOW) != NULL);
	weft_mpa_tx_cancel(p->m);
	CHECK(tx_one(p, &s, 101));
	weft_mpa_tx_flush(p->m, PEER_NOW);
	CHECK_EQ(p->c->nsegs, 1);
	CHECK_EQ(p->c->out_bytes, s.wire_bytes);
	CHECK_MEM(p->c->out, s.wire, s.wire_bytes);
	peer_free(p);
	stream_free(&s);
}

static void
test_tx_mss(void)
{
	struct peer *p = peer_full(MSS, true);
	struct stream s = {0};

	CHECK_EQ(p->m->mulpdu_bytes, 1442);
	p->c->ops->mss(p->c->user, MSS);
	CHECK_EQ(p->mulpdus, 0);
	CHECK(tx_one(p, &s, 700));
	p->c->mss = 536;
	p->c->ops->mss(p->c->user, 536);
	CHECK_EQ(p->mulpdus, 1);
	CHECK_EQ(p->mulpdu, 530);
	CHECK(tx_one(p, &s, 530));
	CHECK(tx_one(p, &s, 530));
	weft_mpa_tx_flush(p->m, PEER_NOW);
	CHECK_EQ(p->c->seg[p->c->nsegs - 1].len, 536);
	/* "the MPA on TCP sender MUST NOT shrink the MULPDU below 128 octets" */
	p->c->mss = 100;
	p->c->ops->mss(p->c->user, 100);
	CHECK_EQ(p->mulpdu, 128);
	CHECK(tx_one(p, &s, 128));
	weft_mpa_tx_flush(p->m, PEER_NOW);
	CHECK_MEM(p->c->out, s.wire, s.wire_bytes);
	for (uint16_t mss = 1; mss < 9000; mss++) {
		p->c->ops->mss(p->c->user, mss);
		CHECK(p->m->mulpdu_bytes >= 128);
		CHECK(p->m->mulpdu_bytes == 128 || mpa_fpdu_bytes(p->m->mulpdu_bytes) <= mss);
	}
	peer_free(p);
	stream_free(&s);
}

static void
test_tx_close(void)
{
	struct peer *p = peer_full(MSS, true);
	struct stream s = {0}, in = stream_of(small, 3);

	CHECK(tx_one(p, &s, 50));
	weft_mpa_close(p->m, PEER_NOW);
	CHECK_EQ(p->c->out_bytes, s.wire_bytes); /* sent before the close */
	CHECK(p->c->closed);
	CHECK(!peer_may_send(p));
	CHECK(!tx_one(p, &s, 50));
	weft_mpa_close(p->m, PEER_NOW);
	weft_mpa_tx_flush(p->m, PEER_NOW);
	/* The other direction still works. */
	fake_rx(p->c, in.wire, in.wire_bytes, 0, PEER_NOW);
	check_all(p, &in, 1);
	p->c->ops->eof(p->c->user);
	CHECK_EQ(p->eofs, 1);
	fake_die(p->c, 0);
	CHECK_EQ(p->closeds, 1);
	CHECK_EQ(p->closed_err, 0);
	peer_free(p);

	/* Abort sends nothing and frees a half filled segment. */
	p = peer_full(MSS, true);
	CHECK(tx_one(p, &s, 50));
	fake_rx(p->c, in.wire, 5, 0, PEER_NOW);
	weft_mpa_abort(p->m, PEER_NOW);
	CHECK(p->c->aborted);
	CHECK_EQ(p->closeds, 0);
	CHECK_EQ(rte_mempool_in_use_count(p->c->pool), 0);
	weft_mpa_abort(p->m, PEER_NOW);
	weft_mpa_close(p->m, PEER_NOW);
	peer_free(p);
	stream_free(&s);
	stream_free(&in);
}

/** What is sent is accepted: a loop of two MPA streams. */
static void
test_loop(void)
{
	struct peer *a = peer_full(MSS, true), *b = peer_full(MSS, false);
	struct stream s = {0};

	rte_srand(3);
	while (s.n < 200)
		CHECK(tx_one(a, &s, 1 + rte_rand_max(1442)));
	weft_mpa_tx_flush(a->m, PEER_NOW);
	for (unsigned int i = 0; i < a->c->nsegs; i++)
		fake_rx(b->c, a->c->out + a->c->seg[i].off, a->c->seg[i].len, 0, PEER_NOW);
	check_all(b, &s, 1);
	CHECK_EQ(b->m->stats.fpdus_straddled, 0);
	peer_free(a);
	peer_free(b);
	stream_free(&s);
}

WEFT_TEST_MAIN({"rx packed", test_rx_packed}, {"rx cut everywhere", test_rx_cut_everywhere},
               {"rx cut twice", test_rx_cut_twice}, {"rx pieces", test_rx_pieces},
               {"rx frag limit", test_rx_frag_limit}, {"rx incomplete", test_rx_incomplete},
               {"rx largest", test_rx_largest}, {"rx random", test_rx_random},
               {"rx crc", test_rx_crc}, {"rx mutated", test_rx_mutated}, {"rx eof", test_rx_eof},
               {"rx rest", test_rx_rest}, {"rx destroy", test_rx_destroy},
               {"rx destroy compacted", test_rx_destroy_compacted}, {"tx bytes", test_tx_bytes},
               {"tx packing", test_tx_packing}, {"tx random", test_tx_random},
               {"tx copy", test_tx_copy}, {"tx copy sums", test_tx_copy_sums},
               {"tx responder waits", test_tx_responder_waits}, {"tx no space", test_tx_no_space},
               {"tx cancel", test_tx_cancel}, {"tx mss", test_tx_mss}, {"tx close", test_tx_close},
               {"loop", test_loop})
