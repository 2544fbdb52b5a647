/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Two stacks under load, while other threads make calls that are allowed at any time: poll events,
 * listen and stop, post receives, narrow regions, query, flush, destroy. Made for ThreadSanitizer
 * (suite tsan), and tests without it as well.
 */

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "mt_rig.h"
#include <weft/revoke.h>

/** Connect one more pair of QPs, the target's with an SRQ. No other connection starts up
 * meanwhile. */
static void
pair_more(struct rig *r, struct weft_srq *srq, struct weft_qp *qp[2])
{
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_event ev;

	for (unsigned int i = 0; i < 2; i++) {
		struct weft_qp_attr qa = {.size = sizeof(qa),
		                          .worker = r->w[i],
		                          .send_cq = r->cq[i],
		                          .recv_cq = r->cq[i],
		                          .srq = i == 1 ? srq : NULL,
		                          .evq = r->evq[i]};

		CHECK_EQ(weft_qp_create(r->pd[i], &qa, &qp[i]), 0);
	}
	CHECK_EQ(weft_connect(qp[0], (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
	ev = rig_ev(r, 1, WEFT_EV_CONNECT_REQUEST);
	CHECK_EQ(weft_accept(ev.connreq, qp[1], NULL), 0);
	rig_ev(r, 1, WEFT_EV_ESTABLISHED);
	rig_ev(r, 0, WEFT_EV_ESTABLISHED);
}

/* ---- Load: one thread that writes all the time ---- */

struct load {
	struct rig *r;
	pthread_t thread;
	atomic_bool stop;
	atomic_uint_fast64_t done;
	uint32_t op_flags; /**< WEFT_FLUSH_* of a Flush behind each Write; 0: no Flush */
	uint32_t stag;
	uint32_t page; /**< octets from one Write to the next */
};

/** Keep four Writes of 512 octets outstanding, each to the front of the peer's region, and poll
 * their completions. */
static void *
load_main(void *arg)
{
	struct load *l = arg;
	struct rig *r = l->r;
	unsigned int out = 0;
	uint64_t slot = 0;

	while (!atomic_load(&l->stop) || out > 0) {
		struct weft_sge sg = {r->mem[0], 512, 0};
		struct weft_wr wr[2] = {{.opcode = WEFT_WR_WRITE,
		                         .flags = l->op_flags ? 0 : WEFT_WR_SIGNALED,
		                         .sg_list = &sg,
		                         .num_sge = 1,
		                         .rdma = {l->stag, l->page * slot}},
		                        {.opcode = WEFT_WR_FLUSH,
		                         .flags = WEFT_WR_SIGNALED,
		                         .flush = {l->stag, l->page * slot, 512, l->op_flags}}};
		struct weft_wc wc[4];
		unsigned int n = l->op_flags ? 2 : 1;
		int got;

		if (out < 4 && !atomic_load(&l->stop)) {
			int rc = weft_post_send(r->qp[0], wr, n);

			if (rc == (int)n) {
				out++;
				slot = (slot + 1) % 4;
			} else if (rc != -EAGAIN)
				return (void *)1;
			continue;
		}
		got = rig_wc(r, 0, wc, 4);
		if (got < 0)
			return (void *)1;
		for (int i = 0; i < got; i++)
			if (wc[i].status != WEFT_WC_SUCCESS)
				return (void *)1;
		out -= (unsigned int)got;
		atomic_fetch_add(&l->done, (unsigned int)got);
	}
	return NULL;
}

static void
load_start(struct load *l, struct rig *r, uint32_t stag, uint32_t op_flags)
{
	*l = (struct load){
	        .r = r, .stag = stag, .op_flags = op_flags, .page = op_flags != 0 ? 4096 : 512};
	CHECK_EQ(pthread_create(&l->thread, NULL, load_main, l), 0);
}

static void
load_stop(struct load *l)
{
	void *bad;

	atomic_store(&l->stop, true);
	CHECK_EQ(pthread_join(l->thread, &bad), 0);
	CHECK(bad == NULL);
}

/** Wait until n more Writes are complete, so that the caller's actions happened under load. Fails
 * only if no Write completes for a long time. */
static void
load_turn(struct load *l, uint64_t n)
{
	uint64_t at = atomic_load(&l->done), end = at + n;

	for (unsigned int still = 0; at < end && still < 400000; still++) {
		uint64_t now = atomic_load(&l->done);

		if (now != at)
			still = 0;
		at = now;
		usleep(50);
	}
	CHECK(at >= end);
}

/* ---- Events ---- */

#define EVENT_ROUNDS 25

/**
 * A failing Verify causes several events of one QP at the target while its event queue is polled: a
 * bad range, a Terminate, and WEFT_EV_LAST_WQE. In every second round the QP is destroyed
 * meanwhile.
 */
static void
test_events(void)
{
	struct weft_persist_attr pa = {
	        .size = sizeof(pa), .driver = "volatile", .bytes = 4096, .numa_node = -1};
	struct weft_srq_attr sa = {.size = sizeof(sa), .depth = 16};
	unsigned int bad_ranges = 0, terms = 0, last = 0;
	struct weft_srq *srq;
	struct weft_persist *persist;
	struct weft_mr *mr;
	struct rig r;

	rig_open(&r);
	rig_connect(&r);
	CHECK_EQ(weft_persist_open(&pa, &persist), 0);
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .addr = persist->base,
	                          .len_bytes = 4096,
	                          .persist = persist,
	                          .hash = "crc32c",
	                          .access = WEFT_ACCESS_VERIFY | WEFT_ACCESS_REMOTE_READ};
	CHECK_EQ(weft_mr_reg(r.pd[1], &ma, &mr), 0);
	CHECK_EQ(weft_srq_create(r.pd[1], &sa, &srq), 0);
	for (unsigned int round = 0; round < EVENT_ROUNDS; round++) {
		static const uint8_t wrong[4] = {1, 2, 3, 4};
		struct weft_wr wr = {.opcode = WEFT_WR_VERIFY,
		                     .verify = {.stag = weft_mr_stag(mr),
		                                .len_bytes = 4096,
		                                .expect = wrong,
		                                .expect_bytes = 4}};
		struct weft_qp *qp[2];
		struct weft_event ev;
		struct weft_wc wc;
		bool over = false;
		uint64_t end;

		pair_more(&r, srq, qp);
		CHECK_EQ(weft_post_send(qp[0], &wr, 1), 1);
		end = test_now_us() + TEST_WAIT_US;
		while (!over && test_now_us() < end) {
			if (weft_evq_poll(r.evq[1], &ev) == 0)
				continue;
			CHECK(ev.qp == qp[1]);
			bad_ranges += ev.type == WEFT_EV_BAD_RANGE;
			terms += ev.type == WEFT_EV_TERMINATED;
			last += ev.type == WEFT_EV_LAST_WQE;
			over = ev.type == WEFT_EV_DISCONNECTED ||
			       (round % 2 != 0 && ev.type == WEFT_EV_BAD_RANGE);
		}
		CHECK(over);
		weft_qp_destroy(qp[1]);
		CHECK_EQ(rig_wc(&r, 0, &wc, 1), 1);
		CHECK_EQ(wc.status, WEFT_WC_HASH_MISMATCH);
		do {
			struct pollfd p = {.fd = weft_evq_fd(r.evq[0]), .events = POLLIN};

			CHECK_EQ(poll(&p, 1, 20000), 1);
			CHECK_EQ(weft_evq_poll(r.evq[0], &ev), 1);
		} while (ev.type != WEFT_EV_DISCONNECTED);
		weft_qp_destroy(qp[0]);
	}
	CHECK_EQ(bad_ranges, EVENT_ROUNDS);
	CHECK(terms >= EVENT_ROUNDS / 2);
	CHECK(last >= EVENT_ROUNDS / 2 - 1);
	CHECK_EQ(weft_srq_destroy(srq), 0);
	weft_mr_dereg(mr, NULL, NULL);
	rig_close(&r);
	weft_persist_close(persist);
}

/* ---- Listeners ---- */

#define LISTEN_ROUNDS 150

struct door {
	struct rig *r;
	struct weft_evq *evq;
	atomic_bool stop;
	atomic_uint opened, asked;
};

/** Listen and stop, again and again. Reject each request. */
static void *
door_main(void *arg)
{
	struct door *d = arg;
	struct sockaddr_in sa = vt_addr(1, VT_PORT + 1);
	struct weft_listen_attr la = {.size = sizeof(la), .evq = d->evq};
	uint32_t x = 1;

	while (!atomic_load(&d->stop)) {
		struct weft_listener *l;
		struct weft_event ev;

		if (weft_listen(d->r->ctx[1], (struct sockaddr *)&sa, sizeof(sa), &la, &l) < 0)
			return (void *)1;
		atomic_fetch_add(&d->opened, 1);
		x = x * 1664525 + 1013904223;
		usleep(x >> 22);
		if (weft_evq_poll(d->evq, &ev) == 1) {
			if (ev.type != WEFT_EV_CONNECT_REQUEST)
				return (void *)1;
			atomic_fetch_add(&d->asked, 1);
			weft_reject(ev.connreq, NULL, 0);
		}
		weft_unlisten(l);
	}
	return NULL;
}

/** Peers connect while the listener is created and destroyed. Each connection is rejected or
 * refused. */
static void
test_listeners(void)
{
	struct weft_evq_attr ea = {.size = sizeof(ea)};
	unsigned int rejected = 0, refused = 0;
	struct door d = {0};
	pthread_t th;
	struct rig r;
	void *bad;

	rig_open(&r);
	rig_connect(&r);
	d.r = &r;
	CHECK_EQ(weft_evq_create(r.ctx[1], &ea, &d.evq), 0);
	CHECK_EQ(pthread_create(&th, NULL, door_main, &d), 0);
	/* Where the listener's thread gets little time, it is not there for the first calls. */
	for (unsigned int i = 0; i < LISTEN_ROUNDS || (rejected == 0 && i < 100 * LISTEN_ROUNDS);
	     i++) {
		struct sockaddr_in sa = vt_addr(1, VT_PORT + 1);
		struct weft_qp_attr qa = {.size = sizeof(qa),
		                          .worker = r.w[0],
		                          .send_cq = r.cq[0],
		                          .recv_cq = r.cq[0],
		                          .evq = r.evq[0]};
		struct pollfd p = {.fd = weft_evq_fd(r.evq[0]), .events = POLLIN};
		struct weft_event ev;
		struct weft_qp *qp;

		CHECK_EQ(weft_qp_create(r.pd[0], &qa, &qp), 0);
		CHECK_EQ(weft_connect(qp, (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
		CHECK_EQ(poll(&p, 1, 20000), 1);
		CHECK_EQ(weft_evq_poll(r.evq[0], &ev), 1);
		CHECK(ev.type == WEFT_EV_REJECTED || ev.type == WEFT_EV_CONNECT_ERROR);
		rejected += ev.type == WEFT_EV_REJECTED;
		refused += ev.type == WEFT_EV_CONNECT_ERROR;
		weft_qp_destroy(qp);
	}
	atomic_store(&d.stop, true);
	pthread_join(th, &bad);
	CHECK(bad == NULL);
	CHECK(rejected > 0);
	test_note("%u calls rejected, %u refused; the listener came %u times and saw %u", rejected,
	          refused, atomic_load(&d.opened), atomic_load(&d.asked));
	CHECK_EQ(weft_evq_destroy(d.evq), 0);
	rig_close(&r);
}

/* ---- Receives posted by several threads ---- */

#define RECV_EACH 600

struct receiver {
	struct rig *r;
	uint64_t id;
	struct weft_srq *srq; /**< NULL: the QP's own queue */
	atomic_uint posted;   /**< receives of which the post has returned */
	uint8_t in[RECV_EACH][16];
};

static void *
receiver_main(void *arg)
{
	struct receiver *p = arg;

	for (uint64_t i = 0; i < RECV_EACH;) {
		struct weft_sge sg = {p->in[i], 16, 0};
		struct weft_recv_wr wr = {.wr_id = p->id << 32 | i, .sg_list = &sg, .num_sge = 1};
		int n = p->srq != NULL ? weft_post_srq_recv(p->srq, &wr, 1)
		                       : weft_post_recv(p->r->qp[1], &wr, 1);

		if (n == 1) {
			i++;
			atomic_fetch_add(&p->posted, 1);
		} else if (n != -EAGAIN)
			return (void *)1;
		else
			usleep(20);
	}
	return NULL;
}

static void
receivers(bool with_srq)
{
	static struct receiver p[2];
	unsigned int got = 0, sent = 0, next[2] = {0};
	struct weft_srq *srq = NULL;
	pthread_t th[2];
	static struct rig r; /* a case that fails leaves the threads, which use it */
	void *bad;

	rig_open(&r);
	rig_connect(&r);
	if (with_srq) {
		struct weft_srq_attr sa = {.size = sizeof(sa), .depth = 64};
		struct sockaddr_in to = vt_addr(1, VT_PORT);
		struct weft_event ev;

		CHECK_EQ(weft_srq_create(r.pd[1], &sa, &srq), 0);
		for (unsigned int i = 0; i < 2; i++) {
			struct weft_qp_attr qa = {.size = sizeof(qa),
			                          .worker = r.w[i],
			                          .send_cq = r.cq[i],
			                          .recv_cq = r.cq[i],
			                          .srq = i == 1 ? srq : NULL,
			                          .evq = r.evq[i]};

			weft_qp_destroy(r.qp[i]);
			CHECK_EQ(weft_qp_create(r.pd[i], &qa, &r.qp[i]), 0);
		}
		CHECK_EQ(weft_connect(r.qp[0], (struct sockaddr *)&to, sizeof(to), NULL), 0);
		ev = rig_ev(&r, 1, WEFT_EV_CONNECT_REQUEST);
		CHECK_EQ(weft_accept(ev.connreq, r.qp[1], NULL), 0);
		rig_ev(&r, 1, WEFT_EV_ESTABLISHED);
		rig_ev(&r, 0, WEFT_EV_ESTABLISHED);
	}
	for (unsigned int i = 0; i < 2; i++) {
		memset(&p[i], 0, sizeof(p[i]));
		p[i].r = &r;
		p[i].id = i;
		p[i].srq = srq;
		CHECK_EQ(pthread_create(&th[i], NULL, receiver_main, &p[i]), 0);
	}
	for (unsigned int turns = 0; got < 2 * RECV_EACH; turns++) {
		static uint8_t out[16] = {7};
		struct weft_sge sg = {out, 16, 0};
		struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1};
		struct weft_wc wc[8];
		struct weft_srq_info si;
		struct weft_qp_info qi;
		unsigned int posted = atomic_load(&p[0].posted) + atomic_load(&p[1].posted);
		int n;

		/* Never more Sends than receives of which the post has returned. */
		if (srq != NULL) {
			weft_srq_query(srq, &si);
			CHECK(sent != got || si.posted >= posted - got);
		} else {
			weft_qp_query(r.qp[1], &qi);
			CHECK(sent != got || qi.rq_used >= posted - got);
		}
		if (sent == got && posted > sent) {
			int rc = weft_post_send(r.qp[0], &wr, 1);

			CHECK(rc == 1 || rc == -EAGAIN);
			sent += rc == 1;
		}
		n = weft_cq_poll(r.cq[1], wc, 8);
		CHECK(n >= 0 && turns < 100000000);
		for (int i = 0; i < n; i++) {
			unsigned int id = (unsigned int)(wc[i].wr_id >> 32);

			CHECK_EQ(wc[i].status, WEFT_WC_SUCCESS);
			/* in the order of each thread's posts */
			CHECK_EQ((uint32_t)wc[i].wr_id, next[id]++);
			CHECK_EQ(p[id].in[(uint32_t)wc[i].wr_id][0], 7);
			got++;
		}
	}
	for (unsigned int i = 0; i < 2; i++) {
		pthread_join(th[i], &bad);
		CHECK(bad == NULL);
	}
	if (srq != NULL) {
		for (unsigned int i = 0; i < 2; i++) {
			weft_qp_destroy(r.qp[i]);
			r.qp[i] = NULL;
		}
		CHECK_EQ(weft_srq_destroy(srq), 0);
	}
	rig_close(&r);
}

static void
test_receivers(void)
{
	receivers(false);
}

static void
test_srq_receivers(void)
{
	receivers(true);
}

/* ---- A receive that is posted while the worker has the frame for it ---- */

enum { TOOK_NOT, TOOK_WAIT, TOOK_ON };
static atomic_int took_state;
static const struct wire_end *took_end;

/** Node 1's worker has the frame of a Send, and has looked at the posts of other threads before. */
static void
took_send(const struct wire_end *end, struct rte_mbuf **pkts, uint16_t n)
{
	bool send = false;
	int is = TOOK_NOT;

	for (uint16_t i = 0; i < n; i++)
		send = send || rte_pktmbuf_pkt_len(pkts[i]) > 500;
	if (end != took_end || !send ||
	    !atomic_compare_exchange_strong(&took_state, &is, TOOK_WAIT))
		return;
	for (unsigned int ms = 0; ms < 10000 && atomic_load(&took_state) != TOOK_ON; ms++)
		usleep(1000);
}

static void
test_receive_behind_frame(void)
{
	static uint8_t out[512], in[512];
	static struct rig r;
	struct weft_sge so = {out, sizeof(out), 0}, si = {in, sizeof(in), 0};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &so, .num_sge = 1};
	struct weft_recv_wr rw = {.wr_id = 5, .sg_list = &si, .num_sge = 1};
	struct weft_wc wc;

	rig_open(&r);
	took_end = &r.end[1]; /* before the workers, which read it, start */
	rig_connect(&r);
	for (unsigned int i = 0; i < 8; i++) {
		memset(out, (int)i + 1, sizeof(out));
		atomic_store(&took_state, TOOK_NOT);
		atomic_store(&wire_took, took_send);
		CHECK_EQ(weft_post_send(r.qp[0], &wr, 1), 1);
		for (unsigned int ms = 0; atomic_load(&took_state) == TOOK_NOT; ms++) {
			CHECK(ms < 10000);
			usleep(1000);
		}
		CHECK_EQ(weft_post_recv(r.qp[1], &rw, 1), 1);
		atomic_store(&took_state, TOOK_ON);
		CHECK_EQ(rig_wc(&r, 1, &wc, 1), 1);
		CHECK(wc.status == WEFT_WC_SUCCESS && wc.wr_id == 5 && wc.len_bytes == 512);
		CHECK(in[0] == i + 1 && in[511] == i + 1);
		atomic_store(&wire_took, NULL);
	}
	rig_close(&r);
}

/* ---- Several sleepers on one CQ ---- */

#define SLEEPERS 2
#define SLEEPS   1500

struct sleeper {
	struct rig *r;
	atomic_uint *left;
};

static void *
sleeper_main(void *arg)
{
	struct sleeper *s = arg;
	struct pollfd p = {.fd = weft_cq_fd(s->r->cq[0]), .events = POLLIN};

	while (atomic_load(s->left) > 0) {
		struct weft_wc wc[4];
		uint64_t v;
		int n = weft_cq_poll(s->r->cq[0], wc, 4);

		if (n < 0)
			return (void *)1;
		for (int i = 0; i < n; i++)
			if (wc[i].status != WEFT_WC_SUCCESS)
				return (void *)1;
		atomic_fetch_sub(s->left, (unsigned int)n);
		if (n > 0 || weft_cq_arm(s->r->cq[0], false) == 1)
			continue;
		/* The wake-up is for one of the sleepers. The others check again after a
		 * timeout. */
		if (poll(&p, 1, 20) == 1 && read(p.fd, &v, 8) < 0 && errno != EAGAIN)
			return (void *)1;
	}
	return NULL;
}

static void
test_sleepers(void)
{
	atomic_uint left = SLEEPS;
	struct sleeper s;
	pthread_t th[SLEEPERS];
	unsigned int posted = 0;
	struct rig r;
	void *bad;

	rig_open(&r);
	rig_connect(&r);
	s = (struct sleeper){&r, &left};
	for (unsigned int i = 0; i < SLEEPERS; i++)
		CHECK_EQ(pthread_create(&th[i], NULL, sleeper_main, &s), 0);
	while (posted < SLEEPS) {
		struct weft_sge sg = {r.mem[0], 64, 0};
		struct weft_wr wr = {.opcode = WEFT_WR_WRITE,
		                     .flags = WEFT_WR_SIGNALED,
		                     .sg_list = &sg,
		                     .num_sge = 1,
		                     .rdma = {weft_mr_stag(r.mr[1]), 0}};
		int rc = weft_post_send(r.qp[0], &wr, 1);

		CHECK(rc == 1 || rc == -EAGAIN);
		posted += rc == 1;
		if (posted % 16 == 0)
			usleep(100);
	}
	for (unsigned int i = 0; i < SLEEPERS; i++) {
		pthread_join(th[i], &bad);
		CHECK(bad == NULL);
	}
	CHECK_EQ(atomic_load(&left), 0);
	rig_close(&r);
}

/* ---- Rights narrowed under load, as after a SIGHUP ---- */

static atomic_uint reduced;

static void
on_revoke(void *user, const struct weft_revoke *rc)
{
	(void)user;
	if (rc->step == WEFT_REVOKE_REDUCED)
		atomic_fetch_add(&reduced, 1);
}

/** The region that a peer writes to becomes shorter and shorter. The peer still writes the
 * remaining part. */
static void
test_narrow(void)
{
	struct weft_mr_attr ma = {
	        .size = sizeof(ma), .len_bytes = 1 << 20, .access = WEFT_ACCESS_REMOTE_WRITE};
	struct weft_revoke_attr ra = {
	        .size = sizeof(ra), .on_revoke = on_revoke, .access = WEFT_ACCESS_REMOTE_WRITE};
	struct weft_mr_info info;
	struct weft_mr *mr;
	struct load l;
	struct rig r;

	atomic_store(&reduced, 0);
	rig_open(&r);
	rig_connect(&r);
	ma.addr = r.mem[1];
	CHECK_EQ(weft_mr_reg(r.pd[1], &ma, &mr), 0);
	load_start(&l, &r, weft_mr_stag(mr), 0);
	for (unsigned int i = 0; i < 9; i++) {
		ra.len_bytes = (1 << 20) >> (i + 1);
		ra.worker = i % 2 == 0 ? r.w[1] : NULL;
		load_turn(&l, 20);
		CHECK_EQ(weft_mr_revoke(mr, &ra), 0);
		for (unsigned int k = 0; k < 200000 && atomic_load(&reduced) <= i; k++) {
			weft_mr_query(mr, &info);
			CHECK(info.valid && info.len_bytes >= ra.len_bytes);
			usleep(50);
		}
		CHECK_EQ(atomic_load(&reduced), i + 1);
		weft_mr_query(mr, &info);
		CHECK_EQ(info.len_bytes, ra.len_bytes);
	}
	load_turn(&l, 20);
	load_stop(&l);
	weft_mr_dereg(mr, NULL, NULL);
	rig_close(&r);
}

/* ---- Queries ---- */

/** Every query, from a thread of its own, while both workers are busy. */
static void
test_queries(void)
{
	static struct weft_poll_hist hist;
	uint64_t sent = 0, polls = 0;
	struct load l;
	struct rig r;

	rig_open(&r);
	rig_connect(&r);
	load_start(&l, &r, weft_mr_stag(r.mr[1]), WEFT_FLUSH_VISIBLE);
	load_turn(&l, 1);
	for (unsigned int i = 0; i < 300; i++) {
		struct weft_worker_stats ws;
		struct weft_qp_info qi;
		struct weft_cq_info ci;
		struct weft_pd_info pi;
		struct weft_ctx_info xi;
		struct weft_mr_info mi;

		for (unsigned int k = 0; k < 2; k++) {
			weft_qp_query(r.qp[k], &qi);
			CHECK_EQ(qi.state, WEFT_QP_RTS);
			CHECK(qi.mpa.rev == 2 && !qi.terminated && qi.srtt_us < 60000000);
			if (k == 0) {
				CHECK(qi.sent_msgs >= sent);
				sent = qi.sent_msgs;
			}
			weft_cq_query(r.cq[k], &ci);
			weft_pd_query(r.pd[k], &pi);
			CHECK_EQ(pi.qps, 1);
			weft_ctx_query(r.ctx[k], &xi);
			CHECK_EQ(xi.workers, 1);
			weft_mr_query(r.mr[k], &mi);
			CHECK(mi.valid);
			weft_worker_stats(r.w[k], &ws);
			CHECK_EQ(ws.conns, 1);
			hist.size = sizeof(hist);
			CHECK_EQ(weft_worker_poll_hist(r.w[k], &hist), 0);
			CHECK(hist.max_ns > 0);
		}
		CHECK(ws.polls >= polls);
		polls = ws.polls;
		if (i % 10 == 0)
			load_turn(&l, 1);
	}
	load_stop(&l);
	rig_close(&r);
}

struct asker {
	struct weft_qp *qp;
	bool stop;          /**< atomic */
	unsigned int asked; /**< atomic */
	unsigned int torn;
	struct weft_qp_info last;
};

/** Wait until n queries have begun and ended, however seldom the thread runs. */
static void
ask_more(const struct asker *a, unsigned int n)
{
	unsigned int till = __atomic_load_n(&a->asked, __ATOMIC_ACQUIRE) + n + 1;

	while (__atomic_load_n(&a->asked, __ATOMIC_ACQUIRE) < till)
		usleep(100);
}

/** Query again and again. Each answer has no results yet, all negotiated values, or the reason of
 * the end. */
static void *
ask_main(void *arg)
{
	struct asker *a = arg;

	while (!__atomic_load_n(&a->stop, __ATOMIC_ACQUIRE)) {
		const struct weft_terminate *t = &a->last.term;

		weft_qp_query(a->qp, &a->last);
		__atomic_fetch_add(&a->asked, 1, __ATOMIC_RELEASE);
		if (a->last.mpa.rev == 0)
			a->torn += a->last.mpa.crc || a->last.ird != 32 || a->last.ord != 32;
		else
			a->torn += !a->last.mpa.crc || a->last.ird != 32 || a->last.ord != 8 ||
			           a->last.remote.ss_family != AF_INET;
		/* tagged buffer error: invalid STag */
		a->torn += a->last.terminated && (t->layer != 1 || t->etype != 1 || t->code != 0);
	}
	return NULL;
}

/** Another thread queries a QP during its whole life: connected, negotiated, ended by a
 * Terminate. */
static void
test_queries_of_a_life(void)
{
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_sge sg = {.len_bytes = 8};
	struct weft_wr wr = {.opcode = WEFT_WR_WRITE,
	                     .sg_list = &sg,
	                     .num_sge = 1,
	                     .rdma = {.stag = 0xdeadbe00}};
	struct asker a = {.asked = 0};
	struct weft_qp_attr qa;
	struct weft_event ev;
	pthread_t t;
	struct rig r;

	rig_open(&r);
	la.evq = r.evq[1];
	CHECK_EQ(weft_listen(r.ctx[1], (struct sockaddr *)&sa, sizeof(sa), &la, &r.lsn), 0);
	for (unsigned int i = 0; i < 2; i++) {
		CHECK_EQ(weft_worker_start(r.w[i]), 0);
		qa = (struct weft_qp_attr){.size = sizeof(qa),
		                           .worker = r.w[i],
		                           .send_cq = r.cq[i],
		                           .recv_cq = r.cq[i],
		                           .evq = r.evq[i],
		                           .ird = i == 0 ? 32 : 8,
		                           .ord = i == 0 ? 32 : 16};
		CHECK_EQ(weft_qp_create(r.pd[i], &qa, &r.qp[i]), 0);
	}
	a.qp = r.qp[0];
	CHECK_EQ(pthread_create(&t, NULL, ask_main, &a), 0);
	CHECK_EQ(weft_connect(r.qp[0], (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
	ev = rig_ev(&r, 1, WEFT_EV_CONNECT_REQUEST);
	CHECK_EQ(weft_accept(ev.connreq, r.qp[1], NULL), 0);
	rig_ev(&r, 1, WEFT_EV_ESTABLISHED);
	rig_ev(&r, 0, WEFT_EV_ESTABLISHED);
	ask_more(&a, 10);
	sg.addr = r.mem[0];
	CHECK_EQ(weft_post_send(r.qp[0], &wr, 1), 1);
	rig_ev(&r, 0, WEFT_EV_TERMINATED);
	ask_more(&a, 10);
	__atomic_store_n(&a.stop, true, __ATOMIC_RELEASE);
	pthread_join(t, NULL);
	CHECK_EQ(a.torn, 0);
	CHECK(a.last.terminated && !a.last.term.ours);
	rig_close(&r);
}

/* ---- Flushes on helper threads ---- */

static void
test_helpers(void)
{
	struct weft_persist_attr pa = {
	        .size = sizeof(pa), .driver = "file", .create = true, .numa_node = -1};
	struct weft_persist *persist;
	struct weft_mr *mr;
	char path[64];
	struct load l;
	struct rig r;

	rig_open(&r);
	rig_connect(&r);
	snprintf(path, sizeof(path), "/tmp/weft-mt-%ld", (long)getpid());
	pa.path = path;
	pa.bytes = 1 << 16;
	CHECK_EQ(weft_persist_open(&pa, &persist), 0);
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .addr = persist->base,
	                          .len_bytes = 1 << 16,
	                          .persist = persist,
	                          .access =
	                                  WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_FLUSH_PERSISTENT};
	CHECK_EQ(weft_mr_reg(r.pd[1], &ma, &mr), 0);
	load_start(&l, &r, weft_mr_stag(mr), WEFT_FLUSH_PERSISTENT);
	load_turn(&l, 40);
	load_stop(&l);
	/* Flushes are outstanding when the QP is destroyed. */
	for (unsigned int i = 0; i < 8; i++) {
		struct weft_sge sg = {r.mem[0], 512, 0};
		struct weft_wr wr[2] = {
		        {.opcode = WEFT_WR_WRITE,
		         .sg_list = &sg,
		         .num_sge = 1,
		         .rdma = {weft_mr_stag(mr), 4096 * i}},
		        {.opcode = WEFT_WR_FLUSH,
		         .flush = {weft_mr_stag(mr), 4096 * i, 512, WEFT_FLUSH_PERSISTENT}}};

		CHECK_EQ(weft_post_send(r.qp[0], wr, 2), 2);
	}
	usleep(300);
	weft_qp_destroy(r.qp[1]);
	r.qp[1] = NULL;
	weft_mr_dereg(mr, NULL, NULL);
	rig_close(&r);
	weft_persist_close(persist);
	unlink(path); /* only now: Flushes of a removed file fail */
}

/* ---- Callbacks of objects that another thread destroys ---- */

#define CALLBACK_ROUNDS 12

struct called {
	atomic_uint wcs, events;
};

static void
on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	(void)cq;
	(void)wc;
	atomic_fetch_add(&((struct called *)user)->wcs, n);
}

static void
on_event(void *user, const struct weft_event *ev)
{
	(void)ev;
	atomic_fetch_add(&((struct called *)user)->events, 1);
}

static void
passed(void *arg)
{
	atomic_store((atomic_bool *)arg, true);
}

/** QP, CQ and event queue are destroyed while their callbacks run. After a call to the worker none
 * of their callbacks runs any more. */
static void
test_callbacks(void)
{
	struct rig r;

	rig_open(&r);
	rig_connect(&r);
	for (unsigned int round = 0; round < CALLBACK_ROUNDS; round++) {
		struct called c = {0};
		struct weft_cq_attr ca = {
		        .size = sizeof(ca), .depth = 1024, .on_wc = on_wc, .user = &c};
		struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = on_event, .user = &c};
		struct weft_qp_attr qa = {
		        .size = sizeof(qa), .worker = r.w[0], .all_signaled = true};
		struct sockaddr_in sa = vt_addr(1, VT_PORT);
		struct weft_qp *qp, *other;
		atomic_bool fence = false;
		struct weft_event ev;
		unsigned int wcs;

		CHECK_EQ(weft_cq_create(r.ctx[0], &ca, &qa.send_cq), 0);
		qa.recv_cq = qa.send_cq;
		CHECK_EQ(weft_evq_create(r.ctx[0], &ea, &qa.evq), 0);
		CHECK_EQ(weft_qp_create(r.pd[0], &qa, &qp), 0);
		CHECK_EQ(weft_connect(qp, (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
		ev = rig_ev(&r, 1, WEFT_EV_CONNECT_REQUEST);
		{
			struct weft_qp_attr oa = {.size = sizeof(oa),
			                          .worker = r.w[1],
			                          .send_cq = r.cq[1],
			                          .recv_cq = r.cq[1],
			                          .evq = r.evq[1]};

			CHECK_EQ(weft_qp_create(r.pd[1], &oa, &other), 0);
		}
		CHECK_EQ(weft_accept(ev.connreq, other, NULL), 0);
		rig_ev(&r, 1, WEFT_EV_ESTABLISHED);
		while (atomic_load(&c.events) == 0)
			usleep(20);
		for (unsigned int i = 0; i < 200; i++) {
			struct weft_sge sg = {r.mem[0], 256, 0};
			struct weft_wr wr = {.opcode = WEFT_WR_WRITE,
			                     .sg_list = &sg,
			                     .num_sge = 1,
			                     .rdma = {weft_mr_stag(r.mr[1]), 0}};

			(void)weft_post_send(qp, &wr, 1);
		}
		usleep(round * 50);
		weft_qp_destroy(qp);
		CHECK_EQ(weft_cq_destroy(qa.send_cq), 0);
		CHECK_EQ(weft_evq_destroy(qa.evq), 0);
		CHECK_EQ(weft_worker_call(r.w[0], passed, &fence), 0);
		while (!atomic_load(&fence))
			usleep(20);
		wcs = atomic_load(&c.wcs);
		usleep(200);
		CHECK_EQ(atomic_load(&c.wcs), wcs);
		weft_qp_destroy(other);
	}
	rig_close(&r);
}

WEFT_TEST_MAIN({"events while their queue is polled", test_events},
               {"listeners that come and go", test_listeners},
               {"receives posted by two threads", test_receivers},
               {"receives of an SRQ posted by two threads", test_srq_receivers},
               {"a receive posted behind its frame", test_receive_behind_frame},
               {"two sleepers on one CQ", test_sleepers},
               {"a region narrowed under load", test_narrow}, {"queries under load", test_queries},
               {"queries of a life", test_queries_of_a_life}, {"flushes by helpers", test_helpers},
               {"callbacks of what is destroyed elsewhere", test_callbacks})
