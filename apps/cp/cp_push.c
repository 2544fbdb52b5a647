/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A push as a whole, by whichever way the data goes: what is checked before, the generation
 * and the slot that it takes, and the order of its steps. */

#include "cp_compare.h"
#include "cp_push.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ui.h"

/** Check that the export can take this push, and find the hash of its Verify. */
static int
push_check(struct cp_push *p)
{
	struct cp_session *s = p->s;
	int rc = cp_source_fits(s, &p->file);

	if (rc != 0)
		return rc;
	if (!s->grant.persistent && !s->opt->no_flush)
		return cp_fail(s, -ENOTSUP,
		               "%s: export %s is not persistent (%s); --no-flush pushes to it all "
		               "the same",
		               s->where, s->url.export_name, s->grant.mechanism);
	if (s->opt->no_verify)
		return 0;
	if (s->grant.persistent && s->opt->no_flush)
		return cp_fail(
		        s, -EINVAL,
		        "%s: export %s is persistent (%s), and a Verify looks at the medium; leave "
		        "--no-flush out",
		        s->where, s->url.export_name, s->grant.mechanism);
	return cp_hash_find(s, s->grant.hash, &p->hash);
}

/** Allocate the blocks in flight. */
static int
push_memory(struct cp_push *p, uint32_t depth_max)
{
	struct cp_session *s = p->s;
	size_t stride = (s->opt->block_bytes + 4095u) & ~(size_t)4095;
	char b1[32];

	p->depth = s->opt->depth < depth_max ? s->opt->depth : depth_max;
	p->r->depth = p->depth;
	p->mem = aligned_alloc(4096, stride * p->depth);
	if (p->mem == NULL)
		return cp_fail(s, -ENOMEM, "not enough memory for %u blocks of %s", p->depth,
		               ui_bytes(stride, b1, sizeof(b1)));
	p->stride = stride;
	return 0;
}

/** The next generation takes the slot that the old one does not use. */
static int
push_generation(struct cp_push *p)
{
	struct cp_session *s = p->s;

	if (p->old.generation == EXPFMT_GENERATION_MAX)
		return cp_fail(s, -EOVERFLOW, "%s: export %s: no generation is left", s->where,
		               s->url.export_name);
	p->new.generation = p->old.generation + 1;
	p->new.slot = p->old.generation == 0 ? 0 : p->old.slot ^ 1;
	p->slot_to = s->grant.slot_to[p->new.slot];
	return 0;
}

/**
 * Whether the export's present object is this file already: an earlier push may have ended between
 * its commit and the answer. The header only says whether it is worth a look; the hashes of all
 * blocks and of the header's page, each flushed before, are the proof. The word was flushed when it
 * was read.
 */
static int
push_is_there(struct cp_push *p, bool *there)
{
	struct cp_session *s = p->s;
	const uint64_t to = s->grant.slot_to[p->old.slot];
	char name[EXPFMT_NAME_MAX + 1];
	struct cp_found found;
	struct expfmt_slot h;
	int rc;

	*there = false;
	if (!s->opt->resume || p->file.stream || p->old.generation == 0)
		return 0;
	rc = cp_read_ctl(s, to, EXPFMT_HEADER_BYTES, CP_CTL_HEADER);
	if (rc != 0)
		return rc;
	snprintf(name, sizeof(name), "%s", cp_source_name(&p->file));
	if (expfmt_slot_decode(s->ctl + CP_CTL_HEADER, s->grant.capacity_bytes, &h) != EXPFMT_OK ||
	    h.generation != p->old.generation || h.length_bytes != p->file.size_bytes ||
	    h.mtime_ns != cp_source_mtime_ns(&p->file) || strcmp(h.name, name) != 0)
		return 0;
	p->begin_ns = ui_now_ns();
	rc = cp_compare(s, &p->file, &p->hash, to + EXPFMT_HEADER_BYTES, h.length_bytes,
	                !s->opt->no_flush, true, p->r, &found);
	if (rc == 0)
		rc = cp_source_check(s, &p->file);
	if (rc == 0 && found.differ_bytes == 0)
		rc = cp_compare_page(s, s->ctl + CP_CTL_HEADER, EXPFMT_HEADER_BYTES, &p->hash, to,
		                     !s->opt->no_flush, there);
	if (rc != 0)
		return rc;
	if (!*there) {
		p->r->lat = (struct hist){0};
		return cp_source_rewind(s, &p->file);
	}
	p->new = p->old;
	p->resumed_bytes = found.equal_bytes;
	p->r->blocks = found.blocks;
	p->r->transfer_ns = ui_now_ns() - p->begin_ns;
	memcpy(p->r->crc, h.data_crc, sizeof(p->r->crc));
	return 0;
}

static int
push_transfer(struct cp_push *p, const struct cp_push_ops *ops)
{
	struct cp_session *s = p->s;
	int rc;

	s->on_wc = ops->on_wc;
	s->op = p;
	p->begin_ns = ui_now_ns();
	ui_progress_start(&p->bar, p->file.path, p->file.size_bytes, s->opt->quiet);
	rc = ops->data(p);
	if (rc == 0)
		rc = cp_source_check(s, &p->file);
	if (rc == 0)
		rc = ops->commit(p);
	ui_progress_end(&p->bar);
	return rc;
}

static void
push_report(struct cp_push *p, const struct cp_push_ops *ops)
{
	struct cp_report *r = p->r;
	struct weft_qp_info info;

	weft_qp_query(p->s->qp, &info);
	r->bytes = p->file.read_bytes;
	r->resumed_bytes = p->resumed_bytes;
	r->resume = p->s->opt->resume;
	r->generation = p->new.generation;
	r->slot = p->new.slot;
	r->tries = 1;
	r->flushed = !p->s->opt->no_flush;
	r->verified = !p->s->opt->no_verify;
	r->retransmits = info.retrans_segs;
	if (!r->there)
		ops->report(p);
}

int
cp_push(struct cp_session *s, const char *path, struct cp_report *r, const struct cp_push_ops *ops)
{
	const uint32_t rights = WEFT_EXPORT_READ | WEFT_EXPORT_WRITE |
	                        (s->opt->no_flush ? 0 : WEFT_EXPORT_FLUSH) |
	                        (s->opt->no_verify ? 0 : WEFT_EXPORT_VERIFY);
	struct cp_push *p = calloc(1, ops->bytes);
	int rc;

	if (p == NULL)
		return cp_fail(s, -ENOMEM, "not enough memory");
	p->s = s;
	p->r = r;
	r->op = "push";
	s->consequence = "; nothing was committed";
	rc = cp_source_open(s, &p->file, path, "nothing was committed");
	if (rc == 0)
		rc = cp_connect(s);
	if (rc == 0)
		rc = cp_open(s, rights, 0);
	if (rc == 0)
		rc = push_check(p);
	if (rc == 0)
		rc = push_memory(p, ops->depth_max);
	/*
	 * The word in the target's memory need not be on the medium: the previous writer may have
	 * ended between its Atomic Write and the Flush. A choice by such a word would overwrite the
	 * slot that the medium still names.
	 */
	if (rc == 0)
		rc = ops->read_word(p);
	if (rc == 0)
		rc = push_is_there(p, &r->there);
	if (rc == 0 && !r->there)
		rc = push_generation(p);
	if (rc == 0 && !r->there)
		rc = push_transfer(p, ops);
	if (rc == 0)
		push_report(p, ops);
	/* After a failure the grant ends with the connection. */
	if (rc == 0)
		cp_close(s);
	if (rc != -EMEDIUMTYPE)
		cp_end(s); /* ends the calls that are still unanswered */
	free(p->mem);
	cp_source_close(&p->file);
	free(p);
	return rc;
}
