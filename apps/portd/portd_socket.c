/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The control socket as a file, and the directory of the net_memifs' socket.
 *
 * net_memif's driver accepts every connection, and waits for its first message without end. So its
 * socket is in a directory that keeps all others out.
 */

#include "portd_socket.h"

#include <errno.h>
#include <libgen.h>
#include <stdbool.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOCKET_BACKLOG 64

/** Sets s->dir and s->memif. A process has another current directory, so they are absolute. */
static int
socket_names(struct portd_socket *s, const char *path)
{
	char copy[sizeof(s->file.path)], dir[PATH_MAX];
	const char *base = strrchr(path, '/');
	int n;

	snprintf(copy, sizeof(copy), "%s", path);
	if (realpath(dirname(copy), dir) == NULL)
		return -errno;
	n = snprintf(s->dir, sizeof(s->dir), "%s/%s.d", strcmp(dir, "/") == 0 ? "" : dir,
	             base != NULL ? base + 1 : path);
	if (n < 0 || (size_t)n + strlen("/m") >= sizeof(s->memif))
		return -ENAMETOOLONG;
	snprintf(s->memif, sizeof(s->memif), "%.*s/m", n, s->dir);
	/* It becomes an argument of a device. */
	return strpbrk(s->memif, ",[]") == NULL ? 0 : -EINVAL;
}

static int
socket_dir(const struct portd_socket *s)
{
	const bool shared = s->gid != SOCK_FILE_NO_GROUP;
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
	if (s->gid == SOCK_FILE_NO_GROUP)
		return 0;
	if (chown(s->memif, (uid_t)-1, s->gid) != 0 || chmod(s->memif, 0660) != 0)
		return -errno;
	return 0;
}

int
portd_socket_open(const char *path, const char *group, struct portd_socket *s, char *err,
                  size_t err_size)
{
	char dir[sizeof(s->file.path)];
	int rc = 0;

	*s = (struct portd_socket){.file = {.fd = -1, .lock_fd = -1}, .gid = SOCK_FILE_NO_GROUP};
	if (strlen(path) >= sizeof(s->file.path)) {
		snprintf(err, err_size, "--socket: the path has more than %zu octets",
		         sizeof(s->file.path) - 1);
		return -ENAMETOOLONG;
	}
	if (group != NULL)
		rc = sock_file_group(group, &s->gid);
	if (rc != 0) {
		snprintf(err, err_size, "--group: this host has no group \"%s\"", group);
		return rc;
	}
	/* /run is empty after a start of the machine. */
	snprintf(dir, sizeof(dir), "%s", path);
	(void)mkdir(dirname(dir), 0755);
	rc = socket_names(s, path);
	if (rc == -ENAMETOOLONG || rc == -EINVAL) {
		snprintf(err, err_size, "--socket: %s.d/m %s", path,
		         rc == -EINVAL ? "may have none of \",[]\"" : "is too long for a socket");
		return rc;
	}
	if (rc == 0)
		rc = sock_file_lock(&s->file, path);
	if (rc == 0)
		rc = socket_dir(s);
	if (rc == 0)
		rc = sock_file_listen(&s->file, SOCK_SEQPACKET, s->gid, SOCKET_BACKLOG);
	if (rc == 0)
		return 0;
	snprintf(err, err_size, "%s: %s", path,
	         rc == -EADDRINUSE ? "another weft-portd has this socket; name another one by "
	                             "--socket"
	                           : strerror(-rc));
	sock_file_close(&s->file);
	return rc;
}

void
portd_socket_close(struct portd_socket *s)
{
	if (s->file.fd < 0)
		return;
	(void)unlink(s->memif);
	(void)rmdir(s->dir);
	sock_file_close(&s->file);
}
