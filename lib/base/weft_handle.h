/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_HANDLE_H
#define WEFT_HANDLE_H

/**
 * @file
 * What tells a live handle of the public calls from NULL, a handle of another kind, and one that
 * was destroyed. Internal.
 *
 * Every object behind a public handle begins with a struct weft_handle. Control calls ask
 * weft_handle_ok(). The data path asks nothing but the gate, a word that it reads in place of a
 * word of the object's own, and asks weft_handle_ok() only when the gate is not as usual.
 *
 * A destroyed handle is recognised while its memory is there. The last WEFT_HANDLES_KEPT handles
 * destroyed of each kind keep theirs: an object that is over gives back what it holds, and its own
 * memory goes when it is not among these any more. With AddressSanitizer the memory is poisoned
 * meanwhile, but for what weft_handle_free() is told.
 *
 * A destroy that may fail (-EBUSY) takes the handle first, by weft_handle_claim(), so that of two
 * threads that destroy it one is refused. Other calls go on until weft_handle_end().
 *
 * Any thread, for all functions here.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum weft_handle_kind {
	WEFT_HANDLE_CTX = 1,
	WEFT_HANDLE_PORT,
	WEFT_HANDLE_WORKER,
	WEFT_HANDLE_ALARM,
	WEFT_HANDLE_PD,
	WEFT_HANDLE_MR,
	WEFT_HANDLE_MW,
	WEFT_HANDLE_CQ,
	WEFT_HANDLE_SRQ,
	WEFT_HANDLE_EVQ,
	WEFT_HANDLE_QP,
	WEFT_HANDLE_LISTENER,
	WEFT_HANDLE_CONNREQ,
	WEFT_HANDLE_LOG,
	WEFT_HANDLE_LOG_HOST,
	WEFT_HANDLE_RPC,
	WEFT_HANDLE_RPC_REQ,
	WEFT_HANDLE_RPC_DRC,
	WEFT_HANDLE_RPC_BUDGET,
	WEFT_HANDLE_MEDIUM,
	WEFT_HANDLE_EXEC,
	WEFT_HANDLE_KINDS
};

/** Handles destroyed of a kind that are still recognised; the public headers promise this number.
 */
#define WEFT_HANDLES_KEPT 64

/** Of `gate`: the handle was destroyed. The other bits are the object's. */
#define WEFT_GATE_GONE 0x80000000u

struct weft_handle {
	uint64_t magic; /**< atomic: kind and state; 0: no handle was given out */
	uint32_t keeps; /**< atomic: the object, and the queue of the destroyed */
	uint32_t gate;  /**< atomic: what the data path looks at */
};

#define WEFT_HANDLE_LIVE(kind)    (0x7765667468616e00ULL + ((uint64_t)(kind) << 32) + 1)
#define WEFT_HANDLE_CLAIMED(kind) (WEFT_HANDLE_LIVE(kind) + 1)
#define WEFT_HANDLE_DEAD(kind)    (WEFT_HANDLE_LIVE(kind) + 2)

/** Whether h is a live handle of this kind. */
static inline bool
weft_handle_ok(const struct weft_handle *h, enum weft_handle_kind kind)
{
	uint64_t magic;

	if (h == NULL || (uintptr_t)h % sizeof(magic) != 0)
		return false;
	magic = __atomic_load_n(&h->magic, __ATOMIC_RELAXED);
	return magic == WEFT_HANDLE_LIVE(kind) || magic == WEFT_HANDLE_CLAIMED(kind);
}

/** Say, rate-limited, which call was handed something else, or one that is just being destroyed.
 * Returns -EINVAL. */
int weft_handle_refused(const struct weft_handle *h, enum weft_handle_kind kind, const char *call);

/** 0; -EINVAL, with a line in the log, if h is no live handle of this kind. */
static inline int
weft_handle_check(const struct weft_handle *h, enum weft_handle_kind kind, const char *call)
{
	return __builtin_expect(weft_handle_ok(h, kind), 1) ? 0
	                                                    : weft_handle_refused(h, kind, call);
}

/** A handle is about to be given out. The gate stays as it is. */
static inline void
weft_handle_init(struct weft_handle *h, enum weft_handle_kind kind)
{
	h->keeps = 1;
	__atomic_store_n(&h->magic, WEFT_HANDLE_LIVE(kind), __ATOMIC_RELAXED);
}

/** It was not given out after all. */
static inline void
weft_handle_undo(struct weft_handle *h)
{
	h->keeps = 0;
	__atomic_store_n(&h->magic, 0, __ATOMIC_RELAXED);
}

/**
 * Take a live handle in order to destroy it; weft_handle_unclaim() or weft_handle_end() follows.
 * Waits while another thread has it. -EINVAL, with a line in the log: it is no live handle of this
 * kind, or not any more.
 */
int weft_handle_claim(struct weft_handle *h, enum weft_handle_kind kind, const char *call);
/** It is not destroyed after all. */
void weft_handle_unclaim(struct weft_handle *h, enum weft_handle_kind kind);
/** The handle is over, claimed or not. The object may live on; weft_handle_free() is its end. */
void weft_handle_end(struct weft_handle *h, enum weft_handle_kind kind);
/**
 * In place of free() of the object, when nothing uses it any more. Its first shown_bytes may be
 * read by calls that are handed the dead handle: at least the struct weft_handle. One that was
 * never given out is freed at once.
 */
void weft_handle_free(struct weft_handle *h, size_t shown_bytes);

/** Say, rate-limited, that a call was made on another thread than the worker's. Returns -EPERM. */
int weft_wrong_thread(const char *call);

/* By the pointer to an object that begins with its handle; the call is the function that this
 * stands in. */
#define WEFT_HANDLE_OF(p) ((struct weft_handle *)(uintptr_t)(const void *)(p))
#define WEFT_HANDLE_BAD(p, kind)                                                                   \
	(weft_handle_check(WEFT_HANDLE_OF(p), WEFT_HANDLE_##kind, __func__) < 0)
#define WEFT_HANDLE_CLAIM(p, kind)                                                                 \
	weft_handle_claim(WEFT_HANDLE_OF(p), WEFT_HANDLE_##kind, __func__)

#endif /* WEFT_HANDLE_H */
