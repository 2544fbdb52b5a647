/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Loss recovery: the reaction to an ACK, a duplicate ACK, the reordering timer and a timeout. With
 * SACK, the scoreboard and RACK find the losses, and PRR (RFC 6937) reduces the window step by
 * step. Without SACK, NewReno (RFC 6582) repairs one hole after another.
 */

#include "tcp_cc.h"
#include "tcp_conn.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_loss.h"
#include "tcp_math.h"
#include "tcp_rcv.h"
#include "tcp_snd.h"
#include "tcp_timer.h"

/** How far `recover` may lie behind snd_una. More octets than this are never in flight. */
#define TCP_RECOVER_LAG (1u << 30)

/* ---- Retransmission ---- */

bool
tcp_retransmit(struct weft_tcp_conn *c, uint64_t now_ns)
{
	struct rte_mbuf *m;

	while ((m = c->lost.head) != NULL) {
		struct tcp_seg *s = tcp_seg(m);

		if (s->len_bytes > c->mss && !tcp_sq_split(c, m, c->mss))
			goto later;
		if (tcp_pipe(c) + s->len_bytes > c->cwnd) {
			c->cwnd_used = c->snd_nxt;
			return false;
		}
		/* The peer's window shrank below what is in flight. The head is its window
		 * probe. */
		if (s->seq + s->len_bytes - c->snd_una > c->snd_wnd && m != c->sq_head)
			return false;
		if (!tcp_xmit(c, m, now_ns))
			goto later;
		if (c->sack_ok)
			c->t->stats.sack_retrans++;
	}
	if (c->fin_lost && !tcp_fin_acked(c)) {
		if (!tcp_send_fin(c, now_ns))
			goto later;
		c->fin_lost = false;
	}
	return true;
later:
	tcp_wait(c, TCP_WORK_OUTPUT);
	return false;
}

void
tcp_resend_head(struct weft_tcp_conn *c, uint64_t now_ns)
{
	struct rte_mbuf *m = c->sq_head;

	if (m == NULL) {
		if (tcp_fin_sent(c) && tcp_send_fin(c, now_ns)) {
			c->fin_lost = false;
			if (c->snd_nxt == c->snd_end)
				tcp_fin_advance(c);
		}
		return;
	}
	if (tcp_xmit(c, m, now_ns) && c->sq_nxt == m)
		tcp_sent(c, m);
}

/* ---- With SACK ---- */

/**
 * RFC 6937 s3: sets cwnd by what this ACK allows. Slow start towards ssthresh (SSRB), as the RFC
 * advises, but conservative (CRB) while more losses are found.
 */
static void
prr_update(struct weft_tcp_conn *c, bool conservative)
{
	uint32_t delivered = c->t->ack.delivered, pipe = tcp_pipe(c);
	int64_t send;

	c->prr_delivered += delivered;
	if (pipe > c->ssthresh) {
		uint64_t want = (uint64_t)c->prr_delivered * c->ssthresh;

		send = (int64_t)((want + c->prr_flight - 1) / c->prr_flight) - c->prr_out;
	} else {
		send = (int64_t)c->prr_delivered - c->prr_out;
		if (!conservative)
			send = RTE_MAX(send, (int64_t)delivered) + c->mss;
		send = RTE_MIN(send, (int64_t)c->ssthresh - pipe);
	}
	/* RFC 6675 s5 (4.3): the first retransmission does not wait. */
	send = RTE_MAX(send, c->prr_out == 0 ? (int64_t)c->mss : 0);
	c->cwnd = RTE_MAX(pipe + (uint32_t)send, (uint32_t)c->mss);
}

static void
recovery_enter(struct weft_tcp_conn *c, uint64_t now_ns)
{
	c->t->stats.recoveries++;
	c->t->stats.fast_retrans++;
	c->n_fast_retrans++;
	/* RFC 3168 s6.1.2: ECN marks and losses of one window of data cause one reduction. */
	if (weft_seq_lt(c->snd_una, c->ece_recover))
		c->undo_valid = false;
	else
		tcp_cc_reduce(c, now_ns);
	c->recover = c->snd_max;
	c->in_recovery = true;
	c->prr_delivered = c->prr_out = 0;
	c->prr_flight = RTE_MAX(c->snd_nxt - c->snd_una, 1u);
	tcp_tlp_reset(c);
}

void
tcp_recovery_lost(struct weft_tcp_conn *c, uint64_t now_ns)
{
	bool entered = !c->in_recovery && !c->after_rto;

	if (entered)
		recovery_enter(c, now_ns);
	if (c->in_recovery)
		prr_update(c, !entered);
	if (entered)
		tcp_rto_restart(c, now_ns);
}

void
tcp_recovery_rto(struct weft_tcp_conn *c, uint64_t now_ns)
{
	/* Slow start begins (RFC 5681 s3.1). */
	tcp_cc_timeout(c, now_ns);
	/* An undo must not return to the window of a recovery. */
	if (c->in_recovery)
		c->undo_valid = false;
	/* RFC 2018 s8: the receiver may have discarded octets that it had SACKed. */
	tcp_sack_forget(c, now_ns);
	c->fin_lost = tcp_fin_sent(c);
	c->recover = c->snd_max; /* RFC 6582 s4, RFC 6675 s5.1 */
	c->in_recovery = false;
	c->after_rto = true;
	c->dupacks = 0;
	c->reo_at_ns = WEFT_NEVER;
	tcp_tlp_reset(c);
	tcp_resend_head(c, now_ns); /* RFC 6298 (5.4) */
	tcp_rto_restart(c, now_ns); /* (5.6) */
}

static void
recovery_undo(struct weft_tcp_conn *c)
{
	tcp_cc_undo(c);
	if (c->in_recovery || c->after_rto)
		tcp_sack_unlose(c);
	c->in_recovery = false;
	c->after_rto = false;
	c->fin_lost = false;
}

/** RFC 2883: the receiver already had these octets, so a retransmission was spurious. */
static void
recovery_dsack(struct weft_tcp_conn *c)
{
	const struct tcp_sack *b = &c->t->ack.dsack_block;
	uint32_t segs = (b->right - b->left + c->mss - 1) / c->mss;

	c->t->stats.spurious_retrans += segs;
	c->n_spurious += segs;
	if (!c->undo_valid || c->undo_retrans == 0 || weft_seq_lt(b->left, c->undo_seq))
		return;
	c->undo_retrans = tcp_left(c->undo_retrans, segs);
	/* RFC 3708 s3.1: all retransmissions were spurious, so nothing was lost. */
	if (c->undo_retrans == 0)
		recovery_undo(c);
}

/** RFC 3522 s3.2: an echo older than the first retransmission is of the original segment. */
static void
recovery_eifel(struct weft_tcp_conn *c)
{
	const struct tcp_ack_state *a = &c->t->ack;

	c->undo_ts_due = false;
	if (!c->undo_valid || !a->has_ts || (int32_t)(a->ts_ecr - c->undo_ts) >= 0)
		return;
	recovery_undo(c);
}

static void
sack_ack(struct weft_tcp_conn *c, const struct tcp_in *in, uint32_t acked, bool dup,
         uint64_t now_ns)
{
	struct tcp_ack_state *a = &c->t->ack;
	bool recovered = false, lost;

	a->has_sack = in->has_opts && in->opts.nsack > 0;
	if (acked == 0 && !a->has_sack && !dup)
		return;
	if (unlikely(a->has_sack))
		tcp_sack_in(c, &in->opts, in->len_bytes > 0);
	tcp_rack_update(c);
	tcp_tlp_ack(c, in->h.ack, dup, now_ns);
	if (unlikely(a->dsack))
		recovery_dsack(c);
	if (unlikely((c->in_recovery || c->after_rto) && weft_seq_leq(c->recover, c->snd_una))) {
		if (c->in_recovery)
			c->cwnd = RTE_MAX(c->ssthresh, (uint32_t)c->mss);
		c->in_recovery = false;
		c->after_rto = false;
		recovered = true;
	}
	tcp_rack_dsack(c, a->dsack, recovered);
	lost = tcp_rack_detect(c, now_ns);
	if (unlikely(c->lost.head != NULL && !c->in_recovery && !c->after_rto)) {
		recovery_enter(c, now_ns);
		lost = false;
	}
	if (unlikely(c->in_recovery))
		prr_update(c, lost);
	else if (acked > 0 && !recovered)
		tcp_cc_grow(c, acked, now_ns);
	if (acked > 0)
		tcp_rto_restart(c, now_ns);
	else if (c->in_recovery)
		tcp_pto_restart(c, now_ns); /* the ACKs still come */
	else
		tcp_rto_arm(c); /* the reordering timer may have started or ended */
	tcp_work(c, TCP_WORK_OUTPUT);
}

/* ---- Without SACK: RFC 6582 ---- */

static void
newreno_dupack(struct weft_tcp_conn *c, uint64_t now_ns)
{
	c->dupacks++;
	if (c->in_recovery) {
		/* Each duplicate ACK means that a segment has left the network (RFC 5681 s3.2 step
		 * 4). */
		c->cwnd = RTE_MIN(c->cwnd + c->mss, c->t->attr.snd_buf_bytes);
		return;
	}
	/* RFC 6582 s3.2 step 2: not for octets that an earlier recovery has sent again. */
	if (c->dupacks != TCP_DUPTHRESH || !weft_seq_lt(c->recover, c->snd_una))
		return;
	recovery_enter(c, now_ns);
	c->partial_seen = false;
	c->cwnd = c->ssthresh + TCP_DUPTHRESH * c->mss;
	tcp_resend_head(c, now_ns);
	tcp_rto_restart(c, now_ns);
}

static void
newreno_ack(struct weft_tcp_conn *c, uint32_t acked, uint64_t now_ns)
{
	c->dupacks = 0;
	if (!c->in_recovery) {
		if (c->after_rto && weft_seq_leq(c->recover, c->snd_una))
			c->after_rto = false;
		tcp_cc_grow(c, acked, now_ns);
		tcp_rto_restart(c, now_ns);
		return;
	}
	if (weft_seq_leq(c->recover, c->snd_una)) {
		/* RFC 6582 s3.2 step 3, full acknowledgment, option 1 */
		c->cwnd = tcp_clamp((uint64_t)(c->snd_nxt - c->snd_una) + c->mss, 2u * c->mss,
		                    c->ssthresh);
		c->in_recovery = false;
		tcp_rto_restart(c, now_ns);
		return;
	}
	/* Partial ACK: repair the next hole. Deflate by what left, then add one segment. */
	c->cwnd -= RTE_MIN(acked, c->cwnd - c->mss);
	if (acked >= c->mss)
		c->cwnd += c->mss;
	tcp_resend_head(c, now_ns);
	/* RFC 6582 s3.2 step 3: partial ACKs after the first do not restart the timer. */
	if (!c->partial_seen) {
		c->partial_seen = true;
		tcp_rto_restart(c, now_ns);
	}
}

/* ---- Events ---- */

/** Keeps a sequence number that is only compared from falling 2 GiB behind snd_una. */
static void
drag(uint32_t *seq, uint32_t una)
{
	uint32_t behind = una - *seq;

	/* It may also lie ahead, by as much as is in flight. */
	if (behind > TCP_RECOVER_LAG && behind < UINT32_MAX - TCP_RECOVER_LAG)
		*seq = una - TCP_RECOVER_LAG;
}

void
tcp_recovery_ack(struct weft_tcp_conn *c, const struct tcp_in *in, uint32_t acked, bool dup,
                 uint64_t now_ns)
{
	if (unlikely(c->undo_ts_due) && acked > 0)
		recovery_eifel(c);
	drag(&c->recover, c->snd_una);
	drag(&c->ece_recover, c->snd_una);
	drag(&c->cwnd_used, c->snd_una);
	drag(&c->ts_rtt_seq, c->snd_una);
	if (weft_seq_lt(c->fack, c->snd_una))
		c->fack = c->snd_una;
	if (likely(c->sack_ok)) {
		sack_ack(c, in, acked, dup, now_ns);
		return;
	}
	if (dup)
		newreno_dupack(c, now_ns);
	else if (acked > 0)
		newreno_ack(c, acked, now_ns);
	else
		return;
	tcp_work(c, TCP_WORK_OUTPUT);
}
