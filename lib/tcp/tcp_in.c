/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Segments in, in the order of RFC 9293 s3.10.7: one handler for SYN-SENT, one for all other states
 * with the RFC's eight steps; what has no connection goes to tcp_listen.c.
 */

#include <rte_prefetch.h>

#include "tcp_priv.h"

/** Whether a segment with sequence number seq starts within [from, from + len). */
static inline bool
tcp_within(uint32_t seq, uint32_t from, uint32_t len)
{
	return seq - from < len;
}

/* ---- SYN-SENT: s3.10.7.3 ---- */

static void
tcp_rx_syn_sent(struct weft_tcp_conn *c, struct tcp_in *in, uint64_t now_ns)
{
	const struct tcp_hdr *h = &in->h;
	bool ack = (h->flags & TCP_ACK) != 0;

	if (c->work & TCP_WORK_ABORT)
		return;
	/* First, ACK. */
	if (ack && (weft_seq_leq(h->ack, c->iss) || weft_seq_lt(c->snd_max, h->ack))) {
		tcp_reset_reply(c->t, c->nif, in, now_ns);
		return;
	}
	/* Second, RST: believed only with an ACK of our SYN. */
	if (h->flags & TCP_RST) {
		if (ack) {
			c->t->stats.resets_in++;
			tcp_conn_drop(c, -ECONNREFUSED);
		}
		return;
	}
	/* Third, security: not used. Fourth, SYN. Fifth, neither SYN nor RST: dropped. */
	if ((h->flags & TCP_SYN) == 0)
		return;
	c->irs = h->seq;
	c->rcv_nxt = h->seq + 1;
	c->last_rx_ns = now_ns;
	tcp_apply_syn_opts(c, &in->opts, now_ns);
	tcp_apply_syn_ecn(c, in->h.flags);
	c->snd_wnd = c->max_snd_wnd = h->wnd; /* never scaled in a SYN */
	c->snd_wl1 = h->seq;
	if (!ack) {
		/* Both ends opened at once. */
		tcp_set_state(c, WEFT_TCP_SYN_RCVD);
		tcp_send_syn(c, now_ns);
		tcp_rto_restart(c, now_ns);
		return;
	}
	c->snd_una = h->ack;
	c->snd_wl2 = h->ack;
	c->rcv_unacked_bytes = 1;
	tcp_work(c, TCP_WORK_ACK);
	tcp_established(c, in, now_ns);
}

/* ---- All other states: s3.10.7.4 ---- */

/** Fifth step, the part of ESTABLISHED: what the ACK says about our octets and the window. */
static void
tcp_ack(struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t now_ns)
{
	const struct tcp_hdr *h = &in->h;
	uint32_t wnd = (uint32_t)h->wnd << c->snd_wscale;
	uint32_t acked = h->ack - c->snd_una;
	uint64_t sent_ns = 0;
	bool sample, dup;

	/* RFC 5681 s2: a duplicate acknowledges nothing, carries nothing and changes nothing. */
	dup = acked == 0 && in->len_bytes == 0 && (h->flags & (TCP_SYN | TCP_FIN)) == 0 &&
	      wnd == c->snd_wnd && c->snd_max != c->snd_una && !c->persist;

	if (weft_seq_leq(c->snd_una, h->ack) &&
	    (weft_seq_lt(c->snd_wl1, h->seq) ||
	     (c->snd_wl1 == h->seq && weft_seq_leq(c->snd_wl2, h->ack)))) {
		if (wnd > c->snd_wnd)
			tcp_work(c, TCP_WORK_OUTPUT);
		c->t->stats.zero_windows_in += wnd == 0 && c->snd_wnd != 0;
		c->snd_wnd = wnd;
		c->snd_wl1 = h->seq;
		c->snd_wl2 = h->ack;
		c->max_snd_wnd = RTE_MAX(c->max_snd_wnd, wnd);
	}
	/* RFC 9293 s3.8.6.1: a peer that keeps its window shut, and says so, is alive. */
	if (c->snd_wnd == 0)
		c->retries = 0;

	if (weft_seq_lt(h->ack, c->snd_una))
		return;
	c->t->ack = (struct tcp_ack_state){
	        .now_ns = now_ns,
	        .has_ts = c->ts_ok && in->has_opts && in->opts.has_ts,
	        .ts_ecr = in->has_opts ? in->opts.ts_ecr : 0,
	};
	if (acked == 0) {
		c->t->stats.dupacks_in += dup;
		c->n_dupacks += dup;
		tcp_recovery_ack(c, in, 0, dup, now_ns);
		return;
	}
	c->snd_una = h->ack;
	weft_netif_neigh_confirm(c->neigh, now_ns);
	tcp_sack_advance(c);
	sample = tcp_sq_ack(c, &sent_ns);
	if (weft_seq_lt(c->snd_nxt, c->snd_una))
		c->snd_nxt = c->snd_una;
	if (sample && weft_seq_lt(c->rtt_seq, c->snd_una)) {
		/* A burst's times of transmission run a little ahead of the clock. */
		uint64_t rtt_ns = now_ns > sent_ns ? now_ns - sent_ns : 0;

		tcp_rtt_sample(c, (uint32_t)RTE_MIN(rtt_ns / WEFT_NS_PER_US, (uint64_t)UINT32_MAX));
		c->rtt_seq = c->snd_max;
	} else if (!sample) {
		tcp_ts_sample(c, in, sent_ns, now_ns);
	}
	c->retries = 0;
	c->progress_ns = now_ns;
	if (weft_seq_leq(c->lap_seq, c->snd_una))
		tcp_share_lap(c, now_ns);
	/* The probe was taken. Where the window is still in the way, output finds that anew. */
	c->persist = false;
	/*
	 * DEVIATION: RFC 6298 s5 keeps the doubled RTO until a new sample. A sender that has only
	 * retransmissions left never gets one; progress shows that the path is not that slow.
	 */
	c->backoff = 0;
	tcp_recovery_ack(c, in, acked, false, now_ns);
}

/** Give octets to the user. False: the connection died in the up-call. */
static bool
tcp_deliver(struct weft_tcp_conn *c, struct rte_mbuf *m, uint32_t len, uint64_t now_ns)
{
	c->rcv_nxt += len;
	c->rcv_unacked_bytes += len;
	c->t->stats.bytes_in += len;
	c->n_bytes_in += len;
	if (likely(c->ops != NULL && c->ops->rx != NULL)) {
		c->ops->rx(c->user, m, now_ns);
		return !c->dead;
	}
	rte_pktmbuf_free(m);
	if (c->fin_out) {
		/* RFC 9293 s3.6.1 (SHLD-3): closed, and nobody is left who reads. */
		c->t->stats.data_after_close++;
		tcp_give_up(c, -ECONNABORTED, now_ns);
	}
	return !c->dead;
}

/** Note a FIN that lies within the window, in order or not. */
static void
tcp_note_fin(struct weft_tcp_conn *c, const struct tcp_in *in)
{
	uint32_t seq = in->h.seq + in->len_bytes;

	if (in->h.flags & TCP_FIN && !c->fin_in && tcp_within(seq, c->rcv_nxt, c->rcv_wnd)) {
		c->fin_in = true;
		c->fin_seq_in = seq;
		/* Nothing follows a FIN: what is queued beyond it would stay, or hide it. */
		if (unlikely(c->ooo_tail != NULL))
			tcp_reass_cut(c, seq);
	}
}

/**
 * Whether what has just been received in order is acknowledged with this burst, or may wait for
 * delack_us (RFC 9293 s3.8.6.3, RFC 5681 s4.2). It may not where the sender's next FPDU depends on
 * it:
 * - every second full-sized segment (a gap that is filled has its own at once);
 * - half of the window: a sender that sees a small one stands still;
 * - the first segments of a connection, after a pause as long as the sender's restart (RFC 5681
 *   s4.1), and after a loss: its window is small, and every acknowledgment opens it.
 * What is left is the odd last segment of a sender with an open window, whose completion a user
 * above may await: delack_us is the most that this costs.
 */
static bool
tcp_ack_now(struct weft_tcp_conn *c)
{
	if (c->quick_acks > 0 && !c->t->attr.no_quick_acks) {
		c->quick_acks--;
		return true;
	}
	return c->rcv_unacked_bytes >= 2u * c->rcv_mss || c->rcv_unacked_bytes >= c->rcv_wnd / 2;
}

/** Seventh step: text. */
static void
tcp_text(struct weft_tcp_conn *c, struct tcp_in *in, uint64_t now_ns)
{
	struct rte_mbuf *m;
	uint32_t seq = in->h.seq, len = in->len_bytes, edge = c->rcv_nxt + c->rcv_wnd;
	bool filled;

	tcp_note_fin(c, in);
	if (c->fin_in && weft_seq_lt(c->fin_seq_in, edge))
		edge = c->fin_seq_in;
	if (len == 0) {
		if (in->h.flags & TCP_FIN && seq != c->rcv_nxt)
			tcp_send_ack(c, now_ns); /* a FIN ahead of its data */
		return;
	}
	if (unlikely(len > c->rcv_mss))
		c->rcv_mss = (uint16_t)RTE_MIN(len, (uint32_t)c->mss_local);
	m = tcp_trim_front(in->m, in->h.hdr_len_bytes);
	in->m = NULL;
	if (unlikely(weft_seq_lt(edge, seq + len))) {
		uint32_t over = seq + len - edge;

		/* Beyond the window, or beyond the FIN. */
		if (over >= len)
			goto drop;
		m = tcp_trim_tail(m, over);
		len -= over;
	}
	if (unlikely(weft_seq_lt(seq, c->rcv_nxt))) {
		uint32_t old = c->rcv_nxt - seq;

		tcp_count_dup(c, RTE_MIN(old, len));
		tcp_dsack_note(c, seq, seq + RTE_MIN(old, len));
		/* The peer does not know what we have: tell it with this one. */
		c->rcv_unacked_bytes = RTE_MAX(c->rcv_unacked_bytes, 1u);
		tcp_work(c, TCP_WORK_ACK);
		if (old >= len)
			goto drop;
		m = tcp_trim_front(m, old);
		len -= old;
		seq += old;
	}
	if (unlikely(seq != c->rcv_nxt)) {
		/* RFC 5681 s4.2: out of order, one duplicate ACK each and at once. */
		c->quick_acks = TCP_QUICK_ACKS;
		tcp_reass_insert(c, m, seq, len);
		tcp_send_ack(c, now_ns);
		return;
	}
	filled = c->ooo_head != NULL;
	if (now_ns - c->last_text_ns > tcp_rto_ns(c))
		c->quick_acks = TCP_QUICK_ACKS;
	c->last_text_ns = now_ns;
	if (!tcp_deliver(c, m, len, now_ns))
		return;
	while (c->ooo_head != NULL && (m = tcp_reass_pop(c, &len)) != NULL)
		if (!tcp_deliver(c, m, len, now_ns))
			return;
	if (unlikely(c->nsack > 0))
		tcp_sack_prune(c);
	/* The up-call may have sent, and our ACK with it. */
	if (c->rcv_unacked_bytes == 0)
		return;
	/* RFC 5681 s4.2: of a gap that is filled the sender learns at once. With the burst's it
	 * would be a single ACK for all that the sender has under way, and lost, a timeout. */
	if (unlikely(filled) && !c->fin_in)
		tcp_send_ack(c, now_ns);
	else if (filled || tcp_ack_now(c))
		tcp_work(c, TCP_WORK_ACK); /* once for all of this burst */
	else
		tcp_timer_set(
		        c, &c->t_delack,
		        RTE_MIN(c->t_delack.at_ns, now_ns + c->t->attr.delack_us * WEFT_NS_PER_US));
	return;
drop:
	rte_pktmbuf_free(m);
}

/** Eighth step: the peer's FIN, once everything before it is here. */
static void
tcp_fin(struct weft_tcp_conn *c, uint64_t now_ns)
{
	bool wait = c->state == WEFT_TCP_FIN_WAIT_2;

	c->rcv_nxt++;
	c->rcv_unacked_bytes++;
	if (wait)
		tcp_send_ack(c, now_ns); /* the user is about to forget us */
	else
		tcp_work(c, TCP_WORK_ACK);
	if (c->state == WEFT_TCP_ESTABLISHED)
		tcp_set_state(c, WEFT_TCP_CLOSE_WAIT);
	else if (c->state == WEFT_TCP_FIN_WAIT_1)
		tcp_set_state(c, WEFT_TCP_CLOSING);
	if (c->ops != NULL && c->ops->eof != NULL)
		c->ops->eof(c->user);
	if (wait && !c->dead)
		tcp_time_wait(c, now_ns);
}

/** Second step: a RST that is exactly in place. */
static void
tcp_reset(struct weft_tcp_conn *c)
{
	c->t->stats.resets_in++;
	switch (c->state) {
	case WEFT_TCP_SYN_RCVD: /* passive: nobody knows of it yet */
		tcp_conn_drop(c, -ECONNREFUSED);
		break;
	case WEFT_TCP_CLOSING:
	case WEFT_TCP_LAST_ACK:
		tcp_conn_drop(c, c->snd_una == c->snd_end ? 0 : -ECONNRESET);
		break;
	default:
		tcp_conn_drop(c, -ECONNRESET);
		break;
	}
}

/** RFC 3168 s6.1.3: what the receiver of octets tells their sender. */
static void
tcp_rx_ecn(struct weft_tcp_conn *c, const struct tcp_in *in)
{
	if (in->h.flags & TCP_CWR)
		c->ece_due = false;
	if (unlikely(in->ecn == WEFT_ECN_CE)) {
		c->t->stats.ecn_ce_in++;
		c->ece_due = true;
	}
}

/** First step failed. */
static void
tcp_rx_unacceptable(struct weft_tcp_conn *c, const struct tcp_in *in, uint32_t seg_len,
                    uint64_t now_ns)
{
	c->t->stats.rx_out_of_window++;
	if (in->h.flags & TCP_RST)
		return;
	tcp_count_dup(c, in->len_bytes);
	if (weft_seq_lt(in->h.seq, c->rcv_nxt))
		tcp_dsack_note(c, in->h.seq,
		               in->h.seq + RTE_MIN(in->len_bytes, c->rcv_nxt - in->h.seq));
	if (unlikely(in->h.flags & TCP_SYN)) {
		tcp_challenge_ack(c, now_ns); /* RFC 5961 s4.2, whatever the sequence number */
		return;
	}
	if (seg_len == 0) {
		/* A keepalive probe, or a stray: two ends must not answer each other for ever. */
		c->last_rx_ns = in->h.seq == c->rcv_nxt - 1 ? now_ns : c->last_rx_ns;
		tcp_challenge_ack(c, now_ns);
		return;
	}
	if (c->state == WEFT_TCP_TIME_WAIT && in->h.flags & TCP_FIN)
		tcp_timer_set(c, &c->t_life, now_ns + c->t->attr.time_wait_us * WEFT_NS_PER_US);
	tcp_stray_ack(c, now_ns);
}

/** Of a segment that does not start within the window: whether it is acceptable all the same. */
static bool
tcp_acceptable_end(const struct weft_tcp_conn *c, const struct tcp_hdr *h, uint32_t seg_len)
{
	if (seg_len > 0)
		return tcp_within(h->seq + seg_len - 1, c->rcv_nxt, c->rcv_wnd);
	/* An ACK from a sender that has filled the window has the number at its edge; it is the
	 * peer's only way to acknowledge while its first segment is lost. */
	return h->seq == c->rcv_nxt + c->rcv_wnd && (h->flags & TCP_RST) == 0;
}

static void
tcp_rx_synchronized(struct weft_tcp_conn *c, struct tcp_in *in, uint64_t now_ns)
{
	struct tcp_hdr *h = &in->h;
	uint8_t shift = c->snd_wscale;
	bool opened = false;
	uint32_t seg_len;

	if (unlikely(c->state == WEFT_TCP_SYN_RCVD && h->flags & TCP_SYN && h->seq == c->irs &&
	             (h->flags & TCP_RST) == 0)) {
		/* The peer's SYN again: it lacks our answer, unless it brings an ACK. */
		if ((h->flags & TCP_ACK) == 0) {
			/* RFC 3168 s6.1.1.1: one without ECN among them turns it off. */
			if ((h->flags & (TCP_ECE | TCP_CWR)) == 0)
				c->ecn_ok = false;
			tcp_send_syn(c, now_ns);
			return;
		}
		h->flags &= (uint8_t)~TCP_SYN;
		h->seq++;
		shift = 0; /* RFC 7323 s2.2: never scaled in a SYN */
		c->rcv_unacked_bytes = RTE_MAX(c->rcv_unacked_bytes, 1u);
		tcp_work(c, TCP_WORK_ACK);
	}
	seg_len = in->len_bytes + ((h->flags & TCP_SYN) != 0) + ((h->flags & TCP_FIN) != 0);

	/* RFC 7323 s5.3 R1. */
	if (c->ts_ok && unlikely(!in->opts.has_ts || weft_seq_lt(in->opts.ts_val, c->ts_recent))) {
		enum tcp_ts_verdict v = tcp_ts_judge(c, in, now_ns);

		if (v == TCP_TS_OLD)
			tcp_rx_unacceptable(c, in, seg_len, now_ns);
		if (v != TCP_TS_GOOD)
			return;
	}
	/* First, sequence number. */
	if (unlikely(!tcp_within(h->seq, c->rcv_nxt, c->rcv_wnd) &&
	             !tcp_acceptable_end(c, h, seg_len))) {
		tcp_rx_unacceptable(c, in, seg_len, now_ns);
		return;
	}
	/* Second, RST: RFC 5961 s3.2. */
	if (unlikely(h->flags & TCP_RST)) {
		if (c->state == WEFT_TCP_TIME_WAIT)
			return; /* DEVIATION: RFC 1337 s3 (F1), a RST does not shorten it */
		if (h->seq == c->rcv_nxt) {
			tcp_reset(c);
			return;
		}
		c->t->stats.rst_out_of_place++;
		tcp_challenge_ack(c, now_ns);
		return;
	}
	/* Third, security: not used. */
	/* Fourth, SYN: RFC 5961 s4.2, whatever the sequence number. What nobody has accepted yet
	 * goes back to LISTEN, so that a peer that begins anew need not wait. */
	if (unlikely(h->flags & TCP_SYN)) {
		c->t->stats.syn_in_window++;
		if (c->state == WEFT_TCP_SYN_RCVD && !c->active) {
			tcp_conn_free(c);
			return;
		}
		tcp_challenge_ack(c, now_ns);
		return;
	}
	/* Fifth, ACK. */
	if (unlikely((h->flags & TCP_ACK) == 0))
		return;
	if (unlikely(c->state == WEFT_TCP_SYN_RCVD)) {
		if (!weft_seq_lt(c->snd_una, h->ack) || weft_seq_lt(c->snd_max, h->ack)) {
			tcp_reset_reply(c->t, c->nif, in, now_ns);
			return;
		}
		if (c->listener != NULL && !tcp_accept_rate_ok(c->t, now_ns)) {
			/* As if lost: our SYN is sent again and brings another. */
			c->t->stats.syns_dropped_rate++;
			return;
		}
		c->snd_una = h->ack;
		c->snd_wnd = (uint32_t)h->wnd << shift;
		c->max_snd_wnd = RTE_MAX(c->max_snd_wnd, c->snd_wnd);
		c->snd_wl1 = h->seq;
		c->snd_wl2 = h->ack;
		opened = true;
		tcp_established(c, in, now_ns);
		if (c->dead)
			return;
	}
	/* RFC 5961 s5.2: only what we have sent, and not too long ago. */
	if (unlikely(weft_seq_lt(c->snd_max, h->ack) ||
	             weft_seq_lt(h->ack, c->snd_una - c->max_snd_wnd))) {
		c->t->stats.acks_out_of_range++;
		c->t->stats.blind_drops += in->len_bytes > 0;
		tcp_challenge_ack(c, now_ns);
		return;
	}
	c->last_rx_ns = now_ns;
	c->keep_sent = 0;
	if (c->ts_ok)
		tcp_ts_record(c, in, now_ns);
	if (c->ecn_ok)
		tcp_rx_ecn(c, in);
	/* The ACK that opened the connection knows nothing of what `accept` has sent since. */
	if (!opened)
		tcp_ack(c, in, now_ns);
	if (unlikely(h->flags & TCP_ECE) && c->ecn_ok) {
		c->t->stats.ecn_ece_in++;
		tcp_cc_ece(c, now_ns);
	}
	if (unlikely(tcp_fin_acked(c))) {
		switch (c->state) {
		case WEFT_TCP_FIN_WAIT_1:
			tcp_fin_wait_2(c);
			break;
		case WEFT_TCP_CLOSING:
			tcp_time_wait(c, now_ns);
			return;
		case WEFT_TCP_LAST_ACK:
			tcp_conn_drop(c, 0);
			return;
		default:
			break;
		}
	}
	/* Sixth, URG: delivered in band, where it stands; nothing here sends or wants urgent data.
	 */
	if (unlikely(h->flags & TCP_URG))
		c->t->stats.urgent_in++;
	/* Seventh, text. */
	if (!tcp_states[c->state].may_rcv) {
		c->t->stats.data_after_close += in->len_bytes > 0;
		return;
	}
	tcp_text(c, in, now_ns);
	/* Eighth, FIN. The up-calls of step seven may have changed everything. */
	if (!c->dead && c->fin_in && c->rcv_nxt == c->fin_seq_in && tcp_states[c->state].may_rcv)
		tcp_fin(c, now_ns);
}

/* ---- Bursts ---- */

static void (*const tcp_rx_state[WEFT_TCP_NSTATES])(struct weft_tcp_conn *c, struct tcp_in *in,
                                                    uint64_t now_ns) = {
        [WEFT_TCP_SYN_SENT] = tcp_rx_syn_sent,        [WEFT_TCP_SYN_RCVD] = tcp_rx_synchronized,
        [WEFT_TCP_ESTABLISHED] = tcp_rx_synchronized, [WEFT_TCP_FIN_WAIT_1] = tcp_rx_synchronized,
        [WEFT_TCP_FIN_WAIT_2] = tcp_rx_synchronized,  [WEFT_TCP_CLOSE_WAIT] = tcp_rx_synchronized,
        [WEFT_TCP_CLOSING] = tcp_rx_synchronized,     [WEFT_TCP_LAST_ACK] = tcp_rx_synchronized,
        [WEFT_TCP_TIME_WAIT] = tcp_rx_synchronized,
};

/** Header and options of one segment; false: not a TCP segment that anybody would send. */
static bool
tcp_decode(struct weft_tcp *t, struct tcp_in *in, struct rte_mbuf *m)
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
	in->hash = tcp_tuple_hash(t, in->dst, in->h.dst_port, in->src, in->h.src_port);
	return true;
}

void
tcp_rx_conn(struct weft_tcp_conn *c, struct tcp_in *in, uint64_t now_ns)
{
	if (tcp_rx_state[c->state] == NULL)
		return;
	c->n_segs_in++;
	tcp_hold(c);
	tcp_rx_state[c->state](c, in, now_ns);
	tcp_release(c);
}

static void
tcp_segment(struct weft_tcp *t, struct weft_netif *nif, struct tcp_in *in, uint64_t now_ns)
{
	struct weft_tcp_conn *c =
	        tcp_lookup(t, in->hash, in->dst, in->h.dst_port, in->src, in->h.src_port);

	if (c != NULL && unlikely(c->state == WEFT_TCP_TIME_WAIT) &&
	    tcp_time_wait_reuse(c, nif, in, now_ns)) {
		/* RFC 9293 s3.6.1 */
	} else if (c != NULL) {
		tcp_rx_conn(c, in, now_ns);
	} else {
		tcp_rx_no_conn(t, nif, in, NULL, now_ns);
	}
	rte_pktmbuf_free(in->m);
}

void
weft_tcp_rx(struct weft_tcp *t, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n,
            uint64_t now_ns)
{
	struct tcp_in in[WEFT_NETIF_BURST];

	t->stats.segs_in += n;
	if (n >= WEFT_NETIF_BURST / 2)
		t->busy_rx_ns = now_ns;
	while (n > 0) {
		unsigned int burst = RTE_MIN(n, (unsigned int)WEFT_NETIF_BURST), k = 0;

		for (unsigned int i = 0; i < burst; i++) {
			if (!tcp_decode(t, &in[k], m[i])) {
				t->stats.rx_bad++;
				rte_pktmbuf_free(m[i]);
				continue;
			}
			rte_prefetch0(&t->buckets[in[k].hash & t->bucket_mask]);
			k++;
		}
		for (unsigned int i = 0; i < k; i++) {
			const struct weft_tcp_conn *c = t->buckets[in[i].hash & t->bucket_mask];

			if (c != NULL) {
				rte_prefetch0(c);
				rte_prefetch0(&c->rcv_nxt);
				rte_prefetch0(&c->snd_una);
			}
		}
		for (unsigned int i = 0; i < k; i++)
			tcp_segment(t, nif, &in[i], now_ns);
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

	/* RFC 5927 s4.1: it must speak of octets under way. */
	if (c == NULL || !tcp_within(e->seq, c->snd_una, c->snd_max - c->snd_una)) {
		if (e->kind == WEFT_ICMP_TOO_BIG)
			t->stats.pmtu_ignored++;
		return;
	}
	if (e->kind == WEFT_ICMP_TOO_BIG) {
		if (tcp_states[c->state].synchronized) {
			tcp_hold(c);
			tcp_pmtu_too_big(c, e, now_ns);
			tcp_release(c);
		}
		return;
	}
	/* RFC 9293 s3.9.2.2: protocol and port unreachable are hard errors; an open connection
	 * does not believe even those (RFC 5461 s4.1). */
	if (c->state != WEFT_TCP_SYN_SENT)
		return;
	if (e->kind == WEFT_ICMP_HARD)
		tcp_conn_drop(c, -ECONNREFUSED);
	else
		c->soft_err = -EHOSTUNREACH;
}
