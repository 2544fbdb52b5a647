/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Segments received ahead of a gap: a list of mbufs in the order of sequence numbers, without
 * overlaps. Limits apply to its octets and to the buffers that it holds. Nothing is copied, except
 * that a short segment is copied into the buffer of the segment before it.
 *
 * The user may take a segment's octets when it arrives (weft_tcp_conn_ops.ahead). Its mbuf then has
 * a short record in place of them, and records share buffers as short segments do. Such a piece is
 * never trimmed: a segment that overlaps it is.
 */

#include "tcp_conn.h"
#include "tcp_instance.h"
#include "tcp_rcv.h"
#include "tcp_share.h"
#include "weft_netif_budget.h"

struct rte_mbuf *
tcp_trim_front(struct rte_mbuf *m, uint32_t n)
{
	while (n > 0 && n >= m->data_len && m->next != NULL) {
		struct rte_mbuf *next = m->next;

		n -= m->data_len;
		next->pkt_len = m->pkt_len - m->data_len;
		next->nb_segs = m->nb_segs - 1;
		/* The record of a queued segment is in the first mbuf. */
		*weft_mbuf_priv(next) = *weft_mbuf_priv(m);
		rte_pktmbuf_free_seg(m);
		m = next;
	}
	m->data_off += (uint16_t)n;
	m->data_len -= (uint16_t)n;
	m->pkt_len -= n;
	return m;
}

struct rte_mbuf *
tcp_trim_tail(struct rte_mbuf *m, uint32_t n)
{
	struct rte_mbuf *s = m;
	uint32_t left = m->pkt_len - n;
	uint16_t segs = 1;

	while (left > s->data_len) {
		left -= s->data_len;
		s = s->next;
		segs++;
	}
	s->data_len = (uint16_t)left;
	rte_pktmbuf_free(s->next);
	s->next = NULL;
	m->nb_segs = segs;
	m->pkt_len -= n;
	return m;
}

static void
tcp_reass_unlink(struct weft_tcp_conn *c, struct rte_mbuf *m)
{
	struct tcp_ooo *o = tcp_ooo(m);

	if (o->prev != NULL)
		tcp_ooo(o->prev)->next = o->next;
	else
		c->ooo_head = o->next;
	if (o->next != NULL)
		tcp_ooo(o->next)->prev = o->prev;
	else
		c->ooo_tail = o->prev;
	if (c->ooo_at == m)
		c->ooo_at = o->prev;
	c->ooo_bytes -= o->charge_bytes;
	tcp_share_ooo_sub(c, o->mbufs);
}

/** tcp_reass_find() from one piece of the list, with a limited number of steps. */
static bool
tcp_reass_walk(const struct weft_tcp_conn *c, struct rte_mbuf *at, uint32_t seq, unsigned int steps,
               struct rte_mbuf **prev)
{
	struct weft_tcp *t = c->t;
	struct rte_mbuf *next;

	for (; at != NULL && weft_seq_lt(seq, tcp_ooo(at)->seq);
	     at = tcp_ooo(at)->prev, t->ooo_steps++)
		if (steps-- == 0)
			return false;
	*prev = at;
	next = at != NULL ? tcp_ooo(at)->next : NULL;
	for (; next != NULL && weft_seq_leq(tcp_ooo(next)->seq, seq);
	     *prev = next, next = tcp_ooo(next)->next, t->ooo_steps++)
		if (steps-- == 0)
			return false;
	return true;
}

/**
 * Finds the last piece that starts at or before seq; NULL: none. A segment usually belongs at the
 * tail, behind the segment that arrived before it, or, if retransmitted, near the head. False: seq
 * is far from all three. The sender chooses the order, and no segment may cost a walk along a
 * thousand pieces.
 */
static bool
tcp_reass_find(const struct weft_tcp_conn *c, uint32_t seq, struct rte_mbuf **prev)
{
	bool full = c->ooo_bytes >= c->t->attr.max_ooo_bytes ||
	            c->ooo_mbufs >= c->t->attr.max_ooo_mbufs || tcp_share_ooo_full(c);
	/* A full list keeps nothing new: the search only needs to find duplicates. */
	unsigned int steps = full ? 1 : TCP_REASS_STEPS;

	*prev = c->ooo_tail;
	if (c->ooo_tail == NULL || weft_seq_leq(tcp_ooo(c->ooo_tail)->seq, seq))
		return true;
	if (c->ooo_at != NULL && tcp_reass_walk(c, c->ooo_at, seq, steps, prev))
		return true;
	return tcp_reass_walk(c, c->ooo_head, seq, steps, prev) ||
	       tcp_reass_walk(c, c->ooo_tail, seq, steps, prev);
}

/** The charge of a piece: the octets in memory, but at least half a full segment, since a short one
 * takes a buffer. */
static uint32_t
tcp_reass_charge(const struct weft_tcp_conn *c, uint32_t len)
{
	return RTE_MAX(len, (uint32_t)c->mss_local / 2);
}

/** Whether b, which follows a without a gap, fits into the free room behind a's octets. */
static bool
tcp_reass_fits(struct rte_mbuf *a, const struct rte_mbuf *b)
{
	struct rte_mbuf *last = rte_pktmbuf_lastseg(a);

	return b->nb_segs == 1 && RTE_MBUF_DIRECT(last) && rte_mbuf_refcnt_read(last) == 1 &&
	       b->data_len <= rte_pktmbuf_tailroom(last) && a->pkt_len + b->data_len <= UINT16_MAX;
}

/** Copies b, of len octets of the stream, behind a's octets and frees it. It is in no list. */
static void
tcp_reass_join(struct weft_tcp_conn *c, struct rte_mbuf *a, struct rte_mbuf *b, uint32_t len)
{
	struct rte_mbuf *last = rte_pktmbuf_lastseg(a);
	struct tcp_ooo *o = tcp_ooo(a);
	uint32_t charge = tcp_reass_charge(c, a->pkt_len + b->data_len);

	memcpy(rte_pktmbuf_mtod_offset(last, void *, last->data_len), rte_pktmbuf_mtod(b, void *),
	       b->data_len);
	last->data_len += b->data_len;
	a->pkt_len += b->data_len;
	o->len_bytes += len;
	c->ooo_bytes += charge - o->charge_bytes;
	o->charge_bytes = charge;
	c->t->stats.ooo_joined++;
	rte_pktmbuf_free(b);
}

/** Whether b, taken or not, of [seq, ...), continues a without a gap and fits behind its octets. */
static bool
tcp_reass_joins(struct rte_mbuf *a, const struct rte_mbuf *b, uint32_t seq, bool taken)
{
	return a != NULL && tcp_ooo(a)->seq + tcp_ooo(a)->len_bytes == seq &&
	       tcp_ooo(a)->taken == taken && tcp_reass_fits(a, b);
}

/** Offers a segment to the user, behind the piece prev. */
static bool
tcp_reass_offer(struct weft_tcp_conn *c, struct rte_mbuf *m, uint32_t seq,
                const struct rte_mbuf *prev)
{
	const struct tcp_ooo *o = prev != NULL ? tcp_ooo((struct rte_mbuf *)(uintptr_t)prev) : NULL;
	bool follows = o != NULL && o->taken && o->seq + o->len_bytes == seq;

	if (c->ops == NULL || c->ops->ahead == NULL || !RTE_MBUF_DIRECT(m) ||
	    rte_mbuf_refcnt_read(m) != 1 ||
	    !c->ops->ahead(c->user, m, seq, seq - c->rcv_nxt, follows))
		return false;
	c->t->stats.ooo_taken++;
	return true;
}

void
tcp_reass_insert(struct weft_tcp_conn *c, struct rte_mbuf *m, uint32_t seq, uint32_t len)
{
	struct weft_tcp *t = c->t;
	struct rte_mbuf *prev, *next, *after;
	uint32_t charge, freed_bytes = 0, freed_mbufs = 0;
	bool joins, taken, may_take;

	t->stats.rx_ooo_segs++;
	c->n_ooo_segs++;
	if (!tcp_reass_find(c, seq, &prev)) {
		t->stats.rx_ooo_dropped++;
		t->stats.rx_ooo_far++;
		rte_pktmbuf_free(m);
		return;
	}
	if (prev != NULL) {
		uint32_t end = tcp_ooo(prev)->seq + tcp_ooo(prev)->len_bytes;

		if (weft_seq_leq(seq + len, end)) {
			tcp_count_dup(c, len);
			tcp_dsack_note(c, seq, seq + len);
			goto known;
		}
		if (weft_seq_lt(seq, end)) {
			tcp_count_dup(c, end - seq);
			tcp_dsack_note(c, seq, end);
			m = tcp_trim_front(m, end - seq);
			len -= end - seq;
			seq = end;
		}
	}
	next = prev != NULL ? tcp_ooo(prev)->next : c->ooo_head;
	/* Pieces that the segment covers are freed, but only once it is sure to be kept
	 * (RFC 2018 s8). */
	after = next;
	while (after != NULL && weft_seq_lt(tcp_ooo(after)->seq, seq + len)) {
		const struct tcp_ooo *o = tcp_ooo(after);
		uint32_t end = o->seq + o->len_bytes;

		tcp_count_dup(c, RTE_MIN(seq + len - o->seq, o->len_bytes));
		tcp_dsack_note(c, o->seq, weft_seq_lt(seq + len, end) ? seq + len : end);
		if (o->seq == seq && weft_seq_leq(seq + len, end))
			goto known;
		if (weft_seq_lt(seq + len, end)) {
			m = tcp_trim_tail(m, seq + len - o->seq);
			len = o->seq - seq;
			break;
		}
		freed_bytes += o->charge_bytes;
		freed_mbufs += o->mbufs;
		after = o->next;
	}
	/* Consecutive short segments share a buffer. */
	joins = tcp_reass_joins(prev, m, seq, false);
	/* What the user takes does not share a buffer with what it has not taken. */
	may_take = c->ops != NULL && c->ops->ahead != NULL;
	charge = tcp_reass_charge(c, len);
	if (c->ooo_bytes - freed_bytes + charge > t->attr.max_ooo_bytes ||
	    (!(joins && !may_take) &&
	     (c->ooo_mbufs - freed_mbufs + m->nb_segs > t->attr.max_ooo_mbufs ||
	      !tcp_share_ooo_room(c, m->nb_segs, freed_mbufs)))) {
		t->stats.rx_ooo_dropped++;
		rte_pktmbuf_free(m);
		return;
	}
	while (next != after) {
		struct rte_mbuf *covered = next;

		next = tcp_ooo(covered)->next;
		tcp_reass_unlink(c, covered);
		rte_pktmbuf_free(covered);
	}
	/* RFC 5044 A.3: what is offered is kept. */
	taken = tcp_reass_offer(c, m, seq, prev);
	if (unlikely(taken)) {
		joins = tcp_reass_joins(prev, m, seq, true);
		charge = tcp_reass_charge(c, m->pkt_len);
	}
	if (joins) {
		tcp_reass_join(c, prev, m, len);
		m = prev;
		if (next != NULL)
			c->ooo_at = m;
		goto noted;
	}
	*tcp_ooo(m) = (struct tcp_ooo){
	        .next = next,
	        .prev = prev,
	        .seq = seq,
	        .len_bytes = len,
	        .charge_bytes = charge,
	        .mbufs = m->nb_segs,
	        .taken = taken,
	};
	if (prev != NULL)
		tcp_ooo(prev)->next = m;
	else
		c->ooo_head = m;
	if (next != NULL)
		tcp_ooo(next)->prev = m;
	else
		c->ooo_tail = m;
	/* Appended pieces are found from the tail. ooo_at stays where retransmissions go on. */
	if (next != NULL)
		c->ooo_at = m;
	c->ooo_bytes += charge;
	tcp_share_ooo_add(c, m->nb_segs);
noted:
	next = tcp_ooo(m)->next;
	if (next != NULL && tcp_reass_joins(m, next, tcp_ooo(next)->seq, tcp_ooo(next)->taken)) {
		len = tcp_ooo(next)->len_bytes;
		tcp_reass_unlink(c, next);
		tcp_reass_join(c, m, next, len);
	}
	tcp_sack_note(c, m);
	return;
known:
	/* The segment has no new octets. */
	tcp_sack_note(c, prev);
	rte_pktmbuf_free(m);
}

/** The first piece that the user has taken of [rcv_nxt, rcv_nxt + len); NULL: none. */
static const struct tcp_ooo *
tcp_reass_taken(const struct weft_tcp_conn *c, uint32_t len)
{
	for (struct rte_mbuf *m = c->ooo_head; m != NULL; m = tcp_ooo(m)->next) {
		const struct tcp_ooo *o = tcp_ooo(m);

		if (!weft_seq_lt(o->seq, c->rcv_nxt + len))
			break;
		if (o->taken)
			return o;
	}
	return NULL;
}

struct rte_mbuf *
tcp_reass_front(struct weft_tcp_conn *c, struct rte_mbuf *m, uint32_t *len)
{
	const struct tcp_ooo *o = tcp_reass_taken(c, *len);
	uint32_t front, behind;

	if (o == NULL)
		return m;
	front = o->seq - c->rcv_nxt;
	behind = front + o->len_bytes;
	tcp_count_dup(c, RTE_MIN(*len, behind) - front);
	if (behind < *len) {
		struct rte_mbuf *rest = rte_pktmbuf_copy(m, m->pool, behind, *len - behind);

		/* Without a buffer the octets are lost, and come again. */
		if (rest != NULL)
			tcp_reass_insert(c, rest, c->rcv_nxt + behind, *len - behind);
		else
			c->t->stats.no_mbuf++;
	}
	m = tcp_trim_tail(m, *len - front);
	*len = front;
	return m;
}

uint32_t
weft_tcp_rcv_nxt(const struct weft_tcp_conn *c)
{
	return c->rcv_nxt;
}

struct rte_mbuf *
tcp_reass_pop(struct weft_tcp_conn *c, uint32_t *len, bool *taken)
{
	struct rte_mbuf *m;

	while ((m = c->ooo_head) != NULL) {
		struct tcp_ooo o = *tcp_ooo(m);

		if (weft_seq_lt(c->rcv_nxt, o.seq))
			return NULL;
		tcp_reass_unlink(c, m);
		c->ooo_since_ns = c->t->sched->now_ns;
		*taken = o.taken;
		if (unlikely(o.taken)) {
			if (o.seq == c->rcv_nxt) {
				*len = o.len_bytes;
				return m;
			}
			/* Records have no parts: the peer has to send the octets again. */
			rte_pktmbuf_free(m);
			continue;
		}
		if (weft_seq_lt(c->rcv_nxt, o.seq + o.len_bytes)) {
			uint32_t old = c->rcv_nxt - o.seq;

			tcp_count_dup(c, old);
			*len = o.len_bytes - old;
			return tcp_trim_front(m, old);
		}
		tcp_count_dup(c, o.len_bytes);
		rte_pktmbuf_free(m);
	}
	return NULL;
}

void
tcp_reass_cut(struct weft_tcp_conn *c, uint32_t end)
{
	struct rte_mbuf *m;

	while ((m = c->ooo_tail) != NULL) {
		struct tcp_ooo *o = tcp_ooo(m);

		if (weft_seq_leq(o->seq + o->len_bytes, end))
			break;
		c->t->stats.data_after_close++;
		if (weft_seq_lt(o->seq, end) && !o->taken) {
			tcp_trim_tail(m, o->seq + o->len_bytes - end);
			o->len_bytes = end - o->seq;
			break;
		}
		tcp_reass_unlink(c, m);
		rte_pktmbuf_free(m);
	}
	tcp_sack_cut(c, end);
}

void
tcp_reass_shed(struct weft_tcp_conn *c, uint32_t keep)
{
	const struct tcp_ooo *o;

	while (c->ooo_tail != NULL && c->ooo_mbufs > keep) {
		struct rte_mbuf *m = c->ooo_tail;

		tcp_reass_unlink(c, m);
		rte_pktmbuf_free(m);
	}
	o = c->ooo_tail != NULL ? tcp_ooo(c->ooo_tail) : NULL;
	tcp_sack_cut(c, o != NULL ? o->seq + o->len_bytes : c->rcv_nxt);
}

void
tcp_reass_free(struct weft_tcp_conn *c)
{
	while (c->ooo_head != NULL) {
		struct rte_mbuf *m = c->ooo_head;

		tcp_reass_unlink(c, m);
		rte_pktmbuf_free(m);
	}
}

/** Connections examined for one segment that does not fit. */
#define TCP_SHED_LOOKS 32u

/** Makes another connection that has more than `fair` drop the excess. False: none was found. */
static bool
tcp_share_shed(struct weft_tcp_conn *c, uint32_t fair)
{
	struct tcp_share *s = c->share;
	struct weft_tcp_conn *v;

	for (unsigned int i = 0; i < TCP_SHED_LOOKS && (v = TAILQ_FIRST(&s->ooo)) != NULL; i++) {
		if (v != c && v->ooo_mbufs > fair) {
			c->t->stats.ooo_shed++;
			tcp_reass_shed(v, fair);
			return true;
		}
		TAILQ_REMOVE(&s->ooo, v, ooo_link);
		TAILQ_INSERT_TAIL(&s->ooo, v, ooo_link);
	}
	return false;
}

bool
tcp_share_ooo_room(struct weft_tcp_conn *c, uint32_t n, uint32_t freed)
{
	struct tcp_share *s = c->share;
	struct weft_netif_budget *b = &s->lent->ooo;
	uint32_t fair = tcp_share_fair(c);

	while (b->held - freed + n > s->ooo_max) {
		if (c->ooo_mbufs - freed + n > fair || !tcp_share_shed(c, fair)) {
			b->refused++;
			return false;
		}
	}
	return true;
}
