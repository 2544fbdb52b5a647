/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The way of a request through its channel: checked, waiting, with the driver, finished,
 * done.
 *
 * A request is on the list of its place (enum block_where), so that each step is one move. Only the
 * channel's thread moves requests.
 *
 * Flushes. The driver has one flush of a channel at most. Those that are submitted meanwhile wait
 * behind it, and one more flush does all of them. A flush that succeeds in the driver is held until
 * each other flush, and each request with FUA, that overlapped it has ended, because a backend may
 * report an error to one of them alone. All of these have numbers, in the order in which the driver
 * got them. If one of those has failed, lost_flushes has grown, and the held one fails,
 * too. The same comparison catches a write that was under way when a flush failed: what that flush
 * dropped may be this write's data, so it fails instead of being taken for written.
 */

#include "medium_block_priv.h"

/* ---- Lists ---- */

static void
block_take(struct weft_block_req *req)
{
	struct block_list *l = &block_chan_of(req->chan)->list[req->state];

	if (req->prev != NULL)
		req->prev->next = req->next;
	else
		l->first = req->next;
	if (req->next != NULL)
		req->next->prev = req->prev;
	else
		l->last = req->prev;
	l->n--;
	req->next = req->prev = NULL;
	req->state = BLOCK_IDLE;
}

static void
block_put(struct weft_block_req *req, enum block_where where)
{
	struct block_list *l = &block_chan_of(req->chan)->list[where];

	req->state = where;
	req->prev = l->last;
	req->next = NULL;
	if (l->last != NULL)
		l->last->next = req;
	else
		l->first = req;
	l->last = req;
	l->n++;
}

static void
block_put_first(struct weft_block_req *req, enum block_where where)
{
	struct block_list *l = &block_chan_of(req->chan)->list[where];

	req->state = where;
	req->prev = NULL;
	req->next = l->first;
	if (l->first != NULL)
		l->first->prev = req;
	else
		l->last = req;
	l->first = req;
	l->n++;
}

static void
block_move(struct weft_block_req *req, enum block_where where)
{
	block_take(req);
	block_put(req, where);
}

/** Publish what other threads read of the lists: the statistics, and the fence. */
static void
block_publish(struct block_chan *c)
{
	const struct weft_block_req *oldest = c->list[BLOCK_LATE].first;

	if (oldest == NULL)
		oldest = c->list[BLOCK_OVERDUE].first;
	if (oldest == NULL)
		oldest = c->list[BLOCK_DRIVER].first;
	atomic_store_explicit(&c->oldest_ns, oldest == NULL ? UINT64_MAX : oldest->since_ns,
	                      memory_order_relaxed);
	atomic_store_explicit(&c->waiting,
	                      c->list[BLOCK_WAITING].n + c->list[BLOCK_BEHIND].n +
	                              c->list[BLOCK_MERGED].n,
	                      memory_order_relaxed);
	atomic_store_explicit(&c->under_way, block_with_driver(c), memory_order_release);
}

/** The request is on no list: its done() is called in a later poll, or later in this one. */
static void
block_finish(struct weft_block_req *req, int status, uint64_t done_bytes)
{
	req->status = status;
	req->done_bytes = done_bytes;
	block_put(req, BLOCK_FINISHED);
}

/* ---- To the driver ---- */

/** The device's state refuses every request: -ESHUTDOWN, -ENODEV; 0: it does not. */
static int
block_refused(const struct block_chan *c)
{
	const struct block_dev *d = block_dev_of_chan(c);

	if (unlikely(atomic_load_explicit(&d->fenced, memory_order_acquire)))
		return -ESHUTDOWN;
	return unlikely(atomic_load_explicit(&d->status, memory_order_relaxed) != 0) ? -ENODEV : 0;
}

/** Move all requests of a list, in their order. */
static void
block_move_all(struct block_chan *c, enum block_where from, enum block_where to)
{
	while (c->list[from].first != NULL)
		block_move(c->list[from].first, to);
}

/** End all requests of a list. */
static void
block_end_list(struct block_chan *c, enum block_where where, int status)
{
	struct weft_block_req *req;

	while ((req = c->list[where].first) != NULL) {
		block_take(req);
		block_finish(req, status, 0);
	}
}

/** End the requests that the driver does not have. */
static void
block_end_waiting(struct block_chan *c, int status)
{
	const struct weft_block_req *req;

	for (req = c->list[BLOCK_WAITING].first; req != NULL; req = req->next)
		c->flushing &= req->op != WEFT_BLOCK_FLUSH;
	block_end_list(c, BLOCK_WAITING, status);
	block_end_list(c, BLOCK_BEHIND, status);
}

/** Whether the request makes data durable, so that a backend may report a loss to it. */
static bool
block_is_durable(const struct weft_block_req *req)
{
	return req->op == WEFT_BLOCK_FLUSH || (req->flags & WEFT_BLOCK_FUA) != 0;
}

/**
 * The driver is to get a flush or a request with FUA: number it. The number lies in done_bytes,
 * which is the owner's only from done() on.
 */
static void
block_number(struct block_chan *c, struct weft_block_req *req)
{
	struct block_dev *d = block_dev_of_chan(c);

	req->done_bytes = atomic_fetch_add_explicit(&d->flushes, 1, memory_order_acq_rel) + 1;
	if (atomic_load_explicit(&c->flush, memory_order_relaxed) == 0)
		atomic_store_explicit(&c->flush, req->done_bytes, memory_order_release);
}

/** The driver has the request, which is on no list now, no more: the lowest number of the others.
 */
static void
block_unnumber(struct block_chan *c, struct weft_block_req *req)
{
	uint64_t lowest = UINT64_MAX;
	const struct weft_block_req *r;

	if (req->done_bytes == atomic_load_explicit(&c->flush, memory_order_relaxed)) {
		for (unsigned int where = BLOCK_DRIVER; where <= BLOCK_LATE; where++) {
			for (r = c->list[where].first; r != NULL; r = r->next) {
				if (block_is_durable(r))
					lowest = RTE_MIN(lowest, r->done_bytes);
				/* The driver gets them in the order of their numbers. */
				if (where == BLOCK_DRIVER && lowest != UINT64_MAX)
					break;
			}
		}
		atomic_store_explicit(&c->flush, lowest == UINT64_MAX ? 0 : lowest,
		                      memory_order_release);
	}
	req->done_bytes = 0;
}

/** A flush goes to the driver: it is done for those behind it as well. */
static void
block_flush_begin(struct block_chan *c)
{
	block_move_all(c, BLOCK_BEHIND, BLOCK_MERGED);
}

/** The flush with the driver does nothing for those that were merged with it. */
static void
block_flush_undo(struct block_chan *c)
{
	block_move_all(c, BLOCK_BEHIND, BLOCK_MERGED);
	block_move_all(c, BLOCK_MERGED, BLOCK_BEHIND);
}

/** Hand requests that wait to the driver, as many as it takes. */
static void
block_feed(struct block_chan *c)
{
	struct weft_block_req *req;
	int r;

	if (c->list[BLOCK_WAITING].first == NULL)
		return;
	r = block_refused(c);
	if (unlikely(r != 0)) {
		block_end_waiting(c, r);
		return;
	}
	while ((req = c->list[BLOCK_WAITING].first) != NULL &&
	       block_with_driver(c) < c->pub.depth) {
		/* The driver may be done with it inside submit(). */
		block_move(req, BLOCK_DRIVER);
		if (block_is_durable(req))
			block_number(c, req);
		if (req->op == WEFT_BLOCK_FLUSH)
			block_flush_begin(c);
		r = c->pub.block->ops->submit(&c->pub, req);
		if (r == -EAGAIN) {
			if (req->op == WEFT_BLOCK_FLUSH)
				block_flush_undo(c);
			block_take(req);
			if (block_is_durable(req))
				block_unnumber(c, req);
			block_put_first(req, BLOCK_WAITING);
			break;
		}
		if (unlikely(r < 0))
			weft_block_done(req, r, 0);
	}
}

/** Whether segments of memory fit the device and the length. */
static bool
block_iov_fits(const struct weft_block_info *i, const struct weft_block_req *req)
{
	uintptr_t low = 0;
	uint64_t sum = 0;

	if (req->iov == NULL || req->iovs == 0 || req->iovs > i->max_iovs)
		return false;
	for (uint32_t k = 0; k < req->iovs; k++) {
		low |= (uintptr_t)req->iov[k].iov_base | req->iov[k].iov_len;
		if (req->iov[k].iov_len > req->len_bytes - sum)
			return false;
		sum += req->iov[k].iov_len;
	}
	return sum == req->len_bytes && (low & (i->mem_align_bytes - 1)) == 0;
}

/** What an operation needs: an ability, flags that it may have, whether it has memory. */
static const struct {
	uint32_t can, flags;
	bool changes, memory;
} block_op[] = {
        [WEFT_BLOCK_READ] = {.flags = WEFT_BLOCK_MEDIUM, .memory = true},
        [WEFT_BLOCK_WRITE] = {.flags = WEFT_BLOCK_FUA, .changes = true, .memory = true},
        [WEFT_BLOCK_FLUSH] = {.flags = 0},
        [WEFT_BLOCK_DISCARD] = {.can = WEFT_BLOCK_CAN_DISCARD, .changes = true},
        [WEFT_BLOCK_ZEROES] = {.can = WEFT_BLOCK_CAN_ZEROES,
                               .flags = WEFT_BLOCK_FUA | WEFT_BLOCK_KEEP,
                               .changes = true},
        [WEFT_BLOCK_COMPARE_WRITE] = {.can = WEFT_BLOCK_CAN_COMPARE_WRITE,
                                      .flags = WEFT_BLOCK_FUA,
                                      .changes = true,
                                      .memory = true},
        [WEFT_BLOCK_EXTENTS] = {.can = WEFT_BLOCK_CAN_EXTENTS},
        [WEFT_BLOCK_SNAPSHOT] = {.can = WEFT_BLOCK_CAN_SNAPSHOT},
};

/** It has no range, and something to do all the same. */
static bool
block_is_rangeless(const struct weft_block_req *req)
{
	return req->op == WEFT_BLOCK_FLUSH || req->op == WEFT_BLOCK_SNAPSHOT;
}

static uint64_t
block_longest(const struct weft_block_info *i, enum weft_block_op op)
{
	switch (op) {
	case WEFT_BLOCK_READ:
	case WEFT_BLOCK_WRITE:
		return i->max_bytes;
	case WEFT_BLOCK_COMPARE_WRITE:
		return i->compare_write_bytes;
	case WEFT_BLOCK_DISCARD:
		return i->max_discard_bytes;
	case WEFT_BLOCK_ZEROES:
		return i->max_zeroes_bytes;
	default:
		return UINT64_MAX;
	}
}

/** The errors of weft_block_submit() of a request with an operation that exists. */
static int
block_check(const struct block_dev *d, const struct weft_block_req *req)
{
	const struct weft_block_info *i = &d->pub.info;
	uint64_t bytes = atomic_load_explicit(&d->bytes, memory_order_relaxed);
	uint32_t need = block_op[req->op].can;

	if ((req->flags & ~block_op[req->op].flags) != 0)
		return -EINVAL;
	if (req->op == WEFT_BLOCK_FLUSH)
		return req->off_bytes == 0 && req->len_bytes == 0 ? 0 : -EINVAL;
	if (req->op == WEFT_BLOCK_SNAPSHOT)
		return medium_block_snap_check(i, req);
	if (block_op[req->op].changes && (i->can & WEFT_BLOCK_CAN_WRITE) == 0)
		return -EROFS;
	if (req->flags & WEFT_BLOCK_FUA)
		need |= WEFT_BLOCK_CAN_FUA;
	if (req->flags & WEFT_BLOCK_MEDIUM)
		need |= WEFT_BLOCK_CAN_MEDIUM;
	if ((i->can & need) != need)
		return -EOPNOTSUPP;
	if (req->off_bytes > bytes || req->len_bytes > bytes - req->off_bytes ||
	    req->len_bytes > block_longest(i, req->op))
		return -EINVAL;
	if (((req->off_bytes | req->len_bytes) & (i->block_bytes - 1)) != 0 &&
	    ((i->can & WEFT_BLOCK_CAN_UNALIGNED) == 0 || !block_op[req->op].memory))
		return -EINVAL;
	if (req->len_bytes == 0)
		return 0;
	if (block_op[req->op].memory && !block_iov_fits(i, req))
		return -EINVAL;
	if (req->op == WEFT_BLOCK_COMPARE_WRITE && req->expect == NULL)
		return -EINVAL;
	if (req->op == WEFT_BLOCK_EXTENTS && (req->extents == NULL || req->max_extents == 0))
		return -EINVAL;
	return 0;
}

int
weft_block_submit(struct weft_block_chan *chan, struct weft_block_req *req)
{
	struct block_chan *c = block_chan_of(chan);
	int r;

	if (WEFT_HANDLE_BAD(chan, BLOCK_CHAN) || req == NULL || req->done == NULL ||
	    (unsigned int)req->op >= WEFT_BLOCK_OPS)
		return -EINVAL;
	if (req->state != BLOCK_IDLE)
		return -EBUSY;
	r = block_check(block_dev_of_chan(c), req);
	if (unlikely(r != 0))
		return r;
	req->chan = chan;
	req->status = 0;
	req->done_bytes = 0;
	req->extents_found = 0;
	req->since_ns = c->now_ns;
	req->lost_flushes = c->lost_flushes;
	r = block_refused(c);
	if (unlikely(r != 0) || (req->len_bytes == 0 && !block_is_rangeless(req))) {
		block_finish(req, r, 0);
		return 0;
	}
	if (req->deadline_ns != 0)
		c->deadline_ns = RTE_MIN(c->deadline_ns, req->deadline_ns);
	if (req->op == WEFT_BLOCK_FLUSH && c->flushing) {
		block_put(req, BLOCK_BEHIND);
	} else {
		c->flushing |= req->op == WEFT_BLOCK_FLUSH;
		block_put(req, BLOCK_WAITING);
		block_feed(c);
	}
	block_publish(c);
	return 0;
}

int
weft_block_cancel(struct weft_block_chan *chan, struct weft_block_req *req)
{
	struct block_chan *c = block_chan_of(chan);

	if (WEFT_HANDLE_BAD(chan, BLOCK_CHAN) || req == NULL)
		return -EINVAL;
	if (req->chan != chan || req->state == BLOCK_IDLE)
		return -ENOENT;
	switch (req->state) {
	case BLOCK_WAITING:
		if (req->op == WEFT_BLOCK_FLUSH) {
			/* The flushes behind it wait for it. Let the next one take its place. */
			struct weft_block_req *next = c->list[BLOCK_BEHIND].first;

			c->flushing = next != NULL;
			if (next != NULL)
				block_move(next, BLOCK_WAITING);
		}
		/* fallthrough */
	case BLOCK_BEHIND:
	case BLOCK_MERGED:
		block_take(req);
		block_finish(req, -ECANCELED, 0);
		break;
	case BLOCK_DRIVER:
	case BLOCK_OVERDUE:
	case BLOCK_LATE:
		if (chan->block->ops->cancel != NULL)
			chan->block->ops->cancel(chan, req);
		break;
	default: /* finished or held: its result is known */
		break;
	}
	block_publish(c);
	return 0;
}

/* ---- From the driver ---- */

/** A request of the driver whose flush, or the flush of another, has failed must not succeed. */
static bool
block_is_in_doubt(const struct block_dev *d, const struct weft_block_req *req)
{
	if (req->lost_flushes == atomic_load_explicit(&d->lost_flushes, memory_order_acquire))
		return false;
	if (req->op == WEFT_BLOCK_FLUSH)
		return true;
	return block_op[req->op].changes && (req->flags & WEFT_BLOCK_FUA) == 0;
}

/** A flush has ended in the driver: it is held, or finished. */
static void
block_flush_end(struct weft_block_req *req, int status, uint64_t flushes)
{
	if (status != 0) {
		block_finish(req, status, 0);
		return;
	}
	req->drv[0] = flushes; /* the driver does not use it any more */
	block_put(req, BLOCK_HELD);
}

/** The driver has done the flush `req`, and so those that were merged with it. */
static void
block_flush_done(struct block_chan *c, struct weft_block_req *req, int status)
{
	struct block_dev *d = block_dev_of_chan(c);
	struct weft_block_req *other;
	uint64_t flushes;

	/* Count the failure before this flush ends for other channels. These two orders pair with
	 * medium_block_flushes_ended() and block_is_in_doubt(). */
	if (status != 0 && status != -ECANCELED)
		medium_block_flush_lost(d, status);
	else if (status != 0)
		block_flush_undo(c);
	flushes = atomic_load_explicit(&d->flushes, memory_order_acquire);
	block_unnumber(c, req);
	block_flush_end(req, status, flushes);
	while ((other = c->list[BLOCK_MERGED].first) != NULL) {
		block_take(other);
		block_flush_end(other, status, flushes);
		block_add(&c->count.merged, 1);
	}
	other = c->list[BLOCK_BEHIND].first;
	c->flushing = other != NULL;
	if (other != NULL)
		block_move(other, BLOCK_WAITING);
}

/**
 * What a driver's status is for the owner. Some numbers say more here than a kernel means by them:
 * that nothing was changed (-ENODEV and others are weft's own), or that octets differ (the kernel
 * says -EILSEQ of protection information). From a driver they are an error of the medium.
 */
static int
block_driver_status(const struct weft_block_req *req, int status)
{
	switch (status) {
	case -ENODEV:
	case -ETIMEDOUT:
	case -ESHUTDOWN:
		return -EIO;
	case -EILSEQ:
		return req->op == WEFT_BLOCK_COMPARE_WRITE ? status : -EIO;
	default:
		return status > 0 ? -EIO : status;
	}
}

void
weft_block_done(struct weft_block_req *req, int status, uint64_t done_bytes)
{
	struct block_chan *c;

	if (req == NULL ||
	    (req->state != BLOCK_DRIVER && req->state != BLOCK_OVERDUE && req->state != BLOCK_LATE))
		return;
	c = block_chan_of(req->chan);
	status = block_driver_status(req, status);
	block_take(req);
	if (status == 0 && req->op != WEFT_BLOCK_EXTENTS)
		done_bytes = req->len_bytes;
	if (req->op == WEFT_BLOCK_FLUSH) {
		block_flush_done(c, req, status);
		return;
	}
	if ((req->flags & WEFT_BLOCK_FUA) != 0) {
		/* Its own flush may have been the one that the backend reports the failure to:
		 * count it before other channels see that it has ended. No room is such a failure,
		 * too: it may have been found when earlier writes were written back. A request that
		 * the backend finds wrong (-EINVAL) does not come to a flush. */
		if (status != 0 && status != -ECANCELED && status != -EILSEQ && status != -EINVAL)
			medium_block_flush_lost(block_dev_of(req->chan->block), status);
		block_unnumber(c, req);
	}
	block_finish(req, status, done_bytes);
}

void
weft_block_late(struct weft_block_req *req)
{
	if (req != NULL && req->state == BLOCK_DRIVER)
		block_move(req, BLOCK_OVERDUE);
}

/* ---- The poll ---- */

/** The device is fenced: the driver gets nothing more, and is to end what it has. */
static void
block_fence(struct block_chan *c)
{
	struct weft_block_req *req, *next;

	block_end_waiting(c, -ESHUTDOWN);
	for (unsigned int where = BLOCK_DRIVER; where <= BLOCK_LATE; where++) {
		for (req = c->list[where].first; req != NULL; req = next) {
			next = req->next;
			if (c->pub.block->ops->cancel != NULL)
				c->pub.block->ops->cancel(&c->pub, req);
		}
	}
	block_publish(c);
	atomic_store_explicit(&c->fenced, true, memory_order_release);
}

/** Tell the owner of a change of the state. */
static void
block_tell(struct block_chan *c)
{
	struct block_dev *d = block_dev_of_chan(c);
	struct weft_block_state state;

	if (likely(c->changes == atomic_load_explicit(&d->changes, memory_order_acquire)))
		return;
	c->changes = medium_block_state(d, &state);
	c->lost_flushes = state.lost_flushes;
	if (state.fenced && !atomic_load_explicit(&c->fenced, memory_order_relaxed))
		block_fence(c);
	else if (state.status != 0)
		block_end_waiting(c, -ENODEV);
	if (c->event != NULL)
		c->event(&c->pub, &state);
}

/** Let go of flushes that are held, if what they overlapped has ended. */
static void
block_release(struct block_chan *c)
{
	struct weft_block_req *req, *next;

	for (req = c->list[BLOCK_HELD].first; req != NULL; req = next) {
		next = req->next;
		if (!medium_block_flushes_ended(block_dev_of_chan(c), req->drv[0]))
			continue;
		block_take(req);
		block_finish(req, 0, 0);
	}
}

/** Find requests whose deadline has passed, and the next deadline. */
static void
block_find_late(struct block_chan *c)
{
	struct weft_block_req *req, *next;
	bool again = false;

	c->deadline_ns = UINT64_MAX;
	for (unsigned int where = BLOCK_WAITING; where <= BLOCK_HELD; where++) {
		if (where == BLOCK_OVERDUE || where == BLOCK_LATE)
			continue;
		for (req = c->list[where].first; req != NULL; req = next) {
			next = req->next;
			if (req->deadline_ns == 0)
				continue;
			if (req->deadline_ns > c->now_ns) {
				c->deadline_ns = RTE_MIN(c->deadline_ns, req->deadline_ns);
			} else if (where == BLOCK_DRIVER) {
				block_move(req, BLOCK_OVERDUE);
			} else {
				/* Another flush of the list takes its place as in a cancel. */
				if (where == BLOCK_HELD) {
					block_take(req);
					block_finish(req, -ETIMEDOUT, 0);
				} else {
					(void)weft_block_cancel(&c->pub, req);
					req->status = -ETIMEDOUT;
				}
				block_add(&c->count.late, 1);
				again = true;
			}
		}
	}
	if (again) /* one that took a place was perhaps not looked at */
		c->deadline_ns = 0;
}

static void
block_call_late(struct block_chan *c)
{
	struct weft_block_req *req;

	while ((req = c->list[BLOCK_OVERDUE].first) != NULL) {
		block_move(req, BLOCK_LATE);
		block_add(&c->count.late, 1);
		if (req->late != NULL)
			req->late(req);
	}
}

/** Count a finished request, and call its done(). */
static void
block_call_done(struct block_chan *c, struct weft_block_req *req)
{
	uint64_t ns = c->now_ns - req->since_ns;

	block_take(req);
	if (req->status == 0 && unlikely(block_is_in_doubt(block_dev_of_chan(c), req))) {
		req->status = atomic_load_explicit(&block_dev_of_chan(c)->lost_status,
		                                   memory_order_relaxed);
		req->done_bytes = 0;
	}
	if (req->op == WEFT_BLOCK_SNAPSHOT)
		medium_block_snap_done(req);
	if (req->status == 0) {
		block_add(&c->count.requests[req->op], 1);
		block_add(&c->count.octets[req->op], req->done_bytes);
	} else {
		block_add(&c->count.errors[req->op], 1);
	}
	if (ns > atomic_load_explicit(&c->count.max_ns, memory_order_relaxed))
		atomic_store_explicit(&c->count.max_ns, ns, memory_order_relaxed);
	req->done(req);
}

unsigned int
weft_block_poll(struct weft_block_chan *chan, uint64_t now_ns)
{
	struct block_chan *c = block_chan_of(chan);
	unsigned int n;

	if (chan == NULL || WEFT_HANDLE_BAD(chan, BLOCK_CHAN) || c->in_poll)
		return 0;
	c->in_poll = true;
	c->now_ns = now_ns;
	block_feed(c);
	if (chan->block->ops->poll != NULL)
		chan->block->ops->poll(chan, now_ns);
	if (unlikely(c->list[BLOCK_HELD].first != NULL))
		block_release(c);
	block_tell(c);
	if (unlikely(now_ns >= c->deadline_ns))
		block_find_late(c);
	if (unlikely(c->list[BLOCK_OVERDUE].first != NULL))
		block_call_late(c);
	/* What becomes finished from here on has its turn in the next poll: an owner that submits
	 * in done() to a driver that is done at once must not keep the worker here. */
	n = c->list[BLOCK_FINISHED].n;
	for (unsigned int i = 0; i < n; i++)
		block_call_done(c, c->list[BLOCK_FINISHED].first);
	block_feed(c);
	block_publish(c);
	c->in_poll = false;
	return n;
}
