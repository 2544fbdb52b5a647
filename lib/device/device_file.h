/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DEVICE_FILE_H
#define DEVICE_FILE_H

/** @file Small files of /sys and /proc. Paths are formats, as of printf(). Private to the room. */

#include <stdbool.h>
#include <stddef.h>

/** The first line, without the white space at its end. "", false: there is no such file. */
bool device_line(char *buf, size_t size, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
/** The number in a file; `none`: there is no such file, or no number in it. */
long device_number(int base, long none, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/** The last part of what a link leads to; "": there is no such link. */
void device_link(char *name, size_t size, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
/** Whether there is such a file or folder. */
bool device_exists(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** Whether a list of the kernel, "0-3,8", has that number. */
bool device_list_has(const char *list, unsigned int n);

#endif /* DEVICE_FILE_H */
