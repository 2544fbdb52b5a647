/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The faults of one queue: draws, changed bits, packets that wait; see inject_queue.h. */

#define ALLOW_EXPERIMENTAL_API /* rte_ipv4_udptcp_cksum_mbuf() */

#include "inject_queue.h"

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_tcp.h>

#include "console.h"

/** How long a packet waits that went on neither way: the driver had no room for it. */
#define AGAIN_US 20

static void
add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
	                      memory_order_relaxed);
}

/** SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t
draw(struct inject_queue *q)
{
	uint64_t z = q->random += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static bool
happens(struct inject_queue *q, enum inject_fault f)
{
	const struct inject_often *o = &q->want.often[f];

	if (o->every > 0)
		return ++q->seen[f] % o->every == 0;
	return o->probability > 0 && (double)(draw(q) >> 11) * 0x1p-53 < o->probability;
}

/* ---- Packets that wait ---- */

static bool
hold(struct inject_held *h, struct rte_mbuf *m, uint64_t due_ns)
{
	const uint32_t at = (h->head + h->n) % INJECT_HELD;

	if (h->n == INJECT_HELD)
		return false;
	h->m[at] = m;
	h->due_ns[at] = due_ns;
	h->n++;
	return true;
}

static struct rte_mbuf *
oldest(struct inject_held *h)
{
	struct rte_mbuf *m = h->m[h->head];

	h->head = (h->head + 1) % INJECT_HELD;
	h->n--;
	return m;
}

/** Into ready. A packet that finds no place is lost, and counted as a fault not done. */
static void
go_on(struct inject_queue *q, struct rte_mbuf *m)
{
	if (hold(&q->ready, m, 0))
		return;
	add(&q->undone, 1);
	rte_pktmbuf_free(m);
}

void
inject_queue_due(struct inject_queue *q, uint64_t now_ns)
{
	while (q->late.n > 0 && q->late.due_ns[q->late.head] <= now_ns && q->ready.n < INJECT_HELD)
		go_on(q, oldest(&q->late));
}

uint16_t
inject_queue_pop(struct inject_queue *q, struct rte_mbuf **out, uint16_t max)
{
	uint16_t n = 0;

	while (q->ready.n > 0 && n < max)
		out[n++] = oldest(&q->ready);
	return n;
}

/* ---- Copies ---- */

/**
 * A copy; NULL: there is no buffer. An mbuf that leaves may have a pool without room for data, and
 * TCP may have a reference to it: it is never written (weft_tcp.h).
 */
static struct rte_mbuf *
copy_of(struct inject_queue *q, const struct rte_mbuf *m)
{
	struct rte_mbuf *copy =
	        rte_pktmbuf_copy(m, q->copies != NULL ? q->copies : m->pool, 0, UINT32_MAX);

	if (copy == NULL)
		add(&q->undone, 1);
	return copy;
}

/** Where the IP packet begins; 0: there is none. */
static uint32_t
ip_at(const struct rte_mbuf *m)
{
	uint8_t buf[2];
	uint32_t at = RTE_ETHER_HDR_LEN;
	const uint8_t *p = rte_pktmbuf_read(m, at - 2, 2, buf);

	if (p != NULL && p[0] == 0x81 && p[1] == 0) {
		at += RTE_VLAN_HLEN;
		p = rte_pktmbuf_read(m, at - 2, 2, buf);
	}
	return p != NULL && ((p[0] == 0x08 && p[1] == 0) || (p[0] == 0x86 && p[1] == 0xdd)) ? at
	                                                                                    : 0;
}

/**
 * Compute the checksums of a copy that leaves, which the port would compute over the changed bit
 * otherwise. False: they cannot be computed here, because the port would split the packet (TSO).
 */
static bool
finish_checksums(struct rte_mbuf *copy)
{
	struct rte_ipv4_hdr *ip =
	        rte_pktmbuf_mtod_offset(copy, struct rte_ipv4_hdr *, copy->l2_len);
	const uint16_t l4 = (uint16_t)(copy->l2_len + copy->l3_len);
	const uint64_t sum = copy->ol_flags & RTE_MBUF_F_TX_L4_MASK;
	struct rte_tcp_hdr *tcp = rte_pktmbuf_mtod_offset(copy, struct rte_tcp_hdr *, l4);

	if ((copy->ol_flags & RTE_MBUF_F_TX_TCP_SEG) != 0 ||
	    (sum != 0 && sum != RTE_MBUF_F_TX_TCP_CKSUM))
		return false;
	if ((copy->ol_flags & RTE_MBUF_F_TX_IP_CKSUM) != 0) {
		ip->hdr_checksum = 0;
		ip->hdr_checksum = rte_ipv4_cksum(ip);
	}
	if (sum != 0) {
		tcp->cksum = 0;
		tcp->cksum = (copy->ol_flags & RTE_MBUF_F_TX_IPV6) != 0
		                     ? rte_ipv6_udptcp_cksum_mbuf(copy, (void *)ip, l4)
		                     : rte_ipv4_udptcp_cksum_mbuf(copy, ip, l4);
	}
	copy->ol_flags &= ~(RTE_MBUF_F_TX_L4_MASK | RTE_MBUF_F_TX_IP_CKSUM);
	return true;
}

/**
 * A copy with one bit of the IP packet changed, in its place. What a port said of the checksums of
 * a packet that arrived does not hold for it. ARP has no checksum, so it stays as it is.
 */
static struct rte_mbuf *
corrupt(struct inject_queue *q, struct rte_mbuf *m)
{
	const uint32_t at = ip_at(m);
	struct rte_mbuf *copy, *seg;
	uint32_t off;

	if (at == 0 || m->pkt_len <= at)
		return m;
	copy = copy_of(q, m);
	if (copy == NULL)
		return m;
	if (q->way == INJECT_TX && !finish_checksums(copy)) {
		add(&q->undone, 1);
		rte_pktmbuf_free(copy);
		return m;
	}
	if (q->way == INJECT_RX)
		copy->ol_flags &= ~(RTE_MBUF_F_RX_IP_CKSUM_MASK | RTE_MBUF_F_RX_L4_CKSUM_MASK);
	off = at + (uint32_t)(draw(q) % (m->pkt_len - at));
	for (seg = copy; off >= seg->data_len; seg = seg->next)
		off -= seg->data_len;
	*rte_pktmbuf_mtod_offset(seg, uint8_t *, off) ^= (uint8_t)(1u << draw(q) % 8);
	add(&q->done[INJECT_CORRUPT], 1);
	rte_pktmbuf_free(m);
	return copy;
}

void
inject_queue_take(struct inject_queue *q, struct rte_mbuf *m, uint64_t now_ns)
{
	struct rte_mbuf *twin = NULL;

	if (happens(q, INJECT_DROP)) {
		add(&q->done[INJECT_DROP], 1);
		rte_pktmbuf_free(m);
		return;
	}
	if (happens(q, INJECT_CORRUPT))
		m = corrupt(q, m);
	if (happens(q, INJECT_DUPLICATE)) {
		twin = copy_of(q, m);
		if (twin != NULL)
			add(&q->done[INJECT_DUPLICATE], 1);
	}
	if (!happens(q, INJECT_DELAY)) {
		go_on(q, m);
	} else if (hold(&q->late, m, now_ns + q->want.delay_us * 1000)) {
		add(&q->done[INJECT_DELAY], 1);
	} else {
		add(&q->undone, 1);
		go_on(q, m);
	}
	if (twin != NULL)
		go_on(q, twin);
}

/* ---- A worker that sleeps ---- */

static void
on_alarm(void *arg)
{
	struct inject_queue *q = arg;

	q->alarm = NULL;
	/* The poll that runs this receives, too. */
	if (q->on_due != NULL)
		q->on_due(q);
}

void
inject_queue_done(struct inject_queue *q, uint16_t packets, uint64_t now_ns)
{
	uint64_t wait_us = AGAIN_US;

	add(&q->packets, packets);
	atomic_store_explicit(&q->held, q->late.n + q->ready.n, memory_order_relaxed);
	if (q->late.n + q->ready.n == 0)
		return;
	for (uint32_t i = 0; q->worker == NULL && i < con.stack.nworkers; i++)
		if (weft_worker_is_mine(con.stack.workers[i]))
			q->worker = con.stack.workers[i];
	if (q->worker == NULL || q->alarm != NULL)
		return;
	if (q->ready.n == 0)
		wait_us = q->late.due_ns[q->late.head] > now_ns
		                  ? (q->late.due_ns[q->late.head] - now_ns) / 1000
		                  : 0;
	(void)weft_alarm_set(q->worker, wait_us, on_alarm, q, &q->alarm);
}

void
inject_queue_end(struct inject_queue *q)
{
	if (q->alarm != NULL)
		weft_alarm_cancel(q->alarm);
	q->alarm = NULL;
	while (q->late.n > 0)
		rte_pktmbuf_free(oldest(&q->late));
	while (q->ready.n > 0)
		rte_pktmbuf_free(oldest(&q->ready));
}
