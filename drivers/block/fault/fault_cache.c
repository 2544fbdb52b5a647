/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The volatile cache: writes that are done and not on the medium yet, oldest first.
 *
 * An entry reaches the medium behind all older entries that it overlaps. So an old write never
 * comes back over a newer one, as in a real cache, which holds only the newest octets. When the
 * power is cut, each atom has the octets of one of its writes or the old ones: any of them may have
 * been on its way.
 */

#include <sched.h>

#include "fault_priv.h"

/* ---- The inner device ---- */

static void
fault_inner_done(struct weft_block_req *req)
{
	*(bool *)req->owner = true;
}

int
fault_inner(struct fault_disk *f, struct weft_block_req *req)
{
	bool done = false;
	int r;

	req->done = fault_inner_done;
	req->owner = &done;
	r = weft_block_submit(f->chan, req);
	if (r != 0)
		return r;
	while (!done) {
		if (weft_block_poll(f->chan, 0) == 0)
			(void)sched_yield();
	}
	return req->status;
}

int
fault_inner_io(struct fault_disk *f, enum weft_block_op op, uint64_t off_bytes, void *data,
               uint64_t len_bytes)
{
	const uint64_t max = f->inner->info.max_bytes;
	int r = 0;

	for (uint64_t at = 0; r == 0 && at < len_bytes;) {
		struct iovec iov = {(uint8_t *)data + at, RTE_MIN(max, len_bytes - at)};
		struct weft_block_req req = {.op = op,
		                             .off_bytes = off_bytes + at,
		                             .len_bytes = iov.iov_len,
		                             .iov = &iov,
		                             .iovs = 1};
		void *bounce = NULL;

		/* The caller's memory is that of this device, which asks for no alignment. */
		if (posix_memalign(&bounce,
		                   f->inner->info.mem_align_bytes < 64
		                           ? 64
		                           : f->inner->info.mem_align_bytes,
		                   iov.iov_len) != 0)
			return -ENOMEM;
		if (op == WEFT_BLOCK_WRITE)
			memcpy(bounce, iov.iov_base, iov.iov_len);
		iov.iov_base = bounce;
		r = fault_inner(f, &req);
		if (r == 0 && op == WEFT_BLOCK_READ)
			memcpy((uint8_t *)data + at, bounce, iov.iov_len);
		free(bounce);
		at += iov.iov_len;
	}
	return r;
}

/** Change octets of the medium, of whole blocks or not. */
static int
fault_medium_write(struct fault_disk *f, uint64_t off_bytes, const uint8_t *data,
                   uint64_t len_bytes)
{
	const uint64_t start = off_bytes & ~(uint64_t)(f->block_bytes - 1);
	const uint64_t len =
	        RTE_ALIGN_CEIL(off_bytes + len_bytes, (uint64_t)f->block_bytes) - start;
	uint8_t *blocks = malloc(len);
	int r = -ENOMEM;

	if (blocks != NULL)
		r = len == len_bytes ? 0 : fault_inner_io(f, WEFT_BLOCK_READ, start, blocks, len);
	if (r == 0) {
		memcpy(blocks + (off_bytes - start), data, len_bytes);
		r = fault_inner_io(f, WEFT_BLOCK_WRITE, start, blocks, len);
	}
	free(blocks);
	return r;
}

/* ---- The cache ---- */

int
fault_cache_put(struct fault_disk *f, uint64_t off_bytes, const void *data, uint64_t len_bytes)
{
	struct fault_entry *e = calloc(1, sizeof(*e) + len_bytes);

	if (e == NULL)
		return -ENOMEM;
	e->off_bytes = off_bytes;
	e->len_bytes = len_bytes;
	e->number = ++f->entries;
	if (data != NULL)
		memcpy(e->data, data, len_bytes);
	TAILQ_INSERT_TAIL(&f->cache, e, link);
	return 0;
}

static bool
fault_overlaps(const struct fault_entry *e, uint64_t off_bytes, uint64_t len_bytes)
{
	return e->off_bytes < off_bytes + len_bytes && off_bytes < e->off_bytes + e->len_bytes;
}

int
fault_cache_read(struct fault_disk *f, uint64_t off_bytes, uint8_t *data, uint64_t len_bytes)
{
	const struct fault_entry *e;
	int r = fault_inner_io(f, WEFT_BLOCK_READ, off_bytes, data, len_bytes);

	TAILQ_FOREACH (e, &f->cache, link) {
		uint64_t from = RTE_MAX(off_bytes, e->off_bytes);
		uint64_t to = RTE_MIN(off_bytes + len_bytes, e->off_bytes + e->len_bytes);

		if (fault_overlaps(e, off_bytes, len_bytes))
			memcpy(data + (from - off_bytes), e->data + (from - e->off_bytes),
			       to - from);
	}
	return r;
}

static void
fault_entry_free(struct fault_disk *f, struct fault_entry *e)
{
	TAILQ_REMOVE(&f->cache, e, link);
	free(e);
}

void
fault_cache_drop(struct fault_disk *f)
{
	while (!TAILQ_EMPTY(&f->cache))
		fault_entry_free(f, TAILQ_FIRST(&f->cache));
}

/** Put the entries that are marked on the medium. */
static int
fault_cache_land(struct fault_disk *f)
{
	struct fault_entry *e, *next;
	int r = 0;

	for (e = TAILQ_FIRST(&f->cache); e != NULL; e = next) {
		next = TAILQ_NEXT(e, link);
		if (!e->leaks)
			continue;
		if (r == 0)
			r = fault_medium_write(f, e->off_bytes, e->data, e->len_bytes);
		fault_entry_free(f, e);
	}
	return r;
}

int
fault_cache_drain(struct fault_disk *f, uint64_t entries)
{
	struct weft_block_req flush = {.op = WEFT_BLOCK_FLUSH};
	struct fault_entry *e;
	int r;

	TAILQ_FOREACH (e, &f->cache, link)
		e->leaks = e->number <= entries;
	r = fault_cache_land(f);
	return r != 0 ? r : fault_inner(f, &flush);
}

/** Mark the entries that have to reach the medium before `last` does, and it. */
static void
fault_cache_mark(struct fault_disk *f, struct fault_entry *last)
{
	struct fault_entry *e, *newer;

	last->leaks = true;
	for (e = TAILQ_PREV(last, fault_entries, link); e != NULL;
	     e = TAILQ_PREV(e, fault_entries, link)) {
		for (newer = TAILQ_NEXT(e, link); newer != NULL && !e->leaks;
		     newer = TAILQ_NEXT(newer, link))
			e->leaks = newer->leaks &&
			           fault_overlaps(e, newer->off_bytes, newer->len_bytes);
	}
	RTE_SET_USED(f);
}

int
fault_cache_leak(struct fault_disk *f, uint64_t off_bytes, uint64_t len_bytes)
{
	struct fault_entry *e;

	TAILQ_FOREACH (e, &f->cache, link) {
		if (fault_overlaps(e, off_bytes, len_bytes))
			fault_cache_mark(f, e);
	}
	return fault_cache_land(f);
}

void
fault_cache_leak_some(struct fault_disk *f)
{
	struct fault_entry *e;

	if (f->cfg.leak_ppm == 0)
		return;
	TAILQ_FOREACH (e, &f->cache, link) {
		if (fault_chance(f, f->cfg.leak_ppm))
			fault_cache_mark(f, e);
	}
	(void)fault_cache_land(f);
}

/* ---- Power and torn writes ---- */

static uint64_t
fault_atom(const struct fault_disk *f)
{
	return f->cfg.atom_bytes == 0 ? f->block_bytes : f->cfg.atom_bytes;
}

/** Write the atoms of a range that are drawn. */
static void
fault_land_some(struct fault_disk *f, uint64_t off_bytes, const uint8_t *data, uint64_t len_bytes)
{
	const uint64_t atom = fault_atom(f);

	for (uint64_t at = off_bytes; at < off_bytes + len_bytes;) {
		uint64_t to = RTE_MIN((at / atom + 1) * atom, off_bytes + len_bytes);

		if (fault_draw(f, 2) == 0)
			(void)fault_medium_write(f, at, data + (at - off_bytes), to - at);
		at = to;
	}
}

void
fault_cache_cut(struct fault_disk *f)
{
	struct fault_entry *e;

	/* In order, each atom with even chance: the last one that lands stays, or none does. */
	while ((e = TAILQ_FIRST(&f->cache)) != NULL) {
		fault_land_some(f, e->off_bytes, e->data, e->len_bytes);
		fault_entry_free(f, e);
	}
}

void
fault_cache_tear(struct fault_disk *f, uint64_t off_bytes, const uint8_t *data, uint64_t len_bytes)
{
	(void)fault_cache_leak(f, off_bytes, len_bytes);
	fault_land_some(f, off_bytes, data, len_bytes);
}
