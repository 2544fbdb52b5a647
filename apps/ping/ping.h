/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PING_H
#define WEFT_PING_H

/**
 * @file What the sources of weft-ping share.
 *
 * One ping, as rping (rdmacm-utils) does it:
 *
 *     client                                         server
 *     Send: address of the ping's data         ->
 *                                              <-    RDMA Read of the data
 *     (the stack answers)                      ->
 *                                              <-    Send: go ahead
 *     Send: address for the answer             ->
 *                                              <-    RDMA Write of the same data, Send: done
 *
 * Every Send has the 16 octets of struct ping_info; in the server's Sends they have no meaning. The
 * client speaks first, as MPA requires of an initiator (RFC 5044 s7.1).
 */

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hist.h"
#include "proto.h"
#include <weft/weft.h>

#define PING_PORT 7174 /**< rping's default */
/** rping's default. Its man page says 100, so our server has room for 100. */
#define PING_SIZE         64
#define PING_ROOM         100
#define PING_TIMEOUT_S    10
#define PING_SETTLE_MS    200
#define PING_KEEPALIVE_US 2000000
#define PING_MAX_SESSIONS 64 /**< clients that a persistent server serves at once */
#define PING_WHY_MAX      320

struct ping_opt {
	bool server;
	bool persistent; /**< server: serve until it is stopped */
	bool verify;
	bool verbose; /**< every ping's data on standard output */
	bool debug;   /**< every step on standard error */
	bool quiet;   /**< neither head nor summary */
	bool json;
	uint32_t size_bytes;
	uint64_t count; /**< client: number of pings; 0: until it is stopped */
	uint32_t timeout_s;
	uint8_t mpa_rev;              /**< client: 1 or 2 */
	uint32_t settle_ms;           /**< client: pause between start-up and the first ping */
	struct sockaddr_storage addr; /**< of the server */
	/** client: the address to connect from; ss_family 0: any that reaches the server */
	struct sockaddr_storage from;
};

/** The result; it is filled in after an error, too. */
struct ping_result {
	uint64_t pings;   /**< answered pings, with the right data when they were verified */
	double seconds;   /**< duration of all pings */
	uint64_t clients; /**< server: clients that closed in order */
	uint64_t failed;  /**< server: clients that did not */
	struct hist rtt;  /**< client: duration of each whole ping, in ns */
};

/** Set by SIGINT and SIGTERM. */
extern volatile sig_atomic_t ping_stop;

/** Print one step, with --debug. */
void ping_debug(const struct ping_opt *o, const char *fmt, ...)
        __attribute__((format(printf, 2, 3)));
/**
 * Queue received octets for standard output, as `what` and "rdma-ping-3: DEFG…". The text waits in
 * memory until ping_shown(), so that a slow reader of the output does not delay polls.
 */
void ping_say(const char *what, const uint8_t *data, uint32_t size_bytes);
/** Write as much as standard output accepts. Returns whether nothing is left. */
bool ping_shown(void);

/**
 * How a loop waits between polls: it polls without a pause for a millisecond, so that the network
 * is what is measured, then sleeps for times that are short against the time already waited.
 */
struct ping_wait {
	uint64_t since_ns; /**< time of the last poll that had work; 0: unknown */
};

/** Poll once, or sleep. Returns the ns since the last poll that had work. */
uint64_t ping_turn(struct ping_wait *wait, struct weft_worker *w);

/**
 * Ping the server until opt->count, an error or ping_stop. Polls w on this thread. 0, or -errno
 * with one line in why ("ping 3: ...").
 */
int ping_client_run(struct weft_ctx *ctx, struct weft_worker *w, const struct ping_opt *opt,
                    struct ping_result *res, char *why, size_t why_bytes);
/**
 * Serve one client, or with opt->persistent all clients, up to PING_MAX_SESSIONS at once, until
 * ping_stop. A client's error is printed on standard error when it happens. 0, or -errno: the
 * server cannot work.
 */
int ping_server_run(struct weft_ctx *ctx, struct weft_worker *w, const struct ping_opt *opt,
                    struct ping_result *res);

/** Print perftest's columns; nothing when there was no ping. */
void ping_print_table(const struct ping_opt *opt, const struct ping_result *res);
/** Print one JSON document; error is the line that was printed, or NULL. */
void ping_print_json(const struct ping_opt *opt, const struct ping_result *res, const char *error);

#endif /* WEFT_PING_H */
