/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A simulated NIC that does one thing incorrectly. */

#include <stdio.h>
#include <stdlib.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_thash.h>

#include "sim_liar.h"
#include "sim_nic.h"
#include "weft_netif_attr.h"

#define LIAR_QUEUE          4096
#define LIAR_RING           64 /**< packets that a stalled ring still takes */
#define LIAR_RETA           128
#define LIAR_STALL_IN       50                  /**< a ring stalls at one of so many packets, ... */
#define LIAR_STALL_APART_NS (5 * WEFT_NS_PER_S) /**< ... at most once in this time */
#define LIAR_STALL_NS       (2500 * WEFT_NS_PER_MS)
#define LIAR_UP_NS          (700 * WEFT_NS_PER_MS) /**< the link is up, and down, so long at most */
#define LIAR_DOWN_NS        (300 * WEFT_NS_PER_MS)
#define LIAR_RARELY         50
#define LIAR_FRAME          65600

#define TCP_FLAG_FIN 0x01
#define TCP_FLAG_SYN 0x02
#define TCP_FLAG_PSH 0x08

struct liar_queue {
	struct sim_liar *nic;
	unsigned int head, tail;
	struct rte_mbuf *m[LIAR_QUEUE];
	uint64_t sent; /**< packets, as the NIC counts */
	bool stalled;
	uint64_t stalled_ns;
	unsigned int held;
	struct rte_mbuf *ring[LIAR_RING];
};

struct sim_liar {
	struct sim *sim;
	void *link_end;
	struct sim_liar_cfg cfg;
	struct sim_nic_cfg rss; /**< what it really steers by */
	struct sim_liar_stats stats;
	bool down;
	uint64_t turn_ns;   /**< when the link changes */
	unsigned int keyed; /**< packets since the key changed */
	struct liar_queue q[SIM_LIAR_QUEUES];
	uint8_t frame[LIAR_FRAME];
};

static const char *const liar_names[SIM_LIES] = {
        [SIM_LIE_NONE] = "none",
        [SIM_LIE_RX_GOOD] = "rx: all good",
        [SIM_LIE_RX_NONE] = "rx: all none",
        [SIM_LIE_RX_BAD] = "rx: all bad",
        [SIM_LIE_RX_UNKNOWN] = "rx: all unknown",
        [SIM_LIE_RX_ANY] = "rx: anything",
        [SIM_LIE_TX_TCP] = "tx: no sum of TCP",
        [SIM_LIE_TX_IP] = "tx: no sum of IPv4",
        [SIM_LIE_TX_ODD] = "tx: odd lengths",
        [SIM_LIE_TX_ANY] = "tx: every other",
        [SIM_LIE_TSO_GONE] = "tso: gone",
        [SIM_LIE_TSO_FIRST] = "tso: first segment only",
        [SIM_LIE_TSO_SUM] = "tso: wrong sums",
        [SIM_LIE_RSS_KEY] = "rss: another key",
        [SIM_LIE_RSS_HIDDEN] = "rss: another key, no hash",
        [SIM_LIE_RSS_RANDOM] = "rss: random hash",
        [SIM_LIE_RSS_LATER] = "rss: wrong without SYN",
        [SIM_LIE_RSS_RARELY] = "rss: rarely wrong",
        [SIM_LIE_RSS_MISSING] = "rss: no hash",
        [SIM_LIE_RSS_ONE] = "rss: one queue",
        [SIM_LIE_RSS_CHANGES] = "rss: changing queues",
        [SIM_LIE_STALL] = "ring stalls until reset",
        [SIM_LIE_STALL_LONG] = "ring stalls",
        [SIM_LIE_FLAP] = "link flaps",
        [SIM_LIE_BURSTS] = "short bursts",
};

const char *
sim_liar_name(enum sim_lie lie)
{
	return liar_names[lie];
}

static uint16_t
liar_cksum(const uint8_t *p, uint32_t len, uint32_t sum)
{
	for (uint32_t i = 0; i < len; i++)
		sum += (i & 1) != 0 ? p[i] : (uint32_t)p[i] << 8;
	while (sum > 0xffff)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* ---- Receive ---- */

/** Where a TCP segment is. */
struct liar_seg {
	bool v4;
	uint32_t ihl, off, len;
	struct weft_ip src, dst;
};

static bool
liar_parse(const uint8_t *p, uint32_t frame_len, struct liar_seg *s)
{
	const uint8_t *ip = p + 14;
	uint32_t a;

	memset(s, 0, sizeof(*s));
	if (frame_len >= 54 && weft_get_be16(p + 12) == RTE_ETHER_TYPE_IPV4 && ip[0] >> 4 == 4 &&
	    ip[9] == 6) {
		s->v4 = true;
		s->ihl = (ip[0] & 0xfu) * 4;
		s->off = 14 + s->ihl;
		if (s->ihl < 20 || weft_get_be16(ip + 2) < s->ihl + 20 ||
		    14u + weft_get_be16(ip + 2) > frame_len)
			return false;
		s->len = weft_get_be16(ip + 2) - s->ihl;
		memcpy(&a, ip + 12, 4);
		s->src = weft_ip_from_v4(a);
		memcpy(&a, ip + 16, 4);
		s->dst = weft_ip_from_v4(a);
		return true;
	}
	if (frame_len < 74 || weft_get_be16(p + 12) != RTE_ETHER_TYPE_IPV6 || ip[6] != 6)
		return false;
	s->off = 54;
	s->len = weft_get_be16(ip + 4);
	memcpy(s->src.b, ip + 8, 16);
	memcpy(s->dst.b, ip + 24, 16);
	return s->len >= 20 && s->off + s->len <= frame_len;
}

/** What an honest NIC says of the checksums. */
static uint64_t
liar_truth(const uint8_t *p, const struct liar_seg *s)
{
	uint64_t flags = 0;
	uint32_t pseudo = 6 + s->len;

	if (s->v4)
		flags |= liar_cksum(p + 14, s->ihl, 0) == 0 ? RTE_MBUF_F_RX_IP_CKSUM_GOOD
		                                            : RTE_MBUF_F_RX_IP_CKSUM_BAD;
	pseudo += s->v4 ? (uint16_t)~liar_cksum(p + 14 + 12, 8, 0)
	                : (uint16_t)~liar_cksum(p + 14 + 8, 32, 0);
	return flags | (liar_cksum(p + s->off, s->len, pseudo) == 0 ? RTE_MBUF_F_RX_L4_CKSUM_GOOD
	                                                            : RTE_MBUF_F_RX_L4_CKSUM_BAD);
}

static uint64_t
liar_word(struct sim_liar *n, uint64_t truth)
{
	static const uint64_t any[4] = {0, RTE_MBUF_F_RX_L4_CKSUM_GOOD, RTE_MBUF_F_RX_L4_CKSUM_BAD,
	                                RTE_MBUF_F_RX_L4_CKSUM_NONE};
	uint64_t word = truth;

	if (n->cfg.lie == SIM_LIE_RX_GOOD)
		word = RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD;
	else if (n->cfg.lie == SIM_LIE_RX_NONE)
		word = RTE_MBUF_F_RX_IP_CKSUM_NONE | RTE_MBUF_F_RX_L4_CKSUM_NONE;
	else if (n->cfg.lie == SIM_LIE_RX_BAD)
		word = RTE_MBUF_F_RX_IP_CKSUM_BAD | RTE_MBUF_F_RX_L4_CKSUM_BAD;
	else if (n->cfg.lie == SIM_LIE_RX_UNKNOWN)
		word = 0;
	else if (n->cfg.lie == SIM_LIE_RX_ANY)
		word = any[sim_random(n->sim) % 4] | RTE_MBUF_F_RX_IP_CKSUM_GOOD;
	n->stats.lies += word != truth;
	return word;
}

static void
liar_rekey(struct sim_liar *n)
{
	for (unsigned int i = 0; i < sizeof(n->rss.key); i++)
		n->rss.key[i] = (uint8_t)sim_random(n->sim);
	n->keyed = 0;
}

/** Sets the hash and returns the queue. */
static unsigned int
liar_steer(struct sim_liar *n, struct rte_mbuf *m, const uint8_t *p, const struct liar_seg *s)
{
	enum sim_lie lie = n->cfg.lie;
	bool syn = (p[s->off + 13] & TCP_FLAG_SYN) != 0, told = true, wrong = false;
	uint32_t hash;
	unsigned int q;

	if (n->cfg.rekey_pkts != 0 && ++n->keyed > n->cfg.rekey_pkts)
		liar_rekey(n);
	q = sim_nic_steer(&n->rss, &s->src, weft_get_be16(p + s->off), &s->dst,
	                  weft_get_be16(p + s->off + 2), &hash);
	if (lie == SIM_LIE_RSS_RANDOM || (lie == SIM_LIE_RSS_LATER && !syn))
		wrong = true;
	if (lie == SIM_LIE_RSS_RARELY && sim_random(n->sim) % LIAR_RARELY == 0)
		wrong = true;
	if (lie == SIM_LIE_RSS_HIDDEN || lie == SIM_LIE_RSS_MISSING)
		told = false;
	if (lie == SIM_LIE_RSS_ONE)
		q = n->cfg.queues - 1;
	if (lie == SIM_LIE_RSS_CHANGES)
		q = (unsigned int)(sim_random(n->sim) % n->cfg.queues);
	if (wrong)
		hash = (uint32_t)sim_random(n->sim);
	if (told) {
		m->hash.rss = hash;
		m->ol_flags |= RTE_MBUF_F_RX_RSS_HASH;
	}
	n->stats.lies += wrong || (lie >= SIM_LIE_RSS_KEY && lie <= SIM_LIE_RSS_HIDDEN) ||
	                 (lie >= SIM_LIE_RSS_MISSING && lie <= SIM_LIE_RSS_CHANGES);
	return q;
}

static void
liar_fetch(struct sim_liar *n)
{
	struct rte_mbuf *m[32];
	uint16_t got;

	while ((got = sim_link_dev()->rx(n->link_end, m, RTE_DIM(m))) > 0)
		for (uint16_t i = 0; i < got; i++) {
			const uint8_t *p = rte_pktmbuf_mtod(m[i], const uint8_t *);
			struct liar_queue *to = &n->q[0];
			struct liar_seg s;

			if (liar_parse(p, m[i]->data_len, &s)) {
				m[i]->ol_flags |= liar_word(n, liar_truth(p, &s));
				to = &n->q[liar_steer(n, m[i], p, &s)];
			}
			if (n->down || to->tail - to->head == LIAR_QUEUE)
				rte_pktmbuf_free(m[i]);
			else
				to->m[to->tail++ % LIAR_QUEUE] = m[i];
		}
}

/** The link of a port that flaps. */
static void
liar_turn(struct sim_liar *n)
{
	if (n->cfg.lie != SIM_LIE_FLAP || sim_now_ns(n->sim) < n->turn_ns)
		return;
	if (n->turn_ns != 0) {
		n->down = !n->down;
		n->stats.lies++;
	}
	n->turn_ns =
	        sim_now_ns(n->sim) + sim_random(n->sim) % (n->down ? LIAR_DOWN_NS : LIAR_UP_NS) + 1;
}

static uint16_t
liar_rx(void *dev, struct rte_mbuf **pkts, uint16_t n)
{
	struct liar_queue *q = dev;
	uint16_t got;

	liar_turn(q->nic);
	liar_fetch(q->nic);
	if (q->nic->cfg.lie == SIM_LIE_BURSTS && q->head != q->tail) {
		uint16_t fewer = (uint16_t)(sim_random(q->nic->sim) % 4);

		q->nic->stats.lies += fewer < n;
		n = RTE_MIN(n, fewer);
	}
	for (got = 0; got < n && q->head != q->tail; got++)
		pkts[got] = q->m[q->head++ % LIAR_QUEUE];
	return got;
}

/* ---- Transmit ---- */

static void
liar_wire(struct sim_liar *n, struct rte_mbuf *m)
{
	if (n->down)
		rte_pktmbuf_free(m);
	else
		(void)sim_link_dev()->tx(n->link_end, &m, 1);
}

/** Whether the checksum of this packet is filled in wrongly. */
static bool
liar_sums_wrongly(struct sim_liar *n, const struct rte_mbuf *m, uint32_t payload)
{
	bool tso = (m->ol_flags & RTE_MBUF_F_TX_TCP_SEG) != 0;

	switch (n->cfg.lie) {
	case SIM_LIE_TX_TCP:
		return true;
	case SIM_LIE_TX_ODD:
		return payload % 2 != 0;
	case SIM_LIE_TX_ANY:
		return sim_random(n->sim) % 2 != 0;
	case SIM_LIE_TSO_SUM:
		return tso;
	default:
		return false;
	}
}

/** Sends one segment of a packet: its headers and `len` octets of its payload, from `off` on. */
static void
liar_segment(struct sim_liar *n, const struct rte_mbuf *m, const uint8_t *p, uint32_t off,
             uint32_t len)
{
	uint32_t hdr = m->l2_len + m->l3_len + m->l4_len;
	bool tso = (m->ol_flags & RTE_MBUF_F_TX_TCP_SEG) != 0;
	bool v4 = (m->ol_flags & RTE_MBUF_F_TX_IPV4) != 0;
	uint8_t *f = malloc(hdr + len), *ip = f + m->l2_len, *tcp = ip + m->l3_len;
	struct rte_mbuf *o = rte_pktmbuf_alloc(m->pool);

	if (f == NULL || o == NULL) {
		fprintf(stderr, "sim_liar: out of memory\n");
		abort();
	}
	memcpy(f, p, hdr);
	memcpy(f + hdr, p + hdr + off, len);
	if (v4) {
		weft_put_be16(ip + 2, (uint16_t)(m->l3_len + m->l4_len + len));
		if (tso)
			weft_put_be16(ip + 4,
			              (uint16_t)(weft_get_be16(ip + 4) + off / m->tso_segsz));
		if ((m->ol_flags & RTE_MBUF_F_TX_IP_CKSUM) != 0 && n->cfg.lie != SIM_LIE_TX_IP) {
			weft_put_be16(ip + 10, 0);
			weft_put_be16(ip + 10, liar_cksum(ip, 20, 0));
		}
		n->stats.lies += n->cfg.lie == SIM_LIE_TX_IP;
	} else {
		weft_put_be16(ip + 4, (uint16_t)(m->l4_len + len));
	}
	weft_put_be32(tcp + 4, weft_get_be32(tcp + 4) + off);
	if (hdr + off + len < m->pkt_len)
		tcp[13] &= (uint8_t) ~(TCP_FLAG_FIN | TCP_FLAG_PSH);
	if (liar_sums_wrongly(n, m, len))
		n->stats.lies++;
	else
		weft_put_be16(tcp + 16,
		              liar_cksum(tcp, m->l4_len + len, tso ? m->l4_len + len : 0));
	memcpy(rte_pktmbuf_append(o, (uint16_t)(hdr + len)), f, hdr + len);
	free(f);
	liar_wire(n, o);
}

static void
liar_send(struct sim_liar *n, struct rte_mbuf *m)
{
	uint32_t hdr = m->l2_len + m->l3_len + m->l4_len, payload, step;
	const uint8_t *p;

	if ((m->ol_flags &
	     (RTE_MBUF_F_TX_L4_MASK | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_TCP_SEG)) == 0) {
		liar_wire(n, m);
		return;
	}
	if (rte_validate_tx_offload(m) != 0 || m->pkt_len > LIAR_FRAME) {
		fprintf(stderr, "sim_liar: a packet that no port takes\n");
		abort();
	}
	p = rte_pktmbuf_read(m, 0, m->pkt_len, n->frame);
	n->stats.summed++;
	payload = step = m->pkt_len - hdr;
	if ((m->ol_flags & RTE_MBUF_F_TX_TCP_SEG) != 0) {
		n->stats.cut++;
		step = m->tso_segsz;
		if (n->cfg.lie == SIM_LIE_TSO_FIRST)
			payload = RTE_MIN(payload, step);
		if (n->cfg.lie == SIM_LIE_TSO_GONE)
			payload = 0;
		n->stats.lies += payload < m->pkt_len - hdr;
		for (uint32_t off = 0; off < payload; off += step)
			liar_segment(n, m, p, off, RTE_MIN(step, payload - off));
	} else {
		liar_segment(n, m, p, 0, payload);
	}
	rte_pktmbuf_free(m);
}

static void
liar_done(struct liar_queue *q, struct rte_mbuf *m)
{
	q->sent++;
	liar_send(q->nic, m);
}

static void
liar_resume(struct liar_queue *q, bool drop)
{
	q->stalled = false;
	for (unsigned int i = 0; i < q->held; i++)
		if (drop)
			rte_pktmbuf_free(q->ring[i]);
		else
			liar_done(q, q->ring[i]);
	q->held = 0;
}

static uint16_t
liar_tx(void *dev, struct rte_mbuf **pkts, uint16_t n)
{
	struct liar_queue *q = dev;
	enum sim_lie lie = q->nic->cfg.lie;
	uint64_t now_ns = sim_now_ns(q->nic->sim);
	uint16_t i;

	liar_turn(q->nic);
	if (q->stalled && lie == SIM_LIE_STALL_LONG && now_ns - q->stalled_ns >= LIAR_STALL_NS)
		liar_resume(q, false);
	if (lie == SIM_LIE_BURSTS) {
		uint16_t fewer = (uint16_t)(sim_random(q->nic->sim) % 4);

		q->nic->stats.lies += fewer < n;
		n = RTE_MIN(n, fewer);
	}
	for (i = 0; i < n; i++) {
		if (!q->stalled && (lie == SIM_LIE_STALL || lie == SIM_LIE_STALL_LONG) &&
		    (q->stalled_ns == 0 || now_ns - q->stalled_ns >= LIAR_STALL_APART_NS) &&
		    sim_random(q->nic->sim) % LIAR_STALL_IN == 0) {
			q->stalled = true;
			q->stalled_ns = now_ns;
			q->nic->stats.lies++;
		}
		if (!q->stalled)
			liar_done(q, pkts[i]);
		else if (q->held < LIAR_RING)
			q->ring[q->held++] = pkts[i];
		else
			break;
	}
	return i;
}

static int
liar_tx_reset(void *dev)
{
	struct liar_queue *q = dev;

	liar_resume(q, true);
	q->nic->stats.resets++;
	return 0;
}

static int
liar_tx_count(void *dev, uint64_t *packets)
{
	*packets = ((struct liar_queue *)dev)->sent;
	return 0;
}

static bool
liar_link(void *dev)
{
	struct liar_queue *q = dev;

	liar_turn(q->nic);
	return !q->nic->down;
}

const struct weft_netif_dev *
sim_liar_dev(const struct sim_liar *n)
{
	static const struct weft_netif_dev dev = {.rx = liar_rx,
	                                          .tx = liar_tx,
	                                          .link = liar_link,
	                                          .tx_reset = liar_tx_reset,
	                                          .tx_count = liar_tx_count};
	static const struct weft_netif_dev no_reset = {
	        .rx = liar_rx, .tx = liar_tx, .link = liar_link, .tx_count = liar_tx_count};

	return n->cfg.lie == SIM_LIE_STALL_LONG ? &no_reset : &dev;
}

void *
sim_liar_queue(struct sim_liar *n, unsigned int queue)
{
	return &n->q[queue];
}

bool
sim_liar_pending(const struct sim_liar *n, unsigned int queue)
{
	return n->q[queue].head != n->q[queue].tail;
}

bool
sim_liar_stalled(const struct sim_liar *n, unsigned int queue)
{
	return n->q[queue].stalled;
}

const struct sim_liar_stats *
sim_liar_stats(const struct sim_liar *n)
{
	return &n->stats;
}

uint64_t
sim_liar_rx_offloads(void)
{
	return RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM;
}

uint64_t
sim_liar_tx_offloads(void)
{
	return RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM |
	       RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_TCP_TSO;
}

struct sim_liar *
sim_liar_create(struct sim *s, struct sim_link *l, unsigned int end, const struct sim_liar_cfg *cfg)
{
	struct sim_liar *n = calloc(1, sizeof(*n));

	if (n == NULL) {
		fprintf(stderr, "sim_liar: out of memory\n");
		abort();
	}
	n->sim = s;
	n->link_end = sim_link_dev_arg(l, end);
	n->cfg = *cfg;
	n->rss = (struct sim_nic_cfg){.queues = cfg->queues, .reta_size = LIAR_RETA};
	memcpy(n->rss.key, cfg->key, sizeof(n->rss.key));
	memcpy(n->rss.reta, cfg->reta, sizeof(cfg->reta));
	if (cfg->lie == SIM_LIE_RSS_KEY || cfg->lie == SIM_LIE_RSS_HIDDEN)
		liar_rekey(n);
	for (unsigned int i = 0; i < SIM_LIAR_QUEUES; i++)
		n->q[i].nic = n;
	return n;
}

void
sim_liar_destroy(struct sim_liar *n)
{
	for (unsigned int i = 0; i < SIM_LIAR_QUEUES; i++) {
		struct liar_queue *q = &n->q[i];

		for (; q->head != q->tail; q->head++)
			rte_pktmbuf_free(q->m[q->head % LIAR_QUEUE]);
		liar_resume(q, true);
	}
	free(n);
}
