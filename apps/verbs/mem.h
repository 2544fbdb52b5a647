/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_MEM_H
#define WEFT_APPS_VERBS_MEM_H

/** @file Protection domains, memory regions and memory windows. */

#include <infiniband/verbs.h>
#include <stdatomic.h>

#include <weft/weft.h>

struct wv_pd {
	struct ibv_pd ibv;
	struct weft_pd *pd;
	uint32_t users; /**< QPs, which weft may not have: wv_qp_abort(). Under the engine's lock */
};

struct wv_mr {
	struct ibv_mr ibv;
	struct weft_mr *mr;
	uint64_t iova;
	unsigned int access; /**< as the program gave it */
};

struct wv_qp;

struct wv_mw {
	struct ibv_mw ibv;
	struct weft_mw *mw;
	/* Of a window of type 1, under the engine's lock: */
	uint32_t queued; /**< requests of ibv_bind_mw() that have not completed */
	bool bound;      /**< whether the last of them binds it */
};

static inline struct wv_pd *
wv_pd(struct ibv_pd *p)
{
	return (struct wv_pd *)(void *)p;
}

static inline struct wv_mr *
wv_mr(struct ibv_mr *m)
{
	return (struct wv_mr *)(void *)m;
}

static inline struct wv_mw *
wv_mw(struct ibv_mw *m)
{
	return (struct wv_mw *)(void *)m;
}

/** IBV_ACCESS_* as WEFT_ACCESS_*. -EINVAL, -EOPNOTSUPP. */
int wv_access(unsigned int access, uint32_t *out);

struct ibv_mw *wv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int wv_dealloc_mw(struct ibv_mw *mw);
/** Of a window of type 1. */
int wv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
/**
 * Complete a request that binds a window. `rkey`: NULL, or the key that the program wants for a
 * window of type 2: that of the window with any last octet, else -EINVAL.
 */
int wv_mw_fill(struct weft_wr *wr, struct ibv_mw *mw, const struct ibv_mw_bind_info *info,
               const uint32_t *rkey);
/**
 * A bind or a local invalidation has completed; under the engine's lock. If ibv_bind_mw() posted
 * it: make it what the program asked for. False: the program is not told.
 */
bool wv_mw_done(struct wv_qp *q, struct ibv_wc *wc);
/** The queue pair goes: what has not completed does so no more. Under the engine's lock. */
void wv_mw_forget(struct wv_qp *q);
/** The bind was posted: the window has its new key. */
void wv_mw_posted(struct ibv_mw *mw);

#endif /* WEFT_APPS_VERBS_MEM_H */
