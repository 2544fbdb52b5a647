/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The medium of an export that was made at run time gets the size that its key says. This is
 * a part of the opening, so that a resize that was killed is ended by the next start. Each step
 * leaves a medium that is good, with its old size or its new one.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target_opening.h"
#include "ui.h"
#include "weft_volume_core.h"

/** The size that the medium's superblock says; 0: it has none that is good, so the opening decides.
 * *fixed: it cannot change. *file_bytes: the length of the file. */
static uint64_t
fit_size(const struct conf_export *conf, bool *fixed, uint64_t *file_bytes)
{
	uint8_t page[EXPFMT_PAGE_BYTES] = {0};
	struct weft_vol_super vol;
	struct expfmt_super object;
	const char *why;
	struct stat st;
	uint64_t bytes = 0;
	int fd = open(conf->path, O_RDONLY | O_CLOEXEC);

	_Static_assert(sizeof(page) == WEFT_VOL_SUPER_BYTES, "one page has either superblock");
	*fixed = false;
	*file_bytes = 0;
	if (fd < 0)
		return 0;
	/* A device has the size that it has. */
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    pread(fd, page, sizeof(page), 0) == (ssize_t)sizeof(page)) {
		*file_bytes = (uint64_t)st.st_size;
		if (conf->format == CONF_FORMAT_OBJECT &&
		    expfmt_super_decode(page, &object) == EXPFMT_OK)
			bytes = object.size_bytes;
		if (conf->format == CONF_FORMAT_VOLUME &&
		    weft_vol_super_decode(page, sizeof(page), &vol, &why) == 0) {
			bytes = vol.data_at + vol.bytes;
			*fixed = vol.incompat != 0;
			/* What was formatted into a longer file keeps its length. */
			if (*fixed && (uint64_t)st.st_size >= bytes &&
			    (uint64_t)st.st_size == conf->size_bytes)
				bytes = conf->size_bytes;
		}
	}
	close(fd);
	return bytes;
}

uint64_t
opening_medium_bytes(const struct conf_export *conf)
{
	uint64_t file_bytes;
	bool fixed;

	return conf->path[0] == '\0' || conf->persist == CONF_PERSIST_VOLATILE
	               ? 0
	               : fit_size(conf, &fixed, &file_bytes);
}

/** What is behind the new end is given back. */
static int
fit_cut(const struct opening *o)
{
	struct stat st;
	int fd = open(o->conf->path, O_RDWR | O_CLOEXEC), rc = 0;

	if (fd < 0 || fstat(fd, &st) != 0)
		rc = -errno;
	else if ((uint64_t)st.st_size > o->conf->size_bytes &&
	         (ftruncate(fd, (off_t)o->conf->size_bytes) != 0 || fsync(fd) != 0))
		rc = -errno;
	if (fd >= 0)
		close(fd);
	return rc == 0 ? 0 : opening_fail(o, rc, "cannot be made shorter: %s", strerror(-rc));
}

static int
fit_volume(const struct opening *o)
{
	char reason[256] = "";
	const struct weft_block_attr attr = {
	        .size = sizeof(attr),
	        .driver = o->conf->persist == CONF_PERSIST_PMEM ||
	                                  (o->conf->persist == CONF_PERSIST_AUTO &&
	                                   opening_is_dax(o->conf->path))
	                          ? "pmem"
	                          : "uring",
	        .path = o->conf->path,
	        .bytes = o->conf->size_bytes,
	        .create = true,
	        .channels = 1,
	        .numa_node = o->conf->numa_node,
	        .reason = reason,
	        .reason_bytes = sizeof(reason),
	};
	struct weft_block *b = NULL;
	int rc = weft_block_open(&attr, &b);

	if (rc == 0)
		rc = weft_vol_resize(b, 0, reason, sizeof(reason));
	if (b != NULL)
		(void)weft_block_close(b);
	return rc == 0 ? 0
	               : opening_fail(o, rc, "cannot be resized: %s",
	                              reason[0] != '\0' ? reason : strerror(-rc));
}

/** Make a range of the medium durable. */
static int
fit_flush(struct weft_persist *p, uint64_t off_bytes, uint64_t len_bytes)
{
	weft_persist_mark(p, off_bytes, len_bytes);
	return weft_persist_flush_wait(p, off_bytes, len_bytes);
}

/** The object is in the first slot, which stays where it is, and has room there. */
static int
fit_first_slot(const struct opening *o, struct weft_persist *p, const struct expfmt_super *was,
               const struct expfmt_super *now)
{
	uint8_t *base = p->base;
	struct expfmt_commit word;
	struct expfmt_slot slot;
	const uint8_t *head;
	uint64_t len;
	/* The word of the medium is that of memory then (docs/export-format.md, step 0). */
	int rc = fit_flush(p, EXPFMT_COMMIT_OFF, EXPFMT_PAGE_BYTES);

	expfmt_commit_decode(base + EXPFMT_COMMIT_OFF, &word);
	if (rc != 0 || word.generation == 0)
		return rc;
	head = base + was->slot_off[word.slot];
	if (expfmt_slot_decode(head, was->capacity_bytes, &slot) != EXPFMT_OK)
		return opening_fail(o, -EINVAL,
		                    "the object is damaged; push it again before a resize");
	if (slot.length_bytes > now->capacity_bytes)
		return opening_fail(o, -EFBIG,
		                    "has an object of %" PRIu64
		                    " octets; of this size it has room for %" PRIu64,
		                    slot.length_bytes, now->capacity_bytes);
	if (word.slot == 0)
		return 0;
	/* The same object in the other slot, then the word: either one is good meanwhile. */
	len = EXPFMT_HEADER_BYTES + slot.length_bytes;
	memcpy(base + was->slot_off[0], head, len);
	rc = fit_flush(p, was->slot_off[0], len);
	if (rc != 0)
		return rc;
	word.slot = 0;
	expfmt_commit_encode(&word, base + EXPFMT_COMMIT_OFF);
	return fit_flush(p, EXPFMT_COMMIT_OFF, EXPFMT_PAGE_BYTES);
}

static int
fit_object(const struct opening *o, const struct expfmt_super *was)
{
	const uint64_t most =
	        was->size_bytes > o->conf->size_bytes ? was->size_bytes : o->conf->size_bytes;
	const struct weft_persist_attr attr = {
	        .size = sizeof(attr),
	        .driver = o->conf->persist == CONF_PERSIST_PMEM   ? "pmem"
	                  : o->conf->persist == CONF_PERSIST_FILE ? "file"
	                                                          : "auto",
	        .path = o->conf->path,
	        .bytes = most,
	        .create = true,
	        .numa_node = o->conf->numa_node,
	};
	struct weft_persist *p = NULL;
	struct expfmt_super now, here;
	int rc = expfmt_layout(o->conf->size_bytes, was->uuid, &now);

	if (rc == 0)
		rc = weft_persist_open(&attr, &p);
	/* It is locked now. */
	if (rc == 0 && (expfmt_super_decode(p->base, &here) != EXPFMT_OK ||
	                here.size_bytes != was->size_bytes))
		rc = -EBUSY;
	if (rc == 0)
		rc = fit_first_slot(o, p, was, &now);
	if (rc == 0) {
		/* The second slot is elsewhere now: nothing in it looks like an object. */
		memset((uint8_t *)p->base + now.slot_off[1], 0, EXPFMT_HEADER_BYTES);
		rc = fit_flush(p, now.slot_off[1], EXPFMT_HEADER_BYTES);
	}
	if (rc == 0) {
		expfmt_super_encode(&now, p->base);
		rc = fit_flush(p, 0, EXPFMT_PAGE_BYTES);
	}
	weft_persist_close(p);
	if (rc != 0 && o->err[0] == '\0')
		return opening_fail(o, rc, "cannot be resized: %s", strerror(-rc));
	return rc;
}

int
opening_fit(const struct opening *o)
{
	const struct conf_export *conf = o->conf;
	uint8_t page[EXPFMT_PAGE_BYTES];
	struct expfmt_super was;
	bool fixed;
	uint64_t have, file_bytes;
	int fd, rc;

	if (!conf->of_state || conf->size_bytes == 0 || conf->path[0] == '\0' ||
	    conf->persist == CONF_PERSIST_VOLATILE || conf->format == CONF_FORMAT_LOG)
		return 0;
	have = fit_size(conf, &fixed, &file_bytes);
	if (have == 0 || fixed)
		return 0;
	o->err[0] = '\0';
	if (have == conf->size_bytes)
		return 0;
	/* A resize would bring back as zeros what was cut off. */
	if (file_bytes < have)
		return opening_was_cut(o, have, file_bytes);
	if (conf->format == CONF_FORMAT_VOLUME) {
		rc = fit_volume(o);
	} else {
		fd = open(conf->path, O_RDONLY | O_CLOEXEC);
		rc = fd >= 0 && pread(fd, page, sizeof(page), 0) == (ssize_t)sizeof(page) &&
		                     expfmt_super_decode(page, &was) == EXPFMT_OK
		             ? 0
		             : -EIO;
		if (fd >= 0)
			close(fd);
		rc = rc == 0 ? fit_object(o, &was)
		             : opening_fail(o, rc, "its superblock cannot be read again");
	}
	/* A kill in front of this leaves a file that is longer than it has to be. */
	return rc == 0 ? fit_cut(o) : rc;
}
