/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Opening and closing an export. A file is never opened twice. */

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target_opening.h"
#include "target_say.h"
#include "target_volume.h"
#include "ui.h"

static const char *const persist_driver[] = {
        [CONF_PERSIST_AUTO] = "auto",
        [CONF_PERSIST_PMEM] = "pmem",
        [CONF_PERSIST_FILE] = "file",
        [CONF_PERSIST_VOLATILE] = "volatile",
};

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

	rc = opening_has_memory(o, &taken);
	if (rc != 0)
		return rc;
	rc = weft_persist_open(&attr, &ex->persist);
	switch (rc) {
	case 0:
		break;
	case -EBUSY:
		return opening_fail(o, rc, "is in use by another export or process");
	case -ENOTSUP:
		return opening_fail(
		        o, rc,
		        "driver %s cannot make this medium durable; use persist = auto or file",
		        attr.driver);
	case -ENOSPC:
		return opening_fail(o, rc, "no space for %s there",
		                    ui_bytes(o->bytes, b1, sizeof(b1)));
	case -ENOMEM:
		return opening_fail(o, rc, "not enough memory for %s",
		                    ui_bytes(o->bytes, b1, sizeof(b1)));
	default:
		return opening_fail(o, rc, "cannot be opened by driver %s: %s", attr.driver,
		                    strerror(-rc));
	}
	if (attr.numa_node >= 0 && ex->persist->numa_node >= 0 &&
	    ex->persist->numa_node != attr.numa_node)
		target_log(UI_WARNING "export %s: its memory lies on NUMA node %d, not on %d",
		           o->conf->name, ex->persist->numa_node, attr.numa_node);
	return 0;
}

/** Read the key of the export's hash; 0 octets when it has none. */
static int
export_key(const struct opening *o, struct key_file *key)
{
	char why[CONF_ERR_MAX];
	int rc;

	memset(key, 0, sizeof(*key));
	if (o->conf->hash_key_file[0] == '\0')
		return 0;
	rc = key_file_read(o->conf->hash_key_file, key, why, sizeof(why));
	if (rc != 0)
		snprintf(o->err, o->err_size, "export %s: hash_key_file %s: %s", o->conf->name,
		         o->conf->hash_key_file, why);
	return rc;
}

int
target_export_check(const struct conf_export *conf, uint64_t *taken_bytes, char *err,
                    size_t err_size)
{
	struct opening o = {
	        .conf = conf, .err = err, .err_size = err_size, .bytes = conf->size_bytes};
	char dir[CONF_PATH_MAX];
	struct key_file key;
	int fd, rc;

	rc = export_key(&o, &key);
	explicit_bzero(&key, sizeof(key));
	if (rc != 0)
		return rc;
	if (conf->format == CONF_FORMAT_VOLUME)
		return target_volume_check(conf, err, err_size);
	if (conf->persist == CONF_PERSIST_VOLATILE)
		return opening_has_memory(&o, taken_bytes);
	fd = open(conf->path, O_RDWR | O_CLOEXEC);
	if (fd >= 0) {
		rc = opening_inspect(&o, fd);
		if (rc == 0)
			rc = opening_fits(&o, fd, taken_bytes);
		close(fd);
		return rc;
	}
	if (errno != ENOENT)
		return opening_fail(&o, -errno, "cannot be opened for writing: %s",
		                    strerror(errno));
	if (conf->size_bytes == 0)
		return opening_fail(&o, -ENOENT, "does not exist; add size, and it will be made");
	if (conf->size_bytes < EXPFMT_MIN_BYTES)
		return opening_fail(&o, -EINVAL, "is too small for an export (%u octets at least)",
		                    EXPFMT_MIN_BYTES);
	rc = opening_check_folder(&o);
	if (rc != 0)
		return rc;
	snprintf(dir, sizeof(dir), "%s", conf->path);
	fd = open(dirname(dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rc = opening_fits(&o, fd, taken_bytes);
	if (fd >= 0)
		close(fd);
	return rc;
}

int
target_export_in_use(const struct conf_export *conf, char *err, size_t err_size)
{
	const struct opening o = {.conf = conf, .err = err, .err_size = err_size};

	return opening_fail(&o, -EBUSY, "is in use by another export or process");
}

void
target_export_opened(struct target_export *ex)
{
	atomic_store_explicit(&ex->rights, ex->conf->rights, memory_order_relaxed);
	atomic_store_explicit(&ex->up, true, memory_order_release);
	if (ex->volume != NULL)
		target_volume_report(ex);
}

void
target_export_blank(struct target_export *ex, const struct conf_export *conf)
{
	memset(ex, 0, sizeof(*ex));
	ex->conf = conf;
	ex->file_fd = ex->file_wd = -1;
	pthread_mutex_init(&ex->lock, NULL);
}

/** What an opening of any export begins with. */
static int
export_begin(struct opening *o, struct target_export *ex)
{
	int rc;

	target_export_blank(ex, o->conf);
	rc = export_key(o, &ex->hash_key);
	if (rc != 0)
		return rc;
	rc = opening_fit(o);
	if (rc != 0)
		target_export_release(ex);
	return rc;
}

int
target_export_open_ahead(struct target_export *ex, const struct conf_export *conf, char *err,
                         size_t err_size)
{
	struct opening o = {
	        .conf = conf, .err = err, .err_size = err_size, .bytes = conf->size_bytes};
	const int rc = export_begin(&o, ex);

	return rc != 0 ? rc : target_volume_open(ex, conf, err, err_size);
}

int
target_export_open(struct target_export *ex, const struct conf_export *conf, int numa_node,
                   char *err, size_t err_size)
{
	struct opening o = {
	        .conf = conf, .err = err, .err_size = err_size, .bytes = conf->size_bytes};
	bool in_file = conf->persist != CONF_PERSIST_VOLATILE;
	int rc, fd;

	if (conf->format == CONF_FORMAT_VOLUME) {
		rc = target_export_open_ahead(ex, conf, err, err_size);
		if (rc == 0)
			target_export_opened(ex);
		return rc;
	}
	rc = export_begin(&o, ex);
	if (rc != 0)
		return rc;
	o.is_new = !in_file;
	if (in_file) {
		fd = opening_file(&o);
		if (fd < 0) {
			target_export_release(ex);
			return fd;
		}
		rc = opening_inspect(&o, fd);
		close(fd);
	}
	if (rc == 0)
		rc = export_map(&o, ex, numa_node);
	/* Only now is the medium locked: another process may have changed it since the
	 * inspection. */
	if (rc == 0)
		rc = conf->format == CONF_FORMAT_LOG ? opening_log_check(&o, ex)
		                                     : opening_object_check(&o, ex);
	if (rc == 0 && (conf->rights & CONF_RIGHT_FLUSH) && !ex->persist->ops->persistent)
		rc = opening_fail(&o, -ENOTSUP,
		                  "driver %s cannot promise flush; leave it out of rights",
		                  ex->persist->ops->name);
	if (rc != 0) {
		target_export_release(ex);
		if (o.created)
			unlink(conf->path);
		return rc;
	}
	if (o.created)
		opening_sync_directory(conf->path);
	ex->created = o.created;
	target_export_opened(ex);
	(conf->format == CONF_FORMAT_LOG ? opening_log_report : opening_object_report)(&o, ex);
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
	target_volume_close(ex);
	explicit_bzero(&ex->hash_key, sizeof(ex->hash_key));
}

void
target_export_close(struct target_export *ex)
{
	target_export_release(ex);
	pthread_mutex_destroy(&ex->lock);
}
