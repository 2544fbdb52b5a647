/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_ULP_H
#define WEFT_ULP_H

/**
 * @file
 * For upper-layer protocols: libraries that stand on weft/verbs.h and give out handles and take
 * attribute structures of their own, by weft's rules. weft's RPC and its remote log are such.
 * Programs need nothing of this. Installed; stands alone.
 *
 * Handles. A public handle points to an object that begins with a struct weft_handle, which tells a
 * live handle from NULL, from a handle of another kind, and from a destroyed one. A destroyed
 * handle is recognised as long as its memory is there: of each kind the memory of the last
 * WEFT_HANDLES_KEPT destroyed objects is kept. An object that is destroyed gives back what it
 * holds; only its own memory stays. With AddressSanitizer that memory is poisoned, but for what
 * weft_handle_free() is told.
 *
 *     static struct weft_handle_kind my_kind = {.name = "thing of mine"};
 *     struct my { struct weft_handle h; ... };
 *
 *     create:   my = calloc(1, sizeof(*my)); ... weft_handle_init(&my->h, &my_kind);
 *     a call:   if (weft_handle_check(my, &my_kind, __func__) < 0) return -EINVAL;
 *     destroy:  if (weft_handle_claim(my, &my_kind, __func__) < 0) return -EINVAL;
 *               weft_handle_end(&my->h, &my_kind); ... weft_handle_free(&my->h, sizeof(my->h));
 *
 * Where destroying may fail (-EBUSY), weft_handle_claim() comes first, so that of two threads that
 * destroy an object one is refused; other calls go on until weft_handle_end().
 *
 * Any thread, for all functions here.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/api.h>
#include <weft/byteorder.h>

WEFT_API_BEGIN

/* ---- Handles ---- */

/** Destroyed handles of a kind that are still recognised; the public headers promise this number.
 */
#define WEFT_HANDLES_KEPT 64

/** First member of the object behind a handle. All zero: the handle was not given out yet. */
struct weft_handle {
	uint64_t magic; /**< atomic: kind and state; 0: no handle was given out */
	uint32_t keeps; /**< atomic: the object, and the queue of the destroyed */
	uint32_t gate;  /**< atomic: what the data path looks at, of weft's own objects */
};

/** One for each type of object; static. Zero but for the name, which stands in error lines. */
struct weft_handle_kind {
	const char *name;
	uint32_t next;                               /**< atomic: place in kept */
	struct weft_handle *kept[WEFT_HANDLES_KEPT]; /**< atomic: the last destroyed */
};

/** Whether the object (any pointer) is a live handle of this kind. */
bool weft_handle_ok(const void *object, const struct weft_handle_kind *kind);
/** 0; -EINVAL, with a line in the log that names the call, if it is not. */
int weft_handle_check(const void *object, const struct weft_handle_kind *kind, const char *call);
/** Say in the log, at a limited rate, that the call was handed something else, or an object that
 * is being destroyed. Returns -EINVAL. */
int weft_handle_refused(const void *object, const struct weft_handle_kind *kind, const char *call);
/** The handle is about to be given out. */
void weft_handle_init(struct weft_handle *h, const struct weft_handle_kind *kind);
/** It was not given out after all. */
void weft_handle_undo(struct weft_handle *h);
/**
 * Take a live handle in order to destroy it; weft_handle_unclaim() or weft_handle_end() follows.
 * Waits while another thread has it. -EINVAL, with a line in the log: it is no live handle of this
 * kind, or not any more.
 */
int weft_handle_claim(void *object, const struct weft_handle_kind *kind, const char *call);
/** It is not destroyed after all. */
void weft_handle_unclaim(struct weft_handle *h, const struct weft_handle_kind *kind);
/** The handle is destroyed, claimed or not. The object may live on; weft_handle_free() is its end.
 */
void weft_handle_end(struct weft_handle *h, struct weft_handle_kind *kind);
/**
 * In place of free() of the object, when nothing uses it any more. Its first shown_bytes may be
 * read by calls that are handed the dead handle: at least the struct weft_handle. An object whose
 * handle was never given out is freed at once.
 */
void weft_handle_free(struct weft_handle *h, size_t shown_bytes);

/* ---- Handles of weft that a library is handed ---- */

struct weft_ctx;
struct weft_pd;
struct weft_qp;
struct weft_worker;

/* 0; -EINVAL, with a line in the log that names the call: it is no live handle. */
int weft_ctx_check(const struct weft_ctx *ctx, const char *call);
int weft_pd_check(const struct weft_pd *pd, const char *call);
int weft_qp_check(const struct weft_qp *qp, const char *call);
int weft_worker_check(const struct weft_worker *w, const char *call);
/** 0; -EPERM, with a line in the log that names the call: another thread polls this worker. Nobody
 * polls what is no live worker. */
int weft_worker_check_thread(const struct weft_worker *w, const char *call);

/* ---- Attribute structures ---- */

/**
 * Copy the attribute structure of a caller that may have been built against another version of the
 * header. Each begins with its size (size_t), as the caller's compiler had it. Members are only
 * ever added at the end, and zero asks for what was done before the member was there.
 *
 * What the caller's does not have is zero in dst, what we do not know must be zero in src. dst is
 * filled in any case. -EINVAL: src is NULL; a size that no version has (not above sizeof(size_t),
 * no multiple of it, above 64 KiB); something behind what we know is not zero.
 */
int weft_attr_copy(void *dst, size_t dst_size, const void *src);

/* ---- Messages ---- */

/** A line "weft.NAME: ..." of level error where weft's go (weft_log_levels() of worker.h). */
void weft_ulp_error(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

WEFT_API_END

#endif /* WEFT_ULP_H */
