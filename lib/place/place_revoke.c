/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Revocation of a region: announcement, deadline, then the access is reduced or ended.
 *
 * A revocation belongs to one worker and changes only there, in `turn`, which runs in the delivery
 * phase. Other threads set a flag and send a kick. The handle of the region points to the
 * revocation, under the context's lock. When this pointer is cleared, no thread sends a kick any
 * more, and the last turn frees the revocation.
 */

#include <stdlib.h>

#include "place_priv.h"
#include "weft_mem_fast.h"
#include "weft_mem_find.h"
#include <weft/revoke.h>

/** first check; later ones are less and less frequent */
#define REVOKE_GRACE_NS     (20 * WEFT_NS_PER_US)
#define REVOKE_GRACE_MAX_NS (10 * WEFT_NS_PER_MS)

#define LOCAL_RIGHTS (WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_MW_BIND)

enum revoke_state { REVOKE_NEW, REVOKE_WAITING, REVOKE_GRACE, REVOKE_OVER };

struct place_revoke {
	/* on the worker only */
	enum revoke_state state;
	bool queued; /**< `turn` is queued */
	struct weft_vworker *vw;
	struct weft_mr *mr; /**< referenced */
	weft_revoke_fn on_revoke;
	void *user;
	struct weft_revoke r;
	uint64_t deadline_ns; /**< a duration until the first turn, then a point in time */
	uint64_t token, grace_ns;
	struct weft_timer timer;
	struct weft_work_item turn;
	/* any thread */
	struct weft_work_item kick;
	_Atomic uint32_t kicked; /**< `kick` is under way */
	atomic_bool dropped, answered;
};

const char *
weft_revoke_step_str(enum weft_revoke_step s)
{
	static const char *const names[] = {
	        [WEFT_REVOKE_ASKED] = "asked back",
	        [WEFT_REVOKE_REDUCED] = "reduced",
	        [WEFT_REVOKE_INVALIDATED] = "revoked",
	        [WEFT_REVOKE_FAILED] = "revoke failed",
	};

	return (unsigned int)s < RTE_DIM(names) ? names[s] : "?";
}

/* ---- On the worker ---- */

static void
revoke_queue(struct place_revoke *rc)
{
	if (rc->queued)
		return;
	rc->queued = true;
	weft_vworker_later(rc->vw, &rc->turn);
}

static void
revoke_kicked(struct weft_work_item *m)
{
	struct place_revoke *rc = container_of(m, struct place_revoke, kick);

	atomic_store_explicit(&rc->kicked, 0, memory_order_release);
	revoke_queue(rc);
}

static void
revoke_due(struct weft_timer *t, uint64_t now_ns)
{
	(void)now_ns;
	revoke_queue(container_of(t, struct place_revoke, timer));
}

static bool
revoke_dropped(const struct place_revoke *rc)
{
	return atomic_load_explicit(&rc->dropped, memory_order_acquire);
}

static void
revoke_tell(struct place_revoke *rc, enum weft_revoke_step step)
{
	rc->r.step = step;
	if (rc->on_revoke != NULL && !revoke_dropped(rc))
		rc->on_revoke(rc->user, &rc->r);
}

/** The revocation is over: the region may be revoked again, and no thread sends a kick any more. */
static void
revoke_end(struct place_revoke *rc)
{
	struct weft_vctx *v = rc->vw->ctx;

	rc->state = REVOKE_OVER;
	pthread_mutex_lock(&v->lock);
	if (rc->mr->revoke == rc)
		rc->mr->revoke = NULL;
	pthread_mutex_unlock(&v->lock);
}

static void
revoke_done(struct place_revoke *rc, enum weft_revoke_step step)
{
	struct weft_vworker_stats *st = &rc->vw->stats;

	if (step == WEFT_REVOKE_REDUCED)
		st->revocations_reduced++;
	else if (step == WEFT_REVOKE_INVALIDATED)
		st->revocations_invalidated++;
	else
		st->revocations_failed++;
	revoke_end(rc);
	revoke_tell(rc, step);
}

static int
revoke_invalidate(struct place_revoke *rc)
{
	struct weft_vctx *v = rc->vw->ctx;
	struct weft_mem_mr *m = weft_mem_lookup(v->mem, rc->r.stag);
	int r;

	if (m == NULL || m->owner != rc->mr)
		return -ENOENT;
	r = m->kind == WEFT_MEM_REGION ? weft_verbs_mr_disable(v, m)
	                               : weft_mem_fast_invalidate(v->mem, m);
	if (r == 0)
		weft_mem_set_revoked(v->mem, rc->r.stag);
	return r;
}

static int
revoke_reduce(struct place_revoke *rc)
{
	struct weft_vctx *v = rc->vw->ctx;
	int r = weft_mem_narrow(v->mem, rc->r.stag, rc->r.access, rc->r.len_bytes, &rc->token);

	if (r == 0 && !rc->mr->fast) {
		/* Read by queries. */
		atomic_store_explicit(WEFT_ATOMIC_REF(rc->mr->attr.access), rc->r.access,
		                      memory_order_relaxed);
		atomic_store_explicit(WEFT_ATOMIC_REF(rc->mr->attr.len_bytes), rc->r.len_bytes,
		                      memory_order_relaxed);
	}
	return r;
}

static void
revoke_take(struct place_revoke *rc)
{
	bool revoke = rc->r.access == 0;
	int r = revoke ? revoke_invalidate(rc) : revoke_reduce(rc);

	rc->r.deadline_us = 0;
	if (r < 0) {
		/* The attributes were checked before, so any other error is permanent. */
		rc->r.status = r;
		revoke_done(rc, WEFT_REVOKE_FAILED);
	} else if (revoke) {
		revoke_done(rc, WEFT_REVOKE_INVALIDATED);
	} else {
		rc->state = REVOKE_GRACE;
		rc->grace_ns = REVOKE_GRACE_NS;
	}
}

static void
revoke_step(struct place_revoke *rc)
{
	uint64_t now_ns = rc->vw->sched.now_ns;

	if (rc->state == REVOKE_NEW) {
		rc->state = REVOKE_WAITING;
		rc->deadline_ns += now_ns;
		rc->vw->stats.revocations++;
		revoke_tell(rc, WEFT_REVOKE_ASKED);
	}
	if (rc->state != REVOKE_OVER && revoke_dropped(rc))
		revoke_end(rc);
	if (rc->state == REVOKE_WAITING) {
		bool go = atomic_load_explicit(&rc->answered, memory_order_acquire);

		rc->r.in_time = go;
		if (go || now_ns >= rc->deadline_ns)
			revoke_take(rc);
		else
			weft_timer_arm(&rc->vw->sched.wheel, &rc->timer, rc->deadline_ns);
	}
	if (rc->state == REVOKE_GRACE) {
		if (weft_mem_narrowed(rc->vw->ctx->mem, rc->token)) {
			revoke_done(rc, WEFT_REVOKE_REDUCED);
		} else {
			weft_timer_arm(&rc->vw->sched.wheel, &rc->timer, now_ns + rc->grace_ns);
			rc->grace_ns = RTE_MIN(2 * rc->grace_ns, REVOKE_GRACE_MAX_NS);
		}
	}
}

static void
revoke_turn(struct weft_work_item *m)
{
	struct place_revoke *rc = container_of(m, struct place_revoke, turn);

	rc->queued = false;
	if (rc->state != REVOKE_OVER)
		revoke_step(rc);
	/* A kick that is still under way causes one more turn. */
	if (rc->state != REVOKE_OVER || rc->queued ||
	    atomic_load_explicit(&rc->kicked, memory_order_acquire) != 0)
		return;
	weft_timer_cancel(&rc->vw->sched.wheel, &rc->timer);
	weft_verbs_mr_unref(rc->mr);
	free(rc);
}

/* ---- On any thread ---- */

/** The context's lock is held, or no other thread knows the revocation. */
static void
revoke_kick(struct place_revoke *rc)
{
	if (atomic_exchange_explicit(&rc->kicked, 1, memory_order_acq_rel) == 0)
		weft_work_send(&rc->vw->work, &rc->kick);
}

void
place_revoke_end(struct weft_mr *mr)
{
	struct place_revoke *rc = mr->revoke;

	if (rc == NULL)
		return;
	mr->revoke = NULL;
	atomic_store_explicit(&rc->dropped, true, memory_order_release);
	revoke_kick(rc);
}

/** Compute what remains, by the rules of registration. */
static int
revoke_check(const struct weft_mr_info *info, struct weft_revoke *r)
{
	if (!info->valid)
		return -ENOENT;
	if (info->windows > 0)
		return -EBUSY;
	if ((r->access & ~info->access) != 0 || r->len_bytes > info->len_bytes)
		return -EINVAL;
	r->stag = info->stag;
	r->had_access = info->access;
	r->had_len_bytes = info->len_bytes;
	if (r->access == 0) {
		r->len_bytes = 0;
		return 0;
	}
	r->access |= info->access & LOCAL_RIGHTS;
	if (r->len_bytes == 0)
		r->len_bytes = info->len_bytes;
	return weft_mem_verify_may_read(r->access) ? 0 : -EOPNOTSUPP;
}

int
weft_mr_revoke(struct weft_mr *mr, const struct weft_revoke_attr *attr)
{
	struct weft_revoke_attr a;
	struct weft_mr_info info;
	struct place_revoke *rc;
	struct weft_vctx *v;
	int r;

	if (WEFT_HANDLE_BAD(mr, MR))
		return -EINVAL;
	v = mr->pd->ctx;
	r = weft_attr_copy(&a, sizeof(a), attr);
	if (r < 0)
		return r;
	if (a.worker != NULL && WEFT_HANDLE_BAD(a.worker, WORKER))
		return -EINVAL;
	if (a.deadline_us > UINT64_MAX / 2 / WEFT_NS_PER_US)
		return -EINVAL;
	rc = calloc(1, sizeof(*rc));
	if (rc == NULL)
		return -ENOMEM;
	rc->r = (struct weft_revoke){.mr = mr,
	                             .access = a.access,
	                             .len_bytes = a.len_bytes,
	                             .deadline_us = a.deadline_us};
	weft_mr_query(mr, &info);
	r = revoke_check(&info, &rc->r);
	rc->vw = a.worker != NULL ? weft_vworker_of(a.worker) : weft_verbs_any_worker(v);
	if (r == 0 && rc->vw == NULL)
		r = -ENODEV;
	if (r == 0 && rc->vw->ctx != v)
		r = -EINVAL;
	if (r < 0) {
		free(rc);
		return r;
	}
	rc->on_revoke = a.on_revoke;
	rc->user = a.user;
	rc->mr = mr;
	rc->deadline_ns = a.deadline_us * WEFT_NS_PER_US;
	rc->turn.fn = revoke_turn;
	rc->kick.fn = revoke_kicked;
	weft_timer_init(&rc->timer, revoke_due);
	pthread_mutex_lock(&v->lock);
	if (mr->revoke != NULL) {
		pthread_mutex_unlock(&v->lock);
		free(rc);
		return -EALREADY;
	}
	mr->revoke = rc;
	atomic_fetch_add_explicit(&mr->refs, 1, memory_order_relaxed);
	revoke_kick(rc);
	pthread_mutex_unlock(&v->lock);
	return 0;
}

int
weft_mr_revoke_go(struct weft_mr *mr)
{
	struct weft_vctx *v;
	int r = -ENOENT;

	if (WEFT_HANDLE_BAD(mr, MR))
		return -EINVAL;
	v = mr->pd->ctx;
	pthread_mutex_lock(&v->lock);
	if (mr->revoke != NULL) {
		atomic_store_explicit(&mr->revoke->answered, true, memory_order_release);
		revoke_kick(mr->revoke);
		r = 0;
	}
	pthread_mutex_unlock(&v->lock);
	return r;
}
