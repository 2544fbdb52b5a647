/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Opening and closing the volume of an export. A device that is new is formatted; foreign
 * content is never overwritten. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "target.h"
#include "target_opening.h"
#include "target_say.h"
#include "target_volume.h"
#include "ui.h"

#define VOLUME_SCRATCH 8 /* pieces of scratch memory of each worker */

/** As many channels as there are workers; set before the first volume is opened. */
static uint32_t volume_channels = 1;

void
target_volume_set_workers(uint32_t n)
{
	volume_channels = n;
}

static const char *
volume_driver(const struct conf_export *conf, bool read_only)
{
	if (conf->image[0] != '\0')
		return "rbd";
	/* A mapping of persistent memory is opened for writing alone. */
	if (read_only)
		return "uring";
	switch ((enum conf_persist)conf->persist) {
	case CONF_PERSIST_VOLATILE:
		return "mem";
	case CONF_PERSIST_PMEM:
		return "pmem";
	case CONF_PERSIST_FILE:
		return "uring";
	case CONF_PERSIST_AUTO:
	default:
		return opening_is_dax(conf->path) ? "pmem" : "uring";
	}
}

/** Open the device. A file that is there keeps its length, but for one that is empty. */
static int
volume_device(struct opening *o, const struct opening_found *f, struct target_volume *v)
{
	const struct conf_export *conf = o->conf;
	const bool keeps = f->is_file && f->bytes != 0;
	char reason[256] = "";
	const struct weft_block_attr attr = {
	        .size = sizeof(attr),
	        .driver = volume_driver(conf, v->read_only),
	        .path = conf->image[0] != '\0'  ? conf->image
	                : conf->path[0] != '\0' ? conf->path
	                                        : NULL,
	        .options = conf->ceph,
	        .bytes = keeps && f->bytes < conf->size_bytes ? 0 : conf->size_bytes,
	        .create = conf->size_bytes != 0 && conf->path[0] != '\0' && !v->read_only &&
	                  (!f->there || (f->is_file && f->bytes == 0)),
	        .read_only = v->read_only,
	        /* One more, for requests that a set-up thread waits for. */
	        .channels = volume_channels + 1,
	        .numa_node = conf->numa_node,
	        .reason = reason,
	        .reason_bytes = sizeof(reason),
	};
	int rc;

	if (conf->path[0] != '\0' && conf->size_bytes == 0 && !f->there)
		return opening_fail(o, -ENOENT, "does not exist; add size, and it will be made");
	rc = opening_volume_fits(o, f);
	if (rc != 0)
		return rc;
	rc = weft_block_open(&attr, &v->block);
	if (rc == -EBUSY)
		return opening_fail(o, rc, "is in use by another export or process");
	if (rc != 0)
		return opening_fail(o, rc, "cannot be opened by driver %s: %s", attr.driver,
		                    reason[0] != '\0' ? reason : strerror(-rc));
	return 0;
}

static int
volume_format(struct opening *o, struct target_volume *v)
{
	struct weft_vol_format f = {.sums = o->conf->checksums};
	char reason[256] = "";
	struct timespec ts;
	int rc = expfmt_uuid(f.uuid);

	clock_gettime(CLOCK_REALTIME, &ts);
	f.created_ns = (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
	if (rc == 0)
		rc = weft_vol_format(v->block, &f, reason, sizeof(reason));
	if (rc != 0)
		return opening_fail(o, rc, "cannot be formatted as a volume: %s%s",
		                    reason[0] != '\0' ? reason : strerror(-rc),
		                    rc == -EMEDIUMTYPE
		                            ? "; not touched; if it may be formatted, clear it "
		                              "(blkdiscard -z)"
		                            : "");
	v->formatted = true;
	return 0;
}

/**
 * The memory of operations that cannot use their own: of parts of blocks, of Verifies, and of each
 * operation of a volume with checksums, for its page of them. Of thousands of volumes few have
 * operations at a time, so a page is taken by the first one that needs it, and the kernel's rings
 * are not told of the memory: telling would populate it. The price is that the kernel looks up the
 * pages of each such operation, which a volume with checksums pays for all of its own.
 */
static int
volume_scratch(struct opening *o, struct target_volume *v, struct weft_vol_attr *a)
{
	void *at;

	v->scratch_bytes = weft_vol_scratch_bytes(a);
	at = mmap(NULL, v->scratch_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
	          0);
	if (at == MAP_FAILED)
		return opening_fail(o, -ENOMEM, "not enough memory for its operations");
	target_memory_sparse(at, v->scratch_bytes);
	a->memory = v->scratch = at;
	return 0;
}

static int
volume_open(struct opening *o, const struct opening_found *f, struct target_volume *v)
{
	char reason[256] = "";
	struct weft_vol_attr a = {
	        .channels = volume_channels,
	        .scratch = VOLUME_SCRATCH,
	        .read_only = v->read_only,
	        .reason = reason,
	        .reason_bytes = sizeof(reason),
	};
	int rc = volume_scratch(o, v, &a);

	if (rc != 0)
		return rc;
	rc = weft_vol_open(v->block, &a, &v->vol);
	if (rc == -ENODATA) {
		/* The core looks at places alone, which is what is done for a device. A file is
		 * locked now. */
		rc = f->is_file ? opening_volume_blank(o, f) : 0;
		if (rc == 0)
			rc = volume_format(o, v);
		if (rc != 0)
			return rc;
		rc = weft_vol_open(v->block, &a, &v->vol);
	}
	if (rc != 0)
		return opening_fail(o, rc, "cannot be opened as a volume: %s",
		                    reason[0] != '\0' ? reason : strerror(-rc));
	return 0;
}

static void
volume_end(struct target_volume *v)
{
	if (v->vol != NULL && weft_vol_close(v->vol) != 0)
		target_log(UI_ERR
		           "a volume could not be closed: its operations are under way still");
	if (v->block != NULL && weft_block_close(v->block) != 0)
		target_log(UI_ERR "a block device could not be closed");
	if (v->scratch != NULL)
		(void)munmap(v->scratch, v->scratch_bytes);
	free(v);
}

int
target_volume_open(struct target_export *ex, const struct conf_export *conf, char *err,
                   size_t err_size)
{
	struct opening o = {.conf = conf, .err = err, .err_size = err_size};
	struct target_volume *v = calloc(1, sizeof(*v));
	struct opening_found found;
	struct weft_block_info info;
	int rc;

	if (v == NULL)
		return opening_fail(&o, -ENOMEM, "out of memory");
	opening_volume_find(conf, &found);
	rc = opening_volume_reads_only(&o, &found);
	v->read_only = rc == 1;
	if (rc >= 0)
		rc = volume_device(&o, &found, v);
	o.created = rc == 0 && conf->path[0] != '\0' && !found.there;
	if (rc == 0) {
		weft_block_query(v->block, &info);
		if ((conf->rights & CONF_RIGHT_FLUSH) && !info.persistent)
			rc = opening_fail(&o, -ENOTSUP,
			                  "driver %s cannot promise flush; leave it out of rights",
			                  info.driver);
	}
	if (rc == 0)
		rc = volume_open(&o, &found, v);
	if (rc == 0 && getrandom(&v->verifier, sizeof(v->verifier), 0) != sizeof(v->verifier))
		rc = opening_fail(&o, -EIO, "no random numbers");
	if (rc == 0 && conf->checksums && !weft_vol_info(v->vol)->sums)
		target_log(UI_WARNING "export %s: it was formatted without checksums, and has none",
		           conf->name);
	if (rc == 0 && found.status == 0 && found.is_file && found.bytes < conf->size_bytes)
		target_log(UI_WARNING "export %s: size says %" PRIu64
		                      ", and its file keeps its %" PRIu64 " octets",
		           conf->name, conf->size_bytes, found.bytes);
	if (rc != 0) {
		volume_end(v);
		if (o.created)
			(void)unlink(conf->path);
		return rc;
	}
	if (o.created)
		opening_sync_directory(conf->path);
	if (!v->read_only && conf->path[0] != '\0')
		opening_volume_note(conf, weft_vol_info(v->vol)->super.uuid);
	ex->created = o.created;
	ex->volume = v;
	snprintf(ex->had_path, sizeof(ex->had_path), "%s", conf->path);
	return 0;
}

int
target_volume_emptied(const struct target_export *ex, const struct conf_export *conf, char *err,
                      size_t err_size)
{
	const struct opening o = {.conf = conf, .err = err, .err_size = err_size};

	return opening_volume_emptied(&o, ex->had_path);
}

int
target_volume_check(const struct conf_export *conf, char *err, size_t err_size)
{
	struct opening o = {.conf = conf, .err = err, .err_size = err_size};
	struct opening_found found;
	int fd, rc;

	/* An image is looked at by its open alone, which locks it. */
	if (conf->persist == CONF_PERSIST_VOLATILE || conf->image[0] != '\0')
		return 0;
	opening_volume_find(conf, &found);
	rc = opening_volume_reads_only(&o, &found);
	if (rc < 0)
		return rc;
	fd = open(conf->path, (rc == 1 ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && conf->size_bytes == 0)
		return opening_fail(&o, -ENOENT, "does not exist; add size, and it will be made");
	if (fd < 0 && errno == ENOENT)
		return opening_check_folder(&o);
	if (fd < 0)
		return opening_fail(&o, -errno, "cannot be opened for writing: %s",
		                    strerror(errno));
	close(fd);
	rc = opening_volume_fits(&o, &found);
	if (rc != 0)
		return rc;
	if (found.first_bytes != (ssize_t)WEFT_VOL_SUPER_BYTES)
		return found.first_bytes < 0 || conf->size_bytes == 0
		               ? opening_fail(&o, -EIO, "is too short for a volume; add size")
		               : 0;
	if (found.status == -ENODATA)
		return opening_volume_blank(&o, &found);
	return found.status == -EMEDIUMTYPE || found.status == -EPROTONOSUPPORT ||
	                       found.status == -EBADMSG
	               ? opening_fail(&o, found.status,
	                              "cannot be opened as a volume: %s; not touched", found.why)
	               : 0;
}

void
target_volume_close(struct target_export *ex)
{
	if (ex->volume != NULL)
		volume_end(ex->volume);
	ex->volume = NULL;
}

uint32_t
target_volume_may(const struct target_export *ex, uint32_t rights)
{
	/* A snapshot, or a medium that is read-only: it is never written, so there is nothing to
	 * flush. */
	if (ex->volume->read_only)
		rights &= ~(uint32_t)(CONF_RIGHT_WRITE | CONF_RIGHT_FLUSH);
	return rights;
}

void
target_volume_report(const struct target_export *ex)
{
	const struct weft_vol_info *i = weft_vol_info(ex->volume->vol);
	struct weft_block_info info;
	const uint32_t may =
	        target_volume_may(ex, atomic_load_explicit(&ex->rights, memory_order_relaxed));
	char b1[32], rights[64];

	weft_block_query(ex->volume->block, &info);
	target_log("export %s: %s, %s, a volume of %s, grants %s; %s%s%s%s", ex->conf->name,
	           target_place(ex->conf), info.mechanism, ui_bytes(i->super.bytes, b1, sizeof(b1)),
	           target_rights_str(may, rights, sizeof(rights)),
	           ex->volume->formatted    ? "new"
	           : !ex->volume->read_only ? "opened"
	           : ex->conf->image[0] != '\0' ||
	                           (i->super.ro_compat & WEFT_VOL_RO_COMPAT_SNAPSHOT) != 0
	                   ? "a snapshot, opened to be read only"
	                   : "opened to be read only",
	           i->sums ? ", with checksums" : "",
	           i->in_doubt ? ", some of them in doubt: it was not closed" : "",
	           i->second_copy ? "; a copy of its superblock was DAMAGED" : "");
}

int
target_volume_look(const struct target_export *ex)
{
	return weft_block_check(ex->volume->block);
}
