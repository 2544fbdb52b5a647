/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Small files of /sys and /proc. */

#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_string_fns.h>

#include "device_file.h"

static bool
file_line(char *buf, size_t size, const char *fmt, va_list ap)
{
	char path[PATH_MAX];
	size_t n;
	FILE *f;

	buf[0] = '\0';
	vsnprintf(path, sizeof(path), fmt, ap);
	f = fopen(path, "re");
	if (f == NULL)
		return false;
	/* The kernel refuses to read some files in some states, as `carrier` of what is down. */
	if (fgets(buf, (int)size, f) == NULL)
		buf[0] = '\0';
	fclose(f);
	for (n = strlen(buf); n > 0 && isspace((unsigned char)buf[n - 1]); n--)
		buf[n - 1] = '\0';
	return true;
}

bool
device_line(char *buf, size_t size, const char *fmt, ...)
{
	va_list ap;
	bool there;

	va_start(ap, fmt);
	there = file_line(buf, size, fmt, ap);
	va_end(ap);
	return there;
}

long
device_number(int base, long none, const char *fmt, ...)
{
	char line[64], *end;
	va_list ap;
	long v;

	va_start(ap, fmt);
	(void)file_line(line, sizeof(line), fmt, ap);
	va_end(ap);
	v = strtol(line, &end, base);
	return end == line ? none : v;
}

void
device_link(char *name, size_t size, const char *fmt, ...)
{
	char path[PATH_MAX], to[PATH_MAX];
	const char *slash;
	va_list ap;
	ssize_t n;

	name[0] = '\0';
	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	n = readlink(path, to, sizeof(to) - 1);
	if (n <= 0)
		return;
	to[n] = '\0';
	slash = strrchr(to, '/');
	(void)rte_strscpy(name, slash != NULL ? slash + 1 : to, size);
}

bool
device_exists(const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	return access(path, F_OK) == 0;
}

bool
device_list_has(const char *list, unsigned int n)
{
	const char *p = list;

	while (isdigit((unsigned char)*p)) {
		char *end;
		unsigned long from = strtoul(p, &end, 10), to = from;

		if (*end == '-')
			to = strtoul(end + 1, &end, 10);
		if (n >= from && n <= to)
			return true;
		p = end + (*end == ',');
	}
	return false;
}
