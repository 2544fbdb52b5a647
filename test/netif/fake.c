/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The simulated port and the frame builder. */

#include <limits.h>
#include <stdlib.h>

#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_mempool.h>

#include "fake.h"
#include "weft_netif.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_stats.h"

const struct rte_ether_addr fake_us_mac = {{2, 0, 0, 0, 0, 1}};
const struct rte_ether_addr fake_peer_mac = {{2, 0, 0, 0, 0, 2}};
const struct rte_ether_addr fake_all_mac = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

struct rte_mempool *fake_pool, *fake_foreign;
bool fake_hw;

/* ---- The checksum unit of a NIC ---- */

struct nic_frame {
	uint32_t l3, l4, l4_len;
	uint32_t pseudo;
	bool v4;
};

/* Finds TCP as a NIC does that parses one VLAN tag and no IPv6 extension header. */
static bool
nic_parse(const uint8_t *p, uint32_t len, struct nic_frame *n)
{
	uint16_t type;

	*n = (struct nic_frame){.l3 = 14};
	if (len < 34)
		return false;
	type = weft_get_be16(p + 12);
	if (type == 0x8100) {
		n->l3 = 18;
		type = weft_get_be16(p + 16);
	}
	if (type == 0x0800 && p[n->l3] >> 4 == 4 && len >= n->l3 + 20) {
		uint32_t total = weft_get_be16(p + n->l3 + 2), ihl = (p[n->l3] & 15) * 4u;

		n->v4 = true;
		n->l4 = n->l3 + ihl;
		n->l4_len = total - ihl;
		if (ihl < 20 || total < ihl || n->l3 + total > len || p[n->l3 + 9] != IPPROTO_TCP ||
		    (weft_get_be16(p + n->l3 + 6) & 0x3fff) != 0)
			return false;
		n->pseudo = fake_pseudo(weft_get_be32(p + n->l3 + 12),
		                        weft_get_be32(p + n->l3 + 16), IPPROTO_TCP, n->l4_len);
		return n->l4_len >= 20;
	}
	if (type == 0x86dd && p[n->l3] >> 4 == 6 && len >= n->l3 + 40) {
		n->l4 = n->l3 + 40;
		n->l4_len = weft_get_be16(p + n->l3 + 4);
		if (p[n->l3 + 6] != IPPROTO_TCP || n->l4 + n->l4_len > len || n->l4_len < 20)
			return false;
		n->pseudo = (uint16_t)~fake_cksum(p + n->l3 + 8, 32, IPPROTO_TCP + n->l4_len);
		return true;
	}
	return false;
}

static void
nic_rx(struct rte_mbuf *m, const uint8_t *p, uint32_t len)
{
	struct nic_frame n;

	if (!nic_parse(p, len, &n))
		return;
	if (n.v4)
		m->ol_flags |= fake_cksum(p + n.l3, n.l4 - n.l3, 0) == 0
		                       ? RTE_MBUF_F_RX_IP_CKSUM_GOOD
		                       : RTE_MBUF_F_RX_IP_CKSUM_BAD;
	m->ol_flags |= fake_cksum(p + n.l4, n.l4_len, n.pseudo) == 0 ? RTE_MBUF_F_RX_L4_CKSUM_GOOD
	                                                             : RTE_MBUF_F_RX_L4_CKSUM_BAD;
}

static void
nic_tx(struct rte_mbuf *m)
{
	static uint8_t buf[70000];
	const uint8_t *q = rte_pktmbuf_read(m, 0, m->pkt_len, buf);
	uint8_t *p = rte_pktmbuf_mtod(m, uint8_t *);
	struct nic_frame n;

	CHECK(m->pkt_len <= sizeof(buf));
	if ((m->ol_flags & RTE_MBUF_F_TX_TCP_CKSUM) == 0)
		return;
	CHECK_EQ(rte_validate_tx_offload(m), 0);
	CHECK(nic_parse(q, m->pkt_len, &n));
	CHECK_EQ(m->l2_len, n.l3);
	CHECK_EQ(m->l3_len, n.l4 - n.l3);
	CHECK_EQ(m->l4_len, (q[n.l4 + 12] >> 4) * 4);
	CHECK_EQ((m->ol_flags & RTE_MBUF_F_TX_IPV4) != 0, n.v4);
	CHECK_EQ((m->ol_flags & RTE_MBUF_F_TX_IPV6) != 0, !n.v4);
	/* The stack writes the checksum of the pseudo-header only (rte_mbuf_core.h). */
	CHECK_EQ(weft_get_be16(q + n.l4 + 16), (uint16_t)~fake_cksum(q, 0, n.pseudo));
	weft_put_be16(p + n.l4 + 16, fake_cksum(q + n.l4, n.l4_len, 0));
	if (n.v4) {
		CHECK((m->ol_flags & RTE_MBUF_F_TX_IP_CKSUM) != 0);
		CHECK_EQ(weft_get_be16(q + n.l3 + 10), 0);
		weft_put_be16(p + n.l3 + 10, fake_cksum(p + n.l3, 20, 0));
	}
}

static uint16_t
fake_dev_rx(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
	struct fake *f = arg;
	uint16_t got = (uint16_t)RTE_MIN((unsigned int)n, f->nrx);

	f->asked_least = RTE_MIN(f->asked_least, (unsigned int)n);
	memcpy(pkts, f->rxq, got * sizeof(pkts[0]));
	f->nrx -= got;
	memmove(f->rxq, f->rxq + got, f->nrx * sizeof(f->rxq[0]));
	return got;
}

static uint16_t
fake_dev_tx(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
	struct fake *f = arg;
	uint16_t took = (uint16_t)RTE_MIN((unsigned int)n, f->tx_room);

	CHECK(f->ntx + took <= FAKE_QUEUE);
	memcpy(f->txq + f->ntx, pkts, took * sizeof(pkts[0]));
	for (uint16_t i = 0; i < took; i++)
		if (fake_hw)
			nic_tx(pkts[i]);
	f->ntx += took;
	f->tx_room -= took;
	return took;
}

static bool
fake_dev_link(void *arg)
{
	const struct fake *f = arg;

	return !f->no_link;
}

static int
fake_dev_tx_reset(void *arg)
{
	struct fake *f = arg;

	f->resets++;
	return f->reset_rc;
}

static int
fake_dev_arm(void *arg, bool on)
{
	struct fake *f = arg;

	if (f->wake_fd == 0)
		return -ENOTSUP;
	f->arms += on;
	f->armed = on;
	return f->wake_fd;
}

static int
fake_dev_tx_count(void *dev, uint64_t *packets)
{
	const struct fake *f = dev;

	*packets = f->tx_counted;
	return f->tx_count_rc;
}

static const struct weft_netif_dev fake_dev = {.rx = fake_dev_rx,
                                               .tx = fake_dev_tx,
                                               .link = fake_dev_link,
                                               .tx_reset = fake_dev_tx_reset,
                                               .tx_count = fake_dev_tx_count,
                                               .arm = fake_dev_arm};

static void
fake_tcp_rx(void *arg, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n, uint64_t now_ns)
{
	struct fake *f = arg;

	CHECK(nif == f->nif && n >= 1 && n <= WEFT_NETIF_BURST);
	CHECK_EQ(now_ns, f->now_ns);
	for (unsigned int i = 0; i < n; i++) {
		const char *why;

		CHECK_MSG(rte_mbuf_check(m[i], 1, &why) == 0, "%s", why);
		for (struct rte_mbuf *s = m[i]; s != NULL; s = s->next)
			CHECK(s->pool == weft_netif_attr(nif)->pool &&
			      rte_mbuf_refcnt_read(s) == 1);
		CHECK(m[i]->pkt_len >= 20);
		CHECK(m[i]->data_len >= RTE_MIN(m[i]->pkt_len, 60u));
		f->up[f->nup++] = m[i];
	}
	f->bursts++;
}

static void
fake_icmp_error(void *arg, struct weft_netif *nif, const struct weft_icmp_error *e, uint64_t now_ns)
{
	struct fake *f = arg;

	(void)now_ns;
	CHECK(nif == f->nif);
	f->unreachable.n++;
	f->unreachable.src = e->src;
	f->unreachable.dst = e->dst;
	f->unreachable.mtu_bytes = e->mtu_bytes;
	f->unreachable.src_port = e->src_port;
	f->unreachable.dst_port = e->dst_port;
	f->unreachable.seq = e->seq;
	f->unreachable.kind = e->kind;
}

static void
fake_pools(void)
{
	test_eal_init();
	if (fake_pool != NULL)
		return;
	CHECK_EQ(weft_netif_pool_create("fake", 8191, 1500, SOCKET_ID_ANY, &fake_pool), 0);
	CHECK_EQ(weft_netif_pool_create("fake_foreign", 511, 1500, SOCKET_ID_ANY, &fake_foreign),
	         0);
}

struct weft_netif_attr
fake_attr(struct fake *f)
{
	fake_pools();
	return (struct weft_netif_attr){
	        .dev = &fake_dev,
	        .dev_arg = f,
	        .pool = fake_pool,
	        .mac = fake_us_mac,
	        .addr = weft_ip_from_v4(rte_cpu_to_be_32(FAKE_US)),
	        .prefix_len = 24,
	        .gateway = weft_ip_from_v4(rte_cpu_to_be_32(FAKE_GW)),
	        .no_ipv6 = true,
	        .rx_offloads = fake_hw ? RTE_ETH_RX_OFFLOAD_CHECKSUM : 0,
	        .tx_offloads =
	                fake_hw ? RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM : 0,
	};
}

uint64_t fake_seed;

static void
fake_fill(void *arg, void *buf, size_t len)
{
	(void)arg;
	for (size_t i = 0; i < len; i++) {
		fake_seed = fake_seed * 6364136223846793005ULL + 1442695040888963407ULL;
		((uint8_t *)buf)[i] = (uint8_t)(fake_seed >> 56);
	}
}

void
fake_create(struct fake *f, const struct weft_netif_attr *attr)
{
	static const struct weft_netif_ops ops = {.tcp_rx = fake_tcp_rx,
	                                          .icmp_error = fake_icmp_error};
	struct weft_netif_attr dflt;

	fake_pools();
	memset(f, 0, sizeof(*f));
	/* An earlier case that failed may have left mbufs. They do not count against this case. */
	f->in_use[0] = rte_mempool_in_use_count(fake_pool);
	f->in_use[1] = rte_mempool_in_use_count(fake_foreign);
	f->now_ns = 1000 * WEFT_NS_PER_S;
	f->tx_room = FAKE_QUEUE;
	f->asked_least = UINT_MAX;
	f->sched.now_ns = f->now_ns;
	if (fake_seed != 0)
		f->sched.rand = (struct weft_rand){.fill = fake_fill};
	TAILQ_INIT(&f->sched.run);
	weft_wheel_init(&f->sched.wheel, f->now_ns);
	dflt = fake_attr(f);
	CHECK_EQ(weft_netif_create(attr != NULL ? attr : &dflt, &ops, f, &f->sched, &f->nif), 0);
}

void
fake_start(struct fake *f, const struct weft_netif_attr *attr)
{
	const struct weft_netif_attr *a;
	unsigned int v4;

	fake_create(f, attr);
	fake_poll(f);
	a = weft_netif_attr(f->nif);
	v4 = weft_ip_is_v4(&a->addr);
	for (unsigned int i = 0; i < a->nnets; i++)
		v4 += weft_ip_is_v4(&a->nets[i].addr);
	if (a->no_ipv6)
		CHECK_EQ(f->ntx, v4);
	CHECK_EQ(weft_netif_stats(f->nif)->arp_tx, v4);
	fake_drop(f);
}

void
fake_drop(struct fake *f)
{
	rte_pktmbuf_free_bulk(f->txq, f->ntx);
	rte_pktmbuf_free_bulk(f->up, f->nup);
	f->ntx = f->nup = f->bursts = 0;
	f->tx_room = FAKE_QUEUE;
	f->asked_least = UINT_MAX;
}

void
fake_stop(struct fake *f)
{
	fake_drop(f);
	weft_netif_destroy(f->nif);
	CHECK_EQ(f->sched.wheel.armed, 0);
	CHECK_EQ(rte_mempool_in_use_count(fake_pool), f->in_use[0]);
	CHECK_EQ(rte_mempool_in_use_count(fake_foreign), f->in_use[1]);
}

void
fake_poll(struct fake *f)
{
	f->sched.now_ns = f->now_ns;
	while (weft_netif_poll(f->nif, f->now_ns) > 0)
		;
	weft_timer_run(&f->sched.wheel, f->now_ns);
	weft_netif_flush(f->nif, f->now_ns);
}

void
fake_pass(struct fake *f, uint64_t ns)
{
	for (uint64_t end = f->now_ns + ns; f->now_ns < end;) {
		f->now_ns = RTE_MIN(end, f->now_ns + 100 * WEFT_NS_PER_MS);
		fake_poll(f);
	}
}

static void
extbuf_free(void *addr, void *opaque)
{
	free(addr);
	free(opaque);
}

struct rte_mbuf *
fake_rx(struct fake *f, const void *frame, uint32_t len, enum fake_how how, uint32_t arg)
{
	struct rte_mempool *pool =
	        how == FAKE_FOREIGN || how == FAKE_EXTBUF ? fake_foreign : fake_pool;
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	const uint8_t *p = frame;

	CHECK(m != NULL && f->nrx < FAKE_QUEUE);
	if (how == FAKE_CHAIN) {
		struct rte_mbuf *last = m;

		for (uint32_t off = 0; off < len; off += arg) {
			uint32_t n = RTE_MIN(arg, len - off);

			if (off > 0) {
				last->next = rte_pktmbuf_alloc(pool);
				CHECK(last->next != NULL);
				last = last->next;
				m->nb_segs++;
			}
			memcpy(rte_pktmbuf_mtod(last, void *), p + off, n);
			last->data_len = (uint16_t)n;
		}
		m->pkt_len = len;
	} else if (how == FAKE_EXTBUF) {
		struct rte_mbuf_ext_shared_info *info = calloc(1, sizeof(*info));
		void *mem = malloc(RTE_MAX(len, 1u));

		info->free_cb = extbuf_free;
		info->fcb_opaque = info;
		rte_mbuf_ext_refcnt_set(info, 1);
		rte_pktmbuf_attach_extbuf(m, mem, RTE_BAD_IOVA, (uint16_t)len, info);
		m->data_off = 0;
		m->data_len = (uint16_t)len;
		m->pkt_len = len;
		memcpy(mem, frame, len);
	} else {
		void *d = rte_pktmbuf_append(m, (uint16_t)len);

		CHECK(d != NULL);
		memcpy(d, frame, len);
	}
	if (fake_hw)
		nic_rx(m, frame, len);
	if (how == FAKE_SHARED)
		rte_mbuf_refcnt_update(m, 1);
	f->rxq[f->nrx++] = m;
	return m;
}

uint16_t
fake_cksum(const void *buf, uint32_t len, uint32_t start)
{
	const uint8_t *p = buf;
	uint64_t sum = start;

	for (uint32_t i = 0; i < len; i++)
		sum += (i & 1) != 0 ? p[i] : (uint32_t)p[i] << 8;
	while (sum > 0xffff)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

uint32_t
fake_pseudo(uint32_t src, uint32_t dst, uint8_t proto, uint32_t len)
{
	return (src >> 16) + (src & 0xffff) + (dst >> 16) + (dst & 0xffff) + proto + len;
}

void
fake_fix(uint8_t *frame)
{
	uint8_t *ip = frame + 14, *l4;
	uint32_t ihl = (ip[0] & 0xf) * 4u, len = weft_get_be16(ip + 2) - ihl;

	l4 = ip + ihl;
	weft_put_be16(ip + 10, 0);
	weft_put_be16(ip + 10, fake_cksum(ip, ihl, 0));
	if (ip[9] == IPPROTO_TCP) {
		weft_put_be16(l4 + 16, 0);
		weft_put_be16(l4 + 16,
		              fake_cksum(l4, len,
		                         fake_pseudo(weft_get_be32(ip + 12), weft_get_be32(ip + 16),
		                                     IPPROTO_TCP, len)));
	} else if (ip[9] == IPPROTO_ICMP) {
		weft_put_be16(l4 + 2, 0);
		weft_put_be16(l4 + 2, fake_cksum(l4, len, 0));
	}
}

uint32_t
fake_build(uint8_t *frame, const struct fake_pkt *p)
{
	uint8_t proto = p->proto != 0 ? p->proto : IPPROTO_TCP;
	uint32_t ihl = 20 + p->ip_opt, l4h = proto == IPPROTO_TCP ? 20u + p->tcp_opt : 0;
	uint32_t total = ihl + l4h + p->data;
	uint8_t *ip = frame + 14, *l4 = ip + ihl;

	memset(frame, 0, 14 + ihl + l4h);
	memcpy(frame, &fake_us_mac, 6);
	memcpy(frame + 6, &fake_peer_mac, 6);
	weft_put_be16(frame + 12, 0x0800);
	ip[0] = (uint8_t)(0x40 | ihl / 4);
	ip[1] = p->tos;
	weft_put_be16(ip + 2, (uint16_t)total);
	weft_put_be16(ip + 4, 0x1234);
	weft_put_be16(ip + 6, p->frag);
	ip[8] = p->ttl != 0 ? p->ttl : 64;
	ip[9] = proto;
	weft_put_be32(ip + 12, p->src != 0 ? p->src : FAKE_PEER);
	weft_put_be32(ip + 16, p->dst != 0 ? p->dst : FAKE_US);
	memset(ip + 20, 1, p->ip_opt);
	if (proto == IPPROTO_TCP) {
		weft_put_be16(l4, 5000);
		weft_put_be16(l4 + 2, 6000);
		weft_put_be32(l4 + 4, 0x01020304);
		l4[12] = (uint8_t)(l4h / 4 << 4);
		l4[13] = 0x10;
		memset(l4 + 20, 1, p->tcp_opt);
	}
	for (uint32_t i = 0; i < p->data; i++)
		l4[l4h + i] = (uint8_t)(i * 7 + 3);
	fake_fix(frame);
	return 14 + total;
}

uint32_t
fake_arp(uint8_t *frame, uint16_t op, const struct rte_ether_addr *sha, uint32_t sip, uint32_t tip)
{
	static const uint8_t fixed[8] = {0, 1, 8, 0, 6, 4};
	uint8_t *arp = frame + 14;

	memset(frame, 0, 42);
	memcpy(frame, op == 1 ? &fake_all_mac : &fake_us_mac, 6);
	memcpy(frame + 6, sha, 6);
	weft_put_be16(frame + 12, 0x0806);
	memcpy(arp, fixed, sizeof(fixed));
	weft_put_be16(arp + 6, op);
	memcpy(arp + 8, sha, 6);
	weft_put_be32(arp + 14, sip);
	weft_put_be32(arp + 24, tip);
	return 42;
}

uint32_t
fake_sent(struct fake *f, unsigned int i, uint8_t buf[FAKE_FRAME * 8])
{
	const void *p;

	CHECK_MSG(i < f->ntx, "%u frames sent, wanted number %u", f->ntx, i);
	CHECK(f->txq[i]->pkt_len <= FAKE_FRAME * 8);
	p = rte_pktmbuf_read(f->txq[i], 0, f->txq[i]->pkt_len, buf);
	if (p != buf)
		memcpy(buf, p, f->txq[i]->pkt_len);
	return f->txq[i]->pkt_len;
}

void
fake_resolve(struct fake *f)
{
	uint8_t frame[64];
	uint32_t len = fake_arp(frame, 2, &fake_peer_mac, FAKE_PEER, FAKE_US);

	fake_rx(f, frame, len, FAKE_FLAT, 0);
	fake_poll(f);
}
