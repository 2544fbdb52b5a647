/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Pull from a volume: reads of its data, none of its holes. The local file appears complete
 * or not at all, and is as sparse as the volume. What others write meanwhile may be in it or not.
 * With --resume a Verify of each block that an earlier pull left comes first, and only a block
 * whose hash differs is read. To standard output go the blocks in their order, and zeros for holes.
 */

#include "cp_volume.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cp_file.h"
#include "ui.h"

#define PULL_EXTENTS 64

struct volume_pull {
	struct cp_volume v; /* first member */
	struct cp_file file;
	struct weft_volume_req ask;
	struct weft_volume_piece piece[PULL_EXTENTS];
	uint64_t holes_bytes;
	uint64_t out_bytes; /**< standard output has the volume up to here */
	bool asked;
};

/** A block waits for its turn on standard output. */
static void
pull_ready(struct cp_block *b)
{
	b->ready = true;
	b->p->ready++;
}

/** Write the blocks that have come and are next. */
static int
pull_drain(struct cp_volume *v)
{
	struct volume_pull *p = (struct volume_pull *)v;

	for (uint32_t i = 0; i < v->depth && v->ready > 0; i++) {
		struct cp_block *b = &v->block[i];
		int rc;

		if (!b->ready || b->off_bytes != p->out_bytes)
			continue;
		rc = cp_file_put(v->s, &p->file, b->buf, b->len_bytes, 0, &b->put_bytes);
		if (rc == -EAGAIN)
			return 0;
		if (rc != 0)
			return cp_fail(v->s, rc, "%s: cannot be written: %s", p->file.path,
			               strerror(-rc));
		p->out_bytes += b->len_bytes;
		b->ready = false;
		v->ready--;
		cp_block_end(b);
		i = UINT32_MAX; /* from the first one on */
	}
	return 0;
}

static void
pull_read(struct weft_volume_req *req)
{
	struct cp_block *b = req->owner;
	struct volume_pull *p = (struct volume_pull *)b->p;
	int rc;

	if (req->status != 0) {
		cp_block_fail(b, req->status, "the read", req->why);
		return;
	}
	if (p->file.stream) {
		pull_ready(b);
		return;
	}
	rc = cp_file_write(&p->file, b->buf, b->len_bytes, b->off_bytes - b->p->begin_bytes);
	if (rc == 0) {
		cp_block_end(b);
		return;
	}
	cp_fail(b->p->s, rc, "%s: cannot be written: %s", b->p->path, strerror(-rc));
	cp_block_fail(b, rc, "", "");
}

static int
pull_read_block(struct cp_block *b)
{
	b->p->moved_bytes += b->len_bytes;
	b->req = (struct weft_volume_req){
	        .op = WEFT_VOLUME_OP_READ,
	        .off_bytes = b->off_bytes,
	        .len_bytes = b->len_bytes,
	        .data = b->buf,
	        .done = pull_read,
	        .owner = b,
	};
	return weft_volume_submit(b->p->v, &b->req);
}

/** The block is here from an earlier pull, and the target's hash of its own is known. */
static void
pull_probed(struct weft_volume_req *req)
{
	struct cp_block *b = req->owner;
	int rc;

	if (req->status == -ENOTCONN) {
		cp_block_fail(b, req->status, "the Verify", req->why);
		return;
	}
	/* Where the target makes no hash, nothing is proved. */
	if (req->status == 0 && cp_block_same(b)) {
		b->p->resumed_bytes += b->len_bytes;
		cp_block_end(b);
		return;
	}
	rc = pull_read_block(b);
	if (rc != 0)
		cp_block_fail(b, rc, "the read", "");
}

static void
pull_told(struct weft_volume_req *req)
{
	struct volume_pull *p = req->owner;

	p->asked = false;
}

/** The extents from off on. */
static int
pull_extents(struct volume_pull *p, uint64_t off)
{
	struct cp_volume *v = &p->v;
	int rc;

	if (!(v->info->can & WEFT_VOLUME_HOLES)) {
		p->piece[0] = (struct weft_volume_piece){off, v->end_bytes - off, false};
		p->ask.found = 1;
		return 0;
	}
	p->ask = (struct weft_volume_req){
	        .op = WEFT_VOLUME_OP_EXTENTS,
	        .off_bytes = off,
	        .len_bytes = v->end_bytes - off,
	        .pieces = p->piece,
	        .max_pieces = PULL_EXTENTS,
	        .done = pull_told,
	        .owner = p,
	};
	rc = weft_volume_submit(v->v, &p->ask);
	if (rc != 0)
		return cp_fail(v->s, rc, "%s: call failed: %s", v->s->where, strerror(-rc));
	p->asked = true;
	v->s->last_ns = ui_now_ns();
	while (rc == 0 && p->asked) {
		v->busy++;
		rc = cp_volume_turn(v);
		v->busy--;
	}
	if (rc == 0 && p->ask.status != 0)
		return cp_fail(v->s, p->ask.status, "%s: volume %s: its extents: %s%s", v->s->where,
		               v->s->url.export_name,
		               p->ask.why[0] != '\0' ? p->ask.why : strerror(-p->ask.status),
		               cp_volume_consequence(v));
	return rc;
}

/** The block is here from an earlier pull, and a hash can prove it. */
static bool
pull_has(struct volume_pull *p, struct cp_block *b)
{
	return p->v.hash.ops != NULL && b->len_bytes <= cp_volume_verify_max(&p->v) &&
	       cp_file_local(&p->file, b->buf, b->len_bytes, b->off_bytes - p->v.begin_bytes) == 0;
}

static int
pull_piece(struct volume_pull *p, const struct weft_volume_piece *piece)
{
	struct cp_volume *v = &p->v;
	uint64_t off = piece->off_bytes;
	const uint64_t end = off + piece->len_bytes;
	int rc = 0;

	while (rc == 0 && off < end) {
		struct cp_block *b;

		rc = cp_block_get(v, &b);
		if (rc != 0)
			return rc;
		b->off_bytes = off;
		b->len_bytes = v->s->opt->block_bytes;
		if (end - off < b->len_bytes)
			b->len_bytes = (uint32_t)(end - off);
		off += b->len_bytes;
		if (piece->hole) {
			/* Only standard output has no holes. */
			memset(b->buf, 0, b->len_bytes);
			pull_ready(b);
			continue;
		}
		rc = pull_has(p, b) ? cp_block_verify(b, pull_probed) : pull_read_block(b);
		if (rc != 0)
			cp_block_fail(b, rc, "the read", "");
		rc = v->rc;
	}
	return rc;
}

static int
pull_hole(struct volume_pull *p, const struct weft_volume_piece *piece)
{
	int rc = cp_file_hole(&p->file, piece->off_bytes - p->v.begin_bytes, piece->len_bytes);

	if (rc == 0)
		return 0;
	return cp_fail(p->v.s, rc, "%s: cannot be written: %s", p->v.path, strerror(-rc));
}

/** Whether what an earlier pull left can be proved; else all is read. Only --resume asks for the
 * hash's key. */
static int
pull_earlier(struct volume_pull *p)
{
	struct cp_volume *v = &p->v;

	p->out_bytes = v->begin_bytes;
	if (p->file.stream)
		v->turn = pull_drain;
	if (p->file.have_bytes == 0 || !(v->info->rights & WEFT_EXPORT_VERIFY))
		return 0;
	if (!v->s->opt->resume && !cp_hash_known(v->s, v->info->hash))
		return 0;
	return cp_volume_hash(v);
}

static int
pull_data(struct volume_pull *p)
{
	struct cp_volume *v = &p->v;
	uint64_t off = v->begin_bytes;
	int rc = 0;

	v->begin_ns = ui_now_ns();
	ui_progress_start(&v->bar, p->file.path, v->end_bytes - v->begin_bytes, v->s->opt->quiet);
	while (rc == 0 && off < v->end_bytes) {
		rc = pull_extents(p, off);
		if (rc == 0 && (p->ask.found == 0 || p->piece[0].len_bytes == 0))
			rc = cp_fail(v->s, -EPROTO, "%s: volume %s: extents that make no sense",
			             v->s->where, v->s->url.export_name);
		for (uint32_t i = 0; rc == 0 && i < p->ask.found; i++) {
			if (p->piece[i].hole)
				p->holes_bytes += p->piece[i].len_bytes;
			if (p->piece[i].hole && !p->file.stream) {
				v->done_bytes += p->piece[i].len_bytes;
				rc = pull_hole(p, &p->piece[i]);
			} else {
				rc = pull_piece(p, &p->piece[i]);
			}
			off = p->piece[i].off_bytes + p->piece[i].len_bytes;
		}
	}
	if (rc == 0)
		rc = cp_volume_wait(v);
	ui_progress_end(&v->bar);
	return rc;
}

static void
pull_report(struct volume_pull *p)
{
	cp_volume_report(&p->v);
	p->v.r->holes_bytes = p->holes_bytes;
	p->v.r->resume = p->file.keep;
}

int
cp_volume_pull(struct cp_session *s, const char *path, struct cp_report *r)
{
	struct volume_pull *p = cp_volume_new(s, sizeof(*p), "pull", path, r);
	struct cp_volume *v = &p->v;
	int rc;

	if (p == NULL)
		return -ENOMEM;
	rc = cp_file_create(s, &p->file, path);
	if (rc == 0)
		rc = cp_volume_open(v, WEFT_EXPORT_READ,
		                    p->file.have_bytes > 0 ? WEFT_EXPORT_VERIFY : 0);
	if (rc == 0)
		rc = cp_volume_range(v, 0);
	if (rc == 0)
		rc = cp_volume_memory(v, WEFT_RPC_MAX_CALLS);
	if (rc == 0)
		rc = pull_earlier(p);
	if (rc == 0)
		rc = pull_data(p);
	if (rc == 0 && !p->file.stream &&
	    ftruncate(p->file.fd, (off_t)(v->end_bytes - v->begin_bytes)) != 0)
		rc = cp_fail(s, -errno, "%s: cannot be written: %s", path, strerror(errno));
	if (rc == 0)
		pull_report(p);
	if (rc == 0)
		rc = cp_file_install(s, &p->file);
	cp_volume_end(v, rc);
	if (rc != 0)
		cp_file_fail(s, &p->file, rc);
	cp_file_end(&p->file);
	free(p);
	return rc;
}
