/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Congestion control: NewReno (RFC 5681, RFC 6582) with byte counting (RFC 3465, so that one
 * ACK for a burst opens the window as one for each of its segments would) and an initial window of
 * ten (RFC 6928).
 */

#include "tcp_priv.h"

/** How far `recover` may lie behind snd_una; more than anything that is ever under way. */
#define TCP_RECOVER_LAG (1u << 30)

static uint32_t
tcp_initial_window(const struct weft_tcp_conn *c)
{
	uint32_t n = c->t->attr.initial_cwnd_segs;

	/* RFC 6928 s2: min(10 * MSS, max(2 * MSS, 14600)) */
	return tcp_clamp((uint64_t)n * c->mss, c->mss, RTE_MAX(2u * c->mss, n * 1460));
}

void
tcp_cc_init(struct weft_tcp_conn *c, bool syn_lost)
{
	/* RFC 6928 s2: one segment when the SYN or its answer was lost */
	c->cwnd = syn_lost ? c->mss : tcp_initial_window(c);
	c->ssthresh = UINT32_MAX / 2;
	c->cwnd_acked = 0;
}

/** RFC 5681 s3.1 equation 4. */
static uint32_t
tcp_half_flight(const struct weft_tcp_conn *c)
{
	return RTE_MAX((c->snd_max - c->snd_una) / 2, 2u * c->mss);
}

void
tcp_cc_idle(struct weft_tcp_conn *c, uint64_t now_ns)
{
	if (c->snd_max == c->snd_una && now_ns - c->last_send_ns > tcp_rto_ns(c))
		c->cwnd = RTE_MIN(c->cwnd, tcp_initial_window(c));
}

static void
tcp_cc_grow(struct weft_tcp_conn *c, uint32_t acked, uint32_t flight)
{
	uint32_t max = RTE_MAX(c->t->attr.snd_buf_bytes, 2u * c->mss), limit;

	if (c->cwnd < c->ssthresh) {
		/* Only a window that is used says anything about the path. */
		if (flight < c->cwnd / 2)
			return;
		/*
		 * DEVIATION: RFC 3465 s2.2 says L = 2, for a receiver that acknowledges every
		 * second segment. Ours does so once for a whole receive burst; less than the burst
		 * would make slow start slower the faster the path is. After a timeout L = 1
		 * (s2.3).
		 */
		limit = (c->after_rto ? 1u : TCP_SLOW_START_SEGS) * c->mss;
		c->cwnd += RTE_MIN(acked, limit);
	} else {
		if (flight + 2u * c->mss < c->cwnd)
			return;
		c->cwnd_acked += acked;
		if (c->cwnd_acked >= c->cwnd) {
			c->cwnd_acked -= c->cwnd;
			c->cwnd += c->mss;
		}
		c->cwnd_acked = RTE_MIN(c->cwnd_acked, c->cwnd);
	}
	c->cwnd = RTE_MIN(c->cwnd, max);
}

void
tcp_cc_acked(struct weft_tcp_conn *c, uint32_t acked, uint32_t flight, uint64_t now_ns)
{
	c->dupacks = 0;
	if (!c->in_recovery) {
		if (c->after_rto && weft_seq_leq(c->recover, c->snd_una))
			c->after_rto = false;
		/* Drag it along, or serial arithmetic turns round after 2 GiB without a loss. */
		if (!c->after_rto && c->snd_una - c->recover > TCP_RECOVER_LAG)
			c->recover = c->snd_una - TCP_RECOVER_LAG;
		tcp_cc_grow(c, acked, flight);
		return;
	}
	if (weft_seq_leq(c->recover, c->snd_una)) {
		/* RFC 6582 s3.2 step 3, full acknowledgment, option 1 */
		c->cwnd = tcp_clamp((uint64_t)(c->snd_nxt - c->snd_una) + c->mss, 2u * c->mss,
		                    c->ssthresh);
		c->in_recovery = false;
		c->cwnd_acked = 0;
		return;
	}
	/* Partial: the next hole. Deflate by what left, and put back one segment. */
	c->cwnd -= RTE_MIN(acked, c->cwnd - c->mss);
	if (acked >= c->mss)
		c->cwnd += c->mss;
	tcp_resend_head(c, now_ns);
	if (!c->partial_seen) {
		c->partial_seen = true;
		tcp_rto_restart(c, now_ns);
	}
}

void
tcp_cc_dupack(struct weft_tcp_conn *c, uint64_t now_ns)
{
	c->dupacks++;
	if (c->in_recovery) {
		/* Each means that a segment has left the network (RFC 5681 s3.2 step 4). */
		c->cwnd = RTE_MIN(c->cwnd + c->mss, c->t->attr.snd_buf_bytes);
		return;
	}
	/* RFC 6582 s3.2 step 2: not for what an earlier recovery has resent already. */
	if (c->dupacks != TCP_DUPTHRESH || !weft_seq_lt(c->recover, c->snd_una))
		return;
	c->t->stats.fast_retrans++;
	c->ssthresh = tcp_half_flight(c);
	c->recover = c->snd_max;
	c->in_recovery = true;
	c->partial_seen = false;
	c->cwnd = c->ssthresh + TCP_DUPTHRESH * c->mss;
	tcp_resend_head(c, now_ns);
	tcp_rto_restart(c, now_ns);
}

void
tcp_cc_timeout(struct weft_tcp_conn *c)
{
	/* RFC 5681 s3.1: what the timer has already resent once halves nothing again. */
	if (c->retries <= 1)
		c->ssthresh = tcp_half_flight(c);
	c->cwnd = c->mss;
	c->cwnd_acked = 0;
	c->recover = c->snd_max; /* RFC 6582 s4 */
	c->in_recovery = false;
	c->after_rto = true;
	c->dupacks = 0;
}

void
tcp_cc_ece(struct weft_tcp_conn *c, uint64_t now_ns)
{
	(void)now_ns;
	/* RFC 3168 s6.1.2: once per window of data, and not on top of a loss in the same one. */
	if (c->in_recovery || c->after_rto || weft_seq_leq(c->snd_una, c->ece_recover))
		return;
	c->t->stats.ecn_reductions++;
	c->ssthresh = tcp_half_flight(c);
	c->cwnd = c->ssthresh;
	c->cwnd_acked = 0;
	c->ece_recover = c->snd_max;
	c->cwr_due = true;
}
