/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Opening, locking and extending a file or device, and reading it back past the page cache.
 */

#include <assert.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "medium_priv.h"
#include "weft_medium_file.h"

/** Room of one buffer: a read-back whose both ends are misaligned. */
#define MEDIUM_BOUNCE_STRIDE (WEFT_BOUNCE_MAX_BYTES + 2 * WEFT_MEDIUM_PAGE)
#define MEDIUM_IO_MAX_BYTES  (1ULL << 30) /* Linux moves less than 2 GiB in a call */

static int
medium_io(int fd, void *buf, uint64_t len_bytes, uint64_t off_bytes, bool is_write)
{
	uint8_t *p = buf;

	while (len_bytes > 0) {
		size_t most = RTE_MIN(len_bytes, MEDIUM_IO_MAX_BYTES);
		ssize_t n = is_write ? pwrite(fd, p, most, (off_t)off_bytes)
		                     : pread(fd, p, most, (off_t)off_bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		p += n;
		off_bytes += (uint64_t)n;
		len_bytes -= (uint64_t)n;
	}
	return 0;
}

int
weft_medium_pread(int fd, void *buf, uint64_t len_bytes, uint64_t off_bytes)
{
	return medium_io(fd, buf, len_bytes, off_bytes, false);
}

int
weft_medium_pwrite(int fd, const void *buf, uint64_t len_bytes, uint64_t off_bytes)
{
	return medium_io(fd, (void *)(uintptr_t)buf, len_bytes, off_bytes, true);
}

/** Make the directory entry of a new file durable: a file without a name is lost. */
static int
medium_sync_dir(const char *path)
{
	char *dir = strdup(path);
	int fd, r = 0;

	if (dir == NULL)
		return -ENOMEM;
	fd = open(dirname(dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		if (fsync(fd) != 0 && errno != EINVAL && errno != EROFS)
			r = -errno;
		close(fd);
	}
	free(dir);
	return r;
}

/**
 * Allocate blocks for all of [0, bytes), also for the holes of an existing file, so that a flush
 * does not find the disk full.
 */
static int
medium_reserve(int fd, const struct stat *st, uint64_t bytes)
{
	uint64_t have = (uint64_t)st->st_blocks * 512;
	struct statfs fs;
	int r;

	if (bytes > INT64_MAX)
		return -EFBIG;
	/* The number of blocks is not enough: they may be behind the mapped part of the file. */
	if (bytes <= (uint64_t)st->st_size && bytes <= have &&
	    lseek(fd, 0, SEEK_HOLE) >= (off_t)bytes)
		return 0;
	/* Checked first, so that the disk is not filled completely at the expense of others. */
	if (bytes > have && fstatfs(fd, &fs) == 0 && fs.f_bsize > 0 &&
	    (bytes - have) / (uint64_t)fs.f_bsize > (uint64_t)fs.f_bavail)
		return -ENOSPC;
	do {
		r = posix_fallocate(fd, 0, (off_t)bytes);
	} while (r == EINTR);
	if (r == 0 && fsync(fd) != 0)
		r = errno;
	return -r;
}

/* ---- Past the page cache ---- */

/**
 * Whether any page of a range is in the page cache: 1, 0, or -errno. Uses mincore() on a mapping
 * that is never accessed. A read that must not wait would tell, too, but starts a read-ahead.
 */
static int
medium_is_cached(int fd, uint64_t start, uint64_t end)
{
	uint8_t in[MEDIUM_BOUNCE_STRIDE / WEFT_MEDIUM_PAGE];
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	int r = 0;

	start = RTE_ALIGN_FLOOR(start, page);
	while (r == 0 && start < end) {
		const size_t len = RTE_MIN(RTE_ALIGN_CEIL(end, page) - start, page * sizeof(in));
		void *map = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, (off_t)start);

		if (map == MAP_FAILED)
			return -errno;
		if (mincore(map, len, in) != 0)
			r = -errno;
		munmap(map, len);
		for (size_t i = 0; r == 0 && i < len / page; i++)
			r = in[i] & 1;
		start += len;
	}
	return r;
}

/**
 * Remove a range from the page cache, so that the next read comes from the medium. If only a part
 * of a folio is named, the kernel keeps the whole folio without an error. So check, and name a
 * larger range.
 */
static int
medium_drop_cached(int fd, uint64_t start, uint64_t end)
{
	static const uint64_t folio_bytes[] = {WEFT_MEDIUM_PAGE, 2U << 20, 0};
	int r = 1;

	for (size_t i = 0; r == 1 && i < RTE_DIM(folio_bytes); i++) {
		const uint64_t align = folio_bytes[i];
		const uint64_t from = align == 0 ? 0 : RTE_ALIGN_FLOOR(start, align);
		const off_t len = align == 0 ? 0 : (off_t)(RTE_ALIGN_CEIL(end, align) - from);

		/* The kernel also keeps pages that are not written back yet. */
		if (sync_file_range(fd, (off_t)from, len,
		                    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
		                            SYNC_FILE_RANGE_WAIT_AFTER) != 0)
			return -errno;
		r = -posix_fadvise(fd, (off_t)from, len, POSIX_FADV_DONTNEED);
		if (r == 0)
			r = medium_is_cached(fd, start, end);
	}
	return r == 1 ? -EIO : r;
}

/** Open the same file again with O_DIRECT; -1 where this does not work. */
static int
medium_open_direct(const struct weft_persist_attr *attr, const struct weft_medium *md)
{
	struct stat a, b;
	void *page;
	ssize_t n = -1;
	int fd;

	if (md->tmpfs) /* newer kernels accept O_DIRECT without effect */
		return -1;
	fd = open(attr->path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, &a) == 0 && fstat(md->fd, &b) == 0 && a.st_dev == b.st_dev &&
	    a.st_ino == b.st_ino &&
	    posix_memalign(&page, WEFT_MEDIUM_PAGE, WEFT_MEDIUM_PAGE) == 0) {
		/* Some file systems accept the flag and refuse the transfer. */
		n = pread(fd, page, WEFT_MEDIUM_PAGE, 0);
		/* Others accept both, and use the page cache all the same. */
		if (n > 0 && medium_drop_cached(fd, 0, WEFT_MEDIUM_PAGE) == 0 &&
		    (pread(fd, page, WEFT_MEDIUM_PAGE, 0) < 0 ||
		     medium_is_cached(fd, 0, WEFT_MEDIUM_PAGE) == 1))
			n = -1;
		free(page);
	}
	if (n < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/** Called after the allocation. A file system that compresses has fewer blocks from the start. */
static bool
medium_is_full(int fd, uint64_t bytes)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (uint64_t)st.st_blocks * 512 >= bytes;
}

/** The shortest length that the file ever had: what was behind it is gone. */
static uint64_t
medium_shortest(struct weft_medium *md, uint64_t size)
{
	uint64_t was = atomic_load_explicit(&md->whole_bytes, memory_order_relaxed);

	while (unlikely(size < was) &&
	       !atomic_compare_exchange_weak_explicit(&md->whole_bytes, &was, size,
	                                              memory_order_relaxed, memory_order_relaxed))
		;
	return RTE_MIN(size, was);
}

/**
 * The absolute name by which the file was opened, because the process may change its directory.
 * NULL if it cannot be determined; then the name is not checked.
 */
static char *
medium_full_path(const char *path)
{
	char *dir, *full = NULL;

	if (path[0] == '/')
		return strdup(path);
	dir = getcwd(NULL, 0);
	if (dir != NULL && asprintf(&full, "%s/%s", dir, path) < 0)
		full = NULL;
	free(dir);
	return full;
}

/**
 * Whether the name belongs to another file, or to none. An error that does not tell this changes
 * nothing.
 */
static bool
medium_is_away(struct weft_medium *md, const struct stat *st)
{
	struct stat named;
	bool away;

	if (md->path == NULL)
		return false;
	if (stat(md->path, &named) == 0)
		away = named.st_dev != st->st_dev || named.st_ino != st->st_ino;
	else if (errno == ENOENT || errno == ENOTDIR)
		away = true;
	else
		return atomic_load_explicit(&md->away, memory_order_relaxed);
	atomic_store_explicit(&md->away, away, memory_order_relaxed);
	return away;
}

int
weft_medium_check(struct weft_medium *md, uint64_t end_bytes)
{
	int lost = atomic_load_explicit(&md->lost, memory_order_relaxed);
	uint64_t whole;
	struct stat st;

	if (unlikely(lost != 0))
		return lost;
	if (md->block_dev || md->char_dev)
		return 0;
	if (fstat(md->fd, &st) != 0)
		return -errno;
	whole = medium_shortest(md, (uint64_t)st.st_size);
	if (unlikely(st.st_nlink == 0))
		lost = -ENOENT;
	/*
	 * Blocks are missing at an unknown place, not at the end. A file that was cut between two
	 * checks, and made long again by this process's own writes, has such a hole, too, whatever
	 * its length is now.
	 */
	else if (unlikely(md->full && (uint64_t)st.st_blocks * 512 < RTE_MIN(whole, md->bytes)))
		lost = -EIO;
	if (unlikely(lost != 0))
		atomic_store_explicit(&md->lost, lost, memory_order_relaxed);
	else /* Cutting the file is reported as a write, too. */
		lost = medium_foreign_look(md, whole < md->bytes ? -EIO : -ESTALE);
	if (unlikely(lost != 0))
		return lost;
	if (unlikely(end_bytes > whole))
		return -EIO;
	/* This error ends when the name belongs to the file again. */
	return unlikely(medium_is_away(md, &st)) ? -ENOENT : 0;
}

int
weft_medium_lose(struct weft_medium *md, int status)
{
	int was = 0;

	(void)atomic_compare_exchange_strong_explicit(&md->lost, &was, status, memory_order_relaxed,
	                                              memory_order_relaxed);
	return was != 0 ? was : status;
}

bool
weft_medium_known_lost(const struct weft_medium *md, uint64_t end_bytes)
{
	return atomic_load_explicit(&md->lost, memory_order_relaxed) != 0 ||
	       atomic_load_explicit(&md->away, memory_order_relaxed) ||
	       end_bytes > atomic_load_explicit(&md->whole_bytes, memory_order_relaxed);
}

static int
medium_size(const struct weft_persist_attr *attr, struct weft_medium *md, const struct stat *st)
{
	uint64_t have = (uint64_t)st->st_size;

	if (md->char_dev) {
		md->bytes = attr->bytes;
		return 0;
	}
	if (md->block_dev && ioctl(md->fd, BLKGETSIZE64, &have) != 0)
		return -errno;
	md->bytes = attr->bytes == 0 ? have : attr->bytes;
	if (md->bytes == 0)
		return -EINVAL;
	if (md->bytes > have && (!attr->create || md->block_dev))
		return -EINVAL;
	if (md->block_dev)
		return 0;
	if (md->bytes > have)
		md->old_bytes = have;
	return medium_reserve(md->fd, st, md->bytes);
}

int
weft_medium_open(const struct weft_persist_attr *attr, struct weft_medium *md)
{
	struct statfs fs;
	struct stat st;
	int r, flags = O_RDWR | O_CLOEXEC | O_NOCTTY;

	memset(md, 0, sizeof(*md));
	md->fd = md->read_fd = md->direct_fd = md->tell_fd = -1;
	md->old_bytes = UINT64_MAX;
	atomic_init(&md->whole_bytes, UINT64_MAX);
	if (attr->path == NULL || attr->path[0] == '\0')
		return -EINVAL;
	/* O_EXCL is refused for a mounted block device. It has no meaning for an existing file. */
	if (stat(attr->path, &st) == 0 && S_ISBLK(st.st_mode))
		flags |= O_EXCL;
	md->fd = open(attr->path, flags);
	if (md->fd < 0 && errno == ENOENT && attr->create) {
		if (attr->bytes == 0)
			return -EINVAL;
		md->fd = open(attr->path, flags | O_CREAT | O_EXCL, 0600);
		md->made = md->fd >= 0;
		if (!md->made && errno == EEXIST) /* another process was faster and has it */
			return -EBUSY;
	}
	if (md->fd < 0)
		return -errno;
	if (fstat(md->fd, &st) != 0) {
		r = -errno;
		goto fail;
	}
	md->block_dev = S_ISBLK(st.st_mode);
	md->char_dev = S_ISCHR(st.st_mode);
	if (!md->block_dev && !md->char_dev && !S_ISREG(st.st_mode)) {
		r = -EINVAL;
		goto fail;
	}
	if (flock(md->fd, LOCK_EX | LOCK_NB) != 0) {
		r = errno == EWOULDBLOCK ? -EBUSY : -errno;
		md->made = false; /* the file belongs to the holder of the lock */
		goto fail;
	}
	/* From here on no other opener can change the length. */
	if (fstat(md->fd, &st) != 0) {
		r = -errno;
		goto fail;
	}
	r = medium_size(attr, md, &st);
	if (r == 0 && !md->block_dev && !md->char_dev)
		md->full = medium_is_full(md->fd, md->bytes);
	if (r == 0 && md->made)
		r = medium_sync_dir(attr->path);
	if (r != 0)
		goto fail;
	if (!md->block_dev && !md->char_dev)
		md->path = medium_full_path(attr->path);
	/* The node of a device may be on a tmpfs, but its octets are not. */
	md->tmpfs = !md->block_dev && !md->char_dev && fstatfs(md->fd, &fs) == 0 &&
	            (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
	if (!md->char_dev)
		md->direct_fd = medium_open_direct(attr, md);
	if (!md->char_dev && md->direct_fd < 0 && !md->tmpfs) {
		struct stat a, b;

		/* O_NONBLOCK, because the name may belong to a FIFO by now. */
		md->read_fd = open(attr->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (md->read_fd < 0 || fstat(md->read_fd, &a) != 0 || fstat(md->fd, &b) != 0 ||
		    a.st_dev != b.st_dev || a.st_ino != b.st_ino) {
			r = -EIO;
			goto fail;
		}
	}
	return 0;
fail:
	weft_medium_undo(attr, md);
	weft_medium_close(md);
	return r;
}

void
weft_medium_undo(const struct weft_persist_attr *attr, struct weft_medium *md)
{
	if (md->fd < 0)
		return;
	if (md->made)
		unlink(attr->path);
	else if (md->old_bytes != UINT64_MAX)
		(void)!ftruncate(md->fd, (off_t)md->old_bytes);
	md->made = false;
	md->old_bytes = UINT64_MAX;
}

void
weft_medium_close(struct weft_medium *md)
{
	medium_foreign_end(md);
	if (md->direct_fd >= 0)
		close(md->direct_fd);
	if (md->read_fd >= 0)
		close(md->read_fd);
	if (md->fd >= 0)
		close(md->fd); /* releases the lock */
	md->fd = md->read_fd = md->direct_fd = -1;
	free(md->path);
	md->path = NULL;
}

/* ---- Bounce buffers ---- */

static_assert(WEFT_BOUNCE_COUNT < 32, "a bit per buffer");

int
weft_bounce_init(struct weft_bounce *b)
{
	b->mem = mmap(NULL, (size_t)MEDIUM_BOUNCE_STRIDE * WEFT_BOUNCE_COUNT,
	              PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (b->mem == MAP_FAILED) {
		b->mem = NULL;
		return -ENOMEM;
	}
	atomic_init(&b->free, (1U << WEFT_BOUNCE_COUNT) - 1);
	return 0;
}

void
weft_bounce_fini(struct weft_bounce *b)
{
	if (b->mem != NULL)
		munmap(b->mem, (size_t)MEDIUM_BOUNCE_STRIDE * WEFT_BOUNCE_COUNT);
	b->mem = NULL;
}

int
weft_bounce_get(struct weft_bounce *b)
{
	uint32_t free_now = atomic_load_explicit(&b->free, memory_order_relaxed);

	while (free_now != 0) {
		int i = __builtin_ctz(free_now);

		if (atomic_compare_exchange_weak_explicit(
		            &b->free, &free_now, free_now & ~(1U << i), memory_order_acquire,
		            memory_order_relaxed))
			return i;
	}
	return -EAGAIN;
}

void
weft_bounce_put(struct weft_bounce *b, int i)
{
	atomic_fetch_or_explicit(&b->free, 1U << i, memory_order_release);
}

int
weft_bounce_read(struct weft_bounce *b, int i, const struct weft_medium *md, uint64_t off_bytes,
                 uint64_t len_bytes, const uint8_t **data)
{
	uint8_t *buf = b->mem + (size_t)i * MEDIUM_BOUNCE_STRIDE;
	uint64_t start = off_bytes & ~(uint64_t)(WEFT_MEDIUM_PAGE - 1);
	uint64_t end = off_bytes + len_bytes, got = 0, before;

	if (md->direct_fd < 0) {
		int from = md->read_fd >= 0 ? md->read_fd : md->fd;
		int r = md->tmpfs ? 0 : medium_drop_cached(from, start, end);

		if (r != 0)
			return r;
		*data = buf;
		return weft_medium_pread(from, buf, len_bytes, off_bytes);
	}
	/*
	 * Read whole pages. The last page may be cut by the end of the file, but not before the end
	 * of the range.
	 */
	end = RTE_ALIGN_CEIL(end, WEFT_MEDIUM_PAGE);
	while (start + got < off_bytes + len_bytes) {
		ssize_t n =
		        pread(md->direct_fd, buf + got, end - start - got, (off_t)(start + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		before = got;
		got += (uint64_t)n;
		/* A short transfer may end anywhere, but the next one must start on a page. */
		if (start + got < off_bytes + len_bytes)
			got &= ~(uint64_t)(WEFT_MEDIUM_PAGE - 1);
		if (got <= before) /* the file was cut: no progress is made */
			return -EIO;
	}
	*data = buf + (off_bytes - start);
	return 0;
}
