/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A backlog full of connections that say nothing keeps no one out (RFC 5042 s6.4.1): which of them
 * goes for the next one, and which never does. Three addresses are at hand: IPv4, IPv6, link-local.
 */

#include "verbs_listen.h"
#include "vt.h"
#include "vt_mute.h"

#define BACKLOG 128 /* the default */
#define STALL   (2 * VT_S)

static struct mute h[4][2 * BACKLOG];
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

/** The requests of an address, by node 1's count. */
static uint32_t
requests(enum vt_family family)
{
	socklen_t len;
	struct sockaddr_storage sa = vt_addr_of(family, 0, VT_PORT, &len);
	struct weft_ip ip;
	uint16_t port;

	CHECK_EQ(weft_ip_from_sockaddr((struct sockaddr *)&sa, &ip, &port), 0);
	return weft_verbs_peer_requests(weft_vworker_of(t.n[1].w), &ip);
}

/** A client of that address gets a connection, and at once. */
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

/** 128 that say nothing, from two addresses; then clients of a third and of the same two. */
static void
silent(const struct vt_attr *va, bool cookies)
{
	start(va, 0);
	mute_connect(&t, VT_V4, h[0], BACKLOG / 2);
	mute_connect(&t, VT_V6_LL, h[1], BACKLOG / 2);
	/* The edge: each has its share, all together the backlog. */
	CHECK_EQ(mute_alive(h[0], BACKLOG) + mute_alive(h[1], BACKLOG), BACKLOG);
	CHECK_EQ(stats().requests_evicted, 0);
	serve(VT_V6);
	CHECK_EQ(stats().requests_evicted, 1);
	CHECK(h[0][0].conn == NULL && h[0][0].closed == 1);
	CHECK_EQ(mute_alive(h[0] + 1, BACKLOG) + mute_alive(h[1], BACKLOG), BACKLOG - 1);
	serve(VT_V6_LL);
	CHECK(h[1][0].conn == NULL);
	mute_connect(&t, VT_V4, h[0] + BACKLOG, 2);
	CHECK_EQ(requests(VT_V4), BACKLOG / 2);
	serve(VT_V4);
	CHECK_EQ(stats().requests_refused + stats().requests_refused_peer, 0);
	CHECK_EQ(weft_tcp_stats(weft_engine_tcp(t.n[1].w))->syn_cookies_ok > 0, cookies);
	/* A flood of them changes nothing. */
	for (unsigned int round = 0; round < 8; round++) {
		mute_connect(&t, VT_V4, h[2], BACKLOG);
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

/** Connections that come by SYN cookies have no more than others. */
static void
test_cookies(void)
{
	silent(&(struct vt_attr){.tcp = {.syn_cookies = WEFT_TCP_COOKIES_ALWAYS}}, true);
}

/** The oldest goes first, one for one. */
static void
test_oldest(void)
{
	start(NULL, 8);
	for (unsigned int i = 0; i < 24; i++) {
		mute_connect(&t, VT_V4, &h[0][i], 1);
		for (unsigned int k = 0; k <= i; k++)
			CHECK_EQ(h[0][k].conn != NULL, k + 8 > i);
		CHECK_EQ(stats().requests_evicted, i < 8 ? 0 : i - 7);
	}
	stop();
}

/** An address with less than others loses nothing to them, be it ever so old. */
static void
test_share(void)
{
	start(NULL, 16);
	mute_connect(&t, VT_V6, h[0], 2);
	mute_connect(&t, VT_V4, h[1], 8);
	mute_connect(&t, VT_V6_LL, h[2], 6);
	CHECK_EQ(stats().requests_evicted, 0);
	mute_connect(&t, VT_V6_LL, &h[2][6], 1);
	CHECK_EQ(mute_alive(h[0], 2), 2);
	CHECK(h[1][0].conn == NULL);
	CHECK_EQ(requests(VT_V4), 7);
	CHECK_EQ(requests(VT_V6_LL), 7);
	/* An eighth of it would be more than any other has: its own oldest goes. */
	mute_connect(&t, VT_V6_LL, &h[2][7], 1);
	CHECK(h[2][0].conn == NULL);
	CHECK_EQ(requests(VT_V4), 7);
	CHECK_EQ(requests(VT_V6_LL), 7);
	CHECK_EQ(mute_alive(h[0], 2), 2);
	stop();
}

/** Whatever comes in whatever order: what an address has within a third of the backlog it keeps. */
static void
test_fair(void)
{
	static const enum vt_family family[] = {VT_V4, VT_V6, VT_V6_LL};
	uint64_t rng = 88172645463325252ULL;

	for (unsigned int round = 0; round < 20; round++) {
		unsigned int n[3] = {0}, kept[3] = {0};

		start(&(struct vt_attr){.seed = round + 1}, 30);
		for (unsigned int i = 0; i < 120; i++) {
			/* Two that want all, one that wants little. */
			unsigned int f = i % 12 == 11 && n[round % 3] < 10
			                         ? round % 3
			                         : (round + 1 + (rng >> 20) % 2) % 3;

			rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
			mute_connect(&t, family[f], &h[f][n[f]++], 1);
			CHECK(mute_alive(h[0], n[0]) + mute_alive(h[1], n[1]) +
			              mute_alive(h[2], n[2]) <=
			      30);
			kept[round % 3] = mute_alive(h[round % 3], n[round % 3]);
			CHECK_EQ(kept[round % 3], n[round % 3]);
		}
		CHECK_EQ(stats().requests_refused + stats().requests_refused_peer, 0);
		stop();
	}
}

/** Who is amid the MPA Request stays while another one that says nothing is there; not for ever. */
static void
test_moving(void)
{
	struct weft_event ev;

	start(NULL, 2);
	mute_connect(&t, VT_V4, &h[0][0], 1);
	mute_say(&t, &h[0][0], request, 10);
	mute_connect(&t, VT_V6_LL, &h[1][0], 1);
	/* The younger one goes, and again. */
	mute_connect(&t, VT_V6, &h[2][0], 1);
	CHECK(h[0][0].conn != NULL && h[1][0].conn == NULL && h[2][0].conn != NULL);
	mute_connect(&t, VT_V6_LL, &h[1][1], 1);
	CHECK(h[0][0].conn != NULL && h[2][0].conn == NULL && h[1][1].conn != NULL);
	/* It is served when it goes on. */
	mute_say(&t, &h[0][0], request + 10, 10);
	ev = vt_ev(&t.n[1], WEFT_EV_CONNECT_REQUEST);
	/* What the consumer has, stays for it. */
	mute_connect(&t, VT_V6, &h[2][1], 1);
	CHECK(h[0][0].conn != NULL && h[1][1].conn == NULL);
	weft_reject(ev.connreq, NULL, 0);
	stop();

	start(NULL, 2);
	/* Two of one address move: the other address has none, and gets a place. */
	mute_connect(&t, VT_V4, &h[0][1], 2);
	mute_say(&t, &h[0][1], request, 1);
	mute_say(&t, &h[0][2], request, 19);
	vt_run(&t, 10 * VT_MS);
	mute_connect(&t, VT_V6, &h[2][2], 1);
	CHECK(h[0][1].conn == NULL && h[0][2].conn != NULL && h[2][2].conn != NULL);
	/* One each, both moving: the next one is refused. */
	mute_say(&t, &h[2][2], request, 1);
	vt_run(&t, 10 * VT_MS);
	mute_connect(&t, VT_V6_LL, &h[1][2], 1);
	CHECK(h[0][2].conn != NULL && h[2][2].conn != NULL && h[1][2].conn == NULL);
	CHECK_EQ(stats().requests_refused, 1);
	/* An octet at a time is no negotiation: in time it counts as nothing said. */
	vt_run(&t, STALL);
	mute_say(&t, &h[0][2], request + 19, 0 + 1);
	ev = vt_ev(&t.n[1], WEFT_EV_CONNECT_REQUEST);
	mute_say(&t, &h[2][2], request + 1, 1);
	mute_connect(&t, VT_V6_LL, &h[1][3], 1);
	CHECK(h[0][2].conn != NULL && h[2][2].conn == NULL && h[1][3].conn != NULL);
	weft_reject(ev.connreq, NULL, 0);
	stop();
}

/** What the consumer has never goes: a backlog full of that refuses, as ever. */
static void
test_pending(void)
{
	struct weft_event ev[2];

	start(NULL, 2);
	mute_connect(&t, VT_V4, h[0], 2);
	for (unsigned int i = 0; i < 2; i++) {
		mute_say(&t, &h[0][i], request, sizeof(request));
		ev[i] = vt_ev(&t.n[1], WEFT_EV_CONNECT_REQUEST);
	}
	mute_connect(&t, VT_V6, h[1], 1);
	CHECK_EQ(mute_alive(h[0], 2), 2);
	CHECK_EQ(mute_alive(h[1], 1), 0);
	CHECK_EQ(stats().requests_refused, 1);
	/* Those that are rejected and stay are done for, once they had the time to go. */
	for (unsigned int i = 0; i < 2; i++)
		weft_reject(ev[i].connreq, NULL, 0);
	vt_run(&t, STALL / 8);
	mute_connect(&t, VT_V6, h[2], 1);
	CHECK_EQ(stats().requests_refused, 2);
	vt_run(&t, STALL);
	mute_connect(&t, VT_V6, h[3], 1);
	CHECK_EQ(stats().requests_refused, 2);
	CHECK_EQ(mute_alive(h[3], 1), 1);
	stop();
}

/** An address whose share the consumer has gets no more; another one does. */
static void
test_pending_share(void)
{
	struct weft_event ev[8];

	start(NULL, 16);
	mute_connect(&t, VT_V4, h[0], 8);
	for (unsigned int i = 0; i < 8; i++) {
		mute_say(&t, &h[0][i], request, sizeof(request));
		ev[i] = vt_ev(&t.n[1], WEFT_EV_CONNECT_REQUEST);
	}
	CHECK_EQ(stats().requests_refused_peer, 0);
	mute_connect(&t, VT_V4, h[1], 1);
	CHECK_EQ(mute_alive(h[1], 1), 0);
	CHECK_EQ(stats().requests_refused_peer, 1);
	mute_connect(&t, VT_V6, h[2], 8);
	CHECK_EQ(mute_alive(h[2], 8), 8);
	CHECK_EQ(stats().requests_evicted + stats().requests_refused, 0);
	for (unsigned int i = 0; i < 8; i++)
		weft_reject(ev[i].connreq, NULL, 0);
	stop();
}

/** A worker whose every connection says nothing takes one more that answers a cookie. */
static void
test_machine_full(void)
{
	for (unsigned int never = 0; never < 2; never++) {
		struct vt_attr va = {.max_conns = {0, 16}};

		va.tcp.syn_cookies = never ? WEFT_TCP_COOKIES_NEVER : WEFT_TCP_COOKIES_AUTO;
		start(&va, 0);
		for (unsigned int i = 0; i < 8; i++) {
			mute_connect(&t, VT_V4, &h[0][i], 1);
			mute_connect(&t, VT_V6_LL, &h[1][i], 1);
		}
		CHECK_EQ(mute_alive(h[0], 8) + mute_alive(h[1], 8), 16);
		if (!never) {
			serve(VT_V6);
			CHECK_EQ(stats().requests_evicted, 1);
			CHECK(h[0][0].conn == NULL);
			serve(VT_V6);
		} else {
			/* An address that was not proven moves nothing. */
			mute_connect(&t, VT_V6, h[2], 1);
			CHECK_EQ(h[2][0].up, 0);
			CHECK_EQ(stats().requests_evicted, 0);
		}
		stop();
	}
}

/** By default an address has half of a worker's connections: that many, and not one more. */
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
	mute_connect(&t, VT_V4, h[0], 1);
	CHECK_EQ(mute_alive(h[0], 1), 0);
	CHECK_EQ(stats().conns_refused_peer, 1);
	mute_connect(&t, VT_V6, h[1], 1);
	CHECK_EQ(mute_alive(h[1], 1), 1);
	weft_qp_destroy(qp[1][0]);
	vt_run(&t, VT_S);
	mute_connect(&t, VT_V4, h[2], 2);
	/* One says nothing and gives its place to the other. */
	CHECK_EQ(mute_alive(h[2], 2), 1);
	CHECK_EQ(stats().conns_refused_peer, 1);
	CHECK_EQ(stats().requests_evicted, 1);
	for (unsigned int i = 0; i < SHARE; i++) {
		weft_qp_destroy(qp[0][i]);
		if (i > 0)
			weft_qp_destroy(qp[1][i]);
	}
	stop();
}

/** An address that opens many at once has most of them, and they are not the ones that say nothing.
 */
static void
test_grace(void)
{
	start(NULL, 32);
	mute_connect(&t, VT_V4, h[0], 8);
	mute_connect(&t, VT_V6_LL, h[1], 8);
	vt_run(&t, VT_S);
	mute_connect(&t, VT_V6, h[2], 16);
	CHECK_EQ(mute_alive(h[2], 16), 16);
	mute_connect(&t, VT_V4, h[0] + 8, 4);
	CHECK_EQ(mute_alive(h[2], 16), 16);
	CHECK_EQ(stats().requests_evicted, 4);
	/* Silent for long, they go as any others do. */
	vt_run(&t, VT_S);
	mute_connect(&t, VT_V4, h[0] + 12, 4);
	CHECK_EQ(mute_alive(h[2], 16), 12);
	stop();
}

WEFT_TEST_MAIN({"connections that say nothing", test_silent}, {"by cookies", test_cookies},
               {"the oldest goes", test_oldest}, {"who has less loses nothing", test_share},
               {"shares are kept", test_fair}, {"amid the Request", test_moving},
               {"the consumer's", test_pending},
               {"all of a share is the consumer's", test_pending_share},
               {"every connection taken", test_machine_full},
               {"half of the connections", test_conns}, {"those that just came", test_grace})
