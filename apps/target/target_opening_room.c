/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Whether there is room for an export, in memory and on its medium. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "target_opening.h"
#include "ui.h"

static uint64_t beside_bytes;

void
opening_beside(uint64_t bytes)
{
	beside_bytes = bytes;
}

static uint64_t
memory_available(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	uint64_t kib = UINT64_MAX / 1024;
	char line[128];

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
			break;
	if (f != NULL)
		fclose(f);
	return kib * 1024 + beside_bytes;
}

bool
opening_is_dax(const char *path)
{
	struct statx sx;

	return statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &sx) == 0 &&
	       (sx.stx_attributes & STATX_ATTR_DAX);
}

/* Every driver but pmem populates this much memory. Without this check the kernel would kill a
 * process for lack of it. */
int
opening_has_memory(const struct opening *o, uint64_t *taken)
{
	uint64_t avail = memory_available();
	char b1[32], b2[32];

	if (o->conf->persist == CONF_PERSIST_PMEM || opening_is_dax(o->conf->path))
		return 0;
	avail -= *taken < avail ? *taken : avail;
	if (o->bytes > avail)
		return opening_fail(
		        o, -ENOMEM, "needs %s of memory, %s are available; choose a smaller size",
		        ui_bytes(o->bytes, b1, sizeof(b1)), ui_bytes(avail, b2, sizeof(b2)));
	*taken += o->bytes;
	return 0;
}

/* Check that the file system has the blocks to reserve. fd: the file, or the folder where it is
 * created. */
static int
has_room(const struct opening *o, int fd)
{
	uint64_t have = 0;
	struct statvfs fs;
	struct stat st;
	char b1[32];

	if (fstat(fd, &st) != 0 || fstatvfs(fd, &fs) != 0 || S_ISBLK(st.st_mode))
		return 0;
	if (S_ISREG(st.st_mode))
		have = (uint64_t)st.st_blocks * 512;
	if (o->bytes > INT64_MAX)
		return opening_fail(o, -EFBIG, "cannot be that large: %s",
		                    ui_bytes(o->bytes, b1, sizeof(b1)));
	if (o->bytes > have && fs.f_bsize > 0 && (o->bytes - have) / fs.f_bsize > fs.f_bavail)
		return opening_fail(o, -ENOSPC, "no space for %s there",
		                    ui_bytes(o->bytes, b1, sizeof(b1)));
	return 0;
}

int
opening_fits(const struct opening *o, int fd, uint64_t *taken)
{
	uint64_t with_it = *taken;
	int rc = opening_has_memory(o, &with_it);

	if (rc == 0 && fd >= 0)
		rc = has_room(o, fd);
	if (rc == 0)
		*taken = with_it;
	return rc;
}
