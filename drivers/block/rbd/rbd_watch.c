/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The thread that watches the process of a device.
 *
 * It sleeps until the process ends, changes its page, or is to be killed. When the process has
 * ended, requests that change nothing end with an error at once. Those that may change the image
 * do not: what the process has sent may still be on its way. The thread has the cluster blocklist
 * the process's client, and tries that again until it has succeeded. Then they end, too.
 */

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rbd_priv.h"

WEFT_LOG_DECLARE(medium);

#define RBD_AGAIN_MS   1000 /**< between two attempts to blocklist */
#define RBD_GIVE_UP_MS 100  /**< between two looks at what a fenced device still has */
#define RBD_GIVE_UPS   20   /**< so many looks, then the process is killed */

static void
rbd_wake(int fd)
{
	const uint64_t one = 1;

	(void)!write(fd, &one, sizeof(one));
}

static void
rbd_drain(int fd)
{
	uint64_t n;

	(void)!read(fd, &n, sizeof(n));
}

void
rbd_fail(struct rbd_disk *d, const char *why)
{
	const char *none = NULL;

	if (atomic_compare_exchange_strong_explicit(&d->fail, &none, why, memory_order_acq_rel,
	                                            memory_order_relaxed))
		rbd_wake(d->wake_fd);
}

void
rbd_give_up(struct rbd_disk *d)
{
	if (!atomic_exchange_explicit(&d->give_up, true, memory_order_acq_rel))
		rbd_wake(d->wake_fd);
}

/** A new phase: wake every channel. */
static void
rbd_enter(struct rbd_disk *d, enum rbd_phase phase)
{
	atomic_store_explicit(&d->phase, phase, memory_order_seq_cst);
	pthread_mutex_lock(&d->chan_lock);
	for (unsigned int i = 0; i < RBD_MAX_CHANS; i++)
		if (d->chan[i] != NULL)
			rbd_wake(d->chan[i]->bell_fd);
	pthread_mutex_unlock(&d->chan_lock);
}

/** What the page says becomes the device's state. dead: the process has ended. */
static void
rbd_tell(struct rbd_disk *d, bool dead)
{
	uint64_t bytes = atomic_load_explicit(&d->page->bytes, memory_order_acquire) & ~511ULL;
	int status = atomic_load_explicit(&d->page->status, memory_order_acquire);

	if (status != 0 && status != -ESHUTDOWN)
		status = -EIO;
	if (dead && status == 0)
		status = -EIO;
	weft_block_set_state(d->block, RTE_MIN(bytes, d->most_bytes), status);
}

/** Sleep until something happens, `ms` at most (-1: no limit). */
static void
rbd_sleep(struct rbd_disk *d, int ms)
{
	struct pollfd p[3] = {{.fd = d->wake_fd, .events = POLLIN},
	                      {.fd = d->event_fd, .events = POLLIN},
	                      {.fd = d->proc.pidfd, .events = POLLIN}};

	if (poll(p, 3, ms) <= 0)
		return;
	if (p[0].revents != 0)
		rbd_drain(d->wake_fd);
	if (p[1].revents != 0) {
		rbd_drain(d->event_fd);
		rbd_tell(d, false);
	}
}

/** Until the process has ended, or the watcher is to stop. Returns whether it has ended. */
static bool
rbd_watch_life(struct rbd_disk *d)
{
	unsigned int looks = 0;
	bool said = false;
	int status;

	while (!atomic_load_explicit(&d->stop, memory_order_acquire)) {
		bool give_up = atomic_load_explicit(&d->give_up, memory_order_acquire);
		const char *why;

		rbd_sleep(d, give_up ? RBD_GIVE_UP_MS : -1);
		if (give_up && atomic_load_explicit(&d->changing, memory_order_acquire) == 0) {
			atomic_store_explicit(&d->give_up, false, memory_order_release);
			looks = 0;
		} else if (give_up && ++looks == RBD_GIVE_UPS)
			rbd_fail(d, "it was fenced, and the cluster does not end its requests");
		why = atomic_load_explicit(&d->fail, memory_order_acquire);
		if (why != NULL && !said)
			WEFT_LOG(medium, ERR, "%s: %s: weft-rbd (process %d) is killed", d->path,
			         why, d->proc.pid);
		said = why != NULL;
		if (said)
			rbd_kill(&d->proc);
		if (rbd_wait_exit(&d->proc, 0, &status) == 0)
			return true;
	}
	return false;
}

static void *
rbd_watch_main(void *arg)
{
	struct rbd_disk *d = arg;
	bool said = false;
	int r;

	if (!rbd_watch_life(d))
		return NULL;
	WEFT_LOG(medium, ERR,
	         "%s: weft-rbd (process %d) has ended; its client %s is to be "
	         "blocklisted",
	         d->path, d->proc.pid, d->hello.address);
	rbd_tell(d, true);
	rbd_enter(d, RBD_DEAD);
	while ((r = rbd_blocklist(d)) != 0 &&
	       !atomic_load_explicit(&d->stop, memory_order_acquire)) {
		struct pollfd p = {.fd = d->wake_fd, .events = POLLIN};

		if (!said)
			WEFT_LOG(medium, ERR,
			         "%s: client %s cannot be blocklisted (%s): "
			         "its writes stay under way",
			         d->path, d->hello.address, strerror(-r));
		said = true;
		if (poll(&p, 1, RBD_AGAIN_MS) > 0)
			rbd_drain(d->wake_fd);
	}
	if (r == 0) {
		WEFT_LOG(medium, NOTICE, "%s: client %s is blocklisted", d->path, d->hello.address);
		rbd_enter(d, RBD_FENCED);
	}
	return NULL;
}

int
rbd_watch(struct rbd_disk *d)
{
	sigset_t all, old;
	int r;

	d->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (d->wake_fd < 0)
		return -errno;
	/* Signals are for the program's threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&d->watcher, NULL, rbd_watch_main, d);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	d->watched = r == 0;
	return -r;
}

void
rbd_unwatch(struct rbd_disk *d)
{
	if (d->watched) {
		atomic_store_explicit(&d->stop, true, memory_order_release);
		rbd_wake(d->wake_fd);
		pthread_join(d->watcher, NULL);
	}
	d->watched = false;
	if (d->wake_fd >= 0)
		close(d->wake_fd);
	d->wake_fd = -1;
}
