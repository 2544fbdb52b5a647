/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_STACK_H
#define WEFT_APPS_STACK_H

/**
 * @file
 * From a configuration to a live stack: environment, context, ports, workers. Used by every
 * program.
 */

#include "conf.h"
#include <weft/weft.h>

struct stack {
	struct weft_ctx *ctx;
	struct weft_port *ports[CONF_PORTS_MAX];       /**< as in conf.ports */
	struct weft_worker *workers[CONF_WORKERS_MAX]; /**< as in conf.workers; not started */
	uint32_t nports, nworkers;
	bool env; /**< we initialised EAL */
};

struct stack_opt {
	const char *progname;
	const struct weft_ctx_attr *ctx; /**< or NULL */
	/** the first alone, with the ports it serves: programs that poll themselves */
	bool one_worker;
	/** only to see whether it would come up: devices are looked for and not opened, no
	 * telemetry */
	bool check;
	/** a program that others connect to: what it says of a port that does not open */
	bool serves;
	bool quiet; /**< no log lines of the library, unless the configuration asks for some */
};

/**
 * Bring it up; nothing is left when it fails. 0 or -errno with one line in err ("port p0: ...").
 * Workers have their ports and wait for weft_worker_start() or somebody's weft_worker_poll().
 */
int stack_up(const struct conf *c, const struct stack_opt *opt, struct stack *s, char *err,
             size_t err_size);
/** Workers must be stopped. Safe on a stack that never came up (all zero). */
void stack_down(struct stack *s);

/** Workers that serve the port, among the first n. */
uint32_t stack_sharers(const struct conf *c, uint32_t n, const char *port);

/** Start every worker on its lcore or thread. On error those started are stopped again. */
int stack_start(struct stack *s, char *err, size_t err_size);
void stack_stop(struct stack *s);

#endif /* WEFT_APPS_STACK_H */
