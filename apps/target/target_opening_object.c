/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The file of an export that holds an object (docs/export-format.md). Foreign content is
 * never overwritten. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "target_opening.h"
#include "target_say.h"
#include "ui.h"

int
opening_object_inspect(struct opening *o, int fd, uint64_t have)
{
	uint8_t page[EXPFMT_PAGE_BYTES] = {0};
	char b1[32], b2[32];
	struct expfmt_super super;
	uint64_t taken = 0;
	enum expfmt_check c;
	int rc;

	if (pread(fd, page, sizeof(page), 0) < 0)
		return opening_fail(o, -errno, "cannot be read: %s", strerror(errno));
	c = expfmt_super_decode(page, &super);
	switch (c) {
	case EXPFMT_OK:
		if (o->conf->size_bytes != 0 && o->conf->size_bytes != super.size_bytes)
			return opening_fail(
			        o, -EINVAL,
			        "is an export of %" PRIu64 " octets (%s), but size says %" PRIu64
			        " (%s); correct size, or leave it out",
			        super.size_bytes, ui_bytes(super.size_bytes, b1, sizeof(b1)),
			        o->conf->size_bytes, ui_bytes(o->conf->size_bytes, b2, sizeof(b2)));
		if (have < super.size_bytes)
			return opening_fail(o, -EINVAL,
			                    "is an export of %" PRIu64
			                    " octets, but the file was cut to %" PRIu64
			                    "; not touched",
			                    super.size_bytes, have);
		o->bytes = super.size_bytes;
		return 0;
	case EXPFMT_ZERO:
		o->bytes = o->conf->size_bytes != 0 ? o->conf->size_bytes : have;
		/* Before all of it is read. */
		rc = opening_has_memory(o, &taken);
		if (rc != 0)
			return rc;
		rc = opening_is_blank(o, fd, 0, have);
		if (rc < 0)
			return opening_fail(o, rc, "cannot be read: %s", strerror(-rc));
		if (rc == 0)
			return opening_fail(
			        o, -EINVAL,
			        "holds something that is not a weft export; not touched "
			        "(name another path, or remove the file)");
		if (o->bytes < EXPFMT_MIN_BYTES)
			return opening_fail(o, -EINVAL,
			                    have == 0 ? "is new, so its size is needed; add size"
			                              : "is too small for an export (%u octets at "
			                                "least); add size",
			                    EXPFMT_MIN_BYTES);
		o->is_new = true;
		return 0;
	case EXPFMT_BAD_VERSION:
		return opening_fail(o, -EINVAL,
		                    "is an export of format version %" PRIu32
		                    ", this program knows %u; not touched",
		                    super.version, EXPFMT_VERSION);
	case EXPFMT_BAD_MAGIC:
		return opening_fail(o, -EINVAL,
		                    "is not a weft export (wrong magic); not touched "
		                    "(name another path, or remove the file)");
	case EXPFMT_BAD_CRC:
	case EXPFMT_BAD_FIELD:
	default:
		return opening_fail(o, -EINVAL, "its superblock is damaged (%s); not touched",
		                    expfmt_check_str(c));
	}
}

static int
object_format(const struct opening *o, struct target_export *ex)
{
	uint8_t uuid[16];
	int rc = expfmt_uuid(uuid);

	if (rc == 0)
		rc = expfmt_layout(o->bytes, uuid, &ex->super);
	if (rc != 0)
		return opening_fail(o, rc, "cannot be formatted: %s", strerror(-rc));
	/* Commit word and slots are zero already, which is generation 0, empty. Only the
	 * superblock is written. */
	expfmt_super_encode(&ex->super, ex->persist->base);
	if (!ex->persist->ops->persistent)
		return 0;
	weft_persist_mark(ex->persist, 0, EXPFMT_PAGE_BYTES);
	rc = weft_persist_flush_wait(ex->persist, 0, EXPFMT_PAGE_BYTES);
	if (rc != 0)
		return opening_fail(o, rc, "cannot be formatted: writing the superblock: %s",
		                    strerror(-rc));
	return 0;
}

int
opening_object_check(const struct opening *o, struct target_export *ex)
{
	enum expfmt_check c = expfmt_super_decode(ex->persist->base, &ex->super);

	if (c != (o->is_new ? EXPFMT_ZERO : EXPFMT_OK))
		return opening_fail(o, -EBUSY,
		                    "was changed by another process meanwhile; not touched");
	return o->is_new ? object_format(o, ex) : 0;
}

/* Log what the export holds. A damaged object does not prevent service: readers detect the
 * damage, and the next push replaces the object. */
void
opening_object_report(const struct opening *o, const struct target_export *ex)
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
	           target_place(o->conf), ex->persist->mechanism,
	           ui_bytes(ex->super.capacity_bytes, b1, sizeof(b1)),
	           target_rights_str(o->conf->rights, rights, sizeof(rights)), state);
}
