/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Opening a file or block device for direct I/O, and what it is.
 *
 * The lock (flock) is on the very description by which requests are made. The kernel holds that
 * description for each request, so the lock of a process that was killed is free only when its last
 * request has ended: the next opener is refused until nothing of the old one can land.
 */

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "uring_priv.h"

#define URING_PAGE 4096U

/* struct statx as the kernel fills it since Linux 6.1; the floor's headers may be older. */
#define URING_STATX_DIOALIGN 0x2000U
#define URING_AT_DIO_MEM     152
#define URING_AT_DIO_OFFSET  156

/** What the kernel says about alignment for direct I/O. 0: it does not say. */
static void
uring_dio_align(int fd, uint32_t *mem, uint32_t *offset)
{
	uint8_t raw[256] = {0};
	uint32_t mask;

	*mem = *offset = 0;
	if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, URING_STATX_DIOALIGN, raw) != 0)
		return;
	memcpy(&mask, raw, sizeof(mask));
	if ((mask & URING_STATX_DIOALIGN) == 0)
		return;
	memcpy(mem, raw + URING_AT_DIO_MEM, sizeof(*mem));
	memcpy(offset, raw + URING_AT_DIO_OFFSET, sizeof(*offset));
}

/** The absolute name, because the process may change its directory; NULL: it cannot be told. */
static char *
uring_full_path(const char *path)
{
	char *dir, *full = NULL;

	if (path[0] == '/')
		return strdup(path);
	dir = getcwd(NULL, 0);
	if (dir != NULL && asprintf(&full, "%s/%s", dir, path) < 0)
		full = NULL;
	free(dir);
	return full;
}

/** open(2) and flock(2). */
static int
uring_open_fd(struct uring_disk *d, const struct weft_block_attr *attr)
{
	int flags = O_DIRECT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, ro = 0;
	struct stat st;

	flags |= attr->read_only ? O_RDONLY : O_RDWR;
	/* O_EXCL is refused for a mounted block device. */
	if (stat(attr->path, &st) == 0 && S_ISBLK(st.st_mode) && !attr->read_only)
		flags |= O_EXCL;
	d->md.fd = open(attr->path, flags);
	if (d->md.fd < 0 && errno == ENOENT && attr->create && !attr->read_only) {
		if (attr->bytes == 0)
			return weft_block_refuse(attr, -EINVAL, "%s: a new file needs a length",
			                         attr->path);
		d->md.fd = open(attr->path, flags | O_CREAT | O_EXCL, 0600);
		d->md.made = d->md.fd >= 0;
	}
	if (d->md.fd < 0 && errno == EINVAL)
		return weft_block_refuse(attr, -ENOTSUP, "%s: its file system has no direct I/O",
		                         attr->path);
	if (d->md.fd < 0)
		return -errno;
	/* It was for a FIFO, whose open would wait; a request is to wait. */
	if (fcntl(d->md.fd, F_SETFL, O_DIRECT) != 0 || fstat(d->md.fd, &st) != 0)
		return -errno;
	d->md.block_dev = S_ISBLK(st.st_mode);
	/* The open succeeds, and each write fails. */
	if (d->md.block_dev && !attr->read_only && ioctl(d->md.fd, BLKROGET, &ro) == 0 && ro != 0)
		return weft_block_refuse(attr, -EROFS, "%s: the device is read-only", attr->path);
	if (S_ISCHR(st.st_mode))
		return weft_block_refuse(attr, -ENOTSUP, "%s: a character device", attr->path);
	if (!d->md.block_dev && !S_ISREG(st.st_mode))
		return weft_block_refuse(attr, -EINVAL, "%s: no file and no block device",
		                         attr->path);
	if (flock(d->md.fd, (attr->read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
		d->md.made = false; /* the file belongs to the holder of the lock */
		return errno == EWOULDBLOCK
		               ? weft_block_refuse(attr, -EBUSY,
		                                   "%s: in use by another opener, or its last "
		                                   "requests have not ended",
		                                   attr->path)
		               : -errno;
	}
	return 0;
}

/** The length, and the extension of a file that is too short. */
static int
uring_size(struct uring_disk *d, const struct weft_block_attr *attr)
{
	struct stat st;
	uint64_t have;

	if (fstat(d->md.fd, &st) != 0)
		return -errno;
	have = (uint64_t)st.st_size;
	if (d->md.block_dev && ioctl(d->md.fd, BLKGETSIZE64, &have) != 0)
		return -errno;
	d->whole = attr->bytes == 0;
	d->bytes = d->whole ? have : attr->bytes;
	if (d->bytes == 0)
		return weft_block_refuse(attr, -EINVAL, "%s: it is empty", attr->path);
	if (d->bytes <= have)
		return 0;
	if (!attr->create || attr->read_only || d->md.block_dev)
		return weft_block_refuse(attr, -EINVAL, "%s: shorter than asked for", attr->path);
	d->md.old_bytes = have;
	if (ftruncate(d->md.fd, (off_t)d->bytes) != 0 || fsync(d->md.fd) != 0)
		return -errno;
	return d->md.made ? uring_sync_dir(attr->path) : 0;
}

/** The logical block, the alignment of memory, and the preferred sizes. */
static int
uring_blocks(struct uring_disk *d, struct weft_block *b, const struct weft_block_attr *attr)
{
	uint32_t mem, offset, asked = 0;
	char value[8];
	int logical = 0, r;
	unsigned int physical = 0, optimal = 0;
	struct stat st;

	uring_dio_align(d->md.fd, &mem, &offset);
	if (d->md.block_dev && ioctl(d->md.fd, BLKSSZGET, &logical) == 0 && logical > 0)
		offset = (uint32_t)logical;
	r = weft_block_option(attr, "block", value, sizeof(value));
	if (r != -ENOENT) {
		asked = r > 0 ? (uint32_t)strtoul(value, NULL, 10) : 0;
		if (asked != 512 && asked != 4096)
			return weft_block_refuse(attr, -EINVAL, "option block: 512 or 4096");
	}
	/* A file system that does not tell, as before Linux 6.1, takes pages. */
	d->block_bytes = offset == 0 ? URING_PAGE : RTE_MAX(512U, offset);
	if (asked != 0 && asked < d->block_bytes && offset != 0)
		return weft_block_refuse(attr, -EINVAL,
		                         "%s: blocks of %u octets are not possible, only of %u",
		                         attr->path, asked, d->block_bytes);
	if (asked != 0)
		d->block_bytes = asked;
	/* Linux 6.1 to 6.17 wants each segment to have a length of whole blocks, too. */
	d->mem_align_bytes = RTE_MAX(mem, d->block_bytes);
	if (fstat(d->md.fd, &st) != 0)
		return -errno;
	if (d->md.block_dev) {
		(void)ioctl(d->md.fd, BLKPBSZGET, &physical);
		(void)ioctl(d->md.fd, BLKIOOPT, &optimal);
	} else {
		physical = (unsigned int)st.st_blksize;
	}
	if (physical < d->block_bytes || (physical & (physical - 1)) != 0)
		physical = RTE_MAX(d->block_bytes, URING_PAGE);
	d->piece_bytes = physical;
	b->info.block_bytes = d->block_bytes;
	b->info.physical_bytes = physical;
	b->info.optimal_bytes = RTE_MAX(optimal, physical);
	b->info.mem_align_bytes = d->mem_align_bytes;
	/* A disk writes its own logical block as a whole. Of a file the disk is not known, and the
	 * block that was asked for says nothing. */
	b->info.atomic_bytes = d->md.block_dev && logical > 0 ? (uint32_t)logical : 512U;
	return 0;
}

/** Whether the page cache has the first page of the file. */
static bool
uring_is_cached(int fd)
{
	uint8_t in = 0;
	void *map = mmap(NULL, URING_PAGE, PROT_READ, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return false;
	if (mincore(map, URING_PAGE, &in) != 0)
		in = 0;
	munmap(map, URING_PAGE);
	return (in & 1) != 0;
}

/**
 * Drop the first page from the page cache. The kernel keeps a page that is not written back, and a
 * folio of which only a part is named. An error is one that the read meets, too.
 */
static void
uring_drop_cached(int fd)
{
	(void)sync_file_range(fd, 0, URING_PAGE,
	                      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
	                              SYNC_FILE_RANGE_WAIT_AFTER);
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	/* A large folio has dirty pages behind the first one. */
	if (uring_is_cached(fd) && fdatasync(fd) == 0)
		(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

/** Read the first block directly. Some file systems take the flag, and refuse or cache the read. */
static int
uring_try(const struct uring_disk *d, const struct weft_block_attr *attr)
{
	void *block;
	ssize_t n;
	int r = 0;

	if (posix_memalign(&block, RTE_MAX(d->mem_align_bytes, URING_PAGE), d->block_bytes) != 0)
		return -ENOMEM;
	if (!d->md.block_dev && !d->md.tmpfs)
		uring_drop_cached(d->md.fd);
	/* btrfs reads through its cache where the memory is not mapped yet. */
	memset(block, 0, d->block_bytes);
	n = pread(d->md.fd, block, d->block_bytes, 0);
	if (n < 0)
		r = errno == EINVAL
		            ? weft_block_refuse(attr, -ENOTSUP,
		                                "%s: direct I/O in blocks of %u octets is refused",
		                                attr->path, d->block_bytes)
		            : -errno;
	else if (!d->md.block_dev && !d->md.tmpfs && uring_is_cached(d->md.fd))
		r = weft_block_refuse(attr, -ENOTSUP,
		                      "%s: its file system caches direct I/O, so what the medium "
		                      "holds cannot be read",
		                      attr->path);
	free(block);
	return r;
}

/**
 * Whether the file system punches holes in the file, so that what is discarded reads as zeros. A
 * punch behind the end of the file changes nothing.
 */
static bool
uring_punches(const struct uring_disk *d, bool read_only)
{
	struct stat st;
	int r;

	if (read_only || fstat(d->md.fd, &st) != 0)
		return false;
	do
		r = fallocate(d->md.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		              RTE_ALIGN_CEIL(st.st_size, (off_t)d->piece_bytes),
		              (off_t)d->piece_bytes);
	while (r != 0 && errno == EINTR);
	return r == 0;
}

static void
uring_info(const struct uring_disk *d, struct weft_block *b, bool read_only)
{
	struct weft_block_info *i = &b->info;

	i->can = WEFT_BLOCK_CAN_WRITE | WEFT_BLOCK_CAN_FUA | WEFT_BLOCK_CAN_ZEROES |
	         WEFT_BLOCK_CAN_MEDIUM;
	if (d->md.block_dev)
		i->can |= WEFT_BLOCK_CAN_DISCARD;
	else
		i->can |= WEFT_BLOCK_CAN_EXTENTS;
	if (!d->md.block_dev)
		i->can |= WEFT_BLOCK_CAN_SNAPSHOT;
	else
		i->no_snapshot = "a block device has no snapshots: a file on XFS or btrfs has, and "
		                 "an image of Ceph";
	if (!d->md.block_dev && uring_punches(d, read_only))
		i->can |= WEFT_BLOCK_CAN_DISCARD | WEFT_BLOCK_CAN_DISCARD_ZEROES;
	i->max_bytes = URING_MAX_BYTES;
	i->max_iovs = URING_MAX_IOVS;
	i->discard_bytes = d->piece_bytes;
	i->max_discard_bytes = i->max_zeroes_bytes = 1U << 30;
	i->persistent = true;
	i->volatile_cache = true;
	i->fencing = WEFT_BLOCK_FENCING_HOST;
	snprintf(i->mechanism, sizeof(i->mechanism), "direct I/O by %s to %s%s",
	         d->threads ? "helper threads" : "io_uring",
	         d->md.block_dev ? "a block device" : "an ordinary file",
	         d->md.tmpfs ? " on tmpfs, which is memory" : "");
}

static void
uring_undo(struct uring_disk *d, const struct weft_block_attr *attr)
{
	if (d->md.made)
		unlink(attr->path);
	else if (d->md.old_bytes != UINT64_MAX)
		(void)!ftruncate(d->md.fd, (off_t)d->md.old_bytes);
}

int
uring_open_medium(struct uring_disk *d, struct weft_block *b, const struct weft_block_attr *attr,
                  uint64_t *bytes)
{
	struct statfs fs;
	int r;

	d->md.fd = d->md.read_fd = d->md.direct_fd = d->md.tell_fd = -1;
	d->md.old_bytes = UINT64_MAX;
	atomic_init(&d->md.whole_bytes, UINT64_MAX);
	if (attr->path == NULL || attr->path[0] == '\0')
		return weft_block_refuse(attr, -EINVAL, "uring: no path");
	r = uring_open_fd(d, attr);
	if (r == 0)
		r = uring_size(d, attr);
	if (r == 0) {
		d->md.tmpfs = !d->md.block_dev && fstatfs(d->md.fd, &fs) == 0 &&
		              (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
		r = uring_blocks(d, b, attr);
	}
	if (r == 0 && d->bytes % d->block_bytes != 0)
		r = weft_block_refuse(attr, -EINVAL,
		                      "%s: its length is no multiple of the logical block, %u",
		                      attr->path, d->block_bytes);
	if (r == 0)
		r = uring_try(d, attr);
	if (r != 0) {
		if (d->md.fd >= 0)
			uring_undo(d, attr);
		weft_medium_close(&d->md);
		return r;
	}
	d->md.bytes = d->bytes;
	if (!d->md.block_dev)
		d->md.path = uring_full_path(attr->path);
	weft_medium_watch(&d->md, true);
	uring_info(d, b, attr->read_only);
	*bytes = d->bytes;
	return 0;
}

int
uring_look(struct weft_block *b)
{
	struct uring_disk *d = b->priv;
	uint64_t bytes = d->bytes, have;
	int r = 0;

	if (!d->md.block_dev) {
		r = weft_medium_check(&d->md, d->bytes);
	} else if (ioctl(d->md.fd, BLKGETSIZE64, &have) != 0 || have == 0) {
		r = -ENODEV;
	} else if (d->whole) {
		bytes = have & ~(uint64_t)(d->block_bytes - 1);
	} else if (have < d->bytes) {
		r = -EIO;
	}
	weft_block_set_state(b, bytes, r);
	return r;
}
