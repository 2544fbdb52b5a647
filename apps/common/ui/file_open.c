/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Opens files for reading without blocking (file_open.h). */

#include "file_open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *
file_kind(mode_t mode)
{
	return S_ISFIFO(mode) ? "a FIFO" : "a device";
}

static int
file_open_kinds(const char *path, bool streams, bool *waits, char *err, size_t err_size)
{
	/* O_NONBLOCK: open(2) of a FIFO waits for a writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), rc;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0) {
		/* open(2) of a socket fails with ENXIO. */
		rc = -errno;
		if (rc == -ENXIO)
			snprintf(err, err_size, "is not a regular file (a socket)");
		else
			snprintf(err, err_size, "cannot be read: %s", strerror(-rc));
		if (fd >= 0)
			close(fd);
		return rc == -ENXIO ? -EINVAL : rc;
	}
	*waits = S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode);
	if (S_ISREG(st.st_mode) || (streams && *waits))
		return fd;
	close(fd);
	if (S_ISDIR(st.st_mode)) {
		snprintf(err, err_size, "is a directory; name a file");
		return -EISDIR;
	}
	snprintf(err, err_size, "is not a regular file (%s)", file_kind(st.st_mode));
	return -EINVAL;
}

int
file_open(const char *path, char *err, size_t err_size)
{
	bool waits;

	return file_open_kinds(path, false, &waits, err, err_size);
}

int
file_open_stream(const char *path, bool *waits, char *err, size_t err_size)
{
	return file_open_kinds(path, true, waits, err, err_size);
}
