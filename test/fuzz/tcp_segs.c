/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Segments of fuzz_tcp's peers: unusual ones near a connection's numbers, and valid ones. */

#include "tcp_fuzz.h"
#include "tcp_hdr.h"
#include "tcp_instance.h"
#include "weft_netif_icmp.h"
#include "weft_netif_mbuf.h"

static struct weft_tcp_conn *
pick_conn(uint8_t which)
{
	struct weft_tcp_conn *found[FUZZ_CONNS];
	unsigned int n = 0;

	for (uint32_t i = 0; i < z.tcp->attr.max_conns && n < FUZZ_CONNS; i++)
		if (!z.tcp->conns[i].dead)
			found[n++] = &z.tcp->conns[i];
	return n > 0 ? found[which % n] : NULL;
}

static uint32_t
near_number(uint8_t base, const uint32_t at[4])
{
	uint32_t v = at[base & 3];
	int8_t d = (int8_t)fuzz_u8(&z.in);

	switch (base >> 2 & 7) {
	case 0:
		return v;
	case 1:
		return v + (uint32_t)d;
	case 2:
		return v + (uint32_t)d * 1448u;
	case 3:
		return v + (uint32_t)d * 0x1000000u;
	case 4:
		return v + 65535u + (uint32_t)d;
	default:
		return v + (uint32_t)d * 100u;
	}
}

/** kind: 8 a timestamp, or none on a connection with timestamps; 16, 32 an unusual one; 128 any
 * octets. */
static unsigned int
build_options(uint8_t *p, uint8_t kind, const struct weft_tcp_conn *c, uint8_t flags)
{
	struct tcp_opts o = {0};
	size_t n;

	if (kind & 0x80) {
		const uint8_t *raw = fuzz_octets(&z.in, 40, &n);

		n = RTE_MIN(n, (size_t)(kind & 0x3f));
		n = RTE_MIN(n, (size_t)40) & ~(size_t)3;
		memcpy(p, raw, n);
		return (unsigned int)n;
	}
	if (flags & TCP_SYN) {
		if (kind & 1)
			o.mss_bytes = fuzz_u16(&z.in);
		o.has_wscale = kind & 2;
		o.wscale = o.has_wscale ? fuzz_u8(&z.in) & 15 : 0;
		o.sack_perm = kind & 4;
	} else if (c != NULL && kind & 7) {
		o.nsack = RTE_MAX(kind & 3, 1);
		for (unsigned int i = 0; i < o.nsack; i++) {
			uint8_t b = fuzz_u8(&z.in);
			uint32_t base = c->snd_una;

			/* D-SACK: the first block is below the acknowledgment (RFC 2883). */
			if (i == 0 && kind & 4)
				base -= (b & 7) * (uint32_t)c->mss;
			o.sack[i].left =
			        base + (b >> 4) * (uint32_t)c->mss + (b & 8 ? fuzz_u8(&z.in) : 0);
			o.sack[i].right = o.sack[i].left + (b & 7) * (uint32_t)c->mss;
		}
	}
	o.has_ts = (kind & 8) != 0;
	if (c != NULL && c->ts_ok && (flags & TCP_SYN) == 0)
		o.has_ts = !o.has_ts;
	if (!o.has_ts)
		return tcp_wire_encode_opts(p, &o);
	o.ts_val = (uint32_t)(z.now_ns / WEFT_NS_PER_MS);
	if (kind & 16)
		o.ts_val += (uint32_t)(int8_t)fuzz_u8(&z.in) * 1000u;
	if (kind & 32)
		o.ts_ecr = fuzz_u32(&z.in);
	else if (c != NULL)
		o.ts_ecr = tcp_ts_now(c, z.now_ns) - (kind & 64 ? fuzz_u8(&z.in) : 0);
	return tcp_wire_encode_opts(p, &o);
}

static void
deliver(struct rte_mbuf *m, bool more)
{
	struct rte_mbuf *all[FUZZ_BURST];
	unsigned int n = z.nburst;

	z.burst[n++] = m;
	if (more && n < FUZZ_BURST) {
		z.nburst = n;
		return;
	}
	memcpy(all, z.burst, n * sizeof(m));
	z.nburst = 0;
	weft_tcp_rx(z.tcp, z.nif, all, n, z.now_ns);
}

void
deliver_all(void)
{
	if (z.nburst == 0)
		return;
	z.nburst--;
	deliver(z.burst[z.nburst], false);
}

static void
address(struct rte_mbuf *m, const struct weft_ip *src, const struct weft_ip *dst, uint8_t ecn)
{
	struct weft_mbuf_priv *priv = weft_mbuf_priv(m);

	priv->rx.src = *src;
	priv->rx.dst = *dst;
	priv->rx.ecn = ecn;
}

/** One segment without data. */
static void
plain(const struct weft_ip *src, const struct weft_ip *dst, struct tcp_hdr *h,
      const struct tcp_opts *o)
{
	uint8_t frame[TCP_HDR_MAX_LEN];
	struct rte_mbuf *m;

	h->hdr_len_bytes = (uint8_t)(TCP_HDR_LEN + tcp_wire_encode_opts(frame + TCP_HDR_LEN, o));
	tcp_wire_encode(frame, h);
	m = fuzz_mbuf(frame, h->hdr_len_bytes, NULL, 0);
	if (m == NULL)
		return;
	address(m, src, dst, 0);
	deliver(m, false);
}

void
handshake(uint8_t how)
{
	const struct weft_ip src4 = weft_ip_from_v4(rte_cpu_to_be_32(0x0a000002 + (how & 1)));
	const struct weft_ip dst4 = weft_ip_from_v4(rte_cpu_to_be_32(0x0a000001));
	const struct weft_ip *src = how & 2 ? &ip6_peer : &src4, *dst = how & 2 ? &ip6_us : &dst4;
	uint8_t opts = fuzz_u8(&z.in);
	struct tcp_hdr h = {.src_port = 5000 + (how >> 2 & 3),
	                    .dst_port = how & 16 ? FUZZ_PORT2 : FUZZ_PORT,
	                    .seq = 1000000u * how - 300u,
	                    .wnd = opts & 64 ? 3000 : 65535,
	                    .flags = TCP_SYN};
	struct tcp_opts o = {0}, ts = {0};

	o.mss_bytes = opts & 1 ? 1460 : opts & 2 ? 300 : 0;
	o.has_wscale = opts & 4;
	o.wscale = o.has_wscale ? 7 : 0;
	o.sack_perm = opts & 8;
	o.has_ts = opts & 16;
	o.ts_val = (uint32_t)(z.now_ns / WEFT_NS_PER_MS);
	h.flags |= opts & 32 ? TCP_ECE | TCP_CWR : 0;
	z.synack.seen = false;
	plain(src, dst, &h, &o);
	turn();
	if (opts & 128)
		z.now_ns += 10 * WEFT_NS_PER_MS;
	if (!z.synack.seen || !weft_ip_eq(&z.synack.remote, src) ||
	    z.synack.h.dst_port != h.src_port || z.synack.h.ack != h.seq + 1)
		return;
	ts.has_ts = z.synack.has_ts;
	ts.ts_val = (uint32_t)(z.now_ns / WEFT_NS_PER_MS);
	ts.ts_ecr = z.synack.ts_val;
	h.seq++;
	h.ack = z.synack.h.seq + 1;
	h.flags = TCP_ACK;
	plain(src, dst, &h, &ts);
}

void
good_answer(uint8_t which)
{
	struct weft_tcp_conn *c = pick_conn(which & 15);
	struct tcp_opts o = {0};
	struct tcp_hdr h = {.wnd = 65535};

	if (c == NULL)
		return;
	h.src_port = c->remote_port;
	h.dst_port = c->local_port;
	h.seq = c->rcv_nxt;
	h.ack = c->snd_max;
	h.flags = TCP_ACK;
	if (c->state == WEFT_TCP_SYN_SENT) {
		h.flags |= TCP_SYN | (which & 16 ? TCP_ECE : 0);
		h.seq = 77777777;
		o.mss_bytes = which & 32 ? 1460 : 600;
		o.has_wscale = which & 64;
		o.sack_perm = which & 128;
		o.has_ts = which & 32;
	} else {
		o.has_ts = c->ts_ok;
		h.flags |= which & 32 ? TCP_ECE : 0;
	}
	o.ts_val = (uint32_t)(z.now_ns / WEFT_NS_PER_MS);
	o.ts_ecr = tcp_ts_now(c, z.now_ns);
	{
		const struct weft_ip remote = c->remote, local = c->local;

		plain(&remote, &local, &h, &o);
	}
}

void
inject(bool more)
{
	static const uint8_t usual[16] = {TCP_SYN,
	                                  TCP_ACK,
	                                  TCP_ACK | TCP_PSH,
	                                  TCP_FIN | TCP_ACK,
	                                  TCP_RST,
	                                  TCP_RST | TCP_ACK,
	                                  TCP_SYN | TCP_ACK,
	                                  TCP_ACK | TCP_URG,
	                                  TCP_ACK | TCP_ECE,
	                                  TCP_ACK | TCP_CWR,
	                                  TCP_SYN | TCP_ECE | TCP_CWR,
	                                  TCP_ACK,
	                                  TCP_ACK,
	                                  TCP_ACK | TCP_PSH,
	                                  0,
	                                  TCP_FIN};
	uint8_t how = fuzz_u8(&z.in), sel = fuzz_u8(&z.in);
	struct weft_tcp_conn *c = how & 0x80 ? NULL : pick_conn(sel >> 4);
	uint8_t frame[TCP_HDR_MAX_LEN + 1500], cuts[2];
	uint32_t at[4] = {0}, acks[4] = {0}, len;
	struct weft_ip src = weft_ip_from_v4(rte_cpu_to_be_32(0x0a000002));
	struct weft_ip dst = weft_ip_from_v4(rte_cpu_to_be_32(0x0a000001));
	struct tcp_hdr h = {0};
	struct rte_mbuf *m;
	unsigned int opts;
	bool cookie = c == NULL && sel & 0x40 && z.synack.seen;

	h.flags = how & 0x40 ? fuzz_u8(&z.in) : usual[how & 15];
	if (c != NULL) {
		at[0] = c->rcv_nxt;
		at[1] = c->rcv_nxt + c->rcv_wnd;
		at[2] = c->irs;
		at[3] = c->fin_seq_in;
		acks[0] = c->snd_max;
		acks[1] = c->snd_una;
		acks[2] = c->snd_nxt;
		acks[3] = c->snd_una + c->mss;
		h.src_port = c->remote_port;
		h.dst_port = c->local_port;
		src = c->remote;
		dst = c->local;
	} else if (cookie) {
		src = z.synack.remote;
		dst = z.synack.local;
		h.src_port = z.synack.h.dst_port;
		h.dst_port = z.synack.h.src_port;
		at[0] = z.synack.h.ack;
		acks[0] = z.synack.h.seq + 1;
	} else {
		h.src_port = 4000 + (sel & 7);
		h.dst_port = sel & 8 ? 9 : sel & 0x20 ? FUZZ_PORT2 : FUZZ_PORT;
		at[0] = 1000000u * (sel & 7);
		if (sel & 0x10)
			src = weft_ip_from_v4(rte_cpu_to_be_32(0x0a000003));
		if (sel & 0x80) {
			src = ip6_peer;
			dst = ip6_us;
		}
	}
	h.seq = near_number(fuzz_u8(&z.in), at);
	h.ack = near_number(fuzz_u8(&z.in), acks);
	h.wnd = how & 0x20 ? fuzz_u16(&z.in) : 65535;
	if (cookie) {
		struct tcp_opts o = {.has_ts = z.synack.has_ts};

		o.ts_val = (uint32_t)(z.now_ns / WEFT_NS_PER_MS);
		o.ts_ecr = z.synack.ts_val + (sel & 0x20 ? fuzz_u8(&z.in) : 0);
		opts = tcp_wire_encode_opts(frame + TCP_HDR_LEN, &o);
	} else {
		opts = build_options(frame + TCP_HDR_LEN, fuzz_u8(&z.in), c, h.flags);
	}
	h.hdr_len_bytes = (uint8_t)(TCP_HDR_LEN + opts);
	tcp_wire_encode(frame, &h);
	len = how & 0x10 ? fuzz_u8(&z.in) * 6u : 0;
	len = RTE_MIN(len, 1460u - opts);
	for (uint32_t i = 0; i < len; i++)
		frame[h.hdr_len_bytes + i] = octet(h.seq + ((h.flags & TCP_SYN) != 0) + i);
	if (h.flags & TCP_URG)
		weft_put_be16(frame + 18, fuzz_u16(&z.in));
	cuts[0] = h.hdr_len_bytes;
	cuts[1] = (uint8_t)len;
	m = fuzz_mbuf(frame, h.hdr_len_bytes + len, cuts, sel & 1 ? 2 : 0);
	if (m == NULL)
		return;
	address(m, &src, &dst, sel >> 1 & 3);
	deliver(m, more);
}

void
inject_icmp(void)
{
	uint8_t how = fuzz_u8(&z.in);
	const struct weft_tcp_conn *c = pick_conn(how >> 4);
	struct weft_icmp_error e = {.kind = (how & 3) % 3};

	if (c == NULL)
		return;
	e.src = c->local;
	e.dst = c->remote;
	e.src_port = c->local_port;
	e.dst_port = c->remote_port;
	e.seq = how & 4 ? c->snd_una : c->snd_una + fuzz_u16(&z.in);
	e.mtu_bytes = how & 8 ? fuzz_u16(&z.in) : 0;
	weft_tcp_icmp_error(z.tcp, z.nif, &e, z.now_ns);
}
