/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Limits on what strangers can demand: connections per peer and per second, challenge ACKs
 * (RFC 5961 s7), and RSTs for segments that no connection wants.
 */

#include <rte_malloc.h>

#include "tcp_conn.h"
#include "tcp_defend.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_math.h"
#include "tcp_rcv.h"
#include "tcp_share.h"
#include "tcp_snd.h"
#include "tcp_timer.h"
#include "weft_siphash.h"
#include "weft_netif_attr.h"
#include "weft_netif.h"
#include "weft_netif_neigh.h"

/* ---- Events per second ---- */

/** Counts one event. False: `max` events were already counted in this second. */
static bool
tcp_take(struct tcp_rate *r, uint32_t max, uint64_t now_ns)
{
	if (now_ns - r->since_ns >= WEFT_NS_PER_S) {
		r->since_ns = now_ns;
		r->n = 0;
	}
	if (r->n >= max)
		return false;
	r->n++;
	return true;
}

bool
tcp_accept_rate_ok(struct weft_tcp *t, uint64_t now_ns)
{
	return t->attr.max_accepts_per_s == 0 || t->accepts.n < t->attr.max_accepts_per_s ||
	       now_ns - t->accepts.since_ns >= WEFT_NS_PER_S;
}

void
tcp_accept_count(struct weft_tcp *t, uint64_t now_ns)
{
	tcp_take(&t->accepts, UINT32_MAX, now_ns);
}

/** What was counted in the second of now_ns. */
static uint32_t
tcp_taken(const struct tcp_rate *r, uint64_t now_ns)
{
	return now_ns - r->since_ns < WEFT_NS_PER_S ? r->n : 0;
}

void
weft_tcp_limits(const struct weft_tcp *t, struct weft_tcp_limits *out)
{
	const uint64_t now_ns = t->sched->now_ns;

	*out = (struct weft_tcp_limits){
	        .conns = t->stats.conns_now,
	        .max_conns = t->attr.max_conns,
	        .half_open = t->stats.half_open_now,
	        .max_half_open = t->attr.max_half_open,
	        .time_wait = t->stats.time_wait_now,
	        .max_time_wait = t->attr.max_time_wait,
	        .accepts = tcp_taken(&t->accepts, now_ns),
	        .max_accepts_per_s = t->attr.max_accepts_per_s,
	        .resets = weft_answers_taken(&t->resets, now_ns),
	        .resets_per_s = t->attr.resets_per_s,
	        .challenge_acks = tcp_taken(&t->challenges, now_ns),
	        .challenge_acks_per_s = t->attr.challenge_acks_per_s,
	};
}

void
tcp_challenge_ack(struct weft_tcp_conn *c, uint64_t now_ns)
{
	struct weft_tcp *t = c->t;

	if (now_ns - t->challenges.since_ns >= WEFT_NS_PER_S) {
		/*
		 * A random limit between half and one and a half of the configured one, chosen for
		 * each second. So an attacker that counts its ACKs cannot tell how many were sent
		 * to other hosts.
		 */
		t->challenge_max = t->attr.challenge_acks_per_s / 2 +
		                   weft_rand_u32(&t->sched->rand) % t->attr.challenge_acks_per_s;
		t->challenge_max = RTE_MAX(t->challenge_max, 1u);
	}
	if (!tcp_take(&c->challenges, TCP_CHALLENGE_PER_S, now_ns) ||
	    !tcp_take(&t->challenges, t->challenge_max, now_ns)) {
		t->stats.challenge_acks_limited++;
		return;
	}
	t->stats.challenge_acks++;
	tcp_send_ack(c, now_ns);
}

void
tcp_stray_ack(struct weft_tcp_conn *c, uint64_t now_ns)
{
	if (tcp_take(&c->strays, TCP_STRAY_PER_S, now_ns)) {
		tcp_send_ack(c, now_ns);
		return;
	}
	/* The segment is forged, or the peer sends a window again. One ACK tells such a peer
	 * all. */
	c->t->stats.stray_acks_late++;
	c->rcv_unacked_bytes = RTE_MAX(c->rcv_unacked_bytes, 1u);
	tcp_timer_set(c, &c->t_delack, RTE_MIN(c->t_delack.at_ns, now_ns + TCP_STRAY_LATE_NS));
}

/* ---- Connections per peer ---- */

struct tcp_peer_entry {
	struct weft_ip ip; /**< weft_ip_peer() */
	uint32_t conns;
	uint32_t half; /**< half-open connections among them */
	uint32_t next; /**< index plus one; 0: none */
};

int
tcp_peers_create(struct weft_tcp *t)
{
	uint32_t n = t->attr.max_conns;

	if (t->attr.max_conns_per_peer >= n)
		return 0;
	t->peers = rte_zmalloc("weft_tcp", (size_t)n * sizeof(t->peers[0]), RTE_CACHE_LINE_SIZE);
	t->peer_buckets = rte_zmalloc("weft_tcp", (t->bucket_mask + 1) * sizeof(t->peer_buckets[0]),
	                              RTE_CACHE_LINE_SIZE);
	if (t->peers == NULL || t->peer_buckets == NULL) {
		tcp_peers_destroy(t);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i + 1 < n; i++)
		t->peers[i].next = i + 2;
	t->peer_free = 1;
	return 0;
}

size_t
tcp_peer_bytes(void)
{
	const struct weft_tcp *t = NULL;

	return sizeof(t->peers[0]) + 4 * sizeof(t->peer_buckets[0]);
}

void
tcp_peers_destroy(struct weft_tcp *t)
{
	rte_free(t->peers);
	rte_free(t->peer_buckets);
	t->peers = NULL;
	t->peer_buckets = NULL;
}

/** The place of the index of the peer's entry, or where it would be entered. */
static uint32_t *
tcp_peer_find(const struct weft_tcp *t, const struct weft_ip *ip)
{
	struct weft_ip peer = weft_ip_peer(ip);
	uint64_t w[2];
	uint32_t *p;

	memcpy(w, peer.b, sizeof(w));
	p = &t->peer_buckets[weft_siphash(t->hash_key, w, 2, 1, 3) & t->bucket_mask];
	while (*p != 0 && !weft_ip_eq(&t->peers[*p - 1].ip, &peer))
		p = &t->peers[*p - 1].next;
	return p;
}

/** The most connections of one address over an interface. */
static uint32_t
tcp_peer_most(struct weft_tcp *t, struct weft_netif *nif)
{
	const struct tcp_share *s = t->peer_default ? tcp_share_of(t, nif) : NULL;

	if (s == NULL || s->most == t->attr.max_conns)
		return t->attr.max_conns_per_peer;
	return tcp_clamp(s->most / 2, RTE_MIN(TCP_PEER_CONNS_MIN, s->most),
	                 t->attr.max_conns_per_peer);
}

enum tcp_peer_room
tcp_peer_room(struct weft_tcp *t, struct weft_netif *nif, const struct weft_ip *ip)
{
	uint32_t i;

	if (t->peers == NULL)
		return TCP_PEER_ROOM;
	i = *tcp_peer_find(t, ip);
	if (i == 0 || t->peers[i - 1].conns < tcp_peer_most(t, nif))
		return TCP_PEER_ROOM;
	return t->peers[i - 1].half > 0 ? TCP_PEER_HALF : TCP_PEER_FULL;
}

void
tcp_peer_half(struct weft_tcp_conn *c, int n)
{
	if (c->peer_counted)
		c->t->peers[*tcp_peer_find(c->t, &c->remote) - 1].half += (uint32_t)n;
}

void
tcp_peer_count(struct weft_tcp_conn *c)
{
	struct weft_tcp *t = c->t;
	struct tcp_peer_entry *e;
	uint32_t *p;

	if (t->peers == NULL)
		return;
	p = tcp_peer_find(t, &c->remote);
	if (*p == 0) {
		/* There are as many entries as connections, so one is free. */
		*p = t->peer_free;
		e = &t->peers[*p - 1];
		t->peer_free = e->next;
		*e = (struct tcp_peer_entry){.ip = weft_ip_peer(&c->remote)};
	}
	t->peers[*p - 1].conns++;
	c->peer_counted = true;
}

void
tcp_peer_uncount(struct weft_tcp_conn *c)
{
	struct weft_tcp *t = c->t;
	struct tcp_peer_entry *e;
	uint32_t *p, i;

	if (!c->peer_counted)
		return;
	c->peer_counted = false;
	p = tcp_peer_find(t, &c->remote);
	i = *p;
	e = &t->peers[i - 1];
	if (--e->conns > 0)
		return;
	*p = e->next;
	e->next = t->peer_free;
	t->peer_free = i;
}

/* ---- Resets ---- */

void
tcp_reset_reply(struct weft_tcp *t, struct weft_netif *nif, const struct tcp_in *in, uint8_t dscp,
                uint64_t now_ns)
{
	const struct tcp_hdr *h = &in->h;
	/* RFC 7323 s5.2: with the option if the segment has it, TSval zero. */
	struct tcp_opts o = {.has_ts = in->opts.has_ts, .ts_ecr = in->opts.ts_val};
	struct tcp_hdr r = {
	        .src_port = h->dst_port,
	        .dst_port = h->src_port,
	        .hdr_len_bytes = TCP_HDR_LEN,
	};
	const struct weft_netif_tx_how how = {.dscp = dscp, .own_sum = true};
	struct weft_neigh *neigh;
	struct rte_mbuf *m;

	if (h->flags & TCP_RST)
		return;
	if (weft_netif_tx_room(nif) <= TCP_TX_SLACK ||
	    !weft_answers_take(&t->resets, t->hash_key, in->src, t->attr.resets_per_s, now_ns)) {
		t->stats.resets_limited++;
		return;
	}
	if (h->flags & TCP_ACK) {
		r.flags = TCP_RST;
		r.seq = h->ack;
	} else {
		r.flags = TCP_RST | TCP_ACK;
		r.ack = h->seq + in->len_bytes + ((h->flags & TCP_SYN) != 0) +
		        ((h->flags & TCP_FIN) != 0);
	}
	if (weft_netif_neigh_passing(nif, in->dst, in->src, &neigh) != 0) {
		t->stats.answers_no_neigh++;
		return;
	}
	m = tcp_alloc(t, nif);
	if (m != NULL) {
		uint8_t *p = (uint8_t *)rte_pktmbuf_append(m, TCP_HDR_LEN + TCP_OPTS_TSTAMP_LEN);

		r.hdr_len_bytes += (uint8_t)tcp_wire_encode_opts(p + TCP_HDR_LEN, &o);
		rte_pktmbuf_trim(m, TCP_HDR_LEN + TCP_OPTS_TSTAMP_LEN - r.hdr_len_bytes);
		tcp_wire_encode(p, &r);
		if (weft_netif_tx(nif, neigh, in->dst, in->src, m, how, now_ns) == 0) {
			t->stats.segs_out++;
			t->stats.resets_out++;
		}
	}
}

void
tcp_half_open(struct weft_tcp_conn *c, struct weft_tcp_listener *l)
{
	c->listener = l;
	l->half_open++;
	c->t->stats.half_open_now++;
	TAILQ_INSERT_TAIL(&l->half, c, link);
}

void
tcp_not_half_open(struct weft_tcp_conn *c)
{
	if (c->listener == NULL)
		return;
	c->listener->half_open--;
	c->t->stats.half_open_now--;
	TAILQ_REMOVE(&c->listener->half, c, link);
	c->listener = NULL;
	tcp_peer_half(c, -1);
}
