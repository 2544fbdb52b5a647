/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OBSERVE_PRIV_H
#define OBSERVE_PRIV_H

/** @file Functions that the sources of lib/observe share. */

#include <pthread.h>

#include "weft_engine.h"
#include "weft_handle.h"

WEFT_LOG_DECLARE(observe);

struct rte_tel_data;

/** Show ctx in telemetry from now on. 0, or -ENOMEM. */
int observe_telemetry_add(struct weft_ctx *ctx);
/** Show ctx in telemetry no longer. */
void observe_telemetry_del(struct weft_ctx *ctx);
/** The return value of a telemetry command for DPDK. On an error (rc < 0) the answer in d becomes
 * its reason. */
int observe_answer(int rc, struct rte_tel_data *d);
/** End the capture of a port that is about to be closed, if there is one. */
void observe_capture_end(struct weft_port *port);

#endif /* OBSERVE_PRIV_H */
