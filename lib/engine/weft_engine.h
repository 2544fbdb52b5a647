/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_ENGINE_H
#define WEFT_ENGINE_H

/**
 * @file
 * The engine as tests drive it: whole stacks without ports, on a clock and a
 * randomness that are handed in. Internal; programs use weft/worker.h.
 */

#include "weft_base.h"
#include "weft_engine_hist.h"
#include "weft_netif.h"
#include "weft_rdmap.h"
#include "weft_tcp.h"
#include <weft/worker.h>

struct weft_mem;
struct weft_netif_port;

/** Who looks at contexts from outside (lib/observe): told of their beginning and end. Any of the
 * functions may be NULL. They run on the thread that makes or destroys the context. */
struct weft_engine_observer {
	/** It is complete. An error ends it again, and is what its creation returns. */
	int (*made)(struct weft_ctx *ctx);
	/** It is about to be destroyed; its workers are still there. */
	void (*ends)(struct weft_ctx *ctx);
	/** Likewise, behind `ends`, of each of its ports. */
	void (*port_ends)(struct weft_port *port);
};

/** weft_ctx_create() with randomness for STags handed in. */
int weft_engine_ctx_create(const struct weft_ctx_attr *attr, const struct weft_rand *rand,
                           struct weft_ctx **out);
/** The same with an observer, which outlives it; NULL: none. */
int weft_engine_ctx_create_for(const struct weft_ctx_attr *attr, const struct weft_rand *rand,
                               const struct weft_engine_observer *observer, struct weft_ctx **out);
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
struct weft_tcp_ports *weft_engine_tcp_ports(struct weft_ctx *ctx);
/** The i-th worker or port, NULL past the last. The handle is not checked: the context may be one
 * that is about to be destroyed. */
struct weft_worker *weft_engine_worker_at(const struct weft_ctx *ctx, unsigned int i);
struct weft_port *weft_engine_port_at(const struct weft_ctx *ctx, unsigned int i);
struct weft_ctx *weft_engine_ctx(struct weft_worker *w);
const char *weft_engine_worker_name(const struct weft_worker *w);
/** Its Terminates and refusals by cause; counted by its thread. */
const struct weft_rdmap_faults *weft_engine_faults(const struct weft_worker *w);
const struct weft_engine_hist *weft_engine_hist(const struct weft_worker *w);
/** What an open port is to DPDK. */
const struct weft_netif_port *weft_engine_port_dev(const struct weft_port *port);
/** The i-th of the interfaces that its workers have, NULL past the last. */
struct weft_netif *weft_engine_port_netif(const struct weft_port *port, unsigned int i);
/** The clock of workers that run by themselves. */
uint64_t weft_engine_clock_ns(void);
/** TSC cycles as time; behind the first weft_engine_clock_ns(). */
uint64_t weft_engine_cycles_ns(uint64_t cycles);

#endif /* WEFT_ENGINE_H */
