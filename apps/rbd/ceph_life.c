/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file What happens to an image that has no requests: another client takes it over, or its length
 * changes. A thread asks the cluster once a second, because a client that is idle is told nothing.
 */

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ceph.h"

#define CEPH_LOOK_MS 1000

static pthread_t ceph_looker;
static bool ceph_looks;
static atomic_bool ceph_look_stop;
static int ceph_look_fd = -1;
static uint64_t ceph_watch;
static uint64_t ceph_told; /**< the length that the driver was told last, at the beginning */

static void
ceph_look_now(void *arg)
{
	const uint64_t one = 1;

	(void)arg;
	(void)!write(ceph_look_fd, &one, sizeof(one));
}

/** Whether the cluster has blocklisted this client. */
static bool
ceph_is_out(void)
{
	int owner = 0;
	int r = rbd_is_exclusive_lock_owner(ceph.image, &owner);

	/* Of a client that is blocklisted librbd 1.16 returns 0, and the error as the answer. */
	return r == -ESHUTDOWN || owner == -ESHUTDOWN;
}

static void *
ceph_look_main(void *arg)
{
	uint64_t bytes = ceph_told, now, n;

	(void)arg;
	while (!atomic_load_explicit(&ceph_look_stop, memory_order_acquire)) {
		struct pollfd p = {.fd = ceph_look_fd, .events = POLLIN};

		if (poll(&p, 1, CEPH_LOOK_MS) > 0)
			(void)!read(ceph_look_fd, &n, sizeof(n));
		if (atomic_load_explicit(&ceph_look_stop, memory_order_acquire))
			break;
		if (rbd_get_size(ceph.image, &now) == 0 && now != bytes) {
			bytes = now;
			serve_tell(bytes, 0);
		}
		if (!ceph.read_only && ceph_is_out())
			serve_tell(0, -ESHUTDOWN);
	}
	return NULL;
}

int
ceph_life_begin(uint64_t bytes)
{
	int r;

	ceph_told = bytes;

	ceph_look_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ceph_look_fd < 0)
		return -errno;
	r = rbd_update_watch(ceph.image, &ceph_watch, ceph_look_now, NULL);
	if (r < 0)
		return r;
	r = -pthread_create(&ceph_looker, NULL, ceph_look_main, NULL);
	ceph_looks = r == 0;
	return r;
}

void
ceph_life_end(void)
{
	if (!ceph_looks)
		return;
	atomic_store_explicit(&ceph_look_stop, true, memory_order_release);
	ceph_look_now(NULL);
	pthread_join(ceph_looker, NULL);
	(void)rbd_update_unwatch(ceph.image, ceph_watch);
	ceph_looks = false;
}
