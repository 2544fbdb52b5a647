/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MEDIUM_H
#define WEFT_MEDIUM_H

/**
 * @file
 * Media as the rooms above see them: whether pages of mapped media are lost, marking of stores to
 * local memory that a medium keeps, and hash drivers made ready. Internal; a driver on files or
 * devices has weft_medium_file.h besides.
 */

#include <stdatomic.h>

#include "weft_base.h"
#include <weft/guard.h>
#include <weft/hash.h>
#include <weft/persist.h>

/* ---- Lost pages ---- */

/** Times that pages of media were lost (weft/guard.h); atomic. */
extern _Atomic uint32_t weft_medium_losses;

/** Whether any page of any medium was ever lost: one load of a word that is not written else. Not
 * moved over accesses to memory by the compiler: the loss happens in the middle of one. */
static inline bool
weft_medium_lost_any(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	return unlikely(atomic_load_explicit(&weft_medium_losses, memory_order_relaxed) != 0);
}

/** Whether a page of local memory is lost, whatever it is registered as. Asked behind the last
 * access to it. */
static inline bool
weft_medium_lost_at(const void *addr, uint64_t len_bytes)
{
	return weft_medium_lost_any() && weft_guard_lost(addr, len_bytes);
}

/* ---- Marking ---- */

/** Addresses from the first to the last octet of open media that have their dirty pages marked;
 * atomic. */
extern struct weft_medium_span {
	_Atomic uintptr_t from, to;
} weft_medium_marked;

void weft_medium_mark_slow(const void *addr, uint64_t len_bytes);

/**
 * What was stored to local memory by ourselves, a Send into its receive or the result of an Atomic,
 * is marked where it lies in a medium, whatever it is registered as: a Flush of it writes what is
 * marked. Behind the store. Any worker.
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

/** See weft_hash_ops.prepare; 0 also where the driver needs none. */
int weft_medium_hash_prepare(const struct weft_hash_ops *ops);
/** Prepare all drivers and run each once, so that no poll pays for a first use; errors are logged.
 */
void weft_medium_hash_prepare_all(void);

#endif /* WEFT_MEDIUM_H */
