/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Reads, writes and findings of all formats. */

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <isa-l.h>

#include "fsck_priv.h"

const char *
fsck_format_str(enum fsck_format format)
{
	static const char *const name[] = {[FSCK_ANY] = "none",
	                                   [FSCK_OBJECT] = "object",
	                                   [FSCK_LOG] = "log",
	                                   [FSCK_VOLUME] = "volume"};

	return name[format];
}

const char *
fsck_state_str(enum fsck_state state)
{
	static const char *const name[] = {[FSCK_NOTE] = "note",
	                                   [FSCK_LEFT] = "damaged",
	                                   [FSCK_CAN_MEND] = "mendable",
	                                   [FSCK_MENDED] = "mended"};

	return name[state];
}

int
fsck_fail(struct fsck *f, int rc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->r->reason, sizeof(f->r->reason), fmt, ap);
	va_end(ap);
	return rc;
}

struct fsck_finding
fsck_at(enum fsck_state state, uint64_t off_bytes, uint64_t len_bytes)
{
	return (struct fsck_finding){
	        .state = state, .off_bytes = off_bytes, .len_bytes = len_bytes};
}

void
fsck_text(char *text, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(((struct fsck_finding *)NULL)->what), fmt, ap);
	va_end(ap);
}

void
fsck_found(struct fsck *f, const struct fsck_finding *what)
{
	f->r->count[what->state]++;
	if (f->o->found != NULL)
		f->o->found(f->o->owner, what);
}

/** Write octets, or zeros if there are none. */
static int
write_octets(struct fsck *f, uint64_t off, uint64_t len, const uint8_t *octets)
{
	static const uint8_t zeros[65536];
	int rc = 0;

	if (octets != NULL)
		return f->m->write(f->m, off, octets, len);
	while (len > 0 && rc == 0) {
		size_t n = len < sizeof(zeros) ? len : sizeof(zeros);

		rc = f->m->write(f->m, off, zeros, n);
		off += n;
		len -= n;
	}
	return rc;
}

int
fsck_mend(struct fsck *f, struct fsck_finding *what, const void *octets)
{
	int rc = 0;

	what->state = FSCK_CAN_MEND;
	fsck_text(what->todo, "--repair mends it");
	if (f->read_only) {
		what->state = FSCK_LEFT;
		fsck_text(what->todo, "this version of weft-fsck may not write to this medium");
	} else if (f->o->repair) {
		rc = write_octets(f, what->off_bytes, what->len_bytes, octets);
		what->state = rc == 0 ? FSCK_MENDED : FSCK_LEFT;
		fsck_text(what->todo, "%s", rc == 0 ? "" : "replace the medium");
	}
	fsck_found(f, what);
	if (rc != 0)
		return fsck_fail(f, rc, "octet %" PRIu64 " cannot be written: %s", what->off_bytes,
		                 strerror(-rc));
	return 0;
}

int
fsck_read(struct fsck *f, uint64_t off, void *buf, size_t len)
{
	if (off > f->m->bytes || len > f->m->bytes - off)
		return -ENXIO;
	return f->m->read(f->m, off, buf, len);
}

uint64_t
fsck_hole(struct fsck *f, uint64_t off, uint64_t len)
{
	if (f->m->hole == NULL || off > f->m->bytes || len > f->m->bytes - off)
		return 0;
	return f->m->hole(f->m, off, len);
}

int
fsck_nonzero(struct fsck *f, uint64_t begin, uint64_t end, uint64_t *first, uint64_t *last)
{
	bool any = false;

	while (begin < end) {
		uint64_t n = fsck_hole(f, begin, end - begin);
		int rc;

		if (n > 0) {
			begin += n;
			continue;
		}
		n = end - begin < FSCK_BUF_BYTES ? end - begin : FSCK_BUF_BYTES;
		rc = fsck_read(f, begin, f->buf, n);
		if (rc != 0)
			return rc;
		for (uint64_t i = 0; i < n; i++) {
			if (f->buf[i] == 0)
				continue;
			*last = begin + i;
			if (!any)
				*first = *last;
			any = true;
		}
		begin += n;
	}
	return any;
}

int
fsck_zero_range(struct fsck *f, uint64_t begin, uint64_t end, const char *where)
{
	uint64_t first = 0, last = 0;
	struct fsck_finding w;
	int rc = fsck_nonzero(f, begin, end, &first, &last);

	if (rc == -ENXIO)
		return 0; /* reported: the medium was cut */
	if (rc < 0)
		return fsck_fail(f, rc, "octets %" PRIu64 " to %" PRIu64 " cannot be read: %s",
		                 begin, end - 1, strerror(-rc));
	if (rc == 0)
		return 0;
	w = fsck_at(FSCK_CAN_MEND, first, last - first + 1);
	fsck_text(w.what, "%s: octets that have to be zero are not", where);
	fsck_text(w.consequence, "none for the export; another program has written to the medium, "
	                         "or it is damaged");
	return fsck_mend(f, &w, NULL);
}

int
fsck_crc(struct fsck *f, uint64_t off, uint64_t len, uint32_t *crc)
{
	uint32_t c = UINT32_MAX;

	while (len > 0) {
		size_t n = len < FSCK_BUF_BYTES ? len : FSCK_BUF_BYTES;
		int rc = fsck_read(f, off, f->buf, n);

		if (rc != 0)
			return rc;
		c = crc32_iscsi(f->buf, (int)n, c);
		off += n;
		len -= n;
		fsck_progress(f, off, f->m->bytes);
	}
	*crc = ~c;
	return 0;
}

void
fsck_progress(struct fsck *f, uint64_t done, uint64_t total)
{
	if (f->o->progress != NULL)
		f->o->progress(f->o->owner, done, total);
}

bool
fsck_cut(struct fsck *f, uint64_t need)
{
	struct fsck_finding w = fsck_at(FSCK_LEFT, f->m->bytes, need - f->m->bytes);

	if (f->m->bytes >= need)
		return false;
	fsck_text(w.what,
	          "the medium was cut: it has %" PRIu64 " octets, the export needs %" PRIu64,
	          f->m->bytes, need);
	fsck_text(w.consequence, "weft-target does not open the export; what was behind the cut is "
	                         "lost");
	fsck_text(w.todo,
	          "restore it from a backup; to reach what is left of a file: truncate -s %" PRIu64,
	          need);
	fsck_found(f, &w);
	return true;
}
