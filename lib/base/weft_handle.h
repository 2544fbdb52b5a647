/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_HANDLE_H
#define WEFT_HANDLE_H

/**
 * @file
 * The kinds of handles of libweft, and the gate. Internal; weft/ulp.h defines a handle.
 *
 * Control calls check a handle by WEFT_HANDLE_BAD(). The data path reads the gate only, a word that
 * also holds bits of the object that it needs anyway. It calls weft_handle_ok() only when the gate
 * has another value than usual. The gate and the other words of a handle are read and written by
 * WEFT_ATOMIC_REF(): weft/ulp.h declares them plainly, so that a C++ program can include it.
 */

#include <weft/atomic_ref.h>
#include <weft/ulp.h>

enum {
	WEFT_KIND_CTX,
	WEFT_KIND_PORT,
	WEFT_KIND_WORKER,
	WEFT_KIND_ALARM,
	WEFT_KIND_PD,
	WEFT_KIND_MR,
	WEFT_KIND_MW,
	WEFT_KIND_CQ,
	WEFT_KIND_SRQ,
	WEFT_KIND_EVQ,
	WEFT_KIND_QP,
	WEFT_KIND_LISTENER,
	WEFT_KIND_CONNREQ,
	WEFT_KIND_STREAM,
	WEFT_KIND_STREAM_LISTENER,
	WEFT_KIND_MEDIUM,
	WEFT_KIND_EXEC,
	WEFT_KIND_BLOCK,
	WEFT_KIND_BLOCK_CHAN,
	WEFT_KINDS
};

extern struct weft_handle_kind weft_handle_kinds[WEFT_KINDS];

/** The kind by its name in the enumeration: WEFT_KIND(PD). */
#define WEFT_KIND(name) (&weft_handle_kinds[WEFT_KIND_##name])

/** Bit of `gate`: the handle was destroyed. The object uses the other bits. */
#define WEFT_GATE_GONE 0x80000000u

/** Log, rate-limited, that `call` ran on another thread than the worker's. Returns -EPERM. */
int weft_wrong_thread(const char *call);

/* p: pointer to an object whose first member is its handle. The log names the calling function. */
#define WEFT_HANDLE_OF(p)          ((struct weft_handle *)(uintptr_t)(const void *)(p))
#define WEFT_HANDLE_BAD(p, kind)   (weft_handle_check(p, WEFT_KIND(kind), __func__) < 0)
#define WEFT_HANDLE_CLAIM(p, kind) weft_handle_claim(p, WEFT_KIND(kind), __func__)

#endif /* WEFT_HANDLE_H */
