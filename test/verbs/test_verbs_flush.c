/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Whatever requests are outstanding and however the stream ends, every request and every
 * receive completes exactly once and in order. After an error no request succeeds (RFC 5040 s6.2,
 * s7).
 */

#include <pthread.h>

#include "cm_conn.h"
#include "vt.h"

#define RIGHTS                                                                                     \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_FLUSH_VISIBLE)
#define LEN  (1 << 20)
#define MAXN 32

enum what {
	WRITES,   /**< some are sent, some are not */
	READS,    /**< two are sent, the others wait for ORD */
	MIXED,    /**< a Write is done behind an outstanding Read; a fence follows */
	FENCED,   /**< Sends that wait for a Read */
	RECEIVES, /**< one of them is partly filled */
	EVERYTHING,
	NOTHING,
	NWHATS
};

enum way {
	PEER_RST,
	PEER_FIN_MID_MESSAGE,
	PEER_CLOSES,
	TERMINATE_RECEIVED,
	TERMINATE_SENT,
	ABORTED,
	DISCONNECTED,
	CQ_OVERRUN, /**< the CQ has room for two of the sends */
	NETWORK_GONE,
	DESTROYED,
	DESTROYED_IN_WC,
	DESTROYED_IN_EVENT,
	DESTROYED_ELSEWHERE,
	NWAYS
};

static const char *const what_names[] = {"writes",   "reads",      "mixed",  "fenced",
                                         "receives", "everything", "nothing"};
static const char *const way_names[] = {"peer's RST",
                                        "peer's FIN",
                                        "peer closes",
                                        "Terminate received",
                                        "Terminate sent",
                                        "aborted",
                                        "disconnected",
                                        "cq overrun",
                                        "network gone",
                                        "destroyed",
                                        "destroyed in a completion",
                                        "destroyed in an event",
                                        "destroyed elsewhere"};

struct rec {
	unsigned int n;
	uint64_t id[MAXN];
	enum weft_wc_status status[MAXN];
};

struct flush_rig {
	struct vt t;
	struct weft_cq *cq[2]; /**< of node 0: for sends and receives, with callbacks */
	struct weft_evq *evq;  /**< of node 0, with a callback */
	enum way way;
	struct rec rec[2];
	unsigned int sends, recvs;
	unsigned int downs; /**< DISCONNECTED events */
	unsigned int overruns, lost;
};

static void
destroy_here(struct flush_rig *r)
{
	struct weft_qp *qp = r->t.n[0].qp;

	r->t.n[0].qp = NULL;
	if (qp != NULL)
		weft_qp_destroy(qp);
}

static void
on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	struct flush_rig *r = user;
	struct rec *rec = &r->rec[cq == r->cq[1]];

	for (unsigned int i = 0; i < n; i++) {
		CHECK(rec->n < MAXN);
		rec->id[rec->n] = wc[i].wr_id;
		rec->status[rec->n++] = wc[i].status;
		if (r->way == DESTROYED_IN_WC && wc[i].status != WEFT_WC_SUCCESS)
			destroy_here(r);
	}
}

static void
on_event(void *user, const struct weft_event *ev)
{
	struct flush_rig *r = user;

	r->downs += ev->type == WEFT_EV_DISCONNECTED;
	r->overruns += ev->type == WEFT_EV_CQ_OVERRUN;
	if (r->way == DESTROYED_IN_EVENT && ev->type != WEFT_EV_ESTABLISHED)
		destroy_here(r);
}

/** Poll the CQs without a callback. */
static void
drain(struct flush_rig *r)
{
	struct weft_wc wc;
	int n;

	for (unsigned int i = 0; i < 2 && r->way == CQ_OVERRUN; i++)
		while ((n = weft_cq_poll(r->cq[i], &wc, 1)) != 0) {
			r->lost += n < 0;
			if (n > 0)
				on_wc(r, r->cq[i], &wc, 1);
		}
}

static void
rig_open(struct flush_rig *r, enum way way)
{
	struct weft_cq_attr qa = {.size = sizeof(qa), .depth = 64, .on_wc = on_wc, .user = r};
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = on_event, .user = r};
	struct vt_attr va = {.link.rate_bps = 1000000000};
	struct weft_conn_attr ca = {.size = sizeof(ca), .keepalive_us = 1000000};
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_qp_attr a;
	struct weft_event ev;

	memset(r, 0, sizeof(*r));
	r->way = way;
	if (way == CQ_OVERRUN) {
		qa.depth = 2;
		qa.on_wc = NULL;
	}
	vt_open(&r->t, &va);
	for (unsigned int i = 0; i < 2; i++) {
		CHECK_EQ(weft_cq_create(r->t.n[0].ctx, &qa, &r->cq[i]), 0);
		vt_mem(&r->t.n[i], LEN, RIGHTS);
	}
	CHECK_EQ(weft_evq_create(r->t.n[0].ctx, &ea, &r->evq), 0);
	vt_listen(&r->t.n[1]);
	a = vt_qp_attr(&r->t.n[0]);
	a.send_cq = r->cq[0];
	a.recv_cq = r->cq[1];
	a.evq = r->evq;
	a.ord = 2;
	a.all_signaled = true;
	CHECK_EQ(weft_qp_create(r->t.n[0].pd, &a, &r->t.n[0].qp), 0);
	a = vt_qp_attr(&r->t.n[1]);
	CHECK_EQ(weft_qp_create(r->t.n[1].pd, &a, &r->t.n[1].qp), 0);
	CHECK_EQ(weft_connect(r->t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), &ca), 0);
	ev = vt_ev(&r->t.n[1], WEFT_EV_CONNECT_REQUEST);
	CHECK_EQ(weft_accept(ev.connreq, r->t.n[1].qp, NULL), 0);
	vt_ev(&r->t.n[1], WEFT_EV_ESTABLISHED);
	vt_run(&r->t, VT_MS);
	/* the responder may send after the initiator's first FPDU (RFC 5044 s7.1.2) */
	CHECK_EQ(weft_post_send(r->t.n[0].qp,
	                        &(struct weft_wr){.opcode = WEFT_WR_WRITE,
	                                          .rdma.stag = weft_mr_stag(r->t.n[1].mr)},
	                        1),
	         1);
	vt_run(&r->t, VT_MS);
	drain(r);
	CHECK_EQ(r->rec[0].n, 1);
	r->rec[0].n = 0;
}

static void
send_one(struct flush_rig *r, enum weft_wr_opcode op, uint32_t len, uint32_t flags)
{
	struct weft_sge sg = {r->t.n[0].mem, len,
	                      op == WEFT_WR_READ ? weft_mr_stag(r->t.n[0].mr) : 0};
	struct weft_wr wr = {.wr_id = r->sends++, .opcode = op, .flags = flags};

	if (op == WEFT_WR_FLUSH) {
		wr.flush.stag = weft_mr_stag(r->t.n[1].mr);
		wr.flush.to = 0x200000000ULL;
		wr.flush.len_bytes = len;
		wr.flush.flags = WEFT_FLUSH_VISIBLE;
	} else {
		wr.sg_list = &sg;
		wr.num_sge = 1;
	}
	if (op == WEFT_WR_WRITE || op == WEFT_WR_READ)
		wr.rdma.stag = weft_mr_stag(r->t.n[1].mr), wr.rdma.to = 0x200000000ULL;
	vt_post(&r->t.n[0], &wr);
}

static void
outstanding(struct flush_rig *r, enum what what)
{
	static uint8_t in[LEN];

	if (what == RECEIVES || what == EVERYTHING) {
		struct weft_sge sg = {r->t.n[1].mem, 300000, 0};
		struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1};

		for (unsigned int i = 0; i < 4; i++)
			vt_post_recv(&r->t.n[0], in, LEN, r->recvs++);
		vt_post(&r->t.n[1], &wr);
	}
	if (what == MIXED || what == EVERYTHING) {
		send_one(r, WEFT_WR_READ, 200000, 0);
		send_one(r, WEFT_WR_WRITE, 100, 0); /* done at once */
		send_one(r, WEFT_WR_FLUSH, 100, WEFT_WR_FENCE);
		send_one(r, WEFT_WR_WRITE, 100, 0);
	}
	if (what == READS || what == EVERYTHING)
		for (unsigned int i = 0; i < 5; i++)
			send_one(r, WEFT_WR_READ, 100000, 0);
	if (what == FENCED || what == EVERYTHING) {
		send_one(r, WEFT_WR_READ, 300000, 0);
		for (unsigned int i = 0; i < 3; i++)
			send_one(r, WEFT_WR_WRITE, 10, WEFT_WR_FENCE);
	}
	if (what == WRITES || what == EVERYTHING)
		for (unsigned int i = 0; i < 6; i++)
			send_one(r, WEFT_WR_WRITE, 300000, 0);
}

static void *
destroy_main(void *arg)
{
	weft_qp_destroy(arg);
	return NULL;
}

static void
die(struct flush_rig *r)
{
	static const struct weft_term term = {.layer = 0, .etype = 2, .code = 7};
	struct weft_qp *own = r->t.n[0].qp, *peer = r->t.n[1].qp;
	uint64_t now = sim_now_ns(r->t.sim);
	pthread_t th;

	switch (r->way) {
	case PEER_RST:
		weft_qp_destroy(peer);
		r->t.n[1].qp = NULL;
		break;
	case PEER_FIN_MID_MESSAGE:
		weft_tcp_close(peer->conn->tcp, now);
		break;
	case PEER_CLOSES:
		CHECK_EQ(weft_disconnect(peer), 0);
		break;
	case TERMINATE_RECEIVED:
		weft_rdmap_terminate(peer->rdmap, &term, now);
		break;
	case TERMINATE_SENT:
		weft_rdmap_terminate(own->rdmap, &term, now);
		break;
	case ABORTED:
	case DESTROYED_IN_WC:
	case DESTROYED_IN_EVENT:
		weft_verbs_qp_abort_later(own);
		break;
	case DISCONNECTED:
		CHECK_EQ(weft_disconnect(own), 0);
		break;
	case NETWORK_GONE:
		sim_link_set(r->t.link, 0,
		             &(struct sim_link_cfg){.delay_ns = 20000, .loss_ppm = 1000000});
		sim_link_set(r->t.link, 1,
		             &(struct sim_link_cfg){.delay_ns = 20000, .loss_ppm = 1000000});
		break;
	case DESTROYED:
		destroy_here(r);
		break;
	case DESTROYED_ELSEWHERE:
		r->t.n[0].qp = NULL;
		CHECK_EQ(pthread_create(&th, NULL, destroy_main, own), 0);
		pthread_join(th, NULL);
		break;
	case CQ_OVERRUN: /* happens by itself */
	case NWAYS:
		break;
	}
}

static void
check_rec(const struct rec *rec, unsigned int want, const char *queue, const char *what,
          const char *way)
{
	bool failed = false;

	CHECK_MSG(rec->n == want, "%s, %s, %s: %u of %u completions", what, way, queue, rec->n,
	          want);
	for (unsigned int i = 0; i < rec->n; i++) {
		CHECK_MSG(rec->id[i] == i, "%s, %s, %s: completion %u is of request %u", what, way,
		          queue, i, (unsigned int)rec->id[i]);
		CHECK_MSG(!failed || rec->status[i] == WEFT_WC_FLUSHED,
		          "%s, %s, %s: completion %u behind an error: %s", what, way, queue, i,
		          weft_wc_status_str(rec->status[i]));
		failed |= rec->status[i] != WEFT_WC_SUCCESS;
	}
}

static void
run_one(enum what what, enum way way, uint64_t after_ns)
{
	struct flush_rig r;
	unsigned int had[2];

	rig_open(&r, way);
	outstanding(&r, what);
	vt_run(&r.t, after_ns);
	had[0] = r.rec[0].n;
	had[1] = r.rec[1].n;
	die(&r);
	vt_run(&r.t, 2000 * VT_S);
	drain(&r);
	if (way == CQ_OVERRUN) {
		/* two completions, then an event reports the overrun */
		check_rec(&r.rec[0], 2, "sends", what_names[what], way_names[way]);
		CHECK_EQ(r.overruns, 1);
		CHECK(r.lost >= 1); /* once for each queue */
	} else if (way == DESTROYED_ELSEWHERE) {
		/* All requests are dropped without completions. */
		CHECK_EQ(r.rec[0].n, had[0]);
		CHECK_EQ(r.rec[1].n, had[1]);
	} else {
		check_rec(&r.rec[0], r.sends, "sends", what_names[what], way_names[way]);
		check_rec(&r.rec[1], r.recvs, "receives", what_names[what], way_names[way]);
		/* If nothing was outstanding, nothing fails. After an orderly close, all requests
		 * that can be done succeed. */
		if (way == DISCONNECTED)
			for (unsigned int i = 0; i < r.sends; i++)
				CHECK_MSG(r.rec[0].status[i] == WEFT_WC_SUCCESS, "%s: request %u",
				          what_names[what], i);
	}
	if (r.t.n[0].qp != NULL) {
		CHECK_MSG(r.downs == 1, "%s, %s: %u last events", what_names[what], way_names[way],
		          r.downs);
		CHECK_EQ(r.t.n[0].qp->sq_head, r.t.n[0].qp->sq_tail);
		/* a request that is posted now completes as flushed, too */
		struct weft_recv_wr rr = {.wr_id = r.recvs++};
		send_one(&r, WEFT_WR_WRITE, 0, 0);
		CHECK_EQ(weft_post_recv(r.t.n[0].qp, &rr, 1), 1);
		vt_run(&r.t, VT_MS);
		drain(&r);
		if (way != CQ_OVERRUN) {
			check_rec(&r.rec[0], r.sends, "sends", what_names[what], way_names[way]);
			check_rec(&r.rec[1], r.recvs, "receives", what_names[what], way_names[way]);
		}
		CHECK_EQ(r.rec[0].id[r.rec[0].n - 1], r.sends - 1);
		CHECK_EQ(r.rec[0].status[r.rec[0].n - 1], WEFT_WC_FLUSHED);
		destroy_here(&r);
	}
	vt_run(&r.t, VT_S);
	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(weft_cq_destroy(r.cq[i]), 0);
	CHECK_EQ(weft_evq_destroy(r.evq), 0);
	if (way == NETWORK_GONE)
		for (unsigned int i = 0; i < 2; i++)
			sim_link_set(r.t.link, i, &(struct sim_link_cfg){.delay_ns = 20000});
	vt_close(&r.t);
}

static void
test_table(void)
{
	/* from "just posted" to "mostly done" */
	static const uint64_t after_ns[] = {0, 300000, 3000000};

	for (unsigned int what = 0; what < NWHATS; what++)
		for (unsigned int way = 0; way < NWAYS; way++)
			for (unsigned int k = 0; k < RTE_DIM(after_ns); k++) {
				if (way == CQ_OVERRUN && (what == RECEIVES || what == NOTHING))
					continue; /* too few completions */
				run_one((enum what)what, (enum way)way, after_ns[k]);
			}
}

/* ---- Completions that find no room when the QP is destroyed ---- */

struct lost {
	struct weft_cq *cq;
	unsigned int wcs, events;
};

static void
lost_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	struct lost *l = user;

	(void)cq;
	(void)wc;
	l->wcs += n;
}

static void
lost_event(void *user, const struct weft_event *ev)
{
	struct lost *l = user;

	CHECK_EQ(ev->type, WEFT_EV_CQ_OVERRUN);
	CHECK(ev->qp == NULL && ev->cq == l->cq && ev->user == l && ev->status == -EOVERFLOW);
	l->events++;
}

/** Ten receives are flushed into a CQ of four. An event reports the overrun once, to an event queue
 * with a callback and to one that is polled. */
static void
test_lost_at_destroy(void)
{
	for (unsigned int how = 0; how < 3; how++) {
		bool polled = how > 0, cq_goes = how == 2;
		struct lost l = {0};
		struct weft_cq_attr ca = {
		        .size = sizeof(ca), .depth = 4, .on_wc = lost_wc, .user = &l};
		struct weft_evq_attr ea = {
		        .size = sizeof(ea), .on_event = polled ? NULL : lost_event, .user = &l};
		struct weft_cq_info info;
		struct weft_qp_attr qa;
		struct weft_event ev;
		struct weft_evq *evq;
		struct weft_qp *qp;
		uint8_t buf[8];
		struct vt t;

		vt_open(&t, NULL);
		CHECK_EQ(weft_cq_create(t.n[0].ctx, &ca, &l.cq), 0);
		CHECK_EQ(weft_evq_create(t.n[0].ctx, &ea, &evq), 0);
		qa = vt_qp_attr(&t.n[0]);
		qa.send_cq = qa.recv_cq = l.cq;
		qa.evq = evq;
		CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &qp), 0);
		vt_run(&t, VT_MS);
		for (uint64_t i = 0; i < 10; i++) {
			struct weft_sge sg = {.addr = buf, .len_bytes = sizeof(buf)};
			struct weft_recv_wr r = {.wr_id = i, .sg_list = &sg, .num_sge = 1};

			CHECK_EQ(weft_post_recv(qp, &r, 1), 1);
		}
		weft_qp_destroy(qp);
		weft_cq_query(l.cq, &info);
		CHECK_EQ(info.overruns, 6);
		/* No events of a destroyed CQ are delivered. */
		if (cq_goes)
			CHECK_EQ(weft_cq_destroy(l.cq), 0);
		vt_run(&t, VT_MS);
		if (polled && !cq_goes) {
			CHECK_EQ(weft_evq_poll(evq, &ev), 1);
			lost_event(&l, &ev);
		}
		if (polled)
			CHECK_EQ(weft_evq_poll(evq, &ev), 0);
		CHECK_EQ(l.wcs, cq_goes ? 0 : 4);
		CHECK_EQ(l.events, cq_goes ? 0 : 1);
		/* Completions that are not polled are freed with the context. */
		if (!cq_goes && !polled)
			CHECK_EQ(weft_cq_destroy(l.cq), 0);
		if (!polled)
			CHECK_EQ(weft_evq_destroy(evq), 0);
		vt_close(&t);
	}
}

WEFT_TEST_MAIN({"what is outstanding x how the stream dies", test_table},
               {"no room when the QP is destroyed", test_lost_at_destroy})
