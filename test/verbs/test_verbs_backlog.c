/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A backlog full of silent connections does not keep other clients out (RFC 5042 s6.4.1). The tests
 * show which connection is evicted for a new one and which connections are never evicted. Three
 * addresses are used: IPv4, IPv6 and IPv6 link-local.
 */

#include "cm_peer.h"
#include "vt.h"
#include "vt_raw.h"

#define BACKLOG 128 /* the default */
#define STALL   (2 * VT_S)

static struct raw_conn h[4][2 * BACKLOG];
static struct vt t;

/** MPA Request of revision 1 without private data (RFC 5044 s7.1.1). */
static const uint8_t request[20] = "MPA ID Req Frame\x40\x01";

static void
start(const struct vt_attr *va, uint32_t backlog)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = rte_cpu_to_be_16(VT_PORT)};
	struct weft_listen_attr la = {
	        .size = sizeof(la), .backlog = backlog, .startup_timeout_us = 60000000};

	memset(h, 0, sizeof(h));
	vt_open(&t, va);
	la.evq = t.n[1].evq;
	CHECK_EQ(weft_listen(t.n[1].ctx, (struct sockaddr *)&any, sizeof(any), &la, &t.n[1].lsn),
	         0);
}

static void
stop(void)
{
	for (unsigned int f = 0; f < RTE_DIM(h); f++)
		for (unsigned int i = 0; i < RTE_DIM(h[f]); i++)
			if (h[f][i].conn != NULL)
				weft_tcp_abort(h[f][i].conn, sim_now_ns(t.sim));
	vt_run(&t, VT_S);
	vt_close(&t);
}

static struct weft_worker_stats
stats(void)
{
	struct weft_worker_stats st;

	weft_worker_stats(t.n[1].w, &st);
	return st;
}

/** The number of requests that node 1 counts for an address. */
static uint32_t
requests(enum vt_family family)
{
	socklen_t len;
	struct sockaddr_storage sa = vt_addr_of(family, 0, VT_PORT, &len);
	struct weft_ip ip;
	uint16_t port;

	CHECK_EQ(weft_ip_from_sockaddr((struct sockaddr *)&sa, &ip, &port), 0);
	return cm_peer_requests(weft_vworker_of(t.n[1].w), &ip);
}

/** A client of that address is connected within 10 ms. */
static void
serve(enum vt_family family)
{
	uint64_t before = sim_now_ns(t.sim);

	t.family = family;
	vt_connect(&t, NULL, NULL);
	CHECK(sim_now_ns(t.sim) - before < 10 * VT_MS);
	for (unsigned int i = 0; i < 2; i++) {
		weft_qp_destroy(t.n[i].qp);
		t.n[i].qp = NULL;
	}
	vt_run(&t, 10 * VT_MS);
	while (weft_evq_poll(t.n[0].evq, &(struct weft_event){0}) > 0)
		;
	while (weft_evq_poll(t.n[1].evq, &(struct weft_event){0}) > 0)
		;
}

/** 128 silent connections come from two addresses. Then clients of a third address and of the same
 * two addresses connect. */
static void
silent(const struct vt_attr *va, bool cookies)
{
	start(va, 0);
	raw_connect(&t, VT_V4, h[0], BACKLOG / 2);
	raw_connect(&t, VT_V6_LL, h[1], BACKLOG / 2);
	/* Each address has its share, and the backlog is exactly full. */
	CHECK_EQ(raw_alive(h[0], BACKLOG) + raw_alive(h[1], BACKLOG), BACKLOG);
	CHECK_EQ(stats().requests_evicted, 0);
	serve(VT_V6);
	CHECK_EQ(stats().requests_evicted, 1);
	CHECK(h[0][0].conn == NULL && h[0][0].closed == 1);
	CHECK_EQ(raw_alive(h[0] + 1, BACKLOG) + raw_alive(h[1], BACKLOG), BACKLOG - 1);
	serve(VT_V6_LL);
	CHECK(h[1][0].conn == NULL);
	raw_connect(&t, VT_V4, h[0] + BACKLOG, 2);
	CHECK_EQ(requests(VT_V4), BACKLOG / 2);
	serve(VT_V4);
	CHECK_EQ(stats().requests_refused + stats().requests_refused_peer, 0);
	CHECK_EQ(weft_tcp_stats(weft_engine_tcp(t.n[1].w))->syn_cookies_ok > 0, cookies);
	/* A flood of silent connections changes nothing. */
	for (unsigned int round = 0; round < 8; round++) {
		raw_connect(&t, VT_V4, h[2], BACKLOG);
		CHECK_EQ(requests(VT_V4), BACKLOG / 2);
		serve(VT_V6);
		serve(VT_V4);
		for (unsigned int i = 0; i < BACKLOG; i++)
			if (h[2][i].conn != NULL)
				weft_tcp_abort(h[2][i].conn, sim_now_ns(t.sim));
		memset(h[2], 0, sizeof(h[2]));
	}
	stop();
}

static void
test_silent(void)
{
	silent(NULL, false);
}

/** Connections made by SYN cookies have no more rights than others. */
static void
test_cookies(void)
{
	silent(&(struct vt_attr){.tcp = {.syn_cookies = WEFT_TCP_COOKIES_ALWAYS}}, true);
}

/** The oldest connection is evicted first, one for each new connection. */
static void
test_oldest(void)
{
	start(NULL, 8);
	for (unsigned int i = 0; i < 24; i++) {
		raw_connect(&t, VT_V4, &h[0][i], 1);
		for (unsigned int k = 0; k <= i; k++)
			CHECK_EQ(h[0][k].conn != NULL, k + 8 > i);
		CHECK_EQ(stats().requests_evicted, i < 8 ? 0 : i - 7);
	}
	stop();
}

/** An address with fewer connections than the others loses none to them, even if its connections
 * are the oldest. */
static void
test_share(void)
{
	start(NULL, 16);
	raw_connect(&t, VT_V6, h[0], 2);
	raw_connect(&t, VT_V4, h[1], 8);
	raw_connect(&t, VT_V6_LL, h[2], 6);
	CHECK_EQ(stats().requests_evicted, 0);
	raw_connect(&t, VT_V6_LL, &h[2][6], 1);
	CHECK_EQ(raw_alive(h[0], 2), 2);
	CHECK(h[1][0].conn == NULL);
	CHECK_EQ(requests(VT_V4), 7);
	CHECK_EQ(requests(VT_V6_LL), 7);
	/* With an eighth connection this address would have more than any other. Its own oldest
	 * connection is evicted. */
	raw_connect(&t, VT_V6_LL, &h[2][7], 1);
	CHECK(h[2][0].conn == NULL);
	CHECK_EQ(requests(VT_V4), 7);
	CHECK_EQ(requests(VT_V6_LL), 7);
	CHECK_EQ(raw_alive(h[0], 2), 2);
	stop();
}

/** Connections arrive in random order. An address keeps the connections that it has within a third
 * of the backlog. */
static void
test_fair(void)
{
	static const enum vt_family family[] = {VT_V4, VT_V6, VT_V6_LL};
	uint64_t rng = 88172645463325252ULL;

	for (unsigned int round = 0; round < 20; round++) {
		unsigned int n[3] = {0}, kept[3] = {0};

		start(&(struct vt_attr){.seed = round + 1}, 30);
		for (unsigned int i = 0; i < 120; i++) {
			/* Two addresses open many connections, one opens few. */
			unsigned int f = i % 12 == 11 && n[round % 3] < 10
			                         ? round % 3
			                         : (round + 1 + (rng >> 20) % 2) % 3;

			rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
			raw_connect(&t, family[f], &h[f][n[f]++], 1);
			CHECK(raw_alive(h[0], n[0]) + raw_alive(h[1], n[1]) +
			              raw_alive(h[2], n[2]) <=
			      30);
			kept[round % 3] = raw_alive(h[round % 3], n[round % 3]);
			CHECK_EQ(kept[round % 3], n[round % 3]);
		}
		CHECK_EQ(stats().requests_refused + stats().requests_refused_peer, 0);
		stop();
	}
}

/** A client that has sent a part of its MPA Request is not evicted while there is a silent
 * connection. This protection ends with time. */
static void
test_moving(void)
{
	struct weft_event ev;

	start(NULL, 2);
	raw_connect(&t, VT_V4, &h[0][0], 1);
	raw_send(&t, &h[0][0], request, 10);
	raw_connect(&t, VT_V6_LL, &h[1][0], 1);
	/* The younger, silent connection is evicted, twice. */
	raw_connect(&t, VT_V6, &h[2][0], 1);
	CHECK(h[0][0].conn != NULL && h[1][0].conn == NULL && h[2][0].conn != NULL);
	raw_connect(&t, VT_V6_LL, &h[1][1], 1);
	CHECK(h[0][0].conn != NULL && h[2][0].conn == NULL && h[1][1].conn != NULL);
	/* The slow client completes its request and is served. */
	raw_send(&t, &h[0][0], request + 10, 10);
	ev = vt_ev(&t.n[1], WEFT_EV_CONNECT_REQUEST);
	/* A request that the consumer holds is not evicted. */
	raw_connect(&t, VT_V6, &h[2][1], 1);
	CHECK(h[0][0].conn != NULL && h[1][1].conn == NULL);
	weft_reject(ev.connreq, NULL, 0);
	stop();

	start(NULL, 2);
	/* Two connections of one address make progress. Another address has none and gets a
	 * place. */
	raw_connect(&t, VT_V4, &h[0][1], 2);
	raw_send(&t, &h[0][1], request, 1);
	raw_send(&t, &h[0][2], request, 19);
	vt_run(&t, 10 * VT_MS);
	raw_connect(&t, VT_V6, &h[2][2], 1);
	CHECK(h[0][1].conn == NULL && h[0][2].conn != NULL && h[2][2].conn != NULL);
	/* Each of two addresses has one connection that makes progress. The next connection is
	 * refused. */
	raw_send(&t, &h[2][2], request, 1);
	vt_run(&t, 10 * VT_MS);
	raw_connect(&t, VT_V6_LL, &h[1][2], 1);
	CHECK(h[0][2].conn != NULL && h[2][2].conn != NULL && h[1][2].conn == NULL);
	CHECK_EQ(stats().requests_refused, 1);
	/* One octet at a time is no progress. After STALL the connection counts as silent. */
	vt_run(&t, STALL);
	raw_send(&t, &h[0][2], request + 19, 0 + 1);
	ev = vt_ev(&t.n[1], WEFT_EV_CONNECT_REQUEST);
	raw_send(&t, &h[2][2], request + 1, 1);
	raw_connect(&t, VT_V6_LL, &h[1][3], 1);
	CHECK(h[0][2].conn != NULL && h[2][2].conn == NULL && h[1][3].conn != NULL);
	weft_reject(ev.connreq, NULL, 0);
	stop();
}

/** A request that the consumer holds is never evicted. A backlog full of such requests refuses new
 * connections. */
static void
test_pending(void)
{
	struct weft_event ev[2];

	start(NULL, 2);
	raw_connect(&t, VT_V4, h[0], 2);
	for (unsigned int i = 0; i < 2; i++) {
		raw_send(&t, &h[0][i], request, sizeof(request));
		ev[i] = vt_ev(&t.n[1], WEFT_EV_CONNECT_REQUEST);
	}
	raw_connect(&t, VT_V6, h[1], 1);
	CHECK_EQ(raw_alive(h[0], 2), 2);
	CHECK_EQ(raw_alive(h[1], 1), 0);
	CHECK_EQ(stats().requests_refused, 1);
	/* A rejected client that does not close is evicted after a time to close. */
	for (unsigned int i = 0; i < 2; i++)
		weft_reject(ev[i].connreq, NULL, 0);
	vt_run(&t, STALL / 8);
	raw_connect(&t, VT_V6, h[2], 1);
	CHECK_EQ(stats().requests_refused, 2);
	vt_run(&t, STALL);
	raw_connect(&t, VT_V6, h[3], 1);
	CHECK_EQ(stats().requests_refused, 2);
	CHECK_EQ(raw_alive(h[3], 1), 1);
	stop();
}

/** An address whose whole share is held by the consumer gets no more. Another address gets a
 * place. */
static void
test_pending_share(void)
{
	struct weft_event ev[8];

	start(NULL, 16);
	raw_connect(&t, VT_V4, h[0], 8);
	for (unsigned int i = 0; i < 8; i++) {
		raw_send(&t, &h[0][i], request, sizeof(request));
		ev[i] = vt_ev(&t.n[1], WEFT_EV_CONNECT_REQUEST);
	}
	CHECK_EQ(stats().requests_refused_peer, 0);
	raw_connect(&t, VT_V4, h[1], 1);
	CHECK_EQ(raw_alive(h[1], 1), 0);
	CHECK_EQ(stats().requests_refused_peer, 1);
	raw_connect(&t, VT_V6, h[2], 8);
	CHECK_EQ(raw_alive(h[2], 8), 8);
	CHECK_EQ(stats().requests_evicted + stats().requests_refused, 0);
	for (unsigned int i = 0; i < 8; i++)
		weft_reject(ev[i].connreq, NULL, 0);
	stop();
}

/** All connections of a worker are silent. One more client that returns a SYN cookie is
 * accepted. */
static void
test_machine_full(void)
{
	for (unsigned int never = 0; never < 2; never++) {
		struct vt_attr va = {.max_conns = {0, 16}};

		va.tcp.syn_cookies = never ? WEFT_TCP_COOKIES_NEVER : WEFT_TCP_COOKIES_AUTO;
		start(&va, 0);
		for (unsigned int i = 0; i < 8; i++) {
			raw_connect(&t, VT_V4, &h[0][i], 1);
			raw_connect(&t, VT_V6_LL, &h[1][i], 1);
		}
		CHECK_EQ(raw_alive(h[0], 8) + raw_alive(h[1], 8), 16);
		if (!never) {
			serve(VT_V6);
			CHECK_EQ(stats().requests_evicted, 1);
			CHECK(h[0][0].conn == NULL);
			serve(VT_V6);
		} else {
			/* An address that has not returned a cookie evicts nothing. */
			raw_connect(&t, VT_V6, h[2], 1);
			CHECK_EQ(h[2][0].up, 0);
			CHECK_EQ(stats().requests_evicted, 0);
		}
		stop();
	}
}

/** By default an address has half of a worker's connections and not one more. */
static void
test_conns(void)
{
	enum { CONNS = 40, SHARE = CONNS / 2 };
	struct vt_attr va = {.max_conns = {0, CONNS}, .tcp = {.max_conns_per_peer = CONNS}};
	struct weft_qp *qp[2][SHARE];

	start(&va, 0);
	for (unsigned int i = 0; i < SHARE; i++) {
		vt_connect(&t, NULL, NULL);
		for (unsigned int k = 0; k < 2; k++) {
			qp[k][i] = t.n[k].qp;
			t.n[k].qp = NULL;
		}
	}
	raw_connect(&t, VT_V4, h[0], 1);
	CHECK_EQ(raw_alive(h[0], 1), 0);
	CHECK_EQ(stats().conns_refused_peer, 1);
	raw_connect(&t, VT_V6, h[1], 1);
	CHECK_EQ(raw_alive(h[1], 1), 1);
	weft_qp_destroy(qp[1][0]);
	vt_run(&t, VT_S);
	raw_connect(&t, VT_V4, h[2], 2);
	/* One of the two is silent and is evicted for the other. */
	CHECK_EQ(raw_alive(h[2], 2), 1);
	CHECK_EQ(stats().conns_refused_peer, 1);
	CHECK_EQ(stats().requests_evicted, 1);
	for (unsigned int i = 0; i < SHARE; i++) {
		weft_qp_destroy(qp[0][i]);
		if (i > 0)
			weft_qp_destroy(qp[1][i]);
	}
	stop();
}

/** Right after an address opens many connections at once, it has most of the connections but is not
 * yet silent. The evicted connections belong to other addresses. */
static void
test_grace(void)
{
	start(NULL, 32);
	raw_connect(&t, VT_V4, h[0], 8);
	raw_connect(&t, VT_V6_LL, h[1], 8);
	vt_run(&t, VT_S);
	raw_connect(&t, VT_V6, h[2], 16);
	CHECK_EQ(raw_alive(h[2], 16), 16);
	raw_connect(&t, VT_V4, h[0] + 8, 4);
	CHECK_EQ(raw_alive(h[2], 16), 16);
	CHECK_EQ(stats().requests_evicted, 4);
	/* After a second of silence they are evicted like others. */
	vt_run(&t, VT_S);
	raw_connect(&t, VT_V4, h[0] + 12, 4);
	CHECK_EQ(raw_alive(h[2], 16), 12);
	stop();
}

WEFT_TEST_MAIN({"connections that say nothing", test_silent}, {"by cookies", test_cookies},
               {"the oldest goes", test_oldest}, {"an address with less loses nothing", test_share},
               {"shares are kept", test_fair}, {"amid the Request", test_moving},
               {"the consumer's", test_pending},
               {"all of a share is the consumer's", test_pending_share},
               {"every connection taken", test_machine_full},
               {"half of the connections", test_conns}, {"those that just came", test_grace})
