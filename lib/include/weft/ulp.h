/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_ULP_H
#define WEFT_ULP_H

/**
 * @file Tools for upper-layer protocols: libraries on top of weft/verbs.h that have handles and
 * attribute structures of their own and follow weft's rules. weft's RPC and its remote log are such
 * libraries. Programs do not need this header. Installed; stands alone.
 *
 * Handles. A public handle points to an object that begins with a struct weft_handle. It
 * distinguishes a live handle from NULL, from a handle of another kind, and from a destroyed one. A
 * destroyed handle is recognised as long as its memory exists: the memory of the last
 * WEFT_HANDLES_KEPT destroyed objects of each kind is kept. A destroyed object releases what it
 * holds; only its own memory stays. With AddressSanitizer that memory is poisoned, except for the
 * part that weft_handle_free() names.
 *
 *     static struct weft_handle_kind my_kind = {.name = "thing of mine"};
 *     struct my { struct weft_handle h; ... };
 *
 *     create:   my = calloc(1, sizeof(*my)); ... weft_handle_init(&my->h, &my_kind);
 *     a call:   if (weft_handle_check(my, &my_kind, __func__) < 0) return -EINVAL;
 *     destroy:  if (weft_handle_claim(my, &my_kind, __func__) < 0) return -EINVAL;
 *               weft_handle_end(&my->h, &my_kind); ... weft_handle_free(&my->h, sizeof(my->h));
 *
 * Where destruction may fail (-EBUSY), weft_handle_claim() comes first, so that one of two threads
 * that destroy an object is refused. Other calls are accepted until weft_handle_end().
 *
 * All functions of this header may be called from any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/api.h>
#include <weft/byteorder.h>

WEFT_API_BEGIN

/* ---- Handles ---- */

/**
 * Number of destroyed handles of a kind that are still recognised. The public headers promise it.
 */
#define WEFT_HANDLES_KEPT 64

/** First member of the object behind a handle. All zero: the handle has not been given out. */
struct weft_handle {
	uint64_t magic; /**< atomic: kind and state; 0: not given out */
	/** atomic: references, by the object and by the queue of destroyed objects */
	uint32_t keeps;
	uint32_t gate; /**< atomic: what the data path checks; only for weft's own objects */
};

/** One for each type of object, static. All zero except the name, which appears in log lines. */
struct weft_handle_kind {
	const char *name;
	uint32_t next;                               /**< atomic: next place in kept */
	struct weft_handle *kept[WEFT_HANDLES_KEPT]; /**< atomic: the last destroyed objects */
};

/** Whether object (any pointer) is a live handle of this kind. */
bool weft_handle_ok(const void *object, const struct weft_handle_kind *kind);
/** 0 if object is a live handle of this kind. Else -EINVAL, and a log line that names the call. */
int weft_handle_check(const void *object, const struct weft_handle_kind *kind, const char *call);
/**
 * Log, at a limited rate, that the call got another object, or an object that is being destroyed.
 * Returns -EINVAL.
 */
int weft_handle_refused(const void *object, const struct weft_handle_kind *kind, const char *call);
/** Called before the handle is given out. */
void weft_handle_init(struct weft_handle *h, const struct weft_handle_kind *kind);
/** Undo weft_handle_init(): the handle is not given out after all. */
void weft_handle_undo(struct weft_handle *h);
/**
 * Claim a live handle in order to destroy it. weft_handle_unclaim() or weft_handle_end() follows.
 * Waits while another thread has claimed it. -EINVAL, and a log line: not a live handle of this
 * kind, or not any more.
 */
int weft_handle_claim(void *object, const struct weft_handle_kind *kind, const char *call);
/** Give up a claim: the object is not destroyed after all. */
void weft_handle_unclaim(struct weft_handle *h, const struct weft_handle_kind *kind);
/**
 * The handle is destroyed, whether it was claimed or not. The object may exist longer; it ends with
 * weft_handle_free().
 */
void weft_handle_end(struct weft_handle *h, struct weft_handle_kind *kind);
/**
 * Free the object, in place of free(), when nothing uses it any more. Calls that get the destroyed
 * handle may still read its first shown_bytes octets, which include at least the struct
 * weft_handle. An object whose handle was never given out is freed at once.
 */
void weft_handle_free(struct weft_handle *h, size_t shown_bytes);

/* ---- Handles of weft that a library receives ---- */

struct weft_ctx;
struct weft_pd;
struct weft_qp;
struct weft_worker;

/* 0 if the handle is live. Else -EINVAL, and a log line that names the call. */
int weft_ctx_check(const struct weft_ctx *ctx, const char *call);
int weft_pd_check(const struct weft_pd *pd, const char *call);
int weft_qp_check(const struct weft_qp *qp, const char *call);
int weft_worker_check(const struct weft_worker *w, const char *call);
/**
 * 0, or -EPERM and a log line that names the call: another thread polls this worker. 0 for a handle
 * that is not a live worker.
 */
int weft_worker_check_thread(const struct weft_worker *w, const char *call);

/* ---- Attribute structures ---- */

/**
 * Copy the attribute structure of a caller that may have been built against another version of the
 * header. Each attribute structure begins with its size (size_t), as the caller's compiler knew it.
 * Members are only ever added at the end. Zero in a new member asks for the behaviour without it.
 *
 * Members that the caller does not have are zero in dst. Members that this library does not know
 * must be zero in src. dst is always filled. -EINVAL: src is NULL; an impossible size (not above
 * sizeof(size_t), not a multiple of it, or above 64 KiB); an unknown member is not zero.
 */
int weft_attr_copy(void *dst, size_t dst_size, const void *src);

/* ---- Messages ---- */

/**
 * Log a line "weft.NAME: ..." of level error, to the same place as weft's lines (weft_log_levels()
 * in weft/worker.h).
 */
void weft_ulp_error(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

WEFT_API_END

#endif /* WEFT_ULP_H */
