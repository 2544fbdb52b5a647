/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Extended posting: ibv_wr_start(), the requests, ibv_wr_complete(). */

#include "engine.h"
#include "mem.h"
#include "newer.h"
#include "post.h"
#include "qp.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct wv_qp *
ex_qp(struct ibv_qp_ex *e)
{
	return (struct wv_qp *)(void *)e;
}

static void
ex_fault(struct wv_qp *q, int err)
{
	if (q->build.err == 0)
		q->build.err = err;
}

/** A new request with the members that all have. */
static struct weft_wr *
ex_new(struct ibv_qp_ex *e, enum weft_wr_opcode op)
{
	struct wv_qp *q = ex_qp(e);
	struct wv_build *b = &q->build;
	struct weft_wr *w;

	if (b->n == q->cap.max_send_wr) {
		ex_fault(q, ENOMEM);
		b->n--; /* overwritten: nothing will be posted */
	}
	if (q->ord == 0 && q->up && wv_post_needs_ord(op))
		ex_fault(q, EINVAL);
	w = &b->wr[b->n];
	*w = (struct weft_wr){.wr_id = e->wr_id, .opcode = op, .flags = wv_post_flags(e->wr_flags)};
	b->mw[b->n] = NULL;
	if ((op == WEFT_WR_SEND || op == WEFT_WR_SEND_INV || op == WEFT_WR_WRITE_IMM) &&
	    (e->wr_flags & IBV_SEND_SOLICITED) != 0)
		w->flags |= WEFT_WR_SOLICITED;
	b->n++;
	return w;
}

/** The request that ibv_wr_set_*() is about. NULL: there is none. */
static struct weft_wr *
ex_last(struct wv_qp *q)
{
	if (q->build.n == 0) {
		ex_fault(q, EINVAL);
		return NULL;
	}
	return &q->build.wr[q->build.n - 1];
}

/**
 * ibv_wr_post(3), CONCURRENCY: from here to ibv_wr_complete() or ibv_wr_abort() other threads that
 * start wait. The lock is taken before the engine's, and the engine never wants it. In a child of
 * fork() its holder may be a thread of the parent: nothing is locked there, and nothing is posted.
 */
static void
ex_start(struct ibv_qp_ex *e)
{
	if (!wv_engine_orphan())
		pthread_mutex_lock(&ex_qp(e)->build.lock);
	ex_qp(e)->build.n = 0;
	ex_qp(e)->build.err = 0;
}

static void
ex_abort(struct ibv_qp_ex *e)
{
	if (!wv_engine_orphan())
		pthread_mutex_unlock(&ex_qp(e)->build.lock);
}

static int
ex_post(struct wv_qp *q)
{
	struct wv_build *b = &q->build;
	struct weft_qp_info info;
	int rc = -b->err;

	if (rc != 0 || b->n == 0)
		return -rc;
	wv_lock();
	if (q->qp != NULL) {
		weft_qp_query(q->qp, &info);
		if (info.sq_depth - info.sq_used < b->n)
			rc = -ENOMEM;
	}
	for (uint32_t i = 0; q->qp == NULL && i < b->n; i++)
		wv_post_flush(q, b->wr[i].wr_id, wv_post_wc_opcode(b->wr[i].opcode));
	for (uint32_t at = 0; q->qp != NULL && rc == 0 && at < b->n;) {
		rc = weft_post_send(q->qp, &b->wr[at], b->n - at);
		if (rc > 0) {
			for (; rc > 0; rc--, at++)
				if (b->mw[at] != NULL)
					wv_mw_posted(b->mw[at]);
		}
	}
	wv_posted();
	wv_unlock();
	return rc == -EAGAIN ? ENOMEM : rc == -ENOTCONN ? EINVAL : -rc;
}

/**
 * A request that is wrong by itself, or finds no room, is found before the first is posted. An lkey
 * is looked up when its request is posted: what stands before it has gone by then.
 */
static int
ex_complete(struct ibv_qp_ex *e)
{
	int rc;

	if (wv_engine_orphan())
		return EPERM;
	rc = ex_post(ex_qp(e));
	pthread_mutex_unlock(&ex_qp(e)->build.lock);
	return rc;
}

/* ---- The requests ---- */

static void
ex_send(struct ibv_qp_ex *e)
{
	(void)ex_new(e, WEFT_WR_SEND);
}

static void
ex_send_inv(struct ibv_qp_ex *e, uint32_t rkey)
{
	ex_new(e, WEFT_WR_SEND_INV)->send.inv_stag = rkey;
}

static void
ex_write(struct ibv_qp_ex *e, uint32_t rkey, uint64_t to)
{
	struct weft_wr *w = ex_new(e, WEFT_WR_WRITE);

	w->rdma.stag = rkey;
	w->rdma.to = to;
}

static void
ex_write_imm(struct ibv_qp_ex *e, uint32_t rkey, uint64_t to, __be32 imm)
{
	struct weft_wr *w = ex_new(e, WEFT_WR_WRITE_IMM);

	w->write_imm.stag = rkey;
	w->write_imm.to = to;
	wv_post_imm(w->write_imm.data, imm, 0); /* the length: when the pieces are known */
}

static void
ex_read(struct ibv_qp_ex *e, uint32_t rkey, uint64_t to)
{
	struct weft_wr *w = ex_new(e, WEFT_WR_READ);

	w->rdma.stag = rkey;
	w->rdma.to = to;
}

static void
ex_cmp_swap(struct ibv_qp_ex *e, uint32_t rkey, uint64_t to, uint64_t compare, uint64_t swap)
{
	struct weft_wr *w = ex_new(e, WEFT_WR_CMP_SWAP);

	w->atomic.stag = rkey;
	w->atomic.to = to;
	w->atomic.compare = compare;
	w->atomic.data = swap;
}

static void
ex_fetch_add(struct ibv_qp_ex *e, uint32_t rkey, uint64_t to, uint64_t add)
{
	struct weft_wr *w = ex_new(e, WEFT_WR_FETCH_ADD);

	w->atomic.stag = rkey;
	w->atomic.to = to;
	w->atomic.data = add;
}

static void
ex_atomic_write(struct ibv_qp_ex *e, uint32_t rkey, uint64_t to, const void *value)
{
	struct weft_wr *w = ex_new(e, WEFT_WR_ATOMIC_WRITE);

	w->atomic_write.stag = rkey;
	w->atomic_write.to = to;
	memcpy(w->atomic_write.data, value, sizeof(w->atomic_write.data));
}

/** rdma-core 45: make what was written visible, or persistent, at the peer. */
static void
ex_flush(struct ibv_qp_ex *e, uint32_t rkey, uint64_t to, size_t len, uint8_t type, uint8_t level)
{
	struct weft_wr *w = ex_new(e, WEFT_WR_FLUSH);

	/* Of a whole region: the peer ignores the range (draft-talpey-rdma-commit-02 s2.1.1). */
	if (level == WV_FLUSH_MR)
		len = 0;
	if (len > UINT32_MAX || level > WV_FLUSH_MR || type == 0 ||
	    (type & ~(WV_FLUSH_GLOBAL | WV_FLUSH_PERSISTENT)) != 0) {
		ex_fault(ex_qp(e), EINVAL);
		return;
	}
	w->flush.stag = rkey;
	w->flush.to = to;
	w->flush.len_bytes = (uint32_t)len;
	w->flush.flags = ((type & WV_FLUSH_GLOBAL) != 0 ? WEFT_FLUSH_VISIBLE : 0u) |
	                 ((type & WV_FLUSH_PERSISTENT) != 0 ? WEFT_FLUSH_PERSISTENT : 0u) |
	                 (level == WV_FLUSH_MR ? WEFT_FLUSH_REGION : 0u);
}

static void
ex_bind_mw(struct ibv_qp_ex *e, struct ibv_mw *mw, uint32_t rkey,
           const struct ibv_mw_bind_info *info)
{
	struct weft_wr *w = ex_new(e, WEFT_WR_BIND_MW);
	struct wv_qp *q = ex_qp(e);

	if (mw->type != IBV_MW_TYPE_2 || wv_mw_fill(w, mw, info, &rkey) < 0)
		ex_fault(q, EINVAL);
	q->build.mw[q->build.n - 1] = mw;
}

static void
ex_local_inv(struct ibv_qp_ex *e, uint32_t rkey)
{
	ex_new(e, WEFT_WR_LOCAL_INV)->local_inv.stag = rkey;
}

/* ---- Their data ---- */

static void
ex_pieces(struct wv_qp *q, size_t n, uint64_t len)
{
	struct weft_wr *w = ex_last(q);

	w->sg_list = &q->build.sge[(q->build.n - 1) * q->cap.max_send_sge];
	w->num_sge = (uint32_t)n;
	if (w->opcode == WEFT_WR_WRITE_IMM) {
		__be32 imm;

		memcpy(&imm, w->write_imm.data, sizeof(imm));
		wv_post_imm(w->write_imm.data, imm, len);
	}
}

static void
ex_set_sge_list(struct ibv_qp_ex *e, size_t n, const struct ibv_sge *list)
{
	struct wv_qp *q = ex_qp(e);
	uint64_t len = 0;

	if (ex_last(q) == NULL)
		return;
	if (n > q->cap.max_send_sge) {
		ex_fault(q, EINVAL);
		return;
	}
	memcpy(&q->build.sge[(q->build.n - 1) * q->cap.max_send_sge], list, n * sizeof(*list));
	for (size_t i = 0; i < n; i++)
		len += list[i].length;
	ex_pieces(q, n, len);
}

static void
ex_set_sge(struct ibv_qp_ex *e, uint32_t lkey, uint64_t addr, uint32_t length)
{
	const struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	ex_set_sge_list(e, 1, &sge);
}

static void
ex_set_inline_list(struct ibv_qp_ex *e, size_t n, const struct ibv_data_buf *list)
{
	struct wv_qp *q = ex_qp(e);
	struct weft_wr *w = ex_last(q);
	uint8_t *data;
	size_t len = 0;

	if (w == NULL)
		return;
	data = q->build.data + (size_t)(q->build.n - 1) * q->cap.max_inline_data;
	for (size_t i = 0; i < n; i++) {
		if (list[i].length > q->cap.max_inline_data - len) {
			ex_fault(q, EINVAL);
			return;
		}
		memcpy(data + len, list[i].addr, list[i].length);
		len += list[i].length;
	}
	if (w->opcode == WEFT_WR_READ || w->opcode >= WEFT_WR_FLUSH) {
		if (w->opcode != WEFT_WR_WRITE_IMM) {
			ex_fault(q, EINVAL);
			return;
		}
	}
	q->build.sge[(q->build.n - 1) * q->cap.max_send_sge] =
	        (struct weft_sge){.addr = data, .len_bytes = (uint32_t)len};
	w->flags |= WEFT_WR_INLINE;
	ex_pieces(q, 1, len);
}

static void
ex_set_inline(struct ibv_qp_ex *e, void *addr, size_t length)
{
	const struct ibv_data_buf buf = {.addr = addr, .length = length};

	ex_set_inline_list(e, 1, &buf);
}

/* ---- The tables ---- */

#define EX_OPS                                                                                     \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |    \
	 IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |                            \
	 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | \
	 IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_ATOMIC_WRITE | WV_QP_EX_WITH_FLUSH)

int
wv_build_init(struct wv_qp *q, uint64_t send_ops)
{
	struct wv_build *b = &q->build;
	struct ibv_qp_ex *e = &q->ex;

	if ((send_ops & ~(uint64_t)EX_OPS) != 0)
		return -EOPNOTSUPP;
	pthread_mutex_init(&b->lock, NULL);
	b->wr = calloc(q->cap.max_send_wr, sizeof(*b->wr));
	b->sge = calloc((size_t)q->cap.max_send_wr * q->cap.max_send_sge, sizeof(*b->sge));
	b->data = calloc(q->cap.max_send_wr, q->cap.max_inline_data);
	b->mw = calloc(q->cap.max_send_wr, sizeof(*b->mw));
	if (b->wr == NULL || b->sge == NULL || b->data == NULL || b->mw == NULL)
		return -ENOMEM;
	e->wr_start = ex_start;
	e->wr_complete = ex_complete;
	e->wr_abort = ex_abort;
	e->wr_send = ex_send;
	e->wr_send_inv = ex_send_inv;
	e->wr_rdma_write = ex_write;
	e->wr_rdma_write_imm = ex_write_imm;
	e->wr_rdma_read = ex_read;
	e->wr_atomic_cmp_swp = ex_cmp_swap;
	e->wr_atomic_fetch_add = ex_fetch_add;
	e->wr_atomic_write = ex_atomic_write;
	q->newer.v45.wr_flush = ex_flush;
	e->wr_bind_mw = ex_bind_mw;
	e->wr_local_inv = ex_local_inv;
	e->wr_set_sge = ex_set_sge;
	e->wr_set_sge_list = ex_set_sge_list;
	e->wr_set_inline_data = ex_set_inline;
	e->wr_set_inline_data_list = ex_set_inline_list;
	return 0;
}

void
wv_build_fini(struct wv_qp *q)
{
	if (q->build.wr != NULL)
		pthread_mutex_destroy(&q->build.lock);
	free(q->build.wr);
	free(q->build.sge);
	free(q->build.data);
	free(q->build.mw);
}
