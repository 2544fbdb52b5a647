/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OBSERVE_PRIV_H
#define OBSERVE_PRIV_H

/** @file What the sources of lib/observe share among themselves. */

#include <pthread.h>

#include "weft_engine.h"
#include "weft_handle.h"

WEFT_LOG_DECLARE(observe);

struct rte_tel_data;

/** Telemetry answers for ctx from now on, or no longer. -ENOMEM. */
int observe_telemetry_add(struct weft_ctx *ctx);
void observe_telemetry_del(struct weft_ctx *ctx);
/** What a telemetry command returns to DPDK: of a failure (rc < 0) an answer that says why. */
int observe_answer(int rc, struct rte_tel_data *d);
/** End the capture of a port that is about to be closed, if there is one. */
void observe_capture_end(struct weft_port *port);

#endif /* OBSERVE_PRIV_H */
