/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_RATE_H
#define WEFT_APPS_TARGET_RATE_H

/** @file The rates and connections of exports (docs/control.md). On the connection's worker, unless
 * a function says otherwise. */

#include <stdbool.h>
#include <stdint.h>

#define TARGET_CONNS_FULL "it has as many connections as it may (max_conns)"

struct quota_id;
struct rate_pass;
struct rate_walk;
struct target;
struct target_conn;
struct target_export;
struct target_worker;

/** Set-up thread. -ENOMEM. */
int target_rates_up(struct target_worker *tw);
/** A slot of exports is about to be used for the first time: its rates, and those on each worker
 * that is up. No worker sees the slot yet. The program's thread. */
void target_rates_slot(struct target *t, uint32_t slot);
/** The worker is stopped, and its connections are gone. */
void target_rates_down(struct target_worker *tw);
/** Forget the clients that have no grant any more. */
void target_rates_reap(struct target_worker *tw);
/** Take the limits of the export's configuration. The program's thread; each worker sees them after
 * target_rate_look() or with the next OPEN. */
void target_rate_set(struct target *t, const struct target_export *ex);
void target_rate_look(struct target_worker *tw, const struct target_export *ex);

/** Whether the worker keeps rates of the export. On the worker. */
bool target_rate_is_on(const struct target_worker *tw, const struct target_export *ex);
/** rate_clients() of an export that has rates; of another one there is no client. */
uint32_t target_rate_clients(const struct target_worker *tw, const struct target_export *ex,
                             struct rate_walk *walk, uint32_t most,
                             bool (*fn)(void *arg, const struct quota_id *id, uint64_t ops,
                                        uint64_t bytes, bool waits),
                             void *arg);

/** The connection is about to get a grant: take a place of the export's connections (`max_conns`),
 * unless it has one, and open a pass in the rates of its client. -EUSERS: no place is free, counted
 * as a refusal. -ENOMEM. */
int target_rate_open(struct target_conn *c, struct target_export *ex, struct rate_pass *p);
/** The grant is none of the connection's any more: give the place back with the last one, and end
 * the pass. What waits by it goes on, and finds that the grant has ended. */
void target_rate_end(const struct target_conn *c, struct target_export *ex, struct rate_pass *p);
/** Whether target_rate_open() would find a place at this moment; if not, it counts a refusal. */
bool target_rate_conn(const struct target_conn *c, struct target_export *ex);

#endif /* WEFT_APPS_TARGET_RATE_H */
