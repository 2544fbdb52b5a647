/* SPDX-License-Identifier: BSD-3-Clause */
/** @file One connection of a volume with a link: its QP, its endpoint and their queues. */

#include <errno.h>
#include <stdlib.h>

#include "volcall_link.h"

#define CONN_END_US   1000 /* for the completions of what was posted */
#define CONN_CQ_DEPTH 4096
#define CONN_CREDITS  64
#define CONN_SQ_DEPTH 512

static void
conn_on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	struct volcall_conn *c = user;
	const struct weft_volume_link *a = &c->v->link->attr;

	(void)cq;
	c->entered++;
	for (unsigned int i = 0; i < n; i++)
		if (!weft_rpc_wc(c->rpc, &wc[i]) && a->on_wc != NULL)
			a->on_wc(a->user, &wc[i]);
	c->entered--;
}

static void
conn_on_event(void *user, const struct weft_event *ev)
{
	struct volcall_conn *c = user;
	struct weft_volume *v = c->v;

	if (v->link->conn != c)
		return;
	c->entered++;
	switch (ev->type) {
	case WEFT_EV_ESTABLISHED:
		v->link_ops->stands(v);
		volcall_go_on(v);
		break;
	case WEFT_EV_REJECTED:
	case WEFT_EV_CONNECT_ERROR:
	case WEFT_EV_DISCONNECTED:
	case WEFT_EV_CQ_OVERRUN:
		volcall_why(v->link->why, ev->type == WEFT_EV_REJECTED ? "the target refuses"
		                          : ev->type == WEFT_EV_CONNECT_ERROR
		                                  ? "the target is not reached"
		                                  : "connection lost");
		volcall_lost(v);
		/* The answers that are told now go on with the volume. */
		v->entered++;
		weft_rpc_disconnected(c->rpc);
		v->entered--;
		volcall_go_on(v);
		break;
	default:
		break;
	}
	c->entered--;
}

static void conn_on_end(void *arg);

/* Free what is left when nothing comes any more. */
static void
conn_free(struct volcall_conn *c)
{
	if (c->rpc != NULL)
		weft_rpc_destroy(c->rpc);
	if (c->cq != NULL)
		(void)weft_cq_destroy(c->cq);
	if (c->evq != NULL)
		(void)weft_evq_destroy(c->evq);
	c->v->link->conns--;
	free(c);
}

static void
conn_on_end(void *arg)
{
	struct volcall_conn *c = arg;
	struct weft_volume *v = c->v;

	c->alarm = NULL;
	/* The owner polls the worker in a callback of the queues. */
	if (c->entered > 0 &&
	    weft_alarm_set(v->worker, CONN_END_US, conn_on_end, c, &c->alarm) == 0)
		return;
	conn_free(c);
	volcall_go_on(v);
}

static int
conn_queues(struct volcall_conn *c, const struct weft_volume_link *a)
{
	const struct weft_cq_attr ca = {
	        .size = sizeof(ca), .depth = CONN_CQ_DEPTH, .on_wc = conn_on_wc, .user = c};
	const struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = conn_on_event, .user = c};
	int rc = weft_cq_create(a->ctx, &ca, &c->cq);

	return rc != 0 ? rc : weft_evq_create(a->ctx, &ea, &c->evq);
}

static int
conn_make(struct volcall_conn *c, struct volcall_link *l)
{
	static const struct weft_rpc_program *const programs[] = {&weft_volume_revokes, NULL};
	struct weft_qp_attr qa = {
	        .size = sizeof(qa), .sq_depth = CONN_SQ_DEPTH, .rq_depth = 2 * CONN_CREDITS};
	struct weft_rpc_attr ra = {.size = sizeof(ra),
	                           .inline_bytes = WEFT_VOLUME_INLINE_BYTES,
	                           .credits = CONN_CREDITS,
	                           .programs = programs,
	                           .reverse = WEFT_RPC_REVERSE_SIMPLE};
	int rc = conn_queues(c, &l->attr);

	if (rc == 0 && l->attr.prepare != NULL)
		rc = l->attr.prepare(l->attr.user, &qa, &ra);
	if (rc != 0)
		return rc;
	qa.worker = c->v->worker;
	qa.send_cq = qa.recv_cq = c->cq;
	qa.evq = c->evq;
	qa.user = c;
	rc = weft_qp_create(l->attr.pd, &qa, &c->qp);
	ra.qp = c->qp;
	return rc != 0 ? rc : weft_rpc_create(&ra, &c->rpc);
}

int
volcall_conn_begin(struct weft_volume *v, uint64_t connect_us)
{
	struct volcall_link *l = v->link;
	const struct weft_conn_attr na = {.size = sizeof(na),
	                                  .timeout_us = (uint32_t)connect_us,
	                                  .keepalive_us = l->attr.keepalive_us};
	struct volcall_conn *c = calloc(1, sizeof(*c));
	int rc;

	if (c == NULL)
		return -ENOMEM;
	c->v = v;
	l->conns++;
	rc = conn_make(c, l);
	if (rc == 0)
		rc = weft_connect(c->qp, (const struct sockaddr *)&l->to, l->attr.to_bytes, &na);
	l->conn = c;
	if (rc != 0)
		volcall_conn_end(l);
	else
		volcall_endpoint(v, c->rpc);
	return rc;
}

void
volcall_conn_end(struct volcall_link *l)
{
	struct volcall_conn *c = l->conn;

	if (c == NULL)
		return;
	l->conn = NULL;
	volcall_endpoint(c->v, NULL);
	if (c->rpc != NULL)
		weft_rpc_disconnected(c->rpc);
	if (c->qp != NULL)
		weft_qp_destroy(c->qp);
	c->qp = NULL;
	/* Without memory for the alarm the owner misses completions of what it has posted. */
	if (weft_alarm_set(c->v->worker, CONN_END_US, conn_on_end, c, &c->alarm) != 0)
		conn_free(c);
}
