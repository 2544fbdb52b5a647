/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The records of a log. A header leads to the next record, and names the one before it: so
 * behind a damaged header the examination goes on where the chain from the tail ends.
 */

#include <errno.h>
#include <inttypes.h>

#include "fsck_log.h"

struct records {
	const struct weft_log_image *i;
	struct log_geom g;
	uint64_t least_epoch;
};

/** Read the header at a position. */
static int
records_header(struct fsck *f, const struct records *r, uint64_t position, struct log_hdr *h)
{
	uint8_t octets[WEFT_LOG_HEADER_BYTES];
	int rc = fsck_read(f, WEFT_LOG_RING_OFF + position % r->g.ring_bytes, octets,
	                   sizeof(octets));

	return rc != 0 ? rc : log_hdr_decode(&r->g, position, octets, h);
}

static void
records_damaged(struct fsck *f, const struct records *r, uint64_t position, uint64_t bytes,
                const char *what)
{
	struct fsck_finding w =
	        fsck_at(FSCK_LEFT, WEFT_LOG_RING_OFF + position % r->g.ring_bytes, bytes);

	fsck_text(w.what, "records from position %" PRIu64 " on: %s", position, what);
	if (r->i->super.targets == 1) {
		fsck_text(w.consequence, "what was in them is lost; reads of them fail");
		fsck_text(w.todo, "restore the log from a backup, or trim it behind them");
	} else {
		fsck_text(w.consequence,
		          "this target's copy is lost; readers take another target's");
		fsck_text(w.todo, "remove the file: the log's other targets give a new one its "
		                  "records");
	}
	fsck_found(f, &w);
}

/**
 * The lowest position behind `from` that the chain from the last record reaches by whole headers.
 */
static uint64_t
records_resume(struct fsck *f, const struct records *r, uint64_t from)
{
	uint64_t at = r->i->last.position;
	struct log_hdr h;

	/* A previous position is always lower, so the loop ends. */
	while (at > from && records_header(f, r, at, &h) == 0 && h.kind != LOG_FILLER &&
	       h.prev > from)
		at = h.prev;
	return at;
}

/** One record or filler; moves *at behind it. 1: its header is damaged. */
static int
records_one(struct fsck *f, struct records *r, struct weft_log_at *at)
{
	const uint64_t ring = r->g.ring_bytes;
	struct log_hdr h;
	uint32_t crc = 0;
	int rc = records_header(f, r, at->position, &h);

	if (rc != 0 && rc != -EBADMSG && rc != -ENXIO)
		return rc;
	if (rc != 0 || h.seq != at->seq || h.epoch < r->least_epoch || h.epoch > r->i->last_epoch ||
	    log_hdr_end(&r->g, &h) > r->i->end.position)
		return 1;
	if (h.kind == LOG_FILLER) {
		at->position += log_record_bytes(h.len_bytes);
		return 0;
	}
	rc = fsck_crc(f, WEFT_LOG_RING_OFF + at->position % ring + WEFT_LOG_HEADER_BYTES,
	              h.len_bytes, &crc);
	if (rc == -ENXIO)
		records_damaged(f, r, at->position, log_record_bytes(h.len_bytes),
		                "behind the end of the medium");
	else if (rc != 0)
		return rc;
	else if (crc != h.crc)
		records_damaged(f, r, at->position, log_record_bytes(h.len_bytes),
		                "the data of one does not have its checksum");
	*at = (struct weft_log_at){.seq = h.seq + 1, .position = log_hdr_end(&r->g, &h)};
	r->least_epoch = h.epoch;
	return 0;
}

int
fsck_log_records(struct fsck *f, const struct weft_log_image *i)
{
	struct records r = {.i = i};
	struct weft_log_at at = i->head;

	log_geom_of(&i->super, &r.g);
	while (at.position < i->end.position) {
		struct log_hdr h;
		uint64_t next;
		int rc = records_one(f, &r, &at);

		if (rc < 0)
			return fsck_fail(f, rc, "the record at position %" PRIu64 " cannot be read",
			                 at.position);
		if (rc == 0)
			continue;
		next = records_resume(f, &r, at.position);
		if (next <= at.position || records_header(f, &r, next, &h) != 0) {
			records_damaged(f, &r, at.position, i->end.position - at.position,
			                "their headers are damaged");
			return 0;
		}
		records_damaged(f, &r, at.position, next - at.position,
		                "their headers are damaged");
		at = (struct weft_log_at){.seq = h.seq, .position = next};
	}
	return 0;
}
