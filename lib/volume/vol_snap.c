/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Snapshots and clones of a volume.
 *
 * A snapshot of the present state has the range of the whole volume, as a read has: changes that
 * were submitted before it are done, later ones wait. Then the device is flushed, and makes the
 * snapshot.
 *
 * With checksums the maps are written in between, as at a proper close: what was flushed is right,
 * so no group of the snapshot is in doubt but those that are so in the volume. First the doubts go
 * to the first map, durably, then the other maps are cleared. The volume goes on with maps that say
 * the same: a channel sets the bit of a group again before it changes the group. The memory of a
 * map loses a bit before the medium does, and gets one when the medium has it durably, so at each
 * moment, and after any failure, it has no bit that the medium lacks. It may lack one that the
 * medium has: a page whose write has failed is written again, whatever it has, by the next that
 * has the maps.
 *
 * The superblock of a snapshot says that it is one, so nothing opens it to write; that of a clone
 * has another UUID. A backend that cannot write to a snapshot leaves the first one out.
 */

#include "vol_priv.h"

#ifdef WEFT_TEST_HOOKS
#include "volume_sabotage.h"
#define SNAP_SABOTAGED(fault) (volume_sabotage == VOLUME_##fault)
#else
#define SNAP_SABOTAGED(fault) 0
#endif

#define SNAP_PAGES 16U /**< of the maps, that one poll looks at */

enum snap_phase {
	SNAP_BEGIN,
	SNAP_FLUSH,
	SNAP_MAPS_WAIT, /**< no request: another operation has the maps, or had them */
	SNAP_MAPS,      /**< no request: the maps are looked at, some pages in each poll */
	SNAP_MAP,       /**< a page of a map is written */
	SNAP_MAP_FLUSH, /**< what was written of the maps is made durable */
	SNAP_DEVICE,    /**< the device makes the snapshot */
};

/** What is done with the maps, one after the other. What is written is flushed before the next. */
enum snap_pass {
	SNAP_DOUBTS, /**< the first map gets the doubts */
	SNAP_NOTE,   /**< its memory, too: they are durable */
	SNAP_CLEAR,  /**< the other maps are cleared */
	SNAP_PASSES
};

static void
snap_fail(struct weft_vol_op *op, int status, const char *reason)
{
	(void)weft_block_snap_refuse(&op->snap->block, status, "%s", reason);
	vol_queue_finish(op, status);
}

static void snap_done(struct weft_block_req *req);

static void
snap_submit(struct weft_vol_op *op, enum snap_phase phase, enum weft_block_op what,
            uint64_t off_bytes, uint64_t len_bytes)
{
	int r;

	op->phase = phase;
	op->req.op = what;
	op->req.flags = 0;
	op->req.off_bytes = off_bytes;
	op->req.len_bytes = len_bytes;
	op->req.snap = &op->snap->block;
	op->req.deadline_ns = op->deadline_ns;
	op->req.done = snap_done;
	op->req.late = vol_queue_late;
	op->req.owner = op;
	op->state = VOL_DEVICE;
	op->chan->fed = true;
	r = weft_block_submit(op->chan->chan, &op->req);
	if (r != 0)
		vol_queue_finish(op, r);
}

/* ---- Checksums: the maps ---- */

/** The octets that a page of the maps is to have, in the scratch memory. False: it has them. */
static bool
snap_page(struct weft_vol_op *op)
{
	struct vol_sums *s = op->chan->vol->sums;
	struct weft_vol_snap *snap = op->snap;
	bool *unsure = &s->unsure[snap->at / WEFT_VOL_SUM_BLOCK];
	uint8_t *map = s->maps + snap->at, *saved;
	bool more = false;

	if (snap->pass == SNAP_CLEAR) {
		memset(op->scratch, 0, WEFT_VOL_SUM_BLOCK);
		if (!*unsure && memcmp(map, op->scratch, WEFT_VOL_SUM_BLOCK) == 0)
			return false;
		memset(map, 0, WEFT_VOL_SUM_BLOCK);
		*unsure = true;
		return true;
	}
	saved = s->saved + snap->at;
	if (snap->pass == SNAP_NOTE) {
		/* What is never written to takes no memory. */
		if (memcmp(map, saved, WEFT_VOL_SUM_BLOCK) != 0)
			memcpy(map, saved, WEFT_VOL_SUM_BLOCK);
		return false;
	}
	for (uint32_t i = 0; i < WEFT_VOL_SUM_BLOCK; i++)
		saved[i] = atomic_load_explicit(&s->doubt[snap->at + i], memory_order_relaxed);
	if (!*unsure && memcmp(map, saved, WEFT_VOL_SUM_BLOCK) == 0)
		return false;
	for (uint32_t i = 0; i < WEFT_VOL_SUM_BLOCK; i++) {
		more = more || (saved[i] & ~(unsigned int)map[i]) != 0;
		map[i] &= saved[i];
	}
	/* A tidy has to come when these doubts have ended. */
	if (more)
		atomic_fetch_add_explicit(&s->noted, 1, memory_order_relaxed);
	memcpy(op->scratch, saved, WEFT_VOL_SUM_BLOCK);
	*unsure = true;
	return true;
}

/** What this pass has written is durable. */
static void
snap_sure(const struct weft_vol_op *op)
{
	const struct vol_sums *s = op->chan->vol->sums;
	const uint64_t pages = s->map_bytes / WEFT_VOL_SUM_BLOCK;

	if (op->snap->pass == SNAP_CLEAR)
		memset(s->unsure + pages, 0, (WEFT_VOL_MAPS - 1) * pages * sizeof(bool));
	else
		memset(s->unsure, 0, pages * sizeof(bool));
}

/** All pages of a pass were looked at. */
static void
snap_pass_end(struct weft_vol_op *op)
{
	struct weft_vol_snap *snap = op->snap;

	if (snap->wrote) {
		snap_submit(op, SNAP_MAP_FLUSH, WEFT_BLOCK_FLUSH, 0, 0);
		return;
	}
	snap->pass++;
	/* The other maps follow the first one. */
	snap->at = snap->pass == SNAP_NOTE ? 0 : op->chan->vol->sums->map_bytes;
	if (snap->pass == SNAP_PASSES && snap->maps_only) {
		vol_queue_finish(op, 0);
		return;
	}
	if (snap->pass == SNAP_PASSES) {
		vol_queue_scratch_end(op);
		op->phase = SNAP_DEVICE;
	}
	vol_queue_run(op);
}

/** Look at the next pages, and write the first one that has to be written. */
static void
snap_maps(struct weft_vol_op *op)
{
	const struct weft_vol *v = op->chan->vol;
	struct weft_vol_snap *snap = op->snap;
	const uint64_t end =
	        snap->pass == SNAP_CLEAR ? WEFT_VOL_MAPS * v->sums->map_bytes : v->sums->map_bytes;

	if (!vol_queue_scratch(op))
		return;
	for (unsigned int n = 0; n < SNAP_PAGES && snap->at < end; n++) {
		if (snap_page(op)) {
			op->sums_iov = (struct iovec){op->scratch, WEFT_VOL_SUM_BLOCK};
			op->req.iov = &op->sums_iov;
			op->req.iovs = 1;
			snap_submit(op, SNAP_MAP, WEFT_BLOCK_WRITE, v->info.super.map_at + snap->at,
			            WEFT_VOL_SUM_BLOCK);
			return;
		}
		snap->at += WEFT_VOL_SUM_BLOCK;
	}
	if (snap->at < end)
		vol_queue_run(op);
	else
		snap_pass_end(op);
}

static void
snap_maps_begin(struct weft_vol_op *op)
{
	int r;

	if (op->chan->vol->sums == NULL || SNAP_SABOTAGED(SNAP_MAPS_KEPT)) {
		op->phase = SNAP_DEVICE;
		vol_queue_run(op);
		return;
	}
	op->phase = SNAP_MAPS_WAIT;
	r = vol_queue_maps(op);
	if (r == -EBUSY) {
		snap_fail(op, r, "another snapshot or clone of the volume is being made");
	} else if (r == 0) {
		op->snap->at = 0;
		op->snap->pass = SNAP_DOUBTS;
		op->phase = SNAP_MAPS;
		vol_queue_run(op);
	}
}

/* ---- The snapshot ---- */

/** The superblock of the snapshot or clone, in both of its places. */
static void
snap_super(struct weft_vol_op *op)
{
	const struct weft_vol *v = op->chan->vol;
	struct weft_vol_super s = v->info.super;
	struct weft_block_snap *b = &op->snap->block;

	b->patches = 0;
	if (b->what == WEFT_BLOCK_SNAP_CREATE) {
		s.ro_compat |= WEFT_VOL_RO_COMPAT_SNAPSHOT;
	} else if (b->what == WEFT_BLOCK_SNAP_CLONE) {
		memcpy(s.uuid, op->snap->uuid, sizeof(s.uuid));
		s.created_ns = b->created_ns;
		s.generation++;
	} else {
		return;
	}
	weft_vol_super_encode(&s, op->snap->page);
	weft_vol_super_encode(&v->info.super, op->snap->own);
	for (; b->patches < 2; b->patches++)
		/* A snapshot of before a format is not of this volume, and one of before a resize
		 * does not have the length that its superblock would say. */
		b->patch[b->patches] = (struct weft_block_patch){
		        .off_bytes = (uint64_t)b->patches * WEFT_VOL_COPY_AT,
		        .len_bytes = WEFT_VOL_SUPER_BYTES,
		        .data = op->snap->page,
		        .guard_off_bytes = WEFT_VOL_UUID_AT,
		        .guard_bytes = WEFT_VOL_ID_BYTES,
		        .guard = op->snap->own + WEFT_VOL_UUID_AT};
}

/** The device was flushed, with all changes that the snapshot has to have. */
static void
snap_flushed(struct weft_vol_op *op)
{
	struct weft_vol_client *client = op->client;

	if (client != NULL && client->durable < op->mark)
		client->durable = op->mark;
	/* It would lack changes of this client, which its next flush tells of. */
	if (client != NULL && client->lost)
		snap_fail(op, client->lost, "the medium has lost what was written");
	else
		snap_maps_begin(op);
}

static void
snap_done(struct weft_block_req *req)
{
	struct weft_vol_op *op = req->owner;

	if (op->phase == SNAP_DEVICE) {
		vol_queue_finish(op, req->status);
	} else if (req->status == -ETIMEDOUT || req->status == -ECANCELED) {
		vol_queue_finish(op, req->status);
	} else if (req->status != 0) {
		snap_fail(op, req->status,
		          op->phase == SNAP_FLUSH ? "the flush before it failed"
		                                  : "the maps of checksums cannot be written");
	} else if (op->phase == SNAP_FLUSH) {
		snap_flushed(op);
	} else {
		op->snap->wrote = op->phase == SNAP_MAP;
		if (op->phase == SNAP_MAP)
			op->snap->at += WEFT_VOL_SUM_BLOCK;
		else
			snap_sure(op);
		op->phase = SNAP_MAPS;
		vol_queue_run(op);
	}
}

void
vol_snap_step(struct weft_vol_op *op)
{
	if (op->phase == SNAP_BEGIN && op->range.end_bytes != 0 && !SNAP_SABOTAGED(SNAP_NO_FLUSH)) {
		if (op->client != NULL)
			op->mark = op->client->changes;
		snap_submit(op, SNAP_FLUSH, WEFT_BLOCK_FLUSH, 0, 0);
	} else if (op->phase == SNAP_MAPS_WAIT) {
		snap_maps_begin(op);
	} else if (op->phase == SNAP_MAPS) {
		snap_maps(op);
	} else {
		snap_super(op);
		snap_submit(op, SNAP_DEVICE, WEFT_BLOCK_SNAPSHOT, 0, 0);
	}
}
