/* SPDX-License-Identifier: BSD-3-Clause */
/** @file How weft-target opens an export's file: it is created once, opened again, and never
 * overwritten. */

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target.h"
#include "target_export.h"
#include "target_say.h"
#include "weft_test.h"

static char dir[64], path[128], err[2048], log_line[1024];
static struct conf_export conf;
static struct target_export ex, ex2;

/* Memory is no matter of these tests. */
void
target_memory_sparse(void *at, size_t bytes)
{
	(void)at;
	(void)bytes;
}

void
target_log(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(log_line, sizeof(log_line), fmt, ap);
	va_end(ap);
}

static void
begin(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof(dir), "%s/weft-export-XXXXXX",
	         tmp != NULL && strlen(tmp) < 32 ? tmp : "/tmp");
	CHECK(mkdtemp(dir) != NULL);
	snprintf(path, sizeof(path), "%s/e.weft", dir);
	conf = (struct conf_export){
	        .name = "e",
	        .size_bytes = 1 << 20,
	        .persist = CONF_PERSIST_FILE,
	        .hash = "crc32c",
	        .rights = CONF_RIGHT_READ | CONF_RIGHT_WRITE | CONF_RIGHT_FLUSH | CONF_RIGHT_VERIFY,
	        .numa_node = -1,
	};
	strcpy(conf.path, path);
	log_line[0] = '\0';
}

static void
tear_down(void)
{
	unlink(path);
	rmdir(dir);
}

static int
try(void)
{
	err[0] = '\0';
	return target_export_open(&ex, &conf, -1, err, sizeof(err));
}

/* The message after "export e: PATH: ". */
static void
check_refused(int rc, const char *why)
{
	char want[2 * CONF_PATH_MAX];
	int got = try();

	if (got == 0)
		target_export_close(&ex);
	snprintf(want, sizeof(want), "export e: %s: %s", conf.path, why);
	CHECK_STR(err, want);
	CHECK_EQ(got, rc);
}

static void
write_at(off_t off, const void *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0600);

	CHECK(fd >= 0);
	CHECK_EQ(pwrite(fd, data, len, off), len);
	close(fd);
}

static void
read_all(uint8_t *buf, size_t len)
{
	int fd = open(path, O_RDONLY);

	CHECK(fd >= 0);
	CHECK_EQ(pread(fd, buf, len, 0), len);
	close(fd);
}

static void
test_new(void)
{
	static uint8_t page[2 * EXPFMT_PAGE_BYTES];
	struct expfmt_super s;
	struct stat st;
	uint8_t uuid[16];

	begin();
	CHECK_MSG(try() == 0, "%s", err);
	CHECK_EQ(ex.super.size_bytes, 1 << 20);
	CHECK_MSG(strstr(log_line, "; new") != NULL, "%s", log_line);
	memcpy(uuid, ex.super.uuid, 16);
	target_export_close(&ex);
	CHECK_EQ(stat(path, &st), 0);
	CHECK_EQ(st.st_size, 1 << 20);
	CHECK_EQ(st.st_mode & 0777, 0600);
	read_all(page, sizeof(page));
	CHECK_EQ(expfmt_super_decode(page, &s), EXPFMT_OK);
	for (unsigned int i = EXPFMT_COMMIT_OFF; i < sizeof(page); i++)
		CHECK_EQ(page[i], 0);
	/* The same file is opened again, with and without its size. */
	CHECK_MSG(try() == 0, "%s", err);
	CHECK_MEM(ex.super.uuid, uuid, 16);
	CHECK_MSG(strstr(log_line, "; empty") != NULL, "%s", log_line);
	target_export_close(&ex);
	conf.size_bytes = 0;
	CHECK_MSG(try() == 0, "%s", err);
	CHECK_EQ(ex.super.size_bytes, 1 << 20);
	target_export_close(&ex);
	tear_down();
}

/* A file of zeros, as truncate -s makes one, is new. */
static void
test_zeros(void)
{
	int fd;

	begin();
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	CHECK(fd >= 0);
	CHECK_EQ(ftruncate(fd, 1 << 20), 0);
	close(fd);
	conf.size_bytes = 0;
	CHECK_MSG(try() == 0, "%s", err);
	CHECK_EQ(ex.super.size_bytes, 1 << 20);
	target_export_close(&ex);
	tear_down();
}

static void
test_lock(void)
{
	begin();
	CHECK_MSG(try() == 0, "%s", err);
	CHECK_EQ(target_export_open(&ex2, &conf, -1, err, sizeof(err)), -EBUSY);
	CHECK_MSG(strstr(err, "is in use by another export or process") != NULL, "%s", err);
	target_export_close(&ex);
	CHECK_MSG(try() == 0, "%s", err);
	target_export_close(&ex);
	tear_down();
}

static void
test_missing(void)
{
	begin();
	conf.size_bytes = 0;
	check_refused(-ENOENT, "does not exist; add size, and it will be made");
	CHECK(access(path, F_OK) != 0);
	conf.size_bytes = 1 << 20;
	snprintf(conf.path, sizeof(conf.path), "%s/none/e.weft", dir);
	check_refused(-ENOENT, "cannot be opened for writing: No such file or directory");
	strcpy(conf.path, dir);
	check_refused(-EISDIR, "cannot be opened for writing: Is a directory");
	strcpy(conf.path, "/dev/null");
	check_refused(-ENOTSUP, "is neither a file nor a block device");
	tear_down();
}

static void
test_unwritable(void)
{
	const uid_t nobody = 65534;
	bool root = geteuid() == 0;

	begin();
	CHECK_EQ(chmod(dir, 0500), 0);
	/* Root may write every file, so become another user for a moment. */
	if (root)
		CHECK_EQ(chown(dir, nobody, (gid_t)-1) | seteuid(nobody), 0);
	check_refused(-EACCES, "cannot be opened for writing: Permission denied");
	if (root)
		CHECK_EQ(seteuid(0), 0);
	CHECK_EQ(chmod(dir, 0700), 0);
	tear_down();
}

/* A file that is not an export, or is a damaged one, is refused and not changed by a single
 * octet. */
static void
test_never_overwritten(void)
{
	static uint8_t before[1 << 20], after[1 << 20];
	static const struct {
		off_t off;
		const char *octets;
		bool ours; /* over a valid export, else over zeros */
		const char *why;
	} t[] = {
	        {0,
	         "\x7f"
	         "ELF",
	         false,
	         "is not a weft export (wrong magic); not touched (name another path, or remove "
	         "the file)"},
	        {0, "W", false,
	         "is not a weft export (wrong magic); not touched (name another path, or remove "
	         "the file)"},
	        /* A disk image begins with zeros. */
	        {32768, "CD001", false,
	         "holds something that is not a weft export; not touched (name another path, or "
	         "remove the file)"},
	        {1048575, "x", false,
	         "holds something that is not a weft export; not touched (name another path, or "
	         "remove the file)"},
	        {0, "X", true,
	         "is not a weft export (wrong magic); not touched (name another path, or remove "
	         "the file)"},
	        {11, "\x02", true,
	         "is an export of format version 2, this program knows 1; not touched"},
	        /* Change an octet of the random identifier, then of the checksum. */
	        {40, NULL, true, "its superblock is damaged (checksum wrong); not touched"},
	        {4095, NULL, true, "its superblock is damaged (checksum wrong); not touched"},
	};

	for (unsigned int i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		begin();
		if (t[i].ours) {
			CHECK_MSG(try() == 0, "%s", err);
			target_export_close(&ex);
		} else {
			write_at((1 << 20) - 1, "", 1);
		}
		if (t[i].octets != NULL) {
			write_at(t[i].off, t[i].octets, strlen(t[i].octets));
		} else {
			read_all(before, sizeof(before));
			before[t[i].off] ^= 0x77;
			write_at(t[i].off, before + t[i].off, 1);
		}
		read_all(before, sizeof(before));
		check_refused(-EINVAL, t[i].why);
		read_all(after, sizeof(after));
		CHECK_MEM(after, before, sizeof(before));
		tear_down();
	}
}

/** Octets that this process has read, of any file. */
static uint64_t
octets_read(void)
{
	FILE *f = fopen("/proc/self/io", "r");
	unsigned long long n;

	CHECK(f != NULL && fscanf(f, "rchar: %llu", &n) == 1);
	fclose(f);
	return n;
}

/** A loop device of a sparse file of `bytes`. Returns its descriptor, whose close ends it; -1: that
 * is not permitted. */
static int
loop_make(uint64_t bytes, char dev[32])
{
	const struct loop_info64 info = {.lo_flags = LO_FLAGS_AUTOCLEAR};
	int ctl = open("/dev/loop-control", O_RDWR | O_CLOEXEC), fd = -1, back, n;

	if (ctl < 0)
		return -1;
	write_at((off_t)bytes - 1, "", 1);
	back = open(path, O_RDWR | O_CLOEXEC);
	n = ioctl(ctl, LOOP_CTL_GET_FREE);
	snprintf(dev, 32, "/dev/loop%d", n);
	if (n >= 0)
		fd = open(dev, O_RDWR | O_CLOEXEC);
	if (fd >= 0 &&
	    (ioctl(fd, LOOP_SET_FD, back) != 0 || ioctl(fd, LOOP_SET_STATUS64, &info) != 0)) {
		close(fd);
		fd = -1;
	}
	close(back);
	close(ctl);
	return fd;
}

/** A large block device: what the export gets, and places behind it, are looked at, not all of the
 * device; one that there is no memory for is refused before it is read. What is found there is
 * respected. */
static void
test_device(void)
{
	static const uint64_t gib = 1ULL << 30;
	static const enum conf_format formats[] = {CONF_FORMAT_OBJECT, CONF_FORMAT_LOG};
	/* in what the export gets, at the end, and where a partition would begin */
	const uint64_t data_at[] = {8 * 1048576 - 100, 8 * gib - 1, 4 * gib};
	char dev[32];
	uint64_t before;
	int fd;

	for (unsigned int i = 0; i < 2; i++) {
		const char *what = formats[i] == CONF_FORMAT_LOG
		                           ? "holds something that is not a log"
		                           : "holds something that is not a "
		                             "weft export";

		begin();
		fd = loop_make(8 * gib, dev);
		if (fd < 0) {
			tear_down();
			test_skip("no loop device");
		}
		strcpy(conf.path, dev);
		conf.format = formats[i];
		conf.size_bytes = 8 << 20;
		for (unsigned int k = 0; k < 3; k++) {
			CHECK_EQ(pwrite(fd, "x", 1, (off_t)data_at[k]), 1);
			before = octets_read();
			CHECK_EQ(try(), -EINVAL);
			CHECK_MSG(strstr(err, what) != NULL, "%s", err);
			CHECK(octets_read() - before < 64 << 20);
			CHECK_EQ(pwrite(fd, "", 1, (off_t)data_at[k]), 1);
		}
		before = octets_read();
		CHECK_MSG(try() == 0, "%s", err);
		CHECK(octets_read() - before < 64 << 20);
		target_export_close(&ex);
		close(fd);
		tear_down();
		/* As long as the device, for which there is no memory. */
		begin();
		fd = loop_make(4096 * gib, dev);
		CHECK(fd >= 0);
		strcpy(conf.path, dev);
		conf.format = formats[i];
		conf.size_bytes = 0;
		before = octets_read();
		CHECK_EQ(try(), -ENOMEM);
		CHECK(octets_read() - before < 64 << 20);
		close(fd);
		tear_down();
	}
}

static void
test_sizes(void)
{
	begin();
	CHECK_MSG(try() == 0, "%s", err);
	target_export_close(&ex);
	conf.size_bytes = 2 << 20;
	check_refused(
	        -EINVAL,
	        "is an export of 1048576 octets (1.00 MiB), but size says 2097152 (2.00 MiB); "
	        "correct size, or leave it out");
	CHECK_EQ(truncate(path, 500000), 0);
	conf.size_bytes = 1 << 20;
	check_refused(
	        -EINVAL,
	        "is an export of 1048576 octets, but the file was cut to 500000; not touched");
	unlink(path);
	write_at(0, "", 1);
	conf.size_bytes = 0;
	check_refused(-EINVAL, "is too small for an export (24576 octets at least); add size");
	CHECK_EQ(truncate(path, 0), 0);
	check_refused(-EINVAL, "is new, so its size is needed; add size");
	/* Much more than the computer has: refused, and the new file is removed. */
	unlink(path);
	conf.size_bytes = 1ULL << 50;
	CHECK_EQ(try(), -ENOMEM);
	CHECK_MSG(strstr(err, "needs 1.00 PiB of memory") != NULL, "%s", err);
	CHECK(access(path, F_OK) != 0);
	tear_down();
}

/* The log line about the content. */
static void
test_content(void)
{
	static uint8_t head[EXPFMT_HEADER_BYTES];
	struct expfmt_commit word = {.generation = 3, .slot = 1};
	struct expfmt_slot slot = {.generation = 3, .length_bytes = 5, .name = "x"};
	uint8_t octets[8];
	off_t slot1;

	begin();
	CHECK_MSG(try() == 0, "%s", err);
	slot1 = (off_t)ex.super.slot_off[1];
	target_export_close(&ex);
	expfmt_commit_encode(&word, octets);
	write_at(EXPFMT_COMMIT_OFF, octets, 8);
	CHECK_MSG(try() == 0, "%s", err);
	target_export_close(&ex);
	CHECK_MSG(strstr(log_line, "; DAMAGED: generation 3, header of slot 1: empty") != NULL,
	          "%s", log_line);
	weft_hash_once(weft_hash_find("crc32c"), "hello", 5, slot.data_crc);
	expfmt_slot_encode(&slot, head);
	write_at(slot1, head, sizeof(head));
	CHECK_MSG(try() == 0, "%s", err);
	target_export_close(&ex);
	CHECK_MSG(strstr(log_line, "; DAMAGED: generation 3, data of slot 1: checksum wrong") !=
	                  NULL,
	          "%s", log_line);
	write_at(slot1 + EXPFMT_HEADER_BYTES, "hello", 5);
	CHECK_MSG(try() == 0, "%s", err);
	target_export_close(&ex);
	CHECK_MSG(strstr(log_line, "; generation 3, 5 B, checksum good") != NULL, "%s", log_line);
	slot.generation = 2;
	expfmt_slot_encode(&slot, head);
	write_at(slot1, head, sizeof(head));
	CHECK_MSG(try() == 0, "%s", err);
	target_export_close(&ex);
	CHECK_MSG(strstr(log_line, "; DAMAGED: generation 3, but slot 1 holds generation 2") !=
	                  NULL,
	          "%s", log_line);
	tear_down();
}

static void
test_volatile(void)
{
	begin();
	conf.path[0] = '\0';
	conf.persist = CONF_PERSIST_VOLATILE;
	conf.rights = CONF_RIGHT_READ | CONF_RIGHT_WRITE;
	CHECK_MSG(try() == 0, "%s", err);
	CHECK_EQ(ex.super.size_bytes, 1 << 20);
	CHECK(!ex.persist->ops->persistent);
	target_export_close(&ex);
	conf.rights |= CONF_RIGHT_FLUSH;
	CHECK_EQ(try(), -ENOTSUP);
	CHECK_STR(err, "export e: driver volatile cannot promise flush; leave it out of rights");
	tear_down();
}

/** The key file: its permissions, its size and its type. An export is not created without its
 * key. */
static void
test_key_file(void)
{
	static const struct {
		mode_t mode;
		off_t bytes;
		int rc;
		const char *why;
	} rows[] = {
	        {0600, 32, 0, ""},
	        {0400, 256, 0, ""},
	        {0640, 32, -EACCES, "is open to others (mode 640); chmod 600 it"},
	        {0602, 32, -EACCES, "is open to others (mode 602); chmod 600 it"},
	        {0600, 0, -EINVAL, "has 0 octets; a key has 32 to 256"},
	        {0600, 31, -EINVAL, "has 31 octets; a key has 32 to 256"},
	        {0600, 257, -EINVAL, "has 257 octets; a key has 32 to 256"},
	};
	char key[sizeof(dir) + 8], want[2 * CONF_PATH_MAX];
	uint8_t octets[257];
	int fd;

	begin();
	for (unsigned int i = 0; i < sizeof(octets); i++)
		octets[i] = (uint8_t)(i * 7 + 1);
	snprintf(key, sizeof(key), "%s/key", dir);
	strcpy(conf.hash, "hmac-sha256");
	strcpy(conf.hash_key_file, key);
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		fd = open(key, O_WRONLY | O_CREAT | O_EXCL, 0600);
		CHECK(fd >= 0);
		CHECK_EQ(write(fd, octets, (size_t)rows[i].bytes), rows[i].bytes);
		CHECK_EQ(fchmod(fd, rows[i].mode), 0);
		close(fd);
		CHECK_EQ(try(), rows[i].rc);
		if (rows[i].rc == 0) {
			CHECK_EQ(ex.hash_key.bytes, rows[i].bytes);
			CHECK_MEM(ex.hash_key.key, octets, (size_t)rows[i].bytes);
			target_export_close(&ex);
			CHECK_EQ(ex.hash_key.bytes, 0);
			CHECK_EQ(ex.hash_key.key[0], 0);
			unlink(path);
		} else {
			snprintf(want, sizeof(want), "export e: hash_key_file %s: %s", key,
			         rows[i].why);
			CHECK_STR(err, want);
			CHECK_EQ(access(path, F_OK), -1);
		}
		unlink(key);
	}
	CHECK_EQ(try(), -ENOENT);
	CHECK_EQ(mkfifo(key, 0600), 0);
	CHECK_EQ(try(), -EINVAL);
	CHECK(strstr(err, "is not a regular file") != NULL);
	unlink(key);
	CHECK_EQ(access(path, F_OK), -1);
	tear_down();
}

static void
test_rights(void)
{
	char buf[64];

	CHECK_STR(target_rights_str(0, buf, sizeof(buf)), "nothing");
	CHECK_STR(target_rights_str(CONF_RIGHT_READ | CONF_RIGHT_VERIFY, buf, sizeof(buf)),
	          "read,verify");
	CHECK_STR(target_rights_str(~0u, buf, sizeof(buf)), "read,write,flush,verify");
}

WEFT_TEST_MAIN({"new", test_new}, {"zeros", test_zeros}, {"lock", test_lock},
               {"missing", test_missing}, {"unwritable", test_unwritable},
               {"never_overwritten", test_never_overwritten}, {"a large device", test_device},
               {"sizes", test_sizes}, {"content", test_content}, {"volatile", test_volatile},
               {"key_file", test_key_file}, {"rights", test_rights})
