/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PORTD_SOCKET_H
#define PORTD_SOCKET_H

/** @file The control socket as a file: who may connect, and that one daemon has it. */

#include <stddef.h>

struct portd_socket {
	int fd, lock_fd;
	char path[108];
};

/**
 * Listen at path, for this user alone (mode 0600), or for a group as well (0660). A lock beside the
 * socket tells whether a daemon has it. A socket that a killed daemon left is replaced, but no file
 * of another kind. 0; else -errno with one line in err.
 */
int portd_socket_open(const char *path, const char *group, struct portd_socket *s, char *err,
                      size_t err_size);
/** Removes the file. */
void portd_socket_close(struct portd_socket *s);

#endif /* PORTD_SOCKET_H */
