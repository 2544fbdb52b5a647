/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Makes a QP for weft_log_join() from a target's address and an export's name. */

#include "log_client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "addr.h"
#include "connect_why.h"
#include "export_proto.h"
#include "log_ticket.h"
#include "ui.h"
#include <weft/rpcrdma.h>

#define CLIENT_CQ_DEPTH   1024
#define CLIENT_RPC_DEPTH  32
#define CLIENT_CONNECT_US 10000000
#define CLIENT_RETRY_US   50000 /* between two OPENs while another client has the writer's place */
#define CLIENT_LIMBO_US   50000 /* longer than any completion is late */
#define CLIENT_KEEP_US    2000000
#define NS_PER_US         1000ULL

struct log_client {
	struct log_client_attr a;
	char export_name[WEFT_NAME_MAX + 1];
	char where[ADDR_STR_MAX];
	struct host_auth auth;
	struct weft_qp *ctl;
	struct weft_rpc *rpc;
	struct weft_qp *qp;     /* the log connection, until it is handed over */
	struct weft_qp *theirs; /* the log connection after it was handed over */
	struct weft_alarm *again;
	struct weft_alarm *done; /* closes the RPC connection, or frees the client */
	uint8_t octets[LOG_TICKET_BYTES];
	uint64_t wait_end_ns;
	int status; /* status for over() */
	bool told, dead;
	char why[256];
};

/* ---- The end ---- */

static void
client_free(void *arg)
{
	free(arg);
}

/** Close the RPC connection. Not from inside a call's answer. */
static void
client_hang_up(struct log_client *c)
{
	if (c->rpc != NULL)
		weft_rpc_disconnected(c->rpc);
	if (c->ctl != NULL)
		weft_qp_destroy(c->ctl);
	if (c->rpc != NULL)
		weft_rpc_destroy(c->rpc);
	c->ctl = NULL;
	c->rpc = NULL;
}

static void
client_done(void *arg)
{
	struct log_client *c = arg;

	c->done = NULL;
	client_hang_up(c);
	if (c->status == 0 || c->told)
		return;
	c->told = true;
	if (c->qp != NULL)
		weft_qp_destroy(c->qp);
	c->qp = NULL;
	c->a.over(c->a.user, c->status, c->why);
}

/** Close the RPC connection soon, because the caller may be inside the endpoint. */
static void
client_later(struct log_client *c)
{
	if (c->done == NULL)
		(void)weft_alarm_set(c->a.hub->worker, 0, client_done, c, &c->done);
}

static void __attribute__((format(printf, 3, 4)))
client_over(struct log_client *c, int status, const char *fmt, ...)
{
	va_list ap;
	size_t n;

	if (c->status != 0 || c->dead)
		return; /* the first one is the cause */
	c->status = status;
	n = (size_t)snprintf(c->why, sizeof(c->why), "%s: ", c->where);
	va_start(ap, fmt);
	vsnprintf(c->why + n, sizeof(c->why) - n, fmt, ap);
	va_end(ap);
	if (c->again != NULL)
		weft_alarm_cancel(c->again);
	c->again = NULL;
	client_later(c);
}

void
log_client_end(struct log_client *c)
{
	if (c == NULL || c->dead)
		return;
	c->dead = c->told = true;
	if (c->again != NULL)
		weft_alarm_cancel(c->again);
	if (c->done != NULL)
		weft_alarm_cancel(c->done);
	c->again = c->done = NULL;
	client_hang_up(c);
	if (c->qp != NULL)
		weft_qp_destroy(c->qp);
	c->qp = NULL;
	explicit_bzero(c->octets, sizeof(c->octets));
	if (weft_alarm_set(c->a.hub->worker, CLIENT_LIMBO_US, client_free, c, &c->done) != 0)
		c->done = NULL; /* only the memory is lost */
}

/* ---- The ticket ---- */

static void client_ask(struct log_client *c);

static void
client_again(void *arg)
{
	struct log_client *c = arg;

	c->again = NULL;
	client_ask(c);
}

/** Whether there is time to ask again for the writer's place, which another client has. */
static bool
client_waits(struct log_client *c)
{
	return c->rpc != NULL && ui_now_ns() < c->wait_end_ns &&
	       weft_alarm_set(c->a.hub->worker, CLIENT_RETRY_US, client_again, c, &c->again) == 0;
}

/** Open the log connection with the ticket. */
static void
client_connect(struct log_client *c)
{
	struct weft_qp_attr qa = {.size = sizeof(qa)};
	struct log_ticket_ask ask = {0};
	uint8_t octets[LOG_TICKET_ASK_BYTES];
	const struct weft_conn_attr ca = {
	        .size = sizeof(ca),
	        .private_data = octets,
	        .private_data_bytes = sizeof(octets),
	        .timeout_us = (uint32_t)c->a.connect_us,
	        .keepalive_us = CLIENT_KEEP_US,
	};
	int rc = 0;

	memcpy(ask.ticket, c->octets, sizeof(ask.ticket));
	if (c->a.auth_keys != NULL)
		rc = log_ticket_proof(c->a.auth_keys, c->auth.name, &c->auth.place, ask.ticket,
		                      ask.proof);
	log_ticket_ask_encode(&ask, octets);
	weft_log_qp_attr(c->a.log, &qa);
	qa.evq = c->a.hub->evq;
	qa.user = c;
	if (rc == 0)
		rc = weft_qp_create(c->a.pd, &qa, &c->qp);
	if (rc == 0)
		rc = weft_connect(c->qp, (struct sockaddr *)&c->a.to, addr_len(&c->a.to), &ca);
	explicit_bzero(octets, sizeof(octets));
	if (rc != 0)
		client_over(c, rc, "no connection for the log: %s", strerror(-rc));
}

static void
on_open(void *arg, enum weft_rpc_status status, void *vres)
{
	struct log_client *c = arg;
	const weft_export_log_res *res = vres;

	if (c->dead || c->status != 0)
		return;
	if (status != WEFT_RPC_OK) {
		if (weft_rpc_stats(c->rpc)->auth_refused > 0)
			client_over(c, -EACCES, "host authentication as %s failed", c->auth.name);
		else
			client_over(c, status == WEFT_RPC_CONNLOST ? -ENOTCONN : -EPROTO,
			            "OPEN_LOG: %s%s", weft_rpc_status_str(status),
			            c->a.auth_keys == NULL && status != WEFT_RPC_CONNLOST
			                    ? " (does the target want to know who we are?)"
			                    : "");
		return;
	}
	if (res->status == WEFT_EXPORT_OK) {
		memcpy(c->octets, res->weft_export_log_res_u.ticket.ticket, sizeof(c->octets));
		client_connect(c);
		return;
	}
	if (res->status == WEFT_EXPORT_BUSY && client_waits(c))
		return;
	client_over(c,
	            res->status == WEFT_EXPORT_NOENT     ? -ENOENT
	            : res->status == WEFT_EXPORT_BUSY    ? -EBUSY
	            : res->status == WEFT_EXPORT_PERM    ? -EPERM
	            : res->status == WEFT_EXPORT_INVAL   ? -EINVAL
	            : res->status == WEFT_EXPORT_OFFLINE ? -ENXIO
	                                                 : -EIO,
	            "log %s: %s", c->export_name, res->weft_export_log_res_u.why);
}

static void
client_ask(struct log_client *c)
{
	weft_export_log_args args = {.name = c->export_name, .rights = c->a.rights};
	int rc = weft_rpc_call(c->rpc, WEFT_EXPORT_PROG, WEFT_EXPORT_V1, WEFT_EXPORT_OPEN_LOG,
	                       (xdrproc_t)xdr_weft_export_log_args, &args,
	                       (xdrproc_t)xdr_weft_export_log_res, sizeof(weft_export_log_res),
	                       c->a.connect_us, on_open, c);

	if (rc != 0)
		client_over(c, rc, "OPEN_LOG: %s", strerror(-rc));
}

/* ---- Events ---- */

static void
client_granted(struct log_client *c, const struct weft_event *ev)
{
	struct weft_log_target t = {.size = sizeof(t), .qp = c->qp};
	struct log_ticket_reply r;
	int rc = log_ticket_reply_decode(ev->private_data, ev->private_data_bytes, &r);

	if (rc != 0 || r.status != 0) {
		client_over(c, -EPROTO, "the target's reply says nothing of a log");
		return;
	}
	t.stag = r.stag;
	t.to = r.to;
	t.len_bytes = r.len_bytes;
	c->theirs = c->qp;
	c->qp = NULL;
	client_later(c); /* closes the RPC connection */
	c->a.ready(c->a.user, &t);
}

static void
client_rejected(struct log_client *c, const struct weft_event *ev)
{
	struct log_ticket_reply r = {0};
	int rc = log_ticket_reply_decode(ev->private_data, ev->private_data_bytes, &r);

	weft_qp_destroy(c->qp);
	c->qp = NULL;
	/* Another client was faster, or the ticket has expired. */
	if (rc == 0 && (r.status == WEFT_EXPORT_BUSY || r.status == WEFT_EXPORT_STALE) &&
	    client_waits(c))
		return;
	if (rc != 0)
		client_over(c, -ECONNREFUSED, "the connection for the log was rejected");
	else if (r.status == WEFT_EXPORT_BUSY)
		client_over(c, -EBUSY, "log %s: another writer was faster", c->export_name);
	else if (r.status == WEFT_EXPORT_STALE)
		client_over(c, -EACCES, "log %s: the target does not take the ticket",
		            c->export_name);
	else
		client_over(c, -EIO, "log %s: not granted (%u)", c->export_name, r.status);
}

static void
on_log_event(struct log_client *c, const struct weft_event *ev)
{
	switch (ev->type) {
	case WEFT_EV_ESTABLISHED:
		client_granted(c, ev);
		break;
	case WEFT_EV_REJECTED:
		client_rejected(c, ev);
		break;
	case WEFT_EV_CONNECT_ERROR:
	case WEFT_EV_DISCONNECTED:
		client_over(c, ev->status != 0 ? ev->status : -ENOTCONN,
		            "the connection of log %s has ended%s%s", c->export_name,
		            ev->status != 0 ? ": " : "",
		            ev->status != 0 ? strerror(-ev->status) : "");
		break;
	default:
		break;
	}
}

static void
client_no_connection(struct log_client *c, int rc)
{
	static const struct connect_ask ask = {.server = "weft-target",
	                                       .there = "the address and the port",
	                                       .here = "dev and address"};
	char why[256];

	client_over(c, rc, "no connection: %s", connect_why(&ask, NULL, rc, why, sizeof(why)));
}

static void
on_event(void *user, const struct weft_event *ev)
{
	struct log_client *c = ev->user;

	(void)user;
	if (c == NULL || c->dead)
		return;
	if (ev->qp == c->qp || ev->qp == c->theirs) {
		on_log_event(c, ev);
		return;
	}
	switch (ev->type) {
	case WEFT_EV_ESTABLISHED:
		client_ask(c);
		break;
	case WEFT_EV_REJECTED:
		client_over(c, -ECONNREFUSED, "the target refuses connections now");
		break;
	case WEFT_EV_CONNECT_ERROR:
	case WEFT_EV_DISCONNECTED:
		if (c->rpc != NULL)
			weft_rpc_disconnected(c->rpc);
		if (c->theirs == NULL)
			client_no_connection(c, ev->status != 0 ? ev->status : -ENOTCONN);
		break;
	default:
		break;
	}
}

static void
on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	(void)user;
	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		struct log_client *c = wc[i].qp_user;

		if (c->rpc != NULL)
			(void)weft_rpc_wc(c->rpc, &wc[i]);
	}
}

/* ---- The beginning ---- */

int
log_hub_up(struct log_hub *hub, struct weft_ctx *ctx, struct weft_worker *worker)
{
	const struct weft_cq_attr ca = {
	        .size = sizeof(ca), .depth = CLIENT_CQ_DEPTH, .on_wc = on_wc};
	const struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = on_event};
	int rc;

	hub->worker = worker;
	rc = weft_pd_alloc(ctx, &hub->pd);
	if (rc == 0)
		rc = weft_cq_create(ctx, &ca, &hub->cq);
	if (rc == 0)
		rc = weft_evq_create(ctx, &ea, &hub->evq);
	return rc;
}

void
log_hub_down(struct log_hub *hub)
{
	const uint64_t end = ui_now_ns() + 2 * CLIENT_LIMBO_US * NS_PER_US;

	if (hub->worker == NULL)
		return;
	/* Free the ended clients, and deliver flushed completions. */
	while (ui_now_ns() < end)
		if (weft_worker_poll(hub->worker) == 0)
			weft_worker_idle(hub->worker, 1000);
	if (hub->cq != NULL)
		(void)weft_cq_destroy(hub->cq);
	if (hub->evq != NULL)
		(void)weft_evq_destroy(hub->evq);
	if (hub->pd != NULL)
		(void)weft_pd_dealloc(hub->pd);
	*hub = (struct log_hub){0};
}

static int
auth_step(void *conn_user, const uint8_t *in, uint32_t in_bytes, uint8_t *out, uint32_t *out_bytes)
{
	struct log_client *c = conn_user;

	return host_auth_step(&c->auth, in, in_bytes, out, WEFT_RPC_AUTH_MAX_BYTES, out_bytes);
}

int
log_client_start(const struct log_client_attr *attr, struct log_client **out)
{
	static const struct weft_rpc_auth auth = {.step = auth_step, .required = true};
	struct log_client *c = calloc(1, sizeof(*c));
	const struct log_hub *hub = attr->hub;
	const struct weft_qp_attr qa = {
	        .size = sizeof(qa),
	        .worker = hub->worker,
	        .send_cq = hub->cq,
	        .recv_cq = hub->cq,
	        .evq = hub->evq,
	        .sq_depth = CLIENT_RPC_DEPTH,
	        .rq_depth = CLIENT_RPC_DEPTH,
	        .user = c,
	};
	struct weft_rpc_attr ra = {.size = sizeof(ra), .user = c};
	struct weft_conn_attr ca = {.size = sizeof(ca)};
	int rc;

	if (c == NULL)
		return -ENOMEM;
	if (strlen(attr->export_name) > WEFT_NAME_MAX ||
	    (attr->auth_name != NULL && strlen(attr->auth_name) > HOST_AUTH_NAME_MAX)) {
		free(c);
		return -EINVAL;
	}
	c->a = *attr;
	if (c->a.connect_us == 0)
		c->a.connect_us = CLIENT_CONNECT_US;
	if (c->a.rights == 0)
		c->a.rights = WEFT_EXPORT_READ | WEFT_EXPORT_WRITE | WEFT_EXPORT_FLUSH;
	c->wait_end_ns = ui_now_ns() + attr->wait_us * NS_PER_US;
	strcpy(c->export_name, attr->export_name);
	addr_str(&attr->to, c->where);
	if (attr->auth_name != NULL) {
		c->auth.keys = attr->auth_keys;
		strcpy(c->auth.name, attr->auth_name);
		(void)host_auth_place(&attr->to, &c->auth.place);
		ra.auth = &auth;
	} else {
		c->a.auth_keys = NULL;
	}
	rc = weft_qp_create(hub->pd, &qa, &c->ctl);
	if (rc == 0) {
		ra.qp = c->ctl;
		rc = weft_rpc_create(&ra, &c->rpc);
	}
	ca.timeout_us = (uint32_t)c->a.connect_us;
	if (rc == 0)
		rc = weft_connect(c->ctl, (struct sockaddr *)&attr->to, addr_len(&attr->to), &ca);
	if (rc != 0) {
		log_client_end(c);
		return rc;
	}
	*out = c;
	return 0;
}
