/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PING_H
#define WEFT_PING_H

/**
 * @file
 * What the parts of weft-ping share.
 *
 * One ping, as rping (rdmacm-utils) does it, both sides symmetric in nothing:
 *
 *     client                                         server
 *     Send: where the ping's data lies         ->
 *                                              <-    RDMA Read of it
 *     (the stack answers)                      ->
 *                                              <-    Send: go ahead
 *     Send: where the answer is to be put      ->
 *                                              <-    RDMA Write of the same data, Send: done
 *
 * Every Send is the 16 octets of struct ping_info; in the server's they mean nothing. The client
 * speaks first, as MPA wants it of an initiator (RFC 5044 s7.1).
 */

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hist.h"
#include "proto.h"
#include <weft/weft.h>

#define PING_PORT 7174 /**< rping's default */
/** Likewise; its man page says 100, and that is what our server has room for. */
#define PING_SIZE         64
#define PING_ROOM         100
#define PING_TIMEOUT_S    10
#define PING_SETTLE_MS    200
#define PING_KEEPALIVE_US 2000000
#define PING_MAX_SESSIONS 64 /**< clients that a persistent server has at once */
#define PING_WHY_MAX      320

struct ping_opt {
	bool server;
	bool persistent; /**< server: until it is told to stop */
	bool verify;
	bool verbose; /**< every ping's data on standard output */
	bool debug;   /**< every step on standard error */
	bool quiet;   /**< neither head nor summary */
	bool json;
	uint32_t size_bytes;
	uint64_t count; /**< client; 0: until it is told to stop */
	uint32_t timeout_s;
	uint8_t mpa_rev;              /**< client: 1 or 2 */
	uint32_t settle_ms;           /**< client: pause between start-up and the first ping */
	struct sockaddr_storage addr; /**< of the server */
};

/** How it went; filled in also when it went wrong. */
struct ping_result {
	uint64_t pings;   /**< answered, and good when they were verified */
	double seconds;   /**< of all of them */
	uint64_t clients; /**< server: that left in order */
	uint64_t failed;  /**< server: that did not */
	struct hist rtt;  /**< client: a whole ping each, in ns */
};

/** Set by SIGINT and SIGTERM. */
extern volatile sig_atomic_t ping_stop;

/** A step, with --debug. */
void ping_debug(const struct ping_opt *o, const char *fmt, ...)
        __attribute__((format(printf, 2, 3)));
/**
 * "rdma-ping-3: DEFG…" of received octets, behind `what`, for standard output. It waits in memory
 * until ping_shown(): whoever reads us slowly must not keep the stack from polling.
 */
void ping_say(const char *what, const uint8_t *data, uint32_t size_bytes);
/** Write what standard output takes now. Whether nothing is left. */
bool ping_shown(void);

/**
 * How a loop waits between polls: busy for a millisecond, so that what is measured is the network,
 * then in naps that are short against what has passed already.
 */
struct ping_wait {
	uint64_t since_ns; /**< the last poll that had something to do; 0: unknown */
};

/** One poll, or a nap. Returns how long nothing has happened, in ns. */
uint64_t ping_turn(struct ping_wait *wait, struct weft_worker *w);

/**
 * Ping the server until opt->count, an error or ping_stop. Polls w on this thread. 0, or -errno
 * with one line in why ("ping 3: ...").
 */
int ping_client_run(struct weft_ctx *ctx, struct weft_worker *w, const struct ping_opt *opt,
                    struct ping_result *res, char *why, size_t why_bytes);
/**
 * Serve one client, or with opt->persistent all that come, up to PING_MAX_SESSIONS at once, until
 * ping_stop. What goes wrong with a client is said on standard error as it happens. 0, or -errno:
 * cannot serve at all.
 */
int ping_server_run(struct weft_ctx *ctx, struct weft_worker *w, const struct ping_opt *opt,
                    struct ping_result *res);

/** perftest's columns; nothing when there was no ping. */
void ping_print_table(const struct ping_opt *opt, const struct ping_result *res);
/** One document; error is the line that was said, or NULL. */
void ping_print_json(const struct ping_opt *opt, const struct ping_result *res, const char *error);

#endif /* WEFT_PING_H */
