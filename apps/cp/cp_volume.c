/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A volume that is pushed to or pulled from: opening it, blocks in flight, the end. */

#include "cp_volume.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ui.h"

struct opening {
	bool done;
	int status;
	char why[160];
};

static void
volume_opened(void *arg, int status, const char *why)
{
	struct opening *o = arg;

	o->done = true;
	o->status = status;
	snprintf(o->why, sizeof(o->why), "%s", why);
}

static const char *
volume_why(const struct opening *o)
{
	return o->why[0] != '\0' ? o->why : strerror(-o->status);
}

static int
volume_open_once(struct cp_volume *p, uint32_t rights, struct opening *o)
{
	struct cp_session *s = p->s;
	const struct weft_volume_attr a = {
	        .size = sizeof(a),
	        .rpc = s->rpc,
	        .worker = s->w,
	        .name = s->url.export_name,
	        .rights = rights,
	        .timeout_us = s->opt->silence_ns / 1000,
	};
	int rc;

	*o = (struct opening){0};
	rc = weft_volume_open(&a, volume_opened, o, &p->v);
	if (rc != 0)
		return cp_fail(s, rc, "%s: call failed: %s", s->where, strerror(-rc));
	s->last_ns = ui_now_ns();
	while (!o->done) {
		rc = cp_turn(s, true);
		if (rc != 0 && !o->done)
			weft_rpc_disconnected(s->rpc);
		if (rc != 0)
			return cp_fail_conn(s, rc, "");
	}
	return 0;
}

void *
cp_volume_new(struct cp_session *s, size_t bytes, const char *op, const char *path,
              struct cp_report *r)
{
	struct cp_volume *p = calloc(1, bytes);

	if (p == NULL) {
		cp_fail(s, -ENOMEM, "not enough memory");
		return NULL;
	}
	p->s = s;
	p->r = r;
	p->path = path;
	r->op = op;
	return p;
}

int
cp_volume_open(struct cp_volume *p, uint32_t rights, uint32_t wish)
{
	struct cp_session *s = p->s;
	struct opening o;
	int rc = cp_is_connected(s) ? 0 : cp_connect(s);

	if (rc == 0)
		rc = volume_open_once(p, rights | wish, &o);
	if (rc == 0 && o.status == -EACCES && (wish & ~rights) != 0) {
		weft_volume_close_wait(p->v); /* it has no grant */
		p->v = NULL;
		rc = volume_open_once(p, rights, &o);
	}
	if (rc != 0)
		return rc;
	if ((o.status == -EPROTONOSUPPORT || o.status == -EINVAL) && s->no_object[0] != '\0')
		return cp_fail(s, -EIO, "%s: export %s cannot be opened: %s", s->where,
		               s->url.export_name, s->no_object);
	if (o.status == -EPROTONOSUPPORT)
		return cp_fail(s, o.status,
		               "%s: the target is of an older version, without volumes", s->where);
	if (o.status != 0)
		return cp_fail(s, o.status, "%s: export %s: %s", s->where, s->url.export_name,
		               volume_why(&o));
	p->info = weft_volume_info(p->v);
	s->grant.persistent = p->info->persistent;
	snprintf(s->grant.hash, sizeof(s->grant.hash), "%s", p->info->hash);
	snprintf(s->grant.mechanism, sizeof(s->grant.mechanism), "%s", p->info->mechanism);
	return 0;
}

int
cp_volume_range(struct cp_volume *p, uint64_t total)
{
	const struct cp_options *o = p->s->opt;
	const uint64_t bytes = p->info->bytes;
	const bool stream = total == CP_SIZE_UNKNOWN;
	uint64_t len = total;
	char b1[32];

	if (o->offset_bytes > bytes)
		return cp_fail(p->s, -EINVAL, "--offset: volume %s ends at octet %" PRIu64 " (%s)",
		               p->s->url.export_name, bytes, ui_bytes(bytes, b1, sizeof(b1)));
	if (!p->is_push || stream)
		len = bytes - o->offset_bytes;
	if (o->length_bytes != 0 && o->length_bytes < len)
		len = o->length_bytes;
	else if (o->length_bytes > len)
		return cp_fail(p->s, -EINVAL, "--length: there are only %" PRIu64 " octets", len);
	if (len > bytes - o->offset_bytes)
		return cp_fail(p->s, -EFBIG,
		               "%s: %" PRIu64 " octets do not fit behind octet %" PRIu64
		               " of volume %s, which ends at %" PRIu64 "; nothing was written",
		               p->path, len, o->offset_bytes, p->s->url.export_name, bytes);
	p->begin_bytes = o->offset_bytes;
	p->end_bytes = o->offset_bytes + len;
	return 0;
}

int
cp_volume_hash(struct cp_volume *p)
{
	int rc = cp_hash_find(p->s, p->info->hash, &p->hash);

	if (rc == 0 && p->hash.ops->result_bytes != p->info->hash_bytes)
		rc = cp_fail(p->s, -EPROTO, "%s: volume %s hashes by %s, which we do not know",
		             p->s->where, p->s->url.export_name, p->info->hash);
	return rc;
}

static void
volume_flushed(struct weft_volume_req *req)
{
	*(bool *)req->owner = true;
}

int
cp_volume_flush(struct cp_volume *p)
{
	/* It may be answered after a failure, until the volume is closed. */
	static struct weft_volume_req req;
	static bool done;
	struct cp_session *s = p->s;
	int rc;

	done = false;
	req = (struct weft_volume_req){
	        .op = WEFT_VOLUME_OP_FLUSH, .done = volume_flushed, .owner = &done};
	s->last_ns = ui_now_ns();
	rc = weft_volume_submit(p->v, &req);
	while (rc == 0 && !done) {
		rc = cp_turn(s, true);
		if (rc != 0 && !done)
			return cp_fail_conn(s, rc, "");
	}
	if (rc == 0)
		rc = req.status;
	if (rc == -ENOTCONN)
		return cp_fail_conn(s, rc, "");
	if (rc != 0)
		return cp_fail(s, rc, "%s: volume %s: the flush before the Verify failed: %s",
		               s->where, s->url.export_name,
		               req.why[0] != '\0' ? req.why : strerror(-rc));
	return 0;
}

int
cp_block_verify(struct cp_block *b, void (*done)(struct weft_volume_req *req))
{
	int rc = cp_hash_of(&b->p->hash, b->buf, b->len_bytes, b->mine);

	if (rc != 0)
		return rc;
	b->req = (struct weft_volume_req){
	        .op = WEFT_VOLUME_OP_VERIFY,
	        .off_bytes = b->off_bytes,
	        .len_bytes = b->len_bytes,
	        .done = done,
	        .owner = b,
	};
	return weft_volume_submit(b->p->v, &b->req);
}

bool
cp_block_same(const struct cp_block *b)
{
	return memcmp(b->mine, b->req.hash, b->p->hash.ops->result_bytes) == 0;
}

uint32_t
cp_volume_verify_max(const struct cp_volume *p)
{
	return p->s->opt->block_bytes < p->info->range_bytes ? p->s->opt->block_bytes
	                                                     : p->info->range_bytes;
}

int
cp_volume_memory(struct cp_volume *p, uint32_t depth_max)
{
	struct cp_session *s = p->s;
	const size_t stride = (s->opt->block_bytes + 4095u) & ~(size_t)4095;
	char b1[32];

	p->depth = s->opt->depth < depth_max ? s->opt->depth : depth_max;
	p->r->depth = p->depth;
	p->mem = aligned_alloc(4096, stride * p->depth);
	if (p->mem == NULL)
		return cp_fail(s, -ENOMEM, "not enough memory for %u blocks of %s", p->depth,
		               ui_bytes(stride, b1, sizeof(b1)));
	for (uint32_t i = 0; i < p->depth; i++) {
		p->block[i].p = p;
		p->block[i].buf = p->mem + i * stride;
	}
	return 0;
}

/* ---- Blocks in flight ---- */

const char *
cp_volume_consequence(const struct cp_volume *p)
{
	if (p->turn != NULL)
		return ""; /* cp_file_fail() has it */
	if (p->s->opt->verify_only)
		return "; nothing was changed";
	return p->is_push ? "; " CP_VOLUME_LEFT : "; nothing was written";
}

#define VOLUME_AGAIN_NS 200000000ULL /* between two questions for a range that another has */

bool
cp_block_again(struct cp_block *b)
{
	const uint64_t now = ui_now_ns();

	if (b->busy_ns == 0)
		b->busy_ns = now;
	if (b->p->rc != 0 || now - b->busy_ns >= b->p->s->opt->range_wait_ns)
		return false;
	b->again_ns = now + VOLUME_AGAIN_NS;
	b->p->waiting++;
	return true;
}

static void
volume_ask_again(struct cp_volume *p)
{
	const uint64_t now = ui_now_ns();

	for (uint32_t i = 0; i < p->depth && p->waiting > 0; i++) {
		struct cp_block *b = &p->block[i];

		if (b->again_ns == 0 || b->again_ns > now)
			continue;
		b->again_ns = 0;
		p->waiting--;
		p->again(b);
	}
}

int
cp_volume_turn(struct cp_volume *p)
{
	int rc = cp_turn(p->s, p->busy > p->ready);

	if (p->turn != NULL && p->rc == 0)
		p->rc = p->turn(p);
	if (rc == 0 && p->rc == 0 && p->waiting > 0)
		volume_ask_again(p);
	if (p->rc != 0)
		return p->rc;
	if (rc != 0)
		return cp_fail_conn(p->s, rc, cp_volume_consequence(p));
	cp_progress(p->s, &p->bar, p->done_bytes);
	return 0;
}

int
cp_block_get(struct cp_volume *p, struct cp_block **out)
{
	int rc;

	while (p->busy == p->depth || cp_ahead(p->s, p->begin_ns, p->moved_bytes)) {
		rc = cp_volume_turn(p);
		if (rc != 0)
			return rc;
	}
	for (uint32_t i = 0; i < p->depth; i++)
		if (!p->block[i].busy) {
			if (p->busy == p->ready)
				p->s->last_ns = ui_now_ns();
			*out = &p->block[i];
			(*out)->busy = true;
			(*out)->busy_ns = 0;
			(*out)->ready = false;
			(*out)->put_bytes = 0;
			(*out)->post_ns = ui_now_ns();
			p->busy++;
			return p->rc;
		}
	return -EIO;
}

void
cp_block_drop(struct cp_block *b)
{
	b->busy = false;
	b->p->busy--;
}

void
cp_block_end(struct cp_block *b)
{
	struct cp_volume *p = b->p;

	cp_block_drop(b);
	p->done_bytes += b->len_bytes;
	p->r->blocks++;
	hist_add(&p->r->lat, ui_now_ns() - b->post_ns);
}

void
cp_block_fail(struct cp_block *b, int status, const char *what, const char *why)
{
	struct cp_volume *p = b->p;
	struct cp_session *s = p->s;

	cp_block_drop(b);
	if (p->rc != 0)
		return;
	p->rc = status != 0 ? status : -EIO;
	if (status == -ENOTCONN) {
		cp_fail_conn(s, status, cp_volume_consequence(p));
		return;
	}
	cp_fail(s, p->rc, "%s: volume %s: %s of %u octets at %" PRIu64 " failed: %s%s", s->where,
	        s->url.export_name, what, b->len_bytes, b->off_bytes,
	        why[0] != '\0' ? why : strerror(-p->rc), cp_volume_consequence(p));
}

int
cp_volume_source(struct cp_volume *p, struct cp_source *f, struct cp_block *b, uint32_t want)
{
	int rc;

	while ((rc = cp_source_next(p->s, f, b->buf, want, &b->len_bytes)) == -EAGAIN) {
		/* The block that is being filled is not under way. */
		p->ready++;
		rc = cp_volume_turn(p);
		p->ready--;
		if (rc != 0)
			return rc;
	}
	return rc;
}

int
cp_volume_source_more(struct cp_volume *p, struct cp_source *f, bool *more)
{
	uint32_t got = 0;
	uint8_t octet;
	int rc = 0;

	if (f->stream && cp_source_more(f))
		while ((rc = cp_source_next(p->s, f, &octet, 1, &got)) == -EAGAIN) {
			rc = cp_volume_turn(p);
			if (rc != 0)
				return rc;
		}
	*more = got > 0;
	return rc;
}

int
cp_volume_wait(struct cp_volume *p)
{
	int rc = p->rc;

	while (rc == 0 && p->busy > 0)
		rc = cp_volume_turn(p);
	return rc != 0 ? rc : p->rc;
}

/* ---- The end ---- */

void
cp_volume_report(struct cp_volume *p)
{
	struct cp_report *r = p->r;
	struct weft_qp_info info;

	weft_qp_query(p->s->qp, &info);
	r->bytes = p->end_bytes - p->begin_bytes;
	r->volume = true;
	r->offset_bytes = p->begin_bytes;
	r->resumed_bytes = p->resumed_bytes;
	r->transfer_ns = ui_now_ns() - p->begin_ns;
	r->retransmits = info.retrans_segs;
	r->tries = 1;
}

void
cp_volume_end(struct cp_volume *p, int rc)
{
	struct cp_session *s = p->s;
	struct opening o = {0};

	if (p->v != NULL) {
		weft_volume_close(p->v, volume_opened, &o);
		/* After a failure the grant ends with the connection. */
		while (rc == 0 && !o.done && cp_turn(s, true) == 0)
			;
	}
	p->v = NULL;
	s->on_wc = NULL;
	/* Ends the calls that are still unanswered; o is gone with this function. */
	cp_end(s);
	free(p->mem);
}
