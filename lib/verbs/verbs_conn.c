/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Connections: the active open, and what both sides do when a connection is established or
 * ends.
 */

#include <stdlib.h>

#include "verbs_conn.h"
#include "weft_ddp.h"
#include "weft_netif_addr.h"

#define VERBS_KEEPALIVE_PROBES 3
/** Keepalive while disconnecting: posted work must complete even if the peer is gone. */
#define VERBS_CLOSE_KEEPALIVE_US 10000000

/** Arguments of an active open, from weft_connect() to the peer's answer. */
struct verbs_connect {
	struct weft_work_item work;
	struct weft_qp *qp;
	struct weft_ip dst;
	uint16_t dst_port;
	struct weft_mpa_policy mpa;
	uint8_t mpa_rev; /**< of this attempt */
	bool fallback;   /**< another attempt, in revision 1, may follow */
	uint32_t timeout_us;
	uint32_t keepalive_us;
	uint64_t deadline_ns;
	uint16_t private_data_bytes;
	uint8_t private_data[WEFT_MPA_MAX_PDATA];
};

void
weft_verbs_keepalive(struct weft_qp *qp, uint32_t idle_us)
{
	if (idle_us == 0)
		return;
	qp->keepalive = true;
	weft_tcp_keepalive(qp->conn, idle_us, RTE_MAX(idle_us / VERBS_KEEPALIVE_PROBES, 1u),
	                   VERBS_KEEPALIVE_PROBES);
}

static void
verbs_ev_peer(struct weft_qp *qp, struct weft_evnode *n, const struct weft_mpa_frame *peer)
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
verbs_note_agreed(struct weft_qp *qp, uint16_t ird, uint16_t ord)
{
	const struct weft_mpa *m = weft_rdmap_ddp(qp->rdmap)->mpa;

	pthread_mutex_lock(&qp->vw->ctx->lock);
	weft_verbs_snap_addrs(qp);
	if (qp->vw->peers != NULL)
		weft_rdmap_lane(qp->rdmap, weft_lane_of(&qp->vw->lanes, &qp->snap.remote));
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
weft_verbs_up(struct weft_qp *qp, uint16_t ird, uint16_t ord, const struct weft_mpa_frame *peer)
{
	struct weft_evnode *n = weft_verbs_ev_new();

	verbs_note_agreed(qp, ird, ord);
	qp->vw->stats.conns_total++;
	if (n == NULL) {
		/*
		 * Without the event the consumer would wait forever. RFC 6581 s9.3: a local error
		 * without a code of its own.
		 */
		const struct weft_term t = {WEFT_TERM_LAYER_LLP, 0, WEFT_MPA_ERR_LOCAL};

		WEFT_LOG_PEER(verbs, ERR, "no memory for an event: connection dropped");
		weft_rdmap_start(qp->rdmap, ird, ord);
		weft_rdmap_terminate(qp->rdmap, &t, qp->vw->sched.now_ns);
		return;
	}
	verbs_cm_set(qp, CM_UP);
	n->type = WEFT_EV_ESTABLISHED;
	verbs_ev_peer(qp, n, peer);
	weft_verbs_ev_emit(qp->vw, qp->evq, n);
	weft_rdmap_start(qp->rdmap, ird, ord);
}

/** The last event of a QP. Its node was allocated with the QP. */
static void
verbs_last_event(struct weft_qp *qp, enum weft_event_type type, int status,
                 const struct weft_mpa_frame *peer)
{
	struct weft_evnode *n = qp->last_ev, *full;

	verbs_cm_set(qp, CM_DOWN);
	weft_verbs_connect_forget(qp);
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
	verbs_ev_peer(qp, n, peer);
	weft_verbs_ev_emit(qp->vw, qp->evq, n);
}

void
weft_verbs_down(struct weft_qp *qp, int err)
{
	enum verbs_cm was = qp->cm;

	if (was == CM_UP)
		verbs_last_event(qp, WEFT_EV_DISCONNECTED, err, NULL);
	else if (was == CM_CONNECTING)
		verbs_last_event(qp, WEFT_EV_CONNECT_ERROR, err != 0 ? err : -ECONNRESET, NULL);
}

/* ---- Active open ---- */

void
weft_verbs_connect_forget(struct weft_qp *qp)
{
	if (qp->connect == NULL)
		return;
	weft_timer_cancel(&qp->vw->sched.wheel, &qp->timer);
	free(qp->connect);
	qp->connect = NULL;
	/* MPA has not taken over the connection yet, so verbs resets it. */
	if (qp->conn != NULL && weft_rdmap_ddp(qp->rdmap)->mpa->tcp == NULL)
		weft_tcp_abort(qp->conn, qp->vw->sched.now_ns);
	qp->conn = NULL;
}

/** The active open failed: the QP ends, with everything that was posted. */
static void
verbs_connect_fail(struct weft_qp *qp, int err)
{
	weft_verbs_down(qp, err);
	weft_verbs_qp_abort_later(qp);
}

static void
verbs_tcp_established(void *user)
{
	struct weft_qp *qp = user;
	struct verbs_connect *cr = qp->connect;
	struct weft_ddp *ddp = weft_rdmap_ddp(qp->rdmap);
	uint64_t now_ns = qp->vw->sched.now_ns;
	struct weft_mpa_attr ma = {
	        .rev = cr->mpa_rev,
	        .ird = qp->ird,
	        .ord = qp->ord,
	        .pdata = cr->private_data,
	        .pdata_len_bytes = cr->private_data_bytes,
	        .p2p = cr->mpa.p2p,
	        .opts = weft_verbs_mpa_opts(&cr->mpa),
	};
	uint64_t left_us =
	        cr->deadline_ns > now_ns ? (cr->deadline_ns - now_ns) / WEFT_NS_PER_US : 0;
	int rc;

	if (cr->mpa.own_depths)
		ma.ird = ma.ord = WEFT_MPA_IRD_ORD_NONE;
	/* The QP's timer limits the whole start-up, so MPA's timer must not expire first. */
	ma.startup_timeout_us = (uint32_t)RTE_MIN(left_us + 1000000, (uint64_t)UINT32_MAX);
	weft_verbs_keepalive(qp, cr->keepalive_us);
	rc = weft_mpa_start(ddp->mpa, qp->conn, &qp->vw->sched, &ma, &weft_ddp_mpa_ops, ddp,
	                    now_ns);
	if (rc < 0)
		verbs_connect_fail(qp, rc);
}

static void
verbs_tcp_closed(void *user, int err)
{
	struct weft_qp *qp = user;

	qp->conn = NULL;
	verbs_connect_fail(qp, err);
}

/* Up-calls that come before `established` only if the peer violates TCP. */

static void
verbs_tcp_rx(void *user, struct rte_mbuf *m, uint64_t now_ns)
{
	(void)user;
	(void)now_ns;
	rte_pktmbuf_free(m);
}

static void
verbs_tcp_nothing(void *user)
{
	(void)user;
}

static void
verbs_tcp_mss(void *user, uint16_t mss_bytes)
{
	(void)user;
	(void)mss_bytes;
}

static const struct weft_tcp_conn_ops verbs_tcp_ops = {
        .established = verbs_tcp_established,
        .rx = verbs_tcp_rx,
        .writable = verbs_tcp_nothing,
        .mss = verbs_tcp_mss,
        .eof = verbs_tcp_nothing,
        .closed = verbs_tcp_closed,
};

static void
verbs_connect_timeout(struct weft_timer *t, uint64_t now_ns)
{
	struct weft_qp *qp = container_of(t, struct weft_qp, timer);

	(void)now_ns;
	verbs_connect_fail(qp, -ETIMEDOUT);
}

static struct weft_netif *
verbs_route(const struct weft_vworker *vw, const struct weft_ip *dst)
{
	for (unsigned int via_gw = 0; via_gw < 2; via_gw++)
		for (unsigned int i = 0; i < vw->nnif; i++)
			if (weft_netif_reaches(vw->nif[i], dst, via_gw != 0))
				return vw->nif[i];
	return NULL;
}

/** Start one attempt, which lasts until the deadline. */
static int
verbs_connect_try(struct weft_qp *qp)
{
	const struct verbs_connect *cr = qp->connect;
	struct weft_vworker *vw = qp->vw;
	int rc;

	rc = weft_tcp_connect(vw->tcp, verbs_route(vw, &cr->dst), &cr->dst, cr->dst_port,
	                      &verbs_tcp_ops, qp, &qp->conn);
	if (rc < 0) {
		qp->conn = NULL;
		return rc;
	}
	weft_timer_init(&qp->timer, verbs_connect_timeout);
	weft_timer_arm(&vw->sched.wheel, &qp->timer, cr->deadline_ns);
	return 0;
}

/** On the worker. The QP is CONNECTING and owns cr from here on. */
static int
verbs_connect_start(struct weft_qp *qp, struct verbs_connect *cr)
{
	struct weft_vworker *vw = qp->vw;
	int rc;

	qp->connect = cr;
	cr->deadline_ns = vw->sched.now_ns + cr->timeout_us * WEFT_NS_PER_US;
	weft_timer_init(&qp->timer, verbs_connect_timeout);
	pthread_mutex_lock(&vw->ctx->lock);
	qp->snap.remote = cr->dst;
	qp->snap.remote_port = cr->dst_port;
	qp->snap.named = true;
	pthread_mutex_unlock(&vw->ctx->lock);
	rc = verbs_connect_try(qp);
	if (rc < 0)
		weft_verbs_connect_forget(qp);
	return rc;
}

static void
verbs_connect_rev1(struct weft_timer *t, uint64_t now_ns)
{
	struct weft_qp *qp = container_of(t, struct weft_qp, timer);
	int rc = now_ns < qp->connect->deadline_ns ? verbs_connect_try(qp) : -ETIMEDOUT;

	if (rc < 0)
		verbs_connect_fail(qp, rc);
}

/**
 * The first attempt has ended, and its connection is gone. The second one starts in a turn of its
 * own.
 */
static void
verbs_connect_again(struct weft_qp *qp)
{
	struct verbs_connect *cr = qp->connect;
	struct weft_vworker *vw = qp->vw;

	WEFT_LOG_PEER(verbs, INFO,
	              "QP %u: the responder does not speak MPA revision 2; once more in 1",
	              qp->qpn);
	cr->fallback = false;
	cr->mpa_rev = 1;
	vw->stats.mpa_fallbacks++;
	qp->conn = NULL;
	weft_timer_cancel(&vw->sched.wheel, &qp->timer);
	weft_timer_init(&qp->timer, verbs_connect_rev1);
	weft_timer_arm(&vw->sched.wheel, &qp->timer, vw->sched.now_ns);
}

/** RFC 6581 s10, "Enhanced MPA initiator only". */
static bool
verbs_may_fall_back(const struct weft_qp *qp)
{
	return qp->cm == CM_CONNECTING && qp->connect != NULL && qp->connect->fallback &&
	       weft_mpa_peer_is_rev1(weft_rdmap_ddp(qp->rdmap)->mpa);
}

bool
weft_verbs_again(struct weft_qp *qp)
{
	if (!verbs_may_fall_back(qp))
		return false;
	verbs_connect_again(qp);
	return true;
}

static void
verbs_connect_run(struct weft_work_item *m)
{
	struct verbs_connect *cr = container_of(m, struct verbs_connect, work);
	struct weft_qp *qp = cr->qp;

	if (qp->dead || qp->cm != CM_CONNECTING) {
		free(cr);
	} else {
		int rc = verbs_connect_start(qp, cr);

		if (rc < 0)
			verbs_connect_fail(qp, rc);
	}
	weft_verbs_qp_unref(qp);
}

static_assert(WEFT_RTR_FPDU == WEFT_MPA_RTR_FPDU && WEFT_RTR_WRITE == WEFT_MPA_RTR_WRITE &&
                      WEFT_RTR_READ == WEFT_MPA_RTR_READ,
              "one set of numbers");

/**
 * The revision of an active open's Request; -EINVAL. RFC 6581 s10: "MUST NOT use the enhanced RDMA
 * connection establishment formats [...] when no enhanced functionality is desired", and it has no
 * other than the depths and the model.
 */
static int
verbs_mpa_rev(const struct weft_mpa_policy *p)
{
	const bool enhanced = p->p2p || !p->own_depths;

	if (p->rev > 2 || (p->rev == 1 && p->p2p) || (p->rev == 2 && !enhanced))
		return -EINVAL;
	return p->rev == 0 && enhanced ? 2 : RTE_MAX((int)p->rev, 1);
}

int
weft_verbs_mpa_policy(const struct weft_mpa_policy *p, const struct weft_mpa_policy *dflt,
                      struct weft_mpa_policy *out)
{
	*out = *dflt;
	if (p != NULL) {
		int rc = weft_attr_copy(out, sizeof(*out), p);

		if (rc < 0)
			return rc;
	}
	return verbs_mpa_rev(out) < 0 || (out->rtr & ~WEFT_MPA_RTR_ALL) != 0 ? -EINVAL : 0;
}

struct weft_mpa_opts
weft_verbs_mpa_opts(const struct weft_mpa_policy *p)
{
	return (struct weft_mpa_opts){
	        .markers = p->markers,
	        .no_crc = p->no_crc,
	        .rtr = (uint8_t)p->rtr,
	        .fpdu_timeout_us = p->fpdu_timeout_us,
	};
}

int
weft_connect(struct weft_qp *qp, const struct sockaddr *addr, socklen_t addr_len,
             const struct weft_conn_attr *attr)
{
	struct weft_conn_attr a = {0};
	struct weft_mpa_policy mp;
	uint32_t idle = CM_IDLE;
	struct verbs_connect *cr;
	struct weft_ip dst;
	uint16_t port;
	int rc, rev;

	if (WEFT_HANDLE_BAD(qp, QP))
		return -EINVAL;
	if (attr != NULL) {
		rc = weft_attr_copy(&a, sizeof(a), attr);
		if (rc < 0)
			return rc;
	}
	rc = weft_verbs_mpa_policy(a.mpa, &qp->vw->ctx->mpa, &mp);
	if (rc < 0)
		return rc;
	if (a.mpa_rev != 0)
		mp.rev = a.mpa_rev;
	if (a.timeout_us == 0)
		a.timeout_us = VERBS_DEFAULT_TIMEOUT_US;
	rev = verbs_mpa_rev(&mp);
	if (rev < 0 || (a.private_data == NULL && a.private_data_bytes > 0) ||
	    a.private_data_bytes > (rev != 1 ? WEFT_MAX_PRIVATE_DATA : WEFT_MPA_MAX_PDATA))
		return -EINVAL;
	rc = weft_verbs_addr(addr, addr_len, &dst, &port);
	if (rc < 0)
		return rc;
	if (port == 0)
		return -EINVAL;
	if (verbs_route(qp->vw, &dst) == NULL)
		return -ENETUNREACH;
	cr = calloc(1, sizeof(*cr));
	if (cr == NULL)
		return -ENOMEM;
	cr->work.fn = verbs_connect_run;
	cr->qp = qp;
	cr->dst = dst;
	cr->dst_port = port;
	cr->mpa = mp;
	cr->mpa_rev = (uint8_t)rev;
	/* Revision 1 has no RTR, so it does not serve a program that asks for one. */
	cr->fallback = mp.rev == 0 && rev == 2 && !mp.p2p;
	cr->timeout_us = a.timeout_us;
	cr->keepalive_us = a.keepalive_us;
	cr->private_data_bytes = a.private_data_bytes;
	if (a.private_data_bytes > 0)
		memcpy(cr->private_data, a.private_data, a.private_data_bytes);
	if (!__atomic_compare_exchange_n(&qp->cm, &idle, CM_CONNECTING, false, __ATOMIC_ACQ_REL,
	                                 __ATOMIC_RELAXED)) {
		free(cr);
		return -EISCONN;
	}
	if (!weft_vworker_is_mine(qp->vw)) {
		weft_verbs_qp_ref(qp);
		weft_work_send(&qp->vw->work, &cr->work);
		return 0;
	}
	rc = verbs_connect_start(qp, cr);
	if (rc < 0)
		__atomic_store_n(&qp->cm, CM_IDLE, __ATOMIC_RELEASE);
	return rc;
}

void
weft_verbs_reply(struct weft_qp *qp, const struct weft_mpa_frame *rep)
{
	struct weft_mpa *m = weft_rdmap_ddp(qp->rdmap)->mpa;
	const struct weft_term no_ird = {WEFT_TERM_LAYER_LLP, 0, WEFT_MPA_ERR_IRD};
	const struct weft_term no_rtr = {WEFT_TERM_LAYER_LLP, 0, WEFT_MPA_ERR_NO_RTR};
	uint64_t now_ns = qp->vw->sched.now_ns;
	struct weft_tcp_conn *conn = qp->conn;
	uint16_t ord = qp->ord;
	bool depths;

	if (qp->cm != CM_CONNECTING || qp->connect == NULL) {
		if (rep->reject)
			weft_mpa_close(m, now_ns);
		return;
	}
	if (rep->reject && verbs_may_fall_back(qp)) {
		/* The responder refused a Request that it does not understand. */
		weft_mpa_abort(m, now_ns);
		verbs_connect_again(qp);
		return;
	}
	if (rep->reject) {
		/*
		 * RFC 5044 s7.1.2: TCP is still open, and the initiator closes it, because it has
		 * no other use for it.
		 */
		verbs_last_event(qp, WEFT_EV_REJECTED, -ECONNREFUSED, rep);
		weft_mpa_close(m, now_ns);
		return;
	}
	depths = rep->enhanced && !qp->connect->mpa.own_depths;
	weft_verbs_connect_forget(qp);
	qp->conn = conn;
	/* RFC 6581 s9.1: limit ORD to the responder's IRD; 0x3fff does not limit it. */
	if (depths && rep->ird != WEFT_MPA_IRD_ORD_NONE)
		ord = RTE_MIN(ord, rep->ird);
	if (m->rtr != 0)
		weft_rdmap_rtr(qp->rdmap, m->rtr);
	weft_verbs_up(qp, qp->ird, ord, rep);
	/* "If the initiator does not have sufficient resources for the required IRD, it MUST send
	 * a TERM message": layer 2, type 0, code 6. */
	if (depths && rep->ord != WEFT_MPA_IRD_ORD_NONE && rep->ord > qp->ird)
		weft_rdmap_terminate(qp->rdmap, &no_ird, now_ns);
	/* s9.2: the same without a common model or RTR; code 7. */
	else if (m->p2p && m->rtr == 0)
		weft_rdmap_terminate(qp->rdmap, &no_rtr, now_ns);
}

/* ---- Disconnecting ---- */

struct verbs_disconnect {
	struct weft_work_item work;
	struct weft_qp *qp;
};

static void
verbs_disconnect(struct weft_qp *qp)
{
	if (qp->cm == CM_UP) {
		if (qp->conn != NULL && !qp->keepalive)
			weft_verbs_keepalive(qp, VERBS_CLOSE_KEEPALIVE_US);
		weft_rdmap_close(qp->rdmap, qp->vw->sched.now_ns);
	} else if (qp->cm == CM_CONNECTING) {
		verbs_connect_fail(qp, -ECONNABORTED);
	}
}

static void
verbs_disconnect_run(struct weft_work_item *m)
{
	struct verbs_disconnect *d = container_of(m, struct verbs_disconnect, work);

	if (!d->qp->dead)
		verbs_disconnect(d->qp);
	weft_verbs_qp_unref(d->qp);
	free(d);
}

int
weft_disconnect(struct weft_qp *qp)
{
	struct verbs_disconnect *d;
	uint32_t cm;

	if (WEFT_HANDLE_BAD(qp, QP))
		return -EINVAL;
	cm = __atomic_load_n(&qp->cm, __ATOMIC_ACQUIRE);
	if (cm != CM_UP && cm != CM_CONNECTING)
		return -ENOTCONN;
	if (weft_vworker_is_mine(qp->vw)) {
		/* Earlier posts of other threads are sent first. */
		weft_verbs_take_posts(qp);
		verbs_disconnect(qp);
		return 0;
	}
	d = malloc(sizeof(*d));
	if (d == NULL)
		return -ENOMEM;
	d->work.fn = verbs_disconnect_run;
	d->qp = qp;
	weft_verbs_qp_ref(qp);
	weft_work_send(&qp->vw->work, &d->work);
	return 0;
}

int
weft_abort(struct weft_qp *qp)
{
	if (WEFT_HANDLE_BAD(qp, QP))
		return -EINVAL;
	if (!weft_vworker_is_mine(qp->vw))
		return -EPERM;
	if (qp->cm != CM_UP && qp->cm != CM_CONNECTING)
		return -ENOTCONN;
	weft_verbs_qp_abort_later(qp);
	return 0;
}
