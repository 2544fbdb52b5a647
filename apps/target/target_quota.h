/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_QUOTA_H
#define WEFT_APPS_TARGET_QUOTA_H

/** @file The limits of a client's grants, and which connection is evicted first. */

#include "conf.h"
#include "quota.h"

struct target;
struct target_conn;
struct target_grant;

/** Number of regions of the context: for all grants, and for RPC on each connection. */
uint32_t target_quota_regions(const struct conf *conf);
/** Number of regions of one connection's protection domain. */
uint32_t target_quota_conn_regions(const struct conf *conf);
/** -errno with one line in err. */
int target_quota_up(struct target *t, char *err, size_t err_size);
/** Whom the connection's grants count for now: its authenticated name, or its address. On its
 * worker. */
void target_quota_id(const struct target_conn *c, struct quota_id *id);
/** For an OPEN: take a share of the quota, as quota_open(); *why gets the reason of a refusal. */
int target_quota_open(struct target_conn *c, struct quota_client **out, const char **why);
/** Count a grant of the connection, of either kind, for its holder. On its worker. */
void target_quota_hold(struct target_conn *c, struct quota_client *client);
/** Count it no longer for the holder; it is not free yet. *client: for which quota_close() gives it
 * back then. On its worker. */
void target_quota_let_go(struct target_conn *c, struct quota_client **client);
/** The connection's grants or its authentication have changed: set its rank for eviction. On its
 * worker. */
void target_conn_standing(struct target_conn *c);
/** When the connections of one IPv6 /64 hold many grants, find those that are idle and close
 * those that the quota ends. The program's thread. */
void target_quota_look(struct target *t);

#endif /* WEFT_APPS_TARGET_QUOTA_H */
