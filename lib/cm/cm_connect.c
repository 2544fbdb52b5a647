/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The active open: from weft_connect() to the answer of the peer. */

#include <stdlib.h>

#include <rte_mbuf.h>

#include "cm_conn.h"
#include "weft_netif_addr.h"

static void
cm_tcp_established(void *user)
{
	struct weft_qp *qp = user;
	struct cm_connect *cr = qp->conn->connect;
	struct weft_ddp *ddp = weft_rdmap_ddp(qp->rdmap);
	uint64_t now_ns = qp->vw->sched.now_ns;
	struct weft_mpa_attr ma = {
	        .rev = cr->mpa_rev,
	        .ird = qp->ird,
	        .ord = qp->ord,
	        .pdata = cr->private_data,
	        .pdata_len_bytes = cr->private_data_bytes,
	        .p2p = cr->mpa.p2p,
	        .opts = cm_attr_mpa_opts(&cr->mpa),
	};
	uint64_t left_us =
	        cr->deadline_ns > now_ns ? (cr->deadline_ns - now_ns) / WEFT_NS_PER_US : 0;
	int rc;

	if (cr->mpa.own_depths)
		ma.ird = ma.ord = WEFT_MPA_IRD_ORD_NONE;
	/* The timer of the open limits the whole start-up, so MPA's timer must not expire first. */
	ma.startup_timeout_us = (uint32_t)RTE_MIN(left_us + 1000000, (uint64_t)UINT32_MAX);
	cm_conn_keepalive(qp->conn, cr->keepalive_us);
	rc = weft_mpa_start(ddp->mpa, qp->conn->tcp, &qp->vw->sched, &ma, &weft_ddp_mpa_ops, ddp,
	                    now_ns);
	if (rc < 0)
		cm_conn_fail(qp, rc);
}

static void
cm_tcp_closed(void *user, int err)
{
	struct weft_qp *qp = user;

	qp->conn->tcp = NULL;
	cm_conn_fail(qp, err);
}

/* Up-calls that come before `established` only if the peer violates TCP. */

static void
cm_tcp_rx(void *user, struct rte_mbuf *m, uint64_t now_ns)
{
	(void)user;
	(void)now_ns;
	rte_pktmbuf_free(m);
}

static void
cm_tcp_nothing(void *user)
{
	(void)user;
}

static void
cm_tcp_mss(void *user, uint16_t mss_bytes)
{
	(void)user;
	(void)mss_bytes;
}

static const struct weft_tcp_conn_ops cm_tcp_ops = {
        .established = cm_tcp_established,
        .rx = cm_tcp_rx,
        .writable = cm_tcp_nothing,
        .mss = cm_tcp_mss,
        .eof = cm_tcp_nothing,
        .closed = cm_tcp_closed,
};

static void
cm_connect_timeout(struct weft_timer *t, uint64_t now_ns)
{
	(void)now_ns;
	cm_conn_fail(container_of(t, struct cm_connect, timer)->qp, -ETIMEDOUT);
}

static bool
cm_ip_is_none(const struct weft_ip *ip)
{
	static const struct weft_ip none;

	return weft_ip_eq(ip, &none);
}

/** The ends of a connection, as the interface that it takes writes them. */
struct cm_ends {
	struct weft_ip src, dst; /**< src all zero: by the route */
};

/** Bring the ends into the interface's form. False: it has no VLAN of that number. */
static bool
cm_ends_on(const struct weft_netif *nif, struct cm_ends *e)
{
	return weft_netif_zone(nif, &e->dst) && weft_netif_zone(nif, &e->src);
}

/** The interface by which dst is reached, from src if that is given: on-link rather than by a
 * gateway. NULL: there is none. */
static struct weft_netif *
cm_route(const struct weft_vworker *vw, const struct cm_connect *cr, struct cm_ends *e)
{
	for (unsigned int via_gw = 0; via_gw < 2; via_gw++)
		for (unsigned int i = 0; i < vw->cm->nnif; i++) {
			*e = (struct cm_ends){.src = cr->src, .dst = cr->dst};
			if (cm_ends_on(vw->cm->nif[i], e) &&
			    weft_netif_reaches(vw->cm->nif[i],
			                       cm_ip_is_none(&e->src) ? NULL : &e->src, &e->dst,
			                       via_gw != 0))
				return vw->cm->nif[i];
		}
	return NULL;
}

/** Whether a port of the worker has the source address. */
static bool
cm_has_source(const struct weft_vworker *vw, const struct cm_connect *cr)
{
	struct cm_ends e;

	for (unsigned int i = 0; i < vw->cm->nnif; i++) {
		e = (struct cm_ends){.src = cr->src};
		if (weft_netif_zone(vw->cm->nif[i], &e.src) &&
		    weft_netif_is_local(vw->cm->nif[i], &e.src))
			return true;
	}
	return cm_ip_is_none(&cr->src);
}

static int
cm_connect_from(struct cm_connect *cr, struct weft_netif *nif, const struct cm_ends *e,
                uint16_t src_port)
{
	return weft_tcp_connect_as(cr->qp->vw->cm->tcp, nif,
	                           cm_ip_is_none(&e->src) ? NULL : &e->src, src_port, &e->dst,
	                           cr->dst_port, cr->dscp, &cm_tcp_ops, cr->qp, &cr->qp->conn->tcp);
}

/** Start one attempt, which lasts until the deadline. */
static int
cm_connect_try(struct cm_connect *cr)
{
	struct weft_vworker *vw = cr->qp->vw;
	struct weft_cm_conn *c = cr->qp->conn;
	struct cm_ends e;
	struct weft_netif *nif = cm_route(vw, cr, &e);
	int rc;

	/* Its port may have been removed since weft_connect(). */
	if (nif == NULL)
		return -ENETUNREACH;
	rc = cm_connect_from(cr, nif, &e, cr->src_port);
	if (cr->src_port_wish && (rc == -EADDRINUSE || rc == -EADDRNOTAVAIL))
		rc = cm_connect_from(cr, nif, &e, 0);
	if (rc < 0) {
		c->tcp = NULL;
		return rc;
	}
	weft_timer_init(&cr->timer, cm_connect_timeout);
	weft_timer_arm(&vw->sched.wheel, &cr->timer, cr->deadline_ns);
	return 0;
}

/** On the worker. The QP is CONNECTING and owns cr from here on. */
static int
cm_connect_start(struct cm_connect *cr)
{
	struct weft_qp *qp = cr->qp;
	struct weft_vworker *vw = qp->vw;
	int rc;

	qp->conn->connect = cr;
	cr->deadline_ns = vw->sched.now_ns + cr->timeout_us * WEFT_NS_PER_US;
	weft_timer_init(&cr->timer, cm_connect_timeout);
	pthread_mutex_lock(&vw->ctx->lock);
	qp->snap.remote = cr->dst;
	qp->snap.remote_port = cr->dst_port;
	qp->snap.named = true;
	pthread_mutex_unlock(&vw->ctx->lock);
	rc = cm_connect_try(cr);
	if (rc < 0)
		cm_conn_forget_open(qp);
	return rc;
}

static void
cm_connect_rev1(struct weft_timer *t, uint64_t now_ns)
{
	struct cm_connect *cr = container_of(t, struct cm_connect, timer);
	int rc = now_ns < cr->deadline_ns ? cm_connect_try(cr) : -ETIMEDOUT;

	if (rc < 0)
		cm_conn_fail(cr->qp, rc);
}

/**
 * The first attempt has ended, and its connection is gone. The second one starts in a turn of its
 * own.
 */
static void
cm_connect_second(struct weft_qp *qp)
{
	struct cm_connect *cr = qp->conn->connect;
	struct weft_vworker *vw = qp->vw;

	WEFT_LOG_PEER(cm, INFO,
	              "QP %u: the responder does not speak MPA revision 2; once more in 1",
	              qp->qpn);
	cr->fallback = false;
	cr->mpa_rev = 1;
	vw->stats.mpa_fallbacks++;
	qp->conn->tcp = NULL;
	weft_timer_cancel(&vw->sched.wheel, &cr->timer);
	weft_timer_init(&cr->timer, cm_connect_rev1);
	weft_timer_arm(&vw->sched.wheel, &cr->timer, vw->sched.now_ns);
}

/** RFC 6581 s10, "Enhanced MPA initiator only". */
static bool
cm_may_fall_back(const struct weft_qp *qp)
{
	const struct cm_connect *cr = qp->conn->connect;

	return verbs_cm_get(qp) == CM_CONNECTING && cr != NULL && cr->fallback &&
	       weft_mpa_peer_is_rev1(cm_mpa(qp));
}

bool
cm_connect_again(struct weft_qp *qp)
{
	if (!cm_may_fall_back(qp))
		return false;
	cm_connect_second(qp);
	return true;
}

static void
cm_connect_run(struct weft_work_item *m)
{
	struct cm_connect *cr = container_of(m, struct cm_connect, work);
	struct weft_qp *qp = cr->qp;

	if (qp->dead || verbs_cm_get(qp) != CM_CONNECTING) {
		free(cr);
	} else {
		int rc = cm_connect_start(cr);

		if (rc < 0)
			cm_conn_fail(qp, rc);
	}
	weft_verbs_qp_unref(qp);
}

int
weft_connect(struct weft_qp *qp, const struct sockaddr *addr, socklen_t addr_len,
             const struct weft_conn_attr *attr)
{
	struct weft_conn_attr a = {0};
	struct weft_mpa_policy mp;
	uint32_t idle = CM_IDLE;
	struct cm_connect *cr;
	struct cm_ends e, unused;
	uint16_t port, any, ird, ord;
	int rc, rev, dscp;

	if (WEFT_HANDLE_BAD(qp, QP))
		return -EINVAL;
	if (attr != NULL) {
		rc = weft_attr_copy(&a, sizeof(a), attr);
		if (rc < 0)
			return rc;
	}
	rc = weft_cm_mpa_policy(a.mpa, &qp->vw->ctx->cm->mpa, &mp);
	if (rc < 0)
		return rc;
	if (a.mpa_rev != 0)
		mp.rev = a.mpa_rev;
	if (a.timeout_us == 0)
		a.timeout_us = CM_DEFAULT_TIMEOUT_US;
	rev = cm_attr_mpa_rev(&mp);
	if (rev < 0 || (a.private_data == NULL && a.private_data_bytes > 0) ||
	    a.private_data_bytes > (rev != 1 ? WEFT_MAX_PRIVATE_DATA : WEFT_MPA_MAX_PDATA))
		return -EINVAL;
	memset(&e, 0, sizeof(e));
	rc = cm_attr_addr(addr, addr_len, &e.dst, &port);
	if (rc == 0 && a.local.ss_family != 0)
		rc = cm_attr_addr((const struct sockaddr *)&a.local, sizeof(a.local), &e.src, &any);
	if (rc < 0)
		return rc;
	ird = qp->ird;
	ord = qp->ord;
	if (port == 0 || !cm_attr_dscp(a.dscp, &dscp) || !cm_attr_depth(a.ird, &ird) ||
	    !cm_attr_depth(a.ord, &ord) ||
	    (a.local.ss_family != 0 && weft_ip_is_v4(&e.src) != weft_ip_is_v4(&e.dst)))
		return -EINVAL;
	cr = calloc(1, sizeof(*cr));
	if (cr == NULL)
		return -ENOMEM;
	cr->src = e.src;
	cr->dst = e.dst;
	if (!cm_has_source(qp->vw, cr) || cm_route(qp->vw, cr, &unused) == NULL) {
		rc = cm_has_source(qp->vw, cr) ? -ENETUNREACH : -EADDRNOTAVAIL;
		free(cr);
		return rc;
	}
	cr->work.fn = cm_connect_run;
	cr->qp = qp;
	cr->dst_port = port;
	cr->src_port = a.local_port;
	cr->src_port_wish = a.local_port != 0 && a.local_port_wish;
	cr->mpa = mp;
	cr->mpa_rev = (uint8_t)rev;
	/* Revision 1 has no RTR, so it does not serve a program that asks for one. */
	cr->fallback = mp.rev == 0 && rev == 2 && !mp.p2p;
	cr->timeout_us = a.timeout_us;
	cr->keepalive_us = a.keepalive_us;
	cr->dscp = dscp;
	cr->private_data_bytes = a.private_data_bytes;
	if (a.private_data_bytes > 0)
		memcpy(cr->private_data, a.private_data, a.private_data_bytes);
	if (!atomic_compare_exchange_strong_explicit(&qp->cm, &idle, CM_CONNECTING,
	                                             memory_order_acq_rel, memory_order_relaxed)) {
		free(cr);
		return -EISCONN;
	}
	/* The QP is this call's alone until its worker has the request. */
	qp->ird = ird;
	qp->ord = ord;
	if (!weft_vworker_is_mine(qp->vw)) {
		weft_verbs_qp_ref(qp);
		weft_work_send(&qp->vw->work, &cr->work);
		return 0;
	}
	rc = cm_connect_start(cr);
	if (rc < 0)
		atomic_store_explicit(&qp->cm, CM_IDLE, memory_order_release);
	return rc;
}

void
cm_connect_reply(struct weft_qp *qp, const struct weft_mpa_frame *rep)
{
	struct weft_cm_conn *c = qp->conn;
	struct weft_mpa *m = cm_mpa(qp);
	const struct weft_term no_ird = {WEFT_TERM_LAYER_LLP, 0, WEFT_MPA_ERR_IRD};
	const struct weft_term no_rtr = {WEFT_TERM_LAYER_LLP, 0, WEFT_MPA_ERR_NO_RTR};
	uint64_t now_ns = qp->vw->sched.now_ns;
	struct weft_tcp_conn *tcp = c->tcp;
	uint16_t ord = qp->ord;
	bool depths;

	if (verbs_cm_get(qp) != CM_CONNECTING || c->connect == NULL) {
		if (rep->reject)
			weft_mpa_close(m, now_ns);
		return;
	}
	if (rep->reject && cm_may_fall_back(qp)) {
		/* The responder refused a Request that it does not understand. */
		weft_mpa_abort(m, now_ns);
		cm_connect_second(qp);
		return;
	}
	if (rep->reject) {
		/*
		 * RFC 5044 s7.1.2: TCP is still open, and the initiator closes it, because it has
		 * no other use for it.
		 */
		cm_conn_last_event(qp, WEFT_EV_REJECTED, -ECONNREFUSED, rep);
		weft_mpa_close(m, now_ns);
		return;
	}
	depths = rep->enhanced && !c->connect->mpa.own_depths;
	cm_conn_forget_open(qp);
	c->tcp = tcp;
	/* RFC 6581 s9.1: limit ORD to the responder's IRD; 0x3fff does not limit it. */
	if (depths && rep->ird != WEFT_MPA_IRD_ORD_NONE)
		ord = RTE_MIN(ord, rep->ird);
	if (m->rtr != 0)
		weft_rdmap_rtr(qp->rdmap, m->rtr);
	cm_conn_up(qp, qp->ird, ord, rep);
	/* "If the initiator does not have sufficient resources for the required IRD, it MUST send
	 * a TERM message": layer 2, type 0, code 6. */
	if (depths && rep->ord != WEFT_MPA_IRD_ORD_NONE && rep->ord > qp->ird)
		weft_rdmap_terminate(qp->rdmap, &no_ird, now_ns);
	/* s9.2: the same without a common model or RTR; code 7. */
	else if (m->p2p && m->rtr == 0)
		weft_rdmap_terminate(qp->rdmap, &no_rtr, now_ns);
}
