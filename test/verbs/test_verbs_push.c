/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A worker whose every connection is accepted and idle has a place for one more address (RFC 5042
 * s6.4): which connection goes for it, and which never does. Three addresses are at hand: IPv4,
 * IPv6, link-local.
 */

#include "verbs_listen.h"
#include "vt.h"
#include "vt_mute.h"

#define CONNS 16

/** MPA Request of revision 1 without private data (RFC 5044 s7.1.1). */
static const uint8_t request[20] = "MPA ID Req Frame\x40\x01";

static struct vt t;
static struct mute h[3][4 * CONNS]; /* by family */
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

/** Take node 1's events: requests are accepted, what is over is destroyed. */
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

/** Connection i of an address, through its start-up; whether it got there. */
static bool
enter(enum vt_family f, unsigned int i, enum weft_standing standing)
{
	mute_connect(&t, f, &h[f][i], 1);
	if (h[f][i].conn != NULL && h[f][i].up > 0)
		mute_say(&t, &h[f][i], request, sizeof(request));
	for (unsigned int k = 0; k < 4; k++) {
		vt_run(&t, 50 * VT_MS);
		serve(f, i, standing);
	}
	if (h[f][i].conn != NULL && qp[f][i] != NULL)
		return true;
	/* It may believe that it is connected, and would say it again. */
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

/** Full by two addresses: the third gets in, one for one, up to an equal part; and not without the
 * listener's word. */
static void
test_equal(void)
{
	for (unsigned int on = 0; on < 2; on++) {
		start(on != 0, 1);
		for (unsigned int i = 0; i < CONNS / 2; i++) {
			CHECK(enter(VT_V4, i, WEFT_STANDING_STRANGER));
			CHECK(enter(VT_V6, i, WEFT_STANDING_STRANGER));
		}
		CHECK_EQ(pushed(), 0); /* the edge */
		CHECK_EQ(enter(VT_V6_LL, 0, WEFT_STANDING_STRANGER), on != 0);
		if (on == 0) {
			stop();
			continue;
		}
		CHECK_EQ(pushed(), 1);
		CHECK(h[VT_V4][0].conn == NULL && h[VT_V6][0].conn != NULL); /* the longest idle */
		for (unsigned int i = 1; i < 2 * CONNS; i++) {
			(void)enter(VT_V6_LL, i, WEFT_STANDING_STRANGER);
			CHECK_EQ(alive(VT_V4) + alive(VT_V6) + alive(VT_V6_LL), CONNS);
		}
		CHECK(alive(VT_V4) >= CONNS / 3 && alive(VT_V6) >= CONNS / 3 &&
		      alive(VT_V6_LL) >= CONNS / 3);
		stop();
	}
}

/** Of the address that has the most the one on which nothing moves goes. */
static void
test_idle(void)
{
	start(true, 2);
	for (unsigned int i = 0; i < CONNS - 2; i++)
		CHECK(enter(VT_V4, i, WEFT_STANDING_STRANGER));
	for (unsigned int i = 0; i < 2; i++)
		CHECK(enter(VT_V6, i, WEFT_STANDING_STRANGER));
	/* All but one of them say an octet more. */
	for (unsigned int i = 0; i < CONNS - 2; i++)
		if (i != 9)
			mute_say(&t, &h[VT_V4][i], "", 1);
	vt_run(&t, 50 * VT_MS);
	CHECK(enter(VT_V6_LL, 0, WEFT_STANDING_STRANGER));
	CHECK(h[VT_V4][9].conn == NULL);
	CHECK_EQ(alive(VT_V4), CONNS - 3);
	CHECK_EQ(alive(VT_V6), 2);
	stop();
}

/** Who holds something goes after all strangers, and for an address with fewer alone; who has shown
 * who it is never goes. */
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
	/* The stranger's address has no more of these than the newcomer: a holder goes. */
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
	/* One that lets go of all is a stranger again. */
	for (unsigned int i = 0; i < 12; i++)
		if (qp[VT_V4][i] != NULL)
			CHECK_EQ(weft_qp_set_standing(qp[VT_V4][i], WEFT_STANDING_KEPT), 0);
	for (unsigned int i = 0; i < 12; i++)
		if (qp[VT_V6_LL][i] != NULL)
			CHECK_EQ(weft_qp_set_standing(qp[VT_V6_LL][i], WEFT_STANDING_KEPT), 0);
	CHECK(!enter(VT_V6, 6, WEFT_STANDING_STRANGER));
	CHECK_EQ(weft_qp_set_standing(qp[VT_V6][3], WEFT_STANDING_STRANGER), 0);
	CHECK(!enter(VT_V6, 7, WEFT_STANDING_STRANGER)); /* of its own address */
	stop();
	CHECK_EQ(weft_qp_set_standing(NULL, WEFT_STANDING_KEPT), -EINVAL);
}

/** Whatever comes in whatever order and standing: no address loses what is within its third, and
 * one that has none gets in. */
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

/** For so long the connections of V4 and V6 below these numbers say an octet each half second. */
static void
talk(unsigned int half_s, unsigned int v4, unsigned int v6)
{
	while (half_s-- > 0) {
		vt_run(&t, VT_S / 2);
		for (unsigned int i = 0; i < v4; i++)
			if (h[VT_V4][i].conn != NULL)
				mute_say(&t, &h[VT_V4][i], "\x7f", 1);
		for (unsigned int i = 0; i < v6; i++)
			if (h[VT_V6][i].conn != NULL)
				mute_say(&t, &h[VT_V6][i], "\x7f", 1);
	}
	vt_run(&t, 50 * VT_MS);
}

/** What is in use stays, of an address with several, too; what is not goes, whoever's it is. */
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
		/* Four of seven are in use, three of them of the address that has the most. */
		talk(4, 3, 1);
		CHECK(enter(VT_V6_LL, 0, standing));
		CHECK(h[VT_V4][3].conn == NULL);
		talk(1, 3, 1);
		CHECK(enter(VT_V6_LL, 1, standing));
		CHECK(h[VT_V6][1].conn == NULL);
		talk(1, 3, 1);
		/* Of those not in use the others have no more than it has. */
		CHECK(!enter(VT_V6_LL, 2, standing));
		CHECK(alive(VT_V4) == 3 && alive(VT_V6) == 2 && alive(VT_V6_LL) == 2);
		CHECK_EQ(pushed(), 2);
		/* What was in use is so no more when nothing has moved for five seconds. */
		talk(12, 3, 0);
		CHECK(enter(VT_V6_LL, 3, standing) == false || h[VT_V4][0].conn != NULL);
		CHECK(alive(VT_V4) == 3);
		stop();
	}
}

/** Every address has one, with a grant: the idlest goes, not the one that came first. */
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
	/* Whom it knows goes for nobody, however idle. */
	CHECK_EQ(weft_qp_set_standing(qp[VT_V4][0], WEFT_STANDING_KEPT), 0);
	CHECK_EQ(weft_qp_set_standing(qp[VT_V6][1], WEFT_STANDING_KEPT), 0);
	vt_run(&t, 20 * VT_S);
	CHECK(!enter(VT_V6_LL, 1, WEFT_STANDING_STRANGER));
	CHECK_EQ(pushed(), 2);
	stop();
}

/** All in use: what moves keeps three quarters of the places, the last quarter is for whoever
 * comes. */
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
	/* One for each address is left of that quarter. */
	for (unsigned int i = 1; i < 8; i++) {
		talk(1, 4, 4);
		CHECK(!enter(VT_V6_LL, i, WEFT_STANDING_STRANGER));
	}
	CHECK_EQ(alive(VT_V4) + alive(VT_V6), 7);
	CHECK_EQ(pushed(), 1);
	stop();
}

/** In a /64 that has its share, the idlest of another address goes for a neighbour; of IPv4 none.
 */
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
	CHECK(!weft_verbs_push_own(vw, &v6)); /* of its own */
	CHECK(!weft_verbs_push_own(vw, &v4));
	CHECK_EQ(pushed(), 0);
	for (unsigned int i = 0; i < 3; i++) {
		CHECK_EQ(weft_verbs_push_own(vw, &other), i < 2); /* the first is in use */
		vt_run(&t, 10 * VT_MS);
		serve(VT_V6, i, WEFT_STANDING_STRANGER);
	}
	CHECK(alive(VT_V6) == 1 && qp[VT_V6][0] != NULL && alive(VT_V4) == 3);
	vt_run(&t, 6 * VT_S);
	CHECK(weft_verbs_push_may(vw, &other, true));
	CHECK_EQ(weft_qp_set_standing(qp[VT_V6][0], WEFT_STANDING_KEPT), 0);
	CHECK(!weft_verbs_push_may(vw, &other, true) && !weft_verbs_push_own(vw, &other));
	other.b[7] ^= 1;
	CHECK(!weft_verbs_push_may(vw, &other, true));
	stop();
}

WEFT_TEST_MAIN({"equal parts", test_equal}, {"the longest idle", test_idle},
               {"standing", test_standing}, {"whatever comes", test_fair}, {"in use", test_in_use},
               {"one each", test_one_each}, {"the last quarter", test_last_quarter},
               {"neighbours", test_neighbours})
