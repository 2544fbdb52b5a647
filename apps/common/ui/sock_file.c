/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A Unix socket with a name in the file system, which one daemon has at a time. */

#include "sock_file.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

int
sock_file_group(const char *name, gid_t *gid)
{
	char buf[4096];
	struct group g, *found = NULL;
	int rc = getgrnam_r(name, &g, buf, sizeof(buf), &found);

	if (found == NULL)
		return rc != 0 ? -rc : -ENOENT;
	*gid = g.gr_gid;
	return 0;
}

int
sock_file_lock(struct sock_file *s, const char *path)
{
	char name[sizeof(s->path) + 8];

	*s = (struct sock_file){.fd = -1, .lock_fd = -1};
	if (strlen(path) >= sizeof(s->path))
		return -ENAMETOOLONG;
	snprintf(s->path, sizeof(s->path), "%s", path);
	snprintf(name, sizeof(name), "%s.lock", path);
	s->lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->lock_fd < 0)
		return -errno;
	if (flock(s->lock_fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	return errno == EWOULDBLOCK ? -EADDRINUSE : -errno;
}

/** The name is free, or a socket's that a killed daemon left: the lock says that none has it. */
static int
sock_file_free_name(const struct sock_file *s)
{
	struct stat st;

	if (lstat(s->path, &st) == 0 && !S_ISSOCK(st.st_mode))
		return -EEXIST;
	return unlink(s->path) == 0 || errno == ENOENT ? 0 : -errno;
}

int
sock_file_listen(struct sock_file *s, int type, gid_t gid, int backlog)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	mode_t was;
	int rc = sock_file_free_name(s);

	if (rc != 0)
		return rc;
	s->fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->fd < 0)
		return -errno;
	memcpy(at.sun_path, s->path, sizeof(s->path));
	was = umask(0177);
	rc = bind(s->fd, (const struct sockaddr *)&at, sizeof(at)) == 0 ? 0 : -errno;
	umask(was);
	if (rc == 0 && gid != SOCK_FILE_NO_GROUP &&
	    (chown(s->path, (uid_t)-1, gid) != 0 || chmod(s->path, 0660) != 0))
		rc = -errno;
	if (rc == 0 && listen(s->fd, backlog) != 0)
		rc = -errno;
	return rc;
}

void
sock_file_close(struct sock_file *s)
{
	if (s->fd >= 0) {
		(void)unlink(s->path);
		close(s->fd);
	}
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	s->fd = s->lock_fd = -1;
}
