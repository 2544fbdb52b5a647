/* SPDX-License-Identifier: BSD-3-Clause */
/** @file RFC 5042 s6.4: limits on the resources that one peer can take. Other peers are served
 * meanwhile. */

#include <arpa/inet.h>

#include "cm_peer.h"
#include "weft_verbs_event.h"
#include "vt.h"
#include "vt_raw.h"

#define HOSTILE 20

static void
listen_with(struct vt *t, uint32_t backlog, uint32_t requests, uint32_t conns)
{
	struct weft_listen_attr la = {.size = sizeof(la),
	                              .evq = t->n[1].evq,
	                              .backlog = backlog,
	                              .startup_timeout_us = 2000000,
	                              .max_requests_per_peer = requests,
	                              .max_conns_per_peer = conns};
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = rte_cpu_to_be_16(VT_PORT)};

	CHECK_EQ(weft_listen(t->n[1].ctx, (struct sockaddr *)&any, sizeof(any), &la, &t->n[1].lsn),
	         0);
}

static struct weft_worker_stats
stats(struct vt *t)
{
	struct weft_worker_stats st;

	weft_worker_stats(t->n[1].w, &st);
	return st;
}

/** Silent connections fill the limit of one address and do not exceed it. */
static void
test_requests(void)
{
	struct raw_conn h[2 * HOSTILE] = {0};
	struct vt t;

	vt_open(&t, NULL);
	listen_with(&t, 8, 4, 0);
	raw_connect(&t, VT_V4, h, HOSTILE);
	CHECK_EQ(raw_alive(h, HOSTILE), 4);
	CHECK_EQ(stats(&t).requests_evicted, HOSTILE - 4);
	CHECK_EQ(stats(&t).requests_refused_peer + stats(&t).requests_refused, 0);
	/* another address is served */
	t.family = VT_V6;
	vt_connect(&t, NULL, NULL);
	/* their places are free again when they do not start up in time */
	vt_run(&t, 10 * VT_S);
	CHECK_EQ(raw_alive(h, HOSTILE), 0);
	raw_connect(&t, VT_V4, h + HOSTILE, 3);
	CHECK_EQ(raw_alive(h + HOSTILE, 3), 3);
	CHECK_EQ(stats(&t).requests_evicted, HOSTILE - 4);
	for (unsigned int i = 0; i < 3; i++)
		weft_tcp_abort(h[HOSTILE + i].conn, sim_now_ns(t.sim));
	vt_close(&t);
}

/** Without max_requests_per_peer, one address may take all of a small backlog. */
static void
test_backlog(void)
{
	struct raw_conn h[HOSTILE] = {0};
	struct vt t;

	vt_open(&t, NULL);
	listen_with(&t, 8, 0, 0);
	raw_connect(&t, VT_V4, h, HOSTILE);
	CHECK_EQ(raw_alive(h, HOSTILE), 8);
	CHECK_EQ(stats(&t).requests_evicted, HOSTILE - 8);
	CHECK_EQ(stats(&t).requests_refused_peer + stats(&t).requests_refused, 0);
	vt_run(&t, 10 * VT_S);
	CHECK_EQ(raw_alive(h, HOSTILE), 0);
	vt_close(&t);
}

/** Established connections count until they end, however they end. */
static void
test_conns(void)
{
	struct weft_qp_attr a;
	struct weft_qp *qp[2][4];
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_event ev;
	struct vt t;

	vt_open(&t, NULL);
	listen_with(&t, 8, 0, 3);
	for (unsigned int i = 0; i < 3; i++) {
		vt_connect(&t, NULL, NULL);
		for (unsigned int k = 0; k < 2; k++) {
			qp[k][i] = t.n[k].qp;
			t.n[k].qp = NULL;
		}
	}
	for (unsigned int round = 0; round < 3; round++) {
		/* revision 2 alone: otherwise a reset is followed by a second attempt */
		struct weft_conn_attr ca = {.size = sizeof(ca), .mpa_rev = 2};
		struct weft_qp *over;

		/* the fourth connection */
		a = vt_qp_attr(&t.n[0]);
		CHECK_EQ(weft_qp_create(t.n[0].pd, &a, &over), 0);
		CHECK_EQ(weft_connect(over, (struct sockaddr *)&sa, sizeof(sa), &ca), 0);
		ev = vt_ev(&t.n[0], WEFT_EV_CONNECT_ERROR);
		CHECK_EQ(ev.status, -ECONNRESET);
		CHECK_EQ(stats(&t).conns_refused_peer, round + 1);
		weft_qp_destroy(over);
		/* one connection ends: the peer resets it, node 1 destroys it, or it is closed in
		 * order */
		if (round == 0) {
			weft_qp_destroy(qp[0][round]);
			vt_ev(&t.n[1], WEFT_EV_DISCONNECTED);
			weft_qp_destroy(qp[1][round]);
		} else if (round == 1) {
			weft_qp_destroy(qp[1][round]);
			vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
			weft_qp_destroy(qp[0][round]);
		} else {
			CHECK_EQ(weft_disconnect(qp[0][round]), 0);
			vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
			vt_ev(&t.n[1], WEFT_EV_DISCONNECTED);
			weft_qp_destroy(qp[1][round]);
			weft_qp_destroy(qp[0][round]);
		}
		vt_connect(&t, NULL, NULL);
		for (unsigned int k = 0; k < 2; k++) {
			qp[k][round] = t.n[k].qp;
			t.n[k].qp = NULL;
		}
	}
	for (unsigned int i = 0; i < 6; i++)
		weft_qp_destroy(qp[i % 2][i / 2]);
	vt_run(&t, VT_S);
	vt_close(&t);
}

/** A peer connects and resets, again and again. No events remain for a consumer that does not
 * poll. */
static void
test_events(void)
{
	struct vt_node *n;
	struct weft_event ev;
	struct vt t;

	vt_open(&t, NULL);
	n = &t.n[0];
	listen_with(&t, 8, 0, 0);
	for (unsigned int i = 0; i < 200; i++) {
		struct weft_qp_attr a = vt_qp_attr(n);
		struct sockaddr_in sa = vt_addr(1, VT_PORT);
		struct weft_evnode *e;
		unsigned int queued = 0;

		CHECK_EQ(weft_qp_create(n->pd, &a, &n->qp), 0);
		CHECK_EQ(weft_connect(n->qp, (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
		vt_run(&t, 5 * VT_MS);
		TAILQ_FOREACH (e, &t.n[1].evq->list, link)
			queued++;
		CHECK_EQ(queued, 1);
		weft_qp_destroy(n->qp);
		n->qp = NULL;
		vt_run(&t, 5 * VT_MS);
	}
	CHECK_EQ(weft_evq_poll(t.n[1].evq, &ev), 0);
	vt_close(&t);
}

/** A host may have 2^64 addresses of a /64 and choose them. It gets one share whatever it
 * chooses. */
static void
test_who(void)
{
	enum { N = 512 };
	static const char *const texts[] = {"2001:db8::1",    "2001:db8::2", "2001:db8:0:1::1",
	                                    "fe80::1",        "fe80::2",     "::ffff:10.0.0.1",
	                                    "::ffff:10.0.0.2"};
	static const unsigned int same[] = {0, 0, 2, 3, 3, 5, 6};
	struct cm_peer *p[N], *q;
	unsigned int most = 0;
	struct weft_vworker *vw;
	struct weft_ip ip;
	struct vt t;

	vt_open(&t, NULL);
	vw = weft_vworker_of(t.n[1].w);
	for (unsigned int i = 0; i < RTE_DIM(texts); i++) {
		CHECK_EQ(inet_pton(AF_INET6, texts[i], ip.b), 1);
		p[i] = cm_peer_call(vw, &ip);
		for (unsigned int k = 0; k < i; k++)
			CHECK_MSG((p[k] == p[i]) == (same[k] == same[i]), "%s and %s", texts[k],
			          texts[i]);
	}
	for (unsigned int i = 0; i < RTE_DIM(texts); i++)
		cm_peer_hang_up(p[i]);

	/* Without a key in the hash, all these addresses would fall into one bucket. */
	for (uint64_t i = 0, n = 0; n < N; i++) {
		uint64_t w[2] = {i << 32 | 0x20, 0};

		if (((w[0] * 0x9e3779b97f4a7c15ULL) >> 32) % CM_PEER_BUCKETS != 0)
			continue;
		memcpy(ip.b, w, sizeof(w));
		p[n++] = cm_peer_call(vw, &ip);
	}
	for (unsigned int i = 0; i < CM_PEER_BUCKETS; i++) {
		unsigned int n = 0;

		LIST_FOREACH (q, &vw->cm->peers[i], link)
			n++;
		most = RTE_MAX(most, n);
	}
	CHECK_MSG(most < 20, "%u in one bucket", most);
	for (unsigned int i = 0; i < N; i++)
		cm_peer_hang_up(p[i]);
	vt_close(&t);
}

WEFT_TEST_MAIN({"addresses that are one peer", test_who}, {"requests of one peer", test_requests},
               {"backlog", test_backlog}, {"connections of one peer", test_conns},
               {"events of one peer", test_events})
