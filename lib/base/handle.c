/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Handles that were destroyed, kept for a while to be recognised. */

#include <malloc.h>
#include <stdlib.h>

#include <rte_pause.h>

#include "weft_base.h"
#include "weft_handle.h"
#include "weft_handle_kept.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define HANDLE_POISON(addr, bytes)   __asan_poison_memory_region(addr, bytes)
#define HANDLE_UNPOISON(addr, bytes) __asan_unpoison_memory_region(addr, bytes)
#else
#define HANDLE_POISON(addr, bytes)   ((void)(addr), (void)(bytes))
#define HANDLE_UNPOISON(addr, bytes) ((void)(addr), (void)(bytes))
#endif

WEFT_LOG_REGISTER(api);

static const char *const handle_names[WEFT_HANDLE_KINDS] = {
        [WEFT_HANDLE_CTX] = "context",
        [WEFT_HANDLE_PORT] = "port",
        [WEFT_HANDLE_WORKER] = "worker",
        [WEFT_HANDLE_ALARM] = "alarm",
        [WEFT_HANDLE_PD] = "protection domain",
        [WEFT_HANDLE_MR] = "memory region",
        [WEFT_HANDLE_MW] = "memory window",
        [WEFT_HANDLE_CQ] = "completion queue",
        [WEFT_HANDLE_SRQ] = "shared receive queue",
        [WEFT_HANDLE_EVQ] = "event queue",
        [WEFT_HANDLE_QP] = "queue pair",
        [WEFT_HANDLE_LISTENER] = "listener",
        [WEFT_HANDLE_CONNREQ] = "connection request",
        [WEFT_HANDLE_LOG] = "log",
        [WEFT_HANDLE_LOG_HOST] = "host of a log",
        [WEFT_HANDLE_RPC] = "RPC endpoint",
        [WEFT_HANDLE_RPC_REQ] = "RPC request",
        [WEFT_HANDLE_RPC_DRC] = "duplicate request cache",
        [WEFT_HANDLE_RPC_BUDGET] = "RPC budget",
        [WEFT_HANDLE_MEDIUM] = "medium",
        [WEFT_HANDLE_EXEC] = "executor",
};

/** The last destroyed of each kind: a ring, of which each place is taken by exchange. */
static struct handle_kept {
	uint32_t next; /**< atomic */
	struct weft_handle *at[WEFT_HANDLES_KEPT];
} handle_kept[WEFT_HANDLE_KINDS];

static uint64_t handle_kept_bytes; /**< atomic */

uint64_t
weft_handle_kept_bytes(void)
{
	return __atomic_load_n(&handle_kept_bytes, __ATOMIC_RELAXED);
}

static void
handle_unkeep(struct weft_handle *h)
{
	if (__atomic_sub_fetch(&h->keeps, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	HANDLE_UNPOISON(h, malloc_usable_size(h));
	__atomic_fetch_sub(&handle_kept_bytes, malloc_usable_size(h), __ATOMIC_RELAXED);
	free(h);
}

int
weft_handle_refused(const struct weft_handle *h, enum weft_handle_kind kind, const char *call)
{
	const char *what = "not one";

	if (h == NULL)
		what = "NULL";
	else if ((uintptr_t)h % sizeof(h->magic) == 0 &&
	         __atomic_load_n(&h->magic, __ATOMIC_RELAXED) == WEFT_HANDLE_DEAD(kind))
		what = "destroyed";
	else if (weft_handle_ok(h, kind))
		what = "being destroyed";
	WEFT_LOG_PEER(api, ERR, "%s(): the %s is %s", call, handle_names[kind], what);
	return -EINVAL;
}

int
weft_handle_claim(struct weft_handle *h, enum weft_handle_kind kind, const char *call)
{
	uint64_t live = WEFT_HANDLE_LIVE(kind);

	if (!weft_handle_ok(h, kind))
		return weft_handle_refused(h, kind, call);
	while (!__atomic_compare_exchange_n(&h->magic, &live, WEFT_HANDLE_CLAIMED(kind), false,
	                                    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
		if (live != WEFT_HANDLE_CLAIMED(kind))
			return weft_handle_refused(h, kind, call);
		live = WEFT_HANDLE_LIVE(kind);
		rte_pause();
	}
	return 0;
}

void
weft_handle_unclaim(struct weft_handle *h, enum weft_handle_kind kind)
{
	__atomic_store_n(&h->magic, WEFT_HANDLE_LIVE(kind), __ATOMIC_RELEASE);
}

void
weft_handle_end(struct weft_handle *h, enum weft_handle_kind kind)
{
	struct handle_kept *k = &handle_kept[kind];
	uint32_t i = __atomic_fetch_add(&k->next, 1, __ATOMIC_RELAXED) % WEFT_HANDLES_KEPT;
	struct weft_handle *oldest;

	h->keeps++; /* the object's alone until it is among the kept */
	/* In this order: who finds the gate shut asks the magic why. */
	__atomic_store_n(&h->magic, WEFT_HANDLE_DEAD(kind), __ATOMIC_RELEASE);
	__atomic_fetch_or(&h->gate, WEFT_GATE_GONE, __ATOMIC_RELEASE);
	oldest = __atomic_exchange_n(&k->at[i], h, __ATOMIC_ACQ_REL);
	if (oldest != NULL)
		handle_unkeep(oldest);
}

void
weft_handle_free(struct weft_handle *h, size_t shown_bytes)
{
	if (__atomic_load_n(&h->keeps, __ATOMIC_RELAXED) == 0) {
		free(h);
		return;
	}
	__atomic_fetch_add(&handle_kept_bytes, malloc_usable_size(h), __ATOMIC_RELAXED);
	shown_bytes = RTE_ALIGN_CEIL(shown_bytes, sizeof(uint64_t));
	HANDLE_POISON((char *)h + shown_bytes, malloc_usable_size(h) - shown_bytes);
	handle_unkeep(h);
}

int
weft_wrong_thread(const char *call)
{
	WEFT_LOG_PEER(api, ERR, "%s(): called on another thread than the worker's", call);
	return -EPERM;
}
