/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Frames for one interface, or for two that share a port. A frame consists of raw octets, of
 * raw octets with correct addresses, lengths and checksums, or is a valid frame with a few changed
 * octets. It is in one segment or in several. Every received packet must be a TCP segment to us,
 * and every sent frame must be well formed.
 */

#include <rte_ethdev.h>
#include <rte_ip.h>

#include "netif_cksum.h"
#include "weft_netif.h"
#include "weft_netif_addr.h"
#include "weft_netif_attr.h"
#include "weft_netif_group.h"
#include "weft_netif_icmp.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_neigh.h"
#include "weft_netif_tx.h"
#include "weft_sched.h"

#include "netif_frames.h"

#define FUZZ_FRAMES  64
#define FUZZ_MTU     1500
#define FUZZ_MEMBERS 2
#define FUZZ_TSO_MAX 20000
/* the table is created for each input, and must be small enough to become full */
#define FUZZ_NEIGHS 32

static struct {
	struct weft_sched sched;
	struct weft_netif *nif[FUZZ_MEMBERS];
	unsigned int members;
	struct weft_netif_group *group;
	uint64_t now_ns;
	struct fuzz_in in;
	struct rte_mbuf *rx[WEFT_NETIF_BURST];
	unsigned int nrx;
	bool stuck;
	uint16_t vlan;
	uint64_t tx_offloads;
} z;

/** Check lengths and checksums of sent frames, unless the port computes them. */
static void
look_at_tx(const struct rte_mbuf *m, const uint8_t *p)
{
	uint32_t off = 14, len;
	uint16_t type = weft_get_be16(p + 12);
	uint64_t pseudo;

	if (type == RTE_ETHER_TYPE_VLAN) {
		type = weft_get_be16(p + 16);
		off = 18;
	}
	if (type == RTE_ETHER_TYPE_ARP)
		return;
	if (type == RTE_ETHER_TYPE_IPV4) {
		uint32_t src, dst;

		p += off;
		FUZZ_CHECK(p[0] == 0x45 && weft_get_be16(p + 2) == m->pkt_len - off);
		FUZZ_CHECK(m->ol_flags & RTE_MBUF_F_TX_IP_CKSUM || netif_sum_ipv4(p) == 0xffff);
		memcpy(&src, p + 12, 4);
		memcpy(&dst, p + 16, 4);
		len = m->pkt_len - off - 20;
		pseudo = p[9] == IPPROTO_ICMP ? 0 : netif_sum_pseudo(src, dst, p[9], (uint16_t)len);
		p += 20;
	} else {
		uint8_t b[40] = {0};
		uint8_t next;

		FUZZ_CHECK(type == RTE_ETHER_TYPE_IPV6);
		p += off;
		FUZZ_CHECK(p[0] >> 4 == 6 && weft_get_be16(p + 4) == m->pkt_len - off - 40);
		next = p[6];
		memcpy(b, p + 8, 32);
		len = m->pkt_len - off - 40;
		p += 40;
		if (next == 0) { /* the router alert of MLD */
			next = p[0];
			len -= 8;
			p += 8;
		}
		weft_put_be32(b + 32, len);
		b[39] = next;
		pseudo = netif_sum(b, sizeof(b));
	}
	FUZZ_CHECK(m->ol_flags & RTE_MBUF_F_TX_L4_MASK ||
	           netif_fold(pseudo + netif_sum(p, len)) == 0xffff);
}

static uint16_t
port_tx(void *dev, struct rte_mbuf **m, uint16_t n)
{
	(void)dev;
	if (z.stuck)
		return 0;
	for (uint16_t i = 0; i < n; i++) {
		static uint8_t buf[FUZZ_TSO_MAX + 200];
		const uint8_t *p;

		FUZZ_CHECK(m[i]->pkt_len >= 42 && m[i]->pkt_len <= sizeof(buf));
		FUZZ_CHECK(m[i]->pkt_len <= FUZZ_MTU + 18 ||
		           (m[i]->ol_flags & RTE_MBUF_F_TX_TCP_SEG &&
		            z.tx_offloads & RTE_ETH_TX_OFFLOAD_TCP_TSO));
		p = rte_pktmbuf_read(m[i], 0, m[i]->pkt_len, buf);
		FUZZ_CHECK(p != NULL && memcmp(p + 6, mac_us, 6) == 0);
		if (z.vlan != 0 && (m[i]->ol_flags & RTE_MBUF_F_TX_VLAN) == 0)
			FUZZ_CHECK(weft_get_be16(p + 12) == RTE_ETHER_TYPE_VLAN);
		look_at_tx(m[i], p);
		rte_pktmbuf_free(m[i]);
	}
	return n;
}

static uint16_t
port_rx(void *dev, struct rte_mbuf **m, uint16_t n)
{
	uint16_t k = 0;

	(void)dev;
	/* In a group, the first member that polls gets the frames, which may be the wrong
	 * member. */
	FUZZ_CHECK(z.nrx <= n);
	for (; k < z.nrx; k++)
		m[k] = z.rx[k];
	z.nrx = 0;
	return k;
}

static const struct weft_netif_dev port = {.rx = port_rx, .tx = port_tx};

/** Whether this is one of our addresses, even if another host claimed it in the same burst. */
static bool
was_ours(const struct weft_netif *nif, const struct weft_ip *ip)
{
	return weft_netif_is_local(nif, ip) || memcmp(ip->b, ip6_us, 16) == 0 ||
	       memcmp(ip->b, ip6_ll, 16) == 0;
}

static void
up_tcp(void *arg, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n, uint64_t now_ns)
{
	(void)arg;
	(void)now_ns;
	for (unsigned int i = 0; i < n; i++) {
		const struct weft_mbuf_priv *priv = weft_mbuf_priv(m[i]);
		const struct rte_mbuf *s = m[i];
		uint32_t len = 0, segs = 0, hdr;

		FUZZ_CHECK(m[i]->pkt_len >= 20 && m[i]->data_len >= 20);
		/* TCP itself refuses a header longer than the segment. */
		hdr = rte_pktmbuf_mtod(m[i], const uint8_t *)[12] >> 4;
		FUZZ_CHECK(m[i]->data_len >= RTE_MIN(hdr * 4, m[i]->pkt_len));
		FUZZ_CHECK(was_ours(nif, &priv->rx.dst));
		FUZZ_CHECK(!weft_netif_is_local(nif, &priv->rx.src));
		FUZZ_CHECK(m[i]->pool == fuzz_pool() && rte_mbuf_refcnt_read(m[i]) == 1);
		for (; s != NULL; s = s->next, segs++)
			len += s->data_len;
		FUZZ_CHECK(len == m[i]->pkt_len && segs == m[i]->nb_segs);
		rte_pktmbuf_free(m[i]);
	}
}

static void
up_icmp(void *arg, struct weft_netif *nif, const struct weft_icmp_error *e, uint64_t now_ns)
{
	(void)arg;
	(void)now_ns;
	FUZZ_CHECK(weft_netif_is_local(nif, &e->src));
}

/* ---- Frames ---- */

static void
good_frame(uint8_t op)
{
	uint8_t buf[FUZZ_MTU + 100], cuts[3], kind = fuzz_u8(&z.in), v = fuzz_u8(&z.in),
	                                      how = fuzz_u8(&z.in);
	uint32_t off = z.vlan != 0 && (how & 64) == 0 ? 18 : 14, len;
	struct rte_mbuf *m;
	uint16_t type;

	memset(buf, 0, sizeof(buf));
	memcpy(buf, mac_us, 6);
	memcpy(buf + 6, mac_peer, 6);
	len = sample(buf + off, kind, v, &type);
	if (type == RTE_ETHER_TYPE_IPV6 && buf[off + 24] == 0xff)
		memcpy(buf,
		       buf[off + 25] == 2 && buf[off + 36] == 0xff
		               ? (const uint8_t *)"\x33\x33\xff\0\0\1"
		               : (const uint8_t *)"\x33\x33\0\0\0\1",
		       6);
	spoil(&z.in, buf + off, len, type, how);
	if (off == 18) {
		weft_put_be16(buf + 12, RTE_ETHER_TYPE_VLAN);
		weft_put_be16(buf + 14, z.vlan);
	}
	weft_put_be16(buf + off - 2, type);
	len += off;
	if (how & 32) /* padding of Ethernet */
		len = RTE_MAX(len, 60u);
	for (unsigned int i = 0; i < 3; i++)
		cuts[i] = how & 16 ? fuzz_u8(&z.in) : 0;
	m = fuzz_mbuf(buf, len, cuts, how & 16 ? 3 : 0);
	if (m == NULL)
		return;
	m->ol_flags |= op & 0x10 ? RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD : 0;
	z.rx[z.nrx++] = m;
}

static void
frame(uint8_t op)
{
	uint8_t buf[FUZZ_MTU + 100], cuts[3], how = fuzz_u8(&z.in), fix = fuzz_u8(&z.in);
	size_t len = 0, want = fuzz_u8(&z.in) * (how & 1 ? 6u : 1u), got, off = 14;
	const uint8_t *raw;
	struct rte_mbuf *m;

	for (unsigned int i = 0; i < 3; i++)
		cuts[i] = how & 2 ? fuzz_u8(&z.in) : 0;
	raw = fuzz_octets(&z.in, want, &got);
	memset(buf, 0, sizeof(buf));
	if (how & 4) {
		memcpy(buf, how & 8 ? (const uint8_t *)"\xff\xff\xff\xff\xff\xff" : mac_us, 6);
		memcpy(buf + 6, mac_peer, 6);
		if (z.vlan != 0 && how & 0x80) {
			weft_put_be16(buf + 12, RTE_ETHER_TYPE_VLAN);
			weft_put_be16(buf + 14, z.vlan);
			off = 18;
		}
		weft_put_be16(buf + off - 2, (how & 0x30) == 0      ? RTE_ETHER_TYPE_IPV4
		                             : (how & 0x30) == 0x10 ? RTE_ETHER_TYPE_ARP
		                                                    : RTE_ETHER_TYPE_IPV6);
		/* Octets of a long frame that the input lacks are zeros. */
		len = off + (how & 0x40 ? want : got);
		memcpy(buf + off, raw, got);
		if ((how & 0x30) == 0)
			fix_ipv4(buf + off, len - off, fix);
		else if ((how & 0x30) == 0x20)
			fix_ipv6(buf + off, len - off, fix);
		else if ((how & 0x30) == 0x30 && len >= off + 24) {
			/* multicast to our solicited-node address */
			static const uint8_t mc[6] = {0x33, 0x33, 0xff, 0, 0, 1};

			memcpy(buf, mc, 6);
			fix_ipv6(buf + off, len - off, fix);
		}
	} else {
		len = got;
		memcpy(buf, raw, got);
	}
	if (len == 0)
		return;
	m = fuzz_mbuf(buf, (uint32_t)len, cuts, how & 2 ? 3 : 0);
	if (m == NULL)
		return;
	/* The port's checksum flags, if the port promised them. */
	m->ol_flags |= (uint64_t)(op >> 4 & 3) == 1
	                       ? RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD
	               : (uint64_t)(op >> 4 & 3) == 2 ? RTE_MBUF_F_RX_IP_CKSUM_BAD
	                                              : 0;
	z.rx[z.nrx++] = m;
}

/** Octets after the TCP header: in the first mbuf, or in as many as needed. */
static bool
text(struct rte_mbuf *m, uint32_t len)
{
	struct rte_mbuf *last = m;

	while (len > 0) {
		uint32_t n = RTE_MIN(len, 1 + fuzz_u8(&z.in) * 8u);

		if (last == m && m->data_len + n <= 640) {
			memset(rte_pktmbuf_append(m, (uint16_t)n), 0x55, n);
		} else {
			struct rte_mbuf *s = rte_pktmbuf_alloc(fuzz_pool());

			if (s == NULL)
				return false;
			n = RTE_MIN(n, 1400u);
			memset(rte_pktmbuf_append(s, (uint16_t)n), 0x55, n);
			last->next = s;
			last = s;
			m->nb_segs++;
			m->pkt_len += n;
		}
		len -= n;
		if (m->nb_segs > 40)
			break;
	}
	return true;
}

static void
send_one(uint8_t op)
{
	struct weft_netif *nif = z.nif[op >> 3 & (z.members - 1)];
	struct weft_netif_tx_how how = {.ecn = op >> 5 & 3};
	struct weft_ip dst, src;
	struct weft_neigh *n;
	struct rte_mbuf *m;
	uint8_t more;

	if (op & 0x10) {
		dst = weft_ip_from_v4(rte_cpu_to_be_32(0x0a000000u + fuzz_u8(&z.in)));
	} else {
		memcpy(dst.b, ip6_peer, 16);
		dst.b[15] = fuzz_u8(&z.in);
	}
	more = op & 8 ? fuzz_u8(&z.in) : 0;
	if (weft_netif_src(nif, &dst) == NULL)
		return;
	src = *weft_netif_src(nif, &dst);
	if (weft_netif_neigh_get(nif, NULL, &dst, &n) != 0)
		return;
	m = weft_netif_alloc(nif, WEFT_NETIF_HEADROOM);
	if (m != NULL) {
		uint8_t *p = (uint8_t *)rte_pktmbuf_append(m, 40);

		memset(p, 0, 40);
		p[12] = 0x50 + (more & 0x50);
		p[13] = more & 0x20 ? 0x19 : 0x10;
		if (more & 1)
			how.tso_segsz_bytes = (uint16_t)(1 + fuzz_u8(&z.in) * (more & 2 ? 1 : 6));
		if (!text(m, more & 4 ? fuzz_u8(&z.in) * (more & 8 ? 70u : 5u) : 0))
			rte_pktmbuf_free(m);
		else
			weft_netif_tx(nif, n, &src, &dst, m, how, z.now_ns);
	}
	if (op & 0x80)
		weft_netif_neigh_unconfirmed(nif, n);
	weft_netif_neigh_put(nif, n);
}

static void
turn(void)
{
	z.sched.now_ns = z.now_ns;
	for (unsigned int i = 0; i < z.members; i++)
		weft_netif_poll(z.nif[i], z.now_ns);
	weft_timer_run(&z.sched.wheel, z.now_ns);
	weft_sched_run(&z.sched, z.now_ns);
	for (unsigned int i = z.members; i > 0; i--)
		weft_netif_flush(z.nif[i - 1], z.now_ns);
}

/** Groups are created once, because creating their tables takes longer than an input. */
static void
start_group(uint8_t g)
{
	static struct weft_netif_group *groups[4];
	unsigned int which = g >> 1 & 3;
	struct weft_netif_group_attr ga = {.members = FUZZ_MEMBERS,
	                                   .ring_size = 16,
	                                   .rx_queues = which & 1 ? 1 : FUZZ_MEMBERS,
	                                   .tx_queues = which & 2 ? 1 : FUZZ_MEMBERS,
	                                   .socket = SOCKET_ID_ANY};

	z.members = 1;
	if ((g & 1) == 0)
		return;
	z.members = FUZZ_MEMBERS;
	if (groups[which] == NULL)
		FUZZ_CHECK(weft_netif_group_create(&ga, &groups[which]) == 0);
	z.group = groups[which];
}

static void
start(uint8_t g)
{
	static const struct weft_netif_ops ops = {.tcp_rx = up_tcp, .icmp_error = up_icmp};
	struct weft_netif_attr na = {.dev = &port,
	                             .pool = fuzz_pool(),
	                             .addr = weft_ip_from_v4(rte_cpu_to_be_32(0x0a000001)),
	                             .prefix_len = 24,
	                             .prefix6_len = 64,
	                             .max_neighs = FUZZ_NEIGHS,
	                             .mtu_bytes = FUZZ_MTU};
	uint8_t a = fuzz_u8(&z.in);

	memcpy(na.mac.addr_bytes, mac_us, 6);
	if (a & 1)
		na.rx_offloads = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM;
	if (a & 2)
		na.tx_offloads = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM;
	if (a & 4)
		memcpy(na.addr6.b, ip6_us, 16);
	na.no_ipv6 = (a & 12) == 8;
	if (a & 16)
		na.vlan_id = z.vlan = 100;
	if (a & 32)
		na.gateway = weft_ip_from_v4(rte_cpu_to_be_32(0x0a0000fe));
	if (a & 64 && a & 2)
		na.tx_offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_TCP_TSO;
	if (a & 128 && a & 4) {
		memcpy(na.gateway6.b, ip6_peer, 16);
		na.gateway6.b[15] = 0xfe;
	}
	z.tx_offloads = na.tx_offloads;
	z.now_ns = WEFT_NS_PER_S;
	z.sched = (struct weft_sched){.now_ns = z.now_ns, .rand = fuzz_rand()};
	TAILQ_INIT(&z.sched.run);
	weft_wheel_init(&z.sched.wheel, z.now_ns);
	start_group(g);
	na.group = z.group;
	for (unsigned int i = 0; i < z.members; i++) {
		na.group_index = i;
		FUZZ_CHECK(weft_netif_create(&na, &ops, NULL, &z.sched, &z.nif[i]) == 0);
	}
	turn();
}

static void
finish(void)
{
	z.stuck = false;
	for (unsigned int i = 0; i < 10000; i++) {
		uint64_t next = weft_timer_next(&z.sched.wheel);

		turn();
		if (next == WEFT_NEVER)
			break;
		z.now_ns = RTE_MAX(next, z.now_ns + 1);
	}
	/* Frames between members take a poll or two. */
	for (unsigned int i = 0; i < 8; i++)
		turn();
	/* No neighbour is held, so no request is repeated without end. */
	FUZZ_CHECK(z.sched.wheel.armed == 0);
	for (unsigned int i = 0; i < z.members; i++)
		weft_netif_destroy(z.nif[i]);
	FUZZ_CHECK(fuzz_pool_used() == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	(void)fuzz_pool();
	memset(&z, 0, sizeof(z));
	z.in = (struct fuzz_in){data, size > 0 ? size - 1 : 0};
	start(size > 0 ? data[size - 1] : 0);
	for (unsigned int i = 0; i < FUZZ_FRAMES && z.in.left > 0; i++) {
		uint8_t op = fuzz_u8(&z.in);

		switch (op & 7) {
		case 0:
		case 1:
		case 2:
		case 3:
			if (op & 0x40)
				good_frame(op);
			else
				frame(op);
			if (op & 0x80 && z.nrx < WEFT_NETIF_BURST)
				continue; /* another frame of the same burst */
			break;
		case 4:
			z.now_ns += (uint64_t)fuzz_u8(&z.in) << (op >> 3);
			break;
		case 5:
			z.stuck = op & 0x10;
			break;
		default:
			send_one(op);
			break;
		}
		turn();
	}
	turn();
	finish();
	return 0;
}
