/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Format a device, open and close a volume: the calls that block.
 */

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "vol_priv.h"

#define OPEN_HEAD_BYTES                                                                            \
	WEFT_VOL_DATA_ALIGN /**< what the superblock and its copy have for themselves */

/** Where to say why something was refused. */
struct open_reason {
	char *text;
	size_t bytes;
};

static int __attribute__((format(printf, 3, 4)))
open_refuse(const struct open_reason *why, int status, const char *fmt, ...)
{
	va_list ap;

	if (why->text != NULL && why->bytes > 0) {
		va_start(ap, fmt);
		vsnprintf(why->text, why->bytes, fmt, ap);
		va_end(ap);
	}
	return status;
}

/* ---- Reads and writes that are waited for ---- */

static int
open_io(struct weft_block *b, enum weft_block_op op, uint64_t off_bytes, void *mem,
        uint64_t len_bytes)
{
	for (uint64_t at = 0; at < len_bytes;) {
		struct iovec iov = {(uint8_t *)mem + at,
		                    VOL_MIN(len_bytes - at, b->info.max_bytes)};
		struct weft_block_req req = {.op = op,
		                             .off_bytes = off_bytes + at,
		                             .len_bytes = iov.iov_len,
		                             .iov = &iov,
		                             .iovs = 1};
		int r = weft_block_wait(b, &req);

		if (r != 0)
			return r;
		at += iov.iov_len;
	}
	return 0;
}

static int
open_flush(struct weft_block *b)
{
	struct weft_block_req req = {.op = WEFT_BLOCK_FLUSH};

	return weft_block_wait(b, &req);
}

/** Memory that any device takes; the caller frees it. */
static uint8_t *
open_memory(const struct weft_block_info *i, size_t bytes)
{
	void *p;

	if (posix_memalign(&p, VOL_MAX(4096U, i->mem_align_bytes), bytes) != 0)
		return NULL;
	memset(p, 0, bytes);
	return p;
}

/** Write one copy of the superblock, and make it durable. mem has WEFT_VOL_COPY_AT octets. */
static int
open_write_copy(struct weft_block *b, const struct weft_vol_super *s, uint64_t at, uint8_t *mem)
{
	int r;

	/* Whole blocks. What a block has behind the page is zero. */
	memset(mem, 0, WEFT_VOL_COPY_AT);
	weft_vol_super_encode(s, mem);
	r = open_io(b, WEFT_BLOCK_WRITE, at, mem,
	            VOL_MAX(WEFT_VOL_SUPER_BYTES, b->info.block_bytes));
	return r != 0 ? r : open_flush(b);
}

/** Whether a volume can live on such a device: -ENOTSUP. */
static int
open_check_device(const struct weft_block_info *i, bool sums, const struct open_reason *why)
{
	if (sums && i->block_bytes > WEFT_VOL_SUM_BLOCK)
		return open_refuse(why, -ENOTSUP,
		                   "a device with blocks of %" PRIu32
		                   " octets cannot have a volume with checksums",
		                   i->block_bytes);
	if (i->block_bytes == 0 || i->block_bytes > WEFT_VOL_COPY_AT ||
	    i->max_bytes < 2 * (uint64_t)i->block_bytes)
		return open_refuse(why, -ENOTSUP,
		                   "a device with blocks of %" PRIu32
		                   " octets, and requests of %" PRIu32
		                   " octets at most, cannot have a volume",
		                   i->block_bytes, i->max_bytes);
	return 0;
}

/* ---- Format ---- */

/** Where ext (blocks of 1, 2 and 4 KiB) and btrfs have copies of their superblocks. */
static const uint64_t format_copies[] = {8388608,   33554432,  67108864,
                                         134217728, 402653184, 274877906944};
#define FORMAT_COPIES  (sizeof(format_copies) / sizeof(format_copies[0]))
#define FORMAT_SAMPLES 256U
#define FORMAT_PAGE    4096U

bool
weft_vol_format_place(uint64_t bytes, uint64_t from_bytes, uint32_t i, uint64_t *off_bytes,
                      uint64_t *len_bytes)
{
	const uint64_t mib = OPEN_HEAD_BYTES;
	uint64_t n;

	*off_bytes = 0;
	*len_bytes = VOL_MIN(bytes, mib);
	if (i == 0)
		return true;
	from_bytes = VOL_MIN(VOL_MAX(from_bytes, mib), bytes);
	*off_bytes = VOL_MAX(bytes - *len_bytes, from_bytes);
	*len_bytes = bytes - *off_bytes;
	if (i == 1)
		return true;
	i -= 2;
	*len_bytes = 0;
	if (i < FORMAT_COPIES) {
		*off_bytes = format_copies[i];
		if (*off_bytes >= from_bytes && *off_bytes < bytes)
			*len_bytes = VOL_MIN(FORMAT_PAGE, bytes - *off_bytes);
		return true;
	}
	i -= (uint32_t)FORMAT_COPIES;
	n = VOL_MIN(FORMAT_SAMPLES, bytes / mib);
	if (i >= n)
		return false;
	/* A device that was divided in equal parts has headers where the parts begin. */
	*off_bytes = (bytes / n * i + bytes % n * i / n) & ~(uint64_t)(FORMAT_PAGE - 1);
	if (*off_bytes >= from_bytes)
		*len_bytes = VOL_MIN(FORMAT_PAGE, bytes - *off_bytes);
	return true;
}

/** The medium behind its first MiB has nothing that a format could lose. */
static int
format_look_behind(struct weft_block *b, uint64_t data_at, uint8_t *mem,
                   const struct open_reason *why)
{
	const uint64_t block = b->info.block_bytes;
	struct weft_block_state state;
	uint64_t at, len;

	weft_block_query_state(b, &state);
	for (uint32_t i = 1;
	     weft_vol_format_place(state.bytes & ~(block - 1), data_at, i, &at, &len); i++) {
		const uint64_t from = at & ~(block - 1);
		const uint64_t end = (at + len + block - 1) & ~(block - 1);
		int r = open_io(b, WEFT_BLOCK_READ, from, mem, end - from);

		if (r != 0)
			return open_refuse(why, r, "the device cannot be read: %s", strerror(-r));
		for (uint64_t k = 0; k < end - from; k++) {
			if (mem[k] != 0)
				return open_refuse(why, -EMEDIUMTYPE,
				                   "the device has data at octet %" PRIu64
				                   " of %" PRIu64,
				                   from + k, state.bytes);
		}
	}
	return 0;
}

/** The medium allows a format, or is to be replaced. */
static int
format_look(struct weft_block *b, const struct weft_vol_format *f, uint64_t data_at, uint8_t *head,
            const struct open_reason *why)
{
	struct weft_vol_super s;
	const char *phrase;
	int r = open_io(b, WEFT_BLOCK_READ, 0, head, OPEN_HEAD_BYTES);

	if (r != 0)
		return open_refuse(why, r, "the device cannot be read: %s", strerror(-r));
	if (f->force)
		return 0;
	r = weft_vol_super_decode(head, WEFT_VOL_SUPER_BYTES, &s, &phrase);
	if (r == -ENODATA)
		r = weft_vol_super_decode(head + WEFT_VOL_COPY_AT, WEFT_VOL_SUPER_BYTES, &s,
		                          &phrase);
	if (r == 0 || r == -EPROTONOSUPPORT)
		return open_refuse(why, -EEXIST, "the device has a volume");
	if (r == -EBADMSG)
		return open_refuse(why, -EEXIST, "the device has a volume: %s", phrase);
	phrase = weft_vol_foreign(head, OPEN_HEAD_BYTES);
	if (phrase != NULL)
		return open_refuse(why, -EMEDIUMTYPE, "the device has %s", phrase);
	for (uint64_t i = 0; i < OPEN_HEAD_BYTES; i++) {
		if (head[i] != 0)
			return open_refuse(why, -EMEDIUMTYPE,
			                   "the device has data of an unknown format at octet "
			                   "%" PRIu64,
			                   i);
	}
	return format_look_behind(b, data_at, head, why);
}

/** Where the data of a volume of so many octets begins. */
static uint64_t
format_data_at(const struct weft_vol_format *f, uint64_t bytes)
{
	uint64_t at = OPEN_HEAD_BYTES;

	if (f->sums)
		at += WEFT_VOL_MAPS * weft_vol_map_bytes(bytes) +
		      weft_vol_groups(bytes) * WEFT_VOL_SUM_BLOCK;
	return (at + WEFT_VOL_DATA_ALIGN - 1) / WEFT_VOL_DATA_ALIGN * WEFT_VOL_DATA_ALIGN;
}

/** The length that the volume gets; 0: none is possible, and *r says why. */
static uint64_t
format_bytes(const struct weft_block *b, const struct weft_vol_format *f,
             const struct open_reason *why, int *r)
{
	const uint64_t block = f->sums ? WEFT_VOL_SUM_BLOCK : b->info.block_bytes;
	uint64_t head;
	struct weft_block_state state;
	uint64_t room;

	weft_block_query_state(b, &state);
	/* Without a length: the maps and checksums of what the device is long, or a little less. */
	head = format_data_at(f, f->bytes != 0 && f->bytes <= WEFT_VOL_MAX_BYTES
	                                 ? f->bytes
	                                 : VOL_MIN(state.bytes, WEFT_VOL_MAX_BYTES));
	if (state.bytes < head + block) {
		*r = open_refuse(why, -ENOSPC,
		                 "the device has %" PRIu64 " octets: too short for a volume",
		                 state.bytes);
		return 0;
	}
	room = VOL_MIN((state.bytes - head) & ~(block - 1), WEFT_VOL_MAX_BYTES);
	if (f->bytes > WEFT_VOL_MAX_BYTES)
		*r = open_refuse(why, -EINVAL, "a volume has at most 2^60 octets");
	else if (f->bytes > room)
		*r = open_refuse(why, -ENOSPC,
		                 "a volume of %" PRIu64
		                 " octets does not fit: the device has room for %" PRIu64,
		                 f->bytes, room);
	else
		return f->bytes == 0 ? room : f->bytes;
	return 0;
}

/** Make a range read as zeros by requests of the device for that. -EOPNOTSUPP: it has none. */
static int
format_zero(struct weft_block *b, uint64_t at, uint64_t end)
{
	const uint64_t most = b->info.max_zeroes_bytes & ~(uint64_t)(b->info.block_bytes - 1);

	if ((b->info.can & WEFT_BLOCK_CAN_ZEROES) == 0 || most == 0)
		return -EOPNOTSUPP;
	while (at < end) {
		struct weft_block_req req = {.op = WEFT_BLOCK_ZEROES,
		                             .off_bytes = at,
		                             .len_bytes = VOL_MIN(end - at, most)};
		int r = weft_block_wait(b, &req);

		if (r != 0)
			return r;
		at += req.len_bytes;
	}
	return 0;
}

/** Fill a range with an octet. mem has OPEN_HEAD_BYTES. */
static int
format_fill(struct weft_block *b, uint64_t at, uint64_t end, uint8_t octet, uint8_t *mem)
{
	int r = 0;

	memset(mem, octet, OPEN_HEAD_BYTES);
	for (; at < end && r == 0; at += OPEN_HEAD_BYTES)
		r = open_io(b, WEFT_BLOCK_WRITE, at, mem, VOL_MIN(end - at, OPEN_HEAD_BYTES));
	return r;
}

/**
 * Make checksums that are right: of zeros, which the data is made of, too. Where the device cannot
 * do that quickly, the first map says of each group that its checksums are in doubt.
 */
static int
format_sums(struct weft_block *b, const struct weft_vol_super *s, uint8_t *mem)
{
	const uint64_t end = s->data_at + (s->bytes + WEFT_VOL_SUM_BLOCK - 1) / WEFT_VOL_SUM_BLOCK *
	                                          WEFT_VOL_SUM_BLOCK;
	int r = format_zero(b, s->map_at, end);

	if (r == -EOPNOTSUPP) {
		const uint64_t map = s->map_at + weft_vol_map_bytes(s->bytes);

		r = format_fill(b, s->map_at, map, 0xff, mem);
		if (r == 0)
			r = format_fill(b, map, s->data_at, 0, mem);
	}
	return r != 0 ? r : open_flush(b);
}

int
weft_vol_format(struct weft_block *b, const struct weft_vol_format *f, char *reason,
                size_t reason_bytes)
{
	const struct open_reason why = {reason, reason_bytes};
	struct weft_vol_super s = {.version = WEFT_VOL_VERSION, .generation = 1};
	uint8_t *head;
	int r;

	if (b == NULL || f == NULL)
		return open_refuse(&why, -EINVAL, "no device");
	if ((b->info.can & WEFT_BLOCK_CAN_WRITE) == 0)
		return open_refuse(&why, -EROFS, "the device is read-only");
	r = open_check_device(&b->info, f->sums, &why);
	if (r != 0)
		return r;
	s.bytes = format_bytes(b, f, &why, &r);
	if (s.bytes == 0)
		return r;
	s.data_at = format_data_at(f, s.bytes);
	if (f->sums) {
		s.incompat = WEFT_VOL_INCOMPAT_SUMS;
		s.map_at = OPEN_HEAD_BYTES;
		s.sums_at = s.map_at + WEFT_VOL_MAPS * weft_vol_map_bytes(s.bytes);
	}
	s.block_bytes = VOL_MAX(512U, b->info.block_bytes);
	s.created_ns = f->created_ns;
	memcpy(s.uuid, f->uuid, sizeof(s.uuid));
	head = open_memory(&b->info, OPEN_HEAD_BYTES);
	if (head == NULL)
		return open_refuse(&why, -ENOMEM, "no memory");
	/* What an earlier format has left in front of the data, by a crash, does not matter. */
	r = format_look(b, f, s.data_at, head, &why);
	if (r == 0 && f->force) {
		/* No remains of another format may be found in front of the data. */
		memset(head, 0, OPEN_HEAD_BYTES);
		r = open_io(b, WEFT_BLOCK_WRITE, 0, head, OPEN_HEAD_BYTES);
		if (r == 0)
			r = open_flush(b);
		if (r != 0)
			open_refuse(&why, r, "the device cannot be written: %s", strerror(-r));
	}
	if (r == 0 && f->sums) {
		r = format_sums(b, &s, head);
		if (r != 0)
			open_refuse(&why, r, "the checksums cannot be written: %s", strerror(-r));
	}
	/* The second copy first: a volume is one when its first copy is there. */
	if (r == 0) {
		r = open_write_copy(b, &s, WEFT_VOL_COPY_AT, head);
		if (r == 0)
			r = open_write_copy(b, &s, 0, head);
		if (r != 0)
			open_refuse(&why, r, "the superblock cannot be written: %s", strerror(-r));
	}
	free(head);
	return r;
}

/* ---- Open ---- */

/** Read both copies and choose one. Returns 0 with *damaged: the copy to write again, or NULL. */
static int
open_super(struct weft_vol *v, uint8_t *mem, uint64_t *damaged_at, bool *damaged,
           const struct open_reason *why)
{
	struct weft_vol_copies c;
	const char *phrase;
	int best;

	for (unsigned int i = 0; i < 2; i++) {
		c.status[i] = open_io(v->block, WEFT_BLOCK_READ, i * (uint64_t)WEFT_VOL_COPY_AT,
		                      mem, VOL_MAX(WEFT_VOL_SUPER_BYTES, v->device.block_bytes));
		c.why[i] = "its superblock cannot be read";
		if (c.status[i] == 0)
			c.status[i] = weft_vol_super_decode(mem, WEFT_VOL_SUPER_BYTES, &c.super[i],
			                                    &c.why[i]);
	}
	best = weft_vol_super_choose(&c, damaged, &phrase);
	if (best < 0 && why->text != NULL)
		weft_vol_super_refusal(&c, best, phrase, why->text, why->bytes);
	if (best < 0)
		return best;
	*damaged_at = best == 0 ? WEFT_VOL_COPY_AT : 0;
	v->info.super = c.super[best];
	return 0;
}

/**
 * Write both copies of a superblock that has changed, first that at `first_at`, which is not the
 * one that the volume has now.
 */
static int
resize_write(struct weft_block *b, struct weft_vol_super *s, uint64_t first_at, uint8_t *mem,
             const struct open_reason *why)
{
	int r;

	/* The copy with the higher generation is the volume's: one write changes it. */
	s->generation++;
	r = open_write_copy(b, s, first_at, mem);
	if (r == 0)
		r = open_write_copy(b, s, WEFT_VOL_COPY_AT - first_at, mem);
	return r == 0 ? 0
	              : open_refuse(why, r, "the superblock cannot be written: %s", strerror(-r));
}

int
weft_vol_resize(struct weft_block *b, uint64_t bytes, char *reason, size_t reason_bytes)
{
	const struct open_reason why = {reason, reason_bytes};
	struct weft_vol v = {.block = b};
	struct weft_vol_super *s = &v.info.super;
	struct weft_block_state state;
	uint64_t damaged_at, room, block;
	bool damaged;
	uint8_t *mem;
	int r;

	if (b == NULL)
		return open_refuse(&why, -EINVAL, "no device");
	if ((b->info.can & WEFT_BLOCK_CAN_WRITE) == 0)
		return open_refuse(&why, -EROFS, "the device is read-only");
	v.device = b->info;
	block = b->info.block_bytes;
	r = open_check_device(&v.device, false, &why);
	mem = r == 0 ? open_memory(&b->info, WEFT_VOL_COPY_AT) : NULL;
	if (r == 0 && mem == NULL)
		r = open_refuse(&why, -ENOMEM, "no memory");
	if (r == 0)
		r = open_super(&v, mem, &damaged_at, &damaged, &why);
	if (r == 0 && (s->incompat != 0 || s->ro_compat != 0))
		r = open_refuse(&why, -EOPNOTSUPP, "%s keeps the length that it was made with",
		                (s->ro_compat & WEFT_VOL_RO_COMPAT_SNAPSHOT) != 0
		                        ? "a snapshot"
		                        : "a volume with checksums");
	if (r == 0) {
		weft_block_query_state(b, &state);
		room = state.bytes < s->data_at + block
		               ? 0
		               : VOL_MIN((state.bytes - s->data_at) & ~(block - 1),
		                         WEFT_VOL_MAX_BYTES);
		bytes = bytes == 0 ? room : bytes;
		if (bytes == 0 || bytes > room)
			r = open_refuse(&why, -ENOSPC,
			                "a volume of %" PRIu64
			                " octets does not fit: the device has room for %" PRIu64,
			                bytes, room);
	}
	if (r == 0 && s->bytes != bytes) {
		s->bytes = bytes;
		r = resize_write(b, s, damaged_at, mem, &why);
	}
	free(mem);
	return r;
}

/** What the superblock demands of the device and of the caller. */
static int
open_check(const struct weft_vol *v, const struct open_reason *why)
{
	const struct weft_vol_super *s = &v->info.super;
	const uint64_t block = (s->incompat & WEFT_VOL_INCOMPAT_SUMS) != 0 ? WEFT_VOL_SUM_BLOCK
	                                                                   : v->device.block_bytes;
	const uint64_t need = s->data_at + ((s->bytes + block - 1) & ~(block - 1));
	struct weft_block_state state;

	weft_block_query_state(v->block, &state);
	if (state.bytes < need)
		return open_refuse(why, -EIO,
		                   "the volume needs %" PRIu64
		                   " octets, and the device has %" PRIu64 ": it was cut",
		                   need, state.bytes);
	if (!v->info.read_only && (s->ro_compat & WEFT_VOL_RO_COMPAT_SNAPSHOT) != 0)
		return open_refuse(why, -EROFS,
		                   "it is a snapshot, which can be opened to be read only");
	if (!v->info.read_only && (s->ro_compat & ~WEFT_VOL_RO_COMPAT_KNOWN) != 0)
		return open_refuse(why, -EROFS,
		                   "the volume has features that allow only reading to this "
		                   "program");
	return 0;
}

/** The greatest power of 2 that is not greater than n, which is at least 1. */
static uint32_t
open_power_of_2(uint32_t n)
{
	while ((n & (n - 1)) != 0)
		n &= n - 1;
	return n;
}

static void
open_describe(struct weft_vol *v)
{
	const struct weft_block_info *d = &v->device;
	struct weft_vol_info *i = &v->info;

	i->sums = v->sums != NULL;
	v->unit_bytes = (d->can & WEFT_BLOCK_CAN_UNALIGNED) != 0 && d->mem_align_bytes == 1
	                        ? 1
	                        : d->block_bytes;
	if (v->sums != NULL)
		v->unit_bytes = WEFT_VOL_SUM_BLOCK;
	i->bytes = i->super.bytes;
	i->block_bytes = (uint32_t)v->unit_bytes;
	i->atomic_bytes = VOL_MIN(VOL_MAX(1U, d->atomic_bytes),
	                          VOL_MIN(WEFT_VOL_MAX_ATOMIC, open_power_of_2(d->max_bytes)));
	i->compare_bytes = VOL_MIN(WEFT_VOL_MAX_COMPARE, d->max_bytes / 2);
	i->discards = (d->can & WEFT_BLOCK_CAN_DISCARD) != 0;
	/* With checksums it has to be known what is read then. */
	if (v->sums != NULL &&
	    ((d->can & WEFT_BLOCK_CAN_DISCARD_ZEROES) == 0 ||
	     (d->discard_bytes > WEFT_VOL_SUM_BLOCK && d->discard_bytes % WEFT_VOL_SUM_BLOCK != 0)))
		i->discards = false;
	i->verify_medium = (d->can & WEFT_BLOCK_CAN_MEDIUM) != 0;
}

uint64_t
weft_vol_scratch_bytes(const struct weft_vol_attr *attr)
{
	if (attr == NULL || attr->channels > VOL_MAX_CHANNELS || attr->scratch > 256)
		return 0;
	return (uint64_t)(attr->channels == 0 ? 1 : attr->channels) *
	       (attr->scratch == 0 ? 8 : attr->scratch) * VOL_STRIDE_BYTES;
}

static bool
open_is_zero(const uint8_t *page)
{
	return page[0] == 0 && memcmp(page, page + 1, WEFT_VOL_SUM_BLOCK - 1) == 0;
}

/** Read the maps into memory of zeros. Only pages that are not zero are written to. */
static int
open_read_maps(const struct weft_vol *v)
{
	const uint64_t bytes = WEFT_VOL_MAPS * v->sums->map_bytes;
	uint8_t *mem = open_memory(&v->device, OPEN_HEAD_BYTES);
	uint64_t n;
	int r = mem != NULL ? 0 : -ENOMEM;

	for (uint64_t at = 0; at < bytes && r == 0; at += n) {
		n = VOL_MIN(bytes - at, OPEN_HEAD_BYTES);
		r = open_io(v->block, WEFT_BLOCK_READ, v->info.super.map_at + at, mem, n);
		for (uint64_t p = 0; p < n && r == 0; p += WEFT_VOL_SUM_BLOCK)
			if (!open_is_zero(mem + p))
				memcpy(v->sums->maps + at + p, mem + p, WEFT_VOL_SUM_BLOCK);
	}
	free(mem);
	return r;
}

/** Read the maps: groups that were written to when the volume was not closed are in doubt. */
static int
open_sums(struct weft_vol *v, const struct open_reason *why)
{
	struct vol_sums *s;
	int r;

	if ((v->info.super.incompat & WEFT_VOL_INCOMPAT_SUMS) == 0)
		return 0;
	r = open_check_device(&v->device, true, why);
	if (r == 0 && vol_sums_new(v->info.super.bytes, &v->sums) != 0)
		r = open_refuse(why, -ENOMEM, "no memory for the maps of checksums");
	if (r != 0)
		return r;
	s = v->sums;
	r = open_read_maps(v);
	if (r != 0)
		return open_refuse(why, r, "the maps of checksums cannot be read: %s",
		                   strerror(-r));
	for (uint64_t g = 0; g < s->groups; g++) {
		for (uint64_t slot = 0; slot < WEFT_VOL_MAPS; slot++) {
			if (!vol_sums_bit(s->maps + slot * s->map_bytes, g))
				continue;
			vol_sums_doubt(s, g, true);
			v->info.in_doubt = true;
			s->noted = 1;
		}
	}
	return 0;
}

/** Clear all maps but the first: pages of which the medium has, or may have, bits. */
static void
open_clear_maps(const struct weft_vol *v)
{
	struct vol_sums *s = v->sums;
	int r = 0;

	for (uint64_t at = s->map_bytes; at < WEFT_VOL_MAPS * s->map_bytes && r == 0;
	     at += WEFT_VOL_SUM_BLOCK) {
		if (!s->unsure[at / WEFT_VOL_SUM_BLOCK] && open_is_zero(s->maps + at))
			continue;
		memset(s->maps + at, 0, WEFT_VOL_SUM_BLOCK);
		r = open_io(v->block, WEFT_BLOCK_WRITE, v->info.super.map_at + at, s->maps + at,
		            WEFT_VOL_SUM_BLOCK);
	}
}

/** Note that all checksums are right but those in doubt. An error leaves it as after a crash. */
static void
open_sums_close(struct weft_vol *v)
{
	struct vol_sums *s = v->sums;

	if (s == NULL)
		return;
	if (!v->info.read_only && open_flush(v->block) == 0) {
		/* First the doubts, in the first map, then the other maps. */
		for (uint64_t i = 0; i < s->map_bytes; i++)
			s->maps[i] = s->doubt[i];
		if (open_io(v->block, WEFT_BLOCK_WRITE, v->info.super.map_at, s->maps,
		            s->map_bytes) == 0 &&
		    open_flush(v->block) == 0) {
			open_clear_maps(v);
			(void)open_flush(v->block);
		}
	}
	vol_sums_end(s);
}

/** Read the superblock, check it, and repair its other copy. */
static int
open_medium(struct weft_vol *v, const struct open_reason *why)
{
	uint8_t *mem = open_memory(&v->device, WEFT_VOL_COPY_AT);
	uint64_t damaged_at = 0;
	bool damaged = false;
	int r;

	if (mem == NULL)
		return open_refuse(why, -ENOMEM, "no memory");
	r = open_super(v, mem, &damaged_at, &damaged, why);
	if (r == 0)
		r = open_check(v, why);
	if (r == 0)
		r = open_sums(v, why);
	v->info.second_copy = damaged;
	if (r == 0 && damaged && !v->info.read_only) {
		r = open_write_copy(v->block, &v->info.super, damaged_at, mem);
		if (r != 0)
			open_refuse(why, r, "a copy of the superblock cannot be written: %s",
			            strerror(-r));
	}
	free(mem);
	return r;
}

int
weft_vol_open(struct weft_block *b, const struct weft_vol_attr *attr, struct weft_vol **out)
{
	struct open_reason why = {0};
	struct weft_vol *v;
	int r;

	if (attr != NULL)
		why = (struct open_reason){attr->reason, attr->reason_bytes};
	if (b == NULL || attr == NULL || out == NULL || weft_vol_scratch_bytes(attr) == 0 ||
	    attr->memory == NULL ||
	    (uintptr_t)attr->memory % VOL_MAX(4096U, b->info.mem_align_bytes) != 0)
		return open_refuse(&why, -EINVAL, "attributes of the volume are out of range");
	v = calloc(1, sizeof(*v));
	if (v == NULL)
		return open_refuse(&why, -ENOMEM, "no memory");
	v->block = b;
	v->device = b->info;
	v->max_chans = attr->channels == 0 ? 1 : attr->channels;
	v->pieces = attr->scratch == 0 ? 8 : attr->scratch;
	v->memory = attr->memory;
	v->info.read_only = attr->read_only || (b->info.can & WEFT_BLOCK_CAN_WRITE) == 0;
	r = open_check_device(&v->device, false, &why);
	if (r == 0)
		r = open_medium(v, &why);
	if (r != 0) {
		vol_sums_end(v->sums);
		free(v);
		return r;
	}
	open_describe(v);
	pthread_mutex_init(&v->lock, NULL);
	*out = v;
	return 0;
}

int
weft_vol_close(struct weft_vol *v)
{
	if (v == NULL)
		return 0;
	if (v->slots != 0)
		return -EBUSY;
	open_sums_close(v);
	pthread_mutex_destroy(&v->lock);
	free(v);
	return 0;
}

const struct weft_vol_info *
weft_vol_info(const struct weft_vol *v)
{
	return &v->info;
}
