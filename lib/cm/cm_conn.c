/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Connections: what both sides do when one is established, is closed, or ends. */

#include <stdlib.h>

#include "cm_conn.h"

WEFT_LOG_REGISTER(cm);

#define CM_KEEPALIVE_PROBES 3
/** Keepalive while disconnecting: posted work must complete even if the peer is gone. */
#define CM_CLOSE_KEEPALIVE_US 10000000

void
cm_tcp_keepalive(struct weft_tcp_conn *c, uint32_t idle_us)
{
	if (idle_us != 0)
		weft_tcp_keepalive(c, idle_us, RTE_MAX(idle_us / CM_KEEPALIVE_PROBES, 1u),
		                   CM_KEEPALIVE_PROBES);
}

void
cm_conn_keepalive(struct weft_cm_conn *c, uint32_t idle_us)
{
	if (idle_us == 0)
		return;
	c->keepalive = true;
	cm_tcp_keepalive(c->tcp, idle_us);
}

void
cm_conn_snap(struct weft_qp *qp)
{
	const struct weft_ddp *ddp = weft_rdmap_ddp(qp->rdmap);
	struct verbs_snap *s = &qp->snap;
	struct weft_tcp_info ti;

	/* The addresses stay after the connection is gone. */
	if (qp->conn->tcp == NULL)
		return;
	weft_tcp_info(qp->conn->tcp, &ti);
	s->local = ti.local;
	s->remote = ti.remote;
	s->local_port = ti.local_port;
	s->remote_port = ti.remote_port;
	s->named = true;
	s->retrans_segs = ti.retrans_segs;
	s->srtt_us = ti.srtt_us;
	s->unacked_bytes = ti.queued_bytes;
	s->mulpdu_bytes = cm_mpa(qp)->mulpdu_bytes;
	for (unsigned int i = 0; i < WEFT_DDP_QUEUES; i++)
		s->ddp[i] =
		        (struct weft_ddp_queue_info){ddp->tx_msn[i], ddp->rx_msn[i], ddp->rx_mo[i]};
}
static_assert(WEFT_DDP_QUEUES == WEFT_DDP_NQN, "a query reports each queue");

void
cm_conn_forget_open(struct weft_qp *qp)
{
	struct weft_cm_conn *c = qp->conn;

	if (c->connect == NULL)
		return;
	weft_timer_cancel(&qp->vw->sched.wheel, &c->connect->timer);
	free(c->connect);
	c->connect = NULL;
	/* MPA has not taken over the connection yet, so it is reset here. */
	if (c->tcp != NULL && cm_mpa(qp)->tcp == NULL)
		weft_tcp_abort(c->tcp, qp->vw->sched.now_ns);
	c->tcp = NULL;
}

static void
cm_ev_peer(struct weft_qp *qp, struct weft_evnode *n, const struct weft_mpa_frame *peer)
{
	n->qp = qp;
	if (n->brief) {
		n->remote = qp->snap.remote;
		n->remote_port = qp->snap.named ? qp->snap.remote_port : 0;
		return;
	}
	verbs_ev_full(n)->user = qp->user;
	if (qp->snap.named)
		weft_ip_to_sockaddr(&qp->snap.remote, qp->snap.remote_port,
		                    &verbs_ev_full(n)->remote);
	if (peer == NULL)
		return;
	verbs_ev_full(n)->ird = peer->enhanced ? peer->ird : 0;
	verbs_ev_full(n)->ord = peer->enhanced ? peer->ord : 0;
	verbs_ev_full(n)->private_data_bytes = peer->pdata_len_bytes;
	memcpy(verbs_ev_full(n)->private_data, peer->pdata, peer->pdata_len_bytes);
}

static_assert(sizeof(((struct weft_event *)0)->private_data) == WEFT_MPA_MAX_PDATA,
              "private data of revision 1 fits an event");

/**
 * Store what was agreed, and with whom, for events and queries, while the connection can be asked.
 */
static void
cm_note_agreed(struct weft_qp *qp, uint16_t ird, uint16_t ord)
{
	const struct weft_mpa *m = cm_mpa(qp);

	pthread_mutex_lock(&qp->vw->ctx->lock);
	cm_conn_snap(qp);
	if (qp->vw->cm->peers != NULL)
		weft_rdmap_lane(qp->rdmap, weft_lane_of(&qp->vw->cm->lanes, &qp->snap.remote));
	qp->snap.ird = ird;
	qp->snap.ord = ord;
	qp->snap.mpa = (struct weft_mpa_info){.rev = m->rev,
	                                      .p2p = m->p2p,
	                                      .rtr = m->rtr,
	                                      .crc = m->crc,
	                                      .rx_markers = m->rx_markers,
	                                      .tx_markers = m->tx_markers};
	pthread_mutex_unlock(&qp->vw->ctx->lock);
}

void
cm_conn_up(struct weft_qp *qp, uint16_t ird, uint16_t ord, const struct weft_mpa_frame *peer)
{
	struct weft_evnode *n = weft_verbs_ev_new();

	cm_note_agreed(qp, ird, ord);
	qp->vw->stats.conns_total++;
	if (n == NULL) {
		/*
		 * Without the event the consumer would wait forever. RFC 6581 s9.3: a local error
		 * without a code of its own.
		 */
		const struct weft_term t = {WEFT_TERM_LAYER_LLP, 0, WEFT_MPA_ERR_LOCAL};

		WEFT_LOG_PEER(cm, ERR, "no memory for an event: connection dropped");
		weft_rdmap_start(qp->rdmap, ird, ord);
		weft_rdmap_terminate(qp->rdmap, &t, qp->vw->sched.now_ns);
		return;
	}
	verbs_cm_set(qp, CM_UP);
	n->type = WEFT_EV_ESTABLISHED;
	cm_ev_peer(qp, n, peer);
	weft_verbs_ev_emit(qp->vw, qp->evq, n);
	weft_rdmap_start(qp->rdmap, ird, ord);
}

/** Its node was allocated with the QP. */
void
cm_conn_last_event(struct weft_qp *qp, enum weft_event_type type, int status,
                   const struct weft_mpa_frame *peer)
{
	struct weft_evnode *n = qp->last_ev, *full;

	verbs_cm_set(qp, CM_DOWN);
	cm_conn_forget_open(qp);
	if (n == NULL || qp->dead)
		return;
	qp->last_ev = NULL;
	/*
	 * A peer's private data needs a larger node. Without memory the event is sent without it.
	 */
	full = peer != NULL ? weft_verbs_ev_new() : NULL;
	if (full != NULL) {
		free(n);
		n = full;
	}
	n->type = type;
	n->status = status;
	cm_ev_peer(qp, n, peer);
	weft_verbs_ev_emit(qp->vw, qp->evq, n);
}

void
cm_conn_down(struct weft_qp *qp, int err)
{
	enum verbs_cm was = verbs_cm_get(qp);

	if (was == CM_UP)
		cm_conn_last_event(qp, WEFT_EV_DISCONNECTED, err, NULL);
	else if (was == CM_CONNECTING)
		cm_conn_last_event(qp, WEFT_EV_CONNECT_ERROR, err != 0 ? err : -ECONNRESET, NULL);
}

void
cm_conn_fail(struct weft_qp *qp, int err)
{
	cm_conn_down(qp, err);
	weft_verbs_qp_abort_later(qp);
}

void
cm_conn_ended(struct weft_qp *qp, int err)
{
	struct weft_cm_conn *c = qp->conn;

	c->tcp = NULL;
	cm_push_leave(c);
	cm_peer_leave(c);
	cm_conn_down(qp, err);
}

/* ---- Disconnecting ---- */

struct cm_disconnect {
	struct weft_work_item work;
	struct weft_qp *qp;
};

static void
cm_disconnect(struct weft_qp *qp)
{
	if (verbs_cm_get(qp) == CM_UP) {
		if (qp->conn->tcp != NULL && !qp->conn->keepalive)
			cm_conn_keepalive(qp->conn, CM_CLOSE_KEEPALIVE_US);
		weft_rdmap_close(qp->rdmap, qp->vw->sched.now_ns);
	} else if (verbs_cm_get(qp) == CM_CONNECTING) {
		cm_conn_fail(qp, -ECONNABORTED);
	}
}

static void
cm_disconnect_run(struct weft_work_item *m)
{
	struct cm_disconnect *d = container_of(m, struct cm_disconnect, work);

	if (!d->qp->dead)
		cm_disconnect(d->qp);
	weft_verbs_qp_unref(d->qp);
	free(d);
}

int
weft_disconnect(struct weft_qp *qp)
{
	struct cm_disconnect *d;
	uint32_t cm;

	if (WEFT_HANDLE_BAD(qp, QP))
		return -EINVAL;
	cm = atomic_load_explicit(&qp->cm, memory_order_acquire);
	if (cm != CM_UP && cm != CM_CONNECTING)
		return -ENOTCONN;
	if (weft_vworker_is_mine(qp->vw)) {
		/* Earlier posts of other threads are sent first. */
		weft_verbs_take_posts(qp);
		cm_disconnect(qp);
		return 0;
	}
	d = malloc(sizeof(*d));
	if (d == NULL)
		return -ENOMEM;
	d->work.fn = cm_disconnect_run;
	d->qp = qp;
	weft_verbs_qp_ref(qp);
	weft_work_send(&qp->vw->work, &d->work);
	return 0;
}

int
weft_qp_leave(struct weft_qp *qp, uint32_t wait_us, void (*gone)(void *arg, int status), void *arg)
{
	if (WEFT_HANDLE_BAD(qp, QP))
		return -EINVAL;
	if (!weft_vworker_is_mine(qp->vw))
		return -EPERM;
	if (verbs_cm_get(qp) == CM_UP)
		(void)weft_disconnect(qp);
	return weft_verbs_qp_leave(qp, wait_us * WEFT_NS_PER_US, gone, arg);
}

int
weft_abort(struct weft_qp *qp)
{
	if (WEFT_HANDLE_BAD(qp, QP))
		return -EINVAL;
	if (!weft_vworker_is_mine(qp->vw))
		return -EPERM;
	if (verbs_cm_get(qp) != CM_UP && verbs_cm_get(qp) != CM_CONNECTING)
		return -ENOTCONN;
	weft_verbs_qp_abort_later(qp);
	return 0;
}
