/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file One target's memory of a log (docs/log-format.md): its superblock and its words.
 *
 * A log mends itself from its other targets when it is opened. What this program could change here
 * without a proof (a tail, a head, a card) would be counted by the next open, so it changes only
 * what the format determines.
 */

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <weft/byteorder.h>

#include "fsck_log.h"

#define PAGE_CRC_OFF 4092

/* ---- The superblock ---- */

static int
log_words(struct fsck *f, uint64_t words[3], uint64_t *grant)
{
	const uint32_t off[] = {WEFT_LOG_CARD_OFF, WEFT_LOG_TAIL_OFF, WEFT_LOG_HEAD_OFF,
	                        WEFT_LOG_GRANT_OFF};
	uint8_t octets[8];

	for (size_t i = 0; i < 4; i++) {
		int rc = fsck_read(f, off[i], octets, sizeof(octets));

		if (rc != 0)
			return rc;
		*(i < 3 ? &words[i] : grant) = weft_get_be64(octets);
	}
	return 0;
}

/**
 * Whether card and tail have right checks for these ids: 32 bits that a wrong id does not match.
 */
static bool
log_ids_proven(struct fsck *f, const struct weft_log_super *s)
{
	uint64_t words[3], grant, off, unfenced;
	uint8_t octets[WEFT_LOG_HEADER_BYTES];
	struct log_card card;
	struct log_geom g;
	struct log_hdr h;

	log_geom_of(s, &g);
	return s->version == WEFT_LOG_VERSION && log_words(f, words, &grant) == 0 &&
	       log_card_decode(s->log_id, s->target_id, s->targets, words[0], &card) == 0 &&
	       card.life != 0 && log_place_look(words[1], s->ring_bytes, &off) == LOG_PLACE_AT &&
	       fsck_read(f, WEFT_LOG_RING_OFF + off, octets, sizeof(octets)) == 0 &&
	       log_hdr_decode_at(&g, off, octets, &h) == 0 &&
	       log_place_check(s->log_id, s->target_id, WEFT_LOG_TAIL_OFF, card.epoch, words[1],
	                       h.position, &unfenced) == 0;
}

/** One candidate for the superblock. */
static bool
log_super_is(struct fsck *f, const uint8_t *page, const struct weft_log_super *s, uint8_t *right)
{
	if (log_super_encode(WEFT_LOG_RING_OFF + s->ring_bytes, s, right) != 0)
		return false;
	if (memcmp(right + PAGE_CRC_OFF, page + PAGE_CRC_OFF, 4) == 0)
		return true;
	/* Only the CRC differs: the words have checks over both ids. */
	return memcmp(right, page, PAGE_CRC_OFF) == 0 && log_ids_proven(f, s);
}

bool
fsck_log_proven(struct fsck *f, const uint8_t *page, uint8_t *right)
{
	const uint64_t rings[] = {weft_get_be64(page + 32),
	                          weft_get_be64(page + 16) - WEFT_LOG_RING_OFF,
	                          (f->m->bytes - WEFT_LOG_RING_OFF) / 64 * 64};
	struct weft_log_super s = {.size = sizeof(s),
	                           .version = weft_get_be32(page + 8),
	                           .targets = weft_get_be32(page + 40),
	                           .quorum = weft_get_be32(page + 44)};
	const struct weft_log_super as_is = s;

	if (f->m->bytes < WEFT_LOG_MIN_BYTES)
		return false;
	memcpy(s.log_id, page + 48, sizeof(s.log_id));
	memcpy(s.target_id, page + 64, sizeof(s.target_id));
	for (size_t i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
		s.ring_bytes = rings[i];
		if (s.ring_bytes > UINT64_MAX - WEFT_LOG_RING_OFF)
			continue;
		s.version = as_is.version;
		s.targets = as_is.targets;
		s.quorum = as_is.quorum;
		if (s.version != 0 && s.targets != 0 && s.quorum != 0 &&
		    log_super_is(f, page, &s, right))
			return true;
		for (unsigned int k = 0; k < WEFT_LOG_VERSION * 64; k++) {
			s.version = 1 + k / 64;
			s.targets = 1 + k / 8 % 8;
			s.quorum = 1 + k % 8;
			if (log_super_is(f, page, &s, right))
				return true;
		}
	}
	return false;
}

/** -EBADMSG: no superblock; it was reported. -ENODATA: a format that did not end; likewise. */
static int
log_super(struct fsck *f, const uint8_t *page, struct weft_log_super *s)
{
	struct fsck_finding w = fsck_at(FSCK_LEFT, 0, WEFT_LOG_SUPER_BYTES);
	uint64_t words[3] = {0}, grant = 0;
	uint8_t right[WEFT_LOG_SUPER_BYTES];
	bool proven, used;
	int rc;

	s->size = sizeof(*s);
	/* Of a medium that was cut the superblock is still good. */
	rc = weft_log_super_decode(page, UINT64_MAX, s);
	if (rc == 0)
		return 0;
	proven = fsck_log_proven(f, page, right);
	if (rc == -EPROTONOSUPPORT && !proven)
		return fsck_fail(f, rc, "a log of a version that this program does not know");
	used = log_words(f, words, &grant) != 0 || (words[0] | words[1] | words[2] | grant) != 0;
	if (rc == -ENODATA && !used) {
		w.state = FSCK_NOTE;
		fsck_text(w.what, "the log was never formatted, or not completely");
		fsck_text(w.consequence, "none: the log's writer formats it");
		fsck_found(f, &w);
		return rc;
	}
	fsck_text(w.what, "the superblock is damaged: %s",
	          rc == -ENODATA       ? "its magic is zero, and its words are not"
	          : rc == -EMEDIUMTYPE ? "wrong magic"
	                               : "its CRC or its fields are wrong");
	fsck_text(w.consequence, "weft-target does not open the export");
	if (proven) {
		rc = fsck_mend(f, &w, right);
		if (rc == 0)
			rc = weft_log_super_decode(right, UINT64_MAX, s);
		return rc;
	}
	fsck_text(w.todo,
	          "remove the file: the log's other targets give a new one its records; of a "
	          "log with one target, restore it from a backup");
	fsck_found(f, &w);
	return -EBADMSG;
}

/* ---- The words ---- */

/** The page of the words has nothing else. */
static int
log_words_rest(struct fsck *f)
{
	const uint32_t words[] = {WEFT_LOG_CARD_OFF, WEFT_LOG_TAIL_OFF, WEFT_LOG_HEAD_OFF,
	                          WEFT_LOG_GRANT_OFF, WEFT_LOG_RING_OFF};
	int rc = 0;

	for (size_t i = 0; i + 1 < sizeof(words) / sizeof(words[0]) && rc == 0; i++)
		rc = fsck_zero_range(f, words[i] + 8, words[i + 1], "between the words");
	return rc;
}

/** The grant word only tells one join from the next one: the next writes it anew. */
static int
log_grant(struct fsck *f, const struct weft_log_super *s, uint64_t grant)
{
	struct fsck_finding w = fsck_at(FSCK_CAN_MEND, WEFT_LOG_GRANT_OFF, 8);

	if (grant == 0 || grant == log_grant_word(s->log_id, s->target_id, (uint32_t)(grant >> 32)))
		return 0;
	fsck_text(w.what, "the grant word is damaged: its check is wrong");
	fsck_text(w.consequence,
	          "none: the next join writes it; zero means that it was never written");
	return fsck_mend(f, &w, NULL);
}

static void
log_bad_word(struct fsck *f, const struct weft_log_super *s, const struct log_verdict *v)
{
	static const struct {
		uint32_t off;
		const char *what;
	} word[] = {
	        [LOG_FAULT_CARD] = {WEFT_LOG_CARD_OFF, "the card: its check is wrong"},
	        [LOG_FAULT_TAIL] =
	                {WEFT_LOG_TAIL_OFF,
	                 "the tail: its check is wrong, or it names no place of the ring"},
	        [LOG_FAULT_TAIL_RECORD] =
	                {WEFT_LOG_TAIL_OFF,
	                 "the tail: there is no record of this log where it points"},
	        [LOG_FAULT_HEAD] = {WEFT_LOG_HEAD_OFF,
	                            "the head: its check is wrong, or it is outside of the log"},
	        [LOG_FAULT_HEAD_RECORD] =
	                {WEFT_LOG_HEAD_OFF,
	                 "the head: there is no record of this log where it points"},
	        [LOG_FAULT_SEAT] = {WEFT_LOG_CARD_OFF,
	                            "the card: the last record does not know this target"},
	        [LOG_FAULT_READ] = {WEFT_LOG_TAIL_OFF,
	                            "the record that the tail or the head names cannot be read"},
	};
	struct fsck_finding w = fsck_at(FSCK_LEFT, word[v->fault].off, 8);

	fsck_text(w.what, "%s", word[v->fault].what);
	if (v->unfenced != 0)
		fsck_text(w.what,
		          "%s: written by a writer of epoch %" PRIu64 " that was not fenced",
		          word[v->fault].what, v->unfenced);
	if (s->targets == 1) {
		fsck_text(w.consequence, "the log cannot be opened");
		fsck_text(w.todo, "restore it from a backup");
	} else {
		fsck_text(w.consequence,
		          "an open of the log does not count this target; then it begins it anew");
		fsck_text(w.todo,
		          "nothing if enough of the other %" PRIu32
		          " targets are healthy: an open log gives this one its records",
		          s->targets - 1);
	}
	fsck_found(f, &w);
}

/** Headers for the judge. */
struct reader {
	struct fsck *f;
	uint8_t header[WEFT_LOG_HEADER_BYTES];
};

static const uint8_t *
reader_header(void *owner, uint64_t off)
{
	struct reader *r = owner;

	return fsck_read(r->f, WEFT_LOG_RING_OFF + off, r->header, sizeof(r->header)) == 0
	               ? r->header
	               : NULL;
}

/** What the target says of itself, when nothing is wrong with it. */
static void
log_note(struct fsck *f, const struct weft_log_image *i, int rc)
{
	struct fsck_finding w = fsck_at(FSCK_NOTE, WEFT_LOG_CARD_OFF, 8);

	if (rc == -ENODATA)
		fsck_text(w.what, "the target has no records: it gave them up, or is being given "
		                  "them");
	else if (i->replaced)
		fsck_text(w.what, "another target has taken the place of this one");
	else
		return;
	fsck_text(w.consequence, "none for the log: its other targets have its records");
	fsck_found(f, &w);
}

int
fsck_log(struct fsck *f, const uint8_t *page)
{
	struct weft_log_image i = {.super = {.size = sizeof(i.super)}};
	struct reader r = {.f = f};
	const struct log_judge from = {.header = reader_header, .owner = &r};
	struct log_verdict v;
	uint64_t words[3], grant;
	int rc = log_super(f, page, &i.super);

	if (rc == -EBADMSG || rc == -ENODATA)
		return 0;
	if (rc != 0)
		return rc;
	fsck_text(f->r->about,
	          "one of %" PRIu32 " targets of a log, version %" PRIu32 ", ring of %" PRIu64
	          " octets",
	          i.super.targets, i.super.version, i.super.ring_bytes);
	(void)fsck_cut(f, WEFT_LOG_RING_OFF + i.super.ring_bytes);
	rc = log_words(f, words, &grant);
	if (rc == -ENXIO)
		return 0;
	if (rc != 0)
		return fsck_fail(f, rc, "the words cannot be read: %s", strerror(-rc));
	rc = log_words_rest(f);
	if (rc == 0)
		rc = log_grant(f, &i.super, grant);
	if (rc != 0)
		return rc;
	rc = log_judge_words(&i, words, &from, &v);
	if (rc == -EBADMSG) {
		log_bad_word(f, &i.super, &v);
		/* The records are still there, in front of a tail whose record is good. */
		if (v.fault == LOG_FAULT_HEAD_RECORD)
			rc = fsck_log_records(f, &i);
		return rc == -EBADMSG ? 0 : rc;
	}
	log_note(f, &i, rc);
	return rc == -ENODATA ? 0 : fsck_log_records(f, &i);
}
