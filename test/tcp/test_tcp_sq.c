/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The memory of the send queue: segments are chains with external buffers, which are freed
 * exactly once. They can be split at any octet, and are never written while a ring holds them (RFC
 * 5044 appendix A).
 */

#include <stdlib.h>

#include <rte_mempool.h>

#include "tcp_peer.h"
#include "tcp_conn.h"
#include "tcp_snd.h"
#include "test_xorshift.h"
#include "weft_netif.h"

#define BUFS 8192

/** A buffer outside of all pools. */
struct ext {
	struct rte_mbuf_ext_shared_info shared;
	unsigned int freed;
	uint8_t data[4096];
};

static struct ext *bufs;
static unsigned int nbufs, nfreed;

static void
ext_free(void *addr, void *opaque)
{
	struct ext *e = opaque;

	CHECK(addr == e->data);
	e->freed++;
	nfreed++;
	/* A reader that still uses it will see this pattern. */
	memset(e->data, 0xee, sizeof(e->data));
}

static void
bufs_up(void)
{
	free(bufs);
	bufs = calloc(BUFS, sizeof(*bufs));
	CHECK(bufs != NULL);
	nbufs = nfreed = 0;
}

/** A buffer with `users` references, and len octets of the stream from off on. */
static struct ext *
ext_new(uint8_t key, uint64_t off, uint32_t len, uint16_t users)
{
	struct ext *e = &bufs[nbufs++];

	CHECK(nbufs <= BUFS && len <= sizeof(e->data));
	e->shared.free_cb = ext_free;
	e->shared.fcb_opaque = e;
	rte_mbuf_ext_refcnt_set(&e->shared, users);
	for (uint32_t i = 0; i < len; i++)
		e->data[i] = net_stream(key, off + i);
	return e;
}

/** An mbuf with octets [at, at + len) of a buffer. It takes over one reference. */
static struct rte_mbuf *
ext_mbuf(struct ext *e, uint32_t at, uint32_t len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(net_pool());

	CHECK(m != NULL);
	rte_pktmbuf_attach_extbuf(m, e->data, RTE_BAD_IOVA, sizeof(e->data), &e->shared);
	m->data_off = (uint16_t)at;
	m->data_len = (uint16_t)len;
	m->pkt_len = len;
	return m;
}

static void
put(struct rte_mbuf *m, uint8_t key, uint64_t off, uint32_t len)
{
	uint8_t *p = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)len);

	CHECK(p != NULL);
	for (uint32_t i = 0; i < len; i++)
		p[i] = net_stream(key, off + i);
}

static void
chain_add(struct rte_mbuf *head, struct rte_mbuf *m)
{
	CHECK_EQ(rte_pktmbuf_chain(head, m), 0);
}

/** Segments of one to five mbufs: a header of ours, followed by external and ordinary mbufs. */
static void
push_chains(struct net_app *a)
{
	struct sim *s = a->node->net->sim;

	while (a->c != NULL && a->sent < a->to_send) {
		uint32_t mss = weft_tcp_mss(a->c), len, head;
		struct rte_mbuf *m;

		if (weft_tcp_send_space(a->c) == 0)
			return;
		m = weft_tcp_alloc(a->c);
		if (m == NULL)
			return;
		len = 1 + sim_random(s) % mss;
		len = (uint32_t)RTE_MIN((uint64_t)len, a->to_send - a->sent);
		head = sim_random(s) % RTE_MIN(len, 60u);
		put(m, a->tx_key, a->sent, head);
		for (uint32_t at = head; at < len;) {
			uint32_t n = 1 + sim_random(s) % (len - at);

			if (m->nb_segs == 4)
				n = len - at;
			if (sim_random(s) % 4 == 0) {
				struct rte_mbuf *o = rte_pktmbuf_alloc(net_pool());

				CHECK(o != NULL);
				put(o, a->tx_key, a->sent + at, n);
				chain_add(m, o);
			} else {
				struct ext *e = ext_new(a->tx_key, a->sent + at, n, 1);

				chain_add(m, ext_mbuf(e, 0, n));
			}
			at += n;
		}
		a->sent += len;
		CHECK_EQ(weft_tcp_send(a->c, m, a->sent == a->to_send, a->node->sched.now_ns), 0);
	}
	if (a->c != NULL && a->close_when_sent && a->sent == a->to_send)
		weft_tcp_close(a->c, a->node->sched.now_ns);
}

static void
check_freed_once(void)
{
	for (unsigned int i = 0; i < nbufs; i++)
		CHECK_MSG(bufs[i].freed == 1, "buffer %u of %u: %u times", i, nbufs, bufs[i].freed);
}

static struct net_app *
chains_up(uint64_t seed, const struct sim_link_cfg cfg[2], uint64_t bytes)
{
	struct net_app *a;

	bufs_up();
	net_up(&net, seed, cfg, NULL, 1500);
	net_listen(&net, 1);
	net.accept_as = (struct net_app){.close_on_eof = true};
	a = net_connect(&net, 0, 7);
	a->push = push_chains;
	a->to_send = bytes;
	a->close_when_sent = true;
	a->close_on_eof = false;
	return a;
}

static void
chains_lossy(uint64_t seed, uint32_t loss_ppm, unsigned int keep, bool shrink)
{
	struct sim_link_cfg cfg[2] = {{.loss_ppm = loss_ppm,
	                               .reorder_ppm = loss_ppm,
	                               .reorder_ns = 300 * WEFT_NS_PER_US,
	                               .delay_ns = 100 * WEFT_NS_PER_US,
	                               .rate_bps = 1000000000},
	                              {.loss_ppm = loss_ppm, .delay_ns = 100 * WEFT_NS_PER_US}};
	struct net_app *a = chains_up(seed, cfg, 400000);

	test_seed_note(seed);
	net.node[0].tx_keep = keep;
	if (shrink) {
		net_run(&net, 2 * WEFT_NS_PER_MS, NULL, NULL);
		cfg[0].mtu_bytes = 700;
		sim_link_set(net.link, 0, &cfg[0]);
	}
	CHECK_MSG(net_run_closed(&net, 300 * WEFT_NS_PER_S), "seed %" PRIu64, seed);
	CHECK_MSG(!a->bad_data && !net.app[1].bad_data && net.app[1].received == 400000,
	          "seed %" PRIu64, seed);
	CHECK_MSG(a->err == 0 && net.app[1].err == 0, "seed %" PRIu64 ": %d %d", seed, a->err,
	          net.app[1].err);
	if (shrink)
		CHECK(weft_tcp_stats(net.node[0].tcp)->segs_split > 0);
	net.node[0].tx_keep = 0;
	net_unkeep(&net.node[0], 0);
	check_freed_once();
	net_check_idle(&net);
	net_down(&net);
}

static void
test_chains(void)
{
	chains_lossy(test_seed(1), 0, 0, false);
	for (unsigned int i = 0; i < 12; i++)
		chains_lossy(test_seed(10 + i), 30000, 0, false);
}

/** The ring frees late: data in it are not written, whatever is lost meanwhile. */
static void
test_chains_kept(void)
{
	for (unsigned int i = 0; i < 12; i++)
		chains_lossy(test_seed(30 + i), i == 0 ? 0 : 30000, i % 2 == 0 ? 3 : NET_KEEP,
		             false);
}

/** Queued chains are longer than the new MSS (RFC 5044 appendix A). */
static void
test_chains_shrink(void)
{
	for (unsigned int i = 0; i < 12; i++)
		chains_lossy(test_seed(50 + i), i == 0 ? 0 : 10000, i % 3 == 0 ? NET_KEEP : 0,
		             true);
}

/** An aborted connection frees everything at once, except what the ring holds. */
static void
test_abort(void)
{
	struct sim_link_cfg cfg[2] = {{.delay_ns = WEFT_NS_PER_MS}, {.delay_ns = WEFT_NS_PER_MS}};
	struct net_app *a;
	unsigned int freed;

	for (unsigned int keep = 0; keep <= 8; keep += 4) {
		a = chains_up(test_seed(70), cfg, 400000);
		net.node[0].tx_keep = keep;
		net_run(&net, 7 * WEFT_NS_PER_MS, NULL, NULL);
		CHECK(a->c != NULL && nbufs > nfreed);
		weft_tcp_abort(a->c, sim_now_ns(net.sim));
		a->c = NULL;
		a->closed = true;
		weft_netif_flush(net.node[0].nif, sim_now_ns(net.sim));
		freed = nfreed;
		CHECK(keep > 0 ? freed < nbufs : freed == nbufs);
		net_unkeep(&net.node[0], 0);
		check_freed_once();
		net_run_closed(&net, 10 * WEFT_NS_PER_S);
		net_down(&net);
	}
}

/** Several segments of one buffer: it is freed when the last of them is acknowledged. */
static void
test_shared(void)
{
	struct net_app as = {0};
	struct ext *e;

	open_conn(NULL, &as);
	bufs_up();
	e = ext_new(200, 0, 4000, 4);
	for (uint32_t i = 0; i < 4; i++) {
		struct rte_mbuf *m = weft_tcp_alloc(app->c);

		chain_add(m, ext_mbuf(e, 1000 * i, 1000));
		CHECK_EQ(weft_tcp_send(app->c, m, true, sim_now_ns(net.sim)), 0);
	}
	run_for(WEFT_NS_PER_MS);
	CHECK_EQ(net.node[1].nsegs, 4);
	for (uint32_t i = 0; i < 4; i++) {
		CHECK_EQ(net.node[1].segs[i].len_bytes, 1000);
		CHECK_EQ(net.node[1].segs[i].first, net_stream(200, 1000 * i));
	}
	/* Retransmissions by clones of their own: the second, third and fourth are lost. */
	seg_wait(TCP_ACK, IRS + 1, iss + 1 + 1000, 65535, 0, 0);
	CHECK_EQ(e->freed, 0);
	run_for(300 * WEFT_NS_PER_MS);
	CHECK(weft_tcp_stats(net.node[0].tcp)->retrans_segs > 0);
	seg_wait(TCP_ACK, IRS + 1, iss + 1 + 3999, 65535, 0, 0);
	CHECK_EQ(e->freed, 0);
	seg_wait(TCP_ACK, IRS + 1, iss + 1 + 4000, 65535, 0, 0);
	CHECK_EQ(e->freed, 1);
	CHECK_EQ(app->c->snd_segs, 0);
	down();
}

#define CUT_LEN 500

/** A segment of 10 octets in the header mbuf, 300 and 189 external ones, and one ordinary octet. */
static void
send_cut(uint64_t off)
{
	struct rte_mbuf *m = weft_tcp_alloc(app->c), *o = rte_pktmbuf_alloc(net_pool());

	CHECK(m != NULL && o != NULL);
	put(m, 200, off, 10);
	chain_add(m, ext_mbuf(ext_new(200, off + 10, 300, 1), 0, 300));
	chain_add(m, ext_mbuf(ext_new(200, off + 310, 189, 1), 0, 189));
	put(o, 200, off + 499, 1);
	chain_add(m, o);
	CHECK_EQ(weft_tcp_send(app->c, m, true, sim_now_ns(net.sim)), 0);
}

/**
 * The peer acknowledges the first `acked` octets. The rest is split after `len` more, and both
 * parts are sent. kept: a ring still holds the whole segment.
 */
static void
cut_once(uint32_t off, uint32_t acked, uint32_t len, bool kept)
{
	struct net_seg *s = net.node[1].segs;
	uint32_t seq = iss + 1 + off;

	net.node[0].tx_keep = kept ? 4 : 0;
	send_cut(off);
	run_for(100 * WEFT_NS_PER_US);
	CHECK_EQ(net.node[1].nsegs, 1);
	CHECK_EQ(s[0].len_bytes, CUT_LEN);
	if (acked > 0)
		seg_wait(TCP_ACK, IRS + 1, seq + acked, 65535, 0, 0);
	CHECK(tcp_sq_split(app->c, app->c->sq_head, (uint16_t)len));
	net.node[1].nsegs = 0;
	CHECK(tcp_xmit(app->c, app->c->sq_head, sim_now_ns(net.sim)));
	CHECK(tcp_xmit(app->c, tcp_seg(app->c->sq_head)->next, sim_now_ns(net.sim)));
	weft_netif_flush(net.node[0].nif, sim_now_ns(net.sim));
	run_for(100 * WEFT_NS_PER_US);
	CHECK_EQ(net.node[1].nsegs, 2);
	CHECK_EQ(s[0].h.seq, seq + acked);
	CHECK_EQ(s[0].len_bytes, len);
	CHECK_EQ(s[0].first, net_stream(200, off + acked));
	CHECK_EQ(s[0].bad, 0);
	CHECK_EQ(s[1].h.seq, seq + acked + len);
	CHECK_EQ(s[1].len_bytes, CUT_LEN - acked - len);
	CHECK_EQ(s[1].first, net_stream(200, off + acked + len));
	CHECK_EQ(s[1].bad, 0);
	/* Only the last part has PSH. */
	CHECK_EQ(s[0].h.flags & TCP_PSH, 0);
	CHECK_EQ(s[1].h.flags & TCP_PSH, TCP_PSH);
	seg_wait(TCP_ACK, IRS + 1, seq + CUT_LEN, 65535, 0, 0);
	CHECK_EQ(app->c->snd_segs, 0);
	CHECK(app->c->sq_head == NULL && app->c->sq_tail == NULL);
	net_unkeep(&net.node[0], 0);
	check_freed_once();
}

/** Split at every octet, inside every mbuf and between them. A part of it was acknowledged
 * before. */
static void
test_split(void)
{
	static const uint32_t acked[] = {0, 5, 10, 200, 310, 498};
	struct net_app as = {0};
	uint32_t off = 0;

	open_conn(NULL, &as);
	bufs_up();
	net.node[1].expect_key = 200;
	net.node[1].expect_seq = iss + 1;
	for (unsigned int k = 0; k < RTE_DIM(acked); k++)
		for (uint32_t len = 1; len < CUT_LEN - acked[k]; len += k == 0 ? 1 : 7) {
			cut_once(off, acked[k], len, len % 2 == 0);
			off += CUT_LEN;
		}
	CHECK(weft_tcp_stats(net.node[0].tcp)->segs_split > CUT_LEN);
	down();
}

/** The peer acknowledges any part of a segment: the rest is retransmitted from its first octet. */
static void
test_partial(void)
{
	struct net_seg *s = net.node[1].segs;
	struct net_app as = {0};

	open_conn(NULL, &as);
	bufs_up();
	net.node[1].expect_key = 200;
	net.node[1].expect_seq = iss + 1;
	for (uint32_t acked = 1, off = 0; acked < CUT_LEN;
	     acked += acked < 20 || acked > 490 ? 1 : 13, off += CUT_LEN) {
		uint32_t seq = iss + 1 + off;

		send_cut(off);
		run_for(100 * WEFT_NS_PER_US);
		CHECK_EQ(net.node[1].nsegs, 1);
		seg_wait(TCP_ACK, IRS + 1, seq + acked, 65535, 0, 0);
		run_for(1100 * WEFT_NS_PER_MS);
		CHECK(net.node[1].nsegs > 0);
		CHECK_EQ(s[0].h.seq, seq + acked);
		CHECK_EQ(s[0].len_bytes, CUT_LEN - acked);
		CHECK_EQ(s[0].first, net_stream(200, off + acked));
		CHECK_EQ(s[0].bad, 0);
		seg_wait(TCP_ACK, IRS + 1, seq + CUT_LEN, 65535, 0, 0);
	}
	check_freed_once();
	down();
}

/** The limit counts mbufs, not segments. */
static void
test_bound(void)
{
	struct weft_tcp_attr attr = {.max_snd_segs = 12};
	struct net_app as = {0};

	open_conn(&attr, &as);
	bufs_up();
	seg_wait(TCP_ACK, IRS + 1, iss + 1, 0, 0, 0);
	for (uint32_t i = 0; i < 3; i++) {
		CHECK_EQ(app->c->snd_segs, 4 * i);
		send_cut(i * CUT_LEN);
	}
	CHECK_EQ(app->c->snd_segs, 12);
	CHECK(weft_tcp_alloc(app->c) == NULL);
	CHECK_EQ(weft_tcp_send_space(app->c), 0);
	/* A partly acknowledged segment: its mbufs stay until all of it is acknowledged. */
	seg_wait(TCP_ACK, IRS + 1, iss + 1, 65535, 0, 0);
	seg_wait(TCP_ACK, IRS + 1, iss + 1 + CUT_LEN + 400, 65535, 0, 0);
	CHECK_EQ(app->c->snd_segs, 8);
	CHECK(weft_tcp_send_space(app->c) > 0);
	seg_wait(TCP_ACK, IRS + 1, iss + 1 + 3 * CUT_LEN, 65535, 0, 0);
	check_freed_once();
	down();
}

/** weft_tcp_begin() looks at the limits once for several segments. Whatever comes between two
 * calls, it gives a segment if and only if there is space. */
static void
test_begin(void)
{
	struct weft_tcp_attr attr = {.max_snd_segs = 24};
	struct net_app as = {0};
	uint64_t seed = test_seed(1), x = 2 * seed + 1;
	unsigned int none = 0;

	test_seed_note(seed);
	open_conn(&attr, &as);
	for (unsigned int i = 0; i < 4000; i++) {
		struct weft_tcp_conn *c = app->c;
		uint32_t space = weft_tcp_send_space(c), len = 1 + test_xorshift(&x) % (MSS - 3);
		struct rte_mbuf *m = weft_tcp_begin(c);
		bool push = test_xorshift(&x) % 4 == 0;

		CHECK_EQ(m != NULL, space > 0);
		none += m == NULL;
		if (m == NULL || test_xorshift(&x) % 32 == 0) {
			uint32_t flight = c->snd_nxt - c->snd_una;
			uint32_t acked = (uint32_t)(test_xorshift(&x) % (flight + 1));
			uint16_t wnd = (uint16_t)(test_xorshift(&x) % UINT16_MAX);

			rte_pktmbuf_free(m);
			seg_wait(TCP_ACK, IRS + 1, c->snd_una + acked, wnd, 0, 0);
			continue;
		}
		put(m, 1, 0, len);
		while (test_xorshift(&x) % 8 == 0 && m->nb_segs < 4) {
			struct rte_mbuf *o = rte_pktmbuf_alloc(net_pool());

			CHECK(o != NULL);
			put(o, 1, 0, 1);
			chain_add(m, o);
		}
		CHECK_EQ(weft_tcp_send(c, m, push, sim_now_ns(net.sim)), 0);
		CHECK(c->snd_segs <= 24 + 3);
	}
	CHECK(none > 100);
	down();
}

/** A peer that shrinks its window loses nothing (RFC 9293 s3.8.6). */
static void
test_window_shrink(void)
{
	const struct weft_tcp_stats *st;
	struct net_app as = {0};

	open_conn(NULL, &as);
	bufs_up();
	st = weft_tcp_stats(net.node[0].tcp);
	net.node[1].expect_key = 200;
	net.node[1].expect_seq = iss + 1;
	for (uint32_t i = 0; i < 4; i++)
		send_cut(i * CUT_LEN);
	run_for(WEFT_NS_PER_MS);
	CHECK_EQ(net.node[1].nsegs, 4);
	/* All segments are lost. The window now ends within the second one. */
	seg_wait(TCP_ACK, IRS + 1, iss + 1, 700, 0, 0);
	for (unsigned int i = 0; i < 60 && app->c->snd_una != iss + 1 + 4 * CUT_LEN; i++) {
		struct net_seg *s = &net.node[1].segs[0];
		uint32_t edge = app->c->snd_una + 700, una = app->c->snd_una;

		run_for(4 * WEFT_NS_PER_S);
		for (unsigned int k = 0; k < net.node[1].nsegs; k++) {
			CHECK_EQ(s[k].bad, 0);
			if (s[k].h.seq == una && weft_seq_leq(una + s[k].len_bytes, edge))
				una += s[k].len_bytes;
		}
		seg_wait(TCP_ACK, IRS + 1, una, 700, 0, 0);
	}
	CHECK_EQ(app->c->snd_una, iss + 1 + 4 * CUT_LEN);
	check_freed_once();
	/* Closed completely, then open: each is counted, and so is every probe. */
	CHECK_EQ(st->zero_windows_in, 0);
	seg_wait(TCP_ACK, IRS + 1, app->c->snd_una, 0, 0, 0);
	CHECK_EQ(st->zero_windows_in, 1);
	send_cut(4 * CUT_LEN);
	run_for(1500 * WEFT_NS_PER_MS);
	CHECK(st->zero_window_probes >= 2);
	CHECK_EQ(st->zero_window_probes, net.node[1].nsegs);
	CHECK_EQ(last().len_bytes, 1);
	CHECK_EQ(last().first, net_stream(200, 4 * CUT_LEN));
	seg_wait(TCP_ACK, IRS + 1, app->c->snd_una, 65535, 0, 0);
	seg_wait(TCP_ACK, IRS + 1, iss + 1 + 5 * CUT_LEN, 65535, 0, 0);
	CHECK_EQ(st->zero_windows_in, 1);
	check_freed_once();
	down();
}

WEFT_TEST_MAIN({"chains", test_chains}, {"chains_kept", test_chains_kept},
               {"chains_shrink", test_chains_shrink}, {"abort", test_abort},
               {"shared", test_shared}, {"split", test_split}, {"partial", test_partial},
               {"bound", test_bound}, {"begin", test_begin}, {"window_shrink", test_window_shrink})
