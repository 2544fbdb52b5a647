/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A push as a whole, by whichever way the data goes: what is checked before, the generation
 * and the slot that it takes, and the order of its steps. */

#include "cp.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

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
	p->hash = weft_hash_find(s->grant.hash);
	if (p->hash->key_max_bytes == 0)
		return 0;
	if (s->opt->hash_key.bytes == 0)
		return cp_fail(s, -ENOKEY,
		               "%s: export %s verifies by %s; give its key with --hash-key FILE",
		               s->where, s->url.export_name, s->grant.hash);
	p->key = s->opt->hash_key.key;
	p->key_bytes = s->opt->hash_key.bytes;
	return 0;
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

static int
push_transfer(struct cp_push *p, const struct cp_push_ops *ops)
{
	struct cp_session *s = p->s;
	int rc;

	s->on_wc = ops->on_wc;
	s->op = p;
	p->begin_ns = ui_now_ns();
	ui_progress_start(&p->bar, p->file.path, (uint64_t)p->file.st.st_size, s->opt->quiet);
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
	r->bytes = (uint64_t)p->file.st.st_size;
	r->generation = p->new.generation;
	r->slot = p->new.slot;
	r->tries = 1;
	r->flushed = !p->s->opt->no_flush;
	r->verified = !p->s->opt->no_verify;
	r->retransmits = info.retrans_segs;
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
	p->file.fd = -1;
	r->op = "push";
	rc = cp_source_open(s, &p->file, path);
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
		rc = push_generation(p);
	if (rc == 0)
		rc = push_transfer(p, ops);
	if (rc == 0)
		push_report(p, ops);
	/* After a failure the grant ends with the connection. */
	if (rc == 0)
		cp_close(s);
	if (rc != -EMEDIUMTYPE)
		cp_end(s); /* ends the calls that are still unanswered */
	free(p->mem);
	if (p->file.fd >= 0)
		close(p->file.fd);
	free(p);
	return rc;
}
