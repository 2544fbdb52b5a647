/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file "uring": an ordinary file or a block device, by direct I/O. Reads and writes go by
 * io_uring, everything else by helper threads of the channel.
 */

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <unistd.h>

#include "uring_priv.h"

WEFT_LOG_DECLARE(medium);

#define URING_HELPERS         2 /**< beside a ring: a flush does not wait for a discard */
#define URING_HELPERS_NO_RING 4

static void
uring_close(struct weft_block *b)
{
	struct uring_disk *d = b->priv;

	/* No request is under way. The description itself may be closed a little later. */
	(void)flock(d->md.fd, LOCK_UN);
	weft_medium_close(&d->md);
	pthread_mutex_destroy(&d->snap_lock);
	free(d);
}

/** The option "io", and what the kernel permits. */
static int
uring_choose(struct uring_disk *d, const struct weft_block_attr *attr)
{
	static atomic_bool said;
	char value[8];
	int r = weft_block_option(attr, "io", value, sizeof(value));

	if (r == -ENOENT)
		strcpy(value, "auto");
	else if (r < 0)
		value[0] = '\0';
	d->insist = strcmp(value, "uring") == 0;
	d->threads = strcmp(value, "threads") == 0;
	if (!d->insist && !d->threads && strcmp(value, "auto") != 0)
		return weft_block_refuse(attr, -EINVAL, "option io: auto, uring or threads");
	if (d->threads)
		return 0;
	r = uring_ring_probe();
	if (r != 0 && d->insist)
		return weft_block_refuse(attr, -ENOTSUP, "io_uring cannot be used: %s",
		                         strerror(-r));
	if (r != 0 && !atomic_exchange_explicit(&said, true, memory_order_relaxed))
		WEFT_LOG(medium, WARNING,
		         "io_uring cannot be used (%s): block devices use helper threads",
		         strerror(-r));
	d->threads = r != 0;
	return 0;
}

static int
uring_open(struct weft_block *b, const struct weft_block_attr *attr, uint64_t *bytes)
{
	struct uring_disk *d = calloc(1, sizeof(*d));
	int r;

	if (d == NULL)
		return -ENOMEM;
	r = uring_choose(d, attr);
	if (r == 0)
		r = uring_open_medium(d, b, attr, bytes);
	if (r != 0) {
		free(d);
		return r;
	}
	pthread_mutex_init(&d->snap_lock, NULL);
	b->priv = d;
	return 0;
}

static void
uring_check(struct weft_block *b)
{
	(void)uring_look(b);
}

static int
uring_mem_add(struct weft_block *b, void *base, uint64_t bytes)
{
	struct uring_disk *d = b->priv;

	if (d->nmem == URING_MAX_MEM)
		return -ENOSPC;
	d->mem[d->nmem++] = (struct iovec){base, bytes};
	return 0;
}

static void
uring_chan_free(struct uring_chan *c)
{
	uring_ring_close(c->ring);
	weft_exec_destroy(c->exec);
	if (c->fd >= 0)
		close(c->fd);
	free(c);
}

/** One descriptor for the ring and the executor; none of a channel that waits. */
static int
uring_chan_fds(struct uring_chan *c)
{
	struct epoll_event in = {.events = EPOLLIN};

	if (weft_exec_fd(c->exec) < 0)
		return 0;
	c->fd = epoll_create1(EPOLL_CLOEXEC);
	if (c->fd < 0 || epoll_ctl(c->fd, EPOLL_CTL_ADD, weft_exec_fd(c->exec), &in) != 0)
		return -errno;
	if (c->ring != NULL && epoll_ctl(c->fd, EPOLL_CTL_ADD, uring_ring_fd(c->ring), &in) != 0)
		return -errno;
	return 0;
}

static int
uring_chan_open(struct weft_block_chan *chan)
{
	struct uring_disk *d = chan->block->priv;
	struct uring_chan *c = calloc(1, sizeof(*c));
	int r;

	if (c == NULL)
		return -ENOMEM;
	c->disk = d;
	c->fd = -1;
	/* A channel of one request: a ring with registered memory, and threads, take milliseconds.
	 */
	if (chan->waits)
		r = weft_exec_create(0, &c->exec);
	else
		r = weft_exec_create_on_demand(d->threads ? URING_HELPERS_NO_RING : URING_HELPERS,
		                               &c->exec);
	if (r == 0 && !d->threads && !chan->waits)
		r = uring_ring_open(c, chan->depth, &c->ring, &chan->registered);
	if (r == 0)
		r = uring_chan_fds(c);
	if (r != 0) {
		uring_chan_free(c);
		return r;
	}
	chan->priv = c;
	return 0;
}

static void
uring_chan_close(struct weft_block_chan *chan)
{
	uring_chan_free(chan->priv);
}

static int
uring_submit(struct weft_block_chan *chan, struct weft_block_req *req)
{
	struct uring_chan *c = chan->priv;

	*uring_req_of(req) = (struct uring_req){.status = 0};
	if (c->ring != NULL && (req->op == WEFT_BLOCK_READ || req->op == WEFT_BLOCK_WRITE))
		return uring_ring_add(c->ring, req);
	return uring_help(c, req);
}

static void
uring_poll(struct weft_block_chan *chan, uint64_t now_ns)
{
	struct uring_chan *c = chan->priv;

	RTE_SET_USED(now_ns);
	if (c->ring != NULL)
		uring_ring_poll(c);
	weft_exec_poll(c->exec);
}

static void
uring_cancel(struct weft_block_chan *chan, struct weft_block_req *req)
{
	struct uring_chan *c = chan->priv;

	if (c->ring != NULL && (req->op == WEFT_BLOCK_READ || req->op == WEFT_BLOCK_WRITE))
		uring_ring_cancel(c->ring, req);
}

static int
uring_fd(const struct weft_block_chan *chan)
{
	return ((const struct uring_chan *)chan->priv)->fd;
}

static uint64_t
uring_next_ns(const struct weft_block_chan *chan)
{
	const struct uring_chan *c = chan->priv;

	return c->ring != NULL && uring_ring_has_more(c->ring) ? 0 : UINT64_MAX;
}

static const char *const uring_options[] = {"block", "io", NULL};

static const struct weft_block_ops uring_ops = {
        .name = "uring",
        .options = uring_options,
        .open = uring_open,
        .close = uring_close,
        .check = uring_check,
        .mem_add = uring_mem_add,
        .chan_open = uring_chan_open,
        .chan_close = uring_chan_close,
        .submit = uring_submit,
        .poll = uring_poll,
        .cancel = uring_cancel,
        .fd = uring_fd,
        .next_ns = uring_next_ns,
};

WEFT_BLOCK_REGISTER(uring, uring_ops)
