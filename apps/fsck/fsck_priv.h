/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_FSCK_PRIV_H
#define WEFT_APPS_FSCK_PRIV_H

/** @file What the examinations of the three formats share. */

#include "fsck.h"

#define FSCK_PAGE      4096U
#define FSCK_BUF_BYTES (1U << 20)

/** One examination. */
struct fsck {
	struct fsck_medium *m;
	const struct fsck_options *o;
	struct fsck_result *r;
	uint8_t *buf; /**< FSCK_BUF_BYTES at a multiple of 4096; for each function's own use */
	/** writing is impossible or not allowed: what could be mended is left */
	bool read_only;
};

/** End the examination: set the reason. Returns rc. */
int fsck_fail(struct fsck *f, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/** A finding without its texts. */
struct fsck_finding fsck_at(enum fsck_state state, uint64_t off_bytes, uint64_t len_bytes);
/** Set one of a finding's texts. */
void fsck_text(char *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** Count and report a finding. */
void fsck_found(struct fsck *f, const struct fsck_finding *what);
/**
 * Damage whose right octets are known (NULL: zeros): write them with --repair, and report the
 * finding, whose state and todo are set here. -errno: they could not be written.
 */
int fsck_mend(struct fsck *f, struct fsck_finding *what, const void *octets);

/** Read. -ENXIO: the medium ends before the range does. */
int fsck_read(struct fsck *f, uint64_t off, void *buf, size_t len);
/** Octets from off on, at most len, that need not be read because they are zeros. */
uint64_t fsck_hole(struct fsck *f, uint64_t off, uint64_t len);
/**
 * Look for octets that are not zero in [begin, end). 0: all are zero. 1: *first and *last are the
 * first and the last one. -errno.
 */
int fsck_nonzero(struct fsck *f, uint64_t begin, uint64_t end, uint64_t *first, uint64_t *last);
/** The range has to be zero: find and mend what is not. */
int fsck_zero_range(struct fsck *f, uint64_t begin, uint64_t end, const char *where);
/** The CRC32c of a range of the medium, as iSCSI has it. -ENXIO as above, or -errno. */
int fsck_crc(struct fsck *f, uint64_t off, uint64_t len, uint32_t *crc);
void fsck_progress(struct fsck *f, uint64_t done, uint64_t total);

/** The medium has fewer octets than its format says: report it. Returns whether it is so. */
bool fsck_cut(struct fsck *f, uint64_t need);

/* ---- One function for each format; page is the medium's first one ---- */

int fsck_object(struct fsck *f, const uint8_t *page);
int fsck_log(struct fsck *f, const uint8_t *page);
int fsck_volume(struct fsck *f, const uint8_t *page);
/** Whether the page is the format's superblock in which octets changed that its CRC proves. */
bool fsck_object_proven(struct fsck *f, const uint8_t *page, uint8_t *right);
bool fsck_log_proven(struct fsck *f, const uint8_t *page, uint8_t *right);
/** Whether the second copy of a volume's superblock is good. */
bool fsck_volume_copy(struct fsck *f);

#endif /* WEFT_APPS_FSCK_PRIV_H */
