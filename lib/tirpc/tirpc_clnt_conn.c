/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Connections of the TI-RPC interface's client, on its worker. */

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "tirpc_clnt.h"

#define CLNT_CLOSE_US 1000000 /* time for the server to take part in an orderly close */

void
tirpc_clnt_try_closed(struct clnt *c)
{
	if (c->closing && LIST_EMPTY(&c->conns) && c->ncalls == 0 && c->closed != NULL) {
		struct tirpc_wait *w = c->closed;

		c->closed = NULL;
		tirpc_wait_signal(w);
	}
}

/* ---- The end of one ---- */

/* The QP first: its flushed completions then belong to no endpoint (weft/rpcrdma.h). */
void
tirpc_conn_free(struct clnt_conn *n)
{
	struct clnt *c = n->c;

	if (c->conn == n)
		c->conn = NULL;
	if (n->alarm != NULL)
		weft_alarm_cancel(n->alarm);
	n->alarm = NULL;
	LIST_REMOVE(n, entry);
	if (n->qp != NULL)
		weft_qp_destroy(n->qp);
	if (n->rpc != NULL)
		weft_rpc_destroy(n->rpc);
	free(n);
	tirpc_clnt_try_closed(c);
}

static void
conn_late(void *arg)
{
	struct clnt_conn *n = arg;

	n->alarm = NULL;
	tirpc_conn_free(n);
}

void
tirpc_conn_leave(struct clnt_conn *n)
{
	if (n->c->conn == n)
		n->c->conn = NULL;
	if (n->alarm == NULL &&
	    weft_alarm_set(n->c->w, CLNT_CLOSE_US, conn_late, n, &n->alarm) != 0)
		n->alarm = NULL; /* then only the event of its end frees it */
}

/* A server of version 1 may drop messages that it does not know (draft s4.3.2). Version 1 is
 * tried once. A peer that breaks connections cannot make the client leave version 2, nor its
 * authentication, for a server that was heard in version 2. */
bool
tirpc_conn_falls_back(struct clnt_conn *n)
{
	struct clnt *c = n->c;

	if (n->fell_back)
		return true;
	if (!n->ready || weft_rpc_version(n->rpc) != 0 || n->vers != TIRPC_RDMA_V2 ||
	    c->max_vers != TIRPC_RDMA_V2 || c->a.min_vers == TIRPC_RDMA_V2 || c->speaks_2 ||
	    c->a.auth != NULL)
		return false;
	n->fell_back = true;
	c->max_vers = TIRPC_RDMA_V1;
	return true;
}

/* ---- A new connection ---- */

int
tirpc_conn_make(struct clnt *c)
{
	struct weft_qp_attr qa = tirpc_qp_attr(&c->a);
	struct weft_rpc_attr ra = tirpc_rpc_attr(&c->a);
	struct weft_conn_attr ca = {
	        .size = sizeof(ca),
	        .timeout_us = c->a.connect_timeout_us,
	        .keepalive_us = c->a.keepalive_us,
	};
	struct clnt_conn *n = calloc(1, sizeof(*n));
	int rc;

	if (n == NULL)
		return -ENOMEM;
	n->c = c;
	n->id = ++c->last_id;
	n->vers = c->max_vers;
	LIST_INSERT_HEAD(&c->conns, n, entry);
	c->conn = n;
	qa.worker = c->w;
	qa.send_cq = qa.recv_cq = c->cq;
	qa.evq = c->evq;
	qa.user = (void *)n->id;
	rc = weft_qp_create(c->pd, &qa, &n->qp);
	if (rc == 0) {
		ra.qp = n->qp;
		ra.max_vers = c->max_vers;
		ra.user = c->a.auth_user;
		rc = weft_rpc_create(&ra, &n->rpc);
	}
	if (rc == 0)
		rc = weft_connect(n->qp, (const struct sockaddr *)&c->addr, c->addr_len, &ca);
	if (rc != 0)
		tirpc_conn_free(n);
	return rc;
}

struct clnt_conn *
tirpc_conn_ready(struct clnt *c)
{
	struct clnt_conn *n = c->conn;

	if (n == NULL || !n->ready)
		return NULL;
	n->spent = !weft_rpc_is_down(n->rpc) && weft_rpc_stuck(n->rpc);
	if (!n->spent && !weft_rpc_is_down(n->rpc))
		return n;
	tirpc_conn_leave(n);
	/* An orderly close, so that what was sent arrives. If that fails, the connection is
	 * ending already. */
	if (n->spent)
		(void)weft_disconnect(n->qp);
	return NULL;
}

struct clnt_conn *
tirpc_conn_find(struct clnt *c, const void *user)
{
	struct clnt_conn *n;

	LIST_FOREACH (n, &c->conns, entry)
		if (n->id == (uintptr_t)user)
			return n;
	return NULL;
}
