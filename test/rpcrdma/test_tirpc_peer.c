/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A CLIENT over weft and a server that the test controls: it drops connections at a given
 * message, delays answers, or speaks one version only. Checked are the CLIENT's repeated calls, its
 * attempt with version 1, and its timeouts.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include <rpc/rpc.h>

#include "shape.h"
#include <weft/rpcrdma.h>
#include <weft/tirpc.h>
#include <weft/worker.h>

#include "weft_test.h"
#include "xdr_arg.h"

#define PROG      0x20000087
#define CONNS_MAX 16
#define CALLS_MAX 256
#define DATA_MAX  8192
enum { P_ADD = 1, P_DATA, NPROCS };

/* What happens to a connection at its first message. SERVE: it is served. */
enum fate { SERVE, SERVE_1, DROP_FIRST, END_FIRST };
/* What happens to a call: it is answered, not answered, or ends the connection. */
enum mode { ANSWER, HOLD, DROP, END };

struct conn {
	struct weft_qp *qp;
	struct weft_rpc *rpc;
	enum fate fate;
};

static struct shape s;

/* The server. Its worker accesses it, and other threads only the atomic members. */
static struct {
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_listener *lsn;
	struct conn conn[CONNS_MAX];
	enum fate fate[CONNS_MAX]; /* of later connections */
	uint8_t bare[4][4096];
	struct weft_rpc_req *held[CALLS_MAX];
	unsigned int nheld;
	atomic_uint conns, calls,
	        /* drops: number of calls that end as `mode` says, if it is DROP or END */
	        drops;
	atomic_int mode, vers;   /* vers: version of the last call */
	uint32_t xid[CALLS_MAX]; /* of calls to P_ADD and P_DATA */
	uint32_t credits;        /* 0: no limit that a test reaches */
} srv;

#define XU32 ((xdrproc_t)xdr_u_int)

/* ---- The server ---- */

struct answer {
	uint32_t xid, sum;
	char *data;
	u_int data_len;
};

static bool
answer_encode(void *arg, XDR *x)
{
	struct answer *a = arg;
	u_int words[] = {a->xid, REPLY, MSG_ACCEPTED, AUTH_NONE, 0, SUCCESS};

	for (unsigned int i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!xdr_u_int(x, &words[i]))
			return false;
	return a->data != NULL ? xdr_bytes(x, &a->data, &a->data_len, DATA_MAX)
	                       : xdr_u_int(x, &a->sum);
}

static void
conn_drop(struct conn *n)
{
	if (n->qp != NULL)
		weft_qp_destroy(n->qp);
	if (n->rpc != NULL)
		weft_rpc_destroy(n->rpc);
	n->qp = NULL;
	n->rpc = NULL;
}

static void
serve(void *user, struct weft_rpc_req *req, XDR *x)
{
	static char data[DATA_MAX];
	struct conn *n = user;
	u_int w[10]; /* xid, CALL, 2, program, version, procedure, AUTH_NONE twice */
	struct answer a = {0};
	struct weft_rpc_item item = {0};
	u_int arg = 0, at;
	int mode = atomic_load(&srv.mode);

	for (unsigned int i = 0; i < 10; i++)
		MUST(xdr_u_int(x, &w[i]));
	atomic_store(&srv.vers, (int)weft_rpc_version(n->rpc));
	a.xid = w[0];
	if (w[5] != NULLPROC) {
		MUST(xdr_u_int(x, &arg));
		at = atomic_load(&srv.calls);
		MUST(at < CALLS_MAX);
		srv.xid[at] = w[0];
		atomic_store(&srv.calls, at + 1);
		if ((mode == DROP || mode == END) && atomic_load(&srv.drops) == 0)
			mode = ANSWER;
		if (mode == DROP || mode == END)
			atomic_fetch_sub(&srv.drops, 1);
		if (mode == HOLD) {
			srv.held[srv.nheld++] = req;
			return;
		}
		if (mode != ANSWER) {
			if (mode == DROP)
				conn_drop(n);
			else
				MUST(weft_disconnect(n->qp) == 0);
			weft_rpc_raw_reply(req, NULL, NULL, NULL, 0);
			return;
		}
	}
	a.sum = arg + 1;
	if (w[5] == P_DATA) {
		MUST(arg <= DATA_MAX);
		memset(data, 'd', arg);
		a.data = data;
		a.data_len = arg;
		item = (struct weft_rpc_item){data, arg};
	}
	weft_rpc_raw_reply(req, answer_encode, &a, &item, a.data != NULL && arg > 0);
}

static void
srv_request(struct weft_connreq *r)
{
	unsigned int at = atomic_load(&srv.conns);
	struct weft_rpc_attr ra = {.size = sizeof(ra),
	                           .server = true,
	                           .credits = srv.credits != 0 ? srv.credits : 200};
	struct weft_qp_attr qa = {.size = sizeof(qa),
	                          .worker = weft_connreq_worker(r),
	                          .send_cq = srv.cq,
	                          .recv_cq = srv.cq,
	                          .evq = srv.evq,
	                          .sq_depth = 512,
	                          .rq_depth = 256};
	struct conn *n = &srv.conn[at];

	MUST(at < CONNS_MAX);
	*n = (struct conn){.fate = srv.fate[at]};
	qa.user = n;
	MUST(weft_qp_create(s.pd, &qa, &n->qp) == 0);
	if (n->fate == SERVE || n->fate == SERVE_1) {
		ra.qp = n->qp;
		ra.user = n;
		ra.max_vers = n->fate == SERVE_1 ? 1 : 2;
		MUST(weft_rpc_create(&ra, &n->rpc) == 0);
		weft_rpc_set_raw(n->rpc, serve);
	} else {
		for (unsigned int i = 0; i < 4; i++)
			shape_recv(n->qp, srv.bare[i], sizeof(srv.bare[i]));
	}
	atomic_store(&srv.conns, at + 1);
	MUST(weft_accept(r, n->qp, NULL) == 0);
}

static void
srv_on_event(void *user, const struct weft_event *ev)
{
	(void)user;
	if (ev->type == WEFT_EV_CONNECT_REQUEST)
		srv_request(ev->connreq);
	if (ev->type == WEFT_EV_DISCONNECTED || ev->type == WEFT_EV_CONNECT_ERROR)
		conn_drop(ev->user);
}

static void
srv_on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int nwc)
{
	(void)user;
	(void)cq;
	for (unsigned int i = 0; i < nwc; i++) {
		struct conn *n = wc[i].qp_user;

		if (n->qp == NULL || n->qp != wc[i].qp)
			continue;
		if (n->rpc != NULL)
			(void)weft_rpc_wc(n->rpc, &wc[i]);
		else if (wc[i].status == WEFT_WC_SUCCESS && n->fate == DROP_FIRST)
			conn_drop(n);
		else if (wc[i].status == WEFT_WC_SUCCESS)
			MUST(weft_disconnect(n->qp) == 0);
	}
}

static void
srv_up(void)
{
	const struct weft_cq_attr qa = {.size = sizeof(qa), .depth = 4096, .on_wc = srv_on_wc};
	const struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = srv_on_event};
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct sockaddr_in at = shape_addr(1);

	memset(&srv, 0, sizeof(srv));
	MUST(weft_cq_create(s.ctx, &qa, &srv.cq) == 0);
	MUST(weft_evq_create(s.ctx, &ea, &srv.evq) == 0);
	la.evq = srv.evq;
	MUST(weft_listen(s.ctx, (struct sockaddr *)&at, sizeof(at), &la, &srv.lsn) == 0);
	usleep(20000); /* let its worker run */
}

static atomic_bool let_go;

static void
srv_let_go(void *arg)
{
	(void)arg;
	for (unsigned int i = 0; i < CONNS_MAX; i++)
		conn_drop(&srv.conn[i]);
	for (; srv.nheld > 0; srv.nheld--)
		weft_rpc_raw_reply(srv.held[srv.nheld - 1], NULL, NULL, NULL, 0);
	atomic_store(&let_go, true);
}

static void
srv_down(void)
{
	if (srv.lsn != NULL)
		weft_unlisten(srv.lsn);
	atomic_store(&let_go, false);
	MUST(weft_worker_call(s.server, srv_let_go, NULL) == 0);
	while (!atomic_load(&let_go))
		usleep(1000);
	usleep(20000); /* wait for late completions */
	MUST(weft_evq_destroy(srv.evq) == 0);
	MUST(weft_cq_destroy(srv.cq) == 0);
}

static void
conns_gone(void *arg)
{
	for (unsigned int i = 0; i < CONNS_MAX; i++)
		conn_drop(&srv.conn[i]);
	atomic_store((atomic_bool *)arg, true);
}

/* ---- The client ---- */

static CLIENT *
client(struct weft_tirpc_attr a)
{
	struct sockaddr_in to = shape_addr(1);

	a.size = sizeof(a);
	a.worker = s.client;
	return weft_clnt_create(s.ctx, (struct sockaddr *)&to, sizeof(to), PROG, 1, &a);
}

static enum clnt_stat
ask(CLIENT *cl, u_int arg, u_int *res, unsigned int ms)
{
	struct timeval tv = {ms / 1000, ms % 1000 * 1000};

	return clnt_call(cl, P_ADD, XU32, (caddr_t)&arg, XU32, (caddr_t)res, tv);
}

/* ---- Cases ---- */

/* Draft s3.1.5.1: calls of a lost connection are sent again on the next one with the same xid,
 * at most as often as the attribute says. */
static void
test_sent_again(void)
{
	for (unsigned int how = 0; how < 8; how++) {
		struct weft_tirpc_attr a = {.resend = 3, .min_vers = how & 1 ? 2 : 0};
		u_int n = 0;
		CLIENT *cl;

		srv_up();
		if (how & 4)
			srv.fate[1] = how & 1 ? DROP_FIRST : END_FIRST;
		cl = client(a);
		MUST(cl != NULL);
		atomic_store(&srv.drops, 2);
		atomic_store(&srv.mode, how & 2 ? DROP : END);
		CHECK_EQ(ask(cl, 6, &n, 10000), RPC_SUCCESS);
		CHECK_EQ(n, 7);
		CHECK_EQ(srv.calls, 3);
		CHECK(srv.xid[0] == srv.xid[1] && srv.xid[1] == srv.xid[2]);
		CHECK_EQ(srv.conns, how & 4 ? 4 : 3);
		CHECK_EQ(srv.vers, 2);
		/* and no more often */
		atomic_store(&srv.drops, 100);
		CHECK_EQ(ask(cl, 6, &n, 10000), RPC_CANTRECV);
		CHECK_EQ(srv.calls, 7);
		clnt_destroy(cl);
		srv_down();
	}
}

/* A call that was sent may have been executed, even if no other connection can be made. */
static void
test_no_way_back(void)
{
	struct rpc_err err;
	CLIENT *cl;
	u_int n;

	srv_up();
	cl = client((struct weft_tirpc_attr){.resend = 3});
	MUST(cl != NULL);
	weft_unlisten(srv.lsn);
	srv.lsn = NULL;
	usleep(20000);
	atomic_store(&srv.drops, 1);
	atomic_store(&srv.mode, DROP);
	CHECK_EQ(ask(cl, 1, &n, 5000), RPC_CANTRECV);
	clnt_geterr(cl, &err);
	CHECK_EQ(err.re_errno, ECONNREFUSED);
	CHECK_EQ(srv.calls, 1);
	CHECK_EQ(ask(cl, 1, &n, 5000), RPC_SYSTEMERROR); /* this call was not sent */
	clnt_destroy(cl);
	srv_down();
}

/* Draft s4.3.2: a server that drops the first message may have version 1 only. The client tries
 * version 1 once, and only if no server has answered in version 2. */
static void
test_silent_version_1(void)
{
	for (unsigned int how = 0; how < 4; how++) {
		struct weft_tirpc_attr a = {.min_vers = how & 1 ? 2 : 0};
		CLIENT *cl;
		u_int n;

		srv_up();
		srv.fate[0] = how & 2 ? DROP_FIRST : END_FIRST;
		srv.fate[1] = SERVE_1;
		cl = client(a);
		CHECK_EQ(cl != NULL, !(how & 1));
		CHECK_EQ(srv.conns, how & 1 ? 1 : 2);
		if (cl != NULL) {
			CHECK_EQ(srv.vers, 1);
			CHECK_EQ(ask(cl, 1, &n, 5000), RPC_SUCCESS);
			clnt_destroy(cl);
		}
		srv_down();
	}
}

static void
test_no_downgrade(void)
{
	atomic_bool gone = false;
	CLIENT *cl;
	u_int n = 0;

	srv_up();
	srv.fate[1] = DROP_FIRST;
	cl = client((struct weft_tirpc_attr){0});
	MUST(cl != NULL);
	CHECK_EQ(srv.vers, 2);
	MUST(weft_worker_call(s.server, conns_gone, &gone) == 0);
	while (!atomic_load(&gone))
		usleep(1000);
	usleep(50000);
	CHECK_EQ(ask(cl, 1, &n, 5000), RPC_CANTRECV);
	CHECK_EQ(srv.conns, 2);
	CHECK_EQ(ask(cl, 1, &n, 5000), RPC_SUCCESS);
	CHECK_EQ(srv.vers, 2);
	clnt_destroy(cl);
	srv_down();
}

static int
step_never(void *user, const uint8_t *in, uint32_t n, uint8_t *out, uint32_t *out_bytes)
{
	(void)user;
	(void)in;
	(void)n;
	out[0] = 1;
	*out_bytes = 1;
	return 0;
}

/* A client that requires authentication does not fall back to version 1, which has none, after a
 * lost connection. A client with optional authentication does, if the server says that it has
 * version 1 only. */
static void
test_auth_stays(void)
{
	static const struct weft_rpc_auth auth = {step_never, true}, optional = {step_never, false};
	struct weft_tirpc_attr a = {.auth = &optional};
	CLIENT *cl;

	for (unsigned int required = 0; required < 2; required++) {
		if (required)
			a.auth = &auth;
		srv_up();
		srv.fate[0] = DROP_FIRST;
		srv.fate[1] = SERVE_1;
		srv.vers = -1;
		CHECK(client(a) == NULL);
		CHECK_EQ(srv.conns, 1);
		CHECK_EQ(srv.vers, -1);
		cl = client(a);
		CHECK_EQ(cl != NULL, !required);
		CHECK_EQ(srv.conns, 2);
		CHECK_EQ(srv.vers, required ? -1 : 1);
		if (cl != NULL)
			clnt_destroy(cl);
		srv_down();
	}

	srv_up();
	a.max_vers = 1;
	CHECK(client(a) == NULL);
	CHECK_EQ(rpc_createerr.cf_stat, RPC_SYSTEMERROR);
	CHECK_EQ(rpc_createerr.cf_error.re_errno, EINVAL);
	CHECK_EQ(srv.conns, 0);
	srv_down();
}

/* ---- More calls than an endpoint can hold, and a server that does not answer ---- */

#define THREADS 70
#define ROOM    64 /* WEFT_RPC_MAX_CALLS */

struct caller {
	pthread_t th;
	CLIENT *cl;
	unsigned int ms;
	enum clnt_stat stat;
};

static void *
caller(void *arg)
{
	struct caller *k = arg;
	u_int n;

	k->stat = ask(k->cl, 1, &n, k->ms);
	return NULL;
}

static void
join_all(struct caller *k)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 8;
	for (unsigned int i = 0; i < THREADS; i++)
		MUST(pthread_timedjoin_np(k[i].th, NULL, &end) == 0);
}

static void
test_no_answer(void)
{
	static struct caller k[THREADS];
	CLIENT *cl;

	srv_up();
	cl = client((struct weft_tirpc_attr){.credits = 200});
	MUST(cl != NULL);
	atomic_store(&srv.mode, HOLD);
	for (unsigned int i = 0; i < THREADS; i++) {
		k[i] = (struct caller){.cl = cl, .ms = 700};
		MUST(pthread_create(&k[i].th, NULL, caller, &k[i]) == 0);
	}
	join_all(k);
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK_EQ(k[i].stat, RPC_TIMEDOUT);
	clnt_destroy(cl);
	srv_down();
}

/* Calls whose time is over make room for calls that have time left. */
static void
test_room_by_time(void)
{
	static struct caller k[THREADS];
	CLIENT *cl;

	srv_up();
	cl = client((struct weft_tirpc_attr){.credits = 200});
	MUST(cl != NULL);
	atomic_store(&srv.mode, HOLD);
	for (unsigned int i = 0; i < THREADS; i++) {
		if (i == ROOM) {
			while (atomic_load(&srv.calls) < ROOM)
				usleep(1000);
			atomic_store(&srv.mode, ANSWER);
		}
		k[i] = (struct caller){.cl = cl, .ms = i < ROOM ? 1500 : 20000};
		MUST(pthread_create(&k[i].th, NULL, caller, &k[i]) == 0);
	}
	join_all(k);
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK_EQ(k[i].stat, i < ROOM ? RPC_TIMEDOUT : RPC_SUCCESS);
	clnt_destroy(cl);
	srv_down();
}

/* ---- Version 1: an unanswered call keeps its credit (RFC 8166 s3.3.1) ---- */

#define GRANTED 2 /* by a server with twice this number of receives */

static CLIENT *
client_granted(unsigned int vers)
{
	CLIENT *cl;

	srv_up();
	srv.credits = 2 * GRANTED;
	cl = client((struct weft_tirpc_attr){.max_vers = (uint8_t)vers});
	MUST(cl != NULL);
	return cl;
}

static void
ask_in_thread(struct caller *k, CLIENT *cl, unsigned int ms)
{
	*k = (struct caller){.cl = cl, .ms = ms};
	MUST(pthread_create(&k->th, NULL, caller, k) == 0);
}

static void
until_calls(unsigned int n)
{
	for (unsigned int i = 0; i < 8000 && atomic_load(&srv.calls) < n; i++)
		usleep(1000);
	MUST(atomic_load(&srv.calls) == n);
}

/* RFC 5531 s8: a batched call that is not answered succeeds. A batched call fails if calls that
 * have time left use all credits. */
static void
test_batched_unsent(void)
{
	CLIENT *cl = client_granted(1);
	const struct timeval none = {0};
	struct caller k[GRANTED];
	struct rpc_err err;
	u_int one = 1, n;

	atomic_store(&srv.mode, HOLD);
	CHECK_EQ(clnt_call(cl, P_ADD, XU32, (caddr_t)&one, (xdrproc_t)NULL, NULL, none),
	         RPC_SUCCESS);
	clnt_destroy(cl);
	srv_down();

	cl = client_granted(1);
	atomic_store(&srv.mode, HOLD);
	for (unsigned int i = 0; i < GRANTED; i++)
		ask_in_thread(&k[i], cl, 60000);
	until_calls(GRANTED);
	CHECK_EQ(clnt_call(cl, P_ADD, XU32, (caddr_t)&one, (xdrproc_t)NULL, NULL, none),
	         RPC_CANTSEND);
	clnt_geterr(cl, &err);
	CHECK_EQ(err.re_status, RPC_CANTSEND);
	CHECK_EQ(err.re_errno, ETIMEDOUT);
	CHECK_EQ(clnt_call(cl, P_ADD, XU32, (caddr_t)&one, XU32, (caddr_t)&n, none), RPC_CANTSEND);
	CHECK_EQ(srv.calls, GRANTED);
	CHECK_EQ(srv.conns, 1);
	clnt_destroy(cl);
	for (unsigned int i = 0; i < GRANTED; i++) {
		MUST(pthread_join(k[i].th, NULL) == 0);
		CHECK_EQ(k[i].stat, RPC_CANTRECV);
	}
	srv_down();
}

/* Calls that are never answered do not keep their credits forever: the next call uses another
 * connection. */
static void
test_never_answered(void)
{
	for (unsigned int vers = 2; vers >= 1; vers--) {
		CLIENT *cl = client_granted(vers);
		u_int n = 0;

		atomic_store(&srv.mode, HOLD);
		for (unsigned int i = 0; i < GRANTED; i++)
			CHECK_EQ(ask(cl, 1, &n, 200), RPC_TIMEDOUT);
		CHECK_EQ(srv.calls, GRANTED);
		atomic_store(&srv.mode, ANSWER);
		CHECK_EQ(ask(cl, 1, &n, 20000), RPC_SUCCESS);
		CHECK_EQ(n, 2);
		CHECK_EQ(srv.conns, vers == 1 ? 2 : 1);
		CHECK_EQ(srv.calls, GRANTED + 1);
		clnt_destroy(cl);
		srv_down();
	}
}

/* A call that waits for such a credit was not sent, and is sent on the next connection at once.
 * Batched calls use credits like others. */
static void
test_waits_for_none(void)
{
	const struct timeval none = {0};
	struct caller k[GRANTED + 1];
	CLIENT *cl = client_granted(1);
	u_int one = 1, n = 0;

	atomic_store(&srv.mode, HOLD);
	for (unsigned int i = 0; i < GRANTED; i++)
		ask_in_thread(&k[i], cl, 1000);
	until_calls(GRANTED);
	atomic_store(&srv.mode, ANSWER);
	ask_in_thread(&k[GRANTED], cl, 60000);
	until_calls(GRANTED + 1);
	for (unsigned int i = 0; i < GRANTED + 1; i++) {
		MUST(pthread_join(k[i].th, NULL) == 0);
		CHECK_EQ(k[i].stat, i < GRANTED ? RPC_TIMEDOUT : RPC_SUCCESS);
	}
	CHECK_EQ(srv.conns, 2);
	CHECK_EQ(srv.calls, GRANTED + 1);

	atomic_store(&srv.mode, HOLD);
	for (unsigned int i = 0; i < GRANTED; i++)
		CHECK_EQ(clnt_call(cl, P_ADD, XU32, (caddr_t)&one, (xdrproc_t)NULL, NULL, none),
		         RPC_SUCCESS);
	atomic_store(&srv.mode, ANSWER);
	CHECK_EQ(ask(cl, 1, &n, 20000), RPC_SUCCESS);
	CHECK_EQ(srv.conns, 3);
	CHECK_EQ(srv.calls, 2 * GRANTED + 2);
	clnt_destroy(cl);
	srv_down();
}

/* ---- Errors after the procedure ran ---- */

static unsigned int
short_sinks(const void *args, struct weft_rpc_sink *sinks)
{
	(void)args;
	sinks[0] = (struct weft_rpc_sink){.max_bytes = 5000};
	return 1;
}

static unsigned int
data_items(const void *res, struct weft_rpc_item *items)
{
	(void)res;
	(void)items;
	return 0;
}

static const struct weft_rpc_binding short_binding = {.sinks = short_sinks, .results = data_items};

struct data {
	char *p;
	u_int n;
};

static bool_t
xdr_data(XDR *x, ...)
{
	struct data *d;

	XDR_ARG(x, d);
	return xdr_bytes(x, &d->p, &d->n, DATA_MAX);
}

/* RDMA2_ERR_WRITE_RESOURCE arrives after the procedure ran. A procedure that must not run twice
 * is not called again (draft s7.3.4). */
static void
test_once(void)
{
	for (unsigned int once = 0; once < 2; once++) {
		const struct weft_rpc_proc procs[NPROCS] = {
		        [P_DATA] = {.binding = &short_binding, .once = once}};
		const struct weft_rpc_program prog = {PROG, 1, procs, NPROCS};
		const struct weft_rpc_program *const programs[] = {&prog, NULL};
		struct timeval tv = {5, 0};
		struct data d = {0};
		u_int want = 7000;
		struct rpc_err err;
		enum clnt_stat st;
		CLIENT *cl;

		srv_up();
		cl = client((struct weft_tirpc_attr){.programs = programs});
		MUST(cl != NULL);
		st = clnt_call(cl, P_DATA, XU32, (caddr_t)&want, xdr_data, (caddr_t)&d, tv);
		CHECK_EQ(srv.calls, once ? 1 : 2);
		CHECK_EQ(st, once ? RPC_CANTRECV : RPC_SUCCESS);
		if (once) {
			clnt_geterr(cl, &err);
			CHECK_EQ(err.re_errno, EMSGSIZE);
		} else {
			CHECK_EQ(d.n, want);
		}
		xdr_free((xdrproc_t)xdr_data, &d);
		clnt_destroy(cl);
		srv_down();
	}
}

static void
open_all(void)
{
	shape_up(&s);
}

static void
close_all(void)
{
	shape_down(&s);
}

WEFT_TEST_MAIN({"open", open_all}, {"sent again", test_sent_again},
               {"no way back", test_no_way_back}, {"silent, version 1", test_silent_version_1},
               {"no downgrade", test_no_downgrade}, {"authentication stays", test_auth_stays},
               {"a server that does not answer", test_no_answer},
               {"room by time", test_room_by_time}, {"batched, and not sent", test_batched_unsent},
               {"never answered", test_never_answered}, {"waits for none", test_waits_for_none},
               {"once", test_once}, {"close", close_all})
