/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Pushing a file. First a Flush and a Read of the commit word. Then, for each block, Write,
 * Flush and Verify as one transaction. Then the same for the slot's header, with an Atomic Write of
 * the commit word and a Flush of it in the same transaction. All are posted without waiting for
 * each other; the last completion acknowledges the commit.
 *
 * The target executes the Atomic Write only after every earlier Flush and Verify succeeded, so the
 * word never names a slot that is not durable and intact.
 */

#include "cp.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ui.h"
#include <weft/commit.h>

/* wr_id of the commit; other wr_ids are blocks of the pipeline. */
#define WR_COMMIT UINT32_MAX

struct push_block {
	uint8_t *buf;
	uint64_t off; /* in the object */
	uint32_t len;
	uint64_t post_ns;
};

struct push {
	struct cp_session *s;
	struct cp_report *r;
	struct cp_source file;
	struct expfmt_commit old, new;
	uint64_t slot_to;
	const struct weft_hash_ops *hash; /* of Verify */
	const uint8_t *key;               /* NULL when the hash has no key */
	uint32_t key_bytes;
	uint8_t *mem;
	struct push_block block[CP_DEPTH_MAX];
	unsigned int head, used; /* ring of the blocks in flight */
	uint64_t done_bytes, begin_ns;
	uint8_t header[EXPFMT_HEADER_BYTES];
	uint64_t last_block_ns, commit_post_ns, commit_ns;
	/* polls so far, and the polls of the last block and of the commit */
	uint64_t turns, last_block_turn, commit_turn;
	bool commit_posted, done;
	/* the first completion that failed */
	bool failed;
	struct weft_wc bad;
	struct ui_progress bar;
};

/* ---- Completions ---- */

static void
push_on_wc(void *op, const struct weft_wc *wc)
{
	struct push *p = op;
	struct push_block *b;
	uint64_t now = ui_now_ns();

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
	/* Blocks complete in the order of their posts. */
	b = &p->block[p->head];
	p->done_bytes += b->len;
	p->r->blocks++;
	hist_add(&p->r->lat, now - b->post_ns);
	p->last_block_ns = now;
	p->last_block_turn = p->turns;
	p->head = (p->head + 1) % p->s->opt->depth;
	p->used--;
}

/* The consequence of a failure for the object. */
static const char *
push_consequence(const struct push *p, bool remote_failure, char *buf, size_t size)
{
	/* The request that failed at the target precedes the Atomic Write, which was therefore
	 * not executed. */
	return cp_push_consequence(p->old.generation, p->commit_posted && !remote_failure, buf,
	                           size);
}

static int
push_fail_conn(struct push *p, int rc)
{
	char what[200];

	return cp_fail_conn(p->s, rc, push_consequence(p, false, what, sizeof(what)));
}

static int
push_fail_wc(struct push *p)
{
	struct cp_session *s = p->s;
	uint32_t step = p->bad.commit.step;
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
		               p->key != NULL ? ", or --hash-key is another key than its" : "",
		               cons);
	return cp_fail(s, -EIO, "%s: export %s: %s failed for %s: %s%s", s->where,
	               s->url.export_name, what, place, why, cons);
}

/* Run one turn, and return the first failure so far. */
static int
push_turn(struct push *p)
{
	int rc;

	p->turns++;
	rc = cp_turn(p->s, p->used > 0 || p->commit_posted);
	if (p->failed)
		return push_fail_wc(p);
	if (rc != 0 && !p->done)
		return push_fail_conn(p, rc);
	ui_progress_update(&p->bar, p->done_bytes);
	return 0;
}

/* ---- Posting ---- */

/* Get a free block of the ring; waits for one. */
static int
push_get_block(struct push *p, struct push_block **out)
{
	while (p->used == p->s->opt->depth) {
		int rc = push_turn(p);

		if (rc != 0)
			return rc;
	}
	*out = &p->block[(p->head + p->used) % p->s->opt->depth];
	return 0;
}

/* Post Write, Flush and Verify of a piece of the slot; with a word, its commit behind them. */
static int
push_post(struct push *p, uint64_t wr_id, void *buf, uint32_t len, uint64_t to,
          const struct expfmt_commit *word)
{
	struct cp_session *s = p->s;
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
		rc = weft_commit_hash(p->hash->name, p->key, p->key_bytes, &sge, 1, expect,
		                      sizeof(expect));
		if (rc < 0)
			return cp_fail(s, rc, "hashing by %s: %s", p->hash->name, strerror(-rc));
		range.expect = expect;
		range.expect_bytes = (uint32_t)rc;
	}
	rc = weft_commit(s->qp, &c);
	if (rc == 0)
		return 0;
	/* The queue is as deep as the pipeline, and each block has octets of its own. */
	return cp_fail(s, rc, "%s: posting work failed: %s", s->where, strerror(-rc));
}

static int
push_post_block(struct push *p, struct push_block *b)
{
	int rc;

	if (p->used == 0)
		p->s->last_ns = ui_now_ns();
	b->post_ns = ui_now_ns();
	rc = push_post(p, (uint64_t)(b - p->block), b->buf, b->len,
	               p->slot_to + EXPFMT_HEADER_BYTES + b->off, NULL);
	if (rc == 0)
		p->used++;
	return rc;
}

static bool
push_must_leave(const struct push *p)
{
	return cp_must_leave(p->s, p->s->grant.rights, p->begin_ns, p->file.read_bytes,
	                     (uint64_t)p->file.st.st_size);
}

static int
push_leave(struct push *p)
{
	char what[200];
	int rc = 0;

	while (rc == 0 && p->used > 0)
		rc = push_turn(p);
	p->s->on_wc = NULL;
	return rc != 0 ? rc : cp_leave(p->s, push_consequence(p, false, what, sizeof(what)));
}

static int
push_data(struct push *p)
{
	uint64_t size = (uint64_t)p->file.st.st_size;

	while (p->file.read_bytes < size) {
		struct push_block *b;
		uint64_t left = size - p->file.read_bytes;
		int rc = push_get_block(p, &b);

		while (rc == 0 && !push_must_leave(p) &&
		       cp_ahead(p->s, p->begin_ns, p->file.read_bytes))
			rc = push_turn(p);
		if (rc == 0 && push_must_leave(p))
			rc = push_leave(p);
		if (rc != 0)
			return rc;
		b->off = p->file.read_bytes;
		b->len = left < p->s->opt->block_bytes ? (uint32_t)left : p->s->opt->block_bytes;
		rc = cp_source_read(p->s, &p->file, b->buf, b->len);
		if (rc == 0)
			rc = push_post_block(p, b);
		if (rc == 0)
			rc = push_turn(p);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int
push_commit(struct push *p)
{
	int rc;

	cp_source_header(&p->file, p->new.generation, p->r->crc, p->header);
	p->commit_post_ns = ui_now_ns();
	if (p->used == 0)
		p->s->last_ns = p->commit_post_ns;
	p->commit_posted = true;
	rc = push_post(p, WR_COMMIT, p->header, sizeof(p->header), p->slot_to, &p->new);
	while (rc == 0 && !p->done)
		rc = push_turn(p);
	return rc;
}

/* ---- The whole ---- */

static int
push_begin(struct push *p)
{
	struct cp_session *s = p->s;
	uint32_t block = s->opt->block_bytes;
	size_t stride = (block + 4095u) & ~(size_t)4095;
	char b1[32];
	int rc;

	rc = cp_source_fits(s, &p->file);
	if (rc != 0)
		return rc;
	if (!s->grant.persistent && !s->opt->no_flush)
		return cp_fail(s, -ENOTSUP,
		               "%s: export %s is not persistent (%s); --no-flush pushes to it all "
		               "the same",
		               s->where, s->url.export_name, s->grant.mechanism);
	if (s->grant.persistent && s->opt->no_flush)
		return cp_fail(
		        s, -EINVAL,
		        "%s: export %s is persistent (%s), and a Verify looks at the medium; leave "
		        "--no-flush out",
		        s->where, s->url.export_name, s->grant.mechanism);
	p->hash = weft_hash_find(s->grant.hash);
	if (p->hash->key_max_bytes > 0 && !s->opt->no_verify) {
		if (s->opt->hash_key.bytes == 0)
			return cp_fail(s, -ENOKEY,
			               "%s: export %s verifies by %s; give its key with "
			               "--hash-key FILE",
			               s->where, s->url.export_name, s->grant.hash);
		p->key = s->opt->hash_key.key;
		p->key_bytes = s->opt->hash_key.bytes;
	}
	/*
	 * The word in the target's memory need not be on the medium: the previous writer may have
	 * ended between its Atomic Write and the Flush. A choice by such a word would overwrite the
	 * slot that the medium still names.
	 */
	rc = cp_read_word(s, !s->opt->no_flush, &p->old);
	if (rc != 0)
		return rc;
	if (p->old.generation == EXPFMT_GENERATION_MAX)
		return cp_fail(s, -EOVERFLOW, "%s: export %s: no generation is left", s->where,
		               s->url.export_name);
	p->new.generation = p->old.generation + 1;
	p->new.slot = p->old.generation == 0 ? 0 : p->old.slot ^ 1;
	p->slot_to = s->grant.slot_to[p->new.slot];
	p->mem = aligned_alloc(4096, stride * s->opt->depth);
	if (p->mem == NULL)
		return cp_fail(s, -ENOMEM, "not enough memory for %u blocks of %s", s->opt->depth,
		               ui_bytes(stride, b1, sizeof(b1)));
	for (uint32_t i = 0; i < s->opt->depth; i++)
		p->block[i].buf = p->mem + i * stride;
	return 0;
}

static void
push_report(struct push *p)
{
	struct cp_report *r = p->r;
	struct weft_qp_info info;

	weft_qp_query(p->s->qp, &info);
	r->bytes = (uint64_t)p->file.st.st_size;
	r->transfer_ns = p->commit_ns - p->begin_ns;
	r->commit_ns = r->blocks > 0 ? p->commit_ns - p->last_block_ns : r->transfer_ns;
	r->commit_post_ns = p->commit_ns - p->commit_post_ns;
	r->commit_same_poll = r->blocks > 0 && p->commit_turn == p->last_block_turn;
	r->generation = p->new.generation;
	r->slot = p->new.slot;
	r->tries = 1;
	r->flushed = !p->s->opt->no_flush;
	r->verified = !p->s->opt->no_verify;
	r->retransmits = info.retrans_segs;
}

int
cp_push(struct cp_session *s, const char *path, struct cp_report *r)
{
	struct push *p = calloc(1, sizeof(*p));
	uint32_t rights = WEFT_EXPORT_READ | WEFT_EXPORT_WRITE |
	                  (s->opt->no_flush ? 0 : WEFT_EXPORT_FLUSH) |
	                  (s->opt->no_verify ? 0 : WEFT_EXPORT_VERIFY);
	int rc;

	if (p == NULL)
		return cp_fail(s, -ENOMEM, "not enough memory");
	p->s = s;
	p->r = r;
	p->file.fd = -1;
	r->op = "push";
	rc = cp_source_open(s, &p->file, path);
	if (rc == 0)
		rc = cp_connect(s);
	if (rc == 0)
		rc = cp_open(s, rights, 0);
	if (rc == 0)
		rc = push_begin(p);
	if (rc == 0) {
		s->on_wc = push_on_wc;
		s->op = p;
		p->begin_ns = ui_now_ns();
		ui_progress_start(&p->bar, path, (uint64_t)p->file.st.st_size, s->opt->quiet);
		rc = push_data(p);
		if (rc == 0)
			rc = cp_source_check(s, &p->file);
		if (rc == 0)
			rc = push_commit(p);
		ui_progress_end(&p->bar);
		s->on_wc = NULL;
	}
	if (rc == 0)
		push_report(p);
	/* After a failure the grant ends with the connection. */
	if (rc == 0)
		cp_close(s);
	cp_end(s);
	free(p->mem);
	if (p->file.fd >= 0)
		close(p->file.fd);
	free(p);
	return rc;
}
