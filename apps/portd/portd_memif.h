/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PORTD_MEMIF_H
#define PORTD_MEMIF_H

/** @file The net_memif of a process: made when it comes, removed when it goes. Control thread. */

#include <stdint.h>

#include "portd_proto.h"

struct portd_memif;
struct rte_mempool;

/**
 * Makes the server's end, with a name and a secret that were not used before, for one client.
 * `pool` is for what it receives. -EIO (one log line), -ENOMEM.
 */
int portd_memif_open(uint32_t proc, uint16_t mtu_bytes, struct rte_mempool *pool,
                     struct portd_memif **out);
uint16_t portd_memif_port_id(const struct portd_memif *m);
/** Writes what the process needs to join. */
void portd_memif_say(const struct portd_memif *m, struct portd_answer *a);
/** Ends the process' connection, and removes the device. Takes some 50 ms, at most half a second.
 * The polling thread does not use the device any more. NULL is allowed. */
void portd_memif_close(struct portd_memif *m);

#endif /* PORTD_MEMIF_H */
