/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A volume (docs/volumes.md): the two copies of its superblock, and what has to be zero. */

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "fsck_volume.h"

/** Read one copy of the superblock. */
static void
volume_copy(struct fsck *f, unsigned int i, uint8_t *page, struct weft_vol_copies *c)
{
	c->why[i] = "it cannot be read";
	c->status[i] = fsck_read(f, i * (uint64_t)WEFT_VOL_COPY_AT, page, WEFT_VOL_SUPER_BYTES);
	if (c->status[i] == 0)
		c->status[i] =
		        weft_vol_super_decode(page, WEFT_VOL_SUPER_BYTES, &c->super[i], &c->why[i]);
}

bool
fsck_volume_copy(struct fsck *f)
{
	uint8_t page[WEFT_VOL_SUPER_BYTES];
	struct weft_vol_copies c;

	volume_copy(f, 1, page, &c);
	return c.status[1] == 0 || c.status[1] == -EPROTONOSUPPORT;
}

/** Whether the first MiB has nothing but a volume's superblock: no other format has begun there. */
static bool
volume_has_room(struct fsck *f)
{
	uint64_t first, last;

	return fsck_nonzero(f, WEFT_VOL_SUPER_BYTES, WEFT_VOL_COPY_AT, &first, &last) == 0 &&
	       fsck_nonzero(f, WEFT_VOL_COPY_AT + WEFT_VOL_SUPER_BYTES, WEFT_VOL_DATA_ALIGN, &first,
	                    &last) == 0;
}

/** Choose the copy to go on with, and mend the other one. -EBADMSG: none; it was reported. */
static int
volume_super(struct fsck *f, struct weft_vol_super *s)
{
	static const char *const name[] = {"the superblock", "the second copy of the superblock"};
	uint8_t page[2][WEFT_VOL_SUPER_BYTES];
	struct fsck_finding w = fsck_at(FSCK_LEFT, 0, WEFT_VOL_SUPER_BYTES);
	struct weft_vol_copies c;
	const char *why = "";
	char text[128];
	bool mend = false, refused;
	int best;

	for (unsigned int i = 0; i < 2; i++)
		volume_copy(f, i, page[i], &c);
	/* The target takes a first page of an unknown format for the page of another program's
	 * format. Here the second copy and all the zeros between them prove that it is damage. */
	refused = c.status[0] == -EMEDIUMTYPE;
	if (refused && c.status[1] == 0 &&
	    weft_vol_foreign(page[0], WEFT_VOL_SUPER_BYTES) == NULL && volume_has_room(f))
		c.status[0] = -EBADMSG;
	best = weft_vol_super_choose(&c, &mend, &why);
	if (best == -EPROTONOSUPPORT) {
		weft_vol_super_refusal(&c, best, why, text, sizeof(text));
		return fsck_fail(f, best, "a volume: %s", text);
	}
	if (best == -EMEDIUMTYPE && c.status[1] != 0)
		return fsck_fail(f, best, "not a volume: %s", why);
	if (best < 0) {
		fsck_text(w.what, "%s is damaged: %s; the second copy: %s", name[0], c.why[0],
		          c.status[1] == 0 ? "it is good, and may be a remainder" : c.why[1]);
		fsck_text(w.consequence, "weft-target does not open the export");
		fsck_text(w.todo, c.status[1] == 0
		                          ? "if the medium was not given to something else, write "
		                            "octets 65536 to 69631 over its first 4096"
		                          : "restore the volume from a backup");
		fsck_found(f, &w);
		return -EBADMSG;
	}
	*s = c.super[best];
	f->read_only = (s->ro_compat & ~WEFT_VOL_RO_COMPAT_KNOWN) != 0;
	/* A copy that the medium is too short for is part of what was cut. */
	if (!mend || c.status[1 - best] == -ENXIO)
		return 0;
	w.off_bytes = best == 0 ? WEFT_VOL_COPY_AT : 0;
	if (c.status[1 - best] == 0)
		fsck_text(w.what, "%s is older: generation %" PRIu64 ", the other one has %" PRIu64,
		          name[1 - best], c.super[1 - best].generation, s->generation);
	else
		fsck_text(w.what, "%s is damaged: %s", name[1 - best], c.why[1 - best]);
	fsck_text(w.consequence, "%s",
	          refused ? "weft-target does not open the export"
	                  : "weft-target uses the other copy, and writes this one again");
	return fsck_mend(f, &w, page[best]);
}

/** What lies between the parts is zero, unless a later version put something there. */
static int
volume_gaps(struct fsck *f, const struct weft_vol_super *s)
{
	const bool sums = (s->incompat & WEFT_VOL_INCOMPAT_SUMS) != 0;
	const struct {
		uint64_t begin, end;
		const char *where;
	} gap[] = {
	        {WEFT_VOL_SUPER_BYTES, WEFT_VOL_COPY_AT, "behind the superblock"},
	        {WEFT_VOL_COPY_AT + WEFT_VOL_SUPER_BYTES, sums ? s->map_at : s->data_at,
	         "behind the second copy of the superblock"},
	        {sums ? s->map_at + WEFT_VOL_MAPS * weft_vol_map_bytes(s->bytes) : 0,
	         sums ? s->sums_at : 0, "behind the maps"},
	        {sums ? s->sums_at + weft_vol_groups(s->bytes) * WEFT_VOL_SUM_BLOCK : 0,
	         sums ? s->data_at : 0, "behind the checksums"},
	};
	int rc = 0;

	if (s->compat != 0 || f->read_only)
		return 0;
	for (size_t i = 0; i < sizeof(gap) / sizeof(gap[0]) && rc == 0; i++)
		rc = fsck_zero_range(f, gap[i].begin, gap[i].end, gap[i].where);
	return rc;
}

int
fsck_volume(struct fsck *f, const uint8_t *page)
{
	struct weft_vol_super s;
	uint64_t unit;
	bool sums, cut;
	int rc = volume_super(f, &s);

	(void)page;
	if (rc == -EBADMSG)
		return 0;
	if (rc != 0)
		return rc;
	sums = (s.incompat & WEFT_VOL_INCOMPAT_SUMS) != 0;
	unit = sums ? WEFT_VOL_SUM_BLOCK : 1;
	fsck_text(f->r->about, "a volume of %" PRIu64 " octets%s", s.bytes,
	          sums ? ", with checksums" : "");
	cut = fsck_cut(f, s.data_at + (s.bytes + unit - 1) / unit * unit);
	rc = volume_gaps(f, &s);
	if (rc == 0 && sums && !(cut && f->m->bytes < s.data_at))
		rc = fsck_volume_sums(f, &s);
	return rc;
}
