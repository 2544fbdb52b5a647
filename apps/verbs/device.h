/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_DEVICE_H
#define WEFT_APPS_VERBS_DEVICE_H

/** @file The devices, "weft0" and so on, one for each port of the configuration: their list, their
 * contexts, and what they can be asked. */

#include <infiniband/verbs.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "fdq.h"

#define WV_DEVICE_NAME "weft%u"
#define WV_PORT        1 /**< of each device: it has one */

/* Limits of one object, as ibv_query_device() tells them. */
#define WV_MAX_QP_WR   16384
#define WV_MAX_CQE     (4 * 1024 * 1024 - 1)
#define WV_MAX_SRQ_WR  16384
#define WV_MAX_RD_ATOM 64

/** An opened device. */
struct wv_context {
	TAILQ_ENTRY(wv_context) link;
	struct wv_fdq async; /**< asynchronous events, which the descriptor async_fd tells of */
	atomic_uint users;   /**< the program, until it closes the context, and each object of it */
	bool closed;         /**< by the program. Under the engine's lock */
	unsigned int number; /**< of its device */
	struct verbs_context vctx;
};

static inline struct wv_context *
wv_context(struct ibv_context *c)
{
	return (struct wv_context *)(void *)((char *)c - offsetof(struct wv_context, vctx.context));
}

/** The number of a context's device: that of its port in the configuration. */
static inline unsigned int
wv_context_number(const struct ibv_context *c)
{
	return wv_context((struct ibv_context *)(uintptr_t)c)->number;
}

/** A device's GUID, in network byte order: made from the configuration, so the same at each start.
 * 0: no configuration. */
__be64 wv_device_guid(unsigned int number);
/** An object is made of the context, whose memory stays as long as the object. Any thread. */
void wv_context_hold(struct ibv_context *context);
/** The object is gone, or the program has closed the context. The last one frees it. */
void wv_context_put(struct ibv_context *context);
/** Fill in the tables of a new context: calls.c. */
void wv_calls_set(struct verbs_context *v);

#endif /* WEFT_APPS_VERBS_DEVICE_H */
