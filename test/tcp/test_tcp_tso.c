/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file TCP over a port with TSO, which cuts one frame into several segments. The segments on the
 * wire are the queued ones, whatever is lost, and each buffer is freed once.
 */

#include <inttypes.h>
#include <stdlib.h>

#include <rte_ethdev.h>
#include <rte_mempool.h>

#include "tcp_net.h"
#include "tcp_conn.h"
#include "weft_netif_stats.h"
#include "weft_netif.h"

#define BYTES   600000
#define FRAMES  4096
#define MAX_SEG 1448

static struct net net;

/* ---- The port ---- */

static struct {
	/** frames that the port cut into several segments, and the number of their segments */
	uint64_t handovers, segs;
	unsigned int most; /**< most segments of one frame */
} nic;

static uint16_t
nic_cksum(const uint8_t *p, uint32_t len, uint32_t sum)
{
	for (uint32_t i = 0; i < len; i++)
		sum += (i & 1) != 0 ? p[i] : (uint32_t)p[i] << 8;
	while (sum > 0xffff)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/** Build a frame of IPv4 with its checksums from the headers at p and n octets at off of the
 * payload. */
static void
nic_frame(struct net_node *nd, const struct rte_mbuf *m, const uint8_t *p, uint32_t off, uint32_t n)
{
	uint32_t hdr = m->l2_len + m->l3_len + m->l4_len,
	         k = off / RTE_MAX((uint32_t)m->tso_segsz, 1u);
	struct rte_mbuf *o = rte_pktmbuf_alloc(net_pool());
	uint8_t *f, *ip, *tcp;

	CHECK(o != NULL);
	f = (uint8_t *)rte_pktmbuf_append(o, (uint16_t)(hdr + n));
	memcpy(f, p, hdr);
	memcpy(f + hdr, p + hdr + off, n);
	ip = f + m->l2_len;
	tcp = ip + m->l3_len;
	weft_put_be16(ip + 2, (uint16_t)(m->l3_len + m->l4_len + n));
	weft_put_be16(ip + 4, (uint16_t)(weft_get_be16(ip + 4) + k));
	weft_put_be16(ip + 10, nic_cksum(ip, 20, 0));
	weft_put_be32(tcp + 4, weft_get_be32(tcp + 4) + off);
	if (hdr + off + n < m->pkt_len)
		tcp[13] &= (uint8_t) ~(TCP_FIN | TCP_PSH);
	if (m->ol_flags & RTE_MBUF_F_TX_TCP_SEG)
		weft_put_be16(tcp + 16, nic_cksum(tcp, m->l4_len + n, m->l4_len + n));
	else
		weft_put_be16(tcp + 16, nic_cksum(tcp, m->l4_len + n, 0));
	net_wire(nd, o);
}

static void
nic_tx(struct net_node *nd, struct rte_mbuf **pkts, uint16_t n)
{
	static uint8_t buf[70000];

	for (uint16_t i = 0; i < n; i++) {
		const struct rte_mbuf *m = pkts[i];
		const uint8_t *p = rte_pktmbuf_read(m, 0, m->pkt_len, buf);
		uint32_t hdr = m->l2_len + m->l3_len + m->l4_len, segs = 0;
		const char *why;

		CHECK_MSG(rte_mbuf_check(m, 1, &why) == 0, "%s", why);
		if ((m->ol_flags & RTE_MBUF_F_TX_L4_MASK) == 0) {
			net_wire(nd, pkts[i]);
			continue;
		}
		CHECK_EQ(rte_validate_tx_offload(m), 0);
		if ((m->ol_flags & RTE_MBUF_F_TX_TCP_SEG) == 0) {
			nic_frame(nd, m, p, 0, m->pkt_len - hdr);
			rte_pktmbuf_free(pkts[i]);
			continue;
		}
		CHECK(m->pkt_len - m->l2_len <= 65535);
		CHECK(nd->nic->tx_mbufs_max == 0 || m->nb_segs <= nd->nic->tx_mbufs_max);
		/* RFC 3168 s6.1.2: ports differ in how they copy CWR, so no such frame may have
		 * it. */
		CHECK_EQ(p[m->l2_len + m->l3_len + 13] & TCP_CWR, 0);
		for (uint32_t off = 0; off < m->pkt_len - hdr; off += m->tso_segsz, segs++)
			nic_frame(nd, m, p, off,
			          RTE_MIN((uint32_t)m->tso_segsz, m->pkt_len - hdr - off));
		CHECK(segs >= 2 && segs <= WEFT_NETIF_TSO_SEGS);
		nic.handovers++;
		nic.segs += segs;
		nic.most = RTE_MAX(nic.most, segs);
		rte_pktmbuf_free(pkts[i]);
	}
}

#define NIC_OFFLOADS                                                                               \
	(RTE_ETH_TX_OFFLOAD_TCP_TSO | RTE_ETH_TX_OFFLOAD_MULTI_SEGS |                              \
	 RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_IPV4_CKSUM)
static const struct net_nic nic_any = {.tx_offloads = NIC_OFFLOADS, .tx = nic_tx};
static const struct net_nic nic_few = {
        .tx_offloads = NIC_OFFLOADS, .tx_mbufs_max = 12, .tx = nic_tx};
static const struct net_nic nic_no_tso = {.tx_offloads = NIC_OFFLOADS & ~RTE_ETH_TX_OFFLOAD_TCP_TSO,
                                          .tx = nic_tx};

/* ---- The wire ---- */

/** First transmissions of node 0's octets, in order. */
static struct {
	uint32_t off, len;
	uint8_t flags;
} seen[FRAMES];
static unsigned int nseen;
static uint32_t isn, next_off;
static uint8_t cut_at[BYTES + 1]; /**< the octets at which queued segments begin */
static bool whole;                /**< every segment on the wire is a queued segment */

static void
tap(void *arg, unsigned int from, bool delivered, const uint8_t *f, uint32_t len, uint64_t now_ns)
{
	const uint8_t *t = f + 34;
	uint32_t n, off;

	(void)arg;
	(void)now_ns;
	if (from != 0 || delivered || len < 54 || f[12] != 8 || f[13] != 0 || f[23] != 6)
		return;
	if (t[13] & TCP_SYN) {
		isn = weft_get_be32(t + 4);
		next_off = 0;
	}
	n = weft_get_be16(f + 16) - 20u - (t[12] >> 4) * 4u;
	off = weft_get_be32(t + 4) - isn - 1;
	if (n == 0 || t[13] & TCP_SYN)
		return;
	CHECK(off + n <= BYTES);
	if (whole) {
		CHECK_MSG(cut_at[off] && cut_at[off + n], "octets %u to %u", off, off + n);
		for (uint32_t i = off + 1; i < off + n; i++)
			CHECK(!cut_at[i]);
	}
	if (off != next_off)
		return;
	next_off += n;
	CHECK(nseen < FRAMES);
	seen[nseen].off = off;
	seen[nseen].len = n;
	seen[nseen++].flags = t[13];
}

/* ---- The user ---- */

static unsigned int nfreed, nexts;
static uint32_t run_left, run_len;
static uint64_t dice; /**< the segments depend only on this, not on the network */

static uint32_t throw(uint32_t sides)
{
	dice = dice * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(dice >> 33) % sides;
}

static void
ext_free(void *addr, void *opaque)
{
	memset(addr, 0xee, 16);
	free(addr);
	free(opaque);
	nfreed++;
}

static struct rte_mbuf *
ext_mbuf(uint8_t key, uint64_t off, uint32_t len)
{
	struct rte_mbuf_ext_shared_info *info = calloc(1, sizeof(*info));
	struct rte_mbuf *m = rte_pktmbuf_alloc(net_pool());
	uint8_t *mem = malloc(RTE_MAX(len, 16u));

	CHECK(m != NULL && mem != NULL && info != NULL);
	info->free_cb = ext_free;
	info->fcb_opaque = info;
	rte_mbuf_ext_refcnt_set(info, 1);
	for (uint32_t i = 0; i < len; i++)
		mem[i] = net_stream(key, off + i);
	rte_pktmbuf_attach_extbuf(m, mem, RTE_BAD_IOVA, (uint16_t)RTE_MAX(len, 16u), info);
	m->data_len = (uint16_t)len;
	m->pkt_len = len;
	nexts++;
	return m;
}

/** Queue runs of segments of equal length. Each segment is a copied FPDU header and payload by
 * reference. */
static void
push(struct net_app *a)
{
	while (a->c != NULL && a->sent < a->to_send) {
		struct rte_mbuf *m;
		uint32_t head;
		uint8_t *p;
		bool last;

		if (weft_tcp_send_space(a->c) == 0)
			return;
		m = weft_tcp_alloc(a->c);
		if (m == NULL)
			return;
		if (run_left == 0) {
			run_left = 1 + throw(30);
			run_len = throw(3) == 0 ? 1 + throw(MAX_SEG) : MAX_SEG;
		}
		run_left--;
		if (run_len > a->to_send - a->sent)
			run_len = (uint32_t)(a->to_send - a->sent);
		head = throw(3) == 0 ? run_len : RTE_MIN(run_len, 20u);
		p = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)head);
		for (uint32_t i = 0; i < head; i++)
			p[i] = net_stream(a->tx_key, a->sent + i);
		if (head < run_len)
			CHECK_EQ(rte_pktmbuf_chain(
			                 m, ext_mbuf(a->tx_key, a->sent + head, run_len - head)),
			         0);
		cut_at[a->sent] = 1;
		a->sent += run_len;
		cut_at[a->sent] = 1;
		last = a->sent == a->to_send || throw(40) == 0;
		CHECK_EQ(weft_tcp_send(a->c, m, last, a->node->sched.now_ns), 0);
	}
	if (a->c != NULL && a->close_when_sent && a->sent == a->to_send)
		weft_tcp_close(a->c, a->node->sched.now_ns);
}

static struct net_app *
up(const struct net_nic *port, uint64_t seed, const struct sim_link_cfg cfg[2],
   const struct weft_tcp_attr *attr)
{
	struct weft_tcp_attr both[2] = {{0}, {0}};
	struct net_app *a;

	if (attr != NULL)
		both[0] = both[1] = *attr;
	memset(&nic, 0, sizeof(nic));
	memset(cut_at, 0, sizeof(cut_at));
	nseen = nfreed = nexts = 0;
	run_left = 0;
	dice = seed;
	net_nic = port;
	net_up(&net, seed, cfg, both, 1500);
	net_nic = NULL;
	sim_link_tap(net.link, tap, NULL);
	net_listen(&net, 1);
	net.accept_as = (struct net_app){.close_on_eof = true};
	a = net_connect(&net, 0, 7);
	a->push = push;
	a->to_send = BYTES;
	a->close_when_sent = true;
	a->close_on_eof = false;
	return a;
}

static void
down(void)
{
	net.node[0].tx_keep = net.node[1].tx_keep = 0;
	net_unkeep(&net.node[0], 0);
	net_unkeep(&net.node[1], 0);
	CHECK_EQ(nfreed, nexts);
	net_check_idle(&net);
	net_down(&net);
}

static void
finish(const struct net_app *a, uint64_t seed)
{
	CHECK_MSG(net_run_closed(&net, 600 * WEFT_NS_PER_S), "seed %" PRIu64, seed);
	CHECK_MSG(!a->bad_data && !net.app[1].bad_data && net.app[1].received == BYTES,
	          "seed %" PRIu64, seed);
	CHECK_MSG(a->err == 0 && net.app[1].err == 0, "seed %" PRIu64 ": %d %d", seed, a->err,
	          net.app[1].err);
	CHECK_EQ(weft_netif_stats(net.node[1].nif)->rx_bad_tcp_cksum, 0);
	CHECK_EQ(weft_netif_stats(net.node[1].nif)->rx_bad_ip_cksum, 0);
	/* Segments on the wire are counted, not frames given to the port. */
	CHECK_EQ(weft_tcp_stats(net.node[0].tcp)->tso_segs, nic.segs);
}

/** The same stream with TSO, with TSO off, and over a port without it gives the same segments. */
static void
test_same(void)
{
	static uint32_t first[FRAMES][2];
	static uint8_t flags[FRAMES];
	static const struct {
		const struct net_nic *port;
		bool no_tso;
	} way[] = {{NULL, false},
	           {&nic_any, false},
	           {&nic_any, true},
	           {&nic_no_tso, false},
	           {&nic_few, false}};
	struct sim_link_cfg cfg[2] = {{.delay_ns = 100 * WEFT_NS_PER_US},
	                              {.delay_ns = 100 * WEFT_NS_PER_US}};

	for (unsigned int s = 0; s < 6; s++) {
		unsigned int n = 0;

		for (unsigned int i = 0; i < RTE_DIM(way); i++) {
			struct weft_tcp_attr attr = {.no_tso = way[i].no_tso};
			bool tso =
			        way[i].port != NULL && !attr.no_tso && way[i].port != &nic_no_tso;
			const struct weft_tcp_stats *st;
			struct net_app *a;

			whole = true;
			a = up(way[i].port, test_seed(100 + s), cfg, &attr);
			finish(a, 100 + s);
			st = weft_tcp_stats(net.node[0].tcp);
			CHECK_EQ(tso, st->tso_segs > 0);
			CHECK_EQ(st->retrans_segs, 0);
			CHECK_EQ(st->bytes_out, BYTES);
			CHECK_EQ(next_off, BYTES);
			/* With TSO, more than half of the segments are cut by the port. */
			if (tso && way[i].port == &nic_any)
				CHECK(nic.segs > nseen / 2 && nic.segs / nic.handovers >= 4);
			for (unsigned int k = 0; i == 0 && k < nseen; k++) {
				first[k][0] = seen[k].off;
				first[k][1] = seen[k].len;
				flags[k] = seen[k].flags;
			}
			n = i == 0 ? nseen : n;
			CHECK_EQ(nseen, n);
			for (unsigned int k = 0; k < n; k++) {
				CHECK_EQ(seen[k].off, first[k][0]);
				CHECK_EQ(seen[k].len, first[k][1]);
				CHECK_EQ(seen[k].flags, flags[k]);
			}
			down();
		}
	}
}

/**
 * Loss, reordering, a ring that frees late or accepts little, with and without SACK, and CE marks:
 * retransmissions keep the segment boundaries, and data in the ring are not written.
 */
static void
test_lossy(void)
{
	uint64_t first = test_seed(1000), n = test_seed_given() ? 1 : 60, reductions = 0;

	for (uint64_t seed = first; seed < first + n; seed++) {
		uint32_t loss = seed % 5 == 0 ? 0 : 1000u << seed % 6;
		struct sim_link_cfg cfg[2] = {{.loss_ppm = loss,
		                               .reorder_ppm = loss,
		                               .reorder_ns = 300 * WEFT_NS_PER_US,
		                               .dup_ppm = loss / 4,
		                               .ce_ppm = seed % 3 == 0 ? 3000 : 0,
		                               .delay_ns = 200 * WEFT_NS_PER_US,
		                               .rate_bps = 1000000000},
		                              {.loss_ppm = loss, .delay_ns = 200 * WEFT_NS_PER_US}};
		struct weft_tcp_attr attr = {.no_sack = seed % 7 == 0,
		                             .no_timestamps = seed % 11 == 0,
		                             .ecn = seed % 3 == 0 ? WEFT_TCP_ECN_ON
		                                                  : WEFT_TCP_ECN_DEFAULT,
		                             .rto_max_us = 4000000,
		                             .data_retries = 20,
		                             .syn_retries = 20};
		struct net_app *a;

		test_seed_note(seed);
		whole = true;
		a = up(seed % 2 == 0 ? &nic_any : &nic_few, seed, cfg, &attr);
		net.node[0].tx_keep = seed % 4 == 0 ? 0 : seed % 4 == 1 ? 3 : NET_KEEP;
		net.node[0].tx_limit = seed % 5 == 1 ? 2 : 0;
		finish(a, seed);
		CHECK(weft_tcp_stats(net.node[0].tcp)->tso_segs > 0);
		reductions += weft_tcp_stats(net.node[0].tcp)->ecn_reductions;
		down();
	}
	/* The reduction after a mark sets CWR, outside of any TSO frame. */
	CHECK(reductions > 0 || test_seed_given());
}

/** The path MTU falls and the peer's window is small: a split segment is sent on. */
static void
test_shrink(void)
{
	for (unsigned int i = 0; i < 12; i++) {
		struct sim_link_cfg cfg[2] = {
		        {.delay_ns = 100 * WEFT_NS_PER_US, .rate_bps = 1000000000},
		        {.delay_ns = 100 * WEFT_NS_PER_US}};
		struct weft_tcp_attr attr = {.rcv_buf_bytes = i % 2 == 0 ? 20000 : 0};
		uint64_t seed = test_seed(200 + i);
		struct net_app *a;

		whole = false;
		a = up(&nic_any, seed, cfg, &attr);
		net.node[0].tx_keep = i % 3 == 0 ? NET_KEEP : 0;
		net_run(&net, (1 + i) * WEFT_NS_PER_MS / 4, NULL, NULL);
		cfg[0].mtu_bytes = 700;
		sim_link_set(net.link, 0, &cfg[0]);
		finish(a, seed);
		down();
	}
}

/** A TSO frame respects the congestion window as its single segments would. */
static void
test_window(void)
{
	struct sim_link_cfg cfg[2] = {{.delay_ns = 2 * WEFT_NS_PER_MS, .rate_bps = 1000000000},
	                              {.delay_ns = 2 * WEFT_NS_PER_MS}};
	struct weft_tcp_attr attr = {.initial_cwnd_segs = 4};
	struct net_app *a;

	whole = true;
	a = up(&nic_any, 310, cfg, &attr);
	while (!a->closed && !a->c->fin_out) {
		net_run(&net, 100 * WEFT_NS_PER_US, NULL, NULL);
		if (!a->closed)
			CHECK_MSG(a->c->snd_nxt - a->c->snd_una <= a->c->cwnd + 1, "%u of %u",
			          a->c->snd_nxt - a->c->snd_una, a->c->cwnd);
	}
	finish(a, 310);
	CHECK(nic.most > 1);
	down();
}

/** The interface MTU falls without notice. A TSO frame that the interface refuses counts as not
 * sent, and is sent in smaller segments at once, without a timeout. */
static void
test_interface_silent(void)
{
	struct sim_link_cfg cfg[2] = {{.delay_ns = 100 * WEFT_NS_PER_US, .rate_bps = 1000000000},
	                              {.delay_ns = 100 * WEFT_NS_PER_US}};
	const struct weft_tcp_stats *st;
	struct net_app *a;

	whole = false;
	a = up(&nic_any, 300, cfg, NULL);
	st = weft_tcp_stats(net.node[0].tcp);
	net_run(&net, 2 * WEFT_NS_PER_MS, NULL, NULL);
	CHECK(st->tso_segs > 0 && a->sent < BYTES);
	CHECK_EQ(weft_netif_set_mtu(net.node[0].nif, 1300), 0);
	finish(a, 300);
	CHECK(st->segs_split > 0);
	CHECK_EQ(st->pmtu_lowered, 1);
	CHECK_EQ(st->rtos + st->tlp_probes + st->retrans_segs, 0);
	CHECK_EQ(st->bytes_out, BYTES);
	down();
}

/** A connection is aborted at any time: every buffer is freed, except those in the ring. */
static void
test_abort(void)
{
	struct sim_link_cfg cfg[2] = {{.delay_ns = WEFT_NS_PER_MS, .loss_ppm = 10000},
	                              {.delay_ns = WEFT_NS_PER_MS}};

	for (unsigned int i = 0; i < 24; i++) {
		struct net_app *a = up(&nic_any, test_seed(300 + i), cfg, NULL);

		whole = true;
		net.node[0].tx_keep = i % 2 == 0 ? NET_KEEP : 0;
		net_run(&net, (3 + i) * WEFT_NS_PER_MS, NULL, NULL);
		if (i % 3 == 0)
			net.node[0].tx_stuck = true;
		net_run(&net, (1 + i / 4) * WEFT_NS_PER_MS, NULL, NULL);
		if (a->c != NULL)
			weft_tcp_abort(a->c, sim_now_ns(net.sim));
		a->c = NULL;
		a->closed = true;
		net.node[0].tx_stuck = false;
		net_run_closed(&net, 300 * WEFT_NS_PER_S);
		down();
	}
}

/** Without push a segment is sent at the end of the turn at the latest. With push it is sent at
 * once. */
static void
test_no_wait(void)
{
	struct net_app *a = up(&nic_any, test_seed(400), NULL, NULL);
	struct weft_tcp_conn *c;
	uint64_t now_ns;

	whole = true;
	a->to_send = 0;
	a->close_when_sent = false;
	net_run(&net, 10 * WEFT_NS_PER_MS, NULL, NULL);
	c = a->c;
	now_ns = sim_now_ns(net.sim);
	for (unsigned int i = 0; i < 7; i++) {
		struct rte_mbuf *m = weft_tcp_alloc(c);
		uint8_t *p = (uint8_t *)rte_pktmbuf_append(m, 100);

		for (uint32_t k = 0; k < 100; k++)
			p[k] = net_stream(100, a->sent + k);
		cut_at[a->sent] = 1;
		a->sent += 100;
		cut_at[a->sent] = 1;
		/* One segment. Then three, the last with push. Then two. */
		CHECK_EQ(weft_tcp_send(c, m, i == 4, now_ns), 0);
		if (i == 0 || i == 6) {
			net_run(&net, 1, NULL, NULL);
			CHECK_EQ(nseen, i + 1);
			CHECK(sim_now_ns(net.sim) - now_ns <= i + 1);
		} else if (i == 4) {
			weft_netif_flush(net.node[0].nif, now_ns);
			CHECK_EQ(nseen, 5);
			CHECK_EQ(nic.handovers, 1);
			CHECK_EQ(nic.segs, 4);
		}
	}
	CHECK_EQ(nic.handovers, 2);
	CHECK_EQ(nic.segs, 6);
	CHECK_EQ(c->snd_nxt, c->snd_end);
	weft_tcp_abort(c, now_ns);
	a->c = NULL;
	a->closed = true;
	net_run_closed(&net, WEFT_NS_PER_S);
	down();
}

WEFT_TEST_MAIN({"same", test_same}, {"lossy", test_lossy}, {"shrink", test_shrink},
               {"window", test_window}, {"interface_silent", test_interface_silent},
               {"abort", test_abort}, {"no_wait", test_no_wait})
