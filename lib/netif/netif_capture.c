/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Capture: copies every packet that matches, in pcapng's format, into a ring.
 *
 * Switching a capture needs no lock. The polling thread marks itself as inside before it reads the
 * pointer. A thread that changes the pointer waits until the polling thread is outside.
 */

#define ALLOW_EXPERIMENTAL_API /* rte_pcapng */

#include <stdatomic.h>
#include <stdio.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_malloc.h>
#include <rte_pause.h>
#include <rte_pcapng.h>
#include <rte_ring.h>
#include <rte_tcp.h>

#include "netif_capture.h"
#include "netif_cksum.h"
#include "netif_fpdu.h"
#include "netif_hdr.h"
#include "weft_tsan.h"

/** pcapng's Enhanced Packet Block up to the packet itself. */
#define CAPTURE_EPB_LEN 28
/** Of its time stamp: the high half, and the low one. */
#define CAPTURE_EPB_STAMP 12
#define CAPTURE_TAG       4
#define CAPTURE_HEADERS   (NETIF_ETHER_LEN + CAPTURE_TAG)
/** Of a TCP header up to its flags. */
#define CAPTURE_TCP 14

struct weft_netif_capture {
	uint16_t port_id;
	uint32_t snaplen;
	struct weft_netif_capture_filter filter;
	bool everything;
	struct rte_mempool *pool;
	struct rte_ring *ring;
	/** of each queue, whose interfaces one thread polls; nqueues of them */
	struct netif_fpdu_flows **flows;
	uint16_t nqueues;
	/** several interfaces may use one capture */
	_Atomic uint64_t packets, dropped, unknown;
};

/* ---- Which packets ---- */

static bool
capture_ip_any(const struct weft_ip *ip)
{
	static const struct weft_ip zero;

	return weft_ip_eq(ip, &zero);
}

static bool
capture_end_any(const struct weft_netif_capture_end *e)
{
	return capture_ip_any(&e->addr) && e->port == 0;
}

static bool
capture_end_is(const struct weft_netif_capture_end *want, const struct weft_ip *addr, uint16_t port)
{
	return (capture_ip_any(&want->addr) || weft_ip_eq(&want->addr, addr)) &&
	       (want->port == 0 || want->port == port);
}

/** A TCP segment: addresses, ports, and where the octets of the IP packet begin and end. */
struct capture_seg {
	struct weft_ip src, dst;
	uint16_t sport, dport;
	uint32_t tcp; /**< offset of the TCP header */
	uint32_t end; /**< offset of the octet behind the IP packet */
};

/** False: another packet, or its headers are cut. */
static bool
capture_segment(const struct rte_mbuf *m, struct capture_seg *s)
{
	uint8_t buf[CAPTURE_HEADERS + NETIF_IPV4_MAX + 4];
	uint32_t len = RTE_MIN(m->pkt_len, (uint32_t)sizeof(buf)), off = NETIF_ETHER_LEN;
	const uint8_t *p = rte_pktmbuf_read(m, 0, len, buf);
	uint16_t type;

	if (p == NULL || len < CAPTURE_HEADERS + 20)
		return false;
	type = weft_get_be16(p + 12);
	if (type == RTE_ETHER_TYPE_VLAN) {
		type = weft_get_be16(p + 16);
		off += 4;
	}
	if (type == RTE_ETHER_TYPE_IPV4) {
		uint32_t ihl = (p[off] & 0xf) * 4u, addr;

		if (ihl < 20 || len < off + ihl + 4 || p[off + 9] != IPPROTO_TCP ||
		    (weft_get_be16(p + off + 6) & 0x1fff) != 0)
			return false;
		memcpy(&addr, p + off + 12, 4);
		s->src = weft_ip_from_v4(addr);
		memcpy(&addr, p + off + 16, 4);
		s->dst = weft_ip_from_v4(addr);
		s->end = off + weft_get_be16(p + off + 2);
		off += ihl;
	} else if (type == RTE_ETHER_TYPE_IPV6) {
		/* Legitimate hosts put no extension headers in front of TCP. */
		if (len < off + 44 || p[off + 6] != IPPROTO_TCP)
			return false;
		memcpy(s->src.b, p + off + 8, 16);
		memcpy(s->dst.b, p + off + 24, 16);
		s->end = off + 40 + weft_get_be16(p + off + 4);
		off += 40;
	} else {
		return false;
	}
	/* A packet that the port splits (TSO) may be longer than the field can say. */
	if ((m->ol_flags & RTE_MBUF_F_TX_TCP_SEG) != 0 || s->end > m->pkt_len)
		s->end = m->pkt_len;
	s->sport = weft_get_be16(p + off);
	s->dport = weft_get_be16(p + off + 2);
	s->tcp = off;
	return true;
}

/**
 * Whether the segment has octets of an FPDU with one of the wanted opcodes, or of a start-up frame,
 * without which programs that read the capture do not recognize MPA.
 */
static bool
capture_opcode(struct weft_netif_capture *c, const struct rte_mbuf *m, uint16_t queue,
               const struct capture_seg *s)
{
	struct netif_fpdu_seg g = {
	        .src = s->src, .dst = s->dst, .sport = s->sport, .dport = s->dport, .m = m};
	uint8_t buf[CAPTURE_TCP];
	const uint8_t *p = rte_pktmbuf_read(m, s->tcp, CAPTURE_TCP, buf);
	bool unknown;

	if (p == NULL || queue >= c->nqueues)
		return false;
	g.seq = weft_get_be32(p + 4);
	g.syn = (p[13] & RTE_TCP_SYN_FLAG) != 0;
	g.off = s->tcp + (p[12] >> 4) * 4u;
	g.len = s->end > g.off ? s->end - g.off : 0;
	if ((netif_fpdu_opcodes(c->flows[queue], &g, &unknown) &
	     (c->filter.opcodes | NETIF_FPDU_STARTUP)) != 0)
		return true;
	if (unknown)
		atomic_fetch_add_explicit(&c->unknown, 1, memory_order_relaxed);
	return unknown && c->filter.keep_unknown;
}

static bool
capture_wants(struct weft_netif_capture *c, const struct rte_mbuf *m, uint16_t queue, bool out)
{
	const struct weft_netif_capture_filter *f = &c->filter;
	struct capture_seg s;

	if (c->everything)
		return true;
	if (!capture_segment(m, &s) || (f->port != 0 && f->port != s.sport && f->port != s.dport) ||
	    !(out ? capture_end_is(&f->local, &s.src, s.sport) &&
	                      capture_end_is(&f->remote, &s.dst, s.dport)
	          : capture_end_is(&f->remote, &s.src, s.sport) &&
	                      capture_end_is(&f->local, &s.dst, s.dport)))
		return false;
	return f->opcodes == 0 || capture_opcode(c, m, queue, &s);
}

/* ---- Copies ---- */

/** The port fills in checksums later. Compute them in the copy, or it looks corrupt. */
static void
capture_checksums(struct rte_mbuf *copy, const struct rte_mbuf *m)
{
	/* The copy already contains the tag that the port will insert. */
	uint32_t tag = m->ol_flags & RTE_MBUF_F_TX_VLAN ? CAPTURE_TAG : 0, l2 = m->l2_len + tag;
	uint32_t l4_len;
	uint8_t *ip;

	if ((m->ol_flags & (RTE_MBUF_F_TX_L4_MASK | RTE_MBUF_F_TX_IP_CKSUM)) == 0 ||
	    copy->data_len < CAPTURE_EPB_LEN + RTE_MIN(m->pkt_len + tag, l2 + m->l3_len))
		return;
	ip = rte_pktmbuf_mtod_offset(copy, uint8_t *, CAPTURE_EPB_LEN + l2);
	l4_len = m->pkt_len + tag - l2 - m->l3_len;
	if (m->ol_flags & RTE_MBUF_F_TX_IP_CKSUM) {
		struct rte_ipv4_hdr *h = (struct rte_ipv4_hdr *)ip;

		h->hdr_checksum = 0;
		h->hdr_checksum = (uint16_t)~netif_sum(h, m->l3_len);
	}
	if ((m->ol_flags & RTE_MBUF_F_TX_L4_MASK) == RTE_MBUF_F_TX_TCP_CKSUM &&
	    l4_len >= NETIF_TCP_LEN && copy->data_len >= CAPTURE_EPB_LEN + m->pkt_len + tag) {
		struct rte_tcp_hdr *tcp = (struct rte_tcp_hdr *)(ip + m->l3_len);

		/*
		 * The field holds the pseudo-header's sum now, as ports require: without the length
		 * for a TSO packet.
		 */
		uint64_t sum = netif_sum(tcp, l4_len);

		if (m->ol_flags & RTE_MBUF_F_TX_TCP_SEG)
			sum += rte_cpu_to_be_16((uint16_t)l4_len);
		tcp->cksum = (uint16_t)~netif_fold(sum);
	}
}

/**
 * The stamp of a copy is its TSC until the thread that drains it puts the time of day there. That
 * of rte_pcapng (22.11) is of no use: it counts by a frequency that DPDK has rounded, from a moment
 * that each call may move, without a lock. A packet that is earlier than the moment, because
 * another thread has moved it meanwhile, is 2^64 cycles late to it, as are all that follow. With
 * the same cycles at each call, only the first call moves it.
 */
#define CAPTURE_NO_CYCLES 0

static struct rte_mbuf *
capture_copy(struct weft_netif_capture *c, const struct rte_mbuf *m, uint16_t queue, bool out,
             uint64_t tsc)
{
	struct rte_mbuf *copy;

	if (!capture_wants(c, m, queue, out))
		return NULL;
	copy = rte_pcapng_copy(c->port_id, queue, m, c->pool, c->snaplen, CAPTURE_NO_CYCLES,
	                       out ? RTE_PCAPNG_DIRECTION_OUT : RTE_PCAPNG_DIRECTION_IN);
	if (copy == NULL) {
		atomic_fetch_add_explicit(&c->dropped, 1, memory_order_relaxed);
		return NULL;
	}
	weft_netif_capture_stamp(copy, tsc);
	if (out)
		capture_checksums(copy, m);
	return copy;
}

static void
capture_queue(struct weft_netif_capture *c, struct rte_mbuf **m, unsigned int n)
{
	unsigned int taken;

	WEFT_TSAN_RELEASE(c->ring);
	taken = rte_ring_enqueue_burst(c->ring, (void *const *)m, n, NULL);
	atomic_fetch_add_explicit(&c->packets, taken, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->dropped, n - taken, memory_order_relaxed);
	rte_pktmbuf_free_bulk(m + taken, n - taken);
}

static struct weft_netif_capture *
capture_enter(struct weft_netif *nif)
{
	atomic_store_explicit(&nif->capturing, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&nif->capture, memory_order_acquire);
}

static void
capture_leave(struct weft_netif *nif)
{
	atomic_store_explicit(&nif->capturing, 0, memory_order_release);
}

void
netif_capture_rx(struct weft_netif *nif, struct rte_mbuf **m, unsigned int n)
{
	struct weft_netif_capture *c = capture_enter(nif);
	struct rte_mbuf *copy[WEFT_NETIF_BURST];
	uint64_t tsc = rte_get_tsc_cycles();
	unsigned int k = 0;

	for (unsigned int i = 0; c != NULL && i < n; i++) {
		copy[k] = capture_copy(c, m[i], nif->attr.queue_id, false, tsc);
		k += copy[k] != NULL;
	}
	if (k > 0)
		capture_queue(c, copy, k);
	capture_leave(nif);
}

unsigned int
netif_capture_tx(struct weft_netif *nif, struct rte_mbuf **m, unsigned int n)
{
	struct weft_netif_capture *c = capture_enter(nif);
	struct rte_mbuf *copy[WEFT_NETIF_BURST];
	uint64_t tsc = rte_get_tsc_cycles();
	unsigned int sent, k = 0;

	/* The port may free an mbuf that it was offered. Packets that it does not take come
	 * again. */
	for (unsigned int i = 0; i < n; i++)
		copy[i] = c != NULL ? capture_copy(c, m[i], nif->attr.queue_id, true, tsc) : NULL;
	sent = nif->attr.dev->tx(nif->attr.dev_arg, m, (uint16_t)n);
	for (unsigned int i = 0; i < n; i++) {
		if (copy[i] == NULL)
			continue;
		if (i < sent)
			copy[k++] = copy[i];
		else
			rte_pktmbuf_free(copy[i]);
	}
	if (k > 0)
		capture_queue(c, copy, k);
	capture_leave(nif);
	return sent;
}

void
weft_netif_set_capture(struct weft_netif *nif, struct weft_netif_capture *c)
{
	atomic_store_explicit(&nif->capture, c, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	while (atomic_load_explicit(&nif->capturing, memory_order_acquire) != 0)
		rte_pause();
}

/* ---- Creation and end ---- */

void
weft_netif_capture_set_filter(struct weft_netif_capture *c,
                              const struct weft_netif_capture_filter *filter)
{
	c->filter = *filter;
	/* Packets have no zones. */
	c->filter.local.addr = weft_ip_bare(&filter->local.addr);
	c->filter.remote.addr = weft_ip_bare(&filter->remote.addr);
	c->everything = capture_end_any(&filter->local) && capture_end_any(&filter->remote) &&
	                filter->port == 0 && filter->opcodes == 0;
	for (uint16_t i = 0; i < c->nqueues; i++)
		netif_fpdu_forget(c->flows[i]);
}

/** What the filter by opcode knows of connections, for each queue of the port. -ENOMEM. */
static int
capture_flows(struct weft_netif_capture *c, int socket)
{
	struct rte_eth_dev_info info;
	uint16_t n;

	if (rte_eth_dev_info_get(c->port_id, &info) != 0)
		return -EINVAL;
	n = RTE_MAX(info.nb_rx_queues, info.nb_tx_queues);
	c->flows = rte_zmalloc_socket("weft_capture", n * sizeof(*c->flows), 0, socket);
	while (c->flows != NULL && c->nqueues < n) {
		c->flows[c->nqueues] = rte_zmalloc_socket("weft_capture", netif_fpdu_flows_size(),
		                                          RTE_CACHE_LINE_SIZE, socket);
		if (c->flows[c->nqueues] == NULL)
			break;
		c->nqueues++;
	}
	return c->nqueues == n ? 0 : -ENOMEM;
}

/** Have rte_pcapng make its first call here, and not on several polling threads at once. */
static void
capture_clock(struct weft_netif_capture *c)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(c->pool), *copy;

	if (m == NULL)
		return;
	if (rte_pktmbuf_append(m, RTE_ETHER_HDR_LEN) != NULL) {
		memset(rte_pktmbuf_mtod(m, void *), 0, RTE_ETHER_HDR_LEN);
		copy = rte_pcapng_copy(c->port_id, 0, m, c->pool, c->snaplen, CAPTURE_NO_CYCLES,
		                       RTE_PCAPNG_DIRECTION_IN);
		rte_pktmbuf_free(copy);
	}
	rte_pktmbuf_free(m);
}

int
weft_netif_capture_create(const struct weft_netif_capture_attr *attr,
                          struct weft_netif_capture **out)
{
	static _Atomic uint32_t serial;
	uint32_t id = atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed);
	uint32_t keep = attr->mtu_bytes + CAPTURE_HEADERS;
	struct weft_netif_capture *c;
	char name[RTE_RING_NAMESIZE];
	int socket, rc;

	if (!rte_eth_dev_is_valid_port(attr->port_id) || !rte_is_power_of_2(attr->queue_packets))
		return -EINVAL;
	c = rte_zmalloc("weft_capture", sizeof(*c), RTE_CACHE_LINE_SIZE);
	if (c == NULL)
		return -ENOMEM;
	c->port_id = attr->port_id;
	socket = rte_eth_dev_socket_id(attr->port_id);
	rc = capture_flows(c, socket);
	if (rc < 0) {
		weft_netif_capture_destroy(c);
		return rc;
	}
	weft_netif_capture_set_filter(c, &attr->filter);
	snprintf(name, sizeof(name), "weft_cap_%u", id);
	c->ring = rte_ring_create(name, attr->queue_packets, socket, RING_F_SC_DEQ);
	if (attr->snaplen_bytes != 0)
		keep = RTE_MIN(keep, attr->snaplen_bytes);
	/* rte_pcapng writes packets of one mbuf only, so the mbuf's room limits the copy. */
	keep = RTE_MIN(keep, (uint32_t)UINT16_MAX / 2);
	c->snaplen = keep;
	if (c->ring != NULL)
		c->pool = rte_pktmbuf_pool_create(name, attr->queue_packets, 0, 0,
		                                  (uint16_t)rte_pcapng_mbuf_size(keep), socket);
	if (c->pool == NULL) {
		weft_netif_capture_destroy(c);
		return -ENOMEM;
	}
	capture_clock(c);
	*out = c;
	return 0;
}

void
weft_netif_capture_destroy(struct weft_netif_capture *c)
{
	struct rte_mbuf *m;

	if (c->ring != NULL)
		while (rte_ring_dequeue(c->ring, (void **)&m) == 0)
			rte_pktmbuf_free(m);
	rte_ring_free(c->ring);
	rte_mempool_free(c->pool);
	for (uint16_t i = 0; i < c->nqueues; i++)
		rte_free(c->flows[i]);
	rte_free(c->flows);
	rte_free(c);
}

unsigned int
weft_netif_capture_drain(struct weft_netif_capture *c, struct rte_mbuf **m, unsigned int n)
{
	unsigned int got = rte_ring_dequeue_burst(c->ring, (void **)m, n, NULL);

	WEFT_TSAN_ACQUIRE(c->ring);
	return got;
}

void
weft_netif_capture_stats(const struct weft_netif_capture *c, struct weft_netif_capture_stats *st)
{
	st->packets = atomic_load_explicit(&c->packets, memory_order_relaxed);
	st->dropped = atomic_load_explicit(&c->dropped, memory_order_relaxed);
	st->unknown = atomic_load_explicit(&c->unknown, memory_order_relaxed);
}

uint64_t
weft_netif_capture_tsc(const struct rte_mbuf *m)
{
	const uint32_t *half = rte_pktmbuf_mtod_offset(m, const uint32_t *, CAPTURE_EPB_STAMP);

	return (uint64_t)half[0] << 32 | half[1];
}

void
weft_netif_capture_stamp(struct rte_mbuf *m, uint64_t stamp)
{
	uint32_t *half = rte_pktmbuf_mtod_offset(m, uint32_t *, CAPTURE_EPB_STAMP);

	half[0] = (uint32_t)(stamp >> 32);
	half[1] = (uint32_t)stamp;
}
