/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The memory of an operation: pieces of it for the device, and copies.
 */

#include "vol_priv.h"

uint64_t
vol_iov_direct(struct weft_vol_op *op, uint64_t max_bytes, uint32_t *iovs)
{
	const struct weft_vol *v = op->chan->vol;
	const uint64_t unit = v->unit_bytes, align = v->device.mem_align_bytes;
	const uint32_t most = VOL_MIN(WEFT_VOL_SUB_IOVS, v->device.max_iovs);
	struct weft_vol_place p = op->place;
	uint64_t sum = 0, cut;
	uint32_t n = 0;

	max_bytes &= ~(unit - 1);
	while (sum < max_bytes && n < most && p.i < op->iovs) {
		uint8_t *base = (uint8_t *)op->iov[p.i].iov_base + p.off_bytes;
		uint64_t len = VOL_MIN(op->iov[p.i].iov_len - p.off_bytes, max_bytes - sum);
		bool last = (len & (align - 1)) != 0;

		p.i++;
		p.off_bytes = 0;
		if (len == 0)
			continue;
		len &= ~(align - 1);
		if (((uintptr_t)base & (align - 1)) != 0 || len == 0)
			break;
		op->sub[n++] = (struct iovec){base, len};
		sum += len;
		if (last)
			break;
	}
	/* Whole blocks only. */
	for (cut = sum & (unit - 1); cut > 0;) {
		uint64_t k = VOL_MIN(cut, op->sub[n - 1].iov_len);

		op->sub[n - 1].iov_len -= k;
		cut -= k;
		if (op->sub[n - 1].iov_len == 0)
			n--;
	}
	*iovs = n;
	return sum & ~(unit - 1);
}

/** Copy between the next octets of op's memory and `mem`. */
static void
iov_copy(const struct weft_vol_op *op, uint8_t *mem, uint64_t bytes, bool to_op)
{
	struct weft_vol_place p = op->place;

	for (; bytes > 0; p.i++, p.off_bytes = 0) {
		uint8_t *base = (uint8_t *)op->iov[p.i].iov_base + p.off_bytes;
		uint64_t len = VOL_MIN(op->iov[p.i].iov_len - p.off_bytes, bytes);

		if (len == 0)
			continue;
		if (to_op)
			memcpy(base, mem, len);
		else
			memcpy(mem, base, len);
		mem += len;
		bytes -= len;
	}
}

void
vol_iov_get(const struct weft_vol_op *op, uint8_t *to, uint64_t bytes)
{
	iov_copy(op, to, bytes, false);
	op->chan->stats.copied_octets += bytes;
}

void
vol_iov_put(const struct weft_vol_op *op, const uint8_t *from, uint64_t bytes)
{
	iov_copy(op, (uint8_t *)(uintptr_t)from, bytes, true);
	op->chan->stats.copied_octets += bytes;
}

void
vol_iov_advance(struct weft_vol_op *op, uint64_t bytes)
{
	struct weft_vol_place *p = &op->place;

	while (p->i < op->iovs && bytes >= op->iov[p->i].iov_len - p->off_bytes) {
		bytes -= op->iov[p->i++].iov_len - p->off_bytes;
		p->off_bytes = 0;
	}
	p->off_bytes += bytes;
}
