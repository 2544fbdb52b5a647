/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * SYN cookies (RFC 4987 s3.6). The sequence number of the SYN-ACK, and the low bits of its
 * timestamp, hold what the connection needs when the last ACK of the handshake arrives.
 *
 * Sequence number: bit 31 is the parity of the time slot. Bits 28-30 are an index of the MSS. Bits
 * 0-27 are a keyed hash of addresses, ports, the peer's sequence number, the slot, the MSS and the
 * timestamp's bits. A slot lasts 64 s. Cookies of the current and the previous slot are accepted.
 * So what an attacker learns about a slot is useless two minutes later.
 */

#include "tcp_defend.h"
#include "tcp_hdr.h"
#include "tcp_instance.h"
#include "tcp_rcv.h"
#include "tcp_snd.h"
#include "weft_siphash.h"
#include "weft_netif_attr.h"
#include "weft_netif_group.h"
#include "weft_netif_neigh.h"
#include "weft_netif.h"

#define TCP_COOKIE_SLOT_NS  (64 * WEFT_NS_PER_S)
#define TCP_COOKIE_LIFE_NS  (2 * TCP_COOKIE_SLOT_NS)
#define TCP_COOKIE_MAC_MASK 0x0fffffffu

/* The answer to a cookie comes to the worker that has sent it. */
static_assert(TCP_COOKIE_LIFE_NS <= WEFT_FLOW_PIN_NS, "cookies outlive their owner");

/* In the low bits of our timestamp, if the peer uses timestamps. */
#define TCP_COOKIE_TS_BITS   6
#define TCP_COOKIE_TS_MASK   ((1u << TCP_COOKIE_TS_BITS) - 1)
#define TCP_COOKIE_TS_WSCALE 0x0f
#define TCP_COOKIE_NO_WSCALE 0x0f /* RFC 7323 s2.3: at most 14 */
#define TCP_COOKIE_TS_SACK   0x10
#define TCP_COOKIE_TS_ECN    0x20
#define TCP_COOKIE_NO_TS     0x40 /**< hashed, not sent */

/**
 * The time slot of now_ns. The start of the slots is a secret of the instance. Otherwise the parity
 * in each cookie would reveal how long the instance has run, modulo two slots.
 */
uint64_t
tcp_cookie_slot(const struct weft_tcp *t, uint64_t now_ns)
{
	return (now_ns + t->cookie_key[0] % TCP_COOKIE_LIFE_NS) / TCP_COOKIE_SLOT_NS;
}

/** Common MSS options of peers: Ethernet over IPv4 and IPv6, tunnels, jumbo frames. */
static const uint16_t tcp_cookie_mss[8] = {64, 536, 1220, 1400, 1440, 1460, 4312, 8940};

static unsigned int
tcp_mss_index(uint16_t mss_bytes)
{
	unsigned int i = RTE_DIM(tcp_cookie_mss) - 1;

	while (i > 0 && tcp_cookie_mss[i] > mss_bytes)
		i--;
	return i;
}

static uint32_t
tcp_cookie_make(const struct weft_tcp *t, const struct tcp_in *in, uint32_t irs, uint64_t slot,
                unsigned int mss_index, uint32_t bits)
{
	uint64_t w[7];

	memcpy(&w[0], in->dst->b, 16);
	memcpy(&w[2], in->src->b, 16);
	w[4] = (uint64_t)in->h.dst_port << 48 | (uint64_t)in->h.src_port << 32 | irs;
	w[5] = slot;
	w[6] = (uint64_t)mss_index << 32 | bits;
	return (uint32_t)(slot & 1) << 31 | (uint32_t)mss_index << 28 |
	       ((uint32_t)weft_siphash(t->cookie_key, w, RTE_DIM(w), 2, 4) & TCP_COOKIE_MAC_MASK);
}

void
tcp_cookie_send(struct weft_tcp *t, struct weft_netif *nif, const struct weft_tcp_listener *l,
                const struct tcp_in *in, uint64_t now_ns)
{
	const struct tcp_opts *o = &in->opts;
	unsigned int ip_hdr = weft_ip_is_v4(in->src) ? 20 : 40;
	uint16_t mss_default = weft_ip_is_v4(in->src) ? TCP_DEFAULT_MSS_V4 : TCP_DEFAULT_MSS_V6;
	unsigned int mss = tcp_mss_index(o->mss_bytes != 0 ? o->mss_bytes : mss_default);
	bool ecn = t->attr.ecn != WEFT_TCP_ECN_OFF &&
	           (in->h.flags & (TCP_ECE | TCP_CWR)) == (TCP_ECE | TCP_CWR);
	uint32_t bits = TCP_COOKIE_NO_TS, ts = 0;
	struct tcp_opts answer = {
	        .mss_bytes = (uint16_t)(weft_netif_attr(nif)->mtu_bytes - ip_hdr - TCP_HDR_LEN)};
	struct tcp_hdr h = {
	        .src_port = in->h.dst_port,
	        .dst_port = in->h.src_port,
	        .ack = in->h.seq + 1,
	        .wnd = (uint16_t)RTE_MIN(t->rcv_wnd, (uint32_t)UINT16_MAX),
	        .flags = TCP_SYN | TCP_ACK,
	        .hdr_len_bytes = TCP_HDR_LEN,
	};
	const struct weft_netif_tx_how how = {
	        .dscp = l->dscp == WEFT_TCP_DSCP_PORT ? weft_netif_attr(nif)->dscp
	                                              : (uint8_t)l->dscp,
	        .own_sum = true,
	};
	const struct weft_netif_flow flow = {.local = in->dst,
	                                     .remote = in->src,
	                                     .local_port = in->h.dst_port,
	                                     .remote_port = in->h.src_port};
	struct weft_neigh *neigh;
	struct rte_mbuf *m;
	uint8_t *p;

	if (!weft_netif_flow_pin(nif, &flow))
		return;
	if (weft_netif_tx_room(nif) <= TCP_TX_SLACK) {
		t->stats.syns_dropped_full++;
		return;
	}
	if (o->has_ts && !t->attr.no_timestamps) {
		uint32_t now = tcp_ts_clock(now_ns) +
		               tcp_ts_offset(t, in->dst, in->h.dst_port, in->src, in->h.src_port);

		answer.has_wscale = o->has_wscale && !t->attr.no_window_scale;
		answer.wscale = t->rcv_wscale;
		answer.sack_perm = o->sack_perm && !t->attr.no_sack;
		bits = answer.has_wscale ? o->wscale : TCP_COOKIE_NO_WSCALE;
		bits |= (answer.sack_perm ? TCP_COOKIE_TS_SACK : 0) | (ecn ? TCP_COOKIE_TS_ECN : 0);
		ts = (now & ~TCP_COOKIE_TS_MASK) | bits;
		/* The timestamp must not be ahead of the connection's clock. */
		if (weft_seq_lt(now, ts))
			ts -= TCP_COOKIE_TS_MASK + 1;
		answer.has_ts = true;
		answer.ts_val = ts;
		answer.ts_ecr = o->ts_val;
		h.flags |= ecn ? TCP_ECE : 0;
	}
	h.seq = tcp_cookie_make(t, in, in->h.seq, tcp_cookie_slot(t, now_ns), mss, bits);
	if (weft_netif_neigh_passing(nif, in->dst, in->src, &neigh) != 0) {
		t->stats.answers_no_neigh++;
		return;
	}
	m = tcp_alloc(t, nif);
	if (m != NULL) {
		p = (uint8_t *)rte_pktmbuf_append(m, TCP_HDR_MAX_LEN);
		h.hdr_len_bytes += (uint8_t)tcp_wire_encode_opts(p + TCP_HDR_LEN, &answer);
		rte_pktmbuf_trim(m, (uint16_t)(TCP_HDR_MAX_LEN - h.hdr_len_bytes));
		tcp_wire_encode(p, &h);
		if (weft_netif_tx(nif, neigh, in->dst, in->src, m, how, now_ns) == 0) {
			t->stats.segs_out++;
			t->stats.syn_cookies_out++;
			t->cookie_until_ns = now_ns + TCP_COOKIE_LIFE_NS;
		}
	}
}

bool
tcp_cookie_awaited(const struct weft_tcp *t, uint64_t now_ns)
{
	return now_ns < t->cookie_until_ns;
}

bool
tcp_cookie_check(const struct weft_tcp *t, const struct tcp_in *in, uint64_t now_ns,
                 struct tcp_cookie *k)
{
	uint32_t cookie = in->h.ack - 1, irs = in->h.seq - 1, bits = TCP_COOKIE_NO_TS;
	uint64_t slot = tcp_cookie_slot(t, now_ns);
	unsigned int mss = cookie >> 28 & 7;

	if ((slot & 1) != cookie >> 31) {
		if (slot == 0)
			return false;
		slot--;
	}
	if (in->opts.has_ts && !t->attr.no_timestamps)
		bits = in->opts.ts_ecr & TCP_COOKIE_TS_MASK;
	if (tcp_cookie_make(t, in, irs, slot, mss, bits) != cookie)
		return false;
	*k = (struct tcp_cookie){
	        .opts = {.mss_bytes = tcp_cookie_mss[mss],
	                 .has_ts = bits != TCP_COOKIE_NO_TS,
	                 .ts_val = in->opts.ts_val},
	};
	if (bits == TCP_COOKIE_NO_TS)
		return true;
	k->opts.has_wscale = (bits & TCP_COOKIE_TS_WSCALE) != TCP_COOKIE_NO_WSCALE;
	k->opts.wscale = bits & TCP_COOKIE_TS_WSCALE;
	k->opts.sack_perm = (bits & TCP_COOKIE_TS_SACK) != 0;
	k->ecn = (bits & TCP_COOKIE_TS_ECN) != 0;
	return true;
}
