/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The steps of an operation: which request of the device comes next, and what its result
 * means.
 *
 * An operation has one request under way at a time. It has its range from the first step to its
 * end. A step moves the data directly between the operation's memory and the device, or through a
 * piece of scratch memory. The second way serves what the device cannot do: parts of blocks, memory
 * that is not aligned, and data that has no memory of the operation (Verify, zeros).
 */

#include "vol_priv.h"

#ifdef WEFT_TEST_HOOKS
#include "volume_sabotage.h"
#define STEP_SABOTAGED(fault) (volume_sabotage == VOLUME_##fault)
#else
#define STEP_SABOTAGED(fault) 0
#endif

/** What the request under way is. */
enum step_phase {
	STEP_DIRECT, /**< data of the operation's memory; or no data */
	STEP_LOAD,   /**< blocks are read to scratch memory */
	STEP_STORE,  /**< blocks are written from scratch memory */
	STEP_FLUSH,
	STEP_HASH, /**< no request: what was loaded is hashed, a slice in each poll */
};

static void step_done(struct weft_block_req *req);

/* ---- Places ---- */

/** Where the operation's next octet is on the device. */
static uint64_t
step_at(const struct weft_vol_op *op)
{
	return op->chan->vol->info.super.data_at + op->off_bytes + op->done_bytes;
}

static uint64_t
step_left(const struct weft_vol_op *op)
{
	return op->len_bytes - op->done_bytes;
}

/** Whether the step under way has part of a block at one of its ends. */
static bool
step_in_part(const struct weft_vol_op *op)
{
	return ((step_at(op) | (step_at(op) + op->step_bytes)) & (op->chan->vol->unit_bytes - 1)) !=
	       0;
}

/** Offset in the scratch memory of the step's first octet: it begins with a whole block. */
static uint64_t
step_lead(const struct weft_vol_op *op)
{
	return step_at(op) & (op->chan->vol->unit_bytes - 1);
}

/* ---- Requests ---- */

static void
step_late(struct weft_block_req *req)
{
	struct weft_vol_op *op = req->owner;

	if (op->was_late)
		return;
	op->was_late = true;
	op->chan->stats.late++;
	if (op->late != NULL)
		op->late(op);
}

static void
step_submit(struct weft_vol_op *op, enum weft_block_op what, uint64_t off_bytes, uint64_t len_bytes)
{
	struct weft_vol_chan *c = op->chan;
	int r;

	op->req.op = what;
	op->req.off_bytes = off_bytes;
	op->req.len_bytes = len_bytes;
	op->req.deadline_ns = op->deadline_ns;
	op->req.done = step_done;
	op->req.late = step_late;
	op->req.owner = op;
	op->state = VOL_DEVICE;
	c->fed = true;
	r = weft_block_submit(c->chan, &op->req);
	if (r != 0)
		vol_queue_finish(op, r);
}

/** Flags of a request that changes data: durable at once where one request does it all. */
static uint32_t
step_change_flags(struct weft_vol_op *op, uint32_t flags)
{
	if (STEP_SABOTAGED(NOT_DURABLE)) {
		op->fua = (op->flags & WEFT_VOL_DURABLE) != 0;
		return flags;
	}
	op->fua = (op->flags & WEFT_VOL_DURABLE) != 0 && op->step_bytes == op->len_bytes &&
	          (op->chan->vol->device.can & WEFT_BLOCK_CAN_FUA) != 0;
	return op->fua ? flags | WEFT_BLOCK_FUA : flags;
}

/** Read or write the blocks of the step, in scratch memory. */
static void
step_blocks(struct weft_vol_op *op, enum step_phase phase, uint32_t flags)
{
	const uint64_t unit = op->chan->vol->unit_bytes, lead = step_lead(op);
	const uint64_t len = (lead + op->step_bytes + unit - 1) & ~(unit - 1);

	op->phase = phase;
	op->sub[0] = (struct iovec){op->scratch, len};
	op->req.iov = op->sub;
	op->req.iovs = 1;
	op->req.flags = flags;
	step_submit(op, phase == STEP_LOAD ? WEFT_BLOCK_READ : WEFT_BLOCK_WRITE, step_at(op) - lead,
	            len);
}

static void
step_flush(struct weft_vol_op *op)
{
	op->phase = STEP_FLUSH;
	op->req.flags = 0;
	if (STEP_SABOTAGED(FLUSH_EARLY)) {
		vol_queue_finish(op, 0);
		return;
	}
	if (op->client != NULL)
		op->mark = op->client->changes;
	step_submit(op, WEFT_BLOCK_FLUSH, 0, 0);
}

/** Move the next octets directly, if memory and device allow it. `all`: all that are left, or none.
 */
static bool
step_direct(struct weft_vol_op *op, enum weft_block_op what, bool all)
{
	const struct weft_vol *v = op->chan->vol;
	uint32_t iovs;
	uint64_t n;

	if (step_lead(op) != 0)
		return false;
	n = vol_iov_direct(op, VOL_MIN(step_left(op), v->device.max_bytes), &iovs);
	if (n == 0 || (all && n != step_left(op)))
		return false;
	op->step_bytes = n;
	op->phase = STEP_DIRECT;
	op->req.iov = op->sub;
	op->req.iovs = iovs;
	op->req.flags = what == WEFT_BLOCK_WRITE ? step_change_flags(op, 0) : 0;
	step_submit(op, what, step_at(op), n);
	return true;
}

/** How many octets go through scratch memory next. */
static uint64_t
step_scratch_bytes(const struct weft_vol_op *op)
{
	const struct weft_vol *v = op->chan->vol;
	const uint64_t unit = v->unit_bytes, lead = step_lead(op), left = step_left(op);
	const uint64_t most = VOL_MIN(VOL_PIECE_BYTES, v->device.max_bytes & ~(unit - 1));

	if (lead + left <= VOL_MIN(VOL_ONE_STEP_BYTES, most))
		return left;
	if (lead != 0)
		return unit - lead;
	return left >= unit ? VOL_MIN(left & ~(unit - 1), most) : left;
}

/* ---- What each kind begins a step with ---- */

/** The same for all that have no use for direct I/O: the blocks come to scratch memory. */
static void
step_load(struct weft_vol_op *op, uint32_t flags)
{
	if (!vol_queue_scratch(op))
		return;
	op->step_bytes = step_scratch_bytes(op);
	step_blocks(op, STEP_LOAD, flags);
}

static void
step_read(struct weft_vol_op *op)
{
	/* Not what is short and begins or ends inside a block: that is one request this way. */
	op->step_bytes = step_left(op);
	if (step_in_part(op) && step_scratch_bytes(op) == step_left(op))
		step_load(op, 0);
	else if (!step_direct(op, WEFT_BLOCK_READ, false))
		step_load(op, 0);
}

/** Fill scratch memory with what the operation writes. */
static void
step_fill(struct weft_vol_op *op)
{
	if (op->kind == WEFT_VOL_ZEROES)
		memset(op->scratch + step_lead(op), 0, op->step_bytes);
	else
		vol_iov_get(op, op->scratch + step_lead(op), op->step_bytes);
	step_blocks(op, STEP_STORE, step_change_flags(op, 0));
}

/** Write through scratch memory, what is in part of a block behind what the rest of it holds. */
static void
step_change(struct weft_vol_op *op)
{
	if (!vol_queue_scratch(op))
		return;
	op->step_bytes = step_scratch_bytes(op);
	if (step_in_part(op)) {
		op->chan->stats.read_first++;
		step_blocks(op, STEP_LOAD, 0);
	} else {
		step_fill(op);
	}
}

/** Whether a write is promised to be old or new as a whole after a crash. */
static bool
step_is_atomic(const struct weft_vol_op *op)
{
	const uint64_t piece = op->chan->vol->info.atomic_bytes;

	return op->off_bytes / piece == (op->off_bytes + op->len_bytes - 1) / piece;
}

static void
step_write(struct weft_vol_op *op)
{
	/* What has to be atomic is one request, and what is short and in part of blocks as well. */
	op->step_bytes = step_left(op);
	if (step_in_part(op) && step_scratch_bytes(op) == step_left(op))
		step_change(op);
	else if (!step_direct(op, WEFT_BLOCK_WRITE, step_is_atomic(op)))
		step_change(op);
}

static void
step_verify(struct weft_vol_op *op)
{
	step_load(op, op->chan->vol->info.verify_medium ? WEFT_BLOCK_MEDIUM : 0);
}

static void
step_compare_write(struct weft_vol_op *op)
{
	if (!vol_queue_scratch(op))
		return;
	op->step_bytes = op->len_bytes;
	step_blocks(op, STEP_LOAD, 0);
}

static void
step_zeroes(struct weft_vol_op *op)
{
	const struct weft_vol *v = op->chan->vol;
	const uint64_t block = v->device.block_bytes, lead = step_at(op) & (block - 1);
	uint64_t n = VOL_MIN(step_left(op), v->device.max_zeroes_bytes) & ~(block - 1);

	if ((v->device.can & WEFT_BLOCK_CAN_ZEROES) == 0 || lead != 0 || n == 0) {
		step_change(op);
		return;
	}
	op->step_bytes = n;
	op->phase = STEP_DIRECT;
	op->req.flags =
	        step_change_flags(op, (op->flags & WEFT_VOL_KEEP) != 0 ? WEFT_BLOCK_KEEP : 0U);
	step_submit(op, WEFT_BLOCK_ZEROES, step_at(op), n);
}

/** The end of a step without a request. */
static void
step_skip(struct weft_vol_op *op)
{
	op->done_bytes = op->len_bytes;
	vol_queue_run(op);
}

static void
step_discard(struct weft_vol_op *op)
{
	const struct weft_vol *v = op->chan->vol;
	const uint64_t piece = VOL_MAX(v->device.discard_bytes, v->device.block_bytes);
	const uint64_t from = (step_at(op) + piece - 1) / piece * piece;
	const uint64_t most = v->device.max_discard_bytes / piece * piece;
	uint64_t to = (step_at(op) + step_left(op)) / piece * piece;

	if (!v->info.discards || from >= to || most == 0) {
		step_skip(op);
		return;
	}
	to = VOL_MIN(to, from + most);
	op->step_bytes = to - step_at(op);
	op->phase = STEP_DIRECT;
	op->req.flags = 0;
	step_submit(op, WEFT_BLOCK_DISCARD, from, to - from);
}

static void
step_extents(struct weft_vol_op *op)
{
	const struct weft_vol *v = op->chan->vol;
	const uint64_t block = v->device.block_bytes, from = step_at(op) & ~(block - 1);
	const uint64_t to = (step_at(op) + op->len_bytes + block - 1) & ~(block - 1);

	if ((v->device.can & WEFT_BLOCK_CAN_EXTENTS) == 0) {
		op->extents[0] = (struct weft_block_extent){.off_bytes = op->off_bytes,
		                                            .len_bytes = op->len_bytes};
		op->extents_found = 1;
		step_skip(op);
		return;
	}
	op->phase = STEP_DIRECT;
	op->req.flags = 0;
	op->req.extents = op->extents;
	op->req.max_extents = op->max_extents;
	step_submit(op, WEFT_BLOCK_EXTENTS, from, to - from);
}

/* ---- What follows a result ---- */

/** The step is done: count it, and go on in the next poll. */
static void
step_end(struct weft_vol_op *op)
{
	vol_queue_scratch_end(op);
	if (op->iovs > 0)
		vol_iov_advance(op, op->step_bytes);
	op->done_bytes += op->step_bytes;
	vol_step(op);
}

/** Hash a slice of what was loaded. */
static void
step_hash(struct weft_vol_op *op)
{
	const uint64_t slice = op->hash->slice_bytes != 0 ? op->hash->slice_bytes : 32768;
	const uint64_t n = VOL_MIN(slice, op->step_bytes - op->hashed_bytes);

	op->hash->update(&op->hash_state, op->scratch + step_lead(op) + op->hashed_bytes, n);
	op->hashed_bytes += n;
	if (op->hashed_bytes < op->step_bytes) {
		vol_queue_run(op);
		return;
	}
	op->phase = STEP_DIRECT;
	vol_queue_scratch_end(op);
	op->done_bytes += op->step_bytes;
	vol_queue_run(op); /* one slice in each poll */
}

static void
step_compare(struct weft_vol_op *op)
{
	const uint8_t *is = op->scratch + step_lead(op), *expect = op->expect;

	if (memcmp(is, expect, op->len_bytes) == 0) {
		step_fill(op);
		return;
	}
	while (is[op->done_bytes] == expect[op->done_bytes])
		op->done_bytes++;
	vol_queue_finish(op, -EILSEQ);
}

/** Blocks have come to scratch memory. */
static void
step_loaded(struct weft_vol_op *op)
{
	switch (op->kind) {
	case WEFT_VOL_READ:
		vol_iov_put(op, op->scratch + step_lead(op), op->step_bytes);
		step_end(op);
		break;
	case WEFT_VOL_VERIFY:
		op->phase = STEP_HASH;
		op->hashed_bytes = 0;
		vol_queue_run(op);
		break;
	case WEFT_VOL_COMPARE_WRITE:
		step_compare(op);
		break;
	default:
		step_fill(op);
		break;
	}
}

/** Extents of the device become extents of the volume. */
static void
step_extents_found(struct weft_vol_op *op)
{
	const uint64_t data_at = op->chan->vol->info.super.data_at;
	const uint64_t from = op->off_bytes, end = op->off_bytes + op->len_bytes;

	for (uint32_t i = 0; i < op->req.extents_found; i++) {
		struct weft_block_extent *e = &op->extents[i];
		uint64_t lo = e->off_bytes - data_at, hi = lo + e->len_bytes;

		lo = e->off_bytes < data_at + from ? from : lo;
		hi = VOL_MIN(hi, end);
		e->off_bytes = lo;
		e->len_bytes = hi - lo;
		op->step_bytes = hi - from;
	}
	op->extents_found = op->req.extents_found;
	op->done_bytes = op->step_bytes;
	vol_queue_finish(op, 0);
}

/** A flush of the device was done for op: by itself, or for its durable change. */
static void
step_flushed(struct weft_vol_op *op)
{
	struct weft_vol_client *client = op->client;
	int status = 0;

	if (client != NULL && client->durable < op->mark)
		client->durable = op->mark;
	if (op->kind == WEFT_VOL_FLUSH)
		op->done_bytes = op->len_bytes;
	if (client != NULL && client->lost && op->kind == WEFT_VOL_FLUSH &&
	    !STEP_SABOTAGED(NOT_TOLD)) {
		client->lost = false;
		op->chan->stats.told_lost++;
		status = -EIO;
	}
	vol_queue_finish(op, status);
}

static void
step_done(struct weft_block_req *req)
{
	struct weft_vol_op *op = req->owner;

	if (req->status != 0) {
		if (op->client != NULL && op->kind == WEFT_VOL_FLUSH && req->status == -EIO)
			op->client->lost = false; /* it is told now */
		vol_queue_finish(op, req->status);
	} else if (op->phase == STEP_FLUSH) {
		step_flushed(op);
	} else if (op->kind == WEFT_VOL_EXTENTS) {
		step_extents_found(op);
	} else if (op->phase == STEP_LOAD && op->canceled) {
		vol_queue_finish(op, -ECANCELED);
	} else if (op->phase == STEP_LOAD) {
		step_loaded(op);
	} else {
		step_end(op);
	}
}

/** All octets are done. */
static void
step_last(struct weft_vol_op *op)
{
	const bool changes = op->kind == WEFT_VOL_WRITE || op->kind == WEFT_VOL_ZEROES ||
	                     op->kind == WEFT_VOL_COMPARE_WRITE || op->kind == WEFT_VOL_DISCARD;

	if ((op->flags & WEFT_VOL_DURABLE) != 0 && !op->fua && op->len_bytes > 0) {
		step_flush(op);
		return;
	}
	if (changes && !op->fua && op->client != NULL)
		op->client->changes++;
	vol_queue_finish(op, 0);
}

void
vol_step(struct weft_vol_op *op)
{
	static void (*const begin[WEFT_VOL_KINDS])(struct weft_vol_op *) = {
	        [WEFT_VOL_READ] = step_read,       [WEFT_VOL_WRITE] = step_write,
	        [WEFT_VOL_VERIFY] = step_verify,   [WEFT_VOL_COMPARE_WRITE] = step_compare_write,
	        [WEFT_VOL_DISCARD] = step_discard, [WEFT_VOL_ZEROES] = step_zeroes,
	        [WEFT_VOL_EXTENTS] = step_extents,
	};
	const bool finished = op->kind != WEFT_VOL_FLUSH && op->done_bytes == op->len_bytes &&
	                      ((op->flags & WEFT_VOL_DURABLE) == 0 || op->fua);

	if (!finished && op->canceled) {
		vol_queue_finish(op, -ECANCELED);
	} else if (!finished && op->deadline_ns != 0 && op->chan->now_ns >= op->deadline_ns) {
		vol_queue_finish(op, -ETIMEDOUT);
	} else if (op->kind == WEFT_VOL_FLUSH) {
		/* The earlier changes are done. Later ones need not wait for the flush. */
		vol_queue_leave(op);
		step_flush(op);
	} else if (op->phase == STEP_HASH) {
		step_hash(op);
	} else if (op->done_bytes == op->len_bytes) {
		step_last(op);
	} else {
		begin[op->kind](op);
	}
}
