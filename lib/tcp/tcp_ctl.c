/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Segments without data: SYN, ACK, FIN, RST. */

#include "tcp_conn.h"
#include "tcp_hdr.h"
#include "tcp_life.h"
#include "tcp_snd.h"

uint32_t
tcp_ctl_seq(const struct weft_tcp_conn *c)
{
	uint32_t edge = c->snd_una + c->snd_wnd;

	return weft_seq_lt(edge, c->snd_max) ? edge : c->snd_max;
}

bool
tcp_send_ctl(struct weft_tcp_conn *c, uint8_t flags, uint32_t seq, uint64_t now_ns)
{
	struct rte_mbuf *m = tcp_alloc(c->t, c->nif);
	uint32_t len;

	if (m == NULL)
		return false;
	len = flags & TCP_RST ? tcp_hdr_len(c) : tcp_hdr_len_for(c, 0);
	tcp_fill_hdr(c, (uint8_t *)rte_pktmbuf_append(m, (uint16_t)len), flags, seq, len, now_ns);
	return tcp_tx(c, m, TCP_HOW_CTL, now_ns) == 0;
}

static uint8_t
tcp_syn_flags(struct weft_tcp_conn *c, bool answer)
{
	/* RFC 3168 s6.1.1.1: a path that drops a SYN with ECN may pass one without. */
	if (!answer && c->retries > 0)
		c->ecn_ok = false;
	if (answer)
		return TCP_SYN | TCP_ACK | (c->ecn_ok ? TCP_ECE : 0);
	return TCP_SYN | (c->ecn_ok ? TCP_ECE | TCP_CWR : 0);
}

void
tcp_send_syn(struct weft_tcp_conn *c, uint64_t now_ns)
{
	bool answer = c->state == WEFT_TCP_SYN_RCVD;
	struct tcp_opts o = {
	        .mss_bytes = c->mss_local,
	        .has_wscale = c->wscale_ok,
	        .wscale = c->t->rcv_wscale,
	        .sack_perm = c->sack_ok,
	        .has_ts = c->ts_ok,
	        .ts_val = tcp_ts_now(c, now_ns),
	        .ts_ecr = answer ? c->ts_recent : 0,
	};
	struct rte_mbuf *m = tcp_alloc(c->t, c->nif);
	unsigned int len;
	uint8_t *p;

	if (m == NULL)
		return; /* treated as lost: the timer runs */
	p = (uint8_t *)rte_pktmbuf_append(m, TCP_HDR_MAX_LEN);
	len = TCP_HDR_LEN + tcp_wire_encode_opts(p + TCP_HDR_LEN, &o);
	rte_pktmbuf_trim(m, (uint16_t)(TCP_HDR_MAX_LEN - len));
	tcp_fill_fixed(c, p, tcp_syn_flags(c, answer), c->iss, len);
	tcp_tx(c, m, TCP_HOW_CTL, now_ns);
}

void
tcp_send_ack(struct weft_tcp_conn *c, uint64_t now_ns)
{
	if (tcp_send_ctl(c, TCP_ACK, tcp_ctl_seq(c), now_ns))
		return;
	/* The ACK is still due. With a count of zero the task would not send it. */
	c->rcv_unacked_bytes = RTE_MAX(c->rcv_unacked_bytes, 1u);
	tcp_wait(c, TCP_WORK_ACK);
}

bool
tcp_send_fin(struct weft_tcp_conn *c, uint64_t now_ns)
{
	if (!tcp_send_ctl(c, TCP_FIN | TCP_ACK, c->snd_end, now_ns))
		return false;
	if (tcp_fin_sent(c)) {
		c->t->stats.retrans_segs++;
		c->n_retrans++;
	}
	c->fin_sent_ns = c->xmit_ns = RTE_MAX(now_ns, c->xmit_ns + 1);
	c->last_send_ns = now_ns;
	return true;
}

void
tcp_fin_advance(struct weft_tcp_conn *c)
{
	c->snd_nxt = c->snd_end + 1;
	c->snd_max = weft_seq_max(c->snd_max, c->snd_nxt);
}
