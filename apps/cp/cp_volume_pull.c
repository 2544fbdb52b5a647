/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Pull from a volume: reads of its data, none of its holes. The local file appears complete
 * or not at all, and is as sparse as the volume. What others write meanwhile may be in it or not.
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
	bool asked;
};

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
	rc = cp_file_write(&p->file, b->buf, b->len_bytes, b->off_bytes - b->p->begin_bytes);
	if (rc == 0) {
		cp_block_end(b);
		return;
	}
	cp_fail(b->p->s, rc, "%s: cannot be written: %s", b->p->path, strerror(-rc));
	cp_block_fail(b, rc, "", "");
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
		return cp_fail(v->s, p->ask.status,
		               "%s: volume %s: its extents: %s; nothing was "
		               "written",
		               v->s->where, v->s->url.export_name,
		               p->ask.why[0] != '\0' ? p->ask.why : strerror(-p->ask.status));
	return rc;
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
		b->req = (struct weft_volume_req){
		        .op = WEFT_VOLUME_OP_READ,
		        .off_bytes = b->off_bytes,
		        .len_bytes = b->len_bytes,
		        .data = b->buf,
		        .done = pull_read,
		        .owner = b,
		};
		rc = weft_volume_submit(v->v, &b->req);
		if (rc != 0)
			cp_block_fail(b, rc, "the read", "");
		rc = v->rc;
	}
	return rc;
}

static int
pull_data(struct volume_pull *p)
{
	struct cp_volume *v = &p->v;
	uint64_t off = v->begin_bytes;
	int rc = 0;

	v->begin_ns = ui_now_ns();
	ui_progress_start(&v->bar, v->path, v->end_bytes - v->begin_bytes, v->s->opt->quiet);
	while (rc == 0 && off < v->end_bytes) {
		rc = pull_extents(p, off);
		if (rc == 0 && (p->ask.found == 0 || p->piece[0].len_bytes == 0))
			rc = cp_fail(v->s, -EPROTO, "%s: volume %s: extents that make no sense",
			             v->s->where, v->s->url.export_name);
		for (uint32_t i = 0; rc == 0 && i < p->ask.found; i++) {
			if (p->piece[i].hole) {
				v->done_bytes += p->piece[i].len_bytes;
				p->holes_bytes += p->piece[i].len_bytes;
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
	struct cp_report *r = p->v.r;
	struct weft_qp_info info;

	weft_qp_query(p->v.s->qp, &info);
	r->bytes = p->v.end_bytes - p->v.begin_bytes;
	r->volume = true;
	r->offset_bytes = p->v.begin_bytes;
	r->holes_bytes = p->holes_bytes;
	r->transfer_ns = ui_now_ns() - p->v.begin_ns;
	r->retransmits = info.retrans_segs;
	r->tries = 1;
}

int
cp_volume_pull(struct cp_session *s, const char *path, struct cp_report *r)
{
	struct volume_pull *p = calloc(1, sizeof(*p));
	struct cp_volume *v = &p->v;
	int rc;

	if (p == NULL)
		return cp_fail(s, -ENOMEM, "not enough memory");
	v->s = s;
	v->r = r;
	v->path = path;
	r->op = "pull";
	rc = cp_file_create(s, &p->file, path);
	if (rc == 0)
		rc = cp_volume_open(v, WEFT_EXPORT_READ);
	if (rc == 0)
		rc = cp_volume_range(v, 0);
	if (rc == 0)
		rc = cp_volume_memory(v, WEFT_RPC_MAX_CALLS);
	if (rc == 0)
		rc = pull_data(p);
	if (rc == 0 && ftruncate(p->file.fd, (off_t)(v->end_bytes - v->begin_bytes)) != 0)
		rc = cp_fail(s, -errno, "%s: cannot be written: %s", path, strerror(errno));
	if (rc == 0)
		pull_report(p);
	if (rc == 0)
		rc = cp_file_install(s, &p->file);
	cp_volume_end(v, rc);
	cp_file_end(&p->file);
	free(p);
	return rc;
}
