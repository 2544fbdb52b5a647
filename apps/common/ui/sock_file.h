/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_SOCK_FILE_H
#define WEFT_APPS_SOCK_FILE_H

/**
 * @file A Unix socket with a name in the file system, which one daemon has at a time. A lock beside
 * it (NAME.lock) tells whether a daemon has it; so a socket that a killed daemon left is replaced.
 */

#include <sys/types.h>

#define SOCK_FILE_NO_GROUP ((gid_t)-1)

struct sock_file {
	int fd;         /**< listens, and does not block; -1: not yet */
	int lock_fd;    /**< -1: not locked */
	char path[108]; /**< of sockaddr_un */
};

/** The number of a group of this host. 0, -ENOENT (there is none), or another -errno. */
int sock_file_group(const char *name, gid_t *gid);
/**
 * Lock the name. The lock's file stays: a lock on a removed file excludes no other daemon. 0,
 * -ENAMETOOLONG, -EADDRINUSE (another daemon has it), or another -errno. s is set in any case.
 */
int sock_file_lock(struct sock_file *s, const char *path);
/**
 * Listen, behind sock_file_lock(). type: SOCK_STREAM or SOCK_SEQPACKET. For this user alone (mode
 * 0600), or for a group as well (0660). 0, -EEXIST (a file that is no socket has the name), or
 * another -errno.
 */
int sock_file_listen(struct sock_file *s, int type, gid_t gid, int backlog);
/** Remove the socket's file if it listens, and let the lock go. Does nothing the second time. */
void sock_file_close(struct sock_file *s);

#endif /* WEFT_APPS_SOCK_FILE_H */
