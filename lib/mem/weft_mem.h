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
 * use count, so it is unpredictable (RFC 5042 s6.1.1, s8.1) and never comes back
 * while the slot lives.
 */

#include <rte_rcu_qsbr.h>

#include "weft_base.h"
#include "weft_hash.h"
#include "weft_persist.h"

/* Rights. Same values as WEFT_ACCESS_* of weft_verbs.h, which checks that. */
#define WEFT_MR_LOCAL_WRITE      0x01
#define WEFT_MR_REMOTE_READ      0x02
#define WEFT_MR_REMOTE_WRITE     0x04
#define WEFT_MR_REMOTE_ATOMIC    0x08
#define WEFT_MR_FLUSH_PERSISTENT 0x10
#define WEFT_MR_FLUSH_VISIBLE    0x20
#define WEFT_MR_VERIFY           0x40

struct weft_mem;

/** Compared by address; lives as long as its creator keeps it. */
struct weft_mem_pd {
	struct weft_mem *mem;
	uint32_t regions; /**< registered and not yet freed (atomic) */
};

struct weft_mem_attr {
	uint8_t *addr;
	uint64_t len_bytes;
	uint64_t base_to;            /**< tagged offset of addr[0] */
	uint32_t access;             /**< WEFT_MR_* */
	struct weft_persist *persist;/**< medium that addr belongs to, or NULL (ordinary memory) */
	const struct weft_hash_ops *hash; /**< for WEFT_MR_VERIFY */
	void *owner;                 /**< the creator's, found again in the region */
	uint32_t *stag;              /**< NULL, or where the STag goes before a peer can use it */
};

/** A region. Constant after registration but for refs and the link. */
struct weft_mem_mr {
	uint32_t stag;
	uint32_t access;
	uint8_t *addr;
	uint64_t len_bytes;
	uint64_t base_to;
	struct weft_mem_pd *pd;
	struct weft_persist *persist;
	uint64_t persist_off_bytes;  /**< of addr in the persist mapping */
	const struct weft_hash_ops *hash;
	void *owner;                 /**< weft_mem_attr.owner */
	uint32_t refs;               /**< operations that outlive a poll (atomic) */
	/* after invalidation */
	uint64_t rcu_token;
	void (*freed)(void *arg);
	void *freed_arg;
	TAILQ_ENTRY(weft_mem_mr) link;
};

/** Why a range was refused, in the order of RFC 5041 s7.1 / RFC 5040 s4.8. */
enum weft_mem_err {
	WEFT_MEM_OK = 0,
	WEFT_MEM_BAD_STAG,   /**< no such STag */
	WEFT_MEM_BAD_PD,     /**< STag not associated with this stream */
	WEFT_MEM_TO_WRAP,    /**< TO + length wraps 2^64 */
	WEFT_MEM_BOUNDS,
	WEFT_MEM_ACCESS,
};

/** max_regions is rounded up to a power of two, at most 2^20; max_workers bounds RCU readers. -ENOMEM, -EINVAL. */
int weft_mem_create(uint32_t max_regions, unsigned int max_workers, const struct weft_rand *rand,
		    struct weft_mem **out);
/** Every region must have been invalidated; frees what still waits. */
void weft_mem_destroy(struct weft_mem *m);

/**
 * Register. -EINVAL (no length, address or TO range wraps, right unknown), -EOPNOTSUPP (the medium
 * or hash cannot honour a right: flush-persistent without a persistent medium, verify without hash,
 * verify by a reversible hash without remote read), -ERANGE (not inside the persist mapping),
 * -ENOSPC (table full), -ENOMEM. Any thread; takes a lock.
 */
int weft_mem_reg(struct weft_mem *m, struct weft_mem_pd *pd, const struct weft_mem_attr *attr,
		 struct weft_mem_mr **out);
/**
 * Make the STag unresolvable now, once per region; freed(arg) runs (on whichever thread calls weft_mem_reclaim())
 * once nothing can touch the memory any more; mr is gone then and pd->regions counts it no more.
 * freed may be NULL; it is called without the lock, so it may register and invalidate. The slot is
 * used again only after that, so regions waiting to be freed count against max_regions. Any thread.
 */
void weft_mem_invalidate(struct weft_mem *m, struct weft_mem_mr *mr, void (*freed)(void *arg), void *arg);
/** Free what can be freed; called by workers now and then, never blocks. Returns regions freed. */
unsigned int weft_mem_reclaim(struct weft_mem *m);
/** Regions there may be at a time. */
uint32_t weft_mem_max(const struct weft_mem *m);
/** Regions registered now. */
uint32_t weft_mem_count(const struct weft_mem *m);
/** The i-th live region's copy for display; -ENOENT past the last. Takes the lock. */
int weft_mem_get(struct weft_mem *m, uint32_t i, struct weft_mem_mr *copy);

/* RCU: a worker registers, goes online, reports quiescence once per poll, goes offline to sleep. */
int weft_mem_reader_register(struct weft_mem *m, unsigned int worker_id);
void weft_mem_reader_unregister(struct weft_mem *m, unsigned int worker_id);
void weft_mem_online(struct weft_mem *m, unsigned int worker_id);
void weft_mem_offline(struct weft_mem *m, unsigned int worker_id);
void weft_mem_quiescent(struct weft_mem *m, unsigned int worker_id);

/** Lock-free; NULL for an STag that does not resolve now. Valid until the caller's next quiescent state. */
struct weft_mem_mr *weft_mem_lookup(struct weft_mem *m, uint32_t stag);
void weft_mem_ref(struct weft_mem_mr *mr);
void weft_mem_unref(struct weft_mem_mr *mr);

/** Check pd, range and rights, in enum order; no arithmetic here can wrap. Zero length checks pd and rights, not range (RFC 5040 s5.2 note). */
enum weft_mem_err weft_mem_check(const struct weft_mem_mr *mr, const struct weft_mem_pd *pd,
				 uint64_t to, uint64_t len_bytes, uint32_t access);

/** Address of a checked TO. */
static inline uint8_t *
weft_mem_addr(const struct weft_mem_mr *mr, uint64_t to)
{
	return mr->addr + (to - mr->base_to);
}

/** Copy checked octets in from the cursor and mark the pages dirty: the one placement copy. */
void weft_mem_place(struct weft_mem_mr *mr, uint64_t to, struct weft_cur *src, uint32_t len_bytes);
/**
 * One 8-octet store, never torn; `data` in wire order goes to memory in wire order. Checked by the
 * caller, who also sees to it that weft_mem_addr(mr, to), not the TO, is a multiple of 8
 * (draft-talpey-rdma-commit-02 s2.3.2).
 */
void weft_mem_store8(struct weft_mem_mr *mr, uint64_t to, const uint8_t data[8]);
/*
 * Atomic Operations (RFC 7306 s5.1) on the 64-bit integer, in the host's byte order, at `to`; they return what was
 * there before. Atomic with respect to each other on any worker and to the process's own atomic instructions; lock-free.
 * What changed is marked dirty as weft_mem_place() does. Checked by the caller as for weft_mem_store8().
 */
/** Each set bit of mask is the top of a field that is added by itself, what it carries out is lost; 0: one field of 64 bits. */
uint64_t weft_mem_fetch_add(struct weft_mem_mr *mr, uint64_t to, uint64_t add, uint64_t mask);
/** Where the bits of cmp_mask equal those of cmp, the bits of swap_mask become those of swap. */
uint64_t weft_mem_cmp_swap(struct weft_mem_mr *mr, uint64_t to, uint64_t cmp, uint64_t cmp_mask,
			   uint64_t swap, uint64_t swap_mask);

#endif /* WEFT_MEM_H */
