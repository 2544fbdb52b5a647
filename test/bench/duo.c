/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Two stacks in one process, joined by two rings. */

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_ring.h>

#include "bench.h"
#include "duo.h"
#include "test_xorshift.h"
#include "weft_base.h"
#include "weft_engine.h"
#include "weft_netif_attr.h"
#include "weft_netif_mbuf.h"

#define DUO_PORT       7471
#define DUO_WIRE_DEPTH 1024

void
duo_start_eal(const char *progname, unsigned int memory_mb)
{
	const struct weft_env_attr a = {
	        .size = sizeof(a), .progname = progname, .memory_mb = memory_mb, .no_huge = true};
	const char *msg;

	if (weft_env_init(&a, &msg) != 0)
		bench_die("%s", msg != NULL ? msg : "DPDK does not start");
}

/* ---- The wire ---- */

static uint16_t
duo_rx(void *dev, struct rte_mbuf **m, uint16_t n)
{
	return (uint16_t)rte_ring_sc_dequeue_burst(((struct duo_side *)dev)->in, (void **)m, n,
	                                           NULL);
}

static uint16_t
duo_tx(void *dev, struct rte_mbuf **m, uint16_t n)
{
	return (uint16_t)rte_ring_sp_enqueue_burst(((struct duo_side *)dev)->out, (void **)m, n,
	                                           NULL);
}

static const struct weft_netif_dev duo_wire = {.rx = duo_rx, .tx = duo_tx};

/** A frame in one mbuf of this side's pool, and the sender's mbufs free: what a NIC's DMA does. */
static struct rte_mbuf *
duo_dma(struct duo_side *s, struct rte_mbuf *from)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(s->pool);

	if (m == NULL)
		bench_die("no mbuf for a received frame");
	for (const struct rte_mbuf *seg = from; seg != NULL; seg = seg->next) {
		void *to = rte_pktmbuf_append(m, seg->data_len);

		if (to == NULL)
			bench_die("a frame of %u octets does not fit into an mbuf", from->pkt_len);
		memcpy(to, rte_pktmbuf_mtod(seg, void *), seg->data_len);
	}
	rte_pktmbuf_free(from);
	return m;
}

static uint16_t
duo_nic_rx(void *dev, struct rte_mbuf **m, uint16_t n)
{
	uint16_t got = duo_rx(dev, m, n);

	for (uint16_t i = 0; i < got; i++)
		m[i] = duo_dma(dev, m[i]);
	return got;
}

static const struct weft_netif_dev duo_nic = {.rx = duo_nic_rx, .tx = duo_tx};

/* ---- The sides ---- */

static struct sockaddr_in
duo_address(unsigned int i)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
	                            .sin_addr.s_addr = htonl(0x0a000001 + i),
	                            .sin_port = htons(DUO_PORT)};
}

static void
duo_draw(void *arg, void *buf, size_t len)
{
	uint64_t *state = arg;

	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = (uint8_t)(test_xorshift(state) >> 32);
}

static void
duo_open_region(struct duo *d, struct duo_side *s)
{
	const struct duo_attr *attr = &d->attr;
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .len_bytes = attr->mem_bytes,
	                          .access = attr->access,
	                          .hash = attr->hash};
	struct weft_persist_attr pa = {.size = sizeof(pa),
	                               .driver = attr->medium,
	                               .bytes = attr->mem_bytes,
	                               .numa_node = -1};

	if (attr->medium != NULL) {
		bench_must(weft_persist_open(&pa, &s->persist), "medium");
		s->mem = s->persist->base;
		ma.persist = s->persist;
	} else {
		s->mem = aligned_alloc(4096, attr->mem_bytes);
		if (s->mem == NULL)
			bench_die("no memory");
	}
	memset(s->mem, 0, attr->mem_bytes);
	ma.addr = s->mem;
	bench_must(weft_mr_reg(s->pd, &ma, &s->mr), "region");
}

static void
duo_open_side(struct duo *d, unsigned int i, struct rte_ring *const ring[2])
{
	const struct duo_attr *attr = &d->attr;
	struct duo_side *s = &d->side[i];
	struct weft_worker_attr wa = {
	        .size = sizeof(wa), .lcore = -1, .spin = true, .max_conns = attr->max_conns};
	/* one address opens all connections */
	struct weft_tcp_attr ta = {.size = sizeof(ta), .max_conns_per_peer = UINT32_MAX};
	struct weft_ctx_attr ctx = {.size = sizeof(ctx), .tcp = &ta};
	struct weft_cq_attr qa = {.size = sizeof(qa), .depth = attr->cq_depth};
	struct weft_evq_attr ea = {.size = sizeof(ea)};
	struct weft_netif_attr na = {
	        .dev = attr->seed != 0 ? &duo_nic : &duo_wire, .dev_arg = s, .prefix_len = 24};
	struct weft_rand draw = {duo_draw, &s->random};
	struct sockaddr_in at = duo_address(i);
	uint16_t unused;
	char name[24];

	s->in = ring[i];
	s->out = ring[!i];
	snprintf(name, sizeof(name), "%s_%u", attr->name, i);
	bench_must(weft_netif_pool_create(name, attr->mbufs, 1500, SOCKET_ID_ANY, &s->pool),
	           "mbufs");
	na.pool = s->pool;
	na.mac = (struct rte_ether_addr){{2, 0, 0, 0, 0, (uint8_t)(i + 1)}};
	bench_must(weft_ip_from_sockaddr((struct sockaddr *)&at, &na.addr, &unused), "address");
	if (attr->seed != 0) {
		s->random = attr->seed * 2 + i;
		s->now_ns = WEFT_NS_PER_S;
		bench_must(weft_engine_ctx_create(&ctx, &draw, NULL, &s->ctx), "context");
		bench_must(weft_engine_worker_create(s->ctx, &wa, &ta, &draw, s->now_ns, &s->w),
		           "worker");
	} else {
		bench_must(weft_ctx_create(&ctx, &s->ctx), "context");
		bench_must(weft_worker_create(s->ctx, &wa, &s->w), "worker");
	}
	bench_must(weft_engine_add_netif(s->w, &na), "interface");
	bench_must(weft_pd_alloc(s->ctx, &s->pd), "domain");
	bench_must(weft_cq_create(s->ctx, &qa, &s->cq), "completion queue");
	bench_must(weft_evq_create(s->ctx, &ea, &s->evq), "event queue");
	s->qp = calloc(attr->conns, sizeof(struct weft_qp *));
	if (s->qp == NULL)
		bench_die("no memory");
	duo_open_region(d, s);
}

unsigned int
duo_poll(struct duo_side *s)
{
	s->now_ns += DUO_TICK_NS;
	return weft_engine_poll_at(s->w, s->now_ns);
}

void
duo_open(struct duo *d, const struct duo_attr *attr)
{
	struct weft_listen_attr la = {.size = sizeof(la),
	                              .backlog = DUO_WIRE_DEPTH,
	                              .max_requests_per_peer = UINT32_MAX,
	                              .max_conns_per_peer = UINT32_MAX};
	struct sockaddr_in at = duo_address(1);
	struct rte_ring *ring[2];

	d->attr = *attr;
	for (unsigned int i = 0; i < 2; i++) {
		char name[24];

		snprintf(name, sizeof(name), "%s_wire%u", attr->name, i);
		ring[i] = rte_ring_create(name, DUO_WIRE_DEPTH, SOCKET_ID_ANY,
		                          RING_F_SP_ENQ | RING_F_SC_DEQ);
		if (ring[i] == NULL)
			bench_die("no memory");
	}
	duo_open_side(d, 0, ring);
	duo_open_side(d, 1, ring);
	la.evq = d->side[1].evq;
	bench_must(weft_listen(d->side[1].ctx, (struct sockaddr *)&at, sizeof(at), &la, &d->l),
	           "listen");
}

void
duo_close(struct duo *d)
{
	if (d->l == NULL)
		return;
	weft_unlisten(d->l);
	for (unsigned int i = 0; i < 2; i++) {
		weft_ctx_destroy(d->side[i].ctx);
		if (d->side[i].persist != NULL)
			weft_persist_close(d->side[i].persist);
		else
			free(d->side[i].mem);
		free(d->side[i].qp);
	}
}

/* ---- Connections ---- */

static struct weft_qp *
duo_qp(struct duo *d, struct duo_side *s)
{
	struct weft_recv_wr rw = {.sg_list = &d->attr.recv_sge, .num_sge = 1};
	struct weft_qp_attr a = d->attr.qp;
	struct weft_qp *qp;

	if (s->nqp == d->attr.conns)
		bench_die("one connection too many");
	a.size = sizeof(a);
	a.worker = s->w;
	a.send_cq = a.recv_cq = s->cq;
	a.evq = s->evq;
	a.user = (void *)(uintptr_t)s->nqp;
	bench_must(weft_qp_create(s->pd, &a, &qp), "QP");
	for (uint32_t i = 0; i < d->attr.recvs; i++)
		if (weft_post_recv(qp, &rw, 1) != 1)
			bench_die("cannot post a receive");
	return s->qp[s->nqp++] = qp;
}

void
duo_connect(struct duo *d)
{
	struct sockaddr_in to = duo_address(1);

	bench_must(weft_connect(duo_qp(d, &d->side[0]), (struct sockaddr *)&to, sizeof(to), NULL),
	           "connect");
}

static void
duo_side_events(struct duo *d, struct duo_side *s)
{
	struct weft_event ev;
	char why[160];

	while (weft_evq_poll(s->evq, &ev) > 0) {
		switch (ev.type) {
		case WEFT_EV_CONNECT_REQUEST:
			bench_must(weft_accept(ev.connreq, duo_qp(d, s), NULL), "accept");
			break;
		case WEFT_EV_ESTABLISHED:
			s->up++;
			break;
		case WEFT_EV_TERMINATED:
			bench_die("Terminate: %s", weft_terminate_str(&ev.term, why, sizeof(why)));
		default:
			bench_die("a connection ended: %s: %s", weft_event_str(ev.type),
			          strerror(-ev.status));
		}
	}
}

void
duo_events(struct duo *d)
{
	duo_side_events(d, &d->side[0]);
	duo_side_events(d, &d->side[1]);
}
