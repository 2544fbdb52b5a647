/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The send queue: it holds segments of the layer above until they are acknowledged.
 *
 * The queue owns one reference of each queued mbuf until its octets are acknowledged. Each
 * transmission gives netif one more reference. While netif or a port holds the mbuf, the queue only
 * reads it. A segment is therefore described by its record (struct tcp_seg), not by its mbufs. The
 * record says how many mbufs belong to the segment, whatever `next` of the last one says, how many
 * octets of the first mbuf are payload, and how many octets at the front are acknowledged.
 */

#include "tcp_conn.h"
#include "tcp_instance.h"
#include "tcp_loss.h"
#include "tcp_pmtu.h"
#include "tcp_share.h"
#include "tcp_snd.h"
#include "weft_netif.h"
#include "weft_netif_attr.h"
#include "weft_netif_budget.h"
#include "weft_tsan.h"

/* ---- The send queue ---- */

/** Frees a segment that is no longer in the list. */
static void
tcp_seg_free(struct weft_tcp_conn *c, struct rte_mbuf *m)
{
	unsigned int n = tcp_seg(m)->mbufs;

	tcp_share_sub(c, n);
	while (n-- > 0) {
		struct rte_mbuf *next = m->next;

		/* The last of two holders frees the mbuf after a relaxed load of its count
		 * (rte_pktmbuf_prefree_seg). */
		WEFT_TSAN_ACQUIRE(&m->refcnt);
		rte_pktmbuf_free_seg(m);
		m = next;
	}
}

/** Frees mbufs, which may be of several pools, by as few calls as possible. */
static void
tcp_free_mbufs(struct rte_mbuf **m, unsigned int n)
{
	unsigned int k = 0;

	for (unsigned int i = 0; i < n; i++) {
		struct rte_mbuf *f;

		WEFT_TSAN_ACQUIRE(&m[i]->refcnt); /* see tcp_seg_free() */
		f = rte_pktmbuf_prefree_seg(m[i]);
		if (unlikely(f == NULL)) /* the port has not sent it yet, or not told */
			continue;
		if (unlikely(k > 0 && f->pool != m[0]->pool)) {
			rte_mempool_put_bulk(m[0]->pool, (void **)m, k);
			k = 0;
		}
		m[k++] = f;
	}
	if (likely(k > 0))
		rte_mempool_put_bulk(m[0]->pool, (void **)m, k);
}

/** Acknowledged segments that one call takes out of the queue. */
#define TCP_ACK_RUN 32

/** Frees segments at the head that nothing has happened to: sent once, and acknowledged as a whole.
 * Returns when the last was sent; 0: the first is not such a segment. */
static uint64_t
tcp_sq_ack_runs(struct weft_tcp_conn *c)
{
	struct rte_mbuf *m[TCP_ACK_RUN];
	uint64_t sent_ns = 0;
	unsigned int n;

	do {
		n = tcp_flight_acked(c, m, TCP_ACK_RUN);
		if (n == 0)
			break;
		for (unsigned int i = 0; i < n; i++)
			c->acked_max_bytes = RTE_MAX(c->acked_max_bytes, tcp_seg(m[i])->len_bytes);
		sent_ns = tcp_seg(m[n - 1])->sent_ns;
		c->sq_head = tcp_seg(m[n - 1])->next;
		if (c->sq_head == NULL)
			c->sq_tail = NULL;
		tcp_share_sub(c, n);
		tcp_free_mbufs(m, n);
	} while (n == TCP_ACK_RUN);
	return sent_ns;
}

bool
tcp_sq_ack(struct weft_tcp_conn *c, uint64_t *sent_ns)
{
	uint64_t plain_ns = tcp_sq_ack_runs(c);
	bool sample = plain_ns != 0;
	struct rte_mbuf *m;

	if (likely(sample))
		*sent_ns = plain_ns;
	while ((m = c->sq_head) != NULL) {
		struct tcp_seg *s = tcp_seg(m);
		uint32_t got = c->snd_una - s->seq;

		if (weft_seq_leq(c->snd_una, s->seq))
			break;
		/* Karn's algorithm: a segment sent twice gives no sample (RFC 6298 s3). */
		sample = tcp_seg_once(s);
		*sent_ns = s->sent_ns;
		tcp_seg_acked(c, m, got);
		if (got < s->len_bytes) {
			s->seq += got;
			s->len_bytes -= (uint16_t)got;
			s->flags &= (uint8_t)~TCP_SEG_PROBED;
			if (likely(s->mbufs == 1)) {
				s->data_off += (uint16_t)got;
				s->head_len_bytes -= (uint16_t)got;
			} else {
				s->skip_bytes += (uint16_t)got;
			}
			break;
		}
		c->sq_head = s->next;
		if (c->sq_nxt == m)
			c->sq_nxt = s->next;
		if (c->sq_tail == m)
			c->sq_tail = NULL;
		c->acked_max_bytes = RTE_MAX(c->acked_max_bytes, s->len_bytes);
		if (unlikely(s->xmits > 1 || (s->flags & TCP_SEG_WATCH) != 0))
			tcp_offload_acked(c, s);
		tcp_seg_free(c, m);
	}
	if (unlikely(c->pmtu_watch || c->pmtu_claim_bytes != 0))
		tcp_pmtu_progress(c);
	return sample;
}

void
tcp_sq_free(struct weft_tcp_conn *c)
{
	while (c->sq_head != NULL) {
		struct rte_mbuf *m = c->sq_head;

		c->sq_head = tcp_seg(m)->next;
		tcp_seg_free(c, m);
	}
	c->sq_tail = c->sq_nxt = NULL;
}

/** Returns an indirect mbuf with `len` octets of p's buffer, from offset `at` on. */
static struct rte_mbuf *
tcp_show(struct weft_tcp_conn *c, struct rte_mbuf *p, uint32_t at, uint32_t len)
{
	struct rte_mbuf *d = rte_pktmbuf_alloc(weft_netif_attr(c->nif)->tx_pool);

	if (d == NULL) {
		c->t->stats.no_mbuf++;
		return NULL;
	}
	rte_pktmbuf_attach(d, p);
	d->data_off = (uint16_t)at;
	d->data_len = (uint16_t)len;
	d->pkt_len = len;
	return d;
}

bool
tcp_sq_show(struct weft_tcp_conn *c, struct rte_mbuf *m, struct rte_mbuf *front)
{
	const struct tcp_seg *s = tcp_seg(m);
	uint32_t at = s->data_off, have = s->head_len_bytes, skip = s->skip_bytes;
	uint32_t left = s->len_bytes;
	struct rte_mbuf *p = m, *last = front;

	for (;;) {
		if (skip < have) {
			uint32_t n = RTE_MIN(have - skip, left);

			last->next = tcp_show(c, p, at + skip, n);
			if (last->next == NULL)
				return false;
			last = last->next;
			front->nb_segs++;
			front->pkt_len += n;
			left -= n;
			if (left == 0)
				return true;
			skip = 0;
		} else {
			skip -= have;
		}
		p = p->next;
		at = p->data_off;
		have = p->data_len;
	}
}

/** With this many segments in flight a lost ACK needs no timeout: a later ACK covers it, and enough
 * duplicate ACKs report a loss. */
#define TCP_SPLIT_FLIGHT 4u

/**
 * Whether a segment may be split in two. A split takes buffers. A peer that shrinks its window or
 * MSS pays for it with the connection's own share, and so does a path that becomes narrower. But
 * data must be sent when nothing is in flight, whatever it costs. With only one segment in flight,
 * every lost ACK would cost a timeout. So up to TCP_SPLIT_FLIGHT segments may be in flight,
 * whatever the share is, while the port has buffers to lend.
 */
static bool
tcp_split_room(const struct weft_tcp_conn *c)
{
	const struct weft_netif_budget *b = &c->share->lent->snd;
	const struct rte_mbuf *m = c->flight.head;

	if (likely(tcp_segs_room(c) > 0) || m == NULL)
		return true;
	for (unsigned int n = 1; n < TCP_SPLIT_FLIGHT; n++) {
		m = tcp_seg((struct rte_mbuf *)(uintptr_t)m)->later;
		if (m == NULL)
			return b->held < b->limit;
	}
	return false;
}

bool
tcp_sq_split(struct weft_tcp_conn *c, struct rte_mbuf *m, uint16_t len)
{
	struct tcp_seg *s = tcp_seg(m);
	uint32_t cut = s->skip_bytes + (uint32_t)len, from = 0;
	uint32_t at = s->data_off, have = s->head_len_bytes;
	unsigned int k = 0, behind;
	struct rte_mbuf *p = m, *rest;

	if (unlikely(!tcp_split_room(c)))
		return false;
	/* Find the mbuf with the first octet of the rest. The last mbuf may be longer than its part
	 * of the segment. */
	for (; cut - from >= have; k++) {
		from += have;
		p = p->next;
		at = p->data_off;
		have = p->data_len;
	}
	behind = s->mbufs - k - 1;
	if (behind == 0)
		have = s->skip_bytes + (uint32_t)s->len_bytes - from;
	rest = tcp_show(c, p, at + cut - from, have - (cut - from));
	if (rest == NULL)
		return false;
	rest->next = behind > 0 ? p->next : NULL;
	/* Whether the longer segment arrives is not known any more. */
	s->first_ns = 0;
	s->flags &= (uint8_t) ~(TCP_SEG_TRAIN | TCP_SEG_WATCH);
	*tcp_seg(rest) = *s;
	tcp_seg(rest)->later = tcp_seg(rest)->prev = NULL;
	tcp_seg(rest)->flags &= (uint8_t)~TCP_SEG_PROBED;
	tcp_seg(rest)->seq = s->seq + len;
	tcp_seg(rest)->len_bytes = s->len_bytes - len;
	tcp_seg(rest)->data_off = rest->data_off;
	tcp_seg(rest)->head_len_bytes = rest->data_len;
	tcp_seg(rest)->skip_bytes = 0;
	tcp_seg(rest)->mbufs = (uint16_t)(1 + behind);
	tcp_seg_split(c, m, rest);
	c->t->grant.conn = NULL; /* the split takes a buffer more */
	s->next = rest;
	s->len_bytes = len;
	s->flags &= (uint8_t)~TCP_SEG_PUSH;
	s->mbufs = (uint16_t)(k + 1);
	if (k == 0) {
		s->data_off += s->skip_bytes;
		s->head_len_bytes = len;
		s->skip_bytes = 0;
	}
	if (k > 0 && cut == from) {
		/* All of p belongs to the rest, which holds p's buffer by a reference of its
		 * own. */
		s->mbufs--;
		WEFT_TSAN_ACQUIRE(&p->refcnt);
		rte_pktmbuf_free_seg(p);
	} else {
		tcp_share_add(c, 1);
	}
	if (c->sq_tail == m)
		c->sq_tail = rest;
	c->t->stats.segs_split++;
	return true;
}

uint8_t
tcp_seg_first(const struct rte_mbuf *m)
{
	const struct tcp_seg *s = tcp_seg((struct rte_mbuf *)(uintptr_t)m);
	uint32_t off = s->data_off, have = s->head_len_bytes, skip = s->skip_bytes;

	while (skip >= have) {
		skip -= have;
		m = m->next;
		off = m->data_off;
		have = m->data_len;
	}
	return *((const uint8_t *)m->buf_addr + off + skip);
}
