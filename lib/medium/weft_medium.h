/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MEDIUM_H
#define WEFT_MEDIUM_H

/**
 * @file Media for the layers above: lost pages of mapped media, marking of stores to local memory
 * that belongs to a medium, and preparation of hash drivers. Internal. Drivers on files or devices
 * also use weft_medium_file.h.
 */

#include <stdatomic.h>

#include "weft_base.h"
#include <weft/atomic_ref.h>
#include <weft/guard.h>
#include <weft/hash.h>
#include <weft/persist.h>

/* ---- Lost pages ---- */

/** How often pages of media were lost (weft/guard.h); atomic. */
extern _Atomic uint32_t weft_medium_losses;

/**
 * Whether any page of any medium was ever lost. Loads one word that is written only at a loss. The
 * compiler does not move it across accesses to memory, because a loss may happen during an access.
 */
static inline bool
weft_medium_lost_any(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	return unlikely(atomic_load_explicit(&weft_medium_losses, memory_order_relaxed) != 0);
}

/**
 * Whether a page of local memory is lost, whatever region it belongs to. Called after the last
 * access to it.
 */
static inline bool
weft_medium_lost_at(const void *addr, uint64_t len_bytes)
{
	return weft_medium_lost_any() && weft_guard_lost(addr, len_bytes);
}

/* ---- Marking ---- */

/** weft_persist_mark(), inline for the data path. */
static inline void
weft_medium_mark(struct weft_persist *p, uint64_t off_bytes, uint64_t len_bytes)
{
	if (p->dirty == NULL || len_bytes == 0)
		return;
	for (uint64_t pg = off_bytes >> WEFT_PERSIST_PAGE_SHIFT;
	     pg <= (off_bytes + len_bytes - 1) >> WEFT_PERSIST_PAGE_SHIFT; pg++)
		atomic_store_explicit(WEFT_ATOMIC_REF(p->dirty[pg]), 1, memory_order_release);
}

/** Lowest and highest address of open media whose dirty pages are marked; atomic. */
extern struct weft_medium_span {
	_Atomic uintptr_t from, to;
} weft_medium_marked;

void weft_medium_mark_slow(const void *addr, uint64_t len_bytes);

/**
 * Mark local memory that this process has stored to: a Send into its receive, or the result of an
 * Atomic. It is marked if it belongs to a medium, whatever region it belongs to, because a Flush
 * writes only marked pages. Called after the store. Any worker.
 */
static inline void
weft_medium_mark_at(const void *addr, uint64_t len_bytes)
{
	uintptr_t at = (uintptr_t)addr;

	if (unlikely(at < atomic_load_explicit(&weft_medium_marked.to, memory_order_acquire) &&
	             at + len_bytes >
	                     atomic_load_explicit(&weft_medium_marked.from, memory_order_acquire)))
		weft_medium_mark_slow(addr, len_bytes);
}

/* ---- Hash drivers ---- */

/** Call weft_hash_ops.prepare. 0 also if the driver has none. */
int weft_medium_hash_prepare(const struct weft_hash_ops *ops);
/**
 * Prepare all drivers and run each once, so that no poll pays for a first use. Errors are logged.
 */
void weft_medium_hash_prepare_all(void);

#endif /* WEFT_MEDIUM_H */
