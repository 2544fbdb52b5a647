/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The stack under a script, the link to the peer, and the application on top. */

#include <stdlib.h>

#include "script.h"
#include "weft_netif.h"
#include "weft_netif_icmp.h"
#include "weft_netif_mbuf.h"

#define POOL_MBUFS 4095

static struct rte_mempool *
sc_pool(void)
{
	static struct rte_mempool *pool;

	if (pool == NULL) {
		test_eal_init();
		CHECK_EQ(weft_netif_pool_create("tcp_script", POOL_MBUFS, 9000, 0, &pool), 0);
	}
	return pool;
}

/* ---- The stack ---- */

static void
stack_poll(void *arg, uint64_t now_ns)
{
	struct sc *s = arg;

	s->sched.now_ns = now_ns;
	weft_netif_poll(s->nif, now_ns);
	weft_timer_run(&s->sched.wheel, now_ns);
	weft_sched_run(&s->sched, now_ns);
	weft_netif_flush(s->nif, now_ns);
}

static uint64_t
stack_next(void *arg)
{
	struct sc *s = arg;

	return TAILQ_EMPTY(&s->sched.run) ? weft_timer_next(&s->sched.wheel) : 0;
}

static void
stack_tcp_rx(void *arg, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n,
             uint64_t now_ns)
{
	weft_tcp_rx(((struct sc *)arg)->tcp, nif, m, n, now_ns);
}

static void
stack_icmp(void *arg, struct weft_netif *nif, const struct weft_icmp_error *e, uint64_t now_ns)
{
	weft_tcp_icmp_error(((struct sc *)arg)->tcp, nif, e, now_ns);
}

/* ---- The peer ---- */

/** What the peer learns from a segment. Also check octets that every segment must have. */
static void
peer_note(struct sc *s, const struct sc_cap *c)
{
	const struct sc_seg *g = &c->seg;
	unsigned int n = c->dst_port - SC_PEER_PORT;
	struct sc_flow *f = &s->flow[n % SC_FLOWS];

	if (c->kind != SC_TCP || n >= SC_FLOWS)
		return;
	if (g->flags & SC_SYN) {
		if (f->iss != g->seq.v)
			f->old_iss = f->iss;
		f->iss = g->seq.v;
		f->iss_known = true;
	}
	if (g->o.has_ts)
		f->last_tsval = g->o.ts_val;
	for (uint32_t i = 0; i < g->len; i++)
		if (c->payload[i] != sc_octet(g->seq.v - f->iss - 1 + i, false))
			SC_FAIL(s, "the stack sent a wrong octet at %u", g->seq.v - f->iss + i);
}

static void
peer_poll(void *arg, uint64_t now_ns)
{
	struct sc *s = arg;
	struct rte_mbuf *m;

	(void)now_ns;
	while (sim_link_dev()->rx(sim_link_dev_arg(s->link, 1), &m, 1) == 1) {
		uint8_t frame[SC_FRAME_MAX];
		uint32_t len = m->pkt_len;
		struct sc_cap *c = &s->caps[s->ncaps];

		memcpy(frame, rte_pktmbuf_mtod(m, const void *), len);
		rte_pktmbuf_free(m);
		if (!sc_frame_read(s, frame, len, c))
			continue;
		peer_note(s, c);
		if (++s->ncaps == SC_CAPS)
			SC_FAIL(s, "the stack sent more than the script can hold");
	}
}

static uint64_t
peer_next(void *arg)
{
	(void)arg;
	return WEFT_NEVER;
}

void
sc_inject(struct sc *s, const uint8_t *p, uint32_t len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(sc_pool());

	CHECK(m != NULL);
	memcpy(rte_pktmbuf_append(m, (uint16_t)len), p, len);
	CHECK_EQ(sim_link_dev()->tx(sim_link_dev_arg(s->link, 1), &m, 1), 1);
}

void
sc_settle(struct sc *s)
{
	sim_run(s->sim, sim_now_ns(s->sim), NULL, NULL);
}

void
sc_run(struct sc *s, uint64_t ns)
{
	sim_run(s->sim, sim_now_ns(s->sim) + ns, NULL, NULL);
}

static bool
has_cap(void *arg)
{
	return ((struct sc *)arg)->ncaps > 0;
}

bool
sc_run_until_cap(struct sc *s, uint64_t ns)
{
	if (s->ncaps > 0)
		return true;
	if (!sim_run(s->sim, sim_now_ns(s->sim) + ns, has_cap, s))
		return false;
	sc_settle(s); /* segments sent at the same instant */
	return true;
}

void
sc_uncap(struct sc *s, unsigned int i)
{
	s->ncaps--;
	memmove(&s->caps[i], &s->caps[i + 1], (s->ncaps - i) * sizeof(s->caps[0]));
}

void
sc_up(struct sc *s)
{
	static const struct weft_netif_ops ops = {.tcp_rx = stack_tcp_rx, .icmp_error = stack_icmp};
	static const struct sim_link_cfg plain[2];
	uint64_t now_ns;

	if (s->up)
		return;
	s->sim = sim_create(test_seed(1), sc_pool());
	s->link = sim_link_create(s->sim, plain);
	now_ns = sim_now_ns(s->sim);
	TAILQ_INIT(&s->sched.run);
	weft_wheel_init(&s->sched.wheel, now_ns);
	s->sched.rand = sim_rand(s->sim, 0);
	s->sched.now_ns = now_ns;
	s->nif_attr.dev = sim_link_dev();
	s->nif_attr.dev_arg = sim_link_dev_arg(s->link, 0);
	s->nif_attr.pool = sc_pool();
	s->nif_attr.mac = (struct rte_ether_addr){{2, 0, 0, 0, 0, 1}};
	s->nif_attr.addr = sc_ip(false, false);
	s->nif_attr.prefix_len = 24;
	if (s->v6) {
		s->nif_attr.addr6 = sc_ip(true, false);
		s->nif_attr.prefix6_len = 64;
	} else {
		s->nif_attr.no_ipv6 = true;
	}
	if (s->nif_attr.mtu_bytes == 0)
		s->nif_attr.mtu_bytes = 1500;
	if (s->attr.max_conns == 0)
		s->attr.max_conns = 64;
	CHECK_EQ(weft_netif_create(&s->nif_attr, &ops, s, &s->sched, &s->nif), 0);
	CHECK_EQ(weft_tcp_create(&s->attr, &s->sched, &s->tcp), 0);
	s->up = true;
	sim_add_node(s->sim, &(struct sim_node){.poll = stack_poll, .next = stack_next, .arg = s});
	sim_add_node(s->sim, &(struct sim_node){.poll = peer_poll, .next = peer_next, .arg = s});
	/* Announcements, and an address that is tentative at first (RFC 4862 s5.4). */
	sc_run(s, (s->v6 ? 3000 : 1) * WEFT_NS_PER_MS);
	if (!s->manual_arp) {
		/* A RST without a connection is not answered, but afterwards the neighbour is
		 * known. */
		uint8_t frame[SC_FRAME_MAX];
		struct sc_seg rst = {.flags = SC_ACK,
		                     .has_ack = true,
		                     .ecn = -1,
		                     .df = -1,
		                     .ttl = -1,
		                     .doff = -1};

		s->f->our_port = 1;
		sc_inject(s, frame, sc_frame_tcp(s, s->f, &rst, frame));
		sc_run(s, WEFT_NS_PER_MS);
		s->f->our_port = SC_PORT;
	}
	s->ncaps = 0;
	s->tcp0 = *weft_tcp_stats(s->tcp);
	s->nif0 = *weft_netif_stats(s->nif);
}

static void
tear_down(struct sc *s)
{
	s->up = false;
	weft_tcp_destroy(s->tcp);
	weft_netif_flush(s->nif, sim_now_ns(s->sim));
	weft_netif_destroy(s->nif);
}

void
sc_down(struct sc *s)
{
	tear_down(s);
	if (s->sched.wheel.armed != 0)
		SC_FAIL(s, "%u timers are left at the end", (unsigned int)s->sched.wheel.armed);
	sim_destroy(s->sim);
	if (rte_mempool_avail_count(sc_pool()) != POOL_MBUFS)
		SC_FAIL(s, "%u mbufs are lost at the end",
		        POOL_MBUFS - rte_mempool_avail_count(sc_pool()));
}

void
sc_abandon(struct sc *s)
{
	if (!s->up)
		return;
	tear_down(s);
	sim_destroy(s->sim);
}

/* ---- The application ---- */

static void
app_established(void *user)
{
	((struct sc_flow *)user)->established = true;
}

static void
app_rx(void *user, struct rte_mbuf *m, uint64_t now_ns)
{
	struct sc_flow *f = user;

	(void)now_ns;
	f->torn |= f->eof || f->closed;
	for (const struct rte_mbuf *seg = m; seg != NULL; seg = seg->next) {
		const uint8_t *p = rte_pktmbuf_mtod(seg, const uint8_t *);

		for (uint32_t i = 0; i < seg->data_len; i++)
			f->bad_data |= p[i] != sc_octet(f->received + i, true);
		f->received += seg->data_len;
	}
	rte_pktmbuf_free(m);
}

static void
app_writable(void *user)
{
	((struct sc_flow *)user)->writables++;
}

static void
app_mss(void *user, uint16_t mss)
{
	(void)mss;
	((struct sc_flow *)user)->mss_calls++;
}

static void
app_eof(void *user)
{
	struct sc_flow *f = user;

	f->torn |= f->eof || f->closed;
	f->eof = true;
}

static void
app_closed(void *user, int err)
{
	struct sc_flow *f = user;

	f->torn |= f->closed;
	f->closed = true;
	f->err = err;
	f->c = NULL;
}

static const struct weft_tcp_conn_ops app_ops = {
        .established = app_established,
        .rx = app_rx,
        .writable = app_writable,
        .mss = app_mss,
        .eof = app_eof,
        .closed = app_closed,
};

static int
app_accept(void *arg, struct weft_tcp_conn *c)
{
	struct sc *s = arg;
	struct weft_tcp_info info;
	struct sc_flow *f;

	weft_tcp_info(c, &info);
	s->accepts++;
	if (s->refuse)
		return -ECONNREFUSED;
	f = &s->flow[(info.remote_port - SC_PEER_PORT) % SC_FLOWS];
	f->c = c;
	f->accepted = true;
	f->sent = f->received = 0;
	f->eof = f->closed = false;
	weft_tcp_set_user(c, &app_ops, f);
	return 0;
}

void
sc_listen(struct sc *s, unsigned int backlog)
{
	static const struct weft_ip any;
	int rc;

	if (s->listener != NULL)
		return;
	rc = weft_tcp_listen(s->tcp, &any, 128, SC_PORT, backlog, app_accept, s, &s->listener);
	if (rc != 0)
		SC_FAIL(s, "listen: %s", strerror(-rc));
}

void
sc_connect(struct sc *s, int dscp)
{
	struct weft_ip dst = sc_ip(s->v6, true);
	struct weft_tcp_info info;
	int rc;

	s->sched.now_ns = sim_now_ns(s->sim);
	rc = weft_tcp_connect_as(s->tcp, s->nif, NULL, 0, &dst, s->f->peer_port, dscp, &app_ops,
	                         s->f, &s->f->c);
	if (rc != 0)
		SC_FAIL(s, "connect: %s", strerror(-rc));
	weft_tcp_info(s->f->c, &info);
	s->f->our_port = info.local_port;
	s->f->iss_known = false;
	sc_settle(s);
}

int
sc_send(struct sc *s, uint32_t len, uint32_t piece, bool push)
{
	struct sc_flow *f = s->f;

	if (f->c == NULL)
		return -ENOTCONN;
	s->sched.now_ns = sim_now_ns(s->sim);
	while (len > 0) {
		uint32_t n = RTE_MIN(len, piece != 0 ? piece : weft_tcp_mss(f->c));
		struct rte_mbuf *m = weft_tcp_alloc(f->c);
		uint8_t *p;
		int rc;

		if (m == NULL)
			return -ENOBUFS;
		p = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)n);
		for (uint32_t i = 0; i < n; i++)
			p[i] = sc_octet(f->sent + i, false);
		len -= n;
		rc = weft_tcp_send(f->c, m, push && len == 0, s->sched.now_ns);
		if (rc != 0)
			return rc;
		f->sent += n;
	}
	return 0;
}
