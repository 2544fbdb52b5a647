/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The part of congestion control that all algorithms share: initial window (RFC 6928), slow start
 * counted in octets (RFC 3465), the window after an idle time (RFC 5681 s4.1), the reaction to a
 * loss, a timeout or ECE, and undoing a reduction that was spurious (RFC 4015, RFC 9438 s4.9).
 */

#include "tcp_cc.h"
#include "tcp_conn.h"
#include "tcp_loss.h"
#include "tcp_math.h"
#include "tcp_snd.h"
#include "tcp_timer.h"
#include "tcp_instance.h"

static const struct tcp_cc_ops *const tcp_cc_table[] = {
        [WEFT_TCP_CC_DEFAULT] = &tcp_cubic_ops,
        [WEFT_TCP_CC_CUBIC] = &tcp_cubic_ops,
        [WEFT_TCP_CC_NEWRENO] = &tcp_newreno_ops,
};

static const struct tcp_cc_ops *
tcp_cc_find(enum weft_tcp_cc cc)
{
	return (unsigned int)cc < RTE_DIM(tcp_cc_table) ? tcp_cc_table[cc] : &tcp_cubic_ops;
}

void
weft_tcp_set_cc(struct weft_tcp_conn *c, enum weft_tcp_cc cc)
{
	const struct tcp_cc_ops *ops = tcp_cc_find(cc == WEFT_TCP_CC_DEFAULT ? c->t->attr.cc : cc);

	if (c->cc == ops)
		return;
	c->cc = ops;
	c->undo_valid = false; /* the saved state is of the other algorithm */
	ops->init(c);
}

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
	/* RFC 6928 s2: one segment if the SYN or the SYN-ACK was lost */
	c->cwnd = syn_lost ? c->mss : tcp_initial_window(c);
	c->ssthresh = UINT32_MAX / 2;
	c->cc->init(c);
}

void
tcp_cc_idle(struct weft_tcp_conn *c, uint64_t now_ns)
{
	if (c->snd_max != c->snd_una || now_ns - c->last_send_ns <= tcp_rto_ns(c))
		return;
	c->cwnd = RTE_MIN(c->cwnd, tcp_initial_window(c));
	if (c->cc->unused != NULL)
		c->cc->unused(c, now_ns);
}

void
tcp_cc_used(struct weft_tcp_conn *c)
{
	uint32_t pipe = tcp_pipe(c);
	bool stopped = c->sq_nxt != NULL && pipe + tcp_seg(c->sq_nxt)->len_bytes > tcp_cong_wnd(c);

	/* RFC 7661 s4.2: use of half a window validates it. In slow start the window then grows
	 * with the sender, to twice what it sent and no further. */
	if (stopped || pipe + 2u * c->mss > c->cwnd ||
	    (c->cwnd < c->ssthresh && pipe >= c->cwnd / 2))
		c->cwnd_used = c->snd_nxt;
}

void
tcp_cc_grow(struct weft_tcp_conn *c, uint32_t acked, uint64_t now_ns)
{
	uint32_t max = RTE_MAX(c->t->attr.snd_buf_bytes, 2u * c->mss), room;

	/*
	 * RFC 9293 s3.8.6 via RFC 7661 s3: only octets sent while the window was the limit show
	 * that the path carries more. That is noted when they are sent. If it were judged at a
	 * burst of ACKs, all but the first ACK would find the window half empty.
	 */
	if (!weft_seq_lt(c->snd_una - acked, c->cwnd_used)) {
		if (c->cc->unused != NULL)
			c->cc->unused(c, now_ns);
		return;
	}
	if (c->cwnd < c->ssthresh) {
		/*
		 * DEVIATION: RFC 9438 s4.10 asks for HyStart++, which ends slow start before it
		 * overruns the path. Its RTT samples need one ACK for each segment or two. Our ACKs
		 * arrive a burst at a time, and PRR repairs the overrun in one recovery.
		 *
		 * DEVIATION: RFC 3465 s2.2 says L = 2, for a receiver that acknowledges every
		 * second segment. Our receiver sends one ACK for a whole receive burst. With a
		 * limit below the burst, slow start would be slower the faster the path is. After a
		 * timeout L = 1 (s2.3).
		 */
		room = (c->after_rto ? 1u : TCP_SLOW_START_SEGS) * c->mss;
		room = RTE_MIN(acked, room);
		room = RTE_MIN(room, c->ssthresh - c->cwnd + c->mss);
		c->cwnd += room;
	} else {
		c->cc->acked(c, acked, now_ns);
	}
	c->cwnd = RTE_MIN(c->cwnd, max);
}

/** FlightSize as in RFC 5681 s3.2: without the segments of Limited Transmit. */
static uint32_t
tcp_flight_size(const struct weft_tcp_conn *c)
{
	return tcp_clamp(c->cwnd, c->mss, RTE_MAX(c->snd_max - c->snd_una, (uint32_t)c->mss));
}

void
tcp_cc_reduce(struct weft_tcp_conn *c, uint64_t now_ns)
{
	c->undo_valid = true;
	c->undo_retrans = 0;
	c->undo_ts_due = false;
	c->undo_seq = c->snd_una;
	c->undo_cwnd = c->cwnd;
	c->undo_ssthresh = c->ssthresh;
	c->undo_cubic = c->cubic;
	c->ssthresh = c->cc->ssthresh(c, tcp_flight_size(c), now_ns);
	c->cwr_due = c->ecn_ok; /* RFC 3168 s6.1.2: whatever the reason is */
}

void
tcp_cc_timeout(struct weft_tcp_conn *c, uint64_t now_ns)
{
	/* RFC 5681 s3.1: a second timeout of the same segment does not halve the window again. */
	if (c->retries <= 1) {
		tcp_cc_reduce(c, now_ns);
		if (c->cc->timeout != NULL)
			c->cc->timeout(c);
	}
	c->cwnd = c->mss;
}

void
tcp_cc_undo(struct weft_tcp_conn *c)
{
	if (!c->undo_valid)
		return;
	c->undo_valid = false;
	c->t->stats.undos++;
	/* RFC 9438 s4.9.2: a window that has become larger stays. */
	if (c->cwnd < c->undo_cwnd) {
		c->cwnd = c->undo_cwnd;
		c->cubic = c->undo_cubic;
	}
	c->ssthresh = RTE_MAX(c->ssthresh, c->undo_ssthresh);
}

void
tcp_cc_ece(struct weft_tcp_conn *c, uint64_t now_ns)
{
	/* RFC 3168 s6.1.2: once per window of data, and not in addition to a loss in it. */
	if (c->in_recovery || c->after_rto || weft_seq_leq(c->snd_una, c->ece_recover))
		return;
	c->t->stats.ecn_reductions++;
	tcp_cc_reduce(c, now_ns);
	c->undo_valid = false; /* a mark is never spurious */
	/*
	 * RFC 9438 s4.6: down to one segment, although ssthresh stays at two.
	 *
	 * DEVIATION: RFC 3168 s6.1.2 makes a sender at one segment wait for its retransmission
	 * timer before it sends the next. One segment per round trip is slow enough.
	 */
	c->cwnd = c->undo_cwnd <= c->ssthresh ? c->mss : c->ssthresh;
	c->ece_recover = c->snd_max;
}

uint32_t
tcp_cong_wnd(const struct weft_tcp_conn *c)
{
	/* With SACK, arrived segments shrink the pipe, which has the same effect. */
	bool none = c->sack_ok || c->in_recovery || c->after_rto;
	uint32_t extra = none ? 0 : RTE_MIN(c->dupacks, 2u) * c->mss;

	return c->cwnd + extra;
}
