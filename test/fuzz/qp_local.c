/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The program above the QP of fuzz_qp: requests of every kind, receives, grants, and the
 * end of the stream. */

#include "fuzz_qp.h"
#include <weft/commit.h>

static struct qp_req *
new_req(bool recv, bool signaled)
{
	if (z.nreqs == QP_REQS)
		return NULL;
	z.req[z.nreqs] = (struct qp_req){.recv = recv, .signaled = signaled};
	return &z.req[z.nreqs];
}

static uint32_t
key(struct weft_mr *mr, uint8_t how)
{
	if (mr == NULL || how == 7)
		return how == 7 ? z.stale : 0;
	return weft_mr_stag(mr);
}

/** Up to two pieces of a block of the program's own, which a peer may write later. */
static uint32_t
pieces(struct weft_sge sg[2], unsigned int block, uint8_t how)
{
	uint32_t off = fuzz_u16(&z.in) % GUARD_LEN, len = fuzz_u16(&z.in) % (GUARD_LEN - off + 1);
	bool sink = block == SINK || block == RECV;

	if (sink)
		guard_allow(&qp_mem[block], off, len);
	sg[0] = (struct weft_sge){qp_mem[block].mem + off, len / 2, key(z.mr[block], how & 7)};
	sg[1] = (struct weft_sge){qp_mem[block].mem + off + len / 2, len - len / 2, sg[0].lkey};
	if (how & 8)
		return 2;
	sg[0].len_bytes = len;
	return 1;
}

static void
local_recv(uint8_t op)
{
	uint8_t how = fuzz_u8(&z.in);
	struct weft_sge sg[2];
	struct weft_recv_wr wr = {.sg_list = sg, .wr_id = z.nreqs};
	struct qp_req *q = new_req(true, true);
	int rc;

	if (q == NULL || (z.qp == NULL && z.srq == NULL))
		return;
	wr.num_sge = pieces(sg, op & 0x80 ? SINK : RECV, how);
	rc = z.srq != NULL ? weft_post_srq_recv(z.srq, &wr, 1) : weft_post_recv(z.qp, &wr, 1);
	FUZZ_CHECK(rc == 1 || rc == -EAGAIN || rc == -EINVAL);
	z.nreqs += rc == 1;
}

static void
bind_window(struct weft_wr *wr, uint8_t how)
{
	static const uint32_t rights[4] = {WEFT_ACCESS_REMOTE_READ, WEFT_ACCESS_REMOTE_WRITE,
	                                   WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_REMOTE_READ,
	                                   WEFT_ACCESS_REMOTE_ATOMIC};
	unsigned int block = how & 8 ? RW : LEND;
	uint32_t off = fuzz_u16(&z.in) % GUARD_LEN, len = fuzz_u16(&z.in) % (GUARD_LEN - off) + 1;

	wr->bind_mw.mw = z.mw[how & 1];
	wr->bind_mw.mr = z.mr[block];
	wr->bind_mw.addr = qp_mem[block].mem + off;
	wr->bind_mw.len_bytes = len;
	wr->bind_mw.base_to = how & 4 ? TO : 0;
	wr->bind_mw.access = rights[how >> 4 & 3];
	if (wr->bind_mw.mr == NULL || wr->bind_mw.mw == NULL)
		wr->bind_mw.len_bytes = 0; /* refused when posted */
	else if ((how >> 4 & 3) != 0)
		guard_allow(&qp_mem[block], off, len);
}

static void
register_fast(struct weft_wr *wr, uint8_t how)
{
	static const uint32_t rights[4] = {WEFT_ACCESS_REMOTE_READ, WEFT_ACCESS_REMOTE_WRITE,
	                                   WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ |
	                                           WEFT_ACCESS_REMOTE_WRITE,
	                                   WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_ATOMIC};
	uint32_t off = fuzz_u16(&z.in) % GUARD_LEN, len = fuzz_u16(&z.in) % (GUARD_LEN - off) + 1;

	wr->fast_reg.mr = z.mr[FAST];
	wr->fast_reg.addr = qp_mem[FAST].mem + off;
	wr->fast_reg.len_bytes = len;
	wr->fast_reg.base_to = how & 4 ? TO : 0;
	wr->fast_reg.access = rights[how >> 4 & 3];
	if (wr->fast_reg.mr == NULL)
		wr->fast_reg.len_bytes = 0;
	else if ((how >> 4 & 3) != 0)
		guard_allow(&qp_mem[FAST], off, len);
}

/** A commit of up to two ranges. The peer may answer anything. */
static void
local_commit(uint8_t op, uint8_t how)
{
	uint8_t shape = fuzz_u8(&z.in);
	struct weft_sge sg[2][2];
	struct weft_commit_range r[2] = {{0}};
	struct weft_commit c = {.wr_id = z.nreqs,
	                        .flags = (shape & 7) | (how & 0x80 ? WEFT_COMMIT_FENCE : 0),
	                        .flush_flags = shape >> 3 & 7,
	                        .ranges = r,
	                        .num_ranges = op >> 6 & 1 ? 2 : how >> 6 & 1,
	                        .word = {.stag = 0x77665544, .to = how}};
	int rc;

	for (unsigned int i = 0; i < c.num_ranges; i++) {
		r[i] = (struct weft_commit_range){.sg_list = sg[i],
		                                  .num_sge =
		                                          pieces(sg[i], how & 0x10 ? RO : RW, how),
		                                  .flags = how & 0x20 ? WEFT_COMMIT_INLINE : 0,
		                                  .stag = 0x77665544,
		                                  .to = shape & 0x40 ? 0 : i * 64,
		                                  .expect = shape & 0x80 ? "abcd" : NULL,
		                                  .expect_bytes = shape & 0x80 ? 4 : 0};
		if (i == 1 && shape & 0x20) {
			r[i].num_sge = 0;
			r[i].len_bytes = 64;
		}
	}
	rc = weft_commit(z.qp, &c);
	FUZZ_CHECK(rc <= 0);
	z.nreqs += rc == 0;
}

static void
local_post(uint8_t op)
{
	uint8_t how = fuzz_u8(&z.in), kind = fuzz_u8(&z.in);
	struct weft_sge sg[2] = {{0}};
	struct weft_wr wr = {.wr_id = z.nreqs,
	                     .opcode = (enum weft_wr_opcode)(kind % (WEFT_WR_BIND_MW + 1)),
	                     .sg_list = sg};
	struct qp_req *q;
	uint32_t remote = 0x77665544;
	int rc;

	wr.flags = (op & 0x80 ? 0 : WEFT_WR_SIGNALED) | (how & 0x80 ? WEFT_WR_FENCE : 0);
	q = new_req(false, kind >= 0xe0 || wr.flags & WEFT_WR_SIGNALED);
	if (q == NULL || z.qp == NULL)
		return;
	if (kind >= 0xe0) {
		local_commit(op, how);
		return;
	}
	switch (wr.opcode) {
	case WEFT_WR_SEND:
	case WEFT_WR_SEND_INV:
	case WEFT_WR_IMM:
		if (wr.opcode != WEFT_WR_IMM)
			wr.num_sge = pieces(sg, how & 0x10 ? RO : RW, how);
		wr.flags |= how & 0x40 ? WEFT_WR_SOLICITED : 0;
		wr.flags |= how & 0x20 && wr.opcode != WEFT_WR_IMM ? WEFT_WR_INLINE : 0;
		if (wr.opcode == WEFT_WR_SEND_INV)
			wr.send.inv_stag = remote;
		break;
	case WEFT_WR_WRITE:
		wr.num_sge = pieces(sg, how & 0x10 ? RO : RW, how);
		wr.flags |= how & 0x20 ? WEFT_WR_INLINE : 0;
		wr.rdma.stag = remote;
		break;
	case WEFT_WR_WRITE_IMM:
		wr.num_sge = pieces(sg, how & 0x10 ? RO : RW, how);
		wr.write_imm.stag = remote;
		break;
	case WEFT_WR_READ:
		wr.num_sge = pieces(sg, SINK, how & ~8);
		wr.rdma.stag = remote;
		wr.rdma.to = TO;
		break;
	case WEFT_WR_FLUSH:
		wr.flush.stag = remote;
		wr.flush.len_bytes = how;
		wr.flush.flags = (how & 3) + 1;
		break;
	case WEFT_WR_VERIFY:
		wr.verify.stag = remote;
		wr.verify.len_bytes = 64;
		if (how & 1) {
			wr.verify.expect = "abcd";
			wr.verify.expect_bytes = 4;
		}
		if (how & 2) {
			guard_allow(&qp_mem[SINK], 0, 8);
			wr.verify.result = qp_mem[SINK].mem;
			wr.verify.result_bytes = how & 4 ? 4 : 8;
		}
		break;
	case WEFT_WR_ATOMIC_WRITE:
		wr.atomic_write.stag = remote;
		wr.atomic_write.to = how & ~7u;
		break;
	case WEFT_WR_FETCH_ADD:
	case WEFT_WR_MASKED_FETCH_ADD:
	case WEFT_WR_CMP_SWAP:
	case WEFT_WR_MASKED_CMP_SWAP:
		wr.atomic.stag = remote;
		wr.atomic.to = how & ~7u;
		wr.atomic.data = how;
		if (how & 1) {
			guard_allow(&qp_mem[SINK], 16, 8);
			sg[0] = (struct weft_sge){qp_mem[SINK].mem + 16, 8,
			                          key(z.mr[SINK], how & 7)};
			wr.num_sge = 1;
		}
		break;
	case WEFT_WR_FAST_REG:
		register_fast(&wr, how);
		break;
	case WEFT_WR_LOCAL_INV:
		wr.local_inv.stag = qp_stag(how);
		break;
	case WEFT_WR_BIND_MW:
		bind_window(&wr, how);
		break;
	}
	rc = weft_post_send(z.qp, &wr, 1);
	FUZZ_CHECK(rc == 1 || rc < 0);
	z.nreqs += rc == 1;
}

/* ---- Grants ---- */

static void
sealed(void *arg)
{
	/* The block cannot be accessed any more. Its content must stay. */
	guard_seal(arg);
}

static void
local_grant(uint8_t op)
{
	static const uint32_t access[NBLOCKS] = {
	        [RW] = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ |
	               WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_MW_BIND,
	        [RO] = WEFT_ACCESS_REMOTE_READ,
	        [SINK] = WEFT_ACCESS_LOCAL_WRITE,
	        [LEND] = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_MW_BIND};
	unsigned int i = (op >> 4) % RECV;
	int rc;

	if (z.mr[i] != NULL) {
		z.stale = weft_mr_stag(z.mr[i]);
		/* Posted requests may write RECV's and SINK's memory, and FAST may be registered
		 * again. */
		rc = weft_mr_dereg(z.mr[i], i == RW ? sealed : NULL, &qp_mem[i]);
		FUZZ_CHECK(rc == 0 || rc == -EBUSY);
		if (rc == 0)
			z.mr[i] = NULL;
		return;
	}
	if (z.inside)
		return; /* a former grant of this block must be freed first */
	if (i == FAST) {
		FUZZ_CHECK(weft_mr_alloc(z.n->pd, &z.mr[i]) == 0);
		return;
	}
	qp_turn(VT_MS);
	FUZZ_CHECK(weft_mr_reg(z.n->pd,
	                       &(struct weft_mr_attr){.size = sizeof(struct weft_mr_attr),
	                                              .addr = qp_mem[i].mem,
	                                              .len_bytes = GUARD_LEN,
	                                              .base_to = TO,
	                                              .access = access[i]},
	                       &z.mr[i]) == 0);
	if (i == RW)
		guard_allow(&qp_mem[i], 0, GUARD_LEN);
}

static void
revoked(void *arg, const struct weft_revoke *r)
{
	struct guard *g = arg;

	/* No peer can change the revoked part any more. */
	if (r->step == WEFT_REVOKE_REDUCED)
		guard_seal_from(g, r->len_bytes);
}

/** Revoke half of RW or all of it: at once, with a deadline, or at once after a deadline was
 * given. */
static void
local_revoke(uint8_t op)
{
	const struct weft_revoke_attr a = {
	        .size = sizeof(a),
	        .access = op & 0x80 ? 0 : WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE,
	        .len_bytes = op & 0x80 ? 0 : GUARD_LEN / 2,
	        .deadline_us = op & 0x40 ? 2000 : 0,
	        .on_revoke = revoked,
	        .user = &qp_mem[RW],
	        .worker = z.n->w};
	int rc;

	if (z.mr[RW] == NULL)
		return;
	rc = weft_mr_revoke(z.mr[RW], &a);
	FUZZ_CHECK(rc == 0 || rc == -EALREADY || rc == -EBUSY || rc == -ENOENT);
	if (rc == -EALREADY)
		FUZZ_CHECK(weft_mr_revoke_go(z.mr[RW]) == 0);
}

static void
local_window(uint8_t op)
{
	unsigned int i = op >> 7;

	if (z.mw[i] != NULL) {
		weft_mw_dealloc(z.mw[i]);
		z.mw[i] = NULL;
	} else {
		FUZZ_CHECK(weft_mw_alloc(z.n->pd, &z.mw[i]) == 0);
	}
}

static void
local_end(uint8_t op)
{
	if (op & 0x10) {
		local_revoke(op);
		return;
	}
	if (z.qp == NULL)
		return;
	if (op & 0x80) {
		weft_disconnect(z.qp);
	} else if (op & 0x40) {
		weft_qp_destroy(z.qp);
		z.qp = NULL;
	} else if (z.n->lsn != NULL && op & 0x20) {
		weft_unlisten(z.n->lsn);
		z.n->lsn = NULL;
	}
}

void
local_step(uint8_t op)
{
	switch (op >> 1 & 7) {
	case 0:
	case 1:
	case 2:
		local_post(op);
		break;
	case 3:
	case 4:
		local_recv(op);
		break;
	case 5:
		local_grant(op);
		break;
	case 6:
		local_window(op);
		break;
	default:
		local_end(op);
		break;
	}
}
