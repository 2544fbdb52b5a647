/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The control socket as a file, and the directory of the net_memifs' socket.
 *
 * net_memif's driver accepts every connection, and waits for its first message without end. So its
 * socket is in a directory that keeps all others out.
 */

#include "portd_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <stdbool.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
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
socket_listen(struct portd_socket *s)
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
	if (rc == 0 && s->gid != (gid_t)-1 &&
	    (chown(s->path, (uid_t)-1, s->gid) != 0 || chmod(s->path, 0660) != 0))
		rc = -errno;
	if (rc == 0 && listen(s->fd, SOCKET_BACKLOG) != 0)
		rc = -errno;
	return rc;
}

/** Sets s->dir and s->memif. A process has another current directory, so they are absolute. */
static int
socket_names(struct portd_socket *s)
{
	char copy[sizeof(s->path)], dir[PATH_MAX];
	const char *base = strrchr(s->path, '/');
	int n;

	memcpy(copy, s->path, sizeof(copy));
	if (realpath(dirname(copy), dir) == NULL)
		return -errno;
	n = snprintf(s->dir, sizeof(s->dir), "%s/%s.d", strcmp(dir, "/") == 0 ? "" : dir,
	             base != NULL ? base + 1 : s->path);
	if (n < 0 || (size_t)n + strlen("/m") >= sizeof(s->memif))
		return -ENAMETOOLONG;
	snprintf(s->memif, sizeof(s->memif), "%.*s/m", n, s->dir);
	/* It becomes an argument of a device. */
	return strpbrk(s->memif, ",[]") == NULL ? 0 : -EINVAL;
}

static int
socket_dir(const struct portd_socket *s)
{
	const bool shared = s->gid != (gid_t)-1;
	struct stat st;

	if (mkdir(s->dir, 0700) != 0) {
		if (errno != EEXIST)
			return -errno;
		/* A killed daemon's. */
		if (lstat(s->dir, &st) != 0)
			return -errno;
		if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
			return -EEXIST;
		if (chmod(s->dir, 0700) != 0 || (unlink(s->memif) != 0 && errno != ENOENT))
			return -errno;
	}
	/* Writable, because the driver refuses other directories, of its clients, too. */
	if (shared && (chown(s->dir, (uid_t)-1, s->gid) != 0 || chmod(s->dir, 0770) != 0))
		return -errno;
	return 0;
}

int
portd_socket_share(const struct portd_socket *s)
{
	if (s->gid == (gid_t)-1)
		return 0;
	if (chown(s->memif, (uid_t)-1, s->gid) != 0 || chmod(s->memif, 0660) != 0)
		return -errno;
	return 0;
}

int
portd_socket_open(const char *path, const char *group, struct portd_socket *s, char *err,
                  size_t err_size)
{
	struct group g, *found = NULL;
	char buf[4096], dir[sizeof(s->path)];
	int rc = 0;

	*s = (struct portd_socket){.fd = -1, .lock_fd = -1, .gid = (gid_t)-1};
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
	if (found != NULL)
		s->gid = found->gr_gid;
	rc = socket_names(s);
	if (rc == -ENAMETOOLONG || rc == -EINVAL) {
		snprintf(err, err_size, "--socket: %s.d/m %s", path,
		         rc == -EINVAL ? "may have none of \",[]\"" : "is too long for a socket");
		return rc;
	}
	if (rc == 0)
		rc = socket_lock(s);
	if (rc == 0)
		rc = socket_dir(s);
	if (rc == 0)
		rc = socket_listen(s);
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
	(void)unlink(s->memif);
	(void)rmdir(s->dir);
	close(s->fd);
	close(s->lock_fd);
	s->fd = s->lock_fd = -1;
}
