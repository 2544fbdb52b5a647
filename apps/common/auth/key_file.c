/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Reads and checks key files (key_file.h). */

#include "key_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file_open.h"

/** Open a file to which other users have no access. */
static int
key_file_own(const char *path, struct stat *st, char *err, size_t err_size)
{
	int fd = file_open(path, err, err_size), rc = -EACCES;

	if (fd < 0)
		return fd;
	if (fstat(fd, st) != 0) {
		rc = -errno;
		snprintf(err, err_size, "%s", strerror(-rc));
	} else if (st->st_uid != geteuid() && st->st_uid != 0) {
		snprintf(err, err_size, "belongs to user %u, and this program runs as user %u",
		         (unsigned int)st->st_uid, (unsigned int)geteuid());
	} else if ((st->st_mode & 077) != 0) {
		snprintf(err, err_size, "is open to others (mode %03o); chmod 600 it",
		         st->st_mode & 0777);
	} else {
		return fd;
	}
	close(fd);
	return rc;
}

int
key_file_open(const char *path, char *err, size_t err_size)
{
	struct stat st;

	return key_file_own(path, &st, err, err_size);
}

int
key_file_read(const char *path, struct key_file *out, char *err, size_t err_size)
{
	struct stat st;
	int fd = key_file_own(path, &st, err, err_size), rc = 0;
	ssize_t n;

	memset(out, 0, sizeof(*out));
	if (fd < 0)
		return fd;
	if (st.st_size < KEY_FILE_MIN_BYTES || st.st_size > WEFT_HASH_KEY_MAX_BYTES) {
		snprintf(err, err_size, "has %lld octets; a key has %d to %d",
		         (long long)st.st_size, KEY_FILE_MIN_BYTES, WEFT_HASH_KEY_MAX_BYTES);
		rc = -EINVAL;
	}
	if (rc == 0) {
		n = read(fd, out->key, sizeof(out->key));
		if (n < KEY_FILE_MIN_BYTES) {
			rc = n < 0 ? -errno : -EINVAL;
			snprintf(err, err_size, "cannot be read: %s", strerror(-rc));
			explicit_bzero(out, sizeof(*out));
		} else {
			out->bytes = (uint32_t)n;
		}
	}
	close(fd);
	return rc;
}
