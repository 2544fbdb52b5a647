/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The parts of a context and of a worker, and what verbs asks of connection management. */

#include <stdlib.h>

#include "cm_listen.h"
#include "cm_stream.h"
#include "weft_stat.h"

static_assert(VERBS_QP_MAX_IRD == WEFT_MPA_IRD_ORD_NONE - 1, "the greatest depth that is agreed");

void
weft_cm_init(struct weft_cm *cm, struct weft_vctx *v)
{
	v->cm = cm;
	TAILQ_INIT(&cm->listeners);
	TAILQ_INIT(&cm->stream_listeners);
}

void
weft_cm_worker_init(struct weft_cm_worker *w, struct weft_vworker *vw)
{
	vw->cm = w;
	TAILQ_INIT(&w->connreqs);
	TAILQ_INIT(&w->streams);
	weft_mpa_keep_init(&w->mpa_keep, 0);
	vw->sched.mpa_keep = &w->mpa_keep;
}

/* ---- Calls from verbs (struct weft_verbs_cm_ops) ---- */

static void
cm_created(struct weft_qp *qp)
{
	qp->conn->qp = qp;
}

static void
cm_destroyed(struct weft_qp *qp)
{
	struct weft_cm_conn *c = qp->conn;

	cm_conn_forget_open(qp);
	cm_push_leave(c);
	cm_peer_leave(c);
	c->tcp = NULL;
}

static WEFT_STAT_READER void
cm_count(struct weft_rdmap *r, struct weft_vworker_stats *st)
{
	const struct weft_mpa_stats *ms = &weft_rdmap_ddp(r)->mpa->stats;

	st->fpdus_in += ms->fpdus_in;
	st->fpdus_out += ms->fpdus_out;
	st->crc_errors += ms->crc_errors;
	st->marker_errors += ms->marker_errors;
}

static uint32_t
cm_listeners(const struct weft_vctx *v)
{
	const struct weft_listener *l;
	uint32_t n = 0;

	TAILQ_FOREACH (l, &v->cm->listeners, all)
		n++;
	return n;
}

static void
cm_unlisten_all(struct weft_vctx *v)
{
	struct weft_listener *l;

	while ((l = TAILQ_FIRST(&v->cm->listeners)) != NULL)
		weft_unlisten(l);
	cm_stream_unlisten_all(v);
}

static void
cm_worker_gone(struct weft_vworker *vw)
{
	struct weft_cm_worker *w = vw->cm;

	cm_req_free_all(vw);
	cm_stream_free_all(vw);
	/* The QPs that used the table are gone. */
	free(w->peers);
	w->peers = NULL;
	cm_push_fini(w);
}

const struct weft_verbs_cm_ops weft_cm_ops = {
        .conn_bytes = sizeof(struct weft_cm_conn),
        .created = cm_created,
        .destroyed = cm_destroyed,
        .ended = cm_conn_ended,
        .reply = cm_connect_reply,
        .again = cm_connect_again,
        .snap = cm_conn_snap,
        .count = cm_count,
        .drop_request = cm_req_drop,
        .listeners = cm_listeners,
        .unlisten_all = cm_unlisten_all,
        .worker_gone = cm_worker_gone,
};
