/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Listening: RFC 9293 s3.10.7.1 and s3.10.7.2, the backlog of half-open connections, and the choice
 * of connections when there are too many (RFC 4987).
 */

#include <rte_malloc.h>

#include "tcp_conn.h"
#include "tcp_defend.h"
#include "tcp_hdr.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_ports.h"
#include "tcp_rcv.h"
#include "tcp_share.h"
#include "tcp_timer.h"
#include "weft_netif_group.h"
#include "weft_netif_shared.h"
#include "weft_netif.h"
#include "weft_netif_attr.h"

/* ---- Listeners ---- */

static bool
tcp_ip_is_zero(const struct weft_ip *ip)
{
	static const struct weft_ip zero;

	return weft_ip_eq(ip, &zero) || (weft_ip_is_v4(ip) && weft_ip_v4(ip) == 0);
}

int
weft_tcp_listen(struct weft_tcp *t, const struct weft_ip *addr, unsigned int bits, uint16_t port,
                unsigned int backlog, weft_tcp_accept_fn accept, void *arg,
                struct weft_tcp_listener **out)
{
	struct weft_tcp_listener *l;

	if (tcp_ip_is_zero(addr))
		bits = 0;
	TAILQ_FOREACH (l, &t->listeners, link) {
		if (l->port == port &&
		    weft_ip_same_prefix(&l->addr, addr, RTE_MIN((unsigned int)l->bits, bits)))
			return -EADDRINUSE;
	}
	l = rte_zmalloc("weft_tcp", sizeof(*l), 0);
	if (l == NULL)
		return -ENOMEM;
	l->addr = *addr;
	l->bits = (uint8_t)bits;
	l->port = port;
	l->backlog = RTE_MAX(backlog, 1u);
	l->dscp = WEFT_TCP_DSCP_PORT;
	TAILQ_INIT(&l->half);
	l->accept = accept;
	l->arg = arg;
	TAILQ_INSERT_TAIL(&t->listeners, l, link);
	tcp_port_count(t, TCP_PORT_LISTENER, port, 1);
	*out = l;
	return 0;
}

void
weft_tcp_listener_set_room(struct weft_tcp_listener *l, weft_tcp_room_fn room)
{
	l->room = room;
}

void
weft_tcp_listener_set_dscp(struct weft_tcp_listener *l, int dscp)
{
	l->dscp = dscp;
}

void
weft_tcp_unlisten(struct weft_tcp *t, struct weft_tcp_listener *l)
{
	while (!TAILQ_EMPTY(&l->half))
		weft_tcp_abort(TAILQ_FIRST(&l->half), t->sched->now_ns);
	TAILQ_REMOVE(&t->listeners, l, link);
	tcp_port_count(t, TCP_PORT_LISTENER, l->port, -1);
	rte_free(l);
}

/* ---- Half-open connections ---- */

static bool
tcp_no_conn_left(const struct weft_tcp *t)
{
	return TAILQ_EMPTY(&t->free) && TAILQ_EMPTY(&t->time_wait);
}

static bool
tcp_backlog_full(const struct weft_tcp *t, const struct weft_tcp_listener *l)
{
	return l->half_open >= l->backlog || t->stats.half_open_now >= t->attr.max_half_open ||
	       tcp_no_conn_left(t);
}

/** Frees the oldest half-open connection, which has had the most time. False: there is none. */
static bool
tcp_evict_half_open(struct weft_tcp *t, struct weft_tcp_listener *l)
{
	if (l->half_open == 0)
		TAILQ_FOREACH (l, &t->listeners, link)
			if (l->half_open > 0)
				break;
	if (l == NULL)
		return false;
	t->stats.half_open_evicted++;
	tcp_conn_free(TAILQ_FIRST(&l->half));
	return true;
}

/** Frees the oldest half-open connection of one peer. False: there is none. */
static bool
tcp_evict_half_open_of(struct weft_tcp *t, const struct weft_ip *ip)
{
	struct weft_ip peer = weft_ip_peer(ip);
	struct weft_tcp_listener *l;
	struct weft_tcp_conn *c;

	TAILQ_FOREACH (l, &t->listeners, link)
		TAILQ_FOREACH (c, &l->half, link) {
			struct weft_ip its = weft_ip_peer(&c->remote);

			if (!weft_ip_eq(&its, &peer))
				continue;
			t->stats.half_open_evicted++;
			tcp_conn_free(c);
			return true;
		}
	return false;
}

/** The same for a connection of the same peer. An IPv6 peer is a /64 and may be many hosts. */
static bool
tcp_user_room_own(const struct weft_tcp_listener *l, const struct weft_ip *ip, bool take)
{
	return l->room != NULL && !weft_ip_is_v4(ip) && l->room(l->arg, ip, true, take);
}

/** Makes c half-open, with what the peer's SYN said. */
static void
tcp_begin_passive(struct weft_tcp_conn *c, struct weft_tcp_listener *l, uint32_t irs, uint32_t iss,
                  const struct tcp_opts *o, uint64_t now_ns)
{
	tcp_half_open(c, l);
	weft_tcp_set_dscp(c, l->dscp);
	tcp_peer_count(c);
	tcp_peer_half(c, 1);
	c->iss = iss;
	c->irs = irs;
	c->rcv_nxt = irs + 1;
	c->snd_una = c->recover = c->rtt_seq = c->ts_rtt_seq = c->ece_recover = c->fack =
	        c->cwnd_used = iss;
	c->snd_nxt = c->snd_max = c->snd_end = iss + 1;
	c->snd_wl1 = irs;
	tcp_apply_syn_opts(c, o, now_ns);
	tcp_set_state(c, WEFT_TCP_SYN_RCVD);
	c->syn_sent_ns = c->syn_first_ns = now_ns;
}

/* ---- Segments ---- */

static void
tcp_rx_listen_syn(struct weft_tcp *t, struct weft_netif *nif, struct weft_tcp_listener *l,
                  const struct tcp_in *in, const uint32_t *iss_floor, uint64_t now_ns)
{
	enum weft_tcp_cookies mode = t->attr.syn_cookies;
	enum tcp_peer_room room = tcp_peer_room(t, nif, in->src);
	bool cookie = iss_floor == NULL && mode != WEFT_TCP_COOKIES_NEVER;
	bool crowded = !tcp_share_room(t, nif);
	struct weft_tcp_conn *c;
	uint32_t iss;

	t->stats.syns_in++;
	if (!tcp_accept_rate_ok(t, now_ns)) {
		t->stats.syns_dropped_rate++;
		return;
	}
	/* The SYNs of the half-open connections may be forged. Only the peer itself can answer a
	 * cookie. */
	if ((room == TCP_PEER_FULL && !(cookie && tcp_user_room_own(l, in->src, false))) ||
	    (room == TCP_PEER_HALF && !cookie)) {
		t->stats.syns_dropped_peer++;
		return;
	}
	/* Where the user can make room, it does so only for an address that answers a cookie. */
	if (tcp_no_conn_left(t) && t->stats.half_open_now == 0 &&
	    !(cookie && tcp_user_room(l, in->src, false))) {
		t->stats.syns_dropped_full++;
		t->stats.conn_limit++;
		return;
	}
	if (crowded) {
		t->stats.syns_no_buffers++;
		tcp_share_crowded(t, nif);
		if (!cookie || !tcp_user_room(l, in->src, false)) {
			t->stats.syns_dropped_full++;
			t->stats.conns_no_buffers++;
			return;
		}
	}
	/* A cookie cannot choose a number beyond those of the previous incarnation. */
	if (cookie && (mode == WEFT_TCP_COOKIES_ALWAYS || room != TCP_PEER_ROOM || crowded ||
	               tcp_backlog_full(t, l))) {
		tcp_cookie_send(t, nif, l, in, now_ns);
		return;
	}
	/* If no connection is half-open, either a free one is left, or the SYN was answered or
	 * dropped above. */
	if (tcp_backlog_full(t, l))
		(void)tcp_evict_half_open(t, l);
	if (tcp_conn_new(t, nif, in->dst, in->h.dst_port, in->src, in->h.src_port, &c) != 0)
		return;
	iss = tcp_isn(c, now_ns);
	if (iss_floor != NULL && weft_seq_leq(iss, *iss_floor))
		iss = *iss_floor + 1 + t->attr.snd_buf_bytes;
	tcp_begin_passive(c, l, in->h.seq, iss, &in->opts, now_ns);
	tcp_apply_syn_ecn(c, in->h.flags);
	c->snd_wnd = c->max_snd_wnd = in->h.wnd;
	tcp_send_syn(c, now_ns);
	tcp_rto_restart(c, now_ns);
	/* Data of a SYN is not kept: the peer sends it again (RFC 9293 s3.10.7.2 queues it). */
}

/** Handles the third segment of a handshake whose SYN was answered with a cookie. False: it carries
 * no cookie of ours. */
static bool
tcp_rx_listen_cookie(struct weft_tcp *t, struct weft_netif *nif, struct weft_tcp_listener *l,
                     struct tcp_in *in, uint64_t now_ns)
{
	struct weft_tcp_conn *c;
	enum tcp_peer_room room;
	struct tcp_cookie k;

	if (!tcp_cookie_awaited(t, now_ns) || in->h.flags & TCP_SYN)
		return false;
	if (!tcp_cookie_check(t, in, now_ns, &k)) {
		t->stats.syn_cookies_bad++;
		return false;
	}
	t->stats.syn_cookies_ok++;
	/* A segment that meets a limit here is treated as lost: the peer sends another one. */
	if (!tcp_accept_rate_ok(t, now_ns)) {
		t->stats.syns_dropped_rate++;
		return true;
	}
	room = tcp_peer_room(t, nif, in->src);
	if ((room == TCP_PEER_FULL && !tcp_user_room_own(l, in->src, true)) ||
	    (room == TCP_PEER_HALF && !tcp_evict_half_open_of(t, in->src))) {
		t->stats.syns_dropped_peer++;
		return true;
	}
	if (tcp_no_conn_left(t) && !tcp_evict_half_open(t, l) && !tcp_user_room(l, in->src, true)) {
		t->stats.syns_dropped_full++;
		t->stats.conn_limit++;
		return true;
	}
	if (!tcp_make_share_room(t, nif, l, in->src)) {
		t->stats.syns_dropped_full++;
		t->stats.conns_no_buffers++;
		return true;
	}
	if (tcp_conn_new(t, nif, in->dst, in->h.dst_port, in->src, in->h.src_port, &c) != 0)
		return true;
	tcp_begin_passive(c, l, in->h.seq - 1, in->h.ack - 1, &k.opts, now_ns);
	c->ecn_ok = k.ecn;
	c->rtt_unknown = true;
	tcp_rto_restart(c, now_ns);
	(void)tcp_rx_conn(c, in, 1, now_ns);
	return true;
}

void
tcp_rx_no_conn(struct weft_tcp *t, struct weft_netif *nif, struct tcp_in *in,
               const uint32_t *iss_floor, uint64_t now_ns)
{
	struct weft_tcp_listener *l = tcp_listener_find(t, in->dst, in->h.dst_port);

	/* Another process has the port, or had it a moment ago: a RST is not ours to send. */
	if (unlikely(!weft_netif_port_ours(nif, in->h.dst_port)))
		return;
	/* Another worker has the connection: a RST would end it. */
	if ((in->h.flags & TCP_SYN) == 0 &&
	    unlikely(weft_netif_stray(nif, in->dst, in->h.dst_port, in->src, in->h.src_port)))
		return;
	/* s3.10.7.2: first, RST. A listener has nothing to reset. */
	if (l != NULL && in->h.flags & TCP_RST)
		return;
	/* Second, ACK: valid only for a cookie. A listener has sent nothing else. */
	if (l != NULL && in->h.flags & TCP_ACK && tcp_rx_listen_cookie(t, nif, l, in, now_ns))
		return;
	if (l == NULL || in->h.flags & TCP_ACK) {
		t->stats.rx_no_conn++;
		tcp_reset_reply(t, nif, in, weft_netif_attr(nif)->dscp, now_ns);
		return;
	}
	/* Third, SYN. Fourth, everything else is dropped. */
	if (in->h.flags & TCP_SYN)
		tcp_rx_listen_syn(t, nif, l, in, iss_floor, now_ns);
}
