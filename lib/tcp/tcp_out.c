/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Output: the queued segments that the windows allow, and probes of a closed window.
 */

#include "tcp_cc.h"
#include "tcp_conn.h"
#include "tcp_hdr.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_loss.h"
#include "tcp_pmtu.h"
#include "tcp_snd.h"
#include "tcp_timer.h"

/** The peer's window is closed and no ACK is expected: starts the timer of window probes. */
static void
tcp_persist(struct weft_tcp_conn *c, uint64_t now_ns)
{
	if (c->persist)
		return;
	c->persist = true;
	c->backoff = 0;
	tcp_rto_restart(c, now_ns);
}

/** Sends the segment at snd_nxt, or several, if the windows allow it. False: stop here. */
static bool
tcp_output_one(struct weft_tcp_conn *c, struct rte_mbuf *m, uint64_t now_ns)
{
	struct tcp_seg *s = tcp_seg(m);
	uint32_t flight = c->snd_nxt - c->snd_una;
	uint32_t cong = tcp_cong_wnd(c);
	/* Before the first segment of the queue, only a window probe's octet can be in flight. That
	 * octet belongs to this segment. */
	uint32_t pipe = flight == 0 ? 0 : tcp_pipe(c);
	uint32_t peer = c->snd_wnd > flight ? c->snd_wnd - flight : 0;
	unsigned int n = 1;

	if (unlikely(s->len_bytes > c->mss) && !tcp_sq_split(c, m, c->mss))
		goto later;
	if (pipe + s->len_bytes > cong)
		return false;
	if (unlikely(s->len_bytes > peer)) {
		/* RFC 9293 s3.8.6.2.1: split when at least half of the largest window is open. */
		if (peer == 0 || peer < c->max_snd_wnd / 2) {
			if (flight == 0)
				tcp_persist(c, now_ns);
			return false;
		}
		if (!tcp_sq_split(c, m, (uint16_t)peer))
			goto later;
	}
	if (unlikely(weft_netif_tx_room(c->nif) <= TCP_TX_SLACK))
		goto later;
	if (c->tso.bytes != 0)
		n = tcp_train(c, m, RTE_MIN(cong - pipe, peer));
	if (n > 1) {
		m = tcp_xmit_train(c, m, n, now_ns);
		if (m == NULL)
			goto later;
	} else if (!tcp_xmit(c, m, now_ns)) {
		goto later;
	}
	tcp_sent(c, m);
	return true;
later:
	tcp_wait(c, TCP_WORK_OUTPUT);
	return false;
}

void
tcp_output(struct weft_tcp_conn *c, uint64_t now_ns)
{
	uint32_t before = c->snd_nxt;

	if (unlikely(now_ns >= c->pmtu_raise_ns))
		tcp_pmtu_raise(c, now_ns);
	if (c->dead || !tcp_states[c->state].synchronized || c->state == WEFT_TCP_SYN_RCVD)
		return;
	if (unlikely(c->lost.head != NULL || c->fin_lost) && !tcp_retransmit(c, now_ns))
		return;
	if (c->sq_nxt != NULL)
		tcp_cc_idle(c, now_ns);
	while (c->sq_nxt != NULL && tcp_output_one(c, c->sq_nxt, now_ns))
		;
	tcp_cc_used(c);
	if (c->sq_nxt == NULL && c->fin_out && c->snd_nxt == c->snd_end) {
		if (c->snd_nxt - c->snd_una < c->snd_wnd) {
			if (tcp_send_fin(c, now_ns))
				tcp_fin_advance(c);
			else
				tcp_wait(c, TCP_WORK_OUTPUT);
		} else if (c->snd_nxt == c->snd_una) {
			tcp_persist(c, now_ns);
		}
	}
	if (c->snd_nxt == before)
		return;
	if (c->persist) {
		c->persist = false;
		c->backoff = 0;
		c->retries = 0;
		tcp_rto_restart(c, now_ns);
	} else if (c->rto_at_ns == WEFT_NEVER) {
		tcp_rto_restart(c, now_ns);
	} else {
		tcp_pto_restart(c, now_ns);
	}
}

void
tcp_window_probe(struct weft_tcp_conn *c, uint64_t now_ns)
{
	struct rte_mbuf *m = c->sq_nxt, *probe;
	struct tcp_seg *s;
	uint32_t len;
	uint8_t *p;

	if (m == NULL) {
		if (!c->fin_out || tcp_fin_acked(c))
			c->persist = false; /* nothing to probe for */
		else if (tcp_send_fin(c, now_ns))
			c->snd_max = weft_seq_max(c->snd_max, c->snd_end + 1);
		return;
	}
	s = tcp_seg(m);
	if (c->snd_wnd > 0) {
		/* RFC 9293 s3.8.6.2.1, the override timeout: send what fits into the window. */
		if (s->len_bytes > c->snd_wnd && !tcp_sq_split(c, m, (uint16_t)c->snd_wnd))
			return;
		if (tcp_xmit(c, m, now_ns)) {
			tcp_sent(c, m);
			c->persist = false;
			c->backoff = 0;
		}
		return;
	}
	/* RFC 9293 s3.8.6.1: one octet of new data. The queued segment stays whole. */
	probe = tcp_alloc(c->t, c->nif);
	if (probe == NULL)
		return;
	len = tcp_hdr_len(c);
	p = (uint8_t *)rte_pktmbuf_append(probe, (uint16_t)(len + 1));
	p[len] = tcp_seg_first(m);
	tcp_fill_hdr(c, p, TCP_ACK, s->seq, len, now_ns);
	if (tcp_tx(c, probe, TCP_HOW_CTL, now_ns) != 0)
		return;
	c->t->stats.zero_window_probes++;
	c->snd_max = weft_seq_max(c->snd_max, s->seq + 1);
	tcp_count_out(c, (s->flags & TCP_SEG_PROBED) == 0);
	s->flags |= TCP_SEG_PROBED;
}
