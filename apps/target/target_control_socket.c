/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The control socket as a file: which target has it, and which users may connect. */

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "target_control.h"

#define SOCKET_BACKLOG 128
#define SOCKET_GROUPS  1024 /* supplementary groups of a client that are looked at */

/** Whether the operator named the socket; else the default applies where it can. */
static bool
socket_named(const struct conf_target *conf)
{
	return conf->control[0] != '\0';
}

static bool
socket_off(const struct conf_target *conf)
{
	return strcmp(conf->control, "off") == 0;
}

/** Whether the folder of the socket takes files of this process. */
static int
socket_folder(const char *path)
{
	char dir[CONF_PATH_MAX];

	snprintf(dir, sizeof(dir), "%s", path);
	return access(dirname(dir), W_OK | X_OK) == 0 ? 0 : -errno;
}

static int
socket_group(const struct conf_target *conf, struct control_socket *s, char *err, size_t err_size)
{
	char buf[4096];
	struct group g, *found = NULL;
	int rc;

	s->has_group = conf->control_group[0] != '\0';
	if (!s->has_group)
		return 0;
	rc = getgrnam_r(conf->control_group, &g, buf, sizeof(buf), &found);
	if (rc != 0 || found == NULL) {
		snprintf(err, err_size,
		         "[target] control_group: this host has no group \"%s\"; make it, or leave "
		         "the key out",
		         conf->control_group);
		return rc != 0 ? -rc : -ENOENT;
	}
	s->group = g.gr_gid;
	return 0;
}

int
control_socket_check(const struct conf_target *conf, char *err, size_t err_size)
{
	struct control_socket s;
	int rc;

	if (!socket_named(conf) || socket_off(conf))
		return 0;
	rc = socket_folder(conf->control);
	if (rc != 0) {
		snprintf(err, err_size, "[target] control: %s: cannot be made there: %s",
		         conf->control, strerror(-rc));
		return rc;
	}
	return socket_group(conf, &s, err, err_size);
}

/**
 * Lock the socket's name. A file of its own is locked, because the socket is made anew at each
 * start. -EADDRINUSE: another target has it.
 */
static int
socket_lock(struct control_socket *s)
{
	char name[sizeof(s->path) + 8];

	snprintf(name, sizeof(name), "%s.lock", s->path);
	s->lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->lock_fd < 0)
		return -errno;
	/* The file stays when the target ends: a lock on a removed file excludes none. */
	if (flock(s->lock_fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	return errno == EWOULDBLOCK ? -EADDRINUSE : -errno;
}

static int
socket_listen(struct control_socket *s)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	mode_t was;
	int rc;

	memcpy(at.sun_path, s->path, sizeof(s->path));
	s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->fd < 0)
		return -errno;
	/* What a killed target left: the lock says that no target has it. */
	if (unlink(s->path) != 0 && errno != ENOENT)
		return -errno;
	was = umask(0177);
	rc = bind(s->fd, (const struct sockaddr *)&at, sizeof(at)) == 0 ? 0 : -errno;
	umask(was);
	if (rc == 0 && s->has_group &&
	    (chown(s->path, (uid_t)-1, s->group) != 0 || chmod(s->path, 0660) != 0))
		rc = -errno;
	if (rc == 0 && listen(s->fd, SOCKET_BACKLOG) != 0)
		rc = -errno;
	return rc;
}

int
control_socket_open(const struct conf_target *conf, struct control_socket *s, char *err,
                    size_t err_size)
{
	int rc;

	*s = (struct control_socket){.fd = -1, .lock_fd = -1};
	if (socket_off(conf) || (!socket_named(conf) && socket_folder(CTL_SOCKET) != 0))
		return 0;
	rc = socket_group(conf, s, err, err_size);
	if (rc != 0)
		return rc;
	snprintf(s->path, sizeof(s->path), "%s", socket_named(conf) ? conf->control : CTL_SOCKET);
	rc = socket_lock(s);
	if (rc == 0)
		rc = socket_listen(s);
	if (rc == 0)
		return 0;
	snprintf(err, err_size, "[target] control: %s: %s", s->path,
	         rc == -EADDRINUSE ? "another target has this socket; name another one, or off"
	                           : strerror(-rc));
	if (s->fd >= 0)
		close(s->fd);
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	s->fd = s->lock_fd = -1;
	return rc;
}

void
control_socket_close(struct control_socket *s)
{
	if (s->fd >= 0) {
		(void)unlink(s->path);
		close(s->fd);
	}
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	s->fd = s->lock_fd = -1;
}

/** Whether the process belongs to the group, by its first group or by another one. */
static bool
socket_in_group(const struct control_socket *s, int fd, const struct ucred *peer)
{
	gid_t all[SOCKET_GROUPS];
	socklen_t bytes = sizeof(all);

	if (!s->has_group)
		return false;
	if (peer->gid == s->group)
		return true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, all, &bytes) != 0)
		return false;
	for (size_t i = 0; i < bytes / sizeof(all[0]); i++)
		if (all[i] == s->group)
			return true;
	return false;
}

bool
control_socket_may(const struct control_socket *s, int fd, uid_t *uid, pid_t *pid)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
		return false;
	*uid = peer.uid;
	*pid = peer.pid;
	return peer.uid == 0 || peer.uid == geteuid() || socket_in_group(s, fd, &peer);
}
