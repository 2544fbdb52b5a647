/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The sender's scoreboard (RFC 2018 s5, RFC 6675 s4): what of the send queue is in flight, taken
 * for lost, or held by the receiver.
 *
 * A segment that was sent is in exactly one of three conditions: in flight, on a list in the
 * order of transmission (RFC 8985 s6.2); lost, on a list in the order of its retransmission; or
 * selectively acknowledged. Segments stay whole: a block that covers a part of one marks
 * nothing.
 *
 * An ACK repeats its blocks, a little longer. Hints remember where the marks of the last
 * blocks end, so that the cost of an ACK is what is new in it, not the window.
 */

#include "tcp_priv.h"

/**
 * Segments that the blocks of one ACK may pass without marking them. A receiver's blocks continue
 * where hints are; what is far from all of them is a search, and a peer could ask for four through
 * the whole queue with every ACK. What is left out the next ACK says again.
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

/** Out of whatever condition it is in. */
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
	 * RFC 8985 s6.2 breaks ties of the clock by sequence number. One nanosecond between any
	 * two transmissions leaves none, and says the true order for retransmissions, too.
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

/** RFC 8985 s6.2 step 2: whether an ACK of what was sent again is of an earlier transmission. */
static bool
seg_ack_is_older(const struct weft_tcp_conn *c, const struct tcp_seg *s, bool sacked,
                 uint64_t rtt_ns)
{
	const struct tcp_ack_state *a = &c->t->ack;

	/* s7.3: of a probe it does not matter which copy came; what lies before it is lost. */
	if (sacked && c->tlp_active && c->tlp_retrans && c->tlp_end - s->seq <= s->len_bytes + 1u)
		return false;
	/* What came out of order is answered with an older echo (RFC 7323 s4.3 (B)). */
	if (!sacked && a->has_ts && (int32_t)(a->ts_ecr - tcp_ts_now(c, s->sent_ns)) < 0)
		return true;
	return rtt_ns < tcp_rack_min(c);
}

/** RFC 8985 s6.2 steps 1 to 3 for a segment that has arrived; called in ascending order. */
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
		/* A part: it stays what it is, and shorter. */
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

/* ---- Blocks ---- */

/** Drop the hints whose segments the cumulative acknowledgment frees. */
void
tcp_sack_advance(struct weft_tcp_conn *c)
{
	for (unsigned int i = 0; i < TCP_SACK_HINTS; i++) {
		struct tcp_sack_hint *h = &c->sack_hint[i];

		if (h->last != NULL && weft_seq_leq(h->end, c->snd_una))
			h->last = NULL;
	}
	if (c->sack_at != NULL && weft_seq_leq(c->sack_at_end, c->snd_una))
		c->sack_at = NULL;
}

/** The last segment before whose successor nothing of [left, ..) can be new; NULL: the queue. */
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

/** The end of a run of marks that begins at m and lies before right, as far as hints know. */
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

/** The search goes on at m with the next ACK. */
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
			/* The first one of the block is always taken: the hint is where to go on.
			 */
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
		return; /* holds no whole segment */
	*hint = (struct tcp_sack_hint){
	        .left = b->left,
	        .end = tcp_seg(last)->seq + tcp_seg(last)->len_bytes,
	        .last = last,
	};
	if (top->last == NULL || weft_seq_lt(top->end, hint->end))
		*top = *hint;
}

/** RFC 2883 s4: a first block that says what came twice. */
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
			 * RFC 2883 s4 reports each duplicate once, but a port that cuts segments
			 * copies the options onto all of them: then it is no news.
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
		/* Ascending, or their own order would look like reordering. */
		for (; at > 0 && weft_seq_lt(k.left, b[at - 1].left); at--)
			b[at] = b[at - 1];
		b[at] = k;
		n++;
	}
	for (unsigned int i = 0; i < n; i++)
		sack_block(c, &b[i], &c->sack_hint[i], &steps);
}

/* ---- All of the queue ---- */

void
tcp_sack_forget(struct weft_tcp_conn *c, uint64_t now_ns)
{
	uint64_t age_ns = c->rack_rtt_ns + c->reo_wnd_ns;

	c->lost = (struct tcp_seg_list){0};
	c->lost_bytes = c->sacked_bytes = c->sacked_segs = 0;
	memset(c->sack_hint, 0, sizeof(c->sack_hint));
	for (struct rte_mbuf *m = c->sq_head; m != NULL && m != c->sq_nxt; m = tcp_seg(m)->next) {
		struct tcp_seg *s = tcp_seg(m);

		/* RFC 8985 s6.3: what was sent less than a round trip ago may yet arrive. */
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

	/* Both lists are in the order of transmission, or nearly so: merge them. */
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
