/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Files of a directory that are replaced as a whole, durably. */

#include "target_state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define STATE_FILE_MAX (16u << 20)

const char *
state_path(const struct state *s, const char *name, char buf[STATE_PATH_MAX])
{
	snprintf(buf, STATE_PATH_MAX, "%s/%.60s", s->dir, name);
	return buf;
}

int
state_sync(const struct state *s)
{
	int fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

	if (fd < 0)
		return -errno;
	if (fsync(fd) != 0)
		rc = -errno;
	close(fd);
	return rc;
}

static int
write_all(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		len -= (size_t)n;
	}
	return fsync(fd) == 0 ? 0 : -errno;
}

int
state_put_back(const char *kept, const char *path)
{
	if (rename(kept, path) == 0)
		return 0;
	/* Whatever else it is, the file that there is may be the only one. */
	if (errno == ENOENT && (unlink(path) == 0 || errno == ENOENT))
		return 0;
	return -errno;
}

int
state_write(const struct state *s, const char *name, const char *text, size_t len, bool *same)
{
	char path[STATE_PATH_MAX], fresh[STATE_PATH_MAX], kept[STATE_PATH_MAX], beside[64];
	int fd, rc;

	state_path(s, name, path);
	snprintf(beside, sizeof(beside), "%s.new", name);
	state_path(s, beside, fresh);
	snprintf(beside, sizeof(beside), "%s.old", name);
	state_path(s, beside, kept);
	*same = true;
	fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	rc = write_all(fd, text, len);
	if (close(fd) != 0 && rc == 0)
		rc = -errno;
	if (rc == 0 && unlink(kept) != 0 && errno != ENOENT)
		rc = -errno;
	if (rc == 0 && link(path, kept) != 0 && errno != ENOENT)
		rc = -errno;
	if (rc == 0 && rename(fresh, path) != 0)
		rc = -errno;
	if (rc != 0) {
		(void)unlink(fresh);
		return rc;
	}
	rc = state_sync(s);
	if (rc != 0) {
		*same = state_put_back(kept, path) == 0;
		(void)state_sync(s);
	}
	return rc;
}

int
state_read(const struct state *s, const char *name, char **text, size_t *len)
{
	char path[STATE_PATH_MAX];
	int fd = open(state_path(s, name, path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW), rc = 0;
	struct stat st;
	ssize_t n = 0;

	*len = 0;
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) != 0)
		rc = -errno;
	else if (st.st_size > STATE_FILE_MAX)
		rc = -EFBIG;
	else if ((*text = malloc((size_t)st.st_size + 1)) == NULL)
		rc = -ENOMEM;
	while (rc == 0 && *len < (size_t)st.st_size &&
	       (n = read(fd, *text + *len, (size_t)st.st_size - *len)) > 0)
		*len += (size_t)n;
	if (rc == 0 && n < 0)
		rc = -errno;
	close(fd);
	if (rc == 0)
		(*text)[*len] = '\0';
	return rc;
}
