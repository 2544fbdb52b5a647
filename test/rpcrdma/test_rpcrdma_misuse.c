/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Misuse of RPC endpoints, requests and caches by a program, and of clients and servers
 * of TI-RPC. */

#include <errno.h>

#include "misuse.h"
#include <weft/rpc_budget.h>
#include <weft/tirpc.h>

static void *untouched = &untouched;
#define OUT(type) ((struct type **)(void *)&untouched)

static struct weft_rpc *
endpoint(struct weft_qp *qp)
{
	struct weft_rpc_attr ra = {.size = sizeof(ra), .qp = qp};
	struct weft_rpc *rpc;

	CHECK_EQ(weft_rpc_create(&ra, &rpc), 0);
	return rpc;
}

static struct weft_rpc *
rpcs_open(struct misuse *m)
{
	struct weft_qp_attr qa = vt_qp_attr(&m->t.n[0]);
	struct weft_rpc_budget *budget;
	struct weft_rpc_drc *drc;
	struct weft_qp *qp;
	struct weft_rpc *rpc;

	CHECK_EQ(weft_qp_create(m->pd, &qa, &qp), 0);
	rpc = endpoint(qp);
	weft_qp_destroy(qp);
	weft_rpc_destroy(rpc);
	m->dead[MISUSE_RPC] = rpc;
	CHECK_EQ(weft_rpc_drc_create(16, &drc), 0);
	weft_rpc_drc_destroy(drc);
	m->dead[MISUSE_RPC_DRC] = drc;
	CHECK_EQ(weft_rpc_budget_create(65536, &budget), 0);
	weft_rpc_budget_destroy(budget);
	m->dead[MISUSE_RPC_BUDGET] = budget;
	m->live[MISUSE_RPC] = endpoint(m->idle);
	return m->live[MISUSE_RPC];
}

/** A case with an endpoint. */
#define MISUSE_RPC(call)                                                                           \
	static void rpc_##call(struct misuse *m, struct weft_rpc *rpc);                            \
	MISUSE(call)                                                                               \
	{                                                                                          \
		struct weft_rpc *rpc = rpcs_open(m);                                               \
		rpc_##call(m, rpc);                                                                \
		weft_rpc_destroy(rpc);                                                             \
		weft_rpc_destroy(rpc);                                                             \
	}                                                                                          \
	static void rpc_##call(struct misuse *m, struct weft_rpc *rpc __rte_unused)

MISUSE_RPC(weft_rpc_create)
{
	struct weft_rpc_attr good = {.size = sizeof(good), .qp = m->qp};
	struct weft_rpc_attr ra = good;

	CHECK_EQ(weft_rpc_create(NULL, OUT(weft_rpc)), -EINVAL);
	CHECK_EQ(weft_rpc_create(&good, NULL), -EINVAL);
	BAD_ATTR(weft_rpc_attr, good, weft_rpc_create(a, OUT(weft_rpc)));
	EACH_BAD(m, ra.qp, QP)
	CHECK_EQ(weft_rpc_create(&ra, OUT(weft_rpc)), -EINVAL);
	ra = good;
	EACH_BAD(m, ra.budget, RPC_BUDGET)
	if (ra.budget != NULL)
		CHECK_EQ(weft_rpc_create(&ra, OUT(weft_rpc)), -EINVAL);
	ra = good;
	EACH_BAD(m, ra.drc, RPC_DRC)
	if (ra.drc != NULL)
		CHECK_EQ(weft_rpc_create(&ra, OUT(weft_rpc)), -EINVAL);
}

MISUSE_RPC(weft_rpc_destroy)
{
	struct weft_rpc *h;

	EACH_BAD(m, h, RPC)
	weft_rpc_destroy(h);
}

MISUSE_RPC(weft_rpc_wc)
{
	struct weft_wc wc = {0};
	struct weft_rpc *h;

	EACH_BAD(m, h, RPC)
	CHECK(!weft_rpc_wc(h, &wc));
	CHECK(!weft_rpc_wc(rpc, NULL));
}

MISUSE_RPC(weft_rpc_peer_serves)
{
	struct weft_rpc *h;

	EACH_BAD(m, h, RPC)
	weft_rpc_peer_serves(h);
}

MISUSE_RPC(weft_rpc_disconnected)
{
	struct weft_rpc *h;

	EACH_BAD(m, h, RPC)
	weft_rpc_disconnected(h);
}

MISUSE_RPC(weft_rpc_version)
{
	struct weft_rpc *h;

	EACH_BAD(m, h, RPC)
	CHECK_EQ(weft_rpc_version(h), 0);
}

MISUSE_RPC(weft_rpc_stuck)
{
	struct weft_rpc *h;

	EACH_BAD(m, h, RPC)
	CHECK(!weft_rpc_stuck(h));
}

MISUSE_RPC(weft_rpc_is_down)
{
	struct weft_rpc *h;

	EACH_BAD(m, h, RPC)
	CHECK(weft_rpc_is_down(h));
	CHECK(!weft_rpc_is_down(rpc));
}

MISUSE_RPC(weft_rpc_unsent)
{
	struct weft_rpc *h;

	EACH_BAD(m, h, RPC)
	CHECK(!weft_rpc_unsent(h));
}

MISUSE_RPC(weft_rpc_error_of)
{
	struct weft_rpc *h;

	EACH_BAD(m, h, RPC)
	CHECK_EQ(weft_rpc_error_of(h), 0);
}

MISUSE_RPC(weft_rpc_stats)
{
	struct weft_rpc *h;

	EACH_BAD(m, h, RPC)
	CHECK(weft_rpc_stats(h) == NULL);
	CHECK(weft_rpc_stats(rpc) != NULL);
}

static unsigned int answers;

static void
answered(void *arg, enum weft_rpc_status status, void *res)
{
	(void)arg;
	(void)status;
	(void)res;
	answers++;
}

MISUSE_RPC(weft_rpc_call)
{
	struct weft_rpc *h;

	answers = 0;
	EACH_BAD(m, h, RPC)
	CHECK_EQ(weft_rpc_call(h, 1, 1, 0, NULL, NULL, NULL, 0, 0, answered, NULL), -EINVAL);
	CHECK_EQ(weft_rpc_call(rpc, 1, 1, 0, NULL, NULL, NULL, 0, 0, NULL, NULL), -EINVAL);
	CHECK_EQ(answers, 0);
}

MISUSE_RPC(weft_rpc_call_with)
{
	struct weft_rpc_call_attr ca = {.size = sizeof(ca), .prog = 1, .vers = 1, .fn = answered};
	struct weft_rpc *h;

	answers = 0;
	EACH_BAD(m, h, RPC)
	CHECK_EQ(weft_rpc_call_with(h, &ca), -EINVAL);
	CHECK_EQ(weft_rpc_call_with(rpc, NULL), -EINVAL);
	BAD_ATTR(weft_rpc_call_attr, ca, weft_rpc_call_with(rpc, a));
	CHECK_EQ(answers, 0);
}

MISUSE_RPC(weft_rpc_set_raw)
{
	struct weft_rpc *h;

	EACH_BAD(m, h, RPC)
	weft_rpc_set_raw(h, NULL);
}

MISUSE_RPC(weft_rpc_set_peer_name)
{
	struct weft_rpc *h;

	EACH_BAD(m, h, RPC)
	CHECK_EQ(weft_rpc_set_peer_name(h, "x", 1), -EINVAL);
	CHECK_EQ(weft_rpc_set_peer_name(rpc, NULL, 1), -EINVAL);
	CHECK_EQ(weft_rpc_set_peer_name(rpc, NULL, 0), 0);
}

MISUSE_RPC(weft_rpc_set_peer_share)
{
	struct weft_rpc *h;

	EACH_BAD(m, h, RPC)
	CHECK_EQ(weft_rpc_set_peer_share(h, "x", 1), -EINVAL);
	CHECK_EQ(weft_rpc_set_peer_share(rpc, NULL, 1), -EINVAL);
}

static void
test_weft_rpc_drc_create(void)
{
	CHECK_EQ(weft_rpc_drc_create(16, NULL), -EINVAL);
	CHECK_EQ(weft_rpc_drc_create(0, OUT(weft_rpc_drc)), -EINVAL);
}

MISUSE_RPC(weft_rpc_drc_destroy)
{
	struct weft_rpc_drc *h;

	EACH_BAD(m, h, RPC_DRC)
	weft_rpc_drc_destroy(h);
}

MISUSE_RPC(weft_rpc_drc_info)
{
	BAD_QUERY(m, weft_rpc_drc, RPC_DRC, weft_rpc_drc_info, weft_rpc_drc_info);
}

static void
test_weft_rpc_budget_create(void)
{
	CHECK_EQ(weft_rpc_budget_create(16, NULL), -EINVAL);
	CHECK_EQ(weft_rpc_budget_create(0, OUT(weft_rpc_budget)), -EINVAL);
}

MISUSE_RPC(weft_rpc_budget_destroy)
{
	struct weft_rpc_budget *h;

	EACH_BAD(m, h, RPC_BUDGET)
	weft_rpc_budget_destroy(h);
}

MISUSE_RPC(weft_rpc_budget_info)
{
	BAD_QUERY(m, weft_rpc_budget, RPC_BUDGET, weft_rpc_budget_info, weft_rpc_budget_info);
}

/* ---- Requests ---- */

static struct weft_rpc_req *had;

static void
serve_later(void *user, struct weft_rpc_req *req, void *args, void *res)
{
	(void)user;
	(void)args;
	(void)res;
	had = req;
}

static const struct weft_rpc_proc procs[] = {{0}, {.serve_later = serve_later}};
static const struct weft_rpc_program program = {7, 1, procs, 2};
static const struct weft_rpc_program *const programs[] = {&program, NULL};

struct pair {
	struct weft_rpc *client, *server;
};

static void
pair_run(struct misuse *m, struct pair *p)
{
	struct weft_wc wc;

	for (unsigned int i = 0; i < 200; i++) {
		vt_run(&m->t, VT_MS);
		while (weft_cq_poll(m->cq, &wc, 1) == 1)
			CHECK(weft_rpc_wc(p->client, &wc));
		while (weft_cq_poll(m->t.n[1].cq, &wc, 1) == 1)
			if (wc.qp == m->t.n[1].qp)
				CHECK(weft_rpc_wc(p->server, &wc));
	}
}

/** Make one call that is served later. The server's request is in `had`. */
static void
pair_open(struct misuse *m, struct pair *p)
{
	struct weft_rpc_attr ra = {.size = sizeof(ra),
	                           .qp = m->t.n[1].qp,
	                           .server = true,
	                           .programs = programs,
	                           .timed = true};

	p->client = endpoint(m->qp);
	CHECK_EQ(weft_rpc_create(&ra, &p->server), 0);
	answers = 0;
	had = NULL;
	CHECK_EQ(weft_rpc_call(p->client, 7, 1, 1, NULL, NULL, NULL, 0, 0, answered, NULL), 0);
	pair_run(m, p);
	CHECK(had != NULL);
	CHECK_EQ(answers, 0);
}

static void
pair_close(struct misuse *m, struct pair *p)
{
	for (unsigned int i = 0; i < 2; i++) {
		weft_qp_destroy(m->t.n[i].qp);
		m->t.n[i].qp = NULL;
	}
	weft_rpc_destroy(p->server);
	weft_rpc_destroy(p->client);
}

/** A request is answered once. A second answer is refused. */
MISUSE(weft_rpc_done)
{
	struct weft_rpc_req *h;
	struct pair p;

	EACH_BAD(m, h, RPC_REQ)
	weft_rpc_done(h, WEFT_RPC_OK);
	pair_open(m, &p);
	weft_rpc_done(had, WEFT_RPC_OK);
	weft_rpc_done(had, WEFT_RPC_OK);
	pair_run(m, &p);
	CHECK_EQ(answers, 1);
	weft_rpc_done(had, WEFT_RPC_OK);
	weft_rpc_raw_refuse(had);
	weft_rpc_raw_reply(had, NULL, NULL, NULL, 0);
	pair_run(m, &p);
	CHECK_EQ(answers, 1);
	CHECK_EQ(weft_rpc_stats(p.server)->replies_out, 1);
	pair_close(m, &p);
}

MISUSE(weft_rpc_req_endpoint)
{
	struct weft_rpc_req *h;
	struct pair p;

	EACH_BAD(m, h, RPC_REQ)
	CHECK(weft_rpc_req_endpoint(h) == NULL);
	pair_open(m, &p);
	CHECK(weft_rpc_req_endpoint(had) == p.server);
	pair_close(m, &p);
	CHECK(weft_rpc_req_endpoint(had) == NULL); /* the endpoint is gone */
	weft_rpc_done(had, WEFT_RPC_OK);
	CHECK(weft_rpc_req_endpoint(had) == NULL); /* it is answered */
}

MISUSE(weft_rpc_req_waits)
{
	struct weft_rpc_waits w;
	struct weft_rpc_req *h;
	struct pair p;

	EACH_BAD(m, h, RPC_REQ)
	{
		memset(&w, 0xff, sizeof(w));
		weft_rpc_req_waits(h, &w);
		CHECK(w.read_ns == 0 && w.room_ns == 0);
	}
	pair_open(m, &p);
	weft_rpc_req_waits(had, NULL);
	weft_rpc_req_waits(had, &w);
	CHECK(w.read_ns == 0 && w.room_ns < 1000000000); /* it has no chunks */
	pair_close(m, &p);
	memset(&w, 0xff, sizeof(w));
	weft_rpc_req_waits(had, &w); /* the endpoint is gone */
	CHECK(w.read_ns == 0 && w.room_ns == 0);
	weft_rpc_done(had, WEFT_RPC_OK);
}

MISUSE(weft_rpc_raw_reply)
{
	struct weft_rpc_req *h;

	EACH_BAD(m, h, RPC_REQ)
	weft_rpc_raw_reply(h, NULL, NULL, NULL, 0);
}

MISUSE(weft_rpc_raw_refuse)
{
	struct weft_rpc_req *h;

	EACH_BAD(m, h, RPC_REQ)
	weft_rpc_raw_refuse(h);
}

static void
test_weft_rpc_xdr_lend(void)
{
	char buf[8];
	XDR xdr;

	xdrmem_create(&xdr, buf, sizeof(buf), XDR_DECODE);
	CHECK(weft_rpc_xdr_lend(NULL, 4) == NULL);
	CHECK(weft_rpc_xdr_lend(&xdr, 4) == NULL); /* another kind of stream */
}

static void
test_weft_rpc_xdr_results(void)
{
	weft_rpc_xdr_results(NULL, NULL);
}

/* ---- TI-RPC ---- */

MISUSE(weft_clnt_create)
{
	struct weft_tirpc_attr ta = {.size = sizeof(ta)};
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_ctx *h;

	EACH_BAD(m, h, CTX)
	{
		CHECK(weft_clnt_create(h, (struct sockaddr *)&sa, sizeof(sa), 1, 1, NULL) == NULL);
		CHECK_EQ(rpc_createerr.cf_stat, RPC_SYSTEMERROR);
		CHECK_EQ(rpc_createerr.cf_error.re_errno, EINVAL);
	}
	CHECK(weft_clnt_create(m->ctx, NULL, sizeof(sa), 1, 1, NULL) == NULL);
	ta.size = 4;
	CHECK(weft_clnt_create(m->ctx, (struct sockaddr *)&sa, sizeof(sa), 1, 1, &ta) == NULL);
	ta.size = sizeof(ta);
	ta.worker = m->dead[MISUSE_WORKER];
	CHECK(weft_clnt_create(m->ctx, (struct sockaddr *)&sa, sizeof(sa), 1, 1, &ta) == NULL);
	CHECK_EQ(rpc_createerr.cf_error.re_errno, EINVAL);
}

MISUSE(weft_svc_create)
{
	struct weft_tirpc_attr ta = {.size = 4};
	struct sockaddr_in sa = vt_addr(0, VT_PORT + 9);
	struct weft_ctx *h;

	EACH_BAD(m, h, CTX)
	{
		errno = 0;
		CHECK(weft_svc_create(h, (struct sockaddr *)&sa, sizeof(sa), NULL) == NULL);
		CHECK_EQ(errno, EINVAL);
	}
	CHECK(weft_svc_create(m->ctx, NULL, sizeof(sa), NULL) == NULL);
	errno = 0;
	CHECK(weft_svc_create(m->ctx, (struct sockaddr *)&sa, sizeof(sa), &ta) == NULL);
	CHECK_EQ(errno, EINVAL);
}

#define CASE(call)                                                                                 \
	{                                                                                          \
#call, test_##call                                                                 \
	}

WEFT_TEST_MAIN(CASE(weft_rpc_create), CASE(weft_rpc_destroy), CASE(weft_rpc_wc),
               CASE(weft_rpc_peer_serves), CASE(weft_rpc_disconnected), CASE(weft_rpc_version),
               CASE(weft_rpc_stuck), CASE(weft_rpc_is_down), CASE(weft_rpc_unsent),
               CASE(weft_rpc_error_of), CASE(weft_rpc_stats), CASE(weft_rpc_call),
               CASE(weft_rpc_call_with), CASE(weft_rpc_set_raw), CASE(weft_rpc_set_peer_name),
               CASE(weft_rpc_set_peer_share), CASE(weft_rpc_drc_create), CASE(weft_rpc_drc_destroy),
               CASE(weft_rpc_drc_info), CASE(weft_rpc_budget_create), CASE(weft_rpc_budget_destroy),
               CASE(weft_rpc_budget_info), CASE(weft_rpc_done), CASE(weft_rpc_req_endpoint),
               CASE(weft_rpc_req_waits), CASE(weft_rpc_raw_reply), CASE(weft_rpc_raw_refuse),
               CASE(weft_rpc_xdr_lend), CASE(weft_rpc_xdr_results), CASE(weft_clnt_create),
               CASE(weft_svc_create))
