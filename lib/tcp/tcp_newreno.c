/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The window of NewReno (RFC 5681 s3.1), counted in octets (RFC 3465). */

#include "tcp_cc.h"
#include "tcp_conn.h"

static void
newreno_init(struct weft_tcp_conn *c)
{
	c->cwnd_acked = 0;
}

/** RFC 5681 s3.1 equation 4. */
static uint32_t
newreno_ssthresh(struct weft_tcp_conn *c, uint32_t flight, uint64_t now_ns)
{
	(void)now_ns;
	c->cwnd_acked = 0;
	return RTE_MAX(flight / 2, 2u * c->mss);
}

static void
newreno_acked(struct weft_tcp_conn *c, uint32_t acked, uint64_t now_ns)
{
	(void)now_ns;
	c->cwnd_acked += acked;
	if (c->cwnd_acked >= c->cwnd) {
		c->cwnd_acked -= c->cwnd;
		c->cwnd += c->mss;
	}
	c->cwnd_acked = RTE_MIN(c->cwnd_acked, c->cwnd);
}

const struct tcp_cc_ops tcp_newreno_ops = {
        .name = "newreno",
        .init = newreno_init,
        .ssthresh = newreno_ssthresh,
        .acked = newreno_acked,
};
