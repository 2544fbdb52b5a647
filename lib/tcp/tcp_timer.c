/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What happens when a timer fires: the retransmission timeout (RFC 6298), zero-window probes,
 * delayed ACKs, the user timeout, keepalive and TIME-WAIT. tcp_deadline.c sets the timers.
 */

#include "tcp_conn.h"
#include "tcp_hdr.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_loss.h"
#include "tcp_pmtu.h"
#include "tcp_snd.h"
#include "tcp_timer.h"
#include "weft_netif.h"
#include "weft_netif_neigh.h"
#include "weft_netif_offload_trust.h"

static void
tcp_back_off(struct weft_tcp_conn *c)
{
	if (((uint64_t)c->rto_us << c->backoff) < c->t->attr.rto_max_us)
		c->backoff++;
}

/* ---- Timers ---- */

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
	if (c->retries > 1) {
		weft_netif_neigh_unconfirmed(c->nif, c->neigh);
		weft_netif_tx_unanswered(c->nif);
	}
	tcp_send_syn(c, now_ns);
	tcp_rto_restart(c, now_ns);
}

static void
tcp_rack_reo_fire(struct weft_tcp_conn *c, uint64_t now_ns)
{
	c->t->ack = (struct tcp_ack_state){.now_ns = now_ns};
	if (tcp_rack_detect(c, now_ns))
		tcp_recovery_lost(c, now_ns);
	tcp_rto_arm(c);
	tcp_output(c, now_ns);
}

static void
tcp_rto_fire(struct weft_timer *timer, uint64_t now_ns)
{
	struct weft_tcp_conn *c = container_of(timer, struct weft_tcp_conn, t_xmit.timer);

	if (!tcp_timer_due(c, &c->t_xmit, now_ns))
		return;
	tcp_hold(c);
	if (c->reo_at_ns <= now_ns) {
		tcp_rack_reo_fire(c, now_ns);
	} else if (c->reo_at_ns == WEFT_NEVER && c->pto_at_ns <= now_ns) {
		tcp_tlp_fire(c, now_ns);
	} else if (c->state == WEFT_TCP_SYN_SENT || c->state == WEFT_TCP_SYN_RCVD) {
		tcp_syn_timeout(c, now_ns);
	} else if (c->retries >= c->t->attr.data_retries) {
		if (!tcp_look_again(c, &c->t_xmit, now_ns)) {
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
		if (c->retries > 1) {
			weft_netif_neigh_unconfirmed(c->nif, c->neigh);
			weft_netif_tx_unanswered(c->nif);
		}
		tcp_pmtu_timeout(c, now_ns);
		tcp_back_off(c); /* RFC 6298 (5.5) */
		tcp_recovery_rto(c, now_ns);
		tcp_output(c, now_ns);
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

/** Keepalive check. False: the peer did not answer, and the connection ends. */
static bool
tcp_keepalive_look(struct weft_tcp_conn *c, uint64_t now_ns)
{
	uint64_t idle_end = tcp_heard_ns(c) + c->keep_idle_us * WEFT_NS_PER_US;
	uint64_t intvl_ns = c->keep_intvl_us * WEFT_NS_PER_US;

	/* Without a link of our own the peer's silence says nothing about the peer. The user
	 * timeout bounds how long that is an excuse. */
	if (!weft_netif_link_up(c->nif) &&
	    now_ns < c->last_rx_ns + c->t->attr.user_timeout_us * WEFT_NS_PER_US) {
		c->keep_sent = 0;
		c->keep_at_ns = now_ns + intvl_ns;
		return true;
	}
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
weft_tcp_link_up(struct weft_tcp *t, struct weft_netif *nif, uint64_t now_ns)
{
	/* The timeouts of an interruption tell nothing about the path, and do not count towards
	 * data_retries. Doubled each time, the next one might come as long after the interruption
	 * as that has lasted. */
	for (uint32_t i = 0; i < t->attr.max_conns; i++) {
		struct weft_tcp_conn *c = &t->conns[i];

		bool excused;

		if (c->dead || c->nif != nif || c->state == WEFT_TCP_CLOSED)
			continue;
		/* The peer could not be heard before. From here on its silence counts
		 * (tcp_heard_ns()). A link that comes and goes is an excuse for so long only. */
		excused = now_ns < c->last_rx_ns + c->t->attr.user_timeout_us * WEFT_NS_PER_US;
		if (excused && c->keep_at_ns != WEFT_NEVER)
			tcp_keepalive_restart(c, now_ns);
		/* Nor does the interruption tell anything about the sizes that pass. */
		tcp_pmtu_link_up(c, now_ns);
		if (c->backoff == 0)
			continue;
		c->backoff = 0;
		/* One retry of a SYN remains: its answer gives no RTT (Karn's algorithm). */
		if (c->state != WEFT_TCP_SYN_SENT && c->state != WEFT_TCP_SYN_RCVD)
			c->retries = 0;
		else if (excused)
			c->retries = RTE_MIN(c->retries, 1u);
		tcp_rto_restart(c, now_ns);
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
	weft_timer_init(&c->t_xmit.timer, tcp_rto_fire);
	weft_timer_init(&c->t_delack.timer, tcp_delack_fire);
	weft_timer_init(&c->t_life.timer, tcp_life_fire);
	c->t_xmit.at_ns = c->t_delack.at_ns = c->t_life.at_ns = c->keep_at_ns = WEFT_NEVER;
	c->rto_at_ns = c->reo_at_ns = c->pto_at_ns = WEFT_NEVER;
}
