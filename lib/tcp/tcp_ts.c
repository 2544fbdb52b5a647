/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Received timestamps (RFC 7323): old segments (PAWS) and the round-trip time. */

#include "tcp_conn.h"
#include "tcp_hdr.h"
#include "tcp_rcv.h"
#include "tcp_timer.h"
#include "tcp_instance.h"

/** RFC 7323 s5.5: half of the number space of a 1 ms clock. An older TS.Recent compares with
 * nothing. */
#define TCP_TS_VALID_NS (24ULL * 24 * 3600 * WEFT_NS_PER_S)

enum tcp_ts_verdict
tcp_ts_judge(struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t now_ns)
{
	/* RFC 7323 s5.2: a RST is exempt from PAWS and from the duty to carry the option. */
	if (in->h.flags & TCP_RST)
		return TCP_TS_GOOD;
	if (!in->opts.has_ts) {
		/*
		 * RFC 7323 s3.2: silently dropped. A SYN is exempt: its sender may have lost the
		 * connection and the option. Only a challenge ACK brings the RST that admits it.
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
	/* RFC 7323 s4.3 (2), s5.3 R3. PAWS has passed: the value is newer, or TS.Recent too old. */
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
	/* An echo from before our first SYN, or from the future, is invalid. */
	ms = tcp_ts_now(c, now_ns) - in->opts.ts_ecr;
	if (ms > (now_ns - c->syn_first_ns) / WEFT_NS_PER_MS + 1)
		return false;
	/* The clock ticks in milliseconds. When it reads 0, half a tick has passed on average. */
	*rtt_us = ms > 0 ? (uint32_t)RTE_MIN(ms * 1000ULL, (uint64_t)UINT32_MAX) : 500;
	return true;
}

void
tcp_ts_sample(struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t sent_ns, uint64_t now_ns)
{
	uint32_t rtt_us;

	/*
	 * RFC 7323 s4.1: a sample needs an ACK of new octets, sent twice or not. s4.2: about one
	 * sample per round trip, or the estimator would forget that many times faster. This sample
	 * is used only where Karn's algorithm leaves none of our own clock, which is a thousand
	 * times finer.
	 */
	if (!weft_seq_lt(c->ts_rtt_seq, c->snd_una) || !tcp_ts_rtt(c, in, now_ns, &rtt_us))
		return;
	/*
	 * RFC 2883 s4: an ACK with a D-SACK was caused by the second copy of a segment, but echoes
	 * the first copy (RFC 7323 s4.3 (2) takes no timestamp from a segment before the window).
	 * The time between the copies contains a lost ACK and a timeout. It does not measure the
	 * path.
	 */
	if (in->opts.nsack > 0 && weft_seq_leq(in->opts.sack[0].right, c->snd_una))
		return;
	/*
	 * DEVIATION: RFC 7323 s4.1 takes every echo for the round trip. If the echo is of an
	 * earlier transmission than the last, and no D-SACK tells which one was answered, the
	 * sample counts at most twice the RTO. That is as much as the timer would add. So TCP still
	 * learns in a few round trips that a path has become slow.
	 */
	if ((int32_t)(in->opts.ts_ecr - tcp_ts_now(c, sent_ns)) < 0)
		rtt_us = (uint32_t)RTE_MIN(2ULL * c->rto_us, (uint64_t)rtt_us);
	tcp_rtt_sample(c, rtt_us);
	c->ts_rtt_seq = c->snd_max;
}
