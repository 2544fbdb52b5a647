/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FILE_OPEN_H
#define FILE_OPEN_H

/**
 * @file
 * Files that an operator names, for reading. The functions here do not block: open(2) and read(2)
 * of a FIFO without a writer would, for ever, and the thread could do nothing else.
 */

#include <stdbool.h>
#include <stddef.h>

/**
 * Open a regular file for reading. Returns the descriptor, which the caller closes (O_CLOEXEC);
 * -EINVAL: it is something else (a FIFO, as `<(...)` of a shell is; a device; a socket); -EISDIR;
 * -errno of open(2). err gets one line without the file's name.
 */
int file_open(const char *path, char *err, size_t err_size);

/**
 * The same, and a FIFO or a character device will do, too: the descriptor does not block (read(2):
 * -1 with EAGAIN), and is to be polled for what comes. `*waits` (never NULL) says whether it is one
 * of these.
 */
int file_open_stream(const char *path, bool *waits, char *err, size_t err_size);

#endif /* FILE_OPEN_H */
