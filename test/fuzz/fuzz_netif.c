/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Frames into one interface: raw, or with those fields put right (addresses, lengths, checksums)
 * that would stop them at the door; in one segment or torn. What comes up must be a TCP segment to
 * us.
 */

#include "fuzz.h"

#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_ip.h>

#include "netif_priv.h"

#define FUZZ_FRAMES 64
#define FUZZ_MTU    1500

static const uint8_t mac_us[6] = {2, 0, 0, 0, 0, 1}, mac_peer[6] = {2, 0, 0, 0, 0, 2};
static const uint8_t ip6_us[16] = {0xfd, [15] = 1}, ip6_peer[16] = {0xfd, [15] = 2};
static const uint8_t ip6_ll[16] = {0xfe, 0x80, [8] = 0, 0, 0, 0xff, 0xfe, 0, 0, 1};

static struct {
	struct weft_sched sched;
	struct weft_netif *nif;
	uint64_t now_ns;
	struct fuzz_in in;
	struct rte_mbuf *rx[WEFT_NETIF_BURST];
	unsigned int nrx;
	bool stuck;
	uint16_t vlan;
} z;

static uint16_t
port_tx(void *dev, struct rte_mbuf **m, uint16_t n)
{
	(void)dev;
	if (z.stuck)
		return 0;
	for (uint16_t i = 0; i < n; i++) {
		uint8_t buf[FUZZ_MTU + 18];
		const uint8_t *p;

		FUZZ_CHECK(m[i]->pkt_len >= 42 && m[i]->pkt_len <= sizeof(buf));
		p = rte_pktmbuf_read(m[i], 0, m[i]->pkt_len, buf);
		FUZZ_CHECK(p != NULL && memcmp(p + 6, mac_us, 6) == 0);
		if (z.vlan != 0 && (m[i]->ol_flags & RTE_MBUF_F_TX_VLAN) == 0)
			FUZZ_CHECK(weft_get_be16(p + 12) == RTE_ETHER_TYPE_VLAN);
		rte_pktmbuf_free(m[i]);
	}
	return n;
}

static uint16_t
port_rx(void *dev, struct rte_mbuf **m, uint16_t n)
{
	uint16_t k = 0;

	(void)dev;
	FUZZ_CHECK(z.nrx <= n);
	for (; k < z.nrx; k++)
		m[k] = z.rx[k];
	z.nrx = 0;
	return k;
}

static const struct weft_netif_dev port = {.rx = port_rx, .tx = port_tx};

static void
up_tcp(void *arg, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n, uint64_t now_ns)
{
	(void)arg;
	(void)now_ns;
	for (unsigned int i = 0; i < n; i++) {
		const struct weft_mbuf_priv *priv = weft_mbuf_priv(m[i]);
		const struct rte_mbuf *s = m[i];
		uint32_t len = 0, segs = 0;

		FUZZ_CHECK(m[i]->pkt_len >= 20 && m[i]->data_len >= 20);
		FUZZ_CHECK(weft_netif_is_local(nif, &priv->rx.dst));
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
fix_l4(uint8_t *p, size_t len, uint8_t proto, uint32_t pseudo)
{
	uint32_t at = proto == IPPROTO_TCP ? 16 : 2;

	if (len < at + 2)
		return;
	p[at] = p[at + 1] = 0;
	if (proto == IPPROTO_ICMP)
		pseudo = 0;
	{
		uint16_t sum =
		        (uint16_t)~netif_fold((uint64_t)pseudo + netif_sum(p, (uint32_t)len));

		memcpy(p + at, &sum, 2);
	}
}

static void
fix_ipv4(uint8_t *p, size_t len, uint8_t how)
{
	static const uint8_t us[4] = {10, 0, 0, 1}, peer[4] = {10, 0, 0, 2};
	static const uint8_t protos[4] = {IPPROTO_TCP, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP};
	uint32_t ihl, src, dst;
	uint16_t sum;

	if (len < 20)
		return;
	if (how & 1)
		p[0] = (uint8_t)(0x40 | (p[0] & 0x0f));
	if (how & 2)
		p[0] = 0x45;
	ihl = (p[0] & 0x0f) * 4u;
	if (how & 4)
		weft_put_be16(p + 2, (uint16_t)len);
	if (how & 8)
		p[6] = p[7] = 0;
	if (how & 16) {
		p[9] = protos[how >> 6];
		memcpy(p + 12, peer, 4);
		memcpy(p + 16, us, 4);
	}
	if (ihl < 20 || ihl > len)
		return;
	memcpy(&src, p + 12, 4);
	memcpy(&dst, p + 16, 4);
	if (how & 32)
		fix_l4(p + ihl, len - ihl, p[9],
		       netif_sum_pseudo(src, dst, p[9], (uint16_t)(len - ihl)));
	p[10] = p[11] = 0;
	sum = (uint16_t)~netif_sum(p, ihl);
	memcpy(p + 10, &sum, 2);
}

static void
fix_ipv6(uint8_t *p, size_t len, uint8_t how)
{
	static const uint8_t protos[4] = {IPPROTO_TCP, 58, 58, 0};
	uint8_t pseudo[40] = {0};
	uint8_t proto;

	if (len < 40)
		return;
	if (how & 1)
		p[0] = 0x60 | (p[0] & 0x0f);
	if (how & 4)
		weft_put_be16(p + 4, (uint16_t)(len - 40));
	if (how & 2)
		p[7] = 255;
	if (how & 16) {
		p[6] = protos[how >> 6];
		memcpy(p + 8, ip6_peer, 16);
		memcpy(p + 24, how & 8 ? ip6_ll : ip6_us, 16);
	}
	if ((how & 32) == 0)
		return;
	proto = p[6];
	memcpy(pseudo, p + 8, 32);
	weft_put_be32(pseudo + 32, (uint32_t)(len - 40));
	pseudo[39] = proto;
	fix_l4(p + 40, len - 40, proto == 58 ? 58 : IPPROTO_TCP, netif_sum(pseudo, 40));
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
		/* What the input leaves out of a long frame is zeros. */
		len = off + (how & 0x40 ? want : got);
		memcpy(buf + off, raw, got);
		if ((how & 0x30) == 0)
			fix_ipv4(buf + off, len - off, fix);
		else if ((how & 0x30) == 0x20)
			fix_ipv6(buf + off, len - off, fix);
		else if ((how & 0x30) == 0x30 && len >= off + 24) {
			/* multicast to our solicited node */
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
	/* What a port says of checksums, when it promised to say anything. */
	m->ol_flags |= (uint64_t)(op >> 4 & 3) == 1
	                       ? RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD
	               : (uint64_t)(op >> 4 & 3) == 2 ? RTE_MBUF_F_RX_IP_CKSUM_BAD
	                                              : 0;
	z.rx[z.nrx++] = m;
}

static void
send_one(uint8_t op)
{
	struct weft_ip dst, src;
	struct weft_neigh *n;
	struct rte_mbuf *m;

	if (op & 0x10) {
		dst = weft_ip_from_v4(rte_cpu_to_be_32(0x0a000000u + fuzz_u8(&z.in)));
	} else {
		memcpy(dst.b, ip6_peer, 16);
		dst.b[15] = fuzz_u8(&z.in);
	}
	if (weft_netif_src(z.nif, &dst) == NULL)
		return;
	src = *weft_netif_src(z.nif, &dst);
	if (weft_netif_neigh_get(z.nif, &dst, &n) != 0)
		return;
	m = weft_netif_alloc(z.nif, WEFT_NETIF_HEADROOM);
	if (m != NULL) {
		uint8_t *p = (uint8_t *)rte_pktmbuf_append(m, 40);

		memset(p, 0, 40);
		p[12] = 0x50;
		weft_netif_tx(z.nif, n, &src, &dst, m,
		              (struct weft_netif_tx_how){.ecn = op >> 5 & 3}, z.now_ns);
	}
	if (op & 0x80)
		weft_netif_neigh_suspect(z.nif, n);
	weft_netif_neigh_put(z.nif, n);
}

static void
turn(void)
{
	z.sched.now_ns = z.now_ns;
	weft_netif_poll(z.nif, z.now_ns);
	weft_timer_run(&z.sched.wheel, z.now_ns);
	weft_sched_run(&z.sched, z.now_ns);
	weft_netif_flush(z.nif, z.now_ns);
}

static void
start(void)
{
	static const struct weft_netif_ops ops = {.tcp_rx = up_tcp, .icmp_error = up_icmp};
	struct weft_netif_attr na = {.dev = &port,
	                             .pool = fuzz_pool(),
	                             .addr = weft_ip_from_v4(rte_cpu_to_be_32(0x0a000001)),
	                             .prefix_len = 24,
	                             .prefix6_len = 64,
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
	z.now_ns = WEFT_NS_PER_S;
	z.sched = (struct weft_sched){.now_ns = z.now_ns, .rand = fuzz_rand()};
	TAILQ_INIT(&z.sched.run);
	weft_wheel_init(&z.sched.wheel, z.now_ns);
	FUZZ_CHECK(weft_netif_create(&na, &ops, NULL, &z.sched, &z.nif) == 0);
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
	/* Nobody holds a neighbour: nothing asks for ever. */
	FUZZ_CHECK(z.sched.wheel.armed == 0);
	weft_netif_destroy(z.nif);
	FUZZ_CHECK(fuzz_pool_used() == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	(void)fuzz_pool();
	memset(&z, 0, sizeof(z));
	z.in = (struct fuzz_in){data, size};
	start();
	for (unsigned int i = 0; i < FUZZ_FRAMES && z.in.left > 0; i++) {
		uint8_t op = fuzz_u8(&z.in);

		switch (op & 7) {
		case 0:
		case 1:
		case 2:
		case 3:
			frame(op);
			if (op & 0x80 && z.nrx < WEFT_NETIF_BURST)
				continue; /* another one in the same burst */
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
