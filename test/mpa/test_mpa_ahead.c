/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * FPDUs behind a gap (RFC 5044 s6): which are handed up before their turn, and which are not
 * because their start is not known or they are not valid. And what comes up in their turn.
 */

#include "mpa_peer.h"
#include "mstream.h"
#include "test_xorshift.h"

#define MSS 1448

static uint32_t
fpdu_end(const struct mstream *s, unsigned int i)
{
	return i + 1 < s->n ? s->start[i + 1] : s->wire_bytes;
}

/** An initiator that receives with markers, whose peer has sent one FPDU of 20 octets. */
static struct peer *
up(struct mstream *s, bool markers, bool crc)
{
	uint8_t flags = (uint8_t)((markers ? PEER_M : 0) | (crc ? PEER_C : 0));
	struct peer *p = peer_full_as(MSS, true, flags, flags);

	p->m->place_ahead = true;
	p->take = true;
	p->c->rcv_nxt = 0;
	*s = (struct mstream){.markers = markers, .crc = crc};
	ms_add(s, 20);
	fake_rx(p->c, s->wire, s->wire_bytes, 0, PEER_NOW);
	CHECK_EQ(p->ulpdus, 1);
	return p;
}

/** Offer [from, to) of the stream, while `have` octets have arrived in order. Returns the mbuf;
 * *taken: whether MPA took it. */
static struct rte_mbuf *
offer(struct peer *p, const uint8_t *wire, uint32_t from, uint32_t to, bool follows, bool *taken)
{
	struct rte_mbuf *b = fake_chain(p->c, wire + from, to - from, 0);

	CHECK_EQ(b->nb_segs, 1);
	*taken = p->c->ops->ahead(p->c->user, b, from, from - p->c->rcv_nxt, follows);
	if (!*taken) {
		CHECK_EQ(b->data_len, to - from);
		CHECK_MEM(rte_pktmbuf_mtod(b, uint8_t *), wire + from, to - from);
	} else {
		CHECK(b->data_len < to - from);
	}
	return b;
}

static bool
takes(struct peer *p, const uint8_t *wire, uint32_t from, uint32_t to, bool follows)
{
	bool taken;

	rte_pktmbuf_free(offer(p, wire, from, to, follows, &taken));
	return taken;
}

static void
deliver(struct peer *p, struct rte_mbuf *b, uint32_t from, uint32_t to)
{
	CHECK_EQ(p->c->rcv_nxt, from);
	p->c->rcv_nxt = to;
	p->c->ops->rx_ahead(p->c->user, b, from, to - from, PEER_NOW);
}

static void
down(struct peer *p, struct mstream *s)
{
	ms_free(s);
	peer_free(p);
}

/**
 * At every phase of the markers: a whole FPDU goes up behind a gap with the octets that it has in
 * its turn. Then the gap is filled, the record comes up in its turn, and the stream goes on.
 */
static void
test_taken(void)
{
	for (uint32_t lead = 4; lead < 520; lead += 4) {
		struct mstream s;
		struct peer *p = up(&s, true, true);
		struct rte_mbuf *b;
		uint32_t at;
		bool taken;

		ms_add(&s, (uint16_t)lead);
		at = s.ulpdu_bytes;
		ms_add(&s, 1000);
		ms_add(&s, 300);
		b = offer(p, s.wire, s.start[2], s.start[3], false, &taken);
		CHECK(taken);
		CHECK_EQ(p->aheads, 1);
		CHECK_EQ(p->ahead_bytes, 1000);
		CHECK_MEM(p->ahead_got, s.ulpdu + at, 1000);
		CHECK_EQ(p->ahead_seq, s.start[2]);
		CHECK_EQ(p->ahead_end_seq, s.start[3]);
		CHECK_EQ(p->ulpdus, 1);
		fake_rx(p->c, s.wire + s.start[1], s.start[2] - s.start[1], 100, PEER_NOW);
		CHECK_EQ(p->ulpdus, 2);
		deliver(p, b, s.start[2], s.start[3]);
		CHECK_EQ(p->placeds, 1);
		CHECK_EQ(p->placed_bytes, 1000);
		CHECK_EQ(p->placed_seq, s.start[2]);
		CHECK_EQ(p->placed_end_seq, s.start[3]);
		CHECK_MEM(p->placed_head, s.ulpdu + at, sizeof(p->placed_head));
		fake_rx(p->c, s.wire + s.start[3], s.wire_bytes - s.start[3], 0, PEER_NOW);
		CHECK_EQ(p->ulpdus, 3);
		CHECK_EQ(p->faults, 0);
		CHECK_EQ(p->m->stats.fpdus_in, 4);
		CHECK_EQ(p->m->stats.fpdus_ahead, 1);
		down(p, &s);
	}
}

/**
 * Without a marker that points to its start, an FPDU is known only if the octets before it were
 * taken (s6, way 3). In a segment of several FPDUs that is decided by the first.
 */
static void
test_start_unknown(void)
{
	struct mstream s;
	struct peer *p = up(&s, true, true);
	unsigned int with = 0, without = 0;

	for (unsigned int i = 0; i < 60; i++)
		ms_add(&s, 40);
	for (unsigned int i = 2; i < s.n; i++) {
		uint32_t from = s.start[i], to = fpdu_end(&s, i);
		bool marker = false;

		for (unsigned int k = 0; k < s.nmarkers; k++)
			marker |= s.marker[k] >= from && s.marker[k] < to;
		CHECK_EQ(takes(p, s.wire, from, to, false), marker);
		CHECK(takes(p, s.wire, from, to, true));
		/* What follows the first is found by its length. */
		if (i + 4 < s.n) {
			CHECK_EQ(takes(p, s.wire, from, s.start[i + 4], false), marker);
			CHECK(takes(p, s.wire, from, s.start[i + 4], true));
		}
		with += marker;
		without += !marker;
	}
	CHECK(with > 3 && without > 20);
	/* 65 FPDUs and more in one segment wait for their turn. */
	down(p, &s);
	p = up(&s, true, true);
	for (unsigned int i = 0; i < 80; i++)
		ms_add(&s, 16);
	CHECK(takes(p, s.wire, s.start[2], s.start[66], true));
	CHECK(!takes(p, s.wire, s.start[2], s.start[67], true));
	down(p, &s);
}

/** A segment that does not begin with an FPDU, or ends within one, is not taken, wherever it is
 * cut. */
static void
test_misaligned(void)
{
	struct mstream s;
	struct peer *p = up(&s, true, true);

	ms_add(&s, 100);
	ms_add(&s, 1200);
	ms_add(&s, 1200);
	for (uint32_t from = s.start[2] - 40; from < s.start[3]; from++)
		if (from != s.start[2] && from != s.start[1])
			CHECK_MSG(!takes(p, s.wire, from, s.start[3], false), "from %u", from);
	for (uint32_t to = s.start[2] + 1; to < s.start[3] + 300; to++)
		CHECK_EQ(takes(p, s.wire, s.start[2], to, false), to == s.start[3]);
	CHECK_EQ(p->faults, 0);
	down(p, &s);
}

/**
 * The payload of an honest peer's FPDU is an attacker's: it has nothing but valid FPDUs, each with
 * its CRC. No segment that begins in it is taken, wherever the stream is cut again.
 */
static void
test_forged(void)
{
	uint8_t inner[40], forged[256];
	uint32_t n;
	struct mstream s;
	struct peer *p = up(&s, true, true);

	memset(inner, 0x5a, sizeof(inner));
	n = slow_fpdu(forged, inner, sizeof(inner));
	ms_add(&s, 100);
	{
		/* An FPDU of 1200 octets whose ULPDU is forged FPDUs, with markers and CRC. */
		uint32_t from = s.wire_bytes, at;
		unsigned int i = 0;

		ms_add(&s, 1200);
		at = from + (from % 512 == 0 ? 4 : 0) + 2;
		for (; i < 1200; at++) {
			if (at % 512 == 0)
				at += 4;
			s.wire[at] = forged[i++ % n];
		}
		ms_recrc(&s, s.n - 1);
	}
	ms_add(&s, 100);
	CHECK(takes(p, s.wire, s.start[2], s.start[3], false));
	p->aheads = 0;
	for (uint32_t from = s.start[2] + 1; from < s.start[3]; from++)
		for (uint32_t len = n; len < 5 * n && from + len <= s.wire_bytes; len += 4)
			CHECK_MSG(!takes(p, s.wire, from, from + len, false), "%u octets from %u",
			          len, from);
	CHECK_EQ(p->aheads, 0);
	down(p, &s);
}

/** An octet is wrong: the segment waits, and the fault is found in its turn. */
static void
test_damaged(void)
{
	struct mstream s;
	struct peer *p = up(&s, true, true);

	ms_add(&s, 100);
	ms_add(&s, 1000);
	for (uint32_t at = s.start[2]; at < s.wire_bytes; at++) {
		s.wire[at] ^= 0x10;
		CHECK(!takes(p, s.wire, s.start[2], s.wire_bytes, true));
		s.wire[at] ^= 0x10;
	}
	/* A marker that points elsewhere under a valid CRC. */
	for (unsigned int k = 0; k < s.nmarkers; k++)
		if (s.marker[k] > s.start[2]) {
			s.wire[s.marker[k] + 3] ^= 4;
			ms_recrc(&s, 2);
			CHECK(!takes(p, s.wire, s.start[2], s.wire_bytes, true));
			s.wire[s.marker[k] + 3] ^= 4;
			ms_recrc(&s, 2);
		}
	CHECK(takes(p, s.wire, s.start[2], s.wire_bytes, false));
	CHECK_EQ(p->faults, 0);
	CHECK_EQ(p->m->stats.crc_errors + p->m->stats.marker_errors, 0);
	down(p, &s);
}

/** Without markers, CRC or the option, before the peer's first FPDU, after a fault, and when the
 * layer above declines. */
static void
test_not_taken(void)
{
	for (unsigned int how = 0; how < 6; how++) {
		struct mstream s;
		struct peer *p = up(&s, how != 0, how != 1);

		ms_add(&s, 100);
		ms_add(&s, 1000);
		if (how == 2)
			p->m->place_ahead = false;
		if (how == 3)
			p->m->peer_spoke = false;
		if (how == 4)
			p->take = false;
		if (how == 5) {
			s.wire[s.start[1] + 8] ^= 1;
			fake_rx(p->c, s.wire + s.start[1], s.start[2] - s.start[1], 0, PEER_NOW);
			CHECK_EQ(p->faults, 1);
		}
		CHECK(!takes(p, s.wire, s.start[2], s.wire_bytes, true));
		CHECK_EQ(p->m->stats.fpdus_ahead, 0);
		down(p, &s);
	}
}

/** A peer whose length fields lead past the start to which its marker points: the marker error of
 * s8, code 3, in stream order. */
static void
test_disagree(void)
{
	struct mstream s;
	struct peer *p = up(&s, true, true);
	struct rte_mbuf *b;
	bool taken;

	ms_add(&s, 100);
	ms_add(&s, 1000);
	b = offer(p, s.wire, s.start[2], s.wire_bytes, false, &taken);
	CHECK(taken);
	s.wire[s.start[1]] = 0x10; /* longer than it is */
	fake_rx(p->c, s.wire + s.start[1], s.start[2] - s.start[1], 0, PEER_NOW);
	CHECK_EQ(p->faults, 0);
	deliver(p, b, s.start[2], s.wire_bytes);
	CHECK_EQ(p->faults, 1);
	CHECK_EQ(p->term.code, WEFT_MPA_ERR_MARKER);
	CHECK_EQ(p->placeds, 0);
	down(p, &s);
}

/** The owner ends the stream in the up-call of the first of several records. */
static void
test_ended(void)
{
	for (unsigned int act = ACT_DESTROY; act <= ACT_ABORT; act++) {
		struct mstream s;
		struct peer *p = up(&s, true, true);
		struct rte_mbuf *b;
		bool taken;

		ms_add(&s, 600);
		ms_add(&s, 200);
		ms_add(&s, 200);
		b = offer(p, s.wire, s.start[1], s.wire_bytes, false, &taken);
		CHECK(taken);
		CHECK_EQ(p->aheads, 3);
		p->act = act;
		p->act_on = 'd';
		deliver(p, b, s.start[1], s.wire_bytes);
		CHECK_EQ(p->placeds, act == ACT_CLOSE ? 3 : 1);
		down(p, &s);
	}
}

WEFT_TEST_MAIN({"taken and delivered", test_taken}, {"start unknown", test_start_unknown},
               {"misaligned", test_misaligned}, {"forged in a payload", test_forged},
               {"damaged", test_damaged}, {"not taken", test_not_taken},
               {"marker and lengths disagree", test_disagree}, {"ended by the owner", test_ended})
