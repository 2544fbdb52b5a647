/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The file of an export that holds a remote log. The log's writer formats it and judges its
 * content; the target only refuses a file of another kind. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "target_opening.h"
#include "target_say.h"
#include "ui.h"
#include <weft/log.h>

/** 1: the file of `have` octets holds no log: it has no magic, and its ring is zero. 0: it may;
 * -errno. */
static int
is_blank(const struct opening *o, int fd, uint64_t have)
{
	uint8_t zero[8] = {0}, magic[8] = {0};

	/* A writer that died while it formatted leaves a superblock without magic. The ring was
	 * empty then. */
	if (pread(fd, magic, sizeof(magic), 0) < 0)
		return -errno;
	return memcmp(magic, zero, sizeof(zero)) == 0
	               ? opening_is_blank(o, fd, WEFT_LOG_RING_OFF, have)
	               : 0;
}

int
opening_log_inspect(struct opening *o, int fd, uint64_t have)
{
	uint8_t page[EXPFMT_PAGE_BYTES] = {0};
	struct weft_log_super super = {.size = sizeof(super)};
	struct expfmt_super object;
	uint64_t taken = 0;
	int rc;

	o->bytes = o->conf->size_bytes != 0 ? o->conf->size_bytes : have;
	if (o->bytes < WEFT_LOG_MIN_BYTES)
		return opening_fail(o, -EINVAL,
		                    have == 0 ? "is new, so its size is needed; add size"
		                              : "is too small for a log (%u octets at "
		                                "least); add size",
		                    WEFT_LOG_MIN_BYTES);
	if (pread(fd, page, sizeof(page), 0) < 0)
		return opening_fail(o, -errno, "cannot be read: %s", strerror(errno));
	rc = weft_log_super_decode(page, o->bytes, &super);
	switch (rc) {
	case 0:
		if (WEFT_LOG_RING_OFF + super.ring_bytes <= have)
			return 0;
		return opening_fail(o, -EINVAL,
		                    "is a log of %" PRIu64
		                    " octets, but the file was cut to %" PRIu64 "; not touched",
		                    WEFT_LOG_RING_OFF + super.ring_bytes, have);
	case -ENODATA:
		/* Before all of it is read. */
		rc = opening_has_memory(o, &taken);
		if (rc != 0)
			return rc;
		rc = is_blank(o, fd, have);
		if (rc < 0)
			return opening_fail(o, rc, "cannot be read: %s", strerror(-rc));
		o->is_new = rc > 0;
		if (rc > 0)
			return 0;
		return opening_fail(o, -EINVAL,
		                    "holds something that is not a log; not touched (name another "
		                    "path, or remove the file)");
	case -EPROTONOSUPPORT:
		return opening_fail(o, -EINVAL,
		                    "is a log of a version that this program does not know; not "
		                    "touched");
	case -EMEDIUMTYPE:
		return opening_fail(o, -EINVAL,
		                    expfmt_super_decode(page, &object) == EXPFMT_OK
		                            ? "holds an object, not a log (format); not touched"
		                            : "is not a log (wrong magic); not touched (name "
		                              "another path, or remove the file)");
	default:
		return opening_fail(o, -EINVAL,
		                    "its superblock is damaged, or is that of a log larger than "
		                    "%" PRIu64 " octets (size); not touched",
		                    o->bytes);
	}
}

int
opening_log_check(const struct opening *o, const struct target_export *ex)
{
	struct weft_log_super super = {.size = sizeof(super)};
	int rc = weft_log_super_decode(ex->persist->base, ex->persist->bytes, &super);

	if (rc != (o->is_new ? -ENODATA : 0))
		return opening_fail(o, -EBUSY,
		                    "was changed by another process meanwhile; not touched");
	return 0;
}

void
opening_log_report(const struct opening *o, const struct target_export *ex)
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
