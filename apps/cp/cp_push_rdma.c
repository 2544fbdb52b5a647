/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Pushing a file. First a Flush and a Read of the commit word. Then, for each block, Write,
 * Flush and Verify as one transaction. Then the same for the slot's header, with an Atomic Write of
 * the commit word and a Flush of it in the same transaction. All are posted without waiting for
 * each other; the last completion acknowledges the commit. With --resume a Flush and a Verify of
 * each block come first, and only a block whose hash differs is sent.
 *
 * The target executes the Atomic Write only after every earlier Flush and Verify succeeded, so the
 * word never names a slot that is not durable and intact.
 */

#include "cp_compare.h"
#include "cp_push.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ui.h"
#include <weft/commit.h>

/* wr_id of the commit; other wr_ids are blocks of the pipeline. */
#define WR_COMMIT UINT32_MAX

struct push_block {
	uint8_t *buf;
	uint64_t off; /* in the object */
	uint32_t len;
	uint64_t post_ns;
	bool probing, missing, done;
	uint8_t mine[WEFT_HASH_MAX_BYTES], theirs[WEFT_HASH_MAX_BYTES]; /* of a probe */
};

struct push {
	struct cp_push base; /* first member */
	struct push_block block[CP_DEPTH_MAX];
	unsigned int head, used; /* ring of the blocks in flight */
	unsigned int to_send;    /* blocks that are not there, and not posted yet */
	uint8_t header[EXPFMT_HEADER_BYTES];
	uint64_t last_block_ns, commit_post_ns, commit_ns;
	/* polls so far, and the polls of the last block and of the commit */
	uint64_t turns, last_block_turn, commit_turn;
	bool commit_posted, done;
	/* the first completion that failed */
	bool failed;
	struct weft_wc bad;
};

/* ---- Completions ---- */

static void
push_on_wc(void *op, const struct weft_wc *wc)
{
	struct push *p = op;
	struct push_block *b;
	uint64_t now = ui_now_ns();
	bool there;

	if (wc->status != WEFT_WC_SUCCESS) {
		if (!p->failed)
			p->bad = *wc;
		p->failed = true;
		return;
	}
	if (p->failed)
		return;
	if (wc->wr_id == WR_COMMIT) {
		p->commit_ns = now;
		p->commit_turn = p->turns;
		p->done = true;
		return;
	}
	b = &p->block[wc->wr_id];
	there = b->probing && memcmp(b->mine, b->theirs, p->base.hash.ops->result_bytes) == 0;
	if (b->probing && !there) {
		b->missing = true;
		p->to_send++;
		return;
	}
	b->done = true;
	p->base.resumed_bytes += there ? b->len : 0;
	p->base.done_bytes += b->len;
	p->base.r->blocks++;
	hist_add(&p->base.r->lat, now - b->post_ns);
	p->last_block_ns = now;
	p->last_block_turn = p->turns;
	/* Blocks complete in the order of their posts, but for those that are posted again. */
	for (; p->used > 0 && p->block[p->head].done; p->used--)
		p->head = (p->head + 1) % p->base.depth;
}

/* The consequence of a failure for the object. */
static const char *
push_consequence(const struct push *p, bool remote_failure, char *buf, size_t size)
{
	/* The request that failed at the target precedes the Atomic Write, which was therefore
	 * not executed. */
	return cp_push_consequence(p->base.old.generation, p->commit_posted && !remote_failure, buf,
	                           size);
}

static int
push_fail_conn(struct push *p, int rc)
{
	char what[200];

	return cp_fail_conn(p->base.s, rc, push_consequence(p, false, what, sizeof(what)));
}

static int
push_fail_wc(struct push *p)
{
	struct cp_session *s = p->base.s;
	uint32_t step = p->bad.opcode == WEFT_WC_COMMIT  ? p->bad.commit.step
	                : p->bad.opcode == WEFT_WC_FLUSH ? WEFT_COMMIT_STEP_FLUSH
	                                                 : WEFT_COMMIT_STEP_VERIFY;
	bool last = p->bad.wr_id == WR_COMMIT;
	const char *why, *what = weft_commit_step_str(step);
	char cons[200], place[96] = "the slot's header";

	if (p->bad.status == WEFT_WC_FLUSHED)
		return push_fail_conn(p, -ENOTCONN);
	why = cp_why(s, p->bad.status);
	push_consequence(p, !last || step < WEFT_COMMIT_STEP_WORD_FLUSH, cons, sizeof(cons));
	if (last && step >= WEFT_COMMIT_STEP_WORD)
		return cp_fail(s, -EIO, "%s: export %s: %s failed: %s%s", s->where,
		               s->url.export_name, what, why, cons);
	if (!last) {
		const struct push_block *b = &p->block[p->bad.wr_id];

		snprintf(place, sizeof(place), "octets %" PRIu64 " to %" PRIu64, b->off,
		         b->off + b->len - 1);
	}
	if (p->bad.status == WEFT_WC_HASH_MISMATCH)
		return cp_fail(s, -EIO,
		               "%s: export %s: verify failed: the medium does not hold what was "
		               "sent for %s%s%s",
		               s->where, s->url.export_name, place,
		               p->base.hash.key != NULL ? ", or --hash-key is another key than its"
		                                        : "",
		               cons);
	return cp_fail(s, -EIO, "%s: export %s: %s failed for %s: %s%s", s->where,
	               s->url.export_name, what, place, why, cons);
}

static int push_send_missing(struct push *p);

/* Run one turn, and return the first failure so far. */
static int
push_turn(struct push *p)
{
	int rc = push_send_missing(p);

	if (rc != 0)
		return rc;
	p->turns++;
	rc = cp_turn(p->base.s, p->used > 0 || p->commit_posted);
	if (p->failed)
		return push_fail_wc(p);
	if (rc != 0 && !p->done)
		return push_fail_conn(p, rc);
	cp_progress(p->base.s, &p->base.bar, p->base.done_bytes);
	return 0;
}

/* ---- Posting ---- */

/* Get a free block of the ring; waits for one. */
static int
push_get_block(struct push *p, struct push_block **out)
{
	while (p->used == p->base.depth) {
		int rc = push_turn(p);

		if (rc != 0)
			return rc;
	}
	*out = &p->block[(p->head + p->used) % p->base.depth];
	return 0;
}

/* Post Write, Flush and Verify of a piece of the slot; with a word, its commit behind them. hash:
 * of the piece, if it is known; or NULL. */
static int
push_post(struct push *p, uint64_t wr_id, void *buf, uint32_t len, uint64_t to,
          const struct expfmt_commit *word, const uint8_t *hash)
{
	struct cp_session *s = p->base.s;
	uint8_t expect[WEFT_HASH_MAX_BYTES];
	struct weft_sge sge = {.addr = buf, .len_bytes = len};
	struct weft_commit_range range = {
	        .sg_list = &sge, .num_sge = 1, .stag = s->grant.stag, .to = to};
	struct weft_commit c = {
	        .wr_id = wr_id,
	        .flags = (s->opt->no_flush ? WEFT_COMMIT_NO_FLUSH : 0) |
	                 (word == NULL ? WEFT_COMMIT_NO_WORD : 0),
	        .ranges = &range,
	        .num_ranges = 1,
	        .word = {.stag = s->grant.stag, .to = s->grant.commit_to},
	};
	int rc;

	if (word != NULL)
		expfmt_commit_encode(word, c.word.data);
	if (!s->opt->no_verify) {
		rc = hash != NULL ? 0 : cp_hash_of(&p->base.hash, buf, len, expect);
		if (rc != 0)
			return cp_fail(s, rc, "hashing by %s: %s", p->base.hash.ops->name,
			               strerror(-rc));
		range.expect = hash != NULL ? hash : expect;
		range.expect_bytes = (uint32_t)p->base.hash.ops->result_bytes;
	}
	rc = weft_commit(s->qp, &c);
	if (rc == 0)
		return 0;
	/* The queue is as deep as the pipeline, and each block has octets of its own. */
	return cp_fail(s, rc, "%s: posting work failed: %s", s->where, strerror(-rc));
}

static int
push_send_block(struct push *p, struct push_block *b)
{
	/* A probe has hashed it. */
	const uint8_t *hash = b->probing ? b->mine : NULL;

	b->probing = b->missing = false;
	p->base.moved_bytes += b->len;
	return push_post(p, (uint64_t)(b - p->block), b->buf, b->len,
	                 p->base.slot_to + EXPFMT_HEADER_BYTES + b->off, NULL, hash);
}

/* Ask whether the block is there. */
static int
push_probe_block(struct push *p, struct push_block *b)
{
	struct cp_session *s = p->base.s;
	int rc = cp_hash_of(&p->base.hash, b->buf, b->len, b->mine);

	if (rc != 0)
		return cp_fail(s, rc, "hashing by %s: %s", p->base.hash.ops->name, strerror(-rc));
	b->probing = true;
	memset(b->theirs, 0, sizeof(b->theirs));
	return cp_probe(s, &p->base.hash, (uint64_t)(b - p->block),
	                p->base.slot_to + EXPFMT_HEADER_BYTES + b->off, b->len, !s->opt->no_flush,
	                b->theirs);
}

static int
push_post_block(struct push *p, struct push_block *b)
{
	int rc;

	if (p->used == 0)
		p->base.s->last_ns = ui_now_ns();
	b->post_ns = ui_now_ns();
	b->done = b->missing = false;
	p->used++;
	rc = p->base.s->opt->resume ? push_probe_block(p, b) : push_send_block(p, b);
	if (rc != 0)
		p->used--;
	return rc;
}

/* Send the blocks that are not there. */
static int
push_send_missing(struct push *p)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && p->to_send > 0 && i < p->base.depth; i++)
		if (p->block[i].missing) {
			p->to_send--;
			rc = push_send_block(p, &p->block[i]);
		}
	return rc;
}

static bool
push_must_leave(const struct push *p)
{
	return cp_must_leave(p->base.s, p->base.s->grant.rights, p->base.begin_ns,
	                     p->base.file.read_bytes, p->base.file.size_bytes);
}

static int
push_leave(struct push *p)
{
	char what[200];
	int rc = 0;

	while (rc == 0 && p->used > 0)
		rc = push_turn(p);
	p->base.s->on_wc = NULL;
	return rc != 0 ? rc : cp_leave(p->base.s, push_consequence(p, false, what, sizeof(what)));
}

/* Fill the block with what comes next; its length is 0 at the end of a stream. */
static int
push_read(struct push *p, struct push_block *b)
{
	struct cp_session *s = p->base.s;
	int rc;

	b->off = p->base.file.read_bytes;
	while ((rc = cp_source_next(s, &p->base.file, b->buf, s->opt->block_bytes, &b->len)) ==
	       -EAGAIN) {
		rc = push_must_leave(p) ? push_leave(p) : push_turn(p);
		if (rc != 0)
			return rc;
	}
	return rc != 0 ? rc : cp_source_fits(s, &p->base.file);
}

static int
push_data(struct cp_push *base)
{
	struct push *p = (struct push *)base;

	while (cp_source_more(&base->file)) {
		struct push_block *b;
		int rc = push_get_block(p, &b);

		while (rc == 0 && !push_must_leave(p) &&
		       cp_ahead(base->s, base->begin_ns, base->moved_bytes))
			rc = push_turn(p);
		if (rc == 0 && push_must_leave(p))
			rc = push_leave(p);
		if (rc == 0)
			rc = push_read(p, b);
		if (rc == 0 && b->len > 0)
			rc = push_post_block(p, b);
		if (rc == 0)
			rc = push_turn(p);
		if (rc != 0)
			return rc;
	}
	/* A block that is not there has to be posted before the commit. */
	while (base->s->opt->resume && p->used > 0) {
		int rc = push_turn(p);

		if (rc != 0)
			return rc;
	}
	return 0;
}

static int
push_commit(struct cp_push *base)
{
	struct push *p = (struct push *)base;
	int rc;

	cp_source_header(&p->base.file, p->base.new.generation, p->base.r->crc, p->header);
	p->commit_post_ns = ui_now_ns();
	if (p->used == 0)
		p->base.s->last_ns = p->commit_post_ns;
	p->commit_posted = true;
	rc = push_post(p, WR_COMMIT, p->header, sizeof(p->header), p->base.slot_to, &p->base.new,
	               NULL);
	while (rc == 0 && !p->done)
		rc = push_turn(p);
	return rc;
}

static int
push_read_word(struct cp_push *base)
{
	struct push *p = (struct push *)base;

	for (uint32_t i = 0; i < base->depth; i++)
		p->block[i].buf = base->mem + i * base->stride;
	return cp_read_word(base->s, !base->s->opt->no_flush, &base->old);
}

static void
push_report(struct cp_push *base)
{
	const struct push *p = (struct push *)base;
	struct cp_report *r = base->r;

	r->transfer_ns = p->commit_ns - base->begin_ns;
	r->commit_ns = r->blocks > 0 ? p->commit_ns - p->last_block_ns : r->transfer_ns;
	r->commit_post_ns = p->commit_ns - p->commit_post_ns;
	r->commit_same_poll = r->blocks > 0 && p->commit_turn == p->last_block_turn;
}

const struct cp_push_ops cp_push_rdma = {
        .bytes = sizeof(struct push),
        .depth_max = CP_DEPTH_MAX,
        .on_wc = push_on_wc,
        .read_word = push_read_word,
        .data = push_data,
        .commit = push_commit,
        .report = push_report,
};
