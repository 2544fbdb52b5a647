/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Channels of block devices: open, close, sleep, and a request with a wait.
 */

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "medium_block_priv.h"
#include <weft/ulp.h>

#define BLOCK_HELD_NS 100000 /**< time between two looks at other channels' flushes */
#define BLOCK_WAIT_MS 100    /**< longest sleep of weft_block_wait() between two polls */

static_assert(offsetof(struct block_chan, pub) == 0 &&
                      offsetof(struct weft_block_chan, handle) == 0 &&
                      sizeof(((struct weft_block_chan *)0)->handle) == sizeof(struct weft_handle),
              "a channel begins with its handle");

/** Enter the channel into the device's list. */
static int
block_chan_add(struct block_dev *d, struct block_chan *c)
{
	int r = 0;

	pthread_mutex_lock(&d->lock);
	if (atomic_load_explicit(&d->fenced, memory_order_relaxed))
		r = -ESHUTDOWN;
	else if (d->nchans == d->max_chans)
		r = -ENOSPC;
	if (r == 0) {
		c->changes = atomic_load_explicit(&d->changes, memory_order_relaxed);
		c->lost_flushes = atomic_load_explicit(&d->lost_flushes, memory_order_relaxed);
		c->next_chan = d->chans;
		d->chans = c;
		d->nchans++;
	}
	pthread_mutex_unlock(&d->lock);
	return r;
}

static void
block_keep_count(_Atomic uint64_t *sum, const _Atomic uint64_t *n)
{
	block_add(sum, atomic_load_explicit(n, memory_order_relaxed));
}

/** Take the channel out of the list, and keep its counters. */
static void
block_chan_del(struct block_dev *d, struct block_chan *c)
{
	struct block_chan **at;
	uint64_t max_ns = atomic_load_explicit(&c->count.max_ns, memory_order_relaxed);

	pthread_mutex_lock(&d->lock);
	for (at = &d->chans; *at != c; at = &(*at)->next_chan)
		;
	*at = c->next_chan;
	d->nchans--;
	for (unsigned int i = 0; i < WEFT_BLOCK_OPS; i++) {
		block_keep_count(&d->closed.requests[i], &c->count.requests[i]);
		block_keep_count(&d->closed.errors[i], &c->count.errors[i]);
		block_keep_count(&d->closed.octets[i], &c->count.octets[i]);
	}
	block_keep_count(&d->closed.late, &c->count.late);
	block_keep_count(&d->closed.merged, &c->count.merged);
	if (max_ns > atomic_load_explicit(&d->closed.max_ns, memory_order_relaxed))
		atomic_store_explicit(&d->closed.max_ns, max_ns, memory_order_relaxed);
	pthread_mutex_unlock(&d->lock);
}

static int
block_chan_open(struct weft_block *b, const struct weft_block_chan_attr *attr, bool waits,
                struct weft_block_chan **out)
{
	struct block_dev *d = block_dev_of(b);
	struct weft_block_chan_attr a;
	struct block_chan *c;
	int r = weft_attr_copy(&a, sizeof(a), attr);

	if (WEFT_HANDLE_BAD(b, BLOCK) || r < 0 || out == NULL || a.depth > BLOCK_MAX_DEPTH)
		return -EINVAL;
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return -ENOMEM;
	c->pub.block = b;
	c->pub.depth = a.depth == 0 ? BLOCK_DFLT_DEPTH : a.depth;
	c->pub.owner = a.owner;
	c->pub.waits = waits;
	c->event = a.event;
	c->deadline_ns = UINT64_MAX;
	atomic_store_explicit(&c->oldest_ns, UINT64_MAX, memory_order_relaxed);
	r = block_chan_add(d, c);
	if (r == 0 && b->ops->chan_open != NULL) {
		r = b->ops->chan_open(&c->pub);
		if (r != 0)
			block_chan_del(d, c);
	}
	if (r != 0) {
		free(c);
		return r;
	}
	weft_handle_init(WEFT_HANDLE_OF(c), WEFT_KIND(BLOCK_CHAN));
	*out = &c->pub;
	return 0;
}

int
weft_block_chan_open(struct weft_block *b, const struct weft_block_chan_attr *attr,
                     struct weft_block_chan **out)
{
	return block_chan_open(b, attr, false, out);
}

int
weft_block_chan_close(struct weft_block_chan *chan)
{
	struct block_chan *c = block_chan_of(chan);

	if (chan == NULL)
		return 0;
	if (WEFT_HANDLE_CLAIM(chan, BLOCK_CHAN) < 0)
		return -EINVAL;
	for (unsigned int i = 0; i < BLOCK_WHERES; i++) {
		if (c->list[i].n > 0 || c->in_poll) {
			weft_handle_unclaim(WEFT_HANDLE_OF(c), WEFT_KIND(BLOCK_CHAN));
			return -EBUSY;
		}
	}
	if (chan->block->ops->chan_close != NULL)
		chan->block->ops->chan_close(chan);
	block_chan_del(block_dev_of_chan(c), c);
	weft_handle_end(WEFT_HANDLE_OF(c), WEFT_KIND(BLOCK_CHAN));
	weft_handle_free(WEFT_HANDLE_OF(c), sizeof(struct weft_handle));
	return 0;
}

int
weft_block_chan_fd(const struct weft_block_chan *chan)
{
	if (WEFT_HANDLE_BAD(chan, BLOCK_CHAN))
		return -1;
	return chan->block->ops->fd != NULL ? chan->block->ops->fd(chan) : -1;
}

uint64_t
weft_block_next_ns(const struct weft_block_chan *chan)
{
	const struct block_chan *c = block_chan_of(chan);
	const struct weft_block_ops *ops;
	uint64_t next;

	if (WEFT_HANDLE_BAD(chan, BLOCK_CHAN))
		return UINT64_MAX;
	ops = chan->block->ops;
	next = c->deadline_ns;
	/* A request that waits although there is room for it was refused by the driver: nothing
	 * tells when that changes. */
	if (c->list[BLOCK_FINISHED].n > 0 || c->list[BLOCK_OVERDUE].n > 0 ||
	    (c->list[BLOCK_WAITING].n > 0 && block_with_driver(c) < chan->depth))
		return 0;
	/* A flush that is held waits for another channel, which tells this one nothing. */
	if (c->list[BLOCK_HELD].n > 0)
		next = RTE_MIN(next, c->now_ns + BLOCK_HELD_NS);
	if (ops->fd == NULL && ops->next_ns == NULL && block_with_driver(c) > 0)
		return 0;
	if (ops->next_ns != NULL)
		next = RTE_MIN(next, ops->next_ns(chan));
	return next;
}

static void
block_wait_done(struct weft_block_req *req)
{
	*(bool *)req->owner = true;
}

int
weft_block_wait(struct weft_block *b, struct weft_block_req *req)
{
	struct weft_block_chan_attr attr = {.size = sizeof(attr), .depth = 1};
	const struct timespec nap = {.tv_nsec = 50000};
	struct weft_block_chan *c;
	struct weft_block_req mine;
	uint64_t now_ns = 0; /* no clock: the waits that were asked for */
	bool done = false;
	int r;

	if (req == NULL)
		return -EINVAL;
	r = block_chan_open(b, &attr, true, &c);
	if (r != 0)
		return r;
	mine = *req;
	mine.done = block_wait_done;
	mine.late = NULL;
	mine.deadline_ns = 0;
	mine.owner = &done;
	mine.state = BLOCK_IDLE;
	r = weft_block_submit(c, &mine);
	while (r == 0 && !done) {
		struct pollfd p = {.fd = weft_block_chan_fd(c), .events = POLLIN};

		if (weft_block_poll(c, now_ns) > 0)
			continue;
		if (weft_block_next_ns(c) == UINT64_MAX && p.fd >= 0)
			(void)poll(&p, 1, BLOCK_WAIT_MS);
		else
			(void)nanosleep(&nap, NULL);
		now_ns += (uint64_t)nap.tv_nsec;
	}
	(void)weft_block_chan_close(c);
	if (r != 0)
		return r;
	req->status = mine.status;
	req->done_bytes = mine.done_bytes;
	req->extents_found = mine.extents_found;
	return mine.status;
}
