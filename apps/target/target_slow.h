/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_SLOW_H
#define WEFT_APPS_TARGET_SLOW_H

/**
 * @file Slow operations explain themselves: one that takes `slow_ms` ([target]) or longer is kept,
 * with what it asked for and where its time went, and is logged in one line.
 *
 * A worker keeps SLOW_KEPT of them, which its thread alone reads and writes. Where there is no
 * room, the oldest one of the client goes that has most: a client that is slow all the time does
 * not push out what others have, and has a line of the log each SLOW_SAY_NS at most. The stamps are
 * those of the metrics (target_metrics.h), whose counting is on while `slow_ms` is not 0. All of it
 * runs on workers, unless a function says otherwise.
 */

#include <stdatomic.h>

#include "conf.h"
#include "host_auth.h"
#include "target_conn.h"
#include "target_metrics.h"

#define SLOW_KEPT    64U          /**< of a worker */
#define SLOW_CLIENTS 256U         /**< into so many classes clients fall, by a keyed hash */
#define SLOW_SAY_NS  10000000000U /**< between two lines of the log about one client */

struct target_export;
struct target_vio;

/** One operation. */
struct slow_op {
	uint64_t number; /**< of the worker's, from 0 on */
	uint64_t at_ns;  /**< when it ended, by ui_now_ns() */
	uint64_t total_ns;
	uint64_t stage_ns[METRICS_STAGES]; /**< UINT64_MAX: it has no such stage */
	uint64_t off_bytes, len_bytes;
	bool in_window; /**< off_bytes is not known: a Flush or Verify of a window */
	uint8_t who;    /**< class of its client */
	const char *op; /**< as the metrics name it; a literal. NULL: the place is free */
	char why[64];   /**< why it failed; "": it did not */
	char export[CONF_NAME_MAX + 1];
	char peer[64];                 /**< address and port; "": not known */
	char client[CONF_NQN_MAX + 1]; /**< authenticated name, or NQN of a host; "": none */
};

struct slow_ring {
	atomic_ullong seen; /**< counter since the start; relaxed */
	atomic_ullong
	        crowded; /**< counter: of these, those that pushed out one of the same client */
	atomic_ullong
	        unsaid; /**< counter: those without a line of the log, because of SLOW_SAY_NS */
	struct slow_op ops[SLOW_KEPT]; /**< in no order */
	/* of a class of clients */
	uint8_t held[SLOW_CLIENTS];
	uint64_t said_ns[SLOW_CLIENTS]; /**< when the log had a line about it; 0: never */
	uint64_t key;                   /**< of the hash */
};

/** The place of the next operation of a client of this class. target_slow_place.c */
struct slow_op *slow_place(struct slow_ring *r, uint8_t who);
/** The class of a client: by its name, or else by the address in "address:port". */
uint8_t slow_class(const struct slow_ring *r, const char *client, const char *peer);
/** Whether the log may have a line about the class now; if not, that is counted. */
bool slow_may_say(struct slow_ring *r, uint8_t who, uint64_t now_ns);
/** The log has one. */
void slow_said(struct slow_ring *r, uint8_t who, uint64_t now_ns);

/** What a record is made of, besides its times. */
struct slow_what {
	const char *op; /**< a literal */
	const struct target_export *ex;
	/** As those of slow_op. May be NULL: not known. */
	const char *peer, *client;
	uint64_t off_bytes, len_bytes;
	bool in_window;
	const char *why; /**< NULL: it did not fail */
};

/** Allocate the rings. Workers do not run. -ENOMEM. The program's thread. */
int target_slow_up(struct target *t);
/** Workers are stopped. */
void target_slow_down(struct target *t);
/** Take `slow_ms` of a configuration. The program's thread; workers see it at once or soon. */
void target_slow_set(struct target *t, uint32_t slow_ms);

/** The authenticated name of the connection's client; NULL: it has none. */
const char *target_slow_client(const struct target_conn *c);
/** An operation ends now, whose last stage is `last`; METRICS_STAGES: all its stages are stamped.
 * Does nothing if it is not measured, or was not slow. */
void target_slow(const struct target_worker *tw, const struct metrics_timing *tm,
                 enum metrics_stage last, const struct slow_what *what);
/** A call to a volume is answered; held: its answer is not taken yet. */
void target_slow_vio(const struct target_vio *io, bool held);
/** The client has taken the answer of a call to a volume. */
void target_slow_vio_taken(const struct target_vio *io);
/** The medium is done with a Flush or Verify of RDMA, which spent stage_ns. conn: whose window it
 * is; NULL: of an object or log, whose writer is looked for. */
void target_slow_push(const struct target_worker *tw, enum metrics_op op,
                      const struct target_export *ex, const struct target_conn *conn,
                      uint64_t off_bytes, uint64_t len_bytes, int status,
                      const uint64_t stage_ns[METRICS_STAGES]);

#endif /* WEFT_APPS_TARGET_SLOW_H */
