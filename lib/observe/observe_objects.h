/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OBSERVE_OBJECTS_H
#define OBSERVE_OBJECTS_H

/**
 * @file Commands of telemetry that list objects by number: of verbs (observe_verbs.c), and of
 * netif (observe_net.c). All are of type telemetry_cb. An answer is a dictionary of dictionaries,
 * and `next` is the number to continue with, if there are more.
 */

#include <rte_telemetry.h>

/** WORKER[,FIRST]: QPs with the state of their MPA and RDMAP streams. */
int observe_qps(const char *cmd, const char *params, struct rte_tel_data *d);
/** CONTEXT[,FIRST]: regions, windows, CQs or SRQs, as the command says. */
int observe_objects(const char *cmd, const char *params, struct rte_tel_data *d);
/** CONTEXT: how many objects there are, and may be. */
int observe_context(const char *cmd, const char *params, struct rte_tel_data *d);
/** The names of the drivers. */
int observe_drivers(const char *cmd, const char *params, struct rte_tel_data *d);
/** WORKER: timers and tasks. */
int observe_timers(const char *cmd, const char *params, struct rte_tel_data *d);
/** WORKER,INTERFACE[,FIRST] */
int observe_neighbours(const char *cmd, const char *params, struct rte_tel_data *d);
/** WORKER,INTERFACE[,FIRST] */
int observe_routes(const char *cmd, const char *params, struct rte_tel_data *d);

#endif /* OBSERVE_OBJECTS_H */
