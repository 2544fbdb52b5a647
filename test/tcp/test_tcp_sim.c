/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Two stacks over a hostile link: every octet arrives in order, and nothing leaks. */

#include <inttypes.h>

#include "tcp_net.h"
#include "weft_netif_stats.h"
#include "../../lib/netif/netif_priv.h"

static struct net net;

/** One connection with `up` octets to node 1 and `down` back, closed in order. */
static void
transfer(uint64_t seed, const struct sim_link_cfg cfg[2], const struct weft_tcp_attr attr[2],
         uint16_t mtu, uint64_t up, uint64_t down, uint32_t max_seg)
{
	struct net_app *a, *b;

	net_up(&net, seed, cfg, attr, mtu);
	net_listen(&net, 1);
	net.accept_as =
	        (struct net_app){.to_send = down, .max_seg = max_seg, .close_when_sent = true};
	a = net_connect(&net, 0, 7);
	a->to_send = up;
	a->max_seg = max_seg;
	a->close_when_sent = true;
	a->close_on_eof = false;
	CHECK_MSG(net_run_closed(&net, 1000 * WEFT_NS_PER_S),
	          "seed %" PRIu64 ": %s %s, sent %" PRIu64 " and %" PRIu64, seed,
	          weft_tcp_state_name(net_state(&net.app[0])),
	          weft_tcp_state_name(net_state(&net.app[1])), net.app[0].sent, net.app[1].sent);
	CHECK_EQ(net.accepted, 1);
	b = &net.app[1];
	CHECK_MSG(!a->bad_data && !b->bad_data && !a->torn && !b->torn, "seed %" PRIu64, seed);
	CHECK_MSG(b->received == up && a->received == down && a->eof && b->eof,
	          "seed %" PRIu64 ": %" PRIu64 " of %" PRIu64 ", %" PRIu64 " of %" PRIu64, seed,
	          b->received, up, a->received, down);
	CHECK_MSG(a->err == 0 && b->err == 0, "seed %" PRIu64 ": %d %d", seed, a->err, b->err);
	net_check_idle(&net);
	net_down(&net);
}

static struct sim_link_cfg
lan(void)
{
	return (struct sim_link_cfg){.delay_ns = 50 * WEFT_NS_PER_US, .rate_bps = 10000000000ULL};
}

static void
test_clean(void)
{
	struct sim_link_cfg cfg[2] = {lan(), lan()};

	transfer(test_seed(1), cfg, NULL, 1500, 4 << 20, 4 << 20, 0);
	transfer(test_seed(1), cfg, NULL, 9000, 4 << 20, 4 << 20, 0);
	transfer(test_seed(1), NULL, NULL, 1500, 1 << 20, 1 << 20, 700);
	transfer(test_seed(1), NULL, NULL, 1500, 0, 0, 0);
	transfer(test_seed(1), NULL, NULL, 1500, 1, 0, 0);
}

/** A link with all faults at once, to a degree drawn from the seed. */
static void
hostile(uint64_t seed)
{
	static const uint32_t loss[] = {0, 5000, 20000, 50000};
	struct sim_link_cfg cfg[2];
	struct weft_tcp_attr attr[2] = {{0}};
	uint64_t r = seed * 0x9e3779b97f4a7c15ULL;
	uint64_t up = 1 + (r >> 40) % 300000, down = (r >> 20) % 300000;

	for (unsigned int i = 0; i < 2; i++) {
		cfg[i] = (struct sim_link_cfg){
		        .loss_ppm = loss[(seed + i) % 4],
		        .burst_loss_ppm = seed % 3 == 0 ? 1000 : 0,
		        .burst_len = 5,
		        .dup_ppm = seed % 2 == 0 ? 20000 : 0,
		        .reorder_ppm = seed % 3 != 1 ? 30000 : 0,
		        .reorder_ns = 200 * WEFT_NS_PER_US,
		        .corrupt_ppm = seed % 5 < 2 ? 10000 : 0,
		        .delay_ns = (1 + r % 500) * WEFT_NS_PER_US,
		        .jitter_ns = seed % 4 == 3 ? 100 * WEFT_NS_PER_US : 0,
		        .rate_bps = seed % 2 == 0 ? 1000000000ULL : 0,
		        .queue_pkts = seed % 7 == 0 ? 20 : 0,
		};
		attr[i].rcv_buf_bytes = seed % 6 == 0 ? 20000 : 0;
		attr[i].max_ooo_bytes = seed % 11 == 0 ? 8000 : 0;
		attr[i].data_retries = 15;
		attr[i].syn_retries = 10;
	}
	transfer(seed, cfg, attr, seed % 8 == 0 ? 576 : 1500, up, down, seed % 3 == 0 ? 3000 : 0);
}

static void
test_hostile(void)
{
	uint64_t first = test_seed(1), n = test_seed_given() ? 1 : 300;

	for (uint64_t seed = first; seed < first + n; seed++)
		hostile(seed);
}

/** 2 % loss in each direction, reordering, and 4 MiB each way. */
static void
test_two_percent(void)
{
	struct sim_link_cfg cfg[2] = {lan(), lan()};

	for (unsigned int i = 0; i < 2; i++) {
		cfg[i].loss_ppm = 20000;
		cfg[i].reorder_ppm = 10000;
		cfg[i].reorder_ns = 30 * WEFT_NS_PER_US;
	}
	transfer(test_seed(7), cfg, NULL, 1500, 4 << 20, 4 << 20, 0);
	transfer(test_seed(8), cfg, NULL, 9000, 4 << 20, 4 << 20, 0);
}

/** Each of the first packets of each direction is lost once: handshake, data, FIN, ACK. */
static void
test_scripted_loss(void)
{
	struct sim_link_cfg cfg[2];

	for (unsigned int end = 0; end < 2; end++) {
		for (unsigned int bit = 0; bit < 12; bit++) {
			for (unsigned int run = 1; run <= 3; run += 2) {
				cfg[0] = lan();
				cfg[1] = lan();
				cfg[end].loss_mask = ((1ULL << run) - 1) << bit;
				transfer(bit, cfg, NULL, 1500, 4000, 3000, 0);
				transfer(bit, cfg, NULL, 1500, 40000, 0, 0);
				transfer(bit, cfg, NULL, 1500, 0, 0, 0);
			}
		}
	}
}

/** Both ends open at the same time. */
static void
test_simultaneous_open(void)
{
	/* The SYN is lost, the SYN-ACK, both, or neither. */
	for (unsigned int mask = 0; mask < 4; mask++) {
		struct sim_link_cfg cfg[2] = {lan(), lan()};
		struct net_app *a, *b;
		struct weft_tcp_info info;

		cfg[0].loss_mask = mask;
		net_up(&net, 1, cfg, NULL, 1500);
		a = net_connect(&net, 0, 7);
		weft_tcp_info(a->c, &info);
		/* Node 1 connects from port 7 to the port that node 0 chose. */
		b = &net.app[net.napps++];
		memset(b, 0, sizeof(*b));
		b->node = &net.node[1];
		b->tx_key = 200;
		b->rx_key = 100;
		b->to_send = a->to_send = 100000;
		a->close_when_sent = b->close_when_sent = true;
		a->close_on_eof = false;
		CHECK_EQ(net_connect_from(b, 7, info.local_port), 0);
		CHECK(net_run_closed(&net, 100 * WEFT_NS_PER_S));
		CHECK(a->established && b->established && !a->bad_data && !b->bad_data);
		CHECK_EQ(a->received, 100000);
		CHECK_EQ(b->received, 100000);
		CHECK_EQ(a->err, 0);
		CHECK_EQ(b->err, 0);
		net_check_idle(&net);
		net_down(&net);
	}
}

/** Both ends close at the same time: FIN-WAIT-1, CLOSING, TIME-WAIT on both sides. */
static void
test_simultaneous_close(void)
{
	struct sim_link_cfg cfg[2] = {lan(), lan()};
	struct net_app *a;

	net_up(&net, 1, cfg, NULL, 1500);
	net_listen(&net, 1);
	a = net_connect(&net, 0, 7);
	CHECK(!net_run(&net, WEFT_NS_PER_MS, NULL, NULL));
	weft_tcp_close(a->c, sim_now_ns(net.sim));
	weft_tcp_close(net.app[1].c, sim_now_ns(net.sim));
	CHECK_EQ(weft_tcp_send(a->c, weft_tcp_alloc(a->c), true, 0), -EPIPE);
	CHECK_EQ(net_state(a), WEFT_TCP_FIN_WAIT_1);
	CHECK(net_run_closed(&net, WEFT_NS_PER_S / 2));
	CHECK_EQ(a->err, 0);
	CHECK_EQ(net.app[1].err, 0);
	CHECK_EQ(weft_tcp_stats(net.node[0].tcp)->conns_now, 1); /* TIME-WAIT on both */
	CHECK_EQ(weft_tcp_stats(net.node[1].tcp)->conns_now, 1);
	net_check_idle(&net);
	net_down(&net);
}

/** One end closes. The other continues to send, and then closes. */
static void
test_half_close(void)
{
	struct sim_link_cfg cfg[2] = {lan(), lan()};
	struct net_app *a, *b;

	net_up(&net, 1, cfg, NULL, 1500);
	net_listen(&net, 1);
	a = net_connect(&net, 0, 7);
	a->to_send = 1000;
	a->close_when_sent = true;
	CHECK(!net_run(&net, 10 * WEFT_NS_PER_MS, NULL, NULL));
	b = &net.app[1];
	CHECK_EQ(net_state(a), WEFT_TCP_FIN_WAIT_2);
	CHECK_EQ(net_state(b), WEFT_TCP_CLOSE_WAIT);
	CHECK(b->eof && !a->eof && b->received == 1000);
	b->to_send = 500000;
	b->close_when_sent = true;
	net_app_push(b);
	CHECK(net_run_closed(&net, 10 * WEFT_NS_PER_S));
	CHECK_EQ(a->received, 500000);
	CHECK_EQ(a->err, 0);
	CHECK_EQ(b->err, 0);
	/* The end that closed second has no TIME-WAIT. */
	CHECK_EQ(weft_tcp_stats(net.node[0].tcp)->conns_now, 1);
	CHECK_EQ(weft_tcp_stats(net.node[1].tcp)->conns_now, 0);
	net_check_idle(&net);
	net_down(&net);
}

static void
test_refused(void)
{
	struct net_app *a;

	net_up(&net, 1, NULL, NULL, 1500);
	a = net_connect(&net, 0, 9);
	CHECK(net_run_closed(&net, WEFT_NS_PER_S));
	CHECK_EQ(a->err, -ECONNREFUSED);
	CHECK(!a->established);
	net_check_idle(&net);
	net_down(&net);

	/* The owner of the listener refuses. */
	net_up(&net, 1, NULL, NULL, 1500);
	net_listen(&net, 1);
	net.refuse = true;
	a = net_connect(&net, 0, 7);
	CHECK(net_run_closed(&net, WEFT_NS_PER_S));
	CHECK_EQ(a->err, -ECONNRESET);
	CHECK_EQ(weft_tcp_stats(net.node[1].tcp)->accept_refused, 1);
	net_check_idle(&net);
	net_down(&net);
}

/** The peer stops answering: in the handshake, with data in flight, and while idle. */
static void
test_dead_peer(void)
{
	static const struct sim_link_cfg dead = {.loss_ppm = 1000000};
	struct sim_link_cfg cfg[2] = {lan(), lan()};
	struct weft_tcp_attr attr[2] = {{.syn_retries = 3, .data_retries = 4}, {0}};
	const struct weft_tcp_stats *st;
	struct net_app *a;
	uint64_t start;

	cfg[0].loss_ppm = 1000000;
	net_up(&net, 1, cfg, attr, 1500);
	net_listen(&net, 1);
	a = net_connect(&net, 0, 7);
	start = sim_now_ns(net.sim);
	CHECK(net_run_closed(&net, 100 * WEFT_NS_PER_S));
	CHECK_EQ(a->err, -ETIMEDOUT);
	/* 1 + 2 + 4 + 8 seconds */
	CHECK_EQ((sim_now_ns(net.sim) - start) / WEFT_NS_PER_S, 15);
	net_check_idle(&net);
	net_down(&net);

	cfg[0].loss_ppm = 0;
	net_up(&net, 1, cfg, attr, 1500);
	net_listen(&net, 1);
	a = net_connect(&net, 0, 7);
	a->to_send = 50000;
	CHECK(!net_run(&net, 200 * WEFT_NS_PER_US, NULL, NULL));
	CHECK(a->established);
	sim_link_set(net.link, 0, &dead);
	sim_link_set(net.link, 1, &dead);
	CHECK(!net_run(&net, WEFT_NS_PER_S, NULL, NULL));
	weft_tcp_keepalive(net.app[1].c, 2000000, 500000, 3);
	CHECK(net_run_closed(&net, 100 * WEFT_NS_PER_S));
	CHECK_EQ(a->err, -ETIMEDOUT);
	CHECK_EQ(net.app[1].err, -ETIMEDOUT);
	st = weft_tcp_stats(net.node[1].tcp);
	CHECK_EQ(st->keepalive_probes, 3);
	CHECK_EQ(st->keepalive_drops, 1);
	CHECK_EQ(weft_tcp_stats(net.node[0].tcp)->rtos, 4);
	net_check_idle(&net);
	net_down(&net);
}

/** A living idle peer answers the probes, even if the interval is longer than the idle time. */
static void
test_keepalive_alive(void)
{
	struct sim_link_cfg cfg[2] = {lan(), lan()};
	struct weft_tcp_attr attr[2] = {{.keepalive_us = 100000, .keepalive_intvl_us = 300000},
	                                {0}};
	struct net_app *a;

	net_up(&net, 1, cfg, attr, 1500);
	net_listen(&net, 1);
	a = net_connect(&net, 0, 7);
	CHECK(!net_run(&net, 20 * WEFT_NS_PER_S, NULL, NULL));
	CHECK_EQ(net_state(a), WEFT_TCP_ESTABLISHED);
	CHECK(weft_tcp_stats(net.node[0].tcp)->keepalive_probes > 20);
	weft_tcp_keepalive(a->c, 0, 0, 0);
	weft_tcp_close(a->c, sim_now_ns(net.sim));
	net.app[1].close_on_eof = true;
	weft_tcp_close(net.app[1].c, sim_now_ns(net.sim));
	CHECK(net_run_closed(&net, WEFT_NS_PER_S));
	net_check_idle(&net);
	net_down(&net);
}

/** A peer that disappears with data in flight is given up as soon as an idle one would be. */
static void
test_keepalive_unacked(void)
{
	static const struct sim_link_cfg dead = {.loss_ppm = 1000000};
	struct sim_link_cfg cfg[2] = {lan(), lan()};
	struct net_app *a;
	uint64_t start;

	net_up(&net, 1, cfg, NULL, 1500);
	net_listen(&net, 1);
	a = net_connect(&net, 0, 7);
	CHECK(!net_run(&net, WEFT_NS_PER_S, NULL, NULL));
	weft_tcp_keepalive(a->c, 2000000, 500000, 3);
	sim_link_set(net.link, 0, &dead);
	sim_link_set(net.link, 1, &dead);
	a->to_send = 50000;
	net_app_push(a);
	start = sim_now_ns(net.sim);
	weft_tcp_abort(net.app[1].c, start);
	net.app[1].closed = true;
	CHECK(net_run_closed(&net, 5 * WEFT_NS_PER_S));
	CHECK_EQ(a->err, -ETIMEDOUT);
	CHECK(sim_now_ns(net.sim) - start < 4 * WEFT_NS_PER_S);
	CHECK_EQ(weft_tcp_stats(net.node[0].tcp)->keepalive_drops, 1);
	net_check_idle(&net);
	net_down(&net);
}

/** Every up-call may abort its connection. */
static void
test_abort_inside(void)
{
	for (unsigned int what = 0; what < 6; what++) {
		struct sim_link_cfg cfg[2] = {lan(), lan()};
		struct net_app *a, *who;

		net_up(&net, what, cfg, NULL, 1500);
		net_listen(&net, 1);
		a = net_connect(&net, 0, 7);
		who = what % 2 == 0 ? &net.accept_as : a;
		who->abort_on_rx = what / 2 == 0;
		who->abort_on_eof = what / 2 == 1;
		who->abort_on_established = what / 2 == 2;
		a->to_send = 100000;
		a->close_when_sent = true;
		net.accept_as.to_send = 100000;
		net.accept_as.close_when_sent = true;
		CHECK(net_run_closed(&net, WEFT_NS_PER_S));
		who = what % 2 == 0 ? a : &net.app[1];
		/* 2, 3: after the FIN. 5: the peer had no application yet. */
		CHECK_MSG(who->err == -ECONNRESET || what / 2 == 1 || what == 5, "%u: %d", what,
		          who->err);
		net_check_idle(&net);
		net_down(&net);
	}
}

/** Close or destroy before the handshake is complete. */
static void
test_early_close(void)
{
	struct sim_link_cfg cfg[2] = {lan(), lan()};
	struct net_app *a;

	net_up(&net, 1, cfg, NULL, 1500);
	net_listen(&net, 1);
	a = net_connect(&net, 0, 7);
	weft_tcp_close(a->c, sim_now_ns(net.sim));
	CHECK(!a->closed);
	CHECK(net_run_closed(&net, WEFT_NS_PER_S));
	CHECK_EQ(a->err, -ECONNABORTED);
	a = net_connect(&net, 0, 7);
	CHECK(!net_run(&net, 60 * WEFT_NS_PER_US, NULL, NULL));
	weft_tcp_unlisten(net.node[1].tcp, net.listener);
	CHECK(net_run_closed(&net, WEFT_NS_PER_S));
	CHECK(a->err != 0);
	a = net_connect(&net, 0, 7);
	net_down(&net);
}

/** More connections than max_conns: the limit holds, and the others work. */
static void
test_many(void)
{
	struct sim_link_cfg cfg[2] = {lan(), lan()};
	struct weft_tcp_attr attr[2] = {{.max_conns = 20}, {.max_conns = 40}};
	struct weft_ip dst = net_ip(1);
	static const struct weft_tcp_conn_ops none;
	struct weft_tcp_conn *c;

	cfg[0].loss_ppm = cfg[1].loss_ppm = 10000;
	net_up(&net, test_seed(3), cfg, attr, 1500);
	net_listen(&net, 1);
	net.accept_as = (struct net_app){.to_send = 30000, .close_when_sent = true};
	for (unsigned int i = 0; i < 16; i++) {
		struct net_app *a = net_connect(&net, 0, 7);

		a->to_send = 40000;
		a->close_when_sent = true;
		a->close_on_eof = false;
	}
	for (unsigned int i = 0; i < 4; i++)
		CHECK_EQ(weft_tcp_connect(net.node[0].tcp, net.node[0].nif, NULL, &dst, 9, &none,
		                          NULL, &c),
		         0);
	CHECK_EQ(weft_tcp_connect(net.node[0].tcp, net.node[0].nif, NULL, &dst, 7, &none, NULL, &c),
	         -EMFILE);
	CHECK(net_run_closed(&net, 100 * WEFT_NS_PER_S));
	CHECK_EQ(net.napps, 32);
	for (unsigned int i = 0; i < 32; i++) {
		CHECK_EQ(net.app[i].err, 0);
		CHECK(!net.app[i].bad_data);
		CHECK_EQ(net.app[i].received, i < 16 ? 30000 : 40000);
	}
	/* Connections in TIME-WAIT make room for new ones. */
	for (unsigned int i = 0; i < 18; i++)
		net_connect(&net, 0, 7);
	net_down(&net);
}

/** A port that accepts little, and twenty connections that want more: each makes progress. */
static void
test_slow_port(void)
{
	struct sim_link_cfg cfg[2] = {lan(), lan()};
	struct weft_tcp_attr attr[2] = {{.initial_cwnd_segs = 100}, {0}};
	const unsigned int conns = 20;

	net_up(&net, 1, cfg, attr, 1500);
	net.node[0].tx_limit = 3;
	net_listen(&net, 1);
	net.accept_as.close_on_eof = true;
	for (unsigned int i = 0; i < conns; i++) {
		struct net_app *a = net_connect(&net, 0, 7);

		a->to_send = 400000;
		a->close_when_sent = true;
		CHECK(!net_run(&net, WEFT_NS_PER_MS / 10, NULL, NULL));
	}
	CHECK(net_run_closed(&net, 100 * WEFT_NS_PER_S));
	CHECK_EQ(net.napps, 2 * conns);
	for (unsigned int i = 0; i < net.napps; i++) {
		CHECK_EQ(net.app[i].err, 0);
		CHECK(!net.app[i].bad_data);
	}
	/* TCP stops before the queue is full, so it never overflows. */
	CHECK_EQ(weft_netif_stats(net.node[0].nif)->tx_queue_full, 0);
	net_check_idle(&net);
	net_down(&net);
}

/** The pool is empty during a transfer, for a while, repeatedly. */
static void
test_empty_pool(void)
{
	static struct rte_mbuf *hoard[8191];
	struct sim_link_cfg cfg[2] = {lan(), lan()};
	struct net_app *a;
	unsigned int n, dry = 0;

	cfg[0].loss_ppm = cfg[1].loss_ppm = 5000;
	net_up(&net, test_seed(5), cfg, NULL, 1500);
	net_listen(&net, 1);
	net.accept_as = (struct net_app){.to_send = 3000000, .close_when_sent = true};
	a = net_connect(&net, 0, 7);
	a->to_send = 3000000;
	a->close_when_sent = true;
	a->close_on_eof = false;
	for (unsigned int round = 0; round < 1000; round++) {
		for (n = 0; n < 8191; n++)
			if ((hoard[n] = rte_pktmbuf_alloc(net_pool())) == NULL)
				break;
		net_run(&net, 300 * WEFT_NS_PER_US, NULL, NULL);
		dry += weft_tcp_stats(net.node[0].tcp)->no_mbuf > 0;
		while (n > 0)
			rte_pktmbuf_free(hoard[--n]);
		if (net_run_closed(&net, 300 * WEFT_NS_PER_US))
			break;
	}
	CHECK(net_run_closed(&net, 100 * WEFT_NS_PER_S));
	CHECK(dry > 0);
	CHECK(!a->bad_data && !net.app[1].bad_data);
	CHECK_EQ(a->received, 3000000);
	CHECK_EQ(net.app[1].received, 3000000);
	CHECK_EQ(a->err, 0);
	net_check_idle(&net);
	net_down(&net);
}

/** Cuts the link, or mends it. Node 0 sees that at its port; what node 1 sees is silence. */
static void
link_set(bool up)
{
	struct sim_link_cfg cfg = {.delay_ns = 100 * WEFT_NS_PER_US, .down = !up};
	struct net_node *n = &net.node[0];

	for (unsigned int i = 0; i < 2; i++)
		sim_link_set(net.link, i, &cfg);
	n->sched.now_ns = sim_now_ns(net.sim);
	if (up && !n->nif->link_up)
		n->nif->link_back_ns = n->sched.now_ns;
	n->nif->link_up = up;
	if (up)
		weft_tcp_link_up(n->tcp, n->nif, n->sched.now_ns);
}

static bool
link_sent(void *arg)
{
	const struct net_app *a = arg;

	return net.app[1].received == a->to_send;
}

/** Node 0 has keepalive, which would end a connection with a silent peer after 4 s. */
static struct net_app *
link_pair(uint64_t seed, uint32_t user_timeout_us)
{
	const struct weft_tcp_attr attr[2] = {
	        {.keepalive_us = 2000000, .user_timeout_us = user_timeout_us},
	        {.data_retries = 12}};
	struct net_app *a;

	net_up(&net, seed, NULL, attr, 1500);
	link_set(true);
	net_listen(&net, 1);
	net.accept_as = (struct net_app){.close_on_eof = true};
	a = net_connect(&net, 0, 7);
	a->close_on_eof = false;
	a->to_send = 100000;
	CHECK(net_run(&net, WEFT_NS_PER_S, link_sent, a));
	return a;
}

/* The link is down for 15 s, with and without octets on their way. When it is back these arrive
 * as soon as the neighbour has answered, although the timer was to fire 10 s later. */
static void
test_link_within(void)
{
	for (unsigned int busy = 0; busy < 2; busy++) {
		struct net_app *a = link_pair(7 + busy, 60000000);
		const struct weft_tcp_stats *st = weft_tcp_stats(net.node[0].tcp);

		link_set(false);
		if (busy) {
			a->to_send += 50000;
			net_app_push(a);
		}
		net_run(&net, 15 * WEFT_NS_PER_S, NULL, NULL);
		CHECK_EQ(st->keepalive_drops, 0);
		CHECK_EQ(st->keepalive_probes, 0);
		CHECK(!a->closed && !a->torn);
		link_set(true);
		if (!busy) {
			a->to_send += 50000;
			net_app_push(a);
		}
		CHECK_MSG(net_run(&net, 3 * WEFT_NS_PER_S, link_sent, a), "%" PRIu64,
		          net.app[1].received);
		CHECK(!net.app[1].bad_data);
		weft_tcp_close(a->c, sim_now_ns(net.sim));
		CHECK(net_run_closed(&net, 100 * WEFT_NS_PER_S));
		net_check_idle(&net);
		net_down(&net);
	}
}

/* Beyond it a connection ends: by the user timeout when it has octets on their way, else by
 * keepalive, to which the link is an excuse for so long only. */
static void
test_link_beyond(void)
{
	for (unsigned int busy = 0; busy < 2; busy++) {
		struct net_app *a = link_pair(7 + busy, 6000000);
		const struct weft_tcp_stats *st = weft_tcp_stats(net.node[0].tcp);

		link_set(false);
		if (busy) {
			a->to_send += 50000;
			net_app_push(a);
		}
		net_run(&net, 5 * WEFT_NS_PER_S, NULL, NULL);
		CHECK(!a->closed);
		net_run(&net, 6 * WEFT_NS_PER_S, NULL, NULL);
		CHECK(a->closed);
		CHECK_EQ(a->err, -ETIMEDOUT);
		CHECK_EQ(st->user_timeouts, busy);
		CHECK_EQ(st->keepalive_drops, !busy);
		link_set(true);
		weft_tcp_abort(net.app[1].c, sim_now_ns(net.sim));
		net.app[1].c = NULL;
		net.app[1].torn = true;
		net_run(&net, WEFT_NS_PER_S, NULL, NULL);
		net_down(&net);
	}
}

/** The port of node 0 has a link, or has none; the wire is as it was. */
static void
link_port(bool up)
{
	struct net_node *n = &net.node[0];

	n->sched.now_ns = sim_now_ns(net.sim);
	n->nif->link_up = up;
	if (up) {
		n->nif->link_back_ns = n->sched.now_ns;
		weft_tcp_link_up(n->tcp, n->nif, n->sched.now_ns);
	}
}

/* A link that comes and goes is no excuse for a dead peer beyond the user timeout. */
static void
test_link_flaps(void)
{
	struct net_app *a = link_pair(9, 20000000);
	const struct weft_tcp_stats *st = weft_tcp_stats(net.node[0].tcp);
	unsigned int s = 0;

	link_set(false);
	for (; s < 60 && !a->closed; s++) {
		net_run(&net, 500 * WEFT_NS_PER_MS, NULL, NULL);
		link_port(true);
		net_run(&net, 500 * WEFT_NS_PER_MS, NULL, NULL);
		if (!a->closed)
			link_port(false);
	}
	CHECK_MSG(s >= 20 && s <= 30, "%u s", s);
	CHECK_EQ(a->err, -ETIMEDOUT);
	CHECK_EQ(st->keepalive_drops, 1);
	link_set(true);
	weft_tcp_abort(net.app[1].c, sim_now_ns(net.sim));
	net.app[1].c = NULL;
	net.app[1].torn = true;
	net_run(&net, WEFT_NS_PER_S, NULL, NULL);
	net_down(&net);
}

/* A SYN has all its retries after the link is back, as if it had been sent then. */
static void
test_link_syn(void)
{
	struct net_app *a;
	uint64_t from;

	net_up(&net, 10, NULL, (struct weft_tcp_attr[2]){{0}, {0}}, 1500);
	link_set(true);
	link_set(false);
	a = net_connect(&net, 0, 7);
	net_run(&net, 40 * WEFT_NS_PER_S, NULL, NULL);
	CHECK(!a->closed);
	link_port(true); /* a switch that does not forward yet */
	from = sim_now_ns(net.sim);
	for (unsigned int i = 0; i < 400 && !a->closed; i++)
		net_run(&net, WEFT_NS_PER_S, NULL, NULL);
	CHECK_EQ(a->err, -ETIMEDOUT);
	from = (sim_now_ns(net.sim) - from) / WEFT_NS_PER_S;
	CHECK_MSG(from >= 60, "%" PRIu64 " s", from);
	net_down(&net);
}

WEFT_TEST_MAIN({"clean", test_clean}, {"hostile", test_hostile}, {"two_percent", test_two_percent},
               {"scripted_loss", test_scripted_loss}, {"simultaneous_open", test_simultaneous_open},
               {"simultaneous_close", test_simultaneous_close}, {"half_close", test_half_close},
               {"refused", test_refused}, {"dead_peer", test_dead_peer},
               {"keepalive_alive", test_keepalive_alive},
               {"keepalive_unacked", test_keepalive_unacked}, {"abort_inside", test_abort_inside},
               {"early_close", test_early_close}, {"many", test_many},
               {"an interruption within the user timeout costs time only", test_link_within},
               {"an interruption beyond the user timeout", test_link_beyond},
               {"a link that comes and goes", test_link_flaps},
               {"a link that comes while a connection is opened", test_link_syn},
               {"slow_port", test_slow_port}, {"empty_pool", test_empty_pool})
