/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PORTD_SOCKET_H
#define PORTD_SOCKET_H

/** @file The control socket as a file: which users may connect, and that one daemon has it. */

#include <stddef.h>
#include <sys/types.h>

#include "sock_file.h"

struct portd_socket {
	struct sock_file file;
	char dir[108];   /**< absolute; PATH.d, to which the same processes have access alone */
	char memif[108]; /**< of the net_memifs, in this directory */
	gid_t gid;       /**< of the group; SOCK_FILE_NO_GROUP: none */
};

/**
 * Listen at path, for this user alone (mode 0600), or for a group as well (0660). A lock beside the
 * socket tells whether a daemon has it. A socket that a killed daemon left is replaced, but no file
 * of another kind. Likewise its directory is made, with mode 0700 (0770 for a group), for a socket
 * that is listened on by a driver. 0; else -errno with one line in err.
 */
int portd_socket_open(const char *path, const char *group, struct portd_socket *s, char *err,
                      size_t err_size);
/** The driver listens at s->memif: lets the group connect. -errno. */
int portd_socket_share(const struct portd_socket *s);
/** Removes the file and the directory. */
void portd_socket_close(struct portd_socket *s);

#endif /* PORTD_SOCKET_H */
