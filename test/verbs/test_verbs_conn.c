/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Connections between two stacks: every way in which they come up and fail. */

#include "vt.h"
#include "weft_mpa.h"
#include "weft_cm.h"
#include "weft_mpa_startup.h"

static void
test_connect(void)
{
	struct weft_qp_info info;
	struct weft_event ev;
	struct vt t;

	vt_open(&t, NULL);
	vt_connect(&t, NULL, NULL);
	weft_qp_query(t.n[0].qp, &info);
	CHECK_EQ(info.state, WEFT_QP_RTS);
	CHECK_EQ(info.ird, 32);
	CHECK_EQ(info.ord, 32);
	CHECK_EQ(((struct sockaddr_in *)&info.remote)->sin_port, vt_addr(1, VT_PORT).sin_port);
	CHECK_EQ(((struct sockaddr_in *)&info.remote)->sin_addr.s_addr,
	         vt_addr(1, 0).sin_addr.s_addr);
	CHECK(info.mulpdu_bytes > 1400 && info.mulpdu_bytes < 1460);
	/* a QP connects only once */
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), NULL), -EISCONN);
	CHECK_EQ(weft_disconnect(t.n[0].qp), 0);
	ev = vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
	CHECK_EQ(ev.status, 0);
	ev = vt_ev(&t.n[1], WEFT_EV_DISCONNECTED);
	CHECK_EQ(ev.status, 0);
	vt_run(&t, 5 * VT_S);
	CHECK_EQ(weft_evq_poll(t.n[0].evq, &ev), 0);
	CHECK_EQ(weft_evq_poll(t.n[1].evq, &ev), 0);
	weft_qp_query(t.n[0].qp, &info);
	CHECK_EQ(info.state, WEFT_QP_ERROR);
	CHECK_EQ(weft_disconnect(t.n[0].qp), -ENOTCONN);
	vt_close(&t);
}

/* A reset, of an established connection and of one that is closing, with requests posted for a peer
 * that has no receives. */
static void
test_abort(void)
{
	for (unsigned int closing = 0; closing < 2; closing++) {
		struct weft_event ev;
		struct vt t;

		vt_open(&t, NULL);
		vt_connect(&t, NULL, NULL);
		if (closing)
			CHECK_EQ(weft_disconnect(t.n[0].qp), 0);
		CHECK_EQ(weft_abort(t.n[0].qp), 0);
		CHECK_EQ(weft_abort(t.n[0].qp), 0);
		ev = vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
		CHECK_EQ(ev.status, -ECONNABORTED);
		ev = vt_ev(&t.n[1], WEFT_EV_DISCONNECTED);
		CHECK_EQ(ev.status, -ECONNRESET);
		CHECK_EQ(weft_abort(t.n[0].qp), -ENOTCONN);
		vt_run(&t, 5 * VT_S);
		CHECK_EQ(weft_evq_poll(t.n[0].evq, &ev), 0);
		CHECK_EQ(weft_evq_poll(t.n[1].evq, &ev), 0);
		vt_close(&t);
	}
}

static void
test_private_data(void)
{
	for (uint8_t rev = 1; rev <= 2; rev++) {
		uint16_t max = rev == 1 ? 512 : WEFT_MAX_PRIVATE_DATA;
		uint8_t a[513], b[513];
		struct weft_conn_attr ca = {.size = sizeof(ca),
		                            .private_data = a,
		                            .private_data_bytes = max + 1,
		                            .mpa_rev = rev};
		struct sockaddr_in sa = vt_addr(1, VT_PORT);
		struct weft_qp_attr qa;
		struct weft_event ev;
		struct vt t;

		vt_open(&t, NULL);
		vt_fill(a, sizeof(a), 1);
		vt_fill(b, sizeof(b), 2);
		vt_listen(&t.n[1]);
		for (unsigned int i = 0; i < 2; i++) {
			qa = vt_qp_attr(&t.n[i]);
			CHECK_EQ(weft_qp_create(t.n[i].pd, &qa, &t.n[i].qp), 0);
		}
		CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), &ca), -EINVAL);
		ca.private_data_bytes = max;
		CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), &ca), 0);
		ev = vt_ev(&t.n[1], WEFT_EV_CONNECT_REQUEST);
		CHECK_EQ(ev.private_data_bytes, max);
		CHECK_MEM(ev.private_data, a, max);
		CHECK_EQ(ev.ird, rev == 2 ? 32 : 0);
		CHECK(ev.listener == t.n[1].lsn && ev.user == &t.n[1]);
		CHECK_MEM(&ev.local, &sa, sizeof(sa));
		ca.private_data = b;
		ca.private_data_bytes = 77;
		CHECK_EQ(weft_accept(ev.connreq, t.n[1].qp, &ca), 0);
		ev = vt_ev(&t.n[1], WEFT_EV_ESTABLISHED);
		CHECK_EQ(ev.private_data_bytes, 0);
		ev = vt_ev(&t.n[0], WEFT_EV_ESTABLISHED);
		CHECK_EQ(ev.private_data_bytes, 77);
		CHECK_MEM(ev.private_data, b, 77);
		CHECK(ev.qp == t.n[0].qp && ev.user == &t.n[0]);
		vt_close(&t);
	}
}

static void
test_reject(void)
{
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_qp_info info;
	struct weft_qp_attr qa;
	struct weft_event ev;
	struct weft_wc wc;
	uint8_t buf[16];
	struct vt t;

	vt_open(&t, NULL);
	vt_listen(&t.n[1]);
	qa = vt_qp_attr(&t.n[0]);
	CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &t.n[0].qp), 0);
	vt_post_recv(&t.n[0], buf, sizeof(buf), 5);
	CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
	ev = vt_ev(&t.n[1], WEFT_EV_CONNECT_REQUEST);
	weft_reject(ev.connreq, "no room", 7);
	ev = vt_ev(&t.n[0], WEFT_EV_REJECTED);
	CHECK_EQ(ev.private_data_bytes, 7);
	CHECK_MEM(ev.private_data, "no room", 7);
	wc = vt_wc(&t.n[0]);
	CHECK_EQ(wc.wr_id, 5);
	CHECK_EQ(wc.status, WEFT_WC_FLUSHED);
	weft_qp_query(t.n[0].qp, &info);
	CHECK_EQ(info.state, WEFT_QP_ERROR);
	vt_run(&t, 5 * VT_S);
	CHECK_EQ(weft_evq_poll(t.n[0].evq, &ev), 0);
	vt_close(&t);
}

/** IRD and ORD that both nodes ask for, then those expected at both nodes. */
static const struct {
	uint16_t i_ird, i_ord, r_ird, r_ord;
	uint16_t xi_ird, xi_ord, xr_ird, xr_ord;
} depths[] = {
        {32, 32, 32, 32, 32, 32, 32, 32},
        {4, 16, 8, 2, 4, 8, 8, 2},
        {4, 2, 8, 16, 4, 2, 2, 4},
        {1, 1, 128, 128, 1, 1, 1, 1},
        {200, 300, 250, 150, 200, 250, 250, 150},
};

static void
test_ird_ord(void)
{
	for (unsigned int i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
		struct weft_qp_info info;
		struct weft_qp_attr a0, a1;
		struct vt t;

		vt_open(&t, NULL);
		a0 = vt_qp_attr(&t.n[0]);
		a1 = vt_qp_attr(&t.n[1]);
		a0.ird = depths[i].i_ird;
		a0.ord = depths[i].i_ord;
		a1.ird = depths[i].r_ird;
		a1.ord = depths[i].r_ord;
		vt_connect(&t, &a0, &a1);
		weft_qp_query(t.n[0].qp, &info);
		CHECK_EQ(info.ird, depths[i].xi_ird);
		CHECK_EQ(info.ord, depths[i].xi_ord);
		weft_qp_query(t.n[1].qp, &info);
		CHECK_EQ(info.ird, depths[i].xr_ird);
		CHECK_EQ(info.ord, depths[i].xr_ord);
		vt_close(&t);
	}
}

/** The same depths by the attributes of connect and accept, of QPs that could have more. */
static void
test_ird_ord_of_conn(void)
{
	const struct sockaddr_in sa = vt_addr(1, VT_PORT);

	for (unsigned int i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
		struct weft_conn_attr c = {.size = sizeof(c),
		                           .ird = WEFT_DEPTH(depths[i].i_ird),
		                           .ord = WEFT_DEPTH(depths[i].i_ord)};
		struct weft_conn_attr a = {.size = sizeof(a),
		                           .ird = WEFT_DEPTH(depths[i].r_ird),
		                           .ord = WEFT_DEPTH(depths[i].r_ord)};
		struct weft_qp_info info;
		struct weft_event ev;
		struct vt t;

		vt_open(&t, NULL);
		vt_listen(&t.n[1]);
		for (unsigned int n = 0; n < 2; n++) {
			struct weft_qp_attr qa = vt_qp_attr(&t.n[n]);

			qa.ird = qa.ord = 300;
			CHECK_EQ(weft_qp_create(t.n[n].pd, &qa, &t.n[n].qp), 0);
		}
		/* neither a depth nor 0 */
		c.ird = 5;
		CHECK_EQ(weft_connect(t.n[0].qp, (const struct sockaddr *)&sa, sizeof(sa), &c),
		         -EINVAL);
		c.ird = WEFT_DEPTH(depths[i].i_ird);
		CHECK_EQ(weft_connect(t.n[0].qp, (const struct sockaddr *)&sa, sizeof(sa), &c), 0);
		ev = vt_ev(&t.n[1], WEFT_EV_CONNECT_REQUEST);
		CHECK_EQ(ev.ird, depths[i].i_ird);
		CHECK_EQ(ev.ord, depths[i].i_ord);
		CHECK_EQ(weft_accept(ev.connreq, t.n[1].qp, &a), 0);
		vt_ev(&t.n[0], WEFT_EV_ESTABLISHED);
		weft_qp_query(t.n[0].qp, &info);
		CHECK_EQ(info.ird, depths[i].xi_ird);
		CHECK_EQ(info.ord, depths[i].xi_ord);
		weft_qp_query(t.n[1].qp, &info);
		CHECK_EQ(info.ird, depths[i].xr_ird);
		CHECK_EQ(info.ord, depths[i].xr_ord);
		vt_close(&t);
	}
}

static void
test_refused(void)
{
	struct sockaddr_in sa = vt_addr(1, 9);
	struct weft_qp_attr qa;
	struct weft_event ev;
	struct vt t;

	vt_open(&t, NULL);
	qa = vt_qp_attr(&t.n[0]);
	CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &t.n[0].qp), 0);
	CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
	ev = vt_ev(&t.n[0], WEFT_EV_CONNECT_ERROR);
	CHECK_EQ(ev.status, -ECONNREFUSED);
	CHECK(ev.qp == t.n[0].qp);
	/* no route to the destination */
	sa.sin_addr.s_addr = 0x01020304;
	weft_qp_destroy(t.n[0].qp);
	CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &t.n[0].qp), 0);
	CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), NULL), -ENETUNREACH);
	sa.sin_family = AF_UNIX;
	CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), NULL), -EAFNOSUPPORT);
	CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&sa, 1, NULL), -EINVAL);
	vt_close(&t);
}

static void
test_connect_timeout(void)
{
	/* The link is down from the SYN on, then from the MPA Request on. */
	for (unsigned int stage = 0; stage < 2; stage++) {
		struct weft_conn_attr ca = {.size = sizeof(ca), .timeout_us = 3000000};
		struct sim_link_cfg dead = {.loss_ppm = 1000000, .delay_ns = 1000};
		struct sockaddr_in sa = vt_addr(1, VT_PORT);
		struct weft_qp_attr qa;
		struct weft_event ev;
		uint64_t start;
		struct vt t;

		vt_open(&t, NULL);
		if (stage == 1)
			vt_listen(&t.n[1]);
		qa = vt_qp_attr(&t.n[0]);
		CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &t.n[0].qp), 0);
		if (stage == 0)
			sim_link_set(t.link, 0, &dead);
		start = sim_now_ns(t.sim);
		CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), &ca), 0);
		if (stage == 1) /* the request waits unanswered at node 1 */
			vt_ev(&t.n[1], WEFT_EV_CONNECT_REQUEST);
		ev = vt_ev(&t.n[0], WEFT_EV_CONNECT_ERROR);
		CHECK_EQ(ev.status, -ETIMEDOUT);
		CHECK(sim_now_ns(t.sim) - start >= 3 * VT_S);
		CHECK(sim_now_ns(t.sim) - start < 3 * VT_S + 100 * VT_MS);
		vt_run(&t, 20 * VT_S);
		CHECK_EQ(weft_evq_poll(t.n[0].evq, &ev), 0);
		/* the request was never answered: its memory is freed with the context */
		vt_close(&t);
	}
}

static void
test_accept_late(void)
{
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_conn_attr ca = {.size = sizeof(ca), .timeout_us = 1000000};
	struct weft_qp_attr qa;
	struct weft_event ev;
	struct vt t;

	vt_open(&t, NULL);
	vt_listen(&t.n[1]);
	for (unsigned int i = 0; i < 2; i++) {
		qa = vt_qp_attr(&t.n[i]);
		CHECK_EQ(weft_qp_create(t.n[i].pd, &qa, &t.n[i].qp), 0);
	}
	CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), &ca), 0);
	ev = vt_ev(&t.n[1], WEFT_EV_CONNECT_REQUEST);
	vt_run(&t, 3 * VT_S); /* the peer gives up */
	CHECK_EQ(weft_accept(ev.connreq, t.n[1].qp, NULL), -ECONNABORTED);
	/* the QP is unchanged and can be used again */
	vt_ev(&t.n[0], WEFT_EV_CONNECT_ERROR);
	weft_qp_destroy(t.n[0].qp);
	qa = vt_qp_attr(&t.n[0]);
	CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &t.n[0].qp), 0);
	CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), &ca), 0);
	ev = vt_ev(&t.n[1], WEFT_EV_CONNECT_REQUEST);
	CHECK_EQ(weft_accept(ev.connreq, t.n[1].qp, NULL), 0);
	vt_ev(&t.n[0], WEFT_EV_ESTABLISHED);
	vt_ev(&t.n[1], WEFT_EV_ESTABLISHED);
	vt_close(&t);
}

static void
test_answer_timeout(void)
{
	struct weft_listen_attr la = {
	        .size = sizeof(la), .startup_timeout_us = 500000, .backlog = 2};
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	/* revision 2 alone: otherwise a connection that is closed during start-up is tried again
	 * with revision 1 */
	struct weft_conn_attr ca = {.size = sizeof(ca), .timeout_us = 60000000, .mpa_rev = 2};
	struct weft_qp *qp[3];
	struct weft_qp_attr qa;
	struct weft_event ev;
	uint64_t start;
	struct vt t;

	vt_open(&t, NULL);
	la.evq = t.n[1].evq;
	CHECK_EQ(weft_listen(t.n[1].ctx, (struct sockaddr *)&sa, sizeof(sa), &la, &t.n[1].lsn), 0);
	qa = vt_qp_attr(&t.n[0]);
	start = sim_now_ns(t.sim);
	for (unsigned int i = 0; i < 3; i++) {
		CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &qp[i]), 0);
		CHECK_EQ(weft_connect(qp[i], (struct sockaddr *)&sa, sizeof(sa), &ca), 0);
	}
	/* Two requests wait, and the third is refused at once. They are not answered, so they time
	 * out. */
	ev = vt_ev(&t.n[0], WEFT_EV_CONNECT_ERROR);
	CHECK(sim_now_ns(t.sim) - start < 100 * VT_MS);
	CHECK_EQ(ev.status, -ECONNRESET);
	vt_ev(&t.n[0], WEFT_EV_CONNECT_ERROR);
	vt_ev(&t.n[0], WEFT_EV_CONNECT_ERROR);
	CHECK(sim_now_ns(t.sim) - start < VT_S);
	/* their events were not polled, and are gone */
	CHECK_EQ(weft_evq_poll(t.n[1].evq, &ev), 0);
	for (unsigned int i = 0; i < 3; i++)
		weft_qp_destroy(qp[i]);
	vt_connect(&t, NULL, NULL);
	vt_close(&t);
}

static void
test_listen(void)
{
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct sockaddr_in sa = vt_addr(1, VT_PORT), any = {.sin_family = AF_INET}, other;
	struct weft_listener *l[2];
	struct weft_qp_attr qa;
	struct weft_event ev;
	struct vt t;

	vt_open(&t, NULL);
	CHECK_EQ(weft_listen(t.n[1].ctx, (struct sockaddr *)&sa, sizeof(sa), &la, &l[0]), -EINVAL);
	la.evq = t.n[1].evq;
	other = vt_addr(0, VT_PORT);
	CHECK_EQ(weft_listen(t.n[1].ctx, (struct sockaddr *)&other, sizeof(other), &la, &l[0]),
	         -EADDRNOTAVAIL);
	CHECK_EQ(weft_listen(t.n[1].ctx, (struct sockaddr *)&any, sizeof(any), &la, &l[0]),
	         -EINVAL);
	any.sin_port = sa.sin_port;
	CHECK_EQ(weft_listen(t.n[1].ctx, (struct sockaddr *)&any, sizeof(any), &la, &t.n[1].lsn),
	         0);
	CHECK_EQ(weft_listen(t.n[1].ctx, (struct sockaddr *)&any, sizeof(any), &la, &l[1]),
	         -EADDRINUSE);
	CHECK_EQ(weft_evq_destroy(t.n[1].evq), -EBUSY);
	vt_connect(&t, NULL, NULL);
	/* unlisten with one request that the consumer has polled, and one that it has not */
	struct weft_qp *qp[2];
	struct weft_connreq *r;
	qa = vt_qp_attr(&t.n[0]);
	for (unsigned int i = 0; i < 2; i++) {
		CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &qp[i]), 0);
		CHECK_EQ(weft_connect(qp[i], (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
	}
	r = vt_ev(&t.n[1], WEFT_EV_CONNECT_REQUEST).connreq;
	vt_run(&t, 10 * VT_MS);
	weft_unlisten(t.n[1].lsn);
	t.n[1].lsn = NULL;
	vt_ev(&t.n[0], WEFT_EV_REJECTED);
	vt_ev(&t.n[0], WEFT_EV_REJECTED);
	CHECK_EQ(weft_evq_poll(t.n[1].evq, &ev), 0);
	qa = vt_qp_attr(&t.n[1]);
	struct weft_qp *late;
	CHECK_EQ(weft_qp_create(t.n[1].pd, &qa, &late), 0);
	CHECK_EQ(weft_accept(r, late, NULL), -ECONNABORTED);
	weft_qp_destroy(late);
	weft_qp_destroy(qp[0]);
	weft_qp_destroy(qp[1]);
	/* the established connection stays, and new ones are refused */
	CHECK_EQ(weft_disconnect(t.n[1].qp), 0);
	vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
	vt_ev(&t.n[1], WEFT_EV_DISCONNECTED);
	vt_close(&t);
}

/** The listener is closed, and the consumer answers a request later, when the stream has long
 * ended. */
static void
test_unlisten_answer_late(void)
{
	/* i % 2: 0 accepts, 1 rejects. i / 2: 0 the peer closes first, 1 the peer is gone and a
	 * timer ends the stream, 2 the answer comes at once. */
	for (unsigned int i = 0; i < 6; i++) {
		struct weft_conn_attr ca = {.size = sizeof(ca), .timeout_us = 60000000};
		struct sim_link_cfg dead = {.loss_ppm = 1000000, .delay_ns = 1000};
		struct sockaddr_in sa = vt_addr(1, VT_PORT);
		struct weft_connreq *r;
		struct weft_qp_attr qa;
		struct weft_event ev;
		struct vt t;

		vt_open(&t, NULL);
		vt_listen(&t.n[1]);
		for (unsigned int k = 0; k < 2; k++) {
			qa = vt_qp_attr(&t.n[k]);
			CHECK_EQ(weft_qp_create(t.n[k].pd, &qa, &t.n[k].qp), 0);
		}
		CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), &ca), 0);
		r = vt_ev(&t.n[1], WEFT_EV_CONNECT_REQUEST).connreq;
		if (i / 2 == 1) {
			sim_link_set(t.link, 0, &dead);
			sim_link_set(t.link, 1, &dead);
		}
		weft_unlisten(t.n[1].lsn);
		t.n[1].lsn = NULL;
		if (i / 2 < 2)
			vt_run(&t, 300 * VT_S);
		if (i % 2 == 0)
			CHECK_EQ(weft_accept(r, t.n[1].qp, NULL), -ECONNABORTED);
		else
			weft_reject(r, NULL, 0);
		/* The rejection reaches the peer, whenever the consumer answers. */
		if (i / 2 != 1)
			vt_ev(&t.n[0], WEFT_EV_REJECTED);
		vt_run(&t, 20 * VT_S);
		CHECK_EQ(weft_evq_poll(t.n[1].evq, &ev), 0);
		CHECK(TAILQ_EMPTY(&weft_vworker_of(t.n[1].w)->cm->connreqs));
		vt_close(&t);
	}
}

static void
test_peer_vanishes(void)
{
	struct weft_conn_attr ca = {.size = sizeof(ca), .keepalive_us = 3000000};
	struct sim_link_cfg dead = {.loss_ppm = 1000000, .delay_ns = 1000};
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_qp_attr qa;
	struct weft_event ev;
	struct vt t;

	vt_open(&t, NULL);
	vt_listen(&t.n[1]);
	for (unsigned int i = 0; i < 2; i++) {
		qa = vt_qp_attr(&t.n[i]);
		CHECK_EQ(weft_qp_create(t.n[i].pd, &qa, &t.n[i].qp), 0);
	}
	CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
	ev = vt_ev(&t.n[1], WEFT_EV_CONNECT_REQUEST);
	CHECK_EQ(weft_accept(ev.connreq, t.n[1].qp, &ca), 0);
	vt_ev(&t.n[0], WEFT_EV_ESTABLISHED);
	vt_ev(&t.n[1], WEFT_EV_ESTABLISHED);
	vt_run(&t, 10 * VT_S);
	CHECK_EQ(weft_evq_poll(t.n[1].evq, &ev), 0);
	sim_link_set(t.link, 0, &dead);
	sim_link_set(t.link, 1, &dead);
	ev = vt_ev(&t.n[1], WEFT_EV_DISCONNECTED);
	CHECK_EQ(ev.status, -ETIMEDOUT);
	vt_close(&t);
}

/* ---- A peer whose TCP works and which sends no RDMAP message ---- */

struct silent {
	struct vt t;
	struct weft_mpa mpa;
	bool closed;
};

static void
silent_request(void *user, const struct weft_mpa_frame *f)
{
	struct silent *s = user;

	(void)f;
	CHECK_EQ(weft_mpa_accept(&s->mpa, 8, 8, NULL, 0, sim_now_ns(s->t.sim)), 0);
}

static void
silent_ulpdu(void *user, const struct weft_frag *frag, unsigned int nfrags, uint32_t len_bytes,
             uint64_t now_ns)
{
	(void)user;
	(void)frag;
	(void)nfrags;
	(void)len_bytes;
	(void)now_ns;
}

static void
silent_nothing(void *user)
{
	(void)user;
}

static void
silent_mulpdu(void *user, uint16_t mulpdu_bytes)
{
	(void)user;
	(void)mulpdu_bytes;
}

static void
silent_closed(void *user, int err)
{
	struct silent *s = user;

	(void)err;
	s->closed = true;
}

static const struct weft_mpa_ops silent_ops = {
        .request = silent_request,
        .ulpdu = silent_ulpdu,
        .writable = silent_nothing,
        .mulpdu = silent_mulpdu,
        .eof = silent_nothing, /* the peer never closes */
        .closed = silent_closed,
};

static int
silent_accept(void *arg, struct weft_tcp_conn *c)
{
	struct silent *s = arg;

	return weft_mpa_respond(&s->mpa, c, inside_sched(s->t.n[1].w), 0, &silent_ops, s,
	                        sim_now_ns(s->t.sim));
}

/** A disconnect ends, whatever requests are outstanding. */
static void
test_disconnect_silent(void)
{
	for (unsigned int reading = 0; reading < 2; reading++) {
		static const struct weft_ip any;
		static struct silent s;
		struct sockaddr_in sa = vt_addr(1, VT_PORT);
		struct weft_tcp_listener *lsn;
		struct weft_qp_attr qa;
		struct weft_event ev;
		uint64_t start;

		memset(&s, 0, sizeof(s));
		vt_open(&s.t, NULL);
		vt_mem(&s.t.n[0], 4096, WEFT_ACCESS_LOCAL_WRITE);
		CHECK_EQ(weft_tcp_listen(weft_engine_tcp(s.t.n[1].w), &any, 128, VT_PORT, 8,
		                         silent_accept, &s, &lsn),
		         0);
		qa = vt_qp_attr(&s.t.n[0]);
		CHECK_EQ(weft_qp_create(s.t.n[0].pd, &qa, &s.t.n[0].qp), 0);
		CHECK_EQ(weft_connect(s.t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
		vt_ev(&s.t.n[0], WEFT_EV_ESTABLISHED);
		if (reading) {
			struct weft_sge sg = {s.t.n[0].mem, 64, weft_mr_stag(s.t.n[0].mr)};
			struct weft_wr wr = {.wr_id = 5,
			                     .opcode = WEFT_WR_READ,
			                     .sg_list = &sg,
			                     .num_sge = 1,
			                     .rdma = {.stag = 77}};

			vt_post(&s.t.n[0], &wr);
			vt_run(&s.t, VT_S);
		}
		start = sim_now_ns(s.t.sim);
		CHECK_EQ(weft_disconnect(s.t.n[0].qp), 0);
		if (reading) {
			struct weft_wc wc = {0};

			for (unsigned int i = 0; i < 300 && wc.wr_id == 0; i++) {
				vt_run(&s.t, VT_S);
				CHECK(weft_cq_poll(s.t.n[0].cq, &wc, 1) >= 0);
			}
			CHECK_EQ(wc.wr_id, 5);
			CHECK_EQ(wc.status, WEFT_WC_FLUSHED);
		}
		for (unsigned int i = 0; weft_evq_poll(s.t.n[0].evq, &ev) == 0; i++) {
			CHECK(i < 300);
			vt_run(&s.t, VT_S);
		}
		CHECK_EQ(ev.type, WEFT_EV_DISCONNECTED);
		CHECK(ev.status != 0);
		CHECK(sim_now_ns(s.t.sim) - start < 200 * VT_S);
		vt_run(&s.t, VT_S);
		CHECK(s.closed);
		weft_mpa_fini(&s.mpa);
		weft_tcp_unlisten(weft_engine_tcp(s.t.n[1].w), lsn);
		vt_close(&s.t);
	}
}

static void *
connect_elsewhere(void *qp)
{
	struct sockaddr_in sa = vt_addr(1, VT_PORT);

	CHECK_EQ(weft_connect(qp, (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
	return NULL;
}

/** No connection is free. On the worker's thread the call reports it, on another thread an event
 * does. */
static void
test_connect_no_room(void)
{
	struct vt_attr va = {.max_conns = {1}};
	struct sockaddr_in sa = vt_addr(1, VT_PORT), back = vt_addr(0, VT_PORT);
	struct weft_event ev, asked;
	struct weft_qp_attr a;
	struct weft_qp *qp;
	pthread_t th;
	struct vt t;
	int rc;

	vt_open(&t, &va);
	vt_listen(&t.n[0]);
	a = vt_qp_attr(&t.n[1]);
	CHECK_EQ(weft_qp_create(t.n[1].pd, &a, &t.n[1].qp), 0);
	CHECK_EQ(weft_connect(t.n[1].qp, (struct sockaddr *)&back, sizeof(back), NULL), 0);
	asked = vt_ev(&t.n[0], WEFT_EV_CONNECT_REQUEST); /* this request has the only connection */
	a = vt_qp_attr(&t.n[0]);
	CHECK_EQ(weft_qp_create(t.n[0].pd, &a, &qp), 0);
	rc = weft_connect(qp, (struct sockaddr *)&sa, sizeof(sa), NULL);
	CHECK(rc < 0 && rc != -EISCONN);
	/* the QP is unchanged */
	CHECK_EQ(weft_connect(qp, (struct sockaddr *)&sa, sizeof(sa), NULL), rc);
	CHECK_EQ(pthread_create(&th, NULL, connect_elsewhere, qp), 0);
	CHECK_EQ(pthread_join(th, NULL), 0);
	ev = vt_ev(&t.n[0], WEFT_EV_CONNECT_ERROR);
	CHECK(ev.qp == qp && ev.status == rc);
	weft_reject(asked.connreq, NULL, 0);
	weft_qp_destroy(qp);
	vt_close(&t);
}

static void
test_destroy_connecting(void)
{
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_qp_attr qa;
	struct weft_event ev;
	struct vt t;

	/* step: 10 us of the start-up */
	for (unsigned int step = 0; step < 40; step++) {
		vt_open(&t, NULL);
		vt_listen(&t.n[1]);
		qa = vt_qp_attr(&t.n[0]);
		CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &t.n[0].qp), 0);
		CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
		vt_run(&t, step * 10000ULL);
		if (step % 2 == 0) {
			weft_qp_destroy(t.n[0].qp);
			t.n[0].qp = NULL;
		} else {
			CHECK_EQ(weft_disconnect(t.n[0].qp), 0);
			ev = vt_ev(&t.n[0], WEFT_EV_CONNECT_ERROR);
			CHECK_EQ(ev.status, -ECONNABORTED);
		}
		vt_run(&t, VT_S);
		CHECK_EQ(weft_evq_poll(t.n[0].evq, &ev), 0);
		/* the request is gone, or never arrived */
		CHECK_EQ(weft_evq_poll(t.n[1].evq, &ev), 0);
		vt_close(&t);
	}
}

/** The DSCPs that each end has sent, as bits; of IPv4 and IPv6 TCP segments. */
static uint64_t dscps[2];

static void
dscp_tap(void *arg, unsigned int from_end, bool delivered, const uint8_t *f, uint32_t len_bytes,
         uint64_t now_ns)
{
	(void)arg;
	(void)len_bytes;
	(void)now_ns;
	if (delivered)
		return;
	if (f[12] == 0x08 && f[13] == 0x00 && f[23] == 6)
		dscps[from_end] |= 1ULL << (f[15] >> 2);
	if (f[12] == 0x86 && f[13] == 0xdd && f[20] == 6)
		dscps[from_end] |= 1ULL << ((f[14] << 2 & 0x3c) | f[15] >> 6);
}

/* Everything of a connection, from SYN and SYN-ACK to the RST, has the DSCP that the attributes
 * name: of the opener, of the listener, and from the acceptance on of the acceptor. */
static void
test_dscp(void)
{
	for (unsigned int family = VT_V4; family <= VT_V6; family++) {
		struct weft_conn_attr ca[2] = {{.size = sizeof(ca[0])}, {.size = sizeof(ca[1])}};
		struct weft_listen_attr la = {.size = sizeof(la), .dscp = WEFT_DSCP(10)};
		struct sockaddr_storage sa;
		struct weft_qp_attr qa[2];
		socklen_t len;
		struct vt t;

		vt_open(&t, &(struct vt_attr){.family = family});
		dscps[0] = dscps[1] = 0;
		sim_link_tap(t.link, dscp_tap, NULL);
		sa = vt_addr_of(family, 1, VT_PORT, &len);
		la.evq = t.n[1].evq;
		la.user = &t.n[1];
		CHECK_EQ(weft_listen(t.n[1].ctx, (struct sockaddr *)&sa, len, &la, &t.n[1].lsn), 0);
		for (unsigned int i = 0; i < 2; i++)
			qa[i] = vt_qp_attr(&t.n[i]);
		ca[0].dscp = WEFT_DSCP(46);
		vt_connect_as(&t, qa, ca);
		CHECK_EQ(dscps[0], 1ULL << 46);
		CHECK_EQ(dscps[1], 1ULL << 10);
		CHECK_EQ(weft_abort(t.n[0].qp), 0);
		vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
		vt_ev(&t.n[1], WEFT_EV_DISCONNECTED);
		CHECK_EQ(dscps[0], 1ULL << 46);
		/* The acceptor's, also if it is 0; the opener's default is the port's: 0. */
		weft_qp_destroy(t.n[0].qp);
		weft_qp_destroy(t.n[1].qp);
		dscps[0] = dscps[1] = 0;
		ca[0].dscp = 0;
		ca[1].dscp = WEFT_DSCP(0);
		vt_connect_as(&t, qa, ca);
		CHECK_EQ(dscps[0], 1);
		CHECK_EQ(dscps[1], 1ULL << 10 | 1);
		vt_close(&t);
	}
}

static void
test_dscp_refused(void)
{
	const uint64_t bad[] = {1, 63, 64, WEFT_DSCP(64), WEFT_DSCP(0) << 1, UINT64_MAX};
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct weft_conn_attr ca = {.size = sizeof(ca)};
	struct weft_listener *l;
	struct weft_qp_attr qa;
	struct vt t;

	vt_open(&t, NULL);
	qa = vt_qp_attr(&t.n[0]);
	la.evq = t.n[1].evq;
	CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &t.n[0].qp), 0);
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		la.dscp = ca.dscp = bad[i];
		CHECK_EQ(weft_listen(t.n[1].ctx, (struct sockaddr *)&sa, sizeof(sa), &la, &l),
		         -EINVAL);
		CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), &ca), -EINVAL);
	}
	vt_close(&t);
}

static void
test_create_errors(void)
{
	struct weft_qp_attr qa;
	struct weft_cq_attr ca = {.size = sizeof(ca)};
	struct weft_cq *cq;
	struct weft_qp *qp;
	struct vt t;

	vt_open(&t, NULL);
	qa = vt_qp_attr(&t.n[0]);
	qa.size = 0;
	CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &qp), -EINVAL);
	qa = vt_qp_attr(&t.n[0]);
	qa.worker = t.n[1].w;
	CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &qp), -EINVAL);
	qa = vt_qp_attr(&t.n[0]);
	qa.evq = NULL;
	CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &qp), -EINVAL);
	qa = vt_qp_attr(&t.n[0]);
	qa.ird = 0x3fff;
	CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &qp), -EINVAL);
	CHECK_EQ(weft_cq_create(t.n[0].ctx, &ca, &cq), -EINVAL);
	CHECK_EQ(weft_cq_create(t.n[0].ctx, NULL, &cq), -EINVAL);
	qa = vt_qp_attr(&t.n[0]);
	CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &t.n[0].qp), 0);
	CHECK_EQ(weft_cq_destroy(t.n[0].cq), -EBUSY);
	CHECK_EQ(weft_evq_destroy(t.n[0].evq), -EBUSY);
	CHECK_EQ(weft_pd_dealloc(t.n[0].pd), -EBUSY);
	/* a caller of a later version, whose structure has unknown members */
	struct {
		struct weft_qp_attr a;
		uint64_t more;
	} future = {.a = vt_qp_attr(&t.n[0])};
	future.a.size = sizeof(future);
	CHECK_EQ(weft_qp_create(t.n[0].pd, &future.a, &qp), 0);
	weft_qp_destroy(qp);
	future.more = 1;
	CHECK_EQ(weft_qp_create(t.n[0].pd, &future.a, &qp), -EINVAL);
	vt_close(&t);
}

WEFT_TEST_MAIN({"connect and disconnect", test_connect}, {"abort", test_abort},
               {"private data, revision 1 and 2", test_private_data}, {"reject", test_reject},
               {"IRD and ORD", test_ird_ord}, {"IRD and ORD of a connection", test_ird_ord_of_conn},
               {"refused and unreachable", test_refused}, {"connect timeout", test_connect_timeout},
               {"accept too late", test_accept_late},
               {"nobody answers; backlog", test_answer_timeout},
               {"listen and unlisten", test_listen},
               {"unlisten, answered late", test_unlisten_answer_late},
               {"peer vanishes", test_peer_vanishes},
               {"disconnect from a silent peer", test_disconnect_silent},
               {"destroyed while connecting", test_destroy_connecting},
               {"connect without room", test_connect_no_room},
               {"DSCP of listener, opener and acceptor", test_dscp},
               {"what is no DSCP is refused", test_dscp_refused},
               {"errors of creation", test_create_errors})
