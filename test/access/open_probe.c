/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A client that takes as many grants as it can get.
 *
 *     open_probe DEV CIDR HOST EXPORT
 *
 * Obeys lines on standard input, and prints one line for each:
 *
 * - take CONNS OPENS RIGHTS: this number of further connections, and of OPENs on each: "granted N
 *   refused M STATUS WHY", with the last refusal
 * - churn MS RIGHTS: OPEN and CLOSE on one connection for this time: "granted N refused M STATUS
 *   WHY"
 * - quit
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "addr.h"
#include "export_proto.h"
#include "probe.h"
#include "stack.h"
#include "ui.h"
#include <weft/rpcrdma.h>

#define TIMEOUT_NS 20000000000ull
#define CONNS_MAX  512

static struct weft_ctx *ctx;
static struct weft_worker *worker;
static struct weft_pd *pd;
static struct weft_qp_attr qa;
static struct sockaddr_storage host;
static char *export_name;

struct conn {
	struct weft_qp *qp;
	struct weft_rpc *rpc;
	bool up, gone;
};

static struct conn conns[CONNS_MAX];
static unsigned int nconns;

static bool answered;
static unsigned int granted, refused;
static int last_status;
static uint32_t handle;
static char why[WEFT_TEXT_MAX + 1];

static void
on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	(void)user;
	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		struct conn *c = wc[i].qp_user;

		if (c->rpc != NULL)
			(void)weft_rpc_wc(c->rpc, &wc[i]);
	}
}

static void
on_event(void *user, const struct weft_event *ev)
{
	struct conn *c = ev->user;

	(void)user;
	if (c == NULL)
		return;
	c->up |= ev->type == WEFT_EV_ESTABLISHED;
	c->gone |= ev->type == WEFT_EV_REJECTED || ev->type == WEFT_EV_CONNECT_ERROR ||
	           ev->type == WEFT_EV_DISCONNECTED;
}

static void
on_open(void *arg, enum weft_rpc_status status, void *res)
{
	weft_export_open_res *r = res;

	(void)arg;
	answered = true;
	if (status != WEFT_RPC_OK) {
		refused++;
		last_status = -1;
		snprintf(why, sizeof(why), "RPC status %d", status);
	} else if (r->status == WEFT_EXPORT_OK) {
		granted++;
		handle = r->weft_export_open_res_u.grant.handle;
	} else {
		refused++;
		last_status = (int)r->status;
		snprintf(why, sizeof(why), "%s", r->weft_export_open_res_u.why);
	}
}

static void
on_close(void *arg, enum weft_rpc_status status, void *res)
{
	(void)arg;
	(void)status;
	(void)res;
	answered = true;
}

static bool
open_one(struct conn *c, uint32_t rights)
{
	weft_export_open_args args = {.name = export_name, .rights = rights};
	unsigned int before = granted;

	answered = false;
	if (weft_rpc_call(c->rpc, WEFT_EXPORT_PROG, WEFT_EXPORT_V1, WEFT_EXPORT_OPEN,
	                  (xdrproc_t)xdr_weft_export_open_args, &args,
	                  (xdrproc_t)xdr_weft_export_open_res, sizeof(weft_export_open_res), 0,
	                  on_open, NULL) != 0 ||
	    !probe_wait(worker, &answered, &c->gone, TIMEOUT_NS))
		ui_die("OPEN got no answer");
	return granted > before;
}

static void
close_one(struct conn *c)
{
	weft_export_close_args args = {.handle = handle};

	answered = false;
	if (weft_rpc_call(c->rpc, WEFT_EXPORT_PROG, WEFT_EXPORT_V1, WEFT_EXPORT_CLOSE,
	                  (xdrproc_t)xdr_weft_export_close_args, &args,
	                  (xdrproc_t)xdr_weft_export_close_res, sizeof(weft_export_close_res), 0,
	                  on_close, NULL) != 0 ||
	    !probe_wait(worker, &answered, &c->gone, TIMEOUT_NS))
		ui_die("CLOSE got no answer");
}

static struct conn *
connect_one(void)
{
	struct weft_rpc_attr ra = {.size = sizeof(ra)};
	struct conn *c = &conns[nconns];

	if (nconns == CONNS_MAX)
		ui_die("too many connections");
	nconns++;
	qa.user = c;
	if (weft_qp_create(pd, &qa, &c->qp) != 0)
		ui_die("no QP");
	ra.qp = c->qp;
	if (weft_rpc_create(&ra, &c->rpc) != 0 ||
	    weft_connect(c->qp, (struct sockaddr *)&host, addr_len(&host), NULL) != 0 ||
	    !probe_wait(worker, &c->up, &c->gone, TIMEOUT_NS))
		ui_die("not connected");
	return c;
}

static void
say(void)
{
	printf("granted %u refused %u %d %s\n", granted, refused, last_status, why);
	fflush(stdout);
	granted = refused = 0;
	last_status = 0;
	why[0] = '\0';
}

static void
take(unsigned int n, unsigned int opens, uint32_t rights)
{
	for (unsigned int i = 0; i < n; i++) {
		struct conn *c = connect_one();

		for (unsigned int k = 0; k < opens; k++)
			(void)open_one(c, rights);
	}
	say();
}

static void
churn(unsigned int ms, uint32_t rights)
{
	uint64_t end = ui_now_ns() + ms * 1000000ull;
	struct conn *c = connect_one();

	while (ui_now_ns() < end)
		if (open_one(c, rights))
			close_one(c);
	say();
}

int
main(int argc, char **argv)
{
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = on_event};
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 65536, .on_wc = on_wc};
	char line[256];
	struct stack st = {0};

	ui_init("open_probe");
	if (argc != 5 || addr_parse(argv[3], 7471, &host) != 0)
		ui_usage_die("DEV CIDR HOST EXPORT");
	export_name = argv[4];
	probe_up(&st, "open_probe", argv[1], argv[2]);
	ctx = st.ctx;
	worker = st.workers[0];
	qa = (struct weft_qp_attr){.size = sizeof(qa), .worker = worker};
	if (weft_pd_alloc(ctx, &pd) != 0 || weft_cq_create(ctx, &ca, &qa.send_cq) != 0 ||
	    weft_evq_create(ctx, &ea, &qa.evq) != 0)
		ui_die("set-up failed");
	qa.recv_cq = qa.send_cq;
	while (probe_next_line(worker, line, sizeof(line)) && strncmp(line, "quit", 4) != 0) {
		unsigned int a, b, rights;

		if (sscanf(line, "take %u %u %x", &a, &b, &rights) == 3)
			take(a, b, rights);
		else if (sscanf(line, "churn %u %x", &a, &rights) == 2)
			churn(a, rights);
	}
	for (unsigned int i = 0; i < nconns; i++) {
		weft_rpc_disconnected(conns[i].rpc);
		weft_qp_destroy(conns[i].qp);
		weft_rpc_destroy(conns[i].rpc);
		conns[i].rpc = NULL;
	}
	stack_down(&st);
	return 0;
}
