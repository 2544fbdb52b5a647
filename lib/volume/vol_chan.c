/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Channels of a volume: submission, poll, sleep.
 */

#include <stdlib.h>

#include "vol_priv.h"

#ifdef WEFT_TEST_HOOKS
#include "volume_sabotage.h"
#define CHAN_SABOTAGED(fault) (volume_sabotage == VOLUME_##fault)
#else
#define CHAN_SABOTAGED(fault) 0
#endif

/** A channel that was not polled for so long has an old time and an old state of its device. */
#define VOL_OLD_NS (50 * 1000000ULL)

/* ---- Open and close ---- */

/** A flush was lost: note the clients that have to be told. */
static void
chan_lost(struct weft_vol_chan *c)
{
	struct weft_vol_client *client;

	TAILQ_FOREACH (client, &c->clients, link) {
		if (client->changes > client->durable)
			vol_client_lost(client, c->lost_status);
		client->durable = client->changes;
	}
}

static void
chan_event(struct weft_block_chan *chan, const struct weft_block_state *state)
{
	struct weft_vol_chan *c = chan->owner;

	c->lost_status = state->lost_status;
	if (state->lost_flushes != c->lost_flushes) {
		if (c->vol->sums != NULL)
			vol_sums_doubt_used(c->vol->sums);
		chan_lost(c);
	}
	c->lost_flushes = state->lost_flushes;
	if (c->attr.event != NULL)
		c->attr.event(c, state);
}

/** A free slot, which is the channel's from now on; -ENOSPC. */
static int
chan_slot(struct weft_vol *v)
{
	int slot = -ENOSPC;

	pthread_mutex_lock(&v->lock);
	for (uint32_t i = 0; i < v->max_chans && slot < 0; i++) {
		if ((v->slots & 1ULL << i) == 0)
			slot = (int)i;
	}
	if (slot >= 0)
		v->slots |= 1ULL << slot;
	pthread_mutex_unlock(&v->lock);
	return slot;
}

static void
chan_slot_end(struct weft_vol *v, uint32_t slot)
{
	pthread_mutex_lock(&v->lock);
	v->slots &= ~(1ULL << slot);
	pthread_mutex_unlock(&v->lock);
}

int
weft_vol_chan_open(struct weft_vol *v, const struct weft_vol_chan_attr *attr,
                   struct weft_vol_chan **out)
{
	struct weft_block_chan_attr a = {.size = sizeof(a), .event = chan_event};
	struct weft_block_state state;
	struct weft_vol_chan *c;
	int r;

	if (v == NULL || attr == NULL || out == NULL)
		return -EINVAL;
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return -ENOMEM;
	r = chan_slot(v);
	if (r < 0) {
		free(c);
		return r;
	}
	c->vol = v;
	c->slot = (uint32_t)r;
	c->attr = *attr;
	c->deadline_ns = UINT64_MAX;
	TAILQ_INIT(&c->run);
	TAILQ_INIT(&c->scratch_wait);
	TAILQ_INIT(&c->map_wait);
	TAILQ_INIT(&c->finished);
	TAILQ_INIT(&c->all);
	TAILQ_INIT(&c->clients);
	for (uint32_t i = 0; i < v->pieces; i++)
		c->free_piece[c->free_pieces++] =
		        v->memory + ((uint64_t)c->slot * v->pieces + i) * VOL_STRIDE_BYTES;
	if (v->sums != NULL)
		c->map = v->sums->maps + c->slot * v->sums->map_bytes;
	a.depth = attr->depth;
	a.owner = c;
	weft_block_query_state(v->block, &state);
	c->lost_flushes = state.lost_flushes;
	c->lost_status = state.lost_status;
	r = weft_block_chan_open(v->block, &a, &c->chan);
	if (r != 0) {
		chan_slot_end(v, c->slot);
		free(c);
		return r;
	}
	*out = c;
	return 0;
}

int
weft_vol_chan_close(struct weft_vol_chan *c)
{
	int r;

	if (c == NULL)
		return 0;
	if (!TAILQ_EMPTY(&c->all) || !TAILQ_EMPTY(&c->clients) || c->in_poll)
		return -EBUSY;
	r = weft_block_chan_close(c->chan);
	if (r != 0)
		return r;
	chan_slot_end(c->vol, c->slot);
	free(c);
	return 0;
}

void *
weft_vol_chan_owner(const struct weft_vol_chan *c)
{
	return c->attr.owner;
}

/* ---- Submission ---- */

/** What a kind of operation is. */
static const struct {
	uint32_t flags;
	bool changes, memory;
} chan_kind[WEFT_VOL_KINDS] = {
        [WEFT_VOL_READ] = {.flags = WEFT_VOL_MEDIUM, .memory = true},
        [WEFT_VOL_WRITE] = {.flags = WEFT_VOL_DURABLE | WEFT_VOL_WHOLE | WEFT_VOL_LIVE,
                            .changes = true,
                            .memory = true},
        [WEFT_VOL_COMPARE_WRITE] = {.flags = WEFT_VOL_DURABLE | WEFT_VOL_WHOLE,
                                    .changes = true,
                                    .memory = true},
        [WEFT_VOL_DISCARD] = {.flags = WEFT_VOL_DURABLE, .changes = true},
        [WEFT_VOL_SCRUB] = {.changes = true},
        [WEFT_VOL_ZEROES] = {.flags = WEFT_VOL_DURABLE | WEFT_VOL_KEEP, .changes = true},
};

static bool
chan_memory_fits(const struct weft_vol_op *op)
{
	uint64_t left = op->len_bytes;

	if (op->iovs > 0 && op->iov == NULL)
		return false;
	for (uint32_t i = 0; i < op->iovs; i++) {
		if (op->iov[i].iov_len > left)
			return false;
		left -= op->iov[i].iov_len;
	}
	return left == 0;
}

/** The errors of weft_vol_submit() that op alone has. */
static int
chan_check(const struct weft_vol_chan *c, const struct weft_vol_op *op)
{
	const struct weft_vol_info *i = &c->vol->info;

	if ((unsigned int)op->kind >= WEFT_VOL_KINDS || op->done == NULL ||
	    (op->flags & ~chan_kind[op->kind].flags) != 0 || op->off_bytes > i->bytes ||
	    op->len_bytes > i->bytes - op->off_bytes)
		return -EINVAL;
	if (op->client != NULL && op->client->chan != c)
		return -EINVAL;
	if (op->client != NULL && op->client->revoked)
		return -ESHUTDOWN;
	/* A scrub changes checksums alone, and none of a volume that is read-only. */
	if (chan_kind[op->kind].changes && op->kind != WEFT_VOL_SCRUB && i->read_only)
		return -EROFS;
	if (chan_kind[op->kind].memory ? !chan_memory_fits(op) : op->iovs != 0)
		return -EINVAL;
	if (op->kind == WEFT_VOL_COMPARE_WRITE && op->len_bytes > i->compare_bytes)
		return -EMSGSIZE;
	if ((op->kind == WEFT_VOL_COMPARE_WRITE && op->expect == NULL) ||
	    (op->kind == WEFT_VOL_EXTENTS && (op->extents == NULL || op->max_extents == 0)) ||
	    (op->kind == WEFT_VOL_VERIFY && op->hash == NULL))
		return -EINVAL;
	if (op->kind == WEFT_VOL_SNAPSHOT) {
		if (op->snap == NULL || op->off_bytes != 0 || op->len_bytes != 0)
			return -EINVAL;
		if (op->snap->block.what != WEFT_BLOCK_SNAP_LIST && i->read_only)
			return -EROFS;
		if (op->snap->maps_only &&
		    (op->snap->block.what != WEFT_BLOCK_SNAP_CREATE || !i->sums))
			return -EINVAL;
	}
	/* Its checksums are one page. */
	if (op->kind == WEFT_VOL_COMPARE_WRITE && i->sums && op->len_bytes > 0 &&
	    op->off_bytes / WEFT_VOL_GROUP_BYTES !=
	            (op->off_bytes + op->len_bytes - 1) / WEFT_VOL_GROUP_BYTES)
		return -EOPNOTSUPP;
	if (op->kind == WEFT_VOL_SCRUB && (op->off_bytes % WEFT_VOL_GROUP_BYTES != 0 ||
	                                   (op->len_bytes % WEFT_VOL_GROUP_BYTES != 0 &&
	                                    op->off_bytes + op->len_bytes != i->bytes)))
		return -EINVAL;
	if ((op->flags & WEFT_VOL_WHOLE) != 0 && op->len_bytes > 0 &&
	    op->off_bytes / i->atomic_bytes !=
	            (op->off_bytes + op->len_bytes - 1) / i->atomic_bytes)
		return -EOPNOTSUPP;
	return 0;
}

/** The range that an operation uses, rounded to the device's blocks: a write of a part of a block
 * changes no other octet of it, and must not meet another write of that block. */
static void
chan_range(const struct weft_vol *v, struct weft_vol_op *op)
{
	/* The page of checksums belongs to one change at a time, and so does its group. */
	const uint64_t block = v->sums != NULL ? WEFT_VOL_GROUP_BYTES : v->device.block_bytes;
	struct weft_vol_range *r = &op->range;

	r->off_bytes = op->off_bytes & ~(block - 1);
	r->end_bytes = (op->off_bytes + op->len_bytes + block - 1) & ~(block - 1);
	r->mode = chan_kind[op->kind].changes ? VOL_RANGE_WRITE : VOL_RANGE_READ;
	/* As a read of everything: changes wait, reads do not. */
	if (op->kind == WEFT_VOL_SNAPSHOT)
		r->end_bytes = UINT64_MAX;
	if (op->kind == WEFT_VOL_FLUSH) {
		r->mode = VOL_RANGE_FLUSH;
		if (op->len_bytes == 0)
			r->end_bytes = UINT64_MAX;
	}
	if ((op->kind == WEFT_VOL_FLUSH && CHAN_SABOTAGED(FLUSH_NO_WAIT)) ||
	    (op->kind == WEFT_VOL_SNAPSHOT && CHAN_SABOTAGED(SNAP_NO_WAIT))) {
		r->off_bytes = UINT64_MAX - 1;
		r->end_bytes = UINT64_MAX;
	}
}

/** Whether it waits for a range: of snapshots those that are of the present state. */
static bool
chan_has_range(const struct weft_vol_op *op)
{
	if (op->kind == WEFT_VOL_SNAPSHOT)
		return op->snap->block.what == WEFT_BLOCK_SNAP_CREATE ||
		       (op->snap->block.what == WEFT_BLOCK_SNAP_CLONE &&
		        op->snap->block.from == NULL);
	return op->len_bytes > 0 || op->kind == WEFT_VOL_FLUSH;
}

int
weft_vol_submit(struct weft_vol_chan *c, struct weft_vol_op *op)
{
	int r;

	if (c == NULL || op == NULL)
		return -EINVAL;
	if (op->state != VOL_IDLE)
		return -EBUSY;
	r = chan_check(c, op);
	if (r != 0)
		return r;
	if (op->kind == WEFT_VOL_VERIFY) {
		r = op->hash->init(&op->hash_state, op->key, op->key_bytes);
		if (r != 0)
			return r;
	}
	op->chan = c;
	op->hashing = op->kind == WEFT_VOL_VERIFY;
	op->status = 0;
	op->done_bytes = op->step_bytes = 0;
	op->extents_found = 0;
	op->phase = 0;
	op->canceled = op->was_late = op->fua = false;
	op->place = (struct weft_vol_place){0};
	op->mark = 0;
	op->scratch = NULL;
	op->sums_loaded = op->sums_stored = op->changed = false;
	op->damaged = op->damaged_off_bytes = 0;
	op->range.end_bytes = 0;
	if (op->kind == WEFT_VOL_SNAPSHOT) {
		op->snap->block.reason[0] = op->snap->block.place[0] = '\0';
		op->snap->block.found = 0;
		op->snap->alone = op->snap->wrote = false;
	}
	if (chan_has_range(op)) {
		chan_range(c->vol, op);
		/* A scrub changes no octet of the data. */
		r = vol_queue_range(op, chan_kind[op->kind].changes && op->kind != WEFT_VOL_SCRUB);
		if (r != 0)
			return r;
	}
	if (TAILQ_EMPTY(&c->all) && c->attr.busy != NULL)
		c->attr.busy(c);
	TAILQ_INSERT_TAIL(&c->all, op, chan_link);
	c->stats.under_way++;
	if (op->client != NULL) {
		TAILQ_INSERT_TAIL(&op->client->ops, op, client_link);
		op->client->under_way++;
	}
	if (op->deadline_ns != 0)
		c->deadline_ns = VOL_MIN(c->deadline_ns, op->deadline_ns);
	if (op->kind == WEFT_VOL_SNAPSHOT && op->range.end_bytes == 0)
		vol_queue_run(op);
	else if (op->len_bytes == 0 && op->kind != WEFT_VOL_FLUSH && op->kind != WEFT_VOL_SNAPSHOT)
		vol_queue_finish(op, 0);
	return 0;
}

int
weft_vol_cancel(struct weft_vol_chan *c, struct weft_vol_op *op)
{
	if (c == NULL || op == NULL)
		return -EINVAL;
	if (op->state == VOL_IDLE || op->chan != c)
		return -ENOENT;
	if (op->state == VOL_DEVICE) {
		op->canceled = true;
		if (CHAN_SABOTAGED(OPEN_RANGE))
			vol_queue_leave(op);
		(void)weft_block_cancel(c->chan, &op->req);
	} else if (op->state != VOL_FINISHED) {
		vol_queue_drop(op, -ECANCELED);
	}
	return 0;
}

/* ---- Poll ---- */

/** End what waits for something but the device, and whose deadline has passed. */
static void
chan_find_late(struct weft_vol_chan *c)
{
	struct weft_vol_op *op;

	c->deadline_ns = UINT64_MAX;
	TAILQ_FOREACH (op, &c->all, chan_link) {
		if (op->deadline_ns == 0 || op->state == VOL_FINISHED)
			continue;
		if (op->deadline_ns > c->now_ns)
			c->deadline_ns = VOL_MIN(c->deadline_ns, op->deadline_ns);
		else if (op->state != VOL_DEVICE)
			vol_queue_drop(op, -ETIMEDOUT);
	}
}

/** Take the next step of all that were on the run list. */
static void
chan_run(struct weft_vol_chan *c)
{
	struct weft_vol_op *op;

	vol_queue_granted(c);
	for (uint32_t n = c->nrun; n > 0 && (op = vol_queue_next(c)) != NULL; n--)
		vol_step(op);
}

unsigned int
weft_vol_poll(struct weft_vol_chan *c, uint64_t now_ns)
{
	unsigned int n;
	bool old;

	if (c == NULL || c->in_poll)
		return 0;
	c->in_poll = true;
	/* An owner need not poll an idle channel. Its first operation then begins with the time,
	 * and with the state of the device, of now. */
	old = now_ns - c->now_ns > VOL_OLD_NS;
	c->now_ns = now_ns;
	if (old)
		(void)weft_block_poll(c->chan, now_ns);
	if (now_ns >= c->deadline_ns)
		chan_find_late(c);
	chan_run(c);
	c->fed = false;
	(void)weft_block_poll(c->chan, now_ns);
	vol_queue_granted(c);
	n = vol_queue_done(c);
	c->in_poll = false;
	return n;
}

uint64_t
weft_vol_next_ns(const struct weft_vol_chan *c)
{
	if (c == NULL)
		return UINT64_MAX;
	if (c->fed || c->nrun > 0 || c->nfinished > 0 ||
	    atomic_load_explicit(&c->any_granted, memory_order_acquire))
		return 0;
	return VOL_MIN(c->deadline_ns, weft_block_next_ns(c->chan));
}

int
weft_vol_chan_fd(const struct weft_vol_chan *c)
{
	return c == NULL ? -1 : weft_block_chan_fd(c->chan);
}

bool
weft_vol_is_idle(const struct weft_vol_chan *c)
{
	return c == NULL || TAILQ_EMPTY(&c->all);
}

void
weft_vol_query_stats(const struct weft_vol_chan *c, struct weft_vol_stats *stats)
{
	*stats = c->stats;
}
