/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PORTD_MEMIF_H
#define PORTD_MEMIF_H

/**
 * @file The net_memifs of processes. Each is made when its process comes, and removed when it goes.
 * Control thread; creation and destruction are on the set-up thread.
 */

#include <stdint.h>

#include "portd_proto.h"
#include "portd_socket.h"

struct portd_memif;
struct portd_memifs;
struct rte_mempool;

/** The socket of all net_memifs, at at->memif. max_procs: the most of them. -EIO (one log line),
 * -ENOMEM, and the errors of portd_socket_share(). */
int portd_memifs_create(uint32_t max_procs, uint16_t mtu_bytes, const struct portd_socket *at,
                        struct portd_memifs **out);
/** All net_memifs are closed. NULL is allowed. */
void portd_memifs_destroy(struct portd_memifs *all);

/** Makes the server's end for process `proc`, with a secret that was not used before. `pool` is for
 * what it receives. -EIO (one log line), -ENOMEM. */
int portd_memif_open(struct portd_memifs *all, uint32_t proc, struct rte_mempool *pool,
                     struct portd_memif **out);
uint16_t portd_memif_port_id(const struct portd_memif *m);
/** Writes what the process needs to join. */
void portd_memif_say(const struct portd_memif *m, struct portd_answer *a);
/** Ends the connection of this net_memif, whose process may live on, and removes the device. Takes
 * some milliseconds, and waits for EAL's interrupt thread, as portd_memif_open() does. The polling
 * thread does not use the device any more. NULL is allowed. */
void portd_memif_close(struct portd_memif *m);

#endif /* PORTD_MEMIF_H */
