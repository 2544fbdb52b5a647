/* SPDX-License-Identifier: BSD-3-Clause */
/** @file --verify-only of a volume: the hashes of the local file's blocks beside those of the
 * range, as the target's Verify makes them of its medium. What others write meanwhile may be in it
 * or not. */

#include "cp_volume.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ui.h"

struct volume_verify {
	struct cp_volume v; /* first member */
	struct cp_source file;
	struct cp_found found;
};

static void
verify_differs(struct cp_found *f, uint64_t off_bytes, uint64_t len_bytes)
{
	/* Blocks are answered in any order. */
	if (f->differ_bytes == 0 || off_bytes < f->first_bytes)
		f->first_bytes = off_bytes;
	f->differ_bytes += len_bytes;
}

static void
verify_compared(struct weft_volume_req *req)
{
	struct cp_block *b = req->owner;
	struct cp_found *f = &((struct volume_verify *)b->p)->found;

	if (req->status != 0) {
		cp_block_fail(b, req->status, "the Verify", req->why);
		return;
	}
	if (cp_block_same(b))
		f->equal_bytes += b->len_bytes;
	else
		verify_differs(f, b->off_bytes, b->len_bytes);
	cp_block_end(b);
}

/** Fill the block with what comes next, and ask for its hash. */
static int
verify_next(struct volume_verify *p, uint64_t *pos)
{
	struct cp_volume *v = &p->v;
	const uint64_t left = v->end_bytes - v->begin_bytes - *pos;
	uint32_t want = cp_volume_verify_max(v);
	struct cp_block *b;
	int rc = cp_block_get(v, &b);

	if (rc != 0)
		return rc;
	if (left < want)
		want = (uint32_t)left;
	rc = cp_volume_source(v, &p->file, b, want);
	if (rc != 0)
		return rc;
	if (b->len_bytes == 0) {
		cp_block_drop(b);
		return 0;
	}
	b->off_bytes = v->begin_bytes + *pos;
	*pos += b->len_bytes;
	rc = cp_block_verify(b, verify_compared);
	if (rc != 0)
		cp_block_fail(b, rc, "the Verify", "");
	return v->rc;
}

static int
verify_data(struct volume_verify *p)
{
	struct cp_volume *v = &p->v;
	uint64_t pos = 0;
	bool more = false;
	int rc = 0;

	v->begin_ns = ui_now_ns();
	ui_progress_start(&v->bar, p->file.path, p->file.size_bytes, v->s->opt->quiet);
	while (rc == 0 && v->begin_bytes + pos < v->end_bytes && !p->file.ended)
		rc = verify_next(p, &pos);
	/* A pipe that goes on behind the volume's end differs there; how far it goes is not
	 * looked at. */
	if (rc == 0)
		rc = cp_volume_source_more(v, &p->file, &more);
	if (rc == 0)
		rc = cp_volume_wait(v);
	if (rc == 0 && more)
		verify_differs(&p->found, v->end_bytes, 1);
	if (rc == 0)
		rc = cp_source_check(v->s, &p->file);
	ui_progress_end(&v->bar);
	return rc;
}

int
cp_volume_verify(struct cp_session *s, const char *path, struct cp_report *r)
{
	struct volume_verify *p = cp_volume_new(s, sizeof(*p), "verify", path, r);
	struct cp_volume *v = &p->v;
	int rc;

	if (p == NULL)
		return -ENOMEM;
	rc = cp_source_open(s, &p->file, path, "nothing was changed");
	if (rc == 0)
		rc = cp_volume_open(v, WEFT_EXPORT_READ | WEFT_EXPORT_VERIFY, 0);
	if (rc == 0)
		rc = cp_volume_hash(v);
	v->is_push = true; /* the range is that of the file */
	if (rc == 0)
		rc = cp_volume_range(v, p->file.size_bytes);
	if (rc == -EFBIG)
		s->exit = CP_EXIT_DIFFERS;
	v->is_push = false;
	if (rc == 0)
		rc = cp_volume_memory(v, WEFT_RPC_MAX_CALLS);
	if (rc == 0)
		rc = verify_data(p);
	if (rc == 0) {
		cp_volume_report(v);
		r->bytes = p->found.equal_bytes;
	}
	cp_volume_end(v, rc);
	if (rc == 0 && p->found.differ_bytes > 0)
		rc = cp_fail_differs(s, p->file.path, &p->found);
	cp_source_close(&p->file);
	free(p);
	return rc;
}
