/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Comparing what is here with a slot of the target, by hashes. Blocks are in flight like
 * those of a push, and complete in the order of their posts. */

#include "cp_compare.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ui.h"

struct compare_block {
	uint64_t off_bytes;
	uint32_t len_bytes;
	uint64_t post_ns;
	uint8_t mine[WEFT_HASH_MAX_BYTES], theirs[WEFT_HASH_MAX_BYTES];
};

struct compare {
	struct cp_session *s;
	const struct cp_hash *h;
	struct cp_found *found;
	struct cp_report *r; /* NULL: none */
	struct compare_block block[CP_DEPTH_MAX];
	unsigned int head, used;
	bool failed;
	struct weft_wc bad;
	uint64_t begin_ns;
	uint8_t *buf;
	struct ui_progress bar;
};

/* After a failure the target's hashes may still come, until the session ends. */
static struct compare compare;

bool
cp_hash_known(const struct cp_session *s, const char *name)
{
	const struct weft_hash_ops *ops = weft_hash_find(name);

	return ops != NULL && (ops->key_max_bytes == 0 || s->opt->hash_key.bytes != 0);
}

int
cp_hash_find(struct cp_session *s, const char *name, struct cp_hash *h)
{
	*h = (struct cp_hash){.ops = weft_hash_find(name)};
	if (h->ops == NULL)
		return cp_fail(s, -EPROTO, "%s: export %s hashes by %s, which we do not know",
		               s->where, s->url.export_name, name);
	if (h->ops->key_max_bytes == 0)
		return 0;
	if (s->opt->hash_key.bytes == 0)
		return cp_fail(s, -ENOKEY,
		               "%s: export %s verifies by %s; give its key with --hash-key FILE",
		               s->where, s->url.export_name, name);
	h->key = s->opt->hash_key.key;
	h->key_bytes = (uint32_t)s->opt->hash_key.bytes;
	return 0;
}

int
cp_hash_of(const struct cp_hash *h, const void *buf, uint32_t len_bytes, uint8_t *out)
{
	return weft_hash_once_keyed(h->ops, h->key, h->key_bytes, buf, len_bytes, out);
}

int
cp_probe(struct cp_session *s, const struct cp_hash *h, uint64_t wr_id, uint64_t to,
         uint32_t len_bytes, bool flush, uint8_t *result)
{
	const struct weft_wr wr[2] = {
	        {
	                .wr_id = wr_id,
	                .opcode = WEFT_WR_FLUSH,
	                .flush = {.stag = s->grant.stag,
	                          .to = to,
	                          .len_bytes = len_bytes,
	                          .flags = WEFT_FLUSH_PERSISTENT},
	        },
	        {
	                .wr_id = wr_id,
	                .opcode = WEFT_WR_VERIFY,
	                .flags = WEFT_WR_SIGNALED,
	                .verify = {.stag = s->grant.stag,
	                           .to = to,
	                           .len_bytes = len_bytes,
	                           .result = result,
	                           .result_bytes = (uint32_t)h->ops->result_bytes},
	        },
	};

	return flush ? cp_post(s, wr, 2) : cp_post(s, wr + 1, 1);
}

int
cp_fail_differs(struct cp_session *s, const char *path, const struct cp_found *found)
{
	char b1[32];

	s->exit = CP_EXIT_DIFFERS;
	return cp_fail(s, -EILSEQ,
	               "%s: differs from export %s of %s: first in the block at octet %" PRIu64
	               ", in blocks of %" PRIu64 " octets (%s) altogether",
	               path, s->url.export_name, s->where, found->first_bytes, found->differ_bytes,
	               ui_bytes(found->differ_bytes, b1, sizeof(b1)));
}

static void
compare_differs(struct compare *c, uint64_t off_bytes, uint64_t len_bytes)
{
	if (c->found->differ_bytes == 0)
		c->found->first_bytes = off_bytes;
	c->found->differ_bytes += len_bytes;
}

static void
compare_on_wc(void *op, const struct weft_wc *wc)
{
	struct compare *c = op;
	struct compare_block *b = &c->block[c->head];

	if (wc->status != WEFT_WC_SUCCESS) {
		if (!c->failed)
			c->bad = *wc;
		c->failed = true;
		return;
	}
	if (memcmp(b->mine, b->theirs, c->h->ops->result_bytes) == 0)
		c->found->equal_bytes += b->len_bytes;
	else
		compare_differs(c, b->off_bytes, b->len_bytes);
	c->found->blocks++;
	if (c->r != NULL)
		hist_add(&c->r->lat, ui_now_ns() - b->post_ns);
	c->head = (c->head + 1) % c->s->opt->depth;
	c->used--;
}

static int
compare_turn(struct compare *c)
{
	struct cp_session *s = c->s;
	int rc = cp_turn(s, c->used > 0);

	if (c->failed && c->bad.status == WEFT_WC_FLUSHED)
		rc = -ENOTCONN;
	else if (c->failed)
		return cp_fail(s, -EIO, "%s: export %s: %s failed: %s", s->where,
		               s->url.export_name,
		               c->bad.opcode == WEFT_WC_FLUSH ? "flush" : "verify",
		               cp_why(s, c->bad.status));
	if (rc != 0)
		return cp_fail_conn(s, rc, "; nothing was changed");
	cp_progress(s, &c->bar, c->found->equal_bytes + c->found->differ_bytes);
	return 0;
}

/** Whether the target takes the export back before the rest can be compared. */
static bool
compare_must_leave(const struct compare *c, const struct cp_source *f, uint64_t slot_bytes)
{
	const uint64_t total = f->size_bytes < slot_bytes ? f->size_bytes : slot_bytes;
	uint64_t done = c->found->equal_bytes + c->found->differ_bytes;

	if (done > total) /* with octets that the slot has not */
		done = total;
	return cp_must_leave(c->s, c->s->grant.rights, c->begin_ns, done, total);
}

/** Read the next block of the source, if it has one now, and ask for the target's hash of it. */
static int
compare_next(struct compare *c, struct cp_source *f, uint64_t to, uint64_t slot_bytes, bool flush)
{
	struct cp_session *s = c->s;
	struct compare_block *b = &c->block[(c->head + c->used) % s->opt->depth];
	const uint64_t off = f->read_bytes;
	uint32_t want = s->opt->block_bytes, got = 0;
	int rc;

	/* A block ends where the slot does; one octet behind shows that the source goes on. */
	if (slot_bytes - off < want)
		want = off < slot_bytes ? (uint32_t)(slot_bytes - off) : 1;
	rc = cp_source_next(s, f, c->buf, want, &got);
	if (rc == -EAGAIN)
		return 0;
	if (rc != 0 || got == 0)
		return rc;
	if (off == slot_bytes) {
		/* How far a stream goes on is not looked at: it may have no end. */
		compare_differs(c, off, f->stream ? got : f->size_bytes - off);
		f->ended = true;
		return 0;
	}
	b->off_bytes = off;
	b->len_bytes = got;
	rc = cp_hash_of(c->h, c->buf, got, b->mine);
	if (rc != 0)
		return cp_fail(s, rc, "hashing by %s: %s", c->h->ops->name, strerror(-rc));
	b->post_ns = ui_now_ns();
	if (c->used == 0)
		s->last_ns = b->post_ns;
	rc = cp_probe(s, c->h, (uint64_t)(b - c->block), to + off, got, flush, b->theirs);
	if (rc == 0)
		c->used++;
	return rc;
}

int
cp_compare(struct cp_session *s, struct cp_source *f, const struct cp_hash *h, uint64_t to,
           uint64_t slot_bytes, bool flush, bool first, struct cp_report *r, struct cp_found *found)
{
	struct compare *c = &compare;
	bool leaves = false;
	int rc = 0;

	*found = (struct cp_found){0};
	*c = (struct compare){.s = s, .h = h, .r = r, .found = found, .begin_ns = ui_now_ns()};
	c->buf = malloc(s->opt->block_bytes);
	if (c->buf == NULL)
		rc = cp_fail(s, -ENOMEM, "not enough memory");
	s->on_wc = compare_on_wc;
	s->op = c;
	ui_progress_start(&c->bar, f->path, f->size_bytes, s->opt->quiet);
	while (rc == 0 && cp_source_more(f) && !(first && found->differ_bytes > 0)) {
		leaves = compare_must_leave(c, f, slot_bytes);
		if (leaves)
			break;
		if (c->used < s->opt->depth)
			rc = compare_next(c, f, to, slot_bytes, flush);
		if (rc == 0)
			rc = compare_turn(c);
	}
	/* Completions write to the blocks. */
	while (rc == 0 && c->used > 0)
		rc = compare_turn(c);
	ui_progress_end(&c->bar);
	s->on_wc = NULL;
	if (rc == 0 && leaves)
		rc = cp_leave(s, "; nothing was changed");
	if (rc == 0 && f->read_bytes < slot_bytes && !(first && found->differ_bytes > 0))
		compare_differs(c, f->read_bytes, slot_bytes - f->read_bytes);
	free(c->buf);
	return rc;
}

int
cp_compare_page(struct cp_session *s, const void *page, uint32_t len_bytes, const struct cp_hash *h,
                uint64_t to, bool flush, bool *same)
{
	struct cp_found found = {0};
	struct compare *c = &compare;
	int rc;

	*c = (struct compare){.s = s, .h = h, .found = &found};
	c->block[0].len_bytes = len_bytes;
	rc = cp_hash_of(h, page, len_bytes, c->block[0].mine);
	if (rc != 0)
		return cp_fail(s, rc, "hashing by %s: %s", h->ops->name, strerror(-rc));
	s->on_wc = compare_on_wc;
	s->op = c;
	s->last_ns = ui_now_ns();
	rc = cp_probe(s, h, 0, to, len_bytes, flush, c->block[0].theirs);
	c->used = rc == 0;
	while (rc == 0 && c->used > 0)
		rc = compare_turn(c);
	s->on_wc = NULL;
	*same = rc == 0 && found.differ_bytes == 0;
	return rc;
}
