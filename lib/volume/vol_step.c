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
	STEP_HASH,      /**< no request: what was loaded is hashed, a slice in each poll */
	STEP_MAP,       /**< checksums: a bit of the channel's map is written, */
	STEP_MAP_FLUSH, /**< and made durable */
	STEP_SUMS_LOAD,
	STEP_SUMS_STORE, /**< in front of a change */
	STEP_SCRUB_STORE,
};

static void step_done(struct weft_block_req *req);
static void step_failed(struct weft_vol_op *op, int status);
static void step_map_done(struct weft_vol_op *op, int status);

/* ---- Places ---- */

/** Where the operation's next octet is on the device. */
static uint64_t
step_at(const struct weft_vol_op *op)
{
	return op->chan->vol->info.super.data_at + op->off_bytes + op->done_bytes;
}

/** Whether it wants to know what the medium holds, and compares no checksums: the page of these may
 * be newer, in a cache. */
static bool
step_of_medium(const struct weft_vol_op *op)
{
	return op->kind == WEFT_VOL_VERIFY || (op->flags & WEFT_VOL_MEDIUM) != 0;
}

/** The group of the operation's next octet. */
static uint64_t
step_group(const struct weft_vol_op *op)
{
	return (op->off_bytes + op->done_bytes) / WEFT_VOL_GROUP_BYTES;
}

/** Octets that are left; with checksums: in this group. */
static uint64_t
step_left(const struct weft_vol_op *op)
{
	const uint64_t left = op->len_bytes - op->done_bytes;

	if (op->chan->vol->sums == NULL)
		return left;
	return VOL_MIN(left, WEFT_VOL_GROUP_BYTES -
	                             (op->off_bytes + op->done_bytes) % WEFT_VOL_GROUP_BYTES);
}

/** The page of checksums, which goes with the scratch memory. */
static uint8_t *
step_page(const struct weft_vol_op *op)
{
	return op->scratch + VOL_PIECE_BYTES;
}

/** Index in the page of the block at an offset of the device. */
static uint32_t
step_index(const struct weft_vol_op *op, uint64_t off_bytes)
{
	return (uint32_t)((off_bytes - op->chan->vol->info.super.data_at) % WEFT_VOL_GROUP_BYTES /
	                  WEFT_VOL_SUM_BLOCK);
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
step_submit(struct weft_vol_op *op, enum weft_block_op what, uint64_t off_bytes, uint64_t len_bytes)
{
	struct weft_vol_chan *c = op->chan;
	int r;

	op->req.op = what;
	op->req.off_bytes = off_bytes;
	op->req.len_bytes = len_bytes;
	op->req.deadline_ns = op->deadline_ns;
	op->req.done = step_done;
	op->req.late = vol_queue_late;
	op->req.owner = op;
	op->state = VOL_DEVICE;
	c->fed = true;
	r = weft_block_submit(c->chan, &op->req);
	if (r == 0)
		return;
	if (op->phase == STEP_MAP || op->phase == STEP_MAP_FLUSH)
		step_map_done(op, r);
	else
		step_failed(op, r);
}

/** Read or write the page of checksums of a group. */
static void
step_sums(struct weft_vol_op *op, enum step_phase phase, enum weft_block_op what, uint64_t group)
{
	op->phase = phase;
	op->sums_iov = (struct iovec){step_page(op), WEFT_VOL_SUM_BLOCK};
	op->req.iov = &op->sums_iov;
	op->req.iovs = 1;
	op->req.flags = 0;
	step_submit(op, what, op->chan->vol->info.super.sums_at + group * WEFT_VOL_SUM_BLOCK,
	            WEFT_VOL_SUM_BLOCK);
}

/** Submit the request of a change, behind its checksums. */
static void
step_submit_change(struct weft_vol_op *op, enum weft_block_op what, uint64_t off_bytes,
                   uint64_t len_bytes)
{
	struct vol_sums *sums = op->chan->vol->sums;

	if (!op->changed)
		op->lost_at = op->chan->lost_flushes;
	op->changed = true;
	if (sums == NULL) {
		step_submit(op, what, off_bytes, len_bytes);
		return;
	}
	vol_sums_use(sums, step_group(op));
	vol_sums_set(step_page(op), step_index(op, off_bytes),
	             (uint32_t)(len_bytes / WEFT_VOL_SUM_BLOCK),
	             what == WEFT_BLOCK_WRITE ? op->req.iov : NULL);
	op->next.op = what;
	op->next.phase = op->phase;
	op->next.flags = op->req.flags;
	op->next.iovs = op->req.iovs;
	op->next.off_bytes = off_bytes;
	op->next.len_bytes = len_bytes;
	step_sums(op, STEP_SUMS_STORE, WEFT_BLOCK_WRITE, step_group(op));
}

/** The checksums are written: submit the change. */
static void
step_sums_stored(struct weft_vol_op *op)
{
	op->sums_stored = true;
	op->phase = op->next.phase;
	op->req.iov = op->sub;
	op->req.iovs = op->next.iovs;
	op->req.flags = op->next.flags;
	step_submit(op, op->next.op, op->next.off_bytes, op->next.len_bytes);
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

/** Flags of a request that reads data for the operation. */
static uint32_t
step_read_flags(const struct weft_vol_op *op)
{
	return step_of_medium(op) && op->chan->vol->info.verify_medium ? WEFT_BLOCK_MEDIUM : 0U;
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
	if (phase == STEP_LOAD)
		step_submit(op, WEFT_BLOCK_READ, step_at(op) - lead, len);
	else
		step_submit_change(op, WEFT_BLOCK_WRITE, step_at(op) - lead, len);
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
	op->req.flags = what == WEFT_BLOCK_WRITE ? step_change_flags(op, 0) : step_read_flags(op);
	if (what == WEFT_BLOCK_WRITE)
		step_submit_change(op, what, step_at(op), n);
	else
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
		step_load(op, step_read_flags(op));
	else if (!step_direct(op, WEFT_BLOCK_READ, false))
		step_load(op, step_read_flags(op));
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
	else if (op->chan->vol->sums != NULL && (op->flags & WEFT_VOL_LIVE) != 0)
		step_change(op);
	else if (!step_direct(op, WEFT_BLOCK_WRITE, step_is_atomic(op)))
		step_change(op);
}

static void
step_verify(struct weft_vol_op *op)
{
	step_load(op, step_read_flags(op));
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
	const uint64_t block = VOL_MAX(v->device.block_bytes, v->unit_bytes);
	const uint64_t lead = step_at(op) & (block - 1);
	uint64_t n = VOL_MIN(step_left(op), v->device.max_zeroes_bytes) & ~(block - 1);

	if ((v->device.can & WEFT_BLOCK_CAN_ZEROES) == 0 || lead != 0 || n == 0) {
		step_change(op);
		return;
	}
	op->step_bytes = n;
	op->phase = STEP_DIRECT;
	op->req.flags =
	        step_change_flags(op, (op->flags & WEFT_VOL_KEEP) != 0 ? WEFT_BLOCK_KEEP : 0U);
	step_submit_change(op, WEFT_BLOCK_ZEROES, step_at(op), n);
}

/** The end of a step without a request. */
static void
step_skip(struct weft_vol_op *op, uint64_t bytes)
{
	vol_queue_scratch_end(op);
	op->sums_loaded = false;
	op->done_bytes += bytes;
	vol_queue_run(op);
}

static void
step_discard(struct weft_vol_op *op)
{
	const struct weft_vol *v = op->chan->vol;
	const uint64_t block = VOL_MAX(v->device.block_bytes, v->unit_bytes);
	const uint64_t piece = VOL_MAX(v->device.discard_bytes, block);
	const uint64_t from = (step_at(op) + piece - 1) / piece * piece;
	const uint64_t most = v->device.max_discard_bytes / piece * piece;
	uint64_t to = (step_at(op) + step_left(op)) / piece * piece;

	if (!v->info.discards || from >= to || most == 0) {
		step_skip(op, step_left(op));
		return;
	}
	to = VOL_MIN(to, from + most);
	op->step_bytes = to - step_at(op);
	op->phase = STEP_DIRECT;
	op->req.flags = 0;
	step_submit_change(op, WEFT_BLOCK_DISCARD, from, to - from);
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
		step_skip(op, op->len_bytes);
		return;
	}
	op->phase = STEP_DIRECT;
	op->req.flags = 0;
	op->req.extents = op->extents;
	op->req.max_extents = op->max_extents;
	step_submit(op, WEFT_BLOCK_EXTENTS, from, to - from);
}

static void
step_scrub(struct weft_vol_op *op)
{
	/* New checksums are of what is read from here on: a flush that is lost may change it. */
	if ((op->off_bytes + op->done_bytes) % WEFT_VOL_GROUP_BYTES == 0)
		op->lost_at = op->chan->lost_flushes;
	step_load(op, 0);
}

/* ---- Checksums: what a step has to have first ---- */

/** Set the group's bit in the channel's map, on the medium. */
static void
step_map(struct weft_vol_op *op)
{
	struct weft_vol_chan *c = op->chan;
	const struct weft_vol *v = c->vol;
	const uint64_t group = step_group(op), page = group / 8 / WEFT_VOL_SUM_BLOCK;

	if (c->map_busy) {
		vol_queue_map(op);
		return;
	}
	c->map_busy = true;
	memcpy(step_page(op), c->map + page * WEFT_VOL_SUM_BLOCK, WEFT_VOL_SUM_BLOCK);
	step_page(op)[group / 8 % WEFT_VOL_SUM_BLOCK] |= (uint8_t)(1U << group % 8);
	op->phase = STEP_MAP;
	op->sums_iov = (struct iovec){step_page(op), WEFT_VOL_SUM_BLOCK};
	op->req.iov = &op->sums_iov;
	op->req.iovs = 1;
	op->req.flags = v->device.can & WEFT_BLOCK_CAN_FUA ? WEFT_BLOCK_FUA : 0U;
	step_submit(op, WEFT_BLOCK_WRITE,
	            v->info.super.map_at + c->slot * v->sums->map_bytes + page * WEFT_VOL_SUM_BLOCK,
	            WEFT_VOL_SUM_BLOCK);
}

/** A request for the map has ended. */
static void
step_map_done(struct weft_vol_op *op, int status)
{
	struct weft_vol_chan *c = op->chan;
	struct vol_sums *s = c->vol->sums;
	const uint64_t group = step_group(op);

	if (status == 0 && op->canceled)
		status = -ECANCELED;
	if (status == 0 && op->phase == STEP_MAP && (op->req.flags & WEFT_BLOCK_FUA) == 0) {
		op->phase = STEP_MAP_FLUSH;
		step_submit(op, WEFT_BLOCK_FLUSH, 0, 0);
		return;
	}
	if (status == 0)
		c->map[group / 8] |= (uint8_t)(1U << group % 8);
	else /* the medium may have the bit: the next tidy writes the page again */
		s->unsure[(c->slot * s->map_bytes + group / 8) / WEFT_VOL_SUM_BLOCK] = true;
	atomic_fetch_add_explicit(&s->noted, 1, memory_order_relaxed);
	vol_queue_map_end(c);
	if (status != 0)
		vol_queue_finish(op, status);
	else
		vol_queue_run(op);
}

/** Whether the page of checksums is there, and the group noted as in use if it is to be changed. */
static bool
step_sums_ready(struct weft_vol_op *op)
{
	const bool noted = op->kind == WEFT_VOL_READ || op->kind == WEFT_VOL_SCRUB ||
	                   vol_sums_bit(op->chan->map, step_group(op));

	if (!vol_queue_scratch(op))
		return false;
	if (!noted) {
		step_map(op);
		return false;
	}
	if (!op->sums_loaded)
		step_sums(op, STEP_SUMS_LOAD, WEFT_BLOCK_READ, step_group(op));
	return op->sums_loaded;
}

/** Compare blocks that were read; note the first one that is damaged. */
static bool
step_compare_sums(struct weft_vol_op *op, uint64_t off_bytes, uint64_t len_bytes,
                  const struct iovec *iov)
{
	const uint32_t first = step_index(op, off_bytes);
	int64_t bad = vol_sums_check(step_page(op), first,
	                             (uint32_t)(len_bytes / WEFT_VOL_SUM_BLOCK), iov);

	if (bad < 0)
		return true;
	if (op->damaged++ == 0)
		op->damaged_off_bytes = step_group(op) * WEFT_VOL_GROUP_BYTES +
		                        (first + (uint64_t)bad) * WEFT_VOL_SUM_BLOCK;
	op->chan->stats.damaged++;
	return false;
}

/** Whether what was read has its checksums. Of a write only the blocks count that it has in part.
 *  */
static bool
step_is_sound(struct weft_vol_op *op)
{
	const struct weft_vol *v = op->chan->vol;
	const struct weft_block_req *req = &op->req;
	const uint64_t unit = WEFT_VOL_SUM_BLOCK;
	struct iovec end = {op->scratch, unit};
	bool sound = true;

	if (v->sums == NULL || step_of_medium(op) || op->kind == WEFT_VOL_SCRUB)
		return true;
	if (vol_sums_doubted(v->sums, step_group(op))) {
		op->chan->stats.unverified++;
		return true;
	}
	if (op->kind == WEFT_VOL_READ || op->kind == WEFT_VOL_COMPARE_WRITE)
		return step_compare_sums(op, req->off_bytes, req->len_bytes, req->iov);
	if (step_lead(op) != 0)
		sound = step_compare_sums(op, req->off_bytes, unit, &end);
	end.iov_base = op->scratch + req->len_bytes - unit;
	if (sound && ((step_at(op) + op->step_bytes) & (unit - 1)) != 0)
		sound = step_compare_sums(op, req->off_bytes + req->len_bytes - unit, unit, &end);
	return sound;
}

/* ---- What follows a result ---- */

/** The step is done: count it, and go on in the next poll. */
static void
step_end(struct weft_vol_op *op)
{
	vol_queue_scratch_end(op);
	op->sums_loaded = op->sums_stored = false;
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

/** The page of the group that was scrubbed is not needed any more. */
static void
step_scrubbed(struct weft_vol_op *op)
{
	vol_queue_scratch_end(op);
	op->sums_loaded = false;
	vol_queue_run(op);
}

/** Blocks are to be compared with their checksums, or get new ones where these are in doubt. */
static void
step_scrub_loaded(struct weft_vol_op *op)
{
	struct vol_sums *sums = op->chan->vol->sums;
	const uint64_t group = step_group(op);
	const bool doubted = sums != NULL && vol_sums_doubted(sums, group);
	/* What is never written stays in doubt. */
	const bool mend = doubted && !op->chan->vol->info.read_only;
	const uint64_t from = op->req.off_bytes, len = op->req.len_bytes;

	op->chan->stats.unverified += doubted && !mend;
	if (mend)
		vol_sums_set(step_page(op), step_index(op, from),
		             (uint32_t)(len / WEFT_VOL_SUM_BLOCK), op->sub);
	for (uint64_t at = 0; sums != NULL && !doubted && at < len; at += WEFT_VOL_SUM_BLOCK) {
		const struct iovec one = {op->scratch + at, WEFT_VOL_SUM_BLOCK};

		(void)step_compare_sums(op, from + at, WEFT_VOL_SUM_BLOCK, &one);
	}
	op->done_bytes += op->step_bytes;
	if (step_group(op) == group && op->done_bytes < op->len_bytes)
		vol_queue_run(op);
	else if (mend)
		step_sums(op, STEP_SCRUB_STORE, WEFT_BLOCK_WRITE, group);
	else
		step_scrubbed(op);
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
	case WEFT_VOL_SCRUB:
		step_scrub_loaded(op);
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
	if (op->kind == WEFT_VOL_SCRUB) {
		/* A flush that was lost meanwhile leaves the doubt for the next scrub. */
		if (op->lost_at == op->chan->lost_flushes)
			vol_sums_doubt(op->chan->vol->sums,
			               (op->off_bytes + op->done_bytes - 1) / WEFT_VOL_GROUP_BYTES,
			               false);
		step_scrubbed(op);
		return;
	}
	if (op->kind == WEFT_VOL_FLUSH)
		op->done_bytes = op->len_bytes;
	if (client != NULL && client->lost != 0 && op->kind == WEFT_VOL_FLUSH &&
	    !STEP_SABOTAGED(NOT_TOLD)) {
		status = client->lost;
		client->lost = 0;
		op->chan->stats.told_lost++;
	}
	vol_queue_finish(op, status);
}

/** A request has failed. If its checksums were written, and it was not, they are in doubt. */
static void
step_failed(struct weft_vol_op *op, int status)
{
	struct vol_sums *sums = op->chan->vol->sums;

	if (sums != NULL && (op->phase == STEP_SUMS_STORE || op->sums_stored))
		vol_sums_doubt(sums, step_group(op), true);
	if (op->client != NULL && op->kind == WEFT_VOL_FLUSH && vol_tells_loss(status))
		op->client->lost = 0; /* it is told now */
	if (op->phase == STEP_FLUSH && vol_tells_loss(status))
		op->changed = false; /* likewise of its own change */
	vol_queue_finish(op, status);
}

static void
step_done(struct weft_block_req *req)
{
	struct weft_vol_op *op = req->owner;

	if (op->phase == STEP_MAP || op->phase == STEP_MAP_FLUSH) {
		step_map_done(op, req->status);
	} else if (req->status != 0) {
		step_failed(op, req->status);
	} else if (op->phase == STEP_SUMS_LOAD) {
		op->sums_loaded = true;
		vol_step(op);
	} else if (op->phase == STEP_SUMS_STORE && op->canceled) {
		step_failed(op, -ECANCELED);
	} else if (op->phase == STEP_SUMS_STORE) {
		step_sums_stored(op);
	} else if (op->phase == STEP_SCRUB_STORE) {
		step_flush(op);
	} else if (op->phase == STEP_FLUSH) {
		step_flushed(op);
	} else if (op->kind == WEFT_VOL_EXTENTS) {
		step_extents_found(op);
	} else if (op->phase == STEP_LOAD && op->canceled) {
		vol_queue_finish(op, -ECANCELED);
	} else if ((op->phase == STEP_LOAD ||
	            (op->phase == STEP_DIRECT && op->kind == WEFT_VOL_READ)) &&
	           !step_is_sound(op)) {
		vol_queue_finish(op, -EBADMSG);
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

	/* A flush was lost between two steps: what the first one has done may be lost with it. */
	if (op->changed && op->lost_at != op->chan->lost_flushes) {
		op->changed = false; /* the client is told now */
		vol_queue_finish(op, op->chan->lost_status);
		return;
	}
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
	        [WEFT_VOL_EXTENTS] = step_extents, [WEFT_VOL_SCRUB] = step_scrub,
	};
	const bool finished = op->kind != WEFT_VOL_FLUSH && op->kind != WEFT_VOL_SNAPSHOT &&
	                      op->done_bytes == op->len_bytes &&
	                      ((op->flags & WEFT_VOL_DURABLE) == 0 || op->fua);

	if (!finished && op->canceled) {
		vol_queue_finish(op, -ECANCELED);
	} else if (!finished && op->deadline_ns != 0 && op->chan->now_ns >= op->deadline_ns) {
		vol_queue_finish(op, -ETIMEDOUT);
	} else if (op->kind == WEFT_VOL_SNAPSHOT) {
		vol_snap_step(op);
	} else if (op->kind == WEFT_VOL_FLUSH) {
		/* The earlier changes are done. Later ones need not wait for the flush. */
		vol_queue_leave(op);
		step_flush(op);
	} else if (op->phase == STEP_HASH) {
		step_hash(op);
	} else if (op->done_bytes == op->len_bytes) {
		step_last(op);
	} else if (op->chan->vol->sums == NULL || step_of_medium(op) ||
	           op->kind == WEFT_VOL_EXTENTS || step_sums_ready(op)) {
		begin[op->kind](op);
	}
}
