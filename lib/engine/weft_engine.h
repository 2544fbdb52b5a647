/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_ENGINE_H
#define WEFT_ENGINE_H

/**
 * @file
 * The engine's internal interface, for lib/observe and for tests. Tests run whole stacks without
 * ports, with a clock and random numbers of their own. Programs use weft/worker.h.
 */

#include "weft_base.h"
#include "weft_engine_hist.h"
#include "weft_rdmap.h"
#include "weft_tcp.h"
#include <weft/worker.h>

struct weft_netif;
struct weft_netif_attr;
struct weft_netif_port;

/** Up-calls to lib/observe about the life of a context. Each function may be NULL. They run on the
 * thread that creates or destroys the context. */
struct weft_engine_observer {
	/** The context is complete. An error destroys it, and its creation returns the error. */
	int (*made)(struct weft_ctx *ctx);
	/** The context is about to be destroyed. Its workers still exist. */
	void (*ends)(struct weft_ctx *ctx);
	/** A port of the context is about to be closed. Called after `ends`. */
	void (*port_ends)(struct weft_port *port);
};

/** weft_ctx_create() with the caller's random numbers for STags, and an observer, which must
 * outlive the context; NULL: none. */
int weft_engine_ctx_create(const struct weft_ctx_attr *attr, const struct weft_rand *rand,
                           const struct weft_engine_observer *observer, struct weft_ctx **out);
/**
 * weft_worker_create() with a clock that starts at now_ns, the caller's random numbers, and an
 * executor without threads (jobs run inside the poll). tcp_attr may be NULL. Its max_conns counts
 * only if attr leaves it at 0, and its rto_min_us only if the context leaves it at 0.
 */
int weft_engine_worker_create(struct weft_ctx *ctx, const struct weft_worker_attr *attr,
                              const struct weft_tcp_attr *tcp_attr, const struct weft_rand *rand,
                              uint64_t now_ns, struct weft_worker **out);
/** Add a netif of any kind, for example of a simulated link, before the first poll. -ENOSPC, or an
 * error of weft_netif_create(). */
int weft_engine_add_netif(struct weft_worker *w, const struct weft_netif_attr *attr);

/** One poll at time now_ns. The calling thread becomes the owner of the worker. Returns the amount
 * of work done; 0: none. */
unsigned int weft_engine_poll_at(struct weft_worker *w, uint64_t now_ns);
/** Time of the next poll that has work without input: the time of the last poll if work is left,
 * WEFT_NEVER if the worker is idle. */
uint64_t weft_engine_next_ns(struct weft_worker *w);

struct weft_tcp *weft_engine_tcp(struct weft_worker *w);
/** The i-th netif, NULL past the last. */
struct weft_netif *weft_engine_netif(struct weft_worker *w, unsigned int i);
struct weft_tcp_ports *weft_engine_tcp_ports(struct weft_ctx *ctx);
/** The i-th worker or port, NULL past the last. The handle of the context is not checked, so they
 * also work while it is being destroyed. */
struct weft_worker *weft_engine_worker_at(const struct weft_ctx *ctx, unsigned int i);
struct weft_port *weft_engine_port_at(const struct weft_ctx *ctx, unsigned int i);
struct weft_ctx *weft_engine_ctx(struct weft_worker *w);
const char *weft_engine_worker_name(const struct weft_worker *w);
/** Messages of the worker by opcode, and Terminates and faults by cause. Its thread counts them. */
const struct weft_rdmap_op_stats *weft_engine_op_stats(const struct weft_worker *w);
const struct weft_engine_hist *weft_engine_hist(const struct weft_worker *w);
/** The DPDK port of an open port. */
const struct weft_netif_port *weft_engine_port_dev(const struct weft_port *port);
/** The i-th interface on the port, one of each worker that has it; NULL past the last. */
struct weft_netif *weft_engine_port_netif(const struct weft_port *port, unsigned int i);
/** The clock of weft_worker_poll(). Any thread. */
uint64_t weft_engine_clock_ns(void);
/** TSC cycles in nanoseconds. Valid after the first weft_engine_clock_ns(). */
uint64_t weft_engine_cycles_ns(uint64_t cycles);

/** One moment, by the TSC and by a clock. */
struct weft_engine_moment {
	uint64_t tsc, ns;
};
/** The present moment, by the time of day: ns since 1970. Any thread. */
struct weft_engine_moment weft_engine_moment_now(void);
/** The time of day, in ns since 1970, when the TSC had this value, shortly before `now`. */
uint64_t weft_engine_moment_of(const struct weft_engine_moment *now, uint64_t tsc);

#endif /* WEFT_ENGINE_H */
