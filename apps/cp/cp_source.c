/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The source of a push: a file, read in order and checked for changes at the end, or a
 * stream on standard input, which is read only when it has something. */

#include "cp_push.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "file_open.h"
#include "ui.h"

int
cp_source_open(struct cp_session *s, struct cp_source *f, const char *path, const char *left)
{
	char why[256];

	*f = (struct cp_source){.path = path, .fd = -1, .left = left};
	if (strcmp(path, "-") == 0) {
		f->path = "standard input";
		f->stream = true;
		f->fd = STDIN_FILENO;
		f->size_bytes = s->opt->length_bytes != 0 ? s->opt->length_bytes : CP_SIZE_UNKNOWN;
	} else {
		f->fd = file_open(path, why, sizeof(why));
		if (f->fd < 0)
			return cp_fail(s, f->fd, "%s: %s", path, why);
	}
	if (fstat(f->fd, &f->st) != 0)
		return cp_fail(s, -errno, "%s: cannot be read: %s", f->path, strerror(errno));
	if (f->stream && S_ISDIR(f->st.st_mode))
		return cp_fail(s, -EISDIR, "%s: is a directory", f->path);
	if (f->stream)
		clock_gettime(CLOCK_REALTIME, &f->st.st_mtim);
	else
		f->size_bytes = (uint64_t)f->st.st_size;
	f->crc = weft_hash_find("crc32c");
	if (f->crc == NULL || f->crc->init(&f->crc_state, NULL, 0) != 0)
		return cp_fail(s, -ENOTSUP, "no hash driver crc32c");
	if (!f->stream)
		(void)posix_fadvise(f->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	return 0;
}

void
cp_source_close(struct cp_source *f)
{
	if (f->fd >= 0 && !f->stream)
		close(f->fd);
	f->fd = -1;
}

int
cp_source_fits(struct cp_session *s, const struct cp_source *f)
{
	uint64_t size = f->size_bytes;
	char b1[32], b2[32];

	/* A stream of unknown length fits until it does not. */
	if (size == CP_SIZE_UNKNOWN)
		size = f->read_bytes;
	if (size <= s->grant.capacity_bytes)
		return 0;
	if (f->stream && f->size_bytes == CP_SIZE_UNKNOWN)
		return cp_fail(s, -EFBIG,
		               "%s: has more octets than fit into export %s, which holds objects "
		               "up to %" PRIu64 " (%s); nothing was committed",
		               f->path, s->url.export_name, s->grant.capacity_bytes,
		               ui_bytes(s->grant.capacity_bytes, b2, sizeof(b2)));
	return cp_fail(s, -EFBIG,
	               "%s: %" PRIu64 " octets (%s) do not fit into export %s, which holds "
	               "objects up to %" PRIu64 " (%s); nothing was written",
	               f->path, size, ui_bytes(size, b1, sizeof(b1)), s->url.export_name,
	               s->grant.capacity_bytes, ui_bytes(s->grant.capacity_bytes, b2, sizeof(b2)));
}

static int
source_read(struct cp_session *s, struct cp_source *f, uint8_t *buf, uint32_t len)
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
	return 0;
}

/** Read what the stream has, into the block of `want` octets. */
static int
source_fill(struct cp_session *s, struct cp_source *f, uint8_t *buf, uint32_t want)
{
	struct pollfd pfd = {.fd = f->fd, .events = POLLIN};
	ssize_t n;

	if (poll(&pfd, 1, 0) <= 0)
		return -EAGAIN;
	n = read(f->fd, buf + f->fill_bytes, want - f->fill_bytes);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return -EAGAIN;
	if (n < 0)
		return cp_fail(s, -errno, "%s: cannot be read at octet %" PRIu64 ": %s; %s",
		               f->path, f->read_bytes + f->fill_bytes, strerror(errno), f->left);
	if (n > 0 && s->shared != NULL)
		s->shared->consumed = true;
	f->fill_bytes += (uint32_t)n;
	if (n == 0 && f->size_bytes != CP_SIZE_UNKNOWN)
		return cp_fail(s, -EIO,
		               "%s: ends at octet %" PRIu64 ", --length says %" PRIu64 "; %s",
		               f->path, f->read_bytes + f->fill_bytes, f->size_bytes, f->left);
	f->ended = n == 0;
	return f->ended || f->fill_bytes == want ? 0 : -EAGAIN;
}

bool
cp_source_more(const struct cp_source *f)
{
	return !f->ended && f->read_bytes < f->size_bytes;
}

int
cp_source_next(struct cp_session *s, struct cp_source *f, uint8_t *buf, uint32_t want,
               uint32_t *got)
{
	const uint64_t left = f->size_bytes - f->read_bytes;
	int rc;

	if (left < want)
		want = (uint32_t)left;
	rc = f->stream ? source_fill(s, f, buf, want) : source_read(s, f, buf, want);
	if (rc != 0)
		return rc;
	*got = f->stream ? f->fill_bytes : want;
	f->fill_bytes = 0;
	f->crc->update(&f->crc_state, buf, *got);
	f->read_bytes += *got;
	return 0;
}

int
cp_source_rewind(struct cp_session *s, struct cp_source *f)
{
	f->read_bytes = 0;
	f->ended = false;
	if (f->crc->init(&f->crc_state, NULL, 0) != 0)
		return cp_fail(s, -ENOTSUP, "no hash driver crc32c");
	return 0;
}

int
cp_source_check(struct cp_session *s, const struct cp_source *f)
{
	struct stat st;

	if (f->stream)
		return 0;
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

const char *
cp_source_name(const struct cp_source *f)
{
	const char *slash = strrchr(f->path, '/');

	return f->stream ? "stdin" : slash != NULL ? slash + 1 : f->path;
}

int64_t
cp_source_mtime_ns(const struct cp_source *f)
{
	return (int64_t)f->st.st_mtim.tv_sec * 1000000000 + f->st.st_mtim.tv_nsec;
}

void
cp_source_header(struct cp_source *f, uint64_t generation, uint8_t crc[EXPFMT_CRC_BYTES],
                 uint8_t *page)
{
	struct expfmt_slot h = {
	        .generation = generation,
	        .length_bytes = f->read_bytes,
	        .mtime_ns = cp_source_mtime_ns(f),
	};

	snprintf(h.name, sizeof(h.name), "%s", cp_source_name(f));
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
