/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Through verbs, over links that lose packets: the peer-to-peer model with every RTR, markers and
 * CRC by policy, and the second attempt with revision 1. RFC 6581 s9.2, s10; RFC 5044 s7.1.1.
 */

#include <arpa/inet.h>

#include "vt.h"
#include "weft_mpa.h"
#include "weft_mpa_frame.h"
#include "weft_mpa_startup.h"

#define RIGHTS                                                                                     \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_REMOTE_ATOMIC)
#define BYTES 40000

/** The preferred RTR of those that both sides support: Write, then zero-length FPDU, then Read. */
static uint8_t
best(uint8_t both)
{
	return both & WEFT_RTR_WRITE ? WEFT_RTR_WRITE : both & WEFT_RTR_FPDU ? WEFT_RTR_FPDU : both;
}

static struct sim_link_cfg
lossy(uint64_t seed)
{
	return (struct sim_link_cfg){
	        .delay_ns = 10000 + (seed * 7919) % 100000,
	        .loss_ppm = seed % 3 == 0 ? 0 : 60000,
	        .dup_ppm = seed % 3 == 1 ? 20000 : 0,
	        .reorder_ppm = seed % 3 == 2 ? 30000 : 0,
	        .reorder_ns = 200000,
	};
}

/** Open two stacks, each with its policy, and connect from node 0. */
static void
up(struct vt *t, const struct vt_attr *a, const struct weft_mpa_policy *p0,
   const struct weft_mpa_policy *p1, uint16_t depth)
{
	struct weft_listen_attr la = {
	        .size = sizeof(la), .startup_timeout_us = 60000000, .mpa = p1};
	struct weft_conn_attr ca = {.size = sizeof(ca), .timeout_us = 60000000, .mpa = p0};
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_event ev;

	vt_open(t, a);
	la.evq = t->n[1].evq;
	CHECK_EQ(weft_listen(t->n[1].ctx, (struct sockaddr *)&sa, sizeof(sa), &la, &t->n[1].lsn),
	         0);
	for (unsigned int i = 0; i < 2; i++) {
		struct weft_qp_attr qa = vt_qp_attr(&t->n[i]);

		qa.ird = qa.ord = depth;
		CHECK_EQ(weft_qp_create(t->n[i].pd, &qa, &t->n[i].qp), 0);
		vt_mem(&t->n[i], BYTES, RIGHTS);
	}
	CHECK_EQ(weft_connect(t->n[0].qp, (struct sockaddr *)&sa, sizeof(sa), &ca), 0);
	ev = vt_ev(&t->n[1], WEFT_EV_CONNECT_REQUEST);
	CHECK_EQ(weft_accept(ev.connreq, t->n[1].qp, NULL), 0);
	vt_ev(&t->n[1], WEFT_EV_ESTABLISHED);
}

static void
post(struct vt_node *n, enum weft_wr_opcode op, uint32_t len, struct vt_node *peer)
{
	struct weft_sge sg = {n->mem, len, weft_mr_stag(n->mr)};
	struct weft_wr wr = {.opcode = op,
	                     .flags = WEFT_WR_SIGNALED,
	                     .sg_list = &sg,
	                     .num_sge = 1,
	                     .rdma = {weft_mr_stag(peer->mr), 0x100000000ULL * (peer->id + 1)}};

	if (op == WEFT_WR_SEND)
		wr.rdma.stag = 0;
	vt_post(n, &wr);
	CHECK_EQ(vt_wc(n).status, WEFT_WC_SUCCESS);
}

/** Node `from` sends a message, which the other receives. */
static void
send_one(struct vt *t, unsigned int from, uint32_t len, uint64_t fill)
{
	struct vt_node *n = &t->n[from], *peer = &t->n[1 - from];
	struct weft_wc wc;

	vt_fill(n->mem, len, fill);
	vt_post_recv(peer, peer->mem, BYTES, 7);
	post(n, WEFT_WR_SEND, len, peer);
	wc = vt_wc(peer);
	CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
	CHECK_EQ(wc.len_bytes, len);
	CHECK_MEM(peer->mem, n->mem, len);
}

/** Data both ways by Send, Write and Read, several Reads in a row. */
static void
traffic(struct vt *t)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct vt_node *n = &t->n[i], *peer = &t->n[1 - i];

		send_one(t, i, 1 + 17 * (i + 1), 3 + i);
		send_one(t, i, 9000, 5 + i);
		vt_fill(n->mem, BYTES, 7 + i);
		post(n, WEFT_WR_WRITE, BYTES, peer);
		post(n, WEFT_WR_WRITE, 0, peer);
		send_one(t, i, 1, 8); /* every message before it is placed */
		vt_fill(n->mem, BYTES, 7 + i);
		CHECK_MEM(peer->mem + 1, n->mem + 1, BYTES - 1);
		for (unsigned int k = 0; k < 4; k++) {
			vt_fill(peer->mem, BYTES, 11 + i + k);
			post(n, WEFT_WR_READ, BYTES, peer);
			CHECK_MEM(n->mem, peer->mem, BYTES);
		}
	}
}

static void
finish(struct vt *t)
{
	CHECK_EQ(weft_disconnect(t->n[0].qp), 0);
	CHECK_EQ(vt_ev(&t->n[0], WEFT_EV_DISCONNECTED).status, 0);
	CHECK_EQ(vt_ev(&t->n[1], WEFT_EV_DISCONNECTED).status, 0);
	vt_close(t);
}

/**
 * Every offer with every choice. The responder's first Send arrives although the initiator posts
 * nothing. It arrives behind the RTR, whatever packets are lost. Then both nodes send, with depths
 * of one.
 */
static void
test_forms(void)
{
	for (uint8_t offer = 0; offer < 8; offer++)
		for (uint8_t takes = 0; takes < 8; takes++)
			for (uint64_t seed = 1; seed <= 3; seed++) {
				struct vt_attr a = {.seed = seed + 8 * offer + 64 * takes};
				struct weft_mpa_policy p0 = {
				        .size = sizeof(p0), .p2p = true, .rtr = offer};
				struct weft_mpa_policy p1 = {.size = sizeof(p1), .rtr = takes};
				uint8_t both = (offer != 0 ? offer : 7) & (takes != 0 ? takes : 7);
				struct weft_qp_info info[2];
				struct weft_event ev;
				struct vt t;

				if (both == 0)
					continue;
				a.link = lossy(a.seed);
				up(&t, &a, &p0, &p1, 1);
				send_one(&t, 1, 3000, seed);
				ev = vt_ev(&t.n[0], WEFT_EV_ESTABLISHED);
				CHECK_EQ(ev.ird, 1);
				CHECK_EQ(ev.ord, 1);
				for (unsigned int i = 0; i < 2; i++) {
					weft_qp_query(t.n[i].qp, &info[i]);
					CHECK_EQ(info[i].mpa.rev, 2);
					CHECK(info[i].mpa.p2p && info[i].mpa.crc);
					CHECK(!info[i].mpa.rx_markers && !info[i].mpa.tx_markers);
				}
				CHECK_EQ(info[0].mpa.rtr, best(both));
				CHECK_EQ(info[1].mpa.rtr, 0);
				traffic(&t);
				finish(&t);
			}
}

/** RFC 5044 s7.1.2 rule 4 in the client-server model: the responder sends nothing before the
 * initiator's first FPDU. */
static void
test_client_server(void)
{
	struct weft_sge sg;
	struct weft_wc wc;
	struct vt t;

	up(&t, NULL, NULL, NULL, 4);
	vt_ev(&t.n[0], WEFT_EV_ESTABLISHED);
	vt_post_recv(&t.n[0], t.n[0].mem, 100, 1);
	vt_post_recv(&t.n[1], t.n[1].mem, 100, 1);
	sg = (struct weft_sge){t.n[1].mem, 10, 0};
	vt_post(&t.n[1], &(struct weft_wr){.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1});
	vt_run(&t, 5 * VT_S);
	CHECK_EQ(weft_cq_poll(t.n[0].cq, &wc, 1), 0);
	sg.addr = t.n[0].mem;
	vt_post(&t.n[0], &(struct weft_wr){.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1});
	CHECK_EQ(vt_wc(&t.n[1]).status, WEFT_WC_SUCCESS);
	CHECK_EQ(vt_wc(&t.n[0]).status, WEFT_WC_SUCCESS);
	finish(&t);
}

/** Requests that the initiator posts at once are sent behind the RTR, and a disconnect comes behind
 * both. */
static void
test_posted_at_once(void)
{
	static const uint8_t form[] = {WEFT_RTR_FPDU, WEFT_RTR_WRITE, WEFT_RTR_READ};

	for (unsigned int f = 0; f < 3; f++)
		for (int how = 0; how < 3; how++) {
			struct weft_mpa_policy p = {.size = sizeof(p), .p2p = true, .rtr = form[f]};
			struct vt_attr a = {.seed = 50 + f, .link = lossy(f)};
			struct weft_sge sg;
			struct vt t;

			up(&t, &a, &p, NULL, 1);
			vt_post_recv(&t.n[1], t.n[1].mem, BYTES, 1);
			vt_ev(&t.n[0], WEFT_EV_ESTABLISHED);
			vt_fill(t.n[0].mem, BYTES, f);
			sg = (struct weft_sge){t.n[0].mem, 5000, 0};
			if (how > 0)
				vt_post(&t.n[0], &(struct weft_wr){.opcode = WEFT_WR_SEND,
				                                   .sg_list = &sg,
				                                   .num_sge = 1});
			if (how > 1) {
				CHECK_EQ(vt_wc(&t.n[1]).status, WEFT_WC_SUCCESS);
				CHECK_MEM(t.n[1].mem, t.n[0].mem, 5000);
				finish(&t);
				continue;
			}
			CHECK_EQ(weft_disconnect(t.n[0].qp), 0);
			CHECK_EQ(vt_wc(&t.n[1]).status,
			         how > 0 ? WEFT_WC_SUCCESS : WEFT_WC_FLUSHED);
			CHECK_EQ(vt_ev(&t.n[0], WEFT_EV_DISCONNECTED).status, 0);
			CHECK_EQ(vt_ev(&t.n[1], WEFT_EV_DISCONNECTED).status, 0);
			vt_close(&t);
		}
}

/** The connection ends, or the QP is destroyed, before the response to the RTR's Read. */
static void
test_read_unanswered(void)
{
	for (int how = 0; how < 2; how++) {
		struct weft_mpa_policy p = {.size = sizeof(p), .p2p = true, .rtr = WEFT_RTR_READ};
		struct sim_link_cfg dead = {.down = true, .delay_ns = 1000};
		struct weft_wc wc;
		struct vt t;

		up(&t, NULL, &p, NULL, 1);
		sim_link_set(t.link, 1, &dead);
		vt_run(&t, VT_S);
		weft_qp_destroy(t.n[how].qp);
		t.n[how].qp = NULL;
		vt_run(&t, 200 * VT_S);
		/* the RTR's Read is not a work request */
		CHECK_EQ(weft_cq_poll(t.n[0].cq, &wc, 1), 0);
		vt_close(&t);
	}
}

/** RFC 6581 s9.2: without a common RTR, Terminate 2/0/07, which both sides report. */
static void
test_none_agreed(void)
{
	for (uint8_t offer = 1; offer < 7; offer++)
		for (uint8_t takes = 1; takes < 7; takes++) {
			struct weft_mpa_policy p0 = {.size = sizeof(p0), .p2p = true, .rtr = offer};
			struct weft_mpa_policy p1 = {.size = sizeof(p1), .rtr = takes};
			struct vt t;

			if ((offer & takes) != 0)
				continue;
			up(&t, NULL, &p0, &p1, 4);
			vt_ev(&t.n[0], WEFT_EV_ESTABLISHED);
			for (unsigned int i = 0; i < 2; i++) {
				struct weft_event ev = vt_ev(&t.n[i], WEFT_EV_TERMINATED);

				CHECK_EQ(ev.term.layer, 2);
				CHECK_EQ(ev.term.etype, 0);
				CHECK_EQ(ev.term.code, 7);
				CHECK_EQ(ev.term.ours, i == 0);
				vt_ev(&t.n[i], WEFT_EV_DISCONNECTED);
			}
			vt_close(&t);
		}
}

/** Policies that contradict themselves. */
static void
test_bad_policies(void)
{
	static const struct weft_mpa_policy bad[] = {
	        {.size = sizeof(bad[0]), .rev = 3},
	        {.size = sizeof(bad[0]), .rev = 1, .p2p = true},
	        {.size = sizeof(bad[0]), .rtr = 8},
	        {.size = sizeof(bad[0]), .rev = 2, .own_depths = true},
	        {.size = 0},
	        {.size = 65537},
	};
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct vt t;

	vt_open(&t, NULL);
	for (unsigned int i = 0; i < RTE_DIM(bad); i++) {
		struct weft_conn_attr ca = {.size = sizeof(ca), .mpa = &bad[i]};
		struct weft_listen_attr la = {
		        .size = sizeof(la), .mpa = &bad[i], .evq = t.n[1].evq};
		struct weft_ctx_attr xa = {.size = sizeof(xa), .mpa = &bad[i]};
		struct weft_qp_attr qa = vt_qp_attr(&t.n[0]);
		struct weft_listener *l;
		struct weft_ctx *ctx;
		struct weft_qp *qp;

		CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &qp), 0);
		CHECK_EQ(weft_connect(qp, (struct sockaddr *)&sa, sizeof(sa), &ca), -EINVAL);
		weft_qp_destroy(qp);
		CHECK_EQ(weft_listen(t.n[1].ctx, (struct sockaddr *)&sa, sizeof(sa), &la, &l),
		         -EINVAL);
		CHECK_EQ(weft_ctx_create(&xa, &ctx), -EINVAL);
	}
	/* attributes that were not initialized, or have an impossible size */
	for (unsigned int i = 0; i < 2; i++) {
		struct weft_conn_attr ca = {.size = i == 0 ? 0 : 65537};
		struct weft_qp_attr qa = vt_qp_attr(&t.n[0]);
		struct weft_qp *qp;

		CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &qp), 0);
		CHECK_EQ(weft_connect(qp, (struct sockaddr *)&sa, sizeof(sa), &ca), -EINVAL);
		weft_qp_destroy(qp);
	}
	vt_close(&t);
}

/**
 * Markers in each direction, CRC, revision and model, over hostile links and odd MTUs, with every
 * kind of message. All data must arrive unchanged.
 */
static void
test_matrix(void)
{
	static const struct {
		uint8_t rev, rtr;
	} model[] = {{1, 0}, {2, 0}, {2, WEFT_RTR_FPDU}, {2, WEFT_RTR_WRITE}, {2, WEFT_RTR_READ}};
	static const uint16_t mtu[] = {1500, 9000, 1280, 1337};
	uint64_t seed = 1;

	for (unsigned int k = 0; k < RTE_DIM(model); k++)
		for (unsigned int flags = 0; flags < 8; flags++)
			for (unsigned int i = 0; i < RTE_DIM(mtu); i++, seed++) {
				struct vt_attr a = {
				        .seed = seed, .link = lossy(seed), .mtu_bytes = mtu[i]};
				struct weft_mpa_policy p[2];
				struct weft_qp_info info;
				struct vt t;

				for (unsigned int n = 0; n < 2; n++)
					p[n] = (struct weft_mpa_policy){
					        .size = sizeof(p[0]),
					        .rev = model[k].rev,
					        .p2p = model[k].rtr != 0,
					        .rtr = model[k].rtr,
					        .markers = (flags >> n & 1) != 0,
					        .no_crc = (flags & 4) != 0};
				/* TCP's checksum finds all damage of this link: CRC may be off */
				a.link.corrupt_ppm = seed % 4 == 0 ? 10000 : 0;
				p[1].rev = 0;
				p[1].p2p = false;
				up(&t, &a, &p[0], &p[1], 2);
				vt_ev(&t.n[0], WEFT_EV_ESTABLISHED);
				traffic(&t);
				for (unsigned int n = 0; n < 2; n++) {
					weft_qp_query(t.n[n].qp, &info);
					CHECK_EQ(info.mpa.rev, model[k].rev);
					CHECK_EQ(info.mpa.crc, (flags & 4) == 0);
					CHECK_EQ(info.mpa.rx_markers, flags >> n & 1);
					CHECK_EQ(info.mpa.tx_markers, flags >> (1 - n) & 1);
				}
				finish(&t);
			}
}

/* ---- A responder of revision 1, or a malicious one ---- */

enum answer { FIN, RST, REPLY1, REJECT1, ACCEPT, MUTE };

struct old {
	struct vt t;
	struct weft_mpa mpa;
	struct weft_sched *sched;
	enum answer answer[2]; /**< to the first and to the second connection */
	unsigned int conns, requests;
	struct weft_tcp_conn *conn;
	struct weft_mpa_frame got;
	bool up;
};

static void
old_send(struct weft_tcp_conn *c, uint8_t flags, uint64_t now_ns)
{
	struct rte_mbuf *m = weft_tcp_alloc(c);
	char *p;

	CHECK(m != NULL);
	p = rte_pktmbuf_append(m, 20);
	memcpy(p, "MPA ID Rep Frame", 16);
	p[16] = (char)flags;
	p[17] = 1;
	p[18] = p[19] = 0;
	CHECK_EQ(weft_tcp_send(c, m, true, now_ns), 0);
}

static void
old_rx(void *user, struct rte_mbuf *m, uint64_t now_ns)
{
	struct old *o = user;
	bool whole = m->pkt_len >= 20; /* a Request of this test is one segment */

	rte_pktmbuf_free(m);
	if (!whole || o->conn == NULL)
		return;
	switch (o->answer[o->conns - 1]) {
	case FIN:
		weft_tcp_close(o->conn, now_ns);
		break;
	case RST: {
		struct weft_tcp_conn *c = o->conn;

		o->conn = NULL;
		weft_tcp_abort(c, now_ns);
		break;
	}
	case REPLY1:
		old_send(o->conn, 0x40, now_ns);
		break;
	case REJECT1:
		old_send(o->conn, 0x60, now_ns);
		break;
	case ACCEPT:
	case MUTE:
		break;
	}
}

static void
old_nothing(void *user)
{
	(void)user;
}

static void
old_mss(void *user, uint16_t mss)
{
	(void)user;
	(void)mss;
}

static void
old_eof(void *user)
{
	struct old *o = user;

	if (o->conn != NULL && o->answer[o->conns - 1] != FIN)
		weft_tcp_close(o->conn, o->sched->now_ns);
}

static void
old_closed(void *user, int err)
{
	struct old *o = user;

	(void)err;
	o->conn = NULL;
}

static const struct weft_tcp_conn_ops old_tcp_ops = {
        .established = old_nothing,
        .rx = old_rx,
        .writable = old_nothing,
        .mss = old_mss,
        .eof = old_eof,
        .closed = old_closed,
};

static void
old_request(void *user, const struct weft_mpa_frame *req)
{
	struct old *o = user;

	o->got = *req;
	o->requests++;
	CHECK_EQ(weft_mpa_accept(&o->mpa, 0, 0, "ok", 2, o->sched->now_ns), 0);
	o->up = true;
}

static void
old_ulpdu(void *user, const struct weft_frag *frag, unsigned int nfrags, uint32_t len_bytes,
          uint64_t now_ns)
{
	(void)user;
	(void)frag;
	(void)nfrags;
	(void)len_bytes;
	(void)now_ns;
}

static void
old_fault(void *user, const struct weft_term *t)
{
	(void)user;
	(void)t;
}

static void
old_mpa_eof(void *user)
{
	struct old *o = user;

	weft_mpa_close(&o->mpa, o->sched->now_ns);
}

static void
old_mpa_closed(void *user, int err)
{
	struct old *o = user;

	(void)err;
	o->up = false;
}

static const struct weft_mpa_ops old_mpa_ops = {
        .request = old_request,
        .ulpdu = old_ulpdu,
        .writable = old_nothing,
        .mulpdu = old_mss,
        .fault = old_fault,
        .eof = old_mpa_eof,
        .closed = old_mpa_closed,
};

static int
old_accept(void *arg, struct weft_tcp_conn *c)
{
	struct old *o = arg;

	CHECK(o->conns < 2);
	if (o->answer[o->conns++] == ACCEPT)
		return weft_mpa_respond(&o->mpa, c, o->sched, 0, &old_mpa_ops, o, o->sched->now_ns);
	o->conn = c;
	weft_tcp_set_user(c, &old_tcp_ops, o);
	return 0;
}

static void
old_open(struct old *o, uint64_t seed, enum answer first, enum answer second,
         const struct weft_conn_attr *ca)
{
	struct vt_attr a = {.seed = seed, .link = lossy(seed)};
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_ip any = {{0}};
	struct weft_tcp_listener *l;
	struct weft_qp_attr qa;

	memset(o, 0, sizeof(*o));
	vt_open(&o->t, &a);
	o->answer[0] = first;
	o->answer[1] = second;
	o->sched = inside_sched(o->t.n[1].w);
	CHECK_EQ(weft_tcp_listen(weft_engine_tcp(o->t.n[1].w), &any, 128, VT_PORT, 8, old_accept, o,
	                         &l),
	         0);
	qa = vt_qp_attr(&o->t.n[0]);
	CHECK_EQ(weft_qp_create(o->t.n[0].pd, &qa, &o->t.n[0].qp), 0);
	CHECK_EQ(weft_connect(o->t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), ca), 0);
}

static void
old_end(struct old *o)
{
	if (o->t.n[0].qp != NULL)
		weft_qp_destroy(o->t.n[0].qp);
	o->t.n[0].qp = NULL;
	vt_run(&o->t, 2 * VT_S);
	if (o->mpa.tcp != NULL)
		weft_mpa_abort(&o->mpa, o->sched->now_ns);
	if (o->conn != NULL)
		weft_tcp_abort(o->conn, o->sched->now_ns);
	weft_mpa_fini(&o->mpa);
	vt_close(&o->t);
}

static uint64_t
fallbacks(const struct old *o)
{
	struct weft_worker_stats ws;

	weft_worker_stats(o->t.n[0].w, &ws);
	return ws.mpa_fallbacks;
}

/** However the responder refuses revision 2, a second attempt with revision 1 has the same private
 * data, and the same source port if the caller named it. */
static void
test_fallback(void)
{
	static const enum answer how[] = {FIN, RST, REPLY1, REJECT1};

	for (unsigned int i = 0; i < RTE_DIM(how); i++)
		for (uint64_t seed = 1; seed <= 6; seed++) {
			struct weft_conn_attr ca = {.size = sizeof(ca),
			                            .timeout_us = 60000000,
			                            .private_data = "hello",
			                            .private_data_bytes = 5,
			                            .local_port = seed % 2 != 0 ? 700 : 0};
			struct weft_qp_info info;
			struct weft_event ev;
			struct old o;

			old_open(&o, seed, how[i], ACCEPT, &ca);
			ev = vt_ev(&o.t.n[0], WEFT_EV_ESTABLISHED);
			CHECK_EQ(ev.ird, 0);
			CHECK_EQ(ev.private_data_bytes, 2);
			CHECK_EQ(o.conns, 2);
			CHECK_EQ(o.got.rev, 1);
			CHECK(!o.got.enhanced);
			CHECK_EQ(o.got.pdata_len_bytes, 5);
			CHECK_MEM(o.got.pdata, "hello", 5);
			CHECK_EQ(fallbacks(&o), 1);
			weft_qp_query(o.t.n[0].qp, &info);
			CHECK_EQ(info.mpa.rev, 1);
			CHECK_EQ(info.state, WEFT_QP_RTS);
			if (ca.local_port != 0)
				CHECK_EQ(ntohs(((struct sockaddr_in *)&info.local)->sin_port),
				         ca.local_port);
			CHECK_EQ(weft_disconnect(o.t.n[0].qp), 0);
			CHECK_EQ(vt_ev(&o.t.n[0], WEFT_EV_DISCONNECTED).status, 0);
			old_end(&o);
		}
}

/** There is only one second attempt. There is none with a fixed revision, in the peer-to-peer
 * model, or if the responder did not answer. */
static void
test_no_fallback(void)
{
	static const struct weft_mpa_policy p2p = {.size = sizeof(p2p), .p2p = true};
	static const struct weft_mpa_policy rev2 = {.size = sizeof(rev2), .rev = 2};
	static const struct weft_mpa_policy rev1 = {.size = sizeof(rev1), .rev = 1};
	static const struct {
		enum answer first, second;
		const struct weft_mpa_policy *p;
		uint8_t by_number;
		unsigned int conns;
		int err;
	} row[] = {
	        {FIN, FIN, NULL, 0, 2, -ECONNRESET},
	        {RST, RST, NULL, 0, 2, -ECONNRESET},
	        {FIN, MUTE, NULL, 0, 2, -ETIMEDOUT},
	        {MUTE, MUTE, NULL, 0, 1, -ETIMEDOUT},
	        {FIN, ACCEPT, &p2p, 0, 1, -ECONNRESET},
	        {RST, ACCEPT, &rev2, 0, 1, -ECONNRESET},
	        {FIN, ACCEPT, &rev1, 0, 1, -ECONNRESET},
	        {FIN, ACCEPT, NULL, 2, 1, -ECONNRESET},
	        {REPLY1, ACCEPT, &rev2, 0, 1, -EPROTONOSUPPORT},
	};

	for (unsigned int i = 0; i < RTE_DIM(row); i++) {
		struct weft_conn_attr ca = {.size = sizeof(ca),
		                            .timeout_us = 3000000,
		                            .mpa = row[i].p,
		                            .mpa_rev = row[i].by_number};
		uint64_t start;
		struct weft_event ev;
		struct old o;

		old_open(&o, 3, row[i].first, row[i].second, &ca);
		start = sim_now_ns(o.t.sim);
		ev = vt_ev(&o.t.n[0], WEFT_EV_CONNECT_ERROR);
		CHECK_EQ(ev.status, row[i].err);
		CHECK_EQ(o.conns, row[i].conns);
		CHECK_EQ(fallbacks(&o), row[i].conns - 1);
		if (row[i].err == -ETIMEDOUT) /* one timeout for both attempts */
			CHECK(sim_now_ns(o.t.sim) - start < 3100 * VT_MS);
		vt_run(&o.t, 10 * VT_S);
		CHECK_EQ(o.conns, row[i].conns);
		old_end(&o);
	}
	{
		/* rejected with revision 1, when only that was offered: the consumer's answer */
		struct weft_conn_attr ca = {.size = sizeof(ca), .mpa_rev = 1};
		struct old o;

		old_open(&o, 3, REJECT1, ACCEPT, &ca);
		vt_ev(&o.t.n[0], WEFT_EV_REJECTED);
		CHECK_EQ(o.conns, 1);
		old_end(&o);
	}
}

/** The consumer gives up during the second attempt, at every moment of it. */
static void
test_fallback_given_up(void)
{
	for (uint64_t us = 0; us < 600; us += 13)
		for (int how = 0; how < 2; how++) {
			struct weft_conn_attr ca = {.size = sizeof(ca), .timeout_us = 60000000};
			struct old o;

			old_open(&o, 3, us % 2 ? FIN : REJECT1, ACCEPT, &ca);
			vt_run(&o.t, us * 1000);
			if (how == 0) {
				weft_qp_destroy(o.t.n[0].qp);
				o.t.n[0].qp = NULL;
			} else {
				CHECK_EQ(weft_disconnect(o.t.n[0].qp), 0);
			}
			vt_run(&o.t, 30 * VT_S);
			old_end(&o);
		}
}

/** The timeout expires when the refusal arrives, or during the second attempt. The QP gets an event
 * at once. */
static void
test_fallback_late(void)
{
	const uint64_t seed = 3000; /* this seed loses nothing */
	const uint32_t delay_us = (uint32_t)(lossy(seed).delay_ns / 1000);
	unsigned int up = 0, late = 0;

	CHECK_EQ(lossy(seed).loss_ppm + lossy(seed).dup_ppm + lossy(seed).reorder_ppm, 0);
	for (unsigned int k = 1; k < 12; k++) {
		struct weft_conn_attr ca = {.size = sizeof(ca), .timeout_us = k * delay_us};
		struct weft_event ev;
		struct old o;

		old_open(&o, seed, REJECT1, ACCEPT, &ca);
		vt_run(&o.t, VT_S);
		CHECK_EQ(weft_evq_poll(o.t.n[0].evq, &ev), 1);
		if (ev.type == WEFT_EV_ESTABLISHED) {
			up++;
		} else {
			CHECK_EQ(ev.type, WEFT_EV_CONNECT_ERROR);
			CHECK_EQ(ev.status, -ETIMEDOUT);
			late += o.conns > 0 && fallbacks(&o) > 0;
		}
		old_end(&o);
	}
	CHECK(up > 0 && late > 1);
}

/** RFC 6581 s9.1: the ULPs agree on the depths. The own depths stay, whatever the peer sends. */
static void
test_own_depths(void)
{
	for (unsigned int p2p = 0; p2p < 2; p2p++) {
		struct weft_mpa_policy p = {.size = sizeof(p), .own_depths = true, .p2p = p2p};
		struct weft_qp_info info;
		struct weft_event ev;
		struct vt t;

		up(&t, NULL, &p, NULL, 8);
		ev = vt_ev(&t.n[0], WEFT_EV_ESTABLISHED);
		CHECK_EQ(ev.ird, p2p ? 0x3fff : 0);
		CHECK_EQ(ev.ord, p2p ? 0x3fff : 0);
		for (unsigned int i = 0; i < 2; i++) {
			weft_qp_query(t.n[i].qp, &info);
			CHECK_EQ(info.ird, 8);
			CHECK_EQ(info.ord, 8);
			/* s10: no enhanced feature is used, so the enhanced format is not used */
			CHECK_EQ(info.mpa.rev, p2p ? 2 : 1);
		}
		traffic(&t);
		finish(&t);
	}
}

WEFT_TEST_MAIN({"forms", test_forms}, {"client-server", test_client_server},
               {"posted at once", test_posted_at_once}, {"read unanswered", test_read_unanswered},
               {"none agreed", test_none_agreed}, {"bad policies", test_bad_policies},
               {"matrix", test_matrix}, {"fallback", test_fallback},
               {"no fallback", test_no_fallback}, {"fallback given up", test_fallback_given_up},
               {"fallback late", test_fallback_late}, {"own depths", test_own_depths})
