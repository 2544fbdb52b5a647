/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Whether the process has memory at an address. */

#include "mapped.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Of Linux 5.14. An older kernel says EINVAL. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/** Of a range up to this the pages are made present: one call, and quicker than all mappings. */
#define MAPPED_SHORT_BYTES (256 * 1024)

/** Look the range up in the list of all mappings, which is in the order of addresses. */
static int
mapped_by_list(uintptr_t first, uintptr_t end, bool write)
{
	/* Not "self": the thread of main() may have ended, and then has no mappings. */
	FILE *f = fopen("/proc/thread-self/maps", "re");
	unsigned long long from, to;
	uintptr_t have = first;
	char line[512], r, w;
	bool whole = false, begins = true;

	if (f == NULL)
		return 0;
	while (have < end && fgets(line, sizeof(line), f) != NULL) {
		/* The path of a file can be longer than the buffer. */
		const bool head = begins;

		begins = strchr(line, '\n') != NULL;
		if (!head || sscanf(line, "%llx-%llx %c%c", &from, &to, &r, &w) != 4)
			continue;
		if (to <= have)
			continue;
		if (from > have || r != 'r' || (write && w != 'w'))
			break;
		have = (uintptr_t)to;
	}
	whole = have >= end;
	fclose(f);
	return whole ? 0 : -EFAULT;
}

int
wv_mapped(const void *addr, size_t len, bool write)
{
	const uintptr_t first = (uintptr_t)addr, end = first + len;
	const uintptr_t page = first & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
	const int errno_before = errno;
	int rc = -1;

	if (len == 0)
		return 0;
	if (end < first)
		return -EINVAL;
	/* It fails for other reasons, too: the list decides then. */
	if (len <= MAPPED_SHORT_BYTES)
		rc = madvise((void *)page, end - page,
		             write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
	if (rc != 0)
		rc = mapped_by_list(first, end, write);
	errno = errno_before;
	return rc;
}
