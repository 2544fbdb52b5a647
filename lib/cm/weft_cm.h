/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CM_H
#define WEFT_CM_H

/**
 * @file
 * Connection management: listening, connection requests, admission and limits for each address, the
 * MPA start-up policy, the active open. Internal.
 *
 * It is above verbs: it brings a queue pair's stream up by MPA and TCP, and ends it. What verbs
 * asks of it is weft_cm_ops. The engine embeds the parts of a context and of a worker, and owns a
 * worker's TCP and interfaces, by which connections are opened.
 */

#include <sys/queue.h>

#include "weft_lane.h"
#include "weft_mpa_keep.h"
#include "weft_netif.h"
#include "weft_tcp.h"
#include "weft_verbs_ops.h"
#include "weft_vworker.h"
#include <weft/mpa_policy.h>

#define WEFT_MAX_NETIFS 8 /**< ports of one worker */

struct weft_stream;
struct weft_stream_listener;

TAILQ_HEAD(weft_connreq_list, weft_connreq);
TAILQ_HEAD(weft_stream_list, weft_stream);

/** Of a context. */
struct weft_cm {
	struct weft_mpa_policy mpa; /**< for connections and listeners without their own */
	/* under the context's lock */
	TAILQ_HEAD(, weft_listener) listeners;
	TAILQ_HEAD(, weft_stream_listener) stream_listeners;
};

/** Of a worker. */
struct weft_cm_worker {
	struct weft_tcp *tcp;
	struct weft_netif *nif[WEFT_MAX_NETIFS];
	unsigned int nnif;
	struct weft_connreq_list connreqs; /**< all that exist */
	struct weft_stream_list streams;   /**< all that have not ended */
	struct cm_peer_list *peers;        /**< hash table; NULL: no peer has connected yet */
	uint64_t peer_key[2];              /**< key of the hash table */
	struct weft_lanes lanes; /**< of the long work of accepted connections; made with peers */
	struct cm_push *push;    /**< accepted connections that may be reset; NULL: none yet */
	/** streams, and those of them that are known to be in use (cm_push.c) */
	uint32_t nstreams, streams_in_use;
	struct weft_mpa_keep mpa_keep; /**< of incomplete FPDUs of all streams */
};

extern const struct weft_verbs_cm_ops weft_cm_ops;

void weft_cm_init(struct weft_cm *cm, struct weft_vctx *v);
void weft_cm_worker_init(struct weft_cm_worker *w, struct weft_vworker *vw);

/** Check a caller's MPA policy and copy it; `dflt` when p is NULL. -EINVAL. */
int weft_cm_mpa_policy(const struct weft_mpa_policy *p, const struct weft_mpa_policy *dflt,
                       struct weft_mpa_policy *out);

#endif /* WEFT_CM_H */
