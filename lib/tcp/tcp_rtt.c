/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Round-trip times: the RTO (RFC 6298), RACK.min_RTT (RFC 8985 s6.2 step 1), and how long
 * the peer delays an ACK (RFC 8985 s7.2). */

#include "tcp_conn.h"
#include "tcp_loss.h"
#include "tcp_math.h"
#include "tcp_timer.h"
#include "tcp_instance.h"

#define TCP_CLOCK_G_US ((uint32_t)(WEFT_TIMER_TICK_NS / 1000 + 1)) /* RFC 6298 s2: granularity */

void
tcp_rtt_init(struct weft_tcp_conn *c)
{
	c->srtt8_us = 0;
	c->rttvar4_us = 0;
	c->rto_us = RTE_MIN(c->t->attr.rto_initial_us, c->t->attr.rto_max_us);
}

void
tcp_rtt_sample(struct weft_tcp_conn *c, uint32_t rtt_us)
{
	const struct weft_tcp_attr *a = &c->t->attr;
	uint64_t rto;

	/* The scaled sums must fit into 32 bits. No real path is this slow. */
	rtt_us = tcp_clamp(rtt_us, 1, 256000000);
	if (c->srtt8_us == 0) {
		/* (2.2) SRTT = R, RTTVAR = R / 2 */
		c->srtt8_us = 8 * rtt_us;
		c->rttvar4_us = 2 * rtt_us;
	} else {
		uint32_t srtt = c->srtt8_us / 8;
		uint32_t err = srtt > rtt_us ? srtt - rtt_us : rtt_us - srtt;

		/* (2.3) RTTVAR = 3/4 RTTVAR + 1/4 |SRTT - R|; SRTT = 7/8 SRTT + 1/8 R */
		c->rttvar4_us = c->rttvar4_us - c->rttvar4_us / 4 + err;
		c->srtt8_us = c->srtt8_us - c->srtt8_us / 8 + rtt_us;
	}
	/* RTO = SRTT + max(G, 4 * RTTVAR); (2.4), (2.5) bounds */
	rto = (uint64_t)c->srtt8_us / 8 + RTE_MAX(TCP_CLOCK_G_US, c->rttvar4_us);
	c->rto_us = tcp_clamp(rto, a->rto_min_us, a->rto_max_us);
	c->backoff = 0;
	c->tlp_sampled = true;
}

uint64_t
tcp_rto_ns(const struct weft_tcp_conn *c)
{
	uint64_t us = (uint64_t)c->rto_us << c->backoff;

	return RTE_MIN(us, (uint64_t)c->t->attr.rto_max_us) * WEFT_NS_PER_US;
}

/** RFC 8985 s6.2 step 1: the minimum covers the current and the previous of these windows. */
#define RACK_MIN_RTT_WINDOW_NS (10 * WEFT_NS_PER_S)

uint64_t
tcp_rack_min(const struct weft_tcp_conn *c)
{
	/* 0: no sample yet. */
	if (c->min_rtt_ns[0] == 0 || c->min_rtt_ns[1] == 0)
		return RTE_MAX(c->min_rtt_ns[0], c->min_rtt_ns[1]);
	return RTE_MIN(c->min_rtt_ns[0], c->min_rtt_ns[1]);
}

void
tcp_rack_min_rtt(struct weft_tcp_conn *c, uint64_t rtt_ns, uint64_t now_ns)
{
	if (now_ns - c->min_rtt_at_ns >= RACK_MIN_RTT_WINDOW_NS) {
		c->min_rtt_at_ns = now_ns;
		c->min_rtt_ns[1] = c->min_rtt_ns[0];
		c->min_rtt_ns[0] = 0;
	}
	rtt_ns = RTE_MAX(rtt_ns, 1u);
	if (c->min_rtt_ns[0] == 0 || rtt_ns < c->min_rtt_ns[0])
		c->min_rtt_ns[0] = rtt_ns;
}

/* ---- TLP.max_ack_delay: RFC 8985 s7.2 ---- */

/** How long common stacks delay the ACK of a lone segment. */
#define LONE_DELAY_US 40000
/** An ACK that is this much later than the latest so far is still awaited. */
#define LONE_SLACK_US 500
#define LONE_NEED     16
#define LONE_NEED_MAX 1024

void
tcp_lone_sample(struct weft_tcp_conn *c, uint64_t rtt_ns)
{
	struct tcp_lone *l = &c->lone;
	uint64_t min_ns = tcp_rack_min(c), us = 0;

	if (rtt_ns > min_ns)
		us = (rtt_ns - min_ns) / WEFT_NS_PER_US;
	l->most_us[0] = tcp_clamp(us, l->most_us[0], LONE_DELAY_US);
	if (++l->n < RTE_MAX(l->need, LONE_NEED))
		return;
	l->known = true;
	l->most_us[1] = l->most_us[0];
	l->most_us[0] = 0;
	l->n = 0;
	l->need /= 2;
}

void
tcp_lone_forget(struct weft_tcp_conn *c)
{
	c->lone = (struct tcp_lone){
	        .need = (uint16_t)tcp_clamp(2ull * c->lone.need, 2 * LONE_NEED, LONE_NEED_MAX)};
}

uint32_t
tcp_lone_delay_us(const struct weft_tcp_conn *c)
{
	const struct tcp_lone *l = &c->lone;
	uint32_t most = RTE_MAX(l->most_us[0], l->most_us[1]);

	return l->known ? RTE_MIN(2 * most + LONE_SLACK_US, (uint32_t)LONE_DELAY_US)
	                : LONE_DELAY_US;
}
