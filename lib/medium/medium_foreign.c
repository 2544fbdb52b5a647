/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Detecting writes of other processes to a file that is a medium. The lock (flock) does not
 * prevent them, and neither length nor blocks show them. The kernel reports them in one of two
 * ways:
 *
 * - fanotify tells which process wrote. From Linux 5.13 on every process may use it; containers
 *   often forbid it. Many writes cost no more than one, because equal events are merged.
 * - inotify does not tell which process wrote. So it is of use only to a driver that writes through
 *   a mapping alone, because inotify does not report writes through mappings.
 *
 * The event exists before the writing call returns. It is read whenever something is about to be
 * reported as durable. Not reported are writes of other processes through a mapping or a loop
 * device, and writes on another host of a network file system.
 */

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "medium_priv.h"
#include "weft_medium_file.h"

static int
foreign_fanotify(const char *path)
{
	int fd = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID | FAN_CLOEXEC | FAN_NONBLOCK,
	                       O_RDONLY);

	if (fd < 0)
		return -1;
	if (fanotify_mark(fd, FAN_MARK_ADD, FAN_MODIFY, AT_FDCWD, path) == 0)
		return fd;
	close(fd);
	return -1;
}

static int
foreign_inotify(const char *path)
{
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	if (fd < 0)
		return -1;
	if (inotify_add_watch(fd, path, IN_MODIFY) >= 0)
		return fd;
	close(fd);
	return -1;
}

void
weft_medium_watch(struct weft_medium *md, bool own_writes)
{
	char path[32];

	if (md->block_dev || md->char_dev)
		return;
	pthread_mutex_init(&md->tell_lock, NULL);
	md->own_pid = getpid();
	/* By descriptor, because the name may belong to another file by now. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", md->fd);
	md->tell_fd = foreign_fanotify(path);
	md->tells_pid = md->tell_fd >= 0;
	if (md->tell_fd < 0 && !own_writes)
		md->tell_fd = foreign_inotify(path);
	if (md->tell_fd < 0)
		pthread_mutex_destroy(&md->tell_lock);
}

void
medium_foreign_end(struct weft_medium *md)
{
	if (md->tell_fd < 0)
		return;
	close(md->tell_fd);
	md->tell_fd = -1;
	pthread_mutex_destroy(&md->tell_lock);
}

/** Whether an event of fanotify is of another process. */
static bool
foreign_pids(const struct weft_medium *md, const uint8_t *at, size_t left)
{
	struct fanotify_event_metadata ev;

	for (; left >= sizeof(ev); at += ev.event_len, left -= ev.event_len) {
		memcpy(&ev, at, sizeof(ev));
		if (ev.event_len < sizeof(ev) || ev.event_len > left)
			break;
		/* An overflow is not caused by this process: its own events are merged into one. */
		if ((ev.mask & (FAN_MODIFY | FAN_Q_OVERFLOW)) != 0 && ev.pid != md->own_pid)
			return true;
	}
	return false;
}

static bool
foreign_any(const uint8_t *at, size_t left)
{
	struct inotify_event ev;

	for (; left >= sizeof(ev); at += sizeof(ev) + ev.len, left -= sizeof(ev) + ev.len) {
		memcpy(&ev, at, sizeof(ev));
		if ((ev.mask & (IN_MODIFY | IN_Q_OVERFLOW)) != 0)
			return true;
		if (ev.len > left - sizeof(ev))
			break;
	}
	return false;
}

int
medium_foreign_look(struct weft_medium *md, int status)
{
	uint8_t events[1024];
	int lost;
	ssize_t n;

	if (md->tell_fd < 0)
		return 0;
	/* A thread that finds an event stores the result before another thread finds no event. */
	pthread_mutex_lock(&md->tell_lock);
	while ((n = read(md->tell_fd, events, sizeof(events))) > 0) {
		if (md->tells_pid ? foreign_pids(md, events, (size_t)n)
		                  : foreign_any(events, (size_t)n))
			atomic_store_explicit(&md->lost, status, memory_order_relaxed);
		if ((size_t)n < sizeof(events) / 2)
			break; /* no further events */
	}
	lost = atomic_load_explicit(&md->lost, memory_order_relaxed);
	pthread_mutex_unlock(&md->tell_lock);
	return lost;
}
