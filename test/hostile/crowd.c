/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Hostile peers: their frames, their TCP, and the part of the target's FPDUs that they
 * decode. */

#include <arpa/inet.h>
#include <stdlib.h>

#include <rte_byteorder.h>
#include <rte_ip.h>
#include <rte_tcp.h>

#include "crowd.h"
#include "export_proto.h"
#include "mpa_wire.h"
#include "rdmap_wire.h"
#include "weft_ddp_wire.h"
#include "weft_test.h"

#define ETHER      14
#define TICK_NS    1000000u
#define AGAIN_NS   250000000u /* retransmission timeout */
#define LATENCY_NS 20000u
#define TCP_FIN    0x01
#define TCP_SYN    0x02
#define TCP_RST    0x04
#define TCP_PSH    0x08
#define TCP_ACK    0x10

uint64_t
crowd_rand(struct crowd *c, uint64_t n)
{
	c->rng ^= c->rng << 13;
	c->rng ^= c->rng >> 7;
	c->rng ^= c->rng << 17;
	return c->rng % n;
}

/* ---- Frames ---- */

void
crowd_frame(struct crowd *c, const void *frame, uint32_t len)
{
	c->frames++;
	sim_link_inject(c->link, 1, frame, len, LATENCY_NS);
}

/* The Ethernet header of a frame from ip to the target. */
static void
ether(uint8_t *f, uint32_t ip, uint16_t type)
{
	static const uint8_t to[6] = {2, 0, 0, 0, 0, 1};
	const uint8_t from[6] = {2, 0xcc, 0, 0, (uint8_t)(ip >> 8), (uint8_t)ip};

	memcpy(f, to, 6);
	memcpy(f + 6, from, 6);
	weft_put_be16(f + 12, type);
}

static struct rte_ipv4_hdr *
ip_head(uint8_t *f, uint32_t src, uint8_t proto, uint16_t id, uint16_t frag, uint32_t len)
{
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(f + ETHER);

	ether(f, src, 0x0800);
	*ip = (struct rte_ipv4_hdr){
	        .version_ihl = 0x45,
	        .total_length = htons((uint16_t)(20 + len)),
	        .packet_id = htons(id),
	        .fragment_offset = htons(frag),
	        .time_to_live = 64,
	        .next_proto_id = proto,
	        .src_addr = htonl(src),
	        .dst_addr = htonl(CROWD_TARGET),
	};
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	return ip;
}

void
crowd_ip(struct crowd *c, uint32_t src, uint8_t proto, uint16_t id, uint16_t frag, const void *buf,
         uint32_t len)
{
	uint8_t f[ETHER + 20 + 1480];

	CHECK(len <= 1480);
	ip_head(f, src, proto, id, frag, len);
	memcpy(f + ETHER + 20, buf, len);
	crowd_frame(c, f, ETHER + 20 + len);
}

struct seg {
	uint32_t src;
	uint16_t sport, wnd;
	uint8_t flags;
	uint32_t seq, ack;
	uint16_t mss; /* of a SYN; 0: no options */
	bool scaled;
};

static void
send_seg(struct crowd *c, const struct seg *s, const void *buf, uint32_t len)
{
	uint8_t f[ETHER + 20 + 28 + 1480], *t = f + ETHER + 20;
	struct rte_ipv4_hdr *ip;
	uint32_t head = 20;

	CHECK(len <= 1460);
	memset(t, 0, 28);
	weft_put_be16(t, s->sport);
	weft_put_be16(t + 2, 7471);
	weft_put_be32(t + 4, s->seq);
	weft_put_be32(t + 8, s->ack);
	t[13] = s->flags;
	weft_put_be16(t + 14, s->wnd);
	if (s->mss != 0) {
		t[head++] = 2;
		t[head++] = 4;
		weft_put_be16(t + head, s->mss);
		head += 2;
		if (s->scaled) {
			t[head++] = 1;
			t[head++] = 3;
			t[head++] = 3;
			t[head++] = 7;
		}
	}
	t[12] = (uint8_t)(head / 4 << 4);
	if (len > 0)
		memcpy(t + head, buf, len);
	ip = ip_head(f, s->src, 6, 0, 0x4000, head + len);
	((struct rte_tcp_hdr *)t)->cksum = rte_ipv4_udptcp_cksum(ip, t);
	crowd_frame(c, f, ETHER + 20 + head + len);
}

void
crowd_tcp(struct crowd *c, uint32_t src, uint16_t sport, uint8_t flags, uint32_t seq, uint32_t ack,
          const void *buf, uint32_t len)
{
	const struct seg s = {
	        .src = src, .sport = sport, .wnd = 65535, .flags = flags, .seq = seq, .ack = ack};

	send_seg(c, &s, buf, len);
}

void
crowd_icmp(struct crowd *c, uint32_t src, uint8_t type, uint8_t code, uint32_t word,
           const void *buf, uint32_t len)
{
	uint8_t m[1480];

	CHECK(len <= sizeof(m) - 8);
	m[0] = type;
	m[1] = code;
	weft_put_be16(m + 2, 0);
	weft_put_be32(m + 4, word);
	if (len > 0)
		memcpy(m + 8, buf, len);
	*(uint16_t *)(void *)(m + 2) = (uint16_t)~rte_raw_cksum(m, 8 + len);
	crowd_ip(c, src, 1, 0, 0, m, 8 + len);
}

void
crowd_ping(struct crowd *c)
{
	static const uint8_t data[56];

	CHECK(c->pings < 65535);
	crowd_icmp(c, CROWD_PINGER, 8, 0, 7u << 16 | c->pings++, data, sizeof(data));
}

unsigned int
crowd_lost(const struct crowd *c, unsigned int n)
{
	unsigned int lost = 0;

	for (unsigned int i = 0; i < n; i++)
		lost += !(c->pong[i / 8] >> i % 8 & 1);
	return lost;
}

/* Answer an ARP request for any peer's address below CROWD_DARK. */
static void
on_arp(struct crowd *c, const uint8_t *a)
{
	uint8_t f[60] = {0};
	uint32_t ip = weft_get_be32(a + 24);

	if (weft_get_be16(a + 6) != 1 || ip >> 16 != 0x0a00 ||
	    ((ip >> 8 & 255) == 0 && ip != CROWD_PINGER) || (ip >> 8 & 255) >= CROWD_DARK)
		return;
	ether(f, ip, 0x0806);
	memcpy(f + ETHER, (const uint8_t[]){0, 1, 8, 0, 6, 4, 0, 2}, 8);
	memcpy(f + ETHER + 8, f + 6, 6);
	weft_put_be32(f + ETHER + 14, ip);
	memcpy(f + ETHER + 18, a + 8, 10);
	crowd_frame(c, f, sizeof(f));
}

/* ---- A peer's TCP ---- */

static struct seg
seg_of(const struct crowd_peer *p, uint8_t flags, uint32_t off)
{
	return (struct seg){.src = p->ip,
	                    .sport = p->port,
	                    .wnd = p->wnd,
	                    .flags = flags,
	                    .seq = p->snd_una + p->tx_len + off,
	                    .ack = p->rcv_nxt};
}

void
crowd_seg(struct crowd_peer *p, uint8_t flags, uint32_t off, const void *buf, uint32_t len)
{
	const struct seg s = seg_of(p, flags | TCP_ACK, off);

	send_seg(p->c, &s, buf, len);
}

static void
peer_syn(struct crowd_peer *p, uint64_t now_ns)
{
	struct seg s = seg_of(p, TCP_SYN, 0);

	p->said_ns = now_ns;
	s.seq = p->iss;
	s.ack = 0;
	s.mss = p->kind->mss != 0 ? p->kind->mss : 1460;
	s.scaled = p->kind->scaled;
	send_seg(p->c, &s, NULL, 0);
}

static void
peer_open(struct crowd_peer *p, uint64_t now_ns)
{
	p->state = CROWD_SYN;
	p->iss = (uint32_t)crowd_rand(p->c, UINT32_MAX);
	p->snd_una = p->iss + 1;
	p->tx_len = p->step = 0;
	p->silent = p->mpa_done = false;
	p->wnd = 65535;
	p->seg_bytes = 1460;
	p->fpdu_left = p->have = p->stag = 0;
	p->got_bytes = 0;
	for (unsigned int i = 0; i < 4; i++)
		p->msn[i] = 1;
	peer_syn(p, now_ns);
}

/* Send the octets from `off` on. */
static void
peer_push(struct crowd_peer *p, uint32_t off, uint64_t now_ns)
{
	p->said_ns = now_ns;
	while (off < p->tx_len) {
		uint32_t n = RTE_MIN((uint32_t)p->seg_bytes, p->tx_len - off);
		struct seg s = seg_of(p, TCP_ACK | TCP_PSH, 0);

		s.seq = p->snd_una + off;
		send_seg(p->c, &s, p->tx + off, n);
		off += n;
	}
}

void
crowd_say(struct crowd_peer *p, const void *buf, uint32_t len)
{
	uint32_t off = p->tx_len;

	CHECK_MSG(p->tx_len + len <= CROWD_TX, "%s says too much", p->kind->name);
	memcpy(p->tx + p->tx_len, buf, len);
	p->tx_len += len;
	peer_push(p, off, sim_now_ns(p->c->sim));
}

void
crowd_reset(struct crowd_peer *p)
{
	struct seg s = seg_of(p, TCP_RST | TCP_ACK, 0);

	if (p->state == CROWD_SYN) {
		s.seq = p->iss + 1;
		s.flags = TCP_RST;
	}
	send_seg(p->c, &s, NULL, 0);
	p->state = CROWD_OVER;
}

/* Process the target's stream, FPDU by FPDU. */
static void
peer_stream(struct crowd_peer *p, const uint8_t *d, uint32_t len)
{
	p->got_bytes += len;
	while (len > 0 && p->state == CROWD_UP) {
		if (!p->mpa_done) {
			/* The MPA Reply arrives in one segment: 20 octets and its private data. */
			uint32_t n = len < 20 ? len : 20u + weft_get_be16(d + 18);

			n = RTE_MIN(n, len);
			d += n;
			len -= n;
			p->mpa_done = true;
			if (p->kind->mpa != NULL)
				p->kind->mpa(p);
			continue;
		}
		if (p->have < 2) {
			p->head[p->have++] = *d++;
			len--;
			if (p->have == 2) {
				p->ulpdu_bytes = weft_get_be16(p->head);
				p->fpdu_left = mpa_fpdu_bytes((uint16_t)p->ulpdu_bytes) - 2;
			}
			continue;
		}
		uint32_t n = RTE_MIN(len, p->fpdu_left);
		uint32_t room = RTE_MIN((uint32_t)sizeof(p->head) - p->have, n);

		memcpy(p->head + p->have, d, room);
		p->have += room;
		p->fpdu_left -= n;
		d += n;
		len -= n;
		if (p->fpdu_left > 0)
			continue;
		room = RTE_MIN(p->have - 2, p->ulpdu_bytes);
		p->have = 0;
		if (p->kind->ulpdu != NULL)
			p->kind->ulpdu(p, p->head + 2, room, p->ulpdu_bytes);
	}
}

static void
peer_segment(struct crowd_peer *p, const uint8_t *t, uint32_t len)
{
	uint32_t head = (t[12] >> 4) * 4u, seq = weft_get_be32(t + 4), ack = weft_get_be32(t + 8),
	         done;
	uint8_t flags = t[13];

	if (p->state == CROWD_IDLE || p->state == CROWD_OVER)
		return;
	if (flags & TCP_RST) {
		p->state = CROWD_OVER;
		p->said_ns = sim_now_ns(p->c->sim);
		return;
	}
	if (flags & TCP_SYN) {
		if (p->kind->hold_syn || ack != p->iss + 1)
			return;
		p->rcv_nxt = seq + 1;
		crowd_seg(p, 0, 0, NULL, 0);
		if (p->state == CROWD_UP)
			return;
		p->state = CROWD_UP;
		p->c->opened++;
		if (p->kind->up != NULL)
			p->kind->up(p);
		return;
	}
	if (p->state != CROWD_UP)
		return;
	done = ack - p->snd_una;
	if (done > 0 && done <= p->tx_len) {
		memmove(p->tx, p->tx + done, p->tx_len - done);
		p->tx_len -= done;
		p->snd_una = ack;
		p->said_ns = sim_now_ns(p->c->sim);
		if (p->tx_len == 0 && p->kind->acked != NULL)
			p->kind->acked(p);
	}
	len -= head;
	if (p->silent || (len == 0 && !(flags & TCP_FIN)) || p->state != CROWD_UP)
		return;
	if (seq == p->rcv_nxt && (len == 0 || p->wnd > 0)) {
		p->rcv_nxt += len;
		peer_stream(p, t + head, len);
		if (p->state != CROWD_UP)
			return;
		if (flags & TCP_FIN) {
			p->rcv_nxt++;
			crowd_reset(p);
			p->said_ns = sim_now_ns(p->c->sim);
			return;
		}
	}
	if (!p->silent)
		crowd_seg(p, 0, 0, NULL, 0);
}

static void
crowd_tap(void *arg, unsigned int from_end, bool delivered, const uint8_t *f, uint32_t len,
          uint64_t now_ns)
{
	struct crowd *c = arg;
	const uint8_t *ip = f + ETHER, *l4;
	uint32_t dst;
	uint16_t i;

	(void)now_ns;
	if (len < ETHER + 28)
		return;
	if (from_end == 0) {
		/* The client's first connection, which stays open. */
		if (!delivered && weft_get_be16(f + 12) == 0x0800 && ip[9] == 6 &&
		    (c->spy_port == 0 || c->spy_port == weft_get_be16(ip + 20))) {
			c->spy_port = weft_get_be16(ip + 20);
			c->spy_seq = weft_get_be32(ip + 24);
		}
		return;
	}
	if (!delivered)
		return;
	if (weft_get_be16(f + 12) == 0x0806) {
		on_arp(c, ip);
		return;
	}
	if (weft_get_be16(f + 12) != 0x0800)
		return;
	dst = weft_get_be32(ip + 16);
	l4 = ip + (ip[0] & 15) * 4u;
	if (dst == CROWD_PINGER && ip[9] == 1 && l4[0] == 0) {
		i = weft_get_be16(l4 + 6);
		c->pong[i / 8] |= (uint8_t)(1 << i % 8);
		return;
	}
	i = (uint16_t)(weft_get_be16(l4 + 2) - CROWD_PORT);
	if (ip[9] != 6 || (dst >> 8 & 255) == 0 || i >= c->npeers || c->peer[i].ip != dst)
		return;
	peer_segment(&c->peer[i], l4, (uint32_t)weft_get_be16(ip + 2) - (uint32_t)(l4 - ip));
}

/* ---- The crowd ---- */

void
crowd_init(struct crowd *c, struct sim *sim, struct sim_link *link, uint64_t seed)
{
	memset(c, 0, sizeof(*c));
	c->sim = sim;
	c->link = link;
	c->rng = seed * 0x9e3779b97f4a7c15ULL | 1;
	sim_link_tap(link, crowd_tap, c);
}

void
crowd_attack(struct crowd *c, const struct crowd_kind *kind)
{
	CHECK(c->npeers + kind->peers <= CROWD_PEERS && c->nkinds < RTE_DIM(c->kind));
	c->kind[c->nkinds++] = kind;
	for (unsigned int i = 0; i < kind->peers; i++) {
		struct crowd_peer *p = &c->peer[c->npeers];
		unsigned int a = i % RTE_MAX(kind->addrs, 1u);

		p->c = c;
		p->kind = kind;
		p->n = i;
		p->port = (uint16_t)(CROWD_PORT + c->npeers++);
		p->ip = 0x0a000000u | (c->nkinds * 16 + a / 250) << 8 | (1 + a % 250);
		p->state = CROWD_IDLE;
	}
	c->active = true;
	c->next_ns = sim_now_ns(c->sim);
}

void
crowd_leave(struct crowd *c)
{
	c->active = false;
	for (unsigned int i = 0; i < c->npeers; i++) {
		struct crowd_peer *p = &c->peer[i];

		if ((p->state == CROWD_UP || p->state == CROWD_SYN) && i % 2 == 0)
			crowd_reset(p);
		p->state = CROWD_OVER;
	}
}

static void
peer_turn(struct crowd_peer *p, uint64_t now_ns)
{
	switch (p->state) {
	case CROWD_IDLE:
		/* Peers connect at a rate of some twenty a millisecond. */
		if (crowd_rand(p->c, 50) == 0 || p->n < 20)
			peer_open(p, now_ns);
		break;
	case CROWD_SYN:
		if (now_ns - p->said_ns >= AGAIN_NS && !p->kind->hold_syn)
			peer_syn(p, now_ns);
		break;
	case CROWD_UP:
		if (p->tx_len > 0 && !p->silent && now_ns - p->said_ns >= AGAIN_NS)
			peer_push(p, 0, now_ns);
		if (p->kind->tick != NULL)
			p->kind->tick(p, now_ns);
		break;
	case CROWD_OVER:
		if (p->kind->again && now_ns - p->said_ns >= 20 * TICK_NS)
			peer_open(p, now_ns);
		break;
	}
}

void
crowd_poll(struct crowd *c, uint64_t now_ns)
{
	if (!c->active || now_ns < c->next_ns)
		return;
	c->next_ns = now_ns + TICK_NS;
	for (unsigned int i = 0; i < c->npeers; i++)
		peer_turn(&c->peer[i], now_ns);
	for (unsigned int i = 0; i < c->nkinds; i++)
		if (c->kind[i]->storm != NULL)
			c->kind[i]->storm(c, now_ns);
}

uint64_t
crowd_next_ns(const struct crowd *c)
{
	return c->active ? c->next_ns : WEFT_NEVER;
}

unsigned int
crowd_up(const struct crowd *c)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < c->npeers; i++)
		n += c->peer[i].state == CROWD_UP;
	return n;
}

/* ---- What a peer sends above TCP ---- */

uint32_t
crowd_mpa_request(uint8_t *buf)
{
	memcpy(buf, "MPA ID Req Frame", 16);
	buf[16] = 0x40; /* C */
	buf[17] = 1;
	weft_put_be16(buf + 18, 0);
	return 20;
}

uint32_t
crowd_fpdu(uint8_t *out, const uint8_t *ulpdu, uint16_t len)
{
	uint32_t covered = mpa_fpdu_covered_bytes(len);

	weft_put_be16(out, len);
	memcpy(out + 2, ulpdu, len);
	memset(out + 2 + len, 0, covered - 2 - len);
	mpa_crc_put(out + covered, mpa_crc_update(MPA_CRC_INIT, out, covered));
	return covered + 4;
}

void
crowd_untagged(struct crowd_peer *p, uint8_t op, uint32_t qn, const void *buf, uint32_t len)
{
	const struct weft_ddp_hdr h = {.last = true,
	                               .version = 1,
	                               .rsvdulp = RDMAP_CTRL(op),
	                               .qn = qn,
	                               .msn = p->msn[qn]++};
	uint8_t u[WEFT_DDP_UNTAGGED_HDR_BYTES + 1408], out[sizeof(u) + 16];
	unsigned int n = weft_ddp_hdr_encode(&h, u);

	CHECK(len <= sizeof(u) - n);
	memcpy(u + n, buf, len);
	crowd_say(p, out, crowd_fpdu(out, u, (uint16_t)(n + len)));
}

static uint8_t *
word(uint8_t *m, uint32_t v)
{
	weft_put_be32(m, v);
	return m + 4;
}

void
crowd_call(struct crowd_peer *p, uint32_t proc, const void *args, uint32_t len)
{
	uint8_t buf[1024], *m = buf;

	CHECK(len <= 512);
	p->xid = (uint32_t)crowd_rand(p->c, UINT32_MAX);
	/* RFC 8166 s4.1: xid, vers, credit, RDMA_MSG, no chunks */
	m = word(word(word(word(m, p->xid), 1), 8), 0);
	m = word(word(word(m, 0), 0), 0);
	/* RFC 5531 s9: AUTH_NONE */
	m = word(word(word(m, p->xid), 0), 2);
	m = word(word(word(m, WEFT_EXPORT_PROG), WEFT_EXPORT_V1), proc);
	m = word(word(word(word(m, 0), 0), 0), 0);
	memcpy(m, args, len);
	crowd_untagged(p, WEFT_RDMAP_SEND, 0, buf, (uint32_t)(m - buf) + len);
}

void
crowd_open_export(struct crowd_peer *p, uint32_t rights)
{
	uint8_t args[16] = {0};

	weft_put_be32(args, 1);
	args[4] = 'e';
	weft_put_be32(args + 8, rights);
	crowd_call(p, WEFT_EXPORT_OPEN, args, sizeof(args));
}

void
crowd_start(struct crowd_peer *p)
{
	uint8_t m[32];

	crowd_say(p, m, crowd_mpa_request(m));
}

void
crowd_open_read(struct crowd_peer *p)
{
	crowd_open_export(p, WEFT_EXPORT_READ);
}

bool
crowd_opened(struct crowd_peer *p, const uint8_t *u, uint32_t have)
{
	/* The DDP header, 28 octets of RFC 8166, 24 octets of an accepted reply, then status,
	 * handle and STag. */
	const uint8_t *r = u + WEFT_DDP_UNTAGGED_HDR_BYTES + 28;

	if (have < WEFT_DDP_UNTAGGED_HDR_BYTES + 28 + 24 + 12 || weft_get_be32(r) != p->xid ||
	    weft_get_be32(r + 24) != WEFT_EXPORT_OK)
		return false;
	p->handle = weft_get_be32(r + 28);
	p->stag = weft_get_be32(r + 32);
	return true;
}

void
crowd_read(struct crowd_peer *p, uint64_t to, uint32_t len)
{
	const struct rdmap_read_req q = {
	        .sink_stag = 1, .sink_to = 0, .len_bytes = len, .src_stag = p->stag, .src_to = to};
	uint8_t b[RDMAP_READ_REQ_BYTES];

	rdmap_read_req_encode(&q, b);
	crowd_untagged(p, WEFT_RDMAP_READ_REQ, WEFT_DDP_QN_READ, b, sizeof(b));
}
