/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Two TCP stacks and their applications. */

#include <stdlib.h>

#include "tcp_net.h"
#include "tcp_conn.h"
#include "tcp_life.h"
#include "weft_netif_addr.h"
#include "weft_netif_attr.h"
#include "weft_netif_icmp.h"
#include "weft_netif_neigh.h"
#include "weft_netif_mbuf.h"
#include "weft_netif.h"

#define NET_MBUFS 8191

const struct net_nic *net_nic;

struct rte_mempool *
net_pool(void)
{
	static struct rte_mempool *pool;

	if (pool == NULL) {
		test_eal_init();
		CHECK_EQ(weft_netif_pool_create("tcp_test", NET_MBUFS, 9000, 0, &pool), 0);
	}
	return pool;
}

struct weft_ip
net_ip(unsigned int node)
{
	return weft_ip_from_v4(rte_cpu_to_be_32(0x0a000001 + node));
}

static uint16_t
node_dev_rx(void *dev, struct rte_mbuf **pkts, uint16_t n)
{
	struct net_node *nd = dev;

	return sim_link_dev()->rx(sim_link_dev_arg(nd->net->link, nd->id), pkts, n);
}

/** Checksum of all that a port may read of a packet. */
static uint64_t
packet_sum(const struct rte_mbuf *m)
{
	uint64_t sum = 14695981039346656037ULL;
	unsigned int n = m->nb_segs;

	for (; n > 0; n--, m = m->next) {
		const uint8_t *p = rte_pktmbuf_mtod(m, const uint8_t *);

		for (uint32_t i = 0; i < m->data_len; i++)
			sum = (sum ^ p[i]) * 1099511628211ULL;
	}
	return sum;
}

void
net_unkeep(struct net_node *nd, unsigned int left)
{
	unsigned int gone = nd->nkept > left ? nd->nkept - left : 0;

	for (unsigned int i = 0; i < gone; i++) {
		CHECK_EQ(packet_sum(nd->kept[i].m), nd->kept[i].sum);
		rte_pktmbuf_free(nd->kept[i].m);
	}
	nd->nkept -= gone;
	memmove(nd->kept, nd->kept + gone, nd->nkept * sizeof(nd->kept[0]));
}

static void
node_keep(struct net_node *nd, struct rte_mbuf **pkts, uint16_t n)
{
	for (uint16_t i = 0; i < n; i++) {
		net_unkeep(nd, nd->tx_keep - 1);
		for (struct rte_mbuf *s = pkts[i]; s != NULL; s = s->next)
			rte_mbuf_refcnt_update(s, 1);
		nd->kept[nd->nkept].m = pkts[i];
		nd->kept[nd->nkept++].sum = packet_sum(pkts[i]);
	}
}

void
net_wire(struct net_node *nd, struct rte_mbuf *m)
{
	CHECK_EQ(sim_link_dev()->tx(sim_link_dev_arg(nd->net->link, nd->id), &m, 1), 1);
}

static uint16_t
node_dev_tx(void *dev, struct rte_mbuf **pkts, uint16_t n)
{
	struct net_node *nd = dev;

	if (nd->lost_power) {
		rte_pktmbuf_free_bulk(pkts, n);
		return n;
	}
	if (nd->tx_stuck)
		return 0;
	if (nd->tx_limit != 0)
		n = (uint16_t)RTE_MIN((unsigned int)n, nd->tx_limit - nd->tx_used);
	nd->tx_used += n;
	if (nd->tx_keep != 0)
		node_keep(nd, pkts, n);
	if (nd->nic != NULL) {
		nd->nic->tx(nd, pkts, n);
		return n;
	}
	return n == 0 ? 0 : sim_link_dev()->tx(sim_link_dev_arg(nd->net->link, nd->id), pkts, n);
}

static const struct weft_netif_dev node_dev = {.rx = node_dev_rx, .tx = node_dev_tx};

static void
node_poll(void *arg, uint64_t now_ns)
{
	struct net_node *nd = arg;

	if (now_ns < nd->held_until_ns)
		return;
	nd->sched.now_ns = now_ns;
	nd->tx_used = 0;
	weft_netif_poll(nd->nif, now_ns);
	weft_timer_run(&nd->sched.wheel, now_ns);
	weft_sched_run(&nd->sched, now_ns);
	weft_netif_flush(nd->nif, now_ns);
}

static uint64_t
node_next(void *arg)
{
	struct net_node *nd = arg;

	if (sim_now_ns(nd->net->sim) < nd->held_until_ns)
		return nd->held_until_ns;
	if (weft_netif_tx_room(nd->nif) < WEFT_NETIF_TXQ)
		return nd->sched.now_ns + 10 * WEFT_NS_PER_US;
	if (!TAILQ_EMPTY(&nd->sched.run))
		return 0;
	return weft_timer_next(&nd->sched.wheel);
}

static void
node_tcp_rx(void *arg, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n, uint64_t now_ns)
{
	struct net_node *nd = arg;

	if (!nd->raw) {
		weft_tcp_rx(nd->tcp, nif, m, n, now_ns);
		return;
	}
	for (unsigned int i = 0; i < n; i++) {
		const uint8_t *p = rte_pktmbuf_mtod(m[i], const uint8_t *);
		struct net_seg *s = &nd->segs[nd->nsegs++];
		int len = tcp_wire_decode(p, m[i]->data_len, &s->h);

		CHECK(nd->nsegs < NET_SEGS && len > 0);
		CHECK_EQ(tcp_wire_decode_opts(p + TCP_HDR_LEN, (uint32_t)len - TCP_HDR_LEN,
		                              &s->opts),
		         0);
		s->len_bytes = m[i]->pkt_len - (uint32_t)len;
		s->first = s->len_bytes > 0 ? p[len] : 0;
		s->at_ns = now_ns;
		s->ecn = weft_mbuf_priv(m[i])->rx.ecn;
		s->bad = 0;
		for (uint32_t k = 0; nd->expect_key != 0 && k < s->len_bytes; k++)
			s->bad += p[(uint32_t)len + k] !=
			          net_stream(nd->expect_key, s->h.seq - nd->expect_seq + k);
		rte_pktmbuf_free(m[i]);
	}
}

static void
node_icmp_error(void *arg, struct weft_netif *nif, const struct weft_icmp_error *e, uint64_t now_ns)
{
	weft_tcp_icmp_error(((struct net_node *)arg)->tcp, nif, e, now_ns);
}

static const struct weft_netif_ops net_ops = {.tcp_rx = node_tcp_rx, .icmp_error = node_icmp_error};

/** If WEFT_TCP_TRACE is set, print a line for each TCP segment when it is sent. */
static void
net_trace(void *arg, unsigned int from, bool delivered, const uint8_t *f, uint32_t len,
          uint64_t now_ns)
{
	const uint8_t *t = f + 14 + 20;

	(void)arg;
	if (delivered || len < 54 || f[12] != 8 || f[13] != 0 || f[23] != 6)
		return;
	printf("# %llu.%06u %u> %s%s%s%s%s seq %u ack %u wnd %u len %u\n", now_ns / WEFT_NS_PER_MS,
	       (unsigned int)(now_ns % WEFT_NS_PER_MS), from, t[13] & TCP_SYN ? "S" : "",
	       t[13] & TCP_FIN ? "F" : "", t[13] & TCP_RST ? "R" : "", t[13] & TCP_PSH ? "P" : "",
	       t[13] & TCP_ACK ? "A" : "", weft_get_be32(t + 4), weft_get_be32(t + 8),
	       weft_get_be16(t + 14), weft_get_be16(f + 16) - 20u - (t[12] >> 4) * 4u);
}

void
net_up(struct net *n, uint64_t seed, const struct sim_link_cfg cfg[2],
       const struct weft_tcp_attr attr[2], uint16_t mtu_bytes)
{
	static const struct sim_link_cfg plain[2];

	memset(n, 0, sizeof(*n));
	CHECK_EQ(rte_mempool_avail_count(net_pool()), NET_MBUFS);
	n->sim = sim_create(seed, net_pool());
	n->link = sim_link_create(n->sim, cfg != NULL ? cfg : plain);
	if (getenv("WEFT_TCP_TRACE") != NULL)
		sim_link_tap(n->link, net_trace, n);
	for (unsigned int i = 0; i < 2; i++) {
		struct net_node *nd = &n->node[i];

		nd->net = n;
		nd->id = i;
		nd->nic = net_nic;
		TAILQ_INIT(&nd->sched.run);
		weft_wheel_init(&nd->sched.wheel, sim_now_ns(n->sim));
		nd->sched.rand = sim_rand(n->sim, i);
		nd->sched.now_ns = sim_now_ns(n->sim);
		nd->nif_attr = (struct weft_netif_attr){
		        .dev = &node_dev,
		        .dev_arg = nd,
		        .pool = net_pool(),
		        .mac = {.addr_bytes = {2, 0, 0, 0, 0, (uint8_t)(1 + i)}},
		        .addr = net_ip(i),
		        .prefix_len = 24,
		        .mtu_bytes = mtu_bytes,
		        .tx_offloads = net_nic != NULL ? net_nic->tx_offloads : 0,
		        .tx_mbufs_max = net_nic != NULL ? net_nic->tx_mbufs_max : 0,
		};
		CHECK_EQ(weft_netif_create(&nd->nif_attr, &net_ops, nd, &nd->sched, &nd->nif), 0);
		CHECK_EQ(weft_tcp_create(attr != NULL ? &attr[i] : NULL, &nd->sched, &nd->tcp), 0);
		sim_add_node(n->sim,
		             &(struct sim_node){.poll = node_poll, .next = node_next, .arg = nd});
	}
}

void
net_down(struct net *n)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct net_node *nd = &n->node[i];

		if (nd->raw_neigh != NULL)
			weft_netif_neigh_put(nd->nif, nd->raw_neigh);
		weft_tcp_destroy(nd->tcp);
		weft_netif_flush(nd->nif, sim_now_ns(n->sim));
		net_unkeep(nd, 0);
		weft_netif_destroy(nd->nif);
		CHECK_EQ(nd->sched.wheel.armed, 0);
		CHECK(TAILQ_EMPTY(&nd->sched.run));
	}
	sim_destroy(n->sim);
	n->sim = NULL;
	CHECK_EQ(rte_mempool_avail_count(net_pool()), NET_MBUFS);
}

void
net_discard(struct net *n)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct net_node *nd = &n->node[i];

		nd->lost_power = true;
		if (nd->raw_neigh != NULL)
			weft_netif_neigh_put(nd->nif, nd->raw_neigh);
		weft_tcp_destroy(nd->tcp);
		weft_netif_destroy(nd->nif);
	}
	sim_destroy(n->sim);
	n->sim = NULL;
}

void
net_restart(struct net *n, unsigned int node, const struct weft_tcp_attr *attr)
{
	struct net_node *nd = &n->node[node];

	nd->lost_power = true;
	weft_tcp_destroy(nd->tcp);
	weft_netif_flush(nd->nif, sim_now_ns(n->sim));
	weft_netif_destroy(nd->nif);
	CHECK_EQ(nd->sched.wheel.armed, 0);
	CHECK(TAILQ_EMPTY(&nd->sched.run));
	nd->lost_power = false;
	for (unsigned int i = 0; i < n->napps; i++) {
		if (n->app[i].node != nd || n->app[i].closed)
			continue;
		n->app[i].c = NULL;
		n->app[i].closed = true;
	}
	if (n->listen_node == node)
		n->listener = NULL;
	nd->sched.now_ns = sim_now_ns(n->sim);
	CHECK_EQ(weft_netif_create(&nd->nif_attr, &net_ops, nd, &nd->sched, &nd->nif), 0);
	CHECK_EQ(weft_tcp_create(attr, &nd->sched, &nd->tcp), 0);
}

void
net_check_idle(struct net *n)
{
	sim_run(n->sim, sim_now_ns(n->sim) + 200 * WEFT_NS_PER_S, NULL, NULL);
	for (unsigned int i = 0; i < 2; i++) {
		CHECK_EQ(weft_tcp_stats(n->node[i].tcp)->conns_now, 0);
		CHECK_EQ(n->node[i].sched.wheel.armed, 0);
	}
	CHECK_EQ(rte_mempool_avail_count(net_pool()), NET_MBUFS);
}

/* ---- Applications ---- */

uint8_t
net_stream(uint8_t key, uint64_t off)
{
	return (uint8_t)(key + off * 131 + (off >> 8) * 31 + (off >> 16) * 7);
}

void
net_app_push(struct net_app *a)
{
	struct sim *s = a->node->net->sim;

	if (a->push != NULL && a->c != NULL) {
		a->push(a);
		return;
	}
	while (a->c != NULL && a->sent < a->to_send) {
		uint32_t mss = weft_tcp_mss(a->c), len;
		struct rte_mbuf *m;
		uint8_t *p;

		if (weft_tcp_send_space(a->c) == 0)
			return;
		m = weft_tcp_alloc(a->c);
		if (m == NULL)
			return;
		len = a->max_seg == 0 ? mss : 1 + sim_random(s) % RTE_MIN(a->max_seg, mss);
		len = (uint32_t)RTE_MIN((uint64_t)len, a->to_send - a->sent);
		p = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)len);
		for (uint32_t i = 0; i < len; i++)
			p[i] = net_stream(a->tx_key, a->sent + i);
		a->sent += len;
		CHECK_EQ(weft_tcp_send(a->c, m, a->sent == a->to_send, a->node->sched.now_ns), 0);
	}
	if (a->c != NULL && a->close_when_sent && a->sent == a->to_send)
		weft_tcp_close(a->c, a->node->sched.now_ns);
}

void
net_raw(struct net *n, const struct tcp_hdr *h, const struct tcp_opts *o, uint32_t off,
        uint32_t len)
{
	struct net_node *nd = &n->node[1];
	struct weft_ip src = net_ip(1), dst = net_ip(0);
	struct rte_mbuf *m = weft_netif_alloc(nd->nif, 128);
	struct tcp_hdr hdr = *h;
	uint8_t *p;

	CHECK(m != NULL);
	if (nd->raw_neigh == NULL)
		CHECK_EQ(weft_netif_neigh_get(nd->nif, NULL, &dst, &nd->raw_neigh), 0);
	p = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)(TCP_HDR_MAX_LEN + len));
	hdr.hdr_len_bytes = TCP_HDR_LEN;
	if (o != NULL)
		hdr.hdr_len_bytes += (uint8_t)tcp_wire_encode_opts(p + TCP_HDR_LEN, o);
	tcp_wire_encode(p, &hdr);
	for (uint32_t i = 0; i < len; i++)
		p[hdr.hdr_len_bytes + i] = net_stream(200, off + i);
	rte_pktmbuf_trim(m, TCP_HDR_MAX_LEN - hdr.hdr_len_bytes);
	CHECK_EQ(weft_netif_tx(nd->nif, nd->raw_neigh, &src, &dst, m,
	                       (struct weft_netif_tx_how){.ecn = nd->raw_ecn}, sim_now_ns(n->sim)),
	         0);
	weft_netif_flush(nd->nif, sim_now_ns(n->sim));
}

static void
app_die(struct net_app *a)
{
	weft_tcp_abort(a->c, a->node->sched.now_ns);
	a->c = NULL;
	a->closed = true;
}

static void
app_established(void *user)
{
	struct net_app *a = user;

	a->established = true;
	if (a->abort_on_established)
		app_die(a);
	else
		net_app_push(a);
}

static void
app_rx(void *user, struct rte_mbuf *m, uint64_t now_ns)
{
	struct net_app *a = user;
	uint32_t total = 0;

	(void)now_ns;
	for (const struct rte_mbuf *s = m; s != NULL; s = s->next) {
		const uint8_t *p = rte_pktmbuf_mtod(s, const uint8_t *);

		for (uint32_t i = 0; i < s->data_len; i++)
			if (p[i] != net_stream(a->rx_key, a->received + i))
				a->bad_data = true;
		a->received += s->data_len;
		total += s->data_len;
	}
	if (total != m->pkt_len || total == 0)
		a->bad_data = true;
	rte_pktmbuf_free(m);
	a->rx_calls++;
	if (a->eof || a->closed)
		a->torn = true;
	if (a->abort_on_rx)
		app_die(a);
}

static void
app_writable(void *user)
{
	struct net_app *a = user;

	a->writables++;
	net_app_push(a);
}

static void
app_eof(void *user)
{
	struct net_app *a = user;

	if (a->eof)
		a->torn = true;
	a->eof = true;
	if (a->abort_on_eof)
		app_die(a);
	else if (a->close_on_eof)
		weft_tcp_close(a->c, a->node->sched.now_ns);
}

static void
app_closed(void *user, int err)
{
	struct net_app *a = user;

	if (a->closed)
		a->torn = true;
	a->closed = true;
	a->err = err;
	a->c = NULL;
}

static void
app_mss(void *user, uint16_t mss_bytes)
{
	struct net_app *a = user;

	a->mss_calls++;
	a->mss = mss_bytes;
	if (mss_bytes != weft_tcp_mss(a->c))
		a->torn = true;
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
net_accept(void *arg, struct weft_tcp_conn *c)
{
	struct net *n = arg;
	struct net_app *a;

	n->accepted++;
	if (n->refuse)
		return -ECONNREFUSED;
	CHECK(n->napps < NET_APPS);
	a = &n->app[n->napps++];
	*a = n->accept_as;
	a->node = &n->node[n->listen_node];
	a->c = c;
	a->established = true;
	a->tx_key = n->listen_node == 1 ? 200 : 100;
	a->rx_key = n->listen_node == 1 ? 100 : 200;
	weft_tcp_set_user(c, &app_ops, a);
	if (a->abort_on_established)
		app_die(a);
	else
		net_app_push(a);
	return 0;
}

void
net_listen(struct net *n, unsigned int node)
{
	static const struct weft_ip any;

	CHECK_EQ(weft_tcp_listen(n->node[node].tcp, &any, 128, 7, 16, net_accept, n, &n->listener),
	         0);
	n->listen_node = node;
}

struct net_app *
net_connect(struct net *n, unsigned int from, uint16_t port)
{
	struct net_app *a = &n->app[n->napps++];
	struct weft_ip dst = net_ip(1 - from);

	CHECK(n->napps <= NET_APPS);
	memset(a, 0, sizeof(*a));
	a->node = &n->node[from];
	a->node->sched.now_ns = sim_now_ns(n->sim);
	a->tx_key = from == 0 ? 100 : 200;
	a->rx_key = from == 0 ? 200 : 100;
	a->close_on_eof = true;
	CHECK_EQ(weft_tcp_connect(a->node->tcp, a->node->nif, NULL, &dst, port, &app_ops, a, &a->c),
	         0);
	return a;
}

int
net_connect_from(struct net_app *a, uint16_t src_port, uint16_t dst_port)
{
	struct weft_ip dst = net_ip(1 - a->node->id);

	a->node->sched.now_ns = sim_now_ns(a->node->net->sim);
	return tcp_open(a->node->tcp, a->node->nif, weft_netif_src(a->node->nif, &dst), src_port,
	                &dst, dst_port, WEFT_TCP_DSCP_PORT, &app_ops, a, &a->c);
}

bool
net_run(struct net *n, uint64_t ns, bool (*done)(void *arg), void *arg)
{
	return sim_run(n->sim, sim_now_ns(n->sim) + ns, done, arg);
}

static bool
all_closed(void *arg)
{
	struct net *n = arg;

	for (unsigned int i = 0; i < n->napps; i++)
		if (!n->app[i].closed)
			return false;
	return true;
}

bool
net_run_closed(struct net *n, uint64_t ns)
{
	return net_run(n, ns, all_closed, n);
}

enum weft_tcp_state
net_state(const struct net_app *a)
{
	struct weft_tcp_info info;

	if (a->c == NULL)
		return WEFT_TCP_CLOSED;
	weft_tcp_info(a->c, &info);
	return info.state;
}
