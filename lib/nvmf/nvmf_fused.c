/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Compare and Write as one (FUSE, NVMe Base 2.0 s3.4.2): two commands in a row, of one range.
 * The first one has memory for the data of both, and waits for the second one's. Then the volume
 * compares and writes in one step, and both are answered.
 */

#include "nvmf_cmd.h"

static uint16_t
fused_start_compare(struct nvmf_slot *s)
{
	const struct nvmf_slot *o = s->other;
	uint16_t status;

	s->in = true;
	if (s->sqe.opcode != WEFT_NVMF_IO_COMPARE || o->sqe.opcode != WEFT_NVMF_IO_WRITE ||
	    s->sqe.nsid != o->sqe.nsid || s->sqe.cdw[10] != o->sqe.cdw[10] ||
	    s->sqe.cdw[11] != o->sqe.cdw[11] ||
	    (s->sqe.cdw[12] & 0xffff) != (o->sqe.cdw[12] & 0xffff))
		return NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
	status = nvmf_io_range(s);
	if (status != WEFT_NVMF_OK)
		return status;
	if (s->len_bytes >
	    NVMF_MIN(s->ns->info.compare_bytes, s->queue->group->target->attr.mdts_bytes))
		return NVMF_NEVER(WEFT_NVMF_ATOMIC_EXCEEDED);
	if (atomic_load_explicit(&s->ns->read_only, memory_order_relaxed))
		return NVMF_NEVER(WEFT_NVMF_READ_ONLY);
	s->need_bytes = (uint32_t)s->len_bytes;
	s->room_bytes = 2 * s->need_bytes;
	return WEFT_NVMF_OK;
}

static uint16_t
fused_start_write(struct nvmf_slot *s)
{
	const uint16_t status = nvmf_io_range(s);

	s->in = true;
	s->need_bytes = (uint32_t)s->len_bytes;
	return status;
}

static void
fused_done(struct nvmf_slot *s, int status)
{
	struct nvmf_slot *first = s->other;

	if (status == 0) {
		nvmf_io_changed(s);
		nvmf_io_written(s);
	}
	/* the first one has failed, and the second one with it */
	if (status == -EILSEQ)
		nvmf_complete(first, nvmf_status(status, false));
	else if (status == -EOPNOTSUPP || status == -EMSGSIZE)
		nvmf_complete(s, NVMF_NEVER(WEFT_NVMF_ATOMIC_EXCEEDED));
	else
		nvmf_complete(s, nvmf_status(status, true));
}

/** The data of both is there. */
static void
fused_write(struct nvmf_slot *s)
{
	struct nvmf_slot *first = s->other;

	/* the volume takes what is expected in one piece of memory */
	(void)nvmf_part(first, 0, first->need_bytes, first->part);
	s->op.expect = first->part[0].iov_base;
	nvmf_volume(s, WEFT_VOL_COMPARE_WRITE, nvmf_io_durable(s), s->off_bytes, s->len_bytes,
	            nvmf_part(s, 0, s->need_bytes, s->part), fused_done);
}

static const struct nvmf_row fused_write_row = {.name = "fused write",
                                                .start = fused_start_write,
                                                .run = fused_write,
                                                .resv = NVMF_GROUP_WRITE,
                                                .fusable = true};

/** The first one's data is there. */
static void
fused_compare(struct nvmf_slot *first)
{
	struct nvmf_slot *s = first->other;

	first->state = NVMF_SLOT_FUSED;
	s->row = &fused_write_row;
	s->from = &first->mem;
	s->from_bytes = first->need_bytes;
	nvmf_start(s);
}

static const struct nvmf_row fused_compare_row = {.name = "fused compare",
                                                  .start = fused_start_compare,
                                                  .run = fused_compare,
                                                  .resv = NVMF_GROUP_WRITE,
                                                  .contiguous = true,
                                                  .fusable = true};

void
nvmf_fused_start(struct nvmf_slot *first, struct nvmf_slot *second)
{
	first->other = second;
	second->other = first;
	second->state = NVMF_SLOT_FUSED;
	first->row = &fused_compare_row;
	nvmf_start(first);
}
