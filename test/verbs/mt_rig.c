/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Two stacks on real threads, joined by a pair of rings. */

#include <arpa/inet.h>
#include <poll.h>
#include <unistd.h>

#include <rte_ring.h>

#include "mt_rig.h"
#include "weft_netif_mbuf.h"

void (*_Atomic wire_took)(const struct wire_end *end, struct rte_mbuf **pkts, uint16_t n);

static uint16_t
wire_rx(void *dev, struct rte_mbuf **pkts, uint16_t n)
{
	uint16_t got = (uint16_t)rte_ring_sc_dequeue_burst(((struct wire_end *)dev)->in,
	                                                   (void **)pkts, n, NULL);
	void (*took)(const struct wire_end *, struct rte_mbuf **, uint16_t) =
	        atomic_load_explicit(&wire_took, memory_order_acquire);

	if (got > 0 && took != NULL)
		took(dev, pkts, got);
	return got;
}

static uint16_t
wire_tx(void *dev, struct rte_mbuf **pkts, uint16_t n)
{
	return (uint16_t)rte_ring_sp_enqueue_burst(((struct wire_end *)dev)->out, (void **)pkts, n,
	                                           NULL);
}

const struct weft_netif_dev wire_dev = {.rx = wire_rx, .tx = wire_tx};

void
rig_open(struct rig *r)
{
	static struct rte_ring *ring[2];
	static struct rte_mempool *pool[2];

	test_eal_init();
	memset(r, 0, sizeof(*r));
	for (unsigned int i = 0; i < 2; i++) {
		char name[16];

		snprintf(name, sizeof(name), "wire%u", i);
		if (ring[i] == NULL) {
			ring[i] = rte_ring_create(name, 1024, SOCKET_ID_ANY,
			                          RING_F_SP_ENQ | RING_F_SC_DEQ);
			CHECK(ring[i] != NULL);
			CHECK_EQ(weft_netif_pool_create(name, 8191, 1500, -1, &pool[i]), 0);
		}
	}
	for (unsigned int i = 0; i < 2; i++) {
		struct weft_worker_attr wa = {.size = sizeof(wa), .lcore = -1};
		struct weft_cq_attr qa = {
		        .size = sizeof(qa), .depth = RIG_CQ_DEPTH, .want_fd = true};
		struct weft_evq_attr ea = {.size = sizeof(ea)};
		struct weft_mr_attr ma = {
		        .size = sizeof(ma),
		        .len_bytes = RIG_MEM,
		        .access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ |
		                  WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_FLUSH_VISIBLE};
		struct weft_netif_attr na;

		r->end[i] = (struct wire_end){.in = ring[i], .out = ring[!i]};
		na = (struct weft_netif_attr){.dev = &wire_dev,
		                              .dev_arg = &r->end[i],
		                              .pool = pool[i],
		                              .mac = {{2, 0, 0, 0, 1, (uint8_t)(i + 1)}},
		                              .addr = weft_ip_from_v4(htonl(0x0a000001 + i)),
		                              .prefix_len = 24};
		CHECK_EQ(weft_ctx_create(NULL, &r->ctx[i]), 0);
		CHECK_EQ(weft_worker_create(r->ctx[i], &wa, &r->w[i]), 0);
		CHECK_EQ(weft_engine_add_netif(r->w[i], &na), 0);
		CHECK_EQ(weft_pd_alloc(r->ctx[i], &r->pd[i]), 0);
		CHECK_EQ(weft_cq_create(r->ctx[i], &qa, &r->cq[i]), 0);
		CHECK_EQ(weft_evq_create(r->ctx[i], &ea, &r->evq[i]), 0);
		r->mem[i] = aligned_alloc(4096, RIG_MEM);
		memset(r->mem[i], 0, RIG_MEM);
		ma.addr = r->mem[i];
		CHECK_EQ(weft_mr_reg(r->pd[i], &ma, &r->mr[i]), 0);
	}
}

struct weft_event
rig_ev(struct rig *r, unsigned int i, enum weft_event_type type)
{
	struct pollfd p = {.fd = weft_evq_fd(r->evq[i]), .events = POLLIN};
	struct weft_event ev;

	while (weft_evq_poll(r->evq[i], &ev) == 0)
		CHECK_EQ(poll(&p, 1, 20000), 1);
	CHECK_MSG(ev.type == type, "%s, %s wanted", weft_event_str(ev.type), weft_event_str(type));
	return ev;
}

void
rig_connect(struct rig *r)
{
	struct weft_listen_attr la = {.size = sizeof(la), .evq = r->evq[1]};
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_event ev;

	CHECK_EQ(weft_listen(r->ctx[1], (struct sockaddr *)&sa, sizeof(sa), &la, &r->lsn), 0);
	for (unsigned int i = 0; i < 2; i++) {
		struct weft_qp_attr qa = {.size = sizeof(qa),
		                          .worker = r->w[i],
		                          .send_cq = r->cq[i],
		                          .recv_cq = r->cq[i],
		                          .evq = r->evq[i]};

		CHECK_EQ(weft_worker_start(r->w[i]), 0);
		CHECK_EQ(weft_worker_start(r->w[i]), -EALREADY);
		CHECK_EQ(weft_qp_create(r->pd[i], &qa, &r->qp[i]), 0);
	}
	CHECK_EQ(weft_connect(r->qp[0], (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
	ev = rig_ev(r, 1, WEFT_EV_CONNECT_REQUEST);
	usleep(2000);
	CHECK_EQ(weft_accept(ev.connreq, r->qp[1], NULL), 0);
	rig_ev(r, 1, WEFT_EV_ESTABLISHED);
	rig_ev(r, 0, WEFT_EV_ESTABLISHED);
}

void
rig_close(struct rig *r)
{
	weft_unlisten(r->lsn);
	for (unsigned int i = 0; i < 2; i++) {
		if (r->qp[i] != NULL)
			weft_qp_destroy(r->qp[i]);
		weft_mr_dereg(r->mr[i], free, r->mem[i]);
		CHECK_EQ(weft_cq_destroy(r->cq[i]), 0);
		CHECK_EQ(weft_evq_destroy(r->evq[i]), 0);
		CHECK_EQ(weft_pd_dealloc(r->pd[i]), 0);
	}
	for (unsigned int i = 0; i < 2; i++)
		weft_worker_stop(r->w[i]);
	for (unsigned int i = 0; i < 2; i++)
		weft_ctx_destroy(r->ctx[i]);
}

int
rig_wc(struct rig *r, unsigned int i, struct weft_wc *wc, unsigned int max)
{
	struct pollfd p = {.fd = weft_cq_fd(r->cq[i]), .events = POLLIN};
	uint64_t v;
	int n;

	for (;;) {
		n = weft_cq_poll(r->cq[i], wc, max);
		if (n != 0)
			return n;
		if (weft_cq_arm(r->cq[i], false) == 1)
			continue;
		CHECK_EQ(poll(&p, 1, 20000), 1);
		CHECK_EQ(read(p.fd, &v, 8), 8);
	}
}
