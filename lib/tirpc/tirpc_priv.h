/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TIRPC_PRIV_H
#define TIRPC_PRIV_H

/** @file What the client's and the server's side of the TI-RPC face share. */

#include <pthread.h>

#include <weft/tirpc.h>
#include <weft/ulp.h>
#include <weft/worker.h>

/** What is said of a procedure, or NULL. */
const struct weft_rpc_proc *tirpc_proc(const struct weft_rpc_program *const *programs,
                                       uint32_t prog, uint32_t vers, uint32_t proc);
/** Its binding, or NULL. */
const struct weft_rpc_binding *tirpc_binding(const struct weft_rpc_program *const *programs,
                                             uint32_t prog, uint32_t vers, uint32_t proc);
/** attr checked and copied; NULL: zero. -EINVAL. */
int tirpc_attr(const struct weft_tirpc_attr *attr, struct weft_tirpc_attr *out);
/** What an endpoint is made with; qp and server still to be set. */
struct weft_rpc_attr tirpc_rpc_attr(const struct weft_tirpc_attr *a);
/** Receives and requests under way that an endpoint needs of its QP. */
struct weft_qp_attr tirpc_qp_attr(const struct weft_tirpc_attr *a);

/**
 * weft_worker_call(), again while too many are on their way: for what must not fail. Not on a
 * worker's thread but the one that is called.
 */
int tirpc_worker_call(struct weft_worker *worker, void (*fn)(void *arg), void *arg);

/**
 * Run fn(arg) on the worker and wait until `*done` is set under lock, by fn or later; on the
 * worker's own thread it is polled meanwhile. 0, or what weft_worker_call() answers.
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
