/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file How the connections of a port share its send buffers: the buffers that are set aside for
 * each connection, what peers that stop acknowledging can take from the others, and for how long.
 * One stack; the test encodes the peers' segments.
 */

#include "share_peers.h"
#include "tcp_math.h"
#include "tcp_share.h"
#include "tcp_snd.h"
#include "weft_netif_budget.h"
#include "weft_netif_plan.h"
#include "weft_netif_tx.h"
#include "weft_tcp_plan.h"

/**
 * Twelve peers stop acknowledging. The first of them hold as many buffers as they can get. At each
 * step a thirteenth connection and an older one send all their data.
 */
static void
test_readers_that_stop(void)
{
	struct weft_tcp_attr attr = {
	        .max_snd_segs_total = 400, .max_conns = 32, .max_conns_per_peer = 32};

	up(&attr);
	net.accept_as = (struct net_app){.to_send = 0};
	CHECK(hand_open(0));
	net.accept_as = (struct net_app){.to_send = 100000000};
	for (unsigned int i = 1; i <= 12; i++) {
		uint32_t most = 0;

		CHECK(hand_open(i));
		/* slow start, until the connection may queue no more */
		for (unsigned int k = 0; k < 200 && conn(i)->snd_segs > most; k++) {
			most = conn(i)->snd_segs;
			hand_ack(i);
		}
		check_share(i + 1);
		CHECK(most >= share()->own);
		/* The connection leaves buffers for the next one. */
		CHECK(tcp_left(share()->snd_max, share()->fixed) > share()->common);
	}
	CHECK_EQ(share()->own, 6); /* half of all buffers, set aside for 32 connections */
	CHECK(net.node[0].tcp->stats.snd_segs_limit > 0);
	net.accept_as = (struct net_app){.to_send = 200 * MSS};
	CHECK(hand_open(13));
	net.app[0].to_send = 200 * MSS;
	net.app[0].node->sched.now_ns = sim_now_ns(net.sim);
	net_app_push(&net.app[0]);
	for (unsigned int who = 0; who <= 13; who += 13) {
		/* At least one segment is sent in each round trip, and two on average. */
		for (unsigned int k = 0; net.app[who].sent < 200 * MSS; k++) {
			uint32_t una = conn(who)->snd_una;

			CHECK(k < 100);
			run_for(20 * WEFT_NS_PER_US);
			CHECK(conn(who)->snd_max - una >=
			      RTE_MIN(1u * MSS, 200u * MSS - (una - conn(who)->iss - 1)));
			hand_ack(who);
			check_share(14);
		}
		hand_ack(who);
		CHECK_EQ(conn(who)->snd_una, conn(who)->iss + 1 + 200 * MSS);
	}
	app = &net.app[0];
	for (unsigned int i = 0; i <= 13; i++)
		weft_tcp_abort(conn(i), sim_now_ns(net.sim));
	for (unsigned int i = 0; i <= 13; i++)
		net.app[i].c = NULL;
	CHECK_EQ(net.node[0].tcp->snd_segs, 0);
	run_for(WEFT_NS_PER_MS);
	down();
}

/** Each established connection has buffers set aside. As many connections are admitted as there
 * are buffers, and no more. */
static void
test_members(void)
{
	struct weft_tcp_attr attr = {
	        .max_snd_segs_total = 20, .max_conns = 64, .max_conns_per_peer = 64};
	const struct weft_tcp_stats *st;

	up(&attr);
	st = weft_tcp_stats(net.node[0].tcp);
	net.accept_as = (struct net_app){.to_send = 100000000};
	for (unsigned int i = 0; i < 20; i++) {
		CHECK(hand_open(i));
		CHECK(conn(i)->snd_segs >= 1);
		hand_ack(i);
		/* Buffers borrowed earlier are no obstacle while only half of the buffers are
		 * set aside. After that the borrowers must give them back. */
		for (unsigned int k = 0; i < 20 && k <= i; k++)
			if (conn(k)->snd_segs > 1 && i >= 9) {
				net.app[k].to_send = 0;
				hand_ack(k);
				hand_ack(k);
			}
		CHECK(share()->lent->snd.held <= 20);
		check_share(i + 1);
	}
	CHECK_EQ(st->conns_no_buffers, 0);
	CHECK_EQ(share()->members, 20);
	/* one connection too many; the user closes none for it (members_go) */
	CHECK(!hand_open(20));
	CHECK_EQ(st->syns_no_buffers, 1);
	CHECK_EQ(st->conns_no_buffers, 1);
	CHECK_EQ(st->syns_dropped_full, 1);
	CHECK_EQ(share()->members, 20);
	CHECK_EQ(net.accepted, 20);
	/* After one connection has ended, one new connection is admitted. */
	weft_tcp_abort(conn(3), sim_now_ns(net.sim));
	net.app[3].c = NULL;
	run_for(WEFT_NS_PER_MS);
	CHECK(hand_open(21));
	CHECK(!hand_open(22));
	app = &net.app[0];
	for (unsigned int i = 0; i < 21; i++)
		if (conn(i) != NULL)
			weft_tcp_abort(conn(i), sim_now_ns(net.sim));
	CHECK_EQ(share()->members, 0);
	run_for(WEFT_NS_PER_MS);
	down();
}

/** The user's answer when a connection needs room: the connection to abort next, and how often
 * the user was asked. */
static struct {
	unsigned int next, asked, took;
	bool may;
} giver;

static bool
give_up(void *arg, const struct weft_ip *ip, bool own, bool take)
{
	CHECK(!own);
	(void)arg;
	(void)ip;
	giver.asked += !take;
	if (!take || !giver.may)
		return giver.may;
	weft_tcp_abort(conn(giver.next), sim_now_ns(net.sim));
	net.app[giver.next++].c = NULL;
	giver.took++;
	return true;
}

/**
 * A listener without buffers for one more connection treats a SYN as if max_conns were reached. It
 * asks the user: at a SYN whether the user could close a connection, and at the ACK with the cookie
 * to close it.
 */
static void
test_members_go(void)
{
	struct weft_tcp_attr attr = {
	        .max_snd_segs_total = 20, .max_conns = 64, .max_conns_per_peer = 64};
	const struct weft_tcp_stats *st;

	up(&attr);
	st = weft_tcp_stats(net.node[0].tcp);
	memset(&giver, 0, sizeof(giver));
	weft_tcp_listener_set_room(net.listener, give_up);
	net.accept_as = (struct net_app){.to_send = 0};
	for (unsigned int i = 0; i < 20; i++)
		CHECK(hand_open(i));
	CHECK_EQ(giver.asked, 0); /* all places are taken, and none was asked for */
	CHECK(!hand_open(20));
	CHECK_EQ(st->syns_no_buffers, 1);
	CHECK_EQ(st->conns_no_buffers, 1);
	CHECK_EQ(st->syn_cookies_out, 0);
	giver.may = true;
	for (unsigned int i = 0; i < 5; i++) {
		CHECK(hand_open(20 + i));
		CHECK_EQ(giver.took, i + 1);
		CHECK_EQ(share()->members, 20);
		CHECK_EQ(st->syn_cookies_ok, i + 1);
		check_share(21 + i);
	}
	CHECK_EQ(st->conns_no_buffers, 1);
	CHECK_EQ(st->conn_limit, 0);
	/* A peer that never answers its SYN cookie causes no connection to be closed. */
	for (unsigned int i = 0; i < 10; i++) {
		const struct tcp_hdr h = {.src_port = (uint16_t)(PORT + 40 + i),
		                          .dst_port = 7,
		                          .seq = IRS,
		                          .wnd = 65535,
		                          .flags = TCP_SYN};

		net_raw(&net, &h, NULL, 0, 0);
		run_for(20 * WEFT_NS_PER_US);
	}
	CHECK_EQ(giver.took, 5);
	CHECK_EQ(share()->members, 20);
	app = &net.app[24];
	for (unsigned int i = 5; i < 25; i++)
		weft_tcp_abort(conn(i), sim_now_ns(net.sim));
	CHECK_EQ(share()->members, 0);
	run_for(WEFT_NS_PER_MS);
	down();
}

/** The planned number of connections, computed before a port exists, is the admitted number. */
static void
test_members_planned(void)
{
	static const struct {
		uint32_t mbufs, workers, max_conns, most;
	} rows[] = {{8192, 1, 0, 1024}, {8192, 4, 0, 544},   {8192, 8, 0, 144},
	            {1024, 1, 0, 144},  {1024, 1, 100, 100}, {8192, 1, 8192, 2560}};
	struct weft_tcp_attr attr = {.max_snd_segs_total = 20, .max_conns = 64};

	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		const struct weft_tcp_attr a = {.max_conns = rows[i].max_conns};
		uint32_t snd = weft_netif_plan_snd(rows[i].mbufs, rows[i].workers);

		CHECK_EQ(weft_tcp_plan_conns(&a, snd), rows[i].most);
	}
	up(&attr);
	CHECK(hand_open(0));
	CHECK_EQ(weft_tcp_conns_most(conn(0)), weft_tcp_plan_conns(&attr, 1000));
	app = &net.app[0];
	down();
}

/** One address gets half of the connections for which there are buffers, not half of max_conns. */
static void
test_members_of_address(void)
{
	struct weft_tcp_attr attr = {.max_snd_segs_total = 20, .max_conns = 64};
	const struct weft_tcp_stats *st;

	up(&attr);
	st = weft_tcp_stats(net.node[0].tcp);
	net.accept_as = (struct net_app){.to_send = 0};
	for (unsigned int i = 0; i < 10; i++)
		CHECK(hand_open(i));
	CHECK_EQ(st->syns_dropped_peer, 0);
	CHECK(!hand_open(10));
	CHECK_EQ(st->syns_dropped_peer, 1);
	CHECK_EQ(st->conns_no_buffers, 0);
	CHECK_EQ(weft_tcp_conns_most(conn(0)), 20);
	app = &net.app[0];
	down();
	/* Here max_conns is the limit. */
	up(&(struct weft_tcp_attr){.max_snd_segs_total = 400, .max_conns = 24});
	st = weft_tcp_stats(net.node[0].tcp);
	for (unsigned int i = 0; i < 12; i++)
		CHECK(hand_open(i));
	CHECK(!hand_open(12));
	CHECK_EQ(st->syns_dropped_peer, 1);
	CHECK_EQ(weft_tcp_conns_most(conn(0)), 24);
	app = &net.app[0];
	down();
}

/** Overdue borrowers are ended for a new connection that has no room otherwise. */
static void
test_members_overdue(void)
{
	struct weft_tcp_attr attr = {
	        .max_snd_segs_total = 20, .max_conns = 64, .max_conns_per_peer = 64};
	const struct weft_tcp_stats *st;
	unsigned int n = 0;

	up(&attr);
	st = weft_tcp_stats(net.node[0].tcp);
	net.accept_as = (struct net_app){.to_send = 100000000};
	CHECK(hand_open(n++));
	net.accept_as = (struct net_app){.to_send = 0};
	for (unsigned int k = 0; k < 10; k++)
		hand_ack(0);
	CHECK(share()->common > 0);
	while (n < 20 && hand_open(n))
		n++;
	CHECK(n < 20);
	CHECK_EQ(st->snd_stalls, 0);
	run_for(31 * WEFT_NS_PER_S);
	CHECK_EQ(st->snd_stalls, 0); /* no connection needed buffers */
	CHECK(!hand_open(30));
	run_for(2 * WEFT_NS_PER_S);
	CHECK_EQ(st->snd_stalls, 1);
	CHECK(hand_open(31));
	app = &net.app[1];
	net.app[0].c = NULL;
	for (unsigned int i = 1; i < n + 1; i++)
		if (conn(i) != NULL && !net.app[i].closed)
			weft_tcp_abort(conn(i), sim_now_ns(net.sim));
	run_for(WEFT_NS_PER_MS);
	down();
}

/** `n` connections from `first` on acknowledge one more octet each, so that none of them is
 * silent. */
static void
trickle(unsigned int first, unsigned int n)
{
	for (unsigned int i = first; i < first + n; i++)
		if (!net.app[i].closed)
			hand_seg(i, TCP_ACK, 0, conn(i)->snd_una + 1, 65535, 0);
}

/** Acknowledge immediately until the congestion window is no limit. */
static void
hand_read(unsigned int i)
{
	for (unsigned int k = 0; k < 20; k++)
		hand_ack(i);
}

/** Run for s seconds. Connection `who` acknowledges everything immediately, and n connections
 * from `first` on trickle. */
static void
seconds(unsigned int s, unsigned int who, unsigned int first, unsigned int n)
{
	for (unsigned int k = 0; k < 2 * s; k++) {
		run_for(WEFT_NS_PER_S / 2);
		hand_read(who);
		trickle(first, n);
	}
}

/**
 * While other connections need the buffers, a connection ends that has not had all its data
 * acknowledged within snd_stall_us, even if its peer acknowledges an octet now and then. A
 * connection whose peer is slow but acknowledges all of it in time stays.
 */
static void
test_stall(void)
{
	struct weft_tcp_attr attr = {.max_snd_segs_total = 100, .max_conns = 8, .max_snd_segs = 60};
	const struct weft_tcp_stats *st;
	uint32_t una;

	up(&attr);
	st = weft_tcp_stats(net.node[0].tcp);
	net.accept_as = (struct net_app){.to_send = 100000000};
	for (unsigned int i = 0; i < 6; i++) {
		CHECK(hand_open(i));
		for (unsigned int k = 0; k < 60; k++)
			hand_ack(i);
	}
	CHECK(share()->common > (share()->snd_max - share()->fixed) / 4 * 3);
	una = conn(1)->snd_una;
	for (unsigned int s = 1; s <= 29; s++) {
		run_for(WEFT_NS_PER_S - 100 * WEFT_NS_PER_US);
		hand_seg(1, TCP_ACK, 0, ++una, 65535, 0); /* acknowledges an octet a second */
		hand_ack(2);                              /* acknowledges all */
		if (s % 10 == 0)
			hand_ack(3); /* acknowledges all, slowly */
		/* a duplicate ACK: the peer is alive */
		hand_seg(4, TCP_ACK, 0, conn(4)->snd_una, 65535, 0);
		run_for(20 * WEFT_NS_PER_US);
		CHECK_EQ(st->snd_stalls, 0);
	}
	CHECK(conn(0) != NULL && conn(1) != NULL && conn(4) != NULL);
	for (unsigned int s = 0; s < 4; s++) {
		run_for(WEFT_NS_PER_S / 2);
		hand_read(2);
		hand_ack(3);
	}
	CHECK(st->snd_stalls >= 1);
	for (unsigned int i = 0; i < 6; i++) {
		if (net.app[i].closed)
			CHECK_EQ(net.app[i].err, -ETIMEDOUT);
		if (i == 2 || i == 3)
			CHECK(!net.app[i].closed);
	}
	CHECK(!tcp_left(share()->common, (share()->snd_max - share()->fixed) / 4 * 3));
	/* No connection needs more buffers: the remaining ones stay. */
	una = (uint32_t)st->snd_stalls;
	for (unsigned int s = 0; s < 40; s++) {
		run_for(WEFT_NS_PER_S);
		hand_ack(2);
		hand_ack(3);
	}
	CHECK(st->snd_stalls - una <= 3);
	app = &net.app[2];
	for (unsigned int i = 0; i < 6; i++)
		if (!net.app[i].closed)
			weft_tcp_abort(conn(i), sim_now_ns(net.sim));
	CHECK_EQ(net.node[0].tcp->snd_segs, 0);
	run_for(WEFT_NS_PER_MS);
	down();
}

/**
 * Readers that stop, in different numbers and with different amounts borrowed. Together they hold
 * less than half of the buffers that may be borrowed. While another connection wants buffers,
 * overdue readers are ended, the oldest first and no more than necessary. While none wants buffers,
 * they stay.
 */
static void
test_stall_few(void)
{
	static const struct {
		unsigned int conns;
		uint32_t each; /* borrowed by each */
	} v[] = {{12, 7}, {6, 14}, {20, 4}, {24, 1}};

	for (unsigned int k = 0; k < RTE_DIM(v); k++) {
		const unsigned int n = v[k].conns, slow = n + 1, reader = n + 2;
		struct weft_tcp_attr attr = {.max_snd_segs_total = 400,
		                             .max_conns = 32,
		                             .max_conns_per_peer = 32,
		                             .initial_cwnd_segs = 24,
		                             .user_timeout_us = 1000000000};
		const struct weft_tcp_stats *st;
		uint32_t common, without, room, gone = 0;

		up(&attr);
		st = weft_tcp_stats(net.node[0].tcp);
		CHECK_EQ(share()->own == 6, true);
		common = share()->snd_max - share()->fixed;
		net.accept_as = (struct net_app){.to_send = (6 + v[k].each) * MSS};
		for (unsigned int i = 0; i < n; i++) {
			CHECK(hand_open(i));
			CHECK_EQ(conn(i)->snd_segs, 6 + v[k].each);
			run_for(WEFT_NS_PER_MS);
		}
		net.accept_as = (struct net_app){.to_send = 8 * MSS};
		CHECK(hand_open(n));
		CHECK(hand_open(slow));
		net.accept_as = (struct net_app){.to_send = 0};
		CHECK(hand_open(reader));
		check_share(reader + 1);
		CHECK(share()->common < common / 2);
		/* No connection wants more buffers. */
		for (unsigned int s = 0; s < 4; s++) {
			seconds(10, n, 0, n);
			hand_ack(slow);
			net.app[slow].to_send += 8 * MSS;
			net.app[slow].node->sched.now_ns = sim_now_ns(net.sim);
			net_app_push(&net.app[slow]);
		}
		CHECK_EQ(st->snd_stalls, 0);
		CHECK_EQ(share()->refused_ns, 0);
		/* One connection wants more buffers. */
		net.app[reader].to_send = 1000000000;
		net.app[reader].node->sched.now_ns = sim_now_ns(net.sim);
		net_app_push(&net.app[reader]);
		seconds(8, reader, 0, n);
		hand_ack(slow);
		CHECK(share()->lent->snd.refused > 0);
		/* The number it could borrow without the stopped readers. */
		without = common / 3;
		for (unsigned int i = 0; i < n; i++) {
			CHECK_MSG(!net.app[i].closed || gone == i, "%u before %u", i, gone);
			gone += net.app[i].closed;
		}
		CHECK_EQ(st->snd_stalls, gone);
		room = conn(reader)->snd_segs + tcp_segs_room(conn(reader)) - share()->own;
		test_note("%u of %u ended, %u may be borrowed of %u", gone, n, room, without);
		CHECK(gone > 0 && gone < n);
		CHECK(room >= without / 2);
		CHECK(!net.app[slow].closed && !net.app[reader].closed);
		seconds(5, reader, 0, n);
		CHECK_EQ(st->snd_stalls, gone);
		app = &net.app[reader];
		for (unsigned int i = 0; i <= reader; i++)
			if (!net.app[i].closed)
				weft_tcp_abort(conn(i), sim_now_ns(net.sim));
		for (unsigned int i = 0; i <= reader; i++)
			net.app[i].c = NULL;
		CHECK_EQ(net.node[0].tcp->snd_segs, 0);
		CHECK(TAILQ_EMPTY(&share()->lap) && TAILQ_EMPTY(&share()->late));
		run_for(WEFT_NS_PER_MS);
		down();
	}
}

#define MANY 4000u /* borrowers, half of which are overdue */

/**
 * One turn of the sweep looks at a few hundred borrowers at most, regardless of their number.
 * Within a second all overdue borrowers are found. Each borrower here has one buffer, and none is
 * ended because enough buffers are free.
 */
static void
test_sweep_steps(void)
{
	struct weft_tcp_attr attr = {.max_conns = 2 * MANY, .max_conns_per_peer = 2 * MANY};
	struct weft_tcp_conn *c;
	uint64_t before, first;
	struct tcp_share *s;
	struct weft_tcp *t;

	up(&attr);
	t = net.node[0].tcp;
	net.accept_as = (struct net_app){.to_send = 0};
	CHECK(hand_open(0));
	s = share();
	s->own = 1;
	s->fixed = 2 * MANY;
	s->snd_max = 10 * MANY;
	for (unsigned int i = 0, n = 0; n < MANY; i++) {
		c = &t->conns[2 * MANY - 1 - i];
		CHECK(c != conn(0));
		c->t = t;
		c->share = s;
		tcp_share_add(c, 2);
		n++;
	}
	run_for(31 * WEFT_NS_PER_S);
	for (unsigned int i = 0; i < MANY; i += 2)
		tcp_share_lap(&t->conns[2 * MANY - 1 - i], sim_now_ns(net.sim));
	first = t->sweep_steps;
	for (unsigned int k = 0; k < 2000; k++) {
		if (k % 1000 == 0) {
			t->sched->now_ns = sim_now_ns(net.sim);
			tcp_share_refused(conn(0));
		}
		before = t->sweep_steps;
		run_for(WEFT_NS_PER_MS);
		CHECK_MSG(t->sweep_steps - before <= 300, "%" PRIu64 " in a millisecond",
		          t->sweep_steps - before);
		if (k == 999)
			CHECK_EQ(s->nlate, MANY / 2);
	}
	/* Each borrower is found once. */
	CHECK_MSG(t->sweep_steps - first <= MANY / 2 + 100, "%" PRIu64, t->sweep_steps - first);
	CHECK_EQ(s->nlate, MANY / 2);
	CHECK_EQ(t->stats.snd_stalls, 0);
	/* A borrower whose lap ends is no longer overdue, nor is a borrower that gives buffers
	 * back. */
	tcp_share_lap(&t->conns[2 * MANY - 2], sim_now_ns(net.sim));
	tcp_share_sub(&t->conns[2 * MANY - 4], 1);
	CHECK_EQ(s->nlate, MANY / 2 - 2);
	for (unsigned int i = 0; i < MANY; i++) {
		c = &t->conns[2 * MANY - 1 - i];
		tcp_share_sub(c, c->snd_segs);
		c->share = NULL;
	}
	CHECK_EQ(s->nlate, 0);
	CHECK_EQ(s->borrowers, 0);
	CHECK(TAILQ_EMPTY(&s->lap) && TAILQ_EMPTY(&s->late));
	weft_tcp_abort(conn(0), sim_now_ns(net.sim));
	run_for(WEFT_NS_PER_MS);
	down();
}

/** Connections that wait for the transmit ring get a turn when it accepts frames, and not
 * before. */
static void
test_wait(void)
{
	struct weft_tcp *t;
	unsigned int polls;

	up(&(struct weft_tcp_attr){.max_conns = 64, .max_conns_per_peer = 64});
	t = net.node[0].tcp;
	net.accept_as = (struct net_app){.to_send = 40 * MSS};
	for (unsigned int i = 0; i < 40; i++)
		CHECK(hand_open(i));
	net.node[0].tx_stuck = true;
	for (unsigned int k = 0; k < 40; k++) {
		for (unsigned int i = 0; i < 40; i++)
			hand_seg(i, TCP_ACK, 0, conn(i)->snd_max, 65535, 0);
		run_for(20 * WEFT_NS_PER_US);
	}
	CHECK(weft_netif_tx_room(net.node[0].nif) <= TCP_TX_SLACK);
	CHECK(t->nwaiting > 0);
	polls = 0;
	/* While the ring is full, a poll only checks it. */
	for (unsigned int i = 0; i < 100; i++) {
		struct weft_tcp_conn *first = TAILQ_FIRST(&t->waiting);

		run_for(10 * WEFT_NS_PER_US);
		polls += TAILQ_FIRST(&t->waiting) != first;
	}
	CHECK_MSG(polls <= 11, "%u turns in vain", polls);
	net.node[1].raw = true;
	net.node[0].tx_stuck = false;
	for (unsigned int k = 0; k < 60; k++)
		for (unsigned int i = 0; i < 40; i++)
			hand_ack(i);
	CHECK_EQ(t->nwaiting, 0);
	for (unsigned int i = 0; i < 40; i++)
		CHECK_EQ(net.app[i].sent, 40 * MSS);
	app = &net.app[0];
	run_for(WEFT_NS_PER_S);
	down();
}

WEFT_TEST_MAIN({"readers_that_stop", test_readers_that_stop}, {"members", test_members},
               {"members_go", test_members_go}, {"members_of_address", test_members_of_address},
               {"members_overdue", test_members_overdue}, {"members_planned", test_members_planned},
               {"stall", test_stall}, {"stall_few", test_stall_few},
               {"sweep_steps", test_sweep_steps}, {"wait", test_wait})
