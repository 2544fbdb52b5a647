/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Posting, and completions as verbs tell them. */

#include "post.h"

#include "cq.h"
#include "engine.h"
#include "mem.h"
#include "newer.h"
#include "qp.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* A list of pieces is handed on as it is. */
static_assert(sizeof(struct ibv_sge) == sizeof(struct weft_sge) &&
                      offsetof(struct ibv_sge, addr) == offsetof(struct weft_sge, addr) &&
                      offsetof(struct ibv_sge, length) == offsetof(struct weft_sge, len_bytes) &&
                      offsetof(struct ibv_sge, lkey) == offsetof(struct weft_sge, lkey) &&
                      sizeof(void *) == 8,
              "ibv_sge and weft_sge");

/** Of Sends and Writes, which may be inline; `imm`: of those that take a receive of the peer. */
static uint32_t
post_flags_data(unsigned int f, bool takes_recv)
{
	return wv_post_flags(f) | ((f & IBV_SEND_INLINE) ? WEFT_WR_INLINE : 0) |
	       ((f & IBV_SEND_SOLICITED) && takes_recv ? WEFT_WR_SOLICITED : 0);
}

static uint64_t
post_len(const struct ibv_send_wr *s)
{
	uint64_t len = 0;

	for (int i = 0; i < s->num_sge; i++)
		len += s->sg_list[i].length;
	return len;
}

void
wv_post_imm(uint8_t data[8], __be32 imm, uint64_t len_bytes)
{
	const uint32_t len = htobe32((uint32_t)len_bytes);

	memcpy(data, &imm, 4);
	memcpy(data + 4, &len, 4);
}

bool
wv_post_needs_ord(enum weft_wr_opcode op)
{
	return op == WEFT_WR_READ || op == WEFT_WR_FETCH_ADD || op == WEFT_WR_CMP_SWAP ||
	       op == WEFT_WR_ATOMIC_WRITE || op == WEFT_WR_FLUSH;
}

/** Under the engine's lock: a bind looks at its window. */
static int
post_fill(const struct wv_qp *q, struct weft_wr *w, const struct ibv_send_wr *s)
{
	uint64_t value;

	w->wr_id = s->wr_id;
	w->sg_list = (const struct weft_sge *)(const void *)s->sg_list;
	w->num_sge = (uint32_t)s->num_sge;
	w->flags = wv_post_flags(s->send_flags);
	switch (s->opcode) {
	case IBV_WR_SEND:
		w->opcode = WEFT_WR_SEND;
		w->flags = post_flags_data(s->send_flags, true);
		return 0;
	case IBV_WR_SEND_WITH_INV:
		w->opcode = WEFT_WR_SEND_INV;
		w->flags = post_flags_data(s->send_flags, true);
		w->send.inv_stag = s->invalidate_rkey;
		return 0;
	case IBV_WR_RDMA_WRITE:
		w->opcode = WEFT_WR_WRITE;
		w->flags = post_flags_data(s->send_flags, false);
		w->rdma.stag = s->wr.rdma.rkey;
		w->rdma.to = s->wr.rdma.remote_addr;
		return 0;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		w->opcode = WEFT_WR_WRITE_IMM;
		w->flags = post_flags_data(s->send_flags, true);
		w->write_imm.stag = s->wr.rdma.rkey;
		w->write_imm.to = s->wr.rdma.remote_addr;
		wv_post_imm(w->write_imm.data, s->imm_data, post_len(s));
		return 0;
	case IBV_WR_RDMA_READ:
		w->opcode = WEFT_WR_READ;
		w->rdma.stag = s->wr.rdma.rkey;
		w->rdma.to = s->wr.rdma.remote_addr;
		return q->ord == 0 && q->up ? -EINVAL : 0;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		w->opcode = WEFT_WR_FETCH_ADD;
		w->atomic.stag = s->wr.atomic.rkey;
		w->atomic.to = s->wr.atomic.remote_addr;
		w->atomic.data = s->wr.atomic.compare_add;
		return q->ord == 0 && q->up ? -EINVAL : 0;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		w->opcode = WEFT_WR_CMP_SWAP;
		w->atomic.stag = s->wr.atomic.rkey;
		w->atomic.to = s->wr.atomic.remote_addr;
		w->atomic.compare = s->wr.atomic.compare_add;
		w->atomic.data = s->wr.atomic.swap;
		return q->ord == 0 && q->up ? -EINVAL : 0;
	case IBV_WR_ATOMIC_WRITE:
		w->opcode = WEFT_WR_ATOMIC_WRITE;
		if (s->num_sge != 1 || s->sg_list[0].length != sizeof(value) ||
		    (q->ord == 0 && q->up))
			return -EINVAL;
		memcpy(w->atomic_write.data, (const void *)(uintptr_t)s->sg_list[0].addr,
		       sizeof(value));
		w->atomic_write.stag = s->wr.rdma.rkey;
		w->atomic_write.to = s->wr.rdma.remote_addr;
		w->sg_list = NULL;
		w->num_sge = 0;
		return 0;
	case IBV_WR_LOCAL_INV:
		w->opcode = WEFT_WR_LOCAL_INV;
		w->local_inv.stag = s->invalidate_rkey;
		w->sg_list = NULL;
		w->num_sge = 0;
		return 0;
	case IBV_WR_BIND_MW:
		if (s->bind_mw.mw == NULL || s->bind_mw.mw->type != IBV_MW_TYPE_2)
			return -EINVAL;
		return wv_mw_fill(w, s->bind_mw.mw, &s->bind_mw.bind_info, &s->bind_mw.rkey);
	default:
		/* Send with Immediate, TSO, XRC: RDMAP has no such message. */
		return -EINVAL;
	}
}

enum ibv_wc_opcode
wv_post_wc_opcode(enum weft_wr_opcode op)
{
	switch (op) {
	case WEFT_WR_WRITE:
	case WEFT_WR_WRITE_IMM:
		return IBV_WC_RDMA_WRITE;
	case WEFT_WR_READ:
		return IBV_WC_RDMA_READ;
	case WEFT_WR_CMP_SWAP:
		return IBV_WC_COMP_SWAP;
	case WEFT_WR_FETCH_ADD:
		return IBV_WC_FETCH_ADD;
	case WEFT_WR_ATOMIC_WRITE:
		return IBV_WC_ATOMIC_WRITE;
	case WEFT_WR_FLUSH:
		return (enum ibv_wc_opcode)WV_WC_FLUSH;
	case WEFT_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	case WEFT_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	default:
		return IBV_WC_SEND;
	}
}

void
wv_post_flush(struct wv_qp *q, uint64_t wr_id, enum ibv_wc_opcode opcode)
{
	wv_cq_put_flushed(opcode == IBV_WC_RECV ? q->rcq : q->scq, wr_id, opcode, q->ibv.qp_num);
}

/** -errno of weft as the errno of ibv_post_send(). */
static int
post_errno(int rc)
{
	switch (rc) {
	case -EAGAIN:
		return ENOMEM;
	case -ENOTCONN:
		return EINVAL;
	default:
		return -rc;
	}
}

int
wv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct weft_wr w[WV_POST_BURST];
	struct wv_qp *q = wv_qp(qp);
	int rc = 0;

	if (wv_engine_orphan()) {
		*bad = wr;
		return EPERM;
	}
	wv_lock();
	while (wr != NULL && rc == 0) {
		struct ibv_send_wr *at = wr;
		unsigned int n = 0;
		int fault = 0;

		if (q->qp == NULL) {
			rc = post_fill(q, &w[0], wr);
			if (rc < 0)
				break;
			wv_post_flush(q, wr->wr_id, wv_post_wc_opcode(w[0].opcode));
			wr = wr->next;
			continue;
		}
		for (; at != NULL && n < WV_POST_BURST; at = at->next) {
			fault = post_fill(q, &w[n], at);
			if (fault < 0)
				break;
			n++;
			/* The next one may bind the same window: its key is known then. */
			if (at->opcode == IBV_WR_BIND_MW)
				break;
		}
		rc = n > 0 ? weft_post_send(q->qp, w, n) : fault;
		for (; rc > 0; rc--) {
			if (wr->opcode == IBV_WR_BIND_MW)
				wv_mw_posted(wr->bind_mw.mw);
			wr = wr->next;
		}
	}
	wv_posted();
	wv_unlock();
	if (rc < 0)
		*bad = wr;
	return post_errno(rc);
}

unsigned int
wv_post_recv_fill(const struct ibv_recv_wr *wr, struct weft_recv_wr *w, uint32_t most)
{
	unsigned int n = 0;

	for (; wr != NULL && n < WV_POST_BURST && n < most; wr = wr->next, n++)
		w[n] = (struct weft_recv_wr){
		        .wr_id = wr->wr_id,
		        .sg_list = (const struct weft_sge *)(const void *)wr->sg_list,
		        .num_sge = (uint32_t)wr->num_sge,
		};
	return n;
}

int
wv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct weft_recv_wr w[WV_POST_BURST];
	struct wv_qp *q = wv_qp(qp);
	int rc = 0;

	if (wv_engine_orphan()) {
		*bad = wr;
		return EPERM;
	}
	wv_lock();
	while (wr != NULL && rc == 0) {
		if (q->qp == NULL) {
			wv_post_flush(q, wr->wr_id, IBV_WC_RECV);
			wr = wr->next;
			continue;
		}
		rc = weft_post_recv(q->qp, w, wv_post_recv_fill(wr, w, UINT32_MAX));
		if (rc > 0)
			wv_rq_posted(q, (uint32_t)rc);
		for (; rc > 0; rc--)
			wr = wr->next;
	}
	wv_posted();
	wv_unlock();
	if (rc < 0)
		*bad = wr;
	return post_errno(rc);
}
