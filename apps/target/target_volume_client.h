/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_VOLUME_CLIENT_H
#define WEFT_APPS_TARGET_VOLUME_CLIENT_H

/**
 * @file The clients of a worker's volumes, among which it shares staging memory and windows. A
 * client is what apps/target/quota.h counts as one: an authenticated name, or else an address. So
 * a client gets no more by opening more connections or grants.
 *
 * A host can use every address of its IPv6 /64, so the addresses of a /64 have one share together
 * (`top`), like in quota.h.
 *
 * The worker's thread alone uses all of it.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "quota.h"
#include "weft_staging.h"

struct target_vio;
struct target_conn;
struct target_vgrant;
struct target_vworker;

struct target_vclient {
	LIST_ENTRY(target_vclient) link; /**< in the clients of its worker */
	struct target_vworker *vw;
	struct target_vclient *top; /**< its IPv6 /64; else itself */
	struct quota_id id;
	uint32_t refs;
	struct weft_staging_client staging; /**< of a top: its share of the staging memory */
	/** Windows that have a slot, and that are neither asked back nor ending. Those of a top are
	 * those of its addresses. */
	uint32_t keeps;
	uint32_t promised; /**< windows of others that were asked back for it; likewise */
	TAILQ_ENTRY(target_vclient) turn;    /**< in the turns of its worker, while windows wait */
	TAILQ_HEAD(, target_vgrant) waiting; /**< its grants of which windows wait for a slot, */
	uint32_t nwaiting;                   /**< so many windows */
	uint32_t here;                       /**< scratch of vwindow_count_here() */
};

/**
 * The client that the connection's peer is now, on its worker, with a reference. NULL: no memory.
 */
struct target_vclient *target_vclient_get(struct target_conn *c);
/** Whether it has authenticated. */
bool target_vclient_is_named(const struct target_vclient *cl);
void target_vclient_ref(struct target_vclient *cl);
/** Give a reference back; the last one frees it. Nothing of it holds or waits for memory then. */
void target_vclient_put(struct target_vclient *cl);

/* ---- target_volume_window.c ---- */

/** The grant of the window at this offset of the worker's medium; NULL: none. */
const struct target_vgrant *target_vwindow_grant(const struct target_vworker *vw, uint64_t off);
/** For how long the last request of this window has waited for the limits, in nanoseconds
 * (rate_pass_waited()). */
uint64_t target_vwindow_waited(const struct target_vworker *vw, uint64_t off);

/* ---- target_volume_untaken.c ---- */

/** The READ is answered, with its staging memory. */
void target_vuntaken_add(struct target_vio *io);
/** The peer has taken the answer, or its connection has ended. */
void target_vuntaken_remove(struct target_vio *io);
/** End a connection, if that is due. Now and then. */
void target_vuntaken_look(struct target_vworker *vw, uint64_t now_ns);

#endif /* WEFT_APPS_TARGET_VOLUME_CLIENT_H */
