/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file TSO: a packet of several segments, cut by netif or by the port. The wire shows the same
 * octets as when each segment is sent alone. The port that cuts is part of this test.
 */

#include <stdlib.h>

#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_mempool.h>

#include "../../lib/netif/netif_neigh.h"
#include "../../lib/netif/netif_park.h"
#include "../../lib/netif/netif_priv.h"
#include "fake.h"
#include "weft_netif_budget.h"
#include "weft_netif_capture.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_stats.h"
#include "weft_netif_tx.h"

#define TSO_PORT                                                                                   \
	(RTE_ETH_TX_OFFLOAD_TCP_TSO | RTE_ETH_TX_OFFLOAD_MULTI_SEGS |                              \
	 RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_IPV4_CKSUM)
#define WIRE_FRAMES 128
#define WIRE_BYTES  2048
#define HDR         32 /* with timestamps */
#define SEQ         0xfffff000u
#define CWR         0x80
#define PSH         0x08
#define FIN         0x01
#define ACK         0x10

static struct fake f;
static struct weft_ip us, peer;
static struct weft_neigh *neigh;
static unsigned int exts; /* number of external buffers that are held */

/* ---- Frames on the wire ---- */

struct wire {
	unsigned int n;
	uint32_t len[WIRE_FRAMES];
	uint8_t b[WIRE_FRAMES][WIRE_BYTES];
};

static struct wire plain, cut;

static uint16_t
sum16(uint32_t sum)
{
	while (sum > 0xffff)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/** Record one frame, and fill in what the port was asked to compute. */
static void
wire_frame(struct wire *w, const struct rte_mbuf *m, const uint8_t *p, uint32_t len)
{
	uint8_t *to = w->b[w->n], *ip, *tcp;
	uint32_t tag = (m->ol_flags & RTE_MBUF_F_TX_VLAN) != 0 ? 4 : 0;
	uint32_t l4_len = len - m->l2_len - m->l3_len;

	CHECK(w->n < WIRE_FRAMES && len + tag <= WIRE_BYTES);
	memcpy(to, p, 12);
	memcpy(to + 12 + tag, p + 12, len - 12);
	if (tag != 0) {
		weft_put_be16(to + 12, 0x8100);
		weft_put_be16(to + 14, m->vlan_tci);
	}
	ip = to + tag + m->l2_len;
	tcp = ip + m->l3_len;
	if (m->ol_flags & RTE_MBUF_F_TX_IP_CKSUM) {
		CHECK_EQ(weft_get_be16(ip + 10), 0);
		weft_put_be16(ip + 10, fake_cksum(ip, m->l3_len, 0));
	}
	if ((m->ol_flags & RTE_MBUF_F_TX_L4_MASK) == RTE_MBUF_F_TX_TCP_CKSUM)
		weft_put_be16(tcp + 16, fake_cksum(tcp, l4_len, 0));
	w->len[w->n++] = len + tag;
}

/** What a port does with a packet of several segments. */
static void
wire_cut(struct wire *w, const struct rte_mbuf *m, const uint8_t *p)
{
	static uint8_t one[70000];
	uint32_t hdr = m->l2_len + m->l3_len + m->l4_len, data = m->pkt_len - hdr, k = 0;
	uint8_t *ip = one + m->l2_len, *tcp = ip + m->l3_len;
	bool v4 = (m->ol_flags & RTE_MBUF_F_TX_IPV4) != 0;

	CHECK_EQ(rte_validate_tx_offload(m), 0);
	CHECK_EQ(v4, (m->ol_flags & RTE_MBUF_F_TX_IPV6) == 0);
	CHECK(m->data_len >= hdr && m->tso_segsz != 0 && data > m->tso_segsz);
	CHECK(m->pkt_len - m->l2_len <= 65535);
	for (uint32_t off = 0; off < data; off += m->tso_segsz, k++) {
		uint32_t n = RTE_MIN(data - off, (uint32_t)m->tso_segsz);
		uint32_t l4_len = m->l4_len + n;

		memcpy(one, p, hdr);
		memcpy(one + hdr, p + hdr + off, n);
		if (v4) {
			weft_put_be16(ip + 2, (uint16_t)(m->l3_len + l4_len));
			weft_put_be16(ip + 4, (uint16_t)(weft_get_be16(ip + 4) + k));
		} else {
			weft_put_be16(ip + 4, (uint16_t)l4_len);
		}
		weft_put_be32(tcp + 4, weft_get_be32(tcp + 4) + off);
		if (off + n < data)
			tcp[13] &= (uint8_t) ~(FIN | PSH);
		/* The pseudo-header sum from the stack lacks only the length. */
		weft_put_be16(tcp + 16, sum16(weft_get_be16(tcp + 16) + l4_len));
		wire_frame(w, m, one, hdr + n);
	}
}

static void
wire_take(struct wire *w)
{
	static uint8_t buf[70000];
	uint64_t bytes = 0, packets = 0;

	w->n = 0;
	for (unsigned int i = 0; i < f.ntx; i++) {
		const struct rte_mbuf *m = f.txq[i];
		const uint8_t *p = rte_pktmbuf_read(m, 0, m->pkt_len, buf);
		const char *why;

		CHECK_MSG(rte_mbuf_check(m, 1, &why) == 0, "%s", why);
		if (m->ol_flags & RTE_MBUF_F_TX_TCP_SEG)
			wire_cut(w, m, p);
		else
			wire_frame(w, m, p, m->pkt_len);
	}
	for (; packets < w->n; packets++)
		bytes += w->len[packets] -
		         (f.ntx > 0 && (f.txq[0]->ol_flags & RTE_MBUF_F_TX_VLAN) ? 4 : 0);
	CHECK_EQ(weft_netif_stats(f.nif)->tx_packets, packets);
	CHECK_EQ(weft_netif_stats(f.nif)->tx_bytes, bytes);
}

/** RFC 6864 s4.1: a packet that must not be fragmented needs no identification, so clear it. A
 * port counts up from ours. */
static void
wire_no_id(uint8_t *ip)
{
	CHECK_EQ(fake_cksum(ip, 20, 0), 0);
	CHECK_EQ(weft_get_be16(ip + 6), 0x4000);
	memset(ip + 4, 0, 2);
	memset(ip + 10, 0, 2);
	weft_put_be16(ip + 10, fake_cksum(ip, 20, 0));
}

static void
wire_check(bool v4, bool vlan)
{
	uint32_t l3 = vlan ? 18 : 14, l4 = l3 + (v4 ? 20 : 40);

	for (unsigned int i = 0; i < plain.n; i++) {
		const uint8_t *p = plain.b[i];
		uint32_t len = plain.len[i];

		if (v4) {
			CHECK_EQ(fake_cksum(p + l3, 20, 0), 0);
			CHECK_EQ(fake_cksum(p + l4, len - l4,
			                    fake_pseudo(FAKE_US, FAKE_PEER, 6, len - l4)),
			         0);
		} else {
			CHECK_EQ(fake_cksum(p + l4, len - l4,
			                    (uint16_t)~fake_cksum(p + l3 + 8, 32, 6 + len - l4)),
			         0);
		}
	}
	CHECK_EQ(cut.n, plain.n);
	for (unsigned int i = 0; i < plain.n; i++) {
		CHECK_EQ(cut.len[i], plain.len[i]);
		if (v4) {
			wire_no_id(plain.b[i] + l3);
			wire_no_id(cut.b[i] + l3);
		}
		CHECK_MEM(cut.b[i], plain.b[i], plain.len[i]);
	}
}

/* ---- Sent packets ---- */

/** Clear the counters, but not the loans of the port. */
static void
clear_stats(void)
{
	struct weft_netif_budgets lent = f.nif->stats.lent;

	memset(&f.nif->stats, 0, sizeof(f.nif->stats));
	f.nif->stats.lent = lent;
}

static void
start(bool v4, uint16_t vlan, uint64_t tx_offloads, uint16_t mbufs_max)
{
	struct weft_netif_attr a;

	fake_hw = false;
	a = v4 ? fake_attr(&f) : fake6_attr(&f);
	a.vlan_id = vlan;
	a.tx_offloads = tx_offloads;
	a.tx_mbufs_max = mbufs_max;
	fake_create(&f, &a);
	us = v4 ? weft_ip_from_v4(rte_cpu_to_be_32(FAKE_US)) : fake6_us;
	peer = v4 ? weft_ip_from_v4(rte_cpu_to_be_32(FAKE_PEER)) : fake6_peer;
	CHECK_EQ(weft_netif_neigh_get(f.nif, NULL, &peer, &neigh), 0);
	netif_neigh_confirm(neigh, &fake_peer_mac, true);
	/* the announcements */
	fake_pass(&f, 3 * WEFT_NS_PER_S);
	fake_drop(&f);
	exts = 0;
	/* From here on every run sends the same packets. */
	memset(f.nif->flow_key, 7, sizeof(f.nif->flow_key));
	clear_stats();
}

static void
stop(void)
{
	weft_netif_neigh_put(f.nif, neigh);
	fake_stop(&f);
}

static void
ext_free(void *addr, void *opaque)
{
	memset(addr, 0xee, 16);
	free(addr);
	free(opaque);
	exts--;
}

static void
fill(uint8_t *p, uint32_t off, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)((off + i) * 13 + ((off + i) >> 8) * 5 + 1);
}

static struct rte_mbuf *
ext_mbuf(uint32_t off, uint32_t len)
{
	struct rte_mbuf_ext_shared_info *info = calloc(1, sizeof(*info));
	struct rte_mbuf *m = rte_pktmbuf_alloc(fake_pool);
	uint8_t *mem = malloc(RTE_MAX(len, 16u));

	CHECK(m != NULL && mem != NULL && info != NULL);
	info->free_cb = ext_free;
	info->fcb_opaque = info;
	rte_mbuf_ext_refcnt_set(info, 1);
	fill(mem, off, len);
	rte_pktmbuf_attach_extbuf(m, mem, RTE_BAD_IOVA, (uint16_t)RTE_MAX(len, 16u), info);
	m->data_len = (uint16_t)len;
	m->pkt_len = len;
	exts++;
	return m;
}

/** Octets [off, off + len) of the stream after a header, in pieces of `piece`, every second one
 * external. */
static struct rte_mbuf *
segment(uint32_t off, uint32_t len, uint32_t piece, uint8_t flags)
{
	struct rte_mbuf *m = weft_netif_alloc(f.nif, 128);
	uint8_t *h = (uint8_t *)rte_pktmbuf_append(m, HDR);
	uint32_t in = RTE_MIN(len, piece / 2), done;

	CHECK(h != NULL);
	memset(h, 0, HDR);
	weft_put_be16(h, 5000);
	weft_put_be16(h + 2, 6000);
	weft_put_be32(h + 4, SEQ + off);
	weft_put_be32(h + 8, 0x01020304);
	h[12] = HDR / 4 << 4;
	h[13] = ACK | flags;
	weft_put_be16(h + 14, 777);
	memset(h + 20, 1, HDR - 20);
	fill((uint8_t *)rte_pktmbuf_append(m, (uint16_t)in), off, in);
	for (done = in; done < len;) {
		uint32_t n = RTE_MIN(piece, len - done);
		struct rte_mbuf *o;

		if (m->nb_segs % 2 == 1) {
			o = ext_mbuf(off + done, n);
		} else {
			o = rte_pktmbuf_alloc(fake_pool);
			CHECK(o != NULL);
			fill((uint8_t *)rte_pktmbuf_append(o, (uint16_t)n), off + done, n);
		}
		CHECK_EQ(rte_pktmbuf_chain(m, o), 0);
		done += n;
	}
	return m;
}

static int
tx(struct rte_mbuf *m, uint16_t segsz)
{
	struct weft_netif_tx_how how = {.ecn = WEFT_ECN_ECT0, .tso_segsz_bytes = segsz};

	return weft_netif_tx(f.nif, neigh, &us, &peer, m, how, f.now_ns);
}

static void
send_each(uint32_t len, uint32_t segsz, uint32_t piece, uint8_t flags)
{
	for (uint32_t off = 0; off < len; off += segsz) {
		uint8_t fl = flags;

		if (off > 0)
			fl &= (uint8_t)~CWR;
		if (off + segsz < len)
			fl &= (uint8_t) ~(FIN | PSH);
		CHECK_EQ(tx(segment(off, RTE_MIN(segsz, len - off), piece, fl), 0), 0);
	}
}

static const struct {
	uint32_t len, segsz, piece;
	uint8_t flags;
} trains[] = {
        {2800, 1400, 1400, 0},
        {2801, 1400, 2048, PSH},
        {20000, 1400, 333, PSH | FIN},
        {1, 1400, 100, PSH},
        {1400, 1400, 100, PSH},
        {3000, 1000, 1001, FIN},
        {640, 10, 77, PSH},
        {63 * 1000 + 1, 1000, 2047, PSH},
        {50, 7, 3, PSH},
        {65535 - 40 - HDR, 1380, 1380, PSH},
};

/** Each segment alone, cut by netif, and cut by the port: the same frames. */
static void
test_wire(void)
{
	static const uint64_t vlan_port[] = {0, RTE_ETH_TX_OFFLOAD_VLAN_INSERT};

	for (unsigned int c = 0; c < 2 * 3 * RTE_DIM(trains); c++) {
		unsigned int i = c / 6;
		bool v4 = c % 2 == 0, tagged = c / 2 % 3 != 0;
		uint16_t vlan = tagged ? 42 : 0;
		uint64_t insert = vlan_port[c / 2 % 3 == 2];
		uint32_t len = trains[i].len;
		uint16_t segsz = (uint16_t)trains[i].segsz;
		uint8_t fl = trains[i].flags;

		start(v4, vlan, insert, 0);
		send_each(len, segsz, trains[i].piece, fl);
		fake_poll(&f);
		wire_take(&plain);
		stop();
		for (unsigned int way = 0; way < 3; way++) {
			uint64_t port = way == 0 ? 0 : TSO_PORT;
			struct rte_mbuf *m;

			/* The last way: the port could cut, but not such a number of mbufs. */
			start(v4, vlan, port | insert, way == 2 ? 2 : 0);
			m = segment(0, len, trains[i].piece, fl);
			CHECK_EQ(tx(m, segsz), 0);
			fake_poll(&f);
			if (way == 1 && len > segsz)
				CHECK_EQ(f.ntx, 1);
			wire_take(&cut);
			wire_check(v4, tagged);
			stop();
			CHECK_EQ(exts, 0);
		}
	}
}

/** Only the first segment has CWR (RFC 3168 s6.1.2). */
static void
test_cwr(void)
{
	start(true, 0, 0, 0);
	send_each(5000, 1000, 700, CWR | PSH);
	fake_poll(&f);
	wire_take(&plain);
	CHECK_EQ(plain.b[0][14 + 20 + 13], ACK | CWR);
	stop();
	start(true, 0, 0, 0);
	CHECK_EQ(tx(segment(0, 5000, 700, CWR | PSH), 1000), 0);
	fake_poll(&f);
	wire_take(&cut);
	wire_check(true, false);
	stop();
}

/** A packet that may be fragmented is never cut by the port, which would choose the
 * identifications itself. */
static void
test_may_fragment(void)
{
	struct weft_netif_tx_how how = {.tso_segsz_bytes = 1000, .may_fragment = true};
	uint16_t id[10];

	start(true, 0, TSO_PORT, 0);
	CHECK_EQ(
	        weft_netif_tx(f.nif, neigh, &us, &peer, segment(0, 10000, 700, PSH), how, f.now_ns),
	        0);
	fake_poll(&f);
	CHECK_EQ(f.ntx, 10);
	for (unsigned int i = 0; i < 10; i++) {
		const uint8_t *ip = rte_pktmbuf_mtod_offset(f.txq[i], const uint8_t *, 14);

		CHECK_EQ(f.txq[i]->ol_flags & RTE_MBUF_F_TX_TCP_SEG, 0);
		CHECK_EQ(weft_get_be16(ip + 6), 0);
		id[i] = weft_get_be16(ip + 4);
		for (unsigned int k = 0; k < i; k++)
			CHECK(id[k] != id[i]);
	}
	stop();
	CHECK_EQ(exts, 0);
}

/** Too long, too many segments, or no payload for its size: refused, and the reference is
 * consumed. */
static void
test_refused(void)
{
	static const uint64_t port[] = {0, TSO_PORT};
	struct rte_mbuf *m;

	for (unsigned int i = 0; i < 2; i++) {
		start(true, 0, port[i], 0);
		CHECK_EQ(tx(segment(0, 5000, 700, 0), 1500 - 20 - HDR), 0);
		CHECK_EQ(tx(segment(0, 5000, 700, 0), 1500 - 20 - HDR + 1), -EMSGSIZE);
		CHECK_EQ(tx(segment(0, 65535 - 20 - HDR, 2000, 0), 1400), 0);
		CHECK_EQ(tx(segment(0, 65535 - 20 - HDR + 1, 2000, 0), 1400), -EMSGSIZE);
		CHECK_EQ(tx(segment(0, 64 * 100, 2000, 0), 100), 0);
		CHECK_EQ(tx(segment(0, 64 * 100 + 1, 2000, 0), 100), -EMSGSIZE);
		/* A header that is not completely in the first mbuf. */
		m = segment(0, 3000, 2, 0);
		rte_pktmbuf_mtod(m, uint8_t *)[12] = 0xf0;
		CHECK_EQ(tx(m, 1000), -EMSGSIZE);
		stop();
		CHECK_EQ(exts, 0);
	}
	/* A packet that fits one segment is sent as one. */
	start(true, 0, TSO_PORT, 0);
	CHECK_EQ(tx(segment(0, 1000, 2000, 0), 1000), 0);
	fake_poll(&f);
	CHECK_EQ(f.txq[0]->ol_flags & RTE_MBUF_F_TX_TCP_SEG, 0);
	stop();
	CHECK_EQ(exts, 0);
}

/** All segments are sent or none, whatever is lacking. A reference that the caller kept protects
 * its octets. */
static void
test_short(void)
{
	unsigned int avail, need, ok = 0;
	static struct rte_mbuf *held[8191];
	struct rte_mbuf *m;
	uint8_t before[HDR], *h;

	start(true, 0, 0, 0);
	/* Room in the queue: 10 segments need 10 places. */
	f.tx_room = 0;
	while (weft_netif_tx_room(f.nif) > 9)
		CHECK_EQ(tx(segment(0, 1, 9, 0), 0), 0);
	m = segment(0, 10000, 1500, PSH);
	h = rte_pktmbuf_mtod(m, uint8_t *);
	memcpy(before, h, HDR);
	for (struct rte_mbuf *s = m; s != NULL; s = s->next)
		rte_mbuf_refcnt_update(s, 1);
	CHECK_EQ(tx(m, 1000), -ENOBUFS);
	CHECK_EQ(weft_netif_stats(f.nif)->tx_queue_full, 10);
	CHECK_EQ(weft_netif_tx_room(f.nif), 9);
	CHECK_EQ(rte_mbuf_refcnt_read(m), 1);
	CHECK(rte_pktmbuf_mtod(m, uint8_t *) == h);
	CHECK_MEM(h, before, HDR);
	rte_pktmbuf_free(m);
	m = segment(0, 9000, 1500, PSH);
	CHECK_EQ(tx(m, 1000), 0);
	CHECK_EQ(weft_netif_tx_room(f.nif), 0);
	f.tx_room = FAKE_QUEUE;
	fake_poll(&f);
	fake_drop(&f);
	/* Buffers: with every number of free ones. */
	for (need = 0; ok == 0; need++) {
		CHECK(need < 100);
		m = segment(0, 10000, 1500, PSH);
		avail = rte_mempool_avail_count(fake_pool) - need;
		CHECK_EQ(rte_pktmbuf_alloc_bulk(fake_pool, held, avail), 0);
		if (tx(m, 1000) == 0) {
			ok = 1;
		} else {
			fake_poll(&f);
			CHECK_EQ(f.ntx, 0);
			CHECK_EQ(weft_netif_stats(f.nif)->tx_no_mbuf, need + 1);
		}
		rte_pktmbuf_free_bulk(held, avail);
	}
	fake_poll(&f);
	CHECK_EQ(f.ntx, 10);
	CHECK(need > 20);
	stop();
	CHECK_EQ(exts, 0);
}

/** For an unresolved neighbour the first few segments and the latest are kept, as for segments
 * sent one by one. */
static void
test_unresolved(void)
{
	start(true, 0, 0, 0);
	neigh->state = NEIGH_INCOMPLETE;
	CHECK_EQ(tx(segment(0, 50000, 1500, PSH), 1000), 0);
	CHECK_EQ(weft_netif_stats(f.nif)->tx_unresolved, 50 - 1 - NETIF_PARK_MORE);
	netif_neigh_confirm(neigh, &fake_peer_mac, true);
	fake_poll(&f);
	CHECK(f.ntx > NETIF_PARK_MORE);
	stop();
	CHECK_EQ(exts, 0);
}

/** Segmentation, several buffers and TCP's checksum are required. The offload for IPv4's header
 * checksum is not: such ports write that field of each segment themselves. */
static void
test_offered(void)
{
	static const uint64_t need[] = {RTE_ETH_TX_OFFLOAD_TCP_TSO, RTE_ETH_TX_OFFLOAD_MULTI_SEGS,
	                                RTE_ETH_TX_OFFLOAD_TCP_CKSUM};
	struct weft_netif_tso t;

	for (unsigned int i = 0; i < RTE_DIM(need); i++) {
		start(true, 0, TSO_PORT & ~need[i], 0);
		CHECK_EQ(weft_netif_tso(f.nif, &peer).bytes, 0);
		stop();
	}
	start(true, 0, TSO_PORT & ~RTE_ETH_TX_OFFLOAD_IPV4_CKSUM, 40);
	CHECK_EQ(weft_netif_tso(f.nif, &peer).bytes, 65535 - 20);
	stop();
	start(true, 0, TSO_PORT, 40);
	t = weft_netif_tso(f.nif, &peer);
	CHECK_EQ(t.bytes, 65535 - 20);
	CHECK_EQ(t.mbufs, 40);
	t = weft_netif_tso(f.nif, &fake6_peer);
	CHECK_EQ(t.bytes, 65535 - 40);
	stop();
}

/** A capture shows a TSO packet as one packet with right checksums, truncated to the snap
 * length. */
static void
capture(uint16_t vlan)
{
	static const uint32_t len[] = {800, 20000};
	struct weft_netif_capture_attr ca = {.mtu_bytes = 1500, .queue_packets = 64};
	const uint32_t tag = vlan != 0 ? 4 : 0;
	struct weft_netif_capture *c;
	struct rte_mbuf *m;

	start(true, vlan, TSO_PORT | (vlan != 0 ? RTE_ETH_TX_OFFLOAD_VLAN_INSERT : 0), 0);
	CHECK_EQ(rte_eal_hotplug_add("vdev", "net_null7", ""), 0);
	CHECK_EQ(rte_eth_dev_get_port_by_name("net_null7", &ca.port_id), 0);
	CHECK_EQ(weft_netif_capture_create(&ca, &c), 0);
	weft_netif_set_capture(f.nif, c);
	for (unsigned int i = 0; i < RTE_DIM(len); i++) {
		uint32_t whole = 14 + 20 + HDR + len[i], l4_len = HDR + len[i];
		const uint8_t *p;

		CHECK_EQ(tx(segment(0, len[i], 333, PSH), i == 0 ? 300 : 1000), 0);
		fake_poll(&f);
		CHECK_EQ(f.ntx, 1);
		CHECK_EQ(weft_netif_capture_drain(c, &m, 1), 1);
		/* After the header of the block: captured length and packet length. */
		p = rte_pktmbuf_mtod(m, const uint8_t *);
		if (tag == 0) {
			CHECK_EQ(*(const uint32_t *)(const void *)(p + 20), RTE_MIN(whole, 1518u));
			CHECK_EQ(*(const uint32_t *)(const void *)(p + 24), whole);
		}
		/* A tag that the port inserts is in the copy. */
		p += 28 + tag;
		CHECK_EQ(weft_get_be16(p + 16), whole - 14);
		CHECK_EQ(fake_cksum(p + 14, 20, 0), 0);
		if (i == 0)
			CHECK_EQ(fake_cksum(p + 34, l4_len,
			                    fake_pseudo(FAKE_US, FAKE_PEER, 6, l4_len)),
			         0);
		/* The port's packet is unchanged. */
		wire_take(&cut);
		fake_drop(&f);
		clear_stats();
		rte_pktmbuf_free(m);
	}
	weft_netif_set_capture(f.nif, NULL);
	weft_netif_capture_destroy(c);
	CHECK_EQ(rte_eal_hotplug_remove("vdev", "net_null7"), 0);
	stop();
	CHECK_EQ(exts, 0);
}

static void
test_capture(void)
{
	capture(0);
	capture(100);
}

WEFT_TEST_MAIN({"wire", test_wire}, {"cwr", test_cwr}, {"refused", test_refused},
               {"may fragment", test_may_fragment}, {"short", test_short},
               {"unresolved", test_unresolved}, {"offered", test_offered},
               {"capture", test_capture})
