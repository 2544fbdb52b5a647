/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The file of a volume as it is found, before it is opened. An opening never makes a volume's
 * file longer: clients would read zeros in place of what was cut off, without an error. Growth
 * belongs to a resize (target_opening_fit.c).
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "export_format.h"
#include "target_opening.h"
#include "target_say.h"
#include "ui.h"
#include "weft_volume_core.h"

/** It belongs to the file, not to its octets: it outlives a cut, and ends with the file. */
static const char attribute[] = "user.weft.volume";

/** Read the UUID of the attribute. False: there is none. */
static bool
found_note(int fd, char uuid[37])
{
	ssize_t n = fgetxattr(fd, attribute, uuid, 36);

	uuid[n < 0 ? 0 : n] = '\0';
	if (strspn(uuid, "0123456789abcdef-") == 36)
		return true;
	/* Others may write it, too: only what this program would write is shown. One that cannot be
	 * read may be there. */
	snprintf(uuid, 37, "%s",
	         n == -1 && (errno == ENODATA || errno == EOPNOTSUPP) ? "" : "of an unknown UUID");
	return uuid[0] != '\0';
}

void
opening_volume_note(const struct conf_export *conf, const uint8_t uuid[16])
{
	const int fd = open(conf->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char has[37], text[37];
	struct stat st;

	if (fd < 0)
		return;
	expfmt_uuid_str(uuid, text);
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    !(found_note(fd, has) && strcmp(has, text) == 0)) {
		if (fsetxattr(fd, attribute, text, strlen(text), 0) == 0)
			(void)fsync(fd);
		else if (errno != EOPNOTSUPP && errno != EROFS)
			target_log(
			        UI_WARNING
			        "export %s: its file cannot have the attribute %s (%s): if it is "
			        "emptied, it will be taken for a new one",
			        conf->name, attribute, strerror(errno));
	}
	close(fd);
}

/** One copy of the superblock; what is behind the end of the file is not there. Returns the octets
 * that were read; -1: none could be. */
static ssize_t
found_copy(int fd, unsigned int i, struct weft_vol_copies *c)
{
	uint8_t page[WEFT_VOL_SUPER_BYTES];
	const ssize_t n = pread(fd, page, sizeof(page), (off_t)i * WEFT_VOL_COPY_AT);

	c->why[i] = "its superblock cannot be read";
	c->status[i] = n < 0    ? -errno
	               : n == 0 ? -ENODATA
	                        : weft_vol_super_decode(page, (size_t)n, &c->super[i], &c->why[i]);
	return n;
}

void
opening_volume_find(const struct conf_export *conf, struct opening_found *f)
{
	struct weft_vol_copies c;
	const char *why;
	struct stat st;
	bool mend;
	int fd, best, ro = 0;

	*f = (struct opening_found){.status = -ENODATA};
	if (conf->path[0] == '\0')
		return;
	fd = open(conf->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	f->there = fd >= 0 || errno != ENOENT;
	if (fd < 0) {
		f->status = -errno;
		return;
	}
	if (fstat(fd, &st) != 0) {
		f->status = -errno;
		close(fd);
		return;
	}
	if (S_ISREG(st.st_mode)) {
		f->is_file = true;
		f->bytes = (uint64_t)st.st_size;
		(void)found_note(fd, f->had_uuid);
		/* An open for writing would be seen by those who watch the file. */
		if (faccessat(AT_FDCWD, conf->path, W_OK, AT_EACCESS) != 0)
			f->no_write = -errno;
	} else if (S_ISBLK(st.st_mode)) {
		f->is_device = true;
		f->ro_device = ioctl(fd, BLKROGET, &ro) == 0 && ro != 0;
	}
	for (unsigned int i = 0; i < 2; i++) {
		const ssize_t n = found_copy(fd, i, &c);

		f->first_bytes = i == 0 ? n : f->first_bytes;
		f->snapshot |= c.status[i] == 0 &&
		               (c.super[i].ro_compat & WEFT_VOL_RO_COMPAT_SNAPSHOT) != 0;
	}
	close(fd);
	best = weft_vol_super_choose(&c, &mend, &why);
	f->status = best < 0 ? best : 0;
	if (best < 0)
		weft_vol_super_refusal(&c, best, why, f->why, sizeof(f->why));
	if (best >= 0)
		f->need_bytes = c.super[best].data_at + c.super[best].bytes;
}

int
opening_volume_reads_only(const struct opening *o, const struct opening_found *f)
{
	if (o->conf->image[0] != '\0')
		return strchr(o->conf->image, '@') != NULL;
	if (f->snapshot || f->ro_device)
		return 1;
	if (f->no_write == 0)
		return 0;
	if ((o->conf->rights & ~(uint32_t)(CONF_RIGHT_READ | CONF_RIGHT_VERIFY)) == 0)
		return 1;
	return opening_fail(o, f->no_write,
	                    "cannot be opened for writing: %s; rights = read,verify serves it",
	                    strerror(-f->no_write));
}

int
opening_was_cut(const struct opening *o, uint64_t need_bytes, uint64_t have_bytes)
{
	return opening_fail(o, -EIO,
	                    "was cut: it needs %" PRIu64 " octets, and has %" PRIu64
	                    "; restore it from a backup, or let what is lost read as zeros "
	                    "(truncate -s %" PRIu64 ")",
	                    need_bytes, have_bytes, need_bytes);
}

/** Refuse a file whose note says that it had a volume: -EIO. */
static int
opening_had(const struct opening *o, const struct opening_found *f)
{
	return opening_fail(
	        o, -EIO,
	        "was cut, emptied or overwritten: it had the volume %s, and has none now; "
	        "not touched; restore it from a backup, or remove it to begin with a new "
	        "volume (or its note alone: setfattr -x %s)",
	        f->had_uuid, attribute);
}

int
opening_volume_fits(const struct opening *o, const struct opening_found *f)
{
	const uint64_t size = o->conf->size_bytes;

	if (f->had_uuid[0] != '\0' &&
	    (f->status == -ENODATA || (f->status == -EBADMSG && f->bytes < WEFT_VOL_SUPER_BYTES)))
		return opening_had(o, f);
	if (f->status == 0 && size != 0 && size < f->need_bytes &&
	    (!f->is_file || f->bytes >= f->need_bytes))
		return opening_fail(o, -EINVAL,
		                    "has a volume that needs %" PRIu64
		                    " octets, and size says %" PRIu64 ": let it say %" PRIu64
		                    ", or leave it out",
		                    f->need_bytes, size, f->need_bytes);
	if (!f->is_file || f->bytes == 0)
		return 0;
	if (f->status == 0 && f->bytes < f->need_bytes)
		return opening_was_cut(o, f->need_bytes, f->bytes);
	if (f->status == -EBADMSG && f->bytes < WEFT_VOL_SUPER_BYTES)
		return opening_fail(o, -EIO,
		                    "was cut: it has %" PRIu64
		                    " octets, which is less than its superblock; restore it from "
		                    "a backup, or remove it to begin with a new volume",
		                    f->bytes);
	if (f->status == -ENODATA && f->bytes < size)
		return opening_fail(o, -EIO,
		                    "has no volume, and %" PRIu64 " octets where size says %" PRIu64
		                    ": if it was cut, restore it from a backup; if it may be "
		                    "formatted, empty it (truncate -s 0)",
		                    f->bytes, size);
	return 0;
}

/** End a look for octets that are not zero. -errno in rc, which is said, is passed on. */
static int
blank_end(const struct opening *o, int fd, int rc)
{
	/* No pages of this look that are read later. */
	if (fd >= 0) {
		(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		close(fd);
	}
	return rc < 0 ? opening_fail(o, rc, "cannot be read: %s", strerror(-rc)) : rc;
}

/** The same of a block device, of which only places are looked at. */
static int
blank_device(const struct opening *o)
{
	const int fd = open(o->conf->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	uint64_t bytes = 0, at = 0;
	int rc = fd < 0 || ioctl(fd, BLKGETSIZE64, &bytes) != 0 ? -errno : 1;

	if (rc == 1)
		rc = opening_places_zero(fd, bytes, 0, 0, &at);
	rc = blank_end(o, fd, rc);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	return opening_fail(o, -EMEDIUMTYPE,
	                    "has no volume, and data at octet %" PRIu64
	                    " or soon behind it; not touched; if it may be formatted, "
	                    "clear it (blkdiscard -z)",
	                    at);
}

int
opening_volume_blank(const struct opening *o, const struct opening_found *f)
{
	int fd, rc;

	if (f->is_device)
		return blank_device(o);
	if (!f->is_file || f->bytes == 0)
		return 0;
	fd = open(o->conf->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	rc = fd < 0 ? -errno : opening_is_zero(fd, 0, f->bytes);
	rc = blank_end(o, fd, rc);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	return opening_fail(o, -EMEDIUMTYPE,
	                    "has no volume, and data that is not zero; not touched; if "
	                    "it may be formatted, empty it (truncate -s 0) or remove "
	                    "it");
}

int
opening_volume_emptied(const struct opening *o, const char *had_path)
{
	struct opening_found f;

	if (had_path[0] == '\0' || strcmp(had_path, o->conf->path) != 0)
		return 0;
	opening_volume_find(o->conf, &f);
	if (!f.is_file || f.status != -ENODATA)
		return 0;
	return opening_fail(o, -EIO,
	                    "was cut or emptied: it had a volume while this target ran, and has "
	                    "none now; restore it from a backup, or remove it to begin with a "
	                    "new volume");
}
