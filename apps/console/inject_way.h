/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_INJECT_WAY_H
#define WEFT_CONSOLE_INJECT_WAY_H

/** @file How packets of a port come to its faults: those that arrive, and those that leave. */

#include "inject_queue.h"

/** Faults of the n receive queues of an ethdev port from now on. 0; -errno: of none. Main thread.
 */
int inject_rx_on(uint16_t port_id, struct inject_queue *queues, uint16_t n);
/** Not any more. A burst that runs now may still use the queues. */
void inject_rx_off(uint16_t port_id, struct inject_queue *queues, uint16_t n);
/** After inject_rx_off(), when no burst runs any more. */
void inject_rx_free(struct inject_queue *queues, uint16_t n);

/** The same of its transmit queues. -EBUSY: something else than the driver sends already; -ENOMEM.
 */
int inject_tx_on(uint16_t port_id, struct inject_queue *queues, uint16_t n);
void inject_tx_off(uint16_t port_id);
void inject_tx_free(uint16_t port_id);

#endif /* WEFT_CONSOLE_INJECT_WAY_H */
