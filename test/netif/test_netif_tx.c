/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Transmit: headers, checksums, references and the queue. Also the checksum alone. */

#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_mempool.h>

#include "../../lib/netif/netif_cksum.h"
#include "../../lib/netif/netif_txq.h"
#include "fake.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_neigh.h"
#include "weft_netif_stats.h"
#include "weft_netif_offload_trust.h"
#include "weft_netif_tx.h"
#include <weft/offload.h>

static struct fake f;
static struct weft_ip us, peer;
static struct weft_neigh *neigh;
static uint8_t buf[FAKE_FRAME * 8];

static void
start(const struct weft_netif_attr *attr)
{
	fake_start(&f, attr);
	us = weft_ip_from_v4(rte_cpu_to_be_32(FAKE_US));
	peer = weft_ip_from_v4(rte_cpu_to_be_32(FAKE_PEER));
	CHECK_EQ(weft_netif_neigh_get(f.nif, NULL, &peer, &neigh), 0);
	fake_resolve(&f);
	fake_drop(&f);
}

static void
stop(void)
{
	weft_netif_neigh_put(f.nif, neigh);
	fake_stop(&f);
}

/* A segment of `len` octets in pieces of `piece`. The TCP header is completely in the first
 * mbuf. */
static struct rte_mbuf *
segment(uint32_t len, uint32_t piece)
{
	struct rte_mbuf *m = weft_netif_alloc(f.nif, WEFT_NETIF_HEADROOM + 6), *last = m;
	uint32_t first = RTE_MAX(piece, 20u);
	uint8_t v = 1;

	CHECK(m != NULL);
	first = RTE_MIN(first, len);
	for (uint32_t n = first, off = 0; off < len; off += n, n = RTE_MIN(piece, len - off)) {
		uint8_t *p;

		if (off > 0) {
			last->next = rte_pktmbuf_alloc(fake_pool);
			CHECK(last->next != NULL);
			last = last->next;
			m->nb_segs++;
		}
		p = rte_pktmbuf_mtod(last, uint8_t *);
		for (uint32_t i = 0; i < n; i++)
			p[i] = v = (uint8_t)(v * 5 + 3);
		last->data_len = (uint16_t)n;
		m->pkt_len = off + n;
	}
	rte_pktmbuf_mtod(m, uint8_t *)[12] = 0x50;
	return m;
}

static int
tx(struct rte_mbuf *m)
{
	return weft_netif_tx(f.nif, neigh, &us, &peer, m, (struct weft_netif_tx_how){0}, f.now_ns);
}

static void
test_frame(void)
{
	start(NULL);
	for (uint32_t len = 20; len <= 1480; len += len < 100 ? 1 : 23) {
		for (uint32_t piece = 1; piece <= len; piece = piece * 3 + 1) {
			if (len / piece > 200)
				continue;
			CHECK_EQ(tx(segment(len, piece)), 0);
			fake_poll(&f);
			CHECK_EQ(f.ntx, 1);
			CHECK_EQ((f.txq[0]->ol_flags & RTE_MBUF_F_TX_OFFLOAD_MASK) != 0, fake_hw);
			CHECK_EQ(fake_sent(&f, 0, buf), len + 34);
			CHECK_MEM(buf, &fake_peer_mac, 6);
			CHECK_MEM(buf + 6, &fake_us_mac, 6);
			CHECK_EQ(weft_get_be16(buf + 12), 0x0800);
			CHECK_EQ(buf[14], 0x45);
			CHECK_EQ(weft_get_be16(buf + 16), len + 20);
			CHECK_EQ(weft_get_be16(buf + 20), 0x4000);
			CHECK(buf[22] >= 64);
			CHECK_EQ(buf[23], IPPROTO_TCP);
			CHECK_EQ(weft_get_be32(buf + 26), FAKE_US);
			CHECK_EQ(weft_get_be32(buf + 30), FAKE_PEER);
			CHECK_EQ(fake_cksum(buf + 14, 20, 0), 0);
			CHECK_EQ(fake_cksum(buf + 34, len, fake_pseudo(FAKE_US, FAKE_PEER, 6, len)),
			         0);
			CHECK_EQ(weft_get_be16(buf + 18), 0);
			fake_drop(&f);
		}
	}
	CHECK_EQ(tx(segment(1481, 2000)), -EMSGSIZE);
	CHECK_EQ(tx(segment(19, 2000)), -EMSGSIZE);
	stop();
}

static void
test_offload(void)
{
	struct weft_netif_attr a;
	struct rte_mbuf *m;

	fake_hw = false;
	a = fake_attr(&f);
	a.tx_offloads = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM;
	start(&a);
	m = segment(99, 200);
	CHECK_EQ(tx(m), 0);
	fake_poll(&f);
	CHECK_EQ(m->ol_flags & RTE_MBUF_F_TX_OFFLOAD_MASK,
	         RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_TCP_CKSUM);
	CHECK_EQ(m->l2_len, 14);
	CHECK_EQ(m->l3_len, 20);
	CHECK_EQ(m->l4_len, 20);
	fake_sent(&f, 0, buf);
	CHECK_EQ(weft_get_be16(buf + 24), 0);
	CHECK_EQ(weft_get_be16(buf + 34 + 16),
	         (uint16_t)~fake_cksum(buf, 0, fake_pseudo(FAKE_US, FAKE_PEER, 6, 99)));
	CHECK_EQ(rte_validate_tx_offload(m), 0);
	stop();
}

static void
test_references(void)
{
	struct rte_mbuf *m;

	start(NULL);
	/* TCP keeps one reference, and the port frees the other. */
	m = segment(200, 300);
	rte_mbuf_refcnt_update(m, 1);
	CHECK_EQ(tx(m), 0);
	fake_poll(&f);
	CHECK_EQ(rte_mbuf_refcnt_read(m), 2);
	fake_drop(&f);
	CHECK_EQ(rte_mbuf_refcnt_read(m), 1);
	/* Too long: freed at once. */
	rte_mbuf_refcnt_update(m, 1);
	m->data_off = WEFT_NETIF_HEADROOM - 1;
	CHECK_EQ(tx(m), -EMSGSIZE);
	CHECK_EQ(rte_mbuf_refcnt_read(m), 1);
	rte_pktmbuf_free(m);
	stop();
}

/* Time passes, and the queue is flushed; with fake_poll()'s steps. */
static void
flush_at(uint64_t ms)
{
	f.now_ns += ms * WEFT_NS_PER_MS;
	fake_poll(&f);
}

/** A port that takes nothing for a second is counted and reset, once a second. A port without a
 * link, one that takes a little, and one with nothing to send are not. */
static void
test_stall(void)
{
	const struct weft_netif_stats *st;

	start(NULL);
	st = weft_netif_stats(f.nif);
	flush_at(5000);
	f.tx_room = 0;
	for (unsigned int i = 0; i < 40; i++)
		CHECK_EQ(tx(segment(100, 2000)), 0);
	flush_at(1);
	flush_at(998);
	CHECK_EQ(st->tx_stalls, 0);
	/* One packet goes: the second begins anew. */
	f.tx_room = 1;
	flush_at(1);
	flush_at(1);
	flush_at(999);
	CHECK_EQ(st->tx_stalls, 0);
	flush_at(1);
	CHECK_EQ(st->tx_stalls, 1);
	CHECK_EQ(f.resets, 1);
	CHECK_EQ(st->tx_resets, 1);
	flush_at(500);
	CHECK_EQ(f.resets, 1);
	/* The driver cannot: the stall is counted all the same. */
	f.reset_rc = -ENOTSUP;
	flush_at(500);
	CHECK_EQ(st->tx_stalls, 2);
	CHECK_EQ(st->tx_resets, 1);
	/* Without a link packets wait. The link is looked at once a second. */
	f.no_link = true;
	flush_at(1000);
	for (unsigned int i = 0; i < 5; i++)
		flush_at(1000);
	CHECK(st->tx_stalls <= 3);
	CHECK_EQ(st->tx_resets, 1);
	f.no_link = false;
	f.tx_room = 100;
	f.reset_rc = 0;
	flush_at(200);
	flush_at(1000);
	f.tx_room = 0;
	flush_at(5000);
	flush_at(5000);
	CHECK_EQ(f.resets, st->tx_stalls);
	CHECK_EQ(st->tx_resets, 1);
	f.tx_room = 100;
	stop();
}

/* TCP hears nothing for `ms`, in which netif has given the port `n` packets. */
static void
unanswered(uint64_t ms, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		CHECK_EQ(tx(segment(100, 2000)), 0);
	flush_at(ms);
	weft_netif_tx_unanswered(f.nif);
}

/** A queue that takes packets and sends none is reset, by the device's own count. */
static void
test_silent_queue(void)
{
	const struct weft_netif_stats *st;

	start(NULL);
	st = weft_netif_stats(f.nif);
	unanswered(1000, 3);
	CHECK_EQ(st->tx_stalls, 0);
	/* It sends, so the path or the peer is silent. */
	f.tx_counted = 5;
	unanswered(1000, 3);
	CHECK_EQ(st->tx_stalls, 0);
	/* Nothing was given. */
	unanswered(1000, 0);
	CHECK_EQ(st->tx_stalls, 0);
	/* Too soon after the last look, then not. */
	unanswered(499, 3);
	CHECK_EQ(st->tx_stalls, 0);
	unanswered(1, 0);
	CHECK_EQ(st->tx_stalls, 1);
	CHECK_EQ(f.resets, 1);
	CHECK_EQ(st->tx_resets, 1);
	/* What was given before the reset tells nothing of the time after it. */
	unanswered(1000, 0);
	CHECK_EQ(st->tx_stalls, 1);
	/* An old look is forgotten, and so is a port that does not count. */
	unanswered(61000, 3);
	CHECK_EQ(st->tx_stalls, 1);
	f.tx_count_rc = -ENOTSUP;
	unanswered(1000, 3);
	f.tx_count_rc = 0;
	CHECK_EQ(st->tx_stalls, 1);
	f.no_link = true;
	for (unsigned int i = 0; i < 5; i++) {
		fake_poll(&f);
		unanswered(1000, 3);
	}
	CHECK(st->tx_stalls <= 2);
	stop();
}

/** Six findings, each of a segment that left after the finding before, end an offload. */
static void
test_findings(void)
{
	struct weft_netif_attr a;
	const struct weft_netif_stats *st;
	uint64_t sent_ns;

	fake_hw = false;
	a = fake_attr(&f);
	a.tx_offloads = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM |
	                RTE_ETH_TX_OFFLOAD_TCP_TSO | RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	start(&a);
	st = weft_netif_stats(f.nif);
	/* The link is just up. */
	CHECK(!weft_netif_tx_rescued(f.nif, f.now_ns));
	flush_at(1000);
	sent_ns = f.now_ns;
	flush_at(1000);
	for (unsigned int i = 0; i < 10; i++) {
		CHECK(weft_netif_tx_rescued(f.nif, sent_ns));
		weft_netif_tso_lost(f.nif, sent_ns);
	}
	CHECK_EQ(weft_netif_offloads_off(f.nif), 0);
	/* A retransmission, and a TSO packet, that arrives. */
	weft_netif_tx_resent(f.nif);
	weft_netif_tso_arrived(f.nif);
	for (unsigned int i = 0; i < 5; i++) {
		flush_at(1000);
		sent_ns = f.now_ns;
		flush_at(1000);
		CHECK(weft_netif_tx_rescued(f.nif, sent_ns));
		weft_netif_tso_lost(f.nif, sent_ns);
	}
	CHECK_EQ(weft_netif_offloads_off(f.nif), 0);
	/* What left before the ring stalled tells nothing. */
	flush_at(1000);
	sent_ns = f.now_ns;
	f.tx_room = 0;
	CHECK_EQ(tx(segment(100, 2000)), 0);
	flush_at(1);
	flush_at(1001);
	CHECK_EQ(st->tx_stalls, 1);
	f.tx_room = 100;
	CHECK(!weft_netif_tx_rescued(f.nif, sent_ns));
	weft_netif_tso_lost(f.nif, sent_ns);
	CHECK_EQ(weft_netif_offloads_off(f.nif), 0);
	/* Findings are forgotten after five minutes. */
	flush_at(310000);
	CHECK(weft_netif_tx_rescued(f.nif, f.now_ns - 1));
	CHECK_EQ(weft_netif_offloads_off(f.nif), 0);
	for (unsigned int i = 0; i < 6; i++) {
		flush_at(1000);
		CHECK_EQ(weft_netif_offloads_off(f.nif), 0);
		weft_netif_tso_lost(f.nif, f.now_ns - 1);
	}
	CHECK_EQ(weft_netif_offloads_off(f.nif), WEFT_OFFLOAD_TSO);
	CHECK_EQ(weft_netif_tso(f.nif, &peer).bytes, 0);
	CHECK(weft_netif_tx_summed(f.nif));
	for (unsigned int i = 0; i < 5; i++) {
		CHECK_EQ(weft_netif_offloads_off(f.nif), WEFT_OFFLOAD_TSO);
		flush_at(1000);
		CHECK(weft_netif_tx_rescued(f.nif, f.now_ns - 1));
	}
	CHECK_EQ(weft_netif_offloads_off(f.nif), WEFT_OFFLOAD_TSO | WEFT_OFFLOAD_TX_CHECKSUM);
	CHECK(!weft_netif_tx_summed(f.nif));
	CHECK(!weft_netif_tx_rescued(f.nif, f.now_ns));
	CHECK_EQ(st->tx_cksum_off + st->tso_off, 2);
	stop();
}

/** What the caller wants summed in software is, whatever the port offers. */
static void
test_own_sum(void)
{
	const struct weft_netif_tx_how how = {.own_sum = true};
	struct weft_netif_attr a;
	struct rte_mbuf *m;

	fake_hw = false;
	a = fake_attr(&f);
	a.tx_offloads = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM;
	start(&a);
	m = segment(99, 200);
	CHECK_EQ(weft_netif_tx(f.nif, neigh, &us, &peer, m, how, f.now_ns), 0);
	fake_poll(&f);
	CHECK_EQ(m->ol_flags & RTE_MBUF_F_TX_OFFLOAD_MASK, 0);
	fake_sent(&f, 0, buf);
	CHECK_EQ(fake_cksum(buf + 14, 20, 0), 0);
	CHECK_EQ(fake_cksum(buf + 34, 99, fake_pseudo(FAKE_US, FAKE_PEER, 6, 99)), 0);
	stop();
}

static void
test_queue_full(void)
{
	struct rte_mbuf *m;
	uint8_t arp[64];
	uint32_t len;

	start(NULL);
	f.tx_room = 0;
	CHECK_EQ(weft_netif_tx_room(f.nif), WEFT_NETIF_TXQ);
	for (unsigned int i = 0; i < WEFT_NETIF_TXQ; i++) {
		CHECK_EQ(weft_netif_tx_room(f.nif), WEFT_NETIF_TXQ - i);
		CHECK_EQ(tx(segment(20 + i % 1000, 2000)), 0);
	}
	CHECK_EQ(weft_netif_tx_room(f.nif), 0);
	m = segment(20, 2000);
	rte_mbuf_refcnt_update(m, 1);
	CHECK_EQ(tx(m), -ENOBUFS);
	CHECK_EQ(rte_mbuf_refcnt_read(m), 1);
	rte_pktmbuf_free(m);
	CHECK_EQ(weft_netif_stats(f.nif)->tx_queue_full, 1);
	/* ARP frames are still queued behind it, up to a limit. */
	len = fake_arp(arp, 1, &fake_peer_mac, FAKE_PEER, FAKE_US);
	for (unsigned int i = 0; i < 200; i++)
		fake_rx(&f, arp, len, FAKE_FLAT, 0);
	fake_poll(&f);
	CHECK_EQ(weft_netif_stats(f.nif)->tx_queue_full, 1 + 200 - 64);
	/* Nothing was sent meanwhile. Now the queue drains in order, in any bursts that the port
	 * accepts. */
	CHECK_EQ(f.ntx, 0);
	for (unsigned int i = 0; f.ntx < WEFT_NETIF_TXQ + 64; i++) {
		unsigned int before = f.ntx;

		f.tx_room = 1 + i % 50;
		CHECK_EQ(weft_netif_flush(f.nif, f.now_ns),
		         RTE_MIN(1 + i % 50, WEFT_NETIF_TXQ + 64 - before));
	}
	for (unsigned int i = 0; i < WEFT_NETIF_TXQ; i++)
		CHECK_EQ(f.txq[i]->pkt_len, 34 + 20 + i % 1000);
	CHECK_EQ(weft_netif_tx_room(f.nif), WEFT_NETIF_TXQ);
	fake_drop(&f);
	/* Destroyed with a full queue: nothing leaks (fake_stop counts). */
	f.tx_room = 0;
	for (unsigned int i = 0; i < WEFT_NETIF_TXQ; i++)
		CHECK_EQ(tx(segment(20, 2000)), 0);
	weft_netif_neigh_put(f.nif, neigh);
	weft_netif_destroy(f.nif);
	CHECK_EQ(rte_mempool_in_use_count(fake_pool), 0);
}

/* The first long packets of a poll are sent before its end. Short ones, and later ones, wait for
 * it. */
static void
test_early(void)
{
	static const uint32_t shorts = (NETIF_EARLY_BYTES + 133) / 134;

	start(NULL);
	for (unsigned int poll = 0; poll < 3; poll++) {
		weft_netif_flush(f.nif, f.now_ns);
		fake_drop(&f);
		for (unsigned int i = 1; i <= NETIF_EARLY_PUSHES; i++) {
			CHECK_EQ(tx(segment(1400, 2000)), 0);
			CHECK_EQ(f.ntx, i);
		}
		CHECK_EQ(tx(segment(1400, 2000)), 0);
		CHECK_EQ(f.ntx, NETIF_EARLY_PUSHES);
		CHECK_EQ(weft_netif_flush(f.nif, f.now_ns), 1);
		CHECK_EQ(f.ntx, NETIF_EARLY_PUSHES + 1);

		for (unsigned int i = 1; i < shorts; i++)
			CHECK_EQ(tx(segment(100, 2000)), 0);
		CHECK_EQ(f.ntx, NETIF_EARLY_PUSHES + 1);
		CHECK_EQ(tx(segment(100, 2000)), 0);
		CHECK_EQ(f.ntx, NETIF_EARLY_PUSHES + 1 + shorts);
	}
	/* A port that did not accept everything is not called again before the end of the poll. */
	weft_netif_flush(f.nif, f.now_ns);
	fake_drop(&f);
	f.tx_room = 0;
	CHECK_EQ(tx(segment(1400, 2000)), 0);
	f.tx_room = FAKE_QUEUE;
	CHECK_EQ(tx(segment(1400, 2000)), 0);
	CHECK_EQ(f.ntx, 0);
	CHECK_EQ(weft_netif_flush(f.nif, f.now_ns), 2);
	stop();
}

static void
test_ring_wrap(void)
{
	start(NULL);
	/* Many times around the ring, which is never quite empty. */
	for (unsigned int i = 0, sent = 0; i < 20000; i++) {
		CHECK_EQ(tx(segment(20 + i % 1000, 2000)), 0);
		if (i % 37 == 0) {
			f.tx_room = i % 41;
			weft_netif_flush(f.nif, f.now_ns);
			if (weft_netif_tx_room(f.nif) < 200) {
				f.tx_room = FAKE_QUEUE;
				weft_netif_flush(f.nif, f.now_ns);
			}
			for (unsigned int k = 0; k < f.ntx; k++, sent++)
				CHECK_EQ(f.txq[k]->pkt_len, 34 + 20 + sent % 1000);
			rte_pktmbuf_free_bulk(f.txq, f.ntx);
			f.ntx = f.tx_room = 0;
		}
	}
	stop();
}

/* A burst is limited in packets and in octets: long packets are sent before 32 of them are
 * queued. */
static void
test_burst(void)
{
	struct weft_netif_attr a;

	start(NULL);
	stop();
	a = fake_attr(&f);
	a.mtu_bytes = 9000;
	start(&a);
	f.nif->early = 0; /* as later in a poll */
	for (unsigned int i = 1; i < WEFT_NETIF_BURST; i++) {
		CHECK_EQ(tx(segment(1200, 2000)), 0);
		CHECK_EQ(f.ntx, 0);
	}
	CHECK_EQ(tx(segment(1200, 2000)), 0);
	CHECK_EQ(f.ntx, WEFT_NETIF_BURST);
	fake_drop(&f);
	for (unsigned int i = 1; i <= 40; i++) {
		CHECK_EQ(tx(segment(8900, 1800)), 0);
		CHECK_EQ(f.ntx, i / 8 * 8);
	}
	fake_drop(&f);
	/* What the port does not accept waits for the next poll, regardless of its amount. */
	f.tx_room = 3;
	for (unsigned int i = 1; i <= 40; i++) {
		CHECK_EQ(tx(segment(8900, 1800)), 0);
		CHECK_EQ(f.ntx, i < 8 ? 0 : 3);
		f.tx_room = i < 8 ? 3 : FAKE_QUEUE;
	}
	CHECK_EQ(weft_netif_flush(f.nif, f.now_ns), 37);
	fake_drop(&f);
	stop();
}

static void
test_create(void)
{
	static const struct weft_netif_ops no_ops,
	        ops = {.tcp_rx = (void (*)(void *, struct weft_netif *, struct rte_mbuf **,
	                                   unsigned int, uint64_t))1};
	struct weft_netif_attr a, good = fake_attr(&f);
	struct weft_netif *nif;
	struct rte_mempool *small;

#define REFUSE(change)                                                                             \
	do {                                                                                       \
		a = good;                                                                          \
		change;                                                                            \
		CHECK_EQ(weft_netif_create(&a, &ops, NULL, &f.sched, &nif), -EINVAL);              \
	} while (0)
	REFUSE(a.pool = NULL);
	REFUSE(memset(&a.mac, 0, 6));
	REFUSE(a.mac = fake_all_mac);
	REFUSE(a.prefix_len = 33);
	REFUSE(a.mtu_bytes = 67);
	REFUSE(memset(&a.addr, 0, sizeof(a.addr)));
	REFUSE(a.addr.b[0] = 0x20);
	REFUSE(a.addr = weft_ip_from_v4(rte_cpu_to_be_32(FAKE_IP(127, 0, 0, 1))));
	REFUSE(a.addr = weft_ip_from_v4(rte_cpu_to_be_32(FAKE_IP(224, 0, 0, 1))));
	REFUSE(a.gateway = weft_ip_from_v4(rte_cpu_to_be_32(FAKE_FAR)));
	REFUSE(a.gateway = a.addr);
	small = rte_pktmbuf_pool_create("fake_small", 63, 0, 0, 2048, SOCKET_ID_ANY);
	CHECK(small != NULL);
	REFUSE(a.pool = small);
	REFUSE(a.tx_pool = small);
	rte_mempool_free(small);
	CHECK_EQ(weft_netif_create(&good, &no_ops, NULL, &f.sched, &nif), -EINVAL);
#undef REFUSE
}

static void
test_alloc(void)
{
	struct rte_mbuf *m;

	start(NULL);
	/* Room for every header, and an MSS after them. */
	m = weft_netif_alloc(f.nif, WEFT_NETIF_HEADROOM + 60);
	CHECK(m != NULL);
	CHECK_EQ(rte_pktmbuf_headroom(m), WEFT_NETIF_HEADROOM + 60);
	CHECK(rte_pktmbuf_tailroom(m) >= 1460);
	rte_pktmbuf_free(m);
	CHECK(weft_netif_alloc(f.nif, UINT16_MAX) == NULL);
	for (unsigned int mtu = 128; mtu <= 9216; mtu += 568) {
		struct rte_mempool *pool;

		CHECK_EQ(
		        weft_netif_pool_create("fake_mtu", 31, (uint16_t)mtu, SOCKET_ID_ANY, &pool),
		        0);
		CHECK(rte_pktmbuf_data_room_size(pool) >= RTE_PKTMBUF_HEADROOM + 18 + mtu);
		CHECK(rte_pktmbuf_data_room_size(pool) >= WEFT_NETIF_HEADROOM + 60 + mtu);
		CHECK(rte_pktmbuf_priv_size(pool) >= sizeof(struct weft_mbuf_priv));
		CHECK_EQ(rte_pktmbuf_priv_size(pool) % RTE_MBUF_PRIV_ALIGN, 0);
		rte_mempool_free(pool);
	}
	stop();
}

/** Sent packets have their own pool. When it is empty, receiving still works, and vice versa. */
static void
test_pools(void)
{
	struct weft_netif_attr a = fake_attr(&f);
	static uint8_t frame[FAKE_FRAME];
	static struct rte_mbuf *held[8192];
	struct rte_mempool *tx;
	unsigned int n = 0, in_use;
	uint32_t len;

	CHECK_EQ(weft_netif_pool_create("fake_tx", 63, 1500, SOCKET_ID_ANY, &tx), 0);
	a.tx_pool = tx;
	fake_start(&f, &a);
	CHECK(weft_netif_attr(f.nif)->pool == fake_pool && weft_netif_attr(f.nif)->tx_pool == tx);
	in_use = rte_mempool_in_use_count(fake_pool);
	while ((held[n] = weft_netif_alloc(f.nif, WEFT_NETIF_HEADROOM)) != NULL)
		CHECK(held[n++]->pool == tx);
	CHECK_EQ(n, 63);
	CHECK_EQ(rte_mempool_in_use_count(fake_pool), in_use);
	/* an ACK that must be copied is still received */
	len = fake_build(frame, &(struct fake_pkt){0});
	fake_rx(&f, frame, len, FAKE_FOREIGN, 0);
	fake_poll(&f);
	CHECK_EQ(f.nup, 1);
	CHECK(f.up[0]->pool == fake_pool);
	rte_pktmbuf_free_bulk(held, n);
	fake_drop(&f);

	for (n = 0; n < RTE_DIM(held) && (held[n] = rte_pktmbuf_alloc(fake_pool)) != NULL;)
		n++;
	/* our own replies to a ping and to ARP */
	len = fake_build(frame, &(struct fake_pkt){.data = 16, .proto = IPPROTO_ICMP});
	frame[34] = 8;
	frame[35] = 0;
	fake_fix(frame);
	fake_rx(&f, frame, len, FAKE_FOREIGN, 0);
	len = fake_arp(frame, 1, &fake_peer_mac, FAKE_PEER, FAKE_US);
	fake_rx(&f, frame, len, FAKE_FOREIGN, 0);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 2);
	CHECK(f.txq[0]->pool == tx && f.txq[1]->pool == tx);
	rte_pktmbuf_free_bulk(held, n);
	fake_stop(&f);
	CHECK_EQ(rte_mempool_in_use_count(tx), 0);
	rte_mempool_free(tx);

	fake_start(&f, NULL);
	CHECK(weft_netif_attr(f.nif)->tx_pool == fake_pool);
	fake_stop(&f);
}

static void
test_cksum(void)
{
	/* RFC 1071 s3: the sum of this example is 0xddf2. */
	static const uint8_t rfc[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
	static uint8_t data[70000];
	uint64_t rng = 88172645463325252ULL;

	CHECK_EQ(rte_be_to_cpu_16(netif_sum(rfc, sizeof(rfc))), 0xddf2);
	CHECK_EQ(netif_sum(rfc, 0), 0);
	for (unsigned int i = 0; i < sizeof(data); i++) {
		rng ^= rng << 13;
		rng ^= rng >> 7;
		rng ^= rng << 17;
		data[i] = (uint8_t)rng;
	}
	for (unsigned int off = 0; off < 9; off++)
		for (unsigned int len = 0; len < 300; len++)
			CHECK_EQ(rte_be_to_cpu_16(netif_sum(data + off, len)),
			         (uint16_t)~fake_cksum(data + off, len, 0));
	CHECK_EQ(rte_be_to_cpu_16(netif_sum(data, 65535)), (uint16_t)~fake_cksum(data, 65535, 0));
	/* All ones: a carry at every addition. */
	memset(data, 0xff, sizeof(data));
	for (unsigned int len = 2; len < 66000; len += 1 + len / 2)
		CHECK_EQ(rte_be_to_cpu_16(netif_sum(data, len)),
		         (uint16_t)~fake_cksum(data, len, 0));
}

static void
test_cksum_chain(void)
{
	start(NULL);
	for (uint32_t piece = 1; piece < 70; piece++) {
		struct rte_mbuf *m = segment(333, piece);
		const uint8_t *flat = rte_pktmbuf_read(m, 0, 333, buf);

		for (uint32_t off = 0; off <= 333; off += 1 + off % 7)
			for (uint32_t len = 0; len <= 333 - off; len += 1 + len % 5)
				CHECK_EQ(rte_be_to_cpu_16(netif_sum_mbuf(m, off, len)),
				         (uint16_t)~fake_cksum(flat + off, len, 0));
		rte_pktmbuf_free(m);
	}
	stop();
}

FAKE_BOTH(test_frame)
FAKE_BOTH(test_references)
FAKE_BOTH(test_queue_full)
FAKE_BOTH(test_ring_wrap)

/** An MTU whose frames fill a buffer of the pool exactly is accepted, and one octet more is
 * refused. */
static void
test_mtu_pool(void)
{
	uint32_t most;

	start(NULL);
	/* after the headrooms: the longest TCP header, and an IP packet without its own headers */
	most = rte_pktmbuf_data_room_size(fake_pool) - RTE_PKTMBUF_HEADROOM - WEFT_NETIF_HEADROOM -
	       60;
	CHECK(most >= 1500);
	CHECK_EQ(weft_netif_set_mtu(f.nif, (uint16_t)(most + 1)), -EINVAL);
	CHECK_EQ(weft_netif_attr(f.nif)->mtu_bytes, 1500);
	CHECK_EQ(weft_netif_set_mtu(f.nif, (uint16_t)most), 0);
	stop();
}

/** Pools for the largest MTU. An mbuf's length has 16 bits: what is sent fits one mbuf with all its
 * headers, and packets of 65535 octets are received. */
static void
test_mtu_large(void)
{
	static const struct {
		uint16_t mtu, most;
	} v[] = {{1500, 1500}, {65226, 65226}, {65326, 65326}, {65327, 65326}, {65535, 65326}};

	for (unsigned int i = 0; i < RTE_DIM(v); i++) {
		struct weft_netif_attr a = fake_attr(&f);
		struct rte_mempool *pool;
		struct rte_mbuf *m;

		CHECK_EQ(weft_netif_pool_create("fake_large", 63, v[i].mtu, SOCKET_ID_ANY, &pool),
		         0);
		a.pool = pool;
		a.mtu_bytes = v[i].mtu;
		fake_create(&f, &a);
		CHECK_EQ(weft_netif_tx_most(f.nif), v[i].most);
		m = weft_netif_alloc(f.nif, WEFT_NETIF_HEADROOM + 60);
		CHECK(m != NULL);
		CHECK(rte_pktmbuf_tailroom(m) >= v[i].most - 40);
		/* A frame of that length, with a tag, is one mbuf of the receive pool. */
		CHECK(rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM >= v[i].most + 18);
		rte_pktmbuf_free(m);
		CHECK_EQ(weft_netif_set_mtu(f.nif, v[i].mtu), 0);
		fake_stop(&f);
		rte_mempool_free(pool);
	}
}

WEFT_TEST_MAIN({"mtu of the pool", test_mtu_pool}, {"mtu 65535", test_mtu_large},
               FAKE_CASES("frame", test_frame), {"offload", test_offload},
               FAKE_CASES("references", test_references), FAKE_CASES("queue_full", test_queue_full),
               {"stall", test_stall},
               {"a queue that takes packets and sends none", test_silent_queue},
               {"findings about what was sent", test_findings}, {"own sum", test_own_sum},
               {"early", test_early}, {"burst", test_burst},
               FAKE_CASES("ring_wrap", test_ring_wrap), {"create", test_create},
               {"alloc", test_alloc}, {"pools", test_pools}, {"cksum", test_cksum},
               {"cksum_chain", test_cksum_chain})
