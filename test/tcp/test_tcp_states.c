/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Every synchronized state and every kind of segment of RFC 9293 s3.10.7.4 as a table, the
 * calls of s3.10.4 and s3.10.5, and the end of a connection: simultaneous open, FIN-WAIT-2,
 * TIME-WAIT, data after close. Also when an ACK is delayed, and when a silent peer is given up.
 */

#include "tcp_peer.h"
#include "tcp_conn.h"
#include "tcp_rcv.h"
#include "tcp_snd.h"

static const struct weft_tcp_stats *st;
/** rcv: sequence number that the stack expects. ack: acknowledges its octets but not its FIN */
static uint32_t rcv, ack;

static void
turn(void)
{
	run_for(20 * WEFT_NS_PER_US);
}

static enum weft_tcp_state
state_now(void)
{
	if (st->time_wait_now > 0)
		return WEFT_TCP_TIME_WAIT;
	if (st->half_open_now > 0)
		return WEFT_TCP_SYN_RCVD;
	return app != NULL && app->c != NULL ? net_state(app) : WEFT_TCP_CLOSED;
}

static void
close_now(void)
{
	weft_tcp_close(app->c, sim_now_ns(net.sim));
	turn();
}

/** Open a connection and bring it to state s. */
static void
bring_to(enum weft_tcp_state s)
{
	struct tcp_opts o = {.mss_bytes = MSS};

	app = NULL;
	rcv = IRS + 1;
	if (s == WEFT_TCP_SYN_RCVD) {
		up(NULL);
		st = weft_tcp_stats(net.node[0].tcp);
		syn(IRS, &o);
		iss = last().h.seq;
		ack = iss + 1;
		return;
	}
	open_conn(NULL, NULL);
	st = weft_tcp_stats(net.node[0].tcp);
	ack = iss + 1;
	if (s == WEFT_TCP_CLOSE_WAIT || s == WEFT_TCP_LAST_ACK) {
		seg_wait(TCP_ACK | TCP_FIN, rcv, ack, 65535, 0, 0);
		rcv++;
	}
	if (s != WEFT_TCP_ESTABLISHED && s != WEFT_TCP_CLOSE_WAIT)
		close_now();
	if (s == WEFT_TCP_CLOSING) {
		seg_wait(TCP_ACK | TCP_FIN, rcv, ack, 65535, 0, 0);
		rcv++;
	}
	if (s == WEFT_TCP_FIN_WAIT_2 || s == WEFT_TCP_TIME_WAIT)
		seg_wait(TCP_ACK, rcv, ++ack, 65535, 0, 0);
	if (s == WEFT_TCP_TIME_WAIT) {
		seg_wait(TCP_ACK | TCP_FIN, rcv, ack, 65535, 0, 0);
		rcv++;
	}
	CHECK_EQ(state_now(), s);
}

/* The answer. */
#define NONE 0
#define A    TCP_ACK
#define SA   (TCP_SYN | TCP_ACK)
#define R    TCP_RST
/* The next state. SAME: no change. */
#define SAME 0xff
#define CL   WEFT_TCP_CLOSED
#define SR   WEFT_TCP_SYN_RCVD
#define ES   WEFT_TCP_ESTABLISHED
#define F2   WEFT_TCP_FIN_WAIT_2
#define CW   WEFT_TCP_CLOSE_WAIT
#define CG   WEFT_TCP_CLOSING
#define TW   WEFT_TCP_TIME_WAIT

struct outcome {
	uint8_t reply, state;
};

#define ALL(r, s)                                                                                  \
	{                                                                                          \
		{r, s}, {r, s}, {r, s}, {r, s}, {r, s}, {r, s}, {r, s},                            \
		{                                                                                  \
			r, s                                                                       \
		}                                                                                  \
	}

/** s3.10.7.4 in its order. The columns are the states of `states`. */
static const struct event {
	const char *name; /**< the paragraph of the RFC */
	uint8_t flags;
	int32_t seq;     /**< relative to rcv */
	int32_t ack_off; /**< relative to ack */
	uint32_t len;
	struct outcome out[8];
	uint32_t received;    /**< octets the user gets, in states where data may arrive */
	size_t counter;       /**< the counter that rises, in weft_tcp_stats; 0: none */
	unsigned int counted; /**< one bit for each column */
} events[] = {
#define C(field) offsetof(struct weft_tcp_stats, field)
        {"first: a segment before the window", TCP_ACK, -1000, 0, 0, ALL(A, SAME), 0,
         C(rx_out_of_window), 0xff},
        {"first: text before the window", TCP_ACK, -1000, 0, 10, ALL(A, SAME), 0,
         C(rx_out_of_window), 0xff},
        {"first: text behind the window", TCP_ACK, 70000, 0, 10, ALL(A, SAME), 0,
         C(rx_out_of_window), 0xff},
        {"first: RST outside the window, RFC 5961 s3.2 (1)", TCP_RST, 70000, 0, 0, ALL(NONE, SAME),
         0, C(rx_out_of_window), 0xff},
        {"second: RST in place, RFC 5961 s3.2 (2); TIME-WAIT: RFC 1337",
         TCP_RST,
         0,
         0,
         0,
         {{NONE, CL},
          {NONE, CL},
          {NONE, CL},
          {NONE, CL},
          {NONE, CL},
          {NONE, CL},
          {NONE, CL},
          {NONE, SAME}},
         0,
         C(resets_in),
         0x7f},
        {"second: RST elsewhere in the window, RFC 5961 s3.2 (3)",
         TCP_RST,
         5,
         0,
         0,
         {{A, SAME},
          {A, SAME},
          {A, SAME},
          {A, SAME},
          {A, SAME},
          {A, SAME},
          {A, SAME},
          {NONE, SAME}},
         0,
         C(rst_out_of_place),
         0x7f},
        {"fourth: SYN in the window, RFC 5961 s4.2; passive SYN-RECEIVED: back to LISTEN",
         TCP_SYN,
         100,
         0,
         0,
         {{NONE, CL}, {A, SAME}, {A, SAME}, {A, SAME}, {A, SAME}, {A, SAME}, {A, SAME}, {SA, SR}},
         0,
         C(syn_in_window),
         0x7f},
        {"fourth: SYN before the window", TCP_SYN, -500, 0, 0, ALL(A, SAME), 0, 0, 0},
        {"fourth: SYN with ACK in the window",
         SA,
         100,
         0,
         0,
         {{NONE, CL}, {A, SAME}, {A, SAME}, {A, SAME}, {A, SAME}, {A, SAME}, {A, SAME}, {A, SAME}},
         0,
         C(syn_in_window),
         0xff},
        {"fifth: ACK bit off", 0, 0, 0, 10, ALL(NONE, SAME), 0, 0, 0},
        {"fifth: ACK of what was not sent",
         TCP_ACK,
         0,
         1000,
         10,
         {{R, SAME}, {A, SAME}, {A, SAME}, {A, SAME}, {A, SAME}, {A, SAME}, {A, SAME}, {A, SAME}},
         0,
         C(acks_out_of_range),
         0xfe},
        {"fifth: ACK of long ago, RFC 5961 s5.2 (MUST)",
         TCP_ACK,
         0,
         -70000,
         10,
         {{R, SAME}, {A, SAME}, {A, SAME}, {A, SAME}, {A, SAME}, {A, SAME}, {A, SAME}, {A, SAME}},
         0,
         C(blind_drops),
         0xfe},
        {"fifth: ACK of all but our FIN",
         TCP_ACK,
         0,
         0,
         0,
         {{NONE, ES},
          {NONE, SAME},
          {NONE, SAME},
          {NONE, SAME},
          {NONE, SAME},
          {NONE, SAME},
          {NONE, SAME},
          {NONE, SAME}},
         0,
         0,
         0},
        {"fifth: ACK of our FIN",
         TCP_ACK,
         0,
         1,
         0,
         {{R, SAME},
          {A, SAME},
          {NONE, F2},
          {A, SAME},
          {A, SAME},
          {NONE, TW},
          {NONE, CL},
          {A, SAME}},
         0,
         0,
         0},
        {"sixth and seventh: urgent text, in band",
         TCP_ACK | TCP_URG,
         0,
         0,
         10,
         {{A, ES},
          {A, SAME},
          {A, SAME},
          {A, SAME},
          {NONE, SAME},
          {NONE, SAME},
          {NONE, SAME},
          {NONE, SAME}},
         10,
         C(urgent_in),
         0xff},
        {"seventh: text after the peer's FIN is ignored",
         TCP_ACK,
         0,
         0,
         10,
         {{A, ES},
          {A, SAME},
          {A, SAME},
          {A, SAME},
          {NONE, SAME},
          {NONE, SAME},
          {NONE, SAME},
          {NONE, SAME}},
         10,
         C(data_after_close),
         0xf0},
        {"eighth: FIN",
         TCP_ACK | TCP_FIN,
         0,
         0,
         0,
         {{A, CW},
          {A, CW},
          {A, CG},
          {A, TW},
          {NONE, SAME},
          {NONE, SAME},
          {NONE, SAME},
          {NONE, SAME}},
         0,
         0,
         0},
        {"eighth: FIN and text",
         TCP_ACK | TCP_FIN,
         0,
         0,
         10,
         {{A, CW},
          {A, CW},
          {A, CG},
          {A, TW},
          {NONE, SAME},
          {NONE, SAME},
          {NONE, SAME},
          {NONE, SAME}},
         10,
         0,
         0},
        {"eighth: FIN that acknowledges ours",
         TCP_ACK | TCP_FIN,
         0,
         1,
         0,
         {{R, SAME}, {A, SAME}, {A, TW}, {A, SAME}, {A, SAME}, {NONE, TW}, {NONE, CL}, {A, SAME}},
         0,
         0,
         0},
        {"eighth: FIN again", TCP_ACK | TCP_FIN, -1, 0, 0, ALL(A, SAME), 0, 0, 0},
#undef C
};

static const enum weft_tcp_state states[8] = {
        WEFT_TCP_SYN_RCVD,   WEFT_TCP_ESTABLISHED, WEFT_TCP_FIN_WAIT_1, WEFT_TCP_FIN_WAIT_2,
        WEFT_TCP_CLOSE_WAIT, WEFT_TCP_CLOSING,     WEFT_TCP_LAST_ACK,   WEFT_TCP_TIME_WAIT};

static void
test_table(void)
{
	for (unsigned int e = 0; e < RTE_DIM(events); e++) {
		const struct event *ev = &events[e];

		for (unsigned int i = 0; i < RTE_DIM(states); i++) {
			const struct outcome *want = &ev->out[i];
			enum weft_tcp_state to = want->state == SAME ? states[i] : want->state;
			uint64_t before = 0, after = 0;
			const char *col = weft_tcp_state_name(states[i]);

			/* The peer's FIN is before rcv, so that "again" is one octet before. */
			if (ev->seq == -1 && i < 4)
				continue;
			bring_to(states[i]);
			if (ev->counter != 0)
				before = *(const uint64_t *)((const char *)st + ev->counter);
			seg_wait(ev->flags, rcv + (uint32_t)ev->seq, ack + (uint32_t)ev->ack_off,
			         65535, 0, ev->len);
			if (app == NULL && net.accepted > 0)
				app = &net.app[0];
			CHECK_MSG(net.node[1].nsegs == (want->reply != NONE), "%s, %s: %u segments",
			          col, ev->name, net.node[1].nsegs);
			CHECK_MSG(want->reply == NONE || last().h.flags == want->reply,
			          "%s, %s: flags %x", col, ev->name, last().h.flags);
			CHECK_MSG(want->reply != R || last().h.seq == ack + (uint32_t)ev->ack_off,
			          "%s, %s: RST", col, ev->name);
			CHECK_MSG(state_now() == to, "%s, %s: now %s", col, ev->name,
			          weft_tcp_state_name(state_now()));
			if (ev->counter != 0)
				after = *(const uint64_t *)((const char *)st + ev->counter);
			CHECK_MSG(after - before == (ev->counted >> i & 1), "%s, %s: counted %u",
			          col, ev->name, (unsigned int)(after - before));
			CHECK_MSG(app == NULL || app->received == (i < 4 ? ev->received : 0),
			          "%s, %s: received", col, ev->name);
			if (app != NULL)
				down();
			else
				net_down(&net);
		}
	}
}

/** s3.10.5 ABORT and s3.10.4 CLOSE (a second time) in each state that a user sees. */
static void
test_calls(void)
{
	for (unsigned int i = 1; i < 7; i++) {
		bool reset = states[i] != WEFT_TCP_CLOSING && states[i] != WEFT_TCP_LAST_ACK;

		bring_to(states[i]);
		if (i > 1 && states[i] != WEFT_TCP_CLOSE_WAIT) {
			close_now();
			CHECK_EQ(net.node[1].nsegs, 0);
			CHECK_EQ(state_now(), states[i]);
		}
		net.node[1].nsegs = 0;
		weft_tcp_abort(app->c, sim_now_ns(net.sim));
		app->c = NULL;
		turn();
		CHECK_EQ(net.node[1].nsegs, reset);
		if (reset)
			CHECK_EQ(last().h.flags, TCP_RST | TCP_ACK);
		CHECK_EQ(st->conns_now, 0);
		CHECK(!app->closed);
		down();
	}
}

/** s3.5 figure 7: both ends send a SYN; s3.10.7.3 fourth. */
static void
test_simultaneous_open(void)
{
	struct tcp_opts o = {.mss_bytes = MSS, .sack_perm = true, .has_ts = true, .ts_val = 50};
	struct tcp_hdr h = {.src_port = PORT, .seq = IRS, .wnd = 65535, .flags = TCP_SYN};

	for (unsigned int syn_ack = 0; syn_ack < 2; syn_ack++) {
		up(NULL);
		st = weft_tcp_stats(net.node[0].tcp);
		app = net_connect(&net, 0, PORT);
		turn();
		iss = last().h.seq;
		h.dst_port = last().h.src_port;
		h.flags = TCP_SYN;
		h.seq = IRS;
		net_raw(&net, &h, &o, 0, 0);
		turn();
		CHECK_EQ(last().h.flags, TCP_SYN | TCP_ACK);
		CHECK_EQ(last().h.seq, iss);
		CHECK_EQ(last().h.ack, IRS + 1);
		CHECK(last().opts.has_ts && last().opts.sack_perm && !last().opts.has_wscale);
		CHECK_EQ(net_state(app), WEFT_TCP_SYN_RCVD);
		/* Either the peer's own SYN,ACK, or a plain ACK of our SYN. */
		h.flags = syn_ack ? TCP_SYN | TCP_ACK : TCP_ACK;
		h.seq = syn_ack ? IRS : IRS + 1;
		h.ack = iss + 1;
		net_raw(&net, &h, &o, 0, 0);
		turn();
		CHECK_EQ(net_state(app), WEFT_TCP_ESTABLISHED);
		CHECK(app->established);
		h.flags = TCP_ACK;
		h.seq = IRS + 1;
		net_raw(&net, &h, &o, 0, 100);
		turn();
		CHECK_EQ(app->received, 100);
		down();
	}
	/* s3.10.7.4 second: an active open that is refused in SYN-RECEIVED. */
	up(NULL);
	app = net_connect(&net, 0, PORT);
	turn();
	h.dst_port = last().h.src_port;
	h.flags = TCP_SYN;
	h.seq = IRS;
	net_raw(&net, &h, &o, 0, 0);
	h.flags = TCP_RST;
	h.seq = IRS + 1;
	net_raw(&net, &h, NULL, 0, 0);
	turn();
	CHECK_EQ(app->err, -ECONNREFUSED);
	down();
}

/** s3.10.7.2 third: data with a SYN are not lost, because the peer sends them again. */
static void
test_syn_with_text(void)
{
	struct tcp_hdr h = {
	        .src_port = PORT, .dst_port = 7, .seq = IRS, .wnd = 65535, .flags = TCP_SYN};

	up(NULL);
	st = weft_tcp_stats(net.node[0].tcp);
	net_raw(&net, &h, NULL, 0, 100);
	turn();
	CHECK_EQ(last().h.ack, IRS + 1);
	seg_wait(TCP_ACK, IRS + 1, last().h.seq + 1, 65535, 0, 100);
	app = &net.app[0];
	CHECK_EQ(app->received, 100);
	down();
}

/** s3.6: half-closed connections in each direction: the other direction continues. */
static void
test_half_close(void)
{
	bring_to(WEFT_TCP_FIN_WAIT_2);
	for (uint32_t i = 0; i < 5; i++)
		seg_wait(TCP_ACK, rcv + i * 1000, ack, 65535, i * 1000, 1000);
	CHECK_EQ(app->received, 5000);
	CHECK_EQ(state_now(), WEFT_TCP_FIN_WAIT_2);
	down();
	bring_to(WEFT_TCP_CLOSE_WAIT);
	app->node->sched.now_ns = sim_now_ns(net.sim);
	app->to_send = 3 * MSS;
	net_app_push(app);
	turn();
	CHECK_EQ(net.node[1].nsegs, 3);
	seg_wait(TCP_ACK, rcv, ack + 3 * MSS, 65535, 0, 0);
	close_now();
	CHECK_EQ(last().h.flags, TCP_FIN | TCP_ACK);
	seg_wait(TCP_ACK, rcv, ack + 3 * MSS + 1, 65535, 0, 0);
	CHECK(app->closed && app->err == 0);
	down();
}

/** A peer that never closes its direction and sends nothing. */
static void
test_fin_wait_2(void)
{
	struct weft_tcp_attr attr = {.fin_wait2_us = 5000000};

	for (unsigned int never = 0; never < 2; never++) {
		attr.fin_wait2_us = never ? UINT32_MAX : 5000000;
		open_conn(&attr, NULL);
		st = weft_tcp_stats(net.node[0].tcp);
		run_for(20 * WEFT_NS_PER_S); /* an established connection may be silent */
		CHECK(!app->closed);
		close_now();
		seg_wait(TCP_ACK, IRS + 1, iss + 2, 65535, 0, 0);
		CHECK_EQ(net_state(app), WEFT_TCP_FIN_WAIT_2);
		/* Data, and an ACK alone, show that the peer is alive. */
		for (uint32_t i = 0; i < 4; i++) {
			run_for(4 * WEFT_NS_PER_S);
			seg_wait(TCP_ACK, IRS + 1 + 100 * ((i + 1) / 2), iss + 2, 65535,
			         100 * (i / 2), i % 2 ? 0 : 100);
		}
		CHECK(!app->closed);
		run_for(6 * WEFT_NS_PER_S);
		CHECK_EQ(app->closed, !never);
		CHECK_EQ(st->fin_wait2_timeouts, !never);
		if (!never) {
			CHECK_EQ(app->err, -ETIMEDOUT);
			CHECK_EQ(last().h.flags, TCP_RST | TCP_ACK);
			CHECK_EQ(st->conns_now, 0);
		}
		down();
	}
}

static void
ts_syn(uint32_t seq, uint32_t val)
{
	struct tcp_opts o = {.mss_bytes = MSS, .has_ts = true, .ts_val = val};

	syn(seq, &o);
}

/** RFC 9293 s3.6.1, RFC 6191: the SYNs that end a TIME-WAIT. */
static void
test_time_wait_reuse(void)
{
	static const struct {
		bool old_ts, new_ts;
		int32_t seq, val; /**< relative to rcv_nxt, and to TS.Recent */
		bool reuse;
	} row[] = {
	        {false, false, 100, 0, true},   {false, false, 0, 0, false},
	        {false, false, -100, 0, false}, {false, true, -100, 0, true},
	        {true, true, -100, 1, true},    {true, true, 100, 0, true},
	        {true, true, -100, 0, false},   {true, true, 100, -1, false},
	        {true, false, 100, 0, true},    {true, false, -100, 0, false},
	};

	for (unsigned int i = 0; i < RTE_DIM(row); i++) {
		struct tcp_opts ts = {.has_ts = true, .ts_val = 9000};
		struct tcp_hdr h = {.src_port = PORT, .dst_port = 7, .wnd = 65535};
		uint32_t fin;

		up(NULL);
		st = weft_tcp_stats(net.node[0].tcp);
		if (row[i].old_ts)
			ts_syn(IRS, 9000);
		else
			syn(IRS, NULL);
		iss = last().h.seq;
		h.seq = IRS + 1;
		h.ack = iss + 1;
		h.flags = TCP_ACK;
		net_raw(&net, &h, row[i].old_ts ? &ts : NULL, 0, 0);
		turn();
		app = &net.app[0];
		close_now();
		fin = last().h.seq;
		h.flags = TCP_ACK | TCP_FIN;
		h.ack = fin + 1;
		net_raw(&net, &h, row[i].old_ts ? &ts : NULL, 0, 0);
		turn();
		CHECK_EQ(state_now(), WEFT_TCP_TIME_WAIT);
		if (row[i].new_ts)
			ts_syn(IRS + 2 + (uint32_t)row[i].seq, 9000 + (uint32_t)row[i].val);
		else
			syn(IRS + 2 + (uint32_t)row[i].seq, NULL);
		CHECK_MSG(st->time_wait_reused == row[i].reuse, "row %u", i);
		CHECK_EQ(last().h.flags, row[i].reuse ? TCP_SYN | TCP_ACK : TCP_ACK);
		/* RFC 9293 s3.6.1: beyond the last sequence number of the old connection. */
		if (row[i].reuse)
			CHECK(weft_seq_lt(fin, last().h.seq));
		down();
	}
}

/** At most max_time_wait connections: the oldest ends first. Each stays for 2 MSL and no longer. */
static void
test_time_wait_bound(void)
{
	struct weft_tcp_attr attr = {.max_time_wait = 3};
	struct tcp_hdr h = {.dst_port = 7, .wnd = 65535};

	up(&attr);
	st = weft_tcp_stats(net.node[0].tcp);
	for (uint16_t i = 0; i < 5; i++) {
		h.src_port = PORT + i;
		h.seq = IRS;
		h.flags = TCP_SYN;
		net_raw(&net, &h, NULL, 0, 0);
		turn();
		h.seq++;
		h.ack = last().h.seq + 1;
		h.flags = TCP_ACK;
		net_raw(&net, &h, NULL, 0, 0);
		turn();
		weft_tcp_close(net.app[i].c, sim_now_ns(net.sim));
		h.ack++;
		h.flags = TCP_ACK | TCP_FIN;
		net_raw(&net, &h, NULL, 0, 0);
		turn();
		CHECK_EQ(st->time_wait_now, RTE_MIN(i + 1, 3));
	}
	CHECK_EQ(st->time_wait_evicted, 2);
	app = &net.app[0];
	run_for(1100 * WEFT_NS_PER_MS);
	CHECK_EQ(st->time_wait_now, 0);
	CHECK_EQ(st->conns_now, 0);
	down();
}

/** s3.6.1 (SHLD-3): data that arrive when no user can receive them. */
static void
test_text_after_close(void)
{
	static const struct weft_tcp_conn_ops deaf = {0};

	bring_to(WEFT_TCP_FIN_WAIT_2);
	weft_tcp_set_user(app->c, &deaf, NULL);
	app->c = NULL;
	seg_wait(TCP_ACK, rcv, ack, 65535, 0, 100);
	CHECK_EQ(st->data_after_close, 1);
	CHECK_EQ(last().h.flags, TCP_RST | TCP_ACK);
	CHECK_EQ(st->conns_now, 0);
	down();
}

/** RFC 9293 s3.8.6.3: ACKs that are not delayed. */
static void
test_quick_acks(void)
{
	uint32_t off = 0;

	open_conn(NULL, NULL);
	st = weft_tcp_stats(net.node[0].tcp);
	for (unsigned int pause = 0; pause < 2; pause++) {
		/* The first ACKs of a connection, and those after a pause. */
		for (unsigned int i = 0; i < TCP_QUICK_ACKS; i++, off += 500) {
			seg_wait(TCP_ACK, IRS + 1 + off, iss + 1, 65535, off, 500);
			CHECK_EQ(net.node[1].nsegs, 1);
		}
		seg_wait(TCP_ACK, IRS + 1 + off, iss + 1, 65535, off, 500);
		CHECK_EQ(net.node[1].nsegs, 0);
		off += 500;
		run_for(WEFT_NS_PER_MS);
		CHECK_EQ(net.node[1].nsegs, 1); /* delack_us */
		run_for(2 * WEFT_NS_PER_S);
	}
	down();
	/* Half of a window that holds less than two segments. */
	open_conn(&(struct weft_tcp_attr){.rcv_buf_bytes = 1000, .no_quick_acks = true}, NULL);
	seg_wait(TCP_ACK, IRS + 1, iss + 1, 65535, 0, 400);
	CHECK_EQ(net.node[1].nsegs, 0);
	seg_wait(TCP_ACK, IRS + 401, iss + 1, 65535, 400, 100);
	CHECK_EQ(net.node[1].nsegs, 1);
	down();
}

/** Data arrive whose ACK may be delayed, and the stack resumes a waiting user, which sends
 * nothing. */
static void
no_hurry_text(uint32_t off)
{
	seg_wait(TCP_ACK, IRS + 1 + off, iss + 1, 65535, off, 100);
	CHECK_EQ(app->received, off + 100);
	CHECK_EQ(net.node[1].nsegs, 0);
}

/** RFC 9293 s3.8.6.3: a user that waits for buffers or for room of the port is resumed. A
 * delayed ACK is not sent for that, because it can still be sent with data. */
static void
test_no_hurry(void)
{
	static struct rte_mbuf *all[65536];
	struct weft_tcp_attr attr = {.delack_us = 40000,
	                             .no_quick_acks = true,
	                             .initial_cwnd_segs = 4000,
	                             .max_conns = 4};
	unsigned int n = 0;

	open_conn(&attr, NULL);
	no_hurry_text(0);
	while (n < RTE_DIM(all) && (all[n] = rte_pktmbuf_alloc(net_pool())) != NULL)
		n++;
	CHECK(n < RTE_DIM(all));
	CHECK(weft_tcp_alloc(app->c) == NULL);
	net_run(&net, 2 * WEFT_NS_PER_MS, NULL, NULL);
	CHECK(app->c->waiting);
	app->writables = 0;
	rte_pktmbuf_free_bulk(all, n);
	run_for(5 * WEFT_NS_PER_MS);
	CHECK(!app->c->waiting);
	CHECK_EQ(app->writables, 1);
	CHECK_EQ(net.node[1].nsegs, 0);
	run_for(40 * WEFT_NS_PER_MS);
	CHECK_EQ(net.node[1].nsegs, 1);
	/* The port accepts nothing, and its queue is full. */
	net.node[0].tx_stuck = true;
	while (weft_netif_tx_room(net.node[0].nif) > TCP_TX_SLACK) {
		struct rte_mbuf *m = weft_tcp_alloc(app->c);

		CHECK(m != NULL && weft_tcp_send_space(app->c) > 0);
		CHECK(weft_tcp_send_space(app->c) <=
		      (weft_netif_tx_room(net.node[0].nif) - TCP_TX_SLACK) * MSS);
		*(uint8_t *)rte_pktmbuf_append(m, 1) = net_stream(200, app->sent++);
		CHECK_EQ(weft_tcp_send(app->c, m, true, sim_now_ns(net.sim)), 0);
	}
	no_hurry_text(100);
	CHECK_EQ(weft_tcp_send_space(app->c), 0);
	CHECK(app->c->waiting);
	net_run(&net, 2 * WEFT_NS_PER_MS, NULL, NULL);
	app->writables = 0;
	net.node[0].tx_stuck = false;
	run_for(5 * WEFT_NS_PER_MS);
	CHECK(app->writables > 0);
	CHECK(net.node[1].nsegs > 0);
	CHECK_EQ(last().h.ack, IRS + 101);
	run_for(40 * WEFT_NS_PER_MS);
	CHECK_EQ(last().h.ack, IRS + 201);
	down();
}

/** A worker that did not poll for seconds processes the answers in its ring before it gives any
 * connection up. */
static void
test_stall(void)
{
	struct weft_tcp_attr attr = {.keepalive_us = 1000000, .keepalive_probes = 1};

	for (unsigned int behind = 0; behind < 3; behind++) {
		open_conn(&attr, NULL);
		st = weft_tcp_stats(net.node[0].tcp);
		/* The probe is sent. The answers wait in the ring. */
		while (st->keepalive_probes == 0)
			net_run(&net, 10 * WEFT_NS_PER_MS, NULL, NULL);
		net.node[0].held_until_ns = sim_now_ns(net.sim) + 10 * WEFT_NS_PER_S;
		for (unsigned int i = 0; i < behind * 100; i++)
			net_raw(&net,
			        &(struct tcp_hdr){.src_port = 9, .dst_port = 7, .flags = TCP_RST},
			        NULL, 0, 0);
		if (behind < 2)
			seg(TCP_ACK, IRS + 1, iss + 1, 65535, 0, 0);
		run_for(10 * WEFT_NS_PER_S + 100 * WEFT_NS_PER_MS);
		CHECK_MSG(app->closed == (behind == 2), "behind %u bursts", behind * 100 / 32);
		CHECK_EQ(st->keepalive_drops, behind == 2);
		down();
	}
}

/** RFC 6528 s3: later incarnations of one connection begin at higher numbers, and other hosts
 * learn nothing. */
static void
test_isn(void)
{
	struct tcp_opts o = {.mss_bytes = MSS};
	uint32_t before = 0;

	up(&(struct weft_tcp_attr){.syn_cookies = WEFT_TCP_COOKIES_NEVER});
	for (unsigned int i = 0; i < 20; i++) {
		syn(IRS, &o);
		if (i > 0)
			CHECK(last().h.seq - before > 240000 && last().h.seq - before < 260000);
		before = last().h.seq;
		seg_wait(TCP_RST, IRS + 1, 0, 0, 0, 0);
		run_for(WEFT_NS_PER_S - 40 * WEFT_NS_PER_US); /* a tick is 4 us */
	}
	net_down(&net);
}

WEFT_TEST_MAIN({"table", test_table}, {"calls", test_calls},
               {"simultaneous_open", test_simultaneous_open}, {"syn_with_text", test_syn_with_text},
               {"half_close", test_half_close}, {"fin_wait_2", test_fin_wait_2},
               {"time_wait_reuse", test_time_wait_reuse}, {"time_wait_bound", test_time_wait_bound},
               {"text_after_close", test_text_after_close}, {"quick_acks", test_quick_acks},
               {"no_hurry", test_no_hurry}, {"stall", test_stall}, {"isn", test_isn})
