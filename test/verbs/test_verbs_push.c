/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Push-out: a worker without a free connection resets an idle accepted connection for a client of
 * another address (RFC 5042 s6.4). The cases show which connection is reset and which connections
 * are never reset. Three addresses are used: IPv4, IPv6 and IPv6 link-local.
 */

#include <weft/stream.h>
#include "cm_peer.h"
#include "vt_raw.h"
#include "vt_tcp.h"

#define CONNS 16

/** MPA Request of revision 1 without private data (RFC 5044 s7.1.1). */
static const uint8_t request[20] = "MPA ID Req Frame\x40\x01";

static struct vt t;
static struct raw_conn h[3][4 * CONNS]; /* by family */
static struct weft_qp *qp[3][4 * CONNS];

static void
start_of(uint32_t conns, bool push_out, uint64_t seed)
{
	struct vt_attr va = {
	        .max_conns = {0, conns}, .tcp = {.max_conns_per_peer = conns}, .seed = seed};
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = rte_cpu_to_be_16(VT_PORT)};
	struct weft_listen_attr la = {.size = sizeof(la),
	                              .max_conns_per_peer = CONNS,
	                              .max_requests_per_peer = CONNS,
	                              .push_out = push_out};

	memset(h, 0, sizeof(h));
	memset(qp, 0, sizeof(qp));
	vt_open(&t, &va);
	la.evq = t.n[1].evq;
	CHECK_EQ(weft_listen(t.n[1].ctx, (struct sockaddr *)&any, sizeof(any), &la, &t.n[1].lsn),
	         0);
}

static void
start(bool push_out, uint64_t seed)
{
	start_of(CONNS, push_out, seed);
}

/** Serve node 1's events: accept connection requests, and destroy QPs that are disconnected or
 * failed. */
static void
serve(enum vt_family f, unsigned int i, enum weft_standing standing)
{
	struct weft_event ev;

	while (weft_evq_poll(t.n[1].evq, &ev) > 0) {
		struct weft_qp_attr qa = vt_qp_attr(&t.n[1]);

		if (ev.type == WEFT_EV_CONNECT_REQUEST) {
			qa.sq_depth = qa.rq_depth = 1;
			qa.user = &qp[f][i];
			CHECK_EQ(weft_qp_create(t.n[1].pd, &qa, &qp[f][i]), 0);
			CHECK_EQ(weft_qp_set_standing(qp[f][i], standing), 0);
			CHECK_EQ(weft_accept(ev.connreq, qp[f][i], NULL), 0);
		} else if (ev.type == WEFT_EV_DISCONNECTED || ev.type == WEFT_EV_CONNECT_ERROR) {
			struct weft_qp **its = ev.user;

			weft_qp_destroy(*its);
			*its = NULL;
		}
	}
}

/** Open connection i of an address and run its start-up. Returns whether node 1 accepted it. */
static bool
enter(enum vt_family f, unsigned int i, enum weft_standing standing)
{
	raw_connect(&t, f, &h[f][i], 1);
	if (h[f][i].conn != NULL && h[f][i].up > 0)
		raw_send(&t, &h[f][i], request, sizeof(request));
	for (unsigned int k = 0; k < 4; k++) {
		vt_run(&t, 50 * VT_MS);
		serve(f, i, standing);
	}
	if (h[f][i].conn != NULL && qp[f][i] != NULL)
		return true;
	/* The client may believe that it is connected. Its side is aborted, too. */
	if (h[f][i].conn != NULL)
		weft_tcp_abort(h[f][i].conn, sim_now_ns(t.sim));
	h[f][i].conn = NULL;
	vt_run(&t, 10 * VT_MS);
	serve(f, i, standing);
	CHECK(qp[f][i] == NULL);
	return false;
}

static unsigned int
alive(enum vt_family f)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < RTE_DIM(qp[f]); i++)
		n += qp[f][i] != NULL;
	return n;
}

static uint64_t
pushed(void)
{
	struct weft_worker_stats st;

	weft_worker_stats(t.n[1].w, &st);
	return st.conns_pushed_out;
}

static void
stop(void)
{
	for (unsigned int f = 0; f < RTE_DIM(h); f++)
		for (unsigned int i = 0; i < RTE_DIM(h[f]); i++)
			if (h[f][i].conn != NULL)
				weft_tcp_abort(h[f][i].conn, sim_now_ns(t.sim));
	vt_run(&t, VT_S);
	serve(0, 0, WEFT_STANDING_STRANGER);
	CHECK_EQ(alive(VT_V4) + alive(VT_V6) + alive(VT_V6_LL), 0);
	vt_close(&t);
}

/** Connections of two addresses take all places. With push_out a third address gets places one by
 * one, up to an equal share. Without push_out it gets none. */
static void
test_equal(void)
{
	for (unsigned int on = 0; on < 2; on++) {
		start(on != 0, 1);
		for (unsigned int i = 0; i < CONNS / 2; i++) {
			CHECK(enter(VT_V4, i, WEFT_STANDING_STRANGER));
			CHECK(enter(VT_V6, i, WEFT_STANDING_STRANGER));
		}
		CHECK_EQ(pushed(), 0); /* all places are taken, none is exceeded */
		CHECK_EQ(enter(VT_V6_LL, 0, WEFT_STANDING_STRANGER), on != 0);
		if (on == 0) {
			stop();
			continue;
		}
		CHECK_EQ(pushed(), 1);
		/* idle for the longest time */
		CHECK(h[VT_V4][0].conn == NULL && h[VT_V6][0].conn != NULL);
		for (unsigned int i = 1; i < 2 * CONNS; i++) {
			(void)enter(VT_V6_LL, i, WEFT_STANDING_STRANGER);
			CHECK_EQ(alive(VT_V4) + alive(VT_V6) + alive(VT_V6_LL), CONNS);
		}
		CHECK(alive(VT_V4) >= CONNS / 3 && alive(VT_V6) >= CONNS / 3 &&
		      alive(VT_V6_LL) >= CONNS / 3);
		stop();
	}
}

/** Of the address with the most connections, the connection that was idle for the longest time is
 * reset. */
static void
test_idle(void)
{
	start(true, 2);
	for (unsigned int i = 0; i < CONNS - 2; i++)
		CHECK(enter(VT_V4, i, WEFT_STANDING_STRANGER));
	for (unsigned int i = 0; i < 2; i++)
		CHECK(enter(VT_V6, i, WEFT_STANDING_STRANGER));
	/* All connections but number 9 send another octet. */
	for (unsigned int i = 0; i < CONNS - 2; i++)
		if (i != 9)
			raw_send(&t, &h[VT_V4][i], "", 1);
	vt_run(&t, 50 * VT_MS);
	CHECK(enter(VT_V6_LL, 0, WEFT_STANDING_STRANGER));
	CHECK(h[VT_V4][9].conn == NULL);
	CHECK_EQ(alive(VT_V4), CONNS - 3);
	CHECK_EQ(alive(VT_V6), 2);
	stop();
}

/** A holder is reset only if no stranger can be reset, and only for an address with fewer
 * connections. A connection with standing KEPT is never reset. */
static void
test_standing(void)
{
	start(true, 3);
	for (unsigned int i = 0; i < 10; i++)
		CHECK(enter(VT_V4, i, WEFT_STANDING_HOLDER));
	for (unsigned int i = 0; i < 4; i++)
		CHECK(enter(VT_V6, i, WEFT_STANDING_KEPT));
	for (unsigned int i = 4; i < 6; i++)
		CHECK(enter(VT_V6, i, WEFT_STANDING_STRANGER));
	CHECK(enter(VT_V6_LL, 0, WEFT_STANDING_HOLDER));
	CHECK_EQ(alive(VT_V6), 5);
	/* The stranger's address has no more connections that may be reset than the new one's
	 * address. A holder of V4 is reset. */
	CHECK(enter(VT_V6_LL, 1, WEFT_STANDING_HOLDER));
	CHECK(alive(VT_V4) == 9 && alive(VT_V6) == 5);
	stop();
	start(true, 4);
	for (unsigned int i = 0; i < 10; i++)
		CHECK(enter(VT_V4, i, WEFT_STANDING_HOLDER));
	for (unsigned int i = 0; i < 6; i++)
		CHECK(enter(VT_V6, i, WEFT_STANDING_KEPT));
	for (unsigned int i = 0; i < 12; i++)
		(void)enter(VT_V6_LL, i, WEFT_STANDING_HOLDER);
	CHECK_EQ(alive(VT_V6), 6);
	CHECK_EQ(alive(VT_V4) + alive(VT_V6_LL), 10);
	CHECK(alive(VT_V4) >= 5 && alive(VT_V6_LL) >= 4);
	/* A connection whose standing becomes STRANGER again may be reset. */
	for (unsigned int i = 0; i < 12; i++)
		if (qp[VT_V4][i] != NULL)
			CHECK_EQ(weft_qp_set_standing(qp[VT_V4][i], WEFT_STANDING_KEPT), 0);
	for (unsigned int i = 0; i < 12; i++)
		if (qp[VT_V6_LL][i] != NULL)
			CHECK_EQ(weft_qp_set_standing(qp[VT_V6_LL][i], WEFT_STANDING_KEPT), 0);
	CHECK(!enter(VT_V6, 6, WEFT_STANDING_STRANGER));
	CHECK_EQ(weft_qp_set_standing(qp[VT_V6][3], WEFT_STANDING_STRANGER), 0);
	/* not for a connection of its own address */
	CHECK(!enter(VT_V6, 7, WEFT_STANDING_STRANGER));
	stop();
	CHECK_EQ(weft_qp_set_standing(NULL, WEFT_STANDING_KEPT), -EINVAL);
}

/** Connections arrive in random order, of either standing. No address loses a connection within its
 * third of the places, and an address without a connection gets one. */
static void
test_fair(void)
{
	for (unsigned int round = 0; round < 6; round++) {
		uint64_t rng = test_seed(round + 1) * 0x9e3779b97f4a7c15ULL | 1;
		unsigned int n[3] = {0}, few = round % 3;

		start(true, round + 1);
		for (unsigned int i = 0; i < 60; i++) {
			unsigned int f;

			rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
			f = i % 12 == 11 ? few : (few + 1 + (rng >> 20) % 2) % 3;
			(void)enter(f, n[f]++,
			            round < 3 ? WEFT_STANDING_STRANGER : WEFT_STANDING_HOLDER);
			CHECK_EQ(alive(few), n[few]);
			CHECK(alive(VT_V4) + alive(VT_V6) + alive(VT_V6_LL) <= CONNS);
		}
		CHECK_EQ(alive(few), 5);
		stop();
	}
}

/** For half_s half seconds, the connections of V4 and V6 below the numbers v4 and v6 send an octet
 * each half second. */
static void
talk(unsigned int half_s, unsigned int v4, unsigned int v6)
{
	while (half_s-- > 0) {
		vt_run(&t, VT_S / 2);
		for (unsigned int i = 0; i < v4; i++)
			if (h[VT_V4][i].conn != NULL)
				raw_send(&t, &h[VT_V4][i], "\x7f", 1);
		for (unsigned int i = 0; i < v6; i++)
			if (h[VT_V6][i].conn != NULL)
				raw_send(&t, &h[VT_V6][i], "\x7f", 1);
	}
	vt_run(&t, 50 * VT_MS);
}

/** A connection in use is not reset, even if its address has several. A connection that is not in
 * use is reset, whichever address it belongs to. */
static void
test_in_use(void)
{
	for (unsigned int round = 0; round < 2; round++) {
		enum weft_standing standing =
		        round == 0 ? WEFT_STANDING_STRANGER : WEFT_STANDING_HOLDER;

		start_of(7, true, 7 + round);
		for (unsigned int i = 0; i < 4; i++)
			CHECK(enter(VT_V4, i, standing));
		for (unsigned int i = 0; i < 3; i++)
			CHECK(enter(VT_V6, i, standing));
		/* Four of seven connections are in use. Three of the four belong to the address
		 * with the most. */
		talk(4, 3, 1);
		CHECK(enter(VT_V6_LL, 0, standing));
		CHECK(h[VT_V4][3].conn == NULL);
		talk(1, 3, 1);
		CHECK(enter(VT_V6_LL, 1, standing));
		CHECK(h[VT_V6][1].conn == NULL);
		talk(1, 3, 1);
		/* No other address has more connections not in use than the new one's. */
		CHECK(!enter(VT_V6_LL, 2, standing));
		CHECK(alive(VT_V4) == 3 && alive(VT_V6) == 2 && alive(VT_V6_LL) == 2);
		CHECK_EQ(pushed(), 2);
		/* A connection on which no data has moved for five seconds is no longer in use. */
		talk(12, 3, 0);
		CHECK(enter(VT_V6_LL, 3, standing) == false || h[VT_V4][0].conn != NULL);
		CHECK(alive(VT_V4) == 3);
		stop();
	}
}

/** Each address has one connection, with standing HOLDER. The connection that was idle for the
 * longest time is reset, not the oldest. */
static void
test_one_each(void)
{
	start_of(2, true, 9);
	CHECK(enter(VT_V4, 0, WEFT_STANDING_HOLDER));
	CHECK(enter(VT_V6, 0, WEFT_STANDING_HOLDER));
	talk(4, 1, 0);
	CHECK(enter(VT_V6_LL, 0, WEFT_STANDING_STRANGER));
	CHECK(h[VT_V6][0].conn == NULL && h[VT_V4][0].conn != NULL);
	talk(12, 1, 0);
	CHECK(enter(VT_V6, 1, WEFT_STANDING_STRANGER));
	CHECK(h[VT_V6_LL][0].conn == NULL && h[VT_V4][0].conn != NULL);
	CHECK_EQ(pushed(), 2);
	/* A connection with standing KEPT is never reset, however long it is idle. */
	CHECK_EQ(weft_qp_set_standing(qp[VT_V4][0], WEFT_STANDING_KEPT), 0);
	CHECK_EQ(weft_qp_set_standing(qp[VT_V6][1], WEFT_STANDING_KEPT), 0);
	vt_run(&t, 20 * VT_S);
	CHECK(!enter(VT_V6_LL, 1, WEFT_STANDING_STRANGER));
	CHECK_EQ(pushed(), 2);
	stop();
}

/** All connections are in use. They keep three quarters of the places. The last quarter is for new
 * connections. */
static void
test_last_quarter(void)
{
	start_of(8, true, 10);
	for (unsigned int i = 0; i < 4; i++) {
		CHECK(enter(VT_V4, i, WEFT_STANDING_HOLDER));
		CHECK(enter(VT_V6, i, WEFT_STANDING_HOLDER));
	}
	talk(6, 4, 4);
	CHECK(enter(VT_V6_LL, 0, WEFT_STANDING_STRANGER));
	CHECK_EQ(alive(VT_V4) + alive(VT_V6), 7);
	/* Each address has one connection in the last quarter. No more are reset. */
	for (unsigned int i = 1; i < 8; i++) {
		talk(1, 4, 4);
		CHECK(!enter(VT_V6_LL, i, WEFT_STANDING_STRANGER));
	}
	CHECK_EQ(alive(VT_V4) + alive(VT_V6), 7);
	CHECK_EQ(pushed(), 1);
	stop();
}

/** An IPv6 /64 prefix has used its share. For an address of the prefix, the connection of another
 * address of the prefix that was idle for the longest time is reset. For IPv4 none is reset. */
static void
test_neighbours(void)
{
	struct weft_vworker *vw;
	struct weft_tcp_info ti;
	struct weft_ip v4, v6, other;

	start_of(6, true, 11);
	vw = weft_vworker_of(t.n[1].w);
	for (unsigned int i = 0; i < 3; i++) {
		CHECK(enter(VT_V6, i, WEFT_STANDING_STRANGER));
		CHECK(enter(VT_V4, i, WEFT_STANDING_STRANGER));
	}
	weft_tcp_info(h[VT_V4][0].conn, &ti);
	v4 = ti.local;
	weft_tcp_info(h[VT_V6][0].conn, &ti);
	v6 = other = ti.local;
	other.b[15] ^= 0x55;
	talk(4, 0, 1);
	CHECK(!cm_push_own(vw, &v6)); /* not for a connection of its own address */
	CHECK(!cm_push_own(vw, &v4));
	CHECK_EQ(pushed(), 0);
	for (unsigned int i = 0; i < 3; i++) {
		/* the first connection is in use */
		CHECK_EQ(cm_push_own(vw, &other), i < 2);
		vt_run(&t, 10 * VT_MS);
		serve(VT_V6, i, WEFT_STANDING_STRANGER);
	}
	CHECK(alive(VT_V6) == 1 && qp[VT_V6][0] != NULL && alive(VT_V4) == 3);
	vt_run(&t, 6 * VT_S);
	CHECK(cm_push_may(vw, &other, true));
	CHECK_EQ(weft_qp_set_standing(qp[VT_V6][0], WEFT_STANDING_KEPT), 0);
	CHECK(!cm_push_may(vw, &other, true) && !cm_push_own(vw, &other));
	other.b[7] ^= 1;
	CHECK(!cm_push_may(vw, &other, true));
	stop();
}

/* ---- Streams ---- */

#define STREAMS     8
#define STREAM_PORT 4420

static struct vt_tcp peer[STREAMS];

static void
stream_received(void *user, const void *data, size_t bytes)
{
	(void)user, (void)data, (void)bytes;
}

static void
stream_quiet(void *user)
{
	(void)user;
}

static void
stream_ended(void *user, int status)
{
	(void)user, (void)status;
}

static int
stream_accept(void *user, struct weft_stream *s, struct weft_worker *w,
              const struct sockaddr_storage *remote)
{
	static const struct weft_stream_ops ops = {.received = stream_received,
	                                           .writable = stream_quiet,
	                                           .eof = stream_quiet,
	                                           .ended = stream_ended};

	(void)user, (void)w, (void)remote;
	return weft_stream_set_user(s, &ops, NULL);
}

/** For half_s half seconds, the streams below the number n, and connections of V4 below v4, send an
 * octet each half second. */
static void
stream_talk(unsigned int half_s, unsigned int n, unsigned int v4)
{
	while (half_s-- > 0) {
		for (unsigned int i = 0; i < n; i++)
			vt_tcp_send(&peer[i], "x", 1);
		talk(1, v4, 0);
	}
}

/** Streams in use do not count for their address: neither against a new connection of it, nor for
 * a reset of another one of it. Those that are not in use do. */
static void
test_streams(void)
{
	const struct sockaddr_in sa = vt_addr(1, STREAM_PORT);
	const struct weft_stream_listen_attr la = {
	        .size = sizeof(la), .accept = stream_accept, .max_conns_per_peer = 4 * CONNS};

	for (unsigned int round = 0; round < 2; round++) {
		const unsigned int v6 = round == 0 ? STREAMS : 1, v4 = 2 * round;
		struct weft_stream_listener *lsn;

		start_of(STREAMS + v6 + v4 + round, true, 20 + round);
		CHECK_EQ(weft_stream_listen(t.n[1].ctx, (const struct sockaddr *)&sa, sizeof(sa),
		                            &la, &lsn),
		         0);
		for (unsigned int i = 0; i < STREAMS; i++) {
			vt_tcp_open(&t, &peer[i], STREAM_PORT);
			CHECK(peer[i].up);
		}
		for (unsigned int i = 0; i < v4; i++)
			CHECK(enter(VT_V4, i, WEFT_STANDING_HOLDER));
		for (unsigned int i = 0; i < v6; i++)
			CHECK(enter(VT_V6, i, WEFT_STANDING_HOLDER));
		if (round == 0) {
			/* its address has as many connections as the other one */
			CHECK(!enter(VT_V4, 0, WEFT_STANDING_HOLDER));
			stream_talk(4, STREAMS, 0);
			CHECK(enter(VT_V4, 1, WEFT_STANDING_HOLDER));
			CHECK_EQ(alive(VT_V6), v6 - 1);
			CHECK_EQ(pushed(), 1);
		} else {
			CHECK(enter(VT_V6_LL, 0, WEFT_STANDING_HOLDER));
			/* each address has one that is not in use */
			stream_talk(4, STREAMS, 1);
			CHECK(!enter(VT_V6_LL, 1, WEFT_STANDING_HOLDER));
			CHECK_EQ(pushed(), 0);
			stream_talk(12, 0, 1);
			CHECK(enter(VT_V6_LL, 2, WEFT_STANDING_HOLDER));
			CHECK(h[VT_V4][0].conn != NULL && h[VT_V4][1].conn == NULL);
			CHECK(alive(VT_V6) == 1 && alive(VT_V6_LL) == 2);
		}
		for (unsigned int i = 0; i < STREAMS; i++) {
			CHECK(!peer[i].ended);
			vt_tcp_end(&peer[i]);
		}
		weft_stream_unlisten(lsn);
		stop();
	}
}

WEFT_TEST_MAIN({"equal parts", test_equal}, {"the longest idle", test_idle},
               {"standing", test_standing}, {"whatever comes", test_fair}, {"in use", test_in_use},
               {"one each", test_one_each}, {"the last quarter", test_last_quarter},
               {"neighbours", test_neighbours}, {"streams in use", test_streams})
