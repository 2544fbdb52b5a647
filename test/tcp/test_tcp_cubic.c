/* SPDX-License-Identifier: BSD-3-Clause */
/** @file CUBIC's integer arithmetic compared with RFC 9438's formulas in floating point, and its
 * events. */

#include <math.h>

#include "tcp_cc.h"
#include "tcp_conn.h"
#include "tcp_instance.h"
#include "weft_test.h"

#define MSS 1460

static struct weft_tcp t = {.attr = {.snd_buf_bytes = 1u << 30}};
static struct weft_tcp_conn c;

static void
fresh(uint32_t cwnd_segs)
{
	c = (struct weft_tcp_conn){.t = &t, .mss = MSS, .cc = &tcp_cubic_ops};
	c.cc->init(&c);
	c.cwnd = cwnd_segs * MSS;
	c.ssthresh = c.cwnd;
}

/** s4.2 figures 1 and 2, for windows from 10 segments to 500,000. */
static void
test_curve(void)
{
	for (double w_max = 10; w_max < 600000; w_max *= 1.7) {
		double cwnd = w_max * 0.7, k = cbrt((w_max - cwnd) / 0.4);
		struct tcp_cubic q = {.w_max = (uint32_t)(w_max * MSS)};

		q.k = tcp_cubic_k((uint32_t)((w_max - cwnd) * MSS), MSS);
		CHECK_MSG(fabs(q.k * 262144e-9 - k) < 0.0006, "W_max %f: K %f, not %f", w_max,
		          q.k * 262144e-9, k);
		for (double at = 0; at < 2 * k; at += k / 37) {
			double want = 0.4 * pow(at - k, 3) + w_max;
			double got = (double)tcp_cubic_w(&q, (uint64_t)(at * 1e9), MSS) / MSS;
			/* the deviation caused by the unit of time, and one segment */
			double slack = 1 + 1.2 * (at - k) * (at - k) * 0.0009;

			CHECK_MSG(fabs(got - want) <= slack, "W_max %f t %f: %f, not %f", w_max, at,
			          got, want);
		}
	}
}

/** A whole congestion avoidance stage, ACK by ACK: concave, plateau, convex, never below the
 * Reno-friendly estimate. */
static void
test_stage(void)
{
	const double rtt = 0.1;
	double cwnd, w_est, k, prior = 1000, prev;
	uint64_t now = WEFT_NS_PER_S;

	fresh(1000);
	c.srtt8_us = 8 * 100000;
	c.ssthresh = c.cc->ssthresh(&c, c.cwnd, now);
	CHECK_EQ(c.ssthresh, 700 * MSS); /* s4.6: beta = 0.7 */
	CHECK_EQ(c.cubic.w_max, 1000 * MSS);
	c.cwnd = c.ssthresh;
	cwnd = w_est = 700;
	k = cbrt(300 / 0.4);
	for (double at = 0; at < 2 * k; at += rtt) {
		double n = cwnd, target;

		prev = (double)c.cwnd;
		for (double got = 0; got + 1 <= n; got++) {
			double w = 0.4 * pow(at - k, 3) + prior;

			/* s4.3 figure 4, s4.2's bounds, s4.4 */
			w_est += (w_est < prior ? 9.0 / 17 : 1) / cwnd;
			if (w < w_est) {
				cwnd = fmax(cwnd, w_est);
			} else {
				target = 0.4 * pow(at + rtt - k, 3) + prior;
				target = fmin(fmax(target, cwnd), 1.5 * cwnd);
				cwnd += (target - cwnd) / cwnd;
			}
			c.cc->acked(&c, MSS, now + (uint64_t)(at * 1e9));
		}
		CHECK(c.cwnd >= prev);
		CHECK_MSG(fabs((double)c.cwnd / MSS - cwnd) <= 2 + cwnd / 200, "t %f: %f, not %f",
		          at, (double)c.cwnd / MSS, cwnd);
	}
	CHECK(c.cwnd > 1000 * MSS);
}

/** s4.3: at a short round trip it is no slower than AIMD(1, 0.5) would be on average. */
static void
test_friendly(void)
{
	fresh(100);
	c.srtt8_us = 8 * 1000;
	c.cc->ssthresh(&c, c.cwnd, 1);
	c.cwnd = 70 * MSS;
	/* 60 round trips of 1 ms: the curve has hardly risen, and the estimate by alpha = 9/17
	 * in each round trip. */
	for (unsigned int i = 0; i < 60; i++)
		for (unsigned int n = c.cwnd / MSS; n > 0; n--)
			c.cc->acked(&c, MSS, WEFT_NS_PER_S + i * WEFT_NS_PER_MS);
	CHECK(c.cwnd >= (70 + 60 * 9 / 17 - 2) * MSS);
	CHECK(c.cwnd <= (70 + 60 * 9 / 17 + 2) * MSS);
	/* Beyond cwnd_prior alpha is 1. */
	for (unsigned int i = 0; i < 40; i++)
		for (unsigned int n = c.cwnd / MSS; n > 0; n--)
			c.cc->acked(&c, MSS, WEFT_NS_PER_S + (60 + i) * WEFT_NS_PER_MS);
	CHECK(c.cwnd > 130 * MSS);
}

/**
 * s4.3: alpha stays below 1 until W_est has reached the window from before the last reduction, also
 * where the stage begins at its own plateau after a timeout (s4.8).
 */
static void
test_friendly_after_timeout(void)
{
	fresh(100);
	c.srtt8_us = 8 * 1000;
	tcp_cc_timeout(&c, 1);
	c.cwnd = c.ssthresh = 70 * MSS;
	for (unsigned int i = 0; i < 60; i++)
		for (unsigned int n = c.cwnd / MSS; n > 0; n--)
			c.cc->acked(&c, MSS, WEFT_NS_PER_S + i * WEFT_NS_PER_MS);
	CHECK(c.cwnd >= (70 + 60 * 9 / 17 - 2) * MSS);
	CHECK(c.cwnd <= (70 + 60 * 9 / 17 + 2) * MSS);
	/* Without an earlier reduction, alpha is 1 from the start of the stage. */
	fresh(100);
	c.srtt8_us = 8 * 1000;
	for (unsigned int i = 0; i < 30; i++)
		for (unsigned int n = c.cwnd / MSS; n > 0; n--)
			c.cc->acked(&c, MSS, WEFT_NS_PER_S + i * WEFT_NS_PER_MS);
	CHECK_MSG(c.cwnd >= 128 * MSS, "%u", c.cwnd / MSS);
}

/** s4.7, s4.8, s4.9, s5.8 */
static void
test_events(void)
{
	struct tcp_cubic q;
	uint32_t cwnd;

	/* Fast convergence: a second loss below W_max lowers the plateau to 0.85 of cwnd. */
	fresh(1000);
	c.ssthresh = c.cc->ssthresh(&c, c.cwnd, 1);
	c.cwnd = 800 * MSS;
	c.ssthresh = c.cc->ssthresh(&c, c.cwnd, 2);
	CHECK_EQ(c.cubic.w_max, 680 * MSS);
	CHECK_EQ(c.ssthresh, 560 * MSS);
	/* After a timeout K = 0 and the plateau is where avoidance begins. */
	fresh(1000);
	tcp_cc_timeout(&c, 1);
	CHECK_EQ(c.cwnd, MSS);
	c.cwnd = c.ssthresh = 500 * MSS;
	c.cc->acked(&c, MSS, WEFT_NS_PER_S);
	CHECK_EQ(c.cubic.k, 0);
	CHECK_EQ(c.cubic.w_max, 500 * MSS);
	/* An undo restores the whole state. An undo that is too late changes nothing. */
	fresh(1000);
	c.snd_max = 1000 * MSS;
	c.cc->acked(&c, MSS, WEFT_NS_PER_S);
	q = c.cubic;
	cwnd = c.cwnd;
	tcp_cc_reduce(&c, 2 * WEFT_NS_PER_S);
	c.cwnd = c.ssthresh;
	tcp_cc_undo(&c);
	CHECK_EQ(c.cwnd, cwnd);
	CHECK_MEM(&c.cubic, &q, sizeof(q));
	tcp_cc_undo(&c);
	CHECK_EQ(t.stats.undos, 1);
	tcp_cc_reduce(&c, 2 * WEFT_NS_PER_S);
	c.cwnd = 2000 * MSS;
	tcp_cc_undo(&c);
	CHECK_EQ(c.cwnd, 2000 * MSS);
	/* t does not advance while the application sends too little. */
	fresh(1000);
	c.cc->ssthresh(&c, c.cwnd, 1);
	c.cwnd = 700 * MSS;
	c.cc->acked(&c, MSS, WEFT_NS_PER_S);
	c.ssthresh = 700 * MSS;
	c.snd_una = c.cwnd_used + MSS;
	tcp_cc_grow(&c, MSS, 50 * WEFT_NS_PER_S);
	CHECK_EQ(c.cwnd / MSS, 700);
	c.cc->acked(&c, MSS, 50 * WEFT_NS_PER_S + WEFT_NS_PER_MS);
	CHECK(c.cwnd < 702 * MSS);
}

WEFT_TEST_MAIN({"curve", test_curve}, {"stage", test_stage}, {"friendly", test_friendly},
               {"friendly_after_timeout", test_friendly_after_timeout}, {"events", test_events})
