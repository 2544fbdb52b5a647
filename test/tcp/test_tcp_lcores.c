/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Hosts with several workers on one port: RSS by a NIC that computes its own Toeplitz hash,
 * and the software distributor. Every segment must arrive at the worker of its connection.
 */

#include <rte_icmp.h>
#include <rte_ip.h>

#include "sim_nic.h"
#include "tcp_net.h"
#include "tcp_conn.h"
#include "weft_netif_attr.h"
#include "weft_netif_group.h"
#include "weft_netif_icmp.h"
#include "weft_netif_mbuf.h"
#include "weft_netif.h"

#define LC_WORKERS 4
#define LC_PORT    7
#define LC_CONNS   512 /* of one worker */

struct lc_host;

struct lc_worker {
	struct lc_host *host;
	unsigned int index;
	struct weft_sched sched;
	struct weft_netif *nif;
	struct weft_tcp *tcp;
	struct weft_tcp_listener *listener;
	unsigned int accepted;
	unsigned int misplaced; /**< segments of another worker's connection */
};

struct lc_host {
	struct lc *lc;
	unsigned int id, n;
	struct sim_nic *nic; /**< NULL: the link itself, without RSS */
	struct sim_nic_cfg cfg;
	struct weft_netif_group *group;
	struct weft_tcp_ports *ports;
	struct lc_worker w[LC_WORKERS];
	bool steers_otherwise; /**< its NIC: than the group was told */
};

/** A connection from host 0, with its other end. */
struct lc_conn {
	struct lc *lc;
	struct weft_tcp_conn *c;
	struct lc_worker *w;
	uint32_t to_send, echoed;
	uint16_t local_port;
	bool client, closed;
	int err;
};

#define LC_MAX 4096

struct lc {
	struct sim *sim;
	struct sim_link *link;
	struct lc_host host[2];
	struct lc_conn conn[2 * LC_MAX];
	unsigned int nconn, live, failed;
	bool v6;
};

static struct weft_ip
lc_ip(const struct lc *lc, unsigned int id)
{
	struct weft_ip ip = {.b = {0x20, 0x01, 0x0d, 0xb8, [15] = (uint8_t)(1 + id)}};

	return lc->v6 ? ip : net_ip(id);
}

/* ---- A worker ---- */

static void
lc_tcp_rx(void *arg, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n, uint64_t now_ns)
{
	struct lc_worker *w = arg;

	for (unsigned int i = 0; i < n; i++) {
		const struct weft_mbuf_priv *p = weft_mbuf_priv(m[i]);
		const uint8_t *h = rte_pktmbuf_mtod(m[i], const uint8_t *);
		uint16_t sport = weft_get_be16(h), dport = weft_get_be16(h + 2);
		uint32_t hash;

		if (weft_netif_group_owner(w->host->group, &p->rx.dst, dport, &p->rx.src, sport) !=
		    w->index)
			w->misplaced++;
		/* The NIC and the group must agree, until the NIC steers otherwise and owners
		 * follow it. */
		if (w->host->nic != NULL && !w->host->steers_otherwise)
			CHECK_EQ(sim_nic_steer(&w->host->cfg, &p->rx.src, sport, &p->rx.dst, dport,
			                       &hash),
			         w->index);
	}
	weft_tcp_rx(w->tcp, nif, m, n, now_ns);
}

static void
lc_icmp(void *arg, struct weft_netif *nif, const struct weft_icmp_error *e, uint64_t now_ns)
{
	weft_tcp_icmp_error(((struct lc_worker *)arg)->tcp, nif, e, now_ns);
}

static void
lc_poll(void *arg, uint64_t now_ns)
{
	struct lc_worker *w = arg;

	w->sched.now_ns = now_ns;
	weft_netif_poll(w->nif, now_ns);
	weft_timer_run(&w->sched.wheel, now_ns);
	weft_sched_run(&w->sched, now_ns);
	weft_netif_flush(w->nif, now_ns);
}

static uint64_t
lc_next(void *arg)
{
	struct lc_worker *w = arg;

	if (weft_netif_group_pending(w->host->group, w->index) || !TAILQ_EMPTY(&w->sched.run) ||
	    (w->host->nic != NULL && sim_nic_pending(w->host->nic, w->index)))
		return w->sched.now_ns;
	if (weft_netif_tx_room(w->nif) < WEFT_NETIF_TXQ)
		return w->sched.now_ns + 10 * WEFT_NS_PER_US;
	return weft_timer_next(&w->sched.wheel);
}

/* ---- Connections: the client sends, and the server echoes ---- */

static void
lc_push(struct lc_conn *k, uint32_t len)
{
	while (len > 0 && k->c != NULL && weft_tcp_send_space(k->c) > 0) {
		struct rte_mbuf *m = weft_tcp_alloc(k->c);
		uint32_t n = RTE_MIN(len, (uint32_t)weft_tcp_mss(k->c));

		if (m == NULL)
			return;
		memset(rte_pktmbuf_append(m, (uint16_t)n), 'x', n);
		CHECK_EQ(weft_tcp_send(k->c, m, true, k->w->sched.now_ns), 0);
		len -= n;
		if (k->client)
			k->to_send -= n;
	}
}

static void
lc_established(void *user)
{
	struct lc_conn *k = user;

	lc_push(k, k->to_send);
}

static void
lc_rx(void *user, struct rte_mbuf *m, uint64_t now_ns)
{
	struct lc_conn *k = user;
	uint32_t len = m->pkt_len;

	rte_pktmbuf_free(m);
	k->echoed += len;
	if (!k->client)
		lc_push(k, len);
	else if (k->to_send == 0)
		weft_tcp_close(k->c, now_ns);
}

static void
lc_writable(void *user)
{
	struct lc_conn *k = user;

	if (k->client)
		lc_push(k, k->to_send);
}

static void
lc_eof(void *user)
{
	struct lc_conn *k = user;

	weft_tcp_close(k->c, k->w->sched.now_ns);
}

static void
lc_closed(void *user, int err)
{
	struct lc_conn *k = user;

	k->closed = true;
	k->err = err;
	k->c = NULL;
	if (k->client) {
		k->lc->live--;
		k->lc->failed += err != 0 || k->echoed == 0;
	}
}

static const struct weft_tcp_conn_ops lc_ops = {
        .established = lc_established,
        .rx = lc_rx,
        .writable = lc_writable,
        .eof = lc_eof,
        .closed = lc_closed,
};

static struct lc_conn *
lc_conn_new(struct lc_worker *w, bool client)
{
	struct lc *lc = w->host->lc;
	struct lc_conn *k = &lc->conn[lc->nconn++];

	CHECK(lc->nconn < RTE_DIM(lc->conn));
	*k = (struct lc_conn){.lc = lc, .w = w, .client = client};
	return k;
}

static int
lc_accept(void *arg, struct weft_tcp_conn *c)
{
	struct lc_worker *w = arg;
	struct lc_conn *k = lc_conn_new(w, false);

	w->accepted++;
	k->c = c;
	weft_tcp_set_user(c, &lc_ops, k);
	return 0;
}

static int
lc_connect(struct lc_worker *w, uint16_t port, struct lc_conn **out)
{
	struct lc *lc = w->host->lc;
	struct lc_conn *k = lc_conn_new(w, true);
	struct weft_ip dst = lc_ip(lc, 1 - w->host->id);
	struct weft_tcp_info info;
	int rc;

	w->sched.now_ns = sim_now_ns(lc->sim);
	k->to_send = 1 + (uint32_t)(sim_random(lc->sim) % 4000);
	rc = weft_tcp_connect(w->tcp, w->nif, NULL, &dst, port, &lc_ops, k, &k->c);
	if (rc != 0) {
		lc->nconn--;
		return rc;
	}
	weft_tcp_info(k->c, &info);
	k->local_port = info.local_port;
	lc->live++;
	if (out != NULL)
		*out = k;
	return 0;
}

/* ---- Hosts ---- */

static void
lc_random_cfg(struct lc *lc, struct sim_nic_cfg *cfg, unsigned int n)
{
	unsigned int absent = (unsigned int)(sim_random(lc->sim) % 8);

	cfg->queues = n;
	cfg->reta_size = 64u << sim_random(lc->sim) % 4;
	cfg->reports_hash = sim_random(lc->sim) % 2 != 0;
	for (unsigned int i = 0; i < sizeof(cfg->key); i++)
		cfg->key[i] = (uint8_t)sim_random(lc->sim);
	for (unsigned int i = 0; i < cfg->reta_size; i++) {
		cfg->reta[i] = (uint16_t)(sim_random(lc->sim) % n);
		if (cfg->reta[i] == absent && n > 1) /* a worker that gets nothing by RSS */
			cfg->reta[i] = (uint16_t)((absent + 1) % n);
	}
}

static void
lc_host_up(struct lc *lc, unsigned int id, unsigned int n, bool rss, bool shared_tx,
           const struct weft_tcp_attr *attr)
{
	static const struct weft_netif_ops ops = {.tcp_rx = lc_tcp_rx, .icmp_error = lc_icmp};
	struct lc_host *h = &lc->host[id];
	struct weft_netif_group_attr ga = {
	        .members = n, .rx_queues = rss ? n : 1, .tx_queues = shared_tx ? 1 : n};
	static const struct weft_ip any;

	h->lc = lc;
	h->id = id;
	h->n = n;
	if (rss) {
		if (h->cfg.queues == 0)
			lc_random_cfg(lc, &h->cfg, n);
		h->nic = sim_nic_create(lc->link, id, &h->cfg);
		ga.key = h->cfg.key;
		ga.key_bytes = sim_random(lc->sim) % 2 != 0 ? 40 : 52;
		ga.reta = h->cfg.reta;
		ga.reta_size = h->cfg.reta_size;
	}
	CHECK_EQ(weft_netif_group_create(&ga, &h->group), 0);
	CHECK_EQ(weft_tcp_ports_create(&h->ports), 0);
	for (unsigned int i = 0; i < n; i++) {
		struct lc_worker *w = &h->w[i];
		struct weft_tcp_attr ta = {.max_conns = LC_CONNS, .time_wait_us = 5000};
		struct weft_netif_attr na = {
		        .dev = rss ? sim_nic_dev() : sim_link_dev(),
		        .dev_arg = rss ? sim_nic_queue(h->nic, i) : sim_link_dev_arg(lc->link, id),
		        .pool = net_pool(),
		        .mac = {.addr_bytes = {2, 0, 0, 0, 0, (uint8_t)(1 + id)}},
		        .addr = net_ip(id),
		        .prefix_len = 24,
		        .group = h->group,
		        .group_index = i,
		};

		if (lc->v6) {
			na.addr6 = lc_ip(lc, id);
			na.prefix6_len = 64;
		}
		if (attr != NULL)
			ta = *attr;
		ta.ports = h->ports;
		w->host = h;
		w->index = i;
		TAILQ_INIT(&w->sched.run);
		weft_wheel_init(&w->sched.wheel, sim_now_ns(lc->sim));
		w->sched.rand = sim_rand(lc->sim, 16 * id + i);
		w->sched.now_ns = sim_now_ns(lc->sim);
		CHECK_EQ(weft_netif_create(&na, &ops, w, &w->sched, &w->nif), 0);
		CHECK_EQ(weft_tcp_create(&ta, &w->sched, &w->tcp), 0);
		CHECK_EQ(weft_tcp_listen(w->tcp, &any, 128, LC_PORT, LC_CONNS, lc_accept, w,
		                         &w->listener),
		         0);
		sim_add_node(lc->sim,
		             &(struct sim_node){.poll = lc_poll, .next = lc_next, .arg = w});
	}
}

static struct lc *
lc_up(uint64_t seed, bool v6)
{
	static const struct sim_link_cfg cfg[2] = {{.delay_ns = 20000, .queue_pkts = 20000},
	                                           {.delay_ns = 20000, .queue_pkts = 20000}};
	static struct lc lc;

	memset(&lc, 0, sizeof(lc));
	lc.v6 = v6;
	lc.sim = sim_create(seed, net_pool());
	lc.link = sim_link_create(lc.sim, cfg);
	return &lc;
}

static void
lc_down(struct lc *lc)
{
	struct weft_tcp_port_use use;

	sim_run(lc->sim, sim_now_ns(lc->sim) + WEFT_NS_PER_S, NULL, NULL);
	for (unsigned int id = 0; id < 2; id++) {
		struct lc_host *h = &lc->host[id];

		if (h->n == 0)
			continue;
		for (unsigned int i = h->n; i-- > 0;) {
			struct lc_worker *w = &h->w[i];

			weft_tcp_destroy(w->tcp);
			weft_netif_flush(w->nif, sim_now_ns(lc->sim));
			weft_netif_destroy(w->nif);
			CHECK_EQ(w->sched.wheel.armed, 0);
		}
		weft_tcp_port_use(h->ports, 0, &use);
		CHECK_EQ(use.conns, 0);
		CHECK_EQ(use.time_wait, 0);
		CHECK_EQ(use.listeners, 0);
		weft_netif_group_destroy(h->group);
		weft_tcp_ports_destroy(h->ports);
		if (h->nic != NULL)
			sim_nic_destroy(h->nic);
	}
	sim_destroy(lc->sim);
	CHECK_EQ(rte_mempool_in_use_count(net_pool()), 0);
}

static bool
lc_few_live(void *arg)
{
	return ((struct lc *)arg)->live < 32;
}

static bool
lc_none_live(void *arg)
{
	return ((struct lc *)arg)->live == 0;
}

/** Whether RSS sends the answers to any source port to this worker. */
static bool
lc_reachable(struct lc_worker *w)
{
	struct weft_ip src = lc_ip(w->host->lc, w->host->id),
	               dst = lc_ip(w->host->lc, 1 - w->host->id);
	uint32_t hash;

	for (uint32_t p = WEFT_PORT_FIRST; p <= UINT16_MAX; p++)
		if (sim_nic_steer(&w->host->cfg, &dst, LC_PORT, &src, (uint16_t)p, &hash) ==
		    w->index)
			return true;
	return false;
}

/** Open connections from all workers of host 0, a few dozen at a time. */
static void
lc_traffic(struct lc *lc, unsigned int conns)
{
	struct lc_host *h = &lc->host[0];

	for (unsigned int i = 0; i < conns; i++) {
		struct lc_worker *w = &h->w[sim_random(lc->sim) % h->n];
		int rc = lc_connect(w, LC_PORT, NULL);

		if (rc == -EADDRNOTAVAIL && h->nic != NULL)
			CHECK(!lc_reachable(w));
		else
			CHECK_EQ(rc, 0);
		if (lc->live >= 64)
			CHECK(sim_run(lc->sim, sim_now_ns(lc->sim) + 60 * WEFT_NS_PER_S,
			              lc_few_live, lc));
	}
	CHECK(sim_run(lc->sim, sim_now_ns(lc->sim) + 60 * WEFT_NS_PER_S, lc_none_live, lc));
	CHECK_EQ(lc->failed, 0);
}

static void
lc_sum(const struct lc_host *h, struct weft_netif_group_stats *sum)
{
	memset(sum, 0, sizeof(*sum));
	for (unsigned int i = 0; i < h->n; i++) {
		const struct weft_netif_group_stats *s = weft_netif_group_stats(h->group, i);

		for (unsigned int f = 0; f < sizeof(*s) / sizeof(uint64_t); f++)
			((uint64_t *)sum)[f] += ((const uint64_t *)s)[f];
	}
}

/** Check that no worker received or reset a segment of another worker. */
static void
lc_check_placed(struct lc *lc)
{
	for (unsigned int id = 0; id < 2; id++)
		for (unsigned int i = 0; i < lc->host[id].n; i++) {
			struct lc_worker *w = &lc->host[id].w[i];

			CHECK_EQ(w->misplaced, 0);
			CHECK_EQ(weft_tcp_stats(w->tcp)->rx_no_conn, 0);
		}
}

/* ---- Cases ---- */

static void
test_rss(void)
{
	uint64_t seed = test_seed(1), last = test_seed_given() ? seed : 12;
	unsigned int conns = 0;

	for (; seed <= last; seed++) {
		struct lc *lc = lc_up(seed, seed / 4 % 2 != 0);
		struct weft_netif_group_stats st;

		test_note("seed %" PRIu64, seed);
		lc_host_up(lc, 0, 1 + (unsigned int)(seed % 4), true, false, NULL);
		lc_host_up(lc, 1, 1 + (unsigned int)(sim_random(lc->sim) % 4), true, false, NULL);
		lc_traffic(lc, 350);
		lc_check_placed(lc);
		for (unsigned int id = 0; id < 2; id++) {
			lc_sum(&lc->host[id], &st);
			CHECK_EQ(st.handed_out, 0);
			CHECK_EQ(st.handover_drops, 0);
			CHECK_EQ(st.hash_mismatch, 0);
		}
		for (unsigned int i = 0; i < lc->host[1].n; i++)
			conns += lc->host[1].w[i].accepted;
		lc_down(lc);
	}
	test_note("%u connections", conns);
	CHECK(conns > 200 || test_seed_given());
}

/** Keys without rank, and tables that omit workers. */
static void
test_rss_degenerate(void)
{
	for (unsigned int kind = 0; kind < 4; kind++) {
		struct lc *lc = lc_up(100 + kind, false);
		struct sim_nic_cfg *cfg = &lc->host[0].cfg;
		struct weft_netif_group_stats st;

		lc_random_cfg(lc, cfg, 3);
		for (unsigned int i = 0; i < cfg->reta_size; i++)
			cfg->reta[i] = (uint16_t)(i % 3);
		for (unsigned int i = 0; i < sizeof(cfg->key); i++)
			cfg->key[i] = kind == 0   ? 0
			              : kind == 1 ? (i % 2 == 0 ? 0x6d : 0x5a) /* symmetric */
			              : kind == 2 ? 0xff
			                          : (i == 12 ? 1 : cfg->key[i] & 0xf0);
		lc_host_up(lc, 0, 3, true, false, NULL);
		lc_host_up(lc, 1, 2, true, false, NULL);
		lc_traffic(lc, 60);
		lc_check_placed(lc);
		lc_sum(&lc->host[0], &st);
		CHECK_EQ(st.handed_out, 0);
		/* everything hashes to 0: only the worker of entry 0 can open connections */
		if (kind == 0)
			CHECK(st.no_port > 0);
		lc_down(lc);
	}
}

static void
test_software(void)
{
	uint64_t seed = test_seed(200), last = test_seed_given() ? seed : 207;

	for (; seed <= last; seed++) {
		struct lc *lc = lc_up(seed, seed / 4 % 2 != 0);
		struct weft_netif_group_stats st;

		test_note("seed %" PRIu64, seed);
		lc_host_up(lc, 0, 1 + (unsigned int)(seed % 4), false, seed % 2 == 0, NULL);
		lc_host_up(lc, 1, 1 + (unsigned int)(sim_random(lc->sim) % 4), false, seed % 2 == 0,
		           NULL);
		lc_traffic(lc, 300);
		lc_check_placed(lc);
		for (unsigned int id = 0; id < 2; id++) {
			struct lc_host *h = &lc->host[id];

			lc_sum(h, &st);
			CHECK_EQ(st.handover_drops, 0);
			CHECK(h->n == 1 || st.handed_out > 0);
			CHECK(h->n == 1 || st.copies_out > 0);
			CHECK((h->n > 1 && seed % 2 == 0) == (st.relay_out > 0));
			CHECK_EQ(st.no_port, 0);
			for (unsigned int i = 0; i < h->n; i++)
				CHECK(id == 0 || h->w[i].accepted > 0);
		}
		lc_down(lc);
	}
}

/** The NIC's table changes during the traffic: segments at the wrong queue are passed on. */
static void
test_reta_changed(void)
{
	struct lc *lc = lc_up(test_seed(300), false);
	struct weft_netif_group_stats st;
	struct sim_nic_cfg moved;

	lc_random_cfg(lc, &lc->host[1].cfg, 4);
	for (unsigned int i = 0; i < lc->host[1].cfg.reta_size; i++)
		lc->host[1].cfg.reta[i] = (uint16_t)(i % 4);
	lc_host_up(lc, 0, 2, true, false, NULL);
	lc_host_up(lc, 1, 4, true, false, NULL);
	lc_traffic(lc, 50);
	lc_sum(&lc->host[1], &st);
	CHECK_EQ(st.handed_out, 0);
	moved = lc->host[1].cfg;
	for (unsigned int i = 0; i < moved.reta_size; i++)
		moved.reta[i] = (uint16_t)(sim_random(lc->sim) % 4);
	sim_nic_set(lc->host[1].nic, &moved);
	lc->host[1].steers_otherwise = true;
	lc_traffic(lc, 300);
	lc_check_placed(lc);
	lc_sum(&lc->host[1], &st);
	CHECK(st.handed_out > 0);
	CHECK_EQ(st.handed_out + st.copies_out, st.handed_in);
	lc_down(lc);
}

/** A NIC that hashes by another key than the configured one: the stack detects it, and
 * distributes in software. */
static void
test_hash_wrong(void)
{
	struct lc *lc = lc_up(test_seed(310), false);
	struct weft_netif_group_stats st;
	struct sim_nic_cfg wrong;

	lc_random_cfg(lc, &lc->host[1].cfg, 4);
	lc->host[1].cfg.reports_hash = true;
	lc_host_up(lc, 0, 2, true, false, NULL);
	lc_host_up(lc, 1, 4, true, false, NULL);
	wrong = lc->host[1].cfg;
	for (unsigned int i = 0; i < sizeof(wrong.key); i++)
		wrong.key[i] ^= 0x55;
	sim_nic_set(lc->host[1].nic, &wrong);
	lc->host[1].steers_otherwise = true;
	lc_traffic(lc, 200);
	lc_check_placed(lc);
	lc_sum(&lc->host[1], &st);
	CHECK(st.hash_mismatch > 0 && st.hash_mismatch <= 4);
	CHECK(st.handed_out > 0 && st.adopted > 0);
	lc_down(lc);
}

/** RFC 6056 s3.5: every free port is found, none twice, and then none is left. */
static void
test_ports_unique(void)
{
	struct weft_tcp_attr attr = {
	        .max_conns = 8192, .syn_retries = 1, .rto_min_us = 500, .rto_initial_us = 500};
	static uint8_t seen[UINT16_MAX + 1];
	struct weft_tcp_port_use use;
	struct lc *lc = lc_up(test_seed(400), false);
	struct lc_host *h = &lc->host[0];
	/* no host has this address: the connections stay in SYN-SENT */
	struct weft_ip dst = net_ip(9);
	struct weft_tcp_conn *c;
	unsigned int n = 0;

	memset(seen, 0, sizeof(seen));
	lc_host_up(lc, 0, 3, false, true, &attr);
	for (unsigned int i = 0; i < h->n; i++) {
		struct lc_worker *w = &h->w[i];
		struct weft_tcp_info info;
		int rc;

		while ((rc = weft_tcp_connect(w->tcp, w->nif, NULL, &dst, 80, NULL, NULL, &c)) ==
		       0) {
			weft_tcp_info(c, &info);
			CHECK_EQ(seen[info.local_port]++, 0);
			CHECK_EQ(weft_netif_group_owner(h->group, &info.local, info.local_port,
			                                &info.remote, info.remote_port),
			         i);
			n++;
		}
		CHECK_EQ(rc, -EADDRNOTAVAIL);
	}
	CHECK_EQ(n, WEFT_PORT_COUNT);
	weft_tcp_port_use(h->ports, 0, &use);
	CHECK_EQ(use.conns, WEFT_PORT_COUNT);
	weft_tcp_port_use(h->ports, 50000, &use);
	CHECK_EQ(use.conns, 1);
	/* Another remote port makes another tuple. */
	CHECK_EQ(weft_tcp_connect(h->w[0].tcp, h->w[0].nif, NULL, &dst, 81, NULL, NULL, &c), 0);
	lc_down(lc);
}

static void
lc_listen_all_but(struct lc_worker *w, uint16_t keep)
{
	static const struct weft_ip any;
	struct weft_tcp_listener *l;

	for (uint32_t p = WEFT_PORT_FIRST; p <= UINT16_MAX; p += 512)
		if (p != keep)
			CHECK_EQ(weft_tcp_listen(w->tcp, &any, 128, (uint16_t)p, 1, lc_accept, w,
			                         &l),
			         0);
}

/** A port on which any worker listens is not a source port of any other worker. */
static void
test_listener_elsewhere(void)
{
	struct weft_tcp_attr attr = {
	        .max_conns = 8192, .syn_retries = 1, .rto_min_us = 500, .rto_initial_us = 500};
	struct lc *lc = lc_up(test_seed(410), false);
	struct lc_host *h = &lc->host[0];
	struct weft_ip dst = net_ip(9);
	struct weft_tcp_port_use use;
	struct weft_tcp_conn *c;
	unsigned int n = 0, listeners = 0;

	lc_host_up(lc, 0, 4, false, true, &attr);
	lc_listen_all_but(&h->w[2], 0);
	for (unsigned int i = 0; i < h->n; i++) {
		struct weft_tcp_info info;

		while (weft_tcp_connect(h->w[i].tcp, h->w[i].nif, NULL, &dst, 80, NULL, NULL, &c) ==
		       0) {
			weft_tcp_info(c, &info);
			CHECK(info.local_port % 512 != 0);
			n++;
		}
	}
	for (uint32_t p = WEFT_PORT_FIRST; p <= UINT16_MAX; p++) {
		weft_tcp_port_use(h->ports, (uint16_t)p, &use);
		listeners += use.listeners;
	}
	CHECK_EQ(listeners, WEFT_PORT_COUNT / 512);
	CHECK_EQ(n, WEFT_PORT_COUNT - listeners);
	lc_down(lc);
}

/** A source port that the caller names serves at the worker to which it leads, and once. */
static void
test_port_named(void)
{
	struct weft_tcp_attr attr = {
	        .max_conns = 64, .syn_retries = 1, .rto_min_us = 500, .rto_initial_us = 500};
	struct lc *lc = lc_up(test_seed(411), false);
	struct lc_host *h = &lc->host[0];
	struct weft_ip dst = net_ip(9);
	struct weft_tcp_conn *c;

	lc_host_up(lc, 0, 4, false, true, &attr);
	for (uint16_t port = 700; port < 720; port++) {
		unsigned int owners = 0;

		for (unsigned int i = 0; i < h->n; i++) {
			int rc = weft_tcp_connect_as(h->w[i].tcp, h->w[i].nif, NULL, port, &dst, 80,
			                             WEFT_TCP_DSCP_PORT, NULL, NULL, &c);

			if (rc == -EADDRNOTAVAIL)
				continue;
			CHECK_EQ(rc, 0);
			owners++;
			CHECK_EQ(weft_tcp_connect_as(h->w[i].tcp, h->w[i].nif, NULL, port, &dst, 80,
			                             WEFT_TCP_DSCP_PORT, NULL, NULL, &c),
			         -EADDRINUSE);
		}
		CHECK_EQ(owners, 1);
	}
	for (unsigned int i = 0, used = 0; i < h->n; i++) {
		int rc = weft_tcp_connect_as(h->w[i].tcp, h->w[i].nif, NULL, LC_PORT, &dst, 80,
		                             WEFT_TCP_DSCP_PORT, NULL, NULL, &c);

		/* A listener has it, at each of them. */
		CHECK(rc == -EADDRINUSE || rc == -EADDRNOTAVAIL);
		used += rc == -EADDRINUSE;
		CHECK(used == 1 || i + 1 < h->n);
	}
	lc_down(lc);
}

/** RFC 9293 s3.3.2: a tuple in TIME-WAIT is not used again by any worker. */
static void
test_time_wait(void)
{
	struct weft_tcp_attr attr = {.max_conns = LC_CONNS, .time_wait_us = 60000000};
	struct lc *lc = lc_up(test_seed(420), false);
	struct lc_host *h = &lc->host[0];
	struct weft_tcp_port_use use;
	static uint8_t seen[UINT16_MAX + 1];

	memset(seen, 0, sizeof(seen));
	lc_host_up(lc, 0, 4, false, true, &attr);
	lc_host_up(lc, 1, 3, false, true, NULL);
	lc_traffic(lc, 200);
	weft_tcp_port_use(h->ports, 0, &use);
	/* the end that closes first enters TIME-WAIT (RFC 9293 s3.6) */
	CHECK_EQ(use.time_wait, 200);
	CHECK_EQ(use.conns, 200);
	for (unsigned int i = 0; i < lc->nconn; i++)
		if (lc->conn[i].client)
			CHECK_EQ(seen[lc->conn[i].local_port]++, 0);
	lc_traffic(lc, 200);
	for (unsigned int i = 0; i < lc->nconn; i++)
		if (lc->conn[i].client)
			CHECK(seen[lc->conn[i].local_port]++ <= 1);
	weft_tcp_port_use(h->ports, 0, &use);
	CHECK_EQ(use.time_wait, 400);
	sim_run(lc->sim, sim_now_ns(lc->sim) + 70 * WEFT_NS_PER_S, NULL, NULL);
	weft_tcp_port_use(h->ports, 0, &use);
	CHECK_EQ(use.time_wait, 0);
	lc_down(lc);
}

WEFT_TEST_MAIN({"rss", test_rss}, {"rss_degenerate", test_rss_degenerate},
               {"software", test_software}, {"reta_changed", test_reta_changed},
               {"hash_wrong", test_hash_wrong}, {"ports_unique", test_ports_unique},
               {"listener_elsewhere", test_listener_elsewhere}, {"port_named", test_port_named},
               {"time_wait", test_time_wait})
