/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file An off-path attacker that knows addresses and ports and guesses the other fields, at any
 * rate. The attacker neither ends a connection nor inserts an octet (RFC 5961), nor keeps other
 * peers out (RFC 4987).
 */

#include "props.h"
#include "props_cases.h"

#define ETHER_LEN 14
#define IPV4_LEN  20

static uint32_t
sum16(const uint8_t *p, uint32_t len, uint32_t sum)
{
	for (uint32_t i = 0; i < len; i++)
		sum += i % 2 == 0 ? (uint32_t)p[i] << 8 : p[i];
	while (sum >> 16 != 0)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/** Inject a segment to node `to` that seems to come from `src`, with `len` random octets. */
static void
forge(struct props *p, unsigned int to, uint32_t src, struct tcp_hdr h, const struct tcp_opts *o,
      uint32_t len)
{
	uint8_t f[ETHER_LEN + IPV4_LEN + TCP_HDR_MAX_LEN + 1500], *ip = f + ETHER_LEN;
	uint8_t *t = ip + IPV4_LEN;
	uint32_t tcp_len;

	memset(f, 0, sizeof(f));
	f[0] = f[6] = 2;
	f[5] = (uint8_t)(1 + to);
	f[11] = (uint8_t)(src & 0xff);
	weft_put_be16(f + 12, 0x0800);
	h.hdr_len_bytes = TCP_HDR_LEN;
	if (o != NULL)
		h.hdr_len_bytes += (uint8_t)tcp_wire_encode_opts(t + TCP_HDR_LEN, o);
	tcp_wire_encode(t, &h);
	memset(t + h.hdr_len_bytes, 0xa5, len);
	tcp_len = h.hdr_len_bytes + len;
	ip[0] = 0x45;
	weft_put_be16(ip + 2, (uint16_t)(IPV4_LEN + tcp_len));
	ip[8] = 64;
	ip[9] = 6;
	weft_put_be32(ip + 12, src);
	weft_put_be32(ip + 16, 0x0a000001 + to);
	weft_put_be16(ip + 10, (uint16_t)~sum16(ip, IPV4_LEN, 0));
	weft_put_be16(t + 16, (uint16_t)~sum16(t, tcp_len, sum16(ip + 12, 8, 6 + tcp_len)));
	sim_link_inject(p->net.link, to, f, ETHER_LEN + IPV4_LEN + tcp_len, 0);
}

/* ---- Into a connection (RFC 5961) ---- */

/** A sequence number within the victim's window that neither begins nor ends a segment, because
 * that would be luck. */
static uint32_t
guess_seq(struct props *p, const struct props_half *h)
{
	for (;;) {
		uint64_t off = h->arrived + 1 + props_rand(p, 60000);

		if (off != h->end && off != h->end + 1 &&
		    (off >= PROPS_OCTETS || (h->octet[off] & PROPS_START) == 0))
			return h->iss + 1 + (uint32_t)off;
	}
}

/** RFC 5961 s5.2: an unacceptable acknowledgment number: never sent, or further back than any
 * window. */
static uint32_t
guess_ack(struct props *p, const struct props_half *h)
{
	return h->iss + 1 + (uint32_t)h->end + 2 + (1u << 22) +
	       (uint32_t)props_rand(p, (1u << 31) - (1u << 24));
}

static void
blind_act(struct props *p)
{
	unsigned int to = (unsigned int)props_rand(p, 2);
	const struct props_flow *f = &p->flow[0];
	const struct props_half *theirs = &f->half[1 - to], *own = &f->half[to];
	struct tcp_hdr h = {
	        .src_port = f->port[1 - to],
	        .dst_port = f->port[to],
	        .wnd = (uint16_t)props_rand(p, 65536),
	};
	bool in_window = props_chance(p, 70);
	uint32_t len = 0;

	if (p->net.app[0].c == NULL || p->net.app[1].c == NULL)
		return;
	p->next_ns = sim_now_ns(p->net.sim) + props_log(p, 1000, 10 * WEFT_NS_PER_MS);
	/* A random number: at least 2^24 away from every number that would have an effect. */
	h.seq = in_window ? guess_seq(p, theirs)
	                  : theirs->iss + (1u << 24) + (uint32_t)props_rand(p, 0xfc000000u);
	h.ack = in_window ? guess_ack(p, own) : (uint32_t)props_rand(p, UINT32_MAX);
	switch (props_rand(p, 6)) {
	case 0: /* s3 */
		h.flags = TCP_RST;
		break;
	case 1:
		h.flags = TCP_RST | TCP_ACK;
		break;
	case 2: /* s4: any sequence number, the right one included */
		h.flags = TCP_SYN | (props_chance(p, 50) ? TCP_ACK : 0);
		if (props_chance(p, 20))
			h.seq = theirs->iss + 1 + (uint32_t)theirs->arrived;
		break;
	case 3: /* s5 */
		h.flags = TCP_ACK | TCP_PSH;
		len = 1 + (uint32_t)props_rand(p, 500);
		break;
	case 4:
		h.flags = TCP_ACK | TCP_FIN;
		len = (uint32_t)props_rand(p, 2);
		break;
	default: /* a segment without ACK is not accepted (RFC 9293 s3.10.7.4, fifth step) */
		h.flags = (uint8_t)(props_rand(p, 256) & ~(TCP_ACK | TCP_SYN | TCP_RST));
		len = (uint32_t)props_rand(p, 100);
		break;
	}
	forge(p, to, 0x0a000001 + (1 - to), h, NULL, len);
}

static bool
both_there(void *arg)
{
	struct props *p = arg;

	return p->net.napps == 2 && p->net.app[0].established;
}

static void
run_blind(struct props *p)
{
	props_draw_path(p);
	if (props_chance(p, 50))
		props_draw_faults(p, 5);
	props_draw_attr(p);
	p->attacked = true;
	props_up(p);
	props_draw_app(p, &p->net.accept_as, 250000);
	props_connect(p, 250000);
	CHECK(net_run(&p->net, 4000 * WEFT_NS_PER_S, both_there, p));
	p->act = blind_act;
	p->next_ns = sim_now_ns(p->net.sim);
	CHECK_MSG(net_run_closed(&p->net, 4000 * WEFT_NS_PER_S), "%s %s",
	          weft_tcp_state_name(net_state(&p->net.app[0])),
	          weft_tcp_state_name(net_state(&p->net.app[1])));
	CHECK_EQ(p->net.napps, 2);
	props_check_complete(p, &p->net.app[0], &p->net.app[1]);
	props_down(p);
}

void
test_blind(void)
{
	props_each(2000, run_blind);
}

/* ---- Against a listener (RFC 4987) ---- */

static uint64_t flood_gap_ns;

static void
flood_act(struct props *p)
{
	struct tcp_hdr h = {
	        .src_port = (uint16_t)(1 + props_rand(p, 40000)),
	        .dst_port = 7,
	        .seq = (uint32_t)props_rand(p, UINT32_MAX),
	        .wnd = (uint16_t)props_rand(p, 65536),
	        .flags = TCP_SYN,
	};
	struct tcp_opts o = {
	        .mss_bytes = (uint16_t)props_rand(p, 65536),
	        .has_wscale = props_chance(p, 50),
	        .wscale = (uint8_t)props_rand(p, 15),
	        .sack_perm = props_chance(p, 50),
	};
	/* Also from the honest peer's address, whose stack answers the unexpected SYN-ACK. */
	uint32_t src = 0x0a000000 + (props_chance(p, 30) ? 1 : 3 + (uint32_t)props_rand(p, 200));

	forge(p, 1, src, h, &o, 0);
	if (p->acts < 3000)
		p->next_ns = sim_now_ns(p->net.sim) + 1 + props_rand(p, 2 * flood_gap_ns);
}

static void
run_flood(struct props *p)
{
	unsigned int conns = 1 + (unsigned int)props_rand(p, 3);

	props_draw_path(p);
	props_draw_attr(p);
	p->attr[1].max_conns = 64;
	p->strangers = true;
	/* RFC 4987 s3.6: with cookies, which hold no state, neither rate nor backlog matters. */
	p->attr[1].syn_cookies =
	        props_chance(p, 70) ? WEFT_TCP_COOKIES_AUTO : WEFT_TCP_COOKIES_ALWAYS;
	props_up(p);
	flood_gap_ns = props_log(p, 500, 100 * WEFT_NS_PER_US);
	p->act = flood_act;
	p->next_ns = sim_now_ns(p->net.sim);
	net_run(&p->net, 10 * props_rtt_ns(p), NULL, NULL);
	props_draw_app(p, &p->net.accept_as, 50000);
	for (unsigned int i = 0; i < conns; i++)
		props_connect(p, 50000);
	CHECK_MSG(net_run_closed(&p->net, 200 * WEFT_NS_PER_S), "kept out");
	CHECK_EQ(p->net.accepted, conns);
	for (unsigned int i = 0; i < conns; i++)
		CHECK_MSG(p->net.app[i].err == 0 && !p->net.app[i].bad_data &&
		                  p->net.app[i].received == p->net.accept_as.to_send,
		          "connection %u: %d", i, p->net.app[i].err);
	props_down(p);
}

void
test_flood(void)
{
	props_each(300, run_flood);
}
