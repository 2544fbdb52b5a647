/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Loss recovery between two whole stacks: rates under loss, reordering, lost tails, lost
 * retransmissions; with SACK against without.
 */

#include <inttypes.h>

#include "tcp_net.h"

static struct net net;

struct outcome {
	struct weft_tcp_stats st; /**< statistics of the sender */
	uint64_t ns;              /**< time until the last octet arrived */
	uint32_t cwnd_min, cwnd_max, cwnd_end, mss;
	bool below_mss; /**< cwnd was below the MSS at some moment */
	uint32_t rto_min_us, rto_max_us;
	bool arrived;
};

static bool
all_there(void *arg)
{
	struct outcome *o = arg;
	struct net_app *a = &net.app[0], *b = &net.app[1];
	struct weft_tcp_info i;

	if (net.napps < 2 || a->c == NULL)
		return false;
	weft_tcp_info(a->c, &i);
	if (i.state != WEFT_TCP_ESTABLISHED)
		return b->received == a->to_send;
	/* The MSS of that moment: a suspected black hole lowers it for a while. */
	o->below_mss |= i.cwnd_bytes < i.mss_bytes;
	o->cwnd_min = RTE_MIN(o->cwnd_min, i.cwnd_bytes);
	o->cwnd_max = RTE_MAX(o->cwnd_max, i.cwnd_bytes);
	o->rto_min_us = RTE_MIN(o->rto_min_us, i.rto_us);
	o->rto_max_us = RTE_MAX(o->rto_max_us, i.rto_us);
	o->cwnd_end = i.cwnd_bytes;
	o->mss = i.mss_bytes;
	return b->received == a->to_send;
}

/** Transfer `bytes` from node 0 to node 1. Nothing may leak. */
static struct outcome
move(uint64_t seed, const struct sim_link_cfg cfg[2], const struct weft_tcp_attr *both,
     uint64_t bytes)
{
	struct weft_tcp_attr attr[2] = {{0}, {0}};
	struct outcome o = {.cwnd_min = UINT32_MAX, .rto_min_us = UINT32_MAX};
	struct net_app *a;

	if (both != NULL)
		attr[0] = attr[1] = *both;
	net_up(&net, seed, cfg, attr, 1500);
	net_listen(&net, 1);
	net.accept_as = (struct net_app){.close_on_eof = true};
	a = net_connect(&net, 0, 7);
	a->to_send = bytes;
	a->close_when_sent = true;
	o.arrived = net_run(&net, 3000 * WEFT_NS_PER_S, all_there, &o);
	o.ns = sim_now_ns(net.sim) - SIM_START_NS;
	o.st = *weft_tcp_stats(net.node[0].tcp);
	CHECK_MSG(o.arrived, "seed %" PRIu64 ": %" PRIu64 " of %" PRIu64, seed, net.app[1].received,
	          bytes);
	CHECK(net_run_closed(&net, 200 * WEFT_NS_PER_S));
	CHECK(!net.app[1].bad_data && net.app[0].err == 0 && net.app[1].err == 0);
	/* RFC 5681 s3.1: the loss window is one segment; RFC 6298 s2.4, s2.5 */
	CHECK_MSG(!o.below_mss, "seed %" PRIu64 ": cwnd %u", seed, o.cwnd_min);
	CHECK(o.rto_min_us >= 200000 && o.rto_max_us <= 60000000);
	net_check_idle(&net);
	net_down(&net);
	return o;
}

static struct sim_link_cfg
link_of(uint64_t rtt_us, uint64_t rate_bps)
{
	return (struct sim_link_cfg){
	        .delay_ns = rtt_us * WEFT_NS_PER_US / 2,
	        .rate_bps = rate_bps,
	        .queue_pkts = 4000,
	};
}

/** 0.1 to 20 %, one way and both, with and without SACK, CUBIC and NewReno. */
static void
test_uniform(void)
{
	static const uint32_t ppm[] = {1000, 10000, 30000, 100000, 200000};

	for (unsigned int i = 0; i < RTE_DIM(ppm); i++) {
		for (unsigned int how = 0; how < 8; how++) {
			struct sim_link_cfg cfg[2] = {link_of(1000, 1000000000), link_of(1000, 0)};
			struct weft_tcp_attr attr = {
			        .no_sack = how & 1,
			        .cc = how & 2 ? WEFT_TCP_CC_NEWRENO : WEFT_TCP_CC_CUBIC,
			        .rto_max_us = 4000000, /* otherwise a run takes hours */
			        .data_retries = 20,
			        .syn_retries = 20,
			};

			cfg[0].loss_ppm = ppm[i];
			cfg[1].loss_ppm = how & 4 ? ppm[i] : 0;
			move(test_seed(i * 8 + how), cfg, &attr, ppm[i] > 50000 ? 200000 : 2000000);
		}
	}
}

static void
test_burst(void)
{
	uint64_t first = test_seed(1), n = test_seed_given() ? 1 : 20;

	for (uint64_t seed = first; seed < first + n; seed++) {
		struct sim_link_cfg cfg[2] = {link_of(2000, 1000000000), link_of(2000, 0)};

		cfg[0].burst_loss_ppm = 2000;
		/* A burst is counted in packets. A burst longer than the retransmissions is an
		 * outage. */
		cfg[0].burst_len = 1 + (uint32_t)(seed * 7 % 16);
		move(seed, cfg, NULL, 3000000);
	}
}

/** Mean rate in Mbit/s over several seeds. *rtos: timeouts of all of them. */
static double
rate(struct sim_link_cfg forth, const struct weft_tcp_attr *attr, uint64_t bytes, uint64_t *rtos)
{
	uint64_t ns = 0;

	*rtos = 0;
	for (uint64_t seed = 1; seed <= 6; seed++) {
		struct sim_link_cfg cfg[2] = {forth, forth};
		struct outcome o;

		cfg[1].loss_ppm = 0;
		o = move(seed, cfg, attr, bytes);
		ns += o.ns;
		*rtos += o.st.rtos;
	}
	return 6.0 * (double)bytes * 8e3 / (double)ns;
}

/**
 * Recovery with SACK compared with NewReno's, with the same window, over 10 ms and 1 Gbit/s. Under
 * random loss the window itself is the limit, sqrt(3/2 / p) segments (RFC 9438 s4.3 figure 3 for
 * AIMD(1, 0.5)). Where many segments of one window are lost, recovery is.
 */
static void
test_goodput(void)
{
	struct weft_tcp_attr reno = {.rcv_buf_bytes = 4 << 20,
	                             .no_sack = true,
	                             .cc = WEFT_TCP_CC_NEWRENO},
	                     sack = {.rcv_buf_bytes = 4 << 20, .cc = WEFT_TCP_CC_NEWRENO},
	                     cubic = {.rcv_buf_bytes = 4 << 20};
	struct sim_link_cfg link = link_of(10000, 1000000000);
	double with, without, best, bound = 1448 * 8e-6 / 0.01 * 1.2247 / 0.1;
	uint64_t rtos[3];

	link.loss_ppm = 10000;
	without = rate(link, &reno, 4 << 20, &rtos[0]);
	with = rate(link, &sack, 4 << 20, &rtos[1]);
	best = rate(link, &cubic, 4 << 20, &rtos[2]);
	printf("# 1 %% loss: SACK %.1f, and CUBIC %.1f, without SACK %.1f, bound by NewReno's "
	       "window "
	       "%.1f Mbit/s; %" PRIu64 ", %" PRIu64 ", %" PRIu64 " timeouts\n",
	       with, best, without, bound, rtos[1], rtos[2], rtos[0]);
	CHECK_MSG(with >= 0.9 * bound, "%.2f of the window's bound", with / bound);
	CHECK_MSG(best >= with, "%.2f times NewReno's", best / with);
	CHECK_MSG(best >= 1.1 * without, "%.2f times NewReno's without SACK", best / without);
	CHECK_EQ(rtos[1] + rtos[2], 0);

	link.loss_ppm = 50000;
	without = rate(link, &reno, 1 << 20, &rtos[0]);
	with = rate(link, &sack, 1 << 20, &rtos[1]);
	printf("# 5 %% loss: SACK %.1f, without %.1f Mbit/s; %" PRIu64 ", %" PRIu64 " timeouts\n",
	       with, without, rtos[1], rtos[0]);
	CHECK_MSG(with >= without, "%.2f times NewReno's", with / without);
	CHECK(rtos[1] * 2 <= rtos[0]);

	/* Slow start overfills a short queue, which drops hundreds of segments of one window. */
	link.loss_ppm = 0;
	link.queue_pkts = 600;
	without = rate(link, &reno, 16 << 20, &rtos[0]);
	with = rate(link, &sack, 16 << 20, &rtos[1]);
	printf("# overrun queue: SACK %.1f, without %.1f Mbit/s; %" PRIu64 ", %" PRIu64
	       " timeouts\n",
	       with, without, rtos[1], rtos[0]);
	CHECK_MSG(with >= 3 * without, "%.2f times NewReno's", with / without);
	CHECK_EQ(rtos[1], 0);
}

/** RFC 8985 s6.2 step 4: reordering without loss costs little, even over long distances. */
static void
test_reorder(void)
{
	uint64_t straight, crossed;

	for (unsigned int back = 1; back <= 8; back *= 2) {
		struct sim_link_cfg cfg[2] = {link_of(4000, 1000000000), link_of(4000, 0)};
		struct outcome o;

		straight = move(1, cfg, NULL, 8 << 20).ns;
		cfg[0].reorder_ppm = 30000;
		cfg[0].reorder_ns = back * 400 * WEFT_NS_PER_US;
		o = move(1, cfg, NULL, 8 << 20);
		crossed = o.ns;
		printf("# held back %u us: %.2f of the rate; %" PRIu64 " recoveries, %" PRIu64
		       " undone, %" PRIu64 " of %" PRIu64 " retransmissions needless\n",
		       400 * back, (double)straight / crossed, o.st.recoveries, o.st.undos,
		       o.st.spurious_retrans, o.st.retrans_segs);
		CHECK_EQ(o.st.rtos, 0);
		CHECK_MSG(crossed <= 2 * straight, "%u us: %.2f of the rate", 400 * back,
		          (double)straight / crossed);
		CHECK(o.cwnd_end >= 20 * o.mss);
	}
}

/** RFC 8985 s7: no timeout, whatever part of the tail is lost. */
static void
test_tail(void)
{
	const unsigned int segs = 10;

	for (unsigned int n = 1; n < segs; n++) {
		struct sim_link_cfg cfg[2] = {link_of(2000, 1000000000), link_of(2000, 0)};
		const struct weft_tcp_stats *st;
		struct net_app *a;
		uint64_t start;

		net_up(&net, n, cfg, NULL, 1500);
		net_listen(&net, 1);
		net.accept_as = (struct net_app){.close_on_eof = true};
		a = net_connect(&net, 0, 7);
		CHECK(!net_run(&net, WEFT_NS_PER_S, NULL, NULL));
		st = weft_tcp_stats(net.node[0].tcp);
		cfg[0].loss_mask = ((1ULL << n) - 1) << (segs - n);
		sim_link_set(net.link, 0, &cfg[0]);
		start = sim_now_ns(net.sim);
		a->node->sched.now_ns = start;
		a->to_send = (uint64_t)segs * weft_tcp_mss(a->c);
		net_app_push(a);
		while (net.app[1].received < a->to_send && sim_now_ns(net.sim) < start + 400000000)
			net_run(&net, WEFT_NS_PER_MS, NULL, NULL);
		CHECK_EQ(net.app[1].received, a->to_send);
		CHECK_MSG(st->rtos == 0, "the last %u lost: %" PRIu64 " timeouts", n, st->rtos);
		CHECK_MSG(st->tlp_probes >= 1, "the last %u lost: no probe", n);
		CHECK_MSG(sim_now_ns(net.sim) - start < 60 * WEFT_NS_PER_MS, "the last %u lost", n);
		weft_tcp_close(a->c, sim_now_ns(net.sim));
		CHECK(net_run_closed(&net, 10 * WEFT_NS_PER_S));
		net_check_idle(&net);
		net_down(&net);
	}
}

WEFT_TEST_MAIN({"uniform", test_uniform}, {"burst", test_burst}, {"goodput", test_goodput},
               {"reorder", test_reorder}, {"tail", test_tail})
