/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_HOLDOFF_H
#define WEFT_APPS_HOLDOFF_H

/**
 * @file
 * Who failed to show who it is has to wait before it may try again: some tries are free, then each doubles the
 * time. By address, an IPv6 /64 counting as one unless it is link-local, as at listeners (weft_listen_attr).
 * Any thread.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define HOLDOFF_ENTRIES   256
#define HOLDOFF_FREE      4
#define HOLDOFF_FIRST_NS  1000000000ULL
#define HOLDOFF_MAX_NS    (64 * HOLDOFF_FIRST_NS)
/** So long without a failure, and all is forgotten. */
#define HOLDOFF_FORGET_NS (600 * HOLDOFF_FIRST_NS)

struct holdoff_entry {
	uint8_t host[17]; /**< family and address, the rest zero */
	unsigned int fails; /**< 0: the entry is free */
	uint64_t last_ns, until_ns;
};

/** Zero it, but for lock: PTHREAD_MUTEX_INITIALIZER. */
struct holdoff {
	pthread_mutex_t lock;
	atomic_uint used; /**< entries: nothing is looked up when there are none */
	struct holdoff_entry e[HOLDOFF_ENTRIES];
	atomic_ullong held;     /**< how often holdoff_held() said yes */
	atomic_ullong replaced; /**< addresses that gave way to others before their time, the table being full */
};

/** Whether it has to wait still. */
bool holdoff_held(struct holdoff *h, const struct sockaddr_storage *a, uint64_t now_ns);
void holdoff_failed(struct holdoff *h, const struct sockaddr_storage *a, uint64_t now_ns);
/** It showed who it is: forget its failures. */
void holdoff_passed(struct holdoff *h, const struct sockaddr_storage *a);

#endif /* WEFT_APPS_HOLDOFF_H */
