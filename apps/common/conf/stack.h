/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_STACK_H
#define WEFT_APPS_STACK_H

/**
 * @file Makes a running stack from a configuration: environment, context, ports, workers. All
 * programs use it.
 */

#include <signal.h>

#include "conf.h"
#include <weft/weft.h>

struct stack {
	struct weft_ctx *ctx;
	struct weft_port *ports[CONF_PORTS_MAX]; /**< in the order of conf.ports */
	/** in the order of conf.workers; not started */
	struct weft_worker *workers[CONF_WORKERS_MAX];
	uint32_t nports, nworkers;
	bool env; /**< stack_up() has initialised EAL */
};

struct stack_opt {
	const char *progname;
	const struct weft_ctx_attr *ctx; /**< or NULL */
	/** make the first worker only, and its ports; for programs that poll themselves */
	bool one_worker;
	/** check only whether the stack could come up: look devices up without opening them, no
	 * telemetry */
	bool check;
	/** the program is a server; changes the message about a port that does not open */
	bool serves;
	bool quiet; /**< suppress the library's log lines, unless the configuration asks for some */
};

/**
 * Bring the stack up. 0, or -errno with one line in err ("port p0: ..."); after an error nothing is
 * left. Workers have their ports and wait for weft_worker_start() or weft_worker_poll().
 */
int stack_up(const struct conf *c, const struct stack_opt *opt, struct stack *s, char *err,
             size_t err_size);
/** Free the stack; workers must be stopped. A stack that never came up (all zero) is allowed. */
void stack_down(struct stack *s);

/** Number of workers among the first n that serve the port. */
uint32_t stack_sharers(const struct conf *c, uint32_t n, const char *port);

/** Whether the devices of all ports were removed, so that no connection is possible any more. */
bool stack_cut_off(const struct stack *s);

/** Start every worker on its lcore or thread. After an error those that were started are
 * stopped. */
int stack_start(struct stack *s, char *err, size_t err_size);
void stack_stop(struct stack *s);

/**
 * Of a client that polls its first worker itself, before it connects: if the first port is a bond
 * without a link, poll until it has one, for at most 10 s. Partners of LACP agree only while the
 * worker runs, in some seconds, and a SYN that is sent before is lost. Returns when *stop is not 0,
 * too.
 */
void stack_await_partner(const struct stack *s, const volatile sig_atomic_t *stop);

/**
 * Destroy what a program made for its connections, after its QPs; each may be NULL. The worker is
 * polled before until it has freed what it had in use; NULL: it has nothing. A region that is
 * deregistered just before is freed thereby.
 */
void stack_release(struct weft_worker *w, struct weft_cq *cq, struct weft_evq *evq,
                   struct weft_pd *pd);

#endif /* WEFT_APPS_STACK_H */
