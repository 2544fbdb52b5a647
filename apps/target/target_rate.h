/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_RATE_H
#define WEFT_APPS_TARGET_RATE_H

/** @file The rates and connections of exports (docs/control.md). On the connection's worker, unless
 * a function says otherwise. */

#include <stdbool.h>

struct rate_pass;
struct target;
struct target_conn;
struct target_export;
struct target_worker;

/** Set-up thread. -ENOMEM. */
int target_rates_up(struct target_worker *tw);
/** The worker is stopped, and its connections are gone. */
void target_rates_down(struct target_worker *tw);
/** Forget the clients that have no grant any more. */
void target_rates_reap(struct target_worker *tw);
/** Take the limits of the export's configuration. The program's thread; each worker sees them after
 * target_rate_look() or with the next OPEN. */
void target_rate_set(struct target *t, const struct target_export *ex);
void target_rate_look(struct target_worker *tw, const struct target_export *ex);

/** Open the pass of a grant of the connection, in the rates of its client. -ENOMEM. */
int target_rate_open(struct target_conn *c, const struct target_export *ex, struct rate_pass *p);
/** Whether the connection may have a grant of the export (`max_conns`); counts a refusal. Two
 * workers that ask at the same moment may both get the last place. */
bool target_rate_conn(const struct target_conn *c, struct target_export *ex);
/** The connection is about to get a grant. */
void target_rate_hold(const struct target_conn *c, struct target_export *ex);
/** A grant of the connection has ended: count it no more. */
void target_rate_let_go(const struct target_conn *c, struct target_export *ex);

#endif /* WEFT_APPS_TARGET_RATE_H */
