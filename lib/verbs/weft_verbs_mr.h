/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_VERBS_MR_H
#define WEFT_VERBS_MR_H

/**
 * @file Protection domains, memory regions and memory windows: the objects behind the handles.
 *
 * The memory of an object may exist longer than its handle. `users` counts the handles that use the
 * object (-EBUSY), `refs` counts the pointers to it. Callbacks of the user run only from
 * weft_vworker_deliver(), from work items and from alarms, never inside an up-call of a lower
 * layer. So they may destroy anything.
 */

#include "weft_mem.h"
#include "weft_vworker.h"

struct weft_pd {
	struct weft_handle h;
	struct weft_mem_pd mem;
	struct weft_vctx *ctx;
	_Atomic uint32_t users;    /**< handles: QPs, regions and windows */
	_Atomic uint32_t nqps;     /**< handles of QPs, which may use its regions */
	_Atomic uint32_t refs;     /**< pointers: handle, QPs, regions and windows */
	TAILQ_HEAD(, weft_mw) mws; /**< under the context's lock */
	TAILQ_ENTRY(weft_pd) all;
};

struct weft_mr {
	struct weft_handle h;
	/**
	 * Of weft_mr_reg(): valid while `bound` is not closed. Of weft_mr_alloc(): while not
	 * `dead`.
	 */
	struct weft_mem_mr *mr;
	struct weft_pd *pd;
	/** of weft_mr_reg(): as registered; rights and length through WEFT_ATOMIC_REF() */
	struct weft_mem_attr attr;
	_Atomic uint32_t stag;
	_Atomic uint32_t bound; /**< weft_mem_attr.bound; tells also whether it is valid */
	void (*freed)(void *arg);
	void *freed_arg;
	bool fast;        /**< of weft_mr_alloc() */
	atomic_bool dead; /**< weft_mr_dereg() was called */
	atomic_bool gone; /**< no operation accesses the memory any more */
	/** counts the handle and the region; freed() is called when both are gone */
	_Atomic uint32_t left;
	/** calls freed() if the handle is the last, outside weft_mr_dereg() */
	struct weft_work_item last;
	_Atomic uint32_t refs; /**< handle, region, work requests, a revocation */
	/* under the context's lock; NULL: none */
	struct place_revoke *revoke;         /**< a revocation under way */
	struct place_bad_ranges *bad_ranges; /**< made at the first failure */
	_Atomic uint32_t nbad_ranges;        /**< number of bad ranges; any thread */
	TAILQ_ENTRY(weft_mr) all;
};

struct weft_mw {
	struct weft_handle h;
	struct weft_mem_mr *win; /**< valid while not `dead` */
	struct weft_pd *pd;
	_Atomic uint32_t stag;
	uint32_t keyless; /**< STag of weft_mw_keyed_stag() with key 0 */
	atomic_bool dead; /**< weft_mw_dealloc() was called */
	atomic_bool gone; /**< weft_mw_dealloc() has made it invalid */
	_Atomic uint32_t
	        refs; /**< the handle, the window, work requests, the stream it was bound to */
	TAILQ_ENTRY(weft_mw) all;
	TAILQ_ENTRY(weft_mw) bound; /**< in its stream's `windows` */
};

/**
 * Invalidate a region of weft_mr_reg(): the STag ends, the handle stays until weft_mr_dereg(). The
 * caller looked it up in this poll, so it and its handle exist. -EBUSY: windows are bound to it.
 */
int weft_verbs_mr_disable(struct weft_vctx *v, struct weft_mem_mr *mem_mr);
void weft_verbs_mr_unref(struct weft_mr *mr);
/** The caller's worker, else one that a thread polls, else the first; NULL: there is none. */
struct weft_vworker *weft_verbs_any_worker(const struct weft_vctx *v);
/**
 * Take the context's lock in order to destroy a claimed handle. -EBUSY: the object is in use; the
 * lock is released and the claim given back.
 */
int weft_verbs_lock_unused(struct weft_vctx *v, struct weft_handle *h,
                           const struct weft_handle_kind *kind, const _Atomic uint32_t *users);
void weft_verbs_mw_unref(struct weft_mw *mw);
void weft_verbs_pd_unref(struct weft_pd *pd);

#endif /* WEFT_VERBS_MR_H */
