/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The rate of a bulk sender on a link with random loss, compared with the rate that the
 * RFCs promise. */

#include "tcp_net.h"

#define LOSS_PPM 10000
#define OCTETS   (16u << 20)
#define RUNS     5

static uint64_t rtos;

static bool
all_closed(void *arg)
{
	struct net *n = arg;

	for (unsigned int i = 0; i < n->napps; i++) {
		if (!n->app[i].closed)
			return false;
	}
	return true;
}

/** MB/s of one transfer over a link with this delay in each direction. */
static double
goodput(uint64_t seed, uint64_t delay_ns, enum weft_tcp_cc cc, bool both)
{
	static struct net n;
	struct sim_link_cfg cfg[2] = {{.loss_ppm = LOSS_PPM, .delay_ns = delay_ns},
	                              {.loss_ppm = both ? LOSS_PPM : 0, .delay_ns = delay_ns}};
	struct weft_tcp_attr attr[2] = {{.cc = cc}, {.cc = cc}};
	struct net_app *a;
	uint64_t begin_ns, took_ns;
	const struct weft_tcp_stats *st;

	net_up(&n, seed, cfg, attr, 1500);
	n.accept_as = (struct net_app){.close_on_eof = true};
	net_listen(&n, 1);
	a = net_connect(&n, 0, 7);
	a->to_send = OCTETS;
	a->close_when_sent = true;
	begin_ns = n.node[0].sched.now_ns;
	CHECK(net_run(&n, 100 * WEFT_NS_PER_S, all_closed, &n));
	took_ns = n.node[0].sched.now_ns - begin_ns;
	st = weft_tcp_stats(n.node[0].tcp);
	test_note("seed %" PRIu64 ": %.2f MB/s, resent %" PRIu64 ", needlessly %" PRIu64
	          ", recoveries %" PRIu64 ", RTOs %" PRIu64 ", probes %" PRIu64,
	          seed, (double)OCTETS * 1e3 / (double)took_ns, st->retrans_segs,
	          st->spurious_retrans, st->recoveries, st->rtos, st->tlp_probes);
	rtos += st->rtos;
	net_down(&n);
	return (double)OCTETS * 1e3 / (double)took_ns;
}

/*
 * RFC 9438 s4.3 keeps CUBIC at least as fast as Reno, whose mean window under random loss is
 * sqrt(3 / 2p) segments (RFC 3448 s3.1 without its timeouts).
 */
static void
test_random_loss(enum weft_tcp_cc cc, uint64_t delay_ns)
{
	const double reno_segs = 12.2, mss = 1448; /* sqrt(1.5 / 0.01) */
	double sum = 0, promised = reno_segs * mss * 1e3 / (2.0 * (double)delay_ns);

	rtos = 0;
	for (unsigned int i = 0; i < RUNS; i++)
		sum += goodput(test_seed(1) + i, delay_ns, cc, true);
	test_note("mean %.2f MB/s, Reno's %.2f", sum / RUNS, promised);
	CHECK(sum / RUNS > 0.6 * promised);
	/* Two lost ACKs, or an ACK and a probe: rare, and the only way to a timeout here. */
	CHECK(rtos <= 2);
}

static void
test_cubic_short(void)
{
	test_random_loss(WEFT_TCP_CC_CUBIC, 500 * WEFT_NS_PER_US);
}

static void
test_cubic_long(void)
{
	test_random_loss(WEFT_TCP_CC_CUBIC, 5 * WEFT_NS_PER_MS);
}

static void
test_newreno(void)
{
	test_random_loss(WEFT_TCP_CC_NEWRENO, 500 * WEFT_NS_PER_US);
}

WEFT_TEST_MAIN({"cubic_1_percent_1_ms", test_cubic_short},
               {"cubic_1_percent_10_ms", test_cubic_long}, {"newreno_1_percent_1_ms", test_newreno})
