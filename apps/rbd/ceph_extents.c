/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Which parts of an image are data. librbd has only a call that blocks, so a thread makes it.
 * One request is answered for CEPH_EXTENT_OBJECTS objects at most.
 */

#include <errno.h>

#include "ceph.h"

#define CEPH_EXTENT_OBJECTS 64
#define CEPH_BLOCK          512ULL
#define CEPH_NO_ORDER       (-ERANGE) /* librbd has told pieces in no order */

/** Extents as they are found. */
struct ceph_found {
	struct serve_req *r;
	uint64_t at, end; /**< covered up to `at`, of what is to be covered */
	uint64_t seen;    /**< end of the last piece */
	uint32_t n;
};

/** Append a piece up to `to`, which may belong to the one before. False: there is no room. */
static bool
ceph_piece(struct ceph_found *f, uint64_t to, bool hole)
{
	struct rbd_extent *last = f->n > 0 ? &f->r->extents[f->n - 1] : NULL;

	if (to <= f->at)
		return true;
	if (last != NULL && (last->hole != 0) == hole) {
		last->len_bytes += to - f->at;
	} else {
		if (f->n == f->r->max_extents)
			return false;
		f->r->extents[f->n++] = (struct rbd_extent){
		        .off_bytes = f->at, .len_bytes = to - f->at, .hole = hole};
	}
	f->at = to;
	return true;
}

/** librbd has found a piece, in ascending order. It has octets; extents have blocks. */
static int
ceph_on_piece(uint64_t off, size_t len, int exists, void *arg)
{
	struct ceph_found *f = arg;
	const bool behind = off >= f->seen;
	uint64_t from = off & ~(CEPH_BLOCK - 1);
	uint64_t to = (off + len + CEPH_BLOCK - 1) & ~(CEPH_BLOCK - 1);

	if (exists == 0)
		return 0;
	/* What lies before the last piece was told to be a hole. */
	if (!behind)
		return CEPH_NO_ORDER;
	f->seen = off + len;
	if (to > f->end)
		to = f->end;
	return ceph_piece(f, from, true) && ceph_piece(f, to, false) ? 0 : -ENOSPC;
}

static int64_t
ceph_list(struct serve_req *r)
{
	const uint64_t most = CEPH_EXTENT_OBJECTS * ceph.object_bytes;
	struct ceph_found f = {.r = r, .at = r->off_bytes};
	uint64_t len = r->len_bytes;
	int e;

	if (len > most)
		len = most - r->off_bytes % ceph.object_bytes;
	f.end = r->off_bytes + len;
	f.seen = r->off_bytes;
	e = rbd_diff_iterate2(ceph.image, NULL, r->off_bytes, len, 1, 0, ceph_on_piece, &f);
	if (e == CEPH_NO_ORDER) {
		/* Nothing is known but that there may be data. */
		f.n = 0;
		f.at = r->off_bytes;
		e = 0;
		(void)ceph_piece(&f, f.end, false);
	}
	if (e == 0)
		(void)ceph_piece(&f, f.end, true);
	/* Full: what was found up to there is the answer. */
	return e < 0 && e != -ENOSPC ? e : (int64_t)f.n;
}

struct ceph_task ceph_extents = {.run = ceph_list};
