/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Posts the work requests of one direction, and counts what completes. */

#include <errno.h>
#include <string.h>

#include "flow.h"
#include "mix.h"
#include <weft/byteorder.h>

void
flow_init(struct flow *f, const struct perf_job *job)
{
	*f = (struct flow){.test = job->test,
	                   .mix = job->mix,
	                   .slots = job->verify ? job->depth : 1,
	                   .size_bytes = job->size_bytes,
	                   .depth = job->depth,
	                   .signal_every = job->cq_mod,
	                   .post_list = job->post_list,
	                   .is_inline = job->size_bytes <= job->inline_bytes &&
	                                (job->test == PERF_WRITE || job->test == PERF_SEND ||
	                                 job->test == PERF_WRITE_IMM)};
	if (f->signal_every == 0)
		f->signal_every = job->depth >= 64 && job->test != PERF_READ ? job->depth / 16 : 1;
	if (f->signal_every > f->depth)
		f->signal_every = f->depth;
}

/** Eight octets of message seq (the finalizer of splitmix64). */
static uint64_t
pattern_word(uint64_t seq, uint64_t i)
{
	uint64_t v = (seq << 32 | i) + 0x9e3779b97f4a7c15ull;

	v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9ull;
	v = (v ^ v >> 27) * 0x94d049bb133111ebull;
	return v ^ v >> 31;
}

void
flow_pattern(uint8_t *buf, uint32_t bytes, uint64_t seq)
{
	uint64_t w;

	for (uint32_t at = 0; at < bytes; at += 8) {
		w = pattern_word(seq, at / 8);
		memcpy(buf + at, &w, bytes - at < 8 ? bytes - at : 8);
	}
}

uint32_t
flow_compare(const uint8_t *buf, uint32_t bytes, uint64_t seq)
{
	uint8_t want[8];

	for (uint32_t at = 0; at < bytes; at += 8) {
		uint32_t n = bytes - at < 8 ? bytes - at : 8;

		memcpy(want, &(uint64_t){pattern_word(seq, at / 8)}, 8);
		for (uint32_t i = 0; i < n; i++)
			if (buf[at + i] != want[i])
				return at + i;
	}
	return bytes;
}

void
flow_wr(struct flow *f, struct weft_wr *wr, struct weft_sge *sge, uint64_t seq)
{
	uint32_t test = f->test;
	const uint64_t off = f->slots > 1 ? seq % f->slots * f->size_bytes : 0;

	memset(wr, 0, sizeof(*wr));
	sge->addr = f->mem + off;
	sge->len_bytes = f->size_bytes;
	sge->lkey = f->lkey;
	wr->sg_list = sge;
	wr->num_sge = 1;
	wr->flags = f->is_inline ? WEFT_WR_INLINE : 0;
	if (f->mix != NULL) {
		test = f->mix->shot[seq % MIX_SHOTS].test;
		sge->len_bytes = f->mix->shot[seq % MIX_SHOTS].size_bytes;
	}
	switch (test) {
	case PERF_WRITE:
		wr->opcode = WEFT_WR_WRITE;
		wr->rdma.stag = f->stag;
		wr->rdma.to = f->to + off;
		break;
	case PERF_READ:
		wr->opcode = WEFT_WR_READ;
		wr->rdma.stag = f->stag;
		wr->rdma.to = f->to + off;
		break;
	case PERF_SEND:
		wr->opcode = WEFT_WR_SEND;
		break;
	case PERF_FETCH_ADD:
		wr->opcode = WEFT_WR_FETCH_ADD;
		wr->atomic.stag = f->stag;
		wr->atomic.to = f->to;
		wr->atomic.data = 1;
		break;
	case PERF_CMP_SWAP: /* the peer's word counts up with seq, so that each one swaps */
		wr->opcode = WEFT_WR_CMP_SWAP;
		wr->atomic.stag = f->stag;
		wr->atomic.to = f->to;
		wr->atomic.compare = seq;
		wr->atomic.data = seq + 1;
		break;
	case PERF_WRITE_IMM:
		wr->opcode = WEFT_WR_WRITE_IMM;
		wr->write_imm.stag = f->stag;
		wr->write_imm.to = f->to + off;
		weft_put_be64(wr->write_imm.data, seq & (UINT64_MAX >> 8));
		break;
	default:
		wr->opcode = WEFT_WR_ATOMIC_WRITE;
		wr->num_sge = 0;
		wr->atomic_write.stag = f->stag;
		wr->atomic_write.to = f->to;
		memcpy(wr->atomic_write.data, &seq, 8);
		break;
	}
}

/** How many may be posted now, up to `end` in all. */
static unsigned int
flow_room(const struct flow *f, uint64_t end)
{
	uint64_t under_way = f->posted - f->completed, n = FLOW_BATCH, room, untaken;

	if (f->posted >= end || under_way >= f->depth)
		return 0;
	room = f->depth - under_way;
	if (perf_takes_receive(f->test)) {
		untaken = f->posted - f->acked;
		if (untaken >= f->peer_rq)
			return 0;
		room = room < f->peer_rq - untaken ? room : f->peer_rq - untaken;
	}
	n = n < room ? n : room;
	n = n < end - f->posted ? n : end - f->posted;
	/* A list waits until there is room for all of it. */
	if (f->post_list != 0 && n >= f->post_list)
		return f->post_list;
	return f->post_list == 0 || f->posted + n == end ? (unsigned int)n : 0;
}

int
flow_fill(struct flow *f, uint64_t end)
{
	struct weft_wr wr[FLOW_BATCH];
	struct weft_sge sge[FLOW_BATCH];
	unsigned int n = flow_room(f, end);
	uint32_t unsignaled = f->unsignaled;
	int rc;

	for (unsigned int i = 0; i < n; i++) {
		flow_wr(f, &wr[i], &sge[i], f->posted + i);
		/* The last one makes a completion, too, where nothing more fits before one. */
		const bool last =
		        f->posted + i + 1 == end ||
		        (i + 1 == n && f->posted + n - f->completed + f->post_list > f->depth);

		if (++unsignaled < f->signal_every && !last)
			continue;
		/* wr_id is the number of work requests that this completion covers. */
		wr[i].flags |= WEFT_WR_SIGNALED;
		wr[i].wr_id = unsignaled;
		unsignaled = 0;
	}
	if (n == 0)
		return 0;
	rc = weft_post_send(f->qp, wr, n);
	if (rc <= 0)
		return rc == -EAGAIN ? 0 : rc;
	f->posted += (unsigned int)rc;
	/* The queue takes all, or as many as it has places. */
	for (unsigned int i = 0; i < (unsigned int)rc; i++)
		f->unsignaled = (wr[i].flags & WEFT_WR_SIGNALED) ? 0 : f->unsignaled + 1;
	return 0;
}

void
flow_completed(struct flow *f, const struct weft_wc *wc)
{
	if (wc->wr_id == FLOW_BARRIER_ID) {
		/* the unsignaled work requests before it are done */
		f->completed = f->posted;
		f->barriers++;
		f->unsignaled = 0;
	} else {
		f->completed += wc->wr_id;
	}
}

int
flow_barrier(struct flow *f)
{
	struct weft_sge sge = {f->mem, 1, f->lkey};
	struct weft_wr wr = {.opcode = WEFT_WR_READ,
	                     .flags = WEFT_WR_SIGNALED,
	                     .wr_id = FLOW_BARRIER_ID,
	                     .sg_list = &sge,
	                     .num_sge = 1,
	                     .rdma = {f->stag, f->to}};
	int rc = weft_post_send(f->qp, &wr, 1);

	if (rc < 1)
		return rc < 0 ? rc : -EIO;
	f->posted++;
	return 0;
}

int
flow_tell(struct weft_qp *qp, enum perf_ctl what, uint64_t value)
{
	struct weft_wr wr = {.opcode = WEFT_WR_IMM};
	int rc;

	weft_put_be64(wr.imm.data, value);
	wr.imm.data[0] = (uint8_t)what;
	rc = weft_post_send(qp, &wr, 1);
	return rc == 1 ? 0 : rc < 0 ? rc : -EAGAIN;
}

enum perf_ctl
flow_told(const struct weft_wc *wc, uint64_t *value)
{
	if (wc->opcode != WEFT_WC_RECV_IMM)
		return PERF_CTL_NONE;
	*value = weft_get_be64(wc->imm) & (UINT64_MAX >> 8);
	return wc->imm[0] <= PERF_CTL_REPORT ? (enum perf_ctl)wc->imm[0] : PERF_CTL_NONE;
}

void
flow_took(struct flow *f)
{
	f->received++;
	if (++f->unacked < f->rq_depth / 4)
		return;
	if (flow_tell(f->qp, PERF_CTL_ACK, f->unacked) == 0)
		f->unacked = 0;
}

void
flow_repost_recv(struct flow *f, struct weft_qp *qp, const struct weft_sge *sge, uint32_t list)
{
	struct weft_recv_wr wr[FLOW_BATCH];
	struct weft_sge same = *sge;

	if (++f->spent < list)
		return;
	for (uint32_t i = 0; i < list; i++)
		wr[i] = (struct weft_recv_wr){.sg_list = &same, .num_sge = same.addr != NULL};
	(void)weft_post_recv(qp, wr, list);
	f->spent = 0;
}
