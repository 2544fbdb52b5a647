/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Snapshots and clones of a file: files beside it that share its blocks (FICLONE, "reflink"),
 * where the file system can do that.
 *
 * The snapshot NAME of PATH is PATH.snap.NAME, a clone is PATH.clone.NAME. Each is made as a file
 * without a name, gets its patches, is synced, and then gets its name. So a crash leaves a whole
 * one or none, and nothing that has to be cleaned up. A snapshot has no permission to write.
 *
 * The driver holds a lock (flock) on a snapshot that it has open, so one that is in use is not
 * removed.
 */

#include <dirent.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "uring_priv.h"

#define SNAP_PATH_BYTES 4096
#define SNAP_SNAPSHOT   "snap"
#define SNAP_CLONE      "clone"
#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

int
uring_sync_dir(const char *path)
{
	char *copy = strdup(path);
	int fd, r = 0;

	if (copy == NULL)
		return -ENOMEM;
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(copy);
	if (fd < 0)
		return -errno;
	if (fsync(fd) != 0)
		r = -errno;
	close(fd);
	return r;
}

/* ---- Names ---- */

/** The path of a snapshot or clone. Refuses one that the file system has no room for. */
static int
snap_path(const struct uring_disk *d, struct weft_block_snap *s, const char *kind, const char *name,
          char path[SNAP_PATH_BYTES])
{
	int n;

	if (d->md.path == NULL)
		return weft_block_snap_refuse(s, -EOPNOTSUPP, "the file's folder is not known");
	n = snprintf(path, SNAP_PATH_BYTES, "%s.%s.%s", d->md.path, kind, name);
	if (n < 0 || n >= SNAP_PATH_BYTES || strlen(strrchr(path, '/') + 1) > NAME_MAX)
		return weft_block_snap_refuse(s, -ENAMETOOLONG,
		                              "the file's name and %s have more than %d characters",
		                              name, NAME_MAX);
	return 0;
}

/** What follows the file's name and the kind in the name of a snapshot or clone; NULL: it is none.
 */
static const char *
snap_name_of(const char *file, const char *base, const char *kind)
{
	const size_t n = strlen(base), k = strlen(kind);

	if (strncmp(file, base, n) != 0 || file[n] != '.' || strncmp(file + n + 1, kind, k) != 0 ||
	    file[n + 1 + k] != '.' || !weft_block_snap_name_ok(file + n + k + 2))
		return NULL;
	return file + n + k + 2;
}

/** Take one file into a list, if it is a snapshot. */
static void
snap_take(struct weft_block_snap *s, int dir, const char *file, const char *name)
{
	struct weft_block_snapshot at = {.bytes = 0};
	struct stat st;

	if (fstatat(dir, file, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
		return;
	snprintf(at.name, sizeof(at.name), "%s", name);
	at.bytes = (uint64_t)st.st_size;
	at.created_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000ULL + (uint64_t)st.st_mtim.tv_nsec;
	weft_block_snap_found(s, &at);
}

/** Look through the folder: count what is of a kind, and list it if `list`. -errno. */
static int
snap_walk(const struct uring_disk *d, struct weft_block_snap *s, const char *kind, bool list,
          uint32_t *count)
{
	char *copy = strdup(d->md.path);
	const char *base = strrchr(d->md.path, '/') + 1, *name;
	struct dirent *e;
	DIR *dir;

	if (copy == NULL)
		return -ENOMEM;
	dir = opendir(dirname(copy));
	free(copy);
	if (dir == NULL)
		return -errno;
	*count = 0;
	while ((e = readdir(dir)) != NULL) {
		name = snap_name_of(e->d_name, base, kind);
		if (name == NULL)
			continue;
		++*count;
		if (list)
			snap_take(s, dirfd(dir), e->d_name, name);
	}
	closedir(dir);
	return 0;
}

/* ---- Copies ---- */

/** Say what a file system cannot do. */
static int
snap_refuse_fs(const struct uring_disk *d, struct weft_block_snap *s, const char *what)
{
	static const struct {
		long magic;
		const char *name;
	} known[] = {{EXT4_SUPER_MAGIC, "ext4"},
	             {TMPFS_MAGIC, "tmpfs"},
	             {XFS_SUPER_MAGIC, "XFS, made without reflink"},
	             {BTRFS_SUPER_MAGIC, "btrfs"},
	             {NFS_SUPER_MAGIC, "NFS"},
	             {OVERLAYFS_SUPER_MAGIC, "overlayfs"}};
	struct statfs fs = {.f_type = 0};

	(void)fstatfs(d->md.fd, &fs);
	for (unsigned int i = 0; i < RTE_DIM(known); i++) {
		if (known[i].magic == fs.f_type)
			return weft_block_snap_refuse(s, -EOPNOTSUPP,
			                              "its file system (%s) cannot %s; XFS with "
			                              "reflink and btrfs can",
			                              known[i].name, what);
	}
	return weft_block_snap_refuse(s, -EOPNOTSUPP,
	                              "its file system (type 0x%lx) cannot %s; XFS with reflink "
	                              "and btrfs can",
	                              (unsigned long)fs.f_type, what);
}

static int
snap_patch(int fd, struct weft_block_snap *s)
{
	uint8_t is[4096];

	for (uint32_t i = 0; i < s->patches; i++) {
		const struct weft_block_patch *p = &s->patch[i];
		int r = 0;

		if (p->guard_bytes > 0)
			r = weft_medium_pread(fd, is, p->guard_bytes,
			                      p->off_bytes + p->guard_off_bytes);
		if (r == 0 && p->guard_bytes > 0 && memcmp(is, p->guard, p->guard_bytes) != 0)
			r = -ESTALE;
		if (r == 0)
			r = weft_medium_pwrite(fd, p->data, p->len_bytes, p->off_bytes);
		if (r == -ESTALE)
			return weft_block_snap_refuse(
			        s, r,
			        "the snapshot is of another volume, or of another length of it");
		if (r != 0)
			return r;
	}
	return 0;
}

/** Make the unnamed file fd a copy of `from`, durable. */
static int
snap_fill(const struct uring_disk *d, struct weft_block_snap *s, int fd, int from, mode_t mode)
{
	int r;

	r = ioctl(fd, FICLONE, from) == 0 ? 0 : -errno;
	if (r == -EXDEV) /* a symbolic link, or a file that is a mount of its own */
		return weft_block_snap_refuse(s, -EOPNOTSUPP,
		                              "its name is on another file system than its data");
	if (r == -EOPNOTSUPP || r == -ENOTTY || r == -EINVAL || r == -ENOSYS)
		return snap_refuse_fs(d, s, "share blocks between files (reflink)");
	if (r == 0)
		r = snap_patch(fd, s);
	if (r == 0 && fchmod(fd, mode) != 0)
		r = -errno;
	if (r == 0 && fsync(fd) != 0)
		r = -errno;
	return r;
}

/** A copy of `from` with a name. */
static int
snap_copy(const struct uring_disk *d, struct weft_block_snap *s, const char *kind, int from)
{
	char path[SNAP_PATH_BYTES], own[64], *copy;
	struct stat st;
	uint32_t count;
	int fd, r = snap_path(d, s, kind, s->name, path);

	if (r == 0 && lstat(path, &st) == 0)
		r = weft_block_snap_refuse(s, -EEXIST, "%s exists", strrchr(path, '/') + 1);
	if (r == 0)
		r = snap_walk(d, s, kind, false, &count);
	if (r == 0 && s->most != 0 && count >= s->most)
		r = weft_block_snap_refuse(s, -EDQUOT, "there are %u already, of at most %u", count,
		                           s->most);
	if (r == 0 && fstat(d->md.fd, &st) != 0)
		r = -errno;
	if (r != 0)
		return r;
	copy = strdup(path);
	if (copy == NULL)
		return -ENOMEM;
	fd = open(dirname(copy), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	free(copy);
	if (fd < 0)
		return errno == EOPNOTSUPP || errno == EISDIR
		               ? snap_refuse_fs(d, s, "make files without a name (O_TMPFILE)")
		               : -errno;
	r = snap_fill(d, s, fd, from,
	              st.st_mode & (strcmp(kind, SNAP_SNAPSHOT) == 0 ? 0444 : 0666));
	snprintf(own, sizeof(own), "/proc/self/fd/%d", fd);
	if (r == 0 && linkat(AT_FDCWD, own, AT_FDCWD, path, AT_SYMLINK_FOLLOW) != 0)
		r = errno == EEXIST ? weft_block_snap_refuse(s, -EEXIST, "%s exists",
		                                             strrchr(path, '/') + 1)
		                    : -errno;
	close(fd);
	if (r == 0)
		r = uring_sync_dir(path);
	s->place[0] = '\0';
	if (r == 0 && strlen(strrchr(path, '/') + 1) < sizeof(s->place))
		strcpy(s->place, strrchr(path, '/') + 1);
	return r;
}

/** Open a snapshot, and lock it against others as `lock` says. A descriptor or -errno. */
static int
snap_open(const struct uring_disk *d, struct weft_block_snap *s, const char *name, int lock,
          char path[SNAP_PATH_BYTES])
{
	int fd, r = snap_path(d, s, SNAP_SNAPSHOT, name, path);

	if (r != 0)
		return r;
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && (errno == ENOENT || errno == ELOOP))
		return weft_block_snap_refuse(s, -ENOENT, "there is no snapshot %s", name);
	if (fd < 0)
		return -errno;
	if (flock(fd, lock | LOCK_NB) == 0)
		return fd;
	r = errno == EWOULDBLOCK ? weft_block_snap_refuse(s, -EBUSY, "snapshot %s is in use", name)
	                         : -errno;
	close(fd);
	return r;
}

static int
snap_clone(const struct uring_disk *d, struct weft_block_snap *s)
{
	char path[SNAP_PATH_BYTES];
	int from, r;

	if (s->from == NULL)
		return snap_copy(d, s, SNAP_CLONE, d->md.fd);
	from = snap_open(d, s, s->from, LOCK_SH, path);
	if (from < 0)
		return from;
	r = snap_copy(d, s, SNAP_CLONE, from);
	close(from);
	return r;
}

static int
snap_remove(const struct uring_disk *d, struct weft_block_snap *s)
{
	char path[SNAP_PATH_BYTES];
	int fd = snap_open(d, s, s->name, LOCK_EX, path), r = 0;

	if (fd < 0)
		return fd;
	if (unlink(path) != 0)
		r = -errno;
	close(fd);
	return r != 0 ? r : uring_sync_dir(path);
}

int
uring_snap(struct uring_disk *d, struct weft_block_snap *s)
{
	uint32_t count;
	int r;

	if (d->md.path == NULL)
		return weft_block_snap_refuse(s, -EOPNOTSUPP, "the file's folder is not known");
	/* A helper that waits is one less for flushes. */
	if (s->what == WEFT_BLOCK_SNAP_LIST)
		return snap_walk(d, s, SNAP_SNAPSHOT, true, &count);
	if (pthread_mutex_trylock(&d->snap_lock) != 0)
		return weft_block_snap_refuse(s, -EBUSY, "another snapshot or clone is being made");
	switch (s->what) {
	case WEFT_BLOCK_SNAP_CREATE:
		r = snap_copy(d, s, SNAP_SNAPSHOT, d->md.fd);
		break;
	case WEFT_BLOCK_SNAP_CLONE:
		r = snap_clone(d, s);
		break;
	default:
		r = snap_remove(d, s);
		break;
	}
	pthread_mutex_unlock(&d->snap_lock);
	return r;
}
