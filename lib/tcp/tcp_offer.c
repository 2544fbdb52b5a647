/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What a connection offers in its SYN, and what remains of it after the peer's SYN. */

#include "tcp_conn.h"
#include "tcp_hdr.h"
#include "tcp_instance.h"
#include "tcp_math.h"
#include "tcp_pmtu.h"
#include "weft_siphash.h"

uint32_t
tcp_ts_offset(const struct weft_tcp *t, const struct weft_ip *local, uint16_t local_port,
              const struct weft_ip *remote, uint16_t remote_port)
{
	uint64_t w[5];

	/* RFC 7323 s7.1: each connection has a clock of its own, the same for all incarnations. */
	memcpy(&w[0], local->b, 16);
	memcpy(&w[2], remote->b, 16);
	w[4] = (uint64_t)local_port << 16 | remote_port;
	return (uint32_t)weft_siphash(t->keys.ts, w, RTE_DIM(w), 1, 3);
}

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
