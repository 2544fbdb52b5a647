/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Where an operation is, and what it holds: its range, its piece of scratch memory.
 *
 * The order in which it takes them prevents a deadlock: first the range, then scratch memory. One
 * that has scratch memory waits for the device alone.
 */

#include "vol_priv.h"

static struct weft_vol_op *
queue_op(struct weft_vol_range *r)
{
	return (struct weft_vol_op *)((uint8_t *)r - offsetof(struct weft_vol_op, range));
}

/* ---- Ranges ---- */

/** Hand ranges that are free to go to their channels. The mutex is held. */
static void
queue_grant(struct weft_vol_range *first)
{
	struct weft_vol_range *r;

	while ((r = first) != NULL) {
		struct weft_vol_chan *c = queue_op(r)->chan;

		first = r->next;
		r->next = c->granted;
		r->listed = true;
		c->granted = r;
		/* Under the mutex, so that the channel is not closed meanwhile. */
		if (!atomic_exchange_explicit(&c->any_granted, true, memory_order_release) &&
		    c->attr.wake != NULL)
			c->attr.wake(c);
	}
}

/** Take a range out of a list that it is in. */
static void
queue_unlist(struct weft_vol_range **at, const struct weft_vol_range *r)
{
	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
}

/** The mutex is held. */
static void
queue_leave_locked(struct weft_vol *v, struct weft_vol_op *op)
{
	if (op->range.end_bytes == 0)
		return;
	queue_grant(vol_range_del(&v->ranges, &op->range));
	op->range.end_bytes = 0;
}

int
vol_queue_range(struct weft_vol_op *op, bool changes)
{
	struct weft_vol *v = op->chan->vol;
	bool free;

	pthread_mutex_lock(&v->lock);
	/* Under one lock with the entry: a window that is opened later is filled behind op. */
	if (changes && !op->of_window && v->windows.root != NULL &&
	    vol_range_meets(&v->windows, op->off_bytes, op->off_bytes + op->len_bytes,
	                    VOL_RANGE_READ)) {
		pthread_mutex_unlock(&v->lock);
		return -EBUSY;
	}
	free = vol_range_add(&v->ranges, &op->range);
	if (!free)
		op->state = VOL_WAIT_RANGE;
	pthread_mutex_unlock(&v->lock);
	if (free)
		vol_queue_run(op);
	else
		op->chan->stats.range_waits++;
	return 0;
}

void
vol_queue_leave(struct weft_vol_op *op)
{
	struct weft_vol *v = op->chan->vol;

	if (op->range.end_bytes == 0)
		return;
	pthread_mutex_lock(&v->lock);
	queue_leave_locked(v, op);
	pthread_mutex_unlock(&v->lock);
}

void
vol_queue_granted(struct weft_vol_chan *c)
{
	struct weft_vol_range *r, *first;

	if (!atomic_load_explicit(&c->any_granted, memory_order_relaxed))
		return;
	pthread_mutex_lock(&c->vol->lock);
	atomic_store_explicit(&c->any_granted, false, memory_order_relaxed);
	first = c->granted;
	c->granted = NULL;
	for (r = first; r != NULL; r = r->next)
		r->listed = false;
	pthread_mutex_unlock(&c->vol->lock);
	while ((r = first) != NULL) {
		first = r->next;
		vol_queue_run(queue_op(r));
	}
}

/* ---- The maps of checksums ---- */

int
vol_queue_maps(struct weft_vol_op *op)
{
	struct weft_vol *v = op->chan->vol;
	struct vol_sums *s = v->sums;
	int r = 0;

	pthread_mutex_lock(&v->lock);
	if (s->maps_use == VOL_MAPS_FREE) {
		s->maps_use = op->snap->maps_only ? VOL_MAPS_TIDY : VOL_MAPS_SNAP;
		op->snap->alone = true;
	} else if (s->maps_use == VOL_MAPS_TIDY) {
		op->state = VOL_WAIT_MAPS;
		op->range.next = s->maps_waits;
		s->maps_waits = &op->range;
		r = -EAGAIN;
	} else {
		r = -EBUSY;
	}
	pthread_mutex_unlock(&v->lock);
	return r;
}

/** Op does not need the maps any more: those that wait for them try again. */
static void
queue_maps_end(struct weft_vol_op *op)
{
	struct weft_vol *v = op->chan->vol;

	op->snap->alone = false;
	pthread_mutex_lock(&v->lock);
	v->sums->maps_use = VOL_MAPS_FREE;
	queue_grant(v->sums->maps_waits);
	v->sums->maps_waits = NULL;
	pthread_mutex_unlock(&v->lock);
}

/* ---- The run list ---- */

void
vol_queue_late(struct weft_block_req *req)
{
	struct weft_vol_op *op = req->owner;

	if (op->was_late)
		return;
	op->was_late = true;
	op->chan->stats.late++;
	if (op->late != NULL)
		op->late(op);
}

void
vol_queue_run(struct weft_vol_op *op)
{
	struct weft_vol_chan *c = op->chan;

	op->state = VOL_RUN;
	TAILQ_INSERT_TAIL(&c->run, op, link);
	c->nrun++;
}

struct weft_vol_op *
vol_queue_next(struct weft_vol_chan *c)
{
	struct weft_vol_op *op = TAILQ_FIRST(&c->run);

	if (op != NULL) {
		TAILQ_REMOVE(&c->run, op, link);
		c->nrun--;
	}
	return op;
}

/* ---- Scratch memory ---- */

bool
vol_queue_scratch(struct weft_vol_op *op)
{
	struct weft_vol_chan *c = op->chan;

	if (op->scratch != NULL)
		return true;
	if (c->free_pieces > 0) {
		op->scratch = c->free_piece[--c->free_pieces];
		return true;
	}
	op->state = VOL_WAIT_SCRATCH;
	TAILQ_INSERT_TAIL(&c->scratch_wait, op, link);
	c->stats.scratch_waits++;
	return false;
}

void
vol_queue_map(struct weft_vol_op *op)
{
	op->state = VOL_WAIT_MAP;
	TAILQ_INSERT_TAIL(&op->chan->map_wait, op, link);
}

void
vol_queue_map_end(struct weft_vol_chan *c)
{
	struct weft_vol_op *op;

	c->map_busy = false;
	while ((op = TAILQ_FIRST(&c->map_wait)) != NULL) {
		TAILQ_REMOVE(&c->map_wait, op, link);
		vol_queue_run(op);
	}
}

void
vol_queue_scratch_end(struct weft_vol_op *op)
{
	struct weft_vol_chan *c = op->chan;
	struct weft_vol_op *next = TAILQ_FIRST(&c->scratch_wait);

	if (op->scratch == NULL)
		return;
	if (next == NULL) {
		c->free_piece[c->free_pieces++] = op->scratch;
	} else {
		/* The piece goes to the one that has waited longest. */
		TAILQ_REMOVE(&c->scratch_wait, next, link);
		next->scratch = op->scratch;
		vol_queue_run(next);
	}
	op->scratch = NULL;
}

/* ---- The end ---- */

void
vol_queue_finish(struct weft_vol_op *op, int status)
{
	struct weft_vol_chan *c = op->chan;

	vol_queue_scratch_end(op);
	vol_queue_leave(op);
	if (op->kind == WEFT_VOL_SNAPSHOT && op->snap->alone)
		queue_maps_end(op);
	if (op->hashing)
		op->hash->final(&op->hash_state, op->hash_result);
	op->hashing = false;
	if (status != 0 && op->changed && op->done_bytes > 0 && op->client != NULL) {
		/* What was done before the step that failed is an unstable change, too. */
		if (op->lost_at != c->lost_flushes)
			vol_client_lost(op->client, c->lost_status);
		else
			op->client->changes++;
	}
	op->status = status;
	op->lost_flushes = c->lost_flushes;
	op->state = VOL_FINISHED;
	TAILQ_INSERT_TAIL(&c->finished, op, link);
	c->nfinished++;
}

void
vol_queue_drop(struct weft_vol_op *op, int status)
{
	struct weft_vol_chan *c = op->chan;
	struct weft_vol *v = c->vol;

	if (op->state == VOL_WAIT_RANGE || op->state == VOL_WAIT_MAPS) {
		pthread_mutex_lock(&v->lock);
		if (op->range.listed)
			queue_unlist(&c->granted, &op->range);
		else if (op->state == VOL_WAIT_MAPS)
			queue_unlist(&v->sums->maps_waits, &op->range);
		op->range.listed = false;
		queue_leave_locked(v, op);
		pthread_mutex_unlock(&v->lock);
	} else if (op->state == VOL_RUN) {
		TAILQ_REMOVE(&c->run, op, link);
		c->nrun--;
	} else if (op->state == VOL_WAIT_MAP) {
		TAILQ_REMOVE(&c->map_wait, op, link);
	} else {
		TAILQ_REMOVE(&c->scratch_wait, op, link);
	}
	vol_queue_finish(op, status);
}

/** Count a finished operation, and let go of it. */
static void
queue_done_one(struct weft_vol_chan *c, struct weft_vol_op *op)
{
	struct weft_vol_client *client = op->client;

	c->quieting = NULL;
	TAILQ_REMOVE(&c->finished, op, link);
	TAILQ_REMOVE(&c->all, op, chan_link);
	c->nfinished--;
	c->stats.under_way--;
	if (op->status == 0) {
		c->stats.ops[op->kind]++;
		c->stats.octets[op->kind] += op->done_bytes;
	} else {
		c->stats.errors[op->kind]++;
	}
	if (client != NULL) {
		TAILQ_REMOVE(&client->ops, op, client_link);
		client->under_way--;
		if (client->revoked && client->under_way == 0)
			c->quieting = client;
	}
	op->state = VOL_IDLE;
	op->done(op);
	if (c->quieting != NULL && c->quieting->quiet != NULL)
		c->quieting->quiet(c->quieting);
}

unsigned int
vol_queue_done(struct weft_vol_chan *c)
{
	/* What becomes finished inside done() has its turn in the next poll. */
	unsigned int n = c->nfinished;

	for (unsigned int i = 0; i < n; i++)
		queue_done_one(c, TAILQ_FIRST(&c->finished));
	return n;
}
