/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Transactions: WRITE, FLUSH, VERIFY, ATOMIC WRITE and FLUSH, adjacent in the send queue. */

#include "verbs_unit.h"
#include <weft/commit.h>

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

/** Places of the parts: adjacent, except where the ring wraps. */
struct commit_slots {
	uint8_t *at[2];
	uint32_t n1; /**< number of places at at[0] */
	uint32_t swr_bytes;
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

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (uint32_t i = 0; rc == 0 && i < p->c->num_ranges; i++)
		if (commit_clashes(qp, p, i))
			rc = -EBUSY;
	if (rc < 0)
		commit_unwatch(qp, p, p->n_watch);
	return rc;
}

/* ---- Posting ---- */

static struct verbs_swr *
commit_slot(const struct commit_slots *at, uint32_t i)
{
	uint8_t *p = i < at->n1 ? at->at[0] + (size_t)i * at->swr_bytes
	                        : at->at[1] + (size_t)(i - at->n1) * at->swr_bytes;

	return (struct verbs_swr *)(void *)p;
}

/** Fill one part. WEFT_COMMIT_FENCE applies to the first part. */
static int
commit_part(struct weft_qp *qp, const struct commit_plan *p, const struct commit_slots *at,
            uint32_t *n, struct weft_wr *wr, uint8_t unit, uint32_t range)
{
	struct verbs_swr *s = commit_slot(at, *n);
	int rc;

	wr->wr_id = p->c->wr_id;
	if (*n == 0 && (p->c->flags & WEFT_COMMIT_FENCE) != 0)
		wr->flags |= WEFT_WR_FENCE;
	rc = weft_verbs_fill(qp, s, wr);
	if (rc < 0)
		return rc;
	s->unit = unit | VERBS_UNIT_PART;
	s->range = range;
	++*n;
	if (*n == p->places)
		s->unit |= VERBS_UNIT_LAST;
	return 0;
}

static int
commit_writes(struct weft_qp *qp, const struct commit_plan *p, const struct commit_slots *at,
              uint32_t *n)
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
		rc = commit_part(qp, p, at, n, &wr, 0, i);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int
commit_flush(struct weft_qp *qp, const struct commit_plan *p, const struct commit_slots *at,
             uint32_t *n)
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
		rc = commit_part(qp, p, at, n, &wr, 0, i);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int
commit_verifies(struct weft_qp *qp, const struct commit_plan *p, const struct commit_slots *at,
                uint32_t *n)
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
		struct verbs_swr *s = commit_slot(at, *n);
		int rc;

		if (r->expect == NULL)
			continue;
		rc = commit_part(qp, p, at, n, &wr, VERBS_WATCHED, i);
		if (rc < 0)
			return rc;
		s->watch = *watch++;
	}
	return 0;
}

static int
commit_word(struct weft_qp *qp, const struct commit_plan *p, const struct commit_slots *at,
            uint32_t *n)
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
	rc = commit_part(qp, p, at, n, &wr, VERBS_UNIT_WORD, 0);
	if (rc == 0 && p->flush_flags != 0)
		rc = commit_part(qp, p, at, n, &flush, VERBS_UNIT_WORD, 0);
	return rc;
}

static int
commit_fill(struct weft_qp *qp, const struct commit_plan *p, const struct commit_slots *at)
{
	uint32_t n = 0;
	int rc = commit_writes(qp, p, at, &n);

	if (rc == 0)
		rc = commit_flush(qp, p, at, &n);
	if (rc == 0)
		rc = commit_verifies(qp, p, at, &n);
	if (rc == 0 && (p->c->flags & WEFT_COMMIT_NO_WORD) == 0)
		rc = commit_word(qp, p, at, &n);
	return rc;
}

/** On the worker: post to the send queue itself. */
static int
commit_post(struct weft_qp *qp, const struct commit_plan *p)
{
	struct commit_slots slots = {.swr_bytes = qp->swr_bytes};
	uint32_t i, at;
	int rc;

	/* A post of another thread may have left the watch list already, so it must come first. */
	weft_verbs_foreign_first(qp);
	at = qp->sq_tail & qp->sq_mask;
	slots.at[0] = (uint8_t *)verbs_swr_at(qp, at);
	slots.at[1] = qp->sq;
	slots.n1 = qp->sq_mask + 1 - at;
	rc = commit_fill(qp, p, &slots);
	for (i = 0; rc == 0 && i < p->places; i++)
		rc = weft_verbs_local(qp, commit_slot(&slots, i));
	if (rc < 0)
		return rc;
	for (i = 0; i < p->places; i++) {
		struct verbs_swr *s = verbs_swr_at(qp, qp->sq_tail++);

		weft_rdmap_post(qp->rdmap, &s->req);
	}
	return 0;
}

/**
 * On another thread: post to the ring. The parts are enqueued together, so no other post is
 * between.
 */
static int
commit_post_foreign(struct weft_qp *qp, const struct commit_plan *p)
{
	struct rte_ring *r = weft_verbs_sq_ring(qp);
	struct rte_ring_zc_data zcd;
	struct commit_slots slots;
	int rc;

	if (r == NULL)
		return -ENOMEM;
	/* The credits are places of the ring, so there is room. */
	if (rte_ring_enqueue_zc_bulk_elem_start(r, qp->swr_bytes, p->places, &zcd, NULL) == 0)
		return -EAGAIN;
	slots = (struct commit_slots){
	        .at = {zcd.ptr1, zcd.ptr2}, .n1 = zcd.n1, .swr_bytes = qp->swr_bytes};
	rc = commit_fill(qp, p, &slots);
	WEFT_TSAN_RELEASE(r);
	rte_ring_enqueue_zc_elem_finish(r, rc == 0 ? p->places : 0);
	if (rc == 0)
		weft_verbs_ring_bell(qp);
	return rc;
}

int
weft_commit(struct weft_qp *qp, const struct weft_commit *c)
{
	const uint32_t shut = QP_GATE_SEND | WEFT_GATE_GONE;
	struct commit_plan p;
	bool mine;
	int rc;

	if (unlikely(qp == NULL || (__atomic_load_n(&qp->h.gate, __ATOMIC_ACQUIRE) & shut) != 0))
		return WEFT_HANDLE_BAD(qp, QP) ? -EINVAL : -ENOTCONN;
	mine = weft_vworker_is_mine(qp->vw);
	rc = commit_check(&p, c);
	if (rc < 0)
		return rc;
	if (p.places > qp->sq_depth)
		return -EMSGSIZE;
	if (mine && unlikely(qp->sq == NULL) && !weft_verbs_sq_wake(qp))
		return -ENOMEM;
	if (!verbs_credits_take_all(&qp->sq_credits, p.places))
		return -EAGAIN;
	rc = commit_watch(qp, &p);
	if (rc == 0) {
		rc = mine ? commit_post(qp, &p) : commit_post_foreign(qp, &p);
		/*
		 * From here on the Writes are posted. The ranges to be verified stay in the list
		 * until the send queue completes them.
		 */
		commit_unwatch(qp, &p, rc < 0 ? p.n_watch : p.n_writing);
	}
	if (rc < 0)
		verbs_credits_give(&qp->sq_credits, p.places);
	return rc;
}

/* ---- Completing ---- */

static enum weft_commit_step
commit_step(const struct verbs_swr *s)
{
	bool word = (s->unit & VERBS_UNIT_WORD) != 0;

	switch (s->opcode) {
	case WEFT_WC_WRITE:
		return WEFT_COMMIT_STEP_WRITE;
	case WEFT_WC_VERIFY:
		return WEFT_COMMIT_STEP_VERIFY;
	case WEFT_WC_ATOMIC_WRITE:
		return WEFT_COMMIT_STEP_WORD;
	default:
		return word ? WEFT_COMMIT_STEP_WORD_FLUSH : WEFT_COMMIT_STEP_FLUSH;
	}
}

/**
 * Handle the result of one part. It becomes the transaction's result if it is the cause of the
 * failure.
 */
static void
commit_judge(struct weft_qp *qp, const struct verbs_swr *s, struct weft_wc *wc)
{
	if (s->unit & VERBS_WATCHED)
		weft_verbs_watch_del(qp, s->watch);
	if (likely(s->status == WEFT_WC_SUCCESS))
		return;
	/*
	 * A step that ended the stream takes precedence over an earlier step that was only flushed.
	 */
	if (wc->status != WEFT_WC_SUCCESS &&
	    (wc->status != WEFT_WC_FLUSHED || s->status == WEFT_WC_FLUSHED))
		return;
	wc->status = s->status;
	wc->commit.step = commit_step(s);
	wc->commit.range = s->range;
}

bool
weft_verbs_unit_reap(struct weft_qp *qp, uint32_t *free_places)
{
	struct weft_wc wc = {.status = WEFT_WC_SUCCESS, .opcode = WEFT_WC_COMMIT};
	bool failed = qp->sq_failed;
	struct verbs_swr *s;
	uint32_t end = qp->sq_head;

	do {
		if (end == qp->sq_tail)
			return false;
		s = verbs_swr_at(qp, end++);
		if (!s->done)
			return false;
	} while ((s->unit & VERBS_UNIT_LAST) == 0);
	wc.wr_id = s->wr_id;
	*free_places += end - qp->sq_head;
	while (qp->sq_head != end) {
		s = verbs_swr_at(qp, qp->sq_head++);
		commit_judge(qp, s, &wc);
		if (unlikely(s->status != WEFT_WC_SUCCESS))
			weft_verbs_sq_fail(qp, s);
	}
	/*
	 * If all parts are Writes, they are done when copied, even behind a failed request. They
	 * are flushed.
	 */
	if (unlikely(failed && wc.status == WEFT_WC_SUCCESS))
		wc.status = WEFT_WC_FLUSHED;
	verbs_credits_give(&qp->sq_credits, *free_places);
	*free_places = 0;
	weft_verbs_wc(qp, qp->send_sub, &wc);
	return true;
}

void
weft_verbs_unit_refused(struct weft_qp *qp, uint32_t stag, uint64_t to, enum weft_wc_status status)
{
	struct verbs_swr *guilty = NULL;

	for (uint32_t i = qp->sq_head; i != qp->sq_tail; i++) {
		struct verbs_swr *s = verbs_swr_at(qp, i);

		if ((s->unit & VERBS_UNIT_PART) == 0 || s->opcode != WEFT_WC_WRITE || !s->done ||
		    s->req.stag != stag || to - s->req.to >= s->req.len_bytes)
			continue;
		/*
		 * If two Writes match, it is unknown which one was refused. The first may have been
		 * executed, with its commit word. So neither is blamed.
		 */
		if (guilty != NULL)
			return;
		guilty = s;
	}
	if (guilty != NULL)
		guilty->status = (uint8_t)status;
}

bool
weft_verbs_unit_dropped(struct weft_qp *qp, struct verbs_swr *s, struct weft_wc *wc)
{
	if (s->unit & VERBS_WATCHED)
		weft_verbs_watch_del(qp, s->watch);
	if ((s->unit & VERBS_UNIT_PART) == 0)
		return true;
	wc->opcode = WEFT_WC_COMMIT;
	return (s->unit & VERBS_UNIT_LAST) != 0;
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
