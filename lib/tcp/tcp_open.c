/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The start of a connection: from the pool to the table, active open, ESTABLISHED. */

#include "tcp_cc.h"
#include "tcp_conn.h"
#include "tcp_defend.h"
#include "tcp_hdr.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_loss.h"
#include "tcp_math.h"
#include "tcp_pmtu.h"
#include "tcp_rcv.h"
#include "tcp_share.h"
#include "tcp_snd.h"
#include "tcp_timer.h"
#include "weft_netif_attr.h"
#include "weft_netif.h"
#include "weft_netif_addr.h"
#include "weft_netif_neigh.h"
#include "weft_netif_group.h"
#include "tcp_ports.h"

#define TCP_PICKS 8

int
tcp_conn_new(struct weft_tcp *t, struct weft_netif *nif, const struct weft_ip *local,
             uint16_t local_port, const struct weft_ip *remote, uint16_t remote_port,
             struct weft_tcp_conn **out)
{
	const struct weft_netif_flow flow = {.local = local,
	                                     .remote = remote,
	                                     .local_port = local_port,
	                                     .remote_port = remote_port};
	struct tcp_share *share = tcp_share_of(t, nif);
	struct weft_neigh *neigh;
	struct weft_tcp_conn *c;
	int rc;

	if (share == NULL)
		return -ENOBUFS;
	if (!weft_netif_flow_hold(nif, &flow))
		return -EAGAIN;
	if (TAILQ_EMPTY(&t->free) && !TAILQ_EMPTY(&t->time_wait)) {
		/* TIME-WAIT protects later connections; a new connection is more important. */
		t->stats.time_wait_evicted++;
		tcp_conn_free(TAILQ_FIRST(&t->time_wait));
	}
	c = TAILQ_FIRST(&t->free);
	if (c == NULL) {
		weft_netif_flow_release(nif, &flow);
		t->stats.conn_limit++;
		return -EMFILE;
	}
	rc = weft_netif_neigh_get(nif, local, remote, &neigh);
	if (rc != 0) {
		weft_netif_flow_release(nif, &flow);
		return rc;
	}
	TAILQ_REMOVE(&t->free, c, link);
	weft_netif_flow_full(nif, TAILQ_EMPTY(&t->free));
	memset(c, 0, sizeof(*c));
	c->t = t;
	c->nif = nif;
	c->share = share;
	share->conns++;
	c->neigh = neigh;
	c->local = *local;
	c->remote = *remote;
	c->local_port = local_port;
	c->remote_port = remote_port;
	c->hash = tcp_tuple_hash(t, local, local_port, remote, remote_port);
	tcp_offer_init(c);
	tcp_pmtu_init(c);
	if (!t->attr.no_tso)
		c->tso = weft_netif_tso(nif, remote);
	c->rcv_mss = c->mss;
	c->rcv_wnd = RTE_MIN(t->rcv_wnd, (uint32_t)UINT16_MAX);
	c->keep_idle_us = t->attr.keepalive_us;
	c->keep_intvl_us = t->attr.keepalive_intvl_us;
	c->keep_probes = t->attr.keepalive_probes;
	c->last_rx_ns = t->sched->now_ns;
	weft_task_init(&c->task, tcp_task);
	tcp_timers_init(c);
	tcp_rtt_init(c);
	c->dscp = weft_netif_attr(nif)->dscp;
	c->reo_mult = 1;
	c->tlp_sampled = true;
	weft_tcp_set_cc(c, WEFT_TCP_CC_DEFAULT);
	tcp_table_add(c);
	t->stats.conns_now++;
	*out = c;
	return 0;
}

/** The connection that needs a source port. */
struct port_want {
	struct weft_tcp *t;
	const struct weft_ip *src, *dst;
	uint16_t dst_port;
};

/*
 * Replies to the tuple arrive at the instance that asks. No other instance can have a connection
 * with it, in TIME-WAIT or otherwise, so its own table is enough. The counts show listeners of
 * others.
 */
static bool
port_usable(void *arg, uint16_t port)
{
	const struct port_want *w = arg;
	uint64_t hash = tcp_tuple_hash(w->t, w->src, port, w->dst, w->dst_port);

	return tcp_lookup(w->t, hash, w->src, port, w->dst, w->dst_port) == NULL &&
	       tcp_listener_find(w->t, w->src, port) == NULL && !tcp_port_listened(w->t, port);
}

/* Returns a free source port whose replies arrive at nif, or -EADDRNOTAVAIL. */
static int
tcp_pick_port(struct weft_tcp *t, struct weft_netif *nif, const struct weft_ip *src,
              const struct weft_ip *dst, uint16_t dst_port)
{
	struct port_want w = {.t = t, .src = src, .dst = dst, .dst_port = dst_port};

	return weft_netif_pick_port(nif, src, dst, dst_port, &t->sched->rand, port_usable, &w);
}

/** Whether a connection may begin at a port that its opener names. Unlike one that is chosen, the
 * port may be listened on at another address. */
static int
tcp_port_given(struct weft_tcp *t, struct weft_netif *nif, const struct weft_ip *src,
               uint16_t src_port, const struct weft_ip *dst, uint16_t dst_port)
{
	const struct weft_netif_flow flow = {
	        .local = src, .remote = dst, .local_port = src_port, .remote_port = dst_port};
	uint64_t hash = tcp_tuple_hash(t, src, src_port, dst, dst_port);

	if (!weft_netif_port_leads(nif, &flow))
		return -EADDRNOTAVAIL;
	/* A connection from a port to itself would be both ends in one. */
	if ((src_port == dst_port && weft_ip_eq(src, dst)) ||
	    tcp_lookup(t, hash, src, src_port, dst, dst_port) != NULL ||
	    tcp_listener_find(t, src, src_port) != NULL)
		return -EADDRINUSE;
	return 0;
}

int
tcp_open(struct weft_tcp *t, struct weft_netif *nif, const struct weft_ip *src, uint16_t src_port,
         const struct weft_ip *dst, uint16_t dst_port, int dscp,
         const struct weft_tcp_conn_ops *ops, void *user, struct weft_tcp_conn **out)
{
	uint64_t now_ns = t->sched->now_ns;
	struct weft_tcp_conn *c;
	int rc;

	rc = tcp_conn_new(t, nif, src, src_port, dst, dst_port, &c);
	if (rc != 0)
		return rc == -ENOBUFS ? -ENOMEM : rc;
	c->active = true;
	weft_tcp_set_dscp(c, dscp);
	c->iss = tcp_isn(c, now_ns);
	c->snd_una = c->recover = c->rtt_seq = c->ts_rtt_seq = c->ece_recover = c->fack =
	        c->cwnd_used = c->iss;
	c->snd_nxt = c->snd_max = c->snd_end = c->iss + 1;
	weft_tcp_set_user(c, ops, user);
	tcp_set_state(c, WEFT_TCP_SYN_SENT);
	c->syn_sent_ns = c->syn_first_ns = now_ns;
	*out = c;
	tcp_send_syn(c, now_ns);
	tcp_rto_restart(c, now_ns);
	return 0;
}

int
weft_tcp_connect_as(struct weft_tcp *t, struct weft_netif *nif, const struct weft_ip *src,
                    uint16_t src_port, const struct weft_ip *dst, uint16_t dst_port, int dscp,
                    const struct weft_tcp_conn_ops *ops, void *user, struct weft_tcp_conn **out)
{
	int port, rc = -EAGAIN;

	if (src == NULL)
		src = weft_netif_src(nif, dst);
	else if (!weft_netif_is_local(nif, src))
		src = NULL;
	if (dst_port == 0 || src == NULL)
		return -EADDRNOTAVAIL;
	if (src_port != 0) {
		rc = tcp_port_given(t, nif, src, src_port, dst, dst_port);
		if (rc == 0)
			rc = tcp_open(t, nif, src, src_port, dst, dst_port, dscp, ops, user, out);
		return rc == -EAGAIN ? -EADDRNOTAVAIL : rc;
	}
	/* Another worker may have taken over the port meanwhile. */
	for (unsigned int i = 0; i < TCP_PICKS && rc == -EAGAIN; i++) {
		port = tcp_pick_port(t, nif, src, dst, dst_port);
		if (port < 0)
			return port;
		rc = tcp_open(t, nif, src, (uint16_t)port, dst, dst_port, dscp, ops, user, out);
	}
	return rc == -EAGAIN ? -EADDRNOTAVAIL : rc;
}

void
tcp_established(struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t now_ns)
{
	struct weft_tcp *t = c->t;
	struct weft_tcp_listener *l = c->listener;
	bool syn_lost = c->retries > 0;
	uint32_t rtt_us;

	tcp_set_state(c, WEFT_TCP_ESTABLISHED);
	if (c->rtt_unknown) {
		c->rto_us = tcp_clamp(t->attr.rto_initial_us, 0, t->attr.rto_max_us);
	} else if (!syn_lost) {
		tcp_rtt_sample(c, (uint32_t)((now_ns - c->syn_sent_ns) / WEFT_NS_PER_US));
		tcp_rack_min_rtt(c, now_ns - c->syn_sent_ns, now_ns);
	} else if (tcp_ts_rtt(c, in, now_ns, &rtt_us)) /* the echo tells which SYN was answered */
		tcp_rtt_sample(c, rtt_us);
	else /* RFC 6298 s5.7: after a lost SYN the RTO is 3 s, three times the first RTO */
		c->rto_us = tcp_clamp(3 * (uint64_t)t->attr.rto_initial_us, 0, t->attr.rto_max_us);
	c->retries = 0;
	c->backoff = 0;
	c->quick_acks = TCP_QUICK_ACKS;
	tcp_rto_stop(c);
	if (l != NULL && l->cc != WEFT_TCP_CC_DEFAULT)
		weft_tcp_set_cc(c, l->cc);
	tcp_cc_init(c, syn_lost);
	tcp_keepalive_restart(c, now_ns);
	if ((l != NULL && !tcp_make_share_room(t, c->nif, l, &c->remote)) || !tcp_share_join(c)) {
		t->stats.conns_no_buffers++;
		tcp_give_up(c, -ENOBUFS, now_ns);
		return;
	}
	if (l != NULL) {
		tcp_not_half_open(c);
		tcp_accept_count(t, now_ns);
		if (l->accept(l->arg, c) != 0) {
			if (!c->dead) {
				c->ops = NULL;
				t->stats.accept_refused++;
				weft_tcp_abort(c, now_ns);
			}
			return;
		}
		t->stats.conns_accepted++;
		return;
	}
	t->stats.conns_opened++;
	if (c->ops != NULL && c->ops->established != NULL)
		c->ops->established(c->user);
	if (!c->dead && c->close_asked)
		weft_tcp_close(c, now_ns);
}
