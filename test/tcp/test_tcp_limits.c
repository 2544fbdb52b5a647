/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Memory and time that a peer can take from one stack: the user timeout, the limits of
 * buffers in send queues and reassembly, half-open connections.
 */

#include <rte_malloc.h>
#include <rte_mempool.h>

#include "tcp_peer.h"
#include "tcp_conn.h"
#include "tcp_instance.h"
#include "weft_netif.h"

/** For `s` seconds, the peer acknowledges the first flight and keeps its window closed. */
static void
hold_window_shut(unsigned int s)
{
	uint32_t una = iss + 1 + 10 * MSS;

	for (unsigned int i = 0; i < 4 * s && !app->closed; i++) {
		seg(TCP_ACK, IRS + 1, una, 0, 0, 0);
		run_for(WEFT_NS_PER_S / 4);
	}
}

/** RFC 9293 s3.9.1, RFC 5482: a connection ends when its queued octets make no progress. */
static void
test_user_timeout(void)
{
	struct net_app as = {.to_send = 100000};
	struct weft_tcp_attr attr = {.user_timeout_us = 20000000}, keep = attr;
	const struct weft_tcp_stats *st;
	uint32_t una;

	/* A closed window: answers to keepalive probes are not progress. */
	keep.keepalive_us = 1000000;
	for (unsigned int i = 0; i < 2; i++) {
		open_conn(i == 0 ? &attr : &keep, &as);
		st = weft_tcp_stats(net.node[0].tcp);
		hold_window_shut(18);
		CHECK(!app->closed);
		hold_window_shut(4);
		CHECK(app->closed);
		CHECK_EQ(app->err, -ETIMEDOUT);
		CHECK_EQ(st->user_timeouts, 1);
		CHECK_EQ(last().h.flags, TCP_RST | TCP_ACK);
		net_check_idle(&net);
		down();
	}
	/* The default is RFC 9293's R2. */
	open_conn(NULL, &as);
	hold_window_shut(98);
	CHECK(!app->closed);
	hold_window_shut(4);
	CHECK_EQ(app->err, -ETIMEDOUT);
	down();
	/* A single octet now and then is progress. An empty queue needs none. */
	as.to_send = 12 * MSS;
	open_conn(&attr, &as);
	una = iss + 1 + 10 * MSS;
	seg_wait(TCP_ACK, IRS + 1, una, 0, 0, 0);
	for (unsigned int i = 0; i < 10; i++) {
		run_for(15 * WEFT_NS_PER_S);
		CHECK(!app->closed);
		seg_wait(TCP_ACK, IRS + 1, ++una, 0, 0, 0);
	}
	seg_wait(TCP_ACK, IRS + 1, una, 65535, 0, 0);
	seg_wait(TCP_ACK, IRS + 1, iss + 1 + 12 * MSS, 65535, 0, 0);
	run_for(100 * WEFT_NS_PER_S);
	CHECK(!app->closed);
	/* New data start their own time. */
	app->to_send += MSS;
	app->node->sched.now_ns = sim_now_ns(net.sim);
	net_app_push(app);
	run_for(15 * WEFT_NS_PER_S);
	CHECK(!app->closed);
	run_for(6 * WEFT_NS_PER_S);
	CHECK_EQ(app->err, -ETIMEDOUT);
	down();
	/* After close: data queued behind a closed window, and a FIN alone. */
	for (unsigned int i = 0; i < 2; i++) {
		as = (struct net_app){.to_send = i == 0 ? 40 * MSS : 10 * MSS,
		                      .close_when_sent = true};
		open_conn(&attr, &as);
		hold_window_shut(1);
		weft_tcp_close(app->c, sim_now_ns(net.sim));
		hold_window_shut(18);
		CHECK(!app->closed);
		CHECK_EQ(net_state(app), WEFT_TCP_FIN_WAIT_1);
		hold_window_shut(4);
		CHECK_EQ(app->err, -ETIMEDOUT);
		net_check_idle(&net);
		down();
	}
}

/** A port that accepts no frame, so that no retransmission timer runs. */
static void
test_user_timeout_port(void)
{
	struct weft_tcp_attr attr = {.user_timeout_us = 200000};
	struct rte_mbuf *m;

	open_conn(&attr, NULL);
	net.node[0].tx_stuck = true;
	for (unsigned int i = 0; i < WEFT_NETIF_TXQ; i++) {
		seg(TCP_ACK, IRS + 3, iss + 1, 65535, 2, 1); /* an ACK each */
		run_for(20 * WEFT_NS_PER_US);
	}
	CHECK_EQ(weft_netif_tx_room(net.node[0].nif), 0);
	CHECK_EQ(weft_tcp_send_space(app->c), 0);
	m = weft_tcp_alloc(app->c);
	rte_pktmbuf_append(m, 1);
	CHECK_EQ(weft_tcp_send(app->c, m, true, sim_now_ns(net.sim)), 0);
	run_for(190 * WEFT_NS_PER_MS);
	CHECK(!app->closed);
	CHECK_EQ(weft_tcp_stats(net.node[0].tcp)->rtos, 0);
	run_for(20 * WEFT_NS_PER_MS);
	CHECK_EQ(app->err, -ETIMEDOUT);
	net.node[1].raw = false; /* the test does not examine these segments */
	net.node[0].tx_stuck = false;
	run_for(WEFT_NS_PER_MS);
	down();
}

/** Send small segments into an open window. Returns the largest number of mbufs in use. */
static unsigned int
flood_small(unsigned int acks)
{
	unsigned int most = 0;

	for (unsigned int i = 0; i < acks && !app->closed; i++) {
		uint32_t flight = app->c->snd_max - app->c->snd_una;

		most = RTE_MAX(most, rte_mempool_in_use_count(net_pool()));
		seg(TCP_ACK, IRS + 1, app->c->snd_una + flight / 4 + 1, 65535, 0, 0);
		for (unsigned int k = 0; k < 20; k++)
			run_for(20 * WEFT_NS_PER_US);
	}
	return most;
}

/** Windows limit octets, but the pool has a limited number of buffers: small segments are
 * limited, too. */
static void
test_send_queue_bound(void)
{
	struct tcp_opts o = {.mss_bytes = MSS, .has_wscale = true, .wscale = 7};
	struct weft_tcp_attr attr = {0};
	unsigned int most[2];

	for (unsigned int i = 0; i < 2; i++) {
		attr.max_snd_segs = i == 0 ? 0 : 100;
		up(&attr);
		net.accept_as = (struct net_app){.to_send = 100000000, .max_seg = 88};
		syn(IRS, &o);
		iss = last().h.seq;
		seg_wait(TCP_ACK, IRS + 1, iss + 1, 65535, 0, 0);
		app = &net.app[0];
		most[i] = flood_small(400);
		CHECK(app->writables > 100); /* an ACK resumes a sender that met the limit */
		CHECK(app->c->snd_segs <= (i == 0 ? 2048u : 100u));
		CHECK_EQ(net.node[0].tcp->snd_segs, app->c->snd_segs);
		weft_tcp_abort(app->c, sim_now_ns(net.sim));
		CHECK_EQ(net.node[0].tcp->snd_segs, 0);
		app->c = NULL;
		net_run(&net, WEFT_NS_PER_MS, NULL, NULL);
		down();
	}
	CHECK(most[0] > 1500 && most[0] < 2048 + 300);
	CHECK(most[1] < 100 + 50);
}

/** All connections together are limited, and the last one still gets its share. */
static void
test_send_queue_total(void)
{
	struct weft_tcp_attr attr = {.max_snd_segs_total = 40};
	struct tcp_opts o = {.mss_bytes = MSS};
	struct tcp_hdr h;
	uint32_t most;

	up(&attr);
	net.accept_as = (struct net_app){.to_send = 30 * MSS};
	for (uint16_t i = 0; i < 8; i++) {
		h = (struct tcp_hdr){.src_port = PORT + i,
		                     .dst_port = 7,
		                     .seq = IRS,
		                     .wnd = 65535,
		                     .flags = TCP_SYN};
		net_raw(&net, &h, &o, 0, 0);
		run_for(20 * WEFT_NS_PER_US);
		h.flags = TCP_ACK;
		h.seq = IRS + 1;
		h.ack = last().h.seq + 1;
		net_raw(&net, &h, NULL, 0, 0);
		run_for(20 * WEFT_NS_PER_US);
	}
	CHECK_EQ(net.accepted, 8);
	app = &net.app[0];
	CHECK(app->c->snd_segs >= 10 && app->c->snd_segs <= 20);
	for (unsigned int i = 0; i < 8; i++)
		CHECK(net.app[i].c->snd_segs >= 1);
	CHECK(net.node[0].tcp->snd_segs <= 40);
	/* The first connection ends. The last one gets what it needs with its next ACK. */
	CHECK_EQ(net.app[7].writables, 0);
	most = net.app[7].c->snd_segs;
	weft_tcp_abort(app->c, sim_now_ns(net.sim));
	app->c = NULL;
	h.src_port = PORT + 7;
	h.ack = net.app[7].c->snd_max;
	net_raw(&net, &h, NULL, 0, 0);
	run_for(20 * WEFT_NS_PER_US);
	CHECK(net.app[7].writables > 0);
	CHECK(net.app[7].c->snd_segs > most);
	for (unsigned int i = 1; i < 8; i++)
		weft_tcp_abort(net.app[i].c, sim_now_ns(net.sim));
	CHECK_EQ(net.node[0].tcp->snd_segs, 0);
	down();
}

/** One-octet segments beyond a gap, in reverse order: buffers and steps are limited. */
static void
test_ooo_bound(void)
{
	struct tcp_opts o = {.mss_bytes = MSS, .has_wscale = true, .wscale = 7};
	struct weft_tcp_attr attr = {.max_ooo_mbufs = 200};
	const struct weft_tcp_stats *st;

	for (unsigned int k = 0; k < 2; k++) {
		unsigned int before, max = k == 0 ? 1024 : 200;

		up(k == 0 ? NULL : &attr);
		st = weft_tcp_stats(net.node[0].tcp);
		syn(IRS, &o);
		iss = last().h.seq;
		seg_wait(TCP_ACK, IRS + 1, iss + 1, 65535, 0, 0);
		app = &net.app[0];
		before = rte_mempool_in_use_count(net_pool());
		for (uint32_t i = 1500; i > 0; i--)
			seg_wait(TCP_ACK, IRS + 1 + 2 * i, iss + 1, 65535, 2 * i, 1);
		CHECK_EQ(rte_mempool_in_use_count(net_pool()) - before, max);
		CHECK_EQ(st->rx_ooo_dropped, 1500 - max);
		CHECK_EQ(net.node[0].tcp->ooo_mbufs, max);
		/* The gap is filled: every buffer is freed. */
		for (uint32_t i = 0; i < 3; i++)
			seg(TCP_ACK, IRS + 1 + 1000 * i, iss + 1, 65535, 1000 * i, 1001);
		run_for(20 * WEFT_NS_PER_US);
		CHECK_EQ(app->received, 3001);
		CHECK_EQ(net.node[0].tcp->ooo_mbufs, 0);
		CHECK_EQ(app->c->ooo_mbufs, 0);
		down();
	}
}

/** All connections together hold no more than the stack's limit. */
static void
test_ooo_total(void)
{
	struct weft_tcp_attr attr = {.max_ooo_mbufs_total = 64};
	struct tcp_opts o = {.mss_bytes = MSS};

	up(&attr);
	for (uint16_t i = 0; i < 8; i++) {
		struct tcp_hdr h = {
		        .src_port = PORT + i, .dst_port = 7, .seq = IRS, .flags = TCP_SYN};

		h.wnd = 65535;
		net_raw(&net, &h, &o, 0, 0);
		run_for(20 * WEFT_NS_PER_US);
		h.flags = TCP_ACK;
		h.seq = IRS + 1;
		h.ack = last().h.seq + 1;
		net_raw(&net, &h, NULL, 0, 0);
		for (uint32_t k = 1; k <= 60; k++) {
			h.seq = IRS + 1 + 2 * k;
			net_raw(&net, &h, NULL, 2 * k, 1);
		}
		run_for(20 * WEFT_NS_PER_US);
	}
	/* Each connection has an eighth, regardless of the order. */
	for (unsigned int i = 0; i < 8; i++)
		CHECK_EQ(net.app[i].c->ooo_mbufs, 8);
	CHECK_EQ(net.node[0].tcp->ooo_mbufs, 64);
	app = &net.app[0];
	down();
}

/** A flood of SYNs evicts half-open connections of the flood, and not later ones. */
static void
test_syn_flood(void)
{
	struct tcp_opts o = {.mss_bytes = MSS};
	const struct weft_tcp_stats *st;

	up(&(struct weft_tcp_attr){.syn_cookies = WEFT_TCP_COOKIES_NEVER});
	st = weft_tcp_stats(net.node[0].tcp);
	for (uint16_t i = 0; i < 100; i++) {
		struct tcp_hdr h = {.src_port = PORT + 1 + i, .dst_port = 7, .flags = TCP_SYN};

		net_raw(&net, &h, &o, 0, 0);
	}
	run_for(WEFT_NS_PER_MS);
	CHECK_EQ(st->conns_now, 16);
	CHECK_EQ(st->half_open_evicted, 84);
	syn(IRS, &o);
	CHECK_EQ(last().h.flags, TCP_SYN | TCP_ACK);
	seg_wait(TCP_ACK, IRS + 1, last().h.seq + 1, 65535, 0, 10);
	CHECK_EQ(net.accepted, 1);
	app = &net.app[0];
	CHECK_EQ(app->received, 10);
	/* The ACK for an evicted connection belongs to no connection. */
	net_raw(&net,
	        &(struct tcp_hdr){
	                .src_port = PORT + 1, .dst_port = 7, .seq = 1, .ack = 77, .flags = TCP_ACK},
	        NULL, 0, 0);
	run_for(20 * WEFT_NS_PER_US);
	CHECK_EQ(last().h.flags, TCP_RST);
	weft_tcp_unlisten(net.node[0].tcp, net.listener);
	CHECK_EQ(st->conns_now, 1);
	down();
}

/** In FIN-WAIT-2 nothing is queued: the connection stays while the peer sends. */
static void
test_user_timeout_half_close(void)
{
	struct net_app as = {.to_send = 10 * MSS, .close_when_sent = true};
	struct weft_tcp_attr attr = {.user_timeout_us = 20000000};
	uint32_t una;

	open_conn(&attr, &as);
	una = iss + 1 + 10 * MSS;
	seg_wait(TCP_ACK, IRS + 1, una, 65535, 0, 0);
	weft_tcp_close(app->c, sim_now_ns(net.sim));
	run_for(WEFT_NS_PER_S);
	seg_wait(TCP_ACK, IRS + 1, una + 1, 65535, 0, 0);
	CHECK_EQ(net_state(app), WEFT_TCP_FIN_WAIT_2);
	for (unsigned int i = 0; i < 30 && !app->closed; i++) {
		seg(TCP_ACK, IRS + 1 + i * 100, una + 1, 65535, i * 100, 100);
		run_for(WEFT_NS_PER_S);
	}
	CHECK(!app->closed);
	down();
}

/** The allocated heap in octets. */
static uint64_t
heap_bytes(void)
{
	struct rte_malloc_socket_stats s;
	uint64_t n = 0;

	for (unsigned int i = 0; i < rte_socket_count(); i++)
		if (rte_malloc_get_socket_stats(rte_socket_id_by_idx(i), &s) == 0)
			n += s.heap_allocsz_bytes;
	return n;
}

/** The stated size of a connection is at least the memory it takes, and not much more. */
static void
test_conn_bytes(void)
{
	static const uint32_t conns[] = {1000, 1024, 1025, 2000, 3000, 4096};
	uint64_t none, before;
	struct weft_tcp *t;

	up(NULL);
	for (unsigned int i = 0; i < RTE_DIM(conns); i++) {
		double per;

		before = heap_bytes();
		CHECK_EQ(weft_tcp_create(&(struct weft_tcp_attr){.max_conns = 2},
		                         &net.node[0].sched, &t),
		         0);
		none = heap_bytes() - before;
		weft_tcp_destroy(t);
		CHECK_EQ(weft_tcp_create(&(struct weft_tcp_attr){.max_conns = conns[i]},
		                         &net.node[0].sched, &t),
		         0);
		per = (double)(heap_bytes() - before - none) / conns[i];
		weft_tcp_destroy(t);
		CHECK_MSG(per <= (double)weft_tcp_conn_bytes() &&
		                  per >= (double)weft_tcp_conn_bytes() * 0.9,
		          "%u: %.1f, not %zu", conns[i], per, weft_tcp_conn_bytes());
		CHECK_EQ(heap_bytes(), before);
	}
	net_down(&net);
}

WEFT_TEST_MAIN({"conn_bytes", test_conn_bytes}, {"user_timeout", test_user_timeout},
               {"user_timeout_half_close", test_user_timeout_half_close},
               {"user_timeout_port", test_user_timeout_port},
               {"send_queue_bound", test_send_queue_bound},
               {"send_queue_total", test_send_queue_total}, {"ooo_bound", test_ooo_bound},
               {"ooo_total", test_ooo_total}, {"syn_flood", test_syn_flood})
