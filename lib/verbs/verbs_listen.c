/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The passive side: listeners, connection requests, accept and reject. */

#include <stdlib.h>
#include <unistd.h>

#include "verbs_listen.h"
#include "weft_ddp.h"
#include "weft_netif_addr.h"

#define LISTEN_AWAIT_US    20
#define LISTEN_AWAIT_TURNS 50000 /* more than a second, for a worker that does not poll */

int
weft_verbs_addr(const struct sockaddr *sa, socklen_t len, struct weft_ip *ip, uint16_t *port)
{
	if (sa == NULL || len < (socklen_t)sizeof(sa->sa_family))
		return -EINVAL;
	if ((sa->sa_family == AF_INET && len < (socklen_t)sizeof(struct sockaddr_in)) ||
	    (sa->sa_family == AF_INET6 && len < (socklen_t)sizeof(struct sockaddr_in6)))
		return -EINVAL;
	return weft_ip_from_sockaddr(sa, ip, port);
}

static void
verbs_listener_unref(struct weft_listener *l)
{
	if (__atomic_sub_fetch(&l->refs, 1, __ATOMIC_ACQ_REL) == 0) {
		weft_verbs_ev_unref(l->evq);
		weft_handle_free(&l->h, sizeof(l->h));
	}
}

/* ---- Requests ---- */

/** The request no longer counts against the backlog. */
static void
verbs_req_uncount(struct weft_connreq *r)
{
	if (!r->counted)
		return;
	r->counted = false;
	r->lsn->requests--;
	weft_verbs_peer_hang_up(r->peer);
	r->peer = NULL;
}

static void
verbs_req_free(struct weft_work_item *m)
{
	struct weft_connreq *r = container_of(m, struct weft_connreq, later);

	weft_timer_cancel(&r->vw->sched.wheel, &r->timer);
	TAILQ_REMOVE(&r->vw->connreqs, r, link);
	if (r->has_mpa)
		weft_mpa_fini(&r->mpa);
	verbs_req_uncount(r);
	verbs_listener_unref(r->lsn->l);
	weft_handle_free(&r->h, sizeof(r->h));
}

/** Free the request in the delivery phase, when no up-call of it is running. */
static void
verbs_req_end(struct weft_connreq *r)
{
	__atomic_store_n(&r->state, REQ_FREED, __ATOMIC_RELEASE);
	weft_timer_cancel(&r->vw->sched.wheel, &r->timer);
	weft_vworker_later(r->vw, &r->later);
}

void
weft_verbs_req_evict(struct weft_connreq *r)
{
	r->vw->stats.requests_evicted++;
	weft_mpa_abort(&r->mpa, r->vw->sched.now_ns);
	verbs_req_uncount(r);
	verbs_req_end(r);
}

/** The request can no longer be answered. It stays while the consumer has it. */
static void
verbs_req_lost(struct weft_connreq *r)
{
	weft_timer_cancel(&r->vw->sched.wheel, &r->timer);
	if (r->state == REQ_DEAD)
		return; /* the consumer has to return it, whatever TCP reports */
	if (r->state != REQ_PENDING || weft_verbs_ev_withdraw(r->lsn->l->evq, r->vw, r))
		verbs_req_end(r);
	else
		__atomic_store_n(&r->state, REQ_DEAD, __ATOMIC_RELEASE);
}

/**
 * Store the MPA Request. A rejection carries the depths it asks for, unless the consumer sets
 * others.
 */
static void
verbs_req_note(struct weft_connreq *r, const struct weft_mpa_frame *q)
{
	r->req = *q;
	r->ird = q->ord;
	r->ord = q->ird;
}

/** Reject the request, and wait until TCP has closed. */
static void
verbs_req_refuse(struct weft_connreq *r)
{
	weft_timer_cancel(&r->vw->sched.wheel, &r->timer);
	r->since_ns = r->vw->sched.now_ns;
	__atomic_store_n(&r->state, REQ_CLOSING, __ATOMIC_RELEASE);
	if (weft_mpa_reject(&r->mpa, r->ird, r->ord, r->private_data, r->private_data_bytes,
	                    r->vw->sched.now_ns) < 0) {
		weft_mpa_abort(&r->mpa, r->vw->sched.now_ns);
		verbs_req_end(r);
		return;
	}
	weft_mpa_await_fin(&r->mpa, r->vw->sched.now_ns);
}

/**
 * Reject a request that the consumer still has. The consumer may be writing its own answer, so r
 * stays until the consumer returns it.
 */
static void
verbs_req_withdraw(struct weft_connreq *r)
{
	weft_timer_cancel(&r->vw->sched.wheel, &r->timer);
	__atomic_store_n(&r->state, REQ_DEAD, __ATOMIC_RELEASE);
	if (weft_mpa_reject(&r->mpa, r->req.ord, r->req.ird, NULL, 0, r->vw->sched.now_ns) < 0)
		weft_mpa_abort(&r->mpa, r->vw->sched.now_ns);
	else
		weft_mpa_await_fin(&r->mpa, r->vw->sched.now_ns);
}

/** The consumer returned a request that could no longer be answered. */
static void
verbs_req_returned(struct weft_connreq *r)
{
	/* If a rejection is still being sent, TCP reports when it is done. */
	r->since_ns = r->vw->sched.now_ns;
	if (r->mpa.tcp != NULL)
		__atomic_store_n(&r->state, REQ_CLOSING, __ATOMIC_RELEASE);
	else
		verbs_req_end(r);
}

void
weft_verbs_req_drop(struct weft_connreq *r)
{
	if (r->state == REQ_PENDING)
		verbs_req_refuse(r);
	else
		verbs_req_returned(r);
}

static void
verbs_req_timeout(struct weft_timer *t, uint64_t now_ns)
{
	struct weft_connreq *r = container_of(t, struct weft_connreq, timer);

	/* The consumer did not answer in time. A later answer finds a dead request. */
	weft_mpa_abort(&r->mpa, now_ns);
	verbs_req_lost(r);
}

static void
verbs_req_request(void *user, const struct weft_mpa_frame *f)
{
	struct weft_connreq *r = user;
	struct weft_listener *l = r->lsn->l;
	struct weft_evnode *n = weft_verbs_ev_new();
	struct weft_tcp_info ti;

	verbs_req_note(r, f);
	if (n == NULL || verbs_listener_closed(l)) {
		free(n);
		verbs_req_refuse(r);
		return;
	}
	__atomic_store_n(&r->state, REQ_PENDING, __ATOMIC_RELEASE);
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
	weft_verbs_ev_emit(r->vw, l->evq, n);
}

static void
verbs_req_closed(void *user, int err)
{
	struct weft_connreq *r = user;

	(void)err;
	r->conn = NULL;
	verbs_req_lost(r);
}

/* Up-calls that cannot come before there is a QP. */

static void
verbs_req_reply(void *user, const struct weft_mpa_frame *rep)
{
	(void)user;
	(void)rep;
}

static void
verbs_req_ulpdu(void *user, const struct weft_frag *frag, unsigned int nfrags, uint32_t len_bytes,
                uint64_t now_ns)
{
	(void)user;
	(void)frag;
	(void)nfrags;
	(void)len_bytes;
	(void)now_ns;
}

static void
verbs_req_nothing(void *user)
{
	(void)user;
}

static void
verbs_req_mulpdu(void *user, uint16_t mulpdu_bytes)
{
	(void)user;
	(void)mulpdu_bytes;
}

static void
verbs_req_fault(void *user, const struct weft_term *term)
{
	(void)user;
	(void)term;
}

static const struct weft_mpa_ops verbs_req_ops = {
        .request = verbs_req_request,
        .reply = verbs_req_reply,
        .ulpdu = verbs_req_ulpdu,
        .writable = verbs_req_nothing,
        .mulpdu = verbs_req_mulpdu,
        .fault = verbs_req_fault,
        .eof = verbs_req_nothing, /* MPA itself ends a start-up when the peer closes */
        .closed = verbs_req_closed,
};

/** TCP offers a connection. */
static int
verbs_tcp_accept(void *arg, struct weft_tcp_conn *c)
{
	struct verbs_lsn *lsn = arg;
	struct weft_listener *l = lsn->l;
	struct verbs_peer *peer;
	struct weft_tcp_info ti;
	struct weft_mpa_opts opts;
	struct weft_connreq *r;
	int rc;

	if (verbs_listener_closed(l))
		return -ENOBUFS;
	weft_tcp_info(c, &ti);
	peer = weft_verbs_peer_call(lsn->vw, &ti.remote);
	if (peer == NULL)
		return -ENOMEM;
	rc = weft_verbs_admit(lsn, peer, &ti.remote, weft_tcp_conns_most(c));
	if (rc < 0) {
		weft_verbs_peer_hang_up(peer);
		return rc;
	}
	r = calloc(1, sizeof(*r));
	if (r == NULL) {
		weft_verbs_peer_hang_up(peer);
		return -ENOMEM;
	}
	r->peer = peer;
	r->vw = lsn->vw;
	r->lsn = lsn;
	r->conn = c;
	r->since_ns = lsn->vw->sched.now_ns;
	r->later.fn = verbs_req_free;
	weft_timer_init(&r->timer, verbs_req_timeout);
	rc = weft_mpa_respond(&r->mpa, c, &lsn->vw->sched, (uint32_t)l->timeout_us, &verbs_req_ops,
	                      r, lsn->vw->sched.now_ns);
	if (rc < 0) {
		free(r);
		weft_verbs_peer_hang_up(peer);
		return rc;
	}
	r->policy = l->mpa;
	opts = weft_verbs_mpa_opts(&l->mpa);
	weft_mpa_set_opts(&r->mpa, &opts);
	r->has_mpa = true;
	r->counted = true;
	lsn->requests++;
	__atomic_fetch_add(&l->refs, 1, __ATOMIC_RELAXED);
	TAILQ_INSERT_TAIL(&lsn->vw->connreqs, r, link);
	return 0;
}

void
weft_verbs_connreqs_free(struct weft_vworker *vw)
{
	struct weft_connreq *r;

	while ((r = TAILQ_FIRST(&vw->connreqs)) != NULL) {
		if (weft_handle_ok(&r->h, WEFT_KIND(CONNREQ)))
			weft_handle_end(&r->h, WEFT_KIND(CONNREQ));
		verbs_req_free(&r->later);
	}
	/* The QPs that used the table are gone. */
	free(vw->peers);
	vw->peers = NULL;
	weft_verbs_push_fini(vw);
}

/* ---- Answers ---- */

/** RFC 6581 s9.1: negotiation by the responder. */
static void
verbs_negotiate(const struct weft_mpa_frame *q, const struct weft_mpa_policy *mp,
                const struct weft_qp *qp, uint16_t *ird, uint16_t *ord)
{
	bool rtr_read = q->rtr_read && (mp->rtr == 0 || (mp->rtr & WEFT_RTR_READ) != 0);

	*ird = qp->ird;
	*ord = qp->ord;
	if (!q->enhanced)
		return;
	/* "The responder MUST set its ORD at most to the initiator IRD." */
	if (q->ird != WEFT_MPA_IRD_ORD_NONE)
		*ord = RTE_MIN(*ord, q->ird);
	/*
	 * A depth above the initiator's ORD is of no use, but a Read as RTR needs a depth of one.
	 */
	if (q->ord != WEFT_MPA_IRD_ORD_NONE)
		*ird = RTE_MIN(*ird, q->ord == 0 && rtr_read ? (uint16_t)1 : q->ord);
}

/**
 * On the worker: execute the consumer's acceptance. r is PENDING, or can no longer be answered. r
 * is gone afterwards.
 */
static void
verbs_accept(struct weft_connreq *r)
{
	struct weft_qp *qp = r->qp;
	struct weft_mpa_opts opts = weft_verbs_mpa_opts(&r->policy);
	struct weft_ddp *ddp;
	uint16_t ird, ord;
	int rc;

	if (r->state != REQ_PENDING || qp->dead || qp->cm != CM_CONNECTING) {
		if (!qp->dead && qp->cm == CM_CONNECTING) {
			weft_verbs_down(qp, -ECONNABORTED);
			weft_verbs_qp_abort_later(qp);
		}
		if (r->state == REQ_PENDING) {
			r->private_data_bytes = 0;
			verbs_req_refuse(r);
		} else {
			verbs_req_returned(r);
		}
		return;
	}
	verbs_negotiate(&r->req, &r->policy, qp, &ird, &ord);
	ddp = weft_rdmap_ddp(qp->rdmap);
	weft_mpa_move(ddp->mpa, &r->mpa, &weft_ddp_mpa_ops, ddp);
	r->has_mpa = false;
	qp->conn = r->conn;
	qp->may_go = r->lsn->l->push_out;
	weft_verbs_peer_enter(r->peer, qp);
	weft_verbs_keepalive(qp, r->keepalive_us != 0 ? r->keepalive_us : r->lsn->l->keepalive_us);
	weft_mpa_set_opts(ddp->mpa, &opts);
	rc = weft_mpa_accept(ddp->mpa, ird, ord, r->private_data, r->private_data_bytes,
	                     r->vw->sched.now_ns);
	if (rc < 0) {
		weft_verbs_down(qp, rc);
		weft_verbs_qp_abort_later(qp);
	} else {
		struct weft_mpa_frame peer = r->req;

		peer.pdata_len_bytes = 0; /* the consumer got the private data with the request */
		weft_verbs_up(qp, ird, ord, &peer);
	}
	verbs_req_end(r);
}

static void
verbs_answer(struct weft_connreq *r)
{
	if (r->qp != NULL)
		verbs_accept(r);
	else
		weft_verbs_req_drop(r);
}

static void
verbs_answer_run(struct weft_work_item *m)
{
	struct weft_connreq *r = container_of(m, struct weft_connreq, answer);
	struct weft_qp *qp = r->qp;

	verbs_answer(r);
	if (qp != NULL)
		weft_verbs_qp_unref(qp);
}

/** Pass the answer to the worker. The consumer's handle ends here. */
static void
verbs_give_answer(struct weft_connreq *r)
{
	weft_handle_end(&r->h, WEFT_KIND(CONNREQ));
	if (weft_vworker_is_mine(r->vw)) {
		verbs_answer(r);
		return;
	}
	if (r->qp != NULL)
		weft_verbs_qp_ref(r->qp);
	r->answer.fn = verbs_answer_run;
	weft_work_send(&r->vw->work, &r->answer);
}

/** The consumer, which has claimed the request, rejects it. */
static void
verbs_reject(struct weft_connreq *r, const void *private_data, uint16_t private_data_bytes)
{
	uint16_t room = r->req.enhanced ? WEFT_MAX_PRIVATE_DATA : WEFT_MPA_MAX_PDATA;

	r->qp = NULL;
	r->private_data_bytes = private_data != NULL ? RTE_MIN(private_data_bytes, room) : 0;
	if (r->private_data_bytes > 0)
		memcpy(r->private_data, private_data, r->private_data_bytes);
	verbs_give_answer(r);
}

int
weft_accept(struct weft_connreq *r, struct weft_qp *qp, const struct weft_conn_attr *attr)
{
	struct weft_conn_attr a = {0};
	struct weft_mpa_policy mp;
	uint32_t idle = CM_IDLE;
	int rc = -EINVAL;

	if (WEFT_HANDLE_CLAIM(r, CONNREQ) < 0)
		return -EINVAL;
	if (attr != NULL && weft_attr_copy(&a, sizeof(a), attr) < 0)
		goto reject;
	if (weft_verbs_mpa_policy(a.mpa, &r->lsn->l->mpa, &mp) < 0)
		goto reject;
	if (WEFT_HANDLE_BAD(qp, QP) || qp->vw != r->vw ||
	    (a.private_data == NULL && a.private_data_bytes > 0) ||
	    a.private_data_bytes > (r->req.enhanced ? WEFT_MAX_PRIVATE_DATA : WEFT_MPA_MAX_PDATA))
		goto reject;
	if (__atomic_load_n(&r->state, __ATOMIC_ACQUIRE) == REQ_DEAD) {
		rc = -ECONNABORTED;
		goto reject;
	}
	if (!__atomic_compare_exchange_n(&qp->cm, &idle, CM_CONNECTING, false, __ATOMIC_ACQ_REL,
	                                 __ATOMIC_RELAXED))
		goto reject;
	r->qp = qp;
	r->policy = mp;
	r->keepalive_us = a.keepalive_us;
	r->private_data_bytes = a.private_data_bytes;
	if (a.private_data_bytes > 0)
		memcpy(r->private_data, a.private_data, a.private_data_bytes);
	verbs_give_answer(r);
	return 0;
reject:
	verbs_reject(r, NULL, 0);
	return rc;
}

void
weft_reject_depths(struct weft_connreq *r, uint16_t ird, uint16_t ord, const void *private_data,
                   uint16_t private_data_bytes)
{
	const uint16_t max = WEFT_MPA_IRD_ORD_NONE - 1;

	if (WEFT_HANDLE_CLAIM(r, CONNREQ) < 0)
		return;
	r->ird = RTE_MIN(ird, max);
	r->ord = RTE_MIN(ord, max);
	verbs_reject(r, private_data, private_data_bytes);
}

void
weft_reject(struct weft_connreq *r, const void *private_data, uint16_t private_data_bytes)
{
	if (WEFT_HANDLE_CLAIM(r, CONNREQ) == 0)
		verbs_reject(r, private_data, private_data_bytes);
}

struct weft_worker *
weft_connreq_worker(const struct weft_connreq *r)
{
	if (WEFT_HANDLE_BAD(r, CONNREQ))
		return NULL;
	return (struct weft_worker *)r->vw;
}

/* ---- Listening ---- */

static int
verbs_lsn_open(struct verbs_lsn *lsn)
{
	struct weft_listener *l = lsn->l;

	/* TCP limits half-open connections. They are not requests yet. */
	int rc = weft_tcp_listen(lsn->vw->tcp, &l->addr, l->port,
	                         RTE_MAX(l->backlog, (uint32_t)LISTEN_DEFAULT_BACKLOG),
	                         verbs_tcp_accept, lsn, &lsn->tcp);

	if (rc == 0)
		weft_tcp_listener_set_room(lsn->tcp, weft_verbs_room);
	return rc;
}

static void
verbs_lsn_open_run(struct weft_work_item *m)
{
	struct verbs_lsn *lsn = container_of(m, struct verbs_lsn, hello);
	struct weft_listener *l = lsn->l;
	int rc = verbs_listener_closed(l) ? 0 : verbs_lsn_open(lsn);

	if (rc < 0)
		WEFT_LOG(verbs, ERR, "worker %u cannot listen: %s", lsn->vw->id, strerror(-rc));
	__atomic_store_n(&lsn->answered, true, __ATOMIC_RELEASE);
	verbs_listener_unref(l);
}

/*
 * Wait until the workers listen: a SYN that arrives before is reset, and the program may tell a
 * peer to connect as soon as weft_listen() returns. Not done on a worker's thread, because two
 * workers would wait for each other. Not done for workers that the program polls, perhaps later on
 * this very thread.
 */
static void
verbs_listen_await(const struct weft_listener *l)
{
	for (unsigned int i = 0; i < l->nparts; i++)
		if (weft_vworker_is_mine(l->part[i].vw))
			return;
	for (unsigned int i = 0, turns = 0; i < l->nparts && turns < LISTEN_AWAIT_TURNS; turns++) {
		const struct verbs_lsn *lsn = &l->part[i];

		if (__atomic_load_n(&lsn->answered, __ATOMIC_ACQUIRE) ||
		    !__atomic_load_n(&lsn->vw->runs, __ATOMIC_ACQUIRE))
			i++;
		else
			usleep(LISTEN_AWAIT_US);
	}
}

static void
verbs_lsn_close(struct verbs_lsn *lsn)
{
	struct weft_vworker *vw = lsn->vw;
	struct weft_connreq *r, *next;

	if (lsn->tcp != NULL)
		weft_tcp_unlisten(vw->tcp, lsn->tcp);
	lsn->tcp = NULL;
	for (r = TAILQ_FIRST(&vw->connreqs); r != NULL; r = next) {
		next = TAILQ_NEXT(r, link);
		if (r->lsn != lsn)
			continue;
		if (r->state == REQ_WAIT) {
			weft_mpa_abort(&r->mpa, vw->sched.now_ns);
			verbs_req_end(r);
		} else if (r->state == REQ_PENDING) {
			if (weft_verbs_ev_withdraw(lsn->l->evq, vw, r))
				verbs_req_refuse(r);
			else
				verbs_req_withdraw(r);
		}
	}
}

static void
verbs_lsn_close_run(struct weft_work_item *m)
{
	struct verbs_lsn *lsn = container_of(m, struct verbs_lsn, bye);

	verbs_lsn_close(lsn);
	verbs_listener_unref(lsn->l);
}

/** Whether two listeners would accept the same connections. */
static bool
verbs_listen_clash(const struct weft_listener *a, const struct weft_ip *addr, uint16_t port,
                   bool any)
{
	static const struct weft_ip zero;
	bool a_any = weft_ip_eq(&a->addr, &zero);

	return a->port == port && (a_any == any) && (any || weft_ip_eq(&a->addr, addr));
}

int
weft_listen(struct weft_ctx *ctx, const struct sockaddr *addr, socklen_t addr_len,
            const struct weft_listen_attr *attr, struct weft_listener **out)
{
	struct weft_vctx *v = weft_vctx_of(ctx);
	struct weft_listen_attr a;
	struct weft_listener *l, *other;
	bool any;
	int rc;

	if (WEFT_HANDLE_BAD(ctx, CTX) || out == NULL)
		return -EINVAL;
	rc = weft_attr_copy(&a, sizeof(a), attr);
	if (rc < 0)
		return rc;
	if (WEFT_HANDLE_BAD(a.evq, EVQ) || a.evq->ctx != v)
		return -EINVAL;
	l = calloc(1, sizeof(*l));
	if (l == NULL)
		return -ENOMEM;
	rc = weft_verbs_addr(addr, addr_len, &l->addr, &l->port);
	if (rc == 0 && l->port == 0)
		rc = -EINVAL;
	if (rc == 0)
		rc = weft_verbs_mpa_policy(a.mpa, &v->mpa, &l->mpa);
	if (rc < 0) {
		free(l);
		return rc;
	}
	any = weft_ip_is_v4(&l->addr) ? weft_ip_v4(&l->addr) == 0
	                              : memcmp(l->addr.b, (uint8_t[16]){0}, 16) == 0;
	if (any)
		memset(&l->addr, 0, sizeof(l->addr)); /* the form that TCP uses for any address */
	l->ctx = v;
	l->evq = a.evq;
	l->user = a.user;
	l->backlog = a.backlog != 0 ? a.backlog : LISTEN_DEFAULT_BACKLOG;
	l->timeout_us = a.startup_timeout_us != 0 ? a.startup_timeout_us : VERBS_DEFAULT_TIMEOUT_US;
	l->keepalive_us = a.keepalive_us;
	l->max_requests_per_peer = a.max_requests_per_peer != 0 ? a.max_requests_per_peer
	                                                        : weft_verbs_share(l->backlog);
	l->max_conns_per_peer = a.max_conns_per_peer;
	l->push_out = a.push_out;
	l->refs = 1;

	pthread_mutex_lock(&v->lock);
	TAILQ_FOREACH (other, &v->listeners, all)
		if (verbs_listen_clash(other, &l->addr, l->port, any)) {
			pthread_mutex_unlock(&v->lock);
			free(l);
			return -EADDRINUSE;
		}
	for (uint32_t i = 0; i < v->nworkers; i++) {
		struct weft_vworker *vw = v->worker[i];
		bool has = false;

		for (unsigned int k = 0; k < vw->nnif; k++)
			has = has || any || weft_netif_is_local(vw->nif[k], &l->addr);
		if (!has)
			continue;
		l->part[l->nparts].l = l;
		l->part[l->nparts].vw = vw;
		l->nparts++;
	}
	if (l->nparts == 0) {
		pthread_mutex_unlock(&v->lock);
		free(l);
		return -EADDRNOTAVAIL;
	}
	weft_handle_init(&l->h, WEFT_KIND(LISTENER));
	__atomic_fetch_add(&l->evq->users, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&l->evq->refs, 1, __ATOMIC_RELAXED);
	TAILQ_INSERT_TAIL(&v->listeners, l, all);
	pthread_mutex_unlock(&v->lock);

	for (unsigned int i = 0; i < l->nparts && rc == 0; i++) {
		struct verbs_lsn *lsn = &l->part[i];

		if (weft_vworker_is_mine(lsn->vw)) {
			rc = verbs_lsn_open(lsn);
			continue;
		}
		lsn->hello.fn = verbs_lsn_open_run;
		__atomic_fetch_add(&l->refs, 1, __ATOMIC_RELAXED);
		weft_work_send(&lsn->vw->work, &lsn->hello);
	}
	if (rc < 0) {
		weft_unlisten(l);
		return rc;
	}
	verbs_listen_await(l);
	*out = l;
	return 0;
}

uint32_t
weft_verbs_listeners(const struct weft_vctx *v)
{
	const struct weft_listener *l;
	uint32_t n = 0;

	TAILQ_FOREACH (l, &v->listeners, all)
		n++;
	return n;
}

void
weft_unlisten(struct weft_listener *l)
{
	struct weft_vctx *v;

	if (WEFT_HANDLE_CLAIM(l, LISTENER) < 0)
		return;
	weft_handle_end(&l->h, WEFT_KIND(LISTENER));
	v = l->ctx;
	pthread_mutex_lock(&v->lock);
	TAILQ_REMOVE(&v->listeners, l, all);
	pthread_mutex_unlock(&v->lock);
	__atomic_store_n(&l->closed, true, __ATOMIC_RELEASE);
	__atomic_fetch_sub(&l->evq->users, 1, __ATOMIC_RELEASE);
	for (unsigned int i = 0; i < l->nparts; i++) {
		struct verbs_lsn *lsn = &l->part[i];

		if (weft_vworker_is_mine(lsn->vw)) {
			verbs_lsn_close(lsn);
		} else {
			lsn->bye.fn = verbs_lsn_close_run;
			__atomic_fetch_add(&l->refs, 1, __ATOMIC_RELAXED);
			weft_work_send(&lsn->vw->work, &lsn->bye);
		}
	}
	verbs_listener_unref(l);
}
