/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The self-test of a port by loopback. */

#include <stdlib.h>
#include <unistd.h>

#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_tcp.h>

#include "netif_group_priv.h"
#include "netif_loop.h"
#include "netif_verdict.h"
#include "weft_netif_port.h"
#include <weft/offload.h>

#define LOOP_FRAMES    256
#define LOOP_BURST     16
#define LOOP_PLACES    64 /**< tuples of each family whose queue is looked at */
#define LOOP_SEG       500
#define LOOP_SEGS      4 /**< of a frame that is cut; the last one is shorter */
#define LOOP_CUT_BYTES ((LOOP_SEGS - 1) * LOOP_SEG + 101)
#define LOOP_PORT      49152 /**< source port of the first frame; the others follow */
#define LOOP_DPORT     49151 /**< reserved by IANA */
#define LOOP_SEQ       0x10000000u
#define LOOP_STEP_US   1000
#define LOOP_IDLE      20  /**< steps without a frame of the test: no more come */
#define LOOP_STEPS     500 /**< of one wait, whatever comes */
#define LOOP_PROBES    50  /**< of LOOP_IDLE steps: until the loop carries frames */
#define LOOP_TRIES     4

enum loop_kind {
	LOOP_OWN,     /**< checksums of ours */
	LOOP_BAD_TCP, /**< the checksum of TCP is wrong */
	LOOP_BAD_IP,  /**< that of the IPv4 header is */
	LOOP_DEVICE,  /**< the device fills them in */
	LOOP_CUT,     /**< the device cuts, too */
};

struct loop_frame {
	enum loop_kind kind;
	bool v6;
	uint16_t bytes;    /**< of payload */
	uint8_t segs;      /**< bit i: the octets from LOOP_SEG * i on came back */
	unsigned int came; /**< frames that came back */
	bool wrong;
};

struct loop {
	const struct weft_netif_port *p;
	struct netif_loop *r;
	struct rte_ether_addr mac;
	struct netif_steer *steer; /**< NULL: places are not looked at */
	unsigned int placed, misplaced;
	unsigned int n;
	struct loop_frame frame[LOOP_FRAMES];
};

bool
netif_loop_driver(const char *driver)
{
	static const char *const loops[] = {"net_ixgbe", "net_igc",   "net_txgbe", "net_ngbe",
	                                    "net_cn9k",  "net_cn10k", "net_ring"};

	for (unsigned int i = 0; i < RTE_DIM(loops); i++)
		if (strcmp(driver, loops[i]) == 0)
			return true;
	return false;
}

/* ---- Frames ---- */

static uint8_t
loop_octet(unsigned int id, uint32_t at)
{
	return (uint8_t)(7 * at + id + (at >> 8));
}

static void
loop_ip4(const struct loop *l, const struct loop_frame *f, struct rte_ipv4_hdr *ip,
         uint16_t l4_bytes)
{
	bool device =
	        f->kind >= LOOP_DEVICE && (l->p->tx_offloads & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM) != 0;

	/* Addresses for documentation (RFC 5737), which no host has. */
	*ip = (struct rte_ipv4_hdr){
	        .version_ihl = 0x45,
	        .total_length = rte_cpu_to_be_16((uint16_t)(sizeof(*ip) + l4_bytes)),
	        .fragment_offset = RTE_BE16(RTE_IPV4_HDR_DF_FLAG),
	        .time_to_live = 64,
	        .next_proto_id = IPPROTO_TCP,
	        .src_addr = RTE_BE32(0xc0000201),
	        .dst_addr = RTE_BE32(0xc0000202),
	};
	if (device)
		return;
	ip->hdr_checksum = (uint16_t)~netif_sum_ipv4(ip);
	if (f->kind == LOOP_BAD_IP)
		ip->hdr_checksum ^= 0x5a5a;
}

static void
loop_ip6(struct rte_ipv6_hdr *ip, uint16_t l4_bytes)
{
	/* RFC 3849 */
	*ip = (struct rte_ipv6_hdr){
	        .vtc_flow = RTE_BE32(0x60000000),
	        .payload_len = rte_cpu_to_be_16(l4_bytes),
	        .proto = IPPROTO_TCP,
	        .hop_limits = 64,
	        .src_addr = {0x20, 0x01, 0x0d, 0xb8, [15] = 1},
	        .dst_addr = {0x20, 0x01, 0x0d, 0xb8, [15] = 2},
	};
}

/** The sum of the pseudo-header; len 0: as a device wants it that cuts. */
static uint32_t
loop_pseudo(const uint8_t *ip, bool v6, uint16_t len)
{
	struct weft_ip src, dst;
	uint32_t a[2];

	if (v6) {
		memcpy(src.b, ip + 8, 16);
		memcpy(dst.b, ip + 24, 16);
		return netif_sum_pseudo6(&src, &dst, IPPROTO_TCP, len);
	}
	memcpy(a, ip + 12, sizeof(a));
	return netif_sum_pseudo(a[0], a[1], IPPROTO_TCP, len);
}

static void
loop_tell(const struct loop *l, const struct loop_frame *f, struct rte_mbuf *m, uint16_t l3)
{
	m->l2_len = RTE_ETHER_HDR_LEN;
	m->l3_len = l3;
	m->l4_len = sizeof(struct rte_tcp_hdr);
	m->ol_flags |= RTE_MBUF_F_TX_TCP_CKSUM;
	m->ol_flags |= f->v6 ? RTE_MBUF_F_TX_IPV6 : RTE_MBUF_F_TX_IPV4;
	if (!f->v6 && (l->p->tx_offloads & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM) != 0)
		m->ol_flags |= RTE_MBUF_F_TX_IP_CKSUM;
	if (f->kind != LOOP_CUT)
		return;
	m->ol_flags |= RTE_MBUF_F_TX_TCP_SEG;
	m->tso_segsz = LOOP_SEG;
}

static struct rte_mbuf *
loop_build(const struct loop *l, unsigned int id)
{
	const struct loop_frame *f = &l->frame[id];
	const uint16_t l3 = f->v6 ? sizeof(struct rte_ipv6_hdr) : sizeof(struct rte_ipv4_hdr);
	const uint16_t l4 = (uint16_t)(sizeof(struct rte_tcp_hdr) + f->bytes);
	struct rte_mbuf *m = rte_pktmbuf_alloc(l->p->tx_pool);
	struct rte_tcp_hdr *tcp;
	uint8_t *at, *ip;

	if (m == NULL)
		return NULL;
	at = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)(RTE_ETHER_HDR_LEN + l3 + l4));
	if (at == NULL) {
		rte_pktmbuf_free(m);
		return NULL;
	}
	memcpy(at, l->mac.addr_bytes, RTE_ETHER_ADDR_LEN);
	memcpy(at + RTE_ETHER_ADDR_LEN, l->mac.addr_bytes, RTE_ETHER_ADDR_LEN);
	weft_put_be16(at + 12, f->v6 ? RTE_ETHER_TYPE_IPV6 : RTE_ETHER_TYPE_IPV4);
	ip = at + RTE_ETHER_HDR_LEN;
	tcp = (struct rte_tcp_hdr *)(void *)(ip + l3);
	if (f->v6)
		loop_ip6((struct rte_ipv6_hdr *)(void *)ip, l4);
	else
		loop_ip4(l, f, (struct rte_ipv4_hdr *)(void *)ip, l4);
	*tcp = (struct rte_tcp_hdr){
	        .src_port = rte_cpu_to_be_16((uint16_t)(LOOP_PORT + id)),
	        .dst_port = RTE_BE16(LOOP_DPORT),
	        .sent_seq = RTE_BE32(LOOP_SEQ),
	        .data_off = sizeof(*tcp) / 4 << 4,
	        .tcp_flags = RTE_TCP_ACK_FLAG,
	        .rx_win = RTE_BE16(1000),
	};
	for (uint32_t i = 0; i < f->bytes; i++)
		ip[l3 + sizeof(*tcp) + i] = loop_octet(id, i);
	if (f->kind >= LOOP_DEVICE) {
		tcp->cksum = netif_fold(loop_pseudo(ip, f->v6, f->kind == LOOP_CUT ? 0 : l4));
		loop_tell(l, f, m, l3);
		return m;
	}
	tcp->cksum =
	        (uint16_t)~netif_fold((uint64_t)loop_pseudo(ip, f->v6, l4) + netif_sum(tcp, l4));
	if (f->kind == LOOP_BAD_TCP)
		tcp->cksum ^= 0x5a5a;
	return m;
}

/* ---- What comes back ---- */

/** What a device was to do to the frame itself: checksums, cutting. */
static bool
loop_intact(struct loop_frame *f, unsigned int id, const struct rte_mbuf *m, const uint8_t *ip,
            uint32_t l4_off, uint32_t l4_bytes)
{
	uint32_t pseudo = loop_pseudo(ip, f->v6, (uint16_t)l4_bytes);
	uint32_t sum = netif_fold((uint64_t)pseudo + netif_sum_mbuf_open(m, l4_off, l4_bytes));
	uint8_t buf[sizeof(struct rte_tcp_hdr) + LOOP_CUT_BYTES];
	const struct rte_tcp_hdr *tcp;
	uint32_t at, n;

	if (l4_bytes < sizeof(*tcp) || l4_bytes > sizeof(buf))
		return false;
	tcp = rte_pktmbuf_read(m, l4_off, l4_bytes, buf);
	at = rte_be_to_cpu_32(tcp->sent_seq) - LOOP_SEQ;
	n = l4_bytes - (uint32_t)sizeof(*tcp);
	if ((sum != 0xffff && !netif_sum_left_out(m, tcp->cksum, pseudo)) ||
	    (!f->v6 && netif_sum_ipv4(ip) != 0xffff) || at > f->bytes || n > f->bytes - at ||
	    (f->kind == LOOP_CUT && n > LOOP_SEG))
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (((const uint8_t *)(tcp + 1))[i] != loop_octet(id, at + i))
			return false;
	f->segs |= (uint8_t)(1 << at / LOOP_SEG);
	return at % LOOP_SEG == 0 && (n == LOOP_SEG || at + n == f->bytes);
}

static void
loop_place(struct loop *l, const struct steer_flow *flow, unsigned int queue)
{
	if (l->steer == NULL)
		return;
	l->placed++;
	l->misplaced +=
	        netif_steer_member(l->steer, netif_steer_flow_hash(l->steer, flow)) != queue;
}

/** Whether the frame has the addresses that loop_build() writes. */
static bool
loop_is_ours(const struct loop *l, const struct rte_mbuf *m, const struct steer_flow *flow)
{
	struct rte_ipv4_hdr ip4;
	struct rte_ipv6_hdr ip6;
	uint8_t buf[RTE_ETHER_HDR_LEN];
	const uint8_t *ether = rte_pktmbuf_read(m, 0, sizeof(buf), buf);
	const bool v6 = flow->addr_bytes == 16;

	if (ether == NULL || !flow->plain ||
	    memcmp(ether + RTE_ETHER_ADDR_LEN, l->mac.addr_bytes, RTE_ETHER_ADDR_LEN) != 0 ||
	    weft_get_be16(ether + 12) != (v6 ? RTE_ETHER_TYPE_IPV6 : RTE_ETHER_TYPE_IPV4))
		return false;
	if (v6) {
		loop_ip6(&ip6, 0);
		return memcmp(flow->remote, ip6.src_addr, 16) == 0 &&
		       memcmp(flow->local, ip6.dst_addr, 16) == 0;
	}
	loop_ip4(l, &(struct loop_frame){.kind = LOOP_OWN}, &ip4, 0);
	return memcmp(flow->remote, &ip4.src_addr, 4) == 0 &&
	       memcmp(flow->local, &ip4.dst_addr, 4) == 0;
}

/** Takes a frame. False: it is not one of the test. */
static bool
loop_take(struct loop *l, const struct rte_mbuf *m, unsigned int queue)
{
	const uint64_t rx = l->p->rx_offloads;
	struct steer_flow flow;
	struct loop_frame *f;
	uint8_t hdr[sizeof(struct rte_ipv6_hdr)];
	const uint8_t *ip;
	uint32_t l3, l4_bytes;
	unsigned int id;

	/* Others' frames, too, may arrive. */
	if (netif_steer_look(m, &flow) != STEER_OWNER ||
	    weft_get_be16(flow.local_port) != LOOP_DPORT || !loop_is_ours(l, m, &flow))
		return false;
	id = weft_get_be16(flow.remote_port) - (unsigned int)LOOP_PORT;
	if (id >= l->n || l->frame[id].v6 != (flow.addr_bytes == 16))
		return false;
	f = &l->frame[id];
	l3 = f->v6 ? sizeof(struct rte_ipv6_hdr) : sizeof(struct rte_ipv4_hdr);
	ip = rte_pktmbuf_read(m, RTE_ETHER_HDR_LEN, l3, hdr);
	l4_bytes = weft_get_be16(ip + (f->v6 ? 4 : 2)) - (f->v6 ? 0 : l3);
	if (l4_bytes > m->pkt_len - RTE_ETHER_HDR_LEN - l3)
		return false;
	f->came++;
	l->r->frames++;
	switch (f->kind) {
	case LOOP_OWN:
		loop_place(l, &flow, queue);
		break;
	case LOOP_BAD_TCP:
		f->wrong |= netif_verdict_tcp(rx, m) == CKSUM_GOOD;
		break;
	case LOOP_BAD_IP:
		f->wrong |= netif_verdict_ip(rx, m) == CKSUM_GOOD;
		break;
	default:
		f->wrong |= !loop_intact(f, id, m, ip, RTE_ETHER_HDR_LEN + l3, l4_bytes);
		break;
	}
	return true;
}

/** Whether the frame has come back as a whole. */
static bool
loop_whole(const struct loop_frame *f)
{
	return f->came > 0 && (f->kind != LOOP_CUT || f->segs == (1 << LOOP_SEGS) - 1);
}

/** Takes frames until the last `n` have come back, or no more come. */
static void
loop_await(struct loop *l, unsigned int first, unsigned int n)
{
	unsigned int idle = 0;

	for (unsigned int step = 0; idle < LOOP_IDLE && step < LOOP_STEPS; idle++, step++) {
		unsigned int whole = 0;

		for (uint16_t q = 0; q < l->p->rx_queues; q++) {
			struct rte_mbuf *m[LOOP_BURST];
			uint16_t got = rte_eth_rx_burst(l->p->port_id, q, m, RTE_DIM(m));

			for (uint16_t i = 0; i < got; i++)
				if (loop_take(l, m[i], q))
					idle = 0;
			rte_pktmbuf_free_bulk(m, got);
		}
		for (unsigned int i = first; i < first + n; i++)
			whole += loop_whole(&l->frame[i]);
		if (whole == n)
			return;
		usleep(LOOP_STEP_US);
	}
}

/** Sends frames of the table that have not come back, and takes what comes. */
static void
loop_send(struct loop *l, unsigned int first, unsigned int n)
{
	for (unsigned int i = first; i < first + n; i++) {
		struct rte_mbuf *m = NULL;

		if (!loop_whole(&l->frame[i]))
			m = loop_build(l, i);
		if (m == NULL)
			continue;
		if (rte_eth_tx_prepare(l->p->port_id, 0, &m, 1) != 1 ||
		    rte_eth_tx_burst(l->p->port_id, 0, &m, 1) != 1)
			rte_pktmbuf_free(m);
	}
	loop_await(l, first, n);
}

/* ---- The test ---- */

static void
loop_add(struct loop *l, enum loop_kind kind, bool v6, uint16_t bytes)
{
	l->frame[l->n++] = (struct loop_frame){.kind = kind, .v6 = v6, .bytes = bytes};
}

static void
loop_plan(struct loop *l, bool v6)
{
	static const uint16_t bytes[] = {1, 2, 511, 512};
	const uint64_t rx = l->p->rx_offloads, tx = l->p->tx_offloads;

	for (unsigned int i = 0; i < (l->steer != NULL ? LOOP_PLACES : 1); i++)
		loop_add(l, LOOP_OWN, v6, 100);
	if ((rx & RTE_ETH_RX_OFFLOAD_TCP_CKSUM) != 0)
		loop_add(l, LOOP_BAD_TCP, v6, 100);
	if (!v6 && (rx & RTE_ETH_RX_OFFLOAD_IPV4_CKSUM) != 0)
		loop_add(l, LOOP_BAD_IP, v6, 100);
	for (unsigned int i = 0; i < RTE_DIM(bytes) && (tx & RTE_ETH_TX_OFFLOAD_TCP_CKSUM) != 0;
	     i++)
		loop_add(l, LOOP_DEVICE, v6, bytes[i]);
	if ((tx & RTE_ETH_TX_OFFLOAD_TCP_TSO) != 0)
		loop_add(l, LOOP_CUT, v6, LOOP_CUT_BYTES);
}

/** What the frames from `first` on, of one family, tell. */
static void
loop_judge(struct loop *l, unsigned int first)
{
	for (unsigned int i = first; i < l->n; i++) {
		const struct loop_frame *f = &l->frame[i];

		/* A damaged frame may be dropped. */
		if (!f->wrong && (f->kind < LOOP_DEVICE || loop_whole(f)))
			continue;
		l->r->wrong++;
		l->r->failed |= f->kind == LOOP_CUT ? WEFT_OFFLOAD_TSO
		                : f->kind == LOOP_DEVICE
		                        ? WEFT_OFFLOAD_TX_CHECKSUM | WEFT_OFFLOAD_TSO
		                        : WEFT_OFFLOAD_RX_CHECKSUM;
	}
}

static void
loop_family(struct loop *l, bool v6)
{
	unsigned int first = l->n;

	loop_plan(l, v6);
	/* The first frame tells whether frames of this family come back at all. */
	for (unsigned int i = 0; i < LOOP_PROBES && l->frame[first].came == 0; i++) {
		if (i > 0 && v6 && l->r->loops)
			return;
		loop_send(l, first, 1);
	}
	if (l->frame[first].came == 0)
		return;
	l->r->loops = true;
	for (unsigned int try = 0; try < LOOP_TRIES; try++)
		for (unsigned int i = first; i < l->n; i += LOOP_BURST)
			loop_send(l, i, RTE_MIN((unsigned int)LOOP_BURST, l->n - i));
	loop_judge(l, first);
}

void
netif_loop_run(const struct weft_netif_port *p, bool rss, struct netif_loop *r)
{
	struct loop *l = calloc(1, sizeof(*l));

	*r = (struct netif_loop){.loops = false};
	if (l == NULL)
		return;
	l->p = p;
	l->r = r;
	(void)rte_eth_macaddr_get(p->port_id, &l->mac);
	if (rss && p->rx_queues > 1)
		l->steer = calloc(1, sizeof(*l->steer));
	if (l->steer != NULL)
		netif_steer_init(l->steer, p->rx_queues, p->rss_key, p->reta, p->reta_size);
	loop_family(l, false);
	if (r->loops)
		loop_family(l, true);
	/* As a group judges it: a quarter of them. */
	r->astray = 4 * l->misplaced > l->placed;
	r->wrong += l->misplaced;
	free(l->steer);
	free(l);
}
