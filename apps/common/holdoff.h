/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_HOLDOFF_H
#define WEFT_APPS_HOLDOFF_H

/**
 * @file An address that failed to show who it is has to wait before it may try again: some tries
 * are free, then each doubles the time. By full address, so that no host keeps its neighbours out.
 * A host can have all addresses of its IPv6 /64, so those have a looser budget together, from which
 * addresses that passed lately are exempt. Link-local addresses have no /64. Every table has a
 * fixed size, and of each a /64 may fill a part only. Any thread.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define HOLDOFF_ENTRIES    256 /**< addresses that failed */
#define HOLDOFF_NETS       64  /**< /64s of such */
#define HOLDOFF_PASSED     256 /**< addresses that passed */
#define HOLDOFF_NET_PART   32  /**< addresses of one /64 in either table */
#define HOLDOFF_FREE       4
#define HOLDOFF_NET_FREE   64
#define HOLDOFF_FIRST_NS   1000000000ULL
#define HOLDOFF_MAX_NS     (64 * HOLDOFF_FIRST_NS)
#define HOLDOFF_NET_MAX_NS (8 * HOLDOFF_FIRST_NS)
/** So long without a failure, and all is forgotten. */
#define HOLDOFF_FORGET_NS (600 * HOLDOFF_FIRST_NS)
/** So long after it passed an address is exempt. */
#define HOLDOFF_LATELY_NS (86400 * HOLDOFF_FIRST_NS)

struct holdoff_entry {
	uint8_t host[17];   /**< family and address, or its /64, the rest zero */
	unsigned int fails; /**< 0: the entry is free; of one that passed: 1 */
	uint64_t last_ns, until_ns;
};

/** Zero it, but for lock: PTHREAD_MUTEX_INITIALIZER. */
struct holdoff {
	pthread_mutex_t lock;
	atomic_uint used; /**< entries of e and net: nothing is looked up when there are none */
	struct holdoff_entry e[HOLDOFF_ENTRIES];
	struct holdoff_entry net[HOLDOFF_NETS];
	struct holdoff_entry passed[HOLDOFF_PASSED]; /**< last_ns: when */
	atomic_ullong held;                          /**< how often holdoff_held() said yes */
	atomic_ullong held_net;                      /**< of these for the /64 alone */
	/** addresses and /64s that gave way to others before their time, the table being full */
	atomic_ullong replaced;
};

/** Whether it has to wait still. */
bool holdoff_held(struct holdoff *h, const struct sockaddr_storage *a, uint64_t now_ns);
void holdoff_failed(struct holdoff *h, const struct sockaddr_storage *a, uint64_t now_ns);
/** It showed who it is: forget its failures, not those of its /64. */
void holdoff_passed(struct holdoff *h, const struct sockaddr_storage *a, uint64_t now_ns);

#endif /* WEFT_APPS_HOLDOFF_H */
