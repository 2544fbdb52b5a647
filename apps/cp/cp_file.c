/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The local file of a pull. */

#include "cp_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cp.h"

int
cp_file_create(struct cp_session *s, struct cp_file *f, const char *path)
{
	char copy[CONF_PATH_MAX];
	bool keep_mode = false;
	mode_t mode = 0;
	struct stat st;

	f->path = path;
	f->fd = -1;
	if (strlen(path) >= sizeof(copy))
		return cp_fail(s, -ENAMETOOLONG, "%s: name too long", path);
	if (stat(path, &st) == 0) {
		if (S_ISDIR(st.st_mode))
			return cp_fail(s, -EISDIR, "%s: is a directory; name a file", path);
		if (!S_ISREG(st.st_mode))
			return cp_fail(s, -EINVAL,
			               "%s: is not a regular file, and cannot be replaced at once",
			               path);
		mode = st.st_mode & 07777;
		keep_mode = true;
	}
	strcpy(copy, path);
	snprintf(f->temp, sizeof(f->temp), "%s/.weft-cp.%ld.tmp", dirname(copy), (long)getpid());
	f->fd = open(f->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (f->fd < 0) {
		int rc = -errno;

		strcpy(copy, path);
		f->temp[0] = '\0';
		return cp_fail(s, rc, "%s: cannot be written: %s: %s", path, dirname(copy),
		               strerror(-rc));
	}
	if (keep_mode)
		(void)fchmod(f->fd, mode);
	return 0;
}

int
cp_file_write(const struct cp_file *f, const void *buf, uint32_t len_bytes, uint64_t off_bytes)
{
	const uint8_t *at = buf;

	while (len_bytes > 0) {
		ssize_t n = pwrite(f->fd, at, len_bytes, (off_t)off_bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += n;
		off_bytes += (uint64_t)n;
		len_bytes -= (uint32_t)n;
	}
	return 0;
}

int
cp_file_install(struct cp_session *s, struct cp_file *f)
{
	char copy[CONF_PATH_MAX];
	int fd;

	if (fsync(f->fd) != 0)
		return cp_fail(s, -errno, "%s: cannot be written: %s", f->path, strerror(errno));
	if (rename(f->temp, f->path) != 0)
		return cp_fail(s, -errno, "%s: cannot be put in place: %s", f->path,
		               strerror(errno));
	f->temp[0] = '\0';
	strcpy(copy, f->path);
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		(void)fsync(fd);
		close(fd);
	}
	return 0;
}

void
cp_file_end(struct cp_file *f)
{
	if (f->temp[0] != '\0')
		unlink(f->temp);
	if (f->path != NULL && f->fd >= 0)
		close(f->fd);
}
