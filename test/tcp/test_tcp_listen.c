/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Admission of connections: SYN cookies (RFC 4987 s3.6) and the options that they preserve, a
 * SYN flood beside a legitimate client, and limits per peer, per second and in all.
 */

#include <arpa/inet.h>

#include "tcp_peer.h"
#include "tcp_conn.h"
#include "tcp_defend.h"
#include "weft_netif_neigh.h"
#include "weft_netif_mbuf.h"
#include "weft_netif.h"

static const struct weft_tcp_stats *st;

static void
listen_up(const struct weft_tcp_attr *attr)
{
	up(attr);
	st = weft_tcp_stats(net.node[0].tcp);
}

static void
turn(void)
{
	run_for(20 * WEFT_NS_PER_US);
}

/** Send a segment from this port of the peer. */
static void
from(uint16_t port, uint8_t flags, uint32_t seq, uint32_t ack, const struct tcp_opts *o,
     uint32_t len)
{
	struct tcp_hdr h = {.src_port = port,
	                    .dst_port = 7,
	                    .seq = seq,
	                    .ack = ack,
	                    .wnd = 10000,
	                    .flags = flags};

	net_raw(&net, &h, o, 0, len);
}

/** Send a SYN, and the ACK of its answer. Returns whether the connection was accepted. */
static bool
handshake(uint16_t port)
{
	unsigned int before = net.accepted;

	from(port, TCP_SYN, IRS, 0, NULL, 0);
	turn();
	if (net.node[1].nsegs == 0)
		return false;
	CHECK_EQ(last().h.flags, TCP_SYN | TCP_ACK);
	from(port, TCP_ACK, IRS + 1, last().h.seq + 1, NULL, 0);
	turn();
	return net.accepted > before;
}

/** A cookie preserves all options with timestamps, and only the MSS without them. */
static void
test_cookie_options(void)
{
	static const uint16_t mss[][2] = {{0, 536},     {300, 64},    {536, 536},
	                                  {1000, 536},  {1220, 1220}, {1420, 1400},
	                                  {1440, 1440}, {1460, 1460}, {9000, 1460}};
	struct weft_tcp_attr attr = {.syn_cookies = WEFT_TCP_COOKIES_ALWAYS};
	struct weft_tcp_info info;

	for (unsigned int i = 0; i < RTE_DIM(mss); i++) {
		struct tcp_opts o = {.mss_bytes = mss[i][0], .has_wscale = true, .wscale = 3};

		o.sack_perm = true;
		listen_up(&attr);
		from(PORT, TCP_SYN, IRS, 0, &o, 0);
		turn();
		CHECK_EQ(last().h.flags, TCP_SYN | TCP_ACK);
		CHECK_EQ(last().h.ack, IRS + 1);
		CHECK_EQ(last().opts.mss_bytes, MSS);
		CHECK(!last().opts.has_wscale && !last().opts.sack_perm && !last().opts.has_ts);
		CHECK_EQ(st->conns_now, 0);
		from(PORT, TCP_ACK, IRS + 1, last().h.seq + 1, NULL, 100);
		turn();
		CHECK_EQ(net.accepted, 1);
		app = &net.app[0];
		CHECK_EQ(app->received, 100);
		CHECK_EQ(weft_tcp_mss(app->c), mss[i][1]);
		weft_tcp_info(app->c, &info);
		CHECK_EQ(info.snd_wnd_bytes, 10000);
		down();
	}
	for (unsigned int i = 0; i < 64; i++) {
		const uint8_t ask = i & 2 ? TCP_ECE | TCP_CWR : 0;
		struct tcp_opts o = {.mss_bytes = MSS,
		                     .has_ts = true,
		                     .ts_val = 7777,
		                     .sack_perm = i & 1,
		                     .has_wscale = i >= 4,
		                     .wscale = (uint8_t)RTE_MIN(i / 4, 14u)},
		                ts = {.has_ts = true, .ts_val = 7780};

		listen_up(&attr);
		from(PORT, TCP_SYN | ask, IRS, 0, &o, 0);
		turn();
		CHECK_EQ(last().h.flags, TCP_SYN | TCP_ACK | (i & 2 ? TCP_ECE : 0));
		CHECK_EQ(last().opts.sack_perm, i & 1);
		CHECK_EQ(last().opts.has_wscale, i >= 4);
		CHECK(last().opts.has_ts);
		CHECK_EQ(last().opts.ts_ecr, 7777);
		ts.ts_ecr = last().opts.ts_val;
		from(PORT, TCP_ACK, IRS + 1, last().h.seq + 1, &ts, 0);
		turn();
		CHECK_EQ(net.accepted, 1);
		app = &net.app[0];
		weft_tcp_info(app->c, &info);
		CHECK_EQ(info.sack, i & 1);
		CHECK_EQ(info.ecn, (i & 2) != 0);
		CHECK(info.timestamps);
		CHECK_EQ(info.snd_wnd_bytes, 10000u << (i >= 4 ? o.wscale : 0));
		CHECK_EQ(info.rcv_wscale, i >= 4 ? 5 : 0);
		CHECK_EQ(weft_tcp_mss(app->c), MSS - 12);
		/* The timestamp clock of the connection does not go back. */
		app->node->sched.now_ns = sim_now_ns(net.sim);
		app->to_send = 10;
		net_app_push(app);
		turn();
		CHECK(!weft_seq_lt(last().opts.ts_val, ts.ts_ecr));
		CHECK_EQ(last().opts.ts_ecr, 7780);
		down();
	}
}

/** ACKs with a wrong cookie, an old one, or one for another connection. */
static void
test_cookie_bad(void)
{
	struct weft_tcp_attr attr = {.syn_cookies = WEFT_TCP_COOKIES_ALWAYS};
	const struct weft_tcp *t;
	uint32_t cookie;

	listen_up(&attr);
	/* begin at the start of a slot */
	t = net.node[0].tcp;
	while (tcp_cookie_slot(t, sim_now_ns(net.sim)) ==
	       tcp_cookie_slot(t, sim_now_ns(net.sim) - WEFT_NS_PER_S))
		run_for(WEFT_NS_PER_S);
	/* No cookie was sent, so no ACK is checked for one. */
	from(PORT, TCP_ACK, IRS + 1, 12345, NULL, 0);
	turn();
	CHECK_EQ(last().h.flags, TCP_RST);
	CHECK_EQ(st->syn_cookies_bad, 0);
	from(PORT, TCP_SYN, IRS, 0, NULL, 0);
	turn();
	cookie = last().h.seq;
	from(PORT, TCP_ACK, IRS + 1, cookie + 2, NULL, 0);
	from(PORT, TCP_ACK, IRS + 2, cookie + 1, NULL, 0);
	from(PORT + 1, TCP_ACK, IRS + 1, cookie + 1, NULL, 0);
	from(PORT, TCP_ACK, IRS + 1, (cookie ^ 1u << 28) + 1, NULL, 0);
	from(PORT, TCP_ACK, IRS + 1, (cookie ^ 1u << 31) + 1, NULL, 0);
	/* A timestamp echo that was not in the SYN-ACK: its bits are part of the hash. */
	from(PORT, TCP_ACK, IRS + 1, cookie + 1, &(struct tcp_opts){.has_ts = true, .ts_ecr = 63},
	     0);
	turn();
	CHECK_EQ(st->syn_cookies_bad, 6);
	CHECK_EQ(net.node[1].nsegs, 6);
	for (unsigned int i = 0; i < 6; i++)
		CHECK_EQ(net.node[1].segs[i].h.flags, TCP_RST);
	CHECK_EQ(net.accepted, 0);
	/* A repeated SYN of the same connection gets the same cookie within a slot. */
	from(PORT, TCP_SYN, IRS, 0, NULL, 0);
	turn();
	CHECK_EQ(last().h.seq, cookie);
	run_for(70 * WEFT_NS_PER_S);
	from(PORT, TCP_SYN, IRS, 0, NULL, 0);
	turn();
	CHECK((last().h.seq ^ cookie) >> 31 == 1);
	/* A cookie of the previous slot is valid. An older one is not. */
	from(PORT, TCP_ACK, IRS + 1, cookie + 1, NULL, 0);
	turn();
	CHECK_EQ(net.accepted, 1);
	CHECK_EQ(st->syn_cookies_ok, 1);
	app = &net.app[0];
	from(PORT, TCP_RST, IRS + 1, 0, NULL, 0);
	run_for(70 * WEFT_NS_PER_S);
	from(PORT, TCP_SYN, IRS, 0, NULL, 0);
	from(PORT, TCP_ACK, IRS + 1, cookie + 1, NULL, 0);
	turn();
	CHECK_EQ(net.accepted, 1);
	CHECK_EQ(st->syn_cookies_bad, 7);
	/* When no cookie can be valid any longer, ACKs are not counted as failed cookies. */
	run_for(200 * WEFT_NS_PER_S);
	from(PORT, TCP_ACK, IRS + 1, cookie + 1, NULL, 0);
	turn();
	CHECK_EQ(st->syn_cookies_bad, 7);
	down();
}

/** RFC 4987: thousands of SYNs without a third segment, and a legitimate client. */
static void
test_flood(void)
{
	static const enum weft_tcp_cookies mode[] = {
	        WEFT_TCP_COOKIES_DEFAULT, WEFT_TCP_COOKIES_AUTO, WEFT_TCP_COOKIES_ALWAYS};

	for (unsigned int i = 0; i < RTE_DIM(mode); i++) {
		struct weft_tcp_attr attr = {.syn_cookies = mode[i], .max_conns = 64};
		struct tcp_opts o = {.mss_bytes = MSS, .sack_perm = true, .has_ts = true};
		uint32_t total = 0;

		listen_up(&attr);
		for (unsigned int k = 0; k < 6000; k++) {
			from((uint16_t)(10000 + k), TCP_SYN, k * 77, 0, NULL, 0);
			if (k % 30 == 29)
				turn();
			if (k != 4000)
				continue;
			from(PORT, TCP_SYN, IRS, 0, &o, 0);
			turn();
			o.ts_ecr = last().opts.ts_val;
			iss = last().h.seq;
			CHECK_EQ(last().h.dst_port, PORT);
		}
		/* Long enough that a backlog would have been replaced a hundred times. */
		from(PORT, TCP_ACK, IRS + 1, iss + 1, &o, 100);
		turn();
		CHECK_EQ(net.accepted, 1);
		app = &net.app[0];
		CHECK_EQ(app->received, 100);
		total = st->half_open_now + st->syn_cookies_out;
		CHECK_EQ(st->syns_in, 6001);
		CHECK_EQ(total, 6001);
		CHECK_EQ(st->half_open_evicted, 0);
		CHECK_EQ(st->half_open_now,
		         mode[i] == WEFT_TCP_COOKIES_ALWAYS ? 0u : 16u); /* max_conns / 4 */
		run_for(200 * WEFT_NS_PER_S);
		CHECK_EQ(st->half_open_now, 0);
		CHECK_EQ(st->conns_now, 1);
		down();
	}
}

/** With max_conns open connections, neither cookies nor eviction make room. */
static void
test_full(void)
{
	struct weft_tcp_attr attr = {.max_conns = 4, .max_half_open = 4};
	uint32_t ack[2];

	for (unsigned int i = 0; i < 2; i++) {
		attr.syn_cookies = i == 0 ? WEFT_TCP_COOKIES_NEVER : WEFT_TCP_COOKIES_AUTO;
		listen_up(&attr);
		for (uint16_t k = 0; k < 4; k++)
			CHECK(handshake(PORT + k));
		CHECK(!handshake(PORT + 4));
		CHECK_EQ(st->conn_limit, 1);
		CHECK_EQ(st->syns_dropped_full, 1);
		app = &net.app[0];
		down();
	}
	/* Nor for a cookie that was sent while there was room. */
	listen_up(&(struct weft_tcp_attr){.max_conns = 1, .syn_cookies = WEFT_TCP_COOKIES_ALWAYS});
	for (uint16_t k = 0; k < 2; k++) {
		from(PORT + k, TCP_SYN, IRS, 0, NULL, 0);
		turn();
		ack[k] = last().h.seq + 1;
	}
	for (uint16_t k = 0; k < 2; k++) {
		from(PORT + k, TCP_ACK, IRS + 1, ack[k], NULL, 0);
		turn();
		CHECK_EQ(st->syn_cookies_ok, k + 1);
		CHECK_EQ(net.accepted, 1);
		CHECK_EQ(st->conn_limit, k);
		CHECK_EQ(st->syns_dropped_full, k);
	}
	app = &net.app[0];
	down();
	/* Half-open connections are evicted, those of another listener, too. */
	attr.syn_cookies = WEFT_TCP_COOKIES_NEVER;
	listen_up(&attr);
	for (uint16_t k = 0; k < 4; k++)
		from(PORT + k, TCP_SYN, 1, 0, NULL, 0);
	turn();
	CHECK_EQ(st->half_open_now, 4);
	CHECK(handshake(PORT + 9));
	CHECK_EQ(st->half_open_evicted, 1);
	CHECK_EQ(st->half_open_now, 3);
	app = &net.app[0];
	down();
}

static void
test_per_peer(void)
{
	struct weft_tcp_attr attr = {.max_conns_per_peer = 3};

	for (unsigned int i = 0; i < 2; i++) {
		attr.syn_cookies = i == 0 ? WEFT_TCP_COOKIES_AUTO : WEFT_TCP_COOKIES_ALWAYS;
		listen_up(&attr);
		for (uint16_t k = 0; k < 3; k++)
			CHECK(handshake(PORT + k));
		CHECK(!handshake(PORT + 3));
		CHECK_EQ(st->syns_dropped_peer, 1);
		/* A new connection is admitted after one has ended. Connections that we opened
		 * do not count. */
		from(PORT, TCP_RST, IRS + 1, 0, NULL, 0);
		turn();
		CHECK(net.app[0].closed);
		CHECK(handshake(PORT + 4));
		CHECK(!handshake(PORT + 5));
		CHECK_EQ(st->syns_dropped_peer, 2);
		net_connect(&net, 0, PORT);
		turn();
		CHECK_EQ(last().h.flags & TCP_SYN, TCP_SYN);
		app = &net.app[1];
		down();
	}
	/* Half-open connections count. */
	listen_up(&(struct weft_tcp_attr){.max_conns_per_peer = 2,
	                                  .syn_cookies = WEFT_TCP_COOKIES_NEVER});
	for (uint16_t k = 0; k < 4; k++)
		from(PORT + k, TCP_SYN, 1, 0, NULL, 0);
	turn();
	CHECK_EQ(st->half_open_now, 2);
	CHECK_EQ(st->syns_dropped_peer, 2);
	net_down(&net);
	/* But they do not count against a client that answers a cookie. */
	listen_up(&(struct weft_tcp_attr){.max_conns_per_peer = 2});
	for (uint16_t k = 0; k < 2; k++)
		from(PORT + k, TCP_SYN, 1, 0, NULL, 0);
	turn();
	for (uint16_t k = 2; k < 4; k++) {
		CHECK(handshake(PORT + k));
		CHECK_EQ(st->syn_cookies_ok, k - 1);
		CHECK_EQ(st->half_open_now, 3 - k);
		CHECK_EQ(st->conns_now, 2);
	}
	CHECK(!handshake(PORT + 4));
	CHECK_EQ(st->syns_dropped_peer, 1);
	app = &net.app[0];
	down();
}

/** Cookies are sent without a reserved place. The second client that answers finds the share of
 * its address used. */
static void
test_per_peer_cookies(void)
{
	uint32_t ack[2];

	listen_up(&(struct weft_tcp_attr){.max_conns_per_peer = 1,
	                                  .syn_cookies = WEFT_TCP_COOKIES_ALWAYS});
	for (uint16_t k = 0; k < 2; k++) {
		from(PORT + k, TCP_SYN, IRS, 0, NULL, 0);
		turn();
		CHECK_EQ(last().h.flags, TCP_SYN | TCP_ACK);
		ack[k] = last().h.seq + 1;
	}
	for (uint16_t k = 0; k < 2; k++) {
		from(PORT + k, TCP_ACK, IRS + 1, ack[k], NULL, 0);
		turn();
		CHECK_EQ(st->syn_cookies_ok, k + 1);
		CHECK_EQ(st->syns_dropped_peer, k);
		CHECK_EQ(net.accepted, 1);
	}
	app = &net.app[0];
	down();
}

/** By default an address has half of max_conns, and not one more. */
static void
test_per_peer_default(void)
{
	static const uint32_t max[][2] = {{64, 32}, {20, 10}, {16, 8}, {12, 8}, {8, 8}, {2, 2}};

	for (unsigned int i = 0; i < RTE_DIM(max); i++) {
		listen_up(&(struct weft_tcp_attr){.max_conns = max[i][0],
		                                  .syn_cookies = WEFT_TCP_COOKIES_ALWAYS});
		for (uint16_t k = 0; k < max[i][1]; k++)
			CHECK(handshake(PORT + k));
		CHECK_EQ(st->syns_dropped_peer + st->syns_dropped_full, 0);
		CHECK(!handshake(PORT + 100));
		CHECK_EQ(st->syns_dropped_peer, max[i][1] < max[i][0]);
		CHECK_EQ(st->syns_dropped_full, max[i][1] == max[i][0]);
		app = &net.app[0];
		down();
	}
}

/** An IPv6 /64 counts as one address. All link-local addresses of a link count as one. */
static void
test_per_peer_v6(void)
{
	static const struct {
		const char *a, *b;
		bool same;
	} pairs[] = {
	        {"2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", true},
	        {"2001:db8::1", "2001:db8:0:1::1", false},
	        {"fe80::1", "fe80::2", true},
	        {"fe80::1", "fe80:0:0:1::1", true},
	        {"fe80::1", "febf::2", true},
	        {"fe80::1", "fec0::1", false},
	        {"::ffff:10.0.0.1", "::ffff:10.0.0.2", false},
	        {"::ffff:10.0.0.1", "::ffff:10.0.0.1", true},
	};
	static struct weft_tcp_conn c[2];

	listen_up(&(struct weft_tcp_attr){.max_conns_per_peer = 2});
	for (unsigned int i = 0; i < RTE_DIM(pairs); i++) {
		for (unsigned int k = 0; k < 2; k++) {
			c[k].t = net.node[0].tcp;
			CHECK_EQ(inet_pton(AF_INET6, k == 0 ? pairs[i].a : pairs[i].b,
			                   c[k].remote.b),
			         1);
			tcp_peer_count(&c[k]);
		}
		for (unsigned int k = 0; k < 2; k++)
			CHECK_MSG((tcp_peer_room(c[k].t, net.node[0].nif, &c[k].remote) ==
			           TCP_PEER_FULL) == pairs[i].same,
			          "%s and %s", pairs[i].a, pairs[i].b);
		for (unsigned int k = 0; k < 2; k++) {
			tcp_peer_uncount(&c[k]);
			CHECK_EQ(tcp_peer_room(c[k].t, net.node[0].nif, &c[k].remote),
			         TCP_PEER_ROOM);
		}
	}
	app = NULL;
	net_down(&net);
}

/** Limits that change while the instance runs. Those that the change does not name stay. */
static void
test_changed(void)
{
	struct weft_tcp_attr attr = {.max_accepts_per_s = 2};
	struct weft_tcp_change change = {.max_accepts_per_s = 4};

	listen_up(&attr);
	run_for(2 * WEFT_NS_PER_S);
	CHECK(handshake(PORT) && handshake(PORT + 1) && !handshake(PORT + 2));
	weft_tcp_change(net.node[0].tcp, &change);
	CHECK(handshake(PORT + 3) && handshake(PORT + 4) && !handshake(PORT + 5));
	change = (struct weft_tcp_change){.max_time_wait = 3};
	weft_tcp_change(net.node[0].tcp, &change);
	CHECK(!handshake(PORT + 6));
	change = (struct weft_tcp_change){.max_accepts_per_s = UINT32_MAX};
	weft_tcp_change(net.node[0].tcp, &change);
	for (uint16_t k = 7; k < 17; k++)
		CHECK(handshake(PORT + k));
	app = &net.app[0];
	down();
}

static void
test_per_second(void)
{
	struct weft_tcp_attr attr = {.max_accepts_per_s = 5};
	uint32_t seq[8];

	listen_up(&attr);
	run_for(2 * WEFT_NS_PER_S);
	for (uint16_t k = 0; k < 5; k++)
		CHECK(handshake(PORT + k));
	CHECK(!handshake(PORT + 5));
	CHECK_EQ(st->syns_dropped_rate, 1);
	run_for(WEFT_NS_PER_S);
	CHECK(handshake(PORT + 5));
	CHECK_EQ(net.accepted, 6);
	/* Many half-open connections at once: the limit holds for their third segments, too. */
	run_for(2 * WEFT_NS_PER_S);
	for (uint16_t k = 0; k < 8; k++) {
		from(PORT + 10 + k, TCP_SYN, IRS, 0, NULL, 0);
		turn();
		seq[k] = last().h.seq;
	}
	for (uint16_t k = 0; k < 8; k++)
		from(PORT + 10 + k, TCP_ACK, IRS + 1, seq[k] + 1, NULL, 0);
	turn();
	CHECK_EQ(net.accepted, 11);
	/* Our SYN-ACK is repeated, and the ACK of it is accepted. */
	run_for(1500 * WEFT_NS_PER_MS);
	CHECK_EQ(net.node[1].nsegs, 3);
	for (uint16_t k = 5; k < 8; k++)
		from(PORT + 10 + k, TCP_ACK, IRS + 1, seq[k] + 1, NULL, 0);
	turn();
	CHECK_EQ(net.accepted, 14);
	app = &net.app[0];
	down();
	/* The same for connections from cookies. A dropped third segment is repeated and
	 * accepted. */
	attr = (struct weft_tcp_attr){.max_accepts_per_s = 2,
	                              .syn_cookies = WEFT_TCP_COOKIES_ALWAYS};
	listen_up(&attr);
	run_for(2 * WEFT_NS_PER_S);
	for (uint16_t k = 0; k < 3; k++) {
		from(PORT + k, TCP_SYN, IRS, 0, NULL, 0);
		turn();
		seq[k] = last().h.seq;
	}
	for (uint16_t k = 0; k < 3; k++)
		from(PORT + k, TCP_ACK, IRS + 1, seq[k] + 1, NULL, 0);
	turn();
	CHECK_EQ(net.accepted, 2);
	CHECK_EQ(st->syns_dropped_rate, 1);
	run_for(1100 * WEFT_NS_PER_MS);
	from(PORT + 2, TCP_ACK, IRS + 1, seq[2] + 1, NULL, 0);
	turn();
	CHECK_EQ(net.accepted, 3);
	app = &net.app[0];
	down();
}

/** Send a segment of another address that belongs to no connection. */
static void
from_other(unsigned int i)
{
	const struct tcp_hdr h = {.src_port = PORT, .dst_port = 7, .ack = 2, .flags = TCP_ACK};
	struct net_node *nd = &net.node[1];
	struct weft_ip src = net_ip(100 + i), dst = net_ip(0);
	struct rte_mbuf *m = weft_netif_alloc(nd->nif, 128);

	CHECK(m != NULL);
	if (nd->raw_neigh == NULL)
		CHECK_EQ(weft_netif_neigh_get(nd->nif, NULL, &dst, &nd->raw_neigh), 0);
	tcp_wire_encode((uint8_t *)rte_pktmbuf_append(m, TCP_HDR_LEN),
	                &(struct tcp_hdr){.src_port = h.src_port,
	                                  .dst_port = h.dst_port,
	                                  .ack = h.ack,
	                                  .flags = h.flags,
	                                  .hdr_len_bytes = TCP_HDR_LEN});
	CHECK_EQ(weft_netif_tx(nd->nif, nd->raw_neigh, &src, &dst, m, (struct weft_netif_tx_how){0},
	                       sim_now_ns(net.sim)),
	         0);
	weft_netif_flush(nd->nif, sim_now_ns(net.sim));
}

/** Returns the number of RSTs that a peer gets for segments of no connection, while other peers
 * send `others` such segments. */
static unsigned int
resets(unsigned int others, uint64_t *limited)
{
	struct weft_tcp_attr attr = {.resets_per_s = 160};
	unsigned int n = 0;

	listen_up(&attr);
	run_for(2 * WEFT_NS_PER_S - sim_now_ns(net.sim) % WEFT_NS_PER_S);
	for (unsigned int i = 0; i < 60; i++) {
		from(PORT, TCP_ACK, 1, 2, NULL, 0);
		for (unsigned int k = 0; k < others; k++)
			from_other(k);
		turn();
		n += net.node[1].nsegs;
	}
	*limited = st->resets_limited;
	down();
	return n;
}

/** RFC 9293 s3.10.7.4: the RSTs sent to one peer do not reveal how many others were sent. */
static void
test_resets_of_others(void)
{
	uint64_t alone, with;
	unsigned int n = resets(0, &alone);

	CHECK_MSG(n >= 10 && n < 30 && alone == 60 - n, "%u, limited %u", n, (unsigned int)alone);
	CHECK_EQ(resets(1, &with), n);
	CHECK(with > alone + 60 - 30);
	CHECK_EQ(resets(2, &with), n);
}

/** RFC 5961 s7, and the limit of RSTs for segments of no connection. */
static void
test_answers_per_second(void)
{
	struct weft_tcp_attr attr = {.challenge_acks_per_s = 8, .resets_per_s = 48};
	unsigned int n = 0;

	listen_up(&attr);
	run_for(2 * WEFT_NS_PER_S);
	for (unsigned int i = 0; i < 20; i++)
		from(PORT, TCP_ACK, 1, 2, NULL, 0);
	turn();
	/* The share of one peer is six: between half and one and a half of it are sent. */
	CHECK(net.node[1].nsegs >= 3 && net.node[1].nsegs < 9);
	CHECK_EQ(st->resets_limited, 20 - net.node[1].nsegs);
	for (uint16_t k = 0; k < 10; k++)
		CHECK(handshake(PORT + k));
	for (unsigned int i = 0; i < 100; i++)
		from(PORT + i % 10, TCP_SYN, IRS + 10, 0, NULL, 0);
	turn();
	n = net.node[1].nsegs;
	/* Between half and one and a half of the limit, so a peer cannot count on the number. */
	CHECK(n >= 4 && n <= 12);
	CHECK_EQ(st->challenge_acks, n);
	CHECK_EQ(st->challenge_acks_limited, 100 - n);
	run_for(WEFT_NS_PER_S);
	from(PORT, TCP_SYN, IRS + 10, 0, NULL, 0);
	turn();
	CHECK_EQ(st->challenge_acks, n + 1);
	/* Data outside the window: beyond a hundred answers, one ACK is sent a little later for
	 * all. */
	for (unsigned int i = 0; i < 150; i++) {
		from(PORT, TCP_ACK, IRS - 1000, iss + 1, NULL, 100);
		turn();
	}
	CHECK_EQ(st->stray_acks_late, 50);
	n = (unsigned int)st->segs_out;
	run_for(100 * WEFT_NS_PER_MS);
	CHECK_EQ(st->segs_out, n + 1);
	app = &net.app[0];
	down();
}

static int
no_accept(void *arg, struct weft_tcp_conn *c)
{
	(void)c;
	++*(unsigned int *)arg;
	return -ECONNREFUSED;
}

/**
 * RFC 9293 s3.9.1.1: a listener of one address gets the segments for that address, and no others. A
 * port may have several listeners if each has an address of its own. A listener of any address
 * excludes all others.
 */
static void
test_addresses(void)
{
	struct weft_ip ours = net_ip(0), other = weft_ip_from_v4(RTE_BE32(0x0a000063)), any = {0};
	struct weft_tcp_listener *l[3];
	unsigned int asked[3] = {0};
	struct tcp_hdr h = {.src_port = PORT, .seq = IRS, .wnd = 10000};
	struct weft_tcp *t;

	up(NULL);
	t = net.node[0].tcp;
	CHECK_EQ(weft_tcp_listen(t, &ours, 128, 9, 8, no_accept, &asked[0], &l[0]), 0);
	CHECK_EQ(weft_tcp_listen(t, &other, 128, 9, 8, no_accept, &asked[1], &l[1]), 0);
	CHECK_EQ(weft_tcp_listen(t, &other, 128, 10, 8, no_accept, &asked[2], &l[2]), 0);
	/* net_listen() listens on any address of port 7. */
	CHECK_EQ(weft_tcp_listen(t, &ours, 128, 9, 8, no_accept, NULL, &l[0]), -EADDRINUSE);
	CHECK_EQ(weft_tcp_listen(t, &any, 128, 9, 8, no_accept, NULL, &l[0]), -EADDRINUSE);
	CHECK_EQ(weft_tcp_listen(t, &ours, 128, 7, 8, no_accept, NULL, &l[0]), -EADDRINUSE);
	for (uint16_t port = 9; port <= 10; port++) {
		h.dst_port = port;
		h.seq = IRS;
		h.flags = TCP_SYN;
		net_raw(&net, &h, NULL, 0, 0);
		turn();
		CHECK_EQ(last().h.flags, port == 9 ? TCP_SYN | TCP_ACK : TCP_RST | TCP_ACK);
		if (port == 10)
			break;
		h.flags = TCP_ACK;
		h.seq = IRS + 1;
		h.ack = last().h.seq + 1;
		net_raw(&net, &h, NULL, 0, 0);
		turn();
	}
	CHECK_EQ(asked[0], 1);
	CHECK_EQ(asked[1] + asked[2], 0);
	for (unsigned int i = 0; i < 3; i++)
		weft_tcp_unlisten(t, l[i]);
	/* An address and port that are free again may be used, also as any address. */
	CHECK_EQ(weft_tcp_listen(t, &any, 128, 9, 8, no_accept, NULL, &l[0]), 0);
	weft_tcp_unlisten(t, l[0]);
	net_down(&net);
}

WEFT_TEST_MAIN({"addresses", test_addresses}, {"cookie_options", test_cookie_options},
               {"cookie_bad", test_cookie_bad}, {"flood", test_flood}, {"full", test_full},
               {"per_peer", test_per_peer}, {"per_peer_cookies", test_per_peer_cookies},
               {"per_peer_default", test_per_peer_default}, {"per_peer_v6", test_per_peer_v6},
               {"per_second", test_per_second}, {"limits changed while it runs", test_changed},
               {"answers_per_second", test_answers_per_second},
               {"resets_of_others", test_resets_of_others})
