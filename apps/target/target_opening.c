/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Messages of an opening, and the search for content in a file. */

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target_opening.h"
#include "weft_volume_core.h"

int
opening_fail(const struct opening *o, int rc, const char *fmt, ...)
{
	char why[CONF_ERR_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	if (o->conf->path[0] != '\0' || o->conf->image[0] != '\0')
		snprintf(o->err, o->err_size, "export %s: %s: %s", o->conf->name,
		         target_place(o->conf), why);
	else
		snprintf(o->err, o->err_size, "export %s: %s", o->conf->name, why);
	return rc;
}

int
opening_is_zero(int fd, uint64_t begin, uint64_t end)
{
	static const uint8_t zero[65536];
	uint8_t *buf = malloc(sizeof(zero));
	off_t off = (off_t)begin, data;
	int rc = 1;

	if (buf == NULL)
		return -ENOMEM;
	while (rc == 1 && (uint64_t)off < end) {
		size_t len;
		ssize_t n;

		data = lseek(fd, off, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			break; /* no more data */
		if (data >= 0)
			off = data;
		if ((uint64_t)off >= end)
			break;
		len = end - (uint64_t)off < sizeof(zero) ? (size_t)(end - (uint64_t)off)
		                                         : sizeof(zero);
		n = pread(fd, buf, len, off);
		if (n < 0)
			rc = -errno;
		else if (n == 0)
			break;
		else if (memcmp(buf, zero, (size_t)n) != 0)
			rc = 0;
		off += n;
	}
	free(buf);
	return rc;
}

int
opening_places_zero(int fd, uint64_t have, uint64_t from, uint32_t first, uint64_t *at)
{
	uint64_t len;
	int rc = 1;

	/* No reading ahead of single pages. */
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	for (uint32_t i = first; rc == 1 && weft_vol_format_place(have, from, i, at, &len); i++)
		rc = opening_is_zero(fd, *at, *at + len);
	return rc;
}

int
opening_is_blank(const struct opening *o, int fd, uint64_t begin, uint64_t have)
{
	struct stat st;
	uint64_t at;
	int rc;

	if (fstat(fd, &st) != 0)
		return -errno;
	if (!S_ISBLK(st.st_mode) || have <= o->bytes)
		return opening_is_zero(fd, begin, have);
	rc = opening_is_zero(fd, begin, o->bytes);
	if (rc == 1)
		rc = opening_places_zero(fd, have, o->bytes, 1, &at);
	/* No pages of this look that are read later. */
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	return rc;
}
