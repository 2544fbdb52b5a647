/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Start-up against a peer that builds its MPA frames in the test. So the peer can send frames that
 * weft's verbs never send (RFC 6581 section 9.1).
 */

#include <arpa/inet.h>

#include "vt.h"
#include "weft_mpa.h"
#include "weft_rdmap.h"
#include "weft_mpa_frame.h"
#include "weft_mpa_startup.h"

/** The peer: an MPA stream on node 1 (responder) or node 0 (initiator), with no layer above. */
struct peer {
	struct weft_mpa mpa;
	struct weft_sched *sched;
	struct weft_mpa_frame got;
	uint16_t ird, ord; /**< depths of its Reply */
	bool answered, closed, reject;
	int err;
	unsigned int ulpdus;
	uint8_t term[64]; /**< the first ULPDU */
	uint32_t term_bytes;
	struct weft_tcp_conn *conn;
	uint16_t req_ird, req_ord;
	/** initiator: offers these RTRs in the peer-to-peer model; responder: accepts these */
	uint8_t rtr;
	bool fin; /**< close after its Reply */
};

static void
peer_request(void *user, const struct weft_mpa_frame *req)
{
	struct peer *p = user;
	const struct weft_mpa_opts opts = {.rtr = p->rtr};

	p->got = *req;
	p->answered = true;
	if (p->reject) {
		CHECK_EQ(weft_mpa_reject(&p->mpa, p->ird, p->ord, "no", 2, p->sched->now_ns), 0);
		weft_mpa_await_fin(&p->mpa, p->sched->now_ns);
		return;
	}
	weft_mpa_set_opts(&p->mpa, &opts);
	CHECK_EQ(weft_mpa_accept(&p->mpa, p->ird, p->ord, NULL, 0, p->sched->now_ns), 0);
	if (p->fin)
		weft_mpa_close(&p->mpa, p->sched->now_ns);
}

static void
peer_reply(void *user, const struct weft_mpa_frame *rep)
{
	struct peer *p = user;

	p->got = *rep;
	p->answered = true;
}

static void
peer_ulpdu(void *user, const struct weft_frag *frag, unsigned int nfrags, uint32_t len_bytes,
           uint64_t now_ns)
{
	struct peer *p = user;
	struct weft_cur c;

	(void)now_ns;
	if (p->ulpdus++ > 0)
		return;
	weft_cur_init(&c, frag, nfrags);
	p->term_bytes = len_bytes < sizeof(p->term) ? len_bytes : (uint32_t)sizeof(p->term);
	CHECK_EQ(weft_cur_read(&c, p->term, p->term_bytes), 0);
}

static void
peer_nothing(void *user)
{
	(void)user;
}

static void
peer_mulpdu(void *user, uint16_t mulpdu)
{
	(void)user;
	(void)mulpdu;
}

static void
peer_fault(void *user, const struct weft_term *t)
{
	(void)user;
	(void)t;
}

static void
peer_eof(void *user)
{
	struct peer *p = user;

	weft_mpa_close(&p->mpa, p->sched->now_ns);
}

static void
peer_closed(void *user, int err)
{
	struct peer *p = user;

	p->closed = true;
	p->err = err;
}

static const struct weft_mpa_ops peer_ops = {
        .request = peer_request,
        .reply = peer_reply,
        .ulpdu = peer_ulpdu,
        .writable = peer_nothing,
        .mulpdu = peer_mulpdu,
        .fault = peer_fault,
        .eof = peer_eof,
        .closed = peer_closed,
};

static int
peer_accept(void *arg, struct weft_tcp_conn *c)
{
	struct peer *p = arg;

	return weft_mpa_respond(&p->mpa, c, p->sched, 0, &peer_ops, p, p->sched->now_ns);
}

static void
peer_listens(struct vt *t, struct peer *p)
{
	struct weft_ip any = {{0}};
	struct weft_tcp_listener *l;

	p->sched = inside_sched(t->n[1].w);
	CHECK_EQ(weft_tcp_listen(weft_engine_tcp(t->n[1].w), &any, 128, VT_PORT, 8, peer_accept, p,
	                         &l),
	         0);
}

/** weft's initiator against the peer's Reply. */
static void
initiate(struct vt *t, struct peer *p, uint16_t ird, uint16_t ord, uint16_t peer_ird,
         uint16_t peer_ord)
{
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_qp_attr qa;

	memset(p, 0, sizeof(*p));
	vt_open(t, NULL);
	p->ird = peer_ird;
	p->ord = peer_ord;
	peer_listens(t, p);
	qa = vt_qp_attr(&t->n[0]);
	qa.ird = ird;
	qa.ord = ord;
	CHECK_EQ(weft_qp_create(t->n[0].pd, &qa, &t->n[0].qp), 0);
	CHECK_EQ(weft_connect(t->n[0].qp, (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
}

static void
peer_end(struct vt *t, struct peer *p)
{
	if (!p->closed)
		weft_mpa_abort(&p->mpa, p->sched->now_ns);
	weft_mpa_fini(&p->mpa);
	vt_close(t);
}

static void
test_ird_too_small(void)
{
	struct weft_event ev;
	struct peer p;
	struct vt t;

	initiate(&t, &p, 8, 8, 8, 9);
	ev = vt_ev(&t.n[0], WEFT_EV_ESTABLISHED);
	CHECK_EQ(ev.ord, 9);
	ev = vt_ev(&t.n[0], WEFT_EV_TERMINATED);
	CHECK(ev.term.ours);
	CHECK_EQ(ev.term.layer, 2);
	CHECK_EQ(ev.term.etype, 0);
	CHECK_EQ(ev.term.code, 6);
	vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
	/* on the wire: untagged, QN 2, opcode Terminate, then layer/type and code */
	CHECK_EQ(p.got.ird, 8);
	CHECK_EQ(p.ulpdus, 1);
	CHECK(p.term_bytes >= 18 + 4);
	CHECK_EQ(p.term[0], 0x41);
	CHECK_EQ(p.term[1], 0x47);
	CHECK_EQ(p.term[9], 2);
	CHECK_EQ(p.term[18], 0x20);
	CHECK_EQ(p.term[19], 6);
	peer_end(&t, &p);
}

static void
test_initiator(void)
{
	/* own IRD and ORD, the peer's, the negotiated ones: RFC 6581 s9.1 */
	static const struct {
		uint16_t ird, ord, peer_ird, peer_ord, want_ird, want_ord;
	} c[] = {
	        {8, 8, 4, 8, 8, 4},
	        {8, 8, 100, 0, 8, 8},
	        {8, 8, 0x3fff, 0x3fff, 8, 8},
	        {8, 8, 0, 8, 8, 0},
	};

	for (unsigned int i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct weft_qp_info info;
		struct weft_event ev;
		struct peer p;
		struct vt t;

		initiate(&t, &p, c[i].ird, c[i].ord, c[i].peer_ird, c[i].peer_ord);
		ev = vt_ev(&t.n[0], WEFT_EV_ESTABLISHED);
		CHECK_EQ(ev.ird, c[i].peer_ird);
		CHECK_EQ(ev.ord, c[i].peer_ord);
		weft_qp_query(t.n[0].qp, &info);
		CHECK_EQ(info.ird, c[i].want_ird);
		CHECK_EQ(info.ord, c[i].want_ord);
		vt_run(&t, VT_S);
		CHECK_EQ(weft_evq_poll(t.n[0].evq, &ev), 0);
		peer_end(&t, &p);
	}
}

/** RFC 6581 s9.1: the responder's depths reach the ULP of a rejected initiator, too. */
static void
test_rejected(void)
{
	struct weft_event ev;
	struct peer p;
	struct vt t;

	initiate(&t, &p, 8, 8, 3, 5);
	p.reject = true;
	ev = vt_ev(&t.n[0], WEFT_EV_REJECTED);
	CHECK_EQ(ev.ird, 3);
	CHECK_EQ(ev.ord, 5);
	CHECK_EQ(ev.private_data_bytes, 2);
	CHECK_MEM(ev.private_data, "no", 2);
	peer_end(&t, &p);
}

static void
peer_established(void *user)
{
	struct peer *p = user;
	struct weft_mpa_attr ma = {.rev = 2,
	                           .ird = p->req_ird,
	                           .ord = p->req_ord,
	                           .p2p = p->rtr != 0,
	                           .opts = {.rtr = p->rtr}};

	CHECK_EQ(weft_mpa_start(&p->mpa, p->conn, p->sched, &ma, &peer_ops, p, p->sched->now_ns),
	         0);
}

static void
peer_tcp_closed(void *user, int err)
{
	struct peer *p = user;

	p->closed = true;
	p->err = err;
}

static void
peer_tcp_rx(void *user, struct rte_mbuf *m, uint64_t now_ns)
{
	(void)user;
	(void)now_ns;
	rte_pktmbuf_free(m);
}

static const struct weft_tcp_conn_ops peer_tcp_ops = {
        .established = peer_established,
        .rx = peer_tcp_rx,
        .writable = peer_nothing,
        .mss = peer_mulpdu,
        .eof = peer_nothing,
        .closed = peer_tcp_closed,
};

/** The peer initiates. Returns the event of its Request. */
static struct weft_event
peer_connects(struct vt *t, struct peer *p)
{
	struct weft_ip dst = weft_ip_from_v4(htonl(0x0a000002));

	p->sched = inside_sched(t->n[0].w);
	CHECK_EQ(weft_tcp_connect(weft_engine_tcp(t->n[0].w), weft_engine_netif(t->n[0].w, 0), NULL,
	                          &dst, VT_PORT, &peer_tcp_ops, p, &p->conn),
	         0);
	return vt_ev(&t->n[1], WEFT_EV_CONNECT_REQUEST);
}

static void
test_responder(void)
{
	/* of the Request; of this node; of this node's Reply; negotiated */
	static const struct {
		uint16_t q_ird, q_ord, ird, ord, rep_ird, rep_ord, run_ird, run_ord;
	} c[] = {
	        {8, 8, 32, 32, 8, 8, 8, 8},
	        {64, 64, 32, 16, 32, 16, 32, 16},
	        {0x3fff, 0x3fff, 32, 16, 0x3fff, 0x3fff, 32, 16},
	        {0x3fff, 4, 32, 16, 4, 0x3fff, 4, 16},
	        {4, 0x3fff, 32, 16, 0x3fff, 4, 32, 4},
	        {0, 0, 32, 16, 0, 0, 0, 0},
	};

	for (unsigned int i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct weft_qp_info info;
		struct weft_qp_attr qa;
		struct weft_event ev;
		struct peer p = {.req_ird = c[i].q_ird, .req_ord = c[i].q_ord};
		struct vt t;

		vt_open(&t, NULL);
		vt_listen(&t.n[1]);
		ev = peer_connects(&t, &p);
		CHECK_EQ(ev.ird, c[i].q_ird);
		CHECK_EQ(ev.ord, c[i].q_ord);
		qa = vt_qp_attr(&t.n[1]);
		qa.ird = c[i].ird;
		qa.ord = c[i].ord;
		CHECK_EQ(weft_qp_create(t.n[1].pd, &qa, &t.n[1].qp), 0);
		CHECK_EQ(weft_accept(ev.connreq, t.n[1].qp, NULL), 0);
		vt_ev(&t.n[1], WEFT_EV_ESTABLISHED);
		weft_qp_query(t.n[1].qp, &info);
		CHECK_EQ(info.ird, c[i].run_ird);
		CHECK_EQ(info.ord, c[i].run_ord);
		vt_run(&t, VT_S);
		CHECK(p.answered);
		CHECK_EQ(p.got.ird, c[i].rep_ird);
		CHECK_EQ(p.got.ord, c[i].rep_ord);
		peer_end(&t, &p);
	}
}

/**
 * RFC 5044 s7.1.2 rule 4: a responder sends nothing before the initiator's first FPDU. If the
 * initiator closes instead, the stream ends at once: posted requests complete as flushed, and no
 * Terminate is sent.
 */
static void
test_initiator_says_nothing(void)
{
	for (int how = 0; how < 3; how++) {
		struct peer p = {.req_ird = 8, .req_ord = 8};
		struct weft_qp_attr qa;
		struct weft_event ev;
		struct weft_sge sg;
		struct vt t;
		uint64_t start;

		vt_open(&t, NULL);
		vt_listen(&t.n[1]);
		vt_mem(&t.n[1], 64, WEFT_ACCESS_LOCAL_WRITE);
		ev = peer_connects(&t, &p);
		qa = vt_qp_attr(&t.n[1]);
		CHECK_EQ(weft_qp_create(t.n[1].pd, &qa, &t.n[1].qp), 0);
		CHECK_EQ(weft_accept(ev.connreq, t.n[1].qp, NULL), 0);
		vt_ev(&t.n[1], WEFT_EV_ESTABLISHED);
		sg = (struct weft_sge){t.n[1].mem, 8, weft_mr_stag(t.n[1].mr)};
		vt_post(&t.n[1],
		        &(struct weft_wr){.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1});
		vt_run(&t, 10 * VT_MS);
		CHECK(p.answered);
		if (how == 1) /* this node is closing already */
			CHECK_EQ(weft_disconnect(t.n[1].qp), 0);
		vt_run(&t, 10 * VT_MS);
		start = sim_now_ns(t.sim);
		weft_mpa_close(&p.mpa, p.sched->now_ns);
		if (how == 2) /* one more request, when the FIN has arrived */
			vt_post(&t.n[1], &(struct weft_wr){.opcode = WEFT_WR_SEND,
			                                   .sg_list = &sg,
			                                   .num_sge = 1});
		CHECK_EQ(vt_wc(&t.n[1]).status, WEFT_WC_FLUSHED);
		CHECK_EQ(vt_ev(&t.n[1], WEFT_EV_DISCONNECTED).status, 0);
		CHECK(sim_now_ns(t.sim) - start < VT_S);
		vt_run(&t, VT_S);
		CHECK(p.closed);
		CHECK_EQ(p.err, 0);
		CHECK_EQ(p.ulpdus, 0);
		peer_end(&t, &p);
	}
}

/** RFC 6581 s9.2: the responder closes with its Reply, so a Read as RTR gets no response. */
static void
test_fin_before_rtr(void)
{
	static const uint8_t form[] = {WEFT_RTR_FPDU, WEFT_RTR_WRITE, WEFT_RTR_READ};

	for (unsigned int i = 0; i < RTE_DIM(form); i++) {
		struct weft_mpa_policy mp = {.size = sizeof(mp), .p2p = true, .rtr = form[i]};
		struct weft_conn_attr ca = {.size = sizeof(ca), .mpa = &mp};
		struct peer p = {.ird = 8, .ord = 8, .rtr = form[i], .fin = true};
		struct sockaddr_in sa = vt_addr(1, VT_PORT);
		struct weft_qp_attr qa;
		uint64_t start;
		struct vt t;

		vt_open(&t, NULL);
		peer_listens(&t, &p);
		qa = vt_qp_attr(&t.n[0]);
		CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &t.n[0].qp), 0);
		CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), &ca), 0);
		vt_ev(&t.n[0], WEFT_EV_ESTABLISHED);
		start = sim_now_ns(t.sim);
		CHECK_EQ(vt_ev(&t.n[0], WEFT_EV_DISCONNECTED).status, 0);
		CHECK(sim_now_ns(t.sim) - start < VT_S);
		vt_run(&t, VT_S);
		CHECK_EQ(p.mpa.stats.fpdus_in, 1);
		peer_end(&t, &p);
	}
}

/** RFC 6581 s9.2: a Read as RTR needs one of the responder's IRD, whatever ORD the initiator asks
 * for. */
static void
test_read_rtr_without_ord(void)
{
	static const struct {
		uint8_t offers, takes;
		uint16_t ord, rep_ird;
	} row[] = {
	        {WEFT_RTR_READ, WEFT_RTR_READ, 0, 1},
	        {WEFT_RTR_READ, 0, 0, 1},
	        {WEFT_RTR_READ, WEFT_RTR_READ, 3, 3},
	        {WEFT_RTR_READ, WEFT_RTR_WRITE, 0, 0},
	        {WEFT_RTR_WRITE, 0, 0, 0},
	};

	for (unsigned int i = 0; i < RTE_DIM(row); i++) {
		struct weft_mpa_policy mp = {.size = sizeof(mp), .rtr = row[i].takes};
		struct peer p = {.req_ird = 8, .req_ord = row[i].ord, .rtr = row[i].offers};
		struct sockaddr_in sa = vt_addr(1, VT_PORT);
		struct weft_listen_attr la = {.size = sizeof(la), .mpa = &mp};
		struct weft_qp_attr qa;
		struct weft_event ev;
		struct vt t;

		vt_open(&t, NULL);
		la.evq = t.n[1].evq;
		CHECK_EQ(weft_listen(t.n[1].ctx, (struct sockaddr *)&sa, sizeof(sa), &la,
		                     &t.n[1].lsn),
		         0);
		ev = peer_connects(&t, &p);
		qa = vt_qp_attr(&t.n[1]);
		CHECK_EQ(weft_qp_create(t.n[1].pd, &qa, &t.n[1].qp), 0);
		CHECK_EQ(weft_accept(ev.connreq, t.n[1].qp, NULL), 0);
		CHECK_EQ(vt_ev(&t.n[1], WEFT_EV_ESTABLISHED).status, 0);
		vt_run(&t, 10 * VT_MS);
		CHECK(p.answered);
		CHECK_EQ(p.got.ird, row[i].rep_ird);
		CHECK_EQ(p.got.ord, 8);
		CHECK_EQ(p.got.rtr_read, row[i].rep_ird > 0);
		peer_end(&t, &p);
	}
}

/** RFC 6581 s9.1: a rejecting Reply has the Request's ORD as IRD, and the Request's IRD as ORD. */
static void
test_rejects(void)
{
	struct peer p = {.req_ird = 5, .req_ord = 9};
	struct weft_event ev;
	struct vt t;

	vt_open(&t, NULL);
	vt_listen(&t.n[1]);
	ev = peer_connects(&t, &p);
	weft_reject(ev.connreq, "no", 2);
	vt_run(&t, 10 * VT_MS);
	CHECK(p.answered);
	CHECK(p.got.reject);
	CHECK_EQ(p.got.ird, 9);
	CHECK_EQ(p.got.ord, 5);
	CHECK_EQ(p.got.pdata_len_bytes, 2);
	vt_run(&t, 5 * VT_S);
	peer_end(&t, &p);
}

static void
post_when_up(void *user, const struct weft_event *ev)
{
	struct weft_sge sg = {0};

	(void)user;
	if (ev->type == WEFT_EV_ESTABLISHED)
		CHECK_EQ(weft_post_send(ev->qp,
		                        &(struct weft_wr){.opcode = WEFT_WR_SEND, .sg_list = &sg},
		                        1),
		         1);
}

/** RFC 6581 s5: an initiator sends nothing before the RTR, even if it posts in the callback of the
 * event. */
static void
test_rtr_first(void)
{
	static const uint8_t form[] = {WEFT_RTR_FPDU, WEFT_RTR_WRITE, WEFT_RTR_READ};

	for (unsigned int i = 0; i < RTE_DIM(form); i++) {
		struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = post_when_up};
		struct vt_attr a = {.evq = {&ea}};
		struct weft_mpa_policy mp = {.size = sizeof(mp), .p2p = true, .rtr = form[i]};
		struct weft_conn_attr ca = {.size = sizeof(ca), .mpa = &mp};
		struct peer p = {.ird = 8, .ord = 8, .rtr = form[i]};
		struct sockaddr_in sa = vt_addr(1, VT_PORT);
		struct weft_qp_attr qa;
		struct vt t;

		vt_open(&t, &a);
		peer_listens(&t, &p);
		qa = vt_qp_attr(&t.n[0]);
		CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &t.n[0].qp), 0);
		CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), &ca), 0);
		vt_run(&t, 50 * VT_MS);
		CHECK_EQ(p.mpa.stats.fpdus_in, 2);
		/* an empty ULPDU is MPA's own only if it is the first */
		CHECK_EQ(p.ulpdus, form[i] == WEFT_RTR_FPDU ? 1 : 2);
		CHECK_EQ(p.term[1] & 0x0f, form[i] == WEFT_RTR_FPDU    ? WEFT_RDMAP_SEND
		                           : form[i] == WEFT_RTR_WRITE ? WEFT_RDMAP_WRITE
		                                                       : WEFT_RDMAP_READ_REQ);
		peer_end(&t, &p);
	}
}

/** RFC 6581 s9.1: a rejecting Reply has depths, whether the consumer or verbs rejects. */
static void
test_rejections(void)
{
	enum how { REJECT, DEPTHS, TOO_DEEP, NOT_TAKEN, TAKEN, ALL };
	static const struct {
		uint16_t q_ird, q_ord, ird[ALL], ord[ALL];
	} c[] = {
	        {8, 5, {5, 3, 0x3ffe, 5, 5}, {8, 40, 0x3ffe, 8, 8}},
	        {0, 300, {300, 3, 0x3ffe, 300, 300}, {0, 40, 0x3ffe, 0, 0}},
	        {0x3fff, 5, {5, 3, 0x3ffe, 5, 5}, {0x3fff, 0x3fff, 0x3fff, 0x3fff, 0x3fff}},
	};

	for (unsigned int i = 0; i < RTE_DIM(c); i++)
		for (enum how how = REJECT; how < ALL; how++) {
			struct peer p = {.req_ird = c[i].q_ird, .req_ord = c[i].q_ord};
			struct weft_ip dst = weft_ip_from_v4(htonl(0x0a000002));
			struct weft_event ev = {.connreq = NULL};
			struct vt t;

			vt_open(&t, NULL);
			vt_listen(&t.n[1]);
			p.sched = inside_sched(t.n[0].w);
			CHECK_EQ(weft_tcp_connect(weft_engine_tcp(t.n[0].w),
			                          weft_engine_netif(t.n[0].w, 0), NULL, &dst,
			                          VT_PORT, &peer_tcp_ops, &p, &p.conn),
			         0);
			if (how == NOT_TAKEN)
				vt_run(&t, VT_S / 2);
			else
				ev = vt_ev(&t.n[1], WEFT_EV_CONNECT_REQUEST);
			if (how == REJECT)
				weft_reject(ev.connreq, "no", 2);
			else if (how == DEPTHS)
				weft_reject_depths(ev.connreq, 3, 40, "no", 2);
			else if (how == TOO_DEEP)
				weft_reject_depths(ev.connreq, 0x3fff, 0xffff, "no", 2);
			if (how >= NOT_TAKEN) {
				weft_unlisten(t.n[1].lsn);
				t.n[1].lsn = NULL;
			}
			vt_run(&t, VT_S / 2);
			if (how == TAKEN)
				weft_reject_depths(ev.connreq, 1, 1, "late", 4);
			vt_run(&t, VT_S);
			CHECK(p.answered && p.got.reject);
			CHECK_EQ(p.got.ird, c[i].ird[how]);
			CHECK_EQ(p.got.ord, c[i].ord[how]);
			CHECK_EQ(p.got.pdata_len_bytes, how >= NOT_TAKEN ? 0 : 2);
			peer_end(&t, &p);
		}
}

/** Connections that never send a Request, or send a wrong one, keep no resources and end without
 * the consumer. */
static void
test_silent_initiators(void)
{
	struct weft_ip dst = weft_ip_from_v4(htonl(0x0a000002));
	static const struct weft_tcp_conn_ops silent = {
	        .established = peer_nothing,
	        .rx = peer_tcp_rx,
	        .writable = peer_nothing,
	        .mss = peer_mulpdu,
	        .eof = peer_nothing,
	        .closed = peer_tcp_closed,
	};
	struct peer p[200] = {{.answered = false}};
	struct weft_event ev;
	unsigned int reset = 0;
	struct vt t;

	vt_open(&t, NULL);
	vt_listen(&t.n[1]);
	for (unsigned int i = 0; i < 200; i++)
		CHECK_EQ(weft_tcp_connect(weft_engine_tcp(t.n[0].w), weft_engine_netif(t.n[0].w, 0),
		                          NULL, &dst, VT_PORT, &silent, &p[i], &p[i].conn),
		         0);
	vt_run(&t, 5 * VT_S);
	for (unsigned int i = 0; i < 200; i++)
		reset += p[i].closed;
	CHECK(reset >= 200 - 128); /* all beyond the backlog */
	CHECK(reset < 200);
	vt_run(&t, 120 * VT_S);
	for (unsigned int i = 0; i < 200; i++)
		CHECK(p[i].closed);
	CHECK_EQ(weft_evq_poll(t.n[1].evq, &ev), 0);
	vt_connect(&t, NULL, NULL); /* there is room again */
	vt_close(&t);
}

WEFT_TEST_MAIN({"initiator: depths", test_initiator},
               {"initiator: responder wants too much", test_ird_too_small},
               {"initiator: rejected", test_rejected}, {"responder: depths", test_responder},
               {"initiator says nothing", test_initiator_says_nothing},
               {"fin before rtr", test_fin_before_rtr},
               {"responder: read rtr without ord", test_read_rtr_without_ord},
               {"responder: rejects", test_rejects}, {"responder: rejections", test_rejections},
               {"rtr first", test_rtr_first}, {"silent initiators", test_silent_initiators})
