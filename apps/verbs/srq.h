/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_SRQ_H
#define WEFT_APPS_VERBS_SRQ_H

/** @file Shared receive queues. */

#include <infiniband/verbs.h>
#include <stdatomic.h>

#include <weft/weft.h>

struct wv_srq {
	struct ibv_srq ibv;
	struct weft_srq *srq;
	uint32_t depth;  /**< places in weft's queue, more than max_wr, to grow into */
	uint32_t max_wr; /**< what the program may post */
	uint32_t max_sge;
	uint32_t users; /**< QPs, which weft may not have: wv_qp_abort(). Under the engine's lock */
	uint32_t async_reported;
};

static inline struct wv_srq *
wv_srq(struct ibv_srq *s)
{
	return (struct wv_srq *)(void *)s;
}

struct ibv_srq *wv_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int wv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int wv_get_srq_num(struct ibv_srq *srq, uint32_t *num);

#endif /* WEFT_APPS_VERBS_SRQ_H */
