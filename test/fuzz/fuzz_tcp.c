/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A program of segments, user calls and passing time against one TCP stack, in any state. Numbers
 * of a segment are relative to the connection's own, so that an input gets past the first checks.
 *
 * Every octet of both streams is a function of its sequence number: what is delivered and what is
 * sent can be checked without a memory of either. At the end everything must come to rest.
 */

#include "fuzz.h"

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_mempool.h>

#include "tcp_priv.h"

#define FUZZ_PORT   7
#define FUZZ_CONNS  12
#define FUZZ_OPS    400
#define FUZZ_OUT    256
#define FUZZ_HELD   1023
#define FUZZ_IDLE_S 4000

static const uint8_t mac_us[6] = {2, 0, 0, 0, 0, 1}, mac_peer[6] = {2, 0, 0, 0, 0, 2};

static struct {
	struct weft_sched sched;
	struct weft_netif *nif;
	struct weft_tcp *tcp;
	struct weft_tcp_listener *l;
	uint64_t now_ns;
	struct fuzz_in in;
	bool stuck;                       /**< the port takes nothing */
	bool refuse;                      /**< accept says no */
	uint8_t on_rx;                    /**< what the user does when octets arrive */
	struct rte_mbuf *held[FUZZ_HELD]; /**< taken to exhaust the pool */
	unsigned int nheld;
	struct rte_mbuf *rx[4]; /**< frames waiting for the interface */
	unsigned int nrx;
} z;

/** What a user of a connection remembers; lives as long as the connection. */
struct fuzz_user {
	struct weft_tcp_conn *c; /**< NULL: free */
	uint32_t delivered;
	bool eof, synced;
	uint32_t next;
};

static struct fuzz_user users[FUZZ_CONNS];

static uint8_t
octet(uint32_t seq)
{
	return (uint8_t)(seq * 167u >> 5);
}

/* ---- The port ---- */

static void
look_at_tcp(const uint8_t *p, uint32_t len)
{
	struct tcp_hdr h;
	struct tcp_opts o = {0};
	int hdr = tcp_wire_decode(p, len, &h);

	FUZZ_CHECK(hdr > 0);
	FUZZ_CHECK(tcp_wire_decode_opts(p + TCP_HDR_LEN, (uint32_t)hdr - TCP_HDR_LEN, &o) == 0);
	FUZZ_CHECK(len <= 1480);
	for (uint32_t i = (uint32_t)hdr; i < len; i++)
		FUZZ_CHECK(p[i] == octet(h.seq + i - (uint32_t)hdr));
	FUZZ_CHECK((h.flags & (TCP_SYN | TCP_FIN)) != (TCP_SYN | TCP_FIN));
	FUZZ_CHECK((h.flags & (TCP_SYN | TCP_RST)) != (TCP_SYN | TCP_RST));
}

static uint16_t
port_tx(void *dev, struct rte_mbuf **m, uint16_t n)
{
	(void)dev;
	if (z.stuck)
		return 0;
	for (uint16_t i = 0; i < n; i++) {
		uint8_t buf[2048];
		const uint8_t *p;

		FUZZ_CHECK(m[i]->pkt_len <= 1514 && m[i]->pkt_len >= 42);
		p = rte_pktmbuf_read(m[i], 0, m[i]->pkt_len, buf);
		if (weft_get_be16(p + 12) == RTE_ETHER_TYPE_IPV4 && p[23] == IPPROTO_TCP)
			look_at_tcp(p + 34, m[i]->pkt_len - 34);
		rte_pktmbuf_free(m[i]);
	}
	return n;
}

static uint16_t
port_rx(void *dev, struct rte_mbuf **m, uint16_t n)
{
	uint16_t k = 0;

	(void)dev;
	for (; k < n && k < z.nrx; k++)
		m[k] = z.rx[k];
	FUZZ_CHECK(k == z.nrx);
	z.nrx = 0;
	return k;
}

static const struct weft_netif_dev port = {.rx = port_rx, .tx = port_tx};

static void
port_up(void *arg, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n, uint64_t now_ns)
{
	(void)arg;
	weft_tcp_rx(z.tcp, nif, m, n, now_ns);
}

static void
port_icmp(void *arg, struct weft_netif *nif, const struct weft_icmp_error *e, uint64_t now_ns)
{
	(void)arg;
	weft_tcp_icmp_error(z.tcp, nif, e, now_ns);
}

/* ---- The user ---- */

static void
user_send(struct weft_tcp_conn *c, uint32_t len, bool push)
{
	struct rte_mbuf *m;
	uint8_t *p;

	len = RTE_MIN(len, (uint32_t)weft_tcp_mss(c));
	if (len == 0)
		return;
	m = weft_tcp_alloc(c);
	if (m == NULL)
		return;
	p = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)len);
	FUZZ_CHECK(p != NULL);
	for (uint32_t i = 0; i < len; i++)
		p[i] = octet(c->snd_end + i);
	weft_tcp_send(c, m, push, z.now_ns);
}

static void
user_rx(void *arg, struct rte_mbuf *m, uint64_t now_ns)
{
	struct fuzz_user *u = arg;
	uint8_t action = z.on_rx;

	FUZZ_CHECK(u->c != NULL && !u->eof);
	if (!u->synced) {
		u->synced = true;
		u->next = u->c->irs + 1;
	}
	for (const struct rte_mbuf *s = m; s != NULL; s = s->next) {
		const uint8_t *p = rte_pktmbuf_mtod(s, const uint8_t *);

		for (uint16_t i = 0; i < s->data_len; i++)
			FUZZ_CHECK(p[i] == octet(u->next++));
		u->delivered += s->data_len;
	}
	rte_pktmbuf_free(m);
	if (action == 1)
		user_send(u->c, 100, true);
	else if (action == 2)
		weft_tcp_close(u->c, now_ns);
	else if (action == 3) {
		weft_tcp_abort(u->c, now_ns);
		*u = (struct fuzz_user){0};
	}
}

static void
user_writable(void *arg)
{
	struct fuzz_user *u = arg;

	FUZZ_CHECK(u->c != NULL);
	user_send(u->c, 1000, true);
}

static void
user_mss(void *arg, uint16_t mss_bytes)
{
	FUZZ_CHECK(((struct fuzz_user *)arg)->c != NULL && mss_bytes > 0 && mss_bytes <= 1460);
}

static void
user_eof(void *arg)
{
	struct fuzz_user *u = arg;

	FUZZ_CHECK(u->c != NULL && !u->eof);
	u->eof = true;
	if (z.on_rx & 4)
		weft_tcp_close(u->c, z.now_ns);
}

static void
user_closed(void *arg, int err)
{
	struct fuzz_user *u = arg;

	FUZZ_CHECK(u->c != NULL && err <= 0);
	*u = (struct fuzz_user){0};
}

static void
user_established(void *arg)
{
	FUZZ_CHECK(((struct fuzz_user *)arg)->c != NULL);
}

static const struct weft_tcp_conn_ops user_ops = {.established = user_established,
                                                  .rx = user_rx,
                                                  .writable = user_writable,
                                                  .mss = user_mss,
                                                  .eof = user_eof,
                                                  .closed = user_closed};

static struct fuzz_user *
user_new(void)
{
	for (unsigned int i = 0; i < FUZZ_CONNS; i++)
		if (users[i].c == NULL)
			return &users[i];
	return NULL;
}

static int
user_accept(void *arg, struct weft_tcp_conn *c)
{
	struct fuzz_user *u = user_new();

	(void)arg;
	if (z.refuse || u == NULL)
		return -1;
	u->c = c;
	weft_tcp_set_user(c, &user_ops, u);
	return 0;
}

/* ---- Segments ---- */

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
		o.nsack = kind & 3;
		for (unsigned int i = 0; i < o.nsack; i++) {
			uint8_t b = fuzz_u8(&z.in);

			o.sack[i].left = c->snd_una + (b >> 4) * (uint32_t)c->mss +
			                 (b & 8 ? fuzz_u8(&z.in) : 0);
			o.sack[i].right = o.sack[i].left + (b & 7) * (uint32_t)c->mss;
		}
	}
	if (kind & 8) {
		o.has_ts = true;
		o.ts_val = (uint32_t)(z.now_ns / WEFT_NS_PER_MS) +
		           (kind & 16 ? (uint32_t)(int8_t)fuzz_u8(&z.in) * 1000u : 0);
		o.ts_ecr = fuzz_u32(&z.in);
	}
	return tcp_wire_encode_opts(p, &o);
}

static void
inject(void)
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
	struct tcp_hdr h = {0};
	struct weft_mbuf_priv *priv;
	struct rte_mbuf *m;
	unsigned int opts;

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
	} else {
		h.src_port = 4000 + (sel & 7);
		h.dst_port = sel & 8 ? 9 : FUZZ_PORT;
		at[0] = 1000000u * (sel & 7);
	}
	h.seq = near_number(fuzz_u8(&z.in), at);
	h.ack = near_number(fuzz_u8(&z.in), acks);
	h.wnd = how & 0x20 ? fuzz_u16(&z.in) : 65535;
	opts = build_options(frame + TCP_HDR_LEN, fuzz_u8(&z.in), c, h.flags);
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
	priv = weft_mbuf_priv(m);
	priv->rx.src = c != NULL ? c->remote : weft_ip_from_v4(rte_cpu_to_be_32(0x0a000002));
	priv->rx.dst = c != NULL ? c->local : weft_ip_from_v4(rte_cpu_to_be_32(0x0a000001));
	priv->rx.ecn = sel >> 1 & 3;
	weft_tcp_rx(z.tcp, z.nif, &m, 1, z.now_ns);
}

static void
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

/* ---- One turn of the loop ---- */

static void
check_conn(void *arg, struct weft_tcp_conn *c)
{
	struct weft_tcp_info i;

	(void)arg;
	weft_tcp_info(c, &i);
	FUZZ_CHECK(i.state > WEFT_TCP_CLOSED && i.state < WEFT_TCP_NSTATES);
	FUZZ_CHECK(weft_seq_leq(c->snd_una, c->snd_nxt) && weft_seq_leq(c->snd_nxt, c->snd_max));
	FUZZ_CHECK(i.rto_us <= z.tcp->attr.rto_max_us);
	FUZZ_CHECK(i.mss_bytes > 0 && i.mss_bytes <= 1460);
	if (tcp_states[c->state].synchronized && c->state != WEFT_TCP_SYN_RCVD &&
	    c->state != WEFT_TCP_TIME_WAIT) {
		FUZZ_CHECK(i.rto_us >= z.tcp->attr.rto_min_us);
		FUZZ_CHECK(i.cwnd_bytes >= i.mss_bytes);
	}
}

static void
turn(void)
{
	z.sched.now_ns = z.now_ns;
	weft_netif_poll(z.nif, z.now_ns);
	weft_timer_run(&z.sched.wheel, z.now_ns);
	weft_sched_run(&z.sched, z.now_ns);
	weft_netif_flush(z.nif, z.now_ns);
	weft_tcp_foreach(z.tcp, check_conn, NULL);
}

/** The peer's hardware address: a frame of ARP, its answer to our question. */
static void
inject_arp(void)
{
	static const uint8_t head[8] = {0, 1, 8, 0, 6, 4, 0, 2};
	static const uint8_t addr_peer[4] = {10, 0, 0, 2}, addr_us[4] = {10, 0, 0, 1};
	uint8_t f[42];

	memcpy(f, mac_us, 6);
	memcpy(f + 6, mac_peer, 6);
	weft_put_be16(f + 12, RTE_ETHER_TYPE_ARP);
	memcpy(f + 14, head, 8);
	memcpy(f + 22, mac_peer, 6);
	memcpy(f + 28, addr_peer, 4);
	memcpy(f + 32, mac_us, 6);
	memcpy(f + 38, addr_us, 4);
	z.rx[0] = fuzz_mbuf(f, sizeof(f), NULL, 0);
	z.nrx = z.rx[0] != NULL;
}

static void
release_held(void)
{
	rte_pktmbuf_free_bulk(z.held, z.nheld);
	z.nheld = 0;
}

static void
step(uint8_t op)
{
	struct fuzz_user *u;
	uint8_t v;

	switch (op & 15) {
	case 0:
	case 1:
	case 2:
	case 3:
	case 4:
	case 5:
		inject();
		if (op & 0x80)
			return; /* another one in the same burst */
		break;
	case 6:
		v = fuzz_u8(&z.in);
		z.now_ns += (uint64_t)(v & 31) << (v >> 5) * 5;
		break;
	case 7: {
		uint64_t next = weft_timer_next(&z.sched.wheel);

		z.now_ns = next != WEFT_NEVER && next > z.now_ns ? next : z.now_ns + 1;
		break;
	}
	case 8:
		u = &users[op >> 4 & 7];
		if (u->c != NULL)
			user_send(u->c, fuzz_u8(&z.in) * 6u, op & 0x80);
		break;
	case 9:
		u = &users[op >> 4 & 7];
		if (u->c != NULL)
			weft_tcp_close(u->c, z.now_ns);
		break;
	case 10:
		u = &users[op >> 4 & 7];
		if (u->c != NULL && op & 0x80) {
			weft_tcp_abort(u->c, z.now_ns);
			*u = (struct fuzz_user){0};
		}
		break;
	case 11: {
		struct weft_ip dst = weft_ip_from_v4(rte_cpu_to_be_32(0x0a000002));

		u = user_new();
		if (u != NULL &&
		    weft_tcp_connect(z.tcp, z.nif, &dst, 80 + (op >> 6), &user_ops, u, &u->c) != 0)
			u->c = NULL;
		break;
	}
	case 12:
		inject_icmp();
		break;
	case 13:
		z.stuck = op & 0x10;
		z.refuse = op & 0x20;
		break;
	case 14:
		if ((op & 0x30) == 0) {
			release_held();
		} else if (op & 0x10) {
			uint8_t spare = fuzz_u8(&z.in) & 7;

			while (z.nheld < FUZZ_HELD &&
			       rte_mempool_avail_count(fuzz_pool()) > spare &&
			       (z.held[z.nheld] = rte_pktmbuf_alloc(fuzz_pool())) != NULL)
				z.nheld++;
		}
		break;
	default:
		z.on_rx = op >> 4 & 7;
		break;
	}
	turn();
}

/* ---- Life ---- */

static void
start(void)
{
	static const struct weft_netif_ops ops = {.tcp_rx = port_up, .icmp_error = port_icmp};
	struct weft_netif_attr na = {.dev = &port,
	                             .pool = fuzz_pool(),
	                             .addr = weft_ip_from_v4(rte_cpu_to_be_32(0x0a000001)),
	                             .prefix_len = 24,
	                             .mtu_bytes = 1500,
	                             .no_ipv6 = true};
	struct weft_tcp_attr ta = {.max_conns = FUZZ_CONNS};
	struct weft_ip any = {0};
	uint8_t a = fuzz_u8(&z.in), b = fuzz_u8(&z.in);

	ta.no_timestamps = a & 1;
	ta.no_sack = a & 2;
	ta.no_window_scale = a & 4;
	ta.no_pmtu = a & 8;
	ta.cc = a & 16 ? WEFT_TCP_CC_NEWRENO : WEFT_TCP_CC_CUBIC;
	ta.ecn = a & 32 ? WEFT_TCP_ECN_ON : WEFT_TCP_ECN_PASSIVE;
	ta.syn_cookies = a >> 6;
	ta.rcv_buf_bytes = b & 1 ? 8000 : 0;
	ta.snd_buf_bytes = b & 2 ? 20000 : 0;
	ta.max_snd_segs = b & 4 ? 4 : 0;
	ta.max_ooo_mbufs = b & 8 ? 3 : 0;
	ta.max_half_open = b & 16 ? 2 : 0;
	ta.keepalive_us = b & 32 ? 1000000 : 0;
	ta.max_conns_per_peer = b & 64 ? 3 : 0;
	ta.max_accepts_per_s = b & 128 ? 2 : 0;
	memset(users, 0, sizeof(users));
	z.now_ns = WEFT_NS_PER_S;
	z.sched = (struct weft_sched){.now_ns = z.now_ns, .rand = fuzz_rand()};
	TAILQ_INIT(&z.sched.run);
	weft_wheel_init(&z.sched.wheel, z.now_ns);
	FUZZ_CHECK(weft_tcp_create(&ta, &z.sched, &z.tcp) == 0);
	memcpy(na.mac.addr_bytes, mac_us, 6);
	FUZZ_CHECK(weft_netif_create(&na, &ops, NULL, &z.sched, &z.nif) == 0);
	FUZZ_CHECK(weft_tcp_listen(z.tcp, &any, FUZZ_PORT, 3, user_accept, NULL, &z.l) == 0);
	turn();
	inject_arp();
	turn();
}

/** Everybody leaves; then nothing may be left. */
static void
finish(void)
{
	uint64_t end = z.now_ns + FUZZ_IDLE_S * WEFT_NS_PER_S, next;

	z.stuck = false;
	z.on_rx = 0;
	release_held();
	for (unsigned int i = 0; i < FUZZ_CONNS; i++)
		if (users[i].c != NULL)
			weft_tcp_close(users[i].c, z.now_ns);
	/* The peer is silent: timers alone must end what cannot be ended in order. */
	for (unsigned int i = 0; i < 20000 && weft_tcp_stats(z.tcp)->conns_now > 0; i++) {
		turn();
		next = weft_timer_next(&z.sched.wheel);
		if (!TAILQ_EMPTY(&z.sched.run))
			next = z.now_ns + 10 * WEFT_NS_PER_US;
		if (next == WEFT_NEVER || next > end)
			break;
		z.now_ns = RTE_MAX(next, z.now_ns + 1);
	}
	/* One that is open, idle and without keepalive stays open: that is TCP. */
	for (unsigned int i = 0; i < FUZZ_CONNS; i++)
		if (users[i].c != NULL) {
			FUZZ_CHECK(users[i].c->sq_head == NULL ||
			           users[i].c->state == WEFT_TCP_CLOSED);
			weft_tcp_abort(users[i].c, z.now_ns);
		}
	turn();
	weft_tcp_unlisten(z.tcp, z.l);
	for (unsigned int i = 0; i < 1000; i++) {
		next = weft_timer_next(&z.sched.wheel);
		if (weft_tcp_stats(z.tcp)->conns_now == 0 || next == WEFT_NEVER)
			break;
		z.now_ns = RTE_MAX(next, z.now_ns + 1);
		turn();
	}
	FUZZ_CHECK(weft_tcp_stats(z.tcp)->conns_now == 0);
	weft_tcp_destroy(z.tcp);
	weft_netif_destroy(z.nif);
	FUZZ_CHECK(z.sched.wheel.armed == 0);
	FUZZ_CHECK(fuzz_pool_used() == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	(void)fuzz_pool();
	memset(&z, 0, sizeof(z));
	z.in = (struct fuzz_in){data, size};
	start();
	for (unsigned int i = 0; i < FUZZ_OPS && z.in.left > 0; i++)
		step(fuzz_u8(&z.in));
	finish();
	return 0;
}
