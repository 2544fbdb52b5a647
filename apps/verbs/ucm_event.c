/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Events of connection management: weft's, as the kernel would tell them. */

#include "ucm_priv.h"

#include "api.h"
#include "engine.h"
#include "qp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

int
cm_do_get_event(struct cm_chan *chan, const void *cmd, size_t out)
{
	const struct rdma_ucm_get_event *c = cmd;
	struct wv_fdq_node *n;
	struct cm_event *ev;
	bool again = false;

	for (;;) {
		int flags, rc;

		pthread_mutex_lock(&cm_lock);
		n = wv_fdq_take(&chan->q);
		if (n != NULL)
			break;
		pthread_mutex_unlock(&cm_lock);
		flags = fcntl(chan->q.fd, F_GETFL);
		if (flags >= 0 && (flags & O_NONBLOCK) != 0) {
			if (again)
				return -EAGAIN;
			wv_progress();
			again = true;
			continue;
		}
		/* The thread may be cancelled. */
		rc = wv_fdq_sleep(&chan->q);
		if (rc < 0)
			return rc;
	}
	ev = wv_container_of(n, struct cm_event, node);
	ev->id->reported++;
	/* From now on the new id is the program's. */
	pthread_mutex_unlock(&cm_lock);
	memcpy((void *)(uintptr_t)c->response, &ev->resp,
	       out < sizeof(ev->resp) ? out : sizeof(ev->resp));
	free(ev);
	return 0;
}

/* ---- Weft's events ---- */

static uint8_t
event_depth(uint16_t n)
{
	return n < UINT8_MAX ? (uint8_t)n : UINT8_MAX;
}

/** The peer's depths from this side: what it may have outstanding here are our resources. */
static void
event_param(struct cm_event *ev, const struct weft_event *w)
{
	struct rdma_ucm_conn_param *p = &ev->resp.param.conn;
	size_t n = w->private_data_bytes;

	if (n > UINT8_MAX)
		n = UINT8_MAX;
	p->private_data_len = (uint8_t)n;
	memcpy(p->private_data, w->private_data, n);
	p->responder_resources = event_depth(w->ord);
	p->initiator_depth = event_depth(w->ird);
	p->valid = 1;
}

void
wv_ucm_request(struct wv_cm_id *listener, const struct weft_event *w)
{
	struct wv_cm_id *id;
	struct cm_event *ev = NULL;

	pthread_mutex_lock(&cm_lock);
	id = cm_id_new(listener->chan, listener->ps);
	if (id != NULL) {
		ev = cm_event_new(listener, CM_EV_CONNECT_REQUEST, 0);
		if (ev == NULL)
			cm_id_destroy(id);
	}
	if (ev == NULL) {
		weft_reject(w->connreq, NULL, 0);
	} else {
		id->state = CM_REQUESTED;
		id->accepted = true;
		id->req = w->connreq;
		id->src = w->local;
		id->dst = w->remote;
		id->device = true;
		id->dscp = listener->dscp;
		event_param(ev, w);
		ev->new = id;
		ev->resp.id = id->id;
		cm_event_put(ev);
	}
	pthread_mutex_unlock(&cm_lock);
}

void
wv_ucm_established(struct wv_cm_id *id, const struct weft_event *w)
{
	struct cm_event *ev;

	pthread_mutex_lock(&cm_lock);
	id->state = CM_UP;
	ev = cm_event_new(id, CM_EV_ESTABLISHED, 0);
	if (ev != NULL)
		event_param(ev, w);
	cm_event_put(ev);
	pthread_mutex_unlock(&cm_lock);
}

void
wv_ucm_failed(struct wv_cm_id *id, const struct weft_event *w)
{
	enum cm_type type = CM_EV_CONNECT_ERROR;
	struct cm_event *ev;

	/* As the kernel's cma_iw_handler(): a RST is a rejection, too. */
	if (w->type == WEFT_EV_REJECTED || w->status == -ECONNREFUSED || w->status == -ECONNRESET)
		type = CM_EV_REJECTED;
	else if (w->status == -ETIMEDOUT)
		type = CM_EV_UNREACHABLE;
	pthread_mutex_lock(&cm_lock);
	id->state = CM_DOWN;
	ev = cm_event_new(id, type, w->status);
	if (ev != NULL)
		event_param(ev, w);
	cm_event_put(ev);
	pthread_mutex_unlock(&cm_lock);
}

void
wv_ucm_disconnected(struct wv_cm_id *id)
{
	pthread_mutex_lock(&cm_lock);
	if (id->state == CM_UP) {
		id->state = CM_DOWN;
		cm_late_put(id, cm_event_new(id, CM_EV_DISCONNECTED, 0));
	}
	pthread_mutex_unlock(&cm_lock);
}

static bool
event_removal(const struct wv_cm_id *id, const void *arg)
{
	struct wv_cm_id *to = (struct wv_cm_id *)(uintptr_t)id;

	/* Of an id that listens on any address only the part of this device is gone. */
	if (id->device && cm_addr_device(&id->src) == *(const unsigned int *)arg)
		cm_event_put(cm_event_new(to, CM_EV_DEVICE_REMOVAL, 0));
	return false;
}

void
wv_ucm_device_removed(unsigned int number)
{
	pthread_mutex_lock(&cm_lock);
	(void)cm_id_each(event_removal, &number);
	pthread_mutex_unlock(&cm_lock);
}

void
wv_ucm_qp_gone(struct wv_cm_id *id)
{
	pthread_mutex_lock(&cm_lock);
	cm_late_tell(id);
	if (id->state == CM_UP)
		cm_event_put(cm_event_new(id, CM_EV_DISCONNECTED, 0));
	else if (id->state == CM_CONNECT)
		cm_event_put(cm_event_new(id, CM_EV_CONNECT_ERROR, -ECONNABORTED));
	if (id->state == CM_UP || id->state == CM_CONNECT)
		id->state = CM_DOWN;
	if (id->qp != NULL)
		id->qp->id = NULL;
	id->qp = NULL;
	pthread_mutex_unlock(&cm_lock);
}
