/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The medium of an export: a file or a block device. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <linux/fs.h>
#include <unistd.h>

#include "fsck_file.h"

static int
file_read(struct fsck_medium *m, uint64_t off, void *buf, size_t len)
{
	const struct fsck_file *f = (const struct fsck_file *)m;
	uint8_t *to = buf;

	while (len > 0) {
		ssize_t n = pread(f->fd, to, len, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO; /* it became shorter */
		to += n;
		off += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static int
file_write(struct fsck_medium *m, uint64_t off, const void *buf, size_t len)
{
	const struct fsck_file *f = (const struct fsck_file *)m;
	const uint8_t *from = buf;

	while (len > 0) {
		ssize_t n = pwrite(f->fd, from, len, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		from += n;
		off += (uint64_t)n;
		len -= (size_t)n;
	}
	return fdatasync(f->fd) != 0 ? -errno : 0;
}

static uint64_t
file_hole(struct fsck_medium *m, uint64_t off, uint64_t len)
{
	const struct fsck_file *f = (const struct fsck_file *)m;
	off_t data;

	if (!f->regular)
		return 0;
	data = lseek(f->fd, (off_t)off, SEEK_DATA);
	if (data < 0)
		return errno == ENXIO ? len : 0; /* no more data; or the file system cannot tell */
	return (uint64_t)data - off < len ? (uint64_t)data - off : len;
}

static int
file_refuse(char *err, size_t err_size, int rc, const char *why)
{
	snprintf(err, err_size, "%s", why);
	return rc;
}

/** Find out what the descriptor is of. */
static int
file_look(struct fsck_file *f, char *err, size_t err_size)
{
	struct stat st;

	if (fstat(f->fd, &st) != 0)
		return file_refuse(err, err_size, -errno, strerror(errno));
	f->regular = S_ISREG(st.st_mode);
	f->medium.bytes = (uint64_t)st.st_size;
	if (S_ISCHR(st.st_mode))
		return file_refuse(err, err_size, -ENOTSUP,
		                   "a character device, such as device DAX, cannot be read; "
		                   "copy it to a file by daxio");
	if (!f->regular && !S_ISBLK(st.st_mode))
		return file_refuse(err, err_size, -ENOTSUP, "neither a file nor a block device");
	if (S_ISBLK(st.st_mode) && ioctl(f->fd, BLKGETSIZE64, &f->medium.bytes) != 0)
		return file_refuse(err, err_size, -errno, strerror(errno));
	return 0;
}

int
fsck_file_open(struct fsck_file *f, const char *path, bool repair, char *err, size_t err_size)
{
	int flags = (repair ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK;
	struct stat st;
	int rc;

	*f = (struct fsck_file){
	        .medium = {.read = file_read, .write = file_write, .hole = file_hole}};
	/* O_EXCL is refused for a block device that is mounted, or that a target has. */
	if (stat(path, &st) == 0 && S_ISBLK(st.st_mode))
		flags |= O_EXCL;
	f->fd = open(path, flags);
	if (f->fd < 0 && errno == EBUSY)
		return file_refuse(err, err_size, -EBUSY,
		                   "in use: it is mounted, or weft-target has it");
	if (f->fd < 0)
		return file_refuse(err, err_size, -errno, strerror(errno));
	rc = file_look(f, err, err_size);
	/* The lock of lib/medium and of the block driver uring. */
	if (rc == 0 && flock(f->fd, (repair ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0)
		rc = file_refuse(err, err_size, errno == EWOULDBLOCK ? -EBUSY : -errno,
		                 errno == EWOULDBLOCK
		                         ? "in use by weft-target or another weft-fsck; nothing "
		                           "was examined"
		                         : strerror(errno));
	if (rc != 0)
		fsck_file_close(f);
	return rc;
}

void
fsck_file_close(struct fsck_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}
