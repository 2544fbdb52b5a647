/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Two stacks that have one address and one MAC, as two processes on one port, and a peer. A switch
 * between them passes TCP segments on by their local port, and returns what the two send to their
 * own address.
 */

#include <rte_ip.h>
#include <rte_tcp.h>

#include "tcp_wire.h"
#include "weft_netif.h"
#include "weft_netif_addr.h"
#include "weft_netif_attr.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_shared.h"
#include "weft_netif_stats.h"
#include "weft_sched.h"
#include "weft_tcp.h"
#include "weft_test.h"

#define MBUFS  4095
#define QUEUE  512
#define NODES  3
#define PEER   2
#define US     0x0a000001
#define THEM   0x0a000002
#define STEP   (10 * WEFT_NS_PER_US)
#define MY_MAC 1

static struct rte_mempool *pool;
static uint64_t now_ns;

/** A stack, and the frames that wait for it. */
static struct node {
	unsigned int id;
	struct weft_sched sched;
	struct weft_netif *nif;
	struct weft_tcp *tcp;
	struct rte_mbuf *rxq[QUEUE];
	unsigned int nrx;
} node[NODES];

/** The process that has a local port of the shared address: 0, 1; else a segment is lost. */
static uint8_t owner[65536];
static unsigned int resets, unowned, looped;

static void
put(struct node *nd, struct rte_mbuf *m)
{
	CHECK(nd->nrx < QUEUE);
	nd->rxq[nd->nrx++] = m;
}

static struct rte_mbuf *
copy(struct rte_mbuf *m)
{
	struct rte_mbuf *c = rte_pktmbuf_copy(m, pool, 0, UINT32_MAX);

	CHECK(c != NULL && c->nb_segs == 1);
	return c;
}

/** To the processes, by the local port. */
static void
to_shared(struct rte_mbuf *m)
{
	const uint8_t *p = rte_pktmbuf_mtod(m, const uint8_t *);
	const uint16_t port = weft_get_be16(p + 14 + 20 + 2);

	if (owner[port] < PEER) {
		put(&node[owner[port]], m);
		return;
	}
	unowned++;
	rte_pktmbuf_free(m);
}

static void
forward(const struct node *from, struct rte_mbuf *m)
{
	uint8_t *p = rte_pktmbuf_mtod(m, uint8_t *);

	if (weft_get_be16(p + 12) == 0x0806) {
		if (from->id != PEER) {
			put(&node[PEER], m);
			return;
		}
		put(&node[0], copy(m));
		put(&node[1], copy(m));
		/* The owner of the device answers. */
		if (weft_get_be16(p + 20) == 1 && weft_get_be32(p + 38) == US) {
			memcpy(p, p + 6, 6);
			memcpy(p + 32, p + 22, 6);
			weft_put_be32(p + 38, weft_get_be32(p + 28));
			weft_put_be16(p + 20, 2);
			memset(p + 22, 0, 6);
			p[22] = 2;
			p[27] = MY_MAC;
			memcpy(p + 6, p + 22, 6);
			weft_put_be32(p + 28, US);
			put(&node[PEER], m);
			return;
		}
		rte_pktmbuf_free(m);
		return;
	}
	CHECK_EQ(weft_get_be16(p + 12), 0x0800);
	CHECK_EQ(p[23], IPPROTO_TCP);
	resets += (p[14 + 20 + 13] & TCP_RST) != 0;
	if (from->id != PEER) {
		CHECK_EQ(weft_get_be32(p + 26), US);
		CHECK_EQ(owner[weft_get_be16(p + 34)], from->id);
	}
	if (p[5] == MY_MAC) {
		looped += from->id != PEER;
		to_shared(m);
	} else {
		put(&node[PEER], m);
	}
}

static uint16_t
dev_rx(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
	struct node *nd = arg;
	uint16_t got = (uint16_t)RTE_MIN((unsigned int)n, nd->nrx);

	memcpy(pkts, nd->rxq, got * sizeof(pkts[0]));
	nd->nrx -= got;
	memmove(nd->rxq, nd->rxq + got, nd->nrx * sizeof(nd->rxq[0]));
	return got;
}

static uint16_t
dev_tx(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
	for (uint16_t i = 0; i < n; i++) {
		forward(arg, copy(pkts[i]));
		rte_pktmbuf_free(pkts[i]);
	}
	return n;
}

static const struct weft_netif_dev dev = {.rx = dev_rx, .tx = dev_tx};

static void
tcp_rx(void *arg, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n, uint64_t at_ns)
{
	weft_tcp_rx(((struct node *)arg)->tcp, nif, m, n, at_ns);
}

static const struct weft_netif_ops ops = {.tcp_rx = tcp_rx};

static void
fill(void *arg, void *out, size_t len)
{
	static uint64_t x = 88172645463325252ULL;

	(void)arg;
	for (size_t i = 0; i < len; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		((uint8_t *)out)[i] = (uint8_t)(x >> 24);
	}
}

static void
up(void)
{
	test_eal_init();
	if (pool == NULL)
		CHECK_EQ(weft_netif_pool_create("tcp_shared", MBUFS, 1500, 0, &pool), 0);
	now_ns = WEFT_NS_PER_S;
	memset(node, 0, sizeof(node));
	memset(owner, PEER, sizeof(owner));
	resets = unowned = looped = 0;
	for (unsigned int i = 0; i < NODES; i++) {
		struct node *nd = &node[i];
		const struct weft_netif_attr a = {
		        .dev = &dev,
		        .dev_arg = nd,
		        .pool = pool,
		        .mac = {.addr_bytes = {2, 0, 0, 0, 0, i == PEER ? 2 : MY_MAC}},
		        .addr = weft_ip_from_v4(rte_cpu_to_be_32(i == PEER ? THEM : US)),
		        .prefix_len = 24,
		        .no_ipv6 = true,
		        .shared = i != PEER,
		};

		nd->id = i;
		TAILQ_INIT(&nd->sched.run);
		weft_wheel_init(&nd->sched.wheel, now_ns);
		nd->sched.rand = (struct weft_rand){.fill = fill};
		nd->sched.now_ns = now_ns;
		CHECK_EQ(weft_netif_create(&a, &ops, nd, &nd->sched, &nd->nif), 0);
		CHECK_EQ(weft_tcp_create(NULL, &nd->sched, &nd->tcp), 0);
	}
}

static void
down(void)
{
	for (unsigned int i = 0; i < NODES; i++) {
		weft_tcp_destroy(node[i].tcp);
		weft_netif_destroy(node[i].nif);
		rte_pktmbuf_free_bulk(node[i].rxq, node[i].nrx);
		node[i].nrx = 0;
		CHECK_EQ(node[i].sched.wheel.armed, 0);
	}
	CHECK_EQ(rte_mempool_avail_count(pool), MBUFS);
}

static void
pass(uint64_t ns)
{
	const uint64_t end_ns = now_ns + ns;

	for (; now_ns < end_ns; now_ns += STEP)
		for (unsigned int i = 0; i < NODES; i++) {
			struct node *nd = &node[i];

			nd->sched.now_ns = now_ns;
			weft_netif_poll(nd->nif, now_ns);
			weft_timer_run(&nd->sched.wheel, now_ns);
			weft_sched_run(&nd->sched, now_ns);
			weft_netif_flush(nd->nif, now_ns);
		}
}

static void
own(unsigned int id, uint16_t first, uint16_t last, bool opens)
{
	CHECK_EQ(weft_netif_ports_add(node[id].nif, first, last, opens), 0);
	for (uint32_t p = first; p <= last; p++)
		owner[p] = (uint8_t)id;
}

/* ---- Applications: each end sends LEN octets and counts what it gets ---- */

#define LEN 20000

struct end {
	struct weft_tcp_conn *c;
	unsigned int sent, got;
	bool established, closed;
	int err;
};

static void
push(struct end *e)
{
	while (e->c != NULL && e->sent < LEN) {
		const uint32_t room = weft_tcp_send_space(e->c);
		struct rte_mbuf *m = room > 0 ? weft_tcp_alloc(e->c) : NULL;
		uint32_t n = RTE_MIN(room, LEN - e->sent);

		if (m == NULL)
			return;
		n = RTE_MIN(n, (uint32_t)weft_tcp_mss(e->c));
		memset(rte_pktmbuf_append(m, (uint16_t)n), 0, n);
		e->sent += n;
		CHECK_EQ(weft_tcp_send(e->c, m, true, now_ns), 0);
	}
}

static void
on_established(void *user)
{
	struct end *e = user;

	e->established = true;
	push(e);
}

static void
on_rx(void *user, struct rte_mbuf *m, uint64_t at_ns)
{
	(void)at_ns;
	((struct end *)user)->got += m->pkt_len;
	rte_pktmbuf_free(m);
}

static void
on_writable(void *user)
{
	push(user);
}

static void
on_eof(void *user)
{
	struct end *e = user;

	weft_tcp_close(e->c, now_ns);
}

static void
on_closed(void *user, int err)
{
	struct end *e = user;

	e->closed = true;
	e->err = err;
	e->c = NULL;
}

static const struct weft_tcp_conn_ops conn_ops = {.established = on_established,
                                                  .rx = on_rx,
                                                  .writable = on_writable,
                                                  .eof = on_eof,
                                                  .closed = on_closed};

static int
on_accept(void *arg, struct weft_tcp_conn *c)
{
	struct end *e = arg;

	e->c = c;
	weft_tcp_set_user(c, &conn_ops, e);
	push(e);
	return 0;
}

static struct weft_tcp_listener *
listen_at(unsigned int id, uint16_t port, struct end *e)
{
	static const struct weft_ip any;
	struct weft_tcp_listener *l;

	CHECK_EQ(weft_tcp_listen(node[id].tcp, &any, 0, port, 4, on_accept, e, &l), 0);
	return l;
}

static int
open_to(unsigned int id, uint32_t ip, uint16_t port, struct end *e)
{
	const struct weft_ip dst = weft_ip_from_v4(rte_cpu_to_be_32(ip));

	return weft_tcp_connect(node[id].tcp, node[id].nif, NULL, &dst, port, &conn_ops, e, &e->c);
}

static void
check_done(struct end *a, struct end *b)
{
	CHECK_EQ(a->got, LEN);
	CHECK_EQ(b->got, LEN);
	weft_tcp_close(a->c, now_ns);
	pass(20 * WEFT_NS_PER_MS);
	CHECK(b->closed && b->err == 0);
}

/** Both processes connect to a peer and are connected to, at the same time. */
static void
test_both(void)
{
	struct end a[3] = {0}, p[3] = {0};

	up();
	own(0, 50000, 50003, true);
	own(1, 50004, 50007, true);
	own(1, 7, 7, false);
	listen_at(PEER, 100, &p[0]);
	listen_at(PEER, 101, &p[1]);
	listen_at(1, 7, &a[2]);
	CHECK_EQ(open_to(0, THEM, 100, &a[0]), 0);
	CHECK_EQ(open_to(1, THEM, 101, &a[1]), 0);
	CHECK_EQ(open_to(PEER, US, 7, &p[2]), 0);
	pass(50 * WEFT_NS_PER_MS);
	for (unsigned int i = 0; i < 3; i++)
		check_done(&p[i], &a[i]);
	CHECK_EQ(resets, 0);
	CHECK_EQ(looped, 0);
	CHECK_EQ(unowned, 0);
	down();
}

/** Two processes of one address talk to each other, and one to itself. */
static void
test_each_other(void)
{
	struct end a[2] = {0}, b[2] = {0};

	up();
	own(0, 50000, 50003, true);
	own(1, 7, 7, false);
	own(0, 8, 8, false);
	listen_at(1, 7, &b[0]);
	listen_at(0, 8, &b[1]);
	CHECK_EQ(open_to(0, US, 7, &a[0]), 0);
	CHECK_EQ(open_to(0, US, 8, &a[1]), 0);
	pass(50 * WEFT_NS_PER_MS);
	for (unsigned int i = 0; i < 2; i++)
		check_done(&a[i], &b[i]);
	CHECK(looped > 0);
	CHECK_EQ(resets, 0);
	CHECK_EQ(weft_netif_stats(node[PEER].nif)->rx_packets, 0);
	down();
}

/** Its own ports without a connection are answered with RST, and others' with nothing. */
static void
test_rst(void)
{
	struct end p = {0}, q = {0};

	up();
	own(0, 7, 7, false);
	CHECK_EQ(open_to(PEER, US, 7, &p), 0);
	pass(20 * WEFT_NS_PER_MS);
	CHECK(p.closed);
	CHECK_EQ(p.err, -ECONNREFUSED);
	CHECK_EQ(resets, 1);
	/* The switch is late: the process has given the port back. */
	CHECK_EQ(weft_netif_ports_drop(node[0].nif, 7, 7), 0);
	CHECK_EQ(open_to(PEER, US, 7, &q), 0);
	pass(20 * WEFT_NS_PER_MS);
	CHECK(!q.closed);
	CHECK_EQ(resets, 1);
	CHECK(weft_netif_stats(node[0].nif)->rx_not_our_port > 0);
	weft_tcp_abort(q.c, now_ns);
	down();
}

/** Active opens use the ports of the blocks alone, and more when there are more blocks. */
static void
test_blocks(void)
{
	static struct end a[7], p[2];

	memset(a, 0, sizeof(a));
	memset(p, 0, sizeof(p));
	up();
	own(0, 7, 7, false);
	listen_at(PEER, 100, &p[0]);
	listen_at(PEER, 101, &p[1]);
	CHECK_EQ(open_to(0, THEM, 100, &a[0]), -EADDRNOTAVAIL);
	own(0, 50000, 50001, true);
	CHECK_EQ(open_to(0, THEM, 100, &a[0]), 0);
	CHECK_EQ(open_to(0, THEM, 100, &a[1]), 0);
	CHECK_EQ(open_to(0, THEM, 100, &a[2]), -EADDRNOTAVAIL);
	/* Another destination. */
	CHECK_EQ(open_to(0, THEM, 101, &a[3]), 0);
	own(0, 60000, 60000, true);
	CHECK_EQ(open_to(0, THEM, 100, &a[4]), 0);
	CHECK_EQ(open_to(0, THEM, 100, &a[5]), -EADDRNOTAVAIL);
	pass(50 * WEFT_NS_PER_MS);
	for (unsigned int i = 0; i < 5; i++)
		CHECK_EQ(a[i].established, i != 2);
	for (unsigned int i = 0; i < 5; i++)
		if (a[i].c != NULL)
			weft_tcp_abort(a[i].c, now_ns);
	pass(20 * WEFT_NS_PER_MS);
	/* A port of a block on which the process listens is not for active opens. */
	listen_at(0, 60000, &a[6]);
	CHECK_EQ(open_to(0, THEM, 100, &a[0]), 0);
	CHECK_EQ(open_to(0, THEM, 100, &a[1]), 0);
	CHECK_EQ(open_to(0, THEM, 100, &a[2]), -EADDRNOTAVAIL);
	for (unsigned int i = 0; i < 2; i++)
		weft_tcp_abort(a[i].c, now_ns);
	down();
}

WEFT_TEST_MAIN({"two processes of one address talk to a peer", test_both},
               {"two processes of one address talk to each other", test_each_other},
               {"a RST is sent for its own ports alone", test_rst},
               {"active opens use the given blocks, and more of them", test_blocks})
