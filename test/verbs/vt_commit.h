/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VT_COMMIT_H
#define VT_COMMIT_H

/** @file Shared by the tests of weft_commit(): the target region and transactions on it. */

#include "vt.h"

#define CT_LEN  (1u << 20)
#define CT_TO   0x200000000ULL /**< base TO of the target region, at node 1 */
#define CT_SLOT 65536u         /**< octets of a slot; transaction i uses slot i % 12 */
#define CT_WORD (CT_LEN - 64)  /**< offset of the commit word */
#define CT_RIGHTS                                                                                  \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY)

/** A transaction, and the memory that its pointers refer to. */
struct ct {
	struct weft_commit c;
	struct weft_commit_range r[4];
	struct weft_sge sg[4];
	uint8_t expect[4][4];
};

/** Prepare transaction i of one range: it writes len octets of the source's slot to the same slot
 * of the target and sets the commit word to i + 1. */
static inline void
ct_make(struct vt *t, struct ct *x, unsigned int i, uint32_t len)
{
	uint8_t *src = t->n[0].mem + i % 12 * CT_SLOT;
	uint64_t word = i + 1;

	memset(x, 0, sizeof(*x));
	vt_fill(src, len, t->seed * 1000 + i + 1);
	x->sg[0] = (struct weft_sge){.addr = src, .len_bytes = len};
	CHECK_EQ(weft_commit_hash("crc32c", NULL, 0, x->sg, 1, x->expect[0], 4), 4);
	x->r[0] = (struct weft_commit_range){.sg_list = x->sg,
	                                     .num_sge = 1,
	                                     .stag = weft_mr_stag(t->n[1].mr),
	                                     .to = CT_TO + i % 12 * CT_SLOT,
	                                     .expect = x->expect[0],
	                                     .expect_bytes = 4};
	x->c = (struct weft_commit){
	        .wr_id = 100 + i,
	        .flush_flags = WEFT_FLUSH_VISIBLE,
	        .ranges = x->r,
	        .num_ranges = 1,
	        .word = {.stag = weft_mr_stag(t->n[1].mr), .to = CT_TO + CT_WORD}};
	memcpy(x->c.word.data, &word, 8);
}

static inline uint64_t
ct_word(const struct vt *t)
{
	uint64_t v;

	memcpy(&v, t->n[1].mem + CT_WORD, 8);
	return v;
}

/** Open two connected stacks. qa has attributes of node 0's QP and may be NULL. Its worker, CQs and
 * event queue are set here. */
static inline void
ct_open(struct vt *t, const struct vt_attr *va, const struct weft_qp_attr *qa)
{
	struct weft_qp_attr a;

	vt_open(t, va);
	vt_mem(&t->n[0], CT_LEN, WEFT_ACCESS_LOCAL_WRITE);
	vt_mem(&t->n[1], CT_LEN, CT_RIGHTS);
	a = vt_qp_attr(&t->n[0]);
	if (qa != NULL) {
		a = *qa;
		a.size = sizeof(a);
		a.worker = t->n[0].w;
		a.send_cq = a.recv_cq = t->n[0].cq;
		a.evq = t->n[0].evq;
	}
	vt_connect(t, &a, NULL);
}

/** Check that the next completion is this transaction's and reports success. */
static inline void
ct_done(struct vt *t, uint64_t wr_id)
{
	struct weft_wc wc = vt_wc(&t->n[0]);

	CHECK_MSG(wc.status == WEFT_WC_SUCCESS, "seed %" PRIu64 ": %s at %s of range %u", t->seed,
	          weft_wc_status_str(wc.status), weft_commit_step_str(wc.commit.step),
	          wc.commit.range);
	CHECK_EQ(wc.opcode, WEFT_WC_COMMIT);
	CHECK_EQ(wc.wr_id, wr_id);
	CHECK(wc.qp == t->n[0].qp);
	CHECK_EQ(wc.len_bytes, 0);
}

/** Check that there is no completion within 10 ms. */
static inline void
ct_silence(struct vt *t)
{
	struct weft_wc wc;

	vt_run(t, 10 * VT_MS);
	CHECK_EQ(weft_cq_poll(t->n[0].cq, &wc, 1), 0);
}

#endif /* VT_COMMIT_H */
