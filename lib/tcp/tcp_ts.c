/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What a segment's timestamp says (RFC 7323): whether it is old (PAWS), and the round trip.
 */

#include "tcp_priv.h"

/** RFC 7323 s5.5: half of the space of a clock of 1 ms; TS.Recent is then nobody's elder. */
#define TCP_TS_VALID_NS (24ULL * 24 * 3600 * WEFT_NS_PER_S)

enum tcp_ts_verdict
tcp_ts_judge(struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t now_ns)
{
	/* RFC 7323 s5.2: PAWS is not for RST, and neither is the duty to have the option. */
	if (in->h.flags & TCP_RST)
		return TCP_TS_GOOD;
	if (!in->opts.has_ts) {
		/*
		 * RFC 7323 s3.2: silently dropped. But for a SYN: its sender may have forgotten us
		 * and the option, and only a challenge brings the RST that lets it in.
		 */
		if (in->h.flags & TCP_SYN)
			return TCP_TS_GOOD;
		c->t->stats.ts_missing++;
		return TCP_TS_MISSING;
	}
	if (!weft_seq_lt(in->opts.ts_val, c->ts_recent) ||
	    now_ns - c->ts_recent_ns > TCP_TS_VALID_NS)
		return TCP_TS_GOOD;
	c->t->stats.paws_drops++;
	return TCP_TS_OLD;
}

void
tcp_ts_record(struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t now_ns)
{
	/* RFC 7323 s4.3 (2), s5.3 R3; what came through PAWS is newer, or TS.Recent too old. */
	if (!in->opts.has_ts || weft_seq_lt(c->last_ack_sent, in->h.seq))
		return;
	c->ts_recent = in->opts.ts_val;
	c->ts_recent_ns = now_ns;
}

bool
tcp_ts_rtt(const struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t now_ns,
           uint32_t *rtt_us)
{
	uint32_t ms;

	if (!c->ts_ok || !in->opts.has_ts)
		return false;
	/* An echo from before our first SYN, or from the future, is made up. */
	ms = tcp_ts_now(c, now_ns) - in->opts.ts_ecr;
	if (ms > (now_ns - c->syn_first_ns) / WEFT_NS_PER_MS + 1)
		return false;
	/* The clock ticks in milliseconds: on average half a tick has gone when it reads none. */
	*rtt_us = ms > 0 ? (uint32_t)RTE_MIN(ms * 1000ULL, (uint64_t)UINT32_MAX) : 500;
	return true;
}

void
tcp_ts_sample(struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t sent_ns, uint64_t now_ns)
{
	uint32_t rtt_us;

	/*
	 * RFC 7323 s4.1: what acknowledges something new, be it sent twice; s4.2: about one a round
	 * trip, or the estimator's memory would be that many times shorter. It is asked only where
	 * Karn's rule leaves no sample of our own, which is a thousand times finer.
	 */
	if (!weft_seq_lt(c->ts_rtt_seq, c->snd_una) || !tcp_ts_rtt(c, in, now_ns, &rtt_us))
		return;
	/*
	 * RFC 2883 s4: an ACK that reports what came twice was caused by the second copy, and
	 * echoes the first (RFC 7323 s4.3 (2) takes nothing from what lies before the window). In
	 * between lie an ACK that was lost and a timeout, not the path.
	 */
	if (in->opts.nsack > 0 && weft_seq_leq(in->opts.sack[0].right, c->snd_una))
		return;
	/*
	 * DEVIATION: RFC 7323 s4.1 takes the echo for the round trip whatever it says. Where it is
	 * of an earlier transmission than the last, and no D-SACK tells which was answered, it
	 * counts for twice the RTO at most: as much as the timer would add, so that a path that has
	 * become slow is learned in a few round trips all the same.
	 */
	if ((int32_t)(in->opts.ts_ecr - tcp_ts_now(c, sent_ns)) < 0)
		rtt_us = (uint32_t)RTE_MIN(2ULL * c->rto_us, (uint64_t)rtt_us);
	tcp_rtt_sample(c, rtt_us);
	c->ts_rtt_seq = c->snd_max;
}
