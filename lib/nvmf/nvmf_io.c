/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file I/O commands (NVM Command Set 1.0 s3), each as one or several operations of the volume.
 *
 * The volume keeps the order of operations whose ranges overlap, on whatever worker, so none is
 * seen in part. A Flush covers what was answered before it came, and fails if any of that was lost.
 */

#include "nvmf_cmd.h"
#include "nvmf_loss.h"

#include <weft/hash.h>

#define EFFECT_CHANGES 2U /**< it may change the content of logical blocks (LBCC) */

/* CDW12 */
#define IO_NLB        0xffffU
#define IO_DTYPE      0x00f00000U /**< directives: there are none */
#define IO_FUA        (1U << 30)
#define IO_DEAC       (1U << 25) /**< Write Zeroes: deallocate */
#define DSM_AD        0x4U       /**< CDW11: deallocate */
#define DSM_RANGES    0xffU      /**< CDW10 */
#define DSM_BYTES     16U        /**< of a range */
#define DSM_MAX_BYTES 4096U
#define DSM_NO_MARK   UINT64_MAX /**< no range is done yet */
#define VERIFY_HASH   "crc32c"

static bool
io_fua(const struct nvmf_slot *s)
{
	return (s->sqe.cdw[12] & IO_FUA) != 0;
}

static struct nvmf_at *
io_at(const struct nvmf_slot *s)
{
	return &s->ns->at[s->queue->group->index];
}

uint16_t
nvmf_io_range(struct nvmf_slot *s)
{
	const uint64_t slba = s->sqe.cdw[10] | (uint64_t)s->sqe.cdw[11] << 32;
	const uint64_t n = (s->sqe.cdw[12] & IO_NLB) + 1;
	const uint16_t status = nvmf_ns_hold(s);

	if (status != WEFT_NVMF_OK)
		return status;
	if (slba >= s->ns->blocks || n > s->ns->blocks - slba)
		return NVMF_NEVER(WEFT_NVMF_LBA_RANGE);
	s->off_bytes = slba << s->ns->lba_shift;
	s->len_bytes = n << s->ns->lba_shift;
	return WEFT_NVMF_OK;
}

/** A range whose data goes over the network. */
static uint16_t
io_start_data(struct nvmf_slot *s)
{
	const uint16_t status = nvmf_io_range(s);

	if (status != WEFT_NVMF_OK)
		return status;
	if (s->len_bytes > s->queue->group->target->attr.mdts_bytes ||
	    (s->sqe.cdw[12] & IO_DTYPE) != 0)
		return NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
	s->need_bytes = (uint32_t)s->len_bytes;
	return WEFT_NVMF_OK;
}

/** Whether the namespace may be changed. */
static uint16_t
io_writable(const struct nvmf_slot *s)
{
	if (atomic_load_explicit(&s->ns->read_only, memory_order_relaxed))
		return NVMF_NEVER(WEFT_NVMF_READ_ONLY);
	return WEFT_NVMF_OK;
}

uint32_t
nvmf_io_durable(const struct nvmf_slot *s)
{
	if (io_fua(s) || !s->ns->vwc ||
	    atomic_load_explicit(&s->queue->ctrl->write_through, memory_order_acquire))
		return WEFT_VOL_DURABLE;
	return 0;
}

void
nvmf_io_changed(struct nvmf_slot *s)
{
	if ((s->op.flags & WEFT_VOL_DURABLE) == 0)
		nvmf_loss_changed(s->queue->ctrl->losses, s->ns->nsid, s->op.lost_flushes);
}

/** The end of a command whose last operation is done with `status`, which the host is told as
 * `result`. */
static void
io_end_as(struct nvmf_slot *s, int status, uint16_t result)
{
	if (status == -EIO || status == -EBADMSG)
		nvmf_count(&io_at(s)->media_errors, 1);
	nvmf_complete(s, result);
}

static void
io_end(struct nvmf_slot *s, int status, bool change)
{
	io_end_as(s, status, nvmf_status(status, change));
}

/* ---- Read, Write ---- */

static void
io_read_done(struct nvmf_slot *s, int status)
{
	if (status == 0) {
		nvmf_count(&io_at(s)->reads, 1);
		nvmf_count(&io_at(s)->read_bytes, s->len_bytes);
		nvmf_count(&s->queue->ctrl->at[s->queue->group->index].read_bytes, s->len_bytes);
	}
	io_end(s, status, false);
}

static void
io_read_flushed(struct nvmf_slot *s, int status)
{
	/* what has checksums is compared with them, which a read of the medium is not */
	const uint32_t flags = s->ns->info.sums ? 0 : WEFT_VOL_MEDIUM;

	if (status != 0)
		io_end(s, status, false);
	else
		nvmf_volume(s, WEFT_VOL_READ, flags, s->off_bytes, s->len_bytes,
		            nvmf_part(s, 0, s->len_bytes, s->part), io_read_done);
}

static void
io_read(struct nvmf_slot *s)
{
	if (io_fua(s))
		nvmf_volume(s, WEFT_VOL_FLUSH, 0, s->off_bytes, s->len_bytes, 0, io_read_flushed);
	else
		nvmf_volume(s, WEFT_VOL_READ, 0, s->off_bytes, s->len_bytes,
		            nvmf_part(s, 0, s->len_bytes, s->part), io_read_done);
}

static uint16_t
io_start_write(struct nvmf_slot *s)
{
	const uint16_t status = io_start_data(s);

	s->in = true;
	return status != WEFT_NVMF_OK ? status : io_writable(s);
}

void
nvmf_io_written(const struct nvmf_slot *s)
{
	nvmf_count(&io_at(s)->writes, 1);
	nvmf_count(&io_at(s)->written_bytes, s->len_bytes);
	nvmf_count(&s->queue->ctrl->at[s->queue->group->index].written_bytes, s->len_bytes);
}

static void
io_write_done(struct nvmf_slot *s, int status)
{
	if (status == 0) {
		nvmf_io_changed(s);
		nvmf_io_written(s);
	}
	io_end(s, status, true);
}

static void
io_write(struct nvmf_slot *s)
{
	nvmf_volume(s, WEFT_VOL_WRITE, nvmf_io_durable(s), s->off_bytes, s->len_bytes,
	            nvmf_part(s, 0, s->len_bytes, s->part), io_write_done);
}

/* ---- Flush ---- */

static uint16_t
io_start_flush(struct nvmf_slot *s)
{
	return nvmf_ns_hold(s);
}

static void
io_flush_done(struct nvmf_slot *s, int status)
{
	struct nvmf_losses *l = s->queue->ctrl->losses;
	uint16_t result;

	if (status == 0 && nvmf_loss_flushed(l, s->ns->nsid, s->mark, s->op.lost_flushes, true)) {
		status = -EIO;
		nvmf_count(&s->queue->group->told_lost, 1);
	} else if (status == -EIO || weft_block_class_of(status) == WEFT_BLOCK_SPACE) {
		/* the loss, if there was one, is told by this */
		nvmf_loss_told(l, s->ns->nsid, s->op.lost_flushes);
	}
	result = nvmf_status(status, true);
	/* It is told once. A host that sent the same Flush again would take it for done. */
	if (result == WEFT_NVMF_WRITE_FAULT)
		result = NVMF_NEVER(result);
	io_end_as(s, status, result);
}

static void
io_flush(struct nvmf_slot *s)
{
	bool dirty;

	s->mark = nvmf_loss_mark(s->queue->ctrl->losses, s->ns->nsid, &dirty);
	nvmf_volume(s, WEFT_VOL_FLUSH, 0, 0, 0, 0, io_flush_done);
}

/* ---- Write Zeroes, Dataset Management ---- */

static uint16_t
io_start_zeroes(struct nvmf_slot *s)
{
	const uint16_t status = nvmf_io_range(s);

	return status != WEFT_NVMF_OK ? status : io_writable(s);
}

static void
io_changed_done(struct nvmf_slot *s, int status)
{
	if (status == 0)
		nvmf_io_changed(s);
	io_end(s, status, true);
}

static void
io_zeroes(struct nvmf_slot *s)
{
	const uint32_t keep = (s->sqe.cdw[12] & IO_DEAC) != 0 ? 0 : WEFT_VOL_KEEP;

	nvmf_volume(s, WEFT_VOL_ZEROES, nvmf_io_durable(s) | keep, s->off_bytes, s->len_bytes, 0,
	            io_changed_done);
}

static uint32_t
io_dsm_ranges(const struct nvmf_slot *s)
{
	return (s->sqe.cdw[10] & DSM_RANGES) + 1;
}

static uint16_t
io_start_dsm(struct nvmf_slot *s)
{
	const uint16_t status = nvmf_ns_hold(s);

	s->in = true;
	s->need_bytes = io_dsm_ranges(s) * DSM_BYTES;
	/* Linux always sends the memory of as many ranges as there can be */
	if (s->cmd.sgl.bytes > s->need_bytes && s->cmd.sgl.bytes <= DSM_MAX_BYTES)
		s->need_bytes = s->cmd.sgl.bytes;
	if (status == WEFT_NVMF_OK && (s->sqe.cdw[11] & DSM_AD) != 0)
		return io_writable(s);
	return status;
}

/** Range i of a Dataset Management. False: it is not within the namespace. */
static bool
io_dsm_range(const struct nvmf_slot *s, uint32_t i, uint64_t *off_bytes, uint64_t *len_bytes)
{
	uint8_t p[DSM_BYTES];
	uint64_t slba, n;

	nvmf_get(s, (uint64_t)i * DSM_BYTES, p, sizeof(p));
	n = weft_nvmf_get32(p + 4);
	slba = weft_nvmf_get64(p + 8);
	if (slba > s->ns->blocks || n > s->ns->blocks - slba)
		return false;
	*off_bytes = slba << s->ns->lba_shift;
	*len_bytes = n << s->ns->lba_shift;
	return true;
}

/** One flush makes all ranges durable, unless a flush was lost since the first of them was done:
 * with it the change of that range may be lost. */
static int
io_dsm_kept(struct nvmf_slot *s)
{
	if (s->mark == DSM_NO_MARK)
		s->mark = s->op.lost_flushes;
	return s->mark == s->op.lost_flushes ? 0 : -EIO;
}

static void
io_dsm_next(struct nvmf_slot *s, int status)
{
	const uint32_t durable = nvmf_io_durable(s);
	uint64_t off, len = 0;

	if (status == 0 && s->step > 0 && durable == 0)
		nvmf_io_changed(s);
	else if (status == 0 && s->step > 0)
		status = io_dsm_kept(s);
	while (status == 0 && s->step < io_dsm_ranges(s) && len == 0)
		(void)io_dsm_range(s, s->step++, &off, &len);
	/* a range of length 0 is none */
	if (status != 0 || len == 0)
		io_end(s, status, true);
	else
		/* A flush of the device is one of all ranges before it. */
		nvmf_volume(s, WEFT_VOL_DISCARD, s->step == s->at_bytes ? durable : 0, off, len, 0,
		            io_dsm_next);
}

static void
io_dsm(struct nvmf_slot *s)
{
	uint64_t off, len;

	s->at_bytes = 0;
	for (uint32_t i = 0; i < io_dsm_ranges(s); i++) {
		if (!io_dsm_range(s, i, &off, &len)) {
			nvmf_complete(s, NVMF_NEVER(WEFT_NVMF_LBA_RANGE));
			return;
		}
		/* behind the last range that is one */
		if (len > 0)
			s->at_bytes = i + 1;
	}
	s->step = 0;
	s->mark = DSM_NO_MARK;
	/* without AD it is advice, of which nothing is made */
	if ((s->sqe.cdw[11] & DSM_AD) == 0)
		nvmf_complete(s, WEFT_NVMF_OK);
	else
		io_dsm_next(s, 0);
}

/* ---- Compare, Verify ---- */

static uint16_t
io_start_compare(struct nvmf_slot *s)
{
	const uint16_t status = io_start_data(s);

	s->in = true;
	s->room_bytes = 2 * s->need_bytes;
	return status;
}

static void
io_compare_done(struct nvmf_slot *s, int status)
{
	struct iovec b[WEFT_STAGING_MAX_PIECES + 2];
	uint64_t n;

	for (uint64_t at = 0; status == 0 && at < s->len_bytes; at += n) {
		(void)nvmf_part(s, at, s->len_bytes - at, s->part);
		(void)nvmf_part(s, s->len_bytes + at, s->len_bytes - at, b);
		n = NVMF_MIN(s->part[0].iov_len, b[0].iov_len);
		if (memcmp(s->part[0].iov_base, b[0].iov_base, n) != 0)
			status = -EILSEQ;
	}
	io_end(s, status, false);
}

static void
io_compare_flushed(struct nvmf_slot *s, int status)
{
	const uint32_t flags = io_fua(s) && !s->ns->info.sums ? WEFT_VOL_MEDIUM : 0;

	if (status != 0)
		io_end(s, status, false);
	else
		nvmf_volume(s, WEFT_VOL_READ, flags, s->off_bytes, s->len_bytes,
		            nvmf_part(s, s->len_bytes, s->len_bytes, s->part), io_compare_done);
}

static void
io_compare(struct nvmf_slot *s)
{
	if (io_fua(s))
		nvmf_volume(s, WEFT_VOL_FLUSH, 0, s->off_bytes, s->len_bytes, 0,
		            io_compare_flushed);
	else
		io_compare_flushed(s, 0);
}

static uint16_t
io_start_verify(struct nvmf_slot *s)
{
	const uint16_t status = nvmf_io_range(s);

	if (status == WEFT_NVMF_OK && s->ns->info.sums)
		s->room_bytes = (uint32_t)NVMF_MIN(
		        s->len_bytes,
		        NVMF_MIN(NVMF_CHUNK_BYTES, s->queue->group->target->attr.mdts_bytes));
	return status;
}

static void
io_verify_done(struct nvmf_slot *s, int status)
{
	io_end(s, status, false);
}

/** With checksums: read a piece after the other, which compares them. */
static void
io_verify_next(struct nvmf_slot *s, int status)
{
	const uint64_t n = NVMF_MIN(s->len_bytes - s->at_bytes, s->room_bytes);

	if (status != 0 || n == 0) {
		io_end(s, status, false);
		return;
	}
	s->at_bytes += n;
	nvmf_volume(s, WEFT_VOL_READ, 0, s->off_bytes + s->at_bytes - n, n,
	            nvmf_part(s, 0, n, s->part), io_verify_next);
}

static void
io_verify(struct nvmf_slot *s)
{
	s->at_bytes = 0;
	if (s->ns->info.sums) {
		io_verify_next(s, 0);
		return;
	}
	/* The medium is read past all caches; what its octets are does not matter. */
	s->op.hash = weft_hash_find(VERIFY_HASH);
	nvmf_volume(s, WEFT_VOL_VERIFY, 0, s->off_bytes, s->len_bytes, 0, io_verify_done);
}

static const struct nvmf_row io_rows[] = {
        [WEFT_NVMF_IO_FLUSH] = {.name = "flush",
                                .start = io_start_flush,
                                .run = io_flush,
                                .resv = NVMF_GROUP_WRITE},
        [WEFT_NVMF_IO_WRITE] = {.name = "write",
                                .start = io_start_write,
                                .run = io_write,
                                .effects = EFFECT_CHANGES,
                                .resv = NVMF_GROUP_WRITE,
                                .fusable = true},
        [WEFT_NVMF_IO_READ] = {.name = "read",
                               .start = io_start_data,
                               .run = io_read,
                               .resv = NVMF_GROUP_READ},
        [WEFT_NVMF_IO_COMPARE] = {.name = "compare",
                                  .start = io_start_compare,
                                  .run = io_compare,
                                  .resv = NVMF_GROUP_READ,
                                  .fusable = true},
        [WEFT_NVMF_IO_WRITE_ZEROES] = {.name = "write zeroes",
                                       .start = io_start_zeroes,
                                       .run = io_zeroes,
                                       .effects = EFFECT_CHANGES,
                                       .resv = NVMF_GROUP_WRITE},
        [WEFT_NVMF_IO_DSM] = {.name = "dataset management",
                              .start = io_start_dsm,
                              .run = io_dsm,
                              .effects = EFFECT_CHANGES,
                              .resv = NVMF_GROUP_WRITE},
        [WEFT_NVMF_IO_VERIFY] = {.name = "verify",
                                 .start = io_start_verify,
                                 .run = io_verify,
                                 .resv = NVMF_GROUP_READ},
        [WEFT_NVMF_IO_RESV_REGISTER] = {.name = "reservation register",
                                        .start = nvmf_resv_register_start,
                                        .run = nvmf_resv_run},
        [WEFT_NVMF_IO_RESV_REPORT] = {.name = "reservation report",
                                      .start = nvmf_resv_report_start,
                                      .run = nvmf_resv_report},
        [WEFT_NVMF_IO_RESV_ACQUIRE] = {.name = "reservation acquire",
                                       .start = nvmf_resv_acquire_start,
                                       .run = nvmf_resv_run},
        [WEFT_NVMF_IO_RESV_RELEASE] = {.name = "reservation release",
                                       .start = nvmf_resv_release_start,
                                       .run = nvmf_resv_run},
};

const struct nvmf_row *
nvmf_io_row(uint8_t opcode)
{
	if (opcode >= sizeof(io_rows) / sizeof(io_rows[0]) || io_rows[opcode].name == NULL)
		return NULL;
	return &io_rows[opcode];
}
