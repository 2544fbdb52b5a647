/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_LOG_CLIENT_H
#define WEFT_APPS_LOG_CLIENT_H

/**
 * @file The writer's way to a log that weft-target hosts (docs/log-host.md): an RPC connection that
 * asks for a ticket, and a log connection that brings it.
 *
 * 	log_hub_up()                       once
 * 	weft_log_create()
 * 	for each target: log_client_start(), and in ready() weft_log_join()
 * 	weft_log_open() ... as in weft/log.h
 *
 * Everything runs on the worker, by callbacks from its polls; nothing blocks. So a target joins
 * again while appends to the others go on. The RPC connection goes as soon as the log connection is
 * there.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "host_auth.h"
#include <weft/weft.h>
#include <weft/log.h>

struct log_client;

/** What all clients of a worker share. Zero it. */
struct log_hub {
	struct weft_worker *worker;
	struct weft_pd *pd; /**< of RPC connections; the log has its own */
	struct weft_cq *cq;
	struct weft_evq *evq;
};

/** What weft_pd_alloc(), weft_cq_create() and weft_evq_create() say; log_hub_down() afterwards in
 * any case. */
int log_hub_up(struct log_hub *hub, struct weft_ctx *ctx, struct weft_worker *worker);
/** All clients have been ended, and the log is destroyed. May poll. */
void log_hub_down(struct log_hub *hub);

struct log_client_attr {
	struct log_hub *hub;
	struct weft_log *log;
	struct weft_pd *pd; /**< the log's */
	struct sockaddr_storage to;
	const char *export_name; /**< copied */
	uint32_t rights;         /**< WEFT_EXPORT_*; 0: read, write and flush */
	const char *auth_name;   /**< copied; NULL: the client does not authenticate itself */
	const struct host_auth_keys *auth_keys; /**< outlives the client */
	uint64_t connect_us;                    /**< for each connection and call; 0: 10 s */
	/** that the client waits for the writer's place, while another client has it; 0: it does
	 * not wait */
	uint64_t wait_us;
	/**
	 * The memory is granted. t has all that weft_log_join() needs but format and user. The QP
	 * is the caller's from now on: the log's by weft_log_join(), or to be destroyed. Good until
	 * the return.
	 */
	void (*ready)(void *user, const struct weft_log_target *t);
	/**
	 * Once, unless the client is ended before: -errno and one line. Before ready() there was no
	 * way to the log; afterwards the log connection has ended, which weft_log_leave() is to be
	 * told of. log_client_end() may be called in it.
	 */
	void (*over)(void *user, int status, const char *why);
	void *user;
};

/** -ENOMEM, -EINVAL (a name too long), what weft_connect() says. over() does not come then. */
int log_client_start(const struct log_client_attr *attr, struct log_client **out);
/** No callback comes any more. After ready() the QP stays the caller's. */
void log_client_end(struct log_client *c);

#endif /* WEFT_APPS_LOG_CLIENT_H */
