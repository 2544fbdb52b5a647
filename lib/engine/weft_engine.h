/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_ENGINE_H
#define WEFT_ENGINE_H

/**
 * @file
 * The engine as tests drive it: whole stacks without ports, on a clock and a
 * randomness that are handed in. Internal; programs use weft/worker.h.
 */

#include "weft_base.h"
#include "weft_netif.h"
#include "weft_rdmap.h"
#include "weft_tcp.h"
#include <weft/worker.h>

struct weft_mem;

/** weft_ctx_create() with randomness for STags handed in. */
int weft_engine_ctx_create(const struct weft_ctx_attr *attr, const struct weft_rand *rand,
                           struct weft_ctx **out);
/**
 * weft_worker_create() whose clock starts at now_ns, with randomness handed in and an executor
 * without threads (jobs run inside the poll). tcp_attr may be NULL; its max_conns and rto_min_us
 * count only where worker and context leave theirs at zero.
 */
int weft_engine_worker_create(struct weft_ctx *ctx, const struct weft_worker_attr *attr,
                              const struct weft_tcp_attr *tcp_attr, const struct weft_rand *rand,
                              uint64_t now_ns, struct weft_worker **out);
/** A netif of any kind, a simulated link's for one. Before the first poll. -ENOSPC, and as
 * weft_netif_create(). */
int weft_engine_add_netif(struct weft_worker *w, const struct weft_netif_attr *attr);

/** One turn of the loop at now_ns, on the calling thread, which owns the worker from then on. */
unsigned int weft_engine_poll_at(struct weft_worker *w, uint64_t now_ns);
/** When it wants to run again without input: the clock's current value when there is work left,
 * WEFT_NEVER when idle. */
uint64_t weft_engine_next_ns(struct weft_worker *w);

/** For tests that must notice it: QPs made from here on break this promise. */
void weft_engine_sabotage(struct weft_ctx *ctx, enum weft_rdmap_sabotage what);

struct weft_tcp *weft_engine_tcp(struct weft_worker *w);
/** The i-th netif, NULL past the last. */
struct weft_netif *weft_engine_netif(struct weft_worker *w, unsigned int i);
struct weft_sched *weft_engine_sched(struct weft_worker *w);
struct weft_mem *weft_engine_mem(struct weft_ctx *ctx);
/** The clock of workers that run by themselves. */
uint64_t weft_engine_clock_ns(void);

#endif /* WEFT_ENGINE_H */
