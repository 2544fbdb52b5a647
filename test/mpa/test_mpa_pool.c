/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A host of one or two workers on one port with small pools, under peers that make it hold as
 * much as they can: half FPDUs, octets that precede a Reply, octets beyond gaps, answers that are
 * not acknowledged, windows that stay closed. At each step the buffers held are within what the
 * port lends, an echo is answered, and honest connections make progress. When the attackers leave,
 * with or without a RST, nothing of them remains.
 */

#include <stdlib.h>

#include <rte_icmp.h>
#include <rte_ip.h>

#include "sim.h"
#include "tcp_wire.h"
#include "weft_mpa.h"
#include "weft_netif.h"
#include "weft_netif_budget.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_neigh.h"
#include "weft_netif_tx.h"
#include "weft_tcp.h"
#include "weft_netif_group.h"
#include "weft_test.h"
#include "weft_mpa_frame.h"
#include "weft_mpa_startup.h"

#define WORKERS    2
#define ATTACKERS  120
#define HONEST     4
#define PORT       7
#define RAW_PORT   2000 /* of the first attacker */
#define RX_MBUFS   1023
#define TX_MBUFS   2047
#define ECHO_BYTES 3000u
/** Packets between a ring and their release: bursts, and packets between workers. */
#define SLACK     160
#define FLOOD_CRC 0x8f, 0x4e, 0xfe, 0x7b /* CRC32c of 00 01 46 00 */

struct rig;

/** A connection of the host, or the other end of an honest one. */
struct end {
	struct weft_mpa mpa;
	struct worker *w;
	bool client, used;
	bool flood;                 /**< sends without end */
	uint32_t to_echo;           /**< number of octets to send back */
	uint64_t got_bytes;         /**< client: octets of echoes */
	struct weft_tcp_conn *conn; /**< client: before the MPA stream exists */
};

struct worker {
	struct rig *rig;
	unsigned int index;
	struct weft_sched sched;
	struct weft_mpa_keep keep;
	struct weft_netif *nif;
	struct weft_tcp *tcp;
	struct weft_tcp_listener *listener;
};

enum kind { HALF, CRUMBS, BEYOND, EARLY, READER, SHUT, KINDS };

/** A peer whose segments the test encodes. */
struct raw {
	enum kind kind;
	uint16_t port;
	uint32_t seq, ack; /**< next sequence number; acknowledgment number */
	bool open, request_sent, replied, begun;
	unsigned int acks_left; /**< for a peer that reads */
};

struct rig {
	struct sim *sim;
	struct sim_link *link;
	struct rte_mempool *rx, *tx, *peers;
	struct weft_netif_group *group;
	unsigned int workers;
	struct worker w[WORKERS]; /**< the workers of the host */
	struct worker peer;       /**< all peers, honest or not */
	struct weft_neigh *neigh; /**< the host's address, for raw segments */
	struct raw raw[ATTACKERS];
	struct end end[4 * ATTACKERS];
	struct end *honest[HONEST];
	unsigned int pings, pongs;
};

static struct rig rig;

/* ---- MPA on every connection ---- */

static struct end *
end_new(struct worker *w, bool client)
{
	for (unsigned int i = 0; i < RTE_DIM(rig.end); i++)
		if (!rig.end[i].used) {
			rig.end[i] = (struct end){.w = w, .client = client, .used = true};
			return &rig.end[i];
		}
	return NULL;
}

static void
end_push(struct end *e)
{
	uint64_t now_ns = e->w->sched.now_ns;

	while (e->flood || e->to_echo > 0) {
		uint16_t n = (uint16_t)RTE_MIN(e->flood ? 1000u : e->to_echo,
		                               (uint32_t)e->mpa.mulpdu_bytes);
		uint8_t *p = weft_mpa_tx_begin(&e->mpa, n, now_ns);

		if (p == NULL)
			return;
		memset(p, 'e', n);
		weft_mpa_tx_end(&e->mpa, now_ns);
		weft_mpa_tx_flush(&e->mpa, now_ns);
		if (!e->flood)
			e->to_echo -= n;
	}
}

static void
end_request(void *user, const struct weft_mpa_frame *req)
{
	struct end *e = user;

	/* Peers that request it get no answer. */
	if (req->pdata_len_bytes > 0)
		return;
	CHECK_EQ(weft_mpa_accept(&e->mpa, 1, 1, NULL, 0, e->w->sched.now_ns), 0);
}

static void
end_reply(void *user, const struct weft_mpa_frame *rep)
{
	struct end *e = user;

	CHECK(!rep->reject);
	e->to_echo = ECHO_BYTES;
	end_push(e);
}

static void
end_ulpdu(void *user, const struct weft_frag *frag, unsigned int nfrags, uint32_t len_bytes,
          uint64_t now_ns)
{
	struct end *e = user;

	(void)nfrags;
	(void)now_ns;
	if (!e->client && len_bytes == 1 && frag[0].p[0] == 'F')
		e->flood = true;
	e->got_bytes += len_bytes;
	if (!e->client)
		e->to_echo += len_bytes;
	else if (e->got_bytes % ECHO_BYTES == 0)
		e->to_echo = ECHO_BYTES;
	end_push(e);
}

static void
end_writable(void *user)
{
	end_push(user);
}

static void
end_mulpdu(void *user, uint16_t mulpdu_bytes)
{
	(void)user;
	(void)mulpdu_bytes;
}

static void
end_fault(void *user, const struct weft_term *term)
{
	struct end *e = user;

	(void)term;
	CHECK(!e->client);
	weft_mpa_abort(&e->mpa, e->w->sched.now_ns);
	e->used = false;
}

static void
end_eof(void *user)
{
	struct end *e = user;

	weft_mpa_close(&e->mpa, e->w->sched.now_ns);
}

static void
end_closed(void *user, int err)
{
	struct end *e = user;

	CHECK_MSG(!e->client, "an honest connection ended: %d", err);
	e->used = false;
}

static const struct weft_mpa_ops end_ops = {
        .request = end_request,
        .reply = end_reply,
        .ulpdu = end_ulpdu,
        .writable = end_writable,
        .mulpdu = end_mulpdu,
        .fault = end_fault,
        .eof = end_eof,
        .closed = end_closed,
};

static int
host_accept(void *arg, struct weft_tcp_conn *c)
{
	struct worker *w = arg;
	struct end *e = end_new(w, false);
	int rc;

	if (e == NULL)
		return -ENOMEM;
	rc = weft_mpa_respond(&e->mpa, c, &w->sched, 0, &end_ops, e, w->sched.now_ns);
	e->used = rc == 0;
	return rc;
}

static void
client_established(void *user)
{
	struct end *e = user;
	struct weft_mpa_attr attr = {.rev = 1};

	CHECK_EQ(weft_mpa_start(&e->mpa, e->conn, &e->w->sched, &attr, &end_ops, e,
	                        e->w->sched.now_ns),
	         0);
}

static void
client_closed(void *user, int err)
{
	(void)user;
	CHECK_MSG(false, "an honest connection was not opened: %d", err);
}

static const struct weft_tcp_conn_ops client_ops = {.established = client_established,
                                                    .closed = client_closed};

/* ---- Raw peers ---- */

static void
raw_seg(struct raw *r, uint8_t flags, uint32_t seq, uint16_t wnd, const void *p, uint32_t len)
{
	struct tcp_opts o = {.mss_bytes = 1460, .has_wscale = true, .wscale = 7, .sack_perm = true};
	struct tcp_hdr h = {.src_port = r->port,
	                    .dst_port = PORT,
	                    .seq = seq,
	                    .ack = r->ack,
	                    .wnd = wnd,
	                    .flags = flags};
	struct weft_ip src = weft_ip_from_v4(RTE_BE32(0x0a000002)),
	               dst = weft_ip_from_v4(RTE_BE32(0x0a000001));
	struct rte_mbuf *m = weft_netif_alloc(rig.peer.nif, 128);
	uint8_t *hdr;

	if (m == NULL)
		return;
	hdr = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)(TCP_HDR_MAX_LEN + len));
	h.hdr_len_bytes = TCP_HDR_LEN;
	if (flags & TCP_SYN)
		h.hdr_len_bytes += (uint8_t)tcp_wire_encode_opts(hdr + TCP_HDR_LEN, &o);
	tcp_wire_encode(hdr, &h);
	if (len > 0)
		memcpy(hdr + h.hdr_len_bytes, p, len);
	rte_pktmbuf_trim(m, TCP_HDR_MAX_LEN - h.hdr_len_bytes);
	(void)weft_netif_tx(rig.peer.nif, rig.neigh, &src, &dst, m, (struct weft_netif_tx_how){0},
	                    sim_now_ns(rig.sim));
}

static void
raw_data(struct raw *r, const void *p, uint32_t len)
{
	raw_seg(r, TCP_ACK, r->seq, 65535, p, len);
	r->seq += len;
}

static void
raw_rx(struct raw *r, const struct tcp_hdr *h, uint32_t len)
{
	if (h->flags & TCP_RST) {
		r->open = false;
		return;
	}
	if (h->flags & TCP_SYN) {
		if (!r->open) {
			r->open = true;
			r->ack = h->seq + 1;
			raw_seg(r, TCP_ACK, r->seq, 65535, NULL, 0);
		}
		return;
	}
	if (!r->open || len == 0)
		return;
	if (h->seq == r->ack && (!r->replied || r->acks_left > 0)) {
		r->ack += len;
		r->replied = true;
		r->acks_left -= r->acks_left > 0;
		raw_seg(r, TCP_ACK, r->seq, 65535, NULL, 0);
	} else if (r->kind == SHUT) {
		raw_seg(r, TCP_ACK, r->seq, 0, NULL, 0); /* alive, but with a closed window */
	}
}

/** One more attack step of r against the host. */
static void
raw_attack(struct raw *r)
{
	static const uint8_t junk[1460];
	/** "F" in an FPDU: asks the host to send without end. */
	static const uint8_t flood[] = {0, 1, 'F', 0, FLOOD_CRC};
	uint8_t frame[21] = "MPA ID Req Frame@\x01\x00\x00", fpdu[2] = {0};
	uint32_t k = (uint32_t)(sim_random(rig.sim) % 1000);

	if (!r->open) {
		if (k < 300) {
			r->seq = 1000;
			r->replied = r->request_sent = r->begun = false;
			r->acks_left = r->kind == READER ? 30 : r->kind == SHUT ? 10 : 0;
			raw_seg(r, TCP_SYN, r->seq++, 65535, NULL, 0);
		}
		return;
	}
	if (!r->request_sent && r->kind != CRUMBS && r->kind != BEYOND) {
		frame[19] = r->kind == EARLY;
		raw_data(r, frame, 20u + (r->kind == EARLY));
		r->request_sent = true;
		return;
	}
	if (!r->replied && r->kind != CRUMBS && r->kind != BEYOND && r->kind != EARLY)
		return;
	switch (r->kind) {
	case HALF:
		fpdu[0] = 0xff;
		if (!r->begun)
			raw_data(r, fpdu, 2); /* of 65280 octets */
		else if (r->seq < 50000)
			raw_data(r, junk, k < 500 ? 1 : 1 + k);
		r->begun = true;
		break;
	case CRUMBS:
		raw_seg(r, TCP_ACK, r->seq + 2 + 2 * k, 65535, junk, 1);
		break;
	case BEYOND:
		raw_seg(r, TCP_ACK, r->seq + 1 + 1460 * (k % 100), 65535, junk, 1460);
		break;
	case EARLY:
		raw_data(r, junk, 1);
		break;
	case READER:
	case SHUT:
		if (!r->begun)
			raw_data(r, flood, sizeof(flood));
		r->begun = true;
		break;
	case KINDS:
		break;
	}
}

/* ---- The network ---- */

static void
rig_tcp_rx(void *arg, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n, uint64_t now_ns)
{
	struct worker *w = arg;

	for (unsigned int i = 0; i < n; i++) {
		const uint8_t *p = rte_pktmbuf_mtod(m[i], const uint8_t *);
		unsigned int a = (unsigned int)weft_get_be16(p + 2) - RAW_PORT;
		struct tcp_hdr h;
		int len;

		if (w != &rig.peer || a >= ATTACKERS) {
			weft_tcp_rx(w->tcp, nif, &m[i], 1, now_ns);
			continue;
		}
		len = tcp_wire_decode(p, m[i]->data_len, &h);
		CHECK(len > 0);
		raw_rx(&rig.raw[a], &h, m[i]->pkt_len - (uint32_t)len);
		rte_pktmbuf_free(m[i]);
	}
}

static void
rig_poll(void *arg, uint64_t now_ns)
{
	struct worker *w = arg;

	w->sched.now_ns = now_ns;
	weft_netif_poll(w->nif, now_ns);
	weft_timer_run(&w->sched.wheel, now_ns);
	weft_sched_run(&w->sched, now_ns);
	weft_netif_flush(w->nif, now_ns);
}

static uint64_t
rig_next(void *arg)
{
	struct worker *w = arg;

	if ((w != &rig.peer && rig.group != NULL &&
	     weft_netif_group_pending(rig.group, w->index)) ||
	    !TAILQ_EMPTY(&w->sched.run))
		return w->sched.now_ns;
	if (weft_netif_tx_room(w->nif) < WEFT_NETIF_TXQ)
		return w->sched.now_ns + 10 * WEFT_NS_PER_US;
	return weft_timer_next(&w->sched.wheel);
}

/** Count the echo replies on the wire. */
static void
rig_tap(void *arg, unsigned int from, bool delivered, const uint8_t *f, uint32_t len,
        uint64_t now_ns)
{
	(void)arg;
	(void)now_ns;
	rig.pongs += from == 0 && !delivered && len > 34 && f[12] == 8 && f[13] == 0 &&
	             f[23] == IPPROTO_ICMP && f[34] == RTE_IP_ICMP_ECHO_REPLY;
}

static void
ping(void)
{
	uint8_t f[14 + 20 + 8 + 8] = {0};
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(void *)(f + 14);

	memcpy(f, (const uint8_t[]){2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0}, 14);
	ip->version_ihl = RTE_IPV4_VHL_DEF;
	ip->total_length = RTE_BE16(36);
	ip->time_to_live = 64;
	ip->next_proto_id = IPPROTO_ICMP;
	ip->src_addr = RTE_BE32(0x0a000002);
	ip->dst_addr = RTE_BE32(0x0a000001);
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	f[34] = RTE_IP_ICMP_ECHO_REQUEST;
	f[36] = 0xf7;
	f[37] = 0xff; /* checksum of type 8 and zeros */
	sim_link_inject(rig.link, 0, f, sizeof(f), 1000);
	rig.pings++;
}

static void
worker_up(struct worker *w, unsigned int index, bool host, const struct weft_tcp_attr *ta)
{
	static const struct weft_netif_ops ops = {.tcp_rx = rig_tcp_rx};
	static const struct weft_ip any;
	struct weft_netif_attr na = {
	        .dev = sim_link_dev(),
	        .dev_arg = sim_link_dev_arg(rig.link, host ? 0 : 1),
	        .pool = host ? rig.rx : rig.peers,
	        .tx_pool = host ? rig.tx : NULL,
	        .mac = {.addr_bytes = {2, 0, 0, 0, 0, host ? 1 : 2}},
	        .addr = weft_ip_from_v4(host ? RTE_BE32(0x0a000001) : RTE_BE32(0x0a000002)),
	        .prefix_len = 24,
	        .group = host ? rig.group : NULL,
	        .group_index = index,
	};

	w->rig = &rig;
	w->index = index;
	TAILQ_INIT(&w->sched.run);
	weft_wheel_init(&w->sched.wheel, sim_now_ns(rig.sim));
	w->sched.rand = sim_rand(rig.sim, host ? index : 9);
	w->sched.now_ns = sim_now_ns(rig.sim);
	weft_mpa_keep_init(&w->keep, 200000);
	w->sched.mpa_keep = &w->keep;
	CHECK_EQ(weft_netif_create(&na, &ops, w, &w->sched, &w->nif), 0);
	CHECK_EQ(weft_tcp_create(ta, &w->sched, &w->tcp), 0);
	if (host)
		CHECK_EQ(
		        weft_tcp_listen(w->tcp, &any, 128, PORT, 256, host_accept, w, &w->listener),
		        0);
	sim_add_node(rig.sim, &(struct sim_node){.poll = rig_poll, .next = rig_next, .arg = w});
}

static void
rig_up(uint64_t seed, unsigned int workers)
{
	static struct rte_mempool *rx, *tx, *peers;
	const struct sim_link_cfg cfg[2] = {
	        {.delay_ns = 1000000, .queue_pkts = 100000, .loss_ppm = 2000},
	        {.delay_ns = 1000000, .queue_pkts = 100000, .loss_ppm = 2000}};
	struct weft_tcp_attr ta = {.max_conns = 256, .max_conns_per_peer = 256};
	struct weft_ip host = weft_ip_from_v4(RTE_BE32(0x0a000001));

	test_eal_init();
	if (rx == NULL) {
		CHECK_EQ(weft_netif_pool_create("pool_rx", RX_MBUFS, 1500, 0, &rx), 0);
		CHECK_EQ(weft_netif_pool_create("pool_tx", TX_MBUFS, 1500, 0, &tx), 0);
		CHECK_EQ(weft_netif_pool_create("pool_peers", 16383, 1500, 0, &peers), 0);
	}
	memset(&rig, 0, sizeof(rig));
	rig.rx = rx;
	rig.tx = tx;
	rig.peers = peers;
	rig.workers = workers;
	rig.sim = sim_create(seed, rx);
	rig.link = sim_link_create(rig.sim, cfg);
	sim_link_tap(rig.link, rig_tap, NULL);
	if (workers > 1) {
		struct weft_netif_group_attr ga = {
		        .members = workers, .rx_queues = 1, .tx_queues = 1, .pool_mbufs = RX_MBUFS};

		CHECK_EQ(weft_netif_group_create(&ga, &rig.group), 0);
	}
	for (unsigned int i = 0; i < workers; i++)
		worker_up(&rig.w[i], i, true, &ta);
	worker_up(&rig.peer, 0, false, &ta);
	CHECK_EQ(weft_netif_neigh_get(rig.peer.nif, NULL, &host, &rig.neigh), 0);
	for (unsigned int i = 0; i < ATTACKERS; i++)
		rig.raw[i] = (struct raw){.port = (uint16_t)(RAW_PORT + i),
		                          .kind = (enum kind)(sim_random(rig.sim) % KINDS)};
	for (unsigned int i = 0; i < HONEST; i++) {
		struct end *e = rig.honest[i] = end_new(&rig.peer, true);

		CHECK_EQ(weft_tcp_connect(rig.peer.tcp, rig.peer.nif, NULL, &host, PORT,
		                          &client_ops, e, &e->conn),
		         0);
	}
}

static void
rig_run(uint64_t ns)
{
	sim_run(rig.sim, sim_now_ns(rig.sim) + ns, NULL, NULL);
}

/** Check that all held buffers are charged, and within what the port lends. */
static void
check_held(void)
{
	uint64_t rx_lent = 0, tx_lent = 0, rx_limit = 0, tx_limit = 0;
	unsigned int rx, tx;

	for (unsigned int i = 0; i < rig.workers; i++) {
		const struct weft_netif_budgets *b = weft_netif_budgets(rig.w[i].nif);

		rx_lent += b->ooo.held + b->fpdu.held;
		rx_limit += b->ooo.limit + b->fpdu.limit;
		tx_lent += b->snd.held;
		tx_limit += b->snd.limit;
		CHECK(b->ooo.held <= b->ooo.limit && b->fpdu.held <= b->fpdu.limit);
		CHECK(rig.w[i].keep.heap_bytes <= rig.w[i].keep.heap_max_bytes);
	}
	rx = rte_mempool_in_use_count(rig.rx);
	tx = rte_mempool_in_use_count(rig.tx);
	CHECK_MSG(rx <= rx_lent + SLACK, "%u buffers received, %u charged", rx, (unsigned)rx_lent);
	CHECK_MSG(tx_lent <= tx_limit + ATTACKERS, "%u of %u", (unsigned)tx_lent,
	          (unsigned)tx_limit);
	CHECK(rx_limit <= RX_MBUFS / 2 && RX_MBUFS - rx > RX_MBUFS / 2 - SLACK);
	CHECK_MSG(tx <= tx_lent + 3 * SLACK, "%u buffers to send, %u charged", tx,
	          (unsigned)tx_lent);
}

static uint64_t
honest_least(uint64_t before[HONEST])
{
	uint64_t least = UINT64_MAX;

	for (unsigned int i = 0; i < HONEST; i++) {
		least = RTE_MIN(least, rig.honest[i]->got_bytes - before[i]);
		before[i] = rig.honest[i]->got_bytes;
	}
	return least;
}

static void
rig_down(void)
{
	for (unsigned int i = 0; i < RTE_DIM(rig.end); i++)
		if (rig.end[i].used)
			weft_mpa_fini(&rig.end[i].mpa);
	weft_netif_neigh_put(rig.peer.nif, rig.neigh);
	for (unsigned int i = rig.workers + 1; i-- > 0;) {
		struct worker *w = i == rig.workers ? &rig.peer : &rig.w[i];

		weft_tcp_destroy(w->tcp);
		weft_netif_flush(w->nif, sim_now_ns(rig.sim));
		weft_netif_destroy(w->nif);
		CHECK_EQ(w->sched.wheel.armed, 0);
	}
	if (rig.group != NULL)
		weft_netif_group_destroy(rig.group);
	sim_destroy(rig.sim);
	CHECK_EQ(rte_mempool_in_use_count(rig.rx), 0);
	CHECK_EQ(rte_mempool_in_use_count(rig.tx), 0);
	CHECK_EQ(rte_mempool_in_use_count(rig.peers), 0);
}

static void
hostile(uint64_t seed, unsigned int workers, bool silent)
{
	uint64_t before[HONEST] = {0}, quiet, least, all = 0, held = 0;
	unsigned int open[KINDS] = {0};

	rig_up(seed, workers);
	rig_run(WEFT_NS_PER_S);
	(void)honest_least(before);
	rig_run(4 * WEFT_NS_PER_S);
	quiet = honest_least(before);
	CHECK(quiet > 50 * ECHO_BYTES);
	for (unsigned int s = 0; s < 4; s++) {
		for (unsigned int step = 0; step < 1000; step++) {
			for (unsigned int i = 0; i < ATTACKERS; i++)
				if (sim_random(rig.sim) % 2 == 0)
					raw_attack(&rig.raw[i]);
			if (step % 10 == 0)
				ping();
			rig_run(WEFT_NS_PER_MS);
			check_held();
		}
		least = honest_least(before);
		all += least;
		CHECK_MSG(least > 0, "second %u: an honest connection stands still", s);
	}
	/* The attack took place. */
	for (unsigned int i = 0; i < ATTACKERS; i++)
		open[rig.raw[i].kind] += rig.raw[i].open;
	CHECK(open[HALF] + open[CRUMBS] + open[BEYOND] > 10 && open[READER] + open[SHUT] > 5);
	for (unsigned int i = 0; i < workers; i++)
		held += weft_netif_budgets(rig.w[i].nif)->ooo.held;
	CHECK(held > 0);
	CHECK_MSG(rig.pongs >= rig.pings - rig.pings / 50, "%u of %u echoes", rig.pongs, rig.pings);
	CHECK_MSG(all >= quiet / 2, "%u of %u octets", (unsigned)all, (unsigned)quiet);
	if (!silent)
		for (unsigned int i = 0; i < ATTACKERS; i++)
			if (rig.raw[i].open)
				raw_seg(&rig.raw[i], TCP_RST, rig.raw[i].seq, 0, NULL, 0);
	for (unsigned int i = 0; i < ATTACKERS; i++)
		rig.raw[i].open = false;
	for (unsigned int i = 0; i < HONEST; i++)
		weft_mpa_fini(&rig.honest[i]->mpa), rig.honest[i]->used = false;
	/* The consumer gave no answer within its time. */
	rig_run(10 * WEFT_NS_PER_S);
	for (unsigned int i = 0; i < RTE_DIM(rig.end); i++)
		if (rig.end[i].used && rig.end[i].mpa.state == WEFT_MPA_REQ_RCVD) {
			weft_mpa_fini(&rig.end[i].mpa);
			rig.end[i].used = false;
		}
	/* The longest deadline is that of an FPDU, four times a minute. */
	rig_run((silent ? 260 : 2) * WEFT_NS_PER_S);
	/* Lost RSTs leave a few connections, which time out. */
	if (rte_mempool_in_use_count(rig.rx) > 0)
		rig_run(260 * WEFT_NS_PER_S);
	CHECK_EQ(rte_mempool_in_use_count(rig.rx), 0);
	rig_run(200 * WEFT_NS_PER_S);
	CHECK_EQ(rte_mempool_in_use_count(rig.tx), 0);
	for (unsigned int i = 0; i < workers; i++) {
		CHECK_EQ(rig.w[i].keep.heap_bytes, 0);
		CHECK_EQ(weft_netif_budgets(rig.w[i].nif)->fpdu.held, 0);
	}
	rig_down();
}

static void
test_hostile(unsigned int workers)
{
	uint64_t seed = test_seed(1);

	for (uint64_t s = seed; s < seed + (test_seed_given() ? 1 : 2); s++)
		for (unsigned int silent = 0; silent < 2; silent++)
			hostile(s, workers, silent);
}

static void
test_one(void)
{
	test_hostile(1);
}

static void
test_two(void)
{
	test_hostile(2);
}

WEFT_TEST_MAIN({"one worker", test_one}, {"two workers", test_two})
