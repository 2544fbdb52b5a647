/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Work requests that are executed locally, in the order of the send queue: fast registration,
 * local invalidation, window binding. Also the peer's Send with Invalidate.
 *
 * rdmap calls weft_verbs_start() when such a request is at the head. A request may have to wait
 * until operations on an earlier registration are over. It is then started again in the next poll,
 * and later by the timer.
 */

#include <assert.h>

#include "verbs_cq.h"
#include "verbs_queue.h"
#include "weft_verbs_mr.h"
#include "weft_verbs_ops.h"
#include "weft_mem_fast.h"
#include "weft_mem_find.h"

/**
 * Number of tries by turns of the task, several of which may be in one poll. After them the timer
 * tries, with growing intervals.
 */
#define LOCAL_TURNS     8
#define LOCAL_WAIT_NS   (20 * WEFT_NS_PER_US)
#define LOCAL_MAX_WAITS (LOCAL_TURNS + 6)

#define REMOTE_RIGHTS                                                                              \
	(WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_REMOTE_ATOMIC |          \
	 WEFT_ACCESS_FLUSH_PERSISTENT | WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY)

/** Data of a local request. It is stored where other requests have their hash. */
struct verbs_local {
	struct weft_mr *mr; /**< referenced, or NULL; LOCAL_INV: what was invalidated */
	struct weft_mw *mw; /**< likewise */
	uint8_t *addr;
	uint64_t len_bytes;
	uint64_t base_to;
	struct weft_persist *persist;
	const struct weft_hash_ops *hash;
	uint32_t access;
	bool stream; /**< weft_wr.fast_reg.stream */
};

static_assert(sizeof(struct verbs_local) <= sizeof(((struct weft_rdmap_req *)0)->hash),
              "a local request fits");

static inline void
verbs_local_get(const struct verbs_sqe *s, struct verbs_local *l)
{
	memcpy(l, s->req.hash, sizeof(*l));
}

static inline void
verbs_local_set(struct verbs_sqe *s, const struct verbs_local *l)
{
	memcpy(s->req.hash, l, sizeof(*l));
}

static inline struct weft_mem_attr
verbs_local_attr(const struct verbs_local *l)
{
	return (struct weft_mem_attr){
	        .addr = l->addr,
	        .len_bytes = l->len_bytes,
	        .base_to = l->base_to,
	        .access = l->access,
	        .persist = l->persist,
	        .hash = l->hash,
	};
}

static inline void
verbs_mr_ref(struct weft_mr *mr)
{
	atomic_fetch_add_explicit(&mr->refs, 1, memory_order_relaxed);
}

static inline void
verbs_mw_ref(struct weft_mw *mw)
{
	atomic_fetch_add_explicit(&mw->refs, 1, memory_order_relaxed);
}

/* ---- Posting ---- */

static int
verbs_fill_fast_reg(const struct weft_qp *qp, struct verbs_local *l, uint32_t *stag,
                    const struct weft_wr *wr)
{
	struct weft_mr *mr = wr->fast_reg.mr;
	struct weft_mem_attr a;
	int rc;

	if (!weft_handle_ok(WEFT_HANDLE_OF(mr), WEFT_KIND(MR)) || !mr->fast || mr->pd != qp->pd)
		return -EINVAL;
	if (wr->fast_reg.persist != NULL &&
	    !weft_handle_ok(WEFT_HANDLE_OF(wr->fast_reg.persist), WEFT_KIND(MEDIUM)))
		return -EINVAL;
	l->addr = wr->fast_reg.addr;
	l->len_bytes = wr->fast_reg.len_bytes;
	l->base_to = wr->fast_reg.base_to;
	l->access = wr->fast_reg.access;
	l->stream = wr->fast_reg.stream;
	l->persist = wr->fast_reg.persist;
	if (wr->fast_reg.hash != NULL) {
		l->hash = weft_hash_find(wr->fast_reg.hash);
		if (l->hash == NULL)
			return -ENOENT;
	}
	a = verbs_local_attr(l);
	if (l->hash != NULL && l->hash->key_max_bytes > 0) {
		a.hash_key = mr->mr->hash_key;
		a.hash_key_bytes = mr->mr->hash_key_bytes;
	}
	rc = weft_mem_check_attr(&a);
	if (rc < 0)
		return rc;
	verbs_mr_ref(mr);
	l->mr = mr;
	*stag = weft_mem_take_stag(qp->pd->ctx->mem, mr->mr);
	atomic_store_explicit(&mr->stag, *stag, memory_order_relaxed);
	return 0;
}

static int
verbs_fill_bind(const struct weft_qp *qp, struct verbs_local *l, uint32_t *stag,
                const struct weft_wr *wr)
{
	struct weft_mw *mw = wr->bind_mw.mw;
	struct weft_mr *mr = wr->bind_mw.mr;

	if (!weft_handle_ok(WEFT_HANDLE_OF(mw), WEFT_KIND(MW)) ||
	    !weft_handle_ok(WEFT_HANDLE_OF(mr), WEFT_KIND(MR)) || mw->pd != qp->pd ||
	    mr->pd != qp->pd)
		return -EINVAL;
	if (wr->bind_mw.stag != 0 &&
	    wr->bind_mw.stag != weft_mw_keyed_stag(mw, (uint8_t)wr->bind_mw.stag))
		return -EINVAL;
	l->addr = wr->bind_mw.addr;
	l->len_bytes = wr->bind_mw.len_bytes;
	l->base_to = wr->bind_mw.base_to;
	l->access = wr->bind_mw.access;
	if (l->addr == NULL || l->len_bytes == 0 || (l->access & ~REMOTE_RIGHTS) != 0 ||
	    l->len_bytes - 1 > UINT64_MAX - l->base_to ||
	    l->len_bytes - 1 > UINTPTR_MAX - (uintptr_t)l->addr)
		return -EINVAL;
	verbs_mr_ref(mr);
	verbs_mw_ref(mw);
	l->mr = mr;
	l->mw = mw;
	*stag = wr->bind_mw.stag != 0 ? wr->bind_mw.stag
	                              : weft_mem_take_stag(qp->pd->ctx->mem, mw->win);
	atomic_store_explicit(&mw->stag, *stag, memory_order_relaxed);
	return 0;
}

int
weft_verbs_local_fill(const struct weft_qp *qp, struct verbs_sqe *s, const struct weft_wr *wr)
{
	struct verbs_local l = {0};
	int rc = 0;

	s->req.hook = true;
	s->req.len_bytes = 0;
	switch (wr->opcode) {
	case WEFT_WR_FAST_REG:
		rc = verbs_fill_fast_reg(qp, &l, &s->req.stag, wr);
		break;
	case WEFT_WR_BIND_MW:
		rc = verbs_fill_bind(qp, &l, &s->req.stag, wr);
		break;
	default:
		s->req.stag = wr->local_inv.stag;
		break;
	}
	verbs_local_set(s, &l);
	return rc;
}

void
weft_verbs_local_put(struct verbs_sqe *s)
{
	struct verbs_local l;

	verbs_local_get(s, &l);
	if (l.mr != NULL)
		weft_verbs_mr_unref(l.mr);
	if (l.mw != NULL)
		weft_verbs_mw_unref(l.mw);
}

void
weft_verbs_local_drop(struct weft_qp *qp)
{
	alignas(8) uint8_t buf[VERBS_SWR_MAX_BYTES];
	struct verbs_sqe *s = (void *)buf;
	struct rte_ring *ring = atomic_load_explicit(&qp->sq_ring, memory_order_relaxed);

	for (uint32_t i = qp->sq_head; qp->sq != NULL && i != qp->sq_tail; i++)
		if (verbs_is_local(verbs_sqe_at(qp, i)))
			weft_verbs_local_put(verbs_sqe_at(qp, i));
	while (ring != NULL && weft_verbs_ring_take(ring, buf, qp->sqe_bytes))
		if (verbs_is_local(s))
			weft_verbs_local_put(s);
}

/* ---- Executing ---- */

static enum weft_rdmap_start
verbs_start_fast_reg(struct weft_qp *qp, struct verbs_sqe *s)
{
	struct weft_mem_attr a;
	struct verbs_local l;
	int rc;

	verbs_local_get(s, &l);
	/* First, because after a deregistration the region may be gone. */
	if (atomic_load_explicit(&l.mr->dead, memory_order_acquire))
		return WEFT_RDMAP_REFUSE;
	a = verbs_local_attr(&l); /* the region has the key already */
	rc = weft_mem_fill(qp->vw->ctx->mem, l.mr->mr,
	                   l.stream ? weft_rdmap_scope(qp->rdmap) : &qp->pd->mem, NULL, &a,
	                   s->req.stag);
	if (rc == -EAGAIN)
		return WEFT_RDMAP_WAIT;
	if (rc < 0)
		return WEFT_RDMAP_REFUSE;
	/* No peer knows the new STag yet. */
	if (unlikely(atomic_load_explicit(&l.mr->nbad_ranges, memory_order_relaxed) != 0))
		qp->vw->ctx->place->registered(l.mr);
	return WEFT_RDMAP_DONE;
}

/**
 * Count a window in its region, which then is neither invalidated nor reduced. -EINVAL: the region
 * is not valid. -EAGAIN: it is being reduced at this moment.
 */
static int
verbs_pin(struct weft_mr *mr)
{
	uint32_t n = atomic_load_explicit(&mr->bound, memory_order_relaxed);

	do {
		if (n == WEFT_MEM_NARROWING)
			return -EAGAIN;
		if (n >= WEFT_MEM_NARROWING - 1)
			return -EINVAL;
	} while (!atomic_compare_exchange_weak_explicit(&mr->bound, &n, n + 1, memory_order_acq_rel,
	                                                memory_order_relaxed));
	return 0;
}

static void
verbs_unpin(struct weft_mr *mr)
{
	atomic_fetch_sub_explicit(&mr->bound, 1, memory_order_release);
}

/**
 * Whether a region may have such a window. The owner may grant what it may do with the memory
 * itself: reading any region, and writing one with LOCAL_WRITE. The rights of flush and verify were
 * checked against the medium when the region was registered, so the region must have them.
 */
static bool
verbs_bindable(const struct weft_mem_mr *r, const struct verbs_local *l)
{
	const uint32_t access = weft_mem_access(r);
	const uint64_t len_bytes = weft_mem_len(r);
	uint32_t lend = WEFT_ACCESS_REMOTE_READ | (access & REMOTE_RIGHTS);
	uint64_t off = (uintptr_t)l->addr - (uintptr_t)r->addr;

	if (access & WEFT_ACCESS_LOCAL_WRITE)
		lend |= WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_REMOTE_ATOMIC;
	return (access & WEFT_ACCESS_MW_BIND) != 0 && (l->access & ~lend) == 0 &&
	       l->addr >= r->addr && off < len_bytes && l->len_bytes <= len_bytes - off;
}

static enum weft_rdmap_start
verbs_start_bind(struct weft_qp *qp, struct verbs_sqe *s)
{
	struct weft_mem_attr a = {0};
	struct verbs_local l;
	int rc;

	verbs_local_get(s, &l);
	if (atomic_load_explicit(&l.mw->dead, memory_order_acquire))
		return WEFT_RDMAP_REFUSE;
	rc = verbs_pin(l.mr);
	if (rc < 0)
		return rc == -EAGAIN ? WEFT_RDMAP_WAIT : WEFT_RDMAP_REFUSE;
	/* A pinned region exists and does not change. */
	rc = -EINVAL;
	if (verbs_bindable(l.mr->mr, &l)) {
		a = verbs_local_attr(&l);
		a.persist = l.mr->mr->persist;
		a.hash = l.mr->mr->hash;
		a.gate = l.mr->mr->gate;
		if (a.hash != NULL && a.hash->key_max_bytes > 0) {
			a.hash_key = l.mr->mr->hash_key;
			a.hash_key_bytes = l.mr->mr->hash_key_bytes;
		}
		rc = weft_mem_check_attr(&a);
	}
	if (rc == 0)
		rc = weft_mem_fill(qp->vw->ctx->mem, l.mw->win, weft_rdmap_scope(qp->rdmap),
		                   l.mr->mr, &a, s->req.stag);
	if (rc < 0) {
		verbs_unpin(l.mr);
		return rc == -EAGAIN ? WEFT_RDMAP_WAIT : WEFT_RDMAP_REFUSE;
	}
	weft_verbs_mw_bound(qp, l.mw);
	return WEFT_RDMAP_DONE;
}

/**
 * Invalidate a region or window of this stream by its current STag. A reference of its handle is
 * stored in *l, unless l is NULL. -ENOENT: the STag is not valid, or was invalidated at this moment
 * by another caller. -EBUSY: windows are bound.
 */
static int
verbs_inv(struct weft_qp *qp, struct weft_mem_mr *m, struct verbs_local *l)
{
	struct weft_mem *mem = qp->vw->ctx->mem;
	struct weft_mw *mw = m->kind == WEFT_MEM_WINDOW ? m->owner : NULL;
	int rc;

	/* First: as soon as the window is invalid, another stream's worker may bind it. */
	if (mw != NULL)
		weft_verbs_mw_unbound(qp, mw);
	rc = m->kind == WEFT_MEM_REGION ? weft_verbs_mr_disable(qp->vw->ctx, m)
	                                : weft_mem_fast_invalidate(mem, m);
	if (mw != NULL && rc == 0 && l != NULL)
		l->mw = mw; /* with the reference of the stream */
	else if (mw != NULL)
		weft_verbs_mw_unref(mw);
	if (rc < 0 || l == NULL || mw != NULL)
		return rc;
	/* The lookup was in this poll, so the region's reference of the handle still exists. */
	l->mr = m->owner;
	verbs_mr_ref(l->mr);
	return 0;
}

/** The region or window with this STag, if this stream may name it; else NULL. */
static struct weft_mem_mr *
verbs_ours(struct weft_qp *qp, uint32_t stag)
{
	struct weft_mem_mr *m = weft_mem_lookup(qp->vw->ctx->mem, stag);

	return m != NULL && weft_mem_in_scope(m, weft_rdmap_scope(qp->rdmap)) ? m : NULL;
}

/**
 * As verbs_ours(), and also a fast region of the domain that belongs to another stream, which may
 * have ended.
 */
static struct weft_mem_mr *
verbs_domains(struct weft_qp *qp, uint32_t stag)
{
	struct weft_mem_mr *m = weft_mem_lookup(qp->vw->ctx->mem, stag);

	if (m != NULL && m->kind == WEFT_MEM_FAST && m->account == &qp->pd->mem)
		return m;
	return verbs_ours(qp, stag);
}

/**
 * RFC 5040 s8.1.1 item 7: "An RNIC MUST ensure that a Remote Peer is not able to invalidate an STag
 * enabled for remote access, if the STag is shared on multiple streams." A region of the domain is
 * shared if the domain has more QPs than this one.
 */
static bool
verbs_shared(const struct weft_qp *qp, const struct weft_mem_mr *m)
{
	return m->pd == &qp->pd->mem &&
	       atomic_load_explicit(&qp->pd->nqps, memory_order_acquire) > 1;
}

/**
 * A fast region of this stream, or of its domain, whose registration under this STag has ended;
 * else NULL. The peer's Send with Invalidate and the local invalidation may cross, and neither side
 * can know this. So each side may end the registration once (RFC 5040 s5.3 requires that the STag
 * belongs to the stream, and that it is invalid afterwards).
 */
static struct weft_mem_mr *
verbs_ours_past(struct weft_qp *qp, uint32_t stag)
{
	struct weft_mem_mr *m = weft_mem_lookup_past(qp->vw->ctx->mem, stag);

	return m != NULL && m->kind == WEFT_MEM_FAST &&
	                       weft_mem_in_scope(m, weft_rdmap_scope(qp->rdmap))
	               ? m
	               : NULL;
}

static enum weft_rdmap_start
verbs_start_inv(struct weft_qp *qp, struct verbs_sqe *s)
{
	struct weft_mem *mem = qp->vw->ctx->mem;
	struct verbs_local l;
	bool over;

	verbs_local_get(s, &l);
	if (l.mr == NULL && l.mw == NULL) {
		struct weft_mem_mr *m = verbs_domains(qp, s->req.stag);

		if (m == NULL || verbs_inv(qp, m, &l) < 0) {
			/*
			 * The peer was first. The next request must still wait until no operation
			 * accesses the memory.
			 */
			m = verbs_ours_past(qp, s->req.stag);
			if (m == NULL || !atomic_load_explicit(&m->by_peer, memory_order_acquire))
				return WEFT_RDMAP_REFUSE;
			l.mr = m->owner;
			verbs_mr_ref(l.mr);
		}
		verbs_local_set(s, &l);
	}
	/* A region or window that is given up meanwhile counts as over. */
	if (l.mw != NULL)
		over = atomic_load_explicit(&l.mw->dead, memory_order_acquire) ||
		       weft_mem_drained(mem, l.mw->win);
	else if (l.mr->fast)
		over = atomic_load_explicit(&l.mr->dead, memory_order_acquire) ||
		       weft_mem_drained(mem, l.mr->mr);
	else
		over = atomic_load_explicit(&l.mr->gone, memory_order_acquire);
	return over ? WEFT_RDMAP_DONE : WEFT_RDMAP_WAIT;
}

enum weft_rdmap_start
weft_verbs_start(void *user, struct weft_rdmap_req *req)
{
	struct weft_qp *qp = user;
	struct verbs_sqe *s = container_of(req, struct verbs_sqe, req);
	enum weft_rdmap_start st;

	switch (s->opcode) {
	case WEFT_WC_FAST_REG:
		st = verbs_start_fast_reg(qp, s);
		break;
	case WEFT_WC_BIND_MW:
		st = verbs_start_bind(qp, s);
		break;
	case WEFT_WC_LOCAL_INV:
		st = verbs_start_inv(qp, s);
		break;
	default:
		st = weft_verbs_lookup(qp, s) == 0 ? WEFT_RDMAP_GO : WEFT_RDMAP_REFUSE;
		break;
	}
	if (st != WEFT_RDMAP_WAIT) {
		qp->waits = 0;
		return st;
	}
	/*
	 * Usually one poll is a grace period. Other workers may be slow, and an operation may take
	 * any time.
	 */
	if (qp->waits < LOCAL_MAX_WAITS)
		qp->waits++;
	if (qp->waits <= LOCAL_TURNS)
		weft_rdmap_resume(qp->rdmap);
	else
		weft_timer_arm(&qp->vw->sched.wheel, &qp->timer,
		               qp->vw->sched.now_ns + (LOCAL_WAIT_NS << (qp->waits - LOCAL_TURNS)));
	return st;
}

/* ---- The peer's Send with Invalidate ---- */

int
weft_verbs_invalidate(void *user, uint32_t stag, struct weft_term *term)
{
	struct weft_qp *qp = user;
	struct weft_mem_mr *m = verbs_ours(qp, stag), *past;

	if (m != NULL && verbs_shared(qp, m))
		m = NULL;
	/* The local invalidation was first. */
	past = m == NULL ? verbs_ours_past(qp, stag) : NULL;
	if (past != NULL && verbs_shared(qp, past))
		past = NULL;
	if (past != NULL && (weft_mem_access(past) & REMOTE_RIGHTS) != 0 &&
	    atomic_exchange_explicit(&past->by_peer, 1, memory_order_acq_rel) == 0)
		return 0;
	/* RFC 5040 s5.3: the STag must belong to this stream alone, and allow remote access. */
	if (m == NULL || (weft_mem_access(m) & REMOTE_RIGHTS) == 0)
		return weft_fault(term, WEFT_TERM_LAYER_RDMA, WEFT_TERM_RDMA_PROTECTION,
		                  WEFT_TERM_PROT_INVALIDATE);
	/* Set before the region is invalid, so that no thread sees it invalid without the mark. */
	atomic_store_explicit(&m->by_peer, 1, memory_order_release);
	/* The STag belongs to the stream but has bound windows: no protection was violated. */
	if (verbs_inv(qp, m, NULL) == -EBUSY) {
		atomic_store_explicit(&m->by_peer, 0, memory_order_release);
		return weft_fault(term, WEFT_TERM_LAYER_RDMA, WEFT_TERM_RDMA_OPERATION,
		                  WEFT_TERM_OP_INVALIDATE);
	}
	return 0;
}
