/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What netif hands up: segments are decoded and find their connection; ICMP errors. */

#include "tcp_conn.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_math.h"
#include "tcp_pmtu.h"
#include "tcp_rcv.h"
#include "tcp_snd.h"
#include "weft_netif.h"
#include "weft_netif_icmp.h"
#include "weft_netif_mbuf.h"

/** Whether both segments are of the same connection. */
static inline bool
tcp_same_tuple(const struct tcp_in *a, const struct tcp_in *b)
{
	return a->h.src_port == b->h.src_port && a->h.dst_port == b->h.dst_port &&
	       weft_ip_eq(a->src, b->src) && weft_ip_eq(a->dst, b->dst);
}

/** Decodes header and options of one segment. last: the one before it, whose hash is reused; may be
 * NULL. False: malformed, or no legitimate host sends it. */
static bool
tcp_decode(struct weft_tcp *t, struct tcp_in *in, struct rte_mbuf *m, const struct tcp_in *last)
{
	uint8_t copy[TCP_HDR_MAX_LEN];
	const uint8_t *p = rte_pktmbuf_mtod(m, const uint8_t *);
	uint32_t have = m->data_len;
	struct weft_mbuf_priv *priv = weft_mbuf_priv(m);

	if (unlikely(have < TCP_HDR_MAX_LEN && m->nb_segs > 1)) {
		have = RTE_MIN(m->pkt_len, (uint32_t)sizeof(copy));
		p = rte_pktmbuf_read(m, 0, have, copy);
	}
	if (tcp_wire_decode(p, have, &in->h) < 0)
		return false;
	if (in->h.src_port == 0 || in->h.dst_port == 0)
		return false;
	in->has_opts = in->h.hdr_len_bytes > TCP_HDR_LEN;
	if (tcp_wire_decode_opts(p + TCP_HDR_LEN, in->h.hdr_len_bytes - TCP_HDR_LEN, &in->opts) !=
	    0)
		return false;
	if (unlikely(in->h.flags & TCP_SYN)) {
		if (in->h.flags & TCP_FIN)
			return false;
		if (in->h.src_port == in->h.dst_port && weft_ip_eq(&priv->rx.src, &priv->rx.dst))
			return false;
	}
	in->ecn = priv->rx.ecn;
	in->m = m;
	in->src = &priv->rx.src;
	in->dst = &priv->rx.dst;
	in->len_bytes = m->pkt_len - in->h.hdr_len_bytes;
	in->follows = last != NULL && tcp_same_tuple(in, last);
	in->hash = likely(in->follows)
	                   ? last->hash
	                   : tcp_tuple_hash(t, in->dst, in->h.dst_port, in->src, in->h.src_port);
	return true;
}

/**
 * RFC 9293 s3.6.1 (MAY-2) and the rule for timestamps of RFC 6191 s2: whether this SYN can only
 * belong to a new incarnation.
 */
static bool
tcp_is_new_incarnation(const struct weft_tcp_conn *c, const struct tcp_in *in)
{
	bool beyond = weft_seq_lt(c->rcv_nxt, in->h.seq);

	if (!c->ts_ok || !in->opts.has_ts)
		return beyond || (!c->ts_ok && in->opts.has_ts && !c->t->attr.no_timestamps);
	if (in->opts.ts_val == c->ts_recent)
		return beyond;
	return weft_seq_lt(c->ts_recent, in->opts.ts_val);
}

/* Handles a segment for a connection in TIME-WAIT. True: it was the SYN of a new incarnation; c is
 * freed and the SYN processed. */
static bool
tcp_time_wait_reuse(struct weft_tcp_conn *c, struct weft_netif *nif, struct tcp_in *in,
                    uint64_t now_ns)
{
	struct weft_tcp *t = c->t;
	uint32_t floor = c->snd_max;

	if ((in->h.flags & (TCP_SYN | TCP_ACK | TCP_RST)) != TCP_SYN ||
	    !tcp_is_new_incarnation(c, in) || tcp_listener_find(t, in->dst, in->h.dst_port) == NULL)
		return false;
	t->stats.time_wait_reused++;
	tcp_conn_free(c);
	tcp_rx_no_conn(t, nif, in, &floor, now_ns);
	return true;
}

/** Processes the first of n segments, and those of the same connection behind it. Returns how
 * many. */
static unsigned int
tcp_segments(struct weft_tcp *t, struct weft_netif *nif, struct tcp_in *in, unsigned int n,
             uint64_t now_ns)
{
	struct weft_tcp_conn *c =
	        tcp_lookup(t, in->hash, in->dst, in->h.dst_port, in->src, in->h.src_port);
	unsigned int k = 1;

	if (likely(c != NULL && c->state != WEFT_TCP_TIME_WAIT)) {
		while (k < n && in[k].follows)
			k++;
		return tcp_rx_conn(c, in, k, now_ns);
	}
	if (c == NULL)
		tcp_rx_no_conn(t, nif, in, NULL, now_ns);
	else if (!tcp_time_wait_reuse(c, nif, in, now_ns))
		return tcp_rx_conn(c, in, 1, now_ns);
	rte_pktmbuf_free(in->m);
	return 1;
}

/** Whether a burst of few segments has at least half of the octets of the largest. */
static bool
tcp_is_long_burst(struct rte_mbuf *const *m, unsigned int n)
{
	uint32_t bytes = 0;

	for (unsigned int i = 0; i < n; i++)
		bytes += m[i]->pkt_len;
	return bytes >= WEFT_NETIF_BURST_BYTES / 2;
}

void
weft_tcp_rx(struct weft_tcp *t, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n,
            uint64_t now_ns)
{
	struct tcp_in in[WEFT_NETIF_BURST];

	t->stats.segs_in += n;
	if (n >= WEFT_NETIF_BURST / 2 || tcp_is_long_burst(m, n))
		t->busy_rx_ns = now_ns;
	while (n > 0) {
		unsigned int burst = RTE_MIN(n, (unsigned int)WEFT_NETIF_BURST), k = 0;

		for (unsigned int i = 0; i < burst; i++) {
			if (!tcp_decode(t, &in[k], m[i], k > 0 ? &in[k - 1] : NULL)) {
				t->stats.rx_bad++;
				rte_pktmbuf_free(m[i]);
				continue;
			}
			if (!in[k].follows)
				rte_prefetch0(&t->buckets[in[k].hash & t->bucket_mask]);
			k++;
		}
		for (unsigned int i = 0; i < k; i++) {
			const struct weft_tcp_conn *c;

			if (in[i].follows)
				continue;
			c = t->buckets[in[i].hash & t->bucket_mask];

			if (c != NULL) {
				rte_prefetch0(c);
				rte_prefetch0(&c->snd_una);
				rte_prefetch0(&c->t);
				rte_prefetch0(&c->task);
			}
		}
		for (unsigned int i = 0; i < k;)
			i += tcp_segments(t, nif, &in[i], k - i, now_ns);
		m += burst;
		n -= burst;
	}
}

void
weft_tcp_icmp_error(struct weft_tcp *t, struct weft_netif *nif, const struct weft_icmp_error *e,
                    uint64_t now_ns)
{
	uint64_t hash = tcp_tuple_hash(t, &e->src, e->src_port, &e->dst, e->dst_port);
	struct weft_tcp_conn *c = tcp_lookup(t, hash, &e->src, e->src_port, &e->dst, e->dst_port);

	(void)nif;

	/* RFC 5927 s4.1: the quoted sequence number must be of octets in flight. */
	if (c == NULL || !tcp_within(e->seq, c->snd_una, c->snd_max - c->snd_una)) {
		if (e->kind == WEFT_ICMP_TOO_BIG)
			t->stats.pmtu_ignored++;
		return;
	}
	if (e->kind == WEFT_ICMP_TOO_BIG) {
		if (tcp_states[c->state].synchronized) {
			tcp_hold(c);
			if (tcp_pmtu_too_big(c, e, now_ns))
				tcp_output(c, now_ns);
			tcp_release(c);
		}
		return;
	}
	/* RFC 9293 s3.9.2.2: protocol and port unreachable are hard errors. A connection that is
	 * open ignores even those (RFC 5461 s4.1). */
	if (c->state != WEFT_TCP_SYN_SENT)
		return;
	if (e->kind == WEFT_ICMP_HARD)
		tcp_conn_drop(c, -ECONNREFUSED);
	else
		c->soft_err = -EHOSTUNREACH;
}
