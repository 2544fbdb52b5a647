/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The loop of the process: channels, calls of the driver, results of the backend, sleep. */

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve.h"

#define SERVE_END_S  30 /**< longest end; then the kernel ends the process (SIGALRM) */
#define SERVE_END_MS 100
#define SERVE_TURNS  16

static struct rbd_page *serve_page;
static struct serve_chan *serve_chans; /**< those that are closed included */

int
serve_begin(void)
{
	void *p = mmap(NULL, RBD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, RBD_FD_PAGE, 0);

	if (p == MAP_FAILED)
		return -errno;
	serve_page = p;
	return 0;
}

void
serve_tell(uint64_t bytes, int status)
{
	const uint64_t one = 1;
	int32_t none = 0;

	if (bytes != 0)
		atomic_store_explicit(&serve_page->bytes, bytes, memory_order_release);
	if (status != 0)
		atomic_compare_exchange_strong_explicit(&serve_page->status, &none, status,
		                                        memory_order_release, memory_order_relaxed);
	(void)!write(RBD_FD_EVENT, &one, sizeof(one));
}

int
serve_hello(const struct rbd_hello *h)
{
	return send(RBD_FD_CALL, h, sizeof(*h), MSG_NOSIGNAL) == (ssize_t)sizeof(*h) ? 0 : -EPIPE;
}

/** Free channels that are closed, and have nothing under way. */
static void
serve_sweep(void)
{
	struct serve_chan **at = &serve_chans, *c;

	while ((c = *at) != NULL) {
		if (c->closed && c->under_way == 0) {
			*at = c->next;
			serve_chan_free(c);
		} else {
			at = &c->next;
		}
	}
}

static void
serve_close_chan(uint32_t number)
{
	for (struct serve_chan *c = serve_chans; c != NULL; c = c->next)
		if (c->number == number)
			c->closed = true;
}

static void
serve_answer(const struct rbd_call *call, int status)
{
	const struct rbd_answer a = {.what = call->what, .chan = call->chan, .status = status};

	(void)send(RBD_FD_CALL, &a, sizeof(a), MSG_NOSIGNAL);
}

static void
serve_open_chan(const struct rbd_call *call, const int fds[3])
{
	struct serve_chan *c = NULL;

	serve_close_chan(call->chan);
	if (fds[0] >= 0 && fds[1] >= 0 && fds[2] >= 0)
		c = serve_chan_new(call, fds);
	if (c == NULL) {
		for (unsigned int i = 0; i < 3; i++)
			if (fds[i] >= 0)
				close(fds[i]);
	} else {
		c->next = serve_chans;
		serve_chans = c;
	}
	serve_answer(call, c == NULL ? -ENOMEM : 0);
}

/** Receive one call. Returns false when the driver has closed, with the call RBD_CLOSE or its
 * socket. */
static bool
serve_call(bool *close_called)
{
	union {
		struct cmsghdr h;
		uint8_t room[CMSG_SPACE(3 * sizeof(int))];
	} control;
	struct rbd_call call;
	struct iovec iov = {&call, sizeof(call)};
	struct msghdr m = {.msg_iov = &iov,
	                   .msg_iovlen = 1,
	                   .msg_control = &control,
	                   .msg_controllen = sizeof(control)};
	int fds[3] = {-1, -1, -1};
	ssize_t n = recvmsg(RBD_FD_CALL, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	const struct cmsghdr *h;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n != (ssize_t)sizeof(call))
		return false;
	h = CMSG_FIRSTHDR(&m);
	if (h != NULL && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS)
		memcpy(fds, CMSG_DATA(h),
		       h->cmsg_len - CMSG_LEN(0) < sizeof(fds) ? h->cmsg_len - CMSG_LEN(0)
		                                               : sizeof(fds));
	switch (call.what) {
	case RBD_CHAN_OPEN:
		serve_open_chan(&call, fds);
		return true;
	case RBD_CHAN_CLOSE:
		serve_close_chan(call.chan);
		return true;
	default:
		*close_called = true;
		return false;
	}
}

static void
serve_tell_all(void)
{
	for (struct serve_chan *c = serve_chans; c != NULL; c = c->next)
		serve_chan_tell(c);
}

/** Take requests of all channels. Returns whether there was one. */
static bool
serve_take_all(const struct serve_backend *b)
{
	bool some = false;

	for (struct serve_chan *c = serve_chans; c != NULL; c = c->next)
		if (!c->closed)
			some |= serve_chan_take(c, b);
	return some;
}

/** Sleep until there is something to do. Returns whether the driver has called. */
static bool
serve_sleep(const struct serve_backend *b)
{
	static struct pollfd p[2 * RBD_MAX_CHANS + 2];
	unsigned int n = 2;
	bool idle = true;

	p[0] = (struct pollfd){.fd = RBD_FD_CALL, .events = POLLIN};
	p[1] = (struct pollfd){.fd = b->fd, .events = POLLIN};
	for (struct serve_chan *c = serve_chans; c != NULL; c = c->next) {
		if (c->closed)
			continue;
		idle &= serve_chan_sleep(c);
		p[n++] = (struct pollfd){.fd = c->kick_fd, .events = POLLIN};
	}
	(void)poll(p, n, idle ? -1 : 0);
	for (struct serve_chan *c = serve_chans; c != NULL; c = c->next)
		serve_chan_wake(c);
	return p[0].revents != 0;
}

/** Wait for what is under way. */
static void
serve_drain(const struct serve_backend *b)
{
	uint32_t left = 1;

	while (left > 0) {
		struct pollfd p = {.fd = b->fd, .events = POLLIN};

		b->poll();
		left = 0;
		for (const struct serve_chan *c = serve_chans; c != NULL; c = c->next)
			left += c->under_way;
		if (left > 0)
			(void)poll(&p, 1, SERVE_END_MS);
	}
}

int
serve(const struct serve_backend *b)
{
	bool close_called = false;
	unsigned int turns = 0;

	for (;;) {
		bool some = serve_take_all(b);

		b->poll();
		serve_tell_all();
		serve_sweep();
		/* The driver's calls have their turn under load, too. */
		if (some && ++turns % SERVE_TURNS != 0)
			continue;
		if (serve_sleep(b) && !serve_call(&close_called))
			break;
	}
	/* A cluster that does not answer must not keep the process. */
	(void)alarm(SERVE_END_S);
	serve_drain(b);
	/*
	 * A process that gives the lock back says that nothing of it is under way. With the lock
	 * left behind, the next opener finds an owner that is dead, and has the cluster refuse what
	 * is late.
	 */
	if (serve_in_doubt())
		_exit(1);
	b->close();
	if (close_called) {
		const struct rbd_call call = {.what = RBD_CLOSE};

		serve_answer(&call, 0);
	}
	return 0;
}
