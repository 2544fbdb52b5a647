/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The send queue: it holds segments of the layer above until they are acknowledged, and transmits
 * them.
 *
 * The queue owns one reference of each queued mbuf until its octets are acknowledged. Each
 * transmission gives netif one more reference. While netif or a port holds the mbuf, the queue only
 * reads it. A segment is therefore described by its record (struct tcp_seg), not by its mbufs. The
 * record says how many mbufs belong to the segment, whatever `next` of the last one says, how many
 * octets of the first mbuf are payload, and how many octets at the front are acknowledged.
 */

#include <rte_debug.h>

#include "tcp_conn.h"
#include "tcp_hdr.h"
#include "tcp_instance.h"
#include "tcp_loss.h"
#include "tcp_pmtu.h"
#include "tcp_share.h"
#include "tcp_snd.h"
#include "weft_netif_attr.h"
#include "weft_netif_budget.h"
#include "weft_tsan.h"
#include "weft_netif.h"
#include <weft/atomic_ref.h>

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

bool
tcp_sq_ack(struct weft_tcp_conn *c, uint64_t *sent_ns)
{
	bool sample = false;
	struct rte_mbuf *m;

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

/** Appends a chain of indirect mbufs with the segment's payload to `front`. */
static bool
tcp_show_all(struct weft_tcp_conn *c, struct rte_mbuf *m, struct rte_mbuf *front)
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

/** Acquire: a thread of the port that released the mbuf on another core has finished reading it. */
static inline bool
tcp_mbuf_is_ours(const struct rte_mbuf *m)
{
	return atomic_load_explicit(WEFT_ATOMIC_REF(m->refcnt), memory_order_acquire) == 1;
}

/**
 * Whether only the queue holds the mbufs of a segment, and a header fits in front of the payload.
 * Then TCP may write to the mbufs and send them as they are. A partial ACK may leave the payload at
 * an odd address. Headers need an even one.
 */
static bool
tcp_seg_is_ours(const struct rte_mbuf *m, uint32_t hdr_len)
{
	const struct tcp_seg *s = tcp_seg((struct rte_mbuf *)(uintptr_t)m);

	if (!RTE_MBUF_DIRECT(m) || !tcp_mbuf_is_ours(m) || s->skip_bytes != 0 ||
	    s->data_off % 2 != 0 || s->data_off < WEFT_NETIF_HEADROOM + hdr_len)
		return false;
	for (unsigned int n = s->mbufs; unlikely(n > 1); n--) {
		m = m->next;
		if (!tcp_mbuf_is_ours(m))
			return false;
	}
	return true;
}

/** Makes the mbufs of a segment that is ours a packet of payload only, and adds a reference for
 * netif. Returns the last mbuf. */
static struct rte_mbuf *
tcp_seg_expose(struct rte_mbuf *m)
{
	struct tcp_seg *s = tcp_seg(m);
	uint32_t left = s->len_bytes - s->head_len_bytes;
	struct rte_mbuf *last = m;

	m->data_off = s->data_off;
	m->data_len = s->head_len_bytes;
	m->pkt_len = s->len_bytes;
	m->nb_segs = s->mbufs;
	rte_mbuf_refcnt_set(m, 2);
	for (unsigned int n = s->mbufs; unlikely(n > 1); n--) {
		last = last->next;
		/* A split may have left the mbuf longer than its part of the segment. */
		last->data_len = (uint16_t)RTE_MIN(left, (uint32_t)last->data_len);
		left -= last->data_len;
		rte_mbuf_refcnt_set(last, 2);
	}
	last->next = NULL;
	return last;
}

/** Returns the segment as a packet with room for its header at the front. The queue keeps its
 * reference. */
static struct rte_mbuf *
tcp_seg_packet(struct weft_tcp_conn *c, struct rte_mbuf *m, uint32_t hdr_len)
{
	struct rte_mbuf *out;

	if (likely(tcp_seg_is_ours(m, hdr_len))) {
		tcp_seg_expose(m);
		m->data_off -= (uint16_t)hdr_len;
		m->data_len += (uint16_t)hdr_len;
		m->pkt_len += hdr_len;
		return m;
	}
	out = tcp_alloc(c->t, c->nif);
	if (out == NULL)
		return NULL;
	rte_pktmbuf_append(out, (uint16_t)hdr_len);
	if (!tcp_show_all(c, m, out)) {
		rte_pktmbuf_free(out);
		return NULL;
	}
	return out;
}

bool
tcp_xmit(struct weft_tcp_conn *c, struct rte_mbuf *m, uint64_t now_ns)
{
	struct tcp_seg *s = tcp_seg(m);
	struct weft_netif_tx_how how = {.ecn = WEFT_ECN_NOT_ECT, .own_sum = c->own_sum};
	uint32_t hdr_len;
	uint8_t flags;
	struct rte_mbuf *out;
	int rc;

	if (weft_netif_tx_room(c->nif) == 0)
		return false;
	if (unlikely(c->pmtu_claim_bytes != 0) && s->xmits > 0)
		tcp_pmtu_lost(c, s, now_ns);
	if (unlikely(s->len_bytes > c->mss) && !tcp_sq_split(c, m, c->mss))
		return false;
	flags = s->flags & TCP_SEG_PUSH ? TCP_ACK | TCP_PSH : TCP_ACK;
	/* RFC 3168 s6.1.5, s6.1.2: a retransmission carries neither ECT nor CWR. */
	if (c->ecn_ok && s->xmits == 0) {
		how.ecn = WEFT_ECN_ECT0;
		flags |= c->cwr_due ? TCP_CWR : 0;
	}
	if (unlikely(s->xmits > 0))
		how.own_sum = tcp_resend_own_sum(c, s);
	hdr_len = tcp_hdr_len_for(c, s->len_bytes);
	out = tcp_seg_packet(c, m, hdr_len);
	if (out == NULL)
		return false;
	tcp_fill_hdr(c, rte_pktmbuf_mtod(out, uint8_t *), flags, s->seq, hdr_len, now_ns);
	rc = tcp_tx(c, out, how, now_ns);
	/* The interface's MTU shrank and TCP was not told yet. Split now: waiting would not
	 * help. */
	if (unlikely(rc == -EMSGSIZE) && tcp_pmtu_clamp(c))
		return tcp_xmit(c, m, now_ns);
	if (rc != 0)
		return false;
	if (flags & TCP_CWR)
		c->cwr_due = false;
	if (s->xmits == 0) {
		tcp_count_out(c, s->len_bytes - ((s->flags & TCP_SEG_PROBED) != 0));
		s->first_ns = now_ns;
		if (unlikely(c->sum_rescues > 0))
			s->flags |= TCP_SEG_WATCH;
	} else {
		s->flags = (uint8_t)((s->flags & ~TCP_SEG_OWN_SUM) |
		                     (how.own_sum ? TCP_SEG_OWN_SUM : 0));
		c->t->stats.retrans_segs++;
		c->n_retrans++;
		/* Karn's algorithm: no sample before newer octets are acknowledged. */
		c->rtt_seq = c->snd_max;
	}
	tcp_seg_sent(c, m, now_ns);
	if (s->xmits < UINT8_MAX)
		s->xmits++;
	c->last_send_ns = now_ns;
	return true;
}

/* ---- Several segments in one TSO packet ---- */

unsigned int
tcp_train(const struct weft_tcp_conn *c, const struct rte_mbuf *first, uint32_t room_bytes)
{
	struct rte_mbuf *m = (struct rte_mbuf *)(uintptr_t)first;
	uint32_t size = tcp_seg(m)->len_bytes, hdr_len = tcp_hdr_len(c), bytes = 0;
	uint32_t mbufs = 1; /* room for a separate header mbuf, which the first segment may need */
	unsigned int n = 0;

	/* RFC 3168 s6.1.2: only one segment carries CWR. Ports differ in which one they give it. */
	if (c->ecn_ok && c->cwr_due)
		return 1;
	room_bytes = RTE_MIN(room_bytes, c->tso.bytes - hdr_len);
	for (; m != NULL && n < WEFT_NETIF_TSO_SEGS; m = tcp_seg(m)->next) {
		const struct tcp_seg *s = tcp_seg(m);

		bytes += s->len_bytes;
		mbufs += s->mbufs;
		if (s->xmits != 0 || s->flags & TCP_SEG_PROBED || s->len_bytes > size ||
		    bytes > room_bytes || mbufs > c->tso.mbufs ||
		    tcp_hdr_len_for(c, s->len_bytes) != hdr_len ||
		    (n > 0 && !tcp_seg_is_ours(m, hdr_len)))
			break;
		n++;
		if (s->len_bytes < size || (s->flags & TCP_SEG_PUSH) != 0)
			break;
	}
	return RTE_MAX(n, 1u);
}

struct rte_mbuf *
tcp_xmit_train(struct weft_tcp_conn *c, struct rte_mbuf *m, unsigned int n, uint64_t now_ns)
{
	struct weft_netif_tx_how how = {
	        .ecn = c->ecn_ok ? WEFT_ECN_ECT0 : WEFT_ECN_NOT_ECT,
	        .tso_segsz_bytes = tcp_seg(m)->len_bytes,
	};
	uint32_t hdr_len = tcp_hdr_len(c);
	struct rte_mbuf *out = tcp_seg_packet(c, m, hdr_len), *end, *s = m;
	uint8_t flags = TCP_ACK;
	int rc;

	if (out == NULL)
		return NULL;
	end = rte_pktmbuf_lastseg(out);
	for (unsigned int i = 1; i < n; i++) {
		s = tcp_seg(s)->next;
		end->next = s;
		end = tcp_seg_expose(s);
		out->nb_segs += tcp_seg(s)->mbufs;
		out->pkt_len += tcp_seg(s)->len_bytes;
	}
	if (tcp_seg(s)->flags & TCP_SEG_PUSH)
		flags |= TCP_PSH;
	tcp_fill_hdr(c, rte_pktmbuf_mtod(out, uint8_t *), flags, tcp_seg(m)->seq, hdr_len, now_ns);
	rc = tcp_tx(c, out, how, now_ns);
	if (unlikely(rc == -EMSGSIZE))
		tcp_pmtu_clamp(c); /* the next turn splits the segment */
	if (rc != 0)
		return NULL;
	c->t->stats.segs_out += n - 1;
	c->n_segs_out += n - 1;
	c->t->stats.tso_segs += n;
	/* The second: a loss probe (RFC 8985 s7) sends the last, though it may not be lost. */
	tcp_seg(tcp_seg(m)->next)->flags |= TCP_SEG_TRAIN | TCP_SEG_WATCH;
	for (s = m;; s = tcp_seg(s)->next) {
		tcp_count_out(c, tcp_seg(s)->len_bytes);
		tcp_seg_sent(c, s, now_ns);
		tcp_seg(s)->xmits = 1;
		tcp_seg(s)->first_ns = now_ns;
		if (--n == 0)
			break;
	}
	c->last_send_ns = now_ns;
	return s;
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

void
tcp_sent(struct weft_tcp_conn *c, struct rte_mbuf *m)
{
	c->snd_nxt = tcp_seg(m)->seq + tcp_seg(m)->len_bytes;
	c->snd_max = weft_seq_max(c->snd_max, c->snd_nxt);
	c->sq_nxt = tcp_seg(m)->next;
}
