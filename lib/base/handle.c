/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Validity of handles. The last destroyed ones are kept, so that their use is detected. */

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <rte_pause.h>

#include "weft_base.h"
#include "weft_handle.h"
#include "weft_handle_kept.h"
#include <weft/spare.h>

WEFT_LOG_REGISTER(api);

struct weft_handle_kind weft_handle_kinds[WEFT_KINDS] = {
        [WEFT_KIND_CTX] = {.name = "context"},
        [WEFT_KIND_PORT] = {.name = "port"},
        [WEFT_KIND_WORKER] = {.name = "worker"},
        [WEFT_KIND_ALARM] = {.name = "alarm"},
        [WEFT_KIND_PD] = {.name = "protection domain"},
        [WEFT_KIND_MR] = {.name = "memory region"},
        [WEFT_KIND_MW] = {.name = "memory window"},
        [WEFT_KIND_CQ] = {.name = "completion queue"},
        [WEFT_KIND_SRQ] = {.name = "shared receive queue"},
        [WEFT_KIND_EVQ] = {.name = "event queue"},
        [WEFT_KIND_QP] = {.name = "queue pair"},
        [WEFT_KIND_LISTENER] = {.name = "listener"},
        [WEFT_KIND_CONNREQ] = {.name = "connection request"},
        [WEFT_KIND_STREAM] = {.name = "stream"},
        [WEFT_KIND_STREAM_LISTENER] = {.name = "listener of streams"},
        [WEFT_KIND_MEDIUM] = {.name = "medium"},
        [WEFT_KIND_EXEC] = {.name = "executor"},
        [WEFT_KIND_BLOCK] = {.name = "block device"},
        [WEFT_KIND_BLOCK_CHAN] = {.name = "channel of a block device"},
};

static _Atomic uint64_t handle_kept_bytes;

uint64_t
weft_handle_kept_bytes(void)
{
	return atomic_load_explicit(&handle_kept_bytes, memory_order_relaxed);
}

static void
handle_unkeep(struct weft_handle *h)
{
	if (atomic_fetch_sub_explicit(WEFT_ATOMIC_REF(h->keeps), 1, memory_order_acq_rel) > 1)
		return;
	WEFT_UNPOISON(h, malloc_usable_size(h));
	atomic_fetch_sub_explicit(&handle_kept_bytes, malloc_usable_size(h), memory_order_relaxed);
	free(h);
}

/* The magic is the kind's address. Its two high octets, which no address uses, hold the state. */
enum handle_state { HANDLE_LIVE = 1, HANDLE_CLAIMED, HANDLE_DEAD };

static uint64_t
handle_magic(const struct weft_handle_kind *kind, enum handle_state state)
{
	return (uint64_t)(uintptr_t)kind ^ (0x7765ULL << 48) ^ ((uint64_t)state << 56);
}

bool
weft_handle_ok(const void *object, const struct weft_handle_kind *kind)
{
	const struct weft_handle *h = object;
	uint64_t magic;

	if (h == NULL || (uintptr_t)h % sizeof(magic) != 0)
		return false;
	magic = atomic_load_explicit(WEFT_ATOMIC_REF(h->magic), memory_order_relaxed);
	return magic == handle_magic(kind, HANDLE_LIVE) ||
	       magic == handle_magic(kind, HANDLE_CLAIMED);
}

int
weft_handle_refused(const void *object, const struct weft_handle_kind *kind, const char *call)
{
	const struct weft_handle *h = object;
	const char *what = "not one";

	if (h == NULL)
		what = "NULL";
	else if ((uintptr_t)h % sizeof(h->magic) == 0 &&
	         atomic_load_explicit(WEFT_ATOMIC_REF(h->magic), memory_order_relaxed) ==
	                 handle_magic(kind, HANDLE_DEAD))
		what = "destroyed";
	else if (weft_handle_ok(h, kind))
		what = "being destroyed";
	WEFT_LOG_PEER(api, ERR, "%s(): the %s is %s", call, kind->name, what);
	return -EINVAL;
}

int
weft_handle_check(const void *object, const struct weft_handle_kind *kind, const char *call)
{
	return likely(weft_handle_ok(object, kind)) ? 0 : weft_handle_refused(object, kind, call);
}

/* The gate is not changed: the object has set its bits. */
void
weft_handle_init(struct weft_handle *h, const struct weft_handle_kind *kind)
{
	h->keeps = 1;
	atomic_store_explicit(WEFT_ATOMIC_REF(h->magic), handle_magic(kind, HANDLE_LIVE),
	                      memory_order_relaxed);
}

void
weft_handle_undo(struct weft_handle *h)
{
	h->keeps = 0;
	atomic_store_explicit(WEFT_ATOMIC_REF(h->magic), 0, memory_order_relaxed);
}

int
weft_handle_claim(void *object, const struct weft_handle_kind *kind, const char *call)
{
	uint64_t live = handle_magic(kind, HANDLE_LIVE);
	uint64_t claimed = handle_magic(kind, HANDLE_CLAIMED), found = live;
	struct weft_handle *h = object;

	if (!weft_handle_ok(h, kind))
		return weft_handle_refused(h, kind, call);
	while (!atomic_compare_exchange_strong_explicit(WEFT_ATOMIC_REF(h->magic), &found, claimed,
	                                                memory_order_acq_rel,
	                                                memory_order_relaxed)) {
		if (found != claimed)
			return weft_handle_refused(h, kind, call);
		found = live;
		rte_pause();
	}
	return 0;
}

void
weft_handle_unclaim(struct weft_handle *h, const struct weft_handle_kind *kind)
{
	atomic_store_explicit(WEFT_ATOMIC_REF(h->magic), handle_magic(kind, HANDLE_LIVE),
	                      memory_order_release);
}

void
weft_handle_end(struct weft_handle *h, struct weft_handle_kind *kind)
{
	uint32_t i =
	        atomic_fetch_add_explicit(WEFT_ATOMIC_REF(kind->next), 1, memory_order_relaxed) %
	        WEFT_HANDLES_KEPT;
	struct weft_handle *oldest;

	h->keeps++; /* not atomic: h is not in kind->kept yet */
	/* The magic before the gate: a call that finds GATE_GONE then reads the magic. */
	atomic_store_explicit(WEFT_ATOMIC_REF(h->magic), handle_magic(kind, HANDLE_DEAD),
	                      memory_order_release);
	atomic_fetch_or_explicit(WEFT_ATOMIC_REF(h->gate), WEFT_GATE_GONE, memory_order_release);
	oldest = atomic_exchange_explicit(WEFT_ATOMIC_REF(kind->kept[i]), h, memory_order_acq_rel);
	if (oldest != NULL)
		handle_unkeep(oldest);
}

void
weft_handle_free(struct weft_handle *h, size_t shown_bytes)
{
	if (atomic_load_explicit(WEFT_ATOMIC_REF(h->keeps), memory_order_relaxed) == 0) {
		free(h);
		return;
	}
	atomic_fetch_add_explicit(&handle_kept_bytes, malloc_usable_size(h), memory_order_relaxed);
	shown_bytes = RTE_ALIGN_CEIL(shown_bytes, sizeof(uint64_t));
	WEFT_POISON((char *)h + shown_bytes, malloc_usable_size(h) - shown_bytes);
	handle_unkeep(h);
}

int
weft_wrong_thread(const char *call)
{
	WEFT_LOG_PEER(api, ERR, "%s(): called on another thread than the worker's", call);
	return -EPERM;
}
