/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file What all sources of weft-rbd use: the image, reasons, and requests that threads have ended.
 */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ceph.h"

struct ceph ceph;

static int ceph_event_fd = -1;
static pthread_mutex_t ceph_ended_lock = PTHREAD_MUTEX_INITIALIZER;
static struct serve_req *ceph_ended_first, **ceph_ended_end = &ceph_ended_first;

int
ceph_refuse(struct rbd_hello *h, int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(h->reason, sizeof(h->reason), fmt, ap);
	va_end(ap);
	return status;
}

int
ceph_ended_begin(void)
{
	ceph_event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return ceph_event_fd < 0 ? -errno : 0;
}

int
ceph_ended_fd(void)
{
	return ceph_event_fd;
}

void
ceph_ended(struct serve_req *r)
{
	const uint64_t one = 1;
	bool first;

	pthread_mutex_lock(&ceph_ended_lock);
	first = ceph_ended_first == NULL;
	r->next = NULL;
	*ceph_ended_end = r;
	ceph_ended_end = &r->next;
	pthread_mutex_unlock(&ceph_ended_lock);
	if (first)
		(void)!write(ceph_event_fd, &one, sizeof(one));
}

struct serve_req *
ceph_ended_take(void)
{
	struct serve_req *first;
	uint64_t count;

	(void)!read(ceph_event_fd, &count, sizeof(count));
	pthread_mutex_lock(&ceph_ended_lock);
	first = ceph_ended_first;
	ceph_ended_first = NULL;
	ceph_ended_end = &ceph_ended_first;
	pthread_mutex_unlock(&ceph_ended_lock);
	return first;
}
