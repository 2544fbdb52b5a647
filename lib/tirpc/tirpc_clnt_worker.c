/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The TI-RPC interface's client on its worker: queues, events, completions and the close. */

#include <errno.h>

#include "tirpc_clnt.h"

static void
clnt_on_event(void *user, const struct weft_event *ev)
{
	struct clnt *c = user;
	struct clnt_conn *n = tirpc_conn_find(c, ev->user);

	if (n == NULL)
		return;
	switch (ev->type) {
	case WEFT_EV_ESTABLISHED:
		n->ready = true;
		tirpc_calls_go_on(c);
		return;
	case WEFT_EV_REJECTED:
		tirpc_conn_free(n);
		tirpc_calls_fail(c, RPC_SYSTEMERROR, ECONNREFUSED);
		return;
	case WEFT_EV_CONNECT_ERROR:
		tirpc_conn_free(n);
		tirpc_calls_fail(c, ev->status == -ETIMEDOUT ? RPC_TIMEDOUT : RPC_SYSTEMERROR,
		                 -ev->status);
		return;
	case WEFT_EV_DISCONNECTED:
		tirpc_conn_free(n);
		tirpc_calls_go_on(c);
		return;
	default:
		return;
	}
}

static void
clnt_on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int nwc)
{
	struct clnt *c = user;

	(void)cq;
	for (unsigned int i = 0; i < nwc; i++) {
		struct clnt_conn *n = tirpc_conn_find(c, wc[i].qp_user);

		/* A completion of a connection that is gone has no endpoint. */
		if (n != NULL)
			(void)weft_rpc_wc(n->rpc, &wc[i]);
		if (n != NULL && weft_rpc_version(n->rpc) == TIRPC_RDMA_V2)
			c->speaks_2 = true;
	}
	(void)tirpc_conn_ready(c);
	if (!TAILQ_EMPTY(&c->waiting))
		tirpc_calls_go_on(c);
	tirpc_clnt_try_closed(c);
}

int
tirpc_clnt_make(struct clnt *c)
{
	const struct weft_cq_attr qa = {
	        .size = sizeof(qa), .depth = 2048, .on_wc = clnt_on_wc, .user = c};
	const struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = clnt_on_event, .user = c};
	int rc = weft_pd_alloc(c->ctx, &c->pd);

	if (rc == 0)
		rc = weft_cq_create(c->ctx, &qa, &c->cq);
	if (rc == 0)
		rc = weft_evq_create(c->ctx, &ea, &c->evq);
	return rc;
}

/* An orderly close, so that the server gets what was sent, and no reset. */
void
tirpc_clnt_close(void *arg)
{
	struct clnt *c = arg;
	struct clnt_conn *n, *next;

	c->closing = true;
	tirpc_calls_fail(c, RPC_CANTSEND, ESHUTDOWN);
	for (n = LIST_FIRST(&c->conns); n != NULL; n = next) {
		next = LIST_NEXT(n, entry);
		if (n->alarm != NULL)
			continue; /* already closing */
		if (!n->ready || weft_disconnect(n->qp) != 0) {
			tirpc_conn_free(n);
			continue;
		}
		tirpc_conn_leave(n);
		if (n->alarm == NULL)
			tirpc_conn_free(n);
	}
	tirpc_clnt_try_closed(c);
}
