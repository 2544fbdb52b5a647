/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Pulling an object: read the commit word, the slot's header and the data, then the word
 * again. When the word has changed, start again, so no torn object is returned. The local file
 * appears complete or not at all. With --resume a Verify of each block that an earlier pull left
 * comes first, and only a block whose hash differs is read.
 */

#include "cp_compare.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cp_file.h"
#include "ui.h"

#define PULL_TRIES 20 /* tries, when a writer commits during each of them */

struct pull_block {
	uint8_t *buf;
	uint64_t off;
	uint32_t len, put; /* put: octets that are written */
	uint64_t post_ns;
	bool probing, missing, ready, there;
	uint8_t mine[WEFT_HASH_MAX_BYTES], theirs[WEFT_HASH_MAX_BYTES]; /* of a probe */
};

struct pull {
	struct cp_session *s;
	struct cp_report *r;
	const char *path;
	struct cp_file file;
	struct expfmt_commit word;
	struct expfmt_slot slot;
	const struct weft_hash_ops *crc;
	struct weft_hash_state crc_state;
	uint8_t *mem;
	struct weft_mr *mr;
	struct pull_block block[CP_DEPTH_MAX];
	struct cp_hash hash; /* of probes; hash.ops NULL: there are none */
	/* ring of the blocks; of these, not answered yet; of these, to be read and not posted */
	unsigned int head, used, flying, to_read;
	uint64_t posted_bytes, done_bytes, blocks, begin_ns, data_ns;
	uint64_t moved_bytes, resumed_bytes;
	int io_error;
	bool failed;
	struct weft_wc bad;
	struct ui_progress bar;
};

/* ---- Data ---- */

static void
pull_on_wc(void *op, const struct weft_wc *wc)
{
	struct pull *p = op;
	struct pull_block *b = &p->block[wc->wr_id];

	if (wc->status != WEFT_WC_SUCCESS) {
		if (!p->failed)
			p->bad = *wc;
		p->failed = true;
		return;
	}
	b->there = b->probing && memcmp(b->mine, b->theirs, p->hash.ops->result_bytes) == 0;
	if (b->probing && !b->there) {
		b->missing = true;
		p->to_read++;
		return;
	}
	b->ready = true;
	p->flying--;
}

/* Write the blocks that have come, in their order. */
static void
pull_drain(struct pull *p)
{
	while (p->used > 0 && p->block[p->head].ready && p->io_error == 0) {
		struct pull_block *b = &p->block[p->head];
		int rc =
		        b->there ? 0 : cp_file_put(p->s, &p->file, b->buf, b->len, b->off, &b->put);

		if (rc == -EAGAIN)
			return;
		p->io_error = rc;
		hist_add(&p->r->lat, ui_now_ns() - b->post_ns);
		p->crc->update(&p->crc_state, b->buf, b->len);
		p->resumed_bytes += b->there ? b->len : 0;
		p->done_bytes += b->len;
		p->blocks++;
		p->head = (p->head + 1) % p->s->opt->depth;
		p->used--;
	}
}

/* Of standard output cp_file_fail() has it. */
static const char *
pull_consequence(const struct pull *p)
{
	return p->file.stream ? "" : "; nothing was written";
}

static int
pull_read(struct pull *p, struct pull_block *b)
{
	struct weft_sge sge = {.addr = b->buf, .len_bytes = b->len, .lkey = weft_mr_stag(p->mr)};
	const struct weft_wr wr = {
	        .wr_id = (uint64_t)(b - p->block),
	        .opcode = WEFT_WR_READ,
	        .flags = WEFT_WR_SIGNALED,
	        .sg_list = &sge,
	        .num_sge = 1,
	        .rdma = {.stag = p->s->grant.stag,
	                 .to = p->s->grant.slot_to[p->word.slot] + EXPFMT_HEADER_BYTES + b->off},
	};

	b->probing = b->missing = false;
	p->moved_bytes += b->len;
	return cp_post(p->s, &wr, 1);
}

static int
pull_turn(struct pull *p)
{
	struct cp_session *s = p->s;
	int rc;

	for (uint32_t i = 0; p->to_read > 0 && i < s->opt->depth; i++) {
		if (!p->block[i].missing)
			continue;
		p->to_read--;
		rc = pull_read(p, &p->block[i]);
		if (rc != 0)
			return rc;
	}
	rc = cp_turn(s, p->flying > 0);
	pull_drain(p);
	if (p->io_error != 0)
		return cp_fail(s, p->io_error, "%s: cannot be written: %s", p->file.path,
		               strerror(-p->io_error));
	if (p->failed && p->bad.status == WEFT_WC_FLUSHED)
		rc = -ENOTCONN;
	else if (p->failed)
		return cp_fail(s, -EIO, "%s: export %s: read failed: %s%s", s->where,
		               s->url.export_name, cp_why(s, p->bad.status), pull_consequence(p));
	if (rc != 0)
		return cp_fail_conn(s, rc, pull_consequence(p));
	cp_progress(s, &p->bar, p->done_bytes);
	return 0;
}

/* The block is here from an earlier pull: ask whether it is the target's. */
static int
pull_probe(struct pull *p, struct pull_block *b)
{
	struct cp_session *s = p->s;
	int rc = cp_hash_of(&p->hash, b->buf, b->len, b->mine);

	if (rc != 0)
		return cp_fail(s, rc, "hashing by %s: %s", p->hash.ops->name, strerror(-rc));
	b->probing = true;
	memset(b->theirs, 0, sizeof(b->theirs));
	return cp_probe(s, &p->hash, (uint64_t)(b - p->block),
	                s->grant.slot_to[p->word.slot] + EXPFMT_HEADER_BYTES + b->off, b->len,
	                false, b->theirs);
}

static int
pull_post(struct pull *p)
{
	struct cp_session *s = p->s;
	const unsigned int i = (p->head + p->used) % s->opt->depth;
	struct pull_block *b = &p->block[i];
	const uint64_t left = p->slot.length_bytes - p->posted_bytes;
	int rc;

	*b = (struct pull_block){
	        .buf = b->buf,
	        .off = p->posted_bytes,
	        .len = left < s->opt->block_bytes ? (uint32_t)left : s->opt->block_bytes,
	        .post_ns = ui_now_ns(),
	};
	if (p->flying == 0)
		s->last_ns = b->post_ns;
	if (p->hash.ops != NULL && cp_file_local(&p->file, b->buf, b->len, b->off) == 0)
		rc = pull_probe(p, b);
	else
		rc = pull_read(p, b);
	if (rc == 0) {
		p->posted_bytes += b->len;
		p->used++;
		p->flying++;
	}
	return rc;
}

/* Octets of an earlier pull that are proved before they are used; the rest of its file goes. */
static int
pull_earlier(struct pull *p)
{
	struct cp_session *s = p->s;
	struct stat st;
	int rc = 0;

	p->hash.ops = NULL;
	if (p->file.stream)
		return 0;
	if (p->file.keep && fstat(p->file.fd, &st) == 0)
		p->file.have_bytes = (uint64_t)st.st_size;
	/* Nothing proves anything where the export grants no Verify. Only --resume asks for the key
	 * of its hash. */
	if (p->file.have_bytes > 0 && (s->grant.rights & WEFT_EXPORT_VERIFY) &&
	    (s->opt->resume || cp_hash_known(s, s->grant.hash)))
		rc = cp_hash_find(s, s->grant.hash, &p->hash);
	else
		p->file.have_bytes = 0;
	if (p->file.have_bytes > p->slot.length_bytes)
		p->file.have_bytes = p->slot.length_bytes;
	if (rc == 0 && ftruncate(p->file.fd, (off_t)p->file.have_bytes) != 0)
		rc = cp_fail(s, -errno, "%s: cannot be written: %s", p->path, strerror(errno));
	return rc;
}

static int
pull_data(struct pull *p)
{
	struct cp_session *s = p->s;
	int rc = pull_earlier(p);

	if (rc != 0)
		return rc;
	if (p->crc->init(&p->crc_state, NULL, 0) != 0)
		return cp_fail(s, -ENOTSUP, "no hash driver crc32c");
	p->posted_bytes = p->done_bytes = p->blocks = p->moved_bytes = p->resumed_bytes = 0;
	p->head = p->used = p->flying = 0;
	memset(&p->r->lat, 0, sizeof(p->r->lat));
	p->data_ns = ui_now_ns();
	s->on_wc = pull_on_wc;
	s->op = p;
	while (rc == 0 && p->done_bytes < p->slot.length_bytes) {
		while (rc == 0 && p->used < s->opt->depth &&
		       p->posted_bytes < p->slot.length_bytes &&
		       !cp_ahead(s, p->data_ns, p->moved_bytes))
			rc = pull_post(p);
		if (rc == 0 && cp_must_leave(s, WEFT_EXPORT_READ, p->data_ns, p->done_bytes,
		                             p->slot.length_bytes)) {
			while (rc == 0 && p->flying > 0)
				rc = pull_turn(p);
			s->on_wc = NULL;
			return rc != 0 ? rc : cp_leave(s, pull_consequence(p));
		}
		if (rc == 0)
			rc = pull_turn(p);
	}
	s->on_wc = NULL;
	return rc;
}

/* ---- An attempt: 0, -EAGAIN when the word changed under it, or another -errno ---- */

/*
 * `last`: the read after all others. With the flush right the returned object is durable then,
 * because the word was the same before the Flush and after it.
 */
static int
pull_word(struct pull *p, bool last, struct expfmt_commit *w)
{
	return cp_read_word(p->s, last && (p->s->grant.rights & WEFT_EXPORT_FLUSH), w);
}

/* The slot is inconsistent: a writer changed it if the word has changed, else it is damaged. */
static int
pull_damaged(struct pull *p, const char *what)
{
	struct expfmt_commit again;
	int rc = pull_word(p, false, &again);

	if (rc != 0)
		return rc;
	if (again.generation != p->word.generation || again.slot != p->word.slot)
		return -EAGAIN;
	return cp_fail(p->s, -EIO,
	               "%s: export %s is damaged: generation %" PRIu64 ", slot %u: %s%s",
	               p->s->where, p->s->url.export_name, p->word.generation, p->word.slot, what,
	               pull_consequence(p));
}

static int
pull_attempt(struct pull *p)
{
	struct cp_session *s = p->s;
	struct expfmt_commit again;
	uint8_t sum[WEFT_HASH_MAX_BYTES];
	enum expfmt_check c;
	int rc = pull_word(p, false, &p->word);

	if (rc != 0)
		return rc;
	if (p->word.generation == 0)
		return cp_fail(s, -ENODATA, "%s: export %s holds nothing yet", s->where,
		               s->url.export_name);
	rc = cp_read_ctl(s, s->grant.slot_to[p->word.slot], EXPFMT_HEADER_BYTES, CP_CTL_HEADER);
	if (rc != 0)
		return rc;
	c = expfmt_slot_decode(s->ctl + CP_CTL_HEADER, s->grant.capacity_bytes, &p->slot);
	if (c != EXPFMT_OK)
		return pull_damaged(p, expfmt_check_str(c));
	if (p->slot.generation != p->word.generation)
		return pull_damaged(p, "its header is of another generation");
	ui_progress_start(&p->bar, p->file.path, p->slot.length_bytes, s->opt->quiet);
	rc = pull_data(p);
	ui_progress_end(&p->bar);
	if (rc != 0)
		return rc;
	rc = pull_word(p, true, &again);
	if (rc != 0)
		return rc;
	if (again.generation != p->word.generation || again.slot != p->word.slot)
		return -EAGAIN;
	p->crc->final(&p->crc_state, sum);
	if (memcmp(sum, p->slot.data_crc, EXPFMT_CRC_BYTES) != 0 && p->resumed_bytes > 0)
		/* What was here may be at fault: without it. */
		return ftruncate(p->file.fd, 0) == 0
		               ? -EAGAIN
		               : cp_fail(p->s, -errno, "%s: cannot be written: %s", p->path,
		                         strerror(errno));
	if (memcmp(sum, p->slot.data_crc, EXPFMT_CRC_BYTES) != 0)
		return pull_damaged(p, "the checksum of its data is wrong");
	return 0;
}

static int
pull_begin(struct pull *p)
{
	struct cp_session *s = p->s;
	size_t stride = (s->opt->block_bytes + 4095u) & ~(size_t)4095;
	struct weft_mr_attr ma = {
	        .size = sizeof(ma),
	        .len_bytes = stride * s->opt->depth,
	        .access = WEFT_ACCESS_LOCAL_WRITE,
	};
	char b1[32];
	int rc;

	p->crc = weft_hash_find("crc32c");
	if (p->crc == NULL)
		return cp_fail(s, -ENOTSUP, "no hash driver crc32c");
	p->mem = aligned_alloc(4096, stride * s->opt->depth);
	if (p->mem == NULL)
		return cp_fail(s, -ENOMEM, "not enough memory for %u blocks of %s", s->opt->depth,
		               ui_bytes(stride, b1, sizeof(b1)));
	for (uint32_t i = 0; i < s->opt->depth; i++)
		p->block[i].buf = p->mem + i * stride;
	ma.addr = p->mem;
	rc = weft_mr_reg(s->pd, &ma, &p->mr);
	if (rc != 0)
		return cp_fail(s, rc, "cannot register memory: %s", strerror(-rc));
	return 0;
}

static void
pull_report(struct pull *p, uint32_t tries)
{
	struct cp_report *r = p->r;
	struct weft_qp_info info;

	weft_qp_query(p->s->qp, &info);
	r->bytes = p->slot.length_bytes;
	r->resumed_bytes = p->resumed_bytes;
	r->resume = p->file.keep;
	r->blocks = p->blocks;
	r->transfer_ns = ui_now_ns() - p->begin_ns;
	r->generation = p->word.generation;
	r->slot = p->word.slot;
	r->tries = tries;
	r->verified = true;
	memcpy(r->crc, p->slot.data_crc, sizeof(r->crc));
	r->retransmits = info.retrans_segs;
}

int
cp_pull(struct cp_session *s, const char *path, struct cp_report *r)
{
	struct pull *p = calloc(1, sizeof(*p));
	uint32_t tries = 0;
	int rc;

	if (p == NULL)
		return cp_fail(s, -ENOMEM, "not enough memory");
	p->s = s;
	p->r = r;
	p->path = path;
	r->op = "pull";
	rc = cp_file_create(s, &p->file, path);
	if (rc == 0)
		rc = cp_connect(s);
	if (rc == 0)
		rc = cp_open(s, WEFT_EXPORT_READ,
		             WEFT_EXPORT_FLUSH | (p->file.keep ? WEFT_EXPORT_VERIFY : 0));
	if (rc == 0)
		rc = pull_begin(p);
	if (rc == 0) {
		p->begin_ns = ui_now_ns();
		do
			rc = pull_attempt(p);
		while (rc == -EAGAIN && ++tries < PULL_TRIES && !p->file.stream);
		if (rc == -EAGAIN && p->file.stream)
			cp_fail(s, rc, "%s: export %s was replaced while it was read; try again",
			        s->where, s->url.export_name);
		else if (rc == -EAGAIN)
			cp_fail(s, rc,
			        "%s: export %s was replaced %u times while it was read; try again",
			        s->where, s->url.export_name, PULL_TRIES);
	}
	if (rc == 0)
		pull_report(p, tries + 1);
	if (rc == 0)
		rc = cp_file_install(s, &p->file);
	/* The registration of p->mem ends before the memory does. */
	if (p->mr != NULL)
		weft_mr_dereg(p->mr, NULL, NULL);
	if (rc == 0)
		cp_close(s);
	if (rc != -EMEDIUMTYPE)
		cp_end(s);
	if (rc != 0)
		cp_file_fail(s, &p->file, rc);
	cp_file_end(&p->file);
	free(p->mem);
	free(p);
	return rc;
}
