/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A client of the export program's STAT, READ and WRITE that checks each answer.
 *
 *     rpc_probe DEV CIDR HOST EXPORT VERSION [ROUNDS]
 *
 * By RPC-over-RDMA of VERSION: data of all sizes, written by WRITEs, are read back by READs.
 * Requests beyond a grant are refused. A WRITE is repeated with its old xid after its connection
 * was lost: it is answered and not executed again (ROUNDS [1] times, with two connections each).
 * Prints "done" at the end, otherwise one line on standard error, status 1. With an EXPORT of "-"
 * it only connects, sends nothing, and prints "closed" when the target closes the connection.
 *
 *     rpc_probe DEV CIDR HOST NAME:KEYFILE 2 ask|late
 *
 * Host authentication that stops in the middle. ask: prints "asked", and waits for a line before it
 * sends its proof; prints "served" or "refused". late: begins after a second and never sends the
 * proof; prints "closed" when the target closes the connection.
 *
 *     rpc_probe DEV CIDR HOST EXPORT VERSION hold
 *
 * Many READs whose answers are not received: prints "held", waits for a line, and continues. Prints
 * how many of them were answered.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "addr.h"
#include "export_proto.h"
#include "auth_arg.h"
#include "probe.h"
#include "stack.h"
#include "ui.h"
#include <weft/rpcrdma.h>

#define TIMEOUT_NS 20000000000ull
#define ROOM       (1u << 20)
#define HELD       7u
#define RW         (WEFT_EXPORT_READ | WEFT_EXPORT_WRITE)

static struct probe {
	struct weft_worker *w;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct sockaddr_storage to;
	uint8_t vers;
	struct weft_qp *qp;
	struct weft_rpc *rpc;
	bool up, gone;
	/* the call */
	bool done;
	enum weft_rpc_status rpc_status;
	int status; /* of the export program */
	weft_export_grant grant;
	weft_export_state state;
	weft_export_written written;
	uint32_t read_bytes;
	struct host_auth auth;
	bool no_replies; /* messages of the peer are not answered */
	struct auth_arg who;
	const char *midway; /* "ask" or "late"; NULL: no authentication */
	uint8_t out[ROOM + 64], in[ROOM + 64];
} pr;

/* ---- A connection ---- */

static void
on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	(void)user;
	(void)cq;
	for (unsigned int i = 0; i < n; i++)
		if (pr.rpc != NULL && !(pr.no_replies && wc[i].opcode == WEFT_WC_RECV))
			(void)weft_rpc_wc(pr.rpc, &wc[i]);
}

static void
on_event(void *user, const struct weft_event *ev)
{
	(void)user;
	if (ev->type == WEFT_EV_ESTABLISHED)
		pr.up = true;
	if (ev->type == WEFT_EV_REJECTED || ev->type == WEFT_EV_CONNECT_ERROR ||
	    ev->type == WEFT_EV_DISCONNECTED) {
		pr.gone = true;
		if (pr.rpc != NULL)
			weft_rpc_disconnected(pr.rpc);
	}
}

static int
auth_step(void *user, const uint8_t *in, uint32_t in_bytes, uint8_t *out, uint32_t *out_bytes)
{
	char line[8];

	(void)user;
	if (in != NULL && strcmp(pr.midway, "late") == 0) {
		*out_bytes = 0;
		pr.no_replies =
		        true; /* otherwise both sides would answer empty messages without end */
		return 0;
	}
	if (in != NULL && pr.auth.state == HOST_AUTH_ASKED) {
		puts("asked");
		fflush(stdout);
		if (fgets(line, sizeof(line), stdin) == NULL)
			return -EIO;
	}
	return host_auth_step(&pr.auth, in, in_bytes, out, WEFT_RPC_AUTH_MAX_BYTES, out_bytes);
}

static const struct weft_rpc_auth auth = {.step = auth_step, .required = true};

static void
up(void)
{
	struct weft_qp_attr qa = {.size = sizeof(qa),
	                          .worker = pr.w,
	                          .send_cq = pr.cq,
	                          .recv_cq = pr.cq,
	                          .evq = pr.evq,
	                          .sq_depth = 128,
	                          .rq_depth = 64};
	struct weft_rpc_attr ra = {.size = sizeof(ra), .min_vers = pr.vers, .max_vers = pr.vers};
	struct weft_conn_attr ca = {.size = sizeof(ca), .timeout_us = 5000000};

	pr.up = pr.gone = false;
	if (weft_qp_create(pr.pd, &qa, &pr.qp) != 0)
		ui_die("no queue pair");
	if (pr.midway != NULL)
		ra.auth = &auth;
	ra.qp = pr.qp;
	if (weft_rpc_create(&ra, &pr.rpc) != 0 ||
	    weft_connect(pr.qp, (struct sockaddr *)&pr.to, addr_len(&pr.to), &ca) != 0 ||
	    !probe_wait(pr.w, &pr.up, NULL, TIMEOUT_NS))
		ui_die("cannot connect");
}

static void
down(void)
{
	if (weft_disconnect(pr.qp) != 0 || !probe_wait(pr.w, &pr.gone, NULL, TIMEOUT_NS))
		ui_die("cannot disconnect");
	weft_qp_destroy(pr.qp);
	for (int i = 0; i < 8; i++)
		(void)weft_worker_poll(pr.w);
	weft_rpc_destroy(pr.rpc);
	pr.rpc = NULL;
}

/* ---- Calls ---- */

static void
on_answer(void *arg, enum weft_rpc_status status, void *res)
{
	int proc = (int)(intptr_t)arg;

	pr.done = true;
	pr.rpc_status = status;
	pr.status = -1;
	if (status != WEFT_RPC_OK)
		return;
	pr.status = *(weft_export_status *)res; /* all results begin with it */
	if (pr.status != WEFT_EXPORT_OK)
		return;
	if (proc == WEFT_EXPORT_OPEN)
		pr.grant = ((weft_export_open_res *)res)->weft_export_open_res_u.grant;
	if (proc == WEFT_EXPORT_STAT)
		pr.state = ((weft_export_stat_res *)res)->weft_export_stat_res_u.state;
	if (proc == WEFT_EXPORT_READ_DATA)
		pr.read_bytes = ((weft_export_read_res *)res)->weft_export_read_res_u.data.data_len;
	if (proc == WEFT_EXPORT_WRITE_DATA)
		pr.written = ((weft_export_write_res *)res)->weft_export_write_res_u.written;
}

static int
call(struct weft_rpc_call_attr *a, const char *what)
{
	a->size = sizeof(*a);
	a->prog = WEFT_EXPORT_PROG;
	a->vers = WEFT_EXPORT_V1;
	a->fn = on_answer;
	a->arg = (void *)(intptr_t)a->proc;
	pr.done = false;
	if (weft_rpc_call_with(pr.rpc, a) != 0 || !probe_wait(pr.w, &pr.done, NULL, TIMEOUT_NS))
		ui_die("%s got no answer", what);
	if (pr.rpc_status != WEFT_RPC_OK)
		ui_die("%s: %s", what, weft_rpc_status_str(pr.rpc_status));
	return pr.status;
}

static uint32_t
open_export(char *name, uint32_t rights)
{
	weft_export_open_args args = {.name = name, .rights = rights};
	struct weft_rpc_call_attr a = {.proc = WEFT_EXPORT_OPEN,
	                               .xdr_args = (xdrproc_t)xdr_weft_export_open_args,
	                               .args = &args,
	                               .xdr_res = (xdrproc_t)xdr_weft_export_open_res,
	                               .res_bytes = sizeof(weft_export_open_res)};
	uint64_t end = ui_now_ns() + TIMEOUT_NS;
	int rc;

	do
		rc = call(&a, "OPEN");
	while (rc == WEFT_EXPORT_BUSY && ui_now_ns() < end);
	if (rc != WEFT_EXPORT_OK)
		ui_die("OPEN refused: %d", rc);
	return pr.grant.handle;
}

/* OPEN with credentials, which the target ignores. */
static int
open_credited(char *name)
{
	weft_export_open_args args = {
	        .name = name, .rights = WEFT_EXPORT_READ, .cred = {4, (char[]){"me!"}}};
	struct weft_rpc_call_attr a = {.proc = WEFT_EXPORT_OPEN,
	                               .xdr_args = (xdrproc_t)xdr_weft_export_open_args,
	                               .args = &args,
	                               .xdr_res = (xdrproc_t)xdr_weft_export_open_res,
	                               .res_bytes = sizeof(weft_export_open_res)};

	return call(&a, "OPEN");
}

static int
stat_export(const char *name)
{
	weft_export_stat_args args = {.name = (char *)(uintptr_t)name};
	struct weft_rpc_call_attr a = {.proc = WEFT_EXPORT_STAT,
	                               .xdr_args = (xdrproc_t)xdr_weft_export_stat_args,
	                               .args = &args,
	                               .xdr_res = (xdrproc_t)xdr_weft_export_stat_res,
	                               .res_bytes = sizeof(weft_export_stat_res)};

	return call(&a, "STAT");
}

static int
read_at(uint32_t handle, uint64_t to, uint32_t count)
{
	struct weft_export_read_call c = {{handle, to, count}, pr.in};
	const weft_export_read_res init = {
	        .weft_export_read_res_u.data = {count <= ROOM ? count : ROOM, (char *)pr.in}};
	struct weft_rpc_call_attr a = {.proc = WEFT_EXPORT_READ_DATA,
	                               .xdr_args = (xdrproc_t)xdr_weft_export_read_args,
	                               .args = &c,
	                               .xdr_res = (xdrproc_t)weft_export_xdr_read_res,
	                               .res_bytes = sizeof(weft_export_read_res),
	                               .res_init = &init,
	                               .binding = &weft_export_read_binding};

	memset(pr.in, 0, sizeof(pr.in));
	return call(&a, "READ");
}

static int
write_at(uint32_t handle, uint64_t to, uint32_t count, weft_export_stability stable, uint32_t xid)
{
	weft_export_write_args args = {handle, to, stable, {count, (char *)pr.out}};
	struct weft_rpc_call_attr a = {.proc = WEFT_EXPORT_WRITE_DATA,
	                               .xdr_args = (xdrproc_t)xdr_weft_export_write_args,
	                               .args = &args,
	                               .xdr_res = (xdrproc_t)xdr_weft_export_write_res,
	                               .res_bytes = sizeof(weft_export_write_res),
	                               .binding = &weft_export_write_binding,
	                               .xid = xid,
	                               .once = true};

	return call(&a, "WRITE");
}

static void
fill(uint32_t count, uint8_t seed)
{
	for (uint32_t i = 0; i < count; i++)
		pr.out[i] = (uint8_t)(i * 31 + (i >> 8) * 7 + seed);
}

static void
want(int got, int expect, const char *what)
{
	if (got != expect)
		ui_die("%s: status %d, not %d", what, got, expect);
}

/* ---- The cases ---- */

static void
sizes(char *name)
{
	static const uint32_t size[] = {0, 1, 8, 1023, 1025, 4095, 4096, 65537, ROOM - 1, ROOM};
	uint32_t h = open_export(name, RW | WEFT_EXPORT_FLUSH);
	uint64_t to = pr.grant.slot_to[1] + pr.grant.header_bytes;

	for (unsigned int i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		weft_export_stability s = i % 2 ? WEFT_EXPORT_DURABLE : WEFT_EXPORT_UNSTABLE;

		fill(size[i], (uint8_t)i);
		want(write_at(h, to + i, size[i], s, 0), WEFT_EXPORT_OK, "WRITE");
		if (pr.written.count != size[i] || pr.written.stable != s)
			ui_die("WRITE of %u: %u written, stability %d", size[i], pr.written.count,
			       (int)pr.written.stable);
		want(read_at(h, to + i, size[i]), WEFT_EXPORT_OK, "READ");
		if (pr.read_bytes != size[i] || memcmp(pr.in, pr.out, size[i]) != 0 ||
		    pr.in[size[i]] != 0)
			ui_die("READ of %u: %u read, or other octets", size[i], pr.read_bytes);
	}
}

static void
refused(char *name)
{
	uint32_t r = open_export(name, WEFT_EXPORT_READ), w;
	uint64_t end = pr.grant.len;

	down();
	up(); /* the writer's former grant has ended */
	r = open_export(name, WEFT_EXPORT_READ);
	w = open_export(name, WEFT_EXPORT_WRITE);
	want(open_credited(name), WEFT_EXPORT_PERM, "OPEN with credentials");
	want(read_at(r, end - 4, 4), WEFT_EXPORT_OK, "READ of the last octets");
	want(read_at(r, end, 0), WEFT_EXPORT_OK, "READ of nothing at the end");
	want(read_at(r, end - 3, 4), WEFT_EXPORT_INVAL, "READ beyond the end");
	want(read_at(r, end + 1, 0), WEFT_EXPORT_INVAL, "READ of nothing beyond the end");
	want(read_at(r, UINT64_MAX - 3, 4), WEFT_EXPORT_INVAL, "READ around the end of numbers");
	want(read_at(r, 0, ROOM + 1), WEFT_EXPORT_INVAL, "READ of too much");
	want(read_at(r, 0, UINT32_MAX), WEFT_EXPORT_INVAL, "READ of far too much");
	want(read_at(w, 0, 8), WEFT_EXPORT_PERM, "READ without the right");
	fill(16, 1);
	want(write_at(r, 4096, 16, WEFT_EXPORT_UNSTABLE, 0), WEFT_EXPORT_PERM,
	     "WRITE to a reader's");
	want(write_at(w, 4096, 16, WEFT_EXPORT_DURABLE, 0), WEFT_EXPORT_PERM,
	     "durable without flush");
	want(write_at(w, end - 15, 16, WEFT_EXPORT_UNSTABLE, 0), WEFT_EXPORT_INVAL, "WRITE beyond");
	want(write_at(w, UINT64_MAX - 7, 16, WEFT_EXPORT_UNSTABLE, 0), WEFT_EXPORT_INVAL,
	     "WRITE around");
	want(write_at(w + 1000, 4096, 16, WEFT_EXPORT_UNSTABLE, 0), WEFT_EXPORT_STALE,
	     "a foreign handle");
	want(write_at(w, 4096, 16, (weft_export_stability)7, 0), WEFT_EXPORT_INVAL,
	     "WRITE of no such stability");
	want(stat_export("nosuch"), WEFT_EXPORT_NOENT, "STAT of nothing");
	want(stat_export(name), WEFT_EXPORT_OK, "STAT");
	if (!pr.state.busy || pr.state.capacity == 0)
		ui_die("STAT does not see the writer");
}

/* RFC 5531 s9: a repeated call is not executed again. */
static void
twice(char *name, uint32_t xid)
{
	uint32_t h, again;
	uint64_t to;

	down();
	up();
	h = open_export(name, RW | WEFT_EXPORT_FLUSH);
	to = pr.grant.slot_to[1] + pr.grant.header_bytes;
	fill(5000, 'A');
	want(write_at(h, to, 5000, WEFT_EXPORT_DURABLE, xid), WEFT_EXPORT_OK, "WRITE of A");
	down();
	up();
	again = open_export(name, RW | WEFT_EXPORT_FLUSH);
	fill(5000, 'B');
	want(write_at(again, to, 5000, WEFT_EXPORT_DURABLE, 0), WEFT_EXPORT_OK, "WRITE of B");
	fill(5000, 'A');
	want(write_at(h, to, 5000, WEFT_EXPORT_DURABLE, xid), WEFT_EXPORT_OK, "WRITE of A again");
	if (pr.written.count != 5000 || pr.written.stable != WEFT_EXPORT_DURABLE)
		ui_die("the answer from before is another");
	want(write_at(h, to, 5000, WEFT_EXPORT_DURABLE, xid + 1), WEFT_EXPORT_STALE,
	     "WRITE of A by another xid");
	fill(5000, 'B');
	want(read_at(again, to, 5000), WEFT_EXPORT_OK, "READ");
	if (memcmp(pr.in, pr.out, 5000) != 0)
		ui_die("A was written twice");
}

static void
midway(char *who, const char *how)
{
	static weft_export_stat_args args = {.name = (char *)(uintptr_t) "none"};
	struct weft_rpc_call_attr a = {.size = sizeof(a),
	                               .prog = WEFT_EXPORT_PROG,
	                               .vers = WEFT_EXPORT_V1,
	                               .proc = WEFT_EXPORT_STAT,
	                               .xdr_args = (xdrproc_t)xdr_weft_export_stat_args,
	                               .args = &args,
	                               .xdr_res = (xdrproc_t)xdr_weft_export_stat_res,
	                               .res_bytes = sizeof(weft_export_stat_res),
	                               .fn = on_answer,
	                               .arg = (void *)(intptr_t)WEFT_EXPORT_STAT};
	uint64_t begin;

	auth_arg_take(&pr.who, who);
	strcpy(pr.auth.name, pr.who.name);
	pr.auth.keys = &pr.who.keys;
	(void)host_auth_place(&pr.to, &pr.auth.place);
	pr.midway = how;
	up();
	begin = ui_now_ns() + (strcmp(how, "late") == 0 ? 1000000000ull : 0);
	while (ui_now_ns() < begin && !pr.gone)
		if (weft_worker_poll(pr.w) == 0)
			weft_worker_idle(pr.w, 50);
	if (pr.gone)
		ui_die("closed before it began");
	if (weft_rpc_call_with(pr.rpc, &a) != 0)
		ui_die("no call");
	if (strcmp(how, "late") == 0) {
		if (!probe_wait(pr.w, &pr.gone, NULL, TIMEOUT_NS))
			ui_die("the connection stays");
		puts("closed");
	} else {
		if (!probe_wait(pr.w, &pr.done, NULL, TIMEOUT_NS))
			ui_die("no answer");
		puts(pr.rpc_status == WEFT_RPC_OK ? "served" : "refused");
	}
	fflush(stdout);
	_exit(0);
}

static unsigned int held_answered, held_ended;

static void
on_held(void *arg, enum weft_rpc_status status, void *res)
{
	(void)arg;
	(void)res;
	held_answered += status == WEFT_RPC_OK;
	held_ended++;
}

/* With a full receive window and no credit, most answers stay at the target. */
static void
hold(char *name)
{
	uint32_t h = open_export(name, WEFT_EXPORT_READ | WEFT_EXPORT_WRITE);
	uint64_t end = ui_now_ns() + 150000000ull;
	struct weft_export_read_call c = {{h, 4096, ROOM}, pr.in};
	const weft_export_read_res init = {.weft_export_read_res_u.data = {ROOM, (char *)pr.in}};
	struct weft_rpc_call_attr a = {.size = sizeof(a),
	                               .prog = WEFT_EXPORT_PROG,
	                               .vers = WEFT_EXPORT_V1,
	                               .proc = WEFT_EXPORT_READ_DATA,
	                               .xdr_args = (xdrproc_t)xdr_weft_export_read_args,
	                               .args = &c,
	                               .xdr_res = (xdrproc_t)weft_export_xdr_read_res,
	                               .res_bytes = sizeof(weft_export_read_res),
	                               .res_init = &init,
	                               .binding = &weft_export_read_binding,
	                               .fn = on_held};
	char line[8];

	for (unsigned int i = 0; i < HELD; i++)
		if (weft_rpc_call_with(pr.rpc, &a) != 0)
			ui_die("no call");
	for (unsigned int i = 0; i < 8; i++) /* the READs are sent, and only a few answers arrive */
		(void)weft_worker_poll(pr.w);
	while (ui_now_ns() < end)
		;
	puts("held");
	fflush(stdout);
	if (fgets(line, sizeof(line), stdin) == NULL)
		ui_die("no line");
	end = ui_now_ns() + TIMEOUT_NS;
	while (held_ended < HELD && !pr.gone && ui_now_ns() < end)
		if (weft_worker_poll(pr.w) == 0)
			weft_worker_idle(pr.w, 50);
	printf("%u of %u\n", held_answered, HELD);
	fflush(stdout);
	_exit(0);
}

int
main(int argc, char **argv)
{
	static struct stack stack;
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 1024, .on_wc = on_wc};
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = on_event};

	ui_init("rpc_probe");
	if (argc != 6 && argc != 7)
		ui_usage_die("DEV CIDR HOST EXPORT VERSION [ROUNDS]");
	probe_up(&stack, "rpc_probe", argv[1], argv[2]);
	pr.vers = (uint8_t)atoi(argv[5]);
	pr.w = stack.workers[0];
	if (addr_resolve(argv[3], 7471, &pr.to) != NULL || weft_pd_alloc(stack.ctx, &pr.pd) != 0 ||
	    weft_cq_create(stack.ctx, &ca, &pr.cq) != 0 ||
	    weft_evq_create(stack.ctx, &ea, &pr.evq) != 0)
		ui_die("cannot start");
	if (strchr(argv[4], ':') != NULL)
		midway(argv[4], argc == 7 ? argv[6] : "ask");
	up();
	if (strcmp(argv[4], "-") == 0) {
		if (!probe_wait(pr.w, &pr.gone, NULL, TIMEOUT_NS))
			ui_die("the connection stays");
		puts("closed");
		fflush(stdout);
		_exit(0);
	}
	if (argc == 7 && strcmp(argv[6], "hold") == 0)
		hold(argv[4]);
	sizes(argv[4]);
	refused(argv[4]);
	for (uint32_t i = 0; i < (argc == 7 ? (uint32_t)atoi(argv[6]) : 1); i++)
		twice(argv[4], 0x7e57 + 2 * i);
	down();
	(void)weft_cq_destroy(pr.cq);
	(void)weft_evq_destroy(pr.evq);
	(void)weft_pd_dealloc(pr.pd);
	stack_down(&stack);
	puts("done");
	return 0;
}
