/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Received segments, in the order of RFC 9293 s3.10.7. SYN-SENT has one handler. All other states
 * share one that takes the RFC's eight steps. tcp_listen.c handles segments without a connection,
 * and tcp_rx.c decodes both.
 */

#include <rte_prefetch.h>

#include "tcp_cc.h"
#include "tcp_conn.h"
#include "tcp_defend.h"
#include "tcp_hdr.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_math.h"
#include "tcp_loss.h"
#include "tcp_rcv.h"
#include "tcp_share.h"
#include "tcp_snd.h"
#include "tcp_timer.h"
#include "weft_netif_icmp.h"
#include "weft_netif_neigh.h"
#include "weft_netif.h"

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
		tcp_reset_reply(c->t, c->nif, in, c->dscp, now_ns);
		return;
	}
	/* Second, RST: valid only if it acknowledges our SYN. */
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
		/* Simultaneous open (RFC 9293 s3.5). */
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

/** Fifth step, the part of ESTABLISHED: acknowledged octets and the peer's window. */
static void
tcp_ack(struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t now_ns)
{
	const struct tcp_hdr *h = &in->h;
	uint32_t wnd = (uint32_t)h->wnd << c->snd_wscale;
	uint32_t acked = h->ack - c->snd_una;
	uint64_t sent_ns = 0;
	bool sample, dup;

	/* RFC 5681 s2: a duplicate ACK acknowledges nothing, carries nothing and changes
	 * nothing. */
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
	/* RFC 9293 s3.8.6.1: a peer that answers probes of its closed window is alive. */
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
	if (sample && acked <= c->mss && now_ns > sent_ns)
		tcp_lone_sample(c, now_ns - sent_ns);
	if (sample && weft_seq_lt(c->rtt_seq, c->snd_una)) {
		/* The transmission times of a burst run a little ahead of the clock. */
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
	/* The peer took the probe. If its window is still closed, tcp_output() sets this again. */
	c->persist = false;
	/*
	 * DEVIATION: RFC 6298 s5 keeps the doubled RTO until a new RTT sample. A sender that only
	 * retransmits never gets a sample. Progress shows that the path is not that slow.
	 */
	c->backoff = 0;
	tcp_recovery_ack(c, in, acked, false, now_ns);
}

/** Delivers octets to the user, or the records of what it has taken. False: the connection ended in
 * the up-call. */
static bool
tcp_deliver(struct weft_tcp_conn *c, struct rte_mbuf *m, uint32_t len, bool taken, uint64_t now_ns)
{
	c->rcv_nxt += len;
	c->rcv_unacked_bytes += len;
	c->t->stats.bytes_in += len;
	c->n_bytes_in += len;
	if (likely(c->ops != NULL && c->ops->rx != NULL)) {
		if (unlikely(taken))
			c->ops->rx_ahead(c->user, m, c->rcv_nxt - len, len, now_ns);
		else
			c->ops->rx(c->user, m, now_ns);
		return !c->dead;
	}
	rte_pktmbuf_free(m);
	if (c->fin_out) {
		/* RFC 9293 s3.6.1 (SHLD-3): the user has closed and nothing reads the data. */
		c->t->stats.data_after_close++;
		tcp_give_up(c, -ECONNABORTED, now_ns);
	}
	return !c->dead;
}

/** Notes a FIN within the window, in order or not. */
static void
tcp_note_fin(struct weft_tcp_conn *c, const struct tcp_in *in)
{
	uint32_t seq = in->h.seq + in->len_bytes;

	if (in->h.flags & TCP_FIN && !c->fin_in && tcp_within(seq, c->rcv_nxt, c->rcv_wnd)) {
		c->fin_in = true;
		c->fin_seq_in = seq;
		/* Nothing follows a FIN. Drop pieces queued beyond it: they would stay or hide
		 * it. */
		if (unlikely(c->ooo_tail != NULL))
			tcp_reass_cut(c, seq);
	}
}

/**
 * Whether data just received in order, in `segs` segments, is acknowledged with this burst.
 * Otherwise its ACK may wait for delack_us (RFC 9293 s3.8.6.3, RFC 5681 s4.2). The ACK may not wait
 * where the sender's next FPDU depends on it:
 * - after every second full-sized segment (a filled gap is acknowledged at once);
 * - after half of the window, because a sender stops at a small window;
 * - for the first segments of a connection, after a pause as long as the sender's restart interval
 *   (RFC 5681 s4.1), and after a loss. The sender's window is then small, and every ACK opens it.
 *
 * The remaining case is the odd last segment of a sender with an open window. A user above the
 * sender may wait for its completion; delack_us is the most that this costs.
 */
static bool
tcp_ack_now(struct weft_tcp_conn *c, unsigned int segs)
{
	if (c->quick_acks > 0 && !c->t->attr.no_quick_acks) {
		c->quick_acks -= (uint8_t)RTE_MIN(segs, (unsigned int)c->quick_acks);
		return true;
	}
	return c->rcv_unacked_bytes >= 2u * c->rcv_mss || c->rcv_unacked_bytes >= c->rcv_wnd / 2;
}

/** Octets have arrived in order, after which pause tells how large the sender's window is. */
static inline void
tcp_text_note(struct weft_tcp_conn *c, uint64_t now_ns)
{
	if (c->last_text_ns == now_ns)
		return;
	if (now_ns - c->last_text_ns > tcp_rto_ns(c))
		c->quick_acks = TCP_QUICK_ACKS;
	c->last_text_ns = now_ns;
}

/** Plans the ACK of octets that were delivered in order, of `segs` segments. */
static inline void
tcp_text_ack(struct weft_tcp_conn *c, unsigned int segs, uint64_t now_ns)
{
	if (unlikely(c->nsack > 0))
		tcp_sack_prune(c);
	/* The user may have sent in the up-call, and our ACK with its data. */
	if (c->rcv_unacked_bytes == 0)
		return;
	if (tcp_ack_now(c, segs))
		tcp_work(c, TCP_WORK_ACK); /* one ACK for the whole burst */
	else
		tcp_timer_set(
		        c, &c->t_delack,
		        RTE_MIN(c->t_delack.at_ns, now_ns + c->t->attr.delack_us * WEFT_NS_PER_US));
}

/** Octets that begin at rcv_nxt and end within the window: delivers them, and plans their ACK. */
static void
tcp_text_in_order(struct weft_tcp_conn *c, struct rte_mbuf *m, uint32_t len, uint64_t now_ns)
{
	bool filled = c->ooo_head != NULL, taken;

	/* What the user has taken is not delivered again. */
	if (unlikely(filled))
		m = tcp_reass_front(c, m, &len);
	tcp_text_note(c, now_ns);
	if (!tcp_deliver(c, m, len, false, now_ns))
		return;
	if (likely(!filled)) {
		tcp_text_ack(c, 1, now_ns);
		return;
	}
	while (c->ooo_head != NULL && (m = tcp_reass_pop(c, &len, &taken)) != NULL)
		if (!tcp_deliver(c, m, len, taken, now_ns))
			return;
	if (unlikely(c->nsack > 0))
		tcp_sack_prune(c);
	/* The user may have sent in the up-call, and our ACK with its data. */
	if (c->rcv_unacked_bytes == 0)
		return;
	/* RFC 5681 s4.2: acknowledge a filled gap at once. If the sender has lost all else that is
	 * in flight, an ACK at the end of the burst is its only ACK, and it waits for a timeout. */
	if (!c->fin_in)
		tcp_send_ack(c, now_ns);
	else
		tcp_work(c, TCP_WORK_ACK);
}

/** Seventh step: segment text. */
static void
tcp_text(struct weft_tcp_conn *c, struct tcp_in *in, uint64_t now_ns)
{
	struct rte_mbuf *m;
	uint32_t seq = in->h.seq, len = in->len_bytes, edge = c->rcv_nxt + c->rcv_wnd;

	tcp_note_fin(c, in);
	if (c->fin_in && weft_seq_lt(c->fin_seq_in, edge))
		edge = c->fin_seq_in;
	if (len == 0) {
		if (in->h.flags & TCP_FIN && seq != c->rcv_nxt)
			tcp_send_ack(c, now_ns); /* a FIN ahead of missing data */
		return;
	}
	if (unlikely(len > c->rcv_mss))
		c->rcv_mss = (uint16_t)RTE_MIN(len, (uint32_t)c->mss_local);
	m = tcp_trim_front(in->m, in->h.hdr_len_bytes);
	in->m = NULL;
	if (unlikely(weft_seq_lt(edge, seq + len))) {
		uint32_t over = seq + len - edge;

		/* Beyond the window or beyond the FIN. */
		if (over >= len)
			goto drop;
		m = tcp_trim_tail(m, over);
		len -= over;
	}
	if (unlikely(weft_seq_lt(seq, c->rcv_nxt))) {
		uint32_t old = c->rcv_nxt - seq;

		tcp_count_dup(c, RTE_MIN(old, len));
		tcp_dsack_note(c, seq, seq + RTE_MIN(old, len));
		/* The peer does not know that these octets have arrived. The next ACK tells it. */
		c->rcv_unacked_bytes = RTE_MAX(c->rcv_unacked_bytes, 1u);
		tcp_work(c, TCP_WORK_ACK);
		if (old >= len)
			goto drop;
		m = tcp_trim_front(m, old);
		len -= old;
		seq += old;
	}
	if (unlikely(seq != c->rcv_nxt)) {
		/* RFC 5681 s4.2: a duplicate ACK for each out-of-order segment, at once. */
		c->quick_acks = TCP_QUICK_ACKS;
		tcp_reass_insert(c, m, seq, len);
		tcp_send_ack(c, now_ns);
		return;
	}
	tcp_text_in_order(c, m, len, now_ns);
	return;
drop:
	rte_pktmbuf_free(m);
}

/** Eighth step: the peer's FIN, after all octets before it have arrived. */
static void
tcp_fin(struct weft_tcp_conn *c, uint64_t now_ns)
{
	bool wait = c->state == WEFT_TCP_FIN_WAIT_2;

	c->rcv_nxt++;
	c->rcv_unacked_bytes++;
	if (wait)
		tcp_send_ack(c, now_ns); /* not later: the up-calls below are the user's last */
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

/** Second step: a RST with exactly the expected sequence number. */
static void
tcp_reset(struct weft_tcp_conn *c)
{
	c->t->stats.resets_in++;
	switch (c->state) {
	case WEFT_TCP_SYN_RCVD: /* passive open: the user does not know the connection yet */
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

/** RFC 3168 s6.1.3: the receiver of octets reports congestion to their sender. */
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

/** First step: the sequence number is not acceptable. */
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
		/* A keepalive probe or a stray ACK. The rate limit keeps two ends from answering
		 * each other forever. */
		c->last_rx_ns = in->h.seq == c->rcv_nxt - 1 ? now_ns : c->last_rx_ns;
		tcp_challenge_ack(c, now_ns);
		return;
	}
	if (c->state == WEFT_TCP_TIME_WAIT && in->h.flags & TCP_FIN)
		tcp_timer_set(c, &c->t_life, now_ns + c->t->attr.time_wait_us * WEFT_NS_PER_US);
	tcp_stray_ack(c, now_ns);
}

/** Whether a segment that does not start within the window is acceptable all the same. */
static bool
tcp_acceptable_end(const struct weft_tcp_conn *c, const struct tcp_hdr *h, uint32_t seg_len)
{
	if (seg_len > 0)
		return tcp_within(h->seq + seg_len - 1, c->rcv_nxt, c->rcv_wnd);
	/* A sender that has filled the window sends its ACKs with the sequence number at the
	 * window's edge. It has no other way to acknowledge while its first segment is lost. */
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
		/* The peer's SYN again. The peer lacks our SYN-ACK, unless this SYN carries an
		 * ACK. */
		if ((h->flags & TCP_ACK) == 0) {
			/* RFC 3168 s6.1.1.1: a SYN without ECN among the peer's SYNs turns ECN
			 * off. */
			if ((h->flags & (TCP_ECE | TCP_CWR)) == 0)
				c->ecn_ok = false;
			tcp_send_syn(c, now_ns);
			return;
		}
		h->flags &= (uint8_t)~TCP_SYN;
		h->seq++;
		shift = 0; /* RFC 7323 s2.2: the window of a SYN is not scaled */
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
			return; /* DEVIATION: RFC 1337 s3 (F1), a RST does not end TIME-WAIT */
		if (h->seq == c->rcv_nxt) {
			tcp_reset(c);
			return;
		}
		c->t->stats.rst_out_of_place++;
		tcp_challenge_ack(c, now_ns);
		return;
	}
	/* Third, security: not used. */
	/* Fourth, SYN: RFC 5961 s4.2, whatever the sequence number. A passive connection that is
	 * not accepted yet returns to LISTEN, so that a peer that starts again need not wait. */
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
			tcp_reset_reply(c->t, c->nif, in, c->dscp, now_ns);
			return;
		}
		if (c->listener != NULL && !tcp_accept_rate_ok(c->t, now_ns)) {
			/* Treated as lost: our SYN-ACK is sent again and brings another ACK. */
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
	/* RFC 5961 s5.2: an ACK may only cover octets we have sent, and may not be too old. */
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
	/* The ACK that opened the connection does not cover what `accept` has sent since. */
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
	/* Sixth, URG: urgent data is delivered in band. TCP neither sends nor expects any. */
	if (unlikely(h->flags & TCP_URG))
		c->t->stats.urgent_in++;
	/* Seventh, text. */
	if (!tcp_states[c->state].may_rcv) {
		c->t->stats.data_after_close += in->len_bytes > 0;
		return;
	}
	tcp_text(c, in, now_ns);
	/* Eighth, FIN. The up-calls of step seven may have changed the state. */
	if (!c->dead && c->fin_in && c->rcv_nxt == c->fin_seq_in && tcp_states[c->state].may_rcv)
		tcp_fin(c, now_ns);
}

/**
 * Whether all steps but the seventh have nothing to do for this segment: the next octets of an open
 * connection, without gaps, which acknowledge nothing new and do not change the window.
 */
static inline bool
tcp_is_plain_text(const struct weft_tcp_conn *c, const struct tcp_in *in)
{
	const struct tcp_hdr *h = &in->h;

	return c->state == WEFT_TCP_ESTABLISHED && (h->flags & ~TCP_PSH) == TCP_ACK &&
	       h->seq == c->rcv_nxt && h->ack == c->snd_una && in->len_bytes - 1 < c->rcv_mss &&
	       in->len_bytes <= c->rcv_wnd && (uint32_t)h->wnd << c->snd_wscale == c->snd_wnd &&
	       c->snd_wnd != 0 && c->ooo_head == NULL && !c->fin_in &&
	       (!c->ts_ok || (in->opts.has_ts && weft_seq_leq(c->ts_recent, in->opts.ts_val))) &&
	       in->opts.nsack == 0 && in->ecn != WEFT_ECN_CE;
}

/** Processes the first of n segments, and with it those behind it, if all are plain text: what such
 * segments have in common is done once. Returns how many it has taken; 0: the first is none. */
static unsigned int
tcp_rx_plain_text(struct weft_tcp_conn *c, struct tcp_in *in, unsigned int n, uint64_t now_ns)
{
	unsigned int k = 0;

	if (unlikely(!tcp_is_plain_text(c, in)))
		return 0;
	tcp_text_note(c, now_ns);
	c->last_rx_ns = now_ns;
	c->keep_sent = 0;
	do {
		const struct tcp_hdr *h = &in[k].h;
		struct rte_mbuf *m = in[k].m;

		in[k].m = NULL;
		if (likely(m->data_len > h->hdr_len_bytes))
			rte_pktmbuf_adj(m, h->hdr_len_bytes);
		else
			m = tcp_trim_front(m, h->hdr_len_bytes);
		if (c->ts_ok)
			tcp_ts_record(c, &in[k], now_ns);
		if (weft_seq_leq(c->snd_wl1, h->seq)) {
			c->snd_wl1 = h->seq;
			c->snd_wl2 = h->ack;
		}
		c->n_segs_in++;
		if (!tcp_deliver(c, m, in[k++].len_bytes, false, now_ns))
			return k;
	} while (k < n && tcp_is_plain_text(c, &in[k]));
	tcp_text_ack(c, k, now_ns);
	return k;
}

static void (*const tcp_rx_state[WEFT_TCP_NSTATES])(struct weft_tcp_conn *c, struct tcp_in *in,
                                                    uint64_t now_ns) = {
        [WEFT_TCP_SYN_SENT] = tcp_rx_syn_sent,        [WEFT_TCP_SYN_RCVD] = tcp_rx_synchronized,
        [WEFT_TCP_ESTABLISHED] = tcp_rx_synchronized, [WEFT_TCP_FIN_WAIT_1] = tcp_rx_synchronized,
        [WEFT_TCP_FIN_WAIT_2] = tcp_rx_synchronized,  [WEFT_TCP_CLOSE_WAIT] = tcp_rx_synchronized,
        [WEFT_TCP_CLOSING] = tcp_rx_synchronized,     [WEFT_TCP_LAST_ACK] = tcp_rx_synchronized,
        [WEFT_TCP_TIME_WAIT] = tcp_rx_synchronized,
};

unsigned int
tcp_rx_conn(struct weft_tcp_conn *c, struct tcp_in *in, unsigned int n, uint64_t now_ns)
{
	unsigned int k = 0;

	tcp_hold(c);
	do {
		unsigned int plain = tcp_rx_plain_text(c, in + k, n - k, now_ns);

		k += plain;
		if (likely(plain > 0))
			continue;
		c->t->grant.conn = NULL; /* the windows may change */
		if (tcp_rx_state[c->state] != NULL) {
			c->n_segs_in++;
			tcp_rx_state[c->state](c, in + k, now_ns);
		}
		rte_pktmbuf_free(in[k].m);
		in[k++].m = NULL;
	} while (k < n && !c->dead && c->state != WEFT_TCP_TIME_WAIT);
	tcp_release(c);
	return k;
}
