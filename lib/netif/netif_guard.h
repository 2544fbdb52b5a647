/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_GUARD_H
#define NETIF_GUARD_H

/** @file Bursts that may fault (netif_guard.c). */

#include <signal.h>
#include <stdint.h>

struct rte_mbuf;

typedef uint16_t (*netif_burst_fn)(void *arg, struct rte_mbuf **pkts, uint16_t n);

/** Catches faults of guarded bursts from now on. Once per process. */
void netif_guard_install(void);
/** Returns burst(arg, pkts, n), or on_fault after a fault in it, which is counted. A burst may
 * contain another guarded one, whose faults end that one alone. */
uint16_t netif_guard_burst(netif_burst_fn burst, void *arg, struct rte_mbuf **pkts, uint16_t n,
                           uint16_t on_fault, uint64_t *faults);
/** In a signal's handler: the signal is not for it, and goes to the handler before it. */
void netif_guard_pass(const struct sigaction *old, int sig, siginfo_t *si, void *uc);

#endif /* NETIF_GUARD_H */
