/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_HOLDOFF_H
#define WEFT_APPS_HOLDOFF_H

/**
 * @file The wait that failed authentication imposes on an address. Some failures are free, then
 * each one doubles the time. Full addresses are counted, so that no host locks out its neighbours.
 * A host can use every address of its IPv6 /64, so the addresses of a /64 also share a looser
 * budget; addresses that passed within HOLDOFF_LATELY_NS are exempt from that one. Link-local
 * addresses have no /64. Every table has a fixed size, and a /64 may fill only a part of it. Any
 * thread.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define HOLDOFF_ENTRIES    256 /**< addresses that failed */
#define HOLDOFF_NETS       64  /**< /64s of addresses that failed */
#define HOLDOFF_PASSED     256 /**< addresses that passed */
#define HOLDOFF_NET_PART   32  /**< addresses of one /64 in either table */
#define HOLDOFF_FREE       4
#define HOLDOFF_NET_FREE   64
#define HOLDOFF_FIRST_NS   1000000000ULL
#define HOLDOFF_MAX_NS     (64 * HOLDOFF_FIRST_NS)
#define HOLDOFF_NET_MAX_NS (8 * HOLDOFF_FIRST_NS)
/** Failures are forgotten after this time without another one. */
#define HOLDOFF_FORGET_NS (600 * HOLDOFF_FIRST_NS)
/** An address that passed is exempt for this time. */
#define HOLDOFF_LATELY_NS (86400 * HOLDOFF_FIRST_NS)

struct holdoff_entry {
	uint8_t host[17];   /**< family and address, or family and /64; the rest is zero */
	unsigned int fails; /**< 0: the entry is free; 1 in the table of addresses that passed */
	uint64_t last_ns, until_ns;
};

/** Initialise it with zeros, and the lock with PTHREAD_MUTEX_INITIALIZER. */
struct holdoff {
	pthread_mutex_t lock;
	/** Used entries of e and net; 0 saves the look-up. Changed under the lock. Relaxed, as the
	 * counters: what another thread counts at this moment holds from the next look on. */
	atomic_uint used;
	struct holdoff_entry e[HOLDOFF_ENTRIES];
	struct holdoff_entry net[HOLDOFF_NETS];
	struct holdoff_entry passed[HOLDOFF_PASSED]; /**< last_ns: when it passed */
	atomic_ullong held;                          /**< times that holdoff_held() was true */
	/** of these, times that only the /64 had to wait */
	atomic_ullong held_net;
	/** entries of addresses and /64s that were replaced early because the table was full */
	atomic_ullong replaced;
};

/** Whether the address still has to wait. */
bool holdoff_held(struct holdoff *h, const struct sockaddr_storage *a, uint64_t now_ns);
void holdoff_failed(struct holdoff *h, const struct sockaddr_storage *a, uint64_t now_ns);
/** The address has authenticated: forget its failures, but not those of its /64. */
void holdoff_passed(struct holdoff *h, const struct sockaddr_storage *a, uint64_t now_ns);

#endif /* WEFT_APPS_HOLDOFF_H */
