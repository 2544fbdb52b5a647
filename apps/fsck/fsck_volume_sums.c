/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Maps, checksums and data of a volume with checksums (docs/volumes.md, "Checksums"). */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <weft/byteorder.h>

#include "fsck_volume.h"

#define GROUP_BLOCKS (WEFT_VOL_GROUP_BYTES / WEFT_VOL_SUM_BLOCK)

struct sums {
	const struct weft_vol_super *s;
	uint64_t groups, map_bytes, blocks;
	uint8_t *doubt;    /**< a bit for each group: what was written there is not known */
	uint64_t in_doubt; /**< bits that are set */
	uint8_t *data;     /**< memory for the data of a group */
	/** Damaged blocks that lie side by side are one finding. */
	uint64_t run_first, run_blocks;
	bool run_unreadable;
};

static bool
bit(const uint8_t *map, uint64_t i)
{
	return (map[i / 8] & 1U << i % 8) != 0;
}

/* ---- Maps ---- */

/** One piece of a map: collect its bits, and find bits behind the last group. */
static int
sums_map_piece(struct fsck *f, struct sums *u, uint64_t at, uint64_t octet, size_t n)
{
	const uint64_t used = (u->groups + 7) / 8;
	const uint8_t last = u->groups % 8 != 0 ? (uint8_t)((1U << u->groups % 8) - 1) : 0xff;
	struct fsck_finding w = fsck_at(FSCK_CAN_MEND, at, n);
	bool beyond = false;

	for (size_t i = 0; i < n; i++) {
		const uint64_t k = octet + i;
		const uint8_t mask = k < used ? (k == used - 1 ? last : 0xff) : 0;

		beyond = beyond || (f->buf[i] & ~mask) != 0;
		f->buf[i] &= mask;
		u->doubt[k] |= f->buf[i];
	}
	if (!beyond)
		return 0;
	fsck_text(w.what, "a map of changed groups is damaged: it names groups that do not exist");
	fsck_text(w.consequence,
	          "these bits mean nothing; others of the map may be wrong, too: then "
	          "good blocks can be reported as damaged after a crash");
	return fsck_mend(f, &w, f->buf);
}

static int
sums_maps(struct fsck *f, struct sums *u)
{
	const uint64_t end = u->s->map_at + WEFT_VOL_MAPS * u->map_bytes;
	struct fsck_finding w = fsck_at(FSCK_NOTE, u->s->map_at, end - u->s->map_at);

	for (uint64_t at = u->s->map_at; at < end;) {
		uint64_t octet = (at - u->s->map_at) % u->map_bytes;
		uint64_t n = u->map_bytes - octet;
		uint64_t skip = fsck_hole(f, at, n);
		int rc;

		if (skip > 0) {
			at += skip;
			continue;
		}
		/* A page at a time, so that a finding is no larger than what is damaged. */
		n = n < FSCK_PAGE ? n : FSCK_PAGE;
		rc = fsck_read(f, at, f->buf, n);
		if (rc != 0)
			return fsck_fail(f, rc, "the maps of changed groups cannot be read: %s",
			                 strerror(-rc));
		rc = sums_map_piece(f, u, at, octet, n);
		if (rc != 0)
			return rc;
		at += n;
	}
	for (uint64_t g = 0; g < u->groups; g++)
		u->in_doubt += bit(u->doubt, g);
	if (u->in_doubt == 0)
		return 0;
	fsck_text(w.what,
	          "the volume was not closed: %" PRIu64 " of %" PRIu64 " groups were being written",
	          u->in_doubt, u->groups);
	fsck_text(w.consequence, "what is read there is not compared with checksums until a scrub "
	                         "has made them again");
	if (!f->o->data)
		fsck_text(w.todo, "let the target scrub the volume, or use --data --repair");
	fsck_found(f, &w);
	return 0;
}

/** No group is in doubt any more but those of u->doubt: as a target that closes the volume. */
static int
sums_clear(struct fsck *f, const struct sums *u)
{
	struct fsck_finding w = fsck_at(FSCK_MENDED, u->s->map_at, WEFT_VOL_MAPS * u->map_bytes);
	int rc = 0;

	/* First the doubts that remain, then the other maps. */
	for (uint64_t map = 0; map < WEFT_VOL_MAPS && rc == 0; map++) {
		for (uint64_t at = 0; at < u->map_bytes && rc == 0; at += FSCK_BUF_BYTES) {
			const uint64_t off = u->s->map_at + map * u->map_bytes + at;
			size_t n = u->map_bytes - at < FSCK_BUF_BYTES ? u->map_bytes - at
			                                              : FSCK_BUF_BYTES;

			if (map > 0 && fsck_hole(f, off, n) == n)
				continue;
			if (map == 0)
				memcpy(f->buf, u->doubt + at, n);
			else
				memset(f->buf, 0, n);
			rc = f->m->write(f->m, off, f->buf, n);
		}
	}
	if (rc != 0)
		return fsck_fail(f, rc, "the maps of changed groups cannot be written: %s",
		                 strerror(-rc));
	fsck_text(w.what, "the maps of changed groups say that the volume was closed");
	fsck_text(w.consequence,
	          "all blocks that were read are compared with their checksums again");
	fsck_found(f, &w);
	return 0;
}

/* ---- Data ---- */

/** Report the run of damaged blocks. */
static void
sums_run_end(struct fsck *f, struct sums *u)
{
	const uint64_t at = u->run_first * WEFT_VOL_SUM_BLOCK;
	const uint64_t len = u->run_blocks * WEFT_VOL_SUM_BLOCK;
	struct fsck_finding w = fsck_at(FSCK_LEFT, u->s->data_at + at, len);

	if (u->run_blocks == 0)
		return;
	fsck_text(w.what,
	          "%" PRIu64 " block%s of data, octets %" PRIu64 " to %" PRIu64
	          " of the volume: %s",
	          u->run_blocks, u->run_blocks == 1 ? "" : "s", at, at + len - 1,
	          u->run_unreadable ? "cannot be read" : "damaged, or their checksums are");
	fsck_text(w.consequence, "reads of them fail; other blocks are served");
	fsck_text(w.todo, "write them again, whole, from a backup");
	fsck_found(f, &w);
	u->run_blocks = 0;
}

static void
sums_run_add(struct fsck *f, struct sums *u, uint64_t block, bool unreadable)
{
	if (u->run_blocks > 0 &&
	    (u->run_first + u->run_blocks != block || u->run_unreadable != unreadable))
		sums_run_end(f, u);
	if (u->run_blocks == 0)
		u->run_first = block;
	u->run_blocks++;
	u->run_unreadable = unreadable;
}

/** Read the data of a group; of what fails, block by block. Sets bits of blocks that failed. */
static bool
sums_read(struct fsck *f, const struct sums *u, uint64_t at, uint64_t blocks, uint8_t *failed)
{
	memset(failed, 0, GROUP_BLOCKS / 8);
	if (fsck_read(f, at, u->data, blocks * WEFT_VOL_SUM_BLOCK) == 0)
		return true;
	for (uint64_t i = 0; i < blocks; i++)
		if (fsck_read(f, at + i * WEFT_VOL_SUM_BLOCK, u->data + i * WEFT_VOL_SUM_BLOCK,
		              WEFT_VOL_SUM_BLOCK) != 0)
			failed[i / 8] |= (uint8_t)(1U << i % 8);
	return false;
}

/** A group in doubt has checksums that are not those of its data: they are made again. */
static int
sums_again(struct fsck *f, struct sums *u, uint64_t g, uint8_t *page, uint64_t wrong)
{
	struct fsck_finding w =
	        fsck_at(FSCK_CAN_MEND, u->s->sums_at + g * WEFT_VOL_SUM_BLOCK, WEFT_VOL_SUM_BLOCK);

	fsck_text(w.what,
	          "the group at octet %" PRIu64 " of the volume, which was being written: %" PRIu64
	          " blocks do not have their checksums",
	          g * WEFT_VOL_GROUP_BYTES, wrong);
	fsck_text(w.consequence, "as after a crash; damage of these blocks could not be found");
	return fsck_mend(f, &w, page);
}

static int
sums_group(struct fsck *f, struct sums *u, uint64_t g)
{
	const uint64_t first = g * GROUP_BLOCKS;
	const uint64_t n = u->blocks - first < GROUP_BLOCKS ? u->blocks - first : GROUP_BLOCKS;
	const uint64_t at = u->s->data_at + g * WEFT_VOL_GROUP_BYTES;
	const uint64_t page_at = u->s->sums_at + g * WEFT_VOL_SUM_BLOCK;
	const bool doubted = bit(u->doubt, g);
	uint8_t page[WEFT_VOL_SUM_BLOCK], failed[GROUP_BLOCKS / 8];
	uint64_t wrong = 0;
	bool all;
	int rc;

	/* Zeros have the checksum 0. */
	if (fsck_hole(f, at, n * WEFT_VOL_SUM_BLOCK) == n * WEFT_VOL_SUM_BLOCK &&
	    fsck_hole(f, page_at, sizeof(page)) == sizeof(page))
		goto settled;
	rc = fsck_read(f, page_at, page, sizeof(page));
	if (rc != 0)
		return fsck_fail(f, rc, "the checksums at octet %" PRIu64 " cannot be read: %s",
		                 page_at, strerror(-rc));
	all = sums_read(f, u, at, n, failed);
	for (uint64_t i = 0; i < n; i++) {
		uint32_t is, want = weft_get_be32(page + 4 * i);

		if (bit(failed, i)) {
			sums_run_add(f, u, first + i, true);
			continue;
		}
		is = weft_vol_block_sum(u->data + i * WEFT_VOL_SUM_BLOCK);
		if (is == want)
			continue;
		if (!doubted)
			sums_run_add(f, u, first + i, false);
		weft_put_be32(page + 4 * i, is);
		wrong++;
	}
	if (!doubted)
		return 0;
	/* A group that cannot be read stays in doubt. */
	if (!all)
		return 0;
	if (wrong > 0) {
		rc = sums_again(f, u, g, page, wrong);
		if (rc != 0)
			return rc;
	}
settled:
	u->doubt[g / 8] &= (uint8_t) ~(1U << g % 8);
	return 0;
}

static int
sums_data(struct fsck *f, struct sums *u)
{
	int rc = 0;

	for (uint64_t g = 0; g < u->groups && rc == 0; g++) {
		rc = sums_group(f, u, g);
		fsck_progress(f, (g + 1) * WEFT_VOL_GROUP_BYTES, u->groups * WEFT_VOL_GROUP_BYTES);
	}
	sums_run_end(f, u);
	if (rc == 0 && u->in_doubt > 0 && f->o->repair && !f->read_only)
		rc = sums_clear(f, u);
	return rc;
}

int
fsck_volume_sums(struct fsck *f, const struct weft_vol_super *s)
{
	struct sums u = {.s = s,
	                 .groups = weft_vol_groups(s->bytes),
	                 .map_bytes = weft_vol_map_bytes(s->bytes),
	                 .blocks = (s->bytes + WEFT_VOL_SUM_BLOCK - 1) / WEFT_VOL_SUM_BLOCK};
	int rc = 0;

	u.doubt = calloc(1, u.map_bytes);
	u.data = malloc(WEFT_VOL_GROUP_BYTES);
	if (u.doubt == NULL || u.data == NULL)
		rc = fsck_fail(f, -ENOMEM, "no memory for the maps of changed groups");
	if (rc == 0)
		rc = sums_maps(f, &u);
	if (rc == 0 && f->o->data)
		rc = sums_data(f, &u);
	free(u.doubt);
	free(u.data);
	return rc;
}
