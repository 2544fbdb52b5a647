/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The TCP header of segments: flags, window, timestamps (RFC 7323), selective acknowledgments
 * (RFC 2018, RFC 2883), the echo of ECN (RFC 3168), and the options of a SYN.
 */

#include "tcp_conn.h"
#include "tcp_hdr.h"
#include "tcp_instance.h"
#include "tcp_math.h"
#include "tcp_pmtu.h"
#include "weft_siphash.h"

/** SACK option: two NOPs, kind and length before the blocks; octets of one block. */
#define TCP_SACK_FRAME 4
#define TCP_SACK_BLOCK 8

/* ---- Timestamps ---- */

uint32_t
tcp_ts_offset(const struct weft_tcp *t, const struct weft_ip *local, uint16_t local_port,
              const struct weft_ip *remote, uint16_t remote_port)
{
	uint64_t w[5];

	/* RFC 7323 s7.1: each connection has a clock of its own, the same for all incarnations. */
	memcpy(&w[0], local->b, 16);
	memcpy(&w[2], remote->b, 16);
	w[4] = (uint64_t)local_port << 16 | remote_port;
	return (uint32_t)weft_siphash(t->ts_key, w, RTE_DIM(w), 1, 3);
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
	if (flags & TCP_ACK) {
		c->last_ack_sent = c->rcv_nxt;
		c->rcv_unacked_bytes = 0;
		c->t_delack.at_ns = WEFT_NEVER;
		c->work &= (uint8_t)~TCP_WORK_ACK;
	}
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

/* ---- SYN ---- */

/* ---- What the peer's SYN allows ---- */

void
tcp_offer_init(struct weft_tcp_conn *c)
{
	const struct weft_tcp_attr *a = &c->t->attr;

	c->ts_offset = tcp_ts_offset(c->t, &c->local, c->local_port, &c->remote, c->remote_port);
	c->wscale_ok = !a->no_window_scale;
	c->sack_ok = !a->no_sack;
	c->ts_ok = !a->no_timestamps;
	c->ecn_ok = a->ecn == WEFT_TCP_ECN_ON;
}

/**
 * Reduces what we offer to what both sides want (RFC 7323 s2.2, s3.2; RFC 2018 s2). The caller
 * handles the ECN bits.
 */
void
tcp_apply_syn_opts(struct weft_tcp_conn *c, const struct tcp_opts *o, uint64_t now_ns)
{
	c->wscale_ok = c->wscale_ok && o->has_wscale;
	c->sack_ok = c->sack_ok && o->sack_perm;
	c->ts_ok = c->ts_ok && o->has_ts;
	if (o->mss_bytes != 0) {
		c->t->stats.small_mss_in += o->mss_bytes < c->t->attr.min_mss_bytes;
		c->mss_peer = (uint16_t)RTE_MAX(o->mss_bytes, c->t->attr.min_mss_bytes);
	}
	if (c->ts_ok) {
		c->ts_recent = o->ts_val;
		c->ts_recent_ns = now_ns;
	}
	tcp_mss_update(c);
	c->rcv_mss = RTE_MIN(c->rcv_mss, c->mss);
	c->last_ack_sent = c->rcv_nxt;
	if (c->wscale_ok) {
		c->snd_wscale = o->wscale;
		c->rcv_wscale = c->t->rcv_wscale;
		c->rcv_wnd = c->t->rcv_wnd;
	}
}

void
tcp_apply_syn_ecn(struct weft_tcp_conn *c, uint8_t flags)
{
	uint8_t ecn = flags & (TCP_ECE | TCP_CWR);

	/* RFC 3168 s6.1.1: a SYN asks by both bits, a SYN-ACK answers by ECE alone. */
	if (flags & TCP_ACK)
		c->ecn_ok = c->ecn_ok && ecn == TCP_ECE;
	else
		c->ecn_ok = c->t->attr.ecn != WEFT_TCP_ECN_OFF && ecn == (TCP_ECE | TCP_CWR) &&
		            (!c->active || c->ecn_ok);
}
