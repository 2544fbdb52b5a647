/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MEM_H
#define WEFT_MEM_H

/**
 * @file
 * Protection domains, regions and the STag table. Internal; used by ddp
 * (placement), rdmap (requests) and verbs (registration).
 *
 * The table is shared by all workers. A lookup takes no lock and is valid until
 * the worker next reports a quiescent state (RCU, rte_rcu_qsbr); whoever keeps a
 * region longer takes a reference. Invalidation makes the STag unresolvable at
 * once and frees the region later, when no worker can see it and no reference is left.
 *
 * An STag is 32 bits: a slot index and a keyed permutation of the slot's
 * use count, so it is unpredictable (RFC 5042 s6.1.1, s8.1). The values of a slot do not wear out:
 * one of them comes back when three eighths of them all have been used since, in another order than
 * before (mem_stag.c says why that is safe). A region or window that comes and goes by work request
 * (mem_fast.c) keeps its slot; any other gets one that has been free for long.
 */

#include <rte_rcu_qsbr.h>

#include "weft_base.h"
#include "weft_medium.h"
#include <weft/access.h>
#include <weft/hash.h>
#include <weft/persist.h>

/** What a Verify needs: its result tells what a range holds (weft_mem_verify_may_read()). */
#define WEFT_MEM_TO_VERIFY (WEFT_ACCESS_VERIFY | WEFT_ACCESS_REMOTE_READ)

/**
 * Whether a peer with these rights reads nothing by Verify that it may not read: the hash of one
 * octet, of which there are 256, tells the octet, and so the peer reads a range octet by octet,
 * whatever the hash and its key. So verify needs remote read, at registration, for a window, and
 * for what is left of a region.
 */
static inline bool
weft_mem_verify_may_read(uint32_t access)
{
	return (access & WEFT_MEM_TO_VERIFY) != WEFT_ACCESS_VERIFY;
}

struct weft_mem;

/** Compared by address; lives as long as its creator keeps it. */
struct weft_mem_pd {
	struct weft_mem *mem;
	/**
	 * NULL, but in the scope of one stream (RFC 5042 s2.2.5): its domain. What was registered
	 * in the domain may be used by the stream, what was bound to the scope by nobody else.
	 */
	const struct weft_mem_pd *home;
	/** of a scope: which one, by weft_mem_new_stream(); the memory of one that is over may be
	 * another's */
	uint64_t stream;
	uint32_t regions;     /**< registered or reserved and not yet freed (atomic) */
	uint32_t windows;     /**< likewise */
	uint32_t max_regions; /**< 0: as many as the table has slots */
	uint32_t max_windows;
	uint64_t refused; /**< registrations beyond the two (atomic) */
};

/** How a region comes about. */
enum weft_mem_kind {
	WEFT_MEM_REGION, /**< by weft_mem_reg(), once */
	WEFT_MEM_FAST,   /**< reserved by weft_mem_alloc(), made valid again and again */
	WEFT_MEM_WINDOW, /**< likewise, as a part of a region for one stream */
};

/** weft_mem_attr.bound of what is not valid; else the number of windows bound to it. */
#define WEFT_MEM_CLOSED UINT32_MAX
/** weft_mem_attr.bound while weft_mem_narrow() works: no window is bound meanwhile, else it is as
 * 0. */
#define WEFT_MEM_NARROWING (UINT32_MAX - 1)

struct weft_mem_attr {
	uint8_t *addr;
	uint64_t len_bytes;
	uint64_t base_to;             /**< tagged offset of addr[0] */
	uint32_t access;              /**< WEFT_ACCESS_* */
	struct weft_persist *persist; /**< medium that addr belongs to, or NULL (ordinary memory) */
	const struct weft_hash_ops *hash; /**< for WEFT_ACCESS_VERIFY */
	/** Of a keyed hash, else NULL/0. weft_mem_reg() copies it; weft_mem_fill() does not: it
	 * outlives mr. */
	const uint8_t *hash_key;
	uint32_t hash_key_bytes;
	void *owner;    /**< the creator's, found again in the region */
	uint32_t *stag; /**< NULL, or where the STag goes before a peer can use it */
	/**
	 * NULL (one inside the region), or the creator's count of windows bound, which lives until
	 * freed(): whoever makes the region invalid closes it first, by weft_mem_close().
	 */
	uint32_t *bound;
};

/**
 * A region, or a window. Constant while it is valid, but for refs, *bound, the link, and access and
 * len_bytes, which weft_mem_narrow() makes smaller: weft_mem_access() and weft_mem_len() read them,
 * once for each decision. One that was reserved is filled anew only when it is not valid, no worker
 * can still see what it was, and no operation holds a reference.
 */
struct weft_mem_mr {
	uint32_t stag;
	uint32_t access;
	uint8_t *addr;
	uint64_t len_bytes;
	uint64_t base_to;
	/** domain; of a bound window, or a fast region of one stream, the stream's scope */
	struct weft_mem_pd *pd;
	uint64_t stream; /**< weft_mem_pd.stream of that */
	struct weft_persist *persist;
	uint64_t persist_off_bytes; /**< of addr in the persist mapping */
	const struct weft_hash_ops *hash;
	/** Of a keyed hash; a window's is its region's, others' lies behind this structure and is
	 * wiped with it. */
	const uint8_t *hash_key;
	uint32_t hash_key_bytes;
	void *owner;        /**< weft_mem_attr.owner */
	uint32_t refs;      /**< operations that outlive a poll (atomic) */
	uint32_t lost_seen; /**< what weft_mem_region_lost() found last (atomic) */
	uint32_t slot;
	/** the region that a window is of; good while it is bound or has references */
	struct weft_mem_mr *parent;
	uint32_t *bound; /**< windows bound to it, or WEFT_MEM_CLOSED (atomic) */
	uint32_t own_bound;
	struct weft_mem_pd *account; /**< the domain that counts it */
	uint8_t kind;                /**< enum weft_mem_kind */
	/** of one that was reserved: a peer has invalidated it since it was filled (atomic) */
	uint8_t by_peer;
	/* of one that was reserved; atomic */
	bool dead;          /**< given up by weft_mem_dealloc() */
	uint32_t idle;      /**< may be claimed, for filling or for good */
	uint32_t version;   /**< odd while it is being filled */
	uint32_t next_stag; /**< of its next registration */
	/* after invalidation */
	uint64_t rcu_token;
	void (*freed)(void *arg);
	void *freed_arg;
	TAILQ_ENTRY(weft_mem_mr) link;
};

/** Why a range was refused, in the order of RFC 5041 s7.1 / RFC 5040 s4.8. */
enum weft_mem_err {
	WEFT_MEM_OK = 0,
	WEFT_MEM_BAD_STAG, /**< no such STag */
	WEFT_MEM_BAD_PD,   /**< STag not associated with this stream */
	WEFT_MEM_TO_WRAP,  /**< TO + length wraps 2^64 */
	WEFT_MEM_BOUNDS,
	WEFT_MEM_ACCESS,
};

/** max_regions is rounded up to a power of two, at most 2^20; max_workers bounds RCU readers.
 * -ENOMEM, -EINVAL. */
int weft_mem_create(uint32_t max_regions, unsigned int max_workers, const struct weft_rand *rand,
                    struct weft_mem **out);
/** Every region must have been invalidated; frees what still waits. */
void weft_mem_destroy(struct weft_mem *m);

/**
 * Register. -EINVAL (no length, address or TO range wraps, right unknown, the hash needs a key or
 * takes none such), -EIO (a page of it is lost, weft/guard.h), -EOPNOTSUPP (the medium or hash
 * cannot honour a right: flush-persistent without a persistent medium, verify without hash, or
 * without remote read), -ERANGE (not inside the persist mapping), -ENOSPC (table full, or the
 * domain's limit), -ENOMEM. Any thread; takes a lock.
 */
int weft_mem_reg(struct weft_mem *m, struct weft_mem_pd *pd, const struct weft_mem_attr *attr,
                 struct weft_mem_mr **out);
/** What weft_mem_reg() refuses of an attribute structure; needs no lock. */
int weft_mem_check_attr(const struct weft_mem_attr *attr);
/**
 * Forbid windows to be bound from now on, before a region is invalidated. 0; -EBUSY: some are;
 * -EALREADY: somebody else was first. `bound` as in weft_mem_attr; any thread, lock-free.
 */
int weft_mem_close(uint32_t *bound);
/**
 * Make the STag unresolvable now, once per region of weft_mem_reg(), after weft_mem_close() where
 * windows may be bound; freed(arg) runs (on whichever thread calls weft_mem_reclaim()) once nothing
 * can touch the memory any more; mr is gone then and pd->regions counts it no more. freed may be
 * NULL; it is called without the lock, so it may register and invalidate. The slot is used again
 * only after that, so regions waiting to be freed count against max_regions. Any thread.
 */
void weft_mem_invalidate(struct weft_mem *m, struct weft_mem_mr *mr, void (*freed)(void *arg),
                         void *arg);
/** Free what can be freed; called by workers now and then, never blocks. Returns regions freed. */
unsigned int weft_mem_reclaim(struct weft_mem *m);
/** Regions there may be at a time, reserved ones included. */
uint32_t weft_mem_max(const struct weft_mem *m);
/** Regions registered now, and regions and windows reserved. */
uint32_t weft_mem_count(const struct weft_mem *m);
/** The i-th of them copied for display (stag 0: reserved, not valid now); -ENOENT past the last.
 * Takes the lock. */
int weft_mem_get(struct weft_mem *m, uint32_t i, struct weft_mem_mr *copy);

/** Whether it is in its slot: its STag resolves. */
bool weft_mem_valid(const struct weft_mem *m, const struct weft_mem_mr *mr);
/** What it is registered as now, all of one moment; stag 0: not valid. Any thread that keeps mr
 * alive. */
void weft_mem_snapshot(const struct weft_mem *m, const struct weft_mem_mr *mr,
                       struct weft_mem_mr *copy);

/** Note that this STag was narrowed or invalidated because somebody wanted it back; lasts while
 * its slot does. */
void weft_mem_set_revoked(struct weft_mem *m, uint32_t stag);
/** Whether it was: for counting refusals, off the usual path. Any thread. */
bool weft_mem_is_revoked(const struct weft_mem *m, uint32_t stag);

/* RCU: a worker registers, goes online, reports quiescence once per poll, goes offline to sleep. */
int weft_mem_reader_register(struct weft_mem *m, unsigned int worker_id);
void weft_mem_reader_unregister(struct weft_mem *m, unsigned int worker_id);
void weft_mem_online(struct weft_mem *m, unsigned int worker_id);
void weft_mem_offline(struct weft_mem *m, unsigned int worker_id);
void weft_mem_quiescent(struct weft_mem *m, unsigned int worker_id);

/** The number of a stream, never given before. Any thread, lock-free. */
uint64_t weft_mem_new_stream(void);

/** Whether a stream may use it: its domain's region, or what is its own. */
static inline bool
weft_mem_in_scope(const struct weft_mem_mr *mr, const struct weft_mem_pd *scope)
{
	return mr->pd == scope->home || (mr->pd == scope && mr->stream == scope->stream);
}

/** Lock-free; NULL for an STag that does not resolve now. Valid until the caller's next quiescent
 * state. */
struct weft_mem_mr *weft_mem_lookup(struct weft_mem *m, uint32_t stag);
/**
 * The reserved region or window whose last registration had this STag and is over, or NULL; as good
 * as what weft_mem_lookup() finds. For invalidations that cross: both sides may want to end the
 * same one.
 */
struct weft_mem_mr *weft_mem_lookup_past(struct weft_mem *m, uint32_t stag);
/** Of a window it holds the region as well. */
void weft_mem_ref(struct weft_mem_mr *mr);
void weft_mem_unref(struct weft_mem_mr *mr);

static inline uint32_t
weft_mem_access(const struct weft_mem_mr *mr)
{
	return __atomic_load_n(&mr->access, __ATOMIC_RELAXED);
}

static inline uint64_t
weft_mem_len(const struct weft_mem_mr *mr)
{
	return __atomic_load_n(&mr->len_bytes, __ATOMIC_RELAXED);
}

/** Check pd, range and rights, in enum order; no arithmetic here can wrap. Zero length checks pd
 * and rights, not range (RFC 5040 s5.2 note). */
enum weft_mem_err weft_mem_check(const struct weft_mem_mr *mr, const struct weft_mem_pd *pd,
                                 uint64_t to, uint64_t len_bytes, uint32_t access);

/** weft_mem_lost() once there were losses. */
bool weft_mem_region_lost(struct weft_mem_mr *mr);

/**
 * Whether a page of the region is lost: what was read is not what was there, what was stored
 * reaches no medium. Asked before an operation, and behind its last access to memory: the loss
 * happens in the middle of it, on this thread.
 */
static inline bool
weft_mem_lost(struct weft_mem_mr *mr)
{
	return weft_medium_lost_any() && weft_mem_region_lost(mr);
}

/** Start its hash, with its key if it takes one. 0, or the driver's. */
static inline int
weft_mem_hash_init(const struct weft_mem_mr *mr, struct weft_hash_state *st)
{
	if (mr->hash->key_max_bytes == 0)
		return mr->hash->init(st, NULL, 0);
	return mr->hash->init(st, mr->hash_key, mr->hash_key_bytes);
}

/** Address of a checked TO. */
static inline uint8_t *
weft_mem_addr(const struct weft_mem_mr *mr, uint64_t to)
{
	return mr->addr + (to - mr->base_to);
}

#endif /* WEFT_MEM_H */
