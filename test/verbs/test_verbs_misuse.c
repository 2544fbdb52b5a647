/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Misuse of every verb: the promises at the head of weft/verbs.h ("Misuse"). */

#include "misuse.h"
#include <weft/commit.h>
#include <weft/revoke.h>
#include <weft/standing.h>
#include <weft/stream.h>
#include <weft/bad_range.h>

#define ADDR(port)                                                                                 \
	(&(struct sockaddr_in){.sin_family = AF_INET,                                              \
	                       .sin_port = htons(port),                                            \
	                       .sin_addr.s_addr = htonl(0x0a000001)})
#define SA(port) (const struct sockaddr *)ADDR(port), sizeof(struct sockaddr_in)

/** A refused call returns an error and leaves the pointer for the handle unchanged. */
static void *untouched = &untouched;
#define OUT(type) ((struct type **)(void *)&untouched)

/* ---- Domains, regions, windows ---- */

MISUSE(weft_pd_alloc)
{
	struct weft_ctx *h;

	EACH_BAD(m, h, CTX)
	CHECK_EQ(weft_pd_alloc(h, OUT(weft_pd)), -EINVAL);
	CHECK_EQ(weft_pd_alloc(m->ctx, NULL), -EINVAL);
}

MISUSE(weft_pd_alloc_attr)
{
	struct weft_pd_attr pa = {.size = sizeof(pa)};
	struct weft_ctx *h;

	EACH_BAD(m, h, CTX)
	CHECK_EQ(weft_pd_alloc_attr(h, &pa, OUT(weft_pd)), -EINVAL);
	CHECK_EQ(weft_pd_alloc_attr(m->ctx, NULL, OUT(weft_pd)), -EINVAL);
	CHECK_EQ(weft_pd_alloc_attr(m->ctx, &pa, NULL), -EINVAL);
	BAD_ATTR(weft_pd_attr, pa, weft_pd_alloc_attr(m->ctx, a, OUT(weft_pd)));
}

MISUSE(weft_pd_dealloc)
{
	struct weft_pd *h;

	EACH_BAD(m, h, PD)
	CHECK_EQ(weft_pd_dealloc(h), -EINVAL);
	/* Refused, the domain is unchanged. */
	CHECK_EQ(weft_pd_dealloc(m->pd), -EBUSY);
	CHECK_EQ(weft_pd_dealloc(m->pd), -EBUSY);
}

MISUSE(weft_pd_query)
{
	BAD_QUERY(m, weft_pd, PD, weft_pd_query, weft_pd_info);
}
MISUSE(weft_ctx_query)
{
	BAD_QUERY(m, weft_ctx, CTX, weft_ctx_query, weft_ctx_info);
}

MISUSE(weft_mr_reg)
{
	struct weft_mr_attr ra = {.size = sizeof(ra), .addr = m->mem, .len_bytes = 8};
	struct weft_pd *h;

	EACH_BAD(m, h, PD)
	CHECK_EQ(weft_mr_reg(h, &ra, OUT(weft_mr)), -EINVAL);
	CHECK_EQ(weft_mr_reg(m->pd, NULL, OUT(weft_mr)), -EINVAL);
	CHECK_EQ(weft_mr_reg(m->pd, &ra, NULL), -EINVAL);
	BAD_ATTR(weft_mr_attr, ra, weft_mr_reg(m->pd, a, OUT(weft_mr)));
	ra.addr = NULL;
	CHECK_EQ(weft_mr_reg(m->pd, &ra, OUT(weft_mr)), -EINVAL);
}

static unsigned int freed_calls;

static void
count_freed(void *arg)
{
	(void)arg;
	freed_calls++;
}

MISUSE(weft_mr_dereg)
{
	struct weft_mr_attr ra = {.size = sizeof(ra), .addr = m->mem, .len_bytes = 8};
	struct weft_mr *h;

	freed_calls = 0;
	EACH_BAD(m, h, MR)
	CHECK_EQ(weft_mr_dereg(h, count_freed, NULL), -EINVAL);
	CHECK_EQ(weft_mr_reg(m->pd, &ra, &h), 0);
	CHECK_EQ(weft_mr_dereg(h, count_freed, NULL), 0);
	/* Before freed() is called, and after. */
	CHECK_EQ(weft_mr_dereg(h, count_freed, NULL), -EINVAL);
	vt_run(&m->t, VT_S);
	CHECK_EQ(weft_mr_dereg(h, count_freed, NULL), -EINVAL);
	CHECK_EQ(freed_calls, 1);
	CHECK_EQ(weft_mr_alloc(m->pd, &h), 0);
	CHECK_EQ(weft_mr_dereg(h, NULL, NULL), 0);
	CHECK_EQ(weft_mr_dereg(h, count_freed, NULL), -EINVAL);
	CHECK_EQ(freed_calls, 1);
}

MISUSE(weft_mr_stag)
{
	struct weft_mr *h;

	EACH_BAD(m, h, MR)
	CHECK_EQ(weft_mr_stag(h), 0);
	CHECK(weft_mr_stag(m->mr) != 0);
}

MISUSE(weft_mr_alloc)
{
	struct weft_pd *h;

	EACH_BAD(m, h, PD)
	CHECK_EQ(weft_mr_alloc(h, OUT(weft_mr)), -EINVAL);
	CHECK_EQ(weft_mr_alloc(m->pd, NULL), -EINVAL);
}

MISUSE(weft_mr_alloc_keyed)
{
	struct weft_pd *h;

	EACH_BAD(m, h, PD)
	CHECK_EQ(weft_mr_alloc_keyed(h, "key", 3, OUT(weft_mr)), -EINVAL);
	CHECK_EQ(weft_mr_alloc_keyed(m->pd, "key", 3, NULL), -EINVAL);
	CHECK_EQ(weft_mr_alloc_keyed(m->pd, NULL, 3, OUT(weft_mr)), -EINVAL);
}

MISUSE(weft_mr_next_stag)
{
	struct weft_mr *h;

	EACH_BAD(m, h, MR)
	CHECK_EQ(weft_mr_next_stag(h), 0);
}

MISUSE(weft_mr_query)
{
	BAD_QUERY(m, weft_mr, MR, weft_mr_query, weft_mr_info);
}

MISUSE(weft_mw_alloc)
{
	struct weft_pd *h;

	EACH_BAD(m, h, PD)
	CHECK_EQ(weft_mw_alloc(h, OUT(weft_mw)), -EINVAL);
	CHECK_EQ(weft_mw_alloc(m->pd, NULL), -EINVAL);
}

MISUSE(weft_mw_dealloc)
{
	struct weft_pd_info before;
	struct weft_pd_info after;
	struct weft_mw *h;

	weft_pd_query(m->pd, &before);
	EACH_BAD(m, h, MW)
	weft_mw_dealloc(h);
	CHECK_EQ(weft_mw_alloc(m->pd, &h), 0);
	weft_mw_dealloc(h);
	weft_mw_dealloc(h);
	vt_run(&m->t, VT_S);
	weft_mw_dealloc(h);
	weft_pd_query(m->pd, &after);
	CHECK_EQ(after.windows, before.windows);
}

MISUSE(weft_mw_stag)
{
	struct weft_mw *h;

	EACH_BAD(m, h, MW)
	CHECK_EQ(weft_mw_stag(h), 0);
}

MISUSE(weft_mw_next_stag)
{
	struct weft_mw *h;

	EACH_BAD(m, h, MW)
	CHECK_EQ(weft_mw_next_stag(h), 0);
	CHECK(weft_mw_next_stag(m->mw) != 0);
}

MISUSE(weft_mw_keyed_stag)
{
	struct weft_mw *h;

	EACH_BAD(m, h, MW)
	CHECK_EQ(weft_mw_keyed_stag(h, 1), 0);
	CHECK(weft_mw_keyed_stag(m->mw, 0) != 0);
}

MISUSE(weft_mw_query)
{
	BAD_QUERY(m, weft_mw, MW, weft_mw_query, weft_mw_info);
}

MISUSE(weft_mr_revoke)
{
	struct weft_revoke_attr ra = {.size = sizeof(ra)};
	struct weft_worker *w;
	struct weft_mr *h;

	EACH_BAD(m, h, MR)
	CHECK_EQ(weft_mr_revoke(h, &ra), -EINVAL);
	BAD_ATTR(weft_revoke_attr, ra, weft_mr_revoke(m->mr, a));
	EACH_BAD(m, w, WORKER)
	{
		ra.worker = w;
		if (w != NULL)
			CHECK_EQ(weft_mr_revoke(m->mr, &ra), -EINVAL);
	}
}

MISUSE(weft_mr_revoke_go)
{
	struct weft_mr *h;

	EACH_BAD(m, h, MR)
	CHECK_EQ(weft_mr_revoke_go(h), -EINVAL);
	CHECK_EQ(weft_mr_revoke_go(m->mr), -ENOENT);
}

MISUSE(weft_mr_bad_ranges)
{
	struct weft_bad_range s;
	struct weft_mr *h;

	EACH_BAD(m, h, MR)
	CHECK_EQ(weft_mr_bad_ranges(h, &s, 1), 0);
	CHECK_EQ(weft_mr_bad_ranges(m->mr, NULL, 1), 0);
}

MISUSE(weft_mr_clear_bad_ranges)
{
	struct weft_mr *h;

	EACH_BAD(m, h, MR)
	CHECK_EQ(weft_mr_clear_bad_ranges(h, 0, 1), -EINVAL);
}

/* ---- Queues ---- */

MISUSE(weft_cq_create)
{
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 8};
	struct weft_ctx *h;

	EACH_BAD(m, h, CTX)
	CHECK_EQ(weft_cq_create(h, &ca, OUT(weft_cq)), -EINVAL);
	CHECK_EQ(weft_cq_create(m->ctx, NULL, OUT(weft_cq)), -EINVAL);
	CHECK_EQ(weft_cq_create(m->ctx, &ca, NULL), -EINVAL);
	BAD_ATTR(weft_cq_attr, ca, weft_cq_create(m->ctx, a, OUT(weft_cq)));
}

static void
destroy_cq(void *arg)
{
	CHECK_EQ(weft_cq_destroy(arg), -EINVAL);
}

MISUSE(weft_cq_destroy)
{
	struct weft_cq *h;

	EACH_BAD(m, h, CQ)
	CHECK_EQ(weft_cq_destroy(h), -EINVAL);
	misuse_elsewhere(destroy_cq, m->dead[MISUSE_CQ]);
	/* Refused, the CQ is unchanged. */
	CHECK_EQ(weft_cq_destroy(m->cq), -EBUSY);
	CHECK_EQ(weft_cq_destroy(m->cq), -EBUSY);
	CHECK_EQ(weft_cq_fd(m->cq), -1);
}

MISUSE(weft_cq_poll)
{
	struct weft_wc wc;
	struct weft_cq *h;

	EACH_BAD(m, h, CQ)
	{
		if (k_ == 3 || k_ == 2)
			continue; /* promised only for NULL and a destroyed handle */
		CHECK_EQ(weft_cq_poll(h, &wc, 1), -EINVAL);
		CHECK_EQ(weft_cq_poll(h, NULL, 0), -EINVAL);
	}
	CHECK_EQ(weft_cq_poll(m->cq, NULL, 1), -EINVAL);
	CHECK_EQ(weft_cq_poll(m->cq, NULL, 0), 0);
}

MISUSE(weft_cq_arm)
{
	struct weft_cq *h;

	EACH_BAD(m, h, CQ)
	CHECK_EQ(weft_cq_arm(h, false), -EINVAL);
	CHECK_EQ(weft_cq_arm(m->cq, false), -ENOTSUP);
}

MISUSE(weft_cq_query)
{
	BAD_QUERY(m, weft_cq, CQ, weft_cq_query, weft_cq_info);
}

MISUSE(weft_cq_fd)
{
	struct weft_cq *h;

	EACH_BAD(m, h, CQ)
	CHECK_EQ(weft_cq_fd(h), -EINVAL);
}

MISUSE(weft_srq_create)
{
	struct weft_srq_attr sa = {.size = sizeof(sa)};
	struct weft_evq *evq;
	struct weft_pd *h;

	EACH_BAD(m, h, PD)
	CHECK_EQ(weft_srq_create(h, &sa, OUT(weft_srq)), -EINVAL);
	CHECK_EQ(weft_srq_create(m->pd, NULL, OUT(weft_srq)), -EINVAL);
	CHECK_EQ(weft_srq_create(m->pd, &sa, NULL), -EINVAL);
	BAD_ATTR(weft_srq_attr, sa, weft_srq_create(m->pd, a, OUT(weft_srq)));
	EACH_BAD(m, evq, EVQ)
	{
		sa.evq = evq;
		if (evq != NULL)
			CHECK_EQ(weft_srq_create(m->pd, &sa, OUT(weft_srq)), -EINVAL);
	}
}

MISUSE(weft_srq_destroy)
{
	struct weft_srq *h;

	EACH_BAD(m, h, SRQ)
	CHECK_EQ(weft_srq_destroy(h), -EINVAL);
}

MISUSE(weft_srq_modify)
{
	struct weft_srq *h;

	EACH_BAD(m, h, SRQ)
	CHECK_EQ(weft_srq_modify(h, 0), -EINVAL);
}

MISUSE(weft_srq_query)
{
	BAD_QUERY(m, weft_srq, SRQ, weft_srq_query, weft_srq_info);
}

MISUSE(weft_post_srq_recv)
{
	struct weft_recv_wr wr = {0};
	struct weft_srq_info before;
	struct weft_srq_info after;
	struct weft_srq *h;

	weft_srq_query(m->srq, &before);
	EACH_BAD(m, h, SRQ)
	{
		if (k_ == 3 || k_ == 2)
			continue; /* as above */
		CHECK_EQ(weft_post_srq_recv(h, &wr, 1), -EINVAL);
		CHECK_EQ(weft_post_srq_recv(h, NULL, 0), -EINVAL);
	}
	CHECK_EQ(weft_post_srq_recv(m->srq, NULL, 1), -EINVAL);
	CHECK_EQ(weft_post_srq_recv(m->srq, NULL, 0), 0);
	wr.num_sge = 1;
	CHECK_EQ(weft_post_srq_recv(m->srq, &wr, 1), -EINVAL); /* without a list */
	weft_srq_query(m->srq, &after);
	CHECK_EQ(after.used, before.used);
}

MISUSE(weft_evq_create)
{
	struct weft_evq_attr ea = {.size = sizeof(ea)};
	struct weft_ctx *h;

	EACH_BAD(m, h, CTX)
	CHECK_EQ(weft_evq_create(h, &ea, OUT(weft_evq)), -EINVAL);
	CHECK_EQ(weft_evq_create(m->ctx, NULL, OUT(weft_evq)), -EINVAL);
	CHECK_EQ(weft_evq_create(m->ctx, &ea, NULL), -EINVAL);
	BAD_ATTR(weft_evq_attr, ea, weft_evq_create(m->ctx, a, OUT(weft_evq)));
}

MISUSE(weft_evq_destroy)
{
	struct weft_evq *h;

	EACH_BAD(m, h, EVQ)
	CHECK_EQ(weft_evq_destroy(h), -EINVAL);
	CHECK_EQ(weft_evq_destroy(m->evq), -EBUSY);
	CHECK_EQ(weft_evq_destroy(m->evq), -EBUSY);
	CHECK(weft_evq_fd(m->evq) >= 0);
}

MISUSE(weft_evq_poll)
{
	struct weft_event ev;
	struct weft_evq *h;

	EACH_BAD(m, h, EVQ)
	CHECK_EQ(weft_evq_poll(h, &ev), -EINVAL);
	CHECK_EQ(weft_evq_poll(m->evq, NULL), -EINVAL);
}

MISUSE(weft_evq_fd)
{
	struct weft_evq *h;

	EACH_BAD(m, h, EVQ)
	CHECK_EQ(weft_evq_fd(h), -EINVAL);
}

/* ---- Queue pairs ---- */

MISUSE(weft_qp_create)
{
	struct weft_qp_attr good = vt_qp_attr(&m->t.n[0]);
	struct weft_qp_attr qa = good;
	struct weft_worker *w;
	struct weft_srq *srq;
	struct weft_evq *evq;
	struct weft_cq *cq;
	struct weft_pd *h;

	EACH_BAD(m, h, PD)
	CHECK_EQ(weft_qp_create(h, &qa, OUT(weft_qp)), -EINVAL);
	CHECK_EQ(weft_qp_create(m->pd, NULL, OUT(weft_qp)), -EINVAL);
	CHECK_EQ(weft_qp_create(m->pd, &qa, NULL), -EINVAL);
	BAD_ATTR(weft_qp_attr, good, weft_qp_create(m->pd, a, OUT(weft_qp)));
	EACH_BAD(m, cq, CQ)
	{
		qa.send_cq = cq;
		CHECK_EQ(weft_qp_create(m->pd, &qa, OUT(weft_qp)), -EINVAL);
		qa = good;
		qa.recv_cq = cq;
		CHECK_EQ(weft_qp_create(m->pd, &qa, OUT(weft_qp)), -EINVAL);
		qa = good;
	}
	EACH_BAD(m, evq, EVQ)
	{
		qa.evq = evq;
		CHECK_EQ(weft_qp_create(m->pd, &qa, OUT(weft_qp)), -EINVAL);
		qa = good;
	}
	EACH_BAD(m, w, WORKER)
	{
		qa.worker = w;
		CHECK_EQ(weft_qp_create(m->pd, &qa, OUT(weft_qp)), -EINVAL);
		qa = good;
	}
	EACH_BAD(m, srq, SRQ)
	{
		qa.srq = srq;
		if (srq != NULL)
			CHECK_EQ(weft_qp_create(m->pd, &qa, OUT(weft_qp)), -EINVAL);
	}
}

static void
destroy_qp(void *arg)
{
	weft_qp_destroy(arg);
	weft_qp_destroy(arg);
}

MISUSE(weft_qp_destroy)
{
	struct weft_qp_attr qa = vt_qp_attr(&m->t.n[0]);
	struct weft_ctx_info before;
	struct weft_ctx_info after;
	struct weft_qp *h;

	weft_ctx_query(m->ctx, &before);
	EACH_BAD(m, h, QP)
	weft_qp_destroy(h);
	CHECK_EQ(weft_qp_create(m->pd, &qa, &h), 0);
	/* The worker destroys the QP at its next poll. Until then the handle is invalid, too. */
	misuse_elsewhere(destroy_qp, h);
	weft_qp_destroy(h);
	CHECK_EQ(weft_disconnect(h), -EINVAL);
	vt_run(&m->t, VT_S);
	weft_qp_destroy(h);
	weft_ctx_query(m->ctx, &after);
	CHECK_EQ(after.qps, before.qps);
}

MISUSE(weft_qp_query)
{
	BAD_QUERY(m, weft_qp, QP, weft_qp_query, weft_qp_info);
}

MISUSE(weft_qp_worker)
{
	struct weft_qp *h;

	EACH_BAD(m, h, QP)
	CHECK(weft_qp_worker(h) == NULL);
	CHECK(weft_qp_worker(m->qp) == m->w);
}

MISUSE(weft_qp_user)
{
	struct weft_qp *h;

	EACH_BAD(m, h, QP)
	CHECK(weft_qp_user(h) == NULL);
}

static void
stand_elsewhere(void *qp)
{
	CHECK_EQ(weft_qp_set_standing(qp, WEFT_STANDING_KEPT), -EPERM);
}

MISUSE(weft_qp_set_standing)
{
	struct weft_qp *h;

	EACH_BAD(m, h, QP)
	CHECK_EQ(weft_qp_set_standing(h, WEFT_STANDING_KEPT), -EINVAL);
	CHECK_EQ(weft_qp_set_standing(m->qp, (enum weft_standing)99), -EINVAL);
	misuse_elsewhere(stand_elsewhere, m->qp);
}

MISUSE(weft_post_send)
{
	struct weft_wr wr = {.opcode = WEFT_WR_SEND};
	struct weft_qp_info qi;
	struct weft_mr *mr;
	struct weft_mw *mw;
	struct weft_qp *h;

	EACH_BAD(m, h, QP)
	{
		if (k_ == 3 || k_ == 2)
			continue; /* promised only for NULL and a destroyed handle */
		CHECK_EQ(weft_post_send(h, &wr, 1), -EINVAL);
		CHECK_EQ(weft_post_send(h, NULL, 0), -EINVAL);
	}
	CHECK_EQ(weft_post_send(m->qp, NULL, 1), -EINVAL);
	CHECK_EQ(weft_post_send(m->qp, NULL, 0), 0);
	CHECK_EQ(weft_post_send(m->idle, &wr, 1), -ENOTCONN);
	CHECK_EQ(weft_post_send(m->idle, &wr, 0), 0);
	wr.num_sge = 1;
	CHECK_EQ(weft_post_send(m->qp, &wr, 1), -EINVAL); /* without a list */
	wr.opcode = (enum weft_wr_opcode)99;
	CHECK_EQ(weft_post_send(m->qp, &wr, 1), -EINVAL);
	/* Bad handles inside a work request. */
	EACH_BAD(m, mr, MR)
	{
		wr = (struct weft_wr){.opcode = WEFT_WR_FAST_REG,
		                      .fast_reg = {.mr = mr, .addr = m->mem, .len_bytes = 8}};
		CHECK_EQ(weft_post_send(m->qp, &wr, 1), -EINVAL);
		wr = (struct weft_wr){
		        .opcode = WEFT_WR_BIND_MW,
		        .bind_mw = {.mw = m->mw, .mr = mr, .addr = m->mem, .len_bytes = 8}};
		CHECK_EQ(weft_post_send(m->qp, &wr, 1), -EINVAL);
	}
	EACH_BAD(m, mw, MW)
	{
		wr = (struct weft_wr){
		        .opcode = WEFT_WR_BIND_MW,
		        .bind_mw = {.mw = mw, .mr = m->mr, .addr = m->mem, .len_bytes = 8}};
		CHECK_EQ(weft_post_send(m->qp, &wr, 1), -EINVAL);
	}
	weft_qp_query(m->qp, &qi);
	CHECK_EQ(qi.sq_used, 0);
}

MISUSE(weft_post_recv)
{
	struct weft_qp_attr qa = vt_qp_attr(&m->t.n[0]);
	struct weft_recv_wr wr = {0};
	struct weft_qp *h;

	EACH_BAD(m, h, QP)
	{
		if (k_ == 3 || k_ == 2)
			continue; /* as above */
		CHECK_EQ(weft_post_recv(h, &wr, 1), -EINVAL);
		CHECK_EQ(weft_post_recv(h, NULL, 0), -EINVAL);
	}
	CHECK_EQ(weft_post_recv(m->qp, NULL, 1), -EINVAL);
	CHECK_EQ(weft_post_recv(m->qp, NULL, 0), 0);
	wr.num_sge = 1;
	CHECK_EQ(weft_post_recv(m->qp, &wr, 1), -EINVAL); /* without a list */
	qa.srq = m->srq;
	CHECK_EQ(weft_qp_create(m->pd, &qa, &h), 0);
	wr.num_sge = 0;
	CHECK_EQ(weft_post_recv(h, &wr, 1), -EINVAL);
	CHECK_EQ(weft_post_recv(h, &wr, 0), 0);
	weft_qp_destroy(h);
}

MISUSE(weft_commit)
{
	struct weft_commit c = {.word = {.stag = 1}};
	struct weft_qp *h;

	EACH_BAD(m, h, QP)
	{
		if (k_ == 3 || k_ == 2)
			continue; /* as above */
		CHECK_EQ(weft_commit(h, &c), -EINVAL);
	}
	CHECK_EQ(weft_commit(m->qp, NULL), -EINVAL);
	CHECK_EQ(weft_commit(m->idle, &c), -ENOTCONN);
	c.num_ranges = 1;
	CHECK_EQ(weft_commit(m->qp, &c), -EINVAL); /* without ranges */
}

static void
test_weft_commit_places(void)
{
	CHECK_EQ(weft_commit_places(NULL), -EINVAL);
}

static void
test_weft_commit_hash(void)
{
	uint8_t out[WEFT_HASH_MAX_BYTES] = {0};
	struct weft_sge sg = {.addr = out, .len_bytes = 1};

	CHECK_EQ(weft_commit_hash(NULL, NULL, 0, &sg, 1, out, sizeof(out)), -EINVAL);
	CHECK_EQ(weft_commit_hash("crc32c", NULL, 0, NULL, 1, out, sizeof(out)), -EINVAL);
	CHECK_EQ(weft_commit_hash("crc32c", NULL, 0, &sg, 1, NULL, sizeof(out)), -EINVAL);
	CHECK_EQ(weft_commit_hash("crc32c", NULL, 8, &sg, 1, out, sizeof(out)), -EINVAL);
	CHECK_EQ(weft_commit_hash("none such", NULL, 0, &sg, 1, out, sizeof(out)), -ENOENT);
}

static void
test_weft_terminate_str(void)
{
	struct weft_terminate t = {0};
	char buf[8];

	CHECK_STR(weft_terminate_str(NULL, buf, sizeof(buf)), "?");
	CHECK_STR(weft_terminate_str(&t, NULL, sizeof(buf)), "?");
	CHECK_STR(weft_terminate_str(&t, buf, 0), "?");
}

/* ---- Connections ---- */

MISUSE(weft_listen)
{
	struct weft_listen_attr la = {.size = sizeof(la), .evq = m->evq};
	struct weft_mpa_policy mp = {.size = sizeof(mp)};
	struct weft_evq *evq;
	struct weft_ctx *h;

	EACH_BAD(m, h, CTX)
	CHECK_EQ(weft_listen(h, SA(99), &la, OUT(weft_listener)), -EINVAL);
	CHECK_EQ(weft_listen(m->ctx, NULL, 0, &la, OUT(weft_listener)), -EINVAL);
	CHECK_EQ(weft_listen(m->ctx, (const struct sockaddr *)ADDR(99), 1, &la, OUT(weft_listener)),
	         -EINVAL);
	CHECK_EQ(weft_listen(m->ctx, SA(99), NULL, OUT(weft_listener)), -EINVAL);
	CHECK_EQ(weft_listen(m->ctx, SA(99), &la, NULL), -EINVAL);
	BAD_ATTR(weft_listen_attr, la, weft_listen(m->ctx, SA(99), a, OUT(weft_listener)));
	BAD_ATTR(weft_mpa_policy, mp,
	         (la.mpa = a, weft_listen(m->ctx, SA(99), &la, OUT(weft_listener))));
	la.mpa = NULL;
	EACH_BAD(m, evq, EVQ)
	{
		la.evq = evq;
		CHECK_EQ(weft_listen(m->ctx, SA(99), &la, OUT(weft_listener)), -EINVAL);
	}
}

MISUSE(weft_unlisten)
{
	struct weft_ctx_info before;
	struct weft_ctx_info after;
	struct weft_listener *h;

	weft_ctx_query(m->ctx, &before);
	EACH_BAD(m, h, LISTENER)
	weft_unlisten(h);
	weft_ctx_query(m->ctx, &after);
	CHECK_EQ(after.listeners, before.listeners);
}

/* ---- Streams ---- */

static int
take_stream(void *user, struct weft_stream *s, struct weft_worker *w,
            const struct sockaddr_storage *remote)
{
	(void)user;
	(void)s;
	(void)w;
	(void)remote;
	return 0; /* without callbacks: it is reset */
}

MISUSE(weft_stream_listen)
{
	struct weft_stream_listen_attr la = {.size = sizeof(la), .accept = take_stream};
	struct weft_stream_listener *l;
	struct weft_ctx *h;
	struct vt_tcp p;

	EACH_BAD(m, h, CTX)
	CHECK_EQ(weft_stream_listen(h, SA(99), &la, OUT(weft_stream_listener)), -EINVAL);
	CHECK_EQ(weft_stream_listen(m->ctx, NULL, 0, &la, OUT(weft_stream_listener)), -EINVAL);
	CHECK_EQ(weft_stream_listen(m->ctx, (const struct sockaddr *)ADDR(99), 1, &la,
	                            OUT(weft_stream_listener)),
	         -EINVAL);
	CHECK_EQ(weft_stream_listen(m->ctx, SA(0), &la, OUT(weft_stream_listener)), -EINVAL);
	CHECK_EQ(weft_stream_listen(m->ctx, SA(99), NULL, OUT(weft_stream_listener)), -EINVAL);
	CHECK_EQ(weft_stream_listen(m->ctx, SA(99), &la, NULL), -EINVAL);
	BAD_ATTR(weft_stream_listen_attr, la,
	         weft_stream_listen(m->ctx, SA(99), a, OUT(weft_stream_listener)));
	la.prefix_len = 33;
	CHECK_EQ(weft_stream_listen(m->ctx, SA(99), &la, OUT(weft_stream_listener)), -EINVAL);
	la.prefix_len = 0;
	la.dscp = 1;
	CHECK_EQ(weft_stream_listen(m->ctx, SA(99), &la, OUT(weft_stream_listener)), -EINVAL);
	la.dscp = 0;
	la.accept = NULL;
	CHECK_EQ(weft_stream_listen(m->ctx, SA(99), &la, OUT(weft_stream_listener)), -EINVAL);
	la.accept = take_stream;
	CHECK_EQ(weft_stream_listen(m->t.n[1].ctx,
	                            (const struct sockaddr *)&(struct sockaddr_in){
	                                    .sin_family = AF_INET, .sin_port = htons(VT_PORT + 4)},
	                            sizeof(struct sockaddr_in), &la, &l),
	         0);
	vt_tcp_open(&m->t, &p, VT_PORT + 4);
	vt_run(&m->t, VT_MS);
	CHECK_EQ(p.status, -ECONNRESET);
	vt_tcp_end(&p);
	weft_stream_unlisten(l);
}

MISUSE(weft_stream_unlisten)
{
	struct weft_stream_listener *h;

	EACH_BAD(m, h, STREAM_LISTENER)
	weft_stream_unlisten(h);
}

MISUSE(weft_stream_set_user)
{
	struct weft_stream_ops ops = {NULL};
	struct weft_stream *h;

	EACH_BAD(m, h, STREAM)
	CHECK_EQ(weft_stream_set_user(h, &ops, NULL), -EINVAL);
	CHECK_EQ(weft_stream_set_user(m->live[MISUSE_STREAM], NULL, NULL), -EINVAL);
	CHECK_EQ(weft_stream_set_user(m->live[MISUSE_STREAM], &ops, NULL), -EINVAL);
}

static void
stream_elsewhere(void *arg)
{
	const struct iovec iov = {arg, 1};

	CHECK_EQ(weft_stream_write(arg, &iov, 1), -EPERM);
	CHECK_EQ(weft_stream_close(arg), -EPERM);
	weft_stream_abort(arg);
}

MISUSE(weft_stream_write)
{
	const struct iovec iov = {m->mem, 1};
	struct weft_stream *h;

	EACH_BAD(m, h, STREAM)
	CHECK_EQ(weft_stream_write(h, &iov, 1), -EINVAL);
	CHECK_EQ(weft_stream_write(m->live[MISUSE_STREAM], NULL, 1), -EINVAL);
	CHECK_EQ(weft_stream_write(m->live[MISUSE_STREAM], NULL, 0), 0);
	misuse_elsewhere(stream_elsewhere, m->live[MISUSE_STREAM]);
	CHECK_EQ(weft_stream_write(m->live[MISUSE_STREAM], &iov, 1), 1);
}

MISUSE(weft_stream_close)
{
	struct weft_stream *h;

	EACH_BAD(m, h, STREAM)
	CHECK_EQ(weft_stream_close(h), -EINVAL);
}

MISUSE(weft_stream_abort)
{
	struct weft_stream *h;

	EACH_BAD(m, h, STREAM)
	weft_stream_abort(h);
}

MISUSE(weft_connreq_worker)
{
	struct weft_connreq *h;

	EACH_BAD(m, h, CONNREQ)
	CHECK(weft_connreq_worker(h) == NULL);
	CHECK(weft_connreq_worker(m->live[MISUSE_CONNREQ]) == m->w);
}

MISUSE(weft_connect)
{
	struct weft_conn_attr ca = {.size = sizeof(ca)};
	struct weft_mpa_policy mp = {.size = sizeof(mp)};
	struct weft_qp *h;

	EACH_BAD(m, h, QP)
	CHECK_EQ(weft_connect(h, SA(99), &ca), -EINVAL);
	CHECK_EQ(weft_connect(m->idle, NULL, 0, &ca), -EINVAL);
	BAD_ATTR(weft_conn_attr, ca, a == NULL ? -EINVAL : weft_connect(m->idle, SA(99), a));
	BAD_ATTR(weft_mpa_policy, mp, (ca.mpa = a, weft_connect(m->idle, SA(99), &ca)));
	ca.mpa = NULL;
	ca.private_data_bytes = 1;
	CHECK_EQ(weft_connect(m->idle, SA(99), &ca), -EINVAL);
	struct sockaddr_in peer = vt_addr(1, VT_PORT);
	CHECK_EQ(weft_connect(m->qp, (struct sockaddr *)&peer, sizeof(peer), NULL), -EISCONN);
}

MISUSE(weft_accept)
{
	struct weft_connreq *h;
	struct weft_qp *qp;

	EACH_BAD(m, h, CONNREQ)
	CHECK_EQ(weft_accept(h, m->idle, NULL), -EINVAL);
	/* A bad QP rejects the request and frees it. */
	EACH_BAD(m, qp, QP)
	{
		CHECK_EQ(weft_accept(m->live[MISUSE_CONNREQ], qp, NULL), -EINVAL);
		CHECK(weft_connreq_worker(m->live[MISUSE_CONNREQ]) == NULL);
	}
	CHECK_EQ(weft_accept(m->live[MISUSE_CONNREQ], m->idle, NULL), -EINVAL);
	/* The QP is still unused. */
	CHECK_EQ(weft_disconnect(m->idle), -ENOTCONN);
}

static void
accept_attr(const struct weft_conn_attr *bad)
{
	struct misuse *m = malloc(sizeof(*m));

	misuse_open(m);
	CHECK_EQ(weft_accept(m->live[MISUSE_CONNREQ], m->idle, bad), -EINVAL);
	CHECK_EQ(weft_disconnect(m->idle), -ENOTCONN);
	misuse_close(m);
	free(m);
}

static void
test_accept_attr(void)
{
	struct weft_conn_attr ca = {.size = 0};

	accept_attr(&ca);
	ca.size = sizeof(size_t);
	accept_attr(&ca);
	ca.size = sizeof(ca);
	ca.private_data_bytes = 1;
	accept_attr(&ca);
}

MISUSE(weft_reject)
{
	struct weft_connreq *h;

	EACH_BAD(m, h, CONNREQ)
	weft_reject(h, NULL, 0);
	weft_reject(m->live[MISUSE_CONNREQ], NULL, 7); /* a length without data */
	weft_reject(m->live[MISUSE_CONNREQ], NULL, 0);
	vt_run(&m->t, VT_S);
	weft_reject(m->live[MISUSE_CONNREQ], NULL, 0);
}

MISUSE(weft_reject_depths)
{
	struct weft_connreq *h;

	EACH_BAD(m, h, CONNREQ)
	weft_reject_depths(h, 1, 1, NULL, 0);
	weft_reject_depths(m->live[MISUSE_CONNREQ], 1, 1, NULL, 7);
	weft_reject_depths(m->live[MISUSE_CONNREQ], 1, 1, NULL, 0);
}

MISUSE(weft_disconnect)
{
	struct weft_qp *h;

	EACH_BAD(m, h, QP)
	CHECK_EQ(weft_disconnect(h), -EINVAL);
	CHECK_EQ(weft_disconnect(m->idle), -ENOTCONN);
}

MISUSE(weft_abort)
{
	struct weft_qp *h;

	EACH_BAD(m, h, QP)
	CHECK_EQ(weft_abort(h), -EINVAL);
	CHECK_EQ(weft_abort(m->idle), -ENOTCONN);
}

static void
leave_elsewhere(void *arg)
{
	CHECK_EQ(weft_qp_leave(((struct misuse *)arg)->idle, 1, NULL, NULL), -EPERM);
}

MISUSE(weft_qp_leave)
{
	struct weft_qp *h;

	EACH_BAD(m, h, QP)
	CHECK_EQ(weft_qp_leave(h, 1, NULL, NULL), -EINVAL);
	misuse_elsewhere(leave_elsewhere, m);
}

/* ---- The handles themselves ---- */

/** The last WEFT_HANDLES_KEPT destroyed handles are recognised. The memory of no more handles is
 * kept. */
MISUSE(kept)
{
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 8};
	struct weft_cq *cq[WEFT_HANDLES_KEPT];

	for (unsigned int i = 0; i < WEFT_HANDLES_KEPT; i++)
		CHECK_EQ(weft_cq_create(m->ctx, &ca, &cq[i]), 0);
	for (unsigned int i = 0; i < WEFT_HANDLES_KEPT; i++)
		CHECK_EQ(weft_cq_destroy(cq[i]), 0);
	for (unsigned int i = 0; i < WEFT_HANDLES_KEPT; i++)
		CHECK_EQ(weft_cq_destroy(cq[i]), -EINVAL);
	/* Many more handles are destroyed. The leak checker checks that their memory is freed. */
	for (unsigned int i = 0; i < 4 * WEFT_HANDLES_KEPT; i++) {
		CHECK_EQ(weft_cq_create(m->ctx, &ca, &cq[0]), 0);
		CHECK_EQ(weft_cq_destroy(cq[0]), 0);
	}
}

struct race {
	pthread_barrier_t start;
	struct weft_cq *cq;
	unsigned int won; /**< atomic */
};

static void *
race_main(void *arg)
{
	struct race *r = arg;
	int rc;

	pthread_barrier_wait(&r->start);
	rc = weft_cq_destroy(r->cq);
	if (rc == 0)
		__atomic_fetch_add(&r->won, 1, __ATOMIC_RELAXED);
	else if (rc != -EINVAL)
		__atomic_fetch_add(&r->won, 100, __ATOMIC_RELAXED);
	return NULL;
}

/** Two threads destroy one handle: one call succeeds. */
MISUSE(race)
{
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 8};

	for (unsigned int i = 0; i < 200; i++) {
		struct race r = {.won = 0};
		pthread_t t[2];

		pthread_barrier_init(&r.start, NULL, 2);
		CHECK_EQ(weft_cq_create(m->ctx, &ca, &r.cq), 0);
		for (unsigned int k = 0; k < 2; k++)
			CHECK_EQ(pthread_create(&t[k], NULL, race_main, &r), 0);
		for (unsigned int k = 0; k < 2; k++)
			pthread_join(t[k], NULL);
		CHECK_EQ(r.won, 1);
		pthread_barrier_destroy(&r.start);
	}
}

#define CASE(call)                                                                                 \
	{                                                                                          \
#call, test_##call                                                                 \
	}

WEFT_TEST_MAIN(CASE(weft_pd_alloc), CASE(weft_pd_alloc_attr), CASE(weft_pd_dealloc),
               CASE(weft_pd_query), CASE(weft_ctx_query), CASE(weft_mr_reg), CASE(weft_mr_dereg),
               CASE(weft_mr_stag), CASE(weft_mr_alloc), CASE(weft_mr_alloc_keyed),
               CASE(weft_mr_next_stag), CASE(weft_mr_query), CASE(weft_mw_alloc),
               CASE(weft_mw_dealloc), CASE(weft_mw_stag), CASE(weft_mw_next_stag),
               CASE(weft_mw_keyed_stag), CASE(weft_mw_query), CASE(weft_mr_revoke),
               CASE(weft_mr_revoke_go), CASE(weft_mr_bad_ranges), CASE(weft_mr_clear_bad_ranges),
               CASE(weft_cq_create), CASE(weft_cq_destroy), CASE(weft_cq_poll), CASE(weft_cq_arm),
               CASE(weft_cq_query), CASE(weft_cq_fd), CASE(weft_srq_create), CASE(weft_srq_destroy),
               CASE(weft_srq_modify), CASE(weft_srq_query), CASE(weft_post_srq_recv),
               CASE(weft_evq_create), CASE(weft_evq_destroy), CASE(weft_evq_poll),
               CASE(weft_evq_fd), CASE(weft_qp_create), CASE(weft_qp_destroy), CASE(weft_qp_query),
               CASE(weft_qp_worker), CASE(weft_qp_user), CASE(weft_qp_set_standing),
               CASE(weft_post_send), CASE(weft_post_recv), CASE(weft_commit),
               CASE(weft_commit_places), CASE(weft_commit_hash), CASE(weft_terminate_str),
               CASE(weft_stream_listen), CASE(weft_stream_unlisten), CASE(weft_stream_set_user),
               CASE(weft_stream_write), CASE(weft_stream_close), CASE(weft_stream_abort),
               CASE(weft_listen), CASE(weft_unlisten), CASE(weft_connreq_worker),
               CASE(weft_connect), CASE(weft_accept), {"attributes of accept", test_accept_attr},
               CASE(weft_reject), CASE(weft_reject_depths), CASE(weft_disconnect), CASE(weft_abort),
               CASE(weft_qp_leave), {"64 are kept", test_kept}, {"destroyed by two", test_race})
