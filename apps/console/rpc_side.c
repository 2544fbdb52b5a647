/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The console's RPC endpoints as their workers see them: clients, and a server that returns
 * what it is sent. */

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/rpcrdma.h>

#include "addr.h"
#include "console.h"
#include "rpc_side.h"
#include "ui.h"
#include "worker_side.h"

/**
 * A connection. Its memory stays until the end, because completions may name it after its QP was
 * destroyed; rpc is NULL then.
 */
struct endpoint {
	unsigned int n; /**< number of the client; 0: a server's */
	const struct weft_worker *worker;
	struct weft_qp *qp;
	struct weft_rpc *rpc;
	atomic_int outcome;
	struct endpoint *next; /**< all of them, under the lock */
};

struct words {
	uint32_t n;
	uint32_t w[RPC_SIDE_WORDS];
};

/** Arguments that are sent. */
struct args {
	const char *text;
	const uint32_t *words;
	unsigned int nwords;
};

/** A call under way. */
struct call {
	unsigned int n;
	uint32_t prog, vers, proc;
};

struct echo {
	u_int bytes;
	char *data;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct endpoint *all;
static struct rpc_side_served ended; /**< by connections that have ended; under the lock */
static bool serves;
static struct endpoint *clients[CONSOLE_MAX_RPCS + 1];
static struct weft_cq *cq;
static struct weft_evq *evq;

static void
on_wc(void *user, struct weft_cq *q, const struct weft_wc *wc, unsigned int n)
{
	(void)user;
	(void)q;
	for (unsigned int i = 0; i < n; i++) {
		struct endpoint *e = wc[i].qp_user;

		if (e->rpc != NULL)
			weft_rpc_wc(e->rpc, &wc[i]);
	}
}

static void
count(const struct endpoint *e, struct rpc_side_served *sum)
{
	const struct weft_rpc_stats *s = weft_rpc_stats(e->rpc);

	if (s == NULL)
		return;
	sum->calls += s->calls_in;
	sum->replies += s->replies_out;
	sum->errors += s->errors_out;
}

/** End an endpoint: its calls end first, as lost with the connection. */
static void
endpoint_end(struct endpoint *e)
{
	if (e->qp == NULL)
		return;
	if (e->rpc != NULL)
		weft_rpc_disconnected(e->rpc);
	weft_qp_destroy(e->qp);
	e->qp = NULL;
	if (e->rpc != NULL && e->n == 0) {
		pthread_mutex_lock(&lock);
		count(e, &ended);
		pthread_mutex_unlock(&lock);
	}
	if (e->rpc != NULL)
		weft_rpc_destroy(e->rpc);
	e->rpc = NULL;
}

static bool_t
xdr_echo(XDR *xdr, ...)
{
	struct echo *e;
	va_list ap;

	va_start(ap, xdr);
	e = va_arg(ap, struct echo *);
	va_end(ap);
	return xdr_bytes(xdr, &e->data, &e->bytes, 4 * RPC_SIDE_WORDS - 4);
}

/** What is returned is a copy, because the arguments are freed first. */
static enum weft_rpc_status
serve_echo(void *conn_user, void *args, void *res)
{
	const struct echo *in = args;
	struct echo *out = res;

	(void)conn_user;
	out->data = malloc(in->bytes > 0 ? in->bytes : 1);
	if (out->data == NULL)
		return WEFT_RPC_SYSTEM_ERR;
	memcpy(out->data, in->data, in->bytes);
	out->bytes = in->bytes;
	return WEFT_RPC_OK;
}

static const struct weft_rpc_proc procs[] = {
        {0},
        {.xdr_args = (xdrproc_t)xdr_echo,
         .xdr_res = (xdrproc_t)xdr_echo,
         .args_bytes = sizeof(struct echo),
         .res_bytes = sizeof(struct echo),
         .serve = serve_echo},
};
static const struct weft_rpc_program program = {
        .prog = RPC_SIDE_PROG, .vers = RPC_SIDE_VERS, .procs = procs, .nprocs = 2};
static const struct weft_rpc_program *const programs[] = {&program, NULL};

/** Make an endpoint on its worker; NULL: *rc has the reason. */
static struct endpoint *
endpoint_make(struct weft_worker *w, bool server, int *rc)
{
	struct endpoint *e = calloc(1, sizeof(*e));
	struct weft_qp_attr qa = {.size = sizeof(qa),
	                          .worker = w,
	                          .send_cq = cq,
	                          .recv_cq = cq,
	                          .evq = evq,
	                          .user = e};
	struct weft_rpc_attr ra = {
	        .size = sizeof(ra), .programs = server ? programs : NULL, .server = server};

	*rc = -ENOMEM;
	if (e == NULL)
		return NULL;
	e->worker = w;
	*rc = weft_qp_create(con.pd, &qa, &e->qp);
	ra.qp = e->qp;
	if (*rc == 0)
		*rc = weft_rpc_create(&ra, &e->rpc);
	pthread_mutex_lock(&lock);
	e->next = all;
	all = e;
	pthread_mutex_unlock(&lock);
	if (*rc == 0)
		return e;
	endpoint_end(e);
	return NULL;
}

static void
decide(struct endpoint *e, int rc)
{
	atomic_store_explicit(&e->outcome, rc, memory_order_release);
}

/** A client's connection has ended, or never was. */
static void
client_down(struct endpoint *e, const struct weft_event *ev)
{
	const int rc = ev->status != 0 ? ev->status : -ECONNREFUSED;

	note_add(NOTE_EVENT, NULL, NULL, "rpc %u: %s%s%s", e->n, weft_event_str(ev->type),
	         ev->status != 0 ? ": " : "", ev->status != 0 ? strerror(-ev->status) : "");
	if (atomic_load_explicit(&e->outcome, memory_order_relaxed) == RPC_SIDE_WAITS)
		decide(e, rc);
	weft_rpc_disconnected(e->rpc);
}

static void
on_event(void *user, const struct weft_event *ev)
{
	struct endpoint *e = ev->user;
	int rc;

	(void)user;
	switch (ev->type) {
	case WEFT_EV_CONNECT_REQUEST:
		e = endpoint_make(weft_connreq_worker(ev->connreq), true, &rc);
		if (e == NULL)
			weft_reject(ev->connreq, NULL, 0);
		else if (weft_accept(ev->connreq, e->qp, NULL) != 0)
			endpoint_end(e);
		return;
	case WEFT_EV_ESTABLISHED:
		note_add(NOTE_EVENT, NULL, NULL,
		         e->n > 0 ? "rpc %u: established" : "rpc server: established", e->n);
		decide(e, 0);
		return;
	case WEFT_EV_REJECTED:
	case WEFT_EV_CONNECT_ERROR:
	case WEFT_EV_DISCONNECTED:
		if (e->n > 0)
			client_down(e, ev);
		else
			endpoint_end(e);
		return;
	default:
		return;
	}
}

/** The queues of all endpoints. Under the lock. */
static int
queues(void)
{
	const struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 16384, .on_wc = on_wc};
	const struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = on_event};
	int rc = 0;

	if (cq == NULL)
		rc = weft_cq_create(con.stack.ctx, &ca, &cq);
	if (rc == 0 && evq == NULL)
		rc = weft_evq_create(con.stack.ctx, &ea, &evq);
	return rc;
}

static int
queues_make(void)
{
	int rc;

	pthread_mutex_lock(&lock);
	rc = queues();
	pthread_mutex_unlock(&lock);
	return rc;
}

int
rpc_side_outcome(unsigned int n)
{
	return atomic_load_explicit(&clients[n]->outcome, memory_order_acquire);
}

int
rpc_side_connect(unsigned int n, const struct sockaddr_storage *to)
{
	struct weft_conn_attr ca = {
	        .size = sizeof(ca), .timeout_us = 5000000, .keepalive_us = 5000000};
	struct endpoint *e;
	int rc = queues_make();

	if (rc != 0)
		return rc;
	e = endpoint_make(con.stack.workers[con.rpc_worker[n]], false, &rc);
	if (e == NULL)
		return rc;
	e->n = n;
	decide(e, RPC_SIDE_WAITS);
	clients[n] = e;
	rc = weft_connect(e->qp, (const struct sockaddr *)to, addr_len(to), &ca);
	if (rc != 0)
		endpoint_end(e);
	return rc;
}

static bool_t
xdr_args(XDR *xdr, ...)
{
	struct args *a;
	va_list ap;
	char *text;

	va_start(ap, xdr);
	a = va_arg(ap, struct args *);
	va_end(ap);
	if (a->text != NULL) {
		text = (char *)(uintptr_t)a->text;
		return xdr_string(xdr, &text, VAR_BYTES);
	}
	for (unsigned int i = 0; i < a->nwords; i++) {
		uint32_t w = a->words[i];

		if (!xdr_uint32_t(xdr, &w))
			return FALSE;
	}
	return TRUE;
}

/** Results of any kind: the words up to the end of the reply. */
static bool_t
xdr_words(XDR *xdr, ...)
{
	struct words *r;
	va_list ap;

	va_start(ap, xdr);
	r = va_arg(ap, struct words *);
	va_end(ap);
	if (xdr->x_op != XDR_DECODE)
		return TRUE;
	while (r->n < RPC_SIDE_WORDS && xdr_uint32_t(xdr, &r->w[r->n]))
		r->n++;
	return TRUE;
}

/** The octets of the results that can be printed; the others as points. */
static void
words_text(const struct words *r, char *buf, size_t size)
{
	size_t k = 0;

	for (uint32_t i = 0; i < r->n; i++)
		for (int shift = 24; shift >= 0; shift -= 8) {
			const char c = (char)(r->w[i] >> shift);

			if (k + 1 < size)
				buf[k++] = c >= ' ' && c <= '~' ? c : '.';
		}
	buf[k] = '\0';
}

static void
answered(void *arg, enum weft_rpc_status status, void *res)
{
	const struct words *r = res;
	char hex[8 * 16 + 8] = "", text[VAR_BYTES];
	struct call *c = arg;

	if (status != WEFT_RPC_OK) {
		note_add(NOTE_FAILED, NULL, NULL,
		         "rpc %u: program 0x%x version %u procedure %u: %s", c->n, c->prog, c->vers,
		         c->proc, weft_rpc_status_str(status));
		free(c);
		return;
	}
	for (uint32_t i = 0; i < r->n && i < 16; i++)
		snprintf(hex + strlen(hex), sizeof(hex) - strlen(hex), "%08x", r->w[i]);
	words_text(r, text, sizeof(text));
	note_add(NOTE_DONE, "reply", hex[0] != '\0' ? hex : "void",
	         "rpc %u: program 0x%x version %u procedure %u: %u bytes%s%s%s%s", c->n, c->prog,
	         c->vers, c->proc, 4 * r->n, r->n > 0 ? ": " : "", hex, r->n > 0 ? "  " : "", text);
	free(c);
}

int
rpc_side_call(unsigned int n, const struct rpc_side_call *call)
{
	const struct args a = {.text = call->text, .words = call->words, .nwords = call->nwords};
	struct call *c = malloc(sizeof(*c));
	int rc;

	if (c == NULL)
		return -ENOMEM;
	*c = (struct call){.n = n, .prog = call->prog, .vers = call->vers, .proc = call->proc};
	rc = weft_rpc_call(clients[n]->rpc, call->prog, call->vers, call->proc, (xdrproc_t)xdr_args,
	                   &a, (xdrproc_t)xdr_words, sizeof(struct words), 5000000, answered, c);
	if (rc != 0)
		free(c);
	return rc;
}

void
rpc_side_query(unsigned int n, struct rpc_side_info *info)
{
	const struct weft_rpc_stats *s = weft_rpc_stats(clients[n]->rpc);

	*info = (struct rpc_side_info){.down = true};
	if (s == NULL)
		return;
	info->version = weft_rpc_version(clients[n]->rpc);
	info->down = weft_rpc_is_down(clients[n]->rpc);
	info->calls = s->calls_out;
	info->replies = s->replies_in;
	info->errors = s->errors_in;
	info->credit_stalls = s->credit_stalls;
}

void
rpc_side_disconnect(unsigned int n)
{
	endpoint_end(clients[n]);
}

int
rpc_side_serve(uint16_t port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct weft_listen_attr la = {.size = sizeof(la), .keepalive_us = 5000000};
	int rc = queues_make();

	la.evq = evq;
	if (rc == 0)
		rc = weft_listen(con.stack.ctx, (struct sockaddr *)&sin, sizeof(sin), &la,
		                 &con.listeners[con.nlisteners]);
	if (rc == 0)
		con.nlisteners++;
	serves = serves || rc == 0;
	return rc;
}

bool
rpc_side_serves(void)
{
	return serves;
}

void
rpc_side_count(const struct weft_worker *w, struct rpc_side_served *sum)
{
	pthread_mutex_lock(&lock);
	for (const struct endpoint *e = all; e != NULL; e = e->next)
		/* Those of other workers may end at this moment. */
		if (e->worker == w && e->n == 0 && e->rpc != NULL) {
			sum->connections++;
			count(e, sum);
		}
	pthread_mutex_unlock(&lock);
}

void
rpc_side_count_ended(struct rpc_side_served *sum)
{
	pthread_mutex_lock(&lock);
	sum->calls += ended.calls;
	sum->replies += ended.replies;
	sum->errors += ended.errors;
	pthread_mutex_unlock(&lock);
}

void
rpc_side_end(void)
{
	while (all != NULL) {
		struct endpoint *e = all;

		all = e->next;
		endpoint_end(e);
		free(e);
	}
}
