/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FILE_OPEN_H
#define FILE_OPEN_H

/**
 * @file Opening files that an operator names, for reading, without blocking. open(2) and read(2) of
 * a FIFO without a writer would block the thread for ever.
 */

#include <stdbool.h>
#include <stddef.h>

/**
 * Open a regular file for reading. Returns the descriptor (O_CLOEXEC), which the caller closes.
 * -EINVAL: it is not a regular file but a FIFO, as `<(...)` of a shell is, a device or a socket;
 * -EISDIR; -errno of open(2). err gets one line without the file's name.
 */
int file_open(const char *path, char *err, size_t err_size);

/**
 * The same, but accepts a FIFO or a character device, too. Its descriptor does not block (read(2)
 * is -1 with EAGAIN) and has to be polled. `*waits` (never NULL): whether the file is one of these.
 */
int file_open_stream(const char *path, bool *waits, char *err, size_t err_size);

#endif /* FILE_OPEN_H */
