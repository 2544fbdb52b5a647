/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Transactions: WRITE, FLUSH, VERIFY, ATOMIC WRITE and FLUSH, adjacent in the send queue. */

#include <rte_common.h>

#include <weft/commit.h>
#include "weft_medium.h"
#include "weft_verbs_qp.h"
#include "weft_verbs_chain.h"

#define COMMIT_FLAGS (WEFT_COMMIT_NO_FLUSH | WEFT_COMMIT_NO_WORD | WEFT_COMMIT_FENCE)
#define FLUSH_FLAGS  (WEFT_FLUSH_PERSISTENT | WEFT_FLUSH_VISIBLE | WEFT_FLUSH_REGION)

/** A transaction that has passed the checks. */
struct commit_plan {
	const struct weft_commit *c;
	/** of the Flushes of the ranges; 0: no Flush */
	uint32_t flush_flags;
	uint32_t places; /**< places of the send queue that it takes */
	/** octets of a range that this transaction writes */
	uint32_t written[WEFT_COMMIT_MAX_RANGES];
	/** octets of a range that it flushes and verifies */
	uint32_t len_bytes[WEFT_COMMIT_MAX_RANGES];
	/**
	 * Entries in the watch list: first the ranges to be written, which are removed after the
	 * post, then the ranges to be verified.
	 */
	uint32_t watch[2 * WEFT_COMMIT_MAX_RANGES];
	uint32_t n_writing, n_watch;
};

static const char *const commit_steps[] = {
        [WEFT_COMMIT_STEP_WRITE] = "write",
        [WEFT_COMMIT_STEP_FLUSH] = "flush",
        [WEFT_COMMIT_STEP_VERIFY] = "verify",
        [WEFT_COMMIT_STEP_WORD] = "atomic write of the commit word",
        [WEFT_COMMIT_STEP_WORD_FLUSH] = "flush of the commit word",
};

const char *
weft_commit_step_str(uint32_t step)
{
	return step < RTE_DIM(commit_steps) ? commit_steps[step] : "?";
}

/* ---- Checks ---- */

static int
commit_plan_range(struct commit_plan *p, uint32_t i)
{
	const struct weft_commit_range *r = &p->c->ranges[i];
	uint64_t total = 0;

	if ((r->flags & ~(uint32_t)WEFT_COMMIT_INLINE) != 0 ||
	    (r->num_sge > 0 && r->sg_list == NULL) || r->num_sge > WEFT_MAX_SGE ||
	    (r->expect == NULL) != (r->expect_bytes == 0) || r->expect_bytes > WEFT_HASH_MAX_BYTES)
		return -EINVAL;
	for (uint32_t k = 0; k < r->num_sge; k++)
		total += r->sg_list[k].len_bytes;
	p->written[i] = (uint32_t)total;
	p->len_bytes[i] = r->len_bytes != 0 ? r->len_bytes : (uint32_t)total;
	if (total > p->len_bytes[i] || p->len_bytes[i] == 0)
		return -EINVAL;
	return 0;
}

/** With WEFT_FLUSH_REGION, one Flush serves adjacent ranges with the same STag. */
static bool
commit_flushes(const struct commit_plan *p, uint32_t i)
{
	if (p->flush_flags == 0)
		return false;
	return (p->flush_flags & WEFT_FLUSH_REGION) == 0 || i == 0 ||
	       p->c->ranges[i].stag != p->c->ranges[i - 1].stag;
}

static int
commit_check(struct commit_plan *p, const struct weft_commit *c)
{
	uint32_t ff;
	int rc;

	if (unlikely(c == NULL))
		return -EINVAL;
	ff = c->flush_flags != 0 ? c->flush_flags : WEFT_FLUSH_PERSISTENT;
	if ((c->flags & ~(uint32_t)COMMIT_FLAGS) != 0 || (ff & ~(uint32_t)FLUSH_FLAGS) != 0 ||
	    (ff & ~(uint32_t)WEFT_FLUSH_REGION) == 0 || c->num_ranges > WEFT_COMMIT_MAX_RANGES ||
	    (c->num_ranges > 0 && c->ranges == NULL))
		return -EINVAL;
	p->c = c;
	p->flush_flags = (c->flags & WEFT_COMMIT_NO_FLUSH) != 0 ? 0 : ff;
	p->places = 0;
	for (uint32_t i = 0; i < c->num_ranges; i++) {
		rc = commit_plan_range(p, i);
		if (rc < 0)
			return rc;
		p->places += (c->ranges[i].num_sge > 0) + commit_flushes(p, i) +
		             (c->ranges[i].expect != NULL);
	}
	if ((c->flags & WEFT_COMMIT_NO_WORD) == 0)
		p->places += p->flush_flags != 0 ? 2 : 1;
	return p->places > 0 ? 0 : -EINVAL;
}

int
weft_commit_places(const struct weft_commit *c)
{
	struct commit_plan p;
	int rc = commit_check(&p, c);

	return rc < 0 ? rc : (int)p.places;
}

/* ---- Conflicts with other posts ---- */

static void
commit_unwatch(struct weft_qp *qp, const struct commit_plan *p, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		weft_verbs_watch_del(qp, p->watch[i]);
}

static int
commit_watch_one(struct weft_qp *qp, struct commit_plan *p, uint32_t i, uint32_t len_bytes,
                 bool writing)
{
	const struct weft_commit_range *r = &p->c->ranges[i];
	int rc = weft_verbs_watch_add(qp, r->stag, r->to, len_bytes, writing);

	if (rc < 0)
		return rc;
	p->watch[p->n_watch++] = (uint32_t)rc;
	return 0;
}

/** Add all ranges to the watch list. */
static int
commit_show(struct weft_qp *qp, struct commit_plan *p)
{
	int rc = 0;

	p->n_watch = 0;
	for (uint32_t i = 0; rc == 0 && i < p->c->num_ranges; i++)
		if (p->written[i] > 0)
			rc = commit_watch_one(qp, p, i, p->written[i], true);
	p->n_writing = p->n_watch;
	for (uint32_t i = 0; rc == 0 && i < p->c->num_ranges; i++)
		if (p->c->ranges[i].expect != NULL)
			rc = commit_watch_one(qp, p, i, p->len_bytes[i], false);
	return rc;
}

/** Whether a range conflicts with ranges that were posted, or are being posted, by others. */
static bool
commit_clashes(struct weft_qp *qp, const struct commit_plan *p, uint32_t i)
{
	const struct weft_commit_range *r = &p->c->ranges[i];

	if (p->written[i] > 0 &&
	    weft_verbs_watch_hit(qp, r->stag, r->to, p->written[i], true, p->watch, p->n_watch))
		return true;
	return r->expect != NULL && weft_verbs_watch_hit(qp, r->stag, r->to, p->len_bytes[i], false,
	                                                 p->watch, p->n_watch);
}

/** Add the ranges of this transaction, then check for conflicts. -EBUSY, -ENOMEM. */
static int
commit_watch(struct weft_qp *qp, struct commit_plan *p)
{
	int rc = commit_show(qp, p);

	atomic_thread_fence(memory_order_seq_cst);
	for (uint32_t i = 0; rc == 0 && i < p->c->num_ranges; i++)
		if (commit_clashes(qp, p, i))
			rc = -EBUSY;
	if (rc < 0)
		commit_unwatch(qp, p, p->n_watch);
	return rc;
}

/* ---- Posting ---- */

/** Fill one part. WEFT_COMMIT_FENCE applies to the first part. */
static int
commit_part(struct weft_verbs_chain *u, const struct commit_plan *p, struct weft_wr *wr,
            enum weft_commit_step step, uint32_t range, int watch)
{
	wr->wr_id = p->c->wr_id;
	if (u->n == 0 && (p->c->flags & WEFT_COMMIT_FENCE) != 0)
		wr->flags |= WEFT_WR_FENCE;
	return weft_verbs_chain_part(u, wr, (uint8_t)step, range, watch);
}

static int
commit_writes(struct weft_verbs_chain *u, const struct commit_plan *p)
{
	for (uint32_t i = 0; i < p->c->num_ranges; i++) {
		const struct weft_commit_range *r = &p->c->ranges[i];
		struct weft_wr wr = {.opcode = WEFT_WR_WRITE,
		                     .flags = (r->flags & WEFT_COMMIT_INLINE) != 0 ? WEFT_WR_INLINE
		                                                                   : 0,
		                     .sg_list = r->sg_list,
		                     .num_sge = r->num_sge,
		                     .rdma = {.stag = r->stag, .to = r->to}};
		int rc;

		if (r->num_sge == 0)
			continue;
		rc = commit_part(u, p, &wr, WEFT_COMMIT_STEP_WRITE, i, -1);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int
commit_flush(struct weft_verbs_chain *u, const struct commit_plan *p)
{
	for (uint32_t i = 0; i < p->c->num_ranges; i++) {
		struct weft_wr wr = {.opcode = WEFT_WR_FLUSH,
		                     .flush = {.stag = p->c->ranges[i].stag,
		                               .to = p->c->ranges[i].to,
		                               .len_bytes = p->len_bytes[i],
		                               .flags = p->flush_flags}};
		int rc;

		if (!commit_flushes(p, i))
			continue;
		rc = commit_part(u, p, &wr, WEFT_COMMIT_STEP_FLUSH, i, -1);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int
commit_verifies(struct weft_verbs_chain *u, const struct commit_plan *p)
{
	const uint32_t *watch = p->watch + p->n_writing;

	for (uint32_t i = 0; i < p->c->num_ranges; i++) {
		const struct weft_commit_range *r = &p->c->ranges[i];
		struct weft_wr wr = {.opcode = WEFT_WR_VERIFY,
		                     .verify = {.stag = r->stag,
		                                .to = r->to,
		                                .len_bytes = p->len_bytes[i],
		                                .expect = r->expect,
		                                .expect_bytes = r->expect_bytes}};
		int rc;

		if (r->expect == NULL)
			continue;
		rc = commit_part(u, p, &wr, WEFT_COMMIT_STEP_VERIFY, i, (int)*watch++);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int
commit_word(struct weft_verbs_chain *u, const struct commit_plan *p)
{
	const struct weft_commit *c = p->c;
	struct weft_wr wr = {.opcode = WEFT_WR_ATOMIC_WRITE,
	                     .atomic_write = {.stag = c->word.stag, .to = c->word.to}};
	struct weft_wr flush = {.opcode = WEFT_WR_FLUSH,
	                        .flush = {.stag = c->word.stag,
	                                  .to = c->word.to,
	                                  .len_bytes = sizeof(c->word.data),
	                                  .flags = p->flush_flags & ~(uint32_t)WEFT_FLUSH_REGION}};
	int rc;

	memcpy(wr.atomic_write.data, c->word.data, sizeof(c->word.data));
	rc = commit_part(u, p, &wr, WEFT_COMMIT_STEP_WORD, 0, -1);
	if (rc == 0 && p->flush_flags != 0)
		rc = commit_part(u, p, &flush, WEFT_COMMIT_STEP_WORD_FLUSH, 0, -1);
	return rc;
}

static int
commit_fill(struct weft_verbs_chain *u, const struct commit_plan *p)
{
	int rc = commit_writes(u, p);

	if (rc == 0)
		rc = commit_flush(u, p);
	if (rc == 0)
		rc = commit_verifies(u, p);
	if (rc == 0 && (p->c->flags & WEFT_COMMIT_NO_WORD) == 0)
		rc = commit_word(u, p);
	return rc;
}

int
weft_commit(struct weft_qp *qp, const struct weft_commit *c)
{
	const uint32_t shut = QP_GATE_SEND | WEFT_GATE_GONE;
	struct weft_verbs_chain u;
	struct commit_plan p;
	int rc;

	if (unlikely(qp == NULL ||
	             (atomic_load_explicit(WEFT_ATOMIC_REF(qp->h.gate), memory_order_acquire) &
	              shut) != 0))
		return WEFT_HANDLE_BAD(qp, QP) ? -EINVAL : -ENOTCONN;
	rc = commit_check(&p, c);
	if (rc == 0)
		rc = weft_verbs_chain_reserve(qp, p.places, &u);
	if (rc < 0)
		return rc;
	rc = commit_watch(qp, &p);
	if (rc < 0) {
		weft_verbs_chain_cancel(&u);
		return rc;
	}
	rc = weft_verbs_chain_open(&u);
	if (rc == 0)
		rc = weft_verbs_chain_close(&u, commit_fill(&u, &p));
	/*
	 * From here on the Writes are posted. The ranges to be verified stay in the list until the
	 * send queue completes them.
	 */
	commit_unwatch(qp, &p, rc < 0 ? p.n_watch : p.n_writing);
	return rc;
}

/* ---- The expected hash ---- */

int
weft_commit_hash(const char *hash, const void *key, uint32_t key_bytes,
                 const struct weft_sge *sg_list, uint32_t num_sge, void *result,
                 uint32_t result_bytes)
{
	const struct weft_hash_ops *ops;
	struct weft_hash_state st;
	int rc;

	if (hash == NULL || result == NULL || (num_sge > 0 && sg_list == NULL))
		return -EINVAL;
	ops = weft_hash_find(hash);
	if (ops == NULL)
		return -ENOENT;
	if (result_bytes < ops->result_bytes)
		return -ENOSPC;
	for (uint32_t i = 0; i < num_sge; i++)
		if (sg_list[i].addr == NULL && sg_list[i].len_bytes > 0)
			return -EINVAL;
	rc = weft_hash_check_key(ops, key, key_bytes);
	if (rc == 0 && ops->prepare != NULL)
		rc = ops->prepare();
	if (rc == 0)
		rc = ops->init(&st, key_bytes > 0 ? key : NULL, key_bytes);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < num_sge; i++)
		if (sg_list[i].len_bytes > 0)
			ops->update(&st, sg_list[i].addr, sg_list[i].len_bytes);
	ops->final(&st, result);
	return (int)ops->result_bytes;
}
