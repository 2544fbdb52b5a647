/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The port below fuzz_tcp: it checks sent frames, and answers address resolution. */

#include "netif_cksum.h"
#include "tcp_fuzz.h"
#include "weft_netif.h"
#include "weft_netif_icmp.h"

static void
look_at_tcp(const struct rte_mbuf *m, const uint8_t *ip, const uint8_t *p, uint32_t len)
{
	bool v4 = ip[0] >> 4 == 4, tso = (m->ol_flags & RTE_MBUF_F_TX_TCP_SEG) != 0;
	struct tcp_hdr h;
	struct tcp_opts o = {0};
	int hdr = tcp_wire_decode(p, len, &h);

	FUZZ_CHECK(hdr > 0);
	FUZZ_CHECK(tcp_wire_decode_opts(p + TCP_HDR_LEN, (uint32_t)hdr - TCP_HDR_LEN, &o) == 0);
	FUZZ_CHECK(!tso || (z.tso && m->tso_segsz > 0 && m->l4_len == hdr &&
	                    m->tso_segsz + (uint32_t)hdr + (v4 ? 20 : 40) <= 1500));
	for (uint32_t i = (uint32_t)hdr; i < len; i++)
		FUZZ_CHECK(p[i] == octet(h.seq + i - (uint32_t)hdr));
	FUZZ_CHECK((h.flags & (TCP_SYN | TCP_FIN)) != (TCP_SYN | TCP_FIN));
	FUZZ_CHECK((h.flags & (TCP_SYN | TCP_RST)) != (TCP_SYN | TCP_RST));
	if ((h.flags & (TCP_SYN | TCP_ACK)) != (TCP_SYN | TCP_ACK))
		return;
	z.synack.seen = true;
	z.synack.h = h;
	z.synack.has_ts = o.has_ts;
	z.synack.ts_val = o.ts_val;
	if (v4) {
		uint32_t a;

		memcpy(&a, ip + 12, 4);
		z.synack.local = weft_ip_from_v4(a);
		memcpy(&a, ip + 16, 4);
		z.synack.remote = weft_ip_from_v4(a);
	} else {
		memcpy(z.synack.local.b, ip + 8, 16);
		memcpy(z.synack.remote.b, ip + 24, 16);
	}
}

static void
queue_rx(const uint8_t *f, uint32_t len)
{
	if (z.silent || z.nrx == RTE_DIM(z.rx))
		return;
	z.rx[z.nrx] = fuzz_mbuf(f, len, NULL, 0);
	z.nrx += z.rx[z.nrx] != NULL;
}

/** The answer to every ARP request is the peer's hardware address. */
static void
answer_arp(const uint8_t *q)
{
	uint8_t f[42];

	if (q[21] != 1 || memcmp(q + 28, q + 38, 4) == 0)
		return;
	memcpy(f, q, sizeof(f));
	memcpy(f, mac_us, 6);
	memcpy(f + 6, mac_peer, 6);
	f[21] = 2;
	memcpy(f + 22, mac_peer, 6);
	memcpy(f + 28, q + 38, 4);
	memcpy(f + 32, mac_us, 6);
	memcpy(f + 38, q + 28, 4);
	queue_rx(f, sizeof(f));
}

static void
answer_nd(const uint8_t *q, uint32_t len)
{
	static const uint8_t unspecified[16];
	uint8_t f[86] = {0}, pseudo[40] = {0};
	uint16_t sum;

	/* Duplicate address detection has the unspecified source address. */
	if (len < 78 || q[54] != 135 || memcmp(q + 22, unspecified, 16) == 0)
		return;
	memcpy(f, mac_us, 6);
	memcpy(f + 6, mac_peer, 6);
	weft_put_be16(f + 12, RTE_ETHER_TYPE_IPV6);
	f[14] = 0x60;
	f[19] = 32;
	f[20] = 58;
	f[21] = 255;
	memcpy(f + 22, q + 62, 16);
	memcpy(f + 38, q + 22, 16);
	f[54] = 136;
	f[58] = 0x60;
	memcpy(f + 62, q + 62, 16);
	f[78] = 2;
	f[79] = 1;
	memcpy(f + 80, mac_peer, 6);
	memcpy(pseudo, f + 22, 32);
	pseudo[35] = 32;
	pseudo[39] = 58;
	sum = (uint16_t)~netif_fold((uint64_t)netif_sum(pseudo, 40) + netif_sum(f + 54, 32));
	memcpy(f + 56, &sum, 2);
	queue_rx(f, sizeof(f));
}

static uint16_t
port_tx(void *dev, struct rte_mbuf **m, uint16_t n)
{
	static uint8_t buf[FUZZ_FRAME];

	(void)dev;
	if (z.stuck)
		return 0;
	for (uint16_t i = 0; i < n; i++) {
		uint32_t len = m[i]->pkt_len;
		const uint8_t *p;

		FUZZ_CHECK(len >= 42 && len <= sizeof(buf));
		FUZZ_CHECK(len <= 1514 || m[i]->ol_flags & RTE_MBUF_F_TX_TCP_SEG);
		p = rte_pktmbuf_read(m[i], 0, len, buf);
		FUZZ_CHECK(p != NULL);
		switch (weft_get_be16(p + 12)) {
		case RTE_ETHER_TYPE_IPV4:
			if (p[23] == IPPROTO_TCP)
				look_at_tcp(m[i], p + 14, p + 34, len - 34);
			break;
		case RTE_ETHER_TYPE_IPV6:
			if (p[20] == IPPROTO_TCP)
				look_at_tcp(m[i], p + 14, p + 54, len - 54);
			else if (p[20] == 58)
				answer_nd(p, len);
			break;
		case RTE_ETHER_TYPE_ARP:
			answer_arp(p);
			break;
		default:
			FUZZ_CHECK(false);
		}
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

const struct weft_netif_dev fuzz_tcp_port = {.rx = port_rx, .tx = port_tx};

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

const struct weft_netif_ops fuzz_tcp_up = {.tcp_rx = port_up, .icmp_error = port_icmp};

void
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
	queue_rx(f, sizeof(f));
}
