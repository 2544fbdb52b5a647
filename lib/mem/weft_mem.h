/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MEM_H
#define WEFT_MEM_H

/**
 * @file Protection domains, regions and the STag table. Internal; used by ddp (placement), rdmap
 * (requests) and verbs (registration).
 *
 * All workers share the table. A lookup takes no lock. Its result is valid until the worker next
 * reports a quiescent state (RCU, rte_rcu_qsbr); to keep a region longer, a thread takes a
 * reference. Invalidation makes the STag invalid at once. The region is freed later, when no worker
 * can see it and no reference is left.
 *
 * An STag has 32 bits: a slot index, and a keyed permutation of the slot's use count. So it is
 * unpredictable (RFC 5042 s6.1.1, s8.1). The values of a slot are not used up: a value is used
 * again after three eighths of all values of the slot have been used since, in another order than
 * before (mem_stag.c says why this is safe). A region or window that becomes valid by work request
 * (mem_fast.c) keeps its slot. Any other region gets a slot that has been free for a long time.
 */

#include <stdatomic.h>

#include <rte_rcu_qsbr.h>

#include "weft_base.h"
#include "weft_medium.h"
#include <weft/access.h>
#include <weft/hash.h>
#include <weft/persist.h>

/** The rights that a Verify needs (weft_mem_verify_may_read()). */
#define WEFT_MEM_TO_VERIFY (WEFT_ACCESS_VERIFY | WEFT_ACCESS_REMOTE_READ)

/**
 * Whether a peer with these rights cannot read by Verify what it may not read. An octet has 256
 * values, so the hash of one octet reveals the octet, whatever the hash and its key. A peer with
 * verify could read a range octet by octet. So verify requires remote read: at registration, for a
 * window, and for what remains of a region.
 */
static inline bool
weft_mem_verify_may_read(uint32_t access)
{
	return (access & WEFT_MEM_TO_VERIFY) != WEFT_ACCESS_VERIFY;
}

struct weft_mem;

/** Compared by address. Exists as long as its creator keeps it. */
struct weft_mem_pd {
	struct weft_mem *mem;
	/**
	 * NULL, except in the scope of one stream (RFC 5042 s2.2.5): the stream's domain. The
	 * stream may use what was registered in the domain. Only the stream may use what was bound
	 * to its scope.
	 */
	const struct weft_mem_pd *home;
	/** of a scope: the stream's number; a new scope may get an ended one's memory */
	uint64_t stream;
	_Atomic uint32_t regions; /**< registered or reserved and not yet freed */
	_Atomic uint32_t windows; /**< likewise */
	uint32_t max_regions;     /**< 0: as many as the table has slots */
	uint32_t max_windows;
	_Atomic uint64_t refused; /**< registrations beyond the two limits */
};

/** Kind of a region. */
enum weft_mem_kind {
	WEFT_MEM_REGION, /**< registered by weft_mem_reg(), once */
	WEFT_MEM_FAST,   /**< reserved by weft_mem_alloc(), made valid again and again */
	WEFT_MEM_WINDOW, /**< the same, as a part of a region, for one stream */
};

/** weft_mem_attr.bound of a region that is not valid; else the number of windows bound to it */
#define WEFT_MEM_CLOSED UINT32_MAX
/** weft_mem_attr.bound during weft_mem_narrow(): no window can be bound; else as 0 */
#define WEFT_MEM_NARROWING (UINT32_MAX - 1)

struct weft_mem_attr {
	uint8_t *addr;
	uint64_t len_bytes;
	uint64_t base_to;                 /**< tagged offset of addr[0] */
	uint32_t access;                  /**< WEFT_ACCESS_* */
	struct weft_persist *persist;     /**< medium of addr; NULL: ordinary memory */
	const struct weft_hash_ops *hash; /**< for WEFT_ACCESS_VERIFY */
	/**
	 * Key of a keyed hash, else NULL/0. weft_mem_reg() copies it; weft_mem_fill() does not: it
	 * must exist longer than mr.
	 */
	const uint8_t *hash_key;
	uint32_t hash_key_bytes;
	void *owner; /**< for the creator; copied to the region */
	/** NULL, or where the STag is stored before a peer can use it */
	_Atomic uint32_t *stag;
	/**
	 * NULL (a count inside the region), or the creator's count of bound windows, until freed().
	 * Closed by weft_mem_close() before the region is invalidated.
	 */
	_Atomic uint32_t *bound;
	struct weft_gate *gate; /**< NULL, or who lets requests wait (weft/gate.h) */
};

/**
 * A region or a window. Constant while it is valid, except for refs, *bound, the link, and access
 * and len_bytes. weft_mem_narrow() makes the latter two smaller; weft_mem_access() and
 * weft_mem_len() read them, once for each decision. A reserved region is filled again only when it
 * is not valid, no worker can still see its earlier registration, and no operation holds a
 * reference.
 */
struct weft_mem_mr {
	uint32_t stag;
	_Atomic uint32_t access;
	uint8_t *addr;
	_Atomic uint64_t len_bytes;
	uint64_t base_to;
	/** domain; of a window, or a fast region of one stream, the stream's scope */
	struct weft_mem_pd *pd;
	uint64_t stream; /**< weft_mem_pd.stream of pd */
	struct weft_persist *persist;
	uint64_t persist_off_bytes; /**< offset of addr in the mapping of persist */
	const struct weft_hash_ops *hash;
	struct weft_gate *gate; /**< NULL: requests do not wait */
	/** of a keyed hash; a window's is its region's, others' is behind this structure */
	const uint8_t *hash_key;
	uint32_t hash_key_bytes;
	void *owner;                /**< weft_mem_attr.owner */
	_Atomic uint32_t refs;      /**< references of operations that last longer than a poll */
	_Atomic uint32_t lost_seen; /**< last result of weft_mem_region_lost() */
	uint32_t slot;
	/** the region of a window; valid while the window is bound or has references */
	struct weft_mem_mr *parent;
	_Atomic uint32_t *bound; /**< number of bound windows, or WEFT_MEM_CLOSED */
	_Atomic uint32_t own_bound;
	struct weft_mem_pd *account; /**< the domain that counts this region */
	uint8_t kind;                /**< enum weft_mem_kind */
	/** reserved only: a peer has invalidated it since it was filled */
	_Atomic uint8_t by_peer;
	/* reserved only */
	atomic_bool dead;           /**< weft_mem_dealloc() was called */
	_Atomic uint32_t idle;      /**< may be claimed, to be filled or to be deallocated */
	_Atomic uint32_t version;   /**< odd while it is being filled */
	_Atomic uint32_t next_stag; /**< STag of the next registration */
	/* after invalidation */
	_Atomic uint64_t rcu_token;
	void (*freed)(void *arg);
	void *freed_arg;
	TAILQ_ENTRY(weft_mem_mr) link;
};

/** Why a range was refused, in the order of RFC 5041 s7.1 and RFC 5040 s4.8. */
enum weft_mem_err {
	WEFT_MEM_OK = 0,
	WEFT_MEM_BAD_STAG, /**< no such STag */
	WEFT_MEM_BAD_PD,   /**< STag not associated with this stream */
	WEFT_MEM_TO_WRAP,  /**< TO + length wraps 2^64 */
	WEFT_MEM_BOUNDS,
	WEFT_MEM_ACCESS,
};

/**
 * Create a table. max_regions is rounded up to a power of two, at most 2^20. max_workers limits the
 * RCU readers. -ENOMEM, -EINVAL.
 */
int weft_mem_create(uint32_t max_regions, unsigned int max_workers, const struct weft_rand *rand,
                    struct weft_mem **out);
/** Destroy a table whose regions are all invalidated; frees those that wait. */
void weft_mem_destroy(struct weft_mem *m);

/**
 * Register a region. Any thread; takes a lock. Returns 0, or
 * - -EINVAL: length 0, the address or TO range wraps, an unknown right, or the key does not fit the
 *   hash
 * - -EIO: a page is lost (weft/guard.h)
 * - -EOPNOTSUPP: the medium or hash cannot provide a right: flush-persistent without a persistent
 *   medium, verify without hash or without remote read
 * - -ERANGE: not inside the mapping of persist
 * - -ENOSPC: the table is full, or the domain's limit is reached
 * - -ENOMEM
 */
int weft_mem_reg(struct weft_mem *m, struct weft_mem_pd *pd, const struct weft_mem_attr *attr,
                 struct weft_mem_mr **out);
/** Check attributes as weft_mem_reg() does. Takes no lock. */
int weft_mem_check_attr(const struct weft_mem_attr *attr);
/**
 * Close a region before it is invalidated: no window can be bound any more. Returns 0; -EBUSY:
 * windows are bound; -EALREADY: another thread was first. `bound` as in weft_mem_attr. Any thread,
 * lock-free.
 */
int weft_mem_close(_Atomic uint32_t *bound);
/**
 * Invalidate a region of weft_mem_reg(), once; where windows may be bound, after weft_mem_close().
 * The STag is invalid at once. freed(arg) is called, on the thread that calls weft_mem_reclaim(),
 * when no operation can access the memory any more. Then mr is gone, and pd->regions does not count
 * it. freed may be NULL. It is called without the lock, so it may register and invalidate. The slot
 * is used again only after that, so regions that wait count against max_regions. Any thread.
 */
void weft_mem_invalidate(struct weft_mem *m, struct weft_mem_mr *mr, void (*freed)(void *arg),
                         void *arg);
/**
 * Free ended regions that can be freed. Returns how many. Called by workers now and then; never
 * blocks.
 */
unsigned int weft_mem_reclaim(struct weft_mem *m);
/** most regions at a time, reserved ones included */
uint32_t weft_mem_max(const struct weft_mem *m);
/** Registered regions, and reserved regions and windows. */
uint32_t weft_mem_count(const struct weft_mem *m);

/** whether the region is in its slot, so that its STag is valid */
bool weft_mem_valid(const struct weft_mem *m, const struct weft_mem_mr *mr);
/** A consistent copy of the registration; stag 0: not valid. The caller keeps mr alive. */
void weft_mem_snapshot(const struct weft_mem *m, const struct weft_mem_mr *mr,
                       struct weft_mem_mr *copy);

/** Note that a revocation reduced or ended this STag; until the slot's next use. */
void weft_mem_set_revoked(struct weft_mem *m, uint32_t stag);
/** Whether it was, for counting refusals; not for the usual path. Any thread. */
bool weft_mem_is_revoked(const struct weft_mem *m, uint32_t stag);

/* RCU: a worker registers, goes online, reports quiescence in each poll, goes offline to sleep. */
int weft_mem_reader_register(struct weft_mem *m, unsigned int worker_id);
void weft_mem_reader_unregister(struct weft_mem *m, unsigned int worker_id);
void weft_mem_online(struct weft_mem *m, unsigned int worker_id);
void weft_mem_offline(struct weft_mem *m, unsigned int worker_id);
void weft_mem_quiescent(struct weft_mem *m, unsigned int worker_id);

/** A new, unique number for a stream. Any thread, lock-free. */
uint64_t weft_mem_new_stream(void);

/** Whether it belongs to the stream's domain or to the stream itself. */
static inline bool
weft_mem_in_scope(const struct weft_mem_mr *mr, const struct weft_mem_pd *scope)
{
	return mr->pd == scope->home || (mr->pd == scope && mr->stream == scope->stream);
}

/**
 * The reserved region or window whose last registration had this STag and has ended, or NULL. Valid
 * as long as the result of weft_mem_lookup(). For invalidations that cross: both sides may want to
 * end the same registration.
 */
struct weft_mem_mr *weft_mem_lookup_past(struct weft_mem *m, uint32_t stag);
/** Take a reference. A reference of a window also holds its region. */
void weft_mem_ref(struct weft_mem_mr *mr);
void weft_mem_unref(struct weft_mem_mr *mr);

static inline uint32_t
weft_mem_access(const struct weft_mem_mr *mr)
{
	return atomic_load_explicit(&mr->access, memory_order_relaxed);
}

static inline uint64_t
weft_mem_len(const struct weft_mem_mr *mr)
{
	return atomic_load_explicit(&mr->len_bytes, memory_order_relaxed);
}

/** The slow part of weft_mem_lost(), when any page was ever lost. */
bool weft_mem_region_lost(struct weft_mem_mr *mr);

/**
 * Whether a page of the region is lost. Then data read from it is wrong, and data stored in it
 * reaches no medium. Called before an operation, and after its last access to the memory, because
 * the loss may happen during the access, on this thread.
 */
static inline bool
weft_mem_lost(struct weft_mem_mr *mr)
{
	return weft_medium_lost_any() && weft_mem_region_lost(mr);
}

/** Start the hash, with the region's key if it takes one. 0, or the driver's error. */
static inline int
weft_mem_hash_init(const struct weft_mem_mr *mr, struct weft_hash_state *st)
{
	if (mr->hash->key_max_bytes == 0)
		return mr->hash->init(st, NULL, 0);
	return mr->hash->init(st, mr->hash_key, mr->hash_key_bytes);
}

/** Address of a TO that was checked. */
static inline uint8_t *
weft_mem_addr(const struct weft_mem_mr *mr, uint64_t to)
{
	return mr->addr + (to - mr->base_to);
}

#endif /* WEFT_MEM_H */
