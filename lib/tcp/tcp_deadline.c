/* SPDX-License-Identifier: BSD-3-Clause */
/** @file When the timers of a connection fire: they are set and stopped here. */

#include "tcp_conn.h"
#include "tcp_loss.h"
#include "tcp_share.h"
#include "tcp_snd.h"
#include "tcp_timer.h"
#include "tcp_instance.h"
#include "weft_netif.h"

void
tcp_timer_set(struct weft_tcp_conn *c, struct tcp_timer *t, uint64_t at_ns)
{
	t->at_ns = at_ns;
	if (at_ns != WEFT_NEVER && (!t->timer.armed || t->timer.deadline_ns > at_ns))
		weft_timer_arm(&c->t->sched->wheel, &t->timer, at_ns);
}

void
tcp_rto_stop(struct weft_tcp_conn *c)
{
	c->rto_at_ns = c->reo_at_ns = c->pto_at_ns = WEFT_NEVER;
	tcp_timer_set(c, &c->t_xmit, WEFT_NEVER);
}

void
tcp_rto_arm(struct weft_tcp_conn *c)
{
	uint64_t at_ns = RTE_MIN(c->rto_at_ns, c->reo_at_ns);

	/* RFC 8985 s7.2: while the reordering timer runs no probe is needed. */
	if (c->reo_at_ns == WEFT_NEVER)
		at_ns = RTE_MIN(at_ns, c->pto_at_ns);
	tcp_timer_set(c, &c->t_xmit, at_ns);
}

/** An earlier probe would measure how the peer's cores are scheduled, not the path. */
#define TLP_MIN_US 1000

uint64_t
tcp_tlp_at(const struct weft_tcp_conn *c, uint64_t now_ns)
{
	uint64_t pto_us = 1000000;

	/*
	 * DEVIATION: RFC 8985 s7.2 sends no probe in fast recovery. There the last retransmissions
	 * can be lost with nothing behind them that would tell, and a timeout of many round trips
	 * would follow. A probe costs one segment. No ACK of it is delayed: it fills a gap
	 * (RFC 5681 s4.2).
	 */
	if (!c->sack_ok || c->state == WEFT_TCP_SYN_SENT || c->state == WEFT_TCP_SYN_RCVD ||
	    c->persist || c->after_rto || (c->sacked_segs != 0 && !c->in_recovery) ||
	    c->snd_max == c->snd_una || c->tlp_active || !c->tlp_sampled)
		return WEFT_NEVER;
	if (c->srtt8_us != 0) {
		pto_us = RTE_MAX(c->srtt8_us / 4, (uint32_t)TLP_MIN_US);
		if (c->snd_max - c->snd_una <= c->mss && !c->in_recovery)
			pto_us += tcp_lone_delay_us(c);
	}
	return RTE_MIN(now_ns + pto_us * WEFT_NS_PER_US, c->rto_at_ns);
}

void
tcp_rto_restart(struct weft_tcp_conn *c, uint64_t now_ns)
{
	if (c->snd_max == c->snd_una && !c->persist) {
		tcp_rto_stop(c);
		return;
	}
	c->rto_at_ns = now_ns + tcp_rto_ns(c);
	c->pto_at_ns = tcp_tlp_at(c, now_ns);
	tcp_rto_arm(c);
}

void
tcp_persist(struct weft_tcp_conn *c, uint64_t now_ns)
{
	if (c->persist)
		return;
	c->persist = true;
	c->backoff = 0;
	tcp_rto_restart(c, now_ns);
}

void
tcp_pto_restart(struct weft_tcp_conn *c, uint64_t now_ns)
{
	c->pto_at_ns = tcp_tlp_at(c, now_ns);
	tcp_rto_arm(c);
}

uint64_t
tcp_user_deadline(const struct weft_tcp_conn *c)
{
	/* An acknowledged FIN puts snd_una one behind snd_end: in FIN-WAIT-2 nothing is queued. */
	bool queued = weft_seq_lt(c->snd_una, c->snd_end) || (c->fin_out && !tcp_fin_acked(c));

	return queued ? c->progress_ns + c->t->attr.user_timeout_us * WEFT_NS_PER_US : WEFT_NEVER;
}

uint64_t
tcp_heard_ns(const struct weft_tcp_conn *c)
{
	uint64_t latest = c->last_rx_ns + c->t->attr.user_timeout_us * WEFT_NS_PER_US;
	uint64_t back = RTE_MIN(weft_netif_link_back_ns(c->nif), latest);

	return RTE_MAX(c->last_rx_ns, back);
}

/** The end of a connection whose peer neither closes its direction nor sends anything. */
uint64_t
tcp_fin_wait_2_deadline(const struct weft_tcp_conn *c)
{
	uint32_t us = c->t->attr.fin_wait2_us;

	if (c->state != WEFT_TCP_FIN_WAIT_2 || us == UINT32_MAX)
		return WEFT_NEVER;
	return tcp_heard_ns(c) + us * WEFT_NS_PER_US;
}

void
tcp_life_restart(struct weft_tcp_conn *c)
{
	uint64_t at_ns = RTE_MIN(c->keep_at_ns, tcp_user_deadline(c));

	tcp_timer_set(c, &c->t_life, RTE_MIN(at_ns, tcp_fin_wait_2_deadline(c)));
}

void
tcp_progress_begin(struct weft_tcp_conn *c, uint64_t now_ns)
{
	uint64_t at_ns = now_ns + c->t->attr.user_timeout_us * WEFT_NS_PER_US;

	/* When an earlier deadline fires, the timer continues to the true one. */
	c->progress_ns = now_ns;
	tcp_share_lap(c, now_ns);
	if (c->t_life.at_ns > at_ns)
		tcp_timer_set(c, &c->t_life, at_ns);
}

void
tcp_keepalive_restart(struct weft_tcp_conn *c, uint64_t now_ns)
{
	if (c->state == WEFT_TCP_TIME_WAIT)
		return;
	c->keep_sent = 0;
	c->keep_at_ns =
	        c->keep_idle_us == 0 ? WEFT_NEVER : now_ns + c->keep_idle_us * WEFT_NS_PER_US;
	tcp_life_restart(c);
}

void
tcp_timers_stop(struct weft_tcp_conn *c)
{
	struct weft_wheel *w = &c->t->sched->wheel;

	weft_timer_cancel(w, &c->t_xmit.timer);
	weft_timer_cancel(w, &c->t_delack.timer);
	weft_timer_cancel(w, &c->t_life.timer);
	c->t_xmit.at_ns = c->t_delack.at_ns = c->t_life.at_ns = WEFT_NEVER;
	c->rto_at_ns = c->reo_at_ns = c->pto_at_ns = WEFT_NEVER;
}
