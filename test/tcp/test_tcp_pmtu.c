/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Path MTU: packet-too-big messages that are accepted and ignored (RFC 1191, RFC 8201, RFC
 * 5927), black holes (RFC 2923 s2.1), the cache, raising the size again, and the interface's own
 * MTU.
 */

#include "tcp_peer.h"
#include "tcp_conn.h"
#include "tcp_instance.h"
#include "tcp_loss.h"
#include "tcp_pmtu.h"
#include "tcp_snd.h"
#include "weft_netif_budget.h"
#include "weft_netif_icmp.h"
#include "weft_netif.h"

static uint32_t longest; /**< longest IP packet of node 0 since it was last set to 0 */
static bool any_df, all_df;

static void
look(void *arg, unsigned int from, enum sim_event what, const uint8_t *f, uint32_t len,
     uint64_t now)
{
	(void)arg;
	(void)now;
	(void)len;
	if (from != 0 || what != SIM_SENT || f[12] != 8 || f[13] != 0 || f[23] != 6)
		return;
	longest = RTE_MAX(longest, (uint32_t)weft_get_be16(f + 16));
	any_df |= (f[20] & 0x40) != 0;
	all_df &= (f[20] & 0x40) != 0;
}

static void
look_anew(void)
{
	longest = 0;
	any_df = false;
	all_df = true;
}

static struct sim_link_cfg path[2];

/** Two stacks, `bytes` from node 0 to node 1; the path is as in path[]. */
static struct net_app *
pair_up(uint64_t seed, const struct weft_tcp_attr *attr, uint64_t bytes)
{
	struct weft_tcp_attr both[2] = {{0}, {0}};
	struct net_app *a;

	if (attr != NULL)
		both[0] = *attr;
	look_anew();
	net_up(&net, seed, path, both, 1500);
	sim_link_watch(net.link, look, NULL);
	net_listen(&net, 1);
	net.accept_as = (struct net_app){.close_on_eof = true};
	a = net_connect(&net, 0, 7);
	a->to_send = bytes;
	a->close_on_eof = false;
	return a;
}

static void
path_mtu(uint16_t mtu_bytes)
{
	path[0].mtu_bytes = mtu_bytes;
	sim_link_set(net.link, 0, &path[0]);
}

static void
path_plain(void)
{
	path[0] = path[1] =
	        (struct sim_link_cfg){.delay_ns = 500 * WEFT_NS_PER_US, .rate_bps = 1000000000};
}

static bool
arrived(void *arg)
{
	const struct net_app *a = arg;

	return net.napps > 1 && net.app[1].received == a->to_send;
}

static void
all_arrives(struct net_app *a, uint64_t ns)
{
	CHECK_MSG(net_run(&net, ns, arrived, a), "%" PRIu64 " of %" PRIu64, net.app[1].received,
	          a->to_send);
	CHECK(!net.app[1].bad_data && !a->torn);
}

/** The application sends more octets. */
static void
more(struct net_app *a, uint64_t bytes)
{
	a->to_send += bytes;
	a->node->sched.now_ns = sim_now_ns(net.sim);
	net_app_push(a);
}

static struct weft_tcp_info
info_of(const struct net_app *a)
{
	struct weft_tcp_info i;

	weft_tcp_info(a->c, &i);
	return i;
}

static void
pair_down(struct net_app *a)
{
	weft_tcp_close(a->c, sim_now_ns(net.sim));
	CHECK(net_run_closed(&net, 100 * WEFT_NS_PER_S));
	net_check_idle(&net);
	net_down(&net);
}

/** RFC 1191 s6.4: the size is lowered at once, without a timeout and without a reduction of
 * cwnd. */
static void
test_too_big(void)
{
	const struct weft_tcp_stats *st;
	struct net_app *a;

	path_plain();
	path[0].mtu_bytes = 1000;
	a = pair_up(1, NULL, 200000);
	st = weft_tcp_stats(net.node[0].tcp);
	all_arrives(a, 2 * WEFT_NS_PER_S);
	CHECK_EQ(st->pmtu_lowered, 1);
	CHECK(st->pmtu_ignored > 0 && st->segs_split > 0);
	CHECK_EQ(st->rtos, 0);
	CHECK_EQ(info_of(a).pmtu_bytes, 1000);
	CHECK_EQ(a->mss, info_of(a).mss_bytes);
	CHECK(a->mss < 1000 && a->mss_calls == 1);
	CHECK(all_df);
	pair_down(a);
}

/** The path MTU falls during a transfer. Larger segments have arrived, so the ICMP message needs
 * proof. */
static void
test_narrower(void)
{
	const struct weft_tcp_stats *st;
	struct net_app *a;

	path_plain();
	a = pair_up(2, NULL, 3000000);
	st = weft_tcp_stats(net.node[0].tcp);
	net_run(&net, 10 * WEFT_NS_PER_MS, NULL, NULL);
	CHECK(a->c->acked_max_bytes > 1000);
	path_mtu(900);
	all_arrives(a, 3 * WEFT_NS_PER_S);
	CHECK_EQ(st->pmtu_lowered, 1);
	CHECK_EQ(info_of(a).pmtu_bytes, 900);
	look_anew();
	more(a, 100000);
	all_arrives(a, WEFT_NS_PER_S);
	CHECK(longest > 0 && longest <= 900);
	CHECK_EQ(st->blackholes, 0);
	pair_down(a);
}

/** RFC 1191 s5 and table 7-1: a router that does not report the next-hop MTU. */
static void
test_old_router(void)
{
	struct net_app *a;

	path_plain();
	path[0].mtu_bytes = 1100;
	path[0].mtu_old = true;
	a = pair_up(3, NULL, 200000);
	all_arrives(a, 5 * WEFT_NS_PER_S);
	CHECK_EQ(info_of(a).pmtu_bytes, 1006);
	CHECK_EQ(weft_tcp_stats(net.node[0].tcp)->blackholes, 0);
	pair_down(a);
}

static void
too_big(uint32_t seq, uint16_t mtu_bytes)
{
	struct weft_icmp_error e = {.kind = WEFT_ICMP_TOO_BIG,
	                            .src = net_ip(0),
	                            .dst = net_ip(1),
	                            .src_port = 7,
	                            .dst_port = PORT,
	                            .seq = seq,
	                            .mtu_bytes = mtu_bytes};

	net.node[0].sched.now_ns = sim_now_ns(net.sim);
	weft_tcp_icmp_error(net.node[0].tcp, net.node[0].nif, &e, sim_now_ns(net.sim));
	run_for(20 * WEFT_NS_PER_US);
}

/** RFC 5927 s4.1, s7.2: implausible messages are ignored and counted. */
static void
test_not_believed(void)
{
	struct net_app as = {.to_send = 10 * MSS};
	const struct weft_tcp_stats *st;

	open_conn(NULL, &as);
	st = weft_tcp_stats(net.node[0].tcp);
	CHECK_EQ(net.node[1].nsegs, 10);
	too_big(iss, 1000);                /* acknowledged already */
	too_big(iss + 1 + 10 * MSS, 1000); /* not sent yet */
	too_big(iss + 1, 1500);            /* not smaller than the current size */
	too_big(iss + 1, 65535);
	CHECK_EQ(st->pmtu_ignored, 4);
	CHECK_EQ(st->pmtu_lowered, 0);
	CHECK_EQ(net.node[1].nsegs, 0);
	/* Larger segments have arrived: the message counts only if that very segment is lost. */
	seg_wait(TCP_ACK, IRS + 1, iss + 1 + 4 * MSS, 65535, 0, 0);
	too_big(iss + 1 + 5 * MSS, 1000);
	CHECK_EQ(st->pmtu_lowered, 0);
	CHECK_EQ(net.node[1].nsegs, 0);
	seg_wait(TCP_ACK, IRS + 1, iss + 1 + 6 * MSS, 65535, 0, 0);
	CHECK_EQ(st->pmtu_ignored, 5);
	run_for(300 * WEFT_NS_PER_MS);
	CHECK_EQ(st->rtos, 1);
	CHECK_EQ(st->pmtu_lowered, 0);
	CHECK_EQ(info_of(app).mss_bytes, MSS);
	/* The segment is lost. */
	too_big(iss + 1 + 6 * MSS, 1000);
	CHECK_EQ(st->pmtu_lowered, 0);
	run_for(500 * WEFT_NS_PER_MS);
	CHECK_EQ(st->rtos, 2);
	CHECK_EQ(st->pmtu_lowered, 1);
	CHECK_EQ(info_of(app).mss_bytes, 960);
	CHECK_EQ(net.node[1].segs[0].len_bytes, 960);
	down();
	/* Path MTU discovery is off. */
	open_conn(&(struct weft_tcp_attr){.no_pmtu = true}, &as);
	too_big(iss + 1, 1000);
	CHECK_EQ(weft_tcp_stats(net.node[0].tcp)->pmtu_ignored, 1);
	CHECK_EQ(info_of(app).mss_bytes, MSS);
	down();
}

/** The path becomes narrower while many segments are in flight. The router reports each of them, or
 * limits its messages and reports the first ones. The first timeout is proof enough. */
static void
test_burst(void)
{
	struct net_app as = {.to_send = 10 * MSS};
	const struct weft_tcp_stats *st;

	for (uint32_t told = 1; told <= 6; told++) {
		open_conn(NULL, &as);
		st = weft_tcp_stats(net.node[0].tcp);
		seg_wait(TCP_ACK, IRS + 1, iss + 1 + 4 * MSS, 65535, 0, 0);
		for (uint32_t i = 4; i < 4 + told; i++)
			too_big(iss + 1 + i * MSS, 1300);
		CHECK_EQ(st->pmtu_lowered, 0);
		run_for(300 * WEFT_NS_PER_MS);
		CHECK_EQ(st->rtos, 1);
		CHECK_EQ(st->pmtu_lowered, 1);
		CHECK_EQ(info_of(app).pmtu_bytes, 1300);
		/* Messages that the router's queue held back change nothing. */
		for (uint32_t i = 4; i < 10; i++)
			too_big(iss + 1 + i * MSS, 1300);
		CHECK_EQ(st->pmtu_lowered, 1);
		CHECK_EQ(st->blackholes, 0);
		down();
	}
}

/** A timeout proves no message about a segment that it does not send again, and none about a
 * segment that has arrived. */
static void
test_timeout_is_no_proof(void)
{
	struct net_app as = {.to_send = 10 * MSS};
	const struct weft_tcp_stats *st;

	open_conn(NULL, &as);
	st = weft_tcp_stats(net.node[0].tcp);
	seg_wait(TCP_ACK, IRS + 1, iss + 1 + 4 * MSS, 65535, 0, 0);
	too_big(iss + 1 + 6 * MSS, 1300);
	too_big(iss + 1 + 8 * MSS, 1300);
	run_for(300 * WEFT_NS_PER_MS);
	CHECK_EQ(st->rtos, 1);
	CHECK_EQ(st->pmtu_lowered, 0);
	/* The timeout was in vain: all has arrived. */
	seg_wait(TCP_ACK, IRS + 1, iss + 1 + 10 * MSS, 65535, 0, 0);
	CHECK_EQ(st->pmtu_lowered, 0);
	CHECK_EQ(st->pmtu_ignored, 1);
	CHECK_EQ(info_of(app).pmtu_bytes, 1500);
	down();
}

/** RFC 1191 s3: below 576 octets routers fragment. No message lowers the size further. */
static void
test_floor(void)
{
	struct net_app as = {.to_send = 10 * MSS};

	open_conn(NULL, &as);
	sim_link_watch(net.link, look, NULL);
	look_anew();
	too_big(iss + 1, 68);
	CHECK_EQ(info_of(app).pmtu_bytes, 576);
	CHECK_EQ(info_of(app).mss_bytes, 536);
	CHECK(longest == 576 && !any_df);
	too_big(iss + 1, 0); /* and again, without limit */
	too_big(iss + 1, 68);
	CHECK_EQ(info_of(app).pmtu_bytes, 576);
	down();
}

/** RFC 1191 s6.2, s6.3: the next connection starts with the cached size until the entry expires. */
static void
test_cache(void)
{
	struct weft_tcp_attr attr = {.pmtu_raise_us = 20000000};
	const struct weft_tcp_stats *st;
	struct net_app *a, *b, *d;

	path_plain();
	path[0].mtu_bytes = 1000;
	a = pair_up(4, &attr, 100000);
	st = weft_tcp_stats(net.node[0].tcp);
	all_arrives(a, WEFT_NS_PER_S);
	b = net_connect(&net, 0, 7);
	net_run(&net, WEFT_NS_PER_S, NULL, NULL);
	CHECK_EQ(info_of(b).pmtu_bytes, 1000);
	CHECK_EQ(st->pmtu_lowered, 1);
	/* The announced MSS is still the interface's (RFC 1191 s3.1). */
	CHECK_EQ(info_of(&net.app[3]).mss_bytes,
	         1460 - (1500 - 40 - info_of(&net.app[3]).mss_bytes));
	CHECK_EQ(b->c->mss_local, 1460);
	net_run(&net, 20 * WEFT_NS_PER_S, NULL, NULL);
	d = net_connect(&net, 0, 7);
	net_run(&net, WEFT_NS_PER_S, NULL, NULL);
	CHECK_EQ(info_of(d).pmtu_bytes, 1500);
	weft_tcp_close(b->c, sim_now_ns(net.sim));
	weft_tcp_close(d->c, sim_now_ns(net.sim));
	pair_down(a);
}

/** More destinations than the cache can hold: the oldest entry of a set is replaced, and
 * counted. */
static void
test_cache_bound(void)
{
	struct net_app as = {.to_send = 10 * MSS};
	struct weft_ip far = net_ip(1);
	unsigned int found = 0;

	open_conn(NULL, &as);
	for (uint32_t i = 0; i < 10 * TCP_PMTU_SETS * TCP_PMTU_WAYS; i++) {
		app->c->remote = weft_ip_from_v4(rte_cpu_to_be_32(0x0b000000 + i));
		app->c->pmtu_bytes = 1500;
		/* Set the state of a retransmission, without the split that it would cause. */
		app->c->acked_max_bytes = MSS;
		tcp_pmtu_too_big(app->c,
		                 &(struct weft_icmp_error){.seq = iss + 1, .mtu_bytes = 1000}, 1);
		tcp_pmtu_lost(app->c, tcp_seg(app->c->sq_head), 1);
	}
	app->c->remote = far;
	for (unsigned int i = 0; i < TCP_PMTU_SETS * TCP_PMTU_WAYS; i++)
		found += net.node[0].tcp->pmtu[i].until_ns != 0;
	CHECK_EQ(found, TCP_PMTU_SETS * TCP_PMTU_WAYS);
	CHECK_EQ(weft_tcp_stats(net.node[0].tcp)->pmtu_evicted, 9 * found);
	run_for(WEFT_NS_PER_MS);
	down();
}

/** RFC 1191 s6.3: the size is raised after a time. It is kept where it works, and lowered again
 * where it does not. */
static void
test_raise(void)
{
	struct weft_tcp_attr attr = {.pmtu_raise_us = 10000000};
	const struct weft_tcp_stats *st;
	struct net_app *a;

	path_plain();
	path[0].mtu_bytes = 1000;
	a = pair_up(5, &attr, 100000);
	st = weft_tcp_stats(net.node[0].tcp);
	all_arrives(a, WEFT_NS_PER_S);
	net_run(&net, 11 * WEFT_NS_PER_S, NULL, NULL);
	/* The path is still narrow: lowering the size takes no longer than the first time. */
	more(a, 100000);
	all_arrives(a, 2 * WEFT_NS_PER_S);
	CHECK_EQ(st->pmtu_raised, 1);
	CHECK_EQ(st->pmtu_lowered, 2);
	CHECK_EQ(st->rtos, 0);
	CHECK_EQ(info_of(a).pmtu_bytes, 1000);
	/* The size is not raised before the time. */
	path_mtu(0);
	net_run(&net, 5 * WEFT_NS_PER_S, NULL, NULL);
	more(a, 100000);
	all_arrives(a, WEFT_NS_PER_S);
	CHECK_EQ(st->pmtu_raised, 1);
	net_run(&net, 6 * WEFT_NS_PER_S, NULL, NULL);
	a->mss_calls = 0;
	more(a, 300000);
	all_arrives(a, WEFT_NS_PER_S);
	CHECK_EQ(st->pmtu_raised, 2);
	CHECK_EQ(st->pmtu_lowered, 2);
	CHECK_EQ(info_of(a).pmtu_bytes, 1500);
	CHECK_EQ(a->mss_calls, 1);
	CHECK_EQ(longest, 1500);
	pair_down(a);
}

/** RFC 4821 s7.7: if a larger size is lost without an ICMP message, the size returns to the one
 * that worked, and not below. */
static void
test_raise_in_vain(void)
{
	struct weft_tcp_attr attr = {.pmtu_raise_us = 10000000};
	const struct weft_tcp_stats *st;
	struct net_app *a;

	path_plain();
	path[0].mtu_bytes = 1000;
	a = pair_up(40, &attr, 100000);
	st = weft_tcp_stats(net.node[0].tcp);
	all_arrives(a, WEFT_NS_PER_S);
	path[0].mtu_silent = true;
	path_mtu(1000);
	net_run(&net, 11 * WEFT_NS_PER_S, NULL, NULL);
	more(a, 100000);
	all_arrives(a, 20 * WEFT_NS_PER_S);
	CHECK_EQ(st->pmtu_raised, 1);
	CHECK_EQ(st->blackholes, 1);
	CHECK_EQ(st->pmtu_lowered, 2);
	CHECK_EQ(info_of(a).pmtu_bytes, 1000);
	pair_down(a);
}

/** RFC 2923 s2.1: no ICMP message arrives. From the start, and during a transfer. */
static void
test_blackhole(void)
{
	static const struct {
		uint16_t mtu, found;
	} holes[] = {{1492, 1492}, {1400, 1280}, {1000, 576}, {576, 576}};

	for (unsigned int i = 0; i < 2 * RTE_DIM(holes); i++) {
		const struct weft_tcp_stats *st;
		struct net_app *a;
		bool late = i % 2 != 0;

		path_plain();
		path[0].mtu_silent = true;
		path[0].mtu_bytes = late ? 0 : holes[i / 2].mtu;
		a = pair_up(6 + i, NULL, 1000000);
		st = weft_tcp_stats(net.node[0].tcp);
		if (late) {
			net_run(&net, 5 * WEFT_NS_PER_MS, NULL, NULL);
			path_mtu(holes[i / 2].mtu);
		}
		all_arrives(a, 60 * WEFT_NS_PER_S);
		CHECK_EQ(st->blackholes, 1);
		CHECK_EQ(info_of(a).pmtu_bytes, holes[i / 2].found);
		CHECK_EQ(a->mss, info_of(a).mss_bytes);
		/* The larger size is tried again at growing intervals, and the data arrive. */
		for (unsigned int k = 0; k < 3; k++) {
			net_run(&net, (6ULL << k) * WEFT_NS_PER_S, NULL, NULL);
			more(a, 1000);
			all_arrives(a, 60 * WEFT_NS_PER_S);
			CHECK_EQ(st->pmtu_raised, k);
			net_run(&net, (6ULL << k) * WEFT_NS_PER_S, NULL, NULL);
			more(a, 100000);
			all_arrives(a, 60 * WEFT_NS_PER_S);
			CHECK_EQ(st->pmtu_raised, 1 + k);
			CHECK_EQ(info_of(a).pmtu_bytes, holes[i / 2].found);
		}
		/* The black hole is repaired. */
		path_mtu(0);
		net_run(&net, 100 * WEFT_NS_PER_S, NULL, NULL);
		more(a, 100000);
		all_arrives(a, WEFT_NS_PER_S);
		CHECK_EQ(info_of(a).pmtu_bytes, 1500);
		pair_down(a);
	}
}

/**
 * A wrong suspicion of a black hole costs several timeouts, each twice the one before. Where a
 * single timeout is already long, the size that works is kept until round trips are short again.
 */
static void
test_no_doubt_while_slow(void)
{
	const struct weft_tcp_stats *st;
	struct net_app *a;

	path_plain();
	path[0].mtu_silent = true;
	path[0].mtu_bytes = 1300;
	a = pair_up(6, NULL, 100000);
	st = weft_tcp_stats(net.node[0].tcp);
	all_arrives(a, 60 * WEFT_NS_PER_S);
	CHECK_EQ(st->blackholes, 1);
	CHECK_EQ(info_of(a).pmtu_bytes, 1280);
	net_run(&net, 12 * WEFT_NS_PER_S, NULL, NULL);
	CHECK(a->c->pmtu_raise_ns <= sim_now_ns(net.sim));
	a->c->rto_us = 14000000;
	more(a, 1000);
	CHECK_EQ(st->pmtu_raised, 0);
	CHECK_EQ(info_of(a).pmtu_bytes, 1280);
	all_arrives(a, WEFT_NS_PER_S);
	a->c->rto_us = 300000;
	more(a, 1000);
	CHECK_EQ(st->pmtu_raised, 1);
	all_arrives(a, 10 * WEFT_NS_PER_S);
	pair_down(a);
}

/** A path that is down is not narrow: no size works, so the first one is restored. */
static void
test_not_the_size(void)
{
	const struct weft_tcp_stats *st;
	struct net_app *a;

	path_plain();
	a = pair_up(20, NULL, 1000000);
	st = weft_tcp_stats(net.node[0].tcp);
	net_run(&net, 5 * WEFT_NS_PER_MS, NULL, NULL);
	path[0].down = true;
	path_mtu(0);
	while (st->rtos < 7)
		net_run(&net, 100 * WEFT_NS_PER_MS, NULL, NULL);
	CHECK_EQ(st->blackholes, 1);
	CHECK_EQ(info_of(a).pmtu_bytes, 1500);
	path[0].down = false;
	path_mtu(0);
	all_arrives(a, 60 * WEFT_NS_PER_S);
	CHECK_EQ(info_of(a).pmtu_bytes, 1500);
	pair_down(a);
	/* A short outage starts no search where that size has arrived before. */
	path_plain();
	a = pair_up(21, NULL, 1000000);
	st = weft_tcp_stats(net.node[0].tcp);
	net_run(&net, 5 * WEFT_NS_PER_MS, NULL, NULL);
	path[0].down = true;
	path_mtu(0);
	while (st->rtos < 2)
		net_run(&net, 100 * WEFT_NS_PER_MS, NULL, NULL);
	path[0].down = false;
	path_mtu(0);
	all_arrives(a, 60 * WEFT_NS_PER_S);
	CHECK_EQ(st->blackholes, 0);
	CHECK_EQ(st->segs_split, 0);
	pair_down(a);
}

/** The interface MTU falls during the search for a black hole. The size does not exceed it. */
static void
test_restore_narrower(void)
{
	const struct weft_tcp_stats *st;
	struct net_app *a;

	path_plain();
	a = pair_up(22, NULL, 1000000);
	st = weft_tcp_stats(net.node[0].tcp);
	net_run(&net, 5 * WEFT_NS_PER_MS, NULL, NULL);
	path[0].down = true;
	path_mtu(0);
	while (st->rtos < 5)
		net_run(&net, 100 * WEFT_NS_PER_MS, NULL, NULL);
	CHECK_EQ(st->blackholes, 1);
	CHECK_EQ(weft_netif_set_mtu(net.node[0].nif, 1300), 0);
	weft_tcp_mtu_changed(net.node[0].tcp, net.node[0].nif);
	for (unsigned int i = 0; i < 600 && st->rtos < 7; i++)
		net_run(&net, 100 * WEFT_NS_PER_MS, NULL, NULL);
	CHECK_EQ(st->rtos, 7);
	path[0].down = false;
	path_mtu(0);
	look_anew();
	all_arrives(a, 60 * WEFT_NS_PER_S);
	CHECK_EQ(info_of(a).pmtu_bytes, 1300);
	CHECK_EQ(longest, 1300);
	pair_down(a);
}

/** The interface MTU falls without notice. A frame that the interface refuses is split at once. */
static void
test_interface_silent(void)
{
	const struct weft_tcp_stats *st;
	struct net_app *a;

	path_plain();
	a = pair_up(23, NULL, 2000000);
	st = weft_tcp_stats(net.node[0].tcp);
	net_run(&net, 5 * WEFT_NS_PER_MS, NULL, NULL);
	CHECK_EQ(weft_netif_set_mtu(net.node[0].nif, 1300), 0);
	weft_netif_flush(net.node[0].nif, sim_now_ns(net.sim));
	look_anew();
	all_arrives(a, 2 * WEFT_NS_PER_S);
	CHECK_EQ(longest, 1300);
	CHECK_EQ(info_of(a).pmtu_bytes, 1300);
	CHECK_EQ(a->mss, info_of(a).mss_bytes);
	CHECK_EQ(st->rtos, 0);
	pair_down(a);
}

/** no_pmtu: DF clear, MSS from the interface, no message accepted. */
static void
test_off(void)
{
	struct weft_tcp_attr attr = {.no_pmtu = true};
	struct net_app *a;

	path_plain();
	a = pair_up(30, &attr, 100000);
	all_arrives(a, WEFT_NS_PER_S);
	CHECK(!any_df && longest == 1500);
	pair_down(a);
}

/** The interface MTU falls and rises again. */
static void
test_interface(void)
{
	const struct weft_tcp_stats *st;
	struct net_app *a;

	path_plain();
	a = pair_up(31, NULL, 2000000);
	st = weft_tcp_stats(net.node[0].tcp);
	net_run(&net, 5 * WEFT_NS_PER_MS, NULL, NULL);
	CHECK_EQ(weft_netif_set_mtu(net.node[0].nif, 64), -EINVAL);
	CHECK_EQ(weft_netif_set_mtu(net.node[0].nif, 20000), -EINVAL);
	CHECK_EQ(weft_netif_set_mtu(net.node[0].nif, 1300), 0);
	weft_tcp_mtu_changed(net.node[0].tcp, net.node[0].nif);
	weft_netif_flush(net.node[0].nif, sim_now_ns(net.sim));
	look_anew();
	all_arrives(a, 2 * WEFT_NS_PER_S);
	CHECK_EQ(longest, 1300);
	CHECK_EQ(a->mss_calls, 1);
	CHECK_EQ(a->mss, info_of(a).mss_bytes);
	CHECK_EQ(st->pmtu_lowered, 1);
	CHECK_EQ(weft_netif_set_mtu(net.node[0].nif, 1500), 0);
	weft_tcp_mtu_changed(net.node[0].tcp, net.node[0].nif);
	more(a, 100000);
	all_arrives(a, WEFT_NS_PER_S);
	CHECK_EQ(longest, 1500);
	CHECK_EQ(st->pmtu_raised, 1);
	pair_down(a);
}

/** Runs until all has arrived, and returns the log lines that name a black hole. */
static unsigned int
arrives_logged(struct net_app *a, uint64_t ns, const char *line)
{
	unsigned int n = 0;
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	CHECK(f != NULL);
	CHECK_EQ(rte_openlog_stream(f), 0);
	all_arrives(a, ns);
	rte_openlog_stream(NULL);
	fclose(f);
	for (const char *p = text; (p = strstr(p, "vanish")) != NULL; p++)
		n++;
	CHECK_MSG(n == 0 || strstr(text, line) != NULL, "%s", text);
	free(text);
	return n;
}

/** Jumbo frames between two hosts, and a switch that drops them in silence. One line a peer, when
 * the size has vanished for the second time, however often it is tried again and however many
 * connections there are; another when the switch was mended and failed again. */
static void
vanishing(uint64_t seed)
{
	/* Where segments are also lost by chance, one of the right size may be among them. */
	const char *const line =
	        seed % 4 == 0
	                ? "weft.tcp: peer 10.0.0.2: its 9000-octet segments vanish; using 1500 "
	                : "weft.tcp: peer 10.0.0.2: its 9000-octet segments vanish; using 1";
	const uint16_t least = seed % 4 == 0 ? 1500 : 1280;
	struct weft_tcp_attr both[2] = {{0}, {0}};
	const struct weft_tcp_stats *st;
	struct net_app *a;

	test_seed_note(seed);
	path_plain();
	path[0].mtu_silent = path[1].mtu_silent = true;
	path[0].mtu_bytes = path[1].mtu_bytes = 1500 + seed % 3 * 500;
	path[0].loss_ppm = path[1].loss_ppm = (uint32_t)(seed % 4) * 1000;
	look_anew();
	net_up(&net, seed, path, both, 9000);
	sim_link_watch(net.link, look, NULL);
	net_listen(&net, 1);
	net.accept_as = (struct net_app){.close_on_eof = true};
	a = net_connect(&net, 0, 7);
	st = weft_tcp_stats(net.node[0].tcp);
	a->to_send = 1000000;
	a->close_on_eof = false;
	/* Once may be an interruption of the path. */
	CHECK_EQ(arrives_logged(a, 60 * WEFT_NS_PER_S, line), 0);
	CHECK_EQ(st->blackholes, 1);
	CHECK_EQ(st->blackhole_peers, 0);
	CHECK(info_of(a).pmtu_bytes >= least && info_of(a).pmtu_bytes <= 1500);
	for (unsigned int k = 0; k < 3; k++) {
		net_run(&net, (12ULL << k) * WEFT_NS_PER_S, NULL, NULL);
		more(a, 300000);
		CHECK_EQ(arrives_logged(a, 60 * WEFT_NS_PER_S, line), k == 0);
		CHECK(info_of(a).pmtu_bytes >= least && info_of(a).pmtu_bytes <= 1500);
	}
	CHECK(st->blackholes > 1);
	CHECK_EQ(st->blackhole_peers, 1);
	/* Mended: jumbo frames again. */
	path_mtu(0);
	net_run(&net, 200 * WEFT_NS_PER_S, NULL, NULL);
	more(a, 300000);
	CHECK_EQ(arrives_logged(a, 60 * WEFT_NS_PER_S, line), 0);
	CHECK_EQ(info_of(a).pmtu_bytes, 9000);
	/* And broken again. */
	path_mtu(1500);
	more(a, 300000);
	CHECK_EQ(arrives_logged(a, 60 * WEFT_NS_PER_S, line), 0);
	net_run(&net, 12 * WEFT_NS_PER_S, NULL, NULL);
	more(a, 300000);
	CHECK_EQ(arrives_logged(a, 60 * WEFT_NS_PER_S, line), 1);
	CHECK_EQ(st->blackhole_peers, 2);
	pair_down(a);
}

/** The limit of log lines sees two seconds pass at each line. */
static uint64_t
log_clock(void)
{
	static uint64_t now_ns;

	return now_ns += 2 * WEFT_NS_PER_S;
}

static void
test_vanishing(void)
{
	weft_log_clock(log_clock);
	if (test_seed_given()) {
		vanishing(test_seed(0));
		return;
	}
	for (uint64_t seed = 1; seed <= 24; seed++)
		vanishing(seed);
}

/** Paths with random changes of size and losses, by seed: every octet arrives. */
static void
hostile(uint64_t seed)
{
	struct weft_tcp_attr attr = {.pmtu_raise_us = 3000000, .data_retries = 15};
	struct net_app *a;
	uint64_t r = seed * 0x9e3779b97f4a7c15ULL;

	test_seed_note(seed);
	path_plain();
	path[0].loss_ppm = path[1].loss_ppm = (uint32_t)(r >> 8) % 4 * 10000;
	path[0].mtu_silent = (r >> 16) % 4 == 0;
	path[0].mtu_old = (r >> 18) % 4 == 0;
	a = pair_up(seed, &attr, 2000000);
	a->max_seg = (r >> 20) % 2 == 0 ? 0 : 4000;
	for (unsigned int i = 0; i < 5; i++) {
		net_run(&net, 4 * WEFT_NS_PER_MS, NULL, NULL);
		path_mtu((uint16_t)(576 + (r >> (24 + 7 * i)) % 1000));
	}
	CHECK_MSG(net_run(&net, 600 * WEFT_NS_PER_S, arrived, a),
	          "seed %" PRIu64 ": %" PRIu64 " of %" PRIu64 ", mtu %u", seed, net.app[1].received,
	          a->to_send, path[0].mtu_bytes);
	CHECK_MSG(!net.app[1].bad_data && !a->torn, "seed %" PRIu64, seed);
	pair_down(a);
}

static void
test_hostile(void)
{
	if (test_seed_given()) {
		hostile(test_seed(0));
		return;
	}
	for (uint64_t seed = 1; seed <= 60; seed++)
		hostile(seed);
}

static bool
has_split(void *arg)
{
	(void)arg;
	return weft_tcp_stats(net.node[0].tcp)->segs_split > 0;
}

/**
 * Few segments may be queued, and the path becomes too narrow for them. Their parts do not wait for
 * each other's acknowledgment, so the loss of one part costs no timeout.
 */
static void
test_few_segs(void)
{
	for (uint64_t seed = 1; seed <= 48; seed++) {
		struct weft_tcp_attr attr = {.max_snd_segs_total = 1 + seed % 6,
		                             .max_conns = 1 + seed / 6 % 2,
		                             .no_sack = seed % 4 < 2};
		const struct weft_tcp_stats *st;
		struct net_app *a;

		test_seed_note(seed);
		path_plain();
		path[0].mtu_bytes = 576;
		a = pair_up(seed, &attr, 20000);
		st = weft_tcp_stats(net.node[0].tcp);
		CHECK(net_run(&net, WEFT_NS_PER_S, has_split, NULL));
		path[1].loss_mask = 1;
		sim_link_set(net.link, 1, &path[1]);
		all_arrives(a, 2 * WEFT_NS_PER_S);
		CHECK(sim_link_stats(net.link, 1)->lost == 1);
		CHECK_EQ(st->rtos, 0);
		CHECK(st->pmtu_lowered > 0 && st->segs_split > 1);
		pair_down(a);
	}
}

/** Beyond the connection's share, only a few parts of a segment are in flight. Beyond what the
 * port lends there are none, except one if none is in flight. */
static void
test_few_segs_lent(void)
{
	for (unsigned int lent = 0; lent < 2; lent++) {
		struct weft_tcp_attr attr = {.max_snd_segs_total = 1, .max_conns = 1};
		struct weft_netif_budget *b;
		struct weft_tcp_conn *c;
		uint64_t limit;

		open_conn(&attr, &(struct net_app){.to_send = 5 * MSS});
		c = app->c;
		CHECK_EQ(c->snd_segs, 1);
		b = &weft_netif_budgets(net.node[0].nif)->snd;
		limit = b->limit;
		if (lent == 0)
			b->limit = 1;
		c->pmtu_bytes = 296;
		tcp_mss_update(c);
		CHECK_EQ(c->mss, 256);
		tcp_seg_lost(c, c->sq_head);
		tcp_output(c, sim_now_ns(net.sim));
		run_for(WEFT_NS_PER_MS);
		CHECK_EQ(net.node[1].nsegs, lent == 0 ? 1 : 4);
		CHECK_EQ(c->snd_segs, lent == 0 ? 2 : 5);
		/* After an acknowledgment the next part is sent, and the last one, which is
		 * short enough. */
		seg_wait(TCP_ACK, IRS + 1, c->snd_una + 256, 65535, 0, 0);
		CHECK_EQ(net.node[1].nsegs, lent == 0 ? 1 : 2);
		b->limit = limit;
		weft_tcp_abort(c, sim_now_ns(net.sim));
		run_for(WEFT_NS_PER_MS);
		down();
	}
}

WEFT_TEST_MAIN({"too_big", test_too_big}, {"narrower", test_narrower},
               {"old_router", test_old_router}, {"not_believed", test_not_believed},
               {"burst", test_burst}, {"timeout_is_no_proof", test_timeout_is_no_proof},
               {"floor", test_floor}, {"cache", test_cache}, {"cache_bound", test_cache_bound},
               {"raise", test_raise}, {"raise_in_vain", test_raise_in_vain},
               {"blackhole", test_blackhole}, {"not_the_size", test_not_the_size},
               {"off", test_off}, {"restore_narrower", test_restore_narrower},
               {"interface_silent", test_interface_silent}, {"interface", test_interface},
               {"no_doubt_while_slow", test_no_doubt_while_slow}, {"hostile", test_hostile},
               {"few_segs", test_few_segs}, {"few_segs_lent", test_few_segs_lent},
               {"a peer whose large segments vanish is named once", test_vanishing})
