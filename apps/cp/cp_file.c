/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What a pull writes: a local file, which appears complete or not at all, or standard
 * output, which is written to only when that does not block. */

#include "cp_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cp.h"

#define FILE_TRIES 100   /* to lock a partial file while others put theirs in place */
#define FILE_PIECE 4096u /* a pipe that can be written to takes as much at least (PIPE_BUF) */

/** Standard output. */
static int
file_stdout(struct cp_session *s, struct cp_file *f)
{
	struct stat st;

	f->path = "standard output";
	f->fd = STDOUT_FILENO;
	f->stream = true;
	if (fstat(f->fd, &st) != 0)
		return cp_fail(s, -errno, "%s: %s", f->path, strerror(errno));
	f->blocks = !S_ISREG(st.st_mode);
	return 0;
}

/** Whether the file that is open is the one that has the name: 0, -ESTALE or another -errno; *st is
 * of the open one. */
static int
file_is_named(int fd, const char *name, struct stat *st)
{
	struct stat named;

	if (fstat(fd, st) != 0)
		return -errno;
	if (lstat(name, &named) != 0)
		return errno == ENOENT ? -ESTALE : -errno;
	return st->st_dev == named.st_dev && st->st_ino == named.st_ino ? 0 : -ESTALE;
}

/**
 * Open and lock the file f->temp. Between the two, the weft-cp that had it may have put it in place
 * or removed it: the lock is then of a file that has the name no more, and what has it is opened.
 * -EWOULDBLOCK: others have it, again and again. -errno; f->fd is -1 if it cannot be opened.
 */
static int
file_lock(struct cp_file *f, struct stat *st)
{
	for (unsigned int i = 0; i < FILE_TRIES; i++) {
		int rc;

		f->fd = open(f->temp, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
		if (f->fd < 0)
			return -errno;
		if (flock(f->fd, LOCK_EX | LOCK_NB) != 0)
			return -errno;
		rc = file_is_named(f->fd, f->temp, st);
		if (rc != -ESTALE)
			return rc;
		close(f->fd);
		f->fd = -1;
	}
	return -EWOULDBLOCK;
}

/**
 * The partial file of a pull that may be resumed. Its name depends on that of the file alone. Two
 * pulls of one file would spoil each other's, so it is locked. In a folder that others may write to
 * it may be theirs, or have a second name elsewhere: such a file is not written to.
 */
static int
file_part(struct cp_session *s, struct cp_file *f, char *copy)
{
	char base[CONF_PATH_MAX];
	struct stat st;
	int rc;

	strcpy(base, f->path);
	snprintf(f->temp, sizeof(f->temp), "%s/.%s.weft-cp.part", dirname(copy), basename(base));
	rc = file_lock(f, &st);
	if (rc == 0 && !S_ISREG(st.st_mode))
		rc = cp_fail(s, -EINVAL, "%s: its partial file %s is no regular file", f->path,
		             f->temp);
	else if (rc == 0 && st.st_uid != geteuid())
		rc = cp_fail(s, -EPERM,
		             "%s: its partial file %s belongs to another user; remove it", f->path,
		             f->temp);
	else if (rc == 0 && st.st_nlink != 1)
		rc = cp_fail(s, -EMLINK, "%s: its partial file %s has other names; remove it",
		             f->path, f->temp);
	else if (rc == -EWOULDBLOCK)
		cp_fail(s, rc, "%s: another weft-cp writes its partial file", f->path);
	else if (rc != 0 && f->fd >= 0)
		cp_fail(s, rc, "%s: its partial file %s cannot be locked: %s", f->path, f->temp,
		        strerror(-rc));
	if (rc != 0) {
		/* It is not ours to remove. */
		f->temp[0] = '\0';
		return rc;
	}
	f->have_bytes = (uint64_t)st.st_size;
	f->keep = true;
	return 0;
}

/** The mode of the file that is replaced; until then for no more readers than it has, and for us to
 * open again. */
static void
file_mode(const struct cp_file *f, bool whole)
{
	if (f->replaces)
		(void)fchmod(f->fd, whole ? f->mode : (f->mode & 0777) | S_IRUSR | S_IWUSR);
}

/**
 * The temporary file of a pull, whose name is this process's. With opt->again it is that of an
 * attempt before, which was made so that no other user has it.
 */
static int
file_temp(struct cp_session *s, struct cp_file *f, char *copy)
{
	const bool again = s->opt->keep_temp && s->opt->again;
	struct stat st;

	snprintf(f->temp, sizeof(f->temp), "%s/.weft-cp.%ld.tmp", dirname(copy),
	         (long)s->shared->pid);
	f->fd = again ? open(f->temp, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
	if (again && f->fd >= 0 &&
	    (fstat(f->fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	     st.st_nlink != 1)) {
		close(f->fd);
		f->fd = -1;
		return -EPERM;
	}
	if (again && f->fd >= 0)
		f->have_bytes = (uint64_t)st.st_size;
	else
		f->fd = open(f->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (f->fd < 0)
		return -errno;
	if (s->opt->keep_temp) {
		f->keep = true;
		strcpy(s->shared->temp, f->temp);
	}
	return 0;
}

int
cp_file_create(struct cp_session *s, struct cp_file *f, const char *path)
{
	char copy[CONF_PATH_MAX];
	struct stat st;
	int rc = 0;

	f->path = path;
	f->fd = -1;
	if (strcmp(path, "-") == 0)
		return file_stdout(s, f);
	if (strlen(path) >= sizeof(copy))
		return cp_fail(s, -ENAMETOOLONG, "%s: name too long", path);
	if (stat(path, &st) == 0) {
		if (S_ISDIR(st.st_mode))
			return cp_fail(s, -EISDIR, "%s: is a directory; name a file", path);
		if (!S_ISREG(st.st_mode))
			return cp_fail(s, -EINVAL,
			               "%s: is not a regular file, and cannot be replaced at once",
			               path);
		f->mode = st.st_mode & 07777;
		f->replaces = true;
	}
	strcpy(copy, path);
	if (s->opt->keep_part) {
		rc = file_part(s, f, copy);
		if (rc != 0 && s->err[0] != '\0')
			return rc;
	} else {
		rc = file_temp(s, f, copy);
	}
	if (rc != 0) {
		strcpy(copy, path);
		f->temp[0] = '\0';
		return cp_fail(s, rc, "%s: cannot be written: %s: %s", path, dirname(copy),
		               strerror(-rc));
	}
	file_mode(f, false);
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
cp_file_put(struct cp_session *s, struct cp_file *f, const void *buf, uint32_t len_bytes,
            uint64_t off_bytes, uint32_t *put)
{
	struct pollfd pfd = {.fd = f->fd, .events = POLLOUT};
	uint32_t n = len_bytes - *put;
	ssize_t done;

	if (!f->stream) {
		*put = len_bytes;
		return cp_file_write(f, buf, len_bytes, off_bytes);
	}
	if (f->blocks && n > FILE_PIECE)
		n = FILE_PIECE;
	while (*put < len_bytes) {
		if (poll(&pfd, 1, 0) <= 0)
			return -EAGAIN;
		if (n > len_bytes - *put)
			n = len_bytes - *put;
		done = write(f->fd, (const uint8_t *)buf + *put, n);
		if (done < 0 && (errno == EINTR || errno == EAGAIN))
			return -EAGAIN;
		if (done < 0)
			return -errno;
		f->given = true;
		if (s->shared != NULL)
			s->shared->consumed = true;
		*put += (uint32_t)done;
	}
	return 0;
}

int
cp_file_local(const struct cp_file *f, void *buf, uint32_t len_bytes, uint64_t off_bytes)
{
	uint8_t *at = buf;

	if (off_bytes + len_bytes > f->have_bytes)
		return -ENODATA;
	while (len_bytes > 0) {
		ssize_t n = pread(f->fd, at, len_bytes, (off_t)off_bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENODATA;
		at += n;
		off_bytes += (uint64_t)n;
		len_bytes -= (uint32_t)n;
	}
	return 0;
}

int
cp_file_hole(const struct cp_file *f, uint64_t off_bytes, uint64_t len_bytes)
{
	static const uint8_t zeros[65536];
	uint64_t end = off_bytes + len_bytes;
	int rc = 0;

	if (end > f->have_bytes)
		end = f->have_bytes;
	if (off_bytes >= end)
		return 0;
	if (fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off_bytes,
	              (off_t)(end - off_bytes)) == 0)
		return 0;
	for (uint64_t n; rc == 0 && off_bytes < end; off_bytes += n) {
		n = end - off_bytes < sizeof(zeros) ? end - off_bytes : sizeof(zeros);
		rc = cp_file_write(f, zeros, (uint32_t)n, off_bytes);
	}
	return rc;
}

int
cp_file_install(struct cp_session *s, struct cp_file *f)
{
	char copy[CONF_PATH_MAX];
	int fd, rc = 0;

	if (f->stream)
		return 0;
	file_mode(f, true);
	if (fsync(f->fd) != 0)
		rc = cp_fail(s, -errno, "%s: cannot be written: %s", f->path, strerror(errno));
	else if (rename(f->temp, f->path) != 0)
		rc = cp_fail(s, -errno, "%s: cannot be put in place: %s", f->path, strerror(errno));
	if (rc != 0) {
		file_mode(f, false);
		return rc;
	}
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
cp_file_fail(struct cp_session *s, const struct cp_file *f, int rc)
{
	size_t n;

	if (!f->given)
		return;
	cp_fail(s, rc, "%s", strerror(-rc));
	n = strlen(s->err);
	snprintf(s->err + n, sizeof(s->err) - n, "; what was written is not whole");
}

void
cp_file_end(struct cp_file *f)
{
	struct stat st;

	/* A partial file stays if there is anything in it. */
	if (f->temp[0] != '\0' && !(f->keep && fstat(f->fd, &st) == 0 && st.st_size > 0))
		unlink(f->temp);
	if (f->path != NULL && f->fd >= 0 && !f->stream)
		close(f->fd);
}
