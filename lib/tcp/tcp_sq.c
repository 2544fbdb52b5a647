/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The send queue: segments from the layer above until they are acknowledged, and their
 * transmission.
 *
 * One reference of a queued mbuf belongs to the queue, until the octets are acknowledged; each
 * transmission gives netif another one. While somebody else holds the mbuf it is only read.
 */

#include "tcp_priv.h"

/* ---- The send queue ---- */

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
		/* Karn: what was sent twice says nothing (RFC 6298 s3). */
		sample = s->xmits == 1;
		*sent_ns = s->sent_ns;
		tcp_seg_acked(c, m, got);
		if (got < s->len_bytes) {
			s->seq += got;
			s->data_off += (uint16_t)got;
			s->len_bytes -= (uint16_t)got;
			break;
		}
		c->sq_head = s->next;
		if (c->sq_nxt == m)
			c->sq_nxt = s->next;
		if (c->sq_tail == m)
			c->sq_tail = NULL;
		c->snd_segs--;
		c->t->snd_segs--;
		rte_pktmbuf_free_seg(m);
	}
	return sample;
}

void
tcp_sq_free(struct weft_tcp_conn *c)
{
	while (c->sq_head != NULL) {
		struct rte_mbuf *m = c->sq_head;

		c->sq_head = tcp_seg(m)->next;
		rte_pktmbuf_free_seg(m);
	}
	c->sq_tail = c->sq_nxt = NULL;
	c->t->snd_segs -= c->snd_segs;
	c->snd_segs = 0;
}

/** An indirect mbuf that shows [off, off + len) of m's payload. */
static struct rte_mbuf *
tcp_clone(struct weft_tcp_conn *c, struct rte_mbuf *m, uint16_t off, uint16_t len)
{
	struct rte_mbuf *d = rte_pktmbuf_alloc(weft_netif_attr(c->nif)->tx_pool);

	if (d == NULL) {
		c->t->stats.no_mbuf++;
		return NULL;
	}
	rte_pktmbuf_attach(d, m);
	d->data_off = tcp_seg(m)->data_off + off;
	d->data_len = len;
	d->pkt_len = len;
	return d;
}

bool
tcp_sq_split(struct weft_tcp_conn *c, struct rte_mbuf *m, uint16_t len)
{
	struct tcp_seg *s = tcp_seg(m);
	struct rte_mbuf *rest = tcp_clone(c, m, len, s->len_bytes - len);

	if (rest == NULL)
		return false;
	*tcp_seg(rest) = (struct tcp_seg){
	        .next = s->next,
	        .sent_ns = s->sent_ns,
	        .seq = s->seq + len,
	        .len_bytes = s->len_bytes - len,
	        .data_off = rest->data_off,
	        .xmits = s->xmits,
	        .flags = s->flags,
	};
	tcp_seg_split(c, m, rest);
	s->next = rest;
	s->len_bytes = len;
	s->flags &= (uint8_t)~TCP_SEG_PUSH;
	if (c->sq_tail == m)
		c->sq_tail = rest;
	c->snd_segs++;
	c->t->snd_segs++;
	return true;
}

bool
tcp_xmit(struct weft_tcp_conn *c, struct rte_mbuf *m, uint64_t now_ns)
{
	struct tcp_seg *s = tcp_seg(m);
	uint8_t flags = s->flags & TCP_SEG_PUSH ? TCP_ACK | TCP_PSH : TCP_ACK;
	struct weft_netif_tx_how how = {.ecn = WEFT_ECN_NOT_ECT};
	uint32_t hdr_len = tcp_hdr_len_for(c, s->len_bytes);
	struct rte_mbuf *out = m;

	/* RFC 3168 s6.1.5, s6.1.2: neither on what is sent again. */
	if (c->ecn_ok && s->xmits == 0) {
		how.ecn = WEFT_ECN_ECT0;
		flags |= c->cwr_due ? TCP_CWR : 0;
	}
	if (weft_netif_tx_room(c->nif) == 0)
		return false;
	/* A partial ACK may leave the payload at an odd address, and headers want an even one. */
	if (likely(RTE_MBUF_DIRECT(m) && rte_mbuf_refcnt_read(m) == 1 && s->data_off % 2 == 0 &&
	           s->data_off >= WEFT_NETIF_HEADROOM + hdr_len)) {
		/* Whoever let go of it on another core has read it by now. */
		rte_atomic_thread_fence(__ATOMIC_ACQUIRE);
		m->data_off = (uint16_t)(s->data_off - hdr_len);
		m->data_len = (uint16_t)(s->len_bytes + hdr_len);
		m->pkt_len = m->data_len;
		m->nb_segs = 1;
		m->next = NULL;
		tcp_fill_hdr(c, rte_pktmbuf_mtod(m, uint8_t *), flags, s->seq, hdr_len, now_ns);
		rte_mbuf_refcnt_set(m, 2);
	} else {
		struct rte_mbuf *data;

		out = tcp_alloc(c->t, c->nif);
		if (out == NULL)
			return false;
		data = tcp_clone(c, m, 0, s->len_bytes);
		if (data == NULL) {
			rte_pktmbuf_free(out);
			return false;
		}
		tcp_fill_hdr(c, (uint8_t *)rte_pktmbuf_append(out, (uint16_t)hdr_len), flags,
		             s->seq, hdr_len, now_ns);
		out->next = data;
		out->nb_segs = 2;
		out->pkt_len += s->len_bytes;
	}
	if (tcp_tx(c, out, how, now_ns) != 0)
		return false;
	if (flags & TCP_CWR)
		c->cwr_due = false;
	if (s->xmits == 0) {
		c->t->stats.bytes_out += s->len_bytes;
	} else {
		c->t->stats.retrans_segs++;
		c->n_retrans++;
		/* Karn: no sample before something newer is acknowledged. */
		c->rtt_seq = c->snd_max;
	}
	tcp_seg_sent(c, m, now_ns);
	if (s->xmits < UINT8_MAX)
		s->xmits++;
	c->last_send_ns = now_ns;
	return true;
}

void
tcp_sent(struct weft_tcp_conn *c, struct rte_mbuf *m)
{
	c->snd_nxt = tcp_seg(m)->seq + tcp_seg(m)->len_bytes;
	c->snd_max = weft_seq_max(c->snd_max, c->snd_nxt);
	c->sq_nxt = tcp_seg(m)->next;
}

/* ---- The layer above ---- */

uint32_t
tcp_space(const struct weft_tcp_conn *c)
{
	uint32_t queued = c->snd_end - c->snd_una;
	uint32_t room = weft_netif_tx_room(c->nif);
	uint32_t limit, space, segs;

	if (!tcp_states[c->state].may_send || c->fin_out || room <= TCP_TX_SLACK)
		return 0;
	limit = RTE_MIN(tcp_cong_wnd(c) + c->sacked_bytes, c->snd_wnd) + TCP_QUEUE_AHEAD * c->mss;
	limit = RTE_MIN(limit, c->t->attr.snd_buf_bytes);
	space = limit > queued ? limit - queued : 0;
	segs = tcp_segs_room(c);
	segs = RTE_MIN(segs, room - TCP_TX_SLACK);
	space = RTE_MIN(space, segs * c->mss);
	return space >= c->mss ? space : 0;
}

/** An ACK wakes us from our own bounds; room that others must make has to be asked for. */
static bool
tcp_must_ask(const struct weft_tcp_conn *c)
{
	return weft_netif_tx_room(c->nif) <= TCP_TX_SLACK ||
	       (tcp_segs_room(c) == 0 && c->snd_segs < c->t->attr.max_snd_segs);
}

uint32_t
weft_tcp_send_space(const struct weft_tcp_conn *conn)
{
	/* Nothing that the caller can see changes; who was told 0 must be remembered. */
	struct weft_tcp_conn *c = (struct weft_tcp_conn *)(uintptr_t)conn;
	uint32_t space = c->dead || c->detached ? 0 : tcp_space(c);

	if (space == 0 && !c->dead && tcp_states[c->state].may_send) {
		c->starved = true;
		if (tcp_must_ask(c))
			tcp_wait(c, 0);
	}
	return space;
}

void
tcp_tell_writable(struct weft_tcp_conn *c)
{
	if (c->dead || !c->starved || c->ops == NULL || !tcp_states[c->state].may_send)
		return;
	if (c->wants_mbuf) {
		struct rte_mbuf *m = weft_netif_alloc(c->nif, TCP_HEADROOM);

		if (m == NULL) {
			tcp_wait(c, 0);
			return;
		}
		rte_pktmbuf_free(m);
	}
	if (tcp_space(c) == 0) {
		if (tcp_must_ask(c))
			tcp_wait(c, 0);
		return;
	}
	c->starved = false;
	c->wants_mbuf = false;
	if (c->ops->writable != NULL)
		c->ops->writable(c->user);
}

struct rte_mbuf *
weft_tcp_alloc(struct weft_tcp_conn *c)
{
	struct rte_mbuf *m = NULL;

	if (likely(tcp_segs_room(c) > 0)) {
		m = tcp_alloc(c->t, c->nif);
		if (likely(m != NULL))
			return m;
		c->wants_mbuf = true;
	}
	if (!c->dead) {
		c->starved = true;
		if (c->wants_mbuf || tcp_must_ask(c))
			tcp_wait(c, 0);
	}
	return NULL;
}

int
weft_tcp_send(struct weft_tcp_conn *c, struct rte_mbuf *m, bool push, uint64_t now_ns)
{
	if (unlikely(c->dead || c->detached || !tcp_states[c->state].may_send)) {
		rte_pktmbuf_free(m);
		return c->fin_out ? -EPIPE : -ENOTCONN;
	}
	RTE_ASSERT(m->nb_segs == 1 && m->data_len > 0);
	*tcp_seg(m) = (struct tcp_seg){
	        .seq = c->snd_end,
	        .len_bytes = m->data_len,
	        .data_off = m->data_off,
	        .flags = push ? TCP_SEG_PUSH : 0,
	};
	if (c->sq_head == NULL) {
		c->sq_head = m;
		tcp_progress_begin(c, now_ns);
	} else {
		tcp_seg(c->sq_tail)->next = m;
	}
	c->sq_tail = m;
	c->snd_segs++;
	c->t->snd_segs++;
	if (c->sq_nxt == NULL)
		c->sq_nxt = m;
	c->snd_end += m->data_len;
	tcp_output(c, now_ns);
	return 0;
}
