/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Writes a tar file, so that the tool needs neither a library nor a program for it. */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"

#define BLOCK 512U

/** The header of POSIX.1-1988 (ustar). Numbers are octal texts. */
struct tar_head {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8];
	char type, link[100], magic[6], version[2], user[32], group[32], major[8], minor[8];
	char prefix[155], pad[12];
};

_Static_assert(sizeof(struct tar_head) == BLOCK, "a header is one block");

static void
tar_write(struct ctl_tar *t, const void *data, size_t len)
{
	const char *at = data;

	while (t->rc == 0 && len > 0) {
		ssize_t n = write(t->fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			t->rc = -errno;
			return;
		}
		at += n;
		len -= (size_t)n;
		t->bytes += (uint64_t)n;
	}
}

int
ctl_tar_begin(struct ctl_tar *t, const char *file)
{
	*t = (struct ctl_tar){
	        .fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)};
	return t->fd < 0 ? -errno : 0;
}

void
ctl_tar_add(struct ctl_tar *t, const char *name, const void *data, size_t len, time_t at_s)
{
	static const char zeros[BLOCK];
	struct tar_head h = {.type = '0', .magic = "ustar", .version = {'0', '0'}};
	unsigned int sum = 0;

	snprintf(h.name, sizeof(h.name), "%s", name);
	snprintf(h.mode, sizeof(h.mode), "%07o", 0600U);
	snprintf(h.uid, sizeof(h.uid), "%07o", 0U);
	snprintf(h.gid, sizeof(h.gid), "%07o", 0U);
	snprintf(h.size, sizeof(h.size), "%011llo", (unsigned long long)len);
	snprintf(h.mtime, sizeof(h.mtime), "%011llo", (unsigned long long)at_s);
	/* The sum is made with blanks in its place. */
	memset(h.sum, ' ', sizeof(h.sum));
	for (size_t i = 0; i < sizeof(h); i++)
		sum += ((const unsigned char *)&h)[i];
	snprintf(h.sum, sizeof(h.sum), "%06o", sum);
	tar_write(t, &h, sizeof(h));
	tar_write(t, data, len);
	if (len % BLOCK != 0)
		tar_write(t, zeros, BLOCK - len % BLOCK);
}

int
ctl_tar_end(struct ctl_tar *t)
{
	static const char zeros[2 * BLOCK];

	tar_write(t, zeros, sizeof(zeros));
	if (t->rc == 0 && fsync(t->fd) != 0 && errno != EINVAL)
		t->rc = -errno;
	if (close(t->fd) != 0 && t->rc == 0)
		t->rc = -errno;
	return t->rc;
}
