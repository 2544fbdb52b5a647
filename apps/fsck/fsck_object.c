/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file An export with slots (docs/export-format.md).
 *
 * A push that was interrupted is no damage: it leaves the slot that the commit word does not name
 * in any state. The word itself has no checksum. It is proven to be damaged when the slot that it
 * names has a whole header of another generation.
 */

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <weft/byteorder.h>

#include "export_format.h"
#include "fsck_priv.h"

#define PAGE_CRC_OFF 4092

/** What a slot holds. */
struct slot {
	struct expfmt_slot h;
	enum expfmt_check head;
	bool unreadable; /**< the header: the medium ends before it, or fails */
	bool whole;      /**< the header is good, and the data has its checksum */
	int rc;          /**< of reading the data */
};

struct object {
	struct expfmt_super super;
	struct expfmt_commit word;
	struct slot slot[2];
};

/* ---- The superblock ---- */

bool
fsck_object_proven(struct fsck *f, const uint8_t *page, uint8_t *right)
{
	/* The size stands in the page, and is the medium's, as a rule. All else follows from it and
	 * from the UUID. */
	const uint64_t sizes[] = {weft_get_be64(page + 16), f->m->bytes};
	struct expfmt_super s;

	for (size_t i = 0; i < 2; i++) {
		if (expfmt_layout(sizes[i], page + 64, &s) != 0)
			continue;
		expfmt_super_encode(&s, right);
		if (memcmp(right + PAGE_CRC_OFF, page + PAGE_CRC_OFF, 4) == 0)
			return true;
	}
	return false;
}

/** 0: f has a superblock to go on with. -EBADMSG: none; it was reported. */
static int
object_super(struct fsck *f, const uint8_t *page, struct expfmt_super *s)
{
	struct fsck_finding w = fsck_at(FSCK_LEFT, 0, FSCK_PAGE);
	enum expfmt_check c = expfmt_super_decode(page, s);
	uint8_t right[FSCK_PAGE];
	int rc;

	if (c == EXPFMT_OK)
		return 0;
	if (c == EXPFMT_BAD_VERSION && !fsck_object_proven(f, page, right))
		return fsck_fail(f, -EPROTONOSUPPORT,
		                 "an export of format version %" PRIu32
		                 "; this program knows version %u",
		                 s->version, EXPFMT_VERSION);
	fsck_text(w.what, "the superblock is damaged: %s", expfmt_check_str(c));
	fsck_text(w.consequence, "weft-target does not open the export");
	if (!fsck_object_proven(f, page, right)) {
		fsck_text(w.todo, "there is no second copy: restore the export from a backup");
		fsck_found(f, &w);
		return -EBADMSG;
	}
	rc = fsck_mend(f, &w, right);
	if (rc != 0)
		return rc;
	(void)expfmt_super_decode(right, s);
	return 0;
}

/* ---- Slots ---- */

static int
object_slot(struct fsck *f, const struct expfmt_super *s, unsigned int i, struct slot *slot)
{
	uint8_t page[EXPFMT_HEADER_BYTES];
	uint32_t crc = 0;
	int rc = fsck_read(f, s->slot_off[i], page, sizeof(page));

	*slot = (struct slot){.unreadable = rc != 0, .head = EXPFMT_BAD_CRC, .rc = rc};
	if (rc != 0)
		return 0;
	slot->head = expfmt_slot_decode(page, s->capacity_bytes, &slot->h);
	if (slot->head != EXPFMT_OK)
		return 0;
	slot->rc = fsck_crc(f, s->slot_off[i] + EXPFMT_HEADER_BYTES, slot->h.length_bytes, &crc);
	slot->whole = slot->rc == 0 && crc == weft_get_be32(slot->h.data_crc);
	return 0;
}

static const char *
slot_str(const struct slot *s)
{
	if (s->unreadable)
		return "its header cannot be read";
	if (s->head == EXPFMT_ZERO)
		return "it is empty";
	if (s->head != EXPFMT_OK)
		return "its header is not whole";
	if (s->rc != 0)
		return "its data cannot be read";
	return s->whole ? "it is whole" : "its data does not have its checksum";
}

/** Write the commit word so that it names slot i. */
static int
object_name(struct fsck *f, const struct object *o, unsigned int i, struct fsck_finding *w)
{
	const struct expfmt_commit word = {.generation = o->slot[i].h.generation, .slot = i};
	uint8_t octets[EXPFMT_COMMIT_BYTES];

	expfmt_commit_encode(&word, octets);
	w->off_bytes = EXPFMT_COMMIT_OFF;
	w->len_bytes = EXPFMT_COMMIT_BYTES;
	return fsck_mend(f, w, octets);
}

/**
 * The slot that the word must have named: the newer one of two with whole headers that follow each
 * other. If its push was not committed, it was whole all the same, and may become the object as
 * after a crash. -1: this cannot be told.
 */
static int
object_must_be(const struct object *o)
{
	const struct slot *s = o->slot;
	unsigned int newer;

	if (s[0].head == EXPFMT_OK && s[1].head == EXPFMT_ZERO)
		return s[0].whole && s[0].h.generation == 1 ? 0 : -1;
	if (s[0].head != EXPFMT_OK || s[1].head != EXPFMT_OK)
		return -1;
	newer = s[1].h.generation > s[0].h.generation;
	if (s[newer].h.generation - s[1 - newer].h.generation != 1 || !s[newer].whole)
		return -1;
	return (int)newer;
}

/** The word names no object that is there. */
static int
object_bad_word(struct fsck *f, const struct object *o)
{
	struct fsck_finding w = fsck_at(FSCK_LEFT, EXPFMT_COMMIT_OFF, EXPFMT_COMMIT_BYTES);
	int i = object_must_be(o);

	fsck_text(w.what,
	          "the commit word is damaged: it names generation %" PRIu64
	          " in slot %u; slot 0 has generation %" PRIu64 " and slot 1 %" PRIu64,
	          o->word.generation, o->word.slot, o->slot[0].h.generation,
	          o->slot[1].h.generation);
	fsck_text(w.consequence, "readers report the export as damaged");
	if (i >= 0)
		return object_name(f, o, (unsigned int)i, &w);
	fsck_text(w.todo, "restore the object from a backup, or push it again");
	fsck_found(f, &w);
	return 0;
}

/** The word names a slot that is not whole. */
static int
object_bad_slot(struct fsck *f, const struct object *o)
{
	const unsigned int named = o->word.slot, other = 1 - named;
	const struct slot *s = &o->slot[named], *before = &o->slot[other];
	const bool header = s->head != EXPFMT_OK;
	struct fsck_finding w =
	        fsck_at(FSCK_LEFT, o->super.slot_off[named] + (header ? 0 : EXPFMT_HEADER_BYTES),
	                header ? EXPFMT_HEADER_BYTES : s->h.length_bytes);

	fsck_text(w.what, "slot %u, which holds the object of generation %" PRIu64 ": %s", named,
	          o->word.generation, slot_str(s));
	fsck_text(w.consequence, "the object cannot be read; a push makes a new one");
	/* A whole push behind it, which was not committed, takes its place as after a crash. */
	if (before->whole && before->h.generation == o->word.generation + 1) {
		fsck_text(w.consequence,
		          "the object cannot be read; the next one, generation %" PRIu64
		          " in slot %u, is whole and was not committed yet",
		          before->h.generation, other);
		return object_name(f, o, other, &w);
	}
	if (!before->whole || before->h.generation + 1 != o->word.generation) {
		fsck_text(w.todo, "push the object again");
		fsck_found(f, &w);
		return 0;
	}
	if (f->o->previous) {
		fsck_text(w.consequence,
		          "the object of generation %" PRIu64
		          " is lost; the export goes back to generation %" PRIu64,
		          o->word.generation, before->h.generation);
		return object_name(f, o, other, &w);
	}
	fsck_text(w.todo,
	          "push the object again, or go back to the one before it, generation %" PRIu64
	          " in slot %u, which is whole: --repair --previous",
	          before->h.generation, other);
	fsck_found(f, &w);
	return 0;
}

/** The slot that the word does not name. */
static void
object_other(struct fsck *f, const struct object *o)
{
	const unsigned int other = o->word.generation == 0 ? 0 : 1 - o->word.slot;
	const struct slot *s = &o->slot[other];
	struct fsck_finding w = fsck_at(FSCK_NOTE, o->super.slot_off[other], EXPFMT_HEADER_BYTES);

	if (s->unreadable || s->head == EXPFMT_ZERO ||
	    (s->whole && s->h.generation < o->word.generation))
		return;
	fsck_text(w.what, "slot %u, which is free: a push was interrupted; %s", other, slot_str(s));
	fsck_text(w.consequence, "none: the next push writes over it");
	fsck_found(f, &w);
}

/** The word says that there never was an object. */
static int
object_never(struct fsck *f, const struct object *o)
{
	struct fsck_finding w = fsck_at(FSCK_LEFT, EXPFMT_COMMIT_OFF, EXPFMT_COMMIT_BYTES);
	const uint64_t most = o->slot[0].h.generation > o->slot[1].h.generation
	                              ? o->slot[0].h.generation
	                              : o->slot[1].h.generation;
	int i = object_must_be(o);

	/* A first push that was interrupted leaves generation 1 in slot 0. */
	if (most > 1) {
		fsck_text(w.what,
		          "the commit word is damaged: it says that there never was an object, and "
		          "a slot has generation %" PRIu64,
		          most);
		fsck_text(w.consequence, "readers find no object; a push starts anew");
		if (i >= 0)
			return object_name(f, o, (unsigned int)i, &w);
		fsck_text(w.todo, "restore the object from a backup, or push it again");
		fsck_found(f, &w);
	} else if (o->word.slot != 0) {
		fsck_text(w.what, "the commit word is damaged: generation 0 names slot 1");
		fsck_text(w.consequence, "none: readers find no object, which is right");
		return fsck_mend(f, &w, NULL);
	} else {
		object_other(f, o);
	}
	return 0;
}

int
fsck_object(struct fsck *f, const uint8_t *page)
{
	uint8_t word[EXPFMT_COMMIT_BYTES];
	struct object o = {0};
	const struct slot *named;
	int rc = object_super(f, page, &o.super);

	if (rc == -EBADMSG)
		return 0;
	if (rc != 0)
		return rc;
	fsck_text(f->r->about, "an export of an object, %" PRIu64 " octets", o.super.size_bytes);
	(void)fsck_cut(f, o.super.size_bytes);
	rc = fsck_read(f, EXPFMT_COMMIT_OFF, word, sizeof(word));
	if (rc == -ENXIO)
		return 0;
	if (rc != 0)
		return fsck_fail(f, rc, "the commit word cannot be read: %s", strerror(-rc));
	expfmt_commit_decode(word, &o.word);
	for (unsigned int i = 0; i < 2 && rc == 0; i++)
		rc = object_slot(f, &o.super, i, &o.slot[i]);
	if (rc != 0)
		return rc;
	named = &o.slot[o.word.slot];
	if (o.word.generation == 0)
		rc = object_never(f, &o);
	else if (named->head == EXPFMT_OK && named->h.generation != o.word.generation)
		rc = object_bad_word(f, &o);
	else if (!named->whole)
		rc = object_bad_slot(f, &o);
	else
		object_other(f, &o);
	return rc;
}
