/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Connections of ids: listen, connect, accept, reject, disconnect. */

#include "ucm_priv.h"

#include "addr.h"
#include "conf.h"
#include "device.h"
#include "engine.h"
#include "portd.h"
#include "qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CONN_BACKLOG    1024 /**< the kernel's default */
#define CONN_STARTUP_US 60000000
/** A process that is killed sends no FIN. Its peer asks after this time without a segment. */
#define CONN_KEEPALIVE_US 5000000

static int
conn_listen_one(struct wv_cm_id *id, const struct sockaddr_storage *at,
                const struct weft_listen_attr *a)
{
	int rc = weft_listen(wv_engine.ctx, (const struct sockaddr *)at, addr_len(at), a,
	                     &id->listeners[id->nlisteners]);

	id->nlisteners += rc == 0;
	return rc;
}

/**
 * The unspecified address is one of both families for weft. For the kernel that of IPv4 is all
 * addresses of IPv4, and that of IPv6 can be so, too: then another id may listen on the same port
 * in the other family.
 */
static int
conn_listen_all(struct wv_cm_id *id, const struct weft_listen_attr *a)
{
	struct sockaddr_storage at[CONF_NETWORKS_MAX + 1];
	uint32_t n = 1;
	bool none = true;
	int rc = 0;

	at[0] = id->src;
	if (cm_addr_one_family(id))
		n = cm_addr_all(id, at, CONF_NETWORKS_MAX);
	id->listeners = calloc(n + 1, sizeof(id->listeners[0]));
	if (id->listeners == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < n && rc == 0; i++) {
		rc = conn_listen_one(id, &at[i], a);
		none = none && rc != 0;
		/* An address that its port does not have any more. */
		if (rc == -EADDRNOTAVAIL && cm_addr_one_family(id))
			rc = 0;
	}
	return rc == 0 && n > 0 && none ? -EADDRNOTAVAIL : rc;
}

int
cm_do_listen(struct cm_chan *chan, const void *cmd, size_t out)
{
	const struct rdma_ucm_listen *c = cmd;
	struct wv_cm_id *id = cm_id_find(chan, c->id);
	struct weft_listen_attr a = {
	        .size = sizeof(a),
	        .evq = wv_engine.evq,
	        .keepalive_us = CONN_KEEPALIVE_US,
	        .startup_timeout_us = CONN_STARTUP_US,
	        .max_requests_per_peer = UINT32_MAX,
	        .max_conns_per_peer = UINT32_MAX,
	};
	int rc = 0;

	(void)out;
	if (id == NULL)
		return -ENOENT;
	if (id->state == CM_NEW)
		rc = cm_bind_any(id, AF_INET);
	if (rc < 0)
		return rc;
	if (id->state != CM_BOUND)
		return -EINVAL;
	a.backlog = c->backlog > 0 && c->backlog < CONN_BACKLOG ? c->backlog : CONN_BACKLOG;
	a.user = id;
	a.dscp = id->dscp;
	id->backlog = a.backlog;
	wv_portd_tell();
	rc = conn_listen_all(id, &a);
	if (rc == 0)
		id->state = CM_LISTEN;
	else
		cm_id_unlisten(id);
	return rc;
}

static void
conn_attr(const struct wv_cm_id *id, const struct rdma_ucm_conn_param *p, struct weft_conn_attr *a)
{
	*a = (struct weft_conn_attr){.size = sizeof(*a),
	                             .keepalive_us = CONN_KEEPALIVE_US,
	                             .dscp = id->dscp,
	                             .ird = WEFT_DEPTH(p->responder_resources),
	                             .ord = WEFT_DEPTH(p->initiator_depth)};
	if (p->private_data_len > 0) {
		a->private_data = p->private_data;
		a->private_data_bytes = p->private_data_len;
	}
}

/** The queue pair of a command, which is in no connection. */
static int
conn_qp(struct wv_cm_id *id, uint32_t num, struct wv_qp **out)
{
	struct wv_qp *q = wv_qp_find(num);

	/* As the kernel, which looks for it at the id's device. */
	if (q == NULL || q->qp == NULL || q->busy || q->id != NULL ||
	    wv_context_number(q->ibv.context) != cm_addr_device(&id->src))
		return -EINVAL;
	q->id = id;
	q->busy = true;
	id->qp = q;
	*out = q;
	return 0;
}

static void
conn_qp_undo(struct wv_cm_id *id)
{
	id->qp->busy = false;
	id->qp->id = NULL;
	id->qp = NULL;
}

/** With weft-portd: -EAGAIN asks for another block of ports, if those of the process are used. */
static int
conn_open(struct weft_qp *qp, const struct sockaddr_storage *to, const struct weft_conn_attr *a)
{
	int rc;

	if (wv_portd_gone())
		return -ENETDOWN;
	wv_portd_tell();
	rc = weft_connect(qp, (const struct sockaddr *)to, addr_len(to), a);
	if (rc == -EADDRNOTAVAIL && !(a->local_port != 0 && !a->local_port_wish) && wv_portd_on() &&
	    wv_portd_more() == -EAGAIN)
		return -EAGAIN;
	return rc;
}

int
cm_do_connect(struct cm_chan *chan, const void *cmd, size_t out)
{
	const struct rdma_ucm_connect *c = cmd;
	struct wv_cm_id *id = cm_id_find(chan, c->id);
	struct weft_conn_attr a;
	struct wv_qp *q;
	int rc;

	(void)out;
	if (id == NULL)
		return -ENOENT;
	if (id->state != CM_ROUTE)
		return -EINVAL;
	rc = conn_qp(id, c->conn_param.qp_num, &q);
	if (rc < 0)
		return rc;
	conn_attr(id, &c->conn_param, &a);
	if (cm_addr_is_ours(&id->src))
		a.local = id->src;
	/* What the program was told when its address was resolved (rdma_get_src_port()). A port
	 * that the program did not choose may be one that TCP still holds for an old connection. */
	a.local_port = cm_addr_port(id);
	a.local_port_wish = !id->named;
	rc = conn_open(q->qp, &id->dst, &a);
	if (rc < 0)
		conn_qp_undo(id);
	else
		id->state = CM_CONNECT;
	return rc;
}

int
cm_do_accept(struct cm_chan *chan, const void *cmd, size_t out)
{
	const struct rdma_ucm_accept *c = cmd;
	struct wv_cm_id *id = cm_id_find(chan, c->id);
	struct weft_connreq *req;
	struct weft_conn_attr a;
	struct wv_qp *q;
	int rc;

	(void)out;
	if (id == NULL)
		return -ENOENT;
	/* rdma_establish(), at the side that connected: nothing is left to do. */
	if (!c->conn_param.valid)
		return id->state == CM_UP ? 0 : -EINVAL;
	if (id->state != CM_REQUESTED)
		return -EINVAL;
	rc = conn_qp(id, c->conn_param.qp_num, &q);
	if (rc < 0)
		return rc;
	conn_attr(id, &c->conn_param, &a);
	req = id->req;
	id->req = NULL;
	id->uid = c->uid;
	rc = weft_accept(req, q->qp, &a);
	if (rc < 0) {
		conn_qp_undo(id);
		id->state = CM_DOWN;
	} else {
		id->state = CM_CONNECT;
	}
	return rc;
}

int
cm_do_reject(struct cm_chan *chan, const void *cmd, size_t out)
{
	const struct rdma_ucm_reject *c = cmd;
	struct wv_cm_id *id = cm_id_find(chan, c->id);

	(void)out;
	if (id == NULL)
		return -ENOENT;
	if (id->state != CM_REQUESTED)
		return -EINVAL;
	weft_reject(id->req, c->private_data_len > 0 ? c->private_data : NULL, c->private_data_len);
	id->req = NULL;
	id->state = CM_DOWN;
	return 0;
}

int
cm_do_disconnect(struct cm_chan *chan, const void *cmd, size_t out)
{
	const struct rdma_ucm_disconnect *c = cmd;
	struct wv_cm_id *id = cm_id_find(chan, c->id);

	(void)out;
	if (id == NULL)
		return -ENOENT;
	if (id->qp != NULL && id->qp->busy)
		return wv_qp_close(id->qp);
	/* It has ended by itself: the event is there already, or now. */
	cm_late_tell(id);
	return id->state == CM_DOWN ? 0 : -EINVAL;
}
