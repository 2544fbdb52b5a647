/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Timers: the retransmission timeout (RFC 6298), zero-window probes, delayed ACKs, the user
 * timeout, keepalive and TIME-WAIT.
 */

#include "tcp_conn.h"
#include "tcp_hdr.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_loss.h"
#include "tcp_math.h"
#include "tcp_pmtu.h"
#include "tcp_share.h"
#include "tcp_snd.h"
#include "tcp_timer.h"
#include "weft_netif_neigh.h"

#define TCP_CLOCK_G_US ((uint32_t)(WEFT_TIMER_TICK_NS / 1000 + 1)) /* RFC 6298 s2: granularity */

/* ---- RTT estimator ---- */

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

static void
tcp_back_off(struct weft_tcp_conn *c)
{
	if (((uint64_t)c->rto_us << c->backoff) < c->t->attr.rto_max_us)
		c->backoff++;
}

/* ---- Timers ---- */

void
tcp_timer_set(struct weft_tcp_conn *c, struct tcp_timer *t, uint64_t at_ns)
{
	t->at_ns = at_ns;
	if (at_ns != WEFT_NEVER && (!t->timer.armed || t->timer.deadline_ns > at_ns))
		weft_timer_arm(&c->t->sched->wheel, &t->timer, at_ns);
}

/** Whether a timer that fired is due. If not, arms it for its later deadline. */
static bool
tcp_timer_due(struct weft_tcp_conn *c, struct tcp_timer *t, uint64_t now_ns)
{
	if (t->at_ns == WEFT_NEVER)
		return false;
	if (t->at_ns > now_ns) {
		weft_timer_arm(&c->t->sched->wheel, &t->timer, t->at_ns);
		return false;
	}
	t->at_ns = WEFT_NEVER;
	return true;
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
tcp_rto_arm(struct weft_tcp_conn *c)
{
	uint64_t at_ns = RTE_MIN(c->rto_at_ns, c->reo_at_ns);

	/* RFC 8985 s7.2: while the reordering timer runs no probe is needed. */
	if (c->reo_at_ns == WEFT_NEVER)
		at_ns = RTE_MIN(at_ns, c->pto_at_ns);
	tcp_timer_set(c, &c->t_rto, at_ns);
}

void
tcp_rto_stop(struct weft_tcp_conn *c)
{
	c->rto_at_ns = c->reo_at_ns = c->pto_at_ns = WEFT_NEVER;
	tcp_timer_set(c, &c->t_rto, WEFT_NEVER);
}

void
tcp_pto_restart(struct weft_tcp_conn *c, uint64_t now_ns)
{
	c->pto_at_ns = tcp_tlp_at(c, now_ns);
	tcp_rto_arm(c);
}

void
tcp_give_up(struct weft_tcp_conn *c, int err, uint64_t now_ns)
{
	/* The peer may still listen; tell it. */
	if (tcp_states[c->state].synchronized &&
	    tcp_send_ctl(c, TCP_RST | TCP_ACK, tcp_ctl_seq(c), now_ns))
		c->t->stats.resets_out++;
	tcp_conn_drop(c, err);
}

/**
 * Puts the end of a silent connection off. If this worker was held up, the peer's answer may still
 * be in the receive ring: a turn takes one burst from it and then runs the timers. So check again
 * after the next burst, and as long as bursts are full. False: the connection has to end now.
 */
static bool
tcp_look_again(struct weft_tcp_conn *c, struct tcp_timer *timer, uint64_t now_ns)
{
	if (c->looks == TCP_LOOKS_MAX || (c->looks > 0 && c->t->busy_rx_ns != now_ns)) {
		c->looks = 0;
		return false;
	}
	c->looks++;
	tcp_timer_set(c, timer, now_ns + 1);
	return true;
}

static void
tcp_syn_timeout(struct weft_tcp_conn *c, uint64_t now_ns)
{
	if (c->retries >= c->t->attr.syn_retries) {
		c->t->stats.syn_timeouts++;
		tcp_conn_drop(c, c->soft_err != 0 ? c->soft_err : -ETIMEDOUT);
		return;
	}
	c->retries++;
	c->t->stats.rtos++;
	c->n_rtos++;
	c->t->stats.retrans_segs++;
	c->n_retrans++;
	tcp_back_off(c);
	if (c->retries > 1)
		weft_netif_neigh_suspect(c->nif, c->neigh);
	tcp_send_syn(c, now_ns);
	tcp_rto_restart(c, now_ns);
}

static void
tcp_rto_fire(struct weft_timer *timer, uint64_t now_ns)
{
	struct weft_tcp_conn *c = container_of(timer, struct weft_tcp_conn, t_rto.timer);

	if (!tcp_timer_due(c, &c->t_rto, now_ns))
		return;
	tcp_hold(c);
	if (c->reo_at_ns <= now_ns) {
		tcp_rack_reo_fire(c, now_ns);
	} else if (c->reo_at_ns == WEFT_NEVER && c->pto_at_ns <= now_ns) {
		tcp_tlp_fire(c, now_ns);
	} else if (c->state == WEFT_TCP_SYN_SENT || c->state == WEFT_TCP_SYN_RCVD) {
		tcp_syn_timeout(c, now_ns);
	} else if (c->retries >= c->t->attr.data_retries) {
		if (!tcp_look_again(c, &c->t_rto, now_ns)) {
			c->t->stats.data_timeouts++;
			tcp_give_up(c, -ETIMEDOUT, now_ns);
		}
	} else if (c->persist) {
		c->retries++;
		tcp_back_off(c);
		tcp_window_probe(c, now_ns);
		tcp_rto_restart(c, now_ns);
	} else {
		c->retries++;
		c->t->stats.rtos++;
		c->n_rtos++;
		if (c->retries > 1)
			weft_netif_neigh_suspect(c->nif, c->neigh);
		tcp_pmtu_timeout(c, now_ns);
		tcp_back_off(c);
		tcp_recovery_rto(c, now_ns);
	}
	tcp_release(c);
}

static void
tcp_delack_fire(struct weft_timer *timer, uint64_t now_ns)
{
	struct weft_tcp_conn *c = container_of(timer, struct weft_tcp_conn, t_delack.timer);

	if (tcp_timer_due(c, &c->t_delack, now_ns) && c->rcv_unacked_bytes != 0)
		tcp_send_ack(c, now_ns);
}

/* ---- Life timer: user timeout and keepalive share it, TIME-WAIT takes it over ---- */

static uint64_t
tcp_user_deadline(const struct weft_tcp_conn *c)
{
	/* An acknowledged FIN puts snd_una one behind snd_end: in FIN-WAIT-2 nothing is queued. */
	bool queued = weft_seq_lt(c->snd_una, c->snd_end) || (c->fin_out && !tcp_fin_acked(c));

	return queued ? c->progress_ns + c->t->attr.user_timeout_us * WEFT_NS_PER_US : WEFT_NEVER;
}

/** The end of a connection whose peer neither closes its direction nor sends anything. */
static uint64_t
tcp_fin_wait_2_deadline(const struct weft_tcp_conn *c)
{
	uint32_t us = c->t->attr.fin_wait2_us;

	if (c->state != WEFT_TCP_FIN_WAIT_2 || us == UINT32_MAX)
		return WEFT_NEVER;
	return c->last_rx_ns + us * WEFT_NS_PER_US;
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

/** Keepalive check. False: the peer did not answer, and the connection ends. */
static bool
tcp_keepalive_look(struct weft_tcp_conn *c, uint64_t now_ns)
{
	uint64_t idle_end = c->last_rx_ns + c->keep_idle_us * WEFT_NS_PER_US;
	uint64_t intvl_ns = c->keep_intvl_us * WEFT_NS_PER_US;

	if (c->snd_max != c->snd_una) {
		/* Retransmissions are the probes while data is outstanding. But the backed-off RTO
		 * may wait for minutes, and the user of keepalive wants to know as soon as with an
		 * idle peer. */
		if (now_ns >= idle_end + c->keep_probes * intvl_ns)
			return false;
	} else if (now_ns >= idle_end) {
		/* RFC 9293 s3.8.4: only an idle connection is probed. */
		if (c->keep_sent >= c->keep_probes)
			return false;
		c->keep_sent++;
		c->t->stats.keepalive_probes++;
		tcp_send_ctl(c, TCP_ACK, c->snd_nxt - 1, now_ns);
		c->keep_at_ns = now_ns + intvl_ns;
		return true;
	}
	c->keep_sent = 0;
	c->keep_at_ns = RTE_MAX(idle_end, now_ns + intvl_ns);
	return true;
}

static void
tcp_life_fire(struct weft_timer *timer, uint64_t now_ns)
{
	struct weft_tcp_conn *c = container_of(timer, struct weft_tcp_conn, t_life.timer);
	uint64_t *drops = NULL;

	if (!tcp_timer_due(c, &c->t_life, now_ns))
		return;
	if (c->state == WEFT_TCP_TIME_WAIT) {
		tcp_conn_free(c);
		return;
	}
	if (tcp_user_deadline(c) <= now_ns)
		drops = &c->t->stats.user_timeouts;
	else if (tcp_fin_wait_2_deadline(c) <= now_ns)
		drops = &c->t->stats.fin_wait2_timeouts;
	else if (c->keep_at_ns <= now_ns && !tcp_keepalive_look(c, now_ns))
		drops = &c->t->stats.keepalive_drops;
	if (drops == NULL) {
		c->looks = 0;
		tcp_life_restart(c);
	} else if (!tcp_look_again(c, &c->t_life, now_ns)) {
		(*drops)++;
		tcp_give_up(c, -ETIMEDOUT, now_ns);
	}
}

void
weft_tcp_keepalive(struct weft_tcp_conn *c, uint32_t idle_us, uint32_t intvl_us, uint32_t probes)
{
	c->keep_idle_us = idle_us;
	c->keep_intvl_us = intvl_us != 0 ? intvl_us : RTE_MAX(idle_us / 3, 1u);
	c->keep_probes = probes != 0 ? probes : c->t->attr.keepalive_probes;
	if (!c->dead && tcp_states[c->state].synchronized && c->state != WEFT_TCP_SYN_RCVD)
		tcp_keepalive_restart(c, RTE_MAX(c->last_rx_ns, c->t->sched->now_ns));
}

void
tcp_timers_init(struct weft_tcp_conn *c)
{
	weft_timer_init(&c->t_rto.timer, tcp_rto_fire);
	weft_timer_init(&c->t_delack.timer, tcp_delack_fire);
	weft_timer_init(&c->t_life.timer, tcp_life_fire);
	c->t_rto.at_ns = c->t_delack.at_ns = c->t_life.at_ns = c->keep_at_ns = WEFT_NEVER;
	c->rto_at_ns = c->reo_at_ns = c->pto_at_ns = WEFT_NEVER;
}

void
tcp_timers_stop(struct weft_tcp_conn *c)
{
	struct weft_wheel *w = &c->t->sched->wheel;

	weft_timer_cancel(w, &c->t_rto.timer);
	weft_timer_cancel(w, &c->t_delack.timer);
	weft_timer_cancel(w, &c->t_life.timer);
	c->t_rto.at_ns = c->t_delack.at_ns = c->t_life.at_ns = WEFT_NEVER;
	c->rto_at_ns = c->reo_at_ns = c->pto_at_ns = WEFT_NEVER;
}
