/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file CLIENT and SVCXPRT over weft beyond successful calls: ends, lost connections, timeouts,
 * batching, clnt_control(), and destruction inside a dispatcher. Client and server have workers of
 * their own, as in real programs.
 */

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/time.h>

#include "shape.h"
#include "tirpc_priv.h"
#include <weft/rpcrdma.h>
#include <weft/tirpc.h>
#include <weft/worker.h>

#include "weft_test.h"

#define PROG 0x20000088
enum { P_ADD = 1, P_SLOW, P_CLOSE, P_DROP, P_SILENT, P_BIG, P_EXIT };
#define BIG 300000

static struct shape s;
/* For the clients and the server of the case. */
static const struct weft_rpc_auth *client_auth;
static struct weft_tirpc_attr server_attr;
static SVCXPRT *listener;
static pthread_t server;
static unsigned int server_pds; /* number of PDs before the server was created */
static atomic_uint added;
static atomic_bool held; /* P_SLOW waits until it is false, at most for 30 s */

/* ---- Between the library and its workers ---- */

static atomic_bool deaf; /* the client's worker takes no calls */
static atomic_uint hops; /* calls that the worker accepted since a queue was destroyed */

int __real_weft_worker_call(struct weft_worker *w, void (*fn)(void *arg), void *arg);
int __wrap_weft_worker_call(struct weft_worker *w, void (*fn)(void *arg), void *arg);
int __real_weft_cq_destroy(struct weft_cq *cq);
int __wrap_weft_cq_destroy(struct weft_cq *cq);
int __real_weft_evq_destroy(struct weft_evq *evq);
int __wrap_weft_evq_destroy(struct weft_evq *evq);

int
__wrap_weft_worker_call(struct weft_worker *w, void (*fn)(void *arg), void *arg)
{
	if (w == s.client && atomic_load(&deaf))
		return -EAGAIN;
	if (w == s.client)
		atomic_fetch_add(&hops, 1);
	return __real_weft_worker_call(w, fn, arg);
}

int
__wrap_weft_cq_destroy(struct weft_cq *cq)
{
	atomic_store(&hops, 0);
	return __real_weft_cq_destroy(cq);
}

int
__wrap_weft_evq_destroy(struct weft_evq *evq)
{
	atomic_store(&hops, 0);
	return __real_weft_evq_destroy(evq);
}

static bool_t
no_xdr(XDR *x, ...)
{
	(void)x;
	return TRUE;
}

#define XU32 ((xdrproc_t)xdr_u_int)

static unsigned int
fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

static unsigned int
pds(void)
{
	struct weft_ctx_info i;

	weft_ctx_query(s.ctx, &i);
	return i.pds;
}

/* ---- The server ---- */

static bool_t
xdr_big(XDR *x, ...)
{
	static char data[BIG];
	char *p = data;
	u_int n = BIG;

	return x->x_op == XDR_FREE || xdr_bytes(x, &p, &n, BIG);
}

static void
dispatch(struct svc_req *rq, SVCXPRT *x)
{
	u_int n = 0;

	switch (rq->rq_proc) {
	case NULLPROC:
		svc_sendreply(x, no_xdr, NULL);
		return;
	case P_ADD:
	case P_CLOSE:
	case P_DROP:
	case P_SLOW:
	case P_SILENT:
		if (!svc_getargs(x, XU32, (caddr_t)&n)) {
			svcerr_decode(x);
			return;
		}
		for (unsigned int i = 0; rq->rq_proc == P_SLOW && i < 30000 && atomic_load(&held);
		     i++)
			usleep(1000);
		n += atomic_fetch_add(&added, n);
		if (rq->rq_proc == P_DROP) {
			svc_destroy(x);
			return;
		}
		if (rq->rq_proc == P_SILENT)
			return;
		if (!svc_sendreply(x, XU32, (caddr_t)&n))
			svcerr_systemerr(x);
		if (rq->rq_proc == P_CLOSE)
			svc_destroy(x);
		return;
	/* called in the thread of svc_run(), which would otherwise continue to sleep */
	case P_EXIT:
		svc_sendreply(x, no_xdr, NULL);
		svc_destroy(x);
		svc_exit();
		return;
	case P_BIG:
		svc_sendreply(x, xdr_big, NULL);
		return;
	default:
		svcerr_noproc(x);
	}
}

static void *
server_main(void *arg)
{
	(void)arg;
	svc_run();
	return NULL;
}

static void
server_up(void)
{
	struct weft_tirpc_attr a = server_attr;
	struct sockaddr_in at = shape_addr(1);

	a.size = sizeof(a);
	server_pds = pds();
	listener = weft_svc_create(s.ctx, (struct sockaddr *)&at, sizeof(at), &a);
	MUST(listener != NULL);
	MUST(svc_reg(listener, PROG, 1, dispatch, NULL));
	MUST(pthread_create(&server, NULL, server_main, NULL) == 0);
	atomic_store(&added, 0);
	atomic_store(&held, false);
}

static bool
within(unsigned int ms, unsigned int (*f)(void), unsigned int want)
{
	for (; ms > 0 && f() != want; ms--)
		usleep(1000);
	return f() == want;
}

/* ---- The client ---- */

static CLIENT *
client_attr(struct weft_tirpc_attr a)
{
	struct sockaddr_in to = shape_addr(1);
	CLIENT *cl = NULL;

	a.size = sizeof(a);
	a.worker = s.client;
	a.auth = client_auth;
	/* The worker may not have accepted the listener yet. */
	for (unsigned int i = 0; i < 200 && cl == NULL; i++) {
		cl = weft_clnt_create(s.ctx, (struct sockaddr *)&to, sizeof(to), PROG, 1, &a);
		if (cl == NULL)
			usleep(10000);
	}
	if (cl == NULL)
		clnt_pcreateerror("test_tirpc");
	MUST(cl != NULL);
	return cl;
}

static CLIENT *
client(void)
{
	return client_attr((struct weft_tirpc_attr){0});
}

static enum clnt_stat
ask(CLIENT *cl, uint32_t proc, u_int arg, u_int *res, unsigned int ms)
{
	struct timeval tv = {ms / 1000, ms % 1000 * 1000};

	return clnt_call(cl, proc, XU32, (caddr_t)&arg, res != NULL ? XU32 : no_xdr, (caddr_t)res,
	                 tv);
}

/* svc_run() must see its connections end, because after svc_exit() no code handles them. */
static void
server_down(void)
{
	CLIENT *cl;

	CHECK(within(5000, pds, server_pds));
	cl = client();
	CHECK_EQ(ask(cl, P_EXIT, 0, NULL, 5000), RPC_SUCCESS);
	clnt_destroy(cl);
	MUST(pthread_join(server, NULL) == 0);
	svc_unreg(PROG, 1);
	svc_destroy(listener);
}

static unsigned int
now_added(void)
{
	return atomic_load(&added);
}

/* ---- Cases ---- */

/* Each connection of a listener has its own protection domain, which is freed with it, and so
 * are the descriptors. */
static void
test_domains(void)
{
	unsigned int pds0 = pds(), fds0, n = 0;
	CLIENT *cl[8];

	server_up();
	CHECK_EQ(pds(), pds0);
	fds0 = fds();
	for (unsigned int round = 0; round < 5; round++) {
		for (unsigned int i = 0; i < 8; i++) {
			cl[i] = client();
			CHECK_EQ(ask(cl[i], P_ADD, 1, &n, 5000), RPC_SUCCESS);
		}
		CHECK_EQ(pds(), pds0 + 16);
		for (unsigned int i = 0; i < 8; i++)
			clnt_destroy(cl[i]);
		CHECK(within(3000, pds, pds0));
		CHECK(within(3000, fds, fds0));
	}
	server_down();
	CHECK_EQ(pds(), pds0);
}

/* ---- Authentication (draft s5.2.6) ---- */

/* The client sends 1, the server sends a number of the connection, and the client returns that
 * number. */
struct door {
	void *magic;
	uint8_t number;
	bool asked;
};

static atomic_uint doors, doors_ever, doors_wrong;
static atomic_int lies;
static char door_user;

static void *
door_open(void *user, const struct sockaddr_storage *peer)
{
	struct door *d = calloc(1, sizeof(*d));

	MUST(d != NULL && user == &door_user && peer->ss_family == AF_INET);
	d->magic = d;
	d->number = (uint8_t)atomic_fetch_add(&doors_ever, 1);
	atomic_fetch_add(&doors, 1);
	return d;
}

static void
door_close(void *user, void *conn_user)
{
	struct door *d = conn_user;

	MUST(user == &door_user && d->magic == d);
	free(d);
	atomic_fetch_sub(&doors, 1);
}

static int
door_server(void *user, const uint8_t *in, uint32_t n, uint8_t *out, uint32_t *out_bytes)
{
	struct door *d = user;

	if (d->magic != d) {
		atomic_fetch_add(&doors_wrong, 1);
		return -EFAULT;
	}
	if (n != 1)
		return -EBADMSG;
	if (d->asked)
		return in[0] == d->number ? 1 : -EACCES;
	d->asked = true;
	*out = d->number;
	*out_bytes = 1;
	return 0;
}

static int
door_client(void *user, const uint8_t *in, uint32_t n, uint8_t *out, uint32_t *out_bytes)
{
	(void)user;
	*out = in == NULL ? 1 : (uint8_t)(in[0] + atomic_load(&lies));
	*out_bytes = 1;
	return in == NULL ? 0 : n == 1 ? 1 : -EBADMSG;
}

static void
test_server_auth(void)
{
	static const struct weft_rpc_auth client_side = {door_client, true};
	static const struct weft_rpc_auth server_side = {door_server, true};
	struct weft_tirpc_attr bad = {.size = sizeof(bad), .auth_open = door_open};
	struct sockaddr_in at = shape_addr(1);
	CLIENT *cl[4], *liar;
	u_int n = 0;

	CHECK(weft_svc_create(s.ctx, (struct sockaddr *)&at, sizeof(at), &bad) == NULL);
	CHECK_EQ(errno, EINVAL);
	client_auth = &client_side;
	server_attr = (struct weft_tirpc_attr){.auth = &server_side,
	                                       .auth_user = &door_user,
	                                       .auth_open = door_open,
	                                       .auth_close = door_close};
	server_up();
	for (unsigned int i = 0; i < 4; i++)
		cl[i] = client();
	for (unsigned int i = 0; i < 4; i++)
		CHECK_EQ(ask(cl[i], P_ADD, 1, &n, 5000), RPC_SUCCESS);
	CHECK_EQ(atomic_load(&added), 4);
	CHECK_EQ(atomic_load(&doors), 4);
	/* A client with a wrong number for its connection is not served. */
	atomic_store(&lies, 1);
	bad = (struct weft_tirpc_attr){
	        .size = sizeof(bad), .worker = s.client, .auth = &client_side};
	liar = weft_clnt_create(s.ctx, (struct sockaddr *)&at, sizeof(at), PROG, 1, &bad);
	if (liar != NULL) {
		CHECK(ask(liar, P_ADD, 1, &n, 3000) != RPC_SUCCESS);
		clnt_destroy(liar);
	}
	atomic_store(&lies, 0);
	CHECK_EQ(atomic_load(&added), 4);
	for (unsigned int i = 0; i < 4; i++)
		clnt_destroy(cl[i]);
	server_down();
	CHECK_EQ(atomic_load(&doors), 0);
	CHECK(atomic_load(&doors_ever) >= 6);
	CHECK_EQ(atomic_load(&doors_wrong), 0);
	client_auth = NULL;
	server_attr = (struct weft_tirpc_attr){0};
}

/* ---- The end as the peer sees it ---- */

static struct peer {
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_qp *qp;
	struct weft_rpc *rpc;
	atomic_int up, gone, status, answered;
} peer;

static void
peer_on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	(void)user;
	(void)cq;
	for (unsigned int i = 0; i < n; i++)
		if (peer.rpc != NULL)
			(void)weft_rpc_wc(peer.rpc, &wc[i]);
}

static const struct weft_rpc_program peer_prog = {PROG, 1, NULL, 0};
static const struct weft_rpc_program *const peer_progs[] = {&peer_prog, NULL};

static void
peer_make(struct weft_worker *w, bool serves)
{
	struct weft_rpc_attr ra = {.size = sizeof(ra), .server = serves};

	peer.qp = shape_qp(&s, w, peer.cq, peer.evq, NULL);
	ra.qp = peer.qp;
	ra.programs = serves ? peer_progs : NULL;
	MUST(weft_rpc_create(&ra, &peer.rpc) == 0);
}

static void
peer_on_event(void *user, const struct weft_event *ev)
{
	(void)user;
	switch (ev->type) {
	case WEFT_EV_CONNECT_REQUEST:
		peer_make(weft_connreq_worker(ev->connreq), true);
		MUST(weft_accept(ev->connreq, peer.qp, NULL) == 0);
		return;
	case WEFT_EV_ESTABLISHED:
		atomic_store(&peer.up, 1);
		return;
	case WEFT_EV_DISCONNECTED:
		atomic_store(&peer.status, ev->status);
		weft_qp_destroy(peer.qp);
		weft_rpc_destroy(peer.rpc);
		peer.rpc = NULL;
		atomic_store(&peer.gone, 1);
		return;
	default:
		return;
	}
}

static void
peer_up(void)
{
	const struct weft_cq_attr qa = {.size = sizeof(qa), .depth = 1024, .on_wc = peer_on_wc};
	const struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = peer_on_event};

	memset(&peer, 0, sizeof(peer));
	MUST(weft_cq_create(s.ctx, &qa, &peer.cq) == 0);
	MUST(weft_evq_create(s.ctx, &ea, &peer.evq) == 0);
}

static void
peer_down(void)
{
	for (unsigned int i = 0; i < 3000 && !atomic_load(&peer.gone); i++)
		usleep(1000);
	CHECK_EQ(atomic_load(&peer.gone), 1);
	usleep(20000);
	MUST(weft_evq_destroy(peer.evq) == 0);
	MUST(weft_cq_destroy(peer.cq) == 0);
}

static void
test_clnt_destroy_in_order(void)
{
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct sockaddr_in at = shape_addr(1);
	struct weft_listener *l;
	CLIENT *cl;

	peer_up();
	la.evq = peer.evq;
	MUST(weft_listen(s.ctx, (struct sockaddr *)&at, sizeof(at), &la, &l) == 0);
	cl = client();
	/* clnt_destroy() is a macro that evaluates its argument twice */
	clnt_destroy(cl);
	/* between the destruction of the queues and of the memory that they use */
	CHECK(atomic_load(&hops) > 0);
	for (unsigned int i = 0; i < 3000 && !atomic_load(&peer.gone); i++)
		usleep(1000);
	CHECK_EQ(atomic_load(&peer.status), 0); /* no reset */
	weft_unlisten(l);
	peer_down();
}

static u_int answer;

static void
peer_answer(void *arg, enum weft_rpc_status status, void *res)
{
	(void)arg;
	if (status == WEFT_RPC_OK)
		answer = *(u_int *)res;
	atomic_store(&peer.answered, status == WEFT_RPC_OK ? 1 : -1);
}

static void
peer_start(void *arg)
{
	struct sockaddr_in to = shape_addr(1);

	(void)arg;
	peer_make(s.client, false);
	MUST(weft_connect(peer.qp, (struct sockaddr *)&to, sizeof(to), NULL) == 0);
}

static void
peer_call(void *arg)
{
	u_int five = 5;

	MUST(weft_rpc_call(peer.rpc, PROG, 1, *(uint32_t *)arg, XU32, &five, XU32, sizeof(u_int), 0,
	                   peer_answer, NULL) == 0);
}

/* svc_destroy() in the dispatcher, after its answer. The peer receives the answer and an orderly
 * end. */
static void
test_svc_destroy_in_order(void)
{
	uint32_t proc = P_CLOSE;

	server_up();
	peer_up();
	MUST(weft_worker_call(s.client, peer_start, NULL) == 0);
	for (unsigned int i = 0; i < 3000 && !atomic_load(&peer.up); i++)
		usleep(1000);
	MUST(weft_worker_call(s.client, peer_call, &proc) == 0);
	for (unsigned int i = 0; i < 3000 && !atomic_load(&peer.gone); i++)
		usleep(1000);
	CHECK_EQ(atomic_load(&peer.answered), 1);
	CHECK_EQ(answer, 5);
	CHECK_EQ(atomic_load(&peer.status), 0);
	peer_down();
	server_down();
}

/* RFC 5531 s9: credentials are at most 400 octets. */
static bool
encode_bad(void *arg, XDR *x, uint32_t xid)
{
	u_int words[] = {xid, CALL, RPC_MSG_VERSION, PROG, 1, P_ADD, AUTH_SYS, 404};

	(void)arg;
	for (unsigned int i = 0; i < 8 + 404 / 4 + 3; i++) {
		u_int zero = 0;

		if (!xdr_u_int(x, i < 8 ? &words[i] : &zero))
			return false;
	}
	return true;
}

static enum weft_rpc_status
decode_none(void *arg, XDR *x)
{
	(void)arg;
	(void)x;
	return WEFT_RPC_OK;
}

/** Makes the call whose encoder and decoder arg points to. */
static void
peer_call_with(void *arg)
{
	struct weft_rpc_call_attr a = *(const struct weft_rpc_call_attr *)arg;

	a.size = sizeof(a);
	a.fn = peer_answer;
	a.timeout_us = 5000000;
	MUST(weft_rpc_call_with(peer.rpc, &a) == 0);
}

static void
peer_answered(int want)
{
	for (unsigned int i = 0; i < 3000 && atomic_load(&peer.answered) == 0; i++)
		usleep(1000);
	CHECK_EQ(atomic_load(&peer.answered), want);
}

/* A call that libtirpc cannot decode is answered (draft s7: RDMA2_ERR_BAD_XDR), so that its
 * caller does not wait for the timeout. The connection stays. */
static void
test_undecodable(void)
{
	struct weft_rpc_call_attr bad = {.encode = encode_bad, .decode = decode_none};
	uint32_t add = P_ADD, closing = P_CLOSE;

	server_up();
	peer_up();
	MUST(weft_worker_call(s.client, peer_start, NULL) == 0);
	for (unsigned int i = 0; i < 3000 && !atomic_load(&peer.up); i++)
		usleep(1000);
	for (unsigned int i = 0; i < 70; i++) { /* more than the credits */
		atomic_store(&peer.answered, 0);
		MUST(weft_worker_call(s.client, peer_call_with, &bad) == 0);
		peer_answered(-1);
	}
	CHECK_EQ(now_added(), 0);
	atomic_store(&peer.answered, 0);
	MUST(weft_worker_call(s.client, peer_call, &add) == 0);
	peer_answered(1);
	MUST(weft_worker_call(s.client, peer_call, &closing) == 0);
	peer_down();
	server_down();
}

/* ---- RPCSEC_GSS ---- */

static atomic_uint gss_steps, denied;

/* Like libtirpc's: the flavor is already marshalled. */
static int
gss_marshal(AUTH *a, XDR *x)
{
	static char cred[20] = {[3] = 1};

	atomic_fetch_add(&gss_steps, 1);
	a->ah_cred = (struct opaque_auth){RPCSEC_GSS, cred, sizeof(cred)};
	a->ah_verf = _null_auth;
	return xdr_opaque_auth(x, &a->ah_cred) && xdr_opaque_auth(x, &a->ah_verf);
}

static int
gss_wrap(AUTH *a, XDR *x, xdrproc_t xargs, caddr_t args)
{
	(void)a;
	atomic_fetch_add(&gss_steps, 1000);
	return xargs(x, args);
}

static int
gss_refresh(AUTH *a, void *dummy)
{
	(void)a;
	(void)dummy;
	atomic_fetch_add(&gss_steps, 1000);
	return TRUE;
}

static bool
encode_gss(void *arg, XDR *x, uint32_t xid)
{
	u_int words[] = {xid, CALL, RPC_MSG_VERSION, PROG, 1, P_ADD, RPCSEC_GSS, 20, 1, 1,
	                 0,   1,    AUTH_NONE,       0,    0, 4,     1};

	(void)arg;
	for (unsigned int i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!xdr_u_int(x, &words[i]))
			return false;
	return true;
}

static enum weft_rpc_status
decode_denied(void *arg, XDR *x)
{
	char verf[MAX_AUTH_BYTES];
	struct rpc_msg msg = {0};

	(void)arg;
	msg.acpted_rply.ar_verf.oa_base = verf;
	msg.acpted_rply.ar_results.proc = no_xdr;
	if (!xdr_replymsg(x, &msg) || msg.rm_reply.rp_stat != MSG_DENIED ||
	    msg.rjcted_rply.rj_stat != AUTH_ERROR)
		return WEFT_RPC_BAD_REPLY;
	atomic_store(&denied, msg.rjcted_rply.rj_why);
	return WEFT_RPC_DENIED;
}

/* Draft s11.2.2, RFC 8166 s8.2.2: nothing of RPCSEC_GSS is reduced, because neither side
 * supports it. */
static void
test_gss(void)
{
	struct weft_rpc_call_attr gss_call = {.encode = encode_gss, .decode = decode_denied};
	static struct auth_ops ops = {
	        .ah_marshal = gss_marshal, .ah_wrap = gss_wrap, .ah_refresh = gss_refresh};
	AUTH gss = {.ah_ops = &ops}, *none;
	uint32_t closing = P_CLOSE;
	struct rpc_err err;
	u_int n = 0;
	CLIENT *cl;

	server_up();
	cl = client();
	none = cl->cl_auth;
	cl->cl_auth = &gss;
	for (unsigned int i = 0; i < 2; i++) {
		CHECK_EQ(ask(cl, P_ADD, 1, &n, 5000), RPC_AUTHERROR);
		clnt_geterr(cl, &err);
		CHECK_EQ(err.re_why, AUTH_REJECTEDCRED);
		CHECK_EQ(gss_steps, 1);
	}
	cl->cl_auth = none;
	CHECK_EQ(now_added(), 0);
	CHECK_EQ(ask(cl, P_ADD, 1, &n, 5000), RPC_SUCCESS);
	clnt_destroy(cl);

	atomic_store(&added, 0);
	peer_up();
	MUST(weft_worker_call(s.client, peer_start, NULL) == 0);
	for (unsigned int i = 0; i < 3000 && !atomic_load(&peer.up); i++)
		usleep(1000);
	MUST(weft_worker_call(s.client, peer_call_with, &gss_call) == 0);
	peer_answered(-1);
	CHECK_EQ(denied, AUTH_REJECTEDCRED);
	CHECK_EQ(now_added(), 0);
	MUST(weft_worker_call(s.client, peer_call, &closing) == 0);
	peer_down();
	server_down();
}

/* ---- Listeners that are destroyed while clients connect ---- */

static atomic_bool enough;

static void *
comer(void *arg)
{
	struct sockaddr_in to = shape_addr(1);
	struct weft_tirpc_attr a = {
	        .size = sizeof(a), .worker = s.client, .connect_timeout_us = 20000};

	(void)arg;
	while (!atomic_load(&enough)) {
		CLIENT *cl =
		        weft_clnt_create(s.ctx, (struct sockaddr *)&to, sizeof(to), PROG, 1, &a);

		if (cl != NULL)
			clnt_destroy(cl);
	}
	return NULL;
}

static void
test_listener_goes(void)
{
	struct weft_tirpc_attr a = {.size = sizeof(a)};
	struct sockaddr_in at = shape_addr(1);
	unsigned int pds0 = pds(), fds0 = fds();
	pthread_t th[6];

	atomic_store(&enough, false);
	for (unsigned int i = 0; i < 6; i++)
		MUST(pthread_create(&th[i], NULL, comer, NULL) == 0);
	for (unsigned int i = 0; i < 60; i++) {
		listener = weft_svc_create(s.ctx, (struct sockaddr *)&at, sizeof(at), &a);
		MUST(listener != NULL || errno == EADDRINUSE);
		usleep(1000 * (i % 12));
		if (listener != NULL)
			svc_destroy(listener);
	}
	atomic_store(&enough, true);
	for (unsigned int i = 0; i < 6; i++)
		MUST(pthread_join(th[i], NULL) == 0);
	CHECK(within(5000, pds, pds0));
	CHECK(within(5000, fds, fds0));
}

/* The server drops connections: the caller gets an error, or the call is sent again. The next
 * call connects again. */
static void
test_lost(void)
{
	struct rpc_err err;
	u_int n = 0;
	CLIENT *cl;

	server_up();
	cl = client();
	for (unsigned int i = 0; i < 50; i++) {
		CHECK_EQ(ask(cl, P_DROP, 1, &n, 5000), RPC_CANTRECV);
		clnt_geterr(cl, &err);
		CHECK_EQ(err.re_status, RPC_CANTRECV);
		CHECK_EQ(err.re_errno, ECONNRESET);
		CHECK_EQ(ask(cl, P_ADD, 1, &n, 5000), RPC_SUCCESS);
		CHECK_EQ(n, 2 * i + 2);
	}
	clnt_destroy(cl);
	atomic_store(&added, 0);
	cl = client_attr((struct weft_tirpc_attr){.resend = 3});
	for (unsigned int i = 1; i <= 10; i++) {
		CHECK_EQ(ask(cl, P_DROP, 1, &n, 5000), RPC_CANTRECV);
		CHECK_EQ(now_added(), 4 * i);
	}
	CHECK_EQ(ask(cl, P_ADD, 1, &n, 5000), RPC_SUCCESS);
	clnt_destroy(cl);
	server_down();
}

static void
test_timeouts(void)
{
	struct timeval tv = {0, 200000}, got = {0};
	CLIENT *cl;
	u_int n = 0;

	server_up();
	cl = client();
	CHECK(clnt_control(cl, CLGET_TIMEOUT, (char *)&got));
	CHECK_EQ(got.tv_sec, 25);
	atomic_store(&held, true);
	CHECK_EQ(ask(cl, P_SLOW, 1, &n, 100), RPC_TIMEDOUT);
	atomic_store(&held, false);
	CHECK(within(3000, now_added, 1));
	CHECK_EQ(ask(cl, P_ADD, 1, &n, 5000), RPC_SUCCESS);
	CHECK_EQ(n, 2); /* not the answer to the late call */
	/* The timeout set once applies to all calls. */
	CHECK(clnt_control(cl, CLSET_TIMEOUT, (char *)&tv));
	CHECK(clnt_control(cl, CLGET_TIMEOUT, (char *)&got));
	CHECK_EQ(got.tv_usec, 200000);
	atomic_store(&held, true);
	CHECK_EQ(ask(cl, P_SLOW, 1, &n, 20000), RPC_TIMEDOUT);
	atomic_store(&held, false);
	tv = (struct timeval){-1, 0};
	CHECK(!clnt_control(cl, CLSET_TIMEOUT, (char *)&tv));
	tv = (struct timeval){1, 2000000};
	CHECK(!clnt_control(cl, CLSET_TIMEOUT, (char *)&tv));
	clnt_destroy(cl);
	server_down();
}

/* RFC 5531 s8: with a timeout of zero no answer is waited for. */
static void
test_batching(void)
{
	struct timeval none = {0}, some = {5, 0};
	u_int one = 1, n = 0;
	CLIENT *cl;

	for (unsigned int vers = 1; vers <= 2; vers++) {
		n = 0;
		server_up();
		cl = client_attr((struct weft_tirpc_attr){.max_vers = (uint8_t)vers,
		                                          .min_vers = (uint8_t)vers});
		for (unsigned int i = 0; i < 100; i++)
			CHECK_EQ(clnt_call(cl, P_ADD, XU32, (caddr_t)&one, (xdrproc_t)NULL, NULL,
			                   none),
			         RPC_SUCCESS);
		CHECK_EQ(clnt_call(cl, NULLPROC, no_xdr, NULL, no_xdr, NULL, some), RPC_SUCCESS);
		CHECK(within(3000, now_added, 100));
		CHECK_EQ(clnt_call(cl, P_ADD, XU32, (caddr_t)&one, XU32, (caddr_t)&n, none),
		         RPC_TIMEDOUT);
		CHECK(within(3000, now_added, 101));
		CHECK_EQ(n, 0);
		CHECK_EQ(ask(cl, P_ADD, 1, &n, 5000), RPC_SUCCESS);
		CHECK_EQ(n, 102);
		/* without a result to decode */
		CHECK_EQ(clnt_call(cl, P_ADD, XU32, (caddr_t)&one, (xdrproc_t)NULL, NULL, some),
		         RPC_SUCCESS);
		clnt_destroy(cl);
		server_down();
	}
}

static void
test_control(void)
{
	u_int32_t xid = 0x12345, got = 0, n = 0;
	struct sockaddr_in at;
	struct netbuf nb;
	CLIENT *cl;

	server_up();
	cl = client();
	CHECK(clnt_control(cl, CLSET_XID, (char *)&xid));
	CHECK_EQ(ask(cl, P_ADD, 1, &n, 5000), RPC_SUCCESS);
	CHECK(clnt_control(cl, CLGET_XID, (char *)&got));
	CHECK_EQ(got, xid);
	CHECK_EQ(ask(cl, P_ADD, 1, &n, 5000), RPC_SUCCESS);
	CHECK(clnt_control(cl, CLGET_XID, (char *)&got));
	CHECK(got != xid);
	CHECK(clnt_control(cl, CLGET_PROG, (char *)&got));
	CHECK_EQ(got, PROG);
	CHECK(clnt_control(cl, CLGET_VERS, (char *)&got));
	CHECK_EQ(got, 1);
	CHECK(clnt_control(cl, CLGET_SERVER_ADDR, (char *)&at));
	CHECK_EQ(ntohs(at.sin_port), SHAPE_PORT);
	CHECK(clnt_control(cl, CLGET_SVC_ADDR, (char *)&nb));
	CHECK_EQ(nb.len, sizeof(at));
	CHECK(!clnt_control(cl, CLGET_FD, (char *)&got));
	CHECK(!clnt_control(cl, 999, (char *)&got));
	CHECK(!clnt_control(cl, CLGET_XID, NULL));
	CHECK_EQ(ask(cl, 99, 1, &n, 5000), RPC_PROCUNAVAIL);
	clnt_destroy(cl);
	server_down();
}

/* No answer, an answer for which the caller made no room, and clients that end while the server
 * has their calls. */
static void
test_odd_answers(void)
{
	unsigned int pds0 = pds(), fds0;
	CLIENT *cl;
	u_int n = 0;

	server_up();
	fds0 = fds();
	cl = client();
	CHECK_EQ(ask(cl, P_SILENT, 1, &n, 100), RPC_TIMEDOUT);
	CHECK_EQ(ask(cl, P_ADD, 1, &n, 5000), RPC_SUCCESS);
	CHECK_EQ(ask(cl, P_BIG, 1, &n, 5000), RPC_SUCCESS); /* decodes its first word */
	CHECK_EQ(n, BIG);
	clnt_destroy(cl);
	for (unsigned int i = 0; i < 20; i++) {
		cl = client();
		/* The answer comes when the time is over, however long this thread has no CPU. */
		atomic_store(&held, true);
		CHECK_EQ(ask(cl, P_SLOW, 1, &n, 1 + i % 4), RPC_TIMEDOUT);
		atomic_store(&held, false);
		if (i % 2)
			usleep(100 * i);
		clnt_destroy(cl);
	}
	CHECK(within(5000, pds, pds0));
	CHECK(within(5000, fds, fds0));
	server_down();
}

/* ---- Threads that share one CLIENT: more calls than an endpoint can hold, and lost connections
 * ---- */

static void *
caller(void *arg)
{
	static atomic_uint turn;
	unsigned int bad = 0, n;

	for (unsigned int i = 0; i < 40; i++) {
		bool drop = atomic_fetch_add(&turn, 1) % 97 == 5;
		enum clnt_stat st = ask(arg, drop ? P_DROP : P_ADD, 1, &n, 10000);

		if (st != RPC_SUCCESS && st != RPC_CANTRECV)
			bad++;
	}
	return (void *)(uintptr_t)bad;
}

static void
test_threads(void)
{
	pthread_t th[80];
	CLIENT *cl;
	void *bad;
	u_int n = 0;

	for (unsigned int resend = 0; resend < 4; resend += 3) {
		server_up();
		cl = client_attr((struct weft_tirpc_attr){.resend = resend});
		for (unsigned int i = 0; i < 80; i++)
			MUST(pthread_create(&th[i], NULL, caller, cl) == 0);
		for (unsigned int i = 0; i < 80; i++) {
			MUST(pthread_join(th[i], &bad) == 0);
			CHECK_EQ((uintptr_t)bad, 0);
		}
		CHECK_EQ(ask(cl, P_ADD, 1, &n, 5000), RPC_SUCCESS);
		clnt_destroy(cl);
		server_down();
	}
}

static void
test_no_server(void)
{
	struct sockaddr_in to = shape_addr(1);
	struct weft_tirpc_attr a = {.size = sizeof(a), .worker = s.client};
	unsigned int pds0 = pds(), fds0 = fds();

	for (unsigned int i = 0; i < 5; i++) {
		CHECK(weft_clnt_create(s.ctx, (struct sockaddr *)&to, sizeof(to), PROG, 1, &a) ==
		      NULL);
		CHECK_EQ(rpc_createerr.cf_stat, RPC_SYSTEMERROR);
		CHECK(rpc_createerr.cf_error.re_errno != 0);
	}
	CHECK_EQ(pds(), pds0);
	CHECK_EQ(fds(), fds0);
}

static void
peer_leave(void *arg)
{
	(void)arg;
	MUST(weft_disconnect(peer.qp) == 0);
}

static CLIENT *left;

/* A worker that accepts no calls still uses the connection and its memory, so both stay. */
static void
test_destroy_deaf(void)
{
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct sockaddr_in at = shape_addr(1);
	unsigned int pds0 = pds();
	struct weft_listener *l;

	peer_up();
	la.evq = peer.evq;
	MUST(weft_listen(s.ctx, (struct sockaddr *)&at, sizeof(at), &la, &l) == 0);
	left = client();
	atomic_store(&deaf, true);
	clnt_destroy(left);
	atomic_store(&deaf, false);
	CHECK_EQ(pds(), pds0 + 1);
	CHECK_EQ(atomic_load(&peer.gone), 0);
	MUST(weft_worker_call(s.server, peer_leave, NULL) == 0);
	for (unsigned int i = 0; i < 3000 && !atomic_load(&peer.gone); i++)
		usleep(1000);
	CHECK_EQ(atomic_load(&peer.status), 0);
	usleep(20000);
	weft_unlisten(l);
	peer_down();
}

/* ---- A CLIENT that is destroyed while another thread's call is under way ---- */

enum { NOWHERE, AT_THE_CALL, WAITS, WENT_ON };

/* The position of the destroying thread after the connections are closed. */
static atomic_int destroyer;
static __thread bool destroys, is_out;

void __real_tirpc_wait_fini(struct tirpc_wait *w);
void __wrap_tirpc_wait_fini(struct tirpc_wait *w);
int __real_tirpc_wait_for(struct weft_worker *w, struct tirpc_wait *wait, void (*fn)(void *arg),
                          void *arg);
int __wrap_tirpc_wait_for(struct weft_worker *w, struct tirpc_wait *wait, void (*fn)(void *arg),
                          void *arg);
int __real_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);

/* The caller knows that its call has ended. Hold it until the destroyer waits for it, or has
 * continued without waiting. */
void
__wrap_tirpc_wait_fini(struct tirpc_wait *w)
{
	__real_tirpc_wait_fini(w);
	while (is_out && atomic_load(&destroyer) < WAITS)
		usleep(100);
}

int
__wrap_tirpc_wait_for(struct weft_worker *w, struct tirpc_wait *wait, void (*fn)(void *arg),
                      void *arg)
{
	int at = AT_THE_CALL, rc;

	/* The close comes first, and then the destruction of the queues. */
	if (destroys)
		atomic_compare_exchange_strong(&destroyer, &at, WENT_ON);
	rc = __real_tirpc_wait_for(w, wait, fn, arg);
	if (destroys && atomic_load(&destroyer) == NOWHERE)
		atomic_store(&destroyer, AT_THE_CALL);
	return rc;
}

int
__wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	int at = AT_THE_CALL;

	if (destroys)
		atomic_compare_exchange_strong(&destroyer, &at, WAITS);
	return __real_pthread_cond_wait(c, m);
}

static void *
out_caller(void *arg)
{
	u_int n;

	is_out = true;
	return (void *)(uintptr_t)ask(arg, P_SILENT, 1, &n, 20000);
}

/* The destruction ends the call, whose thread still uses the CLIENT's memory then. */
static void
test_destroy_out(void)
{
	pthread_t th;
	CLIENT *cl;
	void *stat;

	server_up();
	cl = client();
	atomic_store(&destroyer, NOWHERE);
	MUST(pthread_create(&th, NULL, out_caller, cl) == 0);
	CHECK(within(5000, now_added, 1));
	destroys = true;
	clnt_destroy(cl);
	destroys = false;
	CHECK_EQ(atomic_load(&destroyer), WAITS);
	MUST(pthread_join(th, &stat) == 0);
	CHECK_EQ((uintptr_t)stat, RPC_CANTRECV);
	server_down();
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

WEFT_TEST_MAIN({"open", open_all}, {"a domain for each connection", test_domains},
               {"a server's authentication", test_server_auth},
               {"clnt_destroy in order", test_clnt_destroy_in_order},
               {"svc_destroy in order", test_svc_destroy_in_order},
               {"a call that does not decode", test_undecodable}, {"RPCSEC_GSS", test_gss},
               {"a listener goes while clients come", test_listener_goes},
               {"connections lost", test_lost}, {"timeouts", test_timeouts},
               {"batching", test_batching}, {"clnt_control", test_control},
               {"odd answers", test_odd_answers}, {"threads", test_threads},
               {"no server", test_no_server},
               {"clnt_destroy with a deaf worker", test_destroy_deaf},
               {"destroyed while a call is out", test_destroy_out}, {"close", close_all})
