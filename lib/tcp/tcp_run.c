/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A run of new segments: their headers differ in the sequence number and in PSH alone, so they are
 * written from one template, and netif gets all at once. tcp_out.c sends every other segment.
 */

#include "tcp_cc.h"
#include "tcp_conn.h"
#include "tcp_hdr.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_loss.h"
#include "tcp_math.h"
#include "tcp_snd.h"
#include "weft_netif.h"
#include <weft/atomic_ref.h>

/** Octets of a header with timestamps alone. */
#define RUN_HDR_MAX   (TCP_HDR_LEN + TCP_OPTS_TSTAMP_LEN)
#define RUN_OFF_SEQ   4 /* RFC 9293 s3.1 */
#define RUN_OFF_FLAGS 13

/** Whether the next new segment needs nothing that only its own header can say. */
static inline bool
run_may_begin(const struct weft_tcp_conn *c)
{
	return c->tso.bytes == 0 && c->nsack == 0 && !c->dsack_due && !c->ece_due &&
	       !(c->ecn_ok && c->cwr_due) && !c->in_recovery && c->sum_rescues == 0 &&
	       c->snd_max == c->snd_nxt;
}

/** What a segment's record says of its mbufs and transmissions, for one comparison. */
static inline uint64_t
run_state(const struct tcp_seg *s)
{
	uint64_t v;

	static_assert(sizeof(*s) == offsetof(struct tcp_seg, head_len_bytes) + sizeof(v), "state");
	memcpy(&v, (const uint8_t *)s + offsetof(struct tcp_seg, head_len_bytes), sizeof(v));
	return v;
}

/** Whether m is a segment that was never sent, in one mbuf that only the queue holds, with room for
 * a header at an even address. */
static inline bool
run_takes(const struct rte_mbuf *m, const struct tcp_seg *s, uint32_t hdr_len)
{
	const struct tcp_seg look = {
	        .skip_bytes = UINT16_MAX,
	        .mbufs = UINT16_MAX,
	        .xmits = UINT8_MAX,
	        .flags = (uint8_t)~TCP_SEG_PUSH,
	};
	const struct tcp_seg want = {.mbufs = 1};

	return (run_state(s) & run_state(&look)) == run_state(&want) && s->data_off % 2 == 0 &&
	       s->data_off >= WEFT_NETIF_HEADROOM + hdr_len && RTE_MBUF_DIRECT(m) &&
	       atomic_load_explicit(WEFT_ATOMIC_REF(m->refcnt), memory_order_acquire) == 1;
}

/** Makes m a packet: the header, and the payload behind it. netif gets a reference. */
static inline void
run_packet(struct rte_mbuf *m, const struct tcp_seg *s, const uint8_t *hdr, uint32_t hdr_len)
{
	uint8_t *p;

	m->data_off = (uint16_t)(s->data_off - hdr_len);
	m->data_len = (uint16_t)(s->len_bytes + hdr_len);
	m->pkt_len = s->len_bytes + hdr_len;
	m->nb_segs = 1;
	m->next = NULL;
	rte_mbuf_refcnt_set(m, 2);
	p = rte_pktmbuf_mtod(m, uint8_t *);
	memcpy(p, hdr, TCP_HDR_LEN);
	if (hdr_len > TCP_HDR_LEN)
		memcpy(p + TCP_HDR_LEN, hdr + TCP_HDR_LEN, TCP_OPTS_TSTAMP_LEN);
	weft_put_be32(p + RUN_OFF_SEQ, s->seq);
	if (s->flags & TCP_SEG_PUSH)
		p[RUN_OFF_FLAGS] |= TCP_PSH;
}

static void
run_template(const struct weft_tcp_conn *c, uint8_t *hdr, uint32_t hdr_len, uint64_t now_ns)
{
	const struct tcp_hdr h = {
	        .src_port = c->local_port,
	        .dst_port = c->remote_port,
	        .ack = c->rcv_nxt,
	        .wnd = (uint16_t)(c->rcv_wnd >> c->rcv_wscale),
	        .flags = TCP_ACK,
	        .hdr_len_bytes = (uint8_t)hdr_len,
	};

	tcp_wire_encode(hdr, &h);
	if (hdr_len == TCP_HDR_LEN)
		return;
	weft_put_be32(hdr + TCP_HDR_LEN, TCP_OPTS_TSTAMP_ALONE);
	weft_put_be32(hdr + TCP_HDR_LEN + 4, tcp_ts_now(c, now_ns));
	weft_put_be32(hdr + TCP_HDR_LEN + 8, c->ts_recent);
}

/** n segments have left: what tcp_xmit() and tcp_sent() note of each. */
static void
run_sent(struct weft_tcp_conn *c, struct rte_mbuf **m, unsigned int n, uint64_t now_ns)
{
	const struct tcp_seg *last = tcp_seg(m[n - 1]);
	uint32_t bytes = last->seq + last->len_bytes - c->snd_nxt;

	tcp_flight_new(c, m, n, now_ns);
	c->snd_nxt += bytes;
	c->snd_max = c->snd_nxt;
	c->sq_nxt = last->next;
	c->t->stats.segs_out += n;
	c->n_segs_out += n;
	tcp_count_out(c, bytes);
	c->last_send_ns = now_ns;
	tcp_ack_settled(c);
}

unsigned int
tcp_run_send(struct weft_tcp_conn *c, uint64_t now_ns)
{
	struct weft_netif_tx_how how = {
	        .ecn = c->ecn_ok ? WEFT_ECN_ECT0 : WEFT_ECN_NOT_ECT,
	        .dscp = c->dscp,
	        .may_fragment = c->may_fragment || c->t->attr.no_pmtu,
	        .own_sum = c->own_sum,
	};
	uint32_t flight = c->snd_nxt - c->snd_una, hdr_len = tcp_hdr_len(c), room;
	struct rte_mbuf *out[WEFT_NETIF_BURST], *m = c->sq_nxt;
	uint8_t hdr[RUN_HDR_MAX];
	unsigned int n = 0, max, sent;

	if (unlikely(!run_may_begin(c)))
		return 0;
	room = tcp_left(tcp_cong_wnd(c), flight == 0 ? 0 : tcp_pipe(c));
	room = RTE_MIN(room, tcp_left(c->snd_wnd, flight));
	max = RTE_MIN(tcp_left(weft_netif_tx_room(c->nif), TCP_TX_SLACK),
	              (uint32_t)WEFT_NETIF_BURST);
	while (n < max && m != NULL) {
		const struct tcp_seg *s = tcp_seg(m);

		if (s->len_bytes > room || s->len_bytes > c->mss || !run_takes(m, s, hdr_len))
			break;
		if (n == 0)
			run_template(c, hdr, hdr_len, now_ns);
		room -= s->len_bytes;
		run_packet(m, s, hdr, hdr_len);
		out[n++] = m;
		m = s->next;
	}
	if (n == 0)
		return 0;
	sent = weft_netif_tx_run(c->nif, c->neigh, &c->local, &c->remote, out, n, how, now_ns);
	for (unsigned int i = sent; i < n; i++)
		rte_mbuf_refcnt_set(out[i], 1);
	if (likely(sent > 0))
		run_sent(c, out, sent, now_ns);
	return sent;
}
