/* SPDX-License-Identifier: BSD-3-Clause */
/** @file An export's file as it is found, or created. */

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <linux/fs.h>
#include <unistd.h>

#include "target_opening.h"

static int
file_size(int fd, uint64_t *bytes)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	*bytes = (uint64_t)st.st_size;
	if (S_ISBLK(st.st_mode) && ioctl(fd, BLKGETSIZE64, bytes) != 0)
		return -errno;
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return -ENOTSUP;
	return 0;
}

int
opening_inspect(struct opening *o, int fd)
{
	uint64_t have;
	int rc = file_size(fd, &have);

	if (rc == -ENOTSUP)
		return opening_fail(o, rc, "is neither a file nor a block device");
	if (rc != 0)
		return opening_fail(o, rc, "cannot be used: %s", strerror(-rc));
	if (o->conf->format == CONF_FORMAT_LOG)
		return opening_log_inspect(o, fd, have);
	return opening_object_inspect(o, fd, have);
}

int
opening_file(struct opening *o)
{
	int fd = open(o->conf->path, O_RDWR | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT && o->conf->size_bytes != 0) {
		fd = open(o->conf->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		o->created = fd >= 0;
	} else if (fd < 0 && errno == ENOENT) {
		return opening_fail(o, -ENOENT, "does not exist; add size, and it will be made");
	}
	if (fd < 0)
		return opening_fail(o, -errno, "cannot be opened for writing: %s", strerror(errno));
	return fd;
}

int
opening_check_folder(const struct opening *o)
{
	char dir[CONF_PATH_MAX];

	snprintf(dir, sizeof(dir), "%s", o->conf->path);
	if (access(dirname(dir), W_OK | X_OK) != 0)
		return opening_fail(o, -errno, "cannot be opened for writing: %s", strerror(errno));
	return 0;
}

void
opening_sync_directory(const char *path)
{
	char dir[CONF_PATH_MAX];
	int fd;

	snprintf(dir, sizeof(dir), "%s", path);
	fd = open(dirname(dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)fsync(fd);
	close(fd);
}
