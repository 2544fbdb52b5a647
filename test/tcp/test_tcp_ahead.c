/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A user that takes octets behind a gap (weft_tcp_conn_ops.ahead): whatever segments arrive, each
 * octet of the stream is delivered once and in order, either as octets or by the record of the
 * segment that was taken, and a copy with other octets changes nothing that was taken.
 */

#include "tcp_peer.h"
#include "tcp_conn.h"
#include "tcp_instance.h"
#include "tcp_rcv.h"
#include "test_xorshift.h"

#define STREAM_KEY 200 /* of net_raw() */

/** The record that the user writes over what it takes. */
struct rec {
	uint32_t seq, len;
};

static struct user {
	uint64_t x;
	unsigned int take_of_8; /**< how many of eight segments are taken */
	uint32_t pos;           /**< octets delivered */
	uint32_t by_rec;        /**< of these, by records */
	unsigned int offers, takes;
	uint32_t least;       /**< octets of a segment that is taken */
	bool taken_to[65536]; /**< a segment that was taken ended here */
	bool other;           /**< octets of the segment under way are not the stream's */
	bool eof;
} u;

static void
user_rx(void *user, struct rte_mbuf *m, uint64_t now_ns)
{
	(void)user;
	(void)now_ns;
	for (struct rte_mbuf *b = m; b != NULL; b = b->next)
		for (uint32_t i = 0; i < b->data_len; i++, u.pos++)
			if (!u.other)
				CHECK_EQ(*rte_pktmbuf_mtod_offset(b, uint8_t *, i),
				         net_stream(STREAM_KEY, u.pos));
	rte_pktmbuf_free(m);
}

static bool
user_ahead(void *user, struct rte_mbuf *m, uint32_t seq, uint32_t gap_bytes, bool follows)
{
	struct rec r = {.seq = seq, .len = m->pkt_len};

	(void)user;
	u.offers++;
	CHECK_EQ(seq - (IRS + 1) - u.pos, gap_bytes);
	CHECK(gap_bytes > 0);
	CHECK(!follows || u.taken_to[seq - (IRS + 1)]);
	if (m->nb_segs != 1 || m->data_len < RTE_MAX(u.least, (uint32_t)sizeof(r)) ||
	    test_xorshift(&u.x) % 8 >= u.take_of_8)
		return false;
	if (!u.other)
		for (uint32_t i = 0; i < m->data_len; i++)
			CHECK_EQ(*rte_pktmbuf_mtod_offset(m, uint8_t *, i),
			         net_stream(STREAM_KEY, seq - (IRS + 1) + i));
	memcpy(rte_pktmbuf_mtod(m, void *), &r, sizeof(r));
	m->data_len = m->pkt_len = sizeof(r);
	u.takes++;
	u.taken_to[seq - (IRS + 1) + r.len] = true;
	return true;
}

static void
user_rx_ahead(void *user, struct rte_mbuf *m, uint32_t seq, uint32_t len_bytes, uint64_t now_ns)
{
	uint32_t left = len_bytes, at = seq;

	(void)user;
	(void)now_ns;
	CHECK_EQ(m->nb_segs, 1);
	CHECK_EQ(seq, IRS + 1 + u.pos);
	for (uint32_t i = 0; i < m->data_len; i += (uint32_t)sizeof(struct rec)) {
		struct rec r;

		memcpy(&r, rte_pktmbuf_mtod_offset(m, void *, i), sizeof(r));
		CHECK_EQ(r.seq, at);
		CHECK(r.len <= left);
		at += r.len;
		left -= r.len;
	}
	CHECK_EQ(left, 0);
	u.pos += len_bytes;
	u.by_rec += len_bytes;
	rte_pktmbuf_free(m);
}

static void
user_eof(void *user)
{
	(void)user;
	u.eof = true;
}

static void
user_closed(void *user, int err)
{
	(void)user;
	(void)err;
}

static void
user_none(void *user)
{
	(void)user;
}

static void
user_mss(void *user, uint16_t mss_bytes)
{
	(void)user;
	(void)mss_bytes;
}

static const struct weft_tcp_conn_ops user_ops = {
        .established = user_none,
        .rx = user_rx,
        .ahead = user_ahead,
        .rx_ahead = user_rx_ahead,
        .writable = user_none,
        .mss = user_mss,
        .eof = user_eof,
        .closed = user_closed,
};

static struct weft_tcp_conn *
open_user(const struct weft_tcp_attr *attr, unsigned int take_of_8, uint64_t seed)
{
	struct tcp_opts o = {.mss_bytes = MSS, .sack_perm = true, .has_wscale = true, .wscale = 7};
	struct weft_tcp_conn *c;

	up(attr);
	syn(IRS, &o);
	iss = last().h.seq;
	seg_wait(TCP_ACK, IRS + 1, iss + 1, 65535, 0, 0);
	app = &net.app[0];
	c = app->c;
	memset(&u, 0, sizeof(u));
	u.x = seed * 2 + 1;
	u.take_of_8 = take_of_8;
	weft_tcp_set_user(c, &user_ops, &u);
	return c;
}

static void
put(uint32_t off, uint32_t len)
{
	seg_wait(TCP_ACK, IRS + 1 + off, iss + 1, 65535, off, len);
}

static void
close_user(struct weft_tcp_conn *c)
{
	CHECK(c->ooo_head == NULL);
	CHECK_EQ(c->ooo_bytes, 0);
	CHECK_EQ(net.node[0].tcp->ooo_mbufs, 0);
	weft_tcp_abort(c, sim_now_ns(net.sim));
	app->closed = true;
	app->c = NULL;
	down();
}

/** Segments of random places and lengths, which overlap each other in every way. */
static void
test_random(void)
{
	unsigned int takes = 0;

	for (unsigned int i = 0; i < 48 && (i == 0 || !test_seed_given()); i++) {
		const uint32_t end = 40000;
		uint64_t seed = test_seed(1 + i), x = seed * 2 + 1;
		struct weft_tcp_conn *c = open_user(NULL, i % 8 + 1, seed);

		test_seed_note(seed);
		for (unsigned int k = 0; k < 400 && u.pos < end; k++) {
			uint32_t off = (uint32_t)(test_xorshift(&x) % end);
			uint32_t len = 1 + (uint32_t)(test_xorshift(&x) % MSS), pos = u.pos;

			/* Now and then what is missing, or almost. */
			if (test_xorshift(&x) % 8 == 0)
				off = u.pos + (uint32_t)(test_xorshift(&x) % 3) * 300;
			off = RTE_MIN(off, end - 1);
			len = RTE_MIN(len, end - off);
			put(off, len);
			/* What lies behind octets that were taken is not lost. */
			CHECK(off > pos || u.pos >= off + len);
		}
		while (u.pos < end)
			put(u.pos, RTE_MIN(1000u, end - u.pos));
		CHECK_EQ(u.pos, end);
		takes += u.takes;
		close_user(c);
	}
	CHECK(takes > 500);
}

/** Records share a buffer: a long run of taken segments holds few. */
static void
test_buffers(void)
{
	struct weft_tcp_conn *c = open_user(NULL, 8, 1);

	for (uint32_t i = 1; i <= 40; i++)
		put(i * MSS, MSS);
	CHECK_EQ(u.takes, 40);
	CHECK(c->ooo_mbufs <= 2);
	CHECK(c->ooo_bytes <= 2 * MSS);
	put(0, MSS);
	CHECK_EQ(u.pos, 41 * MSS);
	CHECK_EQ(u.by_rec, 40 * MSS);
	CHECK_EQ(weft_tcp_stats(net.node[0].tcp)->ooo_taken, 40);
	close_user(c);
}

/** A copy with other octets, in order or not, replaces nothing that was taken. One that fills the
 * gap is delivered up to there only. */
static void
test_other_copy(void)
{
	struct weft_tcp_conn *c = open_user(NULL, 8, 1);

	put(1000, 1000);
	CHECK_EQ(u.takes, 1);
	u.other = true;
	seg_wait(TCP_ACK, IRS + 1 + 1000, iss + 1, 65535, 77, 1000);
	seg_wait(TCP_ACK, IRS + 1 + 1500, iss + 1, 65535, 77, 500);
	CHECK_EQ(u.takes, 1);
	seg_wait(TCP_ACK, IRS + 1, iss + 1, 65535, 77, 1400);
	CHECK_EQ(u.pos, 2000);
	CHECK_EQ(u.by_rec, 1000);
	/* What the segment had behind the taken octets comes again. */
	seg_wait(TCP_ACK, IRS + 1 + 3000, iss + 1, 65535, 3000, 500);
	CHECK_EQ(u.takes, 2);
	seg_wait(TCP_ACK, IRS + 1 + 2000, iss + 1, 65535, 2000, MSS);
	CHECK_EQ(u.pos, 3500);
	CHECK_EQ(u.by_rec, 1500);
	close_user(c);
}

/** A segment that begins before octets that were taken, and ends behind them. */
static void
test_around(void)
{
	struct weft_tcp_conn *c = open_user(NULL, 8, 1);

	/* Not taken: it has no room for a record. */
	put(1300, 4);
	put(400, 100);
	put(800, 100);
	CHECK_EQ(u.takes, 2);
	put(0, 1400);
	CHECK_EQ(u.pos, 1400);
	CHECK(u.by_rec >= 200);
	close_user(c);
	/* Without a buffer for them they are lost, and come again. */
	c = open_user(NULL, 8, 1);
	put(400, 100);
	c->t->attr.max_ooo_mbufs = c->ooo_mbufs;
	put(0, 1400);
	CHECK_EQ(u.pos, 500);
	put(500, 900);
	CHECK_EQ(u.pos, 1400);
	close_user(c);
}

/** A FIN in the middle of what was taken: the peer sends it again up to the FIN. */
static void
test_fin(void)
{
	struct weft_tcp_conn *c = open_user(NULL, 8, 1);

	put(1000, 1000);
	seg_wait(TCP_ACK | TCP_FIN, IRS + 1 + 1500, iss + 1, 65535, 0, 0);
	CHECK(c->ooo_head == NULL);
	put(0, 1000);
	CHECK_EQ(u.pos, 1000);
	put(1000, 500);
	CHECK_EQ(u.pos, 1500);
	CHECK(u.eof);
	close_user(c);
}

/** A full budget drops what was taken. It arrives again, and is delivered once. */
static void
test_shed(void)
{
	struct weft_tcp_conn *c = open_user(NULL, 8, 1);

	for (uint32_t i = 1; i <= 8; i++)
		put(2 * i * 1000, 1000);
	CHECK_EQ(u.takes, 8);
	tcp_reass_shed(c, 3);
	CHECK_EQ(c->ooo_mbufs, 3);
	for (uint32_t off = 1000; off < 18000; off += 1000)
		put(off, 1000);
	put(0, 1000);
	CHECK_EQ(u.pos, 18000);
	CHECK(u.by_rec >= 15000);
	close_user(c);
}

/** Scraps that are not taken fill the limit of mbufs. What is taken behind each keeps to it. */
static void
test_limit(void)
{
	struct weft_tcp_attr a = {.max_ooo_mbufs = 8};
	struct weft_tcp_conn *c = open_user(&a, 8, 1);

	u.least = 500;
	for (uint32_t i = 1; i <= 8; i++)
		put(i * 4000, 4);
	CHECK_EQ(c->ooo_mbufs, 8);
	for (uint32_t i = 1; i <= 8; i++)
		put(i * 4000 + 4, 600);
	CHECK_EQ(c->ooo_mbufs, 8);
	CHECK_EQ(u.takes, 0);
	CHECK_EQ(weft_tcp_stats(net.node[0].tcp)->rx_ooo_dropped, 8);
	tcp_reass_shed(c, 0);
	close_user(c);
}

WEFT_TEST_MAIN({"random segments", test_random}, {"buffers", test_buffers},
               {"another copy", test_other_copy}, {"around", test_around},
               {"a FIN within", test_fin}, {"dropped for others", test_shed},
               {"the limit", test_limit})
