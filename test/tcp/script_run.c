/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The effects of the statements of a packet script. */

#include <ctype.h>

#include <stdlib.h>

#include "script.h"

/** Permitted difference from the expected time: two ticks of the stack's timers, and some
 * microseconds. */
#define TOLERANCE_NS (40 * WEFT_NS_PER_US)

/* ---- Expected segments ---- */

static uint32_t
num(const struct sc_num *n, uint32_t base)
{
	return n->abs ? n->v : n->v + base;
}

static bool
opts_equal(const struct sc *s, const struct sc_opts *want, const struct sc_opts *is)
{
	if (want->has_mss != is->has_mss || want->mss != is->mss || want->has_ws != is->has_ws ||
	    want->ws != is->ws || want->sack_ok != is->sack_ok || want->has_ts != is->has_ts ||
	    want->nsack != is->nsack || want->nraw != is->nraw ||
	    memcmp(want->raw, is->raw, is->nraw) != 0)
		return false;
	if (want->has_ts && ((!want->val_any && want->ts_val != is->ts_val) ||
	                     (!want->ecr_any && want->ts_ecr != is->ts_ecr)))
		return false;
	for (unsigned int i = 0; i < is->nsack; i++)
		for (unsigned int e = 0; e < 2; e++)
			if (num(&want->sack[i][e], s->f->irs) != is->sack[i][e].v)
				return false;
	return true;
}

/** The first difference between c and the wanted segment, or NULL. seq: the expected sequence
 * number. */
static const char *
mismatch(const struct sc *s, const struct sc_seg *want, uint32_t seq, uint32_t len,
         const struct sc_cap *c)
{
	const struct sc_seg *g = &c->seg;
	uint8_t ignored = want->flags & SC_PSH ? 0 : SC_PSH;

	if (c->kind != SC_TCP)
		return "something else";
	if (c->dst_port != s->f->peer_port)
		return "the flow";
	if (c->src_port != s->f->our_port)
		return "the source port";
	if ((g->flags & ~ignored) != want->flags)
		return "the flags";
	if (want->has_seq && (g->seq.v != seq || g->len != len))
		return "the sequence numbers";
	if (want->has_ack && g->ack.v != num(&want->ack, s->f->irs))
		return "the acknowledgment";
	if (want->has_wnd && g->wnd != want->wnd)
		return "the window";
	if (want->has_urg && g->urg != want->urg)
		return "the urgent pointer";
	if (want->has_opts && !opts_equal(s, &want->o, &g->o))
		return "the options";
	if (want->ecn >= 0 && g->ecn != want->ecn)
		return "the ECN field";
	if (want->dscp >= 0 && g->dscp != want->dscp)
		return "the DSCP";
	if (want->df >= 0 && g->df != want->df)
		return "the DF bit";
	return NULL;
}

static const char *
print_first(struct sc *s, char *buf, size_t size)
{
	return sc_print(s, s->f, &s->caps[0], buf, size);
}

static double
ms(uint64_t at_ns, uint64_t from_ns)
{
	return (double)(int64_t)(at_ns - from_ns) / 1e6;
}

/** The expected time, relative to now. */
struct when {
	uint64_t min_ns, max_ns;
};

static void
await(struct sc *s, const struct when *w, uint64_t from_ns, const char *text)
{
	uint64_t now_ns = sim_now_ns(s->sim);
	char buf[256];

	if (!sc_run_until_cap(s, from_ns + w->max_ns > now_ns ? from_ns + w->max_ns - now_ns : 0))
		SC_FAIL(s, "expected: %s\n#   nothing came until +%.3fms", text,
		        (double)w->max_ns / 1e6);
	if (s->caps[0].at_ns + TOLERANCE_NS < from_ns + w->min_ns)
		SC_FAIL(s, "expected: %s\n#   came too early, at +%.3fms: %s", text,
		        ms(s->caps[0].at_ns, from_ns), print_first(s, buf, sizeof(buf)));
}

static void
expect(struct sc *s, const char *p, const struct when *w, const char *text)
{
	uint64_t from_ns = sim_now_ns(s->sim);
	struct sc_seg g;
	uint32_t seq, left, piece;
	char buf[256];

	if (sc_word(&p, "arp")) {
		uint16_t op = sc_word(&p, "request") ? 1 : sc_word(&p, "reply") ? 2 : 0;
		uint32_t from = sc_addr(s, &p), to = sc_addr(s, &p);
		const struct sc_cap *c = &s->caps[0];

		sc_end(s, &p);
		await(s, w, from_ns, text);
		if (c->kind != SC_ARP || c->op != op || c->spa != from || c->tpa != to)
			SC_FAIL(s, "expected: %s\n#   came: %s", text,
			        print_first(s, buf, sizeof(buf)));
		sc_uncap(s, 0);
		return;
	}
	if (sc_word(&p, "echo-reply")) {
		uint32_t len = (uint32_t)sc_int(s, &p);

		sc_end(s, &p);
		await(s, w, from_ns, text);
		if (s->caps[0].kind != SC_ECHO_REPLY || s->caps[0].echo_len != len)
			SC_FAIL(s, "expected: %s\n#   came: %s", text,
			        print_first(s, buf, sizeof(buf)));
		for (uint32_t i = 0; i < len; i++)
			if (s->caps[0].payload[i] != sc_octet(i, true))
				SC_FAIL(s, "the echo differs at octet %u", i);
		sc_uncap(s, 0);
		return;
	}
	sc_parse_seg(s, &p, &g);
	left = g.len;
	piece = g.piece != 0 ? g.piece : left;
	seq = g.seq.v;
	do {
		uint32_t len = RTE_MIN(piece, left);
		struct sc_num n = {seq, g.seq.abs};
		const char *what;

		await(s, w, from_ns, text);
		what = mismatch(s, &g, num(&n, s->f->iss), len, &s->caps[0]);
		if (what != NULL)
			SC_FAIL(s, "expected: %s\n#   came at +%.3fms: %s\n#   other: %s", text,
			        ms(s->caps[0].at_ns, from_ns), print_first(s, buf, sizeof(buf)),
			        what);
		sc_uncap(s, 0);
		left -= len;
		seq += len;
	} while (left > 0);
}

static void
nothing(struct sc *s, uint64_t ns)
{
	uint64_t from_ns = sim_now_ns(s->sim);
	char buf[256];

	if (sc_run_until_cap(s, ns))
		SC_FAIL(s, "expected: nothing\n#   came at +%.3fms: %s",
		        ms(s->caps[0].at_ns, from_ns), print_first(s, buf, sizeof(buf)));
}

/* ---- Injected packets ---- */

static void
inject_seg(struct sc *s, struct sc_seg *g)
{
	uint8_t frame[SC_FRAME_MAX];

	if (g->has_wnd)
		s->f->last_wnd = g->wnd;
	if (g->flags & SC_SYN && g->o.has_ts && !g->o.val_auto) {
		s->f->ts_base = g->o.ts_val;
		s->f->ts_base_ns = sim_now_ns(s->sim);
	}
	if (!g->has_opts && s->f->auto_ts && (g->flags & SC_RST) == 0) {
		g->has_opts = true;
		g->o = (struct sc_opts){.has_ts = true, .val_auto = true, .ecr_last = true};
	}
	sc_inject(s, frame, sc_frame_tcp(s, s->f, g, frame));
}

static void
inject(struct sc *s, const char *p)
{
	uint8_t frame[SC_FRAME_MAX];
	struct sc_seg g;
	uint32_t left, piece;

	if (sc_word(&p, "arp")) {
		uint16_t op = sc_word(&p, "request") ? 1 : sc_word(&p, "reply") ? 2 : 0;
		uint32_t spa = sc_addr(s, &p), tpa = sc_addr(s, &p);

		sc_end(s, &p);
		sc_inject(s, frame, sc_frame_arp(s, op, spa, tpa, frame));
		return;
	}
	if (sc_word(&p, "echo")) {
		uint32_t len = (uint32_t)sc_int(s, &p);
		bool badsum = sc_word(&p, "badsum");

		sc_end(s, &p);
		sc_inject(s, frame, sc_frame_echo(s, len, badsum, frame));
		return;
	}
	sc_parse_seg(s, &p, &g);
	if (g.piece == 0) {
		inject_seg(s, &g);
		return;
	}
	left = g.len;
	piece = g.piece;
	while (left > 0) {
		g.len = RTE_MIN(piece, left);
		inject_seg(s, &g);
		g.seq.v += g.len;
		left -= g.len;
	}
}

static void
icmp(struct sc *s, const char *p)
{
	/* type, code of ICMP (RFC 792) and of ICMPv6 (RFC 4443) */
	static const struct {
		const char *name;
		uint8_t t4, c4, t6, c6;
	} kinds[] = {
	        {"net", 3, 0, 1, 0},      {"host", 3, 1, 1, 3},   {"proto", 3, 2, 4, 1},
	        {"port", 3, 3, 1, 4},     {"toobig", 3, 4, 2, 0}, {"ttl", 11, 0, 3, 0},
	        {"quench", 4, 0, 100, 0}, {"admin", 3, 13, 1, 1},
	};
	uint8_t frame[256];

	for (unsigned int i = 0; i < RTE_DIM(kinds); i++) {
		struct sc_num seq = {0};
		uint16_t mtu = 0, size = s->nif_attr.mtu_bytes;

		if (!sc_word(&p, kinds[i].name))
			continue;
		if (strcmp(kinds[i].name, "toobig") == 0)
			mtu = (uint16_t)sc_int(s, &p);
		if (sc_word(&p, "of"))
			size = (uint16_t)sc_int(s, &p);
		if (!sc_word(&p, "seq"))
			SC_FAIL(s, "script: icmp KIND seq N");
		seq.v = (uint32_t)sc_int(s, &p);
		sc_end(s, &p);
		sc_inject(s, frame,
		          sc_frame_icmp_error(s, s->f, s->v6 ? kinds[i].t6 : kinds[i].t4,
		                              s->v6 ? kinds[i].c6 : kinds[i].c4, mtu,
		                              seq.v + s->f->iss, size, frame));
		sc_settle(s);
		return;
	}
	SC_FAIL(s, "script: no such ICMP: \"%s\"", p);
}

/* ---- Opening in one line ---- */

/** Take the segment with SYN that the stack must send now. */
static struct sc_seg
take_syn(struct sc *s, uint8_t flags)
{
	struct sc_seg g;

	sc_settle(s);
	if (s->ncaps != 1 || (s->caps[0].seg.flags & (SC_SYN | SC_ACK | SC_RST)) != flags)
		SC_FAIL(s, "open: the stack did not answer with a SYN");
	g = s->caps[0].seg;
	sc_uncap(s, 0);
	return g;
}

static void
open_conn(struct sc *s, const char *p)
{
	struct sc_seg syn = {.flags = SC_SYN,
	                     .has_seq = true,
	                     .has_opts = true,
	                     .ecn = -1,
	                     .df = -1,
	                     .ttl = -1,
	                     .doff = -1,
	                     .has_wnd = true,
	                     .wnd = 65535};
	struct sc_seg ack = {.flags = SC_ACK,
	                     .has_ack = true,
	                     .seq = {1, false},
	                     .ack = {1, false},
	                     .ecn = -1,
	                     .df = -1,
	                     .ttl = -1,
	                     .doff = -1};
	bool active = sc_word(&p, "active"), ecn = sc_word(&p, "ecn");
	uint64_t rtt_ns = 0;
	struct sc_seg got;

	syn.o.has_mss = true;
	syn.o.mss = 1460;
	while (sc_space(&p), *p != '\0') {
		if (*p == '<')
			sc_parse_opts(s, &p, &syn.o);
		else if (sc_word(&p, "win"))
			syn.wnd = (uint16_t)sc_int(s, &p);
		else if (sc_word(&p, "rtt"))
			rtt_ns = sc_time(s, &p);
		else
			SC_FAIL(s, "script: what does \"%s\" mean?", p);
	}
	if (active) {
		sc_connect(s, WEFT_TCP_DSCP_PORT);
		got = take_syn(s, SC_SYN);
		sc_run(s, rtt_ns);
		syn.flags |= SC_ACK | (ecn ? SC_ECE : 0);
		syn.has_ack = true;
		syn.ack.v = 1;
		if (syn.o.has_ts)
			syn.o.ecr_last = true;
		inject_seg(s, &syn);
		sc_settle(s);
		s->f->auto_ts = syn.o.has_ts && got.o.has_ts;
		if (s->ncaps != 1)
			SC_FAIL(s, "open: the stack did not acknowledge the SYN");
		sc_uncap(s, 0);
		return;
	}
	sc_listen(s, 16);
	if (ecn)
		syn.flags |= SC_ECE | SC_CWR;
	inject_seg(s, &syn);
	got = take_syn(s, SC_SYN | SC_ACK);
	sc_run(s, rtt_ns);
	s->f->auto_ts = syn.o.has_ts && got.o.has_ts;
	inject_seg(s, &ack);
	sc_settle(s);
	if (!s->f->accepted)
		SC_FAIL(s, "open: the connection was not accepted");
}

/* ---- Statements ---- */

static void
do_send(struct sc *s, const char *p)
{
	uint32_t len = (uint32_t)sc_int(s, &p), piece = 0;
	bool push = true, fails = false;
	int rc;

	for (;;) {
		if (sc_word(&p, "seg"))
			piece = (uint32_t)sc_int(s, &p);
		else if (sc_word(&p, "nopush"))
			push = false;
		else if (sc_word(&p, "fails"))
			fails = true;
		else
			break;
	}
	sc_end(s, &p);
	rc = sc_send(s, len, piece, push);
	if ((rc != 0) != fails)
		SC_FAIL(s, "send: %s", rc == 0 ? "it did not fail" : strerror(-rc));
	sc_settle(s);
}

static void
do_flow(struct sc *s, const char *p)
{
	long long n = sc_int(s, &p);

	if (n < 0 || n >= SC_FLOWS)
		SC_FAIL(s, "script: flows are 0 to %d", SC_FLOWS - 1);
	s->f = &s->flow[n];
	sc_end(s, &p);
}

static void
do_frame(struct sc *s, const char *p)
{
	uint8_t frame[256];
	uint32_t len = 0;

	while (sc_space(&p), *p != '\0' && len < sizeof(frame)) {
		char *end;

		frame[len++] = (uint8_t)strtoul(p, &end, 16);
		if (end == p)
			SC_FAIL(s, "script: no octet: \"%s\"", p);
		p = end;
	}
	sc_inject(s, frame, len);
	sc_settle(s);
}

/** Execute a statement of the application. Returns false if it is not one. */
static bool
app_statement(struct sc *s, const char *p)
{
	if (sc_word(&p, "listen")) {
		sc_space(&p);
		sc_listen(s, isdigit((unsigned char)*p) ? (unsigned int)sc_int(s, &p) : 16);
		if (sc_word(&p, "dscp"))
			weft_tcp_listener_set_dscp(s->listener, (int)sc_int(s, &p));
	} else if (sc_word(&p, "unlisten")) {
		weft_tcp_unlisten(s->tcp, s->listener);
		s->listener = NULL;
	} else if (sc_word(&p, "refuse")) {
		s->refuse = true;
	} else if (sc_word(&p, "connect")) {
		sc_connect(s, sc_word(&p, "dscp") ? (int)sc_int(s, &p) : WEFT_TCP_DSCP_PORT);
	} else if (sc_word(&p, "dscp")) {
		weft_tcp_set_dscp(s->f->c, (int)sc_int(s, &p));
	} else if (sc_word(&p, "open")) {
		open_conn(s, p);
		return true;
	} else if (sc_word(&p, "send")) {
		do_send(s, p);
		return true;
	} else if (sc_word(&p, "close")) {
		if (s->f->c == NULL)
			SC_FAIL(s, "close: there is no connection");
		weft_tcp_close(s->f->c, sim_now_ns(s->sim));
		sc_settle(s);
	} else if (sc_word(&p, "abort")) {
		if (s->f->c == NULL)
			SC_FAIL(s, "abort: there is no connection");
		weft_tcp_abort(s->f->c, sim_now_ns(s->sim));
		s->f->c = NULL;
		sc_settle(s);
	} else if (sc_word(&p, "keepalive")) {
		uint32_t idle = (uint32_t)sc_value(s, &p), intvl = (uint32_t)sc_value(s, &p);

		weft_tcp_keepalive(s->f->c, idle, intvl, (uint32_t)sc_int(s, &p));
	} else {
		return false;
	}
	sc_end(s, &p);
	return true;
}

void
sc_statement(struct sc *s, const char *text)
{
	struct when w = {0, TOLERANCE_NS};
	const char *p = text;
	bool timed = false;

	if (sc_word(&p, "set")) {
		sc_set(s, &p);
		return;
	}
	sc_up(s);
	s->sched.now_ns = sim_now_ns(s->sim);
	if (sc_word(&p, "+")) {
		w.min_ns = sc_time(s, &p);
		w.max_ns = w.min_ns + TOLERANCE_NS;
		timed = true;
	} else if (sc_word(&p, "within")) {
		w.max_ns = sc_time(s, &p);
	} else if (sc_word(&p, "between")) {
		w.min_ns = sc_time(s, &p);
		w.max_ns = sc_time(s, &p);
	}
	if (sc_word(&p, ">")) {
		expect(s, p, &w, text);
		return;
	}
	if (timed) {
		sc_run(s, w.min_ns);
		s->sched.now_ns = sim_now_ns(s->sim);
	}
	if (sc_word(&p, "<<")) {
		inject(s, p);
	} else if (sc_word(&p, "<")) {
		inject(s, p);
		sc_settle(s);
	} else if (sc_word(&p, "none")) {
		nothing(s, sc_time(s, &p));
		sc_end(s, &p);
	} else if (sc_word(&p, "wait")) {
		sc_run(s, sc_time(s, &p));
		sc_end(s, &p);
	} else if (sc_word(&p, "ignore")) {
		sc_space(&p);
		if (*p != '\0')
			sc_run(s, sc_time(s, &p));
		s->ncaps = 0;
	} else if (sc_word(&p, "came")) {
		unsigned int n = (unsigned int)sc_int(s, &p);

		if (s->ncaps != n)
			SC_FAIL(s, "expected: came %u, it is %u", n, s->ncaps);
		s->ncaps = 0;
	} else if (sc_word(&p, "flow")) {
		do_flow(s, p);
	} else if (sc_word(&p, "irs")) {
		s->f->irs = (uint32_t)sc_int(s, &p);
		s->f->iss_known = false;
		s->f->auto_ts = false;
	} else if (sc_word(&p, "to-port")) {
		s->f->our_port = (uint16_t)sc_int(s, &p);
	} else if (sc_word(&p, "icmp")) {
		icmp(s, p);
	} else if (sc_word(&p, "frame")) {
		do_frame(s, p);
	} else if (!sc_look(s, p, text) && !app_statement(s, p)) {
		SC_FAIL(s, "script: unknown statement: %s", text);
	}
}

void
sc_finish(struct sc *s)
{
	char buf[256];

	sc_up(s);
	sc_settle(s);
	if (s->ncaps > 0)
		SC_FAIL(s, "at the end of the scenario something is left: %s",
		        print_first(s, buf, sizeof(buf)));
	for (unsigned int i = 0; i < SC_FLOWS; i++)
		if (s->flow[i].bad_data || s->flow[i].torn)
			SC_FAIL(s, "flow %u: %s", i,
			        s->flow[i].bad_data ? "wrong octets were delivered"
			                            : "up-calls in a wrong order");
	sc_down(s);
}
