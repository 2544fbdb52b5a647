/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * CUBIC (RFC 9438) in integers. Windows are in octets. The unit of time is 2^18 ns. With it, the
 * error of the curve stays below one segment over the longest epoch.
 */

#include "tcp_cc.h"
#include "tcp_conn.h"
#include "tcp_math.h"

#define CUBIC_UNIT_SHIFT 18
/** A cube must fit into 63 bits. Beyond 2^20 units (275 s) the curve is above any window. */
#define CUBIC_MAX_UNITS (1u << 20)
/** C = 0.4 segments/s^3 (s5.1) times unit^3, as a fraction of 2^64. */
#define CUBIC_C_FRAC 132922800ull
/* beta_cubic = 0.7 (s4.6); alpha_cubic = 3 (1 - beta) / (1 + beta) = 9 / 17 (s4.3) */
#define CUBIC_BETA_NUM  7
#define CUBIC_BETA_DEN  10
#define CUBIC_ALPHA_NUM 9
#define CUBIC_ALPHA_DEN 17

__extension__ typedef unsigned __int128 cubic_u128;

static uint32_t
cubic_units(uint64_t ns)
{
	return (uint32_t)RTE_MIN(ns >> CUBIC_UNIT_SHIFT, (uint64_t)CUBIC_MAX_UNITS);
}

/** C * |d|^3 in octets. */
static uint64_t
cubic_delta(uint32_t d, uint16_t mss)
{
	uint64_t cube = (uint64_t)d * d * d;

	return (uint64_t)(((cubic_u128)cube * (CUBIC_C_FRAC * mss)) >> 64);
}

/** The largest r with r^3 <= x. */
static uint32_t
cubic_root(uint64_t x)
{
	uint32_t r = 0;

	for (int bit = 20; bit >= 0; bit--) {
		uint64_t t = r | 1u << bit;

		if (t <= CUBIC_MAX_UNITS && t * t * t <= x)
			r = (uint32_t)t;
	}
	return r;
}

uint32_t
tcp_cubic_k(uint32_t deficit, uint16_t mss)
{
	cubic_u128 x = ((cubic_u128)deficit << 64) / ((cubic_u128)CUBIC_C_FRAC * mss);

	return cubic_root(x >> 63 != 0 ? INT64_MAX : (uint64_t)x);
}

uint32_t
tcp_cubic_w(const struct tcp_cubic *q, uint64_t t_ns, uint16_t mss)
{
	uint32_t t = cubic_units(t_ns);
	uint64_t d;

	if (t < q->k) {
		d = cubic_delta(q->k - t, mss);
		return d < q->w_max ? q->w_max - (uint32_t)d : 0;
	}
	d = q->w_max + cubic_delta(t - q->k, mss);
	return (uint32_t)RTE_MIN(d, (uint64_t)INT32_MAX);
}

static void
cubic_init(struct weft_tcp_conn *c)
{
	c->cubic = (struct tcp_cubic){0};
}

static uint32_t
cubic_ssthresh(struct weft_tcp_conn *c, uint32_t flight, uint64_t now_ns)
{
	struct tcp_cubic *q = &c->cubic;

	(void)now_ns;
	q->cwnd_prior = c->cwnd;
	/* s4.7, fast convergence: the saturation point fell, so leave room for other flows. */
	if (c->cwnd < q->w_max)
		q->w_max = (uint32_t)((uint64_t)c->cwnd * (CUBIC_BETA_DEN + CUBIC_BETA_NUM) /
		                      (2 * CUBIC_BETA_DEN));
	else
		q->w_max = c->cwnd;
	q->epoch_ns = 0;
	q->from_slow_start = false;
	/* s4.6: flight_size, as in the RFC */
	return RTE_MAX((uint32_t)((uint64_t)flight * CUBIC_BETA_NUM / CUBIC_BETA_DEN), 2u * c->mss);
}

/** s4.8: the first stage after a timeout begins with K = 0. */
static void
cubic_timeout(struct weft_tcp_conn *c)
{
	c->cubic.from_slow_start = true;
}

static void
cubic_epoch(struct weft_tcp_conn *c, uint64_t now_ns)
{
	struct tcp_cubic *q = &c->cubic;

	q->epoch_ns = now_ns;
	q->last_ns = now_ns;
	q->w_est = c->cwnd;
	q->est_rem = q->cwnd_rem = 0;
	if (q->from_slow_start || q->w_max <= c->cwnd) {
		/* s4.8, s4.10: K = 0 and W_max = cwnd */
		q->k = 0;
		q->w_max = c->cwnd;
		if (q->cwnd_prior == 0)
			q->cwnd_prior = c->cwnd;
	} else {
		q->k = tcp_cubic_k(q->w_max - c->cwnd, c->mss);
	}
	q->from_slow_start = false;
}

/** The integer part of num / den. The remainder stays in *rem for the next call. */
static uint32_t
cubic_div(uint64_t num, uint64_t den, uint64_t *rem)
{
	num += *rem;
	*rem = num % den;
	return (uint32_t)(num / den);
}

static void
cubic_acked(struct weft_tcp_conn *c, uint32_t acked, uint64_t now_ns)
{
	struct tcp_cubic *q = &c->cubic;
	uint64_t t_ns, rtt_ns = (uint64_t)c->srtt8_us / 8 * WEFT_NS_PER_US;
	uint32_t target;

	if (q->epoch_ns == 0)
		cubic_epoch(c, now_ns);
	q->last_ns = now_ns;
	t_ns = now_ns - q->epoch_ns;
	/* s4.3 figure 4; alpha is 1 once W_est has reached cwnd_prior */
	if (q->w_est < q->cwnd_prior)
		q->w_est += cubic_div((uint64_t)acked * c->mss * CUBIC_ALPHA_NUM,
		                      (uint64_t)c->cwnd * CUBIC_ALPHA_DEN, &q->est_rem);
	else
		q->w_est += cubic_div((uint64_t)acked * c->mss, c->cwnd, &q->est_rem);
	q->w_est = RTE_MIN(q->w_est, (uint32_t)INT32_MAX);
	if (tcp_cubic_w(q, t_ns, c->mss) < q->w_est) {
		c->cwnd = RTE_MAX(c->cwnd, q->w_est);
		return;
	}
	/* s4.4, s4.5: (target - cwnd) / cwnd for each acknowledged segment */
	target = tcp_clamp(tcp_cubic_w(q, t_ns + rtt_ns, c->mss), c->cwnd, c->cwnd + c->cwnd / 2);
	c->cwnd += cubic_div((uint64_t)(target - c->cwnd) * acked, c->cwnd, &q->cwnd_rem);
}

/** s4.2: t stands still while the application, not the window, is the limit. */
static void
cubic_unused(struct weft_tcp_conn *c, uint64_t now_ns)
{
	struct tcp_cubic *q = &c->cubic;

	if (q->epoch_ns == 0)
		return;
	q->epoch_ns += now_ns - q->last_ns;
	q->last_ns = now_ns;
}

const struct tcp_cc_ops tcp_cubic_ops = {
        .name = "cubic",
        .init = cubic_init,
        .ssthresh = cubic_ssthresh,
        .acked = cubic_acked,
        .timeout = cubic_timeout,
        .unused = cubic_unused,
};
