/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_REVOKE_H
#define WEFT_REVOKE_H

/**
 * @file
 * Asking for a region back (draft-talpey-rdma-commit-02 s6): whoever runs short of memory, of a
 * medium or of bandwidth takes back what peers were granted in order, in place of a deregistration
 * that ends the peer's connection at its next request. Installed; stands alone.
 *
 * 1. The consumer who owns the grant is told what is wanted and when (WEFT_REVOKE_ASKED). It tells
 *    its peer by their own protocol; nothing changes meanwhile.
 * 2. When it says weft_mr_revoke_go(), or at the deadline, the grant is reduced under the STag that
 *    it has (fewer rights, fewer octets, or both), or revoked.
 * 3. When that holds for every worker, the consumer is told (WEFT_REVOKE_REDUCED,
 *    WEFT_REVOKE_INVALIDATED).
 *
 * What a peer meets. On each stream the change falls between two steps: a segment of a Write, a
 * segment of a Read's answer, a slice of a Verify, an Atomic, an Atomic Write. What was done before
 * stays and is answered. What comes later, or has come and waits in the inbound queue or is under
 * way there, is held against what is left, a Read or Verify with its whole range: it is done, or
 * refused behind the answers to all before it, and nothing behind it is done. A Flush that has come
 * in time is done and answered whatever was taken: it neither reads out nor changes anything. The
 * refusal is the Terminate that it always is, and ends that one stream: a right that was taken
 * 0/1/02; octets that were taken 0/1/01, of a Write 1/1/01; a revoked STag 0/1/00, of a Write
 * 1/1/00. It is counted as `refused_after_revoke` (weft_worker_stats, telemetry /weft/rdmap).
 *
 * Regions by weft_mr_reg() and by weft_mr_alloc() alike, of the latter the registration that is
 * valid now. A window is taken back by weft_mw_dealloc() or WEFT_WR_LOCAL_INV; while windows are
 * bound to a region, it is not (-EBUSY).
 */

#include <weft/api.h>
#include <weft/verbs.h>

WEFT_API_BEGIN

enum weft_revoke_step {
	/** first: this is wanted back; get ready and say weft_mr_revoke_go(), or let the time pass
	 */
	WEFT_REVOKE_ASKED,
	/**
	 * Last: the rest holds. No peer reads or changes any more what was taken, so it may be
	 * granted to others; a Flush of it that came before may still be under way.
	 */
	WEFT_REVOKE_REDUCED,
	/** Last: the STag resolves no more. weft_mr_dereg() says when operations in flight are
	 * over; or register it anew. */
	WEFT_REVOKE_INVALIDATED,
	WEFT_REVOKE_FAILED, /**< last: nothing was taken: status */
};

/** "asked back", "reduced", ...; static. */
const char *weft_revoke_step_str(enum weft_revoke_step s);

struct weft_revoke {
	enum weft_revoke_step step;
	struct weft_mr *mr;
	uint32_t stag;       /**< that was valid when weft_mr_revoke() was called */
	uint32_t access;     /**< what is to be left, or was: rights; 0: nothing */
	uint64_t len_bytes;  /**< and octets from the beginning */
	uint32_t had_access; /**< before */
	uint64_t had_len_bytes;
	uint64_t deadline_us; /**< ASKED: so long from now */
	bool in_time;         /**< REDUCED, INVALIDATED: the consumer said weft_mr_revoke_go() */
	/**
	 * FAILED: -EBUSY (a window was bound meanwhile), -ENOENT (somebody else ended the grant:
	 * the peer by a Send with Invalidate, a WEFT_WR_LOCAL_INV).
	 */
	int status;
};

/**
 * On the revocation's worker, as a completion's callback is; may post, revoke others, deregister
 * mr. From the call with FAILED, REDUCED or INVALIDATED on mr may be revoked again. r is good until
 * it returns.
 */
typedef void (*weft_revoke_fn)(void *user, const struct weft_revoke *r);

struct weft_revoke_attr {
	size_t size; /**< sizeof(struct weft_revoke_attr) */
	/**
	 * Rights to be left, of those that it has; WEFT_ACCESS_LOCAL_WRITE and MW_BIND, which give
	 * a peer nothing, stay in any case. 0: none, revoke. WEFT_ACCESS_LOCAL_WRITE alone: no
	 * remote right, and the STag stays.
	 */
	uint32_t access;
	uint64_t len_bytes;       /**< [as long as it is] octets to be left, from the beginning */
	uint64_t deadline_us;     /**< [0: as soon as the consumer was told] */
	weft_revoke_fn on_revoke; /**< NULL: nobody is told */
	void *user;
	/** [NULL: the calling thread's, else one that is polled] where on_revoke runs */
	struct weft_worker *worker;
};

/**
 * Begin. 0: on_revoke follows, never inside this call. -EALREADY: mr is being revoked; -ENOENT: it
 * is not valid; -EBUSY: windows are bound to it; -EINVAL: a right or an octet that it does not
 * have, no region, no worker; -EOPNOTSUPP: what would be left could not be registered (verify
 * without remote read); -ENODEV: the context has no worker; -ENOMEM. Any thread. weft_mr_dereg()
 * ends a revocation without a further call (called on another thread than the worker's: one may be
 * running at this moment).
 */
int weft_mr_revoke(struct weft_mr *mr, const struct weft_revoke_attr *attr);
/**
 * The consumer needs no more time. Any thread, the callback's too. -ENOENT: mr is not being
 * revoked; -EINVAL: it is no region.
 */
int weft_mr_revoke_go(struct weft_mr *mr);

WEFT_API_END

#endif /* WEFT_REVOKE_H */
