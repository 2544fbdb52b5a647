/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OBSERVE_ASK_H
#define OBSERVE_ASK_H

/**
 * @file What the commands of telemetry have in common: their numbers, the contexts that telemetry
 * shows, and questions that a worker answers on its own thread. Telemetry's thread.
 */

#include <pthread.h>
#include <sys/queue.h>

#include "observe_priv.h"

#define OBSERVE_MAX_PARAMS 3

/** A context that telemetry shows. */
struct observe_ctx {
	TAILQ_ENTRY(observe_ctx) link;
	struct weft_ctx *ctx;
};
TAILQ_HEAD(observe_ctx_list, observe_ctx);

extern struct observe_ctx_list observe_ctxs; /**< protected by observe_lock */
/** While it is held, no context that telemetry shows is destroyed, and no worker or port of it. */
extern pthread_mutex_t observe_lock;

/** Parse numbers such as "1,2,3". Returns how many, or -EINVAL. */
int observe_params(const char *params, uint32_t v[OBSERVE_MAX_PARAMS]);
/** The i-th worker of all contexts; NULL past the last. The caller holds observe_lock. */
struct weft_worker *observe_worker(uint32_t i);

/** Collects what was asked for, on the worker's thread. data: of observe_ask_new(). */
typedef void (*observe_ask_fn)(struct weft_worker *w, void *data);

/** Memory for a question and its answer, zero-filled; NULL: none left. */
void *observe_ask_new(size_t bytes);
/**
 * Run fn(w, data) on the thread of the worker with this number, and wait for it, at most a second.
 * 0: the caller reads data, then calls observe_ask_free(). After an error data is not the caller's
 * any more: -ENOENT: no such worker; -EAGAIN: too many calls wait; -ETIMEDOUT: the worker does not
 * poll.
 */
int observe_ask(uint32_t worker, observe_ask_fn fn, void *data);
void observe_ask_free(void *data);

/** A dictionary under this number in the answer d, to be filled in; NULL: no memory, or no room. */
struct rte_tel_data *observe_item(struct rte_tel_data *d, uint32_t number);

#endif /* OBSERVE_ASK_H */
