/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Segments, user calls and time against one TCP stack in any state. The numbers in a segment
 * are relative to the connection's own, so that an input passes the first checks.
 *
 * Each octet of both streams is a function of its sequence number, so delivered and sent octets can
 * be checked without a copy. At the end all connections must end.
 *
 * The first two octets of an input and its last one are the attributes. The others are operations.
 */

#include <rte_ethdev.h>

#include "tcp_fuzz.h"
#include "tcp_instance.h"
#include "weft_netif.h"

struct fuzz_tcp z;
struct fuzz_user users[FUZZ_CONNS];

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

/* ---- Operations ---- */

void
turn(void)
{
	struct weft_tcp_conn *c;
	uint32_t id = 0;

	z.sched.now_ns = z.now_ns;
	weft_netif_poll(z.nif, z.now_ns);
	weft_timer_run(&z.sched.wheel, z.now_ns);
	weft_sched_run(&z.sched, z.now_ns);
	weft_netif_flush(z.nif, z.now_ns);
	while ((c = weft_tcp_conn_next(z.tcp, &id, UINT32_MAX)) != NULL)
		check_conn(c);
}

static void
release_held(void)
{
	rte_pktmbuf_free_bulk(z.held, z.nheld);
	z.nheld = 0;
}

static void
more(void)
{
	static const struct weft_ip any;
	uint8_t op = fuzz_u8(&z.in), v = fuzz_u8(&z.in);
	struct fuzz_user *u = &users[v & 7];

	switch (op % 10) {
	case 0:
		handshake(v);
		break;
	case 1:
		good_answer(v);
		break;
	case 2:
		if (u->c != NULL)
			weft_tcp_keepalive(u->c, (v >> 3) * 300000u, v & 64 ? 100000 : 0, v >> 6);
		break;
	case 3:
		if (u->c != NULL)
			weft_tcp_set_cc(u->c, (enum weft_tcp_cc)(v >> 3) % 3);
		break;
	case 4:
		if (z.l != NULL)
			z.l->cc = (enum weft_tcp_cc)v % 3;
		break;
	case 5:
		/* A listener ends with its half-open connections, and is created again. */
		if (z.l2 != NULL) {
			weft_tcp_unlisten(z.tcp, z.l2);
			z.l2 = NULL;
		} else if (weft_tcp_listen(z.tcp, v & 1 ? &any : &ip6_us, 128, FUZZ_PORT2,
		                           1 + (v >> 6), user_accept, NULL, &z.l2) != 0) {
			z.l2 = NULL;
		}
		break;
	case 6:
		z.silent = v & 1;
		break;
	case 7:
		u = user_new();
		if (u != NULL && weft_tcp_connect(z.tcp, z.nif, NULL, &ip6_peer, 80 + (v & 3),
		                                  &user_ops, u, &u->c) != 0)
			u->c = NULL;
		break;
	case 8:
		/* As much as there is space for. */
		for (unsigned int i = 0; i < 64 && u->c != NULL; i++) {
			struct weft_tcp_conn *c = u->c;

			if (weft_tcp_send_space(c) == 0)
				break;
			user_send(c, v & 8 ? 100 : weft_tcp_mss(c), i == (v >> 4));
		}
		break;
	default:
		z.now_ns += (uint64_t)v * (op & 128  ? WEFT_NS_PER_S
		                           : op & 64 ? 10 * WEFT_NS_PER_MS
		                           : op & 32 ? WEFT_NS_PER_MS
		                                     : 10 * WEFT_NS_PER_US);
		break;
	}
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
		inject(op & 0x80);
		if (op & 0x80)
			return; /* another segment of the same burst */
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
		if (u != NULL && weft_tcp_connect(z.tcp, z.nif, NULL, &dst, 80 + (op >> 6),
		                                  &user_ops, u, &u->c) != 0)
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
			unsigned int spare = fuzz_u8(&z.in) & 7, avail = fuzz_pool_avail();
			unsigned int n = avail > spare ? avail - spare : 0;

			n = RTE_MIN(n, FUZZ_HELD - z.nheld);
			if (n > 0 && rte_pktmbuf_alloc_bulk(fuzz_pool(), z.held + z.nheld, n) == 0)
				z.nheld += n;
		}
		break;
	default:
		if (op & 0x80)
			more();
		else
			z.on_rx = op >> 4 & 7;
		break;
	}
	deliver_all();
	turn();
}

/* ---- Set-up and end ---- */

static void
start(uint8_t d)
{
	struct weft_netif_attr na = {.dev = &fuzz_tcp_port,
	                             .pool = fuzz_pool(),
	                             .addr = weft_ip_from_v4(rte_cpu_to_be_32(0x0a000001)),
	                             .prefix_len = 24,
	                             .addr6 = ip6_us,
	                             .prefix6_len = 64,
	                             .max_neighs = FUZZ_NEIGHS,
	                             .mtu_bytes = 1500};
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
	z.tso = d & 1;
	if (z.tso)
		na.tx_offloads = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM |
		                 RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_TCP_TSO;
	ta.no_tso = d & 2;
	ta.max_time_wait = d & 4 ? 1 : 0;
	ta.challenge_acks_per_s = ta.resets_per_s = d & 8 ? 1 : 0;
	ta.blackhole_rtos = d & 16 ? 1 : 0;
	ta.pmtu_raise_us = d & 16 ? 1000000 : 0;
	ta.user_timeout_us = d & 32 ? 5000000 : 0;
	ta.fin_wait2_us = d & 32 ? 1000000 : 0;
	ta.max_snd_segs_total = ta.max_ooo_mbufs_total = d & 64 ? 6 : 0;
	ta.syn_retries = ta.data_retries = d & 128 ? 1 : 0;
	ta.min_mss_bytes = d & 128 ? 500 : 0;
	memset(users, 0, sizeof(users));
	z.now_ns = WEFT_NS_PER_S;
	z.sched = (struct weft_sched){.now_ns = z.now_ns, .rand = fuzz_rand()};
	TAILQ_INIT(&z.sched.run);
	weft_wheel_init(&z.sched.wheel, z.now_ns);
	FUZZ_CHECK(weft_tcp_create(&ta, &z.sched, &z.tcp) == 0);
	memcpy(na.mac.addr_bytes, mac_us, 6);
	FUZZ_CHECK(weft_netif_create(&na, &fuzz_tcp_up, NULL, &z.sched, &z.nif) == 0);
	FUZZ_CHECK(weft_tcp_listen(z.tcp, &any, 128, FUZZ_PORT, 3, user_accept, NULL, &z.l) == 0);
	FUZZ_CHECK(weft_tcp_listen(z.tcp, &ip6_us, 128, FUZZ_PORT2, 1, user_accept, NULL, &z.l2) ==
	           0);
	turn();
	inject_arp();
	turn();
}

/** All connections are closed. Then nothing may be left. */
static void
finish(void)
{
	uint64_t end = z.now_ns + FUZZ_IDLE_S * WEFT_NS_PER_S, next;

	deliver_all();
	z.stuck = false;
	z.on_rx = 0;
	release_held();
	for (unsigned int i = 0; i < FUZZ_CONNS; i++)
		if (users[i].c != NULL)
			weft_tcp_close(users[i].c, z.now_ns);
	/*
	 * The peer is silent, so timers alone must end connections that cannot end in order. A
	 * connection that waits for a buffer checks every 100 us. After some rounds, larger steps
	 * of time are taken.
	 */
	for (unsigned int i = 0; i < 20000 && weft_tcp_stats(z.tcp)->conns_now > 0; i++) {
		turn();
		next = weft_timer_next(&z.sched.wheel);
		if (!TAILQ_EMPTY(&z.sched.run))
			next = z.now_ns + 10 * WEFT_NS_PER_US;
		if (next == WEFT_NEVER || next > end)
			break;
		z.now_ns = RTE_MAX(next, z.now_ns + (i < 2000 ? 1 : 20 * WEFT_NS_PER_MS));
	}
	/* An open, idle connection without keepalive stays open, as TCP requires. */
	for (unsigned int i = 0; i < FUZZ_CONNS; i++)
		if (users[i].c != NULL) {
			FUZZ_CHECK(users[i].c->sq_head == NULL ||
			           users[i].c->state == WEFT_TCP_CLOSED);
			weft_tcp_abort(users[i].c, z.now_ns);
		}
	turn();
	weft_tcp_unlisten(z.tcp, z.l);
	if (z.l2 != NULL)
		weft_tcp_unlisten(z.tcp, z.l2);
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
	rte_pktmbuf_free_bulk(z.rx, z.nrx);
	FUZZ_CHECK(fuzz_pool_used() == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	(void)fuzz_pool();
	memset(&z, 0, sizeof(z));
	z.in = (struct fuzz_in){data, size > 0 ? size - 1 : 0};
	start(size > 0 ? data[size - 1] : 0);
	for (unsigned int i = 0; i < FUZZ_OPS && z.in.left > 0; i++)
		step(fuzz_u8(&z.in));
	finish();
	return 0;
}
