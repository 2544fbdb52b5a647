/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The control socket as a file: which target has it, and which users may connect. */

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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
	int rc;

	s->group = SOCK_FILE_NO_GROUP;
	if (conf->control_group[0] == '\0')
		return 0;
	rc = sock_file_group(conf->control_group, &s->group);
	if (rc != 0)
		snprintf(err, err_size,
		         "[target] control_group: this host has no group \"%s\"; make it, or leave "
		         "the key out",
		         conf->control_group);
	return rc;
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

int
control_socket_open(const struct conf_target *conf, struct control_socket *s, char *err,
                    size_t err_size)
{
	const char *path = socket_named(conf) ? conf->control : CTL_SOCKET;
	int rc;

	*s = (struct control_socket){.file = {.fd = -1, .lock_fd = -1}};
	if (socket_off(conf) || (!socket_named(conf) && socket_folder(CTL_SOCKET) != 0))
		return 0;
	rc = socket_group(conf, s, err, err_size);
	if (rc != 0)
		return rc;
	rc = sock_file_lock(&s->file, path);
	if (rc == 0)
		rc = sock_file_listen(&s->file, SOCK_STREAM, s->group, SOCKET_BACKLOG);
	if (rc == 0)
		return 0;
	snprintf(err, err_size, "[target] control: %s: %s", path,
	         rc == -EADDRINUSE ? "another target has this socket; name another one, or off"
	         : rc == -EEXIST   ? "a file that is no socket has this name; remove it"
	                           : strerror(-rc));
	sock_file_close(&s->file);
	return rc;
}

/** Whether the process belongs to the group, by its first group or by another one. */
static bool
socket_in_group(const struct control_socket *s, int fd, const struct ucred *peer)
{
	gid_t all[SOCKET_GROUPS];
	socklen_t bytes = sizeof(all);

	if (s->group == SOCK_FILE_NO_GROUP)
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
