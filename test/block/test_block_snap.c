/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Snapshots and clones of block devices: what every driver that has them must do, and how
 * those that have none refuse.
 */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "block_test.h"
#include "medium_test.h"
#include "rbd_test.h"
#include "weft_base.h"
#include "weft_block_fault.h"
#include "weft_test.h"

#define BYTES (2U << 20)
#define PIECE 65536U

static char dir[160]; /**< where the files are */
static uint8_t *mem, *is;

/* ---- Where ---- */

/** A file system that shares blocks between files, for the rest of this program. */
static const char *
reflink_folder(void)
{
	static char at[160];
	static bool tried;
	char line[512];

	if (tried && at[0] == '\0')
		test_skip("no XFS on a loop device here (mkfs.xfs, root)");
	if (tried)
		return at;
	tried = true;
	snprintf(line, sizeof(line),
	         "cd %s && mkdir -p xfs && truncate -s 400M xfs.img && "
	         "mkfs.xfs -q -m reflink=1 xfs.img && mount -o loop xfs.img xfs",
	         scratch_path("."));
	/* In a mount namespace of its own, so that it is gone with this program. */
	if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || system(line) != 0)
		test_skip("no XFS on a loop device here (mkfs.xfs, root)");
	snprintf(at, sizeof(at), "%s", scratch_path("xfs"));
	return at;
}

static void
reflink_end(void)
{
	(void)umount2(scratch_path("xfs"), MNT_DETACH);
}

/* ---- Requests ---- */

static struct weft_block_snap snap;

static int
ask(struct disk *d, enum weft_block_snap_what what, const char *name, const char *from)
{
	struct weft_block_req req = {.op = WEFT_BLOCK_SNAPSHOT, .snap = &snap};
	int r;

	snap.what = what;
	snap.name = name;
	snap.from = from;
	r = disk_do(d, &req);
	CHECK_MSG((r == 0 || r == -EINVAL) == (snap.reason[0] == '\0'), "%d: %s", r, snap.reason);
	return r;
}

static int
create(struct disk *d, const char *name)
{
	memset(&snap, 0, sizeof(snap));
	snap.created_ns = 1700000000ULL * 1000000000ULL;
	return ask(d, WEFT_BLOCK_SNAP_CREATE, name, NULL);
}

static int
drop(struct disk *d, const char *name)
{
	memset(&snap, 0, sizeof(snap));
	return ask(d, WEFT_BLOCK_SNAP_REMOVE, name, NULL);
}

static struct weft_block_snapshot list[8];

static unsigned int
listed(struct disk *d, uint32_t max, const char *after)
{
	memset(&snap, 0, sizeof(snap));
	snap.list = list;
	snap.max_list = max;
	CHECK_EQ(ask(d, WEFT_BLOCK_SNAP_LIST, after, NULL), 0);
	return snap.found;
}

static void
put(struct disk *d, uint64_t off, uint64_t version)
{
	fill(mem, PIECE, off, version);
	CHECK_EQ(disk_io(d, WEFT_BLOCK_WRITE, 0, off, mem, PIECE), 0);
}

static bool
holds(struct disk *d, uint64_t off, uint64_t version)
{
	fill(mem, PIECE, off, version);
	CHECK_EQ(disk_io(d, WEFT_BLOCK_READ, 0, off, is, PIECE), 0);
	return memcmp(mem, is, PIECE) == 0;
}

static void
flush_disk(struct disk *d)
{
	struct weft_block_req req = {.op = WEFT_BLOCK_FLUSH};

	CHECK_EQ(disk_do(d, &req), 0);
}

/* ---- Drivers ---- */

static const struct target {
	const char *name, *driver, *options;
	bool file, rbd, ceph;
} targets[] = {
        {.name = "mem", .driver = "mem"},
        {.name = "fault", .driver = "fault", .options = "inner=mem,seed=5"},
        {.name = "uring on XFS", .driver = "uring", .file = true},
        {.name = "uring on XFS, threads", .driver = "uring", .options = "io=threads", .file = true},
        {.name = "rbd", .driver = "rbd", .rbd = true},
        {.name = "ceph", .driver = "rbd", .rbd = true, .ceph = true},
};

/** The option of the cluster that WEFT_TEST_CEPH names. */
static const char *
ceph_conf(void)
{
	static char conf[256];

	snprintf(conf, sizeof(conf), "conf=%s", getenv("WEFT_TEST_CEPH"));
	return conf;
}

static struct weft_block_attr
attr_of(const struct target *t, const char *path)
{
	return (struct weft_block_attr){.driver = t->driver,
	                                .path = path,
	                                .options = t->ceph ? ceph_conf() : t->options,
	                                .bytes = BYTES,
	                                .create = t->file};
}

/** The path of the device, of its snapshot or of its clone: `more`. */
static const char *
disk_path(const struct target *t, const char *more)
{
	static char path[8][256];
	static unsigned int turn;
	char *p = path[turn++ % 8];

	if (t->file)
		snprintf(p, sizeof(path[0]), "%s/disk%s", dir, more);
	else if (t->rbd && strncmp(more, ".snap.", 6) == 0)
		snprintf(p, sizeof(path[0]), "rbd/disk@%s", more + 6);
	else if (t->rbd)
		snprintf(p, sizeof(path[0]), "rbd/disk%s", more);
	else /* Memory of one name is that of one case. */
		snprintf(p, sizeof(path[0]), "%s-disk%s", t->driver, more);
	return p;
}

static int
try_attr(struct weft_block_attr a)
{
	struct weft_block *b;
	int r;

	a.size = sizeof(a);
	r = weft_block_open(&a, &b);
	if (r == 0)
		CHECK_EQ(weft_block_close(b), 0);
	return r;
}

/** A new image, and none of its clones. */
static void
new_image(const struct target *t)
{
	const char *conf = getenv("WEFT_TEST_CEPH");
	char line[1024];

	if (t->ceph) {
		rbd_real();
		snprintf(line, sizeof(line),
		         "R='rbd -c %s'; for i in $($R ls rbd | grep '^disk'); do "
		         "$R snap purge --no-progress rbd/$i; $R rm --no-progress rbd/$i; done "
		         ">/dev/null 2>&1; $R create --size 2M --object-size 64K rbd/disk",
		         conf);
	} else {
		rbd_fake_folder(scratch_path("."));
		snprintf(line, sizeof(line), "cd %s && rm -f disk* && truncate -s %u disk",
		         scratch_path("."), BYTES);
	}
	CHECK_EQ(system(line), 0);
}

static void
begin(struct disk *d, const struct target *t)
{
	struct weft_block_attr a;

	if (t->file) {
		char line[256];

		snprintf(dir, sizeof(dir), "%s", reflink_folder());
		snprintf(line, sizeof(line), "rm -rf %s/*", dir);
		CHECK_EQ(system(line), 0);
	}
	if (t->ceph && getenv("WEFT_TEST_CEPH") == NULL)
		test_skip("no cluster: test/run ceph starts one");
	if (t->rbd)
		new_image(t);
	disk_memory_free();
	mem = disk_memory(PIECE);
	is = disk_memory(PIECE);
	a = attr_of(t, disk_path(t, ""));
	disk_open(d, &a, 8);
	CHECK(d->info.can & WEFT_BLOCK_CAN_SNAPSHOT);
}

static void
run_snapshot(const struct target *t)
{
	struct weft_block_attr a;
	struct disk d, s;

	begin(&d, t);
	a = attr_of(t, disk_path(t, ".snap.one"));
	put(&d, 0, 1);
	put(&d, PIECE, 1);
	flush_disk(&d);
	CHECK_EQ(create(&d, "one"), 0);
	CHECK_MSG(strstr(snap.place, t->rbd ? "disk@one" : "disk.snap.one") != NULL, "%s",
	          snap.place);
	/* What is written later is not in it. */
	put(&d, PIECE, 2);
	flush_disk(&d);
	/* It is opened to be read only. */
	a.create = false;
	a.bytes = 0;
	if (!t->file) /* root may write to what has no permission */
		CHECK_EQ(try_attr(a), -EROFS);
	a.read_only = true;
	disk_open(&s, &a, 4);
	CHECK_EQ(s.bytes, BYTES);
	CHECK(holds(&s, 0, 1) && holds(&s, PIECE, 1));
	CHECK(holds(&d, 0, 1) && holds(&d, PIECE, 2));
	CHECK_EQ(disk_io(&s, WEFT_BLOCK_WRITE, 0, 0, mem, PIECE), -EROFS);
	CHECK_EQ(create(&s, "two"), t->rbd ? -EOPNOTSUPP : -EROFS);
	/* It is in use; a cluster does not know that. */
	if (!t->ceph)
		CHECK_EQ(drop(&d, "one"), -EBUSY);
	disk_close(&s);
	CHECK_EQ(create(&d, "one"), -EEXIST);
	CHECK_EQ(drop(&d, "one"), 0);
	CHECK_EQ(drop(&d, "one"), -ENOENT);
	if (t->file)
		CHECK_EQ(try_attr(a), -ENOENT);
	CHECK_EQ(weft_block_check(d.b), 0);
	disk_close(&d);
}

static void
run_list(const struct target *t)
{
	static const char *const names[] = {"c", "a.2", "B", "a-1", "7"};
	static const char *const order[] = {"7", "B", "a-1", "a.2", "c"};
	struct disk d;

	begin(&d, t);
	CHECK_EQ(listed(&d, 8, NULL), 0);
	for (unsigned int i = 0; i < 5; i++)
		CHECK_EQ(create(&d, names[i]), 0);
	CHECK_EQ(listed(&d, 8, NULL), 5);
	CHECK(!snap.more);
	for (unsigned int i = 0; i < 5; i++) {
		CHECK_MSG(strcmp(list[i].name, order[i]) == 0, "%s", list[i].name);
		CHECK(list[i].bytes == BYTES && list[i].created_ns > 1600000000ULL * 1000000000ULL);
	}
	/* piece by piece */
	CHECK_EQ(listed(&d, 2, NULL), 2);
	CHECK(snap.more && strcmp(list[1].name, "B") == 0);
	CHECK_EQ(listed(&d, 2, "B"), 2);
	CHECK(snap.more && strcmp(list[0].name, "a-1") == 0 && strcmp(list[1].name, "a.2") == 0);
	CHECK_EQ(listed(&d, 2, "a.2"), 1);
	CHECK(!snap.more && strcmp(list[0].name, "c") == 0);
	CHECK_EQ(listed(&d, 2, "zz"), 0);
	/* no more than are allowed */
	memset(&snap, 0, sizeof(snap));
	snap.most = 5;
	CHECK_EQ(ask(&d, WEFT_BLOCK_SNAP_CREATE, "more", NULL), -EDQUOT);
	snap.most = 6;
	CHECK_EQ(ask(&d, WEFT_BLOCK_SNAP_CREATE, "more", NULL), 0);
	CHECK_EQ(drop(&d, "more"), 0);
	for (unsigned int i = 0; i < 5; i++)
		CHECK_EQ(drop(&d, names[i]), 0);
	CHECK_EQ(listed(&d, 8, NULL), 0);
	disk_close(&d);
}

static int
make_clone(struct disk *d, const char *name, const char *from, const void *page, const void *guard)
{
	memset(&snap, 0, sizeof(snap));
	snap.most = 2;
	snap.patches = 1;
	snap.patch[0] = (struct weft_block_patch){.off_bytes = PIECE,
	                                          .len_bytes = 4096,
	                                          .data = page,
	                                          .guard_off_bytes = 40,
	                                          .guard_bytes = 16,
	                                          .guard = guard};
	return ask(d, WEFT_BLOCK_SNAP_CLONE, name, from);
}

static void
run_clone(const struct target *t)
{
	uint8_t page[4096], guard[PIECE];
	struct weft_block_attr a;
	struct disk d, c;

	begin(&d, t);
	a = attr_of(t, disk_path(t, ".clone.x"));
	for (unsigned int i = 0; i < sizeof(page); i++)
		page[i] = (uint8_t)(i * 7);
	put(&d, 0, 1);
	put(&d, PIECE, 1);
	memcpy(guard, mem, sizeof(guard));
	flush_disk(&d);
	CHECK_EQ(create(&d, "one"), 0);
	put(&d, 0, 2);
	flush_disk(&d);
	/* of the snapshot, of the present state; each with its patch */
	CHECK_EQ(make_clone(&d, "x", "one", page, guard + 40), 0);
	CHECK_MSG(strstr(snap.place, "disk.clone.x") != NULL, "%s", snap.place);
	CHECK_EQ(make_clone(&d, "y", NULL, page, guard + 40), 0);
	CHECK_EQ(make_clone(&d, "x", NULL, page, guard + 40), -EEXIST);
	CHECK_EQ(make_clone(&d, "z", "one", page, guard + 40), -EDQUOT);
	snap.most = 0;
	CHECK_EQ(ask(&d, WEFT_BLOCK_SNAP_CLONE, "z", "two"), -ENOENT);
	/* a guard that differs: there is no clone */
	snap.patch[0].guard = guard + 41;
	CHECK_EQ(ask(&d, WEFT_BLOCK_SNAP_CLONE, "z", "one"), -ESTALE);
	snap.patch[0].guard = guard + 40;
	CHECK_EQ(ask(&d, WEFT_BLOCK_SNAP_CLONE, "z", "one"), 0);
	CHECK_EQ(drop(&d, "one"), 0);
	disk_open(&c, &a, 4);
	CHECK(holds(&c, 0, 1));
	CHECK_EQ(disk_io(&c, WEFT_BLOCK_READ, 0, PIECE, is, PIECE), 0);
	CHECK_MEM(is, page, sizeof(page));
	CHECK_MEM(is + 4096, guard + 4096, PIECE - 4096);
	/* It is written without an effect on the device. */
	put(&c, 0, 3);
	put(&c, PIECE, 3);
	flush_disk(&c);
	CHECK(holds(&c, 0, 3) && holds(&d, 0, 2) && holds(&d, PIECE, 1));
	CHECK_EQ(weft_block_check(c.b), 0);
	disk_close(&c);
	CHECK_EQ(weft_block_check(d.b), 0);
	disk_close(&d);
}

/** Requests that are wrong are refused before the driver has them. */
static void
test_wrong(void)
{
	const struct weft_block_attr a = {.driver = "mem", .path = "wrong", .bytes = BYTES};
	static const char *const bad[] = {
	        "",
	        ".",
	        ".a",
	        "a/b",
	        "-a",
	        "a b",
	        "a@b",
	        "a\n",
	        NULL,
	        "0123456789012345678901234567890123456789012345678901234567"
	        "890123"};
	struct weft_block_req req = {.op = WEFT_BLOCK_SNAPSHOT};
	char longest[64];
	struct disk d;

	disk_open(&d, &a, 4);
	for (unsigned int i = 0; i < RTE_DIM(bad); i++) {
		CHECK(!weft_block_snap_name_ok(bad[i]));
		CHECK_EQ(create(&d, bad[i]), -EINVAL);
	}
	memset(longest, 'x', sizeof(longest));
	longest[63] = '\0';
	CHECK_EQ(create(&d, longest), 0);
	CHECK_EQ(listed(&d, 8, NULL), 1);
	CHECK(strcmp(list[0].name, longest) == 0);
	CHECK_EQ(drop(&d, longest), 0);
	CHECK_EQ(disk_do(&d, &req), -EINVAL);
	req.snap = &snap;
	memset(&snap, 0, sizeof(snap));
	snap.what = WEFT_BLOCK_SNAP_WHATS;
	CHECK_EQ(disk_do(&d, &req), -EINVAL);
	snap.what = WEFT_BLOCK_SNAP_LIST;
	CHECK_EQ(disk_do(&d, &req), -EINVAL);
	snap.what = WEFT_BLOCK_SNAP_CREATE;
	snap.name = "a";
	snap.patches = 3;
	CHECK_EQ(disk_do(&d, &req), -EINVAL);
	snap.patches = 1;
	CHECK_EQ(disk_do(&d, &req), -EINVAL);
	snap.patch[0] = (struct weft_block_patch){.data = longest, .len_bytes = 4097};
	CHECK_EQ(disk_do(&d, &req), -EINVAL);
	snap.patch[0] = (struct weft_block_patch){
	        .data = longest, .guard = longest, .guard_off_bytes = 4090, .guard_bytes = 7};
	CHECK_EQ(disk_do(&d, &req), -EINVAL);
	snap.patches = 0;
	req.len_bytes = 512;
	CHECK_EQ(disk_do(&d, &req), -EINVAL);
	req.len_bytes = 0;
	req.flags = WEFT_BLOCK_FUA;
	CHECK_EQ(disk_do(&d, &req), -EINVAL);
	CHECK_EQ(listed(&d, 8, NULL), 0);
	disk_close(&d);
}

/* ---- Refusals ---- */

static void
refused(const char *driver, const char *path, const char *why)
{
	const struct weft_block_attr a = {
	        .driver = driver, .path = path, .bytes = BYTES, .create = path != NULL};
	struct disk d;

	disk_open(&d, &a, 4);
	CHECK_EQ(create(&d, "one"), -EOPNOTSUPP);
	CHECK_MSG(strstr(snap.reason, why) != NULL, "%s", snap.reason);
	printf("# %s\n", snap.reason);
	memset(&snap, 0, sizeof(snap));
	CHECK_EQ(ask(&d, WEFT_BLOCK_SNAP_CLONE, "one", NULL), -EOPNOTSUPP);
	disk_close(&d);
}

static void
test_refused(void)
{
	char other[160];
	struct stat st;

	refused("mem", NULL, "memory");
	refused("pmem", scratch_path("pmem"), "persistent memory");
	/* The file system of the scratch folder may have reflinks; tmpfs has none. */
	snprintf(other, sizeof(other), "%s/disk", scratch("/dev/shm"));
	refused("uring", other, "tmpfs");
	/* Nothing is left. */
	strcat(other, ".snap.one");
	CHECK(stat(other, &st) != 0);
}

static void
test_refused_device(void)
{
	struct weft_block_attr a = {.driver = "uring"};
	char dev[32];
	struct disk d;
	int fd;

	put_file(scratch_path("loop"), BYTES, 0);
	fd = loop_make(scratch_path("loop"), dev);
	if (fd < 0)
		test_skip("loop devices are not permitted here");
	a.path = dev;
	disk_open(&d, &a, 4);
	CHECK_EQ(create(&d, "one"), -EOPNOTSUPP);
	CHECK_MSG(strstr(snap.reason, "block device") != NULL, "%s", snap.reason);
	disk_close(&d);
	close(fd);
}

/* ---- What is special to files ---- */

static void
test_file_names(void)
{
	const struct target *t = &targets[2];
	char path[400];
	struct disk d;
	struct stat st;

	begin(&d, t);
	/* What looks like a snapshot and is none. */
	CHECK_EQ(mkdir(disk_path(t, ".snap.folder"), 0700), 0);
	CHECK_EQ(symlink("/etc/passwd", disk_path(t, ".snap.link")), 0);
	put_file(disk_path(t, ".snap..hidden"), 1, 0);
	put_file(disk_path(t, ".snapshot"), 1, 0);
	CHECK_EQ(listed(&d, 8, NULL), 0);
	CHECK_EQ(create(&d, "folder"), -EEXIST);
	CHECK_EQ(create(&d, "link"), -EEXIST);
	CHECK_EQ(drop(&d, "link"), -ENOENT);
	CHECK(drop(&d, "folder") != 0);
	CHECK_EQ(rmdir(disk_path(t, ".snap.folder")), 0);
	CHECK_EQ(unlink(disk_path(t, ".snap.link")), 0);
	/* No one may write a snapshot, and a clone is as the volume. */
	CHECK_EQ(create(&d, "one"), 0);
	CHECK(stat(disk_path(t, ".snap.one"), &st) == 0 && (st.st_mode & 07777) == 0400);
	memset(&snap, 0, sizeof(snap));
	CHECK_EQ(ask(&d, WEFT_BLOCK_SNAP_CLONE, "c", "one"), 0);
	CHECK(stat(disk_path(t, ".clone.c"), &st) == 0 && (st.st_mode & 07777) == 0600);
	CHECK_EQ(unlink(disk_path(t, ".clone.c")), 0);
	CHECK_EQ(drop(&d, "one"), 0);
	disk_close(&d);
	/* A name that is too long for the file system. */
	snprintf(path, sizeof(path), "%s/%0200d", dir, 0);
	disk_open(&d,
	          &(struct weft_block_attr){
	                  .driver = "uring", .path = path, .bytes = BYTES, .create = true},
	          4);
	CHECK_EQ(create(&d, "01234567890123456789012345678901234567890123456789012345"),
	         -ENAMETOOLONG);
	CHECK_EQ(create(&d, "0123456789012345678901234567890123456789012345678"), 0);
	CHECK_EQ(drop(&d, "0123456789012345678901234567890123456789012345678"), 0);
	disk_close(&d);
	CHECK_EQ(unlink(path), 0);
}

/** A file system without room. */
static void
test_file_no_room(void)
{
	const struct target *t = &targets[2];
	char line[256];
	struct disk d;

	begin(&d, t);
	put(&d, 0, 1);
	flush_disk(&d);
	CHECK_EQ(create(&d, "one"), 0);
	snprintf(line, sizeof(line), "dd if=/dev/zero of=%s/fill bs=1M >/dev/null 2>&1", dir);
	(void)!system(line);
	/* A write must copy a block now: it may find no room, and the snapshot is as it was. */
	fill(mem, PIECE, 0, 2);
	for (unsigned int i = 0; i < 64; i++) {
		int r = disk_io(&d, WEFT_BLOCK_WRITE, 0, i % 32 * PIECE, mem, PIECE);

		CHECK_MSG(r == 0 || r == -ENOSPC, "%d", r);
	}
	snprintf(line, sizeof(line), "%s/fill", dir);
	CHECK_EQ(unlink(line), 0);
	disk_close(&d);
	disk_open(&d,
	          &(struct weft_block_attr){
	                  .driver = "uring", .path = disk_path(t, ".snap.one"), .read_only = true},
	          4);
	CHECK(holds(&d, 0, 1));
	disk_close(&d);
	CHECK_EQ(unlink(disk_path(t, ".snap.one")), 0);
}

/* ---- Faults ---- */

static void
test_fault(void)
{
	const struct target *t = &targets[1];
	const struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_SNAPSHOT};
	struct weft_block_req req = {.op = WEFT_BLOCK_SNAPSHOT, .snap = &snap};
	struct weft_block_attr a = attr_of(t, disk_path(t, ".snap.one"));
	struct disk d, s;

	begin(&d, t);
	put(&d, 0, 1);
	/* It fails: there is none. */
	weft_block_fault_fail(d.b, &hit, -EIO);
	CHECK_EQ(create(&d, "one"), -EIO);
	weft_block_fault_fail(d.b, NULL, 0);
	CHECK_EQ(listed(&d, 8, NULL), 0);
	/* What was not flushed is not in it. */
	CHECK_EQ(create(&d, "one"), 0);
	a.read_only = true;
	disk_open(&s, &a, 4);
	CHECK(!holds(&s, 0, 1));
	disk_close(&s);
	CHECK_EQ(drop(&d, "one"), 0);
	flush_disk(&d);
	CHECK_EQ(create(&d, "one"), 0);
	disk_open(&s, &a, 4);
	CHECK(holds(&s, 0, 1));
	disk_close(&s);
	CHECK_EQ(drop(&d, "one"), 0);
	/* The device is gone. */
	weft_block_fault_cut(d.b);
	(void)disk_poll(&d);
	memset(&snap, 0, sizeof(snap));
	snap.name = "two";
	CHECK_EQ(disk_do(&d, &req), -ENODEV);
	CHECK(snap.reason[0] != '\0');
	weft_block_fault_boot(d.b);
	(void)disk_poll(&d);
	CHECK_EQ(listed(&d, 8, NULL), 0);
	disk_close(&d);
}

#define CASES(what)                                                                                \
	static void test_##what##_mem(void)                                                        \
	{                                                                                          \
		run_##what(&targets[0]);                                                           \
	}                                                                                          \
	static void test_##what##_fault(void)                                                      \
	{                                                                                          \
		run_##what(&targets[1]);                                                           \
	}                                                                                          \
	static void test_##what##_uring(void)                                                      \
	{                                                                                          \
		run_##what(&targets[2]);                                                           \
	}                                                                                          \
	static void test_##what##_threads(void)                                                    \
	{                                                                                          \
		run_##what(&targets[3]);                                                           \
	}                                                                                          \
	static void test_##what##_rbd(void)                                                        \
	{                                                                                          \
		run_##what(&targets[4]);                                                           \
	}                                                                                          \
	static void test_##what##_ceph(void)                                                       \
	{                                                                                          \
		run_##what(&targets[5]);                                                           \
	}
CASES(snapshot)
CASES(list)
CASES(clone)

/** What the process behind the driver "rbd" cannot say. */
static void
test_rbd_nonsense(void)
{
	static const char *const faults[] = {"snapfound", "snapname"};
	const struct target *t = &targets[4];
	struct disk d;

	for (unsigned int i = 0; i < RTE_DIM(faults); i++) {
		begin(&d, t);
		CHECK_EQ(create(&d, "one"), 0);
		CHECK_EQ(create(&d, "one"), -EEXIST);
		CHECK_MSG(strcmp(snap.reason, "?[1mno") == 0, "%s", snap.reason);
		disk_close(&d);
		rbd_fake_faults(faults[i]);
		{
			const struct weft_block_attr a = attr_of(t, disk_path(t, ""));

			disk_open(&d, &a, 8);
		}
		memset(&snap, 0, sizeof(snap));
		snap.list = list;
		snap.max_list = 8;
		CHECK_EQ(ask(&d, WEFT_BLOCK_SNAP_LIST, NULL, NULL), -EIO);
		CHECK_EQ(snap.found, 0);
		disk_close(&d);
		rbd_fake_faults(NULL);
	}
}

/** A snapshot that has failed is no write that was lost. */
static void
test_rbd_failed(void)
{
	const struct target *t = &targets[4];
	const struct weft_block_attr a = attr_of(t, disk_path(t, ""));
	struct disk d;

	begin(&d, t);
	disk_close(&d);
	rbd_fake_faults("fail=1");
	disk_open(&d, &a, 8);
	rbd_fake_faults(NULL);
	CHECK_EQ(create(&d, "one"), -EIO);
	flush_disk(&d);
	CHECK_EQ(create(&d, "one"), 0);
	disk_close(&d);
}

static void
test_end(void)
{
	reflink_end();
}

/* clang-format off */
#define CASE(what)                                                                                 \
	{"mem " #what, test_##what##_mem},                                                         \
	{"fault " #what, test_##what##_fault},                                                     \
	{"uring " #what, test_##what##_uring},                                                     \
	{"uring threads " #what, test_##what##_threads},                                           \
	{"rbd " #what, test_##what##_rbd},                                                         \
	{"ceph " #what, test_##what##_ceph}
/* clang-format on */

WEFT_TEST_MAIN(CASE(snapshot), CASE(list), CASE(clone), {"wrong requests are refused", test_wrong},
               {"what has no snapshots says why", test_refused},
               {"a block device says why it has none", test_refused_device},
               {"names of files that are no snapshots, and long ones", test_file_names},
               {"a full file system keeps its snapshots", test_file_no_room},
               {"a snapshot that fails, and one before a flush", test_fault},
               {"rbd: nonsense in a list", test_rbd_nonsense},
               {"rbd: a snapshot that fails is no lost write", test_rbd_failed},
               {"the file system is unmounted", test_end})
