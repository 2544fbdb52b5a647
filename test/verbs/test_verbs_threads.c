/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Two stacks on real threads and the real clock. Two workers run in threads of their own over a
 * pair of rings. Other threads drive them.
 */

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include <rte_ring.h>

#include "mt_rig.h"
#include "weft_netif_mbuf.h"

/* ---- Many posters ---- */

#define POSTERS 3
#define EACH    3000

struct poster {
	struct rig *r;
	unsigned int id;
	pthread_t thread;
};

static void *
poster_main(void *arg)
{
	struct poster *p = arg;
	struct rig *r = p->r;

	for (uint64_t i = 0; i < EACH;) {
		struct weft_sge sg = {r->mem[0] + 64 * p->id, 64, 0};
		struct weft_wr wr[2] = {
		        {.wr_id = (uint64_t)p->id << 32 | i,
		         .opcode = WEFT_WR_WRITE,
		         .flags = WEFT_WR_SIGNALED,
		         .sg_list = &sg,
		         .num_sge = 1,
		         .rdma = {weft_mr_stag(r->mr[1]), 64 * p->id}},
		        {.wr_id = (uint64_t)p->id << 32 | (i + 1),
		         .opcode = WEFT_WR_FLUSH,
		         .flags = WEFT_WR_SIGNALED,
		         .flush = {weft_mr_stag(r->mr[1]), 64 * p->id, 64, WEFT_FLUSH_VISIBLE}},
		};
		int n = weft_post_send(r->qp[0], wr, i + 1 < EACH ? 2 : 1);

		if (n == -EAGAIN) {
			usleep(50);
			continue;
		}
		if (n < 0)
			return (void *)1;
		i += (unsigned int)n;
	}
	return NULL;
}

static void
test_many_posters(void)
{
	struct poster p[POSTERS];
	uint64_t next[POSTERS] = {0};
	unsigned int got = 0;
	struct weft_qp_info info;
	struct rig r;

	rig_open(&r);
	rig_connect(&r);
	for (unsigned int i = 0; i < POSTERS; i++) {
		p[i] = (struct poster){.r = &r, .id = i};
		memset(r.mem[0] + 64 * i, (int)(i + 1), 64);
		CHECK_EQ(pthread_create(&p[i].thread, NULL, poster_main, &p[i]), 0);
	}
	while (got < POSTERS * EACH) {
		struct weft_wc wc[16];
		int n = rig_wc(&r, 0, wc, 16);

		CHECK(n > 0);
		for (int i = 0; i < n; i++) {
			unsigned int id = (unsigned int)(wc[i].wr_id >> 32);

			/* in the order of each thread's posts */
			CHECK_EQ(wc[i].status, WEFT_WC_SUCCESS);
			CHECK(id < POSTERS);
			CHECK_EQ((uint32_t)wc[i].wr_id, next[id]);
			next[id]++;
			got++;
		}
	}
	for (unsigned int i = 0; i < POSTERS; i++) {
		void *bad;

		pthread_join(p[i].thread, &bad);
		CHECK(bad == NULL);
		CHECK_MEM(r.mem[1] + 64 * i, r.mem[0] + 64 * i, 64);
	}
	weft_qp_query(r.qp[0], &info);
	CHECK_EQ(info.state, WEFT_QP_RTS);
	CHECK_EQ(info.sq_used, 0);
	usleep(10000);
	weft_qp_query(r.qp[0], &info);
	CHECK(info.sent_msgs >= 1);
	rig_close(&r);
}

/** Ping-pong between two sleeping threads: no wake-up is lost. */
static void *
echo_main(void *arg)
{
	struct rig *r = arg;
	uint8_t buf[64];
	struct weft_sge sg = {buf, sizeof(buf), 0};
	struct weft_recv_wr rr = {.sg_list = &sg, .num_sge = 1};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1};
	struct weft_wc wc;

	for (;;) {
		if (rig_wc(r, 1, &wc, 1) != 1 || wc.status != WEFT_WC_SUCCESS)
			return NULL;
		if (weft_post_recv(r->qp[1], &rr, 1) != 1 || weft_post_send(r->qp[1], &wr, 1) != 1)
			return (void *)1;
	}
}

static void
test_ping_pong(void)
{
	uint8_t buf[64], in[64];
	struct weft_sge sg = {buf, sizeof(buf), 0}, rsg = {in, sizeof(in), 0};
	struct weft_recv_wr rr = {.sg_list = &rsg, .num_sge = 1};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1};
	struct weft_wc wc;
	pthread_t th;
	struct rig r;
	void *bad;

	rig_open(&r);
	rig_connect(&r);
	CHECK_EQ(weft_post_recv(r.qp[1], &(struct weft_recv_wr){.sg_list = &rsg, .num_sge = 0}, 0),
	         0);
	static uint8_t first[64];
	struct weft_sge fsg = {first, sizeof(first), 0};
	rr.sg_list = &fsg;
	CHECK_EQ(weft_post_recv(r.qp[1], &rr, 1), 1);
	rr.sg_list = &rsg;
	CHECK_EQ(pthread_create(&th, NULL, echo_main, &r), 0);
	for (unsigned int i = 0; i < 1000; i++) {
		memset(buf, (int)i, sizeof(buf));
		CHECK_EQ(weft_post_recv(r.qp[0], &rr, 1), 1);
		CHECK_EQ(weft_post_send(r.qp[0], &wr, 1), 1);
		CHECK_EQ(rig_wc(&r, 0, &wc, 1), 1);
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
		CHECK_EQ(wc.opcode, WEFT_WC_RECV);
	}
	CHECK_EQ(weft_disconnect(r.qp[0]), 0);
	CHECK_EQ(rig_ev(&r, 0, WEFT_EV_DISCONNECTED).status, 0);
	CHECK_EQ(rig_ev(&r, 1, WEFT_EV_DISCONNECTED).status, 0);
	pthread_join(th, &bad);
	CHECK(bad == NULL);
	rig_close(&r);
}

/** A Read posted from another thread: only the worker can check its sink. */
static void
test_foreign_read(void)
{
	struct weft_wc wc;
	struct rig r;

	rig_open(&r);
	rig_connect(&r);
	vt_fill(r.mem[1], 4096, 3);
	struct weft_sge sg = {r.mem[0], 4096, weft_mr_stag(r.mr[0])};
	struct weft_wr wr = {.wr_id = 1,
	                     .opcode = WEFT_WR_READ,
	                     .flags = WEFT_WR_SIGNALED,
	                     .sg_list = &sg,
	                     .num_sge = 1,
	                     .rdma = {weft_mr_stag(r.mr[1]), 0}};
	CHECK_EQ(weft_post_send(r.qp[0], &wr, 1), 1);
	CHECK_EQ(rig_wc(&r, 0, &wc, 1), 1);
	CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
	CHECK_MEM(r.mem[0], r.mem[1], 4096);
	sg.lkey ^= 0x1000;
	wr.wr_id = 2;
	CHECK_EQ(weft_post_send(r.qp[0], &wr, 1), 1);
	CHECK_EQ(rig_wc(&r, 0, &wc, 1), 1);
	CHECK_EQ(wc.wr_id, 2);
	CHECK_EQ(wc.status, WEFT_WC_LOCAL_PROT);
	/* RFC 5040 s7.1 case 1 */
	for (unsigned int i = 0; i < 2; i++) {
		struct weft_event ev = rig_ev(&r, i, WEFT_EV_TERMINATED);

		CHECK(ev.term.layer == 0 && ev.term.etype == 0 && ev.term.ours == (i == 0));
		rig_ev(&r, i, WEFT_EV_DISCONNECTED);
	}
	rig_close(&r);
}

static atomic_uint calls;

static void
count_call(void *arg)
{
	struct weft_worker *w = arg;

	CHECK(weft_worker_is_mine(w));
	atomic_fetch_add(&calls, 1);
}

static void
nested_stop(void *arg)
{
	weft_worker_stop(arg); /* on the worker's own thread it only requests the stop */
}

static void
test_calls_and_stops(void)
{
	struct weft_worker_attr wa = {.size = sizeof(wa), .lcore = -1};
	struct weft_worker *w;
	struct weft_ctx *ctx;
	unsigned int n = 0;

	test_eal_init();
	CHECK_EQ(weft_ctx_create(NULL, &ctx), 0);
	CHECK_EQ(weft_worker_create(ctx, &wa, &w), 0);
	CHECK(!weft_worker_is_mine(w));
	/* the worker does not run yet: the queue of calls is bounded */
	atomic_store(&calls, 0);
	while (weft_worker_call(w, count_call, w) == 0)
		n++;
	CHECK(n >= 1024 && n < 100000);
	CHECK_EQ(weft_worker_start(w), 0);
	for (unsigned int i = 0; i < 1000 && atomic_load(&calls) < n; i++)
		usleep(1000);
	CHECK_EQ(atomic_load(&calls), n);
	/* while the worker sleeps */
	for (unsigned int i = 0; i < 200; i++) {
		while (weft_worker_call(w, count_call, w) != 0)
			;
		while (atomic_load(&calls) < n + i + 1)
			usleep(20);
	}
	weft_worker_stop(w);
	/* started again, and stopped by a call to itself */
	CHECK_EQ(weft_worker_start(w), 0);
	CHECK_EQ(weft_worker_call(w, nested_stop, w), 0);
	weft_worker_stop(w);
	/* asked to stop before it runs: weft_worker_run() returns at once, on this thread */
	weft_worker_stop_async(w);
	CHECK_EQ(weft_worker_run(w), 0);
	CHECK(!weft_worker_is_mine(w));
	weft_worker_poll(w);
	CHECK(weft_worker_is_mine(w));
	CHECK_EQ(weft_worker_call(w, count_call, w), 0);
	CHECK_EQ(atomic_load(&calls), n + 201);
	weft_worker_detach(w);
	weft_ctx_destroy(ctx);
}

static unsigned int
shared_post(struct weft_srq *srq, uint64_t from, unsigned int n)
{
	static uint8_t in[400][64];

	for (uint64_t i = from; i < from + n; i++) {
		struct weft_sge sg = {in[i], 64, 0};
		struct weft_recv_wr wr = {.wr_id = i, .sg_list = &sg, .num_sge = 1};

		CHECK_EQ(weft_post_srq_recv(srq, &wr, 1), 1);
	}
	return n;
}

static void
shared_send(struct weft_qp *qp)
{
	static uint8_t out[64];
	struct weft_sge sg = {out, 64, 0};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1};

	CHECK_EQ(weft_post_send(qp, &wr, 1), 1);
}

/** One context has two workers that are connected to each other. They share one CQ and one event
 * queue. */
static void
shared_queues(bool with_srq)
{
	static struct rte_ring *ring[2];
	static struct rte_mempool *pool;
	struct weft_cq_attr qa = {.size = sizeof(qa), .depth = 1024, .want_fd = true};
	struct weft_evq_attr ea = {.size = sizeof(ea)};
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct weft_listener *lsn;
	struct wire_end end[2];
	struct weft_worker *w[2];
	struct weft_qp *qp[2];
	struct weft_qp_attr pa = {.size = sizeof(pa)};
	struct weft_srq_attr ra = {.size = sizeof(ra), .depth = 64};
	unsigned int got[2] = {0}, ups = 0, posted = 0;
	struct weft_srq *srq = NULL;
	static uint8_t buf[2][64];
	uint8_t seen[400] = {0};
	struct rig r = {0};
	struct weft_event ev;

	test_eal_init();
	CHECK_EQ(weft_ctx_create(NULL, &r.ctx[0]), 0);
	if (pool == NULL)
		CHECK_EQ(weft_netif_pool_create("shared", 4095, 1500, -1, &pool), 0);
	for (unsigned int i = 0; i < 2 && ring[i] == NULL; i++)
		CHECK((ring[i] = rte_ring_create(i ? "shared1" : "shared0", 1024, SOCKET_ID_ANY,
		                                 RING_F_SP_ENQ | RING_F_SC_DEQ)) != NULL);
	for (unsigned int i = 0; i < 2; i++) {
		struct weft_netif_attr na = {.dev = &wire_dev,
		                             .dev_arg = &end[i],
		                             .pool = pool,
		                             .mac = {{2, 0, 0, 0, 2, (uint8_t)(i + 1)}},
		                             .addr = weft_ip_from_v4(htonl(0x0a000001 + i)),
		                             .prefix_len = 24};

		end[i] = (struct wire_end){.in = ring[i], .out = ring[!i]};
		CHECK_EQ(weft_worker_create(r.ctx[0], NULL, &w[i]), 0);
		CHECK_EQ(weft_engine_add_netif(w[i], &na), 0);
	}
	CHECK_EQ(weft_pd_alloc(r.ctx[0], &r.pd[0]), 0);
	CHECK_EQ(weft_cq_create(r.ctx[0], &qa, &r.cq[0]), 0);
	CHECK_EQ(weft_evq_create(r.ctx[0], &ea, &r.evq[0]), 0);
	pa.send_cq = pa.recv_cq = r.cq[0];
	pa.evq = r.evq[0];
	if (with_srq)
		CHECK_EQ(weft_srq_create(r.pd[0], &ra, &srq), 0);
	pa.srq = srq;
	for (unsigned int i = 0; i < 2; i++) {
		CHECK_EQ(weft_worker_start(w[i]), 0);
		pa.worker = w[i];
		pa.user = &got[i];
		CHECK_EQ(weft_qp_create(r.pd[0], &pa, &qp[i]), 0);
		for (uint64_t k = 0; k < 200; k++) {
			struct weft_sge sg = {buf[i], 64, 0};
			struct weft_recv_wr rr = {.wr_id = k, .sg_list = &sg, .num_sge = 1};

			if (srq == NULL)
				CHECK_EQ(weft_post_recv(qp[i], &rr, 1), 1);
		}
	}
	if (srq != NULL)
		posted = shared_post(srq, 0, ra.depth);
	la.evq = r.evq[0];
	CHECK_EQ(weft_listen(r.ctx[0], (struct sockaddr *)&sa, sizeof(sa), &la, &lsn), 0);
	CHECK_EQ(weft_connect(qp[0], (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
	ev = rig_ev(&r, 0, WEFT_EV_CONNECT_REQUEST);
	CHECK(weft_connreq_worker(ev.connreq) == w[1]);
	CHECK_EQ(weft_accept(ev.connreq, qp[1], NULL), 0);
	while (ups < 2) {
		rig_ev(&r, 0, WEFT_EV_ESTABLISHED);
		ups++;
	}
	for (unsigned int k = 0; k < 200 && srq == NULL; k++)
		for (unsigned int i = 0; i < 2; i++) {
			static uint8_t out[64];
			struct weft_sge sg = {out, 64, 0};
			struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1};

			/* the responder may not send before the initiator, so its posts wait */
			CHECK_EQ(weft_post_send(qp[i], &wr, 1), 1);
		}
	/* with an SRQ: as many messages outstanding as receives are posted, by turns to each
	 * worker */
	for (unsigned int k = 0; k < ra.depth && srq != NULL; k++)
		shared_send(qp[k / 7 % 2]);
	while (got[0] + got[1] < 400) {
		struct weft_wc wc[8];
		int n = rig_wc(&r, 0, wc, 8);

		CHECK(n > 0);
		for (int i = 0; i < n; i++) {
			CHECK_EQ(wc[i].status, WEFT_WC_SUCCESS);
			if (srq == NULL) {
				CHECK_EQ(wc[i].wr_id, (*(unsigned int *)wc[i].qp_user)++);
				continue;
			}
			if (wc[i].opcode != WEFT_WC_RECV)
				continue;
			(*(unsigned int *)wc[i].qp_user)++;
			CHECK_EQ(seen[wc[i].wr_id]++, 0);
			if (posted < 400) {
				posted += shared_post(srq, posted, 1);
				shared_send(qp[posted / 7 % 2]);
			}
		}
	}
	if (srq == NULL)
		CHECK_EQ(got[0], 200);
	weft_qp_destroy(qp[0]);
	weft_qp_destroy(qp[1]);
	weft_unlisten(lsn);
	if (srq != NULL)
		CHECK_EQ(weft_srq_destroy(srq), 0);
	CHECK_EQ(weft_cq_destroy(r.cq[0]), 0);
	CHECK_EQ(weft_evq_destroy(r.evq[0]), 0);
	CHECK_EQ(weft_pd_dealloc(r.pd[0]), 0);
	weft_worker_stop(w[0]);
	weft_worker_stop(w[1]);
	weft_ctx_destroy(r.ctx[0]);
}

static void
test_shared_queues(void)
{
	shared_queues(false);
}

/** No message misses a receive while any is posted, whichever worker it arrives at. */
static void
test_shared_srq(void)
{
	shared_queues(true);
}

/** Worker and QP are destroyed under load, from another thread. */
static void
test_teardown_under_load(void)
{
	for (unsigned int round = 0; round < 10; round++) {
		struct rig r;

		rig_open(&r);
		rig_connect(&r);
		for (unsigned int i = 0; i < 200; i++) {
			struct weft_sge sg = {r.mem[0], 4000, 0};
			struct weft_wr wr = {.opcode = WEFT_WR_WRITE,
			                     .sg_list = &sg,
			                     .num_sge = 1,
			                     .rdma = {weft_mr_stag(r.mr[1]), 0}};
			(void)weft_post_send(r.qp[0], &wr, 1);
		}
		usleep(round * 100);
		if (round % 2) {
			weft_qp_destroy(r.qp[0]);
			r.qp[0] = NULL;
		}
		rig_close(&r);
	}
}

static void
count_free(void *arg)
{
	atomic_fetch_add((atomic_uint *)arg, 1);
}

#define INV_ROUNDS 300

/** Regions are deregistered at the moment when the peer invalidates them. */
static void
test_invalidate_races(void)
{
	static uint8_t area[64], first[1];
	static atomic_uint freed;
	struct weft_sge sg = {first, 1, 0};
	struct weft_recv_wr rr = {.sg_list = &sg, .num_sge = 1};
	struct weft_wr wr = {
	        .opcode = WEFT_WR_SEND, .flags = WEFT_WR_SIGNALED, .sg_list = &sg, .num_sge = 1};
	unsigned int rounds = 0;
	struct weft_wc wc;
	struct rig r;

	atomic_store(&freed, 0);
	rig_open(&r);
	rig_connect(&r);
	for (; rounds < INV_ROUNDS; rounds++) {
		struct weft_mr_attr ma = {.size = sizeof(ma),
		                          .addr = area,
		                          .len_bytes = sizeof(area),
		                          .access = WEFT_ACCESS_REMOTE_WRITE};
		struct weft_mr *mr;

		CHECK_EQ(weft_mr_reg(r.pd[1], &ma, &mr), 0);
		CHECK_EQ(weft_post_recv(r.qp[1], &rr, 1), 1);
		wr.opcode = WEFT_WR_SEND_INV;
		wr.send.inv_stag = weft_mr_stag(mr);
		CHECK_EQ(weft_post_send(r.qp[0], &wr, 1), 1);
		/* after the invalidation for certain, or at about the same time */
		if (rounds % 2 == 0)
			CHECK_EQ(rig_wc(&r, 1, &wc, 1), 1);
		else
			usleep(rounds % 97);
		weft_mr_dereg(mr, count_free, &freed);
		if (rounds % 2 == 1 &&
		    (rig_wc(&r, 1, &wc, 1) != 1 || wc.status != WEFT_WC_SUCCESS)) {
			/* The owner was first: the peer's invalidation of a deregistered region
			 * ends the stream. */
			CHECK_EQ(wc.status, WEFT_WC_FLUSHED);
			rounds++;
			break;
		}
		CHECK_EQ(rig_wc(&r, 0, &wc, 1), 1);
	}
	for (unsigned int i = 0; i < 1000 && atomic_load(&freed) < rounds; i++)
		usleep(1000);
	CHECK_EQ(atomic_load(&freed), rounds);
	rig_close(&r);
}

static bool slow_over; /* atomic */

static void
slow(void *arg)
{
	(void)arg;
	usleep(30000);
	__atomic_store_n(&slow_over, true, __ATOMIC_RELEASE);
}

/** When weft_listen() returns, a peer may connect. A worker that is busy with other work listens by
 * then, too. */
static void
test_listen(void)
{
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_listener *lsn;
	struct rig r;

	rig_open(&r);
	rig_connect(&r);
	la.evq = r.evq[1];
	sa.sin_port = htons(VT_PORT + 1);
	for (unsigned int i = 0; i < 5; i++) {
		slow_over = false;
		CHECK_EQ(weft_worker_call(r.w[1], slow, NULL), 0);
		usleep(i * 1000);
		CHECK_EQ(weft_listen(r.ctx[1], (struct sockaddr *)&sa, sizeof(sa), &la, &lsn), 0);
		CHECK(__atomic_load_n(&slow_over, __ATOMIC_ACQUIRE));
		weft_unlisten(lsn);
	}
	rig_close(&r);
}

WEFT_TEST_MAIN({"listen", test_listen}, {"many posters", test_many_posters},
               {"ping pong, asleep", test_ping_pong},
               {"read from another thread", test_foreign_read},
               {"calls and stops", test_calls_and_stops},
               {"queues shared by workers", test_shared_queues},
               {"srq shared by workers", test_shared_srq},
               {"teardown under load", test_teardown_under_load},
               {"invalidation against deregistration", test_invalidate_races})
