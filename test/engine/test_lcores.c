/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Several workers on one port, with the whole stack: configuration, and two workers on
 * threads. */

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <weft/weft.h>
#include "weft_engine.h"
#include "weft_netif.h"
#include "weft_netif_attr.h"
#include "weft_netif_group.h"
#include "weft_test.h"

#define PORT_NO 7471
#define QPS     24
#define WRITES  12
#define SLICE   8192

static struct sockaddr_in
addr(unsigned int host)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
	                            .sin_port = htons(PORT_NO),
	                            .sin_addr.s_addr = htonl(0x0a020000 + host)};
}

static struct weft_port *
open_port(struct weft_ctx *ctx, const char *dev, unsigned int host, uint32_t queues)
{
	struct weft_port_attr pa = {.size = sizeof(pa),
	                            .name = "p",
	                            .dev = dev,
	                            .prefix_len = 24,
	                            .mbufs = 4096,
	                            .queues = queues};
	struct sockaddr_in sa = addr(host);
	struct weft_port *port;

	memcpy(&pa.addr, &sa, sizeof(sa));
	CHECK_EQ(weft_port_open(ctx, &pa, &port), 0);
	return port;
}

/** net_null supports RSS with a key and a table. */
static void
test_rss_port(void)
{
	struct weft_worker *w[4];
	struct weft_port_stats st;
	struct weft_port *port;
	struct weft_ctx *ctx;

	test_eal_init();
	CHECK_EQ(weft_ctx_create(NULL, &ctx), 0);
	port = open_port(ctx, "net_null7", 1, 3);
	CHECK_EQ(weft_port_stats(port, &st), 0);
	CHECK_EQ(st.queues, 3);
	CHECK(st.rss);
	for (unsigned int i = 0; i < 4; i++)
		CHECK_EQ(weft_worker_create(ctx, NULL, &w[i]), 0);
	CHECK_EQ(weft_worker_add_port(w[0], port), 0);
	CHECK_EQ(weft_worker_add_port(w[0], port), -EBUSY);
	CHECK_EQ(weft_worker_add_port(w[1], port), 0);
	CHECK_EQ(weft_worker_add_port(w[2], port), 0);
	CHECK_EQ(weft_worker_add_port(w[3], port), -EBUSY);
	for (unsigned int i = 0; i < 3; i++) {
		const struct weft_netif_attr *a = weft_netif_attr(weft_engine_netif(w[i], 0));

		CHECK_EQ(a->queue_id, i);
		CHECK_EQ(a->group_index, i);
		CHECK(weft_netif_group_has_rss(a->group));
		weft_engine_poll_at(w[i], weft_engine_clock_ns());
	}
	weft_ctx_destroy(ctx);
}

static uint8_t
pattern(uint32_t i)
{
	return (uint8_t)(i * 131 + (i >> 8) * 17);
}

/** A host with two workers. */
struct host {
	struct weft_ctx *ctx;
	struct weft_port *port;
	struct weft_worker *w[2];
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_mr *mr;
	uint8_t *mem;
	unsigned int qps[2]; /**< QPs of each worker */
};

static void
host_open(struct host *h, const char *dev, unsigned int id, bool server,
          const struct weft_worker_attr *wa1)
{
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 1024};
	struct weft_evq_attr ea = {.size = sizeof(ea)};
	struct weft_worker_attr wa = {.size = sizeof(wa), .lcore = -1};
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .len_bytes = QPS * SLICE,
	                          .access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ |
	                                    WEFT_ACCESS_REMOTE_WRITE};

	memset(h, 0, sizeof(*h));
	CHECK_EQ(weft_ctx_create(NULL, &h->ctx), 0);
	h->port = open_port(h->ctx, dev, id, 2);
	for (unsigned int i = 0; i < 2; i++) {
		CHECK_EQ(weft_worker_create(h->ctx, i == 1 && wa1 != NULL ? wa1 : &wa, &h->w[i]),
		         0);
		CHECK_EQ(weft_worker_add_port(h->w[i], h->port), 0);
	}
	CHECK_EQ(weft_pd_alloc(h->ctx, &h->pd), 0);
	CHECK_EQ(weft_cq_create(h->ctx, &ca, &h->cq), 0);
	CHECK_EQ(weft_evq_create(h->ctx, &ea, &h->evq), 0);
	h->mem = aligned_alloc(4096, QPS * SLICE);
	CHECK(h->mem != NULL);
	for (unsigned int i = 0; i < QPS * SLICE; i++)
		h->mem[i] = server ? 0 : pattern(i);
	ma.addr = h->mem;
	CHECK_EQ(weft_mr_reg(h->pd, &ma, &h->mr), 0);
}

static struct weft_qp *
host_qp(struct host *h, struct weft_worker *w, void *user)
{
	struct weft_qp_attr qa = {.size = sizeof(qa),
	                          .worker = w,
	                          .send_cq = h->cq,
	                          .recv_cq = h->cq,
	                          .evq = h->evq,
	                          .sq_depth = 32,
	                          .user = user};
	struct weft_qp *qp;

	CHECK_EQ(weft_qp_create(h->pd, &qa, &qp), 0);
	h->qps[w == h->w[1]]++;
	return qp;
}

static void
post(struct host *c, struct host *s, struct weft_qp *qp, unsigned int q, enum weft_wr_opcode op,
     uint8_t *local, uint32_t off, uint32_t len, uint64_t id)
{
	struct weft_sge sg = {.addr = local, .len_bytes = len, .lkey = weft_mr_stag(c->mr)};
	struct weft_wr wr = {.wr_id = id,
	                     .opcode = op,
	                     .flags = WEFT_WR_SIGNALED,
	                     .sg_list = &sg,
	                     .num_sge = 1,
	                     .rdma = {.stag = weft_mr_stag(s->mr), .to = q * SLICE + off}};

	CHECK_EQ(weft_post_send(qp, &wr, 1), 1);
}

static void
server_events(struct host *s, unsigned int *down)
{
	struct weft_event ev;

	while (weft_evq_poll(s->evq, &ev) == 1) {
		if (ev.type == WEFT_EV_CONNECT_REQUEST) {
			/* Accept on the worker that has the connection. */
			struct weft_worker *w = weft_connreq_worker(ev.connreq);

			CHECK_EQ(weft_accept(ev.connreq, host_qp(s, w, NULL), NULL), 0);
		} else if (ev.type == WEFT_EV_DISCONNECTED) {
			(*down)++;
		} else {
			CHECK_MSG(ev.type == WEFT_EV_ESTABLISHED, "%s", weft_event_str(ev.type));
		}
	}
}

/**
 * The server has two workers on threads of their own. The client has two workers, which this thread
 * polls. net_memif has no RSS, so both sides use the distributor and one transmit queue.
 */
static void
test_two_workers(void)
{
	static struct host s, c;
	static struct weft_qp *qp[QPS];
	unsigned int done[QPS] = {0}, up = 0, down = 0, finished = 0, left = 0;
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct sockaddr_in sa = addr(1);
	struct weft_port_stats st;
	struct weft_listener *lsn;
	uint64_t end;
	char dev[128];

	test_eal_init();
	snprintf(dev, sizeof(dev), "net_memif_lcs,role=server,socket=weft-lcores-%ld",
	         (long)getpid());
	host_open(&s, dev, 1, true, NULL);
	snprintf(dev, sizeof(dev), "net_memif_lcc,role=client,socket=weft-lcores-%ld",
	         (long)getpid());
	host_open(&c, dev, 2, false, NULL);
	la.evq = s.evq;
	CHECK_EQ(weft_listen(s.ctx, (struct sockaddr *)&sa, sizeof(sa), &la, &lsn), 0);
	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(weft_worker_start(s.w[i]), 0);
	for (unsigned int q = 0; q < QPS; q++) {
		qp[q] = host_qp(&c, c.w[q % 2], (void *)(uintptr_t)q);
		CHECK_EQ(weft_connect(qp[q], (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
	}
	end = test_now_us() + 40000000;
	while (left < QPS || down < QPS) {
		struct weft_event ev;
		struct weft_wc wc;
		unsigned int n = weft_worker_poll(c.w[0]) + weft_worker_poll(c.w[1]);

		CHECK_MSG(test_now_us() < end, "%u up, %u finished, %u and %u gone", up, finished,
		          left, down);
		server_events(&s, &down);
		while (weft_evq_poll(c.evq, &ev) == 1) {
			unsigned int q = (unsigned int)(uintptr_t)ev.user;

			if (ev.type == WEFT_EV_ESTABLISHED) {
				uint32_t len = SLICE / WRITES;

				up++;
				for (unsigned int k = 0; k < WRITES; k++)
					post(&c, &s, qp[q], q, WEFT_WR_WRITE,
					     c.mem + q * SLICE + k * len, k * len, len, q);
				/* A Read follows the Writes. The octets that it returns have been
				 * placed before. */
				post(&c, &s, qp[q], q, WEFT_WR_READ, c.mem + q * SLICE, 0,
				     WRITES * len, q);
			} else {
				CHECK_MSG(ev.type == WEFT_EV_DISCONNECTED && ev.status == 0,
				          "%s %d", weft_event_str(ev.type), ev.status);
				left++;
			}
		}
		while (weft_cq_poll(c.cq, &wc, 1) == 1) {
			CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
			if (++done[wc.wr_id] < WRITES + 1)
				continue;
			finished++;
			CHECK_EQ(weft_disconnect(qp[wc.wr_id]), 0);
		}
		if (n == 0)
			usleep(20);
	}
	CHECK_EQ(finished, QPS);
	for (unsigned int i = 0; i < 2; i++)
		weft_worker_stop(s.w[i]);
	for (uint32_t i = 0; i < QPS * SLICE; i++)
		if (i % SLICE < SLICE / WRITES * WRITES) {
			CHECK_EQ(s.mem[i], pattern(i));
			CHECK_EQ(c.mem[i], pattern(i)); /* the octets that the Read has returned */
		}
	CHECK_EQ(s.qps[0] + s.qps[1], QPS);
	test_note("server's workers got %u and %u", s.qps[0], s.qps[1]);
	CHECK(s.qps[0] > 0 && s.qps[1] > 0);
	CHECK_EQ(weft_port_stats(s.port, &st), 0);
	CHECK(!st.rss);
	CHECK_EQ(st.queues, 2);
	CHECK(st.handed_over > 0);
	CHECK_EQ(st.handover_dropped, 0);
	for (unsigned int i = 0; i < 2; i++) {
		struct weft_worker_stats ws;

		weft_worker_stats(s.w[i], &ws);
		CHECK_EQ(ws.conns_total, s.qps[i]);
	}
	weft_ctx_destroy(c.ctx);
	weft_ctx_destroy(s.ctx);
	free(c.mem);
	free(s.mem);
}

/** Poll the client until its next completion. */
static void
client_wait(struct host *c, uint64_t end)
{
	struct weft_wc wc;

	while (weft_cq_poll(c->cq, &wc, 1) == 0) {
		weft_worker_poll(c->w[0]);
		CHECK_MSG(test_now_us() < end, "no completion");
	}
	CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
}

/** A worker that sleeps for a long time is woken by packets from the distributor. */
static void
test_woken(void)
{
	const struct weft_worker_attr sleeper = {
	        .size = sizeof(sleeper), .lcore = -1, .idle_spin_us = 1, .idle_sleep_us = 5000000};
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct sockaddr_in sa = addr(1);
	struct weft_qp *qp[QPS], *mine = NULL;
	struct weft_listener *lsn;
	static struct host s, c;
	uint64_t start, end;
	char dev[128];

	test_eal_init();
	snprintf(dev, sizeof(dev), "net_memif_wks,role=server,socket=weft-woken-%ld",
	         (long)getpid());
	host_open(&s, dev, 1, true, &sleeper);
	snprintf(dev, sizeof(dev), "net_memif_wkc,role=client,socket=weft-woken-%ld",
	         (long)getpid());
	host_open(&c, dev, 2, false, NULL);
	la.evq = s.evq;
	CHECK_EQ(weft_listen(s.ctx, (struct sockaddr *)&sa, sizeof(sa), &la, &lsn), 0);
	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(weft_worker_start(s.w[i]), 0);
	end = test_now_us() + 30000000;
	for (unsigned int q = 0; q < QPS && mine == NULL; q++) {
		unsigned int before = s.qps[1], down = 0;
		struct weft_event ev = {0};

		qp[q] = host_qp(&c, c.w[0], NULL);
		CHECK_EQ(weft_connect(qp[q], (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
		while (weft_evq_poll(c.evq, &ev) == 0) {
			weft_worker_poll(c.w[0]);
			weft_worker_poll(c.w[1]);
			server_events(&s, &down);
			CHECK(test_now_us() < end);
		}
		CHECK_EQ(ev.type, WEFT_EV_ESTABLISHED);
		if (s.qps[1] > before)
			mine = qp[q];
	}
	CHECK(mine != NULL);
	start = test_now_us();
	for (unsigned int i = 0; i < 10; i++) {
		usleep(2000); /* until the worker sleeps */
		post(&c, &s, mine, 0, WEFT_WR_WRITE, c.mem, 0, 64, i);
		client_wait(&c, end);
		post(&c, &s, mine, 0, WEFT_WR_READ, c.mem, 0, 64, i);
		client_wait(&c, end);
	}
	/* Without wake-ups the worker would find each Read by a timer or after seconds. */
	CHECK_MSG(test_now_us() - start < 1000000, "%" PRIu64 " us", test_now_us() - start);
	for (unsigned int i = 0; i < 2; i++)
		weft_worker_stop(s.w[i]);
	weft_ctx_destroy(c.ctx);
	weft_ctx_destroy(s.ctx);
	free(c.mem);
	free(s.mem);
}

WEFT_TEST_MAIN({"rss_port", test_rss_port}, {"two_workers", test_two_workers},
               {"woken", test_woken})
