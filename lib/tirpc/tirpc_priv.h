/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TIRPC_PRIV_H
#define TIRPC_PRIV_H

/** @file What the client and the server of the TI-RPC interface share. */

#include <pthread.h>

#include <weft/tirpc.h>
#include <weft/ulp.h>
#include <weft/worker.h>

/** The description of a procedure, or NULL. */
const struct weft_rpc_proc *tirpc_proc(const struct weft_rpc_program *const *programs,
                                       uint32_t prog, uint32_t vers, uint32_t proc);
/** The binding of a procedure, or NULL. */
const struct weft_rpc_binding *tirpc_binding(const struct weft_rpc_program *const *programs,
                                             uint32_t prog, uint32_t vers, uint32_t proc);
/** Check attr and copy it; NULL: zero. -EINVAL. */
int tirpc_attr(const struct weft_tirpc_attr *attr, struct weft_tirpc_attr *out);
/** The attributes of an endpoint; the caller sets qp and server. */
struct weft_rpc_attr tirpc_rpc_attr(const struct weft_tirpc_attr *a);
/** The receives and requests that an endpoint needs of its QP. */
struct weft_qp_attr tirpc_qp_attr(const struct weft_tirpc_attr *a);

/**
 * weft_worker_call(), tried again while too many calls are queued; for calls that must not fail.
 * Not on the thread of another worker than the one called.
 */
int tirpc_worker_call(struct weft_worker *worker, void (*fn)(void *arg), void *arg);

/**
 * Run fn(arg) on the worker, and wait until fn or a later callback sets `*done` under lock. On the
 * worker's own thread the wait polls the worker. 0, or errors of weft_worker_call().
 */
struct tirpc_wait {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done;
};

void tirpc_wait_init(struct tirpc_wait *w);
void tirpc_wait_fini(struct tirpc_wait *w);
void tirpc_wait_signal(struct tirpc_wait *w);
int tirpc_wait_for(struct weft_worker *worker, struct tirpc_wait *w, void (*fn)(void *arg),
                   void *arg);

#endif /* TIRPC_PRIV_H */
