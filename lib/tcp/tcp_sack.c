/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The sender's scoreboard (RFC 2018 s5, RFC 6675 s4): which segments of the send queue are in
 * flight, taken for lost, or received.
 *
 * A sent segment is in exactly one of three conditions. In flight: on a list in the order of
 * transmission (RFC 8985 s6.2). Lost: on a list in the order of retransmission. Or selectively
 * acknowledged. A segment has one condition as a whole: a block that covers only a part of it marks
 * nothing.
 *
 * An ACK repeats the blocks of the ACK before, slightly longer. Hints remember where the marks of
 * the last blocks end. So the cost of an ACK depends on what is new in it, not on the window.
 */

#include <rte_prefetch.h>

#include "tcp_conn.h"
#include "tcp_hdr.h"
#include "tcp_instance.h"
#include "tcp_loss.h"
#include "tcp_snd.h"

/**
 * Segments that the blocks of one ACK may pass without marking them. The blocks of a receiver
 * continue where hints are. A block far from every hint needs a search, and a peer could ask for
 * four searches through the whole queue with every ACK. The next ACK repeats what was left out.
 */
#define SACK_STEPS_MAX 512

static void
seg_list_add(struct tcp_seg_list *l, struct rte_mbuf *m)
{
	struct tcp_seg *s = tcp_seg(m);

	s->prev = l->tail;
	s->later = NULL;
	if (l->tail != NULL)
		tcp_seg(l->tail)->later = m;
	else
		l->head = m;
	l->tail = m;
}

static void
seg_list_del(struct tcp_seg_list *l, struct rte_mbuf *m)
{
	struct tcp_seg *s = tcp_seg(m);

	if (s->prev != NULL)
		tcp_seg(s->prev)->later = s->later;
	else
		l->head = s->later;
	if (s->later != NULL)
		tcp_seg(s->later)->prev = s->prev;
	else
		l->tail = s->prev;
}

static void
seg_list_insert_after(struct tcp_seg_list *l, struct rte_mbuf *at, struct rte_mbuf *m)
{
	struct tcp_seg *a = tcp_seg(at), *s = tcp_seg(m);

	s->prev = at;
	s->later = a->later;
	if (a->later != NULL)
		tcp_seg(a->later)->prev = m;
	else
		l->tail = m;
	a->later = m;
}

/** Takes m out of the condition that it is in. */
static void
seg_leave(struct weft_tcp_conn *c, struct rte_mbuf *m)
{
	struct tcp_seg *s = tcp_seg(m);

	if (s->flags & TCP_SEG_FLIGHT) {
		seg_list_del(&c->flight, m);
	} else if (s->flags & TCP_SEG_LOST) {
		seg_list_del(&c->lost, m);
		c->lost_bytes -= s->len_bytes;
	} else if (s->flags & TCP_SEG_SACKED) {
		c->sacked_bytes -= s->len_bytes;
		c->sacked_segs--;
	}
	s->flags &= (uint8_t) ~(TCP_SEG_FLIGHT | TCP_SEG_LOST | TCP_SEG_SACKED);
}

void
tcp_seg_sent(struct weft_tcp_conn *c, struct rte_mbuf *m, uint64_t now_ns)
{
	struct tcp_seg *s = tcp_seg(m);

	seg_leave(c, m);
	/*
	 * RFC 8985 s6.2 breaks ties of the clock by sequence number. Here any two transmissions are
	 * at least one nanosecond apart. So there are no ties, and the order is also right for
	 * retransmissions.
	 */
	c->xmit_ns = RTE_MAX(now_ns, c->xmit_ns + 1);
	s->sent_ns = c->xmit_ns;
	s->flags |= TCP_SEG_FLIGHT;
	seg_list_add(&c->flight, m);
	if (c->in_recovery)
		c->prr_out += s->len_bytes;
	if (s->xmits > 0 && c->undo_valid && c->undo_retrans++ == 0) {
		c->undo_ts = tcp_ts_now(c, now_ns);
		c->undo_ts_due = c->ts_ok;
	}
}

void
tcp_flight_new(struct weft_tcp_conn *c, struct rte_mbuf *const *m, unsigned int n, uint64_t now_ns)
{
	struct rte_mbuf *tail = c->flight.tail;
	/* One nanosecond apart: see tcp_seg_sent(). */
	uint64_t sent_ns = RTE_MAX(now_ns, c->xmit_ns + 1);

	if (tail == NULL)
		c->flight.head = m[0];
	else
		tcp_seg(tail)->later = m[0];
	for (unsigned int i = 0; i < n; i++) {
		struct tcp_seg *s = tcp_seg(m[i]);

		s->prev = tail;
		s->later = s->next;
		s->sent_ns = sent_ns + i;
		s->first_ns = now_ns;
		s->xmits = 1;
		s->flags |= TCP_SEG_FLIGHT;
		tail = m[i];
	}
	tcp_seg(tail)->later = NULL;
	c->flight.tail = tail;
	c->xmit_ns = sent_ns + n - 1;
}

void
tcp_seg_split(struct weft_tcp_conn *c, struct rte_mbuf *m, struct rte_mbuf *rest)
{
	uint8_t flags = tcp_seg(m)->flags;

	if (m == c->sack_at)
		c->sack_at = NULL;
	if (flags & TCP_SEG_FLIGHT)
		seg_list_insert_after(&c->flight, m, rest);
	else if (flags & TCP_SEG_LOST)
		seg_list_insert_after(&c->lost, m, rest);
	else if (flags & TCP_SEG_SACKED) {
		c->sacked_segs++;
		memset(c->sack_hint, 0, sizeof(c->sack_hint));
	}
}

void
tcp_seg_lost(struct weft_tcp_conn *c, struct rte_mbuf *m)
{
	struct tcp_seg *s = tcp_seg(m);

	seg_leave(c, m);
	s->flags |= TCP_SEG_LOST;
	seg_list_add(&c->lost, m);
	c->lost_bytes += s->len_bytes;
}

/** RFC 8985 s6.2 step 2: whether the ACK of a retransmitted segment belongs to an earlier copy. */
static bool
seg_ack_is_older(const struct weft_tcp_conn *c, const struct tcp_seg *s, bool sacked,
                 uint64_t rtt_ns)
{
	const struct tcp_ack_state *a = &c->t->ack;

	/* s7.3: for a retransmitted loss probe either copy will do. What was sent before it is
	 * lost. */
	if (sacked && c->tlp_active && c->tlp_retrans && c->tlp_end - s->seq <= s->len_bytes + 1u)
		return false;
	/* The ACK of an out-of-order segment echoes an older timestamp (RFC 7323 s4.3 (B)). */
	if (!sacked && a->has_ts && (int32_t)(a->ts_ecr - tcp_ts_now(c, s->sent_ns)) < 0)
		return true;
	return rtt_ns < tcp_rack_min(c);
}

/** RFC 8985 s6.2 steps 1 to 3 for a segment that has arrived. Call in ascending order. */
static void
seg_delivered(struct weft_tcp_conn *c, const struct tcp_seg *s, bool sacked)
{
	struct tcp_ack_state *a = &c->t->ack;
	uint64_t rtt_ns = a->now_ns > s->sent_ns ? a->now_ns - s->sent_ns : 0;
	uint32_t end = s->seq + s->len_bytes;

	if ((s->flags & (TCP_SEG_FLIGHT | TCP_SEG_LOST)) == 0)
		return;
	if (weft_seq_lt(c->fack, end))
		c->fack = end;
	else if (weft_seq_lt(end, c->fack) && tcp_seg_once(s))
		c->reordering_seen = true;
	if (tcp_seg_once(s))
		tcp_rack_min_rtt(c, rtt_ns, a->now_ns);
	else if (seg_ack_is_older(c, s, sacked, rtt_ns))
		return;
	if (s->sent_ns > a->newest_ns) {
		a->newest_ns = s->sent_ns;
		a->rtt_ns = RTE_MAX(rtt_ns, tcp_rack_min(c));
	}
}

void
tcp_seg_acked(struct weft_tcp_conn *c, struct rte_mbuf *m, uint32_t got)
{
	struct tcp_seg *s = tcp_seg(m);
	bool sacked = (s->flags & TCP_SEG_SACKED) != 0;

	if (got < s->len_bytes) {
		/* Partly acknowledged: the segment keeps its condition and becomes shorter. */
		if (s->flags & TCP_SEG_LOST)
			c->lost_bytes -= got;
		if (sacked)
			c->sacked_bytes -= got;
		else
			c->t->ack.delivered += got;
		return;
	}
	if (!sacked) {
		seg_delivered(c, s, false);
		c->t->ack.delivered += s->len_bytes;
	}
	seg_leave(c, m);
}

unsigned int
tcp_flight_acked(struct weft_tcp_conn *c, struct rte_mbuf **acked, unsigned int max)
{
	struct tcp_ack_state *a = &c->t->ack;
	struct rte_mbuf *m = c->sq_head, *later = c->flight.head;
	const struct tcp_seg *s = NULL;
	unsigned int n = 0;
	uint64_t rtt_ns;

	/* What was SACKed behind them would show that the path reorders. */
	if (m == NULL || weft_seq_lt(tcp_seg(m)->seq, c->fack))
		return 0;
	/* After an undo the list of what is in flight may have another order than the queue. */
	while (n < max && m != NULL && m == later && m != c->sq_nxt) {
		const struct tcp_seg *next = tcp_seg(m);

		if ((next->flags & ~TCP_SEG_PUSH) != TCP_SEG_FLIGHT || next->xmits != 1 ||
		    next->mbufs != 1 || weft_seq_lt(c->snd_una, next->seq + next->len_bytes))
			break;
		s = next;
		acked[n++] = m;
		later = s->later;
		m = s->next;
		if (likely(m != NULL)) {
			rte_prefetch0(tcp_seg(m));
			rte_prefetch0(m);
		}
	}
	if (n == 0)
		return 0;
	c->flight.head = later;
	if (later != NULL)
		tcp_seg(later)->prev = NULL;
	else
		c->flight.tail = NULL;
	/* The last one was sent last: RFC 8985 s6.2 asks for its times alone. */
	c->fack = s->seq + s->len_bytes;
	a->delivered += c->fack - tcp_seg(acked[0])->seq;
	rtt_ns = a->now_ns > s->sent_ns ? a->now_ns - s->sent_ns : 0;
	tcp_rack_min_rtt(c, rtt_ns, a->now_ns);
	if (s->sent_ns > a->newest_ns) {
		a->newest_ns = s->sent_ns;
		a->rtt_ns = RTE_MAX(rtt_ns, tcp_rack_min(c));
	}
	return n;
}

/* ---- Blocks ---- */

/** Drops the hints whose segments the cumulative ACK frees. */
void
tcp_sack_advance(struct weft_tcp_conn *c)
{
	bool used = false;

	if (likely(!c->sack_hinted))
		return;
	for (unsigned int i = 0; i < TCP_SACK_HINTS; i++) {
		struct tcp_sack_hint *h = &c->sack_hint[i];

		if (h->last != NULL && weft_seq_leq(h->end, c->snd_una))
			h->last = NULL;
		used |= h->last != NULL;
	}
	if (c->sack_at != NULL && weft_seq_leq(c->sack_at_end, c->snd_una))
		c->sack_at = NULL;
	c->sack_hinted = used || c->sack_at != NULL;
}

/** The search for new marks in [left, ..) begins behind the returned segment; NULL: at the head. */
static struct rte_mbuf *
sack_start(const struct weft_tcp_conn *c, uint32_t left)
{
	const struct tcp_sack_hint *best = NULL;

	for (unsigned int i = 0; i < TCP_SACK_HINTS; i++) {
		const struct tcp_sack_hint *h = &c->sack_hint[i];

		if (h->last != NULL &&
		    (weft_seq_leq(h->end, left) || weft_seq_leq(h->left, left)) &&
		    (best == NULL || weft_seq_lt(best->end, h->end)))
			best = h;
	}
	return best != NULL ? best->last : NULL;
}

/** The last segment of a run of marks that begins at m and ends before right, as far as hints
 * tell. */
static struct rte_mbuf *
sack_skip(const struct weft_tcp_conn *c, struct rte_mbuf *m, uint32_t right)
{
	for (unsigned int i = 0; i < TCP_SACK_HINTS; i++) {
		const struct tcp_sack_hint *h = &c->sack_hint[i];

		if (h->last != NULL && h->left == tcp_seg(m)->seq && weft_seq_leq(h->end, right))
			return h->last;
	}
	return m;
}

static void
sack_mark(struct weft_tcp_conn *c, struct rte_mbuf *m)
{
	struct tcp_seg *s = tcp_seg(m);

	seg_delivered(c, s, true);
	seg_leave(c, m);
	s->flags |= TCP_SEG_SACKED;
	c->sacked_bytes += s->len_bytes;
	c->sacked_segs++;
	c->t->ack.delivered += s->len_bytes;
	c->t->ack.sacked_new = true;
}

/** The next ACK continues the search at m. */
static void
sack_stop(struct weft_tcp_conn *c, struct rte_mbuf *m)
{
	const struct tcp_seg *s = tcp_seg(m);

	c->t->stats.sack_searches_cut++;
	c->sack_at = m;
	c->sack_at_seq = s->seq;
	c->sack_at_end = s->seq + s->len_bytes;
}

static void
sack_block(struct weft_tcp_conn *c, const struct tcp_sack *b, struct tcp_sack_hint *hint,
           unsigned int *steps)
{
	struct rte_mbuf *last = sack_start(c, b->left);
	struct rte_mbuf *m = last != NULL ? tcp_seg(last)->next : c->sq_head;
	struct tcp_sack_hint *top = &c->sack_hint[TCP_SACK_MAX];

	if (c->sack_at != NULL && weft_seq_leq(c->sack_at_seq, b->left) && m != NULL &&
	    weft_seq_lt(tcp_seg(m)->seq, c->sack_at_seq)) {
		m = c->sack_at;
		last = NULL;
	}

	for (; m != NULL && m != c->sq_nxt; m = tcp_seg(m)->next) {
		struct tcp_seg *s = tcp_seg(m);

		if (weft_seq_leq(b->right, s->seq) || weft_seq_lt(b->right, s->seq + s->len_bytes))
			break;
		if (weft_seq_lt(s->seq, b->left)) {
			if (unlikely((*steps)++ >= SACK_STEPS_MAX)) {
				sack_stop(c, m);
				break;
			}
			continue;
		}
		if (s->flags & TCP_SEG_SACKED) {
			/* The first marked segment is always taken: the next search continues
			 * there. */
			if (unlikely((*steps)++ >= SACK_STEPS_MAX) && last != NULL &&
			    weft_seq_leq(b->left, tcp_seg(last)->seq)) {
				c->t->stats.sack_searches_cut++;
				break;
			}
			m = sack_skip(c, m, b->right);
		} else {
			sack_mark(c, m);
		}
		last = m;
	}
	if (last == NULL || weft_seq_lt(tcp_seg(last)->seq, b->left))
		return; /* no whole segment in the block */
	*hint = (struct tcp_sack_hint){
	        .left = b->left,
	        .end = tcp_seg(last)->seq + tcp_seg(last)->len_bytes,
	        .last = last,
	};
	if (top->last == NULL || weft_seq_lt(top->end, hint->end))
		*top = *hint;
}

/** RFC 2883 s4: whether the first block reports a duplicate. */
static bool
sack_is_dup(const struct weft_tcp_conn *c, const struct tcp_opts *o)
{
	const struct tcp_sack *b = &o->sack[0];

	if (weft_seq_leq(b->right, c->snd_una))
		return c->snd_una - b->left <= RTE_MAX(c->max_snd_wnd, c->t->attr.snd_buf_bytes);
	return o->nsack > 1 && weft_seq_leq(o->sack[1].left, b->left) &&
	       weft_seq_leq(b->right, o->sack[1].right) && weft_seq_leq(c->snd_una, b->left) &&
	       weft_seq_leq(b->right, c->snd_max);
}

void
tcp_sack_in(struct weft_tcp_conn *c, const struct tcp_opts *o, bool data)
{
	struct weft_tcp_stats *st = &c->t->stats;
	struct tcp_ack_state *a = &c->t->ack;
	struct tcp_sack b[TCP_SACK_MAX];
	unsigned int n = 0, steps = 0;

	st->sack_blocks_in += o->nsack;
	c->n_sack_blocks += o->nsack;
	for (unsigned int i = 0; i < o->nsack; i++) {
		struct tcp_sack k = o->sack[i];
		unsigned int at = n;

		if (weft_seq_lt(k.left, k.right) && i == 0 && sack_is_dup(c, o)) {
			/*
			 * RFC 2883 s4 reports each duplicate once. But a port that cuts a TSO
			 * packet copies its options to every segment, and a repeated report is not
			 * new.
			 */
			if (data && k.left == c->dsack_told.left && k.right == c->dsack_told.right)
				continue;
			st->dsacks_in++;
			a->dsack = true;
			a->dsack_block = c->dsack_told = k;
			continue;
		}
		if (!weft_seq_lt(k.left, k.right) || weft_seq_lt(k.left, c->snd_una) ||
		    weft_seq_lt(c->snd_max, k.right)) {
			st->sack_blocks_bad++;
			continue;
		}
		/* In ascending order: any other order would look like reordering. */
		for (; at > 0 && weft_seq_lt(k.left, b[at - 1].left); at--)
			b[at] = b[at - 1];
		b[at] = k;
		n++;
	}
	for (unsigned int i = 0; i < n; i++) {
		c->sack_hinted = true;
		sack_block(c, &b[i], &c->sack_hint[i], &steps);
	}
}

/* ---- All segments of the send queue ---- */

void
tcp_sack_forget(struct weft_tcp_conn *c, uint64_t now_ns)
{
	uint64_t age_ns = c->rack_rtt_ns + c->reo_wnd_ns;

	c->lost = (struct tcp_seg_list){0};
	c->lost_bytes = c->sacked_bytes = c->sacked_segs = 0;
	memset(c->sack_hint, 0, sizeof(c->sack_hint));
	for (struct rte_mbuf *m = c->sq_head; m != NULL && m != c->sq_nxt; m = tcp_seg(m)->next) {
		struct tcp_seg *s = tcp_seg(m);

		/* RFC 8985 s6.3: a segment sent less than a round trip ago may still arrive. */
		if (s->flags & TCP_SEG_FLIGHT && c->sack_ok && m != c->sq_head &&
		    s->sent_ns + age_ns > now_ns)
			continue;
		if (s->flags & TCP_SEG_FLIGHT)
			seg_list_del(&c->flight, m);
		s->flags &= (uint8_t) ~(TCP_SEG_FLIGHT | TCP_SEG_SACKED);
		s->flags |= TCP_SEG_LOST;
		seg_list_add(&c->lost, m);
		c->lost_bytes += s->len_bytes;
	}
}

void
tcp_sack_unlose(struct weft_tcp_conn *c)
{
	struct tcp_seg_list out = {0};

	/* Both lists are, nearly, in the order of transmission: merge them. */
	while (c->lost.head != NULL || c->flight.head != NULL) {
		struct rte_mbuf *l = c->lost.head, *f = c->flight.head, *m;

		m = f == NULL || (l != NULL && tcp_seg(l)->sent_ns < tcp_seg(f)->sent_ns) ? l : f;
		seg_list_del(m == l ? &c->lost : &c->flight, m);
		tcp_seg(m)->flags &= (uint8_t)~TCP_SEG_LOST;
		tcp_seg(m)->flags |= TCP_SEG_FLIGHT;
		seg_list_add(&out, m);
	}
	c->flight = out;
	c->lost_bytes = 0;
}
