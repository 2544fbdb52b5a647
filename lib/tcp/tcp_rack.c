/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * RACK-TLP (RFC 8985): losses found by the time of transmission, and a probe for a lost tail.
 */

#include "tcp_cc.h"
#include "tcp_conn.h"
#include "tcp_instance.h"
#include "tcp_loss.h"
#include "tcp_snd.h"
#include "tcp_timer.h"

#define RACK_PERSIST 16 /* s6.2 step 4 */

/** End of step 2: takes the newest segment that this ACK delivered. */
void
tcp_rack_update(struct weft_tcp_conn *c)
{
	const struct tcp_ack_state *a = &c->t->ack;

	if (a->newest_ns == 0)
		return;
	c->rack_rtt_ns = a->rtt_ns;
	c->rack_xmit_ns = RTE_MAX(c->rack_xmit_ns, a->newest_ns);
}

/* ---- Step 4 ---- */

void
tcp_rack_dsack(struct weft_tcp_conn *c, bool dsack, bool recovered)
{
	if (c->dsack_round && weft_seq_leq(c->dsack_end, c->snd_una))
		c->dsack_round = false;
	if (!c->dsack_round && dsack) {
		c->dsack_round = true;
		c->dsack_end = c->snd_nxt;
		if (c->reo_mult < UINT8_MAX)
			c->reo_mult++;
		c->reo_persist = RACK_PERSIST;
	} else if (recovered && c->reo_persist > 0 && --c->reo_persist == 0) {
		c->reo_mult = 1;
	}
}

static uint64_t
rack_reo_wnd(const struct weft_tcp_conn *c)
{
	uint64_t srtt_ns = (uint64_t)c->srtt8_us * WEFT_NS_PER_US / 8, wnd_ns;

	if (!c->reordering_seen &&
	    (c->in_recovery || c->after_rto || c->sacked_segs >= TCP_DUPTHRESH))
		return 0;
	wnd_ns = c->reo_mult * tcp_rack_min(c) / 4;
	return RTE_MIN(wnd_ns, srtt_ns);
}

/* ---- Step 5 ---- */

bool
tcp_rack_detect(struct weft_tcp_conn *c, uint64_t now_ns)
{
	struct rte_mbuf *m;
	bool lost = false;

	c->reo_wnd_ns = rack_reo_wnd(c);
	c->reo_at_ns = WEFT_NEVER;
	while ((m = c->flight.head) != NULL && tcp_seg(m)->sent_ns < c->rack_xmit_ns) {
		uint64_t due_ns = tcp_seg(m)->sent_ns + c->rack_rtt_ns + c->reo_wnd_ns;

		/* The list is in the order of transmission: no later segment is due earlier. */
		if (due_ns > now_ns) {
			c->reo_at_ns = due_ns;
			break;
		}
		tcp_seg_lost(c, m);
		c->t->stats.rack_marked_lost++;
		lost = true;
	}
	/* The FIN is not a segment of the queue, but it can be lost, too. */
	if (tcp_fin_sent(c) && !tcp_fin_acked(c) && !c->fin_lost &&
	    c->fin_sent_ns < c->rack_xmit_ns &&
	    c->fin_sent_ns + c->rack_rtt_ns + c->reo_wnd_ns <= now_ns)
		c->fin_lost = true;
	return lost;
}

/* ---- TLP: s7 ---- */

void
tcp_tlp_reset(struct weft_tcp_conn *c)
{
	c->tlp_active = false;
	c->tlp_retrans = false;
	c->pto_at_ns = WEFT_NEVER;
}

/**
 * s7.3: sends new data if the peer's window takes it, else the last segment again. In recovery it
 * is the last transmission that is sent again: its ACK tells about all that were sent before.
 */
static bool
tlp_send(struct weft_tcp_conn *c, uint64_t now_ns)
{
	struct rte_mbuf *m = c->sq_nxt;
	uint32_t flight = c->snd_nxt - c->snd_una;

	if (m != NULL && !c->in_recovery && tcp_seg(m)->len_bytes <= c->mss &&
	    flight + tcp_seg(m)->len_bytes <= c->snd_wnd) {
		if (!tcp_xmit(c, m, now_ns))
			return false;
		tcp_sent(c, m);
		return true;
	}
	c->tlp_retrans = !c->in_recovery;
	m = c->flight.tail;
	if (m == NULL)
		return tcp_fin_sent(c) && tcp_send_fin(c, now_ns);
	return tcp_seg(m)->len_bytes <= c->mss && tcp_xmit(c, m, now_ns);
}

void
tcp_tlp_fire(struct weft_tcp_conn *c, uint64_t now_ns)
{
	c->tlp_retrans = false;
	if (tlp_send(c, now_ns)) {
		if (c->in_recovery)
			c->t->stats.recovery_probes++;
		else
			c->t->stats.tlp_probes++;
		c->n_tlp++;
		c->tlp_active = true;
		c->tlp_sampled = false;
		c->tlp_end = c->snd_nxt;
	}
	/* At most one probe. The RTO follows. */
	tcp_rto_restart(c, now_ns);
	c->pto_at_ns = WEFT_NEVER;
	tcp_rto_arm(c);
}

void
tcp_tlp_ack(struct weft_tcp_conn *c, uint32_t ack, bool dup, uint64_t now_ns)
{
	const struct tcp_ack_state *a = &c->t->ack;

	if (likely(!c->tlp_active) || weft_seq_lt(ack, c->tlp_end))
		return;
	if (!c->tlp_retrans || (a->dsack && a->dsack_block.right == c->tlp_end)) {
		if (c->tlp_retrans)
			tcp_lone_forget(c);
		c->tlp_active = false;
	} else if (weft_seq_lt(c->tlp_end, ack)) {
		/* s7.4.2: two copies would have caused a D-SACK. So one copy was lost, which counts
		 * as a congestion event. */
		c->tlp_active = false;
		c->t->stats.tlp_recovered++;
		if (!c->in_recovery && !c->after_rto) {
			tcp_cc_reduce(c, now_ns);
			c->undo_valid = false;
			c->cwnd = RTE_MIN(c->cwnd, c->ssthresh);
		}
	} else if (dup && !a->has_sack) {
		/* The second copy caused it, so the first has arrived. */
		tcp_lone_forget(c);
		c->tlp_active = false;
	}
}
