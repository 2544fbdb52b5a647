/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Output: from weft_tcp_send() to weft_netif_tx(). A segment is queued; when the windows allow it,
 * it becomes a packet, gets its TCP header and goes to netif. It stays in the send queue (tcp_sq.c)
 * until it is acknowledged. tcp_due.c decides what is sent before new data and after it.
 */

#include <rte_debug.h>

#include "tcp_cc.h"
#include "tcp_conn.h"
#include "tcp_hdr.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_loss.h"
#include "tcp_math.h"
#include "tcp_pmtu.h"
#include "tcp_share.h"
#include "tcp_snd.h"
#include "tcp_timer.h"
#include "weft_netif.h"
#include <weft/atomic_ref.h>

/** SACK option: two NOPs, kind and length before the blocks; octets of one block. */
#define TCP_SACK_FRAME 4
#define TCP_SACK_BLOCK 8

/* ---- The way down to netif ---- */

struct rte_mbuf *
tcp_alloc(struct weft_tcp *t, struct weft_netif *nif)
{
	struct rte_mbuf *m = weft_netif_alloc(nif, TCP_HEADROOM);

	if (m == NULL)
		t->stats.no_mbuf++;
	return m;
}

int
tcp_tx(struct weft_tcp_conn *c, struct rte_mbuf *m, struct weft_netif_tx_how how, uint64_t now_ns)
{
	int rc;

	how.dscp = c->dscp;
	how.may_fragment = c->may_fragment || c->t->attr.no_pmtu;
	rc = weft_netif_tx(c->nif, c->neigh, &c->local, &c->remote, m, how, now_ns);

	if (rc == 0) {
		c->t->stats.segs_out++;
		c->n_segs_out++;
	}
	return rc;
}

/* ---- Blocks to report ---- */

static unsigned int
tcp_sack_count(const struct weft_tcp_conn *c)
{
	return c->sack_ok ? c->nsack + (c->dsack_due ? 1u : 0u) : 0;
}

uint32_t
tcp_hdr_len_for(const struct weft_tcp_conn *c, uint32_t payload_bytes)
{
	uint32_t len = tcp_hdr_len(c), room, blocks = tcp_sack_count(c);

	if (likely(blocks == 0))
		return len;
	/* With data, blocks are added only if the segment still fits the path MTU. */
	room = tcp_left(c->mss + tcp_hdr_len(c), payload_bytes + len);
	room = RTE_MIN(room, TCP_HDR_MAX_LEN - len);
	if (room < TCP_SACK_FRAME + TCP_SACK_BLOCK)
		return len;
	blocks = RTE_MIN(blocks, (room - TCP_SACK_FRAME) / TCP_SACK_BLOCK);
	return len + TCP_SACK_FRAME + blocks * TCP_SACK_BLOCK;
}

static void
tcp_fill_sack(struct weft_tcp_conn *c, uint8_t *p, uint32_t len)
{
	unsigned int n = (len - TCP_SACK_FRAME) / TCP_SACK_BLOCK, k = 0;

	p[0] = p[1] = TCP_OPT_NOP;
	p[2] = TCP_OPT_SACK;
	p[3] = (uint8_t)(2 + n * TCP_SACK_BLOCK);
	p += TCP_SACK_FRAME;
	if (c->dsack_due) {
		/* RFC 2883 s4: the D-SACK is the first block, and is reported once. */
		c->dsack_due = false;
		c->t->stats.dsacks_out++;
		weft_put_be32(p, c->dsack.left);
		weft_put_be32(p + 4, c->dsack.right);
		p += TCP_SACK_BLOCK;
		n--;
	}
	for (; k < n; k++, p += TCP_SACK_BLOCK) {
		weft_put_be32(p, c->sack[k].left);
		weft_put_be32(p + 4, c->sack[k].right);
	}
	c->t->stats.sack_blocks_out += k;
}

/* ---- The header ---- */

void
tcp_fill_fixed(struct weft_tcp_conn *c, uint8_t *p, uint8_t flags, uint32_t seq, uint32_t hdr_len)
{
	/* RFC 7323 s2.2: the window of a segment with SYN is never scaled. */
	uint32_t wnd = flags & TCP_SYN ? RTE_MIN(c->rcv_wnd, (uint32_t)UINT16_MAX)
	                               : c->rcv_wnd >> c->rcv_wscale;
	struct tcp_hdr h = {
	        .src_port = c->local_port,
	        .dst_port = c->remote_port,
	        .seq = seq,
	        .ack = flags & TCP_ACK ? c->rcv_nxt : 0,
	        .wnd = (uint16_t)wnd,
	        .flags = flags,
	        .hdr_len_bytes = (uint8_t)hdr_len,
	};

	tcp_wire_encode(p, &h);
	if (flags & TCP_ACK)
		tcp_ack_settled(c);
}

void
tcp_fill_hdr(struct weft_tcp_conn *c, uint8_t *p, uint8_t flags, uint32_t seq, uint32_t hdr_len,
             uint64_t now_ns)
{
	uint32_t at = TCP_HDR_LEN;

	/* RFC 3168 s6.1.3: ECE in every ACK until the peer sends CWR. */
	if (unlikely(c->ece_due) && (flags & (TCP_ACK | TCP_RST)) == TCP_ACK)
		flags |= TCP_ECE;
	tcp_fill_fixed(c, p, flags, seq, hdr_len);
	if (c->ts_ok) {
		weft_put_be32(p + at, TCP_OPTS_TSTAMP_ALONE);
		weft_put_be32(p + at + 4, tcp_ts_now(c, now_ns));
		weft_put_be32(p + at + 8, flags & TCP_ACK ? c->ts_recent : 0);
		at += TCP_OPTS_TSTAMP_LEN;
	}
	if (unlikely(hdr_len > at))
		tcp_fill_sack(c, p + at, hdr_len - at);
}

/* ---- A segment as a packet ---- */

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
	if (!tcp_sq_show(c, m, out)) {
		rte_pktmbuf_free(out);
		return NULL;
	}
	return out;
}

/* ---- Transmission ---- */

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

/**
 * How many queued segments from `first` on, none of them sent yet, may leave in one TSO packet: of
 * equal length but for the last, room_bytes together at most. 1: `first` leaves alone.
 */
static unsigned int
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

/** First transmission of n segments, at least 2. Returns the last; NULL: nothing changed. */
static struct rte_mbuf *
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

/* ---- What the windows allow ---- */

void
tcp_sent(struct weft_tcp_conn *c, struct rte_mbuf *m)
{
	c->snd_nxt = tcp_seg(m)->seq + tcp_seg(m)->len_bytes;
	c->snd_max = weft_seq_max(c->snd_max, c->snd_nxt);
	c->sq_nxt = tcp_seg(m)->next;
}

/** Sends the segment at snd_nxt, or several, if the windows allow it. False: stop here. */
static bool
tcp_output_one(struct weft_tcp_conn *c, struct rte_mbuf *m, uint64_t now_ns)
{
	struct tcp_seg *s = tcp_seg(m);
	uint32_t flight = c->snd_nxt - c->snd_una;
	uint32_t cong = tcp_cong_wnd(c);
	/* Before the first segment of the queue, only a window probe's octet can be in flight. That
	 * octet belongs to this segment. */
	uint32_t pipe = flight == 0 ? 0 : tcp_pipe(c);
	uint32_t peer = c->snd_wnd > flight ? c->snd_wnd - flight : 0;
	unsigned int n = 1;

	if (unlikely(s->len_bytes > c->mss) && !tcp_sq_split(c, m, c->mss))
		goto later;
	if (pipe + s->len_bytes > cong)
		return false;
	if (unlikely(s->len_bytes > peer)) {
		/* RFC 9293 s3.8.6.2.1: split when at least half of the largest window is open. */
		if (peer == 0 || peer < c->max_snd_wnd / 2) {
			if (flight == 0)
				tcp_persist(c, now_ns);
			return false;
		}
		if (!tcp_sq_split(c, m, (uint16_t)peer))
			goto later;
	}
	if (unlikely(weft_netif_tx_room(c->nif) <= TCP_TX_SLACK))
		goto later;
	if (c->tso.bytes != 0)
		n = tcp_train(c, m, RTE_MIN(cong - pipe, peer));
	if (n > 1) {
		m = tcp_xmit_train(c, m, n, now_ns);
		if (m == NULL)
			goto later;
	} else if (!tcp_xmit(c, m, now_ns)) {
		goto later;
	}
	tcp_sent(c, m);
	return true;
later:
	tcp_wait(c, TCP_WORK_OUTPUT);
	return false;
}

void
tcp_output_timers(struct weft_tcp_conn *c, uint64_t now_ns)
{
	if (c->persist) {
		c->persist = false;
		c->backoff = 0;
		c->retries = 0;
		tcp_rto_restart(c, now_ns);
	} else if (c->rto_at_ns == WEFT_NEVER) {
		tcp_rto_restart(c, now_ns);
	} else if (c->task.queued) {
		c->work |= TCP_WORK_PROBE; /* once for all that is sent until the turn */
	} else {
		tcp_pto_restart(c, now_ns);
	}
}

void
tcp_output_new(struct weft_tcp_conn *c, uint64_t now_ns)
{
	uint32_t before = c->snd_nxt;

	if (c->sq_nxt != NULL)
		tcp_cc_idle(c, now_ns);
	while (c->sq_nxt != NULL &&
	       (tcp_run_send(c, now_ns) > 0 || tcp_output_one(c, c->sq_nxt, now_ns)))
		;
	tcp_cc_used(c);
	if (c->snd_nxt != before)
		tcp_output_timers(c, now_ns);
}

/* ---- The layer above ---- */

/** Octets of a run: a run is still in the first-level cache when it is summed. */
#define TCP_RUN_BYTES 8192u
/** With so many octets in flight a run costs no time: the path is busy while it is collected. */
#define TCP_RUN_FLIGHT 8192u

/** Octets that are collected before they are sent, while the user has more. */
static inline uint32_t
tcp_run_bytes(const struct weft_tcp_conn *c)
{
	if (c->tso.bytes != 0)
		return c->tso.bytes;
	return c->snd_nxt - c->snd_una >= TCP_RUN_FLIGHT ? TCP_RUN_BYTES : 0;
}

/* Not inline: a segment that is only queued needs no registers saved for these. */

static __rte_noinline int
tcp_send_now(struct weft_tcp_conn *c, uint64_t now_ns)
{
	if (unlikely(now_ns >= c->pmtu_raise_ns))
		tcp_pmtu_raise(c, now_ns);
	tcp_output_new(c, now_ns);
	return 0;
}

static __rte_noinline int
tcp_send_refused(const struct weft_tcp_conn *c, struct rte_mbuf *m)
{
	rte_pktmbuf_free(m);
	return c->fin_out ? -EPIPE : -ENOTCONN;
}

static inline int
tcp_send_queue(struct weft_tcp_conn *c, struct rte_mbuf *m, bool push, uint64_t now_ns)
{
	uint32_t len = m->pkt_len, mbufs = m->nb_segs;

	RTE_ASSERT(len > 0 && len <= UINT16_MAX);
	*tcp_seg(m) = (struct tcp_seg){
	        .seq = c->snd_end,
	        .len_bytes = (uint16_t)len,
	        .data_off = m->data_off,
	        .head_len_bytes = m->data_len,
	        .mbufs = (uint16_t)mbufs,
	        .flags = push ? TCP_SEG_PUSH : 0,
	};
	if (unlikely(mbufs > 1))
		c->t->grant.conn = NULL; /* it was of one mbuf a segment */
	c->sq_tail = m;
	if (c->sq_nxt == NULL)
		c->sq_nxt = m;
	tcp_share_add(c, mbufs);
	c->snd_end += len;
	/*
	 * The caller has more data, and sending costs less for several segments together: the port
	 * takes them as one, or the path is still busy with earlier ones. The data queued in this
	 * turn leaves at the end of the turn at the latest: the task is in the run list. The task
	 * also sends first what is lost.
	 */
	if ((push || c->snd_end - c->snd_nxt >= tcp_run_bytes(c)) && likely(c->lost.head == NULL))
		return tcp_send_now(c, now_ns);
	tcp_work(c, TCP_WORK_OUTPUT);
	return 0;
}

/** The first segment of an empty queue. */
static __rte_noinline int
tcp_send_first(struct weft_tcp_conn *c, struct rte_mbuf *m, bool push, uint64_t now_ns)
{
	c->sq_head = m;
	tcp_progress_begin(c, now_ns);
	return tcp_send_queue(c, m, push, now_ns);
}

int
weft_tcp_send(struct weft_tcp_conn *c, struct rte_mbuf *m, bool push, uint64_t now_ns)
{
	if (unlikely(c->dead || c->detached || !tcp_states[c->state].may_send))
		return tcp_send_refused(c, m);
	if (unlikely(c->sq_head == NULL))
		return tcp_send_first(c, m, push, now_ns);
	tcp_seg(c->sq_tail)->next = m;
	return tcp_send_queue(c, m, push, now_ns);
}
