/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The control socket as a file. */

#include "portd_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET_BACKLOG 64

static int
socket_lock(struct portd_socket *s)
{
	char name[sizeof(s->path) + 8];

	snprintf(name, sizeof(name), "%s.lock", s->path);
	s->lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->lock_fd < 0)
		return -errno;
	/* The file stays at the end: a lock on a removed file excludes no other daemon. */
	if (flock(s->lock_fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	return errno == EWOULDBLOCK ? -EADDRINUSE : -errno;
}

static int
socket_listen(struct portd_socket *s, const struct group *g)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct stat st;
	mode_t was;
	int rc;

	memcpy(at.sun_path, s->path, sizeof(s->path));
	s->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->fd < 0)
		return -errno;
	/* What a killed daemon left: the lock says that none has it. */
	if (lstat(s->path, &st) == 0 && !S_ISSOCK(st.st_mode))
		return -EEXIST;
	if (unlink(s->path) != 0 && errno != ENOENT)
		return -errno;
	was = umask(0177);
	rc = bind(s->fd, (const struct sockaddr *)&at, sizeof(at)) == 0 ? 0 : -errno;
	umask(was);
	if (rc == 0 && g != NULL &&
	    (chown(s->path, (uid_t)-1, g->gr_gid) != 0 || chmod(s->path, 0660) != 0))
		rc = -errno;
	if (rc == 0 && listen(s->fd, SOCKET_BACKLOG) != 0)
		rc = -errno;
	return rc;
}

int
portd_socket_open(const char *path, const char *group, struct portd_socket *s, char *err,
                  size_t err_size)
{
	struct group g, *found = NULL;
	char buf[4096], dir[sizeof(s->path)];
	int rc = 0;

	*s = (struct portd_socket){.fd = -1, .lock_fd = -1};
	if (strlen(path) >= sizeof(s->path)) {
		snprintf(err, err_size, "--socket: the path has more than %zu octets",
		         sizeof(s->path) - 1);
		return -ENAMETOOLONG;
	}
	snprintf(s->path, sizeof(s->path), "%s", path);
	if (group != NULL)
		rc = getgrnam_r(group, &g, buf, sizeof(buf), &found);
	if (group != NULL && found == NULL) {
		snprintf(err, err_size, "--group: this host has no group \"%s\"", group);
		return rc != 0 ? -rc : -ENOENT;
	}
	/* /run is empty after a start of the machine. */
	snprintf(dir, sizeof(dir), "%s", path);
	(void)mkdir(dirname(dir), 0755);
	rc = socket_lock(s);
	if (rc == 0)
		rc = socket_listen(s, found);
	if (rc == 0)
		return 0;
	snprintf(err, err_size, "%s: %s", path,
	         rc == -EADDRINUSE ? "another weft-portd has this socket; name another one by "
	                             "--socket"
	                           : strerror(-rc));
	if (s->fd >= 0)
		close(s->fd);
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	s->fd = s->lock_fd = -1;
	return rc;
}

void
portd_socket_close(struct portd_socket *s)
{
	if (s->fd < 0)
		return;
	(void)unlink(s->path);
	close(s->fd);
	close(s->lock_fd);
	s->fd = s->lock_fd = -1;
}
