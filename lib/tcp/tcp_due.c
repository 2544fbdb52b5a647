/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * All that is due to be sent: lost segments first, then new data (tcp_out.c), then the FIN. And the
 * probe of a closed window.
 */

#include "tcp_conn.h"
#include "tcp_hdr.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_loss.h"
#include "tcp_pmtu.h"
#include "tcp_snd.h"
#include "tcp_timer.h"

void
tcp_output(struct weft_tcp_conn *c, uint64_t now_ns)
{
	if (unlikely(now_ns >= c->pmtu_raise_ns))
		tcp_pmtu_raise(c, now_ns);
	if (c->dead || !tcp_states[c->state].synchronized || c->state == WEFT_TCP_SYN_RCVD)
		return;
	if (unlikely(c->lost.head != NULL || c->fin_lost) && !tcp_retransmit(c, now_ns))
		return;
	tcp_output_new(c, now_ns);
	if (c->sq_nxt != NULL || !c->fin_out || c->snd_nxt != c->snd_end)
		return;
	if (c->snd_nxt - c->snd_una < c->snd_wnd) {
		if (tcp_send_fin(c, now_ns)) {
			tcp_fin_advance(c);
			tcp_output_timers(c, now_ns);
		} else {
			tcp_wait(c, TCP_WORK_OUTPUT);
		}
	} else if (c->snd_nxt == c->snd_una) {
		tcp_persist(c, now_ns);
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
