/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What a medium is, and the examination that belongs to it. */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fsck_priv.h"
#include "weft_volume_format.h"

/** The format that the first page shows by its magic. */
static enum fsck_format
run_magic(const uint8_t *page)
{
	static const struct {
		const char *magic;
		enum fsck_format format;
	} known[] = {{"WEFTEXP1", FSCK_OBJECT}, {"WEFTLOG1", FSCK_LOG}, {"WEFTVOL1", FSCK_VOLUME}};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (memcmp(page, known[i].magic, 8) == 0)
			return known[i].format;
	return FSCK_ANY;
}

/** The format, where the first page has no magic of weft's. FSCK_ANY: the medium is all zero. */
static int
run_look(struct fsck *f, const uint8_t *page, enum fsck_format *format)
{
	uint8_t right[FSCK_PAGE];
	uint64_t first, last;
	const char *foreign = weft_vol_foreign(page, FSCK_PAGE);
	int rc;

	/* A rest of a volume behind the beginning of something else is no volume. */
	if (foreign != NULL)
		return fsck_fail(f, -EMEDIUMTYPE, "not an export of weft: %s", foreign);
	if (fsck_object_proven(f, page, right)) {
		*format = FSCK_OBJECT;
		return 0;
	}
	if (fsck_log_proven(f, page, right)) {
		*format = FSCK_LOG;
		return 0;
	}
	if (fsck_volume_copy(f)) {
		*format = FSCK_VOLUME;
		return 0;
	}
	rc = fsck_nonzero(f, 0, f->m->bytes, &first, &last);
	if (rc < 0)
		return fsck_fail(f, rc, "the medium cannot be read: %s", strerror(-rc));
	if (rc > 0)
		return fsck_fail(f, -EMEDIUMTYPE,
		                 "not an export of weft: data of an unknown format, first at octet "
		                 "%" PRIu64 "; --format examines it as what it was",
		                 first);
	return 0;
}

static int
run_format(struct fsck *f, const uint8_t *page)
{
	enum fsck_format seen = run_magic(page), want = f->o->format;
	int rc = 0;

	if (seen == FSCK_ANY && want == FSCK_ANY)
		rc = run_look(f, page, &seen);
	else if (seen == FSCK_ANY)
		seen = want;
	if (rc != 0)
		return rc;
	if (want != FSCK_ANY && seen != want)
		return fsck_fail(f, -EMEDIUMTYPE, "not %s but %s", fsck_format_str(want),
		                 fsck_format_str(seen));
	f->r->format = seen;
	switch (seen) {
	case FSCK_OBJECT:
		return fsck_object(f, page);
	case FSCK_LOG:
		return fsck_log(f, page);
	case FSCK_VOLUME:
		return fsck_volume(f, page);
	case FSCK_ANY:
		break;
	}
	fsck_text(f->r->about, "never formatted: all of it is zero");
	return 0;
}

int
fsck_run(struct fsck_medium *m, const struct fsck_options *options, struct fsck_result *result)
{
	struct fsck f = {.m = m, .o = options, .r = result};
	uint8_t page[FSCK_PAGE] = {0};
	void *mem = NULL;
	int rc;

	*result = (struct fsck_result){0};
	fsck_text(result->about, "damaged");
	if (m->bytes < FSCK_PAGE)
		return fsck_fail(&f, -EMEDIUMTYPE,
		                 "not an export of weft: it has %" PRIu64 " octets", m->bytes);
	if (posix_memalign(&mem, FSCK_PAGE, FSCK_BUF_BYTES) != 0)
		return fsck_fail(&f, -ENOMEM, "no memory");
	f.buf = mem;
	rc = fsck_read(&f, 0, page, sizeof(page));
	/* A volume has a second copy of what cannot be read. */
	if (rc != 0 && !fsck_volume_copy(&f))
		rc = fsck_fail(&f, rc, "its first page cannot be read: %s", strerror(-rc));
	else
		rc = run_format(&f, page);
	free(mem);
	return rc;
}
