/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_REVOKE_H
#define WEFT_REVOKE_H

/**
 * @file Revocation: asking a peer to give up access to a region before it is taken away
 * (draft-talpey-rdma-commit-02 s6). Installed; stands alone.
 *
 * An owner that runs short of memory, of a medium or of bandwidth takes back what it has granted. A
 * deregistration does this, too, but it ends the peer's connection at the peer's next request. A
 * revocation gives the peer time:
 *
 * 1. The callback is told what is wanted back, and by when (WEFT_REVOKE_ASKED). The consumer tells
 *    its peer by their own protocol. Nothing changes yet.
 * 2. When the consumer calls weft_mr_revoke_go(), or at the deadline, the access is reduced under
 *    the same STag (fewer rights, fewer octets, or both), or the STag is invalidated.
 * 3. When the change holds on all workers, the callback is told (WEFT_REVOKE_REDUCED or
 *    WEFT_REVOKE_INVALIDATED).
 *
 * What a peer sees. On each stream the change falls between two steps. A step is one segment of a
 * Write, one segment of a Read Response, one slice of a Verify, one Atomic, or one Atomic Write.
 * Steps before the change are kept and answered. Every request after the change is checked against
 * the access that is left, also a request that has already arrived and waits, or is being executed,
 * in the inbound queue. A Read or a Verify is checked with its whole range. The request is executed
 * or refused. A refusal follows the responses to all earlier requests, and no later request is
 * executed. A Flush that arrived before the change is always executed and answered, because it
 * reads nothing out and changes nothing.
 *
 * A refusal is the usual Terminate and ends that one stream:
 *
 * 	a right was taken	0/1/02
 * 	octets were taken	0/1/01; of a Write 1/1/01
 * 	the STag was invalidated	0/1/00; of a Write 1/1/00
 *
 * It is counted in `refused_after_revoke` (weft_worker_stats, telemetry /weft/rdmap).
 *
 * Regions of weft_mr_reg() and of weft_mr_alloc() can be revoked; of the latter, the registration
 * that is valid now. A region cannot be revoked while windows are bound to it (-EBUSY).
 * weft_mw_dealloc() or WEFT_WR_LOCAL_INV takes back a window.
 */

#include <weft/api.h>
#include <weft/verbs.h>

WEFT_API_BEGIN

enum weft_revoke_step {
	/**
	 * First: the region is wanted back. The consumer prepares and calls weft_mr_revoke_go(), or
	 * lets the deadline pass.
	 */
	WEFT_REVOKE_ASKED,
	/**
	 * Last: the reduced access holds. No peer reads or changes any more what was taken, so it
	 * may be granted to others. A Flush of it that arrived before may still be under way.
	 */
	WEFT_REVOKE_REDUCED,
	/**
	 * Last: the STag is invalid. The `freed` callback of weft_mr_dereg() tells when operations
	 * in flight are over. A region of weft_mr_alloc() may be registered again.
	 */
	WEFT_REVOKE_INVALIDATED,
	WEFT_REVOKE_FAILED, /**< last: nothing was taken; see status */
};

/** "asked back", "reduced", ...; the string is static. */
const char *weft_revoke_step_str(enum weft_revoke_step s);

struct weft_revoke {
	enum weft_revoke_step step;
	struct weft_mr *mr;
	uint32_t stag;       /**< the STag when weft_mr_revoke() was called */
	uint32_t access;     /**< rights that remain; 0: the STag is invalidated */
	uint64_t len_bytes;  /**< octets that remain, from the beginning of the region */
	uint32_t had_access; /**< rights before the revocation */
	uint64_t had_len_bytes;
	uint64_t deadline_us; /**< ASKED: time from now to the deadline */
	/** REDUCED, INVALIDATED: the consumer called weft_mr_revoke_go() before the deadline */
	bool in_time;
	/**
	 * FAILED: -EBUSY (a window was bound meanwhile) or -ENOENT (the STag was invalidated
	 * meanwhile, by the peer's Send with Invalidate or by WEFT_WR_LOCAL_INV).
	 */
	int status;
};

/**
 * Called on the worker of the revocation, like the callback of a completion. It may post, revoke
 * other regions, and deregister mr. During the call with FAILED, REDUCED or INVALIDATED, and after
 * it, mr may be revoked again. r is valid until the function returns.
 */
typedef void (*weft_revoke_fn)(void *user, const struct weft_revoke *r);

struct weft_revoke_attr {
	size_t size; /**< sizeof(struct weft_revoke_attr) */
	/**
	 * Rights that shall remain; each is a right that the region has. WEFT_ACCESS_LOCAL_WRITE
	 * and WEFT_ACCESS_MW_BIND give a peer nothing and always remain. 0: no right remains and
	 * the STag is invalidated. WEFT_ACCESS_LOCAL_WRITE alone: no remote right remains, and the
	 * STag stays valid.
	 */
	uint32_t access;
	uint64_t len_bytes;       /**< [0: all] octets that shall remain, from the beginning */
	uint64_t deadline_us;     /**< [0: at once, after ASKED] time given to the consumer */
	weft_revoke_fn on_revoke; /**< may be NULL */
	void *user;
	/**
	 * Where on_revoke runs. [NULL: the worker of the calling thread, else one that is polled]
	 */
	struct weft_worker *worker;
};

/**
 * Start a revocation. on_revoke follows, never during this call. Any thread. weft_mr_dereg() ends
 * the revocation without a further call of on_revoke. If weft_mr_dereg() is called on another
 * thread than the worker's, one call may be running at that moment. Returns 0, or
 * - -EALREADY: mr is being revoked
 * - -ENOENT: mr is not valid
 * - -EBUSY: windows are bound to it
 * - -EINVAL: a right or an octet that the region does not have; no region; no worker of this
 *   context; a deadline_us of more than 2^63 ns
 * - -EOPNOTSUPP: what remains could not be registered (VERIFY without REMOTE_READ)
 * - -ENODEV: the context has no worker
 * - -ENOMEM
 */
int weft_mr_revoke(struct weft_mr *mr, const struct weft_revoke_attr *attr);
/**
 * The consumer needs no more time. Any thread, also in on_revoke. -ENOENT: mr is not being revoked.
 * -EINVAL: mr is not a region.
 */
int weft_mr_revoke_go(struct weft_mr *mr);

WEFT_API_END

#endif /* WEFT_REVOKE_H */
