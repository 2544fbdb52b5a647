/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Volumes, one promise at a time: the superblock, refusals, order, waits, cancel, deadlines,
 * revocation, lost flushes, errors of the device.
 */

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "volume_rig.h"

#define DISK_BYTES (4U << 20)
#define DATA_AT    (1U << 20)

static uint8_t mem[3][262144];

static void
fill(uint8_t *p, uint8_t value, size_t n)
{
	memset(p, value, n);
}

static void
start(struct rig *r, uint64_t seed, unsigned int chans)
{
	rig_device(r, DISK_BYTES, 512, seed);
	rig_format(r, 0);
	rig_open(r, chans, 0);
}

/** Octets of the device, past the volume. */
static int
device_io(struct rig *r, enum weft_block_op op, uint64_t off, void *p, uint64_t len)
{
	struct iovec iov = {p, len};
	struct weft_block_req req = {
	        .op = op, .off_bytes = off, .len_bytes = len, .iov = &iov, .iovs = 1};

	return weft_block_wait(r->block, &req);
}

/* ---- The superblock ---- */

static const struct weft_vol_super a_super = {.version = 1,
                                              .block_bytes = 512,
                                              .compat = 8,
                                              .uuid = {9, 8, 7},
                                              .bytes = 12345,
                                              .data_at = DATA_AT,
                                              .created_ns = 77,
                                              .generation = 3};

static void
reseal(const struct weft_vol_super *s, uint8_t *page, struct weft_vol_super *out, int expect)
{
	const char *why = NULL;

	weft_vol_super_encode(s, page);
	CHECK_EQ(weft_vol_super_decode(page, 4096, out, &why), expect);
	CHECK((why != NULL) == (expect != 0));
}

static void
test_super(void)
{
	struct weft_vol_super s, out;
	uint8_t page[4096];
	const char *why;

	reseal(&a_super, page, &out, 0);
	CHECK_MEM(&out, &a_super, sizeof(out));
	CHECK_MEM(page, "WEFTVOL1\0\0\0\1\0\0\2\0", 16);
	/* each octet matters */
	for (unsigned int i = 0; i < 4096; i++) {
		page[i] ^= 1;
		CHECK(weft_vol_super_decode(page, 4096, &out, &why) ==
		      (i < 8 ? -EMEDIUMTYPE : -EBADMSG));
		page[i] ^= 1;
	}
	/* a version is believed when the CRC is right */
	for (unsigned int i = 0; i < 256; i++) {
		page[11] = (uint8_t)i;
		CHECK_EQ(weft_vol_super_decode(page, 4096, &out, &why), i == 1 ? 0 : -EBADMSG);
	}
	page[11] = 1;
	/* cut short, in an allocation of this length: a sanitizer sees a read behind it */
	for (unsigned int n = 0; n < 4096; n += n < 100 ? 1 : 61) {
		uint8_t *cut = test_heap_copy(page, n);
		int r = weft_vol_super_decode(cut, n, &out, &why);

		CHECK_EQ(r, n == 0 ? -ENODATA : n < 8 ? -EMEDIUMTYPE : -EBADMSG);
		free(cut);
	}
#define WRONG(field, value, expect)                                                                \
	s = a_super;                                                                               \
	s.field = value;                                                                           \
	reseal(&s, page, &out, expect)
	WRONG(version, 2, -EPROTONOSUPPORT);
	CHECK_EQ(out.version, 2);
	WRONG(incompat, 2, -EPROTONOSUPPORT);
	WRONG(incompat, 1, -EBADMSG); /* checksums without a place */
	WRONG(incompat, 1ULL << 63, -EPROTONOSUPPORT);
	WRONG(compat, UINT64_MAX, 0);
	WRONG(ro_compat, 2, 0);
	WRONG(block_bytes, 0, -EBADMSG);
	WRONG(block_bytes, 513, -EBADMSG);
	WRONG(block_bytes, 1U << 17, -EBADMSG);
	WRONG(bytes, 0, -EBADMSG);
	WRONG(bytes, WEFT_VOL_MAX_BYTES + 1, -EBADMSG);
	WRONG(data_at, 0, -EBADMSG);
	WRONG(data_at, DATA_AT + 512, -EBADMSG);
	WRONG(data_at, 1ULL << 61, -EBADMSG);
	WRONG(generation, 0, -EBADMSG);
#undef WRONG
	memset(page, 0, sizeof(page));
	CHECK_EQ(weft_vol_super_decode(page, 4096, &out, &why), -ENODATA);
	memcpy(page, "WEFTEXP1", 8);
	CHECK_EQ(weft_vol_super_decode(page, 4096, &out, &why), -EMEDIUMTYPE);
	CHECK_STR(why, "an export with slots (docs/export-format.md)");
	memcpy(page, "XFSB", 4);
	CHECK_STR(weft_vol_foreign(page, 4096), "an XFS file system");
	memcpy(page, "nothing", 8);
	page[510] = 0x55;
	page[511] = 0xaa;
	CHECK_STR(weft_vol_foreign(page, 4096), "a boot sector or an MBR partition table");
	page[1080] = 0x53;
	page[1081] = 0xef;
	CHECK_STR(weft_vol_foreign(page, 4096), "an ext2, ext3 or ext4 file system");
	CHECK(weft_vol_foreign(page, 100) == NULL);
}

static int
try_open(struct rig *r, char *reason, bool read_only)
{
	struct weft_vol_attr a = {.read_only = read_only, .reason = reason, .reason_bytes = 160};
	struct weft_vol *v = NULL;
	int n;

	CHECK(posix_memalign(&a.memory, 4096, weft_vol_scratch_bytes(&a)) == 0);
	n = weft_vol_open(r->block, &a, &v);
	if (n == 0)
		CHECK_EQ(weft_vol_close(v), 0);
	free(a.memory);
	return n;
}

static void
test_format(void)
{
	struct weft_vol_format f = {.uuid = {5}};
	uint8_t page[4096];
	char reason[160];
	struct rig r;

	rig_device(&r, DISK_BYTES, 512, 0);
	CHECK_EQ(try_open(&r, reason, false), -ENODATA);
	CHECK_STR(reason, "it was never formatted");
	f.bytes = DISK_BYTES;
	CHECK_EQ(weft_vol_format(r.block, &f, reason, sizeof(reason)), -ENOSPC);
	CHECK_STR(reason,
	          "a volume of 4194304 octets does not fit: the device has room for 3145728");
	f.bytes = 2ULL << 60;
	CHECK_EQ(weft_vol_format(r.block, &f, reason, sizeof(reason)), -EINVAL);
	f.bytes = 0;
	memset(page, 0, sizeof(page));
	memcpy(page, "WEFTLOG1", 8);
	CHECK_EQ(device_io(&r, WEFT_BLOCK_WRITE, 0, page, 4096), 0);
	CHECK_EQ(weft_vol_format(r.block, &f, reason, sizeof(reason)), -EMEDIUMTYPE);
	CHECK_STR(reason, "the device has a remote log (docs/log-format.md)");
	CHECK_EQ(try_open(&r, reason, false), -EMEDIUMTYPE);
	CHECK_STR(reason, "it has a remote log (docs/log-format.md)");
	memset(page, 0, sizeof(page));
	CHECK_EQ(device_io(&r, WEFT_BLOCK_WRITE, 0, page, 4096), 0);
	page[17] = 1;
	CHECK_EQ(device_io(&r, WEFT_BLOCK_WRITE, 200 * 4096, page, 4096), 0);
	CHECK_EQ(weft_vol_format(r.block, &f, reason, sizeof(reason)), -EMEDIUMTYPE);
	CHECK_STR(reason, "the device has data of an unknown format at octet 819217");
	f.force = true;
	CHECK_EQ(weft_vol_format(r.block, &f, reason, sizeof(reason)), 0);
	f.force = false;
	CHECK_EQ(weft_vol_format(r.block, &f, reason, sizeof(reason)), -EEXIST);
	CHECK_EQ(try_open(&r, reason, false), 0);
	rig_open(&r, 1, 0);
	CHECK_EQ(weft_vol_info(r.vol)->bytes, DISK_BYTES - DATA_AT);
	CHECK_EQ(weft_vol_info(r.vol)->super.uuid[0], 5);
	CHECK_EQ(weft_vol_info(r.vol)->second_copy, 0);
	rig_end(&r);
	/* a device that is too short */
	rig_device(&r, DATA_AT, 512, 0);
	CHECK_EQ(weft_vol_format(r.block, &f, reason, sizeof(reason)), -ENOSPC);
	CHECK_STR(reason, "the device has 1048576 octets: too short for a volume");
	rig_end(&r);
}

/** The places that are looked at before a format lie on the device, whatever its length. */
static void
test_format_places(void)
{
	static const uint64_t lengths[] = {0,
	                                   512,
	                                   DATA_AT,
	                                   DATA_AT + 512,
	                                   3 * DATA_AT + 4095,
	                                   1ULL << 38,
	                                   (1ULL << 38) + 512,
	                                   UINT64_MAX};

	for (unsigned int n = 0; n < sizeof(lengths) / sizeof(lengths[0]); n++) {
		for (unsigned int k = 0; k < 3; k++) {
			const uint64_t from = k * (lengths[n] / 3);
			uint64_t at, len, octets = 0;
			uint32_t i = 0;

			for (; weft_vol_format_place(lengths[n], from, i, &at, &len); i++) {
				CHECK(len <= lengths[n] && (len == 0 || at <= lengths[n] - len));
				CHECK(i == 0 || len == 0 || at >= from);
				octets += len;
			}
			CHECK(i <= 300 && octets <= 4 * DATA_AT);
		}
	}
}

/** One octet that is not zero at any of these places is enough for a refusal. */
static void
test_format_behind(void)
{
	struct weft_vol_format f = {.uuid = {5}};
	static uint8_t page[512];
	char reason[160];
	uint64_t at, len;
	struct rig r;
	unsigned int n = 0;

	rig_device(&r, DISK_BYTES, 512, 0);
	for (uint32_t i = 1; weft_vol_format_place(DISK_BYTES, 0, i, &at, &len); i++) {
		const uint64_t last = (at + len - 1) / 512 * 512;

		if (len == 0)
			continue;
		n++;
		page[511] = 1;
		CHECK_EQ(device_io(&r, WEFT_BLOCK_WRITE, last, page, 512), 0);
		CHECK_EQ(weft_vol_format(r.block, &f, reason, sizeof(reason)), -EMEDIUMTYPE);
		page[511] = 0;
		CHECK_EQ(device_io(&r, WEFT_BLOCK_WRITE, last, page, 512), 0);
	}
	CHECK(n >= DISK_BYTES / DATA_AT);
	CHECK_EQ(weft_vol_format(r.block, &f, reason, sizeof(reason)), 0);
	rig_end(&r);
}

/* A volume gets longer and shorter. When a request of it fails, the volume has its old or its new
 * length, and its data; also when one copy of its superblock is damaged: 1, the first one; 2, the
 * second one; 0, none. */
static void
resize(unsigned int damaged)
{
	const uint64_t most = DISK_BYTES - DATA_AT;
	static uint8_t data[4096], is[4096], junk[4096];
	uint64_t requests = 1;
	char reason[160];
	struct rig r;

	fill(data, 3, sizeof(data));
	fill(junk, 7, sizeof(junk));
	memcpy(junk, "WEFTVOL1", 8);
	for (uint64_t nth = 0; nth <= requests; nth++) {
		struct weft_block_fault_hit h = {.skip = nth};
		uint64_t before;
		int rc;

		rig_device(&r, DISK_BYTES, 512, 1 + nth);
		rig_format(&r, 1 << 20);
		rig_open(&r, 1, 0);
		CHECK_EQ(rig_io(&r, WEFT_VOL_WRITE, 8192, sizeof(data), data, 0), 0);
		CHECK_EQ(rig_flush(&r), 0);
		rig_close(&r);
		if (damaged > 0)
			CHECK_EQ(
			        device_io(&r, WEFT_BLOCK_WRITE, (damaged - 1) * 65536U, junk, 4096),
			        0);
		before = weft_block_fault_requests(r.block);
		weft_block_fault_fail(r.block, &h, -EIO);
		rc = weft_vol_resize(r.block, 0, reason, sizeof(reason));
		weft_block_fault_fail(r.block, NULL, 0);
		if (requests < weft_block_fault_requests(r.block) - before)
			requests = weft_block_fault_requests(r.block) - before;
		/* The copy that is whole cannot be read: no copy can be. */
		CHECK_MSG(rc == 0 || rc == -EIO || (damaged > 0 && rc == -EBADMSG), "%d", rc);
		rig_open(&r, 1, 0);
		CHECK(weft_vol_info(r.vol)->bytes == most ||
		      (rc != 0 && weft_vol_info(r.vol)->bytes == 1 << 20));
		CHECK_EQ(rig_io(&r, WEFT_VOL_READ, 8192, sizeof(is), is, 0), 0);
		CHECK_MEM(is, data, sizeof(is));
		rig_close(&r);
		/* Once more, and back again; it is good for nothing to do it twice. */
		for (int i = 0; i < 2; i++)
			CHECK_EQ(weft_vol_resize(r.block, 0, reason, sizeof(reason)), 0);
		CHECK_EQ(weft_vol_resize(r.block, 65536, reason, sizeof(reason)), 0);
		rig_open(&r, 1, 0);
		CHECK_EQ(weft_vol_info(r.vol)->bytes, 65536);
		CHECK_EQ(weft_vol_info(r.vol)->second_copy, 0);
		CHECK_EQ(rig_io(&r, WEFT_VOL_READ, 8192, sizeof(is), is, 0), 0);
		CHECK_MEM(is, data, sizeof(is));
		rig_close(&r);
		CHECK_EQ(weft_vol_resize(r.block, most + 1, reason, sizeof(reason)), -ENOSPC);
		CHECK_STR(reason, "a volume of 3145729 octets does not fit: the device has room "
		                  "for 3145728");
		rig_end(&r);
	}
	CHECK_MSG(requests >= 6, "%u", (unsigned int)requests);
}

static void
test_resize(void)
{
	char reason[160];
	struct rig r;

	for (unsigned int damaged = 0; damaged < 3; damaged++)
		resize(damaged);
	/* What has no volume, or one with checksums. */
	rig_device(&r, 4ULL * DISK_BYTES, 512, 0);
	CHECK_EQ(weft_vol_resize(r.block, 0, reason, sizeof(reason)), -ENODATA);
	r.sums = true;
	rig_format(&r, 0);
	CHECK_EQ(weft_vol_resize(r.block, 0, reason, sizeof(reason)), -EOPNOTSUPP);
	CHECK_STR(reason, "a volume with checksums keeps the length that it was made with");
	rig_end(&r);
}

static void
test_copies(void)
{
	struct weft_vol_super s = a_super;
	uint8_t page[4096], junk[4096], is[4096];
	char reason[160];
	struct rig r;

	rig_device(&r, DISK_BYTES, 512, 0);
	fill(junk, 7, sizeof(junk));
	memcpy(junk, "WEFTVOL1", 8);
	for (unsigned int bad = 0; bad < 2; bad++) {
		const uint64_t at[2] = {bad * 65536U, (1 - bad) * 65536U};

		/* one copy is damaged: the other one is taken, and the damaged one is repaired */
		weft_vol_super_encode(&s, page);
		CHECK_EQ(device_io(&r, WEFT_BLOCK_WRITE, at[1], page, 4096), 0);
		CHECK_EQ(device_io(&r, WEFT_BLOCK_WRITE, at[0], junk, 4096), 0);
		CHECK_EQ(try_open(&r, reason, true), 0);
		CHECK_EQ(device_io(&r, WEFT_BLOCK_READ, at[0], is, 4096), 0);
		CHECK_MEM(is, junk, 4096);
		CHECK_EQ(try_open(&r, reason, false), 0);
		CHECK_EQ(device_io(&r, WEFT_BLOCK_READ, at[0], is, 4096), 0);
		CHECK_MEM(is, page, 4096);
		/* so is one of which an octet has changed that says the version */
		is[11] = 2;
		CHECK_EQ(device_io(&r, WEFT_BLOCK_WRITE, at[0], is, 4096), 0);
		CHECK_EQ(try_open(&r, reason, false), 0);
		CHECK_EQ(device_io(&r, WEFT_BLOCK_READ, at[0], is, 4096), 0);
		CHECK_MEM(is, page, 4096);
		/* the newer one counts, wherever it is */
		s.generation++;
		s.bytes++;
		weft_vol_super_encode(&s, page);
		CHECK_EQ(device_io(&r, WEFT_BLOCK_WRITE, at[0], page, 4096), 0);
		rig_open(&r, 1, 0);
		CHECK_EQ(weft_vol_info(r.vol)->bytes, s.bytes);
		CHECK(weft_vol_info(r.vol)->second_copy);
		rig_close(&r);
		/* a newer program has written one of them */
		s.incompat = 4;
		weft_vol_super_encode(&s, page);
		CHECK_EQ(device_io(&r, WEFT_BLOCK_WRITE, at[0], page, 4096), 0);
		CHECK_EQ(try_open(&r, reason, false), -EPROTONOSUPPORT);
		CHECK_STR(reason, "it has features that this program does not know");
		s.incompat = 0;
	}
	weft_vol_super_encode(&s, page);
	CHECK_EQ(device_io(&r, WEFT_BLOCK_WRITE, 0, page, 4096), 0);
	CHECK_EQ(device_io(&r, WEFT_BLOCK_WRITE, 65536, page, 4096), 0);
	/* reading only */
	s.ro_compat = 1;
	s.generation++;
	weft_vol_super_encode(&s, page);
	CHECK_EQ(device_io(&r, WEFT_BLOCK_WRITE, 0, page, 4096), 0);
	CHECK_EQ(try_open(&r, reason, false), -EROFS);
	CHECK_EQ(try_open(&r, reason, true), 0);
	/* a program of a newer version has written one of them */
	s.version = 2;
	s.generation++;
	weft_vol_super_encode(&s, page);
	CHECK_EQ(device_io(&r, WEFT_BLOCK_WRITE, 65536, page, 4096), 0);
	CHECK_EQ(try_open(&r, reason, false), -EPROTONOSUPPORT);
	CHECK_STR(reason, "its format is version 2, and this program knows version 1");
	memset(page, 0, sizeof(page));
	CHECK_EQ(device_io(&r, WEFT_BLOCK_WRITE, 65536, page, 4096), 0);
	/* a device that was cut */
	s.version = 1;
	s.ro_compat = 0;
	s.bytes = DISK_BYTES;
	s.generation++;
	weft_vol_super_encode(&s, page);
	CHECK_EQ(device_io(&r, WEFT_BLOCK_WRITE, 0, page, 4096), 0);
	CHECK_EQ(try_open(&r, reason, false), -EIO);
	CHECK_STR(reason,
	          "the volume needs 5242880 octets, and the device has 4194304: it was cut");
	/* both damaged */
	CHECK_EQ(device_io(&r, WEFT_BLOCK_WRITE, 0, junk, 4096), 0);
	CHECK_EQ(device_io(&r, WEFT_BLOCK_WRITE, 65536, junk, 4096), 0);
	CHECK_EQ(try_open(&r, reason, false), -EBADMSG);
	CHECK_STR(reason, "the CRC of its superblock is wrong; of the copy: the CRC of its "
	                  "superblock is wrong; weft-fsck says what can be done");
	rig_end(&r);
}

/* ---- Submission ---- */

static void
test_refusals(void)
{
	struct weft_vol_chan_attr ca = {0};
	struct weft_vol_client client = {0}, other = {0};
	struct weft_vol_chan *c;
	struct rig_op o;
	struct rig r;

	start(&r, 1, 2);
	CHECK_EQ(weft_vol_chan_open(r.vol, &ca, &c), -ENOSPC);
	CHECK_EQ(weft_vol_close(r.vol), -EBUSY);
	weft_vol_client_open(r.chan[0], &client);
	weft_vol_client_open(r.chan[1], &other);
	CHECK_EQ(weft_vol_chan_close(r.chan[0]), -EBUSY);
#define REFUSED(change, expect)                                                                    \
	rig_op(&o, WEFT_VOL_WRITE, 0, 4096, mem[0]);                                               \
	change;                                                                                    \
	CHECK_EQ(weft_vol_submit(r.chan[0], &o.op), expect)
	REFUSED(o.op.kind = WEFT_VOL_KINDS, -EINVAL);
	REFUSED(o.op.done = NULL, -EINVAL);
	REFUSED(o.op.flags = WEFT_VOL_KEEP, -EINVAL);
	REFUSED(o.op.off_bytes = DISK_BYTES, -EINVAL);
	REFUSED(o.op.off_bytes = DISK_BYTES - DATA_AT - 4095, -EINVAL);
	REFUSED(o.op.off_bytes = UINT64_MAX, -EINVAL);
	REFUSED(o.op.len_bytes = UINT64_MAX, -EINVAL);
	REFUSED(o.iov[0].iov_len--, -EINVAL);
	REFUSED(o.iov[0].iov_len++, -EINVAL);
	REFUSED(o.op.iov = NULL, -EINVAL);
	REFUSED(o.op.client = &other, -EINVAL);
	REFUSED(o.op.flags = WEFT_VOL_WHOLE, -EOPNOTSUPP);
	REFUSED(o.op.kind = WEFT_VOL_COMPARE_WRITE, -EINVAL);
	REFUSED(o.op.kind = WEFT_VOL_VERIFY, -EINVAL);
	REFUSED(o.op.kind = WEFT_VOL_EXTENTS, -EINVAL);
#undef REFUSED
	rig_op(&o, WEFT_VOL_VERIFY, 0, 4096, NULL);
	CHECK_EQ(weft_vol_submit(r.chan[0], &o.op), -EINVAL); /* no hash */
	rig_op(&o, WEFT_VOL_COMPARE_WRITE, 0, 65537, mem[0])->op.expect = mem[1];
	CHECK_EQ(weft_vol_submit(r.chan[0], &o.op), -EMSGSIZE);
	CHECK(weft_vol_submit(NULL, &o.op) == -EINVAL &&
	      weft_vol_submit(r.chan[0], NULL) == -EINVAL);
	CHECK_EQ(weft_vol_cancel(r.chan[0], &o.op), -ENOENT);
	CHECK_EQ(weft_vol_poll(NULL, 1), 0);
	/* busy */
	rig_op(&o, WEFT_VOL_WRITE, 0, 4096, mem[0])->op.client = &client;
	rig_submit(&r, 0, &o);
	CHECK_EQ(weft_vol_submit(r.chan[0], &o.op), -EBUSY);
	CHECK_EQ(weft_vol_client_close(&client), -EBUSY);
	CHECK_EQ(weft_vol_cancel(r.chan[1], &o.op), -ENOENT);
	CHECK_EQ(weft_vol_next_ns(r.chan[0]), 0);
	CHECK_EQ(rig_wait(&r, &o), 0);
	CHECK_EQ(weft_vol_next_ns(r.chan[0]), UINT64_MAX);
	/* length 0 does nothing, anywhere */
	CHECK_EQ(rig_io(&r, WEFT_VOL_READ, DISK_BYTES - DATA_AT, 0, NULL, 0), 0);
	CHECK_EQ(rig_io(&r, WEFT_VOL_ZEROES, 5, 0, NULL, WEFT_VOL_DURABLE), 0);
	CHECK_EQ(weft_vol_client_close(&client), 0);
	CHECK_EQ(weft_vol_client_close(&other), 0);
	rig_end(&r);
}

/* ---- Order ---- */

/** The device holds writes of the range of volume octets from now on; or lets them go. */
static void
stick(struct rig *r, uint64_t off, uint64_t len)
{
	struct weft_block_fault_hit h = {.ops = 1U << WEFT_BLOCK_WRITE,
	                                 .off_bytes = DATA_AT + off,
	                                 .len_bytes = len,
	                                 .count = 1000};

	weft_block_fault_stick(r->block, len == 0 ? NULL : &h);
}

static void
polls(struct rig *r, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		rig_poll(r);
}

static void
test_order(void)
{
	struct rig_op w[2], rd[3], flush[2], far;
	struct weft_vol_stats st;
	struct rig r;

	start(&r, 1, 2);
	fill(mem[0], 1, 8192);
	fill(mem[1], 2, 8192);
	stick(&r, 0, 4096);
	rig_submit(&r, 0, rig_op(&w[0], WEFT_VOL_WRITE, 0, 4096, mem[0]));
	/* behind it: a read, a write, a read; flushes of the range, of all, and of another range */
	rig_submit(&r, 1, rig_op(&rd[0], WEFT_VOL_READ, 100, 10, mem[2]));
	rig_submit(&r, 1, rig_op(&w[1], WEFT_VOL_WRITE, 4000, 4096, mem[1]));
	rig_submit(&r, 0, rig_op(&rd[1], WEFT_VOL_READ, 4090, 10, mem[2] + 100));
	rig_submit(&r, 1, rig_op(&flush[0], WEFT_VOL_FLUSH, 0, 0, NULL));
	rig_submit(&r, 1, rig_op(&flush[1], WEFT_VOL_FLUSH, 1 << 20, 4096, NULL));
	rig_submit(&r, 0, rig_op(&far, WEFT_VOL_WRITE, 1 << 20, 512, mem[1]));
	polls(&r, 50);
	CHECK(w[0].done == 0 && rd[0].done == 0 && w[1].done == 0 && rd[1].done == 0 &&
	      flush[0].done == 0);
	CHECK(flush[1].done == 1 && far.done == 1);
	/* The first block's remainder is free. */
	rig_submit(&r, 1, rig_op(&rd[2], WEFT_VOL_READ, 9000, 10, mem[2] + 200));
	CHECK_EQ(rig_wait(&r, &rd[2]), 0);
	CHECK_EQ(r.wakes, 0);
	weft_vol_query_stats(r.chan[1], &st);
	CHECK(st.range_waits == 3 && st.under_way == 3);
	stick(&r, 0, 0);
	CHECK_EQ(rig_wait(&r, &flush[0]), 0);
	CHECK(w[0].done && rd[0].done && w[1].done && rd[1].done);
	CHECK(w[0].at < rd[0].at && w[0].at < w[1].at && w[1].at < rd[1].at &&
	      w[1].at < flush[0].at);
	CHECK(r.wakes > 0);
	CHECK(mem[2][0] == 1 && mem[2][100] == 2);
	rig_end(&r);
}

static void
test_cancel(void)
{
	struct rig_op w[4], f;
	struct rig r;

	start(&r, 1, 2);
	stick(&r, 0, 4096);
	rig_submit(&r, 0, rig_op(&w[0], WEFT_VOL_WRITE, 0, 512, mem[0]));
	polls(&r, 3);
	rig_submit(&r, 1, rig_op(&w[1], WEFT_VOL_WRITE, 0, 1024, mem[0]));
	rig_submit(&r, 0, rig_op(&w[2], WEFT_VOL_WRITE, 512, 512, mem[0]));
	rig_submit(&r, 0, rig_op(&f, WEFT_VOL_FLUSH, 0, 0, NULL));
	/* w[2] waits for w[1] alone; of a write that waits nothing remains */
	CHECK_EQ(weft_vol_cancel(r.chan[1], &w[1].op), 0);
	CHECK_EQ(w[1].done, 0);
	CHECK_EQ(weft_vol_cancel(r.chan[1], &w[1].op), 0);
	/* of one that has just got its turn, too */
	CHECK_EQ(weft_vol_cancel(r.chan[0], &w[2].op), 0);
	CHECK_EQ(weft_vol_cancel(r.chan[0], &f.op), 0);
	CHECK_EQ(rig_wait(&r, &w[1]), -ECANCELED);
	CHECK_EQ(w[1].op.done_bytes, 0);
	CHECK_EQ(rig_wait(&r, &w[2]), -ECANCELED);
	CHECK_EQ(rig_wait(&r, &f), -ECANCELED);
	/* the device does not give the first one back */
	CHECK_EQ(weft_vol_cancel(r.chan[0], &w[0].op), 0);
	polls(&r, 50);
	CHECK_EQ(w[0].done, 0);
	rig_submit(&r, 1, rig_op(&w[3], WEFT_VOL_WRITE, 100, 100, mem[0]));
	polls(&r, 50);
	CHECK_EQ(w[3].done, 0);
	stick(&r, 0, 0);
	CHECK_EQ(rig_wait(&r, &w[3]), 0);
	CHECK_EQ(w[0].op.status, 0);
	/* granted by another channel, canceled before this one has looked */
	stick(&r, 0, 4096);
	rig_submit(&r, 0, rig_op(&w[0], WEFT_VOL_WRITE, 0, 512, mem[0]));
	polls(&r, 3);
	rig_submit(&r, 1, rig_op(&w[1], WEFT_VOL_WRITE, 0, 512, mem[0]));
	stick(&r, 0, 0);
	while (w[0].done == 0)
		(void)weft_vol_poll(r.chan[0], r.now_ns += 1000);
	CHECK_EQ(weft_vol_next_ns(r.chan[1]), 0);
	CHECK_EQ(weft_vol_cancel(r.chan[1], &w[1].op), 0);
	CHECK_EQ(rig_wait(&r, &w[1]), -ECANCELED);
	rig_end(&r);
}

static void
test_long_canceled(void)
{
	struct weft_block_fault_cfg cfg = {.delay_min_ns = 50000, .delay_max_ns = 50000};
	struct rig_op w;
	struct rig r;

	/* Memory that is not aligned: steps of 128 KiB; the second one is under way. */
	start(&r, 1, 1);
	weft_block_fault_set(r.block, &cfg);
	fill(mem[0], 3, sizeof(mem[0]));
	rig_submit(&r, 0, rig_op(&w, WEFT_VOL_WRITE, 0, 200001, mem[0]));
	w.op.flags = 0;
	while (w.op.done_bytes == 0)
		rig_poll(&r);
	CHECK_EQ(weft_vol_cancel(r.chan[0], &w.op), 0);
	CHECK_EQ(rig_wait(&r, &w), -ECANCELED);
	CHECK(w.op.done_bytes > 0 && w.op.done_bytes < 200001);
	CHECK_EQ(rig_io(&r, WEFT_VOL_READ, 0, 200001, mem[1], 0), 0);
	for (uint64_t i = 0; i < 200001; i++)
		CHECK_EQ(mem[1][i], i < w.op.done_bytes ? 3 : 0);
	rig_end(&r);
}

static void
test_deadline(void)
{
	struct rig_op w[3], after;
	struct weft_vol_stats st;
	struct rig r;

	start(&r, 1, 1);
	r.now_ns = 1000000;
	polls(&r, 1);
	stick(&r, 0, 4096);
	rig_op(&w[0], WEFT_VOL_WRITE, 0, 512, mem[0])->op.deadline_ns = r.now_ns + 20000;
	rig_submit(&r, 0, &w[0]);
	rig_op(&w[1], WEFT_VOL_WRITE, 0, 512, mem[0])->op.deadline_ns = r.now_ns + 10000;
	rig_submit(&r, 0, &w[1]);
	CHECK_EQ(rig_wait(&r, &w[1]), -ETIMEDOUT);
	CHECK_EQ(w[1].late, 0);
	CHECK(w[0].done == 0 && w[0].late == 0);
	polls(&r, 20);
	/* unknown: the range stays closed */
	CHECK(w[0].done == 0 && w[0].late == 1);
	rig_submit(&r, 0, rig_op(&after, WEFT_VOL_WRITE, 0, 512, mem[1]));
	polls(&r, 50);
	CHECK(w[0].late == 1 && after.done == 0);
	stick(&r, 0, 0);
	CHECK_EQ(rig_wait(&r, &after), 0);
	CHECK_EQ(w[0].op.status, 0);
	weft_vol_query_stats(r.chan[0], &st);
	CHECK_EQ(st.late, 1);
	/* before the first step */
	rig_op(&w[2], WEFT_VOL_READ, 0, 512, mem[0])->op.deadline_ns = 1;
	rig_submit(&r, 0, &w[2]);
	CHECK_EQ(rig_wait(&r, &w[2]), -ETIMEDOUT);
	rig_end(&r);
}

/* ---- Lost flushes ---- */

static void
fail_flush(struct rig *r, int status)
{
	struct weft_block_fault_hit h = {.ops = 1U << WEFT_BLOCK_FLUSH};

	weft_block_fault_fail(r->block, &h, status);
}

static int
client_do(struct rig *r, struct weft_vol_client *client, unsigned int chan, enum weft_vol_kind kind,
          uint32_t flags, uint32_t *lost)
{
	struct rig_op o;

	if (kind == WEFT_VOL_FLUSH)
		rig_op(&o, kind, 0, 0, NULL);
	else
		rig_op(&o, kind, 4096, 4096, mem[0]);
	o.op.client = client;
	o.op.flags = flags;
	rig_submit(r, chan, &o);
	(void)rig_wait(r, &o);
	*lost = o.op.lost_flushes;
	return o.op.status;
}

/** Whom a flush that fails with a status concerns, and what these are told. */
static void
lost_flush(int status)
{
	struct weft_vol_client c[4] = {0};
	struct weft_vol_stats st;
	uint32_t lost;
	struct rig r;

	start(&r, 1, 2);
	for (unsigned int i = 0; i < 4; i++)
		weft_vol_client_open(r.chan[i % 2], &c[i]);
	/* 0 has flushed, 1 and 2 have not, 3 has a durable write */
	CHECK_EQ(client_do(&r, &c[0], 0, WEFT_VOL_WRITE, 0, &lost), 0);
	CHECK_EQ(client_do(&r, &c[0], 0, WEFT_VOL_FLUSH, 0, &lost), 0);
	CHECK_EQ(client_do(&r, &c[1], 1, WEFT_VOL_WRITE, 0, &lost), 0);
	CHECK_EQ(client_do(&r, &c[2], 0, WEFT_VOL_WRITE, 0, &lost), 0);
	CHECK_EQ(client_do(&r, &c[3], 1, WEFT_VOL_WRITE, WEFT_VOL_DURABLE, &lost), 0);
	CHECK_EQ(lost, 0);
	fail_flush(&r, status);
	CHECK_EQ(client_do(&r, &c[2], 0, WEFT_VOL_FLUSH, 0, &lost), status);
	CHECK_EQ(lost, 1);
	polls(&r, 2);
	/* 2 was told; 1 has to be told; 0 and 3 have lost nothing */
	CHECK_EQ(client_do(&r, &c[2], 0, WEFT_VOL_FLUSH, 0, &lost), 0);
	CHECK_EQ(client_do(&r, &c[0], 0, WEFT_VOL_FLUSH, 0, &lost), 0);
	CHECK_EQ(client_do(&r, &c[3], 1, WEFT_VOL_FLUSH, 0, &lost), 0);
	CHECK_EQ(client_do(&r, &c[1], 1, WEFT_VOL_WRITE, 0, &lost), 0);
	CHECK_EQ(lost, 1);
	CHECK_EQ(client_do(&r, &c[1], 1, WEFT_VOL_FLUSH, 0, &lost), status);
	CHECK_EQ(client_do(&r, &c[1], 1, WEFT_VOL_FLUSH, 0, &lost), 0);
	weft_vol_query_stats(r.chan[1], &st);
	CHECK_EQ(st.told_lost, 1);
	for (unsigned int i = 0; i < 4; i++)
		CHECK_EQ(weft_vol_client_close(&c[i]), 0);
	rig_end(&r);
}

static void
test_lost_flush(void)
{
	lost_flush(-EIO);
	lost_flush(-ENOSPC);
	lost_flush(-EDQUOT);
}

/** A flush is lost between two steps of a long write, whose first step it loses. */
static void
test_lost_in_between(void)
{
	for (unsigned int durable = 0; durable < 2; durable++) {
		struct weft_block_fault_cfg cfg = {.delay_min_ns = 50000, .delay_max_ns = 50000};
		const int status = durable ? -ENOSPC : -EIO;
		struct rig_op w, f;
		struct rig r;

		start(&r, 1, 2);
		weft_block_fault_set(r.block, &cfg);
		fill(mem[0], 3, sizeof(mem[0]));
		rig_op(&w, WEFT_VOL_WRITE, 0, 200001, mem[0] + 1);
		w.op.flags = durable ? WEFT_VOL_DURABLE : 0;
		rig_submit(&r, 0, &w);
		while (w.op.done_bytes == 0)
			rig_poll(&r);
		cfg = (struct weft_block_fault_cfg){0};
		weft_block_fault_set(r.block, &cfg);
		fail_flush(&r, status);
		rig_submit(&r, 1, rig_op(&f, WEFT_VOL_FLUSH, 1 << 20, 512, NULL));
		CHECK_EQ(rig_wait(&r, &f), status);
		CHECK_EQ(w.done, 0);
		CHECK_EQ(rig_wait(&r, &w), status);
		rig_end(&r);
	}
}

/* ---- An error at each request ---- */

#define SCRIPT_OPS 9

/** Submit the script; returns how many requests the device was given for it. */
static void
script_run(struct rig *r, struct rig_op *o, uint8_t *model)
{
	static const struct {
		enum weft_vol_kind kind;
		uint32_t off, len, flags;
	} script[SCRIPT_OPS] = {
	        {WEFT_VOL_WRITE, 0, 4096, 0},
	        {WEFT_VOL_WRITE, 5001, 3000, 0},
	        {WEFT_VOL_WRITE, 9000, 150001, WEFT_VOL_DURABLE},
	        {WEFT_VOL_COMPARE_WRITE, 170001, 512, WEFT_VOL_DURABLE},
	        {WEFT_VOL_ZEROES, 180001, 4000, 0},
	        {WEFT_VOL_READ, 190000, 70000, 0},
	        {WEFT_VOL_VERIFY, 190000, 70000, 0},
	        {WEFT_VOL_DISCARD, 262144, 4096, 0},
	        {WEFT_VOL_FLUSH, 0, 0, 0},
	};

	for (unsigned int i = 0; i < SCRIPT_OPS; i++) {
		const bool memory = script[i].kind == WEFT_VOL_WRITE ||
		                    script[i].kind == WEFT_VOL_READ ||
		                    script[i].kind == WEFT_VOL_COMPARE_WRITE;

		rig_op(&o[i], script[i].kind, script[i].off, script[i].len,
		       !memory ? NULL
		               : (script[i].kind == WEFT_VOL_READ ? mem[2]
		                                                  : mem[0] + script[i].off));
		o[i].op.flags = script[i].flags;
		o[i].op.expect = mem[1];
		o[i].op.hash = script[i].kind == WEFT_VOL_VERIFY ? weft_hash_find("crc32c") : NULL;
		if (script[i].kind == WEFT_VOL_WRITE || script[i].kind == WEFT_VOL_COMPARE_WRITE)
			memcpy(model + script[i].off, mem[0] + script[i].off, script[i].len);
		if (script[i].kind == WEFT_VOL_ZEROES)
			memset(model + script[i].off, 0, script[i].len);
		rig_submit(r, 0, &o[i]);
	}
	for (unsigned int i = 0; i < SCRIPT_OPS; i++)
		(void)rig_wait(r, &o[i]);
}

static void
test_each_error(void)
{
	static uint8_t model[270000], is[270000];
	struct rig_op o[SCRIPT_OPS], again;
	uint64_t requests = 1;

	for (unsigned int i = 0; i < sizeof(mem[0]); i++)
		mem[0][i] = (uint8_t)(i * 7 + i / 256 + 1);
	fill(mem[1], 0, sizeof(mem[1]));
	for (uint64_t nth = 0; nth < requests; nth++) {
		struct weft_block_fault_hit h = {.skip = nth};
		unsigned int failed = 0;
		uint64_t before;
		struct rig r;

		start(&r, 1 + nth, 1);
		memset(model, 0, sizeof(model));
		before = weft_block_fault_requests(r.block);
		weft_block_fault_fail(r.block, &h, -EIO);
		script_run(&r, o, model);
		weft_block_fault_fail(r.block, NULL, 0);
		if (requests < weft_block_fault_requests(r.block) - before)
			requests = weft_block_fault_requests(r.block) - before;
		for (unsigned int i = 0; i < SCRIPT_OPS; i++) {
			CHECK(o[i].op.status == 0 || o[i].op.status == -EIO);
			failed += o[i].op.status != 0;
		}
		CHECK(failed >= 1);
		/* What failed is done again, by its owner. A lost flush may concern all. */
		for (unsigned int i = 0; i < SCRIPT_OPS; i++) {
			if (o[i].op.kind == WEFT_VOL_COMPARE_WRITE)
				o[i].op.kind = WEFT_VOL_WRITE;
			again = o[i];
			again.op.owner = &again;
			again.op.iov = again.iov;
			again.done = 0;
			if (again.op.kind != WEFT_VOL_READ)
				CHECK_EQ(rig_do(&r, &again), 0);
		}
		CHECK_EQ(rig_io(&r, WEFT_VOL_READ, 0, sizeof(is), is, 0), 0);
		CHECK_MEM(is, model, sizeof(is));
		rig_end(&r);
	}
	CHECK_MSG(requests > 12, "%u", (unsigned int)requests);
	test_note("%u requests", (unsigned int)requests);
}

/* ---- Threads ---- */

#define ADDS 3000

static struct rig shared;

/** Add to a number by compare-and-write, on a channel of its own. */
static void *
adder(void *arg)
{
	struct weft_vol_chan *c = arg;
	uint64_t is = 0, next, now = 0;
	struct rig_op o;

	for (unsigned int n = 0; n < ADDS;) {
		next = is + 1;
		rig_op(&o, WEFT_VOL_COMPARE_WRITE, 1001, 8, &next);
		o.op.expect = &is;
		if (weft_vol_submit(c, &o.op) != 0)
			return arg;
		while (o.done == 0)
			(void)weft_vol_poll(c, now += 1000);
		if (o.op.status == 0) {
			n++;
			is = next;
			continue;
		}
		rig_op(&o, WEFT_VOL_READ, 1001, 8, &is);
		if (o.op.status != 0 || weft_vol_submit(c, &o.op) != 0)
			return arg;
		while (o.done == 0)
			(void)weft_vol_poll(c, now += 1000);
	}
	return NULL;
}

static void
test_threads(void)
{
	pthread_t t[2];
	uint64_t sum = 0;
	void *bad;

	rig_device(&shared, DISK_BYTES, 512, 0);
	rig_format(&shared, 0);
	rig_open(&shared, 3, 1);
	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, adder, shared.chan[i + 1]), 0);
	for (unsigned int i = 0; i < 2; i++) {
		pthread_join(t[i], &bad);
		CHECK(bad == NULL);
	}
	CHECK_EQ(rig_io(&shared, WEFT_VOL_READ, 1001, 8, &sum, 0), 0);
	CHECK_EQ(sum, 2 * ADDS);
	rig_end(&shared);
}

/** A write fails in its second step: the first one is unstable, and its loss is told. */
static void
test_partial(void)
{
	static uint8_t big[2U << 20];
	const struct weft_block_fault_hit flush = {.ops = 1U << WEFT_BLOCK_FLUSH};
	struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_WRITE, .skip = 1};

	/* the flush is lost: behind the write's end, between its steps, not at all */
	for (unsigned int when = 0; when < 3; when++) {
		struct weft_vol_client client = {0};
		struct rig_op w, f;
		struct rig r;

		start(&r, 5, 1);
		weft_vol_client_open(r.chan[0], &client);
		rig_op(&w, WEFT_VOL_WRITE, 0, sizeof(big), big)->op.client = &client;
		weft_block_fault_fail(r.block, &hit, -ENOSPC);
		if (when == 1)
			weft_block_fault_stick(r.block, &hit);
		rig_submit(&r, 0, &w);
		if (when == 1) {
			for (unsigned int n = 0; n < 20; n++)
				rig_poll(&r);
			CHECK_EQ(w.done, 0);
			weft_block_fault_fail(r.block, &flush, -EIO);
			CHECK_EQ(rig_io(&r, WEFT_VOL_FLUSH, 5U << 19, 4096, NULL, 0), -EIO);
			weft_block_fault_stick(r.block, NULL);
		}
		CHECK_EQ(rig_wait(&r, &w), -ENOSPC);
		CHECK_EQ(w.op.done_bytes, 1U << 20);
		weft_block_fault_fail(r.block, &flush, -EIO);
		if (when == 0)
			CHECK_EQ(rig_flush(&r), -EIO);
		weft_block_fault_fail(r.block, NULL, 0);
		for (unsigned int n = 0; n < 2; n++) {
			rig_op(&f, WEFT_VOL_FLUSH, 0, 0, NULL)->op.client = &client;
			rig_submit(&r, 0, &f);
			CHECK_EQ(rig_wait(&r, &f), when < 2 && n == 0 ? -EIO : 0);
		}
		CHECK_EQ(weft_vol_client_close(&client), 0);
		rig_end(&r);
	}
}

WEFT_TEST_MAIN({"superblock", test_super}, {"format", test_format},
               {"format places", test_format_places}, {"format of data behind", test_format_behind},
               {"resize", test_resize}, {"two copies", test_copies}, {"refusals", test_refusals},
               {"order", test_order}, {"cancel", test_cancel},
               {"a long write that is canceled", test_long_canceled}, {"deadline", test_deadline},
               {"lost flush", test_lost_flush},
               {"lost flush in a long write", test_lost_in_between},
               {"a part of a write is lost", test_partial},
               {"error at each request", test_each_error}, {"threads", test_threads})
