/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The source file of a push: read once in order, and checked for changes at the end. */

#include "cp.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "file_open.h"
#include "ui.h"

int
cp_source_open(struct cp_session *s, struct cp_source *f, const char *path)
{
	char why[256];

	f->path = path;
	f->left = "nothing was committed";
	f->fd = file_open(path, why, sizeof(why));
	if (f->fd < 0)
		return cp_fail(s, f->fd, "%s: %s", path, why);
	if (fstat(f->fd, &f->st) != 0)
		return cp_fail(s, -errno, "%s: cannot be read: %s", path, strerror(errno));
	f->crc = weft_hash_find("crc32c");
	if (f->crc == NULL || f->crc->init(&f->crc_state, NULL, 0) != 0)
		return cp_fail(s, -ENOTSUP, "no hash driver crc32c");
	(void)posix_fadvise(f->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	return 0;
}

int
cp_source_fits(struct cp_session *s, const struct cp_source *f)
{
	uint64_t size = (uint64_t)f->st.st_size;
	char b1[32], b2[32];

	if (size <= s->grant.capacity_bytes)
		return 0;
	return cp_fail(s, -EFBIG,
	               "%s: %" PRIu64 " octets (%s) do not fit into export %s, which holds "
	               "objects up to %" PRIu64 " (%s); nothing was written",
	               f->path, size, ui_bytes(size, b1, sizeof(b1)), s->url.export_name,
	               s->grant.capacity_bytes, ui_bytes(s->grant.capacity_bytes, b2, sizeof(b2)));
}

int
cp_source_read(struct cp_session *s, struct cp_source *f, uint8_t *buf, uint32_t len)
{
	uint32_t have = 0;

	while (have < len) {
		ssize_t n = pread(f->fd, buf + have, len - have, (off_t)(f->read_bytes + have));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return cp_fail(s, -errno, "%s: cannot be read at octet %" PRIu64 ": %s; %s",
			               f->path, f->read_bytes + have, strerror(errno), f->left);
		if (n == 0)
			return cp_fail(s, -EIO,
			               "%s: changed while it was read: it ends at octet %" PRIu64
			               ", it had %" PRIu64 "; %s",
			               f->path, f->read_bytes + have, (uint64_t)f->st.st_size,
			               f->left);
		have += (uint32_t)n;
	}
	f->crc->update(&f->crc_state, buf, len);
	f->read_bytes += len;
	return 0;
}

int
cp_source_check(struct cp_session *s, const struct cp_source *f)
{
	struct stat st;

	if (fstat(f->fd, &st) != 0)
		return cp_fail(s, -errno, "%s: %s; %s", f->path, strerror(errno), f->left);
	if (st.st_size != f->st.st_size)
		return cp_fail(s, -EIO,
		               "%s: changed while it was read: it had %" PRIu64
		               " octets and has %" PRIu64 "; %s",
		               f->path, (uint64_t)f->st.st_size, (uint64_t)st.st_size, f->left);
	if (st.st_mtim.tv_sec != f->st.st_mtim.tv_sec ||
	    st.st_mtim.tv_nsec != f->st.st_mtim.tv_nsec)
		return cp_fail(s, -EIO, "%s: changed while it was read; %s", f->path, f->left);
	return 0;
}

void
cp_source_header(struct cp_source *f, uint64_t generation, uint8_t crc[EXPFMT_CRC_BYTES],
                 uint8_t *page)
{
	struct expfmt_slot h = {
	        .generation = generation,
	        .length_bytes = (uint64_t)f->st.st_size,
	        .mtime_ns = (int64_t)f->st.st_mtim.tv_sec * 1000000000 + f->st.st_mtim.tv_nsec,
	};
	const char *slash = strrchr(f->path, '/');

	snprintf(h.name, sizeof(h.name), "%s", slash != NULL ? slash + 1 : f->path);
	f->crc->final(&f->crc_state, h.data_crc);
	memcpy(crc, h.data_crc, EXPFMT_CRC_BYTES);
	expfmt_slot_encode(&h, page);
}

const char *
cp_push_consequence(uint64_t old_generation, bool commit_sent, char *buf, size_t size)
{
	if (commit_sent)
		snprintf(buf, size,
		         "; the commit was sent and not acknowledged: the export holds the old or "
		         "the new content, whole either way");
	else if (old_generation == 0)
		snprintf(buf, size, "; nothing was committed, the export is as empty as before");
	else
		snprintf(buf, size, "; nothing was committed, the export keeps generation %" PRIu64,
		         old_generation);
	return buf;
}
