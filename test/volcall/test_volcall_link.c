/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A volume with a link: the target ends and comes back, with or without what was not flushed,
 * and the program's requests end as if nothing had happened.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_target.h"
#include "vt.h"
#include "weft_test.h"

#define SERVERS 4
#define PAGE    4096u
#define PAGES   240u
#define N(x)    (sizeof(x) / sizeof((x)[0]))

/* One connection as the target has it. */
struct server {
	struct weft_qp *qp; /* NULL: free */
	struct weft_rpc *rpc;
};

static struct lrig {
	struct vt t;
	struct fake_target f;
	const struct weft_rpc_program *const *programs;
	struct server server[SERVERS];
	bool away; /* the target takes no connections, as if it were not there */
	struct weft_volume *v;
	uint8_t durable[FAKE_BYTES];
	weft_volrpc_write_args seen; /* of a durable change */
	unsigned int told;           /* of the opening or the close */
	int status;
	unsigned int ups, downs, ends; /* moved() */
	uint64_t durables;             /* changes that came with that flag */
	char why[128];
} g;

static const struct weft_rpc_program *const new_programs[] = {&fake_program, NULL};
static const struct weft_rpc_program *const old_programs[] = {&fake_older, NULL};

/* ---- The target ---- */

static void
rig_seen(uint32_t proc, const void *args)
{
	memset(&g.seen, 0, sizeof(g.seen));
	if (proc == WEFT_VOLRPC_WRITE)
		g.seen = *(const weft_volrpc_write_args *)args;
	if (!(g.seen.flags & WEFT_VOLRPC_DURABLE))
		g.seen.data.data_len = 0;
	else
		g.durables++;
}

/* What is answered to be durable is. */
static void
rig_spoil(uint32_t proc, void *res)
{
	if (*(weft_volrpc_status *)res != WEFT_VOLRPC_OK)
		return;
	if (proc == WEFT_VOLRPC_FLUSH)
		memcpy(g.durable, g.f.mem, FAKE_BYTES);
	if (proc == WEFT_VOLRPC_WRITE)
		memcpy(g.durable + g.seen.off, g.f.mem + g.seen.off, g.seen.data.data_len);
}

static void
rig_accept(const struct weft_event *ev)
{
	struct weft_qp_attr qa = vt_qp_attr(&g.t.n[1]);
	struct weft_rpc_attr ra = {
	        .size = sizeof(ra), .server = true, .user = &g.f, .programs = g.programs};
	struct server *s = g.server;

	while (s < g.server + SERVERS && s->qp != NULL)
		s++;
	if (g.away || s == g.server + SERVERS) {
		weft_reject(ev->connreq, NULL, 0);
		return;
	}
	qa.user = s;
	CHECK_EQ(weft_qp_create(g.t.n[1].pd, &qa, &s->qp), 0);
	ra.qp = s->qp;
	CHECK_EQ(weft_rpc_create(&ra, &s->rpc), 0);
	CHECK_EQ(weft_accept(ev->connreq, s->qp, NULL), 0);
}

static void
rig_cut(struct server *s)
{
	if (s->qp == NULL)
		return;
	weft_qp_destroy(s->qp);
	weft_rpc_disconnected(s->rpc);
	fake_release(&g.f);
	weft_rpc_destroy(s->rpc);
	*s = (struct server){0};
}

/* The target ends. power: what is not durable is lost, and its verifier says so. */
static void
rig_end(bool power)
{
	for (unsigned int i = 0; i < SERVERS; i++)
		rig_cut(&g.server[i]);
	g.f.open = false;
	memset(g.f.window, 0, sizeof(g.f.window));
	if (!power)
		return;
	memcpy(g.f.mem, g.durable, FAKE_BYTES);
	g.f.verifier += 2;
}

static void
rig_run(uint64_t ns)
{
	struct weft_event ev;
	struct weft_wc wc[8];

	for (; ns >= 10000; ns -= 10000) {
		int n;

		vt_run(&g.t, 10000);
		while ((n = weft_cq_poll(g.t.n[1].cq, wc, 8)) > 0)
			for (int k = 0; k < n; k++)
				if (((struct server *)wc[k].qp_user)->rpc != NULL)
					(void)weft_rpc_wc(((struct server *)wc[k].qp_user)->rpc,
					                  &wc[k]);
		while (weft_evq_poll(g.t.n[1].evq, &ev) > 0) {
			if (ev.type == WEFT_EV_CONNECT_REQUEST)
				rig_accept(&ev);
			else if (ev.type == WEFT_EV_DISCONNECTED)
				rig_cut(ev.user);
		}
	}
}

static void
rig_until(const unsigned int *count, unsigned int n)
{
	for (unsigned int i = 0; *count < n; i++) {
		CHECK(i < 9000000);
		rig_run(10000);
	}
}

/* ---- The program ---- */

static void
rig_told(void *arg, int status, const char *why)
{
	(void)arg;
	g.told++;
	g.status = status;
	snprintf(g.why, sizeof(g.why), "%s", why);
}

static void
rig_moved(void *user, bool up, bool ended, const char *why)
{
	CHECK(user == &g && up == (why[0] == '\0') && !(up && ended));
	g.ups += up;
	g.downs += !up && !ended;
	g.ends += ended;
}

static int
rig_open_as(const struct weft_volume_link *with)
{
	socklen_t len;
	struct sockaddr_storage sa = vt_addr_of(g.t.family, 1, VT_PORT, &len);
	struct weft_volume_link l = *with;
	struct weft_volume_attr a = {.size = sizeof(a),
	                             .worker = g.t.n[0].w,
	                             .name = FAKE_NAME,
	                             .timeout_us = 5000000,
	                             .link = &l};

	l.size = sizeof(l);
	l.ctx = g.t.n[0].ctx;
	l.pd = g.t.n[0].pd;
	l.to = (struct sockaddr *)&sa;
	l.to_bytes = len;
	l.moved = rig_moved;
	l.user = &g;
	g.told = 0;
	CHECK_EQ(weft_volume_open(&a, rig_told, &g, &g.v), 0);
	rig_until(&g.told, 1);
	return g.status;
}

static void
rig_begin(uint64_t seed)
{
	struct vt_attr a = {.seed = seed, .link = {.delay_ns = 20000, .rate_bps = 10000000000}};

	memset(&g, 0, sizeof(g));
	fake_open(&g.f);
	g.f.seen = rig_seen;
	g.f.spoil = rig_spoil;
	g.programs = new_programs;
	vt_open(&g.t, &a);
	vt_listen(&g.t.n[1]);
}

static void
rig_open(uint64_t seed, struct weft_volume_link with)
{
	rig_begin(seed);
	CHECK_EQ(rig_open_as(&with), 0);
}

static int
rig_close(void)
{
	g.told = 0;
	weft_volume_close(g.v, rig_told, &g);
	rig_until(&g.told, 1);
	return g.status;
}

static void
rig_over(void)
{
	rig_run(5 * VT_MS);
	rig_end(false);
	rig_run(5 * VT_MS);
	vt_close(&g.t);
	fake_close(&g.f);
}

static void
done(struct weft_volume_req *req)
{
	++*(unsigned int *)req->owner;
}

static void
begin(struct weft_volume_req *req, unsigned int *n)
{
	req->done = done;
	req->owner = n;
	CHECK_EQ(weft_volume_submit(g.v, req), 0);
}

static int
rig_do(struct weft_volume_req *req)
{
	unsigned int n = 0;

	begin(req, &n);
	rig_until(&n, 1);
	return req->status;
}

static struct weft_volume_req
range(enum weft_volume_op op, uint64_t off, uint64_t len, void *data)
{
	return (struct weft_volume_req){.op = op, .off_bytes = off, .len_bytes = len, .data = data};
}

static struct weft_volume_link_stats
stats(void)
{
	struct weft_volume_link_stats s;

	CHECK_EQ(weft_volume_link_stats(g.v, &s), 0);
	return s;
}

static uint8_t a[FAKE_BYTES], b[FAKE_BYTES];

static void
fill(uint8_t *p, size_t n, unsigned int stamp)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 7 + stamp * 31 + (i >> 8));
}

/* ---- Cases ---- */

/* Calls that were not answered, and calls that wait, are sent when the target is back. */
static void
test_repeats(void)
{
	struct weft_volume_req w = range(WEFT_VOLUME_OP_WRITE, 5, 900000, a),
	                       r = range(WEFT_VOLUME_OP_READ, 5, 900000, b),
	                       f = range(WEFT_VOLUME_OP_FLUSH, 0, 0, NULL);
	unsigned int n = 0;

	rig_open(test_seed(1), (struct weft_volume_link){0});
	CHECK(weft_volume_qp(g.v) != NULL);
	fill(a, sizeof(a), 1);
	begin(&w, &n);
	begin(&r, &n);
	begin(&f, &n);
	rig_run(100000);
	CHECK(n == 0);
	rig_end(false);
	rig_until(&n, 3);
	CHECK(w.status == 0 && r.status == 0 && f.status == 0);
	CHECK(memcmp(a, b, 900000) == 0 && memcmp(g.f.mem + 5, a, 900000) == 0);
	CHECK_EQ(stats().reconnects, 1);
	CHECK(stats().repeated >= 1 && stats().rewritten == 0 && stats().kept_bytes == 0);
	CHECK(g.downs == 1 && g.ups == 1);
	/* Without a connection nothing is refused either. */
	g.away = true;
	rig_end(false);
	rig_run(VT_S);
	CHECK(weft_volume_qp(g.v) == NULL);
	n = 0;
	fill(a, sizeof(a), 2);
	begin(&w, &n);
	begin(&r, &n);
	rig_run(VT_S);
	CHECK_EQ(n, 0);
	g.away = false;
	rig_until(&n, 2);
	CHECK(w.status == 0 && r.status == 0 && memcmp(a, b, 900000) == 0);
	CHECK_EQ(rig_close(), 0);
	rig_over();
}

/* The target ends the grant, for an export that is offline and back: nothing fails. One that ends
 * each grant at once is believed. */
static void
test_grant_ends(void)
{
	struct weft_volume_req w = range(WEFT_VOLUME_OP_WRITE, 100, 200000, a),
	                       x = range(WEFT_VOLUME_OP_WRITE, 300000, 500000, a),
	                       r = range(WEFT_VOLUME_OP_READ, 100, 200000, b),
	                       f = range(WEFT_VOLUME_OP_FLUSH, 0, 0, NULL);
	unsigned int n = 0;

	rig_open(test_seed(17), (struct weft_volume_link){0});
	fill(a, sizeof(a), 3);
	CHECK_EQ(rig_do(&w), 0);
	g.f.open = false;
	begin(&x, &n);
	begin(&r, &n);
	begin(&f, &n);
	rig_until(&n, 3);
	CHECK(x.status == 0 && r.status == 0 && f.status == 0);
	CHECK(memcmp(a, b, 200000) == 0 && memcmp(g.f.mem + 300000, a, 500000) == 0);
	CHECK_EQ(stats().reconnects, 1);
	CHECK_EQ(stats().rewritten, 0); /* the verifier is that of before */
	/* A change of which a call that may not be made twice is refused was not made. */
	g.f.open = false;
	x = range(WEFT_VOLUME_OP_COMPARE_WRITE, 0, 4, a + 4);
	x.expect = a;
	CHECK_EQ(rig_do(&x), -ESTALE);
	CHECK_EQ(rig_do(&r), 0);
	g.f.bad_proc = WEFT_VOLRPC_READ;
	g.f.status = WEFT_VOLRPC_STALE;
	g.f.times = 1000;
	CHECK_EQ(rig_do(&r), -ESTALE);
	CHECK(1000 - g.f.times < 50);
	g.f.times = 0;
	/* The last of these grants has really ended: the next request has another one. */
	g.f.open = false;
	CHECK_EQ(rig_do(&r), 0);
	CHECK_EQ(rig_close(), 0);
	rig_over();
}

/* What was answered and not flushed is lost with the target's power, and written again. */
static void
test_rewrites(void)
{
	struct weft_volume_req w = range(WEFT_VOLUME_OP_WRITE, 100, 200000, a),
	                       z = range(WEFT_VOLUME_OP_ZEROES, 5000, 10000, NULL),
	                       d = range(WEFT_VOLUME_OP_WRITE, 300000, 5000, b),
	                       f = range(WEFT_VOLUME_OP_FLUSH, 0, 0, NULL);

	for (unsigned int old = 0; old < 2; old++) {
		rig_begin(test_seed(2));
		g.programs = old ? old_programs : new_programs;
		CHECK_EQ(rig_open_as(&(struct weft_volume_link){0}), 0);
		fill(a, sizeof(a), 3);
		fill(b, sizeof(b), 4);
		CHECK(rig_do(&w) == 0 && rig_do(&z) == 0);
		d.flags = WEFT_VOLUME_F_DURABLE;
		CHECK_EQ(rig_do(&d), 0);
		memset(a + 4900, 0, 10000);
		rig_end(true);
		CHECK(memcmp(g.f.mem + 100, a, 200000) != 0);
		rig_until(&g.ups, 1);
		CHECK(memcmp(g.f.mem + 100, a, 200000) == 0);
		CHECK(memcmp(g.f.mem + 300000, b, 5000) == 0);
		CHECK_EQ(stats().rewritten, 200000 / FAKE_IO + 1 + 1);
		CHECK_EQ(rig_do(&f), 0);
		CHECK_EQ(stats().kept_bytes, 0);
		/* What is durable is not written again. */
		rig_end(true);
		rig_until(&g.ups, 2);
		CHECK(memcmp(g.f.mem + 100, a, 200000) == 0);
		CHECK_EQ(stats().rewritten, 200000 / FAKE_IO + 1 + 1);
		CHECK_EQ(rig_close(), 0);
		rig_over();
	}
}

/* A connection that is lost while copies are written again: the next one has the same verifier, and
 * still not all of them are on the target. */
static void
test_rewrite_again(void)
{
	struct weft_volume_req w = range(WEFT_VOLUME_OP_WRITE, 0, 600000, a),
	                       f = range(WEFT_VOLUME_OP_FLUSH, 0, 0, NULL);

	rig_open(test_seed(11), (struct weft_volume_link){0});
	fill(a, sizeof(a), 9);
	CHECK_EQ(rig_do(&w), 0);
	rig_end(true);
	for (unsigned int i = 0; stats().rewritten < 2; i++) {
		CHECK(i < 1000000);
		rig_run(10000);
	}
	CHECK(g.ups == 0 && memcmp(g.f.mem, a, 600000) != 0);
	rig_end(false);
	rig_until(&g.ups, 1);
	CHECK(memcmp(g.f.mem, a, 600000) == 0);
	CHECK(rig_do(&f) == 0 && stats().lost == 0);
	CHECK_EQ(rig_close(), 0);
	rig_over();
}

/* A durable change replaces octets of a copy before it, and what is written again does not bring
 * them back. A copy behind it is written again as a whole. */
static void
test_durable_behind(void)
{
	static const struct {
		uint64_t off, len;
	} part[] = {{100, 3000}, {40000, 9000}, {64000, 5000}, {199000, 2000}, {39000, 2000}};
	struct weft_volume_req w = range(WEFT_VOLUME_OP_WRITE, 100, 200000, a + 100),
	                       z = range(WEFT_VOLUME_OP_ZEROES, 300000, 10000, NULL), d,
	                       f = range(WEFT_VOLUME_OP_FLUSH, 0, 0, NULL);

	rig_open(test_seed(12), (struct weft_volume_link){0});
	fill(a, sizeof(a), 10);
	fill(b, sizeof(b), 11);
	CHECK(rig_do(&w) == 0 && rig_do(&z) == 0);
	for (unsigned int i = 0; i <= N(part); i++) {
		d = i < N(part)
		            ? range(WEFT_VOLUME_OP_WRITE, part[i].off, part[i].len, b + part[i].off)
		            : range(WEFT_VOLUME_OP_WRITE, 302000, 1000, b);
		d.flags = WEFT_VOLUME_F_DURABLE;
		CHECK_EQ(rig_do(&d), 0);
	}
	d = range(WEFT_VOLUME_OP_WRITE, 41000, 500, a + 90000);
	CHECK_EQ(rig_do(&d), 0);
	for (unsigned int i = 0; i < N(part); i++)
		memcpy(a + part[i].off, b + part[i].off, part[i].len);
	memcpy(a + 41000, a + 90000, 500);
	rig_end(true);
	rig_until(&g.ups, 1);
	CHECK(memcmp(g.f.mem + 100, a + 100, 200000) == 0);
	CHECK(memcmp(g.f.mem + 302000, b, 1000) == 0 && stats().lost == 0);
	CHECK_EQ(rig_do(&f), 0);
	CHECK_EQ(stats().kept_bytes, 0);
	CHECK_EQ(rig_close(), 0);
	rig_over();
}

/* With the verifier of before nothing was lost. So nothing is written again, and what another
 * client has written since stays. */
static void
test_same_verifier(void)
{
	struct weft_volume_req w = range(WEFT_VOLUME_OP_WRITE, 0, 10000, a);

	rig_open(test_seed(3), (struct weft_volume_link){0});
	fill(a, sizeof(a), 5);
	CHECK_EQ(rig_do(&w), 0);
	CHECK(stats().kept_bytes > 10000);
	memset(g.f.mem, 77, 5000);
	rig_end(false);
	rig_until(&g.ups, 1);
	CHECK(g.f.mem[0] == 77 && g.f.mem[4999] == 77);
	CHECK(stats().rewritten == 0 && stats().kept_bytes == 0);
	CHECK_EQ(g.f.served[WEFT_VOLRPC_FLUSH], 1);
	CHECK(memcmp(g.durable, g.f.mem, 10000) == 0);
	/* A flush of the new grant fails, and the verifier changes with it: it is written again. */
	CHECK_EQ(rig_do(&w), 0);
	fake_refuse(&g.f, WEFT_VOLRPC_FLUSH, 0, 1, WEFT_VOLRPC_IO, "lost");
	rig_end(false);
	rig_until(&g.ups, 2);
	CHECK(stats().rewritten == 1 && stats().kept_bytes > 10000);
	CHECK_EQ(rig_close(), 0);
	rig_over();
}

/* What may not be done twice, and was sent, is not repeated. What was not sent is. */
static void
test_once(void)
{
	struct weft_volume_req c = range(WEFT_VOLUME_OP_COMPARE_WRITE, 0, 8, a),
	                       later = range(WEFT_VOLUME_OP_COMPARE_WRITE, 0, 8, b),
	                       s = {.op = WEFT_VOLUME_OP_SNAPSHOT, .name = "one"};
	uint8_t zeros[8] = {0};
	unsigned int n = 0;

	rig_open(test_seed(4), (struct weft_volume_link){0});
	fill(a, 8, 6);
	fill(b, 8, 7);
	c.expect = zeros;
	later.expect = a;
	g.f.hold = true;
	begin(&c, &n);
	begin(&later, &n); /* waits for the first one */
	begin(&s, &n);
	rig_run(VT_MS);
	CHECK_EQ(g.f.served[WEFT_VOLRPC_COMPARE_WRITE], 1);
	rig_end(false);
	rig_until(&n, 3);
	CHECK(c.status == -ENOTCONN && s.status == -ENOTCONN);
	CHECK(strstr(c.why, "it was done, or not") != NULL);
	/* It was done, in fact: the one behind it finds its octets. */
	CHECK_EQ(later.status, 0);
	CHECK(memcmp(g.f.mem, b, 8) == 0);
	CHECK(g.f.served[WEFT_VOLRPC_COMPARE_WRITE] == 2 && g.f.served[WEFT_VOLRPC_SNAPSHOT] == 1);
	/* What it wrote is kept as any other change. */
	rig_end(true);
	rig_until(&g.ups, 2);
	CHECK(memcmp(g.f.mem, b, 8) == 0);
	CHECK_EQ(rig_close(), 0);
	rig_over();
}

/* A change that may not be done twice and was not answered: the program sees that it was done, and
 * the FLUSH behind that says so when it is lost meanwhile. */
static void
test_once_is_lost(void)
{
	struct weft_volume_req c = range(WEFT_VOLUME_OP_COMPARE_WRITE, 0, 8, a),
	                       f = range(WEFT_VOLUME_OP_FLUSH, 0, 0, NULL);
	uint8_t zeros[8] = {0};

	for (unsigned int i = 0; i < 2; i++) {
		unsigned int n = 0;

		rig_open(test_seed(15), (struct weft_volume_link){0});
		fill(a, 8, 13);
		c.expect = zeros;
		g.f.hold = true;
		begin(&c, &n);
		rig_run(VT_MS);
		rig_end(false);
		rig_until(&g.ups, 1);
		CHECK(n == 1 && c.status == -ENOTCONN && memcmp(g.f.mem, a, 8) == 0);
		if (i == 0)
			CHECK_EQ(rig_do(&f), 0);
		rig_end(true);
		rig_until(&g.ups, 2);
		CHECK_EQ(rig_do(&f), i == 0 ? 0 : -EIO);
		CHECK_EQ(rig_do(&f), 0);
		CHECK_EQ(rig_close(), 0);
		rig_over();
	}
}

/* A change that timed out may have been done: there is no copy of it, and a copy of before does not
 * come back over it. */
static void
test_timed_out(void)
{
	struct weft_volume_req w = range(WEFT_VOLUME_OP_WRITE, 0, 4096, a),
	                       f = range(WEFT_VOLUME_OP_FLUSH, 0, 0, NULL);

	for (unsigned int i = 0; i < 2; i++) {
		unsigned int n = 0;

		rig_open(test_seed(16), (struct weft_volume_link){0});
		fill(a, 4096, 14);
		if (i == 1)
			CHECK_EQ(rig_do(&w), 0);
		fill(a, 4096, 15);
		w.flags = i == 1 ? WEFT_VOLUME_F_DURABLE : 0;
		g.f.hold = true;
		begin(&w, &n);
		rig_until(&n, 1);
		CHECK_EQ(w.status, -ETIMEDOUT);
		CHECK_MEM(g.f.mem, a, 4096);
		g.f.hold = false;
		if (i == 1)
			memcpy(g.durable, g.f.mem, 4096);
		rig_end(true);
		rig_until(&g.ups, 1);
		if (i == 1)
			CHECK_MEM(g.f.mem, a, 4096);
		CHECK_EQ(rig_do(&f), -EIO);
		CHECK_EQ(rig_do(&f), 0);
		w.flags = 0;
		CHECK_EQ(rig_close(), 0);
		rig_over();
	}
}

/* Without copies the next FLUSH tells, once. */
static void
test_no_copies(void)
{
	struct weft_volume_req w = range(WEFT_VOLUME_OP_WRITE, 0, 10000, a),
	                       f = range(WEFT_VOLUME_OP_FLUSH, 0, 0, NULL);

	rig_open(test_seed(5), (struct weft_volume_link){.keep_bytes = WEFT_VOLUME_KEEP_NONE});
	CHECK_EQ(rig_do(&w), 0);
	rig_end(false);
	rig_until(&g.ups, 1);
	CHECK_EQ(rig_do(&f), 0);
	CHECK_EQ(rig_do(&w), 0);
	rig_end(true);
	rig_until(&g.ups, 2);
	CHECK_EQ(stats().lost, 1);
	CHECK_EQ(rig_do(&f), -EIO);
	CHECK(strstr(f.why, "changes that were answered") != NULL);
	CHECK(rig_do(&w) == 0 && rig_do(&f) == 0);
	rig_end(true);
	rig_until(&g.ups, 3);
	CHECK(rig_do(&f) == 0 && stats().lost == 1);
	CHECK_EQ(rig_close(), 0);
	rig_over();
}

/* Copies have a limit: the library flushes, and a change without room is durable at once. */
static void
test_limit(void)
{
	struct weft_volume_req w[40];
	unsigned int n = 0;

	rig_open(test_seed(6), (struct weft_volume_link){.keep_bytes = 100000});
	fill(a, sizeof(a), 8);
	for (unsigned int i = 0; i < 40; i++) {
		w[i] = range(WEFT_VOLUME_OP_WRITE, i * 20000, 20000, a + (size_t)i * 20000);
		begin(&w[i], &n);
	}
	for (unsigned int i = 0; n < 40; i++) {
		CHECK(i < 100000 && stats().kept_bytes <= 100000);
		rig_run(10000);
	}
	for (unsigned int i = 0; i < 40; i++)
		CHECK_EQ(w[i].status, 0);
	rig_run(5 * VT_MS);
	CHECK(g.durables > 0 && g.durables < 40 && g.f.served[WEFT_VOLRPC_FLUSH] > 0);
	CHECK(stats().kept_bytes <= 50000);
	rig_end(true);
	rig_until(&g.ups, 1);
	CHECK(memcmp(g.f.mem, a, 800000) == 0);
	/* The library's own flush fails: the program's next one tells. */
	n = 0;
	fake_refuse(&g.f, WEFT_VOLRPC_FLUSH, 0, 1, WEFT_VOLRPC_NOSPC, "full");
	for (unsigned int i = 0; i < 4; i++)
		begin(&w[i], &n);
	rig_until(&n, 4);
	rig_run(5 * VT_MS);
	w[0] = range(WEFT_VOLUME_OP_FLUSH, 0, 0, NULL);
	CHECK_EQ(rig_do(&w[0]), -ENOSPC);
	CHECK_EQ(rig_do(&w[0]), 0);
	CHECK_EQ(rig_close(), 0);
	rig_over();
}

/* The link ends: after its time, or because the export is not what it was. */
static void
test_ends(void)
{
	struct weft_volume_req w = range(WEFT_VOLUME_OP_WRITE, 0, 300000, a),
	                       r = range(WEFT_VOLUME_OP_READ, 0, 8, b);

	for (unsigned int i = 0; i < 4; i++) {
		unsigned int n = 0;

		rig_open(test_seed(7), (struct weft_volume_link){.reconnect_us = 3000000});
		begin(&w, &n);
		rig_run(50000);
		rig_end(false);
		g.away = i == 0;
		if (i == 1)
			g.f.grant.uuid[3] = 99;
		else if (i == 2)
			g.f.grant.bytes--;
		else if (i == 3)
			g.f.grant.rights = WEFT_VOLUME_RIGHT_READ;
		begin(&r, &n);
		rig_run(i == 0 ? 2900 * VT_MS : VT_MS);
		CHECK(i != 0 || n == 0);
		rig_until(&n, 2);
		CHECK(w.status == -ENOTCONN && r.status == -ENOTCONN);
		rig_run(VT_MS);
		CHECK(g.ends == 1 && g.ups == 0);
		CHECK_EQ(weft_volume_submit(g.v, &r), -ENOTCONN);
		g.away = false;
		rig_run(VT_S);
		CHECK_EQ(stats().reconnects, 0);
		CHECK_EQ(rig_close(), -ENOTCONN);
		rig_over();
	}
}

/* An export that is not served yet is waited for. */
static void
test_not_yet(void)
{
	struct weft_volume_req r = range(WEFT_VOLUME_OP_READ, 0, 8, b);

	rig_open(test_seed(8), (struct weft_volume_link){0});
	rig_end(false);
	fake_refuse(&g.f, WEFT_VOLRPC_OPEN, 0, 5, WEFT_VOLRPC_OFFLINE, "it is being opened");
	CHECK_EQ(rig_do(&r), 0);
	CHECK(stats().attempts >= 7 && stats().reconnects == 1);
	CHECK_EQ(rig_close(), 0);
	rig_over();
}

/* An opening is tried once; a close needs no connection. */
static void
test_open_close(void)
{
	struct weft_volume_req r = range(WEFT_VOLUME_OP_READ, 0, 8, b);
	unsigned int n = 0;

	rig_begin(test_seed(9));
	g.away = true;
	CHECK_EQ(rig_open_as(&(struct weft_volume_link){0}), -ENOTCONN);
	CHECK(strstr(g.why, "refuses") != NULL && weft_volume_info(g.v) == NULL);
	rig_close();
	g.away = false;
	fake_refuse(&g.f, WEFT_VOLRPC_OPEN, 0, 1, WEFT_VOLRPC_PERM, "not for you");
	CHECK_EQ(rig_open_as(&(struct weft_volume_link){0}), -EACCES);
	CHECK(strcmp(g.why, "not for you") == 0);
	rig_close();
	CHECK_EQ(rig_open_as(&(struct weft_volume_link){0}), 0);
	g.away = true;
	rig_end(false);
	rig_run(30 * VT_MS);
	begin(&r, &n);
	CHECK_EQ(rig_close(), -ENOTCONN);
	CHECK(n == 1 && r.status == -ECANCELED);
	/* A close in every step of an opening, and of a new connection. */
	g.away = false;
	for (unsigned int i = 0; i < 60; i++) {
		socklen_t len;
		struct sockaddr_storage sa = vt_addr_of(g.t.family, 1, VT_PORT, &len);
		const struct weft_volume_link l = {.size = sizeof(l),
		                                   .ctx = g.t.n[0].ctx,
		                                   .pd = g.t.n[0].pd,
		                                   .to = (struct sockaddr *)&sa,
		                                   .to_bytes = len};
		const struct weft_volume_attr at = {
		        .size = sizeof(at), .worker = g.t.n[0].w, .name = FAKE_NAME, .link = &l};

		g.told = 0;
		CHECK_EQ(weft_volume_open(&at, rig_told, &g, &g.v), 0);
		rig_run(10000 * (i < 30 ? i : 50));
		if (i >= 30) {
			CHECK(g.told == 1 && g.status == 0);
			rig_end(i % 2);
			rig_run(10000 * (i - 20));
			g.told = 0;
		}
		weft_volume_close(g.v, rig_told, &g);
		rig_run(20 * VT_MS);
		/* The opening, and the close */
		CHECK(g.told >= 1 && g.told <= 2);
	}
	rig_over();
}

/* A close between the moment at which the endpoint finds its connection dead, and the event that
 * says so. */
static void
test_close_of_dead(void)
{
	for (unsigned int i = 0; i < 30; i++) {
		struct weft_sge sge = {.len_bytes = 20000};
		struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sge, .num_sge = 1};

		rig_open(test_seed(13), (struct weft_volume_link){0});
		vt_mem(&g.t.n[1], sge.len_bytes, 0);
		sge.addr = g.t.n[1].mem;
		sge.lkey = weft_mr_stag(g.t.n[1].mr);
		/* It is longer than the endpoint's receives. */
		CHECK_EQ(weft_post_send(g.server[0].qp, &wr, 1), 1);
		rig_run(5000 * i);
		g.told = 0;
		weft_volume_close(g.v, rig_told, &g);
		rig_run(20 * VT_MS);
		CHECK_MSG(g.told == 1, "%u", i);
		rig_over();
	}
}

static unsigned int revoked;

static void
on_opened(void *arg, int status, const char *why)
{
	(void)why;
	*(int *)arg = status;
}

static void
on_revoked(struct weft_volume_window *w, uint32_t deadline_ms)
{
	CHECK(w->id == 0 && w->volume == NULL && deadline_ms == 0);
	revoked++;
	if (w->owner != NULL)
		CHECK_EQ(weft_volume_window_open(g.v, w, 4096, 4096, 0, 0, on_opened, w->owner), 0);
}

/* Windows end with the connection, and are opened again by their owner. */
static void
test_windows(void)
{
	struct weft_volume_window w[3] = {{.revoked = on_revoked}, {.revoked = on_revoked}, {0}};
	int status[3] = {1, 1, 1}, moved = 1;
	uint32_t id;

	revoked = 0;
	rig_open(test_seed(10), (struct weft_volume_link){0});
	w[0].owner = &status[0];
	for (unsigned int i = 0; i < 3; i++)
		CHECK_EQ(weft_volume_window_open(g.v, &w[i], i * 8192, 4096, 0, 0, on_opened,
		                                 &status[i]),
		         0);
	rig_run(VT_MS);
	CHECK(status[0] == 0 && status[1] == 0 && status[2] == 0);
	id = w[0].id;
	status[0] = 1;
	g.f.hold = true;
	CHECK_EQ(weft_volume_window_move(&w[2], 65536, 4096, 0, on_opened, &moved), 0);
	rig_run(VT_MS);
	rig_end(false);
	for (unsigned int i = 0; i < 1000 && status[0] == 1; i++)
		rig_run(VT_MS);
	CHECK(status[0] == 0 && revoked == 2 && w[0].id != 0 && w[0].id != id);
	CHECK(w[1].id == 0 && w[2].id == 0 && moved == -ENOTCONN);
	CHECK_EQ(rig_close(), 0);
	rig_over();
}

/* What is written to a window replaces what a request has written before, and is not undone. */
static void
test_window_over_copies(void)
{
	struct weft_volume_req w[3] = {range(WEFT_VOLUME_OP_WRITE, 0, 4096, a),
	                               range(WEFT_VOLUME_OP_WRITE, 4096, 4096, a),
	                               range(WEFT_VOLUME_OP_WRITE, 5000, 100, a)},
	                       f = range(WEFT_VOLUME_OP_FLUSH, 0, 0, NULL);
	struct weft_volume_window win = {0};
	int status = 1;

	for (unsigned int i = 0; i < 2; i++) {
		rig_open(test_seed(14), (struct weft_volume_link){0});
		fill(a, sizeof(a), 12);
		CHECK_EQ(rig_do(&w[0]), 0);
		if (i == 0)
			CHECK_EQ(rig_do(&w[1]), 0);
		CHECK_EQ(weft_volume_window_open(g.v, &win, 4096, 4096, 0, 0, on_opened, &status),
		         0);
		rig_run(VT_MS);
		CHECK_EQ(status, 0);
		if (i == 1)
			CHECK_EQ(rig_do(&w[2]), 0);
		/* By RDMA Write and Flush */
		memset(g.durable + 4096, 77, 4096);
		rig_end(true);
		rig_until(&g.ups, 1);
		CHECK(memcmp(g.f.mem, a, 4096) == 0 &&
		      memcmp(g.f.mem + 4096, g.durable + 4096, 4096) == 0);
		CHECK(rig_do(&f) == -EIO && rig_do(&f) == 0 && stats().lost == 1);
		CHECK_EQ(rig_close(), 0);
		rig_over();
	}
}

/* ---- Drawn ---- */

static uint64_t
draw(uint64_t *x)
{
	*x = *x * 6364136223846793005ULL + 1442695040888963407ULL;
	return (*x >> 33) ^ (*x << 13 >> 40);
}

/* Each page has one request at a time, and the octets of the last change that was answered. */
struct pages {
	struct weft_volume_req req[12];
	uint8_t data[12][3 * PAGE], want[PAGES][PAGE];
	unsigned int page[12], n[12];
	bool busy[PAGES];
};

static void
pages_next(struct pages *m, unsigned int i, uint64_t *x)
{
	unsigned int k = (unsigned int)(draw(x) % (PAGES / 3)) * 3;
	const unsigned int what = (unsigned int)(draw(x) % 10);

	while (m->busy[k])
		k = (k + 3) % PAGES;
	m->req[i] = range(what < 5   ? WEFT_VOLUME_OP_WRITE
	                  : what < 8 ? WEFT_VOLUME_OP_READ
	                  : what < 9 ? WEFT_VOLUME_OP_ZEROES
	                             : WEFT_VOLUME_OP_FLUSH,
	                  k * PAGE, 3 * PAGE, m->data[i]);
	m->req[i].flags = what < 1 ? WEFT_VOLUME_F_DURABLE : 0;
	if (m->req[i].op == WEFT_VOLUME_OP_WRITE)
		fill(m->data[i], 3 * PAGE, (unsigned int)draw(x));
	m->page[i] = k;
	m->busy[k] = true;
	m->n[i] = 0;
	begin(&m->req[i], &m->n[i]);
}

static void
pages_ended(struct pages *m, unsigned int i)
{
	const struct weft_volume_req *req = &m->req[i];
	uint8_t *want = m->want[m->page[i]];

	CHECK_MSG(req->status == 0, "%d (%s)", req->status, req->why);
	if (req->op == WEFT_VOLUME_OP_WRITE)
		memcpy(want, m->data[i], 3 * PAGE);
	else if (req->op == WEFT_VOLUME_OP_ZEROES)
		memset(want, 0, 3 * PAGE);
	else if (req->op == WEFT_VOLUME_OP_READ)
		CHECK_MSG(memcmp(want, m->data[i], 3 * PAGE) == 0, "page %u", m->page[i]);
	m->busy[m->page[i]] = false;
	m->n[i] = 0;
}

static void
test_drawn(void)
{
	static struct pages m;
	struct weft_volume_req f = range(WEFT_VOLUME_OP_FLUSH, 0, 0, NULL);
	uint64_t x = test_seed(4711);
	unsigned int ends = 0, ops = 0;

	memset(&m, 0, sizeof(m));
	rig_open(x, (struct weft_volume_link){.keep_bytes = draw(&x) % 2 ? 0 : 100000});
	for (unsigned int i = 0; i < 12; i++)
		pages_next(&m, i, &x);
	while (ends < 60) {
		rig_run(10000 * (1 + draw(&x) % 40));
		for (unsigned int i = 0; i < 12; i++)
			if (m.n[i] > 0) {
				pages_ended(&m, i);
				pages_next(&m, i, &x);
				ops++;
			}
		if (draw(&x) % 4 != 0)
			continue;
		/* Some ends come while the link still repeats what the last one has lost. */
		g.away = draw(&x) % 4 == 0;
		rig_end(draw(&x) % 2);
		rig_run(VT_MS * (draw(&x) % 100));
		g.away = false;
		ends++;
	}
	for (unsigned int i = 0; i < 12; i++) {
		rig_until(&m.n[i], 1);
		pages_ended(&m, i);
	}
	CHECK_EQ(rig_do(&f), 0);
	rig_end(true);
	CHECK(memcmp(g.f.mem, m.want, sizeof(m.want)) == 0);
	printf("# %u operations, %u ends, %u reconnects, %u rewritten\n", ops, ends,
	       (unsigned int)stats().reconnects, (unsigned int)stats().rewritten);
	CHECK(ops > 100 && stats().rewritten > 0);
	(void)rig_close();
	rig_over();
}

WEFT_TEST_MAIN({"what was not answered is sent again", test_repeats},
               {"the target ends the grant", test_grant_ends},
               {"what was not flushed is written again", test_rewrites},
               {"a connection that is lost while it is written again", test_rewrite_again},
               {"what is written again undoes no durable change", test_durable_behind},
               {"with the verifier of before nothing is written again", test_same_verifier},
               {"what may not be done twice is not", test_once},
               {"what may not be done twice is lost later", test_once_is_lost},
               {"a change that timed out", test_timed_out},
               {"without copies a flush tells of the loss, once", test_no_copies},
               {"copies have a limit", test_limit},
               {"a link ends, and all requests with it", test_ends},
               {"an export that is not served yet", test_not_yet},
               {"openings that fail, and closes at any moment", test_open_close},
               {"a close finds the connection dead", test_close_of_dead},
               {"windows end and are opened again", test_windows},
               {"what is written to a window is not undone", test_window_over_copies},
               {"drawn ends, with and without the power", test_drawn})
