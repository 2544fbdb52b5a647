/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A connection returns to the pool, and what the layer above may read of one. */

#include <rte_debug.h>
#include <rte_malloc.h>

#include "tcp_conn.h"
#include "tcp_defend.h"
#include "tcp_hdr.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_rcv.h"
#include "tcp_share.h"
#include "tcp_snd.h"
#include "tcp_timer.h"
#include "weft_netif_attr.h"
#include "weft_netif_addr.h"
#include "weft_netif_budget.h"
#include "weft_netif_group.h"
#include "weft_netif_neigh.h"
#include "weft_netif.h"
#include "tcp_cc.h"

WEFT_LOG_REGISTER(tcp);

static void
tcp_pool_put(struct weft_tcp_conn *c)
{
	TAILQ_INSERT_HEAD(&c->t->free, c, link);
}

void
tcp_conn_free(struct weft_tcp_conn *c)
{
	const struct weft_netif_flow flow = {.local = &c->local,
	                                     .remote = &c->remote,
	                                     .local_port = c->local_port,
	                                     .remote_port = c->remote_port};
	struct weft_tcp *t = c->t;

	if (c->dead)
		return;
	c->dead = true;
	if (c->state == WEFT_TCP_TIME_WAIT) {
		TAILQ_REMOVE(&t->time_wait, c, link);
		t->stats.time_wait_now--;
	}
	if (c->state != WEFT_TCP_CLOSED)
		tcp_set_state(c, WEFT_TCP_CLOSED);
	tcp_not_half_open(c);
	tcp_peer_uncount(c);
	tcp_timers_stop(c);
	weft_task_cancel(t->sched, &c->task);
	tcp_not_waiting(c);
	tcp_sq_free(c);
	tcp_reass_free(c);
	tcp_share_leave(c);
	c->share->conns--;
	tcp_table_del(c);
	weft_netif_flow_release(c->nif, &flow);
	weft_netif_flow_full(c->nif, false);
	weft_netif_neigh_put(c->nif, c->neigh);
	c->ops = NULL;
	if (--t->stats.conns_now == 0)
		weft_timer_cancel(&t->sched->wheel, &t->sweep);
	if (c->hold == 0)
		tcp_pool_put(c);
}

void
tcp_release(struct weft_tcp_conn *c)
{
	RTE_ASSERT(c->hold > 0);
	if (--c->hold == 0 && c->dead)
		tcp_pool_put(c);
}

void
tcp_detach(struct weft_tcp_conn *c, int err)
{
	const struct weft_tcp_conn_ops *ops = c->ops;

	if (c->detached)
		return;
	c->detached = true;
	c->ops = NULL;
	if (ops != NULL)
		c->t->stats.conns_closed++;
	if (ops != NULL && ops->closed != NULL)
		ops->closed(c->user, err);
}

void
tcp_conn_drop(struct weft_tcp_conn *c, int err)
{
	if (c->dead)
		return;
	tcp_hold(c);
	tcp_detach(c, err);
	tcp_conn_free(c);
	tcp_release(c);
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

const struct weft_tcp_stats *
weft_tcp_stats(const struct weft_tcp *t)
{
	return &t->stats;
}

void
weft_tcp_set_user(struct weft_tcp_conn *c, const struct weft_tcp_conn_ops *ops, void *user)
{
	c->ops = ops;
	c->user = user;
}

void
weft_tcp_set_dscp(struct weft_tcp_conn *c, int dscp)
{
	c->dscp = dscp == WEFT_TCP_DSCP_PORT ? weft_netif_attr(c->nif)->dscp : (uint8_t)(dscp & 63);
}

uint16_t
weft_tcp_mss(const struct weft_tcp_conn *c)
{
	return c->mss;
}

uint64_t
weft_tcp_moved_ns(const struct weft_tcp_conn *c)
{
	return RTE_MAX(c->last_text_ns, c->progress_ns);
}

struct weft_netif_budget *
weft_tcp_fpdu_budget(const struct weft_tcp_conn *c)
{
	return &weft_netif_budgets(c->nif)->fpdu;
}

/** What t_xmit times. */
static const char *
tcp_xmit_timer_name(const struct weft_tcp_conn *c)
{
	const uint64_t at = c->t_xmit.at_ns;

	if (at == WEFT_NEVER)
		return "";
	if (c->state == WEFT_TCP_SYN_SENT || c->state == WEFT_TCP_SYN_RCVD)
		return "handshake";
	if (c->persist)
		return "window probe";
	return at == c->reo_at_ns ? "reordering" : at == c->pto_at_ns ? "loss probe" : "retransmit";
}

/** Time until a timer; UINT64_MAX: off. */
static uint64_t
tcp_timer_left_us(const struct tcp_timer *t, uint64_t now_ns)
{
	if (t->at_ns == WEFT_NEVER)
		return UINT64_MAX;
	return t->at_ns > now_ns ? (t->at_ns - now_ns) / 1000 : 0;
}

static uint32_t
tcp_since_ms(uint64_t then_ns, uint64_t now_ns)
{
	if (then_ns == 0)
		return UINT32_MAX;
	return now_ns > then_ns ? (uint32_t)((now_ns - then_ns) / WEFT_NS_PER_MS) : 0;
}

/** The part of weft_tcp_info() that is of this moment. */
static void
tcp_info_now(const struct weft_tcp_conn *c, struct weft_tcp_info *info)
{
	const uint64_t now_ns = c->t->sched->now_ns;
	uint64_t rtt_ns = c->min_rtt_ns[0];

	if (rtt_ns == 0 || (c->min_rtt_ns[1] != 0 && c->min_rtt_ns[1] < rtt_ns))
		rtt_ns = c->min_rtt_ns[1];
	info->min_rtt_us = (uint32_t)(rtt_ns / 1000);
	info->rcv_mss_bytes = c->rcv_mss;
	info->backoff = c->backoff;
	info->reordering = c->reordering_seen;
	info->lost_bytes = c->lost_bytes;
	info->sacked_bytes = c->sacked_bytes;
	info->snd_mbufs = c->snd_segs;
	info->ooo_mbufs = c->ooo_mbufs;
	info->ooo_bytes = c->ooo_bytes;
	info->last_snd_ms = tcp_since_ms(c->last_send_ns, now_ns);
	info->last_rcv_ms = tcp_since_ms(c->last_rx_ns, now_ns);
	info->xmit_timer = tcp_xmit_timer_name(c);
	info->xmit_timer_us = tcp_timer_left_us(&c->t_xmit, now_ns);
	info->delack_timer_us = tcp_timer_left_us(&c->t_delack, now_ns);
	info->life_timer_us = tcp_timer_left_us(&c->t_life, now_ns);
}

void
weft_tcp_info(const struct weft_tcp_conn *c, struct weft_tcp_info *info)
{
	*info = (struct weft_tcp_info){
	        .state = c->state,
	        .local = c->local,
	        .remote = c->remote,
	        .local_port = c->local_port,
	        .remote_port = c->remote_port,
	        .srtt_us = c->srtt8_us / 8,
	        .rttvar_us = c->rttvar4_us / 4,
	        .rto_us = c->rto_us,
	        .cwnd_bytes = c->cwnd,
	        .ssthresh_bytes = c->ssthresh,
	        .snd_wnd_bytes = c->snd_wnd,
	        .rcv_wnd_bytes = c->rcv_wnd,
	        .unacked_bytes = c->snd_max - c->snd_una,
	        .queued_bytes = c->snd_end - c->snd_una,
	        .mss_bytes = c->mss,
	        .pmtu_bytes = c->pmtu_bytes,
	        .dscp = c->dscp,
	        .retrans_segs = c->n_retrans,
	        .rtos = c->n_rtos,
	        .snd_wscale = c->snd_wscale,
	        .rcv_wscale = c->rcv_wscale,
	        .timestamps = c->ts_ok,
	        .sack = c->sack_ok,
	        .ecn = c->ecn_ok,
	        .rcv_nxt = c->rcv_nxt,
	        .snd_una = c->snd_una,
	        .snd_nxt = c->snd_nxt,
	        .cc_name = c->cc->name,
	        .in_recovery = c->in_recovery || c->after_rto,
	        .dupacks_in = c->n_dupacks,
	        .sack_blocks_in = c->n_sack_blocks,
	        .segs_in = c->n_segs_in,
	        .segs_out = c->n_segs_out,
	        .bytes_in = c->n_bytes_in,
	        .bytes_out = c->n_bytes_out,
	        .ooo_segs = c->n_ooo_segs,
	        .dup_bytes_in = c->n_dup_bytes_in,
	        .fast_retrans = c->n_fast_retrans,
	        .tlp_probes = c->n_tlp,
	        .spurious_retrans = c->n_spurious,
	};
	tcp_info_now(c, info);
}
