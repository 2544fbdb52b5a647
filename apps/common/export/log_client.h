/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_LOG_CLIENT_H
#define WEFT_APPS_LOG_CLIENT_H

/**
 * @file A log writer's connection to a log that weft-target hosts (docs/log-host.md). An RPC
 * connection asks for a ticket; a log connection brings the ticket.
 *
 * 	log_hub_up()                       once
 * 	weft_log_create()
 * 	for each target: log_client_start(), and in ready() weft_log_join()
 * 	weft_log_open() ... as in weft/log.h
 *
 * All of it runs on the worker, in callbacks of its polls. Nothing blocks, so a target can join
 * again while appends to the others continue. The RPC connection is closed when the log connection
 * is up.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "host_auth.h"
#include <weft/weft.h>
#include <weft/log.h>

struct log_client;

/** State that all clients of a worker share. Zero it. */
struct log_hub {
	struct weft_worker *worker;
	struct weft_pd *pd; /**< for RPC connections; the log has its own */
	struct weft_cq *cq;
	struct weft_evq *evq;
};

/** Errors of weft_pd_alloc(), weft_cq_create() and weft_evq_create(). Call log_hub_down() in any
 * case. */
int log_hub_up(struct log_hub *hub, struct weft_ctx *ctx, struct weft_worker *worker);
/** The caller has ended all clients and destroyed the log. May poll. */
void log_hub_down(struct log_hub *hub);

struct log_client_attr {
	struct log_hub *hub;
	struct weft_log *log;
	struct weft_pd *pd; /**< the log's */
	struct sockaddr_storage to;
	const char *export_name; /**< copied */
	uint32_t rights;         /**< WEFT_EXPORT_*; 0: read, write and flush */
	const char *auth_name;   /**< copied; NULL: the client does not authenticate itself */
	const struct host_auth_keys *auth_keys; /**< must outlive the client */
	uint64_t connect_us;                    /**< for each connection and call; 0: 10 s */
	/** How long the client waits for the writer's place while another client has it; 0: it
	 * does not wait. */
	uint64_t wait_us;
	/**
	 * The memory is granted. t has all that weft_log_join() needs but format and user; it is
	 * valid until the return. The QP is the caller's from now on: weft_log_join() takes it, or
	 * the caller destroys it.
	 */
	void (*ready)(void *user, const struct weft_log_target *t);
	/**
	 * Called once, unless log_client_end() comes first: -errno and one line. Before ready() the
	 * log could not be reached. After ready() the log connection has ended; the caller reports
	 * that by weft_log_leave(). log_client_end() may be called inside.
	 */
	void (*over)(void *user, int status, const char *why);
	void *user;
};

/** Start a client. -ENOMEM, -EINVAL (a name too long), errors of weft_connect(). over() is not
 * called after an error. */
int log_client_start(const struct log_client_attr *attr, struct log_client **out);
/** End a client. No callback comes afterwards. After ready() the QP stays the caller's. */
void log_client_end(struct log_client *c);

#endif /* WEFT_APPS_LOG_CLIENT_H */
