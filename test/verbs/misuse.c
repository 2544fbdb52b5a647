/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Handles of every kind, live and destroyed, for the tests of misuse. */

#include <weft/stream.h>
#include "misuse.h"

#define RIGHTS                                                                                     \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_MW_BIND)

const size_t misuse_sizes[MISUSE_SIZES] = {0,     4,       sizeof(size_t), sizeof(size_t) + 5,
                                           65544, SIZE_MAX};

static void
nothing(void *arg)
{
	(void)arg;
}

static struct weft_listener *
listen_at(struct misuse *m, uint16_t port)
{
	struct weft_listen_attr la = {.size = sizeof(la), .evq = m->evq};
	struct sockaddr_in sa = vt_addr(0, port);
	struct weft_listener *l;

	CHECK_EQ(weft_listen(m->ctx, (struct sockaddr *)&sa, sizeof(sa), &la, &l), 0);
	return l;
}

/** Node 1 connects to node 0. Returns node 0's connection request. */
static struct weft_connreq *
call_in(struct misuse *m)
{
	struct weft_qp_attr qa = vt_qp_attr(&m->t.n[1]);
	struct sockaddr_in sa = vt_addr(0, VT_PORT + 1);
	struct weft_qp *qp;

	CHECK_EQ(weft_qp_create(m->t.n[1].pd, &qa, &qp), 0);
	CHECK_EQ(weft_connect(qp, (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
	return vt_ev(&m->t.n[0], WEFT_EV_CONNECT_REQUEST).connreq;
}

static void
stream_received(void *user, const void *data, size_t bytes)
{
	(void)user;
	(void)data;
	(void)bytes;
}

static void
stream_ended(void *user, int status)
{
	(void)user;
	(void)status;
}

static const struct weft_stream_ops stream_ops = {
        .received = stream_received, .writable = nothing, .eof = nothing, .ended = stream_ended};

static int
stream_accept(void *user, struct weft_stream *s, struct weft_worker *w,
              const struct sockaddr_storage *remote)
{
	(void)w;
	(void)remote;
	*(void **)user = s;
	return weft_stream_set_user(s, &stream_ops, NULL);
}

/** Two listeners of streams of node 1, and two streams: one each is destroyed. */
static void
streams(struct misuse *m)
{
	struct weft_stream_listen_attr la = {.size = sizeof(la), .accept = stream_accept};
	struct sockaddr_in sa = vt_addr(1, VT_PORT + 3);
	struct weft_stream_listener *l;

	for (unsigned int i = 0; i < 2; i++) {
		void **at = i == 0 ? m->dead : m->live;

		la.user = &at[MISUSE_STREAM];
		CHECK_EQ(weft_stream_listen(m->t.n[1].ctx, (struct sockaddr *)&sa, sizeof(sa), &la,
		                            &l),
		         0);
		vt_tcp_open(&m->t, &m->peer[i], VT_PORT + 3);
		vt_run(&m->t, VT_MS);
		CHECK(at[MISUSE_STREAM] != NULL);
		at[MISUSE_STREAM_LISTENER] = l;
		if (i == 0) {
			weft_stream_abort(at[MISUSE_STREAM]);
			weft_stream_unlisten(l);
		}
	}
}

/** A destroyed context, and a worker that was destroyed with it. */
static void
dead_ctx(struct misuse *m)
{
	struct weft_rand r = sim_rand(m->t.sim, 9);
	struct weft_worker_attr wa = {.size = sizeof(wa), .lcore = -1};
	struct weft_worker *w;
	struct weft_ctx *ctx;

	CHECK_EQ(weft_engine_ctx_create(NULL, &r, NULL, &ctx), 0);
	CHECK_EQ(weft_engine_worker_create(ctx, &wa, NULL, &r, VT_S, &w), 0);
	weft_engine_poll_at(w, VT_S);
	weft_ctx_destroy(ctx);
	m->dead[MISUSE_CTX] = ctx;
	m->dead[MISUSE_WORKER] = w;
}

static void
dead_mrs(struct misuse *m, const struct weft_mr_attr *ma)
{
	struct weft_mr *mr;
	struct weft_mw *mw;
	struct weft_pd *pd;

	CHECK_EQ(weft_pd_alloc(m->ctx, &pd), 0);
	CHECK_EQ(weft_mr_reg(pd, ma, &mr), 0);
	CHECK_EQ(weft_mw_alloc(pd, &mw), 0);
	weft_mw_dealloc(mw);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	CHECK_EQ(weft_pd_dealloc(pd), 0);
	m->dead[MISUSE_PD] = pd;
	m->dead[MISUSE_MR] = mr;
	m->dead[MISUSE_MW] = mw;
}

static void
dead_queues(struct misuse *m)
{
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 8};
	struct weft_evq_attr ea = {.size = sizeof(ea)};
	struct weft_srq_attr sa = {.size = sizeof(sa)};
	struct weft_qp_attr qa = vt_qp_attr(&m->t.n[0]);
	struct weft_srq *srq;
	struct weft_evq *evq;
	struct weft_cq *cq;
	struct weft_qp *qp;

	CHECK_EQ(weft_cq_create(m->ctx, &ca, &cq), 0);
	CHECK_EQ(weft_evq_create(m->ctx, &ea, &evq), 0);
	CHECK_EQ(weft_srq_create(m->pd, &sa, &srq), 0);
	qa.send_cq = qa.recv_cq = cq;
	qa.evq = evq;
	qa.srq = srq;
	CHECK_EQ(weft_qp_create(m->pd, &qa, &qp), 0);
	weft_qp_destroy(qp);
	CHECK_EQ(weft_srq_destroy(srq), 0);
	CHECK_EQ(weft_evq_destroy(evq), 0);
	CHECK_EQ(weft_cq_destroy(cq), 0);
	m->dead[MISUSE_QP] = qp;
	m->dead[MISUSE_SRQ] = srq;
	m->dead[MISUSE_EVQ] = evq;
	m->dead[MISUSE_CQ] = cq;
}

void
misuse_open(struct misuse *m)
{
	struct weft_srq_attr sa = {.size = sizeof(sa)};
	struct weft_mr_attr ma = {
	        .size = sizeof(ma), .len_bytes = sizeof(m->mem), .access = RIGHTS};
	struct weft_qp_attr qa;
	struct weft_alarm *al;

	memset(m, 0, sizeof(*m));
	ma.addr = m->mem;
	vt_open(&m->t, NULL);
	m->ctx = m->t.n[0].ctx;
	m->w = m->t.n[0].w;
	m->pd = m->t.n[0].pd;
	m->cq = m->t.n[0].cq;
	m->evq = m->t.n[0].evq;
	vt_connect(&m->t, NULL, NULL);
	m->qp = m->t.n[0].qp;
	qa = vt_qp_attr(&m->t.n[0]);
	CHECK_EQ(weft_qp_create(m->pd, &qa, &m->idle), 0);
	CHECK_EQ(weft_srq_create(m->pd, &sa, &m->srq), 0);
	CHECK_EQ(weft_mr_reg(m->pd, &ma, &m->mr), 0);
	CHECK_EQ(weft_mr_alloc(m->pd, &m->fast), 0);
	CHECK_EQ(weft_mw_alloc(m->pd, &m->mw), 0);
	dead_ctx(m);
	dead_mrs(m, &ma);
	dead_queues(m);
	m->dead[MISUSE_LISTENER] = listen_at(m, VT_PORT + 1);
	weft_unlisten(m->dead[MISUSE_LISTENER]);
	m->live[MISUSE_LISTENER] = listen_at(m, VT_PORT + 1);
	m->dead[MISUSE_CONNREQ] = call_in(m);
	weft_reject(m->dead[MISUSE_CONNREQ], NULL, 0);
	m->live[MISUSE_CONNREQ] = call_in(m);
	streams(m);
	CHECK_EQ(weft_alarm_set(m->w, 1000, nothing, NULL, &al), 0);
	weft_alarm_cancel(al);
	m->dead[MISUSE_ALARM] = al;
	CHECK_EQ(weft_alarm_set(m->w, 3600000000, nothing, NULL, &al), 0);
	m->live[MISUSE_ALARM] = al;
	m->live[MISUSE_CTX] = m->ctx;
	m->live[MISUSE_WORKER] = m->w;
	m->live[MISUSE_PD] = m->pd;
	m->live[MISUSE_MR] = m->mr;
	m->live[MISUSE_MW] = m->mw;
	m->live[MISUSE_CQ] = m->cq;
	m->live[MISUSE_SRQ] = m->srq;
	m->live[MISUSE_EVQ] = m->evq;
	m->live[MISUSE_QP] = m->qp;
	/* This rig creates no ports, logs and RPC objects. For these kinds, the destroyed and the
	 * live handle belong to another kind. */
	for (unsigned int i = 0; i < MISUSE_KINDS; i++) {
		if (m->dead[i] == NULL)
			m->dead[i] = m->dead[MISUSE_PD];
		if (m->live[i] == NULL)
			m->live[i] = m->mr;
	}
}

void
misuse_close(struct misuse *m)
{
	struct weft_worker_stats st;

	/* The misuse did no harm: the live objects work and can be destroyed. */
	weft_worker_stats(m->w, &st);
	CHECK_EQ(st.cq_overruns, 0);
	weft_mw_dealloc(m->mw);
	CHECK_EQ(weft_mr_dereg(m->fast, NULL, NULL), 0);
	CHECK_EQ(weft_mr_dereg(m->mr, NULL, NULL), 0);
	CHECK_EQ(weft_srq_destroy(m->srq), 0);
	weft_qp_destroy(m->idle);
	/* This also frees the connection request that is left. */
	weft_unlisten(m->live[MISUSE_LISTENER]);
	weft_stream_abort(m->live[MISUSE_STREAM]);
	weft_stream_unlisten(m->live[MISUSE_STREAM_LISTENER]);
	vt_run(&m->t, VT_S);
	for (unsigned int i = 0; i < 2; i++) {
		CHECK(m->peer[i].ended);
		vt_tcp_end(&m->peer[i]);
	}
	for (unsigned int i = 0; i < 2; i++) {
		if (m->t.n[i].qp != NULL)
			weft_qp_destroy(m->t.n[i].qp);
		m->t.n[i].qp = NULL;
		if (m->t.n[i].lsn != NULL)
			weft_unlisten(m->t.n[i].lsn);
		m->t.n[i].lsn = NULL;
	}
	vt_run(&m->t, 20 * VT_S);
	for (unsigned int i = 0; i < 2; i++)
		weft_ctx_destroy(m->t.n[i].ctx);
	sim_destroy(m->t.sim);
	CHECK_EQ(rte_mempool_avail_count(m->t.pool), m->t.pool_avail);
}

void *
misuse_bad(const struct misuse *m, enum misuse_kind kind, unsigned int k)
{
	switch (k) {
	case 0:
		return NULL;
	case 1:
		return m->dead[kind];
	case 2:
		return kind == MISUSE_PD ? (void *)m->cq : (void *)m->pd;
	default:
		return (char *)m->live[kind] + 1;
	}
}

void *
misuse_longer(const void *attr, size_t size)
{
	size_t longer = size + sizeof(size);
	uint8_t *a = calloc(1, longer);

	CHECK(a != NULL);
	memcpy(a, attr, size);
	memcpy(a, &longer, sizeof(longer));
	a[longer - 1] = 1;
	return a;
}

bool
misuse_zero(const void *p, size_t len)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < len; i++)
		if (b[i] != 0)
			return false;
	return true;
}
