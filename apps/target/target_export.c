/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Opening an export's file. Foreign content is never overwritten, and a file is never
 * opened twice. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <linux/fs.h>
#include <unistd.h>

#include "export_proto.h"
#include "target.h"
#include "ui.h"
#include <weft/log.h>

static const char *const persist_driver[] = {
        [CONF_PERSIST_AUTO] = "auto",
        [CONF_PERSIST_PMEM] = "pmem",
        [CONF_PERSIST_FILE] = "file",
        [CONF_PERSIST_VOLATILE] = "volatile",
};

/* State of one opening, for messages. */
struct opening {
	const struct conf_export *conf;
	char *err;
	size_t err_size;
	bool created; /* this opening has created the file, and removes it after an error */
	bool is_new;  /* all octets are zero: the file has to be formatted */
	uint64_t bytes;
};

static int __attribute__((format(printf, 3, 4)))
export_fail(const struct opening *o, int rc, const char *fmt, ...)
{
	char why[CONF_ERR_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	if (o->conf->path[0] != '\0')
		snprintf(o->err, o->err_size, "export %s: %s: %s", o->conf->name, o->conf->path,
		         why);
	else
		snprintf(o->err, o->err_size, "export %s: %s", o->conf->name, why);
	return rc;
}

const char *
target_rights_str(uint32_t rights, char *buf, size_t size)
{
	static const struct {
		uint32_t bit;
		const char *name;
	} right[] = {
	        {WEFT_EXPORT_READ, "read"},
	        {WEFT_EXPORT_WRITE, "write"},
	        {WEFT_EXPORT_FLUSH, "flush"},
	        {WEFT_EXPORT_VERIFY, "verify"},
	};
	size_t n = 0;

	snprintf(buf, size, "nothing");
	for (unsigned int i = 0; i < sizeof(right) / sizeof(right[0]); i++)
		if ((rights & right[i].bit) && n < size)
			n += (size_t)snprintf(buf + n, size - n, "%s%s", n > 0 ? "," : "",
			                      right[i].name);
	return buf;
}

/* ---- The file as it is found ---- */

/* 1: octets [begin, end) are all zero; holes are not read. 0: they are not; -errno. */
static int
file_is_zero(int fd, uint64_t begin, uint64_t end)
{
	static const uint8_t zero[65536];
	uint8_t *buf = malloc(sizeof(zero));
	off_t off = (off_t)begin, data;
	int rc = 1;

	if (buf == NULL)
		return -ENOMEM;
	while (rc == 1 && (uint64_t)off < end) {
		ssize_t n;

		data = lseek(fd, off, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			break; /* no more data */
		if (data >= 0)
			off = data;
		if ((uint64_t)off >= end)
			break;
		n = pread(fd, buf, sizeof(zero), off);
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

static int
file_size(int fd, uint64_t *bytes)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	*bytes = (uint64_t)st.st_size;
	if (S_ISBLK(st.st_mode) && ioctl(fd, BLKGETSIZE64, bytes) != 0)
		return -errno;
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return -ENOTSUP;
	return 0;
}

/* ---- The memory of a log ---- */

/** 1: the file holds no log: it has no magic, and its ring is zero up to `end`. 0: it may;
 * -errno. */
static int
log_is_blank(int fd, uint64_t end)
{
	uint8_t zero[8] = {0}, magic[8] = {0};

	/* A writer that died while it formatted leaves a superblock without magic. The ring was
	 * empty then. */
	if (pread(fd, magic, sizeof(magic), 0) < 0)
		return -errno;
	return memcmp(magic, zero, sizeof(zero)) == 0 ? file_is_zero(fd, WEFT_LOG_RING_OFF, end)
	                                              : 0;
}

/**
 * Check that the file is a log, or blank. The log's writer formats it and judges its content; the
 * target only refuses a file of another kind.
 */
static int
log_inspect(struct opening *o, int fd, uint64_t have)
{
	uint8_t page[EXPFMT_PAGE_BYTES] = {0};
	struct weft_log_super super = {.size = sizeof(super)};
	struct expfmt_super object;
	int rc;

	o->bytes = o->conf->size_bytes != 0 ? o->conf->size_bytes : have;
	if (o->bytes < WEFT_LOG_MIN_BYTES)
		return export_fail(o, -EINVAL,
		                   have == 0 ? "is new, so its size is needed; add size"
		                             : "is too small for a log (%u octets at "
		                               "least); add size",
		                   WEFT_LOG_MIN_BYTES);
	if (pread(fd, page, sizeof(page), 0) < 0)
		return export_fail(o, -errno, "cannot be read: %s", strerror(errno));
	rc = weft_log_super_decode(page, o->bytes, &super);
	switch (rc) {
	case 0:
		if (WEFT_LOG_RING_OFF + super.ring_bytes <= have)
			return 0;
		return export_fail(o, -EINVAL,
		                   "is a log of %" PRIu64
		                   " octets, but the file was cut to %" PRIu64 "; not touched",
		                   WEFT_LOG_RING_OFF + super.ring_bytes, have);
	case -ENODATA:
		rc = log_is_blank(fd, have);
		if (rc < 0)
			return export_fail(o, rc, "cannot be read: %s", strerror(-rc));
		o->is_new = rc > 0;
		if (rc > 0)
			return 0;
		return export_fail(o, -EINVAL,
		                   "holds something that is not a log; not touched (name another "
		                   "path, or remove the file)");
	case -EPROTONOSUPPORT:
		return export_fail(o, -EINVAL,
		                   "is a log of a version that this program does not know; not "
		                   "touched");
	case -EMEDIUMTYPE:
		return export_fail(o, -EINVAL,
		                   expfmt_super_decode(page, &object) == EXPFMT_OK
		                           ? "holds an object, not a log (format); not touched"
		                           : "is not a log (wrong magic); not touched (name "
		                             "another path, or remove the file)");
	default:
		return export_fail(o, -EINVAL,
		                   "its superblock is damaged, or is that of a log larger than "
		                   "%" PRIu64 " octets (size); not touched",
		                   o->bytes);
	}
}

/* Check that the file is an export or new, and determine the size of the export. */
static int
file_inspect(struct opening *o, int fd)
{
	uint8_t page[EXPFMT_PAGE_BYTES] = {0};
	char b1[32], b2[32];
	struct expfmt_super super;
	enum expfmt_check c;
	uint64_t have;
	ssize_t n;
	int rc = file_size(fd, &have);

	if (rc == -ENOTSUP)
		return export_fail(o, rc, "is neither a file nor a block device");
	if (rc != 0)
		return export_fail(o, rc, "cannot be used: %s", strerror(-rc));
	if (o->conf->format == CONF_FORMAT_LOG)
		return log_inspect(o, fd, have);
	n = pread(fd, page, sizeof(page), 0);
	if (n < 0)
		return export_fail(o, -errno, "cannot be read: %s", strerror(errno));
	c = expfmt_super_decode(page, &super);
	switch (c) {
	case EXPFMT_OK:
		if (o->conf->size_bytes != 0 && o->conf->size_bytes != super.size_bytes)
			return export_fail(
			        o, -EINVAL,
			        "is an export of %" PRIu64 " octets (%s), but size says %" PRIu64
			        " (%s); correct size, or leave it out",
			        super.size_bytes, ui_bytes(super.size_bytes, b1, sizeof(b1)),
			        o->conf->size_bytes, ui_bytes(o->conf->size_bytes, b2, sizeof(b2)));
		if (have < super.size_bytes)
			return export_fail(o, -EINVAL,
			                   "is an export of %" PRIu64
			                   " octets, but the file was cut to %" PRIu64
			                   "; not touched",
			                   super.size_bytes, have);
		o->bytes = super.size_bytes;
		return 0;
	case EXPFMT_ZERO:
		rc = file_is_zero(fd, 0, have);
		if (rc < 0)
			return export_fail(o, rc, "cannot be read: %s", strerror(-rc));
		if (rc == 0)
			return export_fail(o, -EINVAL,
			                   "holds something that is not a weft export; not touched "
			                   "(name another path, or remove the file)");
		o->bytes = o->conf->size_bytes != 0 ? o->conf->size_bytes : have;
		if (o->bytes < EXPFMT_MIN_BYTES)
			return export_fail(o, -EINVAL,
			                   have == 0 ? "is new, so its size is needed; add size"
			                             : "is too small for an export (%u octets at "
			                               "least); add size",
			                   EXPFMT_MIN_BYTES);
		o->is_new = true;
		return 0;
	case EXPFMT_BAD_VERSION:
		return export_fail(o, -EINVAL,
		                   "is an export of format version %" PRIu32
		                   ", this program knows %u; not touched",
		                   super.version, EXPFMT_VERSION);
	case EXPFMT_BAD_MAGIC:
		return export_fail(o, -EINVAL,
		                   "is not a weft export (wrong magic); not touched "
		                   "(name another path, or remove the file)");
	case EXPFMT_BAD_CRC:
	case EXPFMT_BAD_FIELD:
	default:
		return export_fail(o, -EINVAL, "its superblock is damaged (%s); not touched",
		                   expfmt_check_str(c));
	}
}

/* Make the name of a new file durable. */
static void
sync_directory(const char *path)
{
	char dir[CONF_PATH_MAX];
	char *slash;
	int fd;

	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (slash == NULL)
		strcpy(dir, ".");
	else
		slash[slash == dir] = '\0';
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)fsync(fd);
	close(fd);
}

/* Open or create the file to examine it; returns the descriptor or -errno. */
static int
file_open(struct opening *o)
{
	int fd = open(o->conf->path, O_RDWR | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT && o->conf->size_bytes != 0) {
		fd = open(o->conf->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		o->created = fd >= 0;
	} else if (fd < 0 && errno == ENOENT) {
		return export_fail(o, -ENOENT, "does not exist; add size, and it will be made");
	}
	if (fd < 0)
		return export_fail(o, -errno, "cannot be opened for writing: %s", strerror(errno));
	return fd;
}

/* ---- Memory ---- */

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
	return kib * 1024;
}

static bool
file_is_dax(const char *path)
{
	struct statx sx;

	return statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &sx) == 0 &&
	       (sx.stx_attributes & STATX_ATTR_DAX);
}

/* Every driver but pmem populates this much memory. Without this check the kernel would kill a
 * process for lack of it. */
static int
export_has_memory(const struct opening *o, uint64_t *taken)
{
	uint64_t avail = memory_available();
	char b1[32], b2[32];

	if (o->conf->persist == CONF_PERSIST_PMEM || file_is_dax(o->conf->path))
		return 0;
	avail -= *taken < avail ? *taken : avail;
	if (o->bytes > avail)
		return export_fail(
		        o, -ENOMEM, "needs %s of memory, %s are available; choose a smaller size",
		        ui_bytes(o->bytes, b1, sizeof(b1)), ui_bytes(avail, b2, sizeof(b2)));
	*taken += o->bytes;
	return 0;
}

static int
export_map(struct opening *o, struct target_export *ex, int numa_node)
{
	const struct weft_persist_attr attr = {
	        .size = sizeof(attr),
	        .driver = persist_driver[o->conf->persist],
	        .path = o->conf->path[0] != '\0' ? o->conf->path : NULL,
	        .bytes = o->bytes,
	        .create = true,
	        .numa_node = o->conf->numa_node >= 0 ? o->conf->numa_node : numa_node,
	};
	uint64_t taken = 0;
	char b1[32];
	int rc;

	rc = export_has_memory(o, &taken);
	if (rc != 0)
		return rc;
	rc = weft_persist_open(&attr, &ex->persist);
	switch (rc) {
	case 0:
		break;
	case -EBUSY:
		return export_fail(o, rc, "is in use by another export or process");
	case -ENOTSUP:
		return export_fail(
		        o, rc,
		        "driver %s cannot make this medium durable; use persist = auto or file",
		        attr.driver);
	case -ENOSPC:
		return export_fail(o, rc, "no space for %s there",
		                   ui_bytes(o->bytes, b1, sizeof(b1)));
	case -ENOMEM:
		return export_fail(o, rc, "not enough memory for %s",
		                   ui_bytes(o->bytes, b1, sizeof(b1)));
	default:
		return export_fail(o, rc, "cannot be opened by driver %s: %s", attr.driver,
		                   strerror(-rc));
	}
	if (attr.numa_node >= 0 && ex->persist->numa_node >= 0 &&
	    ex->persist->numa_node != attr.numa_node)
		target_log("export %s: its memory lies on NUMA node %d, not on %d", o->conf->name,
		           ex->persist->numa_node, attr.numa_node);
	return 0;
}

/* ---- Content ---- */

static int
export_format(const struct opening *o, struct target_export *ex)
{
	uint8_t uuid[16];
	int rc = expfmt_uuid(uuid);

	if (rc == 0)
		rc = expfmt_layout(o->bytes, uuid, &ex->super);
	if (rc != 0)
		return export_fail(o, rc, "cannot be formatted: %s", strerror(-rc));
	/* Commit word and slots are zero already, which is generation 0, empty. Only the
	 * superblock is written. */
	expfmt_super_encode(&ex->super, ex->persist->base);
	if (!ex->persist->ops->persistent)
		return 0;
	weft_persist_mark(ex->persist, 0, EXPFMT_PAGE_BYTES);
	rc = weft_persist_flush_wait(ex->persist, 0, EXPFMT_PAGE_BYTES);
	if (rc != 0)
		return export_fail(o, rc, "cannot be formatted: writing the superblock: %s",
		                   strerror(-rc));
	return 0;
}

/** The same for a log; its writer judges the records. */
static void
log_report(const struct opening *o, const struct target_export *ex)
{
	struct weft_log_super super = {.size = sizeof(super)};
	char b1[32], b2[32], rights[64], state[160] = "blank";

	if (weft_log_super_decode(ex->persist->base, ex->persist->bytes, &super) == 0)
		snprintf(state, sizeof(state),
		         "one of %" PRIu32 " targets with quorum %" PRIu32 ", ring of %s",
		         super.targets, super.quorum, ui_bytes(super.ring_bytes, b2, sizeof(b2)));
	target_log("export %s: %s, %s, memory of a log, %s, grants %s; %s", o->conf->name,
	           o->conf->path, ex->persist->mechanism,
	           ui_bytes(ex->persist->bytes, b1, sizeof(b1)),
	           target_rights_str(o->conf->rights, rights, sizeof(rights)), state);
}

/** Check again what log_inspect() checked: only now is the medium locked. */
static int
log_check(const struct opening *o, const struct target_export *ex)
{
	struct weft_log_super super = {.size = sizeof(super)};
	int rc = weft_log_super_decode(ex->persist->base, ex->persist->bytes, &super);

	if (rc != (o->is_new ? -ENODATA : 0))
		return export_fail(o, -EBUSY, "was changed by somebody just now; not touched");
	return 0;
}

/* Log what the export holds. A damaged object does not prevent service: readers detect the
 * damage, and the next push replaces the object. */
static void
export_report(const struct opening *o, const struct target_export *ex)
{
	const struct weft_hash_ops *crc = weft_hash_find("crc32c");
	const uint8_t *base = ex->persist->base;
	uint8_t sum[WEFT_HASH_MAX_BYTES];
	struct expfmt_commit word;
	struct expfmt_slot slot;
	enum expfmt_check c;
	const uint8_t *head;
	char b1[32], b2[32], rights[64], state[160];

	expfmt_commit_decode(base + EXPFMT_COMMIT_OFF, &word);
	head = base + ex->super.slot_off[word.slot];
	c = expfmt_slot_decode(head, ex->super.capacity_bytes, &slot);
	if (word.generation == 0)
		snprintf(state, sizeof(state), "%s", o->is_new ? "new" : "empty");
	else if (c != EXPFMT_OK)
		snprintf(state, sizeof(state),
		         "DAMAGED: generation %" PRIu64 ", header of slot %u: %s", word.generation,
		         word.slot, expfmt_check_str(c));
	else if (slot.generation != word.generation)
		snprintf(state, sizeof(state),
		         "DAMAGED: generation %" PRIu64 ", but slot %u holds generation %" PRIu64,
		         word.generation, word.slot, slot.generation);
	else if (crc == NULL ||
	         weft_hash_once(crc, head + EXPFMT_HEADER_BYTES, slot.length_bytes, sum) != 0 ||
	         memcmp(sum, slot.data_crc, EXPFMT_CRC_BYTES) != 0)
		snprintf(state, sizeof(state),
		         "DAMAGED: generation %" PRIu64 ", data of slot %u: checksum wrong",
		         word.generation, word.slot);
	else
		snprintf(state, sizeof(state), "generation %" PRIu64 ", %s, checksum good",
		         word.generation, ui_bytes(slot.length_bytes, b2, sizeof(b2)));
	target_log("export %s: %s, %s, holds objects up to %s, grants %s; %s", o->conf->name,
	           o->conf->path[0] != '\0' ? o->conf->path : "memory", ex->persist->mechanism,
	           ui_bytes(ex->super.capacity_bytes, b1, sizeof(b1)),
	           target_rights_str(o->conf->rights, rights, sizeof(rights)), state);
}

/* Check that the file system has the blocks to reserve. fd: the file, or the folder where it is
 * created. */
static int
export_has_room(const struct opening *o, int fd)
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
		return export_fail(o, -EFBIG, "cannot be that large: %s",
		                   ui_bytes(o->bytes, b1, sizeof(b1)));
	if (o->bytes > have && fs.f_bsize > 0 && (o->bytes - have) / fs.f_bsize > fs.f_bavail)
		return export_fail(o, -ENOSPC, "no space for %s there",
		                   ui_bytes(o->bytes, b1, sizeof(b1)));
	return 0;
}

/* Check the room in memory, then on the medium, in the order of the open. */
static int
export_fits(const struct opening *o, int fd, uint64_t *taken)
{
	uint64_t with_it = *taken;
	int rc = export_has_memory(o, &with_it);

	if (rc == 0 && fd >= 0)
		rc = export_has_room(o, fd);
	if (rc == 0)
		*taken = with_it;
	return rc;
}

int
target_export_check(const struct conf_export *conf, uint64_t *taken_bytes, char *err,
                    size_t err_size)
{
	struct opening o = {
	        .conf = conf, .err = err, .err_size = err_size, .bytes = conf->size_bytes};
	char dir[CONF_PATH_MAX];
	char *slash;
	int fd, rc;

	if (conf->hash_key_file[0] != '\0') {
		struct key_file key;
		char why[CONF_ERR_MAX];

		rc = key_file_read(conf->hash_key_file, &key, why, sizeof(why));
		explicit_bzero(&key, sizeof(key));
		if (rc != 0) {
			snprintf(err, err_size, "export %s: hash_key_file %s: %s", conf->name,
			         conf->hash_key_file, why);
			return rc;
		}
	}
	if (conf->persist == CONF_PERSIST_VOLATILE)
		return export_has_memory(&o, taken_bytes);
	fd = open(conf->path, O_RDWR | O_CLOEXEC);
	if (fd >= 0) {
		rc = file_inspect(&o, fd);
		if (rc == 0)
			rc = export_fits(&o, fd, taken_bytes);
		close(fd);
		return rc;
	}
	if (errno != ENOENT)
		return export_fail(&o, -errno, "cannot be opened for writing: %s", strerror(errno));
	if (conf->size_bytes == 0)
		return export_fail(&o, -ENOENT, "does not exist; add size, and it will be made");
	if (conf->size_bytes < EXPFMT_MIN_BYTES)
		return export_fail(&o, -EINVAL, "is too small for an export (%u octets at least)",
		                   EXPFMT_MIN_BYTES);
	/* The file would be created: check whether it can be. */
	snprintf(dir, sizeof(dir), "%s", conf->path);
	slash = strrchr(dir, '/');
	if (slash != NULL)
		slash[slash == dir] = '\0';
	if (access(slash != NULL ? dir : ".", W_OK | X_OK) != 0)
		return export_fail(&o, -errno, "cannot be opened for writing: %s", strerror(errno));
	fd = open(slash != NULL ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rc = export_fits(&o, fd, taken_bytes);
	if (fd >= 0)
		close(fd);
	return rc;
}

bool
target_export_same_file(const struct conf_export *a, const struct conf_export *b)
{
	const struct conf_export *of[] = {a, b};
	struct stat st[2];
	char *name[2];
	bool same;

	if (a->path[0] == '\0' || b->path[0] == '\0')
		return false;
	if (stat(a->path, &st[0]) == 0 && stat(b->path, &st[1]) == 0)
		return st[0].st_dev == st[1].st_dev && st[0].st_ino == st[1].st_ino;
	/* A file that does not exist yet: compare its folder and its name there. */
	for (int i = 0; i < 2; i++) {
		char dir[CONF_PATH_MAX];
		const char *slash = strrchr(of[i]->path, '/');
		const char *base = slash != NULL ? slash + 1 : of[i]->path;
		char *real;

		snprintf(dir, sizeof(dir), "%.*s/", slash != NULL ? (int)(slash - of[i]->path) : 1,
		         slash != NULL ? of[i]->path : ".");
		real = realpath(dir, NULL);
		if (real == NULL || asprintf(&name[i], "%s/%s", real, base) < 0)
			name[i] = NULL;
		free(real);
	}
	same = name[0] != NULL && name[1] != NULL && strcmp(name[0], name[1]) == 0;
	free(name[0]);
	free(name[1]);
	return same;
}

int
target_export_in_use(const struct conf_export *conf, char *err, size_t err_size)
{
	const struct opening o = {.conf = conf, .err = err, .err_size = err_size};

	return export_fail(&o, -EBUSY, "is in use by another export or process");
}

int
target_export_open(struct target_export *ex, const struct conf_export *conf, int numa_node,
                   char *err, size_t err_size)
{
	struct opening o = {
	        .conf = conf, .err = err, .err_size = err_size, .bytes = conf->size_bytes};
	bool in_file = conf->persist != CONF_PERSIST_VOLATILE;
	enum expfmt_check c;
	int rc = 0, fd;

	memset(ex, 0, sizeof(*ex));
	ex->conf = conf;
	ex->file_fd = ex->file_wd = -1;
	pthread_mutex_init(&ex->lock, NULL);
	if (conf->hash_key_file[0] != '\0') {
		char why[CONF_ERR_MAX];

		rc = key_file_read(conf->hash_key_file, &ex->hash_key, why, sizeof(why));
		if (rc != 0) {
			snprintf(err, err_size, "export %s: hash_key_file %s: %s", conf->name,
			         conf->hash_key_file, why);
			return rc;
		}
	}
	o.is_new = !in_file;
	if (in_file) {
		fd = file_open(&o);
		if (fd < 0) {
			target_export_release(ex);
			return fd;
		}
		rc = file_inspect(&o, fd);
		close(fd);
	}
	if (rc == 0)
		rc = export_map(&o, ex, numa_node);
	if (rc == 0 && conf->format == CONF_FORMAT_LOG) {
		rc = log_check(&o, ex);
	} else if (rc == 0) {
		/* Only now is the medium locked: another process may have changed it since the
		 * inspection. */
		c = expfmt_super_decode(ex->persist->base, &ex->super);
		if (c != (o.is_new ? EXPFMT_ZERO : EXPFMT_OK))
			rc = export_fail(&o, -EBUSY,
			                 "was changed by somebody just now; not touched");
		else if (o.is_new)
			rc = export_format(&o, ex);
	}
	if (rc == 0 && (conf->rights & CONF_RIGHT_FLUSH) && !ex->persist->ops->persistent)
		rc = export_fail(&o, -ENOTSUP,
		                 "driver %s cannot promise flush; leave it out of rights",
		                 ex->persist->ops->name);
	if (rc != 0) {
		target_export_release(ex);
		if (o.created)
			unlink(conf->path);
		return rc;
	}
	if (o.created)
		sync_directory(conf->path);
	ex->created = o.created;
	atomic_store(&ex->rights, conf->rights);
	atomic_store(&ex->up, true);
	(conf->format == CONF_FORMAT_LOG ? log_report : export_report)(&o, ex);
	return 0;
}

void
target_export_undo(struct target_export *ex)
{
	/* The medium is still locked, so no other process uses it. */
	if (ex->created)
		(void)unlink(ex->conf->path);
	ex->created = false;
}

void
target_export_release(struct target_export *ex)
{
	weft_persist_close(ex->persist);
	ex->persist = NULL;
	explicit_bzero(&ex->hash_key, sizeof(ex->hash_key));
}

void
target_export_close(struct target_export *ex)
{
	target_export_release(ex);
	pthread_mutex_destroy(&ex->lock);
}
