/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A connection request: from the connection that TCP offers to its end. */

#include <stdlib.h>

#include "cm_listen.h"

/** The request no longer counts against the backlog. */
static void
cm_req_uncount(struct weft_connreq *r)
{
	if (!r->counted)
		return;
	r->counted = false;
	r->lsn->requests--;
	cm_peer_hang_up(r->peer);
	r->peer = NULL;
}

static void
cm_req_free(struct weft_work_item *m)
{
	struct weft_connreq *r = container_of(m, struct weft_connreq, later);

	weft_timer_cancel(&r->vw->sched.wheel, &r->timer);
	TAILQ_REMOVE(&r->vw->cm->connreqs, r, link);
	if (r->has_mpa)
		weft_mpa_fini(&r->mpa);
	cm_req_uncount(r);
	cm_listener_unref(r->lsn->l);
	weft_handle_free(&r->h, sizeof(r->h));
}

void
cm_req_end(struct weft_connreq *r)
{
	atomic_store_explicit(&r->state, REQ_FREED, memory_order_release);
	weft_timer_cancel(&r->vw->sched.wheel, &r->timer);
	weft_vworker_later(r->vw, &r->later);
}

void
cm_req_evict(struct weft_connreq *r)
{
	r->vw->stats.requests_evicted++;
	weft_mpa_abort(&r->mpa, r->vw->sched.now_ns);
	cm_req_uncount(r);
	cm_req_end(r);
}

/** The request can no longer be answered. It stays while the consumer has it. */
static void
cm_req_lost(struct weft_connreq *r)
{
	weft_timer_cancel(&r->vw->sched.wheel, &r->timer);
	if (cm_req_state(r) == REQ_DEAD)
		return; /* the consumer has to return it, whatever TCP reports */
	if (cm_req_state(r) != REQ_PENDING || weft_verbs_ev_withdraw(r->lsn->l->evq, r->vw, r))
		cm_req_end(r);
	else
		atomic_store_explicit(&r->state, REQ_DEAD, memory_order_release);
}

/**
 * Store the MPA Request. A rejection carries the depths it asks for, unless the consumer sets
 * others.
 */
static void
cm_req_note(struct weft_connreq *r, const struct weft_mpa_frame *q)
{
	r->req = *q;
	r->ird = q->ord;
	r->ord = q->ird;
}

void
cm_req_refuse(struct weft_connreq *r)
{
	weft_timer_cancel(&r->vw->sched.wheel, &r->timer);
	r->since_ns = r->vw->sched.now_ns;
	atomic_store_explicit(&r->state, REQ_CLOSING, memory_order_release);
	if (weft_mpa_reject(&r->mpa, r->ird, r->ord, r->private_data, r->private_data_bytes,
	                    r->vw->sched.now_ns) < 0) {
		weft_mpa_abort(&r->mpa, r->vw->sched.now_ns);
		cm_req_end(r);
		return;
	}
	weft_mpa_await_fin(&r->mpa, r->vw->sched.now_ns);
}

/**
 * Reject a request that the consumer still has. The consumer may be writing its own answer, so r
 * stays until the consumer returns it.
 */
static void
cm_req_withdraw(struct weft_connreq *r)
{
	weft_timer_cancel(&r->vw->sched.wheel, &r->timer);
	atomic_store_explicit(&r->state, REQ_DEAD, memory_order_release);
	if (weft_mpa_reject(&r->mpa, r->req.ord, r->req.ird, NULL, 0, r->vw->sched.now_ns) < 0)
		weft_mpa_abort(&r->mpa, r->vw->sched.now_ns);
	else
		weft_mpa_await_fin(&r->mpa, r->vw->sched.now_ns);
}

void
cm_req_returned(struct weft_connreq *r)
{
	/* If a rejection is still being sent, TCP reports when it is done. */
	r->since_ns = r->vw->sched.now_ns;
	if (r->mpa.tcp != NULL)
		atomic_store_explicit(&r->state, REQ_CLOSING, memory_order_release);
	else
		cm_req_end(r);
}

void
cm_req_drop(struct weft_connreq *r)
{
	if (cm_req_state(r) == REQ_PENDING)
		cm_req_refuse(r);
	else
		cm_req_returned(r);
}

void
cm_req_unlisten(struct weft_connreq *r)
{
	if (cm_req_state(r) == REQ_WAIT) {
		weft_mpa_abort(&r->mpa, r->vw->sched.now_ns);
		cm_req_end(r);
	} else if (cm_req_state(r) == REQ_PENDING) {
		if (weft_verbs_ev_withdraw(r->lsn->l->evq, r->vw, r))
			cm_req_refuse(r);
		else
			cm_req_withdraw(r);
	}
}

static void
cm_req_timeout(struct weft_timer *t, uint64_t now_ns)
{
	struct weft_connreq *r = container_of(t, struct weft_connreq, timer);

	/* The consumer did not answer in time. A later answer finds a dead request. */
	weft_mpa_abort(&r->mpa, now_ns);
	cm_req_lost(r);
}

static void
cm_req_request(void *user, const struct weft_mpa_frame *f)
{
	struct weft_connreq *r = user;
	struct weft_listener *l = r->lsn->l;
	struct weft_evnode *n = weft_verbs_ev_new();
	struct weft_tcp_info ti;

	cm_req_note(r, f);
	if (n == NULL || cm_listener_closed(l)) {
		free(n);
		cm_req_refuse(r);
		return;
	}
	atomic_store_explicit(&r->state, REQ_PENDING, memory_order_release);
	weft_timer_arm(&r->vw->sched.wheel, &r->timer,
	               r->vw->sched.now_ns + l->timeout_us * WEFT_NS_PER_US);
	weft_tcp_info(r->conn, &ti);
	n->type = WEFT_EV_CONNECT_REQUEST;
	verbs_ev_full(n)->user = l->user;
	n->connreq = r;
	weft_handle_init(&r->h, WEFT_KIND(CONNREQ));
	verbs_ev_full(n)->listener = l;
	verbs_ev_full(n)->ird = f->enhanced ? f->ird : 0;
	verbs_ev_full(n)->ord = f->enhanced ? f->ord : 0;
	verbs_ev_full(n)->private_data_bytes = f->pdata_len_bytes;
	memcpy(verbs_ev_full(n)->private_data, f->pdata, f->pdata_len_bytes);
	weft_ip_to_sockaddr(&ti.remote, ti.remote_port, &verbs_ev_full(n)->remote);
	weft_ip_to_sockaddr(&ti.local, ti.local_port, &verbs_ev_full(n)->local);
	weft_verbs_ev_emit(r->vw, l->evq, n);
}

static void
cm_req_closed(void *user, int err)
{
	struct weft_connreq *r = user;

	(void)err;
	r->conn = NULL;
	cm_req_lost(r);
}

/* Up-calls that cannot come before there is a QP. */

static void
cm_req_reply(void *user, const struct weft_mpa_frame *rep)
{
	(void)user;
	(void)rep;
}

static void
cm_req_ulpdu(void *user, const struct weft_frag *frag, unsigned int nfrags, uint32_t len_bytes,
             uint64_t now_ns)
{
	(void)user;
	(void)frag;
	(void)nfrags;
	(void)len_bytes;
	(void)now_ns;
}

static void
cm_req_nothing(void *user)
{
	(void)user;
}

static void
cm_req_mulpdu(void *user, uint16_t mulpdu_bytes)
{
	(void)user;
	(void)mulpdu_bytes;
}

static void
cm_req_fault(void *user, const struct weft_term *term)
{
	(void)user;
	(void)term;
}

static const struct weft_mpa_ops cm_req_ops = {
        .request = cm_req_request,
        .reply = cm_req_reply,
        .ulpdu = cm_req_ulpdu,
        .writable = cm_req_nothing,
        .mulpdu = cm_req_mulpdu,
        .fault = cm_req_fault,
        .eof = cm_req_nothing, /* MPA itself ends a start-up when the peer closes */
        .closed = cm_req_closed,
};

int
cm_req_new(struct cm_lsn *lsn, struct cm_peer *peer, struct weft_tcp_conn *c)
{
	struct weft_listener *l = lsn->l;
	struct weft_mpa_opts opts = cm_attr_mpa_opts(&l->mpa);
	struct weft_connreq *r = calloc(1, sizeof(*r));
	int rc;

	if (r == NULL)
		return -ENOMEM;
	r->peer = peer;
	r->vw = lsn->vw;
	r->lsn = lsn;
	r->conn = c;
	r->since_ns = lsn->vw->sched.now_ns;
	r->later.fn = cm_req_free;
	weft_timer_init(&r->timer, cm_req_timeout);
	rc = weft_mpa_respond(&r->mpa, c, &lsn->vw->sched, (uint32_t)l->timeout_us, &cm_req_ops, r,
	                      lsn->vw->sched.now_ns);
	if (rc < 0) {
		free(r);
		return rc;
	}
	r->policy = l->mpa;
	weft_mpa_set_opts(&r->mpa, &opts);
	r->has_mpa = true;
	r->counted = true;
	lsn->requests++;
	atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
	TAILQ_INSERT_TAIL(&lsn->vw->cm->connreqs, r, link);
	return 0;
}

void
cm_req_free_all(struct weft_vworker *vw)
{
	struct weft_connreq *r;

	while ((r = TAILQ_FIRST(&vw->cm->connreqs)) != NULL) {
		if (weft_handle_ok(&r->h, WEFT_KIND(CONNREQ)))
			weft_handle_end(&r->h, WEFT_KIND(CONNREQ));
		cm_req_free(&r->later);
	}
}
